//! Erasing from the Content Store, in bounded slices between bursts.

use ndn_forwarding::Shard;
use ndn_packet::{Name, NameRef};
use ndn_table::{DataKey, NameHasher, PREFIX_HASHES_MAX};

use super::WorkerDisk;
use crate::event::Event;
use crate::queue::Sender;

/// Maximum number of packets that one round erases for one command.
const ERASED_PER_ROUND: usize = 256;

/// The erasures in progress.
#[derive(Debug, Default)]
pub(crate) struct ContentErasures(Vec<Erasure>);

#[derive(Debug)]
struct Erasure {
    ticket: u64,
    prefix: Name,
    left: usize,
    erased: usize,
    /// Memory has no more Data under the prefix, and the disk writes the erasure.
    waits_for_disk: bool,
}

impl ContentErasures {
    /// Begins to erase up to `limit` packets under `prefix`; answered by [`Event::CsErased`].
    pub(super) fn begin(&mut self, ticket: u64, prefix: Name, limit: usize) {
        self.0.push(Erasure { ticket, prefix, left: limit, erased: 0, waits_for_disk: false });
    }

    /// Whether one can proceed now, without waiting for the disk.
    pub(super) fn has_work(&self) -> bool {
        self.0.iter().any(|erasure| !erasure.waits_for_disk)
    }

    /// Runs one slice of each erasure.
    pub(super) fn run(
        &mut self,
        shard: &mut Shard,
        hasher: &NameHasher,
        mut disk: Option<&mut WorkerDisk>,
        events: &mut Sender<Event>,
    ) {
        if self.0.is_empty() {
            return;
        }
        let mut hashes = [0; PREFIX_HASHES_MAX];
        self.0.retain_mut(|erasure| {
            if erasure.waits_for_disk {
                let waits = shard.disk().is_some_and(|disk| !disk.erasures_are_durable());
                if !waits {
                    let Erasure { ticket, erased, .. } = *erasure;
                    events.send(Event::CsErased { ticket, erased, more: false });
                }
                return waits;
            }
            let prefix: NameRef<'_> = erasure.prefix.as_ref();
            let slice = erasure.left.min(ERASED_PER_ROUND);
            let Some(count) = hasher.hash_prefixes(prefix, &mut hashes) else {
                // No Data with a name of this length is ever cached.
                events.send(Event::CsErased { ticket: erasure.ticket, erased: 0, more: false });
                return false;
            };
            let key = DataKey::new(prefix, &hashes[..count]);
            let result = shard.pcct_mut().erase_data(&key, slice);
            erasure.erased += result.erased;
            erasure.left -= result.erased.min(erasure.left);
            if !result.more
                && let Some(disk) = &mut disk
            {
                disk.erase(shard, &erasure.prefix);
                erasure.waits_for_disk = true;
                return true;
            }
            let continues = result.more && erasure.left > 0;
            if !continues {
                let Erasure { ticket, erased, .. } = *erasure;
                events.send(Event::CsErased { ticket, erased, more: result.more });
            }
            continues
        });
        shard.end_burst();
    }
}
