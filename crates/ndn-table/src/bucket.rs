//! One cache line of a hash table: twelve slots, each with a tag (part of the hash) and a
//! reference.

use ndn_ring::{LANES, equal_lanes};

/// Slots in a bucket.
pub(crate) const BUCKET_SLOTS: usize = 12;

/// Offset of the overflow count in the first part of a bucket.
const OVERFLOW_OFFSET: usize = BUCKET_SLOTS;

/// A 64-byte bucket. A slot's tag is part of the hash of the item it refers to; tag 0 marks a free
/// slot.
///
/// The overflow count is the number of items that found this bucket full and were stored in a later
/// one. A search that reads 0 stops without touching another line. The count lies behind the tags,
/// in the vector that one comparison loads.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Bucket {
    tags_and_overflow: [u8; LANES],
    refs: [u32; BUCKET_SLOTS],
}

const _: () = assert!(size_of::<Bucket>() == 64 && OVERFLOW_OFFSET + size_of::<u32>() == LANES);

/// The part of a hash that a bucket stores; never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag(u8);

impl Tag {
    /// The tag of a hash: its highest bits, because the lowest choose the bucket. Two different
    /// items in a bucket share a tag in 1 of 255 cases.
    #[inline(always)]
    pub(crate) fn of(hash: u64) -> Self {
        // As a word, the compiler compares and extends it once.
        Self((hash >> 56).max(1) as u8)
    }
}

impl Bucket {
    pub(crate) const EMPTY: Self = Self { tags_and_overflow: [0; LANES], refs: [0; BUCKET_SLOTS] };

    /// The slots whose tag is `tag`.
    #[inline(always)]
    pub(crate) fn matches(&self, tag: Tag) -> SlotMask {
        self.slots_with(tag.0)
    }

    #[inline(always)]
    fn slots_with(&self, tag: u8) -> SlotMask {
        SlotMask(equal_lanes(&self.tags_and_overflow, tag) & ((1 << BUCKET_SLOTS) - 1))
    }

    /// Whether there is no item of this tag whose home is this bucket.
    #[inline(always)]
    pub(crate) fn excludes(&self, tag: Tag) -> bool {
        self.matches(tag).0 == 0 && !self.has_overflowed()
    }

    /// The slot of the only item of this tag whose home is this bucket, if there is exactly one and no item overflowed.
    #[inline(always)]
    pub(crate) fn find_only(&self, tag: Tag) -> Option<usize> {
        let mut slots = self.matches(tag);
        let slot = slots.next()?;
        (slots.0 == 0 && !self.has_overflowed()).then_some(slot)
    }

    /// Whether items of this bucket overflowed into later ones.
    #[inline(always)]
    pub(crate) fn has_overflowed(&self) -> bool {
        self.overflow() != 0
    }

    #[inline(always)]
    fn overflow(&self) -> u32 {
        self.tags_and_overflow.last_chunk().map_or(0, |&bytes| u32::from_le_bytes(bytes))
    }

    fn set_overflow(&mut self, overflow: u32) {
        self.tags_and_overflow[OVERFLOW_OFFSET..].copy_from_slice(&overflow.to_le_bytes());
    }

    #[inline(always)]
    pub(crate) fn reference(&self, slot: usize) -> u32 {
        self.refs[slot]
    }

    /// Number of items in this bucket.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        BUCKET_SLOTS - self.slots_with(0).count()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.free_slot().is_none()
    }

    pub(crate) fn contains(&self, tag: Tag, reference: u32) -> bool {
        self.slot_of(tag, reference).is_some()
    }

    /// Stores an item in a free slot; returns false when there is none.
    #[inline(always)]
    pub(crate) fn insert(&mut self, tag: Tag, reference: u32) -> bool {
        let Some(slot) = self.free_slot() else { return false };
        self.tags_and_overflow[slot] = tag.0;
        self.refs[slot] = reference;
        true
    }

    /// Removes an item; returns false when it is not in this bucket.
    #[inline(always)]
    pub(crate) fn remove(&mut self, tag: Tag, reference: u32) -> bool {
        let Some(slot) = self.slot_of(tag, reference) else { return false };
        self.tags_and_overflow[slot] = 0;
        true
    }

    /// Removes an item from a slot; returns false when it is not there.
    #[inline(always)]
    pub(crate) fn remove_from(&mut self, tag: Tag, reference: u32, slot: usize) -> bool {
        let is_there = slot < BUCKET_SLOTS
            && self.tags_and_overflow[slot] == tag.0
            && self.refs[slot] == reference;
        if is_there {
            self.tags_and_overflow[slot] = 0;
        }
        is_there
    }

    /// Removes the item in a slot.
    #[inline(always)]
    pub(crate) fn clear(&mut self, slot: usize) {
        self.tags_and_overflow[slot] = 0;
    }

    /// Changes the reference of the item in a slot.
    #[inline(always)]
    pub(crate) fn set_reference(&mut self, slot: usize, reference: u32) {
        self.refs[slot] = reference;
    }

    /// Changes the reference of an item; returns false when it is not in this bucket.
    #[inline]
    pub(crate) fn replace(&mut self, tag: Tag, old: u32, new: u32) -> bool {
        let Some(slot) = self.slot_of(tag, old) else { return false };
        self.refs[slot] = new;
        true
    }

    pub(crate) fn increment_overflow(&mut self) {
        self.set_overflow(self.overflow() + 1);
    }

    pub(crate) fn decrement_overflow(&mut self) {
        self.set_overflow(self.overflow() - 1);
    }

    #[inline(always)]
    fn slot_of(&self, tag: Tag, reference: u32) -> Option<usize> {
        self.matches(tag).find(|&slot| self.refs[slot] == reference)
    }

    #[inline(always)]
    fn free_slot(&self) -> Option<usize> {
        self.slots_with(0).next()
    }
}

/// Iterator over slot numbers, one bit for each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotMask(u32);

impl Iterator for SlotMask {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let slot = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(slot % LANES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Model test against a list, with few distinct tags.
    #[test]
    fn items_are_found_until_removed() {
        let mut state = 1_u64;
        for _ in 0..20_000 {
            let mut bucket = Bucket::EMPTY;
            let mut model: Vec<(Tag, u32)> = Vec::new();
            for step in 0..30_u32 {
                state =
                    state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                let tag = Tag::of(((state >> 33) % 4) << 56 | (state >> 60) << 63);
                if (state >> 40).is_multiple_of(3) && !model.is_empty() {
                    let (tag, reference) = model.swap_remove((state >> 50) as usize % model.len());
                    assert!(bucket.remove(tag, reference));
                    assert!(!bucket.remove(tag, reference));
                } else {
                    let fits = bucket.insert(tag, step);
                    assert_eq!(fits, model.len() < BUCKET_SLOTS);
                    if fits {
                        model.push((tag, step));
                    }
                }
                assert_eq!(bucket.is_full(), model.len() == BUCKET_SLOTS);
                for &(tag, reference) in &model {
                    assert!(bucket.contains(tag, reference));
                    assert!(bucket.matches(tag).any(|slot| bucket.reference(slot) == reference));
                }
                let expected = model.iter().filter(|&&(other, _)| other == tag).count();
                assert_eq!(bucket.matches(tag).count(), expected);
            }
        }
    }
}
