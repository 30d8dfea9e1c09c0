//! Incoming Interest, Data and Nack pipelines. See the NFD developer's guide, "Forwarding Pipelines".

use std::cmp::{Ordering, Reverse};

use ndn_packet::interest::ForwardingHint;
use ndn_packet::{Data, Interest, MAX_PACKET_SIZE, NackReason};
use ndn_ring::PacketPool;
use ndn_table::{
    CsIndex, DataKey, FaceIndex, FibEntry, FibSlot, FibSnapshot, InRecord, InRecordSearch,
    InterestKey, NextHop, OnlyMatch, PIT_INTEREST_INLINE_MAX, PIT_TOKEN_INLINE_MAX,
    PREFIX_HASHES_MAX, PitEntry, PitIndex, PitMatches, PitPhase, PlainInterest, Resource,
    StrategyId, TOKEN_LENGTH, Token,
};
use ndn_types::{PrincipalIndex, Timestamp};

use crate::copies::SentCopies;
use crate::descriptor::{Descriptor, Flags};
use crate::dispatch::{CsProbe, DataVisit, InterestMark, ProbeAnswer, ShardMessage, Stage};
use crate::face_table::FaceFlags;
use crate::outgoing::{Outgoing, outgoing_arrived_data, outgoing_data, outgoing_data_to};
use crate::packet::{RxPacket, sha256};
use crate::peers::PeerShards;
use crate::pending_interest::{PendingInterest, hinted_depth};
use crate::strategy::{ArrivedNack, BestRoute, Context, DIRECTED, Strategy, StrategyTable};
use crate::tables::{Ending, Tables};
use crate::{
    CONTENT_STORE_FACE_ID, Counters, DropReason, INTERNAL_FACE_ID, TxKind, TxPacket, scope,
};

/// Maximum number of ForwardingHint delegations looked up.
const DELEGATIONS_MAX: usize = 8;

/// The pending entry of an Interest that arrives.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(crate) entry: PitIndex,
    pub(crate) downstreams: InRecordSearch,
}

/// The PIT entries that one Data satisfies.
#[derive(Debug)]
pub(crate) struct Matches {
    found: PitMatches,
    copies: SentCopies,
}

impl Matches {
    /// An empty list with room for the maximum number of entries.
    pub(crate) fn new() -> Self {
        Self { found: PitMatches::default(), copies: SentCopies::new() }
    }

    /// The entries that have not expired.
    pub(crate) fn pending(&self) -> &[PitIndex] {
        self.found.as_slice()
    }

    /// Finds the entries that a Data satisfies, including those that have expired.
    pub(crate) fn find(&mut self, tables: &Tables, key: &DataKey<'_>, wire: &[u8]) {
        tables.pcct.find_pit_matches(key, || sha256(wire), &mut self.found);
    }

    /// The entries that have not expired, and the downstreams that have received a copy.
    pub(crate) fn parts(&mut self) -> (&[PitIndex], &mut SentCopies) {
        (self.found.as_slice(), &mut self.copies)
    }
}

/// A Data that concerns several shards.
#[derive(Debug)]
pub(crate) enum CrossShardData {
    /// It has arrived here, and concerns these other shards, a bit each.
    Arrived(u64),
    /// It comes from another shard.
    Visiting(Box<DataVisit>),
}

/// A shard while it processes packets: its tables and its sink, the FIB and the strategies.
pub(crate) struct Incoming<'a> {
    pub(crate) context: Context<'a>,
    fib: &'a FibSnapshot,
    strategies: &'a StrategyTable,
    /// The default strategy, if it is best-route.
    best_route: Option<StrategyId>,
    /// Whether short-prefix Interests were pending in any shard when the burst began: its Data counts as having arrived before
    /// those that are published later. Their probes come to this shard after the burst.
    has_short_prefixes: bool,
}

impl<'a> Incoming<'a> {
    #[inline(always)]
    pub(crate) fn new(
        outgoing: Outgoing<'a>,
        fib: &'a FibSnapshot,
        strategies: &'a StrategyTable,
    ) -> Self {
        let peers = outgoing.tables.peers.as_deref();
        let has_short_prefixes = peers.is_some_and(|peers| !peers.shared.short_prefix.is_empty());
        let default = fib.entry(FibSlot::ROOT).strategy();
        let best_route = strategies.is_best_route(default).then_some(default);
        let context = Context { outgoing, strategy: StrategyId::default() };
        Self { context, fib, strategies, best_route, has_short_prefixes }
    }

    #[inline]
    pub(crate) fn now(&self) -> Timestamp {
        self.context.outgoing.now
    }

    #[inline]
    pub(crate) fn tables(&self) -> &Tables {
        self.context.outgoing.tables
    }

    #[inline]
    pub(crate) fn tables_mut(&mut self) -> &mut Tables {
        self.context.outgoing.tables
    }

    #[inline]
    fn counters(&self) -> &Counters {
        &self.context.outgoing.tables.counters
    }
}

// Interests.
impl<'a> Incoming<'a> {
    /// Incoming Interest pipeline. [`Ingress`](crate::Ingress) has checked and decremented
    /// HopLimit, and removed the ForwardingHint in a producer region.
    #[inline(always)]
    pub(crate) fn incoming_interest(&mut self, rx: &RxPacket<'_>, route: &FibEntry) {
        self.counters().in_interests.increment();
        if rx.descriptor.flags.intersects(Flags::LOCALHOST.union(Flags::REFUSED))
            && self.reject_if_flagged(rx)
        {
            return;
        }
        let Some(principal) = self.tables().faces.principal(rx.descriptor.face) else {
            self.counters().drop_packet(DropReason::ArrivalFaceGone);
            return;
        };
        if rx.descriptor.token_length > 0 {
            self.tables_mut().note_token(rx.descriptor.face);
        }
        if self.is_unknown(rx) {
            self.forward_unknown(rx, principal, route);
        } else {
            self.search_and_forward(rx, route);
        }
    }

    /// Whether it is certain, without a search, that an Interest is not pending, that no Data satisfies it, and that its
    /// Nonce is not a duplicate.
    #[inline(always)]
    fn is_unknown(&mut self, rx: &RxPacket<'_>) -> bool {
        const OTHERS: Flags = Flags::CAN_BE_PREFIX
            .union(Flags::IMPLICIT_DIGEST)
            .union(Flags::SHORT_PREFIX)
            .union(Flags::PREVIOUS_OWNER);
        let Descriptor { flags, name_hash, nonce, token_length, .. } = *rx.descriptor;
        let now = self.now();
        let Tables { pcct, dead_nonces, .. } = self.tables_mut();
        !flags.intersects(OTHERS)
            && usize::from(token_length) <= PIT_TOKEN_INLINE_MAX
            && pcct.excludes(name_hash)
            && !pcct.has_disk()
            && !dead_nonces.contains(name_hash, nonce, now)
    }

    /// [`Self::search_and_forward`] for an Interest that [is unknown](Self::is_unknown).
    #[inline(always)]
    fn forward_unknown(&mut self, rx: &RxPacket<'_>, principal: PrincipalIndex, route: &FibEntry) {
        #[cfg(feature = "vip")]
        self.tables_mut().vip.count_request(rx);
        self.counters().cs_misses.increment();
        if rx.plain_wire().len() > PIT_INTEREST_INLINE_MAX {
            return self.content_store_miss(rx, None, route);
        }
        if !self.context.outgoing.make_room(Resource::Entries, principal, 1, None) {
            return self.refuse_for_room(rx, DropReason::PitShare);
        }
        let next_hop = self.find_usual_next_hop(rx, route);
        let upstream = next_hop.map(|(face, _)| face);
        let Some((entry, token)) = self.insert_plain(rx, principal, route.strategy(), upstream)
        else {
            return self.refuse_for_room(rx, DropReason::PitFull);
        };
        match next_hop {
            Some((face, flags)) => {
                let packet = rx.tx_plain(TxKind::Interest);
                let from = rx.descriptor.face;
                self.context.outgoing.send_upstream(packet, from, token, face, flags);
            }
            None => self.run_strategy(rx, entry, route),
        }
    }

    /// The next hop that the default strategy chooses for a new Interest, with the properties of its face, in the usual
    /// case: the Interest may leave the host, and has no field that the strategy or the upstream has to know.
    #[inline(always)]
    fn find_usual_next_hop(
        &self,
        rx: &RxPacket<'_>,
        route: &FibEntry,
    ) -> Option<(FaceIndex, FaceFlags)> {
        const OTHERS: Flags = Flags::LOCALHOST
            .union(Flags::LOCALHOP)
            .union(Flags::FORWARDING_HINT)
            .union(Flags::NEXT_HOP)
            .union(Flags::NON_DISCOVERY);
        let Descriptor { face, flags, hop_limit, .. } = *rx.descriptor;
        if self.best_route != Some(route.strategy())
            || flags.intersects(OTHERS)
            || flags.contains(Flags::HOP_LIMIT) && hop_limit == 0
        {
            return None;
        }
        BestRoute::usual_next_hop(&self.tables().faces, route.cheapest_next_hop()?.face, face)
    }

    /// The pipeline from the search for a pending entry on.
    #[inline(never)]
    fn search_and_forward(&mut self, rx: &RxPacket<'_>, route: &FibEntry) {
        let key = &rx.interest_key();
        let pending = self.find_or_expire(key).map(|entry| self.search_downstreams(rx, entry));
        let pending = pending.as_ref();
        if let Some(reason) = self.find_loop(rx, pending) {
            self.interest_loop(rx, reason);
            return;
        }
        #[cfg(feature = "vip")]
        if pending.is_none_or(|pending| pending.downstreams.own.is_none()) {
            self.tables_mut().vip.count_request(rx);
        }
        let is_pending = pending.is_some_and(|pending| {
            self.context
                .in_records(pending.entry)
                .any(|record| self.context.face_exists(record.face))
        });
        let now = self.now();
        if !is_pending && let Some(data) = self.tables_mut().pcct.find_data(key, now, sha256) {
            self.content_store_hit(rx, pending.map(|pending| pending.entry), data);
            return;
        }
        if rx.descriptor.flags.intersects(Flags::SHORT_PREFIX.union(Flags::PREVIOUS_OWNER)) {
            self.cross_shard_interest(rx, pending, is_pending, route);
            return;
        }
        if self.tables().pcct.has_disk() && self.disk_interest(rx, pending, is_pending, route) {
            return;
        }
        if !is_pending {
            self.counters().cs_misses.increment();
        }
        self.content_store_miss(rx, pending, route);
    }

    /// Drops an Interest that violates scope or that the worker marked as refused. Returns whether
    /// it was dropped.
    #[cold]
    fn reject_if_flagged(&mut self, rx: &RxPacket<'_>) -> bool {
        if rx.has(Flags::LOCALHOST) && !rx.has(Flags::FROM_LOCAL) {
            self.counters().drop_packet(DropReason::LocalhostScope);
            return true;
        }
        if rx.has(Flags::REFUSED) {
            self.counters().drop_packet(DropReason::Overload);
            if self.tables().faces.find(rx.descriptor.face).is_some() {
                self.nack_arrived(rx, NackReason::CONGESTION);
            }
            return true;
        }
        false
    }

    /// The PIT entry of an Interest, unless it has expired: the result must not depend on whether
    /// the timer has fired.
    #[inline]
    pub(crate) fn find_or_expire(&mut self, key: &InterestKey<'_>) -> Option<PitIndex> {
        let entry = self.tables().pcct.find_interest(key)?;
        if self.tables().pcct.entry(entry).expiry() <= self.now() {
            self.context.outgoing.finalize_unsatisfied(entry, Ending::Expiry);
            return None;
        }
        Some(entry)
    }

    #[inline]
    fn search_downstreams(&self, rx: &RxPacket<'_>, entry: PitIndex) -> Joined {
        let new = self.new_in_record(rx);
        let downstreams = self.tables().pcct.search_in_records(entry, &new);
        Joined { entry, downstreams }
    }

    /// The in-record of an Interest.
    #[inline(always)]
    fn new_in_record(&self, rx: &RxPacket<'_>) -> InRecord {
        let Descriptor { face, nonce, period_ms, .. } = *rx.descriptor;
        InRecord::new(face, nonce, period_ms, self.now()).charged_to(self.principal_of(face))
    }

    /// The principal that is charged for the Interests of a face.
    #[inline(always)]
    fn principal_of(&self, face: FaceIndex) -> PrincipalIndex {
        self.tables().faces.principal(face).unwrap_or(PrincipalIndex::OTHER)
    }

    /// Whether the Nonce is a duplicate, and where it was found.
    #[inline]
    fn find_loop(&mut self, rx: &RxPacket<'_>, pending: Option<&Joined>) -> Option<DropReason> {
        let nonce = rx.descriptor.nonce;
        let now = self.now();
        if let Some(Joined { entry, downstreams }) = pending {
            // The same Nonce from the same neighbour is a retransmission. The dead nonce list has it if another
            // downstream's Interest was forwarded since.
            if downstreams.own_has_nonce && rx.has(Flags::FROM_POINT_TO_POINT) {
                return None;
            }
            let is_duplicate = downstreams.own_has_nonce
                || downstreams.other_has_nonce
                || self.tables().pcct.out_records(*entry).any(|record| record.nonce == nonce);
            if is_duplicate {
                return Some(DropReason::DuplicateNonce);
            }
        }
        let is_dead = self.tables_mut().dead_nonces.contains(rx.descriptor.name_hash, nonce, now);
        is_dead.then_some(DropReason::DeadNonce)
    }

    /// Interest loop pipeline: drops the Interest, with a Nack of reason Duplicate on a
    /// point-to-point face.
    #[cold]
    fn interest_loop(&mut self, rx: &RxPacket<'_>, reason: DropReason) {
        self.counters().drop_packet(reason);
        self.nack_arrived(rx, NackReason::DUPLICATE);
    }

    /// Returns a Nack for an Interest that is not in the PIT, on a point-to-point face.
    fn nack_arrived(&mut self, rx: &RxPacket<'_>, reason: NackReason) {
        if !rx.has(Flags::FROM_POINT_TO_POINT) {
            return;
        }
        self.counters().out_nacks.increment();
        let nack = TxPacket::new(TxKind::Nack(reason), rx.wire(), rx.handle());
        self.context
            .outgoing
            .tx
            .send(rx.descriptor.face, &TxPacket { pit_token: rx.token(), ..nack });
    }

    #[inline]
    fn content_store_hit(&mut self, rx: &RxPacket<'_>, pending: Option<PitIndex>, data: CsIndex) {
        let tables = &mut *self.context.outgoing.tables;
        tables.counters.cs_hits.increment();
        let wire = tables.pcct.data(data);
        let cached = TxPacket {
            incoming_face_id: Some(CONTENT_STORE_FACE_ID),
            ..TxPacket::new(TxKind::Data, wire, None)
        };
        let is_localhost = rx.has(Flags::LOCALHOST);
        outgoing_data(
            tables,
            self.context.outgoing.tx,
            cached,
            is_localhost,
            rx.descriptor.face,
            rx.token(),
        );
        match pending {
            // The lingering entry stays: the late answers that it waits for remain useful.
            Some(entry) if tables.pcct.entry(entry).phase() == PitPhase::Lingering => {
                tables.counters.satisfied_interests.increment();
            }
            // An entry whose downstreams were all refused, while an upstream may still answer.
            Some(entry) => {
                let freshness_ms = Data::parse(wire).ok().and_then(|d| d.freshness_ms());
                self.context.outgoing.finalize_satisfied(entry, freshness_ms.unwrap_or(0));
            }
            None => tables.counters.satisfied_interests.increment(),
        }
    }

    /// Inserts an Interest into the PIT, and passes it to the strategy.
    // A call: its objects on the stack do not burden the usual case.
    #[inline(never)]
    pub(crate) fn content_store_miss(
        &mut self,
        rx: &RxPacket<'_>,
        pending: Option<&Joined>,
        route: &FibEntry,
    ) {
        match self.join(rx, pending, route.strategy()) {
            Ok(entry) => self.run_strategy(rx, entry, route),
            Err(reason) => self.refuse_for_room(rx, reason),
        }
    }

    /// Drops an Interest for which the tables have no room, with a Nack of reason Congestion on a
    /// point-to-point face.
    #[cold]
    pub(crate) fn refuse_for_room(&mut self, rx: &RxPacket<'_>, reason: DropReason) {
        self.counters().drop_packet(reason);
        self.nack_arrived(rx, NackReason::CONGESTION);
    }

    /// Passes an Interest that has joined `entry` to the strategy of its name.
    // A call: it needs few of the registers of its callers, and the strategy of the usual case is inlined.
    #[inline(never)]
    pub(crate) fn run_strategy(&mut self, rx: &RxPacket<'_>, entry: PitIndex, route: &FibEntry) {
        self.context.strategy = route.strategy();
        let (next_hops, next_hops_depth) = match rx.forwarding_hint() {
            None => (route.next_hops(), route.next_hops_depth()),
            Some(hint) => (self.next_hops_by_hint(hint), hinted_depth(rx.hashes())),
        };
        let descriptor = rx.descriptor;
        let interest = PendingInterest {
            entry,
            face: descriptor.face,
            next_hops,
            next_hops_depth,
            prefix_hashes: rx.hashes(),
            wire: rx.plain_wire(),
            handle: Some(rx.buffer),
            congestion_mark: descriptor.congestion_mark,
            non_discovery: rx.has(Flags::NON_DISCOVERY),
            nonce: descriptor.nonce,
            lifetime_ms: descriptor.period_ms,
            is_at_hop_limit: rx.has(Flags::HOP_LIMIT) && descriptor.hop_limit == 0,
            is_for_local: rx.has(Flags::LOCALHOST)
                || (rx.has(Flags::LOCALHOP) && !rx.has(Flags::FROM_LOCAL)),
        };
        if rx.has(Flags::NEXT_HOP) {
            let face_id = u64::from(rx.descriptor.next_hop_face_id);
            self.follow_next_hop_field(&{ interest }, face_id);
            return;
        }
        if let Some(strategy) = self.strategies.find(self.context.strategy) {
            choose_next_hops(&mut self.context, strategy, &interest);
        }
    }

    /// Inserts the Interest into the PIT, and sets the entry to expire with its last in-record.
    #[inline]
    pub(crate) fn join(
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
                self.context.outgoing.admit_entry(principal, rx.wire().len())?;
                let tables = &mut *self.context.outgoing.tables;
                let pcct = &mut tables.pcct;
                let inserted = pcct.insert_new_interest(&rx.interest_key(), rx.wire(), principal);
                let entry = inserted.map_err(|_| DropReason::PitFull)?;
                tables.counters.pit_inserts.increment();
                tables.pcct.entry_mut(entry).strategy_id = strategy.0;
                entry
            }
        };
        let downstreams = pending.map(|pending| &pending.downstreams);
        let expiry = match self.record_downstream(rx.token(), entry, record, downstreams) {
            Ok(expiry) => expiry,
            Err(reason) => {
                if pending.is_none() {
                    self.tables_mut().erase_pending(entry);
                }
                return Err(reason);
            }
        };
        let Outgoing { now, tables, .. } = &mut self.context.outgoing;
        let joined = tables.pcct.entry_mut(entry);
        if joined.phase() == PitPhase::Lingering {
            joined.set_phase(PitPhase::Pending);
        }
        tables.pcct.set_expiry(entry, expiry, *now);
        if let Some(peers) = &mut tables.peers {
            peers.note_expiry(expiry);
        }
        if rx.has(Flags::PREVIOUS_OWNER) {
            let latest = &tables.counters.latest_renewed_expiry_ns;
            latest.set(latest.value().max(expiry.as_nanos()));
        }
        Ok(entry)
    }

    /// [`Self::join`] of an Interest that [is unknown](Self::is_unknown) and fits its entry, for which there is room. Returns the
    /// entry and its token.
    #[inline(always)]
    fn insert_plain(
        &mut self,
        rx: &RxPacket<'_>,
        principal: PrincipalIndex,
        strategy: StrategyId,
        upstream: Option<FaceIndex>,
    ) -> Option<(PitIndex, Token)> {
        let descriptor = rx.descriptor;
        let new = PlainInterest {
            wire: rx.plain_wire(),
            name_hash: descriptor.name_hash,
            name_components: descriptor.components,
            must_be_fresh: rx.has(Flags::MUST_BE_FRESH),
            strategy,
            upstream,
        };
        let Outgoing { now, tables, .. } = &mut self.context.outgoing;
        let record = InRecord::new(descriptor.face, descriptor.nonce, descriptor.period_ms, *now)
            .charged_to(principal)
            .with_token(descriptor.token, descriptor.token_length);
        let (entry, pending) = tables.pcct.insert_plain_interest(&new, record).ok()?;
        let token = pending.token(entry, tables.shard);
        tables.counters.pit_inserts.increment();
        if let Some(peers) = &mut tables.peers {
            peers.note_expiry(record.expiry());
        }
        Some((entry, token))
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
            self.context.outgoing.admit_latest(principal, entry, expiry)?;
        }
        if downstreams.is_some() || token.len() > PIT_TOKEN_INLINE_MAX {
            let found = downstreams.unwrap_or(&InRecordSearch::NONE);
            place = self.context.outgoing.admit_in_record(entry, &record, found, token.len())?;
        }
        let Tables { pcct, counters, .. } = self.tables_mut();
        // What gave way may have been in-records of this entry.
        let found = downstreams.filter(|found| found.count == pcct.entry(entry).in_record_count());
        let inserted = match place {
            None => pcct.add_in_record(entry, record, token),
            Some(place) => pcct.renew_in_record(entry, place, record, token).map(|()| place),
        };
        if place.is_some() && inserted.is_ok() {
            counters.in_record_refreshes.increment();
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
    pub(crate) fn next_hops_by_hint(&self, hint: &[u8]) -> &'a [NextHop] {
        let fib: &'a FibSnapshot = self.fib;
        let mut hashes = [0; PREFIX_HASHES_MAX];
        for delegation in ForwardingHint::from_validated(hint).take(DELEGATIONS_MAX) {
            let hash_count = self.tables().hasher.hash_prefixes(delegation, &mut hashes);
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
        match self.tables().faces.find_by_id(face_id) {
            Some(face) => {
                if self.context.send_interest(interest, face) {
                    self.context.set_interval(interest.entry, face, DIRECTED);
                }
            }
            None => self.context.count_drop(DropReason::NextHopFaceGone),
        }
    }
}

// Data.
impl Incoming<'_> {
    /// Incoming Data pipeline.
    #[inline(always)]
    pub(crate) fn incoming_data(&mut self, rx: &RxPacket<'_>, matches: &mut Matches) {
        const UNCOMMON: Flags =
            Flags::LOCALHOST.union(Flags::LOCALHOP).union(Flags::PREVIOUS_OWNER);
        if self.tables().faces.has_uncertain() {
            let now = self.now();
            self.tables_mut().faces.note_answer(rx.descriptor.face, now);
        }
        if (self.has_short_prefixes || rx.descriptor.flags.intersects(UNCOMMON))
            && self.divert_data(rx, matches)
        {
            return;
        }
        self.counters().in_data.increment();
        let key = rx.data_key();
        let pcct = &self.tables().pcct;
        match pcct.find_only_match(&key) {
            Some(only) if pcct.entry(only.entry()).expiry() > self.now() => {
                let strategy = self.strategy_of(only.entry());
                if self.best_route == Some(strategy) || !self.strategies.observes_data(strategy) {
                    self.satisfy_only(rx, &key, only, &mut matches.copies);
                } else {
                    self.satisfy_observed(rx, &{ key }, &{ only }, &mut matches.copies);
                }
            }
            // A copy: the key of the usual case stays in registers.
            _ => self.satisfy_matches(rx, &{ key }, matches),
        }
    }

    /// Processes a Data that concerns other shards, and drops one that violates scope. Returns whether it was one of these.
    #[cold]
    fn divert_data(&mut self, rx: &RxPacket<'_>, matches: &mut Matches) -> bool {
        if let Some(others) = self.find_others(rx) {
            self.cross_shard_data(rx, CrossShardData::Arrived(others), matches);
            return true;
        }
        let is_out_of_scope = self.is_out_of_scope(rx);
        if is_out_of_scope {
            self.counters().in_data.increment();
            self.counters().drop_packet(DropReason::DataLocalhostScope);
        }
        is_out_of_scope
    }

    /// Searches the entries that a Data satisfies.
    #[inline(never)]
    fn satisfy_matches(&mut self, rx: &RxPacket<'_>, key: &DataKey<'_>, matches: &mut Matches) {
        let Matches { found, copies } = matches;
        self.find_matches(rx, key, found);
        match found.as_slice() {
            [] => {
                self.count_token(rx, &[]);
                self.unsolicited_data(rx);
            }
            entries => {
                self.count_token(rx, entries);
                self.store(rx, key, true);
                for &entry in entries {
                    self.before_satisfy(rx, entry);
                }
                self.send_to_downstreams(rx, entries, copies);
                for &entry in entries {
                    let freshness_ms = u64::from(rx.descriptor.period_ms);
                    self.context.outgoing.finalize_satisfied(entry, freshness_ms);
                }
            }
        }
    }

    /// [`Self::satisfy_only`], after the strategy was called.
    #[inline(never)]
    fn satisfy_observed(
        &mut self,
        rx: &RxPacket<'_>,
        key: &DataKey<'_>,
        only: &OnlyMatch,
        copies: &mut SentCopies,
    ) {
        self.before_satisfy(rx, only.entry());
        self.satisfy_only(rx, key, *only, copies);
    }

    /// Sends a Data to the downstreams of the only PIT entry that it satisfies, ends the entry, and caches the Data.
    #[inline(always)]
    fn satisfy_only(
        &mut self,
        rx: &RxPacket<'_>,
        key: &DataKey<'_>,
        only: OnlyMatch,
        copies: &mut SentCopies,
    ) {
        let entry = only.entry();
        let Outgoing { now, tables, tx } = &mut self.context.outgoing;
        let pending = tables.pcct.entry(entry);
        let Some((record, flags)) = find_only_downstream(tables, rx, pending, *now) else {
            return self.satisfy_only_uncommon(rx, &{ *key }, &{ only }, copies);
        };
        let (expiry, must_be_fresh) = (pending.expiry(), pending.must_be_fresh());
        let token = record.short_token().unwrap_or_default();
        count_only_token(&tables.counters, rx, pending.token(entry, tables.shard));
        outgoing_data_to(tables, *tx, rx, rx.tx_plain(TxKind::Data), record.face, flags, token);
        tables.counters.in_records_satisfied.increment();
        if let Some(peers) = &mut tables.peers {
            // It is not published.
            peers.note_end(expiry);
        }
        if must_be_fresh {
            let freshness_ms = u64::from(rx.descriptor.period_ms);
            self.context.outgoing.remember_satisfied(entry, freshness_ms);
        }
        self.replace_by_data(rx, key, only, rx.plain_wire());
    }

    /// [`Self::satisfy_only`] for an entry that the strategy keeps, or whose Data is not cached, or without one downstream to
    /// which the Data may be sent.
    #[inline(never)]
    fn satisfy_only_uncommon(
        &mut self,
        rx: &RxPacket<'_>,
        key: &DataKey<'_>,
        only: &OnlyMatch,
        copies: &mut SentCopies,
    ) {
        let entry = only.entry();
        self.count_token(rx, &[entry]);
        let is_pending = self.tables().pcct.entry(entry).phase() == PitPhase::Pending;
        if is_pending && !rx.has(Flags::NO_CACHE) {
            self.send_to_downstreams(rx, &[entry], copies);
            self.tables().count_closed(entry, Ending::Data, self.now());
            self.tables_mut().note_erasure(entry);
            let freshness_ms = u64::from(rx.descriptor.period_ms);
            self.context.outgoing.remember_satisfied(entry, freshness_ms);
            self.tables_mut().pcct.strip(entry);
            self.replace_by_data(rx, key, *only, rx.wire());
        } else {
            self.store(rx, key, true);
            self.send_to_downstreams(rx, &[entry], copies);
            let freshness_ms = u64::from(rx.descriptor.period_ms);
            self.context.outgoing.finalize_satisfied(entry, freshness_ms);
        }
    }

    /// Ends a satisfied entry, and caches the Data in its place.
    #[inline(always)]
    fn replace_by_data(
        &mut self,
        rx: &RxPacket<'_>,
        key: &DataKey<'_>,
        only: OnlyMatch,
        wire: &[u8],
    ) {
        let freshness_ms = u64::from(rx.descriptor.period_ms);
        let Outgoing { now, tables, .. } = &mut self.context.outgoing;
        #[cfg(feature = "vip")]
        tables.vip.learn_size(rx);
        tables.counters.satisfied_interests.increment();
        // Not an error: the Content Store may not admit, or have no room for so large a packet.
        let _ = tables.pcct.replace_by_data(only, key, wire, freshness_ms, *now);
    }

    /// Passes a Data that satisfies a PIT entry to the strategy of the entry.
    #[inline(always)]
    fn before_satisfy(&mut self, rx: &RxPacket<'_>, entry: PitIndex) {
        if self.tables().pcct.entry(entry).phase() == PitPhase::Held {
            return;
        }
        self.context.strategy = self.strategy_of(entry);
        if let Some(strategy) = self.strategies.find(self.context.strategy) {
            strategy.before_satisfy(&mut self.context, entry, rx);
        }
    }

    /// [`Self::find_matches`], with the token counters.
    pub(crate) fn find_pending_matches(&mut self, rx: &RxPacket<'_>, matches: &mut Matches) {
        let found = &mut matches.found;
        self.find_matches(rx, &rx.data_key(), found);
        self.count_token(rx, found.as_slice());
    }

    /// The PIT entries that a Data satisfies, at all prefix lengths. Entries that have expired are
    /// finalized here: the result must not depend on whether their timer has fired.
    #[inline]
    fn find_matches(&mut self, rx: &RxPacket<'_>, key: &DataKey<'_>, found: &mut PitMatches) {
        self.tables_mut().pcct.find_pit_matches(key, || sha256(rx.wire()), found);
        let (pcct, now) = (&self.tables().pcct, self.now());
        if found.as_slice().iter().any(|&entry| pcct.entry(entry).expiry() <= now) {
            self.end_expired(found);
        }
    }

    /// Finalizes the entries that have expired, and removes them from `found`.
    #[cold]
    fn end_expired(&mut self, found: &mut PitMatches) {
        let mut position = 0;
        while let Some(entry) = found.get(position) {
            if self.tables().pcct.entry(entry).expiry() > self.now() {
                position += 1;
            } else {
                found.remove(position);
                self.context.outgoing.finalize_unsatisfied(entry, Ending::Expiry);
            }
        }
    }

    /// Counts a hit or miss of a token of ours.
    #[inline]
    fn count_token(&self, rx: &RxPacket<'_>, entries: &[PitIndex]) {
        let Some(token) = rx.own_token().filter(|token| token.shard == self.tables().shard) else {
            return;
        };
        let (pcct, counters) = (&self.tables().pcct, &self.counters());
        if entries.iter().any(|&entry| pcct.is_token_of(token, entry)) {
            counters.token_hits.increment();
        } else {
            counters.token_misses.increment();
        }
    }

    /// Data unsolicited pipeline.
    #[cold]
    pub(crate) fn unsolicited_data(&mut self, rx: &RxPacket<'_>) {
        self.counters().unsolicited_data.increment();
        if self.tables().unsolicited.admits(rx.has(Flags::FROM_LOCAL)) {
            self.store(rx, &rx.data_key(), false);
        } else {
            self.counters().drop_packet(DropReason::UnsolicitedData);
        }
    }

    /// Inserts a Data into the Content Store, unless it has CachePolicy NoCache.
    // A call: within its callers, registers do not suffice.
    #[inline(never)]
    fn store(&mut self, rx: &RxPacket<'_>, key: &DataKey<'_>, is_solicited: bool) {
        #[cfg(feature = "vip")]
        self.tables_mut().vip.learn_size(rx);
        if rx.has(Flags::NO_CACHE) {
            return;
        }
        let freshness_ms = u64::from(rx.descriptor.period_ms);
        let Outgoing { now, tables, .. } = &mut self.context.outgoing;
        // Not an error: the Content Store may not admit, or have no room for so large a packet.
        let _ = tables.pcct.insert_data(key, rx.wire(), freshness_ms, is_solicited, *now);
    }

    /// The strategy instance of a PIT entry.
    #[inline]
    pub(crate) fn strategy_of(&self, entry: PitIndex) -> StrategyId {
        StrategyId(self.tables().pcct.entry(entry).strategy_id)
    }

    /// Sends the Data to every pending downstream except the face it arrived on (unless that is
    /// ad-hoc). A downstream waiting with several PIT tokens gets one copy for each; one waiting
    /// with the same token in several entries gets one copy.
    #[inline]
    fn send_to_downstreams(
        &mut self,
        rx: &RxPacket<'_>,
        entries: &[PitIndex],
        copies: &mut SentCopies,
    ) {
        let tables = &*self.context.outgoing.tables;
        let face = rx.descriptor.face;
        let may_go_back = rx.has(Flags::FROM_AD_HOC);
        // The downstreams of one entry are distinct faces.
        let may_repeat = entries.len() > 1;
        if may_repeat {
            copies.clear();
        }
        for &entry in entries {
            if tables.pcct.entry(entry).phase() == PitPhase::Held {
                continue;
            }
            for record in tables.pcct.in_records(entry) {
                let is_waiting = record.expiry() > self.now();
                if !is_waiting || (record.face == face && !may_go_back) {
                    continue;
                }
                let token = tables.pcct.token_bytes(record);
                if !may_repeat || copies.insert(record.face, tables.hasher.hash_value(token)) {
                    outgoing_arrived_data(tables, self.context.outgoing.tx, rx, record.face, token);
                }
            }
        }
    }
}

// Nacks.
impl Incoming<'_> {
    /// Incoming Nack pipeline.
    pub(crate) fn incoming_nack(&mut self, rx: &RxPacket<'_>) {
        self.counters().in_nacks.increment();
        match self.accept_nack(rx) {
            Ok(()) => {}
            Err(_) if rx.has(Flags::PREVIOUS_OWNER) => self.pass_on(rx),
            Err(reason) => self.counters().drop_packet(reason),
        }
    }

    fn accept_nack(&mut self, rx: &RxPacket<'_>) -> Result<(), DropReason> {
        if !rx.has(Flags::FROM_POINT_TO_POINT) {
            return Err(DropReason::NackLinkType);
        }
        let entry = self.find_or_expire(&rx.interest_key()).ok_or(DropReason::NackUnmatched)?;
        let pcct = &mut self.context.outgoing.tables.pcct;
        if pcct.entry(entry).phase() == PitPhase::Held {
            // Another upstream has answered.
            return Ok(());
        }
        let record = pcct.out_record_mut(entry, rx.descriptor.face);
        let record = record.ok_or(DropReason::NackNoOutRecord)?;
        if record.nonce != rx.descriptor.nonce {
            return Err(DropReason::NackNonce);
        }
        record.nack_reason = Some(rx.descriptor.nack_reason);
        let token = self.tables().pcct.token(entry, self.tables().shard);
        self.context.strategy = self.strategy_of(entry);
        let nack = ArrivedNack {
            face: rx.descriptor.face,
            reason: NackReason(u64::from(rx.descriptor.nack_reason)),
            congestion_mark: rx.descriptor.congestion_mark,
        };
        if let Some(strategy) = self.strategies.strategy(self.context.strategy) {
            strategy.after_receive_nack(&mut self.context, entry, &nack);
        }
        // The strategy may have ended the entry, or sent the Interest to another upstream.
        if self.tables().pcct.find_token(token) == Some(entry)
            && !self.context.out_records(entry).any(|record| self.context.is_awaited(record))
        {
            self.context.outgoing.finalize_unsatisfied(entry, Ending::Nack);
        }
        Ok(())
    }
}

// Timers.
impl<'a> Incoming<'a> {
    /// Runs the timer scheduled under `key`, if the entry is still pending.
    pub(crate) fn strategy_timer(&mut self, key: u64) {
        let [_, _, e0, e1, e2, e3, g0, g1] = key.to_be_bytes();
        let token = Token {
            shard: self.tables().shard,
            entry: u32::from_be_bytes([e0, e1, e2, e3]),
            generation: u16::from_be_bytes([g0, g1]),
        };
        let Some(entry) = self.tables().pcct.find_token(token) else { return };
        self.with_pending(entry, |context, strategy, interest| {
            strategy.on_timer(context, interest);
        });
    }

    /// Calls `act` with the strategy of a PIT entry and its Interest, as it came from a face that is
    /// waiting.
    pub(crate) fn with_pending(
        &mut self,
        entry: PitIndex,
        act: impl FnOnce(&mut Context<'_>, &dyn Strategy, &PendingInterest<'_>),
    ) {
        // Copies the Interest: it must not borrow from the PIT, which the strategy changes.
        let mut copy = std::mem::take(&mut self.tables_mut().timer_scratch);
        copy.clear();
        let wire = self.tables().pcct.interest(entry);
        if wire.len() <= MAX_PACKET_SIZE {
            copy.extend_from_slice(wire);
            self.call_strategy(entry, &copy, act);
        }
        self.tables_mut().timer_scratch = copy;
    }

    /// The in-record that expires last, unless all have. The order of in-records is no criterion: it follows what they are charged
    /// for.
    fn longest_waiting(&self, entry: PitIndex) -> Option<&InRecord> {
        let waiting = self.context.in_records(entry).filter(|record| record.expiry() > self.now());
        waiting.max_by_key(|record| (record.expiry(), Reverse(record.face)))
    }

    fn call_strategy(
        &mut self,
        entry: PitIndex,
        wire: &[u8],
        act: impl FnOnce(&mut Context<'_>, &dyn Strategy, &PendingInterest<'_>),
    ) {
        let Ok(interest) = Interest::parse(wire) else { return };
        let Some(&InRecord { face, lifetime_ms, .. }) = self.longest_waiting(entry) else { return };
        let mut hashes = [0; PREFIX_HASHES_MAX];
        let hash_count = self.tables().hasher.hash_prefixes(interest.name(), &mut hashes);
        let Some(prefix_hashes) = hash_count.map(|count| &hashes[..count]) else { return };
        let fib: &'a FibSnapshot = self.fib;
        let (next_hops, next_hops_depth) = match interest.forwarding_hint_range() {
            Some(range) => (self.next_hops_by_hint(&wire[range]), hinted_depth(prefix_hashes)),
            None => {
                let entry = fib.entry(fib.find_longest_prefix(interest.name(), prefix_hashes));
                (entry.next_hops(), entry.next_hops_depth())
            }
        };
        let is_from_local = self.tables().faces.find(face).is_some_and(|flags| flags.is_local());
        self.context.strategy = self.strategy_of(entry);
        if let Some(strategy) = self.strategies.strategy(self.context.strategy) {
            let interest = PendingInterest {
                entry,
                face,
                next_hops,
                next_hops_depth,
                prefix_hashes,
                wire,
                handle: None,
                congestion_mark: 0,
                non_discovery: false,
                nonce: interest.nonce().unwrap_or_default(),
                lifetime_ms,
                is_at_hop_limit: interest.hop_limit() == Some(0),
                is_for_local: scope::is_localhost(interest.name())
                    || (scope::is_localhop(interest.name()) && !is_from_local),
            };
            act(&mut self.context, strategy, &interest);
        }
    }
}

// Packets that concern more than one shard: short-prefix Interests, the Data that match them, and packets whose names
// move between shards. See `crate::dispatch`.
impl Incoming<'_> {
    /// The other shards that a Data concerns, a bit each: those where a matching short-prefix Interest is pending. None of
    /// them are known for a Data that may belong to another shard. `None` if it concerns no other shard.
    fn find_others(&self, rx: &RxPacket<'_>) -> Option<u64> {
        let peers = self.tables().peers.as_ref()?;
        if rx.has(Flags::PREVIOUS_OWNER) {
            return Some(0);
        }
        if peers.shared.short_prefix.is_empty() {
            return None;
        }
        Some(self.find_homes(peers, rx)).filter(|homes| *homes != 0)
    }

    /// The other shards where a short-prefix Interest that matches a Data is pending, a bit each. The search visits all
    /// shards and prefix lengths, so a Data is searched for once.
    #[cold]
    fn find_homes(&self, peers: &PeerShards, rx: &RxPacket<'_>) -> u64 {
        peers.shared.short_prefix.find(rx.hashes(), self.now()) & !(1 << self.tables().shard)
    }

    fn peers(&mut self) -> &mut PeerShards {
        self.tables_mut().peers.as_deref_mut().expect("only one of several shards gets here")
    }

    /// Sends a packet on to the shard that owns its name.
    #[cold]
    pub(crate) fn pass_on(&mut self, rx: &RxPacket<'_>) {
        let counters = &self.counters();
        if rx.is_interest() {
            counters.passed_on_interests.increment();
        } else {
            counters.passed_on_nacks.increment();
        }
        let to = self.shard_of_name(rx);
        let packet = rx.to_other_shard().without(Flags::PREVIOUS_OWNER);
        self.peers().send(to, ShardMessage::Packet(packet));
    }

    fn shard_of_name(&mut self, rx: &RxPacket<'_>) -> u8 {
        self.peers().shared.ndt.find(rx.name(), rx.hashes()).shard
    }

    /// Processes an Interest that this shard's Content Store does not satisfy, and that has a short prefix or
    /// may belong to another shard.
    #[cold]
    pub(crate) fn cross_shard_interest(
        &mut self,
        rx: &RxPacket<'_>,
        pending: Option<&Joined>,
        is_pending: bool,
        route: &FibEntry,
    ) {
        if rx.has(Flags::PREVIOUS_OWNER) && pending.is_none() {
            self.pass_on(rx);
            return;
        }
        if !rx.has(Flags::SHORT_PREFIX) {
            if !is_pending {
                self.counters().cs_misses.increment();
            }
            self.content_store_miss(rx, pending, route);
            return;
        }
        let entry = match self.join_and_publish(rx, pending, route) {
            Ok(entry) => entry,
            Err(reason) => return self.refuse_for_room(rx, reason),
        };
        let (token, now) = (self.tables().pcct.token(entry, self.tables().shard), self.now());
        let peers = self.peers();
        if is_pending && !peers.is_probing(token, now) {
            self.run_strategy(rx, entry, route);
            return;
        }
        peers.begin_probe(token, now);
        let to = peers.next_shard();
        peers.send(to, ShardMessage::Probe(rx.to_other_shard(), CsProbe { entry: token }));
    }

    fn join_and_publish(
        &mut self,
        rx: &RxPacket<'_>,
        pending: Option<&Joined>,
        route: &FibEntry,
    ) -> Result<PitIndex, DropReason> {
        let entry = self.join(rx, pending, route.strategy())?;
        // An Interest may become a short-prefix one while it is pending, when its entry of the
        // dispatch table is split.
        if !self.publish(entry) && pending.is_none() {
            self.tables_mut().erase_pending(entry);
            return Err(DropReason::ShortPrefixInterestsFull);
        }
        Ok(entry)
    }

    /// Publishes a short-prefix Interest, or updates its expiry. Returns false if there is no room.
    fn publish(&mut self, entry: PitIndex) -> bool {
        let pending = self.tables().pcct.entry(entry);
        let (is_published, principal) = (pending.is_published(), pending.principal());
        let has_room = is_published
            || self.context.outgoing.make_room(Resource::ShortPrefixes, principal, 1, Some(entry));
        let Tables { peers: Some(peers), pcct, hasher, .. } = &mut *self.context.outgoing.tables
        else {
            return true;
        };
        if is_published {
            peers.renew(pcct, hasher, entry);
        }
        is_published || has_room && peers.publish(pcct, hasher, entry).is_ok()
    }

    /// Processes a probe: searches this shard's Content Store, or ends the probe in its home shard.
    pub(crate) fn process_probe(&mut self, rx: &RxPacket<'_>, probe: CsProbe, pool: &PacketPool) {
        if probe.entry.shard == self.tables().shard {
            self.end_probe(rx, probe);
            return;
        }
        let now = self.now();
        let found = self.tables_mut().pcct.find_data(&rx.interest_key(), now, sha256);
        let answer = found.and_then(|data| {
            let tables = &mut *self.context.outgoing.tables;
            let wire = tables.pcct.data(data);
            let handle = tables.peers.as_deref_mut()?.copies.copy([wire], pool)?;
            let freshness_ms = Data::parse(wire).ok().and_then(|data| data.freshness_ms());
            let interest = InterestMark {
                name_hash: rx.descriptor.name_hash,
                can_be_prefix: rx.has(Flags::CAN_BE_PREFIX),
                must_be_fresh: rx.has(Flags::MUST_BE_FRESH),
            };
            Some(ProbeAnswer {
                entry: probe.entry,
                interest,
                handle,
                freshness_ms: freshness_ms.unwrap_or(0),
                is_localhost: rx.has(Flags::LOCALHOST),
            })
        });
        let peers = self.peers();
        match answer {
            Some(answer) => peers.send(probe.entry.shard, ShardMessage::ProbeAnswer(answer)),
            None => {
                let to = peers.next_shard();
                peers.send(to, ShardMessage::Probe(rx.to_other_shard(), probe));
            }
        }
    }

    /// Ends a probe that found no Data: forwards the Interest, unless it was satisfied meanwhile.
    fn end_probe(&mut self, rx: &RxPacket<'_>, probe: CsProbe) {
        self.peers().end_probe(probe.entry);
        let Some(entry) = self.tables().pcct.find_token(probe.entry) else { return };
        // The token is a hint: its entry may have been erased, and its slot reused.
        if self.tables().pcct.find_interest(&rx.interest_key()) != Some(entry) {
            return;
        }
        if self.tables().pcct.entry(entry).expiry() <= self.now() {
            self.context.outgoing.finalize_unsatisfied(entry, Ending::Expiry);
            return;
        }
        if self.context.outgoing.in_record(entry, rx.descriptor.face).is_none() {
            return;
        }
        self.counters().cs_misses.increment();
        let route = self.fib.find_longest_prefix(rx.name(), rx.hashes());
        self.run_strategy(rx, entry, self.fib.entry(route));
    }

    /// Satisfies a pending Interest with a Data that a probe has found in another shard.
    pub(crate) fn answer_from_probe(&mut self, answer: &ProbeAnswer, wire: &[u8]) {
        self.peers().end_probe(answer.entry);
        let Some(entry) = self.tables().pcct.find_token(answer.entry) else { return };
        // The token is a hint: its entry may have been erased, and its slot reused.
        if self.mark_of(entry) != answer.interest {
            return;
        }
        if self.tables().pcct.entry(entry).expiry() <= self.now() {
            self.context.outgoing.finalize_unsatisfied(entry, Ending::Expiry);
            return;
        }
        let tables = &*self.context.outgoing.tables;
        tables.counters.cs_hits.increment();
        tables.counters.cs_hits_of_pending.increment();
        let data = TxPacket {
            incoming_face_id: Some(CONTENT_STORE_FACE_ID),
            ..TxPacket::new(TxKind::Data, wire, Some(&answer.handle))
        };
        for record in tables.pcct.in_records(entry) {
            if record.expiry() > self.now() && tables.faces.find(record.face).is_some() {
                let token = tables.pcct.token_bytes(record);
                outgoing_data(
                    tables,
                    self.context.outgoing.tx,
                    data,
                    answer.is_localhost,
                    record.face,
                    token,
                );
            }
        }
        if self.tables().pcct.entry(entry).phase() == PitPhase::Held {
            self.context.outgoing.drop_held(entry);
            self.tables_mut().pcct.entry_mut(entry).set_phase(PitPhase::Pending);
        }
        self.context.outgoing.finalize_satisfied(entry, answer.freshness_ms);
    }

    fn mark_of(&self, entry: PitIndex) -> InterestMark {
        let Tables { pcct, hasher, .. } = self.tables();
        let pending = pcct.entry(entry);
        InterestMark {
            name_hash: hasher.hash_value(pcct.interest_name(entry).value()),
            can_be_prefix: pending.can_be_prefix(),
            must_be_fresh: pending.must_be_fresh(),
        }
    }

    /// Whether a Data under `/localhost` came from another host, or one claims to be of management.
    #[cold]
    fn is_out_of_scope(&self, rx: &RxPacket<'_>) -> bool {
        let Tables { faces, .. } = self.tables();
        let is_internal = |face: FaceIndex| faces.face_id(face) == Some(INTERNAL_FACE_ID);
        if rx.has(Flags::LOCALHOST) {
            let face = rx.descriptor.face;
            return !rx.has(Flags::FROM_LOCAL)
                || scope::is_management(rx.name()) && !is_internal(face);
        }
        if !rx.has(Flags::LOCALHOP) || !scope::is_management_for_neighbours(rx.name()) {
            return false;
        }
        // Where management does not serve it, the prefix leads to a router, which answers.
        let route = self.fib.find_longest_prefix(rx.name(), rx.hashes());
        let next_hops = self.fib.entry(route).next_hops();
        let is_served = next_hops.iter().any(|hop| is_internal(hop.face));
        is_served && !next_hops.iter().any(|hop| hop.face == rx.descriptor.face)
    }

    /// Processes a Data that matches short-prefix Interests of other shards, that may belong to another shard, or
    /// that has visited other shards.
    #[cold]
    pub(crate) fn cross_shard_data(
        &mut self,
        rx: &RxPacket<'_>,
        data: CrossShardData,
        matches: &mut Matches,
    ) {
        let is_previous_owner = rx.has(Flags::PREVIOUS_OWNER);
        let stage = match &data {
            CrossShardData::Arrived(_) => Stage::Name,
            CrossShardData::Visiting(visit) => visit.stage,
        };
        if stage == Stage::Name && !is_previous_owner {
            self.counters().in_data.increment();
        }
        if self.is_out_of_scope(rx) {
            self.counters().drop_packet(DropReason::DataLocalhostScope);
            return;
        }
        let mut visit = match data {
            CrossShardData::Visiting(mut visit) => {
                if stage == Stage::Name
                    && let Some(peers) = &self.tables().peers
                {
                    visit.homes = self.find_homes(peers, rx);
                }
                visit
            }
            CrossShardData::Arrived(homes) => {
                let mut visit = self.peers().take_visit();
                visit.homes = homes;
                visit
            }
        };
        self.find_pending_matches(rx, matches);
        if is_previous_owner {
            visit.is_solicited |= !matches.pending().is_empty();
            self.satisfy_cross_shard(rx, &mut visit, matches);
            let to = self.shard_of_name(rx);
            let packet = rx.to_other_shard().without(Flags::PREVIOUS_OWNER);
            self.peers().send(to, ShardMessage::Visit(packet, visit));
            return;
        }
        if stage == Stage::Name && !self.admit_and_store(rx, &visit, matches) {
            self.peers().return_visit(visit);
            return;
        }
        self.satisfy_cross_shard(rx, &mut visit, matches);
        self.visit_next_home(rx, visit);
    }

    /// In the shard that owns the name: caches the Data. Returns false if it is unsolicited.
    fn admit_and_store(&mut self, rx: &RxPacket<'_>, visit: &DataVisit, matches: &Matches) -> bool {
        let is_solicited = !matches.pending().is_empty() || visit.homes != 0;
        if !is_solicited && !visit.is_solicited {
            self.unsolicited_data(rx);
            return false;
        }
        self.store(rx, &rx.data_key(), true);
        true
    }

    fn visit_next_home(&mut self, rx: &RxPacket<'_>, mut visit: Box<DataVisit>) {
        if visit.homes == 0 {
            self.peers().return_visit(visit);
            return;
        }
        let home = visit.homes.trailing_zeros();
        visit.homes &= visit.homes - 1;
        visit.stage = Stage::Home;
        let to = u8::try_from(home).unwrap_or(u8::MAX);
        self.peers().send(to, ShardMessage::Visit(rx.to_other_shard(), visit));
    }

    /// Satisfies the PIT entries of this shard, and sends the Data to downstreams that no other shard has sent it
    /// to.
    fn satisfy_cross_shard(
        &mut self,
        rx: &RxPacket<'_>,
        visit: &mut DataVisit,
        matches: &mut Matches,
    ) {
        let (entries, copies) = matches.parts();
        for &entry in entries {
            self.before_satisfy(rx, entry);
        }
        copies.clear();
        for &(face, token_hash) in visit.copies() {
            copies.insert(face, token_hash);
        }
        let tables = &*self.context.outgoing.tables;
        let face = rx.descriptor.face;
        let may_return = rx.has(Flags::FROM_AD_HOC);
        for &entry in entries {
            if tables.pcct.entry(entry).phase() == PitPhase::Held {
                continue;
            }
            for record in tables.pcct.in_records(entry) {
                if record.expiry() <= self.now() || (record.face == face && !may_return) {
                    continue;
                }
                let token = tables.pcct.token_bytes(record);
                let token_hash = tables.hasher.hash_value(token);
                if copies.insert(record.face, token_hash) {
                    visit.note_copy(record.face, token_hash);
                    outgoing_arrived_data(tables, self.context.outgoing.tx, rx, record.face, token);
                }
            }
        }
        for &entry in entries {
            self.context.outgoing.finalize_satisfied(entry, u64::from(rx.descriptor.period_ms));
        }
    }
}

/// Counts a hit or miss of a token of ours on a Data that satisfies one entry, which has the token `own`.
#[inline(always)]
fn count_only_token(counters: &Counters, rx: &RxPacket<'_>, own: Token) {
    let Descriptor { token, token_length, .. } = *rx.descriptor;
    if usize::from(token_length) != TOKEN_LENGTH {
        return;
    }
    let differs = (u64::from_be_bytes(token) ^ own.to_number()) >> 16;
    if differs == 0 {
        counters.token_hits.increment();
    } else if differs >> 40 == 0 {
        // Of this shard.
        counters.token_misses.increment();
    }
}

/// The only in-record of an entry, and the properties of its face, if the Data may be cached, has no announcement, and is sent
/// to that face.
#[inline(always)]
fn find_only_downstream<'a>(
    tables: &'a Tables,
    rx: &RxPacket<'_>,
    pending: &'a PitEntry,
    now: Timestamp,
) -> Option<(&'a InRecord, FaceFlags)> {
    let record = pending.only_in_record()?;
    let flags = tables.faces.find(record.face)?;
    let Descriptor { face, flags: of_data, .. } = *rx.descriptor;
    let is_sent = record.expiry() > now
        && !of_data.intersects(Flags::LOCALHOST.union(Flags::NO_CACHE).union(Flags::ANNOUNCEMENT))
        && (record.face != face || of_data.contains(Flags::FROM_AD_HOC));
    is_sent.then_some((record, flags))
}

/// Calls the strategy, and probes next hops that came back or are in doubt.
#[inline(always)]
pub(crate) fn choose_next_hops(
    context: &mut Context<'_>,
    strategy: &(impl Strategy + ?Sized),
    interest: &PendingInterest<'_>,
) {
    if !context.outgoing.tables.faces.has_uncertain() {
        return strategy.after_receive_interest(context, interest);
    }
    choose_and_probe(context, strategy, &{ *interest });
}

#[cold]
fn choose_and_probe(
    context: &mut Context<'_>,
    strategy: &(impl Strategy + ?Sized),
    interest: &PendingInterest<'_>,
) {
    let tables = &*context.outgoing.tables;
    let token = tables.pcct.token(interest.entry, tables.shard);
    strategy.after_receive_interest(context, interest);
    // The strategy may have ended the entry.
    if context.outgoing.tables.pcct.find_token(token) == Some(interest.entry) {
        context.probe_uncertain(interest);
    }
}
