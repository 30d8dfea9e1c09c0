//! Routes by the thousand: registered, listed and gone with their face, while packets go on.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use namewire_tests::wire::PacketReader;
use namewire_tests::{Settings, TIMEOUT, now, wait_until, wire};
use ndn_management::{CommandBuilder, ControlParameters, ControlResponse, Verb};
use ndn_packet::{Data, InterestBuilder, LpPacket, Name};

const ROUTES: u64 = 20_000;
/// Commands on their way at a time.
const WINDOW: u64 = 256;

fn prefix(number: u64) -> Name {
    let mut name: Name = "/many".parse().unwrap();
    name.push_generic(format!("{}", number % 100)).push_generic(format!("{number}"));
    name
}

fn register(number: u64) -> Vec<u8> {
    let name = Some(prefix(number));
    let parameters = ControlParameters { name, ..ControlParameters::default() };
    CommandBuilder::default()
        .digest_signed_interest(Verb::RibRegister, &parameters, number + 1, 1)
        .unwrap()
}

#[test]
fn thousands_of_routes_per_second_are_added_and_listed_once() {
    let forwarder = Settings::new().start();
    let mut stream = forwarder.connect();
    let mut reader = PacketReader::new(&stream);
    let started = now();
    let mut sent = 0;
    for answered in 0..ROUTES {
        while sent < ROUTES && sent < answered + WINDOW {
            stream.write_all(&register(sent)).unwrap();
            sent += 1;
        }
        let answer = reader.next_packet().unwrap();
        let data = Data::parse(LpPacket::parse(&answer).unwrap().fragment().unwrap()).unwrap();
        let response = ControlResponse::decode(data.content().unwrap()).unwrap();
        assert!(response.is_ok(), "{response:?}");
    }
    let per_second = f64::from(u32::try_from(ROUTES).unwrap()) / started.elapsed().as_secs_f64();
    // Several thousand even without optimisation; a busy machine gets the benefit of the doubt.
    assert!(per_second > 500.0, "{per_second:.0} routes/s");

    // Another client lists them, in many segments of one version.
    let listed = forwarder.output(&["nfdc", "route", "list", "origin", "app"]);
    let names: BTreeSet<&str> = listed
        .lines()
        .filter_map(|line| line.strip_prefix("prefix=")?.split(' ').next())
        .filter(|name| name.starts_with("/many/"))
        .collect();
    assert_eq!(names.len() as u64, ROUTES, "{per_second:.0} routes/s");
    assert_eq!(listed.lines().filter(|line| line.contains("/many/")).count() as u64, ROUTES);

    // An Interest finds the route of its longest prefix.
    let uri = format!("{}/x", prefix(4711));
    let mut consumer = forwarder.connect();
    consumer.write_all(&wire::interest(&uri, 7)).unwrap();
    let interest = reader.next_packet().unwrap();
    let packet = LpPacket::parse(&interest).unwrap();
    let interest = ndn_packet::Interest::parse(packet.fragment().unwrap()).unwrap();
    assert_eq!(interest.name(), wire::name(&uri));

    drop((stream, reader));
    wait_until("the routes to be gone with their face", || {
        let gone = forwarder.run(&["nfdc", "route", "show", &prefix(0).to_uri()]);
        (gone.status.code() == Some(6)).then_some(())
    });
    let status = forwarder.json(&["status"]);
    assert!(status["tables"]["fib_entries"].as_u64().is_none_or(|left| left < 10), "{status}");
}

/// Registers routes until the flag is set, some at a time.
fn register_until(stream: &mut std::os::unix::net::UnixStream, is_over: &AtomicBool) {
    let mut reader = PacketReader::new(stream);
    let (mut sent, mut answered) = (0, 0);
    while !is_over.load(Ordering::SeqCst) {
        while sent < answered + WINDOW / 8 {
            stream.write_all(&register(sent)).unwrap();
            sent += 1;
        }
        reader.next_packet().unwrap();
        answered += 1;
    }
}

/// Ends [`register_until`] when it is dropped, be it by a panic.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn new_connection_is_answered_while_others_register_routes() {
    let forwarder = Settings::new().start();
    let (mut busy, is_over) = (forwarder.connect(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        // The other thread ends in any case, and nobody waits for it for ever.
        let over = Over(&is_over);
        scope.spawn(|| register_until(&mut busy, &is_over));
        let unanswered = (0..300).find(|number| {
            let mut stream = forwarder.connect();
            stream.set_read_timeout(Some(TIMEOUT)).unwrap();
            let question = wire::name("/localhost/nfd/cs/info");
            let interest = InterestBuilder::new(&question).can_be_prefix(true).nonce(*number);
            stream.write_all(&interest.lifetime_ms(60_000).to_vec().unwrap()).unwrap();
            stream.read(&mut [0]).is_err()
        });
        drop(over);
        assert_eq!(unanswered, None, "the Interest of this one was lost");
    });
}

/// Service of other faces while a face with a million next hops, half of them of routes, is removed.
/// `NAMEWIRE_BIN=target/release/namewire cargo test -p namewire-tests many_routes:: -- --ignored --nocapture`
#[test]
#[ignore = "a measurement, of a program with optimisation"]
fn face_with_a_million_fib_entries_is_removed_in_slices() {
    const ENTRIES: u64 = 1_000_000;
    let toml = "[tables]\nfib_capacity = 1_500_000";
    let forwarder = Settings::new().toml(toml).start();
    let mut stream = forwarder.connect();
    let mut reader = PacketReader::new(&stream);
    let mut sent = 0;
    for answered in 0..ENTRIES {
        while sent < ENTRIES && sent < answered + WINDOW {
            let name = Some(prefix(sent));
            let parameters = ControlParameters { name, ..ControlParameters::default() };
            let verb = [Verb::RibRegister, Verb::FibAddNextHop][usize::from(sent % 2 == 1)];
            let command =
                CommandBuilder::default().digest_signed_interest(verb, &parameters, sent + 1, 1);
            stream.write_all(&command.unwrap()).unwrap();
            sent += 1;
        }
        reader.next_packet().unwrap();
    }
    let mut other = forwarder.connect();
    other.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut answers = PacketReader::new(&other);
    drop((stream, reader));
    let began = now();
    let (mut longest, mut count, mut took_all) = (std::time::Duration::ZERO, 0_u32, None);
    while began.elapsed() < std::time::Duration::from_secs(20) {
        let asked = now();
        let question = wire::name("/localhost/nfd/status/general");
        let interest = InterestBuilder::new(&question).can_be_prefix(true).must_be_fresh(true);
        let interest = interest.nonce(count).lifetime_ms(60_000).to_vec().unwrap();
        other.write_all(&interest).unwrap();
        let answer = answers.next_packet().unwrap();
        let packet = LpPacket::parse(&answer).unwrap();
        let data = Data::parse(packet.fragment().unwrap()).unwrap();
        let status = ndn_management::ForwarderStatus::decode(data.content().unwrap()).unwrap();
        longest = longest.max(asked.elapsed());
        count += 1;
        if status.fib_entries < 10 {
            took_all = Some(began.elapsed());
            break;
        }
    }
    println!(
        "all gone after {took_all:?}; {count} others answered meanwhile, each within {longest:?}"
    );
}
