//! Frames of network devices (AF_PACKET), for one EtherType.
//!
//! | file | the concept of the kernel |
//! |---|---|
//! | `socket` | the socket: binding, groups, statistics |
//! | `filter` | the classic BPF program that drops frames for others |
//! | `ring` | the receive ring (TPACKET_V2): slots that the kernel fills and we give back |
//! | `header` | Ethernet headers, for drivers that bypass the network stack |
//! | `port` | the interface of drivers that bring whole frames |
//! | `address` | link-layer addresses (`sockaddr_ll`) |
//!
//! Sending is by [`SendBatch`](crate::udp::SendBatch), many frames per `sendmmsg`; a transmit ring was
//! no faster on veth, and would copy what lies in a packet buffer already.
//!
//! TPACKET_V2 and not V3: blocks of V3 reach a process when they are full or a timer of at least a
//! millisecond has fired, so a lone frame took 1.06 ms for a round trip on veth where V2 takes 0.13 ms.

mod address;
mod filter;
mod header;
mod port;
mod ring;
mod socket;

pub(crate) use address::KernelLinkAddress;
pub use address::LinkAddress;
pub(crate) use header::FRAME_MIN;
pub use header::FrameReader;
pub use port::{FramePort, FrameRefusal, FrameTransmitted};
pub use ring::{Delivery, Frame};
pub use socket::{GroupMembership, PacketSocket, PacketSocketOptions, PacketStatistics, may_open};
