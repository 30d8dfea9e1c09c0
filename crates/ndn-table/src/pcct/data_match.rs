//! Which pending Interests a Data satisfies.

use super::packet_name;
use super::pit::{PIT_BIT, Pit};
use super::pit_entry::{PitFlags, PitIndex};
use crate::DataKey;
use crate::hash_index::HashIndex;
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

impl Pit {
    /// Shows every entry that a Data satisfies.
    #[inline]
    pub(super) fn matches(
        &self,
        index: &HashIndex,
        key: &DataKey<'_>,
        digest: impl FnOnce() -> [u8; 32],
        found: &mut PitMatches,
    ) {
        found.clear();
        let name = key.name.value();
        let depth = key.hashes.len() - 1;
        let mut digest = LazyDigest::Pending(digest);
        index.for_each(key.hashes[depth], |reference| {
            if !Self::owns(reference) {
                return;
            }
            let place = PitIndex(reference & !PIT_BIT);
            let wanted = packet_name(self.interest(place));
            let is_match = if self.entries[place.0].flags.has(PitFlags::HAS_DIGEST) {
                wanted.len() == name.len() + 34
                    && wanted.starts_with(name)
                    && wanted[name.len() + 2..] == digest.value()
            } else {
                wanted == name
            };
            if is_match {
                found.push(place);
            }
        });
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
    }

    /// Name lengths below `depth` that have entries with CanBePrefix, a bit each.
    #[inline(always)]
    pub(super) fn prefix_lengths_below(&self, depth: usize) -> u64 {
        self.prefix_lengths.mask & ((1 << depth) - 1)
    }
}

/// The digest of a Data, computed when first asked for.
enum LazyDigest<F> {
    Pending(F),
    Known([u8; 32]),
    Computing,
}

impl<F: FnOnce() -> [u8; 32]> LazyDigest<F> {
    fn value(&mut self) -> [u8; 32] {
        let digest = match std::mem::replace(self, Self::Computing) {
            Self::Pending(compute) => compute(),
            Self::Known(digest) => digest,
            Self::Computing => [0; 32],
        };
        *self = Self::Known(digest);
        digest
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

    fn clear(&mut self) {
        self.len = 0;
    }

    fn push(&mut self, place: PitIndex) {
        self.entries[self.len] = place;
        self.len += 1;
    }
}
