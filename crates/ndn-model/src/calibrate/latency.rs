//! Correction of latencies: those of runs over those of the model, by load; and the latency outside of the forwarder.

use libm::{exp, log};
use serde::{Deserialize, Serialize};

use super::order_statistics::median;
use super::run::Run;
use super::selection::with_least_load;

/// Measured latencies of a run over those of the model at the same rate. They differ by the times in which threads wake up, and by
/// the turns of the generator.
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

/// The ratio at p50 and p99 near a load: the median of the runs, weighted by their distance from it.
pub(super) fn latency_ratio_near(all: &[Discrepancy], is_shared: bool, load: f64) -> [f64; 2] {
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

/// Logarithms of measured p99 latencies over predicted ones, each run predicted by the others.
pub(super) fn latency_errors(all: &[Discrepancy]) -> Vec<f64> {
    let errors = (0..all.len()).filter_map(|index| {
        let mut others = all.to_vec();
        let own = others.swap_remove(index);
        let known = others.iter().any(|other| other.is_shared == own.is_shared);
        let error = log(own.ratio[1] / latency_ratio_near(&others, own.is_shared, own.load)[1]);
        (known && error.is_finite()).then_some(error)
    });
    errors.collect()
}

/// Factors on the p99 latency within which that of a run lies with a given probability.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LatencyFactors {
    /// Lower and upper factor; none with too few runs.
    pub range: Option<(f64, f64)>,
    /// Runs that they come from.
    pub runs: usize,
}

impl LatencyFactors {
    /// With a probability of approximately `confidence`: the quantile by rank of the errors of the measured runs, each
    /// predicted by the others (the jackknife of Barber, Candès, Ramdas, Tibshirani 2021, whose jackknife+ has a guarantee).
    #[must_use]
    pub fn of(all: &[Discrepancy], confidence: f64) -> Self {
        let mut widths: Vec<f64> = latency_errors(all).into_iter().map(f64::abs).collect();
        widths.sort_by(f64::total_cmp);
        let rank = (confidence * (widths.len() + 1) as f64).ceil() as usize;
        let width = widths.get(rank.max(1) - 1);
        Self { range: width.map(|width| (exp(-width), exp(*width))), runs: widths.len() }
    }
}

/// Medians of p50 and p99 over the runs with the least load, in nanoseconds.
pub(super) fn latency_outside_forwarder(runs: &[&Run]) -> [f64; 2] {
    let idlest = with_least_load(runs);
    [0, 2].map(|level| median(idlest.iter().map(|run| run.latency_ns[level] as f64).collect()))
}
