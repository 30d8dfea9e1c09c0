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
/// Length of the array of prefix hashes. What follows the hashes of a short name is read and written with them, so that no index is
/// tested, and [`Burst::hashes_of_depth`] shifts the array by up to `NAME_COMPONENTS_MAX`.
const HASHES_LENGTH: usize = HASHES_MAX + PREFIX_HASHES_MAX - 1;
const _: () = assert!(COMPONENTS_MAX < PREFIX_HASHES_MAX);

/// A burst of received packets: descriptors, and arrays for what does not fit a descriptor.
///
/// The memory is allocated once. [`release`](Self::release) returns the packets to their pool;
/// dropping a burst that is not empty leaks their blocks.
#[derive(Debug)]
pub struct Burst {
    descriptors: Box<Descriptors>,
    len: usize,
    /// Hashes of all prefixes of all names, packed.
    prefix_hashes: Box<[u64; HASHES_LENGTH]>,
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

/// A packet of a burst that is about to leave for another shard. It stays if this is dropped.
#[derive(Debug)]
pub struct LeavingPacket<'a> {
    descriptor: &'a mut Descriptor,
    hashes: &'a [u64; HASHES + 1],
}

impl LeavingPacket<'_> {
    /// The kind of packet.
    #[inline]
    #[must_use]
    pub fn kind(&self) -> PacketKind {
        self.descriptor.kind
    }

    /// Takes it out of the burst.
    #[inline(always)]
    pub fn take(self) -> CrossShardPacket {
        let handle = self.descriptor.handle.take();
        let descriptor = Descriptor { handle, ..*self.descriptor };
        // One by one, in registers: the compiler copies an array over the stack.
        let &[_, a, b, c, d, e] = self.hashes;
        CrossShardPacket { descriptor, hashes: [a, b, c, d, e] }
    }
}

/// The hashes of the first components of names, of one number of components.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HashesOfDepth<'a>(&'a [u64; HASHES_MAX]);

impl HashesOfDepth<'_> {
    /// The hash of a packet of the burst, if its name has that many components; otherwise any number.
    #[inline(always)]
    pub(crate) fn of(self, descriptor: &Descriptor) -> u64 {
        self.0[usize::from(descriptor.prefix_hashes) % HASHES_MAX]
    }
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
            prefix_hashes: Box::new([0; HASHES_LENGTH]),
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

    /// The hash of the first `depth` components, if the name of the packet has that many; otherwise any number.
    #[inline(always)]
    pub(crate) fn hash_at(&self, descriptor: &Descriptor, depth: usize) -> u64 {
        // No hash is at a higher place, and the compiler tests no index.
        self.prefix_hashes[(usize::from(descriptor.prefix_hashes) + depth) % HASHES_MAX]
    }

    /// The hashes of the first `depth` components of the names of all packets.
    ///
    /// # Panics
    /// If `depth` is greater than the number of components of the longest name.
    #[inline(always)]
    pub(crate) fn hashes_of_depth(&self, depth: usize) -> HashesOfDepth<'_> {
        let hashes = self.prefix_hashes.get(depth..).and_then(<[u64]>::first_chunk);
        HashesOfDepth(hashes.expect("a depth of at most NAME_COMPONENTS_MAX"))
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

    /// Whether the PIT token of packet `index` is too long for its descriptor.
    #[inline]
    #[must_use]
    pub fn has_long_token(&self, index: usize) -> bool {
        self.descriptors.0[index].has_long_token()
    }

    /// Takes packet `index` out of the burst for another shard.
    ///
    /// # Panics
    /// If there is no such packet, or it was taken before.
    pub fn take_packet(&mut self, index: usize) -> CrossShardPacket {
        let packet = self.leaving_with_any_token(index).take();
        if packet.descriptor.has_long_token() {
            return packet.with_token_for_hashes(self.long_tokens[index].as_bytes());
        }
        packet
    }

    /// Packet `index`, about to be taken out of the burst for another shard; none if its token is [long](Self::has_long_token), which
    /// takes the place of the hashes.
    ///
    /// # Panics
    /// As in [`take_packet`](Self::take_packet).
    #[inline(always)]
    pub fn leaving(&mut self, index: usize) -> Option<LeavingPacket<'_>> {
        if self.has_long_token(index) {
            return None;
        }
        Some(self.leaving_with_any_token(index))
    }

    #[inline(always)]
    fn leaving_with_any_token(&mut self, index: usize) -> LeavingPacket<'_> {
        let Self { descriptors, prefix_hashes, .. } = self;
        let descriptor = &mut descriptors.0[index];
        assert!(descriptor.handle.is_some(), "a packet is taken once");
        let hashes = hashes_at(prefix_hashes, usize::from(descriptor.prefix_hashes));
        LeavingPacket { descriptor, hashes }
    }

    /// Moves a packet from another shard into the burst. Returns false and leaves it if the burst is full.
    #[inline(always)]
    pub fn push_packet(
        &mut self,
        packet: &mut CrossShardPacket,
        pool: &PacketPool,
        hasher: &NameHasher,
    ) -> bool {
        let CrossShardPacket { descriptor: sent, hashes } = packet;
        let components = usize::from(sent.components);
        if components > COMPONENTS_MAX || sent.has_long_token() {
            return self.push_hashed(packet, pool, hasher);
        }
        let used = self.prefix_hashes_used;
        let Some(descriptor) = self.descriptors.0.get_mut(self.len) else { return false };
        let Some(places) = self.prefix_hashes[used % HASHES_MAX..].first_chunk_mut() else {
            return false;
        };
        // The test precedes the move, as in `leaving`: for a test of what was moved, the compiler takes the handle apart.
        if sent.handle.is_none() {
            return true;
        }
        let places: &mut [u64; COMPONENTS_MAX + 1] = places;
        places[0] = hasher.hash_empty();
        places[1..=HASHES].copy_from_slice(hashes);
        places[components] = sent.name_hash;
        debug_assert!(descriptor.handle.is_none(), "free slots of a burst hold no packet");
        let handle = sent.handle.take();
        *descriptor = Descriptor { handle, prefix_hashes: position(used), ..*sent };
        self.prefix_hashes_used = used + components + 1;
        self.len += 1;
        true
    }

    /// [`push_packet`](Self::push_packet) of a packet that did not bring its hashes: computes them.
    #[inline(never)]
    fn push_hashed(
        &mut self,
        packet: &mut CrossShardPacket,
        pool: &PacketPool,
        hasher: &NameHasher,
    ) -> bool {
        let Some(next) = self.next_packet() else { return false };
        let NextPacket { descriptor, prefix_hashes, long_token } = next;
        packet.long_token().into_iter().for_each(|token| *long_token = token);
        let sent = &mut packet.descriptor;
        let Some(handle) = sent.handle.take() else { return true };
        let start = usize::from(sent.name_offset);
        let end = start + usize::from(sent.name_length);
        *descriptor = Descriptor { handle: None, ..*sent };
        let name = &pool.bytes(&handle)[start..end];
        let hashed = hasher.hash_value_prefixes(name, &mut prefix_hashes[..PREFIX_HASHES_MAX]);
        let components = usize::from(descriptor.components);
        debug_assert_eq!(hashed, Some(components + 1), "the name was hashed before");
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
        descriptor.prefix_hashes = position(self.prefix_hashes_used);
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

/// The hash at this position, of the empty prefix of a name, and the five that follow in the array: those of longer prefixes, as
/// far as the name has them.
#[inline(always)]
fn hashes_at(hashes: &[u64; HASHES_LENGTH], position: usize) -> &[u64; HASHES + 1] {
    // The array is longer by more than these.
    hashes[position % HASHES_MAX..].first_chunk().unwrap_or(&[0; HASHES + 1])
}

/// A position in the hash array.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "below the length of the array")]
fn position(used: usize) -> u16 {
    (used % HASHES_MAX) as u16
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

    const TOKEN: &[u8] = b"0123456789abcdefghijklmnopqrstuv";

    fn hasher() -> NameHasher {
        NameHasher::new([7; 16])
    }

    fn name_of(index: usize, components: usize) -> Name {
        let uri: String = (0..components).map(|number| format!("/{index}-{number}")).collect();
        Name::from_uri(&uri).unwrap()
    }

    fn receive(burst: &mut Burst, pool: &PacketPool, name: &Name, token: &[u8]) {
        let mut ingress = Ingress::new(hasher(), Arc::default(), 1);
        let properties = FaceProperties::point_to_point(300, Scope::NonLocal);
        let face = RxFace::new(FaceIndex::new(1, 0), &properties);
        let wire = InterestBuilder::new(name).can_be_prefix(true).nonce(7).to_vec().unwrap();
        let mut block = pool.allocate_block().unwrap();
        block.spare_mut()[..wire.len()].copy_from_slice(&wire);
        block.commit(wire.len());
        let fields = LpFields { pit_token: PitToken::new(token).unwrap(), ..Default::default() };
        ingress.push(burst, pool, &mut block, wire.len(), &fields, &face).unwrap();
        pool.finish(block);
    }

    /// A packet is the same where it arrives, whatever its name and token need, at each position of both bursts.
    #[test]
    fn packets_arrive_as_they_were_sent() {
        const DEEPEST: usize = PREFIX_HASHES_MAX - 1;
        const TOKEN_LENGTHS: [usize; 5] = [0, 1, 8, 9, 32];
        let pool = PacketPool::new(80).unwrap();
        let (mut sent, mut arrived) = (Burst::new(), Burst::new());
        for (least, most) in [(1, 1), (COMPONENTS_MAX, COMPONENTS_MAX), (1, 12), (DEEPEST, DEEPEST)]
        {
            for shift in 0..TOKEN_LENGTHS.len() {
                let packet = |index: usize| {
                    let length = TOKEN_LENGTHS[(index + shift) % TOKEN_LENGTHS.len()];
                    (name_of(index, least + index % (most - least + 1)), &TOKEN[..length])
                };
                for index in 0..BURST_SIZE {
                    let (name, token) = packet(index);
                    receive(&mut sent, &pool, &name, token);
                }
                for index in 0..BURST_SIZE {
                    let mut packet = sent.take_packet(index);
                    assert!(arrived.push_packet(&mut packet, &pool, &hasher()));
                    assert!(packet.handle().is_none());
                }
                for index in 0..BURST_SIZE {
                    let (name, token) = packet(index);
                    let mut hashes = [0; PREFIX_HASHES_MAX];
                    let count = hasher().hash_prefixes(name.as_ref(), &mut hashes).unwrap();
                    assert_eq!(arrived.prefix_hashes(index), &hashes[..count], "{index}: {name}");
                    assert_eq!(arrived.pit_token(index), token, "{index}: {name}");
                    assert_eq!(arrived.kind(index), PacketKind::Interest);
                }
                sent.release(&pool);
                for token in [&TOKEN[..8], TOKEN] {
                    receive(&mut sent, &pool, &name_of(0, 1), token);
                    let mut packet = sent.take_packet(sent.len() - 1);
                    assert!(!arrived.push_packet(&mut packet, &pool, &hasher()), "it is full");
                    packet.release(&pool);
                }
                sent.release(&pool);
                arrived.release(&pool);
            }
        }
        assert_eq!(pool.counters().blocks_in_use(), 0);
    }

    #[test]
    fn packet_with_a_long_token_does_not_leave_with_hashes() {
        let pool = PacketPool::new(1).unwrap();
        let mut burst = Burst::new();
        receive(&mut burst, &pool, &name_of(0, 1), TOKEN);
        assert!(burst.leaving(0).is_none());
        burst.release(&pool);
    }
}
