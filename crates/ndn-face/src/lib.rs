//! Faces: how packets get in and out of the forwarder.
//!
//! A face is a [`LinkService`] (NDNLPv2, a state machine without I/O) on a transport (Unix, TCP,
//! UDP, internal).
//!
//! | module | what it holds |
//! |---|---|
//! | [`LinkService`] | frames to packets and back: headers, fragments, congestion marks |
//! | [`FaceOptions`], [`LinkOptions`], [`Persistency`] | what the control thread says about a face |
//! | [`FaceCounters`], [`LinkDropReason`] | what a face counts |
//! | [`FaceUri`] | how the ends of a face are written |
#![forbid(unsafe_code)]

mod budget;
mod counters;
mod link;
mod options;
mod uri;

pub use budget::Budget;
pub use counters::{FaceCounters, LinkDropReason};
pub use link::{
    FRAGMENTS_MAX, FrameSink, LinkService, PARTIAL_MESSAGES_MAX, REASSEMBLY_TIMEOUT, Received,
};
pub use options::{
    CONGESTION_INTERVAL, CONGESTION_THRESHOLD, FaceOptions, IDLE_TIMEOUT, LinkOptions, Persistency,
    QUEUE_BYTES_MAX,
};
pub use uri::FaceUri;
