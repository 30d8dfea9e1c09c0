//! Placement of the workers, from the configuration and the machine.

use anyhow::Context;
use ndn_dataplane::{WorkerPlacement, Workers, default_worker_count, plan_placement, plan_roles};
use ndn_sys::topology::Topology;

use crate::config::{Conflict, Forwarder, WorkerCount};

/// Rejects processors that do not exist or that this process may not use.
///
/// # Errors
/// The first unusable processor, and the usable ones.
pub fn check_processors(forwarder: &Forwarder) -> Result<(), Conflict> {
    match unusable(&forwarder.cpus) {
        Some(reason) => {
            let reason = format!("forwarder.cpus: {reason}");
            Err(Conflict::new(&["forwarder.cpus"], reason))
        }
        None => Ok(()),
    }
}

/// Returns the first processor that threads cannot be pinned to, as text.
pub fn unusable(cpus: &[usize]) -> Option<String> {
    let allowed = ndn_sys::cpu::allowed_cpus().ok()?;
    let cpu = cpus.iter().find(|cpu| !allowed.contains(cpu))?;
    let allowed: Vec<_> = allowed.iter().map(usize::to_string).collect();
    Some(format!("processor {cpu} cannot be used here; these can: {}", allowed.join(", ")))
}

/// Returns the role and the processor of each worker.
///
/// # Errors
/// The machine does not have the processors for the configured placement.
pub fn plan(forwarder: &Forwarder) -> Result<Vec<WorkerPlacement>, Conflict> {
    check_processors(forwarder)?;
    let keys = ["forwarder.placement", "forwarder.workers", "forwarder.io_workers"];
    places(forwarder).map_err(|error| Conflict::from_error(&keys, &error))
}

fn places(forwarder: &Forwarder) -> anyhow::Result<Vec<WorkerPlacement>> {
    let workers = |default| Workers {
        count: forwarder.worker_count(default).max(forwarder.io_workers + 1),
        io: forwarder.io_workers,
    };
    let is_of_machine = forwarder.workers == WorkerCount::Auto || forwarder.placement.is_some();
    if !is_of_machine && forwarder.cpus.is_empty() {
        let anywhere = |roles| WorkerPlacement { roles, cpu: None, node: None };
        return Ok(plan_roles(workers(1))?.into_iter().map(anywhere).collect());
    }
    let topology = Topology::of_machine().context("which processors there are")?;
    let workers = workers(default_worker_count(&topology));
    if let Some(arrangement) = forwarder.placement {
        return plan_placement(&topology, workers, arrangement)
            .with_context(|| format!("forwarder.placement = {arrangement}"));
    }
    let cpus = forwarder.cpus.iter().copied().map(Some).chain(std::iter::repeat(None));
    let node_of = |cpu: usize| {
        let processors = topology.processors().iter();
        processors.into_iter().find(|one| one.cpu == cpu).map(|one| one.node)
    };
    let places = plan_roles(workers)?.into_iter().zip(cpus);
    Ok(places
        .map(|(roles, cpu)| WorkerPlacement { roles, cpu, node: cpu.and_then(node_of) })
        .collect())
}
