//! Prediction of capacities: the highest rates of which at most a stated share is lost.

use libm::{exp, log, pow, sqrt};
use serde::{Deserialize, Serialize};

use super::calibration::Calibration;
use super::error::CalibrateError;
use super::long_time::{LEAST, LongTime, LongTimeCapacity, MOST, PRECISION};
use super::order_statistics::{half_width, median};
use super::prediction::{ModelOfRun, TRACES_OF_LAW};
use super::run::Setting;
use super::slowdown::Slowdown;
use super::uncertainty::Uncertainty;
use crate::random::{StreamId, TraceRandom};

/// Ratio of the upper to the lower bound at which the search for the capacity of a run ends if it has pauses; else it is `PRECISION`.
const PAUSED_PRECISION: f64 = 1.02;

/// The predicted capacity as a few runs show it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CapacityOfRuns {
    /// Interests per second.
    pub rate: f64,
    /// Lower bound of the interval that contains it with the stated probability.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
    /// Standard deviation of its logarithm by pauses: those of the runs, and the uncertainty of their law.
    pub deviation: f64,
}

/// Search for the highest rate of a setting of which at most a share is lost.
#[derive(Debug, Clone, Copy)]
pub struct CapacitySearch<'c> {
    /// The calibrated parameters.
    pub calibration: &'c Calibration,
    /// The setting, whose rate has no influence.
    pub setting: Setting,
    /// Share of the Interests that is lost at most.
    pub unsatisfied: f64,
    /// Seconds of the warm-up and of the window.
    pub times: (f64, f64),
}

impl CapacitySearch<'_> {
    /// The rate of which no more is lost for long, to 0.5 %.
    ///
    /// # Errors
    /// A setting too far from what was measured, or a fault of the model.
    pub fn of_long_time(&self) -> Result<LongTimeCapacity, CalibrateError> {
        let long = LongTime::of(self.calibration, self.setting, self.limit()?, self.times);
        long.capacity(self.unsatisfied)
    }

    /// The capacity that a few runs of this length show, each with other pauses: the rate at which half of them lose no more.
    ///
    /// # Errors
    /// As [`of_long_time`](Self::of_long_time).
    pub fn of_runs(&self, confidence: f64) -> Result<CapacityOfRuns, CalibrateError> {
        /// Runs near the capacity in a measurement of it, and measurements that are drawn.
        const RUNS: usize = 3;
        const MEASUREMENTS: u64 = 4000;
        let pauses = self.calibration.pauses.as_ref();
        let laws = pauses.map_or(1, |pauses| pauses.replicates.len() as u32).max(1);
        let (traces, precision) =
            if pauses.is_some() { (TRACES_OF_LAW, PAUSED_PRECISION) } else { (1, PRECISION) };
        let mut logs: Vec<Vec<f64>> = Vec::new();
        let mut near = self.limit()?;
        for law in 0..laws {
            let calibration = with_law_of_pauses(self.calibration, law);
            let own = CapacitySearch { calibration: &calibration, ..*self };
            let of_trace = |trace: u32| {
                let rate = own.of_run(trace, precision, near)?;
                near = rate;
                Ok(log(rate))
            };
            let numbers = law * traces..(law + 1) * traces;
            logs.push(numbers.map(of_trace).collect::<Result<_, CalibrateError>>()?);
        }
        let [below, above] =
            Uncertainty::of(self.calibration, &self.setting).deviations_at(confidence);
        let drawn = (0..MEASUREMENTS).map(|index| {
            let mut draw = TraceRandom::new(0x6361_7061, 0).draw(StreamId(0), index);
            let of_law = &logs[draw.below(logs.len() as u64) as usize];
            let runs = [(); RUNS].map(|()| of_law[draw.below(of_law.len() as u64) as usize]);
            let other = draw.normal();
            (median(runs.to_vec()), other * if other < 0.0 { below } else { above })
        });
        let (by_pauses, all): (Vec<f64>, Vec<f64>) =
            drawn.map(|(log_rate, other)| (log_rate, log_rate + other)).unzip();
        let mut sorted = all;
        sorted.sort_by(f64::total_cmp);
        let at = |level: f64| {
            exp(sorted[((level * MEASUREMENTS as f64) as usize).min(sorted.len() - 1)])
        };
        Ok(CapacityOfRuns {
            rate: exp(median(logs.concat())),
            low: at(0.5 - 0.5 * confidence),
            high: at(0.5 + 0.5 * confidence),
            deviation: half_width(by_pauses),
        })
    }

    /// Interests per second at which the workers are always busy.
    pub(super) fn limit(&self) -> Result<f64, CalibrateError> {
        let saturated_ns = self.calibration.saturated_ns(&self.setting, None);
        let limit = self.setting.workers as f64 * 1e9 / saturated_ns;
        if !(limit > 0.0 && limit.is_finite()) {
            let reason = "the setting is too far from what was measured";
            return Err(CalibrateError::Undetermined(reason.to_owned()));
        }
        Ok(limit)
    }

    /// The highest rate of which no more is lost in a run, between 5 and 150 % of the limit, with the same random numbers at all
    /// rates: by growing steps from `near`, then by bisection until the ratio of the bounds is `precision`.
    fn of_run(&self, trace: u32, precision: f64, near: f64) -> Result<f64, CalibrateError> {
        /// The first step is a power of the precision.
        const ROUNDING: f64 = 1.0 + 1e-9;
        let limit = self.limit()?;
        let (lowest, highest) = (LEAST * limit, MOST * limit);
        let is_enough = |rate: f64| {
            let run = ModelOfRun {
                calibration: self.calibration,
                setting: Setting { rate, ..self.setting },
                slowdown: Slowdown::NONE,
                times: self.times,
            };
            let prediction = run.predict_traces(trace..trace + 1)?;
            Ok::<bool, CalibrateError>(prediction.unsatisfied <= self.unsatisfied)
        };
        let near = near.clamp(lowest, highest);
        // Two bisections of the first step are precise.
        let (mut low, mut high, mut step) = (near, near, pow(precision, 4.0));
        if is_enough(near)? {
            while high < highest {
                high = (low * step).min(highest);
                if !is_enough(high)? {
                    break;
                }
                (low, step) = (high, step * step);
            }
        } else {
            while low > lowest {
                low = (high / step).max(lowest);
                if is_enough(low)? {
                    break;
                }
                (high, step) = (low, step * step);
            }
        }
        while high / low > precision * ROUNDING {
            let rate = sqrt(low * high);
            if is_enough(rate)? {
                low = rate;
            } else {
                high = rate;
            }
        }
        Ok(sqrt(low * high))
    }
}

/// The same parameters with the law of pauses of a bootstrap replicate.
fn with_law_of_pauses(calibration: &Calibration, replicate: u32) -> Calibration {
    let mut own = calibration.clone();
    if let Some(pauses) = &mut own.pauses
        && let Some(law) = pauses.replicates.get(replicate as usize)
    {
        pauses.law = law.clone();
    }
    own
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::assembly::Placement;
    use crate::calibrate::calibrate;
    use crate::calibrate::test_campaign::{campaign, rig, slow_campaign};

    #[test]
    fn capacity_is_that_of_the_calibrated_times() {
        let calibration = calibrate(&campaign(), &rig(1024, 4)).unwrap();
        let setting = Setting {
            workers: 1,
            components: 7,
            payload: 600,
            hit_ratio: 0.0,
            routes: 64,
            rate: 0.0,
            placement: Placement::P1,
        };
        let rate = |calibration: &Calibration| {
            let search =
                CapacitySearch { calibration, setting, unsatisfied: 0.001, times: (0.1, 0.2) };
            search.of_long_time().unwrap().rate
        };
        let capacity = rate(&calibration);
        let limit = 1e9 / calibration.saturated_ns(&setting, None);
        assert!((0.93..1.06).contains(&(capacity / limit)), "{capacity} {limit}");
        let shared = Calibration { processors: 1, generator: [0.0, 500.0, 500.0], ..calibration };
        let less = rate(&shared);
        assert!(less < 0.85 * capacity, "the generator takes time: {less} {capacity}");
    }

    /// Where each run has pauses of its own, the stated interval of a capacity has to contain what a few runs show.
    #[test]
    fn capacities_of_runs_lie_in_their_intervals() {
        let runs = slow_campaign();
        let calibration = calibrate(&runs, &rig(48, 8)).unwrap();
        let calm = calibration.clone().without_pauses();
        let setting = Setting { workers: 1, hit_ratio: 0.0, ..runs[0].setting };
        let times = (0.1, 0.4);
        let search =
            |calibration| CapacitySearch { calibration, setting, unsatisfied: 0.001, times };
        let stated = search(&calibration).of_runs(0.95).unwrap();
        assert!(stated.low < stated.rate && stated.rate < stated.high, "{stated:?}");
        assert!(
            stated.deviation > Uncertainty::of(&calibration, &setting).run_deviation(),
            "{stated:?}"
        );
        let without = search(&calm).of_runs(0.95).unwrap();
        assert!(without.rate > 1.1 * stated.rate && without.deviation < 0.01, "{without:?}");
        // Measurements with other random numbers.
        let measured = |number: u32| {
            let rates = (0..3).map(|run| {
                let trace = 1000 + 3 * number + run;
                search(&calibration).of_run(trace, 1.02, stated.rate).unwrap()
            });
            median(rates.collect())
        };
        let inside = (0..30).map(measured).filter(|rate| (stated.low..=stated.high).contains(rate));
        let count = inside.count();
        assert!(count >= 26, "{count} of 30");
    }
}
