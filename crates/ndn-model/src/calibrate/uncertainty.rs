//! Deviations of runs of a setting from their predictions, and intervals.

use libm::{exp, hypot, log};

use super::calibration::Calibration;
use super::order_statistics::half_width;
use super::run::Setting;
use super::slowdown::transfer_effect;
use super::throughput::{Ranks, Throughput};
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
    /// has an independent deviation beside: that of the mixture of both. It is at most n/(n + 1) with n runs at risk, if these
    /// suffice for `confidence`.
    #[must_use]
    pub fn probability(&self, margin: f64, deviation: f64, confidence: f64) -> f64 {
        let others = hypot(self.bootstrap_deviation(), deviation);
        let is_enough = |log: f64| match margin + log {
            spare if others > 0.0 => normal_cdf(spare / others),
            spare if spare >= 0.0 => 1.0,
            _ => 0.0,
        };
        let runs = self.throughput.below_further_run(confidence, self.calibration.residual);
        runs.into_iter().map(|(probability, log)| probability * is_enough(log)).sum()
    }

    /// The runs by which a bound on one side has this probability.
    #[must_use]
    pub fn ranks(&self, confidence: f64) -> Ranks {
        self.throughput.ranks(confidence)
    }

    /// Standard deviation of the logarithm of the throughput of a run around that of others with its setting; around its
    /// prediction, if the campaign has no setting several times.
    #[must_use]
    pub fn run_deviation(&self) -> f64 {
        let Throughput { deviation, repeated_deviation, .. } = self.throughput;
        repeated_deviation.unwrap_or(*deviation).max(self.calibration.residual)
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
    use crate::assembly::Placement;
    use crate::calibrate::RunCapacity;

    /// The probability of plans without other deviations, with runs of these capacities, in order, and a deviation of them.
    struct Plans(Calibration);

    impl Plans {
        fn of(capacities: &[f64], deviation: f64) -> Self {
            let text = include_str!("../../../../tests/calibration.toml");
            let mut calibration = Calibration::parse(text).unwrap();
            let capacity = |log_ratio: &f64| RunCapacity { log_ratio: *log_ratio, is_least: false };
            calibration.throughput[0] = Throughput {
                runs: capacities.len(),
                deviation,
                capacities: capacities.iter().map(capacity).collect(),
                ..Throughput::default()
            };
            Self(calibration)
        }

        fn ranks(&self, confidence: f64) -> Ranks {
            self.0.throughput[0].ranks(confidence)
        }

        fn probability(&self, margin: f64, deviation: f64, confidence: f64) -> f64 {
            let setting = Setting {
                workers: 1,
                components: 7,
                payload: 0,
                hit_ratio: 0.0,
                routes: 64,
                rate: 1000.0,
                placement: Placement::P1,
            };
            Uncertainty::of(&self.0, &setting).probability(margin, deviation, confidence)
        }

        /// The least margin with a probability of at least this.
        fn margin(&self, deviation: f64, confidence: f64) -> f64 {
            let (mut low, mut high) = (-5.0, 5.0);
            while high - low > 1e-6 {
                let middle = 0.5 * (low + high);
                let is_enough = self.probability(middle, deviation, confidence) >= confidence;
                *(if is_enough { &mut high } else { &mut low }) = middle;
            }
            high
        }
    }

    /// Nine runs in a hundred have half the capacity. With a deviation beside, a margin that is the root of the squares of both
    /// quantiles is too small.
    #[test]
    fn probability_of_a_plan_holds_in_a_mixture() {
        let fast = |number: u32| 0.03 + 0.07 * f64::from(number) / 90.0;
        let capacities: Vec<f64> = [-0.69; 9].into_iter().chain((0..91).map(fast)).collect();
        let plans = Plans::of(&capacities, 0.25);
        let truth = |margin: f64, deviation: f64| {
            let of = |log: &f64| normal_cdf((margin + log) / deviation);
            capacities.iter().map(of).sum::<f64>() / 100.0
        };
        for deviation in [0.05, 0.02, 0.3] {
            for confidence in [0.5, 0.8, 0.9, 0.95, 0.98] {
                let margin = plans.margin(deviation, confidence);
                let holds = truth(margin, deviation);
                assert!(
                    (confidence..confidence + 0.02).contains(&holds),
                    "{deviation} {confidence}: {margin}, {holds}"
                );
            }
        }
        let all = plans.probability(9.0, 0.05, 0.9);
        assert!((all - 100.0 / 101.0).abs() < 1e-9, "{all}");
    }

    #[test]
    fn probability_of_a_plan_without_other_deviations_has_steps() {
        let capacities: Vec<f64> = (0..99).map(|number| 0.01 * f64::from(number - 49)).collect();
        let plans = Plans::of(&capacities, 0.25);
        let near = |margin: f64, confidence: f64, expected: f64| {
            let found = plans.probability(margin, 0.0, confidence);
            assert!((found - expected).abs() < 1e-9, "{margin} {confidence}: {found}");
        };
        near(0.001, 0.9, 0.5);
        near(0.405, 0.9, 0.9);
        near(0.485, 0.9, 0.98);
        near(1.0, 0.99, 0.99);
        near(-0.6, 0.9, 0.0);
    }

    /// Below the lowest run, there is a distribution only where ranks do not suffice.
    #[test]
    fn probability_beyond_ranks_is_that_of_a_distribution() {
        let of = |number: u32| 0.1 * normal_quantile(f64::from(number) / 55.0);
        let plans = Plans::of(&(1..55).map(of).collect::<Vec<_>>(), 0.25);
        assert!(plans.probability(5.0, 0.05, 0.9) < 54.0 / 55.0 + 1e-9);
        // Student's quantile with 53 degrees of freedom is -2.4 at 1 %.
        let margin = plans.margin(0.05, 0.99);
        assert!((0.58..0.72).contains(&margin), "{margin}");
        assert_eq!(plans.ranks(0.99), Ranks { runs: 54, needed: 99 });
        assert_eq!(plans.ranks(0.9), Ranks { runs: 54, needed: 9 });
        assert!(plans.ranks(0.98).suffice() && !plans.ranks(0.99).suffice());
        // Without runs it is normal, with the residual of the model.
        let mut plans = Plans::of(&[], 0.0);
        plans.0.residual = 0.02;
        let none = plans.probability(0.05, 0.0, 0.99);
        assert!((none - normal_cdf(2.5)).abs() < 1e-3, "{none}");
        assert_eq!(plans.ranks(0.9), Ranks { runs: 0, needed: 9 });
    }
}
