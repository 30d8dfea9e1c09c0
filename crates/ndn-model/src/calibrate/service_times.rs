//! Service times of the traced runs: how they divide between stages, and the shape of their distribution.

use serde::{Deserialize, Serialize};

use super::error::CalibrateError;
use super::run::{Histogram, Run, ServiceTimes};
use crate::distribution::{Distribution, QuantileTable};
use crate::pauses::PAUSE_MIN_NS;

/// Cells of the quantiles of a shape, and the probability of its tail.
const CELLS: usize = 64;
const TAIL: f64 = 0.01;

/// A distribution with mean 1: the shape of a distribution of service times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Shape {
    /// Quantiles at equal steps up to the tail.
    pub quantiles: Vec<f64>,
    /// Mean excess in the tail.
    pub tail_mean: f64,
}

impl Shape {
    /// The distribution itself.
    pub(super) fn table(&self) -> Distribution {
        Distribution::Empirical(QuantileTable {
            quantiles: self.quantiles.clone(),
            tail_probability: TAIL,
            tail_mean: self.tail_mean,
        })
    }

    /// The distribution with another mean.
    pub(super) fn scaled(&self, mean: f64) -> Distribution {
        let table = self.table();
        let factor = mean / table.mean();
        Distribution::Empirical(QuantileTable {
            quantiles: self.quantiles.iter().map(|q| q * factor).collect(),
            tail_probability: TAIL,
            tail_mean: (self.tail_mean * factor).max(1.0),
        })
    }

    /// The shape of a histogram, without times that are pauses.
    fn of(histogram: &Histogram) -> Option<Self> {
        let is_own = |bucket: &(u64, u64, u64)| bucket.0 < PAUSE_MIN_NS;
        let own: Vec<(u64, u64, u64)> = histogram.buckets.iter().copied().filter(is_own).collect();
        let count: u64 = own.iter().map(|bucket| bucket.2).sum();
        let own = Histogram { count, sum_ns: 0, buckets: own };
        let quantiles: Option<Vec<f64>> = (0..=CELLS)
            .map(|cell| own.quantile((1.0 - TAIL) * cell as f64 / CELLS as f64, count))
            .collect();
        let quantiles = quantiles?;
        let last = *quantiles.last()?;
        let (mut excess, mut beyond) = (0.0, 0.0);
        for (from, below, count) in &own.buckets {
            let middle = f64::midpoint(*from as f64, (*below).min(2 * from + 1) as f64);
            if middle > last {
                excess += (middle - last) * *count as f64;
                beyond += *count as f64;
            }
        }
        let tail_mean = if beyond > 0.0 { excess / beyond } else { 0.01 * last };
        let table = QuantileTable { quantiles, tail_probability: TAIL, tail_mean };
        let mean = Distribution::Empirical(table.clone()).mean();
        (mean > 0.0).then(|| Self {
            quantiles: table.quantiles.iter().map(|q| q / mean).collect(),
            tail_mean: tail_mean / mean,
        })
    }
}

/// Shares in the time of a miss, over the traced runs: dispatch and forwarding of Interests, of Data, and the rest.
pub(super) fn stage_shares(runs: &[&Run]) -> Result<[f64; 5], CalibrateError> {
    let mut sums = [0.0; 5];
    for run in runs {
        let Some(services) = &run.services else { continue };
        let stages = [
            &services.interest_dispatch,
            &services.interest_forwarding,
            &services.data_dispatch,
            &services.data_forwarding,
        ];
        let means: Option<Vec<f64>> = stages.iter().map(|stage| stage.mean()).collect();
        let Some(means) = means else { continue };
        let answered = 1.0 - run.measured_hit_ratio();
        let weights = [1.0, 1.0, answered, answered];
        let own: f64 = means.iter().zip(weights).map(|(mean, weight)| mean * weight).sum();
        for (sum, (mean, weight)) in sums.iter_mut().zip(means.iter().zip(weights)) {
            *sum += mean * weight;
        }
        sums[4] += (run.cost_ns() - own).max(0.0);
    }
    let total: f64 = sums.iter().sum();
    if total > 0.0 { Ok(sums.map(|sum| sum / total)) } else { Err(CalibrateError::NotTraced) }
}

/// The shapes of the forwarding times of Interests and of Data.
pub(super) fn forwarding_shapes(runs: &[&Run]) -> Result<[Shape; 2], CalibrateError> {
    let shape = |of: fn(&ServiceTimes) -> &Histogram| {
        let mut all = Histogram::default();
        for services in runs.iter().filter_map(|run| run.services.as_ref()) {
            all.add(of(services));
        }
        Shape::of(&all).ok_or(CalibrateError::NotTraced)
    };
    Ok([shape(|s| &s.interest_forwarding)?, shape(|s| &s.data_forwarding)?])
}

/// Share of the measured time in service times that are as long as pauses, of runs whose generator has a processor alone.
pub(super) fn pauses_in_services(runs: &[&Run], processors: usize) -> f64 {
    let (mut paused, mut all) = (0.0, 0.0);
    let alone = runs.iter().filter(|run| run.setting.workers < processors);
    for services in alone.filter_map(|run| run.services.as_ref()) {
        for histogram in [
            &services.interest_dispatch,
            &services.interest_forwarding,
            &services.data_dispatch,
            &services.data_forwarding,
        ] {
            let time = |(from, below, count): &(u64, u64, u64)| {
                f64::midpoint(*from as f64, (*below).min(2 * from + 1) as f64) * *count as f64
            };
            let long = histogram.buckets.iter().filter(|bucket| bucket.0 >= PAUSE_MIN_NS);
            paused += long.map(time).sum::<f64>();
            all += histogram.sum_ns as f64;
        }
    }
    paused / f64::max(all, 1.0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::calibrate::test_campaign::histogram;

    #[test]
    fn times_as_long_as_pauses_are_cut_from_a_shape() {
        let mut measured = histogram(600);
        let clean = Shape::of(&measured).unwrap();
        measured.add(&Histogram {
            count: 1,
            sum_ns: 5_000_000,
            buckets: vec![(4_900_000, 5_100_000, 1)],
        });
        let disturbed = Shape::of(&measured).unwrap();
        assert!((clean.quantiles[32] - disturbed.quantiles[32]).abs() < 0.02);
        assert!((disturbed.scaled(700e3).mean() - 700e3).abs() < 1.0);
    }
}
