//! The loop of a thread that runs workers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ndn_sys::clock;
use ndn_sys::poll::{Events, Interest, Poller};
use ndn_table::Timestamp;

use super::{Hosted, Mail, Mailbox, Threads};
use crate::worker::EVENTS_PER_ROUND;

/// How often the kernel is asked while the thread polls.
const KERNEL_PAUSE: Duration = Duration::from_micros(2);

/// A thread, and the workers that it runs.
#[derive(Debug)]
pub(crate) struct Host {
    /// Its number: that of the worker that it was started for.
    own: usize,
    threads: Arc<Threads>,
    mailbox: Arc<Mailbox>,
    hosted: VecDeque<Box<Hosted>>,
    /// The worker that it was started for has ended.
    has_ended: bool,
}

impl Drop for Host {
    fn drop(&mut self) {
        // Also by a panic: workers on their way here end, too, and their threads hear of it.
        drop(self.mailbox.shut());
    }
}

impl Host {
    /// The thread of a worker, which it runs at first.
    pub(crate) fn new(worker: Box<Hosted>, threads: &Arc<Threads>) -> Self {
        let own = worker.number();
        let mailbox = Arc::clone(&threads.seats[own].mailbox);
        let (threads, hosted) = (Arc::clone(threads), VecDeque::new());
        let mut host = Self { own, threads, mailbox, hosted, has_ended: false };
        host.take(Mail::Worker(worker));
        host
    }

    /// Runs workers until its own has ended, and all others that it has.
    pub(crate) fn run(mut self) {
        let seat = &self.threads.seats[self.own];
        let seats = self.threads.seats.iter();
        // By worker. They stay where they were asked for: sockets that are ready are told of again.
        let mut events: Vec<Events> =
            seats.map(|_| Events::with_capacity(EVENTS_PER_ROUND)).collect();
        seat.thread_id.store(ndn_sys::cpu::thread_id(), Ordering::Release);
        loop {
            self.take_mail();
            self.send_away();
            match self.hosted.len() {
                0 if self.has_ended => {
                    if self.mailbox.close() {
                        return;
                    }
                }
                0 => self.mailbox.wait(),
                1 => self.run_one(&mut events),
                _ => {
                    if let Err(error) = self.run_several(&mut events) {
                        tracing::error!(%error, "cannot wait for several workers at once");
                        self.threads.never_gather();
                    }
                }
            }
        }
    }

    /// Whether a worker has come, or one of its own is to go.
    #[inline]
    fn has_news(&self) -> bool {
        let Self { own, threads, mailbox, hosted, .. } = self;
        mailbox.has_mail() || hosted.iter().any(|one| threads.wanted(one.number()) != *own)
    }

    fn take_mail(&mut self) {
        while self.mailbox.has_mail()
            && let Some(mail) = self.mailbox.take()
        {
            self.take(mail);
        }
    }

    fn take(&mut self, mail: Mail) {
        match mail {
            Mail::Worker(mut hosted) => {
                hosted.worker.counters.thread.set(self.own as u64);
                hosted.worker.mailbox = Some(Arc::clone(&self.mailbox));
                self.hosted.push_back(hosted);
            }
            Mail::End => self.has_ended = true,
        }
    }

    /// Sends the workers on that are to run elsewhere.
    fn send_away(&mut self) {
        for _ in 0..self.hosted.len() {
            let Some(hosted) = self.hosted.pop_front() else { return };
            let number = hosted.number();
            let to = self.threads.wanted(number);
            if to == self.own {
                self.hosted.push_back(hosted);
                continue;
            }
            if let Err(Mail::Worker(hosted)) = self.threads.send(to, Mail::Worker(hosted)) {
                // That thread has ended. What was wanted since then is looked at again.
                let wanted = &self.threads.seats[number].wanted;
                let _ = wanted.compare_exchange(to, self.own, Ordering::AcqRel, Ordering::Acquire);
                self.hosted.push_back(hosted);
            }
        }
    }

    /// Runs the only worker until there is news.
    fn run_one(&mut self, events: &mut [Events]) {
        let Some(events) = self.hosted.front().and_then(|one| events.get_mut(one.number())) else {
            return;
        };
        events.clear();
        while !self.has_news() {
            let Some(hosted) = self.hosted.front_mut() else { return };
            hosted.worker.round(events);
            // Those that it has let in while it waited for them.
            let come = std::mem::take(&mut hosted.worker.partners);
            let is_stopping = hosted.worker.is_stopping();
            come.into_iter().for_each(|hosted| self.take(Mail::Worker(hosted)));
            if is_stopping {
                self.hosted.pop_front().into_iter().for_each(|hosted| hosted.finish());
            }
            if is_stopping || self.hosted.len() > 1 {
                return;
            }
        }
    }

    /// Runs several workers in turn until there is news.
    fn run_several(&mut self, events: &mut [Events]) -> std::io::Result<()> {
        events.iter_mut().for_each(Events::clear);
        let poller = Poller::new()?;
        for hosted in &self.hosted {
            let token = hosted.number() as u64;
            poller.add(hosted.worker.faces.poller(), token, Interest::Readable)?;
        }
        let now = Timestamp::from_nanos(clock::now());
        self.hosted.iter_mut().for_each(|one| one.worker.begin_pause(now));
        let mut ready = Events::with_capacity(self.hosted.len());
        let numbers = self.numbers();
        // Some end, and others are let in by one that waits for them.
        while !self.has_news() && self.numbers() == numbers {
            self.wait(&poller, &mut ready, events)?;
            self.pass(&ready, events);
        }
        let now = Timestamp::from_nanos(clock::now());
        self.hosted.iter().for_each(|one| one.worker.end_pause(now));
        Ok(())
    }

    /// The workers that it has, a bit each.
    fn numbers(&self) -> u64 {
        self.hosted.iter().fold(0, |set, one| set | 1 << one.number())
    }

    /// A round of each worker that has something to do.
    fn pass(&mut self, ready: &Events, events: &mut [Events]) {
        for _ in 0..self.hosted.len() {
            let now = Timestamp::from_nanos(clock::now());
            let Some(mut hosted) = self.hosted.pop_front() else { return };
            let Hosted { worker, ticket } = &mut *hosted;
            let events = &mut events[ticket.number];
            let is_ready = ready.iter().any(|event| event.token == ticket.number as u64);
            if is_ready || worker.has_work(now, events.len()) {
                std::mem::swap(&mut worker.partners, &mut self.hosted);
                worker.shared_round(events, is_ready);
                std::mem::swap(&mut worker.partners, &mut self.hosted);
            }
            if worker.is_stopping() {
                hosted.finish();
            } else {
                self.hosted.push_back(hosted);
            }
        }
    }

    /// Waits until one of the workers has something to do.
    fn wait(
        &mut self,
        poller: &Poller,
        ready: &mut Events,
        events: &[Events],
    ) -> std::io::Result<()> {
        let now = Timestamp::from_nanos(clock::now());
        if self.timeout(now) == Some(Duration::ZERO) || self.has_crossings() {
            return self.poll(now, poller, ready, events);
        }
        let mut has_waiting = false;
        for hosted in &mut self.hosted {
            hosted.worker.wake_others();
            has_waiting |= hosted.worker.prepare_sleep();
        }
        let timeout = if has_waiting { Some(Duration::ZERO) } else { self.timeout(now) };
        let waited = poller.wait(ready, timeout);
        self.hosted.iter().for_each(|one| one.worker.awake());
        waited
    }

    /// Looks for something to do without sleeping, as long as a worker thinks that worth it.
    fn poll(
        &mut self,
        now: Timestamp,
        poller: &Poller,
        ready: &mut Events,
        events: &[Events],
    ) -> std::io::Result<()> {
        let (mut now, mut asked) = (now, Timestamp::ZERO);
        loop {
            if now.since(asked) >= KERNEL_PAUSE {
                poller.wait(ready, Some(Duration::ZERO))?;
                asked = now;
            }
            let polls = self.hosted.iter().any(|one| one.worker.polls(now));
            let mut hosted = self.hosted.iter();
            let has_work = hosted.any(|one| one.worker.has_work(now, events[one.number()].len()));
            if !ready.is_empty() || !polls || has_work {
                return Ok(());
            }
            self.hosted.iter_mut().for_each(|one| one.worker.wake_others());
            std::hint::spin_loop();
            let before = now;
            now = Timestamp::from_nanos(clock::now());
            for hosted in &mut self.hosted {
                hosted.worker.note_polling(now.since(before));
            }
        }
    }

    /// How long there is nothing to do, if nothing comes; `None` for ever.
    fn timeout(&self, now: Timestamp) -> Option<Duration> {
        self.hosted.iter().filter_map(|one| one.worker.timeout(now)).min()
    }

    fn has_crossings(&self) -> bool {
        self.hosted.iter().any(|one| one.worker.has_crossings())
    }
}
