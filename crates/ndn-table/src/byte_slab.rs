//! Slab allocator for packet bytes: a few block sizes, a fixed limit on the total.

use ndn_ring::{STREAMS, advise_huge_pages, copy_past_caches, prefetch_slice};

use crate::arena::NONE;

/// Block sizes and their addresses are multiples of a cache line.
const UNIT: usize = 64;

/// A size class takes memory in chunks and returns a chunk when it is empty.
const CHUNK_SIZE: usize = 64 * 1024;

/// Units in a chunk.
const CHUNK_UNITS: usize = CHUNK_SIZE / UNIT;

/// Bytes that are prefetched without a loop.
const PREFETCH_GROUP: usize = 16 * UNIT;

/// Block sizes in bytes: four per doubling, so that at most a fifth of a block is unused.
const CLASS_SIZES: [u16; 25] = [
    128, 192, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1152, 1280, 1536, 1792, 2048, 2560,
    3072, 3584, 4096, 5120, 6144, 7168, 8192, 9216,
];

/// Packets are written into blocks with room for their digest after them.
pub(crate) const DIGEST_LENGTH: usize = 32;

/// Longest packet that is written through the caches; it fills a block with its digest. So the blocks of a size class are
/// written in one way.
const CACHED_LENGTH_MAX: usize = 2048 - DIGEST_LENGTH;
const _: () = assert!(
    CLASS_SIZES[15] as usize == CACHED_LENGTH_MAX + DIGEST_LENGTH,
    "the longest cached packet and its digest fill a block"
);

/// Largest block.
pub(crate) const BLOCK_SIZE_MAX: usize = 9216;

/// Bytes of a slab that holds `count` of the largest blocks, even if each smaller size takes a chunk.
pub(crate) const fn bytes_for_largest(count: usize) -> usize {
    (count.div_ceil(CHUNK_SIZE / BLOCK_SIZE_MAX) + CLASS_SIZES.len() - 1) * CHUNK_SIZE
}

/// Words of the bit map of a chunk: the smallest class has 512 blocks.
const MAP_WORDS: usize = CHUNK_SIZE / 128 / 64;

/// Address of a block, in units of [`UNIT`] from the start of the slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockRef(u32);

impl BlockRef {
    /// No block.
    pub(crate) const NONE: Self = Self(NONE);
}

/// State of a chunk; `next` and `previous` are chunk numbers.
#[derive(Clone, Debug)]
struct Chunk {
    /// A bit per block, set while it is free.
    free: [u64; MAP_WORDS],
    /// Neighbours among the chunks of this class that have free blocks.
    next: u32,
    previous: u32,
    /// Blocks in use.
    used: u16,
    class: u8,
}

/// Size-class allocator over one array whose memory is touched lazily.
///
/// A chunk belongs to one class while any of its blocks is in use. Blocks of a chunk are allocated
/// in address order, and a chunk in which a block was just released is used next: a cache that
/// evicts in insertion order writes its memory sequentially.
#[derive(Debug)]
pub(crate) struct ByteSlab {
    bytes: Vec<u8>,
    /// Where the first chunk starts in `bytes`, so that blocks start at cache lines.
    origin: usize,
    /// Chunks used so far.
    chunks: Vec<Chunk>,
    chunk_count_max: usize,
    /// Maximum number of chunks in use; lowering it takes effect as chunks become empty.
    chunk_limit: usize,
    /// Number of chunks in use, that is, assigned to a class.
    chunk_count: usize,
    /// First chunk with free blocks, by class.
    partial: [u32; CLASS_SIZES.len()],
    /// Empty chunks, linked by `next`.
    empty: u32,
}

impl ByteSlab {
    /// A slab of at most `bytes_max` bytes, rounded down to whole chunks, at least one chunk.
    pub(crate) fn new(bytes_max: usize) -> Self {
        let count = (bytes_max / CHUNK_SIZE).clamp(1, NONE as usize / CHUNK_UNITS);
        let bytes = vec![0; count * CHUNK_SIZE + UNIT];
        advise_huge_pages(&bytes);
        let origin = bytes.as_ptr().align_offset(UNIT).min(UNIT);
        Self {
            bytes,
            origin,
            chunks: Vec::with_capacity(count),
            chunk_count_max: count,
            chunk_limit: count,
            chunk_count: 0,
            partial: [NONE; CLASS_SIZES.len()],
            empty: NONE,
        }
    }

    /// Bytes in chunks that are in use.
    pub(crate) fn bytes_in_use(&self) -> usize {
        self.chunk_count * CHUNK_SIZE
    }

    /// Changes the limit, up to the size the slab was built with.
    pub(crate) fn set_limit(&mut self, bytes_max: usize) {
        self.chunk_limit = (bytes_max / CHUNK_SIZE).clamp(1, self.chunk_count_max);
    }

    /// Whether more bytes are in use than the limit allows, after the limit was lowered.
    pub(crate) fn is_over_limit(&self) -> bool {
        self.chunk_count > self.chunk_limit
    }

    /// Allocates a block of at least `length` bytes. Returns `None` when the class has no free
    /// block and no chunk can be taken, or when `length` exceeds [`BLOCK_SIZE_MAX`].
    #[inline]
    pub(crate) fn allocate(&mut self, length: usize) -> Option<BlockRef> {
        let class = class_of(length)?;
        let mut number = self.partial[class];
        if number == NONE {
            number = self.take_chunk(class)?;
        }
        let chunk = &mut self.chunks[number as usize];
        let (word, bits) = chunk.free.iter_mut().enumerate().find(|(_, bits)| **bits != 0)?;
        let block = word * 64 + bits.trailing_zeros() as usize;
        *bits &= *bits - 1;
        chunk.used += 1;
        if usize::from(chunk.used) == blocks_per_chunk(class) {
            self.unlink_partial(number);
        }
        let unit = number as usize * CHUNK_UNITS + block * class_units(class);
        u32::try_from(unit).ok().map(BlockRef)
    }

    /// Whether a block has the size that is allocated for `length`.
    #[inline(always)]
    pub(crate) fn has_size_of(&self, block: BlockRef, length: usize) -> bool {
        let class = self.chunks[block.0 as usize / CHUNK_UNITS].class;
        class_of(length) == Some(usize::from(class))
    }

    /// Releases a block; its bytes stay readable until it is allocated again.
    pub(crate) fn release(&mut self, block: BlockRef) {
        let number = block.0 as usize / CHUNK_UNITS;
        let chunk = &mut self.chunks[number];
        let class = usize::from(chunk.class);
        let index = block.0 as usize % CHUNK_UNITS / class_units(class);
        let bit = 1 << (index % 64);
        debug_assert_eq!(chunk.free[index / 64] & bit, 0, "a block is released once");
        chunk.free[index / 64] |= bit;
        let was_full = usize::from(chunk.used) == blocks_per_chunk(class);
        chunk.used -= 1;
        let is_empty = chunk.used == 0;
        let Ok(number) = u32::try_from(number) else { return };
        if was_full {
            self.link_partial(number);
        }
        if is_empty {
            self.unlink_partial(number);
            self.chunks[number as usize].next = self.empty;
            self.empty = number;
            self.chunk_count -= 1;
        }
    }

    /// The first `length` bytes of a block.
    #[inline(always)]
    pub(crate) fn bytes(&self, block: BlockRef, length: usize) -> &[u8] {
        let start = self.origin + block.0 as usize * UNIT;
        &self.bytes[start..start + length]
    }

    /// The first `length` bytes of a block.
    #[inline(always)]
    pub(crate) fn bytes_mut(&mut self, block: BlockRef, length: usize) -> &mut [u8] {
        let start = self.origin + block.0 as usize * UNIT;
        &mut self.bytes[start..start + length]
    }

    /// Prefetches the `line`-th cache line of a block.
    #[inline(always)]
    pub(crate) fn prefetch(&self, block: BlockRef, line: usize) {
        prefetch_slice(&self.bytes, self.origin + (block.0 as usize + line) * UNIT);
    }

    /// Writes a packet into a block of its size.
    #[inline]
    pub(crate) fn write(&mut self, block: BlockRef, packet: &[u8]) {
        if packet.len() > CACHED_LENGTH_MAX {
            // Blocks consist of whole units, which are lines.
            copy_past_caches(self.bytes_mut(block, packet.len().next_multiple_of(UNIT)), packet);
        } else {
            self.bytes_mut(block, packet.len()).copy_from_slice(packet);
        }
    }

    /// Prefetches the cache lines of the first `length` bytes of a block that is going to be [written](Self::write).
    #[inline(always)]
    pub(crate) fn prefetch_lines(&self, block: BlockRef, length: usize) {
        if STREAMS && length > CACHED_LENGTH_MAX {
            return;
        }
        let mut start = self.origin + block.0 as usize * UNIT;
        let mut left = length;
        // In large groups first; the last small one may reach into the next block.
        while left >= PREFETCH_GROUP {
            (0..PREFETCH_GROUP / UNIT).for_each(|line| {
                prefetch_slice(&self.bytes, start + line * UNIT);
            });
            start += PREFETCH_GROUP;
            left -= PREFETCH_GROUP;
        }
        while left > 0 {
            (0..4).for_each(|line| prefetch_slice(&self.bytes, start + line * UNIT));
            start += 4 * UNIT;
            left = left.saturating_sub(4 * UNIT);
        }
    }

    #[cold]
    fn take_chunk(&mut self, class: usize) -> Option<u32> {
        if self.chunk_count >= self.chunk_limit {
            return None;
        }
        let fresh = Chunk {
            free: free_map(class),
            next: NONE,
            previous: NONE,
            used: 0,
            class: u8::try_from(class).ok()?,
        };
        let number = if self.empty == NONE {
            self.chunks.push(fresh);
            u32::try_from(self.chunks.len() - 1).ok()?
        } else {
            let number = self.empty;
            self.empty = self.chunks[number as usize].next;
            self.chunks[number as usize] = fresh;
            number
        };
        self.chunk_count += 1;
        self.link_partial(number);
        Some(number)
    }

    fn link_partial(&mut self, number: u32) {
        let class = usize::from(self.chunks[number as usize].class);
        let next = self.partial[class];
        self.chunks[number as usize].next = next;
        self.chunks[number as usize].previous = NONE;
        if next != NONE {
            self.chunks[next as usize].previous = number;
        }
        self.partial[class] = number;
    }

    fn unlink_partial(&mut self, number: u32) {
        let Chunk { next, previous, class, .. } = self.chunks[number as usize];
        if previous == NONE {
            self.partial[usize::from(class)] = next;
        } else {
            self.chunks[previous as usize].next = next;
        }
        if next != NONE {
            self.chunks[next as usize].previous = previous;
        }
    }
}

/// Smallest class whose blocks have `length` bytes.
#[inline(always)]
fn class_of(length: usize) -> Option<usize> {
    const CLASS_OF_UNITS: [u8; BLOCK_SIZE_MAX / UNIT + 1] = class_of_units();
    CLASS_OF_UNITS.get(length.div_ceil(UNIT)).map(|&class| usize::from(class))
}

const fn class_of_units() -> [u8; BLOCK_SIZE_MAX / UNIT + 1] {
    let mut classes = [0; BLOCK_SIZE_MAX / UNIT + 1];
    let mut units = 0;
    let mut class = 0_u8;
    while units < classes.len() {
        assert!(
            (CLASS_SIZES[class as usize] as usize).is_multiple_of(UNIT),
            "blocks have whole units"
        );
        if units * UNIT > CLASS_SIZES[class as usize] as usize {
            class += 1;
        }
        classes[units] = class;
        units += 1;
    }
    classes
}

#[inline(always)]
fn class_units(class: usize) -> usize {
    usize::from(CLASS_SIZES[class]) / UNIT
}

#[inline(always)]
fn blocks_per_chunk(class: usize) -> usize {
    CHUNK_UNITS / class_units(class)
}

fn free_map(class: usize) -> [u64; MAP_WORDS] {
    let blocks = blocks_per_chunk(class);
    std::array::from_fn(|word| match blocks.saturating_sub(word * 64) {
        0 => 0,
        left if left >= 64 => u64::MAX,
        left => (1 << left) - 1,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn size_class_fits_the_requested_length() {
        for length in 0..=BLOCK_SIZE_MAX {
            let class = class_of(length).unwrap();
            assert!(usize::from(CLASS_SIZES[class]) >= length);
            assert!(class == 0 || usize::from(CLASS_SIZES[class - 1]) < length);
        }
        assert_eq!(class_of(BLOCK_SIZE_MAX + 1), None);
    }

    proptest! {
        /// Allocated blocks never overlap and keep their bytes; the limit holds; nothing leaks.
        #[test]
        fn blocks_keep_their_content(
            operations in proptest::collection::vec((any::<bool>(), 1..=9216_usize, any::<u8>()), 1..400)
        ) {
            let mut slab = ByteSlab::new(4 * CHUNK_SIZE);
            let mut model: BTreeMap<u32, (usize, u8)> = BTreeMap::new();
            for (insert, length, fill) in operations {
                if insert {
                    if let Some(block) = slab.allocate(length) {
                        slab.write(block, &vec![fill; length]);
                        prop_assert!(model.insert(block.0, (length, fill)).is_none());
                    } else {
                        prop_assert_eq!(slab.bytes_in_use(), 4 * CHUNK_SIZE);
                    }
                } else if let Some((&slot, _)) = model.range(u32::from(fill) * 16..).next() {
                    let (length, fill) = model.remove(&slot).unwrap();
                    prop_assert!(slab.bytes(BlockRef(slot), length).iter().all(|&b| b == fill));
                    slab.release(BlockRef(slot));
                }
            }
            for (slot, (length, fill)) in model {
                prop_assert!(slab.bytes(BlockRef(slot), length).iter().all(|&b| b == fill));
                slab.release(BlockRef(slot));
            }
            prop_assert_eq!(slab.bytes_in_use(), 0);
        }
    }

    #[test]
    fn empty_chunk_can_change_its_class() {
        let mut slab = ByteSlab::new(CHUNK_SIZE);
        let small: Vec<_> = (0..512).map(|_| slab.allocate(100).unwrap()).collect();
        assert_eq!(slab.allocate(100), None);
        assert_eq!(slab.allocate(9000), None);
        small.into_iter().for_each(|block| slab.release(block));
        assert!(slab.allocate(9000).is_some());
        slab.set_limit(0);
        assert!(!slab.is_over_limit(), "one chunk is always allowed");
    }
}
