//! Faces, routes and strategies: defaults, limits, and what is created at the start.

use std::fmt;
use std::net::Ipv4Addr;
use std::num::NonZeroU32;
use std::ops::Deref;
use std::str::FromStr;
use std::time::Duration;

use ndn_forwarding::strategy::StrategyTable;
use ndn_management::PREFIX_DEPTH_MAX;
use ndn_packet::Name;
pub use ndn_types::Persistency;
use ndn_types::{ByteSize, FaceUri};

use crate::declaration::RestartReason::{Memory, Sockets, WorkerThreads};
use crate::declaration::{list_item, live, new_faces, restart, settings, value};
use crate::interfaces::InterfaceRule;
use crate::listeners::NDN_PORT;
use crate::value::{text_value, words};

/// Minimum MTU of a face in bytes: a fragment must have some payload beside its headers.
pub const MTU_MIN: u64 = 64;
/// Maximum MTU of a face in bytes: the maximum packet size of NDN.
pub const MTU_MAX: u64 = 8800;
const HOUR: Duration = Duration::from_secs(3600);
/// Limits of the kernel buffers of a socket.
const SOCKET_BUFFER_MIN: Option<ByteSize> = Some(ByteSize::kibibytes(4));
const SOCKET_BUFFER_MAX: Option<ByteSize> = Some(ByteSize::mebibytes(1024));
const RATE_MAX: Option<NonZeroU32> = NonZeroU32::new(1_000_000_000);

settings! {
    /// Defaults of faces. Commands can change some of them for single faces.
    pub struct FaceDefaults {
        /// Maximum size of a frame of a datagram face. Larger packets are fragmented.
        mtu: ByteSize = ByteSize(MTU_MAX) => new_faces().within(ByteSize(MTU_MIN)..=ByteSize(MTU_MAX)),
        /// Path MTU discovery. If true, UDP faces of this configuration and of commands without an MTU limit frames
        /// to the path MTU that the kernel reports (RFC 1191; checked every 30 s) and fragment larger packets by
        /// NDNLPv2. If false, larger frames are sent as IP fragments, for peers that do not reassemble
        /// NDNLPv2 fragments. On-demand faces always use IP fragments.
        path_mtu: bool = true => live(),
        /// Time without a packet after which an on-demand UDP face is closed.
        idle_timeout: Duration = Duration::from_secs(600) =>
            new_faces().within(Duration::from_secs(1)..=24 * HOUR),
        /// Maximum size of the send queue of a face. Further packets are dropped and counted.
        send_queue: ByteSize = ByteSize::mebibytes(16) =>
            new_faces().within(ByteSize::kibibytes(64)..=ByteSize::mebibytes(1024)),
        /// Whether packets are marked as congested if the send queue stays above `congestion_threshold` for
        /// `congestion_interval`, and then more and more often.
        congestion_marking: bool = true => new_faces(),
        /// Size of the send queue from which congestion is suspected.
        congestion_threshold: ByteSize = ByteSize::kibibytes(64) => new_faces(),
        /// Time for which the send queue must stay above the threshold before the first packet is marked.
        congestion_interval: Duration = Duration::from_millis(100) =>
            new_faces().within(Duration::from_millis(1)..=HOUR),
        /// Receive buffer of each UDP socket in the kernel. The default is 4MiB. The kernel may grant less.
        receive_buffer: Option<ByteSize> = None =>
            restart(Sockets).within(SOCKET_BUFFER_MIN..=SOCKET_BUFFER_MAX).example("\"4MiB\""),
        /// Send buffer of each UDP socket in the kernel. The default is 4MiB. The kernel may grant less.
        send_buffer: Option<ByteSize> = None =>
            restart(Sockets).within(SOCKET_BUFFER_MIN..=SOCKET_BUFFER_MAX).example("\"4MiB\""),
        /// Delay before a permanent face reconnects. It doubles with every failure, up to `reconnect_max`.
        reconnect_min: Duration = Duration::from_secs(1) =>
            restart(WorkerThreads).within(Duration::from_millis(10)..=HOUR),
        /// Maximum delay before a permanent face reconnects.
        reconnect_max: Duration = Duration::from_secs(60) =>
            restart(WorkerThreads).within(Duration::from_millis(10)..=24 * HOUR),
    }
}

settings! {
    /// Limits on the resources that peers can use. The quotas apply to non-local faces that this forwarder accepts;
    /// faces of the configuration and of operators, and local faces, have none.
    pub struct Limits {
        /// Maximum number of faces. Principals share them: see `docs/operating/limits.md`.
        faces: usize = 16_384 => restart(Memory).within(1..=1 << 20),
        /// Quota of faces of one IP address (of the first 64 bits of an IPv6 address).
        faces_per_peer: usize = 1024 => restart(Memory).within(1..=1 << 20),
        /// Maximum number of routes of one user or peer that is no operator: see `docs/operating/limits.md`. A route counts
        /// once, and once more for each 128 bytes of its prefix.
        routes_per_principal: usize = 16_384 => restart(Memory).within(1..=1 << 22),
        /// Quota of Interests per second of one face. Further Interests are dropped. 0: no quota.
        interests_per_second: Option<NonZeroU32> = NonZeroU32::new(1_000_000) =>
            new_faces().within(None..=RATE_MAX),
        /// Limit of refused commands per second of one face, for all faces. Commands that management refuses or does
        /// not answer count, and so do other Interests to management that it does not answer; a burst of ten
        /// times the limit is permitted. If a face exceeds it, further Interests to management are limited to this
        /// rate and the others dropped, until the face has kept the limit for ten seconds. Successful commands, and those
        /// that find no room, do not count. 0: no limit.
        refused_commands_per_second: Option<NonZeroU32> = NonZeroU32::new(100) =>
            live().within(None..=RATE_MAX),
        /// Maximum number of packets in reassembly for each face. The oldest is dropped first.
        reassembly_packets: usize = 32 => new_faces().within(1..=4096),
        /// Maximum number of fragments of a packet.
        reassembly_fragments: usize = 400 => new_faces().within(1..=4096),
        /// Time after which an incomplete packet is dropped.
        reassembly_timeout: Duration = Duration::from_millis(500) =>
            new_faces().within(Duration::from_millis(1)..=HOUR),
        /// Maximum lifetime of a PIT entry. A longer InterestLifetime is shortened to it.
        interest_lifetime: Duration = HOUR => restart(Memory).within(Duration::from_secs(1)..=24 * HOUR),
        /// Maximum lifetime of a PIT entry of an on-demand peer.
        remote_interest_lifetime: Duration = Duration::from_secs(60) =>
            restart(Memory).within(Duration::from_secs(1)..=24 * HOUR),
        /// Reserve of management, as a percentage of each resource that principals share: tables of the PIT, and memory
        /// for output and reassembly. Others cannot use it.
        management_reserve: u8 = 1 => restart(Memory).within(0..=30),
        /// Reserve of applications on this host, in the same way.
        local_reserve: u8 = 10 => restart(Memory).within(0..=30),
        /// Reserve of the faces of the configuration and of operators, in the same way.
        neighbour_reserve: u8 = 20 => restart(Memory).within(0..=30),
    }
}

list_item! {
    /// The strategy of a namespace, in addition to the built-in choices.
    pub struct StrategyChoice {
        /// Name prefix of the namespace.
        prefix: Name = example_prefix() => value().required().checked(check_depth),
        /// Strategy: a short name such as `"multicast"` or `"asf"`, or a full name with version and parameters.
        strategy: StrategyName = StrategyName::multicast() => value().required().checked(check_strategy),
    }
}

list_item! {
    /// A face that is created at the start. A reload creates those that are added, destroys those that are removed, and
    /// creates those again whose settings have changed; then routes that commands registered for them are lost.
    pub struct StaticFace {
        /// Address of the peer: `udp4`, `udp6`, `tcp4`, `tcp6`, `udp` or `tcp` with a host name, `https`, `ether` or
        /// `memif`. A host name is resolved when the face is created, and again after a failure; its addresses are
        /// tried one after the other. Multicast addresses are rejected, and loopback addresses of host names other
        /// than localhost.
        uri: FaceUri = example_uri() => value().required().checked(check_peer),
        /// Network interface of an `ether` peer; not used with others.
        interface: Option<String> = None => value().example("\"eth1\""),
        /// `"permanent"` faces are never closed and reconnect after a failure, `"persistent"` faces are closed by an
        /// error.
        persistency: Persistency = Persistency::Permanent => value(),
        /// Maximum size of a frame. The default is that of `[faces]`.
        mtu: Option<ByteSize> = None =>
            value().within(Some(ByteSize(MTU_MIN))..=Some(ByteSize(MTU_MAX))).example("\"1420B\""),
        /// Whether Interests to the peer carry PIT tokens, which make the return path faster: `"auto"` once the peer
        /// has sent PIT tokens, `"always"` (the peer is known to return them) or `"never"`.
        pit_tokens: PitTokens = PitTokens::Auto => value(),
    }
}

list_item! {
    /// UDP faces that are bound to network interfaces: one for each remote and each interface with an address of the
    /// same IP version. They send and receive on that interface only, from the port of `[listeners.udp]`, and are
    /// created and destroyed with it. A forwarder that was started without any cannot add them at a reload.
    pub struct BoundFaces {
        /// UDP addresses of the peers.
        remotes: Vec<FaceUri> = vec![example_uri()] => value().required().checked(check_remotes),
        /// Network interfaces with these faces.
        interfaces: Vec<InterfaceRule> = vec![InterfaceRule::Any] => value(),
        /// Network interfaces that `interfaces` matches, but that have no such faces.
        except: Vec<InterfaceRule> = Vec::new() => value(),
    }
}

list_item! {
    /// A route that is added at the start or a reload, and removed by a reload without it. Its face is created as a permanent
    /// face if `[[static_faces]]` does not list it, and destroyed with the last of these routes.
    pub struct StaticRoute {
        /// Name prefix.
        prefix: Name = example_prefix() => value().required().checked(check_depth),
        /// Address of the next hop, as `uri` in `[[static_faces]]`.
        face: FaceUri = example_uri() => value().required().checked(check_peer),
        /// Cost. Routes of lower cost are preferred.
        cost: u64 = 0 => value(),
        /// Whether longer prefixes inherit the route.
        child_inherit: bool = true => value(),
        /// Whether the route hides routes of shorter prefixes.
        capture: bool = false => value(),
    }
}

/// Whether the forwarder adds PIT tokens of its own to the Interests that it sends on a face.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PitTokens {
    /// Once the peer has sent PIT tokens.
    Auto,
    /// From the first Interest on: the peer is known to return them.
    Always,
    /// Never.
    Never,
}

words!(PitTokens { "auto" => Self::Auto, "always" => Self::Always, "never" => Self::Never });
words!(Persistency { "persistent" => Self::Persistent, "permanent" => Self::Permanent });

/// The name of a strategy; `multicast` stands for `/localhost/nfd/strategy/multicast`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrategyName(pub Name);

impl StrategyName {
    /// The multicast strategy.
    fn multicast() -> Self {
        Self(name("/localhost/nfd/strategy/multicast"))
    }
}

impl Deref for StrategyName {
    type Target = Name;

    fn deref(&self) -> &Name {
        &self.0
    }
}

impl fmt::Display for StrategyName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl FromStr for StrategyName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let full = match text.starts_with('/') {
            true => text.to_owned(),
            false => format!("/localhost/nfd/strategy/{text}"),
        };
        let name = Name::from_uri(&full);
        name.map(Self).map_err(|error| format!("`{text}` is not a strategy: {error}"))
    }
}

text_value!(StrategyName, "strategy", ["asf", "/localhost/nfd/strategy/multicast"], |text| text
    .parse());

fn name(uri: &str) -> Name {
    Name::from_uri(uri).unwrap_or_else(|error| unreachable!("{uri}: {error}"))
}

pub(crate) fn example_prefix() -> Name {
    name("/example")
}

pub(crate) fn example_uri() -> FaceUri {
    FaceUri::from_socket("udp", (Ipv4Addr::new(192, 0, 2, 1), NDN_PORT).into())
}

/// Checks the length of a prefix of routes and strategies. Management has the same limit.
pub(crate) fn check_depth(prefix: &Name) -> Result<(), String> {
    match prefix.len() {
        0..=PREFIX_DEPTH_MAX => Ok(()),
        depth => {
            Err(format!("a prefix of {depth} components is too long: at most {PREFIX_DEPTH_MAX}"))
        }
    }
}

fn check_strategy(strategy: &StrategyName) -> Result<(), String> {
    let known = StrategyTable::default().insert(strategy.as_ref());
    known.map(|_| ()).map_err(|error| error.to_string())
}

/// Checks that a URI is that of one peer: not of a group, and with an interface if the address is link-local.
pub(crate) fn check_peer(uri: &FaceUri) -> Result<(), String> {
    match uri.socket_address() {
        Some(address) if address.ip().is_multicast() => Err(format!(
            "{uri} is a multicast group, not a peer: groups are set in `[listeners.multicast]`"
        )),
        _ if uri.lacks_zone() => Err(format!(
            "{uri} is a link-local address without an interface: write one such as {}",
            uri.with_zone("eth0")
        )),
        _ => Ok(()),
    }
}

#[expect(clippy::ptr_arg, reason = "a check takes a reference to the value of the setting")]
fn check_remotes(remotes: &Vec<FaceUri>) -> Result<(), String> {
    let is_udp = |uri: &&FaceUri| matches!(uri.scheme(), "udp4" | "udp6");
    match remotes.iter().find(|uri| !is_udp(uri) || uri.has_host_name()) {
        Some(other) if other.has_host_name() => {
            Err(format!("{other} has a host name: bound faces need an IP address"))
        }
        Some(other) => Err(format!("{other} is not a UDP address: bound faces use UDP")),
        None if remotes.is_empty() => Err("the list is empty".to_owned()),
        None => Ok(()),
    }
}
