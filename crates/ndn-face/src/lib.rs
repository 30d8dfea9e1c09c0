//! Faces: how packets enter and leave the forwarder.
//!
//! A face is a [`LinkService`] (NDNLPv2, a state machine without I/O) on a transport (Unix, TCP,
//! WebSocket, UDP, Ethernet, memif, memory).
//!
//! | module | content |
//! |---|---|
//! | `link` | [`LinkService`]: frames to packets and back, fragments, reliability, congestion marks |
//! | `set` | [`FaceSet`]: all faces of one worker |
//! | `registry` | the registry of the kinds of transport; [`NewTransport`], [`PeerKey`] |
//! | `transport` | the trait of a kind of transport, and the state that all kinds share |
//! | `stream`, `datagram`, `ethernet`, `memif`, `internal` | the kinds of transport |
//! | `receive` | [`RxSink`]: where received packets go; [`Progress`]: how a read ends |
//! | `face` | one face without its transport, and the table of faces |
//! | `source` | poll tokens, and the identifiers of sockets and devices |
//! | `options` | [`FaceOptions`], [`LinkOptions`] |
//! | `counters` | [`FaceCounters`], [`CallCounters`], [`LinkDropReason`] |
//! | `event` | [`FaceEvent`]: changes that no command caused |
//! | `tap` | [`FrameTap`]: capture of frames |
#![forbid(unsafe_code)]

mod counters;
mod datagram;
mod datagram_queue;
mod ethernet;
mod event;
mod face;
mod frame_shares;
mod internal;
mod link;
mod memif;
mod memory;
mod options;
mod output;
mod padding;
mod receive;
mod reconnect;
mod registry;
mod set;
mod shared_output;
mod source;
mod stream;
mod tap;
mod transport;
mod websocket;

pub use counters::{
    CallCounters, CallValues, ChannelCounters, FaceCounters, FaceValues, LinkDropReason,
};
pub use datagram::{Datagrams, NewDatagram, UdpPeer};
pub use ethernet::{
    ETHER_TYPE, NewStation, ON_DEMAND_STATIONS_MAX, PortOptions, PortSocket, Ports, StationPeer,
};
pub use event::{CloseReason, FaceChange, FaceEvent};
pub use frame_shares::FacePrincipals;
pub use internal::{InternalEnd, Internals};
pub use link::{LinkService, Received};
pub use memif::{MemifClient, MemifConnection, MemifEnd};
pub use memory::{Account, FaceMemory, Holder, MemoryKind, MemoryReport};
pub use options::{FaceOptions, LinkOptions, ReassemblyLimits};
pub use output::FrameSink;
pub use padding::without_padding;
pub use receive::{Progress, ReadCounts, ReadReport, RxSink, SocketDelay};
pub use reconnect::{CONNECT_TIMEOUT, ReconnectWaits};
pub use registry::{NewTransport, PeerKey};
pub use set::{FaceSet, FaceSetOptions, FaceSink};
pub use source::{ChannelId, PortId, Sender, WORKER_TOKEN_MIN};
pub use stream::NewStream;
pub use tap::{Direction, FrameTap};
pub use transport::{FacePlacement, OnDemandPeer, OnDemandSettings, TransportHandle};
