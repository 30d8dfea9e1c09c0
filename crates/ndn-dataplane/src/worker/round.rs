//! One round of a worker: it waits, and then does what there is to do.

use std::time::Duration;

use ndn_sys::poll::Events;
use ndn_table::Timestamp;

use super::room::PAUSE;
use super::{EVENTS_PER_ROUND, NO_BLOCK_PAUSE, Worker};
use crate::exchange::RoutedSink;

impl Worker {
    /// Runs on the calling thread until the control thread stops it.
    pub(crate) fn run(mut self) {
        let mut events = Events::with_capacity(EVENTS_PER_ROUND);
        while !self.state.stopping {
            self.round(&mut events);
        }
        self.finish();
    }

    /// Waits for something to do, and does it.
    fn round(&mut self, events: &mut Events) {
        let before = self.now();
        let timeout = self.timeout(before);
        self.idle.begin(before);
        self.management_share.begin_round(before, self.state.packets > 0);
        self.counters.rounds.increment();
        let (mut is_idle, mut has_asked) = (false, true);
        // Everyone who was ready is read before anyone is read again.
        if self.state.next_event >= events.len() {
            is_idle = !self.is_behind();
            if timeout != Some(Duration::ZERO) {
                self.counters.waiting_since_ns.set(before.as_nanos());
            }
            has_asked = match self.wait(before, events, timeout) {
                Ok(has_asked) => has_asked,
                Err(error) => return self.give_up(&error),
            };
            self.state.next_event = 0;
            if has_asked {
                self.plan(events);
            }
        }
        let now = self.now();
        if is_idle {
            self.counters.waiting_since_ns.set(0);
            self.counters.waited_ns.add(now.nanos_since(before));
        }
        self.work(now, events, has_asked);
    }

    /// One round without waiting. Returns whether it did anything. If not, and no other worker did, there is
    /// nothing to do before [`next_deadline`](Self::next_deadline) unless something arrives.
    pub(crate) fn step(&mut self, events: &mut Events) -> bool {
        let now = self.now();
        let is_due = self.time_to_next(now) == Some(Duration::ZERO);
        let has_crossings = self.has_crossings();
        let commands = self.counters.commands.value();
        self.counters.rounds.increment();
        self.management_share.begin_round(now, self.state.packets > 0);
        let has_asked = self.state.next_event >= events.len();
        if has_asked {
            let asked = self.faces.poller().wait(events, Some(Duration::ZERO));
            if let Err(error) = asked {
                self.give_up(&error);
                return true;
            }
            self.reset_wakers(events);
            self.state.next_event = 0;
            self.plan(events);
        }
        self.work(now, events, has_asked);
        self.wake_others();
        // A descriptor that is not read for want of room or of a block stays ready.
        let has_read = !events.is_empty() && !self.state.held_back && !self.state.starved;
        is_due
            || has_crossings
            || has_read
            || self.state.packets > 0
            || self.state.stopping
            || self.counters.commands.value() != commands
            || self.has_unfinished_work(events.len())
    }

    /// When a [`step`](Self::step) has something to do if nothing arrives before, or at once.
    pub(crate) fn next_deadline(&self, event_count: usize) -> Option<Timestamp> {
        let now = self.now();
        if self.has_unfinished_work(event_count) || self.has_crossings() {
            return Some(now);
        }
        let retry = self.state.held_back.then_some(PAUSE);
        let starved = self.state.starved.then_some(NO_BLOCK_PAUSE);
        let times = [retry, starved, self.time_to_next(now)];
        times.into_iter().flatten().min().map(|time| now.plus(time))
    }

    /// Whether it was told to stop.
    pub(crate) fn is_stopping(&self) -> bool {
        self.state.stopping
    }

    /// The poller is ours and its arguments are right: nothing sensible is left to do.
    #[cold]
    fn give_up(&mut self, error: &std::io::Error) {
        tracing::error!(%error, "cannot wait for packets");
        self.state.stopping = true;
    }

    #[inline]
    fn work(&mut self, now: Timestamp, events: &Events, has_asked: bool) {
        self.state.packets = 0;
        self.state.starved = false;
        let left = self.faces.internal_bytes_left();
        self.faces.set_internal_bytes_left(self.management_share.allowance(now, left));
        self.pool.reclaim();
        // Commands first: an answer of management must not overtake the change it speaks of.
        self.state.has_commands = self.handle_commands(now);
        self.state.has_crossed = self.trade(now);
        self.note_room(now);
        if has_asked {
            self.receive_ready(now, events);
        }
        self.forward(now);
        // What others have sent meanwhile is written with the rest.
        if self.has_crossings() {
            self.state.has_crossed = self.trade(now);
            // Frames for faces of this worker may have come, and it may sleep next.
            self.forward(now);
        }
        self.erase();
        let mut sink = RoutedSink {
            faces: self.faces.sink(now, &self.pool),
            outbound: self.crew.as_mut().map(|crew| &mut crew.exchange.outbound),
            pool: &self.pool,
        };
        self.state.has_timers = self.shard.poll_timers(now, &mut sink);
        self.send_crossings(now);
        // Also says how many PIT entries are left, when no burst comes that would.
        self.shard.end_burst();
        self.faces.handle_timeouts(now, &self.pool);
        self.flush(now);
        self.report_faces();
        self.report_learning();
        self.pool.settle();
        self.report_quotas(now);
        self.wake_others_if_due();
        self.events.wake();
        if self.state.held_back && self.state.packets == 0 {
            self.let_others_run(now);
        }
        if self.state.packets > 0 {
            self.idle.note_packets(now);
            if self.idle.may_poll() {
                let now = self.now();
                self.idle.rest(now);
            }
        }
    }

    /// How long the next wait may last; `None` for as long as it takes.
    fn timeout(&self, now: Timestamp) -> Option<Duration> {
        if self.state.starved {
            return Some(NO_BLOCK_PAUSE);
        }
        if self.is_behind() || self.idle.polls(now) {
            return Some(Duration::ZERO);
        }
        self.time_to_next(now)
    }

    /// How long there is nothing to do, if nothing comes; `None` for ever.
    pub(super) fn time_to_next(&self, now: Timestamp) -> Option<Duration> {
        let deadline = [self.shard.next_deadline(), self.faces.next_deadline()];
        let until = deadline.into_iter().flatten().min().map(|at| at.since(now));
        // The control thread empties the event queue without saying so.
        let retry = self.events.is_backed_up().then_some(NO_BLOCK_PAUSE);
        let quotas = self.shard.has_quota_refusals();
        let quotas = quotas.then(|| self.state.next_quota_report.since(now));
        let portion = self.faces.has_unread_internals();
        let portion = portion.then(|| self.management_share.next_portion().since(now));
        [until, retry, quotas, portion].into_iter().flatten().min()
    }

    /// Whether there is something to do, whatever comes.
    pub(super) fn is_behind(&self) -> bool {
        self.has_backlog() || self.state.held_back
    }

    /// Whether the last round left something that the next one does, whatever other workers do.
    fn has_backlog(&self) -> bool {
        let state = &self.state;
        let has_work = state.has_commands || state.has_timers || state.has_crossed;
        let has_rest = state.unflushed > 0 || !self.burst.is_empty();
        has_work || has_rest || !state.erasures.is_empty()
    }

    /// The same, with the events of the last wait that were not handled, of `event_count`.
    fn has_unfinished_work(&self, event_count: usize) -> bool {
        self.has_backlog() || self.state.next_event < event_count && !self.state.held_back
    }

    /// Whether others have sent something.
    pub(super) fn has_crossings(&self) -> bool {
        self.crew.as_ref().is_some_and(|crew| crew.exchange.has_waiting())
    }
}
