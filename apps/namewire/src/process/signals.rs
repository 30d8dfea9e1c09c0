//! SIGTERM and SIGINT stop the forwarder, SIGHUP has it read its configuration again.

use anyhow::Context;
use namewire_daemon::Requests;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals that no longer terminate the program, and have no effect before [`Self::watch`].
#[derive(Debug)]
pub(super) struct Signals {
    runtime: Runtime,
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    /// Catches the signals from now on.
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

    /// Converts signals to requests, on a thread that sleeps between them.
    pub(super) fn watch(self) -> anyhow::Result<Requests> {
        let Self { runtime, mut terminate, mut interrupt, mut hangup } = self;
        let requests = Requests::new()?;
        let watched = requests.clone();
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            runtime.block_on(async {
                loop {
                    tokio::select! {
                        _ = terminate.recv() => break,
                        _ = interrupt.recv() => break,
                        _ = hangup.recv() => watched.reload(),
                    }
                }
            });
            watched.stop();
        })?;
        Ok(requests)
    }
}
