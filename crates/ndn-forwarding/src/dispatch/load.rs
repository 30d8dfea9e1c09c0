//! How much traffic the entries of the dispatch table have.

use std::sync::atomic::{AtomicU32, Ordering};

use ndn_ring::prefetch_slice;
use ndn_table::NDT_ENTRIES;

/// One packet in so many is counted. A prime, so that no pattern of traffic keeps step with it.
pub const LOAD_SAMPLE: u32 = 7;

/// What one worker has dispatched, by entry. Written by that worker alone, and counted by sample.
#[derive(Debug)]
pub struct NdtLoads(Box<[EntryLoad]>);

#[derive(Debug, Default)]
struct EntryLoad {
    count: AtomicU32,
    /// Components of the name that was counted last.
    components: AtomicU32,
}

impl Default for NdtLoads {
    fn default() -> Self {
        Self((0..NDT_ENTRIES).map(|_| EntryLoad::default()).collect())
    }
}

impl NdtLoads {
    /// Counts a packet of an entry.
    #[inline]
    pub fn note(&self, entry: u16, components: usize) {
        let load = &self.0[usize::from(entry)];
        load.count.store(load.count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        load.components.store(u32::try_from(components).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// Fetches from memory what counting a packet of an entry writes.
    #[inline]
    pub fn prefetch(&self, entry: u16) {
        prefetch_slice(&self.0, usize::from(entry));
    }

    /// Packets counted of an entry so far; starts over after 2^32.
    #[must_use]
    pub fn count(&self, entry: usize) -> u32 {
        self.0.get(entry).map_or(0, |load| load.count.load(Ordering::Relaxed))
    }

    /// Components of the name that was counted last.
    #[must_use]
    pub fn components(&self, entry: usize) -> usize {
        self.0.get(entry).map_or(0, |load| load.components.load(Ordering::Relaxed) as usize)
    }
}
