//! Counters of a shard: written by its worker, read by any thread.

use ndn_types::{Counter, CounterValues};

use crate::DropReason;

ndn_types::counters! {
    /// The counters of one shard and of the worker that receives for it. Units are packets unless the
    /// field says otherwise.
    #[derive(Debug, Default)]
    #[repr(align(128))]
    pub struct Counters, ShardValues {
        /// Interests that entered the shard.
        in_interests: Monotone(Packets),
        /// Data that entered the shard.
        in_data: Monotone(Packets),
        /// Nacks that entered the shard.
        in_nacks: Monotone(Packets),
        /// Interests passed to a face.
        out_interests: Monotone(Packets),
        /// Interests passed to their strategy again because the faces of their upstreams went down or were removed.
        resent_interests: Monotone(Packets),
        /// Data passed to a face, from upstream or from the CS.
        out_data: Monotone(Packets),
        /// Nacks passed to a face.
        out_nacks: Monotone(Packets),
        /// Interests answered by the CS.
        cs_hits: Monotone(Packets),
        /// Interests answered by the CS of another shard while they were pending. `cs_hits` includes them.
        cs_hits_of_pending: Monotone(Packets),
        /// Interests not found in the CS. An Interest that joins a pending one is not looked up.
        cs_misses: Monotone(Packets),
        /// Data without a matching PIT entry, cached or not.
        unsolicited_data: Monotone(Packets),
        /// PIT entries ended by Data or a CS hit.
        satisfied_interests: Monotone(Entries),
        /// PIT entries that ended without Data: no answer in time, or a Nack.
        unsatisfied_interests: Monotone(Entries),
        /// Data whose PIT token identifies a PIT entry that they match.
        token_hits: Monotone(Packets),
        /// Data whose PIT token identifies no PIT entry that they match.
        token_misses: Monotone(Packets),
        /// PIT entries inserted.
        pit_inserts: Monotone(Entries),
        /// Current number of PIT entries.
        pit_entries: Gauge(Entries),
        /// Interests from a downstream with an existing in-record.
        in_record_refreshes: Monotone(Packets),
        /// In-records ended by Data, from upstream or from the CS of another shard.
        in_records_satisfied: Monotone(Packets),
        /// In-records ended by a Nack, to the downstream or from the last upstream.
        in_records_nacked: Monotone(Packets),
        /// In-records that expired.
        in_records_expired: Monotone(Packets),
        /// In-records ended without notice because there was no next hop.
        in_records_rejected: Monotone(Packets),
        /// In-records whose face had been removed when their PIT entry ended.
        in_records_face_gone: Monotone(Packets),
        /// Current number of in-records.
        in_records: Gauge(Entries),
        /// Data inserted into the CS.
        cs_inserts: Monotone(Packets),
        /// Data evicted from the CS.
        cs_evictions: Monotone(Packets),
        /// Current number of packets in the CS.
        cs_entries: Gauge(Packets),
        /// Current number of bytes in the CS.
        cs_bytes: Gauge(Bytes),
        /// Nonces inserted into the dead nonce list.
        dead_nonces: Monotone(Entries),
        /// Strategy timers not set because the limit was reached.
        strategy_timers_refused: Monotone(Requests),
        /// Self-learning requests to the control thread not made because the queue was full.
        learning_refused: Monotone(Requests),
        /// Interests that entered this shard and were passed on to the shard that owns their name.
        passed_on_interests: Monotone(Packets),
        /// Nacks that entered this shard and were passed on to the shard that owns their name.
        passed_on_nacks: Monotone(Packets),
        state
        /// A time not before the expiry of any pending Interest, in nanoseconds on the worker's clock. Maintained
        /// only with several shards.
        pub latest_expiry_ns: Counter,
        /// The same for Interests that were renewed here after their names had moved to another shard.
        pub latest_renewed_expiry_ns: Counter,
        dropped: Drops,
    }
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
    /// Counts one dropped packet.
    #[inline]
    pub fn drop_packet(&self, reason: DropReason) {
        self.dropped.0[reason.index()].increment();
    }

    /// Totals over several shards: each packet counts once, however many shards it passed through.
    #[must_use]
    pub fn total<'a>(all: impl IntoIterator<Item = &'a Self>) -> Self {
        let (total, mut sum) = (Self::default(), ShardValues::default());
        for one in all {
            sum.add(one.values());
            for (sum, part) in total.dropped.0.iter().zip(&one.dropped.0) {
                sum.add(part.value());
            }
        }
        total.add(&sum);
        for (entered, passed_on) in [
            (&total.in_interests, &total.passed_on_interests),
            (&total.in_nacks, &total.passed_on_nacks),
        ] {
            entered.set(entered.value().saturating_sub(passed_on.value()));
        }
        total
    }

    /// Packets dropped for `reason`.
    #[must_use]
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.dropped.0[reason.index()].value()
    }

    /// Packets dropped for any reason.
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
