//! Events of faces, for the control thread.

use std::fmt;
use std::io;

use ndn_memif::DisconnectReason;
use ndn_table::FaceIndex;

/// Why a face closed, or lost its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// The peer closed the connection.
    PeerClosed,
    /// The peer of a memif face has disconnected with this reason.
    Left(DisconnectReason),
    /// The server of a memif face has refused it with this reason.
    Refused(DisconnectReason),
    /// The connection failed.
    Failed(io::ErrorKind),
    /// The peer sent a frame longer than any packet, so that the start of the next one is unknown.
    FrameTooLong,
    /// The peer sent a malformed TLV, so that the start of the next frame is unknown.
    MalformedFrame,
    /// The peer of a stream sent something that starts with this byte, which is neither Interest nor Data nor LpPacket:
    /// it uses another protocol, such as HTTP.
    OtherProtocol(u8),
    /// It had no connection, and is no longer permanent.
    NotPermanent,
    /// The WebSocket was closed with this status code, for a violation of the protocol or a limit.
    WebSocket(u16),
    /// The peer of a WebSocket did not answer a ping.
    Silent,
    /// An on-demand face that received nothing for its idle timeout.
    Idle,
    /// It kept a part of a frame or a message in memory that others needed, and its principal had more than its share.
    OverShare,
    /// The peer of a memif face violated the protocol.
    Misbehaved,
    /// The network device has no link at the moment.
    NoLink,
    /// The network device is gone.
    InterfaceGone,
    /// The kernel has no way to the peer, or the peer's host rejects datagrams.
    Unreachable(io::ErrorKind),
}

impl fmt::Display for CloseReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PeerClosed => formatter.write_str("closed by the peer"),
            Self::Left(reason) => write!(formatter, "the peer has left: {reason}"),
            Self::Refused(reason) => write!(formatter, "the peer rejects the connection: {reason}"),
            Self::Failed(kind) => write!(formatter, "connection failed: {kind}"),
            Self::FrameTooLong => formatter.write_str("the peer sent a frame that is too long"),
            Self::MalformedFrame => formatter.write_str("the peer sent a malformed TLV"),
            Self::OtherProtocol(first) => {
                write!(
                    formatter,
                    "the peer sent no NDN packet, but something that starts with {first:#04x}"
                )
            }
            Self::NotPermanent => formatter.write_str("down, and no longer permanent"),
            Self::WebSocket(code) => write!(formatter, "WebSocket closed with status {code}"),
            Self::Silent => formatter.write_str("the peer does not answer"),
            Self::Idle => formatter.write_str("idle for too long"),
            Self::OverShare => formatter.write_str("other peers needed the memory that it held"),
            Self::Misbehaved => formatter.write_str("the peer violated the protocol"),
            Self::NoLink => formatter.write_str("the interface has no link"),
            Self::Unreachable(io::ErrorKind::ConnectionRefused) => {
                formatter.write_str("nothing listens at the peer's port")
            }
            Self::Unreachable(kind) => write!(formatter, "the peer cannot be reached: {kind}"),
            Self::InterfaceGone => formatter.write_str("the interface is gone"),
        }
    }
}

/// A change of a face.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaceChange {
    /// The face is gone; its index is invalid.
    Closed(CloseReason),
    /// A permanent face has lost its connection, or failed to connect again.
    Down(CloseReason),
    /// The kernel reports that datagrams do not reach the peer. The face stays in use.
    Unreachable(CloseReason),
    /// A permanent face has its connection back.
    Up,
    /// The peer of a face that was reported as unreachable has sent something.
    Reached,
}

/// A change of a face that no command caused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaceEvent {
    /// The face.
    pub face: FaceIndex,
    /// The change.
    pub change: FaceChange,
}
