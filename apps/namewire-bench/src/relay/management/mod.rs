//! `bench management`: effect of a forwarder's management on its traffic.
//!
//! Exchanges over Unix sockets, measured without disturbance and while a client lists all tables or sends commands
//! that are refused; short stretches of each alternate, in many pairs. First in a closed loop, whose rate shows the
//! capacity left for traffic; then in an open loop at half that rate, whose CPU time per exchange shows the cost of a
//! disturbance independent of other activity of the machine. The forwarder's worker, the generator, the forwarder's
//! control thread and the disturbing client have a processor each. Processors share caches, memory and often more:
//! lists of another forwarder, on the same processors, show the part of a change that is due to sharing.

mod change;
mod disturb;
mod hostile;
mod pairs;
mod report;
mod subject;

use anyhow::Context;

use super::statistics::to_f64;
pub use change::Change;
use disturb::Disturbance;
use pairs::Pairs;
pub use report::{ManagementCase, ManagementOptions, ManagementReport};
use subject::Subject;

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
