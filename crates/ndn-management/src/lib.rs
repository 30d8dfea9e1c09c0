//! NFD management protocol: commands, datasets, RIB.
//!
//! | module | what it holds |
//! |---|---|
//! | [`parameters`], [`response`] | `ControlParameters` and `ControlResponse` on the wire |
//! | [`dataset`] | the blocks of every status dataset and of `faces/events` |
//! | [`types`], [`numbers`] | enumerations, flag bits, limits; TLV numbers |
//! | [`face_uri`] | face URIs and their canonical form |
//! | [`rib`] | routes, inheritance, expiry, and the FIB updates that follow |
//!
//! Pure: no I/O, no clock, no threads; `now` comes in as an argument. Blocks are encoded and
//! decoded both ways, so that clients share the definitions.
#![forbid(unsafe_code)]

mod block;
pub mod dataset;
pub mod face_uri;
pub mod numbers;
pub mod parameters;
pub mod response;
pub mod rib;
#[cfg(test)]
mod testing;
pub mod types;

pub use dataset::{
    ChannelStatus, CsInfo, DatasetItem, FaceCounters, FaceEventNotification, FaceProperties,
    FaceQueryFilter, FaceStatus, FibEntry, ForwarderCounters, ForwarderStatus, NextHopRecord,
    RibEntry, RouteRecord, StrategyChoice, decode_dataset,
};
pub use face_uri::{FaceUri, FaceUriError};
pub use parameters::ControlParameters;
pub use response::{ControlResponse, status};
pub use rib::{FibUpdate, NextHop, Registration, Rib, RibFull, Route};
pub use types::{
    CS_ERASE_LIMIT, FACE_ID_CONTENT_STORE, FACE_ID_INTERNAL, FACE_ID_NULL, FACE_ID_RESERVED_MAX,
    FaceEventKind, FacePersistency, FaceScope, LinkType, MTU_MIN, PREFIX_DEPTH_MAX, cs_flag,
    face_flag, route_flag, route_origin, route_origin_from_text, route_origin_text,
};
