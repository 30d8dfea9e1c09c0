//! Opens the databases of results that commands are given.

use std::fs;
use std::path::Path;

use ndn_lab::experiment::Experiment;
use ndn_lab::results::{Results, ResultsError};

use crate::cli::failure::{Failure, Outcome};

/// Opens the database of results at `path`.
pub(super) fn open(path: &Path) -> Outcome<Results> {
    as_input(path, Results::open(path))
}

/// The database of results at `path`, which was opened or is no usable input.
pub(super) fn as_input(path: &Path, opened: Result<Results, ResultsError>) -> Outcome<Results> {
    opened.map_err(|error| {
        let text = fs::read_to_string(path).unwrap_or_default();
        match hint_for_experiment(&text) {
            Some(hint) => Failure::input(path.display(), hint),
            // It names the file.
            None => Failure::Input(error.to_string()),
        }
    })
}

/// Where the results are, if this text is an experiment.
pub(super) fn hint_for_experiment(text: &str) -> Option<String> {
    let experiment = Experiment::parse(text).ok()?;
    Some(format!(
        "it is an experiment: `namewire lab run` writes its results to {}.sqlite, unless --results names another file",
        experiment.name
    ))
}
