//! Settings of testbeds.

use std::collections::{BTreeMap, BTreeSet};

use super::program::Program;

/// Program of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeProgram {
    /// The forwarder.
    pub program: Program,
    /// Its forwarding threads.
    pub workers: usize,
    /// The only processors on which it runs; empty for all.
    pub processors: Vec<usize>,
}

/// Settings of a testbed beside those of its network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Testbed {
    /// Program of the nodes without settings of their own.
    pub common: NodeProgram,
    /// By node: its program, if it has settings of its own.
    pub own: BTreeMap<usize, NodeProgram>,
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

impl Testbed {
    /// Program of a node.
    #[must_use]
    pub fn of_node(&self, node: usize) -> &NodeProgram {
        self.own.get(&node).unwrap_or(&self.common)
    }

    /// The forwarders of a network with this number of nodes.
    #[must_use]
    pub fn programs(&self, nodes: usize) -> BTreeSet<Program> {
        (0..nodes).map(|node| self.of_node(node).program).collect()
    }
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
