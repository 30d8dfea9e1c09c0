//! The interface that each kind of transport implements, and the state that all kinds share.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use ndn_forwarding::TxPacket;
use ndn_ring::{CopyBlock, FillBlock, PacketPool};
use ndn_sys::poll::{Event, Events, Poller};
use ndn_table::FaceIndex;
use ndn_types::{FaceUri, PrincipalKey, Timestamp};

use crate::counters::{CallCounters, LinkDropReason};
use crate::event::{CloseReason, FaceChange, FaceEvent};
use crate::face::{Face, FaceEntry, HasState, TrafficDirection, TransportFaces};
use crate::link::{LinkService, Received};
use crate::memory::FaceMemory;
use crate::output::{FrameSink, Shed};
use crate::receive::{Progress, ReadReport, ReceivedFrame, RxSink};
use crate::reconnect::ReconnectWaits;
use crate::source::{PortId, Sender, Source};
use crate::tap::{Direction, FrameTap, TapPoint};

/// A kind of transport: the state that all its faces share, and its operations for one of them.
///
/// The registry (`registry.rs`) has one object of each kind, and calls the object of the kind of a face. The
/// [`FaceSet`](crate::FaceSet) closes a face (or reports it as down) if an operation returns a [`CloseReason`].
///
/// A kind whose faces have descriptors of their own implements [`handle_event`](Self::handle_event). A kind whose faces
/// share a descriptor (a UDP socket, a network device) implements
/// [`handle_shared_event`](Self::handle_shared_event), and adds the descriptor to the poller with the token of
/// [`Source::Shared`]. Both must [`flush`](Self::flush) or [`flush_shared`](Self::flush_shared).
pub(crate) trait Transport {
    /// State that the kind keeps for each face.
    type State;
    /// The means from which a face is made: a descriptor, or the address of a peer on a shared one.
    type New;
    /// A peer on a shared descriptor, in the same words for all workers; [`NoPeer`] without one.
    type Peer: Copy;

    /// Number of the kind in poll tokens. No two kinds have the same.
    const KIND: u8;

    /// Makes the state of a face. The caller has checked that the slot of `index` is free and that the peer has no face
    /// of this worker.
    fn open(
        &mut self,
        shared: &mut Shared,
        now: Timestamp,
        index: FaceIndex,
        new: Self::New,
    ) -> io::Result<Self::State>;

    /// Decides which shared descriptor a new face uses; returns its peer there.
    fn resolve(&self, new: Self::New) -> io::Result<(Self::New, Option<Self::Peer>)> {
        Ok((new, None))
    }

    /// The worker that a new face belongs to.
    fn placement(_new: &Self::New) -> FacePlacement {
        FacePlacement::Balanced
    }

    /// Notifies the peer that there will be no face.
    fn reject(_new: &Self::New, _reason: &str) {}

    /// Handles an event of a descriptor of the face.
    fn handle_event(
        &mut self,
        _cx: &mut TransportContext<'_>,
        _face: &mut Face,
        _state: &mut Self::State,
        _event: &Event,
        _sink: &mut impl RxSink,
    ) -> Result<Progress<Self::Peer>, CloseReason> {
        Ok(Progress::Done)
    }

    /// Continues to take the frames that [`handle_event`](Self::handle_event) has read.
    fn resume(
        &mut self,
        _cx: &mut TransportContext<'_>,
        _face: &mut Face,
        _state: &mut Self::State,
        _sink: &mut impl RxSink,
    ) -> Result<Progress<Self::Peer>, CloseReason> {
        Ok(Progress::Done)
    }

    /// Handles an event of the shared descriptor `number`.
    fn handle_shared_event<T>(
        &mut self,
        _cx: &mut TransportContext<'_>,
        _faces: &mut TransportFaces<T>,
        _number: u32,
        _event: &Event,
        _sink: &mut impl RxSink,
    ) -> Progress<Self::Peer> {
        Progress::Done
    }

    /// Continues to take the frames that [`handle_shared_event`](Self::handle_shared_event) has read.
    fn resume_shared<T>(
        &mut self,
        _cx: &mut TransportContext<'_>,
        _faces: &mut TransportFaces<T>,
        _number: u32,
        _sink: &mut impl RxSink,
    ) -> Progress<Self::Peer> {
        Progress::Done
    }

    /// The direction of the traffic of the shared descriptor `number`.
    fn shared_direction_mut(&mut self, _number: u32) -> Option<&mut TrafficDirection> {
        None
    }

    /// Queues frames, and lists the face or its socket for the next flush.
    fn send(
        &mut self,
        cx: &mut TransportContext<'_>,
        face: &mut Face,
        state: &mut Self::State,
        outgoing: SendRequest<'_, '_>,
    );

    /// A face of this kind that is listed for a flush.
    fn next_unflushed(&mut self) -> Option<FaceIndex> {
        None
    }

    /// Writes the frames that the face has queued.
    fn flush(
        &mut self,
        _cx: &mut TransportContext<'_>,
        _face: &mut Face,
        _state: &mut Self::State,
    ) -> Result<(), CloseReason> {
        Ok(())
    }

    /// Writes the frames queued at shared descriptors.
    fn flush_shared<T>(&mut self, _cx: &mut TransportContext<'_>, _faces: &mut TransportFaces<T>) {}

    /// When to call [`handle_timeout`](Self::handle_timeout). The face itself has other deadlines.
    fn next_deadline(_state: &Self::State) -> Option<Timestamp> {
        None
    }

    /// Does the work of the face that is due.
    fn handle_timeout(
        &mut self,
        _cx: &mut TransportContext<'_>,
        _face: &mut Face,
        _state: &mut Self::State,
    ) -> Result<(), CloseReason> {
        Ok(())
    }

    /// When to call [`handle_shared_timeouts`](Self::handle_shared_timeouts).
    fn next_shared_deadline(&self) -> Option<Timestamp> {
        None
    }

    /// Does the work of shared descriptors that is due.
    fn handle_shared_timeouts<T>(
        &mut self,
        _cx: &mut TransportContext<'_>,
        _faces: &mut TransportFaces<T>,
    ) {
    }

    /// Whether the face has lost its connection.
    fn is_down(_state: &Self::State) -> bool {
        false
    }

    /// The transport's own limit on frames, bytes.
    fn frame_length_max(_state: &Self::State) -> Option<usize> {
        None
    }

    /// Gives up the connection of a face. True if the face stays and will connect again.
    fn disconnect(
        &mut self,
        _cx: &mut TransportContext<'_>,
        _face: &Face,
        _state: &mut Self::State,
    ) -> bool {
        false
    }

    /// Drops frames that a face has queued because its peer does not read, until its principal holds at most `keeps`
    /// bytes.
    fn shed(
        &mut self,
        _shared: &mut Shared,
        _face: &mut Face,
        _state: &mut Self::State,
        _keeps: u32,
    ) -> Shed {
        Shed::default()
    }

    /// Releases the resources of a face that was taken out of the table.
    fn close(
        &mut self,
        shared: &mut Shared,
        pool: &PacketPool,
        face: &Face,
        state: &mut Self::State,
    );

    /// The face of a peer on a shared descriptor. It may be another worker's.
    fn face_of(&self, _peer: Self::Peer) -> Option<FaceIndex> {
        None
    }

    /// Enters a face of another worker for a peer. False if there is no such descriptor.
    fn add_remote_peer(&mut self, _peer: Self::Peer, _face: FaceIndex) -> bool {
        false
    }

    /// Undoes [`add_remote_peer`](Self::add_remote_peer), if `face` is still the face of the peer.
    fn remove_remote_peer(&mut self, _peer: Self::Peer, _face: FaceIndex) {}

    /// The on-demand face of a peer that has no face; `None` if such peers get none.
    fn on_demand(&self, _peer: Self::Peer) -> Option<(Self::New, OnDemandPeer)> {
        None
    }

    /// The local FaceUri of the face of a peer.
    fn local_uri(&self, _peer: Self::Peer) -> Option<FaceUri> {
        None
    }

    /// The network device whose on-demand faces are limited together, all workers included.
    fn device_of(_peer: Self::Peer) -> Option<PortId> {
        None
    }

    /// Gives a face on a shared descriptor a descriptor of its own to receive by.
    fn separate_input(
        &mut self,
        _shared: &mut Shared,
        _index: FaceIndex,
        _state: &mut Self::State,
    ) -> io::Result<()> {
        Ok(())
    }

    /// From now on, faces that bring frames raise no interrupts until [`stop_polling`](Self::stop_polling), if the kind
    /// can be polled.
    fn enable_polling(&mut self) {}

    /// Whether there are faces to poll.
    fn has_polled(&self) -> bool {
        false
    }

    /// Adds an event for each polled face that holds frames, as long as there is room.
    fn poll<T: HasState<Self::State>>(
        &mut self,
        _faces: &mut TransportFaces<T>,
        _events: &mut Events,
    ) {
    }

    /// Makes all peers raise interrupts again. True if there are frames already; polling continues then.
    fn stop_polling<T: HasState<Self::State>>(&mut self, _faces: &mut TransportFaces<T>) -> bool {
        false
    }

    /// Takes the next listed face whose peer polls: flushing it needs no system call.
    fn next_unflushed_polling<T: HasState<Self::State>>(
        &mut self,
        _faces: &mut TransportFaces<T>,
    ) -> Option<FaceIndex> {
        None
    }

    /// Returns the blocks that the kind holds, at the end of the worker.
    fn release_blocks(&mut self, _pool: &PacketPool) {}
}

/// The worker that a new face belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FacePlacement {
    /// The first one, which has the face of management.
    First,
    /// The first one with a queue of this network device.
    Device(PortId),
    /// Any one that has faces of its role.
    Balanced,
}

/// The peer type of a kind of transport without shared descriptors: there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NoPeer {}

/// An on-demand face that a peer would get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnDemandPeer {
    /// The principal that the face is charged to.
    pub principal: PrincipalKey,
    /// The remote FaceUri.
    pub remote: FaceUri,
    /// The local FaceUri.
    pub local: FaceUri,
    /// Whether the descriptor may have one more on-demand face.
    pub has_room: bool,
    /// Settings of the device; `None` for those of the worker.
    pub settings: Option<OnDemandSettings>,
}

/// Settings of on-demand faces on one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OnDemandSettings {
    /// Maximum payload of a frame, bytes.
    pub mtu: usize,
    /// Time without a packet after which they close.
    pub idle_timeout: Duration,
}

/// One kind of transport of a [`FaceSet`](crate::FaceSet), for the operations that only this kind has. `T` is the
/// registry's enum of the states of all kinds.
#[derive(Debug)]
pub struct TransportHandle<'a, K, T> {
    pub(crate) transport: &'a mut K,
    pub(crate) shared: &'a mut Shared,
    pub(crate) faces: &'a mut TransportFaces<T>,
}

/// Closes a face of the kind of `handle` and reports it.
pub(crate) fn close_face<K: Transport, T: HasState<K::State>>(
    handle: &mut TransportHandle<'_, K, T>,
    index: FaceIndex,
    reason: CloseReason,
    pool: &PacketPool,
) {
    let TransportHandle { transport, shared, faces } = handle;
    if let Some(mut entry) = faces.remove(index) {
        let FaceEntry { face, transport: state } = &mut *entry;
        if let Some(state) = state.state_mut() {
            release_face(*transport, shared, pool, face, state);
        }
    }
    shared.report_change(index, FaceChange::Closed(reason));
}

/// Releases everything that a face held which was taken out of the table.
pub(crate) fn release_face<K: Transport>(
    kind: &mut K,
    shared: &mut Shared,
    pool: &PacketPool,
    face: &mut Face,
    state: &mut K::State,
) {
    shared.deadlines.disarm(face);
    face.link.close(&mut shared.memory.reassembly(face.holder));
    kind.close(shared, pool, face, state);
    shared.memory.detach(face.holder);
    if shared.forget_suspended(Source::Face(face.index)) {
        shared.skip_received();
    }
}

/// The contents of a call of [`Transport::send`].
#[derive(Debug)]
pub(crate) enum SendRequest<'a, 'p> {
    /// A packet from the shard.
    Packet(&'a TxPacket<'p>),
    /// Frames of a reliable link that are due: lost ones again, and acknowledgements.
    Due,
}

impl SendRequest<'_, '_> {
    /// Makes the link service write frames for `sink`.
    #[inline]
    pub(crate) fn encode(self, link: &mut LinkService, now: Timestamp, sink: &mut impl FrameSink) {
        match self {
            // The link service counts what is dropped.
            Self::Packet(packet) => _ = link.send(now, packet, sink),
            Self::Due => link.resend(now, sink),
        }
    }

    /// The face has no connection: drops the packet, and lets time pass for the reliable link.
    pub(crate) fn drop_while_down(self, link: &mut LinkService, now: Timestamp) {
        match self {
            Self::Packet(_) => link.counters().dropped(LinkDropReason::Down).increment(),
            Self::Due => link.resend(now, &mut DownSink),
        }
    }
}

/// The frame sink of a face that is down.
struct DownSink;

impl FrameSink for DownSink {
    fn queued_bytes(&self) -> usize {
        0
    }

    fn push_frame(
        &mut self,
        _header: &[u8],
        _payload: &[u8],
        _handle: Option<&ndn_ring::PacketHandle>,
    ) -> Result<(), LinkDropReason> {
        Err(LinkDropReason::Down)
    }
}

/// Minimum time for which a face is reported as unreachable: what was under way before does not show that the peer is
/// still there, and forged ICMP messages cause few reports.
const UNREACHABLE_MIN: Duration = Duration::from_millis(100);

/// The deadlines of faces. None of them is exact or frequent, so an ordered set serves.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    /// One entry for each face that has a deadline.
    set: BTreeSet<(Timestamp, FaceIndex)>,
}

impl Deadlines {
    pub(crate) fn first(&self) -> Option<Timestamp> {
        self.set.first().map(|(deadline, _)| *deadline)
    }

    /// Removes and returns a face whose deadline has passed.
    pub(crate) fn pop_due(&mut self, now: Timestamp) -> Option<FaceIndex> {
        self.first().filter(|deadline| *deadline <= now)?;
        self.set.pop_first().map(|(_, index)| index)
    }

    /// Notes a deadline of a face, if it is earlier than the noted one. A later one is noted when the noted one has
    /// passed.
    pub(crate) fn arm(&mut self, face: &mut Face, deadline: Option<Timestamp>) {
        let Some(deadline) = deadline else { return };
        if face.deadline.is_some_and(|noted| noted <= deadline) {
            return;
        }
        if let Some(noted) = face.deadline.replace(deadline) {
            self.set.remove(&(noted, face.index));
        }
        self.set.insert((deadline, face.index));
    }

    pub(crate) fn disarm(&mut self, face: &mut Face) {
        if let Some(deadline) = face.deadline.take() {
            self.set.remove(&(deadline, face.index));
        }
    }
}

/// The state that the transports of a worker share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) poller: Poller,
    /// The block that streams are read into, and that frames are copied to. Taken out while frames are taken from it.
    pub(crate) receive_block: CopyBlock,
    /// The block for packets that do not lie in a receive block: reassembled ones.
    pub(crate) copy_block: CopyBlock,
    /// Where an event has brought more than the sink has taken.
    pub(crate) suspended: Option<Source>,
    /// Output queues of peers that do not read, and incomplete messages.
    pub(crate) memory: FaceMemory,
    pub(crate) deadlines: Deadlines,
    pub(crate) events: VecDeque<FaceEvent>,
    pub(crate) reconnect_waits: ReconnectWaits,
    pub(crate) tap: Option<Box<dyn FrameTap>>,
    pub(crate) calls: Arc<CallCounters>,
    /// Result of the last event.
    pub(crate) report: ReadReport,
    /// Frames after which an event is done although there may be more.
    pub(crate) frames_per_event: usize,
}

impl Shared {
    pub(crate) fn report_change(&mut self, face: FaceIndex, change: FaceChange) {
        self.events.push_back(FaceEvent { face, change });
    }

    /// Reports that the kernel cannot deliver datagrams to the peer of a face, unless it was reported.
    #[cold]
    pub(crate) fn report_unreachable(
        &mut self,
        now: Timestamp,
        face: &mut Face,
        error: io::ErrorKind,
    ) {
        let is_of_peer = matches!(
            error,
            io::ErrorKind::ConnectionRefused
                | io::ErrorKind::HostUnreachable
                | io::ErrorKind::NetworkUnreachable
                | io::ErrorKind::NetworkDown
        );
        if is_of_peer && face.unreachable_since.is_none() {
            face.unreachable_since = Some(now);
            let change = FaceChange::Unreachable(CloseReason::Unreachable(error));
            self.report_change(face.index, change);
        }
    }

    /// Notes that something arrived from the peer of a face.
    #[inline]
    pub(crate) fn note_reachable(&mut self, now: Timestamp, face: &mut Face) {
        if face.unreachable_since.is_some_and(|since| now.since(since) >= UNREACHABLE_MIN) {
            face.unreachable_since = None;
            self.report_change(face.index, FaceChange::Reached);
        }
    }

    /// Drops bytes that were read and not taken.
    pub(crate) fn skip_received(&mut self) {
        if let Some(block) = self.receive_block.current() {
            block.skip(block.filled().len());
        }
    }

    /// Forgets that an event of this source is suspended. True if it was.
    pub(crate) fn forget_suspended(&mut self, source: Source) -> bool {
        self.suspended.take_if(|suspended| *suspended == source).is_some()
    }
}

/// Everything that a transport needs for one call beside the face.
#[derive(Debug)]
pub(crate) struct TransportContext<'a> {
    pub(crate) shared: &'a mut Shared,
    pub(crate) pool: &'a PacketPool,
    pub(crate) now: Timestamp,
}

impl TransportContext<'_> {
    /// Counts a frame that the event has brought from a socket or ring, before it is delivered.
    #[inline]
    pub(crate) fn note_frame(&mut self, length: usize) {
        let Shared { calls, report, .. } = &mut *self.shared;
        calls.received_frames.increment();
        calls.received_bytes.add(length as u64);
        report.frames += 1;
    }

    /// Counts a frame of the event that is not delivered: reading it took time, too.
    #[inline]
    pub(crate) fn note_discarded(&mut self) {
        self.shared.report.frames += 1;
    }

    /// Gives the frame at the front of the filled part of `block` to the face, and the packet that it brings to
    /// `sink`. The frame is consumed.
    #[inline]
    pub(crate) fn deliver(
        &mut self,
        face: &mut Face,
        arrival: ReceivedFrame,
        block: &mut FillBlock,
        sink: &mut impl RxSink,
    ) {
        let ReceivedFrame { length, sender, delay } = arrival;
        let Face { rx, link, index, holder, .. } = face;
        let memory = &mut self.shared.memory.reassembly(*holder);
        let end = block.carved_offset() + length;
        let frame = &block.filled()[..length];
        if let Some(tap) = &mut self.shared.tap {
            tap.frame(self.now, *index, Direction::In, &[], frame);
        }
        let mut is_packet = false;
        match link.receive_from(self.now, sender, frame, memory) {
            Ok(Received::Packet { offset, fields }) => {
                is_packet = true;
                block.skip(offset);
                match delay {
                    None => sink.receive(rx, block, length - offset, &fields),
                    Some(delay) => {
                        sink.receive_delayed(rx, block, length - offset, &fields, delay);
                    }
                }
            }
            Ok(Received::Reassembled { packet, fields }) => {
                let copies = &mut self.shared.copy_block;
                if let Some(copy) = copies.with_room(packet.len(), self.pool) {
                    copy.spare_mut()[..packet.len()].copy_from_slice(packet);
                    copy.commit(packet.len());
                    let end = copy.carved_offset() + packet.len();
                    sink.receive(rx, copy, packet.len(), &fields);
                    copy.skip(end.saturating_sub(copy.carved_offset()));
                } else {
                    link.counters().dropped(LinkDropReason::NoBuffer).increment();
                }
            }
            Ok(Received::Nothing) | Err(_) => {}
        }
        block.skip(end.saturating_sub(block.carved_offset()));
        if !is_packet || link.is_reliable() {
            // A fragment starts the reassembly timer, a reliable frame that of its acknowledgement.
            let deadline = face.next_deadline();
            self.shared.deadlines.arm(face, deadline);
            face.link.settle(&mut self.shared.memory.reliability(face.holder));
        }
    }

    /// As [`deliver`](Self::deliver) for the face `index`, which may be another worker's. False if there is no such
    /// face.
    #[inline]
    pub(crate) fn deliver_to<T>(
        &mut self,
        faces: &mut TransportFaces<T>,
        index: FaceIndex,
        arrival: ReceivedFrame,
        block: &mut FillBlock,
        sink: &mut impl RxSink,
    ) -> bool {
        match faces.face_mut(index) {
            Some(face) => {
                self.deliver(face, arrival, block, sink);
                true
            }
            None => sink.receive_remote(index, arrival.sender, block, arrival.length),
        }
    }

    /// Copies a frame to the receive block and delivers it. Drops and counts it if there is no block.
    pub(crate) fn deliver_copy(
        &mut self,
        face: &mut Face,
        frame: &[u8],
        sender: Option<Sender>,
        sink: &mut impl RxSink,
    ) {
        face.note_arrival(self.now, None);
        let mut blocks = std::mem::take(&mut self.shared.receive_block);
        match blocks.with_room(frame.len(), self.pool) {
            Some(block) => self.deliver_from(face, frame, sender, block, sink),
            None => face.link.counters().dropped(LinkDropReason::NoBuffer).increment(),
        }
        self.shared.receive_block = blocks;
    }

    /// Copies a whole message to the block of copies and delivers it, while frames are taken from the receive block.
    /// Drops and counts it if there is no block.
    pub(crate) fn deliver_message(
        &mut self,
        face: &mut Face,
        message: &[u8],
        sink: &mut impl RxSink,
    ) {
        let mut blocks = std::mem::take(&mut self.shared.copy_block);
        match blocks.with_room(message.len(), self.pool) {
            Some(block) => self.deliver_from(face, message, None, block, sink),
            None => face.link.counters().dropped(LinkDropReason::NoBuffer).increment(),
        }
        // A message may complete a reassembly, which takes another block.
        std::mem::replace(&mut self.shared.copy_block, blocks).release(self.pool);
    }

    fn deliver_from(
        &mut self,
        face: &mut Face,
        frame: &[u8],
        sender: Option<Sender>,
        block: &mut FillBlock,
        sink: &mut impl RxSink,
    ) {
        block.spare_mut()[..frame.len()].copy_from_slice(frame);
        block.commit(frame.len());
        self.deliver(face, ReceivedFrame { length: frame.len(), sender, delay: None }, block, sink);
    }

    /// Where the tap sees frames that a face sends.
    #[inline]
    pub(crate) fn tap_point<'t>(
        tap: &'t mut Option<Box<dyn FrameTap>>,
        now: Timestamp,
        face: FaceIndex,
    ) -> TapPoint<'t> {
        TapPoint { tap: tap.as_deref_mut(), now, face }
    }
}

/// The reason for which the face of a failed system call closes.
pub(crate) fn failed(error: &io::Error) -> CloseReason {
    CloseReason::Failed(error.kind())
}
