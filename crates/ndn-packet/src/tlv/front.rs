//! Reading the elements that most packets consist of.
//!
//! A parser that asks for the usual elements in their usual order runs straight ahead, while a
//! loop over whatever comes jumps to a place that is hard to predict for each element. What is not
//! as usual is left to [`Reader`], which knows every rule and every error.

use crate::error::{DecodeError, saturate};
use crate::span::Span;
use crate::tlv::Reader;
use crate::types;

/// A cursor over elements with types up to 252 and lengths up to 65535.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Front<'a> {
    /// Ends where the enclosing element ends.
    buf: &'a [u8],
    pos: usize,
    /// `buf` from `pos` on.
    rest: &'a [u8],
}

impl<'a> Front<'a> {
    /// From `pos` in `buf` on.
    #[inline(always)]
    pub(crate) fn new(buf: &'a [u8], pos: usize) -> Self {
        Self { buf, pos, rest: buf.get(pos..).unwrap_or_default() }
    }

    /// Offset of the next element.
    #[inline(always)]
    pub(crate) fn offset(&self) -> usize {
        self.pos
    }

    /// Whether all was read.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The elements in the value at `span`.
    #[inline(always)]
    pub(crate) fn inside(&self, span: Span) -> Option<Self> {
        Some(Self::new(self.buf.get(..span.end as usize)?, span.start as usize))
    }

    /// A reader that knows every rule, at the same place.
    pub(crate) fn reader(&self) -> Reader<'a> {
        Reader::at(self.buf, self.pos)
    }

    /// The number at `span`, if it has 1, 2, 4 or 8 bytes.
    #[inline(always)]
    pub(crate) fn number(&self, span: Span) -> Option<u64> {
        let value = self.buf.get(span.range())?;
        Some(match *value {
            [a] => u64::from(a),
            [a, b] => u64::from(u16::from_be_bytes([a, b])),
            [a, b, c, d] => u64::from(u32::from_be_bytes([a, b, c, d])),
            _ => u64::from_be_bytes(value.try_into().ok()?),
        })
    }

    /// Takes the next element if it has the type `ty`, at most 252, and gives where its value lies.
    #[inline(always)]
    pub(crate) fn take(&mut self, ty: u32) -> Option<Span> {
        let (&[first, len], value) = self.rest.split_first_chunk()?;
        if u32::from(first) != ty {
            return None;
        }
        let (value_start, value, len) = match len {
            0..253 => (self.pos + 2, value, usize::from(len)),
            253 => {
                let (&long, value) = value.split_first_chunk()?;
                let len = usize::from(u16::from_be_bytes(long));
                if len < 253 {
                    return None;
                }
                (self.pos + 4, value, len)
            }
            _ => return None,
        };
        self.rest = value.get(len..)?;
        self.pos = value_start + len;
        Some(Span::new(value_start, self.pos))
    }

    /// Takes the next element if it has the type `ty`, at most 252, and a value of `N` bytes, at
    /// most 252. Gives the offset of the value, and the value.
    #[inline(always)]
    pub(crate) fn take_array<const N: usize>(&mut self, ty: u32) -> Option<(u32, &'a [u8; N])> {
        let (header, value) = self.rest.split_first_chunk()?;
        // One comparison for type and length.
        if u32::from(u16::from_be_bytes(*header)) != ty << 8 | saturate(N) {
            return None;
        }
        let (value, rest) = value.split_first_chunk()?;
        let value_start = self.pos + 2;
        self.pos = value_start + N;
        self.rest = rest;
        Some((Span::new(value_start, self.pos).start, value))
    }
}

/// Where the value of the one element of type `TY` that fills `wire` starts.
#[inline(always)]
pub(crate) fn outer<const TY: u32>(wire: &[u8]) -> Result<usize, DecodeError> {
    let mut front = Front::new(wire, 0);
    match front.take(TY) {
        Some(value) if front.is_empty() => Ok(value.start as usize),
        Some(_) | None => outer_slowly(wire, TY),
    }
}

#[inline(never)]
fn outer_slowly(wire: &[u8], ty: u32) -> Result<usize, DecodeError> {
    Ok(Reader::new(wire).read_only(ty)?.value_offset())
}

/// Where the value of the Name that starts at `pos` starts and ends.
#[inline(always)]
pub(crate) fn name(wire: &[u8], pos: usize) -> Result<(usize, usize), DecodeError> {
    match Front::new(wire, pos).take(types::NAME) {
        Some(value) => Ok((value.start as usize, value.end as usize)),
        None => name_slowly(wire, pos),
    }
}

#[inline(never)]
fn name_slowly(wire: &[u8], pos: usize) -> Result<(usize, usize), DecodeError> {
    let name = Reader::at(wire, pos).read_expected(types::NAME)?;
    Ok((name.value_offset(), name.end()))
}
