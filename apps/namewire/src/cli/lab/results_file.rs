//! Opens the databases of results that commands are given.

use std::fs;
use std::path::Path;

use ndn_lab::experiment::Experiment;
use ndn_lab::results::Results;

use super::super::failure::{Failure, Outcome};

/// Opens the database of results at `path`.
pub(super) fn open(path: &Path) -> Outcome<Results> {
    Results::open(path).map_err(|error| {
        let text = fs::read_to_string(path).unwrap_or_default();
        hint_for_experiment(&text).map_or_else(
            || error.into(),
            |hint| Failure::Usage(format!("{}: {hint}", path.display())),
        )
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
