//! Clocks. Everything else in the workspace takes the time, or a [`Clock`], as an argument.
//!
//! Reading the kernel's clocks is forbidden by lint (`disallowed-methods` in `clippy.toml`). Programs and the few
//! places of libraries that work with the kernel in real time expect that lint, with the reason.
#![cfg_attr(test, expect(clippy::disallowed_methods, reason = "tests of the clocks"))]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ndn_types::Timestamp;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// A source of time: the kernel's clocks, or one that advances only when the program sets it.
///
/// Clones read the same time. A component that needs the time outside of a call that passes it keeps a
/// clone, so that a simulation runs the same code on virtual time.
#[derive(Debug, Clone)]
pub enum Clock {
    /// The kernel's monotonic and real-time clocks, made by [`Clock::system`].
    #[non_exhaustive]
    System,
    /// Virtual time.
    Manual(ManualClock),
}

impl Clock {
    /// The kernel's monotonic and real-time clocks.
    #[must_use]
    pub const fn system() -> Self {
        Self::System
    }

    /// The monotonic clock. Clones have the same origin.
    #[inline]
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn now(&self) -> Timestamp {
        match self {
            Self::System => Timestamp::from_nanos(now()),
            Self::Manual(clock) => clock.now(),
        }
    }

    /// Time since the Unix epoch.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn unix_time(&self) -> Duration {
        match self {
            Self::System => wall_clock(),
            Self::Manual(clock) => clock.unix_time(),
        }
    }

    /// Whether this is virtual time, which does not pass while a thread waits.
    #[inline]
    #[must_use]
    pub fn is_manual(&self) -> bool {
        matches!(self, Self::Manual(_))
    }
}

/// Virtual time, shared by all clones.
#[derive(Debug, Clone)]
pub struct ManualClock {
    now_ns: Arc<AtomicU64>,
    /// Unix time at monotonic time zero.
    unix_origin: Duration,
}

impl ManualClock {
    /// A clock that shows this time on the monotonic clock, where the Unix time at monotonic time zero is
    /// `unix_origin`.
    #[must_use]
    pub fn new(now: Timestamp, unix_origin: Duration) -> Self {
        Self { now_ns: Arc::new(AtomicU64::new(now.as_nanos())), unix_origin }
    }

    /// The monotonic clock.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.now_ns.load(Ordering::Acquire))
    }

    /// Time since the Unix epoch.
    #[must_use]
    pub fn unix_time(&self) -> Duration {
        self.unix_origin + self.now().since(Timestamp::ZERO)
    }

    /// Sets the monotonic time. An earlier time than the present one has no effect.
    pub fn advance_to(&self, now: Timestamp) {
        self.now_ns.fetch_max(now.as_nanos(), Ordering::AcqRel);
    }

    /// Advances both clocks.
    pub fn advance(&self, time: Duration) {
        self.advance_to(self.now() + time);
    }
}

impl From<ManualClock> for Clock {
    fn from(clock: ManualClock) -> Self {
        Self::Manual(clock)
    }
}

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
    fn manual_clock_advances_for_all_clones_and_never_runs_backwards() {
        let manual = ManualClock::new(Timestamp::from_nanos(5), Duration::from_secs(1_000));
        let clock = Clock::from(manual.clone());
        manual.advance(Duration::from_nanos(10));
        manual.advance_to(Timestamp::from_nanos(3));
        let fifteen = Timestamp::from_nanos(15);
        assert_eq!((clock.now(), manual.now()), (fifteen, fifteen));
        assert_eq!(clock.unix_time(), Duration::new(1_000, 15));
        assert!(clock.is_manual() && !Clock::system().is_manual());
    }

    #[test]
    fn wall_clock_shows_a_time_of_this_century() {
        assert!(wall_clock() > Duration::from_secs(1_700_000_000));
    }
}
