//! UDP faces: many peers on one socket, or one peer on a connected socket.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use ndn_ring::{BLOCK_SIZE, FillBlock, PacketPool};
use ndn_sys::poll::{Event, Interest};
use ndn_sys::udp::{ReceiveBatch, UdpSocket, udp_route};
use ndn_table::FaceIndex;
use ndn_types::{FaceUri, PrincipalClass, PrincipalKey, Timestamp, duration_ns};

use crate::counters::{ChannelCounters, LinkDropReason};
use crate::datagram_queue::{DatagramQueue, DatagramSink, DatagramWriter, Destination, Target};
use crate::face::{Face, TrafficDirection, TransportFaces};
use crate::receive::{Progress, ReceivedFrame, RxSink, SocketDelay};
use crate::shared_output::SharedOutput;
use crate::source::{ChannelId, Sender, Source};
use crate::transport::{
    OnDemandPeer, SendRequest, Shared, Transport, TransportContext, TransportHandle,
};

/// The state of one UDP face.
#[derive(Debug)]
pub struct DatagramState {
    channel: ChannelId,
    /// `None` on a connected socket.
    peer: Option<SocketAddr>,
    /// A socket that is connected to the peer. It receives from the peer alone, and sends if the peer is a neighbour.
    own: Option<ChannelId>,
}

/// A UDP peer on the shared socket with this local address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct UdpPeer {
    /// The local address.
    pub local: SocketAddr,
    /// The peer.
    pub remote: SocketAddr,
}

/// A UDP face to be made.
#[derive(Debug)]
pub enum NewDatagram {
    /// A peer, on the shared socket that suits best: bound to the source address of the route, else to all
    /// addresses, else any of the address family.
    To(SocketAddr),
    /// A peer on a certain shared socket.
    Peer(UdpPeer),
    /// A connected socket of the face.
    Connected(UdpSocket),
    /// A socket that has joined a multicast group, and the group: the face receives from every member.
    Group(UdpSocket, SocketAddr),
}

/// All UDP sockets of a worker, and the faces on them.
#[derive(Debug, Default)]
pub struct Datagrams {
    channels: Vec<Option<Box<Channel>>>,
    input: Box<DatagramInput>,
    writer: DatagramWriter,
    unflushed: Vec<ChannelId>,
    /// Number of sockets opened so far.
    opened: u32,
}

impl Transport for Datagrams {
    type State = DatagramState;
    type New = NewDatagram;
    type Peer = UdpPeer;

    const KIND: u8 = 1;

    fn open(
        &mut self,
        shared: &mut Shared,
        _now: Timestamp,
        index: FaceIndex,
        new: NewDatagram,
    ) -> io::Result<DatagramState> {
        let (channel, peer) = match new {
            NewDatagram::Connected(socket) => {
                (self.open_channel(shared, socket, Some(index), false)?.0, None)
            }
            NewDatagram::Group(socket, group) => {
                (self.open_channel(shared, socket, Some(index), false)?.0, Some(group))
            }
            NewDatagram::To(remote) => return self.open_peer(self.peer_at(remote)?, index),
            NewDatagram::Peer(peer) => return self.open_peer(peer, index),
        };
        Ok(DatagramState { channel, peer, own: None })
    }

    fn resolve(&self, new: NewDatagram) -> io::Result<(NewDatagram, Option<UdpPeer>)> {
        let peer = match new {
            NewDatagram::To(remote) => self.peer_at(remote)?,
            NewDatagram::Peer(peer) => peer,
            NewDatagram::Connected(_) | NewDatagram::Group(..) => return Ok((new, None)),
        };
        Ok((NewDatagram::Peer(peer), Some(peer)))
    }

    fn handle_shared_event<T>(
        &mut self,
        cx: &mut TransportContext<'_>,
        faces: &mut TransportFaces<T>,
        number: u32,
        event: &Event,
        sink: &mut impl RxSink,
    ) -> Progress<UdpPeer> {
        let id = ChannelId(number);
        if event.writable
            && self.channel_mut(id).is_some_and(|channel| channel.output.waits_writable())
        {
            self.flush_channel(cx, faces, id);
        }
        if !event.readable {
            return Progress::Done;
        }
        self.input.begin_event(cx.shared.frames_per_event);
        match self.receive(cx, faces, id) {
            Call::Received => self.resume_shared(cx, faces, number, sink),
            Call::Nothing => Progress::Done,
            Call::NoBlock => Progress::NoBlock,
        }
    }

    fn resume_shared<T>(
        &mut self,
        cx: &mut TransportContext<'_>,
        faces: &mut TransportFaces<T>,
        number: u32,
        sink: &mut impl RxSink,
    ) -> Progress<UdpPeer> {
        let id = ChannelId(number);
        loop {
            if self.input.is_done() {
                if !self.input.reads_on() {
                    return Progress::Done;
                }
                match self.receive(cx, faces, id) {
                    Call::Received => {}
                    Call::Nothing => return Progress::Done,
                    Call::NoBlock => return Progress::NoBlock,
                }
            }
            let progress = self.take_message(cx, faces, id, sink);
            if progress != Progress::Done {
                return progress;
            }
        }
    }

    fn shared_direction_mut(&mut self, number: u32) -> Option<&mut TrafficDirection> {
        Some(&mut self.channel_mut(ChannelId(number))?.direction)
    }

    fn flush_shared<T>(&mut self, cx: &mut TransportContext<'_>, faces: &mut TransportFaces<T>) {
        while let Some(id) = self.unflushed.pop() {
            self.flush_channel(cx, faces, id);
        }
    }

    fn face_of(&self, peer: UdpPeer) -> Option<FaceIndex> {
        self.shared_at(peer.local)?.1.peers.get(&peer.remote).copied()
    }

    fn add_remote_peer(&mut self, peer: UdpPeer, face: FaceIndex) -> bool {
        let Some(id) = self.shared_at(peer.local).map(|(id, _)| id) else { return false };
        let channel = self.channel_mut(id);
        channel.map(|channel| channel.peers.insert(peer.remote, face)).is_some()
    }

    fn remove_remote_peer(&mut self, peer: UdpPeer, face: FaceIndex) {
        if let Some(id) = self.shared_at(peer.local).map(|(id, _)| id)
            && let Some(channel) = self.channel_mut(id)
        {
            channel.remove_peer(peer.remote, face);
        }
    }

    fn on_demand(&self, peer: UdpPeer) -> Option<(NewDatagram, OnDemandPeer)> {
        let found = OnDemandPeer {
            principal: PrincipalKey::remote(peer.remote),
            remote: FaceUri::udp(peer.remote),
            local: FaceUri::udp(peer.local),
            has_room: true,
            settings: None,
        };
        Some((NewDatagram::Peer(peer), found))
    }

    fn local_uri(&self, peer: UdpPeer) -> Option<FaceUri> {
        Some(FaceUri::udp(peer.local))
    }

    fn separate_input(
        &mut self,
        shared: &mut Shared,
        index: FaceIndex,
        state: &mut DatagramState,
    ) -> io::Result<()> {
        let sender = self.channel_mut(state.channel).ok_or(io::ErrorKind::NotFound)?;
        let Some(peer) = state.peer.filter(|_| state.own.is_none() && sender.owner.is_none())
        else {
            // It has one.
            return Ok(());
        };
        let socket = sender.socket.branch(peer)?;
        let (own, _) = self.open_channel(shared, socket, Some(index), false)?;
        if let Some(channel) = self.channel_mut(own) {
            channel.only = Some(peer);
        }
        state.own = Some(own);
        Ok(())
    }

    fn release_blocks(&mut self, pool: &PacketPool) {
        self.input.release(pool);
    }

    #[inline]
    fn send(
        &mut self,
        cx: &mut TransportContext<'_>,
        face: &mut Face,
        state: &mut DatagramState,
        outgoing: SendRequest<'_, '_>,
    ) {
        // While the kernel resolves addresses on the link of peers that do not answer, packets to them take the memory of the
        // shared socket, which then takes no others. A neighbour does not wait for that.
        let own = state.own.filter(|_| is_neighbour(face));
        let (id, peer) = own.map_or((state.channel, state.peer), |own| (own, None));
        let channel = self.channels.get_mut(id.0 as usize).and_then(Option::as_deref_mut);
        let Some(channel) = channel else { return };
        let principal = cx.shared.memory.principal(face.holder);
        let to = Destination { face: face.index, principal, target: Target::of(peer) };
        let bytes_max = face.link.options().queue_bytes_max;
        let tap = TransportContext::tap_point(&mut cx.shared.tap, cx.now, face.index);
        let sink = DatagramSink::new(&mut channel.output.queue, to, cx.pool, bytes_max, tap);
        let mut sink = sink.in_order(face.link.is_reliable());
        outgoing.encode(&mut face.link, cx.now, &mut sink);
        channel.output.list(id, &mut self.unflushed);
    }

    fn close(
        &mut self,
        shared: &mut Shared,
        pool: &PacketPool,
        face: &Face,
        state: &mut DatagramState,
    ) {
        if let Some(own) = state.own {
            self.close_channel(shared, own, pool);
        }
        let Some(channel) = self.channel_mut(state.channel) else { return };
        if channel.owner == Some(face.index) {
            self.close_channel(shared, state.channel, pool);
        } else if let Some(peer) = state.peer {
            channel.remove_peer(peer, face.index);
            channel.output.queue.forget_path(face.index);
        }
    }
}

impl<T> TransportHandle<'_, Datagrams, T> {
    /// Takes an unconnected UDP socket, which faces share: [`NewDatagram::To`]. If it `accepts`, peers without a face
    /// are reported as [`Progress::NewPeer`].
    ///
    /// # Errors
    /// If the poller does not take the socket.
    pub fn add_channel(
        &mut self,
        socket: UdpSocket,
        accepts: bool,
    ) -> io::Result<(ChannelId, Arc<ChannelCounters>)> {
        self.transport.open_channel(self.shared, socket, None, accepts)
    }
}

impl Datagrams {
    /// Takes a socket: that of many peers, or that of the face `owner`.
    fn open_channel(
        &mut self,
        shared: &mut Shared,
        socket: UdpSocket,
        owner: Option<FaceIndex>,
        accepts: bool,
    ) -> io::Result<(ChannelId, Arc<ChannelCounters>)> {
        let local = socket.local_address()?;
        let vacant = self.channels.iter().position(Option::is_none);
        let slot = vacant.unwrap_or(self.channels.len());
        let number = u32::try_from(slot).ok().filter(|slot| *slot < Source::NUMBER_COUNT_MAX);
        let id = ChannelId(number.ok_or(io::ErrorKind::OutOfMemory)?);
        shared.poller.add(&socket, source(id).token(), Interest::Readable)?;
        let mut opened = Box::new(Channel::new(socket, local, owner, accepts));
        self.opened = self.opened.wrapping_add(1);
        opened.opened = self.opened;
        let counters = Arc::clone(&opened.counters);
        if slot == self.channels.len() {
            self.channels.push(None);
        }
        self.channels[slot] = Some(opened);
        Ok((id, counters))
    }

    /// Closes the socket of one face. The poller forgets it.
    fn close_channel(&mut self, shared: &mut Shared, id: ChannelId, pool: &PacketPool) {
        let closed = self.channels.get_mut(id.0 as usize).and_then(Option::take);
        let Some(mut channel) = closed else { return };
        channel.output.discard(pool);
        if shared.forget_suspended(source(id)) {
            self.input.release(pool);
        }
    }

    /// The state of a face for a peer on a shared socket.
    fn open_peer(&mut self, peer: UdpPeer, face: FaceIndex) -> io::Result<DatagramState> {
        let (id, _) = self.shared_at(peer.local).ok_or(io::ErrorKind::NotFound)?;
        let channel = self.channel_mut(id).ok_or(io::ErrorKind::NotFound)?;
        channel.peers.insert(peer.remote, face);
        Ok(DatagramState { channel: id, peer: Some(peer.remote), own: None })
    }

    /// A peer on the shared socket to send to it by ([`NewDatagram::To`]).
    fn peer_at(&self, remote: SocketAddr) -> io::Result<UdpPeer> {
        let usable = || {
            let shared = self.shared_channels().map(|(_, channel)| channel.local);
            shared.filter(|local| local.is_ipv4() == remote.is_ipv4())
        };
        let reason = "UDP is not enabled for this address family";
        let first = usable().next().ok_or_else(|| io::Error::other(reason))?;
        if usable().count() == 1 {
            return Ok(UdpPeer { local: first, remote });
        }
        // The kernel is asked only where there is a choice.
        let source = udp_route(remote).ok().map(|route| route.source);
        let at_source = usable().find(|local| Some(local.ip()) == source);
        let at_all = || usable().find(|local| local.ip().is_unspecified());
        Ok(UdpPeer { local: at_source.or_else(at_all).unwrap_or(first), remote })
    }

    /// The shared socket with this local address.
    fn shared_at(&self, local: SocketAddr) -> Option<(ChannelId, &Channel)> {
        self.shared_channels().find(|(_, channel)| channel.local == local)
    }

    /// The sockets that faces share.
    fn shared_channels(&self) -> impl Iterator<Item = (ChannelId, &Channel)> {
        let channels = (0..).map(ChannelId).zip(&self.channels);
        let open = channels.filter_map(|(id, channel)| Some((id, channel.as_deref()?)));
        open.filter(|(_, channel)| channel.owner.is_none())
    }

    fn channel_mut(&mut self, id: ChannelId) -> Option<&mut Channel> {
        self.channels.get_mut(id.0 as usize)?.as_deref_mut()
    }

    /// One system call.
    fn receive<T>(
        &mut self,
        cx: &mut TransportContext<'_>,
        faces: &mut TransportFaces<T>,
        id: ChannelId,
    ) -> Call {
        let channel = self.channels.get_mut(id.0 as usize).and_then(Option::as_deref_mut);
        let Some(channel) = channel else { return Call::Nothing };
        let Shared { calls, report, .. } = &mut *cx.shared;
        calls.receive_calls.increment();
        match self.input.receive(channel, cx.pool) {
            Ok(true) => {
                report.has_more = self.input.has_more();
                report.drained = (!report.has_more).then_some(id);
                channel.delay_monitor.watch(cx.now, !report.has_more, &channel.socket);
                Call::Received
            }
            Ok(false) => Call::NoBlock,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                report.has_more = false;
                report.drained = Some(id);
                channel.delay_monitor.watch(cx.now, true, &channel.socket);
                Call::Nothing
            }
            Err(error) => {
                // Such as an ICMP message for something sent, of which reading leaves no trace in the socket.
                channel.counters.receive_errors.increment();
                if let Some(face) = channel.owner.and_then(|owner| faces.face_mut(owner)) {
                    cx.shared.report_unreachable(cx.now, face, error.kind());
                }
                Call::Nothing
            }
        }
    }

    /// Takes the datagrams of one message.
    fn take_message<T>(
        &mut self,
        cx: &mut TransportContext<'_>,
        faces: &mut TransportFaces<T>,
        id: ChannelId,
        sink: &mut impl RxSink,
    ) -> Progress<UdpPeer> {
        let Self { input, channels, .. } = self;
        if input.current().is_none() {
            let channel = channels.get_mut(id.0 as usize).and_then(Option::as_deref_mut);
            let Some(channel) = channel else {
                input.close();
                return Progress::Done;
            };
            if let Some(count) = input.kernel_count() {
                let new_drops = channel.count_drops(count);
                cx.shared.calls.socket_drops(channel.owner.is_some()).add(new_drops);
                cx.shared.report.counts.drops += new_drops;
            }
            let taken = input.taken;
            match input.open(channel, id, cx) {
                Opened::Nothing => {
                    cx.note_discarded();
                    return Progress::Done;
                }
                Opened::UnknownPeer(remote) => {
                    return Progress::NewPeer(UdpPeer { local: channel.local, remote });
                }
                Opened::Dropped(index, reason) => {
                    cx.note_discarded();
                    match faces.face_mut(index) {
                        Some(face) => face.note_arrival(cx.now, Some(reason)),
                        None => cx.shared.calls.bad_remote_frames.increment(),
                    }
                    return Progress::Done;
                }
                Opened::Message(index) => {
                    cx.shared.report.counts.datagrams += input.taken - taken;
                    if let Some(face) = faces.face_mut(index) {
                        face.note_arrival(cx.now, None);
                        cx.shared.note_reachable(cx.now, face);
                    }
                }
            }
        }
        let Some((face, datagram, block)) = input.current() else { return Progress::Done };
        loop {
            let length = datagram.length.min(block.filled().len());
            if length == 0 {
                break;
            }
            if sink.is_full() {
                return Progress::SinkFull;
            }
            cx.note_frame(length);
            let arrival = ReceivedFrame { length, ..datagram };
            if !cx.deliver_to(faces, face, arrival, block, sink) {
                break;
            }
        }
        input.close();
        Progress::Done
    }

    fn flush_channel<T>(
        &mut self,
        cx: &mut TransportContext<'_>,
        faces: &mut TransportFaces<T>,
        id: ChannelId,
    ) {
        let Self { channels, writer, .. } = self;
        let channel = channels.get_mut(id.0 as usize).and_then(Option::as_deref_mut);
        let Some(channel) = channel else { return };
        let mut unreachable = None;
        let refused = |index, error| {
            if let Some(face) = faces.face_mut(index) {
                face.link.counters().dropped(LinkDropReason::SendError).increment();
                // One at a time; the others are reported with what is sent to them next.
                if face.unreachable_since.is_none() {
                    unreachable = Some((index, error));
                }
            }
        };
        let socket = (&channel.socket, source(id));
        channel.output.flush(cx, socket, writer, &channel.counters, refused);
        if channel.output.queue.take_refusal() {
            unreachable = unreachable.or(channel.owner.zip(Some(io::ErrorKind::ConnectionRefused)));
        }
        if let Some((index, error)) = unreachable
            && let Some(face) = faces.face_mut(index)
        {
            cx.shared.report_unreachable(cx.now, face, error);
        }
    }
}

/// Whether a face is one of the configuration or of an operator. Others might have any number of sockets with queues of
/// their own.
fn is_neighbour(face: &Face) -> bool {
    face.options.properties.principal.class() == PrincipalClass::Neighbour
}

fn source(id: ChannelId) -> Source {
    Source::Shared { kind: Datagrams::KIND, number: id.0 }
}

/// Result of a system call that receives.
#[derive(Debug)]
enum Call {
    Received,
    Nothing,
    NoBlock,
}

/// A UDP socket and the faces on it.
#[derive(Debug)]
struct Channel {
    socket: UdpSocket,
    local: SocketAddr,
    /// The face that has the socket for itself.
    owner: Option<FaceIndex>,
    /// The only peer whose messages the owner takes.
    only: Option<SocketAddr>,
    /// The faces of a shared socket, those of other workers among them.
    peers: HashMap<SocketAddr, FaceIndex>,
    /// Whether peers without a face are reported.
    accepts: bool,
    /// Number of sockets opened until this one.
    opened: u32,
    output: SharedOutput,
    counters: Arc<ChannelCounters>,
    delay_monitor: QueueDelayMonitor,
    direction: TrafficDirection,
    /// The kernel's count of dropped messages, as last reported (`SO_RXQ_OVFL`).
    kernel_count: u32,
}

impl Channel {
    fn new(socket: UdpSocket, local: SocketAddr, owner: Option<FaceIndex>, accepts: bool) -> Self {
        let output = SharedOutput::new(DatagramQueue::new(socket.can_segment()));
        Self {
            socket,
            local,
            owner,
            only: None,
            peers: HashMap::new(),
            accepts,
            opened: 0,
            output,
            counters: Arc::default(),
            delay_monitor: QueueDelayMonitor::default(),
            direction: TrafficDirection::default(),
            kernel_count: 0,
        }
    }

    /// Counts the messages that the kernel has dropped since its last report, and returns their number. The kernel's
    /// count has 32 bits and wraps.
    fn count_drops(&mut self, kernel_count: u32) -> u64 {
        let new_drops = kernel_count.wrapping_sub(self.kernel_count);
        if new_drops > u32::MAX / 2 {
            // An older count, of a message that overtook another one on its way into the queue.
            return 0;
        }
        self.kernel_count = kernel_count;
        self.counters.kernel_drops.add(u64::from(new_drops));
        u64::from(new_drops)
    }

    /// Removes a peer, if `face` is its face.
    fn remove_peer(&mut self, peer: SocketAddr, face: FaceIndex) {
        if self.peers.get(&peer) == Some(&face) {
            self.peers.remove(&peer);
        }
    }

    /// The face of a message from `peer`.
    fn face_of(&self, peer: Option<SocketAddr>) -> Option<FaceIndex> {
        match self.owner {
            Some(owner) if self.only.is_none() || self.only == peer => Some(owner),
            Some(_) => None,
            None => self.peers.get(&peer?).copied(),
        }
    }
}

/// Time for which the queue of a socket must have been non-empty before queueing delay is measured.
const WATCH_AFTER: Duration = Duration::from_millis(1);
/// Time for which every read must have emptied the queue before measuring stops.
const FORGET_AFTER: Duration = Duration::from_secs(1);

/// Decides when queueing delay in a socket is measured.
///
/// While each read empties the queue, delay is negligible. Only after reads have not emptied it for
/// [`WATCH_AFTER`], the kernel is asked for time stamps, each of which costs it a clock reading.
#[derive(Debug, Default)]
struct QueueDelayMonitor {
    /// The last read that emptied the queue.
    emptied_at: Timestamp,
    /// The last read that did not.
    full_at: Timestamp,
    is_watched: bool,
}

impl QueueDelayMonitor {
    /// Notes a read. Returns whether delay is measured from now on, if that changes.
    #[inline]
    fn note(&mut self, now: Timestamp, was_emptied: bool) -> Option<bool> {
        if was_emptied {
            self.emptied_at = now;
            if !self.is_watched {
                return None;
            }
        } else {
            self.full_at = now;
        }
        self.change(now)
    }

    #[cold]
    fn change(&mut self, now: Timestamp) -> Option<bool> {
        let is_watched = if self.is_watched {
            now.since(self.full_at) < FORGET_AFTER
        } else {
            now.since(self.emptied_at) >= WATCH_AFTER
        };
        (is_watched != self.is_watched).then(|| {
            self.is_watched = is_watched;
            is_watched
        })
    }

    /// As [`note`](Self::note), and switches the time stamps of the kernel.
    #[inline]
    fn watch(&mut self, now: Timestamp, was_emptied: bool, socket: &UdpSocket) {
        if let Some(is_watched) = self.note(now, was_emptied) {
            // Without time stamps there is no delay to report, and Interests are not dropped for it.
            let _ = socket.set_time_stamps(is_watched);
        }
    }
}

/// Messages per system call at most. Each may hold many datagrams.
const SLOTS: usize = 16;
/// A block with less room than this, or than recent messages needed, is replaced.
const ROOM_MIN: usize = 2048;

/// Result of [`DatagramInput::open`].
#[derive(Debug)]
enum Opened {
    /// A message for a face, in the block of its slot.
    Message(FaceIndex),
    /// A message from a peer that has no face yet.
    UnknownPeer(SocketAddr),
    /// A message for a face that is dropped for this reason; it is skipped.
    Dropped(FaceIndex, LinkDropReason),
    /// A message without a face; it is skipped.
    Nothing,
}

/// A longer delay in a socket is taken for a step of the wall clock.
const DELAY_MAX_NS: u64 = 1_000_000_000;

/// Nanoseconds that a message was queued at this time of the wall clock, if that is plausible.
fn delay_ns(wall_ns: u64, received_at: Duration) -> Option<u64> {
    let delay_ns = wall_ns.checked_sub(u64::try_from(received_at.as_nanos()).ok()?)?;
    (delay_ns <= DELAY_MAX_NS).then_some(delay_ns)
}

/// The messages of one `recvmmsg`, and the blocks that they were received into.
///
/// A message may be 64 KiB long (datagrams joined by GRO), but a block should hold many short
/// messages. So each slot has two buffers: the rest of its block, and behind it a part of `spill`.
/// Only a message that needs both is copied, into a new block.
#[derive(Debug)]
struct DatagramInput {
    batch: ReceiveBatch,
    blocks: Vec<FillBlock>,
    spill: Vec<u8>,
    /// Messages received by the last call, and the next of them.
    count: usize,
    next: usize,
    /// The message whose datagrams are being taken: its face, and each datagram but the last.
    open: Option<(FaceIndex, ReceivedFrame)>,
    /// The unknown peer that sent message `next` has been reported.
    reported: bool,
    /// Decaying maximum of message lengths.
    recent_length: usize,
    /// Slots to offer to the next call: few while traffic is thin.
    slots: usize,
    /// The last call filled all slots that it was offered.
    was_full: bool,
    /// Datagrams taken for the current event, and messages dropped.
    taken: usize,
    /// Datagrams after which an event is done.
    taken_max: usize,
    /// The wall clock after the last call, nanoseconds, if it brought time stamps.
    wall_ns: Option<u64>,
}

impl Default for DatagramInput {
    fn default() -> Self {
        Self {
            batch: ReceiveBatch::with_capacity(SLOTS),
            blocks: Vec::with_capacity(SLOTS),
            spill: Vec::new(),
            count: 0,
            next: 0,
            open: None,
            reported: false,
            recent_length: ROOM_MIN,
            slots: 2,
            was_full: false,
            taken: 0,
            taken_max: 0,
            wall_ns: None,
        }
    }
}

impl DatagramInput {
    /// Receives from the socket of `channel`; `Ok(false)` if there is no block to receive into.
    fn receive(&mut self, channel: &Channel, pool: &PacketPool) -> io::Result<bool> {
        debug_assert!(self.is_done());
        self.count = 0;
        self.next = 0;
        self.prepare_blocks(pool);
        let slots = self.slots.min(self.blocks.len());
        if slots == 0 {
            return Ok(false);
        }
        if self.spill.is_empty() {
            // Zeroed lazily by the kernel: only what is spilled into takes memory.
            self.spill = vec![0; SLOTS * BLOCK_SIZE];
        }
        let buffers = self
            .blocks
            .iter_mut()
            .zip(self.spill.chunks_mut(BLOCK_SIZE))
            .map(|(block, spill)| [block.spare_mut(), spill])
            .take(slots);
        channel.counters.receive_calls.increment();
        self.count = self.batch.receive(channel.socket.as_fd(), buffers)?;
        self.wall_ns = None;
        self.was_full = self.count == slots;
        self.slots = if self.was_full { SLOTS.min(slots * 2) } else { 2.max(slots - 1) };
        Ok(true)
    }

    /// Begins an event, for which the socket is read until `taken_max` datagrams are taken or it is empty.
    fn begin_event(&mut self, taken_max: usize) {
        (self.taken, self.taken_max) = (0, taken_max);
    }

    /// Whether the last call may have left something.
    fn has_more(&self) -> bool {
        self.was_full
    }

    /// Whether to read again for the same event: the more datagrams are read before anything is written, the longer
    /// are the runs of equal length in which they leave (GSO).
    fn reads_on(&self) -> bool {
        self.was_full && self.taken < self.taken_max
    }

    fn prepare_blocks(&mut self, pool: &PacketPool) {
        let room = self.recent_length.max(ROOM_MIN);
        for slot in 0..self.slots {
            let used_up = match self.blocks.get(slot) {
                Some(block) if block.remaining() >= room => continue,
                Some(_) => true,
                None => false,
            };
            let Some(block) = pool.allocate_block() else { return self.blocks.truncate(slot) };
            if used_up {
                pool.finish(std::mem::replace(&mut self.blocks[slot], block));
            } else {
                self.blocks.push(block);
            }
        }
    }

    /// Number of messages that the kernel had dropped at this socket before the next one, modulo 2^32, if it
    /// reports that.
    #[inline]
    fn kernel_count(&self) -> Option<u32> {
        self.batch.message(self.next).dropped
    }

    /// Whether everything that was received has been taken.
    fn is_done(&self) -> bool {
        self.next == self.count
    }

    /// The message being taken, if there is one, and the block it lies in.
    fn current(&mut self) -> Option<(FaceIndex, ReceivedFrame, &mut FillBlock)> {
        let (face, datagram) = self.open?;
        Some((face, datagram, &mut self.blocks[self.next]))
    }

    /// Skips the next message. It counts, so that such messages do not hold the event up for ever.
    fn drop_message(&mut self) {
        self.taken += 1;
        self.close();
    }

    /// Ends the current message; what is left of it is skipped.
    fn close(&mut self) {
        if self.open.take().is_some() {
            let block = &mut self.blocks[self.next];
            block.skip(block.filled().len());
        }
        self.next += 1;
        self.reported = false;
    }

    /// Opens the next message. After [`Opened::UnknownPeer`] the caller may make a face and open
    /// again; a message that has no face then is skipped.
    fn open(&mut self, channel: &Channel, id: ChannelId, cx: &TransportContext<'_>) -> Opened {
        let message = self.batch.message(self.next);
        let Some(face) = channel.face_of(message.peer) else {
            let unknown = message.peer.filter(|_| channel.accepts && !self.reported);
            if let Some(peer) = unknown {
                self.reported = true;
                return Opened::UnknownPeer(peer);
            }
            channel.counters.no_face.increment();
            self.drop_message();
            return Opened::Nothing;
        };
        self.recent_length =
            message.length.max(self.recent_length - self.recent_length / 16).max(ROOM_MIN);
        if message.length == 0 {
            self.drop_message();
            return Opened::Dropped(face, LinkDropReason::Malformed);
        }
        // A message is truncated only if it is longer than any that UDP can carry.
        if message.truncated {
            self.drop_message();
            return Opened::Dropped(face, LinkDropReason::Truncated);
        }
        if !self.commit(message.length, cx.pool) {
            self.drop_message();
            return Opened::Dropped(face, LinkDropReason::NoBuffer);
        }
        let length = message.segment_length.unwrap_or(message.length).max(1);
        self.taken += message.length.div_ceil(length);
        // On a connected socket there is one peer, so there it makes no difference.
        let sender = message.peer.filter(|_| channel.owner.is_some()).map(Sender::Internet);
        let delay_ns = message.received_at.and_then(|at| self.delay_ns(at));
        let since = |delay_ns| Timestamp::from_nanos(cx.now.as_nanos().saturating_sub(delay_ns));
        let opened = channel.opened;
        let delay =
            delay_ns.map(|delay_ns| SocketDelay { channel: id, opened, since: since(delay_ns) });
        self.open = Some((face, ReceivedFrame { length, sender, delay }));
        Opened::Message(face)
    }

    /// Time that a message was queued until it was read, nanoseconds. One reading of the clock for each call.
    #[cold]
    #[expect(clippy::disallowed_methods, reason = "the kernel dates messages by its wall clock")]
    fn delay_ns(&mut self, received_at: Duration) -> Option<u64> {
        let wall_clock = || duration_ns(ndn_sys::clock::wall_clock());
        delay_ns(*self.wall_ns.get_or_insert_with(wall_clock), received_at)
    }

    /// Makes a received message part of its block, or moves it to a new one if it did not fit.
    fn commit(&mut self, length: usize, pool: &PacketPool) -> bool {
        let block = &mut self.blocks[self.next];
        let room = block.remaining();
        if length <= room {
            block.commit(length);
            return true;
        }
        let Some(mut fresh) = pool.allocate_block() else { return false };
        let spill = &self.spill[self.next * BLOCK_SIZE..][..length - room];
        let (front, back) = fresh.spare_mut()[..length].split_at_mut(room);
        front.copy_from_slice(&block.spare_mut()[..room]);
        back.copy_from_slice(spill);
        fresh.commit(length);
        pool.finish(std::mem::replace(block, fresh));
        true
    }

    /// Returns all blocks.
    fn release(&mut self, pool: &PacketPool) {
        self.blocks.drain(..).for_each(|block| pool.finish(block));
        (self.count, self.next, self.open) = (0, 0, None);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use ndn_sys::udp::UdpOptions;

    use super::*;

    #[test]
    fn drop_count_of_the_kernel_may_wrap() {
        let local = SocketAddr::from(([127, 0, 0, 1], 0));
        let socket = UdpSocket::new(&UdpOptions::bound_to(local)).unwrap();
        let mut channel = Channel::new(socket, local, None, false);
        let mut sum = 0;
        for (kernel_count, new_drops) in [
            (5, 5),
            (5, 0),
            (0x7FFF_FFFF, 0x7FFF_FFFA),
            (u32::MAX - 1, 0x7FFF_FFFF),
            (3, 5),
            (2, 0),
            (4, 1),
        ] {
            assert_eq!(channel.count_drops(kernel_count), new_drops, "{kernel_count}");
            sum += new_drops;
            assert_eq!(channel.counters.kernel_drops.value(), sum);
        }
        assert_eq!(sum, (1 << 32) + 4);
    }

    #[test]
    fn step_of_the_wall_clock_is_not_counted_as_queueing_delay() {
        let at = |millis: u64| Duration::from_millis(1_700_000_000_000 + millis);
        let wait = |from, to| {
            let wall_ns = u64::try_from(at(to).as_nanos()).unwrap_or(u64::MAX);
            delay_ns(wall_ns, at(from))
        };
        assert_eq!(wait(5, 5), Some(0));
        assert_eq!(wait(0, 30), Some(30_000_000));
        assert_eq!(wait(0, 1000), Some(DELAY_MAX_NS));
        assert_eq!(wait(0, 1001), None, "forwards");
        assert_eq!(wait(1, 0), None, "backwards");
    }

    fn at(micros: u64) -> Timestamp {
        Timestamp::from_nanos(5_000_000_000 + micros * 1000)
    }

    #[test]
    fn delay_is_measured_only_after_the_queue_was_not_emptied_for_a_while() {
        let mut monitor = QueueDelayMonitor::default();
        assert_eq!(monitor.note(at(0), true), None);
        for micros in (100..1000).step_by(100) {
            assert_eq!(monitor.note(at(micros), false), None, "a burst");
        }
        assert_eq!(monitor.note(at(1000), false), Some(true));
        assert_eq!(monitor.note(at(1100), false), None, "already on");
        assert_eq!(monitor.note(at(500_000), true), None, "kept on for a while");
        assert_eq!(monitor.note(at(600_000), false), None);
        assert_eq!(monitor.note(at(1_599_999), true), None);
        assert_eq!(monitor.note(at(1_600_000), true), Some(false));
        assert_eq!(monitor.note(at(1_600_100), false), None);
    }
}
