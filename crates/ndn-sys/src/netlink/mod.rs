//! Network devices by netlink: links, their changes, and their support of XDP.

mod link;
mod message;
mod monitor;
mod socket;
mod xdp;

pub use link::{Link, LinkState, links};
pub use monitor::LinkMonitor;
pub use xdp::{XdpSupport, xdp_support};
