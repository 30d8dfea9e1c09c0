//! The share of a busy worker's time for Data of management.
//!
//! The dataset of a large table is thousands of Data of 8 KB, each of which costs as much as several small
//! packets. A worker with time left forwards them as they arrive. A busy one reads the internal face in
//! portions, so that datasets arrive more slowly and other traffic keeps its rate. Portions are counted in bytes:
//! responses to commands are small, and wait behind a few portions at most.

use ndn_types::Timestamp;

/// Window over which the load is measured, nanoseconds.
const WINDOW_NS: u64 = 8_000_000;
/// A worker that forwards for more than this share of a window is busy. Consumers with a small window take
/// turns with the worker, so it is not idle for the whole rest.
const BUSY_SHARE: (u64, u64) = (1, 2);
/// Bytes that a busy worker reads at a time: several segments, so that the consumer is woken once for all.
const PORTION_BYTES: usize = 48 << 10;
/// Time between two portions of a busy worker, nanoseconds.
const PORTION_PAUSE_NS: u64 = 4_000_000;

/// The bytes that one worker may read from its internal face.
#[derive(Debug, Default)]
pub(crate) struct ManagementBudget {
    window_began: Timestamp,
    /// Time of forwarding in this window.
    worked_ns: u64,
    /// Begin of the work of this round.
    working_since: Option<Timestamp>,
    is_busy: bool,
    /// Time of the next portion, if the worker is busy.
    next_portion: Timestamp,
}

impl ManagementBudget {
    /// Ends a round and begins another; `has_forwarded` if there were packets.
    #[inline]
    pub(super) fn begin_round(&mut self, now: Timestamp, has_forwarded: bool) {
        if let Some(since) = self.working_since.take()
            && has_forwarded
        {
            self.worked_ns += now.nanos_since(since);
        }
        let window_ns = now.nanos_since(self.window_began);
        if window_ns >= WINDOW_NS {
            let (numerator, denominator) = BUSY_SHARE;
            self.is_busy = self.worked_ns * denominator > window_ns * numerator;
            (self.window_began, self.worked_ns) = (now, 0);
        }
    }

    /// Time of the next portion.
    pub(super) fn next_portion(&self) -> Timestamp {
        self.next_portion
    }

    /// Begins the work of this round. Returns the bytes that it may read from the internal face; `left` are
    /// those that the last round did not use.
    #[inline]
    pub(super) fn allowance(&mut self, now: Timestamp, left: usize) -> usize {
        self.working_since = Some(now);
        if !self.is_busy {
            return usize::MAX;
        }
        if now >= self.next_portion {
            self.next_portion = now.plus_nanos(PORTION_PAUSE_NS);
            return PORTION_BYTES;
        }
        left.min(PORTION_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_NS: u64 = 100_000;

    /// Rounds of [`ROUND_NS`] for `duration_ms`, of which forwarding takes `share` percent, with more to read
    /// than the limit. Returns the bytes read in the second half.
    fn read(share: u64, has_forwarded: bool, duration_ms: u64) -> usize {
        let mut management = ManagementBudget::default();
        let (mut left, mut sum) = (usize::MAX, 0_usize);
        for round in 0..duration_ms * 1_000_000 / ROUND_NS {
            let began = Timestamp::from_nanos(round * ROUND_NS);
            management.begin_round(began, has_forwarded);
            let waited = began.plus_nanos(ROUND_NS * (100 - share) / 100);
            left = management.allowance(waited, left);
            // Segments of 8 KiB, ten in a round at most.
            let taken = left.min(10 * 8192);
            left -= taken;
            if round * ROUND_NS >= duration_ms * 500_000 {
                sum += taken;
            }
        }
        sum
    }

    #[test]
    fn busy_worker_reads_one_portion_per_interval() {
        // Half a second.
        let limited = 125 * PORTION_BYTES;
        assert_eq!(read(60, true, 1000), limited);
        assert_eq!(read(100, true, 1000), limited);
    }

    #[test]
    fn worker_with_time_left_reads_without_limit() {
        let all = 5000 * 10 * 8192;
        assert_eq!(read(10, true, 1000), all);
        assert_eq!(read(45, true, 1000), all);
        assert_eq!(read(100, false, 1000), all, "rounds without packets are no work");
    }

    #[test]
    fn small_responses_fit_into_every_round() {
        let mut management = ManagementBudget::default();
        let mut left = usize::MAX;
        for round in 0..10_000 {
            let began = Timestamp::from_nanos(round * ROUND_NS);
            management.begin_round(began, true);
            left = management.allowance(began, left);
            // Thousands of commands a second: two in each round.
            assert!(left > 1000, "round {round}");
            left -= 1000;
        }
    }
}
