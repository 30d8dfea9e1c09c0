//! Ctrl-C and SIGTERM.

use std::io;

use tokio::signal::unix::{SignalKind, signal};

use super::failure::{Failure, Outcome};

/// Waits until the user or the system asks the program to end.
pub(super) async fn interrupted() -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = terminate.recv() => Ok(()),
        outcome = tokio::signal::ctrl_c() => outcome,
    }
}

/// Runs `work` until it is done; interrupted, it is dropped and the command fails.
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
pub(super) fn on_interrupt(act: impl FnOnce() + Send + 'static) -> Outcome {
    let failed =
        |error: io::Error| Failure::Failed(format!("signals cannot be waited for: {error}"));
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    // Made here, so that the signal does not end the program before the thread runs.
    let mut interrupt =
        runtime.block_on(async { signal(SignalKind::interrupt()) }).map_err(failed)?;
    let mut terminate =
        runtime.block_on(async { signal(SignalKind::terminate()) }).map_err(failed)?;
    std::thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => (),
                _ = terminate.recv() => (),
            }
        });
        act();
    });
    Ok(())
}
