//! The machine of a measurement.

use std::fs;

use serde::Serialize;

/// The machine of a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// Model of the processor, as the kernel names it.
    pub cpu: String,
    /// Processors that this process may use.
    pub cpus: usize,
    /// Kernel release.
    pub kernel: String,
    /// Memory in MiB.
    pub memory_mib: u64,
}

impl Machine {
    /// Reads the machine's properties from the kernel; unknown ones are empty or 0.
    #[must_use]
    pub fn read() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let memory_kib = field(&meminfo, "MemTotal")
            .and_then(|value| value.split_ascii_whitespace().next()?.parse::<u64>().ok())
            .unwrap_or(0);
        Self {
            cpu: field(&cpuinfo, "model name").unwrap_or_default().to_owned(),
            cpus: std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
            kernel: release.trim().to_owned(),
            memory_mib: memory_kib / 1024,
        }
    }
}

/// Returns the value after `name` and a colon, in the first line that starts with `name`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_name() {
        let text = "processor\t: 0\nmodel name\t: A: B\nmodel name\t: C\n";
        assert_eq!(field(text, "model name"), Some("A: B"));
        assert_eq!(field(text, "flags"), None);
    }
}
