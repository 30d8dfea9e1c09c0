//! Importance splitting: the probability of an event that plain sampling would never see.

use libm::{pow, sqrt};

use super::{Interval, MethodError, require_unit};
use crate::random::{Draw, StreamId, TraceRandom};
use crate::special::student_t_quantile;

/// A process that approaches a rare event through levels 1, 2, … `level_count`; the last one is the event.
pub trait LevelProcess {
    /// Everything that the future depends on.
    type State: Clone;

    /// Number of levels.
    fn level_count(&self) -> usize;

    /// A fresh start of the process.
    fn start(&self, draw: &mut Draw) -> Self::State;

    /// Runs from `state` until the process enters `level`, and returns the state there; none if the
    /// process ends before.
    fn run_to_level(
        &self,
        state: Self::State,
        level: usize,
        draw: &mut Draw,
    ) -> Option<Self::State>;
}

/// An estimate by splitting, from independent replications.
#[derive(Debug, Clone)]
pub struct SplittingEstimate {
    /// Mean over the replications: unbiased.
    pub probability: f64,
    /// Student's t interval over the replications. **Asymptotic**: it covers as stated only when the
    /// replications are many enough that their mean is nearly normal.
    ///
    /// If no replication reaches the last level: [0, 1 − error^(1/n)] for n replications. An estimate is at
    /// most 1, so that a replication reaches the last level with at least the probability p of the event,
    /// and none of n does with at most (1 − p)^n. This bound is not asymptotic.
    pub interval: Interval,
    /// The estimate of each replication.
    pub replications: Vec<f64>,
}

/// Fixed-effort splitting (Garvels, PhD thesis, Twente 2000; L'Ecuyer, Demers, Tuffin: "Rare events,
/// splitting, and quasi-Monte Carlo", ACM TOMACS 2007).
///
/// At each level `effort` runs start from states drawn with replacement among the entries to the level
/// before; the product of the fractions that reach the next level is an unbiased estimate.
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

    /// Estimates the probability that `process` reaches its last level.
    ///
    /// # Errors
    /// `error` outside (0, 1).
    pub fn estimate<P: LevelProcess>(
        &self,
        process: &P,
        seed: u64,
        error: f64,
    ) -> Result<SplittingEstimate, MethodError> {
        require_unit("error", error)?;
        let replications: Vec<f64> = (0..self.replications)
            .map(|number| self.replicate(process, TraceRandom::new(seed, number)))
            .collect();
        let n = f64::from(self.replications);
        let mean = replications.iter().sum::<f64>() / n;
        let variance =
            replications.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (n - 1.0);
        let radius = student_t_quantile(1.0 - 0.5 * error, n - 1.0) * sqrt(variance / n);
        let interval = if mean > 0.0 {
            Interval::new((mean - radius).max(0.0), (mean + radius).min(1.0))
        } else {
            Interval::new(0.0, 1.0 - pow(error, 1.0 / n))
        };
        Ok(SplittingEstimate { probability: mean, interval, replications })
    }

    fn replicate<P: LevelProcess>(&self, process: &P, random: TraceRandom) -> f64 {
        let mut entries: Vec<P::State> = Vec::new();
        let mut probability = 1.0;
        for level in 1..=process.level_count() {
            let mut reached = Vec::new();
            for run in 0..self.effort as u64 {
                let mut draw = random.draw(StreamId(level as u32), run);
                let state = if level == 1 {
                    process.start(&mut draw)
                } else {
                    entries[draw.below(entries.len() as u64) as usize].clone()
                };
                reached.extend(process.run_to_level(state, level, &mut draw));
            }
            probability *= reached.len() as f64 / self.effort as f64;
            if reached.is_empty() {
                return 0.0;
            }
            entries = reached;
        }
        probability
    }
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
            self.top - 1
        }

        fn start(&self, _: &mut Draw) -> usize {
            1
        }

        fn run_to_level(&self, mut length: usize, level: usize, draw: &mut Draw) -> Option<usize> {
            while length > 0 && length < level + 1 {
                if draw.unit() < self.up { length += 1 } else { length -= 1 }
            }
            (length > 0).then_some(length)
        }
    }

    #[test]
    fn splitting_finds_the_overflow_probability_of_a_busy_period() {
        // Gambler's ruin: with ratio r = down / up, P(reach top from 1) = (1 - r) / (1 - r^top).
        let process = BusyPeriod { up: 1.0 / 3.0, top: 31 };
        let exact = 1.0 / ((1u64 << 31) - 1) as f64;
        let method = FixedEffort::new(500, 40).unwrap();
        let estimate = method.estimate(&process, 11, 0.01).unwrap();
        assert!(estimate.interval.contains(exact), "{estimate:?} {exact:e}");
        assert!((estimate.probability / exact - 1.0).abs() < 0.2, "{:e}", estimate.probability);
        assert_eq!(estimate.probability, method.estimate(&process, 11, 0.01).unwrap().probability);
    }

    #[test]
    fn interval_without_a_hit_has_an_upper_bound_that_holds() {
        // The event has probability 1/20: about 60 % of the estimates see it in none of 10 runs.
        let process = BusyPeriod { up: 0.05 / 0.95, top: 2 };
        let method = FixedEffort::new(1, 10).unwrap();
        let mut without_hit = 0;
        for seed in 0..200 {
            let estimate = method.estimate(&process, seed, 0.05).unwrap();
            if estimate.probability > 0.0 {
                continue;
            }
            without_hit += 1;
            assert!((estimate.interval.high - (1.0 - 0.05f64.powf(0.1))).abs() < 1e-12);
            assert!(estimate.interval.contains(0.05));
        }
        assert!(without_hit > 50, "{without_hit}");
    }

    #[test]
    fn splitting_needs_effort_and_replications() {
        assert!(FixedEffort::new(0, 10).is_err());
        assert!(FixedEffort::new(10, 1).is_err());
    }
}
