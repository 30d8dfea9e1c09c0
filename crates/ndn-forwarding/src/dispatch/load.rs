//! How much traffic the entries of the dispatch table have.

use std::sync::atomic::{AtomicU64, Ordering};

use ndn_ring::prefetch_slice;
use ndn_table::NDT_ENTRIES;

/// One packet in so many is counted. A prime, so that no pattern of traffic keeps step with it.
pub const LOAD_SAMPLE: u32 = 7;

/// What one worker has dispatched, by entry. Written by that worker alone, and counted by sample.
#[derive(Debug)]
pub struct NdtLoads(Box<[EntryLoad]>);

/// The count in the lower half, and the components of the name that was counted last in the upper one.
#[derive(Debug, Default)]
struct EntryLoad(AtomicU64);

/// A packet that was chosen to be counted: its entry, and the components of its name.
#[derive(Debug, Clone, Copy)]
pub struct Sampled {
    entry: usize,
    components: u16,
}

impl Sampled {
    /// No packet: what counts it is behind those of all entries.
    pub(super) const NONE: Self = Self { entry: NDT_ENTRIES, components: 0 };

    /// A packet of this entry, whose name has so many components.
    #[inline]
    #[must_use]
    pub fn new(entry: u16, components: u16) -> Self {
        Self { entry: usize::from(entry), components }
    }
}

impl Default for NdtLoads {
    fn default() -> Self {
        Self((0..=NDT_ENTRIES).map(|_| EntryLoad::default()).collect())
    }
}

impl NdtLoads {
    /// Counts a packet of an entry.
    #[inline]
    pub fn note(&self, sampled: Sampled) {
        let EntryLoad(load) = &self.0[sampled.entry];
        let count = lower_half(load.load(Ordering::Relaxed)).wrapping_add(1);
        load.store(u64::from(sampled.components) << 32 | u64::from(count), Ordering::Relaxed);
    }

    /// Fetches from memory what counting a packet of an entry writes.
    #[inline]
    pub fn prefetch(&self, sampled: Sampled) {
        prefetch_slice(&self.0, sampled.entry);
    }

    /// Packets counted of an entry so far; starts over after 2^32.
    #[must_use]
    pub fn count(&self, entry: usize) -> u32 {
        lower_half(self.word(entry))
    }

    /// Components of the name that was counted last.
    #[must_use]
    pub fn components(&self, entry: usize) -> usize {
        (self.word(entry) >> 32) as usize
    }

    fn word(&self, entry: usize) -> u64 {
        self.0.get(entry).map_or(0, |EntryLoad(load)| load.load(Ordering::Relaxed))
    }
}

#[inline]
fn lower_half(word: u64) -> u32 {
    let [a, b, c, d, ..] = word.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}
