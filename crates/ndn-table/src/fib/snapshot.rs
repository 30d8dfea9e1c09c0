//! An immutable version of the FIB, with longest prefix match.

use ndn_packet::NameRef;
use ndn_ring::prefetch_read;

use super::depth_tree::{DepthSearch, FIB_DEPTH_MAX};
use super::entry::{FibEntry, FibSlot};
use super::paged::PagedVec;
use crate::bucket::{Bucket, Tag};
use crate::hash_index::{PROBE_MAX, home_bucket};

/// Set in a bucket's reference when the search continues with longer prefixes after a hit.
pub(super) const MARKER_BIT: u32 = 1 << 31;

/// Maximum number of names in one [`FibSnapshot::find_longest_prefix_burst`].
pub const FIB_BURST_MAX: usize = 64;

/// An immutable version of the FIB.
///
/// Cloning shares all pages. The control thread keeps every version until no shard holds it, so
/// dropping the `Arc` of an old version never frees memory on a packet path.
#[derive(Clone, Debug)]
pub struct FibSnapshot {
    pub(super) buckets: PagedVec<Bucket>,
    pub(super) entries: PagedVec<FibEntry>,
    /// Prefix lengths with entries or markers, one bit each.
    pub(super) depths: u64,
    pub(super) version: u64,
}

/// The last hit of a search by tags, and the prefix length tried there.
#[derive(Clone, Copy)]
struct Hit {
    slot: u32,
    depth: u8,
}

impl Hit {
    const ROOT: Self = Self { slot: FibSlot::ROOT.0, depth: 0 };
}

impl FibSnapshot {
    /// Version number, increasing.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The entry in a slot returned by a search in this snapshot.
    #[must_use]
    #[inline]
    pub fn entry(&self, slot: FibSlot) -> &FibEntry {
        self.entries.element(slot.index())
    }

    /// Prefetches the lines of an entry.
    #[inline]
    pub fn prefetch_entry(&self, slot: FibSlot) {
        let entry = self.entry(slot);
        prefetch_read(entry);
        prefetch_read(&entry.next_hops);
    }

    /// The entry of the longest prefix of a name that has next hops or a strategy of its own; that
    /// of `/` when there is no other. `hashes` are the prefix hashes of the name.
    #[must_use]
    #[inline]
    pub fn find_longest_prefix(&self, name: NameRef<'_>, hashes: &[u64]) -> FibSlot {
        let depths = self.depths_of(hashes);
        let mut search = DepthSearch::START.skip_to(depths);
        let mut best = Hit::ROOT;
        while search.depth() != 0 {
            search = self.probe(search, hashes, &mut best).skip_to(depths);
        }
        self.verify(best, name, hashes)
    }

    /// [`Self::find_longest_prefix`] for `count` names at once, at most [`FIB_BURST_MAX`], with the
    /// searches in lockstep so that their cache misses overlap. `query(i)` gives name and prefix
    /// hashes of the `i`-th name, whose result goes to `found[i]`.
    ///
    /// # Panics
    /// When `count` is larger than [`FIB_BURST_MAX`] or the length of `found`.
    #[inline]
    pub fn find_longest_prefix_burst<'n>(
        &self,
        count: usize,
        query: impl Fn(usize) -> (NameRef<'n>, &'n [u64]),
        found: &mut [FibSlot],
    ) {
        let found = &mut found[..count];
        let mut names: [&[u64]; FIB_BURST_MAX] = [&[]; FIB_BURST_MAX];
        let mut searches = [DepthSearch::START; FIB_BURST_MAX];
        let mut hits = [Hit::ROOT; FIB_BURST_MAX];
        let mut active = [0_u8; FIB_BURST_MAX];
        let mut active_count = 0;
        for (position, i) in (0_u8..).zip(0..count) {
            let (_, hashes) = query(i);
            let search = DepthSearch::START.skip_to(self.depths_of(hashes));
            names[i] = hashes;
            searches[i] = search;
            if search.depth() != 0 {
                self.prefetch_bucket(hashes[search.depth()]);
                active[active_count] = position;
                active_count += 1;
            }
        }
        while active_count > 0 {
            let mut still_active = 0;
            for position in 0..active_count {
                let i = usize::from(active[position]);
                let hashes = names[i];
                let search = self.probe(searches[i], hashes, &mut hits[i]);
                let search = search.skip_to(self.depths_of(hashes));
                if search.depth() == 0 {
                    self.prefetch_entry(FibSlot(hits[i].slot));
                } else {
                    self.prefetch_bucket(hashes[search.depth()]);
                    searches[i] = search;
                    active[still_active] = active[position];
                    still_active += 1;
                }
            }
            active_count = still_active;
        }
        for (i, (slot, &hit)) in found.iter_mut().zip(&hits).enumerate() {
            let (name, hashes) = query(i);
            *slot = self.verify(hit, name, hashes);
        }
    }

    /// Prefix lengths worth trying for a name.
    #[inline(always)]
    fn depths_of(&self, hashes: &[u64]) -> u64 {
        let depth_max = (hashes.len() - 1).min(FIB_DEPTH_MAX);
        self.depths & ((2 << depth_max) - 1)
    }

    /// Tries one length by tag alone.
    #[inline(always)]
    fn probe(&self, search: DepthSearch, hashes: &[u64], best: &mut Hit) -> DepthSearch {
        match self.find(hashes[search.depth()], |_| true) {
            Some(reference) => {
                *best = Hit { slot: reference & !MARKER_BIT, depth: search.entry_depth() };
                if reference & MARKER_BIT == 0 {
                    // Nothing longer exists: the search is over.
                    return DepthSearch::OVER;
                }
                search.longer()
            }
            None => search.shorter(),
        }
    }

    /// Resolves the deepest hit to its entry, after comparing its name.
    ///
    /// If the name of the deepest hit matches, the hits above it were right as well, because the
    /// search for that prefix passes through them. Misses are always right. So one comparison
    /// verifies the whole search; if it fails, two prefixes share a tag, and the search is repeated
    /// with a comparison at every step. A prefix with the tag of a longer one may also be a prefix
    /// of the name, so the length is compared as well.
    #[inline(always)]
    fn verify(&self, deepest: Hit, name: NameRef<'_>, hashes: &[u64]) -> FibSlot {
        let entry = self.entries.element(deepest.slot as usize);
        if entry.depth == deepest.depth && name.value().starts_with(entry.prefix_value()) {
            return entry.best;
        }
        self.find_comparing(name, hashes)
    }

    #[cold]
    fn find_comparing(&self, name: NameRef<'_>, hashes: &[u64]) -> FibSlot {
        let depths = self.depths_of(hashes);
        let mut search = DepthSearch::START.skip_to(depths);
        let mut best = FibSlot::ROOT;
        while search.depth() != 0 {
            let found = self.find(hashes[search.depth()], |slot| {
                let entry = self.entries.element(slot as usize);
                usize::from(entry.depth) == search.depth()
                    && name.value().starts_with(entry.prefix_value())
            });
            search = match found {
                Some(reference) => {
                    best = self.entries.element((reference & !MARKER_BIT) as usize).best;
                    search.longer()
                }
                None => search.shorter(),
            }
            .skip_to(depths);
        }
        best
    }

    /// The first reference of `hash` (or of an equal tag) that `accept` accepts.
    #[inline(always)]
    pub(super) fn find(&self, hash: u64, accept: impl Fn(u32) -> bool) -> Option<u32> {
        let tag = Tag::of(hash);
        let count = self.buckets.len();
        let mut position = home_bucket(hash, count);
        for _ in 0..PROBE_MAX {
            let bucket = self.buckets.element(position);
            for slot in bucket.matches(tag) {
                let reference = bucket.reference(slot);
                if accept(reference & !MARKER_BIT) {
                    return Some(reference);
                }
            }
            if !bucket.has_overflowed() {
                return None;
            }
            position = if position + 1 == count { 0 } else { position + 1 };
        }
        None
    }

    #[inline(always)]
    fn prefetch_bucket(&self, hash: u64) {
        prefetch_read(self.buckets.element(home_bucket(hash, self.buckets.len())));
    }
}
