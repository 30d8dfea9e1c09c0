//! Performs the missing runs of an experiment and stores their results.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ndn_sys::clock::Clock;
use ndn_types::{Timestamp, duration_ms};

use crate::execute::{Prepared, RunFailure};
use crate::experiment::{Budget, SeededRun};
use crate::progress::RunProgress;
use crate::results::{Results, ResultsError, StoredRun};

/// Time between two reports of progress while no run ends.
const INTERVAL: Duration = Duration::from_millis(250);

/// Progress of an experiment: after a run, and at intervals during runs.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// The run that has just ended.
    pub ended: Option<&'a StoredRun>,
    /// Runs that are being performed, in the order of their starts.
    pub running: &'a [RunningRun],
    /// Runs that were performed.
    pub done: usize,
    /// Runs to perform.
    pub total: usize,
    /// Estimated time until the end of the last one; `None` before there is an estimate.
    pub rest: Option<Duration>,
}

/// A run that is being performed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunningRun {
    /// Its cell.
    pub cell: usize,
    /// Time since its start.
    pub elapsed: Duration,
    /// The share of its load that is done, if known.
    pub share: Option<f64>,
}

/// Numbers of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    /// Runs that gave responses.
    pub succeeded: usize,
    /// Runs that failed.
    pub failed: usize,
    /// Runs that were not started because the time of the budget was over.
    pub left: usize,
}

/// A run that has begun.
struct Started {
    cell: usize,
    start: Timestamp,
    progress: Arc<RunProgress>,
}

impl Started {
    fn at(&self, now: Timestamp) -> RunningRun {
        RunningRun { cell: self.cell, elapsed: now - self.start, share: self.progress.share() }
    }
}

/// Performs `runs` in their order, `jobs` at a time, and stores each as it ends. Reports progress after each, and four times a second.
///
/// # Errors
/// A result cannot be stored; runs that were stored before stay.
pub fn perform(
    prepared: &Prepared<'_>,
    results: &mut Results,
    (runs, budget): (&[SeededRun], Budget),
    jobs: NonZeroUsize,
    clock: &Clock,
    mut progress: impl FnMut(Progress<'_>),
) -> Result<Summary, ResultsError> {
    let spent_ms: u64 = results.runs()?.iter().map(|run| run.duration_ms).sum();
    let id = results.id().to_owned();
    let begin = clock.now();
    let (next, is_stopped) = (AtomicUsize::new(0), AtomicBool::new(false));
    // By their places in `runs`.
    let started: Mutex<BTreeMap<usize, Started>> = Mutex::default();
    let (sender, receiver) = mpsc::channel::<StoredRun>();
    let work = |sender: mpsc::Sender<StoredRun>| {
        while !is_stopped.load(Ordering::Relaxed) {
            let elapsed_ms = duration_ms(clock.now() - begin);
            if budget.time_ms.is_some_and(|limit| spent_ms + elapsed_ms >= limit) {
                return;
            }
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(run) = runs.get(number) else { return };
            let progress = Arc::new(RunProgress::default());
            let (cell, start) = (run.run.cell, clock.now());
            let own = Started { cell, start, progress: Arc::clone(&progress) };
            lock(&started).insert(number, own);
            let ended = perform_one(prepared, (*run, &id), &progress, clock);
            lock(&started).remove(&number);
            if sender.send(ended).is_err() {
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs.get().min(runs.len()) {
            let (sender, work) = (sender.clone(), &work);
            scope.spawn(move || work(sender));
        }
        drop(sender);
        let (mut summary, mut spent) = (Summary::default(), Duration::ZERO);
        loop {
            let ended = match receiver.recv_timeout(INTERVAL) {
                Ok(run) => Some(run),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if let Some(run) = &ended {
                if let Err(error) = results.add(run) {
                    // Runs that are being performed end, and are lost.
                    is_stopped.store(true, Ordering::Relaxed);
                    return Err(error);
                }
                let count = match run.error {
                    Some(_) => &mut summary.failed,
                    None => &mut summary.succeeded,
                };
                *count += 1;
                spent += Duration::from_millis(run.duration_ms);
            }
            let (done, total) = (summary.succeeded + summary.failed, runs.len());
            let own = lock(&started);
            // Later than their starts.
            let now = clock.now();
            let running: Vec<_> = own.values().map(|one| one.at(now)).collect();
            drop(own);
            let share = |run: &RunningRun| match run.share {
                Some(share) => share,
                None if done == 0 => 0.0,
                // It probably takes as long as the others.
                None => (run.elapsed.as_secs_f64() * done as f64 / spent.as_secs_f64()).min(1.0),
            };
            let shares = running.iter().map(share).sum::<f64>();
            let rest = estimate_rest(now - begin, done as f64 + shares, total);
            progress(Progress { ended: ended.as_ref(), running: &running, done, total, rest });
        }
        summary.left = runs.len() - summary.succeeded - summary.failed;
        Ok(summary)
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Estimated time for the rest of all runs, if `done` of them, with parts of runs as fractions, took `elapsed`; `None` if nothing is
/// done.
#[must_use]
pub fn estimate_rest(elapsed: Duration, done: f64, total: usize) -> Option<Duration> {
    let left = (total as f64 - done).max(0.0);
    (done > 0.0)
        .then(|| Duration::try_from_secs_f64(elapsed.as_secs_f64() * left / done).ok())
        .flatten()
}

/// Performs a run of the experiment with this identifier. The index of its session is 0.
pub fn perform_one(
    prepared: &Prepared<'_>,
    (run, id): (SeededRun, &str),
    progress: &RunProgress,
    clock: &Clock,
) -> StoredRun {
    let (start, start_ms) = (clock.now(), clock.unix_time().as_millis() as u64);
    let outcome = prepared.run(run, id, progress);
    let duration_ms = duration_ms(clock.now() - start);
    let (responses, error, log) = match outcome {
        Ok(responses) => (responses, None, None),
        Err(RunFailure { reason, log }) => (BTreeMap::new(), Some(reason), Some(log)),
    };
    StoredRun {
        cell: run.run.cell,
        replication: run.run.replication,
        block: run.run.block,
        seed: run.seed,
        session: 0,
        start_ms,
        duration_ms,
        responses,
        error,
        log,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment;
    use crate::results::{Origin, Session};

    #[test]
    #[expect(clippy::disallowed_methods, reason = "programs run in real time")]
    fn progress_is_reported_during_runs() {
        let directory = tempfile::tempdir().unwrap();
        let script = "sleep 0.4; echo '{\"rate\": 1}'";
        std::fs::write(directory.path().join("run.sh"), script).unwrap();
        let text = "name = \"speed\"\nseed = 3\n[factors]\nsize = [1, 2]\n[responses]\nrate = \"1/s\"\n\
                    [executor]\nkind = \"command\"\ncommand = [\"sh\", \"run.sh\"]";
        let experiment = Experiment::parse(text).unwrap();
        let prepared = Prepared::new(&experiment, directory.path()).unwrap();
        let origin = Origin { text: text.to_owned(), directory: directory.path().to_owned() };
        let (program, machine) = ("test".to_owned(), "this one".to_owned());
        let session = Session { start_ms: 1, program, machine };
        let path = directory.path().join("results.sqlite");
        let mut results = Results::create(&path, "0123", &origin, &[], &session).unwrap();
        let runs = experiment.plan().unwrap();
        let planned = (&runs[..], experiment.budget);
        let (mut during, mut ends) = (0, Vec::new());
        let note = |progress: Progress<'_>| match progress.ended {
            Some(run) => ends.push((run.cell, progress.done, progress.rest.is_some())),
            None => {
                // Between the runs, none is running.
                assert!(progress.running.len() <= 1);
                during += progress.running.len();
            }
        };
        let jobs = NonZeroUsize::MIN;
        perform(&prepared, &mut results, planned, jobs, &Clock::system(), note).unwrap();
        assert!(during >= 2, "{during}");
        let cells = [runs[0].run.cell, runs[1].run.cell];
        assert_eq!(ends, [(cells[0], 1, true), (cells[1], 2, true)]);
    }

    #[test]
    fn parts_of_runs_count_for_the_estimate() {
        let second = Duration::from_secs(1);
        assert_eq!(estimate_rest(second, 0.0, 4), None);
        assert_eq!(estimate_rest(second, 0.5, 4), Some(7 * second));
        assert_eq!(estimate_rest(second, 4.0, 4), Some(Duration::ZERO));
    }
}
