//! Options and output that several benches share.

use crate::end_started;
use clap::builder::RangedU64ValueParser;

use namewire::cli::output;
use namewire::cli::shared::{Failure, INTERRUPTED, Outcome, on_interrupt};

/// Ends the bench and the programs that it has started on an interrupt, immediately.
pub(super) fn end_when_interrupted() -> Outcome {
    on_interrupt(|| {
        end_started();
        output::note(&format_args!("namewire-bench: {}", Failure::Interrupted));
        std::process::exit(INTERRUPTED.into());
    })
}

/// Parser of a number of measurements.
pub(super) fn at_least_one() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}

pub(super) fn print_json(report: &impl serde::Serialize) -> Outcome {
    let value = serde_json::to_value(report).map_err(|error| Failure::Failed(error.to_string()))?;
    Ok(output::print_json(&value)?)
}
