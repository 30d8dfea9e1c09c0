//! A network as a composition of components: sources, links, queues, stations, and pauses of processors.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use crate::bip::{
    Component, ComponentId, Composition, Engine, Interaction, Now, PortId, RunEnd, Transition,
};
use crate::codel::Codel;
use crate::network::{
    ArrivalClock, Arrivals, CodelReset, Flush, Kind, Link, Network, Outcome, Pauses, Peer,
    QueueRecord, Record, Shed, Stage, TraceResult, WINDOW_LEAST, Window, streams,
};
use crate::random::TraceRandom;

/// Runs one trace: every consumer sends until `horizon_ps`, and all packets end.
///
/// # Panics
/// If time does not advance: a fault of the model's composition.
#[must_use]
pub fn run(network: &Arc<Network>, random: TraceRandom, horizon_ps: u64) -> TraceResult {
    let results = Rc::new(RefCell::new(TraceResult {
        records: Vec::new(),
        queues: vec![QueueRecord::default(); network.queues.len()],
        pit_max: vec![0; network.shards.len()],
    }));
    let composition = Builder::new(network, &results, random, horizon_ps).build();
    let end = Engine::new(composition, random).run(u64::MAX - 1, |_, _| {});
    assert_eq!(end, RunEnd::Quiescent, "a trace ends when no packet is left");
    results.take()
}

type Results = Rc<RefCell<TraceResult>>;

/// Packets arrive and leave before stations poll at the same instant.
const BEFORE_POLLS: u32 = 1;
/// Pauses begin and end before anything else at the same instant.
const FIRST: u32 = 2;

#[derive(Debug, Clone, Copy)]
struct Packet {
    id: u32,
    kind: Kind,
    stage: Stage,
    prefix: u32,
    consumer: usize,
    /// The face that Input received it on, Output transmits it on or the producer belongs to.
    face: usize,
    shard: usize,
    /// A Nack that the forwarder itself has made.
    is_refusal: bool,
    entered_ps: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Queue(usize),
    Link { face: usize, outgoing: bool },
    Gone,
}

/// Variables of a component.
#[derive(Debug, Default)]
enum Part {
    #[default]
    Taken,
    Source(Source),
    Numbering(u32),
    Link(LinkState),
    Queue(QueueState),
    Station(StationState),
    Pauses(PausesState),
}

macro_rules! part {
    ($name:ident, $name_mut:ident, $variant:ident, $type:ty) => {
        fn $name(&self) -> &$type {
            match self {
                Self::$variant(part) => part,
                other => unreachable!("a port of another component: {other:?}"),
            }
        }
        #[allow(dead_code, reason = "not every part is changed by interactions")]
        fn $name_mut(&mut self) -> &mut $type {
            match self {
                Self::$variant(part) => part,
                other => unreachable!("a port of another component: {other:?}"),
            }
        }
    };
}

impl Part {
    part!(source, source_mut, Source, Source);
    part!(numbering, numbering_mut, Numbering, u32);
    part!(link, link_mut, Link, LinkState);
    part!(queue, queue_mut, Queue, QueueState);
    part!(station, station_mut, Station, StationState);
    part!(pauses, pauses_mut, Pauses, PausesState);

    /// The processor of a station or source pauses from `now_ps` until `until_ps`.
    fn pause(&mut self, now_ps: u64, until_ps: u64) {
        if let Self::Station(station) = self {
            station.pause(now_ps, until_ps);
        } else {
            self.source_mut().paused_until_ps = until_ps;
        }
    }
}

/// The pauses of a processor.
#[derive(Debug, Default)]
struct PausesState {
    /// Number of pauses that have begun.
    count: u64,
    /// End of the last one.
    until_ps: u64,
}

#[derive(Debug)]
struct Source {
    clock: ArrivalClock,
    /// When the next Interest may be sent.
    next_ps: Option<u64>,
    window: Option<WindowState>,
    /// End of the last pause.
    paused_until_ps: u64,
}

#[derive(Debug)]
struct WindowState {
    spec: Window,
    window: f64,
    threshold: f64,
    /// Interests in flight in order, with their timeouts.
    in_flight: VecDeque<(u32, u64)>,
    /// Number of the first Interest after the last decrease: congestion of those before does not count again.
    recovery: u32,
}

impl WindowState {
    const fn new(spec: Window) -> Self {
        let (window, threshold) = (spec.initial, spec.threshold);
        Self { spec, window, threshold, in_flight: VecDeque::new(), recovery: 0 }
    }

    fn is_open(&self) -> bool {
        self.in_flight.len() < self.window as usize
    }

    /// An answer to an Interest has come.
    fn answered(&mut self, id: u32, is_congested: bool, sent: u32) {
        let Some(place) = self.in_flight.iter().position(|(own, _)| *own == id) else { return };
        self.in_flight.remove(place);
        if is_congested {
            self.decrease(id, sent);
        } else if self.spec.is_controlled {
            let step = if self.window < self.threshold { 1.0 } else { 1.0 / self.window };
            self.window = (self.window + step).min(self.spec.most);
        }
    }

    /// The first Interest in flight has had no answer for too long.
    fn time_out(&mut self, sent: u32) {
        if let Some((id, _)) = self.in_flight.pop_front() {
            self.decrease(id, sent);
        }
    }

    fn decrease(&mut self, id: u32, sent: u32) {
        if self.spec.is_controlled && id >= self.recovery {
            self.threshold = (self.window * self.spec.decrease).max(WINDOW_LEAST);
            self.window = self.threshold.min(self.spec.most);
            self.recovery = sent;
        }
    }
}

impl Source {
    fn is_open(&self) -> bool {
        self.next_ps.is_some() && self.window.as_ref().is_none_or(WindowState::is_open)
    }

    /// Time has come to `now_ps`: after the horizon, an answer opens no window.
    fn close_at(&mut self, now_ps: u64, horizon_ps: u64) {
        self.next_ps = self.next_ps.filter(|_| now_ps < horizon_ps);
    }

    fn timeout_ps(&self) -> Option<u64> {
        self.window.as_ref()?.in_flight.front().map(|(_, timeout_ps)| *timeout_ps)
    }
}

/// Ports of a consumer.
#[derive(Debug, Clone, Copy)]
struct SourcePorts {
    component: ComponentId,
    emit: PortId,
    answered: PortId,
    time_out: PortId,
}

#[derive(Debug, Default)]
struct LinkState {
    /// Packets with the end of their transmission, their arrival, and whether they are lost.
    packets: VecDeque<(Packet, u64, u64, bool)>,
    sent_ps: u64,
}

#[derive(Debug)]
struct QueueState {
    packets: VecDeque<Packet>,
    marks: Option<Codel>,
    sheds: Option<Codel>,
}

#[derive(Debug, Default)]
struct StationState {
    burst: VecDeque<Packet>,
    leaving: VecDeque<(Packet, Next)>,
    /// Position of the queue that was polled last, per class.
    last: BTreeMap<u8, usize>,
    is_first: bool,
    /// When the station could poll after the last burst.
    free_ps: u64,
    /// When the stage of the first packet is complete.
    finish_ps: u64,
    /// End of the last pause.
    paused_until_ps: u64,
    pits: BTreeMap<usize, BTreeMap<u32, u64>>,
}

struct Builder<'a> {
    network: &'a Arc<Network>,
    results: &'a Results,
    random: TraceRandom,
    horizon_ps: u64,
    composition: Composition<Part>,
    queues: Vec<(ComponentId, PortId, PortId)>,
    sources: Vec<SourcePorts>,
    /// Stations and sources with the numbers of their processors.
    paused: Vec<(usize, (ComponentId, PortId))>,
    /// Incoming and outgoing link of each face.
    links: Vec<[(ComponentId, PortId, PortId); 2]>,
}

impl<'a> Builder<'a> {
    fn new(
        network: &'a Arc<Network>,
        results: &'a Results,
        random: TraceRandom,
        horizon_ps: u64,
    ) -> Self {
        let composition = Composition::default();
        Self {
            network,
            results,
            random,
            horizon_ps,
            composition,
            queues: vec![],
            sources: vec![],
            paused: vec![],
            links: vec![],
        }
    }

    /// Interactions are added in the order in which they fire at one instant: stations, links, sources.
    fn build(mut self) -> Composition<Part> {
        for index in 0..self.network.queues.len() {
            let queue = self.queue(index);
            self.queues.push(queue);
        }
        for face in 0..self.network.faces.len() {
            let links = [self.link(face, false), self.link(face, true)];
            self.links.push(links);
        }
        for consumer in 0..self.network.consumers.len() {
            let source = self.source(consumer);
            self.sources.push(source);
        }
        for station in 0..self.network.stations.len() {
            self.station(station);
        }
        for face in 0..self.network.faces.len() {
            self.deliver(face, false);
            self.deliver(face, true);
        }
        let mut numbering = Component::new("numbering", Part::Numbering(0));
        let only = numbering.state("only");
        let next = numbering.port("next");
        numbering.transition(Transition::new(only, next, only));
        let numbering = self.composition.component(numbering);
        for consumer in 0..self.network.consumers.len() {
            self.send(consumer, (numbering, next));
        }
        for processor in 0..self.network.pauses.as_ref().map_or(0, Pauses::processors) {
            self.pauses(processor);
        }
        self.composition
    }

    fn queue(&mut self, index: usize) -> (ComponentId, PortId, PortId) {
        let spec = &self.network.queues[index];
        let codel = |after_ps: Option<u64>| {
            let interval_ps = spec.management.map_or(0, |m| m.interval_ps);
            after_ps.map(|after_ps| Codel::new(after_ps, interval_ps))
        };
        let state = QueueState {
            packets: VecDeque::new(),
            marks: codel(spec.management.and_then(|m| m.mark_after_ps)),
            sheds: codel(spec.management.and_then(|m| m.shed_after_ps).map(|(after, _)| after)),
        };
        let mut component = Component::new(spec.name.clone(), Part::Queue(state));
        let only = component.state("only");
        let put = component.port("put");
        let take = component.port("take");
        component.transition(Transition::new(only, put, only));
        component.transition(Transition::new(only, take, only));
        (self.composition.component(component), put, take)
    }

    fn link(&mut self, face: usize, outgoing: bool) -> (ComponentId, PortId, PortId) {
        let way = if outgoing { "outgoing" } else { "incoming" };
        let name = format!("face {face} {way} link");
        let mut component = Component::new(name, Part::Link(LinkState::default()));
        let only = component.state("only");
        let put = component.port("put");
        let get = component.port("get");
        component.transition(Transition::new(only, put, only));
        component.transition(
            Transition::new(only, get, only)
                .guard(|part: &Part| !part.link().packets.is_empty())
                .delay(|part, now| {
                    part.link()
                        .packets
                        .front()
                        .map_or(0, |(_, _, arrives, _)| arrives - now.time_ps)
                }),
        );
        (self.composition.component(component), put, get)
    }

    /// A packet that leaves a link enters a queue, or reaches the consumer.
    fn deliver(&mut self, face: usize, outgoing: bool) {
        let (link, _, get) = self.links[face][usize::from(outgoing)];
        let spec = &self.network.faces[face];
        let queue = match (outgoing, spec.peer) {
            (false, _) => Some(spec.input_queue),
            (true, Peer::Producer(queue)) => Some(queue),
            (true, Peer::Consumer(_)) => None,
        };
        let mut participants = vec![(link, get)];
        participants.extend(queue.map(|queue| (self.queues[queue].0, self.queues[queue].1)));
        if let (true, Peer::Consumer(consumer)) = (outgoing, spec.peer) {
            let source = self.sources[consumer];
            participants.push((source.component, source.answered));
        }
        let (network, results) = (self.network.clone(), self.results.clone());
        let horizon_ps = self.horizon_ps;
        self.composition.interaction(
            Interaction::new("deliver", participants).priority(BEFORE_POLLS).transfer(
                move |parts: &mut [Part], now| {
                    let Some((packet, _, _, is_lost)) = parts[0].link_mut().packets.pop_front()
                    else {
                        return;
                    };
                    if is_lost {
                        end(&results, packet, now.time_ps, Outcome::LinkLoss(face as u16));
                    } else if let Some(queue) = queue {
                        put_into_queue(
                            parts[1].queue_mut(),
                            packet,
                            queue,
                            &network,
                            &results,
                            now,
                        );
                    } else {
                        let source = parts[1].source_mut();
                        let received_ps = now.time_ps.max(source.paused_until_ps);
                        reach_consumer(packet, &network, &results, received_ps);
                        if source.window.is_some() {
                            answer_window(source, packet, &results);
                            source.close_at(now.time_ps, horizon_ps);
                        }
                    }
                },
            ),
        );
    }

    fn source(&mut self, consumer: usize) -> SourcePorts {
        let horizon_ps = self.horizon_ps;
        let advance = {
            let network = self.network.clone();
            move |source: &mut Source, now: Now| {
                let arrivals = &network.consumers[consumer].arrivals;
                let next_ps = match &source.window {
                    Some(window) => Some(now.time_ps + window.spec.pace_ps),
                    None => source.clock.next(arrivals, consumer, now.random),
                };
                source.next_ps = next_ps.filter(|next_ps| *next_ps < horizon_ps);
            }
        };
        let window = match &self.network.consumers[consumer].arrivals {
            Arrivals::Window(spec) => Some(WindowState::new(spec.clone())),
            Arrivals::Renewal(_) | Arrivals::OnOff { .. } | Arrivals::Trace(_) => None,
        };
        let mut first =
            Source { clock: ArrivalClock::default(), next_ps: None, window, paused_until_ps: 0 };
        advance(&mut first, Now { time_ps: 0, random: self.random });
        let mut component = Component::new(format!("consumer {consumer}"), Part::Source(first));
        let waiting = component.state("waiting");
        let [emit, answered, time_out, pause] =
            ["emit", "answered", "time out", "pause"].map(|name| component.port(name));
        let until = |then_ps: Option<u64>, now: Now| {
            then_ps.map_or(0, |then_ps| then_ps.saturating_sub(now.time_ps))
        };
        component.transition(
            Transition::new(waiting, emit, waiting)
                .guard(|part: &Part| part.source().is_open())
                .delay(move |part, now| until(part.source().next_ps, now))
                .action(move |part, now| advance(part.source_mut(), now)),
        );
        component.transition(Transition::new(waiting, answered, waiting));
        component.transition(Transition::new(waiting, pause, waiting));
        component.transition(
            Transition::new(waiting, time_out, waiting)
                .guard(|part: &Part| part.source().timeout_ps().is_some())
                .delay(move |part, now| until(part.source().timeout_ps(), now)),
        );
        let component = self.composition.component(component);
        if let Some(processor) = self.network.pauses.as_ref().and_then(|p| p.consumers[consumer]) {
            self.paused.push((processor, (component, pause)));
        }
        SourcePorts { component, emit, answered, time_out }
    }

    /// A processor that pauses: all that is on it stops at the begin, and knows the end.
    fn pauses(&mut self, processor: usize) {
        fn law(network: &Network) -> &Pauses {
            network.pauses.as_ref().expect("only a network with pauses has such a component")
        }
        let name = format!("processor {processor}");
        let mut component = Component::new(name, Part::Pauses(PausesState::default()));
        let [running, paused] = ["running", "paused"].map(|name| component.state(name));
        let [begin, end] = ["begin", "end"].map(|name| component.port(name));
        let network = self.network.clone();
        component.transition(Transition::new(running, begin, paused).delay(
            move |part: &Part, now| {
                let stream = streams::pause_interval(processor);
                let mut draw = now.random.draw(stream, part.pauses().count);
                law(&network).interval.sample_ps(&mut draw, 1.0)
            },
        ));
        component.transition(
            Transition::new(paused, end, running)
                .delay(|part: &Part, now| part.pauses().until_ps - now.time_ps),
        );
        let component = self.composition.component(component);
        let mut participants = vec![(component, begin)];
        let own = self.paused.iter().filter(|(number, _)| *number == processor);
        participants.extend(own.map(|(_, port)| *port));
        let (network, results) = (self.network.clone(), self.results.clone());
        let horizon_ps = self.horizon_ps;
        // Pauses without end would keep the trace from its end. The last Interests are the last that end.
        let is_needed = move |parts: &[&Part]| {
            let is_pending = |record: &Record| record.outcome == Outcome::Pending;
            parts[0].pauses().until_ps < horizon_ps
                || results.borrow().records.iter().rev().any(is_pending)
        };
        let stop = move |parts: &mut [Part], now: Now| {
            let stream = streams::pause_length(processor);
            let state = parts[0].pauses_mut();
            let mut draw = now.random.draw(stream, state.count);
            state.count += 1;
            state.until_ps = now.time_ps + law(&network).length.sample_ps(&mut draw, 1.0);
            let until_ps = state.until_ps;
            parts[1..].iter_mut().for_each(|part| part.pause(now.time_ps, until_ps));
        };
        self.composition.interaction(
            Interaction::new("pause", participants).priority(FIRST).guard(is_needed).transfer(stop),
        );
        self.composition
            .interaction(Interaction::new("resume", vec![(component, end)]).priority(FIRST));
    }

    /// The consumer sends an Interest, or gives one up.
    fn send(&mut self, consumer: usize, numbering: (ComponentId, PortId)) {
        let SourcePorts { component: source, emit, time_out, .. } = self.sources[consumer];
        if let Arrivals::Window(_) = self.network.consumers[consumer].arrivals {
            let (results, horizon_ps) = (self.results.clone(), self.horizon_ps);
            let give_up = move |parts: &mut [Part], now: Now| {
                let sent = results.borrow().records.len() as u32;
                let source = parts[0].source_mut();
                source.window.iter_mut().for_each(|window| window.time_out(sent));
                source.close_at(now.time_ps, horizon_ps);
            };
            self.composition.interaction(
                Interaction::new("time out", vec![(source, time_out)])
                    .priority(BEFORE_POLLS)
                    .transfer(give_up),
            );
        }
        let (link, put, _) = self.links[consumer][0];
        let (network, results) = (self.network.clone(), self.results.clone());
        let participants = vec![(source, emit), numbering, (link, put)];
        self.composition.interaction(
            Interaction::new("send", participants).priority(BEFORE_POLLS).transfer(
                move |parts: &mut [Part], now| {
                    let id = *parts[1].numbering();
                    *parts[1].numbering_mut() += 1;
                    results.borrow_mut().records.push(Record::new(now.time_ps));
                    let unit = now.random.draw(streams::PREFIX, u64::from(id)).unit();
                    let packet = Packet {
                        id,
                        kind: Kind::Interest,
                        stage: Stage::Input,
                        prefix: network.consumers[consumer].prefix(unit),
                        consumer,
                        face: consumer,
                        shard: 0,
                        is_refusal: false,
                        entered_ps: 0,
                    };
                    if let Some(window) = &mut parts[0].source_mut().window {
                        let timeout_ps = now.time_ps + window.spec.timeout_ps;
                        window.in_flight.push_back((id, timeout_ps));
                    }
                    // What is due in a pause is sent at its end.
                    let time_ps = now.time_ps.max(parts[0].source().paused_until_ps);
                    let link = parts[2].link_mut();
                    let sent = Now { time_ps, ..now };
                    put_on_link(link, packet, (consumer, false), &network, &results, sent);
                },
            ),
        );
    }

    fn station(&mut self, index: usize) {
        let spec = &self.network.stations[index];
        let is_each = spec.flush == Flush::EachPacket;
        let mut component =
            Component::new(spec.name.clone(), Part::Station(StationState::default()));
        let idle = component.state("idle");
        let decide = component.state("decide");
        let serving = component.state("serving");
        let [poll, next, finish, emit, rest, pause] =
            ["poll", "next", "finish", "emit", "rest", "pause"].map(|name| component.port(name));
        component.transition(
            Transition::new(idle, poll, decide).delay(|part: &Part, now| {
                part.station().paused_until_ps.saturating_sub(now.time_ps)
            }),
        );
        let (network, results) = (self.network.clone(), self.results.clone());
        let services = self.network.clone();
        component.transition(
            Transition::new(decide, next, serving)
                .guard(move |part: &Part| {
                    let station = part.station();
                    !station.burst.is_empty() && (!is_each || station.leaving.is_empty())
                })
                .action(move |part, now| part.station_mut().begin(&services, index, now)),
        );
        component.transition(
            Transition::new(serving, finish, decide)
                .delay(|part: &Part, now| part.station().finish_ps - now.time_ps)
                .action(move |part, now| part.station_mut().finish(&network, index, &results, now)),
        );
        component.transition(Transition::new(decide, emit, decide).guard(move |part: &Part| {
            let station = part.station();
            !station.leaving.is_empty() && (is_each || station.burst.is_empty())
        }));
        component.transition(
            Transition::new(decide, rest, idle)
                .guard(|part: &Part| {
                    part.station().burst.is_empty() && part.station().leaving.is_empty()
                })
                .action(|part, now| {
                    let station = part.station_mut();
                    station.free_ps = now.time_ps.max(station.paused_until_ps);
                }),
        );
        for state in [idle, decide, serving] {
            component.transition(Transition::new(state, pause, state));
        }
        let station = self.composition.component(component);
        if let Some(processor) = self.network.pauses.as_ref().and_then(|p| p.stations[index]) {
            self.paused.push((processor, (station, pause)));
        }
        for port in [finish, next, rest] {
            let unary = Interaction::new("internal", vec![(station, port)]).priority(BEFORE_POLLS);
            self.composition.interaction(unary);
        }
        self.emissions(index, (station, emit));
        for position in 0..spec.queues.len() {
            self.poll(index, position, (station, poll));
        }
    }

    /// A packet leaves the station for a queue or a link.
    fn emissions(&mut self, index: usize, station: (ComponentId, PortId)) {
        for queue in (0..self.network.queues.len()).filter(|q| self.network.can_feed(index, *q)) {
            let (component, put, _) = self.queues[queue];
            let (network, results) = (self.network.clone(), self.results.clone());
            self.composition.interaction(
                Interaction::new("hand over", vec![station, (component, put)])
                    .priority(BEFORE_POLLS)
                    .guard(move |parts: &[&Part]| parts[0].station().leads_to(Next::Queue(queue)))
                    .transfer(move |parts, now| {
                        let Some((packet, _)) = parts[0].station_mut().leaving.pop_front() else {
                            return;
                        };
                        put_into_queue(
                            parts[1].queue_mut(),
                            packet,
                            queue,
                            &network,
                            &results,
                            now,
                        );
                    }),
            );
        }
        for face in 0..self.network.faces.len() {
            for outgoing in [false, true] {
                let (component, put, _) = self.links[face][usize::from(outgoing)];
                let (network, results) = (self.network.clone(), self.results.clone());
                self.composition.interaction(
                    Interaction::new("transmit", vec![station, (component, put)])
                        .priority(BEFORE_POLLS)
                        .guard(move |parts: &[&Part]| {
                            parts[0].station().leads_to(Next::Link { face, outgoing })
                        })
                        .transfer(move |parts, now| {
                            let Some((packet, _)) = parts[0].station_mut().leaving.pop_front()
                            else {
                                return;
                            };
                            let link = parts[1].link_mut();
                            put_on_link(link, packet, (face, outgoing), &network, &results, now);
                        }),
                );
            }
        }
    }

    /// The station takes a burst from its queue at `position`, if it is that queue's turn.
    fn poll(&mut self, index: usize, position: usize, station: (ComponentId, PortId)) {
        let spec = &self.network.stations[index];
        let classes: Vec<u8> = spec.queues.iter().map(|q| self.network.queues[*q].class).collect();
        let own = classes[position];
        let mut participants = vec![station];
        participants.extend(spec.queues.iter().map(|q| (self.queues[*q].0, self.queues[*q].2)));
        let is_turn = move |parts: &[&Part]| {
            let waits = |other: usize| !parts[1 + other].queue().packets.is_empty();
            let count = classes.len();
            let last = parts[0].station().last.get(&own).copied().unwrap_or(count - 1);
            // Steps from the queue after the last one to a queue, in cyclic order.
            let steps = |other: usize| (other + count - last - 1) % count;
            waits(position)
                && (0..count).all(|other| {
                    let goes_first = classes[other] < own
                        || (classes[other] == own && steps(other) < steps(position));
                    !(goes_first && waits(other))
                })
        };
        let queue = spec.queues[position];
        let resets: Vec<bool> = spec
            .queues
            .iter()
            .map(|q| self.network.queues[*q].reset == CodelReset::EmptyPoll)
            .collect();
        let (network, results) = (self.network.clone(), self.results.clone());
        self.composition.interaction(
            Interaction::new("poll", participants).guard(is_turn).transfer(move |parts, now| {
                // A station that waits polls all the time: it found all its queues empty.
                let has_idled = now.time_ps > parts[0].station().free_ps;
                for (part, _) in parts[1..].iter_mut().zip(&resets).filter(|(_, resets)| **resets) {
                    let state = part.queue_mut();
                    if has_idled || state.packets.is_empty() {
                        state.marks.iter_mut().chain(&mut state.sheds).for_each(Codel::note_empty);
                    }
                }
                let burst =
                    take_burst(parts[1 + position].queue_mut(), queue, &network, &results, now);
                let station = parts[0].station_mut();
                station.burst = burst;
                station.is_first = true;
                station.last.insert(own, position);
            }),
        );
    }
}

impl StationState {
    fn leads_to(&self, next: Next) -> bool {
        self.leaving.front().is_some_and(|(_, first)| *first == next)
    }

    /// The processor pauses. What ends at this instant has no work left.
    const fn pause(&mut self, now_ps: u64, until_ps: u64) {
        self.paused_until_ps = until_ps;
        if self.finish_ps > now_ps {
            self.finish_ps += until_ps - now_ps;
        }
    }

    /// The stage of the first packet begins, in a pause at its end.
    fn begin(&mut self, network: &Network, index: usize, now: Now) {
        let begin_ps = now.time_ps.max(self.paused_until_ps);
        self.finish_ps = begin_ps + self.service_ps(network, index, now);
    }

    fn service_ps(&self, network: &Network, index: usize, now: Now) -> u64 {
        let Some(packet) = self.burst.front() else { return 0 };
        let id = u64::from(packet.id);
        let kind = packet.kind as usize;
        let services = &network.services;
        let is_hit = packet.stage == Stage::Forward
            && packet.kind == Kind::Interest
            && network.is_hit(now.random, id);
        let (distribution, factor) = match packet.stage {
            Stage::Input => (&services.input[kind], network.faces[packet.face].input_factor),
            Stage::Forward => {
                let is_from_producer = packet.kind != Kind::Interest && !packet.is_refusal;
                let factor =
                    network.shards[packet.shard].forward_factor[usize::from(is_from_producer)];
                let own = if is_hit { &services.forward_hit } else { &services.forward[kind] };
                (own, factor)
            }
            Stage::Output => (&services.output[kind], network.faces[packet.face].output_factor),
            Stage::Produce => (&services.produce, 1.0),
        };
        let stream = if is_hit {
            streams::SERVICE_OF_HIT
        } else {
            streams::service(packet.stage, packet.kind)
        };
        let poll_ps = if self.is_first { network.stations[index].poll_ps } else { 0 };
        poll_ps + distribution.sample_ps(&mut now.random.draw(stream, id), factor)
    }

    /// The stage of the first packet is complete: it goes on here, or leaves.
    fn finish(&mut self, network: &Network, index: usize, results: &Results, now: Now) {
        self.is_first = false;
        let Some(mut packet) = self.burst.pop_front() else { return };
        let record_of = packet.id as usize;
        results.borrow_mut().records[record_of].pass(index, packet.stage, now.time_ps);
        let next = match packet.stage {
            Stage::Input => {
                packet.shard = usize::from(network.shard_of_prefix[packet.prefix as usize]);
                packet.stage = Stage::Forward;
                Next::Queue(network.shards[packet.shard].queues[packet.kind as usize])
            }
            Stage::Forward => self.forward(&mut packet, network, results, now),
            Stage::Output => Next::Link { face: packet.face, outgoing: true },
            Stage::Produce => {
                packet.kind = network.answer(now.random, u64::from(packet.id));
                packet.stage = Stage::Input;
                Next::Link { face: packet.face, outgoing: false }
            }
        };
        match next {
            Next::Gone => {}
            Next::Queue(queue) if network.queues[queue].station == index => {
                self.burst.push_front(packet);
            }
            Next::Queue(_) | Next::Link { .. } => self.leaving.push_back((packet, next)),
        }
    }

    /// PIT and Content Store.
    fn forward(
        &mut self,
        packet: &mut Packet,
        network: &Network,
        results: &Results,
        now: Now,
    ) -> Next {
        let pit = self.pits.entry(packet.shard).or_default();
        let mut face = packet.consumer;
        match packet.kind {
            Kind::Interest if network.is_hit(now.random, u64::from(packet.id)) => {
                packet.kind = Kind::Data;
            }
            Kind::Interest => {
                let capacity = network.shards[packet.shard].pit_capacity;
                if capacity.is_some() {
                    pit.retain(|_, expires_ps| *expires_ps > now.time_ps);
                }
                if capacity.is_some_and(|capacity| pit.len() >= capacity) {
                    end(results, *packet, now.time_ps, Outcome::PitFull(packet.shard as u16));
                    return Next::Gone;
                }
                pit.insert(packet.id, now.time_ps + network.lifetime_ps);
                if capacity.is_some() {
                    let pit_max = &mut results.borrow_mut().pit_max[packet.shard];
                    *pit_max = (*pit_max).max(pit.len());
                }
                face = network.producer_face(packet.prefix);
            }
            Kind::Nack if packet.is_refusal => {}
            Kind::Data | Kind::Nack => {
                let is_pending =
                    pit.remove(&packet.id).is_some_and(|expires_ps| expires_ps > now.time_ps);
                if !is_pending {
                    end(results, *packet, now.time_ps, Outcome::Late);
                    return Next::Gone;
                }
            }
        }
        packet.face = face;
        packet.stage = Stage::Output;
        Next::Queue(network.faces[face].output_queue)
    }
}

fn end(results: &Results, packet: Packet, time_ps: u64, outcome: Outcome) {
    let record = &mut results.borrow_mut().records[packet.id as usize];
    record.ended_ps = time_ps;
    record.outcome = outcome;
}

fn reach_consumer(packet: Packet, network: &Network, results: &Results, time_ps: u64) {
    let created_ps = results.borrow().records[packet.id as usize].created_ps;
    let outcome = match packet.kind {
        Kind::Nack => Outcome::Nacked,
        Kind::Interest | Kind::Data if time_ps <= created_ps + network.lifetime_ps => {
            Outcome::Satisfied
        }
        Kind::Interest | Kind::Data => Outcome::Late,
    };
    end(results, packet, time_ps, outcome);
}

/// The consumer with a window takes notice of an answer.
fn answer_window(source: &mut Source, packet: Packet, results: &Results) {
    let records = &results.borrow().records;
    let is_congested = packet.kind == Kind::Nack || records[packet.id as usize].is_marked;
    if let Some(window) = &mut source.window {
        window.answered(packet.id, is_congested, records.len() as u32);
    }
}

fn put_into_queue(
    state: &mut QueueState,
    mut packet: Packet,
    queue: usize,
    network: &Network,
    results: &Results,
    now: Now,
) {
    if state.packets.len() >= network.queues[queue].capacity {
        results.borrow_mut().queues[queue].dropped += 1;
        end(results, packet, now.time_ps, Outcome::QueueFull(queue as u16));
        return;
    }
    packet.stage = network.queues[queue].stage;
    packet.entered_ps = now.time_ps;
    state.packets.push_back(packet);
    let record = &mut results.borrow_mut().queues[queue];
    record.entered += 1;
    record.length_max = record.length_max.max(state.packets.len());
}

fn put_on_link(
    state: &mut LinkState,
    packet: Packet,
    (face, outgoing): (usize, bool),
    network: &Network,
    results: &Results,
    now: Now,
) {
    let faces = &network.faces[face];
    let link: &Link = if outgoing { &faces.outgoing } else { &faces.incoming };
    let waiting = state.packets.iter().filter(|(_, sent_ps, _, _)| *sent_ps > now.time_ps).count();
    if link.capacity.is_some_and(|capacity| waiting >= capacity) {
        return end(results, packet, now.time_ps, Outcome::LinkFull(face as u16));
    }
    let [sending, receiving] = link.turns_ps;
    let time_ps = Link::turn_after(now.time_ps, sending);
    state.sent_ps = state.sent_ps.max(time_ps) + link.transmit_ps[packet.kind as usize];
    let is_lost = network.is_lost(now.random, face, outgoing, u64::from(packet.id));
    let end_ps = Link::turn_after(state.sent_ps + link.delay_ps, receiving);
    state.packets.push_back((packet, state.sent_ps, end_ps, is_lost));
}

/// Takes up to a burst of packets out of a queue and applies its management.
fn take_burst(
    state: &mut QueueState,
    queue: usize,
    network: &Network,
    results: &Results,
    now: Now,
) -> VecDeque<Packet> {
    let spec = &network.queues[queue];
    let is_full = spec.full_at.is_some_and(|full_at| state.packets.len() >= full_at);
    let shed_after_ps = spec.management.and_then(|m| m.shed_after_ps);
    let mut burst = VecDeque::new();
    for _ in 0..spec.burst {
        let Some(mut packet) = state.packets.pop_front() else { break };
        let mut sojourn_ps = now.time_ps - packet.entered_ps;
        results.borrow_mut().queues[queue].waited_ps += u128::from(sojourn_ps);
        if let (true, Some((after_ps, _))) = (is_full, shed_after_ps) {
            sojourn_ps = sojourn_ps.max(after_ps);
        }
        let is_last = spec.reset == CodelReset::LastPacket && state.packets.is_empty();
        let signals = |codel: &mut Option<Codel>| {
            codel.as_mut().is_some_and(|codel| codel.leave(now.time_ps, sojourn_ps, is_last))
        };
        let marks = signals(&mut state.marks);
        let sheds = packet.kind == Kind::Interest && signals(&mut state.sheds);
        match (sheds, shed_after_ps) {
            (true, Some((_, Shed::Drop))) => {
                end(results, packet, now.time_ps, Outcome::Shed(queue as u16));
                continue;
            }
            (true, Some((_, Shed::Nack))) => {
                packet.kind = Kind::Nack;
                packet.is_refusal = true;
            }
            (true, None) | (false, _) => {
                results.borrow_mut().records[packet.id as usize].is_marked |= marks;
            }
        }
        burst.push_back(packet);
    }
    burst
}
