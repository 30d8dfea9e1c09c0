//! Prediction of capacities: the highest rates of which at most a stated share is lost.

use core::ops::Range;

use libm::{exp, log, pow, sqrt};
use serde::{Deserialize, Serialize};

use super::calibration::Calibration;
use super::error::CalibrateError;
use super::order_statistics::{half_width, median};
use super::prediction::{ModelOfRun, Prediction, TRACES_OF_LAW};
use super::run::Setting;
use super::slowdown::Slowdown;
use super::uncertainty::Uncertainty;
use crate::random::{StreamId, TraceRandom};

/// Traces that stand for a long time.
const TRACES_OF_CAPACITY: u32 = 8;
/// Those that are simulated with each replicate of the law of pauses.
const TRACES_OF_REPLICATE: Range<u32> = 0..2;

/// Ratio of the upper to the lower bound at which the search for a capacity ends.
const PRECISE: f64 = 1.005;
/// Ratio at which [`CapacitySearch::roughly`] ends: the capacity for long differs from its result by less.
pub const COARSE: f64 = 1.02;

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
    /// The rate of which no more is lost for long, to 2 % ([`COARSE`]).
    ///
    /// # Errors
    /// A setting too far from what was measured, or a fault of the model.
    pub fn roughly(&self) -> Result<f64, CalibrateError> {
        let limit = self.limit()?;
        if self.calibration.pauses.is_none() {
            return self.of_traces(self.traces(), COARSE, limit);
        }
        let near = self.of_traces(TRACES_OF_REPLICATE, COARSE, limit)?;
        self.of_traces(self.traces(), COARSE, near)
    }

    /// The rate of which no more is lost for long, to 0.5 %; `near` is where the search begins.
    ///
    /// # Errors
    /// As [`roughly`](Self::roughly).
    pub fn of_long_time(&self, near: f64) -> Result<f64, CalibrateError> {
        self.of_traces(self.traces(), PRECISE, near)
    }

    /// The traces that stand for a long time; without pauses, they hardly differ.
    fn traces(&self) -> Range<u32> {
        0..if self.calibration.pauses.is_some() { TRACES_OF_CAPACITY } else { 1 }
    }

    fn of_traces(
        &self,
        traces: Range<u32>,
        precision: f64,
        near: f64,
    ) -> Result<f64, CalibrateError> {
        self.highest_rate(traces, precision, near, |one| one.mean_unsatisfied)
    }

    /// Bootstrap replicates of the law of pauses.
    #[must_use]
    pub fn laws(&self) -> Range<u32> {
        0..self.calibration.pauses.as_ref().map_or(0, |pauses| pauses.replicates.len() as u32)
    }

    /// The rate of which no more is lost for long with a replicate of the law of pauses, to 2 %; `rate` is that with the law
    /// itself. Each replicate has the same traces, so that the rates of two differ by their laws.
    ///
    /// # Errors
    /// As [`roughly`](Self::roughly).
    pub fn with_law(&self, replicate: u32, rate: f64) -> Result<f64, CalibrateError> {
        let calibration = with_law_of_pauses(self.calibration, replicate);
        let own = CapacitySearch { calibration: &calibration, ..*self };
        own.of_traces(TRACES_OF_REPLICATE, COARSE, rate)
    }

    /// The capacity that a few runs of this length show, each with other pauses: the rate at which half of them lose no more.
    ///
    /// # Errors
    /// As [`roughly`](Self::roughly).
    pub fn of_runs(&self, confidence: f64) -> Result<CapacityOfRuns, CalibrateError> {
        /// Runs near the capacity in a measurement of it, and measurements that are drawn.
        const RUNS: usize = 3;
        const MEASUREMENTS: u64 = 4000;
        let pauses = self.calibration.pauses.as_ref();
        let laws = pauses.map_or(1, |pauses| pauses.replicates.len() as u32).max(1);
        let (traces, precision) =
            if pauses.is_some() { (TRACES_OF_LAW, COARSE) } else { (1, PRECISE) };
        let mut logs: Vec<Vec<f64>> = Vec::new();
        let mut near = self.limit()?;
        for law in 0..laws {
            let calibration = with_law_of_pauses(self.calibration, law);
            let own = CapacitySearch { calibration: &calibration, ..*self };
            let of_trace = |trace: u32| {
                let rate =
                    own.highest_rate(trace..trace + 1, precision, near, |one| one.unsatisfied)?;
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
    fn limit(&self) -> Result<f64, CalibrateError> {
        let saturated_ns = self.calibration.saturated_ns(&self.setting, None);
        let limit = self.setting.workers as f64 * 1e9 / saturated_ns;
        if !(limit > 0.0 && limit.is_finite()) {
            let reason = "the setting is too far from what was measured";
            return Err(CalibrateError::Undetermined(reason.to_owned()));
        }
        Ok(limit)
    }

    /// The highest rate of which no more is lost, between 5 and 150 % of the limit, with the same random numbers at all rates: by
    /// growing steps from `near`, then by bisection until the ratio of the bounds is `precision`.
    fn highest_rate(
        &self,
        traces: Range<u32>,
        precision: f64,
        near: f64,
        lost: impl Fn(&Prediction) -> f64,
    ) -> Result<f64, CalibrateError> {
        /// The first step is a power of the precision.
        const ROUNDING: f64 = 1.0 + 1e-9;
        let limit = self.limit()?;
        let (lowest, highest) = (0.05 * limit, 1.5 * limit);
        let is_enough = |rate: f64| {
            let run = ModelOfRun {
                calibration: self.calibration,
                setting: Setting { rate, ..self.setting },
                slowdown: Slowdown::NONE,
                times: self.times,
            };
            let prediction = run.predict_traces(traces.clone())?;
            Ok::<bool, CalibrateError>(lost(&prediction) <= self.unsatisfied)
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
    use crate::calibrate::test_campaign::{campaign, paused_campaign, rig};
    use crate::calibrate::{Histogram, Run, ServiceTimes};

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
            search.of_long_time(search.roughly().unwrap()).unwrap()
        };
        let capacity = rate(&calibration);
        let limit = 1e9 / calibration.saturated_ns(&setting, None);
        assert!((0.93..1.06).contains(&(capacity / limit)), "{capacity} {limit}");
        let shared = Calibration { processors: 1, generator: [0.0, 500.0, 500.0], ..calibration };
        let less = rate(&shared);
        assert!(less < 0.85 * capacity, "the generator takes time: {less} {capacity}");
    }

    /// Wherever the search begins, it ends at the same rate, and within its bounds.
    #[test]
    fn capacity_does_not_depend_on_where_the_search_begins() {
        let calibration = calibrate(&campaign(), &rig(1024, 4)).unwrap();
        let setting = Setting { workers: 1, hit_ratio: 0.0, ..campaign()[0].setting };
        let search = |unsatisfied| CapacitySearch {
            calibration: &calibration,
            setting,
            unsatisfied,
            times: (0.02, 0.05),
        };
        let limit = search(0.001).limit().unwrap();
        let from = |unsatisfied, part: f64| {
            search(unsatisfied).of_long_time(part * limit).unwrap() / limit
        };
        let rates = [0.001, 0.05, 0.9, 1.0, 1.5, 100.0].map(|part| from(0.001, part));
        let rough = search(0.001).roughly().unwrap() / limit;
        for rate in rates {
            assert!((rate / rates[0] - 1.0).abs() < PRECISE - 1.0, "{rates:?}");
            assert!((rate / rough - 1.0).abs() < COARSE - 1.0, "{rates:?} {rough}");
        }
        // All is lost, or nothing counts as lost.
        for part in [0.05, 1.0, 1.5] {
            assert!((from(-1.0, part) - 0.05).abs() < 1e-9 && (from(2.0, part) - 1.5).abs() < 1e-9);
        }
    }

    /// Where each run has pauses of its own, the stated interval of a capacity has to contain what a few runs show.
    #[test]
    fn capacities_of_runs_lie_in_their_intervals() {
        // Forty times as slow, so that few Interests suffice; a pause fills a queue of 48 at three quarters of the load.
        let slow = |run: Run| {
            let cpu_ns = run.cpu_ns.iter().map(|ns| 40 * ns).collect();
            let slower = |mut histogram: Histogram| {
                for bucket in &mut histogram.buckets {
                    *bucket = (40 * bucket.0, 40 * bucket.1, bucket.2);
                }
                histogram.sum_ns *= 40;
                histogram
            };
            let services = run.services.map(|services| ServiceTimes {
                interest_dispatch: slower(services.interest_dispatch),
                interest_forwarding: slower(services.interest_forwarding),
                data_dispatch: slower(services.data_dispatch),
                data_forwarding: slower(services.data_forwarding),
                ..services
            });
            let (sent, satisfied) = (run.sent / 40, run.satisfied / 40);
            Run { sent, satisfied, cpu_ns, services, ..run }
        };
        let longer = |mut run: Run| {
            run.pauses
                .iter_mut()
                .flat_map(|watch| &mut watch.pauses)
                .for_each(|p| p.1 += 2_000_000);
            run
        };
        let (_, runs) = paused_campaign();
        let runs: Vec<Run> = runs.into_iter().map(slow).map(longer).collect();
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
                search(&calibration)
                    .highest_rate(trace..trace + 1, 1.02, stated.rate, |one| one.unsatisfied)
                    .unwrap()
            });
            median(rates.collect())
        };
        let inside = (0..30).map(measured).filter(|rate| (stated.low..=stated.high).contains(rate));
        let count = inside.count();
        assert!(count >= 26, "{count} of 30");
        // For long, what is lost in few bad runs counts, too.
        let search = search(&calibration);
        let long = search.of_long_time(search.roughly().unwrap()).unwrap();
        assert!(long < without.rate, "{long} {stated:?}");
        let of_laws: Vec<f64> =
            search.laws().map(|law| search.with_law(law, long).unwrap()).collect();
        assert!(half_width(of_laws.clone()) > 0.0, "{of_laws:?}");
        assert!(of_laws.iter().all(|rate| (0.5..2.0).contains(&(rate / long))), "{of_laws:?}");
    }
}
