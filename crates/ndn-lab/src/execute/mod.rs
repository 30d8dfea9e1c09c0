//! Performs runs.

mod cache;
mod command;
mod inputs;
mod model;
mod network;
mod networks;
mod outcome;

use std::collections::BTreeMap;
use std::path::Path;

use crate::experiment::{Executor, Experiment, SeededRun};
use crate::leftovers;
use inputs::Inputs;
pub use outcome::RunFailure;

/// Ends what runs of a killed program left: their processes and temporary directories. Returns how many processes.
pub fn end_leftovers(id: &str) -> usize {
    let ended = leftovers::end_processes(id);
    leftovers::remove_directories(id);
    ended
}

/// Ends what other labs left that were killed, whatever their experiment. Returns how many processes.
pub fn end_orphans() -> usize {
    leftovers::end_orphans()
}

/// Ends the runs of this process, which exits afterwards: no further program is started, and no run ends with a result.
pub fn abandon(id: &str) {
    leftovers::abandon();
    end_leftovers(id);
}

/// An experiment that is ready to run: all that its cells need was found.
#[derive(Debug)]
pub struct Prepared<'e> {
    experiment: &'e Experiment,
    inputs: Inputs,
}

impl<'e> Prepared<'e> {
    /// Checks every cell: programs, files, settings and names of responses. Paths are relative to `directory`.
    ///
    /// # Errors
    /// Names the cell and what is wrong with it.
    pub fn new(experiment: &'e Experiment, directory: &Path) -> Result<Self, String> {
        let mut prepared = Self { experiment, inputs: Inputs::new(directory) };
        let cells = experiment.design.cells().len();
        for cell in 0..cells {
            let checked = prepared.check(cell);
            checked
                .map_err(|reason| format!("cell {}: {reason}", experiment.design.describe(cell)))?;
        }
        Ok(prepared)
    }

    /// The experiment.
    #[must_use]
    pub fn experiment(&self) -> &'e Experiment {
        self.experiment
    }

    fn check(&mut self, cell: usize) -> Result<(), String> {
        let experiment = self.experiment;
        let mut values = experiment.levels(cell);
        values.insert("seed".to_owned(), "0".to_owned());
        values.insert("replication".to_owned(), "0".to_owned());
        match &experiment.executor {
            Executor::Command(command) => command::check(command, &values, self.inputs.directory()),
            Executor::Cache(cache) => cache::check(experiment, &mut self.inputs, cache, &values),
            Executor::Network(one) => network::check(experiment, &mut self.inputs, one, &values),
            Executor::Model(model) => model::check(experiment, &mut self.inputs, model, &values),
        }
    }

    /// Paths, as the experiment names them, and contents of the files that runs read in this process.
    #[must_use]
    pub fn inputs(&self) -> Vec<(String, Vec<u8>)> {
        self.inputs.all()
    }

    /// Performs a run and returns its responses. Programs that it starts are marked by `id`, and are ended with it.
    ///
    /// # Errors
    /// The run failed, or gave no finite number for a response.
    pub fn run(&self, run: SeededRun, id: &str) -> Result<BTreeMap<String, f64>, RunFailure> {
        let values = self.experiment.values(run);
        let measured = match &self.experiment.executor {
            Executor::Command(command) => {
                command::run(self.experiment, self.inputs.directory(), command, (run, id))?
            }
            Executor::Cache(cache) => cache::run(&self.inputs, cache, run, &values)?,
            Executor::Network(one) => network::run(self.experiment, &self.inputs, one, (run, id))?,
            Executor::Model(model) => model::run(self.experiment, &self.inputs, model, run)?,
        };
        let mut responses = BTreeMap::new();
        for response in &self.experiment.responses {
            let name = &response.name;
            let value = measured.get(name).ok_or_else(|| format!("no response '{name}'"))?;
            if !value.is_finite() {
                return Err(format!("the response '{name}' is not a finite number: {value}").into());
            }
            responses.insert(name.clone(), *value);
        }
        Ok(responses)
    }
}
