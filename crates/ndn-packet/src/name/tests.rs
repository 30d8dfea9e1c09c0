use super::*;
use crate::error::DecodeError;
use crate::testing::{hex, nested, tlv};
use crate::types;
use std::collections::HashMap;

fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}

#[test]
fn reads_components_of_every_type() {
    let wire = hex("07 13 0801 61 3201 07 FDFFFF00 2002 6162 FD0100 01 FF");
    let name = NameRef::parse(&wire).unwrap();
    assert_eq!(name.len(), 5);
    assert_eq!(name.encoded_len(), wire.len());
    let types: Vec<u16> = name.components().map(|component| component.ty().value()).collect();
    assert_eq!(types, [8, 50, 65_535, 32, 256]);
    assert_eq!(name.component(1).unwrap().as_segment(), Some(7));
    assert_eq!(name.component(2).unwrap().value(), []);
    assert_eq!(name.last().unwrap().value(), [0xFF]);
    assert_eq!(name.component(5), None);
    assert_eq!(name.to_uri(), "/a/seg=7/65535=.../32=ab/256=%FF");
    let total: usize = name.components().map(|component| component.encoded_len()).sum();
    assert_eq!(total, name.value().len());
}

#[test]
fn invalid_components_are_rejected() {
    let error = |value: &[u8]| NameRef::from_value(value).unwrap_err();
    assert_eq!(error(&[0, 0]), DecodeError::InvalidType { offset: 0 });
    assert_eq!(
        error(&tlv(65_536, &[])),
        DecodeError::InvalidComponentType { ty: 65_536, offset: 0 }
    );
    assert_eq!(
        error(&[&[8, 0][..], &tlv(100_000, &[1])].concat()),
        DecodeError::InvalidComponentType { ty: 100_000, offset: 2 }
    );
    for ty in [1, 2] {
        assert!(NameRef::from_value(&tlv(ty, &[0; 32])).is_ok());
        for len in [0, 31, 33] {
            assert!(
                matches!(
                    error(&tlv(ty, &vec![0; len])),
                    DecodeError::InvalidLength { offset: 0, .. }
                ),
                "digest of {len} bytes"
            );
        }
    }
    // The offset of the component counts from the start of the parsed bytes.
    let wire = nested(7, &[&[8, 1, b'a'], &[1, 1, 0]]);
    assert_eq!(
        NameRef::parse(&wire).unwrap_err(),
        DecodeError::InvalidLength { ty: 1, offset: 5, length: 1 }
    );
    let wire = nested(7, &[&[8, 1, b'a'], &[8, 9, 0]]);
    assert_eq!(
        NameRef::parse(&wire).unwrap_err(),
        DecodeError::LengthOverrun { ty: 8, offset: 5, length: 9 }
    );
    assert_eq!(error(&[8]), DecodeError::Truncated { offset: 1 });
    assert_eq!(error(&hex("08FD0001 61")), DecodeError::NonShortestNumber { offset: 1 });
    assert!(matches!(NameRef::parse(&tlv(8, &[])), Err(DecodeError::UnexpectedType { .. })));
    assert!(matches!(NameRef::parse(&[7, 0, 0]), Err(DecodeError::TrailingBytes { offset: 2 })));
}

#[test]
fn components_with_long_length_fields_are_read() {
    for len in [252, 253, 65_535, 65_536] {
        let mut name = Name::new();
        name.push_generic(vec![1; len]).push_generic("end");
        let parsed = NameRef::from_value(name.value()).unwrap();
        assert_eq!(parsed.len(), 2);
        assert_eq!(parsed.component(0).unwrap().value().len(), len);
        assert_eq!(parsed.last().unwrap().value(), b"end");
    }
}

#[test]
fn component_count_is_limited_to_what_fits_a_packet() {
    // The maximum number of components in a packet.
    let value = [8, 0].repeat(crate::MAX_PACKET_SIZE / 2);
    assert_eq!(NameRef::from_value(&value).unwrap().len(), 4400);
    let value = [8, 0].repeat(MAX_COMPONENTS);
    assert_eq!(NameRef::from_value(&value).unwrap().len(), MAX_COMPONENTS);
    let value = [8, 0].repeat(MAX_COMPONENTS + 1);
    assert_eq!(NameRef::from_value(&value), Err(DecodeError::TooManyComponents { offset: 0 }));
}

#[test]
fn prefix_and_suffix_select_components() {
    let name = name("/a/b/c");
    let name = name.as_ref();
    assert_eq!(name.prefix(0), NameRef::ROOT);
    assert_eq!(name.prefix(2).to_uri(), "/a/b");
    assert_eq!(name.prefix(3), name);
    assert_eq!(name.prefix(70_000), name);
    assert_eq!(name.suffix(0), name);
    assert_eq!(name.suffix(2).to_uri(), "/c");
    assert_eq!(name.suffix(2).len(), 1);
    assert_eq!(name.suffix(3), NameRef::ROOT);
    assert_eq!(name.suffix(70_000), NameRef::ROOT);
    assert_eq!(name.parent().to_uri(), "/a/b");
    assert_eq!(NameRef::ROOT.parent(), NameRef::ROOT);
    assert!(NameRef::ROOT.last().is_none());
}

#[test]
fn starts_with_compares_components() {
    let long = name("/ab/c/v=1");
    for prefix in ["/", "/ab", "/ab/c", "/ab/c/v=1"] {
        assert!(long.starts_with(name(prefix).as_ref()), "{prefix}");
    }
    for other in ["/a", "/abc", "/ab/c/v=2", "/ab/c/seg=1", "/ab/c/v=1/d", "/c"] {
        assert!(!long.starts_with(name(other).as_ref()), "{other}");
    }
}

#[test]
fn names_sort_in_canonical_order() {
    // Type, then length, then bytes; a prefix comes first.
    let sorted = [
        "/",
        "/sha256digest=0000000000000000000000000000000000000000000000000000000000000000",
        "/params-sha256=0000000000000000000000000000000000000000000000000000000000000000",
        "/...",
        "/D",
        "/D/...",
        "/D/C",
        "/D/v=0",
        "/E",
        "/a",
        "/AA",
        "/32=A",
        "/seg=0",
        "/seg=256",
        "/252=A",
        "/253=A",
        "/65535=...",
    ];
    for (i, a) in sorted.iter().enumerate() {
        for (j, b) in sorted.iter().enumerate() {
            assert_eq!(name(a).cmp(&name(b)), i.cmp(&j), "{a} and {b}");
            assert_eq!(name(a).as_ref().cmp(&name(b).as_ref()), i.cmp(&j), "{a} and {b}");
        }
    }
    let (short, long) = (Component::generic(b"b"), Component::generic(b"aa"));
    assert!(short < long && Component::keyword(b"a") > long);
}

#[test]
fn implicit_digest_is_recognised_as_the_last_component_only() {
    let digest = [7; 32];
    let mut with_digest = name("/a");
    with_digest.push_implicit_digest(&digest);
    assert_eq!(with_digest.as_ref().implicit_digest(), Some(&digest));
    with_digest.push_generic("b");
    assert_eq!(with_digest.as_ref().implicit_digest(), None, "not last");

    // A last component whose value looks like a digest component.
    let mut inside = Name::new();
    inside.push_generic([&[1, 32][..], &digest].concat());
    assert_eq!(inside.as_ref().implicit_digest(), None);
    assert_eq!(name("/a").as_ref().implicit_digest(), None);
    assert_eq!(NameRef::ROOT.implicit_digest(), None);

    let mut parameterized = name("/a/b");
    parameterized.push_parameters_digest(&digest).push_segment(0);
    assert_eq!(parameterized.as_ref().parameters_digest(), Some((2, &digest)));
    assert_eq!(name("/a/b").as_ref().parameters_digest(), None);
}

#[test]
fn numbers_are_read_by_component_type() {
    let name = name("/seg=256/off=1/v=18446744073709551615/t=70000/seq=0/258");
    let component = |i| name.component(i).unwrap();
    assert_eq!(component(0).as_segment(), Some(256));
    assert_eq!(component(1).as_byte_offset(), Some(1));
    assert_eq!(component(2).as_version(), Some(u64::MAX));
    assert_eq!(component(3).as_timestamp(), Some(70_000));
    assert_eq!(component(4).as_sequence_num(), Some(0));
    assert_eq!(component(0).as_version(), None);
    assert_eq!(component(5).as_number(), None, "three bytes");
}

#[test]
fn pushed_components_build_a_name() {
    let mut built = Name::new();
    built
        .push_generic("a")
        .push_keyword("metadata")
        .push_version(3)
        .push_segment(4)
        .push_byte_offset(5)
        .push_timestamp(6)
        .push_sequence_num(7)
        .push_number(ComponentType::new(70).unwrap(), 8);
    assert_eq!(built.to_uri(), "/a/32=metadata/v=3/seg=4/off=5/t=6/seq=7/70=%08");
    assert_eq!(built.len(), 8);
    built.truncate(2);
    built.append(name("/x/y").as_ref());
    assert_eq!(built, name("/a/32=metadata/x/y"));
    assert_eq!(NameRef::from_value(built.value()).unwrap().len(), built.len());
    assert_eq!(built.components().collect::<Name>(), built);
    assert_eq!(built.as_ref().to_name(), built);
    built.truncate(9);
    assert_eq!(built.len(), 4);
}

#[test]
fn names_are_map_keys_found_by_bytes() {
    let key = name("/a/b");
    let map = HashMap::from([(key.clone(), 1)]);
    assert_eq!(map.get(key.as_ref().value()), Some(&1));
    assert_eq!(map.get(name("/a").value()), None);
    assert_eq!(key, key.as_ref());
    assert_eq!(key.as_ref(), key);
}

#[test]
fn wrong_component_count_does_not_panic() {
    let name = name("/a/b/c");
    for (value, count) in
        [(name.value(), 900), (name.value(), 0), (&[8, 200, 1][..], 3), (&[0, 0][..], 1)]
    {
        let wrong = NameRef::from_validated(value, count);
        let _ = (
            wrong.components().count(),
            wrong.last(),
            wrong.prefix(2),
            wrong.suffix(2),
            wrong.parent(),
        );
        let _ = (
            wrong.implicit_digest(),
            wrong.parameters_digest(),
            wrong.to_uri(),
            wrong.component(5),
        );
    }
}

type TypedBytes<'a> = (u16, &'a [u8]);

#[test]
fn uri_round_trip_of_examples() {
    let cases: &[(&str, &[TypedBytes<'_>])] = &[
        ("/", &[]),
        ("/hello/world", &[(8, b"hello"), (8, b"world")]),
        ("/-._~09azAZ", &[(8, b"-._~09azAZ")]),
        ("/%00%20%2F%25%3D%2B%FF", &[(8, b"\x00 /%=+\xFF")]),
        ("/...", &[(8, b"")]),
        ("/....", &[(8, b".")]),
        ("/......", &[(8, b"...")]),
        ("/.a./..b", &[(8, b".a."), (8, b"..b")]),
        ("/42=Hello%20world", &[(42, b"Hello world")]),
        ("/32=metadata/1000=...", &[(32, b"metadata"), (1000, b"")]),
        ("/65535=A", &[(65_535, b"A")]),
        (
            "/seg=0/off=255/v=256/t=65536/seq=4294967296",
            &[
                (50, &[0]),
                (52, &[255]),
                (54, &[1, 0]),
                (56, &[0, 1, 0, 0]),
                (58, &[0, 0, 0, 1, 0, 0, 0, 0]),
            ],
        ),
        // Not numbers, or not the shortest form of one.
        ("/50=.../54=%00%00%00/50=%00%01", &[(50, b""), (54, &[0; 3]), (50, &[0, 1])]),
        (
            "/sha256digest=00ab000000000000000000000000000000000000000000000000000000000001",
            &[(1, &hex_digest())],
        ),
        (
            "/params-sha256=00ab000000000000000000000000000000000000000000000000000000000001",
            &[(2, &hex_digest())],
        ),
    ];
    for (uri, components) in cases {
        let built: Name = components
            .iter()
            .map(|(ty, value)| Component::new(ComponentType::new(*ty).unwrap(), value))
            .collect();
        assert_eq!(built.to_uri(), *uri);
        assert_eq!(name(uri), built, "{uri}");
        assert_eq!(format!("{built:?}"), *uri);
    }
}

fn hex_digest() -> [u8; 32] {
    let mut digest = [0; 32];
    (digest[1], digest[31]) = (0xAB, 1);
    digest
}

#[test]
fn uri_variants_parse_to_the_canonical_form() {
    let digest = "AB".repeat(32);
    let cases = [
        ("", "/".to_owned()),
        ("ndn:", "/".to_owned()),
        ("ndn:/", "/".to_owned()),
        ("ndn:/a/b", "/a/b".to_owned()),
        ("NDN:/a", "/a".to_owned()),
        ("ndn://authority/a", "/a".to_owned()),
        ("ndn://authority", "/".to_owned()),
        ("ndn:///a", "/a".to_owned()),
        ("a/b", "/a/b".to_owned()),
        ("/a/b/", "/a/b".to_owned()),
        ("/8=a", "/a".to_owned()),
        ("/50=%00", "/seg=0".to_owned()),
        ("/%61%2d", "/a-".to_owned()),
        ("/a:b@c", "/a%3Ab%40c".to_owned()),
        ("/ndn:x", "/ndn%3Ax".to_owned()),
        ("/é", "/%C3%A9".to_owned()),
        ("/42=a=b", "/42=a%3Db".to_owned()),
        (&format!("/sha256digest={digest}"), format!("/sha256digest={}", digest.to_lowercase())),
        (&format!("/1={}", "%AB".repeat(32)), format!("/sha256digest={}", digest.to_lowercase())),
    ];
    for (text, canonical) in &cases {
        assert_eq!(name(text).to_uri(), *canonical, "{text}");
    }
}

#[test]
fn invalid_uri_is_rejected_with_its_offset() {
    use crate::error::UriError as E;
    let digest_31 = format!("/sha256digest={}", "ab".repeat(31));
    let digest_odd = format!("/sha256digest={}a", "ab".repeat(31));
    let digest_letters = format!("/params-sha256={}", "xy".repeat(32));
    let cases: &[(&str, E)] = &[
        ("//", E::EmptyComponent { offset: 1 }),
        ("/a//b", E::EmptyComponent { offset: 3 }),
        ("//a", E::EmptyComponent { offset: 1 }),
        ("/a/b//", E::EmptyComponent { offset: 5 }),
        ("/42=", E::EmptyComponent { offset: 1 }),
        ("/.", E::RelativeComponent { offset: 1 }),
        ("ndn:/a/..", E::RelativeComponent { offset: 7 }),
        ("/%2E%2E", E::RelativeComponent { offset: 1 }),
        ("/a%", E::InvalidEscape { offset: 2 }),
        ("/a%4", E::InvalidEscape { offset: 2 }),
        ("/%zz", E::InvalidEscape { offset: 1 }),
        ("/8=%+1", E::InvalidEscape { offset: 3 }),
        ("/%4/1", E::InvalidEscape { offset: 1 }),
        ("/foo=bar", E::InvalidType { offset: 1 }),
        ("/=a", E::InvalidType { offset: 1 }),
        ("/0=a", E::InvalidType { offset: 1 }),
        ("/08=a", E::InvalidType { offset: 1 }),
        ("/+8=a", E::InvalidType { offset: 1 }),
        ("/-8=a", E::InvalidType { offset: 1 }),
        ("/65536=a", E::InvalidType { offset: 1 }),
        ("/99999999999999999999999=a", E::InvalidType { offset: 1 }),
        ("/Seg=1", E::InvalidType { offset: 1 }),
        ("/seg=", E::InvalidNumber { offset: 1 }),
        ("/seg=x", E::InvalidNumber { offset: 1 }),
        ("/seg=01", E::InvalidNumber { offset: 1 }),
        ("/v=-1", E::InvalidNumber { offset: 1 }),
        ("/v=+1", E::InvalidNumber { offset: 1 }),
        ("/v=18446744073709551616", E::InvalidNumber { offset: 1 }),
        ("/1=ab", E::InvalidDigest { offset: 1 }),
        ("/sha256digest=", E::InvalidDigest { offset: 1 }),
        (&digest_31, E::InvalidDigest { offset: 1 }),
        (&digest_odd, E::InvalidDigest { offset: 1 }),
        (&digest_letters, E::InvalidDigest { offset: 1 }),
    ];
    for (text, error) in cases {
        assert_eq!(Name::from_uri(text), Err(*error), "{text}");
        assert!(!error.to_string().is_empty());
    }
    let many = "/a".repeat(MAX_COMPONENTS + 1);
    assert_eq!(Name::from_uri(&many), Err(E::TooManyComponents));
    assert_eq!(Name::from_uri(&many[2..]).unwrap().len(), MAX_COMPONENTS);
}

#[test]
fn single_component_is_parsed_and_printed() {
    let mut value = Vec::new();
    assert_eq!(Component::parse_uri("seg=256", &mut value), Ok(ComponentType::SEGMENT));
    assert_eq!(value, [1, 0]);
    assert_eq!(Component::new(ComponentType::SEGMENT, &value).to_string(), "seg=256");
    assert_eq!(Component::generic(b"..").to_string(), ".....");
    assert_eq!(ComponentType::new(0), None);
    assert_eq!(types::VERSION_COMPONENT, ComponentType::VERSION.tlv_type());
}
