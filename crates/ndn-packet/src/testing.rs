//! Helpers of the unit tests.

use crate::tlv::append_tlv;

/// One TLV.
pub(crate) fn tlv(ty: u32, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    append_tlv(&mut out, ty, value);
    out
}

/// A TLV around others.
pub(crate) fn nested(ty: u32, parts: &[&[u8]]) -> Vec<u8> {
    tlv(ty, &parts.concat())
}

/// Bytes of a hexadecimal text.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    digits
        .chunks(2)
        .map(|pair| {
            u8::from_str_radix(core::str::from_utf8(pair).expect("digits"), 16).expect("digits")
        })
        .collect()
}

pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes);
    digest.as_ref().try_into().expect("32 bytes")
}

/// Checks that no prefix of `wire` parses as a packet, and that no byte may follow it.
pub(crate) fn assert_exact<T>(wire: &[u8], parse: impl Fn(&[u8]) -> Option<T>) {
    assert!(parse(wire).is_some(), "the whole packet is valid");
    for len in 0..wire.len() {
        assert!(parse(&wire[..len]).is_none(), "cut off at {len}");
    }
    let longer = [wire, &[0]].concat();
    assert!(parse(&longer).is_none(), "a byte behind");
    let twice = [wire, wire].concat();
    assert!(parse(&twice).is_none(), "a packet behind");
}
