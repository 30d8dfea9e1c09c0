//! Commands that must not be obeyed, by every kind of face: each has its answer, or none.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::sync::Arc;

use namewire_tests::{Endpoint, ForwarderProcess, Settings, TIMEOUT, noise, wait_until, wire};
use ndn_management::{
    CommandBuilder, ControlParameters, ControlResponse, Dataset, FaceQueryFilter, Verb,
};
use ndn_packet::{Component, Data, InterestBuilder, LpPacket, Name, SignatureInfo, tlv};
use ndn_security::{
    Certificate, CertificateOptions, DigestSigner, KeySigner, KeyType, Locator, PrivateKey, SELF,
    Signer, key_name,
};

const RULES: &str = r#"
[management]
localhost_rib = '''
rule {
  id commands
  for interest
  filter {
    type name
    regex ^<localhost><nfd><rib><>*$
  }
  checker {
    type customized
    sig-type ecdsa-sha256
    key-locator {
      type name
      regex ^<operator><KEY><>{1,3}$
    }
  }
}
trust-anchor {
  type file
  file-name CERTIFICATE
}
'''
[[management.authorizations]]
certificate = "CERTIFICATE"
privileges = ["faces", "fib", "cs", "strategy-choice"]
"#;

/// A key with a certificate that it has signed itself.
fn signer(uri: &str) -> (KeySigner, Certificate) {
    let key = Arc::new(PrivateKey::generate(KeyType::Ecdsa).unwrap());
    let name = key_name(uri.parse::<Name>().unwrap().as_ref(), Component::generic(b"k"));
    let now_s = i64::try_from(unix_ms() / 1000).unwrap();
    let options = CertificateOptions {
        issuer_id: SELF,
        version: 1,
        not_before_unix_s: now_s - 60,
        not_after_unix_s: now_s + 3600,
        description: &[],
    };
    let certificate = Certificate::self_sign(name.as_ref(), &key, &options).unwrap();
    (KeySigner::new(key, Locator::Name(name)), certificate)
}

#[expect(clippy::disallowed_methods, reason = "commands are judged by the real clock")]
fn unix_ms() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    u64::try_from(now.as_millis()).unwrap()
}

/// Makes commands, each at a later time than the one before.
struct Commands {
    time_ms: u64,
    operator: KeySigner,
    unknown_peer: KeySigner,
}

impl Commands {
    fn signed(&mut self, top: &str, verb: Verb, uri: &str, signer: &dyn Signer) -> Vec<u8> {
        self.time_ms = unix_ms().max(self.time_ms + 1);
        let nonce = self.time_ms.to_be_bytes();
        let info = SignatureInfo {
            time_ms: Some(self.time_ms),
            nonce: Some(&nonce),
            ..signer.signature_info()
        };
        let name = (verb == Verb::RibRegister).then(|| uri.parse().unwrap());
        let capacity = (verb == Verb::CsConfig).then_some(77);
        let parameters = ControlParameters { name, capacity, ..ControlParameters::default() };
        let sign = |parts: &[&[u8]], out: &mut [u8]| {
            let length = signer.sign(parts, out).ok()?;
            out[length - 1] ^= u8::from(uri.contains("forged"));
            Some(length)
        };
        let builder = CommandBuilder::new(top.parse().unwrap());
        let nonce = u32::try_from(self.time_ms % 1_000_000_007).unwrap();
        builder
            .signed_interest(verb, &parameters, nonce, &info, signer.signature_len_max(), sign)
            .unwrap()
    }

    /// By kind, what is sent.
    fn of(&mut self, kind: &str) -> Vec<u8> {
        let localhost = "/localhost/nfd";
        let mut plain = |uri: &str, parameters: &[u8]| {
            self.time_ms = unix_ms().max(self.time_ms + 1);
            let mut name = wire::name(uri);
            name.push_generic(parameters);
            let nonce = u32::try_from(self.time_ms % 1_000_000_007).unwrap();
            InterestBuilder::new(&name).nonce(nonce).lifetime_ms(1000).to_vec().unwrap()
        };
        let (operator, unknown_peer) = (self.operator.clone(), self.unknown_peer.clone());
        match kind {
            "unsigned" => {
                let mut parameters = Vec::new();
                tlv::append_nested(&mut parameters, 0x68, |out| {
                    tlv::append_name(out, wire::name("/hostile/unsigned").as_ref());
                });
                plain("/localhost/nfd/rib/register", &parameters)
            }
            "malformed" => plain("/localhost/nfd/rib/register", b"\x68\x05\x07\xff\xff\xff\xff"),
            "oversized" => plain("/localhost/nfd/rib/register", &noise(3, 8000)),
            "unknown" => plain("/localhost/nfd/rib/rob", b"\x68\x00"),
            "digest" => self.signed(localhost, Verb::RibRegister, "/hostile/digest", &DigestSigner),
            "other-key" => {
                self.signed(localhost, Verb::RibRegister, "/hostile/unknown", &unknown_peer)
            }
            "other-key-cs" => self.signed(localhost, Verb::CsConfig, "", &unknown_peer),
            "changed" => {
                let mut command =
                    self.signed(localhost, Verb::RibRegister, "/hostile/changed", &operator);
                *command.last_mut().unwrap() ^= 1;
                command
            }
            "forged" => self.signed(localhost, Verb::RibRegister, "/hostile/forged", &operator),
            "localhop" => {
                self.signed("/localhop/nfd", Verb::RibRegister, "/hostile/localhop", &operator)
            }
            "good" => self.signed(localhost, Verb::RibRegister, "/good", &operator),
            _ => unreachable!("{kind}"),
        }
    }
}

trait Face {
    fn send(&mut self, packet: &[u8]);
    /// The next frame.
    fn receive(&mut self) -> Vec<u8>;
}

struct Stream<S>(S);

impl<S: Read + Write> Face for Stream<S> {
    fn send(&mut self, packet: &[u8]) {
        self.0.write_all(packet).unwrap();
    }

    fn receive(&mut self) -> Vec<u8> {
        let mut frame = Vec::new();
        while !matches!(tlv::frame_len(&frame), Ok(Some(length)) if frame.len() >= length) {
            let mut byte = [0];
            self.0.read_exact(&mut byte).unwrap();
            frame.push(byte[0]);
        }
        frame
    }
}

struct Datagrams(UdpSocket);

impl Face for Datagrams {
    fn send(&mut self, packet: &[u8]) {
        self.0.send(packet).unwrap();
    }

    fn receive(&mut self) -> Vec<u8> {
        let mut frame = vec![0; 9000];
        let length = self.0.recv(&mut frame).unwrap();
        frame.truncate(length);
        frame
    }
}

/// A page of this origin in a browser.
struct Page(TcpStream);

impl Page {
    fn open(forwarder: &Endpoint, origin: &str) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", forwarder.port())).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        write!(
            stream,
            "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\
             Origin: {origin}\r\n\r\n"
        )
        .unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            answer.push(byte[0]);
        }
        Self(stream)
    }
}

impl Face for Page {
    fn send(&mut self, packet: &[u8]) {
        let mut frame = vec![0x82, 0x80 | 126];
        frame.extend(u16::try_from(packet.len()).unwrap().to_be_bytes());
        // A mask of zeros changes nothing.
        frame.extend([0; 4]);
        frame.extend(packet);
        self.0.write_all(&frame).unwrap();
    }

    fn receive(&mut self) -> Vec<u8> {
        loop {
            let mut head = [0; 2];
            self.0.read_exact(&mut head).unwrap();
            let mut length = usize::from(head[1]);
            if length == 126 {
                let mut bytes = [0; 2];
                self.0.read_exact(&mut bytes).unwrap();
                length = usize::from(u16::from_be_bytes(bytes));
            }
            let mut frame = vec![0; length];
            self.0.read_exact(&mut frame).unwrap();
            // Pings are passed over.
            if head[0] == 0x82 {
                return frame;
            }
        }
    }
}

/// The outcome of a command for a face: a status code, a Nack, or nothing until the answer to the next Interest.
fn outcome(face: &mut dyn Face, is_local: bool, command: &[u8], mark: u32) -> String {
    // Management answers in order; who is not local is judged before.
    let face_id = Some(u64::from(mark) + 1_000_000);
    let query = Dataset::FaceQuery(FaceQueryFilter { face_id, ..FaceQueryFilter::default() });
    let after = match is_local {
        true => query.prefix(),
        false => wire::name(&format!("/nobody/has/{mark}")),
    };
    face.send(command);
    let interest = InterestBuilder::new(&after).can_be_prefix(true).nonce(mark);
    face.send(&interest.lifetime_ms(60_000).to_vec().unwrap());
    let mut text = "nothing".to_owned();
    loop {
        let frame = face.receive();
        let packet = LpPacket::parse(&frame).unwrap();
        let fragment = packet.fragment().unwrap();
        let (name, answer) = match packet.nack() {
            Some(reason) => {
                let interest = ndn_packet::Interest::parse(fragment).unwrap();
                (interest.name().to_name(), format!("Nack {reason}"))
            }
            None => {
                let data = Data::parse(fragment).unwrap();
                let response = ControlResponse::decode(data.content().unwrap_or_default());
                (
                    data.name().to_name(),
                    response.map_or_else(|_| "Data".to_owned(), |r| r.code.to_string()),
                )
            }
        };
        if name.starts_with(after.as_ref()) {
            return text;
        }
        text = answer;
    }
}

/// The same signed command in another packet, as somebody sends it who has seen the first.
fn replay(command: &[u8]) -> Vec<u8> {
    let nonce = ndn_packet::Interest::parse(command).unwrap().nonce().unwrap();
    let field = [&[0x0a, 4][..], &nonce.to_be_bytes()].concat();
    let at = command.windows(field.len()).position(|window| window == field).unwrap();
    let mut again = command.to_vec();
    again[at + 5] ^= 0xff;
    again
}

fn forwarders(toml: &str) -> [ForwarderProcess; 2] {
    // One worker: what is sent after a command is answered after it.
    [
        Settings::new().tcp().udp().workers(1).toml(toml).start_program(),
        Settings::new().websocket().workers(1).toml(toml).start_program(),
    ]
}

/// Faces, and whether they are local.
fn faces([sockets, pages]: &[ForwarderProcess; 2]) -> Vec<(&'static str, bool, Box<dyn Face>)> {
    let tcp = TcpStream::connect(("127.0.0.1", sockets.port())).unwrap();
    tcp.set_read_timeout(Some(TIMEOUT)).unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.connect(("127.0.0.1", sockets.port())).unwrap();
    udp.set_read_timeout(Some(TIMEOUT)).unwrap();
    let unix = sockets.connect();
    unix.set_read_timeout(Some(TIMEOUT)).unwrap();
    vec![
        ("Unix", true, Box::new(Stream(unix))),
        ("TCP", true, Box::new(Stream(tcp))),
        ("page of this host", true, Box::new(Page::open(pages, "http://localhost"))),
        ("UDP", false, Box::new(Datagrams(udp))),
        ("page of another host", false, Box::new(Page::open(pages, "http://example.com"))),
    ]
}

/// The commands sent, and the answers to local faces: where everybody may, and where only the operator may.
/// A changed packet is none, and who is not heard gets no answer, as in NFD.
const KINDS: [(&str, [&str; 2]); 10] = [
    ("unsigned", ["403", "403"]),
    ("malformed", ["nothing", "nothing"]),
    ("oversized", ["nothing", "nothing"]),
    ("unknown", ["nothing", "nothing"]),
    ("changed", ["nothing", "nothing"]),
    ("localhop", ["Nack NoRoute", "Nack NoRoute"]),
    ("digest", ["200", "403"]),
    ("other-key", ["200", "403"]),
    ("other-key-cs", ["200", "403"]),
    ("forged", ["200", "403"]),
];

/// No other face is answered, and the store never answers for management.
const NO_STORE: &str = "[tables.cs]\ncapacity_packets = 0\n";

/// Asks by all faces; `check_after` while these are still there, and their routes with them.
fn ask_all(
    column: usize,
    toml: &str,
    commands: &mut Commands,
    check_after: impl Fn(&ForwarderProcess),
) {
    let forwarders = forwarders(&format!("{NO_STORE}{toml}"));
    let mut mark = 0;
    let mut faces = faces(&forwarders);
    for (name, is_local, face) in &mut faces {
        let (name, is_local) = (*name, *is_local);
        let mut check = |kind: &str, command: &[u8], expected: &str| {
            mark += 1;
            let expected = match kind {
                _ if is_local => expected,
                "localhop" => "Nack NoRoute",
                _ => "nothing",
            };
            let got = outcome(face.as_mut(), is_local, command, mark);
            assert_eq!(got, expected, "{kind} by {name}, column {column}");
        };
        for (kind, expected) in KINDS {
            check(kind, &commands.of(kind), expected[column]);
        }
        let good = commands.of("good");
        check("good", &good, "200");
        // Where anybody may, a signature proves nothing, old or new.
        check("replayed", &replay(&good), ["200", "403"][column]);
    }
    forwarders.iter().for_each(check_after);
}

#[test]
fn commands_are_answered_by_the_rights_of_each_kind_of_face() {
    let (operator, certificate) = signer("/operator");
    let (unknown_peer, _) = signer("/unknown");
    let mut commands = Commands { time_ms: unix_ms(), operator, unknown_peer };
    ask_all(0, "", &mut commands, |forwarder| {
        let routes = forwarder.output(&["nfdc", "route", "list"]);
        for prefix in ["/good", "/hostile/digest", "/hostile/unknown", "/hostile/forged"] {
            assert!(routes.contains(prefix), "{routes}");
        }
        assert!(!routes.contains("/hostile/unsigned"), "{routes}");
    });

    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("operator.cert");
    std::fs::write(&file, certificate.to_text()).unwrap();
    let rules = RULES.replace("CERTIFICATE", file.to_str().unwrap());
    ask_all(1, &rules, &mut commands, |forwarder| {
        let routes = forwarder.output(&["nfdc", "route", "list"]);
        assert!(routes.contains("/good") && !routes.contains("/hostile"), "{routes}");
        let cs = forwarder.output(&["nfdc", "cs", "info"]);
        assert!(!cs.contains("capacity=77"), "{cs}");
        for signer in ["nobody", "DigestSha256", "/unknown/KEY/k", "/operator/KEY/k"] {
            wait_until(&format!("the refusal of {signer} to be logged"), || {
                let text = forwarder.process.stderr();
                let mut lines = text.lines().filter(|line| line.contains("command rejected"));
                let signer = format!("signer=\"{signer}\"");
                lines.any(|line| line.contains(&signer)).then_some(())
            });
        }
        // What was for local applications alone is counted where it was dropped.
        let workers = forwarder.json(&["workers"]).to_string();
        assert!(workers.contains("\"localhost_scope\""), "{workers}");
    });
}
