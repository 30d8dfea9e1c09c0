//! Packet memory: what this system has, and what the workers use.

use std::collections::BTreeMap;

use ndn_dataplane::{Dataplane, WorkerPlacement};
use ndn_ring::PoolPages;

/// Maximum memory for packets of the Content Store: three quarters of the system's, because the kernel refuses to reserve
/// more than exists.
pub(super) fn cs_bytes_max() -> usize {
    usize::try_from(system_bytes() / 4 * 3).unwrap_or(usize::MAX)
}

/// Memory of this system, bytes.
pub(super) fn system_bytes() -> u64 {
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
