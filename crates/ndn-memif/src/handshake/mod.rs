//! The handshake: from a connected socket to a link.
//!
//! Both sides acknowledge each message before the next one is sent, so at most one message is in flight,
//! and a socket is never full.

mod client;
mod server;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use ndn_sys::seqpacket;

use crate::connection::{Connection, send_disconnect};
use crate::disconnect::DisconnectReason;
use crate::limits::{
    BUFFER_LENGTH_DEFAULT, BUFFER_LENGTH_MAX, BUFFER_LENGTH_MIN, BUFFER_LENGTH_OWN,
    CHAIN_MAX_PIECES,
};
use crate::message::{MESSAGE_LENGTH, Message, MessageError, Name};
use crate::ring::Fault;

pub use client::{ClientHandshake, ClientOptions};
pub use server::{ServerHandshake, ServerOptions};

/// The version of the protocol: 2.0.
const VERSION: u16 = 0x200;
/// The mode of frames that need not be IP.
const MODE_ETHERNET: u8 = 0;
/// The name that this program sends.
const PROGRAM: &str = concat!("Namewire ", env!("CARGO_PKG_VERSION"));

/// Bytes of a buffer: as requested, else the default for the peer. Some programs copy a buffer into one of their own
/// without checking its length, so only known programs get longer ones than usual.
fn buffer_length(requested: Option<u32>, peer: &Name) -> u32 {
    let usual = if is_own(peer) { BUFFER_LENGTH_OWN } else { BUFFER_LENGTH_DEFAULT };
    requested.unwrap_or(usual).clamp(BUFFER_LENGTH_MIN, BUFFER_LENGTH_MAX)
}

/// Whether the peer is this program.
fn is_own(peer: &Name) -> bool {
    peer.to_string().starts_with("Namewire ")
}

/// Bytes of the longest frame: one buffer, or several if the peer `takes_chains`. A frame takes at most half of a
/// ring then, so that the next one has room while the peer reads it.
fn frame_length_max(buffer_length: u32, ring_size: u16, takes_chains: bool) -> u32 {
    if !takes_chains {
        return buffer_length;
    }
    let pieces = u32::from(ring_size / 2).clamp(1, CHAIN_MAX_PIECES);
    buffer_length.saturating_mul(pieces).min(BUFFER_LENGTH_OWN).max(buffer_length)
}

/// Why a server refuses a client. The text is sent to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The interface has a secret, and the client has sent none.
    #[error("A secret is required")]
    SecretMissing,
    /// The client has sent another secret.
    #[error("Incorrect secret")]
    SecretWrong,
    /// The interface has a client already.
    #[error("Already connected")]
    Taken,
    /// All clients together, or those of this user, have reached the memory limit.
    #[error("Too much memory is shared by all clients together, or by those of this user")]
    MemoryUsedUp,
}

/// The progress of a handshake.
#[derive(Debug)]
pub enum Progress<Handshake> {
    /// Continue when the socket is readable.
    Waiting(Handshake),
    /// Frames can travel.
    Done(Box<Connection>),
}

/// Why a handshake has failed.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// A system call has failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The peer has closed the socket without DISCONNECT.
    #[error("the peer has closed the connection")]
    Closed,
    /// The peer has sent DISCONNECT.
    #[error("the peer rejects the connection: {0}")]
    Refused(DisconnectReason),
    /// The peer has sent a malformed message.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// The peer has violated the protocol; it gets this reason.
    #[error("{0}")]
    Protocol(&'static str),
    /// The client is refused; it gets this reason.
    #[error("{refusal}")]
    NotAdmitted {
        /// The requested interface.
        id: u32,
        /// Its program.
        client: Name,
        /// The reason.
        refusal: Refusal,
    },
    /// The shared memory is invalid.
    #[error(transparent)]
    Memory(#[from] Fault),
}

/// Receives the next message with its descriptors; `None` if there is none yet.
fn next_message(socket: BorrowedFd<'_>) -> Result<Option<(Message, Vec<OwnedFd>)>, HandshakeError> {
    // One byte more, to detect messages that are too long.
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
    if let Message::Disconnect(reason) = message {
        return Err(HandshakeError::Refused(reason));
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

/// Checks that a message has no descriptors.
fn none(descriptors: &[OwnedFd]) -> Result<(), HandshakeError> {
    match descriptors.is_empty() {
        true => Ok(()),
        false => Err(HandshakeError::Protocol("Unexpected descriptor")),
    }
}

/// Sends the peer the reason of an error, unless the peer has ended the connection itself.
fn report(socket: BorrowedFd<'_>, error: &HandshakeError) {
    let reason = match error {
        HandshakeError::Closed | HandshakeError::Refused(_) => return,
        HandshakeError::Io(_) => "Out of resources".to_owned(),
        HandshakeError::Message(_)
        | HandshakeError::Protocol(_)
        | HandshakeError::NotAdmitted { .. }
        | HandshakeError::Memory(_) => error.to_string(),
    };
    send_disconnect(socket, &reason);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_length_is_limited_by_buffers_and_rings() {
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
