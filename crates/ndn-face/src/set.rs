//! All faces of one worker.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use ndn_forwarding::{RxFace, TxPacket, TxSink};
use ndn_ring::{CopyBlock, PacketPool};
use ndn_sys::poll::{Event, Events, Poller};
use ndn_table::FaceIndex;
use ndn_types::{FaceUri, PrincipalKey, Reserves, Resources as _, Timestamp};

use crate::counters::{CallCounters, FaceCounters, LinkDropReason};
use crate::event::{CloseReason, FaceChange, FaceEvent};
use crate::face::{Face, FaceEntry, TransportFaces};
use crate::memory::{Eviction, EvictionStep, FaceMemory, MemoryKind, MemoryReport};
use crate::options::FaceOptions;
use crate::receive::{Progress, ReadReport, RxSink};
use crate::reconnect::ReconnectWaits;
use crate::registry::{NewTransport, PeerKey, Registered, TransportState, Transports};
use crate::source::{Sender, Source, WORKER_TOKEN_MIN};
use crate::tap::FrameTap;
use crate::transport::{
    Deadlines, OnDemandPeer, SendRequest, Shared, TransportContext, TransportHandle,
};

/// Datagrams after which an event is done, unless the worker sets another number.
const FRAMES_PER_EVENT: usize = 512;
/// Maximum number of faces whose timeouts one call handles. Each may retransmit 256 frames, which take some 4 ms together.
const TIMEOUTS_MAX: usize = 16;

/// Limits of a [`FaceSet`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaceSetOptions {
    /// Bytes that the output queues of peers that do not read may hold together. If they are used up, a principal below
    /// its share takes from the one that holds most.
    pub output_bytes_max: usize,
    /// Bytes of incomplete messages of all faces together, divided likewise.
    pub reassembly_bytes_max: usize,
    /// Parts of both that only principals of a class can use.
    pub reserves: Reserves,
    /// Where the numbering of fragments starts; should be random.
    pub first_sequence: u64,
    /// Times after which permanent faces connect again.
    pub reconnect_waits: ReconnectWaits,
}

impl Default for FaceSetOptions {
    fn default() -> Self {
        Self {
            output_bytes_max: 64 << 20,
            reassembly_bytes_max: 8 << 20,
            reserves: Reserves::default(),
            first_sequence: 0,
            reconnect_waits: ReconnectWaits::default(),
        }
    }
}

/// The faces of one worker.
///
/// The worker waits on [`poller`](Self::poller), gives every event with a token below
/// [`WORKER_TOKEN_MIN`] to [`handle_event`](Self::handle_event), which puts packets into an
/// [`RxSink`]; runs the shard, which sends into [`sink`](Self::sink); and calls
/// [`flush`](Self::flush).
///
/// The set knows no kind of transport: those are in the registry (`registry.rs`). Operations that only one kind has are
/// reached by [`transport_mut`](Self::transport_mut).
#[derive(Debug)]
pub struct FaceSet {
    shared: Shared,
    faces: TransportFaces<TransportState>,
    transports: Transports,
    next_sequence: u64,
}

impl FaceSet {
    /// No faces.
    ///
    /// # Errors
    /// Those of making a [`Poller`].
    pub fn new(options: &FaceSetOptions) -> io::Result<Self> {
        Ok(Self::with_poller(options, Poller::new()?))
    }

    /// No faces, and a poller for their descriptors.
    #[must_use]
    pub fn with_poller(options: &FaceSetOptions, poller: Poller) -> Self {
        Self {
            shared: Shared {
                poller,
                receive_block: CopyBlock::default(),
                copy_block: CopyBlock::default(),
                suspended: None,
                memory: FaceMemory::new(
                    options.output_bytes_max,
                    options.reassembly_bytes_max,
                    options.reserves,
                ),
                deadlines: Deadlines::default(),
                events: VecDeque::new(),
                reconnect_waits: options.reconnect_waits,
                tap: None,
                calls: Arc::default(),
                report: ReadReport::default(),
                frames_per_event: FRAMES_PER_EVENT,
            },
            faces: TransportFaces::new(),
            transports: Transports::default(),
            next_sequence: options.first_sequence,
        }
    }

    /// Where to wait for events. The worker may add descriptors of its own, with tokens from
    /// [`WORKER_TOKEN_MIN`] on.
    #[must_use]
    pub fn poller(&self) -> &Poller {
        &self.shared.poller
    }

    /// System calls of all sockets together.
    #[must_use]
    pub fn call_counters(&self) -> &Arc<CallCounters> {
        &self.shared.calls
    }

    /// Shows every frame to `tap` from now on, or to none.
    pub fn set_tap(&mut self, tap: Option<Box<dyn FrameTap>>) {
        self.shared.tap = tap;
    }

    /// Memory of the faces that principals hold.
    #[must_use]
    pub fn memory(&self) -> MemoryReport {
        self.shared.memory.report()
    }

    /// A kind of transport.
    #[must_use]
    #[inline]
    pub fn transport<K: Registered>(&self) -> &K {
        K::of(&self.transports)
    }

    /// A kind of transport, for the operations that only this kind has.
    #[must_use]
    #[inline]
    pub fn transport_mut<K: Registered>(&mut self) -> TransportHandle<'_, K, TransportState> {
        let Self { shared, faces, transports, .. } = self;
        TransportHandle { transport: K::of_mut(transports), shared, faces }
    }
}

/// Faces.
impl FaceSet {
    /// Makes a face.
    ///
    /// # Errors
    /// If the slot of `index` is taken or the peer has a face, and those of the kind of transport.
    pub fn open(
        &mut self,
        now: Timestamp,
        index: FaceIndex,
        transport: impl Into<NewTransport>,
        options: &FaceOptions,
    ) -> io::Result<Arc<FaceCounters>> {
        let (transport, peer) = self.resolve(transport.into())?;
        // The face of another worker is gone: the caller knows that there is none.
        let has_face = peer.is_some_and(|peer| self.own_face_of(peer).is_some());
        if has_face || self.faces.is_taken(index) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let transport = self.transports.open(&mut self.shared, now, index, transport)?;
        // Far enough from the next face that their numbers do not meet.
        self.next_sequence = self.next_sequence.wrapping_add(1 << 40);
        let holder = self.shared.memory.attach(index, options.properties.principal);
        let mut face = Face::new(now, index, options, holder, self.next_sequence);
        let counters = Arc::clone(face.link.counters());
        face.set_link_options(transport.frame_length_max());
        let is_down = transport.is_down();
        self.faces.insert(FaceEntry { face, transport });
        self.arm(index);
        if is_down {
            let change = FaceChange::Down(CloseReason::Failed(io::ErrorKind::NotConnected));
            self.shared.report_change(index, change);
        }
        Ok(counters)
    }

    /// Decides which shared descriptor a new face uses. Returns the peer that it would have there, of which only one
    /// worker may have a face.
    ///
    /// # Errors
    /// If there is no suitable descriptor.
    pub fn resolve(&self, new: NewTransport) -> io::Result<(NewTransport, Option<PeerKey>)> {
        self.transports.resolve(new)
    }

    /// The face of a peer on a shared descriptor. It may be known to be another worker's.
    #[must_use]
    pub fn face_of(&self, peer: PeerKey) -> Option<FaceIndex> {
        self.transports.face_of(peer)
    }

    /// The on-demand face that a peer would get; `None` if such peers get none.
    #[must_use]
    pub fn on_demand(&self, peer: PeerKey) -> Option<(NewTransport, OnDemandPeer)> {
        self.transports.on_demand(peer)
    }

    /// The local FaceUri of the face of a peer.
    #[must_use]
    pub fn local_uri(&self, peer: PeerKey) -> Option<FaceUri> {
        self.transports.local_uri(peer)
    }

    /// Gives the frames of a peer to [`RxSink::receive_remote`], since another worker has its face: the kernel
    /// distributes peers over the sockets and queues of the workers without regard to faces. False if there is no such
    /// descriptor, or this worker has the face.
    pub fn add_remote_peer(&mut self, peer: PeerKey, face: FaceIndex) -> bool {
        self.own_face_of(peer).is_none() && self.transports.add_remote_peer(peer, face)
    }

    /// Undoes [`add_remote_peer`](Self::add_remote_peer): the face is gone.
    pub fn remove_remote_peer(&mut self, peer: PeerKey, face: FaceIndex) {
        self.transports.remove_remote_peer(peer, face);
    }

    /// Gives a face on a shared socket a socket of its own to receive by, so that its packets are
    /// not queued behind those of other peers. A neighbour also sends by it, others by the shared socket.
    ///
    /// # Errors
    /// If there is no such face, or those of making a socket: the face works as before then.
    pub fn separate_input(&mut self, index: FaceIndex) -> io::Result<()> {
        let entry = self.faces.get_mut(index).ok_or(io::ErrorKind::NotFound)?;
        self.transports.separate_input(&mut self.shared, entry)
    }

    /// Whether there is such a face.
    #[must_use]
    pub fn contains(&self, index: FaceIndex) -> bool {
        self.faces.contains(index)
    }

    /// Changes the options of a face; `false` if there is no such face. A face that has lost its
    /// connection and is no longer permanent closes, as in NFD.
    pub fn update(&mut self, index: FaceIndex, options: &FaceOptions, pool: &PacketPool) -> bool {
        let Some(FaceEntry { face, transport }) = self.faces.get_mut(index) else { return false };
        self.shared.memory.change_principal(face.holder, options.properties.principal);
        face.rx = RxFace::new(index, &options.properties);
        face.options = *options;
        face.set_link_options(transport.frame_length_max());
        face.link.settle(&mut self.shared.memory.reliability(face.holder));
        if transport.is_down() && !face.is_permanent() {
            self.close(index, CloseReason::NotPermanent, pool);
            return true;
        }
        self.arm(index);
        true
    }

    /// Destroys a face; `false` if there is none. Frames in its output queue are dropped.
    pub fn remove(&mut self, index: FaceIndex, pool: &PacketPool) -> bool {
        let Some(mut entry) = self.faces.remove(index) else { return false };
        self.transports.release_face(&mut self.shared, pool, &mut entry);
        true
    }

    /// The next event that a face has caused by itself.
    pub fn poll_event(&mut self) -> Option<FaceEvent> {
        self.shared.events.pop_front()
    }

    /// The face of a peer, if it is one of this set.
    fn own_face_of(&self, peer: PeerKey) -> Option<FaceIndex> {
        self.face_of(peer).filter(|&known| self.contains(known))
    }

    /// Closes a face and reports it.
    fn close(&mut self, index: FaceIndex, reason: CloseReason, pool: &PacketPool) {
        self.remove(index, pool);
        self.shared.report_change(index, FaceChange::Closed(reason));
    }

    /// The connection of a face is lost, or of no use any more: the face closes, or waits to connect again.
    fn end_connection(
        &mut self,
        now: Timestamp,
        index: FaceIndex,
        reason: CloseReason,
        pool: &PacketPool,
    ) {
        let Some(entry) = self.faces.get_mut(index) else { return };
        let mut cx = TransportContext { shared: &mut self.shared, pool, now };
        if self.transports.disconnect(&mut cx, entry) {
            self.shared.report_change(index, FaceChange::Down(reason));
            self.arm(index);
        } else {
            self.close(index, reason, pool);
        }
    }
}

/// Receiving.
impl FaceSet {
    /// Handles one event of the poller: reads once, and gives the packets to `sink`.
    ///
    /// An event that was suspended before must have been resumed until [`Progress::Done`].
    pub fn handle_event(
        &mut self,
        now: Timestamp,
        event: &Event,
        pool: &PacketPool,
        sink: &mut impl RxSink,
    ) -> Progress<PeerKey> {
        debug_assert!(self.shared.suspended.is_none(), "the last event is not finished");
        debug_assert!(event.token < WORKER_TOKEN_MIN, "not an event of a face");
        self.shared.report = ReadReport::default();
        let Some(source) = Source::of(event.token) else { return Progress::Done };
        let Self { shared, faces, transports, .. } = self;
        let mut cx = TransportContext { shared, pool, now };
        let progress = match source {
            Source::Shared { kind, number } => {
                transports.handle_shared_event(&mut cx, faces, (kind, number), event, sink)
            }
            Source::Face(index) => {
                let Some(entry) = faces.get_mut(index) else { return Progress::Done };
                let result = transports.handle_event(&mut cx, entry, event, sink);
                self.progress_of(now, index, result, pool)
            }
        };
        self.note_progress(source, progress)
    }

    /// Continues an event after [`Progress::SinkFull`], or after a sender without a face was reported. Without such an
    /// event it returns [`Progress::Done`].
    pub fn resume(
        &mut self,
        now: Timestamp,
        pool: &PacketPool,
        sink: &mut impl RxSink,
    ) -> Progress<PeerKey> {
        let Some(source) = self.shared.suspended else { return Progress::Done };
        let Self { shared, faces, transports, .. } = self;
        let mut cx = TransportContext { shared, pool, now };
        let progress = match source {
            Source::Shared { kind, number } => {
                transports.resume_shared(&mut cx, faces, (kind, number), sink)
            }
            Source::Face(index) => match faces.get_mut(index) {
                Some(entry) => {
                    let result = transports.resume(&mut cx, entry, sink);
                    self.progress_of(now, index, result, pool)
                }
                None => Progress::Done,
            },
        };
        self.note_progress(source, progress)
    }

    /// Takes a frame that another worker received for a face of this one. `sender` is given if the face has several.
    /// `sink` has room for one packet.
    pub fn receive_frame(
        &mut self,
        now: Timestamp,
        index: FaceIndex,
        sender: Option<Sender>,
        frame: &[u8],
        pool: &PacketPool,
        sink: &mut impl RxSink,
    ) {
        debug_assert!(self.shared.suspended.is_none(), "the last event is not finished");
        let Some(face) = self.faces.face_mut(index) else {
            self.shared.calls.destroyed_face.increment();
            return;
        };
        self.shared.note_reachable(now, face);
        let mut cx = TransportContext { shared: &mut self.shared, pool, now };
        cx.deliver_copy(face, frame, sender, sink);
    }

    /// Whether an event is suspended: [`resume`](Self::resume) has to come before the next event or frame.
    #[must_use]
    pub fn is_suspended(&self) -> bool {
        self.shared.suspended.is_some()
    }

    /// Result of the last event.
    #[must_use]
    #[inline]
    pub fn report(&self) -> &ReadReport {
        &self.shared.report
    }

    /// Sets the number of frames after which an event is done although there may be more. Those of one system call are
    /// taken in any case.
    pub fn set_frames_per_event(&mut self, frames: usize) {
        self.shared.frames_per_event = frames;
    }

    /// The principal of the face whose own descriptor has this token; `None` for descriptors that faces share.
    #[must_use]
    pub fn principal_of(&self, token: u64) -> Option<PrincipalKey> {
        let Source::Face(index) = Source::of(token)? else { return None };
        self.faces.face(index).map(|face| face.options.properties.principal)
    }

    /// Whether the source of an event has recently brought mostly Data and Nacks, and no Interests.
    #[must_use]
    pub fn is_upstream(&mut self, token: u64) -> bool {
        match Source::of(token) {
            Some(Source::Shared { kind, number }) => {
                let direction = self.transports.shared_direction_mut((kind, number));
                direction.is_some_and(|direction| direction.is_upstream())
            }
            Some(Source::Face(index)) => {
                self.connected_mut(index).is_some_and(|face| face.direction.is_upstream())
            }
            None => false,
        }
    }

    /// Notes that the source of an event has brought a Data or Nack (`is_answer`), or an Interest.
    pub fn note_direction(&mut self, token: u64, is_answer: bool) {
        match Source::of(token) {
            Some(Source::Shared { kind, number }) => {
                if let Some(direction) = self.transports.shared_direction_mut((kind, number)) {
                    direction.note(is_answer);
                }
            }
            Some(Source::Face(index)) => {
                if let Some(face) = self.connected_mut(index) {
                    face.note_direction(is_answer);
                }
            }
            None => {}
        }
    }

    /// A face, unless it connects: its events bring nothing then.
    fn connected_mut(&mut self, index: FaceIndex) -> Option<&mut Face> {
        let FaceEntry { face, transport } = self.faces.get_mut(index)?;
        (!transport.is_down()).then_some(face)
    }

    /// The progress of an event of a face, which closes for the reason of an error.
    fn progress_of(
        &mut self,
        now: Timestamp,
        index: FaceIndex,
        result: Result<Progress<PeerKey>, CloseReason>,
        pool: &PacketPool,
    ) -> Progress<PeerKey> {
        result.unwrap_or_else(|reason| {
            self.end_connection(now, index, reason, pool);
            Progress::Done
        })
    }

    fn note_progress(&mut self, source: Source, progress: Progress<PeerKey>) -> Progress<PeerKey> {
        self.shared.suspended = progress.is_suspended().then_some(source);
        // The poller reports the rest again once there is a buffer.
        self.shared.report.has_more &= progress != Progress::NoBlock;
        progress
    }
}

/// Polling of faces that need no system call to receive, such as rings in shared memory.
impl FaceSet {
    /// From now on, faces that can be polled and bring frames raise no interrupts until
    /// [`stop_polling`](Self::stop_polling): the worker calls [`poll`](Self::poll) meanwhile.
    pub fn enable_polling(&mut self) {
        self.transports.enable_polling();
    }

    /// Whether there are faces to poll.
    #[must_use]
    #[inline]
    pub fn has_polled(&self) -> bool {
        self.transports.has_polled()
    }

    /// Adds an event for each polled face that holds frames, as long as there is room. Faces left out come first the
    /// next time.
    #[inline]
    pub fn poll(&mut self, events: &mut Events) {
        self.transports.poll(&mut self.faces, events);
    }

    /// Makes all peers raise interrupts again. True if there are frames already; polling continues then.
    pub fn stop_polling(&mut self) -> bool {
        self.transports.stop_polling(&mut self.faces)
    }

    /// Publishes the frames sent to peers that poll too: that needs no system call, and they work while the
    /// worker continues. Peers that need an interrupt get it with [`flush`](Self::flush).
    #[inline]
    pub fn publish(&mut self, now: Timestamp, pool: &PacketPool) {
        if !self.has_polled() {
            return;
        }
        while let Some(index) = self.transports.next_unflushed_polling(&mut self.faces) {
            self.flush_face(now, index, pool);
        }
    }
}

/// Sending.
impl FaceSet {
    /// Accepts packets from a shard. They go out with the next [`flush`](Self::flush).
    pub fn sink<'a>(&'a mut self, now: Timestamp, pool: &'a PacketPool) -> FaceSink<'a> {
        FaceSink { faces: self, pool, now }
    }

    /// Writes the frames that the faces have been sent since the last flush.
    pub fn flush(&mut self, now: Timestamp, pool: &PacketPool) {
        while let Some(index) = self.transports.next_unflushed() {
            self.flush_face(now, index, pool);
        }
        let mut cx = TransportContext { shared: &mut self.shared, pool, now };
        self.transports.flush_shared(&mut cx, &mut self.faces);
        if self.shared.memory.is_scarce() {
            self.evict(now, pool);
        }
    }

    fn flush_face(&mut self, now: Timestamp, index: FaceIndex, pool: &PacketPool) {
        let Some(entry) = self.faces.get_mut(index) else { return };
        entry.face.listed = false;
        let mut cx = TransportContext { shared: &mut self.shared, pool, now };
        if let Err(reason) = self.transports.flush(&mut cx, entry) {
            self.end_connection(now, index, reason, pool);
        }
    }

    /// Evicts output and messages of principals above their shares, for others that were admitted within their shares
    /// although the memory was used up.
    #[cold]
    fn evict(&mut self, now: Timestamp, pool: &PacketPool) {
        for kind in MemoryKind::ALL {
            while let Some(eviction) = self.shared.memory.next_eviction(kind) {
                match eviction.step {
                    EvictionStep::Shed => {
                        let has_more = self.shed(kind, eviction);
                        self.shared.memory.note_shed(kind, eviction, has_more);
                    }
                    EvictionStep::Close => {
                        self.end_connection(now, eviction.face, CloseReason::OverShare, pool);
                    }
                }
            }
        }
    }

    /// Makes a face drop the excess of its principal. True if it could drop more.
    fn shed(&mut self, kind: MemoryKind, eviction: Eviction) -> bool {
        let Some(entry) = self.faces.get_mut(eviction.face) else { return false };
        match kind {
            MemoryKind::Reassembly => {
                let memory = &mut self.shared.memory.reassembly(eviction.holder);
                let link = &mut entry.face.link;
                while memory.principal_exceeds(eviction.keeps) {
                    if !link.evict_message(memory) {
                        return false;
                    }
                }
                true
            }
            MemoryKind::Reliability => {
                let memory = &mut self.shared.memory.reliability(eviction.holder);
                entry.face.link.forget_sent(memory);
                false
            }
            MemoryKind::Output => {
                let shed = self.transports.shed(&mut self.shared, entry, eviction.keeps);
                let counters = entry.face.link.counters();
                counters.dropped(LinkDropReason::QueueFull).add(shed.dropped);
                shed.has_more
            }
        }
    }
}

/// Time.
impl FaceSet {
    /// When [`handle_timeouts`](Self::handle_timeouts) has something to do.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let deadlines = [self.transports.next_shared_deadline(), self.shared.deadlines.first()];
        deadlines.into_iter().flatten().min()
    }

    /// Does the work that is due: expires incomplete messages, retransmits frames, closes idle faces, connects again. Of many faces
    /// whose deadlines have passed, the rest stays due for the next call.
    pub fn handle_timeouts(&mut self, now: Timestamp, pool: &PacketPool) {
        let mut cx = TransportContext { shared: &mut self.shared, pool, now };
        self.transports.handle_shared_timeouts(&mut cx, &mut self.faces);
        for _ in 0..TIMEOUTS_MAX {
            let Some(index) = self.shared.deadlines.pop_due(now) else { break };
            if let Err(reason) = self.handle_face_timeout(now, index, pool) {
                self.end_connection(now, index, reason, pool);
            }
        }
    }

    /// The deadline of a face has passed.
    fn handle_face_timeout(
        &mut self,
        now: Timestamp,
        index: FaceIndex,
        pool: &PacketPool,
    ) -> Result<(), CloseReason> {
        let Some(entry) = self.faces.get_mut(index) else { return Ok(()) };
        let face = &mut entry.face;
        face.deadline = None;
        let memory = &mut self.shared.memory.reassembly(face.holder);
        face.link.handle_timeout(now, memory);
        if face.idle_deadline().is_some_and(|deadline| deadline <= now) {
            return Err(CloseReason::Idle);
        }
        let mut cx = TransportContext { shared: &mut self.shared, pool, now };
        self.transports.handle_timeout(&mut cx, entry)?;
        if entry.face.link.is_reliable() {
            let FaceEntry { face, transport } = entry;
            self.transports.send(&mut cx, face, transport, SendRequest::Due);
            face.link.settle(&mut self.shared.memory.reliability(face.holder));
        }
        // What is left is due in the next call, after what is due on other faces.
        self.arm_from(index, now.plus_nanos(1));
        Ok(())
    }

    /// Notes the next deadline of a face and its transport.
    fn arm(&mut self, index: FaceIndex) {
        self.arm_from(index, Timestamp::ZERO);
    }

    /// As [`arm`](Self::arm), but not before `earliest`.
    fn arm_from(&mut self, index: FaceIndex, earliest: Timestamp) {
        let Some(FaceEntry { face, transport }) = self.faces.get_mut(index) else { return };
        let deadlines = [face.next_deadline(), transport.next_deadline()];
        let deadline = deadlines.into_iter().flatten().min();
        self.shared.deadlines.arm(face, deadline.map(|deadline| deadline.max(earliest)));
    }

    /// Returns the blocks that the set holds to `pool`, at the end of the worker. Packets that
    /// were received and not taken are lost.
    pub fn release_blocks(&mut self, pool: &PacketPool) {
        self.transports.release_blocks(pool);
        let Shared { receive_block, copy_block, suspended, .. } = &mut self.shared;
        *suspended = None;
        [receive_block, copy_block].into_iter().for_each(|block| block.release(pool));
    }
}

impl AsFd for FaceSet {
    /// The poller's descriptor.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.poller.as_fd()
    }
}

/// Where a shard sends: the faces of its worker, for one burst.
#[derive(Debug)]
pub struct FaceSink<'a> {
    faces: &'a mut FaceSet,
    pool: &'a PacketPool,
    now: Timestamp,
}

impl TxSink for FaceSink<'_> {
    #[inline]
    fn send(&mut self, index: FaceIndex, packet: &TxPacket<'_>) {
        let set = &mut *self.faces;
        let Some(FaceEntry { face, transport }) = set.faces.get_mut(index) else {
            set.shared.calls.destroyed_face.increment();
            return;
        };
        let mut cx = TransportContext { shared: &mut set.shared, pool: self.pool, now: self.now };
        set.transports.send(&mut cx, face, transport, SendRequest::Packet(packet));
        if face.link.is_reliable() {
            cx.shared.deadlines.arm(face, face.link.next_deadline());
            face.link.settle(&mut cx.shared.memory.reliability(face.holder));
        }
    }
}
