//! Faces: how packets get in and out of the forwarder.
//!
//! A face is a [`LinkService`] (NDNLPv2, a state machine without I/O) on a transport (Unix, TCP,
//! UDP, Ethernet, memif, internal).
//!
//! | module | what it holds |
//! |---|---|
//! | [`LinkService`] | frames to packets and back: headers, fragments, congestion marks |
//! | [`FaceSet`] | all faces of one worker: sockets to [`RxSink`], [`FaceSink`] to sockets |
//! | [`FaceOptions`], [`LinkOptions`], [`Persistency`] | what the control thread says about a face |
//! | [`FaceCounters`], [`LinkDropReason`] | what a face counts |
//! | [`CallCounters`] | what all faces of a worker count together: system calls |
//! | [`FaceEvent`] | what happens to faces by itself |
//! | [`InternalEnd`] | the face between the forwarder and its own management |
//! | [`FrameTap`] | watching frames go by |
#![forbid(unsafe_code)]

mod budget;
mod counters;
mod datagram;
mod datagram_queue;
mod ethernet;
mod event;
mod face;
mod internal;
mod link;
mod memif;
mod options;
mod output;
mod padding;
mod receive;
mod reconnect;
mod set;
mod source;
mod stream;
mod tap;
mod transport;
mod websocket;

pub use budget::Budget;
pub use counters::{CallCounters, ChannelCounters, FaceCounters, LinkDropReason};
pub use ethernet::{ETHER_TYPE, ON_DEMAND_STATIONS_MAX, PortOptions, PortSocket};
pub use event::{CloseReason, FaceChange, FaceEvent};
pub use internal::InternalEnd;
pub use link::{FrameSink, LinkService, ReassemblyLimits, Received, Sender};
pub use memif::{MemifClient, MemifConnection, MemifEnd};
pub use ndn_types::Persistency;
pub use options::{
    CONGESTION_INTERVAL, CONGESTION_THRESHOLD, FaceOptions, IDLE_TIMEOUT, LinkOptions,
    QUEUE_BYTES_MAX,
};
pub use padding::without_padding;
pub use receive::{Progress, ReadCounts, RxSink, SocketDelay};
pub use reconnect::{CONNECT_TIMEOUT, ReconnectWaits};
pub use set::{FaceSet, FaceSetOptions, FaceSink};
pub use source::{ChannelId, PortId, WORKER_TOKEN_MIN};
pub use tap::{Direction, FrameTap};
