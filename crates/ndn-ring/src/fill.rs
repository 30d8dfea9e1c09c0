//! The single writer of a block.

use std::num::NonZeroU16;
use std::ptr::NonNull;

use crate::handle::{PacketHandle, PoolBase, PoolShared};
use crate::memory::BLOCK_SIZE;

/// References that a new `FillBlock` holds. Each packet carved from it takes one, and the rest are
/// returned at the end, so that carving does not touch the pool.
pub(crate) const CREDIT: u64 = BLOCK_SIZE as u64 + 1;

/// Offset of the last packet that a block may have.
const _: () = assert!(BLOCK_SIZE - 1 <= u16::MAX as usize);

/// A block that is being received into; the only way to write packet memory.
///
/// The block has three parts, in this order:
///
/// ```text
/// 0 ........ carved ........ filled ........ BLOCK_SIZE
///  handles,    received,      free for the
///  immutable   may be patched next receive
/// ```
///
/// Receive into [`spare_mut`](Self::spare_mut), then [`commit`](Self::commit) the received bytes,
/// modify them in [`filled_mut`](Self::filled_mut), and turn packets at the front into handles with
/// [`carve`](Self::carve). Dropping the value, or preferably [`PacketPool::finish`], frees the
/// block once its handles are released too.
///
/// [`PacketPool::finish`]: crate::PacketPool::finish
#[derive(Debug)]
pub struct FillBlock {
    shared: NonNull<PoolShared>,
    base: NonNull<u8>,
    pool: PoolBase,
    block_index: u32,
    /// Start of the next packet to be carved.
    carved: usize,
    /// Start of the spare part. `carved <= filled <= BLOCK_SIZE`.
    filled: usize,
    /// References to the block that this value still holds; at least 1.
    credit: u64,
}

// SAFETY: the pool that `shared` and `base` point into is never freed while a `FillBlock` holds
// references to one of its blocks, `PoolShared` is `Sync`, and the part of the block from `carved`
// on belongs to this value alone.
unsafe impl Send for FillBlock {}

impl FillBlock {
    /// Takes over a block with [`CREDIT`] references, all owned by the new value.
    pub(crate) fn new(shared: NonNull<PoolShared>, pool: PoolBase, block_index: u32) -> Self {
        // SAFETY: the pool is alive, since it hands out this block.
        let base = unsafe { shared.as_ref() }.memory.block(block_index);
        Self { shared, base, pool, block_index, carved: 0, filled: 0, credit: CREDIT }
    }

    pub(crate) fn pool(&self) -> PoolBase {
        self.pool
    }

    pub(crate) fn block_index(&self) -> u32 {
        self.block_index
    }

    /// Ends the value without returning its references; the caller returns them.
    pub(crate) fn into_credit(self) -> u64 {
        std::mem::ManuallyDrop::new(self).credit
    }

    /// Number of bytes that can still be received.
    #[inline]
    #[must_use]
    pub fn remaining(&self) -> usize {
        BLOCK_SIZE - self.filled
    }

    /// Offset in the block of the first byte not carved yet.
    #[inline]
    #[must_use]
    pub fn carved_offset(&self) -> usize {
        self.carved
    }

    /// The spare part, to receive into. Contains zeros or old packets.
    #[inline]
    pub fn spare_mut(&mut self) -> &mut [u8] {
        // SAFETY: `filled <= BLOCK_SIZE`.
        unsafe { self.slice_mut(self.filled, BLOCK_SIZE) }
    }

    /// Marks the first `length` bytes of [`spare_mut`](Self::spare_mut) as received.
    ///
    /// # Panics
    /// If `length` is more than [`remaining`](Self::remaining).
    #[inline]
    pub fn commit(&mut self, length: usize) {
        assert!(length <= self.remaining(), "more bytes committed than there is room for");
        self.filled += length;
    }

    /// The bytes received and not carved yet.
    #[inline]
    #[must_use]
    pub fn filled(&self) -> &[u8] {
        // SAFETY: `carved <= filled <= BLOCK_SIZE`, the bytes are initialised (the memory starts
        // zeroed), and bytes from `carved` on are written through `&mut self` only.
        unsafe {
            std::slice::from_raw_parts(
                self.base.add(self.carved).as_ptr(),
                self.filled - self.carved,
            )
        }
    }

    /// All bytes of the block from [`filled`](Self::filled) on. What follows the received bytes is arbitrary.
    #[inline]
    #[must_use]
    pub fn readable(&self) -> &[u8] {
        // SAFETY: `carved <= BLOCK_SIZE`, the bytes are initialised (the memory starts zeroed), and bytes from `carved` on
        // are written through `&mut self` only.
        unsafe {
            std::slice::from_raw_parts(
                self.base.add(self.carved).as_ptr(),
                BLOCK_SIZE - self.carved,
            )
        }
    }

    /// The bytes received and not carved yet, to be modified before they are carved.
    #[inline]
    pub fn filled_mut(&mut self) -> &mut [u8] {
        // SAFETY: `carved <= filled`.
        unsafe { self.slice_mut(self.carved, self.filled) }
    }

    /// Turns the first `length` bytes of [`filled`](Self::filled) into a packet, which is immutable
    /// from then on.
    ///
    /// # Panics
    /// If `length` is 0, greater than 65,535, or greater than the number of filled bytes.
    #[inline]
    pub fn carve(&mut self, length: usize) -> PacketHandle {
        let handle_length = u16::try_from(length).ok().and_then(NonZeroU16::new);
        let handle_length = handle_length.expect("a packet has 1 to 65,535 bytes");
        let offset = self.advance(length);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a packet of a byte or more starts inside the block"
        )]
        let offset = offset as u16;
        // At most BLOCK_SIZE packets of at least one byte fit, so one reference is left at the end.
        self.credit -= 1;
        PacketHandle::new(self.pool, self.block_index, offset, handle_length)
    }

    /// Skips the first `length` bytes of [`filled`](Self::filled): a header, an unwanted frame,
    /// padding.
    ///
    /// # Panics
    /// If `length` is greater than the number of filled bytes.
    #[inline]
    pub fn skip(&mut self, length: usize) {
        self.advance(length);
    }

    #[inline]
    fn advance(&mut self, length: usize) -> usize {
        assert!(length <= self.filled - self.carved, "more bytes carved than are filled");
        let offset = self.carved;
        self.carved += length;
        offset
    }

    /// The bytes from `start` to `end` of the block.
    ///
    /// # Safety
    /// `carved <= start <= end <= BLOCK_SIZE`.
    #[inline]
    unsafe fn slice_mut(&mut self, start: usize, end: usize) -> &mut [u8] {
        debug_assert!(self.carved <= start && start <= end && end <= BLOCK_SIZE);
        // SAFETY: inside the block by the caller's promise and initialised (the memory starts
        // zeroed). Handles cover only bytes before `carved`, this is the only `FillBlock` of the
        // block, and it is borrowed mutably for as long as the slice: nothing else refers to it.
        unsafe { std::slice::from_raw_parts_mut(self.base.add(start).as_ptr(), end - start) }
    }
}

impl Drop for FillBlock {
    fn drop(&mut self) {
        // SAFETY: this value's references keep the pool alive up to here.
        unsafe { self.shared.as_ref() }.returned.release(self.block_index, self.credit);
    }
}
