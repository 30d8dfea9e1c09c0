//! Self-learning in virtual time: broadcast, learned routes, and Data with announcements. The test
//! acts as the control thread.

use ndn_forwarding::{DropReason, LearningRequest, LpFields};

use super::{AD_HOC, Case, LOCAL_A, LOCAL_B, MULTI_ACCESS, data, from, interest, nack};
use crate::bed::{Bed, SentKind, face_id};
use crate::model::{Face, Time};
use crate::wire::{CONGESTION, NO_ROUTE, name};

/// Any Data TLV: the shard does not parse it.
const ANNOUNCEMENT: &[u8] = &[6, 3, 7, 1, 9];

struct Scene {
    bed: Bed,
    nonce: u32,
}

impl Scene {
    fn new(shard_count: usize) -> Self {
        let case = Case::new("self-learning").with(|world| {
            world.cs_capacity = 0;
            world.pit_capacity = 2000;
        });
        let mut bed = case.world.bed(shard_count);
        bed.set_strategy(&name("/"), "/localhost/nfd/strategy/self-learning");
        Self { bed, nonce: 0 }
    }

    /// Sends an Interest on `face`; returns the faces it is sent on, each with NonDiscovery.
    fn ask(&mut self, now: Time, face: Face, uri: &str, non_discovery: bool) -> Vec<(Face, bool)> {
        self.nonce += 1;
        self.clear();
        let lp = LpFields { non_discovery, ..LpFields::default() };
        let wire = interest(uri, self.nonce).encode();
        self.bed.receive_wire(face, &wire, &lp).unwrap();
        self.bed.process(now, &[]);
        self.left(SentKind::Interest).into_iter().map(|(face, flag, _)| (face, flag)).collect()
    }

    /// Sends a Data on `face`, optionally with an announcement; returns the faces it is sent on,
    /// each with the announcement.
    fn answer(
        &mut self,
        now: Time,
        face: Face,
        uri: &str,
        announcement: &[u8],
    ) -> Vec<(Face, Vec<u8>)> {
        self.clear();
        let announcement_length = u16::try_from(announcement.len()).unwrap();
        let lp = LpFields { announcement_length, ..LpFields::default() };
        let wire = [&data(uri).encode()[..], announcement].concat();
        self.bed.receive_wire(face, &wire, &lp).unwrap();
        self.bed.process(now, &[]);
        self.data()
    }

    /// The Data sent.
    fn data(&self) -> Vec<(Face, Vec<u8>)> {
        self.left(SentKind::Data).into_iter().map(|(face, _, bytes)| (face, bytes)).collect()
    }

    fn refuse(&mut self, now: Time, face: Face, uri: &str, reason: u64) -> Vec<Face> {
        self.clear();
        self.bed.process(now, &[from(face, nack(reason, interest(uri, self.nonce)))]);
        self.left(SentKind::Nack(reason)).into_iter().map(|(face, ..)| face).collect()
    }

    fn clear(&mut self) {
        self.bed.sent.0.clear();
        self.bed.sent.1.clear();
    }

    fn left(&self, kind: SentKind) -> Vec<(Face, bool, Vec<u8>)> {
        let sent = self.bed.sent.0.iter().zip(&self.bed.sent.1);
        let mut left: Vec<_> =
            sent.filter(|(sent, _)| sent.kind == kind).map(|(_, fields)| fields.clone()).collect();
        left.sort();
        left
    }

    /// The requests to the control thread, with the number of the shard.
    fn requests(&mut self) -> Vec<(usize, LearningRequest)> {
        let shards = self.bed.shards.iter_mut().enumerate();
        shards
            .flat_map(|(number, shard)| {
                std::iter::from_fn(|| shard.poll_learning())
                    .map(move |r| (number, r))
                    .collect::<Vec<_>>()
            })
            .collect()
    }

    fn counter(&self, reason: DropReason) -> u64 {
        self.bed.counters.iter().map(|counters| counters.dropped(reason)).sum()
    }
}

fn plain(faces: &[Face]) -> Vec<(Face, Vec<u8>)> {
    faces.iter().map(|face| (*face, Vec::new())).collect()
}

#[test]
fn discovery_goes_on_while_another_downstream_has_no_route() {
    let mut scene = Scene::new(1);
    assert!(scene.ask(0, 1, "/a/1", false).contains(&(2, false)));
    assert_eq!(scene.ask(1, 3, "/a/1", true), []);
    let nacks: Vec<_> = scene.left(SentKind::Nack(NO_ROUTE)).into_iter().map(|one| one.0).collect();
    assert_eq!(nacks, [3]);
    assert_eq!(scene.answer(10, 2, "/a/1", &[]), plain(&[1]));
}

#[test]
fn interest_without_route_is_broadcast_and_answer_is_learned() {
    for shard_count in [1, 3] {
        let mut scene = Scene::new(shard_count);
        // All non-local faces, except the downstream.
        let all: Vec<(Face, bool)> =
            [1, 2, 3, 4, MULTI_ACCESS, AD_HOC].map(|face| (face, false)).to_vec();
        assert_eq!(scene.ask(0, LOCAL_A, "/a/b/1", false), all);
        let from_1 = scene.ask(1, 1, "/a/b/2", false);
        assert_eq!(from_1, all[1..]);
        assert!(scene.ask(2, AD_HOC, "/a/b/3", false).contains(&(AD_HOC, false)));

        // The announcement is sent with the Data, and passed to the control thread.
        let sent = scene.answer(10, 3, "/a/b/2", ANNOUNCEMENT);
        assert_eq!(sent, [(1, ANNOUNCEMENT.to_vec())]);
        let learn = LearningRequest::Learn {
            face_id: face_id(3),
            name: "/a/b/2".parse().unwrap(),
            announcement: ANNOUNCEMENT.into(),
        };
        let requests = scene.requests();
        assert_eq!(requests.into_iter().map(|(_, r)| r).collect::<Vec<_>>(), [learn]);

        // An upstream without self-learning answers without an announcement.
        assert_eq!(scene.answer(20, 2, "/a/b/1", &[]), plain(&[LOCAL_A]));
        assert!(scene.requests().is_empty());
        scene.bed.check_accounts().unwrap();
    }
}

#[test]
fn interest_on_a_route_is_marked_non_discovery_and_nothing_is_learned() {
    let mut scene = Scene::new(1);
    scene.bed.add_route(&name("/a"), 2, 10);
    scene.bed.add_route(&name("/a"), 3, 20);
    assert_eq!(scene.ask(0, LOCAL_A, "/a/1", false), [(2, true), (3, true)]);
    // As in NFD nothing is suppressed, and an Interest that followed a route continues to.
    assert_eq!(scene.ask(1, LOCAL_B, "/a/1", true), [(2, true), (3, true)]);
    // Applications get no announcement.
    assert_eq!(scene.answer(10, 2, "/a/1", &[]), plain(&[LOCAL_A, LOCAL_B]));
    // Neither does a neighbour whose Interest follows a route.
    assert_eq!(scene.ask(20, 1, "/a/2", true), [(2, true), (3, true)]);
    assert_eq!(scene.answer(30, 3, "/a/2", &[]), plain(&[1]));
    assert!(scene.requests().is_empty());
}

#[test]
fn non_discovery_interest_without_route_gets_a_nack() {
    let mut scene = Scene::new(1);
    assert_eq!(scene.ask(0, 1, "/a/1", true), []);
    assert_eq!(scene.left(SentKind::Nack(NO_ROUTE)).len(), 1);
    assert_eq!(scene.counter(DropReason::NoNextHop), 1);
    assert_eq!(scene.bed.counters[0].pit_entries.value(), 0);
    scene.bed.check_accounts().unwrap();
}

#[test]
fn data_is_held_until_its_announcement_is_found() {
    for shard_count in [1, 3] {
        for answer in [Some(ANNOUNCEMENT), None] {
            let mut scene = Scene::new(shard_count);
            scene.bed.add_route(&name("/a"), LOCAL_A, 0);
            assert_eq!(scene.ask(0, 1, "/a/1", false), [(LOCAL_A, true)]);
            assert_eq!(scene.ask(1, 3, "/a/1", true), [(LOCAL_A, true)]);
            assert_eq!(scene.answer(10, LOCAL_A, "/a/1", &[]), []);
            let requests = scene.requests();
            let [(shard, LearningRequest::Find { ticket, name })] = &requests[..] else {
                panic!("{requests:?}")
            };
            assert!(name.to_string().starts_with("/a/1"));
            // A further downstream that joins meanwhile gets the same.
            scene.ask(20, 4, "/a/1", false);
            // A second answer, and a Nack from another upstream, change nothing.
            assert_eq!(scene.answer(25, LOCAL_A, "/a/1", &[]), []);
            scene.clear();
            scene.bed.answer_learning(*shard, 30, *ticket, answer);
            let bytes = answer.unwrap_or_default().to_vec();
            assert_eq!(scene.data(), [(1, bytes.clone()), (3, bytes.clone()), (4, bytes)]);
            // A ticket is valid once.
            scene.clear();
            scene.bed.answer_learning(*shard, 31, *ticket, answer);
            assert!(scene.data().is_empty());
            let pending: u64 = scene.bed.counters.iter().map(|one| one.pit_entries.value()).sum();
            scene.bed.advance(32);
            assert!(pending <= 1);
            scene.bed.check_accounts().unwrap();
        }
    }
}

#[test]
fn held_data_is_not_sent_to_its_arrival_face() {
    for (origin, receivers) in [(2, vec![1]), (AD_HOC, vec![1, AD_HOC])] {
        let mut scene = Scene::new(1);
        scene.bed.add_route(&name("/a"), origin, 0);
        assert_eq!(scene.ask(0, 1, "/a/1", false), [(origin, true)]);
        // An upstream becomes a downstream, and then answers.
        scene.ask(1, origin, "/a/1", false);
        assert_eq!(scene.answer(10, origin, "/a/1", &[]), []);
        let requests = scene.requests();
        let [(0, LearningRequest::Find { ticket, .. })] = requests[..] else {
            panic!("{requests:?}")
        };
        scene.clear();
        scene.bed.answer_learning(0, 30, ticket, Some(ANNOUNCEMENT));
        let expected: Vec<_> =
            receivers.into_iter().map(|face| (face, ANNOUNCEMENT.to_vec())).collect();
        assert_eq!(scene.data(), expected);
        scene.bed.advance(32);
        scene.bed.check_accounts().unwrap();
    }
}

#[test]
fn held_data_is_dropped_after_one_second() {
    let mut scene = Scene::new(1);
    scene.bed.add_route(&name("/a"), LOCAL_A, 0);
    scene.ask(0, 1, "/a/1", false);
    assert_eq!(scene.answer(10, LOCAL_A, "/a/1", &[]), []);
    let requests = scene.requests();
    let [(0, LearningRequest::Find { ticket, .. })] = requests[..] else { panic!("{requests:?}") };
    scene.bed.advance(1100);
    assert_eq!(scene.bed.counters[0].pit_entries.value(), 0);
    scene.clear();
    scene.bed.answer_learning(0, 1200, ticket, Some(ANNOUNCEMENT));
    assert!(scene.data().is_empty(), "nobody waits any more");
    scene.bed.check_accounts().unwrap();
}

#[test]
fn data_beyond_the_held_limit_is_sent_without_announcement() {
    let mut scene = Scene::new(1);
    scene.bed.add_route(&name("/a"), LOCAL_A, 0);
    let (mut held, mut sent) = (0, 0);
    for number in 0..80 {
        let uri = format!("/a/{number}");
        scene.ask(number, 1, &uri, false);
        match scene.answer(number, LOCAL_A, &uri, &[]).len() {
            0 => held += 1,
            _ => sent += 1,
        }
    }
    assert_eq!((held, sent), (80, 0));
    let refused = scene.bed.counters[0].learning_refused.value();
    assert_eq!(refused, 0);
    assert_eq!(scene.requests().len(), 80);
    for number in 0..400 {
        let uri = format!("/a/b{number}");
        let now = 100 + number;
        scene.ask(now, 1, &uri, false);
        sent += scene.answer(now, LOCAL_A, &uri, &[]).len();
    }
    // All are of one principal, which leaves half of the 256 places to others.
    assert_eq!(scene.requests().len() + 80, 128);
    assert!(sent > 0);
    assert_eq!(scene.bed.counters[0].learning_refused.value(), sent as u64);
}

#[test]
fn no_route_nack_removes_the_learned_route() {
    let mut scene = Scene::new(1);
    scene.bed.add_route(&name("/a"), 2, 0);
    scene.ask(0, 1, "/a/1", false);
    scene.ask(1, 3, "/a/1", false);
    // Congestion does not remove the route.
    assert_eq!(scene.refuse(2, 2, "/a/1", CONGESTION), []);
    assert!(scene.requests().is_empty());
    scene.ask(10, 1, "/a/2", false);
    assert_eq!(scene.refuse(12, 2, "/a/2", NO_ROUTE), [1]);
    let forget = LearningRequest::Forget {
        face_id: face_id(2),
        name: ndn_packet::Name::from_uri("/a/2").unwrap(),
    };
    assert_eq!(scene.requests(), [(0, forget)]);
    scene.bed.check_accounts().unwrap();
}

#[test]
fn discovery_interest_that_passed_a_circle_is_dropped_after_nacks() {
    let mut scene = Scene::new(1);
    assert_eq!(scene.ask(0, 1, "/a/1", false).len(), 5);
    // A retransmission, which upstreams refuse.
    assert_eq!(scene.ask(10, 1, "/a/1", false).len(), 5);
    assert_eq!(scene.refuse(20, 2, "/a/1", NO_ROUTE), [1]);
    // The first Interest returns.
    scene.nonce = 0;
    assert_eq!(scene.ask(30, 3, "/a/1", false), []);
    assert_eq!(scene.counter(DropReason::DeadNonce), 1);
}

#[test]
fn other_strategies_forward_the_link_fields() {
    let case = Case::new("best-route").route("/a", 2).with(|world| world.cs_capacity = 100);
    let mut scene = Scene { bed: case.world.bed(1), nonce: 0 };
    assert_eq!(scene.ask(0, 1, "/a/1", true), [(2, true)]);
    assert_eq!(scene.answer(1, 2, "/a/1", ANNOUNCEMENT), [(1, ANNOUNCEMENT.to_vec())]);
    assert!(scene.requests().is_empty());
    // Data from the Content Store has no announcement.
    assert_eq!(scene.ask(2, 3, "/a/1", false), []);
    assert_eq!(scene.data(), plain(&[3]));
    // An announcement on an Interest is invalid, as is NonDiscovery on a Data.
    let wire = [&interest("/a/2", 99).encode()[..], ANNOUNCEMENT].concat();
    let lp = LpFields { announcement_length: 5, ..LpFields::default() };
    assert_eq!(scene.bed.receive_wire(1, &wire, &lp), Err(DropReason::BadLinkField));
    let lp = LpFields { non_discovery: true, ..LpFields::default() };
    let wire = data("/a/2").encode();
    assert_eq!(scene.bed.receive_wire(2, &wire, &lp), Err(DropReason::BadLinkField));
}
