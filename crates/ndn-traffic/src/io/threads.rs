//! Several consumers or producers, each with its own faces and thread.

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::driver::{RunError, RunFigures, run_consumer, run_producer};
use super::endpoint::Endpoint;
use crate::{Consumer, ConsumerTotals, Producer};

/// Divides faces between threads round-robin; each gets at least one if there are enough.
#[must_use]
pub fn divide(endpoints: Vec<Endpoint>, threads: usize) -> Vec<Vec<Endpoint>> {
    let mut parts: Vec<Vec<Endpoint>> = (0..threads.max(1)).map(|_| Vec::new()).collect();
    for (index, endpoint) in endpoints.into_iter().enumerate() {
        let part = index % parts.len();
        parts[part].push(endpoint);
    }
    parts
}

/// Progress of each thread, and its observer. The first thread still running reports.
struct Board<T, F> {
    latest: Vec<T>,
    is_done: Vec<bool>,
    notify: F,
}

impl<T: Copy + Default, F: FnMut(&[T])> Board<T, F> {
    fn new(threads: usize, notify: F) -> Mutex<Self> {
        let (latest, is_done) = (vec![T::default(); threads], vec![false; threads]);
        Mutex::new(Self { latest, is_done, notify })
    }

    /// Records the progress of thread `number`: called about once a second by each.
    fn report(board: &Mutex<Self>, number: usize, value: T) {
        let mut board = board.lock().unwrap_or_else(PoisonError::into_inner);
        let Self { latest, is_done, notify } = &mut *board;
        latest[number] = value;
        if is_done[..number].iter().all(|is_done| *is_done) {
            notify(latest);
        }
    }

    /// Records the final result of thread `number`.
    fn finish(board: &Mutex<Self>, number: usize, value: T) {
        let mut board = board.lock().unwrap_or_else(PoisonError::into_inner);
        board.latest[number] = value;
        board.is_done[number] = true;
    }
}

/// As [`run_consumer`], for each consumer with its endpoints on its own thread. `progress` gets the
/// sum of all, about once a second while any of them runs.
///
/// # Errors
/// Those of [`run_consumer`], of the first thread that fails; the others then stop, too.
pub fn run_consumers(
    consumers: Vec<(&mut Consumer, Vec<Endpoint>)>,
    end_ns: Option<u64>,
    stop: &AtomicBool,
    mut progress: impl FnMut(&ConsumerTotals) + Send,
) -> Result<RunFigures, RunError> {
    let sum =
        |all: &[ConsumerTotals]| all.iter().fold(ConsumerTotals::default(), |a, b| a.plus(*b));
    let board = Board::new(consumers.len(), |all: &[ConsumerTotals]| progress(&sum(all)));
    side_by_side(consumers, stop, |number, (consumer, endpoints)| {
        let figures = run_consumer(consumer, endpoints, end_ns, stop, |consumer| {
            Board::report(&board, number, consumer.totals());
        });
        Board::finish(&board, number, consumer.totals());
        figures
    })
}

/// As [`run_producer`], for each producer with its endpoints on its own thread. `progress` gets the
/// number of Interests of all, about once a second.
///
/// # Errors
/// Those of [`run_producer`], of the first thread that fails; the others then stop, too.
pub fn run_producers(
    producers: Vec<(&mut Producer, Vec<Endpoint>)>,
    stop: &AtomicBool,
    mut progress: impl FnMut(u64) + Send,
) -> Result<RunFigures, RunError> {
    let board = Board::new(producers.len(), |all: &[u64]| progress(all.iter().sum()));
    side_by_side(producers, stop, |number, (producer, endpoints)| {
        let interests =
            |producer: &Producer| producer.counters().iter().map(|one| one.interests).sum();
        let figures = run_producer(producer, endpoints, stop, |producer| {
            Board::report(&board, number, interests(producer));
        });
        Board::finish(&board, number, interests(producer));
        figures
    })
}

/// Runs each of `parts` on a thread. When one fails, the others are stopped.
fn side_by_side<T: Send>(
    parts: Vec<T>,
    stop: &AtomicBool,
    run: impl Fn(usize, T) -> Result<RunFigures, RunError> + Sync,
) -> Result<RunFigures, RunError> {
    let run = &run;
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for (number, part) in parts.into_iter().enumerate() {
            threads.push(scope.spawn(move || {
                let result = run(number, part);
                if result.is_err() {
                    stop.store(true, std::sync::atomic::Ordering::Relaxed);
                }
                result
            }));
        }
        let panicked = || RunError::from(io::Error::other("a thread has panicked"));
        let joined =
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(panicked())));
        joined.fold(Ok(RunFigures::default()), beside)
    })
}

/// The sum of the figures, and the first error.
fn beside(
    one: Result<RunFigures, RunError>,
    other: Result<RunFigures, RunError>,
) -> Result<RunFigures, RunError> {
    match (one, other) {
        (Ok(one), Ok(other)) => Ok(one.beside(other)),
        (Err(RunError { error, figures: one }), Ok(other))
        | (Ok(one), Err(RunError { error, figures: other }))
        | (Err(RunError { error, figures: one }), Err(RunError { figures: other, .. })) => {
            Err(RunError { error, figures: one.beside(other) })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn figures_of_all_threads_are_counted_when_one_fails() {
        let took = |milliseconds| RunFigures {
            wall: Duration::from_millis(milliseconds),
            cpu: Duration::from_millis(milliseconds),
            ..RunFigures::default()
        };
        let failed = |text, milliseconds| {
            Err(RunError { error: io::Error::other(text), figures: took(milliseconds) })
        };
        let all = [Ok(took(1)), failed("first", 2), Ok(took(3)), failed("second", 4)];
        let RunError { error, figures } =
            all.into_iter().fold(Ok(RunFigures::default()), beside).unwrap_err();
        assert_eq!(error.to_string(), "first");
        assert_eq!((figures.wall.as_millis(), figures.cpu.as_millis()), (4, 10));
    }

    #[test]
    fn progress_is_reported_each_second_until_the_last_thread_ends() {
        let mut reported = Vec::new();
        let board = Board::new(3, |all: &[u64]| reported.push(all.iter().sum::<u64>()));
        (1..=2).for_each(|second| {
            (0..3).for_each(|thread| Board::report(&board, thread, second));
        });
        Board::finish(&board, 0, 100);
        (3..=4).for_each(|second| (1..3).for_each(|thread| Board::report(&board, thread, second)));
        Board::finish(&board, 1, 200);
        (5..=6).for_each(|second| Board::report(&board, 2, second));
        drop(board);
        // A thread reads the last report of each other thread.
        assert_eq!(reported, [1, 4, 105, 107, 305, 306]);
    }
}
