//! The division of tables of management between principals: routes, strategy choices, strategy instances.
//!
//! What is in these tables stays until its holder removes it, so nothing gives way when there is no room. A principal may
//! therefore hold at most as much as remains for it ([`Ledger::has_room_beside_others`]): one alone gets half, and
//! something is left for the next one. What operators have entered is theirs without a limit, and is charged to management.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use ndn_types::{
    Capacity, Ledger, LedgerReport, PrincipalIndex, PrincipalKey, Reserves, Resources,
};

/// A principal has its share of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{principal} has its share of the {table}: it holds {held} of {capacity}")]
pub struct ShareUsedUp {
    /// The principal.
    pub principal: PrincipalKey,
    /// The table.
    pub table: &'static str,
    /// Number of entries that the principal holds.
    pub held: u32,
    /// Size of the table, entries.
    pub capacity: u32,
}

/// The shares of one table.
#[derive(Debug)]
pub(crate) struct Share<R> {
    ledger: Ledger<R, 1>,
    resource: R,
    operators: PrincipalIndex,
}

impl<R: Resources<1>> Share<R> {
    /// Nothing held of a table of `capacity` entries.
    pub(crate) fn new(resource: R, capacity: usize, reserves: Reserves) -> Self {
        let mut ledger = Ledger::new([Capacity::of(capacity)], reserves);
        let operators = ledger.attach(PrincipalKey::Management);
        Self { ledger, resource, operators }
    }

    /// Returns the holdings of all principals.
    pub(crate) fn report(&self) -> LedgerReport<1> {
        self.ledger.report()
    }

    /// Notes how many entries operators hold.
    pub(crate) fn set_operators(&mut self, count: usize) {
        let Self { ledger, resource, operators } = self;
        let before = ledger.held(*operators, *resource);
        let of_operators = u32::try_from(count).unwrap_or(u32::MAX);
        match of_operators.cmp(&before) {
            Ordering::Greater => ledger.charge(*operators, *resource, of_operators - before),
            Ordering::Less => ledger.release(*operators, *resource, before - of_operators),
            Ordering::Equal => {}
        }
    }

    /// The number of entries that others than operators hold.
    pub(crate) fn held_by_others(&self) -> usize {
        let of_operators = self.ledger.held(self.operators, self.resource);
        (self.ledger.used(self.resource) - of_operators) as usize
    }

    /// Whether a principal may hold one entry more.
    ///
    /// # Errors
    /// [`ShareUsedUp`].
    pub(crate) fn check(&mut self, principal: PrincipalKey) -> Result<(), ShareUsedUp> {
        let index = self.ledger.attach(principal);
        let has_room = self.ledger.has_room_beside_others(index, self.resource, 1);
        let held = self.ledger.held(index, self.resource);
        self.ledger.detach(index);
        let capacity = self.ledger.capacity(self.resource);
        let table = self.resource.name();
        has_room.then_some(()).ok_or(ShareUsedUp { principal, table, held, capacity })
    }

    /// Charges an entry to a principal, which keeps the index until it is [released](Self::release).
    pub(crate) fn charge(&mut self, principal: PrincipalKey) -> PrincipalIndex {
        let index = self.ledger.attach(principal);
        self.ledger.charge(index, self.resource, 1);
        self.ledger.detach(index);
        index
    }

    /// Gives an entry back.
    pub(crate) fn release(&mut self, holder: PrincipalIndex) {
        self.ledger.release(holder, self.resource, 1);
    }
}

/// The entries of a table that principals other than operators hold.
#[derive(Debug)]
pub(crate) struct Holders<K> {
    by_key: BTreeMap<K, PrincipalIndex>,
    /// Holders of entries that have ended, to be released.
    ended: Vec<PrincipalIndex>,
}

impl<K> Default for Holders<K> {
    fn default() -> Self {
        Self { by_key: BTreeMap::new(), ended: Vec::new() }
    }
}

impl<K: Ord> Holders<K> {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    pub(crate) fn begin(&mut self, key: K, holder: PrincipalIndex) {
        self.ended.extend(self.by_key.insert(key, holder));
    }

    /// An entry has ended, or is an operator's from now on.
    pub(crate) fn end(&mut self, key: &K) {
        self.ended.extend(self.by_key.remove(key));
    }

    /// The holders of entries that have ended since the last call.
    pub(crate) fn take_ended(&mut self) -> Vec<PrincipalIndex> {
        std::mem::take(&mut self.ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    ndn_types::resource! {
        /// Entries.
        struct Entries = "entries";
    }

    fn user(uid: u32) -> PrincipalKey {
        PrincipalKey::LocalApplication { uid, pid: 0 }
    }

    #[test]
    fn principal_alone_gets_half_of_what_operators_left() {
        let mut share = Share::new(Entries, 1000, Reserves::NONE);
        share.set_operators(200);
        let mut held = Vec::new();
        while share.check(user(1)).is_ok() {
            held.push(share.charge(user(1)));
        }
        assert_eq!((held.len(), share.held_by_others()), (400, 400));
        let error = share.check(user(1)).err().map(|error| error.to_string());
        assert_eq!(
            error.as_deref(),
            Some("user 1 has its share of the entries: it holds 400 of 1000")
        );
        assert!(share.check(user(2)).is_ok());
        let management = |share: &Share<Entries>| {
            let report = share.report();
            report
                .principals
                .iter()
                .find(|one| one.key == PrincipalKey::Management)
                .map(|one| one.held)
        };
        assert_eq!(management(&share), Some([200]));
        held.into_iter().for_each(|holder| share.release(holder));
        share.set_operators(0);
        assert!(share.report().is_zero());
    }

    #[test]
    fn operators_may_use_all_of_the_table() {
        let mut share =
            Share::new(Entries, 10, Reserves { management: 1, local: 10, neighbour: 20 });
        share.set_operators(10);
        assert!(share.check(user(1)).is_err());
        share.set_operators(9);
        assert!(share.check(user(1)).is_ok());
    }
}
