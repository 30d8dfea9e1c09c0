//! A burst of up to 64 received packets, parsed and hashed.

use ndn_ring::{PacketHandle, PacketPool};
use ndn_table::{FaceIndex, NameHasher, PREFIX_HASHES_MAX};

use crate::cross_shard_packet::{COMPONENTS_MAX, CrossShardPacket, HASHES};
use crate::descriptor::Descriptor;
use crate::{PacketKind, PitToken};

/// Maximum number of packets in a burst.
pub const BURST_SIZE: usize = 64;

/// Prefix hashes of a burst of the deepest names.
const HASHES_MAX: usize = BURST_SIZE * PREFIX_HASHES_MAX;
const _: () = assert!(HASHES_MAX.is_power_of_two());

/// A burst of received packets: descriptors, and arrays for what does not fit a descriptor.
///
/// The memory is allocated once. [`release`](Self::release) returns the packets to their pool;
/// dropping a burst that is not empty leaks their blocks.
#[derive(Debug)]
pub struct Burst {
    descriptors: Box<Descriptors>,
    len: usize,
    /// Hashes of all prefixes of all names, packed.
    prefix_hashes: Box<[u64; HASHES_MAX]>,
    prefix_hashes_used: usize,
    /// PIT tokens too long for the descriptor, at the index of their descriptor.
    long_tokens: Box<[PitToken; BURST_SIZE]>,
}

/// The descriptors, each on its own cache line.
#[derive(Debug)]
#[repr(align(64))]
struct Descriptors([Descriptor; BURST_SIZE]);

/// The slot of the next packet in a burst.
#[derive(Debug)]
pub(crate) struct NextPacket<'a> {
    /// Holds the previous content.
    pub(crate) descriptor: &'a mut Descriptor,
    /// Space for the prefix hashes of its name.
    pub(crate) prefix_hashes: &'a mut [u64],
    /// Space for its PIT token, if that does not fit the descriptor.
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
            prefix_hashes: Box::new([0; HASHES_MAX]),
            prefix_hashes_used: 0,
            long_tokens: Box::new([PitToken::NONE; BURST_SIZE]),
        }
    }

    /// Number of packets.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the burst is empty.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the burst has no free slot.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.len == BURST_SIZE
    }

    /// Returns every packet to its pool and empties the burst. Call it once everything that
    /// [`Shard::process_burst`](crate::Shard::process_burst) wrote to the sink has been copied or
    /// retained.
    pub fn release(&mut self, pool: &PacketPool) {
        let descriptors = self.descriptors.0[..self.len].iter_mut();
        pool.release_all(descriptors.filter_map(|descriptor| descriptor.handle.take()));
        self.len = 0;
        self.prefix_hashes_used = 0;
    }

    /// The kind of packet `index`.
    ///
    /// # Panics
    /// If `index` is not below the number of packets, as in every method with an index.
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

    /// Hashes of the prefixes of the name of packet `index`, from one component on. If the name has
    /// fewer than `N` components, the elements beyond are unspecified.
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

    /// The element of the hash array that holds the hash of the first `depth` components, if the
    /// name of the packet has that many; otherwise any.
    #[inline(always)]
    pub(crate) fn hash_at(&self, descriptor: &Descriptor, depth: usize) -> u64 {
        // The array is as long as a power of two: no place is beyond it.
        self.prefix_hashes[(usize::from(descriptor.prefix_hashes) + depth) % HASHES_MAX]
    }

    /// All descriptors, including those of packets that were taken out.
    #[inline]
    pub(crate) fn descriptors(&self) -> &[Descriptor] {
        &self.descriptors.0[..self.len]
    }

    /// The PIT token that packet `index` carried; empty for none.
    #[inline]
    #[must_use]
    pub fn pit_token(&self, index: usize) -> &[u8] {
        let short = self.descriptors.0[index].short_token();
        short.unwrap_or_else(|| self.long_tokens[index].as_bytes())
    }

    /// Takes packet `index` out of the burst for another shard.
    ///
    /// # Panics
    /// If there is no such packet, or it was taken before.
    #[inline(always)]
    pub fn take_packet(&mut self, index: usize) -> CrossShardPacket {
        let handle = self.descriptor_mut(index).handle.take();
        assert!(handle.is_some(), "a packet is taken once");
        let descriptor = Descriptor { handle, ..*self.descriptor(index) };
        CrossShardPacket::new(descriptor, self.hashes_from_first(index), self.pit_token(index))
    }

    /// Moves a packet from another shard into the burst. Returns false and leaves it if the burst is full.
    #[inline]
    pub fn push_packet(
        &mut self,
        packet: &mut CrossShardPacket,
        pool: &PacketPool,
        hasher: &NameHasher,
    ) -> bool {
        let Some(next) = self.next_packet() else { return false };
        let NextPacket { descriptor, prefix_hashes, long_token } = next;
        let has_hashes = match packet.long_token() {
            None => true,
            Some(token) => {
                *long_token = token;
                false
            }
        };
        let CrossShardPacket { descriptor: sent, hashes } = packet;
        let Some(handle) = sent.handle.take() else { return true };
        let components = usize::from(sent.components);
        let start = usize::from(sent.name_offset);
        let end = start + usize::from(sent.name_length);
        *descriptor = Descriptor { handle: None, ..*sent };
        if has_hashes
            && components <= COMPONENTS_MAX
            && let Some(places) = prefix_hashes.first_chunk_mut::<{ COMPONENTS_MAX + 1 }>()
        {
            places[0] = hasher.hash_empty();
            places[1..=HASHES].copy_from_slice(hashes);
            places[components] = descriptor.name_hash;
        } else {
            let name = &pool.bytes(&handle)[start..end];
            let hashed = hasher.hash_value_prefixes(name, &mut prefix_hashes[..PREFIX_HASHES_MAX]);
            debug_assert_eq!(hashed, Some(components + 1), "the name was hashed before");
        }
        self.append(handle);
        true
    }

    /// Sets a congestion mark on up to `count` Data; returns the number marked.
    #[cold]
    pub fn mark_data(&mut self, count: usize) -> usize {
        let data = self.descriptors.0[..self.len].iter_mut();
        let data = data.filter(|descriptor| {
            descriptor.kind == PacketKind::Data && descriptor.handle.is_some()
        });
        data.take(count).map(Descriptor::mark_congestion).count()
    }

    /// Sets a congestion mark on packet `index`, if it has none.
    pub fn mark_congestion(&mut self, index: usize) {
        self.descriptors.0[index].mark_congestion();
    }

    /// Makes the shard answer Interest `index` with a Nack of reason Congestion and nothing else.
    /// No effect on other packets.
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

    /// The slot of the next packet, to be filled and then [appended](Self::append); `None` if the
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

    /// Appends the packet that the slot from [`next_packet`](Self::next_packet) describes.
    #[inline]
    pub(crate) fn append(&mut self, handle: PacketHandle) {
        let descriptor = &mut self.descriptors.0[self.len];
        descriptor.handle = Some(handle);
        // At most BURST_SIZE * PREFIX_HASHES_MAX = 4096.
        descriptor.prefix_hashes = u16::try_from(self.prefix_hashes_used).unwrap_or(0);
        self.prefix_hashes_used += usize::from(descriptor.components) + 1;
        self.len += 1;
    }

    /// Hashes of the prefixes of the name of a packet.
    #[inline(always)]
    pub(crate) fn hashes_of(&self, descriptor: &Descriptor) -> &[u64] {
        let start = usize::from(descriptor.prefix_hashes);
        &self.prefix_hashes[start..=start + usize::from(descriptor.components)]
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::sync::Arc;

    use ndn_packet::{InterestBuilder, Name};
    use ndn_table::FaceIndex;
    use ndn_types::Scope;

    use super::*;
    use crate::{FaceProperties, Ingress, LpFields, RxFace};

    /// A packet is the same where it arrives, whatever its name and token need.
    #[test]
    fn packets_arrive_as_they_were_sent() {
        let hasher = NameHasher::new([7; 16]);
        let pool = PacketPool::new(4).unwrap();
        let mut ingress = Ingress::new(hasher, Arc::default(), 1);
        let properties = FaceProperties::point_to_point(300, Scope::NonLocal);
        let face = RxFace::new(FaceIndex::new(1, 0), &properties);
        let (mut sent, mut arrived) = (Burst::new(), Burst::new());
        for components in 1..=2 * COMPONENTS_MAX {
            let uri: String = (0..components).map(|number| format!("/{number}")).collect();
            let name = Name::from_uri(&uri).unwrap();
            for token in
                [0, 1, 8, 9, 32].map(|length| &b"0123456789abcdefghijklmnopqrstuv"[..length])
            {
                let mut block = pool.allocate_block().unwrap();
                let wire =
                    InterestBuilder::new(&name).can_be_prefix(true).nonce(7).to_vec().unwrap();
                block.spare_mut()[..wire.len()].copy_from_slice(&wire);
                block.commit(wire.len());
                let fields =
                    LpFields { pit_token: PitToken::new(token).unwrap(), ..Default::default() };
                let pushed = ingress.push(&mut sent, &pool, &mut block, wire.len(), &fields, &face);
                pool.finish(block);
                pushed.unwrap();
                let hashes = sent.prefix_hashes(0).to_vec();
                let mut packet = sent.take_packet(0);
                assert!(arrived.push_packet(&mut packet, &pool, &hasher));
                assert!(packet.handle().is_none());
                assert_eq!(arrived.prefix_hashes(0), hashes, "{name}");
                assert_eq!(arrived.pit_token(0), token, "{name}");
                assert_eq!(arrived.kind(0), PacketKind::Interest);
                sent.release(&pool);
                arrived.release(&pool);
            }
        }
        assert_eq!(pool.counters().blocks_in_use(), 0);
    }
}
