//! Routing daemons on top: `ndnd dv` beside forwarders in network namespaces, with real links.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write;
use std::process::Command;
use std::time::{Duration, Instant};

use namewire_tests::{Process, Topology, run_to_end, skip_unless_found};

/// A ring of four, and a fifth that comes later and is reached by `c` alone.
const NODES: [&str; 5] = ["a", "b", "c", "d", "e"];
const LINKS: [(&str, &str); 5] = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("c", "e")];

/// The options of the daemon; docs/operating/routing.md says the same. Its defaults are 5 and 30 seconds.
const INTERVALS: &str = "advertise_interval: 1000\n  router_dead_interval: 3000";
/// Looking for neighbours that are dead takes the daemon up to twice that interval.
const DEADLINE: Duration = Duration::from_secs(60);

const TOML: &str = "[management]\nreadvertise_nlsr = true";

struct Network {
    topology: Topology,
    anchor: String,
}

impl Network {
    fn new() -> Option<Self> {
        if !skip_unless_found("ndnd") {
            return None;
        }
        let topology = Topology::new(&NODES, &LINKS)?;
        let mut network = Self { topology, anchor: String::new() };
        network.shell("ndnd sec keygen /net ed25519 > root.key");
        network.shell("ndnd sec sign-cert root.key < root.key > root.cert");
        let certificate = network.topology.directory().join("root.cert");
        let certificate = std::fs::read_to_string(certificate).unwrap();
        let name = certificate.lines().find_map(|line| line.strip_prefix("Name: "));
        network.anchor = name.unwrap().to_owned();
        Some(network)
    }

    fn shell(&mut self, line: &str) {
        self.topology.shell(line);
    }

    /// A forwarder and a daemon, which connects to these neighbours.
    fn start(&mut self, node: &str, neighbours: &[&str]) {
        self.topology.start_forwarder(node, TOML);
        self.shell(&format!("mkdir {node}.keys && cp root.cert {node}.keys"));
        self.shell(&format!("ndnd sec keygen /net/{node}/32=DV ed25519 > {node}.keys/{node}.key"));
        self.shell(&format!(
            "ndnd sec sign-cert root.key < {node}.keys/{node}.key > {node}.keys/{node}.cert"
        ));
        let mut yaml = format!(
            "dv:\n  network: /net\n  router: /net/{node}\n  keychain: dir://{}/{node}.keys\n  \
             trust_anchors: [\"{}\"]\n  {INTERVALS}\n  neighbors:\n",
            self.topology.directory().display(),
            self.anchor
        );
        for neighbour in neighbours {
            let address = self.topology.address(neighbour, node);
            writeln!(yaml, "    - uri: udp4://{address}:6363").unwrap();
        }
        std::fs::write(self.topology.directory().join(format!("{node}.yml")), yaml).unwrap();
        let transport =
            format!("NDN_CLIENT_TRANSPORT=unix://{}", self.topology.socket(node).display());
        let command = format!("env {transport} ndnd dv run {node}.yml");
        self.topology.start(node, &format!("dv_{node}"), &command);
    }

    /// An application that wants its prefix announced.
    fn serve(&self, node: &str) -> Process {
        let mut command = Command::new("ndnd");
        command.args(["pingserver", "--expose", &format!("/net/apps/{node}")]);
        command.env(
            "NDN_CLIENT_TRANSPORT",
            format!("unix://{}", self.topology.socket(node).display()),
        );
        Process::start(&format!("server_{node}"), command, self.topology.directory())
    }

    fn reaches(&self, from: &str, to: &str) -> bool {
        let prefix = format!("/net/apps/{to}");
        let arguments = ["ping", &prefix, "--count", "1", "--timeout", "300ms"];
        run_to_end(self.topology.command(from, &arguments)).status.success()
    }

    /// Whether the daemon at one node has found the way to that at another.
    fn knows(&self, from: &str, to: &str) -> bool {
        let prefix = format!("prefix=/net/32=DV/32=PFS/net/{to} ");
        self.topology.output(from, &["nfdc", "route", "list"]).contains(&prefix)
    }

    /// Waits until this holds between any two of these nodes, both ways.
    fn converge(&self, what: &str, nodes: &[&str], holds: fn(&Self, &str, &str) -> bool) {
        let start = now();
        let mut open: Vec<_> = nodes
            .iter()
            .flat_map(|from| nodes.iter().filter(move |to| *to != from).map(move |to| (*from, *to)))
            .collect();
        while !open.is_empty() {
            open.retain(|(from, to)| !holds(self, from, to));
            assert!(start.elapsed() < DEADLINE, "{what}: {open:?} after {DEADLINE:?}");
        }
        eprintln!("{what}: {:.1} s", start.elapsed().as_secs_f64());
    }
}

#[expect(clippy::disallowed_methods, reason = "real daemons run in real time")]
fn now() -> Instant {
    Instant::now()
}

#[test]
fn daemons_find_routes_around_failures() {
    let Some(mut network) = Network::new() else { return };
    let ring = ["a", "b", "c", "d"];
    for (node, neighbours) in
        [("a", ["b", "d"]), ("b", ["a", "c"]), ("c", ["b", "d"]), ("d", ["c", "a"])]
    {
        network.start(node, &neighbours);
    }
    network.converge("daemons find each other", &ring, Network::knows);
    let mut servers: Vec<_> = ring.iter().map(|node| network.serve(node)).collect();
    network.converge("prefixes are announced", &ring, Network::reaches);

    network.topology.set_link("a", "b", "down");
    network.converge("a link is cut", &ring, Network::reaches);

    // Nobody lists `e` as a neighbour: `c` answers on the face that `e` makes.
    network.start("e", &["c"]);
    network.converge("a late joiner is found", &NODES, Network::knows);
    servers.push(network.serve("e"));
    network.converge("and catches up", &NODES, Network::reaches);

    network.topology.set_link("a", "b", "up");
    network.topology.set_link("a", "d", "down");
    network.converge("that link comes back, another is cut", &NODES, Network::reaches);
}
