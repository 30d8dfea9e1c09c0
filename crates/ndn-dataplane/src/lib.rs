//! Workers: receive, dispatch, forward, transmit.
//!
//! | module | contents |
//! |---|---|
//! | `worker` | the loop of a worker: one reading of the clock per round, bursts in, bursts out |
//! | `exchange` | rings between workers, and wake-ups |
//! | `overload` | queue management of Interests |
//! | `disk` | file and I/O threads of the disk tier of the Content Store |
//! | `peers` | one face per peer across workers |
//! | `face_shares` | [`Faces`]: how many faces principals may have |
//! | `faces` | indexes and FaceIds of faces |
//! | [`DataplaneOptions`] | what a data plane is made of |
//! | [`Command`], [`Event`] | what the control thread sends to a worker, and receives from it |
//! | [`Dataplane`] | the control thread's handle |
//! | [`SteppedWorker`] | a worker without a thread, for simulation |
#![forbid(unsafe_code)]

// For the support of the tests of the public interface.
#[cfg(test)]
extern crate self as ndn_dataplane;

mod balance;
mod command;
mod dataplane;
mod disk;
mod erasures;
mod event;
mod exchange;
mod face_shares;
mod faces;
mod options;
mod overload;
mod peers;
mod placement;
mod port_workers;
mod queue;
mod start;
mod stepped;
#[cfg(test)]
#[path = "../tests/support/mod.rs"]
mod test_support;
mod view;
mod worker;

pub use balance::{Balanced, Balancer, EntryLoad, LatestExpiries, MEASURED_PACKETS_MIN};
pub use command::{Command, CsSettings, NewFace, NewPort, PortChange, WorkerLedgers};
pub use dataplane::{CommandMark, Dataplane};
pub use disk::{DiskError, DiskFile, DiskPort, DiskPortOptions};
pub use event::{Event, FaceCreated};
pub use exchange::{
    Exchange, ExchangeCounters, ExchangeValues, KINDS, Message, Outbound, QueueDepth,
    QueueDepthValues, RemoteFrame, RemoteTx, RoutedSink,
};
pub use face_shares::{FaceDebt, FaceRefusal, Faces};
pub use faces::FACE_LIMIT_REACHED;
pub use options::{
    DataplaneError, DataplaneOptions, MemoryFaceOptions, OnDemandOptions, Roles, WorkerOptions,
};
pub use overload::{OverloadOptions, ShedAction};
pub use placement::{
    PlacementError, WorkerPlacement, Workers, default_worker_count, plan_placement, plan_roles,
};
pub use queue::WorkerGone;
pub use stepped::SteppedWorker;
pub use view::WorkerView;
pub use worker::{BURST_SIZE_CLASSES, WorkerCounters, WorkerValues};
