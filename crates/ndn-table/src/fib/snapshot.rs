//! An immutable version of the FIB, with longest prefix match.

use ndn_packet::NameRef;
use ndn_ring::prefetch_read;

use super::depth_tree::{DepthSearch, FIB_DEPTH_MAX, depths_up_to};
use super::entry::{FibEntry, FibSlot};
use super::paged::PagedVec;
use crate::PREFIX_HASHES_MAX;
use crate::bucket::{Bucket, Tag};
use crate::hash_index::{PROBE_MAX, home_bucket};

/// Set in a bucket's reference when the search continues with longer prefixes after a hit.
pub(super) const MARKER_BIT: u32 = 1 << 31;

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
    /// Where searches begin, by the number of components of the name.
    pub(super) first_probes: [DepthSearch; PREFIX_HASHES_MAX],
    pub(super) version: u64,
}

/// A search for the longest prefix of a name, in steps: with those of other names in between, the cache
/// misses of all overlap.
#[derive(Clone, Copy, Debug)]
pub struct FibSearch {
    /// The length to try next.
    next: DepthSearch,
    best: Hit,
}

impl Default for FibSearch {
    /// A search that has found `/`.
    fn default() -> Self {
        Self { next: DepthSearch::OVER, best: Hit::ROOT }
    }
}

/// The last hit of a search by tags, and the prefix length tried there.
#[derive(Clone, Copy, Debug)]
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
        let components = hashes.len() - 1;
        let mut search = self.begin_search(components);
        while self.continue_search(&mut search, components, |depth| hashes[depth]) {}
        self.finish_search(search, name, hashes)
    }

    /// Prefetches what the first step of a search reads for a name of `components` components. `hash_at` returns its prefix
    /// hashes.
    #[inline(always)]
    pub fn prefetch_search(&self, components: usize, hash_at: impl FnOnce(usize) -> u64) {
        self.prefetch_bucket(hash_at(self.first_probe(components).depth()));
    }

    /// Begins the search of [`Self::find_longest_prefix`] for a name of `components` components.
    #[must_use]
    #[inline(always)]
    pub fn begin_search(&self, components: usize) -> FibSearch {
        FibSearch { next: self.first_probe(components), best: Hit::ROOT }
    }

    #[inline(always)]
    fn first_probe(&self, components: usize) -> DepthSearch {
        // No name has more.
        self.first_probes[components % PREFIX_HASHES_MAX]
    }

    /// One step of a search; prefetches what the next one, or [`Self::finish_search`], reads. `hash_at` returns the prefix hashes
    /// of the name. Returns whether another step is needed.
    #[must_use]
    #[inline(always)]
    pub fn continue_search(
        &self,
        search: &mut FibSearch,
        components: usize,
        hash_at: impl Fn(usize) -> u64,
    ) -> bool {
        let mut next = search.next;
        if next.depth() != 0 {
            next = self.probe(next, hash_at(next.depth()), &mut search.best);
        }
        if next.depth() != 0 {
            next = next.skip_to(self.depths_of(components));
        }
        search.next = next;
        if next.depth() == 0 {
            self.prefetch_entry(FibSlot(search.best.slot));
            return false;
        }
        self.prefetch_bucket(hash_at(next.depth()));
        true
    }

    /// The result of a search, after its last step.
    #[must_use]
    #[inline(always)]
    pub fn finish_search(&self, search: FibSearch, name: NameRef<'_>, hashes: &[u64]) -> FibSlot {
        self.finish_with_entry(search, name, hashes).slot()
    }

    /// The entry in the slot that [`Self::finish_search`] returns.
    #[must_use]
    #[inline(always)]
    pub fn finish_with_entry(
        &self,
        search: FibSearch,
        name: NameRef<'_>,
        hashes: &[u64],
    ) -> &FibEntry {
        debug_assert_eq!(search.next.depth(), 0, "the search is not over");
        self.verify(search.best, name, hashes)
    }

    /// Prefix lengths worth trying for a name.
    #[inline(always)]
    fn depths_of(&self, components: usize) -> u64 {
        depths_up_to(self.depths, components.min(FIB_DEPTH_MAX))
    }

    /// Tries one length, whose prefix has this hash, by tag alone.
    #[inline(always)]
    fn probe(&self, search: DepthSearch, hash: u64, best: &mut Hit) -> DepthSearch {
        match self.find(hash, |_| true) {
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
    fn verify(&self, deepest: Hit, name: NameRef<'_>, hashes: &[u64]) -> &FibEntry {
        let entry = self.entries.element(deepest.slot as usize);
        if entry.depth == deepest.depth && name.value().starts_with(entry.prefix_value()) {
            // Only markers have another.
            return if entry.best.0 == deepest.slot { entry } else { self.entry(entry.best) };
        }
        self.entry(self.find_comparing(name, hashes))
    }

    #[cold]
    fn find_comparing(&self, name: NameRef<'_>, hashes: &[u64]) -> FibSlot {
        let depths = self.depths_of(hashes.len() - 1);
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
