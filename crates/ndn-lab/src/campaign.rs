//! Performs the missing runs of an experiment and stores their results.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use ndn_sys::clock::Clock;
use ndn_types::duration_ms;

use crate::execute::{Prepared, RunFailure};
use crate::experiment::{Budget, SeededRun};
use crate::results::{Results, ResultsError, StoredRun};

/// Progress after a run.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// The run.
    pub run: &'a StoredRun,
    /// Runs that were performed.
    pub done: usize,
    /// Runs to perform.
    pub total: usize,
    /// Estimated time until the last one.
    pub rest: Duration,
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

/// Performs `runs` in their order, `jobs` at a time, and stores each as it ends.
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
    let (sender, receiver) = mpsc::channel::<StoredRun>();
    let work = |sender: mpsc::Sender<StoredRun>| {
        while !is_stopped.load(Ordering::Relaxed) {
            let elapsed_ms = duration_ms(clock.now() - begin);
            if budget.time_ms.is_some_and(|limit| spent_ms + elapsed_ms >= limit) {
                return;
            }
            let Some(run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
            if sender.send(perform_one(prepared, *run, &id, clock)).is_err() {
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
        let mut summary = Summary::default();
        for run in &receiver {
            if let Err(error) = results.add(&run) {
                // Runs that are being performed end, and are lost.
                is_stopped.store(true, Ordering::Relaxed);
                return Err(error);
            }
            let count = match run.error {
                Some(_) => &mut summary.failed,
                None => &mut summary.succeeded,
            };
            *count += 1;
            let done = summary.succeeded + summary.failed;
            let rest = estimate_rest(clock.now() - begin, done, runs.len() - done);
            progress(Progress { run: &run, done, total: runs.len(), rest });
        }
        summary.left = runs.len() - summary.succeeded - summary.failed;
        Ok(summary)
    })
}

/// Estimated time for the runs that are left, if `done` took this long.
pub fn estimate_rest(elapsed: Duration, done: usize, left: usize) -> Duration {
    elapsed.mul_f64(left as f64 / done.max(1) as f64)
}

/// Performs a run of the experiment with this identifier. The index of its session is 0.
pub fn perform_one(prepared: &Prepared<'_>, run: SeededRun, id: &str, clock: &Clock) -> StoredRun {
    let (start, start_ms) = (clock.now(), clock.unix_time().as_millis() as u64);
    let outcome = prepared.run(run, id);
    let duration_ms = duration_ms(clock.now() - start);
    let (responses, error, log) = match outcome {
        Ok(responses) => (responses, None, None),
        Err(RunFailure { reason, log }) => {
            (std::collections::BTreeMap::new(), Some(reason), Some(log))
        }
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
