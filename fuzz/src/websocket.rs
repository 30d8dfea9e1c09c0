//! A WebSocket connection (RFC 6455) through the real framer, in pieces.

use ndn_face::NewStream;
use ndn_packet::{MAX_PACKET_SIZE, types};

use crate::stream::{Peer, Worker};

/// Longest message.
const MESSAGE_LENGTH_MAX: u64 = MAX_PACKET_SIZE as u64 + 256;

/// Takes the bytes as pieces that the client writes after the handshake: two bytes of length, and the piece.
///
/// Every whole message up to the first violation of the protocol arrives, and nothing behind it.
pub fn websocket(mut bytes: &[u8]) {
    let Some(mut worker) = Worker::take() else { return };
    let Some(mut peer) = Peer::new(&mut worker.set, 0, NewStream::WebSocket) else { return };
    while let Some((length, rest)) = bytes.split_first_chunk::<2>() {
        let length = usize::from(u16::from_be_bytes(*length)).min(rest.len());
        let (piece, rest) = rest.split_at(length);
        bytes = rest;
        if worker.set.contains(peer.face) {
            peer.write(piece);
        }
        worker.receive_all();
        let (messages, is_open) = messages_of(&peer.written);
        assert_eq!(peer.counters.in_frames.value(), messages);
        assert_eq!(worker.set.contains(peer.face), is_open);
    }
    worker.end(&[peer]);
}

/// The number of messages that a stream starts with, and whether it may go on.
fn messages_of(mut bytes: &[u8]) -> (u64, bool) {
    let (mut messages, mut begun) = (0, None::<Vec<u8>>);
    loop {
        let frame = match Frame::read(bytes) {
            Reading::Whole(frame, rest) => {
                bytes = rest;
                frame
            }
            Reading::Incomplete => return (messages, true),
            Reading::Violation => return (messages, false),
        };
        match frame.opcode {
            9 | 10 => {}
            0 | 2 if (frame.opcode == 0) == begun.is_some() => {
                let mut message = begun.take().unwrap_or_default();
                let is_first = message.is_empty();
                message.extend(frame.payload);
                let starts_packet = message.first().is_none_or(|first| types::starts_frame(*first));
                if is_first && !starts_packet || message.len() as u64 > MESSAGE_LENGTH_MAX {
                    return (messages, false);
                }
                match frame.is_final {
                    // An empty message carries nothing.
                    true => messages += u64::from(!message.is_empty()),
                    false => begun = Some(message),
                }
            }
            _ => return (messages, false),
        }
    }
}

struct Frame {
    is_final: bool,
    opcode: u8,
    payload: Vec<u8>,
}

enum Reading<'a> {
    Whole(Frame, &'a [u8]),
    Incomplete,
    Violation,
}

impl Frame {
    /// Reads the first frame (RFC 6455, section 5.2).
    fn read(bytes: &[u8]) -> Reading<'_> {
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
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let Some((mask, rest)) = rest.split_first_chunk::<4>() else { return Reading::Incomplete };
        let Some((payload, rest)) = rest.split_at_checked(length) else {
            return Reading::Incomplete;
        };
        let payload = payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask);
        Reading::Whole(Self { is_final, opcode, payload: payload.collect() }, rest)
    }
}
