//! References to a block of another pool, kept for a while.
//!
//! Packets of one block come and go together. To count each of them at the block's pool would take a
//! locked instruction for each, on a line that travels between the processors; one for all of them is
//! enough, when another block's turn comes.

use std::cell::{Cell, RefCell};

use crate::directory;
use crate::handle::PacketHandle;

/// References that are fetched at a time.
const FETCHED: u64 = 64;

/// What a pool has at hand of one block of another pool.
#[derive(Debug, Default)]
pub(crate) struct Away {
    /// One reference, and with it the block.
    handle: RefCell<Option<PacketHandle>>,
    /// References besides.
    more: Cell<u64>,
}

impl Away {
    /// A second handle on a packet of another pool.
    pub(crate) fn retain(&self, handle: &PacketHandle) -> PacketHandle {
        let mut held = self.handle.borrow_mut();
        if !held.as_ref().is_some_and(|held| held.is_beside(handle)) {
            drop(held);
            self.settle();
            held = self.handle.borrow_mut();
            fetch(handle);
            // One of those that were fetched.
            *held = Some(handle.duplicate());
            self.more.set(FETCHED - 1);
        } else if self.more.get() == 0 {
            fetch(handle);
            self.more.set(FETCHED);
        }
        self.more.set(self.more.get() - 1);
        handle.duplicate()
    }

    /// Takes a handle of another pool back.
    #[inline]
    pub(crate) fn release(&self, handle: PacketHandle) {
        if self.handle.borrow().as_ref().is_some_and(|held| held.is_beside(&handle)) {
            self.more.set(self.more.get() + 1);
            return;
        }
        self.settle();
        *self.handle.borrow_mut() = Some(handle);
    }

    /// Sends home what is at hand.
    pub(crate) fn settle(&self) {
        if let Some(handle) = self.handle.borrow_mut().take() {
            let references = self.more.replace(0) + 1;
            directory::shared_of(&handle).home.release(handle.block_index(), references);
        }
    }
}

fn fetch(handle: &PacketHandle) {
    directory::shared_of(handle).home.retain(handle.block_index(), FETCHED);
}
