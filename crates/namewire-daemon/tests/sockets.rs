//! A forwarder inside this process, with sockets: quotas of peers, and what a routing daemon learns.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::VecDeque;
use std::io::Write;
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use namewire_daemon::{Environment, Forwarder, Hooks, Management};
use namewire_tests::wire::{PacketReader, data, interest};
use namewire_tests::{Application, TIMEOUT, free_port, wait_until};
use ndn_management::{
    CommandBuilder, ControlParameters, ControlResponse, DataSigner, DigestSigner, Verb,
    route_origin,
};
use ndn_packet::{Data, DataBuilder, Interest, LpPacket};

/// A forwarder with a Unix socket and a UDP port.
struct Bed {
    forwarder: Forwarder,
    directory: tempfile::TempDir,
    port: u16,
}

impl Bed {
    /// Starts a forwarder with these settings.
    fn start(settings: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("forwarder.sock");
        // Another process may take the port before it is bound.
        let (forwarder, port) = wait_until("a free port", || {
            let port = free_port();
            let toml = format!(
                "control.enabled = false\n[forwarder]\nworkers = 1\n[pool]\ncapacity = \"8 MiB\"\n\
                 [listeners.unix]\npath = \"{}\"\n[listeners.tcp]\nenabled = false\n\
                 [listeners.udp]\naddresses = [\"127.0.0.1\"]\nport = {port}\n\
                 [listeners.websocket]\nenabled = false\n[listeners.multicast]\nenabled = false\n\
                 {settings}",
                socket.display()
            );
            let config = namewire_config::parse("test", &toml).unwrap();
            match Forwarder::start(&config, Environment::system(), Hooks::none().unwrap()) {
                Ok(forwarder) => Some((forwarder, port)),
                Err(error) => {
                    let reason = format!("{error:#}");
                    assert!(reason.contains("in use"), "{reason}");
                    None
                }
            }
        });
        Self { forwarder, directory, port }
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("forwarder.sock")
    }

    fn application(&self) -> Application {
        Application::attach(&self.socket())
    }

    fn peer(&self) -> UdpSocket {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(("127.0.0.1", self.port)).unwrap();
        socket
    }

    /// Number of faces of UDP peers.
    fn udp_faces(&self) -> usize {
        let faces = (&self.forwarder).faces().unwrap();
        faces.iter().filter(|face| face.properties.remote_uri.starts_with("udp4:")).count()
    }

    /// Packets dropped by the shard for this reason.
    fn dropped(&self, reason: &str) -> u64 {
        let workers = self.forwarder.operations().statistics().unwrap().workers;
        workers[0].drops.get(reason).copied().unwrap_or(0)
    }
}

#[test]
fn peer_is_limited_to_its_faces_and_its_share_of_the_pit() {
    // One worker, with 64 places and no reserves (one in a hundred is less than a place).
    let bed = Bed::start(
        "[limits]\nfaces_per_peer = 2\nlocal_reserve = 0\nneighbour_reserve = 0\n\
         [tables]\npit_capacity = 64",
    );
    let mut producer = bed.application();
    producer.register("/quota", 0);
    let [one, two, three] = [(); 3].map(|()| bed.peer());
    let pending: Vec<String> = (1..=64).map(|number| format!("/quota/{number}")).collect();
    for (nonce, uri) in (1..).zip(&pending) {
        one.send(&interest(uri, nonce)).unwrap();
        producer.expect_interest(uri);
    }
    // Further Interests of this address are dropped, whatever their face.
    one.send(&interest("/quota/65", 65)).unwrap();
    two.send(&interest("/quota/66", 66)).unwrap();
    // There is no third face for this host; the other two remain.
    three.send(&interest("/quota/67", 67)).unwrap();
    wait_until("two Interests to be refused", || {
        (bed.dropped("pit_share") == 2 && bed.udp_faces() == 2).then_some(())
    });
    // An application has a share of its own: an Interest of the peer gives way.
    let mut application = bed.application();
    application.send(&interest("/quota/68", 68));
    producer.expect_interest("/quota/68");
    // An answer makes room.
    producer.send(&data("/quota/68", b""));
    application.expect_data("/quota/68");
    one.send(&interest("/quota/69", 69)).unwrap();
    producer.expect_interest("/quota/69");
}

#[test]
fn face_with_rejected_commands_is_limited_and_no_other() {
    let bed = Bed::start("[limits]\nrefused_commands_per_second = 5");
    let [mut hostile, mut other] = [(); 2].map(|()| bed.application());
    other.register("/held", 0);
    // The limit allows ten seconds' worth at once, and does not count accepted commands.
    for number in 0..100 {
        other.register(&format!("/held/{number}"), 0);
    }
    let limited = || {
        let links = bed.forwarder.operations().links(None).unwrap();
        links.values().filter(|link| link.drops.contains_key("management_rate")).count()
    };
    assert_eq!(limited(), 0);
    let mut nonce = 0;
    wait_until("management Interests to be dropped on arrival", || {
        for _ in 0..50 {
            nonce += 1;
            hostile.send(&interest(&format!("/localhost/nfd/rib/rob/{nonce}"), nonce));
        }
        (limited() > 0).then_some(())
    });
    assert_eq!(limited(), 1);
    // Interests that are not for management pass, and so do commands of other faces.
    hostile.send(&interest("/held/by/none", 1));
    other.expect_interest("/held/by/none");
    other.register("/held/still", 0);
}

/// A routing daemon, or an application: it registers a prefix and then receives its Interests.
struct Local {
    stream: UnixStream,
    reader: PacketReader,
    /// Interests that arrived before the answer to the registration.
    early: VecDeque<Vec<u8>>,
}

impl Local {
    fn register(bed: &Bed, uri: &str, origin: u64) -> Self {
        let mut stream = UnixStream::connect(bed.socket()).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let parameters = ControlParameters {
            name: Some(uri.parse().unwrap()),
            origin: Some(origin),
            ..ControlParameters::default()
        };
        let wire = CommandBuilder::default()
            .digest_signed_interest(Verb::RibRegister, &parameters, origin + 1, 1)
            .unwrap();
        stream.write_all(&wire).unwrap();
        let mut reader = PacketReader::new(&stream);
        let mut early = VecDeque::new();
        loop {
            let wire = reader.next_packet().unwrap();
            let packet = LpPacket::parse(&wire).unwrap();
            if let Ok(data) = Data::parse(packet.fragment().unwrap()) {
                assert!(ControlResponse::decode(data.content().unwrap()).unwrap().is_ok());
                return Self { stream, reader, early };
            }
            early.push_back(wire);
        }
    }

    /// Executes the next command to the daemon; returns its verb and prefix.
    fn obey(&mut self) -> String {
        let early = self.early.pop_front();
        let wire = early.unwrap_or_else(|| self.reader.next_packet().unwrap());
        let packet = LpPacket::parse(&wire).unwrap();
        let interest = Interest::parse(packet.fragment().unwrap()).unwrap();
        let name = interest.name();
        let parameters = ControlParameters::decode(name.component(4).unwrap().value()).unwrap();
        let content = ControlResponse::new(200, "OK").to_vec();
        let answer = DigestSigner.sign(&DataBuilder::new(name).content(&content)).unwrap();
        self.stream.write_all(&answer).unwrap();
        format!("{} {}", name.component(3).unwrap(), parameters.name.unwrap())
    }
}

#[test]
fn routing_daemon_receives_the_prefixes_of_clients() {
    let bed = Bed::start("[management]\nreadvertise_nlsr = true");
    let client = Local::register(&bed, "/early", route_origin::CLIENT);
    let mut daemon = Local::register(&bed, "/localhost/nlsr", 0);
    assert_eq!(daemon.obey(), "register /early");
    let application = Local::register(&bed, "/not-advertised", route_origin::APP);
    let other = Local::register(&bed, "/late", route_origin::CLIENT);
    assert_eq!(daemon.obey(), "register /late");
    drop(client);
    assert_eq!(daemon.obey(), "unregister /early");
    drop((application, other));
    assert_eq!(daemon.obey(), "unregister /late");
    wait_until("the routes to be removed", || {
        let routes = (&bed.forwarder).routes().unwrap();
        (!routes.iter().any(|entry| entry.name.to_string() == "/late")).then_some(())
    });
}
