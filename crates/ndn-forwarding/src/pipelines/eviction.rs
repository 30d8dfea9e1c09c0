//! Room in the tables of the PIT: what principals above their shares hold gives way for those below.
//! The policy is that of [`Ledger`](ndn_table::Ledger).

use ndn_packet::NackReason;
use ndn_table::{
    FaceIndex, Limits, PIT_TOKEN_INLINE_MAX, PitIndex, PrincipalIndex, Resource, Verdict, Victim,
    long_blocks,
};

use super::finalize::Ending;
use crate::DropReason;
use crate::strategy::Context;

/// Maximum number of places that are checked for one packet, so that its cost is bounded. The next
/// packet continues behind them.
const STEPS_PER_PACKET_MAX: u32 = 256;

impl Context<'_> {
    /// Makes room for a new PIT entry, with an Interest of this length.
    #[inline]
    pub(super) fn admit_entry(
        &mut self,
        principal: PrincipalIndex,
        wire_length: usize,
    ) -> Result<(), DropReason> {
        let blocks = long_blocks(wire_length);
        let has_room = self.has_room(Resource::Entries, principal, 1, None)
            && (blocks == 0 || self.has_room(Resource::LongBlocks, principal, blocks, None));
        if has_room { Ok(()) } else { Err(DropReason::PitShare) }
    }

    /// Makes room for the in-record of a face in an entry, and for its token.
    #[inline]
    pub(super) fn admit_in_record(
        &mut self,
        principal: PrincipalIndex,
        entry: PitIndex,
        face: FaceIndex,
        token_length: usize,
    ) -> Result<(), DropReason> {
        let own = self.in_record(entry, face);
        let is_further = own.is_none() && self.tables.pcct.entry(entry).in_record_count() > 0;
        // A record that is renewed keeps the place of its token.
        let has_place =
            own.is_some_and(|own| self.tables.pcct.token_bytes(own).len() > PIT_TOKEN_INLINE_MAX);
        let has_room = (!is_further
            || self.has_room(Resource::InRecords, principal, 1, Some(entry)))
            && (token_length <= PIT_TOKEN_INLINE_MAX
                || has_place
                || self.has_room(Resource::LongTokens, principal, 1, Some(entry)));
        if has_room { Ok(()) } else { Err(DropReason::InRecordsFull) }
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
            || self.has_room(Resource::OutRecords, principal, 1, Some(entry));
        if has_room { Ok(()) } else { Err(DropReason::OutRecordsFull) }
    }

    /// Makes room for `count` places of a table, without touching the entry `keep`. Returns false if
    /// there is none.
    #[inline]
    pub(super) fn has_room(
        &mut self,
        resource: Resource,
        principal: PrincipalIndex,
        count: u32,
        keep: Option<PitIndex>,
    ) -> bool {
        self.tables.pcct.ledger().is_open(resource, count)
            || self.make_room(resource, principal, count, keep)
    }

    #[cold]
    fn make_room(
        &mut self,
        resource: Resource,
        principal: PrincipalIndex,
        count: u32,
        keep: Option<PitIndex>,
    ) -> bool {
        let mut steps = STEPS_PER_PACKET_MAX;
        loop {
            let pcct = &mut self.tables.pcct;
            match pcct.ledger().verdict(principal, resource, count) {
                Verdict::Room => return true,
                Verdict::Refused => return false,
                Verdict::Evict(limits) => {
                    match pcct.next_victim(resource, limits, keep, &mut steps) {
                        Some(victim) => self.evict(resource, victim, limits),
                        None => return false,
                    }
                }
            }
        }
    }

    fn evict(&mut self, resource: Resource, victim: Victim, limits: Limits) {
        let Victim { entry, face } = victim;
        match (resource, face) {
            (Resource::OutRecords, Some(face)) => self.evict_out_record(entry, face),
            (_, Some(face)) => self.evict_in_record(entry, face),
            (_, None) => self.evict_entry(resource, entry, limits),
        }
    }

    /// Ends the in-records that an entry is charged for, as far as their principals are above their
    /// limits. The others keep the entry.
    fn evict_entry(&mut self, resource: Resource, entry: PitIndex, limits: Limits) {
        let token = self.tables.pcct.token(entry, self.tables.shard);
        while self.tables.pcct.find_token(token).is_some() {
            let pcct = &self.tables.pcct;
            if !pcct.ledger().exceeds(pcct.entry(entry).principal(), resource, limits) {
                return;
            }
            let first = self.in_records(entry).next().map(|record| record.face);
            match first {
                Some(face) => self.evict_in_record(entry, face),
                None => self.finalize_unsatisfied(entry, Ending::Nack),
            }
        }
    }

    /// Ends an in-record, with a Nack to its downstream; with the last one, ends the entry.
    fn evict_in_record(&mut self, entry: PitIndex, face: FaceIndex) {
        let Some(&record) = self.in_record(entry, face) else { return };
        match self.tables.faces.find(face) {
            None => self.tables.counters.in_records_face_gone.increment(),
            Some(_) if record.expiry() <= self.now => {
                self.tables.counters.in_records_expired.increment();
            }
            Some(flags) => {
                self.count_drop(DropReason::Evicted);
                if flags.is_point_to_point() {
                    self.send_nack_for(entry, &record, NackReason::CONGESTION, 0);
                }
            }
        }
        self.tables.pcct.remove_in_record(entry, face);
        if self.tables.pcct.entry(entry).in_record_count() == 0 {
            self.finalize_unsatisfied(entry, Ending::Nack);
        }
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
