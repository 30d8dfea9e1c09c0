//! A received packet with its descriptor, as the pipelines see it.

use ndn_packet::NameRef;
use ndn_ring::{PacketHandle, PacketPool};
use ndn_table::{DataKey, InterestKey, Token};

use crate::descriptor::{Descriptor, Flags};
use crate::strategy::InterestPacket;
use crate::{Burst, PacketKind};

/// One packet of a burst, borrowed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RxPacket<'a> {
    pub(crate) descriptor: &'a Descriptor,
    pub(crate) handle: &'a PacketHandle,
    pub(crate) wire: &'a [u8],
    pub(crate) name: NameRef<'a>,
    pub(crate) hashes: &'a [u64],
    pub(crate) token: &'a [u8],
}

impl<'a> RxPacket<'a> {
    /// Packet `index` of `burst`; `None` if it was moved to another burst.
    #[inline]
    pub(crate) fn new(burst: &'a Burst, index: usize, pool: &'a PacketPool) -> Option<Self> {
        let descriptor = burst.descriptor(index);
        let handle = descriptor.handle.as_ref()?;
        let wire = pool.bytes(handle);
        let name_start = usize::from(descriptor.name_offset);
        let name_value = &wire[name_start..name_start + usize::from(descriptor.name_length)];
        Some(Self {
            descriptor,
            handle,
            wire,
            name: NameRef::from_validated(name_value, u16::from(descriptor.components)),
            hashes: burst.prefix_hashes(index),
            token: burst.pit_token(index),
        })
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
    pub(crate) fn interest_key(&self) -> InterestKey<'a> {
        let can_be_prefix = self.has(Flags::CAN_BE_PREFIX);
        InterestKey::new(self.name, self.hashes, can_be_prefix, self.has(Flags::MUST_BE_FRESH))
    }

    #[inline]
    pub(crate) fn data_key(&self) -> DataKey<'a> {
        DataKey::new(self.name, self.hashes)
    }

    /// The token as one of ours, which it need not be.
    #[inline]
    pub(crate) fn own_token(&self) -> Option<Token> {
        Token::decode(self.token)
    }

    /// The value of the ForwardingHint TLV.
    pub(crate) fn forwarding_hint(&self) -> Option<&'a [u8]> {
        let start = usize::from(self.descriptor.hint_offset);
        let end = start + usize::from(self.descriptor.hint_length);
        self.has(Flags::FORWARDING_HINT).then(|| &self.wire[start..end])
    }

    #[inline]
    pub(crate) fn interest_packet(&self) -> InterestPacket<'a> {
        let descriptor = self.descriptor;
        InterestPacket {
            wire: self.wire,
            handle: Some(self.handle),
            nonce: descriptor.nonce,
            lifetime_ms: descriptor.period_ms,
            congestion_mark: descriptor.congestion_mark,
            is_at_hop_limit: self.has(Flags::HOP_LIMIT) && descriptor.hop_limit == 0,
            is_localhost: self.has(Flags::LOCALHOST),
            is_localhop: self.has(Flags::LOCALHOP),
            is_from_local: self.has(Flags::FROM_LOCAL),
        }
    }
}
