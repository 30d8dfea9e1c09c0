//! Properties of all packets, names and bytes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use ndn_packet::dissect::dissect;
use ndn_packet::tlv::{Reader, frame_len};
use ndn_packet::{
    Component, ComponentType, ContentType, Data, DataBuilder, Interest, InterestBuilder,
    KeyLocator, LpHeader, LpPacket, NackReason, Name, NameRef, Packet, SignatureInfo,
    SignatureType,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

fn component() -> impl Strategy<Value = (ComponentType, Vec<u8>)> {
    let other = (1_u16..=u16::MAX).prop_map(|ty| ComponentType::new(ty).unwrap());
    let common = prop_oneof![
        Just(ComponentType::GENERIC),
        Just(ComponentType::KEYWORD),
        Just(ComponentType::SEGMENT),
        Just(ComponentType::VERSION),
    ];
    let value = prop_oneof![
        vec(any::<u8>(), 0..12),
        vec(Just(b'.'), 0..6),
        "[a-zA-Z0-9._~=%/-]{0,8}".prop_map(String::into_bytes),
        vec(any::<u8>(), 250..260),
    ];
    (prop_oneof![3 => common, 1 => other], value).prop_map(|(ty, mut value)| {
        if ty.is_digest() {
            value.resize(32, 0);
        }
        (ty, value)
    })
}

fn name(components: std::ops::Range<usize>) -> impl Strategy<Value = Name> {
    vec(component(), components).prop_map(|components| {
        components.iter().map(|(ty, value)| Component::new(*ty, value)).collect()
    })
}

/// Without parameters digests, which Interests treat specially.
fn interest_name() -> impl Strategy<Value = Name> {
    name(1..8).prop_filter("no digest", |name| name.as_ref().parameters_digest().is_none())
}

fn weak_hash(bytes: &[u8]) -> [u8; 32] {
    let mut out = [0_u8; 32];
    for (i, byte) in bytes.iter().enumerate() {
        out[i % 32] = out[i % 32].wrapping_mul(31).wrapping_add(*byte);
    }
    out
}

fn signature_info<'a>(
    locator: &'a Name,
    nonce: &'a [u8],
    time_ms: Option<u64>,
) -> SignatureInfo<'a> {
    SignatureInfo {
        key_locator: Some(KeyLocator::Name(locator.as_ref())),
        nonce: (!nonce.is_empty()).then_some(nonce),
        time_ms,
        ..SignatureInfo::new(SignatureType::SHA256_WITH_ECDSA)
    }
}

/// Every view, on arbitrary bytes.
fn parse_all(bytes: &[u8]) {
    let _ =
        (Packet::parse(bytes), frame_len(bytes), NameRef::parse(bytes), NameRef::from_value(bytes));
    if let Ok(interest) = Interest::parse(bytes) {
        let mut out = vec![0; interest.encoded_len_with_nonce()];
        assert_eq!(interest.write_with_nonce(1, &mut out), Ok(out.len()));
        let with_nonce = Interest::parse(&out).unwrap();
        assert_eq!(with_nonce.nonce(), Some(1));
        assert_eq!(with_nonce.name(), interest.name());
        assert_eq!(with_nonce.lifetime_ms(), interest.lifetime_ms());
        assert_eq!(with_nonce.hop_limit(), interest.hop_limit());
        assert_eq!(with_nonce.parameters(), interest.parameters());
        let _ = (
            interest.signature_info(),
            interest.signed_portion(),
            interest.forwarding_hint().count(),
        );
        let _ = interest.parameters_digest_is_valid(weak_hash);
    }
    if let Ok(data) = Data::parse(bytes) {
        let _ = (data.signature_info(), data.final_block_id(), data.content());
        assert!(data.signed_portion().len() < bytes.len());
    }
    if let Ok(packet) = LpPacket::parse(bytes)
        && let (Some(fragment), Some(offset)) = (packet.fragment(), packet.fragment_offset())
    {
        assert_eq!(fragment, &bytes[offset..]);
        let _ = packet.acks().count();
    }
    let _ = dissect(bytes).to_string();
}

proptest! {
    #[test]
    fn uri_round_trip(name in name(0..8)) {
        let uri = name.to_uri();
        prop_assert_eq!(Name::from_uri(&uri).unwrap(), name.clone());
        prop_assert_eq!(Name::from_uri(&format!("ndn:{uri}")).unwrap(), name.clone());
        prop_assert_eq!(uri.matches('/').count(), name.len().max(1));
        prop_assert!(uri.bytes().all(|byte| byte.is_ascii_graphic()));
    }

    #[test]
    fn any_text_parses_or_fails(text in "\\PC{0,40}") {
        if let Ok(name) = Name::from_uri(&text) {
            prop_assert_eq!(Name::from_uri(&name.to_uri()).unwrap(), name);
        }
    }

    #[test]
    fn almost_valid_uris_parse_or_fail(text in "(ndn:)?(/{0,2}(seg|off|v|t|seq|8|42|x|sha256digest)?=?[0-9a-f.%]{0,5}){0,5}/?") {
        if let Ok(name) = Name::from_uri(&text) {
            prop_assert_eq!(Name::from_uri(&name.to_uri()).unwrap(), name);
        }
    }

    #[test]
    fn order_of_names_is_that_of_their_components(a in name(0..5), b in name(0..5)) {
        let by_components = a.components().cmp(b.components());
        prop_assert_eq!(a.cmp(&b), by_components);
        prop_assert_eq!(a.as_ref().cmp(&b.as_ref()), by_components);
        prop_assert_eq!(a == b, by_components.is_eq());
    }

    #[test]
    fn prefixes_are_component_prefixes(name in name(0..8), len in 0_usize..9) {
        let reference = name.as_ref();
        let prefix = reference.prefix(len);
        let expected: Name = name.components().take(len).collect();
        let rest: Name = name.components().skip(len).collect();
        prop_assert_eq!(prefix, expected.as_ref());
        prop_assert_eq!(prefix.len(), expected.len());
        prop_assert_eq!(reference.suffix(len), rest.as_ref());
        prop_assert_eq!(reference.suffix(len).len(), rest.len());
        prop_assert!(reference.starts_with(prefix));
        prop_assert_eq!(reference.component(len), rest.component(0));
        let checked = NameRef::from_value(name.value()).unwrap();
        prop_assert_eq!(checked.len(), name.len());
        let mut joined = expected.clone();
        joined.append(rest.as_ref());
        prop_assert_eq!(joined, name);
    }

    #[test]
    fn starts_with_compares_components(a in name(0..4), b in name(0..4)) {
        let expected = a.len() >= b.len() && a.components().zip(b.components()).all(|(x, y)| x == y);
        prop_assert_eq!(a.starts_with(b.as_ref()), expected);
    }

    #[test]
    fn interest_round_trip(
        name in interest_name(),
        flags in any::<(bool, bool)>(),
        hint in vec(name(0..4), 0..3),
        nonce in any::<Option<u32>>(),
        lifetime_ms in any::<Option<u64>>(),
        hop_limit in any::<Option<u8>>(),
        parameters in option::of(vec(any::<u8>(), 0..300)),
    ) {
        let hint: Vec<NameRef<'_>> = hint.iter().map(Name::as_ref).collect();
        let mut builder = InterestBuilder::new(&name)
            .can_be_prefix(flags.0)
            .must_be_fresh(flags.1)
            .forwarding_hint(&hint);
        if let Some(nonce) = nonce { builder = builder.nonce(nonce); }
        if let Some(lifetime_ms) = lifetime_ms { builder = builder.lifetime_ms(lifetime_ms); }
        if let Some(hop_limit) = hop_limit { builder = builder.hop_limit(hop_limit); }
        if let Some(parameters) = &parameters { builder = builder.parameters(parameters); }
        let wire = builder.to_vec_with_parameters(weak_hash).unwrap();
        prop_assert_eq!(wire.len(), builder.encoded_len());
        let interest = Interest::parse(&wire).unwrap();
        prop_assert!(interest.name().starts_with(name.as_ref()));
        prop_assert_eq!(interest.name().len(), name.len() + usize::from(parameters.is_some()));
        prop_assert_eq!((interest.can_be_prefix(), interest.must_be_fresh()), flags);
        prop_assert_eq!(interest.forwarding_hint().collect::<Vec<_>>(), hint);
        prop_assert_eq!(interest.nonce(), nonce);
        prop_assert_eq!(interest.lifetime_ms(), lifetime_ms.unwrap_or(4000));
        prop_assert_eq!(interest.hop_limit(), hop_limit);
        prop_assert_eq!(interest.parameters(), parameters.as_deref());
        prop_assert!(interest.parameters_digest_is_valid(weak_hash));
        prop_assert_eq!(dissect(&wire).error(), None);
        parse_all(&wire);
    }

    #[test]
    fn signed_interest_round_trip(
        name in interest_name(),
        locator in name(0..4),
        nonce in vec(any::<u8>(), 0..10),
        time_ms in any::<Option<u64>>(),
        parameters in option::of(vec(any::<u8>(), 0..300)),
        (reserved, used) in (0_usize..300).prop_flat_map(|max| (Just(max), 0..=max)),
    ) {
        let info = signature_info(&locator, &nonce, time_ms);
        let mut builder = InterestBuilder::new(&name).nonce(1);
        if let Some(parameters) = &parameters { builder = builder.parameters(parameters); }
        let mut covered = Vec::new();
        let sign = |pieces: &[&[u8]], out: &mut [u8]| {
            covered = pieces.concat();
            out[..used].fill(0x5A);
            Some(used)
        };
        let wire = builder.to_vec_signed(&info, reserved, sign, weak_hash).unwrap();
        prop_assert!(wire.len() <= builder.encoded_len_signed(&info, reserved));
        let interest = Interest::parse(&wire).unwrap();
        prop_assert_eq!(interest.signed_portion().unwrap().concat(), covered);
        prop_assert_eq!(interest.signature_value().unwrap(), &vec![0x5A; used][..]);
        prop_assert_eq!(interest.signature_info(), Ok(Some(info)));
        prop_assert_eq!(interest.parameters(), Some(parameters.as_deref().unwrap_or_default()));
        prop_assert!(interest.parameters_digest_is_valid(weak_hash));
        parse_all(&wire);
    }

    #[test]
    fn data_round_trip(
        name in name(0..8),
        content_type in prop_oneof![Just(0), any::<u64>()],
        freshness_ms in any::<Option<u64>>(),
        final_block_id in option::of(component()),
        content in option::of(vec(any::<u8>(), 0..300)),
        locator in name(0..4),
        (reserved, used) in (0_usize..300).prop_flat_map(|max| (Just(max), 0..=max)),
    ) {
        let info = signature_info(&locator, &[], None);
        let mut builder = DataBuilder::new(&name).content_type(ContentType(content_type));
        if let Some(freshness_ms) = freshness_ms { builder = builder.freshness_ms(freshness_ms); }
        let final_block_id = final_block_id.as_ref().map(|(ty, value)| Component::new(*ty, value));
        if let Some(component) = final_block_id { builder = builder.final_block_id(component); }
        if let Some(content) = &content { builder = builder.content(content); }
        let wire = builder.to_vec(&info, reserved, |_, out| {
            out[..used].fill(0x5A);
            Some(used)
        }).unwrap();
        prop_assert_eq!(wire.len(), builder.encoded_len(&info, used));
        let data = Data::parse(&wire).unwrap();
        prop_assert_eq!(data.name(), name.as_ref());
        prop_assert_eq!(data.content_type(), ContentType(content_type));
        prop_assert_eq!(data.freshness_ms(), freshness_ms);
        prop_assert_eq!(data.final_block_id(), final_block_id);
        prop_assert_eq!(data.content(), content.as_deref());
        prop_assert_eq!(data.signature_info(), Ok(info));
        prop_assert_eq!(data.signature_value(), &vec![0x5A; used][..]);
        prop_assert_eq!(dissect(&wire).error(), None);
        prop_assert_eq!(frame_len(&wire), Ok(Some(wire.len())));
    }

    #[test]
    fn lp_round_trip(
        numbers in any::<[Option<u64>; 7]>(),
        pit_token in vec(any::<u8>(), 0..33),
        nack in any::<Option<u64>>(),
        acks in vec(any::<u64>(), 0..5),
        non_discovery in any::<bool>(),
        payload in vec(any::<u8>(), 0..600),
        idle in any::<bool>(),
    ) {
        let [sequence, frag_index, frag_count, incoming_face_id, next_hop_face_id, congestion_mark, tx_sequence] = numbers;
        let header = LpHeader {
            sequence, frag_index, frag_count, pit_token: &pit_token, nack: nack.map(NackReason),
            incoming_face_id, next_hop_face_id, cache_policy: sequence, congestion_mark, acks: &acks,
            tx_sequence, non_discovery, prefix_announcement: non_discovery.then_some(&[6, 0]),
        };
        let mut out = vec![0; header.encoded_len(payload.len()) + payload.len()];
        let len = if idle { header.write_idle(&mut out) } else { header.write(&payload, &mut out) };
        out.truncate(len.unwrap());
        let full_len = header.encoded_len(payload.len()) + payload.len();
        prop_assert_eq!(out.len(), if idle { header.encoded_len_idle() } else { full_len });
        let packet = LpPacket::parse(&out).unwrap();
        prop_assert_eq!(packet.sequence(), sequence);
        prop_assert_eq!(packet.frag_index(), frag_index.unwrap_or(0));
        prop_assert_eq!(packet.frag_count(), frag_count.unwrap_or(1));
        prop_assert_eq!(packet.pit_token().unwrap_or_default(), &pit_token);
        prop_assert_eq!(packet.nack(), nack.map(NackReason));
        prop_assert_eq!(packet.incoming_face_id(), incoming_face_id);
        prop_assert_eq!(packet.next_hop_face_id(), next_hop_face_id);
        prop_assert_eq!(packet.cache_policy(), sequence);
        prop_assert_eq!(packet.congestion_mark(), congestion_mark);
        prop_assert_eq!(packet.acks().collect::<Vec<_>>(), acks);
        prop_assert_eq!(packet.tx_sequence(), tx_sequence);
        prop_assert_eq!(packet.non_discovery(), non_discovery);
        prop_assert_eq!(packet.prefix_announcement().is_some(), non_discovery);
        prop_assert_eq!(packet.fragment(), (!idle).then_some(&payload[..]));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..200)) {
        parse_all(&bytes);
    }

    /// Sequences of elements with known types, in a packet's outer element.
    #[test]
    fn almost_valid_packets_never_panic(
        outer in prop_oneof![Just(5_u32), Just(6), Just(100), Just(7)],
        elements in vec((prop_oneof![1_u32..60, 80..100_u32, 800..850_u32, 250..260_u32], vec(any::<u8>(), 0..10)), 0..12),
        with_name in any::<bool>(),
    ) {
        let mut value = if with_name { vec![7, 3, 8, 1, b'a'] } else { Vec::new() };
        for (ty, element) in &elements {
            ndn_packet::tlv::append_tlv(&mut value, *ty, element);
        }
        let mut wire = Vec::new();
        ndn_packet::tlv::append_tlv(&mut wire, outer, &value);
        parse_all(&wire);
    }

    /// A valid packet with some bytes changed.
    #[test]
    fn damaged_packets_never_panic(name in interest_name(), hits in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let info = SignatureInfo::new(SignatureType::DIGEST_SHA256);
        let interest = InterestBuilder::new(&name).nonce(1).parameters(b"p")
            .to_vec_signed(&info, 32, |_, _| Some(32), weak_hash).unwrap();
        let data = DataBuilder::new(&name).freshness_ms(1).final_segment(9).content(&interest)
            .to_vec(&info, 32, |_, _| Some(32)).unwrap();
        let header = LpHeader { nack: Some(NackReason::DUPLICATE), pit_token: &[1; 4], acks: &[1, 2], ..LpHeader::default() };
        let mut lp = vec![0; header.encoded_len(data.len()) + data.len()];
        header.write(&data, &mut lp).unwrap();
        for mut wire in [interest, data, lp] {
            for (index, byte) in &hits {
                let index = index.index(wire.len());
                wire[index] = *byte;
            }
            parse_all(&wire);
        }
    }

    /// A value that a reader accepts is accepted again when it is written again.
    #[test]
    fn elements_round_trip(bytes in vec(any::<u8>(), 0..100)) {
        let mut reader = Reader::new(&bytes);
        while let Ok(Some(tlv)) = reader.next_tlv() {
            let mut out = Vec::new();
            ndn_packet::tlv::append_tlv(&mut out, tlv.ty(), tlv.value());
            prop_assert_eq!(&out[..], tlv.wire());
        }
    }
}
