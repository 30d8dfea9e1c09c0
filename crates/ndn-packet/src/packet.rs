//! Network packets: Interest or Data.

use crate::data::Data;
use crate::error::DecodeError;
use crate::interest::Interest;
use crate::tlv::Reader;
use crate::types;

/// An Interest or a Data.
#[derive(Clone, Copy, Debug)]
pub enum Packet<'a> {
    /// Type 5.
    Interest(Interest<'a>),
    /// Type 6.
    Data(Data<'a>),
}

impl<'a> Packet<'a> {
    /// Parses one packet that fills `wire`.
    ///
    /// # Errors
    /// When the bytes are not exactly one valid Interest or Data.
    #[inline]
    pub fn parse(wire: &'a [u8]) -> Result<Self, DecodeError> {
        match wire.first() {
            Some(5) => Interest::parse(wire).map(Self::Interest),
            Some(6) => Data::parse(wire).map(Self::Data),
            Some(_) | None => Err(Reader::new(wire).read()?.unexpected(types::INTEREST)),
        }
    }
}
