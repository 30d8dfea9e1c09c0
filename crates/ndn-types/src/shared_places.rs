//! A bounded number of places that principals share, and what takes them.

use std::collections::BTreeMap;

use crate::shares::{Capacity, Reserves, ShareVerdict};
use crate::{LedgerReport, PrincipalIndex, PrincipalKey, RankedLedger, Resources};

/// The principal has its share of the places, and there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRoom;

/// Connections, requests and the like, of which there is a bounded number: each takes the place of a principal. If no place
/// is left, the oldest item of the principal with the most gives way to one of a principal below its share.
#[derive(Debug)]
pub struct SharedPlaces<R, T> {
    /// By number; the numbers ascend with the time of arrival.
    items: BTreeMap<u64, (PrincipalIndex, T)>,
    ledger: RankedLedger<R, 1>,
}

impl<R: Resources<1>, T> SharedPlaces<R, T> {
    const RESOURCE: R = R::ALL[0];

    /// This number of places, none of which is taken.
    #[must_use]
    pub fn new(places: usize, reserves: Reserves) -> Self {
        let ledger = RankedLedger::new([Capacity::of(places)], reserves);
        Self { items: BTreeMap::new(), ledger }
    }

    /// Returns the places that each principal holds.
    #[must_use]
    pub fn report(&self) -> LedgerReport<1> {
        self.ledger.report()
    }

    /// Makes room for one item more of a principal. Returns the item that has to give way for it, if any, which is removed.
    ///
    /// # Errors
    /// [`NoRoom`].
    pub fn make_room(&mut self, key: PrincipalKey) -> Result<Option<T>, NoRoom> {
        let principal = self.ledger.attach(key);
        let verdict = self.ledger.verdict(principal, Self::RESOURCE, 1);
        self.ledger.detach(principal);
        let limits = match verdict {
            ShareVerdict::Room => return Ok(None),
            ShareVerdict::Refused => return Err(NoRoom),
            ShareVerdict::Evict(limits) => limits,
        };
        let victim = self.ledger.victim(Self::RESOURCE, limits).ok_or(NoRoom)?;
        let oldest = self.items.iter().find(|(_, (holder, _))| *holder == victim);
        let number = oldest.map(|(number, _)| *number).ok_or(NoRoom)?;
        Ok(self.remove(number))
    }

    /// Adds an item of a principal, for which there is [room](Self::make_room), or puts back one that was removed.
    pub fn insert(&mut self, number: u64, key: PrincipalKey, item: T) {
        let principal = self.ledger.attach(key);
        self.ledger.charge(principal, Self::RESOURCE, 1);
        let replaced = self.items.insert(number, (principal, item));
        debug_assert!(replaced.is_none(), "the number {number} is in use");
    }

    /// Removes an item.
    pub fn remove(&mut self, number: u64) -> Option<T> {
        let (principal, item) = self.items.remove(&number)?;
        self.ledger.release(principal, Self::RESOURCE, 1);
        self.ledger.detach(principal);
        Some(item)
    }

    /// Removes the items that `is_gone` selects, and returns them in the order of their numbers.
    pub fn remove_all(&mut self, mut is_gone: impl FnMut(&T) -> bool) -> Vec<T> {
        let gone = self.items.iter().filter(|(_, (_, item))| is_gone(item));
        let gone: Vec<u64> = gone.map(|(number, _)| *number).collect();
        gone.into_iter().filter_map(|number| self.remove(number)).collect()
    }

    /// The items, in the order of their numbers.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.items.values().map(|(_, item)| item)
    }

    /// Number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::tests::Places;

    fn remote(last: u8) -> PrincipalKey {
        PrincipalKey::remote(([192, 0, 2, last], 1).into())
    }

    #[test]
    fn oldest_item_of_the_principal_with_the_most_gives_way() {
        let mut places = SharedPlaces::<Places, u64>::new(8, Reserves::NONE);
        let mut add = |number: u64, last: u8| {
            let displaced = places.make_room(remote(last))?;
            places.insert(number, remote(last), number);
            Ok::<_, NoRoom>(displaced)
        };
        assert!((0..6).all(|number| add(number, 1) == Ok(None)));
        assert!((6..8).all(|number| add(number, 2) == Ok(None)));
        assert_eq!(add(8, 1), Err(NoRoom));
        assert_eq!((add(8, 3), add(9, 3)), (Ok(Some(0)), Ok(Some(1))));
        assert_eq!((add(10, 2), add(10, 3)), (Err(NoRoom), Err(NoRoom)), "they have their shares");
        assert_eq!(places.remove(4), Some(4));
        assert_eq!((places.remove(4), places.len()), (None, 7));
        // An item that is put back keeps its turn.
        places.insert(4, remote(1), 4);
        assert_eq!(places.remove_all(|number| number % 2 == 0), [2, 4, 6, 8]);
        assert_eq!(places.values().copied().collect::<Vec<_>>(), [3, 5, 7, 9]);
        places.remove_all(|_| true);
        assert!(places.is_empty() && places.report().is_zero());
    }

    #[test]
    fn reserves_are_for_their_classes() {
        let mut places = SharedPlaces::<Places, u64>::new(100, Reserves::default());
        let mut number = 0;
        let mut add = |key| {
            places.make_room(key)?;
            number += 1;
            places.insert(number, key, number);
            Ok::<_, NoRoom>(())
        };
        assert_eq!((0..=255).filter(|last| add(remote(*last)).is_ok()).count(), 69);
        let user = PrincipalKey::LocalApplication { uid: 1, pid: 0 };
        assert!((0..10).all(|_| add(user).is_ok()));
    }
}
