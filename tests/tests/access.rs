//! Who may manage a forwarder: trust rules over the network, certificates, replays, hostile commands.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::UdpSocket;
use std::time::Duration;

use namewire_tests::{
    Endpoint, Identity, Settings, noise, signed_registration, unix_ms, wait_until,
};
use ndn_management::ControlResponse;
use ndn_packet::{Data, Interest, LpPacket, Name};
use ndn_security::{Certificate, DigestSigner, Signer};

const RULES: &str = r#"
[management]
localhop_rib = '''
rule
{
  id "commands"
  for interest
  filter
  {
    type name
    regex ^<localhop><nfd><rib>[<register><unregister>]<>{1,3}$
  }
  checker
  {
    type customized
    sig-type ecdsa-sha256
    key-locator
    {
      type name
      regex ^<>*<KEY><>{1,3}$
    }
  }
}
rule
{
  id "hierarchy"
  for data
  checker
  {
    type hierarchical
  }
}
trust-anchor
{
  type file
  file-name root.cert
}
'''
"#;

/// A neighbour over UDP.
struct Neighbour {
    socket: UdpSocket,
}

impl Neighbour {
    fn new(forwarder: &Endpoint) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(("127.0.0.1", forwarder.port())).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        Self { socket }
    }

    fn send(&self, wire: &[u8]) {
        self.socket.send(wire).unwrap();
    }

    /// The next network packet, `None` if there is none for long.
    fn receive(&self) -> Option<Vec<u8>> {
        let mut buffer = [0; 9000];
        let length = self.socket.recv(&mut buffer).ok()?;
        let packet = LpPacket::parse(&buffer[..length]).unwrap();
        Some(packet.fragment().unwrap().to_vec())
    }

    /// Sends a command and gives its answer, if there is one; certificates that are asked for
    /// meanwhile are given.
    fn ask(&self, command: &[u8], certificates: &[&Certificate]) -> Option<ControlResponse> {
        self.send(command);
        loop {
            let wire = self.receive()?;
            if let Ok(interest) = Interest::parse(&wire) {
                let expected = certificates.iter().find(|c| c.name().starts_with(interest.name()));
                if let Some(certificate) = expected {
                    self.send(certificate.wire());
                }
                continue;
            }
            let data = Data::parse(&wire).unwrap();
            if data.name() == Interest::parse(command).unwrap().name() {
                return ControlResponse::decode(data.content().unwrap()).ok();
            }
        }
    }

    fn code(&self, command: &[u8], certificates: &[&Certificate]) -> u32 {
        self.ask(command, certificates).expect("an answer").code
    }
}

fn hub<F>(root: &Identity, start: impl FnOnce(&Settings) -> F) -> F {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("root.cert");
    std::fs::write(&file, root.certificate.to_text()).unwrap();
    // The forwarder has read it once it listens.
    start(&Settings::new().udp().toml(&RULES.replace("root.cert", file.to_str().unwrap())))
}

#[test]
fn neighbour_registers_with_a_certificate_fetched_from_it() {
    let root = Identity::new("/net", None);
    let site = Identity::new("/net/site", Some(&root));
    let user = Identity::new("/net/site/user", Some(&site));
    let forwarder = hub(&root, Settings::start_program);
    let neighbour = Neighbour::new(&forwarder);
    let chain = [&user.certificate, &site.certificate];
    let wire =
        signed_registration("/localhop/nfd", "/net/site/user/app", &user.signer(), unix_ms());
    assert_eq!(neighbour.code(&wire, &chain), 200);
    let routes = forwarder.output(&["nfdc", "route", "show", "/net/site/user/app"]);
    assert!(routes.contains("origin=app"), "{routes}");

    // The certificates are known now; other keys are not accepted with them.
    let wire = signed_registration("/localhop/nfd", "/net/other", &user.signer(), unix_ms());
    assert_eq!(neighbour.code(&wire, &[]), 200);
    let unknown_peer = Identity::new("/net/site/user", None);
    let wire = signed_registration("/localhop/nfd", "/stolen", &unknown_peer.signer(), unix_ms());
    assert_eq!(neighbour.code(&wire, &[&unknown_peer.certificate]), 403);
    let digest = signed_registration("/localhop/nfd", "/stolen", &DigestSigner, unix_ms());
    assert_eq!(neighbour.code(&digest, &[]), 403);
    wait_until("the refusals to be logged with their signer", || {
        let text = forwarder.process.stderr();
        (text.contains("rejected") && text.contains("/net/site/user/KEY/k")).then_some(())
    });
    let routes = forwarder.run(&["nfdc", "route", "show", "/stolen"]);
    assert_eq!(routes.status.code(), Some(6));
}

#[test]
fn prefixes_are_limited_to_identities_by_rules_of_one_line() {
    let root = Identity::new("/op", None);
    let alice = Identity::new("/op/alice", Some(&root));
    let bob = Identity::new("/op/bob", Some(&root));
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("root.cert"), root.certificate.to_text()).unwrap();
    let rules = directory.path().join("rules");
    let text = "anchor root.cert\nkey /op/<user> by /op\nroute /op/<user>/** by /op/<user>\n\
                route /open/** by digest\n";
    std::fs::write(&rules, text).unwrap();
    let rules = rules.display();
    let toml = format!("[management]\nlocalhop_rib = \"{rules}\"\nlocalhost_rib = \"{rules}\"\n");
    let forwarder = Settings::new().udp().toml(&toml).start_program();
    let neighbour = Neighbour::new(&forwarder);
    let ask = |uri: &str, signer: &dyn Signer, certificate: &Certificate| {
        let wire = signed_registration("/localhop/nfd", uri, signer, unix_ms());
        neighbour.ask(&wire, &[certificate]).expect("an answer")
    };
    assert_eq!(ask("/op/alice/app", &alice.signer(), &alice.certificate).code, 200);
    assert_eq!(ask("/open/x", &DigestSigner, &alice.certificate).code, 200);
    let refused = ask("/op/alice/other", &bob.signer(), &bob.certificate);
    assert_eq!(refused.code, 403, "{}", refused.text);
    for (uri, signer) in [("/op/bob/x", &alice), ("/nobody", &bob)] {
        let refused = ask(uri, &signer.signer(), &signer.certificate);
        assert_eq!(refused.code, 403, "{uri}: {}", refused.text);
    }
    let reason = "rule `route /op/<user>/** by /op/<user>` does not let /op/bob/KEY/k register \
                  /op/alice/other; it takes a key of /op/alice";
    wait_until("the refusal to be logged with prefix, rule and key", || {
        forwarder.process.stderr().contains(reason).then_some(())
    });
    // The same for local applications: libraries sign with a digest.
    let file = directory.path().join("file");
    std::fs::write(&file, "content").unwrap();
    let refused = forwarder.run(&["put", "/op/alice/local", file.to_str().unwrap()]);
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(1) && text.contains("403"), "{refused:?}");
}

/// Serves certificates from another host than the requester. It loses the first Interest for each.
fn serve(socket: UdpSocket, certificates: Vec<(Name, Vec<u8>)>) {
    std::thread::spawn(move || {
        let mut requested = std::collections::BTreeSet::new();
        let mut buffer = [0; 9000];
        loop {
            let Ok(length) = socket.recv(&mut buffer) else { continue };
            let packet = LpPacket::parse(&buffer[..length]).unwrap();
            let Some(Ok(interest)) = packet.fragment().map(Interest::parse) else { continue };
            let is_found = |name: &Name| name.as_ref().starts_with(interest.name());
            if let Some((name, wire)) = certificates.iter().find(|(name, _)| is_found(name))
                && !requested.insert(name.clone())
            {
                socket.send(wire).unwrap();
            }
        }
    });
}

/// The repository is two hops away from the forwarder that verifies: behind another forwarder.
#[test]
fn certificates_that_another_host_has_are_fetched_under_every_strategy() {
    const STRATEGIES: [&str; 6] =
        ["best-route", "multicast", "asf", "access", "random", "self-learning"];
    let root = Identity::new("/net", None);
    let chains = STRATEGIES.map(|strategy| {
        let region = Identity::new(&format!("/net/{strategy}"), Some(&root));
        let site = Identity::new(&format!("/net/{strategy}/site"), Some(&region));
        let user = Identity::new(&format!("/net/{strategy}/site/user"), Some(&site));
        [region, site, user]
    });
    for workers in [1, 3] {
        let start = |settings: &Settings| settings.clone().workers(workers).start();
        let forwarder = hub(&root, start);
        let intermediate = start(&Settings::new().udp());
        let repository = Neighbour::new(&intermediate).socket;
        let peer = format!("udp4://{}", repository.local_addr().unwrap());
        let _ = intermediate.output(&["route", "add", "/net", &peer]);
        let next_hop = format!("udp4://127.0.0.1:{}", intermediate.port());
        let _ = forwarder.output(&["route", "add", "/net", &next_hop]);
        let certificates = chains.iter().flatten().map(|one| &one.certificate);
        let named = certificates.map(|one| (one.name().to_name(), one.wire().to_vec()));
        serve(repository, named.collect());
        for (strategy, [.., user]) in STRATEGIES.iter().zip(&chains) {
            for one in [&forwarder, &intermediate] {
                let _ = one.output(&["strategy", "set", "/net", strategy]);
            }
            let neighbour = Neighbour::new(&forwarder);
            let wire = signed_registration("/localhop/nfd", "/net/app", &user.signer(), unix_ms());
            assert_eq!(neighbour.code(&wire, &[]), 200, "{strategy}, {workers} workers");
        }
    }
}

#[test]
fn without_localhop_rules_neighbours_get_no_answer() {
    let forwarder = Settings::new().udp().start();
    let neighbour = Neighbour::new(&forwarder);
    neighbour.socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    for top in ["/localhop/nfd", "/localhost/nfd"] {
        neighbour.send(&signed_registration(top, "/a", &DigestSigner, unix_ms()));
        let mut buffer = [0; 9000];
        // A Nack may say that there is no route; nothing else.
        if let Ok(length) = neighbour.socket.recv(&mut buffer) {
            assert!(LpPacket::parse(&buffer[..length]).unwrap().nack().is_some(), "{top}");
        }
    }
    assert_eq!(forwarder.run(&["nfdc", "route", "show", "/a"]).status.code(), Some(6));
}

#[test]
fn flood_of_rejected_commands_changes_nothing() {
    let root = Identity::new("/net", None);
    let forwarder = hub(&root, Settings::start_program);
    let neighbour = Neighbour::new(&forwarder);
    let unknown_peer = Identity::new("/net/x", None);
    let good = signed_registration("/localhop/nfd", "/x", &unknown_peer.signer(), unix_ms());
    let before = forwarder.resident_kib();
    for round in 0..20_000_usize {
        let mut wire = good.clone();
        let noise = noise(round as u64, 8);
        // Somewhere in the signature, the parameters or the name; or the whole command again.
        let at = usize::from(u16::from_le_bytes([noise[0], noise[1]])) % wire.len();
        if round % 4 != 0 {
            wire[at] ^= noise[2];
        }
        neighbour.send(&wire);
    }
    let user = Identity::new("/net/user", Some(&root));
    // The flood may still be queued, and commands that wait for a certificate that does not come.
    neighbour.socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    wait_until("a good command to get through", || {
        let wire = signed_registration("/localhop/nfd", "/net/user", &user.signer(), unix_ms());
        let answer = neighbour.ask(&wire, &[&user.certificate])?;
        (answer.code == 200).then_some(())
    });
    let grown = forwarder.resident_kib().saturating_sub(before);
    assert!(grown < 32 * 1024, "{grown} KiB more than before");
    let lines = forwarder.process.stderr().lines().count();
    assert!(lines < 2000, "{lines} lines of log");
}
