//! The names of a ForwardingHint.

use crate::error::DecodeError;
use crate::name::NameRef;
use crate::tlv::{Reader, Tlv};
use crate::types;

/// Iterator over the names of a ForwardingHint.
#[derive(Clone, Debug)]
pub struct ForwardingHint<'a> {
    reader: Reader<'a>,
}

impl<'a> ForwardingHint<'a> {
    /// Rebuilds the iterator from a value that was checked before.
    #[must_use]
    pub const fn from_validated(value: &'a [u8]) -> Self {
        Self { reader: Reader::new(value) }
    }

    /// One or more names. The older form, LinkDelegation elements with a preference and a name, is
    /// still sent by some libraries, and read as its names in the order given.
    pub(super) fn check(tlv: &Tlv<'a>) -> Result<(), DecodeError> {
        let mut reader = tlv.reader();
        let mut found = false;
        while let Some(inner) = reader.next_tlv()? {
            found |= Self::element(&inner)?.is_some();
        }
        if found { Ok(()) } else { Err(tlv.missing(types::NAME)) }
    }

    fn element(tlv: &Tlv<'a>) -> Result<Option<NameRef<'a>>, DecodeError> {
        match tlv.ty() {
            types::NAME => NameRef::from_tlv(tlv).map(Some),
            types::LINK_DELEGATION => {
                let mut reader = tlv.reader();
                while let Some(inner) = reader.next_tlv()? {
                    if inner.ty() == types::NAME {
                        return NameRef::from_tlv(&inner).map(Some);
                    }
                }
                Err(tlv.missing(types::NAME))
            }
            _ => tlv.skip_unrecognized().map(|()| None),
        }
    }
}

impl<'a> Iterator for ForwardingHint<'a> {
    type Item = NameRef<'a>;

    fn next(&mut self) -> Option<NameRef<'a>> {
        while let Ok(Some(tlv)) = self.reader.next_tlv() {
            if let Ok(Some(name)) = Self::element(&tlv) {
                return Some(name);
            }
        }
        None
    }
}
