//! Stretches with and without a disturbance, in pairs.

use std::time::Duration;

use super::super::generator::Generator;
use super::change::Change;
use super::disturb::Disturbance;
use super::report::{ManagementCase, ManagementOptions, TURNS};
use super::subject::Subject;
use crate::relay::statistics::to_f64;

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
