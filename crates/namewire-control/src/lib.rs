//! The control socket of a Namewire forwarder: `namewire log`, `capture`, `workers`, `ndt`, `trace`,
//! `webtransport` and `status` reach a running forwarder through it.
//!
//! A client sends one JSON object per line and receives one per line: `{"result": ...}` or
//! `{"error": "..."}`. `capture.start` and `trace.packets` are the exceptions: after the result line, the connection
//! carries a pcapng capture or lines of a trace until either side closes it. Only the owner of the socket may connect (mode 0600), because
//! captures contain the traffic of other users.
//!
//! The [server](ControlSocket) has one thread that accepts and one per connection. They block in the kernel
//! and never touch the packet path.
#![forbid(unsafe_code)]

pub mod capture;
mod client;
mod packet_trace;
mod protocol;
mod server;
mod service_times;
mod values;

pub use client::{ControlClient, ControlError, StreamEnd};
pub use packet_trace::{PacketTraceStream, TraceLine, TracedDecision, TracedPacket};
pub use protocol::{
    Dispatch, DispatchEntry, FaceLimit, LedgerStatus, LinkCounters, LinkDown, LogLevels,
    MANAGEMENT_MARGIN, MANAGEMENT_TIMEOUT, ManagementData, MemifStatus, PrincipalStatus, Request,
    Statistics, TableStatus, Version, WaitingFace, WebTransportStatus, WorkerStatistics,
    management_timeout,
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
