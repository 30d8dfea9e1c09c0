//! UDP with many datagrams per system call.
//!
//! On receive the kernel may join datagrams of one sender and equal size into one message (GRO);
//! on send one message may be cut into datagrams by the kernel or the network card (GSO). Both
//! also come in batches of messages (`recvmmsg`, `sendmmsg`).

mod address;
mod receive;
mod route;
mod send;
mod socket;
mod spread;

pub use receive::{ReceiveBatch, ReceivedMessage};
pub use route::{UdpRoute, is_shortage, udp_route};
pub use send::{SendBatch, SendBuilder};
pub use socket::{MulticastOptions, UdpOptions, UdpSocket};
pub use spread::PeerSpread;

/// Largest payload of one datagram or of one message, in bytes (IPv4 without options).
pub const MESSAGE_LENGTH_MAX: usize = 65_507;

/// Datagrams that one message may be cut into (`UDP_MAX_SEGMENTS` of the kernels before 6.9;
/// later ones take 128).
pub const SEGMENTS_MAX: usize = 64;
