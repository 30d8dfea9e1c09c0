//! The manifests in preparation, and their progress.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ndn_types::Timestamp;

use crate::cache::Key;

/// Time between two walks.
const WALK_INTERVAL: Duration = Duration::from_secs(60);
/// Bytes hashed in a second before any were measured.
const RATE_INITIAL: u64 = 200_000_000;

/// Progress of the preparation of manifests since the server started.
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
    /// Files of the last walk whose digests have no room, or could not be stored: they are hashed when they are requested.
    pub files_left_out: u64,
    /// Complete walks over all mounts.
    pub walks: u64,
}

/// The manifests being built, and progress.
#[derive(Debug, Default)]
pub(crate) struct Preparations {
    state: Mutex<State>,
    closed: Condvar,
    pub(crate) files: AtomicU64,
    pub(crate) files_total: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) bytes_total: AtomicU64,
    pub(crate) files_left_out: AtomicU64,
    pub(crate) walks: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    is_closed: bool,
    building: HashMap<Key, Arc<Building>>,
    /// Bytes hashed, and the time that took: of the last builds.
    hashed: u64,
    hashing_time: Duration,
}

/// A manifest being built.
#[derive(Debug)]
pub(crate) struct Building {
    size: u64,
    started: Timestamp,
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
            files_left_out: self.files_left_out.load(Ordering::Relaxed),
            walks: self.walks.load(Ordering::Relaxed),
        }
    }

    /// Ends walks.
    pub(crate) fn close(&self) {
        self.state().is_closed = true;
        self.closed.notify_all();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state().is_closed
    }

    /// Begins to build the manifest of a file; `None` if another thread is building it.
    pub(crate) fn begin(&self, key: &Key, size: u64) -> Option<Arc<Building>> {
        let mut state = self.state();
        if state.building.contains_key(key) {
            return None;
        }
        let started = crate::real_time::now();
        let building = Arc::new(Building { size, started, done: AtomicU64::new(0) });
        state.building.insert(Arc::clone(key), Arc::clone(&building));
        Some(building)
    }

    /// Ends a build. `is_hashed` says whether the whole file was read.
    pub(crate) fn end(&self, key: &Key, is_hashed: bool) {
        let mut state = self.state();
        if let Some(building) = state.building.remove(key).filter(|_| is_hashed) {
            let took = crate::real_time::now() - building.started;
            // The latest builds count more.
            state.hashed = state.hashed / 2 + building.size;
            state.hashing_time = state.hashing_time / 2 + took;
        }
    }

    /// Estimated time until the manifest of a file of this size is built, in milliseconds.
    pub(crate) fn estimate_ms(&self, key: &Key, size: u64) -> u64 {
        let state = self.state();
        let left = state
            .building
            .get(key)
            .map_or(size, |building| size.saturating_sub(building.done.load(Ordering::Relaxed)));
        let (hashed, took) = match state.hashing_time {
            Duration::ZERO => (RATE_INITIAL, Duration::from_secs(1)),
            took => (state.hashed.max(1), took),
        };
        let left_ns = u128::from(left) * took.as_nanos() / u128::from(hashed);
        u64::try_from(left_ns / 1_000_000).unwrap_or(u64::MAX)
    }

    /// Waits until the next walk is due; false if there is none.
    pub(crate) fn wait(&self) -> bool {
        let state = self.state();
        let waited = self.closed.wait_timeout_while(state, WALK_INTERVAL, |state| !state.is_closed);
        !waited.unwrap_or_else(PoisonError::into_inner).0.is_closed
    }
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
