//! The rings of AF_XDP, shared with the kernel (kernel documentation, "AF_XDP").
//!
//! A ring has a power of two of entries and two positions that only grow, modulo 2^32: one side
//! produces, the other consumes. Each writes its own position, after it is done with the entries, and
//! reads the other's before it touches them.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// The kernel sleeps and needs a system call for new entries (`XDP_RING_NEED_WAKEUP`).
const NEED_WAKEUP: u32 = 1;

/// An entry of a receive or transmit ring (`struct xdp_desc`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Descriptor {
    /// Address of the bytes in the UMEM.
    pub(super) address: u64,
    pub(super) length: u32,
    pub(super) options: u32,
}

/// The frame continues in the next descriptor (`XDP_PKT_CONTD`).
pub(super) const CONTINUES: u32 = 1;

impl Descriptor {
    pub(super) fn continues(self) -> bool {
        self.options & CONTINUES != 0
    }
}

/// The parts of a mapped ring.
#[derive(Debug)]
pub(super) struct RingMemory<T> {
    pub(super) producer: NonNull<u32>,
    pub(super) consumer: NonNull<u32>,
    pub(super) flags: NonNull<u32>,
    pub(super) entries: NonNull<T>,
    /// A power of two.
    pub(super) capacity: u32,
}

impl<T: Copy> RingMemory<T> {
    fn producer(&self) -> &AtomicU32 {
        // SAFETY: the caller of the constructor has promised that the word exists, and both sides use it
        // atomically only.
        unsafe { AtomicU32::from_ptr(self.producer.as_ptr()) }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(self.consumer.as_ptr()) }
    }

    fn flags(&self) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(self.flags.as_ptr()) }
    }

    fn entry(&self, position: u32) -> NonNull<T> {
        let index = position & (self.capacity - 1);
        // SAFETY: the index is below the number of entries, which are all there.
        unsafe { self.entries.add(index as usize) }
    }
}

/// The producing side of a ring: here the fill and transmit rings.
#[derive(Debug)]
pub(super) struct Producer<T> {
    memory: RingMemory<T>,
    /// The position of the next entry; entries before it may not be committed yet.
    next: u32,
    /// The last known position of the other side.
    consumed: u32,
}

/// The consuming side of a ring: here the receive and completion rings.
#[derive(Debug)]
pub(super) struct Consumer<T> {
    memory: RingMemory<T>,
    /// The next entry to read.
    next: u32,
    /// The last known position of the other side.
    produced: u32,
}

// SAFETY: a side of a ring is the only one that moves its position and uses the entries that are its
// own, from whatever thread.
unsafe impl<T: Send> Send for Producer<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Consumer<T> {}

/// Addresses of chunks for received frames.
pub(super) type FillRing = Producer<u64>;
/// Frames to be sent.
pub(super) type TransmitRing = Producer<Descriptor>;
/// Received frames.
pub(super) type ReceiveRing = Consumer<Descriptor>;
/// Addresses of sent frames.
pub(super) type CompletionRing = Consumer<u64>;

impl<T: Copy> Producer<T> {
    /// The producing side of a ring.
    ///
    /// # Safety
    /// The memory is as it says, aligned, and lasts as long as this. The capacity is a power of two.
    /// There is no other producer, and the one consumer follows the protocol.
    pub(super) unsafe fn new(memory: RingMemory<T>) -> Self {
        let next = memory.producer().load(Ordering::Relaxed);
        let consumed = memory.consumer().load(Ordering::Acquire);
        Self { memory, next, consumed }
    }

    /// Adds an entry, which the other side sees after [`commit`](Self::commit). False if there is no
    /// room.
    #[inline]
    pub(super) fn push(&mut self, entry: T) -> bool {
        if self.next.wrapping_sub(self.consumed) >= self.memory.capacity {
            // What the consumer has read was read before it moved its position.
            self.consumed = self.memory.consumer().load(Ordering::Acquire);
            if self.next.wrapping_sub(self.consumed) >= self.memory.capacity {
                return false;
            }
        }
        // SAFETY: the entry is not between the two positions, so it is the producer's.
        unsafe { self.memory.entry(self.next).write(entry) };
        self.next = self.next.wrapping_add(1);
        true
    }

    /// Publishes the pushed entries.
    #[inline]
    pub(super) fn commit(&mut self) {
        // The entries are written before the position.
        self.memory.producer().store(self.next, Ordering::Release);
    }

    /// Entries that the other side has not consumed.
    pub(super) fn pending(&mut self) -> u32 {
        self.consumed = self.memory.consumer().load(Ordering::Acquire);
        self.next.wrapping_sub(self.consumed)
    }

    /// Whether the kernel needs a system call for the committed entries.
    pub(super) fn needs_wakeup(&self) -> bool {
        // The kernel sets the flag before it reads the position a last time; so the position must be written before
        // the flag is read.
        fence(Ordering::SeqCst);
        self.memory.flags().load(Ordering::Relaxed) & NEED_WAKEUP != 0
    }
}

impl<T: Copy> Consumer<T> {
    /// The consuming side of a ring.
    ///
    /// # Safety
    /// As for [`Producer::new`], with the roles exchanged.
    pub(super) unsafe fn new(memory: RingMemory<T>) -> Self {
        let next = memory.consumer().load(Ordering::Relaxed);
        let produced = memory.producer().load(Ordering::Acquire);
        Self { memory, next, produced }
    }

    /// Reads the position of the other side if no entry is known; returns the number of entries.
    #[inline]
    pub(super) fn refresh(&mut self) -> u32 {
        if self.next == self.produced {
            // What the producer has written is seen after its position.
            self.produced = self.memory.producer().load(Ordering::Acquire);
        }
        self.known()
    }

    /// Entries that are known to be available.
    #[inline]
    pub(super) fn known(&self) -> u32 {
        // By the protocol, the other side is at most one ring length ahead.
        self.produced.wrapping_sub(self.next).min(self.memory.capacity)
    }

    /// Capacity in entries.
    pub(super) fn capacity(&self) -> u32 {
        self.memory.capacity
    }

    /// The entry at `index` from the next one, if it is known to be available.
    #[inline]
    pub(super) fn entry(&self, index: u32) -> Option<T> {
        // SAFETY: the entry lies between the two positions, so it is the consumer's, and written.
        (index < self.known())
            .then(|| unsafe { self.memory.entry(self.next.wrapping_add(index)).read() })
    }

    /// Consumes the next known entry, if any. The other side may reuse it after [`commit`](Self::commit).
    #[inline]
    pub(super) fn advance(&mut self) {
        if self.known() > 0 {
            self.next = self.next.wrapping_add(1);
        }
    }

    /// Returns the consumed entries to the other side.
    #[inline]
    pub(super) fn commit(&mut self) {
        // They are read before the position is written.
        self.memory.consumer().store(self.next, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
