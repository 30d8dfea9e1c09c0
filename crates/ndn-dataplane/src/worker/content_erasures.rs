//! Erasing from the Content Store, in bounded slices between bursts.

use std::collections::VecDeque;

use ndn_forwarding::Shard;
use ndn_packet::{Name, NameRef};
use ndn_table::{DataKey, EraseRest, EraseSearch, NameHasher, PREFIX_HASHES_MAX};

use super::{EventQueue, WorkerDisk};
use crate::event::Event;

/// Maximum number of packets that one round erases.
const ERASED_PER_ROUND: usize = 256;

/// The erasures in progress; the first is next.
#[derive(Debug, Default)]
pub(crate) struct ContentErasures {
    erasures: VecDeque<Erasure>,
    /// Memory has no more Data under these prefixes, and the disk writes the erasures.
    waiting_for_disk: Vec<Erasure>,
}

#[derive(Debug)]
struct Erasure {
    ticket: u64,
    prefix: Name,
    is_whole_name: bool,
    left: usize,
    erased: usize,
    /// Its limit was 0: it only reports whether there may be more.
    only_reports: bool,
    search: EraseSearch,
}

impl Erasure {
    fn end(&self, more: bool, events: &mut EventQueue) {
        events.send(Event::CsErased { ticket: self.ticket, erased: self.erased, more });
    }
}

impl ContentErasures {
    /// Begins to erase up to `limit` packets under `prefix`; answered by [`Event::CsErased`].
    pub(super) fn begin(&mut self, ticket: u64, prefix: Name, limit: usize, is_whole_name: bool) {
        let search = EraseSearch::default();
        self.erasures.push_back(Erasure {
            ticket,
            prefix,
            is_whole_name,
            left: limit,
            erased: 0,
            only_reports: limit == 0,
            search,
        });
    }

    /// Whether one can proceed now, without waiting for the disk.
    pub(super) fn has_work(&self) -> bool {
        !self.erasures.is_empty()
    }

    /// Runs one slice of one erasure; they take turns.
    pub(super) fn run(
        &mut self,
        shard: &mut Shard,
        hasher: &NameHasher,
        disk: Option<&mut WorkerDisk>,
        events: &mut EventQueue,
    ) {
        if !self.waiting_for_disk.is_empty()
            && disk.as_ref().is_none_or(|disk| disk.erasures_are_durable(shard))
        {
            self.waiting_for_disk.drain(..).for_each(|erasure| erasure.end(false, events));
        }
        let Some(mut erasure) = self.erasures.pop_front() else { return };
        let mut hashes = [0; PREFIX_HASHES_MAX];
        let prefix: NameRef<'_> = erasure.prefix.as_ref();
        let Some(count) = hasher.hash_prefixes(prefix, &mut hashes) else {
            // No Data with a name of this length is ever cached.
            return erasure.end(false, events);
        };
        let key = DataKey::new(prefix, &hashes[..count]);
        let hash = key.name_hash();
        let limit = erasure.left.min(ERASED_PER_ROUND);
        let result = shard.pcct_mut().erase_data(&key, &mut erasure.search, limit);
        erasure.erased += result.erased;
        erasure.left -= result.erased.min(erasure.left);
        let has_more = result.rest == EraseRest::Data;
        if result.rest == EraseRest::NotSearched || has_more && erasure.left > 0 {
            self.erasures.push_back(erasure);
        } else if let Some(disk) = disk.filter(|_| !has_more) {
            if erasure.only_reports {
                // The disk may have some.
                erasure.end(true, events);
            } else if let Some(share) = shard.disk_mut().filter(|_| erasure.is_whole_name) {
                share.forget(hash);
                erasure.end(false, events);
            } else {
                disk.erase(shard, &erasure.prefix);
                self.waiting_for_disk.push(erasure);
            }
        } else {
            erasure.end(has_more, events);
        }
        shard.end_burst();
    }
}
