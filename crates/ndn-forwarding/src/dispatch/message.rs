//! Messages between shards.

use ndn_ring::{PacketHandle, PacketPool};
use ndn_table::{FaceIndex, Token};

use crate::{CrossShardPacket, PacketKind};

/// Maximum number of downstreams that a [`DataVisit`] records.
const COPIES_MAX: usize = 64;

/// A message with its receiver.
#[derive(Debug)]
pub struct AddressedMessage {
    /// The receiving shard; it may be the sending one, whose worker then delivers it.
    pub to: u8,
    /// The message.
    pub message: ShardMessage,
}

/// A message for another shard.
#[derive(Debug)]
pub enum ShardMessage {
    /// A packet to forward, as part of a burst.
    Packet(CrossShardPacket),
    /// A Data that visits several shards.
    Visit(CrossShardPacket, Box<DataVisit>),
    /// A short-prefix Interest that probes the Content Stores, or returns without a match.
    Probe(CrossShardPacket, CsProbe),
    /// A cached Data for a probe.
    ProbeAnswer(ProbeAnswer),
    /// A face has sent its first PIT token, and so accepts PIT tokens.
    FaceSendsTokens(FaceIndex),
}

impl ShardMessage {
    /// The kind of packet, which selects the ring.
    #[must_use]
    pub fn kind(&self) -> PacketKind {
        match self {
            Self::Packet(packet) => packet.kind(),
            Self::Visit(..) | Self::ProbeAnswer(_) | Self::FaceSendsTokens(_) => PacketKind::Data,
            Self::Probe(..) => PacketKind::Interest,
        }
    }

    /// Releases the packet of the message.
    pub fn release(self, pool: &PacketPool) {
        match self {
            Self::Packet(mut packet) | Self::Visit(mut packet, _) | Self::Probe(mut packet, _) => {
                packet.release(pool);
            }
            Self::ProbeAnswer(answer) => pool.release(answer.handle),
            Self::FaceSendsTokens(_) => {}
        }
    }
}

/// The stage of a Data that visits several shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// In the shard that owns its name, which caches it and decides whether it is solicited.
    Name,
    /// In a shard where a short-prefix Interest is pending.
    Home,
}

/// State that travels with a Data from shard to shard.
#[derive(Debug)]
pub struct DataVisit {
    pub(crate) stage: Stage,
    /// A shard before this one had a PIT entry for it.
    pub(crate) is_solicited: bool,
    /// Shards to visit, a bit each.
    pub(crate) homes: u64,
    /// Downstreams that got the Data, each with the keyed hash of its PIT token. One that does not fit may get
    /// it twice.
    copies: [(FaceIndex, u64); COPIES_MAX],
    copy_count: usize,
}

impl DataVisit {
    pub(crate) fn new() -> Self {
        Self {
            stage: Stage::Name,
            is_solicited: false,
            homes: 0,
            copies: [(FaceIndex::new(0, 0), 0); COPIES_MAX],
            copy_count: 0,
        }
    }

    /// Makes it new for reuse.
    pub(crate) fn reset(&mut self) {
        self.stage = Stage::Name;
        self.is_solicited = false;
        self.homes = 0;
        self.copy_count = 0;
    }

    /// Downstreams that got the Data.
    pub(crate) fn copies(&self) -> &[(FaceIndex, u64)] {
        &self.copies[..self.copy_count]
    }

    pub(crate) fn note_copy(&mut self, face: FaceIndex, token_hash: u64) {
        if let Some(slot) = self.copies.get_mut(self.copy_count) {
            *slot = (face, token_hash);
            self.copy_count += 1;
        }
    }
}

/// A probe of the Content Stores of other shards for a short-prefix Interest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CsProbe {
    /// The PIT entry, in the home shard, where the probe begins and ends.
    pub(crate) entry: Token,
}

/// The properties by which Interests differ that have the same PIT entry one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InterestMark {
    /// Keyed hash of its name.
    pub(crate) name_hash: u64,
    pub(crate) can_be_prefix: bool,
    pub(crate) must_be_fresh: bool,
}

/// A cached Data that a probe has found, copied for the home shard.
#[derive(Debug)]
pub struct ProbeAnswer {
    /// The PIT entry.
    pub(crate) entry: Token,
    /// The Interest of the probe.
    pub(crate) interest: InterestMark,
    pub(crate) handle: PacketHandle,
    pub(crate) freshness_ms: u64,
    pub(crate) is_localhost: bool,
}
