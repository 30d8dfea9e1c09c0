//! Account of all Interests: each is counted under exactly one outcome.

use crate::{Counters, DropReason};

ndn_types::counter_values! {
    /// The Interests that entered a shard, by outcome.
    ///
    /// An Interest that enters a shard is passed on to another shard, dropped, answered by the Content
    /// Store, or joins a PIT entry, where it inserts or renews the in-record of its face. An in-record
    /// is pending until Data, a Nack, its expiry, the lack of a next hop, its eviction for another
    /// principal or the removal of its face ends it. Each Interest is counted in exactly one of these
    /// fields, so their sum equals the number that entered, in each shard after each burst. An Interest that the strategy suppressed has
    /// joined: it is counted with the in-records.
    pub struct InterestAccount {
        /// Interests that entered the shard.
        entered: Monotone(Packets),
        /// Interests passed on to the shard that owns their name, where they are counted as entered.
        passed_on: Monotone(Packets),
        /// Interests dropped before they joined a PIT entry.
        refused: Monotone(Packets),
        /// Interests answered at once by the Content Store of the shard.
        answered: Monotone(Packets),
        /// Interests that renewed the in-record of their face.
        refreshed: Monotone(Packets),
        /// In-records ended by Data.
        satisfied: Monotone(Packets),
        /// In-records ended by a Nack.
        nacked: Monotone(Packets),
        /// In-records that gave way to those of other principals.
        evicted: Monotone(Packets),
        /// In-records that expired.
        expired: Monotone(Packets),
        /// In-records ended for lack of a next hop.
        rejected: Monotone(Packets),
        /// In-records whose face was removed.
        face_gone: Monotone(Packets),
        /// In-records that are pending.
        pending: Gauge(Packets),
    }
}

impl InterestAccount {
    /// The account of one shard. While its worker runs, the fields may be read at different
    /// moments.
    #[must_use]
    pub fn of(counters: &Counters) -> Self {
        let refused = DropReason::REFUSED_INTEREST.iter();
        Self {
            entered: counters.in_interests.value(),
            passed_on: counters.passed_on_interests.value(),
            refused: refused.map(|&reason| counters.dropped(reason)).sum(),
            answered: counters.cs_hits.value().saturating_sub(counters.cs_hits_of_pending.value()),
            refreshed: counters.in_record_refreshes.value(),
            satisfied: counters.in_records_satisfied.value(),
            nacked: counters.in_records_nacked.value(),
            evicted: counters.dropped(DropReason::Evicted),
            expired: counters.in_records_expired.value(),
            rejected: counters.in_records_rejected.value(),
            face_gone: counters.in_records_face_gone.value(),
            pending: counters.in_records.value(),
        }
    }

    /// Sum of all outcomes.
    #[must_use]
    pub fn accounted_for(&self) -> u64 {
        self.passed_on
            + self.refused
            + self.answered
            + self.refreshed
            + self.satisfied
            + self.nacked
            + self.evicted
            + self.expired
            + self.rejected
            + self.face_gone
            + self.pending
    }

    /// Whether every Interest has exactly one outcome.
    #[must_use]
    pub fn is_balanced(&self) -> bool {
        self.entered == self.accounted_for()
    }
}
