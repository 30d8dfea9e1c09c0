//! Ethernet frames by DPDK's poll-mode drivers, behind the feature `dpdk`; without it the crate is empty.
//!
//! | module | what it holds |
//! |---|---|
//! | `shim` | the C functions over libdpdk, as Rust sees them |
//! | `start` | DPDK's environment: once in a process |
//! | `DpdkPort` | one port: frames in and out |

#[cfg(feature = "dpdk")]
mod environment;
#[cfg(feature = "dpdk")]
mod port;
#[cfg(feature = "dpdk")]
mod shim;

#[cfg(feature = "dpdk")]
pub use environment::{EnvironmentError, start};
#[cfg(feature = "dpdk")]
pub use port::{DpdkError, DpdkLink, DpdkOptions, DpdkPort};
