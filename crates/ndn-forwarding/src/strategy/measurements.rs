//! Measurements of strategies, by name prefix and face.

use std::cmp::Reverse;

use ndn_table::{FaceIndex, StrategyId};
use ndn_types::random::finalize;
use ndn_types::{PrincipalIndex, Timestamp};

use super::rtt::RttEstimate;

/// Entries per set (associativity).
const WAYS: usize = 4;
/// Sets in the table.
const SET_COUNT: usize = 1024;
/// Default lifetime of an entry after its last write.
const LIFETIME_MS: u64 = 8000;

/// A measurement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measurement {
    key: u64,
    expiry: Timestamp,
    /// The principal whose Interest made it. If that has ended, its number may be that of a newcomer until this expires.
    principal: PrincipalIndex,
    /// The last other principal whose Interest was measured by it; the same if there is none.
    other: PrincipalIndex,
    /// The face that answered last.
    pub(crate) last_next_hop: FaceIndex,
    /// Its round-trip time.
    pub(crate) rtt: RttEstimate,
    /// Deadline of the strategy's next action; zero for none.
    pub(crate) due: Timestamp,
    /// Reserved for the strategy, such as the hash of a name.
    pub(crate) mark: u64,
    /// Reserved for the strategy.
    pub(crate) state: u64,
}

impl Measurement {
    const NONE: Self = Self {
        key: 0,
        expiry: Timestamp::ZERO,
        principal: PrincipalIndex::OTHER,
        other: PrincipalIndex::OTHER,
        last_next_hop: FaceIndex::from_bits(u32::MAX),
        rtt: RttEstimate::UNKNOWN,
        due: Timestamp::ZERO,
        mark: 0,
        state: 0,
    };
}

/// The strategy and the Interest that a measurement comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Writer {
    /// The strategy.
    pub(crate) strategy: StrategyId,
    /// The principal of the Interest.
    pub(crate) principal: PrincipalIndex,
    /// The time.
    pub(crate) now: Timestamp,
}

/// A set-associative table of fixed size.
///
/// A new entry takes the place of one that has expired. If there is none, the principal with most entries of the set
/// gives way, the one that writes included; among several, the one that ends first. An entry that two principals use
/// gives way as one of the principal with fewer. So Interests of one principal under any number of names leave a place in
/// each set to others, and also what these use of its own.
///
/// Keys are keyed 64-bit hashes of name prefixes, without the names: if two prefixes collide, the
/// strategy may prefer the wrong upstream, nothing worse.
#[derive(Debug)]
pub struct Measurements {
    sets: Box<[[Measurement; WAYS]]>,
}

impl Default for Measurements {
    fn default() -> Self {
        Self::new()
    }
}

impl Measurements {
    /// An empty table.
    #[must_use]
    pub fn new() -> Self {
        Self { sets: vec![[Measurement::NONE; WAYS]; SET_COUNT].into_boxed_slice() }
    }

    /// The entry of the longest prefix that has one.
    pub(crate) fn find_longest_prefix(
        &self,
        strategy: StrategyId,
        prefix_hashes: &[u64],
        now: Timestamp,
    ) -> Option<&Measurement> {
        prefix_hashes.iter().rev().find_map(|&hash| self.find(prefix_key(strategy, hash), now))
    }

    /// The entry of a prefix, to be written.
    pub(crate) fn prefix_mut(&mut self, by: Writer, prefix_hash: u64) -> &mut Measurement {
        self.entry_mut(by, prefix_key(by.strategy, prefix_hash))
    }

    /// The entry of a namespace, to be written, with a lifetime of `lifetime_ms`.
    pub(crate) fn namespace_mut(
        &mut self,
        by: Writer,
        prefix_hash: u64,
        lifetime_ms: u64,
    ) -> &mut Measurement {
        self.lasting_mut(by, prefix_key(by.strategy, prefix_hash), lifetime_ms)
    }

    /// The entry of a next hop of a namespace, to be written, with a lifetime of `lifetime_ms`.
    pub(crate) fn hop_mut(
        &mut self,
        by: Writer,
        prefix_hash: u64,
        face: FaceIndex,
        lifetime_ms: u64,
    ) -> &mut Measurement {
        self.lasting_mut(by, hop_key(by.strategy, prefix_hash, face), lifetime_ms)
    }

    /// The entry of a next hop of a namespace, if it exists.
    pub(crate) fn find_hop_mut(
        &mut self,
        strategy: StrategyId,
        prefix_hash: u64,
        face: FaceIndex,
        now: Timestamp,
    ) -> Option<&mut Measurement> {
        let key = hop_key(strategy, prefix_hash, face);
        let set = &mut self.sets[set_index(key)];
        set.iter_mut().find(|entry| entry.key == key && entry.expiry > now)
    }

    fn lasting_mut(&mut self, by: Writer, key: u64, lifetime_ms: u64) -> &mut Measurement {
        let entry = self.entry_mut(by, key);
        entry.expiry = by.now.plus_millis(lifetime_ms);
        entry
    }

    /// The entry of a face, to be written.
    pub(crate) fn face_mut(&mut self, by: Writer, face: FaceIndex) -> &mut Measurement {
        let hash = u64::from(face.to_bits()) | 1 << 63;
        self.entry_mut(by, prefix_key(by.strategy, finalize(hash)))
    }

    fn find(&self, key: u64, now: Timestamp) -> Option<&Measurement> {
        let set = &self.sets[set_index(key)];
        set.iter().find(|entry| entry.key == key && entry.expiry > now)
    }

    /// An entry belongs to the principal whose Interest made it, so that nobody takes over those of others by writing to
    /// them, and also to the last other one that wrote to it, so that nobody takes it away from that one.
    fn entry_mut(&mut self, by: Writer, key: u64) -> &mut Measurement {
        let Writer { principal, now, .. } = by;
        let set = &mut self.sets[set_index(key)];
        let known = set.iter().position(|entry| entry.key == key && entry.expiry > now);
        let way = known.unwrap_or_else(|| {
            let way = replaced_way(set, by);
            set[way] = Measurement { key, principal, other: principal, ..Measurement::NONE };
            way
        });
        if set[way].principal != principal {
            set[way].other = principal;
        }
        set[way].expiry = now.plus_millis(LIFETIME_MS);
        &mut set[way]
    }
}

/// The entry whose place a new one takes.
fn replaced_way(set: &[Measurement; WAYS], by: Writer) -> usize {
    let held = |principal| {
        let is_of = |entry: &&Measurement| [entry.principal, entry.other].contains(&principal);
        set.iter().filter(is_of).count() + usize::from(principal == by.principal)
    };
    let rank = |&way: &usize| {
        let entry = &set[way];
        let is_alive = entry.expiry > by.now;
        let fewest = held(entry.principal).min(held(entry.other));
        (is_alive, Reverse(if is_alive { fewest } else { 0 }), entry.expiry)
    };
    (0..WAYS).min_by_key(rank).unwrap_or(0)
}

fn prefix_key(strategy: StrategyId, hash: u64) -> u64 {
    hash ^ finalize(u64::from(strategy.0))
}

fn hop_key(strategy: StrategyId, prefix_hash: u64, face: FaceIndex) -> u64 {
    prefix_key(strategy, finalize(prefix_hash ^ finalize(u64::from(face.to_bits()) | 1 << 62)))
}

fn set_index(key: u64) -> usize {
    usize::from(key.to_le_bytes()[0]) | usize::from(key.to_le_bytes()[1] & 3) << 8
}

const _: () = assert!(SET_COUNT == 4 << 8);

#[cfg(test)]
mod tests {
    use ndn_table::{Ledger, Resource};
    use ndn_types::{Capacity, PrincipalKey, Reserves};

    use super::*;

    const A: StrategyId = StrategyId(0);
    const B: StrategyId = StrategyId(1);

    #[test]
    fn longest_prefix_of_the_same_strategy_is_found_until_it_expires() {
        let mut table = Measurements::new();
        let hashes = [11, 22, 33, 44];
        let start = Timestamp::from_millis(5);
        let by = |strategy, now| Writer { strategy, principal: PrincipalIndex::OTHER, now };
        table.prefix_mut(by(A, start), hashes[1]).last_next_hop = FaceIndex::new(1, 0);
        table.prefix_mut(by(B, start), hashes[3]).last_next_hop = FaceIndex::new(3, 0);
        let find = |table: &Measurements, strategy, now| {
            table.find_longest_prefix(strategy, &hashes, now).map(|m| m.last_next_hop.slot())
        };
        assert_eq!(find(&table, A, start), Some(1));
        assert_eq!(find(&table, B, start), Some(3));
        table.prefix_mut(by(A, start.plus_millis(4000)), hashes[2]).last_next_hop =
            FaceIndex::new(2, 0);
        assert_eq!(find(&table, A, start.plus_millis(7999)), Some(2));
        assert_eq!(find(&table, A, start.plus_millis(12_000)), None);
    }

    /// The numbers of the entries in one set that are left when entries of these principals are written one after the
    /// other.
    fn left(principals: &[PrincipalIndex]) -> Vec<usize> {
        let mut table = Measurements::new();
        let key = |number: usize| 7 | (number as u64) << 20;
        let mut now = Timestamp::ZERO;
        for (number, &principal) in principals.iter().enumerate() {
            now = now.plus_millis(1);
            table.entry_mut(Writer { strategy: A, principal, now }, key(number));
        }
        (0..principals.len()).filter(|&number| table.find(key(number), now).is_some()).collect()
    }

    #[test]
    fn full_set_replaces_the_oldest_of_the_principal_with_most() {
        let mut ledger = Ledger::new([Capacity::of(1); Resource::COUNT], Reserves::NONE);
        let [one, two, three, four, five] =
            [1, 2, 3, 4, 5].map(|face_id| ledger.attach(PrincipalKey::Neighbour { face_id }));
        assert_eq!(left(&[one; 5]), [1, 2, 3, 4]);
        assert_eq!(left(&[one, two, two, two, two, two]), [0, 3, 4, 5], "its own");
        assert_eq!(left(&[one, one, one, one, two, three]), [2, 3, 4, 5]);
        assert_eq!(left(&[one, two, three, four, five]), [1, 2, 3, 4], "each has one");
        assert_eq!(left(&[one, two, three, four, four]), [0, 1, 2, 4]);
    }

    #[test]
    fn entry_that_others_use_does_not_give_way_to_its_maker() {
        let mut ledger = Ledger::new([Capacity::of(1); Resource::COUNT], Reserves::NONE);
        let [one, two, three] =
            [1, 2, 3].map(|face_id| ledger.attach(PrincipalKey::Neighbour { face_id }));
        let key = |number: usize| 7 | (number as u64) << 20;
        let left = |writes: &[(PrincipalIndex, usize)]| {
            let (mut table, mut now) = (Measurements::new(), Timestamp::ZERO);
            for &(principal, number) in writes {
                now = now.plus_millis(1);
                table.entry_mut(Writer { strategy: A, principal, now }, key(number));
            }
            let numbers = 0..writes.len();
            numbers.filter(|&number| table.find(key(number), now).is_some()).collect::<Vec<_>>()
        };
        let by_one = |numbers: std::ops::Range<usize>| numbers.map(|number| (one, number));
        let flood = |first: &[(PrincipalIndex, usize)]| {
            left(&first.iter().copied().chain(by_one(1..7)).collect::<Vec<_>>())
        };
        assert_eq!(flood(&[(one, 0)]), [3, 4, 5, 6], "only its maker uses it");
        assert_eq!(flood(&[(one, 0), (two, 0)]), [0, 4, 5, 6]);
        assert_eq!(flood(&[(one, 0), (two, 0), (one, 0)]), [0, 4, 5, 6]);
        assert_eq!(flood(&[(two, 0), (one, 0)]), [0, 4, 5, 6], "it is not taken over");
        assert_eq!(flood(&[(two, 0), (three, 0), (one, 0)]), [0, 4, 5, 6]);
    }

    #[test]
    fn entry_that_has_expired_is_replaced_first() {
        let mut table = Measurements::new();
        let mut write = |principal, number: u64, millis| {
            let now = Timestamp::from_millis(millis);
            table.entry_mut(Writer { strategy: A, principal, now }, 7 | number << 20);
            let is_kept = |number: &u64| table.find(7 | number << 20, now).is_some();
            (0..6).filter(is_kept).collect::<Vec<_>>()
        };
        let mut ledger = Ledger::new([Capacity::of(1); Resource::COUNT], Reserves::NONE);
        let [one, two] = [1, 2].map(|face_id| ledger.attach(PrincipalKey::Neighbour { face_id }));
        write(one, 0, 0);
        for number in 1..4 {
            write(two, number, 5000 + number);
        }
        assert_eq!(write(two, 4, 9000), [1, 2, 3, 4], "the first one had expired");
        assert_eq!(write(one, 5, 9001), [2, 3, 4, 5]);
    }
}
