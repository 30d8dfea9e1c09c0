//! Time as an argument.

use ndn_types::Timestamp;

/// One reading of both clocks, taken by the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Now {
    /// Monotonic clock, nanoseconds; deadlines are on this clock.
    pub monotonic_ns: u64,
    /// Wall clock, microseconds since the Unix epoch; used for versions and timestamps only.
    pub unix_us: u64,
}

impl Now {
    /// The monotonic clock, as the data plane takes it.
    #[must_use]
    pub const fn timestamp(&self) -> Timestamp {
        Timestamp::from_nanos(self.monotonic_ns)
    }

    /// Wall clock, milliseconds since the Unix epoch.
    #[must_use]
    pub const fn unix_ms(&self) -> u64 {
        self.unix_us / 1000
    }
}
