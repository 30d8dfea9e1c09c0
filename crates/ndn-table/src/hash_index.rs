//! Hash table of 64-byte buckets from a 64-bit hash to a 32-bit reference; fixed size, no rehash.

use ndn_ring::{advise_huge_pages, prefetch_slice};

use crate::bucket::{BUCKET_SLOTS, Bucket, Tag};

/// Items per bucket at full load, of [`BUCKET_SLOTS`] slots: about 1 % of the buckets overflow.
const ITEMS_PER_BUCKET: usize = 6;

/// Maximum number of buckets that a search visits. With a keyed hash and the load above, an item
/// that finds no slot within this distance is rarer than a memory error.
pub(crate) const PROBE_MAX: usize = 16;

/// All buckets within [`PROBE_MAX`] of an item's home bucket are full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexFull;

/// Place of an item in its home bucket, as long as the item is in the index: other items do not move it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ItemPlace {
    bucket: u32,
    slot: u32,
}

impl ItemPlace {
    /// The slot in the bucket.
    #[inline(always)]
    pub(crate) fn slot(self) -> u8 {
        #[expect(clippy::cast_possible_truncation, reason = "a bucket has twelve")]
        let slot = self.slot as u8;
        slot
    }
}

/// Multimap from hash to reference. The caller resolves items with equal tags by comparing what
/// they refer to.
#[derive(Debug)]
pub(crate) struct HashIndex {
    buckets: Vec<Bucket>,
}

impl HashIndex {
    /// A table for up to `items_max` items.
    pub(crate) fn new(items_max: usize) -> Self {
        let count = (items_max / ITEMS_PER_BUCKET).max(PROBE_MAX);
        assert!(u32::try_from(count).is_ok(), "at most 2^32 buckets");
        let mut buckets = Vec::with_capacity(count);
        advise_huge_pages(buckets.spare_capacity_mut());
        buckets.resize(count, Bucket::EMPTY);
        Self { buckets }
    }

    /// Number of items.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.buckets.iter().map(Bucket::len).sum()
    }

    /// Prefetches the home bucket of `hash`.
    #[inline(always)]
    pub(crate) fn prefetch(&self, hash: u64) {
        prefetch_slice(&self.buckets, self.home(hash));
    }

    /// The first item of `hash` (or of an equal tag) that `accept` accepts.
    #[inline(always)]
    pub(crate) fn find(&self, hash: u64, mut accept: impl FnMut(u32) -> bool) -> Option<u32> {
        let tag = Tag::of(hash);
        let mut position = self.home(hash);
        let mut probes_left = PROBE_MAX;
        loop {
            let bucket = &self.buckets[position];
            for slot in bucket.matches(tag) {
                let reference = bucket.reference(slot);
                if accept(reference) {
                    return Some(reference);
                }
            }
            probes_left -= 1;
            if !bucket.has_overflowed() || probes_left == 0 {
                return None;
            }
            position = self.after(position);
        }
    }

    /// Whether it is certain that there is no item of `hash`. A search that is likely to find none calls this first: it does not load what
    /// the loop of [`Self::find`] needs.
    #[inline(always)]
    pub(crate) fn excludes(&self, hash: u64) -> bool {
        self.buckets[self.home(hash)].excludes(Tag::of(hash))
    }

    /// The item of `hash` (or of an equal tag), if it is certain, without a search of further buckets, that there is exactly one.
    #[inline(always)]
    pub(crate) fn find_only(&self, hash: u64) -> Option<(u32, ItemPlace)> {
        let home = self.home(hash);
        let bucket = &self.buckets[home];
        let slot = bucket.find_only(Tag::of(hash))?;
        #[expect(clippy::cast_possible_truncation, reason = "there are at most 2^32 buckets")]
        let place = ItemPlace { bucket: home as u32, slot: slot as u32 };
        Some((bucket.reference(slot), place))
    }

    /// Lets another item of the same hash take the place of an item.
    #[inline(always)]
    pub(crate) fn replace_at(&mut self, place: ItemPlace, reference: u32) {
        self.buckets[place.bucket as usize].set_reference(place.slot as usize, reference);
    }

    /// Removes the item in a place.
    #[inline(always)]
    pub(crate) fn remove_at(&mut self, place: ItemPlace) {
        self.buckets[place.bucket as usize].clear(place.slot as usize);
    }

    /// Visits every item of `hash` (or of an equal tag).
    #[inline(always)]
    pub(crate) fn for_each(&self, hash: u64, mut visit: impl FnMut(u32)) {
        self.find(hash, |reference| {
            visit(reference);
            false
        });
    }

    /// Adds an item.
    #[inline]
    pub(crate) fn insert(&mut self, hash: u64, reference: u32) -> Result<(), IndexFull> {
        let home = self.home(hash);
        if self.buckets[home].insert(Tag::of(hash), reference) {
            return Ok(());
        }
        self.insert_beyond(hash, reference)
    }

    #[cold]
    fn insert_beyond(&mut self, hash: u64, reference: u32) -> Result<(), IndexFull> {
        let home = self.home(hash);
        let mut position = home;
        for distance in 1..PROBE_MAX {
            position = self.after(position);
            if self.buckets[position].insert(Tag::of(hash), reference) {
                self.update_overflow(home, distance, Bucket::increment_overflow);
                return Ok(());
            }
        }
        Err(IndexFull)
    }

    /// [`Self::remove`] of an item that probably is in this slot of its home bucket.
    #[inline(always)]
    pub(crate) fn remove_from(&mut self, hash: u64, reference: u32, slot: u8) -> bool {
        let home = self.home(hash);
        if self.buckets[home].remove_from(Tag::of(hash), reference, usize::from(slot)) {
            return true;
        }
        self.remove(hash, reference)
    }

    /// Removes an item; returns false when it was not present.
    #[inline(never)]
    pub(crate) fn remove(&mut self, hash: u64, reference: u32) -> bool {
        let home = self.home(hash);
        if self.buckets[home].remove(Tag::of(hash), reference) {
            return true;
        }
        self.remove_beyond(hash, reference)
    }

    #[cold]
    fn remove_beyond(&mut self, hash: u64, reference: u32) -> bool {
        let home = self.home(hash);
        let mut position = home;
        for distance in 1..PROBE_MAX {
            if !self.buckets[position].has_overflowed() {
                return false;
            }
            position = self.after(position);
            if self.buckets[position].remove(Tag::of(hash), reference) {
                self.update_overflow(home, distance, Bucket::decrement_overflow);
                return true;
            }
        }
        false
    }

    /// Changes the reference of an item; returns false when it was not present.
    pub(crate) fn replace(&mut self, hash: u64, old: u32, new: u32) -> bool {
        let tag = Tag::of(hash);
        let mut position = self.home(hash);
        for _ in 0..PROBE_MAX {
            if self.buckets[position].replace(tag, old, new) {
                return true;
            }
            if !self.buckets[position].has_overflowed() {
                return false;
            }
            position = self.after(position);
        }
        false
    }

    fn update_overflow(&mut self, home: usize, distance: usize, change: impl Fn(&mut Bucket)) {
        let mut position = home;
        for _ in 0..distance {
            change(&mut self.buckets[position]);
            position = self.after(position);
        }
    }

    /// The lower half of the hash, scaled to the number of buckets (which need not be a power of
    /// two). The tag uses the upper half.
    #[inline(always)]
    fn home(&self, hash: u64) -> usize {
        home_bucket(hash, self.buckets.len())
    }

    #[inline(always)]
    fn after(&self, position: usize) -> usize {
        if position + 1 == self.buckets.len() { 0 } else { position + 1 }
    }
}

/// Home bucket of `hash` in a table of `count` buckets.
#[inline(always)]
pub(crate) fn home_bucket(hash: u64, count: usize) -> usize {
    (((hash & 0xFFFF_FFFF) * count as u64) >> 32) as usize
}

const _: () = assert!(ITEMS_PER_BUCKET < BUCKET_SLOTS);

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Operation {
        Insert(u64, u32),
        Remove(u64, u32),
        Find(u64),
        ReplaceOnly(u64, u32),
        RemoveOnly(u64),
    }

    /// Few distinct hashes and a small table, so that buckets overflow and tags repeat.
    fn hashes() -> impl Strategy<Value = u64> {
        (0..4_u64, 0..6_u64).prop_map(|(upper, lower)| (upper << 49) | (lower * 0x2000_0000))
    }

    fn operations() -> impl Strategy<Value = Vec<Operation>> {
        let one = prop_oneof![
            3 => (hashes(), 0..40_u32).prop_map(|(h, r)| Operation::Insert(h, r)),
            2 => (hashes(), 0..40_u32).prop_map(|(h, r)| Operation::Remove(h, r)),
            1 => hashes().prop_map(Operation::Find),
            1 => (hashes(), 0..40_u32).prop_map(|(h, r)| Operation::ReplaceOnly(h, r)),
            1 => hashes().prop_map(Operation::RemoveOnly),
        ];
        proptest::collection::vec(one, 0..600)
    }

    proptest! {
        #[test]
        fn agrees_with_an_ordered_map(operations in operations()) {
            let mut table = HashIndex::new(1);
            // A reference belongs to one item and so has one hash.
            let mut model: BTreeMap<u32, u64> = BTreeMap::new();
            for operation in operations {
                match operation {
                    Operation::Insert(hash, reference) => {
                        if model.contains_key(&reference) {
                            continue;
                        }
                        if table.insert(hash, reference).is_ok() {
                            model.insert(reference, hash);
                        } else {
                            prop_assert!(table.len() >= BUCKET_SLOTS * PROBE_MAX);
                        }
                    }
                    Operation::Remove(hash, reference) => {
                        let expected = model.get(&reference) == Some(&hash);
                        if expected || !model.contains_key(&reference) {
                            model.remove(&reference);
                            // A slot that may be right.
                            let slot = u8::try_from(reference % 16).unwrap_or(0);
                            prop_assert_eq!(table.remove_from(hash, reference, slot), expected);
                        }
                    }
                    Operation::Find(hash) => {
                        let mut seen = Vec::new();
                        table.for_each(hash, |reference| seen.push(reference));
                        prop_assert!(!table.excludes(hash) || seen.is_empty());
                        if let Some((only, _)) = table.find_only(hash) {
                            prop_assert_eq!(&seen, &[only]);
                        }
                        for (reference, _) in model.iter().filter(|&(_, &other)| other == hash) {
                            prop_assert!(seen.contains(reference));
                        }
                    }
                    Operation::ReplaceOnly(hash, new) => {
                        if let Some((old, place)) = table.find_only(hash)
                            && model.get(&old) == Some(&hash)
                            && !model.contains_key(&new)
                        {
                            // Other items come and go meanwhile.
                            let other = 1000 + new;
                            let is_inserted = table.insert(hash, other).is_ok();
                            table.replace_at(place, new);
                            prop_assert_eq!(table.remove(hash, other), is_inserted);
                            model.remove(&old);
                            model.insert(new, hash);
                        }
                    }
                    Operation::RemoveOnly(hash) => {
                        if let Some((old, place)) = table.find_only(hash)
                            && model.get(&old) == Some(&hash)
                        {
                            table.remove_at(place);
                            model.remove(&old);
                        }
                    }
                }
                prop_assert_eq!(table.len(), model.len());
            }
        }
    }

    #[test]
    fn items_in_overflow_buckets_are_found() {
        let mut table = HashIndex::new(1);
        let (many, one) = (1 << 56, 2 << 56);
        assert!(table.excludes(many) && table.excludes(one));
        let room = u32::try_from(BUCKET_SLOTS).unwrap();
        for reference in 0..room {
            assert_eq!(table.insert(many, reference), Ok(()));
        }
        assert!(!table.excludes(many) && table.excludes(one));
        assert_eq!(table.insert(one, room), Ok(()));
        assert!(!table.excludes(one), "it is in the next bucket");
        assert_eq!(table.find(one, |_| true), Some(room));
        assert!(table.remove(one, room));
        assert!(table.excludes(one));
    }

    #[test]
    fn insert_fails_when_reachable_buckets_are_full_and_recovers() {
        let mut table = HashIndex::new(1);
        let room = u32::try_from(BUCKET_SLOTS * PROBE_MAX).unwrap();
        for reference in 0..room {
            assert_eq!(table.insert(0, reference), Ok(()));
        }
        assert_eq!(table.insert(0, room), Err(IndexFull));
        for reference in 0..room {
            assert!(table.remove(0, reference));
        }
        assert_eq!(table.len(), 0);
        assert!(table.buckets.iter().all(|bucket| !bucket.has_overflowed()));
    }
}
