//! Pending Interests that Data of other shards may satisfy, shared by all shards.
//!
//! A *short-prefix* Interest has CanBePrefix and a name too short to determine the shard of
//! matching Data. It is pending in one shard, its home, which publishes it here before it probes
//! the Content Stores of the other shards. A shard that receives Data reads this table on the same
//! thread that answers probes. Either the probe comes after the Data and finds it cached, or the
//! probe came before, and then the Data finds the Interest, which was published before the probe
//! was sent.
//!
//! While nothing is published, this costs a Data one load and one predictable branch.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use ndn_types::Timestamp;

use crate::PREFIX_HASHES_MAX;

/// Maximum number of Interests that one shard can publish.
pub(crate) const SHORT_PREFIX_INTERESTS_MAX: usize = BUCKETS * BUCKET_SLOTS / 2;

const BUCKETS: usize = 1024;
const BUCKET_SLOTS: usize = 8;
const _: () = assert!(BUCKETS == 1 << (64 - 54));

/// Prefix lengths; length 0 is never pending.
const LENGTHS: usize = PREFIX_HASHES_MAX;

/// Both candidate buckets of the Interest, or the shard's table, are full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortPrefixInterestsFull;

/// One published Interest: the hash of its name, 0 for a free slot.
#[derive(Debug, Default)]
struct Slot {
    hash: AtomicU64,
    expiry: AtomicU64,
    /// The PIT entry, used by the home shard alone.
    entry: AtomicU32,
}

/// The Interests that one shard has published. Only that shard writes them.
#[derive(Debug)]
#[repr(align(128))]
struct ShardInterests {
    count: AtomicU32,
    /// Number of names of each length.
    lengths: [AtomicU32; LENGTHS],
    slots: Box<[Slot]>,
}

impl ShardInterests {
    fn new() -> Self {
        Self {
            count: AtomicU32::new(0),
            lengths: [const { AtomicU32::new(0) }; LENGTHS],
            slots: (0..BUCKETS * BUCKET_SLOTS).map(|_| Slot::default()).collect(),
        }
    }

    /// The slots that a hash may be in: two buckets, chosen by bits that do not choose the shard.
    fn candidate_slots(&self, hash: u64) -> impl Iterator<Item = &Slot> {
        [(hash >> 54) as usize, (hash & 0x3FF) as usize].into_iter().flat_map(|bucket| {
            let start = bucket * BUCKET_SLOTS;
            &self.slots[start..start + BUCKET_SLOTS]
        })
    }

    fn slot_of(&self, hash: u64, entry: u32) -> Option<&Slot> {
        self.candidate_slots(hash).find(|slot| {
            slot.hash.load(Ordering::Relaxed) == hash && slot.entry.load(Ordering::Relaxed) == entry
        })
    }
}

/// The short-prefix Interests of all shards.
#[derive(Debug)]
pub struct ShortPrefixInterests {
    /// Total over all shards. Packets of all workers read this one line; it is written only when a
    /// short-prefix Interest is published or withdrawn.
    total: Total,
    shards: Box<[ShardInterests]>,
}

#[derive(Debug)]
#[repr(align(128))]
struct Total(AtomicU32);

impl ShortPrefixInterests {
    /// An empty table for `shard_count` shards.
    #[must_use]
    pub fn new(shard_count: usize) -> Self {
        Self {
            total: Total(AtomicU32::new(0)),
            shards: (0..shard_count).map(|_| ShardInterests::new()).collect(),
        }
    }

    /// Number of shards.
    #[must_use]
    pub fn shard_count(&self) -> usize {
        self.shards.len()
    }

    /// Whether no Interest is published by any shard.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.total.0.load(Ordering::Relaxed) == 0
    }

    /// Number of Interests published by a shard.
    #[inline]
    #[must_use]
    pub fn published(&self, shard: u8) -> usize {
        self.shards[usize::from(shard)].count.load(Ordering::Relaxed) as usize
    }

    /// Publishes PIT entry `entry` of `shard`, for the name of `components` components with this
    /// hash. Only that shard may call this and the other methods that modify the table.
    ///
    /// # Errors
    /// [`ShortPrefixInterestsFull`]; nothing is changed then.
    pub fn publish(
        &self,
        shard: u8,
        hash: u64,
        components: usize,
        entry: u32,
        expiry: Timestamp,
    ) -> Result<(), ShortPrefixInterestsFull> {
        let home = &self.shards[usize::from(shard)];
        let hash = key_of(hash);
        if self.published(shard) >= SHORT_PREFIX_INTERESTS_MAX {
            return Err(ShortPrefixInterestsFull);
        }
        let free = home.candidate_slots(hash).find(|slot| slot.hash.load(Ordering::Relaxed) == 0);
        let slot = free.ok_or(ShortPrefixInterestsFull)?;
        slot.entry.store(entry, Ordering::Relaxed);
        slot.expiry.store(expiry.as_nanos(), Ordering::Relaxed);
        // Release: a thread that sees the hash sees the expiry.
        slot.hash.store(hash, Ordering::Release);
        add(&home.lengths[components], 1);
        add(&home.count, 1);
        // Several shards write this counter.
        self.total.0.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Changes the expiry of a published Interest. Returns whether it is published.
    pub fn set_expiry(&self, shard: u8, hash: u64, entry: u32, expiry: Timestamp) -> bool {
        let slot = self.shards[usize::from(shard)].slot_of(key_of(hash), entry);
        slot.inspect(|slot| slot.expiry.store(expiry.as_nanos(), Ordering::Relaxed)).is_some()
    }

    /// Withdraws a published Interest. Returns whether it was published.
    pub fn withdraw(&self, shard: u8, hash: u64, components: usize, entry: u32) -> bool {
        let home = &self.shards[usize::from(shard)];
        let Some(slot) = home.slot_of(key_of(hash), entry) else { return false };
        slot.hash.store(0, Ordering::Relaxed);
        add(&home.lengths[components], u32::MAX);
        add(&home.count, u32::MAX);
        self.total.0.fetch_sub(1, Ordering::Relaxed);
        true
    }

    /// The shards, one bit each, where an Interest for a prefix of a name is pending at `now`.
    /// `hashes` are the prefix hashes of the name, the empty prefix first.
    #[must_use]
    pub fn find(&self, hashes: &[u64], now: Timestamp) -> u64 {
        let mut found = 0;
        for (number, home) in self.shards.iter().enumerate() {
            if home.count.load(Ordering::Acquire) == 0 {
                continue;
            }
            let is_pending = (1..hashes.len()).any(|length| {
                home.lengths[length].load(Ordering::Relaxed) != 0
                    && Self::is_pending(home, key_of(hashes[length]), now)
            });
            found |= u64::from(is_pending) << number;
        }
        found
    }

    fn is_pending(home: &ShardInterests, hash: u64, now: Timestamp) -> bool {
        home.candidate_slots(hash).any(|slot| {
            slot.hash.load(Ordering::Acquire) == hash
                && slot.expiry.load(Ordering::Relaxed) > now.as_nanos()
        })
    }
}

/// Replaces the hash that marks a free slot.
#[inline]
fn key_of(hash: u64) -> u64 {
    hash.max(1)
}

/// Adds to a counter that has a single writer.
fn add(counter: &AtomicU32, amount: u32) {
    let sum = counter.load(Ordering::Relaxed).wrapping_add(amount);
    counter.store(sum, Ordering::Release);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use proptest::prelude::*;

    use super::*;

    /// Few hashes, so that they collide; each has its own name length.
    fn length_of(hash: u64) -> usize {
        usize::try_from(hash % 5).unwrap() + 1
    }

    fn hashes_with(hash: u64) -> Vec<u64> {
        let mut hashes = vec![0xDEAD; 7];
        hashes[length_of(hash)] = spread(hash);
        hashes
    }

    /// A hash with the distribution of a name hash.
    fn spread(hash: u64) -> u64 {
        hash.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    #[derive(Debug, Clone)]
    enum Operation {
        Publish { shard: u8, hash: u64, entry: u32, expiry: u64 },
        SetExpiry { shard: u8, hash: u64, entry: u32, expiry: u64 },
        Withdraw { shard: u8, hash: u64, entry: u32 },
    }

    fn operation() -> impl Strategy<Value = Operation> {
        let key = (0..3_u8, 1..12_u64, 0..3_u32);
        prop_oneof![
            (key.clone(), 0..100_u64).prop_map(|((shard, hash, entry), expiry)| {
                Operation::Publish { shard, hash, entry, expiry }
            }),
            (key.clone(), 0..100_u64).prop_map(|((shard, hash, entry), expiry)| {
                Operation::SetExpiry { shard, hash, entry, expiry }
            }),
            key.prop_map(|(shard, hash, entry)| Operation::Withdraw { shard, hash, entry }),
        ]
    }

    proptest! {
        #[test]
        fn agrees_with_a_map(operations in proptest::collection::vec(operation(), 0..60)) {
            let table = ShortPrefixInterests::new(3);
            let mut oracle = std::collections::BTreeMap::new();
            for operation in operations {
                match operation {
                    Operation::Publish { shard, hash, entry, expiry } => {
                        // One PIT entry is published once.
                        if oracle.contains_key(&(shard, hash, entry)) {
                            continue;
                        }
                        let at = Timestamp::from_nanos(expiry);
                        table.publish(shard, spread(hash), length_of(hash), entry, at).unwrap();
                        oracle.insert((shard, hash, entry), expiry);
                    }
                    Operation::SetExpiry { shard, hash, entry, expiry } => {
                        let at = Timestamp::from_nanos(expiry);
                        let is_known = table.set_expiry(shard, spread(hash), entry, at);
                        let known = oracle.get_mut(&(shard, hash, entry));
                        prop_assert_eq!(is_known, known.is_some());
                        known.into_iter().for_each(|known| *known = expiry);
                    }
                    Operation::Withdraw { shard, hash, entry } => {
                        let was_there = oracle.remove(&(shard, hash, entry)).is_some();
                        prop_assert_eq!(
                            table.withdraw(shard, spread(hash), length_of(hash), entry), was_there
                        );
                    }
                }
                prop_assert_eq!(table.is_empty(), oracle.is_empty());
                for hash in 1..12 {
                    let now = 50;
                    let expected = oracle
                        .iter()
                        .filter(|((_, known, _), expiry)| *known == hash && **expiry > now)
                        .fold(0, |set, ((shard, ..), _)| set | 1 << shard);
                    let found = table.find(&hashes_with(hash), Timestamp::from_nanos(now));
                    prop_assert_eq!(found, expected);
                }
            }
        }
    }

    #[test]
    fn full_table_refuses_and_stays_unchanged() {
        const BOTH: u64 = 7 << 54 | 7;
        let table = ShortPrefixInterests::new(1);
        let later = Timestamp::MAX;
        let mut published = 0;
        // All in the same two buckets.
        while table.publish(0, BOTH, 1, published, later).is_ok() {
            published += 1;
        }
        assert_eq!((published, table.published(0)), (8, 8), "both buckets are the one");
        for entry in 0..published {
            assert!(table.withdraw(0, BOTH, 1, entry));
        }
        assert!(table.is_empty());
        let mut accepted = 0_usize;
        for number in 0..2 * SHORT_PREFIX_INTERESTS_MAX as u64 {
            accepted += usize::from(table.publish(0, spread(number + 1), 1, 0, later).is_ok());
        }
        assert_eq!(accepted, table.published(0));
        assert!(accepted > SHORT_PREFIX_INTERESTS_MAX * 9 / 10, "{accepted}");
    }
}
