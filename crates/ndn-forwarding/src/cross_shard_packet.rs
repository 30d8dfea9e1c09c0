//! A packet on its way to another shard.

use std::mem::offset_of;

use ndn_packet::lp::PIT_TOKEN_LENGTH_MAX;
use ndn_ring::{PacketHandle, PacketPool};
use ndn_table::FaceIndex;

use crate::descriptor::{Descriptor, Flags};
use crate::{PacketKind, PitToken};

/// Prefix hashes that travel with a packet, besides those of the empty prefix, which is a constant, and of the
/// whole name, which is in the descriptor. The receiver computes those of longer names again.
pub(crate) const HASHES: usize = 5;

/// Maximum number of components of a name whose prefix hashes all travel.
pub(crate) const COMPONENTS_MAX: usize = HASHES + 1;

/// A received packet outside of a burst: its handle, descriptor and prefix hashes.
///
/// Like a handle, it has to be [released](Self::release) or put into a burst.
#[derive(Debug)]
#[must_use = "a packet holds a packet"]
// The handle comes first: workers read it at the same offset as that of their other messages.
#[repr(C)]
pub struct CrossShardPacket {
    /// None once the packet is in a burst.
    pub(crate) descriptor: Descriptor,
    /// Hashes of the prefixes from one component; those beyond the name are undefined. If the PIT token does not
    /// fit the descriptor: the token.
    pub(crate) hashes: [u64; HASHES],
}

/// Together with the type of message and the time of sending it fills two cache lines.
const _: () = assert!(size_of::<CrossShardPacket>() == 104);
const _: () = assert!(offset_of!(CrossShardPacket, descriptor.handle) == 0);
const _: () = assert!(HASHES * size_of::<u64>() >= PIT_TOKEN_LENGTH_MAX);

impl CrossShardPacket {
    /// The packet with its PIT token, which does not fit the descriptor, in the place of the hashes.
    pub(crate) fn with_token_for_hashes(self, token: &[u8]) -> Self {
        Self { hashes: packed(token), ..self }
    }

    /// The PIT token, if it takes the place of hashes.
    pub(crate) fn long_token(&self) -> Option<PitToken> {
        let length = usize::from(self.descriptor.token_length);
        self.descriptor.has_long_token().then(|| unpacked(&self.hashes, length))
    }

    /// The face that it arrived on.
    #[must_use]
    pub fn face(&self) -> FaceIndex {
        self.descriptor.face
    }

    /// The packet without these flags.
    pub(crate) fn without(mut self, flags: Flags) -> Self {
        self.descriptor.flags = self.descriptor.flags.without(flags);
        self
    }

    /// The kind of packet.
    #[inline]
    #[must_use]
    pub fn kind(&self) -> PacketKind {
        self.descriptor.kind
    }

    /// Sets a congestion mark, if there is none.
    pub fn mark_congestion(&mut self) {
        self.descriptor.mark_congestion();
    }

    /// Marks an Interest to be answered with a Nack of reason Congestion.
    pub fn refuse(&mut self) {
        self.descriptor.refuse();
    }

    /// The packet; `None` once it is in a burst.
    #[must_use]
    pub fn handle(&self) -> Option<&PacketHandle> {
        self.descriptor.handle.as_ref()
    }

    /// Releases the packet, unless it is in a burst.
    pub fn release(&mut self, pool: &PacketPool) {
        self.descriptor.handle.take().into_iter().for_each(|handle| pool.release(handle));
    }
}

fn packed(token: &[u8]) -> [u64; HASHES] {
    let mut words = [0; HASHES];
    for (word, bytes) in words.iter_mut().zip(token.chunks(size_of::<u64>())) {
        let mut padded = [0; size_of::<u64>()];
        padded[..bytes.len()].copy_from_slice(bytes);
        *word = u64::from_le_bytes(padded);
    }
    words
}

fn unpacked(words: &[u64; HASHES], length: usize) -> PitToken {
    let mut bytes = [0; HASHES * size_of::<u64>()];
    for (place, word) in bytes.chunks_exact_mut(size_of::<u64>()).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes.get(..length).and_then(PitToken::new).unwrap_or(PitToken::NONE)
}
