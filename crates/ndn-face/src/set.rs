//! All faces of one worker.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use ndn_forwarding::{RxFace, TxPacket, TxSink};
use ndn_ring::PacketPool;
use ndn_sys::poll::{Event, Events, Interest, Poller};
use ndn_sys::udp::UdpSocket;
use ndn_table::{FaceIndex, Timestamp};
use ndn_types::{Reserves, Resources as _};

use crate::counters::{CallCounters, ChannelCounters, FaceCounters, LinkDropReason};
use crate::datagram::{DatagramState, Datagrams};
use crate::ethernet::{PortOptions, PortSocket, Ports, StationState};
use crate::event::{CloseReason, FaceChange, FaceEvent};
use crate::face::{Face, FaceEntry, FaceTable, Holds, TrafficDirection};
use crate::internal::{InternalEnd, Internals};
use crate::memif::{MemifEnd, MemifState, Memifs};
use crate::memory::{Claim, FaceMemory, MemoryKind, MemoryReport, Remedy};
use crate::options::FaceOptions;
use crate::receive::{Progress, ReadCounts, ReadReport, RxSink};
use crate::reconnect::ReconnectWaits;
use crate::source::Sender;
use crate::source::{ChannelId, PortId, Source, WORKER_TOKEN_MIN};
use crate::stream::{StreamState, Streams};
use crate::tap::FrameTap;
use crate::transport::{Deadlines, SendRequest, Shared, Transport, TransportContext};

/// Datagrams after which an event is done, unless the worker sets another number.
const FRAMES_PER_EVENT: usize = 512;

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
    /// How soon permanent faces connect again.
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

/// The state of a face's transport. A new kind of transport gets a variant here, an object in [`FaceSet`], and an arm
/// in `with_transport`.
#[derive(Debug)]
enum TransportState {
    Stream(StreamState),
    Datagram(DatagramState),
    Ethernet(StationState),
    Memif(Box<MemifState>),
    Internal(InternalEnd),
}

/// Evaluates `$body` with the object of the transport kind of `$entry`, its face, and the state of its transport: once
/// for each kind, so that the calls are static.
macro_rules! with_transport {
    ($set:expr, $entry:expr, |$kind:ident, $face:ident, $state:ident| $body:expr) => {{
        let FaceEntry { face: $face, transport } = $entry;
        match transport {
            TransportState::Stream($state) => with_transport!(@ $set.streams, $kind, $body),
            TransportState::Datagram($state) => with_transport!(@ $set.datagrams, $kind, $body),
            TransportState::Ethernet($state) => with_transport!(@ $set.ports, $kind, $body),
            TransportState::Memif($state) => with_transport!(@ $set.memifs, $kind, $body),
            TransportState::Internal($state) => with_transport!(@ $set.internals, $kind, $body),
        }
    }};
    (@ $object:expr, $kind:ident, $body:expr) => {{
        let $kind = &mut $object;
        $body
    }};
}

/// The faces of one worker: a registry of transports, and what they share.
///
/// The worker waits on [`poller`](Self::poller), gives every event with a token below
/// [`WORKER_TOKEN_MIN`] to [`handle_event`](Self::handle_event), which puts packets into an
/// [`RxSink`]; runs the shard, which sends into [`sink`](Self::sink); and calls
/// [`flush`](Self::flush).
#[derive(Debug)]
pub struct FaceSet {
    shared: Shared,
    faces: FaceTable<TransportState>,
    streams: Streams,
    datagrams: Datagrams,
    ports: Ports,
    memifs: Memifs,
    internals: Internals,
    /// Where an event has brought more than the sink has taken.
    suspended: Option<Source>,
    next_sequence: u64,
}

impl FaceSet {
    /// No faces.
    ///
    /// # Errors
    /// Those of making a [`Poller`].
    pub fn new(options: &FaceSetOptions) -> io::Result<Self> {
        Ok(Self {
            shared: Shared {
                poller: Poller::new()?,
                receive_block: None,
                copy_block: None,
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
            faces: FaceTable::new(),
            streams: Streams::default(),
            datagrams: Datagrams::new(),
            ports: Ports::new(),
            memifs: Memifs::default(),
            internals: Internals::new(),
            suspended: None,
            next_sequence: options.first_sequence,
        })
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

    /// The next event that a face has caused by itself.
    pub fn poll_event(&mut self) -> Option<FaceEvent> {
        self.shared.events.pop_front()
    }

    /// Whether there is such a face.
    #[must_use]
    pub fn contains(&self, index: FaceIndex) -> bool {
        self.faces.contains(index)
    }

    /// Changes the options of a face; `false` if there is no such face. A face that has lost its
    /// connection and is no longer permanent closes, as in NFD.
    pub fn update(&mut self, index: FaceIndex, options: &FaceOptions, pool: &PacketPool) -> bool {
        let Some(entry) = self.faces.get_mut(index) else { return false };
        let is_down = with_transport!(self, entry, |kind, face, state| {
            self.shared.memory.change_principal(face.holder, options.properties.principal);
            face.rx = RxFace::new(index, &options.properties);
            face.options = *options;
            face.set_link_options(frame_length_max(kind, state));
            is_down(kind, state)
        });
        if is_down && !entry.face.is_permanent() {
            self.close(index, CloseReason::NotPermanent, pool);
            return true;
        }
        self.arm(index);
        true
    }

    /// Destroys a face; `false` if there is none. Frames in its output queue are dropped.
    pub fn remove(&mut self, index: FaceIndex, pool: &PacketPool) -> bool {
        let Some(mut entry) = self.faces.remove(index) else { return false };
        self.shared.deadlines.disarm(&mut entry.face);
        let holder = entry.face.holder;
        entry.face.link.close(&mut self.shared.memory.reassembly(holder));
        with_transport!(self, &mut *entry, |kind, face, state| {
            kind.close(&mut self.shared, pool, face, state);
        });
        self.shared.memory.detach(holder);
        self.forget_suspended(pool);
        true
    }

    /// Writes what the faces have been sent since the last flush.
    pub fn flush(&mut self, now: Timestamp, pool: &PacketPool) {
        while let Some(index) = self.next_unflushed() {
            self.flush_face(now, index, pool);
        }
        let mut cx = TransportContext { shared: &mut self.shared, pool, now };
        self.datagrams.flush_all(&mut cx, &mut self.faces);
        self.ports.flush_all(&mut cx, &mut self.faces);
        if self.shared.memory.is_scarce() {
            self.settle_claims(now, pool);
        }
    }

    /// Takes from the principals above their shares what others got within theirs although nothing was left.
    #[cold]
    fn settle_claims(&mut self, now: Timestamp, pool: &PacketPool) {
        for kind in MemoryKind::ALL {
            while let Some(claim) = self.shared.memory.claim(kind) {
                match claim.remedy {
                    Remedy::Shed => {
                        let has_more = self.shed(kind, claim);
                        self.shared.memory.note_shed(kind, claim, has_more);
                    }
                    Remedy::Close => {
                        self.end_connection(now, claim.face, CloseReason::OverShare, pool);
                    }
                }
            }
        }
    }

    /// Has a face drop what its principal may not keep. True if it could drop more.
    fn shed(&mut self, kind: MemoryKind, claim: Claim) -> bool {
        let Some(entry) = self.faces.get_mut(claim.face) else { return false };
        match kind {
            MemoryKind::Reassembly => {
                let memory = &mut self.shared.memory.reassembly(claim.holder);
                let link = &mut entry.face.link;
                while memory.principal_exceeds(claim.keeps) {
                    if !link.evict_message(memory) {
                        return false;
                    }
                }
                true
            }
            MemoryKind::Output => {
                with_transport!(self, entry, |kind, face, state| {
                    let shed = kind.shed(&mut self.shared, face, state, claim.keeps);
                    face.link.counters().dropped(LinkDropReason::QueueFull).add(shed.dropped);
                    shed.has_more
                })
            }
        }
    }

    /// What principals hold of the memory of the faces.
    #[must_use]
    pub fn memory(&self) -> MemoryReport {
        self.shared.memory.report()
    }

    /// Accepts packets from a shard. They go out with the next [`flush`](Self::flush).
    pub fn sink<'a>(&'a mut self, now: Timestamp, pool: &'a PacketPool) -> FaceSink<'a> {
        FaceSink { faces: self, pool, now }
    }

    /// When [`handle_timeouts`](Self::handle_timeouts) has something to do.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        [self.ports.next_deadline(), self.shared.deadlines.first()].into_iter().flatten().min()
    }

    /// Does what is due: expires incomplete messages, closes idle faces, connects again.
    pub fn handle_timeouts(&mut self, now: Timestamp, pool: &PacketPool) {
        let mut cx = TransportContext { shared: &mut self.shared, pool, now };
        self.ports.handle_timeouts(&mut cx, &mut self.faces);
        while let Some(index) = self.shared.deadlines.pop_due(now) {
            if let Err(reason) = self.handle_face_timeout(now, index, pool) {
                self.end_connection(now, index, reason, pool);
            }
        }
    }

    /// Returns the blocks that the set holds to `pool`, at the end of the worker. Packets that
    /// were received and not taken are lost.
    pub fn release_blocks(&mut self, pool: &PacketPool) {
        self.suspended = None;
        self.datagrams.release_blocks(pool);
        let Shared { receive_block, copy_block, .. } = &mut self.shared;
        for block in [receive_block.take(), copy_block.take()].into_iter().flatten() {
            pool.finish(block);
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
    ) -> Progress {
        debug_assert!(self.suspended.is_none(), "the last event is not finished");
        debug_assert!(event.token < WORKER_TOKEN_MIN, "not an event of a face");
        self.shared.report = ReadReport::default();
        let Some(source) = Source::of(event.token) else { return Progress::Done };
        let Self { shared, faces, .. } = self;
        let mut cx = TransportContext { shared, pool, now };
        let progress = match source {
            Source::Channel(id) => {
                self.datagrams.handle_channel_event(&mut cx, faces, id, event, sink)
            }
            Source::Port(id) => self.ports.handle_port_event(&mut cx, faces, id, event, sink),
            Source::Face(index) => {
                let Some(entry) = faces.get_mut(index) else { return Progress::Done };
                let result = with_transport!(self, entry, |kind, face, state| {
                    kind.handle_event(&mut cx, face, state, event, sink)
                });
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
    ) -> Progress {
        let Some(source) = self.suspended else { return Progress::Done };
        let Self { shared, faces, .. } = self;
        let mut cx = TransportContext { shared, pool, now };
        let progress = match source {
            Source::Channel(id) => self.datagrams.resume_channel(&mut cx, faces, id, sink),
            Source::Port(id) => self.ports.resume_port(&mut cx, faces, id, sink),
            Source::Face(index) => match faces.get_mut(index) {
                Some(entry) => {
                    let result = with_transport!(self, entry, |kind, face, state| {
                        kind.resume(&mut cx, face, state, sink)
                    });
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
        debug_assert!(self.suspended.is_none(), "the last event is not finished");
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
        self.suspended.is_some()
    }

    /// Whether the last read of an event did not find the end of its queue.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.shared.report.has_more
    }

    /// The UDP socket of the last event, if its queue is empty now.
    #[must_use]
    #[inline]
    pub fn drained_channel(&self) -> Option<ChannelId> {
        self.shared.report.drained
    }

    /// Sets the number of frames after which an event is done although there may be more. Those of one system call are
    /// taken in any case.
    pub fn set_frames_per_event(&mut self, frames: usize) {
        self.shared.frames_per_event = frames;
    }

    /// What the last event brought, if it was one of a UDP socket.
    #[must_use]
    #[inline]
    pub fn read_counts(&self) -> ReadCounts {
        self.shared.report.counts
    }

    /// Whether the source of an event has recently brought mostly Data and Nacks, and no Interests.
    #[must_use]
    pub fn is_upstream(&mut self, token: u64) -> bool {
        self.direction_mut(token).is_some_and(|direction| direction.is_upstream())
    }

    /// Notes that the source of an event has brought a Data or Nack (`is_answer`), or an Interest.
    pub fn note_direction(&mut self, token: u64, is_answer: bool) {
        if let Some(direction) = self.direction_mut(token) {
            direction.note(is_answer);
        }
    }

    fn direction_mut(&mut self, token: u64) -> Option<&mut TrafficDirection> {
        match Source::of(token)? {
            Source::Channel(id) => self.datagrams.direction_mut(id),
            Source::Port(id) => self.ports.direction_mut(id),
            Source::Face(index) => {
                let entry = self.faces.get_mut(index)?;
                // While a face connects, its events bring nothing.
                let is_down =
                    with_transport!(self, &mut *entry, |kind, _face, state| is_down(kind, state));
                (!is_down).then_some(&mut entry.face.direction)
            }
        }
    }
}

/// Streams and faces in memory.
impl FaceSet {
    /// Makes a face of a connected, non-blocking stream.
    ///
    /// # Errors
    /// If the slot of `index` is taken, or the poller does not take the stream.
    pub fn add_stream(
        &mut self,
        now: Timestamp,
        index: FaceIndex,
        stream: OwnedFd,
        options: &FaceOptions,
    ) -> io::Result<Arc<FaceCounters>> {
        self.register(index, &stream)?;
        let state = TransportState::Stream(StreamState::connected(stream));
        Ok(self.insert(now, index, state, options))
    }

    /// Makes a face of a connected, non-blocking stream on which a WebSocket handshake was made,
    /// with this host as the server.
    ///
    /// # Errors
    /// As for [`add_stream`](Self::add_stream).
    pub fn add_websocket(
        &mut self,
        now: Timestamp,
        index: FaceIndex,
        stream: OwnedFd,
        options: &FaceOptions,
    ) -> io::Result<Arc<FaceCounters>> {
        self.register(index, &stream)?;
        let state = TransportState::Stream(StreamState::websocket(now, stream));
        Ok(self.insert(now, index, state, options))
    }

    /// Makes the face of the forwarder's management of one end of a pair; the other end belongs to the control
    /// thread. It is read within [`set_internal_bytes_left`](Self::set_internal_bytes_left).
    ///
    /// # Errors
    /// If the slot of `index` is taken, or the poller does not take the waker.
    pub fn add_internal(
        &mut self,
        now: Timestamp,
        index: FaceIndex,
        mut end: InternalEnd,
        options: &FaceOptions,
    ) -> io::Result<Arc<FaceCounters>> {
        end.is_limited = true;
        self.add_memory(now, index, end, options)
    }

    /// Makes a face of one end of a pair; the other end belongs to the embedding program. Packets are
    /// fragmented to the MTU of `options`, as on a datagram face.
    ///
    /// # Errors
    /// If the slot of `index` is taken, or the poller does not take the waker.
    pub fn add_memory(
        &mut self,
        now: Timestamp,
        index: FaceIndex,
        end: InternalEnd,
        options: &FaceOptions,
    ) -> io::Result<Arc<FaceCounters>> {
        self.check_vacant(index)?;
        self.shared.poller.add_waker(end.waker(), Source::Face(index).token())?;
        Ok(self.insert(now, index, TransportState::Internal(end), options))
    }

    /// Limits what is read from internal faces from now on, in bytes of frames; the last frame may
    /// exceed it. Unread frames cause an event after the next call with more than 0. Without a call
    /// there is no limit.
    #[inline]
    pub fn set_internal_bytes_left(&mut self, bytes: usize) {
        self.internals.bytes_left = bytes;
        if bytes > 0 && self.internals.has_unread() {
            self.internals.remind(&mut self.faces);
        }
    }

    /// Whether frames were left unread because of the limit.
    #[must_use]
    #[inline]
    pub fn has_unread_internals(&self) -> bool {
        self.internals.has_unread()
    }

    /// What is left of the last limit.
    #[must_use]
    #[inline]
    pub fn internal_bytes_left(&self) -> usize {
        self.internals.bytes_left
    }
}

/// UDP.
impl FaceSet {
    /// Takes an unconnected UDP socket, to make faces on with
    /// [`add_datagram`](Self::add_datagram). If it `accepts`, peers without a face are reported
    /// as [`Progress::NewPeer`].
    ///
    /// # Errors
    /// If the poller does not take the socket.
    pub fn add_channel(
        &mut self,
        socket: UdpSocket,
        accepts: bool,
    ) -> io::Result<(ChannelId, Arc<ChannelCounters>)> {
        self.datagrams.open_channel(&mut self.shared, socket, None, accepts)
    }

    /// Closes a UDP socket and destroys its faces; returns them.
    pub fn remove_channel(&mut self, id: ChannelId, pool: &PacketPool) -> Vec<FaceIndex> {
        let mut faces = self.datagrams.close_channel(id, pool);
        faces.retain(|face| self.remove(*face, pool));
        self.forget_suspended(pool);
        faces
    }

    /// Makes a face for `peer` on a shared socket.
    ///
    /// # Errors
    /// If the slot of `index` is taken, there is no such channel, or `peer` has a face on it.
    pub fn add_datagram(
        &mut self,
        now: Timestamp,
        index: FaceIndex,
        channel: ChannelId,
        peer: SocketAddr,
        options: &FaceOptions,
    ) -> io::Result<Arc<FaceCounters>> {
        self.check_vacant(index)?;
        let state = self.datagrams.add_peer(channel, peer, index)?;
        Ok(self.insert(now, index, TransportState::Datagram(state), options))
    }

    /// Makes a face of a connected UDP socket.
    ///
    /// # Errors
    /// If the slot of `index` is taken, or the poller does not take the socket.
    pub fn add_connected_datagram(
        &mut self,
        now: Timestamp,
        index: FaceIndex,
        socket: UdpSocket,
        options: &FaceOptions,
    ) -> io::Result<Arc<FaceCounters>> {
        self.check_vacant(index)?;
        let state = self.datagrams.add_own(&mut self.shared, socket, None, index)?;
        Ok(self.insert(now, index, TransportState::Datagram(state), options))
    }

    /// Makes a face of a socket that has joined `group`: it receives from every member of the group.
    ///
    /// # Errors
    /// If the slot of `index` is taken, or the poller does not take the socket.
    pub fn add_group_datagram(
        &mut self,
        now: Timestamp,
        index: FaceIndex,
        socket: UdpSocket,
        group: SocketAddr,
        options: &FaceOptions,
    ) -> io::Result<Arc<FaceCounters>> {
        self.check_vacant(index)?;
        let state = self.datagrams.add_own(&mut self.shared, socket, Some(group), index)?;
        Ok(self.insert(now, index, TransportState::Datagram(state), options))
    }

    /// Gives a face on a shared socket a socket of its own to receive by, so that its packets are
    /// not queued behind those of other peers. It still sends by the shared socket.
    ///
    /// # Errors
    /// If there is no such face, or those of making a socket: the face works as before then.
    pub fn separate_input(&mut self, index: FaceIndex) -> io::Result<()> {
        let entry = self.faces.get_mut(index).ok_or(io::ErrorKind::NotFound)?;
        let TransportState::Datagram(state) = &mut entry.transport else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        self.datagrams.separate_input(&mut self.shared, index, state)
    }

    /// The face of `peer` on a shared socket, which a created face would duplicate.
    #[must_use]
    pub fn datagram_face(&self, channel: ChannelId, peer: SocketAddr) -> Option<FaceIndex> {
        self.datagrams.face_of_peer(channel, peer)
    }

    /// Gives what `peer` sends to a shared socket to [`RxSink::receive_remote`], since another
    /// worker has its face: the kernel distributes peers over the sockets of the workers without regard to faces.
    /// False if there is no such socket, or `peer` has a face on it.
    pub fn add_remote_peer(
        &mut self,
        channel: ChannelId,
        peer: SocketAddr,
        face: FaceIndex,
    ) -> bool {
        self.datagrams.add_peer(channel, peer, face).is_ok()
    }

    /// Undoes [`add_remote_peer`](Self::add_remote_peer): the face is gone.
    pub fn remove_remote_peer(&mut self, channel: ChannelId, peer: SocketAddr, face: FaceIndex) {
        self.datagrams.remove_peer(channel, peer, face);
    }
}

/// Ethernet.
impl FaceSet {
    /// Takes a network device, to make faces on with [`add_station`](Self::add_station). If it
    /// `accepts`, stations without a face are reported as [`Progress::NewStation`].
    ///
    /// # Errors
    /// If there is such a port already, or the poller does not take the socket.
    pub fn add_port(
        &mut self,
        port: PortId,
        options: PortOptions,
    ) -> io::Result<Arc<ChannelCounters>> {
        self.ports.add(&mut self.shared, port, options)
    }

    /// Makes a face for a station behind a network device, or for the group that its socket has
    /// joined.
    ///
    /// # Errors
    /// If the slot of `index` is taken, there is no such port, or there is such a face on it.
    pub fn add_station(
        &mut self,
        now: Timestamp,
        index: FaceIndex,
        port: PortId,
        mac: [u8; 6],
        options: &FaceOptions,
    ) -> io::Result<Arc<FaceCounters>> {
        self.check_vacant(index)?;
        // The face of another worker is gone: the caller knows that there is none.
        if self.station_face(port, mac).is_some_and(|known| self.contains(known)) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let state = self.ports.add_station(&mut self.shared, port, mac, index)?;
        Ok(self.insert(now, index, TransportState::Ethernet(state), options))
    }

    /// The face of a station on a network device, which a created face would duplicate. It may be known to be another
    /// worker's.
    #[must_use]
    pub fn station_face(&self, port: PortId, mac: [u8; 6]) -> Option<FaceIndex> {
        self.ports.get(port)?.face_of(mac)
    }

    /// The name of a network device, if one more station may have an on-demand face on it.
    #[must_use]
    pub fn port_for_new_station(&self, port: PortId) -> Option<Arc<str>> {
        self.ports.get(port)?.name_for_new_station()
    }

    /// Gives what a station sends to the queues of a network device, or what any station sends to its group (without
    /// `mac`), to [`RxSink::receive_remote`], since another worker has the face: the queues of a device are distributed
    /// over the workers. False if there is no such device, or the face is on it.
    pub fn add_remote_station(
        &mut self,
        port: PortId,
        mac: Option<[u8; 6]>,
        face: FaceIndex,
    ) -> bool {
        let Some(port) = self.ports.get_mut(port) else { return false };
        let known = match mac {
            Some(mac) => port.stations.get(&mac).copied(),
            None => port.group,
        };
        if known.is_some_and(|known| self.faces.contains(known)) {
            return false;
        }
        match mac {
            Some(mac) => _ = port.stations.insert(mac, face),
            None => port.group = Some(face),
        }
        true
    }

    /// Undoes [`add_remote_station`](Self::add_remote_station): the face is gone.
    pub fn remove_remote_station(&mut self, port: PortId, mac: Option<[u8; 6]>, face: FaceIndex) {
        let Some(port) = self.ports.get_mut(port) else { return };
        match mac {
            Some(mac) if port.stations.get(&mac) == Some(&face) => _ = port.stations.remove(&mac),
            None if port.group == Some(face) => port.group = None,
            Some(_) | None => {}
        }
    }

    /// Notes whether frames can go out of a network device. Its faces stay.
    pub fn set_port_state(&mut self, port: PortId, is_up: bool) {
        if !self.ports.set_state(port, is_up) {
            return;
        }
        let change = if is_up { FaceChange::Up } else { FaceChange::Down(CloseReason::NoLink) };
        for face in self.faces_on(port) {
            self.shared.report_change(face, change);
        }
    }

    /// Gives a port another socket: its device has another MTU or has come back. Without a socket,
    /// the device is gone: permanent faces of stations wait for it, others close.
    ///
    /// # Errors
    /// If there is no such port, or the poller does not take the socket.
    pub fn set_port_socket(
        &mut self,
        port: PortId,
        socket: Option<PortSocket>,
        pool: &PacketPool,
    ) -> io::Result<()> {
        self.close_port_socket(port, pool)?;
        match socket {
            Some(socket) => self.ports.set_socket(&mut self.shared, port, socket)?,
            None => {
                self.close_impermanent(port, pool);
                self.set_port_state(port, false);
            }
        }
        Ok(())
    }

    /// Takes the socket of a port away, whose faces wait for another one: a driver that has a device for
    /// itself releases it once [`take_unused_socket`](Self::take_unused_socket) is closed.
    ///
    /// # Errors
    /// If there is no such port.
    pub fn close_port_socket(&mut self, port: PortId, pool: &PacketPool) -> io::Result<()> {
        if self.suspended == Some(Source::Port(port)) {
            self.suspended = None;
        }
        self.ports.close_socket(&mut self.shared, port, pool)
    }

    /// A socket that is out of use, to be closed on another thread: for several queues, `close(2)` takes tens of
    /// milliseconds.
    pub fn take_unused_socket(&mut self) -> Option<PortSocket> {
        self.ports.take_unused_socket()
    }

    /// Notes the new address of a device.
    pub fn set_port_mac(&mut self, port: PortId, mac: [u8; 6]) {
        if let Some(port) = self.ports.get_mut(port) {
            port.set_mac(mac);
        }
    }

    /// Sets whether stations without a face are reported, and closes the face of the group if the group has changed.
    /// Faces of stations stay.
    pub fn set_port_purpose(
        &mut self,
        port: PortId,
        accepts: bool,
        leaves_group: bool,
        pool: &PacketPool,
    ) {
        let Some(changed) = self.ports.get_mut(port) else { return };
        changed.accepts = accepts;
        if let Some(group) = changed.group.take_if(|_| leaves_group)
            && self.contains(group)
        {
            self.close(group, CloseReason::InterfaceGone, pool);
        }
    }

    /// Gives up a network device and destroys its faces.
    pub fn remove_port(&mut self, port: PortId, pool: &PacketPool) {
        for index in self.faces_on(port) {
            self.close(index, CloseReason::InterfaceGone, pool);
        }
        self.ports.remove(&mut self.shared, port, pool);
        self.forget_suspended(pool);
    }

    fn close_impermanent(&mut self, port: PortId, pool: &PacketPool) {
        let group = self.ports.get(port).and_then(|port| port.group);
        for index in self.faces_on(port) {
            let stays = self.faces.face_mut(index).is_some_and(|face| face.is_permanent());
            if !stays || group == Some(index) {
                self.close(index, CloseReason::InterfaceGone, pool);
            }
        }
    }

    /// The faces on a port, except those of other workers.
    fn faces_on(&self, port: PortId) -> Vec<FaceIndex> {
        let mut faces = self.ports.get(port).map(|port| port.faces()).unwrap_or_default();
        faces.retain(|&face| self.contains(face));
        faces
    }
}

/// Shared memory.
impl FaceSet {
    /// Makes a face of shared memory, or of a connection in progress; in that case it is down at first.
    ///
    /// # Errors
    /// If the slot of `index` is taken, the poller does not take the descriptors, or the system has no
    /// means to raise interrupts.
    pub fn add_memif(
        &mut self,
        now: Timestamp,
        index: FaceIndex,
        end: MemifEnd,
        options: &FaceOptions,
    ) -> io::Result<Arc<FaceCounters>> {
        self.check_vacant(index)?;
        let state = self.memifs.open(&mut self.shared, now, index, end)?;
        let (is_up, longest) = (state.is_up(), Memifs::frame_length_max(&state));
        let counters = self.insert(now, index, TransportState::Memif(state), options);
        if let Some(face) = self.faces.face_mut(index) {
            face.set_link_options(longest);
        }
        if !is_up {
            let change = FaceChange::Down(CloseReason::Failed(io::ErrorKind::NotConnected));
            self.shared.report_change(index, change);
        }
        Ok(counters)
    }

    /// From now on, memif faces that bring frames raise no interrupts until
    /// [`stop_ring_polling`](Self::stop_ring_polling): the worker calls [`poll_rings`](Self::poll_rings) meanwhile.
    pub fn enable_ring_polling(&mut self) {
        self.memifs.enable_polling();
    }

    /// Whether there are rings to poll.
    #[must_use]
    #[inline]
    pub fn has_polled_rings(&self) -> bool {
        self.memifs.has_polled()
    }

    /// Adds an event for each polled face whose rings hold something, as long as there is room. Faces left out come
    /// first the next time.
    #[inline]
    pub fn poll_rings(&mut self, events: &mut Events) {
        self.memifs.poll(&mut self.faces, events);
    }

    /// Has all peers raise interrupts again. True if the rings hold something already; polling goes on then.
    pub fn stop_ring_polling(&mut self) -> bool {
        self.memifs.stop_polling(&mut self.faces)
    }

    /// Shows what was sent to peers that poll their rings too: that needs no system call, and they work while the
    /// worker continues. Peers that need an interrupt get it with [`flush`](Self::flush).
    #[inline]
    pub fn publish_rings(&mut self, now: Timestamp, pool: &PacketPool) {
        if !self.memifs.has_polled() {
            return;
        }
        let mut position = 0;
        while let Some(index) = self.memifs.next_unflushed_polling(&mut self.faces, &mut position) {
            self.flush_face(now, index, pool);
        }
    }
}

/// What all transports have in common.
impl FaceSet {
    fn check_vacant(&self, index: FaceIndex) -> io::Result<()> {
        match self.faces.is_taken(index) {
            true => Err(io::ErrorKind::AlreadyExists.into()),
            false => Ok(()),
        }
    }

    /// Adds the only descriptor of a new face to the poller.
    fn register(&self, index: FaceIndex, descriptor: &impl AsFd) -> io::Result<()> {
        self.check_vacant(index)?;
        self.shared.poller.add(descriptor, Source::Face(index).token(), Interest::Readable)
    }

    fn insert(
        &mut self,
        now: Timestamp,
        index: FaceIndex,
        transport: TransportState,
        options: &FaceOptions,
    ) -> Arc<FaceCounters> {
        // Far enough from the next face that their numbers do not meet.
        self.next_sequence = self.next_sequence.wrapping_add(1 << 40);
        let holder = self.shared.memory.attach(index, options.properties.principal);
        let face = Face::new(now, index, options, holder, self.next_sequence);
        let counters = Arc::clone(face.link.counters());
        self.faces.insert(FaceEntry { face, transport });
        self.arm(index);
        counters
    }

    /// Notes the next deadline of a face and its transport.
    fn arm(&mut self, index: FaceIndex) {
        let Some(entry) = self.faces.get_mut(index) else { return };
        with_transport!(self, entry, |kind, face, state| {
            let deadlines = [face.next_deadline(), next_deadline(kind, state)];
            self.shared.deadlines.arm(face, deadlines.into_iter().flatten().min());
        });
    }

    fn next_unflushed(&mut self) -> Option<FaceIndex> {
        let index = self.streams.next_unflushed();
        let index = index.or_else(|| self.internals.next_unflushed());
        index.or_else(|| self.memifs.next_unflushed())
    }

    fn flush_face(&mut self, now: Timestamp, index: FaceIndex, pool: &PacketPool) {
        let Some(entry) = self.faces.get_mut(index) else { return };
        entry.face.listed = false;
        let mut cx = TransportContext { shared: &mut self.shared, pool, now };
        let result =
            with_transport!(self, entry, |kind, face, state| kind.flush(&mut cx, face, state));
        if let Err(reason) = result {
            self.end_connection(now, index, reason, pool);
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
        with_transport!(self, entry, |kind, face, state| {
            kind.handle_timeout(&mut cx, face, state)?;
            if face.link.is_reliable() {
                kind.send(&mut cx, face, state, SendRequest::Due);
            }
        });
        self.arm(index);
        Ok(())
    }

    /// The progress of an event of a face, which closes for the reason of an error.
    fn progress_of(
        &mut self,
        now: Timestamp,
        index: FaceIndex,
        result: Result<Progress, CloseReason>,
        pool: &PacketPool,
    ) -> Progress {
        result.unwrap_or_else(|reason| {
            self.end_connection(now, index, reason, pool);
            Progress::Done
        })
    }

    fn note_progress(&mut self, source: Source, progress: Progress) -> Progress {
        self.suspended = progress.is_suspended().then_some(source);
        progress
    }

    /// Forgets what was read of a source that is gone.
    fn forget_suspended(&mut self, pool: &PacketPool) {
        match self.suspended {
            Some(Source::Face(index)) if !self.faces.contains(index) => {
                self.shared.skip_received();
            }
            Some(Source::Channel(id)) if !self.datagrams.contains(id) => {
                self.datagrams.release_blocks(pool);
            }
            Some(Source::Port(id)) if self.ports.get(id).is_none() => {}
            Some(_) | None => return,
        }
        self.suspended = None;
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
        let stays = with_transport!(self, entry, |kind, face, state| {
            kind.disconnect(&mut cx, face, state)
        });
        if stays {
            self.shared.report_change(index, FaceChange::Down(reason));
            self.arm(index);
        } else {
            self.close(index, reason, pool);
        }
    }

    /// Closes a face and reports it.
    fn close(&mut self, index: FaceIndex, reason: CloseReason, pool: &PacketPool) {
        self.remove(index, pool);
        self.shared.report_change(index, FaceChange::Closed(reason));
    }
}

impl AsFd for FaceSet {
    /// The poller's descriptor.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.poller.as_fd()
    }
}

fn is_down<K: Transport>(_kind: &K, state: &K::State) -> bool {
    K::is_down(state)
}

fn frame_length_max<K: Transport>(_kind: &K, state: &K::State) -> Option<usize> {
    K::frame_length_max(state)
}

fn next_deadline<K: Transport>(_kind: &K, state: &K::State) -> Option<Timestamp> {
    K::next_deadline(state)
}

impl Holds<Box<MemifState>> for TransportState {
    #[inline]
    fn state_mut(&mut self) -> Option<&mut Box<MemifState>> {
        match self {
            Self::Memif(state) => Some(state),
            Self::Stream(_) | Self::Datagram(_) | Self::Ethernet(_) | Self::Internal(_) => None,
        }
    }
}

impl Holds<InternalEnd> for TransportState {
    fn state_mut(&mut self) -> Option<&mut InternalEnd> {
        match self {
            Self::Internal(end) => Some(end),
            Self::Stream(_) | Self::Datagram(_) | Self::Ethernet(_) | Self::Memif(_) => None,
        }
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
        let Some(entry) = set.faces.get_mut(index) else {
            set.shared.calls.destroyed_face.increment();
            return;
        };
        let mut cx = TransportContext { shared: &mut set.shared, pool: self.pool, now: self.now };
        with_transport!(set, entry, |kind, face, state| {
            kind.send(&mut cx, face, state, SendRequest::Packet(packet));
            if face.link.is_reliable() {
                cx.shared.deadlines.arm(face, face.link.next_deadline());
            }
        });
    }
}
