//! The traces of a sweep: on threads of this process, or as tasks of another engine.
//!
//! A round of a sweep is a list of tasks. The observations are taken in the order of the list.

use clap::Args;
use ndn_model::check::Runner;
use ndn_model::explore::{Sweep, Task};
use ndn_model::file::Model;
use ndn_model::property::Property;
use serde::{Deserialize, Serialize};

use super::super::engine::{self, EngineOptions, PartOptions, Parts};
use super::question::Question;
use crate::cli::failure::{INTERRUPTED, Outcome};
use crate::cli::interrupt::on_interrupt;
use crate::cli::output;

/// Traces of a point in one round of this process.
const BATCH: u32 = 32;
/// The same for the other engines, which take seconds for a round. It doubles from round to round.
const ENGINE_BATCH: u32 = 256;
const ENGINE_BATCH_MAX: u32 = 8192;
/// Traces of a task of the other engines.
const PIECE: u32 = 256;

#[derive(Args, Debug)]
pub(super) struct RunTasksOptions {
    #[command(flatten)]
    part: PartOptions,
}

/// Tasks with all that they need.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TaskList {
    /// The version of the program: another one may simulate differently.
    namewire: String,
    model: String,
    property: String,
    seed: u64,
    tasks: Vec<PointTask>,
}

/// Traces of the model with other values of some keys.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PointTask {
    changes: Vec<(String, String)>,
    first: u32,
    count: u32,
}

/// Runs a part of the tasks of a list.
pub(super) fn run_tasks(options: &RunTasksOptions) -> Outcome {
    let part = &options.part;
    let list: TaskList = part.read()?;
    for task in part.of(&list.tasks) {
        let model =
            Model::parse_with(&list.model, &task.changes).map_err(|error| part.failure(error))?;
        let property =
            Property::parse(&list.property, &model).map_err(|error| part.failure(error))?;
        let mut runner = Runner::new(&model, &property, list.seed);
        let end = task.first.checked_add(task.count);
        let end = end.ok_or_else(|| part.failure("too many traces"))?;
        let values: Vec<String> =
            (task.first..end).map(|trace| written(runner.observe(trace))).collect();
        output::print_line(&values.join(" "))?;
    }
    part.end()
}

/// An observation as text that is read back as the same number: JSON has no infinity.
pub(super) fn written(value: f64) -> String {
    value.to_string()
}

/// Runs the traces of a sweep. Tasks of another engine are in a directory that it removes.
pub(super) struct Engine<'a> {
    options: &'a EngineOptions,
    question: &'a Question,
    /// The model file.
    model: &'a str,
    directory: Option<tempfile::TempDir>,
    rounds: u32,
}

impl<'a> Engine<'a> {
    pub(super) fn new(
        options: &'a EngineOptions,
        question: &'a Question,
        model: &'a str,
    ) -> Outcome<Self> {
        let directory = options.directory()?;
        if directory.is_some() {
            on_interrupt(|| {
                engine::stop();
                std::process::exit(INTERRUPTED.into());
            })?;
        }
        Ok(Self { options, question, model, directory, rounds: 0 })
    }

    /// The tasks of the next round.
    pub(super) fn next_tasks(&self, sweep: &Sweep) -> Vec<Task> {
        if self.directory.is_none() {
            return sweep.next_tasks(BATCH);
        }
        let batch = ENGINE_BATCH.checked_shl(self.rounds).unwrap_or(ENGINE_BATCH_MAX);
        let whole = sweep.next_tasks(batch.clamp(ENGINE_BATCH, ENGINE_BATCH_MAX));
        whole.into_iter().flat_map(pieces).collect()
    }

    /// Runs tasks; the observations are in their order.
    pub(super) fn run(&mut self, sweep: &Sweep, tasks: &[Task]) -> Outcome<Vec<Vec<f64>>> {
        let Some(directory) = &self.directory else {
            return Ok(run_on_threads(sweep, tasks, self.question));
        };
        self.rounds += 1;
        let place = directory.path().join(format!("round-{}", self.rounds));
        let parts = Parts::new(place, tasks.len(), ["model", "run-tasks"]);
        let run = || {
            parts.write(&self.list(sweep, tasks))?;
            parts.run(self.options, || Ok(()))?;
            let values = observations(&parts, tasks)?;
            parts.remove()?;
            Ok(values)
        };
        match run() {
            Ok(values) => Ok(values),
            Err(failure) => {
                // The output of the engine is left for the user.
                if let Some(kept) = self.directory.take() {
                    let _ = kept.keep();
                }
                Err(failure)
            }
        }
    }

    fn list(&self, sweep: &Sweep, tasks: &[Task]) -> TaskList {
        let tasks = tasks.iter().map(|task| PointTask {
            changes: sweep.points()[task.point].changes.clone(),
            first: task.first,
            count: task.count,
        });
        TaskList {
            namewire: env!("CARGO_PKG_VERSION").to_owned(),
            model: self.model.to_owned(),
            property: self.question.property.clone(),
            seed: self.question.seed,
            tasks: tasks.collect(),
        }
    }
}

/// The observations of all tasks, from what the parts printed.
fn observations(parts: &Parts, tasks: &[Task]) -> Outcome<Vec<Vec<f64>>> {
    let mut values = vec![Vec::new(); tasks.len()];
    for part in 0..parts.count() {
        let (lines, is_complete) = parts.printed(part);
        let indices = (part..tasks.len()).step_by(parts.count());
        if !is_complete || lines.len() != indices.len() {
            return Err(parts.incomplete(part));
        }
        for (index, line) in indices.zip(&lines) {
            let parsed: Option<Vec<f64>> =
                line.split_ascii_whitespace().map(|value| value.parse().ok()).collect();
            let parsed = parsed.filter(|values| values.len() == tasks[index].count as usize);
            values[index] = parsed.ok_or_else(|| parts.incomplete(part))?;
        }
    }
    Ok(values)
}

/// A task in tasks of few traces.
fn pieces(task: Task) -> impl Iterator<Item = Task> {
    let end = task.first + task.count;
    (task.first..end).step_by(PIECE as usize).map(move |first| Task {
        first,
        count: PIECE.min(end - first),
        ..task
    })
}

fn run_on_threads(sweep: &Sweep, tasks: &[Task], question: &Question) -> Vec<Vec<f64>> {
    let threads = question.threads().min(tasks.len()).max(1);
    let mut done: Vec<(usize, Vec<f64>)> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|thread| {
                let own = tasks.iter().copied().enumerate().skip(thread).step_by(threads);
                let run = |(index, task)| (index, sweep.run(task, question.seed));
                scope.spawn(move || own.map(run).collect::<Vec<_>>())
            })
            .collect();
        handles.into_iter().flat_map(|handle| handle.join().unwrap_or_default()).collect()
    });
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, values)| values).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::fs;

    use super::*;

    #[test]
    fn divided_task_has_the_result_of_the_whole() {
        let all: Vec<Task> = pieces(Task { point: 3, first: 10, count: 520 }).collect();
        let of = |first, count| Task { point: 3, first, count };
        assert_eq!(all, [of(10, 256), of(266, 256), of(522, 8)]);
    }

    #[test]
    fn observations_round_trip() {
        for value in [0.1 + 0.2, 1.0 / 3.0, 5e-324, f64::MAX, f64::INFINITY, 0.0] {
            assert_eq!(written(value).parse::<f64>().unwrap().to_bits(), value.to_bits());
        }
    }

    #[test]
    fn incomplete_observations_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let tasks: Vec<Task> = (0..3).map(|point| Task { point, first: 0, count: 2 }).collect();
        // Three tasks in two parts.
        let place = directory.path().join("round");
        fs::create_dir(&place).unwrap();
        let parts = Parts::new(place.clone(), 2, ["model", "run-tasks"]);
        let read = |printed: [&str; 2]| {
            for (part, text) in printed.iter().enumerate() {
                fs::write(place.join(format!("part-{part}")), text).unwrap();
            }
            fs::write(place.join("error-1"), "no memory\n").unwrap();
            observations(&parts, &tasks)
        };
        let whole = read(["1 2\n5 6\nend\n", "3 inf\nend\n"]).unwrap();
        assert_eq!(whole, [vec![1.0, 2.0], vec![3.0, f64::INFINITY], vec![5.0, 6.0]]);
        for parts in [
            ["1 2\n5 6\nend\n", "3 4\n"],
            ["1 2\n5 6\nend\n", "3\nend\n"],
            ["1 2\n5 6\nend\n", "3 x\nend\n"],
            ["1 2\nend\n", "3 4\nend\n"],
            ["1 2\n5 6\nend\n", ""],
        ] {
            let error = read(parts).unwrap_err().to_string();
            assert!(error.contains("missing") && error.contains("part 1: no memory"), "{error}");
        }
    }
}
