//! The blocks of the status datasets (NFD management wiki).
//!
//! A dataset is a sequence of blocks, segmented without regard to their boundaries. The forwarder and its clients share
//! the declarations of the blocks.

pub(crate) mod declare;
pub(crate) mod description;
mod face;
mod forwarder;
mod notification;
mod tables;

pub use crate::block::{DatasetItem, decode_dataset};
pub use description::{DatasetField, DatasetInfo, DatasetValue, Described, Flag, Form};
pub use face::{ChannelStatus, FaceCounters, FaceProperties, FaceQueryFilter, FaceStatus};
pub use forwarder::{ForwarderCounters, ForwarderStatus};
pub use notification::FaceEventNotification;
pub(crate) use tables::append_entry;
pub use tables::{CsInfo, FibEntry, NextHopRecord, RibEntry, RouteRecord, StrategyChoice};

#[cfg(test)]
mod tests;
