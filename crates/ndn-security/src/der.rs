//! A minimal DER reader and writer (ITU-T X.690), enough for PKCS#1, PKCS#8 and SubjectPublicKeyInfo.
//!
//! Definite lengths in shortest form and single-byte tags only; anything else is an error. Reading
//! never allocates and never panics.

use thiserror::Error;

pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const NULL: u8 = 0x05;
pub(crate) const OBJECT_IDENTIFIER: u8 = 0x06;
pub(crate) const SEQUENCE: u8 = 0x30;

/// Why a DER structure was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum DerError {
    /// The input ends inside an element.
    #[error("the DER input ends inside an element")]
    Truncated,
    /// A length is indefinite, not in shortest form, or above 2^32-1.
    #[error("a DER length is indefinite, not in shortest form, or too large")]
    BadLength,
    /// An element has another tag than the structure requires.
    #[error("expected DER tag {expected:#04x}, found {found:#04x}")]
    UnexpectedTag {
        /// Tag that the structure requires here.
        expected: u8,
        /// Tag that was found.
        found: u8,
    },
    /// Bytes follow where the structure must end.
    #[error("bytes follow the end of the DER structure")]
    TrailingBytes,
    /// A value is outside what its type or its use allows.
    #[error("a DER value is out of range")]
    BadValue,
}

/// Reads consecutive DER elements from a slice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DerReader<'a> {
    rest: &'a [u8],
}

impl<'a> DerReader<'a> {
    pub(crate) fn new(input: &'a [u8]) -> Self {
        Self { rest: input }
    }

    /// The contents of a lone SEQUENCE that fills `input`.
    pub(crate) fn of_sequence(input: &'a [u8]) -> Result<Self, DerError> {
        let mut outer = Self::new(input);
        let inner = outer.sequence()?;
        outer.finish()?;
        Ok(inner)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn peek_tag(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    pub(crate) fn finish(&self) -> Result<(), DerError> {
        if self.rest.is_empty() { Ok(()) } else { Err(DerError::TrailingBytes) }
    }

    /// The value of the next element, which must have `tag`.
    pub(crate) fn element(&mut self, tag: u8) -> Result<&'a [u8], DerError> {
        self.element_with_header(tag).map(|(_, value)| value)
    }

    /// The next element as `(whole element, value)`; it must have `tag`.
    pub(crate) fn element_with_header(
        &mut self,
        tag: u8,
    ) -> Result<(&'a [u8], &'a [u8]), DerError> {
        let input = self.rest;
        let found = *input.first().ok_or(DerError::Truncated)?;
        if found != tag {
            return Err(DerError::UnexpectedTag { expected: tag, found });
        }
        let (length, header_len) = read_length(input)?;
        let end = header_len.checked_add(length).ok_or(DerError::BadLength)?;
        let whole = input.get(..end).ok_or(DerError::Truncated)?;
        self.rest = &input[end..];
        Ok((whole, &whole[header_len..]))
    }

    pub(crate) fn sequence(&mut self) -> Result<Self, DerError> {
        self.element(SEQUENCE).map(Self::new)
    }

    pub(crate) fn object_identifier(&mut self) -> Result<&'a [u8], DerError> {
        self.element(OBJECT_IDENTIFIER)
    }

    /// A BIT STRING whose length is a whole number of bytes.
    pub(crate) fn bit_string(&mut self) -> Result<&'a [u8], DerError> {
        match self.element(BIT_STRING)?.split_first() {
            Some((0, bytes)) => Ok(bytes),
            _ => Err(DerError::BadValue),
        }
    }

    /// A non-negative INTEGER that fits `u32`.
    pub(crate) fn unsigned(&mut self) -> Result<u32, DerError> {
        let bytes = self.element(INTEGER)?;
        match bytes {
            [] => return Err(DerError::BadValue),
            [first, ..] if first & 0x80 != 0 => return Err(DerError::BadValue),
            [0, second, ..] if second & 0x80 == 0 => return Err(DerError::BadValue),
            _ => {}
        }
        let significant = bytes.strip_prefix(&[0]).unwrap_or(bytes);
        if significant.len() > 4 {
            return Err(DerError::BadValue);
        }
        Ok(significant.iter().fold(0, |value, &byte| (value << 8) | u32::from(byte)))
    }
}

/// `(length, header length)` of the element that starts `input`, whose tag is present.
fn read_length(input: &[u8]) -> Result<(usize, usize), DerError> {
    let first = *input.get(1).ok_or(DerError::Truncated)?;
    if first < 0x80 {
        return Ok((usize::from(first), 2));
    }
    let count = usize::from(first & 0x7f);
    if count == 0 || count > 4 {
        return Err(DerError::BadLength);
    }
    let bytes = input.get(2..2 + count).ok_or(DerError::Truncated)?;
    let length = bytes.iter().fold(0usize, |value, &byte| (value << 8) | usize::from(byte));
    if bytes[0] == 0 || length < 0x80 {
        return Err(DerError::BadLength);
    }
    Ok((length, 2 + count))
}

/// Appends one DER element to `out`.
pub(crate) fn write_element(out: &mut Vec<u8>, tag: u8, value: &[u8]) {
    out.push(tag);
    let length = value.len();
    if let Ok(short) = u8::try_from(length)
        && short < 0x80
    {
        out.push(short);
    } else {
        let bytes = length.to_be_bytes();
        let skip = bytes.iter().take_while(|&&byte| byte == 0).count();
        // At most eight bytes remain, so the count fits the low seven bits.
        out.push(0x80 | u8::try_from(bytes.len() - skip).unwrap_or(8));
        out.extend_from_slice(&bytes[skip..]);
    }
    out.extend_from_slice(value);
}

/// One DER element of its own.
pub(crate) fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let value = parts.concat();
    let mut out = Vec::with_capacity(value.len() + 6);
    write_element(&mut out, tag, &value);
    out
}

/// A non-negative INTEGER element.
pub(crate) fn unsigned(value: u32) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    let skip = bytes.iter().take_while(|&&byte| byte == 0).count().min(3);
    let significant = &bytes[skip..];
    if significant[0] & 0x80 == 0 {
        element(INTEGER, &[significant])
    } else {
        element(INTEGER, &[&[0], significant])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn der_round_trips() {
        for length in [0usize, 1, 127, 128, 255, 256, 70_000] {
            let value = vec![0x5a; length];
            let encoded = element(OCTET_STRING, &[&value]);
            let mut reader = DerReader::new(&encoded);
            assert_eq!(reader.element(OCTET_STRING).unwrap(), value.as_slice());
            reader.finish().unwrap();
        }
        for number in [0, 1, 127, 128, 255, 256, 32_768, u32::MAX] {
            let encoded = unsigned(number);
            assert_eq!(DerReader::new(&encoded).unsigned(), Ok(number));
        }
    }

    #[test]
    fn malformed_der_is_refused() {
        let read = |input: &[u8]| DerReader::new(input).element(SEQUENCE).map(<[u8]>::len);
        assert_eq!(read(&[]), Err(DerError::Truncated));
        assert_eq!(read(&[0x30]), Err(DerError::Truncated));
        assert_eq!(read(&[0x30, 0x80]), Err(DerError::BadLength));
        assert_eq!(read(&[0x30, 0x81, 0x01, 0]), Err(DerError::BadLength));
        assert_eq!(read(&[0x30, 0x82, 0x00, 0x80]), Err(DerError::BadLength));
        assert_eq!(read(&[0x30, 0x85, 1, 1, 1, 1, 1]), Err(DerError::BadLength));
        assert_eq!(read(&[0x30, 0x02, 0]), Err(DerError::Truncated));
        assert_eq!(read(&[0x31, 0]), Err(DerError::UnexpectedTag { expected: 0x30, found: 0x31 }));
        let unsigned = |input: &[u8]| DerReader::new(input).unsigned();
        assert_eq!(unsigned(&[0x02, 0x00]), Err(DerError::BadValue));
        assert_eq!(unsigned(&[0x02, 0x01, 0x80]), Err(DerError::BadValue));
        assert_eq!(unsigned(&[0x02, 0x02, 0x00, 0x01]), Err(DerError::BadValue));
        assert_eq!(unsigned(&[0x02, 0x05, 1, 1, 1, 1, 1]), Err(DerError::BadValue));
        assert_eq!(DerReader::new(&[0x03, 0x02, 0x01, 0x80]).bit_string(), Err(DerError::BadValue));
        assert_eq!(DerReader::new(&[0x03, 0x00]).bit_string(), Err(DerError::BadValue));
    }

    proptest! {
        #[test]
        fn arbitrary_der_never_panics(input in proptest::collection::vec(any::<u8>(), 0..64)) {
            let mut reader = DerReader::new(&input);
            while let Some(tag) = reader.peek_tag() {
                let before = reader.rest.len();
                if reader.element(tag).is_err() {
                    break;
                }
                prop_assert!(reader.rest.len() < before);
            }
            let _ = DerReader::of_sequence(&input);
            let _ = DerReader::new(&input).unsigned();
            let _ = DerReader::new(&input).bit_string();
        }
    }
}
