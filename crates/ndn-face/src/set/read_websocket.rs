//! Reading from WebSocket connections.

use ndn_packet::MAX_PACKET_SIZE;
use ndn_ring::{FillBlock, PacketPool};
use ndn_table::{FaceIndex, Timestamp};

use crate::CloseReason;
use crate::face::{Connection, Face, StreamTransport, Transport};
use crate::set::receive::{Progress, RxSink};
use crate::set::{FaceSet, face_in};
use crate::websocket::{
    CONTROL_LENGTH_MAX, CloseCode, Due, HEAD_LENGTH_MAX, Head, Opcode, WebSocket, unmask,
    write_head,
};

/// Longest message: the largest packet behind the largest header that makes sense.
const MESSAGE_LENGTH_MAX: usize = MAX_PACKET_SIZE + 256;

/// What a frame of the peer leads to.
#[derive(Debug)]
enum Step {
    /// Its payload is a packet.
    Packet,
    /// It is the last part of a packet.
    LastPart,
    /// There is nothing to do but to go on.
    Nothing,
    /// Send these bytes back.
    Pong,
    /// It is the end.
    Close(CloseCode),
}

impl FaceSet {
    /// Takes messages out of the stream block.
    pub(super) fn take_messages(
        &mut self,
        now: Timestamp,
        index: FaceIndex,
        block: &mut FillBlock,
        pool: &PacketPool,
        sink: &mut impl RxSink,
    ) -> Progress {
        loop {
            let head = match Head::parse(block.filled(), MESSAGE_LENGTH_MAX) {
                Ok(Some(head)) if head.total() <= block.filled().len() => head,
                Ok(_) => {
                    self.keep_partial(index, block.filled());
                    return Progress::Done;
                }
                Err(code) => {
                    self.end_websocket(now, index, code, pool);
                    return Progress::Done;
                }
            };
            if sink.is_full() {
                return Progress::SinkFull;
            }
            let payload = head.length..head.total();
            unmask(&mut block.filled_mut()[payload.clone()], head.mask);
            match self.step(now, index, &head, &block.filled()[payload]) {
                None => return Progress::Done,
                Some(Step::Packet) => {
                    block.skip(head.length);
                    self.calls.received_frames.increment();
                    self.deliver(now, index.into(), block, head.payload_length, pool, sink);
                }
                Some(Step::LastPart) => {
                    block.skip(head.total());
                    self.deliver_message(now, index, pool, sink);
                }
                Some(Step::Nothing) => block.skip(head.total()),
                Some(Step::Pong) => {
                    let mut payload = [0; CONTROL_LENGTH_MAX];
                    let payload = &mut payload[..head.payload_length];
                    payload.copy_from_slice(&block.filled()[head.length..head.total()]);
                    self.send_control(index, Opcode::Pong, payload, pool);
                    block.skip(head.total());
                }
                Some(Step::Close(code)) => {
                    self.end_websocket(now, index, code, pool);
                    return Progress::Done;
                }
            }
        }
    }

    /// What to do with a frame; `None` if the face is gone.
    fn step(
        &mut self,
        now: Timestamp,
        index: FaceIndex,
        head: &Head,
        payload: &[u8],
    ) -> Option<Step> {
        let websocket = websocket_of(face_in(&mut self.faces, index)?)?;
        websocket.heard();
        Some(match (head.opcode, websocket.is_in_message) {
            (Opcode::Close, _) => Step::Close(CloseCode::Normal),
            (Opcode::Ping, _) => Step::Pong,
            (Opcode::Pong, _) => Step::Nothing,
            (Opcode::Text, _) => Step::Close(CloseCode::Unsupported),
            (Opcode::Binary, false) if head.is_final && payload.is_empty() => Step::Nothing,
            (Opcode::Binary, false) if head.is_final => Step::Packet,
            (Opcode::Binary, false) | (Opcode::Continuation, true) => {
                if websocket.message.len() + payload.len() > MESSAGE_LENGTH_MAX {
                    return Some(Step::Close(CloseCode::TooLong));
                }
                if !self.reassembly_budget.take(payload.len()) {
                    return Some(Step::Close(CloseCode::NoMemory));
                }
                websocket.message.extend_from_slice(payload);
                websocket.part_has_come(now, head.is_final);
                if head.is_final { Step::LastPart } else { Step::Nothing }
            }
            (Opcode::Binary, true) | (Opcode::Continuation, false) => {
                Step::Close(CloseCode::Protocol)
            }
        })
    }

    /// Delivers a message that came in several frames. Hardly any client sends such.
    fn deliver_message(
        &mut self,
        now: Timestamp,
        index: FaceIndex,
        pool: &PacketPool,
        sink: &mut impl RxSink,
    ) {
        let websocket = face_in(&mut self.faces, index).and_then(websocket_of);
        let Some(message) = websocket.map(|websocket| std::mem::take(&mut websocket.message))
        else {
            return;
        };
        self.reassembly_budget.give_back(message.len());
        let Some(mut block) = pool.allocate_block().filter(|_| !message.is_empty()) else { return };
        block.spare_mut()[..message.len()].copy_from_slice(&message);
        block.commit(message.len());
        self.calls.received_frames.increment();
        self.deliver(now, index.into(), &mut block, message.len(), pool, sink);
        pool.finish(block);
    }

    /// Says goodbye and closes the face.
    fn end_websocket(
        &mut self,
        now: Timestamp,
        index: FaceIndex,
        code: CloseCode,
        pool: &PacketPool,
    ) {
        self.send_control(index, Opcode::Close, &code.number().to_be_bytes(), pool);
        self.flush_face(now, index, pool);
        let reason = match code {
            CloseCode::Normal => CloseReason::PeerClosed,
            CloseCode::TooLong => CloseReason::FrameTooLong,
            CloseCode::Protocol
            | CloseCode::Unsupported
            | CloseCode::Unfinished
            | CloseCode::NoMemory => CloseReason::WebSocket(code.number()),
        };
        self.lose_connection(now, index, reason, pool);
    }

    /// Sends a control frame, if there is room for it.
    fn send_control(
        &mut self,
        index: FaceIndex,
        opcode: Opcode,
        payload: &[u8],
        pool: &PacketPool,
    ) {
        let Some(Face { transport: Transport::Stream(stream), link, listed, .. }) =
            face_in(&mut self.faces, index)
        else {
            return;
        };
        if !matches!(stream.connection, Connection::Up(_)) {
            return;
        }
        let mut head = [0; HEAD_LENGTH_MAX];
        let length = write_head(opcode, payload.len(), &mut head);
        let bytes_max = link.options().queue_bytes_max;
        let queue = stream.output.get_or_insert_with(|| self.spare_queues.take());
        // A peer that reads nothing gets no answers.
        let budget = &mut self.output_budget;
        let _ = queue.push(&head[..length], payload, None, pool, budget, bytes_max);
        if !*listed && !queue.is_blocked() {
            *listed = true;
            self.unflushed.push(index);
        }
    }

    /// Asks the peer of a WebSocket face whether it is there, when that is due. False if the face
    /// is closed because it is not.
    pub(super) fn tend_websocket(
        &mut self,
        now: Timestamp,
        index: FaceIndex,
        pool: &PacketPool,
    ) -> bool {
        let websocket = face_in(&mut self.faces, index).and_then(websocket_of);
        match websocket.map_or(Due::Nothing, |websocket| websocket.poll(now)) {
            Due::Nothing => true,
            Due::Ping => {
                self.send_control(index, Opcode::Ping, &[], pool);
                true
            }
            Due::Silence => {
                self.lose_connection(now, index, CloseReason::Silent, pool);
                false
            }
            Due::Unfinished => {
                self.end_websocket(now, index, CloseCode::Unfinished, pool);
                false
            }
        }
    }
}

fn websocket_of(face: &mut Face) -> Option<&mut WebSocket> {
    match &mut face.transport {
        Transport::Stream(StreamTransport { websocket, .. }) => websocket.as_deref_mut(),
        Transport::Datagram { .. }
        | Transport::Ether { .. }
        | Transport::Memif(_)
        | Transport::Internal(_) => None,
    }
}
