//! Options and report of the transfer bench.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde::Serialize;

use super::bound::Costs;
use crate::Quartiles;

/// Options of the bench.
#[derive(Debug, Clone)]
pub struct TransferOptions {
    /// Only cases whose name contains this.
    pub filter: Option<String>,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Fetches per case, whose median is reported; at most three for cases that are not compared round by round.
    pub rounds: usize,
    /// The processors; the forwarder runs on the first.
    pub cpus: Vec<usize>,
    /// Set to end the run after the current fetch.
    pub interrupted: Arc<AtomicBool>,
}

impl Default for TransferOptions {
    fn default() -> Self {
        let interrupted = Arc::default();
        Self { filter: None, bytes: 1 << 30, rounds: 5, cpus: vec![0, 1], interrupted }
    }
}

/// CPU time of one fetch by process, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct CpuByProcess {
    /// Of the server.
    pub server: f64,
    /// Of the forwarder.
    pub forwarder: f64,
    /// Of the fetcher.
    pub fetcher: f64,
}

/// One case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TransferCase {
    /// Program, transport and verification.
    pub case: String,
    /// The signature that the fetcher verifies, if any.
    pub verified: &'static str,
    /// Content bytes of one fetch: other programs and some cases fetch less than the whole file.
    pub bytes: u64,
    /// Content bytes per second, in 10^6, from the start of the fetcher to its end.
    pub goodput_mb_per_s: f64,
    /// Slowest and fastest round.
    pub spread: (f64, f64),
    /// CPU time, medians.
    pub cpu_s: CpuByProcess,
    /// Upper bound from the minimum costs, with packets hashed one at a time: per round from the lower costs measured
    /// before and after it; the median.
    pub cpu_bound_mb_per_s: Option<f64>,
    /// Goodput relative to the bound of its round: the median.
    pub share_of_cpu_bound: Option<f64>,
    /// First and third quartile of that.
    pub share_quartiles: Option<(f64, f64)>,
    /// The bound with packets hashed in parallel, in the fastest way, as the fetcher does.
    pub cpu_bound_side_by_side_mb_per_s: Option<f64>,
    /// Goodput relative to that bound.
    pub share_of_cpu_bound_side_by_side: Option<f64>,
    /// Rounds discarded because of more than 1 % steal time.
    pub rounds_discarded: usize,
    /// Median steal time of the valid rounds, as a share.
    pub stolen: f64,
}

/// Goodput of one case relative to another, round by round.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TransferRatio {
    /// The case.
    pub case: String,
    /// The other case, whose rounds alternated with those of the first.
    pub over: String,
    /// The ratios.
    pub ratio: Quartiles,
}

/// Report of one run of the bench.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TransferReport {
    /// `transfer`.
    pub bench: &'static str,
    /// The machine.
    pub machine: ndn_pipeline_bench::Machine,
    /// Length of the file.
    pub bytes: u64,
    /// The shared processors.
    pub cpus: Vec<usize>,
    /// Minimum costs, in nanoseconds per byte: medians over the whole run.
    pub costs: Costs,
    /// The cases.
    pub cases: Vec<TransferCase>,
    /// Ratios of the first case over others.
    pub ratios: Vec<TransferRatio>,
    /// Cases that could not be measured, with the reasons.
    pub skipped: Vec<String>,
    /// Duration of the whole run.
    pub seconds: f64,
}
