//! Parses received packets into descriptors: the only parser on the packet path.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use ndn_packet::data::{CommonData, PlainData};
use ndn_packet::interest::{CommonInterest, PlainInterest};
use ndn_packet::{DEFAULT_LIFETIME_MS, Data, DecodeError, Interest, NackReason, Name, NameRef};
use ndn_ring::{CopyBlock, FillBlock, PacketPool};
use ndn_table::NameHasher;
use ndn_types::random::Random;

use crate::burst::NextPacket;
use crate::descriptor::{Descriptor, Flags, INLINE_TOKEN_LENGTH};
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
    rewrites: CopyBlock,
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
            nonces: NonceSequence(Random::with_state(nonce_seed)),
            interest_lifetime_max_ms: u32::MAX,
            remote_lifetime_max_ms: u32::MAX,
            default_hop_limit: 0,
            rewrites: CopyBlock::default(),
        }
    }

    /// Returns the block that is kept for rewritten Interests.
    pub fn release_blocks(&mut self, pool: &PacketPool) {
        self.rewrites.release(pool);
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
        match self.push_common(burst, block, length, lp, face) {
            Some(()) => Ok(()),
            None => self.push_any(burst, pool, block, length, lp, face),
        }
    }

    /// [`Self::push`] for a packet in the common form. `None` for all other packets, which stay in the block.
    // A call: the arguments of the other way do not occupy registers.
    #[inline(never)]
    fn push_common(
        &self,
        burst: &mut Burst,
        block: &mut FillBlock,
        length: usize,
        lp: &LpFields,
        face: &RxFace,
    ) -> Option<()> {
        block.filled().get(..length)?;
        let next = burst.next_packet()?;
        let descriptor = &mut *next.descriptor;
        let front = block.readable();
        self.describe_common(front, length, descriptor, next.prefix_hashes, lp, face)?;
        if descriptor.flags.contains(Flags::HOP_LIMIT) {
            // The last element of the common form.
            *block.filled_mut().get_mut(length - 1)? = descriptor.hop_limit;
        }
        burst.append(block.carve(length));
        Some(())
    }

    /// Describes a packet in the common form with no link field but a short PIT token: the first `length` bytes of `front`.
    /// `None` for all other packets, valid or not, for which [`Self::push_any`] decides; the slot is overwritten in any
    /// case.
    #[inline(always)]
    fn describe_common(
        &self,
        front: &[u8],
        length: usize,
        descriptor: &mut Descriptor,
        prefix_hashes: &mut [u64],
        lp: &LpFields,
        face: &RxFace,
    ) -> Option<()> {
        if !lp.is_token_only(INLINE_TOKEN_LENGTH) {
            return None;
        }
        // Fields go into the descriptor at once: registers do not suffice to keep them.
        match front.first() {
            Some(&TYPE_DATA) => describe_common_data(front, length, descriptor)?,
            _ => {
                describe_common_interest(front, length, descriptor)?;
                if self.default_hop_limit > 0 && !descriptor.flags.contains(Flags::HOP_LIMIT) {
                    return None;
                }
                descriptor.period_ms = descriptor.period_ms.min(self.lifetime_max_ms(face));
            }
        }
        (descriptor.token_length, descriptor.token) = lp.pit_token.length_and_start();
        descriptor.face = face.index;
        descriptor.flags = descriptor.flags.union(face.flags);
        // What only other packets have; adjacent fields are written at once.
        descriptor.next_hop_face_id = 0;
        (descriptor.hint_offset, descriptor.hint_length) = (0, 0);
        (descriptor.congestion_mark, descriptor.nack_reason) = (0, 0);
        let name = usize::from(descriptor.name_offset);
        let name = name..name + usize::from(descriptor.name_length);
        // `None` if the name is empty or has uncommon components.
        // With bytes behind the packet, components near its end are read like others.
        let (components, name_hash) = self.hasher.hash_common(front, name, prefix_hashes)?;
        descriptor.name_hash = name_hash;
        #[expect(clippy::cast_possible_truncation, reason = "at most NAME_COMPONENTS_MAX")]
        let components = components as u8;
        descriptor.components = components;
        Some(())
    }

    /// The maximum lifetime of the Interests of a face.
    #[inline(always)]
    fn lifetime_max_ms(&self, face: &RxFace) -> u32 {
        match face.is_remote {
            true => self.remote_lifetime_max_ms,
            false => self.interest_lifetime_max_ms,
        }
    }

    /// [`Self::push`] for any packet.
    #[inline(never)]
    fn push_any(
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
            Some(next) => {
                *next.descriptor = Descriptor::EMPTY;
                match block.filled()[0] {
                    TYPE_DATA => self.describe_data(next, &block.filled()[..length], lp, face),
                    _ => self.describe_interest(next, block, length, lp, face),
                }
            }
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
        descriptor.period_ms = lifetime_ms.min(self.lifetime_max_ms(face));
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
        let mut rewrites = std::mem::take(&mut self.rewrites);
        let pushed = match rewrites.with_room(longest, pool) {
            Some(block) => self.write_and_append(burst, block, wire, change, lp, face),
            None => Err(DropReason::NoBuffer),
        };
        self.rewrites = rewrites;
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
        .union(scope::flags(name.value()))
        .with(Flags::NO_CACHE, lp.no_cache)
        .with(Flags::NON_DISCOVERY, lp.non_discovery)
        .with(Flags::NEXT_HOP, next_hop.is_some());
    Ok(())
}

/// Sets the fields of `descriptor` that a Data in the common form determines, the first `length` bytes of `front`, except those
/// that depend on the components of its name. `None` for other packets.
// A call: within its caller, registers do not suffice.
#[inline(never)]
fn describe_common_data(front: &[u8], length: usize, descriptor: &mut Descriptor) -> Option<()> {
    // The usual form is read without a call, for which registers were saved.
    match PlainData::read(front, length) {
        Some(data) if !scope::may_be_local(front.get(data.name.start..)?) => {
            set_data(descriptor, data.name, data.freshness_ms.into(), Flags::default())
        }
        _ => describe_other_data(front.get(..length)?, descriptor),
    }
}

#[inline(never)]
fn describe_other_data(wire: &[u8], descriptor: &mut Descriptor) -> Option<()> {
    let data = CommonData::read(wire)?;
    let flags = scope::flags(wire.get(data.name.clone())?);
    let freshness_ms = saturate_u32(data.freshness_ms.unwrap_or(0));
    set_data(descriptor, data.name, freshness_ms, flags)
}

#[inline(always)]
fn set_data(
    descriptor: &mut Descriptor,
    name: Range<usize>,
    freshness_ms: u32,
    flags: Flags,
) -> Option<()> {
    descriptor.nonce = 0;
    descriptor.period_ms = freshness_ms;
    descriptor.name_offset = u16::try_from(name.start).ok()?;
    descriptor.name_length = u16::try_from(name.len()).ok()?;
    descriptor.flags = flags;
    descriptor.kind = PacketKind::Data;
    descriptor.hop_limit = 0;
    Some(())
}

/// Sets the fields of `descriptor` that an Interest in the common form determines, the first `length` bytes of `front`, except
/// those that depend on the components of its name. `None` for other packets, and for HopLimit 0.
#[inline(never)]
fn describe_common_interest(
    front: &[u8],
    length: usize,
    descriptor: &mut Descriptor,
) -> Option<()> {
    match PlainInterest::read(front, length) {
        Some(interest) if !scope::may_be_local(front.get(interest.name.start..)?) => {
            let PlainInterest { name, nonce, lifetime_ms, hop_limit } = interest;
            set_interest(descriptor, name, (nonce, lifetime_ms.into()), hop_limit, Flags::default())
        }
        _ => describe_other_interest(front.get(..length)?, descriptor),
    }
}

#[inline(never)]
fn describe_other_interest(wire: &[u8], descriptor: &mut Descriptor) -> Option<()> {
    let interest = CommonInterest::read(wire)?;
    let flags = scope::flags(wire.get(interest.name.clone())?)
        .with(Flags::CAN_BE_PREFIX, interest.can_be_prefix)
        .with(Flags::MUST_BE_FRESH, interest.must_be_fresh);
    let lifetime_ms = saturate_u32(interest.lifetime_ms.unwrap_or(DEFAULT_LIFETIME_MS));
    let fields = (interest.nonce, lifetime_ms);
    set_interest(descriptor, interest.name, fields, interest.hop_limit, flags)
}

#[inline(always)]
fn set_interest(
    descriptor: &mut Descriptor,
    name: Range<usize>,
    (nonce, lifetime_ms): (u32, u32),
    hop_limit: Option<u8>,
    flags: Flags,
) -> Option<()> {
    descriptor.hop_limit = match hop_limit {
        None => 0,
        Some(hop_limit) => hop_limit.checked_sub(1)?,
    };
    descriptor.nonce = nonce;
    descriptor.period_ms = lifetime_ms;
    descriptor.name_offset = u16::try_from(name.start).ok()?;
    descriptor.name_length = u16::try_from(name.len()).ok()?;
    descriptor.flags = flags.with(Flags::HOP_LIMIT, hop_limit.is_some());
    descriptor.kind = PacketKind::Interest;
    Some(())
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
struct NonceSequence(Random);

impl NonceSequence {
    fn next_nonce(&mut self) -> u32 {
        let [a, b, c, d, ..] = self.0.bits().to_be_bytes();
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::cell::Cell;

    use ndn_ring::PagePreference;
    use ndn_table::FaceIndex;
    use ndn_types::Scope;
    use proptest::prelude::*;
    use proptest::test_runner::TestRunner;

    use super::*;
    use crate::{BURST_SIZE, FaceProperties, PitToken};

    /// A TLV with a type and a length of any form, in most cases the shortest.
    fn element(ty: u64, value: &[u8], wide: bool) -> Vec<u8> {
        let number = |number: u64, wide: bool| match u8::try_from(number) {
            Ok(byte) if byte < 253 && !wide => vec![byte],
            _ => [&[253][..], &u16::try_from(number).unwrap().to_be_bytes()].concat(),
        };
        let length = value.len() as u64;
        [number(ty, false), number(length, wide && length > 2), value.to_vec()].concat()
    }

    fn wire_bytes(length: Range<usize>) -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(any::<u8>(), length)
    }

    fn component() -> impl Strategy<Value = Vec<u8>> {
        let ty = prop_oneof![
            40 => Just(8_u64),
            12 => prop::sample::select(vec![50, 54, 3, 252, 32]),
            1 => prop::sample::select(vec![0, 1, 2, 253, 254, 65535]),
        ];
        let value = prop_oneof![
            16 => wire_bytes(0..20),
            1 => Just(vec![7; 32]),
            1 => wire_bytes(240..300),
            1 => Just(b"localhost".to_vec()),
            1 => Just(b"localhop".to_vec()),
        ];
        (ty, value, prop::bool::weighted(0.02))
            .prop_map(|(ty, value, wide)| element(ty, &value, wide))
    }

    fn name() -> impl Strategy<Value = Vec<u8>> {
        let components = prop_oneof![
            20 => proptest::collection::vec(component(), 1..8),
            1 => Just(vec![]),
            1 => (60..67_usize).prop_map(|count| vec![vec![8, 1, 65]; count]),
        ];
        components.prop_map(|components| element(7, &components.concat(), false))
    }

    /// Elements of this order, each present with its probability, with a valid or an arbitrary
    /// value, and sometimes another in between.
    fn elements(known: Vec<(u64, f64, Vec<Vec<u8>>)>) -> impl Strategy<Value = Vec<Vec<u8>>> {
        let parts: Vec<_> = known
            .into_iter()
            .map(|(ty, probability, values)| {
                let value = prop_oneof![
                    60 => prop::sample::select(values),
                    1 => wire_bytes(0..10),
                ];
                let other = prop_oneof![
                    80 => Just(None),
                    1 => (0..260_u64, wire_bytes(0..5)).prop_map(Some),
                ];
                (prop::bool::weighted(probability), value, other).prop_map(
                    move |(is_there, value, other)| {
                        let known = is_there.then(|| element(ty, &value, false));
                        let other = other.map(|(ty, value)| element(ty, &value, false));
                        [known, other].into_iter().flatten().collect::<Vec<_>>()
                    },
                )
            })
            .collect();
        parts.prop_map(|parts| parts.concat())
    }

    /// A change of a packet, most of which make it invalid.
    #[derive(Debug, Clone, Copy)]
    enum Change {
        /// Of an element with the next.
        Swap,
        Double,
        Drop,
        /// Writes the length of an element in three bytes.
        Widen,
        /// Cuts bytes off the end.
        Cut,
        /// Appends a byte.
        Append(u8),
        /// Replaces a byte.
        Replace(u8),
        /// Makes the outer length too small, by few bytes.
        ShrinkOuter(u8),
    }

    fn change() -> impl Strategy<Value = Change> {
        prop_oneof![
            Just(Change::Swap),
            Just(Change::Double),
            Just(Change::Drop),
            Just(Change::Widen),
            Just(Change::Cut),
            any::<u8>().prop_map(Change::Append),
            any::<u8>().prop_map(Change::Replace),
            (1..12_u8).prop_map(Change::ShrinkOuter),
        ]
    }

    /// A packet with the elements `parts`, changed at `place`.
    fn changed(
        ty: u64,
        mut parts: Vec<Vec<u8>>,
        change: Option<Change>,
        place: prop::sample::Index,
    ) -> Vec<u8> {
        let part = place.index(parts.len());
        match change {
            Some(Change::Swap) => {
                let next = (part + 1) % parts.len();
                parts.swap(part, next);
            }
            Some(Change::Double) => parts.insert(part, parts[part].clone()),
            Some(Change::Drop) => {
                parts.remove(part);
            }
            Some(Change::Widen) if parts[part][0] < 253 && parts[part][1] < 253 => {
                parts[part].splice(1..1, [253, 0]);
            }
            _ => {}
        }
        let mut wire = element(ty, &parts.concat(), false);
        let position = place.index(wire.len());
        match change {
            Some(Change::Cut) => wire.truncate(position.max(1)),
            Some(Change::Append(byte)) => wire.push(byte),
            Some(Change::Replace(byte)) => wire[position] = byte,
            Some(Change::ShrinkOuter(by)) => {
                let last = if wire[1] == 253 { 3 } else { 1 };
                wire[last] = wire[last].saturating_sub(by);
            }
            _ => {}
        }
        wire
    }

    fn packet() -> impl Strategy<Value = Vec<u8>> {
        let hint = element(7, &element(8, b"a", false), false);
        let lifetimes = vec![vec![1], vec![15, 160], vec![0, 1, 0, 0], vec![255; 8]];
        let meta = [element(24, &[0], false), element(25, &[1, 0], false)];
        let last = element(26, &element(50, &[9], false), false);
        let long = element(26, &element(8, &[9; 260], false), false);
        let metas = vec![
            meta[1].clone(),
            meta.concat(),
            [meta.concat(), last].concat(),
            [meta.concat(), long].concat(),
            vec![],
        ];
        let interest = elements(vec![
            (33, 0.5, vec![vec![]]),
            (18, 0.5, vec![vec![]]),
            (30, 0.1, vec![hint]),
            (10, 0.9, vec![vec![1, 2, 3, 4]]),
            (12, 0.7, lifetimes),
            (34, 0.7, [0, 1, 2, 9, 64, 128, 254, 255].map(|limit| vec![limit]).to_vec()),
        ]);
        let data = elements(vec![
            (20, 0.7, metas),
            (21, 0.8, vec![vec![1; 9], vec![2; 300], vec![]]),
            (22, 0.98, vec![vec![27, 1, 0]]),
            (23, 0.98, vec![vec![3; 32], vec![]]),
        ]);
        let whole =
            prop_oneof![3 => (Just(5_u64), name(), interest), 2 => (Just(6_u64), name(), data)];
        (whole, proptest::option::weighted(0.3, change()), any::<prop::sample::Index>()).prop_map(
            |((ty, name, elements), change, place)| {
                changed(ty, [vec![name], elements].concat(), change, place)
            },
        )
    }

    /// Link fields: none but a token, or one of the others.
    fn link_fields() -> impl Strategy<Value = LpFields> {
        let token = wire_bytes(0..12).prop_map(|token| PitToken::new(&token).unwrap());
        (token, 0..40_u16).prop_map(|(pit_token, which)| LpFields {
            pit_token,
            nack: (which == 0).then_some(NackReason(50)),
            congestion_mark: u64::from(which == 1),
            next_hop_face_id: (which == 2).then_some(300),
            no_cache: which == 3,
            non_discovery: which == 4,
            announcement_length: u16::from(which == 5),
        })
    }

    /// A packet described by one of the two ways.
    #[derive(Debug, PartialEq)]
    struct Described {
        descriptor: String,
        hashes: Vec<u64>,
        wire: Vec<u8>,
    }

    fn block_of(pool: &PacketPool, wire: &[u8]) -> FillBlock {
        let mut block = pool.allocate_block().unwrap();
        block.spare_mut()[..wire.len()].copy_from_slice(wire);
        block.commit(wire.len());
        block
    }

    /// The description of the last packet of a burst.
    fn described(mut burst: Burst, pool: &PacketPool) -> Described {
        let last = burst.len() - 1;
        let handle = burst.descriptor_mut(last).handle.take().unwrap();
        let wire = pool.bytes(&handle).to_vec();
        let descriptor = format!("{:?}", burst.descriptor(last));
        let hashes = burst.prefix_hashes(last).to_vec();
        burst.descriptor_mut(last).handle = Some(handle);
        burst.release(pool);
        Described { descriptor, hashes, wire }
    }

    /// A burst with one packet, whose next slot holds what an earlier packet left.
    fn used_burst(ingress: &mut Ingress, pool: &PacketPool, face: &RxFace) -> Burst {
        let name = element(7, &element(8, b"earlier", false), false);
        let hint = element(30, &name, false);
        let rest = [10, 4, 9, 9, 9, 9, 12, 1, 9, 34, 1, 9];
        let wire = element(5, &[&name[..], &hint, &rest].concat(), false);
        let mut burst = Burst::new();
        for count in [2, 1] {
            burst.release(pool);
            for _ in 0..count {
                let mut block = block_of(pool, &wire);
                let lp = LpFields::default();
                ingress.push_any(&mut burst, pool, &mut block, wire.len(), &lp, face).unwrap();
            }
        }
        assert_eq!(burst.next_packet().unwrap().descriptor.hint_length, 11);
        burst
    }

    /// Result of a packet.
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Way {
        Common(PacketKind),
        General,
        Dropped(DropReason),
    }

    /// Takes a packet in the common form, if it has that, and in general, and compares the results.
    fn way_of(wire: &[u8], default_hop_limit: u8, lp: &LpFields, is_remote: bool) -> Way {
        // The general way uses parsers that share the reader of the common form.
        let (parsed, expected) = match wire[0] {
            TYPE_DATA => (
                Data::parse(wire).map(|data| format!("{data:?}")),
                Data::parse_general(wire).map(|data| format!("{data:?}")),
            ),
            _ => (
                Interest::parse(wire).map(|interest| format!("{interest:?}")),
                Interest::parse_general(wire).map(|interest| format!("{interest:?}")),
            ),
        };
        assert_eq!(parsed.ok(), expected.ok(), "{wire:x?}");

        let pool = PacketPool::with_pages(8, PagePreference::Best, 0).unwrap();
        let hasher = NameHasher::new(*b"key of the tests");
        let mut ingress = Ingress::new(hasher, Arc::default(), 1);
        ingress.set_default_hop_limit(default_hop_limit);
        ingress.set_interest_lifetime_max(Duration::from_secs(60), Duration::from_secs(2));
        let properties = FaceProperties::point_to_point(300, Scope::NonLocal);
        let face = RxFace { is_remote, ..RxFace::new(FaceIndex::new(3, 1), &properties) };
        let mut common = used_burst(&mut ingress, &pool, &face);
        let mut block = block_of(&pool, wire);
        let pushed = ingress.push_common(&mut common, &mut block, wire.len(), lp, &face);
        if pushed.is_none() {
            let result = ingress.push(&mut common, &pool, &mut block, wire.len(), lp, &face);
            common.release(&pool);
            return result.map_or_else(Way::Dropped, |()| Way::General);
        }
        let mut general = used_burst(&mut ingress, &pool, &face);
        let mut other = block_of(&pool, wire);
        let result = ingress.push_any(&mut general, &pool, &mut other, wire.len(), lp, &face);
        assert_eq!(result, Ok(()), "{wire:x?}");
        assert!(ingress.rewrites.current().is_none(), "not rewritten");
        let way = Way::Common(general.kind(general.len() - 1));
        assert_eq!(described(common, &pool), described(general, &pool), "{wire:x?}");
        way
    }

    /// [`way_of`] a packet without link fields.
    fn way_of_bare(wire: &[u8]) -> Way {
        way_of(wire, 0, &LpFields::default(), false)
    }

    #[test]
    fn common_form_is_described_as_by_the_general_parser() {
        let case =
            (packet(), prop::sample::select(vec![0, 0, 0, 32]), link_fields(), any::<bool>());
        let [interests, data, general, dropped] = [const { Cell::new(0) }; 4];
        let mut runner = TestRunner::new(ProptestConfig {
            cases: 4000,
            failure_persistence: None,
            ..ProptestConfig::default()
        });
        let result = runner.run(&case, |(wire, default_hop_limit, lp, is_remote)| {
            let count = match way_of(&wire, default_hop_limit, &lp, is_remote) {
                Way::Common(PacketKind::Interest) => &interests,
                Way::Common(_) => &data,
                Way::General => &general,
                Way::Dropped(_) => &dropped,
            };
            count.set(count.get() + 1);
            Ok(())
        });
        result.unwrap();
        let counts = [interests, data, general, dropped].map(Cell::into_inner);
        assert!(counts.iter().all(|&count| count >= 300), "{counts:?}");
    }

    /// An Interest and a Data in the common form.
    const COMMON: [&[u8]; 2] = [
        &[5, 14, 7, 3, 8, 1, b'a', 10, 4, 1, 2, 3, 4, 34, 1, 9],
        &[6, 12, 7, 3, 8, 1, b'a', 22, 3, 27, 1, 0, 23, 0],
    ];

    #[test]
    fn outer_length_must_be_that_of_the_packet() {
        for wire in COMMON {
            assert!(matches!(way_of_bare(wire), Way::Common(_)));
            for length in (0..=255).filter(|&length| length != wire[1]) {
                let mut wire = wire.to_vec();
                wire[1] = length;
                assert_eq!(way_of_bare(&wire), Way::Dropped(DropReason::Malformed), "{wire:x?}");
            }
            for length in 1..wire.len() {
                let cut = &wire[..length];
                assert_eq!(way_of_bare(cut), Way::Dropped(DropReason::Malformed), "{cut:x?}");
            }
            for byte in 0..=255 {
                let longer = [wire, &[byte]].concat();
                assert_eq!(way_of_bare(&longer), Way::Dropped(DropReason::Malformed), "{byte}");
            }
        }
    }

    #[test]
    fn names_that_are_not_common_are_left_to_the_general_parser() {
        // The two last bytes would be a component if the length were 253 in one byte.
        let long = [&[8, 253, 0, 253][..], &[0x41; 251], &[8, 0]].concat();
        let deepest = [8, 0].repeat(63);
        let cases = [
            (&long[..], Way::General),
            (&element(1, &[7; 32], false), Way::General),
            (&[253, 1, 0, 0], Way::General),
            (&element(2, &[7; 32], false), Way::Dropped(DropReason::BadParametersDigest)),
            (&[], Way::Dropped(DropReason::EmptyName)),
            (&deepest, Way::Common(PacketKind::Interest)),
            (&[&deepest[..], &[8, 0]].concat(), Way::Dropped(DropReason::NameTooLong)),
            (&[0, 0], Way::Dropped(DropReason::Malformed)),
            (&[8, 253, 0, 1, 0], Way::Dropped(DropReason::Malformed)),
            (&[8, 1], Way::Dropped(DropReason::Malformed)),
            (&[8], Way::Dropped(DropReason::Malformed)),
        ];
        for (name, way) in cases {
            let wire =
                element(5, &[&element(7, name, false)[..], &[10, 4, 1, 2, 3, 4]].concat(), false);
            assert_eq!(way_of_bare(&wire), way, "{name:x?}");
        }
    }

    #[test]
    fn full_burst_refuses_packets_in_the_common_form() {
        let pool = PacketPool::with_pages(4, PagePreference::Best, 0).unwrap();
        let mut ingress = Ingress::new(NameHasher::new([7; 16]), Arc::default(), 1);
        let properties = FaceProperties::point_to_point(300, Scope::NonLocal);
        let face = RxFace::new(FaceIndex::new(3, 1), &properties);
        let mut burst = Burst::new();
        let mut block = block_of(&pool, &COMMON[0].repeat(BURST_SIZE + 1));
        for number in 0..=BURST_SIZE {
            let lp = LpFields::default();
            let length = COMMON[0].len();
            let result = ingress.push(&mut burst, &pool, &mut block, length, &lp, &face);
            let full = Err(DropReason::BurstFull);
            assert_eq!(result, if number < BURST_SIZE { Ok(()) } else { full });
        }
        assert!(block.filled().is_empty(), "consumed in any case");
        burst.release(&pool);
    }

    #[test]
    fn packets_of_applications_have_the_common_form() {
        let name =
            element(7, &[element(8, b"app", false), element(50, &[1, 0], false)].concat(), false);
        let nonce = element(10, &[1, 2, 3, 4], false);
        let interest = |rest: &[u8]| element(5, &[&name, rest].concat(), false);
        let signature = [element(22, &[27, 1, 0], false), element(23, &[7; 32], false)].concat();
        let data = |rest: &[u8]| element(6, &[&name, rest, &signature].concat(), false);
        let way = |wire: &[u8], default_hop_limit: u8, token: &[u8], is_remote: bool| {
            let pit_token = PitToken::new(token).unwrap();
            way_of(
                wire,
                default_hop_limit,
                &LpFields { pit_token, ..LpFields::default() },
                is_remote,
            )
        };
        let limited = interest(&[&nonce[..], &[12, 2, 15, 160, 34, 1, 9]].concat());
        let selected = interest(&[&[33, 0, 18, 0], &nonce[..], &[12, 1, 9]].concat());
        for (wire, default_hop_limit, token, is_remote) in [
            (interest(&nonce), 0, &b""[..], false),
            (limited, 7, b"token6", true),
            (selected, 0, b"", true),
        ] {
            let way = way(&wire, default_hop_limit, token, is_remote);
            assert_eq!(way, Way::Common(PacketKind::Interest));
        }
        for rest in [&element(21, &[5; 1000], false)[..], &[20, 3, 25, 1, 9, 21, 0]] {
            assert_eq!(way(&data(rest), 0, b"12345678", false), Way::Common(PacketKind::Data));
        }
        assert_eq!(way(&interest(&[]), 0, b"", false), Way::General, "without Nonce");
        assert_eq!(way(&interest(&nonce), 32, b"", false), Way::General, "without HopLimit");
        assert_eq!(way(&interest(&nonce), 0, b"123456789", false), Way::General, "a long token");
        let ended = interest(&[&nonce[..], &[34, 1, 0]].concat());
        assert_eq!(way(&ended, 0, b"", false), Way::Dropped(DropReason::HopLimitZero));
    }
}
