//! Alternates with the floor and summarizes the results.

use std::fs;

use serde::Serialize;

/// Time of one exchange over several stretches.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Spread {
    pub(crate) fn of(values: &[f64]) -> Self {
        Self {
            median: crate::median(values.iter().copied()),
            least: values.iter().copied().fold(f64::INFINITY, f64::min),
            most: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }
}

/// Steal time of all processors since boot, in nanoseconds.
#[must_use]
pub fn steal_ns() -> u64 {
    const NS_PER_TICK: u64 = 10_000_000;
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let steal = text.lines().next().and_then(|line| line.split_ascii_whitespace().nth(8));
    steal.and_then(|field| field.parse::<u64>().ok()).unwrap_or(0) * NS_PER_TICK
}

/// Resident memory of this process, and how much of it lies in huge pages, in MiB.
pub(crate) fn resident_mib() -> (f64, f64) {
    let rollup = fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let mib = |field: &str| {
        let line = rollup.lines().find(|line| line.starts_with(field));
        let number =
            line.and_then(|line| line.split_ascii_whitespace().nth(1)?.parse::<f64>().ok());
        number.unwrap_or(0.0) / 1024.0
    };
    (mib("Rss:"), mib("AnonHugePages:"))
}
