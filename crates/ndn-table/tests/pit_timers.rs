//! Expiry of PIT entries whose deadlines were moved.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{Hashed, hasher, interest, name_of};
use ndn_table::{Pcct, PcctConfig, PitIndex};
use ndn_types::{NANOS_PER_MILLI, PrincipalIndex, Timestamp};

fn millis(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

/// Moves the deadline of an entry to each of `deadlines_ms` at the given times; returns when the
/// entry expires after that.
fn expiry_of(moves_ms: &[(u64, u64)]) -> u64 {
    let mut pcct = Pcct::new(&PcctConfig::with_capacity(64, 16, millis(0)), hasher());
    let name = Hashed::new(&name_of(&[1, 2]));
    let wire = interest(&name.value, 0);
    let index = pcct
        .insert_new_interest(&name.interest(false, false), &wire, PrincipalIndex::OTHER)
        .unwrap();
    for &(now, deadline) in moves_ms {
        assert_eq!(expire(&mut pcct, millis(now)), None, "{moves_ms:?} at {now}");
        pcct.set_expiry(index, millis(deadline), millis(now));
    }
    loop {
        let now = pcct.next_deadline().unwrap();
        if let Some(expired) = expire(&mut pcct, now) {
            assert_eq!(expired, index);
            break now.as_nanos();
        }
    }
}

fn expire(pcct: &mut Pcct, now: Timestamp) -> Option<PitIndex> {
    let mut budget = 1000;
    let expired = pcct.pop_expired(now, &mut budget);
    assert!(budget > 0);
    expired
}

#[test]
fn timer_lateness_is_bounded_after_many_changes_of_the_deadline() {
    let cases: [(&[(u64, u64)], u64); 7] = [
        (&[(0, 7000)], 0),
        (&[(0, 20_000)], 0),
        (&[(0, 7000), (0, 6000)], 0),
        (&[(0, 7000), (0, 6000), (0, 5000)], 0),
        (&[(0, 7000), (0, 6000), (0, 5000), (0, 4000), (0, 3000)], 0),
        (&[(0, 7000), (0, 6000), (0, 200), (0, 100), (0, 50)], 150),
        (&[(0, 7000), (0, 6000), (0, 5000), (1, 20), (2, 10)], 240),
    ];
    for (moves, late_ms_max) in cases {
        let deadline = millis(moves.last().unwrap().1).as_nanos();
        let expired = expiry_of(moves);
        let latest = deadline + (late_ms_max + 2) * NANOS_PER_MILLI;
        assert!(deadline <= expired && expired <= latest, "{moves:?}: {expired}");
    }
}

/// The worst case of a sequence of decreasing lifetimes, at every position in it.
#[test]
fn timer_lateness_is_bounded_for_random_sequences_of_deadlines() {
    for start in (100..8000).step_by(373) {
        for factor in [50, 80, 95, 99] {
            let mut moves: Vec<(u64, u64)> = Vec::new();
            let mut deadline: u64 = start;
            let mut now = 0;
            while deadline > now + 5 {
                moves.push((now, deadline));
                let expired = expiry_of(&moves);
                let latest = (deadline + 252) * NANOS_PER_MILLI;
                assert!(expired <= latest, "{moves:?}: {expired}");
                now += 1;
                deadline = deadline * factor / 100;
            }
        }
    }
}
