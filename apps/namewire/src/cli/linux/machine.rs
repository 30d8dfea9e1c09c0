//! The machine of a measurement.

use std::fs;

use ndn_sys::cpu::allowed_cpus;

/// The machine, in a line.
pub(in crate::cli) fn machine() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = cpuinfo.lines().find(|line| line.starts_with("model name"));
    let cpu = field.and_then(|line| line.split_once(':')).map_or("", |(_, value)| value.trim());
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let count = allowed_cpus().map_or(0, |cpus| cpus.len());
    format!("{count} x {cpu}, Linux {}", release.trim())
}
