//! The mean of observations that lie between known bounds.

use libm::{log, log1p, sqrt};

use super::{Interval, MethodError, require_unit};

/// Observations between two known bounds, scaled to [0, 1].
#[derive(Debug, Clone)]
pub struct BoundedSample {
    low: f64,
    high: f64,
    scaled: Vec<f64>,
}

impl BoundedSample {
    /// An empty sample of a quantity that is never below `low` nor above `high`.
    ///
    /// # Errors
    /// Bounds that are not finite, or not in order.
    pub fn new(low: f64, high: f64) -> Result<Self, MethodError> {
        if !(low.is_finite() && high.is_finite() && low < high) {
            let accepted = "finite, and above the lower bound";
            return Err(MethodError::OutOfRange { name: "upper bound", value: high, accepted });
        }
        Ok(Self { low, high, scaled: Vec::new() })
    }

    /// Takes an observation into account.
    ///
    /// # Errors
    /// One outside the bounds: the intervals would be wrong.
    pub fn observe(&mut self, value: f64) -> Result<(), MethodError> {
        if !(self.low <= value && value <= self.high) {
            let accepted = "between the bounds that the method was given";
            return Err(MethodError::OutOfRange { name: "observation", value, accepted });
        }
        self.scaled.push((value - self.low) / (self.high - self.low));
        Ok(())
    }

    /// Number of observations.
    #[must_use]
    pub fn len(&self) -> usize {
        self.scaled.len()
    }

    /// Whether there is no observation.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.scaled.is_empty()
    }

    /// The mean of the observations; none without any.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        if self.is_empty() {
            return None;
        }
        Some(self.unscale(self.scaled.iter().sum::<f64>() / self.len() as f64))
    }

    /// The empirical Bernstein interval of Maurer and Pontil (COLT 2009, theorem 4, on both sides).
    ///
    /// Covers with at least `1 - error`, and narrows with the observed variance. Assumes independent
    /// observations and a sample size fixed beforehand.
    ///
    /// # Errors
    /// `error` outside (0, 1).
    pub fn empirical_bernstein(&self, error: f64) -> Result<Interval, MethodError> {
        require_unit("error", error)?;
        if self.len() < 2 {
            return Ok(Interval::new(self.low, self.high));
        }
        let n = self.len() as f64;
        let mean = self.scaled.iter().sum::<f64>() / n;
        let variance = self.scaled.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (n - 1.0);
        // ln(2/δ) for each side, with δ = error / 2.
        let ln = log(4.0 / error);
        let radius = sqrt(2.0 * variance * ln / n) + 7.0 * ln / (3.0 * (n - 1.0));
        let (low, high) = ((mean - radius).max(0.0), (mean + radius).min(1.0));
        Ok(Interval::new(self.unscale(low), self.unscale(high)))
    }

    /// The hedged-capital betting interval (Waudby-Smith and Ramdas: "Estimating means of bounded random
    /// variables by betting", JRSS B 2024, theorem 3).
    ///
    /// A confidence sequence: with probability at least `1 - error` the mean lies in the intervals of
    /// all sample sizes at once, so sampling may stop at will. Assumes independent observations in
    /// order of their number.
    ///
    /// # Errors
    /// `error` outside (0, 1).
    pub fn betting(&self, error: f64) -> Result<Interval, MethodError> {
        require_unit("error", error)?;
        let bets = self.bets(error);
        // Half the capital bets that the mean is above m, half that it is below: m is excluded when
        // either half has grown to 1 / error.
        let bound = log(2.0 / error);
        let above = |m: f64| -> f64 {
            let gains = bets.iter().zip(&self.scaled);
            gains.map(|(bet, x)| log1p(bet.min(LARGEST_STAKE / m) * (x - m))).sum()
        };
        let below = |m: f64| -> f64 {
            let gains = bets.iter().zip(&self.scaled);
            gains.map(|(bet, x)| log1p(-bet.min(LARGEST_STAKE / (1.0 - m)) * (x - m))).sum()
        };
        // `above` falls with m and `below` rises.
        let low = bisect(|m| above(m) < bound);
        let high = 1.0 - bisect(|m| below(1.0 - m) < bound);
        let (low, high) = if low <= high { (low, high) } else { (high, low) };
        Ok(Interval::new(self.unscale(low), self.unscale(high)))
    }

    /// The predictable plug-in bets: each depends on earlier observations only.
    fn bets(&self, error: f64) -> Vec<f64> {
        let ln = 2.0 * log(2.0 / error);
        let (mut sum, mut squares) = (0.5, 0.25);
        let mut bets = Vec::with_capacity(self.len());
        for (index, x) in self.scaled.iter().enumerate() {
            let t = (index + 1) as f64;
            let variance = squares / t;
            bets.push(sqrt(ln / (variance * t * log1p(t))));
            sum += x;
            let mean = sum / (t + 1.0);
            squares += (x - mean) * (x - mean);
        }
        bets
    }

    fn unscale(&self, scaled: f64) -> f64 {
        self.low + scaled * (self.high - self.low)
    }
}

/// No bet risks more than this part of the capital.
const LARGEST_STAKE: f64 = 0.5;

/// The largest m in [0, 1] below which `included` is false, to 2^-60; rounded towards a wider interval.
fn bisect(included: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if included(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::random::{StreamId, TraceRandom};

    fn sample(trace: u32, size: usize, draw_one: impl Fn(f64) -> f64) -> BoundedSample {
        let mut draw = TraceRandom::new(3, trace).draw(StreamId(1), 0);
        let mut sample = BoundedSample::new(0.0, 1.0).unwrap();
        for _ in 0..size {
            sample.observe(draw_one(draw.unit())).unwrap();
        }
        sample
    }

    #[test]
    fn betting_is_narrower_than_bernstein_with_little_variance() {
        let sample = sample(0, 500, |u| 0.98 + 0.02 * u);
        let betting = sample.betting(0.01).unwrap();
        let bernstein = sample.empirical_bernstein(0.01).unwrap();
        assert!(betting.contains(0.99) && bernstein.contains(0.99));
        assert!(betting.width() < bernstein.width(), "{betting:?} {bernstein:?}");
    }

    #[test]
    fn values_outside_the_bounds_are_refused() {
        let mut sample = BoundedSample::new(0.0, 10.0).unwrap();
        assert!(sample.observe(10.1).is_err());
        assert!(sample.observe(f64::NAN).is_err());
        assert_eq!(sample.betting(0.05).unwrap(), Interval::new(0.0, 10.0));
        assert_eq!(sample.empirical_bernstein(0.05).unwrap(), Interval::new(0.0, 10.0));
        assert!(BoundedSample::new(1.0, 1.0).is_err());
        assert!(BoundedSample::new(0.0, f64::INFINITY).is_err());
    }

    #[test]
    fn bounds_scale_with_the_quantity() {
        let mut wide = BoundedSample::new(-100.0, 300.0).unwrap();
        let mut unit = BoundedSample::new(0.0, 1.0).unwrap();
        for step in 0..200 {
            let u = f64::from(step % 20) / 20.0;
            wide.observe(400.0 * u - 100.0).unwrap();
            unit.observe(u).unwrap();
        }
        let (wide, unit) = (wide.betting(0.05).unwrap(), unit.betting(0.05).unwrap());
        assert!((wide.low - (400.0 * unit.low - 100.0)).abs() < 1e-6);
        assert!((wide.high - (400.0 * unit.high - 100.0)).abs() < 1e-6);
    }
}
