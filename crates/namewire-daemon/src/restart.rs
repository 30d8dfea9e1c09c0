//! Settings that a running forwarder keeps until its next start.

use crate::config::{Config, PendingChanges};

/// Compares a reloaded configuration with that of the start. Resets settings that cannot change in `read`, which is
/// then in force. Returns the changes that take effect at the next start.
pub(super) fn keep(started: &Config, cs_capacity_max: usize, read: &mut Config) -> PendingChanges {
    let mut pending = started.keep_until_restart(read);
    let capacity = &mut read.tables.cs.capacity_packets;
    if *capacity > cs_capacity_max {
        pending.restart.push(format!("tables.cs.capacity_packets (beyond {cs_capacity_max})"));
        *capacity = cs_capacity_max;
    }
    // Bound faces share the UDP port, which requires a socket option at bind time.
    if started.bound_faces.is_empty() && !read.bound_faces.is_empty() {
        pending.restart.push("bound_faces (there were none at the start)".to_owned());
    }
    pending
}

/// Why settings wait for the next start, by the beginning of their paths.
const REASONS: [(&str, &str); 14] = [
    ("listeners.", SOCKETS),
    ("control.", SOCKETS),
    ("http.", SOCKETS),
    ("faces.receive_buffer", SOCKETS),
    ("faces.send_buffer", SOCKETS),
    ("bound_faces", SOCKETS),
    ("privileges.", "a process that has given up its rights cannot take them back"),
    ("tables.", MEMORY),
    ("pool.", MEMORY),
    ("limits.", MEMORY),
    ("forwarder.", WORKERS),
    ("overload.", WORKERS),
    ("faces.reconnect_", WORKERS),
    ("log.format", "lines of two forms in one log could not be read by programs"),
];
const SOCKETS: &str = "sockets are opened before the process gives up its rights";
const MEMORY: &str = "memory is reserved at the start, so that no packet waits for it";
const WORKERS: &str = "worker threads are set up at the start";
/// The reason of the others.
const MANAGEMENT: &str = "management is set up at the start";

/// Returns why a setting waits for the next start.
pub(super) fn reason(setting: &str) -> &'static str {
    let found = REASONS.iter().find(|(beginning, _)| setting.starts_with(beginning));
    found.map_or(MANAGEMENT, |(_, reason)| reason)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use crate::config::parse;

    #[test]
    fn every_setting_that_waits_has_a_reason() {
        for (setting, expected) in [
            ("listeners.tcp.port", SOCKETS),
            ("tables.cs.capacity_packets (beyond 65536)", MEMORY),
            ("overload.shed", WORKERS),
            ("management.identity", MANAGEMENT),
        ] {
            assert_eq!(reason(setting), expected, "{setting}");
        }
    }

    #[test]
    fn pending_changes_are_reported_at_each_reload() {
        let started = parse("test", "tables.pit_capacity = 1000").unwrap();
        let keep_all = |text: &str| {
            let mut read = parse("test", text).unwrap();
            let pending = keep(&started, 65_536, &mut read);
            (read, pending)
        };
        let (_, nothing) = keep_all("tables.pit_capacity = 1000\nlog.level = \"debug\"");
        assert_eq!(nothing, PendingChanges::default());
        let text = "tables.pit_capacity = 2000\nfaces = { mtu = 1400, reconnect_min = \"2s\" }\n\
                    tables.cs.capacity_packets = 100000\noverload.shed = \"drop\"";
        for _ in 0..2 {
            let (runs, pending) = keep_all(text);
            assert_eq!(
                pending.restart,
                [
                    "overload.shed",
                    "tables.pit_capacity",
                    "faces.reconnect_min",
                    "tables.cs.capacity_packets (beyond 65536)",
                ]
            );
            assert_eq!(pending.new_faces, ["faces.mtu"]);
            assert_eq!((runs.tables.pit_capacity, runs.faces.mtu), (1000, 1400));
            assert_eq!(runs.tables.cs.capacity_packets, 65_536);
            assert_eq!(runs.overload, started.overload);
        }
        let (_, put_back) = keep_all("tables.pit_capacity = 1000");
        assert_eq!(put_back, PendingChanges::default());
    }
}
