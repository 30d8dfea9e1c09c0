//! Selection of the runs of a campaign that an estimate uses.

use serde::{Deserialize, Serialize};

use super::run::Run;
use crate::pauses::LATENCY_DELAYED_MAX;

/// Largest share of the window in which a thread of a run could not run because others did.
const DELAYED_MAX: f64 = 0.05;

/// Why an estimate leaves a run out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeftOutReason {
    /// The counters of the workers show no work, as they were read late.
    NoWork,
    /// Other programs took a processor for more than 5 % of the time.
    OtherPrograms,
    /// Other programs took a processor for more than 1 % of the time.
    OtherProgramsForLatency,
    /// No Interest was satisfied.
    NoAnswers,
    /// One of several workers may wait for another one.
    WaitingWorkers,
    /// The model has no prediction for the setting.
    NotPredicted,
}

impl core::fmt::Display for LeftOutReason {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::NoWork => "not used: the counters of the workers show no work",
            Self::OtherPrograms => "not used: other programs took a processor for more than 5 % of the time",
            Self::OtherProgramsForLatency => {
                "without latencies: other programs took a processor for more than 1 % of the time"
            }
            Self::NoAnswers => "without latencies: no Interest was satisfied",
            Self::WaitingWorkers => {
                "without processor times: several workers lost Interests, and one may have waited for another"
            }
            Self::NotPredicted => "not compared with the model: it has no prediction for the setting",
        })
    }
}

/// A run that an estimate leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeftOut {
    /// Its number.
    pub run: usize,
    /// Why.
    pub reason: LeftOutReason,
}

/// Why a run is used for nothing.
#[must_use]
pub fn why_unusable(run: &Run) -> Option<LeftOutReason> {
    if run.cost_ns() <= 0.0 {
        Some(LeftOutReason::NoWork)
    } else {
        (run.delayed() > DELAYED_MAX).then_some(LeftOutReason::OtherPrograms)
    }
}

/// Why the latencies of a run are not compared.
#[must_use]
pub fn why_without_latency(run: &Run) -> Option<LeftOutReason> {
    if run.delayed() > LATENCY_DELAYED_MAX {
        Some(LeftOutReason::OtherProgramsForLatency)
    } else {
        (run.latency_ns[0] == 0).then_some(LeftOutReason::NoAnswers)
    }
}

/// The runs that are left out of some estimates, by their numbers.
pub(super) fn left_out(runs: &[Run]) -> Vec<LeftOut> {
    let used = usable(runs);
    let timed = without_waiting_workers(&used);
    let is_timed = |run: &Run| timed.iter().any(|one| core::ptr::eq(*one, run));
    let mut all = Vec::new();
    for run in runs {
        let reasons = match why_unusable(run) {
            Some(reason) => [Some(reason), None],
            None => [
                why_without_latency(run),
                (!is_timed(run)).then_some(LeftOutReason::WaitingWorkers),
            ],
        };
        all.extend(reasons.into_iter().flatten().map(|reason| LeftOut { run: run.number, reason }));
    }
    all
}

/// The runs that other programs disturbed little, for processor times and throughput.
pub(super) fn usable(runs: &[Run]) -> Vec<&Run> {
    runs.iter().filter(|run| why_unusable(run).is_none()).collect()
}

/// Those of the runs whose latencies count.
pub(super) fn usable_for_latency<'r>(runs: &[&'r Run]) -> Vec<&'r Run> {
    runs.iter().copied().filter(|run| why_without_latency(run).is_none()).collect()
}

/// The runs whose processor time is that of service. Where one of several workers has too little time, the others poll while
/// they wait for it: runs with several workers and losses are left out, unless no others have several.
pub(super) fn without_waiting_workers<'r>(runs: &[&'r Run]) -> Vec<&'r Run> {
    const UNSATISFIED_MAX: f64 = 0.02;
    let has_one_worker = |run: &Run| run.setting.workers == 1;
    let is_service = |run: &Run| has_one_worker(run) || run.unsatisfied() <= UNSATISFIED_MAX;
    let has_several = runs.iter().any(|run| !has_one_worker(run) && is_service(run));
    runs.iter().copied().filter(|run| is_service(run) || !has_several).collect()
}

/// The runs in which the generator shares its processor with a worker, where it takes more time; all runs if these are few.
pub(super) fn for_generator_cost<'r>(runs: &[&'r Run], processors: usize) -> Vec<&'r Run> {
    const RUNS_MIN: usize = 10;
    let shared: Vec<&Run> =
        runs.iter().copied().filter(|run| run.setting.workers >= processors).collect();
    if shared.len() < RUNS_MIN { runs.to_vec() } else { shared }
}

/// The half with the least load of the runs with one worker and without losses, least first.
pub(super) fn with_least_load<'r>(runs: &[&'r Run]) -> Vec<&'r Run> {
    let mut idlest: Vec<&Run> =
        runs.iter().copied().filter(|run| run.setting.workers == 1 && run.refused == 0).collect();
    idlest.sort_by(|a, b| a.busiest().total_cmp(&b.busiest()));
    idlest.truncate(idlest.len().div_ceil(2).max(1));
    idlest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate::test_campaign::campaign;

    #[test]
    fn runs_that_are_left_out_have_a_reason() {
        let mut runs = campaign();
        runs.truncate(8);
        for (number, run) in runs.iter_mut().enumerate() {
            run.number = number;
            run.setting.workers = 1;
        }
        let disturbed_ns = |run: &Run, share: f64| (share * run.seconds * 1e9) as u64;
        runs[1].cpu_ns = vec![0];
        runs[2].delayed_ns = vec![disturbed_ns(&runs[2], 0.06)];
        runs[3].delayed_ns = vec![disturbed_ns(&runs[3], 0.02)];
        runs[4].latency_ns = [0; 3];
        runs[5].setting.workers = 2;
        runs[6].setting.workers = 2;
        runs[6].refused = runs[6].sent / 2;
        let found = left_out(&runs);
        let found: Vec<(usize, LeftOutReason)> =
            found.iter().map(|one| (one.run, one.reason)).collect();
        let expected = [
            (1, LeftOutReason::NoWork),
            (2, LeftOutReason::OtherPrograms),
            (3, LeftOutReason::OtherProgramsForLatency),
            (4, LeftOutReason::NoAnswers),
            (6, LeftOutReason::WaitingWorkers),
        ];
        assert_eq!(found, expected);
        assert_eq!((usable(&runs).len(), usable_for_latency(&usable(&runs)).len()), (6, 4));
    }
}
