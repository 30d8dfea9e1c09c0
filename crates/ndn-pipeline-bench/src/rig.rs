//! One shard with the surroundings that a worker provides.

use std::collections::VecDeque;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use ndn_caching::PolicyKind;
use ndn_forwarding::{
    Burst, Counters, Dispatcher, FaceProperties, Ingress, LpFields, Observers, PitToken,
    PitTokenPolicy, RxFace, ServiceTimer, Shard, ShardConfig, SharedTables, StrategyTable, TxKind,
    TxPacket, TxSink, UnsolicitedPolicy,
};
use ndn_packet::NameRef;
use ndn_ring::{FillBlock, PacketHandle, PacketPool, PagePreference, free_huge_bytes};
use ndn_table::{
    FaceIndex, FibConfig, FibWriter, NameHasher, Ndt, NextHop, PREFIX_HASHES_MAX, PcctConfig,
};
use ndn_types::{Scope, Timestamp};

use crate::traffic::{DataTemplate, InterestTemplate, NameShape};

/// The sink keeps larger packets instead of copying them, as a face does for `writev`.
const COPIED_LENGTH_MAX: usize = 2048;

/// The output buffer of a face.
const OUTPUT_BYTES: usize = 256 * 1024;

/// Blocks of received bytes; more if packets wait in rings.
const BLOCKS: u32 = 64;
const BLOCKS_OF_WORKERS: u32 = 512;

/// Packet memory in the same kind of pages as in a forwarder.
fn packet_pool(blocks: u32) -> Result<PacketPool> {
    PacketPool::with_pages(blocks, PagePreference::Best, free_huge_bytes(None))
        .context("packet memory")
}

/// Multiplication by this number gives every Interest a unique Nonce.
const NONCE_FACTOR: u32 = 0x9E37_79B1;
/// Its multiplicative inverse.
const NONCE_INVERSE: u32 = 0x0E8B_2F51;
const _: () = assert!(NONCE_FACTOR.wrapping_mul(NONCE_INVERSE) == 1);

/// Sizes of a rig.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RigConfig {
    pub(crate) shape: NameShape,
    pub(crate) payload: usize,
    pub(crate) cs_packets: u32,
    pub(crate) pit_entries: u32,
    /// Replacement policy of the Content Store.
    pub(crate) policy: PolicyKind,
    pub(crate) with_tokens: bool,
    /// Number of the shard.
    pub(crate) shard: u8,
    /// Workers whose faces the shard sends on; its own worker has its number.
    pub(crate) workers: u8,
}

impl RigConfig {
    /// The face on which a worker's Interests arrive.
    pub(crate) fn consumer(&self, worker: u8) -> FaceIndex {
        FaceIndex::new(u32::from(worker), 1)
    }

    /// A worker's face towards the producer.
    pub(crate) fn producer(&self, worker: u8) -> FaceIndex {
        FaceIndex::new(u32::from(self.workers.next_power_of_two()) + u32::from(worker), 1)
    }
}

/// Output of the faces: copies packets, or keeps large ones.
#[derive(Debug)]
pub(crate) struct Sink<'a> {
    pub(crate) pool: &'a PacketPool,
    pub(crate) output: &'a mut Output,
}

#[derive(Debug)]
pub(crate) struct Output {
    buffer: Vec<u8>,
    position: usize,
    kept: Vec<PacketHandle>,
    /// PIT tokens of the Interests sent upstream, in order.
    tokens: VecDeque<SentToken>,
    /// Their Nonces, if Interests of several workers are mixed.
    nonces: Option<VecDeque<u32>>,
    /// Offset of the Nonce in an Interest.
    nonce_start: usize,
    /// Data sent downstream.
    pub(crate) data: u64,
    nacks: u64,
}

/// PIT token of an Interest sent upstream. It is small, so that the tokens of 20,000 Interests do not evict the
/// shard's tables from the cache.
#[derive(Debug, Clone, Copy)]
struct SentToken {
    bytes: [u8; 7],
    length: u8,
}

impl SentToken {
    /// Stores the token `bytes`, of 6 bytes or none.
    #[inline]
    fn new(bytes: &[u8]) -> Self {
        let mut token = Self { bytes: [0; 7], length: 0 };
        if let Some(start) = token.bytes.get_mut(..bytes.len()) {
            start.copy_from_slice(bytes);
            token.length = u8::try_from(bytes.len()).unwrap_or(0);
        }
        token
    }

    fn to_pit_token(self) -> PitToken {
        PitToken::new(&self.bytes[..usize::from(self.length)]).unwrap_or(PitToken::NONE)
    }
}

impl TxSink for Sink<'_> {
    #[inline]
    fn send(&mut self, face: FaceIndex, packet: &TxPacket<'_>) {
        let output = &mut *self.output;
        match packet.kind {
            TxKind::Interest => {
                debug_assert!(face.slot() > 0);
                output.tokens.push_back(SentToken::new(packet.pit_token));
                if let Some(nonces) = &mut output.nonces {
                    let nonce = packet.wire[output.nonce_start..][..4].try_into();
                    nonces.push_back(u32::from_be_bytes(nonce.unwrap_or_default()));
                }
            }
            TxKind::Data => output.data += 1,
            TxKind::Nack(_) => output.nacks += 1,
        }
        match packet.handle {
            Some(handle) if packet.wire.len() > COPIED_LENGTH_MAX => {
                output.kept.push(self.pool.retain(handle));
            }
            _ => output.copy(packet.wire),
        }
    }
}

impl Output {
    #[inline]
    fn copy(&mut self, wire: &[u8]) {
        if self.position + wire.len() > self.buffer.len() {
            self.position = 0;
        }
        let end = self.position + wire.len();
        self.buffer[self.position..end].copy_from_slice(wire);
        self.position = end;
    }

    /// Releases packets as a face does after passing them to the kernel.
    pub(crate) fn flush(&mut self, pool: &PacketPool) {
        self.position = 0;
        for handle in self.kept.drain(..) {
            pool.release(handle);
        }
    }
}

/// A received packet that is not parsed yet.
#[derive(Debug)]
struct Received {
    block: usize,
    length: usize,
    face: RxFace,
    lp: LpFields,
}

/// A shard, its faces, and the bytes of its next burst.
#[derive(Debug)]
pub(crate) struct Rig {
    pub(crate) config: RigConfig,
    pub(crate) counters: Arc<Counters>,
    pub(crate) interests: InterestTemplate,
    pub(crate) prefix_interests: InterestTemplate,
    pub(crate) data: DataTemplate,
    pub(crate) shard: Shard,
    ingress: Ingress,
    pub(crate) pool: PacketPool,
    pub(crate) burst: Burst,
    received: Vec<Received>,
    blocks: Vec<FillBlock>,
    pub(crate) output: Output,
    consumer: RxFace,
    producer: RxFace,
    nonce: u32,
    pub(crate) hasher: NameHasher,
    /// Nanoseconds.
    pub(crate) clock: fn() -> u64,
    /// Measures service times, if enabled.
    pub(crate) timer: Option<ServiceTimer>,
    /// State shared with other shards, for one of several.
    others: Option<Others>,
}

#[derive(Debug)]
struct Others {
    ndt: Arc<Ndt>,
    dispatcher: Dispatcher,
}

/// The hash key of the rigs.
const KEY: [u8; 16] = *b"pipeline bench 1";

impl Rig {
    /// Creates a shard whose FIB has a route for each prefix of the names. Interests with CanBePrefix have a name of
    /// `prefix_length` bytes.
    pub(crate) fn new(config: RigConfig, prefix_length: usize, now: u64) -> Result<Self> {
        let now = Timestamp::from_nanos(now);
        let hasher = NameHasher::new(KEY);
        let (strategies, default_strategy) = StrategyTable::with_best_route();
        let entries_max = config.shape.prefix_count as usize + 1000;
        let mut fib = FibWriter::new(&FibConfig { entries_max, hasher, default_strategy });
        for index in 0..config.shape.prefix_count {
            let prefix = config.shape.prefix(u64::from(index));
            fib.set_next_hops(
                NameRef::from_value(&prefix)?,
                &[NextHop { face: config.producer(upstream_of(index, config.workers)), cost: 1 }],
            )?;
        }
        let counters: Arc<Counters> = Arc::default();
        let mut shard = Shard::new(
            &ShardConfig {
                shard: config.shard,
                hasher,
                pcct: PcctConfig {
                    cs_bytes_max: cs_bytes(&config),
                    cs_policy: config.policy,
                    ..PcctConfig::with_capacity(config.pit_entries, config.cs_packets, now)
                },
                dead_nonce_lifetime_ms: 6000,
                dead_nonce_capacity: 1 << 20,
                strategy_timer_capacity: 1 << 16,
                unsolicited: UnsolicitedPolicy::DropAll,
            },
            fib.publish(),
            Arc::new(strategies),
            Arc::clone(&counters),
            now,
        );
        let properties = FaceProperties::point_to_point(300, Scope::NonLocal);
        let pit_tokens =
            if config.with_tokens { PitTokenPolicy::Always } else { PitTokenPolicy::Never };
        let upstream = FaceProperties { face_id: 301, pit_tokens, ..properties };
        for worker in 0..config.workers {
            let face_id = 300 + 2 * u64::from(worker);
            shard.set_face(config.consumer(worker), &FaceProperties { face_id, ..properties });
            let face_id = face_id + 1;
            shard.set_face(config.producer(worker), &FaceProperties { face_id, ..upstream });
        }
        // With several workers, the number of the shard is also that of its worker.
        let own = config.shard % config.workers;
        let has_workers = config.workers > 1;
        let name = config.shape.name(0);
        let interests = InterestTemplate::new(&name, false);
        Ok(Self {
            config,
            output: Output {
                buffer: vec![0; OUTPUT_BYTES],
                position: 0,
                kept: Vec::with_capacity(ndn_forwarding::BURST_SIZE),
                tokens: VecDeque::with_capacity(1 << 17),
                nonces: has_workers.then(|| VecDeque::with_capacity(1 << 17)),
                nonce_start: interests.nonce_start(),
                data: 0,
                nacks: 0,
            },
            interests,
            prefix_interests: InterestTemplate::new(&name[..prefix_length], true),
            data: DataTemplate::new(&name, config.payload),
            shard,
            ingress: Ingress::new(hasher, Arc::clone(&counters), 1),
            counters,
            pool: packet_pool(if has_workers { BLOCKS_OF_WORKERS } else { BLOCKS })?,
            burst: Burst::new(),
            received: Vec::with_capacity(ndn_forwarding::BURST_SIZE),
            blocks: Vec::with_capacity(BLOCKS as usize),
            consumer: RxFace::new(config.consumer(own), &properties),
            producer: RxFace::new(config.producer(own), &upstream),
            nonce: 0,
            hasher,
            clock: ndn_sys::clock::now,
            timer: None,
            others: None,
        })
    }

    /// Makes this one of several shards.
    pub(crate) fn join_others(&mut self, shared: &SharedTables) {
        self.shard.join_others(shared.clone());
        let ndt = Arc::clone(&shared.ndt);
        let dispatcher = Dispatcher::new(Arc::clone(&ndt), self.config.shard);
        self.others = Some(Others { ndt, dispatcher });
    }

    /// Returns whether name `sequence` belongs to this shard.
    pub(crate) fn owns(&self, sequence: u64) -> bool {
        let Some(others) = &self.others else { return true };
        let name = self.config.shape.name(sequence);
        let mut hashes = [0; PREFIX_HASHES_MAX];
        let components = u16::try_from(self.config.shape.components).unwrap_or(0);
        let name = NameRef::from_validated(&name, components);
        let count = self.hasher.hash_prefixes(name, &mut hashes).unwrap_or(0);
        others.ndt.find(name, &hashes[..count]).shard == self.config.shard
    }

    /// Receives an Interest for name `sequence`.
    pub(crate) fn receive_interest(&mut self, sequence: u64) -> Result<()> {
        let name = self.config.shape.name(sequence);
        self.receive_interest_for(&name, false)
    }

    /// Receives an Interest for a name, with or without CanBePrefix.
    pub(crate) fn receive_interest_for(&mut self, name: &[u8], can_be_prefix: bool) -> Result<()> {
        // The factor is odd: a Nonce repeats only after all others.
        self.nonce = self.nonce.wrapping_add(NONCE_FACTOR);
        let template = if can_be_prefix { &self.prefix_interests } else { &self.interests };
        let length = template.len();
        let block = block_with_room(&self.pool, &mut self.blocks, length)?;
        template.write(name, self.nonce, self.blocks[block].spare_mut());
        self.blocks[block].commit(length);
        let (face, lp) = (self.consumer, LpFields::default());
        self.received.push(Received { block, length, face, lp });
        Ok(())
    }

    /// Receives an Interest for name `sequence`, which its Nonce encodes.
    pub(crate) fn receive_numbered_interest(&mut self, sequence: u64) -> Result<()> {
        let sequence_u32 = u32::try_from(sequence)?;
        self.nonce = sequence_u32.wrapping_mul(NONCE_FACTOR);
        self.receive_interest(sequence)
    }

    /// Receives the Data for the oldest pending Interest.
    pub(crate) fn receive_next_data(&mut self) -> Result<()> {
        let nonces = self.output.nonces.as_mut().context("Interests are not numbered")?;
        let nonce = nonces.pop_front().context("no Interest is outstanding")?;
        let sequence = nonce.wrapping_mul(NONCE_INVERSE).wrapping_sub(1);
        self.receive_data(u64::from(sequence))
    }

    /// Receives the Data of name `sequence` for the oldest pending Interest.
    pub(crate) fn receive_data(&mut self, sequence: u64) -> Result<()> {
        let name = self.config.shape.name(sequence);
        let token = self.output.tokens.pop_front().context("no Interest is outstanding")?;
        let token = token.to_pit_token();
        let length = self.data.len();
        let block = block_with_room(&self.pool, &mut self.blocks, length)?;
        self.data.write(&name, sequence, self.blocks[block].spare_mut());
        self.blocks[block].commit(length);
        let lp = LpFields { pit_token: token, ..LpFields::default() };
        self.received.push(Received { block, length, face: self.producer, lp });
        Ok(())
    }

    /// Leaves the oldest pending Interest without an answer.
    pub(crate) fn forget_interest(&mut self) -> Result<()> {
        self.output.tokens.pop_front().context("no Interest is outstanding")?;
        Ok(())
    }

    /// Returns the number of pending Interests upstream.
    pub(crate) fn outstanding(&self) -> usize {
        self.output.tokens.len()
    }

    /// Processes received packets as a worker does: parses, forwards, and frees the buffers. Returns the time in
    /// nanoseconds. Receiving itself, the work of the kernel and the face, is not included.
    #[inline(never)]
    pub(crate) fn process(&mut self) -> Result<u64> {
        let start = (self.clock)();
        if let Some(timer) = self.timer.take() {
            return self.process_traced(start, timer);
        }
        self.parse();
        if let Some(Others { dispatcher, .. }) = &mut self.others {
            dispatcher.prefetch(&self.burst);
            let mut is_foreign = false;
            dispatcher.dispatch_all(&mut self.burst, &self.pool, |_, _, _| is_foreign = true);
            ensure!(!is_foreign, "a name of another shard");
        }
        let mut sink = Sink { pool: &self.pool, output: &mut self.output };
        let now = Timestamp::from_nanos(start);
        self.shard.poll_timers(now, &mut sink);
        self.shard.process_burst(now, &mut self.burst, &self.pool, &mut sink);
        self.output.flush(&self.pool);
        self.burst.release(&self.pool);
        self.shard.end_burst();
        self.finish(start)
    }

    /// Parses the received packets into the burst.
    #[inline]
    pub(crate) fn parse(&mut self) {
        for Received { block, length, face, lp } in &self.received {
            let block = &mut self.blocks[*block];
            let pushed = self.ingress.push(&mut self.burst, &self.pool, block, *length, lp, face);
            debug_assert!(pushed.is_ok());
        }
    }

    /// Frees the blocks; returns the time since `start`.
    pub(crate) fn finish(&mut self, start: u64) -> Result<u64> {
        for block in self.blocks.drain(..) {
            self.pool.finish(block);
        }
        let end = (self.clock)();
        self.received.clear();
        ensure!(self.output.nacks == 0, "the shard sent Nacks");
        Ok(end - start)
    }

    /// As [`process`](Self::process), with measurement of service times.
    #[inline(never)]
    fn process_traced(&mut self, start: u64, mut timer: ServiceTimer) -> Result<u64> {
        let now = Timestamp::from_nanos(start);
        let is_measuring = timer.is_measuring();
        if is_measuring {
            for Received { block, length, face, lp } in &self.received {
                let (index, begin_ns) = (self.burst.len(), timer.now_ns());
                let block = &mut self.blocks[*block];
                let (burst, pool) = (&mut self.burst, &self.pool);
                let pushed = self.ingress.push(burst, pool, block, *length, lp, face);
                debug_assert!(pushed.is_ok());
                timer.received(index, begin_ns);
            }
            timer.begin();
            for index in 0..self.burst.len() {
                timer.lap(index, self.burst.kind(index));
            }
            timer.finish_dispatch();
        } else {
            self.parse();
        }
        let mut sink = Sink { pool: &self.pool, output: &mut self.output };
        self.shard.poll_timers(now, &mut sink);
        if is_measuring {
            timer.begin();
            let mut observers = Observers { timer: Some(&mut timer), tracer: None };
            let burst = &mut self.burst;
            self.shard.process_burst_observed(now, burst, &self.pool, &mut sink, &mut observers);
        } else {
            self.shard.process_burst(now, &mut self.burst, &self.pool, &mut sink);
        }
        self.output.flush(&self.pool);
        self.burst.release(&self.pool);
        self.shard.end_burst();
        if is_measuring {
            timer.finish_forwarding();
        }
        timer.next_burst(now);
        self.timer = Some(timer);
        self.finish(start)
    }
}

/// The worker that has the upstream face of a route.
fn upstream_of(route: u32, workers: u8) -> u8 {
    u8::try_from(route % u32::from(workers)).unwrap_or(0)
}

/// Returns a block with `length` free bytes: the last one, or a new one.
fn block_with_room(pool: &PacketPool, blocks: &mut Vec<FillBlock>, length: usize) -> Result<usize> {
    if blocks.last().is_none_or(|block| block.remaining() < length) {
        blocks.push(pool.allocate_block().context("no packet memory is free")?);
    }
    Ok(blocks.len() - 1)
}

/// Room for the payloads in any size class.
fn cs_bytes(config: &RigConfig) -> usize {
    config.cs_packets as usize * (config.payload + 512) * 3 / 2
}
