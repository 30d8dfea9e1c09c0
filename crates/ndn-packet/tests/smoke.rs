//! A packet of each kind through builder and view.

use ndn_packet::{
    Data, DataBuilder, Interest, InterestBuilder, LpHeader, LpPacket, NackReason, Name,
    SignatureInfo, SignatureType,
};

fn weak_hash(bytes: &[u8]) -> [u8; 32] {
    let mut out = [0_u8; 32];
    for (i, byte) in bytes.iter().enumerate() {
        out[i % 32] = out[i % 32].wrapping_mul(31) ^ byte;
    }
    out
}

#[test]
fn interest_round_trip() {
    let name: Name = "/example/video/v=3/seg=7".parse().unwrap();
    let wire = InterestBuilder::new(&name)
        .can_be_prefix(true)
        .must_be_fresh(true)
        .lifetime_ms(1000)
        .hop_limit(9)
        .to_vec()
        .unwrap();
    let interest = Interest::parse(&wire).unwrap();
    assert_eq!(interest.name().to_uri(), "/example/video/v=3/seg=7");
    assert_eq!(interest.nonce(), None);
    assert_eq!(wire[interest.hop_limit_offset().unwrap()], 9);
    let mut out = [0; 100];
    let len = interest.write_with_nonce(0x0102_0304, &mut out).unwrap();
    assert_eq!(len, interest.encoded_len_with_nonce());
    let with_nonce = Interest::parse(&out[..len]).unwrap();
    assert_eq!(with_nonce.nonce(), Some(0x0102_0304));
    assert_eq!(with_nonce.hop_limit(), Some(9));
    assert_eq!(with_nonce.name(), name);
    let again = with_nonce.write_with_nonce(5, &mut [0; 100]).unwrap();
    assert_eq!(again, len);
}

#[test]
fn signed_interest_round_trip() {
    let name: Name = "/a".parse().unwrap();
    let info = SignatureInfo { time_ms: Some(5), ..SignatureInfo::new(SignatureType::ED25519) };
    let mut signed = Vec::new();
    let wire = InterestBuilder::new(&name)
        .parameters(&[1; 240])
        .to_vec_signed(
            &info,
            72,
            |pieces, out| {
                signed = pieces.concat();
                out[..8].fill(7);
                Some(8)
            },
            weak_hash,
        )
        .unwrap();
    let interest = Interest::parse(&wire).unwrap();
    assert!(interest.parameters_digest_is_valid(weak_hash));
    assert_eq!(interest.signed_portion().unwrap().concat(), signed);
    assert_eq!(interest.signature_value(), Some(&[7; 8][..]));
    assert_eq!(interest.signature_info().unwrap(), Some(info));
}

#[test]
fn data_round_trip() {
    let name: Name = "/example/seg=0".parse().unwrap();
    let info = SignatureInfo::new(SignatureType::DIGEST_SHA256);
    let wire = DataBuilder::new(&name)
        .freshness_ms(4000)
        .final_segment(3)
        .content(&[5; 1000])
        .to_vec(&info, 32, |pieces, out| {
            out.copy_from_slice(&weak_hash(&pieces.concat()));
            Some(32)
        })
        .unwrap();
    let data = Data::parse(&wire).unwrap();
    assert_eq!(data.freshness_ms(), Some(4000));
    assert_eq!(data.final_block_id().unwrap().as_segment(), Some(3));
    assert_eq!(data.signature_value(), weak_hash(data.signed_portion()));
    let header =
        LpHeader { nack: Some(NackReason::NO_ROUTE), pit_token: &[1; 6], ..LpHeader::default() };
    let mut out = vec![0; header.encoded_len(wire.len()) + wire.len()];
    assert_eq!(header.write(&wire, &mut out).unwrap(), out.len());
    let lp = LpPacket::parse(&out).unwrap();
    assert_eq!(lp.fragment(), Some(&wire[..]));
    assert_eq!(lp.nack(), Some(NackReason::NO_ROUTE));
    assert_eq!(lp.pit_token(), Some(&[1; 6][..]));
}
