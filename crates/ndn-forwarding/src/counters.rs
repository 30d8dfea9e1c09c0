//! What a shard counts: written by its worker alone, read by anyone.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::DropReason;

/// One number that a single thread writes and any thread reads.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds one.
    #[inline]
    pub fn increment(&self) {
        self.add(1);
    }

    /// Adds `count`.
    ///
    /// A load and a store instead of a locked addition: only one thread writes.
    #[inline]
    pub fn add(&self, count: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
    }

    /// Replaces the value: for what is a level and not a sum.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// The value now.
    #[inline]
    #[must_use]
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of one shard and of the worker that receives for it. Units are packets unless
/// the field says otherwise.
#[derive(Debug, Default)]
pub struct Counters {
    /// Interests that entered the shard.
    pub in_interests: Counter,
    /// Data that entered the shard.
    pub in_data: Counter,
    /// Nacks that entered the shard.
    pub in_nacks: Counter,
    /// Interests given to a face.
    pub out_interests: Counter,
    /// Data given to a face, from upstream or from the CS.
    pub out_data: Counter,
    /// Nacks given to a face.
    pub out_nacks: Counter,
    /// Interests answered by the CS.
    pub cs_hits: Counter,
    /// Interests looked up in the CS and not found. One that joins a pending Interest is not
    /// looked up.
    pub cs_misses: Counter,
    /// Data that no PIT entry asked for, cached or not.
    pub unsolicited_data: Counter,
    /// PIT entries that ended with Data or with a CS hit.
    pub satisfied_interests: Counter,
    /// PIT entries that ended otherwise.
    pub unsatisfied_interests: Counter,
    /// Data whose PIT token names a PIT entry that they match.
    pub token_hits: Counter,
    /// Data with a token of ours that does not.
    pub token_misses: Counter,
    /// PIT entries inserted.
    pub pit_inserts: Counter,
    /// PIT entries now.
    pub pit_entries: Counter,
    /// Data inserted into the CS.
    pub cs_inserts: Counter,
    /// Data that left the CS to make room.
    pub cs_evictions: Counter,
    /// Packets in the CS now.
    pub cs_entries: Counter,
    /// Bytes of the packets in the CS now.
    pub cs_bytes: Counter,
    /// Nonces put into the dead nonce list.
    pub dead_nonces: Counter,
    /// Timers of strategies that were not set because too many were.
    pub strategy_timers_refused: Counter,
    /// Packets that entered the shard, count as that, and were given to another shard unchanged.
    pub passed_on: Counter,
    dropped: [Counter; DropReason::COUNT],
}

impl Counters {
    /// Counts one discarded packet.
    #[inline]
    pub fn drop_packet(&self, reason: DropReason) {
        self.dropped[reason.index()].increment();
    }

    /// Packets discarded for `reason`.
    #[must_use]
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.dropped[reason.index()].value()
    }

    /// Packets discarded for any reason.
    #[must_use]
    pub fn dropped_total(&self) -> u64 {
        self.dropped.iter().map(Counter::value).sum()
    }
}
