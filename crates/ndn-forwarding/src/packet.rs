//! Received packets with their descriptors, as the pipelines see them.

use aws_lc_rs::digest::{SHA256, digest};
use ndn_packet::NameRef;
use ndn_ring::{PacketHandle, PacketPool};
use ndn_table::{DataKey, FaceIndex, InterestKey, Token};

use crate::cross_shard_packet::{CrossShardPacket, HASHES};
use crate::descriptor::{Descriptor, Flags};
use crate::{BURST_SIZE, Burst, PacketKind, TxKind, TxPacket};

/// A received packet of a burst, borrowed.
#[derive(Debug, Clone, Copy)]
pub struct RxPacket<'a> {
    pub(crate) descriptor: &'a Descriptor,
    /// Its buffer.
    pub(crate) buffer: &'a PacketHandle,
    /// The bytes of the buffer: the packet, followed by its PrefixAnnouncement if it has one.
    bytes: &'a [u8],
    burst: &'a Burst,
    /// Its position in the burst.
    index: usize,
}

/// A list of positions in a burst.
#[derive(Debug)]
pub(crate) struct Positions {
    positions: [u8; BURST_SIZE],
    count: usize,
}

impl Default for Positions {
    fn default() -> Self {
        Self { positions: [0; BURST_SIZE], count: 0 }
    }
}

impl Positions {
    /// Appends `index`; each index at most once.
    #[inline(always)]
    pub(crate) fn push(&mut self, index: usize) {
        #[expect(clippy::cast_possible_truncation, reason = "below the size of a burst")]
        let position = index as u8;
        self.positions[self.count % BURST_SIZE] = position;
        self.count += 1;
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.positions[..self.count.min(BURST_SIZE)]
    }
}

impl<'a> RxPacket<'a> {
    /// Packet `index` of `burst`; `None` if it was moved to another burst.
    #[inline(always)]
    pub(crate) fn new(burst: &'a Burst, index: usize, pool: &'a PacketPool) -> Option<Self> {
        Self::of(burst.descriptor(index), burst, index, pool)
    }

    /// [`Self::new`] with the descriptor.
    #[inline(always)]
    pub(crate) fn of(
        descriptor: &'a Descriptor,
        burst: &'a Burst,
        index: usize,
        pool: &'a PacketPool,
    ) -> Option<Self> {
        let buffer = descriptor.handle.as_ref()?;
        Some(Self { descriptor, buffer, bytes: pool.bytes(buffer), burst, index })
    }

    #[inline]
    pub(crate) fn has(&self, flags: Flags) -> bool {
        self.descriptor.flags.contains(flags)
    }

    #[inline]
    pub(crate) fn is_interest(&self) -> bool {
        self.descriptor.kind == PacketKind::Interest
    }

    #[inline]
    pub(crate) fn name(&self) -> NameRef<'a> {
        let start = usize::from(self.descriptor.name_offset);
        let end = start + usize::from(self.descriptor.name_length);
        NameRef::from_validated(&self.bytes[start..end], u16::from(self.descriptor.components))
    }

    /// The arrival face.
    #[inline]
    #[must_use]
    pub fn face(&self) -> FaceIndex {
        self.descriptor.face
    }

    /// Hashes of the prefixes of the name, the empty one first.
    #[inline]
    #[must_use]
    pub fn hashes(&self) -> &'a [u64] {
        self.burst.hashes_of(self.descriptor)
    }

    /// The packet.
    #[inline]
    pub(crate) fn wire(&self) -> &'a [u8] {
        if self.has(Flags::ANNOUNCEMENT) {
            &self.bytes[..usize::from(self.descriptor.hint_offset)]
        } else {
            self.bytes
        }
    }

    /// The PrefixAnnouncement of a Data; empty if it has none.
    #[inline]
    pub(crate) fn announcement(&self) -> &'a [u8] {
        if self.has(Flags::ANNOUNCEMENT) {
            &self.bytes[usize::from(self.descriptor.hint_offset)..]
        } else {
            &[]
        }
    }

    /// The buffer handle, if the buffer holds this packet alone.
    #[inline]
    pub(crate) fn handle(&self) -> Option<&'a PacketHandle> {
        if self.has(Flags::ANNOUNCEMENT) { None } else { Some(self.buffer) }
    }

    /// The key of an Interest, or of the Interest in a Nack.
    #[inline(always)]
    pub(crate) fn interest_key(&self) -> InterestKey<'a> {
        let can_be_prefix = self.has(Flags::CAN_BE_PREFIX);
        let must_be_fresh = self.has(Flags::MUST_BE_FRESH);
        let has_digest = self.has(Flags::IMPLICIT_DIGEST);
        let hashes = self.hashes();
        InterestKey::with_digest(self.name(), hashes, can_be_prefix, must_be_fresh, has_digest)
    }

    #[inline(always)]
    pub(crate) fn data_key(&self) -> DataKey<'a> {
        DataKey::new(self.name(), self.hashes())
    }

    /// The PIT token that it carried; empty for none.
    #[inline]
    pub(crate) fn token(&self) -> &'a [u8] {
        self.burst.pit_token(self.index)
    }

    /// The token, decoded as one of ours; it may be another's.
    #[inline]
    pub(crate) fn own_token(&self) -> Option<Token> {
        self.descriptor.own_token()
    }

    /// The value of the ForwardingHint TLV.
    #[inline(always)]
    pub(crate) fn forwarding_hint(&self) -> Option<&'a [u8]> {
        let start = usize::from(self.descriptor.hint_offset);
        let end = start + usize::from(self.descriptor.hint_length);
        self.has(Flags::FORWARDING_HINT).then(|| &self.bytes[start..end])
    }

    /// A copy for another shard.
    pub(crate) fn to_other_shard(self) -> CrossShardPacket {
        let handle = Some(self.buffer.retain_remote());
        let mut hashes = [0; HASHES];
        hashes.iter_mut().zip(&self.hashes()[1..]).for_each(|(place, &hash)| *place = hash);
        let packet =
            CrossShardPacket { descriptor: Descriptor { handle, ..*self.descriptor }, hashes };
        if self.descriptor.has_long_token() {
            return packet.with_token_for_hashes(self.token());
        }
        packet
    }

    /// A Data as it leaves, without PIT token and IncomingFaceId.
    pub(crate) fn tx_data(&self) -> TxPacket<'a> {
        TxPacket {
            congestion_mark: u64::from(self.descriptor.congestion_mark),
            prefix_announcement: self.announcement(),
            ..TxPacket::new(TxKind::Data, self.wire(), self.handle())
        }
    }

    /// An Interest, or a Data without announcement, as it leaves, without PIT token and IncomingFaceId.
    #[inline(always)]
    pub(crate) fn tx_plain(&self, kind: TxKind) -> TxPacket<'a> {
        TxPacket {
            congestion_mark: u64::from(self.descriptor.congestion_mark),
            ..TxPacket::new(kind, self.plain_wire(), Some(self.buffer))
        }
    }

    /// The packet, which is an Interest, or a Data without announcement.
    #[inline(always)]
    pub(crate) fn plain_wire(&self) -> &'a [u8] {
        debug_assert!(!self.has(Flags::ANNOUNCEMENT));
        self.bytes
    }
}

/// The SHA-256 of a Data packet, or of the parameters of an Interest.
#[cold]
pub(crate) fn sha256(packet: &[u8]) -> [u8; 32] {
    let mut output = [0; 32];
    output.copy_from_slice(digest(&SHA256, packet).as_ref());
    output
}
