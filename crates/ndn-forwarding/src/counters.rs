//! What a shard counts: written by its worker alone, read by anyone.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::DropReason;

/// One number that a single thread writes and any thread reads.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Zero.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

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
#[repr(align(128))]
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
    /// Those of them that were pending already when the CS of another shard answered.
    pub cs_hits_of_pending: Counter,
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
    /// Interests of a downstream that waited for the same already.
    pub in_record_refreshes: Counter,
    /// In-records that ended with Data, from upstream or from the CS of another shard.
    pub in_records_satisfied: Counter,
    /// In-records that ended with a Nack, to the downstream or from the last upstream.
    pub in_records_nacked: Counter,
    /// In-records whose time was up.
    pub in_records_expired: Counter,
    /// In-records that ended without a word because there was no next hop.
    pub in_records_rejected: Counter,
    /// In-records whose face was gone when their PIT entry ended.
    pub in_records_face_gone: Counter,
    /// In-records now.
    pub in_records: Counter,
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
    /// Requests of self-learning to the control thread that were not made because too many wait.
    pub learning_refused: Counter,
    /// When the last of all Interests so far stops being pending, nanoseconds on the worker's
    /// clock. Only counted by one of several shards.
    pub latest_expiry_ns: Counter,
    /// Interests that entered the shard, and went on to the one that they belong to.
    pub passed_on_interests: Counter,
    /// Nacks that entered the shard, and went on to the one that they belong to.
    pub passed_on_nacks: Counter,
    dropped: Drops,
}

/// A counter for each reason.
#[derive(Debug)]
struct Drops([Counter; DropReason::COUNT]);

impl Default for Drops {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Counter::default()))
    }
}

impl Counters {
    /// Counts one discarded packet.
    #[inline]
    pub fn drop_packet(&self, reason: DropReason) {
        self.dropped.0[reason.index()].increment();
    }

    /// What several shards count together: each packet once, in whatever shards it was.
    #[must_use]
    pub fn total<'a>(all: impl IntoIterator<Item = &'a Self>) -> Self {
        let total = Self::default();
        for one in all {
            for (sum, part) in total.fields().into_iter().zip(one.fields()) {
                sum.add(part.value());
            }
            for (sum, part) in total.dropped.0.iter().zip(&one.dropped.0) {
                sum.add(part.value());
            }
        }
        for (entered, passed_on) in [
            (&total.in_interests, &total.passed_on_interests),
            (&total.in_nacks, &total.passed_on_nacks),
        ] {
            entered.set(entered.value().saturating_sub(passed_on.value()));
        }
        total
    }

    /// Everything but the drops.
    fn fields(&self) -> [&Counter; 32] {
        let Self {
            in_interests,
            in_data,
            in_nacks,
            out_interests,
            out_data,
            out_nacks,
            cs_hits,
            cs_misses,
            unsolicited_data,
            satisfied_interests,
            unsatisfied_interests,
            token_hits,
            token_misses,
            pit_inserts,
            pit_entries,
            cs_inserts,
            cs_evictions,
            cs_entries,
            cs_bytes,
            dead_nonces,
            strategy_timers_refused,
            learning_refused,
            passed_on_interests,
            passed_on_nacks,
            cs_hits_of_pending,
            in_record_refreshes,
            in_records_satisfied,
            in_records_nacked,
            in_records_expired,
            in_records_rejected,
            in_records_face_gone,
            in_records,
            latest_expiry_ns: _,
            dropped: _,
        } = self;
        [
            in_interests,
            in_data,
            in_nacks,
            out_interests,
            out_data,
            out_nacks,
            cs_hits,
            cs_misses,
            unsolicited_data,
            satisfied_interests,
            unsatisfied_interests,
            token_hits,
            token_misses,
            pit_inserts,
            pit_entries,
            cs_inserts,
            cs_evictions,
            cs_entries,
            cs_bytes,
            dead_nonces,
            strategy_timers_refused,
            learning_refused,
            passed_on_interests,
            passed_on_nacks,
            cs_hits_of_pending,
            in_record_refreshes,
            in_records_satisfied,
            in_records_nacked,
            in_records_expired,
            in_records_rejected,
            in_records_face_gone,
            in_records,
        ]
    }

    /// Packets discarded for `reason`.
    #[must_use]
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.dropped.0[reason.index()].value()
    }

    /// Packets discarded for any reason.
    #[must_use]
    pub fn dropped_total(&self) -> u64 {
        self.dropped.0.iter().map(Counter::value).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_packet_counts_once_in_the_total() {
        let (earlier, later) = (Counters::default(), Counters::default());
        earlier.in_interests.add(5);
        earlier.passed_on_interests.add(2);
        later.in_interests.add(2);
        later.out_data.add(3);
        earlier.drop_packet(DropReason::NoNextHop);
        later.drop_packet(DropReason::NoNextHop);
        let total = Counters::total([&earlier, &later]);
        assert_eq!((total.in_interests.value(), total.out_data.value()), (5, 3));
        assert_eq!((total.dropped(DropReason::NoNextHop), total.dropped_total()), (2, 2));
    }
}
