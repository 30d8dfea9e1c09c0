//! Rounds: compared cases alternate, and each fetch has its own bound.

use std::sync::atomic::Ordering;

use anyhow::Context;

use super::bound::{Bound, Costs};
use super::cases::Case;
use super::others::Other;
use super::programs::{CasePrograms, Fetched};
use super::report::{CpuByProcess, TransferCase, TransferOptions, TransferRatio};
use crate::Quartiles;
use ndn_pipeline_bench::median;

/// Alternating cases: the first is compared with the others.
pub(super) const COMPARED: [&str; 5] = [
    "namewire-unix-manifest",
    "namewire-unix-digest",
    "namewire-unix-unverified",
    "ndnd-unix",
    "nginx-curl",
];

/// A program and case to measure.
#[derive(Debug, Clone)]
pub(super) enum Member {
    Own(Case),
    Other(Other),
}

impl Member {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Own(case) => &case.name,
            Self::Other(other) => other.case(),
        }
    }

    pub(super) fn verified(&self) -> &'static str {
        match self {
            Self::Own(case) => case.mode.verified(),
            Self::Other(other) => other.verified(),
        }
    }
}

/// A fetch, with the costs measured before and after it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Round {
    pub(super) fetched: Fetched,
    pub(super) costs: Costs,
}

/// A case with its rounds.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) member: Member,
    pub(super) kit: CasePrograms,
    pub(super) rounds: Vec<Round>,
    pub(super) discarded: usize,
}

/// Returns whether the run was interrupted.
pub(super) fn is_interrupted(options: &TransferOptions) -> bool {
    options.interrupted.load(Ordering::Relaxed)
}

/// Discards the last round if one of its fetches had more than 1 % steal time, unless `requested` rounds were discarded
/// already.
pub(super) fn discard(entries: &mut [Entry], requested: usize) {
    let is_stolen =
        |entry: &Entry| entry.rounds.last().is_some_and(|round| round.fetched.stolen > 0.01);
    if !entries.iter().any(is_stolen) {
        return;
    }
    for entry in entries {
        if entry.discarded < requested {
            entry.discarded += 1;
            entry.rounds.pop();
        }
    }
}

/// Ratios of the first compared case over the others.
pub(super) fn ratios(entries: &[Entry]) -> Vec<TransferRatio> {
    let Some((first, others)) = entries.split_first() else {
        return Vec::new();
    };
    let of = |other: &Entry| {
        let pairs = first.rounds.iter().zip(&other.rounds);
        let ratios = pairs.map(|(one, two)| first.rate(one) / other.rate(two)).collect();
        Some(TransferRatio {
            case: first.member.name().to_owned(),
            over: other.member.name().to_owned(),
            ratio: Quartiles::of(ratios)?,
        })
    };
    others.iter().filter_map(of).collect()
}

impl Entry {
    /// Fetches once, and checks the content.
    pub(super) fn fetch(&mut self) -> anyhow::Result<Fetched> {
        let fetched = self.kit.fetch()?;
        self.kit.compare().context("what was fetched is wrong")?;
        self.kit.remove_output();
        Ok(fetched)
    }

    /// 10^6 content bytes per second.
    fn rate(&self, round: &Round) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a length of a file, as a rate")]
        let megabytes = self.kit.bytes() as f64 / 1e6;
        megabytes / round.fetched.seconds
    }

    /// Progress line of one fetch.
    pub(super) fn progress(&self, number: usize, round: &Round) -> String {
        let (case, rate, stolen) =
            (self.member.name(), self.rate(round), round.fetched.stolen * 100.0);
        format!("  {case}, round {number}: {rate:.0} MB/s, {stolen:.1} % taken by the host")
    }

    pub(super) fn goodput(&self) -> f64 {
        median(self.rounds.iter().map(|round| self.rate(round)))
    }

    /// Line of a complete measurement.
    pub(super) fn line(&self, cpus: usize) -> String {
        let (case, megabytes) = (self.member.name(), self.kit.bytes() >> 20);
        let (goodput, verified) = (self.goodput(), self.member.verified());
        let share = self.summary(cpus).share_of_cpu_bound;
        let share = share.map(|share| format!(", {share:.2} of the CPU bound")).unwrap_or_default();
        format!("{case}: {goodput:.0} MB/s ({megabytes} MiB, verified by {verified}{share})")
    }

    pub(super) fn summary(&self, cpus: usize) -> TransferCase {
        let rates: Vec<f64> = self.rounds.iter().map(|round| self.rate(round)).collect();
        let of = |part: fn(&CpuByProcess) -> f64| {
            median(self.rounds.iter().map(|round| part(&round.fetched.cpu)))
        };
        let bounds = self.bounds(cpus);
        let share = |bound: fn(&Bound) -> f64| {
            Quartiles::of(rates.iter().zip(&bounds).map(|(rate, of)| rate / bound(of)).collect())
        };
        let allowed = |bound: fn(&Bound) -> f64| {
            (!bounds.is_empty()).then(|| median(bounds.iter().map(bound)))
        };
        let of_bound = share(|bound| bound.mb_per_s);
        TransferCase {
            case: self.member.name().to_owned(),
            verified: self.member.verified(),
            bytes: self.kit.bytes(),
            goodput_mb_per_s: self.goodput(),
            spread: (
                rates.iter().copied().fold(f64::INFINITY, f64::min),
                rates.iter().copied().fold(0.0, f64::max),
            ),
            cpu_s: CpuByProcess {
                server: of(|cpu| cpu.server),
                forwarder: of(|cpu| cpu.forwarder),
                fetcher: of(|cpu| cpu.fetcher),
            },
            cpu_bound_mb_per_s: allowed(|bound| bound.mb_per_s),
            share_of_cpu_bound: of_bound.map(|share| share.median),
            share_quartiles: of_bound.map(|share| (share.lower, share.upper)),
            cpu_bound_side_by_side_mb_per_s: allowed(|bound| bound.mb_per_s_side_by_side),
            share_of_cpu_bound_side_by_side: share(|bound| bound.mb_per_s_side_by_side)
                .map(|share| share.median),
            rounds_discarded: self.discarded,
            stolen: median(self.rounds.iter().map(|round| round.fetched.stolen)),
        }
    }

    /// Bounds of each round; empty for cases with another bound.
    fn bounds(&self, cpus: usize) -> Vec<Bound> {
        let Member::Own(case) = &self.member else {
            return Vec::new();
        };
        self.rounds.iter().filter_map(|round| Bound::of(case, &round.costs, cpus)).collect()
    }
}
