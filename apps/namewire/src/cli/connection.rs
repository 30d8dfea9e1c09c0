//! Reports a lost connection to the forwarder, and waits for its return.

use std::time::Duration;

use ndn_client::{ConnectionState, Endpoint};

use super::connect::ConnectOptions;
use super::failure::{Failure, Outcome};
use super::output;
use super::progress::Notes;

/// Reports when the connection is lost and when it is back, while it is polled.
pub(super) async fn report_losses(endpoint: &Endpoint) {
    let mut state = endpoint.state();
    while wait_for(&mut state, false).await {
        note(&Notes::default(), endpoint, LOST);
        if !wait_for(&mut state, true).await {
            break;
        }
        note(&Notes::default(), endpoint, BACK);
    }
    std::future::pending().await
}

/// Time between two attempts to reach a forwarder.
const ATTEMPT_INTERVAL: Duration = Duration::from_millis(200);

/// Connects; waits up to `time_limit` for a forwarder.
pub(super) async fn open_within(
    options: &ConnectOptions,
    time_limit: Option<Duration>,
) -> Outcome<Endpoint> {
    let Some(time_limit) = time_limit else { return options.open().await };
    let deadline = tokio::time::Instant::now().checked_add(time_limit);
    let mut is_first = true;
    loop {
        let failure = match options.open().await {
            Err(Failure::Unreachable(failure)) => failure,
            other => return other,
        };
        if deadline.is_some_and(|deadline| tokio::time::Instant::now() >= deadline) {
            return Err(Failure::Unreachable(failure));
        }
        if std::mem::take(&mut is_first) {
            output::note(&format_args!("namewire: {failure}; waiting for it"));
        }
        tokio::time::sleep(ATTEMPT_INTERVAL).await;
    }
}

/// Runs `work`, but fails if the connection is lost for longer than `time_limit`. Reports with `notes` when it is lost and
/// back.
pub(super) async fn while_connected<T>(
    endpoint: &Endpoint,
    time_limit: Duration,
    notes: &Notes,
    work: impl Future<Output = Outcome<T>>,
) -> Outcome<T> {
    let gone = || {
        Failure::Unreachable(format!(
            "the connection to the forwarder{} is lost",
            address(endpoint)
        ))
    };
    let losses = async {
        let mut state = endpoint.state();
        while wait_for(&mut state, false).await {
            note(notes, endpoint, LOST);
            match tokio::time::timeout(time_limit, wait_for(&mut state, true)).await {
                Ok(true) => note(notes, endpoint, BACK),
                Ok(false) | Err(_) => return,
            }
        }
    };
    let outcome = tokio::select! {
        outcome = work => outcome,
        () = losses => return Err(gone()),
    };
    // Timeouts without a forwarder do not count against the producer.
    let is_connected = *endpoint.state().borrow() == ConnectionState::Connected;
    match outcome {
        Err(Failure::NoAnswer(_)) if !is_connected => Err(gone()),
        other => other,
    }
}

/// Waits until the connection is restored or lost; false if its state no longer changes.
async fn wait_for(
    state: &mut tokio::sync::watch::Receiver<ConnectionState>,
    connected: bool,
) -> bool {
    let reached = |state: &ConnectionState| {
        (*state == ConnectionState::Connected) == connected || *state == ConnectionState::Closed
    };
    let closed = |state: &ConnectionState| connected && *state == ConnectionState::Closed;
    match state.wait_for(reached).await {
        Ok(state) => !closed(&state),
        Err(_) => false,
    }
}

const LOST: &str = "is lost; reconnecting";
const BACK: &str = "is back";

fn note(notes: &Notes, endpoint: &Endpoint, what: &str) {
    let address = address(endpoint);
    notes.write(&format_args!("namewire: the connection to the forwarder{address} {what}"));
}

fn address(endpoint: &Endpoint) -> String {
    endpoint.address().map_or_else(String::new, |address| format!(" {address}"))
}

#[cfg(test)]
mod tests {
    use indicatif::ProgressStyle;
    use ndn_client::EndpointOptions;

    use super::*;
    use crate::cli::progress::Screen;

    #[tokio::test]
    async fn lost_connection_is_reported_above_the_bar() {
        let (stream, forwarder) = tokio::io::duplex(1 << 10);
        let (reader, writer) = tokio::io::split(stream);
        let endpoint = Endpoint::from_stream(reader, writer, &EndpointOptions::default());
        let screen = Screen::new(80);
        let bar = screen.bar();
        bar.set_style(ProgressStyle::with_template("{msg}").unwrap());
        bar.set_message("1 MiB");
        let notes = screen.notes_above(&bar);
        let work = async {
            drop(forwarder);
            std::future::pending::<Outcome>().await
        };
        let outcome = while_connected(&endpoint, Duration::from_secs(60), &notes, work).await;
        assert!(matches!(outcome, Err(Failure::Unreachable(_))), "{outcome:?}");
        bar.set_message("2 MiB");
        let note = "namewire: the connection to the forwarder is lost; reconnecting";
        assert_eq!(screen.lines(), [note, "2 MiB"]);
    }
}
