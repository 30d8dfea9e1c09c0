//! The access strategy in virtual time; the model does not implement it.

use ndn_forwarding::DropReason;

use super::{Case, data, from, interest};
use crate::bed::{Bed, SentKind};
use crate::model::{Face, Time};
use crate::wire::name;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// An Interest for this name arrives on this face, with its own Nonce.
    Ask(Face, &'static str),
    /// A Data of this name arrives on this face.
    Answer(Face, &'static str),
    /// Time passes.
    Wait,
    /// The route to this face is withdrawn.
    Withdraw(Face),
    /// This face is removed.
    Remove(Face),
}
use Step::{Answer, Ask, Remove, Wait, Withdraw};

/// Time, event, and the faces that packets are sent on.
type Line = (Time, Step, &'static [Face]);

/// Faces 2, 3 and 4 are next hops; face 1 sends Interests.
fn run(title: &str, lines: &[Line], drops: &[(DropReason, u64)]) {
    let case = Case::new("access").route("/a", 2).route("/a", 3).route("/a", 4);
    let mut bed = case.with(|world| world.cs_capacity = 0).world.bed(1);
    bed.set_strategy(&name("/a"), "/localhost/nfd/strategy/access/v=1");
    for (number, &(now, step, expected)) in (1..).zip(lines) {
        bed.sent.0.clear();
        perform(&mut bed, now, step, number);
        let mut faces: Vec<_> = bed.sent.0.iter().map(|sent| sent.face).collect();
        faces.sort_unstable();
        assert_eq!(faces, expected, "{title}, line {number}: {step:?} at {now} ms");
        let kind = if matches!(step, Answer(..)) { SentKind::Data } else { SentKind::Interest };
        assert!(bed.sent.0.iter().all(|sent| sent.kind == kind), "{title}, line {number}");
    }
    for reason in DropReason::ALL {
        let expected = drops.iter().find(|drop| drop.0 == reason).map_or(0, |drop| drop.1);
        assert_eq!(bed.counters[0].dropped(reason), expected, "{title}: {reason:?}");
    }
}

fn perform(bed: &mut Bed, now: Time, step: Step, nonce: u32) {
    match step {
        Ask(face, uri) => bed.process(now, &[from(face, interest(uri, nonce))]),
        Answer(face, uri) => bed.process(now, &[from(face, data(uri))]),
        Wait => bed.advance(now),
        Withdraw(face) => assert!(bed.remove_route(&name("/a"), face)),
        Remove(face) => bed.remove_face(face),
    }
}

#[test]
fn access_uses_the_face_that_answered_last() {
    run(
        "by prefix",
        &[
            (0, Ask(1, "/a/b/1"), &[2, 3, 4]),
            (100, Answer(3, "/a/b/1"), &[1]),
            (200, Ask(1, "/a/b/2"), &[3]),
            (250, Answer(3, "/a/b/2"), &[1]),
            // No measurement exists under another prefix.
            (260, Ask(1, "/a/c/1"), &[2, 3, 4]),
            (270, Answer(4, "/a/c/1"), &[1]),
            (280, Ask(1, "/a/c/2"), &[4]),
            (281, Ask(1, "/a/b/3"), &[3]),
        ],
        &[],
    );
    run(
        "the first answer; later ones are unsolicited",
        &[
            (0, Ask(1, "/a/1"), &[2, 3, 4]),
            (50, Answer(4, "/a/1"), &[1]),
            (60, Answer(2, "/a/1"), &[]),
            (70, Ask(1, "/a/2"), &[4]),
        ],
        &[(DropReason::UnsolicitedData, 1)],
    );
    run(
        "until 8 s after the last answer",
        &[
            (0, Ask(1, "/a/1"), &[2, 3, 4]),
            (100, Answer(3, "/a/1"), &[1]),
            (8000, Ask(1, "/a/2"), &[3]),
            (8050, Answer(3, "/a/2"), &[1]),
            (16_049, Ask(1, "/a/3"), &[3]),
            (16_050, Ask(1, "/a/4"), &[2, 3, 4]),
        ],
        &[],
    );
    run(
        "but never sends back to the downstream",
        &[
            (0, Ask(1, "/a/1"), &[2, 3, 4]),
            (100, Answer(3, "/a/1"), &[1]),
            (200, Ask(3, "/a/2"), &[2, 4]),
        ],
        &[],
    );
}

#[test]
fn access_tries_other_faces_after_timeout() {
    run(
        "after three times the first round trip, once",
        &[
            (0, Ask(1, "/a/1"), &[2, 3, 4]),
            (100, Answer(3, "/a/1"), &[1]),
            (1000, Ask(1, "/a/2"), &[3]),
            (1299, Wait, &[]),
            (1302, Wait, &[2, 4]),
            (3000, Wait, &[]),
            (3100, Answer(2, "/a/2"), &[1]),
            // The face that answered then is used first from now on.
            (3200, Ask(1, "/a/3"), &[2]),
        ],
        &[],
    );
    run(
        "not before 200 ms",
        &[
            (0, Ask(1, "/a/1"), &[2, 3, 4]),
            (1, Answer(3, "/a/1"), &[1]),
            (1000, Ask(1, "/a/2"), &[3]),
            (1199, Wait, &[]),
            (1202, Wait, &[2, 4]),
        ],
        &[],
    );
    run(
        "not if it has answered, nor in the next entry in its place",
        &[
            (0, Ask(1, "/a/1"), &[2, 3, 4]),
            (100, Answer(3, "/a/1"), &[1]),
            (1000, Ask(1, "/a/2"), &[3]),
            (1100, Answer(3, "/a/2"), &[1]),
            (1150, Ask(1, "/a/3"), &[3]),
            (1310, Wait, &[]),
        ],
        &[],
    );
}

#[test]
fn access_sends_retransmissions_to_all() {
    run(
        "from the same face and from others, and not too soon",
        &[
            (0, Ask(1, "/a/1"), &[2, 3, 4]),
            (100, Answer(3, "/a/1"), &[1]),
            (1000, Ask(1, "/a/2"), &[3]),
            (1009, Ask(1, "/a/2"), &[]),
            (1010, Ask(1, "/a/2"), &[2, 3, 4]),
            (1029, Ask(10, "/a/2"), &[]),
            (1030, Ask(10, "/a/2"), &[2, 3, 4]),
            (1040, Answer(4, "/a/2"), &[1, 10]),
            (1050, Ask(1, "/a/3"), &[4]),
        ],
        &[(DropReason::RetransmissionSuppressed, 2)],
    );
}

#[test]
fn access_ignores_removed_routes() {
    let learnt = [(0, Ask(1, "/a/1"), &[2, 3, 4][..]), (100, Answer(3, "/a/1"), &[1][..])];
    let and = |lines: &[Line]| [&learnt[..], lines].concat();
    run("withdrawn", &and(&[(150, Withdraw(3), &[]), (200, Ask(1, "/a/2"), &[2, 4])]), &[]);
    run("removed", &and(&[(150, Remove(3), &[]), (200, Ask(1, "/a/2"), &[2, 4])]), &[]);
    run(
        "while it is waited for",
        &and(&[
            (200, Ask(1, "/a/2"), &[3]),
            (210, Remove(3), &[]),
            // It is sent to the others at once.
            (211, Wait, &[2, 4]),
            (212, Answer(4, "/a/2"), &[1]),
        ]),
        &[],
    );
    run(
        "the last one",
        &and(&[
            (150, Withdraw(2), &[]),
            (150, Withdraw(3), &[]),
            (150, Withdraw(4), &[]),
            (200, Ask(1, "/a/2"), &[]),
        ]),
        &[(DropReason::NoNextHop, 1)],
    );
}

#[test]
fn refused_strategy_timers_are_counted() {
    let case = Case::new("timers").route("/a", 2).route("/a", 3);
    let mut bed = case.with(|world| world.pit_capacity = 100_000).world.bed(1);
    bed.set_strategy(&name("/a"), "/localhost/nfd/strategy/access/v=1");
    bed.process(0, &[from(1, interest("/a/first", 1))]);
    bed.process(1, &[from(3, data("/a/first"))]);
    bed.sent.0.clear();
    let count = 50_000;
    for nonce in 0..count {
        bed.process(2, &[from(1, interest(&format!("/a/{nonce}"), nonce))]);
    }
    assert_eq!(bed.sent.0.len(), count as usize, "all are asked of one face");
    let refused = bed.counters[0].strategy_timers_refused.value();
    assert!(refused > 0 && refused < u64::from(count), "{refused}");
    bed.sent.0.clear();
    bed.advance(1000);
    assert_eq!(bed.sent.0.len() as u64, u64::from(count) - refused, "the others went on to face 2");
}
