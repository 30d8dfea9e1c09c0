//! Incoming Interest pipeline: loop detection, Content Store hit and miss.

use std::cmp::Ordering;

use ndn_packet::interest::ForwardingHint;
use ndn_packet::{Data, NackReason};
use ndn_table::{
    CsIndex, FibSlot, FibSnapshot, InRecord, InRecordSearch, InterestKey, NextHop,
    PIT_TOKEN_INLINE_MAX, PREFIX_HASHES_MAX, PitIndex, PitPhase, StrategyId,
};
use ndn_types::{PrincipalIndex, Timestamp};

use super::finalize::Ending;
use crate::descriptor::{Descriptor, Flags};
use crate::packet::RxPacket;
use crate::packet::sha256;
use crate::strategy::{Context, DIRECTED, PendingInterest, Strategy, StrategyTable, hinted_depth};
use crate::{CONTENT_STORE_FACE_ID, DropReason, TxKind, TxPacket};

/// Maximum number of ForwardingHint delegations looked up.
const DELEGATIONS_MAX: usize = 8;

/// The pending entry of an Interest that arrives.
#[derive(Debug)]
pub(super) struct Joined {
    pub(super) entry: PitIndex,
    pub(super) downstreams: InRecordSearch,
}

impl<'a> Context<'a> {
    /// Incoming Interest pipeline. [`Ingress`](crate::Ingress) has checked and decremented
    /// HopLimit, and removed the ForwardingHint in a producer region.
    #[inline]
    pub(crate) fn incoming_interest(
        &mut self,
        rx: &RxPacket<'_>,
        route: FibSlot,
        strategies: &StrategyTable,
    ) {
        self.tables.counters.in_interests.increment();
        if rx.descriptor.flags.intersects(Flags::LOCALHOST.union(Flags::REFUSED))
            && self.reject_if_flagged(rx)
        {
            return;
        }
        if self.tables.faces.find(rx.descriptor.face).is_none() {
            self.tables.counters.drop_packet(DropReason::ArrivalFaceGone);
            return;
        }
        if !rx.token.is_empty() {
            self.tables.note_token(rx.descriptor.face);
        }
        let key = &rx.interest_key();
        let pending = self.find_or_expire(key).map(|entry| self.search_downstreams(rx, entry));
        let pending = pending.as_ref();
        if let Some(reason) = self.find_loop(rx, pending) {
            self.interest_loop(rx, reason);
            return;
        }
        let is_pending = pending.is_some_and(|pending| {
            self.in_records(pending.entry).any(|record| self.face_exists(record.face))
        });
        if !is_pending && let Some(data) = self.tables.pcct.find_data(key, self.now, sha256) {
            self.content_store_hit(rx, pending.map(|pending| pending.entry), data);
            return;
        }
        if rx.descriptor.flags.intersects(Flags::SHORT_PREFIX.union(Flags::PREVIOUS_OWNER)) {
            self.cross_shard_interest(rx, pending, is_pending, route, strategies);
            return;
        }
        if !is_pending {
            self.tables.counters.cs_misses.increment();
        }
        self.content_store_miss(rx, pending, route, strategies);
    }

    /// Drops an Interest that violates scope or that the worker marked as refused. Returns whether
    /// it was dropped.
    #[cold]
    fn reject_if_flagged(&mut self, rx: &RxPacket<'_>) -> bool {
        if rx.has(Flags::LOCALHOST) && !rx.has(Flags::FROM_LOCAL) {
            self.tables.counters.drop_packet(DropReason::LocalhostScope);
            return true;
        }
        if rx.has(Flags::REFUSED) {
            self.tables.counters.drop_packet(DropReason::Overload);
            if self.tables.faces.find(rx.descriptor.face).is_some() {
                self.nack_arrived(rx, NackReason::CONGESTION);
            }
            return true;
        }
        false
    }

    /// The PIT entry of an Interest, unless it has expired: the result must not depend on whether
    /// the timer has fired.
    #[inline]
    pub(super) fn find_or_expire(&mut self, key: &InterestKey<'_>) -> Option<PitIndex> {
        let entry = self.tables.pcct.find_interest(key)?;
        if self.tables.pcct.entry(entry).expiry() <= self.now {
            self.finalize_unsatisfied(entry, Ending::Expiry);
            return None;
        }
        Some(entry)
    }

    #[inline]
    fn search_downstreams(&self, rx: &RxPacket<'_>, entry: PitIndex) -> Joined {
        let new = self.new_in_record(rx);
        let downstreams = self.tables.pcct.search_in_records(entry, &new);
        Joined { entry, downstreams }
    }

    /// The in-record of an Interest.
    #[inline(always)]
    fn new_in_record(&self, rx: &RxPacket<'_>) -> InRecord {
        let Descriptor { face, nonce, period_ms, .. } = *rx.descriptor;
        let principal = self.tables.faces.principal(face).unwrap_or(PrincipalIndex::OTHER);
        InRecord::new(face, nonce, period_ms, self.now).charged_to(principal)
    }

    /// Whether the Nonce is a duplicate, and where it was found.
    #[inline]
    fn find_loop(&mut self, rx: &RxPacket<'_>, pending: Option<&Joined>) -> Option<DropReason> {
        let nonce = rx.descriptor.nonce;
        if self.tables.dead_nonces.contains(rx.descriptor.name_hash, nonce, self.now) {
            return Some(DropReason::DeadNonce);
        }
        let Joined { entry, downstreams } = pending?;
        // The same Nonce from the same neighbour is a retransmission.
        if downstreams.own_has_nonce && rx.has(Flags::FROM_POINT_TO_POINT) {
            return None;
        }
        let is_duplicate = downstreams.own_has_nonce
            || downstreams.other_has_nonce
            || self.tables.pcct.out_records(*entry).any(|record| record.nonce == nonce);
        is_duplicate.then_some(DropReason::DuplicateNonce)
    }

    /// Interest loop pipeline: drops the Interest, with a Nack of reason Duplicate on a
    /// point-to-point face.
    #[cold]
    fn interest_loop(&mut self, rx: &RxPacket<'_>, reason: DropReason) {
        self.tables.counters.drop_packet(reason);
        self.nack_arrived(rx, NackReason::DUPLICATE);
    }

    /// Returns a Nack for an Interest that is not in the PIT, on a point-to-point face.
    fn nack_arrived(&mut self, rx: &RxPacket<'_>, reason: NackReason) {
        if !rx.has(Flags::FROM_POINT_TO_POINT) {
            return;
        }
        self.tables.counters.out_nacks.increment();
        let nack = TxPacket::new(TxKind::Nack(reason), rx.wire(), rx.handle());
        self.tx.send(rx.descriptor.face, &TxPacket { pit_token: rx.token, ..nack });
    }

    #[inline]
    fn content_store_hit(&mut self, rx: &RxPacket<'_>, pending: Option<PitIndex>, data: CsIndex) {
        let tables = &mut *self.tables;
        tables.counters.cs_hits.increment();
        let wire = tables.pcct.data(data);
        let cached = TxPacket {
            incoming_face_id: Some(CONTENT_STORE_FACE_ID),
            ..TxPacket::new(TxKind::Data, wire, None)
        };
        let is_localhost = rx.has(Flags::LOCALHOST);
        tables.outgoing_data(self.tx, cached, is_localhost, rx.descriptor.face, rx.token);
        match pending {
            // The lingering entry stays: the late answers that it waits for remain useful.
            Some(entry) if tables.pcct.entry(entry).phase() == PitPhase::Lingering => {
                tables.counters.satisfied_interests.increment();
            }
            // An entry whose downstreams were all refused, while an upstream may still answer.
            Some(entry) => {
                let freshness_ms = Data::parse(wire).ok().and_then(|d| d.freshness_ms());
                self.finalize_satisfied(entry, freshness_ms.unwrap_or(0));
            }
            None => tables.counters.satisfied_interests.increment(),
        }
    }

    #[inline]
    pub(super) fn content_store_miss(
        &mut self,
        rx: &RxPacket<'_>,
        pending: Option<&Joined>,
        route: FibSlot,
        strategies: &StrategyTable,
    ) {
        match self.join(rx, pending, self.fib.entry(route).strategy()) {
            Ok(entry) => self.run_strategy(rx, entry, route, strategies),
            Err(reason) => self.refuse_for_room(rx, reason),
        }
    }

    /// Drops an Interest for which the tables have no room, with a Nack of reason Congestion on a
    /// point-to-point face.
    #[cold]
    pub(super) fn refuse_for_room(&mut self, rx: &RxPacket<'_>, reason: DropReason) {
        self.tables.counters.drop_packet(reason);
        self.nack_arrived(rx, NackReason::CONGESTION);
    }

    /// Passes an Interest that has joined `entry` to the strategy of its name.
    #[inline]
    pub(super) fn run_strategy(
        &mut self,
        rx: &RxPacket<'_>,
        entry: PitIndex,
        route: FibSlot,
        strategies: &StrategyTable,
    ) {
        let fib: &'a FibSnapshot = self.fib;
        let fib_entry = fib.entry(route);
        self.strategy = fib_entry.strategy();
        let next_hops = match rx.forwarding_hint() {
            None => fib_entry.next_hops(),
            Some(hint) => self.next_hops_by_hint(hint),
        };
        let descriptor = rx.descriptor;
        let interest = PendingInterest {
            entry,
            face: descriptor.face,
            next_hops,
            next_hops_depth: match rx.forwarding_hint() {
                None => fib_entry.next_hops_depth(),
                Some(_) => hinted_depth(rx.hashes()),
            },
            prefix_hashes: rx.hashes(),
            packet: rx.tx_packet(TxKind::Interest),
            nonce: descriptor.nonce,
            lifetime_ms: descriptor.period_ms,
            is_at_hop_limit: rx.has(Flags::HOP_LIMIT) && descriptor.hop_limit == 0,
            is_for_local: rx.has(Flags::LOCALHOST)
                || (rx.has(Flags::LOCALHOP) && !rx.has(Flags::FROM_LOCAL)),
        };
        if rx.has(Flags::NEXT_HOP) {
            self.follow_next_hop_field(&interest, u64::from(rx.descriptor.next_hop_face_id));
        } else if let Some(strategy) = strategies.strategy(self.strategy) {
            self.choose_next_hops(strategy, &interest);
        }
    }

    /// Calls the strategy, and probes next hops that came back or are in doubt.
    #[inline]
    pub(super) fn choose_next_hops(
        &mut self,
        strategy: &dyn Strategy,
        interest: &PendingInterest<'_>,
    ) {
        if !self.tables.faces.has_uncertain() {
            return strategy.after_receive_interest(self, interest);
        }
        let token = self.tables.pcct.token(interest.entry, self.tables.shard);
        strategy.after_receive_interest(self, interest);
        // The strategy may have ended the entry.
        if self.tables.pcct.find_token(token) == Some(interest.entry) {
            self.probe_uncertain(interest);
        }
    }

    /// Inserts the Interest into the PIT, and sets the entry to expire with its last in-record.
    #[inline]
    pub(super) fn join(
        &mut self,
        rx: &RxPacket<'_>,
        pending: Option<&Joined>,
        strategy: StrategyId,
    ) -> Result<PitIndex, DropReason> {
        let record = self.new_in_record(rx);
        let entry = match pending {
            Some(pending) => pending.entry,
            None => {
                let principal = record.principal;
                self.admit_entry(principal, rx.wire().len())?;
                let tables = &mut *self.tables;
                let pcct = &mut tables.pcct;
                let inserted = pcct.insert_new_interest(&rx.interest_key(), rx.wire(), principal);
                let entry = inserted.map_err(|_| DropReason::PitFull)?;
                tables.counters.pit_inserts.increment();
                tables.pcct.entry_mut(entry).strategy_id = strategy.0;
                entry
            }
        };
        let downstreams = pending.map(|pending| &pending.downstreams);
        let expiry = match self.record_downstream(rx.token, entry, record, downstreams) {
            Ok(expiry) => expiry,
            Err(reason) => {
                if pending.is_none() {
                    self.tables.erase_pending(entry);
                }
                return Err(reason);
            }
        };
        let tables = &mut *self.tables;
        let joined = tables.pcct.entry_mut(entry);
        if joined.phase() == PitPhase::Lingering {
            joined.set_phase(PitPhase::Pending);
        }
        tables.pcct.set_expiry(entry, expiry, self.now);
        if let Some(peers) = &mut tables.peers {
            peers.note_expiry(expiry);
        }
        Ok(entry)
    }

    /// Adds or renews the in-record of an Interest, and charges the entry to the principal of the in-record
    /// that expires last. Returns when that is.
    #[inline(always)]
    fn record_downstream(
        &mut self,
        token: &[u8],
        entry: PitIndex,
        record: InRecord,
        downstreams: Option<&InRecordSearch>,
    ) -> Result<Timestamp, DropReason> {
        let (principal, expiry) = (record.principal, record.expiry());
        let mut place = None;
        if downstreams.is_some() {
            self.admit_latest(principal, entry, expiry)?;
        }
        if downstreams.is_some() || token.len() > PIT_TOKEN_INLINE_MAX {
            let found = downstreams.unwrap_or(&InRecordSearch::NONE);
            place = self.admit_in_record(entry, &record, found, token.len())?;
        }
        let pcct = &mut self.tables.pcct;
        // What gave way may have been in-records of this entry.
        let found = downstreams.filter(|found| found.count == pcct.entry(entry).in_record_count());
        let inserted = match place {
            None => pcct.add_in_record(entry, record, token),
            Some(place) => pcct.renew_in_record(entry, place, record, token).map(|()| place),
        };
        if place.is_some() && inserted.is_ok() {
            self.tables.counters.in_record_refreshes.increment();
        }
        let place = inserted.map_err(|_| DropReason::InRecordsFull)?;
        if downstreams.is_some() {
            let latest = match (expiry.cmp(&pcct.entry(entry).expiry()), found) {
                (Ordering::Equal, _) => return Ok(expiry),
                (Ordering::Greater, _) => (place, expiry),
                // Only if this downstream had the latest expiry can the entry's expiry decrease.
                (Ordering::Less, Some(found)) => found
                    .latest_other
                    .filter(|(_, latest)| *latest >= expiry)
                    .unwrap_or((place, expiry)),
                (Ordering::Less, None) => {
                    return Ok(pcct.charge_to_latest(entry).unwrap_or(expiry));
                }
            };
            pcct.charge_to(entry, latest.0);
            return Ok(latest.1);
        }
        Ok(expiry)
    }

    /// The next hops of the first delegation of a ForwardingHint that has any.
    #[cold]
    pub(super) fn next_hops_by_hint(&self, hint: &[u8]) -> &'a [NextHop] {
        let fib: &'a FibSnapshot = self.fib;
        let mut hashes = [0; PREFIX_HASHES_MAX];
        for delegation in ForwardingHint::from_validated(hint).take(DELEGATIONS_MAX) {
            let hash_count = self.tables.hasher.hash_prefixes(delegation, &mut hashes);
            let Some(hash_count) = hash_count else { continue };
            let route = fib.find_longest_prefix(delegation, &hashes[..hash_count]);
            let next_hops = fib.entry(route).next_hops();
            if !next_hops.is_empty() {
                return next_hops;
            }
        }
        &[]
    }

    /// Sends to the face in NextHopFaceId, bypassing strategy and scope rules.
    #[cold]
    fn follow_next_hop_field(&mut self, interest: &PendingInterest<'_>, face_id: u64) {
        match self.tables.faces.find_by_id(face_id) {
            Some(face) => {
                if self.send_interest(interest, face) {
                    self.set_interval(interest.entry, face, DIRECTED);
                }
            }
            None => self.count_drop(DropReason::NextHopFaceGone),
        }
    }
}
