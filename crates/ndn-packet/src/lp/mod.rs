//! NDNLPv2, the link protocol around network packets.

mod header;
#[cfg(test)]
mod tests;
mod view;

pub use header::LpHeader;
pub use view::{Acks, LpPacket, NackReason, PIT_TOKEN_LEN_MAX};
