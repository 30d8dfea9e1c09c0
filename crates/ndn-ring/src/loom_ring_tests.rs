//! What workers do with rings and sleep: push and wake on one side, pop and sleep on the other.
//!
//! The rings of the data plane are `rtrb`, which knows nothing of loom. Here is a model of one: the
//! same two positions with the same orderings (each side publishes its own with Release, and reads
//! the other's with Acquire), slots that loom watches for races.

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Notify};
use loom::thread;

use crate::SleepFlag;

/// A ring of one slot: full and empty come in turn, as often as they can.
struct Ring {
    head: AtomicUsize,
    tail: AtomicUsize,
    slot: UnsafeCell<u32>,
}

impl Ring {
    fn new() -> Self {
        Self { head: AtomicUsize::new(0), tail: AtomicUsize::new(0), slot: UnsafeCell::new(0) }
    }

    /// The producer's side; false if the ring is full.
    fn push(&self, message: u32) -> bool {
        let tail = self.tail.load(Ordering::Relaxed);
        if tail != self.head.load(Ordering::Acquire) {
            return false;
        }
        // SAFETY: the consumer has read the slot, or it was never written; loom checks.
        self.slot.with_mut(|slot| unsafe { *slot = message });
        self.tail.store(tail + 1, Ordering::Release);
        true
    }

    /// The consumer's side.
    fn pop(&self) -> Option<u32> {
        let head = self.head.load(Ordering::Relaxed);
        if head == self.tail.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: the producer has written the slot and does not before `head` moves; loom checks.
        let message = self.slot.with(|slot| unsafe { *slot });
        self.head.store(head + 1, Ordering::Release);
        Some(message)
    }

    fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed) == self.tail.load(Ordering::Acquire)
    }
}

/// A worker with a ring from each of the others.
struct Sleeper {
    rings: Vec<Ring>,
    flag: SleepFlag,
    waker: Notify,
    /// Messages that found no room.
    dropped: AtomicUsize,
}

impl Sleeper {
    fn new(rings: usize) -> Arc<Self> {
        Arc::new(Self {
            rings: (0..rings).map(|_| Ring::new()).collect(),
            flag: SleepFlag::new(),
            waker: Notify::new(),
            dropped: AtomicUsize::new(0),
        })
    }

    /// What a producer does with a burst: pushes all of it, and wakes once.
    fn send(&self, ring: usize, burst: std::ops::Range<u32>) {
        for message in burst {
            if !self.rings[ring].push(message) {
                self.dropped.fetch_add(1, Ordering::Release);
            }
        }
        if self.flag.take_wake() {
            self.waker.notify();
        }
    }

    /// What the worker does: takes all there is, then sleeps, until it has heard of `count`
    /// messages. If a wake-up is lost, nobody runs any more, and loom says so.
    fn take(&self, count: usize) -> Vec<Vec<u32>> {
        let mut taken: Vec<Vec<u32>> = self.rings.iter().map(|_| Vec::new()).collect();
        let is_done = |taken: &[Vec<u32>]| {
            let heard = taken.iter().map(Vec::len).sum::<usize>();
            heard + self.dropped.load(Ordering::Acquire) == count
        };
        while !is_done(&taken) {
            let mut found = false;
            for (ring, taken) in self.rings.iter().zip(&mut taken) {
                while let Some(message) = ring.pop() {
                    taken.push(message);
                    found = true;
                }
            }
            if !found {
                self.flag.prepare();
                if self.rings.iter().all(Ring::is_empty) && !is_done(&taken) {
                    self.waker.wait();
                }
                self.flag.awake();
            }
        }
        taken
    }
}

/// All interleavings in which no more threads than that are interrupted where they need not wait:
/// those of the whole protocol are too many.
fn bounded(preemptions: usize) -> loom::model::Builder {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder
}

#[test]
fn two_workers_push_and_wake_while_a_third_pops_and_sleeps() {
    bounded(2).check(|| {
        let sleeper = Sleeper::new(2);
        for ring in 0..2 {
            let sleeper = Arc::clone(&sleeper);
            thread::spawn(move || sleeper.send(ring, 7..8));
        }
        assert_eq!(sleeper.take(2), [[7], [7]]);
    });
}

#[test]
fn bursts_keep_their_order_and_what_has_no_room_is_dropped() {
    bounded(3).check(|| {
        let sleeper = Sleeper::new(1);
        let producer = {
            let sleeper = Arc::clone(&sleeper);
            thread::spawn(move || {
                sleeper.send(0, 0..2);
                sleeper.send(0, 2..3);
            })
        };
        let taken = sleeper.take(3);
        producer.join().expect("the producer");
        let [taken] = &taken[..] else { panic!("one ring") };
        assert_eq!(taken.first(), Some(&0), "the first one found room");
        assert!(taken.is_sorted(), "{taken:?}");
        assert_eq!(taken.len() + sleeper.dropped.load(Ordering::Acquire), 3);
    });
}
