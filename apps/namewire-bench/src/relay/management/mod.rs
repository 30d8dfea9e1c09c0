//! `bench management`: effect of a forwarder's management on its traffic.
//!
//! Exchanges over Unix sockets, measured without disturbance and while a client lists all tables or sends commands
//! that are refused; short stretches of each alternate, in many pairs. First in a closed loop, whose rate shows the
//! capacity left for traffic; then in an open loop at half that rate, whose CPU time per exchange shows the cost of a
//! disturbance independent of other activity of the machine. The forwarder's worker, the generator, the forwarder's
//! control thread and the disturbing client have a processor each. Processors share caches, memory and often more:
//! lists of another forwarder, on the same processors, show the part of a change that is due to sharing.

mod disturb;
mod hostile;
mod pairs;
mod subject;

use std::time::Duration;

use anyhow::Context;
use serde::Serialize;

use super::generator::Generator;
use super::statistics::to_f64;
use disturb::Disturbance;
pub use pairs::Change;
use pairs::Pairs;
use subject::Subject;

/// Exchanges in flight, and bytes of content of each Data.
const WINDOW: u32 = 1024;
const PAYLOAD: usize = 100;
/// Turns of the window before the measurement, and minimum in each stretch.
const TURNS: u64 = 8;

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

/// Runs the bench; calls `progress` with lines of text.
///
/// # Errors
/// The forwarder cannot be started or filled, a socket fails, or the forwarder obeyed a hostile command.
pub fn run_management(
    options: &ManagementOptions,
    mut progress: impl FnMut(&str),
) -> anyhow::Result<ManagementReport> {
    super::rounds::pin(options.cpus[1])?;
    progress("start and fill");
    let (subject, mut generator) = Subject::start(options)?;
    let mut cases = Vec::new();
    for case in ["listing", "hostile"] {
        if options.filter.as_ref().is_some_and(|filter| !case.contains(filter.as_str())) {
            continue;
        }
        let (disturbance, pairs) = match case {
            "listing" => (Disturbance::listing(options, &subject)?, options.pairs),
            _ => (Disturbance::hostile(options, &subject)?, hostile_pairs(options)),
        };
        let elsewhere =
            (case == "listing").then(|| Subject::start_elsewhere(options)).transpose()?;
        let other = elsewhere.as_ref();
        let other = other.map(|other| Disturbance::listing(options, other)).transpose()?;
        let run = Pairs {
            options,
            subject: &subject,
            disturbance: &disturbance,
            elsewhere: other.as_ref(),
            pairs,
        };
        progress(&format!("{case}: {pairs} pairs in a closed loop"));
        generator.set_rate(None);
        let closed = run.measure(case, "closed", &mut generator)?;
        let half = rate_of(closed.exchanges_per_s.0 / 2.0);
        progress(&format!("{case}: {pairs} pairs in an open loop of {half}/s"));
        generator.set_rate(Some(half));
        let open = run.measure(case, "open", &mut generator)?;
        cases.extend([closed, open]);
        for disturbance in [Some(disturbance), other].into_iter().flatten() {
            disturbance.finish().context("what disturbs the forwarder has failed")?;
        }
        subject.check()?;
    }
    Ok(ManagementReport {
        bench: "management",
        machine: ndn_pipeline_bench::Machine::read(),
        fib_entries: options.fib_entries,
        faces: options.faces,
        cases,
    })
}

/// Number of pairs in which half of the commands are sent in each loop.
fn hostile_pairs(options: &ManagementOptions) -> usize {
    let seconds = to_f64(options.hostile) / 2.0 / f64::from(options.hostile_rate);
    let pairs = (seconds / options.stretch.as_secs_f64()).ceil();
    (1..).take_while(|n| f64::from(*n) <= pairs).count().max(1)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate, and it saturates"
)]
fn rate_of(per_s: f64) -> u32 {
    per_s as u32
}
