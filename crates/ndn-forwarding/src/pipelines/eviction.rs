//! Room in the tables of the PIT: what principals above their shares hold gives way for those below.
//! The policy is that of [`ndn_table::Ledger`].

use ndn_packet::NackReason;
use ndn_table::{
    FaceIndex, IN_RECORDS_PER_ENTRY_MAX, InRecord, InRecordSearch, Ledger, PIT_TOKEN_INLINE_MAX,
    PitIndex, PitPhase, RecordPlace, Resource, VICTIM_STEPS, Victim, long_blocks,
};
use ndn_types::{Limits, PrincipalClass, PrincipalIndex, Timestamp, Verdict};

use super::finalize::Ending;
use crate::DropReason;
use crate::strategy::Context;
use crate::tables::Tables;

/// Maximum number of in-records of one remote address in one entry. Each Interest that joins an entry is compared with
/// all of them, so that one address with a thousand ports would multiply the cost of its Interests. Addresses beyond
/// the number of principals have no limit: they are many.
const IN_RECORDS_PER_PRINCIPAL_MAX: usize = 64;

/// Steps of the search that the end of a record or an entry counts as: it takes longer than checking a
/// place.
const STEPS_PER_VICTIM: u32 = 16;

impl Context<'_> {
    /// Makes room for a new PIT entry, with an Interest of this length.
    #[inline]
    pub(super) fn admit_entry(
        &mut self,
        principal: PrincipalIndex,
        wire_length: usize,
    ) -> Result<(), DropReason> {
        let blocks = long_blocks(wire_length);
        let has_room = self.make_room(Resource::Entries, principal, 1, None)
            && (blocks == 0 || self.make_room(Resource::LongBlocks, principal, blocks, None));
        if has_room { Ok(()) } else { Err(DropReason::PitShare) }
    }

    /// Makes room for an entry that is charged to a downstream that joins it with an Interest until `expiry`, if it
    /// expires last.
    #[inline]
    pub(super) fn admit_latest(
        &mut self,
        principal: PrincipalIndex,
        entry: PitIndex,
        expiry: Timestamp,
    ) -> Result<(), DropReason> {
        let pending = self.tables.pcct.entry(entry);
        let is_last = expiry > pending.expiry() || pending.in_record_count() == 0;
        if principal == pending.principal() || !is_last {
            return Ok(());
        }
        let mut charges = pending.charges();
        let has_room =
            charges.all(|(table, count)| self.make_room(table, principal, count, Some(entry)));
        if has_room { Ok(()) } else { Err(DropReason::PitShare) }
    }

    /// Makes room for an in-record in an entry, whose in-records are `found`, and for its token. Returns where that of
    /// its face is afterwards, if it has one.
    #[inline]
    pub(super) fn admit_in_record(
        &mut self,
        entry: PitIndex,
        record: &InRecord,
        found: &InRecordSearch,
        token_length: usize,
    ) -> Result<Option<RecordPlace>, DropReason> {
        let (pcct, principal) = (&self.tables.pcct, record.principal);
        let is_further = found.own.is_none() && found.count > 0;
        // A record that is renewed keeps the place of its token.
        let needs_token = token_length > PIT_TOKEN_INLINE_MAX
            && !found.own.is_some_and(|place| pcct.has_long_token(entry, place));
        if is_further && !self.make_room_in_entry(principal, entry, found) {
            return Err(DropReason::InRecordsFull);
        }
        let has_room = (!is_further
            || self.make_room(Resource::InRecords, principal, 1, Some(entry)))
            && (!needs_token || self.make_room(Resource::LongTokens, principal, 1, Some(entry)));
        if !has_room {
            return Err(DropReason::InRecordsFull);
        }
        match found.own {
            // What gave way may have been a record of this entry.
            Some(_) if needs_token => Ok(self.tables.pcct.find_in_record(entry, record.face)),
            own => Ok(own),
        }
    }

    /// Makes room among the in-records of an entry. Returns false if there is none.
    #[inline]
    fn make_room_in_entry(
        &mut self,
        principal: PrincipalIndex,
        entry: PitIndex,
        found: &InRecordSearch,
    ) -> bool {
        found.count < IN_RECORDS_PER_PRINCIPAL_MAX
            || self.make_room_among_many(principal, entry, found)
    }

    #[cold]
    fn make_room_among_many(
        &mut self,
        principal: PrincipalIndex,
        entry: PitIndex,
        found: &InRecordSearch,
    ) -> bool {
        let (max, now) = (usize::from(IN_RECORDS_PER_ENTRY_MAX), self.now);
        let is_limited = principal != PrincipalIndex::OTHER
            && self.tables.pcct.ledger().class(principal) == PrincipalClass::Remote;
        let has_many = |of_principal| is_limited && of_principal >= IN_RECORDS_PER_PRINCIPAL_MAX;
        let (mut count, mut of_principal) = (found.count, found.of_principal);
        if (count >= max || has_many(of_principal)) && found.earliest <= now {
            let Tables { pcct, counters, .. } = &mut *self.tables;
            let expired = pcct.retain_in_records(entry, |_, record| record.expiry() > now);
            counters.in_records_expired.add(expired as u64);
            count -= expired;
            let left = self.in_records(entry);
            of_principal = left.filter(|record| record.principal == principal).count();
        }
        !has_many(of_principal) && (count < max || self.evict_from_entry(principal, entry))
    }

    /// Ends the oldest in-record of a principal that gives way to `principal` among the in-records of an
    /// entry. Returns whether there was one.
    #[cold]
    fn evict_from_entry(&mut self, principal: PrincipalIndex, entry: PitIndex) -> bool {
        let mut principals = [PrincipalIndex::OTHER; IN_RECORDS_PER_ENTRY_MAX as usize];
        let mut count = 0;
        for (slot, record) in principals.iter_mut().zip(self.tables.pcct.in_records(entry)) {
            *slot = record.principal;
            count += 1;
        }
        let ledger = self.tables.pcct.ledger();
        let payer = ledger.payer_among(&mut principals[..count], principal);
        let Some(holder) = payer else { return false };
        let records = self.tables.pcct.in_records(entry);
        let of_holder = records.filter(|record| record.principal == holder);
        let oldest = of_holder.min_by_key(|record| record.renewed).map(|record| record.face);
        oldest.into_iter().for_each(|face| self.evict_in_record(entry, face));
        oldest.is_some()
    }

    /// Makes room for the out-record of a face in an entry.
    #[inline]
    pub(super) fn admit_out_record(
        &mut self,
        entry: PitIndex,
        face: FaceIndex,
    ) -> Result<(), DropReason> {
        let pending = self.tables.pcct.entry(entry);
        let principal = pending.principal();
        let has_room = pending.out_record_count() == 0
            || self.out_record(entry, face).is_some()
            || self.make_room(Resource::OutRecords, principal, 1, Some(entry));
        if has_room { Ok(()) } else { Err(DropReason::OutRecordsFull) }
    }

    /// Makes room for `count` places of a table, without touching the entry `keep`. Returns false if
    /// there is none.
    #[inline]
    pub(super) fn make_room(
        &mut self,
        resource: Resource,
        principal: PrincipalIndex,
        count: u32,
        keep: Option<PitIndex>,
    ) -> bool {
        self.tables.pcct.ledger().is_open(resource, count)
            || self.evict_for(resource, principal, count, keep)
    }

    /// Ends what principals above their shares hold, in a bounded number of steps. Later requests
    /// continue behind the places checked; until they have checked all, there are spare places.
    #[cold]
    fn evict_for(
        &mut self,
        resource: Resource,
        principal: PrincipalIndex,
        count: u32,
        keep: Option<PitIndex>,
    ) -> bool {
        let mut steps = VICTIM_STEPS.saturating_mul(count);
        loop {
            let pcct = &mut self.tables.pcct;
            let limits = match pcct.ledger().verdict(principal, resource, count) {
                Verdict::Room => return true,
                Verdict::Refused => return false,
                Verdict::Evict(limits) => limits,
            };
            match pcct.next_victim(resource, limits, keep, &mut steps) {
                Some(victim) => {
                    let records = self.evict(resource, victim, limits);
                    steps = steps.saturating_sub(records.saturating_mul(STEPS_PER_VICTIM));
                }
                None => return pcct.ledger().has_spare(principal, resource, count),
            }
        }
    }

    /// Returns the number of records that were ended.
    fn evict(&mut self, resource: Resource, victim: Victim, limits: Limits) -> u32 {
        let Victim { entry, face } = victim;
        match (resource, face) {
            (Resource::OutRecords, Some(face)) => self.evict_out_record(entry, face),
            (_, Some(face)) => self.evict_in_record(entry, face),
            (_, None) => return self.evict_entry(resource, entry, limits),
        }
        1
    }

    /// Ends the in-records of principals above their limits. What is left of the in-records keeps the
    /// entry. Returns their number.
    fn evict_entry(&mut self, resource: Resource, entry: PitIndex, limits: Limits) -> u32 {
        let mut count = 0;
        let mut place = None;
        while let Some((next, record)) = self.tables.pcct.next_in_record(entry, place) {
            place = Some(next);
            if self.tables.pcct.ledger().exceeds(record.principal, resource, limits) {
                self.refuse_evicted(entry, &record);
                count += 1;
            }
        }
        let keep = |ledger: &Ledger, record: &InRecord| {
            !ledger.exceeds(record.principal, resource, limits)
        };
        self.tables.pcct.retain_in_records(entry, keep);
        if !self.shorten(entry) {
            self.finalize_unsatisfied(entry, Ending::Nack);
        }
        count.max(1)
    }

    /// Ends an in-record; with the last one, ends the entry.
    fn evict_in_record(&mut self, entry: PitIndex, face: FaceIndex) {
        let Some(&record) = self.in_record(entry, face) else { return };
        self.refuse_evicted(entry, &record);
        self.tables.pcct.remove_in_record(entry, face);
        if !self.shorten(entry) {
            self.finalize_unsatisfied(entry, Ending::Nack);
        }
    }

    /// Counts an in-record that is about to be removed, with a Nack to its downstream.
    fn refuse_evicted(&mut self, entry: PitIndex, record: &InRecord) {
        match self.tables.faces.find(record.face) {
            None => self.tables.counters.in_records_face_gone.increment(),
            Some(_) if record.expiry() <= self.now => {
                self.tables.counters.in_records_expired.increment();
            }
            Some(flags) => {
                self.count_drop(DropReason::Evicted);
                if flags.is_point_to_point() {
                    self.send_nack_for(entry, record, NackReason::CONGESTION, 0);
                }
            }
        }
    }

    /// Lets an entry that has lost in-records end with the last of the others, whose principal is charged
    /// for it. Returns false if there is none.
    pub(super) fn shorten(&mut self, entry: PitIndex) -> bool {
        let pcct = &mut self.tables.pcct;
        let Some(expiry) = pcct.charge_to_latest(entry) else { return false };
        let pending = pcct.entry(entry);
        if pending.phase() == PitPhase::Pending && expiry < pending.expiry() {
            pcct.set_expiry(entry, expiry, self.now);
        }
        true
    }

    /// Removes an out-record. Its Data is accepted nevertheless; a loop is found by the dead nonce
    /// list.
    fn evict_out_record(&mut self, entry: PitIndex, face: FaceIndex) {
        let Some(&record) = self.out_record(entry, face) else { return };
        let tables = &mut *self.tables;
        let name_hash = tables.hasher.hash_value(tables.pcct.interest_name(entry).value());
        tables.dead_nonces.insert(name_hash, record.nonce, self.now);
        tables.counters.dead_nonces.increment();
        tables.counters.drop_packet(DropReason::OutRecordEvicted);
        tables.pcct.remove_out_record(entry, face);
    }
}
