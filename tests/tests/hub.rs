//! A hub under everything: a forwarder with two workers, an application and a configured neighbour at half load, and
//! a hundred ports of ten addresses that attack it, for `ATTACK_SECONDS` (`make attack`). Four further addresses and a user
//! attack by other means than these floods of Interests and fragments.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a measurement that prints its results"
)]

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use namewire_tests::wire::{data, interest, name};
use namewire_tests::{
    Application, ForwarderProcess, Identity, Settings, host, now, unix_ms, wait_until,
    wait_until_within, with_hosts,
};
use ndn_management::{ControlParameters, Verb};
use ndn_packet::{Data, InterestBuilder, LpHeader, LpPacket};

use super::attacks::{
    EndOnDrop, NOBODY, Peer, command_without_certificate, connect_and_reset, connect_as_user,
    connect_from, post_command, rules_of_site,
};

/// Duration of the measurement without an attack.
const BEFORE: Duration = Duration::from_secs(5);
/// Ports of each attacking address, and addresses.
const PORTS: usize = 10;
const ADDRESSES: u8 = 10;
/// Addresses that attack by other means.
const WITHOUT_CERTIFICATE: u8 = 11;
const COMING_AND_GOING: u8 = 12;
const READING_NOTHING: u8 = 13;
const BRINGING_DATA: u8 = 14;
/// Frames per second of all attackers together, unless `ATTACK_RATE` has another number.
const ATTACK_RATE: u64 = 20_000;
/// Time within which management answers, and the interval of the commands that measure it.
const ANSWER_TIME_MAX: Duration = Duration::from_millis(100);
const COMMAND_INTERVAL: Duration = Duration::from_millis(200);
/// Time after which the faces of silent peers end.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Longer than that, and than an Interest of a remote peer is pending.
const REST: Duration = Duration::from_secs(90);

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

fn socket(address: Ipv4Addr, forwarder: &ForwarderProcess) -> UdpSocket {
    let socket = UdpSocket::bind((address, 0)).unwrap();
    socket.connect(("127.0.0.1", forwarder.port())).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    socket
}

/// Sends `rate` frames per second in portions of a millisecond until `is_over`.
fn pace(rate: u64, is_over: &AtomicBool, mut send: impl FnMut(u64)) {
    let (start, mut sent) = (now(), 0);
    while !is_over.load(Ordering::Relaxed) {
        let due = u64::try_from(start.elapsed().as_micros()).unwrap() * rate / 1_000_000;
        // What a busy machine has missed is left out.
        sent = sent.max(due.saturating_sub(rate / 100));
        while sent < due {
            send(sent);
            sent += 1;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Sends the attack of one address, from all its ports in turn; returns the number of frames.
fn attack(forwarder: &ForwarderProcess, address: u8, rate: u64, is_over: &AtomicBool) -> u64 {
    let ports: Vec<_> = (0..PORTS).map(|_| socket(host(address), forwarder)).collect();
    ports.iter().for_each(|port| port.set_nonblocking(true).unwrap());
    let (long, fragment) = ("x".repeat(3000), vec![6; 1400]);
    let (mut frames, mut buffer) = (0, [0; 9000]);
    pace(rate, is_over, |number| {
        let lifetime = |uri: &str, can_be_prefix: bool| {
            let (name, nonce) = (name(uri), u32::try_from(number % (1 << 32)).unwrap());
            let builder = InterestBuilder::new(&name).nonce(nonce).lifetime_ms(3_600_000);
            builder.can_be_prefix(can_be_prefix).to_vec().unwrap()
        };
        let frame = match number % 6 {
            0 | 1 => lifetime(&format!("/hole/{address}/{number}"), false),
            // Joined by all ports of all addresses.
            2 => with_token(&lifetime(&format!("/hole/all/{}", number / 60), false)),
            3 => lifetime(&format!("/hole/{address}/{long}/{number}"), false),
            4 => lifetime(&format!("/{address}-{number}"), true),
            _ => first_fragment(number * 8, &fragment),
        };
        let port = &ports[usize::try_from(number).unwrap() % PORTS];
        frames += u64::from(port.send(&frame).is_ok());
        while port.recv(&mut buffer).is_ok() {}
    });
    frames
}

/// Attacks by other means than [`attack`], each from a thread of its own.
fn attack_otherwise(forwarder: &ForwarderProcess, is_over: &AtomicBool) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let peer = |_| Peer::new("udp", forwarder, host(WITHOUT_CERTIFICATE));
            let mut peers: Vec<_> = (0..16).map(peer).collect();
            command_without_certificate(&mut peers, is_over);
        });
        scope.spawn(|| come_and_go(forwarder, is_over));
        scope.spawn(|| read_nothing(forwarder, is_over));
        scope.spawn(|| bring_data(forwarder, is_over));
        scope.spawn(|| change_routes_and_strategies(forwarder, is_over));
    });
}

/// TCP connections that are reset at once, and requests of a web page.
fn come_and_go(forwarder: &ForwarderProcess, is_over: &AtomicBool) {
    pace(200, is_over, |number| {
        // The kernel may have no port for it.
        let _ = connect_and_reset(host(COMING_AND_GOING), forwarder.port());
        if number % 20 == 0 {
            post_command(forwarder, 0, "/attack/post");
        }
    });
}

/// Connections that request Data from the cache and do not read it.
fn read_nothing(forwarder: &ForwarderProcess, is_over: &AtomicBool) {
    let connect = || {
        let stream = connect_from(host(READING_NOTHING), forwarder.port());
        stream.set_nonblocking(true).unwrap();
        stream
    };
    let mut streams: Vec<_> = (0..8).map(|_| connect()).collect();
    pace(1000, is_over, |number| {
        let nonce = u32::try_from(number % (1 << 32)).unwrap();
        let wire = interest(&format!("/good/unread/{}", number % 100), nonce);
        let count = streams.len() as u64;
        let stream = &mut streams[usize::try_from(number % count).unwrap()];
        // A part of an Interest is the end of a connection.
        if stream.write(&wire).ok() != Some(wire.len()) {
            *stream = connect();
        }
    });
}

/// Connections that bring Data that nobody has asked for.
fn bring_data(forwarder: &ForwarderProcess, is_over: &AtomicBool) {
    let flood = data("/unsolicited", &[0; 1000]).repeat(20);
    let mut streams: Vec<_> = (0..4)
        .map(|_| {
            let stream = connect_from(host(BRINGING_DATA), forwarder.port());
            stream.set_nonblocking(true).unwrap();
            (stream, 0)
        })
        .collect();
    pace(400, is_over, |_| {
        for (stream, sent) in &mut streams {
            // A write may end within a Data.
            *sent = (*sent + stream.write(&flood[*sent..]).unwrap_or(0)) % flood.len();
        }
    });
}

/// Commands of another user: routes that come and go, and strategies with ever new parameters.
fn change_routes_and_strategies(forwarder: &ForwarderProcess, is_over: &AtomicBool) {
    const PREFIXES: u64 = 10;
    let mut user = Application::over(connect_as_user(forwarder, NOBODY));
    let mut command = |verb: Verb, number: u64, strategy: Option<String>| {
        let parameters = ControlParameters {
            name: Some(name(&format!("/user/{}", number % PREFIXES))),
            strategy: strategy.map(|uri| name(&uri)),
            ..ControlParameters::default()
        };
        // Some may be rejected.
        let _ = user.command("/localhost/nfd", verb, &parameters);
    };
    pace(200, is_over, |number| {
        let interval = 1000 + number % 5000;
        let strategy = format!("/localhost/nfd/strategy/asf/v=5/probing-interval~{interval}");
        command(Verb::RibRegister, number, None);
        command(Verb::StrategySet, number, Some(strategy));
        command(Verb::RibUnregister, number, None);
    });
    (0..PREFIXES).for_each(|number| command(Verb::StrategyUnset, number, None));
}

fn with_token(packet: &[u8]) -> Vec<u8> {
    framed(&LpHeader { pit_token: &[7; 32], ..LpHeader::default() }, packet)
}

fn first_fragment(sequence: u64, payload: &[u8]) -> Vec<u8> {
    let header = LpHeader {
        sequence: Some(sequence),
        frag_index: Some(0),
        frag_count: Some(4),
        ..LpHeader::default()
    };
    framed(&header, payload)
}

fn framed(header: &LpHeader<'_>, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    ndn_packet::lp::append_packet(&mut frame, header, payload);
    frame
}

/// The neighbour: sends Interests at a rate, and counts their Data, not those that are late from an earlier call.
fn neighbour(socket: &UdpSocket, rate: u64, is_over: &AtomicBool) -> u64 {
    let answered = AtomicU64::new(0);
    let session = name(&format!("/good/neighbour/{}", unix_ms()));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = [0; 9000];
            while !is_over.load(Ordering::Relaxed) {
                let Ok(length) = socket.recv(&mut buffer) else { continue };
                let frame = LpPacket::parse(&buffer[..length]);
                let data = frame.ok().and_then(|frame| Data::parse(frame.fragment()?).ok());
                let is_answer = data.is_some_and(|data| data.name().starts_with(session.as_ref()));
                answered.fetch_add(u64::from(is_answer), Ordering::Relaxed);
            }
        });
        pace(rate, is_over, |number| {
            let uri = format!("{session}/{number}");
            let _ = socket.send(&interest(&uri, u32::try_from(number % (1 << 32)).unwrap()));
        });
    });
    answered.into_inner()
}

/// Data per second of the application and the neighbour, during a time.
fn service(hub: &Hub, rate: u64, time: Duration) -> (f64, f64) {
    let is_over = AtomicBool::new(false);
    let seconds = time.as_secs_f64();
    let (duration, rate_text) = (format!("{}s", time.as_secs()), rate.to_string());
    let consumer = ["traffic", "consumer", "/good", "--lifetime", "1s"];
    let load = ["--rate", &rate_text, "--duration", &duration];
    std::thread::scope(|scope| {
        let end = EndOnDrop(&is_over);
        let of_neighbour = scope.spawn(|| neighbour(&hub.neighbour, rate, &is_over));
        let report = hub.forwarder.json(&[&consumer[..], &load].concat());
        drop(end);
        let satisfied = report["patterns"][0]["satisfied"].as_u64().unwrap();
        (satisfied as f64 / seconds, of_neighbour.join().unwrap() as f64 / seconds)
    })
}

/// Times until commands of another application are answered.
fn answer_times(forwarder: &ForwarderProcess, is_over: &AtomicBool) -> Vec<Duration> {
    let mut application = Application::attach(forwarder.socket());
    let mut times = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let asked = now();
        application.register("/answers", 0);
        times.push(asked.elapsed());
        std::thread::sleep(COMMAND_INTERVAL);
    }
    times
}

struct Hub {
    /// Ended before the forwarder.
    _producer: namewire_tests::Process,
    /// Takes what the attackers ask for.
    _hole: UdpSocket,
    neighbour: UdpSocket,
    forwarder: ForwarderProcess,
    /// With the trust anchor.
    _directory: tempfile::TempDir,
}

impl Hub {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let rules = rules_of_site(&Identity::new("/net", None), directory.path());
        let idle_timeout = format!("[faces]\nidle_timeout = \"{}s\"\n", IDLE_TIMEOUT.as_secs());
        let settings = Settings::new().udp().tcp().workers(2).toml(&idle_timeout).toml(&rules);
        let forwarder = settings.start_program();
        let neighbour = socket(host(200), &forwarder);
        let remote = format!("udp4://{}", neighbour.local_addr().unwrap());
        let _ = forwarder.output(&["face", "create", &remote, "--persistency", "permanent"]);
        let hole = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to_hole = format!("udp4://{}", hole.local_addr().unwrap());
        for prefix in ["/hole", "/"] {
            // Routes below / inherit it, so it is the last choice.
            let _ = forwarder.output(&["route", "add", prefix, &to_hole, "--cost", "1000"]);
        }
        let producer = forwarder.spawn("producer", &["traffic", "producer", "/good"]);
        wait_until("the producer's route", || {
            forwarder.output(&["route", "list"]).contains("/good").then_some(())
        });
        Self { _producer: producer, _hole: hole, neighbour, forwarder, _directory: directory }
    }

    /// Half of the Interests per second that the application and the neighbour get answered each when both send more
    /// than the machine forwards.
    fn half_load(&self) -> u64 {
        let consumer = ["traffic", "consumer", "/good", "--window", "64"];
        let report = self.forwarder.json(&[&consumer[..], &["--duration", "3s"]].concat());
        let alone = report["patterns"][0]["satisfied"].as_u64().unwrap() / 3;
        let together = service(self, alone / 2, BEFORE);
        println!(
            "the application alone: {alone}/s; application and neighbour together: {:.0}/s and {:.0}/s",
            together.0, together.1
        );
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate")]
        let half = (together.0.min(together.1) / 2.0) as u64;
        half
    }

    /// The places in use of each table, and the names of the principals.
    fn held(&self) -> (BTreeMap<String, u64>, Vec<String>) {
        let limits = self.forwarder.json(&["limits"]);
        let tables = limits["tables"].as_object().unwrap().iter();
        let used = tables.map(|(name, table)| (name.clone(), table["used"].as_u64().unwrap()));
        let principals = limits["principals"].as_array().unwrap().iter();
        let names = principals.map(|one| one["principal"].as_str().unwrap().to_owned());
        (used.collect(), names.collect())
    }

    /// Whether no more is held than before the attack, and nothing by the attackers, who have no faces any more.
    fn has_recovered(&self, before: &BTreeMap<String, u64>) -> bool {
        let (used, principals) = self.held();
        let user = format!("user {NOBODY}");
        let is_attacker = |name: &String| {
            name.starts_with(&user) || (1..=BRINGING_DATA).any(|one| *name == host(one).to_string())
        };
        used.iter().all(|(name, used)| *used <= before[name]) && !principals.iter().any(is_attacker)
    }
}

#[test]
#[ignore = "minutes: make attack"]
fn rates_of_application_and_neighbour_hold_during_an_attack() {
    with_hosts(|| {
        let hub = Hub::start();
        let (time, rate) = (setting("ATTACK_SECONDS", 600), setting("ATTACK_RATE", ATTACK_RATE));
        let half_load = hub.half_load();
        let load = setting("ATTACK_LOAD", half_load);
        let held_before = hub.held().0;
        let before = service(&hub, load, BEFORE);
        println!(
            "before, at {load}/s each: application {:.0}/s, neighbour {:.0}/s",
            before.0, before.1
        );
        let (is_over, portion) = (AtomicBool::new(false), Duration::from_secs(time.clamp(2, 20)));
        let frames = AtomicU64::new(0);
        let mut worst = (f64::MAX, f64::MAX);
        let mut resident = Vec::new();
        let answers = std::thread::scope(|scope| {
            let end = EndOnDrop(&is_over);
            let answers = scope.spawn(|| answer_times(&hub.forwarder, &is_over));
            scope.spawn(|| attack_otherwise(&hub.forwarder, &is_over));
            for address in 1..=ADDRESSES {
                let (hub, is_over, frames) = (&hub, &is_over, &frames);
                let rate = rate / u64::from(ADDRESSES);
                scope.spawn(move || {
                    frames.fetch_add(
                        attack(&hub.forwarder, address, rate, is_over),
                        Ordering::Relaxed,
                    );
                });
            }
            let start = now();
            while start.elapsed() < Duration::from_secs(time) {
                let during = service(&hub, load, portion);
                resident.push(hub.forwarder.resident_kib());
                println!(
                    "{:4} s: application {:.0}/s, neighbour {:.0}/s, resident {} KiB, held {:?}",
                    start.elapsed().as_secs(),
                    during.0,
                    during.1,
                    resident.last().unwrap(),
                    hub.held().0
                );
                worst = (worst.0.min(during.0), worst.1.min(during.1));
            }
            drop(end);
            answers.join().unwrap()
        });
        let late = answers.iter().filter(|time| **time > ANSWER_TIME_MAX).count();
        let frames = frames.into_inner();
        println!(
            "{frames} frames of the attack; {} commands, {late} of them answered after {ANSWER_TIME_MAX:?}, the last after {:?}",
            answers.len(),
            answers.iter().max().unwrap(),
        );
        wait_until_within(REST, "the end of what the attackers held", || {
            hub.has_recovered(&held_before).then_some(())
        });
        // Otherwise, the rates below say nothing.
        assert!(before.0.min(before.1) >= load as f64 / 2.0, "{before:?} instead of {load}/s");
        assert!(frames >= rate * time / 10, "only {frames} frames attack");
        // Some, because the attackers take time of the same processors.
        assert!(late * 20 <= answers.len(), "{late} of {} answers are late", answers.len());
        assert!(worst.0 >= 0.9 * before.0, "application: {worst:?} instead of {before:?}");
        assert!(worst.1 >= 0.9 * before.1, "neighbour: {worst:?} instead of {before:?}");
        let (first, last) = (resident[resident.len() / 2], resident[resident.len() - 1]);
        assert!(last < first + first / 10 + 8192, "memory: {resident:?} KiB");
    });
}
