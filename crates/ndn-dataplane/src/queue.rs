//! Queues of commands and events between the control thread and a worker, with a waker for each side.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, TryRecvError};

use ndn_sys::poll::Waker;

/// Number of waiting messages from which a queue is [full](Sender::is_full).
pub(crate) const QUEUE_LENGTH: usize = 4096;

/// The worker has ended, by a command or a panic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the worker has ended")]
pub struct WorkerGone;

/// The sending end of one direction.
#[derive(Debug)]
pub(crate) struct Sender<T> {
    /// Without a limit of its own. While it is full, the control thread accepts no connections, and handles commands until
    /// their replies, which wait for the workers, reach their limit; a worker makes no on-demand faces and keeps the last
    /// change of each face ([`EventQueue`](crate::worker::EventQueue)).
    queue: mpsc::Sender<T>,
    /// After the queue, because fields are dropped in order: the other side must find the queue closed when it
    /// wakes.
    waker: WakeOnDrop,
    waiting: Arc<AtomicUsize>,
    sent: bool,
}

/// Wakes the other side a last time, even if this side ends by a panic.
#[derive(Debug)]
struct WakeOnDrop(Arc<Waker>);

impl Drop for WakeOnDrop {
    fn drop(&mut self) {
        self.0.wake();
    }
}

/// The receiving end of one direction.
#[derive(Debug)]
pub(crate) struct Inbox<T> {
    queue: Receiver<T>,
    waker: Arc<Waker>,
    waiting: Arc<AtomicUsize>,
}

/// One direction.
pub(crate) fn channel<T>() -> std::io::Result<(Sender<T>, Inbox<T>)> {
    Ok(channel_with(Arc::new(Waker::new()?)))
}

/// One direction, with a waker that several directions share.
pub(crate) fn channel_with<T>(waker: Arc<Waker>) -> (Sender<T>, Inbox<T>) {
    let (sender, receiver) = mpsc::channel();
    let waiting = Arc::<AtomicUsize>::default();
    let inbox = Inbox { queue: receiver, waker: Arc::clone(&waker), waiting: Arc::clone(&waiting) };
    (Sender { queue: sender, waker: WakeOnDrop(waker), waiting, sent: false }, inbox)
}

impl<T> Sender<T> {
    /// Queues a message without waiting. The other side is woken by [`wake`](Self::wake).
    pub(crate) fn send(&mut self, message: T) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // Fails if the receiver has ended.
        self.sent |= self.queue.send(message).is_ok();
    }

    /// Wakes the other side once for everything that was queued since the last time.
    pub(crate) fn wake(&mut self) {
        if std::mem::take(&mut self.sent) {
            self.waker.0.wake();
        }
    }

    /// Wakes the other side although nothing was queued.
    pub(crate) fn wake_now(&self) {
        self.waker.0.wake();
    }

    /// Whether the other side is behind, so that messages that can wait should not be sent.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) >= QUEUE_LENGTH
    }
}

impl<T> Inbox<T> {
    /// The next message, if one waits.
    ///
    /// # Errors
    /// [`WorkerGone`] once the other side has ended and all its messages were received.
    pub(crate) fn receive(&self) -> Result<Option<T>, WorkerGone> {
        match self.queue.try_recv() {
            Ok(message) => {
                self.waiting.fetch_sub(1, Ordering::Relaxed);
                Ok(Some(message))
            }
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(WorkerGone),
        }
    }

    /// Readable when there may be a message. Reset it before receiving.
    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ndn_sys::poll::{Events, Poller};

    use super::*;

    #[test]
    fn full_queue_keeps_messages_in_order() {
        let (mut sender, inbox) = channel().unwrap();
        for number in 0..QUEUE_LENGTH + 10 {
            assert_eq!(sender.is_full(), number >= QUEUE_LENGTH);
            sender.send(number);
        }
        for number in 0..QUEUE_LENGTH + 10 {
            assert_eq!(sender.is_full(), number <= 10);
            assert_eq!(inbox.receive(), Ok(Some(number)));
        }
        assert_eq!(inbox.receive(), Ok(None));
        drop(sender);
        assert_eq!(inbox.receive(), Err(WorkerGone));
    }

    #[test]
    fn end_of_one_side_wakes_the_other() {
        let poller = Poller::new().unwrap();
        let mut events = Events::with_capacity(1);
        let (mut sender, inbox) = channel().unwrap();
        poller.add_waker(inbox.waker(), 0).unwrap();
        sender.send(7);
        poller.wait(&mut events, Some(Duration::ZERO)).unwrap();
        assert!(events.is_empty(), "not woken yet");
        drop(sender);
        poller.wait(&mut events, Some(Duration::ZERO)).unwrap();
        assert_eq!(events.len(), 1);
        inbox.waker().reset();
        assert_eq!(inbox.receive(), Ok(Some(7)));
        assert_eq!(inbox.receive(), Err(WorkerGone));
    }
}
