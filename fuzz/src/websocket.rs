//! A WebSocket connection (RFC 6455) through the real framer, in pieces.

use ndn_face::NewStream;
use ndn_packet::{MAX_PACKET_SIZE, types};

use crate::stream::{Peer, Worker};

/// Longest message.
const MESSAGE_LENGTH_MAX: u64 = MAX_PACKET_SIZE as u64 + 256;

/// Takes the bytes as pieces that the client writes after the handshake: two bytes of length, and the piece.
///
/// Every whole message up to the first violation of the protocol arrives, and nothing behind it.
pub(crate) fn websocket(mut bytes: &[u8]) {
    let Some(mut worker) = Worker::take() else { return };
    let Some(mut peer) = Peer::new(&mut worker.set, 0, NewStream::WebSocket) else { return };
    let mut expected = Expected::default();
    while let Some((length, rest)) = bytes.split_first_chunk::<2>() {
        let length = usize::from(u16::from_be_bytes(*length)).min(rest.len());
        let (piece, rest) = rest.split_at(length);
        bytes = rest;
        if worker.set.contains(peer.face) {
            peer.write(piece);
            expected.add(&peer);
            worker.receive(&peer);
        }
        assert_eq!(peer.counters.in_frames.value(), expected.messages);
        assert_eq!(worker.set.contains(peer.face), !expected.has_ended);
    }
    worker.end([peer]);
}

/// The arrivals that a stream must have led to.
#[derive(Default)]
struct Expected {
    messages: u64,
    /// Bytes of the frames of which they and the next one consist.
    length: usize,
    /// Bytes of the message whose last frame has not come.
    begun: Option<u64>,
    /// It was closed for a violation of the protocol.
    has_ended: bool,
}

impl Expected {
    fn add(&mut self, peer: &Peer) {
        while !self.has_ended {
            match Frame::read(&peer.written[self.length..]) {
                Reading::Whole(frame, length) => {
                    self.length += length;
                    self.has_ended = !self.accept(&frame);
                }
                Reading::Incomplete => return,
                Reading::Violation => self.has_ended = true,
            }
        }
    }

    /// False if the frame violates the protocol.
    fn accept(&mut self, frame: &Frame) -> bool {
        match frame.opcode {
            9 | 10 => true,
            0 | 2 if (frame.opcode == 0) == self.begun.is_some() => {
                let before = self.begun.take().unwrap_or(0);
                let starts_packet = frame.first.is_none_or(types::starts_frame);
                let length = before + frame.length;
                if before == 0 && !starts_packet || length > MESSAGE_LENGTH_MAX {
                    return false;
                }
                match frame.is_final {
                    // An empty message carries nothing.
                    true => self.messages += u64::from(length > 0),
                    false => self.begun = Some(length),
                }
                true
            }
            _ => false,
        }
    }
}

struct Frame {
    is_final: bool,
    opcode: u8,
    /// The first byte of the payload, and bytes of it.
    first: Option<u8>,
    length: u64,
}

enum Reading {
    /// A frame, and its bytes.
    Whole(Frame, usize),
    Incomplete,
    Violation,
}

impl Frame {
    /// Reads the first frame (RFC 6455, section 5.2).
    fn read(bytes: &[u8]) -> Reading {
        let [first, second, rest @ ..] = bytes else { return Reading::Incomplete };
        let (is_final, opcode) = (first >> 7 == 1, first & 15);
        let is_masked = second >> 7 == 1;
        if first >> 4 & 7 != 0 || !is_masked || !matches!(opcode, 0..=2 | 8..=10) {
            return Reading::Violation;
        }
        let extended = match second & 127 {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let Some((digits, rest)) = rest.split_at_checked(extended) else {
            return Reading::Incomplete;
        };
        let length = match extended {
            0 => u64::from(second & 127),
            _ => digits.iter().fold(0, |length, digit| length << 8 | u64::from(*digit)),
        };
        if length > MESSAGE_LENGTH_MAX || opcode >= 8 && (length > 125 || !is_final) {
            return Reading::Violation;
        }
        let payload_length = usize::try_from(length).unwrap_or(usize::MAX);
        let Some((mask, rest)) = rest.split_first_chunk::<4>() else { return Reading::Incomplete };
        let Some((payload, behind)) = rest.split_at_checked(payload_length) else {
            return Reading::Incomplete;
        };
        let first = payload.first().map(|first| first ^ mask[0]);
        Reading::Whole(Self { is_final, opcode, first, length }, bytes.len() - behind.len())
    }
}
