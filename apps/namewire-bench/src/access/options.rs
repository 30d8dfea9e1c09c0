//! Options of the bench, and what its files share.

use serde::Serialize;

/// Options of [`run_access`](super::run_access).
#[derive(Debug, Clone)]
pub struct AccessBenchOptions {
    /// Length of the file, bytes; at least 16 MiB.
    pub bytes: u64,
    /// Random reads of 4 KiB in a round.
    pub reads: u64,
    /// Rounds, in each of which every way reads once.
    pub rounds: usize,
    /// Interpreters of Python, of which the first that has the modules of a way is used.
    pub python: Vec<String>,
    /// Only ways whose name contains this.
    pub filter: Option<String>,
}

impl Default for AccessBenchOptions {
    fn default() -> Self {
        let python = ["python3", "/usr/bin/python3"].map(str::to_owned).to_vec();
        Self { bytes: 256 << 20, reads: 2000, rounds: 5, python, filter: None }
    }
}

/// A way that was not measured.
#[derive(Debug, Clone, Serialize)]
pub struct MissingWay {
    /// The interface.
    pub way: String,
    /// The reason.
    pub reason: String,
}

/// A digest as text.
pub(super) fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
