//! Reading and writing the blocks of the management protocol, on top of [`ndn_packet::tlv`].
//!
//! A block is declared as a structure whose fields have TLV-TYPEs
//! ([`dataset!`](crate::dataset::declare::dataset)); [`WireField`] gives each type of fields its elements.

use ndn_packet::tlv::{self, Reader, Tlv};
use ndn_packet::{DecodeError, Name, NameRef, types};
use ndn_types::{LinkType, Persistency, Scope};

use crate::types::FaceEventKind;

/// A block of a dataset or notification.
pub trait DatasetItem: Sized {
    /// TLV-TYPE of the block.
    const TYPE: u32;

    /// Appends the block, type and length included.
    fn encode(&self, out: &mut Vec<u8>);

    /// Reads the value of a block of the right type.
    ///
    /// # Errors
    /// If a required field is absent or out of order, or a value is malformed.
    fn decode_fields(block: Tlv<'_>) -> Result<Self, DecodeError>;

    /// The block on the wire.
    #[must_use]
    fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }

    /// Reads one block that fills `wire`.
    ///
    /// # Errors
    /// As [`DatasetItem::decode_fields`]; also if `wire` holds something else.
    fn decode(wire: &[u8]) -> Result<Self, DecodeError> {
        Self::decode_fields(Reader::new(wire).read_only(Self::TYPE)?)
    }
}

/// Decodes a dataset whose segments are reassembled.
///
/// # Errors
/// If a block is malformed or of another type.
pub fn decode_dataset<T: DatasetItem>(content: &[u8]) -> Result<Vec<T>, DecodeError> {
    let mut items = Vec::new();
    read_items(Reader::new(content), &mut items)?;
    Ok(items)
}

/// TLV-TYPE of a field that is a [`Structure`], whose elements stand in the place of the field.
pub(crate) const PART: u32 = 0;

/// A type of fields that have the TLV-TYPE `TY`.
pub(crate) trait WireField<const TY: u32>: Sized {
    /// The elements of the field.
    const ORDER: ElementOrder = ElementOrder::NONE.with(TY);

    /// Appends the element of type `ty`, if the field has it.
    fn append(&self, ty: u32, out: &mut Vec<u8>);

    /// The value of the field.
    fn read(elements: &Elements<'_, '_>) -> Result<Self, DecodeError>;
}

/// A declared structure on the wire.
pub(crate) trait Structure: WireField<PART> {
    /// The elements that were found.
    type Found<'a>: Default + AsMut<[Option<Tlv<'a>>]>;

    /// Appends the elements in their order.
    fn append_elements(&self, out: &mut Vec<u8>) {
        Self::ORDER.types().iter().for_each(|ty| self.append(*ty, out));
    }

    /// Appends a block of the elements.
    fn append_block(&self, ty: u32, out: &mut Vec<u8>) {
        tlv::append_nested(out, ty, |out| self.append_elements(out));
    }

    /// Reads elements that come in their order. Elements between two of them are skipped if they are not critical, so that
    /// later versions of a block stay readable.
    ///
    /// # Errors
    /// An element is absent or malformed.
    fn read_in_order(reader: Reader<'_>) -> Result<Self, DecodeError> {
        let mut fields = OrderedFields::new(reader);
        let mut found = Self::Found::default();
        for (slot, ty) in found.as_mut().iter_mut().zip(Self::ORDER.types()) {
            *slot = fields.optional(*ty)?;
        }
        Self::of(found, fields.reader)
    }

    /// Reads elements in any order: the first of each type counts, and others are skipped.
    ///
    /// # Errors
    /// An element is absent or malformed.
    fn read_in_any_order(mut reader: Reader<'_>) -> Result<Self, DecodeError> {
        let mut found = Self::Found::default();
        while let Some(tlv) = reader.next_tlv()? {
            if let Some(position) = Self::ORDER.position(tlv.ty()) {
                found.as_mut()[position].get_or_insert(tlv);
            }
        }
        Self::of(found, reader)
    }

    /// The structure of its elements, and what follows the last one.
    fn of<'a>(mut found: Self::Found<'a>, rest: Reader<'a>) -> Result<Self, DecodeError> {
        Self::read(&Elements { order: const { &Self::ORDER }, found: found.as_mut(), rest })
    }
}

/// Maximum number of elements of a block.
const ELEMENTS_MAX: usize = 24;

/// The TLV-TYPEs of a block in their order, which is that of the declared fields. The elements of a part do not have to
/// stand together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ElementOrder {
    types: [u32; ELEMENTS_MAX],
    len: usize,
    /// Where the next element goes.
    next: usize,
}

impl ElementOrder {
    pub(crate) const NONE: Self = Self { types: [0; ELEMENTS_MAX], len: 0, next: 0 };

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn types(&self) -> &[u32] {
        &self.types[..self.len]
    }

    const fn position(&self, ty: u32) -> Option<usize> {
        let mut at = 0;
        while at < self.len {
            if self.types[at] == ty {
                return Some(at);
            }
            at += 1;
        }
        None
    }

    /// Adds further elements behind that of type `ty`.
    pub(crate) const fn after(mut self, ty: u32) -> Self {
        let Some(position) = self.position(ty) else { panic!("`after` names no element before") };
        self.next = position + 1;
        self
    }

    /// Adds an element.
    pub(crate) const fn with(mut self, ty: u32) -> Self {
        assert!(ty != PART, "a field has no TLV-TYPE");
        assert!(self.position(ty).is_none(), "two fields have the same TLV-TYPE");
        let mut at = self.len;
        while at > self.next {
            self.types[at] = self.types[at - 1];
            at -= 1;
        }
        self.types[at] = ty;
        self.len += 1;
        self.next += 1;
        self
    }

    /// Adds the elements of a field.
    pub(crate) const fn with_all(mut self, field: &Self) -> Self {
        let mut at = 0;
        while at < field.len {
            self = self.with(field.types[at]);
            at += 1;
        }
        self
    }
}

/// The elements of a block that is being decoded.
#[derive(Debug)]
pub(crate) struct Elements<'f, 'a> {
    order: &'static ElementOrder,
    /// In the order of `order`.
    found: &'f [Option<Tlv<'a>>],
    /// The bytes behind the last of them.
    rest: Reader<'a>,
}

impl<'a> Elements<'_, 'a> {
    #[inline]
    fn optional(&self, ty: u32) -> Option<Tlv<'a>> {
        self.found[self.order.position(ty)?]
    }

    #[inline]
    fn required(&self, ty: u32) -> Result<Tlv<'a>, DecodeError> {
        self.optional(ty).ok_or_else(|| missing(ty, &self.rest))
    }
}

impl<const TY: u32> WireField<TY> for u64 {
    #[inline]
    fn append(&self, ty: u32, out: &mut Vec<u8>) {
        if ty == TY {
            tlv::append_number(out, TY, *self);
        }
    }

    #[inline]
    fn read(elements: &Elements<'_, '_>) -> Result<Self, DecodeError> {
        elements.required(TY)?.number()
    }
}

impl<const TY: u32> WireField<TY> for Option<u64> {
    fn append(&self, ty: u32, out: &mut Vec<u8>) {
        if let Some(number) = self {
            WireField::<TY>::append(number, ty, out);
        }
    }

    fn read(elements: &Elements<'_, '_>) -> Result<Self, DecodeError> {
        elements.optional(TY).map(|tlv| tlv.number()).transpose()
    }
}

impl<const TY: u32> WireField<TY> for String {
    fn append(&self, ty: u32, out: &mut Vec<u8>) {
        if ty == TY {
            append_text(out, TY, self);
        }
    }

    fn read(elements: &Elements<'_, '_>) -> Result<Self, DecodeError> {
        elements.required(TY)?.text().map(str::to_owned)
    }
}

/// An argument of a command or a query: invalid UTF-8 in it is replaced, because the answer reports what is wrong.
impl<const TY: u32> WireField<TY> for Option<String> {
    fn append(&self, ty: u32, out: &mut Vec<u8>) {
        if let Some(text) = self {
            WireField::<TY>::append(text, ty, out);
        }
    }

    fn read(elements: &Elements<'_, '_>) -> Result<Self, DecodeError> {
        Ok(elements.optional(TY).map(lossy_text_of))
    }
}

/// A Name element, or an element that holds one (`Strategy`).
impl<const TY: u32> WireField<TY> for Name {
    fn append(&self, ty: u32, out: &mut Vec<u8>) {
        if ty != TY {
            return;
        }
        if TY == types::NAME {
            tlv::append_name(out, self.as_ref());
        } else {
            tlv::append_nested(out, TY, |out| tlv::append_name(out, self.as_ref()));
        }
    }

    fn read(elements: &Elements<'_, '_>) -> Result<Self, DecodeError> {
        name_of(elements.required(TY)?)
    }
}

impl<const TY: u32> WireField<TY> for Option<Name> {
    fn append(&self, ty: u32, out: &mut Vec<u8>) {
        if let Some(name) = self {
            WireField::<TY>::append(name, ty, out);
        }
    }

    fn read(elements: &Elements<'_, '_>) -> Result<Self, DecodeError> {
        elements.optional(TY).map(name_of).transpose()
    }
}

/// Blocks, which end the block around them.
impl<const TY: u32, T: DatasetItem> WireField<TY> for Vec<T> {
    fn append(&self, ty: u32, out: &mut Vec<u8>) {
        const { assert!(T::TYPE == TY, "the items have another TLV-TYPE") };
        if ty == TY {
            self.iter().for_each(|item| item.encode(out));
        }
    }

    fn read(elements: &Elements<'_, '_>) -> Result<Self, DecodeError> {
        let mut items = Vec::new();
        if let Some(first) = elements.optional(TY) {
            items.push(T::decode_fields(first)?);
        }
        read_items(elements.rest, &mut items)?;
        Ok(items)
    }
}

/// Reads blocks up to the end. Other elements are skipped if they are not critical.
///
/// # Errors
/// A block is malformed, or an element between them is critical.
pub(crate) fn read_items<T: DatasetItem>(
    mut reader: Reader<'_>,
    items: &mut Vec<T>,
) -> Result<(), DecodeError> {
    while let Some(tlv) = reader.next_tlv()? {
        if tlv.ty() == T::TYPE {
            items.push(T::decode_fields(tlv)?);
        } else {
            tlv.skip_unrecognized()?;
        }
    }
    Ok(())
}

macro_rules! enumerations {
    ($($Type:ty),+) => {$(
        impl<const TY: u32> WireField<TY> for $Type {
            fn append(&self, ty: u32, out: &mut Vec<u8>) {
                WireField::<TY>::append(&self.number(), ty, out);
            }

            fn read(elements: &Elements<'_, '_>) -> Result<Self, DecodeError> {
                let tlv = elements.required(TY)?;
                Self::from_number(tlv.number()?).ok_or_else(|| tlv.invalid_value())
            }
        }
    )+};
}

enumerations!(Scope, Persistency, LinkType, FaceEventKind);

/// Reads fields that come in a fixed order.
#[derive(Debug, Clone)]
pub(crate) struct OrderedFields<'a> {
    reader: Reader<'a>,
}

impl<'a> OrderedFields<'a> {
    pub(crate) const fn new(reader: Reader<'a>) -> Self {
        Self { reader }
    }

    /// The next field, which must have type `ty`.
    pub(crate) fn required(&mut self, ty: u32) -> Result<Tlv<'a>, DecodeError> {
        self.optional(ty)?.ok_or_else(|| missing(ty, &self.reader))
    }

    /// The next field if it has type `ty`; otherwise nothing is consumed.
    fn optional(&mut self, ty: u32) -> Result<Option<Tlv<'a>>, DecodeError> {
        let mut ahead = self.reader;
        while let Some(tlv) = ahead.next_tlv()? {
            if tlv.ty() == ty {
                self.reader = ahead;
                return Ok(Some(tlv));
            }
            if types::is_critical(tlv.ty()) {
                break;
            }
        }
        Ok(None)
    }

    /// The next element, whatever it is.
    pub(crate) fn next_tlv(&mut self) -> Result<Option<Tlv<'a>>, DecodeError> {
        self.reader.next_tlv()
    }
}

/// The error for an absent element of type `ty`, or one behind a critical element that is not expected.
fn missing(ty: u32, rest: &Reader<'_>) -> DecodeError {
    match rest.clone().next_tlv() {
        Ok(Some(other)) => other.unexpected(ty),
        Ok(None) | Err(_) => {
            let offset = u32::try_from(rest.offset()).unwrap_or(u32::MAX);
            DecodeError::Missing { ty, offset }
        }
    }
}

/// The text of an element, in which invalid UTF-8 is replaced.
fn lossy_text_of(tlv: Tlv<'_>) -> String {
    String::from_utf8_lossy(tlv.value()).into_owned()
}

/// The name that a Name element holds, or the Name element in another one.
fn name_of(tlv: Tlv<'_>) -> Result<Name, DecodeError> {
    let tlv =
        if tlv.ty() == types::NAME { tlv } else { tlv.reader().read_expected(types::NAME)? };
    NameRef::from_value(tlv.value()).map(|name| name.to_name())
}

pub(crate) fn append_text(out: &mut Vec<u8>, ty: u32, value: &str) {
    tlv::append_tlv(out, ty, value.as_bytes());
}
