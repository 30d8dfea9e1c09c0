//! Deviations of runs of a setting from their predictions, and intervals.

use libm::{exp, hypot, log};

use super::calibration::Calibration;
use super::order_statistics::half_width;
use super::run::Setting;
use super::slowdown::transfer_effect;
use super::throughput::Throughput;
use crate::special::normal_quantile;

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
