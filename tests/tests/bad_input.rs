//! Attacks of peers on a forwarder: it drops, refuses and counts, stays up, and keeps serving others.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

use namewire_tests::wire::{PacketReader, data, interest, name};
use namewire_tests::{ForwarderProcess, Process, Settings, noise, now, program, wait_until};
use ndn_packet::tlv::append_tlv;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Memory that an attack may cost in addition to the limits of the settings.
const SLACK_KIB: u64 = 24 * 1024;

/// A forwarder with an application that answers pings, whose service is what attacks must not hurt.
struct Victim {
    /// Dropped before the forwarder, whose directory it writes to.
    _server: Process,
    forwarder: ForwarderProcess,
}

impl Victim {
    fn start(settings: &Settings) -> Self {
        let forwarder = settings.start_program();
        let mut server = forwarder.spawn("ping-server", &["ping-server", "/victim"]);
        server.wait_for_output("responding");
        let victim = Self { _server: server, forwarder };
        victim.assert_serving();
        victim
    }

    /// Other applications are served, each of them.
    fn assert_serving(&self) {
        let pings = self.forwarder.json(&["ping", "/victim", "-c", "10", "-i", "5ms", "-t", "20s"]);
        assert_eq!(pings["answered"], 10, "{pings}");
    }

    fn assert_unharmed(mut self, resident_before_kib: u64) {
        self.assert_serving();
        self.forwarder.assert_healthy();
        let resident_kib = self.forwarder.resident_kib();
        let grown = resident_kib.saturating_sub(resident_before_kib);
        assert!(grown < SLACK_KIB, "{grown} KiB more than before");
    }
}

fn element(ty: u32, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    append_tlv(&mut out, ty, value);
    out
}

/// Packets that break the format, each in another way.
fn malformed_packets() -> Vec<(&'static str, Vec<u8>)> {
    let mut nested = vec![];
    for _ in 0..2000 {
        nested = element(5, &nested);
        nested.truncate(8000);
    }
    let name_value = name("/victim/x").value().to_vec();
    let name_tlv = element(7, &name_value);
    let nonce = element(10, &[1, 2, 3, 4]);
    let long_name = element(7, &element(8, b"").repeat(4000));
    vec![
        ("an unknown packet type", element(99, b"hello")),
        ("type 0", vec![0, 0]),
        ("a type number that is not the shortest", vec![0xfd, 0, 5, 0]),
        ("a length number that is not the shortest", vec![5, 0xfd, 0, 2, 7, 0]),
        ("an empty Interest", element(5, b"")),
        ("an Interest with an empty name", element(5, &[element(7, b""), nonce.clone()].concat())),
        ("a name of 4000 components", element(5, &[long_name, nonce.clone()].concat())),
        ("a name whose component overruns it", element(5, &[7, 4, 8, 200, b'a', b'b'])),
        ("elements out of order", element(5, &[nonce.clone(), name_tlv.clone()].concat())),
        (
            "an unknown critical element",
            element(5, &[name_tlv.clone(), element(0x81, b""), nonce.clone()].concat()),
        ),
        (
            "a nonce of three bytes",
            element(5, &[name_tlv.clone(), element(10, &[1, 2, 3])].concat()),
        ),
        (
            "a hop limit of two bytes",
            element(5, &[name_tlv.clone(), nonce.clone(), element(34, &[1, 1])].concat()),
        ),
        ("a Data without a signature", element(6, &name_tlv)),
        ("nesting without end", nested),
        (
            "a fragment of 2^60",
            element(
                100,
                &[
                    element(81, &[0; 8]),
                    element(82, &[0]),
                    element(83, &[0x10, 0, 0, 0, 0, 0, 0, 0]),
                    element(80, b"part"),
                ]
                .concat(),
            ),
        ),
        (
            "a fragment beyond its count",
            element(
                100,
                &[element(81, &[0; 8]), element(82, &[9]), element(83, &[3]), element(80, b"part")]
                    .concat(),
            ),
        ),
        ("an LpPacket in an LpPacket", element(100, &element(80, &element(100, b"")))),
        (
            "a PIT token of 33 bytes",
            element(100, &[element(98, &[7; 33]), element(80, &interest("/victim/x", 1))].concat()),
        ),
        (
            "a Nack of a Data",
            element(100, &[element(800, b""), element(80, &data("/victim/x", b"y"))].concat()),
        ),
        (
            "a link field that must be known",
            element(100, &[element(95, b""), element(80, &interest("/victim/x", 1))].concat()),
        ),
        ("a length of 4 GiB", vec![5, 0xfe, 0xff, 0xff, 0xff, 0xff, 7, 7, 7]),
        ("a length of 2^63", vec![6, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0, 7]),
        ("an Interest of 60 000 bytes", element(5, &vec![7; 60_000])),
        ("noise", noise(11, 4096)),
    ]
}

#[test]
fn malformed_packets_on_a_stream_affect_no_other_peer() {
    let victim = Victim::start(&Settings::new());
    let before = victim.forwarder.resident_kib();
    for (what, packet) in malformed_packets() {
        for _ in 0..20 {
            let mut stream = victim.forwarder.connect();
            // The forwarder may close while we write.
            let _ = stream.write_all(&packet);
            let _ = stream.write_all(&interest("/victim/ping/0", 5));
        }
        let mut forwarder_alive = victim.forwarder.connect();
        forwarder_alive
            .write_all(&interest("/nobody", 9))
            .unwrap_or_else(|error| panic!("after {what}: {error}"));
        assert!(PacketReader::new(&forwarder_alive).next_packet().is_some(), "after {what}");
    }
    victim.assert_unharmed(before);
}

#[test]
fn packet_after_a_malformed_one_is_processed() {
    let victim = Victim::start(&Settings::new());
    // Framed properly, wrong inside: the stream goes on behind them.
    for what in [
        "an empty Interest",
        "elements out of order",
        "a fragment beyond its count",
        "an unknown critical element",
    ] {
        let packets = malformed_packets();
        let (_, packet) = packets.iter().find(|(other, _)| *other == what).unwrap();
        let mut stream = victim.forwarder.connect();
        stream.write_all(packet).unwrap();
        stream.write_all(&interest("/nobody", 3)).unwrap();
        let answer = PacketReader::new(&stream).next_packet();
        assert_eq!(
            answer.as_deref(),
            Some(&interest("/nobody", 3)[..]),
            "the Nack of the Interest behind {what}"
        );
    }
    victim.assert_serving();
}

#[test]
fn malformed_datagrams_affect_no_other_peer() {
    let victim = Victim::start(&Settings::new().udp());
    let before = victim.forwarder.resident_kib();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(("127.0.0.1", victim.forwarder.port())).unwrap();
    for (_, packet) in malformed_packets() {
        for _ in 0..50 {
            let _ = socket.send(&packet);
        }
        let _ = socket.send(&[]);
    }
    socket.send(&interest("/nobody", 77)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut answer = [0; 9000];
    assert!(socket.recv(&mut answer).is_ok(), "the face of this peer still works");
    victim.assert_unharmed(before);
}

#[test]
fn incomplete_fragments_expire() {
    let toml = "[limits]\nreassembly_packets = 8\nreassembly_timeout = \"50ms\"";
    let victim = Victim::start(&Settings::new().udp().toml(toml));
    let before = victim.forwarder.resident_kib();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(("127.0.0.1", victim.forwarder.port())).unwrap();
    let part = noise(5, 1000);
    for number in 0..20_000_u64 {
        let fragment = [
            element(81, &(number * 1000).to_be_bytes()),
            element(82, &[0]),
            element(83, &[8]),
            element(80, &part),
        ];
        let _ = socket.send(&element(100, &fragment.concat()));
    }
    victim.assert_unharmed(before);
}

#[test]
fn half_a_packet_delays_no_other_peer() {
    let victim = Victim::start(&Settings::new());
    let before = victim.forwarder.resident_kib();
    let half = &data("/victim/half", &noise(1, 8000))[..4000];
    let stalled: Vec<UnixStream> = (0..200)
        .map(|_| {
            let mut stream = victim.forwarder.connect();
            stream.write_all(half).unwrap();
            stream
        })
        .collect();
    victim.assert_serving();
    drop(stalled);
    victim.assert_unharmed(before);
}

#[test]
fn peer_that_reads_nothing_delays_no_other() {
    let victim = Victim::start(&Settings::new().toml("[faces]\nsend_queue = \"1MiB\""));
    let file = victim.forwarder.directory().join("object");
    std::fs::write(&file, noise(2, 8_000_000)).unwrap();
    let path = file.display().to_string();
    let mut put = victim
        .forwarder
        .spawn("put", &["put", "/large", &path, "--version", "1", "--freshness", "1h"]);
    put.wait_for_output("published");
    // Into the Content Store, so that the answers come as fast as they can.
    let fetched = victim.forwarder.directory().join("fetched").display().to_string();
    let _ = victim.forwarder.output(&["get", "/large", "-o", &fetched, "--quiet"]);
    let before = victim.forwarder.resident_kib();
    let mut greedy: Vec<UnixStream> = (0..8).map(|_| victim.forwarder.connect()).collect();
    for stream in &mut greedy {
        stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
        for segment in 0..1000_u32 {
            let requested = interest(&format!("/large/v=1/seg={segment}"), segment);
            // It may stop reading us as well, which is its right.
            if stream.write_all(&requested).is_err() {
                break;
            }
        }
    }
    victim.assert_serving();
    drop(greedy);
    victim.assert_unharmed(before);
}

#[test]
fn full_pit_drops_interests_and_recovers() {
    let victim = Victim::start(&Settings::new().toml("[tables]\npit_capacity = 256"));
    let before = victim.forwarder.resident_kib();
    let mut silent =
        victim.forwarder.spawn("silent", &["poke", "/silent/elsewhere", "/dev/null", "--keep"]);
    wait_until("the silent producer", || {
        assert!(silent.is_running(), "{}", silent.everything());
        victim.forwarder.output(&["route"]).contains("/silent").then_some(())
    });
    let mut stream = victim.forwarder.connect();
    for number in 0..50_000_u32 {
        stream.write_all(&interest(&format!("/silent/elsewhere/{number}"), number)).unwrap();
    }
    // Pending Interests expire after their 4 s at the latest; then there is room again.
    wait_until("room in the PIT", || {
        let output = victim.forwarder.run(&["ping", "/victim", "-c", "1", "-t", "500ms", "-q"]);
        output.status.success().then_some(())
    });
    victim.assert_unharmed(before);
}

#[test]
fn nonce_flood_takes_bounded_memory() {
    let victim = Victim::start(&Settings::new());
    // Warm: tables that fill up once are not growth.
    let flood = |seed: u32| {
        let mut stream = victim.forwarder.connect();
        let mut reader = stream.try_clone().unwrap();
        let draining = std::thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
        for nonce in 0..200_000_u32 {
            stream.write_all(&interest("/victim/same", nonce ^ seed)).unwrap();
        }
        stream.shutdown(std::net::Shutdown::Both).unwrap();
        let _ = draining.join();
    };
    flood(0x1000_0000);
    let before = victim.forwarder.resident_kib();
    flood(0x2000_0000);
    victim.assert_unharmed(before);
}

#[test]
fn full_fib_rejects_further_routes() {
    let forwarder = Settings::new().udp().toml("[tables]\nfib_capacity = 32").start();
    let peer = "udp4://127.0.0.1:9";
    let mut refused = None;
    for number in 0..64 {
        let output = forwarder.run(&["route", "add", &format!("/full/{number}"), peer]);
        if !output.status.success() {
            refused = Some((number, String::from_utf8_lossy(&output.stderr).into_owned()));
            break;
        }
    }
    let (number, complaint) = refused.expect("a FIB of 32 entries does not take 64");
    assert!((20..=32).contains(&number), "refused at {number}");
    assert!(complaint.contains("rejected"), "{complaint}");
    forwarder.assert_healthy();
    let _ = forwarder.output(&["route", "remove", "/full/0", peer]);
    let _ = forwarder.output(&["route", "add", "/full/again", peer]);
}

#[test]
fn more_connections_than_faces_are_closed() {
    let forwarder = Settings::new().toml("[limits]\nfaces = 20").start();
    let kept: Vec<UnixStream> = (0..40).map(|_| forwarder.connect()).collect();
    let closed = wait_until("the connections beyond the limit to be closed", || {
        let closed = kept.iter().filter(|stream| is_closed(stream)).count();
        (closed >= 20).then_some(closed)
    });
    assert!(closed < 30, "{closed} of 40 were closed for a limit of 20");
    drop(kept);
    wait_until("room for new faces", || forwarder.run(&["status"]).status.success().then_some(()));
    forwarder.assert_healthy();
}

#[test]
fn ten_thousand_connections_are_served() {
    let requested = 10_000_usize;
    let limit = raise_descriptor_limit();
    let count = requested.min(usize::try_from(limit).unwrap_or(requested).saturating_sub(100));
    assert!(count >= 500, "no test of many connections with {limit} descriptors");
    let victim = Victim::start(&Settings::new());
    let started = now();
    let mut streams: Vec<UnixStream> = Vec::with_capacity(count);
    for _ in 0..count {
        streams.push(connect_with_retries(&victim.forwarder));
    }
    victim.assert_serving();
    // The last ones are as good as the first.
    for stream in streams.iter_mut().rev().take(50) {
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(&interest("/nobody", 1)).unwrap();
        assert!(PacketReader::new(stream).next_packet().is_some());
    }
    let faces = victim.forwarder.json(&["face", "list"]).as_array().unwrap().len();
    assert!(faces > count, "{faces} faces for {count} connections");
    drop(streams);
    wait_until("the faces to be closed", || {
        let faces = victim.forwarder.json(&["status"])["face_count"].as_u64().unwrap();
        (faces < 20).then_some(())
    });
    victim.assert_serving();
    let elapsed = started.elapsed();
    assert!(elapsed < Duration::from_secs(120), "{elapsed:?}");
}

#[test]
fn forwarder_serves_its_faces_without_free_descriptors() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("forwarder.sock");
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 64; exec \"$@\"", "sh"]).arg(program());
    command.args(["run", "--no-tcp", "--no-udp", "--socket"]).arg(&socket);
    let mut process = Process::start("forwarder", command, directory.path());
    process.wait_for_output("NDN_CLIENT_TRANSPORT=");
    let works = |stream: &mut UnixStream| {
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        // A connection for which there is no descriptor may be closed before the first write.
        stream.write_all(&interest("/nobody", 1)).is_ok()
            && PacketReader::new(stream).next_packet().is_some()
    };
    let mut first = UnixStream::connect(&socket).unwrap();
    assert!(works(&mut first));
    let mut crowd: Vec<UnixStream> =
        (0..200).map_while(|_| UnixStream::connect(&socket).ok()).collect();
    assert!(works(&mut first), "who was there first is still served");
    let stat = |process: &Process| {
        let path = format!("/proc/{}/stat", process.pid().as_raw_nonzero());
        let stat = std::fs::read_to_string(path).unwrap();
        let fields: Vec<u64> = stat
            .rsplit(')')
            .next()
            .unwrap()
            .split_whitespace()
            .skip(11)
            .take(2)
            .map(|n| n.parse().unwrap())
            .collect();
        fields[0] + fields[1]
    };
    // It must not spin over connections that it cannot accept. Time itself is what is measured.
    let before = stat(&process);
    std::thread::sleep(Duration::from_secs(1));
    let used = stat(&process) - before;
    assert!(used < 30, "{used} of 100 ticks while it cannot accept");
    crowd.clear();
    let mut next = wait_until("room for another", || {
        let mut stream = UnixStream::connect(&socket).ok()?;
        works(&mut stream).then_some(stream)
    });
    assert!(works(&mut next) && works(&mut first));
    assert!(process.is_running());
}

#[test]
fn malformed_management_requests_are_rejected() {
    let forwarder = Settings::new().start();
    let mut stream = forwarder.connect();
    let verbs = [
        "rib/register",
        "rib/unregister",
        "faces/create",
        "faces/destroy",
        "strategy-choice/set",
        "cs/config",
        "x/y",
    ];
    for verb in verbs {
        for parameters in [&b""[..], b"\x68\x00", b"\x68\x05\x07\xff\xff\xff\xff", &noise(9, 3000)]
        {
            let mut command = name(&format!("/localhost/nfd/{verb}"));
            command
                .push_generic(parameters)
                .push_generic(b"1")
                .push_generic(b"2")
                .push_generic(b"3")
                .push_generic(b"4");
            let wire = ndn_packet::InterestBuilder::new(&command)
                .nonce(7)
                .lifetime_ms(1000)
                .to_vec()
                .unwrap();
            stream.write_all(&wire).unwrap();
        }
    }
    for dataset in
        ["faces/list", "faces/query/%00", "rib/list/v=1/seg=9", "status/general/%FF%00", "nothing"]
    {
        stream.write_all(&interest(&format!("/localhost/nfd/{dataset}"), 8)).unwrap();
    }
    forwarder.assert_healthy();
    let strategies = forwarder.output(&["strategy"]);
    assert!(strategies.contains("best-route"), "{strategies}");
}

#[test]
fn malformed_control_requests_are_rejected() {
    let forwarder = Settings::new().start();
    let control = forwarder.socket().with_extension("control.sock");
    for nonsense in [&b"\n"[..], b"{}\n", b"{\"method\":1}\n", b"\xff\xfe\n", &noise(4, 100_000)] {
        let mut stream = UnixStream::connect(&control).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let _ = stream.write_all(nonsense);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
    }
    let _held: Vec<UnixStream> =
        (0..100).map_while(|_| UnixStream::connect(&control).ok()).collect();
    forwarder.assert_healthy();
}

fn is_closed(mut stream: &UnixStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    matches!(stream.read(&mut [0; 64]), Ok(0)) || matches!(stream.take_error(), Ok(Some(_)))
}

/// The listener's queue may be full for a moment.
fn connect_with_retries(forwarder: &ForwarderProcess) -> UnixStream {
    wait_until("a connection", || UnixStream::connect(forwarder.socket()).ok())
}

/// Raises this process's limit of open files as far as allowed; returns it.
fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let _ = setrlimit(Resource::Nofile, raised);
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
