//! Settings of testbeds.

use super::program::Program;

/// Settings of a testbed beside those of its network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Testbed {
    /// The forwarder of all nodes.
    pub program: Program,
    /// Forwarding threads of each.
    pub workers: usize,
    /// Where the forwarders run.
    pub place: Place,
    /// Consumers and producers.
    pub workload: Workload,
    /// Whether the forwarders are read once a second, for time lines.
    pub has_time_lines: bool,
    /// Whether routing daemons (`ndnd dv`) find the routes; otherwise the lab computes shortest paths.
    pub has_routing_daemons: bool,
    /// Whether links have the rates, delays and losses of the network; otherwise those of the loopback interface.
    pub is_emulated: bool,
}

/// Where the forwarders of a testbed run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// On this machine, on its loopback interface.
    Loopback,
    /// On this machine, each in a network namespace of its own.
    Namespaces,
    /// On other machines.
    Hosts,
}

/// Consumers and producers of a testbed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    /// Fetchers and producers of the lab.
    Distribution,
    /// `namewire get` for each request, and `namewire serve` at each source.
    Transfer,
    /// `namewire traffic consumer` at each consumer, and `namewire traffic producer` at each source.
    Traffic,
}

impl Workload {
    /// All workloads and their names.
    pub const ALL: [(Self, &'static str); 3] = [
        (Self::Distribution, "distribution"),
        (Self::Transfer, "transfer"),
        (Self::Traffic, "traffic"),
    ];
}
