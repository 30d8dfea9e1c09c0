//! Versions of status datasets, kept so that all segments of one version stay consistent while the
//! tables change (NFD wiki, `StatusDataset`).
//!
//! A version is encoded once and segmented on request: the cost of a segment does not depend on the size of the version.
//! Numbers of versions and of bytes are limited, and divided between the principals that requested the versions.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ndn_packet::{ComponentType, DataBuilder, Name, NameRef};
use ndn_types::{
    Capacity, LedgerReport, Now, PrincipalIndex, PrincipalKey, RankedLedger, Reserves, Resources,
    Timestamp,
};

/// Content of one segment: leaves room for name and signature in the largest practical packet.
pub const SEGMENT_SIZE: usize = ndn_packet::MAX_PACKET_SIZE - 800;

/// FreshnessPeriod of dataset segments, notifications and responses.
pub const FRESHNESS_MS: u64 = 1000;
/// The same.
pub(crate) const FRESHNESS: Duration = Duration::from_millis(FRESHNESS_MS);

/// Limits of a [`DatasetPublisher`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublisherLimits {
    /// Versions kept per prefix and principal.
    pub versions_per_prefix_max: usize,
    /// Versions kept over all prefixes, which principals share.
    pub versions_max: usize,
    /// Bytes kept over all prefixes, which principals share, the newest version not counted.
    pub bytes_max: usize,
    /// A version that is not requested during this time is dropped.
    pub idle: Duration,
    /// During this time, a version of unchanged tables answers discovery again.
    pub reuse: Duration,
}

impl Default for PublisherLimits {
    fn default() -> Self {
        Self {
            versions_per_prefix_max: 4,
            versions_max: 256,
            bytes_max: 256 << 20,
            idle: Duration::from_secs(30),
            reuse: FRESHNESS,
        }
    }
}

/// The bytes of a version, in runs that other versions may share.
#[derive(Debug, Clone, Default)]
pub struct Content {
    runs: Vec<Arc<[u8]>>,
    /// Where each run ends.
    ends: Vec<usize>,
}

impl Content {
    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Whether the length is 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The length, as far as a ledger counts.
    fn bytes_charged(&self) -> u32 {
        u32::try_from(self.len()).unwrap_or(u32::MAX)
    }

    /// The bytes from `start` to `end`, both within the length.
    fn bytes(&self, start: usize, end: usize) -> Cow<'_, [u8]> {
        let first = self.ends.partition_point(|run_end| *run_end <= start);
        let mut bytes = Vec::new();
        for (run, &run_end) in self.runs.iter().zip(&self.ends).skip(first) {
            let run_start = run_end - run.len();
            let part = &run[start.saturating_sub(run_start)..end.min(run_end) - run_start];
            if run_start <= start && end <= run_end {
                return Cow::Borrowed(part);
            }
            bytes.extend_from_slice(part);
            if end <= run_end {
                break;
            }
        }
        Cow::Owned(bytes)
    }
}

impl FromIterator<Arc<[u8]>> for Content {
    fn from_iter<I: IntoIterator<Item = Arc<[u8]>>>(runs: I) -> Self {
        let mut content = Self::default();
        for run in runs.into_iter().filter(|run| !run.is_empty()) {
            content.ends.push(content.len() + run.len());
            content.runs.push(run);
        }
        content
    }
}

impl From<Vec<u8>> for Content {
    fn from(bytes: Vec<u8>) -> Self {
        std::iter::once(Arc::from(bytes)).collect()
    }
}

/// The resources that versions take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PublishedResource {
    /// Versions.
    Versions,
    /// Their bytes.
    Bytes,
}

impl PublishedResource {
    /// Number of resources.
    pub const COUNT: usize = 2;
}

impl Resources<{ PublishedResource::COUNT }> for PublishedResource {
    const ALL: [Self; Self::COUNT] = [Self::Versions, Self::Bytes];

    fn index(self) -> usize {
        self as usize
    }

    fn name(self) -> &'static str {
        match self {
            Self::Versions => "dataset_versions",
            Self::Bytes => "dataset_bytes",
        }
    }
}

#[derive(Debug)]
struct Version {
    version: u64,
    /// The principal that requested it.
    owner: PrincipalIndex,
    content: Content,
    /// Generation of the table at the time of the version, if the table has one.
    generation: Option<u64>,
    created_at: Timestamp,
    used_at: Timestamp,
}

/// One segment, ready to be signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment<'a> {
    /// With version and segment number.
    pub name: Name,
    /// The bytes of the segment.
    pub content: Cow<'a, [u8]>,
    /// Number of the last segment.
    pub last_segment: u64,
}

impl Segment<'_> {
    /// The Data to be signed.
    #[must_use]
    pub fn data(&self) -> DataBuilder<'_> {
        DataBuilder::new(&self.name)
            .freshness_ms(FRESHNESS_MS)
            .final_segment(self.last_segment)
            .content(&self.content)
    }
}

/// Holds the recent versions of every dataset.
#[derive(Debug)]
pub struct DatasetPublisher {
    limits: PublisherLimits,
    datasets: BTreeMap<Name, VecDeque<Version>>,
    ledger: RankedLedger<PublishedResource, { PublishedResource::COUNT }>,
    last_version: u64,
}

/// Whether a name ends in a version, or in a version and a segment.
#[must_use]
pub fn is_versioned(name: NameRef<'_>) -> bool {
    split_version(name).is_some()
}

/// Prefix, version and optional segment.
fn split_version(name: NameRef<'_>) -> Option<(NameRef<'_>, u64, Option<u64>)> {
    let last = name.last()?;
    if let Some(version) = last.as_version() {
        return Some((name.parent(), version, None));
    }
    let segment = last.number_of_type(ComponentType::SEGMENT)?;
    let version = name.parent().last()?.as_version()?;
    Some((name.parent().parent(), version, Some(segment)))
}

impl DatasetPublisher {
    /// A publisher without versions.
    #[must_use]
    pub fn new(limits: PublisherLimits, reserves: Reserves) -> Self {
        let capacities = [limits.versions_max.max(1), limits.bytes_max].map(Capacity::of);
        let ledger = RankedLedger::new(capacities, reserves);
        Self { limits, datasets: BTreeMap::new(), ledger, last_version: 0 }
    }

    /// Returns the versions and bytes that each principal holds.
    #[must_use]
    pub fn report(&self) -> LedgerReport<{ PublishedResource::COUNT }> {
        self.ledger.report()
    }

    /// Number of versions.
    #[cfg(test)]
    fn version_count(&self) -> usize {
        self.ledger.used(PublishedResource::Versions) as usize
    }

    /// Number of bytes.
    #[cfg(test)]
    fn byte_count(&self) -> usize {
        self.ledger.used(PublishedResource::Bytes) as usize
    }

    /// The first segment of a recent version, if the table has not changed since it was published. A principal that has not
    /// requested it gets a version of its own with the same bytes, which does not give way with the other.
    pub fn reuse(
        &mut self,
        now: Now,
        (requester, prefix): (PrincipalKey, NameRef<'_>),
        generation: u64,
    ) -> Option<Segment<'_>> {
        let (reuse, now_at) = (self.limits.reuse, now.monotonic);
        let versions = self.datasets.get(prefix.value())?;
        let recent = || {
            versions.iter().enumerate().rev().filter(move |(_, version)| {
                version.generation == Some(generation) && now_at.since(version.created_at) < reuse
            })
        };
        let owner = self.ledger.attach(requester);
        let own = recent().find(|(_, version)| version.owner == owner);
        self.ledger.detach(owner);
        let Some((position, _)) = own else {
            let (_, version) = recent().next()?;
            let version = (version.content.clone(), Some(generation), version.created_at);
            return Some(self.add(now, (requester, prefix), version));
        };
        let version = self.datasets.get_mut(prefix.value())?.get_mut(position)?;
        version.used_at = now_at;
        version.segment(prefix, 0)
    }

    /// Publishes `content` as a new version under `prefix`, which a principal has requested, and returns its first segment.
    /// With the `generation` of the table, [`DatasetPublisher::reuse`] can find it again.
    pub fn publish(
        &mut self,
        now: Now,
        request: (PrincipalKey, NameRef<'_>),
        content: impl Into<Content>,
        generation: Option<u64>,
    ) -> Segment<'_> {
        self.add(now, request, (content.into(), generation, now.monotonic))
    }

    /// Adds a version with these bytes, of which the table had this generation at this time.
    fn add(
        &mut self,
        now: Now,
        (requester, prefix): (PrincipalKey, NameRef<'_>),
        (content, generation, created_at): (Content, Option<u64>, Timestamp),
    ) -> Segment<'_> {
        self.last_version = now.unix_us().max(self.last_version + 1);
        self.drop_idle(now);
        let owner = self.ledger.attach(requester);
        self.replace_oldest(owner, prefix);
        self.ledger.charge(owner, PublishedResource::Versions, 1);
        self.ledger.charge(owner, PublishedResource::Bytes, content.bytes_charged());
        self.datasets.entry(prefix.to_name()).or_default().push_back(Version {
            version: self.last_version,
            owner,
            content,
            generation,
            created_at,
            used_at: now.monotonic,
        });
        self.settle();
        let versions = self.datasets.entry(prefix.to_name()).or_default();
        let newest = versions.len() - 1;
        versions[newest].first_segment(prefix)
    }

    /// The segment of a name with version and segment number; the first segment of a name with a version only.
    pub fn find(&mut self, now: Now, name: NameRef<'_>) -> Option<Segment<'_>> {
        let (prefix, version, segment) = split_version(name)?;
        let versions = self.datasets.get_mut(prefix.value())?;
        let found = versions.iter_mut().find(|candidate| candidate.version == version)?;
        found.used_at = now.monotonic;
        found.segment(prefix, segment.unwrap_or(0))
    }

    /// The time at which the next version becomes idle.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let used = self.datasets.values().flatten().map(|version| version.used_at).min()?;
        Some(used + self.limits.idle)
    }

    /// Drops the versions that were not requested during the idle time.
    pub fn drop_idle(&mut self, now: Now) {
        let idle = self.limits.idle;
        self.retain(|version| version.used_at + idle > now.monotonic);
    }

    /// Drops the oldest version that a principal has under a prefix, if it has the maximum number.
    fn replace_oldest(&mut self, owner: PrincipalIndex, prefix: NameRef<'_>) {
        let versions = self.datasets.get(prefix.value()).into_iter().flatten();
        let mut own = versions.filter(|version| version.owner == owner).map(|v| v.version);
        let oldest = own.next();
        if let Some(oldest) = oldest
            && own.count() + 1 >= self.limits.versions_per_prefix_max.max(1)
        {
            self.retain(|version| version.version != oldest);
        }
    }

    /// Drops versions while there are too many: those of principals above their shares. Of a principal, those of one
    /// segment, which has been sent, go first: a stream of short answers does not keep it from reading long ones. The newest
    /// version stays.
    fn settle(&mut self) {
        for resource in PublishedResource::ALL {
            while let Some(debt) = self.ledger.debt(resource) {
                let newest = self.last_version;
                let of_debtor =
                    self.datasets.values().flatten().filter(|version| {
                        version.owner == debt.principal && version.version != newest
                    });
                let Some(least) = of_debtor.min_by_key(|version| version.worth()) else { break };
                let least = least.version;
                self.retain(|version| version.version != least);
            }
        }
    }

    fn retain(&mut self, keep: impl Fn(&Version) -> bool) {
        let Self { datasets, ledger, .. } = self;
        datasets.retain(|_, versions| {
            versions.retain(|version| {
                let is_kept = keep(version);
                if !is_kept {
                    ledger.release(version.owner, PublishedResource::Versions, 1);
                    let bytes = version.content.bytes_charged();
                    ledger.release(version.owner, PublishedResource::Bytes, bytes);
                    ledger.detach(version.owner);
                }
                is_kept
            });
            !versions.is_empty()
        });
    }
}

impl Version {
    /// Versions with less are dropped first.
    fn worth(&self) -> (bool, Timestamp, u64) {
        (self.content.len() > SEGMENT_SIZE, self.used_at, self.version)
    }

    /// An empty dataset has one empty segment.
    fn last_segment(&self) -> u64 {
        (self.content.len().saturating_sub(1) / SEGMENT_SIZE) as u64
    }

    fn segment(&self, prefix: NameRef<'_>, segment: u64) -> Option<Segment<'_>> {
        let start = usize::try_from(segment).ok()?.checked_mul(SEGMENT_SIZE)?;
        if segment > self.last_segment() {
            return None;
        }
        let end = self.content.len().min(start + SEGMENT_SIZE);
        let mut name = prefix.to_name();
        name.push_version(self.version).push_segment(segment);
        Some(Segment {
            name,
            content: self.content.bytes(start, end),
            last_segment: self.last_segment(),
        })
    }

    fn first_segment(&self, prefix: NameRef<'_>) -> Segment<'_> {
        let mut name = prefix.to_name();
        name.push_version(self.version).push_segment(0);
        let end = self.content.len().min(SEGMENT_SIZE);
        Segment { name, content: self.content.bytes(0, end), last_segment: self.last_segment() }
    }
}

#[cfg(test)]
mod tests;
