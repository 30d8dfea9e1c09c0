//! Alternates with the floor and summarizes the results.

use std::fs;

use serde::Serialize;

/// Time of one exchange over several stretches.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) least: f64,
    pub(super) most: f64,
}

impl Spread {
    pub(super) fn of(values: &[f64]) -> Self {
        Self {
            median: crate::median(values.iter().copied()),
            least: values.iter().copied().fold(f64::INFINITY, f64::min),
            most: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }
}

/// Resident memory of this process, and how much of it lies in huge pages, in MiB.
pub(super) fn resident_mib() -> (f64, f64) {
    let rollup = fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let mib = |field: &str| {
        let line = rollup.lines().find(|line| line.starts_with(field));
        let number =
            line.and_then(|line| line.split_ascii_whitespace().nth(1)?.parse::<f64>().ok());
        number.unwrap_or(0.0) / 1024.0
    };
    (mib("Rss:"), mib("AnonHugePages:"))
}
