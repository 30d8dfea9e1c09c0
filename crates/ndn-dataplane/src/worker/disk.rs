//! The disk tier of a worker's Content Store.

use std::sync::{Arc, OnceLock};

use ndn_disk::{DiskCounters, Share};
use ndn_forwarding::Shard;
use ndn_packet::Name;
use ndn_sys::poll::Waker;
use ndn_types::Timestamp;

use super::Worker;
use crate::disk::DiskPort;

/// Maximum number of completions in a round, so that packets do not wait for long.
const COMPLETIONS_PER_ROUND: usize = 256;

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

    /// Writes what is in memory.
    pub(super) fn finish(&mut self, shard: &mut Shard) {
        self.port.finish(shard);
    }
}

impl Worker {
    /// Accepts what the threads have read and written, and passes new requests to them.
    #[cold]
    pub(super) fn run_disk(&mut self, now: Timestamp) {
        let Some(mut disk) = self.disk.take() else { return };
        let mut count = 0;
        while count < COMPLETIONS_PER_ROUND
            && let Some(completion) = disk.port.next_completion(&mut self.shard)
        {
            self.with_sink(now, |shard, sink| shard.complete_disk_request(now, completion, sink));
            count += 1;
        }
        if count > 0 {
            self.after_shard(now, count);
        }
        if count == COMPLETIONS_PER_ROUND {
            disk.waker().wake();
        }
        disk.port.send_requests(&mut self.shard);
        if disk.counters.get().is_none()
            && let Some(counters) = self.shard.disk().map(Share::counters)
        {
            // Set once, here.
            let _ = disk.counters.set(Arc::clone(counters));
        }
        self.disk = Some(disk);
    }
}
