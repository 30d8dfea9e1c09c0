//! One of several workers: what it does with packets of others.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use ndn_face::{ChannelId, PortId};
use ndn_forwarding::{
    BURST_SIZE, Burst, Content, Dispatcher, FaceProperties, PacketKind, TxSink as _,
};
use ndn_ring::PacketPool;
use ndn_table::{FaceIndex, Timestamp};

use super::{IngressSink, Overload, PACKETS_PER_FLUSH, Worker, timing};
use crate::exchange::{Exchange, Frame, KINDS, Message, Notice, Outbound, RoutedSink};
use crate::overload::{InterestQueue, OverloadOptions, Verdict};
use crate::peers::{Party, PeerRegistry};

/// Messages to take from each of so many workers at a time: of answers all that wait, since they
/// have cost work. Of Interests, from all together what a worker reads before it looks again.
fn taken_max(kind: PacketKind, workers: usize) -> usize {
    match kind {
        PacketKind::Data | PacketKind::Nack => usize::MAX,
        PacketKind::Interest => (PACKETS_PER_FLUSH / (workers - 1).max(1)).max(BURST_SIZE),
    }
}

/// Where something has come for a face of another worker.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Foreign {
    /// To a socket, from a peer.
    Peer(ChannelId, SocketAddr),
    /// By a network device, from a station or to the group.
    Station(PortId, Option<[u8; 6]>),
}

/// What a worker has besides, if there are others.
#[derive(Debug)]
pub(crate) struct Crew {
    pub(crate) exchange: Exchange,
    pub(crate) dispatcher: Dispatcher,
    /// Packets that others have received.
    pub(crate) crossed: Burst,
    pub(crate) registry: Arc<PeerRegistry>,
    /// Those whose faces others have, and that have sent to a socket or queue of this worker.
    pub(crate) foreign: HashMap<FaceIndex, Foreign>,
    /// Frames for faces of this worker that have come while another face was being read.
    pub(super) frames: Vec<Frame>,
    /// Those that wait from each worker.
    interests: Box<[InterestQueue]>,
    /// Messages that are no packets, on their way out of a ring.
    others: Vec<Message>,
}

impl Crew {
    pub(crate) fn new(
        exchange: Exchange,
        dispatcher: Dispatcher,
        registry: Arc<PeerRegistry>,
        overload: &OverloadOptions,
    ) -> Self {
        let (crossed, foreign) = (Burst::new(), HashMap::new());
        let interests = vec![InterestQueue::new(overload); exchange.worker_count()].into();
        let (frames, others) = (Vec::new(), Vec::new());
        Self { exchange, dispatcher, crossed, registry, foreign, frames, interests, others }
    }

    /// What it takes to receive a packet that may be for another worker.
    #[inline]
    pub(super) fn receiving(&mut self) -> (&mut Outbound, &Dispatcher) {
        (&mut self.exchange.outbound, &self.dispatcher)
    }

    /// Sends away what belongs to other shards. What stays keeps its place.
    #[inline]
    pub(super) fn dispatch(&mut self, burst: &mut Burst, pool: &PacketPool) {
        for index in 0..burst.len() {
            self.dispatch_one(burst, index, pool);
        }
    }

    /// Sends packet `index` away if it belongs to another shard.
    #[inline]
    pub(super) fn dispatch_one(&mut self, burst: &mut Burst, index: usize, pool: &PacketPool) {
        let to = usize::from(self.dispatcher.dispatch(burst, index, pool));
        if to != self.exchange.own() {
            self.exchange.outbound.send_packet(to, burst, index, pool);
        }
    }
}

/// What becomes of an Interest that has waited in too long a queue; true if that was all. One that
/// another shard has forwarded already is marked at most.
#[cold]
fn late(
    message: &mut Message,
    verdict: Verdict,
    overload: &mut Overload,
    pool: &PacketPool,
) -> bool {
    let carried_out = message.carry_out(verdict);
    overload.note(carried_out);
    let is_dropped = carried_out == Verdict::Drop;
    if is_dropped {
        std::mem::replace(message, Message::Taken).release(pool);
    }
    is_dropped
}

impl Worker {
    /// Takes what waits from other workers, all answers, and some Interests from each, as far as
    /// there is room for what comes of them. Says whether there may be more.
    pub(super) fn take_from_others(&mut self, now: Timestamp) -> bool {
        let Some(crew) = &self.crew else { return false };
        let workers = crew.exchange.worker_count();
        self.handle_notices();
        let mut has_more = false;
        for kind in KINDS {
            let mut queued = 0;
            for from in 0..workers {
                let Some(crew) = &self.crew else { return false };
                let waiting = crew.exchange.waiting(from, kind);
                if waiting == 0 {
                    self.note_empty(from, kind);
                    continue;
                }
                let is_full = crew.exchange.is_nearly_full(kind, waiting);
                let count =
                    waiting.min(taken_max(kind, workers)).min(self.taken_room(now, kind, waiting));
                queued += waiting as u64;
                // What a worker says of its faces, it says before it sends what came from them.
                self.handle_notices();
                has_more |= waiting > count;
                self.take_waiting(now, from, kind, count, is_full);
            }
            if let Some(crew) = &self.crew {
                crew.exchange.counters().queue(kind).note(queued);
            }
            self.forward_crossed(now);
        }
        has_more
    }

    /// No Interest of that worker waits.
    fn note_empty(&mut self, from: usize, kind: PacketKind) {
        if kind == PacketKind::Interest
            && let Some(crew) = &mut self.crew
        {
            crew.interests[from].note_empty();
        }
    }

    /// Takes so many messages of those that wait in a ring, which is nearly full or not.
    fn take_waiting(
        &mut self,
        now: Timestamp,
        from: usize,
        kind: PacketKind,
        count: usize,
        is_full: bool,
    ) {
        let mut left = count;
        while left > 0 {
            let Self { crew: Some(crew), faces, pool, hasher, overload, .. } = self else { return };
            let Crew { exchange, crossed, interests, others, .. } = &mut **crew;
            let mut sink = faces.sink(now, pool);
            let mut sent = 0;
            let room = BURST_SIZE - crossed.len();
            let taken = exchange.take_each(from, kind, left.min(room), pool, |message, since| {
                if kind == PacketKind::Interest {
                    let verdict = interests[from].leaves(now, since, is_full);
                    if verdict != Verdict::Pass && late(message, verdict, overload, pool) {
                        return;
                    }
                }
                match message {
                    Message::Content(Content::Packet(parcel)) => {
                        let is_pushed = crossed.push_parcel(parcel, pool, hasher);
                        assert!(is_pushed, "no more were asked for than fit");
                    }
                    Message::Outgoing(outgoing) => {
                        sink.send(outgoing.face, outgoing.packet(pool));
                        outgoing.handle.take().into_iter().for_each(|handle| pool.release(handle));
                        sent += 1;
                    }
                    Message::Content(_) | Message::Frame(_) | Message::Taken => {
                        others.push(std::mem::replace(message, Message::Taken));
                    }
                }
            });
            let is_burst_full = crossed.is_full();
            left = if taken == 0 && room > 0 { 0 } else { left - taken };
            self.count_unflushed(now, sent);
            self.take_others(now);
            if is_burst_full {
                self.forward_crossed(now);
            }
        }
    }

    /// Takes what there is besides packets.
    fn take_others(&mut self, now: Timestamp) {
        let Some(crew) = &mut self.crew else { return };
        if crew.others.is_empty() {
            return;
        }
        let mut others = std::mem::take(&mut crew.others);
        for message in others.drain(..) {
            match message {
                Message::Content(content) => self.process_crossing(now, content),
                Message::Frame(frame) => match &mut self.crew {
                    Some(crew) if self.faces.is_suspended() => crew.frames.push(frame),
                    Some(_) | None => self.take_frame(now, frame),
                },
                Message::Outgoing(_) | Message::Taken => message.release(&self.pool),
            }
        }
        if let Some(crew) = &mut self.crew {
            // Its memory, to be used again.
            others.append(&mut crew.others);
            crew.others = others;
        }
        // Before more is taken: what comes of that has to find the room that there still is.
        self.send_crossings(now);
    }

    /// Takes a frame that another worker has received for a face of this one.
    pub(super) fn take_frame(&mut self, now: Timestamp, frame: Frame) {
        let Frame { face, sender, handle, .. } = frame;
        if self.burst.is_full() {
            self.forward(now);
        }
        let mut sink = IngressSink {
            burst: &mut self.burst,
            ingress: &mut self.ingress,
            pool: &self.pool,
            others: None,
            timer: timing::measuring(&mut self.timer),
            late: None,
        };
        let frame = self.pool.bytes(&handle);
        self.faces.receive_frame(now, face, sender, frame, &self.pool, &mut sink);
        self.pool.release(handle);
    }

    /// Takes the packets of others through the shard.
    fn forward_crossed(&mut self, now: Timestamp) {
        let Some(crew) = &mut self.crew else { return };
        let count = crew.crossed.len();
        if count == 0 {
            return;
        }
        let faces = self.faces.sink(now, &self.pool);
        let outbound = Some(&mut crew.exchange.outbound);
        let mut sink = RoutedSink { faces, outbound, pool: &self.pool };
        let (shard, burst) = (&mut self.shard, &mut crew.crossed);
        self.overload.mark_data(burst);
        match self.timer.as_deref_mut().and_then(|timer| timer.choose(now).then_some(timer)) {
            None => {
                shard.process_burst(now, burst, &self.pool, &mut sink);
                burst.release(&self.pool);
                shard.end_burst();
            }
            Some(timer) => timing::forward(timer, now, shard, burst, &self.pool, &mut sink),
        }
        self.send_crossings(now);
        self.counters.count_burst(count);
        self.count_unflushed(now, count);
    }

    fn process_crossing(&mut self, now: Timestamp, content: Content) {
        let faces = self.faces.sink(now, &self.pool);
        let outbound = self.crew.as_mut().map(|crew| &mut crew.exchange.outbound);
        let mut sink = RoutedSink { faces, outbound, pool: &self.pool };
        self.shard.process_crossing(now, content, &self.pool, &mut sink);
        self.shard.end_burst();
        self.count_unflushed(now, 1);
    }

    /// Sends what the shard has to say to others. Those who sleep are woken later, see [`Self::flush`].
    pub(super) fn send_crossings(&mut self, now: Timestamp) {
        let mut to_itself = Vec::new();
        if let Some(crew) = &mut self.crew {
            let own = crew.exchange.own();
            for crossing in self.shard.take_crossings() {
                let to = usize::from(crossing.to);
                if to == own {
                    // Does not allocate until it happens: a name has moved back meanwhile.
                    to_itself.push(crossing.content);
                } else {
                    let message = Message::Content(crossing.content);
                    crew.exchange.outbound.send(to, message, &self.pool);
                }
            }
            crew.exchange.outbound.publish();
        }
        for content in to_itself {
            self.process_crossing(now, content);
            // Whatever comes of it is for others.
            self.send_crossings(now);
        }
    }

    /// Hears of the faces of others.
    pub(super) fn handle_notices(&mut self) {
        while let Some(notice) = self.crew.as_mut().and_then(|crew| crew.exchange.next_notice()) {
            match notice {
                Notice::Face(index, properties) => self.shard.set_face(index, &properties),
                Notice::FaceGone(index) => {
                    self.shard.remove_face(index);
                    if let Some(crew) = &mut self.crew
                        && let Some(foreign) = crew.foreign.remove(&index)
                    {
                        match foreign {
                            Foreign::Peer(channel, peer) => {
                                self.faces.remove_remote_peer(channel, peer, index);
                            }
                            Foreign::Station(port, mac) => {
                                self.faces.remove_remote_station(port, mac, index);
                            }
                        }
                    }
                }
            }
        }
    }

    /// Makes a face, or its new properties, known to all shards.
    pub(super) fn announce_face(&mut self, index: FaceIndex, properties: &FaceProperties) {
        self.shard.set_face(index, properties);
        if let Some(crew) = &mut self.crew {
            crew.exchange.tell(Notice::Face(index, *properties));
        }
    }

    /// The face that somebody has on any of the workers, with its FaceId.
    pub(super) fn face_of(&self, party: Party) -> Option<(FaceIndex, u64)> {
        self.crew.as_ref()?.registry.find(party)
    }

    /// Enters a new face; the one that there is by now on another worker, if there is one.
    pub(super) fn claim(
        &self,
        party: Party,
        face: FaceIndex,
        face_id: u64,
    ) -> Result<(), (FaceIndex, u64)> {
        match &self.crew {
            Some(crew) => crew.registry.claim(party, face, face_id),
            None => Ok(()),
        }
    }

    /// Passes on what comes from, or to, others' parties to the worker that has the face.
    pub(super) fn adopt_foreign(&mut self, foreign: Foreign, face: FaceIndex) {
        let is_new = match foreign {
            Foreign::Peer(channel, peer) => self.faces.add_remote_peer(channel, peer, face),
            Foreign::Station(port, mac) => self.faces.add_remote_station(port, mac, face),
        };
        if is_new && let Some(crew) = &mut self.crew {
            crew.foreign.insert(face, foreign);
        }
    }
}
