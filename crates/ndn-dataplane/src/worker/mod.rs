//! One worker: what it has, and what it does in a round.
//!
//! Each round waits for something to be ready (in the kernel, once nothing has come for a while),
//! reads the clock once, and then moves packets: every ready socket is read once, what it gave goes
//! through the shard in bursts, and what the shard sent is written with few system calls. Commands
//! of the control thread are carried out between bursts.

mod agenda;
mod commands;
mod counters;
mod crew;
mod idle;
mod management_share;
mod overload;
mod ports;
mod room;
mod round;
mod sink;
mod timing;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ndn_face::{
    ChannelId, FaceChange, FaceOptions, FaceSet, Persistency, PortId, Progress, WORKER_TOKEN_MIN,
};
use ndn_forwarding::{
    Burst, FaceProperties, Ingress, PacketKind, Scope, ServiceTimer, ServiceTimes, Shard,
};
use ndn_ring::PacketPool;
use ndn_sys::clock::Clock;
use ndn_sys::poll::Event as PollEvent;
use ndn_table::{FaceIndex, NameHasher, Timestamp};
use ndn_types::FaceUri;

use crate::command::{Command, StationOptions};
use crate::dataplane::OnDemandOptions;
use crate::event::{Event, FaceCreated};
use crate::exchange::{Notice, RoutedSink};
use crate::faces::FaceNumbers;
use crate::peers::Party;
use crate::queue::{Inbox, Sender};
use crate::strangers::WorkerStrangers;

pub(crate) use agenda::Agenda;
pub use counters::{BURST_SIZE_CLASSES, WorkerCounters};
pub(crate) use crew::Crew;
use crew::Foreign;
pub(crate) use idle::Idle;
pub(crate) use management_share::ManagementShare;
pub(crate) use overload::Overload;
use sink::IngressSink;

/// Poll token of the waker of the command queue.
pub(crate) const COMMAND_TOKEN: u64 = WORKER_TOKEN_MIN;
/// Poll token of the waker that other workers call.
pub(crate) const CREW_TOKEN: u64 = WORKER_TOKEN_MIN + 1;
/// Events of the poller per round at most.
pub(crate) const EVENTS_PER_ROUND: usize = 256;
/// With those of rings that the worker looks into by itself.
const EVENTS_MAX: usize = 2 * EVENTS_PER_ROUND;
/// Packets forwarded before what they caused is written: enough to fill system calls, few enough
/// that the bytes are still in the cache.
const PACKETS_PER_FLUSH: usize = 512;
/// Packets after which a round ends and the next goes on with the rest of the events, so that the
/// clock is read and commands are carried out every few milliseconds however much comes in.
const PACKETS_PER_ROUND: usize = 4096;
/// The control thread hears of refused peers so often at most: their addresses are easily forged.
const REFUSAL_PAUSE: Duration = Duration::from_secs(1);
/// How long a worker waits when its pool has no free block, before it looks again.
const NO_BLOCK_PAUSE: Duration = Duration::from_millis(1);

/// One worker: a shard, its faces, and what they need.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) faces: FaceSet,
    pub(crate) shard: Shard,
    pub(crate) ingress: Ingress,
    pub(crate) hasher: NameHasher,
    pub(crate) clock: Clock,
    /// The embedder steps this worker: nothing in it waits, and there is no thread of its own.
    pub(crate) is_stepped: bool,
    pub(crate) burst: Burst,
    pub(crate) pool: PacketPool,
    pub(crate) numbers: FaceNumbers,
    /// Sockets that datagram faces share.
    pub(crate) channels: Vec<(ChannelId, SocketAddr)>,
    pub(crate) on_demand: OnDemandOptions,
    /// UDP peers that have spoken first.
    pub(crate) strangers: WorkerStrangers,
    /// Of its network devices, what faces that stations bring about are to be.
    pub(crate) stations: Vec<(PortId, StationOptions)>,
    pub(crate) next_face_id: Arc<AtomicU64>,
    pub(crate) commands: Inbox<Command>,
    pub(crate) events: Sender<Event>,
    pub(crate) counters: Arc<WorkerCounters>,
    pub(crate) idle: Idle,
    pub(crate) state: RoundState,
    /// The other workers, if there are any.
    pub(crate) crew: Option<Box<Crew>>,
    pub(crate) overload: Overload,
    pub(crate) agenda: Agenda,
    pub(crate) management_share: ManagementShare,
    pub(crate) service_times: Arc<ServiceTimes>,
    /// Measures how long packets take, while somebody wants to know.
    pub(crate) timer: Option<Box<ServiceTimer>>,
}

/// What one round leaves to the next.
#[derive(Debug, Default)]
pub(crate) struct RoundState {
    /// Packets since the last flush.
    unflushed: usize,
    /// Packets in this round.
    packets: usize,
    /// The first event of the last wait that has not been handled.
    next_event: usize,
    /// There may be commands.
    has_commands: bool,
    /// Other workers may have left more.
    has_crossed: bool,
    /// Others have little room for what this worker sends, since then.
    crowded_since: Option<Timestamp>,
    /// Something was not read, for lack of that room.
    held_back: bool,
    /// Timers are behind.
    has_timers: bool,
    /// No buffer was free.
    starved: bool,
    /// When the control thread may hear of quotas again.
    next_quota_report: Timestamp,
    /// When the control thread may hear of a refused peer again.
    next_refusal: Timestamp,
    stopping: bool,
    erasures: Vec<commands::Erasure>,
}

impl Worker {
    #[inline]
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.clock.now_ns())
    }

    /// Reads once what `event` says is there, and forwards it in bursts.
    fn receive(&mut self, now: Timestamp, event: &PollEvent) {
        let mut sink = IngressSink {
            burst: &mut self.burst,
            ingress: &mut self.ingress,
            pool: &self.pool,
            others: self.crew.as_mut().map(|crew| crew.receiving()),
            timer: timing::measuring(&mut self.timer),
            late: Some((now, &mut self.overload)),
        };
        let mut progress = self.faces.handle_event(now, event, &self.pool, &mut sink);
        loop {
            match progress {
                Progress::Done => {
                    if let Some(channel) = self.faces.drained_channel() {
                        self.overload.socket_is_empty(channel);
                    }
                    return self.take_frames(now);
                }
                Progress::SinkFull => {
                    let kind = self.last_kind();
                    self.forward(now);
                    self.make_room(kind.unwrap_or(PacketKind::Interest));
                }
                Progress::NewPeer { channel, local, peer } => {
                    self.add_peer(now, channel, local, peer);
                }
                Progress::NewStation { port, peer } => self.add_station(now, port, peer),
                Progress::UnknownGroup { port } => self.hear_group(port),
                Progress::NoBlock => {
                    // Releasing the burst may free a block; the event comes again.
                    self.forward(now);
                    self.counters.no_block.increment();
                    self.state.starved = true;
                    return self.take_frames(now);
                }
            }
            let mut sink = IngressSink {
                burst: &mut self.burst,
                ingress: &mut self.ingress,
                pool: &self.pool,
                others: self.crew.as_mut().map(|crew| crew.receiving()),
                timer: timing::measuring(&mut self.timer),
                late: Some((now, &mut self.overload)),
            };
            progress = self.faces.resume(now, &self.pool, &mut sink);
        }
    }

    /// Takes the burst through the shard.
    fn forward(&mut self, now: Timestamp) {
        if self.burst.is_empty() {
            return;
        }
        let count = self.burst.len();
        self.overload.mark_data(&mut self.burst);
        if self.timer.is_some() {
            return self.forward_traced(now);
        }
        if let Some(crew) = &mut self.crew {
            crew.dispatch(&mut self.burst, &self.pool);
        }
        let mut sink = RoutedSink {
            faces: self.faces.sink(now, &self.pool),
            outbound: self.crew.as_mut().map(|crew| &mut crew.exchange.outbound),
            pool: &self.pool,
        };
        self.shard.process_burst(now, &mut self.burst, &self.pool, &mut sink);
        // The sink has copied or retained what it needs.
        self.burst.release(&self.pool);
        self.shard.end_burst();
        self.faces.publish_rings(now, &self.pool);
        self.count_forwarded(now, count);
    }

    /// Counts a burst of the worker's own, and sends what comes of it to others.
    fn count_forwarded(&mut self, now: Timestamp, count: usize) {
        self.counters.count_burst(count);
        if self.crew.is_some() {
            self.send_crossings(now);
        }
        self.count_unflushed(now, count);
    }

    /// Counts packets, and writes what was sent if it is much.
    fn count_unflushed(&mut self, now: Timestamp, count: usize) {
        self.state.packets += count;
        self.state.unflushed += count;
        if self.state.unflushed >= PACKETS_PER_FLUSH {
            self.flush(now);
        }
    }

    /// Wakes the other workers that sleep, if they were sent much or some time ago.
    fn wake_others_if_due(&mut self) {
        let Self { crew, clock, .. } = self;
        if let Some(crew) = crew {
            crew.exchange.outbound.wake_if_due(|| Timestamp::from_nanos(clock.now_ns()));
        }
    }

    /// Wakes the other workers that sleep and were sent something.
    fn wake_others(&mut self) {
        if let Some(crew) = &mut self.crew {
            crew.exchange.outbound.wake();
        }
    }

    /// Writes what was sent. Others are woken before, if it is worth it.
    fn flush(&mut self, now: Timestamp) {
        self.state.unflushed = 0;
        self.wake_others_if_due();
        self.faces.flush(now, &self.pool);
    }

    /// Makes a face for a peer that has spoken first.
    #[cold]
    fn add_peer(
        &mut self,
        now: Timestamp,
        channel: ChannelId,
        local: SocketAddr,
        peer: SocketAddr,
    ) {
        let (party, foreign) = (Party::Peer(local, peer), Foreign::Peer(channel, peer));
        if let Some((index, _)) = self.face_of(party) {
            return self.adopt_foreign(foreign, index);
        }
        let has_room = self.numbers.has_room_for_strangers() && self.strangers.has_room(peer.ip());
        let face_id = self.next_face_id.fetch_add(1, Ordering::Relaxed);
        let Some(index) = has_room.then(|| self.numbers.allocate(face_id)).flatten() else {
            self.counters.refused_peers.increment();
            if now >= self.state.next_refusal {
                self.state.next_refusal = now.plus(REFUSAL_PAUSE);
                self.events.send(Event::PeerRefused { peer });
            }
            return;
        };
        if let Err((other, _)) = self.claim(party, index, face_id) {
            self.numbers.release(index);
            return self.adopt_foreign(foreign, other);
        }
        let options = self.on_demand.face_options(face_id);
        match self.faces.add_datagram(now, index, channel, peer, &options) {
            Ok(counters) => {
                self.strangers.add(index, peer.ip());
                self.announce_face(index, &options.properties);
                let face = FaceCreated {
                    index,
                    options,
                    remote: FaceUri::udp(peer),
                    local: FaceUri::udp(local),
                    counters,
                };
                self.events.send(Event::FaceAdded { ticket: None, face: Box::new(face) });
            }
            Err(_) => {
                self.release_number(index);
                self.counters.refused_peers.increment();
            }
        }
    }

    /// Passes on what faces did by themselves.
    fn report_faces(&mut self) {
        while let Some(event) = self.faces.poll_event() {
            let Some(face_id) = self.numbers.face_id(event.face) else { continue };
            let event = match event.change {
                FaceChange::Closed(reason) => {
                    self.forget_face(event.face);
                    Event::FaceClosed { face_id, reason: Some(reason) }
                }
                FaceChange::Down(reason) => Event::FaceDown { face_id, reason },
                FaceChange::Up => Event::FaceUp { face_id },
            };
            self.events.send(event);
        }
    }

    /// Passes on what self-learning asks for, unless the control thread is behind anyway.
    fn report_learning(&mut self) {
        while !self.events.is_backed_up()
            && let Some(request) = self.shard.poll_learning()
        {
            self.events.send(Event::Learning(request));
        }
    }

    fn forget_face(&mut self, index: FaceIndex) {
        self.shard.remove_face(index);
        self.release_number(index);
        if let Some(crew) = &mut self.crew {
            crew.exchange.tell(Notice::FaceGone(index));
        }
    }

    fn release_number(&mut self, index: FaceIndex) {
        self.numbers.release(index);
        self.strangers.remove(&index);
        if let Some(crew) = &self.crew {
            crew.registry.release(index);
        }
    }

    /// Sends what waits, as far as the kernel takes it, and gives the buffers back.
    pub(crate) fn finish(mut self) {
        let now = self.now();
        self.flush(now);
        self.burst.release(&self.pool);
        self.faces.release_blocks(&self.pool);
        self.shard.release_blocks(&self.pool);
        if let Some(crew) = &mut self.crew {
            crew.crossed.release(&self.pool);
            crew.exchange.release(&self.pool);
        }
        self.wake_others();
        self.events.wake();
    }
}

impl OnDemandOptions {
    /// Options of a face for a UDP peer that has spoken first.
    fn face_options(&self, face_id: u64) -> FaceOptions {
        let properties = FaceProperties {
            pit_tokens: self.pit_tokens,
            pending_quota: true,
            ..FaceProperties::point_to_point(face_id, Scope::NonLocal)
        };
        FaceOptions {
            link: self.link,
            idle_timeout: Some(self.idle_timeout),
            ..FaceOptions::datagram(properties, Persistency::OnDemand, self.mtu)
        }
    }
}
