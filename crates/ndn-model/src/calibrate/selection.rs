//! Selection of the runs of a campaign that an estimate uses.

use super::run::Run;
use crate::pauses::LATENCY_DELAYED_MAX;

/// Largest share of the window in which a thread of a run could not run because others did.
const DELAYED_MAX: f64 = 0.05;

/// The runs that other programs disturbed little, for processor times and throughput.
pub(super) fn usable(runs: &[Run], processors: usize) -> Vec<&Run> {
    // Counters that were read late can show no work.
    let is_usable = |run: &&Run| run.cost_ns() > 0.0 && run.delayed(processors) <= DELAYED_MAX;
    runs.iter().filter(is_usable).collect()
}

/// Those of the runs that other programs disturbed so little that their latencies count.
pub(super) fn usable_for_latency<'r>(runs: &[&'r Run], processors: usize) -> Vec<&'r Run> {
    let is_usable = |run: &&Run| run.delayed(processors) <= LATENCY_DELAYED_MAX;
    runs.iter().copied().filter(is_usable).collect()
}

/// The runs whose processor time is that of service. Where one of several workers has too little time, the others poll while
/// they wait for it: runs with several workers and losses are left out, unless no others have several.
pub(super) fn without_waiting_workers<'r>(runs: &[&'r Run]) -> Vec<&'r Run> {
    const UNSATISFIED_MAX: f64 = 0.02;
    let is_alone = |run: &Run| run.setting.workers == 1;
    let is_service = |run: &Run| is_alone(run) || run.unsatisfied() <= UNSATISFIED_MAX;
    let has_several = runs.iter().any(|run| !is_alone(run) && is_service(run));
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
