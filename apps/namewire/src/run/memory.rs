//! What the packet buffers are made of.

use std::collections::BTreeMap;

use ndn_dataplane::{Dataplane, Place};
use ndn_ring::PoolPages;

use crate::config::Pool;

/// Warns of a capacity that does not fit the workers or this system, which may not be the one that the
/// configuration was written for.
pub(super) fn warn_of_capacity(pool: &Pool, workers: usize) {
    if let Some(needed) = pool.shortage(workers) {
        tracing::warn!(
            capacity = %pool.capacity, %needed, workers,
            "pool.capacity is less than the workers need, and they take what they need"
        );
    }
    let system = rustix::system::sysinfo();
    let memory = system.totalram.saturating_mul(u64::from(system.mem_unit));
    if pool.exceeds(memory) {
        tracing::warn!(
            capacity = %pool.capacity, memory_mib = memory >> 20,
            "pool.capacity is more memory than this system has"
        );
    }
}

/// Logs what pages each NUMA node gave for the packet buffers of its workers.
pub(super) fn tell(places: &[Place], dataplane: &Dataplane) {
    let mut nodes: BTreeMap<Option<usize>, (usize, PoolPages)> = BTreeMap::new();
    for (place, worker) in places.iter().zip(dataplane.workers()) {
        let (workers, pages) = nodes.entry(place.node).or_default();
        *workers += 1;
        *pages = pages.plus(worker.pool_counters().pages());
    }
    for (node, (workers, pages)) in nodes {
        let node = node.map_or_else(|| "any".to_owned(), |node| node.to_string());
        let mebibytes = |bytes: usize| bytes >> 20;
        tracing::info!(
            node,
            workers,
            huge_mib = mebibytes(pages.huge_bytes),
            transparent_mib = mebibytes(pages.transparent_bytes),
            ordinary_mib = mebibytes(pages.ordinary_bytes),
            "packet buffers"
        );
    }
}
