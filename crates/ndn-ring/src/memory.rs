//! The address space behind a pool: reserved at once, populated by the kernel on first touch.

use std::io;
use std::ptr::NonNull;

/// Bytes in one block. Offsets in a block fit 16 bits.
pub const BLOCK_SIZE: usize = 64 * 1024;

const _: () = assert!(BLOCK_SIZE - 1 == u16::MAX as usize);

/// Zeroed memory for `block_count` blocks.
#[derive(Debug)]
pub(crate) struct BlockMemory {
    base: NonNull<u8>,
    block_count: u32,
}

// SAFETY: a `BlockMemory` only hands out addresses; who may read or write which bytes is the
// business of `PacketHandle` and `FillBlock`, which keep the two apart on every thread.
unsafe impl Send for BlockMemory {}
// SAFETY: as for `Send`; no method reads or writes the memory.
unsafe impl Sync for BlockMemory {}

impl BlockMemory {
    /// Reserves `block_count` blocks. Nothing is resident before it is touched.
    pub(crate) fn reserve(block_count: u32) -> io::Result<Self> {
        let length = length_of(block_count)?;
        Ok(Self { base: map_zeroed(length)?, block_count })
    }

    /// The first byte of a block; the pointer is good for [`BLOCK_SIZE`] bytes.
    #[inline]
    pub(crate) fn block(&self, block_index: u32) -> NonNull<u8> {
        assert!(block_index < self.block_count, "no block {block_index} in this pool");
        // SAFETY: the index is in range, so the result lies inside the one mapping.
        unsafe { self.base.add(block_index as usize * BLOCK_SIZE) }
    }
}

impl Drop for BlockMemory {
    fn drop(&mut self) {
        if let Ok(length) = length_of(self.block_count) {
            unmap(self.base, length);
        }
    }
}

fn length_of(block_count: u32) -> io::Result<usize> {
    (block_count as usize).checked_mul(BLOCK_SIZE).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

#[cfg(not(any(miri, loom)))]
fn map_zeroed(length: usize) -> io::Result<NonNull<u8>> {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    // SAFETY: a new private mapping at an address of the kernel's choice aliases nothing.
    let base = unsafe {
        mmap_anonymous(
            std::ptr::null_mut(),
            length,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE | MapFlags::NORESERVE,
        )
    }?;
    NonNull::new(base.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

#[cfg(not(any(miri, loom)))]
fn unmap(base: NonNull<u8>, length: usize) {
    // SAFETY: `base` and `length` are those of `map_zeroed`, and the pool unmaps only when no
    // handle and no `FillBlock` is left. It can fail only for arguments that were never mapped.
    let _ = unsafe { rustix::mm::munmap(base.as_ptr().cast(), length) };
}

/// The interpreters know no mappings: the same memory from the standard allocator.
#[cfg(any(miri, loom))]
fn map_zeroed(length: usize) -> io::Result<NonNull<u8>> {
    // SAFETY: the layout is not empty, because a pool has at least one block.
    NonNull::new(unsafe { std::alloc::alloc_zeroed(layout(length)) })
        .ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

#[cfg(any(miri, loom))]
fn unmap(base: NonNull<u8>, length: usize) {
    // SAFETY: allocated by `map_zeroed` with the same layout.
    unsafe { std::alloc::dealloc(base.as_ptr(), layout(length)) };
}

#[cfg(any(miri, loom))]
fn layout(length: usize) -> std::alloc::Layout {
    std::alloc::Layout::from_size_align(length, 4096).expect("a page-aligned layout")
}
