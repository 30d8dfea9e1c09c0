//! Fixed-capacity array of entries that are named by index; its memory is touched on first use.

use ndn_ring::advise_huge_pages;

/// Index that names no entry.
pub(crate) const NONE: u32 = u32::MAX;

/// Slots for up to `capacity` values. Address space is reserved at construction; a slot's memory
/// is first written when it is first needed. A freed slot is the next to be used again, while its
/// lines are in the cache.
#[derive(Debug)]
pub(crate) struct Arena<T> {
    slots: Vec<T>,
    free: Vec<u32>,
    capacity: usize,
}

impl<T> Arena<T> {
    /// Room for `capacity` values.
    pub(crate) fn new(capacity: usize) -> Self {
        assert!(capacity < NONE as usize, "indices are 32 bits");
        let mut slots = Vec::with_capacity(capacity);
        advise_huge_pages(slots.spare_capacity_mut());
        Self { slots, free: Vec::with_capacity(capacity), capacity }
    }

    /// Values in use.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Takes a slot, writing `fresh()` to it if it was never used; a reused slot keeps its old
    /// value. `None` when all are in use.
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

    /// Gives a slot back. The caller owns it and gives it back once.
    #[inline]
    pub(crate) fn release(&mut self, index: u32) {
        debug_assert!((index as usize) < self.slots.len());
        self.free.push(index);
    }

    /// The slots used so far, also the free ones among them; for hints.
    #[inline(always)]
    pub(crate) fn slots(&self) -> &[T] {
        &self.slots
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
