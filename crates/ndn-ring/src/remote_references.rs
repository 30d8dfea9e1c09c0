//! Cached references to blocks of other pools.
//!
//! Packets of one block are retained and released together. Counting each of them at the block's
//! pool would cost one atomic addition each, on a cache line shared by the processors; this type
//! counts them locally and adds up once, when another block of that pool follows.

use std::cell::{Cell, RefCell};

use crate::handle::{PacketHandle, shared_of};

/// References acquired at a time.
const FETCHED: u64 = 64;

/// Number of blocks to which a pool holds references. Two pools share a place if their ids differ by a multiple of this number.
const BLOCKS: usize = 8;

/// The references that a pool holds to blocks of other pools: to one block of each of a few.
#[derive(Debug, Default)]
pub(crate) struct RemoteReferences([BlockReferences; BLOCKS]);

impl RemoteReferences {
    #[inline(always)]
    fn of_pool(&self, handle: &PacketHandle) -> &BlockReferences {
        &self.0[handle.pool_id() as usize % BLOCKS]
    }

    /// A second handle to a packet of another pool, if a reference to its block is held.
    #[inline(always)]
    pub(crate) fn retain_at_hand(&self, handle: &PacketHandle) -> Option<PacketHandle> {
        self.of_pool(handle).retain_at_hand(handle)
    }

    /// A second handle to a packet of another pool of whose block no reference is held.
    #[inline(never)]
    pub(crate) fn retain_more(&self, handle: &PacketHandle) -> PacketHandle {
        self.of_pool(handle).retain_more(handle)
    }

    /// Takes over a handle of another pool.
    #[inline]
    pub(crate) fn release(&self, handle: PacketHandle) {
        self.release_run(handle, 0);
    }

    /// Takes over a handle of another pool and `more` others of its block.
    #[inline]
    pub(crate) fn release_run(&self, handle: PacketHandle, more: u64) {
        self.of_pool(&handle).release_run(handle, more);
    }

    /// Returns all cached references to their pools.
    pub(crate) fn settle(&self) {
        self.0.iter().filter(|held| held.block.get().is_some()).for_each(BlockReferences::settle);
    }
}

/// The references that a pool holds to one block of another pool.
#[derive(Debug, Default)]
struct BlockReferences {
    /// The number of the block among those of all pools, while references are held.
    block: Cell<Option<u32>>,
    /// One of them.
    handle: RefCell<Option<PacketHandle>>,
    /// Number of further references.
    more: Cell<u64>,
}

impl BlockReferences {
    #[inline(always)]
    fn retain_at_hand(&self, handle: &PacketHandle) -> Option<PacketHandle> {
        if self.block.get() != Some(handle.block()) || self.more.get() == 0 {
            return None;
        }
        self.more.set(self.more.get() - 1);
        Some(handle.duplicate())
    }

    fn retain_more(&self, handle: &PacketHandle) -> PacketHandle {
        shared_of(handle).returned.retain(handle.block_index(), FETCHED);
        if self.block.get() == Some(handle.block()) {
            self.more.set(self.more.get() + FETCHED - 1);
        } else {
            // One of the acquired references is kept, one is for the caller.
            self.hold(handle.duplicate(), FETCHED - 2);
        }
        handle.duplicate()
    }

    #[inline]
    fn release_run(&self, handle: PacketHandle, others: u64) {
        if self.block.get() == Some(handle.block()) {
            self.more.set(self.more.get() + others + 1);
        } else {
            self.hold(handle, others);
        }
    }

    /// Holds a handle and `others` more references to its block instead of those to another block.
    #[inline(never)]
    fn hold(&self, handle: PacketHandle, others: u64) {
        self.settle();
        self.block.set(Some(handle.block()));
        *self.handle.borrow_mut() = Some(handle);
        self.more.set(others);
    }

    fn settle(&self) {
        self.block.set(None);
        if let Some(handle) = self.handle.borrow_mut().take() {
            let references = self.more.replace(0) + 1;
            shared_of(&handle).returned.release(handle.block_index(), references);
        }
    }
}
