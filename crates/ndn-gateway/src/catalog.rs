//! What is known of files and directories, for a short time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ndn_client::Endpoint;
use ndn_client::fetch::{Discovery, FetchOptions, FoundObject};
use ndn_files::{FileMetadata, MetadataError, fetch_manifest};
use ndn_packet::Name;
use tokio::time::Instant;

use crate::conditions::Validators;
use crate::failure::Failure;

/// Files and directories that are remembered.
const ENTRIES_MAX: usize = 4096;
/// Bytes of manifests that are remembered.
const MANIFEST_BYTES_MAX: u64 = 256 << 20;
/// Bytes that a manifest keeps of each segment.
const DIGEST_LEN: u64 = 32;
/// Failures are remembered no longer than this.
const FAILURE_LIFETIME_MAX: Duration = Duration::from_secs(1);

/// A file, a directory, or another object with metadata, in one version.
#[derive(Debug)]
pub(crate) struct Resource {
    /// What to fetch.
    pub(crate) found: FoundObject,
    /// How: where a manifest vouches for the segments, checked by that.
    pub(crate) fetching: FetchOptions,
    pub(crate) is_directory: bool,
    /// Length in bytes, where the metadata tells it.
    pub(crate) size: Option<u64>,
    /// Content bytes of each segment but the last, where the metadata tells them.
    pub(crate) segment_size: Option<u64>,
    pub(crate) validators: Validators,
    /// Bytes that a manifest takes.
    weight: u64,
}

impl Resource {
    /// Length and that of a segment, if both are known: then parts can be fetched.
    pub(crate) fn layout(&self) -> Option<(u64, u64)> {
        self.size.zip(self.segment_size)
    }
}

type Known = Result<Arc<Resource>, Failure>;

/// What is known of one name; who looks it up holds the lock, and others wait for what comes of it.
#[derive(Default)]
struct Entry {
    known: tokio::sync::Mutex<Option<(Instant, Known)>>,
}

struct Shelf {
    entry: Arc<Entry>,
    used: Instant,
    weight: u64,
}

/// Finds files and directories, and remembers them for a short time.
pub(crate) struct Catalog {
    endpoint: Endpoint,
    fetching: FetchOptions,
    lifetime: Duration,
    entries: Mutex<HashMap<Name, Shelf>>,
}

impl Catalog {
    /// `lifetime` is how long what is found counts without being asked for again.
    pub(crate) fn new(endpoint: Endpoint, fetching: &FetchOptions, lifetime: Duration) -> Self {
        let fetching = FetchOptions { discovery: Discovery::Metadata, ..fetching.clone() };
        Self { endpoint, fetching, lifetime, entries: Mutex::default() }
    }

    /// What `name` is now, or was within the lifetime.
    pub(crate) async fn find(&self, name: &Name) -> Known {
        let entry = self.entry(name);
        let mut known = entry.known.lock().await;
        let earlier = match &*known {
            Some((when, found)) => {
                let lifetime = match found {
                    Ok(_) => self.lifetime,
                    Err(_) => self.lifetime.min(FAILURE_LIFETIME_MAX),
                };
                if when.elapsed() < lifetime {
                    return found.clone();
                }
                found.as_ref().ok().cloned()
            }
            None => None,
        };
        let found = self.look_up(name, earlier.as_deref()).await;
        *known = Some((Instant::now(), found.clone()));
        drop(known);
        self.weigh(name, found.as_ref().map_or(0, |resource| resource.weight));
        found
    }

    /// Forgets `name`: it has another version now.
    pub(crate) fn forget(&self, name: &Name) {
        self.lock().remove(name);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Name, Shelf>> {
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
        let shelf = Shelf { entry: Arc::clone(&entry), used: now, weight: 0 };
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
        let found = self.endpoint.find(name, &self.fetching).await;
        let found = found.map_err(|error| Failure::from(&error))?;
        let content = found.metadata().cloned().unwrap_or_default();
        let metadata = match FileMetadata::decode(&content) {
            Ok(metadata) => Some(metadata),
            Err(error @ MetadataError::Contradiction(_)) => return Err(Failure::from(&error)),
            // Metadata of other services is not that of files; its name was read.
            Err(_) => None,
        };
        let mut resource = Resource {
            is_directory: metadata.as_ref().is_some_and(FileMetadata::is_directory),
            size: metadata.as_ref().and_then(|metadata| metadata.size),
            segment_size: metadata.as_ref().and_then(|metadata| metadata.segment_size),
            validators: validators(found.name(), metadata.as_ref()),
            fetching: self.fetching.clone(),
            weight: 0,
            found,
        };
        if !self.fetching.verification.is_by_key() {
            return Ok(Arc::new(resource));
        }
        // What a manifest vouched for stays vouched for.
        if let Some(earlier) = earlier
            .filter(|earlier| earlier.weight > 0 && earlier.found.name() == resource.found.name())
        {
            resource.found = earlier.found.clone();
            resource.fetching = earlier.fetching.clone();
            (resource.size, resource.segment_size) = (earlier.size, earlier.segment_size);
            resource.weight = earlier.weight;
            return Ok(Arc::new(resource));
        }
        let manifest = fetch_manifest(&self.endpoint, &resource.found, &self.fetching).await;
        if let Some(manifest) = manifest.map_err(|error| Failure::from(&error))? {
            resource.fetching.verification = manifest.verification();
            resource.found = manifest.to_found();
            resource.size = Some(manifest.size());
            resource.segment_size = Some(manifest.segment_size());
            resource.weight = manifest.segments().saturating_mul(DIGEST_LEN).max(1);
        } else {
            let learnt = self.endpoint.learn_certificates(&resource.found, &self.fetching).await;
            learnt.map_err(|error| Failure::from(&error))?;
        }
        Ok(Arc::new(resource))
    }
}

/// Forgets what was not used for the longest time until no more is left than may be.
fn make_room(entries: &mut HashMap<Name, Shelf>, count_max: usize, weight_max: u64) {
    let mut weight: u64 = entries.values().map(|shelf| shelf.weight).sum();
    while entries.len() > count_max || weight > weight_max {
        let oldest = entries.iter().min_by_key(|(_, shelf)| shelf.used);
        let Some(oldest) = oldest.map(|(name, _)| name.clone()) else {
            return;
        };
        weight -= entries.remove(&oldest).map_or(0, |shelf| shelf.weight);
    }
}

fn validators(name: &Name, metadata: Option<&FileMetadata>) -> Validators {
    let version = name.as_ref().last().and_then(|last| last.as_version());
    let tag = match version {
        Some(version) => format!("\"v{version}\""),
        None => {
            // Nothing says that there will not be other content under this name.
            let digest = ndn_security::sha256(name.value());
            let digest: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
            format!("\"n{digest}\"")
        }
    };
    Validators::new(tag, metadata.and_then(|metadata| metadata.mtime_ns))
}

impl std::fmt::Debug for Catalog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Catalog").field("entries", &self.lock().len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_was_used_last_stays() {
        let mut entries = HashMap::new();
        for index in 0..10_u64 {
            let mut name = Name::new();
            name.push_segment(index);
            let entry = Arc::<Entry>::default();
            entries.insert(name, Shelf { entry, used: Instant::now(), weight: index });
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        make_room(&mut entries, 8, u64::MAX);
        let numbers = |entries: &HashMap<Name, Shelf>| {
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
