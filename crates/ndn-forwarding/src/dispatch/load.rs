//! The load of the entries of the dispatch table.

use std::sync::atomic::{AtomicU64, Ordering};

use ndn_ring::prefetch_slice;
use ndn_table::NDT_ENTRIES;

/// One packet of this number is counted. It is a prime, so that no traffic pattern is in phase with it.
pub const LOAD_SAMPLE: u32 = 7;

/// Sampled count of the packets that one worker has dispatched, by entry. Only that worker writes it.
#[derive(Debug)]
pub struct NdtLoads(Box<[EntryLoad]>);

/// The count in the lower half, the components of the last counted name in the upper half.
#[derive(Debug, Default)]
struct EntryLoad(AtomicU64);

/// A sampled packet: its entry, and the number of components of its name.
#[derive(Debug, Clone, Copy)]
pub struct Sampled {
    entry: usize,
    components: u16,
}

impl Sampled {
    /// No packet: its counter is behind those of all entries.
    pub(super) const NONE: Self = Self { entry: NDT_ENTRIES, components: 0 };

    /// A packet of this entry, whose name has `components` components.
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

/// The counters of all entries, for several samples: their address and number are read once.
#[derive(Debug, Clone, Copy)]
pub(super) struct EntryLoads<'a>(&'a [EntryLoad]);

impl EntryLoads<'_> {
    /// Counts a sample.
    #[inline(always)]
    pub(super) fn note(self, sampled: Sampled) {
        let EntryLoad(load) = &self.0[sampled.entry];
        let count = lower_half(load.load(Ordering::Relaxed)).wrapping_add(1);
        load.store(u64::from(sampled.components) << 32 | u64::from(count), Ordering::Relaxed);
    }

    /// Prefetches the counter of a sample.
    #[inline(always)]
    pub(super) fn prefetch(self, sampled: Sampled) {
        prefetch_slice(self.0, sampled.entry);
    }
}

impl NdtLoads {
    /// Counts a sample.
    pub fn note(&self, sampled: Sampled) {
        self.entries().note(sampled);
    }

    #[inline(always)]
    pub(super) fn entries(&self) -> EntryLoads<'_> {
        EntryLoads(&self.0)
    }

    /// Samples of an entry, modulo 2^32.
    #[must_use]
    pub fn count(&self, entry: usize) -> u32 {
        lower_half(self.word(entry))
    }

    /// Components of the last counted name of an entry.
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
