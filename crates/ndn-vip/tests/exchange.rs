//! The exchange of counts between nodes on virtual time, over links that lose, delay, reorder and repeat messages.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::time::Duration;

use ndn_packet::{Name, NameRef};
use ndn_types::random::Random;
use ndn_types::{Now, Timestamp};
use ndn_vip::{
    Accuracy, Acknowledgement, Amount, Entry, Node, NodeSettings, ObjectRoutes, ObjectStatus,
    REPORT_LEN_MAX, REPORTS_PER_SLOT, REQUEST, Report, ReportRefusal, Score, Settings,
};

const SLOT_MS: u64 = 1000;
const OBJECT_BYTES: u64 = 1_000_000;
const LINK_BYTES_PER_S: u64 = 20_000_000;
const OBJECTS_MAX: usize = 64;

fn settings() -> NodeSettings {
    NodeSettings {
        plane: Settings {
            slot_ms: SLOT_MS,
            cache_bytes: 3 * OBJECT_BYTES,
            read_bytes_per_s: 3 * OBJECT_BYTES,
            window_slots: 20,
            score: Score::Count,
            read_penalty: 0,
            write_penalty: 0,
        },
        objects_max: OBJECTS_MAX,
        neighbours_max: 8,
        object_bytes: OBJECT_BYTES,
    }
}

fn object(number: u64) -> Name {
    let mut name = Name::from_uri("/objects").unwrap();
    name.push_version(number);
    name
}

/// Routes of a node: objects under `/objects` go to these neighbours.
#[derive(Debug, Clone, Default)]
struct Routes {
    is_source: bool,
    neighbours: Vec<u64>,
}

impl Routes {
    fn find(&self, name: NameRef<'_>) -> ObjectRoutes {
        if !name.starts_with(Name::from_uri("/objects").unwrap().as_ref()) {
            return ObjectRoutes::default();
        }
        ObjectRoutes { is_source: self.is_source, neighbours: self.neighbours.clone() }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Faults {
    /// Percent.
    loss: u64,
    duplication: u64,
    jitter_ms: u64,
}

#[derive(Debug, Clone)]
enum Message {
    Report(Vec<u8>),
    Acknowledgement(Vec<u8>),
}

/// Nodes, numbered from 0, and the messages between them.
struct Network {
    nodes: Vec<Node>,
    routes: Vec<Routes>,
    links: Vec<(usize, usize)>,
    /// By time and number: sender, receiver, message.
    events: BTreeMap<(Timestamp, u64), (usize, usize, Message)>,
    messages: u64,
    now: Timestamp,
    random: Random,
    faults: Faults,
    /// Nodes that receive nothing.
    deaf: Vec<usize>,
    /// Reports that arrived, with sender and receiver.
    log: Vec<(usize, usize, Vec<u8>)>,
}

impl Network {
    fn new(seed: u64, routes: Vec<Routes>, links: &[(usize, usize)], faults: Faults) -> Self {
        let mut network = Self {
            nodes: routes.iter().map(|_| Node::new(settings(), Timestamp::ZERO)).collect(),
            routes,
            links: links.to_vec(),
            events: BTreeMap::new(),
            messages: 0,
            now: Timestamp::ZERO,
            random: Random::new(seed, 0),
            faults,
            deaf: Vec::new(),
            log: Vec::new(),
        };
        for node in 0..network.nodes.len() {
            // Slots are not synchronised.
            network.nodes[node] =
                Node::new(settings(), Timestamp::from_millis(node as u64 * 137 % 1000));
            network.connect(node);
        }
        network
    }

    /// A line whose first node is the source; node 1 is next to it.
    fn line(seed: u64, count: usize, faults: Faults) -> Self {
        let routes = (0..count).map(|node| Routes {
            is_source: node == 0,
            neighbours: node.checked_sub(1).map(|next| next as u64).into_iter().collect(),
        });
        let links: Vec<_> = (1..count).map(|node| (node - 1, node)).collect();
        Self::new(seed, routes.collect(), &links, faults)
    }

    fn clocks(&self) -> Now {
        let unix = Duration::from_secs(1_700_000_000) + self.now.since(Timestamp::ZERO);
        Now { monotonic: self.now, unix }
    }

    fn connect(&mut self, node: usize) {
        let now = self.clocks();
        for &(a, b) in &self.links.clone() {
            let other = if a == node {
                b
            } else if b == node {
                a
            } else {
                continue;
            };
            self.nodes[node].add_neighbour(other as u64, LINK_BYTES_PER_S, now);
        }
        self.flush(node);
    }

    fn restart(&mut self, node: usize) {
        self.nodes[node] = Node::new(settings(), self.now);
        self.connect(node);
    }

    fn flush(&mut self, node: usize) {
        while let Some(transmission) = self.nodes[node].poll_transmission() {
            assert!(transmission.report.len() <= REPORT_LEN_MAX);
            let receiver = usize::try_from(transmission.neighbour).unwrap();
            self.send(node, receiver, &Message::Report(transmission.report));
        }
    }

    fn send(&mut self, from: usize, to: usize, message: &Message) {
        let copies = 1 + usize::from(self.random.below(100) < self.faults.duplication);
        for _ in 0..copies {
            if self.random.below(100) < self.faults.loss {
                continue;
            }
            let delay_ms = 5 + self.random.below(self.faults.jitter_ms + 1);
            self.messages += 1;
            let key = (self.now.plus_millis(delay_ms), self.messages);
            self.events.insert(key, (from, to, message.clone()));
        }
    }

    fn run(&mut self, duration_ms: u64) {
        let end = self.now.plus_millis(duration_ms);
        loop {
            let of_nodes = self.nodes.iter().map(Node::next_deadline).min().unwrap();
            let of_events = self.events.keys().next().map_or(Timestamp::MAX, |key| key.0);
            let next = of_nodes.min(of_events);
            if next > end {
                self.now = end;
                return;
            }
            self.now = self.now.max(next);
            if of_events <= of_nodes {
                let (_, (from, to, message)) = self.events.pop_first().unwrap();
                self.deliver(from, to, message);
            }
            let now = self.clocks();
            for node in 0..self.nodes.len() {
                if self.nodes[node].next_deadline() <= self.now {
                    let routes = &self.routes[node];
                    let find = |name: NameRef<'_>| routes.find(name);
                    self.nodes[node].handle_timeout(now, find);
                }
                self.flush(node);
            }
        }
    }

    fn deliver(&mut self, from: usize, to: usize, message: Message) {
        // A test plays the others.
        if self.deaf.contains(&to) || to >= self.nodes.len() {
            return;
        }
        let now = self.clocks();
        let routes = &self.routes[to];
        let neighbour = from as u64;
        match message {
            Message::Report(wire) => {
                if !self.nodes[to].admits_report(neighbour) {
                    return;
                }
                let find = |name: NameRef<'_>| routes.find(name);
                let answer = self.nodes[to].handle_report(neighbour, &wire, now.monotonic, find);
                self.log.push((from, to, wire));
                if let Ok(acknowledgement) = answer {
                    self.send(to, from, &Message::Acknowledgement(acknowledgement.to_vec()));
                }
            }
            Message::Acknowledgement(content) => {
                if !self.nodes[to].admits_acknowledgement(neighbour, &content) {
                    return;
                }
                let answer = self.nodes[to].handle_acknowledgement(neighbour, &content, now);
                assert!(answer.is_ok(), "{answer:?}");
            }
        }
        self.flush(to);
    }

    fn request(&mut self, node: usize, number: u64, requests: u64) {
        let routes = &self.routes[node];
        let name = object(number);
        self.nodes[node].request(name.as_ref(), requests, |name| routes.find(name));
    }

    fn status(&self, node: usize, number: u64) -> Option<ObjectStatus> {
        self.nodes[node].objects().find(|status| status.name == object(number))
    }

    /// Sums of the VIPs that left, that arrived, and that are not confirmed.
    fn sums(&self) -> (Amount, Amount, Amount) {
        let planes = self.nodes.iter().map(|node| node.plane().counters());
        let (mut sent, mut arrived) = (0, 0);
        for counters in planes {
            sent += counters.sent;
            arrived += counters.received + counters.lost;
        }
        let open = |node: &Node| {
            let in_flight: Amount = node.neighbours().map(|neighbour| neighbour.unconfirmed).sum();
            in_flight + node.counters().unconfirmed
        };
        (sent, arrived, self.nodes.iter().map(open).sum())
    }
}

/// Requests for ten objects, object 0 the most popular, for this many slots.
fn load(network: &mut Network, node: usize, slots: u64) {
    for _ in 0..slots {
        for number in 0..10 {
            network.request(node, number, 8 / (number + 1));
        }
        network.run(SLOT_MS);
    }
}

#[test]
fn vips_reach_the_source_without_loss() {
    let mut network = Network::line(1, 3, Faults::default());
    load(&mut network, 2, 60);
    network.run(60_000);
    let (sent, arrived, open) = network.sums();
    assert!(sent > 500 * REQUEST, "{sent}");
    assert_eq!((sent, 0), (arrived, open));
    assert!(network.nodes[0].plane().counters().absorbed > 100 * REQUEST);
    let connected = network.nodes.iter().flat_map(Node::neighbours);
    assert_eq!(connected.filter(|one| one.is_connected).count(), 4);
    let counters = network.nodes[1].counters();
    assert_eq!((counters.reports_refused, counters.reports_repeated), (0, 0));
}

#[test]
fn popular_objects_are_cached_in_the_order_of_their_requests() {
    let mut network = Network::line(1, 3, Faults::default());
    load(&mut network, 2, 100);
    let cached: Vec<_> = network.nodes[2].objects().filter(|object| object.is_cached).collect();
    let names: Vec<Name> = cached.iter().map(|object| object.name.clone()).collect();
    assert_eq!(cached.len(), 3, "{names:?}");
    assert!(names.contains(&object(0)), "{names:?}");
}

#[test]
fn estimate_does_not_replace_an_exact_size() {
    let mut network = Network::line(1, 2, Faults::default());
    network.request(1, 0, 1);
    let mut learn = |size_bytes: u64, accuracy: Accuracy| {
        network.nodes[1].learn_size(object(0).as_ref(), size_bytes, accuracy);
        network.status(1, 0).map(|status| status.size_bytes)
    };
    assert_eq!(learn(20_000, Accuracy::Estimate), Some(20_000));
    assert_eq!(learn(30_000, Accuracy::Estimate), Some(30_000));
    assert_eq!(learn(25_000, Accuracy::Exact), Some(25_000));
    assert_eq!(learn(30_000, Accuracy::Estimate), Some(25_000));
    assert_eq!(learn(26_000, Accuracy::Exact), Some(26_000));
}

#[test]
fn link_faults_neither_duplicate_vips_nor_leave_wrong_counts() {
    for seed in 0..20 {
        let faults = Faults { loss: 30, duplication: 30, jitter_ms: 400 };
        let mut network = Network::line(seed, 4, faults);
        load(&mut network, 3, 60);
        let (sent, arrived, open) = network.sums();
        assert!(arrived <= sent && sent <= arrived + open, "{seed}: {sent} {arrived} {open}");
        assert!(arrived > sent / 2, "{seed}: {sent} {arrived}");
        let repeated = network.nodes.iter().map(|node| node.counters().reports_repeated);
        assert!(repeated.sum::<u64>() > 10, "{seed}");
        network.faults = Faults::default();
        network.run(30_000);
        // Neighbours know the counts of the last slot.
        for node in 1..4 {
            for status in network.nodes[node].objects() {
                for neighbour in [node - 1, node + 1].into_iter().filter(|&one| one < 4) {
                    let of_neighbour =
                        network.nodes[neighbour].objects().find(|one| one.name == status.name);
                    let counts = of_neighbour.map(|one| one.neighbour_counts).unwrap_or_default();
                    let known = counts.iter().find(|(one, _)| *one == node as u64);
                    let known = known.map_or(0, |(_, count)| *count);
                    // What was drained and sent since the start of the slot is not reported yet.
                    let drained = REQUEST + LINK_BYTES_PER_S / OBJECT_BYTES * REQUEST;
                    assert!(
                        known >= status.count && known <= status.count + drained,
                        "{seed} {node} {neighbour} {}: {known} {}",
                        status.name,
                        status.count
                    );
                }
            }
        }
    }
}

#[test]
fn same_seed_gives_the_same_messages() {
    let run = |seed| {
        let faults = Faults { loss: 10, duplication: 10, jitter_ms: 50 };
        let mut network = Network::line(seed, 3, faults);
        load(&mut network, 2, 20);
        network.log
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn restarted_node_gets_all_counts_again() {
    for restarted in [0, 1] {
        let mut network = Network::line(3, 3, Faults { loss: 5, duplication: 5, jitter_ms: 20 });
        load(&mut network, 2, 30);
        network.restart(restarted);
        network.faults = Faults::default();
        load(&mut network, 2, 15);
        for node in &network.nodes {
            assert!(
                node.neighbours().all(|one| one.is_connected && one.is_reporting),
                "{restarted}"
            );
        }
        let (of_consumer, at_middle) =
            (network.status(2, 0).unwrap(), network.status(1, 0).unwrap());
        let known = at_middle.neighbour_counts.iter().find(|(one, _)| *one == 2);
        assert_eq!(known.is_some(), of_consumer.count > 0, "{restarted}");
        assert!(network.nodes[0].plane().counters().absorbed > 0, "{restarted}");
        // The former sessions count what was on the way.
        let (sent, arrived, open) = network.sums();
        let lost_with_node = 40 * REQUEST * 30;
        assert!(arrived <= sent + lost_with_node && sent <= arrived + open + lost_with_node);
    }
}

#[test]
fn replayed_reports_change_nothing() {
    let mut network = Network::line(4, 2, Faults::default());
    load(&mut network, 1, 20);
    let log = std::mem::take(&mut network.log);
    let before = network.nodes[0].plane().counters();
    let routes = network.routes[0].clone();
    let (mut answers, mut refused) = (0, 0);
    for (_, _, wire) in log.iter().filter(|(_, to, _)| *to == 0) {
        // A node that has restarted meanwhile has a later session.
        let answer = network.nodes[0].handle_report(1, wire, network.now, |name| routes.find(name));
        let last = Report::parse(&log.iter().rfind(|(_, to, _)| *to == 0).unwrap().2).unwrap();
        assert_eq!(answer.unwrap().sequence, last.sequence);
        answers += 1;
    }
    assert!(answers >= 20);
    assert_eq!(network.nodes[0].plane().counters(), before);
    network.restart(1);
    network.run(3000);
    let before = network.nodes[0].plane().counters();
    for (_, _, wire) in log.iter().filter(|(_, to, _)| *to == 0) {
        let answer = network.nodes[0].handle_report(1, wire, network.now, |name| routes.find(name));
        refused += u32::from(answer == Err(ReportRefusal::OldSession));
    }
    assert_eq!(refused, answers);
    assert_eq!(network.nodes[0].plane().counters(), before);
}

#[test]
fn only_changes_are_reported() {
    let mut network = Network::line(5, 2, Faults::default());
    // More than the link carries, so that the count of a single object stays other than 0 after the last request.
    network.request(1, 0, 100_000);
    network.run(5_000);
    // No route any more: nothing is sent or drained.
    network.routes[1].neighbours.clear();
    network.run(3_000);
    network.log.clear();
    network.run(20_000);
    let reports = network.log.iter().filter(|(from, ..)| *from == 1);
    let reports: Vec<Report> = reports.map(|(.., wire)| Report::parse(wire).unwrap()).collect();
    assert!((19..=21).contains(&reports.len()), "one per slot, as a sign of life");
    let changed = reports.iter().filter(|report| !report.entries.is_empty()).count();
    // The virtual cache drains one request per slot.
    assert_eq!(changed, reports.len());
    assert!(reports.iter().all(|report| report.entries.len() == 1));
    let idle = network.log.iter().filter(|(from, ..)| *from == 0);
    assert!(idle.clone().count() > 10);
    let mut idle = idle.map(|(.., wire)| Report::parse(wire).unwrap());
    assert!(idle.all(|report| report.entries.is_empty()));
}

#[test]
fn many_changes_are_batched_and_limited_in_rate() {
    let mut network = Network::new(
        6,
        vec![
            Routes { is_source: true, neighbours: Vec::new() },
            Routes { is_source: false, neighbours: vec![0] },
        ],
        &[(0, 1)],
        Faults::default(),
    );
    for node in 0..2 {
        let settings = NodeSettings { objects_max: 4096, ..settings() };
        network.nodes[node] = Node::new(settings, Timestamp::ZERO);
        network.connect(node);
    }
    for number in 0..4096 {
        network.request(1, number, 1 + number);
    }
    network.run(2_500);
    let reports = || network.log.iter().filter(|(from, ..)| *from == 1);
    assert!(reports().count() <= 1 + 3 * REPORTS_PER_SLOT as usize, "{}", reports().count());
    let largest = reports().map(|(.., wire)| wire.len()).max().unwrap();
    assert!(largest > REPORT_LEN_MAX - 100 && largest <= REPORT_LEN_MAX, "{largest}");
    network.run(20_000);
    let known = network.nodes[0].objects().filter(|one| !one.neighbour_counts.is_empty()).count();
    assert!(known > 4000, "{known}");
}

/// A neighbour that sends these entries in each slot, as many times as it can.
struct Liar {
    session: u64,
    sequence: u64,
}

impl Liar {
    fn send(
        &mut self,
        node: &mut Node,
        routes: &Routes,
        entries: Vec<Entry>,
        now: Timestamp,
    ) -> bool {
        if !node.admits_report(99) {
            return false;
        }
        self.sequence += 1;
        let Self { session, sequence } = *self;
        let wire = Report { session, sequence, slot_ms: SLOT_MS, entries }.to_vec();
        let answer = node.handle_report(99, &wire, now, |name| routes.find(name));
        assert_eq!(answer, Ok(Acknowledgement { session, sequence }));
        true
    }
}

#[test]
fn false_reports_of_a_neighbour_have_bounded_effect() {
    let mut network = Network::line(7, 3, Faults::default());
    load(&mut network, 2, 10);
    let now = network.clocks();
    network.nodes[1].add_neighbour(99, LINK_BYTES_PER_S, now);
    while network.nodes[1].poll_transmission().is_some() {}
    let routes = network.routes[1].clone();
    let mut liar = Liar { session: 1, sequence: 0 };
    assert!(liar.send(&mut network.nodes[1], &routes, Vec::new(), now.monotonic));
    let mut number = 1000;
    let (mut accepted, slots) = (0, 40);
    for _ in 0..slots {
        for request in 0..10 {
            network.request(2, request, 8 / (request + 1));
        }
        for _ in 0..1000 {
            let mut entries: Vec<Entry> = (number..number + 60)
                .map(|number| Entry {
                    name: object(number),
                    size_bytes: 1,
                    count: u64::MAX,
                    sent: u64::MAX,
                })
                .collect();
            number += 60;
            entries[0].name = Name::from_uri("/elsewhere/no/route").unwrap();
            entries[1].name = object(0);
            let now = network.now;
            accepted += u32::from(liar.send(&mut network.nodes[1], &routes, entries, now));
        }
        network.run(SLOT_MS);
    }
    let node = &network.nodes[1];
    // Reports: as many as are admitted per slot; the others were not even verified.
    assert!(accepted <= (slots + 2) * REPORTS_PER_SLOT, "{accepted}");
    assert!(node.counters().reports_refused >= u64::from(1000 * slots - accepted));
    // Objects: no more than the limit, none without a route, and those of the honest neighbour stay.
    assert_eq!(node.objects().count(), OBJECTS_MAX);
    assert!(
        node.objects()
            .all(|one| one.name.starts_with(Name::from_uri("/objects").unwrap().as_ref()))
    );
    let honest = (0..8).filter(|&number| network.status(1, number).is_some()).count();
    assert_eq!(honest, 8, "all that are requested");
    // VIPs: no more than its link carries Data packets, in two slots.
    let packets_per_slot = LINK_BYTES_PER_S / 8192;
    let received = node.plane().counters().received / REQUEST;
    assert!(received <= 2 * packets_per_slot * u64::from(slots + 1) + 10_000, "{received}");
    // The VIPs of the honest neighbour still flow, but for the object whose count the liar has raised.
    let flows = |number| {
        let status = network.status(2, number).unwrap();
        status.sent.iter().any(|(neighbour, _)| *neighbour == 1)
    };
    assert!(!flows(0) && (1..8).any(flows));
    // Its number is free again once it is gone.
    network.nodes[1].remove_neighbour(99);
    load(&mut network, 2, 10);
    assert!(
        network.nodes[1].objects().all(|one| one.neighbour_counts.iter().all(|(n, _)| *n != 99))
    );
}

#[test]
fn stalled_neighbour_is_sent_nothing_until_it_answers_again() {
    // Two ways to the source.
    let hop = |neighbours: &[u64]| Routes { is_source: false, neighbours: neighbours.to_vec() };
    let source = Routes { is_source: true, neighbours: Vec::new() };
    let routes = vec![source, hop(&[0]), hop(&[0]), hop(&[1, 2])];
    let mut network = Network::new(8, routes, &[(0, 1), (0, 2), (1, 3), (2, 3)], Faults::default());
    load(&mut network, 3, 30);
    let sent = |network: &Network, to: u64| {
        let objects = network.nodes[3].objects();
        let sent = objects.flat_map(|one| one.sent).filter(|(one, _)| *one == to);
        sent.map(|(_, amount)| amount).sum::<Amount>()
    };
    assert!(sent(&network, 1) > 0 && sent(&network, 2) > 0);
    network.deaf = vec![2];
    load(&mut network, 3, 30);
    assert_eq!(sent(&network, 2), 0, "it is no candidate, whatever it was sent before");
    assert!(sent(&network, 1) > 0);
    let neighbours = || network.nodes[3].neighbours();
    let stalled = neighbours().find(|one| one.neighbour == 2).unwrap();
    assert!(!stalled.is_connected);
    assert!(stalled.unconfirmed < 1000 * REQUEST, "{stalled:?}");
    network.deaf.clear();
    // It is probed at intervals of up to a minute, or learns of this one by its reports.
    network.run(70_000);
    load(&mut network, 3, 10);
    assert!(network.nodes[3].neighbours().all(|one| one.is_connected && one.is_reporting));
    assert!(sent(&network, 2) > 0);
}

#[test]
fn silent_neighbour_is_forgotten() {
    let mut network = Network::line(9, 2, Faults::default());
    load(&mut network, 1, 10);
    assert!(!network.status(0, 0).unwrap().neighbour_counts.is_empty());
    network.deaf = vec![0, 1];
    network.run(15_000);
    assert!(network.nodes[0].objects().all(|one| one.neighbour_counts.is_empty()));
    assert!(network.nodes[0].neighbours().all(|one| !one.is_reporting));
}

#[test]
fn neighbour_with_other_slots_is_refused() {
    let mut node = Node::new(settings(), Timestamp::ZERO);
    node.add_neighbour(1, LINK_BYTES_PER_S, Now::default());
    let wire = Report { session: 1, sequence: 1, slot_ms: 500, entries: Vec::new() }.to_vec();
    let answer = node.handle_report(1, &wire, Timestamp::ZERO, |_| ObjectRoutes::default());
    assert_eq!(answer, Err(ReportRefusal::SlotDuration(500, SLOT_MS)));
    assert_eq!(node.counters().reports_refused, 1);
}

#[test]
fn acknowledgements_are_verified_if_they_have_an_effect_and_up_to_a_limit() {
    let mut node = Node::new(settings(), Timestamp::ZERO);
    node.add_neighbour(1, LINK_BYTES_PER_S, Now::default());
    let report = Report::parse(&node.poll_transmission().unwrap().report).unwrap();
    let answer = |session, sequence| Acknowledgement { session, sequence }.to_vec();
    let awaited = answer(report.session, 1);
    for (neighbour, answer) in [
        (2, awaited.clone()),
        (1, answer(report.session + 1, 1)),
        (1, answer(report.session, 2)),
        (1, answer(report.session, 0)),
        (1, awaited[1..].to_vec()),
    ] {
        assert!(!node.admits_acknowledgement(neighbour, &answer), "{answer:?}");
    }
    let admitted = (0..100).filter(|_| node.admits_acknowledgement(1, &awaited)).count();
    assert_eq!(admitted, 32);
    assert_eq!(node.handle_acknowledgement(1, &awaited, Now::default()), Ok(()));
    // The next slot.
    let next = Now { monotonic: node.next_deadline(), ..Now::default() };
    node.handle_timeout(next, |_| ObjectRoutes::default());
    let report = Report::parse(&node.poll_transmission().unwrap().report).unwrap();
    assert!(node.admits_acknowledgement(1, &answer(report.session, 2)));
}

#[test]
fn neighbours_beyond_the_limit_are_ignored() {
    let mut node = Node::new(settings(), Timestamp::ZERO);
    (0..100).for_each(|number| node.add_neighbour(number, LINK_BYTES_PER_S, Now::default()));
    assert_eq!(node.neighbours().count(), 8);
    assert!(!node.admits_report(50));
    let answer = node.handle_report(50, &[], Timestamp::ZERO, |_| ObjectRoutes::default());
    assert_eq!(answer, Err(ReportRefusal::UnknownNeighbour));
}
