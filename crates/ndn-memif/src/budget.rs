//! Limits on the shared memory of all clients together, and of those of one user.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One user may have this fraction of all memory: one half.
const USER_PARTS: u64 = 2;

/// A limit on the memory of all connections. The memory belongs to files of the clients, but the server allocates the
/// pages that it accesses first. Clients of one user may have half of it: connections cost a client almost nothing.
#[derive(Debug)]
pub struct MemoryBudget {
    bytes_max: u64,
    used: Mutex<Used>,
}

/// Bytes in use.
#[derive(Debug, Default)]
struct Used {
    all: u64,
    /// By user; users without memory are left out.
    by_user: BTreeMap<u32, u64>,
}

/// Memory that is charged until this is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    budget: Arc<MemoryBudget>,
    user: u32,
    bytes: u64,
}

impl MemoryBudget {
    /// A budget of `bytes_max`, all of it free.
    #[must_use]
    pub fn new(bytes_max: u64) -> Arc<Self> {
        Arc::new(Self { bytes_max, used: Mutex::default() })
    }

    /// Bytes in use.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.lock().all
    }

    /// The limit, bytes.
    #[must_use]
    pub const fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Charges `bytes` to a user, if both limits allow it.
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

    /// The numbers are consistent even after a panic of a holder.
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
    fn total_is_limited() {
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
    fn one_user_gets_half_at_most() {
        let budget = MemoryBudget::new(100);
        let greedy: Vec<_> = (0..100).map_while(|_| budget.charge(1, 10)).collect();
        assert_eq!((greedy.len(), budget.used()), (5, 50));
        let other = budget.charge(2, 50).unwrap();
        assert!(budget.charge(2, 1).is_none());
        // Memory freed by one user does not raise the limit of another.
        drop(greedy);
        assert!(budget.charge(2, 1).is_none());
        drop(other);
        assert!(budget.charge(2, 50).is_some());
    }
}
