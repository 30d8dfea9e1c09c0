//! `bench pipeline --trace`: cost of the measurement of service times.

use anyhow::{Result, ensure};
use ndn_forwarding::{ServiceTimer, ServiceTimes};
use serde::Serialize;

use crate::PipelineOptions;
use crate::case::{Case, cases};
use crate::measure::Spread;

/// One case with and without service times.
#[derive(Debug, Clone, Serialize)]
pub struct TraceCase {
    /// Name of the case.
    pub case: String,
    /// Median time of one exchange without measurement of service times.
    pub ns_per_exchange_off: f64,
    /// The same with measurement.
    pub ns_per_exchange_on: f64,
    /// Median over the pairs of the second over the first, minus 1.
    pub cost: f64,
    /// Minimum and maximum of the pairs.
    pub cost_spread: (f64, f64),
    /// Pairs of stretches.
    pub pairs: usize,
    /// Packets whose forwarding was measured.
    pub samples: u64,
}

/// Report of `--trace`.
#[derive(Debug, Clone, Serialize)]
pub struct TraceReport {
    /// Always `pipeline`.
    pub bench: &'static str,
    /// The machine.
    pub machine: crate::Machine,
    /// The rows.
    pub trace: Vec<TraceCase>,
}

/// Runs the selected cases with service times off and on, in turn.
///
/// # Errors
/// Memory is short, or the shard did not do the work of the case.
pub fn run_trace_cost(
    options: &PipelineOptions,
    mut progress: impl FnMut(&str),
) -> Result<TraceReport> {
    if let Some(cpu) = options.cpu {
        ndn_sys::cpu::pin_thread(cpu)?;
    }
    let mut trace = Vec::new();
    for case in cases() {
        if options.filter.as_ref().is_none_or(|filter| case.name.contains(filter)) {
            progress(&case.name);
            trace.push(run(&case, options)?);
        }
    }
    Ok(TraceReport { bench: "pipeline", machine: crate::Machine::read(), trace })
}

fn run(case: &Case, options: &PipelineOptions) -> Result<TraceCase> {
    let mut run = case.start()?;
    run.warm()?;
    let times = std::sync::Arc::<ServiceTimes>::default();
    let mut timer = Some(ServiceTimer::new(std::sync::Arc::clone(&times), ndn_sys::clock::now));
    let (mut off, mut on, mut costs) = (Vec::new(), Vec::new(), Vec::new());
    for pair in 0..options.pairs {
        let mut stretch = |is_on: bool| {
            let rig = run.rig_mut();
            if is_on {
                rig.timer = timer.take();
            }
            let nanos = run.stretch(options.stretch);
            let rig = run.rig_mut();
            timer = timer.take().or_else(|| rig.timer.take());
            nanos
        };
        // The order alternates, so that activity of the machine affects both alike.
        let (of_off, of_on) = if pair % 2 == 0 {
            let off = stretch(false)?;
            (off, stretch(true)?)
        } else {
            let on = stretch(true)?;
            (stretch(false)?, on)
        };
        off.push(of_off);
        on.push(of_on);
        costs.push(of_on / of_off - 1.0);
    }
    let forwarding = times.forwarding.snapshot();
    let samples = forwarding.interests.count() + forwarding.data.count();
    ensure!(samples > 0, "nothing was measured");
    let cost = Spread::of(&costs);
    Ok(TraceCase {
        case: case.name.clone(),
        ns_per_exchange_off: Spread::of(&off).median,
        ns_per_exchange_on: Spread::of(&on).median,
        cost: cost.median,
        cost_spread: (cost.least, cost.most),
        pairs: costs.len(),
        samples,
    })
}
