//! Scenarios of seeds.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use ndn_client::link::SimulatedLinkOptions;
use ndn_packet::Name;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::node::NodeSpec;

/// Strategies that scenarios choose from, by their name below `/localhost/nfd/strategy`.
pub const STRATEGIES: [&str; 9] = [
    "best-route",
    "multicast",
    "asf",
    "random",
    "access",
    "fast-route",
    "round-robin",
    "sequential",
    "weighted",
];

/// The strategy of prefixes whose routes are learnt from answers.
pub(crate) const SELF_LEARNING: &str = "self-learning";
/// Interests for a prefix under `/localhop`.
const LOCALHOP_REQUESTS: usize = 10;
/// MTU of most links: longer than any packet of a scenario.
pub(crate) const MTU_MAX: usize = 8800;

/// Bounds of random scenarios.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Fewest nodes.
    pub nodes_min: usize,
    /// Most nodes.
    pub nodes_max: usize,
    /// Most forwarding workers of a node.
    pub workers_max: usize,
    /// Interests that consumers express, retransmissions not counted.
    pub requests: usize,
    /// Most faults.
    pub faults_max: usize,
    /// Most bursts of Interests.
    pub bursts_max: usize,
    /// Interests of the largest burst.
    pub burst_size_max: usize,
    /// Time in which requests and faults begin.
    pub duration: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            nodes_min: 3,
            nodes_max: 30,
            workers_max: 4,
            requests: 60,
            faults_max: 8,
            bursts_max: 1,
            burst_size_max: 10_000,
            duration: Duration::from_secs(4),
        }
    }
}

/// A link between two nodes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Edge {
    /// The two nodes.
    pub nodes: [usize; 2],
    /// The link in each direction, by the sending node.
    pub links: [SimulatedLinkOptions; 2],
    /// Longest frame, bytes.
    pub mtu: usize,
    /// Both nodes retransmit lost frames (NDNLPv2, "Link Reliability").
    pub is_reliable: bool,
}

/// A medium that several nodes share: all others receive a frame that one sends.
#[derive(Debug, Clone, PartialEq)]
pub struct Medium {
    /// The nodes.
    pub nodes: Vec<usize>,
    /// The link from each node to each other one.
    pub link: SimulatedLinkOptions,
}

/// An application that answers below a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Producer {
    /// The node that it is attached to.
    pub node: usize,
    /// It answers Interests below this name.
    pub prefix: Name,
    /// Time from an Interest to its Data.
    pub processing: Duration,
    /// FreshnessPeriod of its Data, if any.
    pub freshness: Option<Duration>,
    /// Only its own node has a route; the others learn it (strategy `self-learning`).
    pub is_learnt: bool,
}

/// A strategy for a prefix on all nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StrategyChoice {
    /// The prefix.
    pub prefix: Name,
    /// Name of the strategy below `/localhost/nfd/strategy`.
    pub strategy: &'static str,
}

/// An Interest of the consumer of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// When it is expressed first.
    pub at: Duration,
    /// The node of the consumer.
    pub node: usize,
    /// Its name, that of the Data unless `can_be_prefix`.
    pub name: Name,
    /// CanBePrefix.
    pub can_be_prefix: bool,
    /// MustBeFresh.
    pub must_be_fresh: bool,
    /// InterestLifetime, and the time between retransmissions.
    pub lifetime: Duration,
    /// Retransmissions at most, each with a nonce of its own.
    pub retransmissions: u32,
}

/// Routes to a prefix without a producer that lead around in a circle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteLoop {
    /// The prefix.
    pub prefix: Name,
    /// The edges, each with the side of the node that has the route.
    pub hops: Vec<(usize, usize)>,
}

/// Interests for different names that a consumer expresses at one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Burst {
    /// When it expresses them.
    pub at: Duration,
    /// The node of the consumer.
    pub node: usize,
    /// All names are below this one.
    pub prefix: Name,
    /// Number of Interests.
    pub count: usize,
    /// Their InterestLifetime.
    pub lifetime: Duration,
    /// Time for which one of several workers of the node does not run, so that its rings fill.
    pub stall: Duration,
}

/// A failure or a change that lasts for a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The edge of this number loses everything.
    Partition(usize),
    /// The node of this number ends at once, and is started again at the end.
    Crash(usize),
    /// A node has no routes to the prefix of a producer.
    Withdraw {
        /// The node.
        node: usize,
        /// The producer.
        producer: usize,
    },
    /// The node at one side of an edge has a route by this edge to the prefix of a producer, cheaper than all
    /// others, wherever the edge leads.
    Detour {
        /// The edge.
        edge: usize,
        /// Which of its nodes has the route.
        side: usize,
        /// The producer.
        producer: usize,
    },
    /// A node has another strategy for the prefix of a producer.
    Strategy {
        /// The node.
        node: usize,
        /// The producer.
        producer: usize,
        /// Name of the strategy below `/localhost/nfd/strategy`.
        strategy: &'static str,
    },
    /// The node at one side of an edge has no face there.
    FaceClosed {
        /// The edge.
        edge: usize,
        /// Which of its nodes has no face.
        side: usize,
    },
}

/// A part of a scenario that can be left out, by its number in the list of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Element {
    /// A link between nodes.
    Edge(usize),
    /// Loss, reordering and duplication of a link.
    Impairment(usize),
    /// Small MTU and reliability of a link.
    LinkLayer(usize),
    /// A shared medium.
    Medium(usize),
    /// A producer.
    Producer(usize),
    /// A strategy choice.
    Strategy(usize),
    /// A routing loop.
    Loop(usize),
    /// An Interest.
    Request(usize),
    /// A burst of Interests.
    Burst(usize),
    /// A fault.
    Fault(usize),
}

impl fmt::Display for Element {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, number) = match self {
            Self::Edge(number) => ("edge", number),
            Self::Impairment(number) => ("impairment", number),
            Self::LinkLayer(number) => ("link-layer", number),
            Self::Medium(number) => ("medium", number),
            Self::Producer(number) => ("producer", number),
            Self::Strategy(number) => ("strategy", number),
            Self::Loop(number) => ("loop", number),
            Self::Request(number) => ("request", number),
            Self::Burst(number) => ("burst", number),
            Self::Fault(number) => ("fault", number),
        };
        write!(formatter, "{kind}:{number}")
    }
}

impl FromStr for Element {
    type Err = String;

    /// Reads `KIND:NUMBER`, as written by `Display`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, number) = text.split_once(':').unwrap_or((text, ""));
        let number = number.parse().map_err(|_| format!("`{text}` is not KIND:NUMBER"))?;
        Ok(match kind {
            "edge" => Self::Edge(number),
            "impairment" => Self::Impairment(number),
            "link-layer" => Self::LinkLayer(number),
            "medium" => Self::Medium(number),
            "producer" => Self::Producer(number),
            "strategy" => Self::Strategy(number),
            "loop" => Self::Loop(number),
            "request" => Self::Request(number),
            "burst" => Self::Burst(number),
            "fault" => Self::Fault(number),
            _ => return Err(format!("`{kind}` is not a kind of element")),
        })
    }
}

/// A network, its load and its faults.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// The seed that it was made of.
    pub seed: u64,
    /// The nodes; [`NodeSpec::ports`] is filled in by the simulation.
    pub nodes: Vec<NodeSpec>,
    /// Links; `None` where shrinking has removed one. Numbers of the others stay.
    pub edges: Vec<Option<Edge>>,
    /// Shared media.
    pub media: Vec<Option<Medium>>,
    /// Producers.
    pub producers: Vec<Option<Producer>>,
    /// Strategies.
    pub strategies: Vec<Option<StrategyChoice>>,
    /// Routing loops.
    pub loops: Vec<Option<RouteLoop>>,
    /// Interests.
    pub requests: Vec<Option<Request>>,
    /// Bursts of Interests.
    pub bursts: Vec<Option<Burst>>,
    /// Faults with their begin and end.
    pub faults: Vec<Option<(Duration, Duration, Fault)>>,
}

impl Scenario {
    /// The scenario of a seed.
    ///
    /// # Panics
    /// If `limits.nodes_min` is below 2 or above `limits.nodes_max`.
    #[must_use]
    pub fn random(seed: u64, limits: &Limits) -> Self {
        assert!((2..=limits.nodes_max).contains(&limits.nodes_min), "a network has two nodes");
        let mut random = StdRng::seed_from_u64(seed);
        let count = random.random_range(limits.nodes_min..=limits.nodes_max);
        let nodes = (0..count).map(|number| random_node(number, limits, &mut random)).collect();
        let mut edges = random_edges(count, &mut random);
        let mut producers = random_producers(count, &mut random);
        let media = random_media(count, &mut random);
        let (routed, mut strategies) = (producers.len(), Vec::new());
        for producer in &producers {
            if random.random_bool(0.5) {
                let strategy = STRATEGIES[random.random_range(0..STRATEGIES.len())];
                strategies.push(StrategyChoice { prefix: producer.prefix.clone(), strategy });
            }
        }
        if random.random_bool(0.2) {
            let medium = media.first().map(|medium| medium.nodes[0]);
            let node = medium.unwrap_or_else(|| random.random_range(0..count));
            producers.push(learnt_producer(node, &mut random));
            // A header with an announcement, which is not fragmented, exceeds small MTUs.
            edges.iter_mut().for_each(|edge| edge.mtu = MTU_MAX);
            let prefix = producers[routed].prefix.clone();
            strategies.push(StrategyChoice { prefix, strategy: SELF_LEARNING });
        }
        let loops = random_loops(count, &edges, &mut random);
        let prefixes = producers.iter().map(|producer| &producer.prefix);
        let prefixes: Vec<_> = prefixes.chain(loops.iter().map(|one| &one.prefix)).collect();
        let mut requests: Vec<_> = (0..limits.requests)
            .map(|_| random_request(count, &prefixes, limits, &mut random))
            .collect();
        requests.sort_by_key(|request| request.at);
        let is_routed = |prefix: &&&Name| **prefix != &learnt_prefix();
        let prefixes: Vec<_> = prefixes.iter().filter(is_routed).copied().collect();
        let bursts = random_bursts(count, &prefixes, limits, &mut random);
        let faults = random_faults(count, edges.len(), routed, limits, &mut random);
        if random.random_bool(0.25) {
            let producer = localhop_producer(count, &mut random);
            let prefix = producer.prefix.clone();
            let more = (0..LOCALHOP_REQUESTS)
                .map(|_| random_request(count, &[&prefix], limits, &mut random));
            requests.extend(more);
            requests.sort_by_key(|request| request.at);
            producers.push(producer);
            if random.random_bool(0.5) {
                let strategy = STRATEGIES[random.random_range(0..STRATEGIES.len())];
                strategies.push(StrategyChoice { prefix, strategy });
            }
        }
        Self {
            seed,
            nodes,
            edges: edges.into_iter().map(Some).collect(),
            media: media.into_iter().map(Some).collect(),
            producers: producers.into_iter().map(Some).collect(),
            strategies: strategies.into_iter().map(Some).collect(),
            loops: loops.into_iter().map(Some).collect(),
            requests: requests.into_iter().map(Some).collect(),
            bursts: bursts.into_iter().map(Some).collect(),
            faults: faults.into_iter().map(Some).collect(),
        }
    }

    /// All parts that can be left out.
    #[must_use]
    pub fn elements(&self) -> Vec<Element> {
        let mut elements = Vec::new();
        elements.extend(present(&self.faults).map(Element::Fault));
        elements.extend(present(&self.bursts).map(Element::Burst));
        elements.extend(present(&self.requests).map(Element::Request));
        elements.extend(present(&self.loops).map(Element::Loop));
        elements.extend(present(&self.strategies).map(Element::Strategy));
        let is_impaired = |edge: &&Edge| edge.links.iter().any(is_impaired);
        let impaired = self.edges.iter().enumerate();
        let impaired = impaired.filter(|(_, edge)| edge.as_ref().filter(is_impaired).is_some());
        elements.extend(impaired.map(|(number, _)| Element::Impairment(number)));
        let has_layer = |edge: &&Edge| edge.is_reliable || edge.mtu < MTU_MAX;
        let layered = self.edges.iter().enumerate();
        let layered = layered.filter(|(_, edge)| edge.as_ref().filter(has_layer).is_some());
        elements.extend(layered.map(|(number, _)| Element::LinkLayer(number)));
        elements.extend(present(&self.media).map(Element::Medium));
        elements.extend(present(&self.producers).map(Element::Producer));
        elements.extend(present(&self.edges).map(Element::Edge));
        elements
    }

    /// The scenario without some of its parts.
    #[must_use]
    pub fn without(&self, elements: &[Element]) -> Self {
        let mut scenario = self.clone();
        for element in elements {
            match *element {
                Element::Edge(number) => scenario.edges[number] = None,
                Element::Impairment(number) => {
                    if let Some(edge) = &mut scenario.edges[number] {
                        edge.links.iter_mut().for_each(clear_impairment);
                    }
                }
                Element::LinkLayer(number) => {
                    if let Some(edge) = &mut scenario.edges[number] {
                        (edge.mtu, edge.is_reliable) = (MTU_MAX, false);
                    }
                }
                Element::Medium(number) => scenario.media[number] = None,
                Element::Producer(number) => scenario.producers[number] = None,
                Element::Strategy(number) => scenario.strategies[number] = None,
                Element::Loop(number) => scenario.loops[number] = None,
                Element::Request(number) => scenario.requests[number] = None,
                Element::Burst(number) => scenario.bursts[number] = None,
                Element::Fault(number) => scenario.faults[number] = None,
            }
        }
        scenario
    }

    /// Whether a fault closes faces.
    pub(crate) fn has_lost_faces(&self) -> bool {
        let mut faults = self.faults.iter().flatten();
        faults.any(|(.., fault)| matches!(fault, Fault::Crash(_) | Fault::FaceClosed { .. }))
    }

    /// Hop counts to `node` over the edges, by node; `None` where there is no path.
    #[must_use]
    pub fn distances_to(&self, node: usize) -> Vec<Option<u32>> {
        let mut distances = vec![None; self.nodes.len()];
        distances[node] = Some(0);
        let mut reached = VecDeque::from([(node, 0)]);
        while let Some((from, hops)) = reached.pop_front() {
            for edge in self.edges.iter().flatten() {
                let [a, b] = edge.nodes;
                let to = if a == from {
                    b
                } else if b == from {
                    a
                } else {
                    continue;
                };
                if distances[to].is_none() {
                    distances[to] = Some(hops + 1);
                    reached.push_back((to, hops + 1));
                }
            }
        }
        distances
    }
}

fn present<T>(parts: &[Option<T>]) -> impl Iterator<Item = usize> {
    parts.iter().enumerate().filter(|(_, part)| part.is_some()).map(|(number, _)| number)
}

fn is_impaired(link: &SimulatedLinkOptions) -> bool {
    link.loss > 0.0 || link.reordering > 0.0 || link.duplication > 0.0
}

/// Makes a link lossless and in order; rate, delay and queue stay.
pub(crate) fn clear_impairment(link: &mut SimulatedLinkOptions) {
    (link.loss, link.reordering, link.duplication) = (0.0, 0.0, 0.0);
}

fn random_node(number: usize, limits: &Limits, random: &mut StdRng) -> NodeSpec {
    // Most have few: workers take most of the time to start a node.
    let workers_max = random.random_range(1..=limits.workers_max);
    NodeSpec {
        number,
        workers: random.random_range(1..=workers_max),
        cs_capacity: [0, 1, 8, 256][random.random_range(0..4)],
        pit_capacity: [64, 256, 1024][random.random_range(0..3)],
        ports: Vec::new(),
        has_signed_commands: random.random_bool(0.1),
        seed: random.random(),
    }
}

/// A random tree and up to as many links again.
fn random_edges(count: usize, random: &mut StdRng) -> Vec<Edge> {
    let mut edges = Vec::new();
    for node in 1..count {
        let nodes = [random.random_range(0..node), node];
        edges.push(random_edge(nodes, random));
    }
    for _ in 0..random.random_range(0..=count) {
        let nodes = [random.random_range(0..count), random.random_range(0..count)];
        if nodes[0] != nodes[1] {
            edges.push(random_edge(nodes, random));
        }
    }
    edges
}

/// Most links carry whole packets; the Data of a scenario has some 120 bytes.
fn random_edge(nodes: [usize; 2], random: &mut StdRng) -> Edge {
    let mtu = match random.random_bool(0.2) {
        true => [64, 80, 100, 150][random.random_range(0..4)],
        false => MTU_MAX,
    };
    let is_reliable = random.random_bool(0.15);
    Edge { nodes, links: [random_link(random), random_link(random)], mtu, is_reliable }
}

/// One scenario of three has a shared medium.
fn random_media(count: usize, random: &mut StdRng) -> Vec<Medium> {
    if !random.random_bool(0.33) {
        return Vec::new();
    }
    let mut nodes: Vec<usize> = (0..count).collect();
    let members = random.random_range(2..=count.min(5));
    for place in 0..members {
        nodes.swap(place, random.random_range(place..count));
    }
    nodes.truncate(members);
    vec![Medium { nodes, link: random_link(random) }]
}

/// The prefix whose routes are learnt.
pub(crate) fn learnt_prefix() -> Name {
    let mut prefix = Name::new();
    prefix.push_generic("learnt");
    prefix
}

fn learnt_producer(node: usize, random: &mut StdRng) -> Producer {
    let prefix = learnt_prefix();
    let processing = Duration::from_micros(random.random_range(0..5_000));
    Producer { node, prefix, processing, freshness: None, is_learnt: true }
}

/// A producer that serves its own node and the neighbours of it. All nodes have routes to it.
fn localhop_producer(count: usize, random: &mut StdRng) -> Producer {
    let mut prefix = Name::new();
    prefix.push_generic("localhop").push_generic("p");
    let processing = Duration::from_micros(random.random_range(0..5_000));
    let freshness = Some(Duration::from_millis(random.random_range(1..2_000)));
    let node = random.random_range(0..count);
    Producer { node, prefix, processing, freshness, is_learnt: false }
}

/// Whether `name` is under `/localhop`.
pub(crate) fn is_localhop(name: &Name) -> bool {
    name.component(0).is_some_and(|first| first.value() == b"localhop")
}

fn random_link(random: &mut StdRng) -> SimulatedLinkOptions {
    let mut share = |probability, share: f64| match random.random_bool(probability) {
        true => random.random_range(0.0..share),
        false => 0.0,
    };
    let (loss, reordering, duplication) = (share(0.3, 0.2), share(0.3, 0.3), share(0.2, 0.2));
    SimulatedLinkOptions {
        rate: [1_000_000, 10_000_000, 1_000_000_000][random.random_range(0..3)],
        delay: Duration::from_micros(random.random_range(10..20_000)),
        queue_bytes: [3_000, 30_000, 1 << 20][random.random_range(0..3)],
        loss,
        reordering,
        reordering_delay: Duration::from_micros(random.random_range(100..50_000)),
        duplication,
        mark_above: None,
        seed: random.random(),
    }
}

fn random_producers(count: usize, random: &mut StdRng) -> Vec<Producer> {
    (0..random.random_range(1..=4_usize))
        .map(|number| {
            let mut prefix = Name::new();
            prefix.push_generic("p").push_generic(number.to_string());
            // Prefixes of different lengths, one below another.
            if random.random_bool(0.3) {
                prefix = Name::new();
                prefix.push_generic("p");
                (0..number).for_each(|_| {
                    prefix.push_generic("deep");
                });
            }
            let freshness = random.random_bool(0.6);
            Producer {
                node: random.random_range(0..count),
                prefix,
                processing: Duration::from_micros(random.random_range(0..5_000)),
                freshness: freshness.then(|| Duration::from_millis(random.random_range(1..2_000))),
                is_learnt: false,
            }
        })
        .collect()
}

fn random_request(
    count: usize,
    prefixes: &[&Name],
    limits: &Limits,
    random: &mut StdRng,
) -> Request {
    let mut name = prefixes[random.random_range(0..prefixes.len())].clone();
    // Few names, so that Interests are aggregated and cached Data found.
    name.push_generic(random.random_range(0..6_u32).to_string());
    let can_be_prefix = random.random_bool(0.2);
    if !can_be_prefix && random.random_bool(0.5) {
        name.push_segment(random.random_range(0..3));
    }
    Request {
        at: random.random_range(Duration::ZERO..limits.duration),
        node: random.random_range(0..count),
        name,
        can_be_prefix,
        must_be_fresh: random.random_bool(0.3),
        lifetime: Duration::from_millis(random.random_range(20..2_000)),
        retransmissions: random.random_range(0..3),
    }
}

/// Loops between two neighbours, and around a circle of the network.
fn random_loops(count: usize, edges: &[Edge], random: &mut StdRng) -> Vec<RouteLoop> {
    (0..random.random_range(0..=2_usize))
        .map(|number| {
            let mut prefix = Name::new();
            prefix.push_generic("loop").push_generic(number.to_string());
            let edge = random.random_range(0..edges.len());
            // The first edges are those of the tree.
            let hops = match edge < count - 1 {
                true => vec![(edge, 0), (edge, 1)],
                false => circle(edges, edge),
            };
            RouteLoop { prefix, hops }
        })
        .collect()
}

/// The circle of an edge with the tree that the first edges are: number `n - 1` joins node `n` to one before it.
fn circle(edges: &[Edge], edge: usize) -> Vec<(usize, usize)> {
    let [mut start, mut end] = edges[edge].nodes;
    let (mut up, mut down) = (Vec::new(), Vec::new());
    while start != end {
        if end > start {
            up.push((end - 1, 1));
            end = edges[end - 1].nodes[0];
        } else {
            down.push((start - 1, 0));
            start = edges[start - 1].nodes[0];
        }
    }
    let down = down.into_iter().rev();
    std::iter::once((edge, 0)).chain(up).chain(down).collect()
}

/// Few scenarios have bursts, and few of these are long enough to fill the rings between workers: they take time.
fn random_bursts(
    count: usize,
    prefixes: &[&Name],
    limits: &Limits,
    random: &mut StdRng,
) -> Vec<Burst> {
    let bursts = if random.random_bool(0.1) { limits.bursts_max } else { 0 };
    (0..bursts)
        .map(|number| {
            let mut prefix = prefixes[random.random_range(0..prefixes.len())].clone();
            prefix.push_generic(format!("burst-{number}"));
            let share = [50, 10, 1][random.random_range(0..3)];
            Burst {
                at: random.random_range(Duration::ZERO..limits.duration),
                node: random.random_range(0..count),
                prefix,
                count: limits.burst_size_max / share,
                lifetime: Duration::from_millis(random.random_range(100..2_000)),
                stall: Duration::from_millis([0, 1, 20][random.random_range(0..3)]),
            }
        })
        .collect()
}

fn random_faults(
    node_count: usize,
    edge_count: usize,
    producer_count: usize,
    limits: &Limits,
    random: &mut StdRng,
) -> Vec<(Duration, Duration, Fault)> {
    (0..random.random_range(0..=limits.faults_max))
        .map(|_| {
            let begin = random.random_range(Duration::ZERO..limits.duration);
            let end = begin + random.random_range(Duration::from_millis(1)..Duration::from_secs(2));
            let (node, edge) =
                (random.random_range(0..node_count), random.random_range(0..edge_count));
            let (side, producer) =
                (random.random_range(0..2), random.random_range(0..producer_count));
            let strategy = STRATEGIES[random.random_range(0..STRATEGIES.len())];
            let fault = match random.random_range(0..6) {
                0 => Fault::Partition(edge),
                1 => Fault::Crash(node),
                2 => Fault::Withdraw { node, producer },
                3 => Fault::Detour { edge, side, producer },
                4 => Fault::Strategy { node, producer, strategy },
                _ => Fault::FaceClosed { edge, side },
            };
            (begin, end, fault)
        })
        .collect()
}
