//! One cache line of a hash table: seven slots of a hash part and a reference.

/// Slots in a bucket.
pub(crate) const BUCKET_SLOTS: usize = 7;

/// A 64-byte bucket. `tags[i]` is part of the hash of the item `refs[i]`; tag 0 marks a free slot.
///
/// `passed` counts the items that found this bucket full and went on to a later one, so that a
/// search which meets `passed == 0` ends without touching another line.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Bucket {
    /// The last one is never used; eight compare faster than seven.
    tags: [u32; BUCKET_SLOTS + 1],
    refs: [u32; BUCKET_SLOTS],
    passed: u32,
}

const _: () = assert!(size_of::<Bucket>() == 64);

/// The part of a hash that a bucket stores; never 0.
#[inline(always)]
pub(crate) fn tag_of(hash: u64) -> u32 {
    (hash >> 32) as u32 | 1
}

impl Bucket {
    pub(crate) const EMPTY: Self =
        Self { tags: [0; BUCKET_SLOTS + 1], refs: [0; BUCKET_SLOTS], passed: 0 };

    /// A bit for each slot whose tag is `tag`.
    #[inline(always)]
    pub(crate) fn matches(&self, tag: u32) -> SlotMask {
        let mut mask = 0;
        for (slot, &other) in self.tags.iter().enumerate() {
            mask |= u32::from(other == tag) << slot;
        }
        SlotMask(mask)
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
        self.tags[..BUCKET_SLOTS].iter().all(|&tag| tag != 0)
    }

    pub(crate) fn contains(&self, tag: u32, reference: u32) -> bool {
        self.matches(tag).any(|slot| self.refs[slot] == reference)
    }

    /// Puts an item into a free slot; false when there is none.
    #[inline]
    pub(crate) fn insert(&mut self, tag: u32, reference: u32) -> bool {
        let free = self.tags[..BUCKET_SLOTS].iter().position(|&tag| tag == 0);
        let Some(slot) = free else { return false };
        self.tags[slot] = tag;
        self.refs[slot] = reference;
        true
    }

    /// Takes an item out; false when it is not here.
    #[inline]
    pub(crate) fn remove(&mut self, tag: u32, reference: u32) -> bool {
        match self.matches(tag).find(|&slot| self.refs[slot] == reference) {
            Some(slot) => {
                self.tags[slot] = 0;
                self.refs[slot] = 0;
                true
            }
            None => false,
        }
    }

    /// Changes the reference of an item; false when it is not here.
    #[inline]
    pub(crate) fn replace(&mut self, tag: u32, old: u32, new: u32) -> bool {
        match self.matches(tag).find(|&slot| self.refs[slot] == old) {
            Some(slot) => {
                self.refs[slot] = new;
                true
            }
            None => false,
        }
    }

    pub(crate) fn note_passed(&mut self) {
        self.passed += 1;
    }

    pub(crate) fn forget_passed(&mut self) {
        self.passed -= 1;
    }
}

/// Iterator over slot numbers.
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
        Some(slot)
    }
}
