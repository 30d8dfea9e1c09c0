//! Counters of a worker's loop.

use ndn_forwarding::{BURST_SIZE, Counter};
use ndn_table::Timestamp;

/// Counters of a worker's loop.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct WorkerCounters {
    /// Commands carried out.
    pub commands: Counter,
    /// Rounds of the loop.
    pub rounds: Counter,
    /// Nanoseconds that the worker waited or could have waited.
    pub waited_ns: Counter,
    /// Begin of the current wait on its clock; 0 while it works.
    pub waiting_since_ns: Counter,
    /// Rounds that waited in the kernel.
    pub sleeps: Counter,
    /// Bursts given to the shard.
    pub bursts: Counter,
    /// Packets in them.
    pub packets: Counter,
    /// Bursts by size: of one packet, of two, of up to 4, 8, 16, 32 and 64.
    pub burst_sizes: [Counter; BURST_SIZE_CLASSES],
    /// Reads that failed because no buffer was free.
    pub no_block: Counter,
    /// Interests that queue management marked.
    pub marked_interests: Counter,
    /// Data marked for them.
    pub marked_data: Counter,
    /// Interests that queue management refused with a Nack or dropped. Also counted as
    /// [drops](ndn_forwarding::DropReason::Overload) of the shard.
    pub shed_interests: Counter,
    /// Datagrams and frames of peers that got no on-demand face because a limit was reached.
    pub refused_peers: Counter,
}

/// Number of classes of bursts by size, each up to twice as large as the one before.
pub const BURST_SIZE_CLASSES: usize = BURST_SIZE.ilog2() as usize + 1;

impl WorkerCounters {
    /// Counts a burst of `packets`, which is not empty.
    #[inline]
    pub(super) fn count_burst(&self, packets: usize) {
        self.bursts.increment();
        self.packets.add(packets as u64);
        let class = packets.next_power_of_two().ilog2() as usize;
        self.burst_sizes[class.min(BURST_SIZE_CLASSES - 1)].increment();
    }

    /// Nanoseconds of waiting until `now`, including the current wait.
    #[must_use]
    pub fn waited_until(&self, now: Timestamp) -> u64 {
        let since = self.waiting_since_ns.value();
        let now_waiting = if since == 0 { 0 } else { now.as_nanos().saturating_sub(since) };
        self.waited_ns.value() + now_waiting
    }
}
