//! Frames of network devices (AF_XDP), for one EtherType.
//!
//! | file | the concept of the kernel |
//! |---|---|
//! | `port` | a device with the program on it and a socket for each queue |
//! | `open` | what is asked for and got, a socket for each queue |
//! | `program` | the XDP program, in C and in instructions |
//! | `bpf` | maps, programs and links |
//! | `umem` | the memory that frames lie in |
//! | `rings` | the protocol of the rings, on any memory |
//! | `socket` | a socket, its four rings, and what it is bound to |
//! | `receive` | the next frame of several queues |
//! | `error` | which step was refused, and which right is missing |
//!
//! The queues of a device are one thread's, or dealt over several threads. Those of one thread share one memory;
//! chunks for received frames belong to a queue, since the kernel gives them back in whatever order. A thread sends
//! by the first of its queues. Threads have the program in common, and the map from queues to sockets.

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
