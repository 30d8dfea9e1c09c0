//! Progress within a run.

use std::sync::atomic::{AtomicU64, Ordering};

/// The share of its load that a run has performed. Another thread reads it meanwhile.
#[derive(Debug, Default)]
pub struct RunProgress {
    done: AtomicU64,
    total: AtomicU64,
}

impl RunProgress {
    /// So much is done of the total: requests, or time.
    pub(crate) fn set(&self, done: u64, total: u64) {
        self.done.store(done, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }

    /// The share that is done, from 0 to 1; `None` before the load begins, and if the executor does not know it.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        let (done, total) = (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed));
        (total > 0).then(|| (done as f64 / total as f64).min(1.0))
    }
}
