//! One cache line of a hash table: eight slots of a hash part and a reference.

use ndn_ring::{LANES, equal_lanes};

/// Slots in a bucket.
pub(crate) const BUCKET_SLOTS: usize = LANES;

/// A 64-byte bucket. The tag of a slot is part of the hash of the item that its reference names;
/// tag 0 marks a free slot.
///
/// `passed` counts the items that found this bucket full and went on to a later one, so that a
/// search which meets `passed == 0` ends without touching another line.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Bucket {
    tags: [u16; BUCKET_SLOTS],
    refs: [u32; BUCKET_SLOTS],
    passed: u32,
}

const _: () = assert!(size_of::<Bucket>() == 64);

/// The part of a hash that a bucket stores; never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag(u16);

impl Tag {
    /// The tag of a hash: its highest bits, since the place of the bucket comes from the lowest.
    #[inline(always)]
    pub(crate) fn of(hash: u64) -> Self {
        Self((hash >> 48) as u16 | 1)
    }
}

impl Bucket {
    pub(crate) const EMPTY: Self =
        Self { tags: [0; BUCKET_SLOTS], refs: [0; BUCKET_SLOTS], passed: 0 };

    /// The slots whose tag is `tag`.
    #[inline(always)]
    pub(crate) fn matches(&self, tag: Tag) -> SlotMask {
        SlotMask(equal_lanes(&self.tags, tag.0))
    }

    /// Whether items went past this bucket.
    #[inline(always)]
    pub(crate) fn is_passed(&self) -> bool {
        self.passed != 0
    }

    #[inline(always)]
    pub(crate) fn reference(&self, slot: usize) -> u32 {
        self.refs[slot]
    }

    pub(crate) fn is_full(&self) -> bool {
        self.free_slot().is_none()
    }

    pub(crate) fn contains(&self, tag: Tag, reference: u32) -> bool {
        self.slot_of(tag, reference).is_some()
    }

    /// Puts an item into a free slot; false when there is none.
    #[inline(always)]
    pub(crate) fn insert(&mut self, tag: Tag, reference: u32) -> bool {
        let Some(slot) = self.free_slot() else { return false };
        self.tags[slot] = tag.0;
        self.refs[slot] = reference;
        true
    }

    /// Takes an item out; false when it is not here.
    #[inline(always)]
    pub(crate) fn remove(&mut self, tag: Tag, reference: u32) -> bool {
        let Some(slot) = self.slot_of(tag, reference) else { return false };
        self.tags[slot] = 0;
        true
    }

    /// Changes the reference of an item; false when it is not here.
    #[inline]
    pub(crate) fn replace(&mut self, tag: Tag, old: u32, new: u32) -> bool {
        let Some(slot) = self.slot_of(tag, old) else { return false };
        self.refs[slot] = new;
        true
    }

    pub(crate) fn note_passed(&mut self) {
        self.passed += 1;
    }

    pub(crate) fn forget_passed(&mut self) {
        self.passed -= 1;
    }

    #[inline(always)]
    fn slot_of(&self, tag: Tag, reference: u32) -> Option<usize> {
        self.matches(tag).find(|&slot| self.refs[slot] == reference)
    }

    #[inline(always)]
    fn free_slot(&self) -> Option<usize> {
        SlotMask(equal_lanes(&self.tags, 0)).next()
    }
}

/// Iterator over slot numbers; bits `2 i` and `2 i + 1` stand for slot `i`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotMask(u32);

impl Iterator for SlotMask {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let bit = self.0.trailing_zeros();
        self.0 &= !(3 << bit);
        Some(bit as usize / 2 % BUCKET_SLOTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a plain list, with few different tags.
    #[test]
    fn items_are_found_until_they_are_removed() {
        let mut state = 1_u64;
        for _ in 0..20_000 {
            let mut bucket = Bucket::EMPTY;
            let mut model: Vec<(Tag, u32)> = Vec::new();
            for step in 0..20_u32 {
                state =
                    state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                let tag = Tag::of(((state >> 33) % 4) << 48 | (state >> 60) << 63);
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
