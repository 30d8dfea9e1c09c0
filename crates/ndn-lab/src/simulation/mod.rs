//! Networks of whole forwarders on virtual time: the forwarder and the fetcher that others deploy, links of a rate, a delay
//! and a queue, and no time for processing. The same settings give the same result on every machine.

mod node;
mod packets;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

use ndn_cache_sim::engine::closer_hops;
use ndn_cache_sim::topology::Topology;
use ndn_cache_sim::trace::Request;
use ndn_client::fetch::{DataOutcome, FetchConfig, FetchState, WindowMode};
use ndn_client::link::{Link, LinkOptions, Passage};
use ndn_model::random::{StreamId, TraceRandom};
use ndn_sys::clock::ManualClock;

use node::{Node, NodeSettings};
use packets::{Received, data, interest, parse, prefix};

/// Unix time at the start: 2026-01-01.
const UNIX_ORIGIN: Duration = Duration::from_secs(1_767_225_600);
/// Monotonic time at the start: not zero, as on any host.
const ORIGIN: Duration = Duration::from_secs(1000);
/// Steps of a node at one instant; more indicate a fault.
const STEPS_MAX: u32 = 1_000_000;
/// Time after the last request in which all fetches have to end.
const REST: Duration = Duration::from_secs(3600);
/// Stream of the random numbers that are Nonces.
const NONCES: StreamId = StreamId(1);

/// A network, its load and its settings.
#[derive(Debug)]
pub struct Network<'a> {
    /// Nodes and links; the rate of links and the size of caches are those of its load.
    pub topology: &'a Topology,
    /// Requests in the order of time.
    pub requests: &'a [Request],
    /// Sizes of the objects in bytes.
    pub sizes: &'a [u64],
    /// Source of each object: a node.
    pub sources: &'a [u32],
    /// Longest content of a Data in bytes.
    pub segment_bytes: u64,
    /// Congestion control of the fetches.
    pub window: WindowMode,
    /// Strategy of all forwarders: its name below `/localhost/nfd/strategy`.
    pub strategy: &'a str,
    /// Share of the frames that each link loses.
    pub loss: f64,
    /// Requests that begin before this time are not measured.
    pub warm_up: Duration,
    /// Seed of Nonces, losses and forwarders.
    pub seed: u64,
}

/// Measurements of the requests after the warm-up.
#[derive(Debug, Clone, Copy, PartialEq)]
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
    /// Interests of consumers.
    pub interests: f64,
}

impl Measures {
    /// Names and values.
    #[must_use]
    pub fn named(&self) -> [(&'static str, f64); 9] {
        [
            ("hit_share", self.hit_share),
            ("origin_share", self.origin_share),
            ("delay_ms", self.delay_ms),
            ("delay_p99_ms", self.delay_p99_ms),
            ("distribution_ms", self.distribution_ms),
            ("goodput_mbit_per_s", self.goodput_mbit_per_s),
            ("retransmission_share", self.retransmission_share),
            ("links_per_segment", self.links_per_segment),
            ("interests", self.interests),
        ]
    }

    /// Names of all measurements.
    pub const NAMES: [&'static str; 9] = [
        "hit_share",
        "origin_share",
        "delay_ms",
        "delay_p99_ms",
        "distribution_ms",
        "goodput_mbit_per_s",
        "retransmission_share",
        "links_per_segment",
        "interests",
    ];
}

/// Bytes of memory that the Content Stores of a network can take.
#[must_use]
pub fn cache_memory(topology: &Topology, segment_bytes: u64) -> u64 {
    let packets = topology.load.cache_bytes / segment_bytes.max(1);
    let caches = topology.has_cache.iter().filter(|has_cache| **has_cache).count() as u64;
    caches * node::cs_bytes(packets, segment_bytes)
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A frame arrives at a face of a node.
    Arrive { node: usize, face: usize, frame: Vec<u8> },
    /// A request begins.
    Begin { request: usize },
    /// A time-out of a fetch may be due.
    Wake { fetch: usize },
    /// A node asked to be stepped.
    Step { node: usize },
}

/// A request that is being performed.
#[derive(Debug)]
struct Fetch {
    state: FetchState,
    request: Request,
    begin: Duration,
    end: Option<Duration>,
    /// The earliest scheduled wake-up.
    wakes_at: Option<Duration>,
}

/// Counts at the end of the warm-up.
#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    hits: u64,
    origin_bytes: u64,
    interests: u64,
    retransmissions: u64,
    link_interests: u64,
}

struct Simulation<'a> {
    network: &'a Network<'a>,
    clock: ManualClock,
    now: Duration,
    nodes: Vec<Node>,
    /// By node and neighbour: the link there, and the face of this node at the neighbour.
    links: Vec<Vec<(Link, usize)>>,
    events: BinaryHeap<Reverse<(Duration, u64, Event)>>,
    event_count: u64,
    /// Nodes with frames that were not handled.
    due: BTreeSet<usize>,
    /// By node: the earliest scheduled step.
    steps_at: Vec<Option<Duration>>,
    fetches: Vec<Fetch>,
    /// By node and object: fetches that are not complete.
    active: BTreeMap<(u32, u32), Vec<usize>>,
    random: TraceRandom,
    counts: Counts,
    warm: Option<Counts>,
}

/// Runs a network until all requests are complete.
///
/// # Errors
/// A forwarder does not start, or a request does not end.
pub fn simulate(network: &Network<'_>) -> Result<Measures, String> {
    let mut simulation = Simulation::new(network)?;
    simulation.run()?;
    simulation.measures()
}

impl<'a> Simulation<'a> {
    fn new(network: &'a Network<'a>) -> Result<Self, String> {
        let topology = network.topology;
        let clock = ManualClock::new(ORIGIN.as_nanos() as u64, UNIX_ORIGIN);
        let sources: BTreeSet<u32> = network.sources.iter().copied().collect();
        let consumers: BTreeSet<u32> =
            network.requests.iter().map(|request| request.node).collect();
        let mut nodes = Vec::new();
        for (number, hops) in topology.hops.iter().enumerate() {
            let packets = topology.load.cache_bytes / network.segment_bytes.max(1);
            let settings = NodeSettings {
                cs_packets: if topology.has_cache[number] { packets as usize } else { 0 },
                segment_bytes: network.segment_bytes,
                strategy: network.strategy,
                prefixes: sources.len(),
                neighbours: hops.len(),
                has_consumers: consumers.contains(&(number as u32)),
                is_source: sources.contains(&(number as u32)),
            };
            let seed = network.seed ^ (number as u64) << 32;
            nodes.push(Node::start(settings, &clock, seed)?);
        }
        for &source in &sources {
            let closer = closer_hops(topology, source as usize);
            for (number, node) in nodes.iter_mut().enumerate() {
                if number == source as usize
                    && let Some(face) = node.producers()
                {
                    node.add_route(&prefix(source), face, 0)?;
                }
                for (rank, hop) in closer[number].iter().enumerate() {
                    let place = topology.hops[number].iter().position(|one| one.link == hop.link);
                    let Some(face) = place else { continue };
                    node.add_route(&prefix(source), face, 1 + rank as u64)?;
                }
            }
        }
        let link = |number: usize, hop: &ndn_cache_sim::topology::Hop| {
            // The link back is the one whose direction has the other end; parallel links are in the same order.
            let back = topology.hops[hop.to].iter().enumerate();
            let mut back = back.filter(|(_, other)| other.to == number).map(|(face, _)| face);
            let same = topology.hops[number].iter().filter(|other| other.to == hop.to);
            let rank = same.take_while(|other| other.link != hop.link).count();
            let options = LinkOptions {
                rate: (topology.load.link_mbit_per_s * 1e6) as u64,
                delay: Duration::from_secs_f64(hop.delay_s),
                loss: network.loss,
                seed: network.seed.wrapping_add(hop.link as u64),
                ..LinkOptions::default()
            };
            (Link::new(options), back.nth(rank).unwrap_or(0))
        };
        let links = topology.hops.iter().enumerate();
        let links = links
            .map(|(number, hops)| hops.iter().map(|hop| link(number, hop)).collect())
            .collect();
        Ok(Self {
            steps_at: vec![None; nodes.len()],
            due: (0..nodes.len()).collect(),
            network,
            clock,
            now: ORIGIN,
            nodes,
            links,
            events: BinaryHeap::new(),
            event_count: 0,
            fetches: Vec::new(),
            active: BTreeMap::new(),
            random: TraceRandom::new(network.seed, 1),
            counts: Counts::default(),
            warm: None,
        })
    }

    fn schedule(&mut self, at: Duration, event: Event) {
        self.event_count += 1;
        self.events.push(Reverse((at.max(self.now), self.event_count, event)));
    }

    fn run(&mut self) -> Result<(), String> {
        let requests = self.network.requests;
        for (number, request) in requests.iter().enumerate() {
            let at = ORIGIN + Duration::from_secs_f64(request.time_s);
            self.schedule(at, Event::Begin { request: number });
        }
        let last = requests.last().map_or(0.0, |request| request.time_s);
        let end = ORIGIN + Duration::from_secs_f64(last) + REST;
        let warm_up_end = ORIGIN + self.network.warm_up;
        self.step_due()?;
        while self.fetches.len() < requests.len() || !self.active.is_empty() {
            let Some(Reverse((at, _, event))) = self.events.pop() else { break };
            if at > end {
                break;
            }
            if self.warm.is_none() && at >= warm_up_end {
                self.warm = Some(self.counts());
            }
            self.now = at;
            self.clock.advance_to(at.as_nanos() as u64);
            self.handle(event);
            while let Some(Reverse((next, _, _))) = self.events.peek()
                && *next <= at
                && let Some(Reverse((_, _, event))) = self.events.pop()
            {
                self.handle(event);
            }
            self.step_due()?;
        }
        match self.fetches.iter().find(|fetch| fetch.end.is_none()) {
            None => Ok(()),
            Some(fetch) => Err(format!(
                "a request of node {} for object {} has {} of {} segments after an hour: {:?}",
                self.network.topology.nodes[fetch.request.node as usize],
                fetch.request.object,
                fetch.state.progress().segments,
                self.last_segment(fetch.request.object) + 1,
                fetch.state.failure(),
            )),
        }
    }

    fn last_segment(&self, object: u32) -> u64 {
        self.network.sizes[object as usize].div_ceil(self.network.segment_bytes).max(1) - 1
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrive { node, face, frame } => self.deliver(node, face, frame),
            Event::Begin { request } => self.begin(self.network.requests[request]),
            Event::Wake { fetch } => {
                let now = self.now;
                let one = &mut self.fetches[fetch];
                one.wakes_at = one.wakes_at.filter(|at| *at > now);
                if one.end.is_none() && one.state.poll_timeout().is_some_and(|(due, _)| due <= now)
                {
                    one.state.handle_timeout(now);
                }
                self.transmit(fetch);
            }
            Event::Step { node } => {
                self.steps_at[node] = None;
                self.due.insert(node);
            }
        }
    }

    fn deliver(&mut self, node: usize, face: usize, frame: Vec<u8>) {
        // A full queue drops the frame, as that of a socket.
        self.nodes[node].deliver(face, frame);
        self.due.insert(node);
    }

    fn begin(&mut self, request: Request) {
        let config = FetchConfig {
            window: self.network.window,
            retransmissions_max: u32::MAX,
            ..FetchConfig::default()
        };
        let state = FetchState::new(config, 0, Some(self.last_segment(request.object)));
        let fetch = self.fetches.len();
        let begin = self.now;
        self.fetches.push(Fetch { state, request, begin, end: None, wakes_at: None });
        self.active.entry((request.node, request.object)).or_default().push(fetch);
        self.transmit(fetch);
    }

    /// Sends the Interests that the window of a fetch allows.
    fn transmit(&mut self, number: usize) {
        let now = self.now;
        let Request { node, object, .. } = self.fetches[number].request;
        if self.fetches[number].end.is_some() {
            return;
        }
        let source = self.network.sources[object as usize];
        while let Some(transmit) = self.fetches[number].state.poll_transmit(now) {
            let nonce = self.random.draw(NONCES, self.counts.interests).bits() as u32;
            self.counts.interests += 1;
            self.counts.retransmissions += u64::from(transmit.attempt > 1);
            let frame = interest(source, object, transmit.segment, nonce);
            if let Some(face) = self.nodes[node as usize].consumers() {
                self.deliver(node as usize, face, frame);
            }
        }
        let fetch = &mut self.fetches[number];
        let due = fetch.state.poll_timeout().map(|(due, _)| due.max(now));
        // A fetch that is woken too early checks again at its deadline.
        let wake = due.filter(|due| fetch.wakes_at.is_none_or(|at| *due < at));
        if let Some(at) = wake {
            fetch.wakes_at = Some(at);
            self.schedule(at, Event::Wake { fetch: number });
        }
    }

    /// Steps all nodes with work, and sends what they send, until nothing is left at this instant.
    fn step_due(&mut self) -> Result<(), String> {
        while let Some(node) = self.due.pop_first() {
            let mut is_quiet = false;
            for _ in 0..STEPS_MAX {
                let has_worked = self.nodes[node].step()?;
                while let Some((face, frame)) = self.nodes[node].poll_output() {
                    self.send(node, face, frame);
                }
                if !has_worked {
                    is_quiet = true;
                    break;
                }
            }
            if !is_quiet {
                return Err(format!(
                    "node {node} is not done after {STEPS_MAX} steps at one instant"
                ));
            }
            let deadline = self.nodes[node].next_deadline();
            let is_earlier = |at: &Duration| self.steps_at[node].is_none_or(|known| *at < known);
            if let Some(at) = deadline.filter(is_earlier) {
                self.steps_at[node] = Some(at);
                self.schedule(at, Event::Step { node });
            }
        }
        Ok(())
    }

    fn send(&mut self, node: usize, face: usize, frame: Vec<u8>) {
        if Some(face) == self.nodes[node].consumers() {
            return self.consume(node, &frame);
        }
        if Some(face) == self.nodes[node].producers() {
            return self.produce(node, face, &frame);
        }
        if let Some((Received::Interest { .. }, _)) = parse(&frame) {
            self.counts.link_interests += 1;
        }
        let now = self.now;
        let (link, other_face) = &mut self.links[node][face];
        let (face, to) = (*other_face, self.network.topology.hops[node][face].to);
        if let Passage::Arrives { at, .. } = link.send(now, frame.len() as u64) {
            self.schedule(at, Event::Arrive { node: to, face, frame });
        }
    }

    /// A producer answers at once.
    fn produce(&mut self, node: usize, face: usize, frame: &[u8]) {
        let Some((Received::Interest { object, segment }, token)) = parse(frame) else { return };
        let size = self.network.sizes.get(object as usize).copied().unwrap_or(0);
        let offset = segment.saturating_mul(self.network.segment_bytes);
        let len = size.saturating_sub(offset).min(self.network.segment_bytes);
        self.counts.origin_bytes += len;
        let frame = data((node as u32, object, segment), len as usize, token.as_deref());
        self.deliver(node, face, frame);
    }

    /// The consumers of a node get a frame.
    fn consume(&mut self, node: usize, frame: &[u8]) {
        let Some((received, _)) = parse(frame) else { return };
        let (Received::Data { object, .. }
        | Received::Nack { object, .. }
        | Received::Interest { object, .. }) = received;
        let key = (node as u32, object);
        let now = self.now;
        for number in self.active.get(&key).cloned().unwrap_or_default() {
            let fetch = &mut self.fetches[number];
            match received {
                Received::Data { segment, is_marked, .. } => {
                    if fetch.state.handle_data(now, segment, None, is_marked) == DataOutcome::New {
                        fetch.state.set_consumed(fetch.state.first_missing());
                    }
                }
                Received::Nack { segment, is_congested, .. } => {
                    fetch.state.handle_nack(now, segment, is_congested);
                }
                Received::Interest { .. } => {}
            }
            if fetch.state.is_complete() {
                fetch.end = Some(now);
            }
            self.transmit(number);
        }
        if let Some(active) = self.active.get_mut(&key) {
            active.retain(|number| self.fetches[*number].end.is_none());
            if active.is_empty() {
                self.active.remove(&key);
            }
        }
    }

    fn counts(&self) -> Counts {
        let hits = self.nodes.iter().map(Node::cs_hits).sum();
        Counts { hits, ..self.counts }
    }

    fn measures(&self) -> Result<Measures, String> {
        let (from, until) = (self.warm.unwrap_or_default(), self.counts());
        let warm_up_end = ORIGIN + self.network.warm_up;
        let measured: Vec<&Fetch> =
            self.fetches.iter().filter(|fetch| fetch.begin >= warm_up_end).collect();
        if measured.is_empty() {
            return Err("there are no requests after the warm-up".to_owned());
        }
        let count = measured.len() as f64;
        let duration_s =
            |fetch: &Fetch| (fetch.end.unwrap_or(self.now) - fetch.begin).as_secs_f64();
        let mut delays_s: Vec<f64> = measured.iter().map(|fetch| duration_s(fetch)).collect();
        delays_s.sort_by(f64::total_cmp);
        let size = |fetch: &&Fetch| self.network.sizes[fetch.request.object as usize] as f64;
        let segments: u64 =
            measured.iter().map(|fetch| self.last_segment(fetch.request.object) + 1).sum();
        let bytes: f64 = measured.iter().map(size).sum();
        let mut spans: BTreeMap<u32, (Duration, Duration)> = BTreeMap::new();
        for fetch in &measured {
            let end = fetch.end.unwrap_or(self.now);
            let span = spans.entry(fetch.request.object).or_insert((fetch.begin, end));
            *span = (span.0.min(fetch.begin), span.1.max(end));
        }
        let spans_s: f64 = spans.values().map(|(begin, end)| (*end - *begin).as_secs_f64()).sum();
        let interests = (until.interests - from.interests) as f64;
        let retransmissions = (until.retransmissions - from.retransmissions) as f64;
        Ok(Measures {
            hit_share: (until.hits - from.hits) as f64 / segments as f64,
            origin_share: (until.origin_bytes - from.origin_bytes) as f64 / bytes.max(1.0),
            delay_ms: 1000.0 * delays_s.iter().sum::<f64>() / count,
            delay_p99_ms: 1000.0 * delays_s[((0.99 * count) as usize).min(delays_s.len() - 1)],
            distribution_ms: 1000.0 * spans_s / spans.len() as f64,
            goodput_mbit_per_s: bytes * 8e-6 / delays_s.iter().sum::<f64>().max(1e-9),
            retransmission_share: retransmissions / interests.max(1.0),
            links_per_segment: (until.link_interests - from.link_interests) as f64
                / segments as f64,
            interests,
        })
    }
}

#[cfg(test)]
mod tests;
