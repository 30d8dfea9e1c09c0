use super::{Capacity, Object, Policy, Slot};
use crate::queue::{SlotLinks, SlotQueue};

/// Least recently used.
#[derive(Debug)]
pub(super) struct Lru {
    links: SlotLinks,
    queue: SlotQueue,
}

impl Lru {
    pub(super) fn new(capacity: Capacity) -> Self {
        Self { links: SlotLinks::new(capacity.entries), queue: SlotQueue::new() }
    }
}

impl Policy for Lru {
    fn hit(&mut self, slot: Slot) {
        self.queue.touch(&mut self.links, slot);
    }

    fn evict(&mut self, _incoming: Option<Object>) -> Option<Slot> {
        self.queue.pop(&mut self.links)
    }

    fn insert(&mut self, slot: Slot, object: Object) {
        self.queue.push(&mut self.links, slot, object.weight);
    }

    fn remove(&mut self, slot: Slot) {
        self.queue.remove(&mut self.links, slot);
    }
}
