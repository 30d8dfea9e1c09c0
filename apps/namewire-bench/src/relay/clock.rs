//! Clocks of the bench, read from the kernel.

use std::fs;
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

/// Mean steal time of these processors since boot.
pub(crate) fn steal_ns_of(cpus: &[usize]) -> u64 {
    const NS_PER_TICK: u64 = 10_000_000;
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let of = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let cpu = fields.next()?.strip_prefix("cpu")?.parse::<usize>().ok()?;
        let ticks = fields.nth(7)?.parse::<u64>().ok()?;
        cpus.contains(&cpu).then_some(ticks * NS_PER_TICK)
    };
    let count = u64::try_from(cpus.len()).unwrap_or(1).max(1);
    text.lines().filter_map(of).sum::<u64>() / count
}

/// Waits outside the measured stretches.
pub(crate) fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

/// Wall-clock time since 1970.
pub(crate) fn wall_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Realtime))
}
