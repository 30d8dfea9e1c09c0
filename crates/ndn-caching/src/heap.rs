//! Binary heap over slots whose order values change.

use crate::policy::Slot;

const NONE: u32 = u32::MAX;

/// Slots by an order value `K`; the smallest comes first. It does not allocate after its creation.
#[derive(Debug)]
pub(crate) struct Heap<K> {
    entries: Vec<(K, Slot)>,
    positions: Vec<u32>,
}

impl<K: Ord + Copy> Heap<K> {
    pub(crate) fn new(slots: u32) -> Self {
        Self { entries: Vec::with_capacity(slots as usize), positions: vec![NONE; slots as usize] }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// All values, in no order.
    pub(crate) fn values(&self) -> impl Iterator<Item = K> {
        self.entries.iter().map(|&(value, _)| value)
    }

    /// Whether `slot` is in the heap.
    #[cfg(feature = "vip")]
    #[inline]
    pub(crate) fn contains(&self, slot: Slot) -> bool {
        self.positions[slot as usize] != NONE
    }

    /// The slot with the smallest value.
    #[inline]
    pub(crate) fn first(&self) -> Option<(K, Slot)> {
        self.entries.first().copied()
    }

    /// The value of `slot`, which is in the heap.
    #[inline]
    pub(crate) fn value(&self, slot: Slot) -> K {
        self.entries[self.positions[slot as usize] as usize].0
    }

    /// Adds `slot`, which is not in the heap.
    pub(crate) fn push(&mut self, slot: Slot, value: K) {
        self.entries.push((value, slot));
        self.rise(self.entries.len() - 1);
    }

    /// Changes the value of `slot`, which is in the heap.
    pub(crate) fn set(&mut self, slot: Slot, value: K) {
        let position = self.positions[slot as usize] as usize;
        self.entries[position].0 = value;
        let position = self.rise(position);
        self.sink(position);
    }

    /// Removes `slot`, which is in the heap.
    pub(crate) fn remove(&mut self, slot: Slot) {
        let position = self.positions[slot as usize] as usize;
        self.positions[slot as usize] = NONE;
        self.entries.swap_remove(position);
        if position < self.entries.len() {
            let position = self.rise(position);
            self.sink(position);
        }
    }

    /// Replaces every value by `change(value)` and restores the order.
    pub(crate) fn map(&mut self, change: impl Fn(K) -> K) {
        for entry in &mut self.entries {
            entry.0 = change(entry.0);
        }
        for position in (0..self.entries.len()).rev() {
            self.sink(position);
        }
    }

    fn place(&mut self, position: usize) {
        let slot = self.entries[position].1;
        self.positions[slot as usize] = u32::try_from(position).unwrap_or(NONE);
    }

    fn rise(&mut self, mut position: usize) -> usize {
        while position > 0 {
            let parent = (position - 1) / 2;
            if self.entries[parent].0 <= self.entries[position].0 {
                break;
            }
            self.entries.swap(parent, position);
            self.place(position);
            position = parent;
        }
        self.place(position);
        position
    }

    fn sink(&mut self, mut position: usize) {
        loop {
            let mut child = 2 * position + 1;
            if child >= self.entries.len() {
                break;
            }
            if child + 1 < self.entries.len() && self.entries[child + 1].0 < self.entries[child].0 {
                child += 1;
            }
            if self.entries[position].0 <= self.entries[child].0 {
                break;
            }
            self.entries.swap(child, position);
            self.place(position);
            position = child;
        }
        self.place(position);
    }
}
