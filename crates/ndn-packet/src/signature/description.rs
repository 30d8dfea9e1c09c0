//! AdditionalDescription of certificates.

use crate::error::DecodeError;
use crate::tlv::{Field, Fields, Reader, Tlv, append_nested, append_tlv};
use crate::types;

/// AdditionalDescription of a certificate: key-value pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdditionalDescription<'a> {
    /// The validated value of the element: DescriptionEntry elements.
    value: &'a [u8],
}

impl<'a> AdditionalDescription<'a> {
    const ENTRY: [Field; 2] =
        [Field::once(types::DESCRIPTION_KEY), Field::once(types::DESCRIPTION_VALUE)];

    pub(super) fn parse(tlv: &Tlv<'a>) -> Result<Self, DecodeError> {
        Self::check(tlv.reader())?;
        Ok(Self { value: tlv.value() })
    }

    fn check(mut reader: Reader<'a>) -> Result<(), DecodeError> {
        while let Some(entry) = reader.next_tlv()? {
            if entry.ty() == types::DESCRIPTION_ENTRY {
                Self::entry(&entry)?;
            } else {
                entry.skip_unrecognized()?;
            }
        }
        Ok(())
    }

    fn entry(entry: &Tlv<'a>) -> Result<(&'a str, &'a str), DecodeError> {
        let (mut key, mut text) = (None, None);
        let mut fields = Fields::new(entry.reader(), &Self::ENTRY);
        while let Some(field) = fields.next_field()? {
            let target = if field.ty() == types::DESCRIPTION_KEY { &mut key } else { &mut text };
            *target = Some(field.text()?);
        }
        match (key, text) {
            (Some(key), Some(text)) => Ok((key, text)),
            (None, _) => Err(entry.missing(types::DESCRIPTION_KEY)),
            (_, None) => Err(entry.missing(types::DESCRIPTION_VALUE)),
        }
    }

    /// Encodes pairs as the value of an AdditionalDescription, for [`AdditionalDescription::new`].
    #[must_use]
    pub fn encode(pairs: &[(&str, &str)]) -> Vec<u8> {
        let mut value = Vec::new();
        for (key, text) in pairs {
            append_nested(&mut value, types::DESCRIPTION_ENTRY, |entry| {
                append_tlv(entry, types::DESCRIPTION_KEY, key.as_bytes());
                append_tlv(entry, types::DESCRIPTION_VALUE, text.as_bytes());
            });
        }
        value
    }

    /// From the value of an AdditionalDescription.
    ///
    /// # Errors
    /// When an entry is malformed.
    pub fn new(value: &'a [u8]) -> Result<Self, DecodeError> {
        Self::check(Reader::new(value))?;
        Ok(Self { value })
    }

    pub(super) const fn value(&self) -> &'a [u8] {
        self.value
    }

    /// The pairs in order.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let mut reader = Reader::new(self.value);
        core::iter::from_fn(move || {
            while let Ok(Some(entry)) = reader.next_tlv() {
                if entry.ty() == types::DESCRIPTION_ENTRY {
                    return Self::entry(&entry).ok();
                }
            }
            None
        })
    }
}
