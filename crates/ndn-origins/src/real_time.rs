//! The clocks of the kernel: listings are used for a time, and dated.
#![expect(clippy::disallowed_methods, reason = "origins are read in real time")]

use ndn_types::{Now, Timestamp};

/// Both clocks.
pub(crate) fn now() -> Now {
    let monotonic = Timestamp::from_nanos(ndn_sys::clock::now());
    Now { monotonic, unix: ndn_sys::clock::wall_clock() }
}
