//! Routes that the lab computes.

use std::collections::BTreeMap;

use ndn_cache_sim::engine::closer_hops;
use ndn_cache_sim::topology::Hop;
use ndn_packet::Name;

use super::Network;

/// A route of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeRoute {
    pub(crate) prefix: Name,
    /// Number of the neighbour that is the next hop.
    pub(crate) neighbour: usize,
    pub(crate) cost: u64,
}

/// Routes to all sources: neighbours that are closer, the one on the shortest path first.
#[derive(Debug)]
pub(crate) struct Routes<'n> {
    network: &'n Network<'n>,
    /// By source and node.
    closer: BTreeMap<u32, Vec<Vec<Hop>>>,
}

impl<'n> Routes<'n> {
    pub(crate) fn new(network: &'n Network<'n>) -> Self {
        let mut closer = BTreeMap::new();
        for &source in network.sources {
            let hops = || closer_hops(network.topology, source as usize);
            closer.entry(source).or_insert_with(hops);
        }
        Self { network, closer }
    }

    /// Number of links of the path of a node to a source.
    pub(crate) fn links(&self, node: usize, source: u32) -> u64 {
        let next = |node: &usize| self.closer[&source][*node].first().map(|hop| hop.to);
        std::iter::successors(Some(node), next).skip(1).count() as u64
    }

    /// Those of a node.
    pub(crate) fn of_node(&self, node: usize) -> Vec<NodeRoute> {
        let hops = &self.network.topology.hops[node];
        let mut routes = Vec::new();
        for (source, prefix) in self.network.prefixes_of(node) {
            for (rank, hop) in self.closer[&source][node].iter().enumerate() {
                if let Some(neighbour) = hops.iter().position(|one| one.link == hop.link) {
                    let (prefix, cost) = (prefix.clone(), 1 + rank as u64);
                    routes.push(NodeRoute { prefix, neighbour, cost });
                }
            }
        }
        routes
    }
}
