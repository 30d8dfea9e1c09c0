//! The ranges of the factors that a campaign varies.

use serde::{Deserialize, Serialize};

use super::run::{Run, Setting};
use crate::assembly::Placement;

/// Ranges of what was measured: outside, a prediction extrapolates.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ranges {
    /// Workers.
    pub workers: (usize, usize),
    /// Name components.
    pub components: (usize, usize),
    /// Bytes of content.
    pub payload: (usize, usize),
    /// Content Store hits.
    pub hit_ratio: (f64, f64),
    /// FIB entries.
    pub routes: (usize, usize),
}

impl Ranges {
    pub(super) fn of(runs: &[&Run]) -> Self {
        let range = |of: &dyn Fn(&Setting) -> usize| {
            let values = runs.iter().map(|run| of(&run.setting));
            (values.clone().min().unwrap_or(0), values.max().unwrap_or(0))
        };
        let hits = runs.iter().map(|run| run.setting.hit_ratio);
        Self {
            workers: range(&|s| s.workers),
            components: range(&|s| s.components),
            payload: range(&|s| s.payload),
            hit_ratio: (hits.clone().fold(1.0, f64::min), hits.fold(0.0, f64::max)),
            routes: range(&|s| s.routes),
        }
    }

    /// Where `setting` lies outside of what was measured, in words.
    pub(super) fn extrapolations(&self, setting: &Setting) -> Vec<String> {
        let mut all = Vec::new();
        let mut note = |value: f64, what: &str, (low, high): (f64, f64)| {
            if value < low || value > high {
                all.push(format!("{value} {what}: {low} to {high} were measured"));
            }
        };
        let both = |(low, high): (usize, usize)| (low as f64, high as f64);
        note(setting.workers as f64, "workers", both(self.workers));
        note(setting.components as f64, "name components", both(self.components));
        note(setting.payload as f64, "bytes of content", both(self.payload));
        note(setting.hit_ratio, "hits per Interest", self.hit_ratio);
        note(setting.routes as f64, "routes", both(self.routes));
        if matches!(setting.placement, Placement::P2 | Placement::P3) {
            let placement = setting.placement;
            all.push(format!(
                "{placement:?} is assumed to cost half of what P4 does, which was measured"
            ));
        }
        all
    }
}
