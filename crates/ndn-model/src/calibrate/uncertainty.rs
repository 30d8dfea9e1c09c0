//! Deviations of runs of a setting from their predictions, and intervals.

use libm::{exp, hypot, log};

use super::calibration::Calibration;
use super::order_statistics::half_width;
use super::run::Setting;
use super::slowdown::transfer_effect;
use super::throughput::Throughput;
use crate::special::{normal_cdf, normal_quantile};

/// Uncertainty of the predicted throughput of a setting.
#[derive(Debug, Clone, Copy)]
pub struct Uncertainty<'c> {
    calibration: &'c Calibration,
    setting: &'c Setting,
    throughput: &'c Throughput,
}

impl<'c> Uncertainty<'c> {
    /// Uncertainty of this setting.
    #[must_use]
    pub fn of(calibration: &'c Calibration, setting: &'c Setting) -> Self {
        let throughput = &calibration.throughput[usize::from(calibration.is_shared(setting))];
        Self { calibration, setting, throughput }
    }

    /// The deviations of normal variables whose intervals with probability `confidence` are as wide, below and above the
    /// prediction, as that of the logarithm of the capacity of a run.
    #[must_use]
    pub fn deviations_at(&self, confidence: f64) -> [f64; 2] {
        let (calibration, residual) = (self.bootstrap_deviation(), self.calibration.residual);
        let of_runs = self.throughput.deviations_at(confidence);
        of_runs.map(|of_run| hypot(calibration, of_run.max(residual)))
    }

    /// Factors on a satisfied share below 1 within which that of a run lies with probability `confidence`.
    #[must_use]
    pub fn throughput_factors(&self, confidence: f64) -> (f64, f64) {
        let normal = normal_quantile(0.5 + 0.5 * confidence);
        let [below, above] = self.deviations_at(confidence);
        (exp(-normal * below), exp(normal * above))
    }

    /// The probability that the capacity of a run is at least the predicted one less `margin`, a logarithm, if the prediction
    /// has an independent deviation beside. One of `confidence` is that of the bound on one side, others are those of a normal
    /// variable with the same bound.
    #[must_use]
    pub fn probability(&self, margin: f64, deviation: f64, confidence: f64) -> f64 {
        const DEVIATION_MIN: f64 = 1e-6;
        let [below, above] = self.deviations_at(2.0 * confidence - 1.0);
        let of_run = if margin > 0.0 { below } else { above };
        normal_cdf(margin / hypot(of_run, deviation).max(DEVIATION_MIN))
    }

    /// Standard deviation of the logarithm of the throughput of a run around that of others with its setting; around its
    /// prediction, if the campaign has no setting several times.
    #[must_use]
    pub fn run_deviation(&self) -> f64 {
        let Throughput { deviation, repeated_deviation, .. } = self.throughput;
        repeated_deviation.unwrap_or(*deviation).max(self.calibration.residual)
    }

    /// Standard deviation of the logarithm of the capacity of a run: the bootstrap, and the deviation of a run from the
    /// others.
    #[must_use]
    pub fn deviation(&self) -> f64 {
        hypot(self.bootstrap_deviation(), self.run_deviation())
    }

    /// Standard deviation of the logarithm of the capacity between runs by the time of transfers.
    #[must_use]
    pub fn transfer_deviation(&self) -> f64 {
        let (calibration, setting) = (self.calibration, self.setting);
        let deviation_ns = calibration.transfers[usize::from(setting.workers > 1)].deviation_ns;
        let saturated_ns = calibration.saturated_ns(setting, None);
        transfer_effect(calibration, setting) * deviation_ns / saturated_ns
    }

    /// Standard deviation of the logarithm of the capacity over the bootstrap replicates.
    #[must_use]
    pub fn bootstrap_deviation(&self) -> f64 {
        let calibration = self.calibration;
        let estimate = calibration.saturated_ns(self.setting, None);
        let logs: Vec<f64> = (0..calibration.replicates.len())
            .map(
                |replicate| log(estimate / calibration.saturated_ns(self.setting, Some(replicate))),
            )
            .filter(|ratio| ratio.is_finite())
            .collect();
        half_width(logs)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::calibrate::test_campaign::{campaign, rig};
    use crate::calibrate::{RunCapacity, calibrate};

    /// Fifteen runs in a hundred have half the capacity: no margin of less than that has a probability of 90 %.
    #[test]
    fn probability_of_a_plan_is_that_of_one_side() {
        let mut calibration = calibrate(&campaign(), &rig(64, 8)).unwrap();
        let log_ratio = |number: usize| if number < 15 { -0.69 } else { 0.0 };
        let capacity = |number| RunCapacity { log_ratio: log_ratio(number), is_least: false };
        calibration.throughput[0] = Throughput {
            runs: 100,
            deviation: 0.25,
            capacities: (0..100).map(capacity).collect(),
            ..Throughput::default()
        };
        let setting = Setting { workers: 1, ..campaign()[0].setting };
        let uncertainty = Uncertainty::of(&calibration, &setting);
        let probability = |margin: f64| uncertainty.probability(margin, 0.0, 0.9);
        assert!(probability(0.65) < 0.9, "{}", probability(0.65));
        assert!(probability(0.75) > 0.9, "{}", probability(0.75));
        assert!(probability(-0.1) < 0.1, "{}", probability(-0.1));
        assert!((probability(0.0) - 0.5).abs() < 1e-9);
        // One of 80 % does not need that margin.
        assert!(uncertainty.probability(0.1, 0.0, 0.8) > 0.8);
        assert!(uncertainty.probability(0.65, 0.2, 0.8) < uncertainty.probability(0.65, 0.0, 0.8));
    }
}
