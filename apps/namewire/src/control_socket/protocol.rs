//! What goes over the control socket.

use serde::{Deserialize, Serialize};

/// Longest request or response line in bytes.
pub(super) const LINE_LEN_MAX: usize = 64 * 1024;

/// A request, as one line of JSON: `{"method": "log.set", "params": {"directives": "debug"}}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "method", content = "params", deny_unknown_fields)]
pub enum Request {
    /// Who is there: answered with [`Version`].
    #[serde(rename = "version")]
    Version,
    /// The log levels in force: answered with [`LogLevels`].
    #[serde(rename = "log.levels")]
    LogLevels,
    /// Change log levels: answered with the [`LogLevels`] after it.
    #[serde(rename = "log.set")]
    LogSet {
        /// As [`crate::logging::LogHandle::set`] reads them.
        directives: String,
    },
    /// What the workers have done since the start: answered with [`Statistics`].
    #[serde(rename = "statistics")]
    Statistics,
    /// Turn the connection into a pcapng capture, after an empty result.
    #[serde(rename = "capture.start")]
    CaptureStart {
        /// Only this face; none captures all.
        face_id: Option<u64>,
        /// Bytes kept of each packet.
        snap_len: usize,
    },
}

/// The program at the other end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// Its version.
    pub version: String,
    /// Its process number.
    pub process_id: u32,
}

/// Log levels in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLevels {
    /// As [`crate::logging::LogHandle::directives`] writes them.
    pub directives: String,
}

/// What a forwarder counts beside what management knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statistics {
    /// One for each worker.
    pub workers: Vec<WorkerStatistics>,
}

/// What one worker has done since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerStatistics {
    /// Rounds of its loop.
    pub rounds: u64,
    /// Rounds that waited in the kernel.
    pub sleeps: u64,
    /// Bursts that it has forwarded.
    pub bursts: u64,
    /// Packets in them.
    pub packets: u64,
    /// System calls that received, those that found nothing included.
    pub receive_calls: u64,
    /// Frames that they brought.
    pub received_frames: u64,
    /// System calls that sent.
    pub send_calls: u64,
    /// Frames that they took.
    pub sent_frames: u64,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Response {
    /// It was done.
    Result(serde_json::Value),
    /// It was not, and why.
    Error(String),
}
