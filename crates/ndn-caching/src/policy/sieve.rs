use super::{Capacity, Object, Policy, Slot};
use crate::queue::{SlotLinks, SlotQueue};

/// SIEVE (Zhang, Yang, Yue, Vigfusson, Rashmi: "SIEVE is Simpler than LRU", NSDI 2024): a FIFO queue; a hand
/// moves from old to new, clears the mark of requested objects and evicts the first without.
#[derive(Debug)]
pub(super) struct Sieve {
    links: SlotLinks,
    queue: SlotQueue,
    is_visited: Vec<bool>,
    hand: Option<Slot>,
}

impl Sieve {
    pub(super) fn new(capacity: Capacity) -> Self {
        Self {
            links: SlotLinks::new(capacity.entries),
            queue: SlotQueue::new(),
            is_visited: vec![false; capacity.entries as usize],
            hand: None,
        }
    }
}

impl Policy for Sieve {
    fn hit(&mut self, slot: Slot) {
        self.is_visited[slot as usize] = true;
    }

    fn evict(&mut self, _incoming: Option<Object>) -> Option<Slot> {
        let mut slot = self.hand.or(self.queue.oldest())?;
        while self.is_visited[slot as usize] {
            self.is_visited[slot as usize] = false;
            slot = self.links.newer(slot).or(self.queue.oldest())?;
        }
        self.hand = self.links.newer(slot);
        self.queue.remove(&mut self.links, slot);
        Some(slot)
    }

    fn insert(&mut self, slot: Slot, object: Object) {
        self.is_visited[slot as usize] = false;
        self.queue.push(&mut self.links, slot, object.weight);
    }

    fn remove(&mut self, slot: Slot) {
        if self.hand == Some(slot) {
            self.hand = self.links.newer(slot);
        }
        self.queue.remove(&mut self.links, slot);
    }
}
