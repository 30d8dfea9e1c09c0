//! Workers without threads, on a manual clock.
#![allow(clippy::unwrap_used, reason = "test code")]

mod support;

use std::collections::{BTreeSet, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ndn_dataplane::{Command, Dataplane, Event, MemoryFaceOptions, NewFace, Roles, SteppedWorker};
use ndn_face::{Direction, FaceOptions, FrameTap, InternalEnd, NewDatagram, NewStream};
use ndn_forwarding::{DropReason, FaceProperties};
use ndn_packet::tlv::Reader;
use ndn_packet::{
    DataBuilder, Interest as InterestView, InterestBuilder, Name, SignatureInfo, SignatureType,
};
use ndn_sys::clock::{Clock, ManualClock};
use ndn_sys::poll::{Events, Interest, Poller};
use ndn_table::{FaceIndex, FibWriter, NextHop, PcctConfig};
use ndn_types::{FaceUri, LinkType, Persistency, Scope, Timestamp};

use support::{Bed, TIMEOUT, data, interest};

/// Steps of all workers that find something to do, at one time, before a test takes it for a livelock.
const STEPS_MAX: usize = 1000;

const MTU: usize = 1500;

fn memory(number: u64, queue_frames_max: usize) -> MemoryFaceOptions {
    MemoryFaceOptions {
        number,
        link_type: LinkType::PointToPoint,
        scope: Scope::NonLocal,
        principal: None,
        persistency: Persistency::Persistent,
        mtu: MTU,
        queue_frames_max,
    }
}

struct Node {
    dataplane: Dataplane,
    workers: Vec<SteppedWorker>,
    fib: FibWriter,
}

impl Node {
    fn new(workers: usize, clock: &ManualClock) -> Self {
        let roles = vec![Roles::default(); workers];
        let (mut options, mut fib, strategies) =
            support::options(&roles, 64, Duration::from_secs(3600));
        options.clock = Clock::from(clock.clone());
        // One principal may fill a ring.
        options.shard.pcct = PcctConfig::with_capacity(1 << 16, 1024, clock.now());
        let (dataplane, workers) =
            Dataplane::stepped(options, fib.publish(), Arc::new(strategies)).unwrap();
        Self { dataplane, workers, fib }
    }

    fn application(&mut self) -> (FaceIndex, UnixStream) {
        let (near, far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        far.set_nonblocking(true).unwrap();
        let face_id = self.dataplane.allocate_face_id();
        let properties = FaceProperties::point_to_point(face_id, Scope::Local);
        let index = self.add(NewFace {
            ticket: Some(face_id),
            transport: NewStream::Plain(near.into()).into(),
            options: FaceOptions::stream(properties, Persistency::OnDemand),
            remote: FaceUri::null(),
            local: FaceUri::null(),
        });
        (index, far)
    }

    fn memory_face(&mut self, number: u64, queue_frames_max: usize) -> (FaceIndex, InternalEnd) {
        let (_, end) = self.dataplane.add_memory_face(&memory(number, queue_frames_max)).unwrap();
        self.settle();
        (self.added(), end)
    }

    fn add(&mut self, face: NewFace) -> FaceIndex {
        self.command(Command::AddFace(Box::new(face)));
        self.added()
    }

    fn added(&mut self) -> FaceIndex {
        let event = self.dataplane.next_event().unwrap();
        let Some(Event::FaceAdded { face, .. }) = event else { panic!("{event:?}") };
        face.index
    }

    fn command(&mut self, command: Command) {
        self.dataplane.send(command);
        self.dataplane.wake();
        self.settle();
    }

    fn route(&mut self, prefix: &str, face: FaceIndex) {
        self.route_to(prefix, &[NextHop { face, cost: 1 }]);
    }

    fn route_to(&mut self, prefix: &str, next_hops: &[NextHop]) {
        let prefix = Name::from_uri(prefix).unwrap();
        self.fib.set_next_hops(prefix.as_ref(), next_hops).unwrap();
        let fib = self.fib.publish();
        self.command(Command::SetTables { fib, strategies: None });
        assert!(self.dataplane.has_executed_all());
    }

    /// Names below `prefix` that belong to a shard.
    fn names_of(&self, shard: u8, prefix: &str) -> impl Iterator<Item = String> {
        let belongs = move |uri: &String| {
            let name = Name::from_uri(uri).unwrap();
            let entry = self.dataplane.dispatch_entry(name.as_ref()).unwrap();
            self.dataplane.balancer().unwrap().ndt().get(entry).unwrap().shard == shard
        };
        (0..).map(move |number| format!("{prefix}/{number}")).filter(belongs)
    }

    /// Steps all workers until none does anything.
    fn settle(&mut self) {
        for _ in 0..STEPS_MAX {
            let active = self.workers.iter_mut().filter_map(|one| one.step().then_some(())).count();
            if active == 0 {
                return;
            }
        }
        panic!("the workers never rest");
    }

    fn next_deadline(&self) -> Option<Timestamp> {
        self.workers.iter().filter_map(SteppedWorker::next_deadline).min()
    }
}

/// A Data that fits into a frame.
fn small_data(uri: &str) -> Vec<u8> {
    let name = Name::from_uri(uri).unwrap();
    let info = SignatureInfo::new(SignatureType::DIGEST_SHA256);
    let data = DataBuilder::new(&name);
    data.to_vec(&info, 32, |_, signature| {
        signature.fill(1);
        Some(32)
    })
    .unwrap()
}

fn read(stream: &mut UnixStream) -> Vec<u8> {
    let mut bytes = vec![0; 1 << 16];
    match stream.read(&mut bytes) {
        Ok(length) => bytes.truncate(length),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            bytes.clear();
        }
    }
    bytes
}

#[test]
fn exchange_takes_no_time_on_a_manual_clock() {
    for workers in 1..=3 {
        let clock = ManualClock::new(Timestamp::from_millis(1000), Duration::ZERO);
        let mut node = Node::new(workers, &clock);
        let (face, mut producer) = node.application();
        let (_, mut consumer) = node.application();
        node.route("/p", face);
        for number in 0..20 {
            let uri = format!("/p/{number}");
            consumer.write_all(&interest(&uri, number)).unwrap();
            node.settle();
            assert_eq!(read(&mut producer), interest(&uri, number));
            producer.write_all(&data(&uri)).unwrap();
            node.settle();
            assert_eq!(read(&mut consumer), data(&uri));
        }
        let counters = node.dataplane.counters();
        assert_eq!((counters.in_interests.value(), counters.out_data.value()), (20, 20));
        assert_eq!(clock.now(), Timestamp::from_millis(1000));
    }
}

#[test]
fn pending_interest_expires_when_the_clock_passes_its_lifetime() {
    let clock = ManualClock::new(Timestamp::from_millis(1000), Duration::ZERO);
    let mut node = Node::new(2, &clock);
    let (face, _producer) = node.application();
    let (_, mut consumer) = node.application();
    node.route("/p", face);
    consumer.write_all(&interest("/p/1", 1)).unwrap();
    node.settle();
    let pending = |node: &Node| node.dataplane.counters().pit_entries.value();
    assert_eq!(pending(&node), 1);
    let mut deadlines = 0;
    while pending(&node) > 0 {
        let deadline = node.next_deadline().expect("an entry is pending");
        assert!(deadline > clock.now(), "the workers rest");
        clock.advance_to(deadline);
        node.settle();
        deadlines += 1;
        assert!(deadlines < 1000);
    }
    // The default lifetime of 4 s.
    let lifetime = clock.now() - Timestamp::from_millis(1000);
    assert!(
        (Duration::from_secs(4)..Duration::from_millis(4100)).contains(&lifetime),
        "{lifetime:?}"
    );
}

/// Time that passes while a worker reads: a millisecond for each frame.
#[derive(Debug, Clone)]
struct PassingTime(ManualClock);

impl FrameTap for PassingTime {
    fn frame(&mut self, _: Timestamp, _: FaceIndex, _: Direction, _: &[u8], _: &[u8]) {
        self.0.advance(Duration::from_millis(1));
    }
}

/// In debug builds, the worker checks the time that it passes to its shard. It reads the clock again for each burst while a
/// ring has no room.
#[test]
fn time_of_a_shard_only_advances_while_a_ring_is_full() {
    const FRAMES: u32 = 12_000;
    let clock = ManualClock::new(Timestamp::from_millis(1000), Duration::ZERO);
    let mut node = Node::new(2, &clock);
    let (face, mut consumer) = node.memory_face(1, FRAMES as usize);
    node.command(Command::SetTap(Some(Box::new(PassingTime(clock.clone())))));
    let reader = face.slot() as usize % 2;
    for number in 0..FRAMES {
        consumer.send(interest(&format!("/p/{number}"), number)).unwrap();
    }
    // The other worker takes nothing. While rings are crowded, faces are read again after a second.
    for _ in 0..STEPS_MAX {
        clock.advance(Duration::from_millis(10));
        node.workers[reader].step();
    }
    let refused = node.dataplane.counters().dropped(DropReason::Overload);
    assert!(refused > 1000, "{refused}");
    assert!(std::iter::from_fn(|| consumer.receive()).count() as u64 >= refused, "with a Nack");
}

/// The other worker takes nothing.
#[test]
fn principal_that_fills_a_ring_leaves_service_by_other_workers_to_others() {
    const FRAMES: usize = 12_000;
    let clock = ManualClock::new(Timestamp::from_millis(1000), Duration::ZERO);
    let mut node = Node::new(2, &clock);
    let mut faces: Vec<_> = (0..6).map(|number| node.memory_face(number, FRAMES)).collect();
    faces.retain(|(face, _)| face.slot() % 2 == 0);
    let [(_, attacker), (_, bystander), (face, producer)] = &mut faces[..] else { panic!() };
    node.route("/p", *face);
    for (nonce, uri) in (0..).zip(node.names_of(1, "/p").take(FRAMES)) {
        attacker.send(interest(&uri, nonce)).unwrap();
    }
    for _ in 0..50 {
        clock.advance(Duration::from_millis(1));
        node.workers[0].step();
    }
    assert!(attacker.unreceived() > 0, "the attacker waits");
    let names: Vec<String> = node.names_of(0, "/p").take(100).collect();
    for (nonce, uri) in (0..).zip(&names) {
        bystander.send(interest(uri, nonce)).unwrap();
        node.workers[0].step();
        assert_eq!(producer.receive(), Some(interest(uri, nonce)));
    }
}

/// The other worker takes nothing while packets of both arrive, as if its thread waited for a processor.
#[test]
fn principal_that_fills_a_ring_leaves_room_in_it_to_others() {
    const FRAMES: usize = 12_000;
    const EXCHANGES: u32 = 20;
    // Interests and Data for the other worker's shard, and Interests that this one forwards to its faces. From a second on,
    // the attacker is read again.
    let attacks = [(false, 1), (true, 1), (false, 0)];
    for ((is_data, shard), step_ms) in attacks.into_iter().flat_map(|one| [(one, 1), (one, 35)]) {
        let clock = ManualClock::new(Timestamp::from_millis(1000), Duration::ZERO);
        let mut node = Node::new(2, &clock);
        let faces = (0..6).map(|number| node.memory_face(number, FRAMES));
        let (of_other, mut faces): (Vec<_>, Vec<_>) =
            faces.partition(|(face, _)| face.slot() % 2 == 1);
        let [(_, attacker), (_, bystander), (face, producer)] = &mut faces[..] else { panic!() };
        node.route("/p", *face);
        node.route("/attack", of_other[0].0);
        let names: Vec<String> = node.names_of(1, "/p").take(EXCHANGES as usize).collect();
        let ask = |bystander: &mut InternalEnd| {
            for (nonce, uri) in (1 << 20..).zip(&names) {
                bystander.send(interest(uri, nonce)).unwrap();
            }
        };
        if is_data {
            ask(bystander);
            node.settle();
        }
        for (nonce, uri) in (0..).zip(node.names_of(shard, "/attack").take(FRAMES)) {
            let frame = if is_data { small_data(&uri) } else { interest(&uri, nonce) };
            attacker.send(frame).unwrap();
        }
        let wait = |node: &mut Node| {
            for _ in 0..50 {
                clock.advance(Duration::from_millis(step_ms));
                node.workers[0].step();
            }
        };
        wait(&mut node);
        assert!(attacker.unreceived() > 0 || step_ms > 1, "the attacker waits");
        if !is_data {
            ask(bystander);
            wait(&mut node);
        }
        for (nonce, uri) in (1 << 20..).zip(&names) {
            if !is_data {
                node.settle();
            }
            assert_eq!(
                producer.receive(),
                Some(interest(uri, nonce)),
                "{is_data}, {shard}, {step_ms} ms"
            );
            producer.send(small_data(uri)).unwrap();
        }
        wait(&mut node);
        node.settle();
        for uri in &names {
            assert_eq!(
                bystander.receive(),
                Some(small_data(uri)),
                "{is_data}, {shard}, {step_ms} ms"
            );
        }
    }
}

/// A peer may send such frames without end.
#[test]
fn upstream_face_whose_frames_hold_no_packets_is_not_read_for_ever() {
    const FRAMES: usize = 12_000;
    let clock = ManualClock::new(Timestamp::from_millis(1000), Duration::ZERO);
    let mut node = Node::new(1, &clock);
    let (face, mut producer) = node.memory_face(1, FRAMES);
    let (_, mut consumer) = node.memory_face(2, FRAMES);
    node.route("/p", face);
    for number in 0..20 {
        let uri = format!("/p/{number}");
        consumer.send(interest(&uri, number)).unwrap();
        node.settle();
        assert_eq!(producer.receive(), Some(interest(&uri, number)));
        producer.send(data(&uri)).unwrap();
        node.settle();
    }
    // Link packets without a fragment.
    (0..FRAMES).for_each(|_| producer.send(vec![100, 0]).unwrap());
    node.workers[0].step();
    let left = producer.unreceived();
    assert!((FRAMES / 2..FRAMES).contains(&left), "{left} of {FRAMES} frames are left");
}

/// It is polled again after each batch of Interests that others send.
#[test]
fn upstream_face_whose_turn_is_over_waits_for_the_next_round() {
    const FRAMES: usize = 20_000;
    let clock = ManualClock::new(Timestamp::from_millis(1000), Duration::ZERO);
    let mut node = Node::new(1, &clock);
    let (face, mut producer) = node.memory_face(0, FRAMES);
    let mut consumers: Vec<InternalEnd> =
        (1..=24).map(|number| node.memory_face(number, 1024).1).collect();
    node.route("/p", face);
    for number in 0..20 {
        let uri = format!("/p/{number}");
        consumers[0].send(interest(&uri, number)).unwrap();
        node.settle();
        producer.send(data(&uri)).unwrap();
        node.settle();
    }
    // Link packets without a fragment.
    (0..FRAMES).for_each(|_| producer.send(vec![100, 0]).unwrap());
    let before = node.dataplane.counters().in_interests.value();
    for (consumer, end) in (0..).zip(&mut consumers) {
        for number in 100..300 {
            let number = consumer * 1000 + number;
            end.send(interest(&format!("/p/{number}"), number)).unwrap();
        }
    }
    node.workers[0].step();
    let interests = node.dataplane.counters().in_interests.value() - before;
    assert!(interests > 2048, "{interests} Interests: several batches");
    let read = FRAMES - producer.unreceived();
    assert!((4096..8192).contains(&read), "{read} frames");
}

/// Counts the frames that a worker receives.
#[derive(Debug, Clone, Default)]
struct FrameCount(Arc<AtomicU64>);

impl FrameTap for FrameCount {
    fn frame(&mut self, _: Timestamp, _: FaceIndex, direction: Direction, _: &[u8], _: &[u8]) {
        self.0.fetch_add(u64::from(direction == Direction::In), Ordering::Relaxed);
    }
}

/// Commands, timers and the output of others wait until a round ends.
#[test]
fn frames_without_packets_do_not_prolong_a_round() {
    const FLOODING: u64 = 16;
    // The longest read: 64 KiB.
    const READ: u16 = 1 << 15;
    let mut node = Node::new(1, &ManualClock::new(Timestamp::ZERO, Duration::ZERO));
    let (face, mut producer) = node.application();
    let (_, mut bystander) = node.application();
    node.route("/p", face);
    let mut flooding: Vec<_> = (0..FLOODING).map(|_| node.application().1).collect();
    let frames = FrameCount::default();
    node.command(Command::SetTap(Some(Box::new(frames.clone()))));
    for stream in &mut flooding {
        // Link packets without a fragment.
        stream.write_all(&[100, 0].repeat(READ.into())).unwrap();
    }
    bystander.write_all(&interest("/p/1", 1)).unwrap();
    let mut answered_in = None;
    for round in 0_u64.. {
        let before = frames.0.load(Ordering::Relaxed);
        node.workers[0].step();
        let read = frames.0.load(Ordering::Relaxed) - before;
        assert!(read < 8192 + u64::from(READ), "{read} frames in a round");
        if read == 0 {
            break;
        }
        if !self::read(&mut producer).is_empty() {
            answered_in.get_or_insert(round);
        }
    }
    assert_eq!(frames.0.load(Ordering::Relaxed), FLOODING * u64::from(READ) + 1);
    assert!(answered_in.is_some_and(|round| round <= FLOODING), "{answered_in:?}");
}

/// It was dispatched to the previous shard before the move, and may be renewed there.
#[test]
fn interest_at_the_previous_shard_is_satisfied_after_its_name_has_moved() {
    let long = |uri: &str, nonce| {
        let name = Name::from_uri(uri).unwrap();
        InterestBuilder::new(&name).nonce(nonce).lifetime_ms(10_000).to_vec().unwrap()
    };
    for is_renewed in [false, true] {
        let clock = ManualClock::new(Timestamp::from_millis(1000), Duration::ZERO);
        let mut node = Node::new(2, &clock);
        let (face, mut producer) = node.application();
        let (consumer_face, mut consumer) = node.application();
        node.route("/p", face);
        let own = consumer_face.slot() % 2;
        let entry_of = |node: &Node, uri: &str| {
            node.dataplane.dispatch_entry(Name::from_uri(uri).unwrap().as_ref()).unwrap()
        };
        let shard_of = |node: &Node, uri: &str| {
            let balancer = node.dataplane.balancer().unwrap();
            u32::from(balancer.ndt().get(entry_of(node, uri)).unwrap().shard)
        };
        let mut names = (0..).map(|number| format!("/p/{number}"));
        let uri = names.find(|uri| shard_of(&node, uri) != own).unwrap();
        let now = ManualClock::now;
        consumer.write_all(&long(&uri, 1)).unwrap();
        assert!(node.workers[own as usize].step());
        let entry = entry_of(&node, &uri);
        node.dataplane.set_dispatch(entry, u8::try_from(own).unwrap(), now(&clock)).unwrap();
        let wait = |node: &mut Node, seconds: u32| {
            for _ in 0..10 * seconds {
                clock.advance(Duration::from_millis(100));
                node.settle();
                node.dataplane.balance(now(&clock));
            }
        };
        clock.advance(Duration::from_millis(100));
        node.settle();
        assert_eq!(read(&mut producer), long(&uri, 1));
        wait(&mut node, 9);
        if is_renewed {
            consumer.write_all(&long(&uri, 2)).unwrap();
            node.settle();
            assert_eq!(read(&mut producer), long(&uri, 2));
            wait(&mut node, 9);
        }
        // Without a PIT token.
        producer.write_all(&data(&uri)).unwrap();
        node.settle();
        assert_eq!(read(&mut consumer), data(&uri), "renewed: {is_renewed}");
        wait(&mut node, 2);
        assert_eq!(node.dataplane.balancer().unwrap().next_deadline(), None);
    }
}

/// Only the worker of the face learns from the kernel that the peer is gone.
#[test]
fn pending_interests_of_all_shards_are_sent_again_when_a_udp_peer_is_gone() {
    const PENDING: u32 = 20;
    for workers in 1..=3 {
        let clock = ManualClock::new(Timestamp::from_millis(1000), Duration::ZERO);
        let mut node = Node::new(workers, &clock);
        let peer = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        peer.set_read_timeout(Some(TIMEOUT)).unwrap();
        let face_id = node.dataplane.allocate_face_id();
        let properties = FaceProperties::point_to_point(face_id, Scope::NonLocal);
        let face = node.add(NewFace {
            ticket: Some(face_id),
            transport: NewDatagram::To(peer.local_addr().unwrap()).into(),
            options: FaceOptions::datagram(properties, Persistency::Persistent, MTU),
            remote: FaceUri::null(),
            local: FaceUri::null(),
        });
        let (other, mut application) = node.application();
        let (_, mut consumer) = node.application();
        let next_hops = [NextHop { face, cost: 1 }, NextHop { face: other, cost: 2 }];
        node.route_to("/p", &next_hops);
        for number in 0..PENDING {
            consumer.write_all(&interest(&format!("/p/{number}"), number)).unwrap();
        }
        node.settle();
        for _ in 0..PENDING {
            assert!(peer.recv(&mut [0; MTU]).unwrap() > 0);
        }
        assert_eq!(read(&mut application), []);
        drop(peer);
        clock.advance(Duration::from_millis(1));
        // The one that finds out.
        consumer.write_all(&interest("/p/last", PENDING)).unwrap();
        let (mut names, deadline) = (BTreeSet::new(), support::real_clock().now() + TIMEOUT);
        while names.len() < PENDING as usize + 1 {
            assert!(support::real_clock().now() < deadline, "{workers} workers: {names:?}");
            node.settle();
            let bytes = read(&mut application);
            let mut reader = Reader::new(&bytes);
            while let Some(tlv) = reader.next_tlv().unwrap() {
                names.insert(InterestView::parse(tlv.wire()).unwrap().name().to_uri());
            }
        }
    }
}

#[test]
fn stopped_workers_end_in_their_next_step() {
    let mut node = Node::new(2, &ManualClock::new(Timestamp::ZERO, Duration::ZERO));
    let (_, mut application) = node.application();
    let Node { dataplane, mut workers, .. } = node;
    dataplane.stop().unwrap();
    workers.iter_mut().for_each(|worker| while worker.step() {});
    assert!(workers.iter().all(SteppedWorker::has_ended));
    assert_eq!(read(&mut application), []);
}

/// One direction of a link.
#[derive(Default)]
struct Link {
    /// Frames on their way, each with its time of arrival.
    frames: VecDeque<(Timestamp, Vec<u8>)>,
}

impl Link {
    const DELAY: Duration = Duration::from_millis(10);

    fn collect(&mut self, now: Timestamp, from: &mut InternalEnd) {
        while let Some(frame) = from.receive() {
            assert!(frame.len() <= MTU);
            self.frames.push_back((now.plus(Self::DELAY), frame));
        }
    }

    fn deliver(&mut self, now: Timestamp, to: &mut InternalEnd) {
        while let Some((_, frame)) = self.frames.pop_front_if(|(arrival, _)| *arrival <= now) {
            to.send(frame).unwrap();
        }
    }

    fn next_arrival(&self) -> Option<Timestamp> {
        self.frames.front().map(|(arrival, _)| *arrival)
    }
}

#[test]
fn two_stepped_forwarders_exchange_packets_over_a_link_with_delay() {
    let total = 10 * data("/p/0").len();
    let run = || {
        let clock = ManualClock::new(Timestamp::from_millis(1000), Duration::ZERO);
        let (mut near, mut far) = (Node::new(2, &clock), Node::new(1, &clock));
        let (_, mut consumer) = near.application();
        let (producer_face, mut producer) = far.application();
        let (near_face, mut near_end) = near.memory_face(1, 64);
        let (_, mut far_end) = far.memory_face(2, 64);
        near.route("/p", near_face);
        far.route("/p", producer_face);
        let (mut up, mut down) = (Link::default(), Link::default());
        for number in 0..10 {
            consumer.write_all(&interest(&format!("/p/{number}"), number)).unwrap();
        }
        let (mut times, mut answered) = (Vec::new(), Vec::new());
        loop {
            let now = clock.now();
            times.push(now);
            up.deliver(now, &mut far_end);
            down.deliver(now, &mut near_end);
            near.settle();
            far.settle();
            for wire in read(&mut producer).chunks(interest("/p/0", 0).len()) {
                producer.write_all(&data(&format!("/p/{}", wire[wire.len() - 1]))).unwrap();
            }
            far.settle();
            answered.extend(read(&mut consumer));
            if answered.len() == total {
                break;
            }
            up.collect(now, &mut near_end);
            down.collect(now, &mut far_end);
            let arrivals = [up.next_arrival(), down.next_arrival()];
            let deadlines = [near.next_deadline(), far.next_deadline()];
            let next = arrivals.into_iter().chain(deadlines).flatten().min().unwrap();
            clock.advance_to(next);
        }
        let elapsed = times[times.len() - 1].since(times[0]);
        assert_eq!(elapsed, Link::DELAY * 2);
        (times, answered)
    };
    assert_eq!(run(), run(), "a run repeats exactly");
}

#[test]
fn full_queue_of_a_memory_face_drops_and_counts() {
    let mut node = Node::new(1, &ManualClock::new(Timestamp::ZERO, Duration::ZERO));
    let (face, mut producer) = node.memory_face(1, 4);
    let (_, mut consumer) = node.memory_face(2, 4);
    node.route("/p", face);
    for number in 0..6 {
        let sent = consumer.send(interest(&format!("/p/{number}"), number));
        assert_eq!(sent.is_ok(), number < 4);
    }
    assert_eq!(consumer.refused(), 2);
    node.settle();
    consumer.send(interest("/p/7", 7)).unwrap();
    node.settle();
    let received = std::iter::from_fn(|| producer.receive()).count();
    assert_eq!(received, 4, "the fifth Interest found the queue full");
    drop(producer);
    node.settle();
    assert!(matches!(node.dataplane.next_event().unwrap(), Some(Event::FaceClosed { .. })));
}

#[test]
fn events_left_by_a_full_round_are_handled_by_the_next_steps() {
    const FACES: u32 = 12;
    const FRAMES: u32 = 600;
    let mut node = Node::new(1, &ManualClock::new(Timestamp::ZERO, Duration::ZERO));
    let (face, _producer) = node.memory_face(0, 8192);
    node.route("/p", face);
    let mut consumers: Vec<InternalEnd> =
        (1..=FACES).map(|number| node.memory_face(number.into(), 1024).1).collect();
    for (consumer, end) in (0..).zip(&mut consumers) {
        for number in 0..FRAMES {
            let number = consumer * FRAMES + number;
            end.send(interest(&format!("/p/{number}"), number)).unwrap();
        }
    }
    node.settle();
    assert_eq!(node.dataplane.counters().in_interests.value(), u64::from(FACES * FRAMES));
}

#[test]
fn memory_face_is_read_in_parts_until_it_is_empty() {
    const FRAMES: u32 = 1000;
    let mut node = Node::new(1, &ManualClock::new(Timestamp::ZERO, Duration::ZERO));
    let (face, _producer) = node.memory_face(1, 1024);
    let (_, mut consumer) = node.memory_face(2, 1024);
    node.route("/p", face);
    for number in 0..FRAMES {
        consumer.send(interest(&format!("/p/{number}"), number)).unwrap();
    }
    assert!(node.workers[0].step());
    let received = node.dataplane.counters().in_interests.value();
    assert!((1..u64::from(FRAMES)).contains(&received), "{received} frames in one event");
    node.settle();
    assert_eq!(node.dataplane.counters().in_interests.value(), u64::from(FRAMES));
}

#[test]
fn udp_peers_get_no_face_while_the_control_thread_is_behind() {
    let clock = ManualClock::new(Timestamp::ZERO, Duration::ZERO);
    let mut node = Node::new(1, &clock);
    let channel = node.dataplane.workers()[0].channels()[0].0;
    let send = |peer: &UdpSocket| peer.send_to(&interest("/a", 1), channel).unwrap();
    let peer = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let first = peer();
    send(&first);
    node.settle();
    node.added();
    // Each command is answered by an event, which is not received.
    while !node.dataplane.is_behind() {
        let (prefix, ticket) = (Name::from_uri("/none").unwrap(), 0);
        let erase = Command::EraseCs { ticket, prefix, limit: 1, is_whole_name: false };
        node.dataplane.send(erase);
    }
    node.dataplane.wake();
    while node.workers[0].step() {}
    assert!(!node.dataplane.is_behind());
    let (second, counters) = (peer(), Arc::clone(node.dataplane.workers()[0].worker_counters()));
    send(&second);
    node.settle();
    assert_eq!(counters.refused_peers.value(), 1);
    while let Some(event) = node.dataplane.next_event().unwrap() {
        assert!(matches!(event, Event::CsErased { .. }), "{event:?}");
    }
    send(&second);
    node.settle();
    node.added();
    assert_eq!(counters.refused_peers.value(), 1);
}

#[test]
fn commands_are_executed_once_a_single_worker_has_run() {
    let mut node = Node::new(1, &ManualClock::new(Timestamp::ZERO, Duration::ZERO));
    let (face, _end) = node.memory_face(1, 4);
    let (poller, mut events) = (Poller::new().unwrap(), Events::with_capacity(1));
    poller.add(node.dataplane.event_waker(), 0, Interest::Readable).unwrap();
    node.dataplane.event_waker().reset();
    let prefix = Name::from_uri("/p").unwrap();
    node.fib.set_next_hops(prefix.as_ref(), &[NextHop { face, cost: 1 }]).unwrap();
    let fib = node.fib.publish();
    node.dataplane.send(Command::SetTables { fib, strategies: None });
    node.dataplane.wake();
    let mark = node.dataplane.mark();
    assert!(!node.dataplane.has_executed(&mark));
    assert!(!node.dataplane.has_executed_all());
    node.settle();
    assert!(node.dataplane.has_executed_all());
    // Later commands do not count.
    node.dataplane.send(Command::SetTables { fib: node.fib.publish(), strategies: None });
    assert!(node.dataplane.has_executed(&mark) && !node.dataplane.has_executed_all());
    node.settle();
    poller.wait(&mut events, Some(Duration::ZERO)).unwrap();
    assert!(!events.is_empty(), "the control thread is woken");
}

#[test]
fn memory_face_wakes_a_worker_with_a_thread() {
    let mut bed = Bed::new();
    let (producer_id, mut producer) = bed.dataplane.add_memory_face(&memory(1, 16)).unwrap();
    let producer_face = bed.added();
    assert_eq!(producer_face.options.properties.face_id, producer_id);
    assert_eq!(producer_face.remote.to_string(), "memory://1");
    let (_, mut consumer) = bed.dataplane.add_memory_face(&memory(2, 16)).unwrap();
    bed.added();
    bed.route("/p", producer_face.index);
    consumer.send(interest("/p/1", 1)).unwrap();
    assert_eq!(wait_for(&mut producer), interest("/p/1", 1));
    let small = small_data("/p/1");
    producer.send(small.clone()).unwrap();
    assert_eq!(wait_for(&mut consumer), small);
    bed.dataplane.stop().unwrap();
    assert!(consumer.is_closed());
}

/// The next frame, which a worker on another thread sends.
fn wait_for(end: &mut InternalEnd) -> Vec<u8> {
    let (poller, mut events) = (Poller::new().unwrap(), Events::with_capacity(1));
    poller.add(&*end, 0, Interest::Readable).unwrap();
    loop {
        end.reset();
        if let Some(frame) = end.receive() {
            return frame;
        }
        poller.wait(&mut events, Some(TIMEOUT)).unwrap();
        assert!(!events.is_empty(), "no frame arrives");
    }
}
