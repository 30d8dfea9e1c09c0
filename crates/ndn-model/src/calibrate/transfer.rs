//! The time of a cache line from one processor to another: a transfer.

use libm::sqrt;
use serde::{Deserialize, Serialize};

use super::order_statistics::median;
use super::run::Run;

/// Transfers that vary less tell nothing of their effect.
const TRANSFER_VARIES: f64 = 0.05;

/// Transfers between processors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Transfer {
    /// The usual time; 0 if it was not measured, or hardly varies.
    pub usual_ns: f64,
    /// Standard deviation between runs.
    pub deviation_ns: f64,
    /// Nanoseconds of an Interest and its Data for each by which a transfer is longer than usual.
    pub effect: f64,
}

impl Transfer {
    /// Of those of these runs that have the time, without the effect.
    fn of<'r>(runs: impl Iterator<Item = &'r Run>) -> Self {
        let all: Vec<f64> = runs.map(|run| run.host.transfer_ns).filter(|ns| *ns > 0.0).collect();
        if all.is_empty() {
            return Self::default();
        }
        let usual_ns = median(all.clone());
        let squares: f64 = all.iter().map(|ns| (ns - usual_ns) * (ns - usual_ns)).sum();
        let deviation_ns = sqrt(squares / all.len().max(1) as f64);
        let varies = deviation_ns >= TRANSFER_VARIES * usual_ns;
        if varies { Self { usual_ns, deviation_ns, effect: 0.0 } } else { Self::default() }
    }

    /// Those of the runs with one worker, and with several.
    pub(super) fn of_all(runs: &[&Run]) -> [Self; 2] {
        [false, true].map(|several| {
            Self::of(runs.iter().copied().filter(|run| (run.setting.workers > 1) == several))
        })
    }
}

/// Nanoseconds by which a transfer is longer than usual; 0 if either is not known.
pub(super) fn excess_ns(run: &Run, transfers: &[Transfer; 2]) -> f64 {
    let usual_ns = transfers[usize::from(run.setting.workers > 1)].usual_ns;
    let own_ns = run.host.transfer_ns;
    if own_ns > 0.0 && usual_ns > 0.0 { own_ns - usual_ns } else { 0.0 }
}
