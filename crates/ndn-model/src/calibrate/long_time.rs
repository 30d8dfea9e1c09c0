//! The highest rate of which at most a stated share is lost for long.
//!
//! Most of what is lost for long is lost in few long pauses of processors, one of which comes in many seconds. To wait for them would
//! take minutes of simulated time for each rate, and the pauses that happen to come would decide. So a pause of each length is
//! simulated alone: what it loses is a function of its length, whose mean by the law of pauses is what pauses lose. What is lost
//! between pauses is simulated without them, at a rate that is higher by the time that they take.
//!
//! A pause that begins before the queues of the one before it are empty loses more than it does alone, which is left out.

use core::ops::Range;
use std::collections::BTreeMap;

use libm::{log, pow, round, sqrt};

use super::calibration::Calibration;
use super::error::CalibrateError;
use super::prediction::ModelOfRun;
use super::run::Setting;
use super::slowdown::Slowdown;
use crate::distribution::Distribution;
use crate::fast::FastEngine;
use crate::network::{Network, Pauses};
use crate::pauses::{PAUSE_MIN_NS, PauseLaw, PauseProcess};
use crate::random::TraceRandom;

/// Ratio of neighbouring rates that are compared: capacities are as precise.
pub(super) const PRECISION: f64 = 1.005;
/// Capacities that are found, of the limit.
pub(super) const LEAST: f64 = 0.05;
pub(super) const MOST: f64 = 1.5;
/// Ratio of neighbouring lengths of pauses that are simulated; what others lose is interpolated.
const LENGTH_RATIO: f64 = 1.1;
/// Probability of a longer pause than the longest that is simulated. What it loses is extrapolated.
const LONGER: f64 = 1e-5;
/// Shortest time before and after a pause that is simulated, in nanoseconds, and the largest load for which it is longer.
const MARGIN_MIN_NS: f64 = 5e6;
const LOAD_MAX: f64 = 0.95;
/// Interests of all traces of a pause at least.
const INTERESTS: f64 = 4000.0;
const PS: f64 = 1e3;

/// The capacity of a setting for a long time.
#[derive(Debug, Clone, PartialEq)]
pub struct LongTimeCapacity {
    /// Interests per second.
    pub rate: f64,
    /// The same with each bootstrap replicate of the law of pauses; empty without pauses.
    pub of_laws: Vec<f64>,
}

/// Losses at the simulated rates. A rate has a number: the power of [`PRECISION`] that it is of the limit.
pub(super) struct LongTime<'c> {
    calibration: &'c Calibration,
    calm: Calibration,
    setting: Setting,
    /// Interests per second at which the workers are always busy.
    limit: f64,
    /// Seconds of the warm-up and of the window without pauses.
    times: (f64, f64),
    /// Lengths of pauses, rising, in nanoseconds.
    lengths_ns: Vec<f64>,
    /// Share of the Interests that is lost without pauses.
    between_pauses: BTreeMap<i32, f64>,
    /// Interests that one pause of each processor loses, by its length.
    by_pauses: BTreeMap<i32, Vec<f64>>,
}

impl<'c> LongTime<'c> {
    pub(super) fn of(
        calibration: &'c Calibration,
        setting: Setting,
        limit: f64,
        times: (f64, f64),
    ) -> Self {
        let longest = |all: &'c PauseProcess| {
            let laws = core::iter::once(&all.law).chain(&all.replicates);
            laws.map(|law| law.length.exceeded_with(LONGER)).fold(0.0, f64::max)
        };
        let longest_ns = calibration.pauses.as_ref().map_or(0.0, longest);
        let shorter = |length_ns: &f64| Some(length_ns / LENGTH_RATIO);
        let mut lengths_ns: Vec<f64> = core::iter::successors(Some(longest_ns), shorter)
            .take_while(|length_ns| *length_ns > PAUSE_MIN_NS as f64)
            .collect();
        lengths_ns.reverse();
        Self {
            calibration,
            calm: calibration.clone().without_pauses(),
            setting,
            limit,
            times,
            lengths_ns,
            between_pauses: BTreeMap::new(),
            by_pauses: BTreeMap::new(),
        }
    }

    /// The highest rate of which at most this share is lost, between 5 and 150 % of the limit.
    pub(super) fn capacity(mut self, unsatisfied: f64) -> Result<LongTimeCapacity, CalibrateError> {
        let Some(pauses) = &self.calibration.pauses else {
            let rate = self.highest(unsatisfied, None)?;
            return Ok(LongTimeCapacity { rate, of_laws: Vec::new() });
        };
        let rate = self.highest(unsatisfied, Some(&pauses.law))?;
        let of_laws = pauses.replicates.iter().map(|law| self.highest(unsatisfied, Some(law)));
        Ok(LongTimeCapacity { rate, of_laws: of_laws.collect::<Result<_, _>>()? })
    }

    fn highest(&mut self, unsatisfied: f64, law: Option<&PauseLaw>) -> Result<f64, CalibrateError> {
        let number = |part: f64| (log(part) / log(PRECISION)) as i32;
        let (mut low, mut high) = (number(LEAST), number(MOST));
        while high - low > 1 {
            let middle = low.midpoint(high);
            if self.lost(middle, law)? <= unsatisfied {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(self.rate(low) * sqrt(PRECISION))
    }

    fn rate(&self, number: i32) -> f64 {
        self.limit * pow(PRECISION, f64::from(number))
    }

    /// Share of the Interests that is lost at a rate for long.
    fn lost(&mut self, number: i32, law: Option<&PauseLaw>) -> Result<f64, CalibrateError> {
        let Some(law) = law else { return self.lost_between_pauses(number) };
        let cycle_ns = law.interval.mean() + law.length.mean();
        let faster = round(log(cycle_ns / law.interval.mean()) / log(PRECISION)) as i32;
        let between = self.lost_between_pauses(number + faster)?;
        let sent = self.rate(number) * cycle_ns / 1e9;
        let lost = self.lost_by_pauses(number)?;
        let points: Vec<(f64, f64)> = self.lengths_ns.iter().copied().zip(lost).collect();
        Ok(between + law.length.mean_of(|length_ns| interpolated(&points, length_ns)) / sent)
    }

    fn lost_between_pauses(&mut self, number: i32) -> Result<f64, CalibrateError> {
        if let Some(lost) = self.between_pauses.get(&number) {
            return Ok(*lost);
        }
        let lost = self.run(&self.calm, number, self.times).predict(1)?.unsatisfied;
        self.between_pauses.insert(number, lost);
        Ok(lost)
    }

    fn lost_by_pauses(&mut self, number: i32) -> Result<Vec<f64>, CalibrateError> {
        if let Some(lost) = self.by_pauses.get(&number) {
            return Ok(lost.clone());
        }
        let lost = self.simulate_pauses(number)?;
        self.by_pauses.insert(number, lost.clone());
        Ok(lost)
    }

    fn simulate_pauses(&self, number: i32) -> Result<Vec<f64>, CalibrateError> {
        let run = self.run(self.calibration, number, self.times);
        let mut network = run.network(&run.model()?, 1.0);
        let mut lost = vec![0.0; self.lengths_ns.len()];
        let Some(all) = network.pauses.take() else { return Ok(lost) };
        let rate = self.rate(number);
        let load = (1.0 / run.headroom()).min(LOAD_MAX);
        // The queues of a worker's faces, of Interests and of Data.
        let saturated_ns = self.calibration.saturated_ns(&self.setting, None);
        let queues_ns = 2.0 * self.calibration.queue as f64 * saturated_ns;
        for (lost, length_ns) in lost.iter_mut().zip(&self.lengths_ns).rev() {
            // What has arrived meanwhile is there for longer, the more arrives further.
            let waiting_ns = length_ns.min(queues_ns) * load / (1.0 - load);
            let margin_ns = MARGIN_MIN_NS + waiting_ns;
            let window_ns = margin_ns..2.0 * margin_ns + length_ns;
            let traces = 0..(INTERESTS / (rate * window_ns.end / 1e9)).ceil() as u32;
            network.pauses = None;
            let calm = losses(&network, traces.clone(), &window_ns);
            for processor in 0..all.processors() {
                let only = |own: &Option<usize>| own.filter(|own| *own == processor).map(|_| 0);
                network.pauses = Some(Pauses {
                    interval: Distribution::Constant(margin_ns * PS),
                    length: Distribution::Constant(length_ns * PS),
                    stations: all.stations.iter().map(only).collect(),
                    consumers: all.consumers.iter().map(only).collect(),
                });
                *lost += (losses(&network, traces.clone(), &window_ns) - calm).max(0.0);
            }
            if *lost <= 0.0 {
                break;
            }
        }
        Ok(lost)
    }

    fn run<'r>(
        &self,
        calibration: &'r Calibration,
        number: i32,
        times: (f64, f64),
    ) -> ModelOfRun<'r> {
        let setting = Setting { rate: self.rate(number), ..self.setting };
        ModelOfRun { calibration, setting, slowdown: Slowdown::NONE, times }
    }
}

/// Interests that are lost in a window of nanoseconds: the mean of some traces.
fn losses(network: &Network, traces: Range<u32>, window_ns: &Range<f64>) -> f64 {
    let window_ps = (window_ns.start * PS) as u64..(window_ns.end * PS) as u64;
    let count = traces.len() as f64;
    let mut engine = FastEngine::without_digests(network);
    let mut of_trace = |trace| {
        let result = engine.run(TraceRandom::new(1, trace), window_ps.end);
        let ended = result.records.iter().filter(|record| window_ps.contains(&record.ended_ps));
        ended.filter(|record| record.outcome.is_lost()).count() as f64
    };
    traces.map(&mut of_trace).sum::<f64>() / count
}

/// The value at `x` between points in order, or beyond the last two; 0 before the first.
fn interpolated(points: &[(f64, f64)], x: f64) -> f64 {
    let after = points.partition_point(|point| point.0 < x).min(points.len().saturating_sub(1));
    let Some(before) = after.checked_sub(1) else {
        return if points.len() == 1 { points[0].1 } else { 0.0 };
    };
    let ((from, low), (to, high)) = (points[before], points[after]);
    low + (high - low) * (x - from) / (to - from)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::calibrate::calibrate;
    use crate::calibrate::capacity::CapacitySearch;
    use crate::calibrate::test_campaign::{campaign, rig, slow_campaign};
    use crate::pauses::Quantiles;

    /// A forwarder on a machine that pauses three times in a second, for some 3 ms, which can fill a queue.
    fn paused(are_together: bool) -> Calibration {
        let mut calibration = calibrate(&slow_campaign(), &rig(24, 8)).unwrap();
        let pauses = calibration.pauses.as_mut().unwrap();
        pauses.coinciding = Some(if are_together { 1.0 } else { 0.0 });
        for law in core::iter::once(&mut pauses.law).chain(&mut pauses.replicates) {
            law.interval = Quantiles::exponential(0.3e9);
        }
        calibration.without_generator()
    }

    fn search(calibration: &Calibration, workers: usize) -> CapacitySearch<'_> {
        let setting = Setting { workers, hit_ratio: 0.0, ..campaign()[0].setting };
        CapacitySearch { calibration, setting, unsatisfied: 0.005, times: (0.2, 1.0) }
    }

    /// The share that is lost in some minutes, all pauses as they come.
    fn lost_in_minutes(search: &CapacitySearch<'_>, rate: f64) -> f64 {
        const TRACES: u32 = 2;
        let run = ModelOfRun {
            calibration: search.calibration,
            setting: Setting { rate, ..search.setting },
            slowdown: Slowdown::NONE,
            times: (0.2, 20.0),
        };
        let of_trace = |trace| run.predict_traces(trace..trace + 1).unwrap().unsatisfied;
        (0..TRACES).map(of_trace).sum::<f64>() / f64::from(TRACES)
    }

    #[test]
    fn capacity_for_long_is_that_of_a_long_simulation() {
        for are_together in [false, true] {
            let calibration = paused(are_together);
            let calm = calibration.clone().without_pauses();
            let mut fewer = 0.0;
            for workers in [1, 2, 4] {
                let search = search(&calibration, workers);
                let capacity = search.of_long_time().unwrap();
                let lost = lost_in_minutes(&search, capacity.rate);
                let ratio = lost / search.unsatisfied;
                assert!((0.75..1.35).contains(&ratio), "{workers} workers: {ratio}");
                assert!(capacity.rate > 1.2 * fewer, "{workers} workers: {capacity:?}, {fewer}");
                assert_eq!(
                    capacity.of_laws.len(),
                    calibration.pauses.as_ref().unwrap().replicates.len()
                );
                assert!(
                    capacity
                        .of_laws
                        .iter()
                        .all(|rate| (0.8..1.25).contains(&(rate / capacity.rate)))
                );
                let calm = CapacitySearch { calibration: &calm, ..search }.of_long_time().unwrap();
                assert!(
                    calm.rate > capacity.rate && calm.of_laws.is_empty(),
                    "{calm:?} {capacity:?}"
                );
                fewer = capacity.rate;
            }
        }
    }

    #[test]
    fn losses_between_lengths_are_interpolated() {
        let points = [(1.0, 0.0), (2.0, 0.0), (4.0, 10.0)];
        let expected = [(0.5, 0.0), (1.5, 0.0), (3.0, 5.0), (4.0, 10.0), (6.0, 20.0)];
        for (x, value) in expected {
            assert!((interpolated(&points, x) - value).abs() < 1e-9, "{x}");
        }
    }
}
