//! VAR-NUMBER (types and lengths) and NonNegativeInteger (values).

use crate::error::{DecodeError, saturate};

/// Length in bytes of `n` as a VAR-NUMBER.
#[inline]
#[must_use]
pub const fn var_number_len(n: u64) -> usize {
    match n {
        0..=252 => 1,
        253..=0xFFFF => 3,
        0x1_0000..=0xFFFF_FFFF => 5,
        _ => 9,
    }
}

/// Length in bytes of `n` as a NonNegativeInteger.
#[inline]
#[must_use]
pub const fn number_len(n: u64) -> usize {
    match n {
        0..=0xFF => 1,
        0x100..=0xFFFF => 2,
        0x1_0000..=0xFFFF_FFFF => 4,
        _ => 8,
    }
}

/// Reads the VAR-NUMBER at `offset`; returns it and the offset after it.
///
/// # Errors
/// [`DecodeError::Truncated`] when `buf` ends before the number does,
/// [`DecodeError::NonShortestNumber`] when it has a shorter form.
#[inline]
pub fn read_var_number(buf: &[u8], offset: usize) -> Result<(u64, usize), DecodeError> {
    match buf.get(offset) {
        Some(&first) if first < 253 => Ok((u64::from(first), offset + 1)),
        Some(&first) => read_long_var_number(buf, offset, first),
        None => Err(DecodeError::Truncated { offset: saturate(offset) }),
    }
}

#[cold]
fn read_long_var_number(buf: &[u8], offset: usize, first: u8) -> Result<(u64, usize), DecodeError> {
    let digits = &buf[offset + 1..];
    let (n, least, end) = match first {
        253 => (digits.first_chunk().map(|b| u64::from(u16::from_be_bytes(*b))), 253, offset + 3),
        254 => {
            (digits.first_chunk().map(|b| u64::from(u32::from_be_bytes(*b))), 0x1_0000, offset + 5)
        }
        _ => (digits.first_chunk().map(|b| u64::from_be_bytes(*b)), 0x1_0000_0000, offset + 9),
    };
    match n {
        None => Err(DecodeError::Truncated { offset: saturate(offset) }),
        Some(n) if n < least => Err(DecodeError::NonShortestNumber { offset: saturate(offset) }),
        Some(n) => Ok((n, end)),
    }
}

/// The value of a NonNegativeInteger: 1, 2, 4 or 8 bytes, otherwise `None`.
///
/// A value that would fit fewer bytes is accepted, because the specification requires the shortest
/// form only of VAR-NUMBERs; [`Number`] always encodes the shortest.
#[inline]
#[must_use]
pub fn decode_number(value: &[u8]) -> Option<u64> {
    match *value {
        [a] => Some(u64::from(a)),
        [a, b] => Some(u64::from(u16::from_be_bytes([a, b]))),
        [a, b, c, d] => Some(u64::from(u32::from_be_bytes([a, b, c, d]))),
        [a, b, c, d, e, f, g, h] => Some(u64::from_be_bytes([a, b, c, d, e, f, g, h])),
        _ => None,
    }
}

/// A NonNegativeInteger in its shortest encoded form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    bytes: [u8; 8],
    len: usize,
}

impl Number {
    /// Encodes `n`.
    #[inline]
    #[must_use]
    pub const fn new(n: u64) -> Self {
        Self { bytes: n.to_be_bytes(), len: number_len(n) }
    }

    /// The 1, 2, 4 or 8 bytes.
    #[inline]
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[8 - self.len..]
    }
}
