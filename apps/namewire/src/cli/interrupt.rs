//! Interrupts: Ctrl-C, SIGTERM and hangup of the terminal.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::failure::{Failure, Outcome};

/// The signals that interrupt a command.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// `None` for a command that survives its terminal, as under nohup.
    hangup: Option<Signal>,
}

impl Signals {
    fn catch() -> io::Result<Self> {
        let hangup = match hangup_is_ignored() {
            true => None,
            false => Some(signal(SignalKind::hangup())?),
        };
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup,
        })
    }

    async fn wait(mut self) {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = hangup => {}
        }
    }
}

/// Whether the program was started with SIGHUP ignored (proc(5): SigIgn in `status`, bit 0).
fn hangup_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0) & 1 != 0
}

/// Waits for an interrupt.
pub(super) async fn interrupted() -> io::Result<()> {
    Signals::catch()?.wait().await;
    Ok(())
}

/// Runs `work` until it is done. An interrupt drops it, and the command fails.
pub(super) async fn or_interrupted<T>(work: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    tokio::select! {
        outcome = work => outcome,
        signal = interrupted() => match signal {
            Ok(()) => Err(Failure::Interrupted),
            Err(error) => Err(Failure::Failed(format!("signals cannot be waited for: {error}"))),
        },
    }
}

/// Calls `act` from another thread at the first interrupt, while this one does blocking work.
pub fn on_interrupt(act: impl FnOnce() + Send + 'static) -> Outcome {
    let failed =
        |error: io::Error| Failure::Failed(format!("signals cannot be waited for: {error}"));
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    // Created here, so that the signal does not terminate the program before the thread runs.
    let signals = runtime.block_on(async { Signals::catch() }).map_err(failed)?;
    std::thread::spawn(move || {
        runtime.block_on(signals.wait());
        act();
    });
    Ok(())
}
