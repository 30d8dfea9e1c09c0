//! Shares of principals: what one takes does not keep others from their shares.

use std::net::Ipv4Addr;

use ndn_forwarding::DropReason;
use ndn_table::Resource;
use ndn_types::{PrincipalKey, Reserves, Resources as _};

use super::{Case, data, from, interest};
use crate::bed::{Bed, BedConfig, SentKind};
use crate::model::{Face, FaceSpec, Link, Tokens};
use crate::random::Random;
use crate::wire::{CONGESTION, name};

/// Faces of the attacking host, all with one address.
const ATTACKERS: std::ops::Range<Face> = 100..113;
/// A peer with another address, an application, a neighbour, and management.
const BYSTANDERS: std::ops::Range<Face> = 50..54;
/// A further peer.
const OTHER_PEER: Face = 60;
/// Upstreams: of the attack, which never answers, and of the bystanders.
const HOLE: Face = 2;
const PRODUCER: Face = 3;
const LONGEST_MS: u64 = 60_000;
const REMOTE: FaceSpec =
    FaceSpec { local: false, link: Link::PointToPoint, tokens: Tokens::Never, local_fields: false };

fn address(number: u32) -> PrincipalKey {
    PrincipalKey::remote((Ipv4Addr::from_bits(0xC000_0200 + number), 6363).into())
}

fn principal(face: Face) -> PrincipalKey {
    match face {
        50 => address(2),
        51 => PrincipalKey::LocalApplication { uid: 1000, pid: 7 },
        53 => PrincipalKey::Management,
        OTHER_PEER => address(3),
        face if ATTACKERS.contains(&face) => address(1),
        face => PrincipalKey::Neighbour { face_id: u64::from(face) },
    }
}

fn bed(shard_count: usize, pit_capacity: usize) -> Bed {
    let reserves = Reserves::default();
    let mut bed =
        Bed::new(&BedConfig { shard_count, pit_capacity, reserves, ..BedConfig::default() });
    let upstreams = [HOLE, PRODUCER, 4, 5, 6, 7];
    for face in upstreams.into_iter().chain(BYSTANDERS).chain([OTHER_PEER]).chain(ATTACKERS) {
        bed.add_face_of(face, REMOTE, principal(face));
    }
    bed.add_route(&name("/hole"), HOLE, 0);
    bed.add_route(&name("/good"), PRODUCER, 0);
    bed
}

/// Number of Interests of a face, out of 20, that the producer answers.
fn service(bed: &mut Bed, now: u64, round: u32, face: Face) -> usize {
    let mut answered = 0;
    for number in 0..20 {
        let uri = format!("/good/{round}/{face}/{number}");
        bed.sent.0.clear();
        let nonce = 1_000_000 + round * 10_000 + face * 100 + number;
        bed.process(now, &[from(face, interest(&uri, nonce))]);
        bed.process(now, &[from(PRODUCER, data(&uri))]);
        let is_answer = |sent: &&crate::bed::Sent| sent.face == face && sent.kind == SentKind::Data;
        answered += bed.sent.0.iter().filter(is_answer).count();
        bed.settle_crossings(now);
    }
    answered
}

fn assert_everything_is_given_back(bed: &mut Bed, now: u64) {
    bed.advance(now + LONGEST_MS + 1000);
    bed.check_accounts().unwrap();
    bed.check_ledgers().unwrap();
    assert!(bed.shards.iter().all(|shard| shard.ledger().is_zero()), "ledger not at zero");
}

#[test]
fn ports_of_one_address_leave_the_pit_to_others() {
    for shard_count in [1, 3] {
        let mut bed = bed(shard_count, 600);
        let mut serial = 0;
        for round in 0..30 {
            let now = u64::from(round) * 10;
            for face in ATTACKERS {
                for _ in 0..10 {
                    serial += 1;
                    let unanswered = interest(&format!("/hole/{serial}"), serial);
                    bed.process(now, &[from(face, unanswered.lifetime_ms(LONGEST_MS))]);
                }
            }
            for face in BYSTANDERS {
                let answered = service(&mut bed, now, round, face);
                assert_eq!(answered, 20, "face {face}, round {round}, {shard_count} shards");
            }
            bed.check_accounts().unwrap();
            bed.check_ledgers().unwrap();
        }
        let refused: u64 = bed.counters.iter().map(|c| c.dropped(DropReason::PitShare)).sum();
        assert!(refused > 1000, "{refused} refused: the attack did not fill the PIT");
        assert_everything_is_given_back(&mut bed, 300);
    }
}

#[test]
fn refused_and_evicted_interests_get_a_nack_of_congestion() {
    let mut bed = bed(1, 100);
    for serial in 0..200 {
        let unanswered = interest(&format!("/hole/{serial}"), serial);
        bed.process(0, &[from(100, unanswered.lifetime_ms(LONGEST_MS))]);
    }
    let nacks = |bed: &Bed, face| {
        let is_nack =
            |sent: &&crate::bed::Sent| sent.face == face && sent.kind == SentKind::Nack(CONGESTION);
        bed.sent.0.iter().filter(is_nack).count()
    };
    // 31 of the 100 places are reserves of other classes.
    assert_eq!(nacks(&bed, 100), 200 - 69);
    bed.sent.0.clear();
    bed.process(1, &[from(50, interest("/good/x", 1000))]);
    assert_eq!((nacks(&bed, 100), nacks(&bed, 50)), (1, 0), "one gives way");
    assert_eq!(bed.counters[0].dropped(DropReason::Evicted), 1);
    assert_everything_is_given_back(&mut bed, 1);
}

#[test]
fn long_interests_of_one_address_leave_memory_to_others() {
    let mut bed = bed(1, 1000);
    let long = "x".repeat(2000);
    for serial in 0..600 {
        let face = 100 + serial % 13;
        let unanswered = interest(&format!("/hole/{long}/{serial}"), serial);
        bed.process(0, &[from(face, unanswered.lifetime_ms(LONGEST_MS))]);
    }
    assert!(bed.counters[0].dropped(DropReason::PitShare) > 100, "the memory is not full");
    for (round, length) in (0..).zip([2000, 400, 5000, 20]) {
        for face in BYSTANDERS {
            let uri = format!("/good/{}/{face}/{round}", "y".repeat(length));
            bed.sent.0.clear();
            bed.process(1, &[from(face, interest(&uri, 10_000 + round * 100 + face))]);
            bed.process(1, &[from(PRODUCER, data(&uri))]);
            let answers = bed.sent.0.iter().filter(|sent| sent.face == face).count();
            assert_eq!(answers, 1, "{length} bytes of face {face}");
        }
    }
    assert_everything_is_given_back(&mut bed, 1);
}

/// Each length is one that the memory was divided by formerly.
#[test]
fn long_interests_of_all_lengths_leave_memory_to_others_of_any_length() {
    let mut bed = bed(1, 1000);
    let lengths = [150, 220, 280, 350, 400, 470, 600, 700, 820, 950, 1080, 1200, 1400, 1700, 2500];
    for (serial, length) in (0..).zip(lengths.repeat(2)) {
        let uri = format!("/hole/{}/{serial}", "x".repeat(length));
        bed.process(0, &[from(100, interest(&uri, serial).lifetime_ms(LONGEST_MS))]);
    }
    for (round, length) in (0..).zip([3000, 500, 4000, 6000, 8000]) {
        for face in BYSTANDERS {
            let uri = format!("/good/{}/{face}/{round}", "y".repeat(length));
            bed.sent.0.clear();
            bed.process(1, &[from(face, interest(&uri, 10_000 + round * 100 + face))]);
            bed.process(1, &[from(PRODUCER, data(&uri))]);
            let answers = bed.sent.0.iter().filter(|sent| sent.face == face).count();
            assert_eq!(answers, 1, "{length} bytes of face {face}");
        }
    }
    bed.check_ledgers().unwrap();
    assert_everything_is_given_back(&mut bed, 1);
}

/// The place that gives way is behind thousands that do not.
#[test]
fn request_below_its_share_is_served_wherever_the_largest_holder_is() {
    for is_long in [false, true] {
        let mut bed = bed(1, 12_000);
        let long = "x".repeat(7000);
        let mut serial = 0;
        let mut send = |bed: &mut Bed, face, name: &str, count| {
            for _ in 0..count {
                serial += 1;
                let sent = interest(&format!("/{name}/{serial}"), serial).lifetime_ms(LONGEST_MS);
                bed.process(0, &[from(face, sent)]);
            }
        };
        // Less than its share.
        send(&mut bed, OTHER_PEER, "hole", 4000);
        let before = bed.counters[0].dropped(DropReason::PitShare);
        match is_long {
            false => send(&mut bed, 100, "hole", 12_000),
            true => send(&mut bed, 100, &format!("hole/{long}"), 2000),
        }
        let refused = bed.counters[0].dropped(DropReason::PitShare);
        assert!(refused - before > 500, "there is room for the attack");
        let name = if is_long { format!("hole/{long}") } else { "hole".to_owned() };
        send(&mut bed, 50, &name, 100);
        assert_eq!(bed.counters[0].dropped(DropReason::PitShare), refused);
        assert_eq!(bed.counters[0].dropped(DropReason::PitFull), 0);
        bed.check_ledgers().unwrap();
        // What was taken in advance is found.
        send(&mut bed, 50, "hole", 100);
        let report = bed.shards[0].ledger();
        for (resource, table) in Resource::ALL.iter().zip(&report.resources) {
            assert!(table.total <= table.capacity, "{resource:?}: {table:?}");
        }
        bed.check_accounts().unwrap();
        assert_everything_is_given_back(&mut bed, 1);
    }
}

#[test]
fn ports_of_one_address_take_few_in_records_of_an_entry() {
    let mut bed = bed(1, 5000);
    for face in 200..400 {
        bed.add_face_of(face, REMOTE, address(1));
        bed.process(0, &[from(face, interest("/good/all", face).lifetime_ms(LONGEST_MS))]);
    }
    assert_eq!(bed.counters[0].dropped(DropReason::InRecordsFull), 200 - 64);
    // Those that have one renew it.
    bed.process(1, &[from(200, interest("/good/all", 1000).lifetime_ms(LONGEST_MS))]);
    assert_eq!(bed.counters[0].dropped(DropReason::InRecordsFull), 200 - 64);
    bed.process(1, &[from(OTHER_PEER, interest("/good/all", 1001))]);
    bed.sent.0.clear();
    bed.process(2, &[from(PRODUCER, data("/good/all"))]);
    assert_eq!(bed.sent.0.len(), 65);
    assert_everything_is_given_back(&mut bed, 3);
}

#[test]
fn expired_in_records_free_their_places_in_an_entry() {
    let mut bed = bed(1, 5000);
    bed.process(0, &[from(OTHER_PEER, interest("/good/all", 1).lifetime_ms(LONGEST_MS))]);
    for face in 200..265 {
        bed.add_face_of(face, REMOTE, address(1));
    }
    for face in 200..264 {
        bed.process(0, &[from(face, interest("/good/all", face).lifetime_ms(4000))]);
    }
    bed.process(3999, &[from(264, interest("/good/all", 264))]);
    assert_eq!(bed.counters[0].dropped(DropReason::InRecordsFull), 1);
    bed.process(4001, &[from(264, interest("/good/all", 265))]);
    assert_eq!(bed.counters[0].dropped(DropReason::InRecordsFull), 1);
    bed.check_accounts().unwrap();
    bed.check_ledgers().unwrap();
    bed.sent.0.clear();
    bed.process(4002, &[from(PRODUCER, data("/good/all"))]);
    assert_eq!(bed.sent.0.len(), 2);
    assert_everything_is_given_back(&mut bed, 4003);
}

#[test]
fn connections_of_one_application_all_wait_in_an_entry() {
    let mut bed = bed(1, 5000);
    let application = PrincipalKey::LocalApplication { uid: 1000, pid: 7 };
    for face in 200..400 {
        bed.add_face_of(face, REMOTE, application);
        bed.process(0, &[from(face, interest("/good/all", face))]);
    }
    bed.sent.0.clear();
    bed.process(1, &[from(PRODUCER, data("/good/all"))]);
    assert_eq!(bed.sent.0.len(), 200);
    assert_everything_is_given_back(&mut bed, 2);
}

#[test]
fn ports_of_many_addresses_leave_in_records_of_an_entry_to_others() {
    const ADDRESSES: u32 = 20;
    let mut bed = bed(1, 5000);
    let ports = 200..1400;
    for face in ports.clone() {
        bed.add_face_of(face, REMOTE, address(10 + face % ADDRESSES));
        bed.process(0, &[from(face, interest("/good/all", face).lifetime_ms(LONGEST_MS))]);
    }
    // An address with as many in-records as another one takes no place of it.
    assert_eq!(bed.counters[0].dropped(DropReason::InRecordsFull), 1200 - 1024);
    for face in BYSTANDERS.chain([OTHER_PEER]) {
        bed.process(1, &[from(face, interest("/good/all", face))]);
    }
    // The ports do not get their places back.
    for face in ports {
        bed.process(2, &[from(face, interest("/good/all", 10_000 + face).lifetime_ms(LONGEST_MS))]);
    }
    bed.check_accounts().unwrap();
    bed.check_ledgers().unwrap();
    bed.sent.0.clear();
    bed.process(3, &[from(PRODUCER, data("/good/all"))]);
    assert_eq!(bed.sent.0.len(), 1024);
    for face in BYSTANDERS.chain([OTHER_PEER]) {
        let is_answer = |sent: &crate::bed::Sent| sent.face == face && sent.kind == SentKind::Data;
        assert!(bed.sent.0.iter().any(is_answer), "face {face}");
    }
    assert_everything_is_given_back(&mut bed, 3);
}

/// The principal that the PIT entry of the only pending Interest is charged to.
fn holder(bed: &Bed) -> PrincipalKey {
    let report = bed.shards[0].ledger();
    let holds = |resource: Resource| {
        let of = report.principals.iter().find(|principal| principal.held[resource.index()] > 0);
        of.map(|principal| principal.key)
    };
    holds(Resource::Entries).unwrap()
}

#[test]
fn entry_is_charged_to_the_downstream_that_keeps_it_longest() {
    let mut bed = bed(1, 1000);
    let sent = |face, nonce, lifetime_ms| {
        from(face, interest("/hole/x", nonce).lifetime_ms(lifetime_ms)).token(&[7; 20])
    };
    bed.process(0, &[sent(100, 1, 500)]);
    assert_eq!(holder(&bed), address(1));
    bed.process(10, &[sent(OTHER_PEER, 2, 100)]);
    assert_eq!(holder(&bed), address(1), "the other one ends first");
    bed.process(20, &[sent(50, 3, 4000)]);
    assert_eq!(holder(&bed), address(2));
    bed.process(30, &[sent(50, 4, 100)]);
    assert_eq!(holder(&bed), address(1), "the latest is renewed with a shorter lifetime");
    bed.process(40, &[sent(OTHER_PEER, 5, 2000)]);
    assert_eq!(holder(&bed), address(3));
    bed.check_ledgers().unwrap();
    bed.remove_face(OTHER_PEER);
    bed.advance(50);
    assert_eq!(holder(&bed), address(1));
    bed.advance(502);
    assert!(bed.shards[0].ledger().is_zero(), "the entry ends with the last downstream");
    bed.check_accounts().unwrap();
}

#[test]
fn latest_expiry_is_found_while_faces_come_and_go() {
    const HOUR_MS: u64 = 3_600_000;
    let mut bed = bed(2, 4000);
    for serial in 0..3000 {
        bed.process(0, &[from(51, interest(&format!("/hole/{serial}"), serial))]);
    }
    bed.process(0, &[from(51, interest("/nowhere", 5000).lifetime_ms(HOUR_MS))]);
    for round in 0..400 {
        // A face that was removed for each step of the pass over the PIT.
        bed.remove_face(100 + round % 13);
        bed.add_face(100 + round % 13, REMOTE);
        bed.poll(ndn_types::Timestamp::from_millis(2_000 + u64::from(round)));
    }
    let latest = bed.counters.iter().map(|counters| counters.latest_expiry_ns.value()).max();
    assert!(latest.unwrap() < 60_000 * 1_000_000, "{latest:?}");
}

/// The places that a principal holds.
fn held(bed: &Bed, key: PrincipalKey, resource: Resource) -> u32 {
    let report = bed.shards[0].ledger();
    let of = report.principals.iter().find(|principal| principal.key == key);
    of.map_or(0, |principal| principal.held[resource.index()])
}

fn send(bed: &mut Bed, now: u64, face: Face, uri: &str, nonce: u32, lifetime_ms: u64) {
    bed.process(now, &[from(face, interest(uri, nonce).lifetime_ms(lifetime_ms))]);
}

#[test]
fn principal_with_its_share_does_not_get_entries_of_others_by_joining_them() {
    let mut bed = bed(1, 200);
    let neighbour = 52;
    for serial in 0..30 {
        send(&mut bed, 0, neighbour, &format!("/hole/by/{serial}"), serial, 4000);
    }
    for serial in 0..200 {
        send(&mut bed, 0, 100, &format!("/hole/{serial}"), 1000 + serial, LONGEST_MS);
    }
    let before = held(&bed, address(1), Resource::Entries);
    assert!(bed.counters[0].dropped(DropReason::PitShare) > 0, "the PIT is not full");
    for serial in 0..30 {
        let uri = format!("/hole/by/{serial}");
        send(&mut bed, 1, 101, &uri, 2000 + serial, LONGEST_MS);
        // One that ends earlier takes no entry.
        send(&mut bed, 1, 102, &uri, 3000 + serial, 100);
    }
    assert_eq!(held(&bed, address(1), Resource::Entries), before);
    assert_eq!(held(&bed, principal(neighbour), Resource::Entries), 30);
    assert_eq!(held(&bed, address(1), Resource::InRecords), 30);
    bed.check_ledgers().unwrap();
    assert_everything_is_given_back(&mut bed, 1);
}

/// A neighbour leaves, and what it has waited for is charged to a peer that has its share already.
#[test]
fn admission_of_one_interest_evicts_few_others() {
    let mut bed = bed(1, 1000);
    let neighbour = 52;
    for serial in 0..200 {
        let uri = format!("/hole/by/{serial}");
        send(&mut bed, 0, neighbour, &uri, serial, LONGEST_MS);
        send(&mut bed, 0, 101, &uri, 1000 + serial, 30_000);
    }
    for serial in 0..1000 {
        send(&mut bed, 0, 100, &format!("/hole/{serial}"), 2000 + serial, LONGEST_MS);
    }
    let open = held(&bed, address(1), Resource::Entries);
    bed.remove_face(neighbour);
    bed.advance(1);
    assert_eq!(held(&bed, address(1), Resource::Entries), open + 200);
    let mut refused = 0;
    for serial in 0..40 {
        let dropped = |reason| bed.counters[0].dropped(reason);
        let before = (dropped(DropReason::Evicted), dropped(DropReason::PitShare));
        send(&mut bed, 2, OTHER_PEER, &format!("/hole/other/{serial}"), 4000 + serial, 4000);
        let dropped = |reason| bed.counters[0].dropped(reason);
        let evicted = dropped(DropReason::Evicted) - before.0;
        assert!(evicted <= 16, "{evicted} ended at once");
        refused += dropped(DropReason::PitShare) - before.1;
        // The reserves are free meanwhile.
        send(&mut bed, 2, 51, &format!("/hole/local/{serial}"), 5000 + serial, 4000);
    }
    assert!(refused < 20, "{refused} of 40 refused");
    assert_eq!(held(&bed, principal(51), Resource::Entries), 40);
    bed.check_ledgers().unwrap();
    assert_everything_is_given_back(&mut bed, 2);
}

#[test]
fn interest_that_is_evicted_stays_for_downstreams_within_their_shares() {
    let mut bed = bed(1, 100);
    for serial in 0..40 {
        send(&mut bed, 0, 100, &format!("/hole/{serial}"), serial, LONGEST_MS);
        send(&mut bed, 0, OTHER_PEER, &format!("/hole/o/{serial}"), 100 + serial, LONGEST_MS);
    }
    send(&mut bed, 1, OTHER_PEER, "/hole/5", 300, 50_000);
    send(&mut bed, 1, 50, "/hole/5", 301, 4000);
    bed.sent.0.clear();
    for serial in 0..12 {
        send(&mut bed, 2, 50, &format!("/good/{serial}"), 400 + serial, 4000);
    }
    let nack = SentKind::Nack(CONGESTION);
    let nacks = |face| bed.sent.0.iter().filter(move |sent| sent.face == face && sent.kind == nack);
    // One of them ended without a place.
    assert_eq!(nacks(100).count() + nacks(OTHER_PEER).count(), 12 + 2);
    assert_eq!(held(&bed, address(2), Resource::Entries), 13);
    bed.sent.0.clear();
    bed.process(3, &[from(HOLE, data("/hole/5"))]);
    assert_eq!(bed.sent.0.iter().map(|sent| sent.face).collect::<Vec<_>>(), [50]);
    bed.check_ledgers().unwrap();
    assert_everything_is_given_back(&mut bed, 3);
}

#[test]
fn record_is_charged_to_the_new_principal_of_a_face_once_it_is_renewed() {
    let mut bed = bed(1, 1000);
    let (first, second) = (110, 111);
    for (face, uri) in [(first, "/hole/a"), (first, "/hole/b"), (second, "/hole/b")] {
        let sent = interest(uri, face).lifetime_ms(LONGEST_MS);
        bed.process(0, &[from(face, sent).token(&[9; 20])]);
    }
    let now = PrincipalKey::Neighbour { face_id: 7000 };
    let charged = [Resource::Entries, Resource::InRecords, Resource::LongTokens];
    let all = |bed: &Bed, key| charged.map(|resource| held(bed, key, resource));
    assert_eq!(all(&bed, address(1)), [2, 1, 3]);
    for (face, expected) in [(first, [2, 0, 2]), (second, [2, 1, 3])] {
        bed.add_face_of(face, REMOTE, now);
        for (number, uri) in (500..).zip(["/hole/a", "/hole/b"]) {
            if (face, uri) != (second, "/hole/a") {
                let sent = interest(uri, face + number).lifetime_ms(LONGEST_MS);
                bed.process(1, &[from(face, sent).token(&[9; 20])]);
            }
        }
        assert_eq!(all(&bed, now), expected, "face {face}");
        bed.check_ledgers().unwrap();
    }
    assert_eq!(all(&bed, address(1)), [0, 0, 0]);
    assert_everything_is_given_back(&mut bed, 1);
}

#[test]
fn joins_of_one_address_leave_aggregation_to_others() {
    for shard_count in [1, 3] {
        let mut bed = bed(shard_count, 1000);
        let mut nonce = 0;
        for number in 0..400 {
            for face in ATTACKERS {
                nonce += 1;
                let joined = interest(&format!("/hole/{number}"), nonce).lifetime_ms(LONGEST_MS);
                bed.process(0, &[from(face, joined).token(&[7; 32])]);
            }
        }
        let full: u64 = bed.counters.iter().map(|c| c.dropped(DropReason::InRecordsFull)).sum();
        assert!(full > 100, "{full}: the attack did not fill the in-records");
        for number in 0..20 {
            let uri = format!("/good/{number}");
            bed.sent.0.clear();
            let downstreams = BYSTANDERS.chain([OTHER_PEER]);
            for face in downstreams.clone() {
                nonce += 1;
                bed.process(1, &[from(face, interest(&uri, nonce)).token(&[8; 32])]);
            }
            bed.process(1, &[from(PRODUCER, data(&uri))]);
            for face in downstreams {
                let is_answer = |sent: &crate::bed::Sent| {
                    sent.face == face && sent.kind == SentKind::Data && sent.token == [8; 32]
                };
                assert!(bed.sent.0.iter().any(is_answer), "{uri} for face {face}");
            }
        }
        bed.check_accounts().unwrap();
        bed.check_ledgers().unwrap();
        assert_everything_is_given_back(&mut bed, 1);
    }
}

#[test]
fn next_hops_of_one_address_leave_out_records_to_others() {
    let mut bed = bed(1, 1000);
    for (cost, face) in (1..).zip([PRODUCER, 4, 5, 6, 7]) {
        bed.add_route(&name("/all"), face, cost);
    }
    bed.set_strategy(&name("/all"), "/localhost/nfd/strategy/multicast");
    for serial in 0..600 {
        let sent = interest(&format!("/all/{serial}"), serial).lifetime_ms(LONGEST_MS);
        bed.process(0, &[from(100 + serial % 13, sent)]);
    }
    assert!(bed.counters[0].dropped(DropReason::OutRecordsFull) > 100, "room for the attack");
    for face in BYSTANDERS {
        bed.sent.0.clear();
        bed.process(1, &[from(face, interest(&format!("/all/by/{face}"), 10_000 + face))]);
        let upstreams = bed.sent.0.iter().filter(|sent| sent.kind == SentKind::Interest).count();
        assert_eq!(upstreams, 5, "face {face}");
    }
    bed.check_ledgers().unwrap();
    assert_everything_is_given_back(&mut bed, 1);
}

#[test]
fn short_prefix_interests_of_one_address_leave_places_to_others() {
    let mut bed = bed(3, 10_000);
    bed.add_route(&Vec::new(), HOLE, 9);
    for serial in 0..12_000 {
        let short = interest(&format!("/{serial}"), serial).can_be_prefix();
        bed.process(0, &[from(100 + serial % 13, short.lifetime_ms(LONGEST_MS))]);
    }
    let full = |bed: &Bed| -> u64 {
        let of = |counters: &std::sync::Arc<ndn_forwarding::Counters>| {
            counters.dropped(DropReason::ShortPrefixInterestsFull)
        };
        bed.counters.iter().map(of).sum()
    };
    assert!(full(&bed) > 1000, "{}: the attack did not fill the table", full(&bed));
    let before = full(&bed);
    for number in 0..40 {
        let face = 50 + number % 4;
        let uri = format!("/by{number}");
        bed.sent.0.clear();
        bed.process(1, &[from(face, interest(&uri, 100_000 + number).can_be_prefix())]);
        bed.settle_crossings(1);
        bed.process(1, &[from(HOLE, data(&format!("{uri}/x/y")))]);
        bed.settle_crossings(1);
        let answers = bed.sent.0.iter().filter(|sent| sent.face == face).count();
        assert_eq!(answers, 1, "{uri} of face {face}");
    }
    assert_eq!(full(&bed), before);
    assert_everything_is_given_back(&mut bed, 1);
    assert_eq!(bed.published(), 0);
}

#[test]
fn pending_interests_of_a_removed_face_end() {
    let mut bed = bed(1, 1000);
    for serial in 0..500 {
        bed.process(0, &[from(100, interest(&format!("/hole/{serial}"), serial))]);
    }
    bed.process(0, &[from(50, interest("/hole/7", 1000)).token(&[1; 20])]);
    bed.remove_face(100);
    bed.advance(1);
    assert_eq!(bed.shards[0].pcct_mut().pit_len(), 1, "the one that another waits for");
    let report = bed.shards[0].ledger();
    let held = |resource: Resource| report.resources[resource.index()].total;
    assert_eq!((held(Resource::Entries), held(Resource::InRecords)), (1, 0));
    let holder = report.principals.iter().find(|p| p.held[Resource::Entries.index()] > 0);
    assert_eq!(holder.unwrap().key, address(2), "it passes to the one that waits");
    bed.check_accounts().unwrap();
    bed.check_ledgers().unwrap();
    bed.sent.0.clear();
    bed.process(2, &[from(HOLE, data("/hole/7"))]);
    assert_eq!(bed.sent.0.iter().map(|sent| sent.face).collect::<Vec<_>>(), [50]);
    assert_everything_is_given_back(&mut bed, 2);
}

#[test]
fn latest_expiry_is_one_of_pending_interests() {
    const HOUR_MS: u64 = 3_600_000;
    let mut bed = bed(2, 1000);
    let latest_ms = |bed: &Bed| {
        let latest = bed.counters.iter().map(|counters| counters.latest_expiry_ns.value());
        latest.max().unwrap() / 1_000_000
    };
    for serial in 0..8 {
        let unrouted = interest(&format!("/nowhere/{serial}"), serial).lifetime_ms(HOUR_MS);
        bed.process(0, &[from(51, unrouted)]);
    }
    assert!(latest_ms(&bed) >= HOUR_MS);
    bed.process(10, &[from(51, interest("/hole/1", 100).lifetime_ms(30_000))]);
    bed.advance(2_000);
    assert_eq!(latest_ms(&bed), 30_010, "that of the Interest that is pending");
    assert_everything_is_given_back(&mut bed, 2_000);
}

#[test]
fn shard_without_pending_interests_has_no_deadline() {
    let mut bed = bed(2, 1000);
    for serial in 0..50 {
        let now = 1_000_000 + u64::from(serial);
        bed.process(now, &[from(51, interest(&format!("/good/{serial}"), serial))]);
        bed.process(now, &[from(PRODUCER, data(&format!("/good/{serial}")))]);
    }
    // Timer records of Interests that were answered are due within their lifetime.
    bed.advance(1_020_000);
    for shard in &bed.shards {
        assert_eq!(shard.next_deadline(), None);
    }
}

/// Random traffic of four principals in a PIT that is much too small.
#[test]
fn evictions_keep_accounts_and_ledger_exact() {
    let mut evicted = 0;
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let mut bed = bed(if seed % 2 == 0 { 1 } else { 3 }, 20 + random.below(30));
        bed.add_route(&name("/n"), HOLE, 0);
        bed.add_route(&name("/n"), PRODUCER, 1);
        bed.set_strategy(&name("/n/1"), "/localhost/nfd/strategy/multicast");
        let faces: Vec<Face> = BYSTANDERS.chain([OTHER_PEER]).chain(100..104).collect();
        let mut now = 0;
        for step in 0..300_u32 {
            now += random.below(20) as u64;
            let face = *random.pick(&faces);
            let uri = format!("/n/{}/{}", random.below(3), random.below(60));
            let arrival = match random.below(10) {
                0 => from(*random.pick(&[HOLE, PRODUCER]), data(&uri)),
                _ => {
                    let mut sent = interest(&uri, 1 + step);
                    if random.percent(30) {
                        sent = sent.can_be_prefix();
                    }
                    let sent = sent.lifetime_ms(*random.pick(&[50, 500, 5_000, LONGEST_MS]));
                    let token = vec![3; *random.pick(&[0, 0, 4, 32])];
                    from(face, sent).token(&token)
                }
            };
            bed.process(now, &[arrival]);
            if random.percent(1) {
                bed.remove_face(face);
                bed.advance(now);
            }
            let context = |error| panic!("seed {seed}, step {step}: {error}");
            bed.check_accounts().unwrap_or_else(context);
            bed.check_ledgers().unwrap_or_else(context);
        }
        evicted += bed.counters.iter().map(|c| c.dropped(DropReason::Evicted)).sum::<u64>();
        assert_everything_is_given_back(&mut bed, now);
    }
    assert!(evicted > 100, "only {evicted} in-records were evicted");
}

#[test]
fn one_principal_may_use_all_that_is_not_reserved() {
    let case = Case::new("alone").route("/a", 2).with(|world| world.pit_capacity = 50);
    let mut bed = case.world.bed(1);
    for serial in 0..60 {
        bed.process(0, &[from(1, interest(&format!("/a/{serial}"), serial))]);
    }
    assert_eq!(bed.shards[0].pcct_mut().pit_len(), 50);
    assert_eq!(bed.counters[0].dropped(DropReason::PitShare), 10);
}

/// A prefix under the strategy ASF, whose cheaper next hop does not answer.
struct Adaptive {
    bed: Bed,
    now: u64,
    nonce: u32,
}

impl Adaptive {
    fn new() -> Self {
        let mut bed = bed(1, 20_000);
        bed.add_route(&name("/asf"), HOLE, 0);
        bed.add_route(&name("/asf"), PRODUCER, 10);
        bed.set_strategy(&name("/asf"), "/localhost/nfd/strategy/asf");
        Self { bed, now: 0, nonce: 0 }
    }

    /// The upstreams that an Interest of this face is sent to. The producer answers it.
    fn ask(&mut self, face: Face) -> Vec<Face> {
        self.nonce += 1;
        let uri = format!("/asf/by/{}", self.nonce);
        self.bed.sent.0.clear();
        self.bed.process(self.now, &[from(face, interest(&uri, self.nonce))]);
        let asked = self.bed.sent.0.iter().map(|sent| sent.face).collect();
        self.bed.process(self.now + 10, &[from(PRODUCER, data(&uri))]);
        self.now += 20;
        asked
    }

    /// [`Self::ask`] until ASF knows that the cheaper next hop does not answer.
    fn learn(&mut self, face: Face) {
        for _ in 0..10 {
            self.ask(face);
            self.wait();
        }
        assert!(self.ask(face).contains(&PRODUCER), "the cheaper next hop does not answer");
    }

    /// Longer than an Interest is pending.
    fn wait(&mut self) {
        self.now += 5000;
        self.bed.advance(self.now);
    }

    /// An Interest of the attacking host with a hint.
    fn send_hinted(&mut self, uri: &str, serial: u32) {
        let hinted = interest(uri, 1_000_000 + serial).hint("/hole");
        self.bed.process(self.now, &[from(100 + serial % 13, hinted)]);
    }

    /// Hinted Interests for ten thousand names.
    fn flood(&mut self) {
        (0..10_000).for_each(|serial| self.send_hinted(&format!("/asf/{serial}/x"), serial));
    }

    fn assert_known(&mut self, face: Face) {
        for _ in 0..20 {
            let asked = self.ask(face);
            assert!(asked.contains(&PRODUCER), "{asked:?}");
        }
    }
}

/// Each Interest with a hint makes measurements of its own, which need no answer.
#[test]
fn hinted_interests_of_one_host_leave_measurements_to_others() {
    let mut adaptive = Adaptive::new();
    adaptive.learn(50);
    adaptive.flood();
    adaptive.assert_known(50);
}

/// Measurements that the host has made belong to a bystander, too, once that has used them.
#[test]
fn measurements_of_a_host_stay_while_others_use_them() {
    let mut adaptive = Adaptive::new();
    adaptive.learn(100);
    adaptive.ask(50);
    adaptive.flood();
    adaptive.assert_known(50);
}

/// A hinted Interest is measured for a prefix of its own, which is longer than that of the route.
#[test]
fn hinted_interests_under_a_longer_prefix_take_no_answers_from_the_route() {
    let mut adaptive = Adaptive::new();
    adaptive.learn(50);
    for serial in 0..10 {
        adaptive.send_hinted(&format!("/asf/by/hinted/{serial}"), serial);
        let asked = adaptive.ask(50);
        assert!(asked.contains(&PRODUCER), "after {serial} hinted Interests: {asked:?}");
        adaptive.wait();
    }
}
