//! One name component.

use crate::error::{DecodeError, UriError, saturate};
use crate::name::uri;
use crate::tlv::{Number, Tlv, decode_number, tlv_len};
use crate::types;
use core::cmp::Ordering;
use core::fmt;

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

    /// Any other type; `None` for 0.
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

    /// The TLV-TYPE as other TLV functions take it.
    #[inline]
    #[must_use]
    pub const fn tlv_type(self) -> u32 {
        self.0 as u32
    }

    /// Whether components of this type hold a SHA-256 digest.
    #[inline]
    #[must_use]
    pub const fn is_digest(self) -> bool {
        self.0 == 1 || self.0 == 2
    }

    /// What stands before `=` in the URI form of a number of this type, e.g. `seg`.
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

/// A name component: its type and its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Component<'a> {
    ty: ComponentType,
    value: &'a [u8],
}

impl<'a> Component<'a> {
    /// A component of any type. Digest components must have 32 bytes to be accepted by others.
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

    /// A component that holds a number encoded beforehand.
    #[inline]
    #[must_use]
    pub fn number(ty: ComponentType, number: &'a Number) -> Self {
        Self { ty, value: number.as_bytes() }
    }

    /// Reads a component from its TLV.
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

    /// The number in the component, whatever its type.
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

    /// Reads the URI form of one component into type and bytes; `value` receives the bytes.
    ///
    /// # Errors
    /// See [`UriError`].
    pub fn parse_uri(text: &str, value: &mut Vec<u8>) -> Result<ComponentType, UriError> {
        uri::parse_component(text, 0, value)
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
        uri::write_component(*self, f)
    }
}

const _: () = assert!(types::GENERIC_COMPONENT == ComponentType::GENERIC.tlv_type());
