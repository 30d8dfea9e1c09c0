//! Helpers to find the pending Interests that a Data satisfies.

use super::pit_entry::PitIndex;
use crate::hash_index::ItemPlace;
use crate::name_hash::PREFIX_HASHES_MAX;

/// Name lengths that have entries with CanBePrefix.
#[derive(Debug)]
pub(super) struct PrefixLengths {
    pub(super) mask: u64,
    counts: [u32; PREFIX_HASHES_MAX],
}

impl PrefixLengths {
    pub(super) const EMPTY: Self = Self { mask: 0, counts: [0; PREFIX_HASHES_MAX] };

    pub(super) fn add(&mut self, length: usize) {
        self.counts[length] += 1;
        self.mask |= 1 << length;
    }

    pub(super) fn subtract(&mut self, length: usize) {
        self.counts[length] -= 1;
        if self.counts[length] == 0 {
            self.mask &= !(1 << length);
        }
    }
}

/// Counters of [`DigestWaiters`] per PIT entry: with the maximum number of digests pending, one
/// Data in eight is hashed needlessly.
const DIGEST_COUNTERS_PER_ENTRY: usize = 8;

/// Data names for which entries with an implicit digest are pending, by a part of the keyed hash.
///
/// Such an entry is indexed by its full name, digest included: by the name alone, a few dozen
/// invented digests of one name would fill its buckets. The digest of a Data is therefore needed to
/// find them, and it is computed only if one of these counters is not 0.
#[derive(Debug)]
pub(super) struct DigestWaiters {
    total: u32,
    /// A power of two. Memory is touched only where digests are pending.
    counts: Vec<u32>,
}

impl DigestWaiters {
    /// Counters for a PIT of `pit_entries_max` entries.
    pub(super) fn new(pit_entries_max: usize) -> Self {
        let count = (pit_entries_max * DIGEST_COUNTERS_PER_ENTRY).next_power_of_two();
        Self { total: 0, counts: vec![0; count] }
    }

    pub(super) fn add(&mut self, data_hash: u64) {
        self.total += 1;
        let slot = self.slot(data_hash);
        self.counts[slot] += 1;
    }

    pub(super) fn subtract(&mut self, data_hash: u64) {
        self.total -= 1;
        let slot = self.slot(data_hash);
        self.counts[slot] -= 1;
    }

    /// Whether an entry may be pending for Data of the name with this hash.
    #[inline(always)]
    pub(super) fn may_include(&self, data_hash: u64) -> bool {
        self.total != 0 && self.counts[self.slot(data_hash)] != 0
    }

    /// The lowest bits of the hash.
    #[inline(always)]
    fn slot(&self, data_hash: u64) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "masked to the number of counters")]
        let slot = data_hash as usize & (self.counts.len() - 1);
        slot
    }
}

/// Maximum number of PIT entries that one Data can satisfy: eight of its own name (CanBePrefix or
/// not, MustBeFresh or not, with the digest or without), two of each shorter length.
const PIT_MATCHES_MAX: usize = 8 + 2 * (PREFIX_HASHES_MAX - 1);

/// The entry that a Data satisfies, see [`Pcct::find_only_match`](super::Pcct::find_only_match): until it is erased.
#[derive(Clone, Copy, Debug)]
pub struct OnlyMatch {
    pub(super) entry: PitIndex,
    pub(super) place: ItemPlace,
}

impl OnlyMatch {
    /// The entry.
    #[must_use]
    #[inline]
    pub fn entry(&self) -> PitIndex {
        self.entry
    }
}

/// The PIT entries that a Data satisfies; allocated once and reused for every Data.
#[derive(Debug)]
pub struct PitMatches {
    entries: [PitIndex; PIT_MATCHES_MAX],
    len: usize,
}

impl Default for PitMatches {
    fn default() -> Self {
        Self { entries: [PitIndex(0); PIT_MATCHES_MAX], len: 0 }
    }
}

impl PitMatches {
    /// The entries found by the last search: those of the Data's own name, with its digest or
    /// without, then those of shorter names, the longest first.
    #[must_use]
    #[inline]
    pub fn as_slice(&self) -> &[PitIndex] {
        &self.entries[..self.len]
    }

    /// The entry at `position` of the slice.
    #[must_use]
    #[inline]
    pub fn get(&self, position: usize) -> Option<PitIndex> {
        self.as_slice().get(position).copied()
    }

    /// Removes the entry at `position`; later entries move up.
    ///
    /// # Panics
    /// When there is none.
    pub fn remove(&mut self, position: usize) {
        self.entries[..self.len].copy_within(position + 1.., position);
        self.len -= 1;
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    pub(super) fn push(&mut self, slot: PitIndex) {
        self.entries[self.len] = slot;
        self.len += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NameHasher;

    #[test]
    fn few_data_are_hashed_needlessly_when_the_pit_is_full_of_digests() {
        const ENTRIES: u32 = 16_384;
        let hasher = NameHasher::new(*b"key of the tests");
        let hash = |number: u32| hasher.hash_value(&number.to_be_bytes());
        let mut waiters = DigestWaiters::new(ENTRIES as usize);
        (0..ENTRIES).for_each(|number| waiters.add(hash(number)));
        assert!((0..ENTRIES).all(|number| waiters.may_include(hash(number))));
        let others = (ENTRIES..2 * ENTRIES).filter(|&number| waiters.may_include(hash(number)));
        assert!(others.count() < ENTRIES as usize / 7);
        (0..ENTRIES).for_each(|number| waiters.subtract(hash(number)));
        assert!(waiters.counts.iter().all(|&count| count == 0) && !waiters.may_include(hash(0)));
    }
}
