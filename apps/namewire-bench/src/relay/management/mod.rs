//! `bench management`: what traffic notices of the management of a forwarder.
//!
//! Exchanges over Unix sockets, measured alone and while somebody lists everything that there is, or sends
//! commands that are refused; one short stretch of each in turn, in many pairs. First in a closed loop,
//! whose rate tells how much is left for traffic; then in an open loop at half that rate, whose processor
//! time per exchange tells what a disturbance costs whatever else the machine does. The forwarder's
//! worker, the generator, the forwarder's control thread and who disturbs them have a processor each.
//! Processors share caches, memory and often more: lists of another forwarder, by the same processors, tell
//! how much of a change is due to that.

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
/// Turns of the window before something is measured, and in each stretch at least.
const TURNS: u64 = 8;

/// What to run.
#[derive(Debug, Clone)]
pub struct ManagementOptions {
    /// Only cases whose name contains this.
    pub filter: Option<String>,
    /// Length of one measured stretch.
    pub stretch: Duration,
    /// Pairs of stretches of `listing`, in each loop.
    pub pairs: usize,
    /// Processors: of the worker, the generator, the control thread, and who disturbs them.
    pub cpus: [usize; 4],
    /// FIB entries and faces that are listed.
    pub fib_entries: u32,
    /// Faces that are listed.
    pub faces: u16,
    /// Hostile commands in all, and per second.
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

/// One kind of disturbance, in one kind of loop. Of two figures the first is without it.
#[derive(Debug, Clone, Serialize)]
pub struct ManagementCase {
    /// `listing` or `hostile`.
    pub case: &'static str,
    /// `closed`: as many exchanges in flight as the window holds; `open`: so many are begun per second.
    pub loop_kind: &'static str,
    /// Exchanges per second, medians.
    pub exchanges_per_s: (f64, f64),
    /// What the disturbance changes of that, as a share (-0.05 for five per cent less).
    pub rate_change: Change,
    /// What it changes of that against lists of another forwarder, of which the first notices only that
    /// processors share caches and memory.
    pub rate_change_from_elsewhere: Option<Change>,
    /// Processor time of the worker per exchange, in microseconds, medians. What it does for the
    /// disturbance counts, too.
    pub worker_us: (f64, f64),
    /// What the disturbance changes of that.
    pub worker_change: Change,
    /// 99th percentile of the latency.
    pub p99_us: (f64, f64),
    /// Exchanges that got no answer within two seconds, of all.
    pub lost: (u64, u64),
    /// Pairs measured.
    pub pairs: usize,
    /// Lists printed, or commands sent.
    pub disturbances: u64,
    /// Resident memory before the first pair and after the last, MiB.
    pub resident_mib: (f64, f64),
    /// And after the first tenth of the pairs: tables that fill for the first time have grown by then.
    pub resident_settled_mib: f64,
}

/// Everything that one run of the bench found.
#[derive(Debug, Clone, Serialize)]
pub struct ManagementReport {
    /// Always `management`.
    pub bench: &'static str,
    /// The machine.
    pub machine: crate::Machine,
    /// FIB entries at the time.
    pub fib_entries: u32,
    /// Faces beside those of the traffic.
    pub faces: u16,
    /// The rows.
    pub cases: Vec<ManagementCase>,
}

/// Runs the bench; `progress` gets a line now and then.
///
/// # Errors
/// When the forwarder cannot be started or filled, a socket fails, or a hostile command was obeyed.
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
        machine: crate::Machine::read(),
        fib_entries: options.fib_entries,
        faces: options.faces,
        cases,
    })
}

/// So many that half of the commands are sent in each loop.
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
