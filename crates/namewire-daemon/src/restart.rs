//! Settings that a running forwarder keeps until its next start.

use crate::config::Config;

/// A setting that does not change while the forwarder runs.
struct Kept {
    /// Its dotted path in a file.
    key: &'static str,
    differs: fn(&Config, &Config) -> bool,
    /// Puts that of the first into the second.
    put_back: fn(&Config, &mut Config),
}

/// Fields of [`Config`], which are called as the keys of the file are.
macro_rules! kept {
    ($($first:ident $(. $more:ident)*),* $(,)?) => {
        &[$(Kept {
            key: concat!(stringify!($first) $(, ".", stringify!($more))*),
            differs: |one, other| one.$first $(.$more)* != other.$first $(.$more)*,
            put_back: |from, to| to.$first $(.$more)*.clone_from(&from.$first $(.$more)*),
        }),*]
    };
}

/// All of them. The others are in force after a reload; a test knows them.
const KEPT: &[Kept] = kept![
    listeners.unix.enabled,
    listeners.unix.path,
    listeners.unix.mode,
    listeners.memif.enabled,
    listeners.memif.path,
    listeners.memif.mode,
    listeners.memif.dataroom,
    listeners.memif.chains,
    listeners.memif.memory,
    listeners.tcp.enabled,
    listeners.tcp.addresses,
    listeners.tcp.port,
    listeners.tcp.loopback_is_local,
    listeners.websocket.enabled,
    listeners.websocket.addresses,
    listeners.websocket.port,
    listeners.websocket.loopback_is_local,
    listeners.websocket.origins,
    listeners.websocket.local_origins,
    listeners.webtransport.enabled,
    listeners.webtransport.addresses,
    listeners.webtransport.port,
    listeners.webtransport.certificate,
    listeners.webtransport.key,
    listeners.webtransport.state_directory,
    listeners.webtransport.origins,
    listeners.webtransport.sessions,
    listeners.webtransport.idle_timeout,
    listeners.udp.enabled,
    listeners.udp.addresses,
    listeners.udp.port,
    listeners.dpdk.eal,
    listeners.dpdk.ports,
    listeners.dpdk.listen,
    listeners.dpdk.multicast,
    listeners.dpdk.mtu,
    listeners.dpdk.descriptors,
    listeners.dpdk.buffers,
    privileges.user,
    privileges.group,
    forwarder.default_hop_limit,
    forwarder.workers,
    forwarder.cpus,
    forwarder.io_workers,
    forwarder.placement,
    forwarder.spin,
    overload.mark_after,
    overload.shed_after,
    overload.interval,
    overload.shed,
    overload.answers_first,
    tables.cs.capacity_bytes,
    tables.cs.policy,
    tables.cs.unsolicited,
    tables.pit_capacity,
    tables.fib_capacity,
    tables.dead_nonce_lifetime,
    faces.receive_buffer,
    faces.send_buffer,
    faces.reconnect_min,
    faces.reconnect_max,
    limits.faces,
    limits.faces_per_peer,
    limits.pending_interests_per_face,
    limits.interests_per_second,
    limits.reassembly_packets,
    limits.reassembly_fragments,
    limits.reassembly_timeout,
    limits.interest_lifetime,
    pool.capacity,
    pool.pages,
    management.identity,
    control.enabled,
    control.path,
    static_faces,
    static_routes,
];

/// Defaults of faces: those of new ones change, but for faces of UDP peers that speak first, which workers make
/// as they were told at the start.
const KEPT_FOR_STRANGERS: &[Kept] = kept![
    faces.mtu,
    faces.idle_timeout,
    faces.send_queue,
    faces.congestion_marking,
    faces.congestion_threshold,
    faces.congestion_interval,
];

/// What of a configuration that was read again has to wait for the next start.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Waiting {
    /// The settings, as dotted paths, some with the reason.
    pub(super) settings: Vec<String>,
    /// Those that wait only for faces of UDP peers that speak first.
    pub(super) for_strangers: Vec<&'static str>,
}

/// Compares with what runs, which in these settings is what it was at the start. What cannot change is put
/// back in `read`, so that it is what runs from then on.
pub(super) fn keep(started: &Config, cs_capacity_max: usize, read: &mut Config) -> Waiting {
    let mut settings = Vec::new();
    for kept in KEPT {
        if (kept.differs)(started, read) {
            settings.push(kept.key.to_owned());
            (kept.put_back)(started, read);
        }
    }
    let capacity = &mut read.tables.cs.capacity_packets;
    if *capacity > cs_capacity_max {
        settings.push(format!("tables.cs.capacity_packets (beyond {cs_capacity_max})"));
        *capacity = cs_capacity_max;
    }
    if started.bound_faces.is_empty() && !read.bound_faces.is_empty() {
        settings.push("bound_faces (that there are any: they share the UDP port)".to_owned());
    }
    let differs = |kept: &&Kept| (kept.differs)(started, read);
    let for_strangers = KEPT_FOR_STRANGERS.iter().filter(differs).map(|kept| kept.key).collect();
    Waiting { settings, for_strangers }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use crate::config::parse;

    /// Settings that are in force after a reload, or sections of nothing else.
    const RELOADED: [&str; 19] = [
        "listeners.multicast",
        "listeners.ethernet",
        "tables.cs.capacity_packets",
        "tables.cs.admit",
        "tables.cs.serve",
        "tables.network_regions",
        "faces.path_mtu",
        "limits.refused_commands_per_second",
        "management.enabled",
        "management.readvertise_nlsr",
        "management.propagate",
        "management.localhost_rib",
        "management.localhop_rib",
        "management.prefix_announcements",
        "management.authorizations",
        "log",
        "bound_faces",
        "memif_secrets",
        "strategy_choices",
    ];

    #[test]
    fn every_setting_is_known_to_change_or_not_to() {
        let is_in = |key: &str, part: &str| {
            key.strip_prefix(part).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let keys = crate::config::keys();
        for key in &keys {
            let kept = KEPT.iter().chain(KEPT_FOR_STRANGERS).map(|kept| kept.key);
            let lists = kept.chain(RELOADED).filter(|part| is_in(key, part));
            assert_eq!(lists.count(), 1, "does a reload change `{key}`? Say so in run/restart.rs");
        }
        for kept in KEPT.iter().chain(KEPT_FOR_STRANGERS) {
            let is_key = keys.iter().any(|key| is_in(key, kept.key));
            assert!(is_key, "{} is no setting", kept.key);
        }
    }

    #[test]
    fn what_waits_is_told_by_key_for_as_long_as_it_waits() {
        let started = parse("test", "tables.pit_capacity = 1000").unwrap();
        let keep_all = |text: &str| {
            let mut read = parse("test", text).unwrap();
            let waiting = keep(&started, 65_536, &mut read);
            (read, waiting)
        };
        let (_, nothing) = keep_all("tables.pit_capacity = 1000\nlog.level = \"debug\"");
        assert_eq!(nothing, Waiting::default());
        let text = "tables.pit_capacity = 2000\nfaces = { mtu = 1400, reconnect_min = \"2s\" }\n\
                    tables.cs.capacity_packets = 100000\noverload.shed = \"drop\"";
        for _ in 0..2 {
            let (runs, waiting) = keep_all(text);
            assert_eq!(
                waiting.settings,
                [
                    "overload.shed",
                    "tables.pit_capacity",
                    "faces.reconnect_min",
                    "tables.cs.capacity_packets (beyond 65536)",
                ]
            );
            assert_eq!(waiting.for_strangers, ["faces.mtu"]);
            assert_eq!((runs.tables.pit_capacity, runs.faces.mtu), (1000, 1400));
            assert_eq!(runs.tables.cs.capacity_packets, 65_536);
            assert_eq!(runs.overload, started.overload);
        }
        let (_, put_back) = keep_all("tables.pit_capacity = 1000");
        assert_eq!(put_back, Waiting::default());
    }
}
