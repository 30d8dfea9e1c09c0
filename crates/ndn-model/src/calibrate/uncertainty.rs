//! Deviations of runs from their predictions, and intervals.

use libm::{exp, log, sqrt};

use super::calibration::Calibration;
use super::latency::latency_ratio_near;
use super::order_statistics::half_width;
use super::run::Setting;
use crate::special::normal_quantile;

impl Calibration {
    /// Logarithms of measured p99 latencies over predicted ones, each run predicted by the others.
    pub(super) fn latency_errors(&self) -> Vec<f64> {
        let errors = (0..self.discrepancies.len()).filter_map(|index| {
            let mut others = self.discrepancies.clone();
            let own = others.swap_remove(index);
            let known = others.iter().any(|other| other.is_shared == own.is_shared);
            let error = log(own.ratio[1] / latency_ratio_near(&others, own.is_shared, own.load)[1]);
            (known && error.is_finite()).then_some(error)
        });
        errors.collect()
    }

    /// Factors on the p99 latency within which that of a run lies with a probability of approximately `confidence`: the
    /// quantile by rank of the errors of the measured runs, each predicted by the others (the jackknife of Barber, Candès,
    /// Ramdas, Tibshirani 2021, whose jackknife+ has a guarantee). `None` with fewer runs than that rank.
    #[must_use]
    pub fn latency_factors(&self, confidence: f64) -> Option<(f64, f64)> {
        let mut widths: Vec<f64> = self.latency_errors().into_iter().map(f64::abs).collect();
        widths.sort_by(f64::total_cmp);
        let rank = (confidence * (widths.len() + 1) as f64).ceil() as usize;
        let width = *widths.get(rank.max(1) - 1)?;
        Some((exp(-width), exp(width)))
    }

    /// Runs that [`latency_factors`](Self::latency_factors) come from.
    #[must_use]
    pub fn latency_runs(&self) -> usize {
        self.latency_errors().len()
    }

    /// Factors on a satisfied share below 1 within which that of a run lies with probability `confidence`.
    #[must_use]
    pub fn throughput_factors(&self, setting: &Setting, confidence: f64) -> (f64, f64) {
        let deviation = self.deviation_at(setting, confidence);
        let width = normal_quantile(0.5 + 0.5 * confidence) * deviation;
        (exp(-width), exp(width))
    }

    /// Standard deviation of the logarithm of the throughput of a run around that of others with its setting.
    #[must_use]
    pub fn run_deviation(&self, setting: &Setting) -> f64 {
        self.throughput[usize::from(self.is_shared(setting))].deviation.max(self.residual)
    }

    /// Standard deviation of the logarithm of the capacity of a run: the bootstrap, and the deviation of a run from the
    /// others.
    #[must_use]
    pub fn deviation(&self, setting: &Setting) -> f64 {
        let (calibration, run) = (self.bootstrap_deviation(setting), self.run_deviation(setting));
        sqrt(calibration * calibration + run * run)
    }

    /// The [deviation](Self::deviation) of a normal variable whose interval with probability `confidence` is as wide as that of
    /// a run, if the deviation of throughput is known from a few runs only.
    #[must_use]
    pub fn deviation_at(&self, setting: &Setting, confidence: f64) -> f64 {
        let throughput = &self.throughput[usize::from(self.is_shared(setting))];
        let run = throughput.deviation_at(confidence).max(self.residual);
        let calibration = self.bootstrap_deviation(setting);
        sqrt(calibration * calibration + run * run)
    }

    /// Standard deviation of the logarithm of the capacity over the bootstrap replicates.
    fn bootstrap_deviation(&self, setting: &Setting) -> f64 {
        let estimate = self.saturated_ns(setting, None);
        let logs: Vec<f64> = (0..self.replicates.len())
            .map(|replicate| log(estimate / self.saturated_ns(setting, Some(replicate))))
            .filter(|ratio| ratio.is_finite())
            .collect();
        half_width(logs)
    }
}
