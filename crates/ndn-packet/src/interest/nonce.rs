//! Writing an Interest anew with a Nonce.

use crate::error::EncodeError;
use crate::interest::Interest;
use crate::tlv::{Writer, header_len};
use crate::types;

const NONCE_TLV_LEN: usize = 6;

impl Interest<'_> {
    /// Length of what [`Interest::write_with_nonce`] writes.
    #[must_use]
    pub fn encoded_len_with_nonce(&self) -> usize {
        let value_len = self.value_len_with_nonce();
        header_len(types::INTEREST, value_len) + value_len
    }

    fn value_len_with_nonce(&self) -> usize {
        let value_len = self.wire().len() - self.value_start();
        if self.nonce_offset().is_none() { value_len + NONCE_TLV_LEN } else { value_len }
    }

    /// Offset behind the outermost type and length.
    fn value_start(&self) -> usize {
        match self.wire() {
            [_, 254, ..] => 6,
            [_, 253, ..] => 4,
            _ => 2,
        }
    }

    /// Writes this Interest with the given Nonce, in its place by the specification's order: a
    /// missing one is added, another one replaced. Returns the length written.
    ///
    /// # Errors
    /// [`EncodeError::BufferTooSmall`].
    pub fn write_with_nonce(&self, nonce: u32, out: &mut [u8]) -> Result<usize, EncodeError> {
        let mut writer = Writer::new(out);
        writer.header(types::INTEREST, self.value_len_with_nonce())?;
        let (place, resume) = match self.nonce_offset() {
            // From the Nonce TLV's value on: its type and length are copied.
            Some(offset) => (offset, offset + 4),
            None => (self.nonce_place as usize, self.nonce_place as usize),
        };
        writer.bytes(&self.wire()[self.value_start()..place])?;
        if self.nonce_offset().is_none() {
            writer.header(types::NONCE, 4)?;
        }
        writer.bytes(&nonce.to_be_bytes())?;
        writer.bytes(&self.wire()[resume..])?;
        Ok(writer.len())
    }
}
