//! Prediction of capacities: the highest rates of which at most a stated share is lost.

use libm::{exp, log, sqrt};
use serde::{Deserialize, Serialize};

use super::calibration::Calibration;
use super::error::CalibrateError;
use super::order_statistics::{half_width, median};
use super::prediction::TRACES_OF_LAW;
use super::run::Setting;
use super::speed::Speed;
use crate::pauses::PauseProcess;
use crate::random::{StreamId, TraceRandom};

/// Traces that stand for a long time.
const TRACES_OF_CAPACITY: u32 = 8;

/// Ratios of the upper to the lower bound at which the search for a capacity ends.
const PRECISE: f64 = 1.005;
const COARSE: f64 = 1.02;

/// A predicted capacity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Capacity {
    /// Interests per second.
    pub rate: f64,
    /// Standard deviation of its logarithm by the uncertainty of pauses.
    pub deviation: f64,
}

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

impl Calibration {
    /// The highest rate of which at most `unsatisfied` is not satisfied for long, with the deviation that follows from the
    /// uncertainty of pauses.
    ///
    /// # Errors
    /// As [`predict`](Self::predict).
    pub fn capacity(
        &self,
        setting: &Setting,
        unsatisfied: f64,
        times: (f64, f64),
    ) -> Result<Capacity, CalibrateError> {
        let with = |own: &Self, traces: u32, precision: f64| {
            own.highest_rate(setting, precision, |setting| {
                let prediction = own.predict_traces(setting, Speed::USUAL, times, 0..traces)?;
                Ok(prediction.mean_unsatisfied <= unsatisfied)
            })
        };
        let Some(pauses) = &self.pauses else {
            return Ok(Capacity { rate: with(self, 1, PRECISE)?, deviation: 0.0 });
        };
        let rate = with(self, TRACES_OF_CAPACITY, PRECISE)?;
        // The same traces with each law: their differences are those of the laws.
        let traces = TRACES_OF_CAPACITY / 4;
        let rates: Result<Vec<f64>, CalibrateError> = (0..pauses.replicates.len() as u32)
            .map(|replicate| with(&self.with_law_of_pauses(replicate), traces, COARSE).map(log))
            .collect();
        Ok(Capacity { rate, deviation: half_width(rates?) })
    }

    /// The capacity that a few runs of this length show, each with other pauses: the rate at which half of them have at most
    /// `unsatisfied`.
    ///
    /// # Errors
    /// As [`predict`](Self::predict).
    pub fn capacity_of_runs(
        &self,
        setting: &Setting,
        unsatisfied: f64,
        times: (f64, f64),
        confidence: f64,
    ) -> Result<CapacityOfRuns, CalibrateError> {
        /// Runs near the capacity in a measurement of it, and measurements that are drawn.
        const RUNS: usize = 3;
        const MEASUREMENTS: u64 = 4000;
        let count = |pauses: &PauseProcess| pauses.replicates.len() as u32;
        let laws = self.pauses.as_ref().map_or(1, count).max(1);
        let (traces, precision) =
            if self.pauses.is_some() { (TRACES_OF_LAW, COARSE) } else { (1, PRECISE) };
        let mut logs: Vec<Vec<f64>> = Vec::new();
        for law in 0..laws {
            let own = self.with_law_of_pauses(law);
            let of_trace = |trace: u32| {
                let rate = own.highest_rate(setting, precision, |setting| {
                    let prediction =
                        own.predict_traces(setting, Speed::USUAL, times, trace..trace + 1)?;
                    Ok(prediction.unsatisfied <= unsatisfied)
                });
                rate.map(log)
            };
            let numbers = law * traces..(law + 1) * traces;
            logs.push(numbers.map(of_trace).collect::<Result<_, CalibrateError>>()?);
        }
        let spread = self.deviation_at(setting, confidence);
        let drawn = (0..MEASUREMENTS).map(|index| {
            let mut draw = TraceRandom::new(0x6361_7061, 0).draw(StreamId(0), index);
            let of_law = &logs[draw.below(logs.len() as u64) as usize];
            let runs = [(); RUNS].map(|()| of_law[draw.below(of_law.len() as u64) as usize]);
            (median(runs.to_vec()), draw.normal() * spread)
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

    /// The highest rate that is enough, by bisection with the same random numbers at all rates.
    fn highest_rate(
        &self,
        setting: &Setting,
        precision: f64,
        is_enough: impl Fn(&Setting) -> Result<bool, CalibrateError>,
    ) -> Result<f64, CalibrateError> {
        let limit = setting.workers as f64 * 1e9 / self.saturated_ns(setting, None);
        if !(limit > 0.0 && limit.is_finite()) {
            let reason = "the setting is too far from what was measured";
            return Err(CalibrateError::Undetermined(reason.to_owned()));
        }
        let (mut low, mut high) = (0.05 * limit, 1.5 * limit);
        while high / low > precision {
            let rate = sqrt(low * high);
            if is_enough(&Setting { rate, ..*setting })? {
                low = rate;
            } else {
                high = rate;
            }
        }
        Ok(sqrt(low * high))
    }

    /// The same with the law of pauses of a bootstrap replicate.
    fn with_law_of_pauses(&self, replicate: u32) -> Self {
        let mut own = self.clone();
        if let Some(pauses) = &mut own.pauses
            && let Some(law) = pauses.replicates.get(replicate as usize)
        {
            pauses.law = law.clone();
        }
        own
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::assembly::Placement;
    use crate::calibrate::test_campaign::{campaign, paused_campaign, rig};
    use crate::calibrate::{Histogram, Run, ServiceTimes};

    #[test]
    fn capacity_is_that_of_the_calibrated_times() {
        let calibration = Calibration::of(&campaign(), &rig(1024, 4)).unwrap();
        let setting = Setting {
            workers: 1,
            components: 7,
            payload: 600,
            hit_ratio: 0.0,
            routes: 64,
            rate: 0.0,
            placement: Placement::P1,
        };
        let capacity = calibration.capacity(&setting, 0.001, (0.1, 0.2)).unwrap().rate;
        let limit = 1e9 / calibration.saturated_ns(&setting, None);
        assert!((0.93..1.06).contains(&(capacity / limit)), "{capacity} {limit}");
        let shared = Calibration { processors: 1, generator: [0.0, 500.0, 500.0], ..calibration };
        let less = shared.capacity(&setting, 0.001, (0.1, 0.2)).unwrap().rate;
        assert!(less < 0.85 * capacity, "the generator takes time: {less} {capacity}");
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
        let calibration = Calibration::of(&runs, &rig(48, 8)).unwrap();
        let calm = calibration.clone().without_pauses();
        let setting = Setting { workers: 1, hit_ratio: 0.0, ..runs[0].setting };
        let times = (0.1, 0.4);
        let stated = calibration.capacity_of_runs(&setting, 0.001, times, 0.95).unwrap();
        assert!(stated.low < stated.rate && stated.rate < stated.high, "{stated:?}");
        assert!(stated.deviation > calibration.deviation(&setting), "{stated:?}");
        let without = calm.capacity_of_runs(&setting, 0.001, times, 0.95).unwrap();
        assert!(without.rate > 1.1 * stated.rate && without.deviation < 0.01, "{without:?}");
        // Measurements with other random numbers.
        let measured = |number: u32| {
            let rates = (0..3).map(|run| {
                let trace = 1000 + 3 * number + run;
                let is_enough = |setting: &Setting| {
                    let one = calibration.predict_traces(
                        setting,
                        Speed::USUAL,
                        times,
                        trace..trace + 1,
                    )?;
                    Ok(one.unsatisfied <= 0.001)
                };
                calibration.highest_rate(&setting, 1.02, is_enough).unwrap()
            });
            median(rates.collect())
        };
        let inside = (0..30).map(measured).filter(|rate| (stated.low..=stated.high).contains(rate));
        let count = inside.count();
        assert!(count >= 26, "{count} of 30");
        // For long, what is lost in few bad runs counts, too.
        let long = calibration.capacity(&setting, 0.001, times).unwrap();
        assert!(long.rate < without.rate && long.deviation > 0.0, "{long:?} {stated:?}");
    }
}
