//! Nacks: originated, returned, dropped.

use ndn_forwarding::DropReason;

use super::{AD_HOC, Case, MULTI_ACCESS, data, from, interest, nack, run, to};
use crate::bed::SentKind;
use crate::wire::{CONGESTION, DUPLICATE, NO_ROUTE};

#[test]
fn interest_without_route_gets_a_nack_or_is_dropped() {
    let x = || interest("/a/x", 1);
    run([
        Case::new("to the one that asked")
            .at(0, from(1, x()).token(b"tok"), [to(1, nack(NO_ROUTE, x())).token(b"tok")])
            .and_drop(DropReason::NoNextHop),
        Case::new("not on a multi-access or ad-hoc face")
            .dropped(0, from(MULTI_ACCESS, x()), DropReason::NoNextHop)
            .dropped(0, from(AD_HOC, x()), DropReason::NoNextHop),
        Case::new("with HopLimit as it would have left")
            .at(0, from(1, x().hop_limit(9)), [to(1, nack(NO_ROUTE, x().hop_limit(8)))])
            .and_drop(DropReason::NoNextHop),
        Case::new("multicast says nothing").multicast("/a").dropped(
            0,
            from(1, x()),
            DropReason::NoNextHop,
        ),
    ]);
}

#[test]
fn nack_is_returned_after_those_of_all_upstreams() {
    let x = |nonce| interest("/a/x", nonce);
    let two_upstreams = |title| {
        Case::new(title)
            .route("/a", 2)
            .route("/a", 3)
            .at(0, from(1, x(1)).token(b"t"), [to(2, x(1))])
            .at(20, from(4, x(2)), [to(3, x(2))])
    };
    run([
        Case::new("from the only one")
            .route("/a", 2)
            .at(0, from(1, x(1)).token(b"t"), [to(2, x(1))])
            .at(
                9,
                from(2, nack(NO_ROUTE, x(1))).mark(1),
                [to(1, nack(NO_ROUTE, x(1))).token(b"t").mark(1)],
            )
            .dropped(10, from(2, data("/a/x")), DropReason::UnsolicitedData),
        two_upstreams("to every downstream with its own Nonce, the least severe reason")
            .at(30, from(2, nack(DUPLICATE, x(1))), [])
            .at(
                40,
                from(3, nack(CONGESTION, x(2))),
                [to(1, nack(CONGESTION, x(1))).token(b"t"), to(4, nack(CONGESTION, x(2)))],
            ),
        two_upstreams("no reason is worse than any").at(30, from(2, nack(0, x(1))), []).at(
            40,
            from(3, nack(NO_ROUTE, x(2))),
            [to(1, nack(NO_ROUTE, x(1))).token(b"t"), to(4, nack(NO_ROUTE, x(2)))],
        ),
        two_upstreams("Data after the first Nack").at(30, from(2, nack(NO_ROUTE, x(1))), []).at(
            40,
            from(3, data("/a/x")),
            [to(1, data("/a/x")).token(b"t"), to(4, data("/a/x"))],
        ),
        Case::new("an upstream that is also a downstream waits for us")
            .route("/a", 2)
            .route("/a", 3)
            .at(0, from(1, x(1)), [to(2, x(1))])
            .at(20, from(2, x(2)), [to(3, x(2))])
            .at(30, from(3, nack(NO_ROUTE, x(2))), [to(2, nack(NO_ROUTE, x(2)))])
            .at(40, from(2, nack(NO_ROUTE, x(1))), [to(1, nack(NO_ROUTE, x(1)))]),
        Case::new("not to a downstream whose Interest has expired")
            .route("/a", 2)
            .at(0, from(1, x(1)), [to(2, x(1))])
            .dropped(1, from(4, x(2).lifetime_ms(100)), DropReason::RetransmissionSuppressed)
            .at(200, from(2, nack(NO_ROUTE, x(1))), [to(1, nack(NO_ROUTE, x(1)))]),
        Case::new("and the Nonce is dead")
            .route("/a", 2)
            .at(0, from(1, x(1)), [to(2, x(1))])
            .at(9, from(2, nack(NO_ROUTE, x(1))), [to(1, nack(NO_ROUTE, x(1)))])
            .at(10, from(4, x(1)), [to(4, nack(DUPLICATE, x(1)))])
            .and_drop(DropReason::DeadNonce),
    ]);
}

#[test]
fn nack_without_matching_out_record_is_dropped() {
    let x = |nonce| interest("/a/x", nonce);
    let pending = |title| Case::new(title).route("/a", 2).at(0, from(1, x(1)), [to(2, x(1))]);
    run([
        pending("with another Nonce")
            .dropped(1, from(2, nack(NO_ROUTE, x(9))), DropReason::NackNonce)
            .at(2, from(2, data("/a/x")), [to(1, data("/a/x"))]),
        pending("from a face that was not asked").dropped(
            1,
            from(3, nack(NO_ROUTE, x(1))),
            DropReason::NackNoOutRecord,
        ),
        pending("for something else")
            .dropped(1, from(2, nack(NO_ROUTE, interest("/a/y", 1))), DropReason::NackUnmatched)
            .dropped(1, from(2, nack(NO_ROUTE, x(1).must_be_fresh())), DropReason::NackUnmatched),
        Case::new("from a multi-access face")
            .route("/a", MULTI_ACCESS)
            .at(0, from(1, x(1)), [to(MULTI_ACCESS, x(1))])
            .dropped(1, from(MULTI_ACCESS, nack(NO_ROUTE, x(1))), DropReason::NackLinkType),
        pending("twice")
            .at(1, from(2, nack(NO_ROUTE, x(1))), [to(1, nack(NO_ROUTE, x(1)))])
            .dropped(2, from(2, nack(NO_ROUTE, x(1))), DropReason::NackUnmatched),
    ]);
}

#[test]
fn removed_upstream_is_not_awaited() {
    let x = |nonce| interest("/a/x", nonce);
    let case = Case::new("gone").route("/a", 2).route("/a", 3);
    let mut bed = case.world.bed(1);
    bed.process(0, &[from(1, x(1))]);
    bed.process(20, &[from(4, x(2))]);
    assert_eq!(bed.sent.0.iter().map(|sent| sent.face).collect::<Vec<_>>(), [2, 3]);
    bed.remove_face(2);
    bed.sent.0.clear();
    bed.process(30, &[from(3, nack(NO_ROUTE, x(2)))]);
    let mut sent: Vec<_> = bed.sent.0.iter().map(|sent| (sent.face, sent.kind)).collect();
    sent.sort_unstable();
    assert_eq!(sent, [(1, SentKind::Nack(NO_ROUTE)), (4, SentKind::Nack(NO_ROUTE))]);
    assert_eq!(bed.shards[0].pcct_mut().pit_len(), 0);
}

#[test]
fn overload_nack_is_sent_by_the_receiving_shard() {
    for shard_count in [1, 3] {
        let mut bed = Case::new("no time").route("/", 2).world.bed(shard_count);
        let uris: Vec<_> = (0..20).map(|number| format!("/{number}/x")).collect();
        for uri in &uris {
            bed.receive(&from(1, interest(uri, 7))).unwrap();
        }
        bed.refuse_received();
        bed.process(0, &[]);
        let sent: Vec<_> = bed.sent.0.iter().map(|sent| (sent.face, sent.kind)).collect();
        assert_eq!(sent, vec![(1, SentKind::Nack(CONGESTION)); uris.len()]);
        assert_eq!(bed.counters[0].dropped(DropReason::Overload), uris.len() as u64);
        for counters in &bed.counters[1..] {
            assert_eq!(counters.in_interests.value(), 0);
        }
        bed.check_accounts().unwrap();
    }
}
