//! Packet buffer pool of a worker.

use std::cell::{Cell, RefCell};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use thiserror::Error;

use crate::fill::{CREDIT, FillBlock};
use crate::handle::{BLOCKS_MAX, POOLS_MAX, PacketHandle, PoolShared, Registration};
use crate::memory::{BLOCK_SIZE, BlockMemory};
use crate::pages::{PagePreference, PoolPages};
use crate::remote_references::RemoteReferences;
use crate::return_list::ReturnList;

/// Why a pool cannot be created.
#[derive(Debug, Error)]
pub enum PoolError {
    /// The number of blocks is 0 or does not fit a handle.
    #[error("a packet pool has 1 to {BLOCKS_MAX} blocks, not {0}")]
    BlockCount(u32),
    /// A handle has 11 bits for the pool.
    #[error("all {POOLS_MAX} packet pools of the process are in use")]
    TooManyPools,
    /// The address space could not be reserved.
    #[error("cannot reserve {bytes} bytes for packets: {source}")]
    Memory {
        /// The requested size.
        bytes: usize,
        /// The error of the kernel.
        source: io::Error,
    },
}

/// Figures of one pool, written by its worker and read by any thread.
#[derive(Debug, Default)]
pub struct PoolCounters {
    blocks_in_use: AtomicU32,
    blocks_in_use_max: AtomicU32,
    allocation_failures: AtomicU64,
    capacity: u32,
    pages: PoolPages,
}

ndn_types::counter_values! {
    /// Values of [`PoolCounters`].
    pub struct PoolValues {
        /// Blocks of 64 KiB of packet memory in use.
        packet_blocks: Gauge(Blocks) as "packet memory",
        /// Maximum number of blocks in use at one time, which is what the kernel has populated.
        packet_blocks_max: Gauge(Blocks) as "packet memory at most",
        /// Requests for a block when none was free.
        packet_block_failures: Monotone(Requests) as "packet memory not available",
        /// Capacity of the packet memory.
        packet_blocks_capacity: Gauge(Blocks),
        /// Packet memory in reserved huge pages.
        packet_bytes_huge: Gauge(Bytes),
        /// Packet memory with transparent huge pages requested and the first one granted.
        packet_bytes_transparent: Gauge(Bytes),
        /// Packet memory in ordinary pages.
        packet_bytes_ordinary: Gauge(Bytes),
    }
}

impl PoolCounters {
    /// The values at this moment.
    #[must_use]
    pub fn values(&self) -> PoolValues {
        PoolValues {
            packet_blocks: self.blocks_in_use().into(),
            packet_blocks_max: self.blocks_in_use_max().into(),
            packet_block_failures: self.allocation_failures(),
            packet_blocks_capacity: self.capacity.into(),
            packet_bytes_huge: self.pages.huge_bytes as u64,
            packet_bytes_transparent: self.pages.transparent_bytes as u64,
            packet_bytes_ordinary: self.pages.ordinary_bytes as u64,
        }
    }

    /// Maximum number of blocks in use.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Page sizes of the pool.
    #[must_use]
    pub fn pages(&self) -> PoolPages {
        self.pages
    }

    /// Number of blocks with a handle or a [`FillBlock`].
    #[must_use]
    pub fn blocks_in_use(&self) -> u32 {
        self.blocks_in_use.load(Ordering::Relaxed)
    }

    /// Highest number of blocks in use at one time, which is what the kernel has populated.
    #[must_use]
    pub fn blocks_in_use_max(&self) -> u32 {
        self.blocks_in_use_max.load(Ordering::Relaxed)
    }

    /// Number of failed block allocations.
    #[must_use]
    pub fn allocation_failures(&self) -> u64 {
        self.allocation_failures.load(Ordering::Relaxed)
    }
}

/// The packet buffer pool of one worker.
///
/// A pool belongs to one thread at a time. References to its own blocks are counted without
/// atomics. A handle of another worker's pool can also be read, retained and released here; the
/// release is counted at the owner's next [`reclaim`](Self::reclaim).
///
/// Free blocks are reused last in, first out, so a pool with little use touches little memory,
/// whatever its capacity.
#[derive(Debug)]
pub struct PacketPool {
    registration: Registration,
    /// References per block; 0 for a free one.
    references: Box<[Cell<u64>]>,
    /// Free blocks that have been used before, the last freed on top.
    free: RefCell<Vec<u32>>,
    /// First block that was never used; it and those after it are not resident.
    untouched: Cell<u32>,
    /// References to blocks of other pools.
    remote: RemoteReferences,
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

    /// As [`new`](Self::new), with the given page preference. Takes up to `huge_bytes_max` bytes of
    /// reserved huge pages at once, from the NUMA node of the calling thread if it has any; other
    /// memory comes from the node of the thread that touches it first.
    ///
    /// # Errors
    /// See [`PoolError`]. A lack of huge pages is not an error.
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
        let shared = PoolShared { memory, returned: ReturnList::new(block_count) };
        Ok(Self {
            registration: Registration::enter(shared).ok_or(PoolError::TooManyPools)?,
            references: (0..block_count).map(|_| Cell::new(0)).collect(),
            free: RefCell::new(Vec::with_capacity(block_count as usize)),
            untouched: Cell::new(0),
            remote: RemoteReferences::default(),
            counters: Arc::new(counters),
        })
    }

    /// The pool id, as in [`PacketHandle::pool_id`].
    #[must_use]
    pub fn id(&self) -> u32 {
        self.registration.pool.id()
    }

    /// Maximum number of blocks in use.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        // `new` allocated a `u32` number of blocks.
        u32::try_from(self.references.len()).unwrap_or(BLOCKS_MAX)
    }

    /// Figures for the control thread.
    #[must_use]
    pub fn counters(&self) -> &Arc<PoolCounters> {
        &self.counters
    }

    /// Allocates a free block to receive into; returns `None`, and counts, if all are in use.
    pub fn allocate_block(&self) -> Option<FillBlock> {
        let Some(block_index) = self.take_free() else {
            let failures = &self.counters.allocation_failures;
            failures.store(failures.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            return None;
        };
        debug_assert_eq!(self.references[block_index as usize].get(), 0);
        self.references[block_index as usize].set(CREDIT);
        self.publish_blocks_in_use();
        Some(FillBlock::new(self.registration.pointer(), self.registration.pool, block_index))
    }

    /// Ends writing a block: it becomes free once its handles are released. Bytes beyond the carved
    /// part are discarded. Cheaper than dropping the value.
    pub fn finish(&self, fill: FillBlock) {
        if fill.pool() == self.registration.pool {
            let block_index = fill.block_index();
            self.give_back(block_index, fill.into_credit());
        }
    }

    /// The bytes of a packet, of this pool or another.
    #[inline]
    #[must_use]
    pub fn bytes<'a>(&'a self, handle: &'a PacketHandle) -> &'a [u8] {
        match handle.block_in(self.registration.pool) {
            Some(block_index) => self.registration.shared().bytes(handle, block_index),
            None => handle.bytes(),
        }
    }

    /// A second handle to the same packet, to be released separately.
    #[inline]
    pub fn retain(&self, handle: &PacketHandle) -> PacketHandle {
        self.retain_at_hand(handle).unwrap_or_else(|| self.remote.retain_more(handle))
    }

    /// [`retain`](Self::retain) of a packet to whose block this thread has a reference at hand; none otherwise. A function that leaves
    /// the other case to another one calls nothing.
    #[inline(always)]
    pub fn retain_at_hand(&self, handle: &PacketHandle) -> Option<PacketHandle> {
        let Some(block_index) = handle.block_in(self.registration.pool) else {
            return self.remote.retain_at_hand(handle);
        };
        let references = &self.references[block_index as usize];
        references.set(references.get() + 1);
        Some(handle.duplicate())
    }

    /// Releases a handle: counted at once if it belongs to this pool, otherwise returned to its
    /// pool by the next [`settle`](Self::settle) at the latest.
    #[inline(always)]
    pub fn release(&self, handle: PacketHandle) {
        match handle.block_in(self.registration.pool) {
            Some(block_index) => self.give_back(block_index, 1),
            None => self.remote.release(handle),
        }
    }

    /// Releases packets. Those of one block that follow each other are counted together.
    #[inline]
    pub fn release_all(&self, handles: impl Iterator<Item = PacketHandle>) {
        let mut handles = handles;
        let Some(mut run) = handles.next() else { return };
        let mut more = 0;
        for handle in handles {
            if handle.is_same_block(&run) {
                more += 1;
            } else {
                self.release_run(std::mem::replace(&mut run, handle), more);
                more = 0;
            }
        }
        self.release_run(run, more);
    }

    /// Releases a handle and `more` others of its block.
    fn release_run(&self, handle: PacketHandle, more: u64) {
        match handle.block_in(self.registration.pool) {
            Some(block_index) => self.give_back(block_index, more + 1),
            None => self.remote.release_run(handle, more),
        }
    }

    /// Returns all cached references to other pools. Call it before this thread waits, and from
    /// time to time: until then one block of each of eight other pools cannot be reused.
    #[inline]
    pub fn settle(&self) {
        self.remote.settle();
    }

    /// Counts the references released by other threads. Call it once per burst: it costs one load
    /// when there are none.
    #[inline]
    pub fn reclaim(&self) {
        if !self.registration.shared().returned.is_empty() {
            self.drain_returned();
        }
    }

    fn drain_returned(&self) {
        let returned = &self.registration.shared().returned;
        returned.drain(|block_index, released| {
            let references = &self.references[block_index as usize];
            references.set(references.get() + returned.take_retained(block_index));
            self.give_back(block_index, released);
        });
    }

    fn take_free(&self) -> Option<u32> {
        self.pop_free().or_else(|| {
            self.drain_returned();
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
        if count.get() > references {
            count.set(count.get() - references);
        } else {
            self.give_back_last(block_index, references);
        }
    }

    /// Takes over all references that are counted here, or more.
    #[inline(never)]
    fn give_back_last(&self, block_index: u32, references: u64) {
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

    /// Remaining references of a block when more are released than were counted here: handles
    /// retained by other threads were released on this one. With theirs added there are enough,
    /// because handles cannot be copied.
    #[cold]
    fn count_retained(&self, block_index: u32, references: u64) -> u64 {
        let retained = self.registration.shared().returned.take_retained(block_index);
        let known = self.references[block_index as usize].get() + retained;
        known.checked_sub(references).expect("more references released than counted")
    }

    /// Frees a block with no reference counted here, unless another thread retained the handle and
    /// passed the released one to this thread.
    fn free_block(&self, block_index: u32) {
        let retained = self.registration.shared().returned.take_retained(block_index);
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
    /// Frees the memory if nothing refers to it. Otherwise it stays until the process ends, so that
    /// outstanding handles remain valid.
    fn drop(&mut self) {
        self.remote.settle();
        self.drain_returned();
        if self.blocks_in_use() == 0 {
            // SAFETY: every reference of every block is back, so there are neither handles nor
            // `FillBlock`s, and `ReturnList::release` has ended everywhere.
            unsafe { self.registration.leave() };
        }
    }
}
