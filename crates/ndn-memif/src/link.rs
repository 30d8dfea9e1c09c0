//! A connection that is up.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ndn_sys::seqpacket;

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
    /// Longest frame that the peer should be sent, bytes: that of one buffer.
    pub frame_length_max: u32,
    /// Rings that frames come by; at least one.
    pub receivers: Vec<Receiver>,
    /// Rings that frames go by; at least one.
    pub senders: Vec<Sender>,
}

impl Link {
    /// Why the peer has ended the connection, if it has said so.
    #[must_use]
    pub fn farewell(&self) -> Option<String> {
        // Nothing but this is expected; what else there is, is not worth looking for.
        let mut bytes = [0; MESSAGE_LENGTH];
        let received = seqpacket::receive(self.socket.as_fd(), &mut bytes).ok()?;
        match Message::decode(bytes.get(..received.length)?) {
            Ok(Message::Disconnect { reason, .. }) => Some(reason),
            _ => None,
        }
    }

    /// Whether the peer has left, or said that it will. It may say why once only.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        match seqpacket::receive(self.socket.as_fd(), &mut [0; MESSAGE_LENGTH]) {
            Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
            Ok(_) => true,
        }
    }

    /// Tells the peer why the connection ends, and ends it.
    pub fn disconnect(self, reason: &str) {
        self.bid_farewell(reason);
    }

    /// Tells the peer why the connection ends.
    pub fn bid_farewell(&self, reason: &str) {
        let message = Message::Disconnect { code: 0, reason: reason.to_owned() };
        // Who does not read it sees the end of the socket.
        let _ = seqpacket::send(self.socket.as_fd(), &message.encode(), None);
    }
}

impl AsFd for Link {
    /// The socket.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
