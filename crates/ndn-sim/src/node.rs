//! A forwarder as the simulation sees it.

use std::fmt::Debug;
use std::ops::RangeInclusive;
use std::time::Duration;

use ndn_packet::Name;

/// A face of a node: its number in the scenario, which stays the same across restarts.
pub type Port = usize;

/// Neighbours of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortKind {
    /// An application of the same host.
    Local,
    /// One neighbour.
    Neighbour,
    /// All nodes of a shared medium.
    Shared,
}

/// Properties of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortSpec {
    /// The neighbours.
    pub kind: PortKind,
    /// Longest frame that it may send, bytes.
    pub mtu: usize,
    /// Both ends retransmit lost frames (NDNLPv2, "Link Reliability").
    pub is_reliable: bool,
}

impl PortSpec {
    /// A port that sends every packet in one frame.
    #[must_use]
    pub const fn whole(kind: PortKind) -> Self {
        Self { kind, mtu: ndn_packet::MAX_PACKET_SIZE, is_reliable: false }
    }

    /// Whether an application of the same host is attached.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.kind == PortKind::Local
    }
}

/// Input of the start of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSpec {
    /// Its number in the scenario.
    pub number: usize,
    /// Forwarding workers.
    pub workers: usize,
    /// Capacity of the Content Store, in packets.
    pub cs_capacity: usize,
    /// Capacity of the PIT, in entries.
    pub pit_capacity: usize,
    /// The ports.
    pub ports: Vec<PortSpec>,
    /// Routes are changed by signed commands that arrive in packets, otherwise by local calls.
    pub has_signed_commands: bool,
    /// Seed of everything that is random in the node.
    pub seed: u64,
}

/// Counts of the events in which the load of a node reached its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pressure {
    /// Interests dropped because the PIT was full, or nearly full and the share of the face used.
    pub pit_full: u64,
    /// Most Interests that waited in a ring between workers.
    pub ring_depth_max: u64,
}

impl Pressure {
    /// Takes in that of another node.
    pub fn add(&mut self, other: Self) {
        self.pit_full += other.pit_full;
        self.ring_depth_max = self.ring_depth_max.max(other.ring_depth_max);
    }
}

/// A forwarder that advances only when it is stepped.
pub trait Node: Debug {
    /// Hands over a frame (NDNLPv2) that arrives on `port`. The node handles it in the next
    /// [`step`](Self::step). Returns false if the queue of the port is full or its face is closed.
    fn deliver(&mut self, port: Port, frame: &[u8]) -> bool;

    /// Handles what is due at `now`, without waiting. Returns whether there was anything.
    fn step(&mut self, now: Duration) -> bool;

    /// From now on one of its workers does not run, or all run again.
    fn stall(&mut self, _is_stalled: bool) {}

    /// The next frame that the node sends, with its port.
    fn poll_output(&mut self) -> Option<(Port, Vec<u8>)>;

    /// When the node next has something to do even if no frame arrives.
    fn next_deadline(&self) -> Option<Duration>;

    /// Asks management for a route to `prefix` by `port`.
    fn add_route(&mut self, now: Duration, prefix: &Name, port: Port, cost: u64);

    /// Asks management to remove the route to `prefix` by `port`.
    fn remove_route(&mut self, now: Duration, prefix: &Name, port: Port);

    /// Asks management for a strategy for `prefix`, by its name below `/localhost/nfd/strategy`; `None` removes the
    /// choice.
    fn set_strategy(&mut self, now: Duration, prefix: &Name, strategy: Option<&str>);

    /// Asks management to destroy the face of `port`.
    fn close_face(&mut self, now: Duration, port: Port);

    /// Creates a face for `port` if it has none.
    fn open_face(&mut self, now: Duration, port: Port);

    /// The ports of the FIB entry of exactly `prefix`, ascending, as each table of the node has them: that of management
    /// and those of workers. None without such an entry.
    fn next_hops(&self, prefix: &Name) -> Vec<Vec<Port>>;

    /// Counts of the events in which the load reached the limits of the node since it was started.
    fn pressure(&self) -> Pressure {
        Pressure::default()
    }

    /// Checks bounds that hold at all times: table sizes, refused commands.
    ///
    /// # Errors
    /// The invariant that does not hold.
    fn check(&self) -> Result<(), String>;

    /// Checks the state once nothing is pending. `interests_in` are the fewest and the most Interests that may have
    /// reached the node since it was started.
    ///
    /// # Errors
    /// The violated condition: an Interest without an outcome, an entry that is left in the PIT, packet memory in use.
    fn check_idle(&mut self, interests_in: RangeInclusive<u64>) -> Result<(), String>;
}
