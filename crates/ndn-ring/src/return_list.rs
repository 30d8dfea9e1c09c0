//! References released on other threads, on their way back to the pool.
//!
//! A ring of handles would have to hold the maximum number of handles in flight, or lose some. This
//! list counts instead: two counters and one link per block, so its size depends on the pool only,
//! it takes any number of releases and never fails. A release to a block that is on the list
//! already costs one atomic addition, and the owner visits each listed block once.
//!
//! The list is a stack of block indices with many producers and one consumer that takes all of it
//! at once, so there is no ABA problem.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// End of the list; also "empty".
const NIL: u32 = u32::MAX;

/// Changes by other threads to the references of one block since the last drain.
#[derive(Debug)]
struct Returned {
    /// References released. While this is not 0, the block is on the list, or being added.
    released: AtomicU64,
    /// References acquired by threads that held one.
    retained: AtomicU64,
    /// The next block on the list. Written by the thread that made `released` non-zero.
    next: AtomicU32,
}

/// References returned by other threads, per block.
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

    /// Acquires `references` more references, while the caller holds one that it releases later.
    ///
    /// The owner is not notified: it reads this counter when it processes a later release, and
    /// until then the caller's reference keeps the block in use.
    pub(crate) fn retain(&self, block_index: u32, references: u64) {
        self.blocks[block_index as usize].retained.fetch_add(references, Ordering::Relaxed);
    }

    /// Takes the number of references counted by [`retain`](Self::retain). Called by the owner
    /// only.
    ///
    /// It is complete with respect to every release that the owner has processed, because a thread
    /// retains before it releases or passes on its handle.
    pub(crate) fn take_retained(&self, block_index: u32) -> u64 {
        self.blocks[block_index as usize].retained.swap(0, Ordering::Relaxed)
    }

    /// Returns `references` references, not 0.
    ///
    /// The last access to the list is the addition or, for the thread that lists the block, the
    /// exchange of `head`. The owner counts a block's references only after both, so no thread
    /// accesses a pool whose references have all been returned.
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

    /// Whether nothing was returned since the last [`drain`](Self::drain), as far as this thread
    /// sees.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed) == NIL
    }

    /// Takes all returned references: calls `apply(block_index, released)` for each block. Called
    /// by the owner only.
    pub(crate) fn drain(&self, mut apply: impl FnMut(u32, u64)) {
        let mut block_index = self.head.swap(NIL, Ordering::Acquire);
        while block_index != NIL {
            let block = &self.blocks[block_index as usize];
            // Read the link first: once `released` is 0, another thread may list the block again.
            let next = block.next.load(Ordering::Relaxed);
            // Acquire: synchronizes with other threads' use of the block, including `retain`.
            apply(block_index, block.released.swap(0, Ordering::AcqRel));
            block_index = next;
        }
    }
}
