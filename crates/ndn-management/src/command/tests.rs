//! Command Interests that real clients sent, and what is wrong with others.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use ndn_packet::{InterestBuilder, SignatureInfo, SignatureType, types};

use super::*;
use crate::Parameter;
use crate::client::CommandBuilder;
use crate::testing::{hex, name};

/// `rib/register` of `/a/b` by python-ndn 0.5: signed Interest, DigestSha256.
const PYTHON_NDN_V3: &str =
    "0598074d08096c6f63616c686f737408036e6664080372696208087265676973746572080a6808070608016108016202
     204cbf6faa93b09236e817532c5ef86a3b0e1d104e46d71ec864240e7b0c10b0e512000a04010203040c0203e824002c
     171b01002608112233445566778828080000018bcfe568002e20502b71999369d432e4fe27829c9290d90c3443675568
     8a5369633b5ee1d50471";

/// The same in the format of 2013.
const PYTHON_NDN_V2: &str =
    "0576076a08096c6f63616c686f737408036e6664080372696208087265676973746572080a6808070608016108016208
     080000018bcfe5680008081122334455667788080516031b0100082217203d7fe9afa0405bd395f66e6b01d382a603d4
     93e57649ef2d8e87b7c4a62bb69a0a04010203040c0203e8";

/// `faces/destroy` of face 300 by NDNTs (January 2025).
const NDNTS: &str =
    "0595074a08096c6f63616c686f737408036e666408056661636573080764657374726f79080668046902012c0220d6a4
     5e586d955b08dce33ec39f9374d71b8d7e58f13a5a9760202347abe1d4e812000a04010203040c0203e824002c171b01
     0026080102030405060708280800060a24181e40002e20439ade41cfef49f3892f85a84c382cc63381ee5eb2867006cc
     8a9e7da251787e";

fn parse(wire: &[u8]) -> Result<Command<'_>, CommandError> {
    parse_command(&Interest::parse(wire).unwrap(), ndn_security::sha256)
}

fn assert_digest_is_right(signature: &CommandSignature<'_>) {
    let (digest, value) = match signature {
        CommandSignature::Absent => panic!("no signature"),
        CommandSignature::Interest { signed, value, .. } => {
            (ndn_security::sha256_parts(signed), value)
        }
        CommandSignature::NameComponents { signed, value, .. } => {
            (ndn_security::sha256(signed), value)
        }
    };
    assert_eq!(digest, **value);
}

#[test]
fn signed_interest_of_python_ndn_is_parsed() {
    let wire = hex(PYTHON_NDN_V3);
    let command = parse(&wire).unwrap();
    assert_eq!((command.top_prefix, command.verb), (TopPrefix::Localhost, Verb::RibRegister));
    let expected = ControlParameters { name: Some(name("/a/b")), ..ControlParameters::default() };
    assert_eq!(command.parameters, expected);
    assert!(matches!(command.signature, CommandSignature::Interest { .. }));
    assert_eq!(command.signature.time_ms(), Some(1_700_000_000_000));
    assert_eq!(command.signature.signer(), "DigestSha256");
    assert_eq!(command.signature.key_name(), None);
    assert_digest_is_right(&command.signature);
}

#[test]
fn command_interest_in_the_format_of_2013_is_parsed() {
    let wire = hex(PYTHON_NDN_V2);
    let command = parse(&wire).unwrap();
    assert_eq!(command.verb, Verb::RibRegister);
    assert!(matches!(command.signature, CommandSignature::NameComponents { .. }));
    assert_eq!(command.signature.time_ms(), Some(1_700_000_000_000));
    assert_digest_is_right(&command.signature);
}

#[test]
fn signed_interest_of_ndnts_is_parsed() {
    let wire = hex(NDNTS);
    let command = parse(&wire).unwrap();
    assert_eq!(command.verb, Verb::FaceDestroy);
    assert_eq!(command.parameters.face_id, Some(300));
    assert_digest_is_right(&command.signature);
}

#[test]
fn own_commands_are_parsed() {
    let parameters = ControlParameters { face_id: Some(300), ..ControlParameters::default() };
    let announce = Verb::RibAnnounce;
    for verb in Verb::ALL.iter().copied().filter(|verb| *verb != announce) {
        let wire =
            CommandBuilder::default().digest_signed_interest(verb, &parameters, 7, 8).unwrap();
        let command = parse(&wire).unwrap();
        assert_eq!((command.verb, &command.parameters), (verb, &parameters));
        assert_eq!(command.signature.time_ms(), Some(8));
        assert_digest_is_right(&command.signature);
    }
}

#[test]
fn key_locators_name_the_signer() {
    let key = name("/operator/KEY/1");
    let mut info = SignatureInfo::new(SignatureType::SHA256_WITH_ECDSA);
    info.key_locator = Some(ndn_packet::KeyLocator::Name(key.as_ref()));
    let sign = |_: &[&[u8]], _: &mut [u8]| Some(70);
    let wire = CommandBuilder::default()
        .signed_interest(Verb::CsConfig, &ControlParameters::default(), 1, &info, 72, sign)
        .unwrap();
    let command = parse(&wire).unwrap();
    assert_eq!(command.signature.signer(), "/operator/KEY/1");
    assert_eq!(command.signature.key_name(), Some(key.as_ref()));
}

fn parse_name(uri: &str) -> Result<TopPrefix, CommandError> {
    let name = name(uri);
    let wire = InterestBuilder::new(&name).to_vec().unwrap();
    parse(&wire).map(|command| command.top_prefix)
}

#[test]
fn malformed_command_name_is_refused() {
    for uri in [
        "/localhost",
        "/localhost/nfd",
        "/localhost/nfd/rib",
        "/localhost/nfdx/rib/register/h%00",
        "/a",
    ] {
        assert_eq!(parse_name(uri).unwrap_err(), CommandError::NotManagement, "{uri}");
    }
    for uri in [
        "/localhost/nfd/rib/list",
        "/localhost/nfd/rib/create/h%00",
        "/localhost/nfd/faces/register",
    ] {
        assert_eq!(parse_name(uri).unwrap_err(), CommandError::UnknownVerb, "{uri}");
    }
    for uri in [
        "/localhost/nfd/rib/register",
        "/localhost/nfd/rib/register/x",
        "/localhost/nfd/rib/register/h%01",
    ] {
        assert!(matches!(parse_name(uri), Err(CommandError::MalformedParameters(_))), "{uri}");
    }
    assert_eq!(parse_name("/localhost/nfd/rib/register/h%00").unwrap(), TopPrefix::Localhost);
    assert_eq!(parse_name("/localhop/nfd/rib/register/h%00").unwrap(), TopPrefix::Localhop);
    let unsigned = name("/localhost/nfd/rib/register/h%00");
    let wire = InterestBuilder::new(&unsigned).to_vec().unwrap();
    assert!(matches!(parse(&wire).unwrap().signature, CommandSignature::Absent));
}

#[test]
fn malformed_signature_is_refused() {
    // A flipped bit behind the name breaks the parameters digest.
    let mut wire = hex(PYTHON_NDN_V3);
    *wire.last_mut().unwrap() ^= 1;
    assert_eq!(
        parse(&wire).unwrap_err(),
        CommandError::MalformedSignature(SignatureError::DigestMismatch)
    );

    let old_format = |timestamp: &str, info: &str, value: &str| {
        let uri = format!("/localhost/nfd/rib/register/h%00/{timestamp}/%00/{info}/{value}");
        parse_name(&uri)
    };
    assert!(old_format("%00", "%16%03%1B%01%00", "%17%00").is_ok());
    assert_eq!(
        old_format("%00%00%00", "%16%03%1B%01%00", "%17%00").unwrap_err(),
        CommandError::MalformedSignature(SignatureError::InvalidTimestamp)
    );
    for (info, value) in [
        ("%16%00", "%17%00"),                      // no SignatureType
        ("%16%03%1B%01", "%17%00"),                // cut short
        ("%17%00", "%17%00"),                      // another element
        ("%16%03%1B%01%00", "%16%00"),             // no SignatureValue
        ("%16%07%1B%01%00%1C%02%07%05", "%17%00"), // key locator longer than its parent
    ] {
        assert!(
            matches!(
                old_format("%00", info, value),
                Err(CommandError::MalformedSignature(SignatureError::Malformed(_)))
            ),
            "{info} {value}"
        );
    }
}

#[test]
fn signature_info_without_value_is_incomplete() {
    // Application parameters, SignatureInfo, no SignatureValue; the digest is right.
    let tail = hex("2400 2c031b0100");
    let digest = ndn_security::sha256(&tail);
    let mut command = name("/localhost/nfd/rib/register/h%00");
    command.push_parameters_digest(&digest);
    let mut wire = Vec::new();
    ndn_packet::tlv::append_nested(&mut wire, types::INTEREST, |out| {
        ndn_packet::tlv::append_name(out, command.as_ref());
        out.extend_from_slice(&tail);
    });
    assert_eq!(
        parse(&wire).unwrap_err(),
        CommandError::MalformedSignature(SignatureError::Incomplete)
    );
}

#[test]
fn missing_and_excess_parameters_are_rejected() {
    let none = ControlParameters::default();
    let with_name = ControlParameters { name: Some(name("/a")), ..none.clone() };
    let with_face = ControlParameters { face_id: Some(300), ..none.clone() };
    assert_eq!(Verb::RibRegister.check(&none), Err(ParameterError::Required(Parameter::Name)));
    assert_eq!(Verb::RibRegister.check(&with_name), Ok(()));
    let refused = ControlParameters { capacity: Some(1), ..with_name.clone() };
    assert_eq!(
        Verb::RibRegister.check(&refused),
        Err(ParameterError::Refused(Parameter::Capacity))
    );
    assert_eq!(Verb::FaceDestroy.check(&with_face), Ok(()));
    let zero = ControlParameters { face_id: Some(0), ..none.clone() };
    assert_eq!(Verb::FaceDestroy.check(&zero), Err(ParameterError::Value(Parameter::FaceId)));
    assert_eq!(Verb::FaceUpdate.check(&zero), Ok(()));
    assert_eq!(
        Verb::StrategySet.check(&with_name),
        Err(ParameterError::Required(Parameter::Strategy))
    );
    assert_eq!(Verb::StrategyUnset.check(&with_name), Ok(()));
    let root = ControlParameters { name: Some(Name::new()), ..none.clone() };
    assert_eq!(Verb::StrategyUnset.check(&root), Err(ParameterError::Value(Parameter::Name)));
    let count = |count| ControlParameters { count: Some(count), ..with_name.clone() };
    assert_eq!(Verb::CsErase.check(&count(0)), Err(ParameterError::Value(Parameter::Count)));
    assert_eq!(Verb::CsErase.check(&count(1)), Ok(()));
    assert_eq!(Verb::CsConfig.check(&none), Ok(()));
    let flags = ControlParameters { flags: Some(1), ..none.clone() };
    assert_eq!(Verb::CsConfig.check(&flags), Err(ParameterError::FlagsWithoutMask));
    let mask = ControlParameters { mask: Some(1), ..none };
    assert_eq!(Verb::FaceUpdate.check(&mask), Err(ParameterError::FlagsWithoutMask));
    // A route's flags come without a mask.
    let route = ControlParameters { flags: Some(1), ..with_name };
    assert_eq!(Verb::RibRegister.check(&route), Ok(()));
}

#[test]
fn no_parameter_is_both_required_and_optional() {
    for &verb in Verb::ALL {
        let both = verb.required().iter().any(|parameter| verb.optional().contains(parameter));
        assert!(!both, "{verb}");
        assert_eq!(
            Verb::find(verb.module().as_str().as_bytes(), verb.as_str().as_bytes()),
            Some(verb)
        );
    }
}

#[test]
fn defaults_set_absent_fields_only() {
    let mut parameters = ControlParameters { cost: Some(9), ..ControlParameters::default() };
    Verb::RibRegister.apply_defaults(&mut parameters);
    let expected = ControlParameters {
        face_id: Some(0),
        origin: Some(0),
        cost: Some(9),
        flags: Some(1),
        ..ControlParameters::default()
    };
    assert_eq!(parameters, expected);
}

/// The answer to an unsigned command is not cached: two programs that register for their own faces send the same name.
#[test]
fn only_signed_commands_and_announcements_have_names_of_their_own() {
    let has_own = |uri: &str| has_own_name(name(uri).as_ref());
    assert!(!has_own("/localhost/nfd/rib/register/h%01"));
    assert!(!has_own("/localhost/nfd/faces/update/h%01"));
    assert!(has_own("/localhost/nfd/rib/register/h%01/digest"));
    assert!(has_own("/localhost/nfd/rib/register/h%01/time/nonce/info/value"));
    assert!(has_own("/localhost/nfd/rib/announce/digest"));
}
