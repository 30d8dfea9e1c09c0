//! Counters of a worker's loop.

use ndn_forwarding::BURST_SIZE;
use ndn_types::{Counter, Timestamp};

ndn_types::counters! {
    /// Counters of a worker's loop.
    #[derive(Debug, Default)]
    #[repr(align(128))]
    pub struct WorkerCounters, WorkerValues {
        /// Commands of the control thread carried out.
        commands: Monotone(Commands),
        /// Rounds of the worker's loop.
        rounds: Monotone(Rounds),
        /// Time that the worker waited or could have waited.
        waited_ns: Monotone(Nanoseconds),
        /// Rounds that waited in the kernel.
        sleeps: Monotone(Rounds),
        /// Bursts given to the shard.
        bursts: Monotone(Bursts),
        /// Packets in the bursts given to the shard.
        packets: Monotone(Packets),
        /// Reads that failed because no buffer was free.
        no_block: Monotone(Calls),
        /// Interests that queue management marked.
        marked_interests: Monotone(Packets),
        /// Data marked for the Interests that queue management marked.
        marked_data: Monotone(Packets),
        /// Interests that queue management rejected with a Nack or dropped. Those of the shard are also counted under the
        /// drop reason `overload`.
        shed_interests: Monotone(Packets),
        /// Datagrams and frames of peers that got no on-demand face because a limit was reached.
        refused_peers: Monotone(Frames) as "peers without a face",
        state
        /// Begin of the current wait on its clock; 0 while it works.
        pub waiting_since_ns: Counter,
        /// Bursts by size: of one packet, of two, of up to 4, 8, 16, 32 and 64.
        pub burst_sizes: [Counter; BURST_SIZE_CLASSES],
    }
}

/// Number of classes of bursts by size, each up to twice as large as the one before.
pub const BURST_SIZE_CLASSES: usize = BURST_SIZE.ilog2() as usize + 1;

impl WorkerCounters {
    /// Counts a burst of `packets`, which is not empty.
    #[inline]
    pub fn count_burst(&self, packets: usize) {
        self.bursts.increment();
        self.packets.add(packets as u64);
        let class = packets.next_power_of_two().ilog2() as usize;
        self.burst_sizes[class.min(BURST_SIZE_CLASSES - 1)].increment();
    }

    /// The values at `now`, including the current wait.
    #[must_use]
    pub fn values_at(&self, now: Timestamp) -> WorkerValues {
        WorkerValues { waited_ns: self.waited_until(now), ..self.values() }
    }

    /// Nanoseconds of waiting until `now`, including the current wait.
    #[must_use]
    pub fn waited_until(&self, now: Timestamp) -> u64 {
        let since = self.waiting_since_ns.value();
        let now_waiting = if since == 0 { 0 } else { now.as_nanos().saturating_sub(since) };
        self.waited_ns.value() + now_waiting
    }
}
