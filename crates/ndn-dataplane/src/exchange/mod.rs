//! What workers send each other: packets by bounded rings, news of faces by a queue.
//!
//! Between each two workers there are three rings each way: for Data, for Nacks and for Interests.
//! Data and Nacks are taken first, because dropping one wastes all the work that was done for it.
//! A ring that is full drops and counts, but a worker reads no more while there is little room in it.
//! A worker that sleeps is woken for a burst, or for what has waited for some time, when the sender writes; and
//! for all before the sender waits.

mod message;
mod outbound;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use ndn_forwarding::{Counter, FaceProperties, PacketKind};
use ndn_ring::{Consumer, PacketPool, Producer, SleepFlag, ring};
use ndn_sys::poll::Waker;
use ndn_table::{FaceIndex, Timestamp};

use message::Queued;
pub(crate) use message::TYPE_INTEREST;
pub use message::{Frame, Message, Outgoing};
pub(crate) use outbound::slot_stride;
pub use outbound::{Outbound, RoutedSink};

/// Kinds of packets, the first to be taken first.
pub const KINDS: [PacketKind; 3] = [PacketKind::Data, PacketKind::Nack, PacketKind::Interest];

/// Data, or Interests, that wait in one ring at most: more between few workers, where one read may
/// bring a thousand packets for the same ring.
fn ring_length(worker_count: usize) -> usize {
    // Full soon enough for Miri, which is slow.
    if cfg!(miri) { 16 } else { (16_384 / worker_count.max(1)).clamp(512, 4096) }
}

/// Nacks that wait in one ring at most, beside so many Data.
fn nack_ring_length(length: usize) -> usize {
    (length / 4).max(8)
}

fn place(kind: PacketKind) -> usize {
    match kind {
        PacketKind::Data => 0,
        PacketKind::Nack => 1,
        PacketKind::Interest => 2,
    }
}

/// What a worker counts of its dealings with others. Written by that worker alone.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct ExchangeCounters {
    /// Messages sent to other workers: packets, and what comes of them.
    pub sent: Counter,
    /// Messages taken from other workers.
    pub taken: Counter,
    /// Data that were dropped because a ring was full or no buffer was free.
    pub dropped_data: Counter,
    /// Nacks that were dropped because a ring was full or no buffer was free.
    pub dropped_nacks: Counter,
    /// Interests that were dropped because a ring was full or no buffer was free.
    pub dropped_interests: Counter,
    /// Times that another worker had to be woken.
    pub wakes: Counter,
    /// Data that wait to be taken.
    pub queued_data: QueueDepth,
    /// Nacks that wait to be taken.
    pub queued_nacks: QueueDepth,
    /// Interests that wait to be taken.
    pub queued_interests: QueueDepth,
}

/// How many messages waited, each time that a worker looked: once in a round of its loop at least, and
/// again while it reads and waits for room.
#[derive(Debug, Default)]
pub struct QueueDepth {
    /// The last time.
    pub last: Counter,
    /// The most that there ever were.
    pub most: Counter,
    /// All times added up.
    pub sum: Counter,
    /// How often it has looked.
    pub looks: Counter,
}

impl QueueDepth {
    /// A worker has looked.
    #[inline]
    pub(crate) fn note(&self, depth: u64) {
        self.last.set(depth);
        self.sum.add(depth);
        self.looks.increment();
        self.most.set(self.most.value().max(depth));
    }
}

impl ExchangeCounters {
    /// Messages of any kind that were dropped.
    #[must_use]
    pub fn dropped_total(&self) -> u64 {
        KINDS.iter().map(|&kind| self.dropped(kind).value()).sum()
    }

    /// How many messages of a kind wait to be taken.
    pub(crate) fn queue(&self, kind: PacketKind) -> &QueueDepth {
        match kind {
            PacketKind::Data => &self.queued_data,
            PacketKind::Nack => &self.queued_nacks,
            PacketKind::Interest => &self.queued_interests,
        }
    }

    pub(crate) fn dropped(&self, kind: PacketKind) -> &Counter {
        match kind {
            PacketKind::Data => &self.dropped_data,
            PacketKind::Nack => &self.dropped_nacks,
            PacketKind::Interest => &self.dropped_interests,
        }
    }
}

/// News that all workers hear from the one that has a face, before any packet of the face.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Notice {
    /// There is such a face, or it has other properties.
    Face(FaceIndex, FaceProperties),
    /// It is gone.
    FaceGone(FaceIndex),
}

/// How a worker is woken.
#[derive(Debug)]
pub(crate) struct Sleeper {
    pub(crate) flag: SleepFlag,
    pub(crate) waker: Waker,
    /// News that was sent to it, or is about to be: the queue itself cannot be looked at without
    /// taking from it.
    notices: AtomicU64,
}

/// The taking ends of the rings from one worker.
type Rings<T> = [T; KINDS.len()];

/// One worker's part of the exchange.
#[derive(Debug)]
pub struct Exchange {
    /// Where this worker sends.
    pub outbound: Outbound,
    /// By worker; none from this one.
    inbound: Box<[Option<Rings<Consumer<Queued>>>]>,
    notices: Receiver<Notice>,
    /// News taken so far.
    heard: u64,
    /// To each other worker.
    notify: Box<[(Sender<Notice>, Arc<Sleeper>)]>,
    sleeper: Arc<Sleeper>,
    counters: Arc<ExchangeCounters>,
    ring_length: usize,
}

impl Exchange {
    /// The parts of `worker_count` workers.
    ///
    /// # Errors
    /// Those of making a [`Waker`].
    pub fn between(worker_count: usize) -> io::Result<Vec<Self>> {
        Self::with_rings(worker_count, ring_length(worker_count))
    }

    /// The same, with rings for so many Data or Interests.
    fn with_rings(worker_count: usize, ring_length: usize) -> io::Result<Vec<Self>> {
        let mut sleepers = Vec::new();
        let (mut news_to, mut news_of) = (Vec::new(), Vec::new());
        for _ in 0..worker_count {
            let (flag, waker) = (SleepFlag::new(), Waker::new()?);
            sleepers.push(Arc::new(Sleeper { flag, waker, notices: AtomicU64::new(0) }));
            let (sender, receiver) = channel();
            news_to.push(sender);
            news_of.push(receiver);
        }
        let empty = |_| (0..worker_count).map(|_| None).collect::<Vec<_>>();
        let mut producers: Vec<Vec<Option<Rings<Producer<Queued>>>>> =
            (0..worker_count).map(empty).collect();
        let empty = |_| (0..worker_count).map(|_| None).collect::<Vec<_>>();
        let mut consumers: Vec<Vec<Option<Rings<Consumer<Queued>>>>> =
            (0..worker_count).map(empty).collect();
        for from in 0..worker_count {
            for to in (0..worker_count).filter(|&to| to != from) {
                let rings = KINDS.map(|kind| match kind {
                    PacketKind::Data | PacketKind::Interest => ring(ring_length),
                    PacketKind::Nack => ring(nack_ring_length(ring_length)),
                });
                let [(p0, c0), (p1, c1), (p2, c2)] = rings;
                producers[from][to] = Some([p0, p1, p2]);
                consumers[to][from] = Some([c0, c1, c2]);
            }
        }
        let parts = producers.into_iter().zip(consumers).zip(news_of).enumerate();
        Ok(parts
            .map(|(own, ((producers, consumers), notices))| {
                let counters = Arc::new(ExchangeCounters::default());
                let others = news_to.iter().zip(&sleepers).enumerate();
                let others = others.filter(|(to, _)| *to != own);
                Self {
                    outbound: Outbound::new(own, producers, &sleepers, Arc::clone(&counters)),
                    inbound: consumers.into_boxed_slice(),
                    notices,
                    heard: 0,
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

    /// Workers in all.
    pub fn worker_count(&self) -> usize {
        self.inbound.len()
    }

    /// What this worker counts.
    #[must_use]
    pub fn counters(&self) -> &Arc<ExchangeCounters> {
        &self.counters
    }

    /// How this worker is woken, by those who have no part in the exchange.
    pub(crate) fn sleeper(&self) -> &Arc<Sleeper> {
        &self.sleeper
    }

    /// Tells all other workers. They are woken, and hear it before any packet that is sent to them
    /// from now on.
    pub(crate) fn tell(&mut self, notice: Notice) {
        for (sender, sleeper) in &self.notify {
            // Before it is sent, so that nobody has heard more than was counted.
            sleeper.notices.fetch_add(1, Ordering::Release);
            // A worker that has ended need not know.
            let _ = sender.send(notice);
        }
        self.outbound.touch_all();
    }

    /// The next piece of news.
    pub(crate) fn next_notice(&mut self) -> Option<Notice> {
        let notice = self.notices.try_recv().ok();
        self.heard += u64::from(notice.is_some());
        notice
    }

    /// Messages of a kind that wait from a worker.
    #[inline]
    pub fn waiting(&self, from: usize, kind: PacketKind) -> usize {
        self.inbound[from].as_ref().map_or(0, |rings| rings[place(kind)].waiting())
    }

    /// Whether a ring with so many messages has hardly any room left.
    #[inline]
    pub(crate) fn is_nearly_full(&self, kind: PacketKind, waiting: usize) -> bool {
        waiting >= self.length(kind) / 8 * 7
    }

    /// Messages of a kind that wait in one ring at most.
    fn length(&self, kind: PacketKind) -> usize {
        match kind {
            PacketKind::Data | PacketKind::Interest => self.ring_length,
            PacketKind::Nack => nack_ring_length(self.ring_length),
        }
    }

    /// Whether another worker has to take some messages of these kinds before this one reads more
    /// packets: less than a quarter of a ring is free.
    pub(crate) fn is_crowded(&self, kinds: &[PacketKind]) -> bool {
        kinds.iter().any(|&kind| {
            let enough = self.length(kind) / 4;
            self.outbound.least_room(kind, enough) < enough
        })
    }

    /// Takes the message that waits longest.
    #[cfg(test)]
    pub(crate) fn take(&mut self, from: usize, kind: PacketKind) -> Option<Message> {
        let queued = self.inbound[from].as_mut()?[place(kind)].pop()?;
        self.counters.taken.increment();
        Some(queued.message)
    }

    /// Takes up to `count` messages, each shown to `take` where it lies. What is not moved out of a
    /// message is lost, and a packet with it: `take` has to have an answer for each. `pool` is this
    /// worker's.
    #[inline(always)]
    pub fn take_each(
        &mut self,
        from: usize,
        kind: PacketKind,
        count: usize,
        pool: &PacketPool,
        mut take: impl FnMut(&mut Message, Timestamp),
    ) -> usize {
        let Some(rings) = self.inbound[from].as_mut() else { return 0 };
        let taken = rings[place(kind)].drain(
            count,
            |queued| queued.message.prefetch(pool),
            |queued| take(&mut queued.message, queued.since),
        );
        self.counters.taken.add(taken as u64);
        taken
    }

    /// Whether there is anything to take, or to hear.
    pub(crate) fn has_waiting(&self) -> bool {
        if self.sleeper.notices.load(Ordering::Acquire) != self.heard {
            return true;
        }
        let mut rings = self.inbound.iter().flatten().flatten();
        rings.any(|ring| ring.waiting() > 0)
    }

    /// Gives up what waits, at the end of the worker.
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
mod tests;
