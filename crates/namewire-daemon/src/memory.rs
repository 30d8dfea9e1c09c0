//! What the packet buffers are made of.

use std::collections::BTreeMap;

use ndn_dataplane::{Dataplane, WorkerPlacement};
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
    let memory = system_bytes();
    if pool.exceeds(memory) {
        tracing::warn!(
            capacity = %pool.capacity, memory_mib = memory >> 20,
            "pool.capacity is more memory than this system has"
        );
    }
}

/// Bytes for packets in the Content Store that this system can promise: of `wanted`, three quarters of its memory
/// at most, as the kernel refuses to promise more than there is.
pub(super) fn cs_bytes(wanted: usize) -> usize {
    let most = usize::try_from(system_bytes() / 4 * 3).unwrap_or(usize::MAX);
    if wanted > most {
        tracing::warn!(
            wanted_mib = wanted >> 20,
            taken_mib = most >> 20,
            "the Content Store cannot have more than three quarters of the memory: it holds as many packets as fit"
        );
    }
    wanted.min(most)
}

/// The memory of this system, bytes.
fn system_bytes() -> u64 {
    let system = rustix::system::sysinfo();
    system.totalram.saturating_mul(u64::from(system.mem_unit))
}

/// Logs what pages each NUMA node gave for the packet buffers of its workers.
pub(super) fn tell(places: &[WorkerPlacement], dataplane: &Dataplane) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_store_is_promised_no_more_than_there_is() {
        assert_eq!(cs_bytes(1 << 20), 1 << 20);
        let most = cs_bytes(usize::MAX);
        assert!(most > 1 << 20 && (most as u64) < system_bytes(), "{most}");
    }
}
