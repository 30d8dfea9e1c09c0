//! Clocks. Everything else in the workspace takes the time as an argument.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Nanoseconds on the monotonic clock, from an arbitrary origin that is the same for all threads
/// of all processes until the next boot.
#[inline]
#[must_use]
pub fn now() -> u64 {
    nanos(clock_gettime(ClockId::Monotonic))
}

/// Time since the Unix epoch; zero if the system clock is set before it.
#[must_use]
pub fn wall_clock() -> Duration {
    #[expect(clippy::disallowed_methods, reason = "this is the clock module")]
    let now = SystemTime::now();
    now.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// A non-negative time in nanoseconds, saturating.
pub(crate) fn nanos(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monotonic_clock_does_not_run_backwards() {
        let readings: Vec<_> = (0..1000).map(|_| now()).collect();
        assert!(readings.is_sorted());
        assert!(readings[0] > 0);
    }

    #[test]
    fn wall_clock_is_in_this_century() {
        assert!(wall_clock() > Duration::from_secs(1_700_000_000));
    }
}
