//! Latencies of runs, outside of the forwarder and compared with those of the model.

use libm::{exp, log};
use serde::{Deserialize, Serialize};

use super::run::Run;
use super::selection::calm;

/// Measured latencies of a run over those of the model at the same rate: threads that are woken, turns of the generator.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Discrepancy {
    /// Whether the generator ran on the processor of a worker.
    pub is_shared: bool,
    /// Rate over the rate at which the workers are always busy.
    pub load: f64,
    /// Ratio at p50 and p99.
    pub ratio: [f64; 2],
}

/// The usual ratio at p50 and p99 near a load: the median of the runs, weighted by their distance.
pub(super) fn discrepancy(all: &[Discrepancy], is_shared: bool, load: f64) -> [f64; 2] {
    const BANDWIDTH: f64 = 0.15;
    let distance = |one: &Discrepancy| log(one.load / load).abs() / BANDWIDTH;
    let same: Vec<&Discrepancy> = all.iter().filter(|one| one.is_shared == is_shared).collect();
    // Beyond the measured loads, the nearest run and those around it.
    let nearest = same.iter().map(|one| distance(one)).fold(f64::INFINITY, f64::min);
    let weight = |one: &Discrepancy| {
        let beyond = distance(one) - nearest;
        exp(-0.5 * beyond * beyond)
    };
    [0, 1].map(|level| {
        let mut ratios: Vec<(f64, f64)> =
            same.iter().map(|one| (one.ratio[level], weight(one))).collect();
        ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
        let half = 0.5 * ratios.iter().map(|(_, weight)| weight).sum::<f64>();
        let mut sum = 0.0;
        let middle = ratios.iter().find(|(_, weight)| {
            sum += weight;
            sum >= half
        });
        middle.map_or(1.0, |(ratio, _)| *ratio)
    })
}

/// Median of p50 and p99 over the calm runs.
pub(super) fn outside_latency(runs: &[&Run]) -> [f64; 2] {
    let calm = calm(runs);
    [0, 2].map(|level| {
        let mut values: Vec<u64> = calm.iter().map(|run| run.latency_ns[level]).collect();
        values.sort_unstable();
        values.get(values.len() / 2).map_or(0.0, |ns| *ns as f64)
    })
}
