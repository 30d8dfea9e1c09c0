//! One packet on its way to another shard.

use ndn_ring::{PacketHandle, PacketPool, prefetch_slice};
use ndn_table::{NameHasher, PREFIX_HASHES_MAX};

use crate::burst::NextPacket;
use crate::descriptor::{Descriptor, Flags};
use crate::packet::RxPacket;
use crate::{Burst, PacketKind, PitToken};

/// Prefix hashes that travel with a packet, beside those of the empty prefix, which everybody knows,
/// and of the whole name, which is in the descriptor. Those of names with more than one component
/// more are computed again where the packet arrives.
const HASHES: usize = 5;

/// Components of a name whose prefix hashes all travel.
const COMPONENTS_MAX: usize = HASHES + 1;

/// A received packet outside of any burst: its handle, its descriptor, and what lay beside it.
///
/// Like a handle, it has to be [released](Self::release) or put into a burst.
#[derive(Debug)]
#[must_use = "a parcel holds a packet"]
pub struct Parcel(Inner);

#[derive(Debug)]
enum Inner {
    /// Nearly all.
    Plain(Plain),
    /// With a PIT token that is longer than fits the descriptor.
    LongToken(Box<(Plain, PitToken)>),
}

#[derive(Debug)]
struct Plain {
    /// Its handle is there, until it is put into a burst.
    descriptor: Descriptor,
    /// Of the prefixes of one component and more; what is beyond those of the name means nothing.
    hashes: [u64; HASHES],
}

/// With what says which message it is, and when it was sent, it fills two cache lines.
const _: () = assert!(size_of::<Parcel>() == 104);

impl Parcel {
    #[inline(always)]
    fn new(descriptor: Descriptor, hashes: [u64; HASHES], token: &[u8]) -> Self {
        let is_long = token.len() > descriptor.token.len();
        let plain = Plain { descriptor, hashes };
        Self(if is_long { with_long_token(plain, token) } else { Inner::Plain(plain) })
    }

    /// A packet of the burst that is being forwarded, once more.
    pub(crate) fn copy_of(rx: &RxPacket<'_>) -> Self {
        let handle = rx.descriptor.handle.as_ref().map(PacketHandle::retain_away);
        let mut hashes = [0; HASHES];
        hashes.iter_mut().zip(&rx.hashes()[1..]).for_each(|(place, &hash)| *place = hash);
        Self::new(Descriptor { handle, ..*rx.descriptor }, hashes, rx.token)
    }

    #[inline]
    fn plain(&self) -> &Plain {
        match &self.0 {
            Inner::Plain(plain) => plain,
            Inner::LongToken(long) => &long.0,
        }
    }

    #[inline]
    fn plain_mut(&mut self) -> &mut Plain {
        match &mut self.0 {
            Inner::Plain(plain) => plain,
            Inner::LongToken(long) => &mut long.0,
        }
    }

    /// The same, without these flags.
    pub(crate) fn without(mut self, flags: Flags) -> Self {
        let descriptor = &mut self.plain_mut().descriptor;
        descriptor.flags = descriptor.flags.without(flags);
        self
    }

    /// What the packet is.
    #[inline]
    #[must_use]
    pub fn kind(&self) -> PacketKind {
        self.plain().descriptor.kind
    }

    /// Gives the packet a congestion mark, if it has none.
    pub fn mark_congestion(&mut self) {
        self.plain_mut().descriptor.mark_congestion();
    }

    /// Has an Interest answered with a Nack of reason Congestion, and nothing else.
    pub fn refuse(&mut self) {
        self.plain_mut().descriptor.refuse();
    }

    /// The packet; `None` once it was put into a burst.
    #[must_use]
    pub fn handle(&self) -> Option<&PacketHandle> {
        self.plain().descriptor.handle.as_ref()
    }

    /// Gives the packet up. A parcel that was put into a burst holds none.
    pub fn release(&mut self, pool: &PacketPool) {
        self.plain_mut()
            .descriptor
            .handle
            .take()
            .into_iter()
            .for_each(|handle| pool.release(handle));
    }
}

#[cold]
fn with_long_token(plain: Plain, token: &[u8]) -> Inner {
    Inner::LongToken(Box::new((plain, PitToken::new(token).unwrap_or(PitToken::NONE))))
}

impl Burst {
    /// Takes packet `index` out of the burst, to be sent to another shard.
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

    /// Adds a packet that came from another shard; false, and it stays where it is, if the burst is full.
    #[inline]
    pub fn push_parcel(
        &mut self,
        parcel: &mut Parcel,
        pool: &PacketPool,
        hasher: &NameHasher,
    ) -> bool {
        let Some(next) = self.next_packet() else { return false };
        let NextPacket { descriptor, prefix_hashes, long_token } = next;
        if let Inner::LongToken(long) = &parcel.0 {
            *long_token = long.1;
        }
        let Plain { descriptor: sent, hashes } = parcel.plain_mut();
        let Some(handle) = sent.handle.take() else { return true };
        let components = usize::from(sent.components);
        let start = usize::from(sent.name_offset);
        let end = start + usize::from(sent.name_length);
        // The name is in the cache of the worker that has received it.
        let wire = pool.bytes(&handle);
        prefetch_slice(wire, start);
        prefetch_slice(wire, end);
        *descriptor = Descriptor { handle: None, ..*sent };
        if components <= COMPONENTS_MAX
            && let Some(places) = prefix_hashes.first_chunk_mut::<{ COMPONENTS_MAX + 1 }>()
        {
            places[0] = hasher.hash_empty();
            places[1..=HASHES].copy_from_slice(hashes);
            places[components] = descriptor.name_hash;
        } else {
            let name = &wire[start..end];
            let hashed = hasher.hash_value_prefixes(name, &mut prefix_hashes[..PREFIX_HASHES_MAX]);
            debug_assert_eq!(hashed, Some(components + 1), "the name was hashed before");
        }
        self.append(handle);
        true
    }
}
