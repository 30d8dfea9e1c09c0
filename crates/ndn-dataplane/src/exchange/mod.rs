//! The exchange between workers: packets in bounded rings, notices of faces in a queue.
//!
//! Between each two workers there are three rings each way: for Data, for Nacks and for Interests.
//! Data and Nacks are taken first, because dropping one wastes the work that was done for it.
//! A ring that is full drops and counts, but a worker reads no more while there is little room in it.
//! A sleeping worker is woken when the sender writes, for a burst or for messages that have waited for some
//! time, and for any message before the sender sleeps.

mod message;
mod outbound;
mod rings;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use ndn_forwarding::{FaceProperties, PacketKind};
use ndn_ring::{Consumer, PacketPool, Producer, SleepFlag, ring};
use ndn_sys::poll::Waker;
use ndn_table::{FaceIndex, Timestamp};

use message::Queued;
pub(crate) use message::TYPE_INTEREST;
pub use message::{Frame, Message, Outgoing};
pub(crate) use outbound::slot_stride;
pub use outbound::{Outbound, RoutedSink};
pub(crate) use rings::Sleeper;
pub use rings::{ExchangeCounters, KINDS, QueueDepth};
use rings::{Rings, nack_ring_length, ring_index, ring_length};

/// A notice of the worker of a face to all others, which precedes any packet of the face.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Notice {
    /// A face is new, or has new properties.
    Face(FaceIndex, FaceProperties),
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
                let rings = KINDS.map(|kind| match kind {
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

    /// How this worker is woken.
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

    /// Whether a ring with `waiting` messages has hardly any room left.
    #[inline]
    pub(crate) fn is_nearly_full(&self, kind: PacketKind, waiting: usize) -> bool {
        waiting >= self.length(kind) / 8 * 7
    }

    /// Capacity of a ring.
    fn length(&self, kind: PacketKind) -> usize {
        match kind {
            PacketKind::Data | PacketKind::Interest => self.ring_length,
            PacketKind::Nack => nack_ring_length(self.ring_length),
        }
    }

    /// Whether another worker has to take messages of these kinds before this one reads more
    /// packets: less than a quarter of a ring is free.
    pub(crate) fn is_crowded(&self, kinds: &[PacketKind]) -> bool {
        kinds.iter().any(|&kind| {
            let enough = self.length(kind) / 4;
            self.outbound.least_room(kind, enough) < enough
        })
    }

    /// Takes the oldest message.
    #[cfg(test)]
    pub(crate) fn take(&mut self, from: usize, kind: PacketKind) -> Option<Message> {
        let queued = self.inbound[from].as_mut()?[ring_index(kind)].pop()?;
        self.counters.taken.increment();
        Some(queued.message)
    }

    /// Takes up to `count` messages, and calls `take` with each in its slot. `take` must move the packet out of
    /// the message or release it. `pool` is this worker's. Returns the number taken.
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
        let taken = rings[ring_index(kind)].drain(
            count,
            |queued| queued.message.prefetch(pool),
            |queued| take(&mut queued.message, queued.since),
        );
        self.counters.taken.add(taken as u64);
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
mod tests;
