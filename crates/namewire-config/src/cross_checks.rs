//! Checks of settings that depend on each other.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use ndn_forwarding::strategy::StrategyTable;
use ndn_management::{DEFAULT_STRATEGIES, STRATEGY_CHOICES_MAX};
use ndn_types::format_duration;

use crate::caching::ObjectRule;
use crate::config::{Config, Privileges};
use crate::conflict::{Conflict, Warning};
use crate::ethernet::{Dpdk, Ethernet};
use crate::faces::{FaceDefaults, StaticFace};
use crate::forwarder::{Forwarder, Overload, Shed, WorkerCount};
use crate::http::{Http, check_addresses};
use crate::listeners::{Listeners, Multicast, WebTransportListener};
use crate::management::{Propagate, TrustRules};
use crate::tables::TABLE_ENTRIES_MAX;

/// Maximum length of the path of a Unix socket in bytes (`sun_path` of unix(7), less its terminating zero byte).
const SOCKET_PATH_LEN_MAX: usize = 107;

const MEMIF_PATH: &str = "listeners.memif.path";

/// Buffers with frames that a worker has received, or is about to send.
const DPDK_BUFFERS_HELD: u32 = 64;

impl Config {
    /// All conflicts between settings, and settings that the command line has changed to invalid values.
    #[must_use]
    pub fn conflicts(&self) -> Vec<Conflict> {
        self.conflicts_in_file(&|_| false)
    }

    /// As [`Self::conflicts`], of a file in which the settings are present that `is_present` says: a default of some
    /// settings gives way to others.
    pub(crate) fn conflicts_in_file(&self, is_present: &dyn Fn(&str) -> bool) -> Vec<Conflict> {
        let mut conflicts = Vec::new();
        conflicts.extend(self.check_capacity());
        conflicts.extend(check_processors(&self.forwarder));
        conflicts.extend(check_faces(&self.faces));
        conflicts.extend(check_propagate(&self.management.propagate));
        conflicts.extend(self.check_listeners());
        conflicts.extend(check_overload(&self.overload));
        conflicts.extend(check_ports(&self.listeners));
        conflicts.extend(check_ethernet(&self.listeners.ethernet));
        conflicts.extend(check_buffers(&self.listeners.dpdk));
        conflicts.extend(check_certificate(&self.listeners.webtransport));
        conflicts.extend(self.check_socket_paths());
        conflicts.extend(check_privileges(&self.privileges));
        conflicts.extend(check_http(&self.control.http));
        conflicts.extend(self.check_propagation());
        conflicts.extend(self.check_strategies());
        conflicts.extend(self.check_duplicates());
        conflicts.extend(self.static_faces.iter().enumerate().filter_map(check_interface));
        conflicts.extend(self.caching.vip.rules.iter().enumerate().filter_map(check_object_rule));
        conflicts.extend(self.check_pool(is_present));
        conflicts.extend(self.check_quotas(is_present));
        conflicts
    }

    /// Settings that are valid, but probably not what was intended.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        let by_others = self.management.route_rules_evaded();
        self.unused_memif_secrets().chain(by_others).chain(self.relative_sockets()).collect()
    }

    /// Sockets whose paths depend on the working directory: programs with another one look for them elsewhere.
    fn relative_sockets(&self) -> impl Iterator<Item = Warning> {
        let sockets = self.sockets_with_paths().into_iter().filter(|(_, path)| path.is_relative());
        sockets.map(|(key, path)| Warning {
            key: key.to_owned(),
            reason: format!(
                "{key}: {} is relative: only programs with the same working directory find the socket",
                path.display()
            ),
        })
    }

    fn check_capacity(&self) -> Option<Conflict> {
        const KEY: &str = "tables.cs.capacity_packets";
        let capacity = self.tables.cs.capacity_packets;
        let reason = format!(
            "{KEY}: a Content Store of {capacity} packets is too large: at most {TABLE_ENTRIES_MAX}"
        );
        (capacity > TABLE_ENTRIES_MAX).then(|| Conflict::new(&[KEY], reason))
    }

    fn check_listeners(&self) -> Option<Conflict> {
        let reason = "all listeners are off: nothing could connect to the forwarder";
        (!self.listeners.any()).then(|| Conflict::new(&["listeners"], reason))
    }

    fn check_propagation(&self) -> Option<Conflict> {
        let is_gateway = self.management.localhop_rib != TrustRules::Nobody;
        let reason = "management.propagate: with `localhop_rib` the forwarder would register \
                      prefixes with itself; leave one of the two out";
        let keys = ["management.propagate.enabled", "management.localhop_rib"];
        (self.management.propagate.enabled && is_gateway).then(|| Conflict::new(&keys, reason))
    }

    /// The strategy table has room for all choices, and for an instance of each strategy.
    fn check_strategies(&self) -> Option<Conflict> {
        let keys = ["strategy_choices"];
        let most = STRATEGY_CHOICES_MAX - DEFAULT_STRATEGIES.len();
        if self.strategy_choices.len() > most {
            let reason = format!("the maximum number of strategy choices is {most}");
            return Some(Conflict::new(&keys, reason));
        }
        let mut instances = StrategyTable::with_best_route().0;
        self.strategy_choices.iter().find_map(|choice| {
            let error = instances.insert(choice.strategy.as_ref()).err()?;
            Some(Conflict::new(&keys, format!("{}: {error}", choice.prefix)))
        })
    }

    /// Tables of an array that contradict each other.
    fn check_duplicates(&self) -> Vec<Conflict> {
        let mut conflicts = Vec::new();
        let choices = &self.strategy_choices;
        conflicts.extend(duplicates("strategy_choices", "strategy", choices, |choice, earlier| {
            let is_conflict =
                choice.prefix == earlier.prefix && choice.strategy != earlier.strategy;
            is_conflict.then(|| format!("{} has two strategies", choice.prefix))
        }));
        conflicts.extend(duplicates("static_faces", "uri", &self.static_faces, |face, earlier| {
            let is_same = face.uri == earlier.uri && face.interface == earlier.interface;
            is_same.then(|| format!("{} is listed twice: a peer has one face", face.uri))
        }));
        let secrets = &self.memif_secrets;
        conflicts.extend(duplicates("memif_secrets", "socket", secrets, |secret, earlier| {
            let is_same = secret.socket == earlier.socket && secret.id == earlier.id;
            let interface = secret.id.map_or_else(String::new, |id| format!(", interface {id},"));
            is_same.then(|| format!("{}{interface} has two secrets", secret.socket.display()))
        }));
        let routes = &self.static_routes;
        conflicts.extend(duplicates("static_routes", "prefix", routes, |route, earlier| {
            let is_same = route.prefix == earlier.prefix && route.face == earlier.face;
            (is_same && route != earlier)
                .then(|| format!("{} by {} has two routes that differ", route.prefix, route.face))
        }));
        conflicts
    }

    /// The number of workers of `"auto"` is not known before the start.
    fn check_pool(&self, is_present: &dyn Fn(&str) -> bool) -> Option<Conflict> {
        const KEY: &str = "pool.capacity";
        let WorkerCount::Fixed(workers) = self.forwarder.workers else { return None };
        let needed = self.pool.shortage(workers).filter(|_| is_present(KEY))?;
        let capacity = self.pool.capacity;
        let reason =
            format!("`{KEY}`: {capacity} is not enough for {workers} workers, which need {needed}");
        Some(Conflict::new(&[KEY, "forwarder.workers"], reason))
    }

    /// A quota is at most what it is a part of. The default of a quota gives way.
    fn check_quotas(&self, is_present: &dyn Fn(&str) -> bool) -> Vec<Conflict> {
        let limits = &self.limits;
        let quotas =
            [("limits.faces_per_peer", limits.faces_per_peer, "limits.faces", limits.faces)];
        let exceeded =
            quotas.into_iter().filter(|(key, part, _, whole)| part > whole && is_present(key));
        let conflict = |(key, part, of, whole): (&str, usize, &str, usize)| {
            Conflict::new(
                &[key, of],
                format!("`{key}`: {part} is more than {of}, which is {whole}"),
            )
        };
        exceeded.map(conflict).collect()
    }

    fn check_socket_paths(&self) -> Option<Conflict> {
        let sockets = self.sockets_with_paths();
        let keys_of = |key: &'static str| self.keys_of_path(key);
        for (key, path) in &sockets {
            let (shown, keys) = (path.display(), keys_of(key));
            if path.as_os_str().len() > SOCKET_PATH_LEN_MAX {
                let reason = format!(
                    "{key}: {shown} is too long for a socket: at most {SOCKET_PATH_LEN_MAX} bytes"
                );
                return Some(Conflict::new(&keys, reason));
            }
            if path.file_name().is_none() {
                return Some(Conflict::new(&keys[..1], format!("{key}: {shown} is a directory")));
            }
            if *key == MEMIF_PATH && path.is_relative() {
                let reason = format!(
                    "{key}: {shown} is relative: the URIs of its faces need an absolute path"
                );
                return Some(Conflict::new(&[key], reason));
            }
        }
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        sockets.iter().enumerate().find_map(|(index, (key, path))| {
            let mut earlier = sockets[..index].iter();
            let (other, _) = earlier.find(|(_, other)| absolute(other) == absolute(path))?;
            let reason = format!("{key}: {} is already the socket of {other}", path.display());
            Some(Conflict::new(&[keys_of(key)[0], keys_of(other)[0]], reason))
        })
    }

    /// The settings that decide the path of a socket: its own first, then those that its default follows from.
    #[must_use]
    pub fn keys_of_path(&self, key: &'static str) -> Vec<&'static str> {
        if key == MEMIF_PATH {
            // The default path exists because the listener is enabled.
            let is_default = self.listeners.memif.path.is_none();
            return vec![if is_default { "listeners.memif.enabled" } else { key }];
        }
        // The default path of the control socket is that of the Unix socket with another ending.
        vec![key, "listeners.unix.path"]
    }

    /// The sockets with paths, each with the setting of its path.
    #[must_use]
    pub fn sockets_with_paths(&self) -> Vec<(&'static str, PathBuf)> {
        let memif = &self.listeners.memif;
        let sockets = [
            ("listeners.unix.path", self.socket_path()),
            (MEMIF_PATH, memif.enabled.then(|| self.listeners.memif_path())),
            ("control.path", self.control_socket_path()),
        ];
        sockets.into_iter().filter_map(|(key, path)| Some((key, path?))).collect()
    }
}

/// Compares each table of an array with the earlier ones; `conflict` returns the reason of a conflict between two.
fn duplicates<T>(
    array: &str,
    key: &str,
    items: &[T],
    conflict: impl Fn(&T, &T) -> Option<String>,
) -> Vec<Conflict> {
    let conflict_of = |(number, item)| {
        let mut earlier = items[..number].iter().enumerate();
        let (other, reason) = earlier.find_map(|(at, one)| Some((at, conflict(item, one)?)))?;
        let path = |number: usize| format!("{array}.{number}.{key}");
        let reason = format!("`{array}.{key}`: {reason}");
        Some(Conflict { keys: vec![path(number), path(other)], reason })
    };
    items.iter().enumerate().filter_map(conflict_of).collect()
}

fn check_interface((number, face): (usize, &StaticFace)) -> Option<Conflict> {
    let (key, reason) = match (face.uri.scheme() == "ether", &face.interface) {
        (true, None) => ("uri", "an Ethernet face needs an `interface`, such as \"eth1\""),
        (false, Some(_)) => ("interface", "only Ethernet faces have one"),
        (true, Some(_)) | (false, None) => return None,
    };
    let reason = format!("`static_faces.{key}`: {reason}");
    Some(Conflict { keys: vec![format!("static_faces.{number}.{key}")], reason })
}

fn check_object_rule((number, rule): (usize, &ObjectRule)) -> Option<Conflict> {
    let (key, reason) = match (rule.components, rule.block_segments) {
        (None, None) => ("prefix", "a rule needs `components` or `block_segments`"),
        (Some(_), Some(_)) => ("block_segments", "only rules without `components` have it"),
        (Some(_), None) | (None, Some(_)) => return None,
    };
    let reason = format!("`caching.vip.rules.{key}`: {reason}");
    Some(Conflict { keys: vec![format!("caching.vip.rules.{number}.{key}")], reason })
}

fn check_processors(forwarder: &Forwarder) -> Vec<Conflict> {
    const CPUS: &str = "forwarder.cpus";
    const IO_WORKERS: &str = "forwarder.io_workers";
    let (cpus, workers) = (forwarder.cpus.len(), forwarder.worker_count(1));
    let mut conflicts = Vec::new();
    if cpus != 0 && forwarder.placement.is_some() {
        let reason =
            format!("`{CPUS}`: `placement` chooses the processors: leave one of the two out");
        conflicts.push(Conflict::new(&[CPUS], reason));
    }
    let is_fixed = forwarder.workers != WorkerCount::Auto || cpus != 0;
    if is_fixed && forwarder.io_workers >= workers {
        let reason = format!("`{IO_WORKERS}`: none of the workers would forward");
        conflicts.push(Conflict::new(&[IO_WORKERS], reason));
    }
    if cpus != 0 && cpus != workers {
        let reason = format!(
            "`{CPUS}`: {cpus} processors for {workers} workers: list one for each, or none"
        );
        conflicts.push(Conflict::new(&[CPUS], reason));
    }
    conflicts
}

fn check_faces(faces: &FaceDefaults) -> Vec<Conflict> {
    let mut conflicts = Vec::new();
    if faces.reconnect_min > faces.reconnect_max {
        let key = "faces.reconnect_min";
        let max = format_duration(faces.reconnect_max);
        let reason = format!("`{key}`: it exceeds reconnect_max, which is {max}");
        conflicts.push(Conflict::new(&[key], reason));
    }
    if faces.congestion_marking && faces.congestion_threshold >= faces.send_queue {
        let key = "faces.congestion_threshold";
        let reason = format!("`{key}`: it must be below send_queue, which is {}", faces.send_queue);
        conflicts.push(Conflict::new(&[key, "faces.send_queue"], reason));
    }
    conflicts
}

fn check_propagate(propagate: &Propagate) -> Option<Conflict> {
    let key = "management.propagate.base_retry_wait";
    let max = format_duration(propagate.max_retry_wait);
    let reason = format!("`{key}`: it exceeds max_retry_wait, which is {max}");
    (propagate.base_retry_wait > propagate.max_retry_wait).then(|| Conflict::new(&[key], reason))
}

/// A port sends only if both its queues leave buffers.
fn check_buffers(dpdk: &Dpdk) -> Option<Conflict> {
    let key = "listeners.dpdk.buffers";
    let (buffers, descriptors) = (dpdk.buffers, dpdk.descriptors);
    let needed = 2 * u32::from(descriptors) + DPDK_BUFFERS_HELD;
    let reason = format!(
        "`{key}`: {buffers} are too few for `descriptors` = {descriptors}, which both queues have: the port would not \
         send. It needs 2 * descriptors + {DPDK_BUFFERS_HELD} = {needed}"
    );
    (buffers < needed).then(|| Conflict::new(&[key], reason))
}

fn check_certificate(listener: &WebTransportListener) -> Vec<Conflict> {
    let conflict = |key: &str, reason: &str| {
        let path = format!("listeners.webtransport.{key}");
        Conflict::new(&[&path], format!("`{path}`: {reason}"))
    };
    let mut conflicts = Vec::new();
    match (&listener.certificate, &listener.key) {
        (Some(_), None) => conflicts.push(conflict("certificate", "it needs its `key`")),
        (None, Some(_)) => conflicts.push(conflict("key", "it needs its `certificate`")),
        (None, None) | (Some(_), Some(_)) => {}
    }
    let files = [("certificate", &listener.certificate), ("key", &listener.key)];
    for (key, path) in files {
        let Some(path) = path.as_ref().filter(|_| listener.enabled) else { continue };
        if let Err(error) = std::fs::File::open(path) {
            conflicts.push(conflict(key, &format!("cannot read {}: {error}", path.display())));
        }
    }
    conflicts
}

fn check_privileges(privileges: &Privileges) -> Option<Conflict> {
    let reason = "privileges.group: without `user`, root would stay root; set both";
    let is_incomplete = privileges.user.is_none() && privileges.group.is_some();
    is_incomplete.then(|| Conflict::new(&["privileges.group"], reason))
}

/// The command line can name addresses, too.
fn check_http(http: &Http) -> Option<Conflict> {
    let empty = |reason| ("control.http.listen", reason);
    let checked = check_addresses(&http.listen).map_err(empty).and_then(|()| http.check_tls());
    let (key, reason) = checked.err()?;
    Some(Conflict::new(&[key], format!("`{key}`: {reason}")))
}

fn check_ethernet(ethernet: &Ethernet) -> Option<Conflict> {
    let reason = "listeners.ethernet: with neither `listen` nor `multicast` it has no effect; \
                  [[static_faces]] need neither";
    let keys = ["listeners.ethernet.listen", "listeners.ethernet.multicast"];
    let has_effect = ethernet.listen || ethernet.multicast;
    (ethernet.enabled && !has_effect).then(|| Conflict::new(&keys, reason))
}

fn check_overload(overload: &Overload) -> Option<Conflict> {
    let reason = format!(
        "overload.shed_after: {} is below mark_after, which is {}: Interests would be refused \
         before any is marked",
        format_duration(overload.shed_after),
        format_duration(overload.mark_after)
    );
    let is_conflict = overload.shed != Shed::Never && overload.shed_after < overload.mark_after;
    is_conflict.then(|| Conflict::new(&["overload.shed_after", "overload.mark_after"], reason))
}

/// Two sockets cannot listen on the same port.
fn check_ports(listeners: &Listeners) -> Option<Conflict> {
    let of = |name, is_enabled: bool, addresses: &[IpAddr], port| {
        let addresses = if is_enabled { addresses } else { &[] };
        addresses.iter().map(|address| (name, SocketAddr::new(*address, port))).collect::<Vec<_>>()
    };
    let Listeners { tcp, udp, websocket, webtransport, multicast, .. } = listeners;
    let mut streams = of("listeners.tcp", tcp.enabled, &tcp.addresses, tcp.port);
    let (addresses, port) = (&websocket.addresses, websocket.port);
    streams.extend(of("listeners.websocket", websocket.enabled, addresses, port));
    let mut datagrams = of("listeners.udp", udp.enabled, &udp.addresses, udp.port);
    let (addresses, port) = (&webtransport.addresses, webtransport.port);
    datagrams.extend(of("listeners.webtransport", webtransport.enabled, addresses, port));
    let overlap = find_overlap("TCP", &streams).or_else(|| find_overlap("UDP", &datagrams));
    if overlap.is_some() {
        return overlap;
    }
    let Multicast { enabled, groups, .. } = multicast;
    // The sockets of a group share their port with each other, but not with a listener.
    let (name, group) = datagrams.iter().find_map(|(name, address)| {
        let is_covered = |group: &&SocketAddr| *enabled && do_overlap(**group, *address);
        groups.iter().find(is_covered).map(|group| (name, group))
    })?;
    let reason = format!("listeners.multicast: the group {group} has the port of {name}");
    Some(Conflict::new(&["listeners.multicast", name], reason))
}

fn find_overlap(kind: &str, sockets: &[(&str, SocketAddr)]) -> Option<Conflict> {
    sockets.iter().enumerate().find_map(|(index, (name, address))| {
        let mut earlier = sockets[..index].iter();
        let (other_name, other) = earlier.find(|(_, other)| do_overlap(*other, *address))?;
        let reason = format!(
            "{name}: {address} cannot be listened on beside {other} of {other_name}: it is the \
             same {kind} port"
        );
        Some(Conflict::new(&[name, other_name], reason))
    })
}

/// Whether two sockets would receive packets for the same address. IPv6 sockets receive IPv6 only.
fn do_overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let (a, b) = (one.ip(), other.ip());
    let is_same = a == b || a.is_unspecified() || b.is_unspecified();
    one.port() == other.port() && a.is_ipv4() == b.is_ipv4() && is_same
}

#[cfg(test)]
mod tests {
    use crate::parse;

    fn rejected(text: &str) -> String {
        parse("test", text).expect_err(text).to_string()
    }

    #[test]
    fn conflict_reports_the_lines_of_both_settings() {
        let lines = |text: &str| -> Vec<usize> {
            let error = parse("test", text).expect_err(text);
            let [problem] = error.problems() else {
                panic!("one conflict is reported as several problems: {error}")
            };
            let spans = problem.related.iter().chain(&problem.span);
            spans.map(|span| error.position(span.start).0).collect()
        };
        let text = "[overload]\nmark_after = \"20ms\"\n\nshed_after = \"10ms\"\n";
        assert_eq!(lines(text), [2, 4]);
        // If one setting has its default, the other is reported.
        assert_eq!(lines("\n\noverload.shed_after = \"20us\""), [3]);
        let text = "[listeners.tcp]\nport = 9696\n[listeners.websocket]\nenabled = true\n";
        assert_eq!(lines(text), [1, 3]);
        let text = "\nlisteners.unix.path = \"/tmp/a.sock\"\ncontrol.path = \"/tmp/a.sock\"";
        assert_eq!(lines(text), [2, 3]);
        let face = |more: &str| format!("[[static_faces]]\nuri = \"udp4://192.0.2.1\"\n{more}");
        let text = face("mtu = \"1400B\"\n") + &face("mtu = \"1500B\"\n");
        assert_eq!(lines(&text), [2, 5], "{}", rejected(&text));
        assert!(rejected(&text).contains("test:5:7: ") && rejected(&text).contains("; see line 2"));
        assert_eq!(lines(&(face("") + &face(""))), [2, 4]);
        let choice = |strategy: &str| {
            format!("[[strategy_choices]]\nprefix = \"/a\"\nstrategy = \"{strategy}\"\n")
        };
        let text = choice("multicast") + &choice("asf");
        assert_eq!(lines(&text), [3, 6], "{}", rejected(&text));
        parse("test", &(choice("asf") + &choice("/localhost/nfd/strategy/asf"))).unwrap();
        let text = "limits = { faces = 10, faces_per_peer = 20 }";
        assert_eq!(lines(text), [1, 1], "{}", rejected(text));
        // The default of a quota gives way to the limit.
        parse("test", "limits.faces = 2\ntables.pit_capacity = 100").unwrap();
    }

    #[test]
    fn two_listeners_at_one_place_are_rejected() {
        for text in [
            "listeners.websocket = { enabled = true, port = 6363 }",
            "listeners.tcp.addresses = [\"127.0.0.1\", \"127.0.0.1\"]",
            "listeners.udp.addresses = [\"0.0.0.0\", \"127.0.0.1\"]",
            "listeners.tcp = { port = 9696, addresses = [\"::1\"] }\nlisteners.websocket.enabled = true",
            "listeners.udp.port = 56363\nlisteners.multicast.enabled = true",
        ] {
            rejected(text);
        }
        for text in [
            "listeners.websocket = { enabled = false, port = 6363 }",
            "listeners.tcp.addresses = [\"127.0.0.1\", \"127.0.0.2\", \"::1\"]",
            "listeners.udp.port = 56363",
            "listeners.tcp.addresses = [\"::1\"]\n\
             listeners.websocket = { enabled = true, port = 6363, addresses = [\"127.0.0.1\"] }",
        ] {
            parse("test", text).unwrap();
        }
    }

    #[test]
    fn ethernet_without_effect_is_rejected() {
        rejected("listeners.ethernet = { enabled = true, listen = false, multicast = false }");
        parse("test", "listeners.ethernet = { listen = false, multicast = false }").unwrap();
        parse("test", "listeners.ethernet = { enabled = true, multicast = false }").unwrap();
    }

    #[test]
    fn interests_are_marked_before_they_are_rejected() {
        let text = "overload = { mark_after = \"20ms\", shed_after = \"10ms\" }";
        assert!(rejected(text).contains("10ms is below mark_after"), "{}", rejected(text));
        parse("test", "overload = { mark_after = \"20ms\", shed_after = \"20ms\" }").unwrap();
        let text = "overload = { mark_after = \"20ms\", shed_after = \"10ms\", shed = \"never\" }";
        parse("test", text).unwrap();
    }

    #[test]
    fn sockets_need_distinct_valid_paths() {
        let long = "x".repeat(100);
        rejected(&format!("listeners.unix.path = \"/tmp/{long}.sock\""));
        // The control socket is in the same directory and has a longer name.
        rejected(&format!("listeners.unix.path = \"/tmp/{}.sock\"", &long[..90]));
        parse("test", &format!("listeners.unix.path = \"/tmp/{}.sock\"", &long[..80])).unwrap();
        rejected("listeners.unix.path = \"/tmp/a.sock\"\ncontrol.path = \"/tmp/./a.sock\"");
        rejected("control.path = \"/\"");
        let memif = |path: &str| {
            format!(
                "[listeners]\nmemif = {{ enabled = true, path = \"{path}\" }}\n\
                 unix.path = \"/tmp/a.sock\"\n[control]\npath = \"/tmp/c.sock\"\n"
            )
        };
        for path in ["/tmp/./a.sock", "/tmp/c.sock", "m.sock", "/"] {
            rejected(&memif(path));
        }
        parse("test", &memif("/tmp/m.sock")).unwrap();
    }

    #[test]
    fn too_many_strategies_and_long_prefixes_are_rejected() {
        let choice = |prefix: &str, strategy: &str| {
            format!("[[strategy_choices]]\nprefix = \"{prefix}\"\nstrategy = \"{strategy}\"\n")
        };
        let deep = "/x".repeat(33);
        let text = rejected(&(choice("/a", "asf") + &choice(&deep, "asf")));
        assert!(text.contains("test:5:") && text.contains("33 components"), "{text}");
        parse("test", &choice(&deep[2..], "asf")).unwrap();
        let route =
            format!("[[static_routes]]\nprefix = \"{deep}\"\nface = \"udp4://192.0.2.1\"\n");
        assert!(rejected(&route).contains("test:2:"), "{}", rejected(&route));
        // Each of these is an instance, in addition to best-route.
        let many = |count: u32| -> String {
            let strategy = |at| format!("/localhost/nfd/strategy/asf/v=5/probing-interval~{at}");
            (0..count).map(|at| choice(&format!("/{at}"), &strategy(1000 + at))).collect()
        };
        parse("test", &many(1023)).unwrap();
        assert!(
            rejected(&many(1024)).contains("1024 strategy instances"),
            "{}",
            rejected(&many(1024))
        );
    }

    #[test]
    fn propagation_excludes_localhop_rib() {
        rejected("management = { localhop_rib = \"any\", propagate.enabled = true }");
        parse("test", "management.propagate.enabled = true").unwrap();
    }

    #[test]
    fn group_without_user_is_rejected() {
        rejected("privileges.group = \"daemon\"");
        parse("test", "privileges = { user = \"daemon\", group = \"daemon\" }").unwrap();
    }

    fn rejected_webtransport(text: &str) -> String {
        rejected(&format!("[listeners.webtransport]\n{text}"))
    }

    #[test]
    fn unreadable_certificate_is_reported_with_its_line() {
        let text = "enabled = true\ncertificate = \"/etc/passwd\"\nkey = \"/nonexistent/key.pem\"";
        let reason = rejected_webtransport(text);
        assert!(reason.contains("cannot read /nonexistent/key.pem"), "{reason}");
        assert!(reason.contains("test:4:"), "{reason}");
        // The files of a disabled listener are not read.
        let text = text.replace("true", "false");
        parse("test", &format!("[listeners.webtransport]\n{text}")).unwrap();
    }

    #[test]
    fn invalid_webtransport_settings_are_rejected() {
        for (text, expected) in [
            ("certificate = \"/etc/passwd\"", "needs its `key`"),
            ("key = \"/etc/passwd\"", "needs its `certificate`"),
            ("addresses = []", "the list is empty"),
            ("sessions = 0", "out of range"),
            ("idle_timeout = \"1s\"", "out of range"),
            ("origins = [\"app.example.com\"]", "not an origin"),
            ("enabled = true\nport = 6363", "same UDP port"),
        ] {
            let reason = rejected_webtransport(text);
            assert!(reason.contains(expected), "{text}: {reason}");
        }
    }

    #[test]
    fn dpdk_queues_leave_buffers_for_sending() {
        let read = |descriptors: u32, buffers: u32| {
            let keys = format!("descriptors = {descriptors}\nbuffers = {buffers}");
            parse("test", &format!("[listeners.dpdk]\n{keys}\n"))
        };
        for (descriptors, enough) in [(1024, 2112), (224, 512), (8192, 16_448)] {
            read(descriptors, enough).unwrap();
            let reason = read(descriptors, enough - 1).unwrap_err().to_string();
            // The lower bound of `buffers` comes first.
            let both = reason.contains("`descriptors`") && reason.contains(&enough.to_string());
            assert!(reason.contains("buffers") && (both || enough == 512), "{reason}");
        }
        let reason = parse("test", "listeners.dpdk.descriptors = 8192").unwrap_err();
        assert!(reason.to_string().contains("listeners.dpdk.buffers"), "{reason}");
    }
}
