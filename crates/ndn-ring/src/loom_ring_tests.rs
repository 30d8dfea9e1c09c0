//! Worker operations on rings and sleep flags under loom: push, publish and wake on one side, drain
//! and sleep on the other.

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Notify};
use loom::thread;

use crate::{Consumer, Producer, SleepFlag, ring};

/// Reads a message before it is taken.
fn read(message: &u32) {
    std::hint::black_box(*message);
}

/// The consuming worker, as its producers see it.
struct Sleeper {
    flag: SleepFlag,
    waker: Notify,
    /// Messages dropped because a ring was full.
    dropped: AtomicUsize,
}

impl Sleeper {
    fn new() -> Arc<Self> {
        let (flag, waker) = (SleepFlag::new(), Notify::new());
        Arc::new(Self { flag, waker, dropped: AtomicUsize::new(0) })
    }

    /// A producer's burst: pushes and publishes all of it, and wakes once.
    fn send(&self, producer: &mut Producer<u32>, burst: std::ops::Range<u32>) {
        for message in burst {
            if !producer.push_with(|| message) {
                self.dropped.fetch_add(1, Ordering::Release);
            }
        }
        producer.publish();
        if self.flag.take_wake() {
            self.waker.notify();
        }
    }

    /// The consuming worker: drains all messages, then sleeps, until `count` messages are accounted
    /// for. A lost wake-up leaves no thread runnable, which loom reports.
    fn take(&self, rings: &mut [Consumer<u32>], count: usize) -> Vec<Vec<u32>> {
        let mut taken: Vec<Vec<u32>> = rings.iter().map(|_| Vec::new()).collect();
        let is_done = |taken: &[Vec<u32>]| {
            let received = taken.iter().map(Vec::len).sum::<usize>();
            received + self.dropped.load(Ordering::Acquire) == count
        };
        while !is_done(&taken) {
            let mut found = 0;
            for (ring, taken) in rings.iter_mut().zip(&mut taken) {
                found += ring.drain(2, read, |message| taken.push(*message));
            }
            if found == 0 {
                self.flag.prepare();
                if rings.iter().all(|ring| ring.waiting() == 0) && !is_done(&taken) {
                    self.waker.wait();
                }
                self.flag.awake();
            }
        }
        taken
    }
}

/// All interleavings with at most this many preemptions: those of the whole protocol are too many.
fn bounded(preemptions: usize) -> loom::model::Builder {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder
}

#[test]
fn each_message_is_taken_once_and_each_slot_has_one_owner() {
    loom::model(|| {
        let (mut producer, mut consumer) = ring(1);
        let pushing = thread::spawn(move || {
            let pushed = producer.push_with(|| 1_u32);
            assert!(pushed);
            producer.publish();
            producer.push_with(|| 2)
        });
        let mut taken = Vec::new();
        consumer.drain(1, read, |message| taken.push(*message));
        let second = pushing.join().expect("the producer");
        // The producer publishes the rest when it is dropped.
        consumer.drain(2, read, |message| taken.push(*message));
        assert_eq!(taken, if second { vec![1, 2] } else { vec![1] });
        assert_eq!(consumer.waiting(), 0);
    });
}

#[test]
fn last_dropped_end_drops_the_remaining_messages() {
    loom::model(|| {
        let owners = std::sync::Arc::new(());
        let (mut producer, mut consumer) = ring(2);
        let message = std::sync::Arc::clone(&owners);
        let pushing = thread::spawn(move || {
            let pushed = producer.push_with(|| message);
            assert!(pushed);
        });
        consumer.drain(1, |_| (), |_| ());
        drop(consumer);
        pushing.join().expect("the producer");
        assert_eq!(std::sync::Arc::strong_count(&owners), 1);
    });
}

#[test]
fn two_producers_wake_one_sleeping_consumer() {
    bounded(2).check(|| {
        let sleeper = Sleeper::new();
        let mut rings = Vec::new();
        for _ in 0..2 {
            let (mut producer, consumer) = ring(1);
            rings.push(consumer);
            let sleeper = Arc::clone(&sleeper);
            thread::spawn(move || sleeper.send(&mut producer, 7..8));
        }
        assert_eq!(sleeper.take(&mut rings, 2), [[7], [7]]);
    });
}

#[test]
fn bursts_keep_order_and_excess_messages_are_dropped() {
    bounded(3).check(|| {
        let sleeper = Sleeper::new();
        let (mut producer, consumer) = ring(1);
        let pushing = {
            let sleeper = Arc::clone(&sleeper);
            thread::spawn(move || {
                sleeper.send(&mut producer, 0..2);
                sleeper.send(&mut producer, 2..3);
            })
        };
        let taken = sleeper.take(&mut [consumer], 3);
        pushing.join().expect("the producer");
        let [taken] = &taken[..] else { panic!("one ring") };
        assert_eq!(taken.first(), Some(&0), "the first one found room");
        assert!(taken.is_sorted(), "{taken:?}");
        assert_eq!(taken.len() + sleeper.dropped.load(Ordering::Acquire), 3);
    });
}
