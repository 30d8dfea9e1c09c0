//! Descriptor of a received packet: 64 bytes.

use ndn_ring::PacketHandle;
use ndn_table::{FaceIndex, TOKEN_LENGTH, Token};

/// The kind of a received packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum PacketKind {
    /// An Interest.
    Interest,
    /// A Data.
    Data,
    /// A Nack; the bytes are those of the Interest inside.
    Nack,
}

/// Boolean properties of a received packet and of its face.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(u16);

impl Flags {
    /// Interest with CanBePrefix.
    pub const CAN_BE_PREFIX: Self = Self(1);
    /// Interest with MustBeFresh.
    pub const MUST_BE_FRESH: Self = Self(1 << 1);
    /// Interest with a ForwardingHint that is to be followed.
    pub const FORWARDING_HINT: Self = Self(1 << 2);
    /// Interest with a HopLimit.
    pub const HOP_LIMIT: Self = Self(1 << 3);
    /// CachePolicy NoCache.
    pub const NO_CACHE: Self = Self(1 << 4);
    /// Interest to be answered with a Nack because the worker is overloaded. Shares its bit with
    /// [`Self::NO_CACHE`], which only Data has.
    pub(crate) const REFUSED: Self = Self(1 << 4);
    /// The name ends in an ImplicitSha256DigestComponent.
    pub const IMPLICIT_DIGEST: Self = Self(1 << 5);
    /// Data with a PrefixAnnouncement, stored behind the packet.
    pub const ANNOUNCEMENT: Self = Self(1 << 15);
    /// Interest with NextHopFaceId.
    pub const NEXT_HOP: Self = Self(1 << 6);
    /// The name is under `/localhost`.
    pub const LOCALHOST: Self = Self(1 << 7);
    /// The name is under `/localhop`.
    pub const LOCALHOP: Self = Self(1 << 8);
    /// Interest with NonDiscovery.
    pub const NON_DISCOVERY: Self = Self(1 << 9);
    /// Short-prefix Interest: Data of other shards may satisfy it.
    pub(crate) const SHORT_PREFIX: Self = Self(1 << 14);
    /// This shard is the previous owner of the name: what it cannot use goes on to the present
    /// owner.
    pub(crate) const PREVIOUS_OWNER: Self = Self(1 << 13);
    /// The arrival face is local.
    pub const FROM_LOCAL: Self = Self(1 << 10);
    /// The arrival face is point-to-point.
    pub const FROM_POINT_TO_POINT: Self = Self(1 << 11);
    /// The arrival face is ad-hoc.
    pub const FROM_AD_HOC: Self = Self(1 << 12);

    /// Whether all of `flags` are set.
    #[inline]
    #[must_use]
    pub fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Union with `flags`.
    #[inline]
    #[must_use]
    pub const fn union(self, flags: Self) -> Self {
        Self(self.0 | flags.0)
    }

    /// Whether any of `flags` is set.
    #[inline]
    #[must_use]
    pub(crate) fn intersects(self, flags: Self) -> bool {
        self.0 & flags.0 != 0
    }

    /// Difference from `flags`.
    #[inline]
    #[must_use]
    pub(crate) fn without(self, flags: Self) -> Self {
        Self(self.0 & !flags.0)
    }

    /// Sets `flags` if `condition` is true.
    #[inline]
    #[must_use]
    pub fn with(self, flags: Self, condition: bool) -> Self {
        Self(self.0 | (flags.0 * u16::from(condition)))
    }
}

/// PIT token bytes that fit a descriptor; longer tokens are stored in the burst.
pub(crate) const INLINE_TOKEN_LENGTH: usize = 8;

/// Result of parsing a packet, so that no later stage parses it again.
///
/// Offsets count from the first byte of the packet.
#[derive(Debug)]
#[repr(C)]
pub struct Descriptor {
    /// The packet; `None` once it has been taken out.
    pub(crate) handle: Option<PacketHandle>,
    /// Hash of the whole name.
    pub(crate) name_hash: u64,
    /// PIT token, if it has at most [`INLINE_TOKEN_LENGTH`] bytes.
    pub(crate) token: [u8; INLINE_TOKEN_LENGTH],
    /// Arrival face.
    pub(crate) face: FaceIndex,
    /// Interest and Nack: Nonce.
    pub(crate) nonce: u32,
    /// Interest: InterestLifetime; Data: FreshnessPeriod; in milliseconds, saturating.
    pub(crate) period_ms: u32,
    /// Interest with [`Flags::NEXT_HOP`]: the FaceId, saturating.
    pub(crate) next_hop_face_id: u32,
    /// Interest with [`Flags::FORWARDING_HINT`]: start of the value of the ForwardingHint TLV.
    /// Data with [`Flags::ANNOUNCEMENT`]: start of the PrefixAnnouncement, the end of the Data.
    pub(crate) hint_offset: u16,
    /// Length of the value or announcement at `hint_offset`.
    pub(crate) hint_length: u16,
    /// Congestion mark, saturating.
    pub(crate) congestion_mark: u16,
    /// Nack: NackReason, saturating.
    pub(crate) nack_reason: u16,
    /// Start of the value of the Name TLV.
    pub(crate) name_offset: u16,
    /// Length of the value of the Name TLV.
    pub(crate) name_length: u16,
    /// Index of the hash of the empty prefix in the burst's hash array; the others follow.
    pub(crate) prefix_hashes: u16,
    /// See [`Flags`].
    pub(crate) flags: Flags,
    /// Kind of packet.
    pub(crate) kind: PacketKind,
    /// Number of components of the name.
    pub(crate) components: u8,
    /// Interest with [`Flags::HOP_LIMIT`]: HopLimit after the decrement.
    pub(crate) hop_limit: u8,
    /// Length of the PIT token, 0 for none.
    pub(crate) token_length: u8,
}

const _: () = assert!(size_of::<Descriptor>() == 64);

impl Descriptor {
    /// An unused descriptor.
    pub(crate) const EMPTY: Self = Self {
        handle: None,
        name_hash: 0,
        token: [0; INLINE_TOKEN_LENGTH],
        face: FaceIndex::from_bits(u32::MAX),
        nonce: 0,
        period_ms: 0,
        next_hop_face_id: 0,
        hint_offset: 0,
        hint_length: 0,
        congestion_mark: 0,
        nack_reason: 0,
        name_offset: 0,
        name_length: 0,
        prefix_hashes: 0,
        flags: Flags(0),
        kind: PacketKind::Interest,
        components: 0,
        hop_limit: 0,
        token_length: 0,
    };

    /// Whether the PIT token does not fit the descriptor.
    #[inline]
    pub(crate) fn has_long_token(&self) -> bool {
        usize::from(self.token_length) > self.token.len()
    }

    /// The PIT token, if it fits the descriptor; empty for none.
    #[inline]
    pub(crate) fn short_token(&self) -> Option<&[u8]> {
        self.token.get(..usize::from(self.token_length))
    }

    /// The PIT token, decoded as one of ours; it may be another's.
    #[inline]
    pub(crate) fn own_token(&self) -> Option<Token> {
        let has_length = usize::from(self.token_length) == TOKEN_LENGTH;
        has_length.then(|| Token::from_padded(self.token))
    }

    /// Sets a congestion mark, if there is none.
    pub(crate) fn mark_congestion(&mut self) {
        self.congestion_mark = self.congestion_mark.max(1);
    }

    /// Marks an Interest to be answered with a Nack of reason Congestion.
    pub(crate) fn refuse(&mut self) {
        let is_interest = self.kind == PacketKind::Interest;
        self.flags = self.flags.with(Flags::REFUSED, is_interest);
    }
}
