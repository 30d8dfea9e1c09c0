use super::{Capacity, Class, Object, Policy, Slot};
use crate::queue::{SlotLinks, SlotQueue};

/// NFD's priority FIFO (NFD Developer's Guide, section 3.3): unsolicited Data is evicted before stale, stale
/// before fresh; each queue in the order in which Data entered it. Unsolicited Data stays in its queue when it
/// becomes stale.
#[derive(Debug)]
pub(super) struct PriorityFifo {
    links: SlotLinks,
    classes: Vec<Class>,
    queues: [SlotQueue; 3],
}

impl PriorityFifo {
    pub(super) fn new(capacity: Capacity) -> Self {
        Self {
            links: SlotLinks::new(capacity.entries),
            classes: vec![Class::Fresh; capacity.entries as usize],
            queues: [SlotQueue::new(), SlotQueue::new(), SlotQueue::new()],
        }
    }

    fn push(&mut self, slot: Slot, weight: u32, class: Class) {
        self.classes[slot as usize] = class;
        self.queues[rank(class)].push(&mut self.links, slot, weight);
    }
}

/// Number of a class's queue, in the order of eviction.
const fn rank(class: Class) -> usize {
    match class {
        Class::Unsolicited => 0,
        Class::Stale => 1,
        Class::Fresh => 2,
    }
}

impl Policy for PriorityFifo {
    fn hit(&mut self, _slot: Slot) {}

    fn evict(&mut self, _incoming: Option<Object>) -> Option<Slot> {
        let links = &mut self.links;
        self.queues.iter_mut().find_map(|queue| queue.pop(links))
    }

    fn insert(&mut self, slot: Slot, object: Object) {
        self.push(slot, object.weight, object.class);
    }

    fn remove(&mut self, slot: Slot) {
        self.queues[rank(self.classes[slot as usize])].remove(&mut self.links, slot);
    }

    fn reclassify(&mut self, slot: Slot, class: Class) {
        let old = self.classes[slot as usize];
        if old != class && (old, class) != (Class::Unsolicited, Class::Stale) {
            let weight = self.links.weight(slot);
            self.remove(slot);
            self.push(slot, weight, class);
        }
    }
}
