//! Disturbances of a measurement by its host: time that it takes, and neighbours that slow it down.
//!
//! A reference load runs before and after each run on the processors of the workers. Its work is always the same, so
//! that its processor time shows what other programs take of caches, memory and the cores of hyper-threads, which no
//! counter of the kernel does. A meter watches the same processors, and that of the generator, for pauses: between two
//! readings of the clock that are far apart the host had the processor run something else. It runs while the forwarder
//! does not, so that it neither takes time from it nor takes it for a pause.

#![allow(clippy::cast_possible_truncation, reason = "an index below the size of a table")]

use std::fs;
use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use ndn_model::calibrate::{Disturbance, Host};
use ndn_model::pauses::{LATENCY_DELAYED_MAX, PAUSE_MIN_NS, Watch};
use ndn_sys::clock;
use ndn_sys::cpu::{pin_thread, steal_ns_of, thread_time};

use crate::cli::failure::{Failure, Outcome};

/// Words of the table of the reference load, 1 MiB: it uses the second level of caches, as the tables of a forwarder do.
const WORDS: usize = 1 << 17;
/// Dependent steps of a part, and parts: some milliseconds.
const STEPS: usize = 1 << 16;
const PARTS: usize = 15;

/// Length of a watch for pauses.
const WATCH: Duration = Duration::from_millis(100);

/// Reference loads that make a yardstick.
const YARDSTICK_MIN: usize = 6;
/// A try is slowed if its reference load took so much more than the usual one, or changed so much during the try.
const SLOWED_MAX: f64 = 0.15;
/// The same if the host took more of the time, and said so.
const STOLEN_MAX: f64 = 0.04;
/// The same if cache lines took so much more time from one processor to the other in one part of the run than in another one: the
/// host has moved a processor, to other caches.
const MOVED_MAX: f64 = 0.3;

/// Counters of the host for some processors and worker threads.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counters {
    stolen_ns: u64,
    preemptions: u64,
}

impl Counters {
    /// Of these processors, and the workers of this process.
    pub(super) fn read(cpus: &[usize]) -> Self {
        Self { stolen_ns: steal_ns_of(cpus), preemptions: preemptions() }
    }

    /// Stolen time and preemptions since `before`.
    pub(super) const fn since(&self, before: &Self) -> (u64, u64) {
        (
            self.stolen_ns.saturating_sub(before.stolen_ns),
            self.preemptions.saturating_sub(before.preemptions),
        )
    }
}

/// Involuntary context switches of the worker threads of this process.
fn preemptions() -> u64 {
    let Ok(entries) = fs::read_dir("/proc/self/task") else { return 0 };
    let of = |status: String| {
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        let is_worker = field("Name:").is_some_and(|name| name.trim().starts_with("worker-"));
        let count = field("nonvoluntary_ctxt_switches:")?.trim().parse::<u64>().ok()?;
        is_worker.then_some(count)
    };
    entries
        .flatten()
        .filter_map(|entry| fs::read_to_string(entry.path().join("status")).ok())
        .filter_map(of)
        .sum()
}

/// Nanoseconds of processor time of a step of the reference load, on average over processors that run it at once.
pub(super) fn reference_load(cpus: &[usize]) -> Outcome<f64> {
    let one = |cpu: usize| -> std::io::Result<f64> {
        pin_thread(cpu)?;
        let mut table: Vec<u64> = (0..WORDS as u64).collect();
        let mut state = 1;
        let mut parts = Vec::with_capacity(PARTS);
        // The first part brings the table into the caches.
        for part in 0..=PARTS {
            let begin = thread_time();
            state = walk(&mut table, state);
            let time = thread_time().saturating_sub(begin);
            if part > 0 {
                parts.push(time.as_secs_f64() * 1e9 / STEPS as f64);
            }
        }
        black_box(state);
        parts.sort_by(f64::total_cmp);
        Ok(parts[PARTS / 2])
    };
    let times = thread::scope(|scope| {
        let loads: Vec<_> = cpus.iter().map(|cpu| scope.spawn(|| one(*cpu))).collect();
        let joined = loads.into_iter().map(|load| {
            load.join().unwrap_or_else(|_| Err(std::io::Error::other("it has panicked")))
        });
        joined.collect::<std::io::Result<Vec<f64>>>()
    });
    let times = times.map_err(|error| Failure::Failed(format!("the reference load: {error}")))?;
    Ok(times.iter().sum::<f64>() / times.len().max(1) as f64)
}

/// Steps that each need the result of the one before.
fn walk(table: &mut [u64], mut state: u64) -> u64 {
    for _ in 0..STEPS {
        let place = (state >> 40) as usize & (WORDS - 1);
        state = (state ^ table[place]).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) | 1;
        table[place] = state;
    }
    state
}

/// Watches these processors for pauses, all at the same time. Times are since `origin_ns`.
pub(super) fn watch_pauses(cpus: &[usize], origin_ns: u64) -> Outcome<Vec<Watch>> {
    let all_run = Barrier::new(cpus.len());
    let one = |cpu: usize| -> std::io::Result<Watch> {
        // Others wait for this thread, whatever happens to it.
        let pinned = pin_thread(cpu);
        all_run.wait();
        pinned?;
        watch_one(cpu, origin_ns)
    };
    let watches = thread::scope(|scope| {
        let meters: Vec<_> = cpus.iter().map(|cpu| scope.spawn(|| one(*cpu))).collect();
        let joined = meters.into_iter().map(|meter| {
            meter.join().unwrap_or_else(|_| Err(std::io::Error::other("it has panicked")))
        });
        joined.collect::<std::io::Result<Vec<Watch>>>()
    });
    watches.map_err(|error| Failure::Failed(format!("the meter of pauses: {error}")))
}

/// Time that this thread could not run because others did, in nanoseconds.
pub(super) fn delayed_ns() -> std::io::Result<u64> {
    let times = fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(times.split_ascii_whitespace().nth(1).and_then(|field| field.parse().ok()).unwrap_or(0))
}

/// Reads the clock on the processor of this thread until the watch ends.
fn watch_one(processor: usize, origin_ns: u64) -> std::io::Result<Watch> {
    let length_ns = WATCH.as_nanos() as u64;
    let mut pauses = Vec::with_capacity((length_ns / PAUSE_MIN_NS) as usize + 1);
    let delayed_begin = delayed_ns()?;
    let cpu_begin = thread_time();
    let begin_ns = clock::now();
    let mut last_ns = begin_ns;
    while last_ns - begin_ns < length_ns {
        let now_ns = clock::now();
        if now_ns - last_ns >= PAUSE_MIN_NS {
            pauses.push((last_ns - begin_ns, now_ns - last_ns));
        }
        last_ns = now_ns;
    }
    Ok(Watch {
        processor,
        begin_ns: begin_ns.saturating_sub(origin_ns),
        watched_ns: last_ns - begin_ns,
        cpu_ns: thread_time().saturating_sub(cpu_begin).as_nanos() as u64,
        delayed_ns: delayed_ns()?.saturating_sub(delayed_begin),
        pauses,
    })
}

/// Reference loads of all tries so far: what is usual on this machine at this time.
#[derive(Debug, Clone, Default)]
pub(super) struct Yardstick {
    times_ns: Vec<f64>,
}

impl Yardstick {
    /// The reference loads of earlier runs.
    pub(super) fn of<'h>(hosts: impl Iterator<Item = &'h Host>) -> Self {
        Self { times_ns: hosts.map(Host::reference_ns).filter(|ns| *ns > 0.0).collect() }
    }

    /// Notes a try.
    pub(super) fn note(&mut self, host: &Host) {
        self.times_ns.push(host.reference_ns());
    }

    /// The usual time; none after few tries.
    fn usual_ns(&self) -> Option<f64> {
        let mut times = self.times_ns.clone();
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied().filter(|_| times.len() >= YARDSTICK_MIN)
    }

    /// Each kind of disturbance over what is allowed.
    fn excesses(&self, host: &Host, delayed: f64) -> [(Disturbance, f64); 4] {
        let [before, after] = host.reference_ns;
        let change = (after / before).ln().abs();
        let usual = self.usual_ns().map_or(0.0, |usual| (host.reference_ns() / usual).ln());
        [
            (Disturbance::OtherPrograms, delayed / LATENCY_DELAYED_MAX),
            (Disturbance::Stolen, host.stolen / STOLEN_MAX),
            (Disturbance::Slowed, change.max(usual) / SLOWED_MAX),
            (Disturbance::Moved, host.transfer_change / MOVED_MAX),
        ]
    }

    /// The largest disturbance of a try in which a worker that has its processor alone could not run for the share
    /// `delayed` of the time, and by how much it exceeds what is allowed.
    pub(super) fn disturbance(&self, host: &Host, delayed: f64) -> (Disturbance, f64) {
        let excesses = self.excesses(host, delayed);
        excesses.into_iter().fold(excesses[0], |a, b| if b.1 > a.1 { b } else { a })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn host(before: f64, after: f64, stolen: f64) -> Host {
        Host { reference_ns: [before, after], stolen, ..Host::default() }
    }

    #[test]
    fn kinds_of_disturbance_are_distinguished() {
        let calm = host(10.0, 10.1, 0.0);
        let mut yardstick = Yardstick::of([calm; 5].iter());
        assert!(yardstick.disturbance(&calm, 0.0).1 < 1.0);
        let slow = host(13.0, 13.0, 0.0);
        assert!(yardstick.disturbance(&slow, 0.0).1 < 1.0, "too few to know what is usual");
        yardstick.note(&calm);
        for (host, delayed, expected) in [
            (slow, 0.0, Disturbance::Slowed),
            (host(10.0, 12.0, 0.0), 0.0, Disturbance::Slowed),
            (host(12.0, 10.0, 0.0), 0.0, Disturbance::Slowed),
            (host(10.0, 10.0, 0.08), 0.0, Disturbance::Stolen),
            (calm, 0.05, Disturbance::OtherPrograms),
            (Host { transfer_change: 0.9, ..calm }, 0.0, Disturbance::Moved),
        ] {
            let (found, excess) = yardstick.disturbance(&host, delayed);
            assert!(found == expected && excess > 1.0, "{found:?} {excess}");
        }
        assert!(yardstick.disturbance(&host(8.0, 8.0, 0.0), 0.0).1 < 1.0, "fast is no fault");
    }

    #[test]
    fn meter_watches_every_processor_at_once() {
        let cpus = ndn_sys::cpu::allowed_cpus().unwrap();
        let origin_ns = clock::now();
        let watches = watch_pauses(&cpus, origin_ns).unwrap();
        assert_eq!(watches.iter().map(|watch| watch.processor).collect::<Vec<_>>(), cpus);
        for watch in &watches {
            assert!(watch.watched_ns >= 100_000_000, "{watch:?}");
            assert!(watch.cpu_ns <= watch.watched_ns + 1_000_000, "{watch:?}");
            let mut end_ns = 0;
            for (begin_ns, length_ns) in &watch.pauses {
                assert!(*begin_ns >= end_ns && *length_ns >= PAUSE_MIN_NS, "{watch:?}");
                end_ns = begin_ns + length_ns;
            }
            assert!(end_ns <= watch.watched_ns, "{watch:?}");
        }
    }

    #[test]
    fn reference_load_takes_time_on_every_processor() {
        let cpus = ndn_sys::cpu::allowed_cpus().unwrap();
        let ns = reference_load(&cpus[..1]).unwrap();
        assert!(ns > 0.3 && ns < 10_000.0, "{ns}");
    }
}
