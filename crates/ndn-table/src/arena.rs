//! Fixed-capacity array whose entries are addressed by index; a slot's memory is touched on first
//! use.

use ndn_ring::advise_huge_pages;

/// Null index.
pub(crate) const NONE: u32 = u32::MAX;

/// Slots for up to `capacity` values. `new` reserves address space only; a slot's memory is written
/// when the slot is first allocated. The slot released last is allocated first, while its lines are
/// in the cache.
#[derive(Debug)]
pub(crate) struct Arena<T> {
    slots: Vec<T>,
    free: Vec<u32>,
    capacity: usize,
}

impl<T> Arena<T> {
    /// Creates an empty arena for `capacity` values.
    pub(crate) fn new(capacity: usize) -> Self {
        assert!(capacity < NONE as usize, "indices are 32 bits");
        let mut slots = Vec::with_capacity(capacity);
        advise_huge_pages(slots.spare_capacity_mut());
        Self { slots, free: Vec::with_capacity(capacity), capacity }
    }

    /// Number of allocated slots.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Allocates a slot, writing `fresh()` to it if it was never used; a reused slot keeps its old
    /// value. Returns `None` when all slots are in use.
    #[inline]
    pub(crate) fn allocate(&mut self, fresh: impl FnOnce() -> T) -> Option<u32> {
        if let Some(index) = self.free.pop() {
            return Some(index);
        }
        if self.slots.len() == self.capacity {
            return None;
        }
        self.slots.push(fresh());
        u32::try_from(self.slots.len() - 1).ok()
    }

    /// Releases a slot. The caller owns the slot and releases it once.
    #[inline]
    pub(crate) fn release(&mut self, index: u32) {
        debug_assert!((index as usize) < self.slots.len());
        self.free.push(index);
    }

    /// All slots allocated so far, including released ones; for prefetch hints.
    #[inline(always)]
    pub(crate) fn slots(&self) -> &[T] {
        &self.slots
    }

    /// [`Self::slots`], to change several of them: address and number are read once.
    #[inline(always)]
    pub(crate) fn slots_mut(&mut self) -> &mut [T] {
        &mut self.slots
    }
}

impl<T> std::ops::Index<u32> for Arena<T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, index: u32) -> &T {
        &self.slots[index as usize]
    }
}

impl<T> std::ops::IndexMut<u32> for Arena<T> {
    #[inline(always)]
    fn index_mut(&mut self, index: u32) -> &mut T {
        &mut self.slots[index as usize]
    }
}
