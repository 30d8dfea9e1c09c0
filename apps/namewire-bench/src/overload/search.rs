//! The largest rate that can be sustained.

/// How close the two ends come to each other, as a share of the upper one.
const PRECISION: f64 = 0.03;
/// A rate below this share of where the search begins is no rate.
const LEAST: f64 = 1e-3;

/// The largest rate that `is_sustained` says is, by bisection. `start` is a guess: the search goes up
/// from there while rates are sustained, and down while they are not.
///
/// # Errors
/// Those of `is_sustained`, and when not even the least rate is sustained.
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
    fn it_is_found_from_above_and_from_below() {
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
