//! What happens to faces by itself, for the control thread to know.

use std::fmt;
use std::io;

use ndn_memif::Farewell;
use ndn_table::FaceIndex;

/// Why a face closed, or lost its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// The peer closed the connection.
    PeerClosed,
    /// The peer of a memif face has said why it leaves.
    Left(Farewell),
    /// The server of a memif face does not want it, and has said why.
    Refused(Farewell),
    /// The connection failed.
    Failed(io::ErrorKind),
    /// The peer sent a frame that is longer than any packet, and there is no telling where the
    /// next one starts.
    FrameTooLong,
    /// The peer sent what is no TLV, and there is no telling where the next one starts.
    MalformedFrame,
    /// It had no connection, and is not to get it back any more: it is no longer permanent.
    NotPermanent,
    /// The peer did what WebSocket does not allow, or wanted more than there is; the status code
    /// that it was told.
    WebSocket(u16),
    /// The peer of a WebSocket did not say that it is still there.
    Silent,
    /// An on-demand face that received nothing for its idle timeout.
    Idle,
    /// The peer of a memif face did what it may not.
    Misbehaved,
    /// The network device has no link at the moment.
    NoLink,
    /// The network device is gone.
    InterfaceGone,
}

impl fmt::Display for CloseReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PeerClosed => formatter.write_str("closed by the peer"),
            Self::Left(farewell) => write!(formatter, "the peer has left: {farewell}"),
            Self::Refused(farewell) => write!(formatter, "the peer refuses: {farewell}"),
            Self::Failed(kind) => write!(formatter, "connection failed: {kind}"),
            Self::FrameTooLong => formatter.write_str("the peer sent a frame that is too long"),
            Self::MalformedFrame => formatter.write_str("the peer sent what is no TLV"),
            Self::NotPermanent => formatter.write_str("down, and not permanent any more"),
            Self::WebSocket(code) => write!(formatter, "WebSocket closed with status {code}"),
            Self::Silent => formatter.write_str("the peer does not answer"),
            Self::Idle => formatter.write_str("idle for too long"),
            Self::Misbehaved => formatter.write_str("the peer does not keep to the protocol"),
            Self::NoLink => formatter.write_str("the interface has no link"),
            Self::InterfaceGone => formatter.write_str("the interface is gone"),
        }
    }
}

/// What happened to a face.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaceChange {
    /// The face is gone; its index means nothing any more.
    Closed(CloseReason),
    /// A permanent face has lost its connection and tries to make it anew, or has tried in vain.
    Down(CloseReason),
    /// A permanent face has its connection back.
    Up,
}

/// Something that happened to a face without being asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaceEvent {
    /// The face.
    pub face: FaceIndex,
    /// What happened.
    pub change: FaceChange,
}
