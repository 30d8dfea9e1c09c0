//! The strategies asf, random, round-robin, weighted, sequential and fast-route in virtual time;
//! the model does not implement them.

use ndn_forwarding::DropReason;
use ndn_forwarding::strategy::known_strategies;

use super::{Case, data, from, interest, nack};
use crate::bed::{Bed, SentKind};
use crate::model::{Face, Time};
use crate::wire::{DUPLICATE, NO_ROUTE, name};

/// Faces 2, 3 and 4 are next hops of `/a`, in ascending cost; face 1 sends Interests.
struct Scene {
    bed: Bed,
    nonce: u32,
}

impl Scene {
    fn new(strategy: &str) -> Self {
        Self::with_next_hops(&[2, 3, 4], &format!("/localhost/nfd/strategy/{strategy}"))
    }

    fn with_next_hops(next_hops: &[Face], strategy: &str) -> Self {
        let case = Case::new("strategy").with(|world| world.cs_capacity = 0);
        let case = next_hops.iter().fold(case, |case, &face| case.route("/a", face));
        let mut bed = case.world.bed(1);
        bed.set_strategy(&name("/a"), strategy);
        Self { bed, nonce: 0 }
    }

    /// Sends an Interest for `uri` on face 1; returns the faces it is sent on.
    fn ask(&mut self, now: Time, uri: &str) -> Vec<Face> {
        self.ask_from(1, now, uri)
    }

    fn ask_from(&mut self, face: Face, now: Time, uri: &str) -> Vec<Face> {
        self.nonce += 1;
        self.bed.sent.0.clear();
        self.bed.process(now, &[from(face, interest(uri, self.nonce))]);
        self.left(SentKind::Interest)
    }

    /// Sends a Data for `uri` on `face`; returns the faces it is sent on.
    fn answer(&mut self, now: Time, face: Face, uri: &str) -> Vec<Face> {
        self.bed.sent.0.clear();
        self.bed.process(now, &[from(face, data(uri))]);
        self.left(SentKind::Data)
    }

    /// Returns a Nack for the last Interest on `face`; returns the faces that Nacks are sent on.
    fn refuse(&mut self, now: Time, face: Face, uri: &str, reason: u64) -> Vec<Face> {
        self.bed.sent.0.clear();
        self.bed.process(now, &[from(face, nack(reason, interest(uri, self.nonce)))]);
        self.left(SentKind::Nack(reason))
    }

    fn left(&self, kind: SentKind) -> Vec<Face> {
        let sent = self.bed.sent.0.iter().filter(|sent| sent.kind == kind);
        let mut faces: Vec<Face> = sent.map(|sent| sent.face).collect();
        faces.sort_unstable();
        faces
    }
}

fn uri(number: u64) -> String {
    format!("/a/{number}")
}

#[test]
fn round_robin_skips_removed_faces() {
    let mut scene = Scene::new("round-robin");
    let asked: Vec<_> = (0..6).map(|n| scene.ask(n, &uri(n))).collect();
    assert_eq!(asked, [[2], [3], [4], [2], [3], [4]]);
    // The downstream is skipped.
    assert_eq!(scene.ask_from(2, 10, "/a/x"), [3]);
    scene.bed.remove_face(3);
    // Three Interests that waited for it take turns once more.
    scene.bed.advance(11);
    let asked: Vec<_> = (20..24).map(|n| scene.ask(n, &uri(n))).collect();
    assert_eq!(asked, [[4], [4], [2], [4]]);
}

#[test]
fn round_robin_advances_with_retransmissions_that_are_not_suppressed() {
    let mut scene = Scene::new("round-robin");
    assert_eq!(scene.ask(0, "/a/1"), [2]);
    assert_eq!(scene.ask(5, "/a/1"), []);
    assert_eq!(scene.ask(20, "/a/1"), [3]);
    assert_eq!(scene.refuse(30, 3, "/a/1", NO_ROUTE), []);
}

#[test]
fn weighted_selects_next_hops_by_weight() {
    let mut scene = Scene::new("weighted/v=1/weights~3,1");
    let count = |face: Face, asked: &[Vec<Face>]| asked.iter().filter(|a| a[0] == face).count();
    let asked: Vec<_> = (0..50).map(|n| scene.ask(n, &uri(n))).collect();
    assert_eq!((count(2, &asked), count(3, &asked), count(4, &asked)), (30, 10, 10));
    let mut even = Scene::new("weighted");
    let asked: Vec<_> = (0..30).map(|n| even.ask(n, &uri(n))).collect();
    assert_eq!(count(4, &asked), 10);
}

#[test]
fn sequential_advances_with_each_retransmission() {
    let mut scene = Scene::new("sequential");
    let asked: Vec<_> = (0..5).map(|n| scene.ask(n, "/a/1")).collect();
    assert_eq!(asked, [[2], [3], [4], [2], [3]]);
    assert_eq!(scene.ask(6, "/a/2"), [2], "every name begins anew");
    assert_eq!(scene.answer(7, 2, "/a/2"), [1]);
}

#[test]
fn random_uses_all_eligible_next_hops() {
    let mut scene = Scene::new("random");
    let mut counts = [0_u32; 5];
    for n in 0..300 {
        let asked = scene.ask_from(3, n, &uri(n));
        assert_eq!(asked.len(), 1);
        counts[usize::try_from(asked[0]).unwrap()] += 1;
        scene.answer(n, asked[0], &uri(n));
    }
    assert_eq!(counts[3], 0, "back to where it came from");
    assert!(counts[2] > 100 && counts[4] > 100, "{counts:?}");
}

#[test]
fn interest_without_eligible_next_hop_gets_a_nack() {
    for strategy in ["random", "round-robin", "weighted", "sequential", "fast-route", "asf"] {
        let mut scene = Scene::new(strategy);
        for face in [2, 3, 4] {
            scene.bed.remove_face(face);
        }
        assert_eq!(scene.ask(0, "/a/1"), [], "{strategy}");
        assert_eq!(scene.left(SentKind::Nack(NO_ROUTE)), [1], "{strategy}");
    }
}

/// The next hop asks for the same name: it is no next hop for itself.
#[test]
fn downstream_keeps_waiting_while_another_has_no_next_hop() {
    let names = known_strategies().map(|strategy| strategy.name.to_uri());
    // It holds the Data until the control thread has answered: it has a test of its own.
    for strategy in names.filter(|name| !name.contains("self-learning")) {
        let mut scene = Scene::with_next_hops(&[2], &strategy);
        assert_eq!(scene.ask(0, "/a/1"), [2], "{strategy}");
        assert_eq!(scene.ask_from(2, 500, "/a/1"), [], "{strategy}");
        assert_eq!(scene.left(SentKind::Nack(NO_ROUTE)).iter().filter(|one| **one != 2).count(), 0);
        assert_eq!(scene.answer(510, 2, "/a/1"), [1], "{strategy}");
        scene.bed.check_accounts().unwrap();
    }
}

/// A later Data would be for nobody.
#[test]
fn entry_ends_with_the_last_downstream_without_next_hop() {
    for strategy in ["random", "round-robin", "weighted", "sequential", "fast-route"] {
        let mut scene = Scene::with_next_hops(&[2], &format!("/localhost/nfd/strategy/{strategy}"));
        assert_eq!(scene.ask(0, "/a/1"), [2], "{strategy}");
        assert!(scene.bed.remove_route(&name("/a"), 2));
        assert_eq!(scene.ask(500, "/a/1"), [], "{strategy}");
        assert_eq!(scene.left(SentKind::Nack(NO_ROUTE)), [1], "{strategy}");
        assert_eq!(scene.bed.counters[0].pit_entries.value(), 0, "{strategy}");
        scene.bed.check_accounts().unwrap();
    }
}

#[test]
fn nack_is_returned_after_the_last_upstream_nack() {
    for strategy in ["random", "round-robin", "weighted", "sequential", "asf"] {
        let mut scene = Scene::new(strategy);
        let asked = scene.ask(0, "/a/1");
        assert_eq!(scene.refuse(5, asked[0], "/a/1", NO_ROUTE), [1], "{strategy}");
    }
}

#[test]
fn fast_route_uses_the_first_face_to_answer() {
    let mut scene = Scene::new("fast-route");
    assert_eq!(scene.ask(0, "/a/1"), [2, 3, 4]);
    assert_eq!(scene.answer(50, 3, "/a/1"), [1]);
    assert_eq!(scene.ask(60, "/a/2"), [3]);
    assert_eq!(scene.ask(61, "/a/b/c"), [3], "the whole FIB prefix");
    // A retransmission goes to the others, too.
    assert_eq!(scene.ask(100, "/a/2"), [2, 3, 4]);
    assert_eq!(scene.answer(110, 4, "/a/2"), [1]);
    assert_eq!(scene.ask(120, "/a/3"), [4]);
    // An Interest from another consumer does not change the choice; a Nack does.
    assert_eq!(scene.refuse(130, 4, "/a/3", DUPLICATE), [1]);
    assert_eq!(scene.ask(140, "/a/4"), [4]);
    assert_eq!(scene.refuse(150, 4, "/a/4", NO_ROUTE), [1]);
    assert_eq!(scene.ask(160, "/a/5"), [2, 3, 4]);
    assert_eq!(scene.answer(170, 2, "/a/5"), [1]);
    scene.bed.remove_face(2);
    assert_eq!(scene.ask(180, "/a/6"), [3, 4]);
}

/// Answers each of a series of Interests on `face` after `rtt`, whichever face it is sent to;
/// returns the first face of each, and the faces of further Interests.
fn exchange(
    scene: &mut Scene,
    now: &mut Time,
    number: u64,
    rtt: impl Fn(Face) -> Option<Time>,
) -> Vec<Face> {
    let asked = scene.ask(*now, &uri(number));
    let answers = asked.iter().filter_map(|&face| Some((rtt(face)?, face)));
    match answers.min() {
        Some((rtt, face)) => {
            scene.answer(*now + rtt, face, &uri(number));
            *now += rtt + 1;
        }
        // Longer than the lifetime of the Interest.
        None => {
            *now += 5000;
            scene.bed.advance(*now);
        }
    }
    asked
}

#[test]
fn asf_probes_and_switches_to_the_faster_next_hop() {
    let mut scene = Scene::new("asf/v=5/probing-interval~10000");
    let rtt = |face: Face| {
        Some(match face {
            2 => 100,
            3 => 20,
            _ => 50,
        })
    };
    let mut now = 1;
    let rounds: Vec<_> = (0..600).map(|n| exchange(&mut scene, &mut now, n, rtt)).collect();
    // The cheapest next hop first, until the first probe, which is sent within five seconds.
    assert_eq!(rounds[0], [2]);
    let first_probe = rounds.iter().position(|asked| asked.len() == 2).unwrap();
    assert!(first_probe < 5000 / 101 + 2, "{first_probe}");
    assert!(rounds[..first_probe].iter().all(|asked| *asked == [2]));
    // Of two unmeasured next hops, the cheaper one is probed, and it is the faster one.
    assert_eq!(rounds[first_probe], [2, 3]);
    assert_eq!(rounds[first_probe + 1], [3]);
    // From then on every Interest goes there, and once per interval another next hop is probed.
    let later = &rounds[first_probe + 1..];
    assert!(later.iter().all(|asked| asked.contains(&3)), "{later:?}");
    let probes = later.iter().filter(|asked| asked.len() == 2).count();
    assert_eq!(probes, 1, "in {} ms", now);
}

#[test]
fn asf_avoids_a_timed_out_next_hop_until_a_probe_succeeds() {
    let mut scene = Scene::new("asf/v=5/probing-interval~60000/measurements-lifetime~300000");
    let mut now = 1;
    for n in 0..5 {
        assert_eq!(exchange(&mut scene, &mut now, n, |_| Some(50)), [2]);
    }
    // The link is cut: two timeouts are tolerated, the third is not.
    let silent = |face: Face| (face != 2).then_some(80);
    let asked: Vec<_> = (10..16).map(|n| exchange(&mut scene, &mut now, n, silent)).collect();
    // One more if a probe was answered meanwhile: the timeout before it covers both.
    let count = asked.iter().filter(|asked| asked.contains(&2)).count();
    assert!((3..=4).contains(&count), "{asked:?}");
    assert!(!asked[5].contains(&2), "{asked:?}");
    // A Nack counts immediately.
    let asked = scene.ask(now, "/a/refused");
    let refused = asked[0];
    scene.refuse(now + 10, refused, "/a/refused", NO_ROUTE);
    let next = scene.ask(now + 20, "/a/after");
    assert!(!next.contains(&refused) || next.len() == 2, "{refused} in {next:?}");
}

/// One sender's Interests with a hint that nobody answers say nothing about the next hops of other names.
#[test]
fn asf_keeps_hinted_interests_of_different_names_apart() {
    let mut scene = Scene::new("asf/v=5/probing-interval~60000");
    scene.bed.set_strategy(&name("/"), "/localhost/nfd/strategy/asf/v=5/probing-interval~60000");
    let ask = |scene: &mut Scene, now: Time, uri: &str| {
        scene.nonce += 1;
        scene.bed.sent.0.clear();
        scene.bed.process(now, &[from(1, interest(uri, scene.nonce).hint("/a"))]);
        scene.left(SentKind::Interest)
    };
    let mut now = 1;
    // The bystander's Interests are answered by the cheapest next hop.
    for n in 0..5 {
        let uri = format!("/bystander/data/{n}");
        assert!(ask(&mut scene, now, &uri).contains(&2));
        assert_eq!(scene.answer(now + 20, 2, &uri), [1]);
        now += 100;
    }
    for n in 0..100 {
        ask(&mut scene, now, &format!("/attacker/data/{n}"));
        now += 2000;
    }
    for n in 10..15 {
        let uri = format!("/bystander/data/{n}");
        let asked = ask(&mut scene, now, &uri);
        assert!(asked.contains(&2), "{asked:?}");
        assert_eq!(scene.answer(now + 20, 2, &uri), [1]);
        now += 100;
    }
}

/// Sends Interests until one is probed, then lets the next hop answer after 20 ms and the probed
/// one after `late_ms`; returns both.
fn answer_probe_late(scene: &mut Scene, now: &mut Time, late_ms: Time) -> (Face, Face) {
    for n in 0..500 {
        let uri = uri(*now);
        let asked = scene.ask(*now, &uri);
        assert_eq!(scene.answer(*now + 20, 2, &uri), [1], "{n}: {asked:?}");
        let probed = asked.iter().copied().find(|face| *face != 2);
        if let Some(probed) = probed {
            assert_eq!(scene.answer(*now + late_ms, probed, &uri), [], "nobody waits");
        }
        *now += 1000;
        if let Some(probed) = probed {
            return (2, probed);
        }
    }
    panic!("no probe");
}

#[test]
fn asf_measures_late_probe_answers() {
    // A measured next hop is not unknown any more, so the other one is probed next.
    for (late_ms, probed_next, unsolicited) in [(65, 4, 0), (75, 3, 1)] {
        let mut scene = Scene::new("asf/v=5/probing-interval~10000");
        let mut now = 1;
        assert_eq!(answer_probe_late(&mut scene, &mut now, late_ms), (2, 3));
        let dropped = scene.bed.counters[0].dropped(DropReason::UnsolicitedData);
        assert_eq!(dropped, unsolicited, "{late_ms} ms");
        assert_eq!(answer_probe_late(&mut scene, &mut now, 25), (2, probed_next), "{late_ms} ms");
        scene.bed.advance(now + 10_000);
        assert_eq!(scene.bed.counters[0].pit_entries.value(), 0);
        let counters = &scene.bed.counters[0];
        assert_eq!(counters.unsatisfied_interests.value(), 0);
        assert_eq!(counters.satisfied_interests.value(), counters.in_interests.value());
        scene.bed.check_accounts().unwrap();
    }
}

#[test]
fn lingering_entry_does_not_suppress_new_interests() {
    let mut scene = Scene::new("asf/v=5/probing-interval~10000");
    let mut now = 1;
    let (asked, uri) = loop {
        let uri = uri(now);
        let asked = scene.ask(now, &uri);
        scene.answer(now + 20, 2, &uri);
        if asked.len() == 2 {
            break (asked, uri);
        }
        now += 1000;
    };
    assert_eq!(asked, [2, 3]);
    // Without a Content Store, a retransmission is forwarded to the next hop, and answered once.
    assert_eq!(scene.ask_from(4, now + 30, &uri), [2]);
    assert_eq!(scene.answer(now + 40, 3, &uri), [4]);
    scene.bed.check_accounts().unwrap();
    scene.bed.advance(now + 10_000);
    assert_eq!(scene.bed.counters[0].pit_entries.value(), 0);
}

#[test]
fn asf_retransmits_to_next_hops_not_tried_yet() {
    let mut scene = Scene::new("asf");
    assert_eq!(scene.ask(0, "/a/1"), [2]);
    // Another next hop has not been tried: nothing to suppress.
    assert_eq!(scene.ask(5, "/a/1"), [3]);
    assert_eq!(scene.ask(10, "/a/1"), [4]);
    // All have been tried: the one tried longest ago, after the suppression interval.
    assert_eq!(scene.ask(12, "/a/1"), [2]);
    assert_eq!(scene.ask(14, "/a/1"), []);
    assert_eq!(scene.ask(40, "/a/1"), [3]);
}

#[test]
fn asf_probes_carry_their_own_nonce() {
    let mut scene = Scene::new("asf/v=5/probing-interval~1000");
    let mut now = 1;
    let nonces = (0..200).find_map(|n| {
        let asked = exchange(&mut scene, &mut now, n, |_| None);
        (asked.len() == 2).then_some(())
    });
    assert!(nonces.is_some(), "no probe");
    scene.bed.sent.0.clear();
    let mut wires = Vec::new();
    for n in 300..340 {
        scene.bed.sent.0.clear();
        scene.bed.process(now, &[from(1, interest(&uri(n), 5000))]);
        if scene.bed.sent.0.len() == 2 {
            wires = scene.bed.sent.0.iter().map(|sent| sent.wire.clone()).collect();
            break;
        }
        now += 2000;
        scene.bed.advance(now);
    }
    let [first, second] = &wires[..] else { panic!("no second probe") };
    let nonce = |wire: &[u8]| ndn_packet::Interest::parse(wire).unwrap().nonce();
    assert_eq!(nonce(first), Some(5000));
    assert_ne!(nonce(second), Some(5000));
}

#[test]
fn out_of_range_parameters_are_rejected() {
    let (mut table, _) = ndn_forwarding::strategy::StrategyTable::with_best_route();
    for bad in [
        "asf/v=5/probing-interval~999",
        "asf/v=5/measurements-lifetime~60000",
        "asf/v=4",
        "asf/v=6",
        "random/v=1/x~1",
        "weighted/v=1/weights~0",
        "weighted/v=1/weights~1,,2",
        "weighted/v=1/weights~x",
        "sequential/v=1/retx-suppression-initial~10",
    ] {
        let uri = format!("/localhost/nfd/strategy/{bad}");
        let full: ndn_packet::Name = uri.parse().unwrap();
        assert!(table.insert(full.as_ref()).is_err(), "{bad}");
    }
}
