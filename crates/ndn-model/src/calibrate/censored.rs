//! A normal distribution from observations of which some are only known to be at least as large as a value.
//!
//! The fit is that of the highest likelihood (Tobin 1958), by expectation and maximization (Dempster, Laird, Rubin 1977; of normal
//! data, Schmee, Hahn 1979): an observation that is cut off counts with the mean and the variance that it has above its value.

use libm::{exp, sqrt};

use crate::special::normal_cdf;

/// Changes of the fit below this end the iteration.
const PRECISION: f64 = 1e-6;
const ROUNDS_MAX: u32 = 500;
/// The least standard deviation: that of observations that agree.
const DEVIATION_MIN: f64 = 1e-6;

/// A normal distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Normal {
    pub(super) mean: f64,
    pub(super) deviation: f64,
}

impl Normal {
    /// The distribution of observations, each with whether it is cut off: the true one is at least as large then.
    pub(super) fn of(all: impl Iterator<Item = (f64, bool)> + Clone) -> Self {
        let whole = all.clone().filter(|(_, is_least)| !is_least);
        let mut own = Self::with_moments(whole.map(|(value, _)| (value, 0.0)));
        for _ in 0..ROUNDS_MAX {
            let next = Self::with_moments(all.clone().map(|one| own.expected(one)));
            let change = (next.mean - own.mean).abs() + (next.deviation - own.deviation).abs();
            own = next;
            if change < PRECISION {
                break;
            }
        }
        own
    }

    /// The distribution with the mean and the variance of values that have a variance each.
    fn with_moments(values: impl Iterator<Item = (f64, f64)> + Clone) -> Self {
        let count = values.clone().count().max(1) as f64;
        let mean = values.clone().map(|(value, _)| value).sum::<f64>() / count;
        let squares = values.map(|(value, variance)| (value - mean) * (value - mean) + variance);
        Self { mean, deviation: sqrt(squares.sum::<f64>() / count).max(DEVIATION_MIN) }
    }

    /// The expected value of an observation, and the variance of that.
    fn expected(&self, (value, is_least): (f64, bool)) -> (f64, f64) {
        if !is_least {
            return (value, 0.0);
        }
        let below = (value - self.mean) / self.deviation;
        let ratio = inverse_mills(below);
        let variance = self.deviation * self.deviation * (1.0 + below * ratio - ratio * ratio);
        (self.mean + self.deviation * ratio, variance.max(0.0))
    }
}

/// The density of a standard normal variable at `z` over the probability that it is above.
fn inverse_mills(z: f64) -> f64 {
    const ROOT_OF_TWO_PI: f64 = 2.506_628_274_631_000_7;
    // Beyond, the first terms of its expansion: the probability has few digits left.
    if z > 6.0 {
        return z + 1.0 / z;
    }
    exp(-0.5 * z * z) / ROOT_OF_TWO_PI / normal_cdf(-z)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{StreamId, TraceRandom};

    #[test]
    fn distribution_is_recovered_from_observations_that_are_cut_off() {
        let random = TraceRandom::new(5, 0);
        let of = |number: u64| {
            let value = -0.2 + 0.1 * random.draw(StreamId(1), number).normal();
            let rate = if number.is_multiple_of(2) { -0.25 } else { 1.0 };
            (f64::min(value, rate), value > rate)
        };
        let all = (0..1000_u64).map(of);
        assert!(all.clone().filter(|(_, is_least)| *is_least).count() > 300);
        let found = Normal::of(all.clone());
        assert!((found.mean + 0.2).abs() < 0.01, "{found:?}");
        assert!((found.deviation - 0.1).abs() < 0.01, "{found:?}");
        // Without those that are cut off, the others are too low.
        let whole = all.filter(|(_, is_least)| !is_least);
        assert!(Normal::of(whole).mean < -0.22);
        let same = Normal::of([(0.5, false); 4].into_iter());
        assert!((same.mean - 0.5).abs() < 1e-9 && same.deviation < 1e-3, "{same:?}");
    }
}
