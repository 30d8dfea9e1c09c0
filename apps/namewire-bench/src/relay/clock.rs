//! Clocks of the bench, read from the kernel.

use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_gettime};

fn nanoseconds(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Monotonic time.
pub(crate) fn monotonic_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

/// CPU time of this thread, user and kernel.
pub(crate) fn thread_cpu_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::ThreadCPUTime))
}

/// Waits outside the measured stretches.
pub(crate) fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

/// Wall-clock time since 1970.
pub(crate) fn wall_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Realtime))
}
