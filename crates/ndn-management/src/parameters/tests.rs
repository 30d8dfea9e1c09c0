#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use crate::dataset::Described;
use crate::testing::{hex, name};
use crate::types::{face_flag, route_flag, route_origin};
use crate::{ControlResponse, status};
use crate::{route_origin_from_text, route_origin_text};
use ndn_types::Persistency;

fn assert_wire(parameters: &ControlParameters, wire: &str) {
    let wire = hex(wire);
    assert_eq!(parameters.to_vec(), wire);
    assert_eq!(ControlParameters::decode(&wire).unwrap(), *parameters);
}

#[test]
fn route_parameters_have_the_wire_format_of_nfd() {
    let parameters = ControlParameters {
        name: Some(name("/a/b")),
        face_id: Some(300),
        origin: Some(route_origin::STATIC),
        cost: Some(10),
        flags: Some(route_flag::CHILD_INHERIT | route_flag::CAPTURE),
        expiration_period_ms: Some(70_000),
        ..ControlParameters::default()
    };
    assert_wire(&parameters, "681b 0706080161080162 6902012c 6f01ff 6a010a 6c0103 6d0400011170");
}

#[test]
fn face_parameters_have_the_wire_format_of_nfd() {
    let mut parameters = ControlParameters {
        uri: Some("udp4://192.0.2.1:6363".to_owned()),
        local_uri: Some("udp4://192.0.2.2:6363".to_owned()),
        persistency: Some(Persistency::Permanent.number()),
        base_congestion_marking_interval_ns: Some(100_000_000),
        default_congestion_threshold: Some(65_536),
        mtu: Some(1400),
        ..ControlParameters::default()
    };
    parameters.set_flag(face_flag::LP_RELIABILITY, true);
    parameters.set_flag(face_flag::CONGESTION_MARKING, false);
    assert_wire(
        &parameters,
        "6847 7215756470343a2f2f3139322e302e322e313a36333633 8115756470343a2f2f3139322e302e322e323a36333633
         6c0102 700106 850102 870405f5e100 880400010000 89020578",
    );
    assert_eq!(parameters.flag(face_flag::LP_RELIABILITY), Some(true));
    assert_eq!(parameters.flag(face_flag::CONGESTION_MARKING), Some(false));
    assert_eq!(parameters.flag(face_flag::LOCAL_FIELDS), None);
}

#[test]
fn driver_is_a_field_that_other_implementations_ignore() {
    let parameters = ControlParameters {
        driver: Some(crate::FaceDriver::Xdp.number()),
        ..ControlParameters::default()
    };
    assert_wire(&parameters, "6805 fd4e58 0102");
    // A type of an even number that is not known is ignored (NDN packet specification, TLV evolvability).
    assert_eq!(numbers::DRIVER % 2, 0);
}

#[test]
fn strategy_parameters_have_the_wire_format_of_nfd() {
    let parameters = ControlParameters {
        name: Some(name("/x")),
        strategy: Some(name("/localhost/nfd/strategy/asf/v=5")),
        ..ControlParameters::default()
    };
    assert_wire(
        &parameters,
        "682b 0703080178 6b24 0722 08096c6f63616c686f7374 08036e6664 08087374726174656779 0803617366 360105",
    );
}

#[test]
fn content_store_parameters_have_the_wire_format_of_nfd() {
    let parameters = ControlParameters {
        capacity: Some(1 << 40),
        count: Some(256),
        ..ControlParameters::default()
    };
    assert_wire(&parameters, "680e 83080000010000000000 84020100");
}

#[test]
fn fields_in_any_order_unknown_and_repeated_are_accepted() {
    let wire = hex("6816 6c0101 6902012c 7b00 fd03e800 6902012d 0703080161");
    let parameters = ControlParameters::decode(&wire).unwrap();
    let expected = ControlParameters {
        name: Some(name("/a")),
        face_id: Some(300),
        flags: Some(1),
        ..ControlParameters::default()
    };
    assert_eq!(parameters, expected);
}

#[test]
fn parameters_are_set_from_their_values() {
    let numbers = ControlParameters {
        name: Some(name("/a")),
        face_id: Some(1),
        uri: Some("dev://eth0".to_owned()),
        local_uri: Some("fd://1".to_owned()),
        origin: Some(255),
        cost: Some(2),
        capacity: Some(3),
        count: Some(4),
        flags: Some(5),
        mask: Some(6),
        strategy: Some(name("/s/v=1")),
        expiration_period_ms: Some(7),
        persistency: Some(2),
        base_congestion_marking_interval_ns: Some(8),
        default_congestion_threshold: Some(9),
        mtu: Some(10),
        driver: Some(2),
    };
    let DatasetValue::Structure(info, values) = numbers.value() else { panic!("no structure") };
    let mut copy = ControlParameters::default();
    for ((parameter, value), field) in Parameter::ALL.iter().zip(values).zip(info.fields) {
        assert_eq!(parameter.info().name, field.name);
        assert!(!parameter.is_in(&copy), "{parameter:?}");
        copy.set(*parameter, value).unwrap();
        assert!(parameter.is_in(&copy), "{parameter:?}");
    }
    assert_eq!(copy, numbers);
    for parameter in Parameter::ALL {
        copy.set(*parameter, DatasetValue::None).unwrap();
    }
    assert_eq!(copy, ControlParameters::default());
}

#[test]
fn parameters_have_words_and_refuse_other_values() {
    let text = |text: &str| DatasetValue::Text(text.to_owned());
    let mut parameters = ControlParameters::default();
    parameters.set(Parameter::Origin, text("static")).unwrap();
    parameters.set(Parameter::Persistency, text("permanent")).unwrap();
    parameters.set(Parameter::Driver, text("xdp")).unwrap();
    let expected = ControlParameters {
        origin: Some(route_origin::STATIC),
        persistency: Some(Persistency::Permanent.number()),
        driver: Some(crate::FaceDriver::Xdp.number()),
        ..ControlParameters::default()
    };
    assert_eq!(parameters, expected);
    for (parameter, value) in [
        (Parameter::Persistency, text("forever")),
        (Parameter::Origin, text("65536")),
        (Parameter::Cost, text("1")),
        (Parameter::Uri, DatasetValue::Number(1)),
        (Parameter::Name, text("/%")),
    ] {
        let refused = parameters.set(parameter, value);
        assert!(refused.is_err(), "{parameter:?}");
        assert_eq!(parameters, expected);
    }
}

#[test]
fn an_origin_has_16_bits() {
    let origin = |digits: &str| ControlParameters::decode(&hex(&format!("68 {digits}")));
    assert_eq!(origin("04 6f02ffff").unwrap().origin, Some(65_535));
    assert!(origin("06 6f0400010000").is_err());
    assert_eq!(
        (route_origin_text(65_535), route_origin_from_text("none")),
        ("none".into(), Some(65_535))
    );
    assert_eq!(
        (route_origin_from_text("65535"), route_origin_from_text("65536")),
        (Some(65_535), None)
    );
}

#[test]
fn malformed_block_is_refused() {
    for wire in [
        "",
        "68",
        "6802",
        "6801 69",
        "6802 6900",          // no number
        "6805 6903000001",    // a number of three bytes
        "6803 690101 00",     // trailing byte
        "6703 690101",        // another type
        "6802 6b00",          // strategy without a name
        "6804 6b020702",      // name longer than its parent
        "6804 07020805",      // component longer than its name
        "6806 0704 01020000", // digest component of two bytes
        "68fd0003 690101",    // length not in its shortest form
    ] {
        assert!(ControlParameters::decode(&hex(wire)).is_err(), "{wire}");
    }
    assert_eq!(ControlParameters::decode(&hex("6800")).unwrap(), ControlParameters::default());
    // Whether a text is a face URI is not checked here, as in NFD.
    let uri = ControlParameters::decode(&hex("6803 7201ff")).unwrap().uri;
    assert_eq!(uri.as_deref(), Some("\u{fffd}"));
}

#[test]
fn response_is_encoded_with_and_without_body() {
    let bare = ControlResponse::new(status::NOT_FOUND, "no");
    assert_eq!(bare.to_vec(), hex("6508 66020194 67026e6f"));
    assert_eq!(ControlResponse::decode(&bare.to_vec()).unwrap(), bare);
    assert!(bare.parameters().is_err() && !bare.is_ok());

    let parameters = ControlParameters { face_id: Some(300), ..ControlParameters::default() };
    let full = ControlResponse::new(status::OK, "OK").with_body(&parameters);
    assert_eq!(full.to_vec(), hex("650d 6601c8 67024f4b 6804 6902012c"));
    let decoded = ControlResponse::decode(&full.to_vec()).unwrap();
    assert_eq!(decoded, full);
    assert_eq!(decoded.parameters().unwrap(), parameters);

    for wire in ["", "6500", "6503 6601c8", "6507 67024f4b 6601c8", "650a 6605000000012c 67026e6f"]
    {
        assert!(ControlResponse::decode(&hex(wire)).is_err(), "{wire}");
    }
}
