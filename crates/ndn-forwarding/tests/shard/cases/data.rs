//! Unsolicited Data, freshness, CanBePrefix, implicit digests.

use ndn_forwarding::DropReason;

use super::{Case, LOCAL_A, data, from, interest, run, to};
use crate::bed::SentKind;
use crate::differential::{seen_departure, seen_sent};
use crate::model::{Time, Unsolicited};
use crate::wire::{Data, Interest, name};

/// An Interest for exactly this packet.
fn interest_for(data: &Data, nonce: u32) -> Interest {
    Interest { name: data.full_name(), ..interest("/", nonce) }
}

#[test]
fn unsolicited_data_is_cached_by_policy_or_dropped() {
    use Unsolicited::{AdmitAll, AdmitLocal, AdmitNetwork, DropAll};
    for (policy, local_is_cached, remote_is_cached) in [
        (DropAll, false, false),
        (AdmitLocal, true, false),
        (AdmitNetwork, false, true),
        (AdmitAll, true, true),
    ] {
        for (face, is_cached) in [(LOCAL_A, local_is_cached), (1, remote_is_cached)] {
            let case = Case::new("unsolicited Data").route("/a", 2).with(|world| {
                world.unsolicited = policy;
            });
            let case = if is_cached {
                case.at(0, from(face, data("/a/x")), []).at(
                    1,
                    from(3, interest("/a/x", 1)),
                    [to(3, data("/a/x"))],
                )
            } else {
                case.dropped(0, from(face, data("/a/x")), DropReason::UnsolicitedData).at(
                    1,
                    from(3, interest("/a/x", 1)),
                    [to(2, interest("/a/x", 1))],
                )
            };
            run([case]);
        }
    }
}

#[test]
fn must_be_fresh_is_answered_until_the_freshness_period_has_passed() {
    let fresh = |nonce| interest("/a/x", nonce).must_be_fresh();
    let x = || data("/a/x").freshness_ms(100);
    run([
        Case::new("until the FreshnessPeriod has passed")
            .route("/a", 2)
            .at(0, from(1, fresh(1)), [to(2, fresh(1))])
            .at(5, from(2, x()), [to(1, x())])
            .at(104, from(1, fresh(2)), [to(1, x())])
            .at(105, from(1, fresh(3)), [to(2, fresh(3))])
            .at(107, from(1, interest("/a/x", 4)), [to(1, x())]),
        Case::new("Data without FreshnessPeriod is never fresh")
            .route("/a", 2)
            .at(0, from(1, fresh(1)), [to(2, fresh(1))])
            .at(5, from(2, data("/a/x")), [to(1, data("/a/x"))])
            .at(5, from(1, fresh(2)), [to(2, fresh(2))]),
        Case::new("the same Data again is fresh again")
            .route("/a", 2)
            .at(0, from(1, fresh(1)), [to(2, fresh(1))])
            .at(5, from(2, x()), [to(1, x())])
            .at(200, from(1, fresh(2)), [to(2, fresh(2))])
            .at(205, from(2, x()), [to(1, x())])
            .at(300, from(1, fresh(3)), [to(1, x())]),
    ]);
}

#[test]
fn can_be_prefix_finds_one_of_several_versions() {
    let prefix = |nonce| interest("/a", nonce).can_be_prefix();
    let version = |uri| data(uri).freshness_ms(100);
    let cached = |title| {
        Case::new(title)
            .route("/a", 2)
            .at(0, from(1, interest("/a/v1", 1)), [to(2, interest("/a/v1", 1))])
            .at(1, from(2, version("/a/v1")), [to(1, version("/a/v1"))])
            .at(200, from(1, interest("/a/v2", 2)), [to(2, interest("/a/v2", 2))])
            .at(201, from(2, version("/a/v2")), [to(1, version("/a/v2"))])
    };
    run([
        cached("the fresh one if it must be").at(
            210,
            from(3, prefix(3).must_be_fresh()),
            [to(3, version("/a/v2"))],
        ),
        cached("none if none is fresh").at(
            310,
            from(3, prefix(3).must_be_fresh()),
            [to(2, prefix(3).must_be_fresh())],
        ),
        cached("not without CanBePrefix").at(
            210,
            from(3, interest("/a", 3)),
            [to(2, interest("/a", 3))],
        ),
        cached("nor under another name").route("/b", 4).at(
            210,
            from(3, interest("/b", 3).can_be_prefix()),
            [to(4, interest("/b", 3).can_be_prefix())],
        ),
    ]);
    // Without MustBeFresh either will do.
    let case = cached("either");
    let mut bed = case.world.bed(1);
    for line in &case.lines {
        bed.process(line.now, std::slice::from_ref(&line.arrival));
    }
    bed.sent.0.clear();
    bed.process(210, &[from(3, prefix(3))]);
    let wires = [version("/a/v1").encode(), version("/a/v2").encode()];
    assert_eq!(bed.sent.0.len(), 1);
    assert!(bed.sent.0[0].face == 3 && wires.contains(&bed.sent.0[0].wire));
}

#[test]
fn data_satisfies_entries_at_three_prefix_lengths_once_per_downstream() {
    let prefix = |uri, nonce| interest(uri, nonce).can_be_prefix();
    run([
        Case::new("from three downstreams")
            .route("/a", 4)
            .at(0, from(1, prefix("/a", 1)), [to(4, prefix("/a", 1))])
            .at(0, from(2, prefix("/a/b", 2)), [to(4, prefix("/a/b", 2))])
            .at(0, from(3, interest("/a/b/c", 3)), [to(4, interest("/a/b/c", 3))])
            .at(0, from(3, interest("/a/b/d", 4)), [to(4, interest("/a/b/d", 4))])
            .at(
                1,
                from(4, data("/a/b/c")),
                [to(1, data("/a/b/c")), to(2, data("/a/b/c")), to(3, data("/a/b/c"))],
            )
            .dropped(2, from(4, data("/a/b/c")), DropReason::UnsolicitedData)
            .at(3, from(4, data("/a/b/d")), [to(3, data("/a/b/d"))]),
        Case::new("from one downstream that waits in all three: one copy")
            .route("/a", 4)
            .at(0, from(1, prefix("/a", 1)), [to(4, prefix("/a", 1))])
            .at(0, from(1, prefix("/a/b", 2)), [to(4, prefix("/a/b", 2))])
            .at(0, from(1, interest("/a/b/c", 3)), [to(4, interest("/a/b/c", 3))])
            .at(1, from(4, data("/a/b/c")), [to(1, data("/a/b/c"))]),
        Case::new("a copy for each of its tokens")
            .route("/a", 4)
            .at(0, from(1, prefix("/a", 1)).token(b"one"), [to(4, prefix("/a", 1))])
            .at(0, from(1, prefix("/a/b", 2)).token(b"two"), [to(4, prefix("/a/b", 2))])
            .at(0, from(1, interest("/a/b/c", 3)).token(b"one"), [to(4, interest("/a/b/c", 3))])
            .at(
                1,
                from(4, data("/a/b/c")),
                [to(1, data("/a/b/c")).token(b"one"), to(1, data("/a/b/c")).token(b"two")],
            ),
    ]);
}

#[test]
fn implicit_digest_is_satisfied_by_its_packet_only() {
    let (right, wrong) = (data("/a/x").content(b"right"), data("/a/x").content(b"wrong"));
    let exact = |nonce| interest_for(&right, nonce);
    run([
        Case::new("only the packet of that digest")
            .route("/a", 2)
            .at(0, from(1, exact(1)), [to(2, exact(1))])
            .dropped(1, from(2, wrong.clone()), DropReason::UnsolicitedData)
            .at(2, from(2, right.clone()), [to(1, right.clone())])
            .at(3, from(3, exact(2)), [to(3, right.clone())])
            .at(4, from(3, interest_for(&wrong, 3)), [to(2, interest_for(&wrong, 3))])
            .at(5, from(3, interest("/a/x", 4)), [to(3, right.clone())]),
        Case::new("together with the name alone")
            .route("/a", 2)
            .at(0, from(1, exact(1)), [to(2, exact(1))])
            .at(0, from(3, interest("/a/x", 2)), [to(2, interest("/a/x", 2))])
            .at(1, from(2, wrong.clone()), [to(3, wrong)])
            .at(2, from(2, right.clone()), [to(1, right.clone())]),
    ]);
}

#[test]
fn data_is_not_sent_to_its_arrival_face() {
    let x = |nonce| interest("/a/x", nonce);
    run([Case::new("to the face it came from")
        .multicast("/a")
        .route("/a", 1)
        .route("/a", 2)
        .at(0, from(1, x(1)), [to(2, x(1))])
        .at(1, from(2, x(2)), [to(1, x(2))])
        .at(2, from(2, data("/a/x")), [to(1, data("/a/x"))])]);
}

#[test]
fn data_with_no_cache_field_is_not_cached() {
    let x = |nonce| interest("/a/x", nonce);
    let mut uncached = from(LOCAL_A, data("/a/x"));
    uncached.no_cache = true;
    run([Case::new("from any face")
        .route("/a", LOCAL_A)
        .at(0, from(1, x(1)), [to(LOCAL_A, x(1))])
        .at(1, uncached, [to(1, data("/a/x"))])
        .at(2, from(1, x(2)), [to(LOCAL_A, x(2))])]);
}

/// Names of the dispatch depth and shorter ones, without a route that would hide a miss.
#[test]
fn cached_data_is_found_by_prefix_whatever_arrived_after_it() {
    for shard_count in [1, 2, 3, 8] {
        let case = Case::new("by prefix").route("/", 2).with(|world| world.cs_capacity = 10_000);
        let mut bed = case.world.bed(shard_count);
        let count: u32 = 1000;
        let uri = |number: u32| format!("/{}/{number}/x", number % 10);
        for number in 0..count {
            let now = Time::from(number);
            bed.process(now, &[from(1, interest(&uri(number), number))]);
            bed.process(now, &[from(2, data(&uri(number)))]);
        }
        assert!(bed.remove_route(&name("/"), 2));
        for number in 0..count {
            let prefix = format!("/{}/{number}", number % 10);
            bed.sent.0.clear();
            let nonce = count + number;
            bed.process(Time::from(nonce), &[from(3, interest(&prefix, nonce).can_be_prefix())]);
            let sent: Vec<_> = bed.sent.0.iter().map(seen_sent).collect();
            let expected = seen_departure(&to(3, data(&uri(number))));
            assert_eq!(sent, [expected], "{prefix}, {shard_count} shards");
        }
        for prefix in (0..10).map(|number| format!("/{number}")) {
            bed.sent.0.clear();
            let asked = interest(&prefix, 5000).can_be_prefix();
            bed.process(Time::from(2 * count), &[from(3, asked)]);
            let kinds: Vec<_> = bed.sent.0.iter().map(|sent| sent.kind).collect();
            assert_eq!(kinds, [SentKind::Data], "{prefix}, {shard_count} shards");
        }
    }
}
