//! Tokens of descriptors in the poller of the control thread: single ones first, then a range for each kind of which there
//! are many. Each range ends where the next begins.

pub(super) const TOKEN_DATAPLANE: u64 = 0;
pub(super) const TOKEN_INTERNAL: u64 = 1;
pub(super) const TOKEN_STOP: u64 = 2;
pub(super) const TOKEN_CALLS: u64 = 3;
pub(super) const TOKEN_LINKS: u64 = 4;
pub(super) const TOKEN_KEY_CHAIN: u64 = 5;
pub(super) const TOKEN_SESSIONS: u64 = 6;
pub(super) const TOKEN_NAMES: u64 = 7;
#[cfg(feature = "vip")]
pub(super) const TOKEN_VIP: u64 = 8;
/// The listener with number `i` has token `TOKEN_LISTENERS + i`.
pub(super) const TOKEN_LISTENERS: u64 = 1 << 16;
/// First token of connection attempts.
pub(super) const TOKEN_ATTEMPTS: u64 = 1 << 32;
/// First token of WebSocket handshakes.
pub(super) const TOKEN_HANDSHAKES: u64 = 1 << 48;
/// First token of memif handshakes.
pub(super) const TOKEN_MEMIF: u64 = 1 << 49;
