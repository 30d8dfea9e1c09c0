//! Reliable UDP links over a relay that loses datagrams: between two forwarders of ours, and
//! between ours and NFD.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "commands to another forwarder carry the time")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use namewire_tests::wire::{PacketReader, data, name};
use namewire_tests::{
    Peer, Process, Settings, Transport, noise, program, run_to_end, skip_unless_found, wait_until,
};
use ndn_management::{CommandBuilder, ControlParameters, ControlResponse, Verb};
use ndn_packet::{Data, Interest, InterestBuilder, LpPacket};

const INTERESTS: u32 = 200;
const WINDOW: u32 = 16;
/// Bytes.
const MTU: &str = "1400";

/// Two sockets, and a thread that takes datagrams from each to the peer of the other. One in
/// eight is lost; of the attempts to send one frame, two at most, so that a link that tries four
/// times delivers all.
struct Relay {
    near: SocketAddr,
    far: SocketAddr,
    lost: Arc<AtomicU64>,
    done: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Relay {
    fn new(near_port: u16, far_port: u16) -> Self {
        let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let [near, far] = [0, 1].map(|side: usize| sockets[side].local_addr().unwrap());
        let (lost, done) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let way = |from: usize, port: u16| {
            let (from, to) = (&sockets[from], &sockets[1 - from]);
            let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            let (lost, done) = (Arc::clone(&lost), Arc::clone(&done));
            std::thread::spawn(move || carry(&from, &to, port, &lost, &done))
        };
        let threads = vec![way(0, far_port), way(1, near_port)];
        Self { near, far, lost, done, threads }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().unwrap();
        }
    }
}

fn carry(from: &UdpSocket, to: &UdpSocket, port: u16, lost: &AtomicU64, done: &AtomicBool) {
    from.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let mut attempts = BTreeMap::<u64, u32>::new();
    let mut state = u64::from(port) | 1;
    let mut buffer = [0; 9000];
    while !done.load(Ordering::Relaxed) {
        let Ok(length) = from.recv(&mut buffer) else { continue };
        let frame = &buffer[..length];
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let sequence = LpPacket::parse(frame).ok().and_then(|lp| lp.sequence());
        let losses = sequence.map_or(0, |sequence| *attempts.entry(sequence).or_default());
        if (state >> 33).is_multiple_of(8) && losses < 2 {
            lost.fetch_add(1, Ordering::Relaxed);
            if let Some(sequence) = sequence {
                *attempts.entry(sequence).or_default() += 1;
            }
        } else {
            // The peer may not be there yet, or no more.
            let _ = to.send_to(frame, ("127.0.0.1", port));
        }
    }
}

/// An application that answers everything under `/reliability`.
fn produce(socket: &Path) -> JoinHandle<()> {
    let mut stream = UnixStream::connect(socket).unwrap();
    let parameters =
        ControlParameters { name: Some(name("/reliability")), ..ControlParameters::default() };
    // NFD wants a new one.
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let now_ms = u64::try_from(now.as_millis()).unwrap();
    let command = CommandBuilder::default()
        .digest_signed_interest(Verb::RibRegister, &parameters, 1, now_ms)
        .unwrap();
    stream.write_all(&command).unwrap();
    let mut reader = PacketReader::new(&stream);
    let wire = reader.next_packet().unwrap();
    let answer = Data::parse(LpPacket::parse(&wire).unwrap().fragment().unwrap()).unwrap();
    let response = ControlResponse::decode(answer.content().unwrap()).unwrap();
    assert!(response.is_ok(), "{response:?}");
    std::thread::spawn(move || {
        while let Some(wire) = reader.next_packet() {
            let lp = LpPacket::parse(&wire).unwrap();
            let Ok(interest) = Interest::parse(lp.fragment().unwrap()) else { continue };
            let uri = interest.name().to_owned().to_string();
            if stream.write_all(&data(&uri, &[7; 3000])).is_err() {
                return;
            }
        }
    })
}

/// Sends each Interest once, and returns how many Data come while somebody still waits. An
/// Interest that comes back as a Nack is sent again, if `takes_nacks`.
fn consume(mut stream: UnixStream, timeout: Duration, takes_nacks: bool) -> usize {
    stream.set_read_timeout(Some(timeout)).unwrap();
    let mut reader = PacketReader::new(&stream);
    let mut nonces = 0..;
    let mut send = |uri: &str| {
        let name = name(uri);
        let nonce = nonces.next().unwrap();
        let interest = InterestBuilder::new(&name).nonce(nonce).lifetime_ms(20_000);
        stream.write_all(&interest.to_vec().unwrap()).unwrap();
    };
    // As many at a time as fit the buffers of the relay.
    let mut next = WINDOW;
    (0..next).for_each(|number| send(&format!("/reliability/{number}")));
    let mut answered = BTreeSet::new();
    while answered.len() < INTERESTS as usize
        && let Some(wire) = reader.next_packet()
    {
        let lp = LpPacket::parse(&wire).unwrap();
        let packet = lp.fragment().unwrap();
        if takes_nacks && let Ok(refused) = Interest::parse(packet) {
            send(&refused.name().to_owned().to_string());
            continue;
        }
        let data = Data::parse(packet).unwrap();
        assert_eq!(data.content(), Some(&[7; 3000][..]));
        assert!(answered.insert(data.name().to_owned().to_string()), "each comes once");
        if next < INTERESTS {
            send(&format!("/reliability/{next}"));
            next += 1;
        }
    }
    answered.len()
}

fn between_two_of_ours(switch: &str, timeout: Duration) -> (usize, u64) {
    let [near, far] = [(); 2].map(|()| Settings::new().udp().start());
    let relay = Relay::new(near.port(), far.port());
    for (forwarder, remote) in [(&near, relay.near), (&far, relay.far)] {
        // Made without, then switched, as management can.
        let remote = format!("udp4://{remote}");
        let face = forwarder.json(&["face", "create", &remote, "--mtu", &format!("{MTU}B")]);
        let id = face["face_id"].as_u64().unwrap().to_string();
        let _ = forwarder.output(&["face", "update", &id, "--reliability", switch]);
        let list = forwarder.output(&["nfdc", "face", "list"]);
        assert_eq!(list.contains("lp-reliability"), switch == "on", "{list}");
    }
    let _ =
        near.output(&["nfdc", "route", "add", "/reliability", &format!("udp4://{}", relay.near)]);
    let producer = produce(far.socket());
    let answered = consume(near.connect(), timeout, false);
    // What the links have counted can be seen.
    let faces = far.json(&["face", "list"]);
    let is_far = |face: &&serde_json::Value| {
        face["remote_uri"].as_str().unwrap().ends_with(&relay.far.to_string())
    };
    let link = &faces.as_array().unwrap().iter().find(is_far).unwrap()["link"];
    let count = |key: &str| link[key].as_u64().unwrap();
    assert!(count("in_frames") > 0 && count("out_frames") > 0, "{link}");
    assert_eq!(count("out_retransmissions") > 0, switch == "on", "{link}");
    assert_eq!(count("out_acknowledged") > 0, switch == "on", "{link}");
    drop((near, far));
    producer.join().unwrap();
    (answered, relay.lost.load(Ordering::Relaxed))
}

#[test]
fn all_interests_are_answered_with_link_reliability() {
    let (answered, lost) = between_two_of_ours("on", Duration::from_secs(10));
    assert_eq!(answered, INTERESTS as usize);
    assert!(lost > 50, "{lost} lost");
}

#[test]
fn interests_are_lost_without_link_reliability() {
    let (answered, lost) = between_two_of_ours("off", Duration::from_secs(1));
    assert!(answered < INTERESTS as usize && lost > 0, "{answered} answered, {lost} lost");
}

const NFD_CONF: &str = "
general {
}
tables {
  cs_max_packets 0
  strategy_choice {
    / /localhost/nfd/strategy/best-route
    /localhost /localhost/nfd/strategy/multicast
  }
}
face_system {
  unix {
    path SOCKET
  }
  udp {
    listen no
    port PORT
    enable_v6 no
    mcast no
    unicast_mtu 1400
  }
}
authorizations {
  authorize {
    certfile any
    privileges {
      faces
      fib
    }
  }
}
rib {
  localhost_security {
    trust-anchor {
      type any
    }
  }
}
";

/// An NFD that sends UDP from this port.
pub(crate) fn nfd(directory: &Path, socket: &Path, port: u16) -> Process {
    let conf = directory.join("nfd.conf");
    let text = NFD_CONF.replace("SOCKET", socket.to_str().unwrap());
    std::fs::write(&conf, text.replace("PORT", &port.to_string())).unwrap();
    let mut command = Command::new("nfd");
    command.arg("--config").arg(&conf).env("HOME", directory);
    Process::start("nfd", command, directory)
}

/// NFD and we acknowledge each other's frames: in either direction nothing is missing.
#[test]
fn nfd_and_namewire_interoperate_with_link_reliability() {
    if !(skip_unless_found("nfd") && skip_unless_found("nfdc")) {
        return;
    }
    let ours = Settings::new().udp().start();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nfd.sock");
    let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let nfd = nfd(directory.path(), &socket, free);
    // NFD's key chain does not bear others beside it.
    let home = directory.path().join("nfdc");
    std::fs::create_dir(&home).unwrap();
    let nfdc = |arguments: &[&str]| {
        let mut command = Command::new("nfdc");
        command.args(arguments).env("HOME", &home);
        command.env("NDN_CLIENT_TRANSPORT", format!("unix://{}", socket.display()));
        command.output().unwrap()
    };
    wait_until("NFD", || nfdc(&["status"]).status.success().then_some(()));
    let relay = Relay::new(ours.port(), free);
    let (near, far) = (format!("udp4://{}", relay.near), format!("udp4://{}", relay.far));
    let create = |remote: &str| ["face", "create", remote, "reliability", "on"].map(str::to_owned);
    let arguments = create(&far);
    let created = nfdc(&arguments.each_ref().map(String::as_str));
    assert!(created.status.success(), "{created:?}");
    let arguments = create(&near);
    let arguments: Vec<_> =
        ["nfdc"].into_iter().chain(arguments.iter().map(String::as_str)).collect();
    let created = ours.output(&[&arguments[..], &["mtu", MTU]].concat());
    assert!(created.contains("reliability=on"), "{created}");

    let _ = ours.output(&["nfdc", "route", "add", "/reliability", &near]);
    let producer = produce(&socket);
    // NFD forgets a frame after one timeout: when it comes again while the answer is on its way, it
    // is refused as a loop.
    assert_eq!(consume(ours.connect(), Duration::from_secs(10), true), INTERESTS as usize);
    let lost = relay.lost.load(Ordering::Relaxed);
    assert!(lost > 50, "{lost} lost");
    drop(nfd);
    producer.join().unwrap();
}

/// Bytes of the file that crosses a link.
const FILE_BYTES: usize = 10 << 20;

/// A forwarder at one end of a reliable link, and the command that is its `nfdc`.
struct End<'a> {
    transport: Transport,
    port: u16,
    nfdc: &'a dyn Fn() -> Command,
}

/// Bytes that both ends of a reliable link send while ndncatchunks fetches a file over it.
fn bytes_for_a_file(near: &End<'_>, far: &End<'_>, directory: &Path) -> u64 {
    let uri = |end: &End<'_>| format!("udp4://127.0.0.1:{}", end.port);
    let nfdc = |end: &End<'_>, arguments: &[&str]| {
        let mut command = (end.nfdc)();
        command.args(arguments).env("NDN_CLIENT_TRANSPORT", &end.transport.0);
        let output = run_to_end(command);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    };
    for (end, other) in [(near, far), (far, near)] {
        nfdc(end, &["face", "create", &uri(other), "reliability", "on", "mtu", MTU]);
    }
    nfdc(near, &["route", "add", "/bulk", &uri(far)]);
    let file = directory.join("bulk");
    let content = noise(3, FILE_BYTES);
    std::fs::write(&file, &content).unwrap();
    let _producer = Peer::Chunks.produce(&far.transport, "/bulk", &file, directory);
    assert!(Peer::Chunks.fetch(&near.transport, "/bulk", directory) == content);
    let sent = [(near, far), (far, near)].map(|(end, other)| {
        let mut command = Command::new(program());
        command.args(["face", "list", "--json"]).env("NDN_CLIENT_TRANSPORT", &end.transport.0);
        let faces: serde_json::Value = serde_json::from_slice(&run_to_end(command).stdout).unwrap();
        let of_link = |face: &&serde_json::Value| face["remote_uri"] == uri(other).as_str();
        let face = faces.as_array().unwrap().iter().find(of_link).unwrap();
        face["counters"]["out_bytes"].as_u64().unwrap()
    });
    sent.iter().sum()
}

/// Reliability costs no more than NFD's, over a link that loses nothing.
#[test]
fn reliable_link_sends_as_few_bytes_as_one_of_nfd() {
    if !(skip_unless_found("nfd") && skip_unless_found("nfdc") && skip_unless_found("ndncatchunks"))
    {
        return;
    }
    let no_cache = "[tables.cs]\nadmit = false\nserve = false";
    let ours = [(); 2].map(|()| Settings::new().udp().toml(no_cache).start());
    let directories = [(); 5].map(|()| tempfile::tempdir().unwrap());
    let [one, other, home, of_ours, of_theirs] =
        directories.each_ref().map(tempfile::TempDir::path);
    let own_nfdc = || {
        let mut command = Command::new(program());
        command.arg("nfdc");
        command
    };
    let [near, far] = ours.each_ref().map(|forwarder| End {
        transport: Transport(forwarder.unix()),
        port: forwarder.port(),
        nfdc: &own_nfdc,
    });
    let bytes = bytes_for_a_file(&near, &far, of_ours);

    let nfdc = || {
        let mut command = Command::new("nfdc");
        command.env("HOME", home);
        command
    };
    let mut running = Vec::new();
    let [near, far] = [one, other].map(|directory| {
        let socket = directory.join("nfd.sock");
        let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        running.push(nfd(directory, &socket, port));
        let transport = Transport(format!("unix://{}", socket.display()));
        wait_until("NFD", || {
            let mut status = nfdc();
            status.arg("status").env("NDN_CLIENT_TRANSPORT", &transport.0);
            run_to_end(status).status.success().then_some(())
        });
        End { transport, port, nfdc: &nfdc }
    });
    let bytes_of_nfd = bytes_for_a_file(&near, &far, of_theirs);
    // Both repeat some Interests, and not always as many.
    assert!(10 * bytes < 11 * bytes_of_nfd, "{bytes} bytes, {bytes_of_nfd} between two NFD");
}
