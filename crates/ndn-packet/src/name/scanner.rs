//! Validates the components of a name, one by one.

use crate::error::{DecodeError, saturate};
use crate::name::MAX_COMPONENTS;
use crate::name::component::{Component, ComponentType};
use crate::tlv::{Reader, Tlv};
use core::ops::Range;

/// Maximum length of a [`RawComponent::Short`], and the number of bytes readable from its start.
pub const SHORT_COMPONENT_LEN_MAX: usize = 16;

/// Iterates over the components of a name that is being parsed, and validates each.
///
/// A caller that needs the components anyway, to hash them, uses the same pass:
/// [`Interest::parse_with`](crate::Interest::parse_with) passes out the scanner, and then validates
/// what was not visited.
#[derive(Clone, Debug)]
pub struct NameScanner<'a> {
    wire: &'a [u8],
    /// Start of the next component, at most `end`.
    pos: usize,
    /// End of the name, at most the end of `wire`.
    end: usize,
    count: usize,
    /// Number of ParametersSha256DigestComponents.
    parameters_digest_count: u16,
    /// Offset after the last ImplicitSha256DigestComponent, `usize::MAX` if there is none.
    implicit_digest_end: usize,
    /// Start of the name.
    start: usize,
}

/// The TLV of one component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RawComponent<'a> {
    /// A short one that is not near the end of the packet.
    Short {
        /// The component, followed by further bytes of the packet.
        block: &'a [u8; SHORT_COMPONENT_LEN_MAX],
        /// Length of the component in bytes, including type and length.
        len: usize,
    },
    /// Any other component.
    Long(&'a [u8]),
}

impl<'a> RawComponent<'a> {
    /// The bytes of the component.
    #[inline]
    #[must_use]
    pub fn wire(&self) -> &'a [u8] {
        match *self {
            Self::Short { block, len } => block.get(..len).unwrap_or(block),
            Self::Long(wire) => wire,
        }
    }
}

/// Iterates over the components of a name that is being parsed, as long as they are common: types 3
/// to 252 with values of up to 252 bytes, which are valid without further checks.
#[derive(Clone, Debug)]
pub struct CommonComponents<'a> {
    /// The packet, from the next component on.
    rest: &'a [u8],
    /// Bytes of the packet after the name, at most all of `rest`.
    after: usize,
}

impl<'a> CommonComponents<'a> {
    /// Iterates over the name whose value lies at `range` in `packet`.
    #[inline(always)]
    #[must_use]
    pub fn within(packet: &'a [u8], range: Range<usize>) -> Self {
        let end = range.end.min(packet.len());
        let start = range.start.min(end);
        Self { rest: packet.get(start..).unwrap_or_default(), after: packet.len() - end }
    }

    /// Whether all components were visited, so that the name is valid.
    #[inline(always)]
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        self.rest.len() == self.after
    }

    /// Visits the next component if it is a [`RawComponent::Short`], without a call; returns that.
    #[inline(always)]
    fn next_short(&mut self) -> Option<(&'a [u8; SHORT_COMPONENT_LEN_MAX], usize)> {
        let block = self.rest.first_chunk::<SHORT_COMPONENT_LEN_MAX>()?;
        let [ty, value_len, ..] = *block;
        let len = 2 + usize::from(value_len);
        if ty.wrapping_sub(3) >= 250 || len > SHORT_COMPONENT_LEN_MAX {
            return None;
        }
        let rest = self.rest.get(len..).filter(|rest| rest.len() >= self.after)?;
        self.rest = rest;
        Some((block, len))
    }

    /// Visits the next component; `None` at the end and before one that is not common.
    #[inline(always)]
    pub fn next_component(&mut self) -> Option<RawComponent<'a>> {
        if self.is_at_end() {
            return None;
        }
        if let Some((block, len)) = self.next_short() {
            return Some(RawComponent::Short { block, len });
        }
        let component = long_common_component(self.rest, self.rest.len() - self.after)?;
        self.rest = self.rest.get(component.len()..)?;
        Some(RawComponent::Long(component))
    }
}

/// The component at the start of a name of `left` bytes, if it is common.
#[inline(never)]
fn long_common_component(rest: &[u8], left: usize) -> Option<&[u8]> {
    let &[ty, value_len @ 0..253, ..] = rest else { return None };
    let len = 2 + usize::from(value_len);
    if ty.wrapping_sub(3) < 250 && len <= left { rest.get(..len) } else { None }
}

/// Result of one pass over a name.
#[derive(Clone, Copy)]
pub(crate) struct NameScan {
    pub(crate) component_count: u16,
    /// Number of ParametersSha256DigestComponents.
    pub(crate) parameters_digest_count: u16,
    /// The last component is an ImplicitSha256DigestComponent.
    pub(crate) ends_in_implicit_digest: bool,
}

impl<'a> NameScanner<'a> {
    /// Scans the value of a Name TLV.
    #[inline]
    #[must_use]
    pub fn new(value: &'a [u8]) -> Self {
        Self::within(value, 0..value.len())
    }

    /// Scans the name whose value lies at `range` in `packet`, truncated to the packet.
    #[inline]
    #[must_use]
    pub fn within(packet: &'a [u8], range: Range<usize>) -> Self {
        let end = range.end.min(packet.len());
        let start = range.start.min(end);
        Self {
            wire: packet,
            pos: start,
            end,
            count: 0,
            parameters_digest_count: 0,
            implicit_digest_end: usize::MAX,
            start,
        }
    }

    /// Scans an element of type Name.
    #[inline]
    pub(crate) fn of_tlv(tlv: &Tlv<'a>) -> Self {
        Self::within(tlv.front(), tlv.value_offset()..tlv.end())
    }

    /// Number of components visited.
    #[inline]
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The bytes of the name not visited yet.
    #[inline]
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.wire.get(self.pos..self.end).unwrap_or_default()
    }

    /// Visits the next component; `None` at the end, and before an invalid one.
    #[inline(always)]
    pub fn next_component(&mut self) -> Option<RawComponent<'a>> {
        if self.pos == self.end {
            return None;
        }
        let from_here: &'a [u8] = self.wire.get(self.pos..)?;
        if let Some(block) = from_here.first_chunk::<SHORT_COMPONENT_LEN_MAX>() {
            // Short numbers, and not a digest; everything else takes the general path.
            let [ty, value_len, ..] = *block;
            let len = 2 + usize::from(value_len);
            let next = self.pos + len;
            if ty.wrapping_sub(3) < 250 && len <= SHORT_COMPONENT_LEN_MAX && next <= self.end {
                self.pos = next;
                self.count += 1;
                return Some(RawComponent::Short { block, len });
            }
        }
        let rest = self.rest();
        let (len, ty) = long_component(rest)?;
        self.pos += len;
        self.count += 1;
        if ty == ComponentType::PARAMETERS_SHA256_DIGEST {
            self.parameters_digest_count = self.parameters_digest_count.saturating_add(1);
        } else if ty == ComponentType::IMPLICIT_SHA256_DIGEST {
            self.implicit_digest_end = self.pos;
        }
        rest.get(..len).map(RawComponent::Long)
    }

    /// Validates the rest.
    #[inline]
    pub(crate) fn finish(mut self) -> Result<NameScan, DecodeError> {
        if self.pos != self.end {
            while self.next_component().is_some() {}
            if self.pos != self.end {
                return Err(self.error());
            }
        }
        let Ok(component_count) = u16::try_from(self.count) else {
            return Err(DecodeError::TooManyComponents { offset: saturate(self.start) });
        };
        Ok(NameScan {
            component_count,
            parameters_digest_count: self.parameters_digest_count,
            ends_in_implicit_digest: self.implicit_digest_end == self.end,
        })
    }

    /// The error in the next component.
    #[cold]
    fn error(&self) -> DecodeError {
        let front = self.wire.get(..self.end).unwrap_or_default();
        let mut reader = Reader::at(front, self.pos);
        match reader.read().and_then(|tlv| Component::from_tlv(&tlv)) {
            Ok(_) => DecodeError::Truncated { offset: saturate(self.end) },
            Err(error) => error,
        }
    }
}

/// Length and type of the component at the start of `rest`, if it is valid.
#[inline(never)]
fn long_component(rest: &[u8]) -> Option<(usize, ComponentType)> {
    // Most have at most 252 bytes and are not digests.
    if let [ty @ 3..253, len @ 0..253, value @ ..] = rest
        && usize::from(*len) <= value.len()
    {
        return Some((2 + usize::from(*len), ComponentType::new(u16::from(*ty))?));
    }
    let tlv = Reader::new(rest).read().ok()?;
    let component = Component::from_tlv(&tlv).ok()?;
    Some((tlv.end(), component.ty()))
}

const _: () = assert!(MAX_COMPONENTS == u16::MAX as usize);
