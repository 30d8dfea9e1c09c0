//! Attacks that need sockets and a kernel: the service of a bystander before, during and after.
//!
//! The table in `docs/operating/security.md` names the test of each attack.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints what it measures"
)]

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use namewire_tests::wire::{data, data_with_freshness, interest, name};
use namewire_tests::{
    Application, Bridge, Endpoint, ForwarderProcess, Identity, Received, Script, Settings, TIMEOUT,
    Topology, forwarder_of_host, host, now, program, signed_registration, station, unix_ms,
    wait_for, wait_until, with_hosts,
};
use ndn_management::{CommandBuilder, ControlParameters, ControlResponse, Verb, route_origin};
use ndn_packet::{
    Data, Interest, InterestBuilder, KeyLocator, LpHeader, LpPacket, Name, SignatureInfo,
    SignatureType,
};
use rustix::fs::{Gid, Uid};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::Signal;

/// A user without rights.
pub(super) const NOBODY: u32 = 65_534;
/// Exchanges of a bystander.
const EXCHANGES: u32 = 20;
/// Commands of a bystander for each exchange.
const COMMANDS: u32 = 3;
/// Attempts with an Interest that the kernel may drop, with the time that each is waited for.
const ATTEMPTS: [(u32, Duration); 2] =
    [(0, Duration::from_secs(TIMEOUT.as_secs() / 10)), (1, TIMEOUT)];
/// Time within which management answers during an attack.
const ANSWER_TIME_MAX: Duration = Duration::from_millis(100);

/// Share of the time for which threads may wait for a processor, of a machine on which management answers in time.
const PRESSURE_MAX: f64 = 0.5;
/// Factor on that time on a machine with more.
const BUSY_FACTOR: u32 = 30;

/// A command that registers a prefix, signed as any local application signs it.
fn registration(prefix: &str) -> Vec<u8> {
    let parameters = ControlParameters { name: Some(name(prefix)), ..ControlParameters::default() };
    CommandBuilder::new(name("/localhost/nfd"))
        .digest_signed_interest(Verb::RibRegister, &parameters, unix_ms(), unix_ms())
        .unwrap()
}

fn connect(forwarder: &Endpoint) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", forwarder.port())).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
}

fn has_route(forwarder: &Endpoint, prefix: &str) -> bool {
    forwarder.output(&["route", "list"]).contains(prefix)
}

/// Sends the request of a browser for `fetch(url, { method: "POST", mode: "no-cors", body })`.
fn post(forwarder: &Endpoint, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST / HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: keep-alive\r\nContent-Length: {}\r\n\
         Content-Type: text/plain;charset=UTF-8\r\nOrigin: http://page.example\r\n\r\n",
        forwarder.port(),
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// Posts a command that registers this prefix. A reader that skips unknown elements finds it: whatever element the head ends
/// in, padding of elements of three bytes and two lengths leads to the start of the command for one of three offsets. The body
/// has the same length for all, because its digits in the head are lengths of elements, too.
pub(super) fn post_command(forwarder: &Endpoint, offset: usize, prefix: &str) {
    let padding = [&vec![b' '; offset][..], &b"\x21\x01\x20".repeat(100)].concat();
    // The browser of another user, where this program can act for one.
    let mut stream = match rustix::process::geteuid().is_root() {
        true => connect_as(forwarder, NOBODY),
        false => connect(forwarder),
    };
    // The forwarder closes after the first byte, so it may not take the rest.
    let body = [padding, registration(prefix), vec![b' '; 2 - offset]].concat();
    let _ = stream.write_all(&post(forwarder, &body));
    let mut answer = Vec::new();
    let end = stream.read_to_end(&mut answer);
    assert!(answer.is_empty(), "{answer:?}");
    let stays_open = end.is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
    assert!(!stays_open, "the connection stays open");
}

/// Line 2.
#[test]
fn web_page_that_posts_to_the_tcp_port_registers_no_prefix() {
    for workers in [1, 3] {
        let forwarder = Settings::new().tcp().udp().workers(workers).start();
        let mut others = Others::at(&forwarder, "udp", Ipv4Addr::LOCALHOST);
        assert_eq!(others.exchanges(), 2 * EXCHANGES, "before");
        let is_over = AtomicBool::new(false);
        let during = std::thread::scope(|scope| {
            let _end = EndOnDrop(&is_over);
            let posts = |number: usize| {
                post_command(&forwarder, number % 3, &format!("/attack/post/{number}"));
            };
            (0..3).for_each(posts);
            let is_over = &is_over;
            scope.spawn(move || {
                (3..).take_while(|_| !is_over.load(Ordering::Relaxed)).for_each(posts);
            });
            others.exchanges()
        });
        assert_eq!(during, 2 * EXCHANGES, "during, {workers} workers");
        assert!(!has_route(&forwarder, "/attack/post"));
        wait_until_given_back(&forwarder);
        // The same command by itself is that of a local application.
        let mut stream = connect(&forwarder);
        stream.write_all(&registration("/attack/direct")).unwrap();
        stream.read_exact(&mut [0]).unwrap();
        assert!(has_route(&forwarder, "/attack/direct"));
        assert_eq!(others.exchanges(), 2 * EXCHANGES, "after");
    }
}

/// A connection whose socket belongs to this user.
fn connect_as(forwarder: &Endpoint, user: u32) -> TcpStream {
    let socket = tcp_socket().unwrap();
    let (user, group) = (Uid::from_raw(user), Gid::from_raw(user));
    rustix::fs::fchown(&socket, Some(user), Some(group)).unwrap();
    let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, forwarder.port());
    rustix::net::connect(&socket, &address).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
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
    commands: Commands,
}

impl Bystander {
    fn new(forwarder: &Endpoint) -> Self {
        let commands = Commands::new(forwarder);
        Self { socket: udp(forwarder, Ipv4Addr::LOCALHOST), sequence: 1, commands }
    }

    /// Number of Interests in two fragments that the producer has answered, up to the first that it has not. An Interest is
    /// sent twice at most: the kernel drops datagrams when the flood fills the socket, which no forwarder can prevent.
    fn exchanges(&mut self, producer: &mut Application, mut before_each: impl FnMut()) -> u32 {
        for number in 0..EXCHANGES {
            self.commands.ask();
            let uri = format!("/bystander/{}/{}", "x".repeat(3000), self.sequence);
            let is_answered = ATTEMPTS.into_iter().any(|(attempt, timeout)| {
                before_each();
                let interest = long_interest(&uri, attempt * EXCHANGES + number);
                let (first, second) = interest.split_at(1500);
                self.socket.send(&fragment(self.sequence, 0, 2, first)).unwrap();
                before_each();
                self.socket.send(&fragment(self.sequence + 1, 1, 2, second)).unwrap();
                self.sequence += 2;
                if !receives(producer, &uri, timeout) {
                    return false;
                }
                producer.answer(&uri, b"yes", None);
                self.socket.recv(&mut [0; 9000]).is_ok()
            });
            if !is_answered {
                return number;
            }
        }
        self.commands.assert_in_time();
        EXCHANGES
    }
}

fn udp(forwarder: &Endpoint, address: Ipv4Addr) -> UdpSocket {
    let socket = UdpSocket::bind((address, 0)).unwrap();
    socket.connect(("127.0.0.1", forwarder.port())).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    socket
}

/// As [`interest`], pending for longer than the test waits.
fn long_interest(uri: &str, nonce: u32) -> Vec<u8> {
    let lifetime_ms = 2 * u64::try_from(TIMEOUT.as_millis()).unwrap();
    InterestBuilder::new(&name(uri)).nonce(nonce).lifetime_ms(lifetime_ms).to_vec().unwrap()
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

/// Transports of attackers, in this order. Peers over UDP are last: they do not take their leave.
const TRANSPORTS: [&str; 4] = ["tcp", "unix", "websocket", "udp"];

/// A forwarder for all of [`TRANSPORTS`], to which connections from this host are as those of other hosts.
fn forwarder_of_all_transports(workers: usize, toml: &str) -> ForwarderProcess {
    settings_of_all_transports(workers, toml).start_program()
}

fn settings_of_all_transports(workers: usize, toml: &str) -> Settings {
    let settings = Settings::new().udp().tcp().websocket().workers(workers);
    settings.listener("tcp", "local_users = []").toml(toml)
}

/// A peer, by the transport that it uses.
pub(super) enum Peer {
    Udp(UdpSocket),
    Tcp(TcpStream),
    Unix(UnixStream),
    WebSocket(TcpStream),
}

impl Peer {
    pub(super) fn new(transport: &str, forwarder: &Endpoint, address: Ipv4Addr) -> Self {
        match transport {
            "udp" => Self::Udp(udp(forwarder, address)),
            "tcp" => Self::Tcp(connect_from(address, forwarder.port())),
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

    /// Ends the face. An operator does it for peers over UDP.
    fn close(self, forwarder: &Endpoint) {
        if let Self::Udp(socket) = self {
            let uri = format!("udp4://{}", socket.local_addr().unwrap());
            // The forwarder may have ended it before.
            let _ = forwarder.run(&["face", "destroy", &uri]);
        }
    }

    /// Whether an answer arrives in time.
    fn is_answered(&mut self) -> bool {
        self.receive(&mut [0; 9000]) > 0
    }

    /// The number of bytes that arrive in time.
    fn receive(&mut self, buffer: &mut [u8]) -> usize {
        let length = match self {
            Self::Udp(socket) => socket.recv(buffer),
            Self::Tcp(stream) | Self::WebSocket(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        };
        length.unwrap_or(0)
    }

    /// Whether a packet with this text arrives.
    fn receives_text(&mut self, text: &str) -> bool {
        let (mut received, mut buffer) = (Vec::new(), [0; 9000]);
        while !received.windows(text.len()).any(|part| part == text.as_bytes()) {
            let length = self.receive(&mut buffer);
            if length == 0 {
                return false;
            }
            received.extend_from_slice(&buffer[..length]);
        }
        true
    }

    /// Sends a packet again and again, as fast as possible.
    fn flood(&mut self, packet: &[u8], is_over: &AtomicBool) {
        let (time, many) = (Some(TIMEOUT / 100), 1000);
        match self {
            Self::Udp(socket) => {
                while !is_over.load(Ordering::Relaxed) {
                    let _ = socket.send(packet);
                }
            }
            Self::Tcp(stream) => {
                stream.set_write_timeout(time).unwrap();
                write_until(stream, &packet.repeat(many), is_over);
            }
            Self::Unix(stream) => {
                stream.set_write_timeout(time).unwrap();
                write_until(stream, &packet.repeat(many), is_over);
            }
            Self::WebSocket(stream) => {
                stream.set_write_timeout(time).unwrap();
                write_until(stream, &websocket_message(packet).repeat(many), is_over);
            }
        }
    }
}

/// Writes these bytes again and again. A write may end within a packet.
fn write_until(stream: &mut impl Write, bytes: &[u8], is_over: &AtomicBool) {
    let mut sent = 0;
    while !is_over.load(Ordering::Relaxed) {
        sent = (sent + stream.write(&bytes[sent..]).unwrap_or(0)) % bytes.len();
    }
}

/// A connection of a thread of this user to the Unix socket.
pub(super) fn connect_as_user(forwarder: &Endpoint, user: u32) -> UnixStream {
    forwarder.open_to_users();
    let connect = || {
        rustix::thread::set_thread_uid(Uid::from_raw(user)).unwrap();
        forwarder.connect()
    };
    std::thread::scope(|scope| scope.spawn(connect).join().unwrap())
}

/// A TCP socket that programs which other tests start meanwhile do not inherit: their copies would keep it connected.
fn tcp_socket() -> rustix::io::Result<OwnedFd> {
    rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)
}

/// A TCP connection from an address to a port.
pub(super) fn connect_from(address: Ipv4Addr, port: u16) -> TcpStream {
    let socket = tcp_socket().unwrap();
    rustix::net::bind(&socket, &SocketAddrV4::new(address, 0)).unwrap();
    rustix::net::connect(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
}

/// Commands of an application, and the times until management has answered them.
struct Commands {
    application: Application,
    times: Vec<Duration>,
    /// The start of the phase, and what [`processor_pressure`] was then.
    began: (Instant, Duration),
    /// Answers that may be late, of a thousand.
    late_max: usize,
    phase: u32,
}

impl Commands {
    fn new(forwarder: &Endpoint) -> Self {
        let (application, began) =
            (Application::attach(forwarder.socket()), (now(), processor_pressure()));
        Self { application, times: Vec::new(), began, late_max: 100, phase: 0 }
    }

    /// Sends commands, one after the other.
    fn ask(&mut self) {
        if self.times.is_empty() {
            self.began = (now(), processor_pressure());
        }
        for _ in 0..COMMANDS {
            let asked = now();
            self.application.register("/answers", 1);
            self.times.push(asked.elapsed());
        }
    }

    /// Asserts that nine of ten commands were answered in time since the last call, or as many as `late_max` allows. On a
    /// machine whose processors are all in use for most of this time, nine of ten may take thirty times as long.
    fn assert_in_time(&mut self) {
        let mut times = std::mem::take(&mut self.times);
        times.sort_unstable();
        let late = times.len() - times.partition_point(|time| *time < ANSWER_TIME_MAX);
        let (began, pressure) = self.began;
        let waited = processor_pressure().saturating_sub(pressure);
        let busy = waited.as_secs_f64() / began.elapsed().as_secs_f64();
        let [median, tenth] = [times.len() / 2, times.len() * 9 / 10].map(|place| times[place]);
        let (phase, slowest) = (self.phase, times[times.len() - 1]);
        println!(
            "phase {phase}: {} commands, {late} of them late; 50 % {median:?}, 90 % {tenth:?}, 100 % {slowest:?}; threads wait {:.0} % of the time",
            times.len(),
            busy * 100.0
        );
        if busy > PRESSURE_MAX {
            assert!(tenth < BUSY_FACTOR * ANSWER_TIME_MAX, "phase {phase}: {times:?}");
        } else {
            let late_max = times.len() * self.late_max / 1000;
            assert!(late <= late_max, "phase {phase}: {late} late, at most {late_max}: {times:?}");
        }
        self.phase += 1;
    }
}

/// The time since the start of the machine for which threads have waited for a processor (proc(5), /proc/pressure/cpu); zero
/// where the kernel does not count it.
fn processor_pressure() -> Duration {
    let text = std::fs::read_to_string("/proc/pressure/cpu").unwrap_or_default();
    let total = text.lines().next().and_then(|some| some.rsplit("total=").next()?.parse().ok());
    Duration::from_micros(total.unwrap_or(0))
}

/// A neighbour at an address of its own and a local application exchange plain Interests and Data with the producer.
/// Meanwhile another application sends commands, which are to be answered in time.
struct Others {
    neighbour: Peer,
    application: Application,
    producer: Application,
    commands: Commands,
    nonce: u32,
}

impl Others {
    fn new(forwarder: &Endpoint, transport: &str) -> Self {
        Self::at(forwarder, transport, host(3))
    }

    /// Among attackers that send as fast as they can, and so take the processors that the forwarder needs: commands are
    /// answered, and the times that it takes are printed.
    fn beside_busy_senders(forwarder: &Endpoint, transport: &str) -> Self {
        let mut others = Self::new(forwarder, transport);
        others.commands.late_max = 1000;
        others
    }

    fn at(forwarder: &Endpoint, transport: &str, address: Ipv4Addr) -> Self {
        let neighbour = Peer::new(transport, forwarder, address);
        let mut producer = Application::attach(forwarder.socket());
        producer.register("/bystander", 1);
        let application = Application::attach(forwarder.socket());
        let commands = Commands::new(forwarder);
        Self { neighbour, application, producer, commands, nonce: 0 }
    }

    /// Number of exchanges that succeed, of twice [`EXCHANGES`], up to the first that does not. The neighbour sends twice at
    /// most: the kernel drops datagrams when a flood fills the socket.
    fn exchanges(&mut self) -> u32 {
        for number in 0..EXCHANGES {
            self.nonce += 1;
            self.commands.ask();
            if !self.exchange_of_neighbour() {
                return 2 * number;
            }
            if !self.exchange_of_application() {
                return 2 * number + 1;
            }
        }
        self.commands.assert_in_time();
        2 * EXCHANGES
    }

    fn exchange_of_neighbour(&mut self) -> bool {
        let uri = format!("/bystander/neighbour/{}", self.nonce);
        ATTEMPTS.into_iter().any(|(attempt, timeout)| {
            self.neighbour.send(&long_interest(&uri, attempt << 16 | self.nonce));
            if !receives(&mut self.producer, &uri, timeout) {
                return false;
            }
            self.producer.answer(&uri, b"yes", None);
            self.neighbour.is_answered()
        })
    }

    fn exchange_of_application(&mut self) -> bool {
        let uri = format!("/bystander/application/{}", self.nonce);
        self.application.send(&long_interest(&uri, self.nonce));
        if !receives(&mut self.producer, &uri, TIMEOUT) {
            return false;
        }
        self.producer.answer(&uri, b"yes", None);
        receives_data(&mut self.application)
    }
}

/// The used units of a resource, and those that peers can use at most.
fn used_and_open(limits: &serde_json::Value, resource: &str) -> (u64, u64) {
    let table = &limits["tables"][resource];
    let reserves = table["reserves"].as_object().unwrap().values();
    let reserved: u64 = reserves.map(|places| places.as_u64().unwrap()).sum();
    (table["used"].as_u64().unwrap(), table["capacity"].as_u64().unwrap() - reserved)
}

/// Whether peers hold nearly all that they can of a resource.
fn is_full(limits: &serde_json::Value, resource: &str) -> bool {
    let (used, open) = used_and_open(limits, resource);
    used * 100 > open * 97
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
                let faces_before = face_ids(&forwarder);
                let flood = ["--rate", "5000", "--lifetime", "60s", "--faces", "4"];
                let consumer = ["traffic", "consumer", "/hole", "--transport", &address];
                let mut attack = forwarder.spawn("attack", &[&consumer[..], &flood].concat());
                wait_until("a full PIT", || {
                    is_full(&forwarder.json(&["limits"]), "pit_entries").then_some(())
                });
                let during = others.exchanges();
                assert_eq!(during, 2 * EXCHANGES, "during, {transport}, {workers} workers");
                attack.signal(Signal::KILL);
                attack.wait();
                // Peers over UDP and WebTransport do not take their leave: an operator ends their faces.
                for face in face_ids(&forwarder).difference(&faces_before) {
                    let _ = forwarder.run(&["face", "destroy", &face.to_string()]);
                }
                let process = format!(" process {}", attack.pid().as_raw_nonzero());
                wait_until_nothing_is_held(&forwarder, |principal| {
                    principal == "127.0.0.1" || principal.ends_with(&process)
                });
                assert_eq!(others.exchanges(), 2 * EXCHANGES, "after, {transport}");
            }
        }
    });
}

fn face_ids(forwarder: &Endpoint) -> BTreeSet<u64> {
    let faces = forwarder.json(&["face", "list"]);
    faces.as_array().unwrap().iter().map(|face| face["face_id"].as_u64().unwrap()).collect()
}

/// A WebSocket that is not local, from an address.
fn websocket(forwarder: &Endpoint, address: Ipv4Addr) -> TcpStream {
    let mut stream = connect_from(address, forwarder.websocket_port());
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
            let forwarder = settings.toml("[tables]\npit_capacity = 3000").start();
            let hole = UdpSocket::bind("127.0.0.1:0").unwrap();
            let hole = format!("udp4://{}", hole.local_addr().unwrap());
            let _ = forwarder.output(&["route", "add", "/hole", &hole]);
            let mut others = Others::new(&forwarder, "udp");
            assert_eq!(others.exchanges(), 2 * EXCHANGES, "before");
            let mut pages: Vec<_> = (0..4).map(|_| websocket(&forwarder, host(2))).collect();
            for number in 0..4000_u32 {
                let name = name(&format!("/hole/{number}"));
                let builder = InterestBuilder::new(&name).nonce(number).lifetime_ms(60_000);
                let message = websocket_message(&builder.to_vec().unwrap());
                pages[number as usize % 4].write_all(&message).unwrap();
            }
            wait_until("a full PIT", || {
                is_full(&forwarder.json(&["limits"]), "pit_entries").then_some(())
            });
            assert_eq!(others.exchanges(), 2 * EXCHANGES, "during, {workers} workers");
            drop(pages);
            wait_until_given_back(&forwarder);
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
    let workers = [("workers = 1", format!("workers = {WORKERS}"))];
    forwarder_with_ring(directory, host, (more, &workers))
}

/// A forwarder with a ring of the default size: the kernel drops frames of all principals that do not fit into a smaller one
/// while the worker waits for a processor.
fn forwarder_with_ring(
    directory: &Path,
    host: usize,
    (more, replaced): (&str, &[(&str, String)]),
) -> String {
    let command = forwarder_of_host(directory, host, more);
    let path = directory.join(format!("host{host}.toml"));
    let text = std::fs::read_to_string(&path).unwrap().replace("ring = \"256KiB\"\n", "");
    let text = replaced.iter().fold(text, |text, (from, to)| text.replace(from, to));
    std::fs::write(&path, text).unwrap();
    format!("exec {command}\n")
}

fn flood_over_ethernet(victim: Script) {
    let attacker: Script = |directory, _| {
        std::fs::write(directory.join("flood.py"), FLOOD).unwrap();
        "exec python3 flood.py\n".to_owned()
    };
    let bystander: Script =
        |directory, host| forwarder_with_ring(directory, host, ("driver = \"packet\"", &[]));
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
    let answered: u64 = (0..20).map(|_| bridge.ping_under_flood(3, "/bystander")).sum();
    println!("{answered} of 200 pings were answered");
    assert!(answered >= 198, "{answered} of 200 pings were answered");
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
    with_hosts(|| {
        for workers in [1, 3, 8] {
            send_first_fragments(workers, "udp", &settings(workers));
            send_first_fragments(workers, "tcp", &settings(workers).tcp());
            send_first_fragments(workers, "unix", &settings(workers));
            send_first_fragments(workers, "websocket", &settings(workers).websocket());
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
    ports.into_iter().for_each(|port| port.close(&forwarder));
    wait_until_given_back(&forwarder);
    assert_eq!(bystander.exchanges(&mut producer, || {}), EXCHANGES, "after, {transport}");
}

/// Ends the threads of an attack, also if the test fails.
pub(super) struct EndOnDrop<'a>(pub(super) &'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// An Interest whose answer is to carry a long PIT token.
fn with_token(interest: &[u8], token: u8) -> Vec<u8> {
    let header = LpHeader { pit_token: &[token; 32], ..LpHeader::default() };
    let mut frame = Vec::new();
    ndn_packet::lp::append_packet(&mut frame, &header, interest);
    frame
}

/// Whether `namewire limits` shows a principal by a name of attackers.
fn is_attacker(principal: &str) -> bool {
    let user = format!("user {NOBODY}");
    let is_address = principal == host(2).to_string();
    is_address || principal == user || principal.starts_with(&format!("{user} "))
}

/// Waits until the attackers hold nothing, after their faces have ended: the address that is an attacker's, and programs of
/// the user.
fn wait_until_given_back(forwarder: &Endpoint) {
    let peer = format!("udp4://{}:", host(2));
    wait_for(TIMEOUT, || {
        // A datagram that the forwarder reads after the face was destroyed makes another one.
        for face in forwarder.json(&["face", "list"]).as_array().unwrap() {
            let uri = face["remote_uri"].as_str().unwrap();
            if uri.starts_with(&peer) {
                let _ = forwarder.run(&["face", "destroy", uri]);
            }
        }
        check_nothing_is_held(&forwarder.json(&["limits"]), is_attacker)
    });
}

/// Waits until `namewire limits` shows nothing of attackers: they have no face, and hold nothing of any table.
fn wait_until_nothing_is_held(forwarder: &Endpoint, is_attacker: impl Fn(&str) -> bool) {
    wait_for(TIMEOUT, || check_nothing_is_held(&forwarder.json(&["limits"]), &is_attacker));
}

/// Fails with what an attacker holds.
fn check_nothing_is_held(
    limits: &serde_json::Value,
    is_attacker: impl Fn(&str) -> bool,
) -> Result<(), String> {
    let principals = limits["principals"].as_array().unwrap().iter();
    let mut held = principals.filter(|one| is_attacker(one["principal"].as_str().unwrap()));
    held.next().map_or(Ok(()), |one| Err(format!("the end of what attackers hold: {one}")))
}

fn holds_nothing(limits: &serde_json::Value, is_attacker: impl Fn(&str) -> bool) -> bool {
    check_nothing_is_held(limits, is_attacker).is_ok()
}

/// Whether an application receives an Interest of this name in time, other packets apart.
fn receives(application: &mut Application, uri: &str, timeout: Duration) -> bool {
    let began = now();
    while let Some(received) = application.try_receive(timeout) {
        if matches!(&received, Received::Interest(name, _) if name == uri) {
            return true;
        }
        if began.elapsed() > timeout {
            return false;
        }
    }
    false
}

/// Whether an application receives a Data next.
fn receives_data(application: &mut Application) -> bool {
    matches!(application.try_receive(TIMEOUT), Some(Received::Data(..)))
}

/// Two applications and a neighbour that request the same Data, and two producers of the same prefix.
struct Sharing {
    applications: [Application; 2],
    neighbour: UdpSocket,
    producers: [Application; 2],
    commands: Commands,
    number: u32,
}

impl Sharing {
    fn new(forwarder: &Endpoint) -> Self {
        let attach = || Application::attach(forwarder.socket());
        let mut producers = [attach(), attach()];
        producers.iter_mut().for_each(|producer| producer.register("/bystander", 1));
        let neighbour = udp(forwarder, host(3));
        let applications = [attach(), attach()];
        let commands = Commands::new(forwarder);
        Self { applications, neighbour, producers, commands, number: 0 }
    }

    /// Number of Data that three downstreams of one Interest and one whose first producer does not answer receive, of four
    /// times [`EXCHANGES`], up to the first exchange in which one is missing.
    fn exchanges(&mut self) -> u32 {
        for number in 0..EXCHANGES {
            self.commands.ask();
            self.number += 10;
            let received = self.aggregate() + u32::from(self.fail_over());
            if received < 4 {
                return 4 * number + received;
            }
        }
        self.commands.assert_in_time();
        4 * EXCHANGES
    }

    fn aggregate(&mut self) -> u32 {
        let Self { applications: [first, second], neighbour, producers: [producer, _], .. } = self;
        let uri = format!("/bystander/joined/{}", self.number);
        first.express(&uri, self.number);
        if !receives(producer, &uri, TIMEOUT) {
            return 0;
        }
        second.express(&uri, self.number + 1);
        // The kernel may have no room for it.
        let _ = neighbour.send(&with_token(&interest(&uri, self.number + 2), 9));
        producer.answer(&uri, b"yes", Some(3_600_000));
        let mut answer = [0; 9000];
        let is_answered = neighbour.recv(&mut answer).is_ok_and(|length| {
            let frame = LpPacket::parse(&answer[..length]);
            frame.is_ok_and(|frame| {
                frame.nack().is_none() && frame.pit_token() == Some(&[9; 32][..])
            })
        });
        let applications = [first, second].map(|one| u32::from(receives_data(one)));
        u32::from(is_answered) + applications.iter().sum::<u32>()
    }

    /// Whether an Interest that its first next hop does not answer is sent to the second when it is repeated.
    fn fail_over(&mut self) -> bool {
        let Self { applications: [application, _], producers: [first, second], .. } = self;
        let uri = format!("/bystander/repeated/{}", self.number);
        application.express(&uri, self.number + 3);
        if !receives(first, &uri, TIMEOUT) {
            return false;
        }
        let began = now();
        let mut nonce = self.number << 8;
        // Repetitions are suppressed at first.
        while !receives(second, &uri, TIMEOUT / 1500) {
            nonce += 1;
            if began.elapsed() > TIMEOUT {
                return false;
            }
            application.express(&uri, nonce);
        }
        second.answer(&uri, b"yes", None);
        receives_data(application)
    }
}

/// Line 4: ports of one address, or connections of a user, join the names of each other with long tokens, under a name with
/// five next hops.
#[test]
fn side_records_of_one_address_leave_joins_and_failover_to_others() {
    const TABLES: [&str; 3] = ["further_in_records", "further_out_records", "long_pit_tokens"];
    with_hosts(|| {
        for workers in [1, 3] {
            let forwarder = forwarder_of_all_transports(workers, "[tables]\npit_capacity = 3000");
            let holes = [(); 5].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
            for hole in &holes {
                let hole = format!("udp4://{}", hole.local_addr().unwrap());
                let _ = forwarder.output(&["route", "add", "/hole", &hole]);
            }
            let _ = forwarder.output(&["strategy", "set", "/hole", "multicast"]);
            let mut sharing = Sharing::new(&forwarder);
            assert_eq!(sharing.exchanges(), 4 * EXCHANGES, "before");
            let (mut names, mut nonce) = ((0..).map(|n| name(&format!("/hole/{n}"))), 0);
            for transport in TRANSPORTS {
                let mut ports: Vec<_> =
                    (0..8).map(|_| Peer::new(transport, &forwarder, host(2))).collect();
                wait_until("full tables of records and tokens", || {
                    for name in names.by_ref().take(200) {
                        for (number, port) in ports.iter_mut().enumerate() {
                            nonce += 1;
                            let interest = InterestBuilder::new(&name).nonce(nonce);
                            let interest = interest.lifetime_ms(60_000).to_vec().unwrap();
                            match number {
                                // An entry without a place for a token.
                                0 => port.send(&interest),
                                _ => port.send(&with_token(&interest, 7)),
                            }
                        }
                    }
                    let limits = forwarder.json(&["limits"]);
                    TABLES.iter().all(|table| is_full(&limits, table)).then_some(())
                });
                let during = sharing.exchanges();
                assert_eq!(during, 4 * EXCHANGES, "during, {transport}, {workers} workers");
                ports.into_iter().for_each(|port| port.close(&forwarder));
                wait_until_given_back(&forwarder);
            }
            assert_eq!(sharing.exchanges(), 4 * EXCHANGES, "after, {workers} workers");
        }
    });
}

/// An Interest with CanBePrefix that no cached Data satisfies.
fn short_prefix_interest(uri: &str, nonce: u32, lifetime_ms: u64) -> Vec<u8> {
    let name = name(uri);
    let interest = InterestBuilder::new(&name).nonce(nonce).lifetime_ms(lifetime_ms);
    interest.can_be_prefix(true).must_be_fresh(true).to_vec().unwrap()
}

/// An application and a neighbour that request Data by a short prefix.
struct ShortPrefixes {
    producer: Application,
    application: Application,
    commands: Commands,
    neighbour: UdpSocket,
    number: u32,
}

impl ShortPrefixes {
    fn new(forwarder: &Endpoint) -> Self {
        let attach = || Application::attach(forwarder.socket());
        let mut producer = attach();
        producer.register("/bystander", 1);
        let (neighbour, number) = (udp(forwarder, host(3)), 1 << 24);
        let (application, commands) = (attach(), Commands::new(forwarder));
        Self { producer, application, commands, neighbour, number }
    }

    /// Number of Data received, of twice [`EXCHANGES`], up to the first that is missing. The neighbour sends twice at most:
    /// the kernel drops datagrams when a flood fills the socket.
    fn exchanges(&mut self) -> u32 {
        for number in 0..EXCHANGES {
            self.commands.ask();
            let interest = self.next_interest(TIMEOUT);
            self.application.send(&interest);
            if !(self.answer(TIMEOUT) && receives_data(&mut self.application)) {
                return 2 * number;
            }
            let is_answered = ATTEMPTS.into_iter().any(|(_, timeout)| {
                let interest = self.next_interest(timeout);
                self.neighbour.send(&interest).unwrap();
                self.answer(timeout) && self.neighbour.recv(&mut [0; 9000]).is_ok()
            });
            if !is_answered {
                return 2 * number + 1;
            }
        }
        self.commands.assert_in_time();
        2 * EXCHANGES
    }

    /// An Interest that is pending for this time.
    fn next_interest(&mut self, lifetime: Duration) -> Vec<u8> {
        self.number += 1;
        let lifetime_ms = u64::try_from(lifetime.as_millis()).unwrap();
        short_prefix_interest("/bystander", self.number, lifetime_ms)
    }

    /// Whether the producer has received the Interest. Its Data is not fresh, so it satisfies no later Interest.
    fn answer(&mut self, timeout: Duration) -> bool {
        let is_asked = receives(&mut self.producer, "/bystander", timeout);
        if is_asked {
            let uri = format!("/bystander/a/b/c/{}", self.number);
            self.producer.send(&data_with_freshness(&uri, b"yes", None));
        }
        is_asked
    }
}

/// Line 7: Interests with CanBePrefix for names that do not determine a worker.
#[test]
fn short_prefix_interests_of_one_address_leave_service_to_others() {
    const TABLE: &str = "short_prefix_interests";
    with_hosts(|| {
        for workers in [2, 3] {
            let forwarder = forwarder_of_all_transports(workers, "");
            let hole = UdpSocket::bind("127.0.0.1:0").unwrap();
            let hole = format!("udp4://{}", hole.local_addr().unwrap());
            let _ = forwarder.output(&["route", "add", "/", &hole]);
            let mut others = ShortPrefixes::new(&forwarder);
            assert_eq!(others.exchanges(), 2 * EXCHANGES, "before");
            let mut sent = 0;
            for transport in TRANSPORTS {
                let mut ports: Vec<_> =
                    (0..4).map(|_| Peer::new(transport, &forwarder, host(2))).collect();
                wait_until("full tables of short-prefix Interests", || {
                    for _ in 0..4000 {
                        sent += 1;
                        let uri = format!("/attack-{sent}");
                        ports[sent as usize % 4].send(&short_prefix_interest(&uri, sent, 60_000));
                    }
                    is_full(&forwarder.json(&["limits"]), TABLE).then_some(())
                });
                let during = others.exchanges();
                assert_eq!(during, 2 * EXCHANGES, "during, {transport}, {workers} workers");
                let limits = forwarder.json(&["limits"]);
                assert!(!holds_nothing(&limits, is_attacker), "{limits}");
                ports.into_iter().for_each(|port| port.close(&forwarder));
                wait_until_given_back(&forwarder);
            }
            assert_eq!(others.exchanges(), 2 * EXCHANGES, "after, {workers} workers");
        }
    });
}

/// A neighbour that sends commands and has their certificates.
struct Registrant<'a> {
    socket: UdpSocket,
    site: &'a Identity,
    commands: Commands,
    number: u32,
}

impl<'a> Registrant<'a> {
    fn new(forwarder: &Endpoint, address: Ipv4Addr, site: &'a Identity) -> Self {
        let (commands, socket) = (Commands::new(forwarder), udp(forwarder, address));
        // A command is sent again.
        socket.set_read_timeout(Some(TIMEOUT / 10)).unwrap();
        Self { socket, site, commands, number: 0 }
    }

    /// Asserts that commands are answered with 200. Each is signed with a key of its own, whose certificate the forwarder
    /// does not know yet.
    fn exchanges(&mut self, when: &str) {
        for _ in 0..EXCHANGES / 2 {
            self.number += 1;
            self.commands.ask();
            let user = Identity::new(&format!("/net/user{}", self.number), Some(self.site));
            assert_eq!(self.register(&user), Some(200), "{when}, command {}", self.number);
        }
        self.commands.assert_in_time();
    }

    /// The answer to a command of a user. It is sent again if there is none: the kernel drops datagrams when a flood fills
    /// the socket.
    fn register(&self, user: &Identity) -> Option<u32> {
        let uri = format!("/routes/{}", self.number);
        (0..3).find_map(|_| {
            let signer = user.signer();
            let command = signed_registration("/localhop/nfd", &uri, &signer, unix_ms());
            self.socket.send(&command).unwrap();
            self.answer(&command, user)
        })
    }

    /// The answer to a command; the certificate is sent when it is requested.
    fn answer(&self, command: &[u8], user: &Identity) -> Option<u32> {
        let mut buffer = [0; 9000];
        while let Ok(length) = self.socket.recv(&mut buffer) {
            let frame = LpPacket::parse(&buffer[..length]).unwrap();
            let wire = frame.fragment().unwrap();
            let Ok(data) = Data::parse(wire) else {
                let interest = Interest::parse(wire).unwrap();
                if frame.nack().is_none() && user.certificate.name().starts_with(interest.name()) {
                    self.socket.send(user.certificate.wire()).unwrap();
                }
                continue;
            };
            if data.name() == Interest::parse(command).unwrap().name() {
                let response = ControlResponse::decode(data.content().unwrap());
                return response.ok().map(|response| response.code);
            }
        }
        None
    }
}

/// Sends commands from these peers until `is_over`, signed with a key whose certificate nobody has.
pub(super) fn command_without_certificate(peers: &mut [Peer], is_over: &AtomicBool) {
    let ghost = Identity::new("/net/ghost", None).signer();
    let mut time_ms = unix_ms();
    while !is_over.load(Ordering::Relaxed) {
        for peer in &mut *peers {
            time_ms += 1;
            let uri = format!("/routes/{time_ms}");
            peer.send(&signed_registration("/localhop/nfd", &uri, &ghost, time_ms));
        }
        // As many as 16 ports can have waiting, four times in the time for which one waits.
        std::thread::sleep(Duration::from_millis(60));
    }
}

/// The settings by which certificates below that of a site let neighbours register, in the form of NFD.
pub(super) fn rules_of_site(site: &Identity, directory: &Path) -> String {
    let file = directory.join("net.cert");
    std::fs::write(&file, site.certificate.to_text()).unwrap();
    format!(
        "[management]\nlocalhop_rib = '''\n\
         rule {{ id rib for interest checker {{ type customized \
         key-locator {{ type name regex ^<>*<KEY><>{{1,3}}$ }} }} }}\n\
         rule {{ id certificates for data checker {{ type hierarchical }} }}\n\
         trust-anchor {{ type file file-name {} }}\n'''",
        file.display()
    )
}

/// Line 6: commands of 16 ports of one address, or connections of a user, that wait for certificates.
#[test]
fn commands_that_wait_for_certificates_leave_places_to_a_neighbour() {
    with_hosts(|| {
        let directory = tempfile::tempdir().unwrap();
        let site = Identity::new("/net", None);
        let toml = rules_of_site(&site, directory.path());
        for workers in [1, 3] {
            let forwarder = forwarder_of_all_transports(workers, &toml);
            let mut registrant = Registrant::new(&forwarder, host(3), &site);
            registrant.exchanges("before");
            for transport in TRANSPORTS {
                let ports = (0..16).map(|_| Peer::new(transport, &forwarder, host(2)));
                let mut ports: Vec<_> = ports.collect();
                let is_over = AtomicBool::new(false);
                std::thread::scope(|scope| {
                    let _end = EndOnDrop(&is_over);
                    scope.spawn(|| command_without_certificate(&mut ports, &is_over));
                    wait_until("full places for commands that wait", || {
                        is_full(&forwarder.json(&["limits"]), "waiting_for_certificates")
                            .then_some(())
                    });
                    registrant.exchanges(&format!("during, {transport}, {workers} workers"));
                });
                ports.into_iter().for_each(|port| port.close(&forwarder));
                wait_until_given_back(&forwarder);
            }
            registrant.exchanges("after");
        }
    });
}

/// Line 8: Interests that may be pending for an hour, and end at once, because there is no route.
#[test]
fn interests_of_an_hour_leave_the_dispatch_table_changeable() {
    if !rustix::process::geteuid().is_root() {
        return namewire_tests::skip("root", "only root can connect as another user");
    }
    let forwarder = Settings::new().udp().workers(3).start();
    let mut others = Others::at(&forwarder, "udp", Ipv4Addr::LOCALHOST);
    assert_eq!(others.exchanges(), 2 * EXCHANGES, "before");
    let mut attacker = Application::over(connect_as_user(&forwarder, NOBODY));
    for number in 0..8 {
        let uri = format!("/attack/{number}");
        attacker.express_with(&uri, number, |interest| interest.lifetime_ms(3_600_000));
        assert!(matches!(attacker.receive(), Received::Nack(name, ..) if name == uri));
    }
    assert_eq!(others.exchanges(), 2 * EXCHANGES, "during");
    let mut attempts = 0;
    // An entry moves again once nothing is pending for it at its previous worker.
    for worker in ["0", "1", "0"] {
        for number in 0..4 {
            let entry = format!("/attack/{number}/below");
            wait_until("the move", || {
                attempts += 1;
                forwarder.run(&["ndt", "set", &entry, worker]).status.success().then_some(())
            });
        }
    }
    let balanced = forwarder.json(&["ndt", "balance"]);
    println!("moved in {attempts} attempts: {balanced}");
    assert!(attempts < 12 * 50, "{attempts} attempts");
    drop(attacker);
    wait_until_given_back(&forwarder);
    assert_eq!(others.exchanges(), 2 * EXCHANGES, "after");
}

/// A registration that is not signed by the key that it names.
fn registration_by(key: &Name) -> Vec<u8> {
    let parameters =
        ControlParameters { name: Some(name("/attack/locator")), ..ControlParameters::default() };
    let time_ms = unix_ms();
    let nonce = time_ms.to_be_bytes();
    let info = SignatureInfo {
        key_locator: Some(KeyLocator::Name(key.as_ref())),
        nonce: Some(&nonce),
        time_ms: Some(time_ms),
        ..SignatureInfo::new(SignatureType::SHA256_WITH_ECDSA)
    };
    let sign = |_: &[&[u8]], signature: &mut [u8]| {
        signature.fill(3);
        Some(signature.len())
    };
    CommandBuilder::new(name("/localhop/nfd"))
        .signed_interest(Verb::RibRegister, &parameters, 1, &info, 71, sign)
        .unwrap()
}

/// Line 9: a registration that somebody has captured is sent again after the forwarder was killed. Line 11: KeyLocators of
/// 4,200 components are compared with hierarchical rules.
#[test]
fn captured_registrations_and_long_key_locators_leave_routes_and_service_to_others() {
    let directory = tempfile::tempdir().unwrap();
    let site = Identity::new("/net", None);
    let toml = rules_of_site(&site, directory.path());
    let mut locators = [Name::new(), Name::new()];
    for locator in &mut locators {
        (0..4200).for_each(|_| {
            locator.push_generic("");
        });
    }
    locators[1].push_generic("KEY").push_generic("k");
    with_hosts(|| {
        for workers in [1, 3] {
            let settings = settings_of_all_transports(workers, &toml);
            let mut forwarder = settings.start_program();
            let mut registrant = Registrant::new(&forwarder, host(3), &site);
            registrant.exchanges("before");
            for transport in TRANSPORTS {
                let mut attacker = Peer::new(transport, &forwarder, host(2));
                for locator in &locators {
                    attacker.send(&registration_by(locator));
                    registrant.exchanges(&format!("during, {transport}, {workers} workers"));
                }
                attacker.close(&forwarder);
                wait_until_given_back(&forwarder);
            }
            forwarder.assert_healthy();

            let captured = TRANSPORTS.map(|transport| {
                let user = Identity::new(&format!("/net/{transport}"), Some(&site));
                let uri = format!("/routes/captured/{transport}");
                let command = signed_registration("/localhop/nfd", &uri, &user.signer(), unix_ms());
                registrant.socket.send(&command).unwrap();
                assert_eq!(registrant.answer(&command, &user), Some(200));
                command
            });
            forwarder.process.signal(Signal::KILL);
            forwarder.process.wait();
            let forwarder = settings.start_program();
            for (transport, command) in TRANSPORTS.into_iter().zip(captured) {
                let mut replayer = Peer::new(transport, &forwarder, host(2));
                replayer.send(&command);
                let is_refused = replayer.receives_text("signed before the forwarder started");
                assert!(is_refused, "{transport}, {workers} workers");
                replayer.close(&forwarder);
            }
            wait_until_given_back(&forwarder);
            assert!(!has_route(&forwarder, "/routes/captured"));
            Registrant::new(&forwarder, host(3), &site).exchanges("after");
        }
    });
}

/// A user has routes for the prefixes above those of management, and chooses to have Interests for them sent to all next hops.
#[test]
fn commands_do_not_reach_a_user_with_a_shorter_prefix() {
    if !rustix::process::geteuid().is_root() {
        return namewire_tests::skip("root", "only root can connect as another user");
    }
    let directory = tempfile::tempdir().unwrap();
    let site = Identity::new("/net", None);
    let toml = rules_of_site(&site, directory.path());
    for workers in [1, 3] {
        let forwarder = Settings::new().udp().workers(workers).toml(&toml).start();
        let mut registrant = Registrant::new(&forwarder, Ipv4Addr::LOCALHOST, &site);
        registrant.exchanges("before");
        let mut user = Application::over(connect_as_user(&forwarder, NOBODY));
        for prefix in ["/localhop", "/localhost"] {
            user.register(prefix, 1);
            let choice = ControlParameters {
                name: Some(name(prefix)),
                strategy: Some(name("/localhost/nfd/strategy/multicast")),
                ..ControlParameters::default()
            };
            assert_eq!(user.command("/localhost/nfd", Verb::StrategySet, &choice), 200);
        }
        registrant.exchanges(&format!("during, {workers} workers"));
        // Management has no answer, so the Interest stays pending.
        let mut bystander = Application::attach(forwarder.socket());
        for nonce in 0..4 {
            bystander.express("/localhost/nfd/rib/unknown", nonce);
            bystander.register("/bystander", 0);
        }
        assert_eq!(user.try_receive(TIMEOUT / 100), None, "{workers} workers");
    }
}

/// A routing daemon answers nothing. One user has ever new prefixes readvertised and withdrawn.
#[test]
fn prefixes_without_end_that_a_daemon_does_not_confirm_take_no_memory() {
    if !rustix::process::geteuid().is_root() {
        return namewire_tests::skip("root", "only root can connect as another user");
    }
    let toml = "[management]\nreadvertise_nlsr = true\noperators = [\"65533\"]";
    let mut forwarder = Settings::new().toml(toml).start_program();
    let of_user = |user| Application::over(connect_as_user(&forwarder, user));
    let (mut user, mut daemon) = (of_user(NOBODY), of_user(NOBODY - 1));
    let rib = |application: &mut Application, verb, prefix: &str| {
        let parameters = ControlParameters {
            name: Some(name(prefix)),
            origin: Some(route_origin::CLIENT),
            ..ControlParameters::default()
        };
        application.command("/localhost/nfd", verb, &parameters)
    };
    assert_eq!(rib(&mut user, Verb::RibRegister, "/localhost/nlsr"), 403);
    daemon.register("/localhost/nlsr", 0);
    let no_cache = ControlParameters { capacity: Some(0), ..ControlParameters::default() };
    assert_eq!(daemon.command("/localhost/nfd", Verb::CsConfig, &no_cache), 200);
    let mut grown = Vec::new();
    for round in 0..2 {
        let before = forwarder.resident_kib();
        for number in 0..2000 {
            let prefix = format!("/{round}/{number}/{}", "x".repeat(3000));
            for verb in [Verb::RibRegister, Verb::RibUnregister] {
                assert_eq!(rib(&mut user, verb, &prefix), 200);
            }
        }
        grown.push(forwarder.resident_kib().saturating_sub(before));
    }
    println!("grown by {grown:?} KiB");
    // Of 2,000 prefixes, 12 MiB.
    assert!(grown[1] < 4096, "{grown:?} KiB");
    let mut other = of_user(NOBODY - 2);
    assert_eq!(rib(&mut other, Verb::RibRegister, "/other"), 200);
    wait_until("the prefix of another user", || {
        let (asked, _) = daemon.receive_interest();
        asked.contains("other").then_some(())
    });
    forwarder.assert_healthy();
}

/// Line 10: one user chooses ever new strategies, first for one name and then for many.
#[test]
fn strategies_with_new_parameters_leave_instances_to_another_user() {
    const INSTANCES_MAX: u64 = 1022;
    if !rustix::process::geteuid().is_root() {
        return namewire_tests::skip("root", "only root can connect as another user");
    }
    for workers in [1, 3] {
        let forwarder = Settings::new().workers(workers).start();
        let of_user = |user| Application::over(connect_as_user(&forwarder, user));
        let (mut user, mut other) = (of_user(NOBODY), of_user(NOBODY - 1));
        let choose = |application: &mut Application, prefix: &str, number: u64| {
            let strategy =
                format!("/localhost/nfd/strategy/asf/v=5/probing-interval~{}", 1000 + number);
            let parameters = ControlParameters {
                name: Some(name(prefix)),
                strategy: Some(name(&strategy)),
                ..ControlParameters::default()
            };
            application.command("/localhost/nfd", Verb::StrategySet, &parameters)
        };
        assert_eq!(choose(&mut other, "/bystander/before", 90_000), 200);
        for number in 0..=INSTANCES_MAX {
            assert_eq!(choose(&mut user, "/attack", number), 200, "choice {number}");
        }
        assert_eq!(choose(&mut other, "/bystander/during", 90_001), 200);
        let numbers = INSTANCES_MAX + 1..2 * INSTANCES_MAX;
        let codes = numbers.map(|number| choose(&mut user, &format!("/attack/{number}"), number));
        let codes: Vec<_> = codes.take_while(|code| *code == 200).collect();
        println!("{} choices of one user, {workers} workers", codes.len());
        assert!((100..900).contains(&codes.len()), "{} choices are accepted", codes.len());
        for number in 0..20 {
            let prefix = format!("/bystander/{number}");
            assert_eq!(choose(&mut other, &prefix, 90_002 + number), 200, "{workers} workers");
        }
        let parameters =
            ControlParameters { name: Some(name("/attack")), ..ControlParameters::default() };
        let unset = user.command("/localhost/nfd", Verb::StrategyUnset, &parameters);
        assert_eq!(unset, 200);
        assert_eq!(choose(&mut other, "/bystander/after", 91_000), 200);
        // Choices outlive the program that made them.
        for number in INSTANCES_MAX + 1..=INSTANCES_MAX + codes.len() as u64 {
            let prefix = Some(name(&format!("/attack/{number}")));
            let parameters = ControlParameters { name: prefix, ..ControlParameters::default() };
            user.command("/localhost/nfd", Verb::StrategyUnset, &parameters);
        }
        drop(user);
        wait_until_given_back(&forwarder);
    }
}

/// Four hundred connections of one user bring Interests as fast as possible. What the kernel holds of them takes a worker
/// longer than management may take.
#[test]
fn connections_of_one_user_take_one_turn_among_those_of_others() {
    with_hosts(|| {
        let long = "x".repeat(500);
        let flood = |number| interest(&format!("/nowhere/{long}/{number}"), number);
        let flood: Vec<u8> = (0..1000).flat_map(flood).collect();
        for workers in [1, 3] {
            let forwarder = Settings::new().udp().workers(workers).start_program();
            let mut others = Others::beside_busy_senders(&forwarder, "udp");
            assert_eq!(others.exchanges(), 2 * EXCHANGES, "before");
            let connect = || {
                let stream = connect_as_user(&forwarder, NOBODY);
                stream.set_nonblocking(true).unwrap();
                stream
            };
            let connections: Vec<_> = (0..400).map(|_| connect()).collect();
            let (is_over, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
            let during = std::thread::scope(|scope| {
                let _end = EndOnDrop(&is_over);
                scope.spawn(|| {
                    let mut sent = vec![0; connections.len()];
                    while !is_over.load(Ordering::Relaxed) {
                        for (mut stream, sent) in connections.iter().zip(&mut sent) {
                            // A write may end within an Interest.
                            *sent += stream.write(&flood[*sent..]).unwrap_or(0);
                            *sent %= flood.len();
                        }
                        rounds.fetch_add(1, Ordering::Relaxed);
                    }
                });
                wait_until("Interests on all connections", || {
                    (rounds.load(Ordering::Relaxed) > 2).then_some(())
                });
                others.exchanges()
            });
            assert_eq!(during, 2 * EXCHANGES, "during, {workers} workers");
            drop(connections);
            assert_eq!(others.exchanges(), 2 * EXCHANGES, "after");
        }
    });
}

/// Requests Data from addresses of the link that do not answer to ARP, from `attack` until `end`.
const UNREACHABLE: &str = r"
import os, socket, time
while not os.path.exists('attack'): time.sleep(0.05)
sockets = []
for host in range(128, 168):
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.bind(('10.9.1.%d' % host, 0))
    sockets.append(one)
number = 0
while not os.path.exists('end'):
    for one in sockets:
        number += 1
        name = b'\x08\x05large\x08\x08%08d' % number
        body = b'\x07' + bytes([len(name)]) + name + b'\x0a\x04' + number.to_bytes(4, 'big')
        one.sendto(b'\x05' + bytes([len(body)]) + body, ('10.9.1.1', 6363))
    time.sleep(0.01)
";

/// Packets to an address that does not answer to ARP wait in the kernel, in the memory of the socket. A neighbour has a socket
/// of its own.
#[test]
fn addresses_that_do_not_answer_leave_output_to_a_neighbour() {
    let links = [("hub", "neighbour"), ("hub", "attacker")];
    let nodes = ["hub", "neighbour", "attacker"];
    let Some(mut topology) = Topology::new(&nodes, &links) else { return };
    topology.start_forwarder("hub", "[faces]\nsend_buffer = \"256KiB\"\n");
    topology.start_forwarder("neighbour", "");
    let face = topology.create_face("hub", "udp4", "neighbour");
    topology.add_route("hub", "/bystander", face, &[]);
    let command = |topology: &Topology, node: &str, arguments: &str| {
        let (socket, program) = (topology.socket(node), program().display());
        format!("env NDN_CLIENT_TRANSPORT=unix://{} {program} {arguments}", socket.display())
    };
    let server = command(&topology, "neighbour", "ping-server /bystander");
    topology.start("neighbour", "server", &server);
    let producer = command(&topology, "hub", "traffic producer /large --payload 7000B");
    topology.start("hub", "producer", &producer);
    // The attacker has these addresses, and does not answer for them.
    topology.shell("(in_node attacker sh -c 'echo 8 > /proc/sys/net/ipv4/conf/all/arp_ignore')");
    topology.shell("ip -n attacker route add local 10.9.1.128/25 dev lo");
    std::fs::write(topology.directory().join("attack.py"), UNREACHABLE).unwrap();
    topology.start("attacker", "attack", "python3 attack.py");
    for (node, prefix) in [("neighbour", "/bystander"), ("hub", "/large")] {
        wait_until("the routes", || {
            topology.output(node, &["route", "list"]).contains(prefix).then_some(())
        });
    }
    let pings = |topology: &Topology| {
        let ping = ["ping", "/bystander", "--count", "50", "--interval", "20ms", "--json"];
        let result = topology.run("hub", &[&ping[..], &["--timeout", "10s"]].concat());
        let report: serde_json::Value = serde_json::from_slice(&result.stdout).unwrap();
        report["answered"].as_u64().unwrap()
    };
    assert_eq!(pings(&topology), 50, "before");
    std::fs::write(topology.directory().join("attack"), "").unwrap();
    wait_until("the faces of the attacker", || {
        topology.output("hub", &["face", "list"]).contains("10.9.1.167").then_some(())
    });
    for _ in 0..3 {
        assert_eq!(pings(&topology), 50, "during");
    }
    std::fs::write(topology.directory().join("end"), "").unwrap();
    assert_eq!(pings(&topology), 50, "after");
}

/// A host and a user connect and close as fast as they can, with a reset, so that no port remains in use.
#[test]
fn connections_that_come_and_go_leave_service_to_others() {
    with_hosts(|| {
        for workers in [1, 3] {
            let settings = Settings::new().udp().tcp().workers(workers);
            let forwarder = settings.listener("tcp", "local_users = []").start();
            forwarder.open_to_users();
            let mut others = Others::beside_busy_senders(&forwarder, "tcp");
            assert_eq!(others.exchanges(), 2 * EXCHANGES, "before");
            let (is_over, connections) = (AtomicBool::new(false), AtomicU64::new(0));
            let repeat = |connect: &dyn Fn() -> bool| {
                while !is_over.load(Ordering::Relaxed) {
                    connections.fetch_add(u64::from(connect()), Ordering::Relaxed);
                }
            };
            let during = std::thread::scope(|scope| {
                let _end = EndOnDrop(&is_over);
                scope.spawn(|| repeat(&|| connect_and_reset(host(2), forwarder.port()).is_ok()));
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

/// A TCP connection from an address that ends at once.
pub(super) fn connect_and_reset(address: Ipv4Addr, port: u16) -> Result<(), rustix::io::Errno> {
    let socket = tcp_socket()?;
    rustix::net::bind(&socket, &SocketAddrV4::new(address, 0))?;
    rustix::net::connect(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
    rustix::net::sockopt::set_socket_linger(&socket, Some(Duration::ZERO))
}

/// Ports of one address, or connections of a user, bring Data that nobody has asked for, as fast as possible. Faces that bring
/// Data come before those that bring Interests.
#[test]
fn data_that_nobody_asked_for_leaves_service_to_others() {
    with_hosts(|| {
        let unsolicited = data("/unsolicited", b"");
        // The kernel drops datagrams of all principals when a flood of datagrams fills the socket.
        for (transport, ports, neighbour) in
            [("unix", 16, "udp"), ("websocket", 4, "udp"), ("udp", 4, "tcp")]
        {
            for workers in [1, 3] {
                let forwarder = settings_of_all_transports(workers, "").start();
                let mut others = Others::new(&forwarder, neighbour);
                assert_eq!(others.exchanges(), 2 * EXCHANGES, "before, {transport}");
                let is_over = AtomicBool::new(false);
                let new = |_| Peer::new(transport, &forwarder, host(2));
                let mut peers: Vec<_> = (0..ports).map(new).collect();
                let during = std::thread::scope(|scope| {
                    let _end = EndOnDrop(&is_over);
                    for peer in &mut peers {
                        scope.spawn(|| peer.flood(&unsolicited, &is_over));
                    }
                    others.exchanges()
                });
                assert_eq!(during, 2 * EXCHANGES, "during, {transport}, {workers} workers");
                peers.into_iter().for_each(|peer| peer.close(&forwarder));
                wait_until_given_back(&forwarder);
                assert_eq!(others.exchanges(), 2 * EXCHANGES, "after, {transport}");
            }
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
        let mut bystander = Commands::new(&forwarder);
        (0..EXCHANGES).for_each(|_| bystander.ask());
        bystander.assert_in_time();
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
        let mut rounds = 0;
        std::thread::scope(|scope| {
            let flood = |half: &[Vec<u8>]| {
                let (mut stream, own) = (connect_as_user(&forwarder, NOBODY), half.concat());
                // The forwarder ends before if the test fails.
                move || drop(stream.write_all(&own))
            };
            let (first, second) = commands.split_at(commands.len() / 2);
            let attacks = [first, second].map(|half| scope.spawn(flood(half)));
            while attacks.iter().any(|attack| !attack.is_finished()) || rounds < EXCHANGES {
                bystander.ask();
                rounds += 1;
            }
        });
        bystander.assert_in_time();
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
    let mut times = Vec::new();
    std::thread::scope(|scope| {
        let attack = scope.spawn(|| {
            user.write_all(&choices).unwrap();
            user.set_read_timeout(Some(TIMEOUT / 30)).unwrap();
            while user.read(&mut [0; 65_536]).is_ok_and(|length| length > 0) {}
        });
        while !attack.is_finished() || times.len() < EXCHANGES as usize {
            let asked = now();
            bystander.register("/bystander", 0);
            times.push(asked.elapsed());
        }
    });
    times.sort_unstable();
    let [tenth, slowest] = [times.len() * 9 / 10, times.len() - 1].map(|place| times[place]);
    println!("{alone:?} for one choice; {} others: 90 % {tenth:?}, 100 % {slowest:?}", times.len());
    assert!(tenth < alone * 20 + TIMEOUT / 150, "{tenth:?}, {alone:?} for one choice");
}
