//! Forwarders inside this process: with threads, and stepped on virtual time.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use namewire_config::Config;
use namewire_control::{ControlClient, TraceLine};
use namewire_daemon::{
    CallError, Environment, Forwarder, Hooks, Management, Seeds, SteppedForwarder,
};
use ndn_dataplane::MemoryFaceOptions;
use ndn_face::InternalEnd;
use ndn_management::{DataSigner, DigestSigner};
use ndn_packet::DataBuilder;
use ndn_packet::{Data, Interest, InterestBuilder, Name};
use ndn_sys::clock::ManualClock;
use ndn_sys::poll::{self, Events, Poller};
use ndn_types::{LinkType, Persistency, Scope, Timestamp};

/// No listeners, independent of the machine.
const SETTINGS: &str = "control.enabled = false\n\
    [forwarder]\nworkers = 1\n\
    [pool]\ncapacity = \"8 MiB\"\npages = \"ordinary\"\n\
    [tables]\npit_capacity = 1000\nfib_capacity = 1000\n\
    [tables.cs]\ncapacity_packets = 100\n\
    [listeners]\nunix.enabled = false\nudp.enabled = false\ntcp.enabled = false\n\
    websocket.enabled = false\nmulticast.enabled = false\n";

fn config() -> Config {
    // `parse` also rejects a configuration without listeners.
    let mut config =
        namewire_config::parse("test", &SETTINGS.replace("unix.enabled = false", "")).unwrap();
    config.listeners.unix.enabled = false;
    config
}

fn memory(number: u64, scope: Scope) -> MemoryFaceOptions {
    MemoryFaceOptions {
        number,
        link_type: LinkType::PointToPoint,
        scope,
        principal: None,
        persistency: Persistency::Permanent,
        mtu: 8800,
        queue_frames_max: 64,
    }
}

fn name(uri: &str) -> Name {
    Name::from_uri(uri).unwrap()
}

fn interest(uri: &str, nonce: u32) -> Vec<u8> {
    InterestBuilder::new(&name(uri)).nonce(nonce).lifetime_ms(4000).to_vec().unwrap()
}

fn data(uri: &str) -> Vec<u8> {
    DigestSigner.sign(&DataBuilder::new(&name(uri)).content(b"content")).unwrap()
}

/// Returns the packet in a frame.
fn packet(frame: &[u8]) -> Vec<u8> {
    ndn_packet::LpPacket::parse(frame).unwrap().fragment().unwrap().to_vec()
}

/// Waits for the next frame, which a worker on another thread sends.
fn wait_for(end: &mut InternalEnd) -> Vec<u8> {
    let (poller, mut events) = (Poller::new().unwrap(), Events::with_capacity(1));
    poller.add(&*end, 0, poll::Interest::Readable).unwrap();
    loop {
        end.reset();
        if let Some(frame) = end.receive() {
            return packet(&frame);
        }
        poller.wait(&mut events, Some(Duration::from_secs(20))).unwrap();
        assert!(!events.is_empty(), "no frame arrives");
    }
}

#[test]
fn two_forwarders_with_threads_run_in_one_process() {
    let forwarders = [1, 2].map(|_| {
        Forwarder::start(&config(), Environment::system(), Hooks::none().unwrap()).unwrap()
    });
    for mut forwarder in &forwarders {
        let (_, mut consumer) = forwarder.add_memory_face(memory(1, Scope::Local)).unwrap();
        let (face_id, mut producer) = forwarder.add_memory_face(memory(2, Scope::Local)).unwrap();
        forwarder.add_route(&name("/a"), face_id, 3).unwrap();
        consumer.send(interest("/a/b", 1)).unwrap();
        let arrived = wait_for(&mut producer);
        assert_eq!(Interest::parse(&arrived).unwrap().name(), name("/a/b").as_ref());
        producer.send(data("/a/b")).unwrap();
        let answer = wait_for(&mut consumer);
        assert_eq!(Data::parse(&answer).unwrap().content(), Some(&b"content"[..]));

        assert_eq!(forwarder.status().unwrap().counters.satisfied_interests, 1);
        let routes = forwarder.routes().unwrap();
        assert!(routes.iter().any(|entry| entry.name == name("/a")), "{routes:?}");
        let error = forwarder.add_route(&name("/a"), 9999, 0).unwrap_err();
        assert!(matches!(error, CallError::Refused { .. }), "{error}");
        forwarder.destroy_face(face_id).unwrap();
    }
    for forwarder in forwarders {
        forwarder.shut_down().unwrap();
    }
}

#[test]
fn connected_forwarders_exchange_packets_until_one_stops() {
    let [first, second] = [1, 2].map(|_| {
        Forwarder::start(&config(), Environment::system(), Hooks::none().unwrap()).unwrap()
    });
    let (_, mut consumer) = first.add_memory_face(memory(1, Scope::Local)).unwrap();
    let (served, mut producer) = second.add_memory_face(memory(2, Scope::Local)).unwrap();
    let [to_second, to_first] = first.connect(&second, memory(3, Scope::NonLocal)).unwrap();
    (&first).add_route(&name("/a"), to_second, 0).unwrap();
    (&second).add_route(&name("/a"), served, 0).unwrap();
    consumer.send(interest("/a/b", 1)).unwrap();
    let arrived = wait_for(&mut producer);
    assert_eq!(Interest::parse(&arrived).unwrap().name(), name("/a/b").as_ref());
    producer.send(data("/a/b")).unwrap();
    let answer = wait_for(&mut consumer);
    assert_eq!(Data::parse(&answer).unwrap().content(), Some(&b"content"[..]));

    first.shut_down().unwrap();
    let clock = Environment::system().clock;
    let deadline = clock.now() + Duration::from_secs(20);
    let is_there = |face_id| {
        let faces = (&second).faces().unwrap();
        faces.iter().any(|face| face.properties.face_id == face_id)
    };
    while is_there(to_first) {
        assert!(clock.now() < deadline, "the face stays");
        std::thread::yield_now();
    }
    second.shut_down().unwrap();
}

#[test]
fn started_call_makes_the_forwarder_due_at_once() {
    let clock = ManualClock::new(Timestamp::from_millis(1000), Duration::from_secs(1_700_000_000));
    let mut node = Stepped::new(&clock, 7);
    node.settle();
    let (at, _) = node.forwarder.next_deadline().unwrap();
    assert!(at > clock.now());
    let list = interest("/localhost/nfd/status/general", 1);
    let call = node.forwarder.begin_call(list);
    let (at, reason) = node.forwarder.next_deadline().unwrap();
    assert!(at <= clock.now(), "{reason:?} comes first");
    node.settle();
    assert!(call.poll().is_some());
    node.forwarder.shut_down().unwrap();
}

#[test]
fn unusable_settings_are_reported_by_name() {
    let mut config = config();
    config.forwarder.cpus = vec![4000];
    let error =
        Forwarder::start(&config, Environment::system(), Hooks::none().unwrap()).unwrap_err();
    assert!(error.to_string().contains("forwarder.cpus"), "{error}");
}

/// A forwarder on virtual time, with a consumer and a producer.
struct Stepped {
    forwarder: SteppedForwarder,
    ends: [InternalEnd; 2],
}

impl Stepped {
    fn new(clock: &ManualClock, seed: u64) -> Self {
        let environment =
            Environment { clock: clock.clone().into(), seeds: Seeds::from_number(seed) };
        let mut forwarder = SteppedForwarder::new(&config(), &environment).unwrap();
        let [consumer, producer] =
            [1, 2].map(|number| forwarder.add_memory_face(&memory(number, Scope::Local)).unwrap());
        forwarder.add_route(&name("/a"), producer.0, 0).unwrap();
        let strategy = name("/localhost/nfd/strategy/multicast");
        forwarder.set_strategy(&name("/a"), &strategy).unwrap();
        Self { forwarder, ends: [consumer.1, producer.1] }
    }

    fn settle(&mut self) {
        for _ in 0..1000 {
            if !self.forwarder.step().unwrap() {
                return;
            }
        }
        panic!("the forwarder never rests");
    }
}

#[test]
fn stepped_forwarder_repeats_exactly_on_virtual_time() {
    let run = || {
        let clock =
            ManualClock::new(Timestamp::from_millis(1000), Duration::from_secs(1_700_000_000));
        let mut node = Stepped::new(&clock, 7);
        let mut log = Vec::new();
        for number in 0..20 {
            let uri = format!("/a/{number}");
            node.ends[0].send(interest(&uri, number)).unwrap();
            node.settle();
            let arrived = node.ends[1].receive().unwrap();
            log.push((clock.now(), arrived));
            clock.advance(Duration::from_millis(10));
            // Every other Interest is answered.
            if number % 2 == 0 {
                node.ends[1].send(data(&uri)).unwrap();
                node.settle();
                log.push((clock.now(), node.ends[0].receive().unwrap()));
            }
            if let Some((at, reason)) = node.forwarder.next_deadline() {
                assert!(at > clock.now(), "{reason:?} is due and was not handled");
                clock.advance_to(at);
            }
            node.settle();
        }
        clock.advance(Duration::from_secs(10));
        node.settle();
        let counters = node.forwarder.counters();
        let counted = [
            counters.in_interests.value(),
            counters.satisfied_interests.value(),
            counters.unsatisfied_interests.value(),
        ];
        let faces = node.forwarder.faces().unwrap().len();
        node.forwarder.shut_down().unwrap();
        (log, counted, faces)
    };
    let (log, counted, faces) = run();
    assert_eq!((log.len(), counted[0]), (30, 20));
    assert_eq!(counted[1..], [10, 10]);
    assert!(faces >= 3, "{faces}");
    assert_eq!(run(), (log, counted, faces));
}

/// A simulation polls a forwarder after each event: without work, that costs nothing.
#[test]
fn step_without_work_makes_no_round() {
    let clock = ManualClock::new(Timestamp::from_millis(1000), Duration::from_secs(1_700_000_000));
    let mut node = Stepped::new(&clock, 7);
    node.settle();
    let rounds = |node: &Stepped| node.forwarder.workers()[0].worker_counters().rounds.value();
    let before = rounds(&node);
    (0..10).for_each(|_| assert!(!node.forwarder.step().unwrap()));
    assert_eq!(rounds(&node), before);
    node.ends[0].send(interest("/a/1", 1)).unwrap();
    node.settle();
    assert!(node.ends[1].receive().is_some());
    assert_eq!(rounds(&node), before + 1);
    // Its deadlines alone let the Interest expire.
    while node.forwarder.counters().unsatisfied_interests.value() == 0 {
        let (at, _) = node.forwarder.next_deadline().unwrap();
        clock.advance_to(at);
        node.settle();
    }
    assert_eq!(clock.now().since(Timestamp::from_millis(1000)).as_secs(), 4);
    node.forwarder.shut_down().unwrap();
}

#[test]
fn stepped_forwarder_runs_on_the_system_clock() {
    let mut forwarder = SteppedForwarder::new(&config(), &Environment::system()).unwrap();
    assert!(forwarder.status().unwrap().version.starts_with("namewire"));
}

#[test]
fn decisions_about_packets_are_traced_on_the_control_socket() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("control.sock");
    let mut config = config();
    config.control.enabled = true;
    config.control.path = Some(socket.clone());
    let forwarder =
        Forwarder::start(&config, Environment::system(), Hooks::none().unwrap()).unwrap();
    let add = |number| forwarder.add_memory_face(memory(number, Scope::NonLocal)).unwrap();
    let [(first, mut consumer), (_, mut other), (upstream, mut producer)] = [1, 2, 3].map(add);
    (&forwarder).add_route(&name("/a"), upstream, 0).unwrap();

    let client = ControlClient::connect(&socket).unwrap();
    let (mut lines, end) = client.trace_packets(&Name::default(), 1).unwrap();
    // The next packet with this name: what was decided.
    let mut expect = |uri: &str, decisions: &[&str]| loop {
        let TraceLine::Packet(packet) = lines.next().unwrap().unwrap() else { panic!("lost") };
        if packet.name == uri {
            let decided: Vec<String> = packet.decisions.iter().map(ToString::to_string).collect();
            for decision in decisions {
                let is_there = decided.iter().any(|one| one.starts_with(decision));
                assert!(is_there, "{decision} of {uri} is not in {decided:?}");
            }
            return;
        }
    };
    consumer.send(interest("/none/x", 1)).unwrap();
    let nack = format!("sent Nack NoRoute to face {first}");
    expect("/none/x", &["PIT new", "FIB / next hops none", "dropped no_next_hop", &nack]);
    consumer.send(interest("/localhost/x", 2)).unwrap();
    expect("/localhost/x", &["dropped localhost_scope"]);
    let limited = InterestBuilder::new(&name("/a/limited")).nonce(3).hop_limit(1).to_vec().unwrap();
    consumer.send(limited).unwrap();
    expect("/a/limited", &["PIT new", "dropped hop_limit_reached"]);

    consumer.send(interest("/a/x", 4)).unwrap();
    let route = format!("FIB /a next hops {upstream} strategy /localhost/nfd/strategy/best-route");
    expect("/a/x", &["PIT new", &route, &format!("sent Interest to face {upstream}")]);
    other.send(interest("/a/x", 5)).unwrap();
    expect("/a/x", &["PIT aggregated"]);
    other.send(interest("/a/x", 4)).unwrap();
    expect("/a/x", &["dropped duplicate_nonce", "sent Nack Duplicate"]);
    producer.send(data("/a/x")).unwrap();
    expect("/a/x", &["CS inserted", "PIT satisfied 1", &format!("sent Data to face {first}")]);
    consumer.send(interest("/a/x", 6)).unwrap();
    expect("/a/x", &["CS hit", &format!("sent Data to face {first}")]);

    let second = ControlClient::connect(&socket).unwrap();
    let refused = second.trace_packets(&name("/a"), 1).err().unwrap();
    assert!(refused.to_string().contains("another client"), "{refused}");
    end.finish().unwrap();
    assert!(lines.all(|line| line.is_ok()));
    forwarder.shut_down().unwrap();
}

#[test]
fn forwarder_with_threads_refuses_a_manual_clock() {
    let clock = ManualClock::new(Timestamp::ZERO, Duration::ZERO).into();
    let environment = Environment { clock, ..Environment::system() };
    let error = Forwarder::start(&config(), environment, Hooks::none().unwrap()).unwrap_err();
    assert!(error.to_string().contains("manual clock"), "{error:#}");
}

#[test]
fn queued_call_makes_the_forwarder_due_at_once() {
    let clock = ManualClock::new(Timestamp::from_millis(1000), Duration::from_secs(1_767_225_600));
    let environment = Environment { clock: clock.clone().into(), seeds: Seeds::from_number(3) };
    let mut forwarder = SteppedForwarder::new(&config(), &environment).unwrap();
    while forwarder.step().unwrap() {}
    let status = name("/localhost/nfd/status/general");
    let dataset = InterestBuilder::new(&status).can_be_prefix(true).must_be_fresh(true).nonce(1);
    let call = forwarder.begin_call(dataset.to_vec().unwrap());
    let (due, _) = forwarder.next_deadline().unwrap();
    assert!(due <= clock.now(), "due at {due:?}");
    // By its deadlines alone, without time passing, the forwarder answers.
    while forwarder.next_deadline().is_some_and(|(at, _)| at <= clock.now()) {
        forwarder.step().unwrap();
    }
    assert!(call.poll().unwrap().is_ok());
}
