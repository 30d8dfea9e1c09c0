use super::{Capacity, Object, Policy, Slot};
use crate::queue::{Links, Queue};

/// Least recently used.
#[derive(Debug)]
pub(super) struct Lru {
    links: Links,
    queue: Queue,
}

impl Lru {
    pub(super) fn new(capacity: Capacity) -> Self {
        Self { links: Links::new(capacity.entries), queue: Queue::new() }
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
