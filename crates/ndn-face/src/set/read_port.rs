//! Receiving from network devices.

use ndn_ring::{BLOCK_SIZE, FillBlock, PacketPool};
use ndn_sys::packet::Delivery;
use ndn_sys::poll::Event;
use ndn_table::{FaceIndex, Timestamp};

use crate::LinkDropReason;
use crate::ether::{Port, PortId, without_padding};
use crate::link::Sender;
use crate::set::receive::{Origin, Pending, Progress, RxSink, block_with_room};
use crate::set::{FaceSet, face_in};

/// Frames taken for one event, however few the worker asks for.
const FRAMES_PER_EVENT_MIN: usize = 64;

/// What is to be done with the next frame.
pub(super) enum Next {
    /// There is none.
    Nothing,
    /// It is for nobody here.
    Skip,
    /// It came from a station that has no face yet.
    Stranger([u8; 6]),
    /// It is for the group, whose face another worker may have.
    Group,
    /// It is for this face, and is no packet.
    Bad(FaceIndex, LinkDropReason),
    /// It is for this face. The packet in it, of so many bytes, has been copied.
    Taken(Origin, usize),
    /// The sink has no room for it.
    SinkFull,
    /// There is no block for it.
    NoBlock,
}

impl Port {
    /// Looks at the next frame once: copies its packet to the end of a block of `place`, so that the ring has
    /// room again whatever becomes of it.
    #[inline]
    fn next(&mut self, place: &mut Option<FillBlock>, pool: &PacketPool, is_full: bool) -> Next {
        let Some(socket) = &mut self.socket else { return Next::Nothing };
        socket.prepare();
        let Some(mut frame) = socket.peek() else {
            self.counters.kernel_drops.add(socket.take_lost_when_idle());
            return Next::Nothing;
        };
        if frame.follows_loss {
            self.counters.kernel_drops.add(socket.take_lost());
            let Some(again) = socket.peek() else { return Next::Nothing };
            frame = again;
        }
        let (Some(source), 0) = (frame.source, frame.vlan) else {
            return Next::Skip;
        };
        let (face, sender) = match frame.delivery {
            Delivery::Group => (self.group, Some(Sender::Station(source))),
            Delivery::Host => (self.stations.get(&source).copied(), None),
            Delivery::Other => (None, None),
        };
        let Some(face) = face else {
            let is_others = frame.delivery == Delivery::Group && self.has_others;
            if is_others && !self.reported {
                return Next::Group;
            }
            let may_ask = self.accepts && !self.reported && frame.delivery == Delivery::Host;
            // Nobody sends from the address of a group.
            return match may_ask && !crate::ether::is_group(source) {
                true => Next::Stranger(source),
                false => Next::Skip,
            };
        };
        if frame.is_truncated {
            return Next::Bad(face, LinkDropReason::Truncated);
        }
        let Some(length) = without_padding(frame.payload) else {
            return Next::Bad(face, LinkDropReason::Malformed);
        };
        if length > BLOCK_SIZE {
            // No device has such frames; a driver that does not check what it is told may.
            return Next::Bad(face, LinkDropReason::Truncated);
        }
        if is_full {
            return Next::SinkFull;
        }
        let Some(block) = block_with_room(place, length, pool) else { return Next::NoBlock };
        block.spare_mut()[..length].copy_from_slice(&frame.payload[..length]);
        block.commit(length);
        Next::Taken(Origin { face, sender }, length)
    }

    /// Is done with the next frame.
    fn release(&mut self) {
        self.reported = false;
        if let Some(socket) = &mut self.socket {
            socket.release();
        }
    }
}

impl FaceSet {
    /// Handles an event of a network device.
    pub(super) fn handle_port_event(
        &mut self,
        now: Timestamp,
        id: PortId,
        event: &Event,
        pool: &PacketPool,
        sink: &mut impl RxSink,
    ) -> Progress {
        let enough = self.datagrams_per_event.max(FRAMES_PER_EVENT_MIN);
        let Some(port) = self.port_mut(id) else { return Progress::Done };
        if event.closed
            && let Some(socket) = &port.socket
            && socket.take_error().is_err()
        {
            // That the device went down: its owner hears of it by other ways.
            port.counters.receive_errors.increment();
        }
        port.frames_left = enough;
        port.counters.receive_calls.increment();
        let must_flush = event.writable && port.waits_writable;
        if must_flush {
            self.flush_port(now, id, pool);
        }
        self.calls.receive_calls.increment();
        self.take_port_frames(now, id, pool, sink)
    }

    /// Takes frames out of the ring of a network device.
    pub(super) fn take_port_frames(
        &mut self,
        now: Timestamp,
        id: PortId,
        pool: &PacketPool,
        sink: &mut impl RxSink,
    ) -> Progress {
        self.pending = None;
        loop {
            let Self { ports, stream_block, .. } = self;
            let port = ports.get_mut(id.0 as usize).and_then(Option::as_deref_mut);
            let Some(port) = port else { return Progress::Done };
            if port.frames_left == 0 {
                self.has_more = true;
                return Progress::Done;
            }
            match port.next(stream_block, pool, sink.is_full()) {
                Next::Nothing => {
                    self.has_more = false;
                    return Progress::Done;
                }
                Next::Skip => {
                    port.counters.no_face.increment();
                    port.frames_left -= 1;
                    port.release();
                }
                Next::Stranger(peer) => {
                    port.reported = true;
                    self.pending = Some(Pending::Port(id));
                    return Progress::NewStation { port: id, peer };
                }
                Next::Group => {
                    port.reported = true;
                    self.pending = Some(Pending::Port(id));
                    return Progress::GroupHeard { port: id };
                }
                Next::Bad(face, reason) => {
                    port.frames_left -= 1;
                    port.release();
                    self.note_arrival(now, face, Some(reason));
                }
                Next::SinkFull => {
                    self.pending = Some(Pending::Port(id));
                    return Progress::SinkFull;
                }
                Next::NoBlock => return Progress::NoBlock,
                Next::Taken(origin, length) => {
                    port.frames_left -= 1;
                    port.release();
                    self.deliver_port_frame(now, origin, length, pool, sink);
                }
            }
        }
    }

    /// Gives the packet at the end of the block to its face.
    fn deliver_port_frame(
        &mut self,
        now: Timestamp,
        origin: Origin,
        length: usize,
        pool: &PacketPool,
        sink: &mut impl RxSink,
    ) {
        let Some(mut block) = self.stream_block.take() else { return };
        self.note_arrival(now, origin.face, None);
        self.calls.received_frames.increment();
        self.calls.received_bytes.add(length as u64);
        self.deliver(now, origin, &mut block, length, pool, sink);
        self.stream_block = Some(block);
    }

    pub(super) fn note_arrival(
        &mut self,
        now: Timestamp,
        face: FaceIndex,
        drop: Option<LinkDropReason>,
    ) {
        let Some(face) = face_in(&mut self.faces, face) else {
            // Only packets are handed to the worker that has the face.
            if drop.is_some() {
                self.calls.bad_foreign_frames.increment();
            }
            return;
        };
        let counters = face.link.counters();
        counters.last_received_ns.set(now.as_nanos());
        if let Some(reason) = drop {
            counters.in_frames.increment();
            counters.dropped(reason).increment();
        }
    }

    /// Gives up what was reported of a port and not resumed.
    pub(super) fn forget_pending_port(&mut self, port: PortId) {
        if self.pending == Some(Pending::Port(port)) {
            self.pending = None;
        }
    }
}
