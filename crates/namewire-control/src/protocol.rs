//! What goes over the control socket.

use std::collections::BTreeMap;

use ndn_dataplane::BURST_SIZE_CLASSES;
use serde::{Deserialize, Serialize};

/// Longest request line in bytes.
pub(super) const LINE_LEN_MAX: usize = 64 * 1024;
/// Longest response line in bytes: histograms of 64 workers.
pub(super) const RESPONSE_LEN_MAX: usize = 16 * 1024 * 1024;

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
        /// `debug` for all modules, `ndn_face=debug` for one, `ndn_face=default` to remove its level; separated by commas.
        directives: String,
    },
    /// What the workers have done since the start: answered with [`Statistics`].
    #[serde(rename = "statistics")]
    Statistics,
    /// What the links of faces count: answered with [`LinkCounters`] by FaceId, of some faces; ask
    /// again after the last of them until none comes.
    #[serde(rename = "links")]
    Links {
        /// Only faces with higher numbers; none takes all.
        after: Option<u64>,
    },
    /// Faces that are to be there and are being made, or made again: answered with [`WaitingFace`]s.
    #[serde(rename = "faces.waiting")]
    WaitingFaces,
    /// Those of them that Interests with a name would go to: answered with [`WaitingFace`]s.
    #[serde(rename = "faces.waiting_for")]
    WaitingFor {
        /// The name, as a URI.
        name: String,
    },
    /// How many faces there are, and may be: answered with [`FaceLimit`].
    #[serde(rename = "faces.limit")]
    FaceLimit,
    /// Carry out one management Interest, a command or a part of a dataset, as over a local face: answered with
    /// [`ManagementData`]. It works when `limits.faces` is reached.
    #[serde(rename = "management")]
    Management {
        /// The Interest, in base64.
        interest: String,
    },
    /// What the WebTransport listener does: answered with [`WebTransportStatus`].
    #[serde(rename = "webtransport")]
    WebTransport,
    /// What the memif listener does: answered with [`MemifStatus`].
    #[serde(rename = "memif")]
    Memif,
    /// Which worker names are dispatched to: answered with [`Dispatch`].
    #[serde(rename = "ndt.list")]
    NdtList,
    /// Give the entry of a name to a worker: answered with the [`Dispatch`] after it.
    #[serde(rename = "ndt.set")]
    NdtSet {
        /// The name, as a URI.
        name: String,
        /// The number of the worker.
        worker: u8,
    },
    /// Even out the load of the workers now: answered with the [`Dispatch`] after it.
    #[serde(rename = "ndt.balance")]
    NdtBalance,
    /// Measure service times: answered with
    /// [`ServiceTimesReport`](super::ServiceTimesReport) when the time is over.
    #[serde(rename = "trace.latency")]
    TraceLatency {
        /// For how long.
        milliseconds: u64,
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

/// The Data that answers a management Interest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManagementData {
    /// The packet, in base64.
    pub data: String,
}

/// The program at the other end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// Its version.
    pub version: String,
    /// Its process number.
    pub process_id: u32,
}

/// A face that is to be there and is not: of the configuration, or a permanent one whose session has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingFace {
    /// What it was called before its session ended.
    pub face_id: Option<u64>,
    /// The far end.
    pub remote_uri: String,
    /// Why the last attempt has failed, if one has.
    pub last_failure: Option<String>,
    /// Milliseconds until the next attempt; none while one is under way.
    pub next_attempt_ms: Option<u64>,
}

/// How many faces there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaceLimit {
    /// Now.
    pub faces: u64,
    /// As many as there may be.
    pub faces_max: u64,
    /// Connections that were closed because there were as many.
    pub refused: u64,
}

impl FaceLimit {
    /// Whether nobody else gets a face.
    #[must_use]
    pub const fn is_reached(&self) -> bool {
        self.faces >= self.faces_max
    }
}

/// The memif listener.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemifStatus {
    /// Whether there is one.
    pub is_listening: bool,
    /// Faces of clients.
    pub clients: u64,
    /// Bytes of memory that clients share.
    pub memory_bytes: u64,
    /// As many as they may.
    pub memory_bytes_max: u64,
    /// How many have become no face, by the reason.
    pub refused: BTreeMap<String, u64>,
}

/// The WebTransport listener.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebTransportStatus {
    /// Addresses and ports that it listens on; none if there is no listener.
    pub addresses: Vec<String>,
    /// SHA-256 of the certificate, in hexadecimal digits, and of the one to come if there is one.
    pub certificate_hashes: Vec<String>,
    /// The certificate was made here: pages need its hash.
    pub self_signed: bool,
    /// What it counts, by name.
    pub counters: BTreeMap<String, u64>,
}

impl WebTransportStatus {
    /// The hashes, if pages need them.
    #[must_use]
    pub fn self_signed_hashes(self) -> Vec<String> {
        if self.self_signed { self.certificate_hashes } else { Vec::new() }
    }
}

/// Log levels in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLevels {
    /// In the form that [`Request::LogSet`] takes.
    pub directives: String,
}

/// What a forwarder counts beside what management knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statistics {
    /// One for each worker.
    pub workers: Vec<WorkerStatistics>,
}

/// What one worker has done since it started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerStatistics {
    /// Rounds of its loop.
    pub rounds: u64,
    /// Rounds that waited in the kernel.
    pub sleeps: u64,
    /// Bursts that it has forwarded.
    pub bursts: u64,
    /// Packets in them.
    pub packets: u64,
    /// Bursts by size: of one packet, of two, of up to 4, 8, 16, 32 and 64.
    #[serde(default)]
    pub burst_sizes: [u64; BURST_SIZE_CLASSES],
    /// System calls that received, those that found nothing included.
    pub receive_calls: u64,
    /// Frames that they brought.
    pub received_frames: u64,
    /// Bytes of those frames.
    #[serde(default)]
    pub received_bytes: u64,
    /// System calls that sent.
    pub send_calls: u64,
    /// Frames that they took.
    pub sent_frames: u64,
    /// Bytes that they took.
    #[serde(default)]
    pub sent_bytes: u64,
    /// Messages that the kernel dropped because they were not read in time, at UDP sockets of many
    /// peers: a message may be several datagrams.
    #[serde(default)]
    pub shared_socket_drops: u64,
    /// The same at UDP sockets of one neighbour each.
    #[serde(default)]
    pub own_socket_drops: u64,
    /// Frames and datagrams that are no packets and came to another worker than that of their face, or after its end.
    #[serde(default)]
    pub bad_foreign_frames: u64,
    /// Interests that were marked because they and others before them had waited for too long.
    #[serde(default)]
    pub marked_interests: u64,
    /// Interests that were refused for it.
    #[serde(default)]
    pub shed_interests: u64,
    /// UDP peers that got no face.
    #[serde(default)]
    pub refused_peers: u64,
    /// Nanoseconds that it had nothing to do.
    #[serde(default)]
    pub waited_ns: u64,
    /// Blocks of 64 KiB of packet memory in use.
    #[serde(default)]
    pub packet_blocks: u64,
    /// The most that were in use at one time.
    #[serde(default)]
    pub packet_blocks_max: u64,
    /// Times that a block was needed and all were in use.
    #[serde(default)]
    pub packet_block_failures: u64,
    /// The NUMA node that the worker is pinned to, if it is.
    #[serde(default)]
    pub node: Option<usize>,
    /// Blocks of 64 KiB that its packet memory has.
    #[serde(default)]
    pub packet_blocks_capacity: u64,
    /// Bytes of packet memory in huge pages that were set aside.
    #[serde(default)]
    pub packet_bytes_huge: u64,
    /// Bytes of packet memory for which the kernel was asked for transparent huge pages, and gave the first.
    #[serde(default)]
    pub packet_bytes_transparent: u64,
    /// Bytes of packet memory in ordinary pages.
    #[serde(default)]
    pub packet_bytes_ordinary: u64,
    /// Messages sent to other workers.
    #[serde(default)]
    pub crossings_sent: u64,
    /// Messages taken from other workers.
    #[serde(default)]
    pub crossings_taken: u64,
    /// Messages that were dropped because the queue to another worker was full.
    #[serde(default)]
    pub crossings_dropped: u64,
    /// Data among them.
    #[serde(default)]
    pub crossings_dropped_data: u64,
    /// Nacks among them.
    #[serde(default)]
    pub crossings_dropped_nacks: u64,
    /// Interests among them.
    #[serde(default)]
    pub crossings_dropped_interests: u64,
    /// Times that another worker had to be woken.
    #[serde(default)]
    pub wakes: u64,
    /// Data of other workers that wait to be taken.
    #[serde(default)]
    pub queued_data: QueueStatistics,
    /// Nacks of other workers that wait to be taken.
    #[serde(default)]
    pub queued_nacks: QueueStatistics,
    /// Interests of other workers that wait to be taken.
    #[serde(default)]
    pub queued_interests: QueueStatistics,
    /// PIT entries in its shard.
    #[serde(default)]
    pub pit_entries: u64,
    /// Packets in the Content Store of its shard.
    #[serde(default)]
    pub cs_entries: u64,
    /// Packets that its shard has discarded.
    #[serde(default)]
    pub dropped: u64,
    /// The same by reason, those that there were.
    #[serde(default)]
    pub drops: BTreeMap<String, u64>,
    /// What became of the Interests that entered its shard.
    #[serde(default)]
    pub interests: InterestStatistics,
}

/// The Interests that have entered a shard, and what became of them: `entered` is the sum of the
/// others. While packets flow, the numbers are not all of one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct InterestStatistics {
    /// Interests that entered the shard.
    pub entered: u64,
    /// Went on to the shard that they belong to.
    pub passed_on: u64,
    /// Dropped before they joined a PIT entry.
    pub refused: u64,
    /// Answered by the Content Store at once.
    pub answered: u64,
    /// Of a downstream that waited for the same already.
    pub refreshed: u64,
    /// In-records that Data ended.
    pub satisfied: u64,
    /// In-records that a Nack ended.
    pub nacked: u64,
    /// In-records whose time was up.
    pub expired: u64,
    /// In-records that ended because there was no next hop.
    pub rejected: u64,
    /// In-records whose face was removed.
    pub face_gone: u64,
    /// In-records that are pending.
    pub pending: u64,
}

/// How many messages waited, each time that a worker looked: once in a round at least, and again while
/// it reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueStatistics {
    /// The last time.
    pub last: u64,
    /// The most that there ever were.
    pub most: u64,
    /// All times added up.
    pub sum: u64,
    /// How often the worker has looked.
    #[serde(default)]
    pub looks: u64,
}

/// A face that stays and is down: it has no connection, or its interface no link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkDown {
    /// Why, in words.
    pub reason: String,
    /// For how many milliseconds.
    pub for_ms: u64,
}

/// What is known of the link of one face beside what management knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkCounters {
    /// Whether it is down, and why.
    #[serde(default)]
    pub down: Option<LinkDown>,
    /// The driver of its interface, of an Ethernet face.
    #[serde(default)]
    pub driver: Option<String>,
    /// Frames received.
    pub in_frames: u64,
    /// Frames sent.
    pub out_frames: u64,
    /// Congestion marks set.
    pub out_marks: u64,
    /// Frames sent again, on a reliable link.
    pub out_retransmissions: u64,
    /// Frames that the peer has acknowledged, on a reliable link.
    pub out_acknowledged: u64,
    /// Bytes in the output queue after it was last written.
    pub queued_bytes: u64,
    /// Frames and packets that were discarded, by reason; a reason without any is not there.
    pub drops: BTreeMap<String, u64>,
}

/// How names are dispatched to workers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dispatch {
    /// Components that names are dispatched by, unless their entry was split.
    pub depth: usize,
    /// Load of each worker's shard of late, in packets counted by sample.
    pub loads: Vec<u64>,
    /// Entries of the table that have most load, or are not as they were at the start.
    pub entries: Vec<DispatchEntry>,
    /// Entries that this request has moved.
    pub moved: usize,
    /// Entries that this request has split.
    pub split: usize,
}

/// An entry of the name dispatch table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DispatchEntry {
    /// Its number.
    pub entry: usize,
    /// The worker that has it.
    pub worker: u8,
    /// The worker that had it before, until what is pending there has ended.
    pub previous: Option<u8>,
    /// Components that its names are dispatched by, if it was split.
    pub depth: Option<u8>,
    /// Its load of late, in packets counted by sample.
    pub load: u32,
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
