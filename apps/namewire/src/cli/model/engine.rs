//! Engines that run the traces of a sweep: this process, or Slurm, Dask and Ray on several machines.
//!
//! A round of a sweep is a list of tasks in a file. The other engines run `namewire model run-tasks` for each part of the
//! list; what it prints is in a file beside the list. The order in which parts run and end makes no difference: the
//! observations are taken in the order of the list.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Args, ValueEnum};
use ndn_model::check::Runner;
use ndn_model::explore::{Sweep, Task};
use ndn_model::file::Model;
use ndn_model::property::Property;
use serde::{Deserialize, Serialize};

use super::super::failure::{Failure, Outcome};
use super::super::output;
use super::question::{Question, read, usage};

/// Traces of a point in one round of this process.
const BATCH: u32 = 32;
/// The same for the other engines, which take seconds for a round. It doubles from round to round.
const ENGINE_BATCH: u32 = 256;
const ENGINE_BATCH_MAX: u32 = 8192;
/// Traces of a task of the other engines.
const PIECE: u32 = 256;
/// Parts of a round at most: Slurm's arrays have up to 1,000 elements, unless its `MaxArraySize` is raised.
const PARTS_MAX: usize = 1000;
/// The list of tasks in its directory.
const LIST: &str = "tasks.json";
/// The last line of the observations of a part: without it, they are not complete.
const END: &str = "end";
const JOB_NAME: &str = "namewire-sweep";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum EngineName {
    /// Threads of this process
    Threads,
    /// Job arrays of Slurm (sbatch)
    Slurm,
    /// Dask: the Python package distributed
    Dask,
    /// Ray: the Python package ray
    Ray,
}

#[derive(Args, Debug)]
pub(super) struct EngineOptions {
    /// Program that runs the traces; the result does not depend on it
    ///
    /// All machines have this program at the same path. Slurm's have the directory of --tasks in common; --threads is
    /// for threads only.
    #[arg(long, value_enum, default_value = "threads")]
    engine: EngineName,
    /// Argument of the engine: an option of sbatch, or the address of the scheduler of Dask or Ray
    ///
    /// Without an address, Dask and Ray use this machine.
    #[arg(long = "engine-argument", value_name = "ARGUMENT", allow_hyphen_values = true)]
    arguments: Vec<String>,
    /// Directory for the tasks of Slurm, Dask and Ray and what they print [default: that for temporary files]
    #[arg(long, value_name = "DIRECTORY")]
    tasks: Option<PathBuf>,
    /// Python interpreter with distributed or ray
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    python: String,
}

#[derive(Args, Debug)]
pub(super) struct RunTasksOptions {
    /// List of tasks; - is standard input
    list: PathBuf,
    /// Number of the part, from 0, and of parts
    #[arg(long, value_name = "NUMBER/PARTS", value_parser = part)]
    part: (usize, usize),
}

fn part(text: &str) -> Result<(usize, usize), String> {
    let numbers = text.split_once('/').map(|(number, parts)| (number.parse(), parts.parse()));
    match numbers {
        Some((Ok(number), Ok(parts))) if number < parts => Ok((number, parts)),
        _ => Err("a number and the number of parts, such as 0/8".to_owned()),
    }
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

/// Runs a part of the tasks of a list: every one whose number is that of the part, modulo the number of parts.
pub(super) fn run_tasks(options: &RunTasksOptions) -> Outcome {
    let is_standard_input = options.list == Path::new("-");
    let text = if is_standard_input {
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .map_err(|error| Failure::file("standard input", &error))?;
        text
    } else {
        read(&options.list)?
    };
    let in_list =
        |error: &dyn std::fmt::Display| usage(format_args!("{}: {error}", options.list.display()));
    let list: TaskList = serde_json::from_str(&text).map_err(|error| in_list(&error))?;
    if list.namewire != env!("CARGO_PKG_VERSION") {
        let reason = format!(
            "the tasks are of namewire {}, and this is {}: all machines need the same version",
            list.namewire,
            env!("CARGO_PKG_VERSION")
        );
        return Err(in_list(&reason));
    }
    let (number, parts) = options.part;
    for task in list.tasks.iter().skip(number).step_by(parts) {
        let model =
            Model::parse_with(&list.model, &task.changes).map_err(|error| in_list(&error))?;
        let property = Property::parse(&list.property, &model).map_err(|error| in_list(&error))?;
        let mut runner = Runner::new(&model, &property, list.seed);
        let end = task.first.checked_add(task.count).ok_or_else(|| in_list(&"too many traces"))?;
        let values: Vec<String> =
            (task.first..end).map(|trace| written(runner.observe(trace))).collect();
        output::print_line(&values.join(" "))?;
    }
    output::print_line(END)?;
    Ok(())
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
        let is_local = options.engine == EngineName::Threads;
        if is_local && !options.arguments.is_empty() {
            return Err(usage("--engine-argument is for --engine slurm, dask or ray"));
        }
        let directory = if is_local {
            None
        } else {
            let place = options.tasks.clone().unwrap_or_else(std::env::temp_dir);
            let made = tempfile::Builder::new().prefix("namewire-sweep-").tempdir_in(&place);
            Some(made.map_err(|error| Failure::file(place.display(), &error))?)
        };
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
        let round = Round { place, parts: tasks.len().min(PARTS_MAX) };
        let run = || {
            round.write(sweep, tasks, self.question, self.model)?;
            round.run(self.options)?;
            round.read(tasks)
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

/// A round of another engine: its directory, and in how many parts its tasks run.
#[derive(Debug)]
struct Round {
    place: PathBuf,
    parts: usize,
}

impl Round {
    fn on_disk(&self) -> impl Fn(std::io::Error) -> Failure + '_ {
        |error| Failure::file(self.place.display(), &error)
    }

    fn write(&self, sweep: &Sweep, tasks: &[Task], question: &Question, model: &str) -> Outcome {
        let tasks = tasks.iter().map(|task| PointTask {
            changes: sweep.points()[task.point].changes.clone(),
            first: task.first,
            count: task.count,
        });
        let list = TaskList {
            namewire: env!("CARGO_PKG_VERSION").to_owned(),
            model: model.to_owned(),
            property: question.property.clone(),
            seed: question.seed,
            tasks: tasks.collect(),
        };
        let text = serde_json::to_string(&list).map_err(usage)?;
        fs::create_dir(&self.place).map_err(self.on_disk())?;
        fs::write(self.place.join(LIST), text).map_err(self.on_disk())
    }

    fn run(&self, options: &EngineOptions) -> Outcome {
        let program = std::env::current_exe().map_err(|error| Failure::file("namewire", &error))?;
        let (mut command, what) = match options.engine {
            EngineName::Threads => return Ok(()),
            EngineName::Slurm => (self.slurm(&program, &options.arguments), "sbatch"),
            EngineName::Dask => (self.python(&program, options, DASK), options.python.as_str()),
            EngineName::Ray => (self.python(&program, options, RAY), options.python.as_str()),
        };
        let started = command.output();
        let done = started.map_err(|error| Failure::Failed(format!("{what}: {error}")))?;
        if done.status.success() {
            return Ok(());
        }
        let printed = String::from_utf8_lossy(&done.stderr);
        let text = format!("{what}: {}: {}", done.status, printed.trim());
        Err(Failure::Failed(
            self.first_error().map_or(text.clone(), |error| format!("{text}; {error}")),
        ))
    }

    fn slurm(&self, program: &Path, arguments: &[String]) -> Command {
        let program = quoted(&program.to_string_lossy());
        let parts = self.parts;
        let mut command = Command::new("sbatch");
        command.args(["--wait", "--quiet", "--output=part-%a", "--error=error-%a"]);
        command.arg(format!("--array=0-{}", parts - 1)).arg(format!("--job-name={JOB_NAME}"));
        command.arg(format!("--chdir={}", self.place.display())).args(arguments);
        command.arg(format!(
            "--wrap=exec {program} model run-tasks {LIST} --part $SLURM_ARRAY_TASK_ID/{parts}"
        ));
        command
    }

    fn python(&self, program: &Path, options: &EngineOptions, engine: &str) -> Command {
        let mut command = Command::new(&options.python);
        command.arg("-c").arg(format!("{PYTHON}{engine}{PYTHON_END}"));
        // Not as its current directory: the interpreter may be a path relative to that of this program.
        command.arg(&self.place).arg(program).arg(self.parts.to_string()).args(&options.arguments);
        command
    }

    /// The error output of the first part that failed.
    fn first_error(&self) -> Option<String> {
        (0..self.parts).find_map(|part| {
            let text = fs::read_to_string(self.place.join(format!("error-{part}"))).ok()?;
            let text = text.trim();
            (!text.is_empty()).then(|| format!("part {part}: {text}"))
        })
    }

    /// The observations of all tasks.
    fn read(&self, tasks: &[Task]) -> Outcome<Vec<Vec<f64>>> {
        let mut values = vec![Vec::new(); tasks.len()];
        for part in 0..self.parts {
            let path = self.place.join(format!("part-{part}"));
            let incomplete = || {
                let error =
                    self.first_error().map_or_else(String::new, |error| format!(" ({error})"));
                Failure::Failed(format!("{}: observations are missing{error}", path.display()))
            };
            let text = fs::read_to_string(&path).map_err(|_| incomplete())?;
            let mut lines = text.lines();
            for index in (part..tasks.len()).step_by(self.parts) {
                let line = lines.next().ok_or_else(incomplete)?;
                let parsed: Option<Vec<f64>> =
                    line.split_ascii_whitespace().map(|value| value.parse().ok()).collect();
                let parsed = parsed.filter(|values| values.len() == tasks[index].count as usize);
                values[index] = parsed.ok_or_else(incomplete)?;
            }
            if lines.next() != Some(END) {
                return Err(incomplete());
            }
        }
        fs::remove_dir_all(&self.place).map_err(self.on_disk())?;
        Ok(values)
    }
}

/// A word of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The adapter to engines in Python: gives them the list and the number of each part, and writes what parts print.
const PYTHON: &str = r#"
import os, subprocess, sys
program, parts, arguments = sys.argv[2], int(sys.argv[3]), sys.argv[4:]
os.chdir(sys.argv[1])
tasks = open("tasks.json", "rb").read()
def run(tasks, part):
    command = [program, "model", "run-tasks", "-", "--part", f"{part}/{parts}"]
    done = subprocess.run(command, input=tasks, capture_output=True)
    return done.returncode, done.stdout, done.stderr
def run_all():
"#;
const DASK: &str = r#"
    from distributed import Client
    # On this machine, without a network: the traces run in processes of their own.
    client = Client(arguments[0]) if arguments else Client(processes=False, dashboard_address=None)
    with client:
        shared = client.scatter(tasks, broadcast=True)
        return client.gather([client.submit(run, shared, part, pure=False) for part in range(parts)])
"#;
const RAY: &str = r#"
    import ray
    ray.init(address=arguments[0] if arguments else None, include_dashboard=False, log_to_driver=False)
    shared, remote = ray.put(tasks), ray.remote(run)
    return ray.get([remote.remote(shared, part) for part in range(parts)])
"#;
const PYTHON_END: &str = r#"
status = 0
for part, (code, printed, error) in enumerate(run_all()):
    open(f"part-{part}", "wb").write(printed)
    open(f"error-{part}", "wb").write(error)
    status = max(status, abs(code))
sys.exit(min(status, 125))
"#;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
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
        let read = |parts: [&str; 2]| {
            let round = Round { place: directory.path().join("round"), parts: 2 };
            fs::create_dir_all(&round.place).unwrap();
            for (part, text) in parts.iter().enumerate() {
                fs::write(round.place.join(format!("part-{part}")), text).unwrap();
            }
            fs::write(round.place.join("error-1"), "no memory\n").unwrap();
            round.read(&tasks)
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

    #[test]
    fn parts_and_words_of_a_shell_are_checked() {
        assert_eq!(part("3/4"), Ok((3, 4)));
        for wrong in ["4/4", "0/0", "1", "a/2", "-1/2"] {
            assert!(part(wrong).is_err(), "{wrong}");
        }
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
