//! Performs runs.

mod agent;
mod cache;
mod command;
mod inputs;
mod model;
mod network;
mod networks;
mod outcome;
mod remote;

use std::collections::BTreeMap;
use std::path::Path;

use crate::experiment::{Executor, Experiment, SeededRun};
use crate::hosts::Hosts;
use crate::leftovers;
use crate::progress::RunProgress;
use crate::render::Form;
pub use agent::serve as serve_agent;
use inputs::Inputs;
pub(crate) use outcome::CLOCK_ERROR;
pub use outcome::RunFailure;

/// Ends the processes of runs of an experiment whose program was killed. Returns how many.
pub fn end_leftovers(id: &str) -> usize {
    leftovers::end_processes(id)
}

/// Ends what other labs left that were killed, whatever their experiment. Returns how many processes.
pub fn end_orphans() -> usize {
    leftovers::end_orphans()
}

/// Ends the runs of this process, which exits afterwards: no further program is started, and no run ends with a result.
pub fn abandon() {
    leftovers::abandon();
    leftovers::end_own();
}

/// An experiment that is ready to run: all that its cells need was found.
#[derive(Debug)]
pub struct Prepared<'e> {
    experiment: &'e Experiment,
    inputs: Inputs,
    hosts: Option<Hosts>,
}

impl<'e> Prepared<'e> {
    /// Checks every cell: programs, files, settings and names of responses. Paths are relative to `directory`.
    ///
    /// # Errors
    /// Names the cell and what is wrong with it.
    pub fn new(experiment: &'e Experiment, directory: &Path) -> Result<Self, String> {
        let hosts = match &experiment.executor {
            Executor::Network(network) if !network.hosts.is_empty() => {
                Some(Hosts::new(&network.hosts, &network.ssh, network.copy, directory)?)
            }
            Executor::Network(_)
            | Executor::Command(_)
            | Executor::Cache(_)
            | Executor::Model(_) => None,
        };
        let mut prepared = Self { experiment, inputs: Inputs::new(directory), hosts };
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
            Executor::Network(one) => {
                let hosts = self.hosts.as_ref();
                network::check((experiment, hosts), &mut self.inputs, one, &values)
            }
            Executor::Model(model) => model::check(experiment, &mut self.inputs, model, &values),
        }
    }

    /// Names and contents of files that run a cell, numbered from 0, in containers of this image.
    ///
    /// # Errors
    /// The experiment has no networks of forwarders, or the cell cannot be rendered.
    pub fn render(
        &self,
        cell: usize,
        form: Form,
        image: &str,
    ) -> Result<Vec<(String, String)>, String> {
        let Executor::Network(executor) = &self.experiment.executor else {
            return Err("only networks of forwarders can be rendered".to_owned());
        };
        let plan = self.experiment.plan().map_err(|error| error.to_string())?;
        let run = plan.into_iter().find(|one| (one.run.cell, one.run.replication) == (cell, 0));
        let run =
            run.ok_or_else(|| format!("there are {} cells", self.experiment.design.cells().len()))?;
        network::render((self.experiment, run), &self.inputs, executor, (form, image))
    }

    /// Paths, as the experiment names them, and contents of the files that runs read in this process.
    #[must_use]
    pub fn inputs(&self) -> Vec<(String, Vec<u8>)> {
        self.inputs.all()
    }

    /// Notes on the cells, to be read before they run, such as predictions beyond the measured ranges.
    pub fn notes(&self) -> impl Iterator<Item = &str> {
        self.inputs.notes()
    }

    /// Performs a run and returns its responses. Programs that it starts are marked by `id`, and are ended with it. Networks
    /// report how far they are; those on hosts do not.
    ///
    /// # Errors
    /// The run failed, or gave no finite number for a response.
    pub fn run(
        &self,
        run: SeededRun,
        id: &str,
        progress: &RunProgress,
    ) -> Result<BTreeMap<String, f64>, RunFailure> {
        let values = self.experiment.values(run);
        let measured = match &self.experiment.executor {
            Executor::Command(command) => {
                command::run(self.experiment, self.inputs.directory(), command, (run, id))?
            }
            Executor::Cache(cache) => cache::run(&self.inputs, cache, run, &values)?,
            Executor::Network(one) => {
                let experiment = (self.experiment, self.hosts.as_ref());
                network::run(experiment, &self.inputs, one, (run, id, progress))?
            }
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
        // Reports have them, whether the experiment names them or not.
        let is_reported = |name: &str| name == CLOCK_ERROR || name.contains('@');
        let reported = measured.into_iter().filter(|(name, _)| is_reported(name));
        responses.extend(reported);
        Ok(responses)
    }
}
