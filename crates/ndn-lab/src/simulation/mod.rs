//! Networks of whole forwarders on virtual time: the forwarder and the fetcher that others deploy, links of a rate, a delay
//! and a queue, and the time for processing of a calibrated capacity model, or none. The same settings give the same result on every
//! machine.

pub(crate) mod node;
pub(crate) mod server;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

use ndn_client::link::{Passage, SimulatedLink};
use ndn_model::calibrate::{PacketTimes, Setting};
use ndn_sys::clock::ManualClock;

use crate::network::packets::{is_interest, prefix};
use crate::network::{CPU, Clients, Measures, Network, NetworkCounts, Routes};
use crate::testbed::link_options;
use ndn_types::Timestamp;
use node::{Node, NodeSettings};
use server::Server;

/// Unix time at the start: 2026-01-01.
const UNIX_ORIGIN: Duration = Duration::from_secs(1_767_225_600);
/// Monotonic time at the start: not zero, as on any host.
const ORIGIN: Duration = Duration::from_secs(1000);
/// Steps of a node at one instant; more indicate a fault.
const STEPS_MAX: u32 = 1_000_000;
/// Time after the last request in which all fetches have to end.
const REST: Duration = Duration::from_secs(3600);
/// Measurement, also of a node: the part of that time for sleeps of the workers.
pub(crate) const SLEEP: &str = "sleep_ms";

/// Bytes of memory that the Content Stores of a network can take.
#[must_use]
pub fn cache_memory(network: &Network<'_>) -> u64 {
    let packets = (0..network.topology.nodes.len()).map(|node| network.cs_packets_of(node));
    let bytes = packets.filter(|packets| *packets > 0);
    bytes.map(|packets| node::cs_bytes(packets, network.segment_bytes)).fold(0, u64::saturating_add)
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
    /// A node has finished its work, and sends a frame.
    Send { node: usize, face: usize, frame: Vec<u8> },
}

struct Simulation<'a> {
    network: &'a Network<'a>,
    clock: ManualClock,
    now: Duration,
    nodes: Vec<Node>,
    /// By node: its worker; none if packets take no time.
    servers: Vec<Server>,
    /// By node and neighbour: the link there, and the face of this node at the neighbour.
    links: Vec<Vec<(SimulatedLink, usize)>>,
    events: BinaryHeap<Reverse<(Duration, u64, Event)>>,
    event_count: u64,
    /// Nodes with frames that were not handled, some of them several times.
    due: BinaryHeap<Reverse<usize>>,
    /// By node: the earliest scheduled step.
    steps_at: Vec<Option<Duration>>,
    clients: Clients<'a>,
    link_interests: u64,
}

/// Runs a network until all requests are complete.
///
/// # Errors
/// A forwarder does not start, or a request does not end.
pub fn simulate(network: &Network<'_>) -> Result<Measures, String> {
    let mut simulation = Simulation::new(network)?;
    simulation.run()?;
    let counts = simulation.counts();
    let servers = std::mem::take(&mut simulation.servers);
    let mut measures = simulation.clients.record(counts).measures(network)?;
    let mut all = [(CPU, Duration::ZERO), (SLEEP, Duration::ZERO)];
    for (node, server) in network.topology.nodes.iter().zip(&servers) {
        for ((quantity, sum), time) in all.iter_mut().zip([server.busy(), server.slept()]) {
            *sum += time;
            measures.of_nodes.insert(format!("{quantity}.{node}"), 1e3 * time.as_secs_f64());
        }
    }
    if !servers.is_empty() {
        measures.of_nodes.extend(all.map(|(name, sum)| (name.to_owned(), 1e3 * sum.as_secs_f64())));
    }
    Ok(measures)
}

impl<'a> Simulation<'a> {
    fn new(network: &'a Network<'a>) -> Result<Self, String> {
        let topology = network.topology;
        let clock = ManualClock::new(Timestamp::ZERO + ORIGIN, UNIX_ORIGIN);
        let sources: BTreeSet<u32> = network.sources.iter().copied().collect();
        let consumers: BTreeSet<u32> =
            network.requests.iter().map(|request| request.node).collect();
        let mut nodes = Vec::new();
        for number in 0..topology.hops.len() {
            let settings = NodeSettings {
                has_consumers: consumers.contains(&(number as u32)),
                is_source: sources.contains(&(number as u32)),
                ..NodeSettings::of(network, number)
            };
            let seed = network.seed ^ (number as u64) << 32;
            nodes.push(Node::start(settings, &clock, seed)?);
        }
        let routes = Routes::new(network);
        for (number, node) in nodes.iter_mut().enumerate() {
            if let Some(face) = node.producers() {
                node.add_route(&prefix(number as u32), face, 0)?;
            }
            for route in routes.of_node(number) {
                node.add_route(&route.prefix, route.neighbour, route.cost)?;
            }
        }
        let link = |number: usize, hop: &ndn_cache_sim::topology::Hop| {
            // The link back is the one whose direction has the other end; parallel links are in the same order.
            let back = topology.hops[hop.to].iter().enumerate();
            let mut back = back.filter(|(_, other)| other.to == number).map(|(face, _)| face);
            let same = topology.hops[number].iter().filter(|other| other.to == hop.to);
            let rank = same.take_while(|other| other.link != hop.link).count();
            (SimulatedLink::new(link_options(network, hop)), back.nth(rank).unwrap_or(0))
        };
        let servers = servers(network, &nodes)?;
        let links = topology.hops.iter().enumerate();
        let links = links
            .map(|(number, hops)| hops.iter().map(|hop| link(number, hop)).collect())
            .collect();
        Ok(Self {
            steps_at: vec![None; nodes.len()],
            due: (0..nodes.len()).map(Reverse).collect(),
            network,
            clock,
            now: ORIGIN,
            nodes,
            servers,
            links,
            events: BinaryHeap::new(),
            event_count: 0,
            clients: Clients::new(network, ORIGIN),
            link_interests: 0,
        })
    }

    fn schedule(&mut self, at: Duration, event: Event) {
        self.event_count += 1;
        self.events.push(Reverse((at.max(self.now), self.event_count, event)));
    }

    /// Schedules the begin of a request, which are in the order of time: one at a time, as there are millions.
    fn schedule_begin(&mut self, request: usize) {
        if let Some(next) = self.network.requests.get(request) {
            self.schedule(self.clients.begin_of(next), Event::Begin { request });
        }
    }

    fn run(&mut self) -> Result<(), String> {
        let requests = self.network.requests;
        self.schedule_begin(0);
        let last = requests.last().map_or(ORIGIN, |request| self.clients.begin_of(request));
        let (end, warm_up_end) = (last + REST, self.clients.warm_up_end());
        self.step_due()?;
        while !self.clients.is_done() {
            let Some(Reverse((at, _, event))) = self.events.pop() else { break };
            if at > end {
                break;
            }
            if !self.clients.is_warm() && at >= warm_up_end {
                let counts = self.counts();
                self.clients.end_warm_up(counts);
            }
            self.now = at;
            self.clock.advance_to(Timestamp::ZERO + at);
            self.handle(event);
            while let Some(Reverse((next, _, _))) = self.events.peek()
                && *next <= at
                && let Some(Reverse((_, _, event))) = self.events.pop()
            {
                self.handle(event);
            }
            self.step_due()?;
        }
        self.clients.check_complete("after an hour")
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrive { node, face, frame } => self.deliver(node, face, frame),
            Event::Begin { request } => {
                self.schedule_begin(request + 1);
                let fetch = self.clients.begin(self.now, self.network.requests[request]);
                self.transmit(fetch);
            }
            Event::Wake { fetch } => {
                self.clients.wake(self.now, fetch);
                self.transmit(fetch);
            }
            Event::Step { node } => {
                self.steps_at[node] = None;
                self.due.push(Reverse(node));
            }
            Event::Send { node, face, frame } => self.send(node, face, frame),
        }
    }

    fn deliver(&mut self, node: usize, face: usize, frame: Vec<u8>) {
        // A full queue drops the frame, as that of a socket.
        self.nodes[node].deliver(face, frame);
        self.due.push(Reverse(node));
    }

    /// Sends the Interests that the window of a fetch allows.
    fn transmit(&mut self, fetch: usize) {
        let (nodes, due) = (&mut self.nodes, &mut self.due);
        let wake = self.clients.transmit(self.now, fetch, |node, frame| {
            if let Some(face) = nodes[node].consumers() {
                nodes[node].deliver(face, frame);
                due.push(Reverse(node));
            }
        });
        if let Some(at) = wake {
            self.schedule(at, Event::Wake { fetch });
        }
    }

    /// Steps all nodes with work, and sends what they send, until nothing is left at this instant.
    fn step_due(&mut self) -> Result<(), String> {
        while let Some(Reverse(node)) = self.due.pop() {
            while self.due.peek() == Some(&Reverse(node)) {
                self.due.pop();
            }
            let busy_until = match self.busy_until(node) {
                Some(until) => Some(until),
                None => self.step(node)?,
            };
            let deadline = busy_until.or_else(|| self.nodes[node].next_deadline());
            let is_earlier = |at: &Duration| self.steps_at[node].is_none_or(|known| *at < known);
            if let Some(at) = deadline.filter(is_earlier) {
                self.steps_at[node] = Some(at);
                self.schedule(at, Event::Step { node });
            }
        }
        Ok(())
    }

    /// The end of the present work of a node; `None` if it is idle.
    fn busy_until(&self, node: usize) -> Option<Duration> {
        self.servers.get(node)?.busy_until(self.now)
    }

    /// Steps a node until it has no work at this instant, or takes time for packets. Returns the end of that time.
    fn step(&mut self, node: usize) -> Result<Option<Duration>, String> {
        for _ in 0..STEPS_MAX {
            let has_worked = self.nodes[node].step()?;
            let mut output = Vec::new();
            while let Some(frame) = self.nodes[node].poll_output() {
                output.push(frame);
            }
            let busy_until = match self.servers.get_mut(node) {
                Some(server) => server.work(self.now, self.nodes[node].handled()),
                None => None,
            };
            match busy_until {
                Some(until) => self.send_until(until, node, output),
                None => output.into_iter().for_each(|(face, frame)| self.send(node, face, frame)),
            }
            if busy_until.is_some() || !has_worked {
                return Ok(busy_until);
            }
        }
        Err(format!("node {node} is not done after {STEPS_MAX} steps at one instant"))
    }

    /// Sends the frames of each face spread evenly over the time until then: a worker sends what it has while it works on the rest.
    fn send_until(&mut self, until: Duration, node: usize, output: Vec<(usize, Vec<u8>)>) {
        let mut counts: BTreeMap<usize, u32> = BTreeMap::new();
        output.iter().for_each(|(face, _)| *counts.entry(*face).or_default() += 1);
        let mut sent: BTreeMap<usize, u32> = BTreeMap::new();
        let work = until.saturating_sub(self.now);
        for (face, frame) in output {
            let number = sent.entry(face).or_default();
            *number += 1;
            let at = self.now + work * *number / counts[&face];
            self.schedule(at, Event::Send { node, face, frame });
        }
    }

    fn send(&mut self, node: usize, face: usize, frame: Vec<u8>) {
        if Some(face) == self.nodes[node].consumers() {
            for fetch in self.clients.consume(self.now, node, &frame) {
                self.transmit(fetch);
            }
            return;
        }
        if Some(face) == self.nodes[node].producers() {
            // A producer answers at once.
            if let Some(data) = self.clients.produce(node, &frame) {
                self.deliver(node, face, data);
            }
            return;
        }
        self.link_interests += u64::from(is_interest(&frame));
        let now = self.now;
        let (link, other_face) = &mut self.links[node][face];
        let (face, to) = (*other_face, self.network.topology.hops[node][face].to);
        if let Passage::Arrives { at, .. } = link.send(now, frame.len() as u64) {
            self.schedule(at, Event::Arrive { node: to, face, frame });
        }
    }

    fn counts(&self) -> NetworkCounts {
        NetworkCounts {
            cs_hits: self.nodes.iter().map(Node::cs_hits).collect(),
            link_interests: self.link_interests,
        }
    }
}

/// The workers of the nodes; none if packets take no time.
fn servers(network: &Network<'_>, nodes: &[Node]) -> Result<Vec<Server>, String> {
    let Some(calibration) = network.calibration else { return Ok(Vec::new()) };
    let settings = server::settings(calibration, network);
    let server = |(number, (node, setting)): (usize, (&Node, &Setting))| {
        let times = PacketTimes::of(calibration, setting);
        let times = times.map_err(|error| format!("calibration: {error}"))?;
        Ok(Server::new(times, network.seed, number, node.handled()))
    };
    nodes.iter().zip(&settings).enumerate().map(server).collect()
}

#[cfg(test)]
mod tests;
