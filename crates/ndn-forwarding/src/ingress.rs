//! Parses received packets into descriptors: the only parser on the packet path.

use std::sync::Arc;
use std::time::Duration;

use ndn_packet::{Data, DecodeError, Interest, NackReason, Name, NameRef};
use ndn_ring::{FillBlock, PacketPool};
use ndn_table::NameHasher;

use crate::burst::NextPacket;
use crate::descriptor::Flags;
use crate::packet::sha256;
use crate::rewrite::{Rewrite, RewriteError};
use crate::scope;
use crate::{Burst, Counters, DropReason, LpFields, PacketKind, RxFace};

/// First byte of a Data.
const TYPE_DATA: u8 = 6;

/// Parses the packets that one worker receives and fills bursts with them.
#[derive(Debug)]
pub struct Ingress {
    hasher: NameHasher,
    counters: Arc<Counters>,
    regions: Arc<ProducerRegions>,
    nonces: NonceSequence,
    interest_lifetime_max_ms: u32,
    /// The same for on-demand peers.
    remote_lifetime_max_ms: u32,
    /// HopLimit for Interests without one; 0 for none.
    default_hop_limit: u8,
    /// Block for rewritten Interests.
    rewrite_block: Option<FillBlock>,
}

impl Ingress {
    /// An ingress that counts its drops in `counters` and generates missing Nonces from
    /// `nonce_seed`, which should be random.
    #[must_use]
    pub fn new(hasher: NameHasher, counters: Arc<Counters>, nonce_seed: u64) -> Self {
        Self {
            hasher,
            counters,
            regions: Arc::default(),
            nonces: NonceSequence(nonce_seed),
            interest_lifetime_max_ms: u32::MAX,
            remote_lifetime_max_ms: u32::MAX,
            default_hop_limit: 0,
            rewrite_block: None,
        }
    }

    /// Replaces the producer regions. An Interest that has reached one of them loses its
    /// ForwardingHint.
    pub fn set_producer_regions(&mut self, regions: Arc<ProducerRegions>) {
        self.regions = regions;
    }

    /// Sets the maximum InterestLifetime, and the one for on-demand peers; longer lifetimes are
    /// reduced to it.
    pub fn set_interest_lifetime_max(&mut self, lifetime_max: Duration, of_remote: Duration) {
        let millis = |time: Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        self.interest_lifetime_max_ms = millis(lifetime_max);
        self.remote_lifetime_max_ms = millis(lifetime_max.min(of_remote));
    }

    /// Sets the HopLimit that Interests without one get when they leave; 0 leaves them unchanged.
    /// 255, the maximum, leaves as 254.
    pub fn set_default_hop_limit(&mut self, hop_limit: u8) {
        self.default_hop_limit = hop_limit;
    }

    /// Takes the first `length` filled bytes of `block` as one network packet (an Interest or a
    /// Data, without LP header) and adds it to `burst`. The bytes are consumed in any case.
    ///
    /// The last [`LpFields::announcement_length`] bytes are the PrefixAnnouncement of a Data.
    ///
    /// HopLimit is decremented in place. An Interest without a Nonce gets one, and an Interest that
    /// has reached a producer region loses its ForwardingHint; such an Interest is rewritten into a
    /// block of `pool`.
    ///
    /// # Errors
    /// Why the packet was dropped; the drop has been counted.
    ///
    /// # Panics
    /// If `length` is 0 or greater than the number of filled bytes.
    #[inline]
    pub fn push(
        &mut self,
        burst: &mut Burst,
        pool: &PacketPool,
        block: &mut FillBlock,
        length: usize,
        lp: &LpFields,
        face: &RxFace,
    ) -> Result<(), DropReason> {
        let outcome = match burst.next_packet() {
            None => Err(DropReason::BurstFull),
            Some(next) if block.filled()[0] == TYPE_DATA => {
                self.describe_data(next, &block.filled()[..length], lp, face)
            }
            Some(next) => self.describe_interest(next, block, length, lp, face),
        };
        let result = match outcome {
            Ok(Outcome::Unchanged) => {
                burst.append(block.carve(length));
                return Ok(());
            }
            Ok(Outcome::Rewrite(change)) => {
                self.push_rewritten(burst, pool, &block.filled()[..length], change, lp, face)
            }
            Err(reason) => Err(reason),
        };
        block.skip(length);
        result.inspect_err(|&reason| self.counters.drop_packet(reason))
    }

    #[inline]
    fn describe_data(
        &self,
        next: NextPacket<'_>,
        wire: &[u8],
        lp: &LpFields,
        face: &RxFace,
    ) -> Result<Outcome, DropReason> {
        if lp.nack.is_some() {
            return Err(DropReason::Malformed);
        }
        if lp.next_hop_face_id.is_some() || lp.non_discovery {
            return Err(DropReason::BadLinkField);
        }
        let announcement = usize::from(lp.announcement_length);
        let wire = &wire[..wire.len().saturating_sub(announcement)];
        let mut hash_count = 0;
        let hashes = &mut *next.prefix_hashes;
        let data = Data::parse_with(wire, |name| {
            hash_count = self.hasher.hash_scanned(name, hashes);
        })
        .map_err(drop_reason)?;
        next.descriptor.kind = PacketKind::Data;
        next.descriptor.period_ms = saturate_u32(data.freshness_ms().unwrap_or(0));
        let flags = Flags::default()
            .with(Flags::IMPLICIT_DIGEST, data.name_ends_in_implicit_digest())
            .with(Flags::ANNOUNCEMENT, announcement > 0);
        if announcement > 0 {
            next.descriptor.hint_offset = offset_u16(wire.len())?;
            next.descriptor.hint_length = lp.announcement_length;
        }
        let name_offset = data.name_value_range().start;
        describe(next, data.name(), name_offset, hash_count, flags, lp, face)?;
        Ok(Outcome::Unchanged)
    }

    /// Parses the Interest at the front of `block` and decrements its HopLimit, unless the Interest
    /// has to be rewritten.
    #[inline]
    fn describe_interest(
        &mut self,
        next: NextPacket<'_>,
        block: &mut FillBlock,
        length: usize,
        lp: &LpFields,
        face: &RxFace,
    ) -> Result<Outcome, DropReason> {
        let forbidden = match lp.nack {
            None => lp.next_hop_face_id.is_some() && !face.local_fields,
            Some(_) => lp.next_hop_face_id.is_some() || lp.non_discovery,
        };
        if forbidden || lp.no_cache || lp.announcement_length > 0 {
            return Err(DropReason::BadLinkField);
        }
        let wire = &block.filled()[..length];
        let mut hash_count = 0;
        let hashes = &mut *next.prefix_hashes;
        let interest = Interest::parse_with(wire, |name| {
            hash_count = self.hasher.hash_scanned(name, hashes);
        })
        .map_err(drop_reason)?;
        let hop_limit = match lp.nack {
            // The Nack contains the Interest as this forwarder sent it.
            Some(_) => interest.hop_limit(),
            None => match interest.hop_limit() {
                Some(0) => return Err(DropReason::HopLimitZero),
                hop_limit => hop_limit.map(|hop_limit| hop_limit - 1),
            },
        };
        let nonce = interest.nonce();
        // Decremented as if it had arrived with this value.
        let lacks_limit = self.default_hop_limit > 0 && hop_limit.is_none() && lp.nack.is_none();
        let new_limit = lacks_limit.then(|| self.default_hop_limit.saturating_add(1));
        if nonce.is_none() || interest.has_forwarding_hint() || lacks_limit {
            let strips_hint = self.regions.are_reached_by(interest.forwarding_hint());
            if nonce.is_none() && lp.nack.is_some() {
                return Err(DropReason::NackNonce);
            }
            if nonce.is_none() || strips_hint || lacks_limit {
                let nonce = self.nonces.next_nonce();
                return Ok(Outcome::Rewrite(Rewrite { nonce, strips_hint, hop_limit: new_limit }));
            }
        }
        if !interest.parameters_digest_is_valid(sha256) {
            return Err(DropReason::BadParametersDigest);
        }
        let descriptor = &mut *next.descriptor;
        descriptor.kind = if lp.nack.is_some() { PacketKind::Nack } else { PacketKind::Interest };
        descriptor.nonce = nonce.unwrap_or_default();
        let lifetime_ms = saturate_u32(interest.lifetime_ms());
        let lifetime_max_ms = match face.is_remote {
            true => self.remote_lifetime_max_ms,
            false => self.interest_lifetime_max_ms,
        };
        descriptor.period_ms = lifetime_ms.min(lifetime_max_ms);
        descriptor.hop_limit = hop_limit.unwrap_or_default();
        let hint = interest.forwarding_hint_range().unwrap_or_default();
        descriptor.hint_offset = offset_u16(hint.start)?;
        descriptor.hint_length = offset_u16(hint.len())?;
        let flags = Flags::default()
            .with(Flags::CAN_BE_PREFIX, interest.can_be_prefix())
            .with(Flags::MUST_BE_FRESH, interest.must_be_fresh())
            .with(Flags::FORWARDING_HINT, interest.has_forwarding_hint())
            .with(Flags::HOP_LIMIT, hop_limit.is_some())
            .with(Flags::IMPLICIT_DIGEST, interest.name_ends_in_implicit_digest());
        let name_offset = interest.name_value_range().start;
        let hop_limit_offset = interest.hop_limit_offset();
        describe(next, interest.name(), name_offset, hash_count, flags, lp, face)?;
        if let (Some(offset), Some(hop_limit)) = (hop_limit_offset, hop_limit) {
            block.filled_mut()[offset] = hop_limit;
        }
        Ok(Outcome::Unchanged)
    }

    /// Rewrites an Interest that cannot be forwarded as it arrived; uncommon.
    #[cold]
    fn push_rewritten(
        &mut self,
        burst: &mut Burst,
        pool: &PacketPool,
        wire: &[u8],
        change: Rewrite,
        lp: &LpFields,
        face: &RxFace,
    ) -> Result<(), DropReason> {
        // Written to a separate block: the block of the packet may end in half a packet that the
        // next read completes.
        let longest = wire.len() + Rewrite::GROWTH_MAX;
        let mut block = match self.rewrite_block.take() {
            Some(block) if block.remaining() >= longest => block,
            used_up => {
                used_up.into_iter().for_each(|block| pool.finish(block));
                pool.allocate_block().ok_or(DropReason::NoBuffer)?
            }
        };
        let pushed = self.write_and_append(burst, &mut block, wire, change, lp, face);
        self.rewrite_block = Some(block);
        pushed
    }

    fn write_and_append(
        &mut self,
        burst: &mut Burst,
        block: &mut FillBlock,
        wire: &[u8],
        change: Rewrite,
        lp: &LpFields,
        face: &RxFace,
    ) -> Result<(), DropReason> {
        let length = change.apply(wire, block.spare_mut()).map_err(|error| match error {
            RewriteError::Decode => DropReason::Malformed,
            RewriteError::Encode => DropReason::NoBuffer,
        })?;
        block.commit(length);
        let next = burst.next_packet().ok_or(DropReason::BurstFull)?;
        let outcome = self.describe_interest(next, block, length, lp, face);
        if let Ok(Outcome::Unchanged) = outcome {
            burst.append(block.carve(length));
            return Ok(());
        }
        block.skip(length);
        // The Interest now has a Nonce and no hint that reaches a region, so it is not rewritten
        // again.
        Err(outcome.err().unwrap_or(DropReason::Malformed))
    }
}

/// Fills in the fields common to Interest and Data. `hash_count` is the number of prefix hashes.
#[inline(always)]
fn describe(
    next: NextPacket<'_>,
    name: NameRef<'_>,
    name_offset: usize,
    hash_count: usize,
    flags: Flags,
    lp: &LpFields,
    face: &RxFace,
) -> Result<(), DropReason> {
    let NextPacket { descriptor, prefix_hashes, long_token } = next;
    if hash_count != name.len() + 1 {
        return Err(DropReason::NameTooLong);
    }
    if hash_count <= 1 {
        return Err(DropReason::EmptyName);
    }
    let name_hash = prefix_hashes.get(hash_count - 1);
    descriptor.name_hash = name_hash.copied().unwrap_or_default();
    descriptor.components = u8::try_from(hash_count - 1).unwrap_or(u8::MAX);
    descriptor.name_offset = offset_u16(name_offset)?;
    descriptor.name_length = offset_u16(name.value().len())?;
    (descriptor.token_length, descriptor.token) = lp.pit_token.length_and_start();
    if usize::from(descriptor.token_length) > descriptor.token.len() {
        *long_token = lp.pit_token;
    }
    descriptor.face = face.index;
    descriptor.congestion_mark = saturate_u16(lp.congestion_mark);
    descriptor.nack_reason = saturate_u16(lp.nack.unwrap_or(NackReason::NONE).0);
    let next_hop = lp.next_hop_face_id;
    descriptor.next_hop_face_id = saturate_u32(next_hop.unwrap_or(0));
    descriptor.flags = flags
        .union(face.flags)
        .union(scope::flags(name))
        .with(Flags::NO_CACHE, lp.no_cache)
        .with(Flags::NON_DISCOVERY, lp.non_discovery)
        .with(Flags::NEXT_HOP, next_hop.is_some());
    Ok(())
}

/// Result of parsing a packet.
#[derive(Debug)]
enum Outcome {
    /// The packet is described and stays in its block.
    Unchanged,
    /// The packet has to be rewritten, and then described.
    Rewrite(Rewrite),
}

/// Generator of Nonces for Interests without one: repetition must be unlikely; secrecy is not
/// needed.
#[derive(Debug)]
struct NonceSequence(u64);

impl NonceSequence {
    /// The next output of SplitMix64, whose period is 2^64.
    fn next_nonce(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let [a, b, c, d, ..] = mixed.to_be_bytes();
        u32::from_be_bytes([a, b, c, d])
    }
}

#[cold]
fn drop_reason(error: DecodeError) -> DropReason {
    if matches!(error, DecodeError::EmptyName { .. }) {
        DropReason::EmptyName
    } else {
        DropReason::Malformed
    }
}

#[inline]
fn saturate_u32(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[inline]
fn saturate_u16(number: u64) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

/// An offset in a packet; blocks have at most 64 KiB.
#[inline]
fn offset_u16(offset: usize) -> Result<u16, DropReason> {
    u16::try_from(offset).map_err(|_| DropReason::Malformed)
}

/// Names of the producer regions that this forwarder is part of.
///
/// An Interest with a ForwardingHint delegation that is a prefix of a region name has reached the
/// producer region: its ForwardingHint is removed and it is forwarded by its own name.
#[derive(Debug, Clone, Default)]
pub struct ProducerRegions {
    names: Vec<Name>,
}

impl ProducerRegions {
    /// A set of region names.
    #[must_use]
    pub fn new(names: Vec<Name>) -> Self {
        Self { names }
    }

    /// Whether a ForwardingHint with these delegations has reached a region.
    pub(crate) fn are_reached_by<'a>(
        &self,
        delegations: impl Iterator<Item = NameRef<'a>>,
    ) -> bool {
        let mut delegations = delegations;
        !self.names.is_empty()
            && delegations.any(|delegation| {
                self.names.iter().any(|region| region.as_ref().starts_with(delegation))
            })
    }
}
