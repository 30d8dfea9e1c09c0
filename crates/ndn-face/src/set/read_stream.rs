//! Reading from streams and from internal faces.

use std::io;
use std::os::fd::AsFd;

use ndn_packet::MAX_PACKET_SIZE;
use ndn_packet::tlv::frame_len;
use ndn_ring::{FillBlock, PacketPool};
use ndn_sys::stream;
use ndn_table::{FaceIndex, Timestamp};

use crate::CloseReason;
use crate::face::{Connection, Transport};
use crate::set::receive::{Pending, Progress, RxSink, block_with_room};
use crate::set::{FaceSet, face_in};

/// A stream block with less room than this is replaced before it is read into.
const READ_ROOM_MIN: usize = 32 * 1024;
/// Buffers for half frames to keep for faces that need one.
const SPARE_PARTIALS_MAX: usize = 64;
/// Longest frame on a stream: the largest packet behind the largest header that makes sense.
pub(super) const FRAME_LENGTH_MAX: usize = MAX_PACKET_SIZE + 256;

impl FaceSet {
    /// Reads once from the stream of a face.
    pub(super) fn read_stream(
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
        self.calls.receive_calls.increment();
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
                self.has_more = partial + length == spare.len();
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
    pub(super) fn take_stream(
        &mut self,
        now: Timestamp,
        index: FaceIndex,
        pool: &PacketPool,
        sink: &mut impl RxSink,
    ) -> Progress {
        let Some(mut block) = self.stream_block.take() else { return Progress::Done };
        let is_websocket =
            face_in(&mut self.faces, index).is_some_and(|face| match &face.transport {
                Transport::Stream(stream) => stream.websocket.is_some(),
                Transport::Datagram { .. }
                | Transport::Ether { .. }
                | Transport::Memif(_)
                | Transport::Internal(_) => false,
            });
        let progress = if is_websocket {
            self.take_messages(now, index, &mut block, pool, sink)
        } else {
            self.take_frames(now, index, &mut block, pool, sink)
        };
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
            self.calls.received_frames.increment();
            self.calls.received_bytes.add(length as u64);
            if !self.deliver(now, index.into(), block, length, pool, sink) {
                return Progress::Done;
            }
        }
    }

    /// Keeps the beginning of a frame until the rest of it arrives. Only a face with half a frame
    /// holds memory for one.
    pub(super) fn keep_partial(&mut self, index: FaceIndex, bytes: &[u8]) {
        let Some(face) = face_in(&mut self.faces, index) else { return };
        let Transport::Stream(stream) = &mut face.transport else { return };
        if bytes.is_empty() {
            let partial = std::mem::take(&mut stream.partial);
            if partial.capacity() > 0 && self.spare_partials.len() < SPARE_PARTIALS_MAX {
                self.spare_partials.push(partial);
            }
            return;
        }
        if stream.partial.capacity() == 0 {
            stream.partial = self.spare_partials.pop().unwrap_or_default();
        }
        stream.partial.extend_from_slice(bytes);
    }
}
