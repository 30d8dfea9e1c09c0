//! Workers without threads, on a manual clock.
#![allow(clippy::unwrap_used, reason = "test code")]

mod support;

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use ndn_dataplane::{Command, Dataplane, Event, NewFace, NewTransport, Roles, SteppedWorker};
use ndn_face::{FaceOptions, Persistency};
use ndn_forwarding::FaceProperties;
use ndn_packet::Name;
use ndn_sys::clock::{Clock, ManualClock};
use ndn_table::{FaceIndex, FibWriter, NextHop, Timestamp};
use ndn_types::{FaceUri, Scope};

use support::{data, interest};

/// Steps of all workers that find something to do, at one time, before a test takes it for a livelock.
const STEPS_MAX: usize = 1000;

struct Node {
    dataplane: Dataplane,
    workers: Vec<SteppedWorker>,
    fib: FibWriter,
}

impl Node {
    fn new(workers: usize, clock: &ManualClock) -> Self {
        let roles = vec![Roles::default(); workers];
        let (mut options, mut fib, strategies) =
            support::options(u32::MAX, &roles, 64, Duration::from_secs(3600));
        options.clock = Clock::from(clock.clone());
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
            transport: NewTransport::Stream(near.into()),
            options: FaceOptions::stream(properties, Persistency::OnDemand),
            remote: FaceUri::null(),
            local: FaceUri::null(),
        });
        (index, far)
    }

    fn add(&mut self, face: NewFace) -> FaceIndex {
        self.command(Command::AddFace(Box::new(face)));
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
        let prefix = Name::from_uri(prefix).unwrap();
        self.fib.set_next_hops(prefix.as_ref(), &[NextHop { face, cost: 1 }]).unwrap();
        let fib = self.fib.publish();
        self.command(Command::SetTables { fib, strategies: None });
        assert!(self.dataplane.is_settled());
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
        let clock = ManualClock::new(1_000_000_000, Duration::ZERO);
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
        assert_eq!(clock.now_ns(), 1_000_000_000);
    }
}

#[test]
fn pending_interest_expires_when_the_clock_passes_its_lifetime() {
    let clock = ManualClock::new(1_000_000_000, Duration::ZERO);
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
        assert!(deadline.as_nanos() > clock.now_ns(), "the workers rest");
        clock.advance_to(deadline.as_nanos());
        node.settle();
        deadlines += 1;
        assert!(deadlines < 1000);
    }
    // The default lifetime of 4 s.
    let lifetime = Duration::from_nanos(clock.now_ns() - 1_000_000_000);
    assert!(
        (Duration::from_secs(4)..Duration::from_millis(4100)).contains(&lifetime),
        "{lifetime:?}"
    );
}

#[test]
fn stopped_workers_end_in_their_next_step() {
    let mut node = Node::new(2, &ManualClock::new(0, Duration::ZERO));
    let (_, mut application) = node.application();
    let Node { dataplane, mut workers, .. } = node;
    dataplane.stop().unwrap();
    workers.iter_mut().for_each(|worker| while worker.step() {});
    assert!(workers.iter().all(SteppedWorker::has_ended));
    assert_eq!(read(&mut application), []);
}
