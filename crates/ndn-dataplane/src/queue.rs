//! Queues of commands and events between the control thread and a worker, with a waker for each side.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};

use ndn_sys::poll::Waker;

/// Maximum number of messages that wait for the other thread; the sender keeps further ones.
const QUEUE_LENGTH: usize = 4096;

/// The worker has ended, by a command or a panic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the worker has ended")]
pub struct WorkerGone;

/// The sending end of one direction.
#[derive(Debug)]
pub(crate) struct Sender<T> {
    queue: SyncSender<T>,
    /// After the queue, because fields are dropped in order: the other side must find the queue closed when it
    /// wakes.
    waker: WakeOnDrop,
    /// Messages that did not fit. Bounded by one event per face and command.
    overflow: VecDeque<T>,
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
}

/// One direction.
pub(crate) fn channel<T>() -> std::io::Result<(Sender<T>, Inbox<T>)> {
    Ok(channel_with(Arc::new(Waker::new()?)))
}

/// One direction, with a waker that several directions share.
pub(crate) fn channel_with<T>(waker: Arc<Waker>) -> (Sender<T>, Inbox<T>) {
    let (sender, receiver) = sync_channel(QUEUE_LENGTH);
    let inbox = Inbox { queue: receiver, waker: Arc::clone(&waker) };
    let waker = WakeOnDrop(waker);
    (Sender { queue: sender, waker, overflow: VecDeque::new(), sent: false }, inbox)
}

impl<T> Sender<T> {
    /// Queues a message without waiting. The other side is woken by [`wake`](Self::wake).
    pub(crate) fn send(&mut self, message: T) {
        self.overflow.push_back(message);
        self.move_overflow();
    }

    /// Wakes the other side once for everything that was queued since the last time.
    pub(crate) fn wake(&mut self) {
        self.move_overflow();
        if std::mem::take(&mut self.sent) {
            self.waker.0.wake();
        }
    }

    /// Wakes the other side although nothing was queued.
    pub(crate) fn wake_now(&self) {
        self.waker.0.wake();
    }

    /// Whether messages wait on this side.
    pub(crate) fn is_backed_up(&self) -> bool {
        !self.overflow.is_empty()
    }

    fn move_overflow(&mut self) {
        while let Some(message) = self.overflow.pop_front() {
            match self.queue.try_send(message) {
                Ok(()) => self.sent = true,
                Err(TrySendError::Full(message)) => {
                    self.overflow.push_front(message);
                    return;
                }
                // The receiver has ended.
                Err(TrySendError::Disconnected(_)) => self.overflow.clear(),
            }
        }
    }
}

impl<T> Inbox<T> {
    /// The next message, if one waits.
    ///
    /// # Errors
    /// [`WorkerGone`] once the other side has ended and all its messages were received.
    pub(crate) fn receive(&self) -> Result<Option<T>, WorkerGone> {
        match self.queue.try_recv() {
            Ok(message) => Ok(Some(message)),
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

    use ndn_sys::poll::{Events, Interest, Poller};

    use super::*;

    #[test]
    fn overflow_waits_and_keeps_its_order() {
        let (mut sender, inbox) = channel().unwrap();
        for number in 0..QUEUE_LENGTH + 10 {
            sender.send(number);
        }
        assert!(sender.is_backed_up());
        let mut received = Vec::new();
        for _ in 0..2 {
            while let Ok(Some(number)) = inbox.receive() {
                received.push(number);
            }
            sender.wake();
        }
        assert!(!sender.is_backed_up());
        assert_eq!(received, (0..QUEUE_LENGTH + 10).collect::<Vec<_>>());
        drop(sender);
        assert_eq!(inbox.receive(), Err(WorkerGone));
    }

    #[test]
    fn end_of_one_side_wakes_the_other() {
        let poller = Poller::new().unwrap();
        let mut events = Events::with_capacity(1);
        let (mut sender, inbox) = channel().unwrap();
        poller.add(inbox.waker(), 0, Interest::Readable).unwrap();
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
