//! Name component and its URI form (packet specification, section "NDN URI Scheme").

use crate::error::{DecodeError, UriError, saturate};
use crate::tlv::{Number, Tlv, decode_number, tlv_len};
use crate::types;
use core::cmp::Ordering;
use core::fmt::{self, Write};

const IMPLICIT_DIGEST_PREFIX: &str = "sha256digest";
const PARAMETERS_DIGEST_PREFIX: &str = "params-sha256";

/// Types whose number has a prefix in the URI form.
const NUMBER_TYPES: [ComponentType; 5] = [
    ComponentType::SEGMENT,
    ComponentType::BYTE_OFFSET,
    ComponentType::VERSION,
    ComponentType::TIMESTAMP,
    ComponentType::SEQUENCE_NUM,
];

/// The type of a name component, 1 to 65535.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComponentType(u16);

impl ComponentType {
    /// ImplicitSha256DigestComponent: 32 bytes, URI `sha256digest=`.
    pub const IMPLICIT_SHA256_DIGEST: Self = Self(1);
    /// ParametersSha256DigestComponent: 32 bytes, URI `params-sha256=`.
    pub const PARAMETERS_SHA256_DIGEST: Self = Self(2);
    /// GenericNameComponent.
    pub const GENERIC: Self = Self(8);
    /// KeywordNameComponent, URI `32=`.
    pub const KEYWORD: Self = Self(32);
    /// SegmentNameComponent: a number, URI `seg=`.
    pub const SEGMENT: Self = Self(50);
    /// ByteOffsetNameComponent: a number, URI `off=`.
    pub const BYTE_OFFSET: Self = Self(52);
    /// VersionNameComponent: a number, URI `v=`.
    pub const VERSION: Self = Self(54);
    /// TimestampNameComponent: a number (microseconds since 1970), URI `t=`.
    pub const TIMESTAMP: Self = Self(56);
    /// SequenceNumNameComponent: a number, URI `seq=`.
    pub const SEQUENCE_NUM: Self = Self(58);

    /// Another type; `None` for 0.
    #[must_use]
    pub const fn new(ty: u16) -> Option<Self> {
        if ty == 0 { None } else { Some(Self(ty)) }
    }

    /// The TLV-TYPE.
    #[inline]
    #[must_use]
    pub const fn value(self) -> u16 {
        self.0
    }

    /// The TLV-TYPE as `u32`.
    #[inline]
    #[must_use]
    pub const fn tlv_type(self) -> u32 {
        self.0 as u32
    }

    /// Whether components of this type contain a SHA-256 digest.
    #[inline]
    #[must_use]
    pub const fn is_digest(self) -> bool {
        self.0 == 1 || self.0 == 2
    }

    /// The URI prefix of this type, e.g. `seg`.
    #[must_use]
    pub const fn number_prefix(self) -> Option<&'static str> {
        match self {
            Self::SEGMENT => Some("seg"),
            Self::BYTE_OFFSET => Some("off"),
            Self::VERSION => Some("v"),
            Self::TIMESTAMP => Some("t"),
            Self::SEQUENCE_NUM => Some("seq"),
            _ => None,
        }
    }
}

/// A name component: type and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Component<'a> {
    ty: ComponentType,
    value: &'a [u8],
}

impl<'a> Component<'a> {
    /// A component of any type. Other parsers reject digest components that do not have 32 bytes.
    #[inline]
    #[must_use]
    pub const fn new(ty: ComponentType, value: &'a [u8]) -> Self {
        Self { ty, value }
    }

    /// A generic component.
    #[inline]
    #[must_use]
    pub const fn generic(value: &'a [u8]) -> Self {
        Self { ty: ComponentType::GENERIC, value }
    }

    /// A keyword component.
    #[inline]
    #[must_use]
    pub const fn keyword(value: &'a [u8]) -> Self {
        Self { ty: ComponentType::KEYWORD, value }
    }

    /// A component with an encoded number.
    #[inline]
    #[must_use]
    pub fn number(ty: ComponentType, number: &'a Number) -> Self {
        Self { ty, value: number.as_bytes() }
    }

    /// Converts a component TLV.
    ///
    /// # Errors
    /// [`DecodeError::InvalidComponentType`], or [`DecodeError::InvalidLength`] for a digest that
    /// does not have 32 bytes.
    #[inline]
    pub fn from_tlv(tlv: &Tlv<'a>) -> Result<Self, DecodeError> {
        let ty = match u16::try_from(tlv.ty()) {
            Ok(ty) if ty != 0 => ComponentType(ty),
            Ok(_) | Err(_) => {
                return Err(DecodeError::InvalidComponentType {
                    ty: tlv.ty(),
                    offset: saturate(tlv.offset()),
                });
            }
        };
        if ty.is_digest() && tlv.value_len() != 32 {
            return Err(tlv.invalid_length());
        }
        Ok(Self { ty, value: tlv.value() })
    }

    /// The component's type.
    #[inline]
    #[must_use]
    pub const fn ty(&self) -> ComponentType {
        self.ty
    }

    /// The component's bytes.
    #[inline]
    #[must_use]
    pub const fn value(&self) -> &'a [u8] {
        self.value
    }

    /// Length of the component as a TLV.
    #[inline]
    #[must_use]
    pub const fn encoded_len(&self) -> usize {
        tlv_len(self.ty.tlv_type(), self.value.len())
    }

    /// The value as a number, whatever the component's type.
    #[inline]
    #[must_use]
    pub fn as_number(&self) -> Option<u64> {
        decode_number(self.value)
    }

    /// The number in a component of type `ty`.
    #[inline]
    #[must_use]
    pub fn number_of_type(&self, ty: ComponentType) -> Option<u64> {
        if self.ty == ty { self.as_number() } else { None }
    }

    /// The segment number of a SegmentNameComponent.
    #[inline]
    #[must_use]
    pub fn as_segment(&self) -> Option<u64> {
        self.number_of_type(ComponentType::SEGMENT)
    }

    /// The offset of a ByteOffsetNameComponent.
    #[inline]
    #[must_use]
    pub fn as_byte_offset(&self) -> Option<u64> {
        self.number_of_type(ComponentType::BYTE_OFFSET)
    }

    /// The version of a VersionNameComponent.
    #[inline]
    #[must_use]
    pub fn as_version(&self) -> Option<u64> {
        self.number_of_type(ComponentType::VERSION)
    }

    /// The time of a TimestampNameComponent, in microseconds since 1970.
    #[inline]
    #[must_use]
    pub fn as_timestamp(&self) -> Option<u64> {
        self.number_of_type(ComponentType::TIMESTAMP)
    }

    /// The number of a SequenceNumNameComponent.
    #[inline]
    #[must_use]
    pub fn as_sequence_num(&self) -> Option<u64> {
        self.number_of_type(ComponentType::SEQUENCE_NUM)
    }

    /// The digest, if this is an ImplicitSha256DigestComponent of 32 bytes.
    #[inline]
    #[must_use]
    pub fn implicit_digest(&self) -> Option<&'a [u8; 32]> {
        if self.ty == ComponentType::IMPLICIT_SHA256_DIGEST {
            self.value.try_into().ok()
        } else {
            None
        }
    }

    /// The digest, if this is a ParametersSha256DigestComponent of 32 bytes.
    #[inline]
    #[must_use]
    pub fn parameters_digest(&self) -> Option<&'a [u8; 32]> {
        if self.ty == ComponentType::PARAMETERS_SHA256_DIGEST {
            self.value.try_into().ok()
        } else {
            None
        }
    }

    /// Parses the URI form of one component into its type and value; `value` receives the bytes.
    ///
    /// # Errors
    /// See [`UriError`].
    pub fn parse_uri(text: &str, value: &mut Vec<u8>) -> Result<ComponentType, UriError> {
        parse_component(text, 0, value)
    }
}

/// Canonical order: by type, then by length, then byte by byte.
impl Ord for Component<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.ty, self.value.len(), self.value).cmp(&(other.ty, other.value.len(), other.value))
    }
}

impl PartialOrd for Component<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// URI form.
impl fmt::Display for Component<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_component(*self, f)
    }
}

const _: () = assert!(types::GENERIC_COMPONENT == ComponentType::GENERIC.tlv_type());

fn write_component(component: Component<'_>, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let digest_prefix = match component.ty() {
        ComponentType::IMPLICIT_SHA256_DIGEST => Some(IMPLICIT_DIGEST_PREFIX),
        ComponentType::PARAMETERS_SHA256_DIGEST => Some(PARAMETERS_DIGEST_PREFIX),
        _ => None,
    };
    if let Some(prefix) = digest_prefix {
        write!(out, "{prefix}=")?;
        return component.value().iter().try_for_each(|byte| write!(out, "{byte:02x}"));
    }
    if let (Some(prefix), Some(number)) = (component.ty().number_prefix(), component.as_number()) {
        // A number that is not in its shortest form would be parsed as another component.
        if Number::new(number).as_bytes() == component.value() {
            return write!(out, "{prefix}={number}");
        }
    }
    if component.ty() != ComponentType::GENERIC {
        write!(out, "{}=", component.ty().value())?;
    }
    write_escaped(component.value(), out)
}

fn write_escaped(value: &[u8], out: &mut fmt::Formatter<'_>) -> fmt::Result {
    if value.iter().all(|&byte| byte == b'.') {
        out.write_str("...")?;
    }
    for &byte in value {
        if is_unreserved(byte) {
            out.write_char(char::from(byte))?;
        } else {
            write!(out, "%{byte:02X}")?;
        }
    }
    Ok(())
}

/// The unreserved characters of RFC 3986.
const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Parses one component, which begins at `offset` of the text; `value` receives its bytes.
pub(super) fn parse_component(
    text: &str,
    offset: usize,
    value: &mut Vec<u8>,
) -> Result<ComponentType, UriError> {
    value.clear();
    let Some((prefix, rest)) = text.split_once('=') else {
        unescape(text, offset, offset, value)?;
        return Ok(ComponentType::GENERIC);
    };
    let digest_type = match prefix {
        IMPLICIT_DIGEST_PREFIX => Some(ComponentType::IMPLICIT_SHA256_DIGEST),
        PARAMETERS_DIGEST_PREFIX => Some(ComponentType::PARAMETERS_SHA256_DIGEST),
        _ => None,
    };
    if let Some(ty) = digest_type {
        parse_digest(rest, offset, value)?;
        return Ok(ty);
    }
    if let Some(ty) = NUMBER_TYPES.into_iter().find(|ty| ty.number_prefix() == Some(prefix)) {
        let number = parse_decimal(rest).ok_or(UriError::InvalidNumber { offset })?;
        value.extend_from_slice(Number::new(number).as_bytes());
        return Ok(ty);
    }
    let ty = parse_decimal(prefix)
        .and_then(|number| u16::try_from(number).ok())
        .and_then(ComponentType::new)
        .ok_or(UriError::InvalidType { offset })?;
    unescape(rest, offset + prefix.len() + 1, offset, value)?;
    if ty.is_digest() && value.len() != 32 {
        return Err(UriError::InvalidDigest { offset });
    }
    Ok(ty)
}

/// Digits only (no sign, no leading zeros), below 2^64.
fn parse_decimal(text: &str) -> Option<u64> {
    let plain =
        text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if plain { text.parse().ok() } else { None }
}

fn parse_digest(text: &str, offset: usize, value: &mut Vec<u8>) -> Result<(), UriError> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != 32 || !rest.is_empty() {
        return Err(UriError::InvalidDigest { offset });
    }
    for &[high, low] in pairs {
        value.push(hex_byte(high, low).ok_or(UriError::InvalidDigest { offset })?);
    }
    Ok(())
}

fn hex_byte(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(high)? << 4 | digit(low)?)
}

/// Decodes `%` escapes and the three extra periods of a component that is all periods.
///
/// `offset` is the start of `text`, `component` that of its component.
fn unescape(
    text: &str,
    offset: usize,
    component: usize,
    value: &mut Vec<u8>,
) -> Result<(), UriError> {
    let bytes = text.as_bytes();
    let mut pos = 0;
    while let Some(&byte) = bytes.get(pos) {
        if byte != b'%' {
            value.push(byte);
            pos += 1;
            continue;
        }
        let decoded = match bytes.get(pos + 1..pos + 3) {
            Some(&[high, low]) => hex_byte(high, low),
            Some(_) | None => None,
        };
        value.push(decoded.ok_or(UriError::InvalidEscape { offset: offset + pos })?);
        pos += 3;
    }
    if value.iter().all(|&byte| byte == b'.') {
        match value.len() {
            0 => return Err(UriError::EmptyComponent { offset: component }),
            1 | 2 => return Err(UriError::RelativeComponent { offset: component }),
            len => value.truncate(len - 3),
        }
    }
    Ok(())
}
