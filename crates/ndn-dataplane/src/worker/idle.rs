//! When an idle worker polls and when it sleeps.
//!
//! Sleeping and being woken takes both sides some microseconds. Polling is better if the next packet arrives
//! sooner than that, and wastes processor time otherwise. A worker keeps a moving mean of the pauses between
//! packets, and polls only while it is short.

use std::time::Duration;

use ndn_types::{Timestamp, duration_ns};

/// Time between two polls of the kernel. Rings of other workers and in shared memory are polled all the time.
const KERNEL_PAUSE: Duration = Duration::from_micros(2);
/// The same while messages of other workers wait.
const KERNEL_PAUSE_OF_BUSY: Duration = Duration::from_micros(10);
/// A pause counts as at most this many times the longest polling, so that a few short ones outweigh it.
const PAUSE_MAX: u32 = 4;

/// Time between two polls from which another thread must have had the processor: a system call is
/// shorter, and a time slice is longer.
const PREEMPTION_MIN: Duration = Duration::from_micros(10);
/// A preemption counts as a pause of this many times the longest polling: the worker does not poll through
/// about the next 24 pauses.
const PREEMPTION_PAUSES: u32 = 32;

/// When a worker polls.
#[derive(Debug)]
pub(crate) struct Idle {
    /// Maximum time of polling; zero disables it.
    polling_max: Duration,
    /// Moving mean of the pauses between packets, in nanoseconds.
    mean_ns: u64,
    /// Begin of the pause; none after packets.
    since: Option<Timestamp>,
    /// End of polling.
    until: Timestamp,
    /// Time of the last poll of the kernel.
    kernel_polled: Timestamp,
    /// The embedder steps the worker, and does the waiting.
    is_stepped: bool,
}

impl Idle {
    pub(crate) fn new(polling_max: Duration) -> Self {
        Self {
            polling_max,
            mean_ns: 0,
            since: None,
            until: Timestamp::ZERO,
            kernel_polled: Timestamp::ZERO,
            is_stepped: false,
        }
    }

    /// For a worker that the embedder steps: it neither polls nor waits.
    pub(crate) fn stepped() -> Self {
        Self { is_stepped: true, ..Self::new(Duration::ZERO) }
    }

    /// Whether the embedder steps the worker.
    pub(super) fn is_stepped(&self) -> bool {
        self.is_stepped
    }

    /// A round begins, and no packet has arrived yet.
    #[inline]
    pub(super) fn begin(&mut self, now: Timestamp) {
        self.since.get_or_insert(now);
    }

    /// Packets have arrived at this time.
    #[inline]
    pub(super) fn note_packets(&mut self, now: Timestamp) {
        let Some(since) = self.since.take() else { return };
        let pause = now.since(since).min(self.polling_max * PAUSE_MAX);
        let pause_ns = duration_ns(pause);
        self.mean_ns = (self.mean_ns * 7 + pause_ns) / 8;
    }

    /// All packets have been forwarded: polling begins, if pauses are short.
    #[inline]
    pub(super) fn rest(&mut self, now: Timestamp) {
        let is_worth_it = u128::from(self.mean_ns) < self.polling_max.as_nanos();
        let polling = if is_worth_it { self.polling_max } else { Duration::ZERO };
        self.until = now.plus(polling);
    }

    /// Whether polling is enabled.
    #[inline]
    pub(crate) fn may_poll(&self) -> bool {
        !self.polling_max.is_zero()
    }

    /// Whether to poll instead of sleeping.
    #[inline]
    pub(super) fn polls(&self, now: Timestamp) -> bool {
        now < self.until
    }

    /// Notes the time between two polls. If it is long, another thread needs the processor, and polling stops
    /// for a while.
    #[inline]
    pub(super) fn note_polling(&mut self, since: Duration) {
        if since >= PREEMPTION_MIN {
            let pause = self.polling_max * PREEMPTION_PAUSES;
            self.mean_ns = duration_ns(pause);
            self.until = Timestamp::ZERO;
        }
    }

    /// Whether to poll the kernel now, which is assumed to be done then. `is_busy` if messages wait.
    #[inline]
    pub(super) fn polls_kernel(&mut self, now: Timestamp, is_busy: bool) -> bool {
        let pause = if is_busy { KERNEL_PAUSE_OF_BUSY } else { KERNEL_PAUSE };
        let is_due = now.since(self.kernel_polled) >= pause;
        if is_due {
            self.kernel_polled = now;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLLING: Duration = Duration::from_micros(20);

    fn micros(micros: u64) -> Timestamp {
        Timestamp::from_nanos(micros * 1000)
    }

    /// Whether the worker polls after packets at these times, in microseconds, each forwarded for 60 µs.
    fn polls_after(times: impl IntoIterator<Item = u64>) -> bool {
        let mut idle = Idle::new(POLLING);
        let (mut last, mut work) = (0, 0);
        for time in times {
            idle.begin(micros(last + work));
            idle.note_packets(micros(time + work));
            last = time;
            work += 60;
            idle.rest(micros(last + work));
        }
        idle.polls(micros(last + work).plus(POLLING / 2))
    }

    #[test]
    fn worker_polls_through_short_pauses_and_sleeps_through_long_ones() {
        assert!(polls_after([5]), "no pause is known yet");
        assert!(polls_after((1..100).map(|number| 10 * number)));
        assert!(!polls_after((1..100).map(|number| 30 * number)));
        assert!(!polls_after((1..100).map(|number| 1_000_000 * number)));
    }

    #[test]
    fn polling_resumes_after_about_twenty_short_pauses() {
        let seconds = (1..100).map(|number| 1_000_000 * number);
        let then = |count| (1..=count).map(|number| 99_000_000 + 5 * number);
        assert!(!polls_after(seconds.clone().chain(then(3))));
        assert!(polls_after(seconds.chain(then(20))));
    }

    #[test]
    fn polling_time_counts_from_the_end_of_the_work() {
        let mut idle = Idle::new(POLLING);
        idle.begin(micros(0));
        idle.note_packets(micros(5));
        // A long round.
        idle.rest(micros(60));
        assert!(idle.polls(micros(61)));
        assert!(!idle.polls(micros(60).plus(POLLING)));
    }

    #[test]
    fn preemption_suspends_polling() {
        let mut idle = Idle::new(POLLING);
        let mut time = 0;
        let mut exchange = |idle: &mut Idle| {
            idle.begin(micros(time));
            idle.note_packets(micros(time + 2));
            idle.rest(micros(time + 3));
            time += 3;
            micros(time)
        };
        let now = exchange(&mut idle);
        idle.note_polling(PREEMPTION_MIN / 2);
        assert!(idle.polls(now));
        idle.note_polling(PREEMPTION_MIN);
        assert!(!idle.polls(now));
        let now = exchange(&mut idle);
        assert!(!idle.polls(now), "polling resumed at once");
        let last = (0..30).map(|_| exchange(&mut idle)).last();
        assert!(last.is_some_and(|now| idle.polls(now)), "polling never resumes");
    }

    #[test]
    fn zero_disables_polling() {
        let mut idle = Idle::new(Duration::ZERO);
        idle.begin(micros(0));
        idle.note_packets(micros(1));
        idle.rest(micros(2));
        assert!(!idle.polls(micros(2)));
        assert!(!idle.may_poll());
    }
}
