//! Outcomes of runs.

use std::collections::BTreeMap;

/// Response: largest error of times between hosts, in milliseconds.
pub(crate) const CLOCK_ERROR: &str = "clock_error_ms";

/// Numbers that a run measured, by name, or why it failed.
pub(super) type RunResult = Result<BTreeMap<String, f64>, RunFailure>;

/// A run that gave no responses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFailure {
    /// Why.
    pub reason: String,
    /// Its output; empty if it printed nothing.
    pub log: String,
}

impl From<String> for RunFailure {
    fn from(reason: String) -> Self {
        Self { reason, log: String::new() }
    }
}
