//! Face = LinkService + Transport: Unix, TCP, UDP.
#![forbid(unsafe_code)]

mod counters;
mod drop_reason;
mod link_service;

pub use counters::FaceCounters;
pub use drop_reason::LinkDropReason;
pub use link_service::{
    CongestionMarker, CongestionOptions, FRAGMENT_COUNT_MAX, LinkOptions, LinkService, MTU_MIN,
    PACKET_LENGTH_MAX, PARTIAL_MESSAGES_MAX, REASSEMBLY_TIMEOUT_NS, Reassembler, Received,
};
