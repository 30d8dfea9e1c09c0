//! What a thread that runs workers is sent.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::Hosted;

/// What a thread is sent.
#[derive(Debug)]
pub(super) enum Mail {
    /// To run this worker from now on.
    Worker(Box<Hosted>),
    /// Its own worker has ended, wherever it ran.
    End,
}

/// Mail for one thread, which others put there.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    mail: Mutex<Content>,
    arrived: Condvar,
    /// There is mail: what is looked at in each round.
    has_mail: AtomicBool,
}

#[derive(Debug, Default)]
struct Content {
    queue: VecDeque<Mail>,
    /// The thread has ended.
    is_closed: bool,
}

impl Mailbox {
    fn content(&self) -> MutexGuard<'_, Content> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts mail there. It comes back if the thread has ended.
    pub(super) fn put(&self, mail: Mail) -> Result<(), Mail> {
        let mut content = self.content();
        if content.is_closed {
            return Err(mail);
        }
        content.queue.push_back(mail);
        // Release: who sees this finds the mail.
        self.has_mail.store(true, Ordering::Release);
        drop(content);
        self.arrived.notify_one();
        Ok(())
    }

    /// Whether there is mail.
    #[inline]
    pub(super) fn has_mail(&self) -> bool {
        self.has_mail.load(Ordering::Acquire)
    }

    /// What has come first.
    pub(super) fn take(&self) -> Option<Mail> {
        let mut content = self.content();
        let mail = content.queue.pop_front();
        self.has_mail.store(!content.queue.is_empty(), Ordering::Release);
        mail
    }

    /// The first worker that has come, if any has; what else there is, stays.
    pub(crate) fn take_worker(&self) -> Option<Box<Hosted>> {
        if !self.has_mail() {
            return None;
        }
        let mut content = self.content();
        let place = content.queue.iter().position(|mail| matches!(mail, Mail::Worker(_)))?;
        match content.queue.remove(place) {
            Some(Mail::Worker(hosted)) => Some(hosted),
            Some(Mail::End) | None => None,
        }
    }

    /// Waits until there is some.
    pub(super) fn wait(&self) {
        let content = self.content();
        let waited = self.arrived.wait_while(content, |content| content.queue.is_empty());
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Takes no more mail; gives what there is. To be dropped by who does not hold the mailbox: it may bring
    /// about mail.
    pub(super) fn shut(&self) -> VecDeque<Mail> {
        let mut content = self.content();
        content.is_closed = true;
        std::mem::take(&mut content.queue)
    }

    /// Takes no more mail, unless there is some already; says whether that was so.
    pub(super) fn close(&self) -> bool {
        let mut content = self.content();
        content.is_closed = content.queue.is_empty();
        content.is_closed
    }
}
