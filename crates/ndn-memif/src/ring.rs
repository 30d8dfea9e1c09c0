//! A ring of descriptors in shared memory (`memif_ring_t`, `memif_desc_t`).
//!
//! Three cache lines and then the descriptors: the first line begins with a constant, flags and the
//! *head*, the second with the *tail*. Head and tail count descriptors and wrap at 16 bits. In C2S rings,
//! the client advances the head past frames, and the server the tail past those that it has read. In S2C
//! rings, the client advances the head past empty buffers, and the server the tail past those that it has
//! filled.

use std::sync::atomic::{AtomicU16, Ordering};

use ndn_sys::shared_memory::OutOfRange;

use crate::limits::LOG2_RING_SIZE_MAX;
use crate::regions::Regions;

/// The first word of every ring.
pub(crate) const COOKIE: u32 = 0x3E3_1F20;
/// The receiver wants no interrupts.
const FLAG_MASK_INTERRUPT: u16 = 1;
/// The frame continues in the next descriptor.
pub(crate) const FLAG_NEXT: u16 = 1;

const AT_FLAGS: usize = 4;
const AT_HEAD: usize = 6;
const AT_TAIL: usize = 64;
const AT_DESCRIPTORS: usize = 128;
const DESCRIPTOR_LENGTH: usize = 16;

/// A violation of the protocol by the peer: the connection cannot be used any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Head and tail are further apart than the ring is long, or a position moved backwards.
    #[error("the positions in a ring of the peer make no sense")]
    Positions,
    /// A buffer to be filled is outside of the shared memory, or empty.
    #[error("a descriptor of the peer leads nowhere")]
    Descriptor,
    /// A frame has more buffers than the limit.
    #[error("a frame of the peer has too many pieces")]
    Chain,
    /// A ring is outside of the shared memory.
    #[error("a ring lies outside of the shared memory")]
    Layout,
    /// The kernel has refused to raise an interrupt.
    #[error("the peer cannot be woken")]
    Interrupt,
}

impl From<OutOfRange> for Fault {
    fn from(OutOfRange: OutOfRange) -> Self {
        Self::Layout
    }
}

/// A copy of one descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub(crate) flags: u16,
    pub(crate) region: u16,
    pub(crate) length: u32,
    pub(crate) offset: u32,
}

/// The position of a ring in the shared memory.
#[derive(Debug, Clone)]
pub(crate) struct Ring {
    regions: Regions,
    region: u16,
    offset: usize,
    log2_size: u8,
}

/// Bytes of a ring of this size.
pub(crate) const fn ring_length(log2_size: u8) -> usize {
    AT_DESCRIPTORS + (DESCRIPTOR_LENGTH << log2_size)
}

impl Ring {
    /// Checks that the ring is inside its region.
    pub(crate) fn new(
        regions: Regions,
        region: u16,
        offset: u32,
        log2_size: u8,
    ) -> Result<Self, Fault> {
        let offset = usize::try_from(offset).map_err(|_| Fault::Layout)?;
        let end = offset.checked_add(ring_length(log2_size.min(LOG2_RING_SIZE_MAX)));
        let fits = end.is_some_and(|end| regions.region(region).is_ok_and(|own| end <= own.len()));
        if log2_size > LOG2_RING_SIZE_MAX || !fits || !offset.is_multiple_of(8) {
            return Err(Fault::Layout);
        }
        Ok(Self { regions, region, offset, log2_size })
    }

    /// Initialises an empty ring.
    pub(crate) fn initialize(&self) -> Result<(), Fault> {
        self.flags()?.store(0, Ordering::Relaxed);
        self.head()?.store(0, Ordering::Relaxed);
        self.tail()?.store(0, Ordering::Relaxed);
        let region = self.regions.region(self.region)?;
        region.word32(self.offset)?.store(COOKIE, Ordering::Release);
        Ok(())
    }

    /// Whether it starts with the cookie.
    pub(crate) fn has_cookie(&self) -> Result<bool, Fault> {
        let word = self.regions.region(self.region)?.word32(self.offset)?;
        Ok(word.load(Ordering::Acquire) == COOKIE)
    }

    /// Number of descriptors.
    #[inline]
    pub(crate) fn size(&self) -> u16 {
        1 << self.log2_size
    }

    pub(crate) fn regions(&self) -> &Regions {
        &self.regions
    }

    #[inline]
    fn word16(&self, at: usize) -> Result<&AtomicU16, Fault> {
        Ok(self.regions.region(self.region)?.word16(self.offset + at)?)
    }

    #[inline]
    pub(crate) fn head(&self) -> Result<&AtomicU16, Fault> {
        self.word16(AT_HEAD)
    }

    #[inline]
    pub(crate) fn tail(&self) -> Result<&AtomicU16, Fault> {
        self.word16(AT_TAIL)
    }

    #[inline]
    fn flags(&self) -> Result<&AtomicU16, Fault> {
        self.word16(AT_FLAGS)
    }

    /// Whether the receiver wants interrupts.
    #[inline]
    pub(crate) fn wants_interrupts(&self) -> Result<bool, Fault> {
        Ok(self.flags()?.load(Ordering::Relaxed) & FLAG_MASK_INTERRUPT == 0)
    }

    /// Sets whether the receiver wants interrupts.
    pub(crate) fn set_interrupts(&self, requested: bool) -> Result<(), Fault> {
        let flags = if requested { 0 } else { FLAG_MASK_INTERRUPT };
        self.flags()?.store(flags, Ordering::Relaxed);
        Ok(())
    }

    #[inline]
    fn descriptor_at(&self, position: u16) -> usize {
        let slot = usize::from(position & (self.size() - 1));
        self.offset + AT_DESCRIPTORS + slot * DESCRIPTOR_LENGTH
    }

    /// The descriptor at `position`: each of its words is read once.
    #[inline]
    pub(crate) fn descriptor(&self, position: u16) -> Result<Descriptor, Fault> {
        let (region, at) = (self.regions.region(self.region)?, self.descriptor_at(position));
        let [a, b, c, d, e, f, g, h] = region.word64(at)?.load(Ordering::Relaxed).to_ne_bytes();
        let [i, j, k, l, ..] = region.word64(at + 8)?.load(Ordering::Relaxed).to_ne_bytes();
        Ok(Descriptor {
            flags: u16::from_ne_bytes([a, b]),
            region: u16::from_ne_bytes([c, d]),
            length: u32::from_ne_bytes([e, f, g, h]),
            offset: u32::from_ne_bytes([i, j, k, l]),
        })
    }

    /// Writes the descriptor at `position`.
    #[inline]
    pub(crate) fn set_descriptor(
        &self,
        position: u16,
        descriptor: Descriptor,
    ) -> Result<(), Fault> {
        let (own, at) = (self.regions.region(self.region)?, self.descriptor_at(position));
        let Descriptor { flags, region, length, offset } = descriptor;
        let ([a, b], [c, d], [e, f, g, h]) =
            (flags.to_ne_bytes(), region.to_ne_bytes(), length.to_ne_bytes());
        let first = u64::from_ne_bytes([a, b, c, d, e, f, g, h]);
        let [i, j, k, l] = offset.to_ne_bytes();
        let second = u64::from_ne_bytes([i, j, k, l, 0, 0, 0, 0]);
        own.word64(at)?.store(first, Ordering::Relaxed);
        own.word64(at + 8)?.store(second, Ordering::Relaxed);
        Ok(())
    }
}

/// The buffers of a ring, allocated by the client: one for each descriptor, consecutively.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Buffers {
    pub(crate) region: u16,
    pub(crate) start: u32,
    pub(crate) length: u32,
}

impl Buffers {
    /// The descriptor of the buffer at `position` of a ring of `size`, for `length` bytes.
    #[inline]
    pub(crate) fn descriptor(&self, position: u16, size: u16, length: u32) -> Descriptor {
        let slot = u32::from(position & (size - 1));
        let offset = self.start + slot * self.length;
        Descriptor { flags: 0, region: self.region, length, offset }
    }
}
