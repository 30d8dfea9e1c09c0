//! Output of `dissect`, line by line.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use ndn_packet::dissect::{Meaning, dissect};
use ndn_packet::{
    DataBuilder, DecodeError, LpHeader, NackReason, Name, SignatureInfo, SignatureType, types,
};

/// A Data in an LpPacket with a PIT token and a Nack.
fn wrapped() -> Vec<u8> {
    let name: Name = "/example/seg=0".parse().unwrap();
    let info = SignatureInfo::new(SignatureType::DIGEST_SHA256);
    let wire = DataBuilder::new(&name)
        .freshness_ms(4000)
        .final_segment(3)
        .content(b"hello")
        .to_vec(&info, 4, |_, out| {
            out.fill(0xAB);
            Some(4)
        })
        .unwrap();
    let header =
        LpHeader { nack: Some(NackReason::NO_ROUTE), pit_token: &[1; 6], ..LpHeader::default() };
    let mut out = vec![0; header.encoded_len(wire.len()) + wire.len()];
    header.write(&wire, &mut out).unwrap();
    out
}

#[test]
fn every_element_is_shown_with_its_offset() {
    let dissection = dissect(&wrapped());
    let expected = "    0  LpPacket (100), 64 bytes
    2    PitToken (98): 010101010101
   10    Nack (800), 5 bytes
   14      NackReason (801): 150 (NoRoute)
   19    Fragment (80), 45 bytes
   21      Data (6), 43 bytes
   23        Name (7): /example/seg=0
   37        MetaInfo (20), 9 bytes
   39          FreshnessPeriod (25): 4000 ms
   43          FinalBlockId (26), 3 bytes
   45            NameComponent (50): seg=3
   48        Content (21): \"hello\"
   55        SignatureInfo (22), 3 bytes
   57          SignatureType (27): 0 (DigestSha256)
   60        SignatureValue (23): abababab
";
    assert_eq!(dissection.as_str(), expected);
    assert_eq!(dissection.error(), None);
}

#[test]
fn elements_are_available_to_programs() {
    let wire = wrapped();
    let dissection = dissect(&wire);
    let elements = dissection.elements();
    assert_eq!(elements.len(), dissection.as_str().lines().count());
    for (element, line) in elements.iter().zip(dissection.as_str().lines()) {
        let start = format!("{:>5}  {:width$}", element.offset, "", width = 2 * element.depth);
        let named = format!("{start}{} ({})", element.name.unwrap(), element.ty);
        assert!(line.starts_with(&named), "{line}: {element:?}");
    }
    let of = |ty: u32| elements.iter().find(|element| element.ty == ty).unwrap();
    let text = |text: &str| Some(Meaning::Text(text.to_owned()));
    assert_eq!(of(types::NAME).meaning, text("/example/seg=0"));
    assert_eq!(of(types::CONTENT).meaning, text("hello"));
    assert_eq!(&wire[of(types::CONTENT).value.clone()], b"hello");
    let reason = Meaning::Number(150, "150 (NoRoute)".to_owned());
    assert_eq!(of(types::LP_NACK_REASON).meaning, Some(reason));
    assert_eq!(of(types::LP_PIT_TOKEN).meaning, None);
    // A truncated value has the length of the available bytes.
    let dissection = dissect(&wire[..40]);
    assert_eq!(dissection.elements().last().unwrap().value.end, 40);
}

#[test]
fn truncated_packet_is_shown_as_far_as_available() {
    let dissection = dissect(&wrapped()[..42]);
    let lines: Vec<&str> = dissection.as_str().lines().collect();
    assert!(lines[0].contains("!!") && lines[0].contains("reaches beyond"), "{dissection}");
    assert!(dissection.as_str().contains("Name (7): /example/seg=0"), "{dissection}");
    assert!(dissection.as_str().contains("FreshnessPeriod (25)"), "{dissection}");
    assert_eq!(dissection.as_str().matches("!!").count(), 1, "{dissection}");
    assert_eq!(
        dissection.error(),
        Some(DecodeError::LengthOverrun { ty: types::LP_PACKET, offset: 0, length: 64 })
    );
}

#[test]
fn violated_rule_is_reported() {
    // An Interest with an unknown critical element after its name.
    let dissection = dissect(&[5, 7, 7, 3, 8, 1, b'a', 0x81, 0]);
    assert!(dissection.as_str().contains("unrecognised type 129 (critical)"), "{dissection}");
    assert_eq!(dissection.error(), Some(DecodeError::UnrecognizedCritical { ty: 129, offset: 7 }));
    // One with an unknown element that is ignored.
    let dissection = dissect(&[5, 7, 7, 3, 8, 1, b'a', 0x82, 0]);
    assert!(dissection.as_str().contains("unrecognised type 130 (ignored)"), "{dissection}");
    assert_eq!(dissection.error(), None);
    // A second HopLimit is ignored, a second Nonce is not.
    let dissection = dissect(&[5, 11, 7, 3, 8, 1, b'a', 34, 1, 9, 34, 1, 8]);
    assert!(dissection.as_str().contains("HopLimit (34): 9"), "{dissection}");
    assert!(dissection.as_str().contains("(34), repeated or out of order: 08"), "{dissection}");
    assert_eq!(dissection.error(), None);
    let dissection = dissect(&[5, 17, 7, 3, 8, 1, b'a', 10, 4, 1, 2, 3, 4, 10, 4, 1, 2, 3, 4]);
    assert_eq!(dissection.error(), Some(DecodeError::OutOfOrder { ty: 10, offset: 13 }));
    // A Nonce of three bytes.
    let dissection = dissect(&[5, 10, 7, 3, 8, 1, b'a', 10, 3, 1, 2, 3]);
    assert!(dissection.as_str().contains("Nonce (10): 010203"), "{dissection}");
    assert_eq!(
        dissection.error(),
        Some(DecodeError::InvalidLength { ty: 10, offset: 7, length: 3 })
    );
}

#[test]
fn consecutive_packets_and_other_bytes_are_shown() {
    let mut bytes = wrapped();
    bytes.extend_from_slice(&[5, 5, 7, 3, 8, 1, b'a', 0, 1, 2]);
    let dissection = dissect(&bytes);
    assert!(dissection.as_str().contains("   66  Interest (5)"), "{dissection}");
    assert!(dissection.as_str().ends_with("not understood: 000102\n"), "{dissection}");
    assert_eq!(dissection.error(), Some(DecodeError::InvalidType { offset: 73 }));
    assert_eq!(dissect(&[]).as_str(), "");
}

#[test]
fn nesting_depth_is_limited() {
    // LpPackets whose PrefixAnnouncement holds an LpPacket, and so on.
    let mut bytes = vec![100, 0];
    for _ in 0..200 {
        let mut inner = Vec::new();
        ndn_packet::tlv::append_tlv(&mut inner, types::LP_PREFIX_ANNOUNCEMENT, &bytes);
        bytes.clear();
        ndn_packet::tlv::append_tlv(&mut bytes, types::LP_PACKET, &inner);
    }
    let dissection = dissect(&bytes);
    assert!(dissection.as_str().contains("nested too deeply"), "{dissection}");
    assert!(dissection.as_str().lines().count() < 50, "{dissection}");
}
