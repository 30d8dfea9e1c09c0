//! Whole forwarders under the load of one host with many ports: the service of others before, during and after.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::Ipv4Addr;
use std::time::Duration;

use namewire_config::Config;
use namewire_daemon::{Environment, Management, Seeds, SteppedForwarder};
use ndn_dataplane::MemoryFaceOptions;
use ndn_face::InternalEnd;
use ndn_management::{DataSigner, DigestSigner};
use ndn_packet::{DataBuilder, Interest, InterestBuilder, LpHeader, LpPacket, Name};
use ndn_sys::clock::ManualClock;
use ndn_types::{LinkType, Persistency, PrincipalKey, Scope, Timestamp};

/// Frames that wait in a face, and are sent between two steps at most.
const QUEUE_FRAMES: usize = 64;
const PORTS: usize = 13;
const UPSTREAMS: usize = 5;
const HOUR_MS: u64 = 3_600_000;
/// Interests of each bystander in one measurement.
const EXCHANGES: u32 = 25;

fn config(workers: usize) -> Config {
    let text = format!(
        "control.enabled = false\nforwarder.workers = {workers}\n\
         [pool]\ncapacity = \"24 MiB\"\npages = \"ordinary\"\n\
         [tables]\npit_capacity = 6000\nfib_capacity = 1000\ncs.capacity_packets = 0\n\
         [listeners]\nudp.enabled = false\ntcp.enabled = false\n\
         websocket.enabled = false\nmulticast.enabled = false\n"
    );
    // `parse` also rejects a configuration without listeners.
    let mut config = namewire_config::parse("test", &text).unwrap();
    config.listeners.unix.enabled = false;
    config
}

fn name(uri: &str) -> Name {
    Name::from_uri(uri).unwrap()
}

fn address(number: u8) -> PrincipalKey {
    PrincipalKey::remote((Ipv4Addr::new(192, 0, 2, number), 6363).into())
}

/// A forwarder on virtual time; 13 ports of one address, and others.
struct Node {
    forwarder: SteppedForwarder,
    clock: ManualClock,
    attackers: Vec<InternalEnd>,
    /// A peer with another address, an application, and a neighbour.
    bystanders: Vec<InternalEnd>,
    producer: InternalEnd,
    /// Takes Interests and never answers.
    hole: InternalEnd,
    /// Next hops of `/all`, all of which a strategy uses; they do not answer.
    upstreams: Vec<InternalEnd>,
    /// Interests of bystanders that came to them.
    upstream_arrivals: usize,
    nonce: u32,
}

impl Node {
    fn new(workers: usize) -> Self {
        let clock =
            ManualClock::new(Timestamp::from_millis(1000), Duration::from_secs(1_700_000_000));
        let environment = Environment { clock: clock.clone().into(), seeds: Seeds::from_number(7) };
        let mut forwarder = SteppedForwarder::new(&config(workers), &environment).unwrap();
        let mut number = 0;
        let mut add = |forwarder: &mut SteppedForwarder, scope, principal| {
            number += 1;
            let options = MemoryFaceOptions {
                number,
                scope,
                link_type: LinkType::PointToPoint,
                principal,
                persistency: Persistency::Permanent,
                mtu: 8800,
                queue_frames_max: QUEUE_FRAMES,
            };
            forwarder.add_memory_face(&options).unwrap()
        };
        let remote = Scope::NonLocal;
        let attackers =
            (0..PORTS).map(|_| add(&mut forwarder, remote, Some(address(1))).1).collect();
        let application = PrincipalKey::LocalApplication { uid: 1000, pid: 7 };
        let bystanders = vec![
            add(&mut forwarder, remote, Some(address(2))).1,
            add(&mut forwarder, Scope::Local, Some(application)).1,
            add(&mut forwarder, remote, None).1,
        ];
        let (to_producer, producer) = add(&mut forwarder, remote, None);
        let (to_hole, hole) = add(&mut forwarder, remote, None);
        let upstreams = (0..UPSTREAMS).map(|_| {
            let (face_id, end) = add(&mut forwarder, remote, None);
            forwarder.add_route(&name("/all"), face_id, 0).unwrap();
            end
        });
        let upstreams = upstreams.collect();
        let multicast = name("/localhost/nfd/strategy/multicast");
        forwarder.set_strategy(&name("/all"), &multicast).unwrap();
        forwarder.add_route(&name("/good"), to_producer, 0).unwrap();
        forwarder.add_route(&name("/"), to_hole, 0).unwrap();
        Self {
            forwarder,
            clock,
            attackers,
            bystanders,
            producer,
            hole,
            upstreams,
            upstream_arrivals: 0,
            nonce: 0,
        }
    }

    fn settle(&mut self) {
        for _ in 0..10_000 {
            while self.hole.receive().is_some() {}
            for end in &mut self.upstreams {
                while let Some(frame) = end.receive() {
                    let frame = LpPacket::parse(&frame).unwrap();
                    let interest = Interest::parse(frame.fragment().unwrap()).unwrap();
                    let is_of_bystander = interest.name().starts_with(name("/all/by").as_ref());
                    self.upstream_arrivals += usize::from(is_of_bystander);
                }
            }
            self.attackers.iter_mut().for_each(|end| while end.receive().is_some() {});
            self.answer();
            if !self.forwarder.step().unwrap() && self.producer.unreceived() == 0 {
                return;
            }
        }
        panic!("the forwarder never rests");
    }

    /// The producer answers what it has received.
    fn answer(&mut self) {
        while let Some(frame) = self.producer.receive() {
            let frame = LpPacket::parse(&frame).unwrap();
            let interest = Interest::parse(frame.fragment().unwrap()).unwrap();
            let mut data_name = interest.name().to_name();
            if interest.can_be_prefix() {
                data_name = name(&format!("{data_name}/version/0"));
            }
            let data = DigestSigner.sign(&DataBuilder::new(&data_name).content(b"content"));
            self.producer.send(data.unwrap()).unwrap();
        }
    }

    fn interest(&mut self, uri: &str, lifetime_ms: u64, can_be_prefix: bool) -> Vec<u8> {
        self.nonce += 1;
        let name = name(uri);
        let builder = InterestBuilder::new(&name).nonce(self.nonce).lifetime_ms(lifetime_ms);
        builder.can_be_prefix(can_be_prefix).to_vec().unwrap()
    }

    /// `count` Interests from each port of the attacking host.
    fn attack(&mut self, count: usize, uri: impl Fn(usize, usize) -> String, short: bool) {
        for number in 0..count {
            for port in 0..PORTS {
                let wire = self.interest(&uri(port, number), HOUR_MS, short);
                let _ = self.attackers[port].send(wire);
            }
            if number % QUEUE_FRAMES == QUEUE_FRAMES - 1 || number + 1 == count {
                self.settle();
            }
        }
    }

    /// All bystanders exchange Interests and Data, and management answers.
    fn assert_service(&mut self, when: &str, can_be_prefix: bool) {
        let mut answered = 0;
        for number in 0..EXCHANGES {
            for bystander in 0..self.bystanders.len() {
                let uri = match can_be_prefix {
                    // The producer answers under its prefix only.
                    true => "/good".to_owned(),
                    false => format!("/good/{when}/{bystander}/{number}"),
                };
                let wire = self.interest(&uri, 4000, can_be_prefix);
                self.bystanders[bystander].send(wire).unwrap();
                self.settle();
                while let Some(frame) = self.bystanders[bystander].receive() {
                    let frame = LpPacket::parse(&frame).unwrap();
                    answered += u32::from(frame.fragment().is_some_and(|wire| wire[0] == 6));
                }
            }
        }
        let all = EXCHANGES * u32::try_from(self.bystanders.len()).unwrap();
        assert!(answered * 100 >= all * 99, "{answered} of {all} answered {when}");
        assert!(self.forwarder.status().is_ok(), "management answers {when}");
    }

    /// After the longest lifetime of a remote Interest.
    fn assert_everything_is_given_back(&mut self) {
        for _ in 0..70 {
            self.clock.advance(Duration::from_secs(1));
            self.settle();
        }
        for ledger in self.forwarder.ledgers() {
            let tables = ledger.tables.as_ref().is_none_or(|tables| tables.is_zero());
            assert!(tables && ledger.memory.is_zero(), "{ledger:?}");
        }
    }

    fn refused(&self, reason: ndn_forwarding::DropReason) -> u64 {
        self.forwarder.counters().dropped(reason)
    }
}

#[test]
fn pit_full_of_one_host_serves_others() {
    for workers in [1, 3] {
        let mut node = Node::new(workers);
        node.assert_service("before", false);
        for round in 0..3 {
            node.attack(300, |port, number| format!("/hole/{round}/{port}/{number}"), false);
            node.assert_service(&format!("during {round}"), false);
        }
        let refused = node.refused(ndn_forwarding::DropReason::PitShare);
        assert!(refused > 1000, "the attack did not fill the PIT of {workers} workers: {refused}");
        node.assert_everything_is_given_back();
        node.assert_service("after", false);
    }
}

#[test]
fn joins_of_one_host_leave_aggregation_to_others() {
    for workers in [1, 3] {
        let mut node = Node::new(workers);
        node.attack(600, |_, number| format!("/hole/{number}"), false);
        let refused = node.refused(ndn_forwarding::DropReason::InRecordsFull);
        assert!(refused > 500, "the attack did not fill the in-records: {refused}");
        for number in 0..EXCHANGES {
            for bystander in 0..node.bystanders.len() {
                let wire = node.interest(&format!("/good/joined/{number}"), 4000, false);
                node.bystanders[bystander].send(wire).unwrap();
            }
            node.settle();
            for end in &mut node.bystanders {
                let frame = end.receive().unwrap_or_else(|| panic!("no answer to {number}"));
                let frame = LpPacket::parse(&frame).unwrap();
                assert_eq!(frame.fragment().unwrap()[0], 6, "Data");
            }
        }
        node.assert_service("during", false);
        node.assert_everything_is_given_back();
    }
}

#[test]
fn short_prefix_interests_of_one_host_leave_places_to_others() {
    for workers in [1, 3] {
        let mut node = Node::new(workers);
        node.assert_service("before", true);
        node.attack(800, |port, number| format!("/{}", port * 10_000 + number), true);
        node.assert_service("during", true);
        node.assert_everything_is_given_back();
        node.assert_service("after", true);
    }
}

#[test]
fn next_hops_of_one_host_leave_failover_to_others() {
    for workers in [1, 3] {
        let mut node = Node::new(workers);
        node.attack(300, |port, number| format!("/all/{port}/{number}"), false);
        let refused = node.refused(ndn_forwarding::DropReason::OutRecordsFull);
        assert!(refused > 500, "the attack did not fill the out-records: {refused}");
        for number in 0..EXCHANGES {
            for bystander in 0..node.bystanders.len() {
                node.upstream_arrivals = 0;
                let wire = node.interest(&format!("/all/by/{bystander}/{number}"), 4000, false);
                node.bystanders[bystander].send(wire).unwrap();
                node.settle();
                assert_eq!(node.upstream_arrivals, UPSTREAMS, "{workers} workers");
            }
        }
        node.assert_service("during", false);
        node.assert_everything_is_given_back();
    }
}

/// A fragment of a packet of two.
fn fragment(sequence: u64, index: u64, payload: &[u8]) -> Vec<u8> {
    let header = LpHeader {
        sequence: Some(sequence),
        frag_index: Some(index),
        frag_count: Some(2),
        ..LpHeader::default()
    };
    let mut frame = Vec::new();
    ndn_packet::lp::append_packet(&mut frame, &header, payload);
    frame
}

#[test]
fn first_fragments_of_one_host_leave_reassembly_to_others() {
    for workers in [1, 3] {
        let mut node = Node::new(workers);
        let payload = vec![6; 8000];
        for number in 0..4000_u64 {
            let frame = fragment(number * 1000, 0, &payload);
            let _ = node.attackers[usize::try_from(number).unwrap() % PORTS].send(frame);
            if number % 100 == 99 {
                node.settle();
            }
        }
        for number in 0..EXCHANGES {
            for bystander in 0..node.bystanders.len() {
                let uri = format!("/good/{}/{bystander}/{number}", "x".repeat(3000));
                let wire = node.interest(&uri, 4000, false);
                let (first, second) = wire.split_at(1500);
                let sequence = u64::from(number) * 1000;
                for (index, part) in [(0, first), (1, second)] {
                    let frame = fragment(sequence + index, index, part);
                    node.bystanders[bystander].send(frame).unwrap();
                    node.settle();
                }
                assert!(node.bystanders[bystander].receive().is_some(), "{uri}, {workers} workers");
                while node.bystanders[bystander].receive().is_some() {}
            }
        }
        node.assert_service("during", false);
        node.assert_everything_is_given_back();
    }
}
