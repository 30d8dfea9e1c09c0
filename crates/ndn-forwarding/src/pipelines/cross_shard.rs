//! Packets that concern more than one shard: short-prefix Interests, the Data that match them, and packets
//! whose names move between shards. See [`crate::dispatch`].

use ndn_packet::Data;
use ndn_ring::PacketPool;
use ndn_table::{FibSlot, PitIndex, PitPhase, Resource};

use super::Matches;
use super::finalize::Ending;
use super::interest::Joined;
use crate::descriptor::Flags;
use crate::dispatch::{Answer, Content, CsProbe, DataVisit, Parcel, Stage};
use crate::packet::RxPacket;
use crate::packet::sha256;
use crate::peers::PeerShards;
use crate::strategy::{Context, StrategyTable};
use crate::tables::Tables;
use crate::{CONTENT_STORE_FACE_ID, DropReason, TxKind, TxPacket};

impl Context<'_> {
    /// Whether a Data may concern other shards.
    #[inline]
    pub(super) fn may_concern_others(&self, rx: &RxPacket<'_>) -> bool {
        match &self.tables.peers {
            None => false,
            Some(peers) => {
                let short_prefix = &peers.shared.short_prefix;
                rx.has(Flags::PREVIOUS_OWNER)
                    || !short_prefix.is_empty() && self.is_pending_elsewhere(rx)
            }
        }
    }

    /// Whether a short-prefix Interest that is pending in another shard matches a Data. Without this check,
    /// one Interest for `/` or a first component would send all Data of all shards through this path.
    #[cold]
    fn is_pending_elsewhere(&self, rx: &RxPacket<'_>) -> bool {
        let homes = self.tables.peers.as_ref().map_or(0, |peers| {
            peers.shared.short_prefix.find(rx.hashes(), self.now) & !(1 << self.tables.shard)
        });
        homes != 0
    }

    fn peers(&mut self) -> &mut PeerShards {
        self.tables.peers.as_deref_mut().expect("only one of several shards gets here")
    }

    /// Sends a packet on to the shard that owns its name.
    #[cold]
    pub(super) fn pass_on(&mut self, rx: &RxPacket<'_>) {
        let counters = &self.tables.counters;
        if rx.is_interest() {
            counters.passed_on_interests.increment();
        } else {
            counters.passed_on_nacks.increment();
        }
        let to = self.shard_of_name(rx);
        let parcel = Parcel::copy_of(rx).without(Flags::PREVIOUS_OWNER);
        self.peers().send(to, Content::Packet(parcel));
    }

    fn shard_of_name(&mut self, rx: &RxPacket<'_>) -> u8 {
        self.peers().shared.ndt.find(rx.name(), rx.hashes()).shard
    }

    /// Processes an Interest that this shard's Content Store does not satisfy, and that has a short prefix or
    /// may belong to another shard.
    #[cold]
    pub(super) fn cross_shard_interest(
        &mut self,
        rx: &RxPacket<'_>,
        pending: Option<&Joined>,
        is_pending: bool,
        route: FibSlot,
        strategies: &StrategyTable,
    ) {
        if rx.has(Flags::PREVIOUS_OWNER) && pending.is_none() {
            self.pass_on(rx);
            return;
        }
        if !rx.has(Flags::SHORT_PREFIX) {
            if !is_pending {
                self.tables.counters.cs_misses.increment();
            }
            self.content_store_miss(rx, pending, route, strategies);
            return;
        }
        let entry = match self.join_and_publish(rx, pending, route) {
            Ok(entry) => entry,
            Err(reason) => return self.refuse_for_room(rx, reason),
        };
        let (token, now) = (self.tables.pcct.token(entry, self.tables.shard), self.now);
        let peers = self.peers();
        if is_pending && !peers.is_probing(token, now) {
            self.run_strategy(rx, entry, route, strategies);
            return;
        }
        peers.begin_probe(token, now);
        let to = peers.next_shard();
        peers.send(to, Content::Probe(Parcel::copy_of(rx), CsProbe { entry: token }));
    }

    fn join_and_publish(
        &mut self,
        rx: &RxPacket<'_>,
        pending: Option<&Joined>,
        route: FibSlot,
    ) -> Result<PitIndex, DropReason> {
        let strategy = self.fib.entry(route).strategy();
        let entry = self.join(rx, pending, strategy)?;
        // An Interest may become a short-prefix one while it is pending, when its entry of the
        // dispatch table is split.
        if !self.publish(entry) && pending.is_none() {
            self.tables.erase_pending(entry);
            return Err(DropReason::ShortPrefixInterestsFull);
        }
        Ok(entry)
    }

    /// Publishes a short-prefix Interest, or updates its expiry. Returns false if there is no room.
    fn publish(&mut self, entry: PitIndex) -> bool {
        let pending = self.tables.pcct.entry(entry);
        let (is_published, principal) = (pending.is_published(), pending.principal());
        let has_room =
            is_published || self.make_room(Resource::ShortPrefixes, principal, 1, Some(entry));
        let Tables { peers: Some(peers), pcct, hasher, .. } = &mut *self.tables else {
            return true;
        };
        if is_published {
            peers.renew(pcct, hasher, entry);
        }
        is_published || has_room && peers.publish(pcct, hasher, entry).is_ok()
    }

    /// Processes a probe: searches this shard's Content Store, or ends the probe in its home shard.
    pub(crate) fn process_probe(
        &mut self,
        rx: &RxPacket<'_>,
        probe: CsProbe,
        pool: &PacketPool,
        strategies: &StrategyTable,
    ) {
        if probe.entry.shard == self.tables.shard {
            self.end_probe(rx, probe, strategies);
            return;
        }
        let found = self.tables.pcct.find_data(&rx.interest_key(), self.now, sha256);
        let answer = found.and_then(|data| {
            let tables = &mut *self.tables;
            let wire = tables.pcct.data(data);
            let handle = tables.peers.as_deref_mut()?.copies.copy([wire], pool)?;
            let freshness_ms = Data::parse(wire).ok().and_then(|data| data.freshness_ms());
            Some(Answer {
                entry: probe.entry,
                handle,
                freshness_ms: freshness_ms.unwrap_or(0),
                is_localhost: rx.has(Flags::LOCALHOST),
            })
        });
        let peers = self.peers();
        match answer {
            Some(answer) => peers.send(probe.entry.shard, Content::Answer(answer)),
            None => {
                let to = peers.next_shard();
                peers.send(to, Content::Probe(Parcel::copy_of(rx), probe));
            }
        }
    }

    /// Ends a probe that found no Data: forwards the Interest, unless it was satisfied meanwhile.
    fn end_probe(&mut self, rx: &RxPacket<'_>, probe: CsProbe, strategies: &StrategyTable) {
        self.peers().end_probe(probe.entry);
        let Some(entry) = self.tables.pcct.find_token(probe.entry) else { return };
        // The token is a hint: its entry may have been erased, and its slot reused.
        if self.tables.pcct.find_interest(&rx.interest_key()) != Some(entry) {
            return;
        }
        if self.tables.pcct.entry(entry).expiry() <= self.now {
            self.finalize_unsatisfied(entry, Ending::Expiry);
            return;
        }
        if self.in_record(entry, rx.descriptor.face).is_none() {
            return;
        }
        self.tables.counters.cs_misses.increment();
        let route = self.fib.find_longest_prefix(rx.name(), rx.hashes());
        self.run_strategy(rx, entry, route, strategies);
    }

    /// Satisfies a pending Interest with a Data that a probe has found in another shard.
    pub(crate) fn answer_from_probe(&mut self, answer: &Answer, wire: &[u8]) {
        self.peers().end_probe(answer.entry);
        let Some(entry) = self.tables.pcct.find_token(answer.entry) else { return };
        // The token is a hint: its entry may have been erased, and its slot reused.
        let interest_name = self.tables.pcct.interest_name(entry);
        if !Data::parse(wire).is_ok_and(|data| data.name().starts_with(interest_name)) {
            return;
        }
        if self.tables.pcct.entry(entry).expiry() <= self.now {
            self.finalize_unsatisfied(entry, Ending::Expiry);
            return;
        }
        let tables = &*self.tables;
        tables.counters.cs_hits.increment();
        tables.counters.cs_hits_of_pending.increment();
        let data = TxPacket {
            incoming_face_id: Some(CONTENT_STORE_FACE_ID),
            ..TxPacket::new(TxKind::Data, wire, Some(&answer.handle))
        };
        for record in tables.pcct.in_records(entry) {
            if record.expiry() > self.now && tables.faces.find(record.face).is_some() {
                let token = tables.pcct.token_bytes(record);
                tables.outgoing_data(self.tx, data, answer.is_localhost, record.face, token);
            }
        }
        if self.tables.pcct.entry(entry).phase() == PitPhase::Held {
            self.drop_held(entry);
            self.tables.pcct.entry_mut(entry).set_phase(PitPhase::Pending);
        }
        self.finalize_satisfied(entry, answer.freshness_ms);
    }

    /// Processes a Data that matches short-prefix Interests of other shards, that may belong to another shard, or
    /// that has visited other shards (`visit`).
    #[cold]
    pub(crate) fn cross_shard_data(
        &mut self,
        rx: &RxPacket<'_>,
        visit: Option<Box<DataVisit>>,
        matches: &mut Matches,
        strategies: &StrategyTable,
    ) {
        let is_previous_owner = rx.has(Flags::PREVIOUS_OWNER);
        let stage = visit.as_ref().map_or(Stage::Name, |visit| visit.stage);
        if stage == Stage::Name && !is_previous_owner {
            self.tables.counters.in_data.increment();
        }
        if rx.has(Flags::LOCALHOST) && !rx.has(Flags::FROM_LOCAL) {
            self.tables.counters.drop_packet(DropReason::DataLocalhostScope);
            return;
        }
        let mut visit = visit.unwrap_or_else(|| self.peers().take_visit());
        self.find_pending_matches(rx, matches);
        if is_previous_owner {
            visit.is_solicited |= !matches.pending().is_empty();
            self.satisfy_cross_shard(rx, &mut visit, matches, strategies);
            let to = self.shard_of_name(rx);
            let parcel = Parcel::copy_of(rx).without(Flags::PREVIOUS_OWNER);
            self.peers().send(to, Content::Visit(parcel, visit));
            return;
        }
        if stage == Stage::Name && !self.admit_and_store(rx, &mut visit, matches) {
            self.peers().return_visit(visit);
            return;
        }
        self.satisfy_cross_shard(rx, &mut visit, matches, strategies);
        self.visit_next_home(rx, visit);
    }

    /// In the shard that owns the name: finds the other shards where a matching Interest is pending, and caches the
    /// Data. Returns false if it is unsolicited.
    fn admit_and_store(
        &mut self,
        rx: &RxPacket<'_>,
        visit: &mut DataVisit,
        matches: &Matches,
    ) -> bool {
        let (shard, now) = (self.tables.shard, self.now);
        visit.homes = self.peers().shared.short_prefix.find(rx.hashes(), now) & !(1 << shard);
        let is_solicited = !matches.pending().is_empty() || visit.homes != 0;
        if !is_solicited && !visit.is_solicited {
            self.unsolicited_data(rx);
            return false;
        }
        self.store(rx, true);
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
        self.peers().send(to, Content::Visit(Parcel::copy_of(rx), visit));
    }

    /// Satisfies the PIT entries of this shard, and sends the Data to downstreams that no other shard has sent it
    /// to.
    fn satisfy_cross_shard(
        &mut self,
        rx: &RxPacket<'_>,
        visit: &mut DataVisit,
        matches: &mut Matches,
        strategies: &StrategyTable,
    ) {
        let arrived = Self::arrived_data(rx);
        let (entries, copies) = matches.parts();
        for &entry in entries {
            if self.tables.pcct.entry(entry).phase() == PitPhase::Held {
                continue;
            }
            self.strategy = self.strategy_of(entry);
            if let Some(strategy) = strategies.strategy(self.strategy) {
                strategy.before_satisfy(self, entry, &arrived);
            }
        }
        copies.clear();
        for &(face, token_hash) in visit.copies() {
            copies.insert(face, token_hash);
        }
        let tables = &*self.tables;
        let face = rx.descriptor.face;
        let may_return = rx.has(Flags::FROM_AD_HOC);
        for &entry in entries {
            if tables.pcct.entry(entry).phase() == PitPhase::Held {
                continue;
            }
            for record in tables.pcct.in_records(entry) {
                if record.expiry() <= self.now || (record.face == face && !may_return) {
                    continue;
                }
                let token = tables.pcct.token_bytes(record);
                let token_hash = tables.hasher.hash_value(token);
                if copies.insert(record.face, token_hash) {
                    visit.note_copy(record.face, token_hash);
                    tables.outgoing_arrived_data(self.tx, rx, record.face, token);
                }
            }
        }
        for &entry in entries {
            self.finalize_satisfied(entry, u64::from(rx.descriptor.period_ms));
        }
    }
}
