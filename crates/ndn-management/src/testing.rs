//! Helpers of this crate's tests.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use ndn_packet::Name;

/// Bytes from hexadecimal digits; white space is ignored.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> =
        text.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16).unwrap()).collect();
    digits.chunks(2).map(|pair| u8::try_from(pair[0] << 4 | pair[1]).unwrap()).collect()
}

pub(crate) fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}
