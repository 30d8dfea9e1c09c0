//! A worker's packet memory.

use std::cell::{Cell, RefCell};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use thiserror::Error;

use crate::away::Away;
use crate::directory::{PoolShared, Registration};
use crate::fill::{CREDIT, FillBlock};
use crate::handle::{BLOCKS_MAX, PacketHandle};
use crate::home::ReturnList;
use crate::memory::{BLOCK_SIZE, BlockMemory};
use crate::pages::{PagePreference, PoolPages};

/// Why a pool cannot be made.
#[derive(Debug, Error)]
pub enum PoolError {
    /// The number of blocks is 0 or does not fit a handle.
    #[error("a packet pool has 1 to {BLOCKS_MAX} blocks, not {0}")]
    BlockCount(u32),
    /// A handle has 8 bits for the pool.
    #[error("all 256 packet pools of the process are in use")]
    TooManyPools,
    /// The address space could not be reserved.
    #[error("cannot reserve {bytes} bytes for packets: {source}")]
    Memory {
        /// What was asked for.
        bytes: usize,
        /// The answer of the kernel.
        source: io::Error,
    },
}

/// Figures of one pool, written by its worker and readable from any thread.
#[derive(Debug, Default)]
pub struct PoolCounters {
    blocks_in_use: AtomicU32,
    blocks_in_use_max: AtomicU32,
    allocation_failures: AtomicU64,
    capacity: u32,
    pages: PoolPages,
}

impl PoolCounters {
    /// Blocks that the pool can have in use.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// What pages it was made of.
    #[must_use]
    pub fn pages(&self) -> PoolPages {
        self.pages
    }

    /// Blocks with at least one handle or a [`FillBlock`].
    #[must_use]
    pub fn blocks_in_use(&self) -> u32 {
        self.blocks_in_use.load(Ordering::Relaxed)
    }

    /// The most blocks that were in use at one time: what the kernel has had to populate.
    #[must_use]
    pub fn blocks_in_use_max(&self) -> u32 {
        self.blocks_in_use_max.load(Ordering::Relaxed)
    }

    /// Times that a block was asked for and none was free.
    #[must_use]
    pub fn allocation_failures(&self) -> u64 {
        self.allocation_failures.load(Ordering::Relaxed)
    }
}

/// The blocks of one worker.
///
/// The pool belongs to one thread at a time. Its own handles are counted without atomics; a
/// handle of another worker's pool can be read, retained and released here just the same, and
/// the release travels home to be counted at the owner's next [`reclaim`](Self::reclaim).
///
/// Free blocks are used again last in, first out, so a pool that is little used touches little
/// memory however many blocks it may have.
#[derive(Debug)]
pub struct PacketPool {
    registration: Registration,
    /// References per block; 0 for a free one.
    references: Box<[Cell<u64>]>,
    /// Blocks that were in use and are free, last freed on top.
    free: RefCell<Vec<u32>>,
    /// Blocks from here on were never used and hold no memory.
    untouched: Cell<u32>,
    /// References to blocks of other pools.
    away: Away,
    counters: Arc<PoolCounters>,
}

impl PacketPool {
    /// Reserves address space for `block_count` blocks of [`BLOCK_SIZE`] bytes, in ordinary pages.
    ///
    /// # Errors
    /// See [`PoolError`].
    pub fn new(block_count: u32) -> Result<Self, PoolError> {
        Self::with_pages(block_count, PagePreference::Ordinary, 0)
    }

    /// As [`new`](Self::new), in pages of the given kind if there are any. Of huge pages that were set
    /// aside it takes up to `huge_bytes_max` at once, from the NUMA node of the calling thread if that
    /// has them; other memory comes from the node of the thread that touches it first.
    ///
    /// # Errors
    /// See [`PoolError`]. That there are no such pages is none.
    pub fn with_pages(
        block_count: u32,
        preference: PagePreference,
        huge_bytes_max: usize,
    ) -> Result<Self, PoolError> {
        if block_count == 0 || block_count > BLOCKS_MAX {
            return Err(PoolError::BlockCount(block_count));
        }
        let memory = BlockMemory::reserve(block_count, preference, huge_bytes_max);
        let memory = memory.map_err(|source| PoolError::Memory {
            bytes: (block_count as usize).saturating_mul(BLOCK_SIZE),
            source,
        })?;
        let counters = PoolCounters {
            capacity: block_count,
            pages: memory.pages(),
            ..PoolCounters::default()
        };
        let shared = PoolShared { memory, home: ReturnList::new(block_count) };
        Ok(Self {
            registration: Registration::enter(shared).ok_or(PoolError::TooManyPools)?,
            references: (0..block_count).map(|_| Cell::new(0)).collect(),
            free: RefCell::new(Vec::with_capacity(block_count as usize)),
            untouched: Cell::new(0),
            away: Away::default(),
            counters: Arc::new(counters),
        })
    }

    /// The pool's number in the process, as in [`PacketHandle::pool_id`].
    #[must_use]
    pub fn id(&self) -> u8 {
        self.registration.pool_id
    }

    /// Blocks that the pool can have in use.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        // `new` made as many as its `u32` says.
        u32::try_from(self.references.len()).unwrap_or(BLOCKS_MAX)
    }

    /// Figures for the control thread.
    #[must_use]
    pub fn counters(&self) -> &Arc<PoolCounters> {
        &self.counters
    }

    /// A free block to receive into; `None`, and a count, if all are in use.
    pub fn allocate_block(&self) -> Option<FillBlock> {
        let Some(block_index) = self.take_free() else {
            let failures = &self.counters.allocation_failures;
            failures.store(failures.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            return None;
        };
        debug_assert_eq!(self.references[block_index as usize].get(), 0);
        self.references[block_index as usize].set(CREDIT);
        self.publish_blocks_in_use();
        Some(FillBlock::new(self.registration.pointer(), self.id(), block_index))
    }

    /// Ends a block: it is free again as soon as its handles are released. What it holds beyond
    /// the carved part is forgotten. Cheaper than dropping it.
    pub fn finish(&self, fill: FillBlock) {
        if fill.pool_id() == self.id() {
            let block_index = fill.block_index();
            self.give_back(block_index, fill.into_credit());
        }
    }

    /// The bytes of a packet, of this pool or another.
    #[inline]
    #[must_use]
    pub fn bytes<'a>(&'a self, handle: &'a PacketHandle) -> &'a [u8] {
        if handle.pool_id() == self.id() {
            self.registration.shared().bytes(handle)
        } else {
            handle.bytes()
        }
    }

    /// A second handle on the same packet, to be released on its own.
    #[inline]
    pub fn retain(&self, handle: &PacketHandle) -> PacketHandle {
        if handle.pool_id() == self.id() {
            let references = &self.references[handle.block_index() as usize];
            references.set(references.get() + 1);
            handle.duplicate()
        } else {
            self.away.retain(handle)
        }
    }

    /// Gives a handle back: counted at once if it is of this pool, otherwise sent home by the next
    /// [`settle`](Self::settle) at the latest.
    #[inline]
    pub fn release(&self, handle: PacketHandle) {
        if handle.pool_id() == self.id() {
            self.give_back(handle.block_index(), 1);
        } else {
            self.away.release(handle);
        }
    }

    /// Sends home what was released of other pools. To be called before this thread waits for anything,
    /// and now and then besides: up to then one block of another pool cannot be used again.
    #[inline]
    pub fn settle(&self) {
        self.away.settle();
    }

    /// Counts what other threads have released. Call it once per burst: it costs one load when
    /// there is nothing.
    #[inline]
    pub fn reclaim(&self) {
        if !self.registration.shared().home.is_empty() {
            self.drain_home();
        }
    }

    fn drain_home(&self) {
        let home = &self.registration.shared().home;
        home.drain(|block_index, released| {
            let references = &self.references[block_index as usize];
            references.set(references.get() + home.take_retained(block_index));
            self.give_back(block_index, released);
        });
    }

    fn take_free(&self) -> Option<u32> {
        self.pop_free().or_else(|| {
            self.drain_home();
            self.pop_free()
        })
    }

    fn pop_free(&self) -> Option<u32> {
        if let Some(block_index) = self.free.borrow_mut().pop() {
            return Some(block_index);
        }
        let block_index = self.untouched.get();
        if block_index == self.capacity() {
            return None;
        }
        self.untouched.set(block_index + 1);
        Some(block_index)
    }

    #[inline]
    fn give_back(&self, block_index: u32, references: u64) {
        let count = &self.references[block_index as usize];
        let left = match count.get().checked_sub(references) {
            Some(left) => left,
            None => self.count_retained(block_index, references),
        };
        count.set(left);
        if left == 0 {
            self.free_block(block_index);
        }
    }

    /// What is left of a block when more references come back than were counted here: handles that
    /// other threads have retained came back to this one. With all of theirs counted, there are
    /// enough, since a handle cannot be copied.
    #[cold]
    fn count_retained(&self, block_index: u32, references: u64) -> u64 {
        let retained = self.registration.shared().home.take_retained(block_index);
        let known = self.references[block_index as usize].get() + retained;
        known.checked_sub(references).expect("references of a block")
    }

    /// Frees a block with no reference that is known here, unless another thread has retained a
    /// handle and passed this thread the one that was just released.
    fn free_block(&self, block_index: u32) {
        let retained = self.registration.shared().home.take_retained(block_index);
        self.references[block_index as usize].set(retained);
        if retained != 0 {
            return;
        }
        self.free.borrow_mut().push(block_index);
        self.publish_blocks_in_use();
    }

    fn publish_blocks_in_use(&self) {
        let in_use = self.blocks_in_use();
        self.counters.blocks_in_use.store(in_use, Ordering::Relaxed);
        if in_use > self.counters.blocks_in_use_max() {
            self.counters.blocks_in_use_max.store(in_use, Ordering::Relaxed);
        }
    }

    fn blocks_in_use(&self) -> u32 {
        let free = u32::try_from(self.free.borrow().len()).unwrap_or(BLOCKS_MAX);
        self.untouched.get() - free
    }
}

impl Drop for PacketPool {
    /// Frees the memory if nothing refers to it. Otherwise it stays for the rest of the process,
    /// so that the handles that are still about remain good.
    fn drop(&mut self) {
        self.away.settle();
        self.drain_home();
        if self.blocks_in_use() == 0 {
            // SAFETY: every reference of every block is back, so there are neither handles nor
            // `FillBlock`s, and `ReturnList::release` has ended everywhere.
            unsafe { self.registration.leave() };
        }
    }
}
