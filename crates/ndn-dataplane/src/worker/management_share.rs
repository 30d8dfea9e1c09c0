//! How much of a busy worker's time answers of management may take.
//!
//! A list of a large table is thousands of Data of 8 KB, each of which costs as much as several small
//! packets. A worker that has time left passes them on as they come. One that is busy, whatever with, would take
//! the time from its traffic: it reads the internal face in portions, so that the lists come more slowly.
//! What is read is counted in bytes: answers to commands are small, and wait behind a few portions at most.

use ndn_table::Timestamp;

/// Over such a time it is looked at how busy the worker is, nanoseconds.
const WINDOW_NS: u64 = 8_000_000;
/// A worker is busy that forwards for more than this share of a window. Where consumers wait for answers,
/// part of the time passes in turn here and there, and what comes in between takes from their rate.
const BUSY_SHARE: (u64, u64) = (1, 2);
/// Read at a time by a busy worker: some segments, so that who waits for them is woken once for all.
const PORTION_BYTES: usize = 48 << 10;
/// How often a portion may be read by a busy worker, nanoseconds.
const PORTION_PAUSE_NS: u64 = 4_000_000;

/// What one worker may read of its internal face.
#[derive(Debug, Default)]
pub(crate) struct ManagementShare {
    window_began: Timestamp,
    /// Forwarding took so long in this window.
    worked_ns: u64,
    /// Since when there has been something to forward in this round.
    working_since: Option<Timestamp>,
    is_busy: bool,
    /// When the next portion may be read, if the worker is busy.
    next_portion: Timestamp,
}

impl ManagementShare {
    /// A round ends and another begins; `has_forwarded` says whether there were packets.
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

    /// When more may be read than what is left now.
    pub(super) fn next_portion(&self) -> Timestamp {
        self.next_portion
    }

    /// The wait of this round is over. How many bytes may be read of the internal face in this round, of
    /// which so many were `left` in the last.
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

    /// Rounds of [`ROUND_NS`] for `duration_ms`, of which forwarding takes a share in percent, with more to
    /// read than anyone may; how many bytes were read after the first half.
    fn read(share: u64, has_forwarded: bool, duration_ms: u64) -> usize {
        let mut management = ManagementShare::default();
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
    fn a_busy_worker_reads_a_portion_at_a_time() {
        // Half a second.
        let limited = 125 * PORTION_BYTES;
        assert_eq!(read(60, true, 1000), limited);
        assert_eq!(read(100, true, 1000), limited);
    }

    #[test]
    fn a_worker_with_time_left_reads_all_there_is() {
        let all = 5000 * 10 * 8192;
        assert_eq!(read(10, true, 1000), all);
        assert_eq!(read(45, true, 1000), all);
        assert_eq!(read(100, false, 1000), all, "rounds without packets are no work");
    }

    #[test]
    fn small_answers_do_not_wait() {
        let mut management = ManagementShare::default();
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
