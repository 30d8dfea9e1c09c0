//! The blocks of the status datasets (NFD management wiki).
//!
//! A dataset is a sequence of blocks, segmented without regard to their boundaries. Every block
//! type encodes and decodes itself, so that the forwarder and its clients share one definition.

mod declare;
mod face;
mod forwarder;
mod notification;
mod tables;

use ndn_packet::DecodeError;
use ndn_packet::tlv::{Reader, Tlv};

pub use declare::{DatasetField, DatasetInfo, DatasetValue, Described};
pub use face::{ChannelStatus, FaceCounters, FaceProperties, FaceQueryFilter, FaceStatus};
pub use forwarder::{ForwarderCounters, ForwarderStatus};
pub use notification::FaceEventNotification;
pub(crate) use tables::append_entry;
pub use tables::{CsInfo, FibEntry, NextHopRecord, RibEntry, RouteRecord, StrategyChoice};

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
    let mut reader = Reader::new(content);
    let mut items = Vec::new();
    while let Some(tlv) = reader.next_tlv()? {
        if tlv.ty() == T::TYPE {
            items.push(T::decode_fields(tlv)?);
        } else {
            tlv.skip_unrecognized()?;
        }
    }
    Ok(items)
}

#[cfg(test)]
mod tests;
