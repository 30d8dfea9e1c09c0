//! Errors of parsing, of URIs, and of encoding.

use crate::types::type_name;
use core::fmt;

/// Why bytes are not a valid packet. Offsets count bytes from the start of the slice that was parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The input ends inside a type or length number, or where one is required.
    Truncated {
        /// Where the number begins.
        offset: u32,
    },
    /// A type or length number is not in its shortest form.
    NonShortestNumber {
        /// Where the number begins.
        offset: u32,
    },
    /// The type is 0 or above 2^32-1.
    InvalidType {
        /// Where the element begins.
        offset: u32,
    },
    /// The element's length reaches beyond its parent or the input.
    LengthOverrun {
        /// Type of the element.
        ty: u32,
        /// Where the element begins.
        offset: u32,
        /// The stated TLV-LENGTH (saturated).
        length: u32,
    },
    /// Another element was required here.
    UnexpectedType {
        /// The required type.
        expected: u32,
        /// The type found.
        found: u32,
        /// Where the element begins.
        offset: u32,
    },
    /// An element of a critical type is not recognised here.
    UnrecognizedCritical {
        /// Type of the element.
        ty: u32,
        /// Where the element begins.
        offset: u32,
    },
    /// An NDNLPv2 header field is not recognised and may not be ignored.
    UnrecognizedLpField {
        /// Type of the field.
        ty: u32,
        /// Where the field begins.
        offset: u32,
    },
    /// An element is repeated or comes after one that it must precede.
    OutOfOrder {
        /// Type of the element.
        ty: u32,
        /// An element is repeated, or comes after one that it must precede.
        offset: u32,
    },
    /// A required element is absent.
    Missing {
        /// The required type.
        ty: u32,
        /// Where the parent ends.
        offset: u32,
    },
    /// The element's length is not one that its type allows.
    InvalidLength {
        /// Type of the element.
        ty: u32,
        /// Where the element begins.
        offset: u32,
        /// The TLV-LENGTH (saturated).
        length: u32,
    },
    /// The element's value is not one that its type allows.
    InvalidValue {
        /// Type of the element.
        ty: u32,
        /// Where the element begins.
        offset: u32,
    },
    /// Bytes follow where the input should end.
    TrailingBytes {
        /// Where they begin.
        offset: u32,
    },
    /// A name component has a type outside 1 to 65535.
    InvalidComponentType {
        /// The type found.
        ty: u32,
        /// Where the component begins.
        offset: u32,
    },
    /// A name has more than [`crate::name::MAX_COMPONENTS`] components.
    TooManyComponents {
        /// Where the first component too many begins.
        offset: u32,
    },
    /// An Interest has an empty name.
    EmptyName {
        /// Where the name begins.
        offset: u32,
    },
    /// An Interest name has more than one ParametersSha256Digest component.
    RepeatedParametersDigest {
        /// Where the name begins.
        offset: u32,
    },
    /// The input is 4 GiB or longer.
    TooLong,
}

impl DecodeError {
    /// The same error in a slice that begins `base` bytes later.
    #[must_use]
    pub fn moved_by(mut self, base: usize) -> Self {
        match &mut self {
            Self::Truncated { offset }
            | Self::NonShortestNumber { offset }
            | Self::InvalidType { offset }
            | Self::LengthOverrun { offset, .. }
            | Self::UnexpectedType { offset, .. }
            | Self::UnrecognizedCritical { offset, .. }
            | Self::UnrecognizedLpField { offset, .. }
            | Self::OutOfOrder { offset, .. }
            | Self::Missing { offset, .. }
            | Self::InvalidLength { offset, .. }
            | Self::InvalidValue { offset, .. }
            | Self::TrailingBytes { offset }
            | Self::InvalidComponentType { offset, .. }
            | Self::TooManyComponents { offset }
            | Self::EmptyName { offset }
            | Self::RepeatedParametersDigest { offset } => {
                *offset = offset.saturating_add(saturate(base));
            }
            Self::TooLong => {}
        }
        self
    }
}

/// A TLV-TYPE with its name, if known.
struct Ty(u32);

impl fmt::Display for Ty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match type_name(self.0) {
            Some(name) => write!(f, "{name} (type {})", self.0),
            None => write!(f, "element of type {}", self.0),
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Truncated { offset } => {
                write!(f, "type or length at byte {offset} is cut off")
            }
            Self::NonShortestNumber { offset } => {
                write!(f, "type or length at byte {offset} is not in its shortest form")
            }
            Self::InvalidType { offset } => {
                write!(f, "type at byte {offset} is not between 1 and 4294967295")
            }
            Self::LengthOverrun { ty, offset, length } => {
                write!(
                    f,
                    "{} at byte {offset}: length {length} reaches beyond what contains it",
                    Ty(ty)
                )
            }
            Self::UnexpectedType { expected, found, offset } => {
                write!(f, "{} at byte {offset} where {} is required", Ty(found), Ty(expected))
            }
            Self::UnrecognizedCritical { ty, offset } => {
                write!(
                    f,
                    "{} at byte {offset} is not recognised here, and its type is critical",
                    Ty(ty)
                )
            }
            Self::UnrecognizedLpField { ty, offset } => {
                write!(
                    f,
                    "NDNLPv2 field of type {ty} at byte {offset} is not recognised and may not be ignored"
                )
            }
            Self::OutOfOrder { ty, offset } => {
                write!(f, "{} at byte {offset} is repeated or out of order", Ty(ty))
            }
            Self::Missing { ty, offset } => {
                write!(f, "{} is missing before byte {offset}", Ty(ty))
            }
            Self::InvalidLength { ty, offset, length } => {
                write!(f, "{} at byte {offset}: length {length} is not allowed", Ty(ty))
            }
            Self::InvalidValue { ty, offset } => {
                write!(f, "{} at byte {offset}: value is not allowed", Ty(ty))
            }
            Self::TrailingBytes { offset } => write!(f, "bytes left over from byte {offset} on"),
            Self::InvalidComponentType { ty, offset } => {
                write!(f, "name component at byte {offset}: type {ty} is not between 1 and 65535")
            }
            Self::TooManyComponents { offset } => {
                write!(f, "name has too many components from byte {offset} on")
            }
            Self::EmptyName { offset } => write!(f, "name at byte {offset} is empty"),
            Self::RepeatedParametersDigest { offset } => {
                write!(f, "name at byte {offset} has several ParametersSha256Digest components")
            }
            Self::TooLong => f.write_str("input of 4 GiB or more"),
        }
    }
}

impl core::error::Error for DecodeError {}

/// Why a packet could not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodeError {
    /// The output buffer is shorter than the packet.
    BufferTooSmall,
    /// The signing closure returned no signature, or one longer than announced.
    SigningFailed,
    /// A field has a value that the format does not allow (such as a PIT token of more than 32
    /// bytes).
    InvalidField {
        /// Type of the field.
        ty: u32,
    },
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::BufferTooSmall => f.write_str("output buffer is shorter than the packet"),
            Self::SigningFailed => f.write_str("the packet could not be signed"),
            Self::InvalidField { ty } => write!(f, "{} has a value that is not allowed", Ty(ty)),
        }
    }
}

impl core::error::Error for EncodeError {}

/// Why a text is not a name URI. Offsets count bytes from the start of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UriError {
    /// Two slashes with nothing between (an empty component is written `...`).
    EmptyComponent {
        /// Where the component begins.
        offset: usize,
    },
    /// `.` or `..` as a component.
    RelativeComponent {
        /// Where the component begins.
        offset: usize,
    },
    /// `%` is not followed by two hexadecimal digits.
    InvalidEscape {
        /// Where the `%` is.
        offset: usize,
    },
    /// The text before `=` is neither a known prefix nor a type from 1 to 65535.
    InvalidType {
        /// Where the component begins.
        offset: usize,
    },
    /// The text after `seg=` or another number prefix is not a decimal number below 2^64.
    InvalidNumber {
        /// Where the component begins.
        offset: usize,
    },
    /// A digest component is not 32 bytes (64 hexadecimal digits).
    InvalidDigest {
        /// Where the component begins.
        offset: usize,
    },
    /// More than [`crate::name::MAX_COMPONENTS`] components.
    TooManyComponents,
}

impl fmt::Display for UriError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::EmptyComponent { offset } => {
                write!(f, "empty component at byte {offset} (an empty component is written '...')")
            }
            Self::RelativeComponent { offset } => {
                write!(f, "'.' and '..' are not components (at byte {offset})")
            }
            Self::InvalidEscape { offset } => {
                write!(f, "'%' at byte {offset} is not followed by two hexadecimal digits")
            }
            Self::InvalidType { offset } => write!(
                f,
                "component at byte {offset}: what precedes '=' is neither a type from 1 to 65535 nor one of \
                 seg, off, v, t, seq, sha256digest, params-sha256 (write '=' itself as '%3D')"
            ),
            Self::InvalidNumber { offset } => {
                write!(f, "component at byte {offset}: not a decimal number below 2^64")
            }
            Self::InvalidDigest { offset } => {
                write!(f, "component at byte {offset}: a digest has 32 bytes")
            }
            Self::TooManyComponents => f.write_str("too many components"),
        }
    }
}

impl core::error::Error for UriError {}

/// An offset or length for an error report, saturated to 32 bits.
#[inline]
pub(crate) fn saturate(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
