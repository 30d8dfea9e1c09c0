//! The exchange between workers: packets in bounded rings, notices of faces in a queue.
//!
//! Between each two workers there are three rings each way: for Data, for Nacks and for Interests.
//! Data and Nacks are taken first, because dropping one wastes the work that was done for it.
//! A message is dropped and counted if a ring has no room beside what is kept for others; an Interest that was received is
//! answered with a Nack instead. Principals that fill a ring are not read while there is little room in it.
//! A sleeping worker is woken when the sender writes, for a burst or for messages that have waited for some
//! time, and for any message before the sender sleeps.

mod message;
mod outbound;
mod rings;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use ndn_forwarding::{FaceProperties, LinkEvent, PacketKind};
use ndn_ring::{Consumer, PacketPool, Producer, SleepFlag, ring};
use ndn_sys::poll::Waker;
use ndn_table::FaceIndex;
use ndn_types::Timestamp;

use message::Queued;
pub(crate) use message::TYPE_INTEREST;
pub use message::{Message, RemoteFrame, RemoteTx};
pub(crate) use outbound::slot_stride;
pub use outbound::{Outbound, RoutedSink};
pub(crate) use rings::Sleeper;
pub use rings::{ExchangeCounters, ExchangeValues, KINDS, QueueDepth, QueueDepthValues};
use rings::{RING_KINDS, Rings, nack_ring_length, ring_index, ring_length};

/// A notice of the worker of a face to all others, which precedes any packet of the face.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Notice {
    /// A face is new, or has new properties.
    Face(FaceIndex, FaceProperties),
    /// An event of the link of a face.
    Link(FaceIndex, LinkEvent),
    /// A face has closed.
    FaceGone(FaceIndex),
}

/// One worker's end of the exchange.
#[derive(Debug)]
pub struct Exchange {
    /// The sending ends.
    pub outbound: Outbound,
    /// By worker; none from this one.
    inbound: Box<[Option<Rings<Consumer<Queued>>>]>,
    notices: Receiver<Notice>,
    /// Number of notices received.
    notices_received: u64,
    /// The queue of notices of each other worker.
    notify: Box<[(Sender<Notice>, Arc<Sleeper>)]>,
    sleeper: Arc<Sleeper>,
    counters: Arc<ExchangeCounters>,
    ring_length: usize,
}

impl Exchange {
    /// The ends of `worker_count` workers.
    ///
    /// # Errors
    /// Those of making a [`Waker`].
    pub fn between(worker_count: usize) -> io::Result<Vec<Self>> {
        Self::with_rings(worker_count, ring_length(worker_count))
    }

    /// The same, with rings for `ring_length` Data or Interests.
    fn with_rings(worker_count: usize, ring_length: usize) -> io::Result<Vec<Self>> {
        let mut sleepers = Vec::new();
        let (mut notice_senders, mut notice_receivers) = (Vec::new(), Vec::new());
        for _ in 0..worker_count {
            let (flag, waker) = (SleepFlag::new(), Waker::new()?);
            sleepers.push(Arc::new(Sleeper { flag, waker, notices: AtomicU64::new(0) }));
            let (sender, receiver) = channel();
            notice_senders.push(sender);
            notice_receivers.push(receiver);
        }
        let empty = |_| (0..worker_count).map(|_| None).collect::<Vec<_>>();
        let mut producers: Vec<Vec<Option<Rings<Producer<Queued>>>>> =
            (0..worker_count).map(empty).collect();
        let empty = |_| (0..worker_count).map(|_| None).collect::<Vec<_>>();
        let mut consumers: Vec<Vec<Option<Rings<Consumer<Queued>>>>> =
            (0..worker_count).map(empty).collect();
        for from in 0..worker_count {
            for to in (0..worker_count).filter(|&to| to != from) {
                let rings = RING_KINDS.map(|kind| match kind {
                    PacketKind::Data | PacketKind::Interest => ring(ring_length),
                    PacketKind::Nack => ring(nack_ring_length(ring_length)),
                });
                let [(p0, c0), (p1, c1), (p2, c2)] = rings;
                producers[from][to] = Some([p0, p1, p2]);
                consumers[to][from] = Some([c0, c1, c2]);
            }
        }
        let parts = producers.into_iter().zip(consumers).zip(notice_receivers).enumerate();
        Ok(parts
            .map(|(own, ((producers, consumers), notices))| {
                let counters = Arc::new(ExchangeCounters::default());
                let others = notice_senders.iter().zip(&sleepers).enumerate();
                let others = others.filter(|(to, _)| *to != own);
                Self {
                    outbound: Outbound::new(own, producers, &sleepers, Arc::clone(&counters)),
                    inbound: consumers.into_boxed_slice(),
                    notices,
                    notices_received: 0,
                    notify: others
                        .map(|(_, (sender, sleeper))| (sender.clone(), Arc::clone(sleeper)))
                        .collect(),
                    sleeper: Arc::clone(&sleepers[own]),
                    counters,
                    ring_length,
                }
            })
            .collect())
    }

    /// Number of this worker.
    pub fn own(&self) -> usize {
        self.outbound.own()
    }

    /// Number of workers.
    pub fn worker_count(&self) -> usize {
        self.inbound.len()
    }

    /// The counters of this worker.
    #[must_use]
    pub fn counters(&self) -> &Arc<ExchangeCounters> {
        &self.counters
    }

    /// The means to wake this worker.
    pub(crate) fn sleeper(&self) -> &Arc<Sleeper> {
        &self.sleeper
    }

    /// Sends a notice to all other workers, and wakes them. They receive it before any packet that is sent to
    /// them from now on.
    pub(crate) fn notify_all(&mut self, notice: Notice) {
        for (sender, sleeper) in &self.notify {
            // Before it is sent, so that no worker receives more than was counted.
            sleeper.notices.fetch_add(1, Ordering::Release);
            // Fails if that worker has ended.
            let _ = sender.send(notice);
        }
        self.outbound.touch_all();
    }

    /// The next notice.
    pub(crate) fn next_notice(&mut self) -> Option<Notice> {
        let notice = self.notices.try_recv().ok();
        self.notices_received += u64::from(notice.is_some());
        notice
    }

    /// Number of messages of a kind that wait from a worker.
    #[inline]
    pub fn waiting(&self, from: usize, kind: PacketKind) -> usize {
        self.inbound[from].as_ref().map_or(0, |rings| rings[ring_index(kind)].waiting())
    }

    /// Whether a ring with `waiting` messages has room only for what results from crossed ones. Received packets alone seldom fill it
    /// so far: queue management, which does not distinguish principals, would refuse Interests of those that have sent little.
    #[inline]
    pub(crate) fn is_nearly_full(&self, kind: PacketKind, waiting: usize) -> bool {
        waiting >= self.length(kind) / 8 * 7
    }

    /// Capacity of a ring.
    pub(crate) fn length(&self, kind: PacketKind) -> usize {
        match kind {
            PacketKind::Data | PacketKind::Interest => self.ring_length,
            PacketKind::Nack => nack_ring_length(self.ring_length),
        }
    }

    /// Whether another worker has to take messages of these kinds before this one reads packets of all principals: less
    /// than three eighths of a ring are free. A read that begins with more can send an eighth before it reaches what is kept.
    pub(crate) fn is_crowded(&self, kinds: &[PacketKind]) -> bool {
        kinds.iter().any(|&kind| {
            let enough = self.length(kind) / 8 * 3;
            self.outbound.least_room(kind, enough) < enough
        })
    }

    /// Takes the oldest message.
    #[cfg(test)]
    pub(crate) fn take(&mut self, from: usize, kind: PacketKind) -> Option<Message> {
        let queued = self.inbound[from].as_mut()?[ring_index(kind)].pop()?;
        self.counters.crossings_taken.increment();
        Some(queued.message)
    }

    /// Takes up to `count` messages, and calls `take` with each in its slot. `take` must move the packet out of
    /// the message or release it. Returns the number taken.
    #[inline(always)]
    pub fn take_each(
        &mut self,
        from: usize,
        kind: PacketKind,
        count: usize,
        mut take: impl FnMut(&mut Message, Timestamp),
    ) -> usize {
        let Some(rings) = self.inbound[from].as_mut() else { return 0 };
        let taken = rings[ring_index(kind)].drain(
            count,
            |queued| queued.message.prefetch(),
            |queued| take(&mut queued.message, queued.since),
        );
        self.counters.crossings_taken.add(taken as u64);
        taken
    }

    /// Whether a message or a notice waits.
    pub(crate) fn has_waiting(&self) -> bool {
        if self.sleeper.notices.load(Ordering::Acquire) != self.notices_received {
            return true;
        }
        let mut rings = self.inbound.iter().flatten().flatten();
        rings.any(|ring| ring.waiting() > 0)
    }

    /// Removes one waiting message and counts nothing. Returns whether there was one.
    #[cfg(feature = "planted-faults")]
    pub(crate) fn lose_message(&mut self, pool: &PacketPool) -> bool {
        let mut rings = self.inbound.iter_mut().flatten().flatten();
        let Some(queued) = rings.find_map(|ring| ring.pop()) else { return false };
        queued.message.release(pool);
        true
    }

    /// Returns the block that is kept for copies of packets.
    pub fn release_copies(&mut self, pool: &PacketPool) {
        self.outbound.release(pool);
    }

    /// Releases the packets of waiting messages, at the end of the worker.
    pub fn release(&mut self, pool: &PacketPool) {
        for ring in self.inbound.iter_mut().flatten().flatten() {
            while let Some(queued) = ring.pop() {
                queued.message.release(pool);
            }
        }
        self.outbound.release(pool);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::collections::VecDeque;

    use ndn_forwarding::{
        Burst, CrossShardPacket, Ingress, LpFields, PitToken, RxFace, ShardMessage, TxKind,
        TxPacket, TxSink,
    };
    use ndn_packet::{DataBuilder, InterestBuilder, Name, SignatureInfo, SignatureType};
    use ndn_sys::poll::{Events, Poller};
    use ndn_table::NameHasher;
    use ndn_types::Scope;
    use proptest::prelude::*;

    use super::*;
    use crate::overload::QueueVerdict;

    fn outgoing(pool: &PacketPool, number: u32, kind: TxKind) -> Message {
        let mut block = pool.allocate_block().unwrap();
        block.spare_mut()[..4].copy_from_slice(&number.to_be_bytes());
        block.commit(4);
        let handle = block.carve(4);
        pool.finish(block);
        Message::RemoteTx(RemoteTx {
            face: FaceIndex::new(1, 0),
            kind,
            handle: Some(handle),
            pit_token: PitToken::NONE,
            congestion_mark: 0,
            incoming_face_id: None,
            non_discovery: false,
            announcement_length: 0,
        })
    }

    fn number_of(message: Message, pool: &PacketPool) -> u32 {
        let Message::RemoteTx(outgoing) = &message else { panic!("{message:?}") };
        let wire = pool.bytes(outgoing.handle.as_ref().unwrap());
        let number = u32::from_be_bytes(wire.try_into().unwrap());
        message.release(pool);
        number
    }

    /// A sink that passes each packet to a function.
    struct Checking<F>(F);

    impl<F: FnMut(FaceIndex, &TxPacket<'_>)> TxSink for Checking<F> {
        fn send(&mut self, face: FaceIndex, packet: &TxPacket<'_>) {
            (self.0)(face, packet);
        }
    }

    fn tx_kind(kind: usize) -> TxKind {
        [TxKind::Data, TxKind::Nack(ndn_packet::NackReason(50)), TxKind::Interest][kind]
    }

    #[derive(Debug, Clone)]
    enum Operation {
        Send { from: usize, to: usize, kind: usize },
        Take { to: usize, from: usize, kind: usize, count: usize },
    }

    /// Small, so that tests fill it.
    const RING_LENGTH: usize = if cfg!(miri) { 16 } else { 64 };
    const OPERATIONS_MAX: usize = if cfg!(miri) { 150 } else { 1500 };

    fn operation() -> impl Strategy<Value = Operation> {
        let path = (0..3_usize, 0..3_usize, 0..3_usize);
        prop_oneof![
            3 => path.clone().prop_map(|(from, to, kind)| Operation::Send { from, to, kind }),
            1 => (path, 1..4_usize)
                .prop_map(|((from, to, kind), count)| Operation::Take { to, from, kind, count }),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            ..ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 32 })
        })]
        #[test]
        fn rings_are_bounded_queues(
            operations in proptest::collection::vec(operation(), 0..OPERATIONS_MAX),
        ) {
            let blocks = u32::try_from(OPERATIONS_MAX + 500).unwrap();
            let pools: Vec<_> = (0..3).map(|_| PacketPool::new(blocks).unwrap()).collect();
            let mut parts = Exchange::with_rings(3, RING_LENGTH).unwrap();
            let mut oracle: Vec<VecDeque<u32>> = vec![VecDeque::new(); 27];
            let queue = |from: usize, to: usize, kind: usize| from * 9 + to * 3 + kind;
            let (mut number, mut dropped) = (0, 0);
            for operation in operations {
                match operation {
                    Operation::Send { from, to, kind } => {
                        number += 1;
                        let message = outgoing(&pools[from], number, tx_kind(kind));
                        let fits = to != from
                            && oracle[queue(from, to, kind)].len() < parts[0].length(KINDS[kind]);
                        prop_assert_eq!(parts[from].outbound.send(to, message, &pools[from]), fits);
                        parts[from].outbound.wake();
                        if fits {
                            oracle[queue(from, to, kind)].push_back(number);
                        } else {
                            dropped += u64::from(to != from);
                        }
                    }
                    Operation::Take { to, from, kind, count } => {
                        for _ in 0..count {
                            let expected = oracle[queue(from, to, kind)].pop_front();
                            let taken = parts[to].take(from, KINDS[kind]);
                            prop_assert_eq!(taken.map(|m| number_of(m, &pools[to])), expected);
                        }
                    }
                }
            }
            for to in 0..3 {
                let waits = (0..27).any(|q| q / 3 % 3 == to && !oracle[q].is_empty());
                prop_assert_eq!(parts[to].has_waiting(), waits);
                parts[to].release(&pools[to]);
            }
            let counted: u64 = parts.iter().map(|part| KINDS.map(|kind| part.counters.ring_full(kind).value()).iter().sum::<u64>()).sum();
            prop_assert_eq!(counted, dropped);
            pools.iter().for_each(PacketPool::settle);
            for pool in &pools {
                pool.reclaim();
                prop_assert_eq!(pool.counters().blocks_in_use(), 0, "every packet went home");
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri cannot wait for such events")]
    fn sleeping_worker_is_woken_once_per_burst() {
        let pool = PacketPool::new(16).unwrap();
        let mut parts = Exchange::between(2).unwrap();
        let (mut second, mut first) = (parts.pop().unwrap(), parts.pop().unwrap());
        let poller = Poller::new().unwrap();
        poller.add_waker(&second.sleeper().waker, 1).unwrap();
        let is_woken = || {
            let mut events = Events::with_capacity(1);
            poller.wait(&mut events, Some(std::time::Duration::ZERO)).unwrap();
            !events.is_empty()
        };
        first.outbound.send(1, outgoing(&pool, 1, TxKind::Data), &pool);
        first.outbound.wake();
        assert!(!is_woken(), "it is awake");
        second.sleeper().flag.prepare();
        first.outbound.wake();
        assert!(!is_woken(), "nothing was sent since");
        for number in 2..5 {
            first.outbound.send(1, outgoing(&pool, number, TxKind::Data), &pool);
        }
        assert!(!is_woken(), "the burst is not over");
        first.outbound.wake();
        assert!(is_woken());
        assert_eq!(first.counters().wakes.value(), 1);
        second.release(&pool);
    }

    /// A received Interest for another shard.
    fn packet(pool: &PacketPool) -> CrossShardPacket {
        received(pool).take_packet(0)
    }

    fn received(pool: &PacketPool) -> Burst {
        let name = Name::from_uri("/a/b").unwrap();
        burst_of(pool, &InterestBuilder::new(&name).nonce(7).to_vec().unwrap())
    }

    /// The same with Data.
    fn received_data(pool: &PacketPool) -> Burst {
        burst_of(pool, &data("/a/b"))
    }

    fn data(uri: &str) -> Vec<u8> {
        let name = Name::from_uri(uri).unwrap();
        let info = SignatureInfo::new(SignatureType::DIGEST_SHA256);
        let wire = DataBuilder::new(&name).to_vec(&info, 32, |_, signature| {
            signature.fill(1);
            Some(32)
        });
        wire.unwrap()
    }

    fn burst_of(pool: &PacketPool, wire: &[u8]) -> Burst {
        burst_with(pool, wire, &LpFields::default())
    }

    fn burst_with(pool: &PacketPool, wire: &[u8], fields: &LpFields) -> Burst {
        let mut block = pool.allocate_block().unwrap();
        block.spare_mut()[..wire.len()].copy_from_slice(wire);
        block.commit(wire.len());
        let mut ingress = Ingress::new(NameHasher::new([7; 16]), Arc::default(), 1);
        let properties = FaceProperties::point_to_point(300, Scope::NonLocal);
        let face = RxFace::new(FaceIndex::new(1, 0), &properties);
        let mut burst = Burst::new();
        ingress.push(&mut burst, pool, &mut block, wire.len(), fields, &face).unwrap();
        pool.finish(block);
        burst
    }

    /// Otherwise, two workers that have filled the rings in both directions could take nothing from each other.
    #[test]
    fn received_packets_leave_room_to_what_crossed_ones_cause() {
        let pool = PacketPool::new(200).unwrap();
        let mut parts = Exchange::with_rings(2, RING_LENGTH).unwrap();
        parts[0].outbound.leave_reserve(true);
        let kind = PacketKind::Interest;
        for sent in 0..RING_LENGTH {
            let mut burst = received(&pool);
            parts[0].outbound.send_packet(1, &mut burst, 0, &pool);
            if sent >= RING_LENGTH / 8 * 6 {
                // It is still there, to be answered.
                let mut left = burst.take_packet(0);
                assert!(left.handle().is_some());
                left.release(&pool);
                let frame = frame(&pool, &[TYPE_INTEREST, 0]);
                parts[0].outbound.send_frame(1, frame, &pool);
            }
        }
        let reserve = RING_LENGTH / 4;
        assert_eq!(parts[0].outbound.room(1, kind), reserve);
        assert_eq!(parts[0].counters().ring_full(kind).value(), 2 * reserve as u64);
        for number in 0..=reserve {
            let message = outgoing(&pool, u32::try_from(number).unwrap(), TxKind::Interest);
            assert_eq!(parts[0].outbound.send(1, message, &pool), number < reserve);
        }
        parts[0].outbound.wake();
        parts[1].release(&pool);
        pool.settle();
        pool.reclaim();
        assert_eq!(pool.counters().blocks_in_use(), 0);
    }

    #[test]
    fn part_of_a_read_is_used_after_the_room_that_is_for_all() {
        let pool = PacketPool::new(200).unwrap();
        let mut parts = Exchange::with_rings(2, RING_LENGTH).unwrap();
        parts[0].outbound.leave_reserve(true);
        let (eighth, kind) = (RING_LENGTH / 8, PacketKind::Data);
        let outbound = &mut parts[0].outbound;
        for room in (eighth * 2..RING_LENGTH).rev() {
            outbound.grant(eighth);
            outbound.send_packet(1, &mut received_data(&pool), 0, &pool);
            assert_eq!((outbound.room(1, kind), outbound.revoke()), (room, eighth));
        }
        outbound.grant(1);
        outbound.send_packet(1, &mut received_data(&pool), 0, &pool);
        outbound.send_packet(1, &mut received_data(&pool), 0, &pool);
        assert_eq!((outbound.room(1, kind), outbound.revoke()), (eighth * 2 - 1, 0));
        outbound.grant(RING_LENGTH);
        for _ in 0..RING_LENGTH {
            outbound.send_packet(1, &mut received_data(&pool), 0, &pool);
        }
        let left = RING_LENGTH + 1 - eighth;
        assert_eq!((outbound.room(1, kind), outbound.revoke()), (eighth, left));
        outbound.wake();
        parts[1].release(&pool);
        pool.settle();
        pool.reclaim();
        assert_eq!(pool.counters().blocks_in_use(), 0);
    }

    #[test]
    fn results_of_a_read_are_of_its_part_where_they_take_kept_room() {
        let pool = PacketPool::new(200).unwrap();
        let mut parts = Exchange::with_rings(2, RING_LENGTH).unwrap();
        let outbound = &mut parts[0].outbound;
        let kept = RING_LENGTH / 4;
        for (leaves_reserve, results) in [(false, 0), (true, 2)] {
            outbound.leave_reserve(leaves_reserve);
            while outbound.room(1, PacketKind::Data) > kept {
                outbound.grant(kept);
                assert!(outbound.send(1, outgoing(&pool, 1, TxKind::Data), &pool));
                assert_eq!(outbound.revoke(), kept);
            }
            outbound.grant(kept);
            (0..2).for_each(|_| assert!(outbound.send(1, outgoing(&pool, 1, TxKind::Data), &pool)));
            assert_eq!(outbound.revoke(), kept - results);
        }
        outbound.wake();
        parts[1].release(&pool);
        pool.settle();
        pool.reclaim();
        assert_eq!(pool.counters().blocks_in_use(), 0);
    }

    /// A frame is taken if there is any room for what it causes.
    #[test]
    fn packets_of_crossed_frames_use_the_reserve() {
        let pool = PacketPool::new(200).unwrap();
        let mut parts = Exchange::with_rings(2, RING_LENGTH).unwrap();
        parts[0].outbound.leave_reserve(true);
        let reserve = RING_LENGTH / 4;
        for _ in 0..RING_LENGTH - reserve {
            parts[0].outbound.send_packet(1, &mut received_data(&pool), 0, &pool);
        }
        let state = |parts: &[Exchange]| {
            let dropped = parts[0].counters().ring_full_data.value();
            (parts[0].outbound.room(1, PacketKind::Data), dropped)
        };
        assert_eq!(state(&parts), (reserve, 0));
        parts[0].outbound.leave_reserve(false);
        parts[0].outbound.send_packet(1, &mut received_data(&pool), 0, &pool);
        assert_eq!(state(&parts), (reserve - 1, 0));
        parts[0].outbound.leave_reserve(true);
        parts[0].outbound.send_packet(1, &mut received_data(&pool), 0, &pool);
        assert_eq!(state(&parts), (reserve - 1, 1));
        parts[0].outbound.wake();
        parts[1].release(&pool);
        pool.settle();
        pool.reclaim();
        assert_eq!(pool.counters().blocks_in_use(), 0);
    }

    /// Messages can be taken before the wake-up.
    #[test]
    fn few_messages_wake_a_sleeping_worker_late() {
        let pool = PacketPool::new(200).unwrap();
        let mut parts = Exchange::with_rings(2, 64).unwrap();
        let micros = |micros: u64| Timestamp::from_nanos(1_000_000 + micros * 1000);
        let send = |parts: &mut Vec<Exchange>, at: u64, count: u32| {
            parts[0].outbound.set_time(micros(at));
            for number in 0..count {
                assert!(parts[0].outbound.send(1, outgoing(&pool, number, TxKind::Data), &pool));
            }
        };
        let mut wakes = 0;
        let mut check = |parts: &mut Vec<Exchange>, at: u64, is_woken: bool| {
            parts[1].sleeper().flag.prepare();
            parts[0].outbound.wake_if_due(|| micros(at));
            wakes += u64::from(is_woken);
            assert_eq!(parts[0].counters().wakes.value(), wakes, "after {at} us");
            while let Some(message) = parts[1].take(0, PacketKind::Data) {
                message.release(&pool);
            }
            assert!(!parts[1].has_waiting());
        };
        check(&mut parts, 0, false);
        send(&mut parts, 0, 3);
        check(&mut parts, 20, false);
        send(&mut parts, 30, 3);
        check(&mut parts, 40, false);
        check(&mut parts, 60, true);
        check(&mut parts, 200, false);
        // The age is that of the first, also if they were not published in between.
        send(&mut parts, 200, 3);
        send(&mut parts, 240, 3);
        check(&mut parts, 260, true);
        send(&mut parts, 300, 63);
        check(&mut parts, 300, false);
        send(&mut parts, 310, 1);
        check(&mut parts, 310, true);
        send(&mut parts, 320, 1);
        check(&mut parts, 330, false);
        // The sender is about to sleep.
        parts[0].outbound.wake();
        assert_eq!(parts[0].counters().wakes.value(), 4);
        // Notices do not wait.
        parts[0].notify_all(Notice::FaceGone(FaceIndex::new(1, 0)));
        parts[1].sleeper().flag.prepare();
        parts[0].outbound.wake_if_due(|| micros(320));
        assert_eq!(parts[0].counters().wakes.value(), 5);
    }

    fn frame(pool: &PacketPool, bytes: &[u8]) -> RemoteFrame {
        let mut block = pool.allocate_block().unwrap();
        block.spare_mut()[..bytes.len()].copy_from_slice(bytes);
        block.commit(bytes.len());
        let frame = RemoteFrame::carve(FaceIndex::new(1, 0), None, &mut block, bytes.len());
        pool.finish(block);
        frame
    }

    #[test]
    fn frame_takes_the_ring_of_its_kind() {
        let pool = PacketPool::new(16).unwrap();
        let mut parts = Exchange::between(2).unwrap();
        let frames = [
            (&[TYPE_INTEREST, 0], PacketKind::Interest),
            (&[6, 0], PacketKind::Data),
            // A link packet.
            (&[100, 0], PacketKind::Data),
        ];
        for (bytes, kind) in frames {
            let message = Message::RemoteFrame(frame(&pool, bytes));
            assert!(parts[0].outbound.send(1, message, &pool));
            assert!(parts[1].take(0, kind).is_none(), "the burst is not over");
            parts[0].outbound.wake();
            let taken = parts[1].take(0, kind).expect("a frame in its ring");
            let Message::RemoteFrame(frame) = &taken else { panic!("{taken:?}") };
            assert_eq!(pool.bytes(&frame.handle), bytes);
            taken.release(&pool);
        }
    }

    /// The tokens and announcements of received packets and of those that leave.
    #[test]
    fn token_and_announcement_cross_with_their_packet() {
        const TOKEN: &[u8] = b"0123456789abcdefghijklmnopqrstuv";
        let pool = PacketPool::new(64).unwrap();
        let mut parts = Exchange::between(2).unwrap();
        let (wire, announcement) = (data("/a/b"), data("/a/32=PA"));
        let both = [&wire[..], &announcement].concat();
        for length in [0, 1, 3, 4, 6, 8, 9, 32] {
            for announcement in [&[][..], &announcement] {
                let token = &TOKEN[..length];
                let fields = LpFields {
                    pit_token: PitToken::new(token).unwrap(),
                    announcement_length: u16::try_from(announcement.len()).unwrap(),
                    ..Default::default()
                };
                let received = &both[..wire.len() + announcement.len()];
                let mut burst = burst_with(&pool, received, &fields);
                let mut leaving = burst_of(&pool, &wire).take_packet(0);
                let is_copied = length % 2 == 0;
                let packet = TxPacket {
                    kind: TxKind::Data,
                    wire: &wire,
                    handle: leaving.handle().filter(|_| !is_copied),
                    pit_token: token,
                    congestion_mark: 3,
                    incoming_face_id: Some(300),
                    non_discovery: false,
                    prefix_announcement: announcement,
                };
                parts[0].outbound.send_packet(1, &mut burst, 0, &pool);
                parts[0].outbound.send_by_face(1, FaceIndex::new(1, 0), &packet, &pool);
                parts[0].outbound.publish();
                leaving.release(&pool);
                burst.release(&pool);

                let (mut crossed, mut seen) = (Burst::new(), 0);
                let taken = parts[1].take_each(0, PacketKind::Data, 3, |message, _| {
                    if let Message::Shard(ShardMessage::Packet(packet)) = message {
                        assert_eq!(pool.bytes(packet.handle().unwrap()), received);
                        assert!(crossed.push_packet(packet, &pool, &NameHasher::new([7; 16])));
                        return;
                    }
                    let Message::RemoteTx(outgoing) = message else { panic!("{message:?}") };
                    let check = |face, packet: &TxPacket<'_>| {
                        assert_eq!(packet.wire, wire);
                        assert_eq!(packet.pit_token, token);
                        assert_eq!(packet.prefix_announcement, announcement);
                        let fields = (packet.congestion_mark, packet.incoming_face_id);
                        assert_eq!(fields, (3, Some(300)));
                        assert_eq!((face, packet.kind), (FaceIndex::new(1, 0), TxKind::Data));
                        seen += 1;
                    };
                    outgoing.send(&pool, &mut Checking(check));
                    outgoing.send(&pool, &mut Checking(|_, _: &TxPacket<'_>| panic!("twice")));
                });
                assert_eq!((taken, crossed.len(), seen), (2, 1, 1));
                assert_eq!((crossed.kind(0), crossed.pit_token(0)), (PacketKind::Data, token));
                crossed.release(&pool);
            }
        }
        parts[0].release(&pool);
        pool.settle();
        pool.reclaim();
        assert_eq!(pool.counters().blocks_in_use(), 0);
    }

    #[test]
    fn packet_without_a_buffer_for_its_copy_is_not_counted_as_a_full_ring() {
        let pool = PacketPool::new(1).unwrap();
        let held = pool.allocate_block().unwrap();
        let mut parts = Exchange::between(2).unwrap();
        let packet = TxPacket {
            kind: TxKind::Data,
            wire: &[6, 0],
            handle: None,
            pit_token: &[],
            congestion_mark: 0,
            incoming_face_id: None,
            non_discovery: false,
            prefix_announcement: &[],
        };
        let counts = |parts: &[Exchange]| {
            let counters = parts[0].counters();
            (counters.crossing_no_buffer.value(), counters.crossings_sent.value())
        };
        parts[0].outbound.send_by_face(1, FaceIndex::new(1, 0), &packet, &pool);
        assert_eq!(counts(&parts), (1, 0));
        pool.finish(held);
        parts[0].outbound.send_by_face(1, FaceIndex::new(1, 0), &packet, &pool);
        parts[0].outbound.publish();
        assert_eq!(counts(&parts), (1, 1));
        assert_eq!(parts[0].counters().ring_full_total(), 0);
        parts[0].outbound.wake();
        parts[1].take(0, PacketKind::Data).expect("the packet").release(&pool);
        parts[0].release(&pool);
    }

    #[test]
    fn verdict_is_applied_as_far_as_the_message_allows() {
        use QueueVerdict::{Drop, Mark, Nack, Pass};
        let pool = PacketPool::new(16).unwrap();
        let packet = || Message::Shard(ShardMessage::Packet(packet(&pool)));
        let forwarded = || outgoing(&pool, 1, TxKind::Interest);
        let other = || Message::Shard(ShardMessage::FaceSendsTokens(FaceIndex::new(1, 0)));
        let frame = || Message::RemoteFrame(frame(&pool, &[TYPE_INTEREST, 0]));
        let kinds: [(&dyn Fn() -> Message, [QueueVerdict; 4]); 4] = [
            (&packet, [Pass, Mark, Nack, Drop]),
            (&forwarded, [Pass, Mark, Mark, Mark]),
            (&other, [Pass; 4]),
            (&frame, [Pass; 4]),
        ];
        for (make, expected) in kinds {
            for (verdict, expected) in [Pass, Mark, Nack, Drop].into_iter().zip(expected) {
                let mut message = make();
                assert_eq!(message.apply(verdict), expected, "{verdict:?} for {message:?}");
                if let Message::RemoteTx(outgoing) = &message {
                    assert_eq!(outgoing.congestion_mark, u64::from(expected == Mark));
                }
                message.release(&pool);
            }
        }
    }

    #[test]
    fn notice_precedes_later_messages() {
        let pool = PacketPool::new(16).unwrap();
        let mut parts = Exchange::between(3).unwrap();
        parts[0].notify_all(Notice::FaceGone(FaceIndex::new(4, 0)));
        parts[0].outbound.send(2, outgoing(&pool, 1, TxKind::Interest), &pool);
        parts[0].outbound.wake();
        assert_eq!(parts[2].waiting(0, PacketKind::Interest), 1);
        for part in &mut parts[1..] {
            assert!(matches!(part.next_notice(), Some(Notice::FaceGone(face)) if face.slot() == 4));
            assert!(part.next_notice().is_none());
        }
        assert!(parts[0].next_notice().is_none(), "a worker does not notify itself");
        parts[2].release(&pool);
    }

    /// The others have seen the worker awake and do not wake it.
    #[test]
    fn notice_before_sleep_prevents_sleep() {
        let mut parts = Exchange::between(3).unwrap();
        for face in 0..3 {
            for notifier in [0, 1] {
                parts[notifier].notify_all(Notice::FaceGone(FaceIndex::new(face, 0)));
                parts[notifier].outbound.wake();
                assert_eq!(parts[notifier].counters().wakes.value(), 0, "all are awake");
            }
        }
        parts[2].sleeper().flag.prepare();
        for received in 0..6 {
            assert!(parts[2].has_waiting(), "after {received}");
            assert!(parts[2].next_notice().is_some());
        }
        assert!(!parts[2].has_waiting());
        assert!(parts[2].next_notice().is_none());
        assert!(!parts[2].has_waiting(), "a check without a result changes nothing");
    }

    /// Packets are read and released on another thread than that of their pool.
    #[test]
    fn packets_cross_between_threads_and_return_to_their_pool() {
        const COUNT: u32 = if cfg!(miri) { 60 } else { 20_000 };
        let mut parts = Exchange::with_rings(2, if cfg!(miri) { 16 } else { 512 }).unwrap();
        let (second, first) = (parts.pop().unwrap(), parts.pop().unwrap());
        let run = |mut part: Exchange| {
            let other = 1 - part.own();
            // A block for each packet in a ring, and for released ones that have not returned.
            let pool = PacketPool::new(if cfg!(miri) { 64 } else { 2048 }).unwrap();
            let (mut sent, mut taken) = (0, 0);
            while sent < COUNT || taken < COUNT {
                pool.settle();
                pool.reclaim();
                let has_room = part.outbound.room(other, PacketKind::Interest) > 0;
                if sent < COUNT && has_room {
                    let message = outgoing(&pool, sent, TxKind::Interest);
                    assert!(part.outbound.send(other, message, &pool));
                    part.outbound.wake();
                    sent += 1;
                }
                if let Some(message) = part.take(other, PacketKind::Interest) {
                    assert_eq!(number_of(message, &pool), taken);
                    taken += 1;
                } else {
                    std::thread::yield_now();
                }
            }
            (part, pool)
        };
        let ends = std::thread::scope(|scope| {
            let threads = [first, second].map(|part| scope.spawn(move || run(part)));
            threads.map(|thread| thread.join().unwrap())
        });
        ends.iter().for_each(|(_, pool)| pool.settle());
        for (part, pool) in &ends {
            pool.reclaim();
            assert_eq!(pool.counters().blocks_in_use(), 0, "every packet went home");
            assert_eq!(part.counters().ring_full_total(), 0);
        }
    }
}
