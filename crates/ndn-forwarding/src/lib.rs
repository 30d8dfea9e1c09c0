//! One forwarding shard as a state machine: pipelines and strategies.
//!
//! | module | what it holds |
//! |---|---|
//! | [`Ingress`] | from received bytes to a descriptor: the only place that parses |
//! | [`Dispatcher`], [`Crossing`] | which shard a packet goes to, what shards say to each other |
//! | [`Burst`], [`Descriptor`] | up to 64 received packets, parsed and hashed |
//! | [`Shard`] | the stages of a burst, timers, what the control thread changes |
//! | `pipelines` | incoming and outgoing Interest, Data and Nack; the end of a PIT entry |
//! | [`strategy`] | where an Interest goes: best-route, multicast, asf, self-learning and others |
//! | [`TxSink`], [`TxPacket`] | where packets leave |
//! | [`LpFields`], [`RxFace`] | what the link service and the face say about a packet |
//! | [`FaceTable`], [`FaceProperties`] | what a shard knows of faces |
//! | [`LearningRequest`] | what self-learning asks of the control thread |
//! | [`Counters`], [`DropReason`], [`InterestAccount`] | what is counted, and how it adds up |
//! | [`ServiceTimes`], [`ServiceTimer`] | how long packets take, when somebody wants to know |
//!
//! The crate knows no sockets, clocks or threads: time and randomness are arguments.
#![forbid(unsafe_code)]

mod accounting;
mod burst;
mod counters;
mod descriptor;
mod digest;
mod dispatch;
mod drop_reason;
mod face;
mod face_table;
mod ingress;
mod learning;
mod lp_fields;
mod packet;
mod peers;
mod pipelines;
mod producer_regions;
mod quota;
mod rewrite;
mod scope;
mod service_times;
mod shard;
mod shard_peers;
pub mod strategy;
mod tables;
mod tx;
mod unsolicited;

pub use accounting::InterestAccount;
pub use burst::{BURST_SIZE, Burst};
pub use counters::{Counter, Counters};
pub use descriptor::{Descriptor, Flags, PacketKind};
pub use dispatch::{
    Answer, Content, Crossing, DataVisit, Dispatcher, LOAD_SAMPLE, NdtLoads, Parcel, Sampled, Tour,
};
pub use drop_reason::DropReason;
pub use face::{FaceProperties, PitTokenPolicy, RxFace};
pub use face_table::FaceTable;
pub use ingress::Ingress;
pub use learning::LearningRequest;
pub use lp_fields::{LpFields, PIT_TOKEN_LENGTH_MAX, PitToken};
pub use ndn_packet::NackReason;
pub use ndn_types::{LinkType, Scope};
pub use peers::SharedTables;
pub use producer_regions::ProducerRegions;
pub use service_times::{
    Bucket, BurstFigures, Histogram, HistogramSnapshot, ServiceTimer, ServiceTimes, StageSnapshot,
    StageTimes,
};
pub use shard::{Shard, ShardConfig};
pub use strategy::{StrategyError, StrategyTable};
pub use tx::{TxKind, TxPacket, TxSink};
pub use unsolicited::UnsolicitedPolicy;

/// FaceId that stands for the Content Store in IncomingFaceId.
pub const CONTENT_STORE_FACE_ID: u64 = 254;
