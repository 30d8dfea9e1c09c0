//! Engines that run lists of tasks: this process, or Slurm, Dask and Ray on several machines.
//!
//! A list is a file in a directory of its own. The other engines run a command of this program for each part of the list;
//! what it prints is in a file beside the list, and its last line is [`END`]. The order in which parts run and end makes no
//! difference.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use clap::{Args, ValueEnum};
use rustix::process::{Pid, Signal, kill_process};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::cli::failure::{Failure, Outcome};
use crate::cli::output;

/// Parts of a list at most: Slurm's arrays have up to 1,000 elements, unless its `MaxArraySize` is raised.
pub(in crate::cli) const PARTS_MAX: usize = 1000;
/// The list of tasks in its directory.
const LIST: &str = "tasks.json";
/// The last line of what a part prints: without it, the output is not complete.
const END: &str = "end";
/// Output of the engine itself.
const ENGINE_ERROR: &str = "engine-error";
/// Interval at which the output of parts is read.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum EngineName {
    /// This process
    Threads,
    /// Job arrays of Slurm (sbatch)
    Slurm,
    /// Dask: the Python package distributed
    Dask,
    /// Ray: the Python package ray
    Ray,
}

#[derive(Args, Debug)]
pub(in crate::cli) struct EngineOptions {
    /// Program that distributes the work; the result does not depend on it
    ///
    /// All machines have this program at the same path. Slurm's have the directory of --tasks in common.
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

impl EngineOptions {
    /// A directory for the lists of another engine; `None` for this process.
    ///
    /// # Errors
    /// The directory cannot be made, or arguments are given for this process.
    pub(in crate::cli) fn directory(&self) -> Outcome<Option<tempfile::TempDir>> {
        if self.engine == EngineName::Threads {
            return match self.arguments.is_empty() {
                true => Ok(None),
                false => Err(Failure::Usage(
                    "--engine-argument is for --engine slurm, dask or ray".to_owned(),
                )),
            };
        }
        let place = self.tasks.clone().unwrap_or_else(std::env::temp_dir);
        let made = tempfile::Builder::new().prefix("namewire-tasks-").tempdir_in(&place);
        made.map(Some).map_err(|error| Failure::file(place.display(), &error))
    }
}

#[derive(Args, Debug)]
pub(in crate::cli) struct PartOptions {
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

/// The field that every list of tasks has.
#[derive(Deserialize)]
struct Versioned {
    namewire: String,
}

impl PartOptions {
    /// A failure that names the list.
    pub(in crate::cli) fn failure(&self, error: impl std::fmt::Display) -> Failure {
        Failure::input(self.list.display(), error)
    }

    /// The list.
    ///
    /// # Errors
    /// It cannot be read, is malformed, or belongs to another version of the program, which may have other results.
    pub(in crate::cli) fn read<T: DeserializeOwned>(&self) -> Outcome<T> {
        let text = crate::cli::input::read_text(&self.list)?;
        let Versioned { namewire } =
            serde_json::from_str(&text).map_err(|error| self.failure(error))?;
        if namewire != env!("CARGO_PKG_VERSION") {
            return Err(self.failure(format_args!(
                "the tasks are of namewire {namewire}, and this is {}: all machines need the same version",
                env!("CARGO_PKG_VERSION")
            )));
        }
        serde_json::from_str(&text).map_err(|error| self.failure(error))
    }

    /// The tasks of the part: every one whose number is that of the part, modulo the number of parts.
    pub(in crate::cli) fn of<'a, T>(&self, tasks: &'a [T]) -> impl Iterator<Item = &'a T> {
        let (number, parts) = self.part;
        tasks.iter().skip(number).step_by(parts)
    }

    /// Completes what a part prints.
    pub(in crate::cli) fn end(&self) -> Outcome {
        Ok(output::print_line(END)?)
    }
}

/// A list whose parts another engine runs.
#[derive(Debug)]
pub(in crate::cli) struct Parts {
    place: PathBuf,
    count: usize,
    /// The command of this program that runs a part.
    command: [&'static str; 2],
}

/// The engine that runs, for [`stop`].
static RUNNING: Mutex<Option<Running>> = Mutex::new(None);

struct Running {
    process: Pid,
    /// Name of a job of Slurm.
    job: Option<String>,
}

fn set_running(running: Option<Running>) {
    *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) = running;
}

/// Ends the engine that runs, and its jobs, before this process exits.
pub(in crate::cli) fn stop() {
    let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(Running { process, job }) = running else { return };
    if let Some(job) = job {
        let _ = Command::new("scancel").arg(format!("--name={job}")).status();
    }
    let _ = kill_process(process, Signal::TERM);
}

impl Parts {
    /// A list of some number of tasks, in the directory `place`, which is made by [`Self::write`].
    pub(in crate::cli) fn new(place: PathBuf, tasks: usize, command: [&'static str; 2]) -> Self {
        Self { place, count: tasks.min(PARTS_MAX), command }
    }

    /// Number of parts.
    pub(in crate::cli) fn count(&self) -> usize {
        self.count
    }

    fn on_disk(&self) -> impl Fn(std::io::Error) -> Failure + '_ {
        |error| Failure::file(self.place.display(), &error)
    }

    /// Writes the list, which has a field `namewire` with the version.
    pub(in crate::cli) fn write(&self, list: &impl Serialize) -> Outcome {
        let text =
            serde_json::to_string(list).map_err(|error| Failure::Failed(error.to_string()))?;
        fs::create_dir(&self.place).map_err(self.on_disk())?;
        fs::write(self.place.join(LIST), text).map_err(self.on_disk())
    }

    /// Runs all parts, and calls `poll` several times a second meanwhile.
    ///
    /// # Errors
    /// The engine or a part of the list failed, with its words; and those of `poll`.
    pub(in crate::cli) fn run(
        &self,
        options: &EngineOptions,
        mut poll: impl FnMut() -> Outcome,
    ) -> Outcome {
        let program = std::env::current_exe().map_err(|error| Failure::file("namewire", &error))?;
        let job = format!("namewire-{}", std::process::id());
        let (mut command, what) = match options.engine {
            EngineName::Threads => return Ok(()),
            EngineName::Slurm => (self.slurm(&program, &job, &options.arguments), "sbatch"),
            EngineName::Dask => (self.python(&program, options, DASK), options.python.as_str()),
            EngineName::Ray => (self.python(&program, options, RAY), options.python.as_str()),
        };
        let error_path = self.place.join(ENGINE_ERROR);
        let errors = fs::File::create(&error_path).map_err(self.on_disk())?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
        let started = command.spawn();
        let mut child = started.map_err(|error| Failure::Failed(format!("{what}: {error}")))?;
        let job = (options.engine == EngineName::Slurm).then_some(job);
        set_running(Some(Running { process: Pid::from_child(&child), job }));
        let status = loop {
            let ended = child.try_wait().map_err(self.on_disk())?;
            if let Some(status) = ended {
                break status;
            }
            if let Err(failure) = poll() {
                stop();
                let _ = child.wait();
                return Err(failure);
            }
            std::thread::sleep(POLL_INTERVAL);
        };
        set_running(None);
        if status.success() {
            return Ok(());
        }
        let printed = fs::read_to_string(&error_path).unwrap_or_default();
        let text = format!("{what}: {status}: {}", printed.trim());
        Err(Failure::Failed(match self.first_error() {
            Some(error) => format!("{text}; {error}"),
            None => text,
        }))
    }

    fn slurm(&self, program: &Path, job: &str, arguments: &[String]) -> Command {
        let program = quoted(&program.to_string_lossy());
        let ([group, verb], parts) = (self.command, self.count);
        let mut command = Command::new("sbatch");
        command.args(["--wait", "--quiet", "--output=part-%a", "--error=error-%a"]);
        command.arg(format!("--array=0-{}", parts - 1)).arg(format!("--job-name={job}"));
        command.arg(format!("--chdir={}", self.place.display())).args(arguments);
        command.arg(format!(
            "--wrap=exec {program} {group} {verb} {LIST} --part $SLURM_ARRAY_TASK_ID/{parts}"
        ));
        command
    }

    fn python(&self, program: &Path, options: &EngineOptions, engine: &str) -> Command {
        let mut command = Command::new(&options.python);
        command.arg("-c").arg(format!("{PYTHON}{engine}{PYTHON_END}"));
        // Not as its current directory: the interpreter may be a path relative to that of this program.
        command.arg(&self.place).arg(program).args(self.command);
        command.arg(self.count.to_string()).args(&options.arguments);
        // Its files are removed with the list.
        if std::env::var_os("DASK_TEMPORARY_DIRECTORY").is_none() {
            command.env("DASK_TEMPORARY_DIRECTORY", &self.place);
        }
        command
    }

    /// The error output of the first part that failed.
    fn first_error(&self) -> Option<String> {
        (0..self.count).find_map(|part| {
            let text = fs::read_to_string(self.place.join(format!("error-{part}"))).ok()?;
            let text = text.trim();
            (!text.is_empty()).then(|| format!("part {part}: {text}"))
        })
    }

    /// The lines that a part has printed so far, and whether these are all.
    pub(in crate::cli) fn printed(&self, part: usize) -> (Vec<String>, bool) {
        let text = fs::read_to_string(self.place.join(format!("part-{part}"))).unwrap_or_default();
        let whole = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
        let mut lines: Vec<String> = whole.map(str::to_owned).collect();
        let is_complete = lines.pop_if(|line| line == END).is_some();
        (lines, is_complete)
    }

    /// The failure of a part whose output is not complete.
    pub(in crate::cli) fn incomplete(&self, part: usize) -> Failure {
        let error = self.first_error().map_or_else(String::new, |error| format!(" ({error})"));
        let path = self.place.join(format!("part-{part}"));
        Failure::Failed(format!("{}: results are missing{error}", path.display()))
    }

    /// Removes the list, and what was printed.
    pub(in crate::cli) fn remove(&self) -> Outcome {
        fs::remove_dir_all(&self.place).map_err(self.on_disk())
    }
}

/// A word of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The adapter to engines in Python: gives them the list and the number of each part, and writes what parts print as they end.
const PYTHON: &str = r#"
import os, subprocess, sys
directory, program, group, verb, parts = sys.argv[1:6]
parts, arguments = int(parts), sys.argv[6:]
os.chdir(directory)
tasks = open("tasks.json", "rb").read()
def run(tasks, part):
    command = [program, group, verb, "-", "--part", f"{part}/{parts}"]
    done = subprocess.run(command, input=tasks, capture_output=True)
    return done.returncode, done.stdout, done.stderr
def run_all():
"#;
const DASK: &str = r#"
    from distributed import Client, as_completed
    # On this machine, without a network: the tasks run in processes of their own.
    client = Client(arguments[0]) if arguments else Client(processes=False, dashboard_address=None)
    with client:
        shared = client.scatter(tasks, broadcast=True)
        waiting = {client.submit(run, shared, part, pure=False): part for part in range(parts)}
        for future in as_completed(list(waiting)):
            yield waiting[future], future.result()
"#;
const RAY: &str = r#"
    import ray
    ray.init(address=arguments[0] if arguments else None, include_dashboard=False, log_to_driver=False)
    shared, remote = ray.put(tasks), ray.remote(run)
    waiting = {remote.remote(shared, part): part for part in range(parts)}
    while waiting:
        for done in ray.wait(list(waiting))[0]:
            yield waiting.pop(done), ray.get(done)
"#;
const PYTHON_END: &str = r#"
status = 0
for part, (code, printed, error) in run_all():
    open(f"error-{part}", "wb").write(error)
    open(f"part-{part}", "wb").write(printed)
    status = max(status, abs(code))
sys.exit(min(status, 125))
"#;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn output_is_complete_with_its_last_line() {
        let directory = tempfile::tempdir().unwrap();
        let parts = Parts::new(directory.path().join("list"), 2, ["model", "run-tasks"]);
        fs::create_dir(directory.path().join("list")).unwrap();
        let printed = |text: &str| {
            fs::write(directory.path().join("list/part-1"), text).unwrap();
            parts.printed(1)
        };
        assert_eq!(parts.printed(0), (Vec::new(), false));
        assert_eq!(printed("1 2\nhal"), (vec!["1 2".to_owned()], false));
        assert_eq!(printed("1 2\n3\nend"), (vec!["1 2".to_owned(), "3".to_owned()], false));
        assert_eq!(printed("1 2\nend\n"), (vec!["1 2".to_owned()], true));
        assert_eq!(printed("end\n"), (Vec::new(), true));
        fs::write(directory.path().join("list/error-1"), "no memory\n").unwrap();
        let error = parts.incomplete(0).to_string();
        assert!(error.contains("part-0: results are missing (part 1: no memory)"), "{error}");
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
