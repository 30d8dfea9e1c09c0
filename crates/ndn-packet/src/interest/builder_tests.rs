use super::*;
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
fn builder_refuses_what_would_not_be_read() {
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
fn builder_puts_the_digest_where_the_name_has_it() {
    let mut name: Name = "/a".parse().unwrap();
    name.push_parameters_digest(&[0; 32]).push_segment(0);
    let wire = InterestBuilder::new(&name).parameters(b"p").to_vec_with_parameters(sha256).unwrap();
    let interest = parse(&wire);
    assert!(interest.parameters_digest_is_valid(sha256));
    assert_eq!(interest.name().len(), 3);
    assert_eq!(interest.name().last().unwrap().as_segment(), Some(0));
    let root = InterestBuilder::new(NameRef::ROOT).parameters(b"").to_vec_with_parameters(sha256);
    assert!(parse(&root.unwrap()).parameters_digest_is_valid(sha256));
}

/// Signatures shorter than reserved, at the lengths where headers change size.
#[test]
fn builder_closes_up_behind_short_signatures() {
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
        for len in
            [0, 1, 70, 71, 72, 139, 140, 252, 253, 300].into_iter().filter(|len| *len <= reserved)
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
