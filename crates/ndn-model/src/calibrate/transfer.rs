//! Transfers of cache lines between processors: how long they take, and by how much longer in a run than usual.
//!
//! The time of a transfer depends on the caches that the processors have in common. The host of a virtual machine moves them.

use libm::sqrt;
use serde::{Deserialize, Serialize};

use super::order_statistics::median;
use super::run::Run;

/// Standard deviation over the median from which on the effect of transfers is estimated.
const VARIATION_MIN: f64 = 0.05;
/// Runs with the time from which on it is estimated: the effect of fewer would be their error.
const RUNS_MIN: usize = 10;

/// Transfers of a cache line between processors: how long they usually take, and what longer ones cost an Interest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct TransferInfluence {
    /// Median time over the runs, in nanoseconds; 0 if it was measured in few of them, or hardly varies.
    pub usual_ns: f64,
    /// Standard deviation between runs, in nanoseconds.
    pub deviation_ns: f64,
    /// Nanoseconds of an Interest and its Data for each by which a transfer is longer than usual.
    pub effect: f64,
}

impl TransferInfluence {
    /// Over the runs in which the time was measured; the effect is 0 until it is estimated.
    fn of<'r>(runs: impl Iterator<Item = &'r Run>) -> Self {
        let all: Vec<f64> = runs.map(|run| run.host.transfer_ns).filter(|ns| *ns > 0.0).collect();
        if all.len() < RUNS_MIN {
            return Self::default();
        }
        let usual_ns = median(all.clone());
        let squares: f64 = all.iter().map(|ns| (ns - usual_ns) * (ns - usual_ns)).sum();
        let deviation_ns = sqrt(squares / all.len() as f64);
        let varies = deviation_ns >= VARIATION_MIN * usual_ns;
        if varies { Self { usual_ns, deviation_ns, effect: 0.0 } } else { Self::default() }
    }

    /// Over the runs with one worker, and over those with several.
    pub(super) fn by_workers(runs: &[&Run]) -> [Self; 2] {
        [false, true].map(|several| {
            Self::of(runs.iter().copied().filter(|run| (run.setting.workers > 1) == several))
        })
    }
}

/// Nanoseconds by which a transfer was longer in a run than usual; 0 if it was not measured in the run, or hardly varies.
pub(super) fn excess_ns(run: &Run, transfers: &[TransferInfluence; 2]) -> f64 {
    let usual_ns = transfers[usize::from(run.setting.workers > 1)].usual_ns;
    let own_ns = run.host.transfer_ns;
    if own_ns > 0.0 && usual_ns > 0.0 { own_ns - usual_ns } else { 0.0 }
}
