//! Events on virtual time.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use ndn_client::link::{Passage, SimulatedLink, SimulatedLinkOptions};
use ndn_packet::{
    DataBuilder, InterestBuilder, LpHeader, LpPacket, Name, SignatureInfo, SignatureType,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::monitor::{DataSeen, Monitor, Seen};
use crate::node::{Node, NodeSpec, Port, PortKind, PortSpec, Pressure};
use crate::scenario::{
    Burst, Edge, Fault, MTU_MAX, Medium, Producer, Request, Scenario, clear_impairment, is_localhop,
};

/// Starts a node. The clock of all nodes shows the time that is passed to [`Node::step`].
pub type Start<'a> = dyn FnMut(&NodeSpec, Duration) -> Box<dyn Node> + 'a;

/// Steps of a node at one instant; a node that takes more has a livelock.
const STEPS_MAX: usize = 10_000;
/// Steps of a node between two checks of its bounds.
const CHECK_INTERVAL: u64 = 16;
/// Time without faults and load before the network has to serve every prefix: longer than the longest
/// lifetime, than the dead nonce list remembers, and than suppression of a strategy lasts.
const RECOVERY: Duration = Duration::from_secs(8);
/// Time between two Interests that check that the network serves every prefix.
const CHECK_SPACING: Duration = Duration::from_millis(2);
/// Lifetime of these Interests.
const CHECK_LIFETIME: Duration = Duration::from_secs(2);
/// Number of attempts before the prefix counts as unreachable.
const CHECK_ATTEMPTS: u32 = 4;
/// Time after the last check until nothing may be pending.
const REST: Duration = Duration::from_secs(6);
/// Events that a failure shows.
const RECENT_MAX: usize = 60;

/// A check that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Virtual time.
    pub at: Duration,
    /// The node, if it is one.
    pub node: Option<usize>,
    /// The invariant that does not hold.
    pub reason: String,
    /// The last events before it.
    pub recent: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for event in &self.recent {
            writeln!(formatter, "  {event}")?;
        }
        write!(formatter, "{:.6} s: ", self.at.as_secs_f64())?;
        if let Some(node) = self.node {
            write!(formatter, "node {node}: ")?;
        }
        write!(formatter, "{}", self.reason)
    }
}

/// Result of a simulation that found no failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScenarioOutcome {
    /// Frames that nodes sent.
    pub frames: u64,
    /// Interests of consumers that got Data.
    pub satisfied: u64,
    /// Interests of consumers that got none, retransmissions included.
    pub unsatisfied: u64,
    /// Hash over all frames with their times and nodes: equal for equal runs.
    pub trace: u64,
    /// Virtual time at the end.
    pub end: Duration,
    /// The pressure on all nodes: sum and maximum.
    pub pressure: Pressure,
}

/// The kind of the other end of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Peer {
    Consumer,
    Producer(usize),
    /// An edge, and which of its two nodes this one is.
    Edge(usize, usize),
    /// A shared medium, and the place of this node in its list.
    Medium(usize, usize),
}

#[derive(Debug)]
struct Host {
    spec: NodeSpec,
    peers: Vec<Peer>,
    /// `None` while it is down.
    node: Option<Box<dyn Node>>,
    monitor: Monitor,
    /// Counts starts: frames under way to an earlier start are lost.
    epoch: u32,
    /// When the node wants to be stepped next.
    deadline: Option<Duration>,
    /// Times that it was stepped until it had nothing left to do.
    steps: u64,
}

#[derive(Debug)]
struct EdgeState {
    edge: Edge,
    links: [SimulatedLink; 2],
    /// Partitions that are in force.
    cuts: u32,
}

#[derive(Debug)]
struct MediumState {
    nodes: Vec<usize>,
    options: SimulatedLinkOptions,
    /// By sender, then receiver.
    links: Vec<Vec<SimulatedLink>>,
}

impl MediumState {
    fn new(medium: &Medium, options: SimulatedLinkOptions) -> Self {
        let nodes = medium.nodes.clone();
        let link = |from: usize, to: usize| {
            let seed = options.seed ^ (from * nodes.len() + to) as u64;
            SimulatedLink::new(SimulatedLinkOptions { seed, ..options })
        };
        let from = |from| (0..nodes.len()).map(|to| link(from, to)).collect();
        let links = (0..nodes.len()).map(from).collect();
        Self { nodes, options, links }
    }
}

#[derive(Debug)]
enum Event {
    Arrive { edge: usize, from: usize, epoch: u32, frame: Vec<u8> },
    ArriveShared { medium: usize, place: usize, epoch: u32, frame: Vec<u8> },
    Answer { node: usize, port: Port, epoch: u32, frame: Vec<u8> },
    Express { request: usize, attempt: u32 },
    ExpressBurst(usize),
    StallEnd { node: usize },
    FaultBegin(usize),
    FaultEnd(usize),
    ClearLinks,
}

/// An event, for the report of a failure.
#[derive(Debug)]
enum Note {
    Received { node: usize, port: Port, peer: Peer, frame: Vec<u8> },
    Sent { node: usize, port: Port, peer: Peer, frame: Vec<u8> },
    Fault(Fault),
    FaultEnd(Fault),
}

impl fmt::Display for Note {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (node, verb, port, peer, frame) = match self {
            Self::Received { node, port, peer, frame } => {
                (node, "receives from", port, peer, frame)
            }
            Self::Sent { node, port, peer, frame } => (node, "sends to", port, peer, frame),
            Self::Fault(fault) => return write!(formatter, "{fault:?}"),
            Self::FaultEnd(fault) => return write!(formatter, "end of {fault:?}"),
        };
        write!(formatter, "node {node} {verb} port {port} ({peer:?}) ")?;
        match Seen::parse(frame) {
            Some(Seen::Interest { name, nonce, .. }) => {
                write!(formatter, "Interest {name} nonce {nonce:08x}")
            }
            Some(Seen::Data(data)) => write!(formatter, "Data {}", data.name),
            Some(Seen::Nack { name, nonce }) => write!(formatter, "Nack {name} nonce {nonce:08x}"),
            Some(Seen::Idle) => write!(formatter, "a packet without a fragment"),
            None => write!(formatter, "a fragment, or a malformed frame"),
        }
    }
}

/// An Interest of a consumer; those of the final check follow those of the scenario.
#[derive(Debug)]
struct RequestState {
    request: Request,
    is_check: bool,
    is_satisfied: bool,
}

/// A scenario while it runs.
#[derive(Debug)]
pub struct Simulation {
    now: Duration,
    hosts: Vec<Host>,
    edges: Vec<Option<EdgeState>>,
    media: Vec<Option<MediumState>>,
    producers: Vec<Option<Producer>>,
    scenario: Scenario,
    requests: Vec<RequestState>,
    events: BTreeMap<(Duration, u64), Event>,
    event_count: u64,
    random: StdRng,
    trace: DefaultHasher,
    recent: VecDeque<(Duration, Note)>,
    outcome: ScenarioOutcome,
}

impl Simulation {
    /// Runs a scenario to its end.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn run(scenario: &Scenario, start: &mut Start<'_>) -> Result<ScenarioOutcome, Failure> {
        let mut simulation = Self::new(scenario);
        for node in 0..simulation.hosts.len() {
            simulation.start_node(node, start);
        }
        let load_end = simulation.schedule_scenario();
        simulation.run_until(load_end, start)?;
        simulation.schedule(simulation.now, Event::ClearLinks);
        simulation.run_until(load_end + RECOVERY, start)?;
        simulation.check_routes()?;
        let checks_end = simulation.schedule_checks() + CHECK_LIFETIME * (CHECK_ATTEMPTS + 1);
        simulation.run_until(checks_end, start)?;
        simulation.check_served()?;
        simulation.check_learnt()?;
        simulation.run_until(checks_end + REST, start)?;
        simulation.check_idle()?;
        simulation.outcome.trace = simulation.trace.finish();
        simulation.outcome.end = simulation.now;
        Ok(simulation.outcome)
    }

    fn new(scenario: &Scenario) -> Self {
        let edges = scenario.edges.iter().map(|edge| {
            edge.map(|edge| EdgeState { edge, links: edge.links.map(SimulatedLink::new), cuts: 0 })
        });
        let medium = |medium: &Medium| MediumState::new(medium, medium.link);
        let media = scenario.media.iter().map(|one| one.as_ref().map(medium));
        let hosts = scenario.nodes.iter().map(|spec| host(spec, scenario));
        let requests = scenario.requests.iter().map(|request| RequestState {
            // What shrinking removed is never expressed.
            request: request.clone().unwrap_or_else(no_request),
            is_check: false,
            is_satisfied: request.is_none(),
        });
        Self {
            now: Duration::ZERO,
            hosts: hosts.collect(),
            edges: edges.collect(),
            media: media.collect(),
            producers: scenario.producers.clone(),
            requests: requests.collect(),
            scenario: scenario.clone(),
            events: BTreeMap::new(),
            event_count: 0,
            random: StdRng::seed_from_u64(scenario.seed ^ 0x006e_6f6e_6365),
            trace: DefaultHasher::new(),
            recent: VecDeque::new(),
            outcome: ScenarioOutcome::default(),
        }
    }

    /// Starts a node and gives it its routes and strategies, as an operator's configuration would.
    fn start_node(&mut self, number: usize, start: &mut Start<'_>) {
        let host = &mut self.hosts[number];
        host.epoch += 1;
        host.monitor = Monitor::new(&host.spec.ports);
        let mut node = start(&host.spec, self.now);
        for choice in self.scenario.strategies.iter().flatten() {
            node.set_strategy(self.now, &choice.prefix, Some(choice.strategy));
        }
        for (prefix, port, cost) in routes(&self.scenario, number, &host.peers) {
            node.add_route(self.now, &prefix, port, cost);
        }
        host.deadline = Some(self.now);
        host.node = Some(node);
    }

    /// Puts the load and the faults into the queue; returns when the last of them ends.
    fn schedule_scenario(&mut self) -> Duration {
        let mut end = Duration::ZERO;
        for number in 0..self.requests.len() {
            let state = &self.requests[number];
            if !state.is_satisfied {
                let (at, request) = (state.request.at, &state.request);
                end = end.max(at + request.lifetime * (request.retransmissions + 1));
                self.schedule(at, Event::Express { request: number, attempt: 0 });
            }
        }
        for number in 0..self.scenario.bursts.len() {
            let Some(burst) = &self.scenario.bursts[number] else { continue };
            let at = burst.at;
            end = end.max(at + burst.lifetime);
            self.schedule(at, Event::ExpressBurst(number));
        }
        let faults: Vec<_> = self.scenario.faults.iter().cloned().enumerate().collect();
        for (number, fault) in faults {
            let Some((begin, fault_end, _)) = fault else { continue };
            end = end.max(fault_end);
            self.schedule(begin, Event::FaultBegin(number));
            self.schedule(fault_end, Event::FaultEnd(number));
        }
        end
    }

    fn schedule(&mut self, at: Duration, event: Event) {
        self.event_count += 1;
        self.events.insert((at, self.event_count), event);
    }

    fn run_until(&mut self, end: Duration, start: &mut Start<'_>) -> Result<(), Failure> {
        // Nodes have commands to handle.
        self.step_due()?;
        loop {
            let event = self.events.first_key_value().map(|((at, _), _)| *at);
            let deadline = self.next_deadline();
            let next = event.into_iter().chain(deadline).min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            while let Some(entry) = self.events.first_entry() {
                if entry.key().0 > self.now {
                    break;
                }
                let event = entry.remove();
                self.handle(event, start)?;
            }
            self.step_due()?;
        }
        self.now = end;
        Ok(())
    }

    fn next_deadline(&self) -> Option<Duration> {
        self.hosts.iter().filter_map(|host| host.deadline).min()
    }

    /// Steps the nodes whose deadline has come.
    fn step_due(&mut self) -> Result<(), Failure> {
        for number in 0..self.hosts.len() {
            let deadline = self.hosts[number].deadline;
            if deadline.is_some_and(|deadline| deadline <= self.now) {
                self.step_node(number)?;
            }
        }
        Ok(())
    }

    /// Steps a node until it has nothing left to do at this instant, and sends what it sends.
    fn step_node(&mut self, number: usize) -> Result<(), Failure> {
        for _ in 0..STEPS_MAX {
            let Some(node) = &mut self.hosts[number].node else { return Ok(()) };
            let has_worked = node.step(self.now);
            while let Some((port, frame)) =
                self.hosts[number].node.as_mut().and_then(|node| node.poll_output())
            {
                self.send(number, port, frame)?;
            }
            if !has_worked {
                return self.rest(number);
            }
        }
        Err(self.fail(Some(number), format!("is not done after {STEPS_MAX} steps at one instant")))
    }

    /// A node has nothing left to do at this instant.
    fn rest(&mut self, number: usize) -> Result<(), Failure> {
        let host = &mut self.hosts[number];
        let Some(node) = &host.node else { return Ok(()) };
        host.deadline = node.next_deadline();
        host.steps += 1;
        if host.steps.is_multiple_of(CHECK_INTERVAL) {
            return node.check().map_err(|reason| self.fail(Some(number), reason));
        }
        Ok(())
    }

    fn handle(&mut self, event: Event, start: &mut Start<'_>) -> Result<(), Failure> {
        match event {
            Event::Arrive { edge, from, epoch, frame } => self.arrive(edge, from, epoch, &frame),
            Event::ArriveShared { medium, place, epoch, frame } => {
                self.arrive_shared(medium, place, epoch, &frame)
            }
            Event::Answer { node, port, epoch, frame } => {
                if self.hosts[node].epoch == epoch && self.hosts[node].node.is_some() {
                    self.deliver(node, port, &frame)?;
                }
                Ok(())
            }
            Event::Express { request, attempt } => self.express(request, attempt),
            Event::ExpressBurst(burst) => self.express_burst(burst),
            Event::StallEnd { node } => self.change(node, |_| {}),
            Event::FaultBegin(fault) => self.begin_fault(fault),
            Event::FaultEnd(fault) => self.end_fault(fault, start),
            Event::ClearLinks => {
                for state in self.edges.iter_mut().flatten() {
                    state.links = state.edge.links.map(|mut link: SimulatedLinkOptions| {
                        clear_impairment(&mut link);
                        SimulatedLink::new(link)
                    });
                }
                for (state, medium) in self.media.iter_mut().zip(&self.scenario.media) {
                    if let (Some(state), Some(medium)) = (state, medium) {
                        let mut options = state.options;
                        clear_impairment(&mut options);
                        *state = MediumState::new(medium, options);
                    }
                }
                Ok(())
            }
        }
    }

    fn begin_fault(&mut self, number: usize) -> Result<(), Failure> {
        let Some((_, _, fault)) = self.scenario.faults[number].clone() else { return Ok(()) };
        self.note(Note::Fault(fault.clone()));
        match fault {
            Fault::Partition(edge) => {
                if let Some(state) = &mut self.edges[edge] {
                    state.cuts += 1;
                }
                Ok(())
            }
            Fault::Crash(node) => {
                self.hosts[node].node = None;
                self.hosts[node].deadline = None;
                Ok(())
            }
            Fault::Withdraw { node, producer } => self.change(node, |cx| {
                let Some(prefix) = cx.prefix(producer) else { return };
                for (other, port, _) in &cx.routes {
                    if *other == prefix {
                        cx.node.remove_route(cx.now, &prefix, *port);
                    }
                }
            }),
            Fault::Detour { edge, side, producer } => self.change_at(edge, side, |cx, port| {
                let Some(prefix) = cx.prefix(producer) else { return };
                cx.node.add_route(cx.now, &prefix, port, 0);
            }),
            Fault::Strategy { node, producer, strategy } => self.change(node, |cx| {
                let Some(prefix) = cx.prefix(producer) else { return };
                cx.node.set_strategy(cx.now, &prefix, Some(strategy));
            }),
            Fault::FaceClosed { edge, side } => self.change_at(edge, side, |cx, port| {
                cx.node.close_face(cx.now, port);
                cx.monitor.note_face_closed(port);
            }),
        }
    }

    fn end_fault(&mut self, number: usize, start: &mut Start<'_>) -> Result<(), Failure> {
        let Some((_, _, fault)) = self.scenario.faults[number].clone() else { return Ok(()) };
        self.note(Note::FaultEnd(fault.clone()));
        match fault {
            Fault::Partition(edge) => {
                if let Some(state) = &mut self.edges[edge] {
                    state.cuts -= 1;
                }
                Ok(())
            }
            // Of two crashes that overlap, the first end restarts the node.
            Fault::Crash(node) if self.hosts[node].node.is_none() => {
                self.start_node(node, start);
                self.step_node(node)
            }
            Fault::Crash(_) => Ok(()),
            Fault::Withdraw { node, producer } => self.change(node, |cx| {
                let Some(prefix) = cx.prefix(producer) else { return };
                cx.restore_routes(Some(&prefix));
            }),
            Fault::Detour { edge, side, producer } => self.change_at(edge, side, |cx, port| {
                let Some(prefix) = cx.prefix(producer) else { return };
                cx.node.remove_route(cx.now, &prefix, port);
                cx.restore_routes(Some(&prefix));
            }),
            Fault::Strategy { node, producer, .. } => self.change(node, |cx| {
                let Some(prefix) = cx.prefix(producer) else { return };
                let mut choices = cx.scenario.strategies.iter().flatten();
                let choice = choices.rfind(|choice| choice.prefix == prefix);
                cx.node.set_strategy(cx.now, &prefix, choice.map(|choice| choice.strategy));
            }),
            Fault::FaceClosed { edge, side } => self.change_at(edge, side, |cx, port| {
                cx.node.open_face(cx.now, port);
                cx.restore_routes(None);
            }),
        }
    }

    /// Gives management of a node something to do, unless the node is down.
    fn change(
        &mut self,
        number: usize,
        change: impl FnOnce(&mut Change<'_>),
    ) -> Result<(), Failure> {
        let host = &mut self.hosts[number];
        let Some(node) = &mut host.node else { return Ok(()) };
        // Management waits for all workers.
        node.stall(false);
        let routes = routes(&self.scenario, number, &host.peers);
        let (now, scenario, monitor) = (self.now, &self.scenario, &mut host.monitor);
        change(&mut Change { now, scenario, routes, node: node.as_mut(), monitor });
        self.step_node(number)
    }

    /// The same for the node at one side of an edge and its port, unless the edge is left out.
    fn change_at(
        &mut self,
        edge: usize,
        side: usize,
        change: impl FnOnce(&mut Change<'_>, Port),
    ) -> Result<(), Failure> {
        let Some(state) = &self.edges[edge] else { return Ok(()) };
        let number = state.edge.nodes[side];
        let peer = Peer::Edge(edge, side);
        let port = self.hosts[number].peers.iter().position(|other| *other == peer);
        port.map_or(Ok(()), |port| self.change(number, |cx| change(cx, port)))
    }

    fn arrive(
        &mut self,
        edge: usize,
        from: usize,
        epoch: u32,
        frame: &[u8],
    ) -> Result<(), Failure> {
        let Some(state) = &self.edges[edge] else { return Ok(()) };
        let to = state.edge.nodes[1 - from];
        if state.cuts > 0 || self.hosts[to].node.is_none() || self.hosts[to].epoch != epoch {
            return Ok(());
        }
        let end = Peer::Edge(edge, 1 - from);
        let port = self.hosts[to].peers.iter().position(|peer| *peer == end);
        port.map_or(Ok(()), |port| self.deliver(to, port, frame))
    }

    fn arrive_shared(
        &mut self,
        medium: usize,
        place: usize,
        epoch: u32,
        frame: &[u8],
    ) -> Result<(), Failure> {
        let Some(state) = &self.media[medium] else { return Ok(()) };
        let to = state.nodes[place];
        if self.hosts[to].node.is_none() || self.hosts[to].epoch != epoch {
            return Ok(());
        }
        let end = Peer::Medium(medium, place);
        let port = self.hosts[to].peers.iter().position(|peer| *peer == end);
        port.map_or(Ok(()), |port| self.deliver(to, port, frame))
    }

    /// Hands a frame to a node and steps it.
    fn deliver(&mut self, number: usize, port: Port, frame: &[u8]) -> Result<(), Failure> {
        self.enqueue(number, port, frame);
        self.step_node(number)
    }

    /// Hands a frame to a node. Returns false if its queue is full, its face closed, or the node down.
    fn enqueue(&mut self, number: usize, port: Port, frame: &[u8]) -> bool {
        let host = &mut self.hosts[number];
        let is_accepted = host.node.as_mut().is_some_and(|node| node.deliver(port, frame));
        if is_accepted {
            host.monitor.note_delivered(self.now, port, frame);
            let peer = host.peers[port];
            self.note(Note::Received { node: number, port, peer, frame: frame.to_vec() });
        }
        is_accepted
    }

    /// A frame that a node sends by `port`.
    fn send(&mut self, number: usize, port: Port, frame: Vec<u8>) -> Result<(), Failure> {
        self.outcome.frames += 1;
        (self.now, number, port, &frame).hash(&mut self.trace);
        let peer = self.hosts[number].peers[port];
        self.note(Note::Sent { node: number, port, peer, frame: frame.clone() });
        let host = &mut self.hosts[number];
        if let Err(violation) = host.monitor.check_sent(self.now, port, &frame) {
            return Err(self.fail(Some(number), format!("port {port}: {violation}")));
        }
        match peer {
            Peer::Edge(edge, side) => self.send_by_edge(edge, side, frame),
            Peer::Medium(medium, place) => self.send_by_medium(medium, place, &frame),
            Peer::Producer(producer) => self.answer(number, port, producer, &frame),
            Peer::Consumer => return self.consume(number, &frame),
        }
        Ok(())
    }

    fn send_by_edge(&mut self, edge: usize, side: usize, frame: Vec<u8>) {
        let Some(state) = &mut self.edges[edge] else { return };
        if state.cuts > 0 {
            return;
        }
        let to = state.edge.nodes[1 - side];
        let epoch = self.hosts[to].epoch;
        let length = u64::try_from(frame.len()).unwrap_or(u64::MAX);
        let Passage::Arrives { at, again_at, .. } = state.links[side].send(self.now, length) else {
            return;
        };
        if let Some(again_at) = again_at {
            let frame = frame.clone();
            self.schedule(again_at, Event::Arrive { edge, from: side, epoch, frame });
        }
        self.schedule(at, Event::Arrive { edge, from: side, epoch, frame });
    }

    fn send_by_medium(&mut self, medium: usize, place: usize, frame: &[u8]) {
        let Some(state) = &mut self.media[medium] else { return };
        let (length, now) = (u64::try_from(frame.len()).unwrap_or(u64::MAX), self.now);
        let mut arrivals = Vec::new();
        for (to, link) in state.links[place].iter_mut().enumerate() {
            if to != place
                && let Passage::Arrives { at, again_at, .. } = link.send(now, length)
            {
                let epoch = self.hosts[state.nodes[to]].epoch;
                arrivals.push((at, to, epoch));
                arrivals.extend(again_at.map(|at| (at, to, epoch)));
            }
        }
        for (at, place, epoch) in arrivals {
            let frame = frame.to_vec();
            self.schedule(at, Event::ArriveShared { medium, place, epoch, frame });
        }
    }

    /// A producer answers an Interest.
    fn answer(&mut self, node: usize, port: Port, producer: usize, frame: &[u8]) {
        let Some(producer) = &self.producers[producer] else { return };
        let Some(Seen::Interest { name, selectors, .. }) = Seen::parse(frame) else { return };
        let mut data_name = name;
        if selectors.can_be_prefix {
            data_name.push_generic("answer");
        }
        let token = LpPacket::parse(frame).ok().and_then(|lp| lp.pit_token().map(<[u8]>::to_vec));
        let frame = data(&data_name, producer.freshness, token.as_deref());
        let (at, epoch) = (self.now + producer.processing, self.hosts[node].epoch);
        self.schedule(at, Event::Answer { node, port, epoch, frame });
    }

    /// A consumer gets a frame.
    fn consume(&mut self, node: usize, frame: &[u8]) -> Result<(), Failure> {
        let Some(Seen::Data(DataSeen { name, .. })) = Seen::parse(frame) else { return Ok(()) };
        if !has_content_of(frame, &name) {
            return Err(self.fail(Some(node), format!("Data {name} has the content of other Data")));
        }
        for state in self.requests.iter_mut().filter(|state| state.request.node == node) {
            let request = &state.request;
            let is_match = request.name == name
                || (request.can_be_prefix && name.starts_with(request.name.as_ref()));
            if is_match && !state.is_satisfied && request.at <= self.now {
                state.is_satisfied = true;
                self.outcome.satisfied += 1;
            }
        }
        Ok(())
    }

    fn express(&mut self, number: usize, attempt: u32) -> Result<(), Failure> {
        let state = &self.requests[number];
        if state.is_satisfied {
            return Ok(());
        }
        let request = state.request.clone();
        let attempts = if state.is_check { CHECK_ATTEMPTS } else { request.retransmissions + 1 };
        if attempt == attempts {
            self.outcome.unsatisfied += 1;
            return Ok(());
        }
        let again = self.now + request.lifetime;
        self.schedule(again, Event::Express { request: number, attempt: attempt + 1 });
        let Some(port) = self.hosts[request.node].peers.iter().position(|p| *p == Peer::Consumer)
        else {
            return Ok(());
        };
        if self.hosts[request.node].node.is_none() {
            return Ok(());
        }
        let nonce = self.random.random();
        self.deliver(request.node, port, &interest(&request, nonce))
    }

    /// A consumer expresses Interests without waiting for the forwarder, as long as its socket has room.
    fn express_burst(&mut self, number: usize) -> Result<(), Failure> {
        let Some(burst) = self.scenario.bursts[number].clone() else { return Ok(()) };
        let Burst { node, prefix, count, lifetime, stall, .. } = burst;
        let peers = &self.hosts[node].peers;
        let Some(port) = peers.iter().position(|peer| *peer == Peer::Consumer) else {
            return Ok(());
        };
        if !stall.is_zero()
            && let Some(stalled) = &mut self.hosts[node].node
        {
            stalled.stall(true);
            self.schedule(self.now + stall, Event::StallEnd { node });
        }
        for number in 0..count {
            let mut name = prefix.clone();
            name.push_generic(number.to_string());
            let request = Request { node, name, lifetime, ..no_request() };
            let nonce = self.random.random();
            self.enqueue(node, port, &interest(&request, nonce));
        }
        self.step_node(node)
    }

    /// Every consumer requests a new name below every prefix that its node has a path to, one after the other: all at once
    /// would fill the shortest queues of links, in each attempt again. Returns the time of the last request.
    fn schedule_checks(&mut self) -> Duration {
        let mut at = self.now;
        let mut prefixes = HashSet::new();
        for (number, producer) in self.scenario.producers.clone().into_iter().enumerate() {
            let Some(producer) = producer else { continue };
            if !prefixes.insert(producer.prefix.clone()) {
                continue;
            }
            // Stale learnt routes behind a face or node that has gone end with their lifetime only.
            if producer.is_learnt && self.scenario.has_lost_faces() {
                continue;
            }
            let distances = self.scenario.distances_to(producer.node);
            let hops_max = if is_localhop(&producer.prefix) { 1 } else { u32::MAX };
            let is_served = |node: &usize| distances[*node].is_some_and(|hops| hops <= hops_max);
            for node in (0..self.hosts.len()).filter(is_served) {
                let mut name = producer.prefix.clone();
                name.push_generic(format!("check-{number}-{node}"));
                let request = Request {
                    at,
                    node,
                    name,
                    can_be_prefix: false,
                    must_be_fresh: true,
                    lifetime: CHECK_LIFETIME,
                    retransmissions: CHECK_ATTEMPTS - 1,
                };
                let number = self.requests.len();
                let state = RequestState { request, is_check: true, is_satisfied: false };
                self.requests.push(state);
                self.schedule(at, Event::Express { request: number, attempt: 0 });
                at += CHECK_SPACING;
            }
        }
        at
    }

    fn check_served(&mut self) -> Result<(), Failure> {
        let unserved = self.requests.iter().find(|state| state.is_check && !state.is_satisfied);
        let Some(state) = unserved else { return Ok(()) };
        let (node, name) = (state.request.node, state.request.name.clone());
        Err(self.fail(Some(node), format!("there is a path, and no Data comes for {name}")))
    }

    /// Each node that was served below a learnt prefix has learnt a route to it. On a shared medium, the Data for a node
    /// with a route has no announcement, and serves the others, too.
    fn check_learnt(&mut self) -> Result<(), Failure> {
        if self.media.iter().any(Option::is_some) {
            return Ok(());
        }
        let learnt = self.producers.iter().flatten().filter(|producer| producer.is_learnt);
        let prefixes: Vec<_> = learnt.map(|producer| producer.prefix.clone()).collect();
        for prefix in prefixes {
            let served = self.requests.iter().filter(|state| state.is_check && state.is_satisfied);
            let served = served.filter(|state| state.request.name.starts_with(prefix.as_ref()));
            for number in served.map(|state| state.request.node).collect::<Vec<_>>() {
                let node = self.hosts[number].node.as_ref();
                if node.is_some_and(|node| node.next_hops(&prefix).iter().any(Vec::is_empty)) {
                    return Err(self.fail(Some(number), format!("has learnt no route to {prefix}")));
                }
            }
        }
        Ok(())
    }

    /// Management and the workers of each node have the next hops of the routes that it was given.
    fn check_routes(&mut self) -> Result<(), Failure> {
        for number in 0..self.hosts.len() {
            let host = &self.hosts[number];
            let Some(node) = &host.node else {
                return Err(self.fail(Some(number), "is down after its restart".to_owned()));
            };
            let mut expected = BTreeMap::<Vec<u8>, (Name, Vec<Port>)>::new();
            for (prefix, port, _) in routes(&self.scenario, number, &host.peers) {
                let key = prefix.value().to_vec();
                expected.entry(key).or_insert_with(|| (prefix, Vec::new())).1.push(port);
            }
            for (prefix, mut ports) in expected.into_values() {
                ports.sort_unstable();
                ports.dedup();
                let tables = node.next_hops(&prefix);
                if let Some(found) = tables.into_iter().find(|found| *found != ports) {
                    let reason = format!("{prefix} has next hops {found:?} instead of {ports:?}");
                    return Err(self.fail(Some(number), reason));
                }
            }
        }
        Ok(())
    }

    fn check_idle(&mut self) -> Result<(), Failure> {
        for number in 0..self.hosts.len() {
            let host = &mut self.hosts[number];
            let Some(node) = &mut host.node else { continue };
            let checks = node.check().and_then(|()| node.check_idle(host.monitor.interests_in()));
            let checks = checks.and_then(|()| host.monitor.check_acknowledged());
            if let Err(reason) = checks {
                return Err(self.fail(Some(number), reason));
            }
            self.outcome.pressure.add(node.pressure());
        }
        Ok(())
    }

    fn fail(&mut self, node: Option<usize>, reason: String) -> Failure {
        let show = |(at, note): (Duration, Note)| format!("{:.6} s: {note}", at.as_secs_f64());
        Failure { at: self.now, node, reason, recent: self.recent.drain(..).map(show).collect() }
    }

    fn note(&mut self, note: Note) {
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back((self.now, note));
    }
}

/// The state that a change of a node uses.
struct Change<'a> {
    now: Duration,
    scenario: &'a Scenario,
    /// The routes that the node was given.
    routes: Vec<(Name, Port, u64)>,
    node: &'a mut dyn Node,
    monitor: &'a mut Monitor,
}

impl Change<'_> {
    fn prefix(&self, producer: usize) -> Option<Name> {
        self.scenario.producers[producer].as_ref().map(|producer| producer.prefix.clone())
    }

    /// Adds the routes to `prefix`, or all, that the node was given.
    fn restore_routes(&mut self, prefix: Option<&Name>) {
        for (other, port, cost) in &self.routes {
            if prefix.is_none_or(|prefix| prefix == other) {
                self.node.add_route(self.now, other, *port, *cost);
            }
        }
    }
}

fn no_request() -> Request {
    Request {
        at: Duration::MAX,
        node: 0,
        name: Name::new(),
        can_be_prefix: false,
        must_be_fresh: false,
        lifetime: Duration::ZERO,
        retransmissions: 0,
    }
}

/// A host with a consumer, its producers, and its links.
fn host(spec: &NodeSpec, scenario: &Scenario) -> Host {
    let mut peers = vec![Peer::Consumer];
    for (number, producer) in scenario.producers.iter().enumerate() {
        if producer.as_ref().is_some_and(|producer| producer.node == spec.number) {
            peers.push(Peer::Producer(number));
        }
    }
    for (number, edge) in scenario.edges.iter().enumerate() {
        let Some(edge) = edge else { continue };
        if let Some(side) = edge.nodes.iter().position(|node| *node == spec.number) {
            peers.push(Peer::Edge(number, side));
        }
    }
    for (number, medium) in scenario.media.iter().enumerate() {
        let place =
            medium.as_ref().map(|medium| medium.nodes.iter().position(|n| *n == spec.number));
        peers.extend(place.flatten().map(|place| Peer::Medium(number, place)));
    }
    let port = |peer: &Peer| match *peer {
        Peer::Consumer | Peer::Producer(_) => PortSpec::whole(PortKind::Local),
        Peer::Medium(..) => PortSpec::whole(PortKind::Shared),
        Peer::Edge(edge, _) => {
            let edge = scenario.edges[edge].as_ref();
            let mtu = edge.map_or(MTU_MAX, |edge| edge.mtu);
            let is_reliable = edge.is_some_and(|edge| edge.is_reliable);
            PortSpec { kind: PortKind::Neighbour, mtu, is_reliable }
        }
    };
    let spec = NodeSpec { ports: peers.iter().map(port).collect(), ..spec.clone() };
    Host {
        monitor: Monitor::new(&spec.ports),
        spec,
        peers,
        node: None,
        epoch: 0,
        deadline: None,
        steps: 0,
    }
}

/// Routes of a node: to its own producers, and to all neighbours nearer to the producer of a prefix, so
/// that there is no loop whichever of them a strategy takes. If several producers have a prefix, the
/// first counts. Then those of the routing loops.
fn routes(scenario: &Scenario, node: usize, peers: &[Peer]) -> Vec<(Name, Port, u64)> {
    let mut routes = Vec::new();
    let mut prefixes = HashSet::new();
    for (number, producer) in scenario.producers.iter().enumerate() {
        let Some(producer) = producer else { continue };
        if !prefixes.insert(producer.prefix.clone()) {
            continue;
        }
        let distances = scenario.distances_to(producer.node);
        for (port, peer) in peers.iter().enumerate() {
            let cost = match *peer {
                Peer::Consumer | Peer::Medium(..) => None,
                Peer::Edge(..) if producer.is_learnt => None,
                Peer::Producer(of_port) => (of_port == number).then_some(0),
                Peer::Edge(edge, side) => {
                    let neighbour = scenario.edges[edge].map(|edge| edge.nodes[1 - side]);
                    neighbour
                        .and_then(|neighbour| distances[neighbour])
                        .filter(|hops| Some(*hops) < distances[node])
                        .map(|hops| u64::from(hops) + 1)
                }
            };
            routes.extend(cost.map(|cost| (producer.prefix.clone(), port, cost)));
        }
    }
    for route_loop in scenario.loops.iter().flatten() {
        for (port, peer) in peers.iter().enumerate() {
            if let Peer::Edge(edge, side) = *peer
                && route_loop.hops.contains(&(edge, side))
            {
                routes.push((route_loop.prefix.clone(), port, 1));
            }
        }
    }
    routes
}

fn interest(request: &Request, nonce: u32) -> Vec<u8> {
    let lifetime_ms = u64::try_from(request.lifetime.as_millis()).unwrap_or(u64::MAX);
    InterestBuilder::new(&request.name)
        .can_be_prefix(request.can_be_prefix)
        .must_be_fresh(request.must_be_fresh)
        .nonce(nonce)
        .lifetime_ms(lifetime_ms)
        .to_vec()
        .unwrap_or_default()
}

/// The Data of a name; its content is its name.
pub(crate) fn data(name: &Name, freshness: Option<Duration>, token: Option<&[u8]>) -> Vec<u8> {
    let content = name.to_uri();
    let mut builder = DataBuilder::new(name).content(content.as_bytes());
    if let Some(freshness) = freshness {
        builder = builder.freshness_ms(u64::try_from(freshness.as_millis()).unwrap_or(u64::MAX));
    }
    let info = SignatureInfo::new(SignatureType::DIGEST_SHA256);
    let sign = |parts: &[&[u8]], signature: &mut [u8]| {
        signature.copy_from_slice(&ndn_security::sha256_parts(parts));
        Some(signature.len())
    };
    let packet = builder.to_vec(&info, ndn_security::SHA256_LEN, sign).unwrap_or_default();
    let Some(token) = token else { return packet };
    let mut frame = Vec::new();
    let header = LpHeader { pit_token: token, ..LpHeader::default() };
    ndn_packet::lp::append_packet(&mut frame, &header, &packet);
    frame
}

fn has_content_of(frame: &[u8], name: &Name) -> bool {
    let packet = LpPacket::parse(frame).ok().and_then(|lp| lp.fragment().map(<[u8]>::to_vec));
    packet.is_some_and(|packet| {
        let data = ndn_packet::Data::parse(&packet).ok();
        data.is_some_and(|data| data.content() == Some(name.to_uri().as_bytes()))
    })
}
