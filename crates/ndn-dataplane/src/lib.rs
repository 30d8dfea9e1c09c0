//! Workers: receive, forward, transmit.
//!
//! | module | what it holds |
//! |---|---|
//! | `worker` | the run loop: one reading of the clock per round, bursts in, bursts out |
//! | `exchange` | rings between workers, and when one wakes another |
//! | `overload` | which Interests give way when a worker cannot keep up |
//! | `peers` | which worker has the face of which UDP peer |
//! | [`Strangers`] | how many faces each peer has that nobody asked for |
//! | `faces` | numbers of faces: which are in use, what forwarding and management call them |
//! | [`Command`], [`Event`] | what the control thread asks of a worker, and what it hears |
//! | [`Dataplane`] | the control thread's end |
//! | [`SteppedWorker`] | a worker without a thread, for simulation |
#![forbid(unsafe_code)]

mod balance;
mod command;
mod dataplane;
mod erasures;
mod event;
mod exchange;
mod faces;
mod overload;
mod peers;
mod placement;
mod queue;
mod start;
mod stepped;
mod strangers;
mod view;
mod worker;

pub use balance::{Balanced, Balancer, EntryLoad};
pub use command::{
    Command, CsSettings, NewFace, NewPort, NewTransport, PortChange, StationOptions,
};
pub use dataplane::{
    Dataplane, DataplaneError, DataplaneOptions, MemoryFaceOptions, OnDemandOptions, Roles,
    WorkerOptions,
};
pub use event::{Event, FaceCreated};
pub use exchange::{
    Exchange, ExchangeCounters, Frame, KINDS, Message, Outbound, Outgoing, QueueDepth, RoutedSink,
};
pub use faces::OPERATOR_FACES_MAX;
pub use overload::{OverloadOptions, ShedAction};
pub use placement::{
    Arrangement, Place, PlacementError, Workers, default_worker_count, plan_placement, plan_roles,
};
pub use queue::WorkerGone;
pub use stepped::SteppedWorker;
pub use strangers::{Strangers, peer_key};
pub use view::WorkerView;
pub use worker::{BURST_SIZE_CLASSES, WorkerCounters};
