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
    /// Rebuilds the iterator from a value that `Interest::parse` has checked.
    #[must_use]
    pub const fn from_validated(value: &'a [u8]) -> Self {
        Self { reader: Reader::new(value) }
    }

    /// Checks the whole value: one or more names. The older form (packet specification 0.2, "Link Object"), LinkDelegation
    /// elements with a preference and a name, is still sent by some libraries; its names are read in the given order.
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
                let mut name = None;
                while let Some(inner) = reader.next_tlv()? {
                    match inner.ty() {
                        types::NAME => {
                            let found = NameRef::from_tlv(&inner)?;
                            name.get_or_insert(found);
                        }
                        types::LINK_PREFERENCE => {
                            inner.number()?;
                        }
                        _ => {}
                    }
                }
                name.map(Some).ok_or_else(|| tlv.missing(types::NAME))
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
