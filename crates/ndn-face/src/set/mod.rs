//! All faces of one worker.

mod close;
mod foreign;
mod internal;
mod memif;
mod port;
mod read_datagrams;
mod read_port;
mod read_stream;
mod read_websocket;
mod receive;
mod send;
mod sinks;
mod timers;

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use ndn_forwarding::RxFace;
use ndn_ring::{FillBlock, PacketPool};
use ndn_sys::interrupt::Interrupter;
use ndn_sys::poll::{Interest, Poller};
use ndn_sys::udp::UdpSocket;
use ndn_table::{FaceIndex, Timestamp};

use crate::datagram::{Channel, ChannelCounters, ChannelId, DatagramInput, DatagramWriter};
use crate::ether::{Port, PortId, PortSocket};
use crate::face::{Connection, Face, StreamTransport, Transport};
use crate::leaning::Leaning;
use crate::output::SpareQueues;
use crate::reconnect::ReconnectWaits;
use crate::tap::FrameTap;
use crate::websocket::WebSocket;
use crate::{
    Budget, CallCounters, CloseReason, FaceCounters, FaceEvent, FaceOptions, LinkService,
    Persistency,
};

pub use receive::{Heard, Progress, RxSink, Waited};
pub use send::FaceSink;

/// Poll tokens from here on are the worker's; those below belong to the [`FaceSet`].
pub const FOREIGN_TOKEN: u64 = 1 << 33;
/// Marks the token of a channel; the rest is its number. That of a face is its index.
const CHANNEL_TOKEN: u64 = 1 << 32;
/// Datagrams that are enough for one event, if nobody says otherwise.
const DATAGRAMS_PER_EVENT: usize = 512;
/// Of those, the ones that are network devices.
const PORT_NUMBER: u32 = 1 << 31;

/// Limits of a [`FaceSet`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaceSetOptions {
    /// Bytes that all output queues together may hold for peers that do not read. A face may
    /// always hold a few packets.
    pub output_bytes_max: usize,
    /// Bytes of messages in pieces on all faces together.
    pub reassembly_bytes_max: usize,
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
            first_sequence: 0,
            reconnect_waits: ReconnectWaits::default(),
        }
    }
}

/// The faces of one worker and what they share: the poller, buffers, limits and timers.
///
/// The worker waits on [`poller`](Self::poller), gives every event with a token below
/// [`FOREIGN_TOKEN`] to [`handle_event`](Self::handle_event), which puts packets into an
/// [`RxSink`]; runs the shard, which sends into [`sink`](Self::sink); and calls
/// [`flush`](Self::flush).
#[derive(Debug)]
pub struct FaceSet {
    poller: Poller,
    /// By slot of their index.
    faces: Vec<Option<Box<Face>>>,
    channels: Vec<Option<Box<Channel>>>,
    /// Those of many peers.
    shared_channels: Vec<ChannelId>,
    /// By their number.
    ports: Vec<Option<Box<Port>>>,
    /// Sockets of network devices that are out of use and not closed yet.
    unused_sockets: Vec<PortSocket>,
    /// The block that streams are read into.
    stream_block: Option<FillBlock>,
    /// The block that packets go to that do not lie in a receive block.
    copy_block: Option<FillBlock>,
    /// Taken out while it is worked on.
    datagrams: Option<Box<DatagramInput>>,
    /// What is being taken out of the receive blocks.
    pending: Option<receive::Pending>,
    writer: DatagramWriter,
    /// Wakes the peers of memif faces, once there is one.
    interrupter: Option<Interrupter>,
    /// Whether the rings of memif faces that bring frames are looked at without interrupts.
    polls_rings: bool,
    /// The faces whose rings are.
    polled: Vec<FaceIndex>,
    /// Output queues that no face uses.
    spare_queues: SpareQueues,
    /// Buffers for half frames that no face uses.
    spare_partials: Vec<Vec<u8>>,
    /// Where a flush that is cut short puts what is left; only its capacity lasts.
    scratch: Vec<u8>,
    /// Faces, channels and ports to flush.
    unflushed: Vec<FaceIndex>,
    unflushed_memifs: Vec<FaceIndex>,
    unflushed_channels: Vec<ChannelId>,
    unflushed_ports: Vec<PortId>,
    output_budget: Budget,
    reassembly_budget: Budget,
    /// When to try again to send from network devices whose drivers do not tell of room.
    port_deadlines: Vec<(Timestamp, PortId)>,
    /// One entry for each face that has a deadline.
    deadlines: BTreeSet<(Timestamp, FaceIndex)>,
    events: VecDeque<FaceEvent>,
    next_sequence: u64,
    reconnect_waits: ReconnectWaits,
    tap: Option<Box<dyn FrameTap>>,
    calls: Arc<CallCounters>,
    /// Where and since when the message has waited that is being taken, if that is known.
    waited: Option<Waited>,
    /// The last read has not found the end of its queue.
    has_more: bool,
    /// The UDP socket in which the last read has found that end.
    emptied: Option<ChannelId>,
    /// Datagrams that are enough for one event.
    datagrams_per_event: usize,
    internal_bytes_left: usize,
    /// Internal faces that were not read to their end.
    unread_internals: Vec<FaceIndex>,
    /// What the last event brought.
    heard: Heard,
}

impl FaceSet {
    /// No faces.
    ///
    /// # Errors
    /// Those of making a [`Poller`].
    pub fn new(options: &FaceSetOptions) -> io::Result<Self> {
        Ok(Self {
            poller: Poller::new()?,
            faces: Vec::new(),
            channels: Vec::new(),
            shared_channels: Vec::new(),
            ports: Vec::new(),
            unused_sockets: Vec::new(),
            stream_block: None,
            copy_block: None,
            datagrams: Some(Box::new(DatagramInput::new())),
            pending: None,
            writer: DatagramWriter::new(),
            interrupter: None,
            polls_rings: false,
            polled: Vec::new(),
            spare_queues: SpareQueues::default(),
            spare_partials: Vec::new(),
            scratch: Vec::new(),
            unflushed: Vec::new(),
            unflushed_memifs: Vec::new(),
            unflushed_channels: Vec::new(),
            unflushed_ports: Vec::new(),
            output_budget: Budget::new(options.output_bytes_max),
            reassembly_budget: Budget::new(options.reassembly_bytes_max),
            port_deadlines: Vec::new(),
            deadlines: BTreeSet::new(),
            events: VecDeque::new(),
            next_sequence: options.first_sequence,
            reconnect_waits: options.reconnect_waits,
            tap: None,
            calls: Arc::default(),
            waited: None,
            has_more: false,
            emptied: None,
            datagrams_per_event: DATAGRAMS_PER_EVENT,
            internal_bytes_left: usize::MAX,
            unread_internals: Vec::new(),
            heard: Heard::default(),
        })
    }

    /// Where to wait for events. The worker may add descriptors of its own, with tokens from
    /// [`FOREIGN_TOKEN`] on.
    #[must_use]
    pub fn poller(&self) -> &Poller {
        &self.poller
    }

    /// System calls of all sockets together.
    #[must_use]
    pub fn call_counters(&self) -> &Arc<CallCounters> {
        &self.calls
    }

    /// Shows every frame to `tap` from now on, or to nobody.
    pub fn set_tap(&mut self, tap: Option<Box<dyn FrameTap>>) {
        self.tap = tap;
    }

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
        self.check_vacant(index)?;
        self.poller.add(&stream, token_of(index), Interest::Readable)?;
        let connection = Connection::Up(stream);
        let transport =
            StreamTransport { connection, partial: Vec::new(), output: None, websocket: None };
        Ok(self.insert(now, index, Transport::Stream(transport), options))
    }

    /// Makes a face of a connected, non-blocking stream on which a WebSocket handshake was made,
    /// this being the server.
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
        let counters = self.add_stream(now, index, stream, options)?;
        if let Some(Face { transport: Transport::Stream(stream), .. }) =
            face_in(&mut self.faces, index)
        {
            stream.websocket = Some(Box::new(WebSocket::new(now)));
        }
        self.arm(index);
        Ok(counters)
    }

    /// Takes an unconnected UDP socket, to make faces on with
    /// [`add_datagram`](Self::add_datagram). If it `accepts`, peers that have no face are reported
    /// as [`Progress::NewPeer`].
    ///
    /// # Errors
    /// If the poller does not take the socket.
    pub fn add_channel(
        &mut self,
        socket: UdpSocket,
        accepts: bool,
    ) -> io::Result<(ChannelId, Arc<ChannelCounters>)> {
        let opened = self.open_channel(socket, None, accepts)?;
        self.shared_channels.push(opened.0);
        Ok(opened)
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
        let shared = self.channel_mut(channel).ok_or(io::ErrorKind::NotFound)?;
        if shared.owner.is_some() || shared.peers.contains_key(&peer) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        shared.peers.insert(peer, index);
        let transport = Transport::Datagram { channel, peer: Some(peer) };
        Ok(self.insert(now, index, transport, options))
    }

    /// Gives a face on a shared socket a socket of its own to receive on, so that what its peer
    /// sends does not wait behind what others send. It goes on sending by the shared one.
    ///
    /// # Errors
    /// If there is no such face, or those of making a socket: it then works as before.
    pub fn separate_input(&mut self, index: FaceIndex) -> io::Result<()> {
        let face = face_in(&mut self.faces, index).ok_or(io::ErrorKind::NotFound)?;
        if face.own_input.is_some() {
            return Ok(());
        }
        let Transport::Datagram { channel, peer: Some(peer) } = face.transport else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let shared = self.channels.get(channel.0 as usize).and_then(Option::as_deref);
        let socket = shared.ok_or(io::ErrorKind::NotFound)?.socket.branch(peer)?;
        let (input, _) = self.open_channel(socket, Some(index), false)?;
        if let Some(channel) = self.channel_mut(input) {
            channel.only = Some(peer);
        }
        if let Some(face) = face_in(&mut self.faces, index) {
            face.own_input = Some(input);
        }
        Ok(())
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
        let (channel, _) = self.open_channel(socket, Some(index), false)?;
        Ok(self.insert(now, index, Transport::Datagram { channel, peer: None }, options))
    }

    /// Makes a face of a socket that has joined `group`: it hears whoever sends to the group.
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
        let (channel, _) = self.open_channel(socket, Some(index), false)?;
        let transport = Transport::Datagram { channel, peer: Some(group) };
        Ok(self.insert(now, index, transport, options))
    }

    /// Changes the options of a face; `false` if there is no such face. One that has lost its
    /// connection and is no longer permanent closes, as in NFD.
    pub fn update(&mut self, index: FaceIndex, options: &FaceOptions, pool: &PacketPool) -> bool {
        let Some(face) = face_in(&mut self.faces, index) else { return false };
        face.rx = RxFace::new(index, &options.properties);
        face.options = *options;
        face.set_link_options();
        if face.is_down() && options.persistency != Persistency::Permanent {
            self.close(index, CloseReason::NotPermanent, pool);
            return true;
        }
        self.arm(index);
        true
    }

    /// Whether there is such a face.
    #[must_use]
    pub fn contains(&self, index: FaceIndex) -> bool {
        self.faces
            .get(index.slot() as usize)
            .is_some_and(|face| face.as_ref().is_some_and(|face| face.index == index))
    }

    /// The next thing that happened to a face by itself.
    pub fn poll_event(&mut self) -> Option<FaceEvent> {
        self.events.pop_front()
    }

    /// The face of `peer` on a shared socket, such as the one that a created face would double.
    #[must_use]
    pub fn datagram_face(&self, channel: ChannelId, peer: SocketAddr) -> Option<FaceIndex> {
        self.channels.get(channel.0 as usize)?.as_ref()?.peers.get(&peer).copied()
    }

    /// Gives up what was received from a channel and not taken.
    fn forget_pending(&mut self, channel: ChannelId, pool: &PacketPool) {
        if self.pending == Some(receive::Pending::Datagrams(channel)) {
            self.pending = None;
            if let Some(datagrams) = &mut self.datagrams {
                datagrams.release(pool);
            }
        }
    }

    fn check_vacant(&self, index: FaceIndex) -> io::Result<()> {
        match self.faces.get(index.slot() as usize) {
            Some(Some(_)) => Err(io::ErrorKind::AlreadyExists.into()),
            Some(None) | None => Ok(()),
        }
    }

    fn insert(
        &mut self,
        now: Timestamp,
        index: FaceIndex,
        transport: Transport,
        options: &FaceOptions,
    ) -> Arc<FaceCounters> {
        let counters = Arc::new(FaceCounters::default());
        counters.last_received_ns.set(now.as_nanos());
        // Far enough from the next face that their numbers do not meet.
        self.next_sequence = self.next_sequence.wrapping_add(1 << 40);
        let link = LinkService::new(options.link, Arc::clone(&counters), self.next_sequence);
        let slot = index.slot() as usize;
        if slot >= self.faces.len() {
            self.faces.resize_with(slot + 1, || None);
        }
        self.faces[slot] = Some(Box::new(Face {
            index,
            rx: RxFace::new(index, &options.properties),
            link,
            transport,
            options: *options,
            deadline: None,
            listed: false,
            leaning: Leaning::default(),
            own_input: None,
        }));
        self.arm(index);
        counters
    }

    fn open_channel(
        &mut self,
        socket: UdpSocket,
        owner: Option<FaceIndex>,
        accepts: bool,
    ) -> io::Result<(ChannelId, Arc<ChannelCounters>)> {
        let local = socket.local_address()?;
        let vacant = self.channels.iter().position(Option::is_none);
        let slot = vacant.unwrap_or(self.channels.len());
        let channel = ChannelId(u32::try_from(slot).map_err(|_| io::ErrorKind::OutOfMemory)?);
        self.poller.add(&socket, channel_token(channel), Interest::Readable)?;
        let opened = Box::new(Channel::new(socket, local, owner, accepts));
        let counters = Arc::clone(&opened.counters);
        if slot == self.channels.len() {
            self.channels.push(None);
        }
        self.channels[slot] = Some(opened);
        Ok((channel, counters))
    }

    fn channel_mut(&mut self, channel: ChannelId) -> Option<&mut Channel> {
        self.channels.get_mut(channel.0 as usize)?.as_deref_mut()
    }
}

fn token_of(index: FaceIndex) -> u64 {
    u64::from(index.to_bits())
}

fn channel_token(channel: ChannelId) -> u64 {
    CHANNEL_TOKEN | u64::from(channel.0)
}

fn port_token(port: PortId) -> u64 {
    CHANNEL_TOKEN | u64::from(PORT_NUMBER | port.0)
}

/// The network device that the number in a token stands for.
fn port_of(number: u32) -> Option<PortId> {
    (number & PORT_NUMBER != 0).then_some(PortId(number & !PORT_NUMBER))
}

/// The face `index`, if it still exists.
#[inline]
fn face_in(faces: &mut [Option<Box<Face>>], index: FaceIndex) -> Option<&mut Face> {
    let face = faces.get_mut(index.slot() as usize)?.as_deref_mut()?;
    (face.index == index).then_some(face)
}

impl AsFd for FaceSet {
    /// The poller's descriptor.
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.poller.as_fd()
    }
}
