//! How much memory all clients together may share, and those of one user.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The share of all memory that one user may have, as a divisor.
const USER_PARTS: u64 = 2;

/// A limit on the shared memory of all connections. The memory belongs to files of the clients, but the server maps it
/// and pays for pages that it touches first. Clients of one user get at most half of it, so that no user can take
/// everything: connections cost a client almost nothing.
#[derive(Debug)]
pub struct MemoryBudget {
    bytes_max: u64,
    used: Mutex<Used>,
}

/// What connections have, bytes.
#[derive(Debug, Default)]
struct Used {
    all: u64,
    /// Of users that have something, how much of that.
    by_user: BTreeMap<u32, u64>,
}

/// Memory that is counted until this is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    budget: Arc<MemoryBudget>,
    user: u32,
    bytes: u64,
}

impl MemoryBudget {
    /// A budget of this number of bytes, all unused.
    #[must_use]
    pub fn new(bytes_max: u64) -> Arc<Self> {
        Arc::new(Self { bytes_max, used: Mutex::default() })
    }

    /// Bytes that connections have.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.lock().all
    }

    /// Bytes that they may have.
    #[must_use]
    pub const fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Reserves bytes for a user, if available.
    pub(crate) fn charge(self: &Arc<Self>, user: u32, bytes: u64) -> Option<Charge> {
        let used = &mut *self.lock();
        let more =
            |used: u64, bytes_max: u64| used.checked_add(bytes).filter(|sum| *sum <= bytes_max);
        let of_user = used.by_user.get(&user).copied().unwrap_or(0);
        let of_user = more(of_user, self.bytes_max / USER_PARTS)?;
        used.all = more(used.all, self.bytes_max)?;
        used.by_user.insert(user, of_user);
        Some(Charge { budget: Arc::clone(self), user, bytes })
    }

    /// The numbers are consistent even after a panic.
    fn lock(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let used = &mut *self.budget.lock();
        used.all -= self.bytes;
        if let Some(of_user) = used.by_user.get_mut(&self.user) {
            *of_user -= self.bytes;
            if *of_user == 0 {
                used.by_user.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_taken_than_there_is() {
        let budget = MemoryBudget::new(100);
        let first = budget.charge(1, 50).unwrap();
        let second = budget.charge(2, 30).unwrap();
        assert!(budget.charge(3, 21).is_none());
        assert!(budget.charge(3, u64::MAX).is_none());
        let third = budget.charge(3, 20).unwrap();
        assert_eq!((budget.used(), budget.bytes_max()), (100, 100));
        assert!(budget.charge(2, 1).is_none());
        drop(first);
        assert_eq!(budget.used(), 50);
        drop((budget.charge(1, 50).unwrap(), second, third));
        assert_eq!(budget.used(), 0);
        assert!(budget.lock().by_user.is_empty());
    }

    #[test]
    fn one_user_leaves_half_to_others() {
        let budget = MemoryBudget::new(100);
        let greedy: Vec<_> = (0..100).map_while(|_| budget.charge(1, 10)).collect();
        assert_eq!((greedy.len(), budget.used()), (5, 50));
        let other = budget.charge(2, 50).unwrap();
        assert!(budget.charge(2, 1).is_none());
        // What the one gives back, is nothing to the other.
        drop(greedy);
        assert!(budget.charge(2, 1).is_none());
        drop(other);
        assert!(budget.charge(2, 50).is_some());
    }
}
