//! Counters of a shard: written by its worker, read by any thread.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::DropReason;

/// A number that a single thread writes and any thread reads.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// A counter at zero.
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
    /// A load and a store instead of an atomic addition: only one thread writes.
    #[inline]
    pub fn add(&self, count: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
    }

    /// Replaces the value, for gauges.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// The current value.
    #[inline]
    #[must_use]
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of one shard and of the worker that receives for it. Units are packets unless the
/// field says otherwise.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Counters {
    /// Interests that entered the shard.
    pub in_interests: Counter,
    /// Data that entered the shard.
    pub in_data: Counter,
    /// Nacks that entered the shard.
    pub in_nacks: Counter,
    /// Interests passed to a face.
    pub out_interests: Counter,
    /// Data passed to a face, from upstream or from the CS.
    pub out_data: Counter,
    /// Nacks passed to a face.
    pub out_nacks: Counter,
    /// Interests answered by the CS.
    pub cs_hits: Counter,
    /// Interests among them that were pending when the CS of another shard answered.
    pub cs_hits_of_pending: Counter,
    /// Interests not found in the CS. An Interest that joins a pending one is not looked up.
    pub cs_misses: Counter,
    /// Data without a matching PIT entry, cached or not.
    pub unsolicited_data: Counter,
    /// PIT entries ended by Data or a CS hit.
    pub satisfied_interests: Counter,
    /// PIT entries ended otherwise.
    pub unsatisfied_interests: Counter,
    /// Data whose PIT token identifies a PIT entry that they match.
    pub token_hits: Counter,
    /// Data with one of our tokens that does not.
    pub token_misses: Counter,
    /// PIT entries inserted.
    pub pit_inserts: Counter,
    /// Current number of PIT entries.
    pub pit_entries: Counter,
    /// Interests from a downstream with an existing in-record.
    pub in_record_refreshes: Counter,
    /// In-records ended by Data, from upstream or from the CS of another shard.
    pub in_records_satisfied: Counter,
    /// In-records ended by a Nack, to the downstream or from the last upstream.
    pub in_records_nacked: Counter,
    /// In-records that expired.
    pub in_records_expired: Counter,
    /// In-records ended without notice because there was no next hop.
    pub in_records_rejected: Counter,
    /// In-records whose face had been removed when their PIT entry ended.
    pub in_records_face_gone: Counter,
    /// Current number of in-records.
    pub in_records: Counter,
    /// Data inserted into the CS.
    pub cs_inserts: Counter,
    /// Data evicted from the CS.
    pub cs_evictions: Counter,
    /// Current number of packets in the CS.
    pub cs_entries: Counter,
    /// Current number of bytes in the CS.
    pub cs_bytes: Counter,
    /// Nonces inserted into the dead nonce list.
    pub dead_nonces: Counter,
    /// Strategy timers not set because the limit was reached.
    pub strategy_timers_refused: Counter,
    /// Self-learning requests to the control thread not made because the queue was full.
    pub learning_refused: Counter,
    /// The latest expiry of all Interests so far, in nanoseconds on the worker's clock. Maintained
    /// only with several shards.
    pub latest_expiry_ns: Counter,
    /// Interests that entered this shard and were passed on to the shard that owns their name.
    pub passed_on_interests: Counter,
    /// Nacks that entered this shard and were passed on to the shard that owns their name.
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

    /// Totals over several shards: each packet counts once, however many shards it passed through.
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

    /// All counters except the drops.
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
    fn total_counts_each_packet_once() {
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
