//! One cache line of a hash table: eight slots of a hash part and a reference.

/// Slots in a bucket.
pub(crate) const BUCKET_SLOTS: usize = 8;

/// Tags in a word.
const LANES: usize = 4;

/// The lowest and the highest bit of each lane.
const LOW_BITS: u64 = 0x0001_0001_0001_0001;
const HIGH_BITS: u64 = LOW_BITS << 15;

/// A 64-byte bucket. The tag of a slot is part of the hash of the item that its reference names;
/// tag 0 marks a free slot. Tags lie four to a word and are compared a word at a time.
///
/// `passed` counts the items that found this bucket full and went on to a later one, so that a
/// search which meets `passed == 0` ends without touching another line.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Bucket {
    tags: [u64; BUCKET_SLOTS / LANES],
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
        Self { tags: [0; BUCKET_SLOTS / LANES], refs: [0; BUCKET_SLOTS], passed: 0 };

    /// The slots whose tag is `tag`, and once in a great while one more, after a true one.
    #[inline(always)]
    pub(crate) fn matches(&self, tag: Tag) -> SlotMask {
        let wanted = u64::from(tag.0) * LOW_BITS;
        let [low, high] = self.tags;
        SlotMask(zero_lanes(low ^ wanted) >> 15 | zero_lanes(high ^ wanted) >> 14)
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
        self.tags[slot / LANES] |= u64::from(tag.0) << (slot % LANES * 16);
        self.refs[slot] = reference;
        true
    }

    /// Takes an item out; false when it is not here.
    #[inline(always)]
    pub(crate) fn remove(&mut self, tag: Tag, reference: u32) -> bool {
        let Some(slot) = self.slot_of(tag, reference) else { return false };
        self.tags[slot / LANES] &= !(0xFFFF << (slot % LANES * 16));
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
        self.matches(tag).find(|&slot| self.refs[slot] == reference && self.tag(slot) == tag.0)
    }

    #[inline(always)]
    fn free_slot(&self) -> Option<usize> {
        let [low, high] = self.tags;
        // The first of a word is certain, which is enough here.
        let free = zero_lanes(low);
        if free != 0 {
            return Some(free.trailing_zeros() as usize / 16);
        }
        let free = zero_lanes(high);
        (free != 0).then(|| LANES + free.trailing_zeros() as usize / 16)
    }

    #[inline(always)]
    fn tag(&self, slot: usize) -> u16 {
        (self.tags[slot / LANES] >> (slot % LANES * 16) & 0xFFFF) as u16
    }
}

/// The highest bit of each 16-bit lane that is 0. A lane of 1 above a lane of 0 is shown as well,
/// because the subtraction borrows; the lowest one shown is always right.
#[inline(always)]
fn zero_lanes(word: u64) -> u64 {
    word.wrapping_sub(LOW_BITS) & !word & HIGH_BITS
}

/// Iterator over slot numbers: bit `16 i` stands for slot `i`, bit `16 i + 1` for slot `i + 4`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotMask(u64);

impl Iterator for SlotMask {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let bit = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some((bit / 16 + bit % 2 * LANES) % BUCKET_SLOTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a plain list, with tags that differ by 1 so that borrows occur.
    #[test]
    fn slots_are_found_whatever_their_neighbours() {
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
                if let Some(first) = bucket.matches(tag).next() {
                    assert_eq!(bucket.tag(first), tag.0);
                }
            }
        }
    }
}
