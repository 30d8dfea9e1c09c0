//! Measurements of strategies, by name prefix and face.

use ndn_table::{FaceIndex, StrategyId, Timestamp};

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
        last_next_hop: FaceIndex::from_bits(u32::MAX),
        rtt: RttEstimate::UNKNOWN,
        due: Timestamp::ZERO,
        mark: 0,
        state: 0,
    };
}

/// A set-associative table of fixed size; the entry with the oldest write is replaced.
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
    pub(crate) fn prefix_mut(
        &mut self,
        strategy: StrategyId,
        prefix_hash: u64,
        now: Timestamp,
    ) -> &mut Measurement {
        self.entry_mut(prefix_key(strategy, prefix_hash), now)
    }

    /// The entry of a namespace, to be written, with a lifetime of `lifetime_ms`.
    pub(crate) fn namespace_mut(
        &mut self,
        strategy: StrategyId,
        prefix_hash: u64,
        now: Timestamp,
        lifetime_ms: u64,
    ) -> &mut Measurement {
        self.lasting_mut(prefix_key(strategy, prefix_hash), now, lifetime_ms)
    }

    /// The hash of the longest prefix that has an entry.
    pub(crate) fn find_namespace(
        &self,
        strategy: StrategyId,
        prefix_hashes: &[u64],
        now: Timestamp,
    ) -> Option<u64> {
        let mut hashes = prefix_hashes.iter().rev().copied();
        hashes.find(|&hash| self.find(prefix_key(strategy, hash), now).is_some())
    }

    /// The entry of a next hop of a namespace, to be written, with a lifetime of `lifetime_ms`.
    pub(crate) fn hop_mut(
        &mut self,
        strategy: StrategyId,
        prefix_hash: u64,
        face: FaceIndex,
        now: Timestamp,
        lifetime_ms: u64,
    ) -> &mut Measurement {
        self.lasting_mut(hop_key(strategy, prefix_hash, face), now, lifetime_ms)
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

    fn lasting_mut(&mut self, key: u64, now: Timestamp, lifetime_ms: u64) -> &mut Measurement {
        let entry = self.entry_mut(key, now);
        entry.expiry = now.plus_millis(lifetime_ms);
        entry
    }

    /// The entry of a face, to be written.
    pub(crate) fn face_mut(
        &mut self,
        strategy: StrategyId,
        face: FaceIndex,
        now: Timestamp,
    ) -> &mut Measurement {
        let hash = u64::from(face.to_bits()) | 1 << 63;
        self.entry_mut(prefix_key(strategy, mix(hash)), now)
    }

    fn find(&self, key: u64, now: Timestamp) -> Option<&Measurement> {
        let set = &self.sets[set_index(key)];
        set.iter().find(|entry| entry.key == key && entry.expiry > now)
    }

    fn entry_mut(&mut self, key: u64, now: Timestamp) -> &mut Measurement {
        let set = &mut self.sets[set_index(key)];
        let known = set.iter().position(|entry| entry.key == key && entry.expiry > now);
        let way = known.unwrap_or_else(|| {
            let oldest = (0..WAYS).min_by_key(|&way| set[way].expiry).unwrap_or(0);
            set[oldest] = Measurement { key, ..Measurement::NONE };
            oldest
        });
        set[way].expiry = now.plus_millis(LIFETIME_MS);
        &mut set[way]
    }
}

fn prefix_key(strategy: StrategyId, hash: u64) -> u64 {
    hash ^ mix(u64::from(strategy.0))
}

fn hop_key(strategy: StrategyId, prefix_hash: u64, face: FaceIndex) -> u64 {
    prefix_key(strategy, mix(prefix_hash ^ mix(u64::from(face.to_bits()) | 1 << 62)))
}

/// The finaliser of SplitMix64.
pub(super) fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

fn set_index(key: u64) -> usize {
    usize::from(key.to_le_bytes()[0]) | usize::from(key.to_le_bytes()[1] & 3) << 8
}

const _: () = assert!(SET_COUNT == 4 << 8);

#[cfg(test)]
mod tests {
    use super::*;

    const A: StrategyId = StrategyId(0);
    const B: StrategyId = StrategyId(1);

    #[test]
    fn longest_prefix_of_the_same_strategy_is_found_until_it_expires() {
        let mut table = Measurements::new();
        let hashes = [11, 22, 33, 44];
        let start = Timestamp::from_millis(5);
        table.prefix_mut(A, hashes[1], start).last_next_hop = FaceIndex::new(1, 0);
        table.prefix_mut(B, hashes[3], start).last_next_hop = FaceIndex::new(3, 0);
        let find = |table: &Measurements, strategy, now| {
            table.find_longest_prefix(strategy, &hashes, now).map(|m| m.last_next_hop.slot())
        };
        assert_eq!(find(&table, A, start), Some(1));
        assert_eq!(find(&table, B, start), Some(3));
        table.prefix_mut(A, hashes[2], start.plus_millis(4000)).last_next_hop =
            FaceIndex::new(2, 0);
        assert_eq!(find(&table, A, start.plus_millis(7999)), Some(2));
        assert_eq!(find(&table, A, start.plus_millis(12_000)), None);
    }

    #[test]
    fn full_set_replaces_the_oldest() {
        let mut table = Measurements::new();
        let key = |n: u64| 7 | n << 20;
        for n in 0..5 {
            table.entry_mut(key(n), Timestamp::from_millis(n));
        }
        let now = Timestamp::from_millis(5);
        let found = (0..5).filter(|&n| table.find(key(n), now).is_some()).collect::<Vec<_>>();
        assert_eq!(found, [1, 2, 3, 4]);
    }
}
