//! Calls from other threads to the thread that owns a state.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use ndn_management::CallError;
use ndn_sys::poll::Waker;

/// A call, executed with the state.
type Call<S> = Box<dyn FnOnce(&mut S) + Send>;

/// The side of the thread that owns the state.
#[derive(Debug)]
pub(super) struct Calls<S> {
    queue: Receiver<Call<S>>,
    waker: Arc<Waker>,
}

/// The side of other threads.
#[derive(Debug)]
pub(super) struct Caller<S> {
    queue: Sender<Call<S>>,
    waker: Arc<Waker>,
}

impl<S> Calls<S> {
    /// Creates both sides.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub(super) fn new() -> io::Result<(Caller<S>, Self)> {
        let (sender, queue) = channel();
        let waker = Arc::new(Waker::new()?);
        Ok((Caller { queue: sender, waker: Arc::clone(&waker) }, Self { queue, waker }))
    }

    /// Readable when calls wait.
    pub(super) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Returns the next call.
    pub(super) fn poll(&self) -> Option<Call<S>> {
        self.queue.try_recv().ok()
    }
}

impl<S> Caller<S> {
    /// Executes `call` there, without waiting.
    ///
    /// # Errors
    /// The forwarder is stopping.
    pub(super) fn post(&self, call: impl FnOnce(&mut S) + Send + 'static) -> Result<(), CallError> {
        self.queue.send(Box::new(call)).map_err(|_| CallError::Stopping)?;
        self.waker.wake();
        Ok(())
    }

    /// Executes `call` there and returns its result.
    ///
    /// # Errors
    /// The forwarder is stopping.
    pub(super) fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut S) -> T + Send + 'static,
    ) -> Result<T, CallError> {
        // The caller waits for the answer, so it has not gone.
        self.call_later(|state, answer| drop(answer.send(call(state))))
    }

    /// Executes `call` there, which has the result sent later, and returns the result.
    ///
    /// # Errors
    /// The forwarder is stopping.
    pub(super) fn call_later<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut S, SyncSender<T>) + Send + 'static,
    ) -> Result<T, CallError> {
        let (answer, answered) = sync_channel(1);
        self.post(|state| call(state, answer))?;
        answered.recv().map_err(|_| CallError::Stopping)
    }
}
