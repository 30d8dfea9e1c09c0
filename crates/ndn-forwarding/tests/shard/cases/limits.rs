//! Malformed input and limits: packets are dropped and counted, without further effect.

use ndn_forwarding::{BURST_SIZE, DropReason};
use ndn_types::PrincipalKey;

use super::{Case, data, from, interest, nack, run, to};
use crate::model::Tokens;
use crate::wire::{CONGESTION, Component, Interest, Name, Packet};

fn long_name(components: usize) -> Name {
    vec![Component(8, b"a".to_vec()); components]
}

#[test]
fn empty_and_too_deep_names_are_dropped() {
    let named = |name| Interest { name, ..interest("/a", 1) };
    run([
        Case::new("empty").route("/", 2).dropped(
            0,
            from(1, named(Vec::new())),
            DropReason::EmptyName,
        ),
        Case::new("empty Data").dropped(
            0,
            from(1, crate::wire::Data { name: Vec::new(), ..data("/a") }),
            DropReason::EmptyName,
        ),
        Case::new("as deep as can be").route("/a", 2).at(
            0,
            from(1, named(long_name(63))),
            [to(2, named(long_name(63)))],
        ),
        Case::new("too deep")
            .route("/a", 2)
            .dropped(0, from(1, named(long_name(64))), DropReason::NameTooLong)
            .without_model(),
        Case::new("thousands of components")
            .route("/a", 2)
            .dropped(0, from(1, named(long_name(4000))), DropReason::NameTooLong)
            .without_model(),
    ]);
}

#[test]
fn missing_nonce_is_added() {
    let case = Case::new("no Nonce").route("/a", 2);
    let mut bed = case.world.bed(1);
    for number in 0..3 {
        let mut without = interest(&format!("/a/{number}"), 0).hop_limit(9).lifetime_ms(77);
        without.nonce = None;
        bed.process(0, &[from(1, without.clone())]);
        let sent = &bed.sent.0[number];
        let parsed = ndn_packet::Interest::parse(&sent.wire).unwrap();
        without.nonce = parsed.nonce();
        without.hop_limit = Some(8);
        assert!(without.nonce.is_some());
        assert_eq!(sent.wire, without.encode(), "in its place, and nothing else is changed");
    }
    let nonces: Vec<_> = bed.sent.0.iter().map(|s| s.wire[s.wire.len() - 9..].to_vec()).collect();
    assert!(nonces[0] != nonces[1] && nonces[1] != nonces[2]);
    assert_eq!(bed.blocks_in_use(), 1, "only the block that the next one is written to");
}

#[test]
fn full_pit_refuses_new_entries_and_accepts_joins() {
    run([Case::new("of entries")
        .with(|world| world.pit_capacity = 2)
        .route("/a", 2)
        .at(0, from(1, interest("/a/1", 1)), [to(2, interest("/a/1", 1))])
        .at(0, from(1, interest("/a/2", 2)), [to(2, interest("/a/2", 2))])
        .at(0, from(1, interest("/a/3", 3)), [to(1, nack(CONGESTION, interest("/a/3", 3)))])
        .and_drop(DropReason::PitShare)
        .dropped(9, from(3, interest("/a/1", 4)), DropReason::RetransmissionSuppressed)
        .at(9, from(2, data("/a/1")), [to(1, data("/a/1")), to(3, data("/a/1"))])
        .at(9, from(1, interest("/a/1", 5)), [to(1, data("/a/1"))])
        .at(9, from(1, interest("/a/3", 6)), [to(2, interest("/a/3", 6))])]);
}

#[test]
fn packet_beyond_a_full_burst_is_rejected() {
    let case = Case::new("burst").route("/a", 2);
    let mut bed = case.world.bed(1);
    for number in 0..BURST_SIZE {
        bed.receive(&from(1, interest(&format!("/a/{number}"), 1))).unwrap();
    }
    assert_eq!(bed.receive(&from(1, interest("/a/more", 1))), Err(DropReason::BurstFull));
    bed.process(0, &[]);
    assert_eq!(bed.sent.0.len(), BURST_SIZE);
    assert_eq!(bed.blocks_in_use(), 0);
}

#[test]
fn nonce_flood_causes_bounded_work() {
    // A new Nonce each time for one name: one PIT entry, one record, and few Interests sent.
    let case = Case::new("flood").route("/a", 2);
    let mut bed = case.world.bed(1);
    for nonce in 0..20_000 {
        bed.process(u64::from(nonce) / 100, &[from(1, interest("/a/x", nonce))]);
    }
    assert_eq!(bed.shards[0].pcct_mut().pit_len(), 1);
    assert!(bed.sent.0.len() < 10, "{} left", bed.sent.0.len());
    let suppressed = bed.counters[0].dropped(DropReason::RetransmissionSuppressed);
    assert_eq!(suppressed, 20_000 - bed.sent.0.len() as u64);
}

#[test]
fn malformed_packets_are_counted() {
    let case = Case::new("malformed").route("/a", 2);
    let mut bed = case.world.bed(1);
    let good = interest("/a/x", 1).encode();
    let mut count = 0;
    for cut in 1..good.len() {
        assert!(bed.receive_bytes(1, &good[..cut]).is_err());
        count += 1;
    }
    for first in [0, 1, 4, 7, 100, 255] {
        let mut wrong = good.clone();
        wrong[0] = first;
        assert!(bed.receive_bytes(1, &wrong).is_err());
        count += 1;
    }
    assert_eq!(bed.counters[0].dropped(DropReason::Malformed), count);
    bed.process(0, &[]);
    assert!(bed.sent.0.is_empty());
}

#[test]
fn removed_face_gets_no_answer() {
    let x = |nonce| interest("/a/x", nonce);
    let case = Case::new("gone").route("/a", 2).route("/a", 3);
    let mut bed = case.world.bed(1);
    bed.process(0, &[from(1, x(1)), from(4, x(2))]);
    assert_eq!(bed.sent.0.len(), 1);
    bed.remove_face(1);
    bed.remove_face(2);
    bed.sent.0.clear();
    // An Interest received just before is not answered; other faces are not affected.
    bed.process(1, &[from(1, interest("/a/y", 9))]);
    assert_eq!(bed.counters[0].dropped(DropReason::ArrivalFaceGone), 1);
    assert_eq!(bed.sent.0.iter().map(|sent| sent.face).collect::<Vec<_>>(), [3], "for face 4");
    bed.process(20, &[from(4, x(3))]);
    bed.sent.0.clear();
    bed.process(30, &[from(3, data("/a/x"))]);
    assert_eq!(bed.sent.0.iter().map(|sent| sent.face).collect::<Vec<_>>(), [4]);
    assert_eq!(bed.counters[0].in_records_face_gone.value(), 1);
}

#[test]
fn in_records_with_tokens_are_limited() {
    // Many downstreams for one name, with long tokens, in a PIT with few records.
    let mut case = Case::new("records").route("/a", 2);
    for face in 100..3000 {
        let spec = crate::model::FaceSpec {
            local: false,
            link: crate::model::Link::PointToPoint,
            tokens: Tokens::Never,
            local_fields: false,
        };
        case.world.faces.push((face, spec));
    }
    let mut bed = case.world.bed(1);
    for face in 100..3000 {
        bed.process(0, &[from(face, interest("/a/x", face)).token(&[7; 32])]);
    }
    let refused = bed.counters[0].dropped(DropReason::InRecordsFull);
    assert!(refused > 0, "all 2,900 found room");
    bed.sent.0.clear();
    bed.process(1, &[from(2, data("/a/x"))]);
    assert_eq!(bed.sent.0.len() as u64, 2900 - refused);
    assert!(bed.sent.0.iter().all(|sent| sent.token == [7; 32]));
    let _: Packet = data("/a").into();
}

#[test]
fn parameters_digest_mismatch_is_dropped() {
    let sha256 = |bytes: &[u8]| {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes);
        <[u8; 32]>::try_from(digest.as_ref()).unwrap()
    };
    let prefix: ndn_packet::Name = "/a".parse().unwrap();
    let builder = ndn_packet::InterestBuilder::new(&prefix).nonce(7).parameters(b"parameters");
    let good = builder.to_vec_with_parameters(sha256).unwrap();
    let changed = [&good[..good.len() - 1], b"?"].concat();
    let full_name = ndn_packet::Interest::parse(&good).unwrap().name().to_name();
    let without_parameters = ndn_packet::InterestBuilder::new(&full_name).nonce(7).to_vec();
    let mut without_digest = interest("/a", 7).encode();
    without_digest.extend([36, 1, b'p']);
    without_digest[1] += 3;
    let case = Case::new("parameters").route("/a", 2);
    let mut bed = case.world.bed(1);
    let refused = Err(DropReason::BadParametersDigest);
    for wire in [changed, without_parameters.unwrap(), without_digest] {
        assert_eq!(bed.receive_bytes(1, &wire), refused);
    }
    assert_eq!(bed.counters[0].dropped(DropReason::BadParametersDigest), 3);
    assert_eq!(bed.receive_bytes(1, &good), Ok(()));
    bed.process(0, &[]);
    assert_eq!(bed.sent.0.len(), 1);
    assert_eq!(bed.sent.0[0].wire, good);
}

/// A non-local face.
fn remote() -> crate::model::FaceSpec {
    crate::model::FaceSpec {
        local: false,
        link: crate::model::Link::PointToPoint,
        tokens: Tokens::Never,
        local_fields: false,
    }
}

#[test]
fn data_reaches_many_downstreams_of_many_entries_once() {
    // Each of them has its own token in each entry, so every one of them gets a copy.
    let faces = 100..400;
    let case = Case::new("fan-out").route("/", 2).with(|world| world.pit_capacity = 10_000);
    let mut bed = case.world.bed(1);
    for face in faces.clone() {
        let neighbour = PrincipalKey::Neighbour { face_id: face.into() };
        bed.add_face_of(face, remote(), neighbour);
    }
    let full = long_name(30);
    for length in 1..=30_u8 {
        let name = full[..usize::from(length)].to_vec();
        for face in faces.clone() {
            let nonce = Some(face * 100 + u32::from(length));
            let prefix = Interest { name: name.clone(), nonce, ..interest("/", 0).can_be_prefix() };
            bed.process(0, &[from(face, prefix).token(&[length])]);
        }
    }
    bed.sent.0.clear();
    bed.process(1, &[from(2, crate::wire::Data { name: full, ..data("/") })]);
    assert_eq!(bed.sent.0.len(), 30 * faces.len(), "a copy for each");
    assert_eq!(bed.shards[0].pcct_mut().pit_len(), 0);
}
