use ndn_types::random::Random;

use super::{Capacity, Object, Policy, Slot};

/// Evicts a uniformly random object.
#[derive(Debug)]
pub(super) struct Uniform {
    slots: Vec<Slot>,
    positions: Vec<u32>,
    random: Random,
}

impl Uniform {
    pub(super) fn new(capacity: Capacity) -> Self {
        Self {
            slots: Vec::with_capacity(capacity.entries as usize),
            positions: vec![0; capacity.entries as usize],
            random: Random::new(0, 0),
        }
    }
}

impl Policy for Uniform {
    fn hit(&mut self, _slot: Slot) {}

    fn evict(&mut self, _incoming: Option<Object>) -> Option<Slot> {
        let position = self.random.below(self.slots.len() as u64);
        let slot = *self.slots.get(usize::try_from(position).ok()?)?;
        self.remove(slot);
        Some(slot)
    }

    fn insert(&mut self, slot: Slot, _object: Object) {
        self.positions[slot as usize] = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        self.slots.push(slot);
    }

    fn remove(&mut self, slot: Slot) {
        let position = self.positions[slot as usize];
        self.slots.swap_remove(position as usize);
        if let Some(&moved) = self.slots.get(position as usize) {
            self.positions[moved as usize] = position;
        }
    }
}
