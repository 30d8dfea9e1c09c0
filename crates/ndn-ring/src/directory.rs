//! Every pool of the process by its id.
//!
//! A handle carries 8 bits of pool id and must find its memory from any thread, so ids are
//! unique in the process. An id and its memory are given up only when the pool is dropped with
//! no handle and no `FillBlock` outstanding; otherwise both stay for good. That is what makes
//! every handle valid for as long as it exists.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::handle::PacketHandle;
use crate::home::ReturnList;
use crate::memory::BlockMemory;

/// Pools that can exist at one time: the id has 8 bits.
const POOLS_MAX: usize = 256;

static POOLS: [AtomicPtr<PoolShared>; POOLS_MAX] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; POOLS_MAX];

/// What other threads may use of a pool.
#[derive(Debug)]
pub(crate) struct PoolShared {
    pub(crate) memory: BlockMemory,
    pub(crate) home: ReturnList,
}

impl PoolShared {
    /// The bytes of a handle of this pool.
    #[inline]
    pub(crate) fn bytes<'a>(&'a self, handle: &'a PacketHandle) -> &'a [u8] {
        let start = self.memory.block(handle.block_index());
        // SAFETY: a handle names bytes that a `FillBlock` carved, so they lie in the block, are
        // initialised, and are not written again before every handle on the block is released;
        // this one is borrowed for `'a` and cannot be released meanwhile. The caller checked
        // that the handle belongs to this pool.
        unsafe {
            std::slice::from_raw_parts(
                start.add(usize::from(handle.offset())).as_ptr(),
                handle.len(),
            )
        }
    }
}

/// A pool's id and its entry in the directory, given back on drop if the pool was clean.
#[derive(Debug)]
pub(crate) struct Registration {
    pub(crate) pool_id: u8,
    shared: NonNull<PoolShared>,
}

// SAFETY: `PoolShared` is `Sync`, and the registration is its only owner.
unsafe impl Send for Registration {}

impl Registration {
    /// Enters a pool under a free id; `None` if there are [`POOLS_MAX`] of them.
    pub(crate) fn enter(shared: PoolShared) -> Option<Self> {
        let shared = NonNull::from(Box::leak(Box::new(shared)));
        let vacant = std::ptr::null_mut();
        for (pool_id, slot) in (0..=u8::MAX).zip(&POOLS) {
            if slot
                .compare_exchange(vacant, shared.as_ptr(), Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
            {
                return Some(Self { pool_id, shared });
            }
        }
        // SAFETY: it was leaked above and nobody else has seen it.
        drop(unsafe { Box::from_raw(shared.as_ptr()) });
        None
    }

    #[inline]
    pub(crate) fn shared(&self) -> &PoolShared {
        // SAFETY: the entry lives until `leave` consumes the registration.
        unsafe { self.shared.as_ref() }
    }

    /// A pointer for a `FillBlock`, which keeps the pool from being clean while it lives.
    pub(crate) fn pointer(&self) -> NonNull<PoolShared> {
        self.shared
    }

    /// Frees the id and the memory.
    ///
    /// # Safety
    /// No handle and no `FillBlock` of the pool exists, and the registration is not used again.
    pub(crate) unsafe fn leave(&mut self) {
        POOLS[usize::from(self.pool_id)].store(std::ptr::null_mut(), Ordering::Release);
        // SAFETY: leaked by `enter`; without handles and `FillBlock`s nobody refers to it, and
        // the directory has forgotten it.
        drop(unsafe { Box::from_raw(self.shared.as_ptr()) });
    }
}

/// The pool of a live handle.
#[inline]
pub(crate) fn shared_of(handle: &PacketHandle) -> &PoolShared {
    let shared = POOLS[usize::from(handle.pool_id())].load(Ordering::Acquire);
    assert!(!shared.is_null(), "a handle outlived its pool");
    // SAFETY: a pool stays in the directory while one of its handles exists, and `handle` is
    // borrowed for as long as the result.
    unsafe { &*shared }
}
