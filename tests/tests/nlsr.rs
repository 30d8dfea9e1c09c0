//! Routing daemons on top: NLSR beside forwarders in network namespaces, with real links, keys and trust
//! rules.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write;
use std::time::{Duration, Instant};

use namewire_tests::{Process, Topology, now, program, run_to_end, skip_unless_found};

/// A ring of four, and a fifth that comes later and is reached by `c` alone.
const NODES: [&str; 5] = ["a", "b", "c", "d", "e"];
const LINKS: [(&str, &str); 5] = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("c", "e")];

/// A neighbour is asked for a sign of life once in 30 s, the least that NLSR allows; docs/operating/routing.md has
/// the settings and figures.
const DEADLINE: Duration = Duration::from_secs(240);

const OPERATOR: &str = "/net/site/%C1.Operator/op";

/// As in NLSR's sample: the root vouches for the site, that for operators, they for routers, whose daemons
/// have keys of their own; operators say which prefixes are announced.
const TRUST: &str = r#"
  validator {
    rule {
      id "hello"
      for data
      filter {
        type name
        regex ^[^<nlsr><INFO>]*<nlsr><INFO><><>$
      }
      checker {
        type customized
        sig-type ecdsa-sha256
        key-locator {
          type name
          hyper-relation {
            k-regex ^([^<KEY><nlsr>]*)<nlsr><KEY><>{1,3}$
            k-expand \\1
            h-relation equal
            p-regex ^([^<nlsr><INFO>]*)<nlsr><INFO><><>$
            p-expand \\1
          }
        }
      }
    }
    rule {
      id "lsa"
      for data
      filter {
        type name
        regex ^[^<nlsr><LSA>]*<nlsr><LSA>
      }
      checker {
        type customized
        sig-type ecdsa-sha256
        key-locator {
          type name
          hyper-relation {
            k-regex ^([^<KEY><nlsr>]*)<nlsr><KEY><>{1,3}$
            k-expand \\1
            h-relation equal
            p-regex ^<localhop>([^<nlsr><LSA>]*)<nlsr><LSA>(<>*)<><><><>$
            p-expand \\1\\2
          }
        }
      }
    }
    rule {
      id "router"
      for data
      filter {
        type name
        regex ^[^<KEY><%C1.Router>]*<%C1.Router>[^<KEY><nlsr>]*<KEY><><><>$
      }
      checker {
        type customized
        sig-type ecdsa-sha256
        key-locator {
          type name
          hyper-relation {
            k-regex ^([^<KEY><%C1.Operator>]*)<%C1.Operator>[^<KEY>]*<KEY><>{1,3}$
            k-expand \\1
            h-relation equal
            p-regex ^([^<KEY><%C1.Router>]*)<%C1.Router>[^<KEY>]*<KEY><><><>$
            p-expand \\1
          }
        }
      }
    }
    rule {
      id "others"
      for data
      filter {
        type name
        regex ^[^<KEY>]*<KEY><><><>$
      }
      checker {
        type hierarchical
        sig-type ecdsa-sha256
      }
    }
    trust-anchor {
      type file
      file-name "root.cert"
    }
  }
  prefix-update-validator {
    rule {
      id "operators"
      for interest
      filter {
        type name
        regex ^<localhost><nlsr><prefix-update>[<advertise><withdraw>]
      }
      checker {
        type customized
        sig-type ecdsa-sha256
        key-locator {
          type name
          regex ^([^<KEY><%C1.Operator>]*)<%C1.Operator>[^<KEY>]*<KEY><>{1,3}$
        }
      }
    }
    rule {
      id "certificates"
      for data
      filter {
        type name
        regex ^[^<KEY>]*<KEY><><><>$
      }
      checker {
        type hierarchical
        sig-type ecdsa-sha256
      }
    }
    trust-anchor {
      type file
      file-name "site.cert"
    }
  }
  cert-to-publish "site.cert"
  cert-to-publish "op.cert"
"#;

struct Network {
    topology: Topology,
}

impl Network {
    fn new() -> Option<Self> {
        if !skip_unless_found("nlsr") {
            return None;
        }
        let mut network = Self { topology: Topology::new(&NODES, &LINKS)? };
        network.certify("root", "/net", None);
        network.certify("site", "/net/site", Some("/net"));
        network.certify("op", OPERATOR, Some("/net/site"));
        Some(network)
    }

    fn shell(&mut self, line: &str) {
        self.topology.shell(line);
    }

    /// A key in the key chain below `authority`, with a certificate by `signer` in `<file>.cert`.
    fn certify(&mut self, file: &str, identity: &str, signer: Option<&str>) {
        let namewire = format!("env HOME=$PWD/authority {}", program().display());
        self.shell(&format!("mkdir -p authority && {namewire} key gen {identity} > {file}.made"));
        match signer {
            None => self.shell(&format!("{namewire} cert dump {identity} > {file}.cert")),
            Some(signer) => {
                self.shell(&format!("{namewire} cert request {identity} > {file}.request"));
                self.shell(&format!(
                    "{namewire} cert sign --identity {signer} {file}.request > {file}.cert"
                ));
                self.shell(&format!("{namewire} cert install {file}.cert"));
            }
        }
    }

    /// A forwarder and a daemon with these neighbours.
    fn start(&mut self, node: &str, neighbours: &[&str]) {
        let router = format!("/net/site/%C1.Router/{node}");
        self.certify(node, &router, Some(OPERATOR));
        // The keys of the operator and of the router are on the router.
        self.shell(&format!("mkdir {node}.home {node}.state && cp -r authority/.ndn {node}.home"));
        let toml = format!("[management]\nreadvertise_nlsr = true\nidentity = \"{OPERATOR}\"");
        let home = self.topology.directory().join(format!("{node}.home"));
        self.topology.start_forwarder_in(&home, node, &toml);
        let mut conf = format!(
            "general\n{{\nnetwork /net\nsite /site\nrouter /%C1.Router/{node}\nsync-protocol psync\n\
             state-dir {}/{node}.state\n}}\nneighbors\n{{\nhello-retries 2\nhello-timeout 1\n\
             hello-interval 30\nadj-lsa-build-interval 5\n",
            self.topology.directory().display()
        );
        for neighbour in neighbours {
            // The daemon takes the faces that are there.
            let _ = self.topology.create_face(node, "udp4", neighbour);
            let address = self.topology.address(neighbour, node);
            write!(
                conf,
                "neighbor\n{{\nname /net/site/%C1.Router/{neighbour}\n\
                 face-uri udp4://{address}:6363\nlink-cost 10\n}}\n"
            )
            .unwrap();
        }
        write!(
            conf,
            "}}\nhyperbolic\n{{\nstate off\n}}\nfib\n{{\nmax-faces-per-prefix 3\n\
             routing-calc-interval 1\n}}\nadvertising\n{{\n}}\nsecurity\n{{\n{TRUST}  \
             cert-to-publish \"{node}.cert\"\n}}\n"
        )
        .unwrap();
        std::fs::write(self.topology.directory().join(format!("{node}.conf")), conf).unwrap();
        let socket = self.topology.socket(node);
        let command = format!(
            "env HOME={} NDN_CLIENT_TRANSPORT=unix://{} NDN_LOG=nlsr.*=INFO nlsr -f {node}.conf",
            home.display(),
            socket.display()
        );
        self.topology.start(node, &format!("nlsr_{node}"), &command);
    }

    /// An application whose prefix is to be announced: its route has origin `client`.
    fn serve(&self, node: &str) -> Process {
        let prefix = format!("/net/apps/{node}");
        let command = self.topology.command(node, &["ping-server", &prefix]);
        let mut server =
            Process::start(&format!("server_{node}"), command, self.topology.directory());
        server.wait_for_output("responding to pings");
        let routes = self.topology.output(node, &["route", "list", "--json"]);
        let routes: Vec<serde_json::Value> = serde_json::from_str(&routes).unwrap();
        let route = routes.iter().find(|route| route["prefix"] == format!("{prefix}/ping"));
        let face_id = route.unwrap()["face_id"].as_u64().unwrap();
        self.topology.add_route(node, &prefix, face_id, &["--origin", "client"]);
        server
    }

    fn reaches(&self, from: &str, to: &str) -> bool {
        let prefix = format!("/net/apps/{to}");
        let arguments = ["ping", &prefix, "--count", "1", "--timeout", "300ms"];
        run_to_end(self.topology.command(from, &arguments)).status.success()
    }

    /// Whether the daemon at one node has found the way to that at another.
    fn knows(&self, from: &str, to: &str) -> bool {
        let prefix = format!("prefix=/net/site/%C1.Router/{to} ");
        self.topology.output(from, &["nfdc", "route", "list"]).contains(&prefix)
    }

    /// Waits until this holds between any two of these nodes, both ways.
    fn converge(&self, what: &str, nodes: &[&str], holds: fn(&Self, &str, &str) -> bool) {
        let start: Instant = now();
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

#[test]
fn daemons_find_routes_around_failures() {
    let Some(mut network) = Network::new() else { return };
    let ring = ["a", "b", "c", "d"];
    network.start("a", &["b", "d"]);
    network.start("b", &["a", "c"]);
    network.start("c", &["b", "d", "e"]);
    network.start("d", &["c", "a"]);
    network.converge("daemons find each other", &ring, Network::knows);
    let mut servers: Vec<_> = ring.iter().map(|node| network.serve(node)).collect();
    network.converge("prefixes are announced", &ring, Network::reaches);

    network.topology.set_link("a", "b", "down");
    network.converge("a link is cut", &ring, Network::reaches);

    network.start("e", &["c"]);
    network.converge("a late joiner is found", &NODES, Network::knows);
    servers.push(network.serve("e"));
    network.converge("and catches up", &NODES, Network::reaches);
}
