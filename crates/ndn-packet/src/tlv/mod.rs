//! Type-length-value elements (packet specification, section "Type-Length-Value (TLV) Encoding").

pub(crate) mod fast_reader;
mod fields;
mod number;
mod reader;
#[cfg(test)]
mod tests;
mod vec;
mod writer;

pub use crate::error::{DecodeError, EncodeError};
pub(crate) use fast_reader::FastReader;
pub use fields::{Field, Fields};
pub use number::{Number, decode_number, number_len, read_var_number, var_number_len};
pub use reader::{Reader, Tlv, frame_len};
pub use vec::{append_header, append_name, append_nested, append_number, append_tlv};
pub use writer::Writer;

/// Length in bytes of a TLV with this type and a value of `value_len` bytes.
#[inline]
#[must_use]
pub const fn tlv_len(ty: u32, value_len: usize) -> usize {
    header_len(ty, value_len) + value_len
}

/// Length in bytes of the type and length numbers of a TLV.
#[inline]
#[must_use]
pub const fn header_len(ty: u32, value_len: usize) -> usize {
    var_number_len(ty as u64) + var_number_len(value_len as u64)
}

/// Length in bytes of a TLV that holds a NonNegativeInteger.
#[inline]
#[must_use]
pub const fn number_tlv_len(ty: u32, n: u64) -> usize {
    var_number_len(ty as u64) + 1 + number_len(n)
}
