//! Fast reader for the elements of common packets.
//!
//! A parser that tests for the common elements in their common order has predictable branches,
//! while a loop over arbitrary elements jumps to an unpredictable target for each. Other packets
//! are left to [`Reader`], which implements every rule and every error.

use core::ops::Range;

use crate::error::DecodeError;
use crate::span::Span;
use crate::tlv::Reader;
use crate::types;

/// A cursor over elements with types up to 252 and lengths up to 65535.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FastReader<'a> {
    /// Ends at the end of the enclosing element.
    buf: &'a [u8],
    pos: usize,
}

impl<'a> FastReader<'a> {
    /// A cursor over `buf` from `pos` on.
    #[inline(always)]
    pub(crate) fn new(buf: &'a [u8], pos: usize) -> Self {
        Self { buf, pos }
    }

    /// Whether all bytes were read.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.pos == self.buf.len()
    }

    /// The bytes that were not read.
    #[inline(always)]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.buf.get(self.pos..).unwrap_or_default()
    }

    /// The elements in the value at `span`.
    #[inline(always)]
    pub(crate) fn inside(&self, span: Span) -> Option<Self> {
        Some(Self::new(self.buf.get(..span.end as usize)?, span.start as usize))
    }

    /// A general reader at the same position.
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

    /// Takes the next element if it has the type `ty`, at most 252; returns the range of its value.
    #[inline(always)]
    pub(crate) fn take(&mut self, ty: u32) -> Option<Span> {
        let rest = self.buf.get(self.pos..)?;
        let &[first, len] = rest.first_chunk()?;
        if u32::from(first) != ty {
            return None;
        }
        let (value_start, len) = match len {
            0..253 => (self.pos + 2, usize::from(len)),
            253 => {
                let &[_, _, high, low] = rest.first_chunk()?;
                let len = usize::from(u16::from_be_bytes([high, low]));
                if len < 253 {
                    return None;
                }
                (self.pos + 4, len)
            }
            _ => return None,
        };
        let end = value_start + len;
        if end > self.buf.len() {
            return None;
        }
        self.pos = end;
        Some(Span::new(value_start, end))
    }
}

/// Start of the value of the one element of type `TY` that fills `wire`.
#[inline(always)]
pub(crate) fn outer<const TY: u32>(wire: &[u8]) -> Result<usize, DecodeError> {
    let mut reader = FastReader::new(wire, 0);
    match reader.take(TY) {
        Some(value) if reader.is_empty() => Ok(value.start as usize),
        Some(_) | None => outer_general(wire, TY),
    }
}

#[inline(never)]
fn outer_general(wire: &[u8], ty: u32) -> Result<usize, DecodeError> {
    Ok(Reader::new(wire).read_only(ty)?.value_offset())
}

/// Type and length of an element, both at most 252.
pub(crate) const fn short_header(ty: u32, length: u8) -> [u8; 2] {
    assert!(ty <= 252 && length <= 252);
    let [.., ty] = ty.to_be_bytes();
    [ty, length]
}

/// End of the element of type `TY` at `position`, if it is there and four bytes can be read. The end may lie behind `bytes`.
#[inline(always)]
pub(crate) fn element_end<const TY: u32>(bytes: &[u8], position: usize) -> Option<usize> {
    let &[ty, length, high, low] = bytes.get(position..position + 4)?.first_chunk()?;
    if u32::from(ty) != TY {
        return None;
    }
    match length {
        0..253 => Some(position + 2 + usize::from(length)),
        253 => {
            let length = u16::from_be_bytes([high, low]);
            (length >= 253).then_some(position + 4 + usize::from(length))
        }
        _ => None,
    }
}

/// Range of the value of the Name that begins the one element of type `TY` that fills `wire`, if both
/// have at most 252 bytes.
#[inline(always)]
pub(crate) fn short_name<const TY: u32>(wire: &[u8]) -> Option<Range<usize>> {
    let &[outer, outer_length, name, length, ..] = wire else { return None };
    let fills = outer_length <= 252 && usize::from(outer_length) + 2 == wire.len();
    let has_types = u32::from(outer) == TY && u32::from(name) == types::NAME;
    (fills && has_types && length <= 252).then_some(4..4 + usize::from(length))
}

/// Range of the value of the Name that begins the one element of type `TY` that fills
/// `wire`, if their types and lengths are common.
#[inline(always)]
pub(crate) fn common_name<const TY: u32>(wire: &[u8]) -> Option<Range<usize>> {
    let mut outer = FastReader::new(wire, 0);
    let value = outer.take(TY)?;
    let name = FastReader::new(wire, value.start as usize).take(types::NAME)?;
    outer.is_empty().then_some(name.range())
}

/// Start and end of the value of the Name at `pos`.
#[inline(always)]
pub(crate) fn name(wire: &[u8], pos: usize) -> Result<(usize, usize), DecodeError> {
    match FastReader::new(wire, pos).take(types::NAME) {
        Some(value) => Ok((value.start as usize, value.end as usize)),
        None => name_general(wire, pos),
    }
}

#[inline(never)]
fn name_general(wire: &[u8], pos: usize) -> Result<(usize, usize), DecodeError> {
    let name = Reader::at(wire, pos).read_expected(types::NAME)?;
    Ok((name.value_offset(), name.end()))
}
