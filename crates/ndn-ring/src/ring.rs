//! A bounded single-producer, single-consumer ring.
//!
//! A pushed message is in the ring at once, and becomes visible to the consumer when it is
//! [published](Producer::publish): once per burst, so that the line with the position moves between
//! the processors once per burst, not per message. Each side caches the other's position and reads
//! it again only when the cached one is not sufficient.
//!
//! Messages are constructed and read in their slot, because moving a message of two cache lines
//! costs more than everything else.

use std::cell::Cell;
use std::mem::MaybeUninit;

use crate::prefetch::prefetch_write;
use crate::sync::{Arc, AtomicBool, AtomicUsize, Ordering, UnsafeCell};

/// Prefetch distance, in slots, ahead of the one being written or read.
const AHEAD: usize = 8;
/// Distance, in messages, at which the memory that a message refers to is prefetched. Smaller under
/// loom, which tries all orders of few messages.
const PEEK_AHEAD: usize = if cfg!(loom) { 1 } else { 4 };
/// Bytes of a cache line.
const LINE: usize = 64;

/// A position written by one side, on its own cache lines.
#[derive(Debug)]
#[repr(align(128))]
struct Position(AtomicUsize);

/// State shared by both sides. Positions count messages from the beginning, and wrap around.
#[derive(Debug)]
struct Shared<T> {
    /// Number of messages published. Written by the producer.
    tail: Position,
    /// Number of messages taken. Written by the consumer.
    head: Position,
    /// One side has been dropped.
    closed: AtomicBool,
    capacity: usize,
    /// Length is a power of two, so that wrapped positions map to slots. Slots from `head` to
    /// `tail` are initialised and belong to the consumer; the others belong to the producer.
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
}

// SAFETY: a slot is used by one side at a time: by the producer until it publishes the slot with
// Release, by the consumer, which has seen that with Acquire, until it gives the slot back with
// Release, which the producer sees with Acquire before it writes again. So messages move from thread
// to thread, which `T: Send` allows.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Shared<T> {
    #[inline(always)]
    fn slot(&self, position: usize) -> &UnsafeCell<MaybeUninit<T>> {
        let index = position & (self.slots.len() - 1);
        // SAFETY: the length is a power of two, see `ring`, so the index is below it. For speed: the test of an index is
        // two of about twenty instructions of a push; `scripts/count-instructions` shows it.
        unsafe { self.slots.get_unchecked(index) }
    }
}

/// Prefetches a slot for writing: the consumer writes, too, when it takes a packet out of a message.
#[inline(always)]
fn prefetch_slot<S>(slot: *const S) {
    prefetch_write::<LINE>(slot.cast(), size_of::<S>());
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // The side dropped last has synchronized with the other.
        let tail = self.tail.0.load(Ordering::Acquire);
        let mut head = self.head.0.load(Ordering::Acquire);
        while head != tail {
            // SAFETY: messages published and not taken are initialised, and both sides have been dropped.
            self.slot(head).with_mut(|slot| unsafe { (*slot).assume_init_drop() });
            head = head.wrapping_add(1);
        }
    }
}

/// A ring for up to `capacity` messages.
///
/// # Panics
/// If `capacity` is 0.
#[must_use]
pub fn ring<T>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    assert!(capacity > 0, "a ring has room for something");
    let slots = (0..capacity.next_power_of_two()).map(|_| UnsafeCell::new(MaybeUninit::uninit()));
    let shared = Arc::new(Shared {
        tail: Position(AtomicUsize::new(0)),
        head: Position(AtomicUsize::new(0)),
        closed: AtomicBool::new(false),
        capacity,
        slots: slots.collect(),
    });
    let producer =
        Producer { shared: Arc::clone(&shared), tail: 0, published: 0, end: Cell::new(capacity) };
    (producer, Consumer { shared, head: 0, tail: Cell::new(0) })
}

/// The producing end of a ring.
#[derive(Debug)]
pub struct Producer<T> {
    shared: Arc<Shared<T>>,
    /// Number of messages written.
    tail: usize,
    /// Number of messages published.
    published: usize,
    /// The position at which the ring is full: the consumer's when it was last read, and the capacity.
    end: Cell<usize>,
}

impl<T> Producer<T> {
    /// Capacity of the ring, in messages.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.shared.capacity
    }

    /// Number of free slots.
    #[must_use]
    pub fn room(&self) -> usize {
        // Acquire: the consumer has read the slots before it released them.
        let head = self.shared.head.0.load(Ordering::Acquire);
        self.end.set(head.wrapping_add(self.shared.capacity));
        self.known_room()
    }

    /// Number of free slots, exact only up to `enough`: possibly more, if the result is larger.
    /// Cheaper than [`room`](Self::room) while many slots are free.
    #[inline]
    #[must_use]
    pub fn room_up_to(&self, enough: usize) -> usize {
        let known = self.known_room();
        if known >= enough { known } else { self.room() }
    }

    #[inline]
    fn known_room(&self) -> usize {
        self.end.get().wrapping_sub(self.tail)
    }

    /// Writes the message returned by `make` to the ring. Returns false if the ring is full; `make`
    /// is not called then. The consumer sees the message after the next [`publish`](Self::publish).
    #[inline(always)]
    pub fn push_with(&mut self, make: impl FnOnce() -> T) -> bool {
        self.push_leaving(0, make)
    }

    /// The same, but the last `reserve` free slots count as taken.
    #[inline(always)]
    pub fn push_leaving(&mut self, reserve: usize, make: impl FnOnce() -> T) -> bool {
        let Some(slot) = self.free_slot(reserve) else { return false };
        slot.write(make());
        true
    }

    /// The next free slot, if there is one beside the last `reserve`.
    #[inline(always)]
    pub fn free_slot(&mut self, reserve: usize) -> Option<FreeSlot<'_, T>> {
        if self.known_room() <= reserve && self.room() <= reserve {
            return None;
        }
        let slot = self.shared.slot(self.tail);
        // The consumer has read it one round before, or is about to, which costs it another fetch. The first slots of a round are
        // not prefetched: what lies behind the last ones is, a hint without effect.
        prefetch_slot(std::ptr::from_ref(slot).wrapping_add(AHEAD));
        Some(FreeSlot { slot, tail: &mut self.tail })
    }

    /// Makes all pushed messages visible to the consumer; returns how many were not before.
    #[inline]
    pub fn publish(&mut self) -> usize {
        let count = self.tail.wrapping_sub(self.published);
        if count > 0 {
            // Release: the writes to the slots come before.
            self.shared.tail.0.store(self.tail, Ordering::Release);
            self.published = self.tail;
        }
        count
    }

    /// Whether the consumer has been dropped.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.closed.load(Ordering::Acquire)
    }
}

impl<T> Drop for Producer<T> {
    fn drop(&mut self) {
        self.publish();
    }
}

/// A slot for the next message of a ring. Nothing changes if it is dropped.
#[derive(Debug)]
pub struct FreeSlot<'a, T> {
    slot: &'a UnsafeCell<MaybeUninit<T>>,
    tail: &'a mut usize,
}

impl<T> FreeSlot<'_, T> {
    /// Writes the message. The consumer sees it after the next [`publish`](Producer::publish).
    #[inline(always)]
    pub fn write(self, message: T) {
        // SAFETY: there is room, so the consumer has taken what was in this slot, or nothing ever was. Only this side
        // writes, and only here: `free_slot` borrows the producer.
        self.slot.with_mut(|slot| unsafe {
            (*slot).write(message);
        });
        *self.tail = self.tail.wrapping_add(1);
    }
}

/// The consuming end of a ring.
#[derive(Debug)]
pub struct Consumer<T> {
    shared: Arc<Shared<T>>,
    /// Number of messages taken.
    head: usize,
    /// The producer's position when it was last read.
    tail: Cell<usize>,
}

impl<T> Consumer<T> {
    /// Number of messages in the ring.
    #[inline]
    #[must_use]
    pub fn waiting(&self) -> usize {
        // Acquire: the producer has written the slots before it published them.
        self.tail.set(self.shared.tail.0.load(Ordering::Acquire));
        self.tail.get().wrapping_sub(self.head)
    }

    /// Takes up to `count` messages: calls `take` for each, which may move parts out of it, and
    /// then drops it. Returns the number taken. The slots become free for the producer after the
    /// last message.
    ///
    /// `peek` is called for each message some messages earlier: it may prefetch what the message
    /// refers to.
    #[inline(always)]
    pub fn drain(
        &mut self,
        count: usize,
        peek: impl Fn(&T),
        mut take: impl FnMut(&mut T),
    ) -> usize {
        let known = self.tail.get().wrapping_sub(self.head);
        let waiting = if known >= count { known } else { self.waiting() };
        let count = count.min(waiting);
        if count == 0 {
            return 0;
        }
        let (before, after) = self.shared.slots.split_at(self.head & (self.shared.slots.len() - 1));
        // The messages lie in one run of slots, or go on at the first slot.
        let in_first = count.min(after.len());
        let mut taken =
            Taken { head: self.head, of: &mut self.head, released: &self.shared.head.0 };
        for run in [&after[..in_first], &before[..count - in_first]] {
            run.iter().take(AHEAD).for_each(|slot| prefetch_slot(slot));
            // SAFETY: the slots of a run lie between the two positions; none was taken yet.
            run.iter().take(PEEK_AHEAD).for_each(|slot| unsafe { peek_at(slot, &peek) });
            let (mut next, mut left) = (run.as_ptr(), run.len());
            while left > 0 {
                // Not a slot that the producer may be writing.
                if left > AHEAD {
                    prefetch_slot(next.wrapping_add(AHEAD));
                }
                if left > PEEK_AHEAD {
                    // SAFETY: `left` slots of the run begin at `next`, which are not taken yet; and as above.
                    unsafe { peek_at(&*next.add(PEEK_AHEAD), &peek) };
                }
                // SAFETY: the run has `left` more slots.
                let slot = unsafe { &*next };
                next = next.wrapping_add(1);
                left -= 1;
                slot.with_mut(|slot| {
                    // SAFETY: the slot lies between the two positions, so it is initialised and this side's
                    // alone until `Taken` gives it back. If `take` panics, it still is.
                    let message = unsafe { (*slot).assume_init_mut() };
                    take(message);
                    taken.head = taken.head.wrapping_add(1);
                    // SAFETY: as above; the slot counts as taken, so nobody reads it again.
                    unsafe { (*slot).assume_init_drop() };
                });
            }
        }
        count
    }

    /// Takes the oldest message.
    pub fn pop(&mut self) -> Option<T> {
        // The producer's position is read again only where all known messages are taken.
        if self.tail.get() == self.head && self.waiting() == 0 {
            return None;
        }
        // SAFETY: as in `drain`; the slot counts as taken from here on.
        let message =
            self.shared.slot(self.head).with_mut(|slot| unsafe { (*slot).assume_init_read() });
        self.head = self.head.wrapping_add(1);
        // Release: the read of the slot comes before.
        self.shared.head.0.store(self.head, Ordering::Release);
        Some(message)
    }
}

/// Calls `peek` for the message in a slot.
///
/// # Safety
/// The slot lies between the two positions, this is the consumer, and it has not taken the message.
#[inline(always)]
unsafe fn peek_at<T>(slot: &UnsafeCell<MaybeUninit<T>>, peek: impl Fn(&T)) {
    slot.with(|slot| {
        // SAFETY: the slot is initialised, and only this side uses it until it gives it back.
        peek(unsafe { (*slot).assume_init_ref() });
    });
}

impl<T> Drop for Consumer<T> {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
    }
}

/// On drop, releases the slots of the messages taken.
struct Taken<'a> {
    /// Number of messages taken.
    head: usize,
    /// The number that the consumer remembers.
    of: &'a mut usize,
    released: &'a AtomicUsize,
}

impl Drop for Taken<'_> {
    #[inline]
    fn drop(&mut self) {
        *self.of = self.head;
        // Release: the reads of the slots come before.
        self.released.store(self.head, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::cell::RefCell;
    use std::collections::VecDeque;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Operation {
        Push,
        Publish,
        Pop,
        Drain(usize),
    }

    fn operation() -> impl Strategy<Value = Operation> {
        prop_oneof![
            6 => Just(Operation::Push),
            2 => Just(Operation::Publish),
            2 => Just(Operation::Pop),
            1 => (0..2 * AHEAD).prop_map(Operation::Drain),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            ..ProptestConfig::with_cases(if cfg!(miri) { 8 } else { 256 })
        })]
        /// Messages own memory, so that Miri and the reference count detect a message dropped twice or
        /// never.
        #[test]
        fn ring_behaves_like_a_bounded_queue(
            capacity in 1..3 * AHEAD,
            operations in proptest::collection::vec(operation(), 0..if cfg!(miri) { 80 } else { 400 }),
        ) {
            let owners = Arc::new(());
            let (mut producer, mut consumer) = ring(capacity);
            let (mut written, mut seen) = (VecDeque::new(), VecDeque::new());
            let mut next = 0;
            for operation in operations {
                match operation {
                    Operation::Push => {
                        let fits = written.len() + seen.len() < capacity;
                        let owner = Arc::clone(&owners);
                        prop_assert_eq!(producer.push_with(|| (Box::new(next), owner)), fits);
                        if fits {
                            written.push_back(next);
                        }
                        next += 1;
                    }
                    Operation::Publish => {
                        producer.publish();
                        seen.append(&mut written);
                    }
                    Operation::Pop => {
                        prop_assert_eq!(consumer.pop().map(|(number, _)| *number), seen.pop_front());
                    }
                    Operation::Drain(count) => {
                        let (mut taken, peeked) = (Vec::new(), RefCell::new(Vec::new()));
                        let drained = consumer.drain(
                            count,
                            |(number, _)| peeked.borrow_mut().push(**number),
                            |(number, _)| {
                                assert!(peeked.borrow().contains(&**number), "taken before it was shown");
                                taken.push(**number);
                            },
                        );
                        let expected: Vec<i32> = seen.drain(..count.min(seen.len())).collect();
                        prop_assert_eq!(drained, expected.len());
                        prop_assert_eq!(&taken, &expected);
                        prop_assert_eq!(peeked.into_inner(), expected, "each is shown once");
                    }
                }
                prop_assert_eq!(consumer.waiting(), seen.len());
                let room = capacity - written.len() - seen.len();
                prop_assert!(producer.room_up_to(1).min(1) == room.min(1));
                prop_assert_eq!(producer.room(), room);
                prop_assert_eq!(Arc::strong_count(&owners) - 1, written.len() + seen.len());
            }
            drop((producer, consumer));
            prop_assert_eq!(Arc::strong_count(&owners), 1, "all were dropped, once");
        }
    }

    #[test]
    fn positions_wrap_around() {
        let (mut producer, mut consumer) = ring(3);
        // As after 2^64 messages.
        let late = usize::MAX - 4;
        producer.shared.tail.0.store(late, Ordering::Relaxed);
        producer.shared.head.0.store(late, Ordering::Relaxed);
        (producer.tail, producer.published) = (late, late);
        producer.end.set(late.wrapping_add(3));
        consumer.head = late;
        consumer.tail.set(late);
        for number in 0..20 {
            for part in 0..3 {
                assert!(producer.push_with(|| 3 * number + part));
            }
            assert!(!producer.push_with(|| unreachable!("there is no room")));
            producer.publish();
            let mut taken = Vec::new();
            assert_eq!(consumer.drain(4, |_| (), |message| taken.push(*message)), 3);
            assert_eq!(taken, [3 * number, 3 * number + 1, 3 * number + 2]);
        }
    }

    #[test]
    fn reserve_counts_as_taken() {
        let (mut producer, mut consumer) = ring(4);
        for number in 0..4 {
            assert_eq!(producer.push_leaving(2, || number), number < 2);
        }
        assert!(!producer.push_leaving(usize::MAX, || 9));
        assert!(producer.push_with(|| 2) && producer.push_with(|| 3) && !producer.push_with(|| 4));
        producer.publish();
        assert_eq!((consumer.pop(), consumer.pop()), (Some(0), Some(1)));
        assert!(!producer.push_leaving(2, || 4), "two are free");
        assert_eq!(consumer.pop(), Some(2));
        assert!(producer.push_leaving(2, || 4));
    }

    #[test]
    fn messages_are_dropped_once_if_the_consumer_panics() {
        let owners = Arc::new(());
        let (mut producer, mut consumer) = ring(4);
        for number in 0..4 {
            assert!(producer.push_with(|| (number, Arc::clone(&owners))));
        }
        producer.publish();
        let result = catch_unwind(AssertUnwindSafe(|| {
            consumer.drain(4, |_| (), |(number, _)| assert!(*number < 2, "the third"));
        }));
        assert!(result.is_err());
        assert_eq!(Arc::strong_count(&owners), 3, "two are left");
        assert_eq!(consumer.pop().unwrap().0, 2);
        drop((producer, consumer));
        assert_eq!(Arc::strong_count(&owners), 1);
    }

    #[test]
    fn producer_detects_a_dropped_consumer() {
        let (producer, consumer) = ring::<u32>(4);
        assert!(!producer.is_closed());
        drop(consumer);
        assert!(producer.is_closed());
    }

    #[test]
    fn messages_cross_between_threads_in_order() {
        const COUNT: u32 = if cfg!(miri) { 200 } else { 200_000 };
        let (mut producer, mut consumer) = ring(7);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for number in 0..COUNT {
                    while !producer.push_with(|| Box::new(number)) {
                        producer.publish();
                        std::thread::yield_now();
                    }
                    if number % 3 == 0 {
                        producer.publish();
                    }
                }
            });
            let mut next = 0;
            while next < COUNT {
                let taken = consumer.drain(
                    5,
                    |_| (),
                    |number| {
                        assert_eq!(**number, next);
                        next += 1;
                    },
                );
                if taken == 0 {
                    std::thread::yield_now();
                }
            }
        });
    }
}
