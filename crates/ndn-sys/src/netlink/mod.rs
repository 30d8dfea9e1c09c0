//! Netlink: network devices, their changes and their support of XDP, and the users of TCP connections.

mod diagnosis;
mod link;
mod message;
mod monitor;
mod socket;
mod xdp;

pub use diagnosis::user_of_tcp_peer;
pub use link::{Link, LinkState, links};
pub use monitor::LinkMonitor;
pub use xdp::{XdpSupport, xdp_support};
