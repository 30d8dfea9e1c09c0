//! What a worker counts of its loop.

use ndn_forwarding::{BURST_SIZE, Counter};
use ndn_table::Timestamp;

/// Figures of a worker's loop.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct WorkerCounters {
    /// Commands carried out.
    pub commands: Counter,
    /// Rounds of the loop.
    pub rounds: Counter,
    /// Nanoseconds that the worker was ready to wait, whether it had to or not.
    pub waited_ns: Counter,
    /// Since when it has been waiting, on its clock; 0 while it works.
    pub waiting_since_ns: Counter,
    /// Rounds that waited in the kernel.
    pub sleeps: Counter,
    /// Bursts given to the shard.
    pub bursts: Counter,
    /// Packets in them.
    pub packets: Counter,
    /// Bursts by size: of one packet, of two, of up to 4, 8, 16, 32 and 64.
    pub burst_sizes: [Counter; BURST_SIZE_CLASSES],
    /// Times that nothing could be read because no buffer was free.
    pub no_block: Counter,
    /// Interests that were marked because they and others before them had waited for too long.
    pub marked_interests: Counter,
    /// Data that were marked for it.
    pub marked_data: Counter,
    /// Interests that were refused for it, with or without an answer. They are among the
    /// [drops](ndn_forwarding::DropReason::Overload) of the shard, too.
    pub shed_interests: Counter,
    /// UDP peers that got no face, because there are as many as there may be.
    pub refused_peers: Counter,
}

/// Classes of bursts by size, each up to twice as large as the one before.
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

    /// Nanoseconds of waiting until `now`, the wait that goes on included.
    #[must_use]
    pub fn waited_until(&self, now: Timestamp) -> u64 {
        let since = self.waiting_since_ns.value();
        let now_waiting = if since == 0 { 0 } else { now.as_nanos().saturating_sub(since) };
        self.waited_ns.value() + now_waiting
    }
}
