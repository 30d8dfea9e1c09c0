//! From the sockets to the shard.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use ndn_forwarding::{LpFields, RxFace};
use ndn_packet::MAX_PACKET_SIZE;
use ndn_packet::tlv::frame_len;
use ndn_ring::{FillBlock, PacketPool};
use ndn_sys::poll::Event;
use ndn_sys::stream;
use ndn_table::{FaceIndex, Timestamp};

use crate::datagram::{ChannelId, DatagramInput, Opened};
use crate::face::{Connection, Face, Transport};
use crate::link::Received;
use crate::set::{CHANNEL_TOKEN, FOREIGN_TOKEN, FaceSet, face_in};
use crate::tap::Direction;
use crate::{CloseReason, LinkDropReason};

/// A stream block with less room than this is replaced before it is read into.
const READ_ROOM_MIN: usize = 32 * 1024;
/// Longest frame on a stream: the largest packet behind the largest header that makes sense.
const FRAME_LENGTH_MAX: usize = MAX_PACKET_SIZE + 256;

/// Where received packets go: a burst, and what parses packets into it.
pub trait RxSink {
    /// Whether there is no room for another packet.
    fn is_full(&self) -> bool;

    /// Takes the network packet in the first `length` bytes of what is filled in `block`. It may
    /// change them, and consumes them by [`carve`](FillBlock::carve) or
    /// [`skip`](FillBlock::skip); what it leaves is skipped.
    fn receive(&mut self, face: &RxFace, block: &mut FillBlock, length: usize, fields: &LpFields);
}

/// How far the handling of an event has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Everything is taken that was read. What the descriptor still holds brings another event.
    Done,
    /// The sink is full. Make room, then [`resume`](FaceSet::resume).
    SinkFull,
    /// A peer without face has sent to a channel that accepts: call
    /// [`add_datagram`](FaceSet::add_datagram), or do not, then [`resume`](FaceSet::resume).
    /// Without a face its message is dropped.
    NewPeer {
        /// The socket.
        channel: ChannelId,
        /// Its address.
        local: SocketAddr,
        /// The sender.
        peer: SocketAddr,
    },
    /// The pool has no free block, so nothing could be read; the event will come again. Release
    /// packets, or wait a little.
    NoBlock,
}

/// Bytes that were read and are not taken yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pending {
    /// In the stream block, for a face.
    Stream(FaceIndex),
    /// In the datagram input, from a channel.
    Datagrams(ChannelId),
    /// In the queue of an internal face.
    Internal(FaceIndex),
}

impl FaceSet {
    /// Handles one event of the poller: reads once, and gives the packets to `sink`.
    ///
    /// What was pending before must have been resumed until [`Progress::Done`].
    pub fn handle_event(
        &mut self,
        now: Timestamp,
        event: &Event,
        pool: &PacketPool,
        sink: &mut impl RxSink,
    ) -> Progress {
        debug_assert!(self.pending.is_none(), "the last event is not finished");
        debug_assert!(event.token < FOREIGN_TOKEN, "not an event of a face");
        let Ok(number) = u32::try_from(event.token & (CHANNEL_TOKEN - 1)) else {
            return Progress::Done;
        };
        if event.token & CHANNEL_TOKEN != 0 {
            let channel = ChannelId(number);
            if event.writable && self.waits_writable(channel) {
                self.flush_channel(channel, pool);
            }
            return match event.readable {
                true => self.read_channel(now, channel, pool, sink),
                false => Progress::Done,
            };
        }
        let index = FaceIndex::from_bits(number);
        let Some(face) = face_in(&mut self.faces, index) else { return Progress::Done };
        match &mut face.transport {
            Transport::Stream(stream) if matches!(stream.connection, Connection::Down { .. }) => {
                self.handle_attempt(now, index);
                Progress::Done
            }
            Transport::Stream(stream) => {
                if event.writable && stream.output.as_ref().is_some_and(|one| one.is_blocked()) {
                    self.flush_face(now, index, pool);
                }
                if event.readable {
                    self.read_stream(now, index, pool, sink)
                } else {
                    Progress::Done
                }
            }
            Transport::Internal(end) => {
                end.reset();
                self.pending = Some(Pending::Internal(index));
                self.resume(now, pool, sink)
            }
            Transport::Datagram { .. } => Progress::Done,
        }
    }

    /// Goes on after [`Progress::SinkFull`] or [`Progress::NewPeer`]. Without anything pending it
    /// is [`Progress::Done`].
    pub fn resume(
        &mut self,
        now: Timestamp,
        pool: &PacketPool,
        sink: &mut impl RxSink,
    ) -> Progress {
        match self.pending {
            None => Progress::Done,
            Some(Pending::Stream(index)) => self.take_stream(now, index, pool, sink),
            Some(Pending::Datagrams(channel)) => self.take_datagrams(now, channel, pool, sink),
            Some(Pending::Internal(index)) => self.take_internal(now, index, pool, sink),
        }
    }

    fn waits_writable(&mut self, channel: ChannelId) -> bool {
        self.channel_mut(channel).is_some_and(|channel| channel.waits_writable)
    }

    /// Reads once from the stream of a face.
    fn read_stream(
        &mut self,
        now: Timestamp,
        index: FaceIndex,
        pool: &PacketPool,
        sink: &mut impl RxSink,
    ) -> Progress {
        let Some(face) = face_in(&mut self.faces, index) else { return Progress::Done };
        let Transport::Stream(stream) = &mut face.transport else { return Progress::Done };
        let Connection::Up(connection) = &stream.connection else { return Progress::Done };
        let Some(block) = block_with_room(&mut self.stream_block, READ_ROOM_MIN, pool) else {
            return Progress::NoBlock;
        };
        let partial = stream.partial.len();
        let spare = block.spare_mut();
        spare[..partial].copy_from_slice(&stream.partial);
        let read = match stream::read(connection.as_fd(), &mut spare[partial..]) {
            Ok(0) => Err(CloseReason::PeerClosed),
            Ok(length) => Ok(length),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Progress::Done,
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                Err(CloseReason::PeerClosed)
            }
            Err(error) => Err(CloseReason::Failed(error.kind())),
        };
        match read {
            Ok(length) => {
                block.commit(partial + length);
                stream.partial.clear();
                face.link.counters().last_received_ns.set(now.as_nanos());
                self.pending = Some(Pending::Stream(index));
                self.take_stream(now, index, pool, sink)
            }
            Err(reason) => {
                self.lose_connection(now, index, reason, pool);
                Progress::Done
            }
        }
    }

    /// Takes frames out of the stream block.
    fn take_stream(
        &mut self,
        now: Timestamp,
        index: FaceIndex,
        pool: &PacketPool,
        sink: &mut impl RxSink,
    ) -> Progress {
        let Some(mut block) = self.stream_block.take() else { return Progress::Done };
        let progress = self.take_frames(now, index, &mut block, pool, sink);
        if progress == Progress::Done {
            self.pending = None;
            let rest = block.filled().len();
            block.skip(rest);
        }
        self.stream_block = Some(block);
        progress
    }

    fn take_frames(
        &mut self,
        now: Timestamp,
        index: FaceIndex,
        block: &mut FillBlock,
        pool: &PacketPool,
        sink: &mut impl RxSink,
    ) -> Progress {
        loop {
            let filled = block.filled();
            let length = match frame_len(filled) {
                Ok(Some(length)) if length > FRAME_LENGTH_MAX => {
                    self.lose_connection(now, index, CloseReason::FrameTooLong, pool);
                    return Progress::Done;
                }
                Ok(Some(length)) if length <= filled.len() => length,
                Ok(_) => {
                    self.keep_partial(index, filled);
                    return Progress::Done;
                }
                Err(_) => {
                    self.lose_connection(now, index, CloseReason::MalformedFrame, pool);
                    return Progress::Done;
                }
            };
            if sink.is_full() {
                return Progress::SinkFull;
            }
            if !self.deliver(now, index, block, length, pool, sink) {
                return Progress::Done;
            }
        }
    }

    /// Keeps the beginning of a frame until the rest of it arrives.
    fn keep_partial(&mut self, index: FaceIndex, bytes: &[u8]) {
        let Some(face) = face_in(&mut self.faces, index) else { return };
        let Transport::Stream(stream) = &mut face.transport else { return };
        if bytes.is_empty() {
            // An idle face holds no memory for frames.
            stream.partial = Vec::new();
        } else {
            stream.partial.extend_from_slice(bytes);
        }
    }

    /// Receives once from a UDP socket.
    fn read_channel(
        &mut self,
        now: Timestamp,
        id: ChannelId,
        pool: &PacketPool,
        sink: &mut impl RxSink,
    ) -> Progress {
        let Some(channel) = self.channels.get(id.0 as usize).and_then(Option::as_deref) else {
            return Progress::Done;
        };
        let Some(input) = &mut self.datagrams else { return Progress::Done };
        match input.receive(channel, pool) {
            Ok(true) => {
                self.pending = Some(Pending::Datagrams(id));
                self.take_datagrams(now, id, pool, sink)
            }
            Ok(false) => Progress::NoBlock,
            Err(error) => {
                if error.kind() != io::ErrorKind::WouldBlock {
                    channel.counters.receive_errors.increment();
                }
                Progress::Done
            }
        }
    }

    /// Takes datagrams out of what was received.
    fn take_datagrams(
        &mut self,
        now: Timestamp,
        id: ChannelId,
        pool: &PacketPool,
        sink: &mut impl RxSink,
    ) -> Progress {
        let Some(mut input) = self.datagrams.take() else { return Progress::Done };
        let progress = loop {
            if input.is_done() {
                self.pending = None;
                break Progress::Done;
            }
            let progress = self.take_message(now, id, &mut input, pool, sink);
            if progress != Progress::Done {
                break progress;
            }
        };
        self.datagrams = Some(input);
        progress
    }

    /// Takes the datagrams of one message.
    fn take_message(
        &mut self,
        now: Timestamp,
        id: ChannelId,
        input: &mut DatagramInput,
        pool: &PacketPool,
        sink: &mut impl RxSink,
    ) -> Progress {
        if input.current().is_none() {
            let Some(channel) = self.channels.get(id.0 as usize).and_then(Option::as_deref) else {
                input.close();
                return Progress::Done;
            };
            match input.open(channel, pool) {
                Opened::Nothing => return Progress::Done,
                Opened::Stranger(peer) => {
                    return Progress::NewPeer { channel: id, local: channel.local, peer };
                }
                Opened::Message(index) => {
                    if let Some(face) = face_in(&mut self.faces, index) {
                        face.link.counters().last_received_ns.set(now.as_nanos());
                    }
                }
            }
        }
        let Some((message, block)) = input.current() else { return Progress::Done };
        loop {
            let length = message.segment_length.min(block.filled().len());
            if length == 0 {
                break;
            }
            if sink.is_full() {
                return Progress::SinkFull;
            }
            if !self.deliver(now, message.face, block, length, pool, sink) {
                break;
            }
        }
        input.close();
        Progress::Done
    }

    /// Takes frames out of the queue of an internal face.
    fn take_internal(
        &mut self,
        now: Timestamp,
        index: FaceIndex,
        pool: &PacketPool,
        sink: &mut impl RxSink,
    ) -> Progress {
        loop {
            if sink.is_full() {
                return Progress::SinkFull;
            }
            let Some(face) = face_in(&mut self.faces, index) else { break };
            let Transport::Internal(end) = &mut face.transport else { break };
            let Some(frame) = end.receive() else {
                if end.is_closed() {
                    self.lose_connection(now, index, CloseReason::PeerClosed, pool);
                }
                break;
            };
            let counters = face.link.counters();
            counters.last_received_ns.set(now.as_nanos());
            if frame.len() > FRAME_LENGTH_MAX {
                counters.dropped(LinkDropReason::TooLong).increment();
                continue;
            }
            if block_with_room(&mut self.stream_block, frame.len(), pool).is_none() {
                counters.dropped(LinkDropReason::NoBuffer).increment();
                continue;
            }
            let Some(mut block) = self.stream_block.take() else { break };
            block.spare_mut()[..frame.len()].copy_from_slice(&frame);
            block.commit(frame.len());
            self.deliver(now, index, &mut block, frame.len(), pool, sink);
            self.stream_block = Some(block);
        }
        self.pending = None;
        Progress::Done
    }

    /// Gives the frame in the first `length` bytes of what is filled in `block` to its face, and
    /// the packet that comes of it to `sink`. The frame is consumed. `false` if there is no such
    /// face any more.
    #[inline]
    fn deliver(
        &mut self,
        now: Timestamp,
        index: FaceIndex,
        block: &mut FillBlock,
        length: usize,
        pool: &PacketPool,
        sink: &mut impl RxSink,
    ) -> bool {
        let Some(Face { rx, link, .. }) = face_in(&mut self.faces, index) else { return false };
        let end = block.carved_offset() + length;
        let frame = &block.filled()[..length];
        if let Some(tap) = &mut self.tap {
            tap.frame(now, index, Direction::In, &[], frame);
        }
        let mut is_packet = false;
        match link.receive(now, frame, &mut self.reassembly_budget) {
            Ok(Received::Packet { offset, fields }) => {
                is_packet = true;
                block.skip(offset);
                sink.receive(rx, block, length - offset, &fields);
            }
            Ok(Received::Reassembled { packet, fields }) => {
                if let Some(copy) = block_with_room(&mut self.copy_block, packet.len(), pool) {
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
        if !is_packet {
            // A fragment may have started a timer.
            self.arm(index);
        }
        true
    }
}

/// The block in `place`, replaced by a fresh one if it has less than `room` bytes to spare.
fn block_with_room<'a>(
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
