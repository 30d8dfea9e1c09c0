//! Opens, describes and lists what a forwarder can reach.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use futures_util::StreamExt;
use ndn_client::Endpoint;
use ndn_client::fetch::{FetchOptions, Verification};
use ndn_files::{ListingEntry, parse_listing};
use ndn_packet::Name;
use ndn_security::{Sha256Digest, sha256};

use crate::cache::{ObjectKey, SegmentCache};
use crate::catalog::{Catalog, LOOKUPS_MAX, Resource};
use crate::disk_cache::{DiskCache, DiskCacheCounters, DiskCacheOptions};
use crate::error::{AccessError, ErrorKind};
use crate::file::File;
use crate::object::{Layout, Object, Sources};
use crate::stat::Stat;

/// Maximum length of a listing in bytes.
const LISTING_LEN_MAX: usize = 64 << 20;
/// Maximum length in bytes of an object without segments: that of a packet.
const PACKET_LEN_MAX: usize = 8800;

/// Options of [`Access`].
#[derive(Debug, Clone)]
pub struct AccessOptions {
    /// Parameters of fetches, and verification.
    pub fetching: FetchOptions,
    /// Lifetime of cached metadata: a new version is seen after this time.
    pub metadata_lifetime: Duration,
    /// Whether an older version than one verified before is accepted.
    pub allow_older: bool,
    /// Maximum number of bytes of segments that are cached in memory.
    pub cache_bytes_max: usize,
    /// A cache on disk besides.
    pub disk_cache: Option<DiskCacheOptions>,
    /// Maximum number of bytes that are fetched for one file before they are asked for; 0: none.
    pub read_ahead_bytes_max: u64,
    /// Maximum time of one operation.
    pub deadline: Duration,
}

impl Default for AccessOptions {
    fn default() -> Self {
        Self {
            fetching: FetchOptions::default(),
            metadata_lifetime: Duration::from_secs(2),
            allow_older: false,
            cache_bytes_max: 256 << 20,
            disk_cache: None,
            read_ahead_bytes_max: 16 << 20,
            deadline: Duration::from_secs(60),
        }
    }
}

/// Access to files and directories by one connection, with one cache. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Access {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    endpoint: Endpoint,
    catalog: Arc<Catalog>,
    cache: Arc<SegmentCache>,
    disk: Option<Arc<DiskCache>>,
    /// Identifies the verification on disk.
    trust: Option<Sha256Digest>,
    options: AccessOptions,
    /// Number of the next object whose name has no version.
    next_number: AtomicU64,
    /// Objects that are open, by their names with versions.
    open: Mutex<HashMap<Name, Weak<Object>>>,
}

impl Access {
    /// Access by this connection. A disk cache that cannot be used is a warning.
    #[must_use]
    pub fn new(endpoint: Endpoint, options: AccessOptions) -> Self {
        let disk = options.disk_cache.as_ref().map(|disk| Arc::new(DiskCache::open(disk)));
        Self::with_disk(endpoint, options, disk)
    }

    /// Access with another verification, by the same connection and with the same cache on disk.
    #[must_use]
    pub fn verified_by(&self, verification: Verification) -> Self {
        let Shared { endpoint, options, disk, .. } = &*self.shared;
        let fetching = FetchOptions { verification, ..options.fetching.clone() };
        let options = AccessOptions { fetching, ..options.clone() };
        Self::with_disk(endpoint.clone(), options, disk.clone())
    }

    fn with_disk(endpoint: Endpoint, options: AccessOptions, disk: Option<Arc<DiskCache>>) -> Self {
        let AccessOptions { fetching, metadata_lifetime, allow_older, cache_bytes_max, .. } =
            &options;
        let catalog = Catalog::new(endpoint.clone(), fetching, *metadata_lifetime, *allow_older);
        let catalog = Arc::new(catalog);
        let cache = Arc::new(SegmentCache::new(*cache_bytes_max));
        let trust = fetching.verification.fingerprint();
        if let Some(disk) = disk.as_ref().filter(|_| trust.is_none()) {
            disk.warn(
                "what this verifier accepts is not cached on disk, as it cannot be identified",
            );
        }
        let shared = Shared {
            endpoint,
            catalog,
            cache,
            disk,
            trust,
            options,
            next_number: AtomicU64::new(0),
            open: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The connection.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.shared.endpoint
    }

    /// Bytes of cached segments.
    #[must_use]
    pub fn cached_bytes(&self) -> usize {
        self.shared.cache.bytes()
    }

    /// Counters of the cache on disk, since this process opened it; `None` without one.
    #[must_use]
    pub fn disk_cache(&self) -> Option<DiskCacheCounters> {
        self.shared.disk.as_ref().map(|disk| disk.counters())
    }

    /// Reports a failure of the cache on disk, if there is one.
    pub(crate) fn warn(&self, text: &str) {
        if let Some(disk) = &self.shared.disk {
            disk.warn(text);
        }
    }

    /// Waits until everything that was read so far is in the cache on disk.
    pub async fn flush_disk_cache(&self) {
        if let Some(disk) = &self.shared.disk {
            disk.flush().await;
        }
    }

    /// Opens the current version of a file. The name of a version opens this one, if it is the current one or is cached on disk;
    /// then nothing is requested before a segment is missing.
    ///
    /// # Errors
    /// `NotFound`, `IsDirectory`, `Changed` for the name of another version, and the failures of fetching and verifying its metadata and manifest.
    pub async fn open(&self, name: &Name) -> Result<File, AccessError> {
        let object = self.within_deadline(name, self.find_object(name)).await?;
        let AccessOptions { deadline, read_ahead_bytes_max, .. } = self.shared.options;
        Ok(File::new(object, deadline, read_ahead_bytes_max))
    }

    /// Describes the current version of a file or directory.
    ///
    /// # Errors
    /// As [`Self::open`], but directories are described, too.
    pub async fn stat(&self, name: &Name) -> Result<Stat, AccessError> {
        let resource = self.within_deadline(name, self.shared.catalog.find(name)).await?;
        Ok(Stat::of(resource.details()))
    }

    /// As [`Self::stat`], without the manifest of a file: the Data of its metadata is verified, and its content when it is
    /// opened. `None` if it does not exist.
    ///
    /// # Errors
    /// As [`Self::stat`].
    pub async fn stat_metadata(&self, name: &Name) -> Result<Option<Stat>, AccessError> {
        let details = self.within_deadline(name, self.shared.catalog.describe(name)).await?;
        Ok(details.as_ref().map(Stat::of))
    }

    /// The entries of a directory, ordered by name.
    ///
    /// # Errors
    /// `NotDirectory`, and as [`Self::open`].
    pub async fn list(&self, name: &Name) -> Result<Vec<ListingEntry>, AccessError> {
        self.within_deadline(name, async {
            let listed = self.list_found(name).await;
            // Its version may have changed since the metadata was cached.
            match listed {
                Err(error) if error.kind() == ErrorKind::Changed => {
                    self.shared.catalog.forget(name);
                    self.list_found(name).await
                }
                listed => listed,
            }
        })
        .await
    }

    /// As [`Self::stat_metadata`], with the size also of an object whose metadata does not state it.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub async fn describe(&self, name: &Name) -> Result<Option<Stat>, AccessError> {
        match self.stat_metadata(name).await? {
            Some(stat) if !stat.is_directory && stat.size.is_none() => {
                match self.open(name).await {
                    // It was removed meanwhile.
                    Err(error) if error.is_not_served() => Ok(None),
                    opened => Ok(Some(opened?.stat())),
                }
            }
            stat => Ok(stat),
        }
    }

    /// Describes files and directories in this order, many at a time.
    pub async fn describe_each(
        &self,
        names: impl IntoIterator<Item = Name>,
    ) -> Vec<Result<Option<Stat>, AccessError>> {
        let described = names.into_iter().map(|name| async move { self.describe(&name).await });
        futures_util::stream::iter(described).buffered(LOOKUPS_MAX).collect().await
    }

    /// The entries of a directory with their properties, many at a time; without those that were removed meanwhile. Directories
    /// within it are described if `directories`.
    ///
    /// # Errors
    /// As [`Self::list`], and the first failure of an entry.
    pub async fn list_described(
        &self,
        name: &Name,
        directories: bool,
    ) -> Result<Vec<(ListingEntry, Option<Stat>)>, AccessError> {
        let entries = self.list(name).await?;
        let is_described = |entry: &ListingEntry| directories || !entry.is_directory;
        let names = entries.iter().filter(|entry| is_described(entry)).map(|entry| {
            let mut name = name.clone();
            name.push_generic(&entry.file_name);
            name
        });
        let mut stats = self.describe_each(names.collect::<Vec<_>>()).await.into_iter();
        let mut described = Vec::with_capacity(entries.len());
        for entry in entries {
            if !is_described(&entry) {
                described.push((entry, None));
            } else if let Some(stat) = stats.next().transpose()?.flatten() {
                described.push((entry, Some(stat)));
            }
        }
        Ok(described)
    }

    /// Removes `name` from the cache of metadata.
    pub fn forget(&self, name: &Name) {
        self.shared.catalog.forget(name);
    }

    async fn list_found(&self, name: &Name) -> Result<Vec<ListingEntry>, AccessError> {
        let resource = self.shared.catalog.find(name).await?;
        if !resource.details().is_directory {
            let text = format!("{name} is not a directory");
            return Err(AccessError::new(ErrorKind::NotDirectory, text));
        }
        let stream = resource.fetch(&self.shared.endpoint);
        let listing = stream.collect(LISTING_LEN_MAX).await?;
        parse_listing(&listing).ok_or_else(|| {
            let text = format!("{name}: the listing has an entry that is not a file name");
            AccessError::new(ErrorKind::Unusable, text)
        })
    }

    async fn find_object(&self, name: &Name) -> Result<Arc<Object>, AccessError> {
        if name.as_ref().ends_in_version()
            && let Some(found) = self.find_stored(name).await?
        {
            return Ok(found);
        }
        let resource = self.shared.catalog.find(name).await?;
        if resource.details().is_directory {
            let text = format!("{name} is a directory");
            return Err(AccessError::new(ErrorKind::IsDirectory, text));
        }
        if let Some(open) = self.opened(resource.name()) {
            return Ok(open);
        }
        let layout = match resource.layout() {
            Some((size, segment_size)) => Layout { size, segment_size },
            None => self.measure(&resource).await?,
        };
        let stat = Stat { size: Some(layout.size), ..Stat::of(resource.details()) };
        Ok(self.share(stat, layout, Some(resource)))
    }

    /// A version that is open, or on disk.
    async fn find_stored(&self, versioned: &Name) -> Result<Option<Arc<Object>>, AccessError> {
        if let Some(open) = self.opened(versioned) {
            return Ok(Some(open));
        }
        let Some((disk, trust)) = self.shared.disk.as_ref().zip(self.shared.trust) else {
            return Ok(None);
        };
        let Some((stat, layout)) = disk.find(trust, versioned).await else { return Ok(None) };
        self.shared.catalog.refuse_older(versioned)?;
        Ok(Some(self.share(stat, layout, None)))
    }

    /// The object of this version that all files share.
    fn share(&self, stat: Stat, layout: Layout, resource: Option<Arc<Resource>>) -> Arc<Object> {
        let mut open = self.shared.open.lock().unwrap_or_else(PoisonError::into_inner);
        // Another task may have opened it meanwhile.
        if let Some(object) = open.get(&stat.name).and_then(Weak::upgrade) {
            return object;
        }
        open.retain(|_, object| object.strong_count() > 0);
        let Shared { endpoint, catalog, cache, disk, trust, .. } = &*self.shared;
        let disk = disk.as_ref().zip(*trust).filter(|_| stat.version().is_some());
        let sources = Sources {
            endpoint: endpoint.clone(),
            catalog: Arc::clone(catalog),
            cache: Arc::clone(cache),
            disk: disk.and_then(|(disk, trust)| disk.object(trust, &stat, layout)),
        };
        let (key, name) = (self.key_of(&stat), stat.name.clone());
        let object = Arc::new(Object::new(key, stat, layout, resource, sources));
        open.insert(name, Arc::downgrade(&object));
        object
    }

    /// The key of the segments of a version in memory. They stay when the file is closed, unless its name has no version:
    /// then the content under the name may change.
    fn key_of(&self, stat: &Stat) -> ObjectKey {
        match sha256(stat.name.value()).first_chunk() {
            Some(key) if stat.version().is_some() => *key,
            _ => u128::from(self.shared.next_number.fetch_add(1, Ordering::Relaxed)).to_be_bytes(),
        }
    }

    fn opened(&self, versioned: &Name) -> Option<Arc<Object>> {
        let open = self.shared.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.get(versioned).and_then(Weak::upgrade)
    }

    /// Learns the lengths from the first and the last segment of an object whose metadata does not state them.
    async fn measure(&self, resource: &Resource) -> Result<Layout, AccessError> {
        let Shared { endpoint, .. } = &*self.shared;
        let length = |content: &[u8]| u64::try_from(content.len()).unwrap_or(u64::MAX);
        let mut found = resource.found.clone();
        if !found.is_segmented() {
            let content = endpoint.fetch_found(found, 0, &resource.fetching);
            let size = length(&content.collect(PACKET_LEN_MAX).await?);
            return Ok(Layout { size, segment_size: size.max(1) });
        }
        let first = endpoint.fetch_segment(&found, 0, &resource.fetching).await?;
        found.note_final_segment(&first);
        let segment_size = length(&first.content());
        let last = match found.final_segment() {
            Some(0) => return Ok(Layout { size: segment_size, segment_size: segment_size.max(1) }),
            Some(last) if segment_size > 0 => last,
            _ => {
                let text =
                    format!("{}: the first segment does not state the last one", found.name());
                return Err(AccessError::new(ErrorKind::Unusable, text));
            }
        };
        let content = endpoint.fetch_segment(&found, last, &resource.fetching).await?.content();
        let size =
            last.checked_mul(segment_size).and_then(|size| size.checked_add(length(&content)));
        match size {
            Some(size) if length(&content) <= segment_size => Ok(Layout { size, segment_size }),
            _ => {
                let text = format!("{}: the last segment is longer than the first", found.name());
                Err(AccessError::new(ErrorKind::Unusable, text))
            }
        }
    }

    async fn within_deadline<T>(
        &self,
        name: &Name,
        work: impl Future<Output = Result<T, AccessError>>,
    ) -> Result<T, AccessError> {
        let deadline = self.shared.options.deadline;
        let done = tokio::time::timeout(deadline, work).await.unwrap_or_else(|_| {
            let text = format!("{name} was not answered within {deadline:?}");
            Err(AccessError::new(ErrorKind::Unanswered, text))
        });
        done.map_err(|error| error.of(|| name.to_uri()))
    }
}
