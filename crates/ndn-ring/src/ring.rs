//! A bounded queue from one thread to another.
//!
//! What is pushed lies in the ring at once, and is seen by the other side when it is
//! [published](Producer::publish): once for a burst, so that the line with the position travels
//! between the two processors once, not for each message. Both sides remember how far the other was
//! when they looked last, and look again only when that is not far enough.
//!
//! Messages are built in their slot and read there, since moving a message of two cache lines from
//! place to place costs more than all the rest.

use std::cell::Cell;
use std::mem::MaybeUninit;

use crate::prefetch::prefetch_write_at;
use crate::sync::{Arc, AtomicBool, AtomicUsize, Ordering, UnsafeCell};

/// Slots ahead of the one that is being written or read, that are fetched from the other processor's cache.
const AHEAD: usize = 8;
/// Messages ahead of the one that is being read, of which what they refer to is fetched. Fewer where loom tries
/// all orders, with few messages.
const PEEK_AHEAD: usize = if cfg!(loom) { 1 } else { 4 };
/// Bytes of a cache line.
const LINE: usize = 64;

/// A position that one side writes, on lines of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Position(AtomicUsize);

/// What both sides see. Positions count messages since the beginning, and wrap around.
#[derive(Debug)]
struct Shared<T> {
    /// Messages written and published. Written by the producer.
    tail: Position,
    /// Messages taken. Written by the consumer.
    head: Position,
    /// There is no consumer any more.
    closed: AtomicBool,
    capacity: usize,
    /// A power of two, so that a wrapped position finds its slot. Those from `head` to `tail` are
    /// initialised and the consumer's; the others are the producer's.
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
        &self.slots[position & (self.slots.len() - 1)]
    }

    /// Fetches a slot to be written: the consumer writes, too, when it takes a packet out of a message.
    #[inline(always)]
    fn prefetch(&self, position: usize) {
        let slot = self.slot(position);
        for line in (0..size_of::<T>()).step_by(LINE) {
            prefetch_write_at(slot, line);
        }
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // Both sides are gone, and the one that was the last has seen all that the other did.
        let tail = self.tail.0.load(Ordering::Acquire);
        let mut head = self.head.0.load(Ordering::Acquire);
        while head != tail {
            // SAFETY: what was published and not taken is initialised, and nobody else is here.
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
        Producer { shared: Arc::clone(&shared), tail: 0, published: 0, head: Cell::new(0) };
    (producer, Consumer { shared, head: 0, tail: Cell::new(0) })
}

/// The end of a ring that messages are put into.
#[derive(Debug)]
pub struct Producer<T> {
    shared: Arc<Shared<T>>,
    /// Messages written.
    tail: usize,
    /// Of those, messages that the consumer may see.
    published: usize,
    /// Messages that the consumer had taken when this side looked last.
    head: Cell<usize>,
}

impl<T> Producer<T> {
    /// Messages that the ring holds at most.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.shared.capacity
    }

    /// Messages that there is room for.
    #[must_use]
    pub fn room(&self) -> usize {
        // Acquire: the consumer has read the slots before it gave them back.
        self.head.set(self.shared.head.0.load(Ordering::Acquire));
        self.known_room()
    }

    /// Messages that there is room for, as far as `enough`: possibly more, if the answer is larger.
    /// Cheaper than [`room`](Self::room) as long as there is much.
    #[inline]
    #[must_use]
    pub fn room_up_to(&self, enough: usize) -> usize {
        let known = self.known_room();
        if known >= enough { known } else { self.room() }
    }

    #[inline]
    fn known_room(&self) -> usize {
        self.shared.capacity - self.tail.wrapping_sub(self.head.get())
    }

    /// Puts the message that `make` makes into the ring. False if there is no room, and then `make`
    /// is not called. The consumer sees it after the next [`publish`](Self::publish).
    #[inline(always)]
    pub fn push_with(&mut self, make: impl FnOnce() -> T) -> bool {
        if self.room_up_to(1) == 0 {
            return false;
        }
        // The consumer has read it one round before, or is about to: then it has to fetch it once more.
        self.shared.prefetch(self.tail.wrapping_add(AHEAD));
        // SAFETY: there is room, so the consumer has taken what was in this slot, or nothing ever was.
        // Only this side writes, and only here.
        self.shared.slot(self.tail).with_mut(|slot| unsafe {
            (*slot).write(make());
        });
        self.tail = self.tail.wrapping_add(1);
        true
    }

    /// Lets the consumer see what was pushed.
    #[inline]
    pub fn publish(&mut self) {
        if self.published != self.tail {
            // Release: what is in the slots comes before.
            self.shared.tail.0.store(self.tail, Ordering::Release);
            self.published = self.tail;
        }
    }

    /// Whether nobody takes anything any more.
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

/// The end of a ring that messages are taken from.
#[derive(Debug)]
pub struct Consumer<T> {
    shared: Arc<Shared<T>>,
    /// Messages taken.
    head: usize,
    /// Messages published when this side looked last.
    tail: Cell<usize>,
}

impl<T> Consumer<T> {
    /// Messages that wait.
    #[inline]
    #[must_use]
    pub fn waiting(&self) -> usize {
        // Acquire: the producer has written the slots before it published them.
        self.tail.set(self.shared.tail.0.load(Ordering::Acquire));
        self.tail.get().wrapping_sub(self.head)
    }

    /// Takes up to `count` messages: each is shown to `take`, which may move out of it what it can
    /// replace, and then dropped. Says how many there were. Their slots are free for the producer after
    /// the last of them.
    ///
    /// Each was shown to `peek` before, some messages earlier: it may fetch what the message refers to from
    /// the other processor's cache.
    #[inline(always)]
    pub fn drain(
        &mut self,
        count: usize,
        peek: impl Fn(&T),
        mut take: impl FnMut(&mut T),
    ) -> usize {
        let known = self.tail.get().wrapping_sub(self.head);
        let waiting = if known >= count { known } else { self.waiting() };
        let (first, count) = (self.head, count.min(waiting));
        if count == 0 {
            return 0;
        }
        let mut taken = Taken(self);
        for ahead in 0..count.min(AHEAD) {
            taken.0.shared.prefetch(first.wrapping_add(ahead));
        }
        for ahead in 0..count.min(PEEK_AHEAD) {
            taken.0.peek(first.wrapping_add(ahead), &peek);
        }
        for index in 0..count {
            let Taken(consumer) = &mut taken;
            let position = consumer.head;
            // Not what the producer may be writing.
            if index + AHEAD < count {
                consumer.shared.prefetch(position.wrapping_add(AHEAD));
            }
            if index + PEEK_AHEAD < count {
                consumer.peek(position.wrapping_add(PEEK_AHEAD), &peek);
            }
            consumer.shared.slot(position).with_mut(|slot| {
                // SAFETY: the slot lies between the two positions, so it is initialised and this side's
                // alone until `Taken` gives it back. If `take` panics, it still is.
                let message = unsafe { (*slot).assume_init_mut() };
                take(message);
                consumer.head = position.wrapping_add(1);
                // SAFETY: as above; the slot counts as taken, so nobody reads it again.
                unsafe { (*slot).assume_init_drop() };
            });
        }
        taken.0.head.wrapping_sub(first)
    }

    /// Takes the message that waits longest.
    pub fn pop(&mut self) -> Option<T> {
        if self.waiting() == 0 {
            return None;
        }
        let taken = Taken(self);
        let Taken(consumer) = &taken;
        // SAFETY: as in `drain`; the slot counts as taken from here on.
        let message = consumer
            .shared
            .slot(consumer.head)
            .with_mut(|slot| unsafe { (*slot).assume_init_read() });
        taken.0.head = taken.0.head.wrapping_add(1);
        Some(message)
    }

    /// Shows a message that waits.
    #[inline(always)]
    fn peek(&self, position: usize, peek: impl Fn(&T)) {
        self.shared.slot(position).with(|slot| {
            // SAFETY: the caller has seen that the slot lies between the two positions, so it is
            // initialised, and only this side uses it until it gives it back.
            peek(unsafe { (*slot).assume_init_ref() });
        });
    }
}

impl<T> Drop for Consumer<T> {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
    }
}

/// Gives back the slots of what was taken, at the end.
struct Taken<'a, T>(&'a mut Consumer<T>);

impl<T> Drop for Taken<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // Release: what was read from the slots comes before.
        self.0.shared.head.0.store(self.0.head, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
