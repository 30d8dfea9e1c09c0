//! The rings between two workers: their lengths, and the wake-up of the receiver.

use std::sync::atomic::AtomicU64;

pub use ndn_counters::{ExchangeCounters, ExchangeValues, QueueDepth, QueueDepthValues};
use ndn_forwarding::PacketKind;
use ndn_ring::SleepFlag;
use ndn_sys::poll::Waker;

/// Kinds of packets, the first to be taken first.
pub const KINDS: [PacketKind; 3] = [PacketKind::Data, PacketKind::Nack, PacketKind::Interest];

/// Capacity of a ring of Data or Interests: larger between few workers, where one read may bring a thousand
/// packets for the same ring.
pub(super) fn ring_length(worker_count: usize) -> usize {
    // Miri is slow, and the tests fill the rings.
    if cfg!(miri) { 16 } else { (16_384 / worker_count.max(1)).clamp(512, 4096) }
}

/// Capacity of a ring of Nacks, beside one for `length` Data.
pub(super) fn nack_ring_length(length: usize) -> usize {
    (length / 4).max(8)
}

/// The kinds of packets in the order of their rings.
pub(super) const RING_KINDS: [PacketKind; KINDS.len()] =
    [PacketKind::Interest, PacketKind::Data, PacketKind::Nack];

/// The place of a kind among the rings between two workers: its own number, so that there is nothing to compute.
#[inline(always)]
pub(super) const fn ring_index(kind: PacketKind) -> usize {
    kind as usize
}

const _: () = {
    let mut index = 0;
    while index < RING_KINDS.len() {
        assert!(ring_index(RING_KINDS[index]) == index);
        index += 1;
    }
};

/// The means to wake a worker.
#[derive(Debug)]
pub(crate) struct Sleeper {
    pub(crate) flag: SleepFlag,
    pub(crate) waker: Waker,
    /// Number of notices sent to it, or about to be: the queue itself cannot be examined without taking from it.
    pub(super) notices: AtomicU64,
}

/// The ends of the rings from or to one worker, by [`ring_index`].
pub(super) type Rings<T> = [T; KINDS.len()];
