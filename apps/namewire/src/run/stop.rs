//! Being told to stop, or to read the configuration again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use ndn_sys::poll::Waker;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Set by SIGTERM and SIGINT; SIGHUP asks for a reload.
#[derive(Debug, Clone)]
pub(super) struct StopRequest {
    requested: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
    waker: Arc<Waker>,
}

/// Signals that do not end the program any more, but that nobody heeds yet.
#[derive(Debug)]
pub(super) struct Signals {
    runtime: Runtime,
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    /// Takes the signals from now on.
    pub(super) fn new() -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let (terminate, interrupt, hangup) = runtime
            .block_on(async {
                Ok::<_, std::io::Error>((
                    signal(SignalKind::terminate())?,
                    signal(SignalKind::interrupt())?,
                    signal(SignalKind::hangup())?,
                ))
            })
            .context("cannot wait for signals")?;
        Ok(Self { runtime, terminate, interrupt, hangup })
    }

    /// Heeds them, on a thread of its own that sleeps until one comes.
    pub(super) fn watch(self) -> anyhow::Result<StopRequest> {
        let Self { runtime, mut terminate, mut interrupt, mut hangup } = self;
        let request = StopRequest {
            requested: Arc::new(AtomicBool::new(false)),
            reload: Arc::new(AtomicBool::new(false)),
            waker: Arc::new(Waker::new()?),
        };
        let told = request.clone();
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            runtime.block_on(async {
                loop {
                    tokio::select! {
                        _ = terminate.recv() => break,
                        _ = interrupt.recv() => break,
                        _ = hangup.recv() => {
                            told.reload.store(true, Ordering::Release);
                            told.waker.wake();
                        }
                    }
                }
            });
            told.requested.store(true, Ordering::Release);
            told.waker.wake();
        })?;
        Ok(request)
    }
}

impl StopRequest {
    /// Whether a signal has come.
    pub(super) fn is_requested(&self) -> bool {
        self.requested.load(Ordering::Acquire)
    }

    /// Whether the configuration is to be read again; tells it once.
    pub(super) fn take_reload(&self) -> bool {
        let is_asked = self.reload.swap(false, Ordering::AcqRel);
        if is_asked {
            self.waker.reset();
        }
        is_asked
    }

    /// Readable once a signal has come.
    pub(super) fn waker(&self) -> &Waker {
        &self.waker
    }
}
