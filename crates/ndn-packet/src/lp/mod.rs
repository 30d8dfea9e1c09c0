//! NDNLPv2, the link protocol.

mod fragmentation;
mod header;
#[cfg(test)]
mod tests;
mod view;

pub use fragmentation::{Reassembler, append_packet, fragment_frame};
pub use header::LpHeader;
pub use view::{Acks, LpPacket, NackReason, PIT_TOKEN_LENGTH_MAX};
