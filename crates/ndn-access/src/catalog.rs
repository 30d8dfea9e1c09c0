//! Cache of files, directories and manifests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ndn_client::Endpoint;
use ndn_client::fetch::{Discovery, FetchConfig, FetchOptions, FoundObject, ObjectStream};
use ndn_files::{FileMetadata, MetadataError, find_manifest};
use ndn_packet::Name;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use crate::error::{AccessError, ErrorKind};
use crate::versions::Versions;

/// Maximum number of cached files and directories.
const ENTRIES_MAX: usize = 4096;
/// Maximum number of bytes of cached manifests.
const MANIFEST_BYTES_MAX: u64 = 256 << 20;
/// Limit on all manifests in KiB: cached, in use by transfers, or being fetched.
const MANIFEST_ROOM: usize = 512 << 10;
/// Maximum number of concurrent look-ups.
pub const LOOKUPS_MAX: usize = 64;
/// Maximum time that a look-up waits for others before it is rejected.
const QUEUE_TIME: Duration = Duration::from_secs(30);
/// Maximum time that is waited for the metadata of a version which is not the current one.
const OTHER_VERSION_TIME: Duration = Duration::from_secs(1);
/// Bytes of a manifest per segment.
const DIGEST_LEN: u64 = 32;
/// Maximum lifetime of a cached failure. A lack of answers is not cached.
const FAILURE_LIFETIME_MAX: Duration = Duration::from_secs(1);

/// A file, a directory, or another object with metadata, in one version.
#[derive(Debug)]
pub struct Resource {
    /// The object to fetch.
    pub(crate) found: FoundObject,
    /// Fetch options; with a manifest, segments are verified by it.
    pub(crate) fetching: FetchOptions,
    details: Details,
    /// Segment length, if the metadata states it.
    segment_size: Option<u64>,
    /// Bytes of the manifest.
    weight: u64,
    /// Permit for the manifest, held while it is in use.
    room: Option<Arc<OwnedSemaphorePermit>>,
}

impl Resource {
    /// The name with its version.
    #[must_use]
    pub fn name(&self) -> &Name {
        self.found.name()
    }

    /// Properties that a listing states.
    #[must_use]
    pub fn details(&self) -> &Details {
        &self.details
    }

    /// Length in bytes and segment length, if the metadata states both: then ranges can be fetched.
    #[must_use]
    pub fn layout(&self) -> Option<(u64, u64)> {
        self.details.size.zip(self.segment_size)
    }

    /// The content as a stream, from its beginning.
    #[must_use]
    pub fn fetch(&self, endpoint: &Endpoint) -> ObjectStream {
        // Few listings have a second segment.
        let config = FetchConfig { first_alone: self.details.is_directory, ..self.fetching.config };
        let fetching = FetchOptions { config, ..self.fetching.clone() };
        endpoint.fetch_found(self.found.clone(), 0, &fetching)
    }
}

/// The properties of a file or directory that a listing states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Details {
    /// Name with version.
    pub name: Name,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// Length in bytes; files only.
    pub size: Option<u64>,
    /// Time of the last change, in nanoseconds since 1970.
    pub modified_ns: Option<u64>,
    /// Type and permissions as in `st_mode`; 0 without file metadata.
    pub mode: u64,
}

impl Details {
    fn new(name: &Name, metadata: Option<&FileMetadata>) -> Self {
        Self {
            name: name.clone(),
            is_directory: metadata.is_some_and(FileMetadata::is_directory),
            size: metadata.and_then(|metadata| metadata.size),
            modified_ns: metadata.and_then(|metadata| metadata.mtime_ns),
            mode: metadata.map_or(0, |metadata| metadata.mode),
        }
    }
}

type Known = Result<Arc<Resource>, AccessError>;

/// Cached result for one name; the task that looks it up holds the lock, and others wait for its
/// result.
#[derive(Default)]
struct Entry {
    known: tokio::sync::Mutex<Option<(Instant, Known)>>,
}

struct CachedEntry {
    entry: Arc<Entry>,
    used: Instant,
    weight: u64,
}

/// Finds files and directories, and caches them for a short time.
pub struct Catalog {
    endpoint: Endpoint,
    fetching: FetchOptions,
    lifetime: Duration,
    entries: Mutex<HashMap<Name, CachedEntry>>,
    look_ups: Semaphore,
    manifest_room: Arc<Semaphore>,
    /// Highest verified versions; `None`: older versions are served, too.
    versions: Option<Mutex<Versions>>,
}

impl Catalog {
    /// `fetching` determines how objects are fetched and verified, `lifetime` is that of cached metadata. With keys, an older
    /// version than one verified before is refused, unless `allow_older`.
    #[must_use]
    pub fn new(
        endpoint: Endpoint,
        fetching: &FetchOptions,
        lifetime: Duration,
        allow_older: bool,
    ) -> Self {
        let refuse_older = fetching.verification.is_by_key() && !allow_older;
        let fetching = FetchOptions { discovery: Discovery::Metadata, ..fetching.clone() };
        let look_ups = Semaphore::new(LOOKUPS_MAX);
        let manifest_room = Arc::new(Semaphore::new(MANIFEST_ROOM));
        let versions = refuse_older.then(Mutex::default);
        let entries = Mutex::default();
        Self { endpoint, fetching, lifetime, entries, look_ups, manifest_room, versions }
    }

    /// The current version of `name`, or the cached one within the lifetime. If `name` ends in a version, it has to be the current
    /// one.
    ///
    /// # Errors
    /// It does not exist, is not answered, or does not verify, also its manifest; `Changed` for the name of another version than the
    /// current one; `Busy` after 30 s in the queue.
    pub async fn find(&self, name: &Name) -> Result<Arc<Resource>, AccessError> {
        let entry = self.entry(name);
        let asked = Instant::now();
        let mut known = entry.known.lock().await;
        let earlier = match &*known {
            Some((when, found)) => {
                let lifetime = match found {
                    Ok(_) => self.lifetime,
                    Err(error) if error.is_temporary() => Duration::ZERO,
                    Err(_) => self.lifetime.min(FAILURE_LIFETIME_MAX),
                };
                // A result that arrived while this task waited is used, whatever the lifetime.
                if *when > asked || when.elapsed() < lifetime {
                    return found.clone();
                }
                found.as_ref().ok().cloned()
            }
            None => None,
        };
        let found = match timeout(QUEUE_TIME, self.look_ups.acquire()).await {
            Ok(_turn) => self.look_up(name, earlier.as_deref()).await,
            Err(_) => Err(busy(
                "limit of concurrent name look-ups of this process reached; try again later",
            )),
        };
        *known = Some((Instant::now(), found.clone()));
        drop(known);
        self.weigh(name, found.as_ref().map_or(0, |resource| resource.weight));
        found
    }

    /// Metadata of `name` for a listing, without a manifest; `None` if it does not exist any more, or is not served.
    ///
    /// # Errors
    /// As [`Self::find`], without those of manifests.
    pub async fn describe(&self, name: &Name) -> Result<Option<Details>, AccessError> {
        let Ok(_turn) = timeout(QUEUE_TIME, self.look_ups.acquire()).await else {
            return Err(busy(
                "limit of concurrent name look-ups of this process reached; try again later",
            ));
        };
        let found = match self.find_version(name).await {
            Err(error) if error.is_not_served() => return Ok(None),
            found => found?,
        };
        let content = found.metadata().cloned().unwrap_or_default();
        Ok(Some(Details::new(found.name(), FileMetadata::decode(&content).ok().as_ref())))
    }

    /// Removes `name` from the cache: it has another version now.
    pub fn forget(&self, name: &Name) {
        self.lock().remove(name);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Name, CachedEntry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn entry(&self, name: &Name) -> Arc<Entry> {
        let mut entries = self.lock();
        let now = Instant::now();
        if let Some(shelf) = entries.get_mut(name) {
            shelf.used = now;
            return Arc::clone(&shelf.entry);
        }
        make_room(&mut entries, ENTRIES_MAX - 1, MANIFEST_BYTES_MAX);
        let entry = Arc::<Entry>::default();
        let shelf = CachedEntry { entry: Arc::clone(&entry), used: now, weight: 0 };
        entries.insert(name.clone(), shelf);
        entry
    }

    fn weigh(&self, name: &Name, weight: u64) {
        let mut entries = self.lock();
        if let Some(shelf) = entries.get_mut(name) {
            shelf.weight = weight;
        }
        make_room(&mut entries, ENTRIES_MAX, MANIFEST_BYTES_MAX);
    }

    async fn look_up(&self, name: &Name, earlier: Option<&Resource>) -> Known {
        let found = self.find_version(name).await?;
        let content = found.metadata().cloned().unwrap_or_default();
        let metadata = match FileMetadata::decode(&content) {
            Ok(metadata) => Some(metadata),
            Err(error @ MetadataError::Contradiction(_)) => return Err(AccessError::from(error)),
            // Metadata of other services differs from that of files; its name was parsed.
            Err(_) => None,
        };
        let mut resource = Resource {
            details: Details::new(found.name(), metadata.as_ref()),
            segment_size: metadata.as_ref().and_then(|metadata| metadata.segment_size),
            fetching: self.fetching.clone(),
            weight: 0,
            room: None,
            found,
        };
        if !self.fetching.verification.is_by_key() {
            return Ok(Arc::new(resource));
        }
        // Verified by a manifest, it stays verified.
        if let Some(earlier) = earlier
            .filter(|earlier| earlier.weight > 0 && earlier.found.name() == resource.found.name())
        {
            resource.found = earlier.found.clone();
            resource.fetching = earlier.fetching.clone();
            resource.details.size = earlier.details.size;
            resource.segment_size = earlier.segment_size;
            resource.weight = earlier.weight;
            resource.room = earlier.room.clone();
            return Ok(Arc::new(resource));
        }
        let root = find_manifest(&self.endpoint, &resource.found, &self.fetching, |_| {}).await;
        if let Some(root) = root.map_err(AccessError::from)? {
            resource.room = Some(Arc::new(self.room_for(root.segments()).await?));
            let manifest = root.into_manifest(&self.endpoint, &self.fetching);
            resource.fetching.verification = manifest.verification();
            resource.found = manifest.to_found();
            resource.details.size = Some(manifest.size());
            resource.segment_size = Some(manifest.segment_size());
            resource.weight = manifest.segments().saturating_mul(DIGEST_LEN).max(1);
        } else {
            let learnt = self.endpoint.learn_certificates(&resource.found, &self.fetching).await;
            learnt.map_err(AccessError::from)?;
        }
        Ok(Arc::new(resource))
    }

    /// The current version; that of `name` if this ends in a version.
    async fn find_version(&self, name: &Name) -> Result<FoundObject, AccessError> {
        let is_versioned = name.as_ref().ends_in_version();
        let object = if is_versioned { name.as_ref().parent().to_name() } else { name.clone() };
        let current = self.endpoint.find(&object, &self.fetching).await;
        let found = match current.map_err(AccessError::from) {
            current if !is_versioned => current?,
            Ok(current) if current.name() == name => current,
            current => self.find_other_version(name).await.ok_or_else(|| match current {
                Ok(current) => {
                    let current = current.name();
                    let text = format!("{name} is not the current version, which is {current}");
                    AccessError::new(ErrorKind::Changed, text)
                }
                Err(error) => error,
            })?,
        };
        self.refuse_older(found.name())?;
        Ok(found)
    }

    /// The version of this name by metadata of its own: some producers have metadata of each version, and some no other.
    async fn find_other_version(&self, name: &Name) -> Option<FoundObject> {
        let found = timeout(OTHER_VERSION_TIME, self.endpoint.find(name, &self.fetching)).await;
        found.ok()?.ok().filter(|found| found.name() == name)
    }

    /// Rejects a version older than one verified before: an attacker who replays old packets must
    /// not be able to restore it.
    pub(crate) fn refuse_older(&self, name: &Name) -> Result<(), AccessError> {
        let Some(versions) = &self.versions else { return Ok(()) };
        let noted = versions.lock().unwrap_or_else(PoisonError::into_inner).note(name.as_ref());
        noted.map_err(|newer| {
            let text = format!("{name} is older than version {newer}, which was verified before");
            AccessError::new(ErrorKind::Unverified, text)
        })
    }

    /// Waits for room for the manifest of `segments` segments.
    async fn room_for(&self, segments: u64) -> Result<OwnedSemaphorePermit, AccessError> {
        let bytes = segments.saturating_mul(DIGEST_LEN);
        let units =
            u32::try_from(bytes.div_ceil(1024)).ok().filter(|_| bytes <= MANIFEST_BYTES_MAX);
        let Some(units) = units else {
            let text = format!(
                "the manifest lists {segments} segments: at most {} are accepted",
                MANIFEST_BYTES_MAX / DIGEST_LEN
            );
            return Err(AccessError::new(ErrorKind::Unusable, text));
        };
        let room = Arc::clone(&self.manifest_room).acquire_many_owned(units.max(1));
        match timeout(QUEUE_TIME, room).await {
            Ok(Ok(room)) => Ok(room),
            Ok(Err(_)) | Err(_) => {
                Err(busy("limit of manifests in memory reached; try again later"))
            }
        }
    }
}

fn busy(text: &str) -> AccessError {
    AccessError::new(ErrorKind::Busy, text)
}

/// Removes the least recently used entries until the limits are met.
fn make_room(entries: &mut HashMap<Name, CachedEntry>, count_max: usize, weight_max: u64) {
    let mut weight: u64 = entries.values().map(|shelf| shelf.weight).sum();
    while entries.len() > count_max || weight > weight_max {
        let oldest = entries.iter().min_by_key(|(_, shelf)| shelf.used);
        let Some(oldest) = oldest.map(|(name, _)| name.clone()) else {
            return;
        };
        weight -= entries.remove(&oldest).map_or(0, |shelf| shelf.weight);
    }
}

impl std::fmt::Debug for Catalog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Catalog").field("entries", &self.lock().len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A catalog whose forwarder does not answer.
    fn catalog() -> (Catalog, tokio::io::DuplexStream) {
        let (one, other) = tokio::io::duplex(1000);
        let (reader, writer) = tokio::io::split(one);
        let options = ndn_client::EndpointOptions::default();
        let endpoint = Endpoint::from_stream(reader, writer, &options);
        (Catalog::new(endpoint, &FetchOptions::default(), Duration::ZERO, false), other)
    }

    #[tokio::test(start_paused = true)]
    async fn manifests_have_bounded_room() {
        let (catalog, _forwarder) = catalog();
        let most = MANIFEST_BYTES_MAX / DIGEST_LEN;
        let refused = catalog.room_for(most + 1).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unusable);
        let one = catalog.room_for(most).await.unwrap();
        let other = catalog.room_for(most).await.unwrap();
        let refused = catalog.room_for(1).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Busy);
        drop(one);
        assert!(catalog.room_for(1).await.is_ok());
        drop(other);
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_look_ups_share_the_result() {
        let (catalog, _forwarder) = catalog();
        let name = Name::from_uri("/x").unwrap();
        let started = Instant::now();
        assert!(catalog.find(&name).await.is_err());
        let once = started.elapsed();
        let started = Instant::now();
        let find = || catalog.find(&name);
        let (one, two, three) = tokio::join!(find(), find(), find());
        assert!(one.is_err() && two.is_err() && three.is_err());
        assert_eq!(started.elapsed(), once);
    }

    #[tokio::test(start_paused = true)]
    async fn look_ups_are_bounded() {
        let (catalog, _forwarder) = catalog();
        let all = u32::try_from(LOOKUPS_MAX).unwrap();
        let _held = catalog.look_ups.acquire_many(all).await.unwrap();
        let refused = catalog.find(&Name::from_uri("/x").unwrap()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Busy);
    }

    #[tokio::test(start_paused = true)]
    async fn most_recently_used_entries_are_kept() {
        let mut entries = HashMap::new();
        for index in 0..10_u64 {
            let mut name = Name::new();
            name.push_segment(index);
            let entry = Arc::<Entry>::default();
            entries.insert(name, CachedEntry { entry, used: Instant::now(), weight: index });
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        make_room(&mut entries, 8, u64::MAX);
        let numbers = |entries: &HashMap<Name, CachedEntry>| {
            let mut numbers: Vec<u64> = entries.values().map(|shelf| shelf.weight).collect();
            numbers.sort_unstable();
            numbers
        };
        assert_eq!(numbers(&entries), [2, 3, 4, 5, 6, 7, 8, 9]);
        make_room(&mut entries, 8, 20);
        assert_eq!(numbers(&entries), [8, 9]);
        make_room(&mut entries, 8, 0);
        assert!(entries.is_empty());
    }
}
