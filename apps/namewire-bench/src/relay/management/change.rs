//! The median of many pairs, with its confidence interval.

use serde::Serialize;

/// Relative change from the first to the second stretch of many pairs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Change {
    /// The median of the pairs.
    pub median: f64,
    /// Confidence interval of the median with 95 % probability (by rank, independent of the distribution).
    pub interval: (f64, f64),
}

impl Change {
    pub(super) fn of(mut shares: Vec<f64>) -> Self {
        shares.sort_by(f64::total_cmp);
        let (low, high) = median_ranks(shares.len());
        let at = |rank: usize| shares.get(rank).copied().unwrap_or(f64::NAN);
        Self {
            median: ndn_pipeline_bench::median(shares.iter().copied()),
            interval: (at(low), at(high)),
        }
    }
}

/// Returns the ranks, from 0, of the ordered values that enclose the median with 95 % probability: the binomial
/// distribution with p = 1/2.
fn median_ranks(count: usize) -> (usize, usize) {
    // More than a thousand pairs gain nothing, and 2^-1000 is still representable.
    let n = u32::try_from(count.min(1000)).unwrap_or(1000);
    let mut probability = 0.5_f64.powf(f64::from(n));
    let mut below = 0.0;
    let mut rank = 0;
    for k in 0..n / 2 {
        below += probability;
        if below > 0.025 {
            break;
        }
        rank = usize::try_from(k).unwrap_or(usize::MAX) + 1;
        probability *= f64::from(n - k) / f64::from(k + 1);
    }
    let low = rank.saturating_sub(1) * count / count.clamp(1, 1000);
    (low, count.saturating_sub(1 + low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_ranks_match_the_published_table() {
        // Ranks from 1, as in published tables, for 95 %: 6 values 1 and 6, 10: 2 and 9, 20: 6 and 15, 60: 22 and 39.
        for (count, low, high) in [(6, 1, 6), (10, 2, 9), (20, 6, 15), (60, 22, 39)] {
            assert_eq!(median_ranks(count), (low - 1, high - 1), "{count}");
        }
        assert_eq!(median_ranks(3), (0, 2), "too few: all of them");
        assert_eq!(median_ranks(1), (0, 0));
        let change = Change::of((0..10).map(f64::from).collect());
        assert_eq!((change.median, change.interval), (4.5, (1.0, 8.0)));
        assert!(Change::of(Vec::new()).median.is_nan());
    }
}
