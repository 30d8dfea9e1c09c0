//! The 64-byte header of a cached Data, and the queues that order headers for eviction.

use ndn_types::Timestamp;

use crate::arena::NONE;
use crate::byte_slab::BlockRef;

/// Identifies a cached Data until the next call that may insert or erase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CsIndex(pub(super) u32);

/// One cached Data. The packet is stored in the byte slab.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct CsEntry {
    /// Hash of the name.
    pub(super) hash: u64,
    /// End of freshness; [`Timestamp::ZERO`] for Data that was never fresh.
    pub(super) fresh_until: Timestamp,
    /// Hash under which the prefix tree indexes it, if it does.
    pub(super) edge: u64,
    /// Neighbours in the eviction queue.
    pub(super) newer: u32,
    pub(super) older: u32,
    /// Its node of the prefix tree, [`NONE`] if it is in the log of arrivals.
    pub(super) node: u32,
    /// Its neighbours among the Data of that node. In the log: the first is its place there.
    pub(super) sibling_newer: u32,
    pub(super) sibling_older: u32,
    pub(super) block: BlockRef,
    pub(super) wire_length: u16,
    pub(super) name_components: u8,
    pub(super) queue: QueueKind,
    pub(super) is_in_use: bool,
    /// The prefix tree indexes it under `edge`.
    pub(super) is_indexed: bool,
    /// The digest is stored behind the packet.
    pub(super) has_digest: bool,
    /// It has answered an Interest since it arrived.
    pub(super) was_requested: bool,
    /// Number of timer records of this slot; kept when the slot is reused.
    pub(super) timer_count: u8,
    /// Its slot in its home bucket of the index, if it is there.
    pub(super) index_slot: u8,
}

const _: () = assert!(size_of::<CsEntry>() == 64);

impl CsEntry {
    pub(super) const EMPTY: Self = Self {
        hash: 0,
        fresh_until: Timestamp::ZERO,
        edge: 0,
        newer: NONE,
        older: NONE,
        node: NONE,
        sibling_newer: NONE,
        sibling_older: NONE,
        block: BlockRef::NONE,
        wire_length: 0,
        name_components: 0,
        queue: QueueKind::Main,
        is_in_use: false,
        is_indexed: false,
        has_digest: false,
        was_requested: false,
        timer_count: 0,
        index_slot: 0,
    };

    /// Its place in the log of arrivals, unless it is in the prefix tree.
    #[inline(always)]
    pub(super) fn place(&self) -> Option<u32> {
        (self.node == NONE).then_some(self.sibling_newer)
    }

    /// Fills in the header of a Data of this length with these prefix hashes, which is in a place of the log of arrivals.
    #[inline(always)]
    pub(super) fn describe(
        &mut self,
        hashes: &[u64],
        wire_length: usize,
        fresh_until: Timestamp,
        place: u32,
    ) {
        self.hash = hashes[hashes.len() - 1];
        self.fresh_until = fresh_until;
        self.set_place(place);
        self.wire_length = u16::try_from(wire_length).unwrap_or(u16::MAX);
        #[expect(clippy::cast_possible_truncation, reason = "at most NAME_COMPONENTS_MAX")]
        let name_components = (hashes.len() - 1) as u8;
        self.name_components = name_components;
        self.is_in_use = true;
        self.has_digest = false;
        self.was_requested = false;
    }

    /// Records that it is in the log of arrivals.
    #[inline(always)]
    pub(super) fn set_place(&mut self, place: u32) {
        self.node = NONE;
        self.sibling_newer = place;
    }

    /// Whether MustBeFresh accepts it: less than its FreshnessPeriod has passed since it arrived.
    #[inline(always)]
    pub(super) fn is_fresh(&self, now: Timestamp) -> bool {
        now < self.fresh_until
    }
}

/// Eviction queues, in the order in which they are drained, or none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum QueueKind {
    /// Unsolicited Data (priority FIFO only).
    Unsolicited,
    /// Stale Data (priority FIFO only).
    Stale,
    /// Everything else.
    Main,
    /// No queue: a policy object has it.
    Policy,
}

pub(super) const QUEUE_KINDS: [QueueKind; 3] =
    [QueueKind::Unsolicited, QueueKind::Stale, QueueKind::Main];

/// A doubly linked queue through the headers, oldest to newest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    pub(super) oldest: u32,
    pub(super) newest: u32,
    pub(super) len: u32,
}

impl Queue {
    pub(super) const EMPTY: Self = Self { oldest: NONE, newest: NONE, len: 0 };
}

/// The three queues.
#[derive(Debug)]
pub(super) struct Queues(pub(super) [Queue; 3]);

impl Queues {
    pub(super) const EMPTY: Self = Self([Queue::EMPTY; 3]);

    #[inline]
    pub(super) fn queue(&self, kind: QueueKind) -> &Queue {
        &self.0[kind as usize]
    }

    /// Appends an entry to a queue, as the newest.
    #[inline(always)]
    pub(super) fn push(&mut self, entries: &mut [CsEntry], slot: u32, kind: QueueKind) {
        let queue = &mut self.0[kind as usize];
        let newest = std::mem::replace(&mut queue.newest, slot);
        queue.len += 1;
        let entry = &mut entries[slot as usize];
        entry.queue = kind;
        entry.newer = NONE;
        entry.older = newest;
        if newest == NONE {
            queue.oldest = slot;
        } else {
            entries[newest as usize].newer = slot;
        }
    }

    /// Removes an entry from its queue.
    #[inline]
    pub(super) fn unlink(&mut self, entries: &mut [CsEntry], slot: u32) {
        let CsEntry { newer, older, queue, .. } = entries[slot as usize];
        let queue = &mut self.0[queue as usize];
        if newer == NONE {
            queue.newest = older;
        } else {
            entries[newer as usize].older = older;
        }
        if older == NONE {
            queue.oldest = newer;
        } else {
            entries[older as usize].newer = newer;
        }
        queue.len -= 1;
    }

    /// Removes the entry to evict next from its queue.
    #[inline(always)]
    pub(super) fn pop(&mut self, entries: &mut [CsEntry]) -> Option<u32> {
        let [unsolicited, stale, main] = &mut self.0;
        // Nearly always, the others are empty: both are NONE.
        let queue = if unsolicited.oldest & stale.oldest == NONE {
            main
        } else if unsolicited.oldest != NONE {
            unsolicited
        } else {
            stale
        };
        let slot = queue.oldest;
        if slot == NONE {
            return None;
        }
        let newer = entries[slot as usize].newer;
        queue.oldest = newer;
        queue.len -= 1;
        if newer == NONE {
            queue.newest = NONE;
        } else {
            entries[newer as usize].older = NONE;
        }
        Some(slot)
    }

    /// The entry to evict next.
    #[inline]
    pub(super) fn victim(&self) -> Option<u32> {
        self.0.iter().map(|queue| queue.oldest).find(|&oldest| oldest != NONE)
    }
}
