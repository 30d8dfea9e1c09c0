//! Aggregation, retransmission, loops, HopLimit, scope, ForwardingHint, local fields.

use ndn_forwarding::DropReason;

use super::{AD_HOC, Case, LOCAL_A, LOCAL_B, MULTI_ACCESS, data, from, interest, nack, run, to};
use crate::bed::{Bed, MANAGEMENT};
use crate::model::Arrival;
use crate::wire::{DUPLICATE, NO_ROUTE, name};

#[test]
fn equal_interests_are_aggregated_in_one_entry() {
    run([
        Case::new("two downstreams, one upstream Interest, two Data")
            .route("/a", 2)
            .at(0, from(1, interest("/a/x", 1)), [to(2, interest("/a/x", 1))])
            .dropped(5, from(3, interest("/a/x", 2)), DropReason::RetransmissionSuppressed)
            .at(9, from(2, data("/a/x")), [to(1, data("/a/x")), to(3, data("/a/x"))]),
        Case::new("selectors are part of the entry")
            .route("/a", 2)
            .at(0, from(1, interest("/a/x", 1)), [to(2, interest("/a/x", 1))])
            .at(
                1,
                from(3, interest("/a/x", 2).must_be_fresh()),
                [to(2, interest("/a/x", 2).must_be_fresh())],
            )
            .at(
                2,
                from(4, interest("/a/x", 3).can_be_prefix()),
                [to(2, interest("/a/x", 3).can_be_prefix())],
            )
            .at(
                9,
                from(2, data("/a/x")),
                [to(1, data("/a/x")), to(3, data("/a/x")), to(4, data("/a/x"))],
            ),
        Case::new("a downstream whose lifetime has passed gets no Data")
            .route("/a", 2)
            .at(
                0,
                from(1, interest("/a/x", 1).lifetime_ms(50)),
                [to(2, interest("/a/x", 1).lifetime_ms(50))],
            )
            .at(
                40,
                from(3, interest("/a/x", 2).lifetime_ms(1000)),
                [to(2, interest("/a/x", 2).lifetime_ms(1000))],
            )
            .at(50, from(2, data("/a/x")), [to(3, data("/a/x"))]),
        Case::new("the entry ends at the very millisecond, whenever its timer fires")
            .route("/a", 2)
            .at(
                0,
                from(1, interest("/a/x", 1).lifetime_ms(50)),
                [to(2, interest("/a/x", 1).lifetime_ms(50))],
            )
            .dropped(50, from(2, data("/a/x")), DropReason::UnsolicitedData),
    ]);
}

#[test]
fn retransmission_is_suppressed_or_sent_to_the_next_upstream() {
    let x = |nonce| interest("/a/x", nonce);
    run([
        Case::new("best-route tries the next upstream, then the one tried longest ago")
            .route("/a", 2)
            .route("/a", 3)
            .at(0, from(1, x(1)), [to(2, x(1))])
            .dropped(9, from(1, x(2)), DropReason::RetransmissionSuppressed)
            .at(10, from(1, x(3)), [to(3, x(3))])
            .dropped(29, from(1, x(4)), DropReason::RetransmissionSuppressed)
            .at(30, from(1, x(5)), [to(2, x(5))])
            .dropped(69, from(1, x(6)), DropReason::RetransmissionSuppressed)
            .at(70, from(1, x(7)), [to(3, x(7))])
            .at(80, from(2, data("/a/x")), [to(1, data("/a/x"))]),
        Case::new("the same Nonce from the same neighbour is a retransmission")
            .route("/a", 2)
            .at(0, from(1, x(1)), [to(2, x(1))])
            .at(100, from(1, x(1)), [to(2, x(1))]),
        Case::new("multicast goes to all, and suppresses each by itself")
            .multicast("/a")
            .route("/a", 2)
            .route("/a", 3)
            .at(0, from(1, x(1)), [to(2, x(1)), to(3, x(1))])
            .dropped(9, from(1, x(2)), DropReason::RetransmissionSuppressed)
            .at(10, from(3, x(3)), [to(2, x(3))])
            .at(20, from(1, x(4)), [to(3, x(4))])
            .at(30, from(2, data("/a/x")), [to(1, data("/a/x")), to(3, data("/a/x"))]),
    ]);
}

/// Others repeat Interests that an upstream does not answer: they end at the next host, before the answer arrives, or are
/// sent elsewhere. Their names are those that a downstream is going to ask for.
#[test]
fn interests_of_others_do_not_suppress_those_of_a_downstream_for_long() {
    let x = |nonce| interest("/a/x", nonce);
    let suppressed = DropReason::RetransmissionSuppressed;
    let attacks = [
        ("with a small HopLimit", x(1).hop_limit(2), x(1).hop_limit(1), 2),
        ("with a short lifetime", x(1).lifetime_ms(15), x(1).lifetime_ms(15), 2),
        ("with a ForwardingHint", x(1).hint("/hole"), x(1).hint("/hole"), 4),
    ];
    run(attacks.map(|(title, asked, sent, upstream)| {
        Case::new(title)
            .route("/a", 2)
            .route("/hole", 4)
            .at(0, from(3, asked), [to(upstream, sent)])
            .dropped(1, from(1, x(2)), suppressed)
            .at(2, from(1, x(3)), [to(2, x(3))])
            .dropped(3, from(1, x(4)), suppressed)
            .at(4, from(1, x(5)), [to(2, x(5))])
            .dropped(5, from(1, x(6)), suppressed)
            .dropped(6, from(1, x(7)), suppressed)
            .dropped(7, from(1, x(8)), suppressed)
            .at(8, from(1, x(9)), [to(2, x(9))])
    }));
    run([Case::new("multicast")
        .multicast("/a")
        .route("/a", 2)
        .route("/a", 4)
        .at(0, from(3, x(1)), [to(2, x(1)), to(4, x(1))])
        .dropped(1, from(1, x(2)), suppressed)
        .at(2, from(1, x(3)), [to(2, x(3)), to(4, x(3))])
        .dropped(3, from(1, x(4)), suppressed)]);
}

/// A downstream repeats an Interest so often that the suppression interval is the longest and never over.
#[test]
fn repeated_interests_of_one_downstream_starve_no_other_one() {
    for strategy in ["best-route", "multicast", "asf", "access"] {
        let case = Case::new(strategy).route("/a", 2);
        let mut bed = case.world.bed(1);
        bed.set_strategy(&name("/"), &format!("/localhost/nfd/strategy/{strategy}"));
        let mut nonces = 1..;
        for round in 0..6 {
            let mut is_sent = |bed: &mut Bed, now: u64, face, hop_limit| {
                let before = bed.sent.0.len();
                let asked = interest(&format!("/a/{round}"), nonces.next().unwrap());
                bed.process(now, &[from(face, asked.hop_limit(hop_limit))]);
                bed.sent.0[before..].iter().any(|sent| sent.face == 2)
            };
            let begin = round * 10_000;
            let repetitions = (0..=5000).step_by(250);
            let is_last_sent = repetitions.map(|at| is_sent(&mut bed, begin + at, 3, 2)).last();
            assert_eq!(is_last_sent, Some(true), "{strategy}");
            let is_first_sent = is_sent(&mut bed, begin + 5010, 1, 9);
            assert!(!is_first_sent, "{strategy}: another one was sent just before");
            assert!(is_sent(&mut bed, begin + 5200, 1, 9), "{strategy}, round {round}");
        }
    }
}

#[test]
fn interest_with_duplicate_nonce_is_dropped() {
    let x = || interest("/a/x", 1);
    let looped = DropReason::DuplicateNonce;
    run([
        Case::new("on two point-to-point faces")
            .route("/a", 2)
            .at(0, from(1, x()), [to(2, x())])
            .at(5, from(3, x()), [to(3, nack(DUPLICATE, x()))])
            .and_drop(looped),
        Case::new("coming back from the upstream")
            .route("/a", 2)
            .at(0, from(1, x()), [to(2, x())])
            .at(5, from(2, x()), [to(2, nack(DUPLICATE, x()))])
            .and_drop(looped),
        Case::new("no Nack on a multi-access face, where even its own Nonce is a loop")
            .route("/a", 2)
            .at(0, from(1, x()), [to(2, x())])
            .dropped(5, from(MULTI_ACCESS, x()), looped)
            .at(6, from(MULTI_ACCESS, interest("/a/y", 7)), [to(2, interest("/a/y", 7))])
            .dropped(7, from(MULTI_ACCESS, interest("/a/y", 7)), looped),
        Case::new("after the entry has expired, in the dead nonce list")
            .route("/a", 2)
            .at(0, from(1, x().lifetime_ms(20)), [to(2, x().lifetime_ms(20))])
            .at(30, from(3, x()), [to(3, nack(DUPLICATE, x()))])
            .and_drop(DropReason::DeadNonce)
            .at(40, from(3, interest("/a/x", 2)), [to(2, interest("/a/x", 2))]),
        Case::new("satisfied by Data that is fresh for shorter than the Nonce is remembered")
            .route("/a", 2)
            .at(0, from(1, x().must_be_fresh()), [to(2, x().must_be_fresh())])
            .at(5, from(2, data("/a/x").freshness_ms(10)), [to(1, data("/a/x").freshness_ms(10))])
            .at(20, from(3, x().must_be_fresh()), [to(3, nack(DUPLICATE, x().must_be_fresh()))])
            .and_drop(DropReason::DeadNonce),
        Case::new("satisfied by one of several upstreams, without a cache")
            .multicast("/")
            .with(|world| world.cs_capacity = 0)
            .route("/a", 2)
            .route("/a", 3)
            .at(0, from(1, x()), [to(2, x()), to(3, x())])
            .at(5, from(2, data("/a/x")), [to(1, data("/a/x"))])
            .at(6, from(4, x()), [to(4, nack(DUPLICATE, x()))])
            .and_drop(DropReason::DeadNonce),
        Case::new("satisfied by one of several upstreams, answered from the cache")
            .multicast("/")
            .route("/a", 2)
            .route("/a", 3)
            .at(0, from(1, x()), [to(2, x()), to(3, x())])
            .at(5, from(2, data("/a/x")), [to(1, data("/a/x"))])
            .at(6, from(4, x()), [to(4, data("/a/x"))]),
        Case::new("after a retransmission replaced it")
            .route("/a", 2)
            .at(0, from(1, x()), [to(2, x())])
            .at(20, from(1, interest("/a/x", 2)), [to(2, interest("/a/x", 2))])
            .at(30, from(3, x()), [to(3, nack(DUPLICATE, x()))])
            .and_drop(DropReason::DeadNonce),
        Case::new(
            "after another downstream's Interest replaced it, except from its own downstream",
        )
        .route("/a", 2)
        .at(0, from(1, x()), [to(2, x())])
        .at(20, from(3, interest("/a/x", 2)), [to(2, interest("/a/x", 2))])
        .at(30, from(4, x()), [to(4, nack(DUPLICATE, x()))])
        .and_drop(looped)
        .dropped(31, from(1, x()), DropReason::RetransmissionSuppressed)
        .at(32, from(2, data("/a/x")), [to(1, data("/a/x")), to(3, data("/a/x"))]),
        Case::new("after a Nack ended the in-record that had it")
            .route("/a", 2)
            .at(0, from(1, x()), [to(2, x())])
            .at(20, from(3, interest("/a/x", 2)), [to(2, interest("/a/x", 2))])
            .at(
                30,
                from(2, nack(NO_ROUTE, interest("/a/x", 2))),
                [to(1, nack(NO_ROUTE, x())), to(3, nack(NO_ROUTE, interest("/a/x", 2)))],
            )
            .at(40, from(4, x()), [to(4, nack(DUPLICATE, x()))])
            .and_drop(DropReason::DeadNonce),
    ]);
}

#[test]
fn hop_limit_is_decremented_and_ends_the_interest() {
    run([
        Case::new("0 is dropped on arrival").route("/a", 2).dropped(
            0,
            from(1, interest("/a/x", 1).hop_limit(0)),
            DropReason::HopLimitZero,
        ),
        Case::new("1 reaches local faces only")
            .route("/a", 2)
            .route("/l", LOCAL_A)
            .dropped(0, from(1, interest("/a/x", 1).hop_limit(1)), DropReason::HopLimitReached)
            .at(
                0,
                from(1, interest("/l/x", 2).hop_limit(1)),
                [to(LOCAL_A, interest("/l/x", 2).hop_limit(0))],
            ),
        Case::new("1 is answered by the Content Store")
            .route("/a", 2)
            .at(0, from(1, interest("/a/x", 1)), [to(2, interest("/a/x", 1))])
            .at(1, from(2, data("/a/x")), [to(1, data("/a/x"))])
            .at(2, from(3, interest("/a/x", 2).hop_limit(1)), [to(3, data("/a/x"))]),
        Case::new("more is decremented").route("/a", 2).at(
            0,
            from(1, interest("/a/x", 1).hop_limit(255)),
            [to(2, interest("/a/x", 1).hop_limit(254))],
        ),
    ]);
}

#[test]
fn localhost_and_localhop_interests_stay_in_their_scope() {
    let local = || interest("/localhost/x", 1);
    let request = || interest("/localhost/nfd/x", 1);
    let command = || interest("/localhop/nfd/x", 1);
    let hop = |nonce| interest("/localhop/x", nonce);
    run([
        Case::new("/localhost from a remote face")
            .route("/localhost", LOCAL_A)
            .dropped(0, from(1, local()), DropReason::LocalhostScope)
            .at(1, from(LOCAL_B, local()), [to(LOCAL_A, local())])
            .dropped(2, from(1, data("/localhost/x")), DropReason::DataLocalhostScope)
            .at(3, from(LOCAL_A, data("/localhost/x")), [to(LOCAL_B, data("/localhost/x"))]),
        Case::new("/localhost/nfd is answered by management alone")
            .route("/localhost/nfd", LOCAL_A)
            .at(0, from(LOCAL_B, request()), [to(LOCAL_A, request())])
            .dropped(1, from(LOCAL_A, data("/localhost/nfd/x")), DropReason::DataLocalhostScope),
        Case::new("/localhop/nfd is answered by management alone if it serves it")
            .with(|world| {
                let spec = world.faces.iter().find(|(face, _)| *face == LOCAL_A).unwrap().1;
                world.faces.push((MANAGEMENT, spec));
            })
            .route("/localhop", LOCAL_A)
            .route("/localhop/nfd", MANAGEMENT)
            .at(0, from(1, command()), [to(MANAGEMENT, command())])
            .dropped(1, from(LOCAL_A, data("/localhop/nfd/x")), DropReason::DataLocalhostScope)
            .dropped(2, from(2, data("/localhop/nfd/x")), DropReason::DataLocalhostScope)
            .at(3, from(MANAGEMENT, data("/localhop/nfd/x")), [to(1, data("/localhop/nfd/x"))])
            .without_model(),
        Case::new("/localhop/nfd is answered by a router if management does not serve it")
            .route("/localhop/nfd", 2)
            .at(0, from(LOCAL_A, command()), [to(2, command())])
            .at(1, from(2, data("/localhop/nfd/x")), [to(LOCAL_A, data("/localhop/nfd/x"))]),
        Case::new("/localhost never leaves the machine")
            .route("/localhost", 2)
            .at(0, from(LOCAL_A, local()), [to(LOCAL_A, nack(NO_ROUTE, local()))])
            .and_drop(DropReason::NoNextHop),
        Case::new("/localhop goes one hop")
            .route("/localhop", 2)
            .at(0, from(LOCAL_A, hop(1)), [to(2, hop(1))])
            .at(1, from(2, data("/localhop/x")), [to(LOCAL_A, data("/localhop/x"))])
            .at(
                2,
                from(1, interest("/localhop/y", 2)),
                [to(1, nack(NO_ROUTE, interest("/localhop/y", 2)))],
            )
            .and_drop(DropReason::NoNextHop)
            .at(3, from(1, hop(3)), [to(1, data("/localhop/x"))]),
        Case::new("/localhop from a remote face to an application")
            .route("/localhop", LOCAL_A)
            .at(0, from(1, hop(1)), [to(LOCAL_A, hop(1))])
            .at(1, from(LOCAL_A, data("/localhop/x")), [to(1, data("/localhop/x"))]),
    ]);
}

#[test]
fn hinted_interest_follows_its_hint_until_the_region() {
    let hinted = |nonce| interest("/a/x", nonce).hint("/none").hint("/region/r1");
    run([
        Case::new("out of region: by the first delegation with a route, and the hint stays")
            .route("/region", 3)
            .route("/a", 2)
            .at(0, from(1, hinted(1)), [to(3, hinted(1))])
            .at(9, from(3, data("/a/x")), [to(1, data("/a/x"))]),
        Case::new("no delegation has a route, though the name does")
            .route("/a", 2)
            .at(0, from(1, hinted(1)), [to(1, nack(NO_ROUTE, hinted(1)))])
            .and_drop(DropReason::NoNextHop),
        Case::new("in region: by the name, and the hint is gone")
            .with(|world| world.regions = vec![name("/region/r1/net")])
            .route("/region", 3)
            .route("/a", 2)
            .at(0, from(1, hinted(1)), [to(2, interest("/a/x", 1))])
            .at(9, from(2, data("/a/x")), [to(1, data("/a/x"))]),
        Case::new("the strategy is that of the name")
            .multicast("/a")
            .route("/region", 3)
            .route("/region", 4)
            .at(0, from(1, hinted(1)), [to(3, hinted(1)), to(4, hinted(1))]),
    ]);
}

#[test]
fn packets_are_sent_back_on_ad_hoc_faces_only() {
    let x = |nonce| interest("/a/x", nonce);
    run([
        Case::new("on an ad-hoc face")
            .route("/a", AD_HOC)
            .at(0, from(AD_HOC, x(1)), [to(AD_HOC, x(1))])
            .at(1, from(AD_HOC, data("/a/x")), [to(AD_HOC, data("/a/x"))]),
        Case::new("but not on others")
            .route("/a", 2)
            .at(0, from(2, x(1)), [to(2, nack(NO_ROUTE, x(1)))])
            .and_drop(DropReason::NoNextHop),
    ]);
}

#[test]
fn local_fields_are_used_where_they_are_enabled() {
    let x = || interest("/a/x", 1);
    let chosen = |face| {
        let mut arrival = from(LOCAL_A, x());
        arrival.next_hop = Some(face);
        arrival
    };
    run([
        Case::new("NextHopFaceId is followed where local fields are on")
            .route("/a", 2)
            .face(LOCAL_A, |face| face.local_fields = true)
            .at(0, chosen(3), [to(3, x())])
            .at(1, from(3, data("/a/x")), [to(LOCAL_A, data("/a/x")).incoming(3)]),
        Case::new("and not allowed elsewhere").route("/a", 2).dropped(
            0,
            chosen(3),
            DropReason::BadLinkField,
        ),
        Case::new("CachePolicy is for Data").route("/a", 2).dropped(
            0,
            Arrival { no_cache: true, ..from(LOCAL_A, x()) },
            DropReason::BadLinkField,
        ),
        Case::new("to a face that is not there")
            .route("/a", 2)
            .face(LOCAL_A, |face| face.local_fields = true)
            .dropped(0, chosen(99), DropReason::NextHopFaceGone),
        Case::new("IncomingFaceId says where an Interest or a Data comes from")
            .route("/a", LOCAL_A)
            .face(LOCAL_A, |face| face.local_fields = true)
            .at(0, from(1, x()), [to(LOCAL_A, x()).incoming(1)])
            .at(1, from(LOCAL_A, data("/a/x")), [to(1, data("/a/x"))])
            .at(2, from(LOCAL_A, interest("/a/x", 2)), [to(LOCAL_A, data("/a/x")).incoming(254)]),
    ]);
}

#[test]
fn congestion_marks_are_forwarded() {
    run([Case::new("in both directions")
        .route("/a", 2)
        .at(0, from(1, interest("/a/x", 1)).mark(1), [to(2, interest("/a/x", 1)).mark(1)])
        .at(1, from(2, data("/a/x")).mark(7), [to(1, data("/a/x")).mark(7)])
        .at(2, from(3, interest("/a/x", 2)), [to(3, data("/a/x"))])]);
}

#[test]
fn removed_downstream_does_not_block_content_store_hits() {
    let x = |nonce| interest("/a/x", nonce);
    let case = Case::new("gone").route("/a", 2);
    let mut bed = case.world.bed(1);
    bed.process(0, &[from(1, x(1)), from(3, x(2))]);
    assert_eq!(bed.counters[0].cs_misses.value(), 1, "the second one joins the first");
    bed.remove_face(1);
    bed.process(20, &[from(4, x(3))]);
    assert_eq!(bed.counters[0].cs_misses.value(), 1, "face 3 waits");
    bed.remove_face(3);
    bed.remove_face(4);
    bed.process(60, &[from(MULTI_ACCESS, x(4))]);
    assert_eq!(bed.counters[0].cs_misses.value(), 2);
}

#[test]
fn interest_without_hop_limit_gets_the_default() {
    let case = Case::new("default HopLimit").route("/a", 2);
    for (default, limit) in [(5, 5), (255, 254)] {
        let mut bed = case.world.bed(1);
        bed.set_default_hop_limit(default);
        bed.process(0, &[from(1, interest("/a/1", 1))]);
        let wire = &bed.sent.0[0].wire;
        let sent = ndn_packet::Interest::parse(wire).unwrap();
        assert_eq!((sent.hop_limit(), sent.nonce()), (Some(limit), Some(1)));
        // An Interest with its own HopLimit keeps it, less one.
        let with_limit = crate::wire::Interest { hop_limit: Some(9), ..interest("/a/2", 2) };
        bed.process(1, &[from(1, with_limit)]);
        let sent = ndn_packet::Interest::parse(&bed.sent.0[1].wire).unwrap();
        assert_eq!(sent.hop_limit(), Some(8));
    }
}
