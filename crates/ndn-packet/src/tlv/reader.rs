//! TLV reader.

use crate::error::{DecodeError, saturate};
use crate::tlv::number::{decode_number, read_var_number};

/// A cursor over a sequence of TLVs. Offsets count from the start of the outermost slice, also in
/// readers of nested elements, so that errors and offsets refer to the packet.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    /// Ends at the end of the enclosing element.
    buf: &'a [u8],
    pos: usize,
}

/// One element.
#[derive(Clone, Copy, Debug)]
pub struct Tlv<'a> {
    ty: u32,
    start: usize,
    value_start: usize,
    /// Ends at the end of the element.
    buf: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader over `buf`, a sequence of TLVs.
    #[inline]
    #[must_use]
    pub const fn new(buf: &'a [u8]) -> Self {
        Self { buf, pos: 0 }
    }

    /// A reader that begins at `pos` in `buf`.
    #[inline]
    #[must_use]
    pub(crate) const fn at(buf: &'a [u8], pos: usize) -> Self {
        Self { buf, pos }
    }

    /// Offset of the next element.
    #[inline]
    #[must_use]
    pub const fn offset(&self) -> usize {
        self.pos
    }

    /// Whether all elements were read.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.pos >= self.buf.len()
    }

    /// The bytes not yet read.
    #[inline]
    #[must_use]
    pub fn remaining(&self) -> &'a [u8] {
        self.buf.get(self.pos..).unwrap_or_default()
    }

    /// Reads the next element, of any type.
    ///
    /// # Errors
    /// When no complete, well-formed TLV follows.
    #[inline]
    pub fn read(&mut self) -> Result<Tlv<'a>, DecodeError> {
        let start = self.pos;
        let (ty, value_start, end) = self.header()?;
        self.pos = end;
        Ok(Tlv { ty, start, value_start, buf: &self.buf[..end] })
    }

    /// Reads the next element; returns `None` at the end.
    ///
    /// # Errors
    /// As [`Reader::read`].
    #[inline]
    pub fn next_tlv(&mut self) -> Result<Option<Tlv<'a>>, DecodeError> {
        if self.is_empty() { Ok(None) } else { self.read().map(Some) }
    }

    /// Reads the next element, which must have type `ty`.
    ///
    /// # Errors
    /// As [`Reader::read`]; [`DecodeError::Missing`] at the end, [`DecodeError::UnexpectedType`] otherwise.
    #[inline]
    pub fn read_expected(&mut self, ty: u32) -> Result<Tlv<'a>, DecodeError> {
        if self.is_empty() {
            return Err(DecodeError::Missing { ty, offset: saturate(self.pos) });
        }
        let tlv = self.read()?;
        if tlv.ty != ty {
            return Err(tlv.unexpected(ty));
        }
        Ok(tlv)
    }

    /// Reads the next element if it has type `ty`.
    ///
    /// # Errors
    /// As [`Reader::read`].
    #[inline]
    pub fn read_if(&mut self, ty: u32) -> Result<Option<Tlv<'a>>, DecodeError> {
        let mut ahead = *self;
        match ahead.next_tlv()? {
            Some(tlv) if tlv.ty == ty => {
                *self = ahead;
                Ok(Some(tlv))
            }
            Some(_) | None => Ok(None),
        }
    }

    /// Reads the one element of type `ty` that fills the rest of the input.
    ///
    /// # Errors
    /// As [`Reader::read_expected`]; [`DecodeError::TrailingBytes`] when something follows.
    #[inline]
    pub fn read_only(&mut self, ty: u32) -> Result<Tlv<'a>, DecodeError> {
        let tlv = self.read_expected(ty)?;
        self.finish()?;
        Ok(tlv)
    }

    /// Checks that all bytes were read.
    ///
    /// # Errors
    /// [`DecodeError::TrailingBytes`] otherwise.
    #[inline]
    pub fn finish(&self) -> Result<(), DecodeError> {
        if self.is_empty() {
            Ok(())
        } else {
            Err(DecodeError::TrailingBytes { offset: saturate(self.pos) })
        }
    }

    /// The available part of the next element, when its length exceeds the input.
    pub(crate) fn read_cut_off(&mut self) -> Option<Tlv<'a>> {
        let start = self.pos;
        let (ty, length_start) = read_var_number(self.buf, start).ok()?;
        let (_, value_start) = read_var_number(self.buf, length_start).ok()?;
        self.pos = self.buf.len();
        Some(Tlv { ty: u32::try_from(ty).ok()?, start, value_start, buf: self.buf })
    }

    /// Reads the next element if it has the type `TY` (at most 252) and is well-formed.
    ///
    /// A parser that tests for the common elements in their common order has predictable branches,
    /// while a loop over arbitrary elements jumps to an unpredictable target for each.
    #[inline(always)]
    pub(crate) fn take<const TY: u32>(&mut self) -> Option<Tlv<'a>> {
        let (ty, value_start, end) = self.short_header()?;
        if u32::from(ty) != TY {
            return None;
        }
        let tlv = Tlv { ty: TY, start: self.pos, value_start, buf: self.buf.get(..end)? };
        self.pos = end;
        Some(tlv)
    }

    /// Type, offset of the value, offset after the value (which may lie beyond the input), of an
    /// element with a type up to 252 and a length up to 65535.
    #[inline(always)]
    fn short_header(&self) -> Option<(u8, usize, usize)> {
        let rest = self.buf.get(self.pos..)?;
        let &[ty, len] = rest.first_chunk()?;
        if ty.wrapping_sub(1) >= 252 {
            return None;
        }
        if len < 253 {
            let value_start = self.pos + 2;
            return Some((ty, value_start, value_start + usize::from(len)));
        }
        let &[_, _, high, low] = rest.first_chunk()?;
        let len = u16::from_be_bytes([high, low]);
        let value_start = self.pos + 4;
        (rest[1] == 253 && len >= 253).then(|| (ty, value_start, value_start + usize::from(len)))
    }

    /// Type, offset of the value, offset after the value.
    #[inline(always)]
    fn header(&self) -> Result<(u32, usize, usize), DecodeError> {
        match self.short_header() {
            Some((ty, value_start, end)) if end <= self.buf.len() => {
                Ok((u32::from(ty), value_start, end))
            }
            Some(_) | None => self.long_header(),
        }
    }

    /// As [`Self::header`] for every element, with the error if there is none.
    #[inline(never)]
    fn long_header(&self) -> Result<(u32, usize, usize), DecodeError> {
        let (ty, length_start) = read_var_number(self.buf, self.pos)?;
        let ty = match u32::try_from(ty) {
            Ok(ty) if ty != 0 => ty,
            Ok(_) | Err(_) => return Err(DecodeError::InvalidType { offset: saturate(self.pos) }),
        };
        let (length, value_start) = read_var_number(self.buf, length_start)?;
        if length > (self.buf.len() - value_start) as u64 {
            return Err(DecodeError::LengthOverrun {
                ty,
                offset: saturate(self.pos),
                length: u32::try_from(length).unwrap_or(u32::MAX),
            });
        }
        #[expect(clippy::cast_possible_truncation, reason = "not above the buffer's length")]
        let length = length as usize;
        Ok((ty, value_start, value_start + length))
    }
}

impl<'a> Tlv<'a> {
    /// TLV-TYPE.
    #[inline]
    #[must_use]
    pub const fn ty(&self) -> u32 {
        self.ty
    }

    /// TLV-VALUE.
    #[inline]
    #[must_use]
    pub fn value(&self) -> &'a [u8] {
        self.buf.get(self.value_start..).unwrap_or_default()
    }

    /// The whole element.
    #[inline]
    #[must_use]
    pub fn wire(&self) -> &'a [u8] {
        self.buf.get(self.start..).unwrap_or_default()
    }

    /// All bytes up to the end of the element.
    #[inline]
    pub(crate) const fn front(&self) -> &'a [u8] {
        self.buf
    }

    /// Offset of the element's first byte.
    #[inline]
    #[must_use]
    pub const fn offset(&self) -> usize {
        self.start
    }

    /// Offset of the value's first byte.
    #[inline]
    #[must_use]
    pub const fn value_offset(&self) -> usize {
        self.value_start
    }

    /// Offset after the element.
    #[inline]
    #[must_use]
    pub const fn end(&self) -> usize {
        self.buf.len()
    }

    /// TLV-LENGTH.
    #[inline]
    #[must_use]
    pub const fn value_len(&self) -> usize {
        self.buf.len() - self.value_start
    }

    /// A reader over the nested elements.
    #[inline]
    #[must_use]
    pub const fn reader(&self) -> Reader<'a> {
        Reader { buf: self.buf, pos: self.value_start }
    }

    /// The value as a NonNegativeInteger.
    ///
    /// # Errors
    /// [`DecodeError::InvalidLength`] unless the value has 1, 2, 4 or 8 bytes.
    #[inline]
    pub fn number(&self) -> Result<u64, DecodeError> {
        decode_number(self.value()).ok_or_else(|| self.invalid_length())
    }

    /// The value as an array of exactly `N` bytes.
    ///
    /// # Errors
    /// [`DecodeError::InvalidLength`] for any other length.
    #[inline]
    pub fn array<const N: usize>(&self) -> Result<&'a [u8; N], DecodeError> {
        self.value().try_into().map_err(|_| self.invalid_length())
    }

    /// Checks that the value is empty.
    ///
    /// # Errors
    /// [`DecodeError::InvalidLength`] otherwise.
    #[inline]
    pub fn expect_empty(&self) -> Result<(), DecodeError> {
        if self.value_len() == 0 { Ok(()) } else { Err(self.invalid_length()) }
    }

    /// The value as UTF-8 text.
    ///
    /// # Errors
    /// [`DecodeError::InvalidValue`] otherwise.
    pub fn text(&self) -> Result<&'a str, DecodeError> {
        core::str::from_utf8(self.value()).map_err(|_| self.invalid_value())
    }

    /// The error for an invalid length of this element.
    #[must_use]
    pub fn invalid_length(&self) -> DecodeError {
        DecodeError::InvalidLength {
            ty: self.ty,
            offset: saturate(self.start),
            length: saturate(self.value_len()),
        }
    }

    /// The error for an invalid value of this element.
    #[must_use]
    pub fn invalid_value(&self) -> DecodeError {
        DecodeError::InvalidValue { ty: self.ty, offset: saturate(self.start) }
    }

    /// The error for this element repeated or out of order.
    #[must_use]
    pub fn out_of_order(&self) -> DecodeError {
        DecodeError::OutOfOrder { ty: self.ty, offset: saturate(self.start) }
    }

    /// The error for this element where another type is required.
    #[must_use]
    pub fn unexpected(&self, expected: u32) -> DecodeError {
        DecodeError::UnexpectedType { expected, found: self.ty, offset: saturate(self.start) }
    }

    /// The error for a missing element of type `ty` inside this one.
    #[must_use]
    pub fn missing(&self, ty: u32) -> DecodeError {
        DecodeError::Missing { ty, offset: saturate(self.end()) }
    }

    /// Rule for an unrecognised element: an error if its type is critical.
    ///
    /// # Errors
    /// [`DecodeError::UnrecognizedCritical`].
    #[inline]
    pub fn skip_unrecognized(&self) -> Result<(), DecodeError> {
        if crate::types::is_critical(self.ty) {
            return Err(DecodeError::UnrecognizedCritical {
                ty: self.ty,
                offset: saturate(self.start),
            });
        }
        Ok(())
    }

    /// Rule for a recognised element out of order: an error if its type is critical.
    ///
    /// # Errors
    /// [`DecodeError::OutOfOrder`].
    #[inline]
    pub fn skip_out_of_order(&self) -> Result<(), DecodeError> {
        if crate::types::is_critical(self.ty) { Err(self.out_of_order()) } else { Ok(()) }
    }
}

/// Length in bytes of the TLV at the start of `buf`, to split a byte stream into packets.
///
/// `Ok(None)`: more bytes are needed. The result may exceed `buf.len()` when only the beginning of
/// the element has arrived.
///
/// # Errors
/// When the type or length number is malformed, so that the stream cannot be parsed further.
#[inline]
pub fn frame_len(buf: &[u8]) -> Result<Option<usize>, DecodeError> {
    let Some((ty, length_start)) = complete(read_var_number(buf, 0))? else {
        return Ok(None);
    };
    if ty == 0 || ty > u64::from(u32::MAX) {
        return Err(DecodeError::InvalidType { offset: 0 });
    }
    let Some((length, value_start)) = complete(read_var_number(buf, length_start))? else {
        return Ok(None);
    };
    match usize::try_from(length).ok().and_then(|length| value_start.checked_add(length)) {
        Some(total) => Ok(Some(total)),
        None => Err(DecodeError::TooLong),
    }
}

/// Turns "truncated" into `None`.
fn complete<T>(read: Result<T, DecodeError>) -> Result<Option<T>, DecodeError> {
    match read {
        Err(DecodeError::Truncated { .. }) => Ok(None),
        other => other.map(Some),
    }
}
