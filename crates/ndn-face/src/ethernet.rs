//! Ethernet faces: stations and a group behind one network device (a port).

mod socket;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use ndn_ring::{BLOCK_SIZE, CopyBlock, PacketPool};
use ndn_sys::packet::{Delivery, LinkAddress};
use ndn_sys::poll::{Event, Interest};
use ndn_table::FaceIndex;
use ndn_types::{FaceUri, PrincipalIndex, PrincipalKey, Timestamp};

use crate::counters::{ChannelCounters, LinkDropReason};
use crate::datagram_queue::{
    DatagramQueue, DatagramSink, DatagramWriter, Destination, SendCounters, Target,
};
use crate::event::{CloseReason, FaceChange};
use crate::face::{Face, HasState, TrafficDirection, TransportFaces};
use crate::output::Flushed;
use crate::padding::without_padding;
use crate::receive::{Progress, ReceivedFrame, RxSink};
use crate::shared_output::SharedOutput;
use crate::source::{PortId, Sender, Source};
use crate::transport::{
    FacePlacement, OnDemandPeer, OnDemandSettings, SendRequest, Shared, Transport,
    TransportContext, TransportHandle, close_face,
};

pub use socket::PortSocket;

/// The EtherType of NDN.
pub const ETHER_TYPE: u16 = 0x8624;
/// Stations that may have on-demand faces on one device, over all workers: source addresses can be forged.
pub const ON_DEMAND_STATIONS_MAX: usize = 4096;
/// Frames taken for one event, even if the worker asks for fewer.
const FRAMES_PER_EVENT_MIN: usize = 64;
/// Time until the next attempt when there is no free memory for frames.
const RETRY_AFTER: Duration = Duration::from_millis(1);

/// A network device and how faces on it are made.
#[derive(Debug)]
pub struct PortOptions {
    /// Its name.
    pub name: Arc<str>,
    /// The socket on it; none while there is no such device.
    pub socket: Option<PortSocket>,
    /// Frames can go out.
    pub is_up: bool,
    /// Whether stations without a face are reported.
    pub accepts: bool,
    /// Other workers have queues of the device, too, and perhaps the faces of stations that reach ours.
    pub has_others: bool,
    /// Settings of on-demand faces of stations.
    pub on_demand: OnDemandSettings,
}

/// A station behind a network device, or the group that its socket has joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StationPeer {
    /// The device.
    pub port: PortId,
    /// The address of the station; `None` for the group.
    pub mac: Option<[u8; 6]>,
}

/// A face for a station behind a network device, or for the group that its socket has joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewStation {
    /// The device.
    pub port: PortId,
    /// The address of the station or the group.
    pub mac: [u8; 6],
}

impl NewStation {
    /// The peer of the face.
    #[must_use]
    pub fn peer(self) -> StationPeer {
        StationPeer { port: self.port, mac: Some(self.mac).filter(|mac| !is_group(*mac)) }
    }
}

/// The state of one Ethernet face: a station or a group behind a device.
#[derive(Debug)]
pub struct StationState {
    port: PortId,
    mac: [u8; 6],
}

/// All network devices of a worker, and the faces on them.
#[derive(Debug, Default)]
pub struct Ports {
    /// By their number.
    ports: Vec<Option<Box<Port>>>,
    /// Sockets that are out of use and not closed yet.
    unused_sockets: Vec<PortSocket>,
    /// When to try again to send by drivers that do not report room.
    deadlines: Vec<(Timestamp, PortId)>,
    writer: DatagramWriter,
    unflushed: Vec<PortId>,
}

impl Transport for Ports {
    type State = StationState;
    type New = NewStation;
    type Peer = StationPeer;

    const KIND: u8 = 2;

    /// Reports the face as down if the device is.
    fn open(
        &mut self,
        shared: &mut Shared,
        _now: Timestamp,
        index: FaceIndex,
        new: NewStation,
    ) -> io::Result<StationState> {
        let port = self.get_mut(new.port).ok_or(io::ErrorKind::NotFound)?;
        port.set_face(new.peer().mac, index);
        port.own_count += usize::from(!is_group(new.mac));
        if !port.is_up {
            shared.report_change(index, FaceChange::Down(CloseReason::NoLink));
        }
        Ok(StationState { port: new.port, mac: new.mac })
    }

    fn placement(new: &NewStation) -> FacePlacement {
        FacePlacement::Device(new.port)
    }

    fn resolve(&self, new: NewStation) -> io::Result<(NewStation, Option<StationPeer>)> {
        Ok((new, Some(new.peer())))
    }

    fn handle_shared_event<T>(
        &mut self,
        cx: &mut TransportContext<'_>,
        faces: &mut TransportFaces<T>,
        number: u32,
        event: &Event,
        sink: &mut impl RxSink,
    ) -> Progress<StationPeer> {
        let id = PortId(number);
        let Some(port) = self.get_mut(id) else { return Progress::Done };
        if event.closed
            && let Some(socket) = &port.socket
            && socket.take_error().is_err()
        {
            // The device went down, which the control thread learns by netlink.
            port.counters.receive_errors.increment();
        }
        if event.writable && port.output.waits_writable() {
            self.flush_port(cx, faces, id);
        }
        if !event.readable {
            return Progress::Done;
        }
        let Some(port) = self.get_mut(id) else { return Progress::Done };
        port.frames_left = cx.shared.frames_per_event.max(FRAMES_PER_EVENT_MIN);
        port.counters.receive_calls.increment();
        cx.shared.calls.receive_calls.increment();
        self.resume_shared(cx, faces, number, sink)
    }

    /// Takes frames out of the receive ring of a device.
    fn resume_shared<T>(
        &mut self,
        cx: &mut TransportContext<'_>,
        faces: &mut TransportFaces<T>,
        number: u32,
        sink: &mut impl RxSink,
    ) -> Progress<StationPeer> {
        let id = PortId(number);
        let Some(port) = self.get_mut(id) else { return Progress::Done };
        loop {
            if port.frames_left == 0 {
                cx.shared.report.has_more = true;
                return Progress::Done;
            }
            match port.next_frame(&mut cx.shared.receive_block, cx.pool, sink.is_full()) {
                NextFrame::None => {
                    cx.shared.report.has_more = false;
                    return Progress::Done;
                }
                NextFrame::Skip => {
                    port.counters.no_face.increment();
                    port.release();
                    cx.note_discarded();
                }
                NextFrame::UnknownPeer(mac) => {
                    port.reported = true;
                    return Progress::NewPeer(StationPeer { port: id, mac });
                }
                NextFrame::Invalid(face, reason) => {
                    port.release();
                    cx.note_discarded();
                    match faces.face_mut(face) {
                        Some(face) => face.note_arrival(cx.now, Some(reason)),
                        // Only packets are handed over to the worker that has the face.
                        None => cx.shared.calls.bad_remote_frames.increment(),
                    }
                }
                NextFrame::SinkFull => return Progress::SinkFull,
                NextFrame::NoBlock => return Progress::NoBlock,
                NextFrame::Copied { face, sender, length } => {
                    port.release();
                    let mut blocks = std::mem::take(&mut cx.shared.receive_block);
                    let Some(block) = blocks.current() else { continue };
                    if let Some(face) = faces.face_mut(face) {
                        face.note_arrival(cx.now, None);
                    }
                    cx.note_frame(length);
                    let arrival = ReceivedFrame { length, sender, delay: None };
                    cx.deliver_to(faces, face, arrival, block, sink);
                    cx.shared.receive_block = blocks;
                }
            }
        }
    }

    #[inline]
    fn send(
        &mut self,
        cx: &mut TransportContext<'_>,
        face: &mut Face,
        station: &mut StationState,
        outgoing: SendRequest<'_, '_>,
    ) {
        let id = station.port;
        let port = self.ports.get_mut(id.0 as usize).and_then(Option::as_deref_mut);
        let Some(port) = port else { return };
        let principal = cx.shared.memory.principal(face.holder);
        let to = port.destination(face.index, principal, station.mac);
        let Some(to) = to.filter(|_| port.is_up) else {
            return outgoing.drop_while_down(&mut face.link, cx.now);
        };
        let bytes_max = face.link.options().queue_bytes_max;
        let tap = TransportContext::tap_point(&mut cx.shared.tap, cx.now, face.index);
        let mut sink = DatagramSink::new(&mut port.output.queue, to, cx.pool, bytes_max, tap);
        outgoing.encode(&mut face.link, cx.now, &mut sink);
        port.output.list(id, &mut self.unflushed);
    }

    fn close(
        &mut self,
        _shared: &mut Shared,
        _pool: &PacketPool,
        face: &Face,
        station: &mut StationState,
    ) {
        let Some(port) = self.get_mut(station.port) else { return };
        let peer = NewStation { port: station.port, mac: station.mac }.peer();
        let is_known = port.remove_face(peer.mac, face.index);
        port.own_count -= usize::from(is_known && peer.mac.is_some());
    }

    fn shared_direction_mut(&mut self, number: u32) -> Option<&mut TrafficDirection> {
        Some(&mut self.get_mut(PortId(number))?.direction)
    }

    fn flush_shared<T>(&mut self, cx: &mut TransportContext<'_>, faces: &mut TransportFaces<T>) {
        while let Some(port) = self.unflushed.pop() {
            self.flush_port(cx, faces, port);
        }
    }

    fn next_shared_deadline(&self) -> Option<Timestamp> {
        self.deadlines.iter().map(|(deadline, _)| *deadline).min()
    }

    /// Tries again to send where that is due.
    fn handle_shared_timeouts<T>(
        &mut self,
        cx: &mut TransportContext<'_>,
        faces: &mut TransportFaces<T>,
    ) {
        let now = cx.now;
        let is_due = |(deadline, _): &(Timestamp, PortId)| *deadline <= now;
        while let Some(due) = self.deadlines.iter().position(is_due) {
            let (_, port) = self.deadlines.swap_remove(due);
            self.flush_port(cx, faces, port);
        }
    }

    fn face_of(&self, peer: StationPeer) -> Option<FaceIndex> {
        self.get(peer.port)?.face_of(peer.mac)
    }

    fn add_remote_peer(&mut self, peer: StationPeer, face: FaceIndex) -> bool {
        let port = self.get_mut(peer.port);
        port.map(|port| port.set_face(peer.mac, face)).is_some()
    }

    fn remove_remote_peer(&mut self, peer: StationPeer, face: FaceIndex) {
        if let Some(port) = self.get_mut(peer.port) {
            port.remove_face(peer.mac, face);
        }
    }

    /// The face of a group is never made on demand. Of the faces of other workers, only those count here whose stations
    /// have reached this worker.
    fn on_demand(&self, peer: StationPeer) -> Option<(NewStation, OnDemandPeer)> {
        let (port, mac) = (self.get(peer.port)?, peer.mac?);
        let found = OnDemandPeer {
            principal: PrincipalKey::station(mac),
            remote: FaceUri::ethernet(mac),
            local: FaceUri::device(&port.name),
            has_room: port.own_count < ON_DEMAND_STATIONS_MAX,
            settings: Some(port.on_demand),
        };
        Some((NewStation { port: peer.port, mac }, found))
    }

    fn local_uri(&self, peer: StationPeer) -> Option<FaceUri> {
        Some(FaceUri::device(&self.get(peer.port)?.name))
    }

    fn device_of(peer: StationPeer) -> Option<PortId> {
        peer.mac.map(|_| peer.port)
    }
}

impl<T: HasState<StationState>> TransportHandle<'_, Ports, T> {
    /// Takes a network device, to make faces on: [`NewStation`]. If it accepts, stations without a face are reported
    /// as [`Progress::NewPeer`].
    ///
    /// # Errors
    /// If there is such a port already, or the poller does not take the socket.
    pub fn add(&mut self, id: PortId, options: PortOptions) -> io::Result<Arc<ChannelCounters>> {
        let slot = id.0 as usize;
        if id.0 >= PortId::COUNT_MAX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let ports = &mut *self.transport;
        if ports.get(id).is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if let Some(socket) = &options.socket {
            register(self.shared, socket, id)?;
        }
        if slot >= ports.ports.len() {
            ports.ports.resize_with(slot + 1, || None);
        }
        let added = ports.ports[slot].insert(Box::new(Port::new(options)));
        Ok(Arc::clone(&added.counters))
    }

    /// Notes whether frames can go out of a network device. Its faces stay.
    pub fn set_state(&mut self, id: PortId, is_up: bool) {
        let port = self.transport.get_mut(id);
        if port.is_none_or(|port| std::mem::replace(&mut port.is_up, is_up) == is_up) {
            return;
        }
        let change = if is_up { FaceChange::Up } else { FaceChange::Down(CloseReason::NoLink) };
        for face in self.faces_on(id) {
            self.shared.report_change(face, change);
        }
    }

    /// Gives a port another socket: its device has another MTU or has come back. Without a socket,
    /// the device is gone: permanent faces of stations wait for it, others close.
    ///
    /// # Errors
    /// If there is no such port, or the poller does not take the socket.
    pub fn set_socket(
        &mut self,
        id: PortId,
        socket: Option<PortSocket>,
        pool: &PacketPool,
    ) -> io::Result<()> {
        self.close_socket(id, pool)?;
        if let Some(socket) = socket {
            register(self.shared, &socket, id)?;
            if let Some(port) = self.transport.get_mut(id) {
                port.socket = Some(socket);
            }
            return Ok(());
        }
        let group = self.transport.get(id).and_then(|port| port.group);
        for index in self.faces_on(id) {
            let stays = self.faces.face_mut(index).is_some_and(|face| face.is_permanent());
            if !stays || group == Some(index) {
                close_face(self, index, CloseReason::InterfaceGone, pool);
            }
        }
        self.set_state(id, false);
        Ok(())
    }

    /// Takes the socket of a port away, whose faces wait for another one: a driver that has a device for
    /// itself releases it once [`take_unused_socket`](Self::take_unused_socket) is closed.
    ///
    /// # Errors
    /// If there is no such port.
    pub fn close_socket(&mut self, id: PortId, pool: &PacketPool) -> io::Result<()> {
        self.shared.forget_suspended(source(id));
        let port = self.transport.get_mut(id).ok_or(io::ErrorKind::NotFound)?;
        port.output.discard(pool);
        port.reported = false;
        let socket = port.socket.take();
        self.retire(socket);
        Ok(())
    }

    /// A socket that is out of use, to be closed on another thread: for several queues, `close(2)` takes tens of
    /// milliseconds.
    pub fn take_unused_socket(&mut self) -> Option<PortSocket> {
        self.transport.unused_sockets.pop()
    }

    /// Notes the new address of a device.
    pub fn set_mac(&mut self, id: PortId, mac: [u8; 6]) {
        let port = self.transport.get_mut(id);
        if let Some(socket) = port.and_then(|port| port.socket.as_mut()) {
            socket.set_mac(mac);
        }
    }

    /// Changes the settings of on-demand faces that are made from now on.
    pub fn set_on_demand(&mut self, id: PortId, settings: OnDemandSettings) {
        if let Some(port) = self.transport.get_mut(id) {
            port.on_demand = settings;
        }
    }

    /// Sets whether stations without a face are reported, and closes the face of the group if the group has changed.
    /// Faces of stations stay.
    pub fn set_purpose(
        &mut self,
        id: PortId,
        accepts: bool,
        leaves_group: bool,
        pool: &PacketPool,
    ) {
        let Some(port) = self.transport.get_mut(id) else { return };
        port.accepts = accepts;
        if let Some(group) = port.group.take_if(|_| leaves_group)
            && self.faces.contains(group)
        {
            close_face(self, group, CloseReason::InterfaceGone, pool);
        }
    }

    /// Gives up a network device and destroys its faces.
    pub fn remove(&mut self, id: PortId, pool: &PacketPool) {
        for index in self.faces_on(id) {
            close_face(self, index, CloseReason::InterfaceGone, pool);
        }
        let removed = self.transport.ports.get_mut(id.0 as usize).and_then(Option::take);
        if let Some(mut removed) = removed {
            removed.output.discard(pool);
            self.retire(removed.socket.take());
        }
        self.shared.forget_suspended(source(id));
    }

    /// The faces on a port, except those of other workers.
    fn faces_on(&self, id: PortId) -> Vec<FaceIndex> {
        let mut faces = self.transport.get(id).map(Port::faces).unwrap_or_default();
        faces.retain(|&face| self.faces.contains(face));
        faces
    }

    fn retire(&mut self, socket: Option<PortSocket>) {
        let Some(socket) = socket else { return };
        for descriptor in socket.descriptors() {
            // It was added when the port got it.
            let removed = self.shared.poller.remove(descriptor);
            debug_assert!(removed.is_ok(), "the sockets of a port are in the poller");
        }
        self.transport.unused_sockets.push(socket);
    }
}

impl Ports {
    fn get(&self, id: PortId) -> Option<&Port> {
        self.ports.get(id.0 as usize)?.as_deref()
    }

    fn get_mut(&mut self, id: PortId) -> Option<&mut Port> {
        self.ports.get_mut(id.0 as usize)?.as_deref_mut()
    }

    fn flush_port<T>(
        &mut self,
        cx: &mut TransportContext<'_>,
        faces: &mut TransportFaces<T>,
        id: PortId,
    ) {
        let Self { ports, deadlines, writer, .. } = self;
        let port = ports.get_mut(id.0 as usize).and_then(Option::as_deref_mut);
        let Some(port) = port else { return };
        port.output.unlist();
        let Some(socket) = &mut port.socket else { return port.output.queue.discard(cx.pool) };
        let mut refused = |index| {
            if let Some(face) = faces.face_mut(index) {
                face.link.counters().dropped(LinkDropReason::SendError).increment();
            }
        };
        let (output, counters) = (&mut port.output, &port.counters);
        let frames = SendCounters { channel: counters, calls: &cx.shared.calls };
        // The socket stays writable while its ring has room, even if all memory for frames is in use, so that the
        // kernel does not report when some is free.
        let retry = match socket {
            PortSocket::Packet(socket) => {
                let refused = |index, _| refused(index);
                return output.flush(cx, (&*socket, source(id)), writer, counters, refused);
            }
            PortSocket::Xdp(xdp) => output.queue.flush_frames(&mut **xdp, cx.pool, frames, refused),
            PortSocket::Own(own) => output.queue.flush_frames(&mut **own, cx.pool, frames, refused),
        };
        if retry == Flushed::Blocked && !deadlines.iter().any(|(_, other)| *other == id) {
            deadlines.push((cx.now.plus(RETRY_AFTER), id));
        }
    }
}

/// Adds the descriptors of a port's socket to the poller.
fn register(shared: &mut Shared, socket: &PortSocket, port: PortId) -> io::Result<()> {
    let token = source(port).token();
    let mut descriptors = socket.descriptors();
    descriptors.try_for_each(|one| shared.poller.add(one, token, Interest::Readable))
}

fn source(id: PortId) -> Source {
    Source::Shared { kind: Ports::KIND, number: id.0 }
}

/// Result of the examination of the next frame.
enum NextFrame {
    None,
    /// It has no face here.
    Skip,
    /// It came from a station that has no face yet, or (without an address) to the group, whose face another worker
    /// may have.
    UnknownPeer(Option<[u8; 6]>),
    /// It is for this face, and holds no packet.
    Invalid(FaceIndex, LinkDropReason),
    /// It is for this face; the `length` bytes of its packet were copied.
    Copied {
        face: FaceIndex,
        sender: Option<Sender>,
        length: usize,
    },
    SinkFull,
    NoBlock,
}

/// A network device and the faces on it.
#[derive(Debug)]
struct Port {
    name: Arc<str>,
    socket: Option<PortSocket>,
    is_up: bool,
    accepts: bool,
    has_others: bool,
    on_demand: OnDemandSettings,
    /// The face of the group that the socket has joined: ours, or known to be another worker's.
    group: Option<FaceIndex>,
    /// Likewise.
    stations: HashMap<[u8; 6], FaceIndex>,
    /// Stations whose faces are ours.
    own_count: usize,
    output: SharedOutput,
    /// The unknown station that sent the next frame has been reported.
    reported: bool,
    /// Frames left for the current event.
    frames_left: usize,
    counters: Arc<ChannelCounters>,
    direction: TrafficDirection,
}

impl Port {
    fn new(options: PortOptions) -> Self {
        let PortOptions { name, socket, is_up, accepts, has_others, on_demand } = options;
        Self {
            name,
            socket,
            is_up,
            accepts,
            has_others,
            on_demand,
            group: None,
            stations: HashMap::new(),
            own_count: 0,
            output: SharedOutput::new(DatagramQueue::in_order()),
            reported: false,
            frames_left: 0,
            counters: Arc::default(),
            direction: TrafficDirection::default(),
        }
    }

    /// The face of a station, or of the group. It may be known to be another worker's.
    fn face_of(&self, mac: Option<[u8; 6]>) -> Option<FaceIndex> {
        match mac {
            Some(mac) => self.stations.get(&mac).copied(),
            None => self.group,
        }
    }

    /// Enters the face of a station, or of the group.
    fn set_face(&mut self, mac: Option<[u8; 6]>, face: FaceIndex) {
        match mac {
            Some(mac) => _ = self.stations.insert(mac, face),
            None => self.group = Some(face),
        }
    }

    /// Removes the face of a station, or of the group. False if another face is entered there.
    fn remove_face(&mut self, mac: Option<[u8; 6]>, face: FaceIndex) -> bool {
        let is_known = self.face_of(mac) == Some(face);
        match mac {
            Some(mac) if is_known => _ = self.stations.remove(&mac),
            None if is_known => self.group = None,
            Some(_) | None => {}
        }
        is_known
    }

    /// All faces on the device, those of other workers among them.
    fn faces(&self) -> Vec<FaceIndex> {
        let mut faces: Vec<_> = self.stations.values().copied().chain(self.group).collect();
        faces.sort_unstable();
        faces
    }

    /// Where a face sends to, while there is the device.
    #[inline]
    fn destination(
        &self,
        face: FaceIndex,
        principal: PrincipalIndex,
        mac: [u8; 6],
    ) -> Option<Destination> {
        let interface = self.socket.as_ref()?.interface();
        let address = LinkAddress { interface, protocol: ETHER_TYPE, mac };
        Some(Destination { face, principal, target: Target::Link(address) })
    }

    /// Examines the next frame once, and copies its packet to the end of the block of `blocks`, so that the slot of the
    /// ring can be released in any case.
    #[inline]
    fn next_frame(
        &mut self,
        blocks: &mut CopyBlock,
        pool: &PacketPool,
        is_full: bool,
    ) -> NextFrame {
        let Some(socket) = &mut self.socket else { return NextFrame::None };
        socket.prepare();
        let Some(mut frame) = socket.peek() else {
            self.counters.kernel_drops.add(socket.take_lost_when_idle());
            return NextFrame::None;
        };
        if frame.follows_loss {
            self.counters.kernel_drops.add(socket.take_lost());
            let Some(again) = socket.peek() else { return NextFrame::None };
            frame = again;
        }
        let (Some(source), 0) = (frame.source, frame.vlan) else { return NextFrame::Skip };
        let (face, sender) = match frame.delivery {
            Delivery::Group => (self.group, Some(Sender::Station(source))),
            Delivery::Host => (self.stations.get(&source).copied(), None),
            Delivery::Other => (None, None),
        };
        let Some(face) = face else {
            return match frame.delivery {
                Delivery::Group if self.has_others && !self.reported => {
                    NextFrame::UnknownPeer(None)
                }
                // The address of a group cannot be that of a sender.
                Delivery::Host if self.accepts && !self.reported && !is_group(source) => {
                    NextFrame::UnknownPeer(Some(source))
                }
                Delivery::Group | Delivery::Host | Delivery::Other => NextFrame::Skip,
            };
        };
        if frame.is_truncated {
            return NextFrame::Invalid(face, LinkDropReason::Truncated);
        }
        let Some(length) = without_padding(frame.payload) else {
            return NextFrame::Invalid(face, LinkDropReason::Malformed);
        };
        if length > BLOCK_SIZE {
            // No device has such frames, but a driver may report an unchecked length.
            return NextFrame::Invalid(face, LinkDropReason::Truncated);
        }
        if is_full {
            return NextFrame::SinkFull;
        }
        let Some(block) = blocks.with_room(length, pool) else { return NextFrame::NoBlock };
        block.spare_mut()[..length].copy_from_slice(&frame.payload[..length]);
        block.commit(length);
        NextFrame::Copied { face, sender, length }
    }

    /// Releases the slot of the frame that [`next_frame`](Self::next_frame) has examined.
    fn release(&mut self) {
        self.frames_left -= 1;
        self.reported = false;
        if let Some(socket) = &mut self.socket {
            socket.release();
        }
    }
}

/// Whether frames to this address go to several stations.
fn is_group(mac: [u8; 6]) -> bool {
    mac[0] & 1 != 0
}
