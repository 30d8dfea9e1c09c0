//! Runs that start a program.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::{Map, Value, json};

use super::leftovers;
use super::outcome::{Outcome, RunFailure};
use crate::experiment::{Command, Experiment, SeededRun, Values};

/// Bytes at the end of what a program printed that are kept for a failed run.
const LOG_LEN: u64 = 64 * 1024;
/// Longest line with responses.
const LINE_LEN: usize = 64 * 1024;
/// Held while a program is started, and for ever by [`abandon_runs`].
static STARTING: Mutex<()> = Mutex::new(());

fn lock_starting() -> MutexGuard<'static, ()> {
    STARTING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Blocks all runs where they start a program and where its end is noticed: none of them starts another, or takes the end
/// for a result. The caller ends the programs and exits.
pub(super) fn abandon_runs() {
    std::mem::forget(lock_starting());
}

/// Directories in which programs are looked for: that of this program, then those of `PATH`.
fn search_path() -> Vec<PathBuf> {
    let own = std::env::current_exe().ok();
    let own = own.as_deref().and_then(Path::parent).map(Path::to_owned);
    let path = std::env::var_os("PATH").unwrap_or_default();
    own.into_iter().chain(std::env::split_paths(&path)).collect()
}

/// The file of a program: relative to the experiment if its name has a slash.
fn find(program: &str, directory: &Path) -> Result<PathBuf, String> {
    use std::os::unix::fs::PermissionsExt;
    let is_program = |path: &PathBuf| {
        fs::metadata(path)
            .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        let path = directory.join(program);
        return match is_program(&path) {
            true => Ok(path),
            false => Err(format!("{} is not a program", path.display())),
        };
    }
    let found = search_path().into_iter().map(|path| path.join(program)).find(is_program);
    found.ok_or_else(|| format!("the program '{program}' is not on PATH"))
}

pub(super) fn check(command: &Command, values: &Values, directory: &Path) -> Result<(), String> {
    find(&command.words[0].fill(values), directory).map(|_| ())
}

pub(super) fn run(
    experiment: &Experiment,
    base: &Path,
    command: &Command,
    (run, id): (SeededRun, &str),
) -> Outcome {
    let values = &experiment.values(run);
    let starting = lock_starting();
    let failed = |error: std::io::Error| format!("the run cannot be started: {error}");
    let directory = leftovers::directory(id).map_err(failed)?;
    let path = |name: &str| directory.path().join(name);
    let mut input = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path("input.json"))
        .map_err(failed)?;
    let written = writeln!(input, "{}", input_json(experiment, run)).and_then(|()| input.rewind());
    written.map_err(failed)?;
    let temporary = path("tmp");
    fs::create_dir(&temporary).map_err(failed)?;
    let words: Vec<String> = command.words.iter().map(|word| word.fill(values)).collect();
    let mut process = std::process::Command::new(find(&words[0], base)?);
    process.args(&words[1..]).current_dir(base);
    let mark = format!("{id}-{}-{}", run.run.cell, run.run.replication);
    process.env(leftovers::MARK, &mark).env("TMPDIR", &temporary);
    if let Ok(joined) = std::env::join_paths(search_path()) {
        process.env("PATH", joined);
    }
    process.envs(
        command.environment.iter().map(|(name, value)| (name, OsString::from(value.fill(values)))),
    );
    process.stdin(input).stdout(File::create(path("stdout")).map_err(failed)?);
    process.stderr(File::create(path("stderr")).map_err(failed)?);
    let limit = Duration::from_millis(experiment.budget.run_time_ms);
    let outcome = perform(process, limit, starting);
    // Programs that it started and did not end, or that are beyond its time.
    leftovers::end_processes(&mark);
    let output = tail(&path("stdout"));
    let log = || {
        let errors = tail(&path("stderr"));
        if output.is_empty() { errors } else { format!("{errors}standard output:\n{output}") }
    };
    let fail = |reason: String| RunFailure { reason, log: log() };
    match outcome.map_err(|error| fail(format!("{}: {error}", words[0])))? {
        None => Err(fail(format!("did not end within {limit:?}"))),
        Some(status) if !status.success() => {
            let errors = tail(&path("stderr"));
            let last = errors.lines().rev().find(|line| !line.trim().is_empty());
            let last = last.map(|line| format!(": {}", line.trim())).unwrap_or_default();
            Err(fail(format!("{status}{last}")))
        }
        Some(_) => responses(&output).map_err(fail),
    }
}

/// The standard input of a run.
fn input_json(experiment: &Experiment, run: SeededRun) -> Value {
    let levels = experiment.levels(run.run.cell);
    let factors: Map<String, Value> =
        levels.into_iter().map(|(name, level)| (name, Value::String(level))).collect();
    json!({
        "experiment": experiment.name,
        "cell": run.run.cell,
        "replication": run.run.replication,
        "seed": run.seed,
        "factors": factors,
    })
}

/// Runs a program to its end; `None` if it takes longer than `limit`.
fn perform(
    mut process: std::process::Command,
    limit: Duration,
    starting: MutexGuard<'static, ()>,
) -> std::io::Result<Option<ExitStatus>> {
    let mut child = process.spawn()?;
    drop(starting);
    let ended = wait(&child, limit);
    // Blocks if the program was ended by an interrupt.
    drop(lock_starting());
    if !matches!(ended, Ok(true)) {
        child.kill()?;
    }
    let status = child.wait()?;
    ended.map(|ended| ended.then_some(status))
}

/// Waits until the program ends, and returns whether it does within `limit`.
fn wait(child: &Child, limit: Duration) -> std::io::Result<bool> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| std::io::Error::other("a process without a number"))?;
    let descriptor = pidfd_open(pid, PidfdFlags::empty())?;
    let mut descriptors = [PollFd::from_borrowed_fd(descriptor.as_fd(), PollFlags::IN)];
    let limit = Timespec::try_from(limit).map_err(std::io::Error::other)?;
    loop {
        match poll(&mut descriptors, Some(&limit)) {
            Ok(ended) => return Ok(ended > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The last part of a file; empty if it cannot be read.
fn tail(path: &Path) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let len = file.metadata()?.len();
        file.seek(SeekFrom::Start(len.saturating_sub(LOG_LEN)))?;
        let mut bytes = Vec::new();
        file.take(LOG_LEN).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

/// The responses in the last line of what the program printed.
fn responses(output: &str) -> Result<BTreeMap<String, f64>, String> {
    let expected = "expected a JSON object of numbers as the last line of standard output";
    let line = output.lines().rev().find(|line| !line.trim().is_empty());
    let line = line.ok_or_else(|| format!("{expected}, and it printed nothing"))?;
    if line.len() >= LINE_LEN {
        return Err(format!("{expected}, of less than {LINE_LEN} bytes"));
    }
    let object: Map<String, Value> =
        serde_json::from_str(line).map_err(|error| format!("{expected}: {error}"))?;
    // Other members may be anything: only responses have to be numbers.
    let numbers = object.into_iter().filter_map(|(name, value)| Some((name, value.as_f64()?)));
    Ok(numbers.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_in_the_last_line() {
        let found = responses("note\n{\"a\": 1, \"b\": 2.5, \"c\": \"x\"}\n\n").unwrap();
        assert_eq!(found, [("a".to_owned(), 1.0), ("b".to_owned(), 2.5)].into());
        for output in ["", "\n", "1", "{\"a\": 1", "[1]"] {
            let error = responses(output).unwrap_err();
            assert!(error.starts_with("expected a JSON object"), "{error}");
        }
    }

    #[test]
    fn programs_are_on_the_path_or_beside_the_experiment() {
        let directory = tempfile::tempdir().unwrap();
        assert!(find("sh", directory.path()).unwrap().ends_with("sh"));
        assert!(find("no-such-program", directory.path()).unwrap_err().contains("on PATH"));
        let error = find("./run", directory.path()).unwrap_err();
        assert!(error.contains("is not a program"), "{error}");
        std::os::unix::fs::symlink("/bin/sh", directory.path().join("run")).unwrap();
        assert_eq!(find("./run", directory.path()).unwrap(), directory.path().join("./run"));
    }
}
