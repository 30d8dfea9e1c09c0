//! Dispatch of packets to shards, and the messages between shards.
//!
//! Nearly every packet goes only to the shard that owns its name. The exceptions are processed in the last part of
//! `incoming.rs`:
//!
//! - A *short-prefix* Interest (CanBePrefix, and a name shorter than the dispatch depth) is pending in its home
//!   shard, which publishes it and then sends a [`CsProbe`] through the other shards' Content Stores. It is
//!   forwarded only when the probe returns without a match.
//! - A Data goes to the shard of its name, and from there on a [`DataVisit`] to the shards that have published
//!   short-prefix Interests that it matches.
//! - While an entry of the dispatch table moves, packets go to the previous owner first, and on to the new owner if
//!   they find nothing there. A Data whose PIT token names another shard goes to that shard first.

mod load;
mod message;

use std::ops::Range;
use std::sync::Arc;

use ndn_packet::NameRef;
use ndn_ring::PacketPool;
use ndn_table::{Ndt, NdtRoute, TOKEN_LENGTH, Token, UNSETTLED};

use crate::descriptor::{Descriptor, Flags};
use crate::{BURST_SIZE, Burst, PacketKind};

use load::EntryLoads;
pub use load::{LOAD_SAMPLE, NdtLoads, Sampled};
pub use message::{AddressedMessage, CsProbe, DataVisit, ProbeAnswer, ShardMessage};
pub(crate) use message::{InterestMark, Stage};

/// Samples that wait for their prefetched counters: about a burst of packets.
const SAMPLES_AHEAD: usize = 8;

/// Flags of packets that need a full lookup. On a Data, the flag of refused Interests has another meaning, which is as rare.
const UNUSUAL: Flags = Flags::IMPLICIT_DIGEST.union(Flags::REFUSED);

/// Finds the shard of each received packet.
#[derive(Debug)]
pub struct Dispatcher {
    /// The shard of the receiving worker.
    own: u8,
    ndt: Arc<Ndt>,
    /// The dispatch depth.
    depth: usize,
    loads: Arc<NdtLoads>,
    /// Packets until the next sample.
    until_sample: u32,
    samples: SamplesAhead,
}

/// Samples whose counters are being prefetched.
#[derive(Debug)]
struct SamplesAhead {
    samples: [Sampled; SAMPLES_AHEAD],
    /// The oldest of them.
    next: usize,
}

impl SamplesAhead {
    /// Prefetches the counter of `sample`, and counts the oldest one in its place.
    #[inline(always)]
    fn push(&mut self, loads: EntryLoads<'_>, sample: Sampled) {
        loads.prefetch(sample);
        let place = &mut self.samples[self.next % SAMPLES_AHEAD];
        loads.note(std::mem::replace(place, sample));
        self.next = self.next.wrapping_add(1);
    }
}

/// Packets of a burst that may have to go to another shard, with that shard, or [`UNSETTLED`] for those that need a full lookup.
#[derive(Debug)]
struct Others {
    packets: [(u8, u8); BURST_SIZE],
    count: usize,
}

impl Default for Others {
    fn default() -> Self {
        Self { packets: [(0, UNSETTLED); BURST_SIZE], count: 0 }
    }
}

impl Others {
    /// Appends the packet at `index`; each index at most once.
    #[inline(always)]
    fn push(&mut self, index: usize, shard: u8) {
        #[expect(clippy::cast_possible_truncation, reason = "below the size of a burst")]
        let position = index as u8;
        self.packets[self.count % BURST_SIZE] = (position, shard);
        self.count += 1;
    }

    /// Appends a packet that needs a full lookup. Not inlined: the compiler would merge it with the code that appends others, at the
    /// expense of those.
    #[cold]
    #[inline(never)]
    fn push_unusual(&mut self, index: usize) {
        self.push(index, UNSETTLED);
    }

    #[inline(always)]
    fn iter(&self) -> impl Iterator<Item = (usize, u8)> {
        self.packets[..self.count.min(BURST_SIZE)]
            .iter()
            .map(|&(position, shard)| (usize::from(position), shard))
    }
}

impl Dispatcher {
    /// A dispatcher for the worker of shard `own`.
    #[must_use]
    pub fn new(ndt: Arc<Ndt>, own: u8) -> Self {
        Self {
            own,
            depth: ndt.depth(),
            ndt,
            loads: Arc::default(),
            until_sample: LOAD_SAMPLE,
            samples: SamplesAhead { samples: [Sampled::NONE; SAMPLES_AHEAD], next: 0 },
        }
    }

    /// Dispatched packets, by entry.
    #[must_use]
    pub fn loads(&self) -> &Arc<NdtLoads> {
        &self.loads
    }

    /// Prefetches what dispatching the last packet of `burst` reads. Call it after each reception: the line
    /// arrives while the next packets are parsed. Prefetches for a whole burst at once are more than a
    /// processor has outstanding.
    #[inline]
    pub fn prefetch_last(&self, burst: &Burst) {
        if let Some(descriptor) = burst.descriptors().last() {
            // Any line serves for a shorter name, which is rare.
            self.ndt.prefetch(burst.hash_at(descriptor, self.depth));
        }
    }

    /// Prefetches what dispatching the packets of `burst` reads. The table does not fit into the cache of a busy
    /// worker.
    #[inline]
    pub fn prefetch(&self, burst: &Burst) {
        let hashes = burst.hashes_of_depth(self.depth);
        for descriptor in burst.descriptors() {
            // Any line serves for a shorter name, which is rare.
            self.ndt.prefetch(hashes.of(descriptor));
        }
    }

    /// The shard that packet `index` of `burst` goes to: the own one for an Interest that is
    /// [refused](Burst::refuse), otherwise the one of the name. Sets flags of the packet for that shard; call it
    /// once for each packet, before it is forwarded.
    ///
    /// # Panics
    /// If there is no such packet, or it was moved to another burst.
    pub fn dispatch(&mut self, burst: &mut Burst, index: usize, pool: &PacketPool) -> u8 {
        debug_assert!(index < burst.len(), "a packet of the burst");
        self.sample(burst, pool, index..index + 1, false);
        self.find_usual(burst, burst.descriptor(index))
            .unwrap_or_else(|| self.dispatch_slow(burst, index, pool))
    }

    /// [Dispatches](Self::dispatch) all packets of `burst`, and passes those of other shards to `send`, with their position and
    /// shard.
    #[inline]
    pub fn dispatch_all(
        &mut self,
        burst: &mut Burst,
        pool: &PacketPool,
        mut send: impl FnMut(&mut Burst, usize, u8),
    ) {
        let others = self.find_others(burst);
        self.sample(burst, pool, 0..burst.len(), others.count == 0);
        for (index, mut shard) in others.iter() {
            if shard == UNSETTLED {
                shard = self.dispatch_slow(burst, index, pool);
                if shard == self.own {
                    continue;
                }
            }
            send(burst, index, shard);
        }
    }

    /// The packets that may have to go to another shard.
    // Not inlined, nor is `sample`: the loop of each has all registers.
    #[inline(never)]
    fn find_others(&self, burst: &Burst) -> Others {
        let (own, settled, hashes) =
            (self.own, self.ndt.settled(), burst.hashes_of_depth(self.depth));
        let least = self.least_components();
        let mut others = Others::default();
        for (index, descriptor) in burst.descriptors().iter().enumerate() {
            if !is_usual(descriptor, least) {
                others.push_unusual(index);
                continue;
            }
            let shard = settled.owner(hashes.of(descriptor));
            if shard == own && self.returns_to(descriptor, own) {
                continue;
            }
            let is_known = self.returns_to(descriptor, shard);
            others.push(index, if is_known { shard } else { UNSETTLED });
        }
        others
    }

    /// Counts one packet in [`LOAD_SAMPLE`] of those at `positions`, by the entry of its name. `are_own`: all are usual, and of this
    /// shard.
    #[inline(never)]
    fn sample(&mut self, burst: &Burst, pool: &PacketPool, positions: Range<usize>, are_own: bool) {
        let (settled, hashes) = (self.ndt.settled(), burst.hashes_of_depth(self.depth));
        let (loads, least) = (self.loads.entries(), self.least_components());
        let packets = burst.descriptors().get(..positions.end).unwrap_or_default();
        let mut next = positions.start + self.until_sample as usize - 1;
        while let Some(descriptor) = packets.get(next) {
            let hash = hashes.of(descriptor);
            let is_settled =
                are_own || is_usual(descriptor, least) && settled.owner(hash) != UNSETTLED;
            let entry = if is_settled {
                Some(settled.entry(hash))
            } else {
                self.find_entry(burst, next, pool)
            };
            if let Some(entry) = entry {
                let sample = Sampled::new(entry, u16::from(descriptor.components));
                self.samples.push(loads, sample);
            }
            next += LOAD_SAMPLE as usize;
        }
        self.until_sample = u32::try_from(next + 1 - positions.end).unwrap_or(LOAD_SAMPLE);
    }

    /// The entry of a packet that is not usual; none for a refused Interest.
    #[cold]
    #[inline(never)]
    fn find_entry(&self, burst: &Burst, index: usize, pool: &PacketPool) -> Option<u16> {
        (!is_refused(burst.descriptor(index))).then(|| self.find(burst, index, pool).entry)
    }

    /// The shard of a packet in the usual case.
    #[inline(always)]
    fn find_usual(&self, burst: &Burst, descriptor: &Descriptor) -> Option<u8> {
        if !is_usual(descriptor, self.least_components()) {
            return None;
        }
        let shard = self.ndt.settled().owner(burst.hash_at(descriptor, self.depth));
        (shard != UNSETTLED && self.returns_to(descriptor, shard)).then_some(shard)
    }

    /// Number of components of a usual name.
    #[inline(always)]
    fn least_components(&self) -> u8 {
        u8::try_from(self.depth).unwrap_or(u8::MAX)
    }

    /// The slow path: refused Interests, short names, PIT tokens of other shards, and entries that move.
    #[cold]
    #[inline(never)]
    fn dispatch_slow(&mut self, burst: &mut Burst, index: usize, pool: &PacketPool) -> u8 {
        let descriptor = burst.descriptor(index);
        if is_refused(descriptor) {
            return self.own;
        }
        let is_interest = descriptor.kind == PacketKind::Interest;
        let route = self.find(burst, index, pool);
        let is_short_prefix =
            route.is_short_name && is_interest && descriptor.flags.contains(Flags::CAN_BE_PREFIX);
        let mut first = route.previous;
        if first == route.shard && !is_interest {
            first = self.shard_of_token(descriptor).unwrap_or(first);
        }
        let is_previous_owner = first != route.shard;
        if is_short_prefix || is_previous_owner {
            let flags = &mut burst.descriptor_mut(index).flags;
            *flags = flags
                .with(Flags::SHORT_PREFIX, is_short_prefix)
                .with(Flags::PREVIOUS_OWNER, is_previous_owner);
        }
        first
    }

    /// The route of a packet by its name.
    fn find(&self, burst: &Burst, index: usize, pool: &PacketPool) -> NdtRoute {
        let descriptor = burst.descriptor(index);
        let handle = descriptor.handle.as_ref().expect("a packet that is there");
        let start = usize::from(descriptor.name_offset);
        let value = &pool.bytes(handle)[start..start + usize::from(descriptor.name_length)];
        let name = NameRef::from_validated(value, u16::from(descriptor.components));
        self.ndt.find(name, burst.prefix_hashes(index))
    }

    /// Whether a packet is an Interest, or a Data or Nack whose token no other shard has originated.
    #[inline(always)]
    fn returns_to(&self, descriptor: &Descriptor, shard: u8) -> bool {
        // The first comparison is nearly always enough for a Data.
        descriptor.token[0] == shard
            || descriptor.kind == PacketKind::Interest
            || self.shard_of_token(descriptor).is_none_or(|first| first == shard)
    }

    /// The shard that originated a returning token. A foreign token costs the packet at most one visit of the
    /// wrong shard.
    #[inline]
    fn shard_of_token(&self, descriptor: &Descriptor) -> Option<u8> {
        let has_length = usize::from(descriptor.token_length) == TOKEN_LENGTH;
        let shard = Token::from_padded(descriptor.token).shard;
        (has_length && usize::from(shard) < self.ndt.shard_count()).then_some(shard)
    }
}

/// Whether the hash of the first components leads to the entry of a name, which has at least `least`.
#[inline(always)]
fn is_usual(descriptor: &Descriptor, least: u8) -> bool {
    !descriptor.flags.intersects(UNUSUAL) && descriptor.components >= least
}

/// Whether a packet is an Interest to be answered with a Nack.
fn is_refused(descriptor: &Descriptor) -> bool {
    descriptor.kind == PacketKind::Interest && descriptor.flags.contains(Flags::REFUSED)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::collections::BTreeMap;

    use ndn_packet::{
        DataBuilder, InterestBuilder, NackReason, Name, SignatureInfo, SignatureType,
    };
    use ndn_table::{FaceIndex, NDT_ENTRIES, NameHasher, PREFIX_HASHES_MAX};
    use ndn_types::Scope;

    use super::*;
    use crate::{FaceProperties, Ingress, LpFields, PitToken, RxFace};

    const OWN: u8 = 1;
    const SHARDS: u8 = 3;
    const HASHER_KEY: [u8; 16] = [7; 16];

    /// A received packet, and what is expected of its dispatch.
    struct Case {
        name: Name,
        kind: PacketKind,
        token: Vec<u8>,
        can_be_prefix: bool,
        no_cache: bool,
        is_refused: bool,
    }

    /// Names of several entries, and all reasons for a full lookup, in turn.
    fn case(number: usize) -> Case {
        let digest = format!("sha256digest={}", "ab".repeat(32));
        let id = number % 61;
        let uri = match number % 10 {
            0 => format!("/{id}"),
            1 => format!("/a/{digest}"),
            2 => "/split/0/x".to_owned(),
            3 => "/moving/0/x".to_owned(),
            _ => format!("/a/{id}/x/y"),
        };
        let (kind, token) = match number % 13 {
            0 => (PacketKind::Data, vec![OWN, 0, 0, 0, 0, 0]),
            1 => (PacketKind::Data, vec![2, 0, 0, 0, 0, 0]),
            2 => (PacketKind::Data, vec![]),
            3 => (PacketKind::Interest, vec![2, 0, 0, 0, 0, 0]),
            4 => (PacketKind::Nack, vec![2, 0, 0, 0, 0, 0]),
            5 => (PacketKind::Nack, vec![]),
            // No such shard.
            6 => (PacketKind::Data, vec![SHARDS, 0, 0, 0, 0, 0]),
            // Not a token of a shard.
            7 => (PacketKind::Data, vec![2; 8]),
            8 => (PacketKind::Data, vec![2; 9]),
            _ => (PacketKind::Interest, vec![]),
        };
        // The name of a Data does not end in its digest.
        let ends_in_digest = number % 10 == 1 && kind == PacketKind::Data;
        let kind = if ends_in_digest { PacketKind::Interest } else { kind };
        Case {
            name: Name::from_uri(&uri).unwrap(),
            kind,
            token,
            can_be_prefix: !number.is_multiple_of(3),
            no_cache: kind == PacketKind::Data && number % 7 < 3,
            is_refused: kind == PacketKind::Interest && number % 11 == 5,
        }
    }

    /// A packet that no reason sends to another shard.
    fn own_case(number: usize, ndt: &Ndt) -> Case {
        let kind = if number.is_multiple_of(2) { PacketKind::Interest } else { PacketKind::Data };
        let mut names = (number * 16..).map(|id| Name::from_uri(&format!("/own/{id}/x")).unwrap());
        let name = names.find(|name| ndt.find(name.as_ref(), &hashes(name)).shard == OWN);
        Case {
            name: name.unwrap(),
            kind,
            token: vec![],
            can_be_prefix: false,
            no_cache: false,
            is_refused: false,
        }
    }

    impl Case {
        fn receive(&self, burst: &mut Burst, ingress: &mut Ingress, pool: &PacketPool) {
            let wire = if self.kind == PacketKind::Data {
                let info = SignatureInfo::new(SignatureType::DIGEST_SHA256);
                let wire = DataBuilder::new(&self.name).to_vec(&info, 32, |_, signature| {
                    signature.fill(1);
                    Some(32)
                });
                wire.unwrap()
            } else {
                let interest = InterestBuilder::new(&self.name).can_be_prefix(self.can_be_prefix);
                interest.nonce(7).to_vec().unwrap()
            };
            let mut block = pool.allocate_block().unwrap();
            block.spare_mut()[..wire.len()].copy_from_slice(&wire);
            block.commit(wire.len());
            let fields = LpFields {
                pit_token: PitToken::new(&self.token).unwrap(),
                nack: (self.kind == PacketKind::Nack).then_some(NackReason::CONGESTION),
                no_cache: self.no_cache,
                ..Default::default()
            };
            let properties = FaceProperties::point_to_point(300, Scope::NonLocal);
            let face = RxFace::new(FaceIndex::new(1, 0), &properties);
            ingress.push(burst, pool, &mut block, wire.len(), &fields, &face).unwrap();
            pool.finish(block);
            assert_eq!(burst.kind(burst.len() - 1), self.kind);
            if self.is_refused {
                burst.refuse(burst.len() - 1);
            }
        }

        fn expected(&self, ndt: &Ndt) -> Expected {
            if self.is_refused {
                return Expected { shard: OWN, entry: None, flags: [false; 2] };
            }
            let route = ndt.find(self.name.as_ref(), &hashes(&self.name));
            let is_interest = self.kind == PacketKind::Interest;
            let by_token = Token::decode(&self.token).filter(|_| !is_interest);
            let by_token = by_token.map(|token| token.shard).filter(|&shard| shard < SHARDS);
            let is_moving = route.previous != route.shard;
            let shard = by_token.filter(|_| !is_moving).unwrap_or(route.previous);
            let flags =
                [route.is_short_name && is_interest && self.can_be_prefix, shard != route.shard];
            Expected { shard, entry: Some(route.entry), flags }
        }
    }

    struct Expected {
        shard: u8,
        /// The entry that is counted if this packet is a sample.
        entry: Option<u16>,
        /// Whether it is a short prefix, and whether it goes to a shard that does not own its name.
        flags: [bool; 2],
    }

    fn hashes(name: &Name) -> Vec<u64> {
        let mut hashes = [0; PREFIX_HASHES_MAX];
        let count = NameHasher::new(HASHER_KEY).hash_prefixes(name.as_ref(), &mut hashes).unwrap();
        hashes[..count].to_vec()
    }

    /// A table with an entry that was split and one that moves.
    fn table() -> Arc<Ndt> {
        let table = Ndt::new(usize::from(SHARDS), 2);
        let first = |uri| {
            let name = Name::from_uri(uri).unwrap();
            table.first_entry(name.as_ref(), &hashes(&name))
        };
        table.split_entry(first("/split/0/x"), 3).unwrap();
        table.settle(first("/split/0/x"));
        let moving = first("/moving/0/x");
        table.move_entry(moving, (table.get(moving).unwrap().shard + 1) % SHARDS).unwrap();
        Arc::new(table)
    }

    #[test]
    fn packets_of_a_burst_are_sent_and_sampled_as_one_by_one() {
        let (table, pool) = (table(), PacketPool::new(256).unwrap());
        let mut ingress = Ingress::new(NameHasher::new(HASHER_KEY), Arc::default(), 1);
        let mut of_bursts = Dispatcher::new(Arc::clone(&table), OWN);
        let mut of_packets = Dispatcher::new(Arc::clone(&table), OWN);
        let (mut number, mut samples, mut bursts_without_others) = (0, Vec::new(), 0);
        let lengths = [64, 1, 5, 6, 7, 8, 13, 64, 2, 63];
        for round in 0..100 {
            // All lengths with both, in turn.
            let all_are_own = round / lengths.len() % 2 == 1;
            let (mut burst, mut same) = (Burst::new(), Burst::new());
            let mut expected = Vec::new();
            for _ in 0..lengths[round % lengths.len()] {
                let case = if all_are_own { own_case(number, &table) } else { case(number) };
                case.receive(&mut burst, &mut ingress, &pool);
                case.receive(&mut same, &mut ingress, &pool);
                let of_case = case.expected(&table);
                number += 1;
                if number.is_multiple_of(LOAD_SAMPLE as usize) {
                    let components = usize::from(case.name.as_ref().component_count());
                    samples.extend(of_case.entry.map(|entry| (entry, components)));
                }
                expected.push(of_case);
            }
            bursts_without_others += usize::from(of_bursts.find_others(&burst).count == 0);
            let mut sent = Vec::new();
            of_bursts.dispatch_all(&mut burst, &pool, |_, index, shard| sent.push((index, shard)));
            for (index, expected) in expected.iter().enumerate() {
                assert_eq!(of_packets.dispatch(&mut same, index, &pool), expected.shard);
                for burst in [&burst, &same] {
                    let flags = burst.descriptor(index).flags;
                    let found =
                        [Flags::SHORT_PREFIX, Flags::PREVIOUS_OWNER].map(|f| flags.contains(f));
                    assert_eq!(found, expected.flags, "{number}, {index}");
                }
            }
            let others =
                expected.iter().enumerate().map(|(index, expected)| (index, expected.shard));
            let others: Vec<_> = others.filter(|&(_, shard)| shard != OWN).collect();
            assert_eq!(sent, others);
            burst.release(&pool);
            same.release(&pool);
        }
        assert!(bursts_without_others >= 50);
        // The last ones wait for their counters.
        samples.truncate(samples.len() - SAMPLES_AHEAD);
        let mut counts = BTreeMap::new();
        for (entry, components) in samples {
            let (count, last) = counts.entry(usize::from(entry)).or_insert((0, 0));
            (*count, *last) = (*count + 1, components);
        }
        assert!(counts.len() > 20, "samples of many entries");
        for dispatcher in [of_bursts, of_packets] {
            let loads = dispatcher.loads();
            for entry in 0..NDT_ENTRIES {
                let expected = counts.get(&entry).copied().unwrap_or_default();
                assert_eq!((loads.count(entry), loads.components(entry)), expected, "{entry}");
            }
        }
    }
}
