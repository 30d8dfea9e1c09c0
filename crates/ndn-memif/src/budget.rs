//! How much memory all clients together may share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A bound on the memory of all connections that know it. What a client shares lies in files of its own, but the
/// server maps them, and takes the pages that it is the first to look at.
#[derive(Debug)]
pub struct MemoryBudget {
    bytes_max: u64,
    used: AtomicU64,
}

/// Memory that is counted until this is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    budget: Arc<MemoryBudget>,
    bytes: u64,
}

impl MemoryBudget {
    /// One of so many bytes, none of which is used.
    #[must_use]
    pub fn new(bytes_max: u64) -> Arc<Self> {
        Arc::new(Self { bytes_max, used: AtomicU64::new(0) })
    }

    /// Bytes that connections have.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Bytes that they may have.
    #[must_use]
    pub const fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Takes so many bytes, if they are there.
    pub(crate) fn charge(self: &Arc<Self>, bytes: u64) -> Option<Charge> {
        let more = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.bytes_max);
        // Nothing but the number itself is agreed upon by it.
        let taken = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.ok().map(|_| Charge { budget: Arc::clone(self), bytes })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_taken_than_there_is() {
        let budget = MemoryBudget::new(100);
        let first = budget.charge(60).unwrap();
        assert!(budget.charge(41).is_none());
        assert!(budget.charge(u64::MAX).is_none());
        let second = budget.charge(40).unwrap();
        assert_eq!((budget.used(), budget.bytes_max()), (100, 100));
        assert!(budget.charge(1).is_none());
        drop(first);
        assert_eq!(budget.used(), 40);
        drop((budget.charge(60).unwrap(), second));
        assert_eq!(budget.used(), 0);
    }
}
