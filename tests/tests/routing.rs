//! A routing daemon: it learns which prefixes applications serve.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::VecDeque;
use std::io::Write;
use std::os::unix::net::UnixStream;

use namewire_tests::wire::PacketReader;
use namewire_tests::{Settings, wait_until};
use ndn_management::{
    CommandBuilder, ControlParameters, ControlResponse, DataSigner, DigestSigner, Verb,
    route_origin,
};
use ndn_packet::{Data, DataBuilder, Interest, LpPacket};

/// A daemon, or an application: it registers a prefix and then receives its Interests.
struct Local {
    stream: UnixStream,
    reader: PacketReader,
    /// Interests that came before the answer to the registration.
    early: VecDeque<Vec<u8>>,
}

impl Local {
    fn register(mut stream: UnixStream, uri: &str, origin: u64) -> Self {
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

    /// The next command to the daemon, which it carries out: verb and prefix.
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
fn a_daemon_learns_and_forgets_the_prefixes_of_clients() {
    let forwarder = Settings::new().toml("[management]\nreadvertise_nlsr = true").start();
    let client = Local::register(forwarder.connect(), "/early", route_origin::CLIENT);
    let mut daemon = Local::register(forwarder.connect(), "/localhost/nlsr", 0);
    assert_eq!(daemon.obey(), "register /early");
    let application = Local::register(forwarder.connect(), "/not-told", route_origin::APP);
    let other = Local::register(forwarder.connect(), "/late", route_origin::CLIENT);
    assert_eq!(daemon.obey(), "register /late");
    drop(client.stream);
    drop(client.reader);
    assert_eq!(daemon.obey(), "unregister /early");
    drop((application, other));
    assert_eq!(daemon.obey(), "unregister /late");
    wait_until("the routes to be gone", || {
        let routes = forwarder.output(&["nfdc", "route", "list"]);
        (!routes.contains("/late")).then_some(())
    });
}
