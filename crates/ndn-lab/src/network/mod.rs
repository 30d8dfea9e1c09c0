//! Networks and their load, as simulations and testbeds have them in common.

mod clients;
pub(crate) mod packets;
mod record;
mod routes;

use std::collections::BTreeMap;
use std::time::Duration;

use namewire_config::VipScore;
use ndn_cache_sim::topology::Topology;
use ndn_cache_sim::trace::Request;
use ndn_caching::PolicyKind;
use ndn_client::fetch::WindowMode;
use ndn_model::calibrate::Calibration;
use ndn_packet::Name;
use serde::{Deserialize, Serialize};

use crate::progress::RunProgress;
pub(crate) use clients::Clients;
pub(crate) use record::{Counts, Download, Flow, Record, TRAFFIC_NAMES};
pub(crate) use routes::{NodeRoute, Routes};

/// Measurement, also of a node: processor time; in simulations, the time that the workers have worked if packets take time.
pub(crate) const CPU: &str = "cpu_ms";

/// Replacement policy of the Content Stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CsPolicy {
    /// The policy.
    pub kind: PolicyKind,
    /// Score of VIP, of the policy and the strategy.
    pub vip_score: VipScore,
}

impl CsPolicy {
    /// Least recently used.
    pub const LRU: Self = Self { kind: PolicyKind::Lru, vip_score: VipScore::Count };
}

/// Settings of VIP in the forwarders of a network.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct VipSettings {
    pub(crate) score: VipScore,
    pub(crate) objects: usize,
    pub(crate) link_mbit_per_s: f64,
    pub(crate) read_mbit_per_s: f64,
    /// Of cached objects, and of writing them, in thousandths of a request.
    pub(crate) penalties: [u32; 2],
}

/// Content Store of a node with settings of its own; those that are absent are the ones of all nodes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct OwnCache {
    /// Capacity in packets.
    pub packets: Option<u64>,
    /// Replacement policy.
    pub policy: Option<PolicyKind>,
}

/// A network, its load and its settings.
#[derive(Debug)]
pub struct Network<'a> {
    /// Nodes and links; the size of caches, and the rate of links without one of their own, are those of its load.
    pub topology: &'a Topology,
    /// Requests in the order of time.
    pub requests: &'a [Request],
    /// Sizes of the objects in bytes.
    pub sizes: &'a [u64],
    /// Source of each object: a node.
    pub sources: &'a [u32],
    /// Longest content of a Data in bytes.
    pub segment_bytes: u64,
    /// Capacity of each Content Store in packets; `None` for that of the topology's load in bytes.
    pub cs_packets: Option<u64>,
    /// By node: settings of its own.
    pub own_caches: &'a BTreeMap<usize, OwnCache>,
    /// Components of the names of Data, 3 to 64.
    pub name_components: usize,
    /// Whether routers, which are the nodes with several neighbours, have a route for each object instead of each source.
    pub has_object_routes: bool,
    /// Congestion control of the fetches.
    pub window: WindowMode,
    /// Whether traffic generators draw names by popularity; otherwise all names differ.
    pub has_popular_names: bool,
    /// Strategy of all forwarders: its name below `/localhost/nfd/strategy`.
    pub strategy: &'a str,
    /// Replacement policy of all Content Stores.
    pub cs_policy: CsPolicy,
    /// Share of the frames that each link loses that has no share of its own.
    pub loss: f64,
    /// Requests that begin before this time are not measured.
    pub warm_up: Duration,
    /// Times of simulated forwarders for packets; `None` for no time.
    pub calibration: Option<&'a Calibration>,
    /// Seed of Nonces, losses and forwarders.
    pub seed: u64,
    /// Where the clients report how far they are.
    pub progress: Option<&'a RunProgress>,
}

impl Network<'_> {
    /// Reports how much of the load is done: requests, or time.
    pub(crate) fn note_progress(&self, done: u64, total: u64) {
        if let Some(progress) = self.progress {
            progress.set(done, total);
        }
    }

    /// Capacity of the Content Store of a node in packets.
    #[must_use]
    pub fn cs_packets_of(&self, node: usize) -> u64 {
        let own = self.own_caches.get(&node).and_then(|own| own.packets);
        own.unwrap_or_else(|| match self.topology.has_cache[node] {
            true => cs_packets(self.topology, self.segment_bytes, self.cs_packets),
            false => 0,
        })
    }

    /// Replacement policy of the Content Store of a node.
    #[must_use]
    pub fn cs_policy_of(&self, node: usize) -> PolicyKind {
        let own = self.own_caches.get(&node).and_then(|own| own.policy);
        own.unwrap_or(self.cs_policy.kind)
    }

    /// Prefixes with routes at a node, each with its source.
    pub(crate) fn prefixes_of(&self, node: usize) -> Vec<(u32, Name)> {
        if !self.has_object_routes || self.topology.hops[node].len() < 2 {
            let sources = self.source_nodes().into_iter();
            return sources.map(|source| (source, packets::prefix(source))).collect();
        }
        let name = |(object, source): (usize, &u32)| {
            let name = packets::object_prefix(*source, object as u32, self.name_components);
            (*source, name)
        };
        self.sources.iter().enumerate().map(name).collect()
    }

    /// Number of prefixes with routes at a node, with that of its own objects.
    pub(crate) fn prefix_count(&self, node: usize) -> usize {
        let sources = self.source_nodes().len();
        match self.has_object_routes && self.topology.hops[node].len() > 1 {
            true => sources + self.sources.len(),
            false => sources,
        }
    }

    /// The nodes that are sources, ascending. A pass over the objects, of which there may be many more.
    fn source_nodes(&self) -> Vec<u32> {
        let mut is_source = vec![false; self.topology.nodes.len()];
        self.sources.iter().for_each(|source| is_source[*source as usize] = true);
        (0..).zip(is_source).filter_map(|(node, is_source)| is_source.then_some(node)).collect()
    }

    /// The settings of VIP, if the policy or the strategy is VIP.
    pub(crate) fn vip(&self) -> Option<VipSettings> {
        let load = &self.topology.load;
        let is_vip = self.cs_policy.kind == PolicyKind::Vip || self.strategy == "vip";
        is_vip.then_some(VipSettings {
            score: self.cs_policy.vip_score,
            objects: self.sizes.len(),
            link_mbit_per_s: load.link_mbit_per_s,
            read_mbit_per_s: load.cache_read_mbit_per_s,
            penalties: [load.read_penalty, load.write_penalty]
                .map(|requests| (requests * 1000.0).round() as u32),
        })
    }

    /// Mean content of a segment in bytes.
    pub(crate) fn payload_bytes(&self) -> u64 {
        let segments = (0..self.sizes.len() as u32).map(|object| self.last_segment(object) + 1);
        self.sizes.iter().sum::<u64>() / segments.sum::<u64>().max(1)
    }

    /// Number of the last segment of an object.
    #[must_use]
    pub fn last_segment(&self, object: u32) -> u64 {
        self.sizes[object as usize].div_ceil(self.segment_bytes).max(1) - 1
    }
}

/// Capacity of a Content Store in packets: `packets`, or the bytes of the topology's load.
#[must_use]
fn cs_packets(topology: &Topology, segment_bytes: u64, packets: Option<u64>) -> u64 {
    packets.unwrap_or(topology.load.cache_bytes / segment_bytes.max(1))
}

/// Counts of the forwarders of a network since its start.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkCounts {
    /// By node: Interests that its Content Store has answered.
    pub cs_hits: Vec<u64>,
    /// Interests on links.
    pub link_interests: u64,
}

/// Measurements of the requests after the warm-up.
#[derive(Debug, Clone, PartialEq)]
pub struct Measures {
    /// Interests of consumers that a Content Store answered, over segments that were requested.
    pub hit_share: f64,
    /// Bytes that sources sent, over bytes requested.
    pub origin_share: f64,
    /// Mean time from the first Interest of a request to its last segment (content download time, CDoT).
    pub delay_ms: f64,
    /// 99th percentile of the same.
    pub delay_p99_ms: f64,
    /// Mean over objects of the time from the first Interest of any consumer to the last segment of the last one (content
    /// distribution time, CDiT).
    pub distribution_ms: f64,
    /// Bytes of the requests over the sum of their download times.
    pub goodput_mbit_per_s: f64,
    /// Interests that were sent again, over all Interests of consumers.
    pub retransmission_share: f64,
    /// Interests on links, over segments requested: the mean number of links.
    pub links_per_segment: f64,
    /// The same over the mean number of links of the shortest paths to the sources; less than 1 with caches.
    pub path_stretch: f64,
    /// Interests of consumers.
    pub interests: f64,
    /// By quantity and node: `delay_ms.NODE` of consumers, `cs_hits.NODE` of all nodes, `origin_bytes.NODE` of producers; and
    /// `cpu_ms` and `sleep_ms` of the network and its nodes, if simulated packets take time.
    pub of_nodes: BTreeMap<String, f64>,
}

impl Measures {
    /// Names of the measurements of the whole network.
    pub const NAMES: [&'static str; 10] = [
        "hit_share",
        "origin_share",
        "delay_ms",
        "delay_p99_ms",
        "distribution_ms",
        "goodput_mbit_per_s",
        "retransmission_share",
        "links_per_segment",
        "path_stretch",
        "interests",
    ];
    /// Names of the measurements of a node; that of the node follows after a dot.
    pub const NODE_NAMES: [&'static str; 3] = ["delay_ms", "cs_hits", "origin_bytes"];

    /// All measurements by name.
    #[must_use]
    pub fn named(self) -> BTreeMap<String, f64> {
        let values = [
            self.hit_share,
            self.origin_share,
            self.delay_ms,
            self.delay_p99_ms,
            self.distribution_ms,
            self.goodput_mbit_per_s,
            self.retransmission_share,
            self.links_per_segment,
            self.path_stretch,
            self.interests,
        ];
        let mut all = self.of_nodes;
        all.extend(Self::NAMES.map(str::to_owned).into_iter().zip(values));
        all
    }
}
