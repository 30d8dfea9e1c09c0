//! The disk tier of a worker's Content Store.

use std::sync::{Arc, OnceLock};

use ndn_disk::{Completion, DiskCounters, Share};
use ndn_forwarding::Shard;
use ndn_packet::Name;
use ndn_sys::poll::Waker;

use crate::disk::DiskPort;

/// The I/O threads of the shard's disk tier, and where its counters are published.
#[derive(Debug)]
pub(crate) struct WorkerDisk {
    port: DiskPort,
    counters: Arc<OnceLock<Arc<DiskCounters>>>,
}

impl WorkerDisk {
    pub(crate) fn new(port: DiskPort, counters: Arc<OnceLock<Arc<DiskCounters>>>) -> Self {
        Self { port, counters }
    }

    pub(super) fn waker(&self) -> &Waker {
        self.port.waker()
    }

    /// Erases all Data under a prefix from the disk.
    pub(super) fn erase(&mut self, shard: &mut Shard, prefix: &Name) {
        match shard.disk_mut() {
            Some(disk) => disk.erase(prefix.as_ref().value()),
            None => self.port.erase_later(prefix.clone()),
        }
        self.port.send_requests(shard);
    }

    /// Whether erased Data does not return after a restart: all erasures are on disk, or there is no disk any more.
    pub(super) fn erasures_are_durable(&self, shard: &Shard) -> bool {
        shard.disk().map_or(!self.port.is_recovering(), Share::erasures_are_durable)
    }

    /// The next request that the threads have completed.
    pub(super) fn next_completion(&mut self, shard: &mut Shard) -> Option<Completion> {
        self.port.next_completion(shard)
    }

    /// Passes new requests of the shard to the threads, and publishes its counters once the disk is in use.
    pub(super) fn send_requests(&mut self, shard: &mut Shard) {
        self.port.send_requests(shard);
        if self.counters.get().is_none()
            && let Some(counters) = shard.disk().map(Share::counters)
        {
            // Set once, here.
            let _ = self.counters.set(Arc::clone(counters));
        }
    }

    /// Writes what is in memory.
    pub(super) fn finish(&mut self, shard: &mut Shard) {
        self.port.finish(shard);
    }
}
