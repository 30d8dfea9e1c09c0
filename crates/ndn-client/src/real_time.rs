//! The clock of the kernel, by which versions and commands are dated.
#![expect(clippy::disallowed_methods, reason = "a client of a forwarder, in real time")]

use ndn_types::duration_ms;

/// Milliseconds since 1970.
pub(crate) fn unix_ms() -> u64 {
    duration_ms(ndn_sys::clock::wall_clock())
}
