//! What a worker does while there is nothing to do: it polls for a while, then it sleeps.
//!
//! To sleep and to be woken takes some microseconds of both sides' time. It is worth polling instead, if
//! the next packet comes sooner than that; else polling is time that somebody else could use. So a worker
//! remembers for how long there was nothing the last times, and polls only while that was short.

use std::time::Duration;

use ndn_sys::poll::Events;
use ndn_table::Timestamp;
use ndn_types::duration_ns;

use super::{COMMAND_TOKEN, CREW_TOKEN, Worker};

/// How often the kernel is asked while a worker polls. Rings, of other workers and of shared memory, are
/// looked at all the time.
const KERNEL_PAUSE: Duration = Duration::from_micros(2);
/// How long the kernel is not asked while other workers send more.
const KERNEL_PAUSE_OF_BUSY: Duration = Duration::from_micros(10);
/// A pause counts as so many times the longest polling at most, so that a few short ones outweigh it.
const PAUSE_MAX: u32 = 4;

/// Who has not run for so long between two looks was not let run: the kernel answers sooner, and whoever
/// gets the processor instead keeps it for longer.
const TAKEN_AWAY: Duration = Duration::from_micros(10);
/// That counts as a pause of so many times the longest polling: there is none for the next two dozen pauses,
/// however short.
const TAKEN_AWAY_PAUSES: u32 = 32;

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

    /// Packets have come, at this time.
    #[inline]
    pub(super) fn note_packets(&mut self, now: Timestamp) {
        let Some(since) = self.since.take() else { return };
        let pause = now.since(since).min(self.polling_max * PAUSE_MAX);
        let pause_ns = duration_ns(pause);
        self.mean_ns = (self.mean_ns * 7 + pause_ns) / 8;
    }

    /// All packets have been forwarded by now: polling begins, if it is worth it.
    #[inline]
    pub(super) fn rest(&mut self, now: Timestamp) {
        let is_worth_it = u128::from(self.mean_ns) < self.polling_max.as_nanos();
        let polling = if is_worth_it { self.polling_max } else { Duration::ZERO };
        self.until = now.plus(polling);
    }

    /// Whether it may poll at all.
    #[inline]
    pub(super) fn may_poll(&self) -> bool {
        !self.polling_max.is_zero()
    }

    /// Whether to poll rather than sleep.
    #[inline]
    pub(super) fn polls(&self, now: Timestamp) -> bool {
        now < self.until
    }

    /// Polling has gone on, this long after the last look. If that was long, the processor was taken by
    /// somebody else, who needs it more: there is no polling for the next while.
    #[inline]
    fn note_polling(&mut self, since: Duration) {
        if since >= TAKEN_AWAY {
            let pause = self.polling_max * TAKEN_AWAY_PAUSES;
            self.mean_ns = duration_ns(pause);
            self.until = Timestamp::ZERO;
        }
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
    /// Waits for events. If this worker may sleep, the others know that they have to wake it. False if
    /// the kernel was not asked for any.
    pub(super) fn wait(
        &mut self,
        now: Timestamp,
        events: &mut Events,
        timeout: Option<Duration>,
    ) -> std::io::Result<bool> {
        if timeout == Some(Duration::ZERO) {
            let has_asked = self.poll_events(now, events)?;
            self.reset_wakers(events);
            return Ok(has_asked);
        }
        self.wake_others();
        let mut has_waiting = false;
        if let Some(crew) = &self.crew {
            // Others have to wake it from now on.
            crew.exchange.sleeper().flag.prepare();
            has_waiting = crew.exchange.has_waiting();
        }
        // Interrupts are asked for before the rings are looked at for the last time.
        has_waiting |= self.faces.stop_ring_polling();
        let timeout = if has_waiting { Some(Duration::ZERO) } else { timeout };
        self.counters.sleeps.add(u64::from(!has_waiting));
        let waited = self.faces.poller().wait(events, timeout);
        if self.faces.has_polled_rings() {
            self.faces.poll_rings(events);
        }
        self.crew.iter().for_each(|crew| crew.exchange.sleeper().flag.awake());
        waited?;
        self.reset_wakers(events);
        Ok(true)
    }

    /// Makes wakers unreadable, before anybody looks for what they speak of.
    pub(super) fn reset_wakers(&self, events: &Events) {
        for event in events.iter() {
            match (event.token, &self.crew) {
                (COMMAND_TOKEN, _) => self.commands.waker().reset(),
                (CREW_TOKEN, Some(crew)) => crew.exchange.sleeper().waker.reset(),
                (_, _) => {}
            }
        }
    }

    /// Waits for events without sleeping: until there are some, another worker has sent something, it is
    /// time to sleep, or there is something else to do. False if there are no events because the kernel was
    /// not asked.
    fn poll_events(&mut self, now: Timestamp, events: &mut Events) -> std::io::Result<bool> {
        let (mut now, mut has_asked) = (now, false);
        let mut deadline = None;
        events.clear();
        loop {
            let has_messages = self.has_crossings();
            let pause = if has_messages { KERNEL_PAUSE_OF_BUSY } else { KERNEL_PAUSE };
            // Without other workers or shared memory, the kernel is all that there is to look at.
            let has_rings = self.faces.has_polled_rings();
            if self.crew.is_none() && !has_rings || self.idle.asks(now, pause) {
                self.faces.poller().wait(events, Some(Duration::ZERO))?;
                has_asked = true;
            }
            if has_rings {
                self.faces.poll_rings(events);
                has_asked |= !events.is_empty();
            }
            let is_over = !self.idle.polls(now) || self.is_behind();
            if has_messages || !events.is_empty() || is_over {
                return Ok(has_asked);
            }
            self.wake_others();
            let until =
                deadline.get_or_insert_with(|| self.time_to_next(now).map(|time| now.plus(time)));
            if until.is_some_and(|until| until <= now) {
                return Ok(has_asked);
            }
            std::hint::spin_loop();
            let before = now;
            now = self.now();
            self.idle.note_polling(now.since(before));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLLING: Duration = Duration::from_micros(20);

    fn micros(micros: u64) -> Timestamp {
        Timestamp::from_nanos(micros * 1000)
    }

    /// Packets at these times, in microseconds, each forwarded for 60 µs before the next pause begins;
    /// whether the worker polls after the last.
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
    fn polling_begins_when_the_work_is_done_and_ends() {
        let mut idle = Idle::new(POLLING);
        idle.begin(micros(0));
        idle.note_packets(micros(5));
        // A long round.
        idle.rest(micros(60));
        assert!(idle.polls(micros(61)));
        assert!(!idle.polls(micros(60).plus(POLLING)));
    }

    #[test]
    fn nobody_polls_on_a_processor_that_others_need() {
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
        idle.note_polling(TAKEN_AWAY / 2);
        assert!(idle.polls(now));
        idle.note_polling(TAKEN_AWAY);
        assert!(!idle.polls(now));
        let now = exchange(&mut idle);
        assert!(!idle.polls(now), "forgotten at once");
        let last = (0..30).map(|_| exchange(&mut idle)).last();
        assert!(last.is_some_and(|now| idle.polls(now)), "for ever");
    }

    #[test]
    fn no_polling_is_no_polling() {
        let mut idle = Idle::new(Duration::ZERO);
        idle.begin(micros(0));
        idle.note_packets(micros(1));
        idle.rest(micros(2));
        assert!(!idle.polls(micros(2)));
        assert!(!idle.may_poll());
    }
}
