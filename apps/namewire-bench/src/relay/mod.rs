//! `bench relay`: whole forwarders in comparison, between real sockets.
//!
//! One core runs the forwarder, another this generator (both ends of every exchange, on one thread). Each program is
//! started once per layout (transport and number of faces), warmed up until its cache has evicted twice its capacity,
//! and then measured alternately with the others, several rounds per case; a case reports the median over its rounds.

pub(crate) mod addresses;
pub(crate) mod attach;
pub(crate) mod clock;
mod connect;
mod dumb;
mod generator;
mod layout;
pub(crate) mod link;
mod management;
pub(crate) mod program;
pub(crate) mod programs;
mod report;
mod rounds;
pub(crate) mod statistics;
mod testpmd;
mod transport;
mod window;
pub(crate) mod wire;

pub use dumb::{relay_tcp, relay_udp, relay_unix};
pub use link::enter_namespace;
pub use management::{Change, ManagementCase, ManagementOptions, ManagementReport, run_management};
pub use report::{CpuOfWorkers, RelayCase, RelayOptions, RelayReport};
pub use statistics::Quartiles;
pub use transport::Transport;

/// Runs the bench; calls `progress` with lines of text.
///
/// # Errors
/// A program cannot be started or attached to, or a socket fails.
pub fn run_relay(
    options: &RelayOptions,
    mut progress: impl FnMut(&str),
) -> anyhow::Result<RelayReport> {
    let (mut cases, mut skipped) = (Vec::new(), Vec::new());
    for layout in layout::layouts(options) {
        let (contenders, missing) = layout::contenders(options, &layout);
        for reason in missing {
            if !skipped.contains(&reason) {
                progress(&format!("skipping {reason}"));
                skipped.push(reason);
            }
        }
        cases.extend(rounds::run_layout(options, &layout, &contenders, &mut progress)?);
    }
    Ok(RelayReport {
        bench: "relay",
        machine: ndn_pipeline_bench::Machine::read(),
        skipped,
        generator_cpu: options.cpus.1,
        cpu_of_workers: cpu_of_workers(&cases),
        cases,
    })
}

/// Compares the rows of several workers with those of one.
fn cpu_of_workers(cases: &[RelayCase]) -> Vec<CpuOfWorkers> {
    let compared = cases.iter().filter_map(|case| {
        let ratio = case.cpu_of_one_worker?;
        Some(CpuOfWorkers { window: case.window, workers: case.workers, ratio })
    });
    compared.collect()
}
