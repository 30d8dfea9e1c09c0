//! Opens, describes and lists what a forwarder can reach.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use ndn_client::Endpoint;
use ndn_client::fetch::FetchOptions;
use ndn_files::{ListingEntry, parse_listing};
use ndn_packet::Name;
use ndn_security::sha256;

use crate::cache::{ObjectKey, SegmentCache};
use crate::catalog::{Catalog, Resource};
use crate::error::{AccessError, ErrorKind};
use crate::file::File;
use crate::object::{Layout, Object};
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
    /// Maximum number of bytes of cached segments.
    pub cache_bytes_max: usize,
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
    catalog: Catalog,
    cache: Arc<SegmentCache>,
    options: AccessOptions,
    /// Number of the next object whose name has no version.
    next_number: AtomicU64,
    /// Objects that are open, by their names with versions.
    open: Mutex<HashMap<Name, Weak<Object>>>,
}

impl Access {
    /// Access by this connection.
    #[must_use]
    pub fn new(endpoint: Endpoint, options: AccessOptions) -> Self {
        let AccessOptions { fetching, metadata_lifetime, allow_older, cache_bytes_max, .. } =
            &options;
        let catalog = Catalog::new(endpoint.clone(), fetching, *metadata_lifetime, *allow_older);
        let cache = Arc::new(SegmentCache::new(*cache_bytes_max));
        let shared = Shared {
            endpoint,
            catalog,
            cache,
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

    /// Opens the current version of a file.
    ///
    /// # Errors
    /// `NotFound`, `IsDirectory`, and the failures of fetching and verifying its metadata and manifest.
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
        let mut open = self.shared.open.lock().unwrap_or_else(PoisonError::into_inner);
        // Another task may have opened it meanwhile.
        if let Some(object) = open.get(resource.name()).and_then(Weak::upgrade) {
            return Ok(object);
        }
        open.retain(|_, object| object.strong_count() > 0);
        let key = self.key_of(&resource);
        let versioned = resource.name().clone();
        let (endpoint, cache) = (self.shared.endpoint.clone(), Arc::clone(&self.shared.cache));
        let object = Arc::new(Object::new(key, resource, layout, endpoint, cache));
        open.insert(versioned, Arc::downgrade(&object));
        Ok(object)
    }

    /// The key of the segments of a resource in the cache. They stay when the file is closed, unless its name has no version:
    /// then the content under the name may change.
    fn key_of(&self, resource: &Resource) -> ObjectKey {
        let name = resource.name();
        let has_version = Stat::of(resource.details()).version().is_some();
        match sha256(name.value()).first_chunk() {
            Some(key) if has_version => *key,
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
