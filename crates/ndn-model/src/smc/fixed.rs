//! Estimates of a probability with a sample size that is fixed beforehand.

use libm::log;

use super::{Interval, MethodError, require_unit};
use crate::special::beta_quantile;

/// The number of traces after which the observed fraction is within `precision` of the probability,
/// except with probability `error`, whatever the probability is.
///
/// The Okamoto (1958) or Chernoff–Hoeffding bound: N = ln(2 / error) / (2 precision²), rounded up. It
/// is what "probability estimation" means in the tools SBIP and COSMOS. Assumes independent traces and
/// that N is not changed after the results are known.
///
/// # Errors
/// Either argument outside (0, 1).
pub fn okamoto_sample_size(precision: f64, error: f64) -> Result<u64, MethodError> {
    require_unit("precision", precision)?;
    require_unit("error", error)?;
    Ok((log(2.0 / error) / (2.0 * precision * precision)).ceil() as u64)
}

/// The Okamoto interval: the observed fraction ± `precision`, clipped to [0, 1].
#[must_use]
pub fn okamoto_interval(successes: u64, trials: u64, precision: f64) -> Interval {
    let fraction = if trials == 0 { 0.5 } else { successes as f64 / trials as f64 };
    let precision = if trials == 0 { 0.5 } else { precision };
    Interval::new((fraction - precision).max(0.0), (fraction + precision).min(1.0))
}

/// The exact interval of Clopper and Pearson (Biometrika 1934) for a probability.
///
/// Covers with at least `1 - error` for every probability, with each tail at most `error / 2`. Assumes
/// independent traces and that `trials` was fixed beforehand: repeated looks void it.
#[must_use]
pub fn clopper_pearson(successes: u64, trials: u64, error: f64) -> Interval {
    let failures = trials.saturating_sub(successes);
    let (s, f) = (successes as f64, failures as f64);
    let tail = 0.5 * error;
    // Upper ends as complements of lower ends: near 1 the difference to 1 keeps its digits.
    let low = if successes == 0 { 0.0 } else { beta_quantile(tail, s, f + 1.0) };
    let high = if failures == 0 { 1.0 } else { 1.0 - beta_quantile(tail, f, s + 1.0) };
    Interval::new(low, high)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::special::{binomial_cdf, binomial_probability};

    #[test]
    fn okamoto_sizes_are_those_of_the_literature() {
        for (precision, error, expected) in
            [(0.1, 0.1, 150), (0.05, 0.05, 738), (0.01, 0.01, 26_492), (0.001, 0.01, 2_649_159)]
        {
            assert_eq!(okamoto_sample_size(precision, error).unwrap(), expected);
        }
        assert!(okamoto_sample_size(0.0, 0.1).is_err());
        assert!(okamoto_sample_size(0.1, f64::NAN).is_err());
    }

    #[test]
    fn clopper_pearson_ends_leave_half_the_error_in_each_tail() {
        for (successes, trials) in [(1, 10), (9, 10), (500, 1000), (999_990, 1_000_000)] {
            let interval = clopper_pearson(successes, trials, 0.01);
            let upper = binomial_cdf(successes, trials, interval.high);
            let lower = 1.0 - binomial_cdf(successes - 1, trials, interval.low);
            assert!((upper - 0.005).abs() < 1e-7, "{upper}");
            assert!((lower - 0.005).abs() < 1e-7, "{lower}");
        }
        assert_eq!(clopper_pearson(0, 10, 0.05).low, 0.0);
        assert!((clopper_pearson(0, 10, 0.05).high - 0.308_497_1).abs() < 1e-7);
        assert_eq!(clopper_pearson(10, 10, 0.05).high, 1.0);
        assert_eq!(clopper_pearson(0, 0, 0.05), Interval::new(0.0, 1.0));
    }

    /// Coverage summed over all outcomes, so that no simulation noise can hide a fault.
    #[test]
    fn clopper_pearson_covers_exactly_on_a_grid() {
        let trials = 200;
        for p in [1e-6, 1e-4, 0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0 - 1e-6] {
            let coverage: f64 = (0..=trials)
                .filter(|successes| clopper_pearson(*successes, trials, 0.05).contains(p))
                .map(|successes| binomial_probability(successes, trials, p))
                .sum();
            assert!(coverage >= 0.95 - 1e-12, "{coverage} at {p}");
        }
    }
}
