//! One forwarding shard as a state machine: pipelines and strategies.
//!
//! | module | what it holds |
//! |---|---|
//! | [`Ingress`] | parses received packets into descriptors: the only parser on the packet path |
//! | [`Dispatcher`], [`AddressedMessage`] | the shard of a packet, and messages between shards |
//! | [`Burst`], [`Descriptor`] | up to 64 received packets, parsed and hashed |
//! | [`Shard`] | the stages of a burst, timers, changes by the control thread |
//! | `incoming` | incoming Interest, Data and Nack pipelines; strategy timers |
//! | `outgoing` | outgoing Interest, Data and Nack pipelines; the end of a PIT entry, and the room for one |
//! | `sweep` | passes over the PIT after faces or links were lost |
//! | [`strategy`] | forwarding strategies: best-route, multicast, asf, self-learning and others |
//! | `disk` | Interests that the disk tier of the Content Store may answer |
//! | [`TxSink`], [`TxPacket`] | outgoing packets |
//! | [`LpFields`], [`RxFace`] | NDNLPv2 fields and face properties of a received packet |
//! | [`ShardFaces`], [`FaceProperties`] | the faces, as a shard knows them |
//! | [`LearningRequest`] | requests of self-learning to the control thread |
//! | [`Counters`], [`DropReason`], [`InterestAccount`] | counters, and the account of all Interests |
//! | [`PacketTracer`], [`PacketTrace`] | trace of the decisions about single packets |
//! | [`ServiceTimes`], [`ServiceTimer`] | measurement of processing time per packet |
//!
//! The crate uses no sockets, clocks or threads: time and randomness are arguments.
#![forbid(unsafe_code)]

mod accounting;
mod burst;
mod copies;
mod counters;
mod cross_shard_packet;
mod descriptor;
mod disk;
mod dispatch;
mod drop_reason;
mod face;
mod face_table;
mod incoming;
mod ingress;
mod learning;
mod lp_fields;
mod outgoing;
mod packet;
mod packet_trace;
mod peers;
mod pending_interest;
mod rewrite;
mod scope;
mod service_times;
mod shard;
pub mod strategy;
mod sweep;
mod tables;
mod tx;
#[cfg(feature = "vip")]
mod vip;

pub use accounting::InterestAccount;
pub use burst::{BURST_SIZE, Burst, LeavingPacket};
pub use counters::{Counters, ShardValues};
pub use cross_shard_packet::CrossShardPacket;
pub use descriptor::{Descriptor, Flags, PacketKind};
pub use dispatch::{
    AddressedMessage, CsProbe, DataVisit, Dispatcher, LOAD_SAMPLE, NdtLoads, ProbeAnswer, Sampled,
    ShardMessage,
};
pub use drop_reason::DropReason;
pub use face::{FaceProperties, PitTokenPolicy, RxFace};
pub use face_table::{LinkEvent, ShardFaces};
pub use ingress::{Ingress, ProducerRegions};
pub use learning::LearningRequest;
pub use lp_fields::{LpFields, PitToken, ShortToken};
pub use packet::RxPacket;
pub use packet_trace::{Decision, Observers, PacketTrace, PacketTracer, TraceFilter, TraceSink};
pub use peers::SharedTables;
pub use service_times::{
    Bucket, BurstFigures, Histogram, HistogramSnapshot, ServiceTimer, ServiceTimes, StageSnapshot,
    StageTimes,
};
pub use shard::{Shard, ShardConfig};
pub use strategy::{StrategyError, StrategyTable};
pub use tables::UnsolicitedPolicy;
pub use tx::{TxKind, TxPacket, TxSink};
#[cfg(feature = "vip")]
pub use vip::{LearnedSize, VipDecisions, VipRequests};

/// FaceId of the face of management.
pub const INTERNAL_FACE_ID: u64 = 1;

/// FaceId that stands for the Content Store in IncomingFaceId.
pub const CONTENT_STORE_FACE_ID: u64 = 254;
