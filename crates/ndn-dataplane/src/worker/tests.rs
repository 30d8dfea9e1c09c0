//! Tests of a worker's parts, with another worker.

use std::sync::Arc;
use std::time::Duration;

use ndn_face::InternalEnd;
use ndn_forwarding::{BURST_SIZE, PacketKind};
use ndn_packet::Name;
use ndn_sys::clock::{Clock, ManualClock};
use ndn_sys::poll::Events;
use ndn_table::{FaceIndex, FibWriter, NextHop};
use ndn_types::{LinkType, Persistency, Scope, Timestamp};

use super::{BurstSource, COMMAND_TOKEN, Idle, InterWorker, RingUser, Worker};
use crate::exchange::{Message, RemoteFrame};
use crate::test_support::{self, interest};
use crate::{Command, Dataplane, Event, MemoryFaceOptions, Roles};

/// Two workers without threads.
struct Pair {
    dataplane: Dataplane,
    workers: [Worker; 2],
    fib: FibWriter,
    events: Events,
}

impl Pair {
    fn new(idle: impl Fn() -> Idle, clock: impl Into<Clock>) -> Self {
        let roles = [Roles::default(); 2];
        let (mut options, mut fib, strategies) =
            test_support::options(&roles, 64, Duration::from_secs(3600));
        options.overload.mark_after = Duration::from_secs(3600);
        options.overload.shed_after = Duration::from_secs(3600);
        options.clock = clock.into();
        let (dataplane, workers) =
            Dataplane::prepare(options, fib.publish(), Arc::new(strategies), true).unwrap();
        let workers: Vec<Worker> = workers.into_iter().map(|(worker, _)| worker).collect();
        let mut workers: [Worker; 2] = workers.try_into().unwrap();
        workers.iter_mut().for_each(|worker| worker.idle = idle());
        Self { dataplane, workers, fib, events: Events::with_capacity(16) }
    }

    fn one(&self, worker: usize) -> &InterWorker {
        self.workers[worker].inter_worker.as_ref().unwrap()
    }

    /// Finds out what is ready.
    fn poll(&mut self, worker: usize) {
        self.workers[worker].faces.poller().wait(&mut self.events, Some(Duration::ZERO)).unwrap();
    }

    fn step(&mut self, worker: usize) {
        let worker = &mut self.workers[worker];
        worker.step(worker.clock.now(), &mut self.events);
    }

    fn settle(&mut self) {
        self.dataplane.wake();
        (0..6).for_each(|round| self.step(round % 2));
        assert!(self.dataplane.has_executed_all());
    }

    /// A face of this worker; faces alternate between the workers, and the first one is on worker 1.
    fn face(&mut self, worker: usize, number: u64) -> (FaceIndex, InternalEnd) {
        let options = MemoryFaceOptions {
            number,
            link_type: LinkType::PointToPoint,
            scope: Scope::NonLocal,
            principal: None,
            persistency: Persistency::Persistent,
            mtu: 1500,
            queue_frames_max: 1 << 15,
        };
        let (_, end) = self.dataplane.add_memory_face(&options).unwrap();
        self.settle();
        let event = self.dataplane.next_event().unwrap();
        let Some(Event::FaceAdded { face, .. }) = event else { panic!("{event:?}") };
        assert_eq!(face.index.slot() as usize % 2, worker);
        (face.index, end)
    }

    fn route(&mut self, prefix: &str, face: FaceIndex) {
        let prefix = Name::from_uri(prefix).unwrap();
        self.fib.set_next_hops(prefix.as_ref(), &[NextHop { face, cost: 1 }]).unwrap();
        let fib = self.fib.publish();
        self.dataplane.send(Command::SetTables { fib, strategies: None });
        self.settle();
    }

    /// Interests for names below `prefix` that belong to a shard.
    fn interests(&self, shard: u8, prefix: &str, count: usize) -> Vec<Vec<u8>> {
        let belongs = |uri: &String| {
            let name = Name::from_uri(uri).unwrap();
            let entry = self.dataplane.dispatch_entry(name.as_ref()).unwrap();
            self.dataplane.balancer().unwrap().ndt().get(entry).unwrap().shard == shard
        };
        let names = (0..).map(|number| format!("{prefix}/{number}")).filter(belongs);
        (0..).zip(names.take(count)).map(|(nonce, uri)| interest(&uri, nonce)).collect()
    }

    /// Sends frames from a worker to the other one, which has their face.
    fn send_frames<'a>(
        &mut self,
        from: usize,
        face: FaceIndex,
        wires: impl IntoIterator<Item = &'a [u8]>,
    ) {
        let Worker { inter_worker, pool, .. } = &mut self.workers[from];
        let outbound = &mut inter_worker.as_mut().unwrap().exchange.outbound;
        let mut block = pool.allocate_block().unwrap();
        for wire in wires {
            if block.spare_mut().len() < wire.len() {
                pool.finish(std::mem::replace(&mut block, pool.allocate_block().unwrap()));
            }
            block.spare_mut()[..wire.len()].copy_from_slice(wire);
            block.commit(wire.len());
            let frame = RemoteFrame::carve(face, None, &mut block, wire.len());
            assert!(outbound.send(1 - from, Message::RemoteFrame(frame), pool));
        }
        pool.finish(block);
        outbound.publish();
    }
}

/// Packets of others, which other workers have sent meanwhile, cause as many.
#[test]
fn messages_that_a_reader_has_not_caused_are_not_its_own() {
    const READ: usize = 80;
    const OTHERS: usize = 300;
    for has_crossed_frames in [false, true] {
        let mut pair = Pair::new(|| Idle::new(Duration::ZERO), test_support::real_clock());
        let (producer, _of_producer) = pair.face(1, 0);
        let (_, mut reader) = pair.face(0, 1);
        let (_, mut consumer) = pair.face(1, 2);
        let (other, _of_other) = pair.face(0, 3);
        pair.route("/p", producer);
        // Half a burst has room beside what is kept for others. The rest of the read is of the reader's part.
        let length = pair.one(0).exchange.length(PacketKind::Interest);
        let filled = length - length / 4 - BURST_SIZE / 2;
        pair.send_frames(0, producer, std::iter::repeat_n(&[5, 0][..], filled));
        let own = pair.interests(1, "/v", READ);
        own.into_iter().for_each(|wire| reader.send(wire).unwrap());
        if has_crossed_frames {
            let frames = pair.interests(1, "/o", OTHERS);
            pair.send_frames(1, other, frames.iter().map(Vec::as_slice));
        } else {
            let wires = pair.interests(0, "/p", OTHERS);
            wires.into_iter().for_each(|wire| consumer.send(wire).unwrap());
            pair.poll(1);
            let now = pair.workers[1].state.now;
            pair.workers[1].plan(&pair.events);
            pair.workers[1].receive_ready(&pair.events);
            pair.workers[1].run_burst(now, BurstSource::Received);
            pair.workers[1].wake_others();
        }
        pair.poll(0);
        let event = pair.events.iter().find(|event| event.token < COMMAND_TOKEN).unwrap();
        pair.workers[0].receive_into_crowded(&event);
        assert!(!pair.workers[0].has_messages(), "they were taken during the read");
        let sent = pair.one(0).exchange.counters().crossings_sent.value();
        assert!(sent >= (filled + BURST_SIZE + OTHERS) as u64, "{sent}");
        let principal = pair.workers[0].faces.principal_of(event.token);
        let user = RingUser::new(principal, event.token);
        let left = length / 8 / 8 - (READ - BURST_SIZE / 2);
        assert_eq!(pair.one(0).part_left(user), left, "crossed frames: {has_crossed_frames}");
        pair.workers.into_iter().for_each(Worker::finish);
    }
}

/// Both have read more than the rings have room for, before either takes anything.
#[test]
fn workers_that_flood_each_other_go_on_without_a_pause() {
    let clock = ManualClock::new(Timestamp::from_millis(1000), Duration::ZERO);
    let mut pair = Pair::new(Idle::stepped, clock);
    let (to_second, of_second) = pair.face(1, 0);
    let (to_first, of_first) = pair.face(0, 1);
    let (_, consumer_of_second) = pair.face(1, 2);
    let (_, consumer_of_first) = pair.face(0, 3);
    pair.route("/p", to_first);
    pair.route("/q", to_second);
    let frames = pair.one(0).exchange.length(PacketKind::Interest) + BURST_SIZE;
    let mut consumers = [(consumer_of_first, "/p", 1), (consumer_of_second, "/q", 0)];
    for (worker, (consumer, prefix, shard)) in consumers.iter_mut().enumerate() {
        // The consumer and the producer of a prefix are on one worker, and its names belong to the other one.
        let wires = pair.interests(*shard, prefix, frames);
        wires.into_iter().for_each(|wire| consumer.send(wire).unwrap());
        while consumer.unreceived() > 0 {
            pair.poll(worker);
            let event = pair.events.iter().find(|event| event.token < COMMAND_TOKEN).unwrap();
            pair.workers[worker].receive(&event);
        }
        let reader = &mut pair.workers[worker];
        reader.run_burst(reader.state.now, BurstSource::Received);
        reader.wake_others();
    }
    (0..200).for_each(|round| pair.step(round % 2));
    assert!(pair.workers.iter().all(|worker| !worker.has_messages()));
    let ends = consumers.map(|(consumer, ..)| consumer).into_iter().chain([of_first, of_second]);
    let received = ends.map(|mut end| std::iter::from_fn(|| end.receive()).count());
    // Each is forwarded or refused.
    assert_eq!(received.sum::<usize>(), 2 * frames);
    pair.workers.into_iter().for_each(Worker::finish);
}
