//! Several consumers or producers side by side, each with faces and a thread of its own.

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::driver::{RunFigures, run_consumer, run_producer};
use super::endpoint::Endpoint;
use crate::{Consumer, ConsumerTotals, Producer};

/// Divides faces between so many threads, in turn; each gets one at least if there are enough.
#[must_use]
pub fn divide(endpoints: Vec<Endpoint>, threads: usize) -> Vec<Vec<Endpoint>> {
    let mut parts: Vec<Vec<Endpoint>> = (0..threads.max(1)).map(|_| Vec::new()).collect();
    for (index, endpoint) in endpoints.into_iter().enumerate() {
        let part = index % parts.len();
        parts[part].push(endpoint);
    }
    parts
}

/// As [`run_consumer`], for each consumer with its endpoints on a thread of its own. `progress` gets the
/// sum of all, once a second.
///
/// # Errors
/// Those of [`run_consumer`], of the first thread that has any; the others then stop, too.
pub fn run_consumers(
    consumers: Vec<(&mut Consumer, Vec<Endpoint>)>,
    end_ns: Option<u64>,
    stop: &AtomicBool,
    progress: impl FnMut(&ConsumerTotals) + Send,
) -> io::Result<RunFigures> {
    let totals = Mutex::new((vec![ConsumerTotals::default(); consumers.len()], progress));
    side_by_side(consumers, stop, |number, (consumer, endpoints)| {
        run_consumer(consumer, endpoints, end_ns, stop, |consumer| {
            let mut shared = totals.lock().unwrap_or_else(PoisonError::into_inner);
            let (totals, progress) = &mut *shared;
            totals[number] = consumer.totals();
            if number == 0 {
                progress(&totals.iter().copied().fold(ConsumerTotals::default(), |a, b| a.plus(b)));
            }
        })
    })
}

/// As [`run_producer`], for each producer with its endpoints on a thread of its own. `progress` gets the
/// number of Interests of all, once a second.
///
/// # Errors
/// Those of [`run_producer`], of the first thread that has any; the others then stop, too.
pub fn run_producers(
    producers: Vec<(&mut Producer, Vec<Endpoint>)>,
    stop: &AtomicBool,
    progress: impl FnMut(u64) + Send,
) -> io::Result<RunFigures> {
    let totals = Mutex::new((vec![0; producers.len()], progress));
    side_by_side(producers, stop, |number, (producer, endpoints)| {
        run_producer(producer, endpoints, stop, |producer| {
            let mut shared = totals.lock().unwrap_or_else(PoisonError::into_inner);
            let (totals, progress) = &mut *shared;
            totals[number] = producer.counters().iter().map(|one| one.interests).sum();
            if number == 0 {
                progress(totals.iter().sum());
            }
        })
    })
}

/// Runs each of `parts` on a thread. When one fails, the others are told to stop.
fn side_by_side<T: Send>(
    parts: Vec<T>,
    stop: &AtomicBool,
    run: impl Fn(usize, T) -> io::Result<RunFigures> + Sync,
) -> io::Result<RunFigures> {
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
        let joined = threads.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread has panicked")))
        });
        let figures: io::Result<Vec<RunFigures>> = joined.collect();
        Ok(figures?.into_iter().fold(RunFigures::default(), RunFigures::beside))
    })
}
