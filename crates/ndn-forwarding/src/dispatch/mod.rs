//! Which shard a packet goes to, and what shards say to each other.
//!
//! Nearly every packet goes to the one shard that its name belongs to, and no other hears of it.
//! What is left is the side path, in `pipelines/aside.rs`:
//!
//! - A *wide* Interest (CanBePrefix, and a name shorter than Data are dispatched by) is pending in
//!   its home shard, which publishes it and then sends it on a [`Tour`] of the other shards'
//!   Content Stores. Only when it comes back without answer is it forwarded.
//! - A Data goes to the shard of its name, and from there on a [`DataVisit`] to the shards where
//!   wide Interests are published that it matches.
//! - While an entry of the dispatch table moves from one shard to another, packets go to the
//!   earlier shard first, and on to the other with what they did not find. A Data whose PIT token
//!   names yet another shard goes there first.

mod crossing;
mod load;
mod parcel;

use std::sync::Arc;

use ndn_packet::NameRef;
use ndn_ring::PacketPool;
use ndn_table::{Ndt, TOKEN_LENGTH, Token};

use crate::descriptor::{Descriptor, Flags};
use crate::{Burst, PacketKind};

pub(crate) use crossing::Stage;
pub use crossing::{Answer, Content, Crossing, DataVisit, Tour};
pub use load::{LOAD_SAMPLE, NdtLoads, Sampled};
pub use parcel::Parcel;

/// Samples that wait until what counts them has come from memory: about a burst of packets.
const SAMPLES_AHEAD: usize = 8;

/// Finds the shard of each received packet.
#[derive(Debug)]
pub struct Dispatcher {
    /// The shard of the worker that receives.
    own: u8,
    ndt: Arc<Ndt>,
    /// That of the table.
    depth: usize,
    loads: Arc<NdtLoads>,
    /// Packets until the next one is counted.
    until_sample: u32,
    /// Those that are counted next, when what counts them has come from memory.
    sampled: [Sampled; SAMPLES_AHEAD],
    /// The one of them that is next.
    next_sampled: usize,
}

impl Dispatcher {
    /// A dispatcher by this table, for the worker of shard `own`.
    #[must_use]
    pub fn new(ndt: Arc<Ndt>, own: u8) -> Self {
        Self {
            own,
            depth: ndt.depth(),
            ndt,
            loads: Arc::default(),
            until_sample: LOAD_SAMPLE,
            sampled: [Sampled::NONE; SAMPLES_AHEAD],
            next_sampled: 0,
        }
    }

    /// What was dispatched, by entry.
    #[must_use]
    pub fn loads(&self) -> &Arc<NdtLoads> {
        &self.loads
    }

    /// Fetches from memory what dispatching the last packet of `burst` reads. To be called when it has been
    /// received: while the next ones are being parsed there is time for it, and to fetch for all of them
    /// just before they are dispatched is more than a processor does at a time.
    #[inline]
    pub fn prefetch_last(&self, burst: &Burst) {
        if let Some(descriptor) = burst.descriptors().last() {
            // Of a name that is shorter, whatever: it is rare.
            self.ndt.prefetch(burst.hash_at(descriptor, self.depth));
        }
    }

    /// Fetches from memory what dispatching the packets of `burst` reads. The table is larger than
    /// what a busy worker keeps in its cache, and packets wait for it in turn otherwise.
    #[inline]
    pub fn prefetch(&self, burst: &Burst) {
        for descriptor in burst.descriptors() {
            // Of a name that is shorter, whatever: it is rare.
            self.ndt.prefetch(burst.hash_at(descriptor, self.depth));
        }
    }

    /// The shard that packet `index` of `burst` goes to: the own one with an Interest that is
    /// [refused](Burst::refuse), and with others that of the name. Notes in the packet what that shard has
    /// to know of the others; so call it once for each packet, before it is forwarded.
    ///
    /// # Panics
    /// If there is no such packet, or it was moved to another burst.
    #[inline]
    pub fn dispatch(&mut self, burst: &mut Burst, index: usize, pool: &PacketPool) -> u8 {
        self.until_sample -= 1;
        let descriptor = burst.descriptor(index);
        let components = u16::from(descriptor.components);
        // On a Data the flag of refused Interests says something else, which is as rare.
        if !descriptor.flags.intersects(Flags::IMPLICIT_DIGEST.and(Flags::REFUSED))
            && usize::from(components) >= self.depth
            && let Some((shard, entry)) =
                self.ndt.find_settled(burst.hash_at(descriptor, self.depth))
            && (descriptor.kind == PacketKind::Interest || self.returns_to(descriptor, shard))
        {
            self.sample(entry, components);
            return shard;
        }
        self.dispatch_with_care(burst, index, pool)
    }

    /// One of the packets for which there is more to look at.
    #[cold]
    #[inline(never)]
    fn dispatch_with_care(&mut self, burst: &mut Burst, index: usize, pool: &PacketPool) -> u8 {
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
        let is_wide =
            route.is_short && is_interest && descriptor.flags.contains(Flags::CAN_BE_PREFIX);
        let mut first = route.previous;
        if first == route.shard && !is_interest {
            first = self.shard_of_token(descriptor).unwrap_or(first);
        }
        let is_earlier = first != route.shard;
        if is_wide || is_earlier {
            let flags = &mut burst.descriptor_mut(index).flags;
            *flags = flags.with(Flags::WIDE, is_wide).with(Flags::EARLIER, is_earlier);
        }
        first
    }

    /// Counts one packet in [`LOAD_SAMPLE`]: now one that was chosen some time before this.
    #[inline]
    fn sample(&mut self, entry: u16, components: u16) {
        if self.until_sample == 0 {
            self.until_sample = LOAD_SAMPLE;
            let sampled = Sampled::new(entry, components);
            self.loads.prefetch(sampled);
            let place = &mut self.sampled[self.next_sampled % SAMPLES_AHEAD];
            self.loads.note(std::mem::replace(place, sampled));
            self.next_sampled = self.next_sampled.wrapping_add(1);
        }
    }

    /// Whether no other shard has originated the token of a Data or Nack.
    #[inline(always)]
    fn returns_to(&self, descriptor: &Descriptor, shard: u8) -> bool {
        // The first comparison decides nearly always.
        Token::from_padded(descriptor.token).shard == shard
            || self.shard_of_token(descriptor).is_none_or(|first| first == shard)
    }

    /// The shard that originated a returning token, if it is one of ours. A token that is not
    /// leads a packet astray at most, and costs it one visit.
    #[inline]
    fn shard_of_token(&self, descriptor: &Descriptor) -> Option<u8> {
        let has_length = usize::from(descriptor.token_length) == TOKEN_LENGTH;
        let shard = Token::from_padded(descriptor.token).shard;
        (has_length && usize::from(shard) < self.ndt.shard_count()).then_some(shard)
    }
}
