//! The division of tables of management between principals: routes, strategy choices, strategy instances.
//!
//! An entry of these tables stays until its owner removes it, so nothing gives way when there is no room. A principal may
//! therefore hold at most as much as remains for it ([`Ledger::has_room_beside_others`]): one alone gets half, and
//! something is left for the next one. What operators have entered is theirs without a limit, and is charged to management.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use ndn_packet::NameRef;
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

/// Bytes of a prefix that count as one place, beside that of the entry itself: each is kept several times.
const BYTES_PER_PLACE: usize = 128;

/// Returns the number of places of an entry with this prefix.
pub(crate) fn places(prefix: NameRef<'_>) -> u32 {
    1 + u32::try_from(prefix.value().len() / BYTES_PER_PLACE).unwrap_or(u32::MAX - 1)
}

/// The charge for an entry: its owner, and the number of places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Charge {
    pub(crate) owner: PrincipalIndex,
    places: u32,
}

/// The shares of one table.
#[derive(Debug)]
pub(crate) struct Share<R> {
    ledger: Ledger<R, 1>,
    resource: R,
    operators: PrincipalIndex,
    /// Maximum number of places of one principal.
    places_max: u32,
    #[cfg(feature = "planted-faults")]
    is_unshared: bool,
}

impl<R: Resources<1>> Share<R> {
    /// Nothing held of a table of `capacity` places, of which a principal may have `places_max`.
    pub(crate) fn new(
        resource: R,
        (capacity, places_max): (usize, usize),
        reserves: Reserves,
    ) -> Self {
        let mut ledger = Ledger::new([Capacity::of(capacity)], reserves);
        let operators = ledger.attach(PrincipalKey::Management);
        let places_max = u32::try_from(places_max).unwrap_or(u32::MAX);
        Self {
            ledger,
            resource,
            operators,
            places_max,
            #[cfg(feature = "planted-faults")]
            is_unshared: false,
        }
    }

    /// Plants a fault: the table is not shared, but first come, first served.
    #[cfg(feature = "planted-faults")]
    pub(crate) fn stop_sharing(&mut self) {
        self.is_unshared = true;
    }

    /// Returns the holdings of all principals.
    pub(crate) fn report(&self) -> LedgerReport<1> {
        self.ledger.report()
    }

    /// Notes how many entries operators hold.
    pub(crate) fn set_operators(&mut self, count: usize) {
        let Self { ledger, resource, operators, .. } = self;
        let before = ledger.held(*operators, *resource);
        let of_operators = u32::try_from(count).unwrap_or(u32::MAX);
        match of_operators.cmp(&before) {
            Ordering::Greater => ledger.charge(*operators, *resource, of_operators - before),
            Ordering::Less => ledger.release(*operators, *resource, before - of_operators),
            Ordering::Equal => {}
        }
    }

    /// Whether a principal may hold this number of places more.
    ///
    /// # Errors
    /// [`ShareUsedUp`].
    pub(crate) fn check(
        &mut self,
        principal: PrincipalKey,
        places: u32,
    ) -> Result<(), ShareUsedUp> {
        let index = self.index_of(principal);
        let held = self.ledger.held(index, self.resource);
        let has_room = self.ledger.has_room_beside_others(index, self.resource, places)
            && held.saturating_add(places) <= self.places_max;
        #[cfg(feature = "planted-faults")]
        let has_room = has_room || self.is_unshared;
        let capacity = self.ledger.capacity(self.resource).min(self.places_max);
        let table = self.resource.name();
        has_room.then_some(()).ok_or(ShareUsedUp { principal, table, held, capacity })
    }

    /// Returns the index of a principal, which others may have too (see [`Ledger::attach`]). Of one that holds nothing, the
    /// index may be another's after the next charge.
    pub(crate) fn index_of(&mut self, principal: PrincipalKey) -> PrincipalIndex {
        let index = self.ledger.attach(principal);
        self.ledger.detach(index);
        index
    }

    /// Charges an entry to a principal, which keeps its index until the charge is [released](Self::release).
    pub(crate) fn charge(&mut self, principal: PrincipalKey, places: u32) -> Charge {
        let owner = self.ledger.attach(principal);
        self.ledger.charge(owner, self.resource, places);
        self.ledger.detach(owner);
        Charge { owner, places }
    }

    /// Returns the principal that an entry is charged to.
    pub(crate) fn principal(&self, charge: Charge) -> PrincipalKey {
        self.ledger.key(charge.owner)
    }

    /// Keeps the index of a principal, which may hold nothing, until it is [released](Self::release_index).
    pub(crate) fn keep_index(&mut self, owner: PrincipalIndex) {
        let attached = self.ledger.attach(self.ledger.key(owner));
        debug_assert_eq!(attached, owner, "a principal has one index");
    }

    /// Ends [`keep_index`](Self::keep_index).
    pub(crate) fn release_index(&mut self, owner: PrincipalIndex) {
        self.ledger.detach(owner);
    }

    /// Gives the places of an entry back.
    pub(crate) fn release(&mut self, Charge { owner, places }: Charge) {
        self.ledger.release(owner, self.resource, places);
    }
}

/// The entries of a table that principals other than operators hold.
#[derive(Debug)]
pub(crate) struct Owners<K> {
    by_key: BTreeMap<K, Charge>,
    /// Charges of entries that have ended, to be released.
    ended: Vec<Charge>,
}

impl<K> Default for Owners<K> {
    fn default() -> Self {
        Self { by_key: BTreeMap::new(), ended: Vec::new() }
    }
}

impl<K: Ord> Owners<K> {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(crate) fn find(&self, key: &K) -> Option<Charge> {
        self.by_key.get(key).copied()
    }

    pub(crate) fn begin(&mut self, key: K, charge: Charge) {
        self.ended.extend(self.by_key.insert(key, charge));
    }

    /// An entry has ended, or is an operator's from now on.
    pub(crate) fn end(&mut self, key: &K) {
        self.ended.extend(self.by_key.remove(key));
    }

    /// The charges of entries that have ended since the last call.
    pub(crate) fn take_ended(&mut self) -> Vec<Charge> {
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
        let mut share = Share::new(Entries, (1000, 1000), Reserves::NONE);
        share.set_operators(200);
        let mut held = Vec::new();
        while share.check(user(1), 1).is_ok() {
            held.push(share.charge(user(1), 1));
        }
        assert_eq!(held.len(), 400);
        let error = share.check(user(1), 1).err().map(|error| error.to_string());
        assert_eq!(
            error.as_deref(),
            Some("user 1 has its share of the entries: it holds 400 of 1000")
        );
        assert!(share.check(user(2), 1).is_ok());
        let management = |share: &Share<Entries>| {
            let report = share.report();
            report
                .principals
                .iter()
                .find(|one| one.key == PrincipalKey::Management)
                .map(|one| one.held)
        };
        assert_eq!(management(&share), Some([200]));
        held.into_iter().for_each(|charge| share.release(charge));
        share.set_operators(0);
        assert!(share.report().is_zero());
    }

    #[test]
    fn principal_has_no_more_than_its_maximum_and_long_prefixes_count_more() {
        let mut share = Share::new(Entries, (1000, 100), Reserves::NONE);
        let of = |length: usize| {
            let name = ndn_packet::Name::from_uri(&format!("/{}", "x".repeat(length))).unwrap();
            places(name.as_ref())
        };
        assert_eq!((of(10), of(125), of(126), of(1275)), (1, 1, 2, 10));
        let charge = share.charge(user(1), 91);
        assert!(share.check(user(1), 9).is_ok() && share.check(user(1), 10).is_err());
        share.release(charge);
        assert!(share.report().is_zero());
    }

    #[test]
    fn operators_may_use_all_of_the_table() {
        let mut share =
            Share::new(Entries, (10, 10), Reserves { management: 1, local: 10, neighbour: 20 });
        share.set_operators(10);
        assert!(share.check(user(1), 1).is_err());
        share.set_operators(9);
        assert!(share.check(user(1), 1).is_ok());
    }
}
