//! An established connection.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ndn_sys::seqpacket;

use crate::disconnect::DisconnectReason;
use crate::message::{MESSAGE_LENGTH, Message, Name};
use crate::receive::Receiver;
use crate::send::Sender;

/// The rings of a connection, and its socket.
///
/// The socket reports the end of the peer, and carries nothing else.
#[derive(Debug)]
pub struct Connection {
    pub(crate) socket: OwnedFd,
    /// The interface of the server.
    pub id: u32,
    /// The peer's program.
    pub peer: Name,
    /// The peer's interface.
    pub interface: Name,
    /// Longest frame to send to the peer, bytes: one buffer, unless the peer is known to accept chains.
    pub frame_length_max: u32,
    /// Rings to receive from; at least one.
    pub receivers: Vec<Receiver>,
    /// Rings to send by; at least one.
    pub senders: Vec<Sender>,
}

/// The end of a connection by the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It has sent a DISCONNECT message.
    Disconnected(DisconnectReason),
    /// It has closed the socket.
    Closed,
}

impl fmt::Display for Ended {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disconnected(reason) => write!(formatter, "the peer has left: {reason}"),
            Self::Closed => formatter.write_str("the peer has closed the connection"),
        }
    }
}

impl Connection {
    /// Whether the peer has ended the connection.
    #[must_use]
    pub fn ended(&self) -> Option<Ended> {
        ended(self.socket.as_fd())
    }

    /// Sends the peer the reason, and closes the connection.
    pub fn disconnect(self, reason: &str) {
        self.send_disconnect(reason);
    }

    /// Sends the peer the reason for which the connection ends.
    pub fn send_disconnect(&self, reason: &str) {
        send_disconnect(self.socket.as_fd(), reason);
    }
}

/// Sends the peer the reason for which a connection ends, or is not established.
pub fn send_disconnect(socket: BorrowedFd<'_>, reason: &str) {
    let message = Message::Disconnect(DisconnectReason::new(0, reason));
    // A peer that does not read it detects the end of the socket.
    let _ = seqpacket::send(socket, &message.encode(), None);
}

/// As [`Connection::ended`], for the socket of a link.
#[must_use]
pub fn ended(socket: BorrowedFd<'_>) -> Option<Ended> {
    let mut bytes = [0; MESSAGE_LENGTH];
    match seqpacket::receive(socket, &mut bytes) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
        Err(_) => Some(Ended::Closed),
        // Only DISCONNECT is expected; any other message ends the connection, too.
        Ok(received) => match bytes.get(..received.length).map(Message::decode) {
            Some(Ok(Message::Disconnect(reason))) => Some(Ended::Disconnected(reason)),
            _ => Some(Ended::Closed),
        },
    }
}

impl AsFd for Connection {
    /// The socket.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
