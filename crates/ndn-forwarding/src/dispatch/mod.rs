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

use std::sync::Arc;

use ndn_packet::NameRef;
use ndn_ring::PacketPool;
use ndn_table::{Ndt, TOKEN_LENGTH, Token};

use crate::descriptor::{Descriptor, Flags};
use crate::{Burst, PacketKind};

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
        for descriptor in burst.descriptors() {
            // Any line serves for a shorter name, which is rare.
            self.ndt.prefetch(burst.hash_at(descriptor, self.depth));
        }
    }

    /// The shard that packet `index` of `burst` goes to: the own one for an Interest that is
    /// [refused](Burst::refuse), otherwise the one of the name. Sets flags of the packet for that shard; call it
    /// once for each packet, before it is forwarded.
    ///
    /// # Panics
    /// If there is no such packet, or it was moved to another burst.
    #[inline]
    pub fn dispatch(&mut self, burst: &mut Burst, index: usize, pool: &PacketPool) -> u8 {
        self.until_sample -= 1;
        let descriptor = burst.descriptor(index);
        if let Some((shard, entry)) = self.find_usual(burst, descriptor) {
            self.sample(entry, u16::from(descriptor.components));
            return shard;
        }
        self.dispatch_slow(burst, index, pool)
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
        // The position of the next sample; it may lie in a later burst.
        let mut sample = self.until_sample as usize - 1;
        let mut index = 0;
        loop {
            index = self.pass_own(burst, index);
            sample = self.sample_own(burst, sample, index);
            if index == burst.len() {
                break;
            }
            let descriptor = burst.descriptor(index);
            let to = match self.find_usual(burst, descriptor) {
                Some((shard, entry)) => {
                    if index == sample {
                        self.take_sample(entry, u16::from(descriptor.components));
                        sample = index + self.until_sample as usize;
                    }
                    shard
                }
                None => {
                    self.until_sample = u32::try_from(sample - index).unwrap_or(LOAD_SAMPLE);
                    let to = self.dispatch_slow(burst, index, pool);
                    sample = index + self.until_sample as usize;
                    to
                }
            };
            if to != self.own {
                send(burst, index, to);
            }
            index += 1;
        }
        self.until_sample = u32::try_from(sample + 1 - burst.len()).unwrap_or(LOAD_SAMPLE);
    }

    /// The first packet from `start` on that may have to go to another shard; the length of the burst if all are of this one.
    // A loop of its own, which changes nothing: what it needs stays in registers.
    #[inline(always)]
    fn pass_own(&self, burst: &Burst, start: usize) -> usize {
        let (own, depth, settled) = (self.own, self.depth, self.ndt.settled());
        let least = u8::try_from(depth).unwrap_or(u8::MAX);
        let is_own = |descriptor: &Descriptor| {
            !descriptor.flags.intersects(UNUSUAL)
                && descriptor.components >= least
                && settled.belongs_to(burst.hash_at(descriptor, depth), own)
                && self.returns_to(descriptor, own)
        };
        let mut rest = burst.descriptors().get(start..).unwrap_or_default();
        while let [first, others @ ..] = rest
            && is_own(first)
        {
            rest = others;
        }
        burst.len() - rest.len()
    }

    /// Counts one packet in [`LOAD_SAMPLE`] from position `sample` on, before `end`; all are of this shard. Returns the position of the
    /// next sample.
    #[inline(always)]
    fn sample_own(&mut self, burst: &Burst, mut sample: usize, end: usize) -> usize {
        let Self { depth, ndt, loads, samples, .. } = self;
        let (settled, depth, loads) = (ndt.settled(), *depth, loads.entries());
        let own = burst.descriptors().get(..end).unwrap_or_default();
        while let Some(descriptor) = own.get(sample) {
            let entry = settled.entry(burst.hash_at(descriptor, depth));
            samples.push(loads, Sampled::new(entry, u16::from(descriptor.components)));
            sample += LOAD_SAMPLE as usize;
        }
        sample
    }

    /// The shard and the entry of a packet in the usual case.
    #[inline(always)]
    fn find_usual(&self, burst: &Burst, descriptor: &Descriptor) -> Option<(u8, u16)> {
        if descriptor.flags.intersects(UNUSUAL) || usize::from(descriptor.components) < self.depth {
            return None;
        }
        let (shard, entry) = self.ndt.find_settled(burst.hash_at(descriptor, self.depth))?;
        self.returns_to(descriptor, shard).then_some((shard, entry))
    }

    /// The slow path: refused Interests, short names, PIT tokens of other shards, and entries that move.
    #[cold]
    #[inline(never)]
    fn dispatch_slow(&mut self, burst: &mut Burst, index: usize, pool: &PacketPool) -> u8 {
        let descriptor = burst.descriptor(index);
        let is_interest = descriptor.kind == PacketKind::Interest;
        if is_interest && descriptor.flags.contains(Flags::REFUSED) {
            self.until_sample += 1;
            return self.own;
        }
        let handle = descriptor.handle.as_ref().expect("a packet that is there");
        let start = usize::from(descriptor.name_offset);
        let value = &pool.bytes(handle)[start..start + usize::from(descriptor.name_length)];
        let name = NameRef::from_validated(value, u16::from(descriptor.components));
        let route = self.ndt.find(name, burst.prefix_hashes(index));
        self.sample(route.entry, u16::from(descriptor.components));
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

    /// Counts one packet in [`LOAD_SAMPLE`].
    #[inline]
    fn sample(&mut self, entry: u16, components: u16) {
        if self.until_sample == 0 {
            self.take_sample(entry, components);
        }
    }

    /// Counts a packet, with a delay for its prefetched counter, and begins to wait for the next sample.
    #[inline]
    fn take_sample(&mut self, entry: u16, components: u16) {
        self.until_sample = LOAD_SAMPLE;
        self.samples.push(self.loads.entries(), Sampled::new(entry, components));
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
