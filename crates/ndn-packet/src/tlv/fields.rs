//! Order and evolvability rules for a sequence of elements.

use crate::error::DecodeError;
use crate::tlv::reader::{Reader, Tlv};
use crate::types::is_critical;

/// One recognised element of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    ty: u32,
    repeatable: bool,
    critical: bool,
}

impl Field {
    /// An element that occurs at most once.
    #[must_use]
    pub const fn once(ty: u32) -> Self {
        Self { ty, repeatable: false, critical: is_critical(ty) }
    }

    /// An element that may occur many times in a row.
    #[must_use]
    pub const fn repeated(ty: u32) -> Self {
        Self { ty, repeatable: true, critical: is_critical(ty) }
    }

    /// A repeatable element that is skipped where it comes too late, whatever its type.
    #[must_use]
    pub const fn non_critical(mut self) -> Self {
        self.critical = false;
        self
    }
}

/// Iterates over a sequence whose recognised elements come in a given order.
///
/// Unrecognised elements are skipped if they are not critical. A recognised element that is
/// repeated or comes too late is an error if its type is critical, and is skipped otherwise.
#[derive(Clone, Debug)]
pub struct Fields<'a, 'o> {
    reader: Reader<'a>,
    order: &'o [Field],
    /// Index in `order` of the first field that may still come.
    position: usize,
}

impl<'a, 'o> Fields<'a, 'o> {
    /// Iterates over the elements left in `reader`.
    #[must_use]
    pub const fn new(reader: Reader<'a>, order: &'o [Field]) -> Self {
        Self { reader, order, position: 0 }
    }

    /// The next recognised element in order, or `None` at the end.
    ///
    /// # Errors
    /// On malformed TLVs and on violations of the rules above.
    pub fn next_field(&mut self) -> Result<Option<Tlv<'a>>, DecodeError> {
        while let Some(tlv) = self.reader.next_tlv()? {
            let Some(index) = self.order.iter().position(|field| field.ty == tlv.ty()) else {
                tlv.skip_unrecognized()?;
                continue;
            };
            if index < self.position {
                if self.order[index].critical {
                    return Err(tlv.out_of_order());
                }
                continue;
            }
            self.position = if self.order[index].repeatable { index } else { index + 1 };
            return Ok(Some(tlv));
        }
        Ok(None)
    }

    /// Offset of the next element.
    #[must_use]
    pub const fn offset(&self) -> usize {
        self.reader.offset()
    }
}
