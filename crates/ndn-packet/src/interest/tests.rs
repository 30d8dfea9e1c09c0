use super::*;
use crate::error::{DecodeError, EncodeError};
use crate::name::{Name, NameRef};
use crate::signature::{SignatureInfo, SignatureType};
use crate::testing::{assert_exact, hex, nested, sha256, tlv};
use crate::types as t;
use crate::{Data, DataBuilder};

const NAME: &[u8] = &[7, 3, 8, 1, b'a'];

fn interest(parts: &[&[u8]]) -> Vec<u8> {
    nested(t::INTEREST, parts)
}

fn error(parts: &[&[u8]]) -> DecodeError {
    Interest::parse(&interest(parts)).unwrap_err()
}

fn parse(wire: &[u8]) -> Interest<'_> {
    Interest::parse(wire).unwrap()
}

/// Every element after the name, in order, with the criticality of its type.
fn elements() -> Vec<(u32, Vec<u8>)> {
    let info = SignatureInfo::new(SignatureType::DIGEST_SHA256);
    let mut info_wire = vec![0; info.encoded_len(t::INTEREST_SIGNATURE_INFO)];
    info.write(t::INTEREST_SIGNATURE_INFO, &mut crate::tlv::Writer::new(&mut info_wire)).unwrap();
    vec![
        (t::CAN_BE_PREFIX, tlv(t::CAN_BE_PREFIX, &[])),
        (t::MUST_BE_FRESH, tlv(t::MUST_BE_FRESH, &[])),
        (t::FORWARDING_HINT, nested(t::FORWARDING_HINT, &[NAME])),
        (t::NONCE, tlv(t::NONCE, &[1, 2, 3, 4])),
        (t::INTEREST_LIFETIME, tlv(t::INTEREST_LIFETIME, &[10])),
        (t::HOP_LIMIT, tlv(t::HOP_LIMIT, &[20])),
        (t::APPLICATION_PARAMETERS, tlv(t::APPLICATION_PARAMETERS, b"p")),
        (t::INTEREST_SIGNATURE_INFO, info_wire),
        (t::INTEREST_SIGNATURE_VALUE, tlv(t::INTEREST_SIGNATURE_VALUE, b"s")),
    ]
}

#[test]
fn reads_packets_of_another_implementation() {
    // Written by python-ndn 0.5.
    let wire = hex(
        "0540071508076578616d706c65080774657374417070360103210012001e16070a08036e65740803687562
                    070808036e65740801620a04010203040c021770220109",
    );
    let interest = parse(&wire);
    assert_eq!(interest.name().to_uri(), "/example/testApp/v=3");
    assert!(interest.can_be_prefix() && interest.must_be_fresh() && interest.has_lifetime());
    let hint: Vec<String> = interest.forwarding_hint().map(|name| name.to_uri()).collect();
    assert_eq!(hint, ["/net/hub", "/net/b"]);
    assert_eq!(interest.nonce(), Some(0x0102_0304));
    assert_eq!(interest.lifetime_ms(), 6000);
    assert_eq!(interest.hop_limit(), Some(9));
    assert_eq!(interest.parameters_digest(), ParametersDigest::Absent);
    assert_exact(&wire, |bytes| Interest::parse(bytes).ok().map(|_| ()));

    let hint: Vec<Name> = hint.iter().map(|uri| uri.parse().unwrap()).collect();
    let hint: Vec<NameRef<'_>> = hint.iter().map(Name::as_ref).collect();
    let name: Name = "/example/testApp/v=3".parse().unwrap();
    let builder = InterestBuilder::new(&name)
        .can_be_prefix(true)
        .must_be_fresh(true)
        .forwarding_hint(&hint)
        .nonce(0x0102_0304)
        .lifetime_ms(6000)
        .hop_limit(9);
    assert_eq!(builder.to_vec().unwrap(), wire);
    assert_eq!(builder.encoded_len(), wire.len());
}

#[test]
fn reads_signed_packets_of_another_implementation() {
    // Written by python-ndn 0.5 with DigestSha256.
    let wire = hex("0566072b0803636d640802646f022029e26389c4671ac51e9189d03c1c95b6b39d588b6c90b2c9b97fef0e
                    a5f1aae30a040a0b0c0d0c0203e82406706172616d732c031b01002e20859bd0d86d70a6d409b0fe38007e
                    2f1d9b1d493489fdff29edc6376af874b9e2");
    let interest = parse(&wire);
    assert!(interest.is_signed());
    assert_eq!(interest.parameters(), Some(&b"params"[..]));
    assert!(interest.parameters_digest_is_valid(sha256));
    let signature = sha256(&interest.signed_portion().unwrap().concat());
    assert_eq!(interest.signature_value(), Some(&signature[..]));
    let info = interest.signature_info().unwrap().unwrap();
    assert_eq!(info, SignatureInfo::new(SignatureType::DIGEST_SHA256));
    assert_exact(&wire, |bytes| Interest::parse(bytes).ok().map(|_| ()));

    let name: Name = "/cmd/do".parse().unwrap();
    let builder =
        InterestBuilder::new(&name).nonce(0x0A0B_0C0D).lifetime_ms(1000).parameters(b"params");
    let sign = |pieces: &[&[u8]], out: &mut [u8]| {
        out.copy_from_slice(&sha256(&pieces.concat()));
        Some(32)
    };
    assert_eq!(builder.to_vec_signed(&info, 32, sign, sha256).unwrap(), wire);

    // The same without a signature.
    let wire = hex(
        "053f072b0803636d640802646f022030fa42730499f22ea860659ede8c759ca6c291fdb082e10b9deca6d7
                    abb208150a040a0b0c0d0c0203e82406706172616d73",
    );
    assert!(parse(&wire).parameters_digest_is_valid(sha256));
    assert_eq!(builder.to_vec_with_parameters(sha256).unwrap(), wire);
    assert_eq!(builder.encoded_len(), wire.len());
    // A changed parameter does not match the digest.
    let mut changed = wire;
    *changed.last_mut().unwrap() ^= 1;
    assert!(!parse(&changed).parameters_digest_is_valid(sha256));
}

#[test]
fn smallest_packet_is_valid() {
    let wire = interest(&[NAME]);
    let interest = parse(&wire);
    assert!(!interest.can_be_prefix() && !interest.must_be_fresh() && !interest.has_lifetime());
    assert!(!interest.has_forwarding_hint() && !interest.is_signed());
    assert_eq!((interest.nonce(), interest.nonce_offset()), (None, None));
    assert_eq!((interest.hop_limit(), interest.hop_limit_offset()), (None, None));
    assert_eq!(interest.lifetime_ms(), crate::DEFAULT_LIFETIME_MS);
    assert_eq!(interest.parameters(), None);
    assert_eq!(interest.signature_info(), Ok(None));
    assert_eq!(interest.signature_value(), None);
    assert_eq!(interest.signed_portion(), None);
    assert_eq!(interest.forwarding_hint().count(), 0);
    assert_eq!(interest.forwarding_hint_range(), None);
    assert_exact(&wire, |bytes| Interest::parse(bytes).ok().map(|_| ()));
}

#[test]
fn ranges_select_their_bytes_of_the_packet() {
    let parts = elements();
    let parts: Vec<&[u8]> = parts.iter().map(|(_, part)| &part[..]).collect();
    let wire = interest(&[&[NAME], &parts[..]].concat());
    let interest = parse(&wire);
    assert_eq!(interest.wire(), wire);
    assert_eq!(wire[interest.name_value_range()], NAME[2..]);
    assert_eq!(wire[interest.nonce_offset().unwrap()..][..4], [1, 2, 3, 4]);
    assert_eq!(wire[interest.hop_limit_offset().unwrap()], 20);
    let hint = &wire[interest.forwarding_hint_range().unwrap()];
    assert_eq!(ForwardingHint::from_validated(hint).next(), interest.forwarding_hint().next());
    assert_eq!(interest.parameters_portion().unwrap().first(), Some(&36));
    assert!(interest.parameters_portion().unwrap().ends_with(b"s"));
}

#[test]
fn name_is_first_unique_and_not_empty() {
    assert_eq!(error(&[]), DecodeError::Missing { ty: t::NAME, offset: 2 });
    assert_eq!(error(&[&[7, 0]]), DecodeError::EmptyName { offset: 2 });
    assert_eq!(error(&[NAME, NAME]), DecodeError::OutOfOrder { ty: t::NAME, offset: 7 });
    // Nothing may precede it, not even an element that is ignored elsewhere.
    let early = DecodeError::UnexpectedType { expected: t::NAME, found: 126, offset: 2 };
    assert_eq!(error(&[&[126, 0], NAME]), early);
    assert!(matches!(error(&[&tlv(t::NONCE, &[0; 4]), NAME]), DecodeError::UnexpectedType { .. }));
    let digest = tlv(2, &[0; 32]);
    let name = nested(t::NAME, &[&digest, &digest]);
    assert_eq!(error(&[&name]), DecodeError::RepeatedParametersDigest { offset: 2 });
    assert!(matches!(
        Interest::parse(&nested(t::DATA, &[NAME])),
        Err(DecodeError::UnexpectedType { expected: t::INTEREST, found: t::DATA, offset: 0 })
    ));
    assert_eq!(
        Interest::parse(&[]).unwrap_err(),
        DecodeError::Missing { ty: t::INTEREST, offset: 0 }
    );
}

#[test]
fn elements_of_invalid_length_are_rejected() {
    let invalid = |ty, value: &[u8]| {
        let length = u32::try_from(value.len()).unwrap();
        assert_eq!(
            error(&[NAME, &tlv(ty, value)]),
            DecodeError::InvalidLength { ty, offset: 7, length },
            "type {ty}"
        );
    };
    invalid(t::CAN_BE_PREFIX, &[0]);
    invalid(t::MUST_BE_FRESH, &[0]);
    for len in [0, 3, 5, 8] {
        invalid(t::NONCE, &vec![0; len]);
    }
    for len in [0, 3, 5, 6, 7, 9] {
        invalid(t::INTEREST_LIFETIME, &vec![0; len]);
    }
    for len in [0, 2] {
        invalid(t::HOP_LIMIT, &vec![0; len]);
    }
    for (value, lifetime_ms) in
        [(&[255][..], 255), (&[1, 0], 256), (&[0, 1, 0, 0], 65_536), (&[255; 8], u64::MAX)]
    {
        let wire = interest(&[NAME, &tlv(t::INTEREST_LIFETIME, value)]);
        assert_eq!(parse(&wire).lifetime_ms(), lifetime_ms);
    }
    let wire = interest(&[NAME, &tlv(t::HOP_LIMIT, &[0])]);
    assert_eq!(parse(&wire).hop_limit(), Some(0));
}

/// Puts each element where it is invalid: after each of those that follow it, or twice.
#[test]
fn elements_out_of_order_are_rejected_if_critical() {
    let elements = elements();
    for (i, (ty, element)) in elements.iter().enumerate() {
        for (_, later) in &elements[i..] {
            let wire = interest(&[NAME, later, element]);
            let result = Interest::parse(&wire);
            if t::is_critical(*ty) {
                let offset = u32::try_from(2 + NAME.len() + later.len()).unwrap();
                assert_eq!(result.unwrap_err(), DecodeError::OutOfOrder { ty: *ty, offset });
            } else {
                let alone = interest(&[NAME, later]);
                let (with, without) = (result.unwrap(), parse(&alone));
                assert_eq!(with.hop_limit(), without.hop_limit());
                assert_eq!(with.parameters(), without.parameters());
                assert_eq!(with.signature_value(), without.signature_value());
            }
        }
    }
}

#[test]
fn unrecognised_elements_are_skipped_unless_critical() {
    // Skipped at any position after the name.
    let unknown = tlv(1000, b"later");
    let mut parts: Vec<&[u8]> = vec![NAME, &unknown];
    let elements = elements();
    for (_, element) in &elements {
        parts.push(element);
        parts.push(&unknown);
    }
    let wire = interest(&parts);
    let interest_ = parse(&wire);
    assert_eq!(interest_.nonce(), Some(0x0102_0304));
    assert_eq!(interest_.hop_limit(), Some(20));
    assert_eq!(interest_.signature_value(), Some(&b"s"[..]));
    assert!(interest_.parameters_portion().unwrap().ends_with(b"later"));
    for ty in [1, 9, 13, 16, 31, 35, 127, 255, 1001] {
        let offset = 7;
        assert_eq!(error(&[NAME, &tlv(ty, &[])]), DecodeError::UnrecognizedCritical { ty, offset });
    }
    for ty in [32, 126, 128, 254, 256, 70_000] {
        assert!(Interest::parse(&interest(&[NAME, &tlv(ty, &[])])).is_ok(), "{ty}");
    }
}

#[test]
fn forwarding_hint_is_read_in_both_formats() {
    let hint = |parts: &[&[u8]]| interest(&[NAME, &nested(t::FORWARDING_HINT, parts)]);
    let names =
        |wire: &[u8]| parse(wire).forwarding_hint().map(|name| name.to_uri()).collect::<Vec<_>>();
    let b = nested(t::NAME, &[&tlv(8, b"b")]);
    assert_eq!(names(&hint(&[NAME, &b])), ["/a", "/b"]);
    assert_eq!(names(&hint(&[NAME, &tlv(126, &[]), &b])), ["/a", "/b"]);
    // The older form, with preferences.
    let delegation = nested(t::LINK_DELEGATION, &[&tlv(t::LINK_PREFERENCE, &[7]), &b]);
    assert_eq!(names(&hint(&[&delegation, &delegation])), ["/b", "/b"]);

    let error = |parts: &[&[u8]]| Interest::parse(&hint(parts)).unwrap_err();
    // A delegation is checked to its end, behind its name too.
    let truncated = nested(t::LINK_DELEGATION, &[&b, &[5, 0x74, 0]]);
    assert_eq!(
        error(&[&truncated]),
        DecodeError::LengthOverrun { ty: 5, offset: 16, length: 0x74 }
    );
    let long_preference = nested(t::LINK_DELEGATION, &[&tlv(t::LINK_PREFERENCE, &[1, 2, 3]), &b]);
    assert!(Interest::parse(&hint(&[&long_preference])).is_err());
    assert_eq!(error(&[]), DecodeError::Missing { ty: t::NAME, offset: 9 });
    assert_eq!(error(&[&tlv(126, &[])]), DecodeError::Missing { ty: t::NAME, offset: 11 });
    assert_eq!(error(&[&tlv(31, &[])]), DecodeError::Missing { ty: t::NAME, offset: 11 });
    assert_eq!(error(&[NAME, &[33, 0]]), DecodeError::UnrecognizedCritical { ty: 33, offset: 14 });
    assert_eq!(
        error(&[&[7, 3, 8, 9, 0]]),
        DecodeError::LengthOverrun { ty: 8, offset: 11, length: 9 }
    );
}

#[test]
fn parameters_and_digest_require_each_other() {
    let digest = tlv(2, &sha256(&tlv(t::APPLICATION_PARAMETERS, b"p")));
    let with = nested(t::NAME, &[&tlv(8, b"a"), &digest, &tlv(50, &[0])]);
    let parameters = tlv(t::APPLICATION_PARAMETERS, b"p");
    let both = interest(&[&with, &parameters]);
    assert_eq!(parse(&both).parameters_digest(), ParametersDigest::Paired);
    assert!(parse(&both).parameters_digest_is_valid(sha256));
    assert!(!parse(&both).parameters_digest_is_valid(|_| [0; 32]));
    // The bytes after the parameters are part of the digest.
    let more = interest(&[&with, &parameters, &tlv(1000, &[])]);
    assert!(!parse(&more).parameters_digest_is_valid(sha256));

    let never = |_: &[u8]| -> [u8; 32] { panic!("nothing to hash") };
    for unpaired in [interest(&[NAME, &parameters]), interest(&[&with])] {
        assert_eq!(parse(&unpaired).parameters_digest(), ParametersDigest::Unpaired);
        assert!(!parse(&unpaired).parameters_digest_is_valid(never));
    }
    assert!(parse(&interest(&[NAME])).parameters_digest_is_valid(never));
}

#[test]
fn signed_portion_requires_the_digest_at_the_end() {
    let digest = tlv(2, &[9; 32]);
    let parts: Vec<Vec<u8>> = elements().into_iter().skip(6).map(|(_, part)| part).collect();
    let signed = |name: &[&[u8]]| {
        let name = nested(t::NAME, name);
        interest(&[&name, &parts[0], &parts[1], &parts[2]])
    };
    let a = tlv(8, b"a");
    let wire = signed(&[&a, &digest]);
    let interest_ = parse(&wire);
    assert_eq!(interest_.signed_portion(), Some([&a[..], &[&parts[0][..], &parts[1]].concat()]));
    assert_eq!(parse(&signed(&[&a, &digest, &a])).signed_portion(), None);
    assert_eq!(parse(&signed(&[&a])).signed_portion(), None);
    let unsigned = interest(&[&nested(t::NAME, &[&a, &digest]), &parts[0], &parts[1]]);
    assert!(!parse(&unsigned).is_signed());
    assert_eq!(parse(&unsigned).signed_portion(), None);
    // Error offsets in the signature info count from the packet.
    let bad_info = tlv(t::INTEREST_SIGNATURE_INFO, &[]);
    let wire = interest(&[NAME, &parts[0], &bad_info, &parts[2]]);
    let error = parse(&wire).signature_info().unwrap_err();
    assert_eq!(error, DecodeError::Missing { ty: t::SIGNATURE_TYPE, offset: 12 });
}

/// Every subset of elements, with unknown ones between: the added Nonce is in its position, and
/// nothing else changes.
#[test]
fn nonce_is_added_in_element_order() {
    let elements = elements();
    for choice in 0_u32..1 << elements.len() {
        if choice >> 3 & 1 == 1 {
            continue; // has a Nonce
        }
        for unknown in [&[][..], &[126, 1, 0]] {
            let mut parts: Vec<&[u8]> = vec![NAME];
            for (i, (_, element)) in elements.iter().enumerate() {
                if choice >> i & 1 == 1 {
                    parts.extend([unknown, element]);
                }
            }
            let wire = interest(&parts);
            let before = parse(&wire);
            let mut out = vec![0; before.encoded_len_with_nonce()];
            assert_eq!(before.write_with_nonce(0xABCD_EF01, &mut out), Ok(out.len()));
            let after = parse(&out);
            assert_eq!(after.nonce(), Some(0xABCD_EF01));
            let nonce = after.nonce_offset().unwrap() - 2;
            let header = out.len() - wire.len() - 6;
            assert_eq!([&out[..nonce], &out[nonce + 6..]].concat()[header..][2..], wire[2..]);
            assert_eq!(after.can_be_prefix(), before.can_be_prefix());
            assert_eq!(after.must_be_fresh(), before.must_be_fresh());
            assert_eq!(after.forwarding_hint().count(), before.forwarding_hint().count());
            assert_eq!(after.lifetime_ms(), before.lifetime_ms());
            assert_eq!(after.hop_limit(), before.hop_limit());
            assert_eq!(after.parameters_portion(), before.parameters_portion());
            for len in 0..out.len() {
                let result = before.write_with_nonce(1, &mut out[..len]);
                assert_eq!(result, Err(EncodeError::BufferTooSmall));
            }
        }
    }
}

#[test]
fn added_nonce_may_lengthen_the_header() {
    for len in 225..260 {
        let name = nested(t::NAME, &[&tlv(8, &vec![b'x'; len])]);
        let wire = interest(&[&name, &tlv(t::HOP_LIMIT, &[3])]);
        let before = parse(&wire);
        let mut out = vec![0; before.encoded_len_with_nonce()];
        assert_eq!(before.write_with_nonce(7, &mut out), Ok(out.len()));
        assert_eq!((parse(&out).nonce(), parse(&out).hop_limit()), (Some(7), Some(3)));
        // Another Nonce replaces the first.
        let mut again = vec![0; out.len()];
        assert_eq!(parse(&out).write_with_nonce(8, &mut again), Ok(out.len()));
        assert_eq!(parse(&again).nonce(), Some(8));
        assert_eq!(parse(&again).hop_limit(), Some(3));
    }
}

fn data(uri: &str) -> Vec<u8> {
    let name: Name = uri.parse().unwrap();
    DataBuilder::new(&name)
        .to_vec(&SignatureInfo::new(SignatureType::NULL), 0, |_, _| Some(0))
        .unwrap()
}

#[test]
fn matches_data_by_name() {
    let matches = |interest: &str, can_be_prefix, data_uri: &str| {
        let name: Name = interest.parse().unwrap();
        let wire = InterestBuilder::new(&name).can_be_prefix(can_be_prefix).to_vec().unwrap();
        let data = data(data_uri);
        parse(&wire).matches(&Data::parse(&data).unwrap(), sha256)
    };
    assert!(matches("/a/b", false, "/a/b"));
    assert!(!matches("/a", false, "/a/b"));
    assert!(matches("/a", true, "/a/b"));
    assert!(matches("/a/b", true, "/a/b"));
    assert!(!matches("/a/b/c", true, "/a/b"));
    assert!(!matches("/b", true, "/a/b"));
    let mut full: Name = "/a/b".parse().unwrap();
    full.push_implicit_digest(&sha256(&data("/a/b")));
    for can_be_prefix in [false, true] {
        assert!(matches(&full.to_uri(), can_be_prefix, "/a/b"));
        assert!(!matches(&full.to_uri(), can_be_prefix, "/a/c"));
        assert!(!matches(&full.to_uri(), can_be_prefix, "/a"));
    }
    let mut other: Name = "/a/b".parse().unwrap();
    other.push_implicit_digest(&[0; 32]);
    assert!(!matches(&other.to_uri(), true, "/a/b"));
}

mod builder {
    use super::super::*;
    use crate::error::EncodeError;
    use crate::name::{Name, NameRef};
    use crate::signature::{KeyLocator, SignatureInfo, SignatureType};
    use crate::testing::sha256;
    use crate::tlv::append_tlv;
    use crate::types as t;

    fn parse(wire: &[u8]) -> Interest<'_> {
        Interest::parse(wire).unwrap()
    }

    #[test]
    fn builder_rejects_invalid_interests() {
        let empty = Name::new();
        let invalid = |ty| Err(EncodeError::InvalidField { ty });
        assert_eq!(InterestBuilder::new(&empty).to_vec(), invalid(t::NAME));
        let name: Name = "/a".parse().unwrap();
        assert_eq!(
            InterestBuilder::new(&name).parameters(b"p").to_vec(),
            invalid(t::APPLICATION_PARAMETERS)
        );
        let mut middle = name.clone();
        middle.push_parameters_digest(&[0; 32]).push_segment(0);
        let info = SignatureInfo::new(SignatureType::NULL);
        let builder = InterestBuilder::new(&middle).parameters(b"p");
        let digest = t::PARAMETERS_SHA256_DIGEST_COMPONENT;
        assert_eq!(builder.to_vec_signed(&info, 0, |_, _| Some(0), sha256), invalid(digest));
        middle.push_parameters_digest(&[0; 32]);
        let builder = InterestBuilder::new(&middle).parameters(b"p");
        assert_eq!(builder.to_vec_with_parameters(sha256), invalid(digest));
        let empty_nonce = SignatureInfo { nonce: Some(&[]), ..info };
        let builder = InterestBuilder::new(&name);
        assert_eq!(
            builder.to_vec_signed(&empty_nonce, 0, |_, _| Some(0), sha256),
            invalid(t::SIGNATURE_NONCE)
        );
        assert_eq!(
            builder.to_vec_signed(&info, 9, |_, _| None, sha256),
            Err(EncodeError::SigningFailed)
        );
        assert_eq!(
            builder.to_vec_signed(&info, 9, |_, _| Some(10), sha256),
            Err(EncodeError::SigningFailed)
        );
        for len in 0..builder.encoded_len_signed(&info, 9) {
            let result = builder.write_signed(&mut vec![0; len], &info, 9, |_, _| Some(9), sha256);
            assert_eq!(result, Err(EncodeError::BufferTooSmall), "{len}");
        }
        for len in 0..builder.encoded_len() {
            assert_eq!(builder.write(&mut vec![0; len]), Err(EncodeError::BufferTooSmall), "{len}");
        }
    }

    #[test]
    fn builder_replaces_the_digest_component() {
        let mut name: Name = "/a".parse().unwrap();
        name.push_parameters_digest(&[0; 32]).push_segment(0);
        let wire =
            InterestBuilder::new(&name).parameters(b"p").to_vec_with_parameters(sha256).unwrap();
        let interest = parse(&wire);
        assert!(interest.parameters_digest_is_valid(sha256));
        assert_eq!(interest.name().len(), 3);
        assert_eq!(interest.name().last().unwrap().as_segment(), Some(0));
        let root =
            InterestBuilder::new(NameRef::ROOT).parameters(b"").to_vec_with_parameters(sha256);
        assert!(parse(&root.unwrap()).parameters_digest_is_valid(sha256));
    }

    /// Signatures shorter than reserved, at the lengths where headers change size.
    #[test]
    fn builder_shrinks_headers_for_short_signatures() {
        let name: Name = "/a".parse().unwrap();
        let locator: Name = "/key".parse().unwrap();
        let info = SignatureInfo {
            key_locator: Some(KeyLocator::Name(locator.as_ref())),
            nonce: Some(&[5; 8]),
            time_ms: Some(1_700_000_000_000),
            sequence_num: Some(3),
            ..SignatureInfo::new(SignatureType::SHA256_WITH_ECDSA)
        };
        for reserved in [72, 140, 300] {
            for len in [0, 1, 70, 71, 72, 139, 140, 252, 253, 300]
                .into_iter()
                .filter(|len| *len <= reserved)
            {
                let builder = InterestBuilder::new(&name).nonce(1).parameters(&[1; 60]);
                let mut covered = Vec::new();
                let sign = |pieces: &[&[u8]], out: &mut [u8]| {
                    covered = pieces.concat();
                    assert_eq!(out.len(), reserved);
                    out.fill(0xEE);
                    out[..len].fill(0x55);
                    Some(len)
                };
                let wire = builder.to_vec_signed(&info, reserved, sign, sha256).unwrap();
                let interest = parse(&wire);
                assert_eq!(interest.signature_value(), Some(&vec![0x55; len][..]));
                assert_eq!(interest.signed_portion().unwrap().concat(), covered);
                assert_eq!(interest.signature_info(), Ok(Some(info)));
                assert!(interest.parameters_digest_is_valid(sha256));
                let mut rebuilt = Vec::new();
                append_tlv(&mut rebuilt, t::INTEREST, &wire[wire.len() - value_len(&wire)..]);
                assert_eq!(rebuilt, wire, "shortest header");
            }
        }
    }

    fn value_len(wire: &[u8]) -> usize {
        crate::tlv::Reader::new(wire).read().unwrap().value_len()
    }
}

/// The parser for the common element order against the general one.
mod element_order {
    use crate::interest::Interest;
    use crate::name::Component;
    use crate::testing::tlv;
    use crate::tlv::Reader;
    use crate::{ComponentType, types};
    use proptest::prelude::*;

    /// Components, some of them invalid.
    fn component() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            4 => (0..17_usize).prop_map(|length| tlv(8, &vec![7; length])),
            1 => Just(tlv(1, &[9; 32])),
            1 => Just(tlv(2, &[9; 32])),
            1 => prop_oneof![Just(tlv(1, &[0])), Just(tlv(2, &[])), Just(vec![0, 0])],
            1 => prop_oneof![Just(tlv(253, &[7])), Just(vec![253, 0, 252, 1, 7]), Just(tlv(252, &[7]))],
            1 => Just(vec![8, 253, 0, 3, 1, 2, 3]),
        ]
    }

    /// Elements after the name, some of them invalid.
    const ELEMENTS: [&[u8]; 16] = [
        &[33, 0],
        &[33, 1, 0],
        &[18, 0],
        &[30, 3, 7, 1, 8],
        &[30, 5, 7, 3, 8, 1, 9],
        &[10, 4, 1, 2, 3, 4],
        &[10, 3, 1, 2, 3],
        &[12, 1, 9],
        &[12, 2, 1, 0],
        &[12, 3, 1, 2, 3],
        &[12, 8, 0, 0, 0, 0, 0, 0, 0, 9],
        &[34, 1, 5],
        &[34, 2, 5, 5],
        &[36, 0],
        &[252, 1, 0],
        &[241, 1, 0],
    ];

    /// The same from the name's components, read one by one.
    fn assert_name(interest: &Interest<'_>) {
        let name = interest.name_value_range();
        let mut components = Reader::at(&interest.wire()[..name.end], name.start);
        let (mut count, mut ends_in_digest) = (0, false);
        while let Some(element) = components.next_tlv().unwrap() {
            let component = Component::from_tlv(&element).unwrap();
            count += 1;
            ends_in_digest = component.ty() == ComponentType::IMPLICIT_SHA256_DIGEST;
        }
        assert_eq!(interest.name().len(), count);
        assert_eq!(interest.name_ends_in_implicit_digest(), ends_in_digest);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn common_order_parser_agrees_with_the_general_one(
            components in proptest::collection::vec(component(), 0..5),
            mut elements in proptest::collection::vec(0..ELEMENTS.len(), 0..6),
            is_sorted in any::<bool>(),
            flipped in proptest::option::of(any::<(usize, u8)>()),
        ) {
            if is_sorted {
                elements.sort_unstable();
            }
            let mut value = tlv(types::NAME, &components.concat());
            elements.iter().for_each(|&element| value.extend(ELEMENTS[element]));
            let mut wire = tlv(types::INTEREST, &value);
            if let Some((place, bit)) = flipped {
                let place = place % wire.len();
                wire[place] ^= 1 << (bit % 8);
            }
            let (fast, slow) = (Interest::parse(&wire), Interest::parse_general(&wire));
            prop_assert_eq!(fast.is_ok(), slow.is_ok(), "{:?} {:?}", fast, slow);
            if let (Ok(fast), Ok(slow)) = (fast, slow) {
                prop_assert_eq!(format!("{fast:?}"), format!("{slow:?}"));
                assert_name(&fast);
            }
        }
    }
}

#[test]
fn common_form_leaves_the_name_to_the_caller() {
    use crate::interest::CommonInterest;

    let nonce = tlv(10, &[1, 2, 3, 4]);
    let digest = nested(5, &[&tlv(7, &tlv(2, &[9; 32])), &nonce]);
    assert!(CommonInterest::read(&digest).is_some());
    let interest = Interest::parse(&digest).unwrap();
    assert_eq!(interest.parameters_digest(), ParametersDigest::Unpaired);
    let broken = nested(5, &[&tlv(7, &[8, 2, 0]), &nonce]);
    assert!(CommonInterest::read(&broken).is_some());
    assert!(Interest::parse(&broken).is_err());
}

#[test]
fn plain_form_ends_with_the_packet_whatever_follows() {
    use crate::interest::PlainInterest;

    let name = tlv(7, &tlv(8, b"a"));
    for (limit, hop_limit) in [(vec![], None), (tlv(34, &[9]), Some(9))] {
        let wire = nested(5, &[&name, &tlv(10, &[1, 2, 3, 4]), &tlv(12, &[15, 160]), &limit]);
        for behind in [[0; 13], [34; 13], [34, 1, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]] {
            let front = [&wire[..], &behind].concat();
            let plain = PlainInterest::read(&front, wire.len()).unwrap();
            assert_eq!((plain.name, plain.nonce, plain.lifetime_ms), (4..7, 0x0102_0304, 4000));
            assert_eq!(plain.hop_limit, hop_limit);
            for length in (0..front.len()).filter(|&length| length != wire.len()) {
                assert!(PlainInterest::read(&front, length).is_none(), "{length}");
            }
        }
    }
    let selected =
        nested(5, &[&name, &tlv(33, &[]), &tlv(10, &[1, 2, 3, 4]), &tlv(12, &[15, 160])]);
    let front = [&selected[..], &[0; 13]].concat();
    assert!(PlainInterest::read(&front, selected.len()).is_none());
}
