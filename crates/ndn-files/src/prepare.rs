//! Manifests built before they are requested, and how far that is.
//!
//! A manifest takes as long as reading the file does. A thread walks the mounts and stores the digests of every file
//! that has none on disk; a file that has changed is found by the next walk. What is being built, by this thread or for
//! a request, is registered here, so that nothing is hashed twice at a time and consumers learn when to ask again.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ndn_packet::{Component, Name};

use crate::cache::Key;
use crate::listing::{list, parse_listing};
use crate::serve::{MountPoint, Service};
use crate::stat::{FileKind, FileStat};

/// Time between two walks.
const WALK_INTERVAL: Duration = Duration::from_secs(60);
/// A file that was changed less than this ago may still be being written.
const SETTLED_NS: u64 = 2_000_000_000;
/// Maximum number of files found by one walk; the next walk finds others.
const FILES_PER_WALK_MAX: usize = 100_000;
/// Directories deeper than this are not walked.
const DEPTH_MAX: usize = 64;
/// Bytes hashed in a second before any were measured.
const RATE_INITIAL: u64 = 200_000_000;

/// How far the preparation of manifests is, since the server started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Preparation {
    /// Files whose manifests were prepared.
    pub files: u64,
    /// Files found without a stored manifest.
    pub files_total: u64,
    /// Bytes of files that were hashed.
    pub bytes: u64,
    /// Bytes of these files.
    pub bytes_total: u64,
    /// Complete walks over all mounts.
    pub walks: u64,
}

/// The manifests being built, and progress.
#[derive(Debug, Default)]
pub(crate) struct Preparations {
    state: Mutex<State>,
    closed: Condvar,
    files: AtomicU64,
    files_total: AtomicU64,
    bytes: AtomicU64,
    bytes_total: AtomicU64,
    walks: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    is_closed: bool,
    building: HashMap<Key, Arc<Building>>,
    /// Bytes hashed, and the time that took: of the last builds.
    hashed: u64,
    hashed_ns: u64,
}

/// A manifest being built.
#[derive(Debug)]
pub(crate) struct Building {
    size: u64,
    started_ns: u64,
    /// Bytes hashed so far.
    pub(crate) done: AtomicU64,
}

impl Preparations {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn progress(&self) -> Preparation {
        let building: u64 =
            self.state().building.values().map(|one| one.done.load(Ordering::Relaxed)).sum();
        let bytes_total = self.bytes_total.load(Ordering::Relaxed);
        Preparation {
            files: self.files.load(Ordering::Relaxed),
            files_total: self.files_total.load(Ordering::Relaxed),
            bytes: (self.bytes.load(Ordering::Relaxed) + building).min(bytes_total),
            bytes_total,
            walks: self.walks.load(Ordering::Relaxed),
        }
    }

    /// Ends walks.
    pub(crate) fn close(&self) {
        self.state().is_closed = true;
        self.closed.notify_all();
    }

    fn is_closed(&self) -> bool {
        self.state().is_closed
    }

    /// Begins to build the manifest of a file; `None` if another thread is building it.
    pub(crate) fn begin(&self, key: &Key, size: u64) -> Option<Arc<Building>> {
        let mut state = self.state();
        if state.building.contains_key(key) {
            return None;
        }
        let started_ns = ndn_sys::clock::now();
        let building = Arc::new(Building { size, started_ns, done: AtomicU64::new(0) });
        state.building.insert(Arc::clone(key), Arc::clone(&building));
        Some(building)
    }

    /// Ends a build. `is_hashed` says whether the whole file was read.
    pub(crate) fn end(&self, key: &Key, is_hashed: bool) {
        let mut state = self.state();
        if let Some(building) = state.building.remove(key).filter(|_| is_hashed) {
            let took_ns = ndn_sys::clock::now().saturating_sub(building.started_ns);
            // The latest builds count more.
            state.hashed = state.hashed / 2 + building.size;
            state.hashed_ns = state.hashed_ns / 2 + took_ns;
        }
    }

    /// Estimated time until the manifest of a file of this size is built, in milliseconds.
    pub(crate) fn estimate_ms(&self, key: &Key, size: u64) -> u64 {
        let state = self.state();
        let left = state
            .building
            .get(key)
            .map_or(size, |building| size.saturating_sub(building.done.load(Ordering::Relaxed)));
        let (hashed, took_ns) = match state.hashed_ns {
            0 => (RATE_INITIAL, 1_000_000_000),
            took_ns => (state.hashed.max(1), took_ns),
        };
        let left_ns = u128::from(left) * u128::from(took_ns) / u128::from(hashed);
        u64::try_from(left_ns / 1_000_000).unwrap_or(u64::MAX)
    }

    /// Waits until the next walk is due; false if there is none.
    fn wait(&self) -> bool {
        let state = self.state();
        let waited = self.closed.wait_timeout_while(state, WALK_INTERVAL, |state| !state.is_closed);
        !waited.unwrap_or_else(PoisonError::into_inner).0.is_closed
    }
}

/// A file without stored digests.
struct Missing {
    mount: usize,
    name: Name,
    path: PathBuf,
    size: u64,
}

impl Service {
    /// Prepares the manifests of all files of `mounts`, until the server ends.
    pub(crate) fn prepare_manifests(&self, mounts: &[Arc<MountPoint>]) {
        let preparations = &self.preparations;
        loop {
            let mut missing = Vec::new();
            for (mount, point) in mounts.iter().enumerate() {
                self.walk(point, mount, &mut missing);
            }
            preparations.files_total.fetch_add(missing.len() as u64, Ordering::Relaxed);
            let bytes: u64 = missing.iter().map(|one| one.size).sum();
            preparations.bytes_total.fetch_add(bytes, Ordering::Relaxed);
            for Missing { mount, name, path, size } in missing {
                if preparations.is_closed() {
                    return;
                }
                let key: Key = Arc::from(name.value());
                self.prepare(&mounts[mount], key, name, path);
                preparations.files.fetch_add(1, Ordering::Relaxed);
                preparations.bytes.fetch_add(size, Ordering::Relaxed);
            }
            preparations.walks.fetch_add(1, Ordering::Relaxed);
            if !preparations.wait() {
                return;
            }
        }
    }

    /// Adds the files of a mount that have no stored digests and are worth it.
    fn walk(&self, point: &Arc<MountPoint>, mount: usize, missing: &mut Vec<Missing>) {
        let mut directories = vec![(point.prefix.clone(), PathBuf::from("."), 0)];
        let now_ns = u64::try_from(ndn_sys::clock::wall_clock().as_nanos()).unwrap_or(u64::MAX);
        while let Some((name, path, depth)) = directories.pop() {
            if self.preparations.is_closed() {
                return;
            }
            let Ok(opened) = point.root.open_file(&path) else { continue };
            let Ok(listing) = list(&point.root, &path, &opened.file) else { continue };
            for entry in parse_listing(&listing).unwrap_or_default() {
                let path = path.join(OsStr::from_bytes(&entry.file_name));
                let mut name = name.clone();
                name.push(Component::generic(&entry.file_name));
                if entry.is_directory {
                    if depth < DEPTH_MAX {
                        directories.push((name, path, depth + 1));
                    }
                    continue;
                }
                let Ok(stat) = point.root.stat(&path) else { continue };
                let is_settled = now_ns.saturating_sub(stat.mtime_ns) >= SETTLED_NS;
                if stat.kind != FileKind::Regular || !is_settled {
                    continue;
                }
                if missing.len() < FILES_PER_WALK_MAX && self.is_unprepared(point, &name, &stat) {
                    missing.push(Missing { mount, name, path, size: stat.size });
                }
            }
        }
    }

    /// Whether a file needs digests on disk, and has none.
    fn is_unprepared(&self, point: &MountPoint, name: &Name, stat: &FileStat) -> bool {
        let layout = self.layout(point, name, stat);
        layout.is_some_and(|layout| self.wants_preparation(&layout, stat))
    }

    /// Builds and stores the manifest of a file. Failures are left to the first request, which reports them.
    fn prepare(&self, point: &Arc<MountPoint>, key: Key, name: Name, path: PathBuf) {
        let target = crate::serve::Target {
            key: &key,
            mount: Arc::clone(point),
            name,
            path: path_of(&path),
        };
        self.prepare_target(&target);
    }
}

/// The path without the leading `.`, as requests have it.
fn path_of(path: &Path) -> PathBuf {
    path.strip_prefix(".").unwrap_or(path).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimate_follows_progress_and_the_measured_rate() {
        let preparations = Preparations::default();
        let key: Key = Arc::from(&b"file"[..]);
        assert_eq!(preparations.estimate_ms(&key, 10 * RATE_INITIAL), 10_000);
        let building = preparations.begin(&key, 10 * RATE_INITIAL).unwrap();
        building.done.store(9 * RATE_INITIAL, Ordering::Relaxed);
        assert_eq!(preparations.estimate_ms(&key, 10 * RATE_INITIAL), 1000);
        preparations.end(&key, true);
        // Ten seconds' work took no time: it was measured.
        assert!(preparations.estimate_ms(&key, 10 * RATE_INITIAL) < 10_000);
        assert!(preparations.begin(&key, 1).is_some(), "it has ended");
    }
}
