//! The simulation against a small forwarder of its own: a correct one passes, and each planted fault is
//! found, shrunk, and found again from its seed.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;
use std::time::Duration;

use ndn_packet::{Data, Interest, LpPacket, Name, Packet};
use ndn_sim::{Element, Limits, Node, NodeSpec, Port, PortSpec, Scenario, Simulation, shrink};

/// A planted fault of the reference forwarder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// Every tenth Interest vanishes between two workers.
    LoseInterest,
    /// PIT entries of expired Interests stay.
    KeepPitEntry,
    /// A route goes to the wrong port after a restart.
    WrongNextHop,
    /// Data goes to all faces.
    FloodData,
    /// Interests are flooded, whatever their nonce.
    ForwardLoops,
    /// Interests of `/localhost` are forwarded to neighbours.
    LeakScope,
    /// Interests of neighbours under `/localhop` are forwarded to neighbours.
    LeakLocalhop,
}

#[derive(Debug)]
struct PitEntry {
    name: Name,
    can_be_prefix: bool,
    downstreams: BTreeMap<Port, Duration>,
    nonces: Vec<u32>,
}

/// Next hops of a prefix, with their cost.
type FibEntry = (Name, Vec<(u64, Port)>);

#[derive(Debug)]
struct Reference {
    fault: Fault,
    ports_local: Vec<bool>,
    is_restart: bool,
    fib: BTreeMap<Vec<u8>, FibEntry>,
    pit: Vec<PitEntry>,
    dead_nonces: Vec<(Name, u32)>,
    incoming: VecDeque<(Port, Vec<u8>)>,
    outgoing: VecDeque<(Port, Vec<u8>)>,
    closed: BTreeSet<Port>,
    interests: u64,
    accounted: u64,
}

impl Reference {
    fn new(spec: &NodeSpec, now: Duration, fault: Fault) -> Self {
        Self {
            fault,
            ports_local: spec.ports.iter().map(PortSpec::is_local).collect(),
            is_restart: !now.is_zero(),
            fib: BTreeMap::new(),
            pit: Vec::new(),
            dead_nonces: Vec::new(),
            incoming: VecDeque::new(),
            outgoing: VecDeque::new(),
            closed: BTreeSet::new(),
            interests: 0,
            accounted: 0,
        }
    }

    fn handle_interest(&mut self, now: Duration, port: Port, interest: &Interest<'_>, wire: &[u8]) {
        self.interests += 1;
        if self.fault == Fault::LoseInterest && self.interests.is_multiple_of(10) {
            return;
        }
        self.accounted += 1;
        let (name, nonce) = (interest.name().to_name(), interest.nonce().unwrap());
        let is_known = |entry: &PitEntry| entry.name == name && entry.nonces.contains(&nonce);
        let is_loop =
            self.dead_nonces.contains(&(name.clone(), nonce)) || self.pit.iter().any(is_known);
        if is_loop && self.fault != Fault::ForwardLoops {
            return;
        }
        let expires = now + Duration::from_millis(interest.lifetime_ms());
        let can_be_prefix = interest.can_be_prefix();
        let is_same =
            |entry: &&mut PitEntry| entry.name == name && entry.can_be_prefix == can_be_prefix;
        match self.pit.iter_mut().find(is_same) {
            Some(entry) => {
                entry.downstreams.insert(port, expires);
                entry.nonces.push(nonce);
            }
            None => self.pit.push(PitEntry {
                name: name.clone(),
                can_be_prefix,
                downstreams: BTreeMap::from([(port, expires)]),
                nonces: vec![nonce],
            }),
        }
        let next_hops = (0..=name.len()).rev().find_map(|length| {
            self.fib.get(name.as_ref().prefix(length).value()).map(|(_, hops)| hops.clone())
        });
        let mut next_hops = next_hops.unwrap_or_default();
        next_hops.sort_unstable();
        let is_restricted = self.fault != Fault::LeakLocalhop
            && !self.ports_local[port]
            && name.starts_with(Name::from_uri("/localhop").unwrap().as_ref());
        let may_leave = |out: Port| out != port && (self.ports_local[out] || !is_restricted);
        if let Some((_, out)) = next_hops.into_iter().find(|(_, out)| may_leave(*out)) {
            self.outgoing.push_back((out, wire.to_vec()));
        }
        if self.fault == Fault::ForwardLoops {
            let neighbours = (0..self.ports_local.len()).filter(|out| !self.ports_local[*out]);
            let others = neighbours.filter(|out| *out != port);
            self.outgoing.extend(others.map(|out| (out, wire.to_vec())));
        }
        if self.fault == Fault::LeakScope
            && let Some(out) = self.ports_local.iter().position(|is_local| !is_local)
        {
            let localhost = Name::from_uri("/localhost/leak").unwrap();
            let leak = ndn_packet::InterestBuilder::new(&localhost).nonce(1).to_vec().unwrap();
            self.outgoing.push_back((out, leak));
        }
    }

    fn handle_data(&mut self, port: Port, data: &Data<'_>, wire: &[u8]) {
        let name = data.name();
        let is_match = |entry: &PitEntry| {
            entry.name.as_ref() == name
                || (entry.can_be_prefix && name.starts_with(entry.name.as_ref()))
        };
        let mut ports = Vec::new();
        for entry in self.pit.extract_if(.., |entry| is_match(entry)) {
            ports.extend(entry.downstreams.into_keys());
            let nonces = entry.nonces.into_iter();
            self.dead_nonces.extend(nonces.map(|nonce| (entry.name.clone(), nonce)));
        }
        if self.fault == Fault::FloodData && !ports.is_empty() {
            ports = (0..self.ports_local.len()).collect();
        }
        ports.sort_unstable();
        ports.dedup();
        ports.retain(|out| *out != port);
        self.outgoing.extend(ports.into_iter().map(|out| (out, wire.to_vec())));
    }

    fn expire(&mut self, now: Duration) {
        for entry in &mut self.pit {
            entry.downstreams.retain(|_, expires| *expires > now);
        }
        if self.fault == Fault::KeepPitEntry {
            return;
        }
        for entry in self.pit.extract_if(.., |entry| entry.downstreams.is_empty()) {
            let nonces = entry.nonces.into_iter();
            self.dead_nonces.extend(nonces.map(|nonce| (entry.name.clone(), nonce)));
        }
    }
}

impl Node for Reference {
    fn deliver(&mut self, port: Port, frame: &[u8]) -> bool {
        let is_open = !self.closed.contains(&port);
        if is_open {
            self.incoming.push_back((port, frame.to_vec()));
        }
        is_open
    }

    fn step(&mut self, now: Duration) -> bool {
        self.expire(now);
        let Some((port, frame)) = self.incoming.pop_front() else { return false };
        let lp = LpPacket::parse(&frame).unwrap();
        let wire = lp.fragment().unwrap().to_vec();
        match Packet::parse(&wire).unwrap() {
            Packet::Interest(interest) => self.handle_interest(now, port, &interest, &wire),
            Packet::Data(data) => self.handle_data(port, &data, &wire),
        }
        true
    }

    fn poll_output(&mut self) -> Option<(Port, Vec<u8>)> {
        self.outgoing.retain(|(port, _)| !self.closed.contains(port));
        self.outgoing.pop_front()
    }

    fn next_deadline(&self) -> Option<Duration> {
        self.pit.iter().flat_map(|entry| entry.downstreams.values()).min().copied()
    }

    fn add_route(&mut self, _now: Duration, prefix: &Name, port: Port, cost: u64) {
        let is_wrong = self.fault == Fault::WrongNextHop && self.is_restart;
        let port = if is_wrong { (port + 1) % self.ports_local.len() } else { port };
        let entry = self.fib.entry(prefix.value().to_vec());
        let (_, hops) = entry.or_insert_with(|| (prefix.clone(), Vec::new()));
        hops.retain(|(_, other)| *other != port);
        hops.push((cost, port));
    }

    fn remove_route(&mut self, _now: Duration, prefix: &Name, port: Port) {
        if let Some((_, hops)) = self.fib.get_mut(prefix.value()) {
            hops.retain(|(_, other)| *other != port);
        }
    }

    fn set_strategy(&mut self, _now: Duration, _prefix: &Name, _strategy: Option<&str>) {}

    fn close_face(&mut self, _now: Duration, port: Port) {
        self.closed.insert(port);
        self.fib.values_mut().for_each(|(_, hops)| hops.retain(|(_, other)| *other != port));
        self.pit.iter_mut().for_each(|entry| {
            entry.downstreams.remove(&port);
        });
    }

    fn open_face(&mut self, _now: Duration, port: Port) {
        self.closed.remove(&port);
    }

    fn next_hops(&self, prefix: &Name) -> Vec<Vec<Port>> {
        let hops = self.fib.get(prefix.value()).map(|(_, hops)| hops.as_slice());
        let mut ports: Vec<_> = hops.unwrap_or_default().iter().map(|(_, port)| *port).collect();
        ports.sort_unstable();
        vec![ports]
    }

    fn check(&self) -> Result<(), String> {
        if self.pit.len() > 10_000 { Err("the PIT grows without bound".to_owned()) } else { Ok(()) }
    }

    fn check_idle(&mut self, interests_in: RangeInclusive<u64>) -> Result<(), String> {
        if !interests_in.contains(&self.accounted) {
            return Err(format!("{interests_in:?} Interests in, {} accounted for", self.accounted));
        }
        if !self.pit.is_empty() {
            return Err(format!("{} PIT entries are left", self.pit.len()));
        }
        Ok(())
    }
}

/// A scenario without what this forwarder cannot do: fragments, reliability, shared media, and learning routes.
fn random(seed: u64, limits: &Limits) -> Scenario {
    let scenario = Scenario::random(seed, limits);
    let is_beyond = |element: &Element| match element {
        Element::LinkLayer(_) | Element::Medium(_) => true,
        Element::Producer(number) => {
            scenario.producers[*number].as_ref().is_some_and(|producer| producer.is_learnt)
        }
        Element::Edge(_)
        | Element::Impairment(_)
        | Element::Strategy(_)
        | Element::Loop(_)
        | Element::Request(_)
        | Element::Burst(_)
        | Element::Fault(_) => false,
    };
    let beyond: Vec<_> = scenario.elements().into_iter().filter(is_beyond).collect();
    scenario.without(&beyond)
}

fn run(
    seed: u64,
    limits: &Limits,
    fault: Fault,
) -> Result<ndn_sim::ScenarioOutcome, ndn_sim::Failure> {
    let scenario = random(seed, limits);
    Simulation::run(&scenario, &mut |spec, now| Box::new(Reference::new(spec, now, fault)))
}

#[test]
fn correct_forwarder_passes_all_checks() {
    // Its PIT is a list.
    let limits = Limits { nodes_max: 12, burst_size_max: 500, ..Limits::default() };
    let mut satisfied = 0;
    for seed in 0..100 {
        let outcome = run(seed, &limits, Fault::None)
            .unwrap_or_else(|failure| panic!("seed {seed}\n{failure}"));
        satisfied += outcome.satisfied;
    }
    assert!(satisfied > 1_000, "{satisfied}");
}

#[test]
fn equal_seeds_give_equal_traces() {
    let limits = Limits::default();
    let (first, second) = (run(7, &limits, Fault::None), run(7, &limits, Fault::None));
    assert_eq!(first.unwrap(), second.unwrap());
    assert_ne!(run(7, &limits, Fault::None), run(8, &limits, Fault::None));
}

#[test]
fn every_planted_fault_is_found_and_shrunk() {
    let limits = Limits { nodes_max: 8, ..Limits::default() };
    for (fault, reason) in [
        (Fault::LoseInterest, "accounted for"),
        (Fault::KeepPitEntry, "PIT entries are left"),
        (Fault::WrongNextHop, "next hops"),
        (Fault::FloodData, "no such pending Interest"),
        (Fault::ForwardLoops, "looping Interest"),
        (Fault::LeakScope, "beyond its scope"),
        (Fault::LeakLocalhop, "beyond its scope"),
    ] {
        let failing = (0..200).find_map(|seed| {
            let failure = run(seed, &limits, fault).err()?;
            failure.reason.contains(reason).then_some(seed)
        });
        let seed = failing.unwrap_or_else(|| panic!("{fault:?} is not found"));
        let scenario = random(seed, &limits);
        let mut start =
            |spec: &NodeSpec, now| -> Box<dyn Node> { Box::new(Reference::new(spec, now, fault)) };
        let shrunk = shrink(&scenario, &mut start, 400).unwrap();
        let (before, after) = (scenario.elements().len(), shrunk.scenario.elements().len());
        assert!(after * 2 < before, "{fault:?}: {after} of {before} elements are left");
        let again = Simulation::run(&scenario.without(&shrunk.removed), &mut start).unwrap_err();
        assert_eq!(again, shrunk.failure);
    }
}
