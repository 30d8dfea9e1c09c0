//! Packet memory: capacity checks and report.

use std::collections::BTreeMap;

use ndn_dataplane::{Dataplane, WorkerPlacement};
use ndn_ring::PoolPages;

use crate::config::Pool;

/// Warns of a capacity that does not fit the workers or this system; the configuration may come from another machine.
pub(super) fn warn_of_capacity(pool: &Pool, workers: usize) {
    if let Some(needed) = pool.shortage(workers) {
        tracing::warn!(
            capacity = %pool.capacity, %needed, workers,
            "pool.capacity is less than the workers need, and they take what they need"
        );
    }
    let memory = system_bytes();
    if pool.exceeds(memory) {
        tracing::warn!(
            capacity = %pool.capacity, memory_mib = memory >> 20,
            "pool.capacity is more memory than this system has"
        );
    }
}

/// Limits the Content Store's packet memory to three quarters of the system's memory: the kernel refuses to reserve
/// more than exists.
pub(super) fn cs_bytes(spec: usize) -> usize {
    let most = usize::try_from(system_bytes() / 4 * 3).unwrap_or(usize::MAX);
    if spec > most {
        tracing::warn!(
            needed_mib = spec >> 20,
            taken_mib = most >> 20,
            "the Content Store cannot have more than three quarters of the memory: it holds as many packets as fit"
        );
    }
    spec.min(most)
}

/// Memory of this system, bytes.
fn system_bytes() -> u64 {
    let system = rustix::system::sysinfo();
    system.totalram.saturating_mul(u64::from(system.mem_unit))
}

/// Logs the page sizes that each NUMA node provides for the packet buffers of its workers.
pub(super) fn report(places: &[WorkerPlacement], dataplane: &Dataplane) {
    let mut nodes: BTreeMap<Option<usize>, (usize, PoolPages)> = BTreeMap::new();
    for (place, worker) in places.iter().zip(dataplane.workers()) {
        let (workers, pages) = nodes.entry(place.node).or_default();
        *workers += 1;
        *pages = pages.plus(worker.pool_counters().pages());
    }
    for (node, (workers, pages)) in nodes {
        let node = node.map_or_else(|| "any".to_owned(), |node| node.to_string());
        let mebibytes = |bytes: usize| bytes >> 20;
        tracing::debug!(
            node,
            workers,
            huge_mib = mebibytes(pages.huge_bytes),
            transparent_mib = mebibytes(pages.transparent_bytes),
            ordinary_mib = mebibytes(pages.ordinary_bytes),
            "packet buffers"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_store_memory_is_limited_by_system_memory() {
        assert_eq!(cs_bytes(1 << 20), 1 << 20);
        let most = cs_bytes(usize::MAX);
        assert!(most > 1 << 20 && (most as u64) < system_bytes(), "{most}");
    }
}
