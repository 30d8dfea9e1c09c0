//! Importance splitting: the probability of an event that plain sampling would never see.

use libm::{log, pow, sqrt};

use super::{Interval, MethodError, require_unit};
use crate::random::{Draw, StreamId, TraceRandom};
use crate::special::student_t_quantile;

/// A process that ends with a value, and passes levels 1, 2, … `level_count` on its way to the values that count.
pub trait LevelProcess {
    /// Everything that the future depends on.
    type State: Clone;

    /// Number of levels.
    fn level_count(&self) -> usize;

    /// A fresh start of the process.
    fn start(&self, draw: &mut Draw) -> Self::State;

    /// Runs from `state`, which is an entry to the level before or a fresh start, until the process enters `level` or ends.
    /// Beyond the last level, it always ends.
    fn run(&mut self, state: Self::State, level: usize, draw: &mut Draw) -> Step<Self::State>;
}

/// The end of a run to a level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step<S> {
    /// The process entered the level, in this state.
    Entered(S),
    /// The process ended before, with this value.
    Ended(f64),
}

/// An estimate of the mean value by splitting, from independent replications: of a probability if values are 0 and 1.
#[derive(Debug, Clone)]
pub struct SplittingEstimate {
    /// Mean over the replications: unbiased, whatever the levels are.
    pub mean: f64,
    /// Student's t interval over the replications. **Asymptotic**: it covers as stated only when the
    /// replications are many enough that their mean is nearly normal. Where most of the mean is that of rare, large
    /// replications and none is among these, nothing shows it.
    ///
    /// If the standard error is more than [`SPREAD_MOST`] of the mean, or all replications are 0: [0, b], where b holds for
    /// the mean of any values between 0 and 1 (Hoeffding 1963, theorem 1: the Chernoff bound), which is
    /// 1 − error^(1/n) if all are 0. This bound is not asymptotic, and wide: enlarge effort or replications.
    pub interval: Interval,
    /// The estimate of each replication.
    pub replications: Vec<f64>,
}

/// The largest standard error, as a share of the mean, with which a Student interval is given.
pub const SPREAD_MOST: f64 = 0.1;

/// Fixed-effort splitting (Garvels, PhD thesis, Twente 2000; L'Ecuyer, Demers, Tuffin: "Rare events,
/// splitting, and quasi-Monte Carlo", ACM TOMACS 2007).
///
/// At each level `effort` runs start from states drawn with replacement among the entries to the level
/// before. The weight of a level is the product of the fractions of runs that entered the levels up to it; the sum of
/// weights times mean values of the runs that ended is an unbiased estimate, because every value counts at the level where
/// its run ended.
#[derive(Debug, Clone, Copy)]
pub struct FixedEffort {
    effort: usize,
    replications: u32,
}

impl FixedEffort {
    /// `effort` runs per level in each of `replications` independent replications.
    ///
    /// # Errors
    /// Less than two replications (no interval) or no effort.
    pub fn new(effort: usize, replications: u32) -> Result<Self, MethodError> {
        if effort == 0 {
            return Err(MethodError::OutOfRange {
                name: "effort",
                value: 0.0,
                accepted: "at least 1",
            });
        }
        if replications < 2 {
            let value = f64::from(replications);
            return Err(MethodError::OutOfRange {
                name: "replications",
                value,
                accepted: "at least 2",
            });
        }
        Ok(Self { effort, replications })
    }

    /// Estimates the mean value of `process`.
    ///
    /// # Errors
    /// `error` outside (0, 1).
    pub fn estimate<P: LevelProcess>(
        &self,
        process: &mut P,
        seed: u64,
        error: f64,
    ) -> Result<SplittingEstimate, MethodError> {
        let replications: Vec<f64> = (0..self.replications)
            .map(|number| replicate(process, self.effort, TraceRandom::new(seed, number)))
            .collect();
        SplittingEstimate::of(replications, error)
    }
}

impl SplittingEstimate {
    /// The estimate from two or more replications.
    ///
    /// # Errors
    /// `error` outside (0, 1).
    pub fn of(replications: Vec<f64>, error: f64) -> Result<Self, MethodError> {
        require_unit("error", error)?;
        let n = replications.len() as f64;
        let mean = replications.iter().sum::<f64>() / n;
        let variance =
            replications.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (n - 1.0);
        let deviation = sqrt(variance / n);
        let interval = if mean > 0.0 && deviation <= SPREAD_MOST * mean {
            let radius = student_t_quantile(1.0 - 0.5 * error, n - 1.0) * deviation;
            Interval::new((mean - radius).max(0.0), (mean + radius).min(1.0))
        } else {
            Interval::new(0.0, highest_mean(mean, n, error))
        };
        Ok(Self { mean, interval, replications })
    }
}

/// The largest mean of values between 0 and 1 with which `n` independent ones have a mean of at most `sample` with a
/// probability of `error` or more, by the Chernoff bound.
fn highest_mean(sample: f64, n: f64, error: f64) -> f64 {
    if sample <= 0.0 {
        return 1.0 - pow(error, 1.0 / n);
    }
    let (mut low, mut high) = (sample.min(1.0), 1.0);
    for _ in 0..60 {
        let mean = 0.5 * (low + high);
        let rest =
            if sample < 1.0 { (1.0 - sample) * log((1.0 - sample) / (1.0 - mean)) } else { 0.0 };
        let divergence = sample * log(sample / mean) + rest;
        if n * divergence < -log(error) { low = mean } else { high = mean }
    }
    high
}

/// One replication with `effort` runs per level: an unbiased estimate of the mean value.
pub fn replicate<P: LevelProcess>(process: &mut P, effort: usize, random: TraceRandom) -> f64 {
    let mut entries: Vec<P::State> = Vec::new();
    let (mut estimate, mut weight) = (0.0, 1.0);
    for level in 1..=process.level_count() + 1 {
        let mut entered = Vec::new();
        let mut sum = 0.0;
        for run in 0..effort as u64 {
            let mut draw = random.draw(StreamId(level as u32), run);
            let state = if level == 1 {
                process.start(&mut draw)
            } else {
                entries[draw.below(entries.len() as u64) as usize].clone()
            };
            match process.run(state, level, &mut draw) {
                Step::Entered(state) => entered.push(state),
                Step::Ended(value) => sum += value,
            }
        }
        estimate += weight * sum / effort as f64;
        weight *= entered.len() as f64 / effort as f64;
        if entered.is_empty() {
            break;
        }
        entries = entered;
    }
    estimate
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// The queue length of M/M/1 at its jumps, from 1 until it is empty or holds `top`.
    struct BusyPeriod {
        up: f64,
        top: usize,
    }

    impl LevelProcess for BusyPeriod {
        type State = usize;

        fn level_count(&self) -> usize {
            self.top - 2
        }

        fn start(&self, _: &mut Draw) -> usize {
            1
        }

        fn run(&mut self, mut length: usize, level: usize, draw: &mut Draw) -> Step<usize> {
            while length > 0 && length < level + 1 {
                if draw.unit() < self.up { length += 1 } else { length -= 1 }
            }
            match length {
                0 => Step::Ended(0.0),
                length if length == self.top => Step::Ended(1.0),
                length => Step::Entered(length),
            }
        }
    }

    #[test]
    fn splitting_finds_the_overflow_probability_of_a_busy_period() {
        // Gambler's ruin: with ratio r = down / up, P(reach top from 1) = (1 - r) / (1 - r^top).
        let mut process = BusyPeriod { up: 1.0 / 3.0, top: 31 };
        let exact = 1.0 / ((1u64 << 31) - 1) as f64;
        let method = FixedEffort::new(500, 40).unwrap();
        let estimate = method.estimate(&mut process, 11, 0.01).unwrap();
        assert!(estimate.interval.contains(exact), "{estimate:?} {exact:e}");
        assert!((estimate.mean / exact - 1.0).abs() < 0.2, "{:e}", estimate.mean);
        assert_eq!(estimate.mean, method.estimate(&mut process, 11, 0.01).unwrap().mean);
    }

    #[test]
    fn interval_without_a_hit_has_an_upper_bound_that_holds() {
        // The event has probability 1/20: about 60 % of the estimates see it in none of 10 runs.
        let mut process = BusyPeriod { up: 0.05 / 0.95, top: 2 };
        let method = FixedEffort::new(1, 10).unwrap();
        let mut without_hit = 0;
        for seed in 0..200 {
            let estimate = method.estimate(&mut process, seed, 0.05).unwrap();
            if estimate.mean > 0.0 {
                continue;
            }
            without_hit += 1;
            assert!((estimate.interval.high - (1.0 - 0.05f64.powf(0.1))).abs() < 1e-12);
            assert!(estimate.interval.contains(0.05));
        }
        assert!(without_hit > 50, "{without_hit}");
    }

    #[test]
    fn interval_of_replications_that_vary_much_holds_for_any_values() {
        // Of 10 replications, one is 1: by binomial sums, a mean of 0.5 gives at most one with 11 / 1024.
        let mut values = vec![0.0; 10];
        values[0] = 1.0;
        let interval = SplittingEstimate::of(values.clone(), 11.0 / 1024.0).unwrap().interval;
        assert!(interval.low <= 0.0 && interval.high > 0.5 && interval.high < 0.7, "{interval:?}");
        values[0] = 1e-9;
        let interval = SplittingEstimate::of(values, 0.05).unwrap().interval;
        assert!((interval.high - (1.0 - 0.05f64.powf(0.1))).abs() < 1e-6, "{interval:?}");
        let interval = SplittingEstimate::of(vec![1e-9, 1.1e-9], 0.05).unwrap().interval;
        assert!(interval.low > 0.0 && interval.high < 2e-9, "{interval:?}");
    }

    #[test]
    fn splitting_needs_effort_and_replications() {
        assert!(FixedEffort::new(0, 10).is_err());
        assert!(FixedEffort::new(10, 1).is_err());
    }
}
