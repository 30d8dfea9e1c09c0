//! One packet on its way to another shard.

use ndn_ring::{PacketHandle, PacketPool, prefetch_slice};
use ndn_table::{NameHasher, PREFIX_HASHES_MAX};

use crate::burst::NextPacket;
use crate::descriptor::{Descriptor, Flags};
use crate::packet::RxPacket;
use crate::{Burst, PacketKind, PitToken};

/// Prefix hashes that travel with a packet. The others, of names with more components, are
/// computed again where it arrives.
const HASHES: usize = 16;

/// A received packet outside of any burst: its handle, its descriptor, and what lay beside it.
///
/// Like a handle, it has to be [released](Self::release) or put into a burst.
#[derive(Debug)]
#[must_use = "a parcel holds a packet"]
pub struct Parcel {
    /// Its handle is there.
    descriptor: Descriptor,
    hashes: [u64; HASHES],
    long_token: PitToken,
}

const _: () = assert!(size_of::<Parcel>() == 256);

impl Parcel {
    fn new(descriptor: Descriptor, hashes: &[u64], token: &[u8]) -> Self {
        let mut parcel = Self { descriptor, hashes: [0; HASHES], long_token: PitToken::NONE };
        let count = hashes.len().min(HASHES);
        parcel.hashes[..count].copy_from_slice(&hashes[..count]);
        if token.len() > parcel.descriptor.token.len() {
            parcel.long_token = PitToken::new(token).unwrap_or(PitToken::NONE);
        }
        parcel
    }

    /// A packet of the burst that is being forwarded, once more.
    pub(crate) fn copy_of(rx: &RxPacket<'_>) -> Self {
        let handle = rx.descriptor.handle.as_ref().map(PacketHandle::retain_away);
        Self::new(Descriptor { handle, ..*rx.descriptor }, rx.hashes(), rx.token)
    }

    /// The same, without these flags.
    pub(crate) fn without(mut self, flags: Flags) -> Self {
        self.descriptor.flags = self.descriptor.flags.without(flags);
        self
    }

    /// What the packet is.
    #[must_use]
    pub fn kind(&self) -> PacketKind {
        self.descriptor.kind
    }

    /// Gives the packet a congestion mark, if it has none.
    pub fn mark_congestion(&mut self) {
        self.descriptor.mark_congestion();
    }

    /// Has an Interest answered with a Nack of reason Congestion, and nothing else.
    pub fn refuse(&mut self) {
        self.descriptor.refuse();
    }

    /// The packet.
    #[must_use]
    pub fn handle(&self) -> Option<&PacketHandle> {
        self.descriptor.handle.as_ref()
    }

    /// Gives the packet up.
    pub fn release(self, pool: &PacketPool) {
        self.descriptor.handle.into_iter().for_each(|handle| pool.release(handle));
    }
}

impl Burst {
    /// Takes packet `index` out of the burst, to be sent to another shard.
    ///
    /// # Panics
    /// If there is no such packet, or it was taken before.
    pub fn take_parcel(&mut self, index: usize) -> Parcel {
        let handle = self.descriptor_mut(index).handle.take();
        assert!(handle.is_some(), "a packet is taken once");
        let descriptor = Descriptor { handle, ..*self.descriptor(index) };
        Parcel::new(descriptor, self.prefix_hashes(index), self.pit_token(index))
    }

    /// Adds a packet that came from another shard.
    ///
    /// # Errors
    /// The parcel, if the burst is full.
    #[expect(clippy::result_large_err, reason = "it goes back to where it came from")]
    pub fn push_parcel(
        &mut self,
        mut parcel: Parcel,
        pool: &PacketPool,
        hasher: &NameHasher,
    ) -> Result<(), Parcel> {
        let Some(next) = self.next_packet() else { return Err(parcel) };
        let NextPacket { descriptor, prefix_hashes, long_token } = next;
        let Some(handle) = parcel.descriptor.handle.take() else { return Ok(()) };
        let count = usize::from(parcel.descriptor.components) + 1;
        let start = usize::from(parcel.descriptor.name_offset);
        let end = start + usize::from(parcel.descriptor.name_length);
        // The name is in the cache of the worker that has received it.
        let wire = pool.bytes(&handle);
        prefetch_slice(wire, start);
        prefetch_slice(wire, end);
        if let Some(hashes) = parcel.hashes.get(..count) {
            prefix_hashes[..count].copy_from_slice(hashes);
        } else {
            let name = &wire[start..end];
            let hashed = hasher.hash_value_prefixes(name, &mut prefix_hashes[..PREFIX_HASHES_MAX]);
            debug_assert_eq!(hashed, Some(count), "the name was hashed before");
        }
        if usize::from(parcel.descriptor.token_length) > parcel.descriptor.token.len() {
            *long_token = parcel.long_token;
        }
        *descriptor = Descriptor { handle: None, ..parcel.descriptor };
        self.append(handle);
        Ok(())
    }
}
