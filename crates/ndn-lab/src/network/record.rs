//! Observations of clients: downloads and counts, of which measurements are computed. Parts of a network on several hosts have one
//! each, and they are added.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::routes::Routes;
use super::{Measures, Network, NetworkCounts};

/// Names of the measurements of traffic generators in the whole network.
pub(crate) const TRAFFIC_NAMES: [&str; 9] = [
    "hit_share",
    "origin_share",
    "delay_ms",
    "delay_p99_ms",
    "goodput_mbit_per_s",
    "links_per_segment",
    "interests",
    "satisfied_per_s",
    "loss_share",
];

/// A download, in times since the begin of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Download {
    pub(crate) node: u32,
    pub(crate) object: u32,
    pub(crate) begin: Duration,
    pub(crate) end: Duration,
}

/// Measurements of a traffic generator.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Flow {
    pub(crate) node: u32,
    pub(crate) elapsed: Duration,
    pub(crate) sent: u64,
    pub(crate) satisfied: u64,
    /// Times from Interest to Data.
    pub(crate) mean: Duration,
    pub(crate) p99: Duration,
}

/// Counts since the start.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counts {
    pub(crate) interests: u64,
    pub(crate) retransmissions: u64,
    /// By node: bytes of content that its producer sent.
    pub(crate) origin_bytes: Vec<u64>,
    pub(crate) network: NetworkCounts,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.interests += other.interests;
        self.retransmissions += other.retransmissions;
        add_each(&mut self.origin_bytes, &other.origin_bytes);
        add_each(&mut self.network.cs_hits, &other.network.cs_hits);
        self.network.link_interests += other.network.link_interests;
    }
}

/// Interests on links over the links of the shortest paths to the sources; 1 if all consumers are at their sources.
fn path_stretch(network: &Network<'_>, downloads: &[&Download], link_interests: f64) -> f64 {
    let routes = Routes::new(network);
    let mut known = BTreeMap::new();
    let links = |download: &&Download| {
        let source = network.sources[download.object as usize];
        let links = *known
            .entry((download.node, source))
            .or_insert_with(|| routes.links(download.node as usize, source));
        links * (network.last_segment(download.object) + 1)
    };
    match downloads.iter().map(links).sum::<u64>() {
        0 => 1.0,
        shortest => link_interests / shortest as f64,
    }
}

fn add_each(sums: &mut Vec<u64>, others: &[u64]) {
    sums.resize(sums.len().max(others.len()), 0);
    for (sum, other) in sums.iter_mut().zip(others) {
        *sum += other;
    }
}

/// Downloads, and counts at the end of the warm-up and at the end.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) downloads: Vec<Download>,
    pub(crate) from: Counts,
    pub(crate) until: Counts,
    /// In place of downloads: traffic generators.
    pub(crate) flows: Vec<Flow>,
}

impl Record {
    /// Adds what the clients of another part of the network observed.
    pub(crate) fn add(&mut self, other: &Self) {
        self.downloads.extend(&other.downloads);
        self.from.add(&other.from);
        self.until.add(&other.until);
        self.flows.extend(&other.flows);
    }

    /// Measurements of the requests after the warm-up.
    ///
    /// # Errors
    /// No request is measured.
    pub(crate) fn measures(&self, network: &Network<'_>) -> Result<Measures, String> {
        let (from, until) = (&self.from, &self.until);
        let measured: Vec<&Download> =
            self.downloads.iter().filter(|download| download.begin >= network.warm_up).collect();
        if measured.is_empty() {
            return Err("there are no requests after the warm-up".to_owned());
        }
        let count = measured.len() as f64;
        let duration_s = |download: &Download| (download.end - download.begin).as_secs_f64();
        let mut delays_s: Vec<f64> = measured.iter().map(|download| duration_s(download)).collect();
        delays_s.sort_by(f64::total_cmp);
        let size = |download: &&Download| network.sizes[download.object as usize] as f64;
        let segments: u64 =
            measured.iter().map(|download| network.last_segment(download.object) + 1).sum();
        let bytes: f64 = measured.iter().map(size).sum();
        let mut spans: BTreeMap<u32, (Duration, Duration)> = BTreeMap::new();
        let mut of_consumers: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
        for download in &measured {
            let end = download.end;
            let span = spans.entry(download.object).or_insert((download.begin, end));
            *span = (span.0.min(download.begin), span.1.max(end));
            let own = of_consumers.entry(download.node).or_default();
            *own = (own.0 + duration_s(download), own.1 + 1.0);
        }
        let spans_s: f64 = spans.values().map(|(begin, end)| (*end - *begin).as_secs_f64()).sum();
        let interests = (until.interests - from.interests) as f64;
        let retransmissions = (until.retransmissions - from.retransmissions) as f64;
        let before = |node: usize| from.network.cs_hits.get(node).copied().unwrap_or(0);
        let hits = until.network.cs_hits.iter().enumerate();
        let hits: Vec<u64> = hits.map(|(node, hits)| hits.saturating_sub(before(node))).collect();
        let origin = until.origin_bytes.iter().zip(&from.origin_bytes);
        let origin: Vec<u64> = origin.map(|(until, from)| until - from).collect();
        let node_name = |node: usize| &network.topology.nodes[node];
        let mut of_nodes = BTreeMap::new();
        for (node, (sum_s, count)) in of_consumers {
            of_nodes
                .insert(format!("delay_ms.{}", node_name(node as usize)), 1000.0 * sum_s / count);
        }
        for (node, (hits, origin)) in hits.iter().zip(&origin).enumerate() {
            of_nodes.insert(format!("cs_hits.{}", node_name(node)), *hits as f64);
            of_nodes.insert(format!("origin_bytes.{}", node_name(node)), *origin as f64);
        }
        let link_interests =
            until.network.link_interests.saturating_sub(from.network.link_interests) as f64;
        Ok(Measures {
            hit_share: hits.iter().sum::<u64>() as f64 / segments as f64,
            origin_share: origin.iter().sum::<u64>() as f64 / bytes.max(1.0),
            delay_ms: 1000.0 * delays_s.iter().sum::<f64>() / count,
            delay_p99_ms: 1000.0 * delays_s[((0.99 * count) as usize).min(delays_s.len() - 1)],
            distribution_ms: 1000.0 * spans_s / spans.len() as f64,
            goodput_mbit_per_s: bytes * 8e-6 / delays_s.iter().sum::<f64>().max(1e-9),
            retransmission_share: retransmissions / interests.max(1.0),
            links_per_segment: link_interests / segments as f64,
            path_stretch: path_stretch(network, &measured, link_interests),
            interests,
            of_nodes,
        })
    }

    /// Measurements of traffic generators, by name.
    ///
    /// # Errors
    /// No Interest was answered.
    pub(crate) fn traffic(&self, network: &Network<'_>) -> Result<BTreeMap<String, f64>, String> {
        let sent: u64 = self.flows.iter().map(|flow| flow.sent).sum();
        let satisfied: u64 = self.flows.iter().map(|flow| flow.satisfied).sum();
        if satisfied == 0 {
            return Err("no Interest was answered".to_owned());
        }
        let elapsed_s = self.flows.iter().map(|flow| flow.elapsed).max().unwrap_or_default();
        let elapsed_s = elapsed_s.as_secs_f64().max(1e-9);
        let delays_s =
            self.flows.iter().map(|flow| flow.mean.as_secs_f64() * flow.satisfied as f64);
        let p99 = self.flows.iter().map(|flow| flow.p99).max().unwrap_or_default();
        let of = |node: usize, counts: &[u64]| counts.get(node).copied().unwrap_or(0) as f64;
        let (hits, origin) = (&self.until.network.cs_hits, &self.until.origin_bytes);
        let bytes = satisfied as f64 * network.segment_bytes as f64;
        let mut all = BTreeMap::new();
        let values = [
            hits.iter().sum::<u64>() as f64 / sent as f64,
            origin.iter().sum::<u64>() as f64 / bytes,
            1e3 * delays_s.sum::<f64>() / satisfied as f64,
            1e3 * p99.as_secs_f64(),
            bytes * 8e-6 / elapsed_s,
            self.until.network.link_interests as f64 / sent as f64,
            sent as f64,
            satisfied as f64 / elapsed_s,
            (sent - satisfied.min(sent)) as f64 / sent as f64,
        ];
        all.extend(TRAFFIC_NAMES.map(str::to_owned).into_iter().zip(values));
        for (node, name) in network.topology.nodes.iter().enumerate() {
            all.insert(format!("cs_hits.{name}"), of(node, hits));
            all.insert(format!("origin_bytes.{name}"), of(node, origin));
        }
        for flow in &self.flows {
            let name = &network.topology.nodes[flow.node as usize];
            all.insert(format!("delay_ms.{name}"), 1e3 * flow.mean.as_secs_f64());
        }
        Ok(all)
    }
}
