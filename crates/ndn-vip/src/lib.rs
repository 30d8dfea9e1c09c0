//! VIP: joint caching and forwarding by virtual Interest packets (Yeh, Ho, Cui, Burd, Liu, Leong: "VIP: A
//! Framework for Joint Dynamic Forwarding and Caching in Named Data Networks", ACM ICN 2014).
//!
//! The method is patented in the United States (US 12155738 B2). Programs contain this crate only if they are built with
//! the cargo feature `vip`, which is off by default.
//!
//! # Virtual plane
//!
//! A node counts for each object k the requests that it has not forwarded or served yet, `V(k)`. Once in a slot of
//! Δ seconds, [`VirtualPlane::start_slot`] and [`VirtualPlane::end_slot`] compute
//!
//! | | equation | units |
//! |---|---|---|
//! | (1) | V(k) = 0 where the node is a source of k | requests |
//! | (2) | the neighbours' V are the last that they reported | requests |
//! | (3) | per link to b: k* = argmax of V(k) − V_b(k) over the objects that are routable by b; nothing if it is not positive | requests |
//! | (4) | score S(k) = V(k), or the mean of VIPs that arrived per slot; the cached set has the largest sum of S(k) − penalties that fits the cache | requests |
//! | (5) | V(k) ← max(V(k) − Δ·r / B, 0) for the cached, with the read rate r and the size of the cache B | bytes/s, bytes |
//! | (6) | μ = min(Δ·C / size(k*), V(k*)) leave for b, with the capacity C of the link that Data takes | bytes/s, bytes |
//! | (7) | V(k) ← V(k) + requests that originate here + μ received | requests |
//!
//! With L slots of equal size and B a multiple of it, Δ·r / B is the Δ·r / L of the publication in objects. If several links choose the
//! same object, they are served in the order of their differences: the publication's max(0, V − Σμ) would send more
//! than there is.
//!
//! All amounts are whole millionths of a request, so sums are exact and equal on all machines.
//!
//! # Actual plane
//!
//! [`VirtualPlane::next_hop`] selects the neighbour for an Interest. The policies that keep objects by their scores are
//! `ObjectPolicy` (Content Store) and `ScorePolicy` (simulator) of `ndn-caching`.
//!
//! # Exchange
//!
//! [`Node`] is the virtual plane of a forwarder: objects by name, bounded in number, and the exchange of counts and VIPs
//! with the neighbours that take part in it, by [`Report`] and [`Acknowledgement`].

#![forbid(unsafe_code)]

mod exchange;
mod message;
mod node;
mod plane;

pub use exchange::REPORTS_PER_SLOT;
pub use message::{
    Acknowledgement, Entry, MessageError, OBJECT_NAME_LEN_MAX, REPORT_LEN_MAX, Report, VERSION,
    prefix,
};
pub use node::{
    Accuracy, NeighbourStatus, Node, NodeCounters, NodeSettings, ObjectRoutes, ObjectStatus,
    ReportRefusal, Transmission,
};
pub use plane::{
    Amount, Counters, Neighbour, NeighbourId, ObjectId, REQUEST, Score, Settings, Transfer,
    VirtualPlane,
};
