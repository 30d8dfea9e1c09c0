//! Code that consumer and producer share: scenario files, the end by a signal, reports.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ndn_traffic::ScenarioError;
use ndn_traffic::io::{RunError, RunFigures};
use serde::de::DeserializeOwned;

use crate::cli::arguments::positive_duration;
use crate::cli::failure::{Failure, Outcome};
use crate::cli::interrupt::on_interrupt;

/// Reads a scenario file; without one, the default of `T`.
pub(super) fn read_file<T: DeserializeOwned + Default>(path: Option<&Path>) -> Outcome<T> {
    let Some(path) = path else { return Ok(T::default()) };
    let text = crate::cli::input::read_text(path)?;
    toml::from_str(&text).map_err(|error| Failure::toml(path, &text, &error))
}

/// Rejects a command without prefixes or scenario.
pub(super) fn check_named(are_some: bool) -> Outcome {
    match are_some {
        true => Ok(()),
        false => Err(Failure::Usage(
            "give a prefix such as /load, or a scenario file with --scenario".to_owned(),
        )),
    }
}

/// True after the first interrupt.
pub(super) fn stop_flag() -> Outcome<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    on_interrupt(move || flag.store(true, Ordering::Relaxed))?;
    Ok(stop)
}

/// Parses an InterestLifetime to milliseconds.
pub(super) fn lifetime(text: &str) -> Result<u32, String> {
    let lifetime_ms = positive_duration(text)?.as_millis();
    u32::try_from(lifetime_ms)
        .ok()
        .filter(|lifetime_ms| *lifetime_ms > 0)
        .ok_or_else(|| "it is from 1ms to 4294967295ms".to_owned())
}

pub(super) fn wrong_scenario(error: &ScenarioError) -> Failure {
    Failure::Usage(error.to_string())
}

/// Reports the results, even if the connection was lost.
pub(super) fn report_all(
    ended: Result<RunFigures, RunError>,
    report: impl FnOnce(&RunFigures) -> Outcome,
) -> Outcome {
    match ended {
        Ok(figures) => report(&figures),
        Err(RunError { error, figures }) => {
            // A failure takes precedence over a closed standard output.
            let _ = report(&figures);
            Err(Failure::Failed(format!("the connection to the forwarder: {error}")))
        }
    }
}

/// The value that a metrics request reads, whatever another thread did with it.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// CPU time per packet in microseconds, and other ratios.
#[expect(clippy::cast_precision_loss, reason = "figures for display")]
pub(super) fn ratio(numerator: f64, denominator: u64) -> f64 {
    if denominator == 0 { 0.0 } else { numerator / denominator as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_have_units() {
        assert_eq!(lifetime("4s"), Ok(4000));
        assert_eq!(lifetime("500ms"), Ok(500));
        for wrong in ["0", "300", "10us", "1h30", "s", "5000000s"] {
            assert!(lifetime(wrong).is_err(), "{wrong}");
        }
    }
}
