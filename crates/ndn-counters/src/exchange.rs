//! Counters of the rings between workers.

use ndn_forwarding::PacketKind;
use ndn_types::Counter;

ndn_types::counters! {
    /// Counters of a worker's end of the exchange. Only that worker writes them.
    #[derive(Debug, Default)]
    #[repr(align(128))]
    pub struct ExchangeCounters, ExchangeValues {
        /// Messages sent to other workers: packets, results and frames. Counted just after they can be taken, so that
        /// the receiver may have counted more for a moment.
        crossings_sent: Monotone(Messages),
        /// Messages taken from other workers.
        crossings_taken: Monotone(Messages),
        /// Data that were dropped because a ring was full.
        ring_full_data: Monotone(Messages),
        /// Nacks that were dropped because a ring was full.
        ring_full_nacks: Monotone(Messages),
        /// Interests for which a ring had no room. Received packets, but not frames for a face of another worker, are
        /// answered with a Nack, and are also counted under the drop reason `overload`.
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
    pub fn note(&self, depth: u64) {
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
        [&self.ring_full_data, &self.ring_full_nacks, &self.ring_full_interests]
            .into_iter()
            .map(Counter::value)
            .sum()
    }

    /// The queue of a kind of packets.
    #[inline]
    #[must_use]
    pub fn queue(&self, kind: PacketKind) -> &QueueDepth {
        match kind {
            PacketKind::Data => &self.queued_data,
            PacketKind::Nack => &self.queued_nacks,
            PacketKind::Interest => &self.queued_interests,
        }
    }

    /// Messages with a kind of packets that were dropped because their ring was full.
    #[inline]
    #[must_use]
    pub fn ring_full(&self, kind: PacketKind) -> &Counter {
        match kind {
            PacketKind::Data => &self.ring_full_data,
            PacketKind::Nack => &self.ring_full_nacks,
            PacketKind::Interest => &self.ring_full_interests,
        }
    }
}
