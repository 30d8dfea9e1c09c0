//! Netlink: network devices, their changes and their support of XDP, and the users of TCP connections.

mod device;
mod diagnosis;
mod message;
mod monitor;
mod socket;
mod xdp;

pub use device::{LinkState, NetworkDevice, network_devices};
pub use diagnosis::user_of_tcp_peer;
pub use monitor::LinkMonitor;
pub use xdp::{XdpSupport, xdp_support};
