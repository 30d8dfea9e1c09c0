//! Protocol of the control socket.

use std::collections::BTreeMap;
use std::time::Duration;

use ndn_dataplane::{BURST_SIZE_CLASSES, ExchangeValues, QueueDepthValues, WorkerValues};
use ndn_face::{CallValues, FaceValues};
use ndn_forwarding::{InterestAccount, ShardValues};
use ndn_ring::PoolValues;
use serde::{Deserialize, Serialize};

/// Maximum request line, bytes.
pub(super) const LINE_LEN_MAX: usize = 64 * 1024;
/// Maximum response line, bytes: histograms of 64 workers.
pub(super) const RESPONSE_LEN_MAX: usize = 16 * 1024 * 1024;

/// A request, as one line of JSON: `{"method": "log.set", "params": {"directives": "debug"}}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "method", content = "params", deny_unknown_fields)]
pub enum Request {
    /// Identify the forwarder: answered with [`Version`].
    #[serde(rename = "version")]
    Version,
    /// Report the log levels in force: answered with [`LogLevels`].
    #[serde(rename = "log.levels")]
    LogLevels,
    /// Change log levels: answered with the resulting [`LogLevels`].
    #[serde(rename = "log.set")]
    LogSet {
        /// `debug` for all modules, `ndn_dataplane=debug` for one, `ndn_dataplane=default` to remove its level; separated by commas.
        directives: String,
    },
    /// Report the counters of the workers since the start: answered with [`Statistics`].
    #[serde(rename = "statistics")]
    Statistics,
    /// Report link counters of faces: answered with [`LinkCounters`] by FaceId for a part of the faces. The client
    /// repeats the request after the last FaceId until the answer is empty.
    #[serde(rename = "links")]
    Links {
        /// Only faces with higher FaceIds; `None` starts at the lowest.
        after: Option<u64>,
    },
    /// Report required faces that are missing or being created: answered with [`WaitingFace`]s.
    #[serde(rename = "faces.waiting")]
    WaitingFaces,
    /// Report those of them that Interests with a name would go to: answered with [`WaitingFace`]s.
    #[serde(rename = "faces.waiting_for")]
    WaitingFor {
        /// The name, as a URI.
        name: String,
    },
    /// Report the number of faces and its limit: answered with [`FaceLimit`].
    #[serde(rename = "faces.limit")]
    FaceLimit,
    /// Execute one management Interest, a command or one for a dataset segment, as over a local face: answered with
    /// [`ManagementData`]. It works when `limits.faces` is reached.
    #[serde(rename = "management")]
    Management {
        /// The Interest, in base64.
        interest: String,
    },
    /// Report the state of the WebTransport listener: answered with [`WebTransportStatus`].
    #[serde(rename = "webtransport")]
    WebTransport,
    /// Report the state of the memif listener: answered with [`MemifStatus`].
    #[serde(rename = "memif")]
    Memif,
    /// Report what principals hold of the tables of the PIT: answered with [`LedgerStatus`].
    #[serde(rename = "limits")]
    Limits,
    /// Report the dispatch of names to workers: answered with [`Dispatch`].
    #[serde(rename = "ndt.list")]
    NdtList,
    /// Move the entry of a name to a worker: answered with the resulting [`Dispatch`].
    #[serde(rename = "ndt.set")]
    NdtSet {
        /// The name, as a URI.
        name: String,
        /// The number of the worker.
        worker: u8,
    },
    /// Balance the load of the workers now: answered with the resulting [`Dispatch`].
    #[serde(rename = "ndt.balance")]
    NdtBalance,
    /// Measure service times: answered with [`ServiceTimesReport`](super::ServiceTimesReport) after the measurement.
    #[serde(rename = "trace.latency")]
    TraceLatency {
        /// Duration.
        milliseconds: u64,
    },
    /// Turn the connection into a trace of the decisions about packets, after an empty result: one [`TraceLine`] per
    /// line.
    ///
    /// [`TraceLine`]: super::TraceLine
    #[serde(rename = "trace.packets")]
    TracePackets {
        /// Only packets whose names have this prefix, a URI.
        name: String,
        /// One of this number of packets.
        sample: u32,
    },
    /// Turn the connection into a pcapng capture, after an empty result.
    #[serde(rename = "capture.start")]
    CaptureStart {
        /// Only this face; `None` captures all faces.
        face_id: Option<u64>,
        /// Maximum bytes captured per packet.
        snap_len: usize,
    },
}

/// Minimum time in which the server answers a management Interest; it waits longer if the Interest's lifetime is longer.
/// The client waits [one second more](MANAGEMENT_MARGIN), so that it learns the reason of the server.
pub const MANAGEMENT_TIMEOUT: Duration = Duration::from_secs(10);
/// See [`MANAGEMENT_TIMEOUT`].
pub const MANAGEMENT_MARGIN: Duration = Duration::from_secs(1);

/// Returns the time in which the server answers a management Interest of this lifetime.
#[must_use]
pub fn management_timeout(lifetime_ms: u64) -> Duration {
    MANAGEMENT_TIMEOUT.max(Duration::from_millis(lifetime_ms))
}

/// The Data that answers a management Interest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManagementData {
    /// The packet, in base64.
    pub data: String,
}

/// The program that serves the control socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// Its version.
    pub version: String,
    /// Its process id.
    pub process_id: u32,
}

/// A required face that is missing: a configured one, or a permanent one whose session has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingFace {
    /// Former FaceId, if its session has ended.
    pub face_id: Option<u64>,
    /// Remote URI.
    pub remote_uri: String,
    /// Reason of the last failed attempt.
    pub last_failure: Option<String>,
    /// Milliseconds until the next attempt; `None` during an attempt.
    pub next_attempt_ms: Option<u64>,
}

/// What principals hold of the tables of the PIT, over all workers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerStatus {
    /// By name of the table.
    pub tables: BTreeMap<String, TableStatus>,
    /// The principals that have faces or hold something.
    pub principals: Vec<PrincipalStatus>,
}

/// One table, in places. The keys of maps are the classes of principals.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableStatus {
    /// All places.
    pub capacity: u64,
    /// Places in use.
    pub used: u64,
    /// Places in use, by class.
    pub used_by_class: BTreeMap<String, u64>,
    /// Reserves.
    pub reserves: BTreeMap<String, u64>,
    /// Share of one principal.
    pub shares: BTreeMap<String, u64>,
}

/// One principal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrincipalStatus {
    /// Its name: a user and process, a face, or an address.
    pub principal: String,
    /// Its class.
    pub class: String,
    /// Number of its faces.
    pub faces: u64,
    /// Places that it holds, by name of the table.
    pub held: BTreeMap<String, u64>,
}

/// Number of faces and its limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaceLimit {
    /// Current number of faces.
    pub faces: u64,
    /// Maximum number of faces.
    pub faces_max: u64,
    /// Connections closed at the limit.
    pub refused: u64,
}

impl FaceLimit {
    /// Returns whether new faces are rejected.
    #[must_use]
    pub const fn is_reached(&self) -> bool {
        self.faces >= self.faces_max
    }
}

/// State of the memif listener.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemifStatus {
    /// Whether the listener is enabled.
    pub is_listening: bool,
    /// Number of client faces.
    pub clients: u64,
    /// Shared memory of the clients, bytes.
    pub memory_bytes: u64,
    /// Limit of `memory_bytes`.
    pub memory_bytes_max: u64,
    /// Rejected clients by reason.
    pub refused: BTreeMap<String, u64>,
}

/// State of the WebTransport listener.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebTransportStatus {
    /// Listening addresses and ports; empty without a listener.
    pub addresses: Vec<String>,
    /// SHA-256 of the certificate and of its successor, if any, in hexadecimal digits.
    pub certificate_hashes: Vec<String>,
    /// The certificate is self-signed: web pages need its hash.
    pub self_signed: bool,
    /// Counters by name.
    pub counters: BTreeMap<String, u64>,
}

impl WebTransportStatus {
    /// Returns the hashes if web pages need them.
    #[must_use]
    pub fn self_signed_hashes(self) -> Vec<String> {
        if self.self_signed { self.certificate_hashes } else { Vec::new() }
    }
}

/// Log levels in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLevels {
    /// In the syntax of [`Request::LogSet`].
    pub directives: String,
}

/// Counters of a forwarder that are not part of management's datasets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statistics {
    /// One per worker.
    pub workers: Vec<WorkerStatistics>,
}

/// Counters of one worker since its start. In JSON, the values of all sets of counters stand side by side.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerStatistics {
    /// Its loop.
    #[serde(flatten, with = "crate::values")]
    pub work: WorkerValues,
    /// Its system calls.
    #[serde(flatten, with = "crate::values")]
    pub calls: CallValues,
    /// Its packet memory.
    #[serde(flatten, with = "crate::values")]
    pub pool: PoolValues,
    /// Its shard.
    #[serde(flatten, with = "crate::values")]
    pub shard: ShardValues,
    /// Its exchange with other workers.
    #[serde(flatten, with = "crate::values")]
    pub exchange: ExchangeValues,
    /// Bursts by size: of one packet, of two, of up to 4, 8, 16, 32 and 64.
    #[serde(default)]
    pub burst_sizes: [u64; BURST_SIZE_CLASSES],
    /// The NUMA node that the worker is pinned to, if any.
    #[serde(default)]
    pub node: Option<usize>,
    /// Messages dropped because the queue to another worker was full.
    #[serde(default)]
    pub crossings_dropped: u64,
    /// Queues of Data from other workers.
    #[serde(default, with = "crate::values")]
    pub queued_data: QueueDepthValues,
    /// Queues of Nacks from other workers.
    #[serde(default, with = "crate::values")]
    pub queued_nacks: QueueDepthValues,
    /// Queues of Interests from other workers.
    #[serde(default, with = "crate::values")]
    pub queued_interests: QueueDepthValues,
    /// Packets dropped by its shard.
    #[serde(default)]
    pub dropped: u64,
    /// The same by reason, without reasons that never occurred.
    #[serde(default)]
    pub drops: BTreeMap<String, u64>,
    /// Outcomes of the Interests that entered its shard.
    #[serde(default, with = "crate::values")]
    pub interests: InterestAccount,
}

/// An existing face that is down: it has no connection, or its interface no link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkDown {
    /// Reason, as text.
    pub reason: String,
    /// Duration in milliseconds.
    pub for_ms: u64,
}

/// Link state and counters of a face that are not part of management's datasets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkCounters {
    /// Set while the face is down.
    #[serde(default)]
    pub down: Option<LinkDown>,
    /// Driver of an Ethernet face's interface.
    #[serde(default)]
    pub driver: Option<String>,
    /// Its counters.
    #[serde(flatten, with = "crate::values")]
    pub counters: FaceValues,
    /// Dropped frames and packets by reason, without reasons that never occurred.
    pub drops: BTreeMap<String, u64>,
}

/// State of name dispatch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dispatch {
    /// Number of components that names are dispatched by, unless their entry was split.
    pub depth: usize,
    /// Recent load of each worker's shard, in sampled packets.
    pub loads: Vec<u64>,
    /// Table entries with the most load, and those changed since the start.
    pub entries: Vec<DispatchEntry>,
    /// Entries moved by this request.
    pub moved: usize,
    /// Entries split by this request.
    pub split: usize,
}

/// An entry of the name dispatch table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DispatchEntry {
    /// Index.
    pub entry: usize,
    /// The worker that owns it.
    pub worker: u8,
    /// The previous owner, until its pending Interests have ended.
    pub previous: Option<u8>,
    /// Number of components that its names are dispatched by, if it was split.
    pub depth: Option<u8>,
    /// Recent load, in sampled packets.
    pub load: u32,
}

/// Answer to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Response {
    /// Success.
    Result(serde_json::Value),
    /// Failure, with the reason.
    Error(String),
}
