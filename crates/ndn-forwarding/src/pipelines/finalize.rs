//! Interest finalize pipeline: the end of a PIT entry.

use ndn_table::{PitIndex, PitPhase};

use crate::strategy::Context;

/// Why a PIT entry ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Data, from upstream or from a Content Store.
    Data,
    /// A Nack of the last upstream that could have answered.
    Nack,
    /// Expiry.
    Expiry,
    /// The strategy found no next hop.
    Rejection,
}

impl Context<'_> {
    /// Ends an entry satisfied by a Data with this FreshnessPeriod.
    #[inline]
    pub(crate) fn finalize_satisfied(&mut self, entry: PitIndex, freshness_ms: u64) {
        let tables = &mut *self.tables;
        if tables.pcct.entry(entry).phase() != PitPhase::Pending {
            return self.satisfy_for_now(entry);
        }
        tables.counters.satisfied_interests.increment();
        tables.count_closed(entry, Ending::Data, self.now);
        // A looping copy of the Interest would find the Data in the Content Store, unless it has
        // MustBeFresh and the Data is fresh for a shorter time than the Nonce is kept.
        let must_be_fresh = tables.pcct.entry(entry).must_be_fresh();
        if must_be_fresh && freshness_ms < tables.dead_nonce_lifetime_ms {
            self.remember_nonces(entry);
        }
        self.tables.erase_pending(entry);
    }

    /// Applies the effects of Data to an entry that stays.
    #[cold]
    fn satisfy_for_now(&mut self, entry: PitIndex) {
        let tables = &mut *self.tables;
        let pending = tables.pcct.entry(entry);
        if pending.phase() == PitPhase::Held || pending.in_record_count() == 0 {
            return;
        }
        tables.counters.satisfied_interests.increment();
        tables.count_closed(entry, Ending::Data, self.now);
        tables.pcct.clear_in_records(entry);
    }

    /// Ends an entry that was not satisfied, or was satisfied before.
    pub(crate) fn finalize_unsatisfied(&mut self, entry: PitIndex, ending: Ending) {
        match self.tables.pcct.entry(entry).phase() {
            PitPhase::Pending => {}
            PitPhase::Held => self.drop_held(entry),
            PitPhase::Lingering => {
                // Its Nonces were recorded with its Data, if necessary.
                self.tables.erase_pending(entry);
                return;
            }
        }
        self.tables.counters.unsatisfied_interests.increment();
        self.tables.count_closed(entry, ending, self.now);
        self.remember_nonces(entry);
        self.tables.erase_pending(entry);
    }

    /// Inserts the Nonces of the out-records into the dead nonce list.
    pub(super) fn remember_nonces(&mut self, entry: PitIndex) {
        let tables = &mut *self.tables;
        let mut records = tables.pcct.out_records(entry).peekable();
        if records.peek().is_none() {
            return;
        }
        let name_hash = tables.hasher.hash_value(tables.pcct.interest_name(entry).value());
        for record in records {
            tables.dead_nonces.insert(name_hash, record.nonce, self.now);
            tables.counters.dead_nonces.increment();
        }
    }
}
