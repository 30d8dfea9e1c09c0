//! Settings that a running forwarder keeps until its next start.

use crate::config::{Config, PendingChanges, RestartReason};

/// Compares a reloaded configuration with that of the start and with the one in force. Resets settings that cannot change in
/// `read`, which the reload puts in force. Returns the changes that take effect at the next start, and those that the reload
/// makes.
pub(super) fn keep(
    started: &Config,
    in_force: &Config,
    cs_capacity_max: usize,
    read: &mut Config,
) -> PendingChanges {
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
        read.bound_faces.clear();
    }
    let PendingChanges { live, new_faces, .. } = in_force.keep_until_restart(&mut read.clone());
    let for_new_faces = new_faces.into_iter().map(|setting| format!("{setting} (for new faces)"));
    pending.live = live.into_iter().chain(for_new_faces).collect();
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
            let pending = keep(&started, &started, 65_536, &mut read);
            (read, pending)
        };
        let (_, nothing) = keep_all("tables.pit_capacity = 1000\nlog.level = \"debug\"");
        let live = vec!["log.level".to_owned()];
        assert_eq!(nothing, PendingChanges { live, ..PendingChanges::default() });
        let text = "tables.pit_capacity = 2000\nfaces = { mtu = \"1400B\", reconnect_min = \"2s\" }\n\
                    tables.cs.capacity_packets = 100000\noverload.shed = \"drop\"\n\
                    [[bound_faces]]\nremotes = [\"udp4://192.0.2.1:6363\"]";
        for _ in 0..2 {
            let (runs, pending) = keep_all(text);
            assert_eq!(
                pending.restart,
                BTreeMap::from([
                    (
                        RestartReason::Sockets,
                        vec!["bound_faces (there were none at the start)".to_owned()]
                    ),
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
            // The capacity stays what it was at the start.
            assert_eq!(pending.live, ["faces.mtu (for new faces)"]);
            assert_eq!((runs.tables.pit_capacity, runs.faces.mtu.0), (1000, 1400));
            assert_eq!(runs.tables.cs.capacity_packets, 65_536);
            assert_eq!(runs.overload, started.overload);
            assert!(runs.bound_faces.is_empty());
        }
        let (_, put_back) = keep_all("tables.pit_capacity = 1000");
        assert_eq!(put_back, PendingChanges::default());
    }

    #[test]
    fn changes_are_those_from_the_configuration_in_force() {
        let started = parse("test", "").unwrap();
        let mut read = parse("test", "log.level = \"debug\"").unwrap();
        let pending = keep(&started, &read.clone(), 65_536, &mut read);
        assert_eq!(pending.live, Vec::<String>::new());
        let mut put_back = started.clone();
        assert_eq!(keep(&started, &read, 65_536, &mut put_back).live, ["log.level"]);
    }
}
