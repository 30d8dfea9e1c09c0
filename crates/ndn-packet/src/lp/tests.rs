use super::*;
use crate::error::{DecodeError, EncodeError};
use crate::testing::{assert_exact, hex, nested, tlv};
use crate::types as t;

const FRAGMENT: &[u8] = &[80, 5, 5, 3, 7, 1, 0];

fn lp(parts: &[&[u8]]) -> Vec<u8> {
    nested(t::LP_PACKET, parts)
}

fn parse(wire: &[u8]) -> LpPacket<'_> {
    LpPacket::parse(wire).unwrap()
}

fn error(parts: &[&[u8]]) -> DecodeError {
    LpPacket::parse(&lp(parts)).unwrap_err()
}

/// Every header field once, in order.
fn fields() -> Vec<(u32, Vec<u8>)> {
    vec![
        (t::LP_SEQUENCE, tlv(t::LP_SEQUENCE, &[1; 8])),
        (t::LP_FRAG_INDEX, tlv(t::LP_FRAG_INDEX, &[2])),
        (t::LP_FRAG_COUNT, tlv(t::LP_FRAG_COUNT, &[3])),
        (t::LP_PIT_TOKEN, tlv(t::LP_PIT_TOKEN, &[4; 6])),
        (t::LP_NACK, nested(t::LP_NACK, &[&tlv(t::LP_NACK_REASON, &[50])])),
        (t::LP_INCOMING_FACE_ID, tlv(t::LP_INCOMING_FACE_ID, &[1, 0])),
        (t::LP_NEXT_HOP_FACE_ID, tlv(t::LP_NEXT_HOP_FACE_ID, &[1, 1])),
        (t::LP_CACHE_POLICY, nested(t::LP_CACHE_POLICY, &[&tlv(t::LP_CACHE_POLICY_TYPE, &[1])])),
        (t::LP_CONGESTION_MARK, tlv(t::LP_CONGESTION_MARK, &[1])),
        (t::LP_ACK, tlv(t::LP_ACK, &[5; 8])),
        (t::LP_TX_SEQUENCE, tlv(t::LP_TX_SEQUENCE, &[6; 8])),
        (t::LP_NON_DISCOVERY, tlv(t::LP_NON_DISCOVERY, &[])),
        (t::LP_PREFIX_ANNOUNCEMENT, nested(t::LP_PREFIX_ANNOUNCEMENT, &[&[6, 2, 7, 0]])),
    ]
}

#[test]
fn reads_every_field() {
    let fields = fields();
    let mut parts: Vec<&[u8]> = fields.iter().map(|(_, field)| &field[..]).collect();
    parts.push(FRAGMENT);
    let wire = lp(&parts);
    let packet = parse(&wire);
    assert!(!packet.is_bare() && packet.has_fragmentation());
    assert_eq!(packet.wire(), wire);
    assert_eq!(packet.sequence(), Some(0x0101_0101_0101_0101));
    assert_eq!((packet.frag_index(), packet.frag_count()), (2, 3));
    assert_eq!(packet.pit_token(), Some(&[4; 6][..]));
    assert_eq!(packet.nack(), Some(NackReason::CONGESTION));
    assert_eq!(packet.incoming_face_id(), Some(256));
    assert_eq!(packet.next_hop_face_id(), Some(257));
    assert_eq!(packet.cache_policy(), Some(1));
    assert_eq!(packet.congestion_mark(), Some(1));
    assert_eq!(packet.acks().collect::<Vec<_>>(), [0x0505_0505_0505_0505]);
    assert_eq!(packet.tx_sequence(), Some(0x0606_0606_0606_0606));
    assert!(packet.non_discovery());
    assert_eq!(packet.prefix_announcement(), Some(&[6, 2, 7, 0][..]));
    assert_eq!(packet.fragment(), Some(&FRAGMENT[2..]));
    assert_eq!(wire[packet.fragment_offset().unwrap()..], FRAGMENT[2..]);
    assert_exact(&wire, |bytes| LpPacket::parse(bytes).ok().map(|_| ()));

    let header = LpHeader {
        sequence: packet.sequence(),
        frag_index: Some(2),
        frag_count: Some(3),
        pit_token: &[4; 6],
        nack: packet.nack(),
        incoming_face_id: packet.incoming_face_id(),
        next_hop_face_id: packet.next_hop_face_id(),
        cache_policy: packet.cache_policy(),
        congestion_mark: packet.congestion_mark(),
        acks: &[0x0505_0505_0505_0505],
        tx_sequence: packet.tx_sequence(),
        non_discovery: true,
        prefix_announcement: packet.prefix_announcement(),
    };
    let mut out = vec![0; wire.len()];
    assert_eq!(header.write(&FRAGMENT[2..], &mut out), Ok(wire.len()));
    assert_eq!(out, wire);
    assert_eq!(header.encoded_len(5) + 5, wire.len());
    assert!(!header.is_empty());
}

#[test]
fn each_field_is_read_without_the_others() {
    for (ty, field) in fields() {
        let wire = lp(&[&field, FRAGMENT]);
        assert_eq!(parse(&wire).fragment(), Some(&FRAGMENT[2..]), "{ty}");
        let wire = lp(&[&field]);
        assert_eq!(parse(&wire).fragment(), None, "{ty}");
    }
}

#[test]
fn absent_fields_have_defaults() {
    let wire = lp(&[FRAGMENT]);
    let packet = parse(&wire);
    assert!(!packet.is_bare() && !packet.has_fragmentation() && !packet.non_discovery());
    assert_eq!((packet.frag_index(), packet.frag_count()), (0, 1));
    assert_eq!((packet.sequence(), packet.tx_sequence()), (None, None));
    assert_eq!((packet.pit_token(), packet.nack(), packet.congestion_mark()), (None, None, None));
    assert_eq!((packet.incoming_face_id(), packet.next_hop_face_id()), (None, None));
    assert_eq!((packet.cache_policy(), packet.prefix_announcement()), (None, None));
    assert_eq!(packet.acks().count(), 0);
}

#[test]
fn bare_packet_is_its_own_fragment() {
    for first in [5, 6] {
        let wire = [first, 3, 7, 1, 0];
        let packet = parse(&wire);
        assert!(packet.is_bare());
        assert_eq!(packet.fragment(), Some(&wire[..]));
        assert_eq!(packet.fragment_offset(), Some(0));
    }
    for wire in [&[7, 0][..], &[80, 0], &[101, 0], &[0, 0], &[]] {
        assert!(LpPacket::parse(wire).is_err(), "{wire:?}");
    }
}

#[test]
fn idle_packet_has_no_fragment() {
    let wire = lp(&[]);
    assert_eq!(parse(&wire).fragment(), None);
    let acks = [1, 2, u64::MAX];
    let header = LpHeader { acks: &acks, ..LpHeader::default() };
    let mut out = vec![0; header.encoded_len_idle()];
    assert_eq!(header.write_idle(&mut out), Ok(out.len()));
    let packet = parse(&out);
    assert_eq!((packet.fragment(), packet.fragment_offset()), (None, None));
    assert_eq!(packet.acks().collect::<Vec<_>>(), acks);
    // A Fragment that is present but empty is not an IDLE packet.
    let wire = lp(&[&[80, 0]]);
    assert_eq!(parse(&wire).fragment(), Some(&[][..]));
}

#[test]
fn fields_ascend_and_only_ack_repeats() {
    let fields = fields();
    for (i, (ty, field)) in fields.iter().enumerate() {
        for (later_ty, later) in &fields[i..] {
            let result = LpPacket::parse(&lp(&[later, field])).map(|_| ());
            if *ty == t::LP_ACK && *later_ty == t::LP_ACK {
                assert_eq!(result, Ok(()));
            } else {
                let offset = u32::try_from(2 + later.len()).unwrap();
                assert_eq!(result, Err(DecodeError::OutOfOrder { ty: *ty, offset }), "{later_ty}");
            }
        }
    }
    let acks: Vec<Vec<u8>> = (1..=3_u8).map(|n| tlv(t::LP_ACK, &[n; 8])).collect();
    let wire = lp(&[&acks[0], &acks[1], &acks[2], FRAGMENT]);
    let read: Vec<u64> = parse(&wire).acks().collect();
    assert_eq!(read, [1, 2, 3].map(|n: u64| n * 0x0101_0101_0101_0101));
}

#[test]
fn fragment_comes_last() {
    for (ty, field) in fields() {
        assert_eq!(error(&[FRAGMENT, &field]), DecodeError::OutOfOrder { ty, offset: 9 });
    }
    let twice = DecodeError::OutOfOrder { ty: t::LP_FRAGMENT, offset: 9 };
    assert_eq!(error(&[FRAGMENT, FRAGMENT]), twice);
    assert_eq!(
        error(&[FRAGMENT, &tlv(804, &[])]),
        DecodeError::OutOfOrder { ty: 804, offset: 9 },
        "not even what could be ignored"
    );
}

#[test]
fn unknown_fields_are_ignored_or_rejected_by_type() {
    // From 800 to 959 with two low bits of zero: ignored, repeated or not.
    for ty in [804, 808, 828, 852, 956] {
        let field = tlv(ty, b"new");
        let wire = lp(&[&field, &field, FRAGMENT]);
        assert_eq!(parse(&wire).fragment(), Some(&FRAGMENT[2..]), "{ty}");
    }
    for ty in [
        1, 5, 7, 79, 84, 97, 99, 100, 120, 255, 796, 801, 802, 803, 813, 821, 959, 960, 1000,
        70_000,
    ] {
        assert_eq!(
            error(&[&tlv(ty, &[]), FRAGMENT]),
            DecodeError::UnrecognizedLpField { ty, offset: 2 },
            "{ty}"
        );
    }
    // Ignored fields must ascend as well.
    let mark = tlv(t::LP_CONGESTION_MARK, &[1]);
    assert!(LpPacket::parse(&lp(&[&tlv(804, &[]), &mark, &tlv(856, &[]), FRAGMENT])).is_ok());
    assert!(matches!(error(&[&mark, &tlv(804, &[])]), DecodeError::OutOfOrder { ty: 804, .. }));
}

#[test]
fn fields_of_invalid_length_are_rejected() {
    let refused = |ty, lengths: &[usize]| {
        for &len in lengths {
            let length = u32::try_from(len).unwrap();
            assert_eq!(
                error(&[&tlv(ty, &vec![0; len])]),
                DecodeError::InvalidLength { ty, offset: 2, length },
                "{ty}"
            );
        }
    };
    for ty in [t::LP_SEQUENCE, t::LP_ACK, t::LP_TX_SEQUENCE] {
        refused(ty, &[0, 1, 4, 7, 9]);
    }
    for ty in [
        t::LP_FRAG_INDEX,
        t::LP_FRAG_COUNT,
        t::LP_INCOMING_FACE_ID,
        t::LP_NEXT_HOP_FACE_ID,
        t::LP_CONGESTION_MARK,
    ] {
        refused(ty, &[0, 3, 5, 9]);
    }
    refused(t::LP_PIT_TOKEN, &[0, 33, 200]);
    refused(t::LP_NON_DISCOVERY, &[1]);
    for len in 1..=PIT_TOKEN_LENGTH_MAX {
        let wire = lp(&[&tlv(t::LP_PIT_TOKEN, &vec![7; len]), FRAGMENT]);
        assert_eq!(parse(&wire).pit_token().unwrap().len(), len);
    }
}

#[test]
fn nack_reasons_are_read_and_printed() {
    let nack = |value: &[u8]| lp(&[&tlv(t::LP_NACK, value), FRAGMENT]);
    assert_eq!(parse(&nack(&[])).nack(), Some(NackReason::NONE));
    for (reason, text) in
        [(0, "None"), (50, "Congestion"), (100, "Duplicate"), (150, "NoRoute"), (7, "NackReason 7")]
    {
        let wire = nack(&tlv(t::LP_NACK_REASON, &[reason]));
        assert_eq!(parse(&wire).nack(), Some(NackReason(u64::from(reason))));
        assert_eq!(NackReason(u64::from(reason)).to_string(), text);
    }
    let reason = tlv(t::LP_NACK_REASON, &[50]);
    let later = tlv(1000, &[]);
    assert_eq!(parse(&nack(&[&later[..], &reason].concat())).nack(), Some(NackReason::CONGESTION));
    let nack_error = |value: &[u8]| LpPacket::parse(&nack(value)).unwrap_err();
    assert!(matches!(nack_error(&[&reason[..], &reason].concat()), DecodeError::OutOfOrder { .. }));
    assert!(matches!(nack_error(&tlv(803, &[])), DecodeError::UnrecognizedCritical { .. }));
    assert!(matches!(nack_error(&tlv(801, &[1, 2, 3])), DecodeError::InvalidLength { .. }));
    // A Nack without reason is written without one.
    let header = LpHeader { nack: Some(NackReason::NONE), ..LpHeader::default() };
    let mut out = [0; 32];
    let len = header.write(&FRAGMENT[2..], &mut out).unwrap();
    assert_eq!(out[..len], hex("640B FD032000 5005 0503070100"));
}

#[test]
fn malformed_cache_policy_and_announcement_are_rejected() {
    let policy_error = |value: &[u8]| error(&[&tlv(t::LP_CACHE_POLICY, value)]);
    assert!(matches!(policy_error(&[]), DecodeError::Missing { ty: t::LP_CACHE_POLICY_TYPE, .. }));
    assert!(matches!(policy_error(&tlv(821, &[])), DecodeError::InvalidLength { .. }));
    let announcement = |value: &[u8]| error(&[&tlv(t::LP_PREFIX_ANNOUNCEMENT, value)]);
    assert!(matches!(announcement(&[]), DecodeError::Missing { ty: t::DATA, .. }));
    assert!(matches!(announcement(&[5, 0]), DecodeError::UnexpectedType { .. }));
    assert!(matches!(announcement(&[6, 0, 0]), DecodeError::TrailingBytes { .. }));
}

#[test]
fn header_precedes_the_payload() {
    for payload_len in [0, 1, 200, 230, 240, 250, 252, 253, 1000, 65_520, 65_540] {
        let payload = vec![5; payload_len];
        for header in [
            LpHeader::default(),
            LpHeader { pit_token: &[1; 32], ..LpHeader::default() },
            LpHeader {
                sequence: Some(1),
                frag_index: Some(300),
                frag_count: Some(400),
                ..LpHeader::default()
            },
        ] {
            let mut prefix = vec![0; header.encoded_len(payload_len)];
            assert_eq!(header.write_prefix(payload_len, &mut prefix), Ok(prefix.len()));
            let wire = [&prefix[..], &payload].concat();
            let packet = parse(&wire);
            assert_eq!(packet.fragment(), Some(&payload[..]));
            assert_eq!(packet.fragment_offset(), Some(prefix.len()));
            assert_eq!(packet.pit_token().unwrap_or_default(), header.pit_token);
            assert_eq!(packet.sequence(), header.sequence);
            for len in 0..prefix.len() {
                let result = header.write_prefix(payload_len, &mut prefix[..len]);
                assert_eq!(result, Err(EncodeError::BufferTooSmall));
            }
            let mut whole = vec![0; wire.len()];
            assert_eq!(header.write(&payload, &mut whole), Ok(wire.len()));
            assert_eq!(whole, wire);
            if payload_len > 0 {
                whole.pop();
                assert_eq!(header.write(&payload, &mut whole), Err(EncodeError::BufferTooSmall));
            }
        }
    }
    assert!(LpHeader::default().is_empty());
    let long = LpHeader { pit_token: &[0; 33], ..LpHeader::default() };
    let refused = Err(EncodeError::InvalidField { ty: t::LP_PIT_TOKEN });
    assert_eq!(long.write_prefix(5, &mut [0; 100]), refused);
    assert_eq!(long.write_idle(&mut [0; 100]), refused);
}
