//! Reading and writing the blocks of the management protocol, on top of [`ndn_packet::tlv`].

use ndn_packet::tlv::{self, Reader, Tlv};
use ndn_packet::{DecodeError, Name, NameRef, types};

/// Reads fields that come in a fixed order. Elements between two of them are passed over if they
/// are not critical, so that later versions of a block stay readable.
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
        match self.optional(ty)? {
            Some(tlv) => Ok(tlv),
            None => Err(match self.reader.next_tlv()? {
                Some(other) => other.unexpected(ty),
                None => DecodeError::Missing { ty, offset: offset(&self.reader) },
            }),
        }
    }

    /// The next field if it has type `ty`; otherwise nothing is consumed.
    pub(crate) fn optional(&mut self, ty: u32) -> Result<Option<Tlv<'a>>, DecodeError> {
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

    pub(crate) fn number(&mut self, ty: u32) -> Result<u64, DecodeError> {
        self.required(ty)?.number()
    }

    pub(crate) fn optional_number(&mut self, ty: u32) -> Result<Option<u64>, DecodeError> {
        self.optional(ty)?.map(|tlv| tlv.number()).transpose()
    }

    pub(crate) fn text(&mut self, ty: u32) -> Result<String, DecodeError> {
        self.required(ty)?.text().map(str::to_owned)
    }

    /// An arbitrary text: invalid UTF-8 in it is replaced.
    pub(crate) fn optional_lossy_text(&mut self, ty: u32) -> Result<Option<String>, DecodeError> {
        Ok(self.optional(ty)?.map(lossy_text_of))
    }

    pub(crate) fn name(&mut self) -> Result<Name, DecodeError> {
        name_of(self.required(types::NAME)?)
    }

    /// A number that stands for one of a few values.
    pub(crate) fn variant<T>(
        &mut self,
        ty: u32,
        from_number: fn(u64) -> Option<T>,
    ) -> Result<T, DecodeError> {
        let tlv = self.required(ty)?;
        variant_of(tlv, from_number)
    }
}

fn offset(reader: &Reader<'_>) -> u32 {
    u32::try_from(reader.offset()).unwrap_or(u32::MAX)
}

fn variant_of<T>(tlv: Tlv<'_>, from_number: fn(u64) -> Option<T>) -> Result<T, DecodeError> {
    from_number(tlv.number()?).ok_or_else(|| tlv.invalid_value())
}

/// The text of an element, in which invalid UTF-8 is replaced.
pub(crate) fn lossy_text_of(tlv: Tlv<'_>) -> String {
    String::from_utf8_lossy(tlv.value()).into_owned()
}

/// The name that a Name element holds.
pub(crate) fn name_of(tlv: Tlv<'_>) -> Result<Name, DecodeError> {
    NameRef::from_value(tlv.value()).map(|name| name.to_name())
}

/// The name inside an element that holds one Name (`Strategy`).
pub(crate) fn wrapped_name_of(tlv: Tlv<'_>) -> Result<Name, DecodeError> {
    name_of(tlv.reader().read_expected(types::NAME)?)
}

pub(crate) fn append_optional_number(out: &mut Vec<u8>, ty: u32, value: Option<u64>) {
    if let Some(value) = value {
        tlv::append_number(out, ty, value);
    }
}

pub(crate) fn append_text(out: &mut Vec<u8>, ty: u32, value: &str) {
    tlv::append_tlv(out, ty, value.as_bytes());
}

pub(crate) fn append_optional_text(out: &mut Vec<u8>, ty: u32, value: Option<&str>) {
    if let Some(value) = value {
        append_text(out, ty, value);
    }
}

/// A block that holds one Name (`Strategy`).
pub(crate) fn append_wrapped_name(out: &mut Vec<u8>, ty: u32, name: NameRef<'_>) {
    tlv::append_nested(out, ty, |out| tlv::append_name(out, name));
}
