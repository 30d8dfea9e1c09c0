//! Which thread runs which worker.
//!
//! Each worker has a thread of its own. Where one thread does for all, the first one's runs all of them and
//! the others sleep: a packet that crosses between two workers of one thread wakes nobody and stays in the
//! cache of one processor. Workers notice nothing of it but that somebody else waits for them.
//!
//! A worker belongs to the thread that runs it, wherever that is. It is sent on by that thread between two
//! rounds, by a queue, so that no two threads ever touch it.

mod host;
mod mailbox;
mod policy;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use crate::exchange::Sleeper;
use crate::worker::Worker;

pub(crate) use host::Host;
use mailbox::Mail;
pub(crate) use mailbox::Mailbox;
pub(crate) use policy::{Load, Policy};

/// A worker, wherever it runs.
#[derive(Debug)]
pub(crate) struct Hosted {
    pub(crate) worker: Worker,
    /// Behind the worker, since fields are dropped in order.
    ticket: Ticket,
}

impl Hosted {
    pub(crate) fn new(worker: Worker, number: usize, threads: &Arc<Threads>) -> Box<Self> {
        let ticket = Ticket { number, threads: Arc::clone(threads) };
        Box::new(Self { worker, ticket })
    }

    /// Number of the worker, and of its own thread.
    pub(crate) fn number(&self) -> usize {
        self.ticket.number
    }

    /// Ends the worker in an orderly way.
    fn finish(self) {
        self.worker.finish();
    }
}

/// Tells the thread of a worker when that is gone, also by a panic of whoever ran it.
#[derive(Debug)]
struct Ticket {
    number: usize,
    threads: Arc<Threads>,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // If the thread has ended before, it need not know.
        let _ = self.threads.send(self.number, Mail::End);
    }
}

/// The threads, as all of them and the control thread see them.
#[derive(Debug)]
pub(crate) struct Threads {
    seats: Box<[Seat]>,
    /// Workers cannot be waited for together.
    cannot_share: AtomicBool,
}

/// One thread, and the worker that it was started for. Nothing of it changes on the packet path.
#[derive(Debug)]
#[repr(align(128))]
struct Seat {
    /// The thread that is to run the worker.
    wanted: AtomicUsize,
    mailbox: Arc<Mailbox>,
    /// The kernel's number of the thread; 0 before it runs.
    thread_id: AtomicU32,
    /// Of the worker; none of a single one.
    sleeper: Option<Arc<Sleeper>>,
}

impl Threads {
    /// As many threads as there are sleepers, each with its worker.
    pub(crate) fn new(sleepers: Vec<Option<Arc<Sleeper>>>) -> Arc<Self> {
        let seats = (0..).zip(sleepers).map(|(number, sleeper)| {
            let (wanted, thread_id) = (AtomicUsize::new(number), AtomicU32::new(0));
            Seat { wanted, mailbox: Arc::default(), thread_id, sleeper }
        });
        Arc::new(Self { seats: seats.collect(), cannot_share: AtomicBool::new(false) })
    }

    /// Has all workers run by the thread of the first one, or each by its own.
    pub(crate) fn gather(&self, are_together: bool) {
        let are_together = are_together && !self.cannot_share.load(Ordering::Relaxed);
        for (number, seat) in self.seats.iter().enumerate() {
            seat.wanted.store(if are_together { 0 } else { number }, Ordering::Release);
            // Whichever thread sleeps in its stead.
            seat.wake();
        }
    }

    /// Has each worker run by its own thread, and never again all by one.
    pub(crate) fn never_gather(&self) {
        self.cannot_share.store(true, Ordering::Relaxed);
        self.gather(false);
    }

    /// The kernel's numbers of the threads.
    pub(crate) fn thread_ids(&self) -> impl Iterator<Item = u32> + '_ {
        let ids = self.seats.iter().map(|seat| seat.thread_id.load(Ordering::Acquire));
        ids.filter(|id| *id != 0)
    }

    /// The thread that is to run a worker.
    #[inline]
    fn wanted(&self, worker: usize) -> usize {
        self.seats[worker].wanted.load(Ordering::Acquire)
    }

    /// Sends mail to a thread. It comes back if that thread has ended.
    fn send(&self, thread: usize, mail: Mail) -> Result<(), Mail> {
        let seat = &self.seats[thread];
        seat.mailbox.put(mail)?;
        seat.wake();
        Ok(())
    }
}

impl Seat {
    fn wake(&self) {
        if let Some(sleeper) = &self.sleeper {
            sleeper.waker.wake();
        }
    }
}
