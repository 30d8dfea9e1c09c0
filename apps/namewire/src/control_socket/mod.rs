//! The local socket through which `namewire log`, `capture`, `workers`, `ndt`, `trace`, `webtransport` and,
//! for what the workers count, `status` reach a running forwarder.
//!
//! A client sends one JSON object per line and gets one per line back: `{"result": ...}` or
//! `{"error": "..."}`. `capture.start` is the exception: after its result line, the connection
//! carries a pcapng capture until either side closes it. The socket is for its owner alone (mode
//! 0600): captures show what others exchange.
//!
//! [`server`](ControlSocket) has one thread that accepts and one per connection; they sleep in the
//! kernel, and none of them touches the packet path.

mod client;
mod protocol;
mod server;
mod service_times;

pub use client::{CaptureEnd, ControlClient, ControlError};
pub use protocol::{
    Dispatch, DispatchEntry, FaceLimit, InterestStatistics, LinkCounters, LinkDown, LogLevels,
    MemifStatus, QueueStatistics, Request, Statistics, Version, WaitingFace, WebTransportStatus,
    WorkerStatistics,
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
