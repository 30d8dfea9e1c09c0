//! What is wrong with settings only together, only on the command line, or only on this machine.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use ndn_forwarding::strategy::StrategyTable;
use ndn_management::{DEFAULT_STRATEGIES, STRATEGY_CHOICES_MAX};

use super::{
    Config, Ethernet, Listeners, Multicast, Overload, Shed, TABLE_ENTRIES_MAX, TrustRules,
    format_duration,
};

/// Longest path of a Unix socket, bytes (`sun_path` of unix(7), with its last zero byte).
const SOCKET_PATH_LEN_MAX: usize = 107;

const MEMIF_PATH: &str = "listeners.memif.path";

/// Settings that cannot be together, or not on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// The settings, as dotted paths; the one that is at fault first.
    pub keys: Vec<&'static str>,
    /// Why they cannot.
    pub reason: String,
}

/// A setting that can be as it is, and is perhaps meant otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The setting, as a dotted path with the number of a table of an array.
    pub key: String,
    /// What is to be known.
    pub reason: String,
}

impl Contradiction {
    fn of<T>(keys: &[&'static str], reason: impl Into<String>) -> Result<T, Self> {
        Err(Self { keys: keys.to_vec(), reason: reason.into() })
    }

    /// Why settings cannot be used on this machine.
    pub fn about(keys: &[&'static str], error: &anyhow::Error) -> Self {
        Self { keys: keys.to_vec(), reason: format!("{error:#}") }
    }
}

impl std::error::Error for Contradiction {}

impl std::fmt::Display for Contradiction {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.reason)
    }
}

impl Config {
    /// Checks what neither the types nor the reader of single settings can: bounds of settings that
    /// the command line changed, and settings that exclude each other. Returns all that is wrong.
    #[must_use]
    pub fn faults(&self) -> Vec<Contradiction> {
        let checks = [
            self.check_capacity(),
            self.check_listeners(),
            check_overload(&self.overload),
            check_ports(&self.listeners),
            check_ethernet(&self.listeners.ethernet),
            self.check_socket_paths(),
            self.check_strategies(),
            self.check_privileges(),
            self.check_propagation(),
        ];
        checks.into_iter().filter_map(Result::err).collect()
    }

    fn check_capacity(&self) -> Result<(), Contradiction> {
        const KEY: &str = "tables.cs.capacity_packets";
        let capacity = self.tables.cs.capacity_packets;
        if capacity <= TABLE_ENTRIES_MAX {
            return Ok(());
        }
        let reason = format!(
            "{KEY}: a Content Store of {capacity} packets is too large: at most {TABLE_ENTRIES_MAX}"
        );
        Contradiction::of(&[KEY], reason)
    }

    fn check_listeners(&self) -> Result<(), Contradiction> {
        if self.listeners.any() {
            return Ok(());
        }
        let reason = "every listener is turned off: nobody could use the forwarder";
        Contradiction::of(&["listeners"], reason)
    }

    fn check_privileges(&self) -> Result<(), Contradiction> {
        if self.privileges.user.is_some() || self.privileges.group.is_none() {
            return Ok(());
        }
        let reason = "privileges.group: without `user`, root would stay root; name both";
        Contradiction::of(&["privileges.group"], reason)
    }

    fn check_propagation(&self) -> Result<(), Contradiction> {
        let propagates = self.management.propagate.enabled;
        if !propagates || self.management.access.localhop_rib == TrustRules::Nobody {
            return Ok(());
        }
        let reason = "management.propagate: with `localhop_rib` the forwarder would register \
                      prefixes with itself; leave one of the two out";
        let keys = ["management.propagate.enabled", "management.localhop_rib"];
        Contradiction::of(&keys, reason)
    }

    /// What of it may be meant otherwise.
    #[must_use]
    pub fn remarks(&self) -> Vec<Remark> {
        self.unused_memif_secrets().collect()
    }

    /// There is room for all choices, and for an instance of each strategy.
    fn check_strategies(&self) -> Result<(), Contradiction> {
        let keys = ["strategy_choices"];
        let most = STRATEGY_CHOICES_MAX - DEFAULT_STRATEGIES.len();
        if self.strategy_choices.len() > most {
            let reason = format!("at most {most} strategies can be chosen");
            return Contradiction::of(&keys, reason);
        }
        let mut instances = StrategyTable::with_best_route().0;
        for choice in &self.strategy_choices {
            if let Err(error) = instances.insert(choice.strategy.as_ref()) {
                return Contradiction::of(&keys, format!("{}: {error}", choice.prefix));
            }
        }
        Ok(())
    }

    fn check_socket_paths(&self) -> Result<(), Contradiction> {
        for (key, path) in self.sockets_with_paths() {
            if path.as_os_str().len() > SOCKET_PATH_LEN_MAX {
                let reason = format!(
                    "{key}: {} is too long for a socket: at most {SOCKET_PATH_LEN_MAX} bytes",
                    path.display()
                );
                return Contradiction::of(&self.keys_of_path(key), reason);
            }
            if path.file_name().is_none() {
                let reason = format!("{key}: {} is a directory", path.display());
                return Contradiction::of(&self.keys_of_path(key)[..1], reason);
            }
            if key == MEMIF_PATH && path.is_relative() {
                let reason = format!(
                    "{key}: {} is relative: the URIs of its faces need a path from the root on",
                    path.display()
                );
                return Contradiction::of(&[key], reason);
            }
        }
        let place = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let sockets = self.sockets_with_paths();
        for (index, (key, path)) in sockets.iter().enumerate() {
            let earlier = sockets[..index].iter().find(|(_, other)| place(other) == place(path));
            if let Some((other, _)) = earlier {
                let reason = format!("{key}: {} is the socket of {other} already", path.display());
                let of_both = [self.keys_of_path(key)[0], self.keys_of_path(other)[0]];
                return Contradiction::of(&of_both, reason);
            }
        }
        Ok(())
    }

    /// Where the path of a socket is decided: its setting first, then what it follows from.
    pub fn keys_of_path(&self, key: &'static str) -> Vec<&'static str> {
        if key == MEMIF_PATH {
            // What has brought the default about, rather than the path of the Unix socket that it is beside.
            let is_default = self.listeners.memif.path.is_none();
            return vec![if is_default { "listeners.memif.enabled" } else { key }];
        }
        // The control socket may be beside the Unix socket.
        vec![key, "listeners.unix.path"]
    }

    /// The sockets in directories, each with the setting of its path.
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

/// Refuses Ethernet faces that neither hear stations nor a group.
fn check_ethernet(ethernet: &Ethernet) -> Result<(), Contradiction> {
    if !ethernet.enabled || ethernet.listen || ethernet.multicast {
        return Ok(());
    }
    let reason = "listeners.ethernet: with neither `listen` nor `multicast` there is nothing to be \
                  enabled; [[static_faces]] need neither";
    let keys = ["listeners.ethernet.listen", "listeners.ethernet.multicast"];
    Contradiction::of(&keys, reason)
}

fn check_overload(overload: &Overload) -> Result<(), Contradiction> {
    if overload.shed != Shed::Never && overload.shed_after < overload.mark_after {
        let reason = format!(
            "overload.shed_after: {} is below mark_after, which is {}: Interests would be refused \
             before any is marked",
            format_duration(overload.shed_after),
            format_duration(overload.mark_after)
        );
        return Contradiction::of(&["overload.shed_after", "overload.mark_after"], reason);
    }
    Ok(())
}

/// Refuses two sockets at one place.
fn check_ports(listeners: &Listeners) -> Result<(), Contradiction> {
    let of = |name, is_enabled: bool, addresses: &[std::net::IpAddr], port| {
        let addresses = if is_enabled { addresses } else { &[] };
        addresses.iter().map(|address| (name, SocketAddr::new(*address, port))).collect::<Vec<_>>()
    };
    let Listeners { tcp, udp, websocket, webtransport, multicast, .. } = listeners;
    let mut streams = of("listeners.tcp", tcp.enabled, &tcp.addresses, tcp.port);
    let (addresses, port) = (&websocket.addresses, websocket.port);
    streams.extend(of("listeners.websocket", websocket.enabled, addresses, port));
    check_overlap("TCP", &streams)?;
    let mut datagrams = of("listeners.udp", udp.enabled, &udp.addresses, udp.port);
    let (addresses, port) = (&webtransport.addresses, webtransport.port);
    datagrams.extend(of("listeners.webtransport", webtransport.enabled, addresses, port));
    check_overlap("UDP", &datagrams)?;
    let Multicast { enabled, groups, .. } = multicast;
    // The sockets of a group share their address with each other, not with a listener.
    let shared = datagrams.iter().find_map(|(name, address)| {
        let is_covered = |group: &&SocketAddr| *enabled && overlap(**group, *address);
        groups.iter().find(is_covered).map(|group| (name, group))
    });
    match shared {
        Some((name, group)) => {
            let reason = format!("listeners.multicast: the group {group} has the port of {name}");
            Contradiction::of(&["listeners.multicast", name], reason)
        }
        None => Ok(()),
    }
}

fn check_overlap(kind: &str, sockets: &[(&'static str, SocketAddr)]) -> Result<(), Contradiction> {
    for (index, (name, address)) in sockets.iter().enumerate() {
        let earlier = sockets[..index].iter().find(|(_, other)| overlap(*other, *address));
        if let Some((other_name, other)) = earlier {
            let reason = format!(
                "{name}: {address} cannot be listened on beside {other} of {other_name}: it is the \
                 same {kind} port"
            );
            return Contradiction::of(&[name, other_name], reason);
        }
    }
    Ok(())
}

/// Whether two sockets would get packets for the same address. IPv6 sockets take IPv6 only.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let (a, b) = (one.ip(), other.ip());
    let is_same = a == b || a.is_unspecified() || b.is_unspecified();
    one.port() == other.port() && a.is_ipv4() == b.is_ipv4() && is_same
}

#[cfg(test)]
mod tests {
    use crate::parse;

    fn refused(text: &str) -> String {
        parse("test", text).expect_err(text).to_string()
    }

    #[test]
    fn both_lines_of_a_contradiction_are_told() {
        let lines = |text: &str| -> Vec<usize> {
            let error = parse("test", text).expect_err(text);
            let [problem] = error.problems() else {
                panic!("one problem is told as several: {error}")
            };
            let spans = problem.beside.iter().chain(&problem.span);
            spans.map(|span| error.position(span.start).0).collect()
        };
        let text = "[overload]\nmark_after = \"20ms\"\n\nshed_after = \"10ms\"\n";
        assert_eq!(lines(text), [2, 4]);
        // Where one of them is the default, the other is at fault.
        assert_eq!(lines("\n\noverload.shed_after = \"20us\""), [3]);
        let text = "[listeners.tcp]\nport = 9696\n[listeners.websocket]\nenabled = true\n";
        assert_eq!(lines(text), [1, 3]);
        let text = "\nlisteners.unix.path = \"/tmp/a.sock\"\ncontrol.path = \"/tmp/a.sock\"";
        assert_eq!(lines(text), [2, 3]);
        let face = |more: &str| format!("[[static_faces]]\nuri = \"udp4://192.0.2.1\"\n{more}");
        let text = face("mtu = 1400\n") + &face("mtu = 1500\n");
        assert_eq!(lines(&text), [2, 5], "{}", refused(&text));
        assert!(refused(&text).contains("test:5:7: ") && refused(&text).contains("; see line 2"));
        assert_eq!(lines(&(face("") + &face(""))), [2, 4]);
        let choice = |strategy: &str| {
            format!("[[strategy_choices]]\nprefix = \"/a\"\nstrategy = \"{strategy}\"\n")
        };
        let text = choice("multicast") + &choice("asf");
        assert_eq!(lines(&text), [3, 6], "{}", refused(&text));
        parse("test", &(choice("asf") + &choice("/localhost/nfd/strategy/asf"))).unwrap();
        let text = "limits = { faces = 10, faces_per_peer = 20 }";
        assert_eq!(lines(text), [1, 1], "{}", refused(text));
        let text = "[tables]\npit_capacity = 1000\n[limits]\npending_interests_per_face = 2000";
        assert_eq!(lines(text), [2, 4], "{}", refused(text));
        // The default of a quota gives way.
        parse("test", "limits.faces = 2\ntables.pit_capacity = 100").unwrap();
    }

    #[test]
    fn two_listeners_at_one_place_are_refused() {
        for text in [
            "listeners.websocket = { enabled = true, port = 6363 }",
            "listeners.tcp.addresses = [\"127.0.0.1\", \"127.0.0.1\"]",
            "listeners.udp.addresses = [\"0.0.0.0\", \"127.0.0.1\"]",
            "listeners.tcp = { port = 9696, addresses = [\"::1\"] }\nlisteners.websocket.enabled = true",
            "listeners.udp.port = 56363\nlisteners.multicast.enabled = true",
        ] {
            refused(text);
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
    fn ethernet_has_something_to_do() {
        refused("listeners.ethernet = { enabled = true, listen = false, multicast = false }");
        parse("test", "listeners.ethernet = { listen = false, multicast = false }").unwrap();
        parse("test", "listeners.ethernet = { enabled = true, multicast = false }").unwrap();
    }

    #[test]
    fn interests_are_marked_before_they_are_refused() {
        let text = "overload = { mark_after = \"20ms\", shed_after = \"10ms\" }";
        assert!(refused(text).contains("10ms is below mark_after"), "{}", refused(text));
        parse("test", "overload = { mark_after = \"20ms\", shed_after = \"20ms\" }").unwrap();
        let text = "overload = { mark_after = \"20ms\", shed_after = \"10ms\", shed = \"never\" }";
        parse("test", text).unwrap();
    }

    #[test]
    fn sockets_have_a_place_of_their_own() {
        let long = "x".repeat(100);
        refused(&format!("listeners.unix.path = \"/tmp/{long}.sock\""));
        // The control socket is beside it, with a longer name.
        refused(&format!("listeners.unix.path = \"/tmp/{}.sock\"", &long[..90]));
        parse("test", &format!("listeners.unix.path = \"/tmp/{}.sock\"", &long[..80])).unwrap();
        refused("listeners.unix.path = \"/tmp/a.sock\"\ncontrol.path = \"/tmp/./a.sock\"");
        refused("control.path = \"/\"");
        let memif = |path: &str| {
            format!(
                "[listeners]\nmemif = {{ enabled = true, path = \"{path}\" }}\n\
                 unix.path = \"/tmp/a.sock\"\n[control]\npath = \"/tmp/c.sock\"\n"
            )
        };
        for path in ["/tmp/./a.sock", "/tmp/c.sock", "m.sock", "/"] {
            refused(&memif(path));
        }
        parse("test", &memif("/tmp/m.sock")).unwrap();
    }

    #[test]
    fn strategies_have_room_and_prefixes_an_end() {
        let choice = |prefix: &str, strategy: &str| {
            format!("[[strategy_choices]]\nprefix = \"{prefix}\"\nstrategy = \"{strategy}\"\n")
        };
        let deep = "/x".repeat(33);
        let text = refused(&(choice("/a", "asf") + &choice(&deep, "asf")));
        assert!(text.contains("test:5:") && text.contains("33 components"), "{text}");
        parse("test", &choice(&deep[2..], "asf")).unwrap();
        let route =
            format!("[[static_routes]]\nprefix = \"{deep}\"\nface = \"udp4://192.0.2.1\"\n");
        assert!(refused(&route).contains("test:2:"), "{}", refused(&route));
        // Each of these is an instance, beside best-route.
        let many = |count: u32| -> String {
            let strategy = |at| format!("/localhost/nfd/strategy/asf/v=5/probing-interval~{at}");
            (0..count).map(|at| choice(&format!("/{at}"), &strategy(1000 + at))).collect()
        };
        parse("test", &many(1023)).unwrap();
        assert!(
            refused(&many(1024)).contains("1024 strategy instances"),
            "{}",
            refused(&many(1024))
        );
    }

    #[test]
    fn a_forwarder_is_not_its_own_gateway() {
        refused("management = { localhop_rib = \"any\", propagate.enabled = true }");
        parse("test", "management.propagate.enabled = true").unwrap();
    }

    #[test]
    fn a_group_alone_would_leave_root_what_it_is() {
        refused("privileges.group = \"daemon\"");
        parse("test", "privileges = { user = \"daemon\", group = \"daemon\" }").unwrap();
    }
}
