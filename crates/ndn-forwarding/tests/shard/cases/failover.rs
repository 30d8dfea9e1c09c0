//! Next hops whose faces lose their links and come back, under every strategy.

use ndn_forwarding::{LearningRequest, LinkEvent};

use super::{Case, data, from, interest, nack};
use crate::bed::{Bed, SentKind};
use crate::model::{Face, Time};
use crate::wire::{NO_ROUTE, name};

const STRATEGIES: [&str; 10] = [
    "best-route",
    "multicast",
    "access",
    "asf",
    "random",
    "self-learning",
    "fast-route",
    "round-robin",
    "weighted/v=1/weights~9",
    "sequential",
];

/// Faces 2 and 3 are next hops of `/a`, face 2 the cheaper one; face 1 sends Interests, face 4 is the next hop of
/// other names.
struct Scene {
    bed: Bed,
    nonce: u32,
    /// Interests of each face and their Nonces, since the last arrival.
    sent: Vec<(Face, u32)>,
}

impl Scene {
    fn new(strategy: &str) -> Self {
        Self::with_shards(strategy, 1)
    }

    fn with_shards(strategy: &str, shard_count: usize) -> Self {
        let case = Case::new("failover").route("/a", 2).route("/a", 3).route("/b", 4);
        let mut bed = case.with(|world| world.cs_capacity = 0).world.bed(shard_count);
        bed.set_strategy(&name("/a"), &format!("/localhost/nfd/strategy/{strategy}"));
        Self { bed, nonce: 0, sent: Vec::new() }
    }

    fn note_sent(&mut self) -> Vec<Face> {
        let sent = self.bed.sent.0.iter().filter(|sent| sent.kind == SentKind::Interest);
        self.sent = sent
            .map(|sent| {
                let nonce = ndn_packet::Interest::parse(&sent.wire).unwrap().nonce().unwrap();
                (sent.face, nonce)
            })
            .collect();
        self.sent.sort_unstable();
        self.sent.iter().map(|&(face, _)| face).collect()
    }

    /// Sends a new Interest for `uri` on face 1; returns the faces it is sent on.
    fn ask(&mut self, now: Time, uri: &str) -> Vec<Face> {
        self.nonce += 1;
        self.bed.sent.0.clear();
        self.bed.process(now, &[from(1, interest(uri, self.nonce))]);
        self.note_sent()
    }

    /// Sends a Data for `uri` on `face`; returns whether face 1 got it.
    fn answer(&mut self, now: Time, face: Face, uri: &str) -> bool {
        self.bed.sent.0.clear();
        self.bed.process(now, &[from(face, data(uri))]);
        // Self-learning holds Data until the control thread has looked for an announcement.
        for shard in 0..self.bed.shards.len() {
            while let Some(request) = self.bed.shards[shard].poll_learning() {
                if let LearningRequest::Find { ticket, .. } = request {
                    self.bed.answer_learning(shard, now, ticket, None);
                }
            }
        }
        let got = self.bed.sent.0.iter().filter(|sent| sent.kind == SentKind::Data);
        got.map(|sent| sent.face).eq([1])
    }

    /// Changes the link of a face; returns the faces that Interests are sent on.
    fn set_up(&mut self, now: Time, face: Face, is_up: bool) -> Vec<Face> {
        self.bed.sent.0.clear();
        let event = if is_up { LinkEvent::Restored } else { LinkEvent::Lost };
        self.bed.handle_link_event(now, face, event);
        self.bed.advance(now);
        self.note_sent()
    }

    fn resent(&self) -> u64 {
        self.bed.counters.iter().map(|counters| counters.resent_interests.value()).sum()
    }
}

#[test]
fn next_hop_without_a_link_is_not_used_while_another_has_one() {
    for strategy in STRATEGIES {
        let mut scene = Scene::new(strategy);
        // Makes face 2 the choice of strategies that remember one.
        scene.ask(1, "/a/first");
        scene.answer(2, 2, "/a/first");
        scene.set_up(10, 2, false);
        for n in 0..20 {
            let uri = format!("/a/{n}");
            assert_eq!(scene.ask(20 + n, &uri), [3], "{strategy}");
            assert!(scene.answer(20 + n, 3, &uri), "{strategy}");
        }
    }
}

#[test]
fn pending_interest_is_sent_to_the_other_next_hop_when_its_own_loses_its_link() {
    for (strategy, shard_count) in STRATEGIES.into_iter().flat_map(|one| [(one, 1), (one, 3)]) {
        let mut scene = Scene::with_shards(strategy, shard_count);
        for n in 0..50 {
            let uri = format!("/a/x/{n}");
            let asked = scene.ask(1, &uri);
            let first_nonce = scene.nonce;
            let lost = asked[0];
            let is_spread = asked.len() == 2;
            let resent = scene.set_up(5, lost, false);
            if is_spread {
                assert_eq!(resent, [], "{strategy}: it waits for the other next hop already");
            } else {
                assert_eq!(resent, [5 - lost], "{strategy}");
                // The other path may lead through a forwarder that knows the first Nonce.
                assert_ne!(scene.sent[0].1, first_nonce, "{strategy}");
            }
            assert!(scene.answer(6, 5 - lost, &uri), "{strategy}");
            scene.set_up(7, lost, true);
            // Data of any name makes a face reliable again.
            scene.answer(7, lost, "/unsolicited");
        }
        scene.bed.check_accounts().unwrap();
    }
}

#[test]
fn interest_that_is_sent_again_twice_has_three_nonces() {
    let mut scene = Scene::new("best-route");
    assert_eq!(scene.ask(1, "/a/x"), [2]);
    let first = scene.sent[0].1;
    assert_eq!(scene.set_up(5, 2, false), [3]);
    let second = scene.sent[0].1;
    assert_eq!(scene.set_up(10, 2, true), []);
    assert_eq!(scene.set_up(200, 3, false), [2]);
    let third = scene.sent[0].1;
    assert!(first != second && second != third && third != first, "{first} {second} {third}");
}

#[test]
fn pending_interest_is_sent_to_the_other_next_hop_when_its_own_is_removed() {
    for strategy in STRATEGIES {
        let mut scene = Scene::new(strategy);
        let asked = scene.ask(1, "/a/x");
        let other = 5 - asked[0];
        scene.bed.sent.0.clear();
        scene.bed.remove_face(asked[0]);
        scene.bed.advance(2);
        let expected = if asked.len() == 2 { vec![] } else { vec![other] };
        assert_eq!(scene.note_sent(), expected, "{strategy}");
        assert!(scene.answer(6, other, "/a/x"), "{strategy}");
    }
}

#[test]
fn pending_interest_is_sent_again_for_the_downstream_that_waits_longest() {
    for (first, second, expected) in [(3, 1, vec![3]), (1, 3, vec![])] {
        let mut scene = Scene::new("best-route");
        let wires = [first, second].map(|face| from(face, interest("/a/x", face)));
        for (now, wire) in (1..).zip(&wires) {
            scene.bed.process(now, std::slice::from_ref(wire));
        }
        assert_eq!(scene.note_sent(), [2]);
        // Face 3 is the only other next hop.
        assert_eq!(scene.set_up(5, 2, false), expected, "{first}, {second}");
    }
}

#[test]
fn thousands_of_pending_interests_are_sent_again_once_each() {
    let mut scene = Scene::new("best-route");
    let mut bed = Case::new("many").route("/a", 2).route("/a", 3);
    bed = bed.with(|world| (world.cs_capacity, world.pit_capacity) = (0, 10_000));
    scene.bed = bed.world.bed(1);
    for n in 0..5000 {
        assert_eq!(scene.ask(1, &format!("/a/{n}")), [2]);
    }
    assert_eq!(scene.set_up(2, 2, false), [3].repeat(5000));
    assert_eq!(scene.resent(), 5000);
    // Nothing is sent for what is pending at the other next hop.
    assert_eq!(scene.set_up(3, 4, false), []);
    assert_eq!(scene.resent(), 5000);
    assert!(scene.answer(4, 3, "/a/77"));
}

#[test]
fn interest_is_sent_into_the_only_next_hop_although_it_is_down() {
    for strategy in STRATEGIES {
        let mut scene = Scene::new(strategy);
        assert_eq!(scene.set_up(1, 3, false), []);
        assert_eq!(scene.set_up(1, 2, false), []);
        let asked = scene.ask(2, "/a/1");
        assert!(!asked.is_empty(), "{strategy}");
        assert_eq!(scene.set_up(3, 4, false), [], "{strategy}: no next hop is up");
    }
}

#[test]
fn next_hop_that_came_back_is_probed_and_used_after_its_first_answer() {
    let mut scene = Scene::new("best-route");
    scene.set_up(1, 2, false);
    scene.set_up(100, 2, true);
    // The first Interest is copied to it, with another Nonce.
    assert_eq!(scene.ask(101, "/a/1"), [2, 3]);
    assert_ne!(scene.sent[0].1, scene.sent[1].1);
    assert!(scene.answer(102, 3, "/a/1"));
    // Further ones are not, until the next probe is due.
    assert_eq!(scene.ask(103, "/a/2"), [3]);
    assert!(scene.answer(104, 3, "/a/2"));
    assert_eq!(scene.ask(202, "/a/3"), [2, 3]);
    // A Nack of the probe is no answer, and does not end the Interest.
    let probe = scene.sent[0].1;
    scene.bed.process(203, &[from(2, nack(NO_ROUTE, interest("/a/3", probe)))]);
    assert!(scene.answer(204, 3, "/a/3"));
    assert_eq!(scene.ask(205, "/a/4"), [3]);
    assert!(scene.answer(205, 3, "/a/4"));
    assert_eq!(scene.ask(310, "/a/5"), [2, 3]);
    assert!(scene.answer(311, 2, "/a/5"));
    assert_eq!(scene.ask(312, "/a/6"), [2]);
}

#[test]
fn every_strategy_uses_a_next_hop_again_after_its_first_answer() {
    for strategy in STRATEGIES {
        let mut scene = Scene::new(strategy);
        scene.set_up(1, 2, false);
        scene.set_up(2, 2, true);
        assert_eq!(scene.ask(101, "/a/1"), [2, 3], "{strategy}");
        assert!(scene.answer(102, 2, "/a/1"), "{strategy}");
        let asked: Vec<Face> =
            (0..40).flat_map(|n| scene.ask(200 + n, &format!("/a/again/{n}"))).collect();
        assert!(asked.contains(&2), "{strategy}");
    }
}

#[test]
fn face_that_came_back_is_used_when_the_other_one_is_down() {
    for strategy in STRATEGIES {
        let mut scene = Scene::new(strategy);
        scene.set_up(1, 2, false);
        scene.set_up(2, 2, true);
        scene.set_up(3, 3, false);
        assert_eq!(scene.ask(4, "/a/1"), [2], "{strategy}");
        assert!(scene.answer(5, 2, "/a/1"), "{strategy}");
    }
}

/// A routing daemon finds out with NextHopFaceId whether a neighbour answers on that face.
#[test]
fn interest_with_next_hop_face_id_is_not_sent_elsewhere() {
    let mut scene = Scene::new("best-route");
    let case =
        Case::new("hello").route("/a", 2).route("/a", 3).face(1, |spec| spec.local_fields = true);
    scene.bed = case.world.bed(1);
    let hello = crate::model::Arrival { next_hop: Some(2), ..from(1, interest("/a/hello", 9)) };
    scene.bed.process(1, &[hello]);
    assert_eq!(scene.note_sent(), [2]);
    assert_eq!(scene.set_up(2, 2, false), []);
    assert_eq!(scene.resent(), 0);
}

#[test]
fn changed_properties_keep_the_state_of_the_link() {
    let mut scene = Scene::new("best-route");
    scene.set_up(1, 2, false);
    let spec = Case::new("again").world.faces[0].1;
    scene.bed.add_face(2, spec);
    assert_eq!(scene.ask(2, "/a/1"), [3]);
}

/// A forged ICMP message costs a detour until the next hop answers a probe.
#[test]
fn doubted_next_hop_is_probed_at_once_and_its_pending_interests_are_sent_to_another() {
    for strategy in STRATEGIES {
        let mut scene = Scene::new(strategy);
        let asked = scene.ask(1, "/a/1");
        let (doubted, other) = (asked[0], 5 - asked[0]);
        scene.bed.sent.0.clear();
        scene.bed.handle_link_event(2, doubted, LinkEvent::Doubted);
        scene.bed.advance(3);
        // A new Interest, of which the doubted next hop gets a copy.
        if asked.len() == 1 {
            assert_eq!(scene.note_sent(), [other], "{strategy}");
        }
        assert!(scene.answer(4, other, "/a/1"), "{strategy}");
        assert_eq!(scene.ask(5, "/a/2"), [2, 3], "{strategy}");
        assert!(scene.answer(6, doubted, "/a/2"), "{strategy}");
        scene.bed.handle_link_event(6, doubted, LinkEvent::Reached);
        scene.bed.handle_link_event(7, other, LinkEvent::Lost);
        assert_eq!(scene.ask(8, "/a/3"), [doubted], "{strategy}");
        scene.bed.check_accounts().unwrap();
    }
}

/// The notice of another worker can overtake Data that it has received before.
#[test]
fn data_of_a_doubted_next_hop_does_not_end_the_doubt() {
    for strategy in STRATEGIES {
        let mut scene = Scene::new(strategy);
        let asked = scene.ask(1, "/a/1");
        let (doubted, other) = (asked[0], 5 - asked[0]);
        scene.bed.handle_link_event(2, doubted, LinkEvent::Doubted);
        scene.bed.advance(2);
        assert!(scene.answer(3, doubted, "/a/1"), "{strategy}");
        // The first one is copied to the doubted next hop.
        assert_eq!(scene.ask(4, "/a/2"), [2, 3], "{strategy}");
        for number in 3..20 {
            assert_eq!(scene.ask(5, &format!("/a/{number}")), [other], "{strategy}");
        }
        scene.bed.handle_link_event(6, doubted, LinkEvent::Reached);
        let asked: Vec<Face> =
            (0..40).flat_map(|number| scene.ask(7, &format!("/a/again/{number}"))).collect();
        assert!(asked.contains(&doubted), "{strategy}");
    }
}

#[test]
fn best_route_sends_a_pending_interest_again_to_a_doubted_next_hop_that_has_not_got_it() {
    let mut scene = Scene::new("best-route");
    scene.bed.handle_link_event(1, 3, LinkEvent::Doubted);
    // The first one is copied to the doubted next hop.
    assert_eq!(scene.ask(2, "/a/0"), [2, 3]);
    assert_eq!(scene.ask(3, "/a/1"), [2]);
    scene.bed.sent.0.clear();
    scene.bed.handle_link_event(4, 2, LinkEvent::Doubted);
    scene.bed.advance(5);
    assert!(scene.note_sent().contains(&3));
}

#[test]
fn pending_interest_is_not_sent_again_to_the_only_next_hop_that_is_in_doubt() {
    for strategy in STRATEGIES {
        let mut scene = Scene::new(strategy);
        scene.set_up(1, 3, false);
        assert!(!scene.ask(2, "/a/1").is_empty(), "{strategy}");
        scene.bed.sent.0.clear();
        scene.bed.handle_link_event(3, 2, LinkEvent::Doubted);
        scene.bed.advance(4);
        assert_eq!(scene.note_sent(), [], "{strategy}");
        assert_eq!(scene.resent(), 0, "{strategy}");
        // With a link, the other one is used at once.
        assert_eq!(scene.set_up(5, 3, true), [], "{strategy}");
        scene.bed.handle_link_event(6, 2, LinkEvent::Reached);
        scene.bed.handle_link_event(7, 2, LinkEvent::Doubted);
        scene.bed.advance(8);
        assert!(scene.note_sent().contains(&3), "{strategy}");
    }
}
