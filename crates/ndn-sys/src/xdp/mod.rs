//! Frames of network devices (AF_XDP), for one EtherType.
//!
//! | file | kernel concept |
//! |---|---|
//! | `port` | a device with the program attached, and a socket for each queue |
//! | `open` | options, and opening a socket for each queue |
//! | `program` | the XDP program, in C and in instructions |
//! | `bpf` | maps, programs and links |
//! | `umem` | the memory for frames (UMEM) |
//! | `rings` | the ring protocol, on any memory |
//! | `socket` | a socket, its four rings, and its binding |
//! | `receive` | the next frame of several queues |
//! | `error` | the step that failed, and the missing capability |
//!
//! The queues of a device belong to one thread, or are distributed over several. Queues of one thread share one UMEM;
//! chunks for received frames belong to one queue, since the kernel returns them in any order. A thread sends by the
//! first of its queues. The threads share the program and the map from queues to sockets.

mod bpf;
mod error;
mod holder;
mod open;
mod port;
mod program;
mod receive;
mod rings;
mod socket;
mod umem;

pub use crate::mapping::PageKind;
pub use bpf::XdpMode;
pub use error::{XdpError, XdpStep};
pub use holder::XdpHolder;
pub use open::{QUEUES_MAX, XdpOptions, XdpSetup, may_use};
pub use port::{XdpPort, XdpRefusal, XdpTransmitted};
