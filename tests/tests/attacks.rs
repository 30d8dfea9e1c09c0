//! Attacks that need sockets and a kernel: the service of a bystander before, during and after.
//!
//! The table in `docs/operating/security.md` names the test of each attack.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints what it measures"
)]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use namewire_tests::wire::{data, interest, name};
use namewire_tests::{
    Application, Bridge, Forwarder, Script, Settings, TIMEOUT, forwarder_of_host, host, now,
    station, wait_until, with_hosts,
};
use ndn_management::{CommandBuilder, ControlParameters, Verb};
use ndn_packet::{InterestBuilder, LpHeader};
use rustix::fs::{Gid, Uid};
use rustix::net::{AddressFamily, SocketType};
use rustix::process::Signal;

/// A user without rights.
const NOBODY: u32 = 65_534;
/// Exchanges of a bystander.
const EXCHANGES: u32 = 20;
/// Time within which management answers during an attack.
const ANSWER_TIME_MAX: Duration = Duration::from_millis(100);

#[expect(clippy::disallowed_methods, reason = "commands are judged by the real clock")]
fn unix_ms() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    u64::try_from(now.as_millis()).unwrap()
}

/// A command that registers a prefix, signed as any local application signs it.
fn registration(prefix: &str) -> Vec<u8> {
    let parameters = ControlParameters { name: Some(name(prefix)), ..ControlParameters::default() };
    CommandBuilder::new(name("/localhost/nfd"))
        .digest_signed_interest(Verb::RibRegister, &parameters, unix_ms(), unix_ms())
        .unwrap()
}

fn connect(forwarder: &Forwarder) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", forwarder.port())).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
}

fn has_route(forwarder: &Forwarder, prefix: &str) -> bool {
    forwarder.output(&["route", "list"]).contains(prefix)
}

/// Sends the request of a browser for `fetch(url, { method: "POST", mode: "no-cors", body })`.
fn post(forwarder: &Forwarder, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST / HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: keep-alive\r\nContent-Length: {}\r\n\
         Content-Type: text/plain;charset=UTF-8\r\nOrigin: http://page.example\r\n\r\n",
        forwarder.port(),
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// A reader that skips unknown elements finds the command: whatever element the head ends in, padding of elements of
/// three bytes and two lengths leads to the start of the command for one of three offsets.
#[test]
fn web_page_that_posts_to_the_tcp_port_registers_no_prefix() {
    let forwarder = Settings::new().tcp().start();
    for offset in 0..3 {
        let prefix = format!("/attack/post/{offset}");
        let padding = [&vec![b' '; offset][..], &b"\x21\x01\x20".repeat(100)].concat();
        let mut stream = connect(&forwarder);
        // The forwarder closes after the first byte, so it may not take the rest.
        let _ = stream.write_all(&post(&forwarder, &[padding, registration(&prefix)].concat()));
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty(), "{answer:?}");
        assert!(!has_route(&forwarder, &prefix));
    }
    // The same command by itself is that of a local application.
    let mut stream = connect(&forwarder);
    stream.write_all(&registration("/attack/direct")).unwrap();
    stream.read_exact(&mut [0]).unwrap();
    assert!(has_route(&forwarder, "/attack/direct"));
}

/// A connection whose socket belongs to this user.
fn connect_as(forwarder: &Forwarder, user: u32) -> TcpStream {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    let (user, group) = (Uid::from_raw(user), Gid::from_raw(user));
    rustix::fs::fchown(&socket, Some(user), Some(group)).unwrap();
    let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, forwarder.port());
    rustix::net::connect(&socket, &address).unwrap();
    TcpStream::from(socket)
}

#[test]
fn loopback_tcp_is_local_for_users_of_the_unix_socket() {
    if !rustix::process::geteuid().is_root() {
        return namewire_tests::skip("root", "only root can connect as another user");
    }
    let settings = |name, toml| Settings::new().tcp().listener(name, toml).start();
    for (forwarder, nobody_is_local) in [
        // The directory of the socket is open to others.
        (settings("tcp", ""), true),
        (settings("unix", "mode = \"0600\""), false),
        (settings("tcp", "local_users = []"), false),
        (settings("tcp", "local_users = [\"65534\"]"), true),
    ] {
        for (user, is_local) in [(0, true), (NOBODY, nobody_is_local)] {
            let mut stream = connect_as(&forwarder, user);
            let uri = format!("tcp4://{}", stream.local_addr().unwrap());
            let face = wait_until("the face", || {
                let faces = forwarder.json(&["face", "list"]);
                let mut faces = faces.as_array().unwrap().iter();
                faces.find(|face| face["remote_uri"] == uri).cloned()
            });
            assert_eq!(face["scope"] == "local", is_local, "user {user}: {face}");
            let prefix = format!("/attack/user/{user}");
            stream.write_all(&registration(&prefix)).unwrap();
            if is_local {
                stream.set_read_timeout(Some(TIMEOUT)).unwrap();
                stream.read_exact(&mut [0]).unwrap();
            }
            assert_eq!(has_route(&forwarder, &prefix), is_local, "user {user}");
        }
    }
}

/// A neighbour that sends Interests in fragments by UDP.
struct Bystander {
    socket: UdpSocket,
    sequence: u64,
}

impl Bystander {
    fn new(forwarder: &Forwarder) -> Self {
        Self { socket: udp(forwarder, Ipv4Addr::LOCALHOST), sequence: 1 }
    }

    /// Number of Interests in two fragments that the producer has answered. An Interest is sent twice at most: the
    /// kernel drops datagrams when the flood fills the socket, which no forwarder can prevent.
    fn exchanges(&mut self, producer: &mut Application, mut before_each: impl FnMut()) -> u32 {
        let mut answered = 0;
        for number in 0..EXCHANGES {
            let uri = format!("/bystander/{}/{}", "x".repeat(3000), self.sequence);
            let is_answered = (0..2).any(|attempt| {
                before_each();
                let interest = interest(&uri, attempt * EXCHANGES + number);
                let (first, second) = interest.split_at(1500);
                self.socket.send(&fragment(self.sequence, 0, 2, first)).unwrap();
                before_each();
                self.socket.send(&fragment(self.sequence + 1, 1, 2, second)).unwrap();
                self.sequence += 2;
                if producer.try_receive(TIMEOUT / 10).is_none() {
                    return false;
                }
                producer.answer(&uri, b"yes", None);
                self.socket.recv(&mut [0; 9000]).is_ok()
            });
            answered += u32::from(is_answered);
        }
        answered
    }
}

fn udp(forwarder: &Forwarder, address: Ipv4Addr) -> UdpSocket {
    let socket = UdpSocket::bind((address, 0)).unwrap();
    socket.connect(("127.0.0.1", forwarder.port())).unwrap();
    socket.set_read_timeout(Some(TIMEOUT / 10)).unwrap();
    socket
}

fn fragment(sequence: u64, index: u64, count: u64, payload: &[u8]) -> Vec<u8> {
    let header = LpHeader {
        sequence: Some(sequence),
        frag_index: Some(index),
        frag_count: Some(count),
        ..LpHeader::default()
    };
    let mut buffer = [0; 64];
    let length = header.write_prefix(payload.len(), &mut buffer).unwrap();
    [&buffer[..length], payload].concat()
}

/// A peer, by the transport that it uses.
enum Peer {
    Udp(UdpSocket),
    Tcp(TcpStream),
    Unix(UnixStream),
    WebSocket(TcpStream),
}

impl Peer {
    fn new(transport: &str, forwarder: &Forwarder, address: Ipv4Addr) -> Self {
        match transport {
            "udp" => Self::Udp(udp(forwarder, address)),
            "tcp" => Self::Tcp(connect_from(forwarder, address)),
            "unix" => Self::Unix(connect_as_user(forwarder, NOBODY)),
            "websocket" => Self::WebSocket(websocket(forwarder, address)),
            other => panic!("{other}"),
        }
    }

    /// The kernel may have no room for a datagram.
    fn send(&mut self, frame: &[u8]) {
        match self {
            Self::Udp(socket) => drop(socket.send(frame)),
            Self::Tcp(stream) => stream.write_all(frame).unwrap(),
            Self::Unix(stream) => stream.write_all(frame).unwrap(),
            Self::WebSocket(stream) => stream.write_all(&websocket_message(frame)).unwrap(),
        }
    }

    /// Whether an answer arrives in time.
    fn is_answered(&mut self) -> bool {
        let answer = &mut [0; 9000];
        let length = match self {
            Self::Udp(socket) => socket.recv(answer),
            Self::Tcp(stream) | Self::WebSocket(stream) => stream.read(answer),
            Self::Unix(stream) => stream.read(answer),
        };
        length.is_ok_and(|length| length > 0)
    }
}

/// A connection of a thread of this user to the Unix socket.
fn connect_as_user(forwarder: &Forwarder, user: u32) -> UnixStream {
    forwarder.open_to_users();
    let connect = || {
        rustix::thread::set_thread_uid(Uid::from_raw(user)).unwrap();
        forwarder.connect()
    };
    std::thread::scope(|scope| scope.spawn(connect).join().unwrap())
}

/// A TCP connection from an address.
fn connect_from(forwarder: &Forwarder, address: Ipv4Addr) -> TcpStream {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddrV4::new(address, 0)).unwrap();
    let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, forwarder.port());
    rustix::net::connect(&socket, &address).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(TIMEOUT / 10)).unwrap();
    stream
}

/// Asserts that management has answered in time: half of the answers, because the machine may be busy with other tests.
fn assert_in_time(mut answers: Vec<Duration>, when: &str) {
    answers.sort_unstable();
    let (median, slowest) = (answers[answers.len() / 2], answers[answers.len() - 1]);
    println!("{} answers of management in {median:?}, {slowest:?} at most, {when}", answers.len());
    assert!(median < ANSWER_TIME_MAX, "{median:?}, {when}");
}

/// A neighbour at an address of its own and a local application exchange plain Interests and Data with the producer.
/// Meanwhile the application sends commands, which are to be answered in time.
struct Others {
    neighbour: Peer,
    application: Application,
    producer: Application,
    nonce: u32,
}

impl Others {
    fn new(forwarder: &Forwarder, transport: &str) -> Self {
        let neighbour = Peer::new(transport, forwarder, host(3));
        let mut producer = Application::attach(forwarder.socket());
        producer.register("/bystander", 1);
        let application = Application::attach(forwarder.socket());
        Self { neighbour, application, producer, nonce: 0 }
    }

    /// Number of exchanges that succeed, of twice [`EXCHANGES`]. The neighbour sends twice at most: the kernel drops
    /// datagrams when a flood fills the socket.
    fn exchanges(&mut self) -> u32 {
        let (mut answered, mut answers) = (0, Vec::new());
        for _ in 0..EXCHANGES {
            self.nonce += 1;
            let asked = now();
            self.application.register("/answers", 1);
            answers.push(asked.elapsed());
            let uri = format!("/bystander/neighbour/{}", self.nonce);
            answered += u32::from((0..2).any(|attempt| {
                let wire = interest(&uri, attempt << 16 | self.nonce);
                self.neighbour.send(&wire);
                if self.producer.try_receive(TIMEOUT / 10).is_none() {
                    return false;
                }
                self.producer.answer(&uri, b"yes", None);
                self.neighbour.is_answered()
            }));
            let uri = format!("/bystander/application/{}", self.nonce);
            self.application.express(&uri, self.nonce);
            if self.producer.try_receive(TIMEOUT / 10).is_some() {
                self.producer.answer(&uri, b"yes", None);
                answered += u32::from(self.application.try_receive(TIMEOUT / 10).is_some());
            }
        }
        assert_in_time(answers, &format!("exchange {}", self.nonce));
        answered
    }
}

/// The used units of a resource, and those that peers can use at most.
fn used_and_open(limits: &serde_json::Value, resource: &str) -> (u64, u64) {
    let table = &limits["tables"][resource];
    let reserves = table["reserves"].as_object().unwrap().values();
    let reserved: u64 = reserves.map(|places| places.as_u64().unwrap()).sum();
    (table["used"].as_u64().unwrap(), table["capacity"].as_u64().unwrap() - reserved)
}

/// As [`used_and_open`], of entries of the PIT.
fn pit(forwarder: &Forwarder) -> (u64, u64) {
    used_and_open(&forwarder.json(&["limits"]), "pit_entries")
}

/// Line 1: Interests that nobody answers fill the PIT.
#[test]
fn flood_over_each_transport_leaves_service_to_others() {
    with_hosts(|| {
        let settings = |workers, has_udp| {
            let settings = Settings::new().tcp().workers(workers);
            let settings = if has_udp { settings.udp() } else { settings.webtransport() };
            settings.listener("tcp", "local_users = []").toml("[tables]\npit_capacity = 3000")
        };
        for workers in [1, 3] {
            for transport in ["udp", "tcp", "unix", "memif", "webtransport"] {
                let has_udp = transport != "webtransport";
                let directory = tempfile::tempdir().unwrap();
                let memif = directory.path().join("memif.sock");
                let listener = format!("[listeners.memif]\nenabled = true\npath = {memif:?}\n");
                let forwarder = settings(workers, has_udp).toml(&listener).start();
                let address = match transport {
                    "udp" => format!("udp4://127.0.0.1:{}", forwarder.port()),
                    "tcp" => forwarder.tcp(),
                    "unix" => forwarder.unix(),
                    "webtransport" => forwarder.webtransport(),
                    _ => format!("memif://{}", memif.display()),
                };
                let udp_hole = UdpSocket::bind("127.0.0.1:0").unwrap();
                let tcp_hole = TcpListener::bind("127.0.0.1:0").unwrap();
                let hole = match has_udp {
                    true => format!("udp4://{}", udp_hole.local_addr().unwrap()),
                    false => format!("tcp4://{}", tcp_hole.local_addr().unwrap()),
                };
                let _ = forwarder.output(&["route", "add", "/hole", &hole]);
                let mut others = Others::new(&forwarder, if has_udp { "udp" } else { "tcp" });
                assert_eq!(others.exchanges(), 2 * EXCHANGES, "before, {transport}");
                let flood = ["--rate", "5000", "--lifetime", "60s", "--faces", "4"];
                let consumer = ["traffic", "consumer", "/hole", "--transport", &address];
                let mut attack = forwarder.spawn("attack", &[&consumer[..], &flood].concat());
                wait_until("a full PIT", || {
                    let (used, open) = pit(&forwarder);
                    (used * 100 > open * 97).then_some(())
                });
                let during = others.exchanges();
                assert_eq!(during, 2 * EXCHANGES, "during, {transport}, {workers} workers");
                attack.signal(Signal::KILL);
                attack.wait();
                assert_eq!(others.exchanges(), 2 * EXCHANGES, "after, {transport}");
                let is_over = || (pit(&forwarder).0 < 100).then_some(());
                // Peers over UDP and WebTransport do not take their leave: their Interests last a minute.
                if !matches!(transport, "udp" | "webtransport") {
                    wait_until("the end of the Interests of closed faces", is_over);
                }
            }
        }
    });
}

/// A WebSocket that is not local, from an address.
fn websocket(forwarder: &Forwarder, address: Ipv4Addr) -> TcpStream {
    let mut stream = connect_from(forwarder, address);
    let request = "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        answer.extend(byte);
    }
    stream
}

/// A message of a WebSocket client, with a mask of zeros.
fn websocket_message(payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).unwrap().to_be_bytes();
    [&[0x82, 0x80 | 126][..], &length, &[0; 4], payload].concat()
}

/// Line 1, from a web page or a program that connects as one.
#[test]
fn flood_over_websocket_leaves_service_to_others() {
    with_hosts(|| {
        for workers in [1, 3] {
            let settings = Settings::new().udp().websocket().workers(workers);
            let settings = settings.listener("websocket", "local_users = []");
            let forwarder = settings.toml("[tables]\npit_capacity = 3000").start();
            let hole = UdpSocket::bind("127.0.0.1:0").unwrap();
            let hole = format!("udp4://{}", hole.local_addr().unwrap());
            let _ = forwarder.output(&["route", "add", "/hole", &hole]);
            let mut others = Others::new(&forwarder, "udp");
            assert_eq!(others.exchanges(), 2 * EXCHANGES, "before");
            let mut pages: Vec<_> =
                (0..4).map(|_| websocket(&forwarder, Ipv4Addr::LOCALHOST)).collect();
            for number in 0..4000_u32 {
                let name = name(&format!("/hole/{number}"));
                let builder = InterestBuilder::new(&name).nonce(number).lifetime_ms(60_000);
                let message = websocket_message(&builder.to_vec().unwrap());
                pages[number as usize % 4].write_all(&message).unwrap();
            }
            wait_until("a full PIT", || {
                let (used, open) = pit(&forwarder);
                (used * 100 > open * 97).then_some(())
            });
            assert_eq!(others.exchanges(), 2 * EXCHANGES, "during, {workers} workers");
            drop(pages);
            wait_until("the end of the Interests of closed faces", || {
                (pit(&forwarder).0 < 100).then_some(())
            });
            assert_eq!(others.exchanges(), 2 * EXCHANGES, "after");
        }
    });
}

/// Sends Interests of 60 s with ever new names from a host on the bridge, from `attack` until `end`.
const FLOOD: &str = r"
import os, socket, time
while not os.path.exists('attack'): time.sleep(0.05)
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
link.bind(('eth0', 0))
number = 0
while not os.path.exists('end'):
    number += 1
    name = b'\x08\x04hole\x08\x06%06d' % number
    rest = b'\x0a\x04' + number.to_bytes(4, 'big') + b'\x0c\x02\xea\x60'
    body = b'\x07' + bytes([len(name)]) + name + rest
    packet = b'\x05' + bytes([len(body)]) + body
    frame = bytes.fromhex('020000000001' '020000000002' '8624') + packet
    link.send(frame.ljust(60, b'\x00'))
    if number % 50 == 0: time.sleep(0.01)
";

/// Line 1, from a station on the same link.
#[test]
fn flood_over_ethernet_leaves_service_to_others() {
    for victim in [victim::<1> as Script, victim::<3>] {
        flood_over_ethernet(victim);
    }
}

/// The forwarder under attack, with this number of workers.
fn victim<const WORKERS: usize>(directory: &Path, host: usize) -> String {
    let more = "driver = \"packet\"\n[tables]\npit_capacity = 3000";
    let command = forwarder_of_host(directory, host, more);
    let path = directory.join(format!("host{host}.toml"));
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("workers = 1", &format!("workers = {WORKERS}"))).unwrap();
    format!("exec {command}\n")
}

fn flood_over_ethernet(victim: Script) {
    let attacker: Script = |directory, _| {
        std::fs::write(directory.join("flood.py"), FLOOD).unwrap();
        "exec python3 flood.py\n".to_owned()
    };
    let bystander: Script = |directory, host| {
        format!("exec {}\n", forwarder_of_host(directory, host, "driver = \"packet\""))
    };
    let Some(bridge) = Bridge::new(&[victim, attacker, bystander]) else { return };
    // A station that does not exist.
    wait_until("the first forwarder", || {
        let made = bridge.run(1, &["face", "create", &station(9), "dev://eth0"]);
        made.status.success().then_some(())
    });
    bridge.succeed(1, &["route", "add", "/hole", &station(9)]);
    let server = bridge.ping_server(1, "/bystander");
    wait_until("the forwarder of the bystander", || {
        let made = bridge.run(3, &["face", "create", &station(1), "dev://eth0"]);
        made.status.success().then_some(())
    });
    bridge.succeed(3, &["route", "add", "/bystander", &station(1)]);
    bridge.ping_often(3, "/bystander");
    std::fs::write(bridge.path("attack"), "").unwrap();
    wait_until("a full PIT", || {
        let limits = bridge.run(1, &["limits", "--json"]);
        let limits: serde_json::Value = serde_json::from_slice(&limits.stdout).ok()?;
        let (used, open) = used_and_open(&limits, "pit_entries");
        (used * 100 > open * 97).then_some(())
    });
    for _ in 0..5 {
        bridge.ping_often(3, "/bystander");
    }
    std::fs::write(bridge.path("end"), "").unwrap();
    bridge.ping_often(3, "/bystander");
    drop(server);
}

/// Line 3: 34 ports of one address, or connections of a user, send first fragments of messages that are never completed.
#[test]
fn first_fragments_of_one_address_leave_room_for_a_neighbour() {
    // As many as fill the memory of eight workers.
    let many = "[limits]\nreassembly_packets = 512\nreassembly_timeout = \"10s\"";
    let settings = |workers| Settings::new().udp().workers(workers).toml(many);
    let tcp = |workers| settings(workers).tcp().listener("tcp", "local_users = []");
    let websocket =
        |workers| settings(workers).websocket().listener("websocket", "local_users = []");
    with_hosts(|| {
        for workers in [1, 3, 8] {
            send_first_fragments(workers, "udp", &settings(workers));
            send_first_fragments(workers, "tcp", &tcp(workers));
            send_first_fragments(workers, "unix", &settings(workers));
            send_first_fragments(workers, "websocket", &websocket(workers));
        }
    });
}

fn send_first_fragments(workers: usize, transport: &str, settings: &Settings) {
    let forwarder = settings.start();
    let mut producer = Application::attach(forwarder.socket());
    producer.register("/bystander", 1);
    let mut bystander = Bystander::new(&forwarder);
    assert_eq!(bystander.exchanges(&mut producer, || {}), EXCHANGES, "before, {transport}");
    let mut ports: Vec<_> = (0..34).map(|_| Peer::new(transport, &forwarder, host(2))).collect();
    let (payload, mut message) = (vec![6; 8000], 0);
    let mut flood = || {
        for port in &mut ports {
            for _ in 0..4 {
                message += 1;
                port.send(&fragment(message * 1000, 0, 2, &payload));
            }
        }
    };
    wait_until("full memory for fragments", || {
        for _ in 0..4 {
            flood();
        }
        let limits = forwarder.json(&["limits"]);
        let (used, open) = used_and_open(&limits, "reassembly_bytes");
        // Ports are not divided evenly over the workers.
        (used * 100 > open * if workers == 1 { 97 } else { 60 }).then_some(())
    });
    let during = bystander.exchanges(&mut producer, flood);
    assert_eq!(during, EXCHANGES, "during, {transport}, {workers} workers");
    assert_eq!(bystander.exchanges(&mut producer, || {}), EXCHANGES, "after, {transport}");
}

/// Ends the threads of an attack, also if the test fails.
struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A host and a user connect and close as fast as they can, with a reset, so that no port remains in use.
#[test]
fn connections_that_come_and_go_leave_service_to_others() {
    with_hosts(|| {
        for workers in [1, 3] {
            let settings = Settings::new().udp().tcp().workers(workers);
            let forwarder = settings.listener("tcp", "local_users = []").start();
            forwarder.open_to_users();
            let mut others = Others::new(&forwarder, "tcp");
            assert_eq!(others.exchanges(), 2 * EXCHANGES, "before");
            let (is_over, connections) = (AtomicBool::new(false), AtomicU64::new(0));
            let repeat = |connect: &dyn Fn() -> bool| {
                while !is_over.load(Ordering::Relaxed) {
                    connections.fetch_add(u64::from(connect()), Ordering::Relaxed);
                }
            };
            let during = std::thread::scope(|scope| {
                let _end = EndOnDrop(&is_over);
                scope.spawn(|| repeat(&|| connect_and_reset(forwarder.port()).is_ok()));
                scope.spawn(|| {
                    rustix::thread::set_thread_uid(Uid::from_raw(NOBODY)).unwrap();
                    repeat(&|| UnixStream::connect(forwarder.socket()).is_ok());
                });
                wait_until("a thousand connections", || {
                    (connections.load(Ordering::Relaxed) > 1000).then_some(())
                });
                let during = others.exchanges();
                // A neighbour that connects meanwhile.
                others.neighbour = Peer::new("tcp", &forwarder, host(4));
                (during, others.exchanges())
            });
            println!("{} connections, {workers} workers", connections.into_inner());
            assert_eq!(during, (2 * EXCHANGES, 2 * EXCHANGES), "during, {workers} workers");
            assert_eq!(others.exchanges(), 2 * EXCHANGES, "after");
        }
    });
}

/// A TCP connection that ends at once.
fn connect_and_reset(port: u16) -> Result<(), rustix::io::Errno> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
    rustix::net::bind(&socket, &SocketAddrV4::new(host(2), 0))?;
    rustix::net::connect(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
    rustix::net::sockopt::set_socket_linger(&socket, Some(Duration::ZERO))
}

/// 16 connections of one user bring Data that nobody has asked for, as fast as possible. Faces that bring Data come before
/// those that bring Interests.
#[test]
fn data_that_nobody_asked_for_leaves_service_to_others() {
    with_hosts(|| {
        let flood = data("/unsolicited", b"").repeat(1000);
        for workers in [1, 3] {
            let forwarder = Settings::new().udp().workers(workers).start();
            let mut others = Others::new(&forwarder, "udp");
            assert_eq!(others.exchanges(), 2 * EXCHANGES, "before");
            let is_over = AtomicBool::new(false);
            let during = std::thread::scope(|scope| {
                let _end = EndOnDrop(&is_over);
                for _ in 0..16 {
                    let mut stream = connect_as_user(&forwarder, NOBODY);
                    stream.set_write_timeout(Some(TIMEOUT / 100)).unwrap();
                    let (is_over, flood) = (&is_over, &flood);
                    scope.spawn(move || {
                        // A write may end within a Data.
                        let mut sent = 0;
                        while !is_over.load(Ordering::Relaxed) {
                            sent = (sent + stream.write(&flood[sent..]).unwrap_or(0)) % flood.len();
                        }
                    });
                }
                others.exchanges()
            });
            assert_eq!(during, 2 * EXCHANGES, "during, {workers} workers");
            assert_eq!(others.exchanges(), 2 * EXCHANGES, "after");
        }
    });
}

/// One user sends valid commands as fast as possible, from two connections: more than management executes, and more than
/// the queue before it has places for.
#[test]
fn commands_of_one_user_leave_those_of_another_answered() {
    if !rustix::process::geteuid().is_root() {
        return namewire_tests::skip("root", "only root can connect as another user");
    }
    for workers in [1, 3] {
        let forwarder = Settings::new().workers(workers).start();
        let mut bystander = Application::attach(forwarder.socket());
        let commands: Vec<Vec<u8>> = (0..20_000_u64)
            .map(|number| {
                let parameters = ControlParameters {
                    name: Some(name("/attack/commands")),
                    ..ControlParameters::default()
                };
                CommandBuilder::new(name("/localhost/nfd"))
                    .digest_signed_interest(Verb::RibRegister, &parameters, number, unix_ms())
                    .unwrap()
            })
            .collect();
        let (mut slowest, mut answered) = (Duration::ZERO, 0);
        std::thread::scope(|scope| {
            let flood = |half: &[Vec<u8>]| {
                let (mut stream, own) = (connect_as_user(&forwarder, NOBODY), half.concat());
                // The forwarder ends before if the test fails.
                move || drop(stream.write_all(&own))
            };
            let (first, second) = commands.split_at(commands.len() / 2);
            let attacks = [first, second].map(|half| scope.spawn(flood(half)));
            while attacks.iter().any(|attack| !attack.is_finished()) || answered < EXCHANGES {
                let asked = now();
                bystander.register("/bystander", 0);
                slowest = slowest.max(asked.elapsed());
                answered += 1;
            }
        });
        println!("{answered} commands of the bystander, {slowest:?} at most, {workers} workers");
        assert!(slowest < TIMEOUT / 10, "{slowest:?}, {workers} workers");
    }
}

/// A choice for `/` visits all entries of the FIB. One user sends such commands as fast as possible.
#[test]
fn strategy_choices_of_one_user_leave_commands_of_another_answered() {
    if !rustix::process::geteuid().is_root() {
        return namewire_tests::skip("root", "only root can connect as another user");
    }
    let forwarder = Settings::new().start();
    let mut bystander = Application::attach(forwarder.socket());
    (0..4000).for_each(|number| bystander.register(&format!("/routes/{number}"), 0));
    let mut user = connect_as_user(&forwarder, NOBODY);
    user.set_read_timeout(Some(TIMEOUT)).unwrap();
    let choice = |number: u64| {
        let strategy = ["best-route", "multicast"][usize::from(number % 2 == 1)];
        let parameters = ControlParameters {
            name: Some(name("/")),
            strategy: Some(name(&format!("/localhost/nfd/strategy/{strategy}"))),
            ..ControlParameters::default()
        };
        CommandBuilder::new(name("/localhost/nfd"))
            .digest_signed_interest(Verb::StrategySet, &parameters, number, unix_ms())
            .unwrap()
    };
    let began = now();
    for number in 0..8 {
        user.write_all(&choice(number)).unwrap();
        assert!(user.read(&mut [0; 8800]).unwrap() > 0);
    }
    let alone = began.elapsed() / 8;
    let choices: Vec<u8> = (8..400).flat_map(choice).collect();
    let (mut slowest, mut answered) = (Duration::ZERO, 0);
    std::thread::scope(|scope| {
        let attack = scope.spawn(|| {
            user.write_all(&choices).unwrap();
            user.set_read_timeout(Some(TIMEOUT / 30)).unwrap();
            while user.read(&mut [0; 65_536]).is_ok_and(|length| length > 0) {}
        });
        while !attack.is_finished() || answered < EXCHANGES {
            let asked = now();
            bystander.register("/bystander", 0);
            slowest = slowest.max(asked.elapsed());
            answered += 1;
        }
    });
    println!("{alone:?} for one choice, {slowest:?} at most for {answered} others");
    assert!(slowest < alone * 20 + TIMEOUT / 150, "{slowest:?}, {alone:?} for one choice");
}
