//! Network devices by netlink: links, changes of them, and what XDP can do with them.

mod link;
mod message;
mod monitor;
mod socket;
mod xdp;

pub use link::{Link, LinkState, links};
pub use monitor::LinkMonitor;
pub use xdp::{XdpSupport, xdp_support};
