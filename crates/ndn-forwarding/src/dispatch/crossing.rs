//! What one shard sends to another.

use ndn_ring::{PacketHandle, PacketPool};
use ndn_table::{FaceIndex, Token};

use super::Parcel;
use crate::PacketKind;

/// Downstreams that a [`DataVisit`] can remember.
const COPIES_MAX: usize = 64;

/// A message for another shard.
#[derive(Debug)]
pub struct Crossing {
    /// The shard. It may be the one that sends, which then takes it itself.
    pub to: u8,
    /// What it gets.
    pub content: Content,
}

/// What is in a message.
#[derive(Debug)]
pub enum Content {
    /// A packet to be forwarded, to go into a burst.
    Packet(Parcel),
    /// A Data on its way through several shards.
    Visit(Parcel, Box<DataVisit>),
    /// A wide Interest that looks for a cached Data, or comes home without.
    Tour(Parcel, Tour),
    /// A cached Data for an Interest that is on tour.
    Answer(Answer),
    /// A face has sent its first PIT token, and so understands those of the forwarder.
    FaceSendsTokens(FaceIndex),
}

impl Content {
    /// The kind of packet, for the queue that it waits in.
    #[must_use]
    pub fn kind(&self) -> PacketKind {
        match self {
            Self::Packet(parcel) => parcel.kind(),
            Self::Visit(..) | Self::Answer(_) | Self::FaceSendsTokens(_) => PacketKind::Data,
            Self::Tour(..) => PacketKind::Interest,
        }
    }

    /// Gives up what the message holds.
    pub fn release(self, pool: &PacketPool) {
        match self {
            Self::Packet(mut parcel) | Self::Visit(mut parcel, _) | Self::Tour(mut parcel, _) => {
                parcel.release(pool);
            }
            Self::Answer(answer) => pool.release(answer.handle),
            Self::FaceSendsTokens(_) => {}
        }
    }
}

/// Where a Data that visits several shards is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// In the shard that its name belongs to: where it is cached, and where it is decided whether
    /// anybody asked for it.
    Name,
    /// In a shard where a wide Interest is pending.
    Home,
}

/// What a Data takes along from shard to shard.
#[derive(Debug)]
pub struct DataVisit {
    pub(crate) stage: Stage,
    /// A shard before this one had a PIT entry for it.
    pub(crate) is_solicited: bool,
    /// Shards still to be visited, a bit each.
    pub(crate) homes: u64,
    /// Downstreams that have had their copy, each with the keyed hash of its PIT token. One that
    /// does not fit may get a second copy.
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

    /// As if it were new.
    pub(crate) fn reset(&mut self) {
        self.stage = Stage::Name;
        self.is_solicited = false;
        self.homes = 0;
        self.copy_count = 0;
    }

    /// Downstreams that have had their copy.
    pub(crate) fn copies(&self) -> &[(FaceIndex, u64)] {
        &self.copies[..self.copy_count]
    }

    pub(crate) fn note_copy(&mut self, face: FaceIndex, token_hash: u64) {
        if let Some(place) = self.copies.get_mut(self.copy_count) {
            *place = (face, token_hash);
            self.copy_count += 1;
        }
    }
}

/// A wide Interest on its way through the Content Stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tour {
    /// Its PIT entry, in the shard where it began and ends.
    pub(crate) entry: Token,
}

/// A cached Data, copied for another shard.
#[derive(Debug)]
pub struct Answer {
    /// The PIT entry that it answers.
    pub(crate) entry: Token,
    pub(crate) handle: PacketHandle,
    pub(crate) freshness_ms: u64,
    pub(crate) is_localhost: bool,
}
