//! NDNLPv2, the link protocol around network packets.

mod header;
mod pieces;
#[cfg(test)]
mod tests;
mod view;

pub use header::LpHeader;
pub use pieces::{Reassembler, append_packet, cut};
pub use view::{Acks, LpPacket, NackReason, PIT_TOKEN_LEN_MAX};
