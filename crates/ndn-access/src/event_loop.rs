//! The thread of a connection, whose work threads that read do themselves while nothing else goes on.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::Duration;

use ndn_client::ConnectionState;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Notify, watch};

/// Time without a read after which the own thread runs the tasks again.
const PAUSE: Duration = Duration::from_millis(1);
/// Maximum time for output that is queued at the end to be written.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs the tasks of a connection.
///
/// A thread of its own does so, except while threads of the program read a few packets at a time: each such thread then runs the
/// tasks while it waits, so that no other thread has to be woken to send the Interest nor to pass the Data on. The own thread
/// comes back when there was no such read for a moment ([`PAUSE`]), and at once for everything else ([`Self::hold`]).
///
/// A runtime of one thread allows it: of several threads in its `block_on`, one runs the tasks, and another one continues when that
/// has its result.
#[derive(Debug)]
pub(crate) struct EventLoop {
    runtime: Runtime,
    thread: OnceLock<Thread>,
    /// Makes the own thread stop running tasks.
    leave: Notify,
    /// The own thread runs the tasks, or is the next one to do so.
    is_attended: AtomicBool,
    /// Waits, and services, for which the own thread runs the tasks.
    held: AtomicUsize,
    /// Number of beginnings and ends of [`Self::run`].
    runs: AtomicU64,
    has_ended: AtomicBool,
    /// State of the connection.
    connection: OnceLock<watch::Receiver<ConnectionState>>,
}

impl EventLoop {
    /// Starts the thread.
    pub(crate) fn start() -> std::io::Result<Arc<Self>> {
        let mut builder = Builder::new_current_thread();
        // They are threads of the program, too, which may leave SIGPIPE as it is, and has functions that handle signals.
        builder.enable_all().on_thread_start(ndn_sys::signal::block_in_thread);
        let event_loop = Arc::new(Self {
            runtime: builder.build()?,
            thread: OnceLock::new(),
            leave: Notify::new(),
            is_attended: AtomicBool::new(false),
            held: AtomicUsize::new(0),
            runs: AtomicU64::new(0),
            has_ended: AtomicBool::new(false),
            connection: OnceLock::new(),
        });
        let own = Arc::clone(&event_loop);
        let thread = std::thread::Builder::new().name("ndn-connection".to_owned());
        let started = thread.spawn(move || {
            ndn_sys::signal::block_in_thread();
            own.attend();
            Self::release(own);
        })?;
        let _ = event_loop.thread.set(started.thread().clone());
        Ok(event_loop)
    }

    /// Runs tasks on the own thread until the end.
    fn attend(&self) {
        while !self.has_ended.load(Ordering::SeqCst) {
            self.is_attended.store(true, Ordering::SeqCst);
            self.runtime.block_on(self.leave.notified());
            self.is_attended.store(false, Ordering::SeqCst);
            let mut seen = None;
            while self.is_free() && !self.has_ended.load(Ordering::SeqCst) {
                let runs = self.runs.load(Ordering::Relaxed);
                if seen.replace(runs) == Some(runs) {
                    break;
                }
                std::thread::park_timeout(PAUSE);
            }
        }
        let Some(mut connection) = self.connection.get().cloned() else { return };
        self.runtime.block_on(async {
            let closed = connection.wait_for(|state| *state == ConnectionState::Closed);
            let _ = tokio::time::timeout(END_TIMEOUT, closed).await;
        });
    }

    /// Makes it wait for the end of this connection, when it ends.
    pub(crate) fn serves(&self, connection: watch::Receiver<ConnectionState>) {
        let _ = self.connection.set(connection);
    }

    /// Whether nothing but [`Self::run`] needs the tasks.
    pub(crate) fn is_free(&self) -> bool {
        self.held.load(Ordering::SeqCst) == 0
    }

    /// Waits for `work`, which the tasks serve; the calling thread runs these meanwhile, unless another one does.
    pub(crate) fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.runs.fetch_add(1, Ordering::Relaxed);
        if self.is_attended.load(Ordering::SeqCst) {
            self.leave.notify_one();
        }
        let done = self.runtime.block_on(work);
        self.runs.fetch_add(1, Ordering::Relaxed);
        done
    }

    /// The own thread runs the tasks while the result exists.
    pub(crate) fn hold(self: &Arc<Self>) -> Held {
        self.held.fetch_add(1, Ordering::SeqCst);
        if !self.is_attended.load(Ordering::SeqCst)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
        Held(Some(Arc::clone(self)))
    }

    /// Ends the thread, soon.
    pub(crate) fn end(self: Arc<Self>) {
        self.has_ended.store(true, Ordering::SeqCst);
        self.leave.notify_one();
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
        Self::release(self);
    }

    /// Ends the runtime with the last reference: the caller may be a thread of another runtime, which may not wait.
    fn release(own: Arc<Self>) {
        if let Some(own) = Arc::into_inner(own) {
            own.runtime.shutdown_background();
        }
    }
}

/// Something that needs the connection, and does not wait for it by a method that blocks.
#[derive(Debug)]
#[must_use = "the connection may stand still for a moment when this is dropped"]
pub struct Held(Option<Arc<EventLoop>>);

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(event_loop) = self.0.take() {
            event_loop.held.fetch_sub(1, Ordering::SeqCst);
            EventLoop::release(event_loop);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(60);

    /// A message of [`exchange`]: its answer has a number and the thread that ran the task.
    type Asked = tokio::sync::oneshot::Sender<(usize, std::thread::ThreadId)>;

    /// Spawns a task that answers `count` messages, and waits for each answer with [`EventLoop::run`]. Returns how many of them the
    /// calling thread answered itself.
    fn exchange(event_loop: &EventLoop, count: usize) -> usize {
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel::<Asked>();
        event_loop.runtime.spawn(async move {
            let mut answered = 0;
            while let Some(asked) = receiver.recv().await {
                answered += 1;
                let _ = asked.send((answered, std::thread::current().id()));
            }
        });
        let mut own = 0;
        for expected in 1..=count {
            let (asked, answer) = tokio::sync::oneshot::channel();
            sender.send(asked).unwrap();
            let (number, thread) = event_loop.run(answer).unwrap();
            assert_eq!(number, expected);
            own += usize::from(thread == std::thread::current().id());
        }
        own
    }

    #[test]
    fn threads_that_wait_run_the_tasks() {
        let event_loop = EventLoop::start().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| exchange(&event_loop, 500));
            }
        });
        let leaves = (0..1000).any(|_| exchange(&event_loop, 100) > 0);
        assert!(leaves, "the own thread did not leave");
        event_loop.end();
    }

    #[test]
    fn own_thread_comes_back_when_nobody_reads_and_when_it_is_held() {
        let event_loop = EventLoop::start().unwrap();
        let (sender, receiver) = mpsc::channel();
        for is_held in [false, true] {
            exchange(&event_loop, 10);
            let held = is_held.then(|| event_loop.hold());
            let sender = sender.clone();
            event_loop.runtime.spawn(async move { sender.send(std::thread::current().id()) });
            let ran = receiver.recv_timeout(TIMEOUT).unwrap();
            assert_eq!(ran, event_loop.thread.get().unwrap().id());
            assert_eq!(event_loop.is_free(), held.is_none());
        }
        assert!(event_loop.is_free());
        event_loop.end();
    }

    #[tokio::test]
    async fn end_does_not_wait() {
        let event_loop = EventLoop::start().unwrap();
        let (sender, connection) = watch::channel(ConnectionState::Connected);
        event_loop.serves(connection);
        let weak = Arc::downgrade(&event_loop);
        event_loop.end();
        // Its thread waits for the end of the connection.
        sender.send_replace(ConnectionState::Closed);
        let deadline = tokio::time::Instant::now() + TIMEOUT;
        while weak.strong_count() > 0 {
            assert!(tokio::time::Instant::now() < deadline, "the thread has not ended");
            tokio::task::yield_now().await;
        }
    }
}
