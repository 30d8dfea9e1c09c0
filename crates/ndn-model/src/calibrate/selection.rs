//! Which runs of a campaign an estimate uses.

use super::run::Run;

/// Runs that others delayed for more than this show no times of service; those delayed for more than [`LATENCY_DELAYED_MAX`](crate::pauses::LATENCY_DELAYED_MAX) show
/// no latency.
pub(super) const COST_DELAYED_MAX: f64 = 0.05;

/// The runs whose processor time is that of service: where one of several workers has too little time, others are busy with
/// waiting.
pub(super) fn show_times<'r>(runs: &[&'r Run]) -> Vec<&'r Run> {
    const LOST_MOST: f64 = 0.02;
    let is_alone = |run: &Run| run.setting.workers == 1;
    let shows = |run: &Run| is_alone(run) || run.unsatisfied() <= LOST_MOST;
    let has_several = runs.iter().any(|run| !is_alone(run) && shows(run));
    runs.iter().copied().filter(|run| shows(run) || !has_several).collect()
}

/// Those in which the generator shares its processor with a worker, if these are enough: it takes more time there.
pub(super) fn with_shared<'r>(runs: &[&'r Run], processors: usize) -> Vec<&'r Run> {
    const RUNS_MIN: usize = 10;
    let shared: Vec<&Run> =
        runs.iter().copied().filter(|run| run.setting.workers >= processors).collect();
    if shared.len() < RUNS_MIN { runs.to_vec() } else { shared }
}

/// The half of the runs with one worker and without losses that has the least load.
pub(super) fn calm<'r>(runs: &[&'r Run]) -> Vec<&'r Run> {
    let busy = |run: &Run| {
        let cpu = run.cpu_ns.iter().copied().max().unwrap_or(0) as f64;
        cpu / (run.seconds * 1e9)
    };
    let mut calm: Vec<&Run> =
        runs.iter().copied().filter(|run| run.setting.workers == 1 && run.refused == 0).collect();
    calm.sort_by(|a, b| busy(a).total_cmp(&busy(b)));
    calm.truncate(calm.len().div_ceil(2).max(1));
    calm
}
