//! When a worker writes what it sends.
//!
//! Many packets for each system call take the least processor time, and a worker that never waits needs that. One that
//! waits has time: if it writes earlier, its peers work on the first packets while it forwards the next, and their
//! answers are there when it has finished. Otherwise both sides of a window that one read brings would take turns.

use std::time::Duration;

use ndn_forwarding::BURST_SIZE;
use ndn_types::duration_ns;

/// Packets forwarded before the resulting packets are written: enough to fill system calls, few enough
/// that the bytes are still in the cache.
const PACKETS_MAX: usize = 512;
/// Lower bound, for a worker that waits for more than a fifth of the time.
const PACKETS_MIN: usize = BURST_SIZE;
/// Growth with each round of a worker that waits little.
const GROWTH: usize = 8;
/// A wait counts as no longer than this, so that one does not outweigh many rounds.
const WAIT_MAX: Duration = Duration::from_micros(200);
/// The same for work: a worker that was stopped for seconds has not worked, and the first round has no beginning.
const WORK_MAX: Duration = Duration::from_millis(4);
/// Rounds that the sums of waits and work span.
const ROUNDS: u64 = 32;
/// A worker waits much if it works less than this many times as long.
const WORK_OVER_WAIT: u64 = 4;

/// Packets that a worker forwards before it writes the resulting packets.
#[derive(Debug)]
pub(crate) struct FlushBatch {
    packets: usize,
    /// Time of waits and of work in the last rounds, with weights that fade.
    waited_ns: u64,
    worked_ns: u64,
}

impl FlushBatch {
    pub(crate) fn new() -> Self {
        Self { packets: PACKETS_MAX, waited_ns: 0, worked_ns: 0 }
    }

    /// The number at present.
    #[inline]
    pub(super) fn packets(&self) -> usize {
        self.packets
    }

    /// Notes a round: how long the worker has worked, and how long it has waited then.
    #[inline]
    pub(super) fn note_round(&mut self, worked: Duration, waited: Duration) {
        let add = |sum: &mut u64, time| *sum = *sum - *sum / ROUNDS + duration_ns(time);
        add(&mut self.worked_ns, worked.min(WORK_MAX));
        add(&mut self.waited_ns, waited.min(WAIT_MAX));
        self.packets = if self.worked_ns < self.waited_ns * WORK_OVER_WAIT {
            PACKETS_MIN.max(self.packets / 2)
        } else {
            PACKETS_MAX.min(self.packets + GROWTH)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORK: Duration = Duration::from_micros(100);

    /// After this number of rounds, each with 100 µs of work and this wait.
    fn after(batch: &mut FlushBatch, rounds: usize, waited: Duration) -> usize {
        (0..rounds).for_each(|_| batch.note_round(WORK, waited));
        batch.packets()
    }

    #[test]
    fn worker_that_waits_writes_earlier() {
        let mut batch = FlushBatch::new();
        assert_eq!(after(&mut batch, 1000, WORK / 5), PACKETS_MAX);
        assert_eq!(after(&mut batch, 1000, WORK / 3), PACKETS_MIN);
        assert_eq!(after(&mut batch, 1000, WORK / 5), PACKETS_MAX);
    }

    #[test]
    fn a_long_wait_is_soon_forgotten() {
        let mut batch = FlushBatch::new();
        assert!(after(&mut batch, 1, Duration::from_secs(60)) < PACKETS_MAX);
        assert_eq!(after(&mut batch, 200, Duration::ZERO), PACKETS_MAX);
    }

    #[test]
    fn a_long_round_is_soon_forgotten() {
        let mut batch = FlushBatch::new();
        batch.note_round(Duration::from_hours(1), Duration::ZERO);
        assert_eq!(after(&mut batch, 200, WORK), PACKETS_MIN);
    }
}
