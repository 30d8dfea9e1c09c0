//! Test bed: shards with pools, tables and faces, driven with packets as plain values.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use ndn_forwarding::{
    AddressedMessage, Burst, Counters, Dispatcher, DropReason, FaceProperties, INTERNAL_FACE_ID,
    Ingress, InterestAccount, LinkEvent, LpFields, PitToken, PitTokenPolicy, ProducerRegions,
    RxFace, Shard, ShardConfig, SharedTables, StrategyTable, UnsolicitedPolicy,
};
use ndn_packet::{NackReason, Name as PacketName, NameRef};
use ndn_ring::PacketPool;
use ndn_table::{
    DataKey, EraseRest, EraseSearch, FaceIndex, FibConfig, FibWriter, NDT_ENTRIES, NameHasher, Ndt,
    PREFIX_HASHES_MAX, PcctConfig, Token,
};
use ndn_types::{CounterValues as _, LinkType, PrincipalKey, Reserves, Scope, Timestamp};

pub use crate::recorder::{Recorder, Sent, SentKind};
use crate::timing::Timing;

use crate::model::{Arrival, Face, FaceSpec, Link, Time, Tokens, Unsolicited};
use crate::wire::{Name, name_value};

/// The face of management.
pub const MANAGEMENT: Face = 9;

/// FaceId of a test face.
pub fn face_id(face: Face) -> u64 {
    if face == MANAGEMENT { INTERNAL_FACE_ID } else { 1000 + u64::from(face) }
}

#[derive(Clone, Debug)]
pub struct BedConfig {
    pub shard_count: usize,
    /// The first shards own no names; this is their number.
    pub nameless_shards: usize,
    pub cs_capacity: usize,
    pub pit_capacity: usize,
    /// Whether all faces belong to one principal; otherwise each is one.
    pub one_principal: bool,
    pub reserves: Reserves,
    pub unsolicited: Unsolicited,
    /// Whether the Content Store serves Interests.
    pub serves: bool,
    /// Dispatch depth.
    pub depth: usize,
}

impl Default for BedConfig {
    fn default() -> Self {
        Self {
            shard_count: 1,
            nameless_shards: 0,
            cs_capacity: 1000,
            pit_capacity: 1000,
            one_principal: false,
            reserves: Reserves::NONE,
            unsolicited: Unsolicited::DropAll,
            serves: true,
            depth: 2,
        }
    }
}

/// The forwarder under test.
#[derive(Debug)]
pub struct Bed {
    pub shards: Vec<Shard>,
    pub fib: FibWriter,
    pub counters: Vec<Arc<Counters>>,
    pub strategies: StrategyTable,
    ingress: Ingress,
    /// One per shard; received packets go into the first.
    pools: Vec<PacketPool>,
    hasher: NameHasher,
    faces: BTreeMap<Face, FaceProperties>,
    received: Burst,
    dispatched: Burst,
    shared: SharedTables,
    dispatcher: Dispatcher,
    /// Messages in transit between shards.
    crossings: VecDeque<AddressedMessage>,
    timing: Timing,
    one_principal: bool,
    pub sent: Recorder,
}

impl Drop for Bed {
    fn drop(&mut self) {
        // Before the first pool is dropped: a pool lives on while others hold a part of it.
        self.pools.iter().for_each(PacketPool::settle);
    }
}

impl Bed {
    pub fn new(config: &BedConfig) -> Self {
        let hasher = NameHasher::new(*b"a key for tests.");
        let (strategies, default_strategy) = StrategyTable::with_best_route();
        let mut fib = FibWriter::new(&FibConfig { entries_max: 1000, hasher, default_strategy });
        let snapshot = fib.publish();
        let shared = Arc::new(strategies.clone());
        let counters: Vec<Arc<Counters>> =
            (0..config.shard_count).map(|_| Arc::default()).collect();
        let shards = counters.iter().enumerate().map(|(number, counters)| {
            Shard::new(
                &ShardConfig {
                    shard: u8::try_from(number).unwrap(),
                    hasher,
                    pcct: PcctConfig {
                        reserves: config.reserves,
                        ..PcctConfig::with_capacity(
                            u32::try_from(config.pit_capacity).unwrap(),
                            u32::try_from(config.cs_capacity).unwrap(),
                            Timestamp::ZERO,
                        )
                    },
                    dead_nonce_lifetime_ms: 6000,
                    dead_nonce_capacity: 10_000,
                    strategy_timer_capacity: 1000,
                    unsolicited: match config.unsolicited {
                        Unsolicited::DropAll => UnsolicitedPolicy::DropAll,
                        Unsolicited::AdmitLocal => UnsolicitedPolicy::AdmitLocal,
                        Unsolicited::AdmitNetwork => UnsolicitedPolicy::AdmitNetwork,
                        Unsolicited::AdmitAll => UnsolicitedPolicy::AdmitAll,
                    },
                },
                Arc::clone(&snapshot),
                Arc::clone(&shared),
                Arc::clone(counters),
                Timestamp::ZERO,
            )
        });
        let mut shards: Vec<Shard> = shards.collect();
        let members: Vec<u8> =
            (0..=u8::MAX).take(config.shard_count).skip(config.nameless_shards).collect();
        let shared = SharedTables::with_members(config.shard_count, &members, config.depth);
        for shard in &mut shards {
            shard.pcct_mut().set_cs_serve(config.serves);
            if config.shard_count > 1 {
                shard.join_others(shared.clone());
            }
        }
        let ingress = Ingress::new(hasher, Arc::clone(&counters[0]), 42);
        Self {
            shards,
            fib,
            counters,
            strategies,
            ingress,
            pools: (0..config.shard_count).map(|_| PacketPool::new(256).unwrap()).collect(),
            hasher,
            faces: BTreeMap::new(),
            received: Burst::new(),
            dispatched: Burst::new(),
            dispatcher: Dispatcher::new(Arc::clone(&shared.ndt), 0),
            shared,
            crossings: VecDeque::new(),
            timing: Timing::default(),
            one_principal: config.one_principal,
            sent: Recorder::default(),
        }
    }

    pub fn add_face(&mut self, face: Face, spec: FaceSpec) {
        let own = PrincipalKey::Neighbour { face_id: face_id(face) };
        self.add_face_of(face, spec, if self.one_principal { PrincipalKey::OTHER } else { own });
    }

    /// Adds a face of a principal.
    pub fn add_face_of(&mut self, face: Face, spec: FaceSpec, principal: PrincipalKey) {
        let properties = FaceProperties {
            face_id: face_id(face),
            scope: if spec.local { Scope::Local } else { Scope::NonLocal },
            link_type: match spec.link {
                Link::PointToPoint => LinkType::PointToPoint,
                Link::MultiAccess => LinkType::MultiAccess,
                Link::AdHoc => LinkType::AdHoc,
            },
            pit_tokens: match spec.tokens {
                Tokens::Never => PitTokenPolicy::Never,
                Tokens::Always => PitTokenPolicy::Always,
                Tokens::WhenSeen => PitTokenPolicy::WhenSeen,
            },
            local_fields: spec.local_fields,
            principal,
        };
        self.faces.insert(face, properties);
        for shard in &mut self.shards {
            shard.set_face(FaceIndex::new(face, 1), &properties);
        }
    }

    pub fn add_route(&mut self, prefix: &Name, face: Face, cost: u64) {
        let value = name_value(prefix);
        let prefix = NameRef::from_value(&value).unwrap();
        self.fib.set_next_hop(prefix, FaceIndex::new(face, 1), cost).unwrap();
        self.publish();
    }

    /// Returns whether there was such a route.
    pub fn remove_route(&mut self, prefix: &Name, face: Face) -> bool {
        let value = name_value(prefix);
        let prefix = NameRef::from_value(&value).unwrap();
        let was_there = self.fib.remove_next_hop(prefix, FaceIndex::new(face, 1));
        self.publish();
        was_there
    }

    pub fn set_strategy(&mut self, prefix: &Name, strategy: &str) {
        let strategy = PacketName::from_uri(strategy).unwrap();
        let id = self.strategies.insert(strategy.as_ref()).unwrap();
        let shared = Arc::new(self.strategies.clone());
        for shard in &mut self.shards {
            shard.set_strategies(Arc::clone(&shared));
        }
        let value = name_value(prefix);
        self.fib.set_strategy(NameRef::from_value(&value).unwrap(), id).unwrap();
        self.publish();
    }

    /// Gives the shards the VIPs that were sent to next hops, by object.
    #[cfg(feature = "vip")]
    pub fn set_vips(&mut self, objects: &[(&str, &[(Face, u64)])]) {
        self.set_vips_by_rules(objects, &[]);
    }

    /// As [`Self::set_vips`], with rules of objects.
    #[cfg(feature = "vip")]
    pub fn set_vips_by_rules(
        &mut self,
        objects: &[(&str, &[(Face, u64)])],
        rules: &[(&str, ndn_table::ObjectDivision)],
    ) {
        let values: Vec<_> =
            rules.iter().map(|(uri, _)| name_value(&crate::wire::name(uri))).collect();
        let prefixes = values.iter().map(|value| NameRef::from_value(value).unwrap());
        let prefixes = prefixes.zip(rules.iter().map(|(_, division)| *division));
        let rules = Arc::new(ndn_table::ObjectRules::new(prefixes, self.hasher));
        let mut decisions =
            ndn_forwarding::VipDecisions::new(Arc::clone(&rules), std::collections::HashMap::new());
        for (uri, sent) in objects {
            let name = ndn_packet::Name::from_uri(uri).unwrap();
            let sent = sent.iter().map(|&(face, vips)| (FaceIndex::new(face, 1), vips));
            let key = rules.object_key(name.as_ref(), self.hasher).unwrap();
            decisions.insert(key, sent.collect());
        }
        let decisions = Arc::new(decisions);
        for shard in &mut self.shards {
            let requests = Box::new(ndn_forwarding::VipRequests::with_capacity(10));
            shard.exchange_vip(Arc::clone(&decisions), requests);
        }
    }

    /// Takes the local requests of all shards, by object.
    #[cfg(feature = "vip")]
    pub fn take_requests(&mut self) -> Vec<(String, u64)> {
        let mut counts = BTreeMap::new();
        for shard in &mut self.shards {
            let requests = Box::new(ndn_forwarding::VipRequests::with_capacity(10));
            let counted = shard.exchange_vip(Arc::default(), requests);
            for (name, count) in counted.iter().flat_map(|counted| counted.iter()) {
                *counts.entry(name.to_uri()).or_default() += count;
            }
        }
        counts.into_iter().collect()
    }

    /// Takes the sizes that all shards have learned: names, sizes in bytes, and whether they are exact.
    #[cfg(feature = "vip")]
    pub fn take_sizes(&mut self) -> Vec<(String, u64, bool)> {
        let mut sizes = Vec::new();
        for shard in &mut self.shards {
            let requests = Box::new(ndn_forwarding::VipRequests::with_capacity(10));
            let learned = shard.exchange_vip(Arc::default(), requests);
            for size in learned.iter().flat_map(|learned| learned.sizes()) {
                sizes.push((size.object.to_uri(), size.size_bytes, size.is_exact));
            }
        }
        sizes.sort();
        sizes
    }

    /// Erases cached Data at or below a name.
    pub fn erase(&mut self, prefix: &Name) {
        let value = name_value(prefix);
        let name = NameRef::from_value(&value).unwrap();
        let mut hashes = [0; PREFIX_HASHES_MAX];
        let count = self.hasher.hash_prefixes(name, &mut hashes).unwrap();
        for shard in &mut self.shards {
            let key = DataKey::new(name, &hashes[..count]);
            let (pcct, mut search) = (shard.pcct_mut(), EraseSearch::default());
            while pcct.erase_data(&key, &mut search, usize::MAX).rest != EraseRest::Nothing {}
        }
    }

    pub fn set_regions(&mut self, regions: &[Name]) {
        let names = regions.iter().map(|region| {
            let value = name_value(region);
            NameRef::from_value(&value).unwrap().to_name()
        });
        self.ingress.set_producer_regions(Arc::new(ProducerRegions::new(names.collect())));
    }

    pub fn set_default_hop_limit(&mut self, hop_limit: u8) {
        self.ingress.set_default_hop_limit(hop_limit);
    }

    fn publish(&mut self) {
        let snapshot = self.fib.publish();
        for shard in &mut self.shards {
            shard.set_fib(Arc::clone(&snapshot));
        }
        self.fib.collect();
    }

    /// Processes a burst of packets and records the sent packets in `sent`.
    pub fn process(&mut self, now: Time, arrivals: &[Arrival]) {
        let now = Timestamp::from_millis(now);
        while self.poll(now) {}
        for arrival in arrivals {
            // Malformed packets are counted.
            let _ = self.receive(arrival);
        }
        if let [shard] = &mut self.shards[..] {
            let (burst, pool) = (&mut self.received, &self.pools[0]);
            self.timing.process(shard, now, burst, pool, &mut self.sent);
            self.received.release(&self.pools[0]);
            shard.end_burst();
            return;
        }
        for index in 0..self.received.len() {
            self.forward_one(now, index);
            while let Some(crossing) = self.crossings.pop_front() {
                self.cross(now, crossing);
            }
        }
        self.received.release(&self.pools[0]);
    }

    /// As [`process`](Self::process), without waiting for one packet to complete before the next:
    /// `choose` selects the next message to deliver from the given number.
    pub fn process_in_disorder(
        &mut self,
        now: Time,
        arrivals: &[Arrival],
        choose: &mut dyn FnMut(usize) -> usize,
    ) {
        let now = Timestamp::from_millis(now);
        while self.poll(now) {}
        for arrival in arrivals {
            let _ = self.receive(arrival);
        }
        for index in 0..self.received.len() {
            self.forward_one(now, index);
            for _ in 0..choose(3) {
                self.cross_any(now, choose);
            }
        }
        self.received.release(&self.pools[0]);
        while !self.crossings.is_empty() && choose(4) != 0 {
            self.cross_any(now, choose);
        }
    }

    fn cross_any(&mut self, now: Timestamp, choose: &mut dyn FnMut(usize) -> usize) {
        if self.crossings.is_empty() {
            return;
        }
        // Messages from one shard to another keep their order.
        let picked = self.crossings[choose(self.crossings.len())].to;
        let position = self.crossings.iter().position(|crossing| crossing.to == picked).unwrap();
        let crossing = self.crossings.remove(position).unwrap();
        self.cross(now, crossing);
    }

    /// Delivers all messages in transit.
    pub fn settle_crossings(&mut self, now: Time) {
        while let Some(crossing) = self.crossings.pop_front() {
            self.cross(Timestamp::from_millis(now), crossing);
        }
    }

    /// Passes received packet `index` to its shard.
    fn forward_one(&mut self, now: Timestamp, index: usize) {
        let number = self.dispatcher.dispatch(&mut self.received, index, &self.pools[0]);
        let number = usize::from(number);
        let pool = &self.pools[number];
        let mut packet = self.received.take_packet(index);
        assert!(self.dispatched.push_packet(&mut packet, pool, &self.hasher));
        let shard = &mut self.shards[number];
        self.timing.process(shard, now, &mut self.dispatched, pool, &mut self.sent);
        self.dispatched.release(pool);
        self.end_burst(number);
    }

    fn cross(&mut self, now: Timestamp, crossing: AddressedMessage) {
        let number = usize::from(crossing.to);
        let (shard, pool) = (&mut self.shards[number], &self.pools[number]);
        shard.process_message(now, crossing.message, pool, &mut self.sent);
        self.end_burst(number);
    }

    fn end_burst(&mut self, number: usize) {
        let shard = &mut self.shards[number];
        self.crossings.extend(shard.take_messages());
        shard.end_burst();
    }

    /// The dispatch table.
    pub fn ndt(&self) -> &Ndt {
        &self.shared.ndt
    }

    /// The entry of a name in the dispatch table.
    pub fn ndt_entry(&self, name: &Name) -> usize {
        let value = name_value(name);
        let name = NameRef::from_value(&value).unwrap();
        let mut hashes = [0; PREFIX_HASHES_MAX];
        let count = self.hasher.hash_prefixes(name, &mut hashes).unwrap();
        self.ndt().first_entry(name, &hashes[..count])
    }

    /// Ends all moves in the dispatch table.
    pub fn settle_moves(&self) {
        (0..NDT_ENTRIES).for_each(|index| {
            self.ndt().settle(index);
        });
    }

    /// Returns an error that names a shard whose account of Interests is not balanced.
    pub fn check_accounts(&self) -> Result<(), String> {
        let accounts: Vec<_> =
            self.counters.iter().map(|counters| InterestAccount::of(counters)).collect();
        let all = InterestAccount::sum(accounts.iter().copied());
        match accounts.iter().chain([&all]).find(|account| !account.is_balanced()) {
            Some(account) => Err(format!("unbalanced account of Interests: {account:?}")),
            None => Ok(()),
        }
    }

    /// Answers shard `number` in place of the control thread.
    pub fn answer_learning(
        &mut self,
        number: usize,
        now: Time,
        ticket: Token,
        answer: Option<&[u8]>,
    ) {
        let now = Timestamp::from_millis(now);
        self.shards[number].answer_learning(now, ticket, answer, &mut self.sent);
    }

    /// Returns an error if the ledger of a shard does not agree with its PIT.
    pub fn check_ledgers(&mut self) -> Result<(), String> {
        match self.shards.iter_mut().all(|shard| shard.pcct_mut().ledger_is_exact()) {
            true => Ok(()),
            false => Err("charges that are not of the PIT".to_owned()),
        }
    }

    /// Number of published Interests, over all shards.
    pub fn published(&self) -> usize {
        let shards = u8::try_from(self.shards.len()).unwrap();
        (0..shards).map(|shard| self.shared.short_prefix.published(shard)).sum()
    }

    /// Advances the time.
    pub fn advance(&mut self, now: Time) {
        while self.poll(Timestamp::from_millis(now)) {}
    }

    /// Runs the timers of each shard once; returns whether there is more to do.
    pub fn poll(&mut self, now: Timestamp) -> bool {
        let sent = &mut self.sent;
        self.shards.iter_mut().fold(false, |more, shard| {
            let has_more = shard.poll_timers(now, sent);
            shard.end_burst();
            has_more | more
        })
    }

    pub fn handle_link_event(&mut self, now: Time, face: Face, event: LinkEvent) {
        let now = Timestamp::from_millis(now);
        for shard in &mut self.shards {
            shard.handle_link_event(now, FaceIndex::new(face, 1), event);
        }
    }

    pub fn remove_face(&mut self, face: Face) {
        for shard in &mut self.shards {
            shard.remove_face(FaceIndex::new(face, 1));
        }
    }

    /// Adds a packet to the next burst.
    pub fn receive(&mut self, arrival: &Arrival) -> Result<(), DropReason> {
        let lp = LpFields {
            pit_token: PitToken::new(&arrival.token).unwrap(),
            nack: match arrival.packet {
                crate::wire::Packet::Nack(reason, _) => Some(NackReason(reason)),
                _ => None,
            },
            congestion_mark: arrival.mark,
            next_hop_face_id: arrival.next_hop.map(face_id),
            no_cache: arrival.no_cache,
            non_discovery: false,
            announcement_length: 0,
        };
        self.receive_wire(arrival.face, &arrival.packet.encode(), &lp)
    }

    /// Receives bytes that may not be a valid packet.
    pub fn receive_bytes(&mut self, face: Face, wire: &[u8]) -> Result<(), DropReason> {
        self.receive_wire(face, wire, &LpFields::default())
    }

    /// Receives bytes with these link fields.
    pub fn receive_wire(
        &mut self,
        face: Face,
        wire: &[u8],
        lp: &LpFields,
    ) -> Result<(), DropReason> {
        let mut block = self.pools[0].allocate_block().unwrap();
        block.spare_mut()[..wire.len()].copy_from_slice(wire);
        block.commit(wire.len());
        let face = RxFace::new(FaceIndex::new(face, 1), &self.faces[&face]);
        let (burst, pool) = (&mut self.received, &self.pools[0]);
        let result = self.ingress.push(burst, pool, &mut block, wire.len(), lp, &face);
        assert!(block.filled().is_empty(), "the packet is consumed whether dropped or not");
        self.pools[0].finish(block);
        result
    }

    /// Refuses the Interests that were received and not processed yet.
    pub fn refuse_received(&mut self) {
        (0..self.received.len()).for_each(|index| self.received.refuse(index));
    }

    /// Number of blocks of packet memory in use.
    pub fn blocks_in_use(&self) -> u32 {
        self.pools.iter().for_each(PacketPool::settle);
        self.pools
            .iter()
            .map(|pool| {
                pool.reclaim();
                pool.counters().blocks_in_use()
            })
            .sum()
    }
}
