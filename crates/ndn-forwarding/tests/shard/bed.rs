//! One or two shards with all that they need, driven with packets as plain values.

use std::collections::BTreeMap;
use std::sync::Arc;

use ndn_forwarding::{
    Burst, Counters, DropReason, FaceProperties, FaceScope, Ingress, LinkType, LpFields,
    NackReason, PacketKind, PitToken, PitTokenPolicy, ProducerRegions, RxFace, Shard, ShardConfig,
    StrategyTable, TxKind, TxPacket, TxSink, UnsolicitedPolicy,
};
use ndn_packet::{Name as PacketName, NameRef};
use ndn_ring::PacketPool;
use ndn_table::{FaceIndex, FibConfig, FibWriter, NameHasher, PcctConfig, Timestamp, Token};

use crate::model::{Arrival, Face, FaceSpec, Link, Time, Tokens, Unsolicited};
use crate::wire::{Name, name_value};

/// A packet that a shard has sent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sent {
    pub face: Face,
    pub kind: SentKind,
    pub wire: Vec<u8>,
    pub token: Vec<u8>,
    pub mark: u64,
    pub incoming_face: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SentKind {
    Interest,
    Data,
    Nack(u64),
}

/// Takes down what is sent.
#[derive(Debug, Default)]
pub struct Recorder(pub Vec<Sent>);

impl TxSink for Recorder {
    fn send(&mut self, face: FaceIndex, packet: TxPacket<'_>) {
        self.0.push(Sent {
            face: face.slot(),
            kind: match packet.kind {
                TxKind::Interest => SentKind::Interest,
                TxKind::Data => SentKind::Data,
                TxKind::Nack(NackReason(reason)) => SentKind::Nack(reason),
            },
            wire: packet.wire.to_vec(),
            token: packet.pit_token.to_vec(),
            mark: packet.congestion_mark,
            incoming_face: packet.incoming_face_id,
        });
    }
}

/// FaceId of a test face.
pub fn face_id(face: Face) -> u64 {
    1000 + u64::from(face)
}

#[derive(Clone, Debug)]
pub struct BedConfig {
    pub shard_count: usize,
    pub cs_capacity: usize,
    pub pit_capacity: usize,
    pub unsolicited: Unsolicited,
}

impl Default for BedConfig {
    fn default() -> Self {
        Self {
            shard_count: 1,
            cs_capacity: 1000,
            pit_capacity: 1000,
            unsolicited: Unsolicited::DropAll,
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
    pool: PacketPool,
    hasher: NameHasher,
    faces: BTreeMap<Face, FaceProperties>,
    received: Burst,
    dispatched: Vec<Burst>,
    pub sent: Recorder,
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
                    pcct: PcctConfig::with_capacity(
                        u32::try_from(config.pit_capacity).unwrap(),
                        u32::try_from(config.cs_capacity).unwrap(),
                        Timestamp::ZERO,
                    ),
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
        let shards = shards.collect();
        let ingress = Ingress::new(hasher, Arc::clone(&counters[0]), 42);
        Self {
            shards,
            fib,
            counters,
            strategies,
            ingress,
            pool: PacketPool::new(256).unwrap(),
            hasher,
            faces: BTreeMap::new(),
            received: Burst::new(),
            dispatched: (0..config.shard_count).map(|_| Burst::new()).collect(),
            sent: Recorder::default(),
        }
    }

    pub fn add_face(&mut self, face: Face, spec: FaceSpec) {
        let properties = FaceProperties {
            face_id: face_id(face),
            scope: if spec.local { FaceScope::Local } else { FaceScope::NonLocal },
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

    pub fn remove_route(&mut self, prefix: &Name, face: Face) {
        let value = name_value(prefix);
        let prefix = NameRef::from_value(&value).unwrap();
        assert!(self.fib.remove_next_hop(prefix, FaceIndex::new(face, 1)));
        self.publish();
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

    pub fn set_regions(&mut self, regions: &[Name]) {
        let names = regions.iter().map(|region| {
            let value = name_value(region);
            NameRef::from_value(&value).unwrap().to_name()
        });
        self.ingress.set_producer_regions(Arc::new(ProducerRegions::new(names.collect())));
    }

    fn publish(&mut self) {
        let snapshot = self.fib.publish();
        for shard in &mut self.shards {
            shard.set_fib(Arc::clone(&snapshot));
        }
        self.fib.collect();
    }

    /// Takes a burst of packets; what is sent is in `sent` then.
    pub fn process(&mut self, now: Time, arrivals: &[Arrival]) {
        let now = Timestamp::from_millis(now);
        while self.poll(now) {}
        for arrival in arrivals {
            // Malformed ones are counted.
            let _ = self.receive(arrival);
        }
        if let [shard] = &mut self.shards[..] {
            shard.process_burst(now, &mut self.received, &self.pool, &mut self.sent);
            self.received.release(&self.pool);
            shard.end_burst();
            return;
        }
        for index in 0..self.received.len() {
            let shard = self.shard_of(index);
            self.dispatched[shard].transfer(&mut self.received, index).unwrap();
        }
        for (shard, burst) in self.shards.iter_mut().zip(&mut self.dispatched) {
            shard.process_burst(now, burst, &self.pool, &mut self.sent);
            burst.release(&self.pool);
            shard.end_burst();
        }
        self.received.release(&self.pool);
    }

    /// Lets time pass.
    pub fn advance(&mut self, now: Time) {
        while self.poll(Timestamp::from_millis(now)) {}
    }

    fn poll(&mut self, now: Timestamp) -> bool {
        let sent = &mut self.sent;
        self.shards.iter_mut().fold(false, |more, shard| shard.poll_timers(now, sent) | more)
    }

    pub fn remove_face(&mut self, face: Face) {
        for shard in &mut self.shards {
            shard.remove_face(FaceIndex::new(face, 1));
        }
    }

    /// Takes a packet into the next burst.
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
        };
        self.receive_wire(arrival.face, &arrival.packet.encode(), &lp)
    }

    /// Takes bytes that may not be a packet at all.
    pub fn receive_bytes(&mut self, face: Face, wire: &[u8]) -> Result<(), DropReason> {
        self.receive_wire(face, wire, &LpFields::default())
    }

    fn receive_wire(&mut self, face: Face, wire: &[u8], lp: &LpFields) -> Result<(), DropReason> {
        let mut block = self.pool.allocate_block().unwrap();
        block.spare_mut()[..wire.len()].copy_from_slice(wire);
        block.commit(wire.len());
        let face = RxFace::new(FaceIndex::new(face, 1), &self.faces[&face]);
        let (burst, pool) = (&mut self.received, &self.pool);
        let result = self.ingress.push(burst, pool, &mut block, wire.len(), lp, &face);
        assert!(block.filled().is_empty(), "the packet is consumed whether dropped or not");
        self.pool.finish(block);
        result
    }

    /// Where packet `index` of the received burst goes: by its own token, else by the hash of the
    /// first two components. Names under `/wide` go by the first alone, and only there do Interests
    /// of a single component occur, so a Data meets all Interests that it matches.
    fn shard_of(&self, index: usize) -> usize {
        let burst = &self.received;
        let token = Token::decode(burst.pit_token(index));
        if burst.kind(index) != PacketKind::Interest
            && let Some(token) = token
            && usize::from(token.shard) < self.shards.len()
        {
            return usize::from(token.shard);
        }
        let hashes = burst.prefix_hashes(index);
        let wide = self.hasher.hash_value(&name_value(&crate::wire::name("/wide")));
        let depth = if hashes[1] == wide { 1 } else { 2 };
        let hash = hashes[depth.min(hashes.len() - 1)];
        usize::try_from(hash % self.shards.len() as u64).unwrap()
    }

    /// Blocks of packet memory in use.
    pub fn blocks_in_use(&self) -> u32 {
        self.pool.counters().blocks_in_use()
    }
}
