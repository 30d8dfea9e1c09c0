//! `bench management`: what traffic notices of the management of a forwarder.
//!
//! A closed loop of exchanges over Unix sockets, measured alone and while somebody lists everything
//! that there is, or sends commands that are refused; one stretch of each in turn, in pairs. The
//! forwarder's worker, the generator, the forwarder's control thread and who disturbs them have a
//! processor each.

mod disturb;
mod hostile;
mod subject;

use std::time::Duration;

use anyhow::Context;
use serde::Serialize;

use super::generator::Generator;
use super::statistics::to_f64;
use disturb::Disturbance;
use subject::Subject;

/// Exchanges in flight, and bytes of content of each Data.
const WINDOW: u32 = 1024;
const PAYLOAD: usize = 100;
/// Turns of the window before something is measured, and in each stretch at least.
const TURNS: u64 = 8;

/// What to run.
#[derive(Debug, Clone)]
pub struct ManagementOptions {
    /// Only cases whose name contains this.
    pub filter: Option<String>,
    /// Length of one measured stretch.
    pub stretch: Duration,
    /// Pairs of stretches of `listing`.
    pub pairs: usize,
    /// Processors: of the worker, the generator, the control thread, and who disturbs them.
    pub cpus: [usize; 4],
    /// FIB entries and faces that are listed.
    pub fib_entries: u32,
    /// Faces that are listed.
    pub faces: u16,
    /// Hostile commands in all, and per second.
    pub hostile: u64,
    /// Hostile commands per second while they are sent.
    pub hostile_rate: u32,
    /// The first of the ports to use on the loopback interface.
    pub first_port: u16,
}

impl Default for ManagementOptions {
    fn default() -> Self {
        Self {
            filter: None,
            stretch: Duration::from_secs(1),
            pairs: 10,
            cpus: [0, 1, 2, 3],
            fib_entries: 100_000,
            faces: 1000,
            hostile: 1_000_000,
            hostile_rate: 25_000,
            first_port: 28_363,
        }
    }
}

/// One kind of disturbance.
#[derive(Debug, Clone, Serialize)]
pub struct ManagementCase {
    /// `listing` or `hostile`.
    pub case: &'static str,
    /// Exchanges per second without it, the median of all stretches.
    pub alone_per_s: f64,
    /// And with it.
    pub disturbed_per_s: f64,
    /// What it changes: the median of the pairs, as a share (-0.05 for five per cent less).
    pub change: f64,
    /// Smallest and largest of the pairs.
    pub change_spread: (f64, f64),
    /// 99th percentile of the latency in this closed loop, without and with it.
    pub p99_us: (f64, f64),
    /// Pairs measured.
    pub pairs: usize,
    /// Lists printed, or commands sent.
    pub disturbances: u64,
    /// Resident memory before the first pair and after the last, MiB.
    pub resident_mib: (f64, f64),
    /// And after the first tenth of the pairs: tables that fill for the first time have grown by then.
    pub resident_settled_mib: f64,
}

/// Everything that one run of the bench found.
#[derive(Debug, Clone, Serialize)]
pub struct ManagementReport {
    /// Always `management`.
    pub bench: &'static str,
    /// The machine.
    pub machine: crate::Machine,
    /// FIB entries at the time.
    pub fib_entries: u32,
    /// Faces beside those of the traffic.
    pub faces: u16,
    /// The rows.
    pub cases: Vec<ManagementCase>,
}

/// Runs the bench; `progress` gets a line now and then.
///
/// # Errors
/// When the forwarder cannot be started or filled, a socket fails, or a hostile command was obeyed.
pub fn run_management(
    options: &ManagementOptions,
    mut progress: impl FnMut(&str),
) -> anyhow::Result<ManagementReport> {
    super::rounds::pin(options.cpus[1])?;
    progress("start and fill");
    let (subject, mut generator) = Subject::start(options)?;
    let mut cases = Vec::new();
    for case in ["listing", "hostile"] {
        if options.filter.as_ref().is_some_and(|filter| !case.contains(filter.as_str())) {
            continue;
        }
        let (disturbance, pairs) = match case {
            "listing" => (Disturbance::listing(options, &subject)?, options.pairs),
            _ => {
                let seconds = to_f64(options.hostile) / f64::from(options.hostile_rate);
                let pairs = (seconds / options.stretch.as_secs_f64()).ceil();
                (
                    Disturbance::hostile(options, &subject)?,
                    (1..).take_while(|n| f64::from(*n) <= pairs).count(),
                )
            }
        };
        progress(&format!("{case}: {pairs} pairs"));
        cases.push(measure(case, options, &subject, &mut generator, disturbance, pairs)?);
        subject.check()?;
    }
    Ok(ManagementReport {
        bench: "management",
        machine: crate::Machine::read(),
        fib_entries: options.fib_entries,
        faces: options.faces,
        cases,
    })
}

fn measure(
    case: &'static str,
    options: &ManagementOptions,
    subject: &Subject,
    generator: &mut Generator,
    disturbance: Disturbance,
    pairs: usize,
) -> anyhow::Result<ManagementCase> {
    let (mut alone, mut disturbed) = (Vec::new(), Vec::new());
    let first = subject.resident_mib()?;
    let mut settled = first;
    for pair in 0..pairs {
        // Each order half of the time: a machine that becomes faster or slower favours neither.
        for is_disturbed in [pair % 2 == 1, pair % 2 == 0] {
            disturbance.set(is_disturbed);
            generator.run(options.stretch / 20, 1)?;
            let stretch = generator.run(options.stretch, TURNS)?;
            disturbance.set(false);
            let rate = to_f64(stretch.tally.satisfied) * 1e9 / to_f64(stretch.wall_ns);
            let p99_us = to_f64(stretch.tally.latency_ns.value_at_quantile(0.99)) / 1e3;
            if is_disturbed { &mut disturbed } else { &mut alone }.push((rate, p99_us));
        }
        if pair == pairs / 10 {
            settled = subject.resident_mib()?;
        }
    }
    let disturbances = disturbance.finish().context("what disturbs the forwarder has failed")?;
    let changes: Vec<f64> = alone.iter().zip(&disturbed).map(|(a, d)| d.0 / a.0 - 1.0).collect();
    let median = |rounds: &[(f64, f64)], figure: fn(&(f64, f64)) -> f64| {
        crate::median(rounds.iter().map(figure))
    };
    Ok(ManagementCase {
        case,
        alone_per_s: median(&alone, |round| round.0),
        disturbed_per_s: median(&disturbed, |round| round.0),
        change: crate::median(changes.iter().copied()),
        change_spread: (
            changes.iter().copied().fold(f64::INFINITY, f64::min),
            changes.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        ),
        p99_us: (median(&alone, |round| round.1), median(&disturbed, |round| round.1)),
        pairs,
        disturbances,
        resident_mib: (first, subject.resident_mib()?),
        resident_settled_mib: settled,
    })
}
