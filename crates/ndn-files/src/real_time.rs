//! The clocks of the kernel, whose file systems date files by them.
#![expect(clippy::disallowed_methods, reason = "files are read and dated in real time")]

use std::time::SystemTime;

use ndn_types::{Timestamp, duration_ns};

/// The monotonic clock.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_nanos(ndn_sys::clock::now())
}

/// Nanoseconds since 1970.
pub(crate) fn unix_ns() -> u64 {
    duration_ns(ndn_sys::clock::wall_clock())
}

/// The time since 1970, as the times of files are.
pub(crate) fn unix() -> SystemTime {
    SystemTime::UNIX_EPOCH + ndn_sys::clock::wall_clock()
}
