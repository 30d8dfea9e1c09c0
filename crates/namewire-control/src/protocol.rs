//! The format of the control protocol, and the results of requests.

use std::collections::BTreeMap;

use ndn_counters::{
    BURST_SIZE_CLASSES, CallValues, ExchangeValues, FaceValues, QueueDepthValues, WorkerValues,
};
use ndn_disk::DiskValues;
use ndn_forwarding::{InterestAccount, ShardValues};
use ndn_ring::PoolValues;
use serde::{Deserialize, Serialize};

use crate::declare::results;

/// Maximum request line, bytes.
pub(super) const LINE_LEN_MAX: usize = 64 * 1024;
/// Maximum response line, bytes: histograms of 64 workers.
pub(super) const RESPONSE_LEN_MAX: usize = 16 * 1024 * 1024;

results! {
    RESULTS;

    /// The Data that answers a management Interest.
    pub struct ManagementData {
        /// The packet, in base64.
        #[serde(with = "crate::base64")]
        pub data: Vec<u8>,
    }

    /// The program that serves the control socket.
    pub struct Version {
        /// Its version.
        pub version: String,
        /// Its process id.
        pub process_id: u32,
    }

    /// A configuration that was read.
    pub struct ConfigStatus {
        /// Whether there is a configuration file; without one, the options of the command line are the configuration.
        pub has_file: bool,
        /// The reason why it cannot be used, with the lines of the file; null if it can.
        pub error: Option<String>,
        /// Settings whose change takes effect at the next start, each with the reason.
        pub waiting: Vec<String>,
        /// Settings whose change takes effect at the reload: those that it has changed, or would change.
        pub changes: Vec<String>,
        /// Options of the command line, which set something whatever the file says, each with its settings.
        #[serde(default)]
        pub overrides: Vec<String>,
    }

    /// A required face that is missing: a configured one, or a permanent one whose session has ended.
    pub struct WaitingFace {
        /// Former FaceId, if its session has ended.
        pub face_id: Option<u64>,
        /// Remote URI.
        pub remote_uri: String,
        /// Reason of the last failed attempt.
        pub last_failure: Option<String>,
        /// Milliseconds until the next attempt; null during an attempt.
        pub next_attempt_ms: Option<u64>,
    }

    /// Holdings of tables and memory by principal, over all workers.
    pub struct LedgerStatus {
        /// By name of the table.
        pub tables: BTreeMap<String, TableStatus>,
        /// The principals that have faces or hold something.
        pub principals: Vec<PrincipalStatus>,
    }

    /// One resource, in places or bytes. The keys of maps are the classes of principals.
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
    #[derive(Copy)]
    pub struct FaceLimit {
        /// Current number of faces.
        pub faces: u64,
        /// Maximum number of faces.
        pub faces_max: u64,
        /// Connections closed at the limit.
        pub refused: u64,
    }

    /// State of VIP. Amounts are in millionths of a request.
    pub struct VipStatus {
        /// Duration of a slot, milliseconds.
        pub slot_ms: u64,
        /// Slots since the start.
        pub slots: u64,
        /// Sums since the start, by name: `reports_…`, `entries_…`, `objects_…` and `requests_refused` are numbers, the
        /// others amounts.
        pub counters: BTreeMap<String, u64>,
        /// The faces whose peers may take part.
        pub neighbours: Vec<VipNeighbour>,
        /// The thousand objects of highest score.
        pub objects: Vec<VipObject>,
        /// Number of objects.
        pub objects_count: u64,
    }

    /// A neighbour in the exchange of VIP.
    pub struct VipNeighbour {
        /// Its face.
        pub face_id: u64,
        /// Whether it acknowledges the reports of this forwarder.
        pub is_connected: bool,
        /// Whether reports of it arrive.
        pub is_reporting: bool,
        /// VIPs that are on the way to it.
        pub unconfirmed: u64,
    }

    /// An object of VIP.
    pub struct VipObject {
        /// Its name, a URI.
        pub name: String,
        /// Its size, bytes.
        pub size_bytes: u64,
        /// VIPs that wait here.
        pub count: u64,
        /// Its score.
        pub score: u64,
        /// The virtual cache has it.
        pub is_cached: bool,
        /// An application of this host serves it.
        pub is_source: bool,
        /// VIPs sent over the window, by FaceId of the neighbour.
        pub sent: BTreeMap<u64, u64>,
        /// VIPs that wait at neighbours, by FaceId.
        pub neighbour_counts: BTreeMap<u64, u64>,
    }

    /// A network interface, and the drivers that the forwarder can use on it.
    pub struct NetworkInterface {
        /// Its name.
        pub name: String,
        /// Its number.
        pub index: u32,
        /// Its kind, such as `veth`; null for a device.
        pub kind: Option<String>,
        /// Whether it has Ethernet frames.
        pub is_ethernet: bool,
        /// Whether it is the loopback interface.
        pub is_loopback: bool,
        /// State of its link.
        pub link: String,
        /// Its MAC address.
        pub mac: Option<String>,
        /// Its maximum transmission unit, bytes.
        pub mtu_bytes: u32,
        /// Its speed, Mbit/s, if the link is up and the driver reports it.
        pub speed_mbps: Option<u64>,
        /// Its driver in the kernel, such as `ice`.
        pub kernel_driver: Option<String>,
        /// The NUMA node that it is attached to.
        pub numa_node: Option<usize>,
        /// Receive queues in use.
        pub receive_queues: u64,
        /// Transmit queues in use.
        pub transmit_queues: u64,
        /// Whether it has an IP address.
        pub has_ip_address: bool,
        /// The interface that receives its frames, if it is a port of one.
        pub master: Option<String>,
        /// Its VLAN.
        pub vlan: Option<u16>,
        /// AF_XDP on it.
        pub af_xdp: AfXdpState,
        /// The drivers that the process may use with the rights that it has now, the selected one first: `af_xdp`,
        /// `af_packet`, `sockets`. A port that is open already stays open.
        pub drivers: Vec<String>,
        /// The driver that a forwarder would use.
        pub pick: Option<String>,
        /// The reason.
        pub why: String,
    }

    /// AF_XDP on an interface.
    pub struct AfXdpState {
        /// Support of the kernel: `no`, `unknown`, `generic`, `native` or `zero-copy`.
        pub kernel: String,
        /// Whether frames may have several buffers.
        pub multi_buffer: bool,
        /// Whether the process may use it with the rights that it has now. A port that is open already stays open.
        pub usable: bool,
        /// The reason why it may not.
        pub refused: Option<String>,
        /// Number of the XDP program that is attached.
        pub program: Option<u32>,
        /// Its name.
        pub program_name: Option<String>,
        /// The process that it belongs to, if that is known.
        pub process: Option<XdpProcess>,
        /// Number of workers that can have queues of the interface.
        pub workers_max: u64,
    }

    /// The process of an XDP program.
    pub struct XdpProcess {
        /// Its process id.
        pub id: u32,
        /// Its name.
        pub name: String,
    }

    /// State of the memif listener.
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
    pub struct WebTransportStatus {
        /// Listening addresses and ports; empty without a listener.
        pub addresses: Vec<String>,
        /// SHA-256 of the certificate and of its successor, if any, in hexadecimal digits.
        pub certificate_hashes: Vec<String>,
        /// The certificate is self-signed: web pages need its hash.
        pub self_signed: bool,
        /// [Counters](counters.md) by name.
        pub counters: BTreeMap<String, u64>,
    }

    /// The replacement policy of the Content Store.
    pub struct CsPolicy {
        /// Its name, as in the configuration.
        pub policy: String,
    }

    /// Log levels in force.
    pub struct LogLevels {
        /// In the syntax of the request `log.set`.
        pub directives: String,
    }

    /// Counters of a forwarder that are not part of management's datasets.
    pub struct Statistics {
        /// One per worker.
        pub workers: Vec<WorkerStatistics>,
    }

    /// Counters of one worker since its start. In JSON, the values of all sets of counters stand side by side.
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
        /// Messages dropped because a ring to another worker was full.
        #[serde(default)]
        pub ring_full: u64,
        /// Queues of Data from other workers.
        #[serde(default, with = "crate::values")]
        pub queued_data: QueueDepthValues,
        /// Queues of Nacks from other workers.
        #[serde(default, with = "crate::values")]
        pub queued_nacks: QueueDepthValues,
        /// Queues of Interests from other workers.
        #[serde(default, with = "crate::values")]
        pub queued_interests: QueueDepthValues,
        /// The disk tier of its Content Store.
        #[serde(default, with = "crate::values")]
        pub disk: DiskValues,
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
    pub struct LinkDown {
        /// Reason, as text.
        pub reason: String,
        /// Duration in milliseconds.
        pub for_ms: u64,
    }

    /// The process at the other end of a local face, as the kernel named it when it connected.
    pub struct LocalProcess {
        /// Its user ID.
        pub user_id: u32,
        /// Its process ID; null if only the user is known, as over TCP, and in another PID namespace.
        pub process_id: Option<u32>,
        /// The name of the command that has this process ID now; null if there is none, or it cannot be read.
        pub command: Option<String>,
    }

    /// Link state and counters of a face that are not part of management's datasets.
    pub struct LinkCounters {
        /// Set while the face is down.
        #[serde(default)]
        pub down: Option<LinkDown>,
        /// Driver of an Ethernet face's interface.
        #[serde(default)]
        pub driver: Option<String>,
        /// The application at the other end of a local face.
        #[serde(default)]
        pub process: Option<LocalProcess>,
        /// Its counters.
        #[serde(flatten, with = "crate::values")]
        pub counters: FaceValues,
        /// Dropped frames and packets by reason, without reasons that never occurred.
        pub drops: BTreeMap<String, u64>,
    }

    /// State of name dispatch.
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
    #[derive(Copy)]
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
}

ndn_types::drop_reasons! {
    /// Why a memif client was rejected.
    pub enum MemifRefusal {
        "memif handshakes" {
            /// The interface has a secret, and the client has sent none.
            NoSecret = "no_secret" as "without a secret",
            /// The client has sent another secret.
            WrongSecret = "wrong_secret" as "with a wrong secret",
            /// The interface has a client already.
            Taken = "taken" as "as their interface is taken",
            /// All clients together, or those of this user, have reached the memory limit.
            NoMemory = "no_memory" as "because of the memory limit",
            /// The client has refused the forwarder, before it had a face.
            Left = "left" as "by themselves",
            /// Too many handshakes were under way.
            TooManyHandshakes = "too_many_handshakes" as "because of too many handshakes",
            /// The handshake took too long.
            TooSlow = "too_slow" as "because they were too slow",
            /// The client violated the protocol, or its memory was not usable.
            Misbehaved = "misbehaved" as "because they misbehaved",
        }
    }
}

impl FaceLimit {
    /// Returns whether new faces are rejected.
    #[must_use]
    pub const fn is_reached(&self) -> bool {
        self.faces >= self.faces_max
    }
}

impl WebTransportStatus {
    /// Returns the hashes if web pages need them.
    #[must_use]
    pub fn self_signed_hashes(self) -> Vec<String> {
        if self.self_signed { self.certificate_hashes } else { Vec::new() }
    }
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
