//! The packet parser: every view, and the tree for people.

use std::fmt::Write as _;

use ndn_packet::dissect::dissect;
use ndn_packet::tlv::{Reader, append_tlv, decode_number, frame_len};
use ndn_packet::{
    Component, DEFAULT_LIFETIME_MS, Data, DecodeError, Interest, LpPacket, NameRef, Packet, types,
};

/// Takes the bytes as a packet from the network.
pub(crate) fn packet(bytes: &[u8]) {
    let stream = frame_len(bytes);
    let dissection = dissect(bytes);
    if let Ok(packet) = LpPacket::parse(bytes) {
        lp_packet(&packet, bytes);
    }
    match Packet::parse(bytes) {
        Ok(parsed) => {
            assert_eq!(stream, Ok(Some(bytes.len())));
            let nested_well = match &parsed {
                Packet::Interest(parsed) => {
                    interest(parsed);
                    parsed.signature_info().is_ok()
                }
                Packet::Data(parsed) => {
                    data(parsed);
                    parsed.signature_info().is_ok()
                }
            };
            assert!(!nested_well || dissection.error().is_none(), "{dissection}");
        }
        Err(error) => {
            assert!(has_text(&error));
            // Several packets in a row are none, but make a tree without fault.
            let trailing = matches!(error, DecodeError::TrailingBytes { .. });
            if matches!(bytes.first(), Some(5 | 6)) && !trailing {
                assert!(dissection.error().is_some(), "{error} is not in\n{dissection}");
            }
        }
    }
    let _ = NameRef::parse(bytes);
}

/// Whether the text of an error is not empty; nothing is allocated for it.
fn has_text(error: &DecodeError) -> bool {
    struct Length(usize);
    impl std::fmt::Write for Length {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            self.0 += text.len();
            Ok(())
        }
    }
    let mut length = Length(0);
    write!(length, "{error}").is_ok() && length.0 > 0
}

fn lp_packet(packet: &LpPacket<'_>, bytes: &[u8]) {
    assert_eq!(packet.fragment(), packet.fragment_offset().map(|offset| &bytes[offset..]));
    assert!(packet.pit_token().is_none_or(|token| (1..=32).contains(&token.len())));
    assert!(packet.acks().count() <= bytes.len() / 12);
    if packet.is_bare() {
        assert!(matches!(bytes.first(), Some(5 | 6)));
    }
}

/// The first element of a type, by a plain walk over the elements without kept offsets.
fn element(wire: &[u8], ty: u32) -> Option<&[u8]> {
    let mut reader = Reader::new(wire).read().ok()?.reader();
    while let Ok(Some(tlv)) = reader.next_tlv() {
        if tlv.ty() == ty {
            return Some(tlv.value());
        }
    }
    None
}

fn name(name: NameRef<'_>, range: core::ops::Range<usize>, wire: &[u8]) {
    assert_eq!(&wire[range], name.value());
    assert_eq!(Some(name.value()), element(wire, types::NAME));
    assert_eq!(NameRef::from_value(name.value()).map(|again| again.len()), Ok(name.len()));
    let mut value = Vec::new();
    for component in name.components() {
        append_tlv(&mut value, component.ty().tlv_type(), component.value());
    }
    assert_eq!(value, name.value(), "components make up the value");
    assert_eq!(name.components().count(), name.len());
    let digest = name.last().and_then(|last: Component<'_>| last.implicit_digest());
    assert_eq!(name.implicit_digest(), digest);
}

fn interest(interest: &Interest<'_>) {
    let wire = interest.wire();
    assert!(!interest.name().is_empty());
    name(interest.name(), interest.name_value_range(), wire);
    let digest = interest.name().implicit_digest();
    assert_eq!(interest.name_ends_in_implicit_digest(), digest.is_some());
    if let (Some(nonce), Some(offset)) = (interest.nonce(), interest.nonce_offset()) {
        assert_eq!(wire[offset..offset + 4], nonce.to_be_bytes());
    }
    if let (Some(hop_limit), Some(offset)) = (interest.hop_limit(), interest.hop_limit_offset()) {
        assert_eq!(wire[offset], hop_limit);
    }
    let lifetime_ms = element(wire, types::INTEREST_LIFETIME).and_then(decode_number);
    assert_eq!(interest.lifetime_ms(), lifetime_ms.unwrap_or(DEFAULT_LIFETIME_MS));
    assert_eq!(interest.has_forwarding_hint(), interest.forwarding_hint().next().is_some());
    if let Some(portion) = interest.parameters_portion() {
        assert!(wire.ends_with(portion));
        assert_eq!(portion.first(), Some(&36));
    }
    if let Some([_, parameters]) = interest.signed_portion() {
        assert_eq!(parameters.first(), Some(&36));
    }
    with_nonce(interest);
}

fn with_nonce(interest: &Interest<'_>) {
    const NONCE: u32 = 0x1234_5678;
    let mut out = vec![0; interest.encoded_len_with_nonce()];
    assert_eq!(interest.write_with_nonce(NONCE, &mut out), Ok(out.len()));
    let again = Interest::parse(&out).expect("an Interest with a Nonce added is valid");
    assert_eq!(again.nonce(), Some(NONCE));
    assert_eq!(again.name(), interest.name());
    assert_eq!(again.can_be_prefix(), interest.can_be_prefix());
    assert_eq!(again.must_be_fresh(), interest.must_be_fresh());
    assert_eq!(again.lifetime_ms(), interest.lifetime_ms());
    assert_eq!(again.hop_limit(), interest.hop_limit());
    assert_eq!(again.parameters_portion(), interest.parameters_portion());
    assert_eq!(again.signature_value(), interest.signature_value());
    assert!(again.forwarding_hint().eq(interest.forwarding_hint()));
}

fn data(data: &Data<'_>) {
    let wire = data.wire();
    name(data.name(), data.name_value_range(), wire);
    let digest = data.name().implicit_digest();
    assert_eq!(data.name_ends_in_implicit_digest(), digest.is_some());
    assert_eq!(data.content(), element(wire, types::CONTENT));
    assert_eq!(data.content(), data.content_range().map(|range| &wire[range]));
    assert_eq!(Some(data.signature_value()), element(wire, types::SIGNATURE_VALUE));
    assert_eq!(data.signed_portion().first(), Some(&7));
    let meta_info = element(wire, types::META_INFO).unwrap_or_default();
    let mut whole = Vec::new();
    append_tlv(&mut whole, types::META_INFO, meta_info);
    let freshness_ms = element(&whole, types::FRESHNESS_PERIOD).and_then(decode_number);
    assert_eq!(data.freshness_ms(), freshness_ms);
    assert_eq!(data.final_block_id().is_some(), element(&whole, types::FINAL_BLOCK_ID).is_some());
    match data.signature_info() {
        Ok(_) => {}
        Err(DecodeError::Missing { offset, .. }) => assert!(offset as usize <= wire.len()),
        Err(error) => assert!(has_text(&error)),
    }
}
