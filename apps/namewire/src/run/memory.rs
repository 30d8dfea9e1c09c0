//! What the packet buffers are made of.

use std::collections::BTreeMap;

use ndn_dataplane::{Dataplane, Place};
use ndn_ring::PoolPages;

use crate::config::Pool;

/// Logs what pages each NUMA node gave for the packet buffers of its workers.
pub(super) fn tell(pool: &Pool, places: &[Place], dataplane: &Dataplane) {
    if let Some(needed) = pool.shortage(places.len()) {
        tracing::warn!(
            capacity = %pool.capacity, %needed, workers = places.len(),
            "pool.capacity is less than the workers need, and they take what they need"
        );
    }
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
