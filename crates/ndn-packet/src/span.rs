//! Byte ranges inside a packet, and the last steps of encoding a signed one.

use crate::error::{DecodeError, EncodeError};
use crate::tlv::{Reader, Writer, header_len};
use core::ops::Range;

/// `start..end` in bytes from the packet's first byte. `0..0` stands for "absent": byte 0 always
/// belongs to the outer type number, so no element starts there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Span {
    pub(crate) const NONE: Self = Self { start: 0, end: 0 };

    /// The offsets must lie within a packet that passed [`check_size`].
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "packets of 4 GiB are refused by check_size"
    )]
    pub(crate) const fn new(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 }
    }

    #[inline]
    pub(crate) const fn is_some(self) -> bool {
        self.start != 0
    }

    #[inline]
    pub(crate) const fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// A reader over the bytes, if present, with the offsets of the packet.
    pub(crate) fn reader(self, wire: &[u8]) -> Option<Reader<'_>> {
        if !self.is_some() {
            return None;
        }
        wire.get(..self.end as usize).map(|front| Reader::at(front, self.start as usize))
    }

    /// The bytes, if present.
    #[inline]
    pub(crate) fn slice(self, wire: &[u8]) -> Option<&[u8]> {
        if self.is_some() { wire.get(self.range()) } else { None }
    }
}

/// Rejects input whose offsets do not fit 32 bits.
#[inline]
pub(crate) fn check_size(wire: &[u8]) -> Result<(), DecodeError> {
    if wire.len() > u32::MAX as usize { Err(DecodeError::TooLong) } else { Ok(()) }
}

/// Writes a signature element at `start`. `sign` receives `out[..start]` and a buffer of `len_max`
/// bytes and returns the length used. Returns the offset after the element.
pub(crate) fn write_signature(
    out: &mut [u8],
    ty: u32,
    start: usize,
    len_max: usize,
    sign: impl FnOnce(&[u8], &mut [u8]) -> Option<usize>,
) -> Result<usize, EncodeError> {
    let (front, back) = out.split_at_mut(start);
    let reserved = header_len(ty, len_max);
    let target = back.get_mut(reserved..reserved + len_max).ok_or(EncodeError::BufferTooSmall)?;
    let len =
        sign(front, target).filter(|&len| len <= len_max).ok_or(EncodeError::SigningFailed)?;
    let needed = header_len(ty, len);
    back.copy_within(reserved..reserved + len, needed);
    Writer::new(back).header(ty, len)?;
    Ok(start + needed + len)
}

/// Writes type and length before the value in `out[value_start..end]`, moving the value if the
/// header is shorter than reserved. Returns the length of the packet, which starts at `out[0]`.
pub(crate) fn finish_packet(
    out: &mut [u8],
    ty: u32,
    value_start: usize,
    end: usize,
) -> Result<usize, EncodeError> {
    let value_len = end - value_start;
    let needed = header_len(ty, value_len);
    if needed != value_start {
        out.copy_within(value_start..end, needed);
    }
    Writer::new(out).header(ty, value_len)?;
    Ok(needed + value_len)
}
