//! Search for the maximum sustainable rate.

/// Maximum distance of the bounds, as a share of the upper one.
const PRECISION: f64 = 0.03;
/// The search fails below this share of its start.
const LEAST: f64 = 1e-3;

/// Finds the maximum rate for which `is_sustained` returns true, by bisection. `start` is a guess: the search doubles
/// from there while rates are sustained, and halves while they are not.
///
/// # Errors
/// Errors of `is_sustained`, or no rate is sustained.
pub(super) fn largest_sustained(
    start: f64,
    mut is_sustained: impl FnMut(f64) -> anyhow::Result<bool>,
) -> anyhow::Result<f64> {
    let (mut low, mut high) = (0.0, f64::INFINITY);
    let mut rate = start;
    while !high.is_finite() || high - low > PRECISION * high {
        if is_sustained(rate)? {
            low = rate;
        } else {
            high = rate;
        }
        rate = match (low > 0.0, high.is_finite()) {
            (_, false) => low * 1.5,
            (true, true) => f64::midpoint(low, high),
            (false, true) => high / 2.0,
        };
        anyhow::ensure!(rate > start * LEAST, "no rate is sustained, not even {rate:.0}/s");
    }
    Ok(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn largest_rate_is_found_from_above_and_below() {
        for start in [1e3, 90e3, 100e3, 5e6] {
            let mut asked = 0;
            let found = largest_sustained(start, |rate| {
                asked += 1;
                Ok(rate <= 100e3)
            });
            let found = found.unwrap();
            assert!((97e3..=100e3).contains(&found), "{found} from {start}");
            assert!(asked < 25, "{asked} from {start}");
        }
        assert!(largest_sustained(1e3, |_| Ok(false)).is_err());
        assert!(largest_sustained(1e3, |_| anyhow::bail!("a socket fails")).is_err());
    }
}
