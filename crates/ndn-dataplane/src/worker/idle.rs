//! What a worker does while there is nothing to do: it polls for a while, then it sleeps.
//!
//! To sleep and to be woken takes some microseconds of both sides' time. It is worth polling instead, if
//! the next packet comes sooner than that; else polling is time that somebody else could use. So a worker
//! remembers for how long there was nothing the last times, and polls only while that was short.

use std::time::Duration;

use ndn_sys::clock;
use ndn_sys::poll::Events;
use ndn_table::Timestamp;

use super::Worker;

/// How often the kernel is asked while a worker polls. Rings are looked at all the time.
const KERNEL_PAUSE: Duration = Duration::from_micros(2);
/// How long the kernel is not asked while other workers send more.
const KERNEL_PAUSE_OF_BUSY: Duration = Duration::from_micros(10);
/// A pause counts as so many times the longest polling at most, so that a few short ones outweigh it.
const PAUSE_MAX: u32 = 4;

/// When a worker polls.
#[derive(Debug)]
pub(crate) struct Idle {
    /// How long to poll at most; zero for never.
    polling_max: Duration,
    /// Moving mean of the pauses between packets, in nanoseconds.
    mean_ns: u64,
    /// Since when there has been nothing; none after packets.
    since: Option<Timestamp>,
    /// Until when to poll.
    until: Timestamp,
    /// When the kernel was asked last.
    asked: Timestamp,
}

impl Idle {
    pub(crate) fn new(polling_max: Duration) -> Self {
        let (until, asked) = (Timestamp::ZERO, Timestamp::ZERO);
        Self { polling_max, mean_ns: 0, since: None, until, asked }
    }

    /// A round begins, and nothing has come yet.
    #[inline]
    pub(super) fn begin(&mut self, now: Timestamp) {
        self.since.get_or_insert(now);
    }

    /// What was waited for came at this time: packets, or something else.
    #[inline]
    pub(super) fn note(&mut self, now: Timestamp, has_packets: bool) {
        if !has_packets {
            return;
        }
        if let Some(since) = self.since.take() {
            let pause = now.since(since).min(self.polling_max * PAUSE_MAX);
            let pause_ns = u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX);
            self.mean_ns = (self.mean_ns * 7 + pause_ns) / 8;
        }
        let is_worth_it = u128::from(self.mean_ns) < self.polling_max.as_nanos();
        let polling = if is_worth_it { self.polling_max } else { Duration::ZERO };
        self.until = now.plus(polling);
    }

    /// Whether to poll rather than sleep.
    #[inline]
    pub(super) fn polls(&self, now: Timestamp) -> bool {
        now < self.until
    }

    /// Whether it is time to ask the kernel again, which was asked so long ago at least; if so, it is
    /// asked now.
    #[inline]
    fn asks(&mut self, now: Timestamp, pause: Duration) -> bool {
        let asks = now.since(self.asked) >= pause;
        if asks {
            self.asked = now;
        }
        asks
    }
}

impl Worker {
    /// Waits for events without sleeping: until there are some, another worker has sent something, or
    /// it is time to sleep.
    pub(super) fn poll_events(
        &mut self,
        now: Timestamp,
        events: &mut Events,
    ) -> std::io::Result<()> {
        let mut now = now;
        events.clear();
        loop {
            let has_messages = self.crew.as_ref().is_some_and(|crew| crew.exchange.has_waiting());
            let pause = if has_messages { KERNEL_PAUSE_OF_BUSY } else { KERNEL_PAUSE };
            // Without other workers, the kernel is all that there is to look at.
            if self.crew.is_none() || self.idle.asks(now, pause) {
                self.faces.poller().wait(events, Some(Duration::ZERO))?;
            }
            if has_messages || !events.is_empty() || !self.idle.polls(now) || self.is_behind() {
                return Ok(());
            }
            std::hint::spin_loop();
            now = Timestamp::from_nanos(clock::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLLING: Duration = Duration::from_micros(20);

    /// Packets at these times, in microseconds; whether the worker polls after the last.
    fn polls_after(times: impl IntoIterator<Item = u64>) -> bool {
        let mut idle = Idle::new(POLLING);
        let mut last = Timestamp::ZERO;
        for micros in times {
            idle.begin(last);
            idle.note(last.plus(Duration::from_nanos(1)), false);
            last = Timestamp::from_nanos(micros * 1000);
            idle.note(last, true);
        }
        idle.polls(last.plus(POLLING / 2))
    }

    #[test]
    fn short_pauses_are_polled_through_and_long_ones_slept_through() {
        assert!(polls_after([5]), "nothing is known yet");
        assert!(polls_after((1..100).map(|number| 10 * number)));
        assert!(!polls_after((1..100).map(|number| 30 * number)));
        assert!(!polls_after((1..100).map(|number| 1_000_000 * number)));
    }

    #[test]
    fn short_pauses_are_trusted_again_soon() {
        let seconds = (1..100).map(|number| 1_000_000 * number);
        let then = |count| (1..=count).map(|number| 99_000_000 + 5 * number);
        assert!(!polls_after(seconds.clone().chain(then(3))));
        assert!(polls_after(seconds.chain(then(20))));
    }

    #[test]
    fn packets_in_every_round_are_no_pauses() {
        let mut idle = Idle::new(POLLING);
        for micros in 1..50 {
            idle.begin(Timestamp::from_nanos(micros * 500_000));
            idle.note(Timestamp::from_nanos(micros * 500_000), true);
        }
        assert_eq!(idle.mean_ns, 0);
        assert!(!idle.polls(Timestamp::from_nanos(49 * 500_000).plus(POLLING)), "for so long");
    }

    #[test]
    fn no_polling_is_no_polling() {
        let mut idle = Idle::new(Duration::ZERO);
        let now = Timestamp::from_nanos(1000);
        idle.note(now, true);
        assert!(!idle.polls(now));
    }
}
