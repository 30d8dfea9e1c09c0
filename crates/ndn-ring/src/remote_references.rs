//! Cached references to a block of another pool.
//!
//! Packets of one block are retained and released together. Counting each of them at the block's
//! pool would cost one atomic addition each, on a cache line shared by the processors; this type
//! counts them locally and adds up once, when another block follows.

use std::cell::{Cell, RefCell};

use crate::handle::{PacketHandle, shared_of};

/// References acquired at a time.
const FETCHED: u64 = 64;

/// The references that a pool holds to one block of another pool.
#[derive(Debug, Default)]
pub(crate) struct RemoteReferences {
    /// One reference, which identifies the block.
    handle: RefCell<Option<PacketHandle>>,
    /// Number of further references.
    more: Cell<u64>,
}

impl RemoteReferences {
    /// A second handle to a packet of another pool.
    pub(crate) fn retain(&self, handle: &PacketHandle) -> PacketHandle {
        let mut held = self.handle.borrow_mut();
        if !held.as_ref().is_some_and(|held| held.is_same_block(handle)) {
            drop(held);
            self.settle();
            held = self.handle.borrow_mut();
            fetch(handle);
            // One of the acquired references.
            *held = Some(handle.duplicate());
            self.more.set(FETCHED - 1);
        } else if self.more.get() == 0 {
            fetch(handle);
            self.more.set(FETCHED);
        }
        self.more.set(self.more.get() - 1);
        handle.duplicate()
    }

    /// Takes over a handle of another pool.
    #[inline]
    pub(crate) fn release(&self, handle: PacketHandle) {
        if self.handle.borrow().as_ref().is_some_and(|held| held.is_same_block(&handle)) {
            self.more.set(self.more.get() + 1);
            return;
        }
        self.settle();
        *self.handle.borrow_mut() = Some(handle);
    }

    /// Returns all cached references to their pool.
    pub(crate) fn settle(&self) {
        if let Some(handle) = self.handle.borrow_mut().take() {
            let references = self.more.replace(0) + 1;
            shared_of(&handle).returned.release(handle.block_index(), references);
        }
    }
}

fn fetch(handle: &PacketHandle) {
    shared_of(handle).returned.retain(handle.block_index(), FETCHED);
}
