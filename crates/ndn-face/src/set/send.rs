//! From the shard to the sockets.

use std::os::fd::AsFd;
use std::time::Duration;

use ndn_forwarding::{TxPacket, TxSink};
use ndn_ring::PacketPool;
use ndn_sys::packet::LinkAddress;
use ndn_sys::poll::Interest;
use ndn_table::{FaceIndex, Timestamp};

use crate::datagram::{ChannelId, Destination, SendCounters, Target};
use crate::ether::{Port, PortId, PortSocket};
use crate::face::{Connection, Face, Transport};
use crate::output::Flushed;
use crate::set::sinks::{DatagramSink, InternalSink, MemifSink, Nowhere, StreamSink, Tap};
use crate::set::{FaceSet, channel_token, face_in, port_token, token_of};
use crate::{CloseReason, ETHER_TYPE, LinkDropReason};

/// How soon to look again for memory for frames.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// Where a shard sends: the faces of its worker, for one burst.
#[derive(Debug)]
pub struct FaceSink<'a> {
    faces: &'a mut FaceSet,
    pool: &'a PacketPool,
    now: Timestamp,
}

impl FaceSet {
    /// Takes packets from a shard. They go out with the next [`flush`](Self::flush).
    pub fn sink<'a>(&'a mut self, now: Timestamp, pool: &'a PacketPool) -> FaceSink<'a> {
        FaceSink { faces: self, pool, now }
    }

    /// Writes what the faces have been sent since the last flush.
    pub fn flush(&mut self, now: Timestamp, pool: &PacketPool) {
        while let Some(index) = self.unflushed.pop() {
            self.flush_face(now, index, pool);
        }
        while let Some(index) = self.unflushed_memifs.pop() {
            self.flush_face(now, index, pool);
        }
        while let Some(channel) = self.unflushed_channels.pop() {
            self.flush_channel(channel, pool);
        }
        while let Some(port) = self.unflushed_ports.pop() {
            self.flush_port(now, port, pool);
        }
    }

    pub(super) fn flush_face(&mut self, now: Timestamp, index: FaceIndex, pool: &PacketPool) {
        let Some(face) = face_in(&mut self.faces, index) else { return };
        face.listed = false;
        let stream = match &mut face.transport {
            Transport::Stream(stream) => stream,
            Transport::Internal(end) => return end.wake(),
            Transport::Memif(_) => return self.flush_memif(now, index, pool),
            Transport::Datagram { .. } | Transport::Ether { .. } => return,
        };
        let (Connection::Up(connection), Some(queue)) = (&stream.connection, &mut stream.output)
        else {
            return;
        };
        let was_blocked = queue.is_blocked();
        let (budget, scratch) = (&mut self.output_budget, &mut self.scratch);
        let result = queue.flush(connection.as_fd(), pool, budget, scratch, &self.calls);
        face.link.counters().queued_bytes.set(queue.pending_bytes() as u64);
        let interest = match result {
            Ok(Flushed::All) => {
                if let Some(queue) = stream.output.take() {
                    self.spare_queues.put(queue);
                }
                Interest::Readable
            }
            Ok(Flushed::Blocked) => Interest::ReadableAndWritable,
            Err(error) => {
                let reason = CloseReason::Failed(error.kind());
                return self.lose_connection(now, index, reason, pool);
            }
        };
        let is_blocked = interest == Interest::ReadableAndWritable;
        if is_blocked != was_blocked {
            let modified = self.poller.modify(connection, token_of(index), interest);
            debug_assert!(modified.is_ok(), "a face's stream is in the poller");
        }
    }

    /// Sends what is due on a reliable face. It goes out with the next flush.
    pub(super) fn resend(&mut self, now: Timestamp, index: FaceIndex, pool: &PacketPool) {
        let Self { faces, channels, ports, tap, .. } = self;
        let Some(face) = face_in(faces, index) else { return };
        let Face { link, transport, listed, .. } = face;
        let bytes_max = link.options().queue_bytes_max;
        let tap = Tap { tap: tap.as_deref_mut(), now, face: index };
        match transport {
            Transport::Stream(stream) => {
                if !matches!(stream.connection, Connection::Up(_)) {
                    return link.resend(now, &mut Nowhere);
                }
                let queue = stream.output.get_or_insert_with(|| self.spare_queues.take());
                let budget = &mut self.output_budget;
                let is_websocket = stream.websocket.is_some();
                let mut sink = StreamSink { queue, pool, budget, bytes_max, is_websocket, tap };
                link.resend(now, &mut sink);
                if !*listed && !queue.is_blocked() {
                    *listed = true;
                    self.unflushed.push(index);
                }
            }
            Transport::Datagram { channel: id, peer } => {
                let channel = channels.get_mut(id.0 as usize).and_then(Option::as_deref_mut);
                let Some(channel) = channel else { return };
                let to = Destination { face: index, target: Target::of(*peer) };
                let mut sink = DatagramSink::new(&mut channel.queue, to, pool, bytes_max, tap);
                link.resend(now, &mut sink);
                if !channel.listed && !channel.waits_writable {
                    channel.listed = true;
                    self.unflushed_channels.push(*id);
                }
            }
            Transport::Ether { port: id, mac } => {
                let port = ports.get_mut(id.0 as usize).and_then(Option::as_deref_mut);
                let to = port.as_deref().filter(|port| port.is_up);
                let to = to.and_then(|port| destination(port, index, *mac));
                let (Some(port), Some(to)) = (port, to) else {
                    return link.resend(now, &mut Nowhere);
                };
                let mut sink = DatagramSink::new(&mut port.queue, to, pool, bytes_max, tap);
                link.resend(now, &mut sink);
                if !port.listed && !port.waits_writable {
                    port.listed = true;
                    self.unflushed_ports.push(*id);
                }
            }
            Transport::Memif(memif) => {
                let budget = &mut self.output_budget;
                link.resend(now, &mut MemifSink { memif, budget, bytes_max, tap });
                if !*listed {
                    *listed = true;
                    self.unflushed_memifs.push(index);
                }
            }
            Transport::Internal(end) => {
                link.resend(now, &mut InternalSink { end, tap });
                if !*listed {
                    *listed = true;
                    self.unflushed.push(index);
                }
            }
        }
    }

    pub(super) fn flush_channel(&mut self, id: ChannelId, pool: &PacketPool) {
        let Self { channels, faces, poller, writer, calls, .. } = self;
        let Some(channel) = channels.get_mut(id.0 as usize).and_then(Option::as_deref_mut) else {
            return;
        };
        channel.listed = false;
        let refused = |index| {
            if let Some(face) = face_in(faces, index) {
                face.link.counters().dropped(LinkDropReason::SendError).increment();
            }
        };
        let counters = SendCounters { channel: &channel.counters, calls };
        let flushed = channel.queue.flush(&channel.socket, pool, writer, counters, refused);
        let is_blocked = flushed == Flushed::Blocked;
        if is_blocked != channel.waits_writable {
            channel.waits_writable = is_blocked;
            let interest =
                if is_blocked { Interest::ReadableAndWritable } else { Interest::Readable };
            let modified = poller.modify(&channel.socket, channel_token(id), interest);
            debug_assert!(modified.is_ok(), "a channel's socket is in the poller");
        }
    }
}

impl FaceSet {
    pub(super) fn flush_port(&mut self, now: Timestamp, id: PortId, pool: &PacketPool) {
        let Self { ports, faces, poller, writer, calls, port_deadlines, .. } = self;
        let Some(port) = ports.get_mut(id.0 as usize).and_then(Option::as_deref_mut) else {
            return;
        };
        port.listed = false;
        let Some(socket) = &mut port.socket else { return port.queue.discard(pool) };
        let refused = |index| {
            if let Some(face) = face_in(faces, index) {
                face.link.counters().dropped(LinkDropReason::SendError).increment();
            }
        };
        let counters = SendCounters { channel: &port.counters, calls };
        let mut look_again = |flushed| {
            let waits = port_deadlines.iter().any(|(_, other)| *other == id);
            if flushed == Flushed::Blocked && !waits {
                port_deadlines.push((now.plus(LOOK_AGAIN), id));
            }
        };
        match socket {
            PortSocket::Packet(socket) => {
                let flushed = port.queue.flush(socket, pool, writer, counters, refused);
                let is_blocked = flushed == Flushed::Blocked;
                if is_blocked != port.waits_writable {
                    port.waits_writable = is_blocked;
                    let interest =
                        if is_blocked { Interest::ReadableAndWritable } else { Interest::Readable };
                    let modified = poller.modify(&*socket, port_token(id), interest);
                    debug_assert!(modified.is_ok(), "it is in the poller");
                }
            }
            // It is writable as long as its ring has room, even if all memory for frames is on its way
            // out, so nobody tells when there is some.
            PortSocket::Xdp(xdp) => {
                look_again(port.queue.flush_frames(&mut **xdp, pool, counters, refused));
            }
            PortSocket::Own(own) => {
                look_again(port.queue.flush_frames(&mut **own, pool, counters, refused));
            }
        }
    }
}

/// Where a face on a network device sends to, while there is the device.
#[inline]
fn destination(port: &Port, face: FaceIndex, mac: [u8; 6]) -> Option<Destination> {
    let interface = port.socket.as_ref()?.interface();
    let address = LinkAddress { interface, protocol: ETHER_TYPE, mac };
    Some(Destination { face, target: Target::Link(address) })
}

impl TxSink for FaceSink<'_> {
    #[inline]
    fn send(&mut self, index: FaceIndex, packet: TxPacket<'_>) {
        let set = &mut *self.faces;
        // A face may have closed since the shard heard of it: nobody is left to count for.
        let Some(face) = face_in(&mut set.faces, index) else { return };
        let Face { link, transport, listed, .. } = face;
        let bytes_max = link.options().queue_bytes_max;
        let tap = Tap { tap: set.tap.as_deref_mut(), now: self.now, face: index };
        match transport {
            Transport::Stream(stream) => {
                if !matches!(stream.connection, Connection::Up(_)) {
                    link.counters().dropped(LinkDropReason::Down).increment();
                    return;
                }
                let queue = stream.output.get_or_insert_with(|| set.spare_queues.take());
                let budget = &mut set.output_budget;
                let is_websocket = stream.websocket.is_some();
                let pool = self.pool;
                let mut sink = StreamSink { queue, pool, budget, bytes_max, is_websocket, tap };
                let _ = link.send(self.now, &packet, &mut sink);
                // A blocked queue is flushed when the kernel says that there is room.
                if !*listed && !queue.is_blocked() {
                    *listed = true;
                    set.unflushed.push(index);
                }
            }
            Transport::Datagram { channel: id, peer } => {
                let channel = set.channels.get_mut(id.0 as usize).and_then(Option::as_deref_mut);
                let Some(channel) = channel else { return };
                let to = Destination { face: index, target: Target::of(*peer) };
                let mut sink = DatagramSink::new(&mut channel.queue, to, self.pool, bytes_max, tap);
                let _ = link.send(self.now, &packet, &mut sink);
                if !channel.listed && !channel.waits_writable {
                    channel.listed = true;
                    set.unflushed_channels.push(*id);
                }
            }
            Transport::Ether { port: id, mac } => {
                let port = set.ports.get_mut(id.0 as usize).and_then(Option::as_deref_mut);
                let Some(port) = port else { return };
                let Some(to) = destination(port, index, *mac).filter(|_| port.is_up) else {
                    link.counters().dropped(LinkDropReason::Down).increment();
                    return;
                };
                let mut sink = DatagramSink::new(&mut port.queue, to, self.pool, bytes_max, tap);
                let _ = link.send(self.now, &packet, &mut sink);
                if !port.listed && !port.waits_writable {
                    port.listed = true;
                    set.unflushed_ports.push(*id);
                }
            }
            Transport::Memif(memif) => {
                let budget = &mut set.output_budget;
                let mut sink = MemifSink { memif, budget, bytes_max, tap };
                let _ = link.send(self.now, &packet, &mut sink);
                if !*listed {
                    *listed = true;
                    set.unflushed_memifs.push(index);
                }
            }
            Transport::Internal(end) => {
                let _ = link.send(self.now, &packet, &mut InternalSink { end, tap });
                if !*listed {
                    *listed = true;
                    set.unflushed.push(index);
                }
            }
        }
        if link.is_reliable() {
            set.arm(index);
        }
    }
}
