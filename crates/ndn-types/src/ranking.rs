//! A ledger that knows who holds most.

use crate::shares::{Capacity, Limits, Reserves, ShareVerdict};
use crate::{Ledger, LedgerReport, PrincipalClass, PrincipalIndex, PrincipalKey, Resources};

/// Divisor of the part that is open to all: that much more than the excess is freed when more is used than the
/// capacity, so that the next charges find room.
const SPARE_PART: u32 = 16;

/// A [`Ledger`] for resources of which somebody has to give back at once: it finds who holds most without a search.
///
/// A charge or release costs a few comparisons more than that of a [`Ledger`].
#[derive(Debug)]
pub struct RankedLedger<R, const N: usize> {
    ledger: Ledger<R, N>,
    rankings: [Ranking; N],
}

/// The units that a principal has to return, because other principals received their shares beyond the capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Debt {
    /// The principal: of those above their shares, the one with the largest excess.
    pub principal: PrincipalIndex,
    /// Units that it may keep.
    pub keeps: u32,
}

impl<R: Resources<N>, const N: usize> RankedLedger<R, N> {
    /// Nothing held; the capacities are in the order of [`Resources::ALL`].
    #[must_use]
    pub fn new(capacities: [Capacity; N], reserves: Reserves) -> Self {
        let rankings = std::array::from_fn(|_| Ranking::default());
        Self { ledger: Ledger::new(capacities, reserves), rankings }
    }

    /// Adds a face of a principal.
    pub fn attach(&mut self, key: PrincipalKey) -> PrincipalIndex {
        self.ledger.attach(key)
    }

    /// Removes a face of a principal.
    pub fn detach(&mut self, index: PrincipalIndex) {
        self.ledger.detach(index);
    }

    /// Charges `count` units to a principal.
    pub fn charge(&mut self, index: PrincipalIndex, resource: R, count: u32) {
        if count == 0 {
            return;
        }
        self.ledger.charge(index, resource, count);
        let held = self.ledger.held(index, resource);
        self.rankings[resource.index()].set(index, self.ledger.class(index), held);
    }

    /// Gives `count` units back.
    pub fn release(&mut self, index: PrincipalIndex, resource: R, count: u32) {
        if count == 0 {
            return;
        }
        // The ledger may forget the principal.
        let held = self.ledger.held(index, resource) - count;
        self.rankings[resource.index()].set(index, self.ledger.class(index), held);
        self.ledger.release(index, resource, count);
    }

    /// Whether there is room for everybody, without touching the reserves.
    #[must_use]
    #[inline]
    pub fn is_open(&self, resource: R, count: u32) -> bool {
        self.ledger.is_open(resource, count)
    }

    /// Whether a principal may take `count` units more: those that are free, or those that a [`victim`](Self::victim)
    /// gives back.
    #[must_use]
    pub fn may_take(&self, index: PrincipalIndex, resource: R, count: u32) -> bool {
        match self.ledger.verdict(index, resource, count) {
            ShareVerdict::Room => true,
            ShareVerdict::Evict(limits) => self.victim(resource, limits).is_some(),
            ShareVerdict::Refused => false,
        }
    }

    /// Whether a principal may take `count` units more.
    #[must_use]
    pub fn verdict(&self, index: PrincipalIndex, resource: R, count: u32) -> ShareVerdict {
        self.ledger.verdict(index, resource, count)
    }

    /// Of the principals above their limits, the one that is above by most.
    #[must_use]
    pub fn victim(&self, resource: R, limits: Limits) -> Option<PrincipalIndex> {
        let ranking = &self.rankings[resource.index()];
        let tops = PrincipalClass::ALL.into_iter().filter_map(|class| {
            let (held, index) = ranking.top(class)?;
            Some((held.checked_sub(limits.of(class))?, index))
        });
        tops.filter(|(excess, _)| *excess > 0).max().map(|(_, index)| index)
    }

    /// Returns the principal that has to return units, while more is used than the capacity: the one with the largest
    /// excess above its share, or, if none is above the floor, the one that holds most.
    #[must_use]
    pub fn debt(&self, resource: R) -> Option<Debt> {
        let (mut limits, excess, open) = self.ledger.excess(resource)?;
        let principal = self.victim(resource, limits).or_else(|| {
            limits = limits.without_shares();
            self.victim(resource, limits)
        })?;
        let held = self.ledger.held(principal, resource);
        let least = limits.of(self.ledger.class(principal));
        let keeps = held.saturating_sub(excess + open / SPARE_PART).max(least);
        Some(Debt { principal, keeps })
    }

    /// Returns the units that a principal holds.
    #[must_use]
    pub fn held(&self, index: PrincipalIndex, resource: R) -> u32 {
        self.ledger.held(index, resource)
    }

    /// As [`Ledger::exceeds`].
    #[must_use]
    pub fn exceeds(&self, index: PrincipalIndex, resource: R, limits: Limits) -> bool {
        self.ledger.exceeds(index, resource, limits)
    }

    /// The name of a principal.
    #[must_use]
    pub fn key(&self, index: PrincipalIndex) -> PrincipalKey {
        self.ledger.key(index)
    }

    /// Units in use.
    #[must_use]
    pub fn used(&self, resource: R) -> u32 {
        self.ledger.used(resource)
    }

    /// Returns the units of each resource in use, in total and by principal.
    #[must_use]
    pub fn report(&self) -> LedgerReport<N> {
        self.ledger.report()
    }
}

/// The principals that hold something of one resource: for each class, a binary heap with the largest on top.
#[derive(Debug, Default)]
struct Ranking {
    heaps: [Vec<(u32, PrincipalIndex)>; PrincipalClass::COUNT],
    /// The position of each principal in the heap of its class.
    positions: Vec<Option<usize>>,
}

impl Ranking {
    fn top(&self, class: PrincipalClass) -> Option<(u32, PrincipalIndex)> {
        self.heaps[class.index()].first().copied()
    }

    fn set(&mut self, index: PrincipalIndex, class: PrincipalClass, held: u32) {
        let Self { heaps, positions } = self;
        if index.index() >= positions.len() {
            positions.resize(index.index() + 1, None);
        }
        let mut heap = Heap { entries: &mut heaps[class.index()], positions };
        match (heap.positions[index.index()], held) {
            (None, 0) => {}
            (None, _) => heap.push(held, index),
            (Some(position), 0) => heap.remove(position),
            (Some(position), _) => heap.change(position, held),
        }
    }
}

/// The heap of one class.
struct Heap<'a> {
    entries: &'a mut Vec<(u32, PrincipalIndex)>,
    positions: &'a mut [Option<usize>],
}

impl Heap<'_> {
    fn push(&mut self, held: u32, index: PrincipalIndex) {
        self.entries.push((held, index));
        self.raise(self.entries.len() - 1);
    }

    fn change(&mut self, position: usize, held: u32) {
        let before = std::mem::replace(&mut self.entries[position].0, held);
        if held > before { self.raise(position) } else { self.lower(position) }
    }

    fn remove(&mut self, position: usize) {
        let (held, index) = self.entries.swap_remove(position);
        self.positions[index.index()] = None;
        if let Some((moved, _)) = self.entries.get(position) {
            if *moved > held { self.raise(position) } else { self.lower(position) }
        }
    }

    fn raise(&mut self, mut position: usize) {
        while position > 0 {
            let parent = (position - 1) / 2;
            if self.entries[parent].0 >= self.entries[position].0 {
                break;
            }
            self.swap(parent, position);
            position = parent;
        }
        self.note(position);
    }

    fn lower(&mut self, mut position: usize) {
        loop {
            let children = 2 * position + 1..(2 * position + 3).min(self.entries.len());
            let Some(child) = children.max_by_key(|&child| self.entries[child].0) else { break };
            if self.entries[child].0 <= self.entries[position].0 {
                break;
            }
            self.swap(child, position);
            position = child;
        }
        self.note(position);
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.entries.swap(one, other);
        self.note(one);
        self.note(other);
    }

    fn note(&mut self, position: usize) {
        let (_, index) = self.entries[position];
        self.positions[index.index()] = Some(position);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;
    use crate::ledger::tests::Places;

    const CAPACITY: u32 = 200;

    fn keys() -> [PrincipalKey; 8] {
        let remote = |number| PrincipalKey::remote((Ipv4Addr::from_bits(number), 1).into());
        let local = |pid| PrincipalKey::LocalApplication { uid: 1, pid };
        let neighbour = |face_id| PrincipalKey::Neighbour { face_id };
        [remote(1), remote(2), remote(3), remote(4), local(1), local(2), neighbour(1), neighbour(2)]
    }

    fn ledger(reserves: Reserves, floor: usize) -> RankedLedger<Places, 1> {
        RankedLedger::new([Capacity::with_floor(CAPACITY as usize, floor)], reserves)
    }

    #[test]
    fn principal_above_its_share_by_most_is_in_debt() {
        let mut ledger = ledger(Reserves::NONE, 1);
        let [first, second, third] = [0, 1, 2].map(|at| ledger.attach(keys()[at]));
        ledger.charge(first, Places, 120);
        ledger.charge(second, Places, 80);
        assert_eq!(ledger.debt(Places), None, "all of it is used, and no more");
        assert!(!ledger.may_take(second, Places, 21) && ledger.may_take(third, Places, 60));
        ledger.charge(third, Places, 10);
        // Ten too many, and a sixteenth of all.
        assert_eq!(ledger.debt(Places), Some(Debt { principal: first, keeps: 98 }));
        ledger.release(first, Places, 30);
        assert_eq!(ledger.debt(Places), None);
    }

    #[test]
    fn least_share_is_granted_while_others_have_more() {
        let mut ledger = ledger(Reserves::NONE, 60);
        let [first, second, third, fourth] = [0, 1, 2, 3].map(|at| ledger.attach(keys()[at]));
        ledger.charge(first, Places, 200);
        assert!(ledger.may_take(second, Places, 60));
        ledger.charge(second, Places, 60);
        ledger.release(first, Places, 60);
        // A third part is 66; with four principals, a fourth part is less than the floor.
        assert!(ledger.may_take(third, Places, 60));
        ledger.charge(third, Places, 60);
        ledger.release(first, Places, 80);
        assert!(ledger.may_take(fourth, Places, 20), "there is room");
        assert!(!ledger.may_take(fourth, Places, 60), "nobody has more than the floor");
        ledger.charge(fourth, Places, 60);
        let Some(Debt { keeps, .. }) = ledger.debt(Places) else { panic!("40 too many") };
        assert_eq!(keeps, 60 - 40 - 12);
    }

    proptest! {
        /// The units granted beyond the capacity are owed by another principal, which keeps its share, and the ranking
        /// equals that of a search.
        #[test]
        fn units_granted_beyond_the_capacity_are_a_debt(
            percents in (0..20_u8, 0..30_u8),
            requests in proptest::collection::vec((0..8_usize, 0..40_u32, any::<bool>()), 0..200),
        ) {
            let reserves = Reserves { management: 0, local: percents.0, neighbour: percents.1 };
            let mut ledger = ledger(reserves, 1);
            let indices = keys().map(|key| ledger.attach(key));
            for (principal, count, takes) in requests {
                let index = indices[principal];
                if takes {
                    if ledger.is_open(Places, count) || ledger.may_take(index, Places, count) {
                        ledger.charge(index, Places, count);
                    }
                } else {
                    ledger.release(index, Places, count.min(ledger.held(index, Places)));
                }
                while let Some(Debt { principal, keeps }) = ledger.debt(Places) {
                    let held = ledger.held(principal, Places);
                    prop_assert!(keeps < held && (principal != index || !takes));
                    ledger.release(principal, Places, held - keeps);
                }
                prop_assert!(ledger.report().resources[0].total <= CAPACITY);
                for class in PrincipalClass::ALL {
                    let of_class = indices.iter().filter(|one| ledger.ledger.class(**one) == class);
                    let largest = of_class.map(|one| ledger.held(*one, Places)).max();
                    let top = ledger.rankings[0].top(class).map(|(held, _)| held);
                    prop_assert_eq!(top, largest.filter(|held| *held > 0));
                }
            }
        }
    }
}
