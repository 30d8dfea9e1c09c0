//! Which pending Interests a Data satisfies.

use super::pit::{PIT_BIT, Pit};
use super::pit_entry::{PitFlags, PitIndex};
use super::{packet_has_name, packet_name};
use crate::DataKey;
use crate::hash_index::HashIndex;
use crate::key::DIGEST_COMPONENT_LENGTH;
use crate::name_hash::PREFIX_HASHES_MAX;

/// Which name lengths have entries with CanBePrefix.
#[derive(Debug)]
pub(super) struct PrefixLengths {
    mask: u64,
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

/// Counters of [`DigestWaiters`] for each entry that the PIT may have: with as many digests waiting
/// as there is room for, one Data in eight is hashed in vain.
const DIGEST_COUNTERS_PER_ENTRY: usize = 8;

/// For which Data names entries with an implicit digest wait, by a part of the keyed hash.
///
/// Such an entry is filed under its full name, digest included: under the name alone, a few dozen
/// digests made up for one name would fill its neighbourhood in the index. So the digest of a Data
/// has to be known to find them, and it is computed only if one of these counters says so.
#[derive(Debug)]
pub(super) struct DigestWaiters {
    total: u32,
    /// As many as a power of two. Their memory is touched where digests wait only.
    counts: Vec<u32>,
}

impl DigestWaiters {
    /// Counters for a PIT of so many entries.
    pub(super) fn new(pit_entries_max: usize) -> Self {
        let count = (pit_entries_max * DIGEST_COUNTERS_PER_ENTRY).next_power_of_two();
        Self { total: 0, counts: vec![0; count] }
    }

    pub(super) fn add(&mut self, data_hash: u64) {
        self.total += 1;
        let place = self.place(data_hash);
        self.counts[place] += 1;
    }

    pub(super) fn subtract(&mut self, data_hash: u64) {
        self.total -= 1;
        let place = self.place(data_hash);
        self.counts[place] -= 1;
    }

    /// Whether an entry may wait for Data of the name with this hash.
    #[inline(always)]
    fn may_include(&self, data_hash: u64) -> bool {
        self.total != 0 && self.counts[self.place(data_hash)] != 0
    }

    /// The lowest bits of the hash.
    #[inline(always)]
    fn place(&self, data_hash: u64) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "masked to the number of counters")]
        let place = data_hash as usize & (self.counts.len() - 1);
        place
    }
}

impl Pit {
    /// Finds every entry that a Data satisfies; whether anything is cached under its hash.
    #[inline]
    pub(super) fn matches(
        &self,
        index: &HashIndex,
        key: &DataKey<'_>,
        digest: impl FnOnce() -> [u8; 32],
        found: &mut PitMatches,
    ) -> bool {
        found.clear();
        let name = key.name.value();
        let depth = key.hashes.len() - 1;
        let mut has_cached = false;
        index.for_each(key.hashes[depth], |reference| {
            if !Self::owns(reference) {
                has_cached = true;
                return;
            }
            let place = reference & !PIT_BIT;
            let entry = &self.entries[place];
            if !entry.flags.has(PitFlags::HAS_DIGEST)
                && packet_has_name(self.interest_of(entry), name)
            {
                found.push(PitIndex(place));
            }
        });
        if self.digest_waiters.may_include(key.hashes[depth]) {
            self.matches_of_digest(index, name, &digest(), found);
        }
        let mut lengths = self.prefix_lengths_below(depth);
        while lengths != 0 {
            let length = lengths.ilog2() as usize;
            lengths ^= 1 << length;
            index.for_each(key.hashes[length], |reference| {
                if !Self::owns(reference) {
                    return;
                }
                let place = PitIndex(reference & !PIT_BIT);
                let entry = &self.entries[place.0];
                if entry.flags.0 & (PitFlags::CAN_BE_PREFIX | PitFlags::HAS_DIGEST)
                    == PitFlags::CAN_BE_PREFIX
                    && usize::from(entry.name_components) == length
                    && name.starts_with(packet_name(self.interest(place)))
                {
                    found.push(place);
                }
            });
        }
        has_cached
    }

    /// Shows every entry that asks for a Data by its full name.
    #[cold]
    fn matches_of_digest(
        &self,
        index: &HashIndex,
        name: &[u8],
        digest: &[u8; 32],
        found: &mut PitMatches,
    ) {
        index.for_each(self.hasher.hash_full_name(name, digest), |reference| {
            if !Self::owns(reference) {
                return;
            }
            let place = PitIndex(reference & !PIT_BIT);
            if self.entries[place.0].flags.has(PitFlags::HAS_DIGEST)
                && let Some(wanted) = packet_name(self.interest(place)).strip_prefix(name)
                && wanted.len() == DIGEST_COMPONENT_LENGTH
                && wanted.ends_with(digest)
            {
                found.push(place);
            }
        });
    }

    /// Name lengths below `depth` that have entries with CanBePrefix, a bit each.
    #[inline(always)]
    pub(super) fn prefix_lengths_below(&self, depth: usize) -> u64 {
        self.prefix_lengths.mask & ((1 << depth) - 1)
    }
}

/// PIT entries that one Data can satisfy at most: eight at its own name (CanBePrefix or not,
/// MustBeFresh or not, with the digest or without), two at each shorter length.
pub const PIT_MATCHES_MAX: usize = 8 + 2 * (PREFIX_HASHES_MAX - 1);

/// The PIT entries that a Data satisfies; made once and used again for every Data.
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

    /// Entry `position` of the slice.
    #[must_use]
    #[inline]
    pub fn get(&self, position: usize) -> Option<PitIndex> {
        self.as_slice().get(position).copied()
    }

    /// Takes entry `position` out; those behind it move up.
    ///
    /// # Panics
    /// When there is none.
    pub fn remove(&mut self, position: usize) {
        self.entries[..self.len].copy_within(position + 1.., position);
        self.len -= 1;
    }

    fn clear(&mut self) {
        self.len = 0;
    }

    fn push(&mut self, place: PitIndex) {
        self.entries[self.len] = place;
        self.len += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NameHasher;

    #[test]
    fn few_data_are_hashed_in_vain_even_when_the_pit_is_full_of_digests() {
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
