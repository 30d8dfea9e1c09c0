//! Options of the bench, and its report.

use std::time::Duration;

use serde::Serialize;

use super::change::Change;

/// Exchanges in flight, and bytes of content of each Data.
pub(super) const WINDOW: u32 = 1024;
pub(super) const PAYLOAD: usize = 100;
/// Turns of the window before the measurement, and minimum in each stretch.
pub(super) const TURNS: u64 = 8;

/// Options of the bench.
#[derive(Debug, Clone)]
pub struct ManagementOptions {
    /// Only cases whose name contains this.
    pub filter: Option<String>,
    /// Length of one measured stretch.
    pub stretch: Duration,
    /// Pairs of stretches of `listing`, in each loop.
    pub pairs: usize,
    /// Processors of the worker, the generator, the control thread, and the disturbing client.
    pub cpus: [usize; 4],
    /// Number of listed FIB entries.
    pub fib_entries: u32,
    /// Number of listed faces.
    pub faces: u16,
    /// Number of hostile commands.
    pub hostile: u64,
    /// Hostile commands per second while they are sent.
    pub hostile_rate: u32,
    /// The first of the ports to use on the loopback interface.
    pub first_port: u16,
}

impl Default for ManagementOptions {
    fn default() -> Self {
        Self {
            filter: None,
            stretch: Duration::from_millis(200),
            pairs: 60,
            cpus: [0, 1, 2, 3],
            fib_entries: 100_000,
            faces: 1000,
            hostile: 1_000_000,
            hostile_rate: 25_000,
            first_port: 28_363,
        }
    }
}

/// One kind of disturbance, in one kind of loop. The first of two figures is without disturbance.
#[derive(Debug, Clone, Serialize)]
pub struct ManagementCase {
    /// `listing` or `hostile`.
    pub case: &'static str,
    /// `closed`: the window is always full; `open`: a fixed number of exchanges starts per second.
    pub loop_kind: &'static str,
    /// Exchanges per second, medians.
    pub exchanges_per_s: (f64, f64),
    /// Relative change due to the disturbance (-0.05 for five per cent less).
    pub rate_change: Change,
    /// Change relative to lists of another forwarder, which affect the measured one only through shared caches and
    /// memory.
    pub rate_change_from_elsewhere: Option<Change>,
    /// CPU time of the worker per exchange, in microseconds, medians. It includes the worker's work for the
    /// disturbance.
    pub worker_us: (f64, f64),
    /// Relative change of the CPU time due to the disturbance.
    pub worker_change: Change,
    /// 99th percentile of the latency.
    pub p99_us: (f64, f64),
    /// Share of exchanges without an answer within two seconds.
    pub lost: (u64, u64),
    /// Pairs measured.
    pub pairs: usize,
    /// Number of lists printed or commands sent.
    pub disturbances: u64,
    /// Resident memory before the first pair and after the last, MiB.
    pub resident_mib: (f64, f64),
    /// The same after the first tenth of the pairs: tables that fill for the first time have grown by then.
    pub resident_settled_mib: f64,
}

/// Report of one run of the bench.
#[derive(Debug, Clone, Serialize)]
pub struct ManagementReport {
    /// Always `management`.
    pub bench: &'static str,
    /// The machine.
    pub machine: ndn_pipeline_bench::Machine,
    /// Number of FIB entries.
    pub fib_entries: u32,
    /// Number of faces, without those of the traffic.
    pub faces: u16,
    /// The rows.
    pub cases: Vec<ManagementCase>,
}
