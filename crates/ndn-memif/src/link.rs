//! A connection that is up.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ndn_sys::seqpacket;

use crate::Farewell;
use crate::message::{MESSAGE_LENGTH, Message, Name};
use crate::receive::Receiver;
use crate::send::Sender;

/// The rings of a connection, and its socket.
///
/// The socket has a hang-up when the peer is gone, and nothing else of use.
#[derive(Debug)]
pub struct Link {
    pub(crate) socket: OwnedFd,
    /// Which interface of the server.
    pub id: u32,
    /// The peer's program.
    pub peer: Name,
    /// The peer's interface.
    pub interface: Name,
    /// Longest frame that the peer should be sent, bytes: that of one buffer, unless it is known to take several.
    pub frame_length_max: u32,
    /// Rings that frames come by; at least one.
    pub receivers: Vec<Receiver>,
    /// Rings that frames go by; at least one.
    pub senders: Vec<Sender>,
}

/// How a peer has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It has said why.
    Said(Farewell),
    /// It is gone.
    Silently,
}

impl fmt::Display for Ended {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Said(farewell) => write!(formatter, "the peer has left: {farewell}"),
            Self::Silently => formatter.write_str("the peer has closed the connection"),
        }
    }
}

impl Link {
    /// Whether the peer has left, or said that it will.
    #[must_use]
    pub fn ended(&self) -> Option<Ended> {
        ended(self.socket.as_fd())
    }

    /// Tells the peer why the connection ends, and ends it.
    pub fn disconnect(self, reason: &str) {
        self.bid_farewell(reason);
    }

    /// Tells the peer why the connection ends.
    pub fn bid_farewell(&self, reason: &str) {
        let message = Message::Disconnect(Farewell::new(0, reason));
        // A peer that does not read it sees the end of the socket.
        let _ = seqpacket::send(self.socket.as_fd(), &message.encode(), None);
    }
}

/// As [`Link::ended`], of the link that has this socket.
#[must_use]
pub fn ended(socket: BorrowedFd<'_>) -> Option<Ended> {
    let mut bytes = [0; MESSAGE_LENGTH];
    match seqpacket::receive(socket, &mut bytes) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
        Err(_) => Some(Ended::Silently),
        // Nothing but a farewell is expected, so whatever else there is ends the connection too.
        Ok(received) => match bytes.get(..received.length).map(Message::decode) {
            Some(Ok(Message::Disconnect(farewell))) => Some(Ended::Said(farewell)),
            _ => Some(Ended::Silently),
        },
    }
}

impl AsFd for Link {
    /// The socket.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
