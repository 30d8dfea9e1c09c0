//! Listener and client over loopback.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, channel};

use ndn_packet::MAX_PACKET_SIZE;

use super::*;

mod streams;

/// Time limit of a test on a slow machine.
const TIMEOUT: Duration = Duration::from_secs(60);
const IDLE: Duration = Duration::from_secs(30);

struct Listener {
    service: Service,
    address: SocketAddr,
    accepted: Receiver<Accepted>,
}

/// Ends of sessions that are as patient as the tests.
const WAITING: Timeouts = Timeouts { drain: TIMEOUT, linger: TIMEOUT };

fn listen(sessions_max: usize, admits: fn(Option<&str>) -> bool) -> Listener {
    listen_with(sessions_max, admits, Timeouts::default())
}

fn listen_with(
    sessions_max: usize,
    admits: fn(Option<&str>) -> bool,
    timeouts: Timeouts,
) -> Listener {
    let socket = crate::bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let address = socket.local_addr().unwrap();
    let (sender, accepted) = channel();
    let rules = Rules { sessions_max, idle_timeout: IDLE, admits: Box::new(admits) };
    let on_accepted = Box::new(move |session| drop(sender.send(session)));
    let listen = Listen {
        sockets: vec![socket],
        identity: None,
        kept_in: None,
        clock: real_clock(),
        rules,
        on_accepted,
    };
    Listener { service: Service::start_with(Some(listen), timeouts).unwrap(), address, accepted }
}

impl Listener {
    fn target(&self) -> Target {
        format!("https://{}/ndn#sha256={}", self.address, self.service.hashes()[0]).parse().unwrap()
    }
}

fn connect(service: &Service, target: &Target) -> Result<Accepted, String> {
    let (sender, connected) = channel();
    let report = Box::new(move |result| drop(sender.send(result)));
    let _connecting = service.connect(target.clone(), Vec::new(), IDLE, report);
    connected.recv_timeout(TIMEOUT).unwrap()
}

fn stream(session: Accepted) -> UnixStream {
    let stream = UnixStream::from(session.stream);
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
}

#[expect(clippy::disallowed_methods, reason = "sessions run in real time")]
fn real_clock() -> Clock {
    Clock::system()
}

/// Waits until something holds.
fn wait_until(mut holds: impl FnMut() -> bool) {
    let (clock, start) = (real_clock(), real_clock().now());
    while !holds() {
        assert!(clock.now() - start < Duration::from_secs(60), "it never holds");
        std::thread::yield_now();
    }
}

/// A Data of this length, by its outer header.
fn frame(length: usize, fill: u8) -> Vec<u8> {
    let value = u16::try_from(length - 4).unwrap().to_be_bytes();
    [&[6, 0xfd, value[0], value[1]][..], &vec![fill; length - 4]].concat()
}

#[test]
fn frames_cross_in_both_directions_and_either_end_closes_the_session() {
    let listener = listen(8, |_| true);
    let clients = Service::start(None).unwrap();
    for server_ends in [false, true] {
        let near = connect(&clients, &listener.target()).unwrap();
        let far = listener.accepted.recv_timeout(TIMEOUT).unwrap();
        assert_eq!(near.remote, listener.address);
        assert_eq!(far.local, listener.address);
        assert_eq!(far.remote.port(), near.local.port());
        assert_eq!(far.origin, None);
        for mtu in [&near.mtu, &far.mtu] {
            // It is the first, or the other end has said already that it reads streams.
            assert!((1100..=1452).contains(&mtu.value()) || mtu.value() == MAX_PACKET_SIZE);
        }
        let (near, far) = (stream(near), stream(far));
        // One after the other: datagrams may be lost, but not on loopback where nothing is full.
        for (at, length) in (0..).zip([300, 1_100, 301, 1_099]) {
            let sent = frame(length, at);
            for (mut from, mut to) in [(&near, &far), (&far, &near)] {
                from.write_all(&sent).unwrap();
                let mut got = vec![0; length];
                to.read_exact(&mut got).unwrap();
                assert_eq!(got, sent);
            }
        }
        let (mut ending, mut other) = if server_ends { (far, near) } else { (near, far) };
        // What was written before the end still arrives.
        ending.write_all(&frame(300, 9)).unwrap();
        drop(ending);
        let mut rest = Vec::new();
        other.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, frame(300, 9));
    }
    let counters = listener.service.counters();
    wait_until(|| counters.ended.value() == 2);
    assert_eq!(counters.accepted.value(), 2);
}

#[test]
fn rejected_session_is_informed_and_counted() {
    let listener = listen(8, |origin| origin.is_some());
    let clients = Service::start(None).unwrap();
    let target = listener.target();
    let counters = listener.service.counters();
    let _ = connect(&clients, &target).unwrap_err();
    wait_until(|| counters.refused_origin.value() == 1);
    let elsewhere = Target { path: "/other".to_owned(), ..target.clone() };
    let _ = connect(&clients, &elsewhere).unwrap_err();
    wait_until(|| counters.refused_path.value() == 1);
    let other_hash = Target { hash: Some(CertificateHash([7; 32])), ..target.clone() };
    let output = connect(&clients, &other_hash).unwrap_err();
    let shown = listener.service.hashes()[0].to_string();
    assert!(output.contains("not trusted") && output.contains(&shown), "{output}");
    wait_until(|| counters.failed.value() == 1);
    // No authority knows a self-signed certificate.
    let output = connect(&clients, &Target { hash: None, ..target }).unwrap_err();
    assert!(output.contains("authority"), "{output}");
    assert_eq!(counters.accepted.value(), 0);
    assert!(listener.accepted.try_recv().is_err());
}

#[test]
fn attempt_that_is_given_up_is_not_reported_and_others_use_the_given_addresses() {
    let listener = listen(8, |_| true);
    let clients = Service::start(None).unwrap();
    // It would wait for eight seconds: nobody answers.
    let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let (sender, reported) = channel();
    let report = |sender: std::sync::mpsc::Sender<Result<Accepted, String>>| {
        Box::new(move |result| drop(sender.send(result))) as OnConnected
    };
    let target = Target { host: "no-such-host.invalid".to_owned(), ..listener.target() };
    let at = |address| vec![address];
    let silent = at(silent.local_addr().unwrap());
    drop(clients.connect(target.clone(), silent, IDLE, report(sender.clone())));
    // The end of the attempt drops the sender.
    drop(sender);
    let ended = reported.recv_timeout(TIMEOUT / 4).map(|_session| ());
    assert_eq!(ended, Err(std::sync::mpsc::RecvTimeoutError::Disconnected));
    let (sender, reported) = channel();
    let _connecting = clients.connect(target, at(listener.address), IDLE, report(sender));
    assert!(reported.recv_timeout(TIMEOUT).unwrap().is_ok());
}

#[test]
fn attempt_beyond_the_limit_of_waiting_commands_fails() {
    // The thread does not run.
    let (commands, requests) = tokio::sync::mpsc::channel(1);
    let (sender, reported) = channel();
    for _ in 0..2 {
        let (sender, (_, given_up)) = (sender.clone(), oneshot::channel());
        let on_connected = Box::new(move |result| drop(sender.send(result)));
        let target = "https://192.0.2.1/ndn".parse().unwrap();
        let addresses = Vec::new();
        let request = Request { target, addresses, idle_timeout: IDLE, on_connected, given_up };
        queue(&commands, Command::Connect(request));
    }
    assert_eq!(reported.try_recv().unwrap().unwrap_err(), TOO_MANY_COMMANDS);
    assert!(reported.try_recv().is_err());
    assert_eq!(requests.len(), 1);
}

#[test]
fn sessions_above_the_limit_are_rejected() {
    let listener = listen(2, |_| true);
    let clients = Service::start(None).unwrap();
    let target = listener.target();
    let first = connect(&clients, &target).unwrap();
    let second = connect(&clients, &target).unwrap();
    let _ = connect(&clients, &target).unwrap_err();
    let counters = listener.service.counters();
    wait_until(|| counters.refused_full.value() > 0);
    drop(first);
    wait_until(|| counters.ended.value() == 1);
    let third = connect(&clients, &target).unwrap();
    assert_eq!(counters.accepted.value(), 3);
    drop((second, third));
}

#[test]
fn new_certificate_applies_to_later_connections() {
    let listener = listen(8, |_| true);
    let clients = Service::start(None).unwrap();
    let earlier = listener.target();
    let mut near = stream(connect(&clients, &earlier).unwrap());
    let mut far = stream(listener.accepted.recv_timeout(TIMEOUT).unwrap());
    listener
        .service
        .set_identity(Identity::self_signed(real_clock().unix_time().as_secs()).unwrap());
    wait_until(|| listener.target() != earlier);
    let _ = connect(&clients, &earlier).unwrap_err();
    let later = connect(&clients, &listener.target()).unwrap();
    near.write_all(&frame(300, 1)).unwrap();
    let mut got = vec![0; 300];
    far.read_exact(&mut got).unwrap();
    assert_eq!(got, frame(300, 1));
    drop(later);
}

#[test]
fn malformed_datagrams_are_dropped_and_counted() {
    let listener = listen(8, |_| true);
    let target = listener.target();
    // Not QUIC, and what begins as QUIC does.
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    for first in 0..=255 {
        let datagram = [&[first, 0, 0, 0, 1, 8][..], &[first; 1300]].concat();
        socket.send_to(&datagram[..1200], listener.address).unwrap();
        socket.send_to(&datagram[..usize::from(first)], listener.address).unwrap();
    }
    let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let session = runtime.block_on(client::connect(&target, IDLE)).unwrap();
    let mut far = stream(listener.accepted.recv_timeout(TIMEOUT).unwrap());
    let wrong: [&[u8]; 6] =
        [b"", b"GET / HTTP/1.1\r\n\r\n", &[0, 0], &[6, 3, 0], &[6, 0, 0], &[6, 0xff, 0xff]];
    for datagram in wrong {
        session.connection().send_datagram(datagram).unwrap();
    }
    let counters = listener.service.counters();
    let right = async {
        session.connection().send_datagram([0x64, 0]).unwrap();
        // Until the others have arrived, which are sent before.
        while counters.malformed_datagrams.value() < 6 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    runtime.block_on(async { tokio::time::timeout(TIMEOUT, right).await }).unwrap();
    let mut got = [0; 2];
    far.read_exact(&mut got).unwrap();
    assert_eq!(got, [0x64, 0]);
    // A worker writes sequences of elements only; anything else would end the session.
    far.write_all(&[0, 0]).unwrap();
    let ended = async {
        tokio::time::timeout(TIMEOUT, session.connection().closed()).await.unwrap();
    };
    runtime.block_on(ended);
    wait_until(|| counters.ended.value() == 1);
}
