//! Ethernet faces: stations and a group behind one network device (a port).

mod socket;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use ndn_ring::{BLOCK_SIZE, FillBlock, PacketPool};
use ndn_sys::packet::{Delivery, LinkAddress};
use ndn_sys::poll::{Event, Interest};
use ndn_table::{FaceIndex, Timestamp};

use crate::counters::{ChannelCounters, LinkDropReason};
use crate::datagram_queue::{
    DatagramQueue, DatagramSink, DatagramWriter, Destination, SendCounters, Target,
};
use crate::event::{CloseReason, FaceChange};
use crate::face::{Face, FaceTable, TrafficDirection};
use crate::output::Flushed;
use crate::padding::without_padding;
use crate::receive::{Progress, ReceivedFrame, RxSink};
use crate::source::Sender;
use crate::source::{PortId, Source};
use crate::transport::{SendRequest, Shared, Transport, TransportContext, block_with_room};

pub use socket::PortSocket;

/// The EtherType of NDN.
pub const ETHER_TYPE: u16 = 0x8624;
/// Stations that may have on-demand faces on one device, over all workers: source addresses can be forged.
pub const ON_DEMAND_STATIONS_MAX: usize = 4096;
/// Frames taken for one event, even if the worker asks for fewer.
const FRAMES_PER_EVENT_MIN: usize = 64;
/// How soon to try again when there is no free memory for frames.
const RETRY_AFTER: Duration = Duration::from_millis(1);

/// What to do with a network device.
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
}

/// The state of one Ethernet face: a station or a group behind a device.
#[derive(Debug)]
pub(crate) struct StationState {
    port: PortId,
    mac: [u8; 6],
}

/// All network devices of a worker, and the faces on them.
#[derive(Debug)]
pub(crate) struct Ports {
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
        let Some(to) = port.destination(face.index, station.mac).filter(|_| port.is_up) else {
            return outgoing.drop_while_down(&mut face.link, cx.now);
        };
        let bytes_max = face.link.options().queue_bytes_max;
        let tap = TransportContext::tap_point(&mut cx.shared.tap, cx.now, face.index);
        let mut sink = DatagramSink::new(&mut port.queue, to, cx.pool, bytes_max, tap);
        outgoing.encode(&mut face.link, cx.now, &mut sink);
        if !port.listed && !port.waits_writable {
            port.listed = true;
            self.unflushed.push(id);
        }
    }

    fn close(
        &mut self,
        _shared: &mut Shared,
        _pool: &PacketPool,
        face: &Face,
        station: &mut StationState,
    ) {
        let Some(port) = self.get_mut(station.port) else { return };
        if port.group == Some(face.index) {
            port.group = None;
        } else if port.stations.get(&station.mac) == Some(&face.index) {
            port.stations.remove(&station.mac);
            port.own_count -= 1;
        }
    }
}

impl Ports {
    pub(crate) fn new() -> Self {
        Self {
            ports: Vec::new(),
            unused_sockets: Vec::new(),
            deadlines: Vec::new(),
            writer: DatagramWriter::new(),
            unflushed: Vec::new(),
        }
    }

    pub(crate) fn get(&self, id: PortId) -> Option<&Port> {
        self.ports.get(id.0 as usize)?.as_deref()
    }

    pub(crate) fn get_mut(&mut self, id: PortId) -> Option<&mut Port> {
        self.ports.get_mut(id.0 as usize)?.as_deref_mut()
    }

    pub(crate) fn direction_mut(&mut self, id: PortId) -> Option<&mut TrafficDirection> {
        Some(&mut self.get_mut(id)?.direction)
    }

    /// Takes a device.
    pub(crate) fn add(
        &mut self,
        shared: &mut Shared,
        id: PortId,
        options: PortOptions,
    ) -> io::Result<Arc<ChannelCounters>> {
        let slot = id.0 as usize;
        if id.0 >= PortId::COUNT_MAX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if self.get(id).is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if let Some(socket) = &options.socket {
            register(shared, socket, id)?;
        }
        if slot >= self.ports.len() {
            self.ports.resize_with(slot + 1, || None);
        }
        let added = self.ports[slot].insert(Box::new(Port::new(options)));
        Ok(Arc::clone(&added.counters))
    }

    /// The state of a face for a station, or for the group of the device. Reports the face as down if the device is.
    pub(crate) fn add_station(
        &mut self,
        shared: &mut Shared,
        id: PortId,
        mac: [u8; 6],
        face: FaceIndex,
    ) -> io::Result<StationState> {
        let port = self.get_mut(id).ok_or(io::ErrorKind::NotFound)?;
        if is_group(mac) {
            port.group = Some(face);
        } else {
            port.stations.insert(mac, face);
            port.own_count += 1;
        }
        if !port.is_up {
            shared.report_change(face, FaceChange::Down(CloseReason::NoLink));
        }
        Ok(StationState { port: id, mac })
    }

    /// Notes the link state of a device. False if it has not changed.
    pub(crate) fn set_state(&mut self, id: PortId, is_up: bool) -> bool {
        let port = self.get_mut(id);
        port.is_some_and(|port| std::mem::replace(&mut port.is_up, is_up) != is_up)
    }

    /// Gives a device another socket. The old one must have been closed.
    pub(crate) fn set_socket(
        &mut self,
        shared: &mut Shared,
        id: PortId,
        socket: PortSocket,
    ) -> io::Result<()> {
        register(shared, &socket, id)?;
        if let Some(port) = self.get_mut(id) {
            port.socket = Some(socket);
        }
        Ok(())
    }

    /// Takes the socket of a device away.
    pub(crate) fn close_socket(
        &mut self,
        shared: &mut Shared,
        id: PortId,
        pool: &PacketPool,
    ) -> io::Result<()> {
        let port = self.get_mut(id).ok_or(io::ErrorKind::NotFound)?;
        port.queue.discard(pool);
        port.reported = false;
        port.waits_writable = false;
        let socket = port.socket.take();
        self.retire(shared, socket);
        Ok(())
    }

    /// Gives up a device, whose faces are gone.
    pub(crate) fn remove(&mut self, shared: &mut Shared, id: PortId, pool: &PacketPool) {
        let removed = self.ports.get_mut(id.0 as usize).and_then(Option::take);
        if let Some(mut removed) = removed {
            removed.queue.discard(pool);
            self.retire(shared, removed.socket.take());
        }
    }

    pub(crate) fn take_unused_socket(&mut self) -> Option<PortSocket> {
        self.unused_sockets.pop()
    }

    fn retire(&mut self, shared: &mut Shared, socket: Option<PortSocket>) {
        let Some(socket) = socket else { return };
        for descriptor in socket.descriptors() {
            // It was added when the port got it.
            let removed = shared.poller.remove(descriptor);
            debug_assert!(removed.is_ok(), "the sockets of a port are in the poller");
        }
        self.unused_sockets.push(socket);
    }

    /// Handles an event of a device.
    pub(crate) fn handle_port_event<T>(
        &mut self,
        cx: &mut TransportContext<'_>,
        faces: &mut FaceTable<T>,
        id: PortId,
        event: &Event,
        sink: &mut impl RxSink,
    ) -> Progress {
        let Some(port) = self.get_mut(id) else { return Progress::Done };
        if event.closed
            && let Some(socket) = &port.socket
            && socket.take_error().is_err()
        {
            // The device went down, which the control thread learns by netlink.
            port.counters.receive_errors.increment();
        }
        if event.writable && port.waits_writable {
            self.flush_port(cx, faces, id);
        }
        if !event.readable {
            return Progress::Done;
        }
        let Some(port) = self.get_mut(id) else { return Progress::Done };
        port.frames_left = cx.shared.frames_per_event.max(FRAMES_PER_EVENT_MIN);
        port.counters.receive_calls.increment();
        cx.shared.calls.receive_calls.increment();
        self.resume_port(cx, faces, id, sink)
    }

    /// Takes frames out of the receive ring of a device.
    pub(crate) fn resume_port<T>(
        &mut self,
        cx: &mut TransportContext<'_>,
        faces: &mut FaceTable<T>,
        id: PortId,
        sink: &mut impl RxSink,
    ) -> Progress {
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
                }
                NextFrame::UnknownStation(peer) => {
                    port.reported = true;
                    return Progress::NewStation { port: id, peer };
                }
                NextFrame::UnknownGroup => {
                    port.reported = true;
                    return Progress::UnknownGroup { port: id };
                }
                NextFrame::Invalid(face, reason) => {
                    port.release();
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
                    let Some(mut block) = cx.shared.receive_block.take() else { continue };
                    if let Some(face) = faces.face_mut(face) {
                        face.note_arrival(cx.now, None);
                    }
                    cx.shared.calls.received_frames.increment();
                    cx.shared.calls.received_bytes.add(length as u64);
                    let arrival = ReceivedFrame { length, sender, delay: None };
                    cx.deliver_to(faces, face, arrival, &mut block, sink);
                    cx.shared.receive_block = Some(block);
                }
            }
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        self.deadlines.iter().map(|(deadline, _)| *deadline).min()
    }

    /// Tries again to send where that is due.
    pub(crate) fn handle_timeouts<T>(
        &mut self,
        cx: &mut TransportContext<'_>,
        faces: &mut FaceTable<T>,
    ) {
        let now = cx.now;
        let is_due = |(deadline, _): &(Timestamp, PortId)| *deadline <= now;
        while let Some(due) = self.deadlines.iter().position(is_due) {
            let (_, port) = self.deadlines.swap_remove(due);
            self.flush_port(cx, faces, port);
        }
    }

    /// Writes what was queued since the last flush.
    pub(crate) fn flush_all<T>(&mut self, cx: &mut TransportContext<'_>, faces: &mut FaceTable<T>) {
        while let Some(port) = self.unflushed.pop() {
            self.flush_port(cx, faces, port);
        }
    }

    fn flush_port<T>(
        &mut self,
        cx: &mut TransportContext<'_>,
        faces: &mut FaceTable<T>,
        id: PortId,
    ) {
        let Self { ports, deadlines, writer, .. } = self;
        let port = ports.get_mut(id.0 as usize).and_then(Option::as_deref_mut);
        let Some(port) = port else { return };
        port.listed = false;
        let Some(socket) = &mut port.socket else { return port.queue.discard(cx.pool) };
        let mut refused = |index| {
            if let Some(face) = faces.face_mut(index) {
                face.link.counters().dropped(LinkDropReason::SendError).increment();
            }
        };
        let counters = SendCounters { channel: &port.counters, calls: &cx.shared.calls };
        // The socket stays writable while its ring has room, even if all memory for frames is in use, so that the
        // kernel does not report when some is free.
        let retry = match socket {
            PortSocket::Packet(socket) => {
                let refused = |index, _| refused(index);
                let flushed = port.queue.flush(socket, cx.pool, writer, counters, refused);
                let is_blocked = flushed == Flushed::Blocked;
                if is_blocked != port.waits_writable {
                    port.waits_writable = is_blocked;
                    let interest =
                        if is_blocked { Interest::ReadableAndWritable } else { Interest::Readable };
                    let token = Source::Port(id).token();
                    let modified = cx.shared.poller.modify(&*socket, token, interest);
                    debug_assert!(modified.is_ok(), "it is in the poller");
                }
                return;
            }
            PortSocket::Xdp(xdp) => port.queue.flush_frames(&mut **xdp, cx.pool, counters, refused),
            PortSocket::Own(own) => port.queue.flush_frames(&mut **own, cx.pool, counters, refused),
        };
        if retry == Flushed::Blocked && !deadlines.iter().any(|(_, other)| *other == id) {
            deadlines.push((cx.now.plus(RETRY_AFTER), id));
        }
    }
}

/// Adds the descriptors of a port's socket to the poller.
fn register(shared: &mut Shared, socket: &PortSocket, port: PortId) -> io::Result<()> {
    let token = Source::Port(port).token();
    let mut descriptors = socket.descriptors();
    descriptors.try_for_each(|one| shared.poller.add(one, token, Interest::Readable))
}

/// What is to be done with the next frame.
enum NextFrame {
    None,
    /// It has no face here.
    Skip,
    /// It came from a station that has no face yet.
    UnknownStation([u8; 6]),
    /// It is for the group, whose face another worker may have.
    UnknownGroup,
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
pub(crate) struct Port {
    name: Arc<str>,
    socket: Option<PortSocket>,
    is_up: bool,
    pub(crate) accepts: bool,
    has_others: bool,
    /// The face of the group that the socket has joined: ours, or known to be another worker's.
    pub(crate) group: Option<FaceIndex>,
    /// Likewise.
    pub(crate) stations: HashMap<[u8; 6], FaceIndex>,
    /// Stations whose faces are ours.
    own_count: usize,
    queue: DatagramQueue,
    /// The socket is registered for writability.
    waits_writable: bool,
    /// The queue is listed for the next flush.
    listed: bool,
    /// The unknown station that sent the next frame has been reported.
    reported: bool,
    /// Frames left for the current event.
    frames_left: usize,
    counters: Arc<ChannelCounters>,
    direction: TrafficDirection,
}

impl Port {
    fn new(options: PortOptions) -> Self {
        let PortOptions { name, socket, is_up, accepts, has_others } = options;
        Self {
            name,
            socket,
            is_up,
            accepts,
            has_others,
            group: None,
            stations: HashMap::new(),
            own_count: 0,
            queue: DatagramQueue::in_order(),
            waits_writable: false,
            listed: false,
            reported: false,
            frames_left: 0,
            counters: Arc::default(),
            direction: TrafficDirection::default(),
        }
    }

    /// The name of the device, if one more station may have an on-demand face. Of the faces of other workers, only
    /// those count here whose stations have reached this worker.
    pub(crate) fn name_for_new_station(&self) -> Option<Arc<str>> {
        (self.own_count < ON_DEMAND_STATIONS_MAX).then(|| Arc::clone(&self.name))
    }

    /// The face of a station, or of the group. It may be known to be another worker's.
    pub(crate) fn face_of(&self, mac: [u8; 6]) -> Option<FaceIndex> {
        if is_group(mac) { self.group } else { self.stations.get(&mac).copied() }
    }

    /// All faces on the device, those of other workers among them.
    pub(crate) fn faces(&self) -> Vec<FaceIndex> {
        let mut faces: Vec<_> = self.stations.values().copied().chain(self.group).collect();
        faces.sort_unstable();
        faces
    }

    /// The device has another address.
    pub(crate) fn set_mac(&mut self, mac: [u8; 6]) {
        if let Some(socket) = &mut self.socket {
            socket.set_mac(mac);
        }
    }

    /// Where a face sends to, while there is the device.
    #[inline]
    fn destination(&self, face: FaceIndex, mac: [u8; 6]) -> Option<Destination> {
        let interface = self.socket.as_ref()?.interface();
        let address = LinkAddress { interface, protocol: ETHER_TYPE, mac };
        Some(Destination { face, target: Target::Link(address) })
    }

    /// Examines the next frame once, and copies its packet to the end of a block of `place`, so that the slot of the
    /// ring can be released in any case.
    #[inline]
    fn next_frame(
        &mut self,
        place: &mut Option<FillBlock>,
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
                Delivery::Group if self.has_others && !self.reported => NextFrame::UnknownGroup,
                // The address of a group cannot be that of a sender.
                Delivery::Host if self.accepts && !self.reported && !is_group(source) => {
                    NextFrame::UnknownStation(source)
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
        let Some(block) = block_with_room(place, length, pool) else { return NextFrame::NoBlock };
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
