//! The clocks of the kernel: listings are used for a time, and dated.
#![expect(clippy::disallowed_methods, reason = "origins are read in real time")]

use ndn_types::duration_ns;

/// Nanoseconds on the monotonic clock.
pub(crate) fn now_ns() -> u64 {
    ndn_sys::clock::now()
}

/// Nanoseconds since 1970.
pub(crate) fn unix_ns() -> u64 {
    duration_ns(ndn_sys::clock::wall_clock())
}
