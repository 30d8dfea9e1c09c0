//! CoDel: which packets that leave a queue are signalled, by their waiting time.

use std::time::Duration;

use ndn_types::{Timestamp, duration_ns};

/// A queue that is above its target again within this many intervals resumes signalling at the rate that it
/// had reached (RFC 8289, section 5.4).
const RESUME_INTERVALS: u64 = 16;

/// The state of CoDel for one queue (RFC 8289).
///
/// A queue that has been above its target for a whole interval is too long. Then packets are signalled, at a
/// rate that grows with the square root of their number, until the queue is short again. The owner of the
/// queue decides what a signal is.
#[derive(Debug, Clone)]
pub(crate) struct Codel {
    target_ns: u64,
    interval_ns: u64,
    /// When the queue has been above its target for an interval; none while it is below.
    too_long_at: Option<Timestamp>,
    is_signalling: bool,
    next_signal: Timestamp,
    /// Signals since this phase of signalling began.
    count: u32,
    /// The count when it began.
    count_at_start: u32,
}

impl Codel {
    /// A controller of a queue in which packets may wait for `target`, and for longer in bursts that
    /// end within `interval`.
    pub(crate) fn new(target: Duration, interval: Duration) -> Self {
        let nanos = |time: Duration| duration_ns(time);
        Self {
            target_ns: nanos(target),
            interval_ns: nanos(interval).max(1),
            too_long_at: None,
            is_signalling: false,
            next_signal: Timestamp::default(),
            count: 0,
            count_at_start: 0,
        }
    }

    /// A packet leaves the queue after this waiting time. Returns whether to signal it.
    #[inline]
    pub(crate) fn dequeue(&mut self, now: Timestamp, sojourn_ns: u64) -> bool {
        if sojourn_ns < self.target_ns {
            self.note_short_queue();
            return false;
        }
        self.dequeue_from_long_queue(now)
    }

    /// Notes that the queue is below its target, or empty: ends the signalling.
    #[inline]
    pub(crate) fn note_short_queue(&mut self) {
        self.too_long_at = None;
        self.is_signalling = false;
    }

    /// Whether the queue is at its target or above.
    pub(crate) fn is_long(&self) -> bool {
        self.too_long_at.is_some()
    }

    #[cold]
    fn dequeue_from_long_queue(&mut self, now: Timestamp) -> bool {
        let Some(too_long_at) = self.too_long_at else {
            self.too_long_at = Some(now.plus_nanos(self.interval_ns));
            return false;
        };
        if now < too_long_at {
            return false;
        }
        if self.is_signalling {
            if now < self.next_signal {
                return false;
            }
            self.count = self.count.saturating_add(1);
            self.next_signal = self.next_signal.plus_nanos(self.pause_ns());
            return true;
        }
        self.is_signalling = true;
        let reached = self.count - self.count_at_start;
        let is_recent = now.nanos_since(self.next_signal) < RESUME_INTERVALS * self.interval_ns;
        self.count = if reached > 1 && is_recent { reached } else { 1 };
        self.count_at_start = self.count;
        self.next_signal = now.plus_nanos(self.pause_ns());
        true
    }

    /// The control law: the time from one signal to the next.
    fn pause_ns(&self) -> u64 {
        // In units of 2^-20. The rate is constant beyond 2^23 signals.
        let root = (u64::from(self.count.min(1 << 23)) << 40).isqrt().max(1);
        self.interval_ns.saturating_mul(1 << 20) / root
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const TARGET: Duration = Duration::from_millis(5);
    const INTERVAL: Duration = Duration::from_millis(100);
    const LONG: u64 = 6_000_000;
    const SHORT: u64 = 4_999_999;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_nanos(1_000_000_000 + millis * 1_000_000)
    }

    fn codel() -> Codel {
        Codel::new(TARGET, INTERVAL)
    }

    /// Times of signals, where one packet leaves each millisecond after `sojourn`.
    fn signals(codel: &mut Codel, millis: std::ops::Range<u64>, sojourn: u64) -> Vec<u64> {
        millis.filter(|&millis| codel.dequeue(at(millis), sojourn)).collect()
    }

    #[test]
    fn short_queue_is_not_signalled() {
        assert!(signals(&mut codel(), 0..10_000, SHORT).is_empty());
    }

    #[test]
    fn burst_shorter_than_an_interval_is_not_signalled() {
        let mut codel = codel();
        for start in [0, 1000, 2000] {
            assert!(signals(&mut codel, start..start + 100, LONG).is_empty());
            assert!(!codel.dequeue(at(start + 100), SHORT));
        }
    }

    #[test]
    fn signal_rate_grows_with_the_square_root() {
        let found = signals(&mut codel(), 0..1000, LONG);
        // After an interval, then after 100 / sqrt(n) milliseconds each.
        let mut expected = vec![100.0];
        let mut next = 100.0;
        for count in 1.. {
            next += 100.0 / f64::from(count).sqrt();
            if next > 999.0 {
                break;
            }
            expected.push(next);
        }
        assert_eq!(found.len(), expected.len());
        for (&found, expected) in found.iter().zip(expected) {
            #[expect(clippy::cast_precision_loss, reason = "small")]
            let difference = found as f64 - expected;
            assert!((-0.01..1.01).contains(&difference), "{found} against {expected}");
        }
    }

    #[test]
    fn one_short_wait_ends_signalling_and_restarts_the_interval() {
        let mut codel = codel();
        assert!(!signals(&mut codel, 0..500, LONG).is_empty());
        assert!(!codel.dequeue(at(500), SHORT));
        assert!(signals(&mut codel, 501..601, LONG).is_empty());
        assert!(codel.dequeue(at(601), LONG));
    }

    #[test]
    fn recent_rate_is_resumed() {
        let (mut soon, mut late) = (codel(), codel());
        for codel in [&mut soon, &mut late] {
            signals(codel, 0..2000, LONG);
            codel.note_short_queue();
        }
        let soon = signals(&mut soon, 2001..3000, LONG);
        let late = signals(&mut late, 5000..5999, LONG);
        assert!(soon.len() > 2 * late.len(), "{} and {}", soon.len(), late.len());
    }

    #[test]
    fn late_reader_signals_what_was_due() {
        let mut codel = codel();
        assert!(!codel.dequeue(at(0), LONG));
        assert!(codel.dequeue(at(100), LONG));
        // Nothing has left for half a second: one burst gets the signals that were due.
        let due = (0..64).filter(|_| codel.dequeue(at(600), LONG)).count();
        assert!((5..64).contains(&due), "{due}");
    }
}
