//! Queues of a network device that are distributed over workers: a peer has one face, whichever queue its frames arrive at.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "test code")]

mod support;

use std::collections::VecDeque;
use std::io;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ndn_dataplane::{Command, Event, NewFace, NewPort, PortChange, WorkerView};
use ndn_face::{
    CloseReason, FaceOptions, LinkDropReason, NewStation, OnDemandSettings, PortId, PortSocket,
};
use ndn_forwarding::FaceProperties;
use ndn_packet::{InterestBuilder, Name};
use ndn_sys::packet::{Delivery, Frame, FramePort, FrameRefusal, FrameTransmitted};
use ndn_sys::poll::Waker;
use ndn_types::{FaceUri, Persistency, Scope};

use support::{Bed, TIMEOUT, data, expect};

const PORT: PortId = PortId(3);
/// A worker that sleeps on what was handed to it wakes up by itself after eight seconds.
const SOON: Duration = Duration::from_secs(5);
const GROUP: [u8; 6] = [1, 0, 0x5e, 0, 0x17, 0xaa];
const STATIONS: OnDemandSettings =
    OnDemandSettings { mtu: 9000, idle_timeout: Duration::from_secs(600) };

type Sent = ([u8; 6], Vec<u8>);
type Received = ([u8; 6], Delivery, Vec<u8>);

/// One queue of a device: what has come, and what was sent.
#[derive(Debug)]
struct Queue {
    waker: Waker,
    received: Mutex<VecDeque<Received>>,
    sent: Mutex<Vec<Sent>>,
}

impl Queue {
    fn new() -> Arc<Self> {
        let (received, sent) = (Mutex::default(), Mutex::default());
        Arc::new(Self { waker: Waker::new().unwrap(), received, sent })
    }

    fn bring(&self, source: [u8; 6], delivery: Delivery, payload: &[u8]) {
        self.received.lock().unwrap().push_back((source, delivery, payload.to_vec()));
        self.waker.wake();
    }

    fn sent_by_now(&self, station: [u8; 6]) -> Vec<Vec<u8>> {
        let sent = self.sent.lock().unwrap();
        let to_it = sent.iter().filter(|(to, _)| *to == station);
        to_it.map(|(_, payload)| payload.clone()).collect()
    }

    /// Packets sent to a station, once there are enough.
    fn sent_to(&self, station: [u8; 6], count: usize) -> Vec<Vec<u8>> {
        let start = Instant::now();
        loop {
            let found = self.sent_by_now(station);
            if found.len() >= count {
                return found;
            }
            assert!(start.elapsed() < TIMEOUT, "{} of {count} frames", found.len());
            std::thread::yield_now();
        }
    }
}

/// A worker's end of a queue.
#[derive(Debug)]
struct QueuePort {
    queue: Arc<Queue>,
    next: Option<Received>,
    interface: u32,
}

impl FramePort for QueuePort {
    fn interface(&self) -> u32 {
        self.interface
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.queue.waker.as_fd()
    }

    fn prepare(&mut self) -> bool {
        if self.next.is_none() {
            let mut received = self.queue.received.lock().unwrap();
            self.next = received.pop_front();
            if self.next.is_none() {
                self.queue.waker.reset();
            }
        }
        self.next.is_some()
    }

    fn peek(&self) -> Option<Frame<'_>> {
        let (source, delivery, payload) = self.next.as_ref()?;
        let nothing = Frame::nothing(self.interface);
        Some(Frame { payload, source: Some(*source), delivery: *delivery, ..nothing })
    }

    fn release(&mut self) {
        self.next = None;
    }

    fn take_lost(&mut self) -> u64 {
        0
    }

    fn set_mac(&mut self, _: [u8; 6]) {}

    fn send(&mut self, to: [u8; 6], payload: &[&[u8]]) -> Result<(), FrameRefusal> {
        self.queue.sent.lock().unwrap().push((to, payload.concat()));
        Ok(())
    }

    fn transmit(&mut self) -> io::Result<FrameTransmitted> {
        Ok(FrameTransmitted { calls: 1, is_done: true })
    }
}

fn sockets(queues: &[Arc<Queue>]) -> Vec<PortSocket> {
    let port =
        |queue: &Arc<Queue>| QueuePort { queue: Arc::clone(queue), next: None, interface: 9 };
    queues.iter().map(|queue| PortSocket::Own(Box::new(port(queue)))).collect()
}

/// Two workers with a queue each.
fn bed() -> (Bed, [Arc<Queue>; 2]) {
    let mut bed = Bed::with_workers(2, 64, Duration::from_secs(3600));
    assert_eq!(bed.dataplane.port_workers(), 2);
    let queues = [Queue::new(), Queue::new()];
    bed.command(Command::AddPort(Box::new(NewPort {
        port: PORT,
        name: "many0".into(),
        is_up: true,
        accepts: true,
        sockets: sockets(&queues),
        on_demand: STATIONS,
    })));
    (bed, queues)
}

fn new_face(bed: &Bed, mac: [u8; 6]) -> Command {
    let face_id = bed.dataplane.allocate_face_id();
    let properties = FaceProperties::point_to_point(face_id, Scope::NonLocal);
    Command::AddFace(Box::new(NewFace {
        ticket: Some(face_id),
        transport: NewStation { port: PORT, mac }.into(),
        options: FaceOptions::datagram(properties, Persistency::Permanent, 9000),
        remote: FaceUri::ethernet(mac),
        local: FaceUri::device("many0"),
    }))
}

/// An Interest that lasts: what forgets it is not to be woken by its end.
fn interest(uri: &str, nonce: u32) -> Vec<u8> {
    let name = Name::from_uri(uri).unwrap();
    InterestBuilder::new(&name).nonce(nonce).lifetime_ms(600_000).to_vec().unwrap()
}

fn station(number: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, number]
}

/// Messages between workers that were dropped because the ring was full.
fn ring_full(bed: &Bed) -> u64 {
    let counters = bed.dataplane.workers().iter().filter_map(WorkerView::exchange_counters);
    counters.map(|counters| counters.ring_full_total()).sum()
}

#[test]
fn station_has_one_face_across_queues() {
    let (mut bed, queues) = bed();
    let (producer_face, mut producer) = bed.application();
    producer.set_read_timeout(Some(SOON)).unwrap();
    bed.route("/p", producer_face.index);
    let mut nonce = 0;
    let mut ask = |from: [u8; 6], queue: &Queue| {
        nonce += 1;
        let uri = format!("/p/{}/{nonce}", from[5]);
        queue.bring(from, Delivery::Host, &interest(&uri, nonce));
        expect(&mut producer, &interest(&uri, nonce));
        producer.write_all(&data(&uri)).unwrap();
        data(&uri)
    };
    let mut owners = Vec::new();
    for (number, first) in [(1, 0), (2, 1)] {
        let mut answers = Vec::new();
        for round in 0..40 {
            answers.push(ask(station(number), &queues[(first + round) % 2]));
        }
        let face = bed.added();
        assert_eq!(face.remote, FaceUri::ethernet(station(number)));
        let owner = face.index.slot() as usize % 2;
        owners.push(owner);
        // All of them leave by the queue of the face's worker, once.
        let own = queues.iter().position(|queue| !queue.sent_by_now(station(number)).is_empty());
        let own = own.unwrap_or(first);
        assert_eq!(queues[own].sent_to(station(number), 40), answers);
        assert!(queues[1 - own].sent_by_now(station(number)).is_empty());
        // It exists already for requests on any worker.
        let command = new_face(&bed, station(number));
        let Command::AddFace(new) = &command else { panic!("{command:?}") };
        let new_id = new.options.properties.face_id;
        bed.command(command);
        let Event::FaceExists { face_id: existing, unused, .. } = bed.event() else { panic!() };
        let face_id = face.options.properties.face_id;
        assert_eq!((existing, unused), (face_id, new_id));
        // Without it, the station gets another one, wherever it speaks.
        bed.command(Command::RemoveFace { face_id });
        assert!(matches!(bed.event(), Event::FaceClosed { .. }));
        bed.settle();
        queues[1 - first].bring(station(number), Delivery::Host, &interest("/none", 1));
        let again = bed.added();
        assert_ne!(again.options.properties.face_id, face_id);
        assert_ne!(again.index.slot() as usize % 2, owner, "that of the worker it reaches");
    }
    assert_ne!(owners[0], owners[1], "stations are spread like the queues that they reach");
    let counters = bed.dataplane.counters();
    assert_eq!((counters.in_data.value(), counters.out_data.value()), (80, 80));
    assert_eq!(ring_full(&bed), 0);
    bed.dataplane.stop().unwrap();
}

#[test]
fn malformed_frame_is_counted_on_any_worker() {
    let (mut bed, queues) = bed();
    queues[0].bring(station(1), Delivery::Host, &interest("/none", 1));
    let face = bed.added();
    // The other worker knows of the face from now on.
    let (producer_face, mut producer) = bed.application();
    bed.route("/p", producer_face.index);
    queues[1].bring(station(1), Delivery::Host, &interest("/p/1", 2));
    expect(&mut producer, &interest("/p/1", 2));
    let bad_remote = || -> u64 {
        let workers = bed.dataplane.workers().iter();
        workers.map(|worker| worker.call_counters().bad_remote_frames.value()).sum()
    };
    let own = || face.counters.dropped(LinkDropReason::Malformed).value();
    let wait = |requested: (u64, u64)| {
        let start = Instant::now();
        while (own(), bad_remote()) != requested {
            assert!(start.elapsed() < TIMEOUT, "{:?}", (own(), bad_remote()));
            std::thread::yield_now();
        }
    };
    // Longer than the frame that it is in.
    let malformed = [5, 200, 7];
    wait((0, 0));
    queues[0].bring(station(1), Delivery::Host, &malformed);
    wait((1, 0));
    queues[1].bring(station(1), Delivery::Host, &malformed);
    wait((1, 1));
    bed.dataplane.stop().unwrap();
}

/// Fragment `index` of two, with the same number for every sender.
fn fragment(index: u8, bytes: &[u8]) -> Vec<u8> {
    let mut sequence = vec![0x51, 8, 0, 0, 0, 0, 0, 0, 0, 7 + index];
    sequence.extend([0x52, 1, index, 0x53, 1, 2, 0x50, u8::try_from(bytes.len()).unwrap()]);
    sequence.extend(bytes);
    [&[0x64, u8::try_from(sequence.len()).unwrap()], &sequence[..]].concat()
}

#[test]
fn fragments_to_a_group_are_reassembled_per_sender_on_all_queues() {
    let (mut bed, queues) = bed();
    let command = new_face(&bed, GROUP);
    bed.command(command);
    let group = bed.added();
    let (producer_face, mut producer) = bed.application();
    producer.set_read_timeout(Some(SOON)).unwrap();
    bed.route("/p", producer_face.index);
    for round in 0..20_u32 {
        for (which, queue) in queues.iter().enumerate() {
            let name = |number: u8| format!("/p/{number}/{round}/{which}");
            let wires = [1, 2].map(|number| interest(&name(number), round));
            for at in 0..2_u8 {
                for (number, wire) in (1_u8..).zip(&wires) {
                    let (front, back) = wire.split_at(8);
                    let part = if at == 0 { front } else { back };
                    queue.bring(station(number), Delivery::Group, &fragment(at, part));
                }
            }
            for (number, wire) in (1_u8..).zip(&wires) {
                expect(&mut producer, wire);
                let answer = data(&name(number));
                producer.write_all(&answer).unwrap();
                let fragments = queues[0].sent_to(GROUP, 1);
                assert_eq!(fragments, [answer], "it leaves by the worker of the face");
                queues[0].sent.lock().unwrap().clear();
            }
        }
    }
    assert_eq!(group.counters.in_interests.value(), 80);
    assert_eq!(ring_full(&bed), 0);
    bed.dataplane.stop().unwrap();
}

#[test]
fn number_of_queues_of_a_device_may_change() {
    let (mut bed, queues) = bed();
    let mut faces = Vec::new();
    for (number, queue) in (1..).zip(&queues) {
        queue.bring(station(number), Delivery::Host, &interest("/none", 1));
        faces.push(bed.added());
    }
    let change = |change| Command::ChangePort { port: PORT, change: Box::new(change) };
    bed.command(change(PortChange::Sockets(sockets(&queues[..1]), STATIONS)));
    // The face of the worker that has no queue any more closes, that of the other stays.
    let (mut closed, mut unused) = (None, Vec::new());
    while closed.is_none() || unused.len() < 2 {
        let event = bed.event();
        if let Event::FaceClosed { face_id, reason } = event {
            closed = Some((face_id, reason));
        } else {
            let Event::SocketUnused(socket) = event else { panic!("{event:?}") };
            unused.push(socket);
        }
    }
    let second = faces[1].options.properties.face_id;
    assert_eq!(closed, Some((second, Some(CloseReason::InterfaceGone))));
    queues[0].bring(station(2), Delivery::Host, &interest("/none", 2));
    let again = bed.added();
    assert_eq!(again.index.slot() % 2, faces[0].index.slot() % 2);
    // More again.
    bed.command(change(PortChange::Sockets(sockets(&queues), STATIONS)));
    assert!(matches!(bed.event(), Event::SocketUnused(_)));
    let (producer_face, mut producer) = bed.application();
    producer.set_read_timeout(Some(SOON)).unwrap();
    bed.route("/p", producer_face.index);
    queues[1].bring(station(3), Delivery::Host, &interest("/p/1", 3));
    expect(&mut producer, &interest("/p/1", 3));
    producer.write_all(&data("/p/1")).unwrap();
    assert_eq!(queues[1].sent_to(station(3), 1), [data("/p/1")], "its link is up");
    assert_eq!(bed.added().index.slot() % 2, faces[1].index.slot() % 2);
    bed.command(change(PortChange::Gone));
    let mut gone = 0;
    while gone < 3 {
        gone += usize::from(matches!(bed.event(), Event::FaceClosed { .. }));
    }
    bed.command(change(PortChange::Remove));
    bed.settle();
    bed.dataplane.stop().unwrap();
}
