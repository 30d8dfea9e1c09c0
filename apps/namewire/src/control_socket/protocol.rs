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

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Response {
    /// It was done.
    Result(serde_json::Value),
    /// It was not, and why.
    Error(String),
}
