//! Segments of one version: from the cache, from a fetch that runs already, or from a fetch of their own.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use ndn_client::Endpoint;
use ndn_client::fetch::ObjectStream;
use ndn_security::Sha256Digest;
use tokio::sync::{OnceCell, watch};

use crate::cache::{ObjectKey, SegmentCache};
use crate::catalog::{Catalog, Resource};
use crate::disk_cache::CachedObject;
use crate::error::{AccessError, ErrorKind};
use crate::range_reader::{irregular, regular};
use crate::stat::Stat;

/// Missing segments with at most as many others between them are fetched together.
const GAP_MAX: u64 = 2;

/// Segments that are requested at once, without a window of their own.
const SINGLES_MAX: u64 = 8;

/// Length and segment length in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) size: u64,
    pub(crate) segment_size: u64,
}

impl Layout {
    /// Content bytes of a segment.
    pub(crate) fn length_of(self, segment: u64) -> u64 {
        self.segment_size.min(self.size.saturating_sub(segment * self.segment_size))
    }

    /// The last segment.
    pub(crate) fn last_segment(self) -> u64 {
        self.size.saturating_sub(1) / self.segment_size
    }

    /// The segments of the bytes from `offset` on; `None` if there are none before the end.
    pub(crate) fn segments_of(self, offset: u64, length: u64) -> Option<RangeInclusive<u64>> {
        let end = offset.saturating_add(length).min(self.size);
        (offset < end).then(|| offset / self.segment_size..=(end - 1) / self.segment_size)
    }
}

/// Where segments come from, and where they are kept.
#[derive(Debug, Clone)]
pub(crate) struct Sources {
    pub(crate) endpoint: Endpoint,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) cache: Arc<SegmentCache>,
    pub(crate) disk: Option<Arc<CachedObject>>,
}

/// One version of an object, shared by all files that are open on it.
#[derive(Debug)]
pub(crate) struct Object {
    /// The key of its segments in memory.
    key: ObjectKey,
    /// Properties of the version.
    pub(crate) stat: Stat,
    pub(crate) layout: Layout,
    sources: Sources,
    /// Parameters of fetches; not known while everything that was read was on disk.
    resource: OnceCell<Arc<Resource>>,
    /// Segments that are being fetched, with the end of their fetch.
    running: Mutex<HashMap<u64, watch::Receiver<()>>>,
}

impl Object {
    /// A version whose `resource` is looked up when something has to be fetched, unless it is known.
    pub(crate) fn new(
        key: ObjectKey,
        stat: Stat,
        layout: Layout,
        resource: Option<Arc<Resource>>,
        sources: Sources,
    ) -> Self {
        let resource = OnceCell::new_with(resource);
        Self { key, stat, layout, sources, resource, running: Mutex::default() }
    }

    pub(crate) fn cached(&self, segment: u64) -> Option<Bytes> {
        self.sources.cache.find(self.key, segment)
    }

    pub(crate) fn is_cached(&self, segment: u64) -> bool {
        self.sources.cache.contains(self.key, segment)
    }

    /// Whether the segment is being fetched.
    pub(crate) fn is_running(&self, segment: u64) -> bool {
        self.lock().contains_key(&segment)
    }

    /// The contents of these segments in memory, and from the first one that is not there on those on disk. Those beside them on
    /// disk are then in memory, too.
    pub(crate) async fn held(&self, segments: RangeInclusive<u64>) -> Vec<Option<Bytes>> {
        let cached = segments.clone().map_while(|segment| self.cached(segment));
        let mut held: Vec<Option<Bytes>> = cached.map(Some).collect();
        let next = segments.start() + u64::try_from(held.len()).unwrap_or(u64::MAX);
        if let Some(disk) = &self.sources.disk
            && next <= *segments.end()
        {
            let last = disk.last_beside(*segments.end()).min(self.layout.last_segment());
            let asked = usize::try_from(segments.end() - next + 1).unwrap_or(usize::MAX);
            let stored = self.stored(next..=last, asked).await;
            held.extend(stored.into_iter().take(asked));
        }
        held
    }

    /// The contents of segments as far as they are on disk; they become cached in memory. The first `asked` are those of a read.
    ///
    /// Nothing is fetched for it: segments are compared with the digests of a manifest that were fetched already. The others are
    /// found by the name with the version and the verification that accepted them, and have the digest that was stored with them:
    /// a damaged segment is missing.
    async fn stored(&self, segments: RangeInclusive<u64>, asked: usize) -> Vec<Option<Bytes>> {
        let Some(disk) = &self.sources.disk else { return Vec::new() };
        let expected = self.expected(segments.clone());
        let found = disk.read(segments.clone(), asked, expected).await;
        for (segment, content) in segments.zip(&found) {
            if let Some(content) = content {
                self.sources.cache.insert(self.key, segment, content.clone());
            }
        }
        found
    }

    /// The digests of the packets that a manifest lists, as far as they were fetched.
    fn expected(&self, segments: RangeInclusive<u64>) -> Vec<Option<Sha256Digest>> {
        let Some(resource) = self.resource.get() else { return Vec::new() };
        let verification = &resource.fetching.verification;
        segments.map(|segment| verification.expected(segment)).collect()
    }

    /// Keeps a segment that was fetched, in memory and on disk.
    fn keep(&self, resource: &Resource, segment: u64, content: &Bytes) {
        self.sources.cache.insert(self.key, segment, content.clone());
        if let Some(disk) = &self.sources.disk {
            let expected = resource.fetching.verification.expected(segment);
            disk.offer(segment, expected, content.clone());
        }
    }

    async fn resource(&self) -> Result<&Arc<Resource>, AccessError> {
        let look_up = || async {
            let found = self.sources.catalog.find(&self.stat.name).await?;
            let layout = found.layout().map(|(size, segment_size)| Layout { size, segment_size });
            match layout.is_none_or(|layout| layout == self.layout) {
                true => Ok(found),
                false => {
                    let text = format!("{} has another length now", self.stat.name);
                    Err(AccessError::new(ErrorKind::Changed, text))
                }
            }
        };
        self.resource.get_or_try_init(look_up).await
    }

    /// Fetches from `first` on, without end; at most `ahead` bytes more than the caller takes.
    pub(crate) async fn stream(&self, first: u64, ahead: u64) -> Result<ObjectStream, AccessError> {
        let resource = self.resource().await?;
        let mut fetching = resource.fetching.clone();
        let segments = u32::try_from(ahead / self.layout.segment_size).unwrap_or(u32::MAX);
        fetching.config.buffer_segments = segments.clamp(1, fetching.config.buffer_segments);
        Ok(self.sources.endpoint.fetch_found(resource.found.clone(), first, &fetching))
    }

    /// Checks `content`, which a fetch returned as `segment`, and keeps it.
    pub(crate) async fn accept(
        &self,
        content: Option<Bytes>,
        segment: u64,
        stream: &ObjectStream,
    ) -> Result<Bytes, AccessError> {
        let content = regular(content, self.layout.length_of(segment), stream)?;
        self.keep(self.resource().await?, segment, &content);
        Ok(content)
    }

    /// The contents of these segments, in order.
    pub(crate) async fn segments(
        &self,
        requested: RangeInclusive<u64>,
    ) -> Result<Vec<Bytes>, AccessError> {
        self.segments_counted(requested, CountMisses::All).await
    }

    /// Takes these segments into memory: from the disk, or from the network if it does not have them. Those that the disk lacks are
    /// not counted there: no read asked for them.
    pub(crate) async fn fetch_ahead(
        &self,
        segments: RangeInclusive<u64>,
    ) -> Result<(), AccessError> {
        self.segments_counted(segments, CountMisses::None).await.map(drop)
    }

    /// As [`Self::segments`].
    async fn segments_counted(
        &self,
        requested: RangeInclusive<u64>,
        misses: CountMisses,
    ) -> Result<Vec<Bytes>, AccessError> {
        // They are held from now on: memory may lose those that it has while the disk is asked for the others.
        let mut contents: Vec<_> = requested.clone().map(|segment| self.cached(segment)).collect();
        let missing = contents.iter().position(Option::is_none);
        let missing = missing.zip(contents.iter().rposition(Option::is_none));
        if self.sources.disk.is_some()
            && let Some((first, last)) = missing
        {
            let asked = match misses {
                CountMisses::All => usize::MAX,
                CountMisses::None => 0,
            };
            let number = |index: usize| requested.start() + u64::try_from(index).unwrap_or(0);
            let stored = self.stored(number(first)..=number(last), asked).await;
            for (content, stored) in contents[first..].iter_mut().zip(stored) {
                *content = content.take().or(stored);
            }
        }
        self.complete(requested, contents).await
    }

    /// As [`Self::segments`], after the disk was asked, which had `contents` of the first ones.
    pub(crate) async fn complete(
        &self,
        requested: RangeInclusive<u64>,
        mut contents: Vec<Option<Bytes>>,
    ) -> Result<Vec<Bytes>, AccessError> {
        let index = |segment: u64| usize::try_from(segment - *requested.start()).unwrap_or(0);
        contents.resize(index(*requested.end()) + 1, None);
        loop {
            let mut missing = Vec::new();
            for (segment, content) in requested.clone().zip(&mut contents) {
                if content.is_none() {
                    *content = self.cached(segment);
                }
                if content.is_none() {
                    missing.push(segment);
                }
            }
            if missing.is_empty() {
                return Ok(contents.into_iter().flatten().collect());
            }
            match self.claim(&missing) {
                // Another fetch has ended meanwhile.
                Claim::Fetch(claimed) if self.is_cached(*claimed.segments.start()) => {}
                Claim::Fetch(claimed) => {
                    let run = claimed.segments.clone();
                    for (segment, content) in run.clone().zip(self.fetch(run).await?) {
                        contents[index(segment)] = Some(content);
                    }
                }
                // It ends when its sender is dropped.
                Claim::Wait(mut end) => while end.changed().await.is_ok() {},
            }
        }
    }

    /// Takes a run of missing segments for the caller to fetch, or the fetch that the first one waits for.
    fn claim(&self, missing: &[u64]) -> Claim<'_> {
        let mut running = self.lock();
        if let Some(end) = missing.first().and_then(|first| running.get(first)) {
            return Claim::Wait(end.clone());
        }
        let first = missing[0];
        let mut last = first;
        for &segment in missing {
            if segment > last + 1 + GAP_MAX || running.contains_key(&segment) {
                break;
            }
            last = segment;
        }
        let (end, receiver) = watch::channel(());
        for segment in first..=last {
            running.entry(segment).or_insert_with(|| receiver.clone());
        }
        Claim::Fetch(Claimed { object: self, segments: first..=last, receiver, _end: end })
    }

    async fn fetch(&self, run: RangeInclusive<u64>) -> Result<Vec<Bytes>, AccessError> {
        let (first, last) = (*run.start(), *run.end());
        let resource = self.resource().await?;
        let (found, fetching) = (&resource.found, &resource.fetching);
        let endpoint = &self.sources.endpoint;
        if last - first < SINGLES_MAX && found.is_segmented() {
            let single = |segment| async move {
                let received = endpoint.fetch_segment(found, segment, fetching).await?;
                // A copy, as the content is a small part of what was received with it.
                let content = Bytes::copy_from_slice(&received.content());
                if u64::try_from(content.len()) != Ok(self.layout.length_of(segment)) {
                    return Err(irregular(&found.name().to_uri()));
                }
                self.keep(resource, segment, &content);
                Ok(content)
            };
            return futures_util::future::try_join_all(run.map(single)).await;
        }
        let mut fetching = fetching.clone();
        fetching.config.last_segment_needed = Some(last);
        let mut stream = endpoint.fetch_found(found.clone(), first, &fetching);
        let mut contents = Vec::new();
        for segment in run {
            let content = stream.next().await?;
            contents.push(self.accept(content, segment, &stream).await?);
        }
        Ok(contents)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, watch::Receiver<()>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which of the segments that the disk lacks are counted there.
#[derive(Debug, Clone, Copy)]
enum CountMisses {
    All,
    None,
}

enum Claim<'a> {
    Fetch(Claimed<'a>),
    Wait(watch::Receiver<()>),
}

/// Segments that the owner fetches; others wait for it, until it is dropped.
struct Claimed<'a> {
    object: &'a Object,
    segments: RangeInclusive<u64>,
    receiver: watch::Receiver<()>,
    _end: watch::Sender<()>,
}

impl Drop for Claimed<'_> {
    fn drop(&mut self) {
        let mut running = self.object.lock();
        for segment in self.segments.clone() {
            let is_own = |end: &watch::Receiver<()>| end.same_channel(&self.receiver);
            if running.get(&segment).is_some_and(is_own) {
                running.remove(&segment);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_map_to_segments() {
        let layout = Layout { size: 2500, segment_size: 1000 };
        assert_eq!([0, 1, 2, 3].map(|segment| layout.length_of(segment)), [1000, 1000, 500, 0]);
        assert_eq!(layout.segments_of(0, 1), Some(0..=0));
        assert_eq!(layout.segments_of(999, 2), Some(0..=1));
        assert_eq!(layout.segments_of(2499, 1), Some(2..=2));
        assert_eq!(layout.segments_of(0, u64::MAX), Some(0..=2));
        assert_eq!(layout.segments_of(5, 0), None);
        assert_eq!(layout.segments_of(2500, 10), None);
        assert_eq!(layout.segments_of(u64::MAX, u64::MAX), None);
    }
}
