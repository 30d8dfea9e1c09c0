//! The framing of WebSocket connections (RFC 6455), from the server's side.
//!
//! Sans-I/O: [`Head`] reads the header of a frame, [`unmask`] its payload, [`write_head`] writes the
//! header of ours. The handshake is done elsewhere. Packets travel as binary messages, one each, as in
//! NFD.

use std::time::Duration;

use ndn_types::Timestamp;

/// Interval of pings, as in NFD.
const PING_INTERVAL: Duration = Duration::from_secs(10);
/// Timeout of the answer to a ping, as in NFD.
const PONG_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of a message that comes in several frames, which holds memory.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest payload of a control frame.
pub(crate) const CONTROL_LENGTH_MAX: usize = 125;
/// Longest header that is written here.
pub(crate) const HEAD_LENGTH_MAX: usize = 10;

/// The type of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opcode {
    Continuation,
    Text,
    Binary,
    Close,
    Ping,
    Pong,
}

impl Opcode {
    fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            0 => Self::Continuation,
            1 => Self::Text,
            2 => Self::Binary,
            8 => Self::Close,
            9 => Self::Ping,
            10 => Self::Pong,
            _ => return None,
        })
    }

    fn bits(self) -> u8 {
        match self {
            Self::Continuation => 0,
            Self::Text => 1,
            Self::Binary => 2,
            Self::Close => 8,
            Self::Ping => 9,
            Self::Pong => 10,
        }
    }

    fn is_control(self) -> bool {
        matches!(self, Self::Close | Self::Ping | Self::Pong)
    }
}

/// Why a connection is closed; the number goes to the peer (RFC 6455, section 7.4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloseCode {
    Normal,
    Protocol,
    /// A text message: packets are binary.
    Unsupported,
    /// A message that was not completed in time.
    Unfinished,
    TooLong,
    NoMemory,
}

impl CloseCode {
    pub(crate) fn number(self) -> u16 {
        match self {
            Self::Normal => 1000,
            Self::Protocol => 1002,
            Self::Unsupported => 1003,
            Self::Unfinished => 1008,
            Self::TooLong => 1009,
            Self::NoMemory => 1013,
        }
    }
}

/// The header of a frame from the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) is_final: bool,
    pub(crate) opcode: Opcode,
    /// Of the header itself.
    pub(crate) length: usize,
    pub(crate) payload_length: usize,
    pub(crate) mask: [u8; 4],
}

impl Head {
    /// Reads the header at the front of `bytes`; `None` if it is incomplete.
    pub(crate) fn parse(bytes: &[u8], payload_max: usize) -> Result<Option<Self>, CloseCode> {
        let [first, second, rest @ ..] = bytes else { return Ok(None) };
        let opcode = Opcode::from_bits(first & 0x0f).ok_or(CloseCode::Protocol)?;
        let (is_final, has_mask) = (first & 0x80 != 0, second & 0x80 != 0);
        // No extension was agreed on, and clients mask what they send.
        if first & 0x70 != 0 || !has_mask {
            return Err(CloseCode::Protocol);
        }
        let (payload_length, extended) = match (second & 0x7f, rest) {
            (126, [high, low, ..]) => (u64::from(u16::from_be_bytes([*high, *low])), 2),
            (127, [a, b, c, d, e, f, g, h, ..]) => {
                (u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]), 8)
            }
            (126 | 127, _) => return Ok(None),
            (short, _) => (u64::from(short), 0),
        };
        if opcode.is_control() && (!is_final || payload_length > CONTROL_LENGTH_MAX as u64) {
            return Err(CloseCode::Protocol);
        }
        let payload_length = usize::try_from(payload_length).map_err(|_| CloseCode::TooLong)?;
        if payload_length > payload_max {
            return Err(CloseCode::TooLong);
        }
        let Some([a, b, c, d, ..]) = rest.get(extended..) else { return Ok(None) };
        let (length, mask) = (2 + extended + 4, [*a, *b, *c, *d]);
        Ok(Some(Self { is_final, opcode, length, payload_length, mask }))
    }

    /// Header and payload.
    pub(crate) fn total(&self) -> usize {
        self.length + self.payload_length
    }
}

/// Applies the mask to a payload, or removes it.
pub(crate) fn unmask(payload: &mut [u8], mask: [u8; 4]) {
    let (words, rest) = payload.as_chunks_mut::<4>();
    for word in words {
        *word = (u32::from_ne_bytes(*word) ^ u32::from_ne_bytes(mask)).to_ne_bytes();
    }
    rest.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
}

/// Writes the header of a final frame for `payload_length` bytes to the front of `out`; returns its
/// length.
pub(crate) fn write_head(
    opcode: Opcode,
    payload_length: usize,
    out: &mut [u8; HEAD_LENGTH_MAX],
) -> usize {
    out[0] = 0x80 | opcode.bits();
    if let Some(short) = u8::try_from(payload_length).ok().filter(|length| *length < 126) {
        out[1] = short;
        2
    } else if let Ok(medium) = u16::try_from(payload_length) {
        out[1] = 126;
        out[2..4].copy_from_slice(&medium.to_be_bytes());
        4
    } else {
        out[1] = 127;
        out[2..].copy_from_slice(&(payload_length as u64).to_be_bytes());
        10
    }
}

/// The action that is due on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    Nothing,
    /// A ping is to be sent.
    Ping,
    /// The peer did not answer a ping.
    Silence,
    /// A message was not completed in time.
    Unfinished,
}

/// The state of one connection.
#[derive(Debug)]
pub(crate) struct WebSocket {
    /// The beginning of a message that comes in several frames.
    pub(crate) message: Vec<u8>,
    /// Whether there is one.
    pub(crate) is_in_message: bool,
    /// Until when the message has to be there.
    message_due: Option<Timestamp>,
    next_ping: Timestamp,
    /// Until when an answer has to be there.
    pong_due: Option<Timestamp>,
}

impl WebSocket {
    pub(crate) fn new(now: Timestamp) -> Self {
        Self {
            message: Vec::new(),
            is_in_message: false,
            message_due: None,
            next_ping: now.plus(PING_INTERVAL),
            pong_due: None,
        }
    }

    /// A frame was received: the peer is alive.
    pub(crate) fn note_frame(&mut self) {
        self.pong_due = None;
    }

    /// A part of a message was received, which may be its last.
    pub(crate) fn note_part(&mut self, now: Timestamp, is_last: bool) {
        self.is_in_message = !is_last;
        let due = self.message_due.unwrap_or_else(|| now.plus(MESSAGE_TIMEOUT));
        self.message_due = (!is_last).then_some(due);
    }

    /// Pings come so often that the end of a message is never far behind the noted deadline.
    pub(crate) fn next_deadline(&self) -> Timestamp {
        let others = [self.pong_due, self.message_due].into_iter().flatten();
        others.fold(self.next_ping, Timestamp::min)
    }

    /// The action that is due by now; a ping is to be sent at once.
    pub(crate) fn poll(&mut self, now: Timestamp) -> Due {
        if self.pong_due.is_some_and(|due| due <= now) {
            return Due::Silence;
        }
        if self.message_due.is_some_and(|due| due <= now) {
            return Due::Unfinished;
        }
        if self.next_ping > now {
            return Due::Nothing;
        }
        self.next_ping = now.plus(PING_INTERVAL);
        self.pong_due = Some(now.plus(PONG_TIMEOUT));
        Due::Ping
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mask = [1, 2, 3, 4];
        let mut head = [0; HEAD_LENGTH_MAX];
        let length = write_head(Opcode::Binary, payload.len(), &mut head);
        head[0] = first;
        head[1] |= 0x80;
        let mut masked = payload.to_vec();
        unmask(&mut masked, mask);
        [&head[..length], &mask, &masked].concat()
    }

    proptest! {
        #[test]
        fn frames_of_any_length_round_trip(length in prop_oneof![0..300_usize, 65_000..66_000_usize]) {
            let payload: Vec<u8> = (0..length).map(|at| u8::try_from(at % 251).unwrap()).collect();
            let mut bytes = frame(0x82, &payload);
            let head = Head::parse(&bytes, 70_000).unwrap().unwrap();
            prop_assert_eq!(head.total(), bytes.len());
            prop_assert!(head.is_final && head.opcode == Opcode::Binary);
            for cut in 0..head.length {
                prop_assert_eq!(Head::parse(&bytes[..cut], 70_000), Ok(None));
            }
            unmask(&mut bytes[head.length..], head.mask);
            prop_assert_eq!(&bytes[head.length..], &payload[..]);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..20)) {
            if let Ok(Some(head)) = Head::parse(&bytes, 1000) {
                prop_assert!(head.length <= bytes.len() && head.payload_length <= 1000);
            }
        }
    }

    #[test]
    fn frame_that_violates_the_protocol_is_refused() {
        let masked = |first: u8| frame(first, b"x");
        assert!(Head::parse(&masked(0x82), 10).is_ok());
        for (bytes, code) in [
            (vec![0x82, 1, b'x'], CloseCode::Protocol),
            (masked(0xc2), CloseCode::Protocol),
            (masked(0x83), CloseCode::Protocol),
            (masked(0x09), CloseCode::Protocol),
            (frame(0x89, &[0; 126]), CloseCode::Protocol),
            (frame(0x82, &[0; 11]), CloseCode::TooLong),
            (vec![0x82, 0xff, 255, 255, 255, 255, 255, 255, 255, 255], CloseCode::TooLong),
        ] {
            assert_eq!(Head::parse(&bytes, 10), Err(code), "{bytes:?}");
        }
    }

    #[test]
    fn peer_that_does_not_answer_a_ping_times_out() {
        let at = Timestamp::from_millis;
        let mut websocket = WebSocket::new(at(0));
        assert_eq!(
            (websocket.next_deadline(), websocket.poll(at(9_999))),
            (at(10_000), Due::Nothing)
        );
        assert_eq!(websocket.poll(at(10_000)), Due::Ping);
        assert_eq!(
            (websocket.next_deadline(), websocket.poll(at(14_999))),
            (at(15_000), Due::Nothing)
        );
        websocket.note_frame();
        assert_eq!(websocket.poll(at(15_000)), Due::Nothing);
        assert_eq!(websocket.poll(at(20_000)), Due::Ping);
        assert_eq!(websocket.poll(at(25_000)), Due::Silence);
    }

    #[test]
    fn unfinished_fragmented_message_times_out() {
        let at = Timestamp::from_millis;
        let mut websocket = WebSocket::new(at(0));
        websocket.note_part(at(1000), false);
        for ping in [10_000, 20_000, 30_000] {
            assert_eq!(websocket.poll(at(ping)), Due::Ping);
            // More of it, which is not all of it.
            websocket.note_frame();
            websocket.note_part(at(ping), false);
        }
        assert_eq!(
            (websocket.next_deadline(), websocket.poll(at(30_999))),
            (at(31_000), Due::Nothing)
        );
        assert_eq!(websocket.poll(at(31_000)), Due::Unfinished);
        // The next has as much time again.
        websocket.note_part(at(31_000), true);
        assert_eq!(websocket.poll(at(31_000)), Due::Nothing);
        websocket.note_part(at(35_000), false);
        assert_eq!(websocket.message_due, Some(at(65_000)));
    }
}
