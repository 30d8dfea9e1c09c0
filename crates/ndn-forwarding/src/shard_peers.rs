//! A shard among several.

use ndn_ring::PacketPool;
use ndn_table::StrategyId;
use ndn_types::Timestamp;

use crate::dispatch::{Content, Crossing};
use crate::packet::RxPacket;
use crate::peers::PeerShards;
use crate::strategy::Context;
use crate::{Burst, Shard, SharedTables, TxSink};

/// Communication with the other shards of the forwarder. A single shard sends and receives no
/// messages.
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
    pub fn take_crossings(&mut self) -> impl Iterator<Item = Crossing> {
        self.tables.peers.iter_mut().flat_map(|peers| peers.outbox.drain(..))
    }

    /// Processes a message from another shard. A [`Content::Packet`] is processed more efficiently
    /// in a burst with others.
    pub fn process_crossing(
        &mut self,
        now: Timestamp,
        content: Content,
        pool: &PacketPool,
        tx: &mut impl TxSink,
    ) {
        // A single shard drops the message.
        let Some(mut burst) = self.message_burst.take() else { return content.release(pool) };
        match content {
            Content::Packet(parcel) => {
                self.push_message(&mut burst, parcel, pool);
                self.process_burst(now, &mut burst, pool, tx);
            }
            Content::Visit(parcel, visit) => {
                self.push_message(&mut burst, parcel, pool);
                let Self { tables, fib, strategies, matches, .. } = self;
                let mut context = Context { now, tables, fib, tx, strategy: StrategyId::default() };
                if let Some(rx) = RxPacket::new(&burst, 0, pool) {
                    context.cross_shard_data(&rx, Some(visit), matches, strategies);
                }
            }
            Content::Probe(parcel, probe) => {
                self.push_message(&mut burst, parcel, pool);
                let Self { tables, fib, strategies, .. } = self;
                let mut context = Context { now, tables, fib, tx, strategy: StrategyId::default() };
                if let Some(rx) = RxPacket::new(&burst, 0, pool) {
                    context.process_probe(&rx, probe, pool, strategies);
                }
            }
            Content::Answer(answer) => {
                let Self { tables, fib, .. } = self;
                let mut context = Context { now, tables, fib, tx, strategy: StrategyId::default() };
                context.answer_from_probe(&answer, pool.bytes(&answer.handle));
                pool.release(answer.handle);
            }
            Content::FaceSendsTokens(face) => {
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
            peers.outbox.drain(..).for_each(|crossing| crossing.content.release(pool));
        }
    }

    fn push_message(&self, burst: &mut Burst, mut parcel: crate::Parcel, pool: &PacketPool) {
        if !burst.push_parcel(&mut parcel, pool, &self.tables.hasher) {
            parcel.release(pool);
        }
    }
}
