//! A worker under overload, in virtual time.
//!
//! Khoussi et al. found with statistical model checking of NDN-DPDK that queues which are long and shared
//! by Interests and Data lose Data that Interests have been forwarded for ("Performance Evaluation of
//! the NDN Data Plane Using Statistical Model Checking", ATVA 2019, LNCS 11781; arXiv:1905.01607).
//! Here a shard forwards at a fixed cost for each packet while Interests come faster than that;
//! reading costs nothing, so what is left is the effect of the order alone.
#![allow(clippy::unwrap_used, clippy::cast_precision_loss, reason = "tests")]
#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "tests")]

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use ndn_forwarding::{
    BURST_SIZE, Burst, Counters, DropReason, FaceProperties, Ingress, LpFields, RxFace, Shard,
    ShardConfig, StrategyTable, TxKind, TxPacket, TxSink, UnsolicitedPolicy,
};
use ndn_packet::{DataBuilder, Interest, InterestBuilder, Name, SignatureInfo, SignatureType};
use ndn_ring::PacketPool;
use ndn_table::{FaceIndex, FibConfig, FibWriter, NameHasher, NextHop, PcctConfig};
use ndn_types::{PrincipalKey, Scope, Timestamp};

use super::{InterestQueue, OverloadOptions, QueueVerdict, ShedAction};

/// Virtual cost of each packet that the shard is given.
const PACKET_NS: u64 = 20_000;
/// Interests per second that can be forwarded, together with their Data.
const SUSTAINABLE_PER_S: f64 = 1e9 / (2 * PACKET_NS) as f64;
/// From sending an Interest to the producer until its Data is there: at least, and how much more at
/// most.
const ROUND_TRIP_NS: u64 = 500_000;
const JITTER_NS: u64 = 5_000_000;
/// Time for which Interests are offered.
const TIME_NS: u64 = 600_000_000;
/// Packets that a queue holds.
const QUEUE_MAX: usize = 1024;

const CONSUMER: FaceIndex = FaceIndex::new(1, 0);
const PRODUCER: FaceIndex = FaceIndex::new(2, 0);

/// A packet in a queue: an Interest of the consumer, or the Data of the producer.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    number: u32,
    is_data: bool,
    since: Timestamp,
}

/// Takes down what the shard sends.
#[derive(Debug, Default)]
struct Sent {
    forwarded: Vec<u32>,
    satisfied: u64,
    nacked: u64,
    /// Interests with a congestion mark.
    marked: u64,
}

impl TxSink for Sent {
    fn send(&mut self, face: FaceIndex, packet: &TxPacket<'_>) {
        match packet.kind {
            TxKind::Interest => {
                assert_eq!(face, PRODUCER);
                let interest = Interest::parse(packet.wire).unwrap();
                self.marked += packet.congestion_mark;
                self.forwarded.push(interest.nonce().unwrap());
            }
            TxKind::Data => self.satisfied += u64::from(face == CONSUMER),
            TxKind::Nack(_) => self.nacked += u64::from(face == CONSUMER),
        }
    }
}

struct World {
    now: Timestamp,
    shard: Shard,
    ingress: Ingress,
    burst: Burst,
    pool: PacketPool,
    counters: Arc<Counters>,
    answers_first: bool,
    control: InterestQueue,
    /// Answers alone, or everything.
    answers: VecDeque<Waiting>,
    interests: VecDeque<Waiting>,
    /// On their way from the producer.
    coming: BTreeSet<(Timestamp, u32)>,
    sent: Sent,
    marked: u64,
    shed: u64,
}

impl World {
    fn new(answers_first: bool, options: &OverloadOptions) -> Self {
        let hasher = NameHasher::new([7; 16]);
        let (strategies, default_strategy) = StrategyTable::with_best_route();
        let config = FibConfig { entries_max: 64, hasher, default_strategy };
        let mut fib = FibWriter::new(&config);
        let prefix = Name::from_uri("/p").unwrap();
        fib.set_next_hops(prefix.as_ref(), &[NextHop { face: PRODUCER, cost: 1 }]).unwrap();
        let now = Timestamp::from_millis(1000);
        let counters = Arc::new(Counters::default());
        let shard_config = ShardConfig {
            shard: 0,
            hasher,
            pcct: PcctConfig::with_capacity(65_536, 1024, now),
            dead_nonce_lifetime_ms: 6000,
            dead_nonce_capacity: 65_536,
            strategy_timer_capacity: 256,
            unsolicited: UnsolicitedPolicy::DropAll,
        };
        let (fib, strategies) = (fib.publish(), Arc::new(strategies));
        let mut shard = Shard::new(&shard_config, fib, strategies, Arc::clone(&counters), now);
        for (face, id) in [(CONSUMER, 300), (PRODUCER, 301)] {
            let properties = FaceProperties::point_to_point(id, Scope::NonLocal);
            shard.set_face(face, &properties);
        }
        Self {
            now,
            shard,
            ingress: Ingress::new(hasher, Arc::clone(&counters), 1),
            burst: Burst::new(),
            pool: PacketPool::new(256).unwrap(),
            counters,
            answers_first,
            control: InterestQueue::new(options),
            answers: VecDeque::new(),
            interests: VecDeque::new(),
            coming: BTreeSet::new(),
            sent: Sent::default(),
            marked: 0,
            shed: 0,
        }
    }

    /// A packet comes in. What has no room is lost.
    fn arrive(&mut self, packet: Waiting) {
        let is_apart = self.answers_first && !packet.is_data;
        let queue = if is_apart { &mut self.interests } else { &mut self.answers };
        if queue.len() < QUEUE_MAX {
            queue.push_back(packet);
        }
    }

    /// One burst: answers first, or whatever came first.
    fn serve(&mut self) {
        for _ in 0..BURST_SIZE {
            if let Some(packet) = self.answers.pop_front() {
                self.push(packet);
            }
        }
        if self.burst.is_empty() {
            for _ in 0..BURST_SIZE {
                let Some(packet) = self.interests.pop_front() else { break };
                match self
                    .control
                    .dequeue(self.now, packet.since, false, || Some(PrincipalKey::OTHER))
                {
                    QueueVerdict::Drop => {
                        self.shed += 1;
                        continue;
                    }
                    verdict @ (QueueVerdict::Pass | QueueVerdict::Mark | QueueVerdict::Nack) => {
                        self.push_with(packet, verdict);
                    }
                }
            }
        }
        let count = self.burst.len() as u64;
        self.shard.process_burst(self.now, &mut self.burst, &self.pool, &mut self.sent);
        self.burst.release(&self.pool);
        self.shard.end_burst();
        self.now = self.now.plus_nanos(PACKET_NS * count.max(1));
        for number in self.sent.forwarded.drain(..) {
            // Scattered, and the same in every run.
            let jitter = (u64::from(number.wrapping_mul(0x9E37_79B9)) * JITTER_NS) >> 32;
            self.coming.insert((self.now.plus_nanos(ROUND_TRIP_NS + jitter), number));
        }
    }

    fn push_with(&mut self, packet: Waiting, verdict: QueueVerdict) {
        let index = self.burst.len();
        self.push(packet);
        match verdict {
            QueueVerdict::Mark => {
                self.marked += 1;
                self.burst.mark_congestion(index);
            }
            QueueVerdict::Nack => {
                self.shed += 1;
                self.burst.refuse(index);
            }
            QueueVerdict::Pass | QueueVerdict::Drop => {}
        }
    }

    fn push(&mut self, packet: Waiting) {
        let name = Name::from_uri(&format!("/p/{}", packet.number)).unwrap();
        let (wire, face) = if packet.is_data {
            let info = SignatureInfo::new(SignatureType::DIGEST_SHA256);
            let data = DataBuilder::new(&name);
            let wire = data.content(&[7; 10]).to_vec(&info, 32, |_, signature| {
                signature.fill(1);
                Some(32)
            });
            (wire.unwrap(), PRODUCER)
        } else {
            (InterestBuilder::new(&name).nonce(packet.number).to_vec().unwrap(), CONSUMER)
        };
        let mut block = self.pool.allocate_block().unwrap();
        block.spare_mut()[..wire.len()].copy_from_slice(&wire);
        block.commit(wire.len());
        let properties = FaceProperties::point_to_point(300, Scope::NonLocal);
        let face = RxFace::new(face, &properties);
        let fields = LpFields::default();
        self.ingress
            .push(&mut self.burst, &self.pool, &mut block, wire.len(), &fields, &face)
            .unwrap();
        self.pool.finish(block);
    }
}

/// Interests satisfied per second, over the sustainable rate, and the world after it.
fn offer(ratio: f64, answers_first: bool, options: &OverloadOptions) -> (f64, World) {
    let mut world = World::new(answers_first, options);
    let start = world.now;
    let interval_ns = 1e9 / (ratio * SUSTAINABLE_PER_S);
    let arrival = |number: u32| start.plus_nanos((f64::from(number) * interval_ns) as u64);
    let mut next = 0;
    while world.now.nanos_since(start) < TIME_NS {
        // What has come while the last burst was forwarded, in the order in which it came.
        loop {
            let data = world.coming.first().filter(|(since, _)| *since <= world.now).copied();
            let since = arrival(next);
            match data {
                Some((at, number)) if at <= since => {
                    world.coming.pop_first();
                    world.arrive(Waiting { number, is_data: true, since: at });
                }
                _ if since <= world.now => {
                    world.arrive(Waiting { number: next, is_data: false, since });
                    next += 1;
                }
                _ => break,
            }
        }
        world.serve();
    }
    let seconds = TIME_NS as f64 / 1e9;
    (world.sent.satisfied as f64 / seconds / SUSTAINABLE_PER_S, world)
}

const RATIOS: [f64; 4] = [0.6, 1.0, 1.5, 3.0];

/// The satisfied rate for each offered one, over their peak.
fn of_peak(answers_first: bool, options: &OverloadOptions) -> Vec<(f64, f64)> {
    let rates = RATIOS.map(|ratio| (ratio, offer(ratio, answers_first, options).0));
    let peak = rates.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    assert!(peak > 0.9, "what can be forwarded is forwarded: {rates:?}");
    rates.map(|(ratio, rate)| (ratio, rate / peak)).into()
}

#[test]
fn processing_data_first_keeps_the_satisfied_rate() {
    for shed in [ShedAction::Nack, ShedAction::Drop, ShedAction::Never] {
        let rows = of_peak(true, &OverloadOptions { shed, ..OverloadOptions::default() });
        for &(ratio, rate) in rows.iter().filter(|(ratio, _)| *ratio >= 1.0) {
            assert!(rate >= 0.9, "{rate:.2} of the peak at {ratio} ({shed:?}): {rows:?}");
        }
    }
}

#[test]
fn processing_in_arrival_order_collapses_under_overload() {
    let rows = of_peak(false, &OverloadOptions::default());
    let (ratio, rate) = rows[RATIOS.len() - 1];
    assert!(rate < 0.75, "{rate:.2} of the peak at {ratio}: {rows:?}");
}

#[test]
fn unsaturated_worker_neither_marks_nor_refuses() {
    let (rate, world) = offer(0.9, true, &OverloadOptions::default());
    assert!(rate > 0.85, "{rate}");
    assert_eq!((world.marked, world.shed, world.sent.nacked), (0, 0, 0));
}

#[test]
fn standing_queue_marks_and_then_refuses() {
    let options = OverloadOptions::default();
    let (_, world) = offer(3.0, true, &options);
    assert!(world.marked > 0 && world.shed > 0, "{} and {}", world.marked, world.shed);
    assert_eq!(world.sent.marked, world.marked, "the producer receives the marks");
    assert_eq!(world.sent.nacked, world.shed, "each of them gets an answer");
    assert_eq!(world.counters.dropped(DropReason::Overload), world.shed);
    assert_eq!(world.counters.out_nacks.value(), world.shed);

    let (_, world) = offer(3.0, true, &OverloadOptions { shed: ShedAction::Drop, ..options });
    assert!(world.shed > 0);
    assert_eq!(world.sent.nacked, 0);
    let (_, world) = offer(3.0, true, &OverloadOptions { shed: ShedAction::Never, ..options });
    assert_eq!(world.shed, 0);
    assert!(world.marked > 0);
}
