//! Both sides of a ring on plain memory, against a queue, and on two threads.
#![allow(clippy::cast_possible_truncation, reason = "small numbers")]

use std::collections::VecDeque;

use super::*;

/// A ring in memory of its own, freed when dropped.
struct Plain<T> {
    words: NonNull<[u32; 3]>,
    entries: NonNull<[T]>,
}

impl<T: Copy> Plain<T> {
    /// With both positions at `start`.
    fn new(start: u32, capacity: u32, filler: T) -> Self {
        let words = NonNull::from(Box::leak(Box::new([start, start, 0])));
        let entries = vec![filler; capacity as usize].into_boxed_slice();
        Self { words, entries: NonNull::from(Box::leak(entries)) }
    }

    fn memory(&self) -> RingMemory<T> {
        let words = self.words.cast::<u32>();
        // SAFETY: there are three words.
        let (consumer, flags) = unsafe { (words.add(1), words.add(2)) };
        let capacity = self.entries.len() as u32;
        RingMemory { producer: words, consumer, flags, entries: self.entries.cast(), capacity }
    }

    fn ends(&self) -> (Producer<T>, Consumer<T>) {
        // SAFETY: the memory is as it says, lasts as long as the test, and each end is made once.
        unsafe { (Producer::new(self.memory()), Consumer::new(self.memory())) }
    }
}

impl<T> Drop for Plain<T> {
    fn drop(&mut self) {
        // SAFETY: both were leaked by `new`, and the test is over.
        unsafe {
            drop(Box::from_raw(self.words.as_ptr()));
            drop(Box::from_raw(self.entries.as_ptr()));
        }
    }
}

#[test]
fn ring_behaves_like_a_bounded_queue() {
    let rounds = if cfg!(miri) { 400 } else { 50_000 };
    // Positions pass the largest number and begin again at 0.
    for (start, capacity) in [(0, 8), (u32::MAX - 50, 8), (u32::MAX, 1), (u32::MAX - 3, 64)] {
        let plain = Plain::new(start, capacity, 0_u64);
        let (mut producer, mut consumer) = plain.ends();
        // What is pushed, committed, and taken but not committed.
        let (mut pushed, mut visible) = (VecDeque::new(), VecDeque::new());
        let mut taken = 0;
        let mut state = 7_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        let mut passed = 0;
        for round in 0..rounds {
            match random(7) {
                0..=2 => {
                    let used = pushed.len() + visible.len() + taken;
                    let has_room = used < capacity as usize;
                    assert_eq!(producer.push(round), has_room);
                    if has_room {
                        pushed.push_back(round);
                    }
                }
                3 => {
                    producer.commit();
                    visible.append(&mut pushed);
                    assert_eq!(producer.pending() as usize, visible.len() + taken);
                }
                4 | 5 => {
                    let known = consumer.refresh() as usize;
                    assert!(known <= visible.len() && (known > 0 || visible.is_empty()));
                    for (index, expected) in visible.iter().take(known).enumerate() {
                        assert_eq!(consumer.entry(index as u32), Some(*expected));
                    }
                    assert_eq!(consumer.entry(known as u32), None);
                    consumer.advance();
                    if visible.pop_front().is_some() {
                        (taken, passed) = (taken + 1, passed + 1);
                    }
                }
                _ => {
                    consumer.commit();
                    taken = 0;
                }
            }
        }
        assert!(passed > rounds / 50, "{passed} of {rounds}");
    }
}

#[test]
fn two_threads_pass_entries_in_order() {
    let count: u32 = if cfg!(miri) { 300 } else { 200_000 };
    let filler = Descriptor { address: 0, length: 0, options: 0 };
    let plain = Plain::new(u32::MAX - 100, 16, filler);
    let (mut producer, mut consumer) = plain.ends();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for number in 0..count {
                let entry =
                    Descriptor { address: u64::from(number), length: number, options: !number };
                while !producer.push(entry) {
                    producer.commit();
                    std::thread::yield_now();
                }
                if number.is_multiple_of(5) {
                    producer.commit();
                }
            }
            producer.commit();
        });
        let mut expected = 0;
        while expected < count {
            if consumer.refresh() == 0 {
                consumer.commit();
                std::thread::yield_now();
                continue;
            }
            while let Some(entry) = consumer.entry(0) {
                let requested = (u64::from(expected), expected, !expected);
                assert_eq!((entry.address, entry.length, entry.options), requested);
                consumer.advance();
                expected += 1;
            }
        }
    });
}

#[test]
fn kernel_reports_that_it_sleeps() {
    let plain = Plain::new(0, 4, 0_u64);
    let (producer, _) = plain.ends();
    assert!(!producer.needs_wakeup());
    producer.memory.flags().store(NEED_WAKEUP, Ordering::Relaxed);
    assert!(producer.needs_wakeup());
}

#[test]
fn impossible_ring_position_is_ignored() {
    let plain = Plain::new(0, 4, 5_u64);
    let (_, mut consumer) = plain.ends();
    consumer.memory.producer().store(1000, Ordering::Release);
    assert_eq!(consumer.refresh(), 4);
    assert_eq!((consumer.entry(3), consumer.entry(4)), (Some(5), None));
}
