//! Being told to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use ndn_sys::poll::Waker;
use tokio::signal::unix::{SignalKind, signal};

/// Set by SIGTERM and SIGINT.
#[derive(Debug, Clone)]
pub(super) struct StopRequest {
    requested: Arc<AtomicBool>,
    waker: Arc<Waker>,
}

impl StopRequest {
    /// Listens for the signals from now on, on a thread of its own that sleeps until one comes.
    pub(super) fn on_signals() -> anyhow::Result<Self> {
        let request =
            Self { requested: Arc::new(AtomicBool::new(false)), waker: Arc::new(Waker::new()?) };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        // Made here, so that a signal does not end the program before the thread runs.
        let (mut terminate, mut interrupt) = runtime
            .block_on(async {
                Ok::<_, std::io::Error>((
                    signal(SignalKind::terminate())?,
                    signal(SignalKind::interrupt())?,
                ))
            })
            .context("cannot wait for signals")?;
        let told = request.clone();
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = terminate.recv() => (),
                    _ = interrupt.recv() => (),
                }
            });
            told.requested.store(true, Ordering::Release);
            told.waker.wake();
        })?;
        Ok(request)
    }

    /// Whether a signal has come.
    pub(super) fn is_requested(&self) -> bool {
        self.requested.load(Ordering::Acquire)
    }

    /// Readable once a signal has come.
    pub(super) fn waker(&self) -> &Waker {
        &self.waker
    }
}
