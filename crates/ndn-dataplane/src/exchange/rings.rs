//! The rings between two workers: their lengths, their counters, and the wake-up of the receiver.

use std::sync::atomic::AtomicU64;

use ndn_forwarding::PacketKind;
use ndn_ring::SleepFlag;
use ndn_sys::poll::Waker;
use ndn_types::Counter;

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

pub(super) fn ring_index(kind: PacketKind) -> usize {
    match kind {
        PacketKind::Data => 0,
        PacketKind::Nack => 1,
        PacketKind::Interest => 2,
    }
}

ndn_types::counters! {
    /// Counters of a worker's end of the exchange. Only that worker writes them.
    #[derive(Debug, Default)]
    #[repr(align(128))]
    pub struct ExchangeCounters, ExchangeValues {
        /// Messages sent to other workers: packets, results and frames.
        crossings_sent: Monotone(Messages),
        /// Messages taken from other workers.
        crossings_taken: Monotone(Messages),
        /// Data that were dropped because a ring was full.
        ring_full_data: Monotone(Messages),
        /// Nacks that were dropped because a ring was full.
        ring_full_nacks: Monotone(Messages),
        /// Interests for which a ring had no room. Received ones are answered with a Nack, and are also counted under the
        /// drop reason `overload`.
        ring_full_interests: Monotone(Messages),
        /// Packets for faces of other workers that were dropped because no buffer was free to copy them to.
        crossing_no_buffer: Monotone(Packets),
        /// Times that another worker was woken.
        wakes: Monotone(Wakes),
        state
        /// Queue of Data.
        pub queued_data: QueueDepth,
        /// Queue of Nacks.
        pub queued_nacks: QueueDepth,
        /// Queue of Interests.
        pub queued_interests: QueueDepth,
    }
}

ndn_types::counters! {
    /// Samples of the number of messages that wait: at least one in a round of the loop, more while the worker
    /// reads and waits for room.
    #[derive(Debug, Default)]
    pub struct QueueDepth, QueueDepthValues {
        /// Number of messages at the last poll.
        last: Gauge(Messages),
        /// Maximum number of messages.
        most: Gauge(Messages),
        /// Sum of the numbers of messages at all polls.
        sum: Monotone(Messages),
        /// Number of polls.
        polls: Monotone(Polls),
    }
}

impl QueueDepth {
    /// Adds a sample.
    #[inline]
    pub(crate) fn note(&self, depth: u64) {
        self.last.set(depth);
        self.sum.add(depth);
        self.polls.increment();
        self.most.set(self.most.value().max(depth));
    }
}

impl ExchangeCounters {
    /// Messages of any kind that were dropped because a ring was full.
    #[must_use]
    pub fn ring_full_total(&self) -> u64 {
        KINDS.iter().map(|&kind| self.ring_full(kind).value()).sum()
    }

    /// The queue of a kind of packets.
    pub(crate) fn queue(&self, kind: PacketKind) -> &QueueDepth {
        match kind {
            PacketKind::Data => &self.queued_data,
            PacketKind::Nack => &self.queued_nacks,
            PacketKind::Interest => &self.queued_interests,
        }
    }

    pub(crate) fn ring_full(&self, kind: PacketKind) -> &Counter {
        match kind {
            PacketKind::Data => &self.ring_full_data,
            PacketKind::Nack => &self.ring_full_nacks,
            PacketKind::Interest => &self.ring_full_interests,
        }
    }
}

/// The means to wake a worker.
#[derive(Debug)]
pub(crate) struct Sleeper {
    pub(crate) flag: SleepFlag,
    pub(crate) waker: Waker,
    /// Number of notices sent to it, or about to be: the queue itself cannot be examined without taking from it.
    pub(super) notices: AtomicU64,
}

/// The taking ends of the rings from one worker.
pub(super) type Rings<T> = [T; KINDS.len()];
