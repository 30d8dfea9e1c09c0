//! What the kernel tells of network devices by netlink: links, changes of them, what XDP can do with them, and
//! who is to be reached by them.

mod link;
mod message;
mod monitor;
mod route;
mod socket;
mod xdp;

pub use link::{Link, LinkState, links};
pub use monitor::LinkMonitor;
pub use route::{Neighbour, Route, RouteTable};
pub use xdp::{XdpSupport, xdp_support};
