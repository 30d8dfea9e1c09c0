//! What the kinds of transport have in common: the interface that each implements, and what they share.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use ndn_forwarding::TxPacket;
use ndn_ring::{FillBlock, PacketPool};
use ndn_sys::poll::{Event, Poller};
use ndn_table::{FaceIndex, Timestamp};

use crate::counters::{CallCounters, LinkDropReason};
use crate::event::{CloseReason, FaceChange, FaceEvent};
use crate::face::{Face, FaceTable};
use crate::link::{LinkService, Received};
use crate::memory::FaceMemory;
use crate::output::{FrameSink, Shed};
use crate::receive::{Progress, ReadReport, ReceivedFrame, RxSink};
use crate::reconnect::ReconnectWaits;
use crate::tap::{Direction, FrameTap, TapPoint};

/// A kind of transport: the state that all its faces share, and what it does for one of them.
///
/// The [`FaceSet`](crate::FaceSet) has one object of each kind. It finds the face, calls the object of its kind, and
/// closes the face (or reports it as down) if that returns a [`CloseReason`].
///
/// UDP sockets and network devices are shared by many faces, so their objects have methods of their own for events,
/// which get the table of faces.
pub(crate) trait Transport {
    /// What the kind keeps for each face.
    type State;

    /// Handles an event of a descriptor of the face.
    fn handle_event(
        &mut self,
        _cx: &mut TransportContext<'_>,
        _face: &mut Face,
        _state: &mut Self::State,
        _event: &Event,
        _sink: &mut impl RxSink,
    ) -> Result<Progress, CloseReason> {
        Ok(Progress::Done)
    }

    /// Continues to take what [`handle_event`](Self::handle_event) has read.
    fn resume(
        &mut self,
        _cx: &mut TransportContext<'_>,
        _face: &mut Face,
        _state: &mut Self::State,
        _sink: &mut impl RxSink,
    ) -> Result<Progress, CloseReason> {
        Ok(Progress::Done)
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

    /// Writes what the face has queued.
    fn flush(
        &mut self,
        _cx: &mut TransportContext<'_>,
        _face: &mut Face,
        _state: &mut Self::State,
    ) -> Result<(), CloseReason> {
        Ok(())
    }

    /// When to call [`handle_timeout`](Self::handle_timeout). The face itself has other deadlines.
    fn next_deadline(_state: &Self::State) -> Option<Timestamp> {
        None
    }

    /// Does what is due, if something is.
    fn handle_timeout(
        &mut self,
        _cx: &mut TransportContext<'_>,
        _face: &mut Face,
        _state: &mut Self::State,
    ) -> Result<(), CloseReason> {
        Ok(())
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

    /// Drops what a face has queued because its peer does not read, until its principal holds at most `keeps` bytes.
    fn shed(
        &mut self,
        _shared: &mut Shared,
        _face: &mut Face,
        _state: &mut Self::State,
        _keeps: u32,
    ) -> Shed {
        Shed::default()
    }

    /// Releases what a face held that is gone.
    fn close(
        &mut self,
        shared: &mut Shared,
        pool: &PacketPool,
        face: &Face,
        state: &mut Self::State,
    );
}

/// What a face is to send.
#[derive(Debug)]
pub(crate) enum SendRequest<'a, 'p> {
    /// A packet from the shard.
    Packet(&'a TxPacket<'p>),
    /// Frames of a reliable link that are due: lost ones again, and acknowledgements.
    Due,
}

impl SendRequest<'_, '_> {
    /// Has the link service make frames for `sink`.
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

/// What the transports of a worker share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) poller: Poller,
    /// The block that streams are read into, and that frames are copied to. Taken out while frames are taken from it.
    pub(crate) receive_block: Option<FillBlock>,
    /// The block for packets that do not lie in a receive block: reassembled ones.
    pub(crate) copy_block: Option<FillBlock>,
    /// What is kept for peers that do not read, and of incomplete messages.
    pub(crate) memory: FaceMemory,
    pub(crate) deadlines: Deadlines,
    pub(crate) events: VecDeque<FaceEvent>,
    pub(crate) reconnect_waits: ReconnectWaits,
    pub(crate) tap: Option<Box<dyn FrameTap>>,
    pub(crate) calls: Arc<CallCounters>,
    /// What the last event has brought.
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
        if let Some(block) = &mut self.receive_block {
            block.skip(block.filled().len());
        }
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
                let copy = block_with_room(&mut self.shared.copy_block, packet.len(), self.pool);
                if let Some(copy) = copy {
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
        }
    }

    /// As [`deliver`](Self::deliver) for the face `index`, which may be another worker's. False if there is no such
    /// face.
    #[inline]
    pub(crate) fn deliver_to<T>(
        &mut self,
        faces: &mut FaceTable<T>,
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
        sender: Option<crate::source::Sender>,
        sink: &mut impl RxSink,
    ) {
        face.note_arrival(self.now, None);
        let has_block = block_with_room(&mut self.shared.receive_block, frame.len(), self.pool);
        if has_block.is_none() {
            face.link.counters().dropped(LinkDropReason::NoBuffer).increment();
            return;
        }
        let Some(mut block) = self.shared.receive_block.take() else { return };
        block.spare_mut()[..frame.len()].copy_from_slice(frame);
        block.commit(frame.len());
        let arrival = ReceivedFrame { length: frame.len(), sender, delay: None };
        self.deliver(face, arrival, &mut block, sink);
        self.shared.receive_block = Some(block);
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

/// The block in `place`, replaced by a fresh one if it has less than `room` bytes to spare.
pub(crate) fn block_with_room<'a>(
    place: &'a mut Option<FillBlock>,
    room: usize,
    pool: &PacketPool,
) -> Option<&'a mut FillBlock> {
    if place.as_ref().is_none_or(|block| block.remaining() < room) {
        let fresh = pool.allocate_block()?;
        if let Some(used_up) = place.replace(fresh) {
            pool.finish(used_up);
        }
    }
    place.as_mut()
}

/// That a system call failed, as the reason for which its face closes.
pub(crate) fn failed(error: &io::Error) -> CloseReason {
    CloseReason::Failed(error.kind())
}
