//! Time: points on the caller's monotonic clock, a reading of both clocks, and durations as integers.

use std::time::Duration;

/// Nanoseconds on the caller's monotonic clock, since an arbitrary origin.
///
/// Tables and state machines do not read a clock: an operation that depends on time takes a `Timestamp`, one reading per
/// burst. Values must not decrease between calls on one object. Arithmetic saturates at [`Timestamp::MAX`].
///
/// An expiry, a deadline or an `until` is the first point at which the time is over: what expires at `expiry` is alive
/// while `now < expiry`, and a deadline has passed when `deadline <= now`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

/// Nanoseconds in a millisecond, the unit of lifetimes and freshness periods on the wire.
pub const NANOS_PER_MILLI: u64 = 1_000_000;

impl Timestamp {
    /// The origin.
    pub const ZERO: Self = Self(0);
    /// The end of time; a deadline of `MAX` never passes.
    pub const MAX: Self = Self(u64::MAX);

    /// The point `nanos` nanoseconds after the origin.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The point `millis` milliseconds after the origin.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(NANOS_PER_MILLI))
    }

    /// Nanoseconds since the origin.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole milliseconds since the origin.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0 / NANOS_PER_MILLI
    }

    /// The point `nanos` nanoseconds later.
    #[must_use]
    pub const fn plus_nanos(self, nanos: u64) -> Self {
        Self(self.0.saturating_add(nanos))
    }

    /// The point `millis` milliseconds later.
    #[must_use]
    pub const fn plus_millis(self, millis: u64) -> Self {
        Self(self.0.saturating_add(millis.saturating_mul(NANOS_PER_MILLI)))
    }

    /// The point `duration` later.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration_ns(duration)))
    }

    /// The time from `earlier` to `self`, zero when `earlier` is in fact later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Nanoseconds from `earlier` to `self`, zero when `earlier` is in fact later.
    #[must_use]
    pub const fn nanos_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// One reading of both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Monotonic clock; deadlines and expiries are on this clock.
    pub monotonic: Timestamp,
    /// Wall clock, since the Unix epoch; for versions, signatures and times that people read.
    pub unix: Duration,
}

impl Now {
    /// Wall clock, microseconds since the Unix epoch.
    #[must_use]
    pub fn unix_us(self) -> u64 {
        u64::try_from(self.unix.as_micros()).unwrap_or(u64::MAX)
    }

    /// Wall clock, milliseconds since the Unix epoch.
    #[must_use]
    pub fn unix_ms(self) -> u64 {
        duration_ms(self.unix)
    }
}

impl std::ops::AddAssign<Duration> for Timestamp {
    fn add_assign(&mut self, duration: Duration) {
        *self = self.plus(duration);
    }
}

impl std::ops::Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        self.plus(duration)
    }
}

impl std::ops::Sub for Timestamp {
    type Output = Duration;

    /// Saturates at zero.
    fn sub(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}

/// `duration` in nanoseconds, saturating.
#[must_use]
pub fn duration_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// `duration` in whole milliseconds, saturating.
#[must_use]
pub fn duration_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_become_integers() {
        let duration = Duration::from_micros(2_500);
        assert_eq!((duration_ns(duration), duration_ms(duration)), (2_500_000, 2));
        assert_eq!((duration_ns(Duration::MAX), duration_ms(Duration::MAX)), (u64::MAX, u64::MAX));
    }

    #[test]
    fn arithmetic_saturates() {
        let start = Timestamp::from_millis(2);
        assert_eq!(start.plus_millis(3), Timestamp::from_nanos(5_000_000));
        assert_eq!(start + Duration::from_micros(1), Timestamp::from_nanos(2_001_000));
        assert_eq!(start.plus_millis(u64::MAX), Timestamp::MAX);
        assert_eq!(start.plus(Duration::MAX), Timestamp::MAX);
        assert_eq!(start - start.plus_nanos(1), Duration::ZERO);
        assert_eq!(start.plus_nanos(7).nanos_since(start), 7);
        assert_eq!(Timestamp::from_millis(9).as_millis(), 9);
        let mut later = start;
        later += Duration::MAX;
        assert_eq!(later, Timestamp::MAX);
    }

    #[test]
    fn wall_clock_is_shown_in_whole_units() {
        let now = Now { unix: Duration::from_nanos(1_700_000_000_123_456_789), ..Now::default() };
        assert_eq!((now.unix_us(), now.unix_ms()), (1_700_000_000_123_456, 1_700_000_000_123));
        let end = Now { unix: Duration::MAX, ..now };
        assert_eq!((end.unix_us(), end.unix_ms()), (u64::MAX, u64::MAX));
    }
}
