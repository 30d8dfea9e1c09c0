//! A packet on its way to another shard.

use ndn_packet::lp::PIT_TOKEN_LENGTH_MAX;
use ndn_ring::{PacketHandle, PacketPool};
use ndn_table::{NameHasher, PREFIX_HASHES_MAX};

use crate::burst::NextPacket;
use crate::descriptor::{Descriptor, Flags};
use crate::packet::RxPacket;
use crate::{Burst, PacketKind, PitToken};

/// Prefix hashes that travel with a packet, besides those of the empty prefix, which is a constant, and of the
/// whole name, which is in the descriptor. The receiver computes those of longer names again.
const HASHES: usize = 5;

/// Maximum number of components of a name whose prefix hashes all travel.
const COMPONENTS_MAX: usize = HASHES + 1;

/// A received packet outside of a burst: its handle, descriptor and prefix hashes.
///
/// Like a handle, it has to be [released](Self::release) or put into a burst.
#[derive(Debug)]
#[must_use = "a parcel holds a packet"]
pub struct Parcel {
    /// None once the packet is in a burst.
    descriptor: Descriptor,
    /// Hashes of the prefixes from one component; those beyond the name are undefined. If the PIT token does not
    /// fit the descriptor: the token.
    hashes: [u64; HASHES],
}

/// Together with the type of message and the time of sending it fills two cache lines.
const _: () = assert!(size_of::<Parcel>() == 104);
const _: () = assert!(HASHES * size_of::<u64>() >= PIT_TOKEN_LENGTH_MAX);

impl Parcel {
    #[inline(always)]
    fn new(descriptor: Descriptor, hashes: [u64; HASHES], token: &[u8]) -> Self {
        let is_long = token.len() > descriptor.token.len();
        Self { descriptor, hashes: if is_long { packed(token) } else { hashes } }
    }

    /// The PIT token, if it takes the place of hashes.
    #[inline]
    fn long_token(&self) -> Option<PitToken> {
        let length = usize::from(self.descriptor.token_length);
        (length > self.descriptor.token.len()).then(|| unpacked(&self.hashes, length))
    }

    /// A copy of a packet of the burst that is being forwarded.
    pub(crate) fn copy_of(rx: &RxPacket<'_>) -> Self {
        let handle = rx.descriptor.handle.as_ref().map(PacketHandle::retain_remote);
        let mut hashes = [0; HASHES];
        hashes.iter_mut().zip(&rx.hashes()[1..]).for_each(|(place, &hash)| *place = hash);
        Self::new(Descriptor { handle, ..*rx.descriptor }, hashes, rx.token)
    }

    /// The parcel without these flags.
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

#[cold]
fn packed(token: &[u8]) -> [u64; HASHES] {
    let mut words = [0; HASHES];
    for (word, bytes) in words.iter_mut().zip(token.chunks(size_of::<u64>())) {
        let mut padded = [0; size_of::<u64>()];
        padded[..bytes.len()].copy_from_slice(bytes);
        *word = u64::from_le_bytes(padded);
    }
    words
}

#[cold]
fn unpacked(words: &[u64; HASHES], length: usize) -> PitToken {
    let mut bytes = [0; HASHES * size_of::<u64>()];
    for (place, word) in bytes.chunks_exact_mut(size_of::<u64>()).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes.get(..length).and_then(PitToken::new).unwrap_or(PitToken::NONE)
}

impl Burst {
    /// Takes packet `index` out of the burst for another shard.
    ///
    /// # Panics
    /// If there is no such packet, or it was taken before.
    #[inline(always)]
    pub fn take_parcel(&mut self, index: usize) -> Parcel {
        let handle = self.descriptor_mut(index).handle.take();
        assert!(handle.is_some(), "a packet is taken once");
        let descriptor = Descriptor { handle, ..*self.descriptor(index) };
        Parcel::new(descriptor, self.hashes_from_first(index), self.pit_token(index))
    }

    /// Moves a packet from another shard into the burst. Returns false and leaves it if the burst is full.
    #[inline]
    pub fn push_parcel(
        &mut self,
        parcel: &mut Parcel,
        pool: &PacketPool,
        hasher: &NameHasher,
    ) -> bool {
        let Some(next) = self.next_packet() else { return false };
        let NextPacket { descriptor, prefix_hashes, long_token } = next;
        let has_hashes = match parcel.long_token() {
            None => true,
            Some(token) => {
                *long_token = token;
                false
            }
        };
        let Parcel { descriptor: sent, hashes } = parcel;
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
                let mut parcel = sent.take_parcel(0);
                assert!(arrived.push_parcel(&mut parcel, &pool, &hasher));
                assert!(parcel.handle().is_none());
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
