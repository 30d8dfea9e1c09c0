//! The way home for references that were released on another thread.
//!
//! A ring of handles would have to be as long as the largest number of handles in flight, or
//! lose some. This list counts instead: two counters and one link per block, so that it is as
//! large as the pool, takes any number of releases and never fails. A release to a block that is
//! already on the list costs one addition, and the owner visits each listed block once.
//!
//! The list is a stack of block indexes with many producers and one consumer that takes all of
//! it at once; with a single "take all" consumer there is no ABA problem.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// End of the list; also "empty".
const NIL: u32 = u32::MAX;

/// What other threads have done to one block since the owner last looked.
#[derive(Debug)]
struct Returned {
    /// References given back. The block is on the list, or about to be, while this is not 0.
    released: AtomicU64,
    /// References taken by threads that held one already.
    retained: AtomicU64,
    /// The next block on the list. Written by whoever made `released` non-zero.
    next: AtomicU32,
}

/// References that travel home, per block.
#[derive(Debug)]
pub(crate) struct ReturnList {
    head: AtomicU32,
    blocks: Box<[Returned]>,
}

impl ReturnList {
    pub(crate) fn new(block_count: u32) -> Self {
        let blocks = (0..block_count)
            .map(|_| Returned {
                released: AtomicU64::new(0),
                retained: AtomicU64::new(0),
                next: AtomicU32::new(NIL),
            })
            .collect();
        Self { head: AtomicU32::new(NIL), blocks }
    }

    /// Takes so many more references, while the caller holds one that it releases later.
    ///
    /// The owner need not be told: it learns of this when it learns of a release that came
    /// after, and until then the reference that the caller holds keeps the block.
    pub(crate) fn retain(&self, block_index: u32, references: u64) {
        self.blocks[block_index as usize].retained.fetch_add(references, Ordering::Relaxed);
    }

    /// What [`retain`](Self::retain) counted since it was last taken. Called by the owner only.
    ///
    /// It is complete with respect to every release that the owner knows of, since a thread
    /// retains before it releases or passes on the handle it had.
    pub(crate) fn take_retained(&self, block_index: u32) -> u64 {
        self.blocks[block_index as usize].retained.swap(0, Ordering::Relaxed)
    }

    /// Gives `references` (not 0) references back.
    ///
    /// The last access to the list is the addition, or for the thread that lists the block the
    /// exchange of `head`. The owner counts a block's references only after both, so that a
    /// pool whose references are all back is no longer touched by anyone.
    pub(crate) fn release(&self, block_index: u32, references: u64) {
        let block = &self.blocks[block_index as usize];
        // Release: this thread's reads of the block come before the owner's reuse of it.
        // Acquire: if this sees the owner's 0, the owner has read `next` already.
        if block.released.fetch_add(references, Ordering::AcqRel) == 0 {
            self.push(block_index, block);
        }
    }

    fn push(&self, block_index: u32, block: &Returned) {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            block.next.store(head, Ordering::Relaxed);
            // Release: publishes `next` to the owner's swap of `head`.
            match self.head.compare_exchange_weak(
                head,
                block_index,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Nothing has come home since the last [`drain`](Self::drain), as far as this thread sees.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed) == NIL
    }

    /// Takes everything that has come home: `apply(block_index, released)` for each block. Called
    /// by the owner only.
    pub(crate) fn drain(&self, mut apply: impl FnMut(u32, u64)) {
        let mut block_index = self.head.swap(NIL, Ordering::Acquire);
        while block_index != NIL {
            let block = &self.blocks[block_index as usize];
            // Read the link first: once `released` is 0 another thread may list the block again.
            let next = block.next.load(Ordering::Relaxed);
            // Acquire: what other threads did with the block, `retain` included, comes before.
            apply(block_index, block.released.swap(0, Ordering::AcqRel));
            block_index = next;
        }
    }
}
