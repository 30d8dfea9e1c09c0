//! A confidence sequence for a probability: valid at every sample size at once.

use libm::{exp, log, log1p};

use super::{Interval, MethodError, Verdict, require_unit};
use crate::special::ln_beta;

/// The beta-binomial confidence sequence (Robbins 1970; Howard, Ramdas, McAuliffe, Sekhon: "Time-uniform,
/// nonparametric, nonasymptotic confidence sequences", Annals of Statistics 2021).
///
/// With probability at least `1 - error`, the true probability lies in **all** intervals that the
/// sequence ever reports. Sampling may therefore stop whenever the answer is good enough, which is why
/// this is the default method. Assumes independent traces, taken in order of their number.
///
/// The mixing distribution is Beta(1/2, 1/2), which costs little near 0 and 1.
#[derive(Debug, Clone, Copy)]
pub struct BetaBinomialSequence {
    error: f64,
    successes: u64,
    failures: u64,
    /// The intersection of the intervals so far, which covers as often.
    interval: Interval,
}

impl BetaBinomialSequence {
    /// A sequence that has seen no trace.
    ///
    /// # Errors
    /// `error` outside (0, 1).
    pub fn new(error: f64) -> Result<Self, MethodError> {
        require_unit("error", error)?;
        Ok(Self { error, successes: 0, failures: 0, interval: Interval::new(0.0, 1.0) })
    }

    /// Takes a trace into account. The interval is computed by [`interval`](Self::interval) when wanted.
    pub fn observe(&mut self, success: bool) {
        if success {
            self.successes += 1;
        } else {
            self.failures += 1;
        }
    }

    /// Traces so far.
    #[must_use]
    pub const fn trials(&self) -> u64 {
        self.successes + self.failures
    }

    /// Traces that satisfied the property.
    #[must_use]
    pub const fn successes(&self) -> u64 {
        self.successes
    }

    /// The interval after the traces so far, intersected with those reported before.
    pub fn interval(&mut self) -> Interval {
        let now = self.interval_of_now();
        let interval =
            Interval::new(now.low.max(self.interval.low), now.high.min(self.interval.high));
        // An empty intersection is evidence of an event of probability below `error`: report what the
        // present data say rather than nothing.
        self.interval = if interval.low <= interval.high { interval } else { now };
        self.interval
    }

    /// The verdict of the interval on P >= `threshold`.
    pub fn decide_at_least(&mut self, threshold: f64) -> Verdict {
        self.interval().decide_at_least(threshold)
    }

    fn interval_of_now(&self) -> Interval {
        if self.trials() == 0 {
            return Interval::new(0.0, 1.0);
        }
        let (s, f) = (self.successes as f64, self.failures as f64);
        // The set of p with s ln p + f ln(1-p) > bound; the left side is concave with its top at s/n.
        let bound = ln_beta(s + 0.5, f + 0.5) - ln_beta(0.5, 0.5) + log(self.error);
        let low = if self.successes == 0 { 0.0 } else { smallest_above(s, f, bound) };
        let high = if self.failures == 0 { 1.0 } else { 1.0 - smallest_above(f, s, bound) };
        Interval::new(low, high)
    }
}

/// The smallest p with s ln p + f ln(1-p) >= bound, by bisection of ln p below ln(s / (s + f)).
fn smallest_above(s: f64, f: f64, bound: f64) -> f64 {
    let likelihood = |ln_p: f64| s * ln_p + if f == 0.0 { 0.0 } else { f * log1p(-exp(ln_p)) };
    let mut high = log(s / (s + f));
    // At this point s ln p alone is below the bound.
    let mut low = (bound / s).min(high) - 1.0;
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if likelihood(middle) < bound {
            low = middle;
        } else {
            high = middle;
        }
    }
    exp(low)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn after(successes: u64, failures: u64) -> BetaBinomialSequence {
        let mut sequence = BetaBinomialSequence::new(0.05).unwrap();
        (0..successes).for_each(|_| sequence.observe(true));
        (0..failures).for_each(|_| sequence.observe(false));
        sequence
    }

    #[test]
    fn interval_is_symmetric_and_shrinks() {
        let low = after(30, 970).interval();
        let high = after(970, 30).interval();
        assert!((low.low - (1.0 - high.high)).abs() < 1e-12);
        assert!((low.high - (1.0 - high.low)).abs() < 1e-12);
        assert!(low.contains(0.03) && !low.contains(0.07));
        assert!(after(300, 9700).interval().width() < low.width());
        assert_eq!(after(0, 0).interval(), Interval::new(0.0, 1.0));
    }

    #[test]
    fn interval_is_wider_than_clopper_pearson_but_not_by_much() {
        for (successes, failures) in [(0, 1000), (10, 990), (500, 500), (99_990, 10)] {
            let sequence = after(successes, failures).interval();
            let exact = super::super::fixed::clopper_pearson(successes, successes + failures, 0.05);
            assert!(sequence.low <= exact.low && exact.high <= sequence.high);
            assert!(sequence.width() < 3.0 * exact.width(), "{sequence:?} {exact:?}");
        }
    }

    #[test]
    fn verdict_follows_the_interval() {
        assert_eq!(after(1000, 0).decide_at_least(0.99), Verdict::Holds);
        assert_eq!(after(900, 100).decide_at_least(0.99), Verdict::Fails);
        assert_eq!(after(10, 0).decide_at_least(0.99), Verdict::Undecided);
        assert!(BetaBinomialSequence::new(0.0).is_err());
    }
}
