//! Quantiles of an unknown distribution.

use libm::{log, sqrt};

use super::{Interval, MethodError, require_unit};

/// The interval of Dvoretzky, Kiefer and Wolfowitz with Massart's constant (Annals of Probability 1990)
/// for the `level` quantile of the distribution that `sorted` is a sample of.
///
/// Covers with at least `1 - error`, for all levels at the same time. Assumes independent observations
/// and a sample size fixed beforehand. An end that the sample is too small to bound is infinite.
///
/// # Errors
/// `level` or `error` outside (0, 1).
pub fn dkw_interval(sorted: &[f64], level: f64, error: f64) -> Result<Interval, MethodError> {
    require_unit("level", level)?;
    require_unit("error", error)?;
    if sorted.is_empty() {
        return Ok(Interval::new(f64::NEG_INFINITY, f64::INFINITY));
    }
    let n = sorted.len() as f64;
    let band = sqrt(log(2.0 / error) / (2.0 * n));
    Ok(Interval::new(
        order_statistic(sorted, (n * (level - band)).ceil()),
        order_statistic(sorted, (n * (level + band)).ceil()),
    ))
}

/// Number of observations that [`dkw_interval`] needs for a finite upper end at `level`.
///
/// # Errors
/// `level` or `error` outside (0, 1).
pub fn dkw_sample_size(level: f64, error: f64) -> Result<u64, MethodError> {
    require_unit("level", level)?;
    require_unit("error", error)?;
    let margin = level.min(1.0 - level);
    Ok((log(2.0 / error) / (2.0 * margin * margin)).ceil() as u64)
}

/// The `level` quantile of a sample: the smallest observation with at least that fraction at or below.
#[must_use]
pub fn sample_quantile(sorted: &[f64], level: f64) -> Option<f64> {
    let rank = (level * sorted.len() as f64).ceil().max(1.0) as usize;
    sorted.get(rank - 1).copied()
}

/// The observation with `rank` from 1; infinite outside the sample.
fn order_statistic(sorted: &[f64], rank: f64) -> f64 {
    if rank < 1.0 {
        return f64::NEG_INFINITY;
    }
    sorted.get(rank as usize - 1).copied().unwrap_or(f64::INFINITY)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn interval_of_a_small_sample_is_open_at_one_end() {
        let sample: Vec<f64> = (1..=100).map(f64::from).collect();
        let interval = dkw_interval(&sample, 0.99, 0.05).unwrap();
        assert!(interval.high.is_infinite() && interval.low > 80.0);
        assert_eq!(dkw_interval(&[], 0.5, 0.05).unwrap().low, f64::NEG_INFINITY);
        let size = dkw_sample_size(0.99, 0.05).unwrap();
        let sample: Vec<f64> = (0..size).map(|i| i as f64).collect();
        assert!(dkw_interval(&sample, 0.99, 0.05).unwrap().high.is_finite());
        assert!(dkw_interval(&sample, 1.0, 0.05).is_err());
    }

    #[test]
    fn sample_quantile_is_an_order_statistic() {
        let sample = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(sample_quantile(&sample, 0.5), Some(2.0));
        assert_eq!(sample_quantile(&sample, 0.51), Some(3.0));
        assert_eq!(sample_quantile(&sample, 1.0), Some(4.0));
        assert_eq!(sample_quantile(&[], 0.5), None);
    }
}
