//! Runs that start a program.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::sync::MutexGuard;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::{Map, Value, json};

use super::outcome::{RunFailure, RunResult};
use crate::experiment::{Command, Experiment, SeededRun, Values};
use crate::leftovers;
use crate::programs::{find, search_path};

/// Bytes at the end of what a program printed that are kept for a failed run.
const LOG_LEN: u64 = 64 * 1024;
/// Longest line with responses.
const LINE_LEN: usize = 64 * 1024;
pub(super) fn check(command: &Command, values: &Values, directory: &Path) -> Result<(), String> {
    find(&command.words[0].fill(values), directory).map(|_| ())
}

pub(super) fn run(
    experiment: &Experiment,
    base: &Path,
    command: &Command,
    (run, id): (SeededRun, &str),
) -> RunResult {
    let values = &experiment.values(run);
    let starting = leftovers::starting();
    let failed = |error: std::io::Error| format!("the run cannot be started: {error}");
    let directory = leftovers::directory(&starting).map_err(failed)?;
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
    process.env("TMPDIR", &temporary);
    if let Ok(joined) = std::env::join_paths(search_path()) {
        process.env("PATH", joined);
    }
    process.envs(
        command.environment.iter().map(|(name, value)| (name, OsString::from(value.fill(values)))),
    );
    process.stdin(input).stdout(File::create(path("stdout")).map_err(failed)?);
    process.stderr(File::create(path("stderr")).map_err(failed)?);
    let limit = Duration::from_millis(experiment.budget.run_time_ms);
    let outcome = perform(process, limit, (&mark, starting));
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
    (mark, starting): (&str, MutexGuard<'static, ()>),
) -> std::io::Result<Option<ExitStatus>> {
    let mut child = leftovers::spawn(&mut process, mark, &starting)?;
    drop(starting);
    let ended = wait(&child, limit);
    // Blocks if the program was ended by an interrupt.
    drop(leftovers::starting());
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
    fn responses_are_read_from_the_last_line() {
        let found = responses("note\n{\"a\": 1, \"b\": 2.5, \"c\": \"x\"}\n\n").unwrap();
        assert_eq!(found, [("a".to_owned(), 1.0), ("b".to_owned(), 2.5)].into());
        for output in ["", "\n", "1", "{\"a\": 1", "[1]"] {
            let error = responses(output).unwrap_err();
            assert!(error.starts_with("expected a JSON object"), "{error}");
        }
    }
}
