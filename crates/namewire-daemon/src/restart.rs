//! Settings that a running forwarder keeps until its next start.

use crate::config::{Config, PendingChanges, RestartReason};

/// Compares a reloaded configuration with that of the start. Resets settings that cannot change in `read`, which is
/// then in force. Returns the changes that take effect at the next start.
pub(super) fn keep(started: &Config, cs_capacity_max: usize, read: &mut Config) -> PendingChanges {
    let mut pending = started.keep_until_restart(read);
    let capacity = &mut read.tables.cs.capacity_packets;
    if *capacity > cs_capacity_max {
        let setting = format!("tables.cs.capacity_packets (beyond {cs_capacity_max})");
        pending.wait_for_restart(RestartReason::Memory, setting);
        *capacity = cs_capacity_max;
    }
    // Bound faces share the UDP port, which requires a socket option at bind time.
    if started.bound_faces.is_empty() && !read.bound_faces.is_empty() {
        let setting = "bound_faces (there were none at the start)".to_owned();
        pending.wait_for_restart(RestartReason::Sockets, setting);
    }
    pending
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::collections::BTreeMap;

    use super::*;
    use crate::config::parse;

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
        let text = "tables.pit_capacity = 2000\nfaces = { mtu = \"1400B\", reconnect_min = \"2s\" }\n\
                    tables.cs.capacity_packets = 100000\noverload.shed = \"drop\"";
        for _ in 0..2 {
            let (runs, pending) = keep_all(text);
            assert_eq!(
                pending.restart,
                BTreeMap::from([
                    (
                        RestartReason::Memory,
                        vec![
                            "tables.pit_capacity".to_owned(),
                            "tables.cs.capacity_packets (beyond 65536)".to_owned(),
                        ]
                    ),
                    (
                        RestartReason::WorkerThreads,
                        vec!["overload.shed".to_owned(), "faces.reconnect_min".to_owned()]
                    ),
                ])
            );
            assert_eq!(pending.new_faces, ["faces.mtu"]);
            assert_eq!((runs.tables.pit_capacity, runs.faces.mtu.0), (1000, 1400));
            assert_eq!(runs.tables.cs.capacity_packets, 65_536);
            assert_eq!(runs.overload, started.overload);
        }
        let (_, put_back) = keep_all("tables.pit_capacity = 1000");
        assert_eq!(put_back, PendingChanges::default());
    }
}
