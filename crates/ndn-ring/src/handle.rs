//! The name of one packet in a pool block.

use std::num::NonZeroU16;

use crate::directory;

/// Bits of [`PacketHandle::block`] that hold the index of the block in its pool.
pub(crate) const BLOCK_INDEX_BITS: u32 = 24;
/// Blocks that one pool can have at most.
pub(crate) const BLOCKS_MAX: u32 = 1 << BLOCK_INDEX_BITS;

/// One packet: a run of bytes in a block of some worker's [`PacketPool`](crate::PacketPool).
///
/// A handle is 8 bytes, and so is `Option<PacketHandle>`. It counts as one reference to its
/// block and cannot be copied: give it back with [`PacketPool::release`], or with
/// [`release_home`](Self::release_home) on a thread that has no pool. A handle that is only
/// dropped keeps its block from being used again for as long as the process runs.
///
/// The bytes behind a handle never change while the handle lives.
///
/// [`PacketPool::release`]: crate::PacketPool::release
#[must_use = "a handle holds a reference to its block until it is released"]
#[derive(Debug, PartialEq, Eq)]
pub struct PacketHandle {
    /// Pool id in the upper 8 bits, index of the block in the lower 24.
    block: u32,
    offset: u16,
    length: NonZeroU16,
}

const _: () = assert!(size_of::<PacketHandle>() == 8);
const _: () = assert!(size_of::<Option<PacketHandle>>() == 8);

impl PacketHandle {
    /// Names `length` bytes at `offset`. The caller owns one reference to the block and passes
    /// it to the handle.
    pub(crate) fn new(pool_id: u8, block_index: u32, offset: u16, length: NonZeroU16) -> Self {
        debug_assert!(block_index < BLOCKS_MAX);
        Self { block: u32::from(pool_id) << BLOCK_INDEX_BITS | block_index, offset, length }
    }

    /// A second handle on the same bytes, for which the caller has counted a reference.
    pub(crate) fn duplicate(&self) -> Self {
        Self { block: self.block, offset: self.offset, length: self.length }
    }

    /// Whether the other is in the same block.
    #[inline]
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        self.block == other.block
    }

    /// The pool that the block belongs to.
    #[inline]
    #[must_use]
    pub fn pool_id(&self) -> u8 {
        self.block.to_be_bytes()[0]
    }

    /// The place of the block in its pool.
    #[inline]
    #[must_use]
    pub fn block_index(&self) -> u32 {
        self.block & (BLOCKS_MAX - 1)
    }

    /// Offset of the first byte in the block.
    #[inline]
    #[must_use]
    pub fn offset(&self) -> u16 {
        self.offset
    }

    /// Length in bytes, never 0.
    #[inline]
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a handle is never empty")]
    pub fn len(&self) -> usize {
        usize::from(self.length.get())
    }

    /// The bytes of the packet, whichever pool they lie in.
    ///
    /// [`PacketPool::bytes`](crate::PacketPool::bytes) does the same and is faster for handles
    /// of that pool.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        directory::shared_of(self).bytes(self)
    }

    /// A second handle on the same packet, from any thread, the owner of the pool included. Where
    /// the pool is at hand, [`PacketPool::retain`](crate::PacketPool::retain) is cheaper.
    pub fn retain_away(&self) -> Self {
        directory::shared_of(self).home.retain(self.block_index(), 1);
        self.duplicate()
    }

    /// Gives the reference back to the pool of the handle from any thread.
    ///
    /// The owner of the pool sees it at its next [`reclaim`](crate::PacketPool::reclaim).
    pub fn release_home(self) {
        directory::shared_of(&self).home.release(self.block_index(), 1);
    }
}
