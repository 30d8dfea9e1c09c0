//! A forwarding shard: bursts in, packets out.

use std::ops::Range;
use std::sync::Arc;

use ndn_packet::{MAX_PACKET_SIZE, NameRef};
use ndn_ring::PacketPool;
use ndn_table::{
    DeadNonceList, FaceIndex, FibSlot, FibSnapshot, NANOS_PER_MILLI, NameHasher, Pcct, PcctConfig,
    StrategyId, TimerWheel, Timestamp,
};

use crate::learning::Learning;
use crate::packet::{Positions, RxPacket, RxPackets};
use crate::pipelines::{Ending, Matches};
use crate::quota::QuotaRefusals;
use crate::strategy::{Context, Measurements, StrategyTable};
use crate::tables::Tables;
use crate::{
    BURST_SIZE, Burst, Counters, FaceProperties, FaceTable, PacketKind, ServiceTimer, TxSink,
    UnsolicitedPolicy,
};

/// Timer records of the PIT that one call of [`Shard::poll_timers`] looks at, and strategy timers
/// that it runs, at most.
const TIMERS_PER_POLL_MAX: u32 = 256;

/// Steps of its own housekeeping that the Content Store takes in one call.
const CS_STEPS_PER_POLL_MAX: usize = 64;

/// The sizes of a shard and what it does not change later.
#[derive(Debug, Clone)]
pub struct ShardConfig {
    /// Number of the shard, as in the PIT tokens that it originates.
    pub shard: u8,
    /// The key that all shards, the ingress and the FIB share.
    pub hasher: NameHasher,
    /// Capacities of PIT and Content Store.
    pub pcct: PcctConfig,
    /// How long a Nonce is remembered after its PIT entry has ended.
    pub dead_nonce_lifetime_ms: u64,
    /// Nonces that can be remembered.
    pub dead_nonce_capacity: usize,
    /// Strategy timers that can be set at one time.
    pub strategy_timer_capacity: usize,
    /// What happens to Data that nobody asked for.
    pub unsolicited: UnsolicitedPolicy,
    /// Interests that a face with a quota may have pending here, other faces as many as there is
    /// room for.
    pub pending_quota: u32,
}

/// One forwarding shard: its PIT, its Content Store, and the pipelines over them.
///
/// A worker calls [`poll_timers`](Self::poll_timers) and [`process_burst`](Self::process_burst)
/// with one reading of the clock, sends what came into the sink, and then calls
/// [`end_burst`](Self::end_burst). The control thread's changes come in between.
#[derive(Debug)]
pub struct Shard {
    pub(crate) tables: Tables,
    pub(crate) fib: Arc<FibSnapshot>,
    pub(crate) strategies: Arc<StrategyTable>,
    /// Where the Interests of the burst lead.
    routes: Box<[FibSlot; BURST_SIZE]>,
    pub(crate) matches: Matches,
    /// Where packets on the side path are put, one at a time.
    pub(crate) aside: Option<Box<Burst>>,
}

impl Shard {
    /// An empty shard without faces. All memory is reserved here.
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
            faces: FaceTable::new(),
            pending_quota: config.pending_quota,
            quota_refusals: QuotaRefusals::default(),
            unsolicited: config.unsolicited,
            strategy_timers: TimerWheel::new(config.strategy_timer_capacity, now),
            measurements: Measurements::new(),
            learning: Learning::default(),
            counters,
            peers: None,
            scratch: Box::new([0; MAX_PACKET_SIZE]),
            timer_scratch: Vec::with_capacity(MAX_PACKET_SIZE),
        };
        Self {
            tables,
            fib,
            strategies,
            routes: Box::new([FibSlot::default(); BURST_SIZE]),
            matches: Matches::new(),
            aside: None,
        }
    }

    /// Forwards the packets of `rx`, in order. What leaves goes into `tx` at once. The packets
    /// stay in `rx`, to be released by the worker once `tx` needs them no more.
    ///
    /// The first stages fetch from memory what the last one will touch, for all packets before
    /// the first of them needs it; they decide nothing, since packets of one burst meet in the
    /// same entries.
    pub fn process_burst(
        &mut self,
        now: Timestamp,
        rx: &mut Burst,
        pool: &PacketPool,
        tx: &mut impl TxSink,
    ) {
        let packets = self.fetch_ahead(now, rx, pool);
        self.apply(now, &packets, 0..packets.count(), tx);
    }

    /// The same as [`process_burst`](Self::process_burst), and tells `timer` what each packet takes.
    /// The worker begins and finishes.
    #[cold]
    #[inline(never)]
    pub fn process_burst_timed(
        &mut self,
        now: Timestamp,
        rx: &mut Burst,
        pool: &PacketPool,
        tx: &mut impl TxSink,
        timer: &mut ServiceTimer,
    ) {
        let packets = self.fetch_ahead(now, rx, pool);
        timer.begin_laps();
        for index in 0..packets.count() {
            let Some(kind) = packets.at(index).map(|packet| packet.descriptor.kind) else {
                continue;
            };
            self.apply(now, &packets, index..index + 1, tx);
            timer.lap(index, kind);
        }
    }

    /// Stages 1 to 4.
    #[inline(always)]
    fn fetch_ahead<'a>(
        &mut self,
        now: Timestamp,
        rx: &'a Burst,
        pool: &'a PacketPool,
    ) -> RxPackets<'a> {
        let mut interests = Positions::default();
        let packets = RxPackets::new(rx, pool, |index, packet| {
            self.prefetch_buckets(now, packet);
            interests.push_if(index, packet.is_interest());
        });
        self.find_routes(&packets, interests.as_slice());
        let hits = self.prefetch_entries(&packets);
        self.prefetch_payloads(&packets, &hits);
        packets
    }

    /// Gives back what the tables kept for the next packet of the burst, and publishes their levels.
    pub fn end_burst(&mut self) {
        self.tables.pcct.end_burst();
        self.publish_levels();
    }

    /// Ends PIT entries whose time is up, and runs the timers of strategies. Does a bounded
    /// amount of work; says whether there is more.
    pub fn poll_timers(&mut self, now: Timestamp, tx: &mut impl TxSink) -> bool {
        let mut context = Context {
            now,
            tables: &mut self.tables,
            fib: &self.fib,
            tx,
            strategy: StrategyId::default(),
        };
        let mut budget = TIMERS_PER_POLL_MAX;
        while let Some(entry) = context.tables.pcct.pop_expired(now, &mut budget) {
            context.finalize_unsatisfied(entry, Ending::Expiry);
        }
        let mut timer_count = 0;
        while timer_count < TIMERS_PER_POLL_MAX
            && let Some((key, _)) = context.tables.strategy_timers.pop(now)
        {
            context.strategy_timer(key, &self.strategies);
            timer_count += 1;
        }
        let has_stale_data = context.tables.pcct.poll_cs(now, CS_STEPS_PER_POLL_MAX);
        budget == 0 || timer_count == TIMERS_PER_POLL_MAX || has_stale_data
    }

    /// When [`poll_timers`](Self::poll_timers) has something to do next.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let entries = self.tables.pcct.next_deadline();
        let timers = self.tables.strategy_timers.next_deadline();
        entries.into_iter().chain(timers).min()
    }

    /// Adds a face, or changes its properties.
    pub fn set_face(&mut self, index: FaceIndex, properties: &FaceProperties) {
        self.tables.faces.insert(index, properties);
    }

    /// Removes a face. Packets that would leave by it are dropped from then on.
    pub fn remove_face(&mut self, index: FaceIndex) {
        self.tables.faces.remove(index);
    }

    /// Uses another FIB from the next burst on. The strategies that it refers to must be there.
    pub fn set_fib(&mut self, fib: Arc<FibSnapshot>) {
        self.fib = fib;
    }

    /// Uses another table of strategy instances, which has those of the old one in their places.
    pub fn set_strategies(&mut self, strategies: Arc<StrategyTable>) {
        self.strategies = strategies;
    }

    /// The Content Store and the PIT, for what management changes and erases.
    pub fn pcct_mut(&mut self) -> &mut Pcct {
        &mut self.tables.pcct
    }

    /// Whether [`poll_quota_refusal`](Self::poll_quota_refusal) would tell of any.
    #[must_use]
    pub fn has_quota_refusals(&self) -> bool {
        !self.tables.quota_refusals.is_empty()
    }

    /// A face of which Interests were refused because as many of it were pending as its
    /// [quota](ShardConfig::pending_quota) allows, and how many since it was last told of. Of very many
    /// faces some are left out.
    pub fn poll_quota_refusal(&mut self) -> Option<(FaceIndex, u64)> {
        self.tables.quota_refusals.take()
    }

    /// The faces.
    #[must_use]
    pub fn faces(&self) -> &FaceTable {
        &self.tables.faces
    }

    /// The counters.
    #[must_use]
    pub fn counters(&self) -> &Arc<Counters> {
        &self.tables.counters
    }

    /// Stage 1: the buckets of PIT and Content Store, and of the dead nonce list.
    #[inline]
    fn prefetch_buckets(&self, now: Timestamp, packet: &RxPacket<'_>) {
        if packet.is_data() {
            self.tables.pcct.prefetch_data_buckets(&packet.data_key(), packet.own_token());
        } else {
            self.tables.pcct.prefetch_interest_buckets(packet.interest_key());
            let (hash, nonce) = (packet.descriptor.name_hash, packet.descriptor.nonce);
            self.tables.dead_nonces.prefetch(hash, nonce, now);
        }
    }

    /// Stage 2: the FIB, which is looked up for all Interests side by side.
    fn find_routes(&mut self, packets: &RxPackets<'_>, interests: &[u8]) {
        let name_and_hashes = |position: usize| match packets.get(interests[position]) {
            Some(packet) => (packet.name(), packet.hashes()),
            None => (NameRef::ROOT, &[0][..]),
        };
        let mut routes = [FibSlot::default(); BURST_SIZE];
        let found = &mut routes[..interests.len()];
        self.fib.find_longest_prefix_burst(interests.len(), name_and_hashes, found);
        for (&index, &mut route) in interests.iter().zip(found) {
            self.routes[usize::from(index) % BURST_SIZE] = route;
        }
    }

    /// Stage 3: the entries that the buckets lead to. Gives the Interests for which there may be
    /// Data in the Content Store.
    fn prefetch_entries(&self, packets: &RxPackets<'_>) -> Positions {
        let mut hits = Positions::default();
        for (index, packet) in packets.iter() {
            if packet.is_data() {
                self.tables.pcct.prefetch_data_entries(&packet.data_key(), packet.own_token());
            } else {
                let may_hit = self.tables.pcct.prefetch_interest_entries(packet.interest_key());
                hits.push_if(index, may_hit);
            }
        }
        hits
    }

    /// Stage 4: the packets in the Content Store that will be sent.
    fn prefetch_payloads(&self, packets: &RxPackets<'_>, hits: &Positions) {
        for packet in hits.as_slice().iter().filter_map(|&index| packets.get(index)) {
            self.tables.pcct.prefetch_interest_payload(packet.interest_key());
        }
        for (_, packet) in packets.iter().filter(|(_, packet)| packet.is_data()) {
            self.tables.pcct.prefetch_data_sibling(&packet.data_key());
        }
    }

    /// Stage 5: the pipelines, packet by packet.
    fn apply(
        &mut self,
        now: Timestamp,
        packets: &RxPackets<'_>,
        range: Range<usize>,
        tx: &mut impl TxSink,
    ) {
        let strategies = &*self.strategies;
        let mut context = Context {
            now,
            tables: &mut self.tables,
            fib: &self.fib,
            tx,
            strategy: StrategyId::default(),
        };
        for (index, packet) in packets.range(range) {
            let route = self.routes[index % BURST_SIZE];
            match packet.descriptor.kind {
                PacketKind::Interest => context.incoming_interest(packet, route, strategies),
                PacketKind::Data => context.incoming_data(packet, &mut self.matches, strategies),
                PacketKind::Nack => context.incoming_nack(packet, strategies),
            }
        }
    }

    /// Publishes what is a level and not a sum.
    fn publish_levels(&self) {
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
}
