//! `bench overload`: the rate of satisfied Interests when more are offered than can be forwarded, with and without
//! priority of answers over Interests.
//!
//! The workers of the forwarder, the producer and each consumer have a processor of their own. Consumers send in an
//! open loop over UDP, independent of answers, without retransmissions. They send bursts of one size at the times of
//! a Poisson process, each as one message of the kernel, so that the cost of receiving an Interest does not depend on
//! the rate. The sustainable rate is searched first, in the same way; all other rates are multiples of it.

mod offer;
mod plot;
mod report;
mod run;
mod search;

pub use plot::plot;
pub use report::{
    Losses, OverloadCase, OverloadMode, OverloadOptions, OverloadReport, OverloadRun,
};

/// Runs the bench; calls `progress` with lines of text.
///
/// # Errors
/// The forwarder cannot be started or attached to, or a socket fails.
pub fn run_overload(
    options: &OverloadOptions,
    mut progress: impl FnMut(&str),
) -> anyhow::Result<OverloadReport> {
    let workers_max = options.workers.iter().copied().max().unwrap_or(1);
    anyhow::ensure!(
        options.cpus.len() >= workers_max + 2,
        "it takes a processor for each worker, one for the producer, and one for a consumer at least"
    );
    let mut runs = Vec::new();
    for &workers in &options.workers {
        for &payload in &options.payloads {
            runs.push(run::run(options, workers, payload, &mut progress)?);
        }
    }
    let machine = ndn_pipeline_bench::Machine::read();
    Ok(OverloadReport {
        bench: "overload",
        machine,
        cpus: options.cpus.clone(),
        burst: options.burst,
        runs,
    })
}
