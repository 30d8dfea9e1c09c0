//! One worker: a shard, its faces, and the loop that moves packets between them.
//!
//! Each round waits for readiness (in the kernel, once nothing has arrived for a while), reads the clock
//! once, and then moves packets: every ready socket is read once, its packets go through the shard in
//! bursts, and what the shard sends is written with few system calls. Commands of the control thread are
//! carried out between bursts.

mod content_erasures;
mod crowding;
mod disk;
mod event_queue;
mod face_admission;
mod flush_batch;
mod idle;
mod ingress_sink;
mod inter_worker;
mod management_budget;
mod overload;
mod read_order;
mod service_meter;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use ndn_face::{
    FaceChange, FaceSet, Internals, OnDemandPeer, PeerKey, PortId, PortOptions, Ports, Progress,
    WORKER_TOKEN_MIN,
};
use ndn_forwarding::{
    Burst, FaceProperties, Ingress, LinkEvent, PacketKind, PacketTracer, Shard, ShardMessage,
};
use ndn_ring::PacketPool;
use ndn_sys::clock::Clock;
use ndn_sys::poll::{Event as PollEvent, Events};
use ndn_table::{FaceIndex, NameHasher};
use ndn_types::{FaceUri, PrincipalKey, Timestamp};

use crate::command::{Command, CsSettings, NewFace, NewPort, PortChange, WorkerLedgers};
use crate::event::{Event, FaceCreated};
use crate::exchange::{KINDS, Message, Notice, RemoteFrame, RoutedSink};
use crate::faces::FACE_LIMIT_REACHED;
use crate::peers::ClaimError;
use crate::queue::Inbox;

pub(crate) use content_erasures::ContentErasures;
use crowding::{RingUser, RoomWait};
pub(crate) use disk::WorkerDisk;
pub(crate) use event_queue::EventQueue;
use face_admission::Refused;
pub(crate) use face_admission::{FaceAdmission, Refusals};
pub(crate) use flush_batch::FlushBatch;
pub(crate) use idle::Idle;
use ingress_sink::IngressSink;
pub(crate) use inter_worker::{InterWorker, TIMEOUT as RING_TIMEOUT};
use inter_worker::{ROOM_PAUSE, TakeContext, TakeLimit};
pub(crate) use management_budget::ManagementBudget;
pub use ndn_counters::{BURST_SIZE_CLASSES, WorkerCounters, WorkerValues};
pub(crate) use overload::Overload;
use read_order::READ_FRAMES_MIN;
pub(crate) use read_order::ReadOrder;
pub(crate) use service_meter::ServiceMeter;
use service_meter::dispatch_measured;

/// Poll token of the waker of the command queue.
pub(crate) const COMMAND_TOKEN: u64 = WORKER_TOKEN_MIN;
/// Poll token of the waker that other workers call.
pub(crate) const INTER_WORKER_TOKEN: u64 = WORKER_TOKEN_MIN + 1;
/// Poll token of the waker of the threads that read and write the disk.
pub(crate) const DISK_TOKEN: u64 = WORKER_TOKEN_MIN + 2;
/// Maximum number of events of the poller in a round.
pub(crate) const EVENTS_PER_ROUND: usize = 256;
/// Maximum number of events in a round, those of polled rings included.
pub(crate) const EVENTS_MAX: usize = 2 * EVENTS_PER_ROUND;
/// Packets after which a round ends and the next one continues with the rest of the events, so that the
/// clock is read and commands are carried out every few milliseconds under any load.
const PACKETS_PER_ROUND: usize = 4096;
/// Frames after which it ends, too: they need not hold packets.
const FRAMES_PER_ROUND: u64 = 8192;
/// Maximum number of frames read from one upstream face in a row. They need not hold packets, and may come without end.
const UPSTREAM_FRAMES_MAX: u64 = 4096;
/// Maximum number of commands in a round, so that packets do not wait for long.
const COMMANDS_PER_ROUND: usize = 256;
/// Maximum number of completions of the disk in a round, so that packets do not wait for long.
const COMPLETIONS_PER_ROUND: usize = 256;
/// Time for which a worker waits for a free block of its pool before it reads again.
const NO_BLOCK_PAUSE: Duration = Duration::from_millis(1);

/// One worker: a shard, its faces, and what they need.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) faces: FaceSet,
    pub(crate) shard: Shard,
    pub(crate) ingress: Ingress,
    pub(crate) hasher: NameHasher,
    pub(crate) clock: Clock,
    /// Packets that this worker has received.
    pub(crate) burst: Burst,
    pub(crate) pool: PacketPool,
    pub(crate) admission: FaceAdmission,
    pub(crate) commands: Inbox<Command>,
    pub(crate) events: EventQueue,
    pub(crate) counters: Arc<WorkerCounters>,
    pub(crate) idle: Idle,
    pub(crate) state: RoundState,
    /// The exchange with the other workers, if there are any.
    pub(crate) inter_worker: Option<Box<InterWorker>>,
    pub(crate) overload: Overload,
    pub(crate) read_order: ReadOrder,
    pub(crate) flush_batch: FlushBatch,
    pub(crate) management: ManagementBudget,
    pub(crate) erasures: ContentErasures,
    pub(crate) service: ServiceMeter,
    /// The disk tier of the Content Store, if there is one.
    pub(crate) disk: Option<Box<WorkerDisk>>,
}

/// Unfinished work of a round, for the next one.
#[derive(Debug, Default)]
pub(crate) struct RoundState {
    /// Time of the round, which goes on while it waits for room. Never goes back: the shard relies on that.
    now: Timestamp,
    /// Time that the shard was given last, in debug builds.
    shard_time: Timestamp,
    /// Packets since the last flush.
    unflushed: usize,
    /// Packets in this round.
    packets: usize,
    /// Packets of this round when the upstream faces were last read.
    upstreams_read_at: usize,
    /// Frames read so far; a read counts as [`READ_FRAMES_MIN`] at least.
    frames_read: u64,
    /// The number at the end of this round.
    frames_end: u64,
    /// The first event of the last wait that has not been handled.
    next_event: usize,
    /// Commands may wait.
    has_commands: bool,
    /// Messages of other workers may wait.
    has_messages: bool,
    /// A face or socket was not read, because rings to other workers have little room.
    held_back: bool,
    /// Timers are due.
    has_timers: bool,
    /// No buffer was free.
    starved: bool,
    /// The burst of received packets consists of packets of frames that other workers have received.
    has_crossed_frames: bool,
    stopping: bool,
}

impl RoundState {
    /// Checks in debug builds that the time of the shard does not go back: to its dead nonce list, a record from the
    /// future has expired.
    #[inline]
    fn note_shard_time(&mut self, now: Timestamp) {
        if cfg!(debug_assertions) {
            let latest = self.shard_time;
            assert!(latest <= now, "the time of the shard goes back from {latest:?} to {now:?}");
            self.shard_time = now;
        }
    }
}

/// Where the packets of a burst come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BurstSource {
    /// The faces of this worker.
    Received,
    /// Other workers, which have received, parsed and dispatched them.
    Crossed,
}

impl Worker {
    /// Runs on the calling thread until the control thread stops it.
    pub(crate) fn run(mut self) {
        let mut events = Events::with_capacity(EVENTS_PER_ROUND);
        while !self.state.stopping {
            self.round(&mut events);
        }
        self.finish();
    }

    /// Whether a [`step`](Self::step) might do anything before its [deadline](Self::next_deadline). `event_count` is the
    /// number of events of the last step.
    #[inline]
    pub(crate) fn may_have_work(&self, event_count: usize) -> bool {
        let has_paused = self.state.held_back || self.state.starved;
        let has_arrivals = self.faces.poller().may_have_events() || self.has_messages();
        has_arrivals || has_paused || self.has_unfinished_work(event_count)
    }

    /// One round without waiting. Returns whether it did anything, apart from what was due. If not, and no other worker did,
    /// there is nothing to do before [`next_deadline`](Self::next_deadline) unless something arrives.
    pub(crate) fn step(&mut self, now: Timestamp, events: &mut Events) -> bool {
        let has_messages = self.has_messages();
        let commands = self.counters.commands.value();
        self.counters.rounds.increment();
        // Every descriptor that was ready is read before any is read again.
        if self.state.next_event >= events.len() {
            if let Err(error) = self.faces.poller().wait(events, Some(Duration::ZERO)) {
                self.give_up(&error);
                return true;
            }
            self.reset_wakers(events);
            self.plan(events);
        }
        self.work(now, events, true);
        // The time until the next step is no work.
        self.management.begin_round(self.now(), self.state.packets > 0);
        self.wake_others();
        // A descriptor that is not read, because there is no room or no block, stays ready.
        let has_read = !events.is_empty() && !self.state.held_back && !self.state.starved;
        has_messages
            || has_read
            || self.state.packets > 0
            || self.state.stopping
            || self.counters.commands.value() != commands
            || self.has_unfinished_work(events.len())
    }

    /// When a [`step`](Self::step) has something to do if nothing arrives before; the present time if it has
    /// already. `event_count` is the number of events of the last step.
    pub(crate) fn next_deadline(&self, now: Timestamp, event_count: usize) -> Option<Timestamp> {
        if self.has_unfinished_work(event_count) || self.has_messages() {
            return Some(now);
        }
        let retry = self.state.held_back.then_some(ROOM_PAUSE);
        let starved = self.state.starved.then_some(NO_BLOCK_PAUSE);
        let times = [retry, starved, self.time_to_next(now)];
        times.into_iter().flatten().min().map(|time| now.plus(time))
    }

    /// Whether the control thread has stopped it.
    pub(crate) fn is_stopping(&self) -> bool {
        self.state.stopping
    }

    /// Sends the waiting packets that the kernel takes, and returns the buffers.
    pub(crate) fn finish(mut self) {
        let now = self.now();
        if let Some(disk) = &mut self.disk {
            disk.finish(&mut self.shard);
        }
        self.flush(now);
        self.burst.release(&self.pool);
        self.release_blocks();
        if let Some(inter_worker) = &mut self.inter_worker {
            inter_worker.release(&self.pool);
        }
        self.wake_others();
        self.events.wake();
    }

    /// Returns the blocks that are kept for further packets, and cached references.
    pub(crate) fn release_blocks(&mut self) {
        self.ingress.release_blocks(&self.pool);
        self.faces.release_blocks(&self.pool);
        self.shard.release_blocks(&self.pool);
        if let Some(inter_worker) = &mut self.inter_worker {
            inter_worker.release_copies(&self.pool);
        }
        self.pool.settle();
    }

    #[inline]
    fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

// Rounds.
impl Worker {
    /// Waits for something to do, and does it.
    fn round(&mut self, events: &mut Events) {
        let before = self.now();
        let timeout = self.timeout(before);
        self.idle.begin(before);
        self.management.begin_round(before, self.state.packets > 0);
        self.counters.rounds.increment();
        let (mut is_idle, mut has_polled) = (false, true);
        // Every descriptor that was ready is read before any is read again.
        if self.state.next_event >= events.len() {
            is_idle = !self.is_behind();
            if timeout != Some(Duration::ZERO) {
                self.counters.waiting_since_ns.set(before.as_nanos());
            }
            has_polled = match self.wait(before, events, timeout) {
                Ok(has_polled) => has_polled,
                Err(error) => return self.give_up(&error),
            };
            self.state.next_event = 0;
            if has_polled {
                self.plan(events);
            }
        }
        let now = self.now();
        if is_idle {
            self.counters.waiting_since_ns.set(0);
            self.counters.waited_ns.add(now.nanos_since(before));
        }
        let waited = if is_idle { now.since(before) } else { Duration::ZERO };
        self.flush_batch.note_round(before.since(self.state.now), waited);
        self.work(now, events, has_polled);
    }

    /// The poller and its arguments are the worker's own: an error leaves nothing sensible to do.
    #[cold]
    fn give_up(&mut self, error: &std::io::Error) {
        tracing::error!(%error, "worker stops: epoll_wait failed");
        self.state.stopping = true;
    }

    #[inline]
    fn work(&mut self, now: Timestamp, events: &Events, has_polled: bool) {
        self.state.now = self.state.now.max(now);
        let now = self.state.now;
        self.state.packets = 0;
        self.state.starved = false;
        let left = self.faces.transport::<Internals>().bytes_left();
        let allowance = self.management.allowance(now, left);
        self.faces.transport_mut::<Internals>().set_bytes_left(allowance);
        self.pool.reclaim();
        // Commands first: a response of management must not overtake the change that it reports.
        self.state.has_commands = self.handle_commands(now);
        self.state.has_messages = self.take_messages(now);
        if let Some(inter_worker) = &mut self.inter_worker {
            inter_worker.note_room(now);
        }
        if has_polled {
            self.receive_ready(events);
        }
        let now = self.state.now;
        self.run_burst(now, BurstSource::Received);
        // Messages that arrived meanwhile are written with the rest.
        if self.has_messages() {
            self.state.has_messages = self.take_messages(now);
        }
        self.state.has_timers = self.with_sink(now, |shard, sink| shard.poll_timers(now, sink));
        if self.disk.is_some() {
            self.run_disk(now);
        }
        self.erasures.run(
            &mut self.shard,
            &self.hasher,
            self.disk.as_deref_mut(),
            &mut self.events,
        );
        // Also publishes the number of PIT entries, when there is no burst.
        self.after_shard(now, 0);
        self.faces.handle_timeouts(now, &self.pool);
        self.flush(now);
        self.report_faces(now);
        self.report_learning();
        self.pool.settle();
        self.wake_others_if_due();
        self.events.wake();
        if self.state.held_back && self.state.packets == 0 {
            self.yield_to_others();
        }
        if self.state.packets > 0 {
            self.idle.note_packets(now);
            if self.idle.may_poll() {
                let now = self.now();
                self.idle.rest(now);
            }
        }
    }

    /// Timeout of the next wait; `None` for no limit.
    fn timeout(&self, now: Timestamp) -> Option<Duration> {
        if self.state.starved {
            return Some(NO_BLOCK_PAUSE);
        }
        if self.is_behind() || self.idle.polls(now) {
            return Some(Duration::ZERO);
        }
        self.time_to_next(now)
    }

    /// Time to the next deadline; `None` without one.
    fn time_to_next(&self, now: Timestamp) -> Option<Duration> {
        let deadline = [self.shard.next_deadline(), self.faces.next_deadline()];
        let until = deadline.into_iter().flatten().min().map(|at| at.since(now));
        // The control thread empties the event queue without waking the worker, which keeps requests meanwhile.
        let retry = self.events.is_full().then_some(NO_BLOCK_PAUSE);
        let portion = self.faces.transport::<Internals>().has_unread();
        let portion = portion.then(|| self.management.next_portion().since(now));
        [until, retry, portion].into_iter().flatten().min()
    }

    /// Whether the next round has something to do even if nothing arrives.
    fn is_behind(&self) -> bool {
        self.has_backlog() || self.state.held_back
    }

    /// As [`is_behind`](Self::is_behind), without faces that wait for room in the rings to other workers.
    fn has_backlog(&self) -> bool {
        let state = &self.state;
        let has_work = state.has_commands || state.has_timers || state.has_messages;
        let has_rest = state.unflushed > 0 || !self.burst.is_empty();
        has_work || has_rest || self.erasures.has_work()
    }

    /// As [`has_backlog`](Self::has_backlog), with the events of `event_count` that are not handled yet.
    fn has_unfinished_work(&self, event_count: usize) -> bool {
        self.has_backlog() || self.state.next_event < event_count && !self.state.held_back
    }
}

// Waiting.
impl Worker {
    /// Waits for events. While this worker may sleep, others wake it. Returns false if the kernel was not
    /// polled.
    fn wait(
        &mut self,
        now: Timestamp,
        events: &mut Events,
        timeout: Option<Duration>,
    ) -> std::io::Result<bool> {
        if timeout == Some(Duration::ZERO) {
            let has_polled = self.poll_events(now, events)?;
            self.reset_wakers(events);
            return Ok(has_polled);
        }
        self.wake_others();
        let mut has_waiting = false;
        if let Some(inter_worker) = &self.inter_worker {
            // From now on others wake it.
            inter_worker.exchange.sleeper().flag.prepare();
            has_waiting = inter_worker.exchange.has_waiting();
        }
        // Interrupts are enabled before the rings are polled for the last time.
        has_waiting |= self.faces.stop_polling();
        let timeout = if has_waiting { Some(Duration::ZERO) } else { timeout };
        self.counters.sleeps.add(u64::from(!has_waiting));
        let waited = self.faces.poller().wait(events, timeout);
        if self.faces.has_polled() {
            self.faces.poll(events);
        }
        if let Some(inter_worker) = &self.inter_worker {
            inter_worker.exchange.sleeper().flag.awake();
        }
        waited?;
        self.reset_wakers(events);
        Ok(true)
    }

    /// Makes wakers unreadable, before the queues that they announce are read.
    fn reset_wakers(&self, events: &Events) {
        for event in events.iter() {
            match (event.token, &self.inter_worker) {
                (COMMAND_TOKEN, _) => self.commands.waker().reset(),
                (INTER_WORKER_TOKEN, Some(one)) => one.exchange.sleeper().waker.reset(),
                (DISK_TOKEN, _) => self.disk.iter().for_each(|disk| disk.waker().reset()),
                (_, _) => {}
            }
        }
    }

    /// Polls for events without sleeping, until there are some, another worker has sent something, it is
    /// time to sleep, or there is something else to do. Returns false if there are no events because the
    /// kernel was not polled.
    fn poll_events(&mut self, now: Timestamp, events: &mut Events) -> std::io::Result<bool> {
        let (mut now, mut has_polled) = (now, false);
        let mut deadline = None;
        events.clear();
        loop {
            let has_messages = self.has_messages();
            // Without other workers and polled rings, the kernel is the only source.
            let has_rings = self.faces.has_polled();
            let is_only_source = self.inter_worker.is_none() && !has_rings;
            if is_only_source || self.idle.polls_kernel(now, has_messages) {
                self.faces.poller().wait(events, Some(Duration::ZERO))?;
                has_polled = true;
            }
            if has_rings {
                self.faces.poll(events);
                has_polled |= !events.is_empty();
            }
            let is_over = !self.idle.polls(now) || self.is_behind();
            if has_messages || !events.is_empty() || is_over {
                return Ok(has_polled);
            }
            self.wake_others();
            let until =
                deadline.get_or_insert_with(|| self.time_to_next(now).map(|time| now.plus(time)));
            if until.is_some_and(|until| until <= now) {
                return Ok(has_polled);
            }
            std::hint::spin_loop();
            let before = now;
            now = self.now();
            self.idle.note_polling(now.since(before));
        }
    }

    /// Wakes the other workers that sleep, if they have many messages or one that waits for long.
    fn wake_others_if_due(&mut self) {
        let Self { inter_worker, clock, .. } = self;
        if let Some(inter_worker) = inter_worker {
            let outbound = &mut inter_worker.exchange.outbound;
            outbound.wake_if_due(|| clock.now());
        }
    }

    /// Wakes the other workers that sleep and have messages.
    fn wake_others(&mut self) {
        if let Some(inter_worker) = &mut self.inter_worker {
            inter_worker.exchange.outbound.wake();
        }
    }
}

// Reception.
impl Worker {
    /// Orders the events of a wait.
    fn plan(&mut self, events: &Events) {
        let Self { read_order, faces, overload, state, admission, .. } = self;
        state.next_event = 0;
        let answers_first = overload.answers_first();
        read_order.plan(
            admission.numbers.count(),
            events.len(),
            |position| events.event(position).token,
            |token| answers_first && token < COMMAND_TOKEN && faces.is_upstream(token),
        );
    }

    /// Reads what is ready, until enough has been read for a round.
    fn receive_ready(&mut self, events: &Events) {
        self.state.upstreams_read_at = 0;
        self.state.held_back = false;
        self.state.frames_end = self.state.frames_read + FRAMES_PER_ROUND;
        let begin = self.state.packets + self.burst.len();
        while self.state.next_event < events.len() && !self.is_round_full() {
            let now = self.state.now;
            let place = self.state.next_event;
            let event = events.event(self.read_order.event(place));
            self.state.next_event += 1;
            if event.token >= COMMAND_TOKEN {
                continue;
            }
            let is_upstream = self.read_order.is_upstream(place);
            let kind = if is_upstream { PacketKind::Data } else { PacketKind::Interest };
            let principal = self.principal_in_turn(&event);
            let is_crowded = event.readable && self.is_crowded(now, kind);
            let must_wait = is_crowded && self.fills_rings(event.token);
            let is_over = principal.is_some_and(|one| !self.read_order.has_turn(one, event.token));
            if must_wait || is_over {
                self.state.held_back |= must_wait;
                if must_wait && !is_upstream {
                    self.read_order.hold_back(event.token);
                }
                // The event comes again, but output need not wait.
                if event.writable {
                    self.receive(&PollEvent { readable: false, ..event });
                }
                continue;
            }
            let before = self.state.frames_read;
            if is_crowded {
                self.receive_into_crowded(&event);
                self.note_turn(principal, before);
                continue;
            }
            if is_upstream {
                self.receive_all(&event);
                self.note_turn(principal, before);
                self.state.upstreams_read_at = self.state.packets;
                continue;
            }
            // Ends the poll of the upstream events that come first; later polls have ended already.
            self.end_upstream_poll();
            self.receive_once(&event);
            self.note_turn(principal, before);
            let unpolled = self.state.packets - self.state.upstreams_read_at;
            if unpolled >= self.read_order.batch.packets() {
                self.poll_upstreams();
            }
        }
        self.end_upstream_poll();
        self.read_order.batch.end_round(self.state.packets + self.burst.len() > begin);
        self.faces.set_frames_per_event(self.read_order.batch.packets());
    }

    /// Whether enough was read for a round.
    #[inline]
    fn is_round_full(&self) -> bool {
        let RoundState { packets, frames_read, frames_end, .. } = self.state;
        packets >= PACKETS_PER_ROUND || frames_read >= frames_end
    }

    /// The principal whose turn reading the face of an event takes, while principals take turns.
    #[inline]
    fn principal_in_turn(&self, event: &PollEvent) -> Option<PrincipalKey> {
        let has_turn = event.readable && self.read_order.has_turns();
        if has_turn { self.faces.principal_of(event.token) } else { None }
    }

    /// Notes the frames read since there were `before`.
    #[inline]
    fn note_turn(&mut self, principal: Option<PrincipalKey>, before: u64) {
        if let Some(principal) = principal {
            self.read_order.note_turn(principal, self.state.frames_read - before);
        }
    }

    /// Whether the rings to other workers have little room for what packets of this kind may cause.
    #[inline]
    fn is_crowded(&mut self, now: Timestamp, kind: PacketKind) -> bool {
        self.inter_worker.as_mut().is_some_and(|one| one.is_crowded(now, kind))
    }

    /// Whether the principal of a face, or the peers of a socket, have sent their part of the room in crowded rings, and wait.
    #[cold]
    fn fills_rings(&self, token: u64) -> bool {
        let user = RingUser::new(self.faces.principal_of(token), token);
        let holds_back = |one: &InterWorker| one.holds_back(self.state.now);
        self.inter_worker.as_ref().is_some_and(|one| holds_back(one) && one.part_left(user) == 0)
    }

    /// Reads a face or socket once while rings are crowded.
    #[cold]
    fn receive_into_crowded(&mut self, event: &PollEvent) {
        let user = RingUser::new(self.faces.principal_of(event.token), event.token);
        // The burst has packets of others.
        self.run_burst(self.state.now, BurstSource::Received);
        self.inter_worker.iter_mut().for_each(|one| one.begin_read(user));
        self.receive_once(event);
        self.run_burst(self.state.now, BurstSource::Received);
        self.inter_worker.iter_mut().for_each(|one| one.end_read(user));
    }

    /// Reads a face or socket until it is empty, within a limit.
    fn receive_all(&mut self, event: &PollEvent) {
        let end = self.state.frames_read + UPSTREAM_FRAMES_MAX;
        loop {
            self.receive_once(event);
            self.read_order.batch.note(self.faces.report().counts);
            let has_more = self.faces.report().has_more;
            if !has_more || self.state.starved || self.state.frames_read >= end {
                return;
            }
            if self.is_crowded(self.state.now, PacketKind::Data) {
                self.state.held_back = true;
                return;
            }
        }
    }

    /// Reads the upstream faces and sockets again, in the middle of a round.
    fn poll_upstreams(&mut self) {
        self.state.has_messages |= self.take_messages(self.state.now);
        let mut number = 0;
        while let Some(token) = self.read_order.recent(number)
            && !self.is_round_full()
            && !self.is_crowded(self.state.now, PacketKind::Data)
        {
            number += 1;
            // The token may belong to another connection by now.
            if self.faces.is_upstream(token) {
                let readable = PollEvent { token, readable: true, writable: false, closed: false };
                let principal = self.principal_in_turn(&readable);
                if principal.is_some_and(|one| self.read_order.is_turn_over(one)) {
                    continue;
                }
                let before = self.state.frames_read;
                self.receive_all(&readable);
                self.note_turn(principal, before);
            }
        }
        self.end_upstream_poll();
        self.state.upstreams_read_at = self.state.packets;
    }

    /// Adapts the batch of Interests to what a poll of the upstream sockets has found.
    fn end_upstream_poll(&mut self) {
        self.read_order.batch.end_poll();
        self.faces.set_frames_per_event(self.read_order.batch.packets());
    }

    /// Reads once, and notes which kind of packets the face or socket brings.
    fn receive_once(&mut self, event: &PollEvent) {
        let begin = self.state.packets + self.burst.len();
        self.receive(event);
        self.state.frames_read += READ_FRAMES_MIN.max(self.faces.report().frames as u64);
        if self.state.packets + self.burst.len() > begin
            && let Some(kind) = self.last_kind()
        {
            self.faces.note_direction(event.token, kind != PacketKind::Interest);
        }
    }

    /// Kind of the last packet of the burst.
    fn last_kind(&self) -> Option<PacketKind> {
        self.burst.len().checked_sub(1).map(|last| self.burst.kind(last))
    }

    /// Handles an event: reads once, and forwards in bursts.
    fn receive(&mut self, event: &PollEvent) {
        let mut now = self.state.now;
        let (faces, pool, mut sink) = self.receiving(now);
        let mut progress = faces.handle_event(now, event, pool, &mut sink);
        loop {
            match progress {
                Progress::Done => {
                    if let Some(channel) = self.faces.report().drained {
                        self.overload.socket_is_empty(channel);
                    }
                    return self.take_deferred_frames(now);
                }
                Progress::SinkFull => {
                    let kind = self.last_kind();
                    self.run_burst(now, BurstSource::Received);
                    self.make_room(kind.unwrap_or(PacketKind::Interest));
                    now = self.state.now;
                }
                Progress::NewPeer(peer) => self.add_peer(now, peer),
                Progress::NoBlock => {
                    // Releasing the burst may free a block; the event comes again.
                    self.run_burst(now, BurstSource::Received);
                    self.counters.no_block.increment();
                    self.state.starved = true;
                    return self.take_deferred_frames(now);
                }
            }
            let (faces, pool, mut sink) = self.receiving(now);
            progress = faces.resume(now, pool, &mut sink);
        }
    }

    /// The faces, and the sink of what they receive.
    #[inline]
    fn receiving(&mut self, now: Timestamp) -> (&mut FaceSet, &PacketPool, IngressSink<'_>) {
        let Self { faces, pool, burst, ingress, inter_worker, service, overload, .. } = self;
        let sink = IngressSink {
            burst,
            ingress,
            pool,
            inter_worker: inter_worker.as_mut().map(|one| one.receiving()),
            timer: service.receiving(),
            overload: Some((now, overload)),
        };
        (faces, pool, sink)
    }

    /// Takes a frame that another worker has received for a face of this one. Such frames have bursts of their own.
    fn take_frame(&mut self, now: Timestamp, frame: RemoteFrame) {
        let RemoteFrame { face, sender, handle, .. } = frame;
        if self.burst.is_full() || !self.state.has_crossed_frames {
            self.run_burst(now, BurstSource::Received);
        }
        let Self { faces, pool, burst, ingress, service, .. } = self;
        let timer = service.receiving();
        let mut sink =
            IngressSink { burst, ingress, pool, inter_worker: None, timer, overload: None };
        faces.receive_frame(now, face, sender, pool.bytes(&handle), pool, &mut sink);
        pool.release(handle);
        self.state.has_crossed_frames = !self.burst.is_empty();
    }

    /// Takes the frames that arrived while a face was being read.
    fn take_deferred_frames(&mut self, now: Timestamp) {
        if !self.inter_worker.as_ref().is_some_and(|one| one.has_frames()) {
            return;
        }
        // What the face itself has brought.
        self.run_burst(now, BurstSource::Received);
        let Some(inter_worker) = &mut self.inter_worker else { return };
        let mut frames = inter_worker.swap_frames(Vec::new());
        for frame in frames.drain(..) {
            self.take_frame(now, frame);
        }
        self.run_burst(now, BurstSource::Received);
        if let Some(inter_worker) = &mut self.inter_worker {
            frames.append(&mut inter_worker.swap_frames(Vec::new()));
            inter_worker.swap_frames(frames);
        }
    }
}

// Forwarding.
impl Worker {
    /// Takes a burst through the shard, and sends the packets that result.
    fn run_burst(&mut self, now: Timestamp, source: BurstSource) {
        let Self { burst, inter_worker, shard, faces, pool, overload, service, state, .. } = self;
        let (mut dispatch, mut crossed) = (None, None);
        if let Some(inter_worker) = inter_worker {
            let (parts, burst) = inter_worker.forwarding();
            (dispatch, crossed) = (Some(parts), Some(burst));
        }
        let burst = match (source, crossed) {
            (BurstSource::Received, _) => burst,
            (BurstSource::Crossed, Some(crossed)) => crossed,
            (BurstSource::Crossed, None) => return,
        };
        let count = burst.len();
        if count == 0 {
            return;
        }
        overload.mark_data(burst);
        state.note_shard_time(now);
        let mut observers = service.observers(now, source == BurstSource::Crossed);
        if source == BurstSource::Received {
            if let Some(dispatch) = &mut dispatch {
                // There was room for what crossed frames cause, what is kept included, when they were taken.
                let has_crossed_frames = std::mem::take(&mut state.has_crossed_frames);
                dispatch.outbound.leave_reserve(!has_crossed_frames);
            }
            let timer = observers.as_mut().and_then(|observers| observers.timer.as_deref_mut());
            match (timer, &mut dispatch) {
                (Some(timer), dispatch) => dispatch_measured(timer, burst, dispatch.as_mut(), pool),
                (None, Some(dispatch)) => {
                    dispatch.packets(burst, pool);
                }
                (None, None) => {}
            }
        }
        let outbound = dispatch.map(|dispatch| dispatch.outbound);
        let mut sink = RoutedSink { faces: faces.sink(now, pool), outbound, pool };
        match &mut observers {
            None => shard.process_burst(now, burst, pool, &mut sink),
            Some(observers) => {
                observers.timer.iter_mut().for_each(|timer| timer.begin());
                shard.process_burst_observed(now, burst, pool, &mut sink, observers);
            }
        }
        // The sink has copied or retained what it needs.
        burst.release(pool);
        if let Some(timer) = observers.and_then(|observers| observers.timer) {
            timer.finish_forwarding();
        }
        if source == BurstSource::Received {
            service.next_burst(now);
        }
        self.counters.count_burst(count);
        self.after_shard(now, count);
        if let Some(inter_worker) = &mut self.inter_worker {
            inter_worker.exchange.outbound.leave_reserve(false);
        }
    }

    /// The epilogue of every call of the shard, which has processed this many packets: publishes its counters, sends its
    /// messages to other shards, and continues with [`after_sink`](Self::after_sink).
    fn after_shard(&mut self, now: Timestamp, packets: usize) {
        self.shard.end_burst();
        self.send_shard_messages(now);
        self.after_sink(now, packets);
    }

    /// The epilogue after this many packets were passed to faces: publishes the frames for polled rings, and writes the
    /// sent packets if they are [enough](FlushBatch).
    fn after_sink(&mut self, now: Timestamp, packets: usize) {
        self.faces.publish(now, &self.pool);
        self.state.packets += packets;
        self.state.unflushed += packets;
        if self.state.unflushed >= self.flush_batch.packets() {
            self.flush(now);
        }
    }

    /// Calls `run` with the shard and the sink that routes what it sends.
    fn with_sink<R>(
        &mut self,
        now: Timestamp,
        run: impl FnOnce(&mut Shard, &mut RoutedSink<'_>) -> R,
    ) -> R {
        let Self { faces, pool, shard, inter_worker, state, .. } = self;
        state.note_shard_time(now);
        let outbound = inter_worker.as_mut().map(|one| &mut one.exchange.outbound);
        run(shard, &mut RoutedSink { faces: faces.sink(now, pool), outbound, pool })
    }

    /// Writes the sent packets. Wakes other workers before, if that is due.
    fn flush(&mut self, now: Timestamp) {
        self.state.unflushed = 0;
        self.wake_others_if_due();
        self.faces.flush(now, &self.pool);
    }

    /// Accepts what the threads of the disk have read and written, and passes new requests to them.
    #[cold]
    fn run_disk(&mut self, now: Timestamp) {
        let Some(mut disk) = self.disk.take() else { return };
        let mut count = 0;
        while count < COMPLETIONS_PER_ROUND
            && let Some(completion) = disk.next_completion(&mut self.shard)
        {
            self.with_sink(now, |shard, sink| shard.complete_disk_request(now, completion, sink));
            count += 1;
        }
        if count > 0 {
            self.after_shard(now, count);
        }
        if count == COMPLETIONS_PER_ROUND {
            disk.waker().wake();
        }
        disk.send_requests(&mut self.shard);
        self.disk = Some(disk);
    }
}

// Exchange with other workers.
impl Worker {
    /// Whether messages of other workers wait.
    pub(crate) fn has_messages(&self) -> bool {
        self.inter_worker.as_ref().is_some_and(|one| one.exchange.has_waiting())
    }

    /// Takes messages of other workers: all Data and Nacks, and some Interests of each, as far as
    /// there is room for the resulting messages. Returns whether there may be more.
    fn take_messages(&mut self, now: Timestamp) -> bool {
        let Some(inter_worker) = &mut self.inter_worker else { return false };
        inter_worker.exchange.outbound.set_time(now);
        let workers = inter_worker.exchange.worker_count();
        self.handle_notices(now);
        let mut has_more = false;
        for kind in KINDS {
            let mut queued = 0;
            for from in 0..workers {
                let Some(inter_worker) = &mut self.inter_worker else { return false };
                let waiting = inter_worker.exchange.waiting(from, kind);
                if waiting == 0 {
                    inter_worker.note_empty(from, kind);
                    continue;
                }
                let take_limit = inter_worker.take_limit(now, kind, waiting);
                queued += waiting as u64;
                // A worker reports its faces before it sends packets that arrived on them.
                self.handle_notices(now);
                has_more |= waiting > take_limit.count;
                self.take_waiting(now, from, kind, take_limit);
            }
            if let Some(inter_worker) = &self.inter_worker {
                inter_worker.exchange.counters().queue(kind).note(queued);
            }
            self.run_burst(now, BurstSource::Crossed);
            // The room counted for the next kind is what these frames leave, and the worker may sleep next.
            if self.state.has_crossed_frames {
                self.run_burst(now, BurstSource::Received);
            }
        }
        has_more
    }

    /// Takes messages out of one ring.
    fn take_waiting(
        &mut self,
        now: Timestamp,
        from: usize,
        kind: PacketKind,
        take_limit: TakeLimit,
    ) {
        let mut left = take_limit.count;
        while left > 0 {
            let Self {
                inter_worker: Some(inter_worker), faces, pool, shard, hasher, overload, ..
            } = self
            else {
                return;
            };
            let mut sink = faces.sink(now, pool);
            let mut sent = 0;
            let had_room = !inter_worker.crossed.is_full();
            let mut cx = TakeContext { pool, shard, overload };
            let part = TakeLimit { count: left, ..take_limit };
            let taken = inter_worker.take(now, (from, kind), part, &mut cx, |message, crossed| {
                // The frequent messages first.
                if let Message::RemoteTx(outgoing) = message {
                    outgoing.send(pool, &mut sink);
                    sent += 1;
                } else if let Message::Shard(ShardMessage::Packet(packet)) = message {
                    let is_pushed = crossed.push_packet(packet, pool, hasher);
                    assert!(is_pushed, "InterWorker::take takes no more than fit");
                } else {
                    return false;
                }
                true
            });
            let is_full = inter_worker.crossed.is_full();
            left = if taken == 0 && had_room { 0 } else { left - taken };
            // The epilogue precedes the next messages, because the resulting ones need the room that is left now.
            match self.handle_other_messages(now) {
                0 if sent == 0 => {}
                0 => self.after_sink(now, sent),
                processed => self.after_shard(now, sent + processed),
            }
            if is_full {
                self.run_burst(now, BurstSource::Crossed);
            }
        }
    }

    /// Handles the messages taken that are not packets. Returns how many of them the shard has processed.
    fn handle_other_messages(&mut self, now: Timestamp) -> usize {
        let Some(inter_worker) = self.inter_worker.as_mut().filter(|one| one.has_others()) else {
            return 0;
        };
        let mut processed = 0;
        let mut others = inter_worker.swap_others(Vec::new());
        for message in others.drain(..) {
            match message {
                Message::Shard(message) => {
                    self.process_shard_message(now, message);
                    processed += 1;
                }
                Message::RemoteFrame(frame) => match &mut self.inter_worker {
                    Some(one) if self.faces.is_suspended() => one.defer_frame(frame),
                    Some(_) | None => self.take_frame(now, frame),
                },
                Message::RemoteTx(_) | Message::Taken => message.release(&self.pool),
            }
        }
        if let Some(inter_worker) = &mut self.inter_worker {
            others.append(&mut inter_worker.swap_others(Vec::new()));
            inter_worker.swap_others(others);
        }
        processed
    }

    /// Makes the shard process a message of another shard; [`after_shard`](Self::after_shard) follows.
    fn process_shard_message(&mut self, now: Timestamp, message: ShardMessage) {
        self.with_sink(now, |shard, sink| shard.process_message(now, message, sink.pool, sink));
    }

    /// Sends the messages of the shard to others, which are woken later: see [`Self::flush`].
    fn send_shard_messages(&mut self, now: Timestamp) {
        let mut to_itself = Vec::new();
        let Some(inter_worker) = &mut self.inter_worker else { return };
        let outbound = &mut inter_worker.exchange.outbound;
        for addressed in self.shard.take_messages() {
            let to = usize::from(addressed.to);
            if to == outbound.own() {
                // Only if a name has moved back to this shard; an empty list has no memory.
                to_itself.push(addressed.message);
            } else {
                outbound.send(to, Message::Shard(addressed.message), &self.pool);
            }
        }
        outbound.publish();
        let count = to_itself.len();
        if count > 0 {
            to_itself.into_iter().for_each(|message| self.process_shard_message(now, message));
            // The resulting messages are for other shards.
            self.after_shard(now, count);
        }
    }

    /// Handles notices about faces of other workers.
    fn handle_notices(&mut self, now: Timestamp) {
        while let Some(notice) =
            self.inter_worker.as_mut().and_then(|one| one.exchange.next_notice())
        {
            match notice {
                Notice::Face(index, properties) => self.shard.set_face(index, &properties),
                Notice::Link(index, event) => self.shard.handle_link_event(now, index, event),
                Notice::FaceGone(index) => {
                    self.shard.remove_face(index);
                    let inter_worker = self.inter_worker.as_mut();
                    if let Some(peer) = inter_worker.and_then(|one| one.remove_remote_face(index)) {
                        self.faces.remove_remote_peer(peer, index);
                    }
                }
            }
        }
    }

    /// Waits until the rings to other workers have room for the messages of a burst, during a read whose last
    /// packet was of this kind.
    #[inline]
    fn make_room(&mut self, kind: PacketKind) {
        if self.missing_room(kind) > 0 {
            self.wait_for_room(kind);
        }
    }

    fn missing_room(&self, kind: PacketKind) -> usize {
        self.inter_worker.as_ref().map_or(0, |one| one.missing_room(kind))
    }

    #[cold]
    fn wait_for_room(&mut self, kind: PacketKind) {
        // The round may have taken long.
        let mut now = self.now();
        self.state.now = self.state.now.max(now);
        if self.idle.is_stepped() {
            // Other workers take messages in steps of their own. Packets without room are refused or dropped.
            return;
        }
        let mut wait = RoomWait::new(now);
        while let Some(inter_worker) = &mut self.inter_worker
            && inter_worker.should_wait_for_room(now, &wait)
        {
            let has_many_frames = inter_worker.has_many_frames();
            self.pool.settle();
            self.wake_others();
            if !has_many_frames {
                self.state.has_messages |= self.take_messages(self.state.now);
            }
            let missing = self.missing_room(kind);
            if missing == 0 {
                self.inter_worker.iter_mut().for_each(|one| one.end_wait());
                return;
            }
            wait.note_missing(now, missing);
            std::thread::sleep(ROOM_PAUSE);
            now = self.now();
            self.state.now = self.state.now.max(now);
        }
    }

    /// Lets other threads run, after a round in which no face was read for lack of room in the rings.
    fn yield_to_others(&mut self) {
        self.wake_others();
        if self.inter_worker.is_some() && !self.idle.is_stepped() {
            std::thread::sleep(ROOM_PAUSE);
        }
    }
}

// Commands.
impl Worker {
    /// Resources that principals hold; of the tables too if the worker forwards.
    pub(crate) fn ledgers(&self, forwards: bool) -> WorkerLedgers {
        let tables = forwards.then(|| self.shard.ledger());
        WorkerLedgers { tables, memory: self.faces.memory() }
    }

    /// Carries out commands. Returns whether there may be more.
    fn handle_commands(&mut self, now: Timestamp) -> bool {
        let mut handled = 0;
        for _ in 0..COMMANDS_PER_ROUND {
            match self.commands.receive() {
                Ok(Some(command)) => {
                    self.handle_command(now, command);
                    handled += 1;
                }
                Ok(None) => return self.count_commands(handled, false),
                Err(_) => {
                    // The control thread is gone, which alone could stop this one.
                    self.state.stopping = true;
                    return false;
                }
            }
        }
        self.count_commands(handled, true)
    }

    /// Counts commands. The control thread may wait until all are carried out.
    fn count_commands(&mut self, count: u64, has_more: bool) -> bool {
        self.counters.commands.add(count);
        if count > 0 {
            self.events.wake_now();
        }
        has_more
    }

    fn handle_command(&mut self, now: Timestamp, command: Command) {
        match command {
            Command::AddFace(face) => self.add_face(now, *face),
            Command::UpdateFace { face_id, options } => {
                if let Some(index) = self.admission.numbers.index(face_id) {
                    self.faces.update(index, &options, &self.pool);
                    self.admission.numbers.change_holder(face_id, options.holder());
                    self.announce_face(index, &options.properties);
                }
            }
            Command::SetLink { face_id, event } => {
                if let Some(index) = self.admission.numbers.index(face_id) {
                    self.announce_link(now, index, event);
                }
            }
            Command::SeparateInput { face_id } => {
                if let Some(index) = self.admission.numbers.index(face_id) {
                    self.separate_input(index, face_id);
                }
            }
            Command::RemoveFace { face_id } => {
                if let Some(index) = self.admission.numbers.index(face_id) {
                    self.flush(now);
                    self.faces.remove(index, &self.pool);
                    self.forget_face(index);
                    self.events.forget(face_id);
                    self.events.send(Event::FaceClosed { face_id, reason: None });
                }
            }
            Command::AddPort(port) => self.add_port(*port),
            Command::ChangePort { port, change } => self.change_port(now, port, *change),
            Command::SetTables { fib, strategies } => {
                if let Some(strategies) = strategies {
                    self.shard.set_strategies(strategies);
                }
                self.shard.set_fib(fib);
            }
            #[cfg(feature = "vip")]
            Command::ExchangeVip { decisions, requests } => {
                let counted = self.shard.exchange_vip(decisions, requests);
                counted
                    .into_iter()
                    .for_each(|counted| self.events.send(Event::VipRequests(counted)));
            }
            Command::AnswerLearning { ticket, announcement } => {
                self.with_sink(now, |shard, sink| {
                    shard.answer_learning(now, ticket, announcement.as_deref(), sink);
                });
                self.after_shard(now, 0);
            }
            Command::SetRegions(regions) => self.ingress.set_producer_regions(regions),
            Command::ConfigureCs(settings) => self.configure_cs(settings),
            Command::SetCsPolicy(new) => self.shard.pcct_mut().set_cs_policy(*new, now),
            Command::EraseCs { ticket, prefix, limit, is_whole_name } => {
                self.erasures.begin(ticket, prefix, limit, is_whole_name);
            }
            Command::SetTap(tap) => {
                self.faces.set_tap(tap);
            }
            Command::ReportLedgers { forwards, answer } => {
                // The requester may have gone.
                drop(answer.try_send(self.ledgers(forwards)));
            }
            Command::Trace(is_on) => self.service.set_enabled(is_on, &self.clock),
            Command::TracePackets(trace) => {
                let tracer = trace.map(|(filter, sink)| PacketTracer::new(filter, sink));
                self.service.set_tracer(tracer);
            }
            Command::Stop => self.state.stopping = true,
        }
    }

    fn configure_cs(&mut self, settings: CsSettings) {
        let pcct = self.shard.pcct_mut();
        if let Some(capacity) = settings.capacity_packets {
            pcct.set_cs_capacity(capacity);
        }
        if let Some(admit) = settings.admit {
            pcct.set_cs_admit(admit);
        }
        if let Some(serve) = settings.serve {
            pcct.set_cs_serve(serve);
        }
    }

    /// Reports what happened to faces without a command.
    fn report_faces(&mut self, now: Timestamp) {
        self.events.report_deferred();
        while let Some(event) = self.faces.poll_event() {
            let Some(face_id) = self.admission.numbers.face_id(event.face) else { continue };
            let event = match event.change {
                FaceChange::Closed(reason) => {
                    self.forget_face(event.face);
                    Event::FaceClosed { face_id, reason: Some(reason) }
                }
                FaceChange::Down(reason) => {
                    self.announce_link(now, event.face, LinkEvent::Lost);
                    Event::FaceDown { face_id, reason }
                }
                FaceChange::Unreachable(reason) => {
                    self.announce_link(now, event.face, LinkEvent::Doubted);
                    Event::FaceDown { face_id, reason }
                }
                FaceChange::Reached => {
                    self.announce_link(now, event.face, LinkEvent::Reached);
                    Event::FaceUp { face_id, is_reached: true }
                }
                FaceChange::Up => {
                    self.announce_link(now, event.face, LinkEvent::Restored);
                    Event::FaceUp { face_id, is_reached: false }
                }
            };
            self.events.report(face_id, event);
        }
    }

    /// Reports the requests of self-learning, unless the control thread is behind.
    fn report_learning(&mut self) {
        while !self.events.is_full()
            && let Some(request) = self.shard.poll_learning()
        {
            self.events.send(Event::Learning(request));
        }
    }
}

// Faces.
impl Worker {
    /// Gives a face to which Interests are sent a socket of its own, so that Data does not wait behind the
    /// Interests of others.
    fn separate_input(&mut self, index: FaceIndex, face_id: u64) {
        if self.overload.answers_first()
            && let Err(error) = self.faces.separate_input(index)
        {
            tracing::debug!(face_id, %error, "the face shares a socket with others");
        }
    }

    fn add_face(&mut self, now: Timestamp, face: NewFace) {
        let NewFace { ticket, transport, options, remote, local } = face;
        let face_id = options.properties.face_id;
        let (transport, peer) = match self.faces.resolve(transport) {
            Ok(resolved) => resolved,
            Err(error) => return self.refuse_face(ticket, face_id, error),
        };
        if let Some(existing) = peer.and_then(|peer| self.existing_face(peer)) {
            self.events.send(Event::FaceExists { ticket, face_id: existing, unused: face_id });
            return;
        }
        let Some(index) = self.admission.numbers.allocate(face_id, options.holder()) else {
            let reason = FACE_LIMIT_REACHED;
            transport.reject(reason);
            let kind = std::io::ErrorKind::QuotaExceeded;
            return self.refuse_face(ticket, face_id, std::io::Error::new(kind, reason));
        };
        if let Some(peer) = peer
            && let Err((_, existing)) = self.claim(peer, index, face_id)
        {
            self.admission.numbers.release(index);
            self.events.send(Event::FaceExists { ticket, face_id: existing, unused: face_id });
            return;
        }
        match self.faces.open(now, index, transport, &options) {
            Ok(counters) => {
                self.separate_input(index, face_id);
                self.announce_face(index, &options.properties);
                let shared = peer.and_then(|peer| self.faces.local_uri(peer));
                let local = shared.unwrap_or(local);
                let face = FaceCreated { index, options, remote, local, counters };
                self.events.send(Event::FaceAdded { ticket, face: Box::new(face) });
            }
            Err(error) => {
                self.release_number(index);
                self.refuse_face(ticket, face_id, error);
            }
        }
    }

    /// The FaceId of the face that a peer has already, on any worker.
    fn existing_face(&self, peer: PeerKey) -> Option<u64> {
        let own = self.faces.face_of(peer).and_then(|index| self.admission.numbers.face_id(index));
        own.or_else(|| self.face_of(peer).map(|(_, face_id)| face_id))
    }

    fn refuse_face(&mut self, ticket: Option<u64>, face_id: u64, error: std::io::Error) {
        self.events.send(Event::FaceRefused { ticket, face_id, error });
    }

    /// Makes an on-demand face for a peer, or finds that of another worker.
    #[cold]
    fn add_peer(&mut self, now: Timestamp, peer: PeerKey) {
        let on_demand = self.faces.on_demand(peer);
        let refuses = |found: &OnDemandPeer| self.admission.refuses(peer, found, now);
        let is_refused = on_demand.as_ref().is_some_and(|(_, found)| refuses(found));
        let known = if is_refused { self.try_face_of(peer) } else { self.face_of(peer) };
        if let Some((index, _)) = known {
            return self.adopt_remote(peer, index);
        }
        let Some((transport, found)) = on_demand else { return };
        if self.events.is_full() {
            self.counters.refused_peers.increment();
            return;
        }
        let Some((face_id, index)) = self.admission.allocate_for_peer(peer, &found, now) else {
            return self.refuse_peer(now, found.remote);
        };
        let claimed = match &self.inter_worker {
            Some(one) => one.registry().claim_on_demand(peer, index, face_id),
            None => Ok(()),
        };
        if let Err(error) = claimed {
            self.admission.numbers.release(index);
            return match error {
                ClaimError::Exists(other, _) => self.adopt_remote(peer, other),
                ClaimError::NoRoom => {
                    let refused = peer.device().map(Refused::Device);
                    refused
                        .into_iter()
                        .for_each(|refused| self.admission.refusals.note(refused, now));
                    self.refuse_peer(now, found.remote)
                }
            };
        }
        let options = self.admission.peer_options(face_id, &found);
        match self.faces.open(now, index, transport, &options) {
            Ok(counters) => {
                self.announce_face(index, &options.properties);
                let OnDemandPeer { remote, local, .. } = found;
                let face = FaceCreated { index, options, remote, local, counters };
                self.events.send(Event::FaceAdded { ticket: None, face: Box::new(face) });
            }
            Err(_) => {
                self.release_number(index);
                self.counters.refused_peers.increment();
            }
        }
    }

    /// Counts a peer that gets no face, and reports it now and then.
    fn refuse_peer(&mut self, now: Timestamp, remote: FaceUri) {
        self.counters.refused_peers.increment();
        if self.admission.reports_rejection(now) {
            self.events.send(Event::PeerRefused { remote });
        }
    }

    /// Sends frames for the face of another worker to that worker from now on.
    fn adopt_remote(&mut self, peer: PeerKey, face: FaceIndex) {
        if self.faces.add_remote_peer(peer, face)
            && let Some(inter_worker) = &mut self.inter_worker
        {
            inter_worker.add_remote_face(face, peer);
        }
    }

    /// Announces a face, or its new properties, to all shards.
    fn announce_face(&mut self, index: FaceIndex, properties: &FaceProperties) {
        self.shard.set_face(index, properties);
        if let Some(inter_worker) = &mut self.inter_worker {
            inter_worker.exchange.notify_all(Notice::Face(index, *properties));
        }
    }

    /// Announces an event of the link of a face to all shards.
    fn announce_link(&mut self, now: Timestamp, index: FaceIndex, event: LinkEvent) {
        self.shard.handle_link_event(now, index, event);
        if let Some(inter_worker) = &mut self.inter_worker {
            inter_worker.exchange.notify_all(Notice::Link(index, event));
        }
    }

    fn forget_face(&mut self, index: FaceIndex) {
        self.shard.remove_face(index);
        self.release_number(index);
        if let Some(inter_worker) = &mut self.inter_worker {
            inter_worker.exchange.notify_all(Notice::FaceGone(index));
        }
    }

    fn release_number(&mut self, index: FaceIndex) {
        self.admission.release(index);
        if let Some(inter_worker) = &self.inter_worker {
            inter_worker.registry().release(index);
        }
    }

    /// The face of a peer on any worker, with its FaceId.
    fn face_of(&self, peer: PeerKey) -> Option<(FaceIndex, u64)> {
        self.inter_worker.as_ref()?.registry().find(peer)
    }

    /// As [`face_of`](Self::face_of), but finds nothing instead of waiting for another worker.
    fn try_face_of(&self, peer: PeerKey) -> Option<(FaceIndex, u64)> {
        self.inter_worker.as_ref()?.registry().try_find(peer)
    }

    /// Enters a new face for all workers. The error is the face that another worker has made meanwhile.
    fn claim(&self, peer: PeerKey, face: FaceIndex, face_id: u64) -> Result<(), (FaceIndex, u64)> {
        match &self.inter_worker {
            Some(one) => one.registry().claim(peer, face, face_id),
            None => Ok(()),
        }
    }
}

// Network devices.
impl Worker {
    fn add_port(&mut self, new: NewPort) {
        let NewPort { port, name, is_up, accepts, sockets, on_demand } = new;
        let (socket, has_others) = (sockets.into_iter().next(), self.inter_worker.is_some());
        let options = PortOptions { name, socket, is_up, accepts, has_others, on_demand };
        if let Err(error) = self.faces.transport_mut::<Ports>().add(port, options) {
            tracing::warn!(?port, %error, "a network device cannot be used");
        }
    }

    fn change_port(&mut self, now: Timestamp, port: PortId, change: PortChange) {
        self.flush(now);
        let (mut ports, pool) = (self.faces.transport_mut::<Ports>(), &self.pool);
        let changed = match change {
            PortChange::Link(is_up) => {
                ports.set_state(port, is_up);
                Ok(())
            }
            PortChange::Sockets(sockets, options) => {
                ports.set_on_demand(port, options);
                ports.set_socket(port, sockets.into_iter().next(), pool)
            }
            PortChange::Suspend => ports.close_socket(port, pool),
            PortChange::Address(mac) => {
                ports.set_mac(port, mac);
                Ok(())
            }
            PortChange::Purpose { accepts, leaves_group } => {
                ports.set_purpose(port, accepts, leaves_group, pool);
                Ok(())
            }
            PortChange::Gone => ports.set_socket(port, None, pool),
            PortChange::Remove => {
                ports.remove(port, pool);
                Ok(())
            }
        };
        if let Err(error) = changed {
            tracing::warn!(?port, %error, "a network device cannot be used");
        }
        while let Some(socket) = ports.take_unused_socket() {
            self.events.send(Event::SocketUnused(socket));
        }
        // The next command may make a face in the place of one that has closed.
        self.report_faces(now);
    }
}
