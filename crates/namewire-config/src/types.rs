//! The settings of the forwarder and their defaults.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use ndn_packet::Name;
use ndn_types::FaceUri;
pub use ndn_types::Persistency;

pub use super::forwarder::{Forwarder, WorkerCount};
pub use super::listeners::*;
use super::{Access, ByteSize, InterfaceRule, MemifSecret};

/// Everything `namewire run` can be told. [`Config::default`] is what it does untold.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Config {
    /// Where applications and neighbours connect.
    pub listeners: Listeners,
    /// Who the process is once its sockets are open.
    pub privileges: Privileges,
    /// Worker threads and their processors.
    pub forwarder: Forwarder,
    /// What happens when more comes than can be forwarded.
    pub overload: Overload,
    /// Capacities and policies of CS, PIT, FIB and dead nonce list.
    pub tables: Tables,
    /// What every face starts with.
    pub faces: FaceDefaults,
    /// Bounds on what others can make the forwarder hold.
    pub limits: Limits,
    /// Memory for packets in flight.
    pub pool: Pool,
    /// Commands and datasets under `/localhost/nfd`.
    pub management: Management,
    /// The local socket for log levels and captures.
    pub control: Control,
    /// What is logged.
    pub log: Log,
    /// UDP faces that are bound to network interfaces.
    pub bound_faces: Vec<BoundFaces>,
    /// Secrets of memif interfaces.
    pub memif_secrets: Vec<MemifSecret>,
    /// Strategies chosen at start, in addition to the built-in choices.
    pub strategy_choices: Vec<StrategyChoice>,
    /// Faces created at start.
    pub static_faces: Vec<StaticFace>,
    /// Routes added at start.
    pub static_routes: Vec<StaticRoute>,
}

/// Who the process is once its sockets are open. Matters only when root starts it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Privileges {
    /// The user that root becomes, by name or number; none stays what it is.
    pub user: Option<String>,
    /// The group, by name or number; none takes the user's own.
    pub group: Option<String>,
}

/// What happens when more comes than can be forwarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overload {
    /// How long Interests may wait before some are marked.
    pub mark_after: Duration,
    /// How long Interests may wait before some are refused.
    pub shed_after: Duration,
    /// For how long the wait has to be too long.
    pub interval: Duration,
    /// What becomes of Interests that are refused.
    pub shed: Shed,
    /// Whether Data and Nacks go before Interests.
    pub answers_first: bool,
}

/// What becomes of Interests for which there is no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shed {
    /// They get a Nack of reason Congestion.
    Nack,
    /// They are dropped.
    Drop,
    /// There are none: Interests are only marked.
    Never,
}

/// Capacities and policies of the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tables {
    /// The Content Store.
    pub cs: Cs,
    /// Pending Interests held at most.
    pub pit_capacity: usize,
    /// FIB entries held at most.
    pub fib_capacity: usize,
    /// How long the nonce of a finished Interest is remembered.
    pub dead_nonce_lifetime: Duration,
    /// Names of the regions that this forwarder is in: a forwarding hint that is a prefix of one
    /// of them has arrived and is ignored.
    pub network_regions: Vec<Name>,
}

/// The Content Store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cs {
    /// Data packets held at most.
    pub capacity_packets: usize,
    /// Bytes of Data held at most; none leaves only the limit in packets.
    pub capacity_bytes: Option<ByteSize>,
    /// What is evicted first.
    pub policy: CsPolicy,
    /// Whether Data is taken into the store.
    pub admit: bool,
    /// Whether Interests are answered from the store.
    pub serve: bool,
    /// What happens to Data that nobody asked for.
    pub unsolicited: UnsolicitedPolicy,
}

/// Which Data a full Content Store evicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CsPolicy {
    /// The least recently used.
    Lru,
    /// Unsolicited Data first, then stale Data, then the oldest.
    PriorityFifo,
}

/// What happens to Data that matches no pending Interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnsolicitedPolicy {
    /// Drop it.
    DropAll,
    /// Cache it when it comes from a local application.
    AdmitLocal,
    /// Cache it when it comes from the network.
    AdmitNetwork,
    /// Cache it.
    AdmitAll,
}

/// What every face starts with; `faces/create` and `faces/update` can change some of it per face.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaceDefaults {
    /// Largest frame in bytes before a packet is fragmented (datagram faces).
    pub mtu: u64,
    /// Whether UDP faces that are made here send no longer frames than the path takes whole.
    pub path_mtu: bool,
    /// An on-demand UDP face that received nothing for so long is closed.
    pub idle_timeout: Duration,
    /// Bytes queued towards a slow peer before packets are dropped.
    pub send_queue: ByteSize,
    /// Whether packets are marked when the send queue stays long.
    pub congestion_marking: bool,
    /// The queue length from which congestion is suspected.
    pub congestion_threshold: ByteSize,
    /// How long the queue stays above the threshold before the first mark.
    pub congestion_interval: Duration,
    /// Kernel receive buffer of a UDP socket; none asks for 4 MiB.
    pub receive_buffer: Option<ByteSize>,
    /// Kernel send buffer of a UDP socket; none asks for 4 MiB.
    pub send_buffer: Option<ByteSize>,
    /// First pause before a persistent or permanent face reconnects; doubles with every failure.
    pub reconnect_min: Duration,
    /// Longest pause before a face reconnects.
    pub reconnect_max: Duration,
}

/// Bounds on what others can make the forwarder hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Faces at one time; further connections are closed at once.
    pub faces: usize,
    /// Faces of one peer that has spoken first.
    pub faces_per_peer: usize,
    /// Interests that a face of such a peer may have pending; none for no limit but that of the PIT.
    pub pending_interests_per_face: Option<u32>,
    /// Interests per second taken from such a face; none for as many as come.
    pub interests_per_second: Option<NonZeroU32>,
    /// Commands of a face that management refuses per second, before the face is held to so many; none
    /// for as many as come.
    pub refused_commands_per_second: Option<NonZeroU32>,
    /// Packets per face of which some fragments are awaited; the oldest gives way.
    pub reassembly_packets: usize,
    /// Fragments of one packet.
    pub reassembly_fragments: usize,
    /// How long the fragments of a packet may take.
    pub reassembly_timeout: Duration,
    /// Longest pending lifetime of an Interest, whatever it asks for.
    pub interest_lifetime: Duration,
}

/// Memory for packets in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Bytes of packet buffers, in equal parts for the workers, of at least 4 MiB each.
    pub capacity: ByteSize,
    /// What pages they are made of.
    pub pages: Pages,
}

/// Pages of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Huge pages that the administrator has set aside, then transparent ones, then ordinary ones.
    Best,
    /// Transparent huge pages, then ordinary ones.
    Transparent,
    /// Ordinary pages.
    Ordinary,
}

/// Commands and datasets under `/localhost/nfd`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Management {
    /// Whether they are served. Without them, applications cannot register prefixes.
    pub enabled: bool,
    /// Who may do what.
    pub access: Access,
    /// Whether NLSR, or a routing daemon that speaks as it does, is told of the routes of clients.
    pub readvertise_nlsr: bool,
    /// Registering the prefixes of this host with the router that `/localhop/nfd` leads to, signed by
    /// the identities of the key chain that the prefixes belong to.
    pub propagate: Propagate,
    /// The identity, key or certificate of the key chain that signs answers, with a digest without one,
    /// and commands to a routing daemon, by the default identity without one.
    pub identity: Option<Name>,
}

/// How the prefixes of this host are registered with the router that `/localhop/nfd` leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Propagate {
    /// Whether they are.
    pub enabled: bool,
    /// The cost of the routes that the router makes.
    pub cost: u64,
    /// How long a command may wait for its answer.
    pub timeout: Duration,
    /// How often a prefix is registered again: sooner than the router closes an idle UDP face.
    pub refresh_interval: Duration,
    /// First wait before a command that failed is tried again; doubles with every failure.
    pub base_retry_wait: Duration,
    /// Longest wait before a command is tried again.
    pub max_retry_wait: Duration,
}

/// The local socket for log levels and captures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// Whether it is opened.
    pub enabled: bool,
    /// Its path; none takes the Unix socket's with the ending `.control.sock`.
    pub path: Option<PathBuf>,
}

/// What is logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// The level of every module not named in `modules`.
    pub level: LogLevel,
    /// Levels of single modules, such as `ndn_face` or `ndn_forwarding::strategy`.
    pub modules: BTreeMap<String, LogLevel>,
}

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// What failed.
    Error,
    /// What is likely wrong.
    Warn,
    /// What an operator wants to know: listeners, faces, routes.
    Info,
    /// What happens to single requests.
    Debug,
    /// What happens to single packets.
    Trace,
}

/// The strategy of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrategyChoice {
    /// The namespace.
    pub prefix: Name,
    /// The strategy's name, such as `/localhost/nfd/strategy/multicast`.
    pub strategy: Name,
}

/// A face created at start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticFace {
    /// The peer in canonical form, such as `udp4://192.0.2.1:6363`, or with a host name and a port.
    pub uri: FaceUri,
    /// The network interface of an `ether` peer.
    pub interface: Option<String>,
    /// Persistent or permanent.
    pub persistency: Persistency,
    /// Its MTU in bytes; none takes [`FaceDefaults::mtu`].
    pub mtu: Option<u64>,
    /// Whether Interests sent on it carry PIT tokens.
    pub pit_tokens: PitTokens,
}

/// UDP faces to the same peers on several network interfaces: one for each peer and interface. They
/// come and go with the interfaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundFaces {
    /// The peers in canonical form, such as `udp4://192.0.2.1:6363`.
    pub remotes: Vec<FaceUri>,
    /// On which interfaces.
    pub interfaces: Vec<InterfaceRule>,
    /// And on which of those not.
    pub except: Vec<InterfaceRule>,
}

/// Whether the forwarder puts PIT tokens of its own on the Interests it sends on a face.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PitTokens {
    /// Once the peer was seen to send PIT tokens itself.
    Auto,
    /// From the first Interest on: the peer is known to echo them.
    Always,
    /// Not at all.
    Never,
}

/// A route added at start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticRoute {
    /// The name prefix.
    pub prefix: Name,
    /// The next hop in canonical form, or with a host name and a port; created as a permanent face unless
    /// `static_faces` lists it.
    pub face: FaceUri,
    /// Lower is preferred.
    pub cost: u64,
    /// Whether longer prefixes inherit the route.
    pub child_inherit: bool,
    /// Whether the route hides the routes of shorter prefixes.
    pub capture: bool,
}

/// Entries of a table at most: entry numbers in PIT tokens have 24 bits.
pub const TABLE_ENTRIES_MAX: usize = 1 << 24;

/// Worker threads at most.
pub const WORKERS_MAX: usize = ndn_table::SHARDS_MAX;
/// Smallest MTU of a face in bytes: a fragment must carry some payload beside its headers.
pub const MTU_MIN: u64 = 64;
/// Largest MTU of a face in bytes: the largest practical packet.
pub const MTU_MAX: u64 = 8800;
/// UDP and TCP port of NDN forwarders.
pub const NDN_PORT: u16 = 6363;
/// TCP port of NDN over WebSocket.
pub const WEBSOCKET_PORT: u16 = 9696;
/// The UDP port of NDN's multicast groups.
pub const MULTICAST_PORT: u16 = 56363;

impl Pool {
    /// What each worker has at least.
    pub const PER_WORKER_MIN: ByteSize = ByteSize::mebibytes(4);

    /// What so many workers need, if it is more than there is.
    #[must_use]
    pub fn shortage(&self, workers: usize) -> Option<ByteSize> {
        let needed =
            Self::PER_WORKER_MIN.0.saturating_mul(u64::try_from(workers).unwrap_or(u64::MAX));
        (self.capacity.0 < needed).then_some(ByteSize(needed))
    }

    /// Whether it is more than a system with so many bytes of memory has.
    #[must_use]
    pub fn exceeds(&self, memory_bytes: u64) -> bool {
        self.capacity.0 > memory_bytes
    }
}

impl LogLevel {
    /// The levels' names in configuration files and on the command line, quietest first.
    pub const NAMES: [&'static str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    const ALL: [Self; 6] =
        [Self::Off, Self::Error, Self::Warn, Self::Info, Self::Debug, Self::Trace];

    /// The level's name.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// The level of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl Config {
    /// The Unix socket path in force, or none when that listener is off.
    pub fn socket_path(&self) -> Option<PathBuf> {
        let unix = &self.listeners.unix;
        unix.enabled.then(|| unix.path.clone().unwrap_or_else(super::default_socket_path))
    }

    /// The control socket path in force, or none when it is off.
    pub fn control_socket_path(&self) -> Option<PathBuf> {
        if !self.control.enabled {
            return None;
        }
        let beside = || {
            let socket =
                self.listeners.unix.path.clone().unwrap_or_else(super::default_socket_path);
            socket.with_extension("control.sock")
        };
        Some(self.control.path.clone().unwrap_or_else(beside))
    }
}
