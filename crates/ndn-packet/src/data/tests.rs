use super::*;
use crate::error::{DecodeError, EncodeError};
use crate::name::{Component, ComponentType, Name, NameRef};
use crate::signature::{SignatureInfo, SignatureType};
use crate::testing::{assert_exact, hex, nested, sha256, tlv};
use crate::types as t;

const NAME: &[u8] = &[7, 3, 8, 1, b'a'];
const INFO: &[u8] = &[22, 3, 27, 1, 0];
const VALUE: &[u8] = &[23, 2, 9, 9];

fn data(parts: &[&[u8]]) -> Vec<u8> {
    nested(t::DATA, parts)
}

fn parse(wire: &[u8]) -> Data<'_> {
    Data::parse(wire).unwrap()
}

fn error(parts: &[&[u8]]) -> DecodeError {
    Data::parse(&data(parts)).unwrap_err()
}

#[test]
fn reads_packets_of_another_implementation() {
    // Written by python-ndn 0.5 with DigestSha256.
    let wire = hex("0668072708076578616d706c6508077465737441707036010332010720086d65746164617461380300057a
                    140f18010219040036ee801a04320203e8150548656c6c6f16031b01001720615fa98639aa3c22ef6b4533
                    c7ff151dd953e3a952f19b074bd895bc226535f0");
    let data = parse(&wire);
    assert_eq!(data.name().to_uri(), "/example/testApp/v=3/seg=7/32=metadata/56=%00%05z");
    assert_eq!(wire[data.name_value_range()], *data.name().value());
    assert_eq!(data.content_type(), ContentType::KEY);
    assert_eq!(data.freshness_ms(), Some(3_600_000));
    assert_eq!(data.final_block_id().unwrap().as_segment(), Some(1000));
    assert_eq!(data.content(), Some(&b"Hello"[..]));
    assert_eq!(wire[data.content_range().unwrap()], *b"Hello");
    let info = data.signature_info().unwrap();
    assert_eq!(info, SignatureInfo::new(SignatureType::DIGEST_SHA256));
    assert_eq!(data.signature_value(), sha256(data.signed_portion()));
    assert_eq!(data.implicit_digest(sha256), sha256(&wire));
    assert_exact(&wire, |bytes| Data::parse(bytes).ok().map(|_| ()));

    let builder = DataBuilder::new(data.name())
        .content_type(ContentType::KEY)
        .freshness_ms(3_600_000)
        .final_segment(1000)
        .content(b"Hello");
    let sign = |pieces: &[&[u8]], out: &mut [u8]| {
        out.copy_from_slice(&sha256(&pieces.concat()));
        Some(32)
    };
    assert_eq!(builder.to_vec(&info, 32, sign).unwrap(), wire);
    assert_eq!(builder.encoded_len(&info, 32), wire.len());
}

#[test]
fn layout_with_the_same_bytes_restores_the_packet() {
    let wire = data(&[
        &[7, 3, 8, 1, 65],
        &[20, 4, 25, 2, 1, 0],
        &[21, 2, 66, 67],
        &[22, 3, 27, 1, 0],
        &[23, 1, 9],
    ]);
    let parsed = parse(&wire);
    let moved = wire.clone();
    let again = parsed.layout().data(&moved);
    assert_eq!(again.wire().as_ptr(), moved.as_ptr());
    assert_eq!(again.name(), parsed.name());
    assert_eq!(again.content(), Some(&b"BC"[..]));
    assert_eq!(again.freshness_ms(), Some(256));
    assert_eq!(again.signed_portion(), parsed.signed_portion());
    assert_eq!(again.signature_value(), [9]);
    // With other bytes the result is unspecified, without panic.
    assert_eq!(parsed.layout().data(&[]).content(), None);
    assert_eq!(parsed.layout().data(&moved[..5]).signature_value(), [0; 0]);
}

#[test]
fn smallest_packet_is_valid() {
    let wire = data(&[NAME, INFO, VALUE]);
    let data_ = parse(&wire);
    assert_eq!(data_.content_type(), ContentType::BLOB);
    assert_eq!(data_.freshness_ms(), None);
    assert_eq!(data_.final_block_id(), None);
    assert_eq!((data_.content(), data_.content_range()), (None, None));
    assert_eq!(data_.signature_value(), [9, 9]);
    assert_eq!(data_.signed_portion(), [NAME, INFO].concat());
    assert_exact(&wire, |bytes| Data::parse(bytes).ok().map(|_| ()));
    // An empty name is valid in Data; an empty content differs from an absent one.
    let wire = data(&[&[7, 0], &[21, 0], INFO, &[23, 0]]);
    assert_eq!(parse(&wire).name(), NameRef::ROOT);
    assert_eq!(parse(&wire).content(), Some(&[][..]));
    assert_eq!(parse(&wire).signature_value(), []);
}

#[test]
fn digest_is_recognised_as_the_last_component_only() {
    let digest = tlv(1, &[7; 32]);
    // Has the same last bytes.
    let inside = tlv(8, &digest);
    for (value, ends_in_digest) in [
        (vec![], false),
        (digest.clone(), true),
        ([NAME, &digest].concat()[2..].to_vec(), true),
        ([&digest, &NAME[2..]].concat(), false),
        ([&digest[..], &digest].concat(), true),
        (inside, false),
        (tlv(2, &[7; 32]), false),
    ] {
        let wire = data(&[&tlv(t::NAME, &value), INFO, VALUE]);
        assert_eq!(parse(&wire).name_ends_in_implicit_digest(), ends_in_digest, "{value:?}");
        assert_eq!(parse(&wire).name().implicit_digest().is_some(), ends_in_digest);
    }
}

#[test]
fn missing_required_element_is_rejected() {
    assert_eq!(error(&[]), DecodeError::Missing { ty: t::NAME, offset: 2 });
    assert_eq!(error(&[NAME, INFO]), DecodeError::Missing { ty: t::SIGNATURE_VALUE, offset: 12 });
    assert_eq!(error(&[NAME, VALUE]), DecodeError::Missing { ty: t::SIGNATURE_INFO, offset: 11 });
    assert_eq!(error(&[NAME]), DecodeError::Missing { ty: t::SIGNATURE_INFO, offset: 7 });
    assert!(matches!(error(&[&[126, 0], NAME, INFO, VALUE]), DecodeError::UnexpectedType { .. }));
    assert!(matches!(
        Data::parse(&nested(t::INTEREST, &[NAME])),
        Err(DecodeError::UnexpectedType { expected: t::DATA, found: t::INTEREST, offset: 0 })
    ));
}

#[test]
fn elements_out_of_order_are_rejected() {
    let elements: [(u32, &[u8]); 5] =
        [(7, NAME), (20, &[20, 0]), (21, &[21, 1, 0]), (22, INFO), (23, VALUE)];
    for (i, (ty, element)) in elements.iter().enumerate() {
        for (_, later) in &elements[i..] {
            // A valid packet up to `later`, then `element`.
            let end = elements.iter().position(|(_, other)| other == later).unwrap();
            let mut parts: Vec<&[u8]> = elements[..=end].iter().map(|(_, part)| *part).collect();
            let offset = u32::try_from(2 + parts.concat().len()).unwrap();
            parts.push(element);
            assert_eq!(error(&parts), DecodeError::OutOfOrder { ty: *ty, offset });
        }
    }
}

#[test]
fn unrecognised_elements_are_skipped_unless_critical() {
    let unknown = tlv(1000, b"later");
    let wire = data(&[NAME, &unknown, &[21, 1, 5], &unknown, INFO, &unknown, VALUE, &unknown]);
    let data_ = parse(&wire);
    assert_eq!(data_.content(), Some(&[5][..]));
    assert_eq!(data_.signature_value(), [9, 9]);
    // Everything before the signature value is covered.
    assert!(data_.signed_portion().starts_with(NAME) && data_.signed_portion().ends_with(b"later"));
    for ty in [1, 5, 24, 31, 33, 127, 1001] {
        assert_eq!(
            error(&[NAME, &tlv(ty, &[]), INFO, VALUE]),
            DecodeError::UnrecognizedCritical { ty, offset: 7 }
        );
    }
}

#[test]
fn meta_info_fields_are_read_and_invalid_ones_rejected() {
    let with = |parts: &[&[u8]]| data(&[NAME, &nested(t::META_INFO, parts), INFO, VALUE]);
    let meta_error = |parts: &[&[u8]]| Data::parse(&with(parts)).unwrap_err();
    let content_type = tlv(t::CONTENT_TYPE, &[4, 0]);
    let freshness = tlv(t::FRESHNESS_PERIOD, &[7]);
    let block = nested(t::FINAL_BLOCK_ID, &[&tlv(50, &[3])]);
    let application = tlv(129, b"odd, and left to applications");

    let wire = with(&[&content_type, &freshness, &block, &application]);
    assert_eq!(parse(&wire).content_type(), ContentType::FLIC);
    assert_eq!(parse(&wire).freshness_ms(), Some(7));
    assert_eq!(parse(&wire).final_block_id().unwrap().as_segment(), Some(3));
    assert_eq!(parse(&with(&[])).freshness_ms(), None);
    assert_eq!(parse(&with(&[&tlv(1000, &[]), &freshness])).freshness_ms(), Some(7));

    for (ty, pair) in [
        (t::CONTENT_TYPE, [&freshness, &content_type]),
        (t::CONTENT_TYPE, [&block, &content_type]),
        (t::FRESHNESS_PERIOD, [&block, &freshness]),
        (t::CONTENT_TYPE, [&content_type, &content_type]),
        (t::FRESHNESS_PERIOD, [&freshness, &freshness]),
        (t::FINAL_BLOCK_ID, [&block, &block]),
    ] {
        let offset = u32::try_from(9 + pair[0].len()).unwrap();
        assert_eq!(meta_error(&[pair[0], pair[1]]), DecodeError::OutOfOrder { ty, offset });
    }
    for ty in [1, 23, 27, 31, 33, 127, 253, 1001] {
        assert_eq!(
            meta_error(&[&tlv(ty, &[])]),
            DecodeError::UnrecognizedCritical { ty, offset: 9 },
            "{ty}"
        );
    }
    for ty in [t::CONTENT_TYPE, t::FRESHNESS_PERIOD] {
        for length in [0, 3, 9] {
            assert_eq!(
                meta_error(&[&tlv(ty, &vec![0; length as usize])]),
                DecodeError::InvalidLength { ty, offset: 9, length }
            );
        }
    }
}

#[test]
fn final_block_id_is_one_component() {
    let with = |value: &[u8]| {
        let block = tlv(t::FINAL_BLOCK_ID, value);
        data(&[NAME, &nested(t::META_INFO, &[&block]), INFO, VALUE])
    };
    let block_error = |value: &[u8]| Data::parse(&with(value)).unwrap_err();
    let wire = with(&tlv(8, b"last"));
    assert_eq!(parse(&wire).final_block_id(), Some(Component::generic(b"last")));
    assert_eq!(
        block_error(&[]),
        DecodeError::InvalidLength { ty: t::FINAL_BLOCK_ID, offset: 9, length: 0 }
    );
    assert_eq!(block_error(&[8, 0, 8, 0]), DecodeError::TrailingBytes { offset: 13 });
    assert_eq!(
        block_error(&tlv(65_536, &[])),
        DecodeError::InvalidComponentType { ty: 65_536, offset: 11 }
    );
    assert!(matches!(block_error(&[1, 0]), DecodeError::InvalidLength { ty: 1, .. }));
    assert!(matches!(block_error(&[8, 2, 0]), DecodeError::LengthOverrun { ty: 8, .. }));
}

#[test]
fn signature_info_errors_point_into_the_packet() {
    let wire = data(&[NAME, &[22, 0], VALUE]);
    let error = parse(&wire).signature_info().unwrap_err();
    assert_eq!(error, DecodeError::Missing { ty: t::SIGNATURE_TYPE, offset: 9 });
}

/// Signatures shorter than reserved, at the lengths where headers change size.
#[test]
fn builder_shrinks_headers_for_short_signatures() {
    let name: Name = "/a".parse().unwrap();
    let info = SignatureInfo::new(SignatureType::SHA256_WITH_ECDSA);
    for content_len in [0, 100, 150, 170, 180, 230, 65_400, 65_480] {
        for (reserved, len) in [(72, 70), (72, 72), (72, 0), (300, 250), (300, 253), (300, 300)] {
            let content = vec![1; content_len];
            let builder = DataBuilder::new(&name).content(&content);
            let mut covered = Vec::new();
            let wire = builder
                .to_vec(&info, reserved, |pieces, out| {
                    covered = pieces.concat();
                    out.fill(0xEE);
                    out[..len].fill(0x55);
                    Some(len)
                })
                .unwrap();
            assert_eq!(wire.len(), builder.encoded_len(&info, len));
            let data = parse(&wire);
            assert_eq!(data.signature_value(), vec![0x55; len]);
            assert_eq!(data.signed_portion(), covered);
            assert_eq!(data.content(), Some(&content[..]));
        }
    }
}

#[test]
fn builder_reports_failed_signatures_and_short_buffers() {
    let name: Name = "/a".parse().unwrap();
    let info = SignatureInfo::new(SignatureType::SHA256_WITH_ECDSA);
    let builder = DataBuilder::new(&name).content(b"x");
    assert_eq!(builder.to_vec(&info, 9, |_, _| None), Err(EncodeError::SigningFailed));
    assert_eq!(builder.to_vec(&info, 9, |_, _| Some(10)), Err(EncodeError::SigningFailed));
    for len in 0..builder.encoded_len(&info, 9) {
        let result = builder.write(&mut vec![0; len], &info, 9, |_, _| Some(9));
        assert_eq!(result, Err(EncodeError::BufferTooSmall), "{len}");
    }
    assert_eq!(EncodeError::SigningFailed.to_string(), "the packet could not be signed");
}

#[test]
fn builder_accepts_a_final_block_id_of_any_type() {
    let name: Name = "/a".parse().unwrap();
    let info = SignatureInfo::new(SignatureType::NULL);
    let offset = crate::tlv::Number::new(4096);
    for component in
        [Component::number(ComponentType::BYTE_OFFSET, &offset), Component::generic(b"end")]
    {
        let builder = DataBuilder::new(&name).final_block_id(component);
        let wire = builder.to_vec(&info, 0, |_, _| Some(0)).unwrap();
        assert_eq!(parse(&wire).final_block_id(), Some(component));
    }
}

/// The parser for the common element order against the general one.
mod element_order {
    use crate::data::Data;
    use crate::testing::tlv;
    use crate::types;
    use proptest::prelude::*;

    /// Elements of MetaInfo, some of them invalid.
    const META_INFO: [&[u8]; 10] = [
        &[24, 1, 0],
        &[24, 2, 1, 0],
        &[24, 0],
        &[25, 1, 9],
        &[25, 3, 1, 2, 3],
        &[26, 3, 8, 1, 9],
        &[26, 0],
        &[26, 6, 8, 1, 9, 8, 1, 9],
        &[200, 0],
        &[29, 0],
    ];

    /// Elements after MetaInfo, some of them invalid.
    const ELEMENTS: [&[u8]; 9] = [
        &[21, 2, 0, 0],
        &[21, 0],
        &[21, 253, 0, 1, 0],
        &[22, 3, 27, 1, 0],
        &[22, 0],
        &[23, 1, 9],
        &[23, 0],
        &[252, 0],
        &[241, 0],
    ];

    fn pieces(of: &[&[u8]], mut which: Vec<usize>, is_sorted: bool) -> Vec<u8> {
        if is_sorted {
            which.sort_unstable();
        }
        which.iter().flat_map(|&piece| of[piece].to_vec()).collect()
    }

    /// Names of all lengths, some of them invalid.
    fn name() -> impl Strategy<Value = Vec<u8>> {
        let name = prop_oneof![
            4 => Just(tlv(8, b"a")),
            1 => Just(vec![]),
            1 => Just(tlv(1, &[9; 32])),
            1 => Just(tlv(2, &[9])),
            2 => (240..260_usize).prop_map(|length| tlv(8, &vec![7; length])),
        ];
        name.prop_map(|components| tlv(types::NAME, &components))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn common_order_parser_agrees_with_the_general_one(
            name in name(),
            meta_info in proptest::option::of(proptest::collection::vec(0..=META_INFO.len(), 0..4)),
            elements in proptest::collection::vec(0..ELEMENTS.len(), 2..6),
            is_sorted in any::<(bool, bool)>(),
            flipped in proptest::option::of(any::<(usize, u8)>()),
        ) {
            let mut value = name;
            if let Some(meta_info) = meta_info {
                let long = tlv(types::FINAL_BLOCK_ID, &tlv(8, &[7; 300]));
                let elements = [&META_INFO[..], &[&long]].concat();
                value.extend(tlv(types::META_INFO, &pieces(&elements, meta_info, is_sorted.0)));
            }
            value.extend(pieces(&ELEMENTS, elements, is_sorted.1));
            let mut wire = tlv(types::DATA, &value);
            if let Some((place, bit)) = flipped {
                let place = place % wire.len();
                wire[place] ^= 1 << (bit % 8);
            }
            let (fast, slow) = (Data::parse(&wire), Data::parse_general(&wire));
            prop_assert_eq!(fast.is_ok(), slow.is_ok(), "{:?} {:?}", fast, slow);
            if let (Ok(fast), Ok(slow)) = (fast, slow) {
                prop_assert_eq!(format!("{fast:?}"), format!("{slow:?}"));
            }
        }
    }
}

#[test]
fn plain_form_ends_with_the_packet_whatever_follows() {
    use crate::data::PlainData;

    let name = tlv(7, &tlv(8, b"a"));
    let fresh = tlv(20, &tlv(25, &[1, 0]));
    for content in [0, 3, 200, 252, 253, 1000] {
        let signature = [tlv(22, &tlv(27, &[0])), tlv(23, &vec![7; content])].concat();
        let wire = tlv(6, &[&name[..], &fresh, &tlv(21, &vec![1; content]), &signature].concat());
        for behind in [[0; 4], [23; 4], [253; 4]] {
            let front = [&wire[..], &behind].concat();
            let plain = PlainData::read(&front, wire.len()).unwrap();
            assert_eq!(front[plain.name], *b"\x08\x01a");
            assert_eq!(plain.freshness_ms, 256);
            for length in (0..front.len()).filter(|&length| length != wire.len()) {
                assert!(PlainData::read(&front, length).is_none(), "{length}");
            }
        }
    }
}
