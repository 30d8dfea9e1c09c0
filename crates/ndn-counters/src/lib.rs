//! Counters of the data plane beside those of its shards: of faces, of sockets and of workers.
//!
//! The faces and workers write them, and the clients of a forwarder read their values, on other systems, too.
#![forbid(unsafe_code)]

mod exchange;
mod face;
mod worker;

pub use exchange::{ExchangeCounters, ExchangeValues, QueueDepth, QueueDepthValues};
pub use face::{CallCounters, CallValues, FaceCounters, FaceValues, LinkDropReason};
pub use worker::{BURST_SIZE_CLASSES, WorkerCounters, WorkerValues};
