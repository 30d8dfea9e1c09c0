//! Memory for Interests that are too long for their entry.

use ndn_ring::advise_huge_pages;

use super::config::PitError;
use crate::Resource;
use crate::arena::NONE;

/// Interests take whole blocks.
const BLOCK: usize = Resource::LONG_BLOCK_BYTES;
/// In front of each Interest: its entry, [`NONE`] after its release, and its length.
const HEADER: usize = 8;
/// Memory is used and moved in chunks of this number of blocks.
const CHUNK_BLOCKS: u32 = 1024;
const CHUNK_BYTES: usize = CHUNK_BLOCKS as usize * BLOCK;
/// A chunk of which no more blocks are in use gives them up before a chunk that was never used is begun. So the Interests
/// take four times their size at most, and of what is written, less than a half is written again.
const SPARSE_BLOCKS: u32 = CHUNK_BLOCKS / 4;
/// Blocks of the longest Interest.
pub(super) const INTEREST_BLOCKS_MAX: u32 = 144;

/// Address of an Interest, in blocks from the start of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StoredInterest(u32);

impl StoredInterest {
    /// No Interest.
    pub(super) const NONE: Self = Self(NONE);
}

#[derive(Clone, Copy, Debug, Default)]
struct Chunk {
    /// Blocks that Interests have been written to.
    filled: u32,
    /// Blocks of Interests that are not released.
    live: u32,
}

/// A log of Interests. New ones are written behind the last; a chunk whose Interests are all released
/// is used again. When a chunk is full, the Interests of the one that has the fewest are moved to the next
/// one, if they are few or if only the spare chunk is left. So up to [`capacity`](Self::capacity), there is room for an Interest of any length,
/// whatever was released before.
#[derive(Debug)]
pub(super) struct InterestStore {
    bytes: Vec<u8>,
    chunks: Vec<Chunk>,
    /// Chunks without Interests: one at least. The current chunk is not among them.
    empty: Vec<u32>,
    /// The chunk that is written to.
    current: u32,
}

impl InterestStore {
    /// A store of at most `bytes_max` bytes, rounded down to whole chunks, at least two chunks. Memory is
    /// touched on first use.
    pub(super) fn new(bytes_max: usize) -> Self {
        let count = (bytes_max / CHUNK_BYTES).clamp(2, (NONE / CHUNK_BLOCKS) as usize);
        let bytes = vec![0; count * CHUNK_BYTES];
        advise_huge_pages(&bytes);
        let last = u32::try_from(count - 1).unwrap_or_default();
        let chunks = vec![Chunk::default(); count];
        Self { bytes, chunks, empty: (1..=last).rev().collect(), current: 0 }
    }

    /// Blocks that Interests can use at any time. If they use no more, one of the chunks but the spare
    /// one has room for the longest Interest once its Interests are moved together.
    pub(super) fn capacity(&self) -> usize {
        (self.chunks.len() - 1) * (CHUNK_BLOCKS - INTEREST_BLOCKS_MAX) as usize
    }

    /// Stores the Interest of an entry. Passes the entries of Interests that were moved to `moved`, with their
    /// new addresses.
    ///
    /// # Errors
    /// [`PitError::TooLong`], and [`PitError::BytesFull`] when more than the capacity is in use.
    pub(super) fn insert(
        &mut self,
        entry: u32,
        wire: &[u8],
        moved: impl FnMut(u32, StoredInterest),
    ) -> Result<StoredInterest, PitError> {
        let length = u16::try_from(wire.len()).map_err(|_| PitError::TooLong)?;
        let blocks = blocks_of(length);
        if blocks > INTEREST_BLOCKS_MAX {
            return Err(PitError::TooLong);
        }
        if !self.fits(blocks) {
            self.change_chunk(moved)?;
            if !self.fits(blocks) {
                return Err(PitError::BytesFull);
            }
        }
        let stored = self.extend(blocks);
        let start = stored.0 as usize * BLOCK;
        self.set_owner(stored.0, entry);
        self.bytes[start + 4..start + 6].copy_from_slice(&length.to_le_bytes());
        self.bytes[start + HEADER..start + HEADER + wire.len()].copy_from_slice(wire);
        Ok(stored)
    }

    /// Releases an Interest.
    pub(super) fn release(&mut self, stored: StoredInterest) {
        let (owner, blocks) = self.header(stored.0);
        debug_assert_ne!(owner, NONE, "an Interest is released once");
        self.set_owner(stored.0, NONE);
        let number = stored.0 / CHUNK_BLOCKS;
        let chunk = &mut self.chunks[number as usize];
        chunk.live -= blocks;
        if chunk.live == 0 {
            *chunk = Chunk::default();
            if number != self.current {
                self.empty.push(number);
            }
        }
    }

    /// An Interest of this length.
    #[inline(always)]
    pub(super) fn bytes(&self, stored: StoredInterest, length: usize) -> &[u8] {
        let start = stored.0 as usize * BLOCK + HEADER;
        &self.bytes[start..start + length]
    }

    fn fits(&self, blocks: u32) -> bool {
        self.chunks[self.current as usize].filled + blocks <= CHUNK_BLOCKS
    }

    /// Takes blocks of the current chunk.
    fn extend(&mut self, blocks: u32) -> StoredInterest {
        let chunk = &mut self.chunks[self.current as usize];
        let at = self.current * CHUNK_BLOCKS + chunk.filled;
        chunk.filled += blocks;
        chunk.live += blocks;
        StoredInterest(at)
    }

    /// Continues in an empty chunk. Moves the Interests of another chunk there first, if these are few or if
    /// only the spare chunk is left.
    #[cold]
    fn change_chunk(&mut self, mut moved: impl FnMut(u32, StoredInterest)) -> Result<(), PitError> {
        let is_last = self.empty.len() == 1;
        let spare = self.empty.pop().ok_or(PitError::BytesFull)?;
        self.current = spare;
        let used = (0..).zip(&self.chunks).filter(|(_, chunk)| chunk.live > 0);
        let emptiest = used.min_by_key(|(_, chunk)| chunk.live);
        let Some((from, &Chunk { filled, live })) = emptiest else { return Ok(()) };
        if !is_last && live > SPARSE_BLOCKS {
            return Ok(());
        }
        let (mut at, end) = (from * CHUNK_BLOCKS, from * CHUNK_BLOCKS + filled);
        while at < end {
            let (owner, blocks) = self.header(at);
            if owner != NONE {
                let to = self.extend(blocks);
                let (source, target) = (at as usize * BLOCK, to.0 as usize * BLOCK);
                self.bytes.copy_within(source..source + blocks as usize * BLOCK, target);
                moved(owner, to);
            }
            at += blocks;
        }
        self.chunks[from as usize] = Chunk::default();
        self.empty.push(from);
        Ok(())
    }

    /// The entry of an Interest, and its number of blocks.
    fn header(&self, at: u32) -> (u32, u32) {
        let start = at as usize * BLOCK;
        let [a, b, c, d, e, f, ..] = self.bytes[start..start + HEADER] else { return (NONE, 1) };
        (u32::from_le_bytes([a, b, c, d]), blocks_of(u16::from_le_bytes([e, f])))
    }

    fn set_owner(&mut self, at: u32, entry: u32) {
        let start = at as usize * BLOCK;
        self.bytes[start..start + 4].copy_from_slice(&entry.to_le_bytes());
    }
}

/// Number of blocks of an Interest of this length.
#[expect(clippy::cast_possible_truncation, reason = "small constants")]
pub(super) fn blocks_of(length: u16) -> u32 {
    u32::from(length).saturating_add(HEADER as u32).div_ceil(BLOCK as u32)
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation, reason = "small test numbers")]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const CHUNKS: usize = 5;

    /// Interests by entry.
    struct World {
        store: InterestStore,
        stored: BTreeMap<u32, (StoredInterest, Vec<u8>)>,
        blocks: usize,
        next: u32,
    }

    impl World {
        fn new() -> Self {
            let store = InterestStore::new(CHUNKS * CHUNK_BYTES);
            Self { store, stored: BTreeMap::new(), blocks: 0, next: 0 }
        }

        /// Stores an Interest if the capacity allows it.
        fn insert(&mut self, length: u16) -> bool {
            let blocks = blocks_of(length) as usize;
            if self.blocks + blocks > self.store.capacity() {
                return false;
            }
            let entry = self.next;
            let wire: Vec<u8> = (0..length).map(|byte| (u32::from(byte) ^ entry) as u8).collect();
            let known = &mut self.stored;
            let stored = self.store.insert(entry, &wire, |entry, to| {
                known.get_mut(&entry).expect("a stored Interest is moved").0 = to;
            });
            self.stored.insert(entry, (stored.expect("below the capacity"), wire));
            self.blocks += blocks;
            self.next += 1;
            true
        }

        fn release(&mut self, nth: usize) {
            let Some(&entry) = self.stored.keys().nth(nth) else { return };
            let (stored, wire) = self.stored.remove(&entry).unwrap();
            self.blocks -= blocks_of(wire.len() as u16) as usize;
            self.store.release(stored);
        }

        fn check(&self) {
            for (stored, wire) in self.stored.values() {
                assert_eq!(self.store.bytes(*stored, wire.len()), wire);
            }
            let live: u32 = self.store.chunks.iter().map(|chunk| chunk.live).sum();
            assert_eq!(live as usize, self.blocks);
            assert!(!self.store.empty.is_empty());
        }
    }

    proptest! {
        #[test]
        fn interests_up_to_the_capacity_are_stored_and_unchanged(
            seeds in proptest::collection::vec((0..3_u8, 129..9000_u16, any::<usize>()), 1..400)
        ) {
            let mut world = World::new();
            for (what, length, position) in seeds {
                match what {
                    0 => while world.insert(if position.is_multiple_of(2) { 140 } else { length }) {},
                    1 => { world.insert(length); }
                    _ => for _ in 0..position % 50 {
                        world.release(position % world.stored.len().max(1));
                    },
                }
                world.check();
            }
            while !world.stored.is_empty() {
                world.release(0);
            }
            world.check();
            prop_assert_eq!(world.store.empty.len(), CHUNKS - 1);
        }
    }

    /// Measures the chunks that were ever written to, and the blocks written again for each block stored.
    #[test]
    fn memory_is_reused_while_a_few_interests_of_each_chunk_stay() {
        const LENGTH: u16 = 150;
        let mut store = InterestStore::new(100 * CHUNK_BYTES);
        let mut stored = BTreeMap::new();
        let (mut written, mut moved) = (0, 0);
        let per_chunk = CHUNK_BLOCKS / blocks_of(LENGTH);
        for entry in 0..200 * per_chunk {
            let at = store.insert(entry, &[0; LENGTH as usize], |entry, to| {
                moved += blocks_of(LENGTH);
                stored.insert(entry, to);
            });
            stored.insert(entry, at.unwrap());
            written += blocks_of(LENGTH);
            // One of thirty stays.
            if let Some(earlier) = entry.checked_sub(30).filter(|entry| entry % 30 != 0) {
                store.release(stored.remove(&earlier).unwrap());
            }
        }
        let touched = store.bytes.chunks(CHUNK_BYTES).filter(|chunk| chunk.iter().any(|b| *b != 0));
        let (touched, live) = (touched.count(), store.chunks.iter().map(|chunk| chunk.live).sum());
        let needed = u32::div_ceil(live, CHUNK_BLOCKS) as usize;
        assert!(touched <= 4 * needed + 2, "{touched} chunks for what fits into {needed}");
        assert!(moved <= written / 2, "{moved} blocks moved, {written} written");
        assert!(moved > 0);
    }

    #[test]
    fn one_interest_left_in_each_chunk_leaves_room_for_the_longest() {
        let mut world = World::new();
        while world.insert(150) {}
        let per_chunk = (CHUNK_BLOCKS / blocks_of(150)) as usize;
        let mut kept = 0;
        while kept < world.stored.len() {
            (1..per_chunk).for_each(|_| world.release(kept + 1));
            kept += 1;
        }
        assert!(kept >= CHUNKS - 1);
        let longest = INTEREST_BLOCKS_MAX as u16 * BLOCK as u16 - HEADER as u16;
        let mut inserted = 0;
        while world.insert(longest) {
            inserted += 1;
        }
        assert!(inserted > 20, "{inserted} of the longest Interests");
        world.check();
        let too_long = world.store.insert(9, &vec![0; usize::from(longest) + 1], |_, _| {});
        assert_eq!(too_long, Err(PitError::TooLong));
    }
}
