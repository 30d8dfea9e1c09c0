//! Writes TLVs into a caller's buffer.

use crate::error::EncodeError;
use crate::name::NameRef;
use crate::tlv::number::{Number, var_number_len};
use crate::types;

/// A cursor that writes TLVs front to back.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut [u8],
    pos: usize,
}

impl<'a> Writer<'a> {
    /// A writer at the start of `out`.
    #[inline]
    #[must_use]
    pub const fn new(out: &'a mut [u8]) -> Self {
        Self { out, pos: 0 }
    }

    /// Number of bytes written.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.pos
    }

    /// Whether nothing was written yet.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.pos == 0
    }

    /// Writes raw bytes.
    ///
    /// # Errors
    /// [`EncodeError::BufferTooSmall`].
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        let end = self.pos + bytes.len();
        let Some(target) = self.out.get_mut(self.pos..end) else {
            return Err(EncodeError::BufferTooSmall);
        };
        target.copy_from_slice(bytes);
        self.pos = end;
        Ok(())
    }

    /// Writes a VAR-NUMBER.
    ///
    /// # Errors
    /// [`EncodeError::BufferTooSmall`].
    #[inline]
    pub fn var_number(&mut self, n: u64) -> Result<(), EncodeError> {
        let be = n.to_be_bytes();
        match var_number_len(n) {
            1 => self.bytes(&be[7..]),
            3 => self.bytes(&[253, be[6], be[7]]),
            5 => self.bytes(&[254, be[4], be[5], be[6], be[7]]),
            _ => {
                self.bytes(&[255])?;
                self.bytes(&be)
            }
        }
    }

    /// Writes the type and length numbers of an element whose value follows.
    ///
    /// # Errors
    /// [`EncodeError::BufferTooSmall`].
    #[inline]
    pub fn header(&mut self, ty: u32, value_len: usize) -> Result<(), EncodeError> {
        self.var_number(u64::from(ty))?;
        self.var_number(value_len as u64)
    }

    /// Writes an element.
    ///
    /// # Errors
    /// [`EncodeError::BufferTooSmall`].
    #[inline]
    pub fn tlv(&mut self, ty: u32, value: &[u8]) -> Result<(), EncodeError> {
        self.header(ty, value.len())?;
        self.bytes(value)
    }

    /// Writes an element that holds a NonNegativeInteger.
    ///
    /// # Errors
    /// [`EncodeError::BufferTooSmall`].
    #[inline]
    pub fn number(&mut self, ty: u32, n: u64) -> Result<(), EncodeError> {
        self.tlv(ty, Number::new(n).as_bytes())
    }

    /// Writes a Name element.
    ///
    /// # Errors
    /// [`EncodeError::BufferTooSmall`].
    #[inline]
    pub fn name(&mut self, name: NameRef<'_>) -> Result<(), EncodeError> {
        self.tlv(types::NAME, name.value())
    }
}
