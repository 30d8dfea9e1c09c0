//! `bench overload`: what becomes of the rate of satisfied Interests when more are offered than can
//! be forwarded, with answers before Interests and without.
//!
//! The forwarder, the producer and each consumer have a processor of their own. Consumers send in an
//! open loop over UDP, whatever comes back: what is lost on the way is lost. First the sustainable rate
//! is looked for, as what a closed loop brings; all other rates are multiples of it.

mod plot;
mod run;

use std::time::Duration;

use serde::Serialize;

pub use plot::plot;

/// What to run.
#[derive(Debug, Clone)]
pub struct OverloadOptions {
    /// Offered rates, in multiples of the sustainable one.
    pub ratios: Vec<f64>,
    /// For how long each is offered.
    pub stretch: Duration,
    /// How often each is offered; the medians count.
    pub rounds: usize,
    /// Bytes of content in a Data.
    pub payload: usize,
    /// The processors of the forwarder, the producer and each consumer.
    pub cpus: Vec<usize>,
    /// The first of the UDP ports to use on the loopback interface.
    pub first_port: u16,
}

impl Default for OverloadOptions {
    fn default() -> Self {
        Self {
            ratios: vec![0.2, 0.4, 0.6, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0, 2.5, 3.0],
            stretch: Duration::from_secs(1),
            rounds: 3,
            payload: 1000,
            cpus: vec![0, 1, 2, 3],
            first_port: 27_363,
        }
    }
}

/// One row: a rate offered to the forwarder.
#[derive(Debug, Clone, Serialize)]
pub struct OverloadCase {
    /// Whether the forwarder takes Data and Nacks before Interests.
    pub answers_first: bool,
    /// The rate aimed at, in multiples of the sustainable one.
    pub ratio: f64,
    /// Interests sent per second.
    pub offered_per_s: f64,
    /// Interests per second that Data came for in their lifetime.
    pub satisfied_per_s: f64,
    /// The same over the largest of the same mode.
    pub of_peak: f64,
    /// Share of the Interests sent that Data came for.
    pub satisfied: f64,
    /// Interests per second that a Nack came for.
    pub nacked_per_s: f64,
    /// Share of the producer's Data that reached no consumer: work for nothing.
    pub answers_lost: f64,
    /// Latency of those that were satisfied, from the time when they were due to be sent.
    pub p50_ms: f64,
    /// Its 99th percentile.
    pub p99_ms: f64,
    /// CPU time of the forwarder as a share of the wall time.
    pub forwarder_busy: f64,
    /// The consumers did not send as much as they should have, or were the limit: less than 95 % of
    /// what was aimed at.
    pub generator_bound: bool,
    /// Rounds left out because the host took processors away for more than 1 % of the time.
    pub rounds_discarded: usize,
}

/// Everything that one run of the bench found.
#[derive(Debug, Clone, Serialize)]
pub struct OverloadReport {
    /// Always `overload`.
    pub bench: &'static str,
    /// The machine.
    pub machine: crate::Machine,
    /// The processors of the forwarder, the producer and each consumer.
    pub cpus: Vec<usize>,
    /// Bytes of content in a Data.
    pub payload: usize,
    /// Exchanges per second of a closed loop, answers first.
    pub sustainable_per_s: f64,
    /// The rows, by mode and rate.
    pub cases: Vec<OverloadCase>,
}

impl OverloadReport {
    /// The satisfied rate near an offered one, over the peak.
    #[must_use]
    pub fn of_peak(&self, answers_first: bool, ratio: f64) -> Option<f64> {
        let mut rows = self.cases.iter();
        rows.find(|row| row.answers_first == answers_first && (row.ratio - ratio).abs() < 1e-9)
            .map(|row| row.of_peak)
    }
}

/// Runs the bench; `progress` gets a line now and then.
///
/// # Errors
/// When the forwarder cannot be started or attached to, or a socket fails.
pub fn run_overload(
    options: &OverloadOptions,
    mut progress: impl FnMut(&str),
) -> anyhow::Result<OverloadReport> {
    anyhow::ensure!(options.cpus.len() >= 3, "it takes three processors at least");
    let mut cases = Vec::new();
    let mut sustainable_per_s = None;
    for answers_first in [true, false] {
        let mut rows =
            run::run_mode(options, answers_first, &mut sustainable_per_s, &mut progress)?;
        let peak = rows.iter().map(|row| row.satisfied_per_s).fold(0.0, f64::max);
        rows.iter_mut().for_each(|row| row.of_peak = row.satisfied_per_s / peak);
        cases.extend(rows);
    }
    Ok(OverloadReport {
        bench: "overload",
        machine: crate::Machine::read(),
        cpus: options.cpus.clone(),
        payload: options.payload,
        sustainable_per_s: sustainable_per_s.unwrap_or(f64::NAN),
        cases,
    })
}
