//! One shard with everything around it that a worker would have.

use std::collections::VecDeque;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use ndn_forwarding::{
    Burst, Counters, Dispatcher, FaceProperties, FaceScope, Ingress, LpFields, PitToken,
    PitTokenPolicy, RxFace, Shard, ShardConfig, SharedTables, StrategyTable, TxKind, TxPacket,
    TxSink, UnsolicitedPolicy,
};
use ndn_packet::NameRef;
use ndn_ring::{FillBlock, PacketHandle, PacketPool};
use ndn_table::{
    FaceIndex, FibConfig, FibWriter, NameHasher, Ndt, NextHop, PREFIX_HASHES_MAX, PcctConfig,
    Timestamp,
};

use super::traffic::{DataTemplate, InterestTemplate, NameShape};

/// Where Interests come from.
pub(super) const CONSUMER: FaceIndex = FaceIndex::new(0, 1);
/// Where they go.
pub(super) const PRODUCER: FaceIndex = FaceIndex::new(1, 1);

/// Packets above this are not copied by the sink but kept, as a face would for `writev`.
const COPIED_LENGTH_MAX: usize = 2048;

/// The output buffer of a face.
const OUTPUT_BYTES: usize = 256 * 1024;

/// Blocks of received bytes.
const BLOCKS: u32 = 64;

/// Sizes of a rig.
#[derive(Debug, Clone, Copy)]
pub(super) struct RigConfig {
    pub(super) shape: NameShape,
    pub(super) payload: usize,
    pub(super) cs_packets: u32,
    pub(super) pit_entries: u32,
    pub(super) with_tokens: bool,
    /// Number of the shard.
    pub(super) shard: u8,
}

/// What the two faces do with what they are given: copy it, or keep large packets.
#[derive(Debug)]
struct Sink<'a> {
    pool: &'a PacketPool,
    output: &'a mut Output,
}

#[derive(Debug)]
struct Output {
    buffer: Vec<u8>,
    position: usize,
    kept: Vec<PacketHandle>,
    /// Tokens of the Interests that went upstream, in order.
    tokens: VecDeque<SentToken>,
    nacks: u64,
}

/// A token that an Interest took upstream, kept small: that of 20,000 Interests is not to push the
/// tables of the shard out of the cache.
#[derive(Debug, Clone, Copy)]
struct SentToken {
    bytes: [u8; 7],
    length: u8,
}

impl SentToken {
    /// The token `bytes`, of 6 bytes or none.
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
    fn send(&mut self, face: FaceIndex, packet: TxPacket<'_>) {
        let output = &mut *self.output;
        match packet.kind {
            TxKind::Interest => {
                debug_assert_eq!(face, PRODUCER);
                output.tokens.push_back(SentToken::new(packet.pit_token));
            }
            TxKind::Data => {}
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

    /// What a face does once its packets are with the kernel.
    fn flush(&mut self, pool: &PacketPool) {
        self.position = 0;
        for handle in self.kept.drain(..) {
            pool.release(handle);
        }
    }
}

/// One packet that has been received but not parsed.
#[derive(Debug)]
struct Received {
    block: usize,
    length: usize,
    face: RxFace,
    lp: LpFields,
}

/// A shard, its faces, and the bytes of its next burst.
#[derive(Debug)]
pub(super) struct Rig {
    pub(super) config: RigConfig,
    pub(super) counters: Arc<Counters>,
    pub(super) interests: InterestTemplate,
    pub(super) prefix_interests: InterestTemplate,
    pub(super) data: DataTemplate,
    pub(super) shard: Shard,
    ingress: Ingress,
    pool: PacketPool,
    burst: Burst,
    received: Vec<Received>,
    blocks: Vec<FillBlock>,
    output: Output,
    consumer: RxFace,
    producer: RxFace,
    nonce: u32,
    hasher: NameHasher,
    /// What this one of several shards needs to know of the others.
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
    /// A shard whose FIB has a route for each prefix of the names.
    /// Interests with CanBePrefix have a name of `prefix_length` bytes.
    pub(super) fn new(config: RigConfig, prefix_length: usize, now: u64) -> Result<Self> {
        let now = Timestamp::from_nanos(now);
        let hasher = NameHasher::new(KEY);
        let (strategies, default_strategy) = StrategyTable::with_best_route();
        let entries_max = config.shape.prefix_count as usize + 1000;
        let mut fib = FibWriter::new(&FibConfig { entries_max, hasher, default_strategy });
        for index in 0..config.shape.prefix_count {
            let prefix = config.shape.prefix(u64::from(index));
            fib.set_next_hops(
                NameRef::from_value(&prefix)?,
                &[NextHop { face: PRODUCER, cost: 1 }],
            )?;
        }
        let counters: Arc<Counters> = Arc::default();
        let mut shard = Shard::new(
            &ShardConfig {
                shard: config.shard,
                hasher,
                pcct: PcctConfig {
                    cs_bytes_max: cs_bytes(&config),
                    ..PcctConfig::with_capacity(config.pit_entries, config.cs_packets, now)
                },
                dead_nonce_lifetime_ms: 6000,
                dead_nonce_capacity: 1 << 20,
                strategy_timer_capacity: 1 << 16,
                unsolicited: UnsolicitedPolicy::DropAll,
                pending_quota: u32::MAX,
            },
            fib.publish(),
            Arc::new(strategies),
            Arc::clone(&counters),
            now,
        );
        let properties = FaceProperties::point_to_point(300, FaceScope::NonLocal);
        let pit_tokens =
            if config.with_tokens { PitTokenPolicy::Always } else { PitTokenPolicy::Never };
        let upstream = FaceProperties { face_id: 301, pit_tokens, ..properties };
        shard.set_face(CONSUMER, &properties);
        shard.set_face(PRODUCER, &upstream);
        let name = config.shape.name(0);
        Ok(Self {
            config,
            interests: InterestTemplate::new(&name, false),
            prefix_interests: InterestTemplate::new(&name[..prefix_length], true),
            data: DataTemplate::new(&name, config.payload),
            shard,
            ingress: Ingress::new(hasher, Arc::clone(&counters), 1),
            counters,
            pool: PacketPool::new(BLOCKS).context("packet memory")?,
            burst: Burst::new(),
            received: Vec::with_capacity(ndn_forwarding::BURST_SIZE),
            blocks: Vec::with_capacity(BLOCKS as usize),
            output: Output {
                buffer: vec![0; OUTPUT_BYTES],
                position: 0,
                kept: Vec::with_capacity(ndn_forwarding::BURST_SIZE),
                tokens: VecDeque::with_capacity(1 << 17),
                nacks: 0,
            },
            consumer: RxFace::new(CONSUMER, &properties),
            producer: RxFace::new(PRODUCER, &upstream),
            nonce: 0,
            hasher,
            others: None,
        })
    }

    /// Makes this one of several shards.
    pub(super) fn join_others(&mut self, shared: &SharedTables) {
        self.shard.join_others(shared.clone());
        let ndt = Arc::clone(&shared.ndt);
        let dispatcher = Dispatcher::new(Arc::clone(&ndt));
        self.others = Some(Others { ndt, dispatcher });
    }

    /// Whether name `sequence` belongs to this shard.
    pub(super) fn owns(&self, sequence: u64) -> bool {
        let Some(others) = &self.others else { return true };
        let name = self.config.shape.name(sequence);
        let mut hashes = [0; PREFIX_HASHES_MAX];
        let components = u16::try_from(self.config.shape.components).unwrap_or(0);
        let name = NameRef::from_validated(&name, components);
        let count = self.hasher.hash_prefixes(name, &mut hashes).unwrap_or(0);
        others.ndt.find(name, &hashes[..count]).shard == self.config.shard
    }

    /// Receives an Interest for name `sequence`.
    pub(super) fn receive_interest(&mut self, sequence: u64) -> Result<()> {
        let name = self.config.shape.name(sequence);
        self.receive_interest_for(&name, false)
    }

    /// Receives an Interest for a name, with or without CanBePrefix.
    pub(super) fn receive_interest_for(&mut self, name: &[u8], can_be_prefix: bool) -> Result<()> {
        // Multiplying by an odd number: no Nonce comes twice before all others have been.
        self.nonce = self.nonce.wrapping_add(0x9E37_79B1);
        let template = if can_be_prefix { &self.prefix_interests } else { &self.interests };
        let length = template.len();
        let block = block_with_room(&self.pool, &mut self.blocks, length)?;
        template.write(name, self.nonce, self.blocks[block].spare_mut());
        self.blocks[block].commit(length);
        let (face, lp) = (self.consumer, LpFields::default());
        self.received.push(Received { block, length, face, lp });
        Ok(())
    }

    /// Receives the Data of name `sequence`, the answer to the Interest that has waited longest.
    pub(super) fn receive_data(&mut self, sequence: u64) -> Result<()> {
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

    /// Lets the Interest that has waited longest wait for ever.
    pub(super) fn forget_interest(&mut self) -> Result<()> {
        self.output.tokens.pop_front().context("no Interest is outstanding")?;
        Ok(())
    }

    /// Interests upstream that have no Data yet.
    pub(super) fn outstanding(&self) -> usize {
        self.output.tokens.len()
    }

    /// Does what a worker does with what it has received: parse, forward, and give the buffers
    /// back. Returns the nanoseconds that it took. Receiving itself, which the kernel and the face
    /// do, is not part of it.
    pub(super) fn process(&mut self) -> Result<u64> {
        let start = ndn_sys::clock::now();
        for Received { block, length, face, lp } in &self.received {
            let block = &mut self.blocks[*block];
            let pushed = self.ingress.push(&mut self.burst, &self.pool, block, *length, lp, face);
            debug_assert!(pushed.is_ok());
        }
        if let Some(Others { dispatcher, .. }) = &mut self.others {
            for index in 0..self.burst.len() {
                let shard = dispatcher.dispatch(&mut self.burst, index, &self.pool);
                ensure!(shard == self.config.shard, "a name of another shard");
            }
        }
        let mut sink = Sink { pool: &self.pool, output: &mut self.output };
        let now = Timestamp::from_nanos(start);
        self.shard.poll_timers(now, &mut sink);
        self.shard.process_burst(now, &mut self.burst, &self.pool, &mut sink);
        self.output.flush(&self.pool);
        self.burst.release(&self.pool);
        self.shard.end_burst();
        for block in self.blocks.drain(..) {
            self.pool.finish(block);
        }
        let end = ndn_sys::clock::now();
        self.received.clear();
        ensure!(self.output.nacks == 0, "the shard sent Nacks");
        Ok(end - start)
    }
}

/// A block with `length` bytes free: the last one, or a new one.
fn block_with_room(pool: &PacketPool, blocks: &mut Vec<FillBlock>, length: usize) -> Result<usize> {
    if blocks.last().is_none_or(|block| block.remaining() < length) {
        blocks.push(pool.allocate_block().context("no packet memory is free")?);
    }
    Ok(blocks.len() - 1)
}

/// Room for the payloads, whatever the size class that they fall into.
fn cs_bytes(config: &RigConfig) -> usize {
    config.cs_packets as usize * (config.payload + 512) * 3 / 2
}
