//! Up to 64 received packets, parsed and hashed, on their way into a shard.

use ndn_ring::{PacketHandle, PacketPool};
use ndn_table::FaceIndex;

use crate::descriptor::{Descriptor, INLINE_TOKEN_LENGTH};
use crate::{DropReason, PacketKind, PitToken};

/// Room for the hashes of the prefixes of a name of 63 components.
const PREFIX_HASHES_MAX: usize = 64;

/// Packets in a burst at most.
pub const BURST_SIZE: usize = 64;

/// A burst of received packets: the descriptors, and beside them what does not fit.
///
/// The memory is allocated once. Handles are returned by [`release`](Self::release); a burst that
/// is dropped full keeps the blocks of its packets from being used again.
#[derive(Debug)]
pub struct Burst {
    descriptors: Vec<Descriptor>,
    /// Hashes of all prefixes of all names, packed.
    prefix_hashes: Box<[u64; BURST_SIZE * PREFIX_HASHES_MAX]>,
    prefix_hashes_used: usize,
    /// PIT tokens longer than [`INLINE_TOKEN_LENGTH`], at the position of their descriptor.
    long_tokens: Box<[PitToken; BURST_SIZE]>,
}

impl Default for Burst {
    fn default() -> Self {
        Self::new()
    }
}

impl Burst {
    /// An empty burst.
    #[must_use]
    pub fn new() -> Self {
        Self {
            descriptors: Vec::with_capacity(BURST_SIZE),
            prefix_hashes: Box::new([0; BURST_SIZE * PREFIX_HASHES_MAX]),
            prefix_hashes_used: 0,
            long_tokens: Box::new([PitToken::NONE; BURST_SIZE]),
        }
    }

    /// Packets in the burst.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.descriptors.len()
    }

    /// Whether there are none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.descriptors.is_empty()
    }

    /// Whether there is no room for another.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.descriptors.len() == BURST_SIZE
    }

    /// Gives every packet back to its pool and empties the burst. Call it once what
    /// [`Shard::process_burst`](crate::Shard::process_burst) wrote into the sink has been copied
    /// or retained.
    pub fn release(&mut self, pool: &PacketPool) {
        for descriptor in self.descriptors.drain(..) {
            if let Some(handle) = descriptor.handle {
                pool.release(handle);
            }
        }
        self.prefix_hashes_used = 0;
    }

    /// Moves packet `index` of `source` to the end of this burst: for dispatch to another shard.
    ///
    /// # Errors
    /// [`DropReason::BurstFull`]; the packet then stays in `source`.
    ///
    /// # Panics
    /// If `source` has no packet `index` or it was moved before.
    pub fn transfer(&mut self, source: &mut Self, index: usize) -> Result<(), DropReason> {
        if self.is_full() {
            return Err(DropReason::BurstFull);
        }
        let position = self.len();
        self.long_tokens[position] = source.long_tokens[index];
        let hashes = source.hashes_of(&source.descriptors[index]);
        self.spare_hashes()[..hashes.len()].copy_from_slice(hashes);
        let descriptor = &mut source.descriptors[index];
        let handle = descriptor.handle.take().expect("a packet is moved once");
        self.append(Descriptor { handle: None, ..*descriptor }, handle);
        Ok(())
    }

    /// What packet `index` is.
    ///
    /// # Panics
    /// If there are no more than `index` packets, like every method with an index.
    #[inline]
    #[must_use]
    pub fn kind(&self, index: usize) -> PacketKind {
        self.descriptors[index].kind
    }

    /// The face that packet `index` arrived on.
    #[inline]
    #[must_use]
    pub fn face(&self, index: usize) -> FaceIndex {
        self.descriptors[index].face
    }

    /// Hashes of the prefixes of the name of packet `index`: element `n` is that of the first `n`
    /// components.
    #[inline]
    #[must_use]
    pub fn prefix_hashes(&self, index: usize) -> &[u64] {
        self.hashes_of(&self.descriptors[index])
    }

    /// The PIT token that packet `index` carried; empty for none.
    #[inline]
    #[must_use]
    pub fn pit_token(&self, index: usize) -> &[u8] {
        let descriptor = &self.descriptors[index];
        let length = usize::from(descriptor.token_length);
        match descriptor.token.get(..length) {
            Some(token) => token,
            None => self.long_tokens[index].as_bytes(),
        }
    }

    #[inline]
    pub(crate) fn descriptor(&self, index: usize) -> &Descriptor {
        &self.descriptors[index]
    }

    /// Room for the prefix hashes of the packet that [`append`](Self::append) comes for.
    #[inline]
    pub(crate) fn spare_hashes(&mut self) -> &mut [u64] {
        let start = self.prefix_hashes_used;
        &mut self.prefix_hashes[start..start + PREFIX_HASHES_MAX]
    }

    /// Stores a PIT token for the packet that [`append`](Self::append) comes for, and returns the
    /// part that belongs into the descriptor.
    #[inline]
    pub(crate) fn set_token(&mut self, token: &PitToken) -> ([u8; INLINE_TOKEN_LENGTH], u8) {
        let bytes = token.as_bytes();
        let mut inline = [0; INLINE_TOKEN_LENGTH];
        match inline.get_mut(..bytes.len()) {
            Some(inline) => inline.copy_from_slice(bytes),
            None => self.long_tokens[self.descriptors.len()] = *token,
        }
        (inline, token.length())
    }

    /// Adds a packet whose hashes lie in [`spare_hashes`](Self::spare_hashes). The burst must not
    /// be full.
    #[inline]
    pub(crate) fn append(&mut self, mut descriptor: Descriptor, handle: PacketHandle) {
        debug_assert!(!self.is_full());
        descriptor.handle = Some(handle);
        // At most BURST_SIZE * PREFIX_HASHES_MAX = 4096.
        descriptor.prefix_hashes = u16::try_from(self.prefix_hashes_used).unwrap_or(0);
        self.prefix_hashes_used += usize::from(descriptor.components) + 1;
        self.descriptors.push(descriptor);
    }

    fn hashes_of(&self, descriptor: &Descriptor) -> &[u64] {
        let start = usize::from(descriptor.prefix_hashes);
        &self.prefix_hashes[start..=start + usize::from(descriptor.components)]
    }
}
