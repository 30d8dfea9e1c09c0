//! Outgoing Interest, Data and Nack pipelines, the end of PIT entries, and the room for them. See the NFD developer's
//! guide, "Forwarding Pipelines". The incoming pipelines and the strategies stand above this file.

use ndn_packet::{Data, Interest, NackReason};
use ndn_table::{
    FaceIndex, IN_RECORDS_PER_ENTRY_MAX, InRecord, InRecordSearch, Ledger, OutRecord,
    PIT_TOKEN_INLINE_MAX, PitIndex, PitPhase, RecordPlace, Resource, TOKEN_LENGTH, Token,
    VICTIM_STEPS, Victim, long_blocks,
};
use ndn_types::{Limits, PrincipalClass, PrincipalIndex, ShareVerdict, Timestamp};

use crate::descriptor::Flags;
use crate::face_table::FaceFlags;
use crate::learning::{Held, LearningRequest};
use crate::packet::RxPacket;
use crate::pending_interest::PendingInterest;
use crate::tables::{Ending, Tables};
use crate::{DropReason, TxKind, TxPacket, TxSink};

/// Maximum number of in-records of one remote address in one entry. Each Interest that joins an entry is compared with
/// all of them, so that one address with a thousand ports would multiply the cost of its Interests. Addresses beyond
/// the number of principals have no limit: they are many.
const IN_RECORDS_PER_PRINCIPAL_MAX: usize = 64;

/// Steps of the search that the end of a record or an entry counts as: it takes longer than checking a
/// place.
const STEPS_PER_VICTIM: u32 = 16;

/// Maximum time that a Data is held, as in NFD.
const HOLD_MS: u64 = 1000;

/// Sends a Data to a downstream with the downstream's PIT token. `is_localhost` is that of its name.
#[inline]
pub(crate) fn outgoing_data(
    tables: &Tables,
    tx: &mut dyn TxSink,
    data: TxPacket<'_>,
    is_localhost: bool,
    face: FaceIndex,
    pit_token: &[u8],
) {
    if let Some(flags) = find_downstream(tables, is_localhost, face) {
        tables.counters.out_data.increment();
        let incoming_face_id = data.incoming_face_id.filter(|_| flags.has_local_fields());
        tx.send(face, &TxPacket { pit_token, incoming_face_id, ..data });
    }
}

/// [`outgoing_data`] of an arrived packet.
#[inline(always)]
pub(crate) fn outgoing_arrived_data(
    tables: &Tables,
    tx: &mut dyn TxSink,
    rx: &RxPacket<'_>,
    face: FaceIndex,
    pit_token: &[u8],
) {
    if let Some(flags) = find_downstream(tables, rx.has(Flags::LOCALHOST), face) {
        outgoing_data_to(tables, tx, rx, rx.tx_data(), face, flags, pit_token);
    }
}

/// [`outgoing_arrived_data`] to a downstream to which it may be sent, as `data`.
#[inline(always)]
pub(crate) fn outgoing_data_to(
    tables: &Tables,
    tx: &mut dyn TxSink,
    rx: &RxPacket<'_>,
    data: TxPacket<'_>,
    face: FaceIndex,
    flags: FaceFlags,
    pit_token: &[u8],
) {
    tables.counters.out_data.increment();
    let incoming_face_id = match flags.has_local_fields() {
        true => tables.faces.face_id(rx.descriptor.face),
        false => None,
    };
    tx.send(face, &TxPacket { pit_token, incoming_face_id, ..data });
}

/// The properties of a face to which a Data may be sent; counts a drop if it may not.
#[inline(always)]
fn find_downstream(tables: &Tables, is_localhost: bool, face: FaceIndex) -> Option<FaceFlags> {
    let Some(flags) = tables.faces.find(face) else {
        tables.counters.drop_packet(DropReason::EgressFaceGone);
        return None;
    };
    if is_localhost && !flags.is_local() {
        tables.counters.drop_packet(DropReason::EgressLocalhostScope);
        return None;
    }
    Some(flags)
}

/// The tables of a shard and its sink, while the shard processes a packet or a timer: what the outgoing pipelines need.
pub(crate) struct Outgoing<'a> {
    pub(crate) now: Timestamp,
    pub(crate) tables: &'a mut Tables,
    pub(crate) tx: &'a mut dyn TxSink,
}

// Interests and Nacks.
impl Outgoing<'_> {
    /// The in-record of `face`.
    pub(crate) fn in_record(&self, entry: PitIndex, face: FaceIndex) -> Option<&InRecord> {
        self.tables.pcct.in_records(entry).find(|record| record.face == face)
    }

    /// The out-record of `face`.
    pub(crate) fn out_record(&self, entry: PitIndex, face: FaceIndex) -> Option<&OutRecord> {
        self.tables.pcct.out_records(entry).find(|record| record.face == face)
    }

    /// Records an Interest in the out-record of `face` and sends it. `flags` are the properties of the face, if it exists.
    #[inline(always)]
    pub(crate) fn outgoing_interest(
        &mut self,
        interest: &PendingInterest<'_>,
        face: FaceIndex,
        flags: Option<FaceFlags>,
    ) -> Result<(), DropReason> {
        let flags = flags.ok_or(DropReason::EgressFaceGone)?;
        if interest.is_at_hop_limit && !flags.is_local() {
            return Err(DropReason::HopLimitReached);
        }
        let PendingInterest { entry, nonce, lifetime_ms, .. } = *interest;
        let pcct = &mut self.tables.pcct;
        if !pcct.insert_first_out_record(entry, face, nonce, lifetime_ms, self.now) {
            self.record_upstream(&{ *interest }, face)?;
        }
        let token = self.tables.pcct.token(entry, self.tables.shard);
        let packet = TxPacket {
            congestion_mark: u64::from(interest.congestion_mark),
            non_discovery: interest.non_discovery,
            ..TxPacket::new(TxKind::Interest, interest.wire, interest.handle)
        };
        self.send_upstream(packet, interest.face, token, face, flags);
        Ok(())
    }

    /// Sends an Interest, which arrived on the face `from` and whose entry has this token, to `face`, which has these properties.
    #[inline(always)]
    pub(crate) fn send_upstream(
        &mut self,
        packet: TxPacket<'_>,
        from: FaceIndex,
        token: Token,
        face: FaceIndex,
        flags: FaceFlags,
    ) {
        let tables = &*self.tables;
        // As a number: fewer instructions than by bytes.
        let token = token.to_number().to_be_bytes();
        let token = &token[..TOKEN_LENGTH];
        let incoming_face_id =
            if flags.has_local_fields() { tables.faces.face_id(from) } else { None };
        tables.counters.out_interests.increment();
        let pit_token = if flags.sends_tokens() { token } else { &[] };
        self.tx.send(face, &TxPacket { pit_token, incoming_face_id, ..packet });
    }

    /// Adds or renews the out-record of `face` in an entry that has out-records.
    #[inline(never)]
    fn record_upstream(
        &mut self,
        interest: &PendingInterest<'_>,
        face: FaceIndex,
    ) -> Result<(), DropReason> {
        let PendingInterest { entry, nonce, lifetime_ms, .. } = *interest;
        self.admit_out_record(entry, face)?;
        let pcct = &mut self.tables.pcct;
        let previous = pcct.insert_out_record(entry, face, nonce, lifetime_ms, self.now);
        match previous.map_err(|_| DropReason::OutRecordsFull)? {
            Some(previous) if previous != nonce => self.remember_nonce(entry, previous),
            Some(_) | None => {}
        }
        Ok(())
    }

    /// Sends a Nack to a downstream of `entry`, unless its Interest has expired, and removes its
    /// in-record. Returns whether the in-record was removed: only point-to-point faces get Nacks.
    pub(crate) fn outgoing_nack(
        &mut self,
        entry: PitIndex,
        face: FaceIndex,
        reason: NackReason,
        congestion_mark: u16,
    ) -> bool {
        let tables = &mut *self.tables;
        if !tables.faces.find(face).is_some_and(|flags| flags.is_point_to_point()) {
            return false;
        }
        let Some(record) = tables.pcct.in_records(entry).find(|record| record.face == face) else {
            return false;
        };
        let record = *record;
        if record.expiry() > self.now {
            tables.counters.in_records_nacked.increment();
            self.send_nack_for(entry, &record, reason, congestion_mark);
        } else {
            tables.counters.in_records_expired.increment();
        }
        self.tables.pcct.remove_in_record(entry, face);
        true
    }

    /// Sends a Nack to the downstream of an in-record, which stays.
    pub(crate) fn send_nack_for(
        &mut self,
        entry: PitIndex,
        record: &InRecord,
        reason: NackReason,
        congestion_mark: u16,
    ) {
        let tables = &mut *self.tables;
        let interest = tables.pcct.interest(entry);
        let Some(copy) = tables.scratch.get_mut(..interest.len()) else {
            tables.counters.drop_packet(DropReason::NackTooLong);
            return;
        };
        copy.copy_from_slice(interest);
        // The downstream identifies its Interest by the Nonce that it sent.
        let nonce_offset = Interest::parse(interest).ok().and_then(|view| view.nonce_offset());
        if let Some(offset) = nonce_offset {
            copy[offset..offset + 4].copy_from_slice(&record.nonce.to_be_bytes());
        }
        let packet = TxPacket {
            pit_token: tables.pcct.token_bytes(record),
            congestion_mark: u64::from(congestion_mark),
            ..TxPacket::new(TxKind::Nack(reason), copy, None)
        };
        tables.counters.out_nacks.increment();
        self.tx.send(record.face, &packet);
    }

    /// Sets the timer of [`Context::set_timer`](crate::strategy::Context::set_timer).
    pub(crate) fn schedule_strategy_timer(&mut self, entry: PitIndex, deadline: Timestamp) {
        let tables = &mut *self.tables;
        let token = tables.pcct.token(entry, tables.shard);
        let key = u64::from(token.entry) << 16 | u64::from(token.generation);
        // Without a free timer, the strategy continues without one.
        if tables.strategy_timers.schedule(key, deadline).is_err() {
            tables.counters.strategy_timers_refused.increment();
        }
    }
}

// Interest finalize pipeline.
impl Outgoing<'_> {
    /// Ends an entry satisfied by a Data with this FreshnessPeriod.
    #[inline]
    pub(crate) fn finalize_satisfied(&mut self, entry: PitIndex, freshness_ms: u64) {
        if self.tables.pcct.entry(entry).phase() != PitPhase::Pending {
            return self.satisfy_for_now(entry);
        }
        self.remember_satisfied(entry, freshness_ms);
        let tables = &mut *self.tables;
        tables.counters.satisfied_interests.increment();
        tables.count_closed(entry, Ending::Data, self.now);
        tables.erase_pending(entry);
    }

    /// Inserts the Nonces of an entry satisfied by a Data with this FreshnessPeriod into the dead nonce list, unless a
    /// looping copy of the Interest would find the Data in the Content Store. It would not if it has MustBeFresh, and the
    /// Data is fresh for a shorter time than the Nonce is kept; or if nothing is cached. In the latter case, only an
    /// Interest that was sent to several upstreams can be satisfied and loop at the same time.
    #[inline]
    pub(crate) fn remember_satisfied(&mut self, entry: PitIndex, freshness_ms: u64) {
        let tables = &*self.tables;
        let pending = tables.pcct.entry(entry);
        let becomes_stale = || freshness_ms < tables.dead_nonce_lifetime_ms;
        let may_loop = pending.must_be_fresh() && becomes_stale()
            || pending.out_record_count() > 1 && !tables.pcct.is_caching();
        if may_loop {
            self.remember_nonces(entry);
        }
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
    pub(crate) fn remember_nonces(&mut self, entry: PitIndex) {
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

    /// Inserts a Nonce that was sent, and that no out-record has any longer, into the dead nonce list.
    #[cold]
    fn remember_nonce(&mut self, entry: PitIndex, nonce: u32) {
        let tables = &mut *self.tables;
        let name_hash = tables.hasher.hash_value(tables.pcct.interest_name(entry).value());
        tables.dead_nonces.insert(name_hash, nonce, self.now);
        tables.counters.dead_nonces.increment();
    }
}

// Self-learning: Data that is held until its prefix announcement is found.
impl Outgoing<'_> {
    /// Queues a request to the control thread.
    pub(crate) fn request_control(&mut self, request: LearningRequest) {
        if !self.tables.learning.ask(request) {
            self.tables.counters.learning_refused.increment();
        }
    }

    /// Holds a Data from the downstreams of `entry` until its announcement is found. If that is not
    /// possible, sends it without one.
    pub(crate) fn hold_data(&mut self, entry: PitIndex, rx: &RxPacket<'_>) {
        let Ok(view) = Data::parse(rx.wire()) else { return };
        let held = Held {
            principal: self.tables.pcct.entry(entry).principal(),
            face: rx.face(),
            may_go_back: rx.has(Flags::FROM_AD_HOC),
            wire: rx.wire().into(),
            congestion_mark: u64::from(rx.descriptor.congestion_mark),
            is_localhost: rx.has(Flags::LOCALHOST),
            incoming_face_id: self.tables.faces.face_id(rx.face()),
            freshness_ms: view.freshness_ms().unwrap_or(0),
        };
        let ticket = self.tables.pcct.token(entry, self.tables.shard);
        if !self.tables.learning.hold(ticket, view.name().to_name(), held) {
            self.tables.counters.learning_refused.increment();
            return;
        }
        self.tables.pcct.entry_mut(entry).set_phase(PitPhase::Held);
        self.extend(entry, HOLD_MS);
    }

    /// Keeps an entry satisfied by a Data of `face` for `wait_ms`, to measure the answers of other
    /// upstreams.
    pub(crate) fn linger(&mut self, entry: PitIndex, face: FaceIndex, wait_ms: u64) {
        // The FreshnessPeriod of that Data is not known when the entry ends.
        self.remember_satisfied(entry, 0);
        self.tables.pcct.remove_out_record(entry, face);
        self.tables.pcct.entry_mut(entry).set_phase(PitPhase::Lingering);
        self.extend(entry, wait_ms);
    }

    fn extend(&mut self, entry: PitIndex, wait_ms: u64) {
        let expiry = self.now.plus_millis(wait_ms);
        self.tables.pcct.set_expiry(entry, expiry, self.now);
        if let Some(peers) = &mut self.tables.peers {
            peers.note_expiry(expiry);
        }
    }

    /// Sends a held Data to its pending downstreams, except the face it arrived on (unless that is
    /// ad-hoc).
    pub(crate) fn release_data(&mut self, ticket: Token, announcement: &[u8]) {
        let Some(held) = self.tables.learning.take(ticket) else { return };
        let Some(entry) = self.tables.pcct.find_token(ticket) else { return };
        if self.tables.pcct.entry(entry).phase() != PitPhase::Held {
            return;
        }
        let data = TxPacket {
            congestion_mark: held.congestion_mark,
            incoming_face_id: held.incoming_face_id,
            prefix_announcement: announcement,
            ..TxPacket::new(TxKind::Data, &held.wire, None)
        };
        let tables = &*self.tables;
        for record in tables.pcct.in_records(entry) {
            let is_origin = record.face == held.face && !held.may_go_back;
            if record.expiry() > self.now && !is_origin {
                let token = tables.pcct.token_bytes(record);
                outgoing_data(tables, self.tx, data, held.is_localhost, record.face, token);
            }
        }
        self.tables.pcct.entry_mut(entry).set_phase(PitPhase::Pending);
        self.finalize_satisfied(entry, held.freshness_ms);
    }

    /// Drops the held Data of an entry that ends.
    pub(crate) fn drop_held(&mut self, entry: PitIndex) {
        let ticket = self.tables.pcct.token(entry, self.tables.shard);
        self.tables.learning.take(ticket);
    }
}

// Room in the tables of the PIT: principals above their shares give way to those below. The policy is that of
// `ndn_table::Ledger`.
impl Outgoing<'_> {
    /// Makes room for a new PIT entry, with an Interest of this length.
    #[inline]
    pub(crate) fn admit_entry(
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
    pub(crate) fn admit_latest(
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
    pub(crate) fn admit_in_record(
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
            let left = self.tables.pcct.in_records(entry);
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
        let victim = ledger.victim_among(&mut principals[..count], principal);
        let Some(holder) = victim else { return false };
        let records = self.tables.pcct.in_records(entry);
        let of_holder = records.filter(|record| record.principal == holder);
        let oldest = of_holder.min_by_key(|record| record.renewed).map(|record| record.face);
        oldest.into_iter().for_each(|face| self.evict_in_record(entry, face));
        oldest.is_some()
    }

    /// Makes room for the out-record of a face in an entry.
    #[inline]
    pub(crate) fn admit_out_record(
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
    pub(crate) fn make_room(
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
                ShareVerdict::Room => return true,
                ShareVerdict::Refused => return false,
                ShareVerdict::Evict(limits) => limits,
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
                self.tables.counters.drop_packet(DropReason::Evicted);
                if flags.is_point_to_point() {
                    self.send_nack_for(entry, record, NackReason::CONGESTION, 0);
                }
            }
        }
    }

    /// Lets an entry that has lost in-records end with the last of the others, whose principal is charged
    /// for it. Returns false if there is none.
    pub(crate) fn shorten(&mut self, entry: PitIndex) -> bool {
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
        self.remember_nonce(entry, record.nonce);
        let tables = &mut *self.tables;
        tables.counters.drop_packet(DropReason::OutRecordEvicted);
        tables.pcct.remove_out_record(entry, face);
    }
}
