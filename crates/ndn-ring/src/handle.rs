//! Handle of one packet in a pool block, and the directory that finds the pool of a handle.
//!
//! A handle has 11 bits of pool id and must find its memory from any thread, so ids are unique in the
//! process. A pool's id and memory are freed only when it is dropped with no handle and no
//! `FillBlock` outstanding; otherwise both stay until the process ends. Every handle is therefore
//! valid for as long as it exists.

use std::num::NonZeroU16;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::memory::BlockMemory;
use crate::return_list::ReturnList;

/// Bits of [`PacketHandle::block`] that hold the index of the block in its pool.
const BLOCK_INDEX_BITS: u32 = 21;
/// Maximum number of blocks in a pool: 128 GiB.
pub(crate) const BLOCKS_MAX: u32 = 1 << BLOCK_INDEX_BITS;

/// One packet: a range of bytes in a block of some worker's [`PacketPool`](crate::PacketPool).
///
/// A handle takes 8 bytes, and so does `Option<PacketHandle>`. It counts as one reference to its
/// block and cannot be copied: return it with [`PacketPool::release`], or with
/// [`release_remote`](Self::release_remote) on a thread without a pool. A handle that is dropped
/// leaks its block for the life of the process.
///
/// The bytes of a packet never change while a handle to it exists.
///
/// [`PacketPool::release`]: crate::PacketPool::release
#[must_use = "a handle holds a reference to its block until it is released"]
#[derive(Debug, PartialEq, Eq)]
pub struct PacketHandle {
    /// Pool id in the upper 11 bits, index of the block in the lower 21.
    block: u32,
    offset: u16,
    length: NonZeroU16,
}

const _: () = assert!(size_of::<PacketHandle>() == 8);
const _: () = assert!(size_of::<Option<PacketHandle>>() == 8);

impl PacketHandle {
    /// A handle to `length` bytes at `offset`. The caller passes one reference to the block to the
    /// handle.
    pub(crate) fn new(pool: PoolBase, block_index: u32, offset: u16, length: NonZeroU16) -> Self {
        debug_assert!(block_index < BLOCKS_MAX);
        Self { block: pool.0 | block_index, offset, length }
    }

    /// A second handle to the same bytes; the caller has counted a reference for it.
    pub(crate) fn duplicate(&self) -> Self {
        Self { block: self.block, offset: self.offset, length: self.length }
    }

    /// Whether the other handle is in the same block.
    #[inline]
    pub(crate) fn is_same_block(&self, other: &Self) -> bool {
        self.block == other.block
    }

    /// The number of the block among those of all pools.
    #[inline]
    pub(crate) fn block(&self) -> u32 {
        self.block
    }

    /// The pool that the block belongs to.
    #[inline]
    #[must_use]
    pub fn pool_id(&self) -> u32 {
        self.block >> BLOCK_INDEX_BITS
    }

    /// Index of the block if it belongs to this pool.
    #[inline]
    pub(crate) fn block_in(&self, pool: PoolBase) -> Option<u32> {
        let block_index = self.block.wrapping_sub(pool.0);
        (block_index < BLOCKS_MAX).then_some(block_index)
    }

    /// Index of the block in its pool.
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

    /// The bytes of the packet, in any pool.
    ///
    /// [`PacketPool::bytes`](crate::PacketPool::bytes) is faster for handles of that pool.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        shared_of(self).bytes(self, self.block_index())
    }

    /// A second handle to the same packet, from any thread, including the owner of the pool.
    /// [`PacketPool::retain`](crate::PacketPool::retain) is cheaper on a thread with a pool.
    pub fn retain_remote(&self) -> Self {
        shared_of(self).returned.retain(self.block_index(), 1);
        self.duplicate()
    }

    /// Returns the reference to the handle's pool, from any thread.
    ///
    /// The owner of the pool processes it at its next [`reclaim`](crate::PacketPool::reclaim).
    pub fn release_remote(self) {
        shared_of(&self).returned.release(self.block_index(), 1);
    }
}

/// Maximum number of packet pools in a process at a time, one for each worker: the id has 11 bits.
pub const POOLS_MAX: usize = 1 << (u32::BITS - BLOCK_INDEX_BITS);

/// A pool id as the upper bits of [`PacketHandle::block`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PoolBase(u32);

impl PoolBase {
    pub(crate) fn id(self) -> u32 {
        self.0 >> BLOCK_INDEX_BITS
    }
}

static POOLS: [AtomicPtr<PoolShared>; POOLS_MAX] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; POOLS_MAX];

/// The part of a pool that other threads use.
#[derive(Debug)]
pub(crate) struct PoolShared {
    pub(crate) memory: BlockMemory,
    pub(crate) returned: ReturnList,
}

impl PoolShared {
    /// The bytes of a handle of this pool.
    #[inline]
    pub(crate) fn bytes<'a>(&'a self, handle: &'a PacketHandle, block_index: u32) -> &'a [u8] {
        // SAFETY: the caller checked that the handle belongs to this pool and has this block index, and handles are made of blocks of
        // their pool. For speed: each worker that touches a packet finds its bytes by this; `scripts/count-instructions` shows it.
        let start = unsafe { self.memory.block_unchecked(block_index) };
        // SAFETY: a handle names bytes that a `FillBlock` carved, so they lie in the block, are
        // initialised, and are not written again before every handle on the block is released;
        // this one is borrowed for `'a` and cannot be released meanwhile.
        unsafe {
            std::slice::from_raw_parts(
                start.add(usize::from(handle.offset())).as_ptr(),
                handle.len(),
            )
        }
    }
}

/// A pool's id and its entry in the directory; removed on drop if no reference is outstanding.
#[derive(Debug)]
pub(crate) struct Registration {
    pub(crate) pool: PoolBase,
    shared: NonNull<PoolShared>,
}

// SAFETY: `PoolShared` is `Sync`, and the registration is its only owner.
unsafe impl Send for Registration {}

impl Registration {
    /// Registers a pool under a free id; returns `None` if there are [`POOLS_MAX`] pools.
    pub(crate) fn enter(shared: PoolShared) -> Option<Self> {
        let shared = NonNull::from(Box::leak(Box::new(shared)));
        let vacant = std::ptr::null_mut();
        for (pool_id, slot) in (0..).zip(&POOLS) {
            if slot
                .compare_exchange(vacant, shared.as_ptr(), Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
            {
                return Some(Self { pool: PoolBase(pool_id << BLOCK_INDEX_BITS), shared });
            }
        }
        // SAFETY: it was leaked above and no other reference exists.
        drop(unsafe { Box::from_raw(shared.as_ptr()) });
        None
    }

    #[inline]
    pub(crate) fn shared(&self) -> &PoolShared {
        // SAFETY: the entry lives until `leave` consumes the registration.
        unsafe { self.shared.as_ref() }
    }

    /// A pointer for a `FillBlock`, which keeps the pool from being freed while it exists.
    pub(crate) fn pointer(&self) -> NonNull<PoolShared> {
        self.shared
    }

    /// Frees the id and the memory.
    ///
    /// # Safety
    /// No handle and no `FillBlock` of the pool exists, and the registration is not used again.
    pub(crate) unsafe fn leave(&mut self) {
        POOLS[self.pool.id() as usize].store(std::ptr::null_mut(), Ordering::Release);
        // SAFETY: leaked by `enter`; without handles and `FillBlock`s nobody refers to it, and
        // the directory has forgotten it.
        drop(unsafe { Box::from_raw(self.shared.as_ptr()) });
    }
}

/// The pool of a live handle.
#[inline]
pub(crate) fn shared_of(handle: &PacketHandle) -> &PoolShared {
    let shared = POOLS[handle.pool_id() as usize].load(Ordering::Acquire);
    debug_assert!(!shared.is_null(), "a handle outlived its pool");
    // SAFETY: a pool stays in the directory while one of its handles exists, so it is not null, and `handle` is
    // borrowed for as long as the result.
    unsafe { &*shared }
}
