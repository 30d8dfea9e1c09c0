//! WebSocket: NDNts as it runs in Node.js and in a browser, and clients that do as they like.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::TcpStream;

use namewire_tests::wire::name;
use namewire_tests::{
    Forwarder, Peer, Settings, TIMEOUT, Transport, browser_found, fetch_by_page, noise, require,
    wait_until,
};
use ndn_packet::InterestBuilder;

const OBJECT_BYTES: usize = 512 * 1024;

/// The object in a file, and its checksum as the page computes it.
fn object(forwarder: &Forwarder) -> (std::path::PathBuf, Vec<u8>, u64) {
    let bytes = noise(9, OBJECT_BYTES);
    let path = forwarder.directory().join("object");
    std::fs::write(&path, &bytes).unwrap();
    let add = |sum: u64, byte: &u8| sum.wrapping_mul(31).wrapping_add(u64::from(*byte));
    let checksum = bytes.iter().fold(0, add);
    (path, bytes, checksum)
}

#[test]
fn ndnts_publishes_and_fetches_over_websocket() {
    if !require(&[Peer::Ndnts]) {
        return;
    }
    // NDNts does not take a WebSocket for local, and registers under /localhop.
    let settings = Settings::new().websocket();
    let forwarder = settings.toml("[management]\nlocalhop_rib = \"any\"").start();
    let (path, bytes, _) = object(&forwarder);
    let transport = Transport(forwarder.websocket());
    let prefix = "/websocket/node";
    let _serving = Peer::Ndnts.produce(&transport, prefix, &path, forwarder.directory());
    let fetched = Peer::Ndnts.fetch(&transport, prefix, forwarder.directory());
    assert!(fetched == bytes, "{} bytes", fetched.len());
    let faces = forwarder.json(&["face", "list"]);
    let face = faces
        .as_array()
        .unwrap()
        .iter()
        .find(|face| face["remote_uri"].as_str().unwrap().starts_with("wsclient://127.0.0.1:"));
    let face = face.unwrap();
    assert_eq!(face["local_uri"], format!("ws://127.0.0.1:{}", forwarder.port()));
    assert_eq!((&face["scope"], &face["persistency"]), (&"local".into(), &"on-demand".into()));
    let channels = forwarder.output(&["nfdc", "channel", "list"]);
    assert!(channels.contains(&format!("ws://127.0.0.1:{}", forwarder.port())), "{channels}");
}

#[test]
fn a_page_in_a_browser_fetches_an_object() {
    if !(require(&[Peer::Ndnts]) && browser_found()) {
        return;
    }
    let forwarder = Settings::new().websocket().start();
    let (path, bytes, checksum) = object(&forwarder);
    let prefix = "/websocket/page";
    let unix = Transport(forwarder.unix());
    let _serving = Peer::Ndnts.produce(&unix, prefix, &path, forwarder.directory());
    // The page is in a file, and not local.
    let text = fetch_by_page(&forwarder.websocket(), prefix, forwarder.directory());
    assert_eq!(text, format!("{} bytes, checksum {checksum}", bytes.len()));
}

const REQUEST: &str = "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";

/// A client of the test's own.
struct Client(TcpStream);

impl Client {
    fn new(forwarder: &Forwarder) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", forwarder.port())).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        Self(stream)
    }

    fn shake_hands(self) -> Self {
        self.shake_hands_with("")
    }

    /// With more fields in the request.
    fn shake_hands_with(mut self, fields: &str) -> Self {
        let request = REQUEST.replace("\r\n\r\n", &format!("\r\n{fields}\r\n"));
        // In pieces, which is nobody's fault.
        for piece in request.as_bytes().chunks(50) {
            self.0.write_all(piece).unwrap();
        }
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            answer.extend(self.read(1));
        }
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
        assert!(answer.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{answer}");
        self
    }

    fn read(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.0.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Sends a frame with this first byte.
    fn send(&mut self, first: u8, payload: &[u8]) {
        let mask = [7, 8, 9, 10];
        let length = u16::try_from(payload.len()).unwrap();
        let masked = payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask);
        let mut frame = vec![first, 0x80 | 126];
        frame.extend(length.to_be_bytes());
        frame.extend(mask);
        frame.extend(masked);
        self.0.write_all(&frame).unwrap();
    }

    /// A short frame from the forwarder: first byte and payload. Pings are answered on the way.
    fn receive(&mut self) -> (u8, Vec<u8>) {
        loop {
            let (first, payload) = self.receive_any();
            if first != 0x89 {
                return (first, payload);
            }
            // The forwarder may have closed the connection since.
            let _ = self.0.write_all(&[0x8a, 0x80, 0, 0, 0, 0]);
        }
    }

    fn receive_any(&mut self) -> (u8, Vec<u8>) {
        let head = self.read(2);
        let length = match head[1] {
            126 => {
                let bytes = self.read(2);
                usize::from(u16::from_be_bytes([bytes[0], bytes[1]]))
            }
            short => usize::from(short),
        };
        (head[0], self.read(length))
    }

    /// The status code with which the forwarder closes; reads until the end.
    fn closed(&mut self) -> u16 {
        let (first, payload) = self.receive();
        assert_eq!(first, 0x88);
        let code = u16::from_be_bytes([payload[0], payload[1]]);
        let mut rest = Vec::new();
        let _ = self.0.read_to_end(&mut rest);
        assert!(rest.is_empty());
        code
    }
}

#[test]
fn pages_of_other_hosts_are_not_local() {
    let forwarder = Settings::new().websocket().start();
    let dataset = name("/localhost/nfd/status/general");
    let dataset = InterestBuilder::new(&dataset).can_be_prefix(true).nonce(1).to_vec().unwrap();
    let unknown = name("/nobody/has/this");
    let unknown = InterestBuilder::new(&unknown).nonce(2).to_vec().unwrap();
    for (fields, scope) in [
        ("Origin: http://localhost:8080\r\n", "local"),
        ("Origin: http://example.com\r\n", "non-local"),
        ("Origin: null\r\n", "non-local"),
    ] {
        let mut client = Client::new(&forwarder).shake_hands_with(fields);
        client.send(0x82, &dataset);
        client.send(0x82, &unknown);
        // What is not for the page is dropped; what has no route comes back in a Nack.
        let answer = || client.receive().1[0];
        let answers: Vec<u8> = std::iter::repeat_with(answer).take_while(|one| *one == 6).collect();
        let port = client.0.local_addr().unwrap().port();
        let faces = forwarder.json(&["face", "list"]);
        let uri = format!("wsclient://127.0.0.1:{port}");
        let face = faces.as_array().unwrap().iter().find(|face| face["remote_uri"] == *uri);
        assert_eq!(face.unwrap()["scope"], scope, "{fields}");
        if scope == "non-local" {
            assert!(answers.is_empty(), "{fields}");
        }
    }
}

#[test]
fn only_pages_of_listed_origins_connect() {
    // The keys go on where those of the listener end.
    let keys =
        "origins = [\"https://app.example.com\"]\nlocal_origins = [\"http://own.example.com\"]";
    let forwarder = Settings::new().websocket().toml(keys).start();
    for (origin, scope) in [
        ("https://app.example.com", "non-local"),
        ("http://own.example.com:80", "local"),
        ("http://localhost:8080", "local"),
    ] {
        let client = Client::new(&forwarder).shake_hands_with(&format!("Origin: {origin}\r\n"));
        let uri = format!("wsclient://127.0.0.1:{}", client.0.local_addr().unwrap().port());
        let face = wait_until("the face", || {
            let faces = forwarder.json(&["face", "list"]);
            let mut faces = faces.as_array().unwrap().iter();
            faces.find(|face| face["remote_uri"] == *uri).cloned()
        });
        assert_eq!(face["scope"], scope, "{origin}");
    }
    for origin in ["http://app.example.com", "https://example.com", "null"] {
        let mut client = Client::new(&forwarder);
        let request = REQUEST.replace("\r\n\r\n", &format!("\r\nOrigin: {origin}\r\n\r\n"));
        client.0.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        client.0.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 403 "), "{origin}: {answer}");
    }
}

#[test]
fn websocket_requests_are_accepted_or_rejected_with_a_status() {
    let forwarder = Settings::new().websocket().start();
    let dataset = name("/localhost/nfd/status/general");
    let asked = InterestBuilder::new(&dataset).can_be_prefix(true).nonce(1).to_vec().unwrap();
    // One message in three frames, with a ping between them.
    let mut client = Client::new(&forwarder).shake_hands();
    client.send(0x02, &asked[..3]);
    client.send(0x89, b"are you there?");
    client.send(0x00, &asked[3..10]);
    client.send(0x80, &asked[10..]);
    assert_eq!(client.receive(), (0x8a, b"are you there?".to_vec()));
    let (first, data) = client.receive();
    assert_eq!((first, data.first()), (0x82, Some(&6)), "a Data in a binary message");
    client.send(0x88, &1000_u16.to_be_bytes());
    assert_eq!(client.closed(), 1000);

    let end = |first: u8, payload: &[u8]| {
        let mut client = Client::new(&forwarder).shake_hands();
        client.send(first, payload);
        client.closed()
    };
    assert_eq!(end(0x81, b"text"), 1003);
    assert_eq!(end(0x80, b"an unexpected fragment"), 1002);
    assert_eq!(end(0xf2, b"reserved bits"), 1002);
    assert_eq!(end(0x82, &[0; 10_000]), 1009);
    assert_eq!(end(0x82, b"\x17\x00"), 1003, "neither Interest nor Data nor LpPacket");
    // An invalid packet is dropped, and the connection stays.
    let mut client = Client::new(&forwarder).shake_hands();
    client.send(0x82, b"\x05\x00");
    client.send(0x82, b"");
    client.send(0x82, &asked);
    assert_eq!(client.receive().0, 0x82);
    drop(client);

    let mut other = Client::new(&forwarder);
    other.0.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    other.0.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 426 "), "{answer}");
    wait_until("the faces to go", || {
        let faces = forwarder.output(&["face", "list"]);
        (!faces.contains("wsclient://")).then_some(())
    });
    forwarder.assert_healthy();
}
