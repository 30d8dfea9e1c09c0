//! The control socket of a Namewire forwarder: `namewire log`, `capture`, `workers`, `ndt`, `trace`,
//! `webtransport` and `status` reach a running forwarder through it.
//!
//! A client sends one JSON object per line and receives one per line: `{"result": ...}` or
//! `{"error": "..."}`. `capture.start`, `trace.packets` and `log.follow` are the exceptions: after the result line, the
//! connection carries a pcapng capture, or lines of a trace or of the log, until either side closes it. Only the owner of the socket may connect (mode 0600), because
//! captures contain the traffic of other users.
//!
//! A request is [declared](REQUESTS) once, in `requests.rs`. The forwarder implements it as one of its [`Operations`], and
//! a client calls it as a method of [`ControlClient`].
//!
//! The [server](ControlSocket) has one thread that accepts and one per connection. They block in the kernel
//! and never touch the packet path. The server is for Linux; clients are compiled for other systems, too.
#![forbid(unsafe_code)]
#![cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only Linux uses all of it"))]

mod base64;
pub mod capture;
mod client;
mod declare;
mod events;
mod log_feed;
mod packet_trace;
mod protocol;
mod requests;
#[cfg(target_os = "linux")]
mod server;
mod service_times;
mod streams;
mod uri;
mod values;

pub use client::{ControlClient, ControlError, StreamEnd};
pub use declare::{FieldInfo, RequestInfo, ResultInfo};
pub use events::{EventSink, FaceEvent, RoutingEvent};
pub use log_feed::{LogFeed, LogLine, LogMessage, LogSelection, LogSeverity, LogStream};
pub use packet_trace::{NextPacket, PacketTraceStream, TraceLine, TracedDecision, TracedPacket};
pub use protocol::{
    AfXdpState, ConfigStatus, CsPolicy, Dispatch, DispatchEntry, FaceLimit, LedgerStatus,
    LinkCounters, LinkDown, LocalProcess, LogLevels, ManagementData, MemifRefusal, MemifStatus,
    NetworkInterface, PrincipalStatus, RESULTS, Statistics, TableStatus, Version, VipNeighbour,
    VipObject, VipStatus, WaitingFace, WebTransportStatus, WorkerStatistics, XdpProcess,
};
pub use requests::{Operations, REQUESTS, execute, management_timeout};
#[cfg(target_os = "linux")]
pub use server::{ControlListener, ControlSocket};
pub use service_times::{
    BurstTimes, SERVICE_TIMES_RESULTS, ServiceTimesBefore, ServiceTimesReport, ServiceTimesStream,
    ServiceTimesTrace, TimeBucket, TimeHistogram, WorkerServiceTimes,
};
pub use streams::CaptureStream;

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
