//! One of several workers: its end of the exchange with the others, and the room in their rings.
//!
//! A worker does not read principals that [fill](super::crowding) the rings of the others while these have little room. A
//! worker that has read packets already waits while the others take something, and meanwhile takes what they have sent, so
//! that two workers that wait for each other both proceed. All is read again after [`TIMEOUT`]: a worker that takes nothing
//! does not stop the others.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ndn_face::PeerKey;
use ndn_forwarding::{BURST_SIZE, Burst, Dispatcher, PacketKind, Shard};
use ndn_ring::PacketPool;
use ndn_table::FaceIndex;
use ndn_types::Timestamp;

use super::crowding::{Crowding, RingUser, RoomWait};
use super::overload::Overload;
use crate::exchange::{Exchange, KINDS, Message, Outbound, RemoteFrame};
use crate::overload::{InterestQueue, OverloadOptions, QueueVerdict};
use crate::peers::PeerRegistry;

/// Time for which a worker does not read principals that fill the rings of others, before it goes on and drops packets.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(1);
/// Sleep between two checks for room.
pub(super) const ROOM_PAUSE: Duration = Duration::from_micros(100);
/// Interests taken from all other workers in one round.
const INTERESTS_TAKEN_MAX: usize = 512;
/// Frames set aside while a face is being read, from which on the worker takes no more messages. One call may exceed it by what the
/// rings hold.
const FRAMES_MAX: usize = 1024;

/// The kinds of packets that answer Interests.
const ANSWERS: [PacketKind; 2] = [PacketKind::Data, PacketKind::Nack];

/// The kinds of packets that forwarding a packet of this kind may send: Data and Nacks send no Interests.
fn caused_by(kind: PacketKind) -> &'static [PacketKind] {
    match kind {
        PacketKind::Data | PacketKind::Nack => &ANSWERS,
        PacketKind::Interest => &KINDS,
    }
}

/// Maximum number of messages to take from one worker at a time: no limit for Data and Nacks, for which
/// work was done already.
fn taken_max(kind: PacketKind, workers: usize) -> usize {
    match kind {
        PacketKind::Data | PacketKind::Nack => usize::MAX,
        PacketKind::Interest => (INTERESTS_TAKEN_MAX / (workers - 1).max(1)).max(BURST_SIZE),
    }
}

/// The state of a worker that exists only if there are others.
#[derive(Debug)]
pub(crate) struct InterWorker {
    pub(crate) exchange: Exchange,
    pub(crate) dispatcher: Dispatcher,
    /// Packets that others have received, for this shard.
    pub(super) crossed: Burst,
    registry: Arc<PeerRegistry>,
    /// Faces of other workers whose peers have sent to a socket or queue of this worker.
    remote_faces: HashMap<FaceIndex, PeerKey>,
    /// Frames for faces of this worker that arrived while another face was being read.
    frames: Vec<RemoteFrame>,
    /// The queue management of the Interests of each worker.
    interests: Box<[InterestQueue]>,
    /// Messages other than packets, on their way out of a ring.
    others: Vec<Message>,
    /// Since when others have had little room.
    crowded_since: Option<Timestamp>,
    crowding: Crowding,
}

impl InterWorker {
    pub(crate) fn new(
        exchange: Exchange,
        dispatcher: Dispatcher,
        registry: Arc<PeerRegistry>,
        overload: &OverloadOptions,
    ) -> Self {
        let interests = vec![InterestQueue::new(overload); exchange.worker_count()].into();
        // The eighth of a ring that is kept for parts.
        let crowding = Crowding::new(exchange.length(PacketKind::Interest) / 8);
        Self {
            exchange,
            dispatcher,
            crossed: Burst::new(),
            registry,
            remote_faces: HashMap::new(),
            frames: Vec::new(),
            interests,
            others: Vec::new(),
            crowded_since: None,
            crowding,
        }
    }

    /// The part that reception needs.
    #[inline]
    pub(super) fn receiving(&mut self) -> (&mut Outbound, &Dispatcher) {
        (&mut self.exchange.outbound, &self.dispatcher)
    }

    /// The part that forwarding needs, and the burst of crossed packets.
    #[inline]
    pub(super) fn forwarding(&mut self) -> (Dispatch<'_>, &mut Burst) {
        let Self { exchange, dispatcher, crossed, .. } = self;
        (Dispatch { dispatcher, outbound: &mut exchange.outbound }, crossed)
    }

    /// Number of `waiting` messages of a ring to take now, so that there is room for the messages that result.
    pub(super) fn take_limit(&self, now: Timestamp, kind: PacketKind, waiting: usize) -> TakeLimit {
        let max = taken_max(kind, self.exchange.worker_count());
        let count = waiting.min(max).min(self.room_for(now, kind, waiting));
        TakeLimit { count, is_full: self.exchange.is_nearly_full(kind, waiting) }
    }

    /// Notes that no Interest of that worker waits.
    pub(super) fn note_empty(&mut self, from: usize, kind: PacketKind) {
        if kind == PacketKind::Interest {
            self.interests[from].note_empty();
        }
    }

    /// Takes up to `count` messages from a ring, and no more than the burst of crossed packets has room for: each may be
    /// a packet for it, and would be lost otherwise. Packets for the shard go into the burst of crossed packets,
    /// packets for faces to `send`, other messages wait for [`swap_others`](Self::swap_others). Returns the number
    /// taken.
    #[inline(always)]
    pub(super) fn take(
        &mut self,
        now: Timestamp,
        (from, kind): (usize, PacketKind),
        TakeLimit { count, is_full }: TakeLimit,
        cx: &mut TakeContext<'_>,
        mut take: impl FnMut(&mut Message, &mut Burst) -> bool,
    ) -> usize {
        let Self { exchange, crossed, interests, others, .. } = self;
        let room = BURST_SIZE - crossed.len();
        exchange.take_each(from, kind, count.min(room), |message, since| {
            if kind == PacketKind::Interest {
                let account = || message.received_on().map(|face| cx.shard.account(face));
                let verdict = interests[from].dequeue(now, since, is_full, account);
                if verdict != QueueVerdict::Pass
                    && apply_verdict(message, verdict, cx.overload, cx.pool)
                {
                    return;
                }
            }
            if !take(message, crossed) {
                others.push(std::mem::replace(message, Message::Taken));
            }
        })
    }

    /// Messages other than packets that were taken; `emptied` is the memory of those of the last call.
    pub(super) fn swap_others(&mut self, emptied: Vec<Message>) -> Vec<Message> {
        std::mem::replace(&mut self.others, emptied)
    }

    /// Whether messages other than packets were taken.
    pub(super) fn has_others(&self) -> bool {
        !self.others.is_empty()
    }

    /// Keeps a frame until no face is being read.
    pub(super) fn defer_frame(&mut self, frame: RemoteFrame) {
        self.frames.push(frame);
    }

    /// The deferred frames; `emptied` is the memory of those of the last call.
    pub(super) fn swap_frames(&mut self, emptied: Vec<RemoteFrame>) -> Vec<RemoteFrame> {
        std::mem::replace(&mut self.frames, emptied)
    }

    /// Whether too many frames were deferred to take more messages.
    pub(super) fn has_many_frames(&self) -> bool {
        self.frames.len() >= FRAMES_MAX
    }

    /// Whether frames were deferred.
    pub(super) fn has_frames(&self) -> bool {
        !self.frames.is_empty()
    }

    /// Checks at the beginning of a round whether others have room.
    pub(super) fn note_room(&mut self, now: Timestamp) {
        if self.exchange.is_crowded(&KINDS) {
            self.crowded_since.get_or_insert(now);
            self.crowding.begin(now);
        } else {
            self.crowded_since = None;
            self.crowding.end(now);
        }
    }

    /// Whether rings have little room for what packets of this kind may cause.
    #[inline]
    pub(super) fn is_crowded(&mut self, now: Timestamp, kind: PacketKind) -> bool {
        let is_crowded = self.exchange.is_crowded(caused_by(kind));
        if is_crowded {
            self.crowding.begin(now);
            self.crowded_since.get_or_insert(now);
        }
        is_crowded
    }

    /// Messages that a user may still send into rings that have little room.
    pub(super) fn part_left(&self, user: RingUser) -> usize {
        self.crowding.part_left(user)
    }

    /// Whether users that have sent their parts wait: not if others have taken too little for long.
    pub(super) fn holds_back(&self, now: Timestamp) -> bool {
        self.crowded_for(now) < TIMEOUT
    }

    /// Begins a read of a user while rings have little room.
    pub(super) fn begin_read(&mut self, user: RingUser) {
        self.exchange.outbound.grant(self.crowding.part_left(user));
    }

    /// Ends it, and notes the messages for which there was no other room.
    pub(super) fn end_read(&mut self, user: RingUser) {
        let left = self.exchange.outbound.revoke();
        self.crowding.note(user, self.crowding.part_left(user) - left);
    }

    /// Whether to wait longer for room. Returns false once the waits in which others take nothing exceed their limit.
    pub(super) fn should_wait_for_room(&mut self, now: Timestamp, wait: &RoomWait) -> bool {
        self.crowding.begin(now);
        let is_stuck = now.since(*self.crowded_since.get_or_insert(now)) >= TIMEOUT;
        !is_stuck && self.crowding.may_wait(now, wait)
    }

    /// Room that others lack for what a burst of packets of this kind may cause.
    #[inline]
    pub(super) fn missing_room(&self, kind: PacketKind) -> usize {
        let missing = caused_by(kind).iter().map(|&kind| self.exchange.outbound.missing_room(kind));
        missing.max().unwrap_or_default()
    }

    /// Ends a wait after which there is room.
    pub(super) fn end_wait(&mut self) {
        self.crowded_since = None;
    }

    /// Time for which others have had little room.
    pub(super) fn crowded_for(&self, now: Timestamp) -> Duration {
        self.crowded_since.map_or(Duration::ZERO, |since| now.since(since))
    }

    /// Number of `waiting` messages of a kind that may be taken, so that there is room for the messages that result.
    fn room_for(&self, now: Timestamp, kind: PacketKind, waiting: usize) -> usize {
        let outbound = &self.exchange.outbound;
        let rooms = caused_by(kind).iter().map(|&kind| outbound.least_room(kind, waiting));
        let room = rooms.min().unwrap_or(usize::MAX);
        if self.crowded_for(now) < TIMEOUT { room } else { room.max(BURST_SIZE) }
    }

    /// The registry of the faces of peers.
    pub(super) fn registry(&self) -> &PeerRegistry {
        &self.registry
    }

    /// Remembers how packets reach a face of another worker by this one.
    pub(super) fn add_remote_face(&mut self, face: FaceIndex, peer: PeerKey) {
        self.remote_faces.insert(face, peer);
    }

    /// Forgets a face of another worker.
    pub(super) fn remove_remote_face(&mut self, face: FaceIndex) -> Option<PeerKey> {
        self.remote_faces.remove(&face)
    }

    /// Returns the block that is kept for copies of packets.
    pub(super) fn release_copies(&mut self, pool: &PacketPool) {
        self.exchange.release_copies(pool);
    }

    /// Returns all buffers, at the end of the worker.
    pub(super) fn release(&mut self, pool: &PacketPool) {
        self.crossed.release(pool);
        self.exchange.release(pool);
    }
}

/// Sends received packets to the shards that they belong to.
pub(super) struct Dispatch<'a> {
    pub(super) dispatcher: &'a mut Dispatcher,
    pub(super) outbound: &'a mut Outbound,
}

impl Dispatch<'_> {
    /// Sends the packets away that belong to other shards; the others keep their places.
    #[inline]
    pub(super) fn packets(&mut self, burst: &mut Burst, pool: &PacketPool) {
        let Self { dispatcher, outbound } = self;
        dispatcher.dispatch_all(burst, pool, |burst, index, to| {
            outbound.send_packet(usize::from(to), burst, index, pool);
        });
    }

    /// Sends packet `index` away if it belongs to another shard; else it keeps its place.
    #[inline]
    pub(super) fn packet(&mut self, burst: &mut Burst, index: usize, pool: &PacketPool) {
        let to = usize::from(self.dispatcher.dispatch(burst, index, pool));
        if to != self.outbound.own() {
            self.outbound.send_packet(to, burst, index, pool);
        }
    }
}

/// Messages in a ring.
#[derive(Debug, Clone, Copy)]
pub(super) struct TakeLimit {
    /// Number to take.
    pub(super) count: usize,
    /// The ring has hardly any room.
    pub(super) is_full: bool,
}

/// The parts of the worker that [`InterWorker::take`] needs.
pub(super) struct TakeContext<'a> {
    pub(super) pool: &'a PacketPool,
    pub(super) shard: &'a Shard,
    pub(super) overload: &'a mut Overload,
}

/// Applies the queue-management verdict to an Interest in a message. Returns true if the Interest was
/// dropped. An Interest that another shard has forwarded already is marked at most.
#[cold]
fn apply_verdict(
    message: &mut Message,
    verdict: QueueVerdict,
    overload: &mut Overload,
    pool: &PacketPool,
) -> bool {
    let applied = message.apply(verdict);
    overload.count(applied);
    let is_dropped = applied == QueueVerdict::Drop;
    if is_dropped {
        std::mem::replace(message, Message::Taken).release(pool);
    }
    is_dropped
}
