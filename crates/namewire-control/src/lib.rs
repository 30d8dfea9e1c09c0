//! The control socket of a Namewire forwarder: `namewire log`, `capture`, `workers`, `ndt`, `trace`,
//! `webtransport` and `status` reach a running forwarder through it.
//!
//! A client sends one JSON object per line and receives one per line: `{"result": ...}` or
//! `{"error": "..."}`. `capture.start` is the exception: after its result line, the connection carries a
//! pcapng capture until either side closes it. Only the owner of the socket may connect (mode 0600), because
//! captures contain the traffic of other users.
//!
//! The [server](ControlSocket) has one thread that accepts and one per connection. They block in the kernel
//! and never touch the packet path.
#![forbid(unsafe_code)]

pub mod capture;
mod client;
mod protocol;
mod server;
mod service_times;
mod values;

pub use client::{CaptureEnd, ControlClient, ControlError};
pub use protocol::{
    Dispatch, DispatchEntry, FaceLimit, LinkCounters, LinkDown, LogLevels, ManagementData,
    MemifStatus, Request, Statistics, Version, WaitingFace, WebTransportStatus, WorkerStatistics,
};
pub use server::{
    CaptureStream, ControlListener, ControlSocket, DispatchAction, Handler, ServiceTimesTrace,
};
pub use service_times::{
    BurstTimes, ServiceTimesBefore, ServiceTimesReport, TimeBucket, TimeHistogram,
    WorkerServiceTimes,
};

#[cfg(test)]
mod tests;
