//! Data parser and view.

use crate::error::{DecodeError, saturate};
use crate::name::{Component, NameRef, NameScan, NameScanner};
use crate::signature::SignatureInfo;
use crate::span::{Span, check_size};
use crate::tlv::fast_reader::{self, short_header};
use crate::tlv::{FastReader, Reader, Tlv};
use crate::types;
use core::fmt;
use core::ops::Range;

/// ContentType: the meaning of the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentType(pub u64);

impl ContentType {
    /// Payload; the meaning of an absent ContentType.
    pub const BLOB: Self = Self(0);
    /// Delegations.
    pub const LINK: Self = Self(1);
    /// Certificate.
    pub const KEY: Self = Self(2);
    /// Application-level Nack.
    pub const NACK: Self = Self(3);
    /// Manifest.
    pub const MANIFEST: Self = Self(4);
    /// Prefix announcement.
    pub const PREFIX_ANNOUNCEMENT: Self = Self(5);
    /// File-like collection.
    pub const FLIC: Self = Self(1024);
}

impl fmt::Display for ContentType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::BLOB => "Blob",
            Self::LINK => "Link",
            Self::KEY => "Key",
            Self::NACK => "Nack",
            Self::MANIFEST => "Manifest",
            Self::PREFIX_ANNOUNCEMENT => "PrefixAnn",
            Self::FLIC => "FLIC",
            Self(other) => return write!(f, "ContentType {other}"),
        })
    }
}

/// A Data packet: a borrowed, validated view. Offsets count from the packet's first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data<'a> {
    wire: &'a [u8],
    content_type: u64,
    freshness_ms: Option<u64>,
    name: Span,
    /// The component TLV in FinalBlockId.
    final_block_id: Span,
    content: Span,
    signature_info: Span,
    signature_value: Span,
    /// From the Name TLV up to the SignatureValue TLV.
    signed_portion: Span,
    name_count: u16,
    name_ends_in_implicit_digest: bool,
}

/// The elements of a Data in the common form: those that the specification knows, in its order.
#[derive(Clone, Debug)]
pub struct CommonData {
    /// Range of the name's value in the packet.
    pub name: Range<usize>,
    /// FreshnessPeriod in milliseconds.
    pub freshness_ms: Option<u64>,
    content_type: Option<u64>,
    final_block_id: Span,
    content: Span,
    signature_info: Span,
    signature_value: Span,
}

impl CommonData {
    /// Reads a Data that fills `wire`, if it has the common form.
    ///
    /// The name is not validated; the caller must do so.
    #[doc(hidden)]
    #[inline(always)]
    #[must_use]
    pub fn read(wire: &[u8]) -> Option<Self> {
        let name = fast_reader::common_name::<{ types::DATA }>(wire)?;
        Self::elements(wire, name)
    }

    /// Reads the elements after the name.
    #[inline(always)]
    fn elements(wire: &[u8], name: Range<usize>) -> Option<Self> {
        let mut reader = FastReader::new(wire, name.end);
        let mut meta = CommonMetaInfo::NONE;
        match reader.rest() {
            &[a, b, c, d, high, low, ..] if [a, b, c, d] == FRESHNESS_ONLY => {
                meta.freshness_ms = Some(u16::from_be_bytes([high, low]).into());
                reader = FastReader::new(wire, name.end + 6);
            }
            _ => {
                if let Some(meta_info) = reader.take(types::META_INFO) {
                    meta = CommonMetaInfo::read(reader.inside(meta_info)?)?;
                }
            }
        }
        let content = reader.take(types::CONTENT).unwrap_or(Span::NONE);
        let signature_info = reader.take(types::SIGNATURE_INFO)?;
        let signature_value = reader.take(types::SIGNATURE_VALUE)?;
        reader.is_empty().then_some(Self {
            name,
            freshness_ms: meta.freshness_ms,
            content_type: meta.content_type,
            final_block_id: meta.final_block_id,
            content,
            signature_info,
            signature_value,
        })
    }
}

/// The fields of a Data as most have it: a short name, a MetaInfo with nothing but a FreshnessPeriod of two bytes, a Content
/// and a signature.
#[derive(Clone, Debug)]
#[doc(hidden)]
pub struct PlainData {
    /// Range of the name's value in the packet.
    pub name: Range<usize>,
    /// FreshnessPeriod in milliseconds.
    pub freshness_ms: u16,
}

impl PlainData {
    /// Reads a Data that is the first `length` bytes of `front`, if it has that form. Bytes behind it may be read, too.
    ///
    /// The name is not validated; the caller must do so.
    #[inline(always)]
    #[must_use]
    pub fn read(front: &[u8], length: usize) -> Option<Self> {
        const SHORT: usize = (types::DATA << 8) as usize;
        const LONG: usize = (types::DATA << 24 | 253 << 16) as usize;
        const NAME: u16 = u16::from_be_bytes(short_header(types::NAME, 0));
        let &[a, b, c, d, e, f] = front.first_chunk()?;
        let start = u32::from_be_bytes([a, b, c, d]) as usize;
        let (name_start, header) = match length {
            257..=0xFFFF if start == LONG + (length - 4) => (6, u16::from_be_bytes([e, f])),
            2..=254 if start >> 16 == SHORT + (length - 2) => (4, u16::from_be_bytes([c, d])),
            _ => return None,
        };
        // Of another element, it is larger.
        let name_length = header.wrapping_sub(NAME);
        if name_length > 252 {
            return None;
        }
        let name_end = name_start + usize::from(name_length);
        let &[a, b, c, d, high, low] = front.get(name_end..name_end + 6)?.first_chunk()?;
        if [a, b, c, d] != FRESHNESS_ONLY {
            return None;
        }
        // Each element begins behind the one before it, so if the last ends with the packet, all lie within.
        let end = fast_reader::element_end::<{ types::CONTENT }>(front, name_end + 6)?;
        let end = fast_reader::element_end::<{ types::SIGNATURE_INFO }>(front, end)?;
        let end = fast_reader::element_end::<{ types::SIGNATURE_VALUE }>(front, end)?;
        let freshness_ms = u16::from_be_bytes([high, low]);
        (end == length).then_some(Self { name: name_start..name_end, freshness_ms })
    }
}

/// A MetaInfo with nothing but a FreshnessPeriod of two bytes, without these.
const FRESHNESS_ONLY: [u8; 4] = {
    let [meta_info, length] = short_header(types::META_INFO, 4);
    let [freshness, freshness_length] = short_header(types::FRESHNESS_PERIOD, 2);
    [meta_info, length, freshness, freshness_length]
};

/// The elements of a MetaInfo in the common form.
struct CommonMetaInfo {
    content_type: Option<u64>,
    freshness_ms: Option<u64>,
    final_block_id: Span,
}

impl CommonMetaInfo {
    const NONE: Self = Self { content_type: None, freshness_ms: None, final_block_id: Span::NONE };

    // A call: without it, the caller saves registers for every Data.
    #[inline(never)]
    fn read(mut inside: FastReader<'_>) -> Option<Self> {
        let mut meta = Self::NONE;
        if let Some(value) = inside.take(types::CONTENT_TYPE) {
            meta.content_type = Some(inside.number(value)?);
        }
        if let Some(value) = inside.take(types::FRESHNESS_PERIOD) {
            meta.freshness_ms = Some(inside.number(value)?);
        }
        if let Some(value) = inside.take(types::FINAL_BLOCK_ID) {
            meta.final_block_id = one_component(inside.inside(value)?)?;
        }
        inside.is_empty().then_some(meta)
    }
}

/// Offsets of all elements of a parsed Data. With the same bytes it restores the Data, for callers
/// that keep a packet and avoid parsing it again.
#[derive(Clone, Copy, Debug)]
pub struct DataLayout(Data<'static>);

impl DataLayout {
    /// Restores the parsed Data. `wire` must hold the same bytes, at any address; with other bytes
    /// the result is unspecified.
    #[inline]
    #[must_use]
    pub const fn data<'a>(&self, wire: &'a [u8]) -> Data<'a> {
        let Self(parsed) = *self;
        Data { wire, ..parsed }
    }
}

/// Order of the elements in a Data.
mod rank {
    pub(super) const NAME: u8 = 1;
    pub(super) const META_INFO: u8 = 2;
    pub(super) const CONTENT: u8 = 3;
    pub(super) const SIGNATURE_INFO: u8 = 4;
    pub(super) const SIGNATURE_VALUE: u8 = 5;
}

impl<'a> Data<'a> {
    /// Parses a Data that fills `wire`.
    ///
    /// SignatureInfo must be present but is not parsed; see [`Data::signature_info`].
    ///
    /// # Errors
    /// When the bytes are not exactly one valid Data.
    #[inline]
    pub fn parse(wire: &'a [u8]) -> Result<Self, DecodeError> {
        Self::parse_with(wire, |_| ())
    }

    /// Parses a Data as [`Data::parse`] does, and lets `visit` iterate over the components of the
    /// name while they are validated. What it sees may belong to a packet that turns out invalid.
    ///
    /// # Errors
    /// As [`Data::parse`].
    #[inline]
    pub fn parse_with(
        wire: &'a [u8],
        visit: impl FnOnce(&mut NameScanner<'a>),
    ) -> Result<Self, DecodeError> {
        check_size(wire)?;
        let name_offset = fast_reader::outer::<{ types::DATA }>(wire)?;
        let (name_start, name_end) = fast_reader::name(wire, name_offset)?;
        let mut scanner = NameScanner::within(wire, name_start..name_end);
        visit(&mut scanner);
        let scan = scanner.finish()?;
        match Self::with_name(wire, name_offset, name_start..name_end, scan).common_order_elements()
        {
            Some(data) => Ok(data),
            None => match Self::any_order_elements(wire, name_offset) {
                Ok(data) => Ok(data),
                Err(error) => Err(error),
            },
        }
    }

    /// Parses as [`Data::parse`] does, but without the code for the common form, which tests
    /// compare with this.
    ///
    /// # Errors
    /// As [`Data::parse`].
    #[doc(hidden)]
    pub fn parse_general(wire: &'a [u8]) -> Result<Self, DecodeError> {
        check_size(wire)?;
        let name_offset = Reader::new(wire).read_only(types::DATA)?.value_offset();
        Self::any_order_elements(wire, name_offset)
    }

    /// The view of a packet without elements after the name.
    #[inline(always)]
    fn with_name(wire: &'a [u8], name_offset: usize, name: Range<usize>, scan: NameScan) -> Self {
        Self {
            wire,
            content_type: ContentType::BLOB.0,
            freshness_ms: None,
            name: Span::new(name.start, name.end),
            final_block_id: Span::NONE,
            content: Span::NONE,
            signature_info: Span::NONE,
            signature_value: Span::NONE,
            signed_portion: Span::new(name_offset, 0),
            name_count: scan.component_count,
            name_ends_in_implicit_digest: scan.ends_in_implicit_digest,
        }
    }

    /// Parses the elements after the name, if they are in the common order.
    #[inline(always)]
    fn common_order_elements(mut self) -> Option<Self> {
        let common = CommonData::elements(self.wire, self.name.range())?;
        self.content_type = common.content_type.unwrap_or(ContentType::BLOB.0);
        self.freshness_ms = common.freshness_ms;
        self.final_block_id = common.final_block_id;
        self.content = common.content;
        self.signature_info = common.signature_info;
        self.signed_portion.end = common.signature_info.end;
        self.signature_value = common.signature_value;
        Some(self)
    }

    /// Parses the elements after the name in any valid order, with errors.
    #[inline(never)]
    fn any_order_elements(wire: &'a [u8], name_offset: usize) -> Result<Self, DecodeError> {
        let mut reader = Reader::at(wire, name_offset);
        let name = reader.read_expected(types::NAME)?;
        let scan = NameScanner::of_tlv(&name).finish()?;
        let name = name.value_offset()..name.end();
        let mut parsed = Self::with_name(wire, name_offset, name, scan);
        let mut last = rank::NAME;
        while let Some(tlv) = reader.next_tlv()? {
            parsed.element(&tlv, &mut last)?;
        }
        let missing = |ty| Err(DecodeError::Missing { ty, offset: saturate(wire.len()) });
        if !parsed.signature_info.is_some() {
            return missing(types::SIGNATURE_INFO);
        }
        if !parsed.signature_value.is_some() {
            return missing(types::SIGNATURE_VALUE);
        }
        Ok(parsed)
    }

    /// Handles one element after the name.
    fn element(&mut self, tlv: &Tlv<'a>, last: &mut u8) -> Result<(), DecodeError> {
        let rank = match tlv.ty() {
            types::META_INFO => rank::META_INFO,
            types::CONTENT => rank::CONTENT,
            types::SIGNATURE_INFO => rank::SIGNATURE_INFO,
            types::SIGNATURE_VALUE => rank::SIGNATURE_VALUE,
            types::NAME => return Err(tlv.out_of_order()),
            _ => return tlv.skip_unrecognized(),
        };
        if rank <= *last {
            return Err(tlv.out_of_order());
        }
        *last = rank;
        let span = Span::new(tlv.value_offset(), tlv.end());
        match rank {
            rank::META_INFO => self.meta_info(tlv)?,
            rank::CONTENT => self.content = span,
            rank::SIGNATURE_INFO => self.signature_info = span,
            _ => {
                self.signature_value = span;
                self.signed_portion.end = Span::new(0, tlv.offset()).end;
            }
        }
        Ok(())
    }

    fn meta_info(&mut self, meta_info: &Tlv<'a>) -> Result<(), DecodeError> {
        let mut reader = meta_info.reader();
        let mut last = 0;
        while let Some(tlv) = reader.next_tlv()? {
            self.meta_info_element(&tlv, &mut last)?;
        }
        Ok(())
    }

    fn meta_info_element(&mut self, tlv: &Tlv<'a>, last: &mut u32) -> Result<(), DecodeError> {
        match tlv.ty() {
            types::CONTENT_TYPE | types::FRESHNESS_PERIOD | types::FINAL_BLOCK_ID => {
                // Their types ascend.
                if tlv.ty() <= *last {
                    return Err(tlv.out_of_order());
                }
                *last = tlv.ty();
                match tlv.ty() {
                    types::CONTENT_TYPE => self.content_type = tlv.number()?,
                    types::FRESHNESS_PERIOD => self.freshness_ms = Some(tlv.number()?),
                    _ => self.final_block_id = final_block_id(tlv)?,
                }
                Ok(())
            }
            // Reserved for applications, whether the type is odd or even.
            types::APPLICATION_META_INFO_MIN..=types::APPLICATION_META_INFO_MAX => Ok(()),
            _ => tlv.skip_unrecognized(),
        }
    }

    /// Offsets of all elements.
    #[inline]
    #[must_use]
    pub const fn layout(&self) -> DataLayout {
        DataLayout(Data { wire: &[], ..*self })
    }

    /// The whole packet.
    #[inline]
    #[must_use]
    pub const fn wire(&self) -> &'a [u8] {
        self.wire
    }

    /// The name.
    #[inline]
    #[must_use]
    pub fn name(&self) -> NameRef<'a> {
        NameRef::from_validated(
            self.wire.get(self.name.range()).unwrap_or_default(),
            self.name_count,
        )
    }

    /// Range of the name's value in the packet; with the component count it restores the name
    /// through [`NameRef::from_validated`].
    #[inline]
    #[must_use]
    pub const fn name_value_range(&self) -> Range<usize> {
        self.name.range()
    }

    /// Whether the name ends in an ImplicitSha256DigestComponent.
    #[inline]
    #[must_use]
    pub const fn name_ends_in_implicit_digest(&self) -> bool {
        self.name_ends_in_implicit_digest
    }

    /// ContentType, [`ContentType::BLOB`] if absent.
    #[inline]
    #[must_use]
    pub const fn content_type(&self) -> ContentType {
        ContentType(self.content_type)
    }

    /// FreshnessPeriod in milliseconds.
    #[inline]
    #[must_use]
    pub const fn freshness_ms(&self) -> Option<u64> {
        self.freshness_ms
    }

    /// FinalBlockId.
    #[inline]
    #[must_use]
    pub fn final_block_id(&self) -> Option<Component<'a>> {
        let wire = self.final_block_id.slice(self.wire)?;
        Component::from_tlv(&Reader::new(wire).read().ok()?).ok()
    }

    /// Content; `None` if the element is absent.
    #[inline]
    #[must_use]
    pub fn content(&self) -> Option<&'a [u8]> {
        self.content.slice(self.wire)
    }

    /// Range of the value of Content in the packet.
    #[inline]
    #[must_use]
    pub const fn content_range(&self) -> Option<Range<usize>> {
        if self.content.is_some() { Some(self.content.range()) } else { None }
    }

    /// SignatureInfo.
    ///
    /// # Errors
    /// When its content is invalid.
    pub fn signature_info(&self) -> Result<SignatureInfo<'a>, DecodeError> {
        SignatureInfo::from_reader(
            self.signature_info.reader(self.wire).unwrap_or(Reader::new(&[])),
        )
    }

    /// The value of SignatureValue.
    #[inline]
    #[must_use]
    pub fn signature_value(&self) -> &'a [u8] {
        self.signature_value.slice(self.wire).unwrap_or_default()
    }

    /// The signed portion: from Name to SignatureInfo.
    #[inline]
    #[must_use]
    pub fn signed_portion(&self) -> &'a [u8] {
        self.signed_portion.slice(self.wire).unwrap_or_default()
    }

    /// The implicit digest: the SHA-256 of the whole packet.
    pub fn implicit_digest(&self, sha256: impl FnOnce(&[u8]) -> [u8; 32]) -> [u8; 32] {
        sha256(self.wire)
    }
}

/// The only component in FinalBlockId, if it is valid.
#[inline(never)]
fn one_component(inside: FastReader<'_>) -> Option<Span> {
    let mut reader = inside.reader();
    let component = reader.read().ok()?;
    Component::from_tlv(&component).ok()?;
    reader.is_empty().then(|| Span::new(component.offset(), component.end()))
}

/// The component in FinalBlockId.
fn final_block_id(tlv: &Tlv<'_>) -> Result<Span, DecodeError> {
    let mut reader = tlv.reader();
    if reader.is_empty() {
        return Err(tlv.invalid_length());
    }
    let component = reader.read()?;
    Component::from_tlv(&component)?;
    reader.finish()?;
    Ok(Span::new(component.offset(), component.end()))
}
