//! Stretches with and without a disturbance, in pairs.

use std::time::Duration;

use serde::Serialize;

use super::disturb::Disturbance;
use super::subject::Subject;
use super::{Generator, ManagementCase, ManagementOptions, TURNS};
use crate::relay::statistics::to_f64;

/// Relative change from the first to the second stretch of many pairs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Change {
    /// The median of the pairs.
    pub median: f64,
    /// Confidence interval of the median with 95 % probability (by rank, independent of the distribution).
    pub interval: (f64, f64),
}

impl Change {
    fn of(mut shares: Vec<f64>) -> Self {
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

/// Result of one stretch.
#[derive(Debug, Clone, Copy)]
struct Slice {
    rate: f64,
    worker_us: f64,
    p99_us: f64,
    lost: u64,
}

/// Parameters of the measurement in pairs.
pub(super) struct Pairs<'a> {
    pub(super) options: &'a ManagementOptions,
    pub(super) subject: &'a Subject,
    pub(super) disturbance: &'a Disturbance,
    /// The same disturbance of another forwarder.
    pub(super) elsewhere: Option<&'a Disturbance>,
    pub(super) pairs: usize,
}

impl Pairs<'_> {
    pub(super) fn measure(
        &self,
        case: &'static str,
        loop_kind: &'static str,
        generator: &mut Generator,
    ) -> anyhow::Result<ManagementCase> {
        let (mut alone, mut disturbed, mut elsewhere) = (Vec::new(), Vec::new(), Vec::new());
        let before = self.disturbance.count();
        let first = self.subject.resident_mib()?;
        let mut settled = first;
        for pair in 0..self.pairs {
            // The order alternates, so that a drift of the machine's speed affects all alike.
            let kinds = [
                (true, None, &mut alone),
                (true, Some(self.disturbance), &mut disturbed),
                (self.elsewhere.is_some(), self.elsewhere, &mut elsewhere),
            ];
            let mut kinds =
                kinds.into_iter().filter(|(is_measured, ..)| *is_measured).collect::<Vec<_>>();
            let count = kinds.len();
            kinds.rotate_left(pair % count);
            for (_, disturbance, slices) in kinds {
                slices.push(self.slice(disturbance, generator)?);
            }
            if pair == self.pairs / 10 {
                settled = self.subject.resident_mib()?;
            }
        }
        let median = |slices: &[Slice], figure: fn(&Slice) -> f64| {
            ndn_pipeline_bench::median(slices.iter().map(figure))
        };
        let both = |figure| (median(&alone, figure), median(&disturbed, figure));
        let change_from = |from: &[Slice], figure: fn(&Slice) -> f64| {
            let pairs = from.iter().zip(&disturbed);
            Change::of(pairs.map(|(a, d)| figure(d) / figure(a) - 1.0).collect())
        };
        let change = |figure| change_from(&alone, figure);
        let lost = |slices: &[Slice]| slices.iter().map(|slice| slice.lost).sum();
        Ok(ManagementCase {
            case,
            loop_kind,
            exchanges_per_s: both(|slice| slice.rate),
            rate_change: change(|slice| slice.rate),
            rate_change_from_elsewhere: self
                .elsewhere
                .map(|_| change_from(&elsewhere, |slice| slice.rate)),
            worker_us: both(|slice| slice.worker_us),
            worker_change: change(|slice| slice.worker_us),
            p99_us: both(|slice| slice.p99_us),
            lost: (lost(&alone), lost(&disturbed)),
            pairs: self.pairs,
            disturbances: self.disturbance.count() - before,
            resident_mib: (first, self.subject.resident_mib()?),
            resident_settled_mib: settled,
        })
    }

    /// Runs one stretch, with one disturbance or none. Time until a running list has ended does not count.
    fn slice(
        &self,
        disturbance: Option<&Disturbance>,
        generator: &mut Generator,
    ) -> anyhow::Result<Slice> {
        let others = [Some(self.disturbance), self.elsewhere];
        while others.into_iter().flatten().any(Disturbance::is_busy) {
            generator.run(Duration::from_millis(2), 0)?;
        }
        disturbance.inspect(|disturbance| disturbance.set(true));
        generator.run(self.options.stretch / 10, 1)?;
        let cpu_ns = self.subject.worker_cpu_ns()?;
        let stretch = generator.run(self.options.stretch, TURNS)?;
        let cpu_ns = self.subject.worker_cpu_ns()? - cpu_ns;
        disturbance.inspect(|disturbance| disturbance.set(false));
        let tally = &stretch.tally;
        Ok(Slice {
            rate: to_f64(tally.satisfied) * 1e9 / to_f64(stretch.wall_ns),
            worker_us: to_f64(cpu_ns) / to_f64(tally.satisfied.max(1)) / 1e3,
            p99_us: to_f64(tally.latency_ns.value_at_quantile(0.99)) / 1e3,
            lost: tally.lost,
        })
    }
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
