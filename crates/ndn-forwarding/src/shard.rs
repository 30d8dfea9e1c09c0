//! A forwarding shard.

use std::ops::Range;
use std::sync::Arc;

use ndn_packet::{MAX_PACKET_SIZE, NameRef};
use ndn_ring::PacketPool;
use ndn_table::{
    DeadNonceList, FaceIndex, FibSearch, FibSnapshot, LedgerReport, NameHasher, NextHop,
    PREFIX_HASHES_MAX, Pcct, PcctConfig, TimerWheel, Token,
};
use ndn_types::{NANOS_PER_MILLI, PrincipalIndex, PrincipalKey, Timestamp};

use crate::descriptor::{Descriptor, Flags};
use crate::dispatch::{AddressedMessage, ShardMessage};
use crate::incoming::{CrossShardData, Incoming, Matches};
use crate::learning::{Learning, LearningRequest};
use crate::outgoing::Outgoing;
use crate::packet::{Positions, RxPacket};
use crate::packet_trace::{Before, NotingSink};
use crate::peers::PeerShards;
use crate::strategy::{Measurements, StrategyTable};
use crate::sweep::sweep;
use crate::tables::{Ending, Sweep, Tables};
use crate::{
    BURST_SIZE, Burst, Counters, CrossShardPacket, Decision, FaceProperties, LinkEvent, Observers,
    PacketKind, PacketTrace, ShardFaces, SharedTables, TxSink, UnsolicitedPolicy,
};

/// Maximum number of PIT timer records checked, and of strategy timers run, in one call of
/// [`Shard::poll_timers`].
const TIMERS_PER_POLL_MAX: u32 = 256;

/// Maximum number of background steps of the Content Store in one call.
const CS_STEPS_PER_POLL_MAX: usize = 64;

/// Sizes and fixed settings of a shard.
#[derive(Debug, Clone)]
pub struct ShardConfig {
    /// Number of the shard, as in the PIT tokens that it originates.
    pub shard: u8,
    /// The key that all shards, the ingress and the FIB share.
    pub hasher: NameHasher,
    /// Capacities of PIT and Content Store.
    pub pcct: PcctConfig,
    /// Lifetime of a record in the dead nonce list.
    pub dead_nonce_lifetime_ms: u64,
    /// Capacity of the dead nonce list.
    pub dead_nonce_capacity: usize,
    /// Capacity for strategy timers.
    pub strategy_timer_capacity: usize,
    /// Policy for unsolicited Data.
    pub unsolicited: UnsolicitedPolicy,
}

/// One forwarding shard: its PIT, its Content Store, and the pipelines.
///
/// A worker calls [`process_burst`](Self::process_burst) and [`end_burst`](Self::end_burst) for each
/// burst, and [`poll_timers`](Self::poll_timers) once per round, with one reading of the clock. The sink
/// queues packets, which are written later. Changes by the control thread are applied between bursts. Time never goes back
/// from one call to the next.
#[derive(Debug)]
pub struct Shard {
    pub(crate) tables: Tables,
    pub(crate) fib: Arc<FibSnapshot>,
    pub(crate) strategies: Arc<StrategyTable>,
    /// Searches of the FIB for the Interests of the burst.
    routes: Box<[FibSearch; BURST_SIZE]>,
    pub(crate) matches: Matches,
    /// A burst for packets from other shards, one at a time.
    pub(crate) message_burst: Option<Box<Burst>>,
}

impl Shard {
    /// An empty shard without faces. Reserves all memory.
    #[must_use]
    pub fn new(
        config: &ShardConfig,
        fib: Arc<FibSnapshot>,
        strategies: Arc<StrategyTable>,
        counters: Arc<Counters>,
        now: Timestamp,
    ) -> Self {
        let tables = Tables {
            shard: config.shard,
            hasher: config.hasher,
            pcct: Pcct::new(&config.pcct, config.hasher),
            dead_nonces: DeadNonceList::new(
                config.dead_nonce_capacity,
                config.dead_nonce_lifetime_ms * NANOS_PER_MILLI,
            ),
            dead_nonce_lifetime_ms: config.dead_nonce_lifetime_ms,
            faces: ShardFaces::new(),
            sweep: Sweep::default(),
            unsolicited: config.unsolicited,
            strategy_timers: TimerWheel::new(config.strategy_timer_capacity, now),
            measurements: Measurements::new(),
            learning: Learning::default(),
            #[cfg(feature = "vip")]
            vip: crate::vip::Vip::default(),
            counters,
            peers: None,
            scratch: Box::new([0; MAX_PACKET_SIZE]),
            timer_scratch: Vec::with_capacity(MAX_PACKET_SIZE),
            nonce_scratch: (0..2).map(|_| Vec::with_capacity(MAX_PACKET_SIZE)).collect(),
        };
        Self {
            tables,
            fib,
            strategies,
            routes: Box::new([FibSearch::default(); BURST_SIZE]),
            matches: Matches::new(),
            message_burst: None,
        }
    }

    /// Forwards the packets of `rx`, in order, and writes outgoing packets to `tx`. The packets
    /// stay in `rx`; the worker releases them once `tx` no longer needs them.
    ///
    /// The first stages prefetch what the last one will touch, for all packets of the burst; they
    /// make no decisions, because packets of one burst may touch the same entries.
    pub fn process_burst(
        &mut self,
        now: Timestamp,
        rx: &mut Burst,
        pool: &PacketPool,
        tx: &mut impl TxSink,
    ) {
        self.prefetch_stages(now, rx, pool);
        self.apply(now, rx, pool, 0..rx.len(), tx);
    }

    /// [`process_burst`](Self::process_burst) with observation of each packet: by the timer, whose stage the worker
    /// begins and finishes, and by the tracer.
    #[cold]
    #[inline(never)]
    pub fn process_burst_observed(
        &mut self,
        now: Timestamp,
        rx: &mut Burst,
        pool: &PacketPool,
        tx: &mut impl TxSink,
        observers: &mut Observers<'_>,
    ) {
        self.prefetch_stages(now, rx, pool);
        if let Some(timer) = &mut observers.timer {
            timer.begin_laps();
        }
        for index in 0..rx.len() {
            let Some(packet) = RxPacket::new(rx, index, pool) else { continue };
            match observers.tracer_of(now, packet.name()) {
                None => self.apply(now, rx, pool, index..index + 1, tx),
                Some(tracer) => {
                    let trace = self.apply_traced(now, rx, pool, index, tx);
                    trace.into_iter().for_each(|trace| tracer.record(trace));
                }
            }
            if let Some(timer) = &mut observers.timer {
                timer.lap(index, packet.descriptor.kind);
            }
        }
    }

    /// Runs the pipeline of one packet; returns what it decided.
    fn apply_traced(
        &mut self,
        now: Timestamp,
        rx: &Burst,
        pool: &PacketPool,
        index: usize,
        tx: &mut impl TxSink,
    ) -> Option<PacketTrace> {
        let packet = RxPacket::new(rx, index, pool)?;
        let (kind, name) = (packet.descriptor.kind, packet.name());
        let before = Before::of(&self.tables);
        let mut noting = NotingSink { tx, sent: Vec::new() };
        self.apply(now, rx, pool, index..index + 1, &mut noting);
        let sent = noting.sent;
        let (mut decisions, is_pending) = before.decisions(kind, &self.tables);
        let face_id = |face| self.tables.faces.face_id(face).unwrap_or(0);
        if is_pending && packet.forwarding_hint().is_none() {
            let search = self.routes[index % BURST_SIZE];
            let entry = self.fib.finish_with_entry(search, name, packet.hashes());
            let strategy = self.strategies.name(entry.strategy()).unwrap_or(NameRef::ROOT);
            let route = Decision::Route {
                prefix: name.prefix(entry.next_hops_depth()).to_name(),
                next_hops: entry.next_hops().iter().map(|hop| face_id(hop.face)).collect(),
                strategy: strategy.to_name(),
            };
            // After the decision of the PIT.
            decisions.insert(1, route);
        }
        decisions.extend(
            sent.into_iter().map(|(kind, face)| Decision::Sent { kind, face_id: face_id(face) }),
        );
        Some(PacketTrace {
            shard: self.tables.shard,
            time: now,
            face_id: face_id(packet.descriptor.face),
            kind,
            name: name.to_name(),
            decisions,
        })
    }

    /// Stages 1 to 4: each prefetches what the next one reads, for all packets of the burst.
    #[inline(always)]
    fn prefetch_stages(&mut self, now: Timestamp, rx: &Burst, pool: &PacketPool) {
        let next = self.prefetch_buckets(now, rx, pool);
        let (unfinished, hits) = self.prefetch_entries(rx, pool, &next);
        self.find_routes(rx, unfinished);
        self.prefetch_payloads(rx, pool, &hits);
    }

    /// Updates the gauges.
    pub fn end_burst(&self) {
        let (counters, pcct) = (&self.tables.counters, &self.tables.pcct);
        counters.pit_entries.set(pcct.pit_len() as u64);
        counters.in_records.set(pcct.in_records_len() as u64);
        counters.cs_entries.set(pcct.cs_len() as u64);
        let cs = pcct.cs_counters();
        counters.cs_inserts.set(cs.insertions);
        counters.cs_evictions.set(cs.evictions);
        counters.cs_bytes.set(pcct.cs_bytes_in_use() as u64);
        if let Some(peers) = &self.tables.peers {
            counters.latest_expiry_ns.set(peers.latest_expiry().as_nanos());
        }
    }

    /// Ends expired PIT entries and runs strategy timers. Does a bounded amount of work; returns
    /// whether more is due.
    pub fn poll_timers(&mut self, now: Timestamp, tx: &mut impl TxSink) -> bool {
        let outgoing = Outgoing { now, tables: &mut self.tables, tx };
        let mut incoming = Incoming::new(outgoing, &self.fib, &self.strategies);
        let mut budget = TIMERS_PER_POLL_MAX;
        while let Some(entry) = incoming.tables_mut().pcct.pop_expired(now, &mut budget) {
            incoming.context.outgoing.finalize_unsatisfied(entry, Ending::Expiry);
        }
        let mut timer_count = 0;
        while timer_count < TIMERS_PER_POLL_MAX
            && let Some((key, _)) = incoming.tables_mut().strategy_timers.pop(now)
        {
            incoming.strategy_timer(key);
            timer_count += 1;
        }
        let is_sweeping = sweep(&mut incoming);
        let has_stale_data = self.tables.pcct.poll_cs(now, CS_STEPS_PER_POLL_MAX);
        self.tables.pcct.disk_mut().into_iter().for_each(|disk| disk.poll(now));
        budget == 0 || timer_count == TIMERS_PER_POLL_MAX || has_stale_data || is_sweeping
    }

    /// When [`poll_timers`](Self::poll_timers) next has work.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let entries = self.tables.pcct.next_deadline();
        let timers = self.tables.strategy_timers.next_deadline();
        let disk = self.tables.pcct.disk().and_then(ndn_disk::Share::next_deadline);
        let entries = entries.into_iter().chain(disk);
        entries.into_iter().chain(timers).chain(self.tables.next_sweep()).min()
    }

    /// Adds a face, or changes its properties.
    pub fn set_face(&mut self, index: FaceIndex, properties: &FaceProperties) {
        let Tables { faces, pcct, .. } = &mut self.tables;
        let principal = pcct.ledger_mut().attach(properties.principal);
        if let Some(previous) = faces.insert(index, properties, principal) {
            pcct.ledger_mut().detach(previous);
        }
    }

    /// Records an event of the link of a face. Strategies prefer other next hops from then on, until its link has
    /// returned and something arrives on it. Interests that wait for it alone are sent to another next hop in the next calls of
    /// [`poll_timers`](Self::poll_timers).
    pub fn handle_link_event(&mut self, now: Timestamp, index: FaceIndex, event: LinkEvent) {
        if self.tables.faces.set_link(index, event, now) {
            self.tables.start_sending_again();
        }
    }

    /// Removes a face. Packets for it are dropped from then on. In the next calls of
    /// [`poll_timers`](Self::poll_timers), its pending Interests end, and those that wait for it alone are sent to another
    /// next hop.
    pub fn remove_face(&mut self, index: FaceIndex) {
        if let Some(principal) = self.tables.faces.remove(index) {
            self.tables.pcct.ledger_mut().detach(principal);
            self.tables.start_sending_again();
        }
    }

    /// The account of the principal that packets of a face are charged to: a user or a site.
    #[must_use]
    pub fn account(&self, face: FaceIndex) -> PrincipalKey {
        let principal = self.tables.faces.principal(face).unwrap_or(PrincipalIndex::OTHER);
        self.tables.pcct.ledger().key(principal).account()
    }

    /// The places of the tables of the PIT that principals hold.
    #[must_use]
    pub fn ledger(&self) -> LedgerReport {
        self.tables.pcct.ledger().report()
    }

    /// Replaces the FIB from the next burst on. The strategies that it refers to must exist.
    pub fn set_fib(&mut self, fib: Arc<FibSnapshot>) {
        self.fib = fib;
    }

    /// The next hops of exactly `prefix` in the FIB that it reads; none without such an entry.
    #[must_use]
    pub fn next_hops(&self, prefix: NameRef<'_>) -> &[NextHop] {
        let mut hashes = [0; PREFIX_HASHES_MAX];
        let Some(count) = self.tables.hasher.hash_prefixes(prefix, &mut hashes) else {
            return &[];
        };
        let entry = self.fib.entry(self.fib.find_longest_prefix(prefix, &hashes[..count]));
        // Those of a shorter prefix are inherited.
        if entry.next_hops_depth() == count - 1 { entry.next_hops() } else { &[] }
    }

    /// Replaces the table of strategy instances; instances of the old table keep their ids.
    pub fn set_strategies(&mut self, strategies: Arc<StrategyTable>) {
        self.strategies = strategies;
    }

    /// Follows other decisions of VIP from the next burst on, and counts local requests into `requests`. Returns those counted
    /// so far.
    #[cfg(feature = "vip")]
    pub fn exchange_vip(
        &mut self,
        decisions: Arc<crate::VipDecisions>,
        requests: Box<crate::VipRequests>,
    ) -> Option<Box<crate::VipRequests>> {
        let counted = self.tables.vip.exchange(decisions, requests);
        self.tables.pcct.set_cs_scores(self.tables.vip.scores());
        counted
    }

    /// Plants a fault: the strategies forget Interests, until their table is replaced. Returns whether they did not before.
    #[cfg(feature = "planted-faults")]
    pub fn forget_interests(&mut self) -> bool {
        let Some(forgetful) = self.strategies.to_forgetful() else { return false };
        self.strategies = Arc::new(forgetful);
        true
    }

    /// The PIT and the Content Store, for changes and erase commands by management.
    pub fn pcct_mut(&mut self) -> &mut Pcct {
        &mut self.tables.pcct
    }

    /// The face table.
    #[must_use]
    pub fn faces(&self) -> &ShardFaces {
        &self.tables.faces
    }

    /// The counters.
    #[must_use]
    pub fn counters(&self) -> &Arc<Counters> {
        &self.tables.counters
    }

    /// Stage 1: prefetch the buckets of PIT, Content Store, dead nonce list and FIB. Returns the packets for stage 2.
    #[inline(always)]
    fn prefetch_buckets(&mut self, now: Timestamp, rx: &Burst, pool: &PacketPool) -> Positions {
        let Self { tables: Tables { pcct, dead_nonces, .. }, fib, .. } = self;
        let mut next = Positions::default();
        for (index, descriptor) in rx.descriptors().iter().enumerate() {
            if descriptor.handle.is_none() {
                continue;
            }
            if descriptor.kind == PacketKind::Data {
                if pcct.prefetch_data_bucket(descriptor.name_hash) {
                    pcct.prefetch_prefix_buckets(rx.hashes_of(descriptor));
                }
                match descriptor.own_token() {
                    Some(token) => pcct.prefetch_entry_of(token),
                    None => next.push(index),
                }
                continue;
            }
            next.push(index);
            if descriptor.kind == PacketKind::Interest {
                let components = usize::from(descriptor.components);
                fib.prefetch_search(components, |depth| rx.hash_at(descriptor, depth));
            }
            match uncommon_interest(rx, pool, index, descriptor) {
                None => pcct.prefetch_exact_bucket(descriptor.name_hash),
                Some(packet) => pcct.prefetch_interest_buckets(&packet.interest_key()),
            }
            dead_nonces.prefetch(descriptor.name_hash, descriptor.nonce, now);
        }
        next
    }

    /// Stage 2: prefetch the entries in those buckets. Returns the Interests whose search of the FIB is not over, and
    /// those that may have Data in the Content Store.
    #[inline(always)]
    fn prefetch_entries(
        &mut self,
        rx: &Burst,
        pool: &PacketPool,
        next: &Positions,
    ) -> (Positions, Positions) {
        let Self { tables: Tables { pcct, .. }, fib, routes, .. } = self;
        let (mut unfinished, mut hits) = (Positions::default(), Positions::default());
        for index in next.as_slice().iter().map(|&index| usize::from(index) % BURST_SIZE) {
            let descriptor = rx.descriptor(index);
            if descriptor.kind == PacketKind::Data {
                pcct.prefetch_data_entries(descriptor.name_hash);
                continue;
            }
            if descriptor.kind == PacketKind::Interest {
                let components = usize::from(descriptor.components);
                let mut search = fib.begin_search(components);
                let hash_at = |depth| rx.hash_at(descriptor, depth);
                if fib.continue_search(&mut search, components, hash_at) {
                    unfinished.push(index);
                }
                routes[index] = search;
            }
            let may_hit = match uncommon_interest(rx, pool, index, descriptor) {
                None => pcct.prefetch_exact_entries(descriptor.name_hash),
                Some(packet) => pcct.prefetch_interest_entries(&packet.interest_key()),
            };
            if may_hit {
                hits.push(index);
            }
        }
        (unfinished, hits)
    }

    /// Stage 3: continue the searches of the FIB for these Interests in lockstep.
    #[inline(always)]
    fn find_routes(&mut self, rx: &Burst, mut unfinished: Positions) {
        let fib = &*self.fib;
        while !unfinished.as_slice().is_empty() {
            let active = std::mem::take(&mut unfinished);
            for index in active.as_slice().iter().map(|&index| usize::from(index)) {
                let search = &mut self.routes[index % BURST_SIZE];
                let descriptor = rx.descriptor(index);
                let components = usize::from(descriptor.components);
                let hash_at = |depth| rx.hash_at(descriptor, depth);
                if fib.continue_search(search, components, hash_at) {
                    unfinished.push(index);
                }
            }
        }
    }

    /// Stage 4: prefetch the packets in the Content Store that will be sent.
    #[inline(always)]
    fn prefetch_payloads(&self, rx: &Burst, pool: &PacketPool, hits: &Positions) {
        for &index in hits.as_slice() {
            if let Some(packet) = RxPacket::new(rx, usize::from(index), pool) {
                self.tables.pcct.prefetch_interest_payload(&packet.interest_key());
            }
        }
    }

    /// Stage 5: run the pipelines, packet by packet. The usual cases are inlined.
    fn apply(
        &mut self,
        now: Timestamp,
        rx: &Burst,
        pool: &PacketPool,
        range: Range<usize>,
        tx: &mut dyn TxSink,
    ) {
        let outgoing = Outgoing { now, tables: &mut self.tables, tx };
        let mut incoming = Incoming::new(outgoing, &self.fib, &self.strategies);
        let descriptors = rx.descriptors().get(range.clone()).unwrap_or_default();
        for (index, descriptor) in range.zip(descriptors) {
            let Some(packet) = &RxPacket::of(descriptor, rx, index, pool) else { continue };
            match packet.descriptor.kind {
                PacketKind::Interest => {
                    let search = self.routes[index % BURST_SIZE];
                    let (name, hashes) = (packet.name(), packet.hashes());
                    let route = self.fib.finish_with_entry(search, name, hashes);
                    incoming.incoming_interest(packet, route);
                }
                PacketKind::Data => incoming.incoming_data(packet, &mut self.matches),
                PacketKind::Nack => incoming.incoming_nack(packet),
            }
        }
    }
}

/// The packet of an Interest or Nack that has CanBePrefix or an implicit digest: more than one name may satisfy it, or it is
/// cached under another name. `None` for others.
#[inline(always)]
fn uncommon_interest<'a>(
    rx: &'a Burst,
    pool: &'a PacketPool,
    index: usize,
    descriptor: &Descriptor,
) -> Option<RxPacket<'a>> {
    const UNCOMMON: Flags = Flags::CAN_BE_PREFIX.union(Flags::IMPLICIT_DIGEST);
    if !descriptor.flags.intersects(UNCOMMON) {
        return None;
    }
    RxPacket::new(rx, index, pool)
}

// Communication with the other shards of the forwarder. A single shard sends and receives no messages.
impl Shard {
    /// Makes this one of several shards. To be called before the first packet.
    ///
    /// # Panics
    /// If the tables have no shard with this number.
    pub fn join_others(&mut self, shared: SharedTables) {
        let shard = self.tables.shard;
        let shard_count = shared.ndt.shard_count();
        assert!(usize::from(shard) < shard_count, "shard {shard} of {shard_count}");
        assert_eq!(shared.short_prefix.shard_count(), shard_count, "tables for the same shards");
        self.tables.peers = Some(Box::new(PeerShards::new(shard, shared)));
        self.message_burst = Some(Box::new(Burst::new()));
    }

    /// Drains the messages for other shards. To be called after each burst, each message from
    /// another shard, and each call of [`poll_timers`](Self::poll_timers).
    #[inline]
    pub fn take_messages(&mut self) -> impl Iterator<Item = AddressedMessage> {
        self.tables.peers.iter_mut().flat_map(|peers| peers.outbox.drain(..))
    }

    /// Processes a message from another shard. A [`ShardMessage::Packet`] is processed more efficiently
    /// in a burst with others.
    pub fn process_message(
        &mut self,
        now: Timestamp,
        message: ShardMessage,
        pool: &PacketPool,
        tx: &mut impl TxSink,
    ) {
        // A single shard drops the message.
        let Some(mut burst) = self.message_burst.take() else { return message.release(pool) };
        match message {
            ShardMessage::Packet(packet) => {
                self.push_message(&mut burst, packet, pool);
                self.process_burst(now, &mut burst, pool, tx);
            }
            ShardMessage::Visit(packet, visit) => {
                self.push_message(&mut burst, packet, pool);
                let outgoing = Outgoing { now, tables: &mut self.tables, tx };
                let mut incoming = Incoming::new(outgoing, &self.fib, &self.strategies);
                if let Some(rx) = RxPacket::new(&burst, 0, pool) {
                    let data = CrossShardData::Visiting(visit);
                    incoming.cross_shard_data(&rx, data, &mut self.matches);
                }
            }
            ShardMessage::Probe(packet, probe) => {
                self.push_message(&mut burst, packet, pool);
                let outgoing = Outgoing { now, tables: &mut self.tables, tx };
                let mut incoming = Incoming::new(outgoing, &self.fib, &self.strategies);
                if let Some(rx) = RxPacket::new(&burst, 0, pool) {
                    incoming.process_probe(&rx, probe, pool);
                }
            }
            ShardMessage::ProbeAnswer(answer) => {
                let outgoing = Outgoing { now, tables: &mut self.tables, tx };
                let mut incoming = Incoming::new(outgoing, &self.fib, &self.strategies);
                incoming.answer_from_probe(&answer, pool.bytes(&answer.handle));
                pool.release(answer.handle);
            }
            ShardMessage::FaceSendsTokens(face) => {
                self.tables.faces.note_token(face);
            }
        }
        burst.release(pool);
        self.message_burst = Some(burst);
    }

    /// Releases the packet memory that the shard holds, when its worker ends.
    pub fn release_blocks(&mut self, pool: &PacketPool) {
        if let Some(peers) = &mut self.tables.peers {
            peers.copies.release(pool);
            peers.outbox.drain(..).for_each(|addressed| addressed.message.release(pool));
        }
    }

    fn push_message(&self, burst: &mut Burst, mut packet: CrossShardPacket, pool: &PacketPool) {
        if !burst.push_packet(&mut packet, pool, &self.tables.hasher) {
            packet.release(pool);
        }
    }
}

// Self-learning.
impl Shard {
    /// Next request of self-learning to the control thread. To be called after each burst.
    #[inline]
    pub fn poll_learning(&mut self) -> Option<LearningRequest> {
        self.tables.learning.next_request()
    }

    /// Answers [`LearningRequest::Find`]: sends the held Data with `announcement`, or without one
    /// if there is none.
    pub fn answer_learning(
        &mut self,
        now: Timestamp,
        ticket: Token,
        announcement: Option<&[u8]>,
        tx: &mut impl TxSink,
    ) {
        let mut outgoing = Outgoing { now, tables: &mut self.tables, tx };
        outgoing.release_data(ticket, announcement.unwrap_or_default());
    }
}
