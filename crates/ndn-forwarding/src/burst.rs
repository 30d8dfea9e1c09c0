//! Up to 64 received packets, parsed and hashed, on their way into a shard.

use ndn_ring::{PacketHandle, PacketPool};
use ndn_table::{FaceIndex, PREFIX_HASHES_MAX};

use crate::descriptor::Descriptor;
use crate::{PacketKind, PitToken};

/// Packets in a burst at most.
pub const BURST_SIZE: usize = 64;

/// A burst of received packets: the descriptors, and beside them what does not fit.
///
/// The memory is allocated once. Handles are returned by [`release`](Self::release); a burst that
/// is dropped full keeps the blocks of its packets from being used again.
#[derive(Debug)]
pub struct Burst {
    descriptors: Box<Descriptors>,
    len: usize,
    /// Hashes of all prefixes of all names, packed.
    prefix_hashes: Box<[u64; BURST_SIZE * PREFIX_HASHES_MAX]>,
    prefix_hashes_used: usize,
    /// PIT tokens longer than fits a descriptor, at the position of their descriptor.
    long_tokens: Box<[PitToken; BURST_SIZE]>,
}

/// Each on a cache line of its own.
#[derive(Debug)]
#[repr(align(64))]
struct Descriptors([Descriptor; BURST_SIZE]);

/// The place of the next packet in a burst.
#[derive(Debug)]
pub(crate) struct NextPacket<'a> {
    /// Holds whatever was there before.
    pub(crate) descriptor: &'a mut Descriptor,
    /// Room for the prefix hashes of its name.
    pub(crate) prefix_hashes: &'a mut [u64],
    /// Room for its PIT token, if that does not fit the descriptor.
    pub(crate) long_token: &'a mut PitToken,
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
            descriptors: Box::new(Descriptors([const { Descriptor::EMPTY }; BURST_SIZE])),
            len: 0,
            prefix_hashes: Box::new([0; BURST_SIZE * PREFIX_HASHES_MAX]),
            prefix_hashes_used: 0,
            long_tokens: Box::new([PitToken::NONE; BURST_SIZE]),
        }
    }

    /// Packets in the burst.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether there is no room for another.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.len == BURST_SIZE
    }

    /// Gives every packet back to its pool and empties the burst. Call it once what
    /// [`Shard::process_burst`](crate::Shard::process_burst) wrote into the sink has been copied
    /// or retained.
    pub fn release(&mut self, pool: &PacketPool) {
        for descriptor in &mut self.descriptors.0[..self.len] {
            if let Some(handle) = descriptor.handle.take() {
                pool.release(handle);
            }
        }
        self.len = 0;
        self.prefix_hashes_used = 0;
    }

    /// What packet `index` is.
    ///
    /// # Panics
    /// If there are no more than `index` packets, like every method with an index.
    #[inline]
    #[must_use]
    pub fn kind(&self, index: usize) -> PacketKind {
        self.descriptors.0[index].kind
    }

    /// The face that packet `index` arrived on.
    #[inline]
    #[must_use]
    pub fn face(&self, index: usize) -> FaceIndex {
        self.descriptors.0[index].face
    }

    /// Hashes of the prefixes of the name of packet `index`: element `n` is that of the first `n`
    /// components.
    #[inline]
    #[must_use]
    pub fn prefix_hashes(&self, index: usize) -> &[u64] {
        self.hashes_of(&self.descriptors.0[index])
    }

    /// Hashes of the prefixes of the name of packet `index` from one component on: as many as are wanted,
    /// and if there are fewer, then whatever lies behind them.
    #[inline(always)]
    pub(crate) fn hashes_from_first<const N: usize>(&self, index: usize) -> [u64; N] {
        let start = usize::from(self.descriptors.0[index].prefix_hashes) + 1;
        match self.prefix_hashes.get(start..start + N) {
            Some(hashes) => std::array::from_fn(|place| hashes[place]),
            None => std::array::from_fn(|place| {
                self.prefix_hashes.get(start + place).copied().unwrap_or_default()
            }),
        }
    }

    /// What lies where the prefix hashes of a packet do, `depth` after the first: if its name has so many
    /// components, the hash of its first `depth`.
    #[inline(always)]
    pub(crate) fn hash_at(&self, descriptor: &Descriptor, depth: usize) -> u64 {
        let place = usize::from(descriptor.prefix_hashes) + depth;
        self.prefix_hashes.get(place).copied().unwrap_or_default()
    }

    /// All descriptors, those of packets that were taken out included.
    #[inline]
    pub(crate) fn descriptors(&self) -> &[Descriptor] {
        &self.descriptors.0[..self.len]
    }

    /// The PIT token that packet `index` carried; empty for none.
    #[inline]
    #[must_use]
    pub fn pit_token(&self, index: usize) -> &[u8] {
        let descriptor = &self.descriptors.0[index];
        let length = usize::from(descriptor.token_length);
        match descriptor.token.get(..length) {
            Some(token) => token,
            None => self.long_tokens[index].as_bytes(),
        }
    }

    /// Gives up to `count` Data a congestion mark, and says how many.
    #[cold]
    pub fn mark_data(&mut self, count: usize) -> usize {
        let data = self.descriptors.0[..self.len].iter_mut();
        let data = data.filter(|descriptor| {
            descriptor.kind == PacketKind::Data && descriptor.handle.is_some()
        });
        data.take(count).map(Descriptor::mark_congestion).count()
    }

    /// Gives packet `index` a congestion mark, if it has none.
    pub fn mark_congestion(&mut self, index: usize) {
        self.descriptors.0[index].mark_congestion();
    }

    /// Has Interest `index` answered with a Nack of reason Congestion, and nothing else. Of other
    /// packets, nothing comes of it.
    pub fn refuse(&mut self, index: usize) {
        self.descriptors.0[index].refuse();
    }

    #[inline]
    pub(crate) fn descriptor(&self, index: usize) -> &Descriptor {
        &self.descriptors.0[index]
    }

    #[inline]
    pub(crate) fn descriptor_mut(&mut self, index: usize) -> &mut Descriptor {
        &mut self.descriptors.0[index]
    }

    /// Where the next packet goes, to be filled and then [appended](Self::append); `None` if the
    /// burst is full.
    #[inline]
    pub(crate) fn next_packet(&mut self) -> Option<NextPacket<'_>> {
        let used = self.prefix_hashes_used;
        Some(NextPacket {
            descriptor: self.descriptors.0.get_mut(self.len)?,
            prefix_hashes: self.prefix_hashes.get_mut(used..used + PREFIX_HASHES_MAX)?,
            long_token: self.long_tokens.get_mut(self.len)?,
        })
    }

    /// Adds the packet that [`next_packet`](Self::next_packet) was filled with.
    #[inline]
    pub(crate) fn append(&mut self, handle: PacketHandle) {
        let descriptor = &mut self.descriptors.0[self.len];
        descriptor.handle = Some(handle);
        // At most BURST_SIZE * PREFIX_HASHES_MAX = 4096.
        descriptor.prefix_hashes = u16::try_from(self.prefix_hashes_used).unwrap_or(0);
        self.prefix_hashes_used += usize::from(descriptor.components) + 1;
        self.len += 1;
    }

    fn hashes_of(&self, descriptor: &Descriptor) -> &[u64] {
        let start = usize::from(descriptor.prefix_hashes);
        &self.prefix_hashes[start..=start + usize::from(descriptor.components)]
    }
}
