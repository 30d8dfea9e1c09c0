//! From a connected socket to a link.
//!
//! Both sides answer each message before the next one is sent, so there is never more than one message
//! on its way, and none has to be kept because a socket is full.

mod client;
mod server;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use ndn_sys::seqpacket;

use crate::Farewell;
use crate::limits::{
    BUFFER_LENGTH_DEFAULT, BUFFER_LENGTH_MAX, BUFFER_LENGTH_MIN, BUFFER_LENGTH_OWN,
    CHAIN_MAX_PIECES,
};
use crate::link::Link;
use crate::message::{MESSAGE_LENGTH, Message, MessageError, Name};
use crate::ring::Fault;

pub use client::{ClientHandshake, ClientOptions};
pub use server::{ServerHandshake, ServerOptions};

/// The version of the protocol: 2.0.
const VERSION: u16 = 0x200;
/// The mode of frames that need not be IP.
const MODE_ETHERNET: u8 = 0;
/// How this program calls itself.
const PROGRAM: &str = concat!("Namewire ", env!("CARGO_PKG_VERSION"));

/// Bytes of a buffer: the requested size, else one that suits the peer. Some programs copy one buffer into their own
/// without checking its length, so only a known program gets more than the default.
fn buffer_length(wanted: Option<u32>, peer: &Name) -> u32 {
    let usual = if is_own(peer) { BUFFER_LENGTH_OWN } else { BUFFER_LENGTH_DEFAULT };
    wanted.unwrap_or(usual).clamp(BUFFER_LENGTH_MIN, BUFFER_LENGTH_MAX)
}

/// Whether the peer is this program.
fn is_own(peer: &Name) -> bool {
    peer.to_string().starts_with("Namewire ")
}

/// Bytes of the longest frame: that of one buffer, or of several if the peer `takes_chains`. A frame then uses at most
/// half of a ring, so that the next one has room while the peer reads it.
fn frame_length_max(buffer_length: u32, ring_size: u16, takes_chains: bool) -> u32 {
    if !takes_chains {
        return buffer_length;
    }
    let pieces = u32::from(ring_size / 2).clamp(1, CHAIN_MAX_PIECES);
    buffer_length.saturating_mul(pieces).min(BUFFER_LENGTH_OWN).max(buffer_length)
}

/// Why a server does not want a client. The words are for the client, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The interface has a secret, and the client has said none.
    #[error("A secret is required")]
    SecretMissing,
    /// The client has said another secret.
    #[error("Incorrect secret")]
    SecretWrong,
    /// The interface has a client already.
    #[error("Already connected")]
    Taken,
    /// All clients together, or those of this user, share as much memory as they may.
    #[error("Too much memory is shared by all clients together, or by those of this user")]
    MemoryUsedUp,
}

/// How far a handshake is.
#[derive(Debug)]
pub enum Progress<Handshake> {
    /// Go on when the socket is readable.
    Waiting(Handshake),
    /// Frames can travel.
    Done(Box<Link>),
}

/// Why there is no link.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The system does not let it be.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The peer has closed the socket without a word.
    #[error("the peer has closed the connection")]
    Closed,
    /// The peer has said why it does not want one.
    #[error("the peer refuses: {0}")]
    Refused(Farewell),
    /// What the peer has sent is no message.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// The peer violates the protocol; it receives the reason.
    #[error("{0}")]
    Protocol(&'static str),
    /// The request of the client is rejected; it receives the reason.
    #[error("{refusal}")]
    NotAdmitted {
        /// The interface that it asks for.
        id: u32,
        /// Its program.
        client: Name,
        /// Why it cannot have it.
        refusal: Refusal,
    },
    /// The memory is not what the peer says.
    #[error(transparent)]
    Memory(#[from] Fault),
}

/// Takes the next message with its file descriptor; `None` if there is none yet.
fn next_message(socket: BorrowedFd<'_>) -> Result<Option<(Message, Vec<OwnedFd>)>, HandshakeError> {
    // One byte more, to see messages that are too long.
    let mut bytes = [0; MESSAGE_LENGTH + 1];
    let received = match seqpacket::receive(socket, &mut bytes) {
        Ok(received) if received.length == 0 => return Err(HandshakeError::Closed),
        Ok(received) => received,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if received.is_truncated {
        return Err(HandshakeError::Protocol("Invalid message size"));
    }
    let message = Message::decode(&bytes[..received.length])?;
    if let Message::Disconnect(farewell) = message {
        return Err(HandshakeError::Refused(farewell));
    }
    Ok(Some((message, received.descriptors)))
}

/// The one descriptor that belongs to a message.
fn single(mut descriptors: Vec<OwnedFd>) -> Result<OwnedFd, HandshakeError> {
    match (descriptors.pop(), descriptors.is_empty()) {
        (Some(descriptor), true) => Ok(descriptor),
        (None, _) => Err(HandshakeError::Protocol("Missing descriptor")),
        (Some(_), false) => Err(HandshakeError::Protocol("Too many descriptors")),
    }
}

/// A message that brings no descriptor has brought none.
fn none(descriptors: &[OwnedFd]) -> Result<(), HandshakeError> {
    match descriptors.is_empty() {
        true => Ok(()),
        false => Err(HandshakeError::Protocol("Unexpected descriptor")),
    }
}

/// Tells the peer what is wrong, unless it has said so itself.
fn tell(socket: BorrowedFd<'_>, error: &HandshakeError) {
    let reason = match error {
        HandshakeError::Closed | HandshakeError::Refused(_) => return,
        HandshakeError::Io(_) => "Out of resources".to_owned(),
        HandshakeError::Message(_)
        | HandshakeError::Protocol(_)
        | HandshakeError::NotAdmitted { .. }
        | HandshakeError::Memory(_) => error.to_string(),
    };
    turn_away(socket, &reason);
}

/// Rejects the peer of a socket, with the reason.
pub fn turn_away(socket: BorrowedFd<'_>, reason: &str) {
    let message = Message::Disconnect(Farewell::new(0, reason));
    // A peer that does not read it sees the end of the socket.
    let _ = seqpacket::send(socket, &message.encode(), None);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_as_long_as_buffers_and_rings_allow() {
        for (buffer_length, ring_size, takes_chains, longest) in [
            (2048, 1024, false, 2048),
            (9216, 256, false, 9216),
            (2048, 1024, true, 9216),
            (512, 1024, true, 9216),
            (512, 8, true, 2048),
            (2048, 1, true, 2048),
            (65_535, 256, true, 65_535),
        ] {
            let found = frame_length_max(buffer_length, ring_size, takes_chains);
            assert_eq!(found, longest, "{buffer_length} {ring_size} {takes_chains}");
        }
        assert!(is_own(&Name::new(PROGRAM)) && !is_own(&Name::new("DPDK 22.11.11")));
    }
}
