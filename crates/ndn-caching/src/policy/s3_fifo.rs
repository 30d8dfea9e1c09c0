use super::{Capacity, Object, Policy, Slot};
use crate::ghosts::Ghosts;
use crate::queue::{SlotLinks, SlotQueue};

/// Largest number of requests that is counted.
const COUNT_MAX: u8 = 3;

#[derive(Debug, Clone, Copy)]
struct Entry {
    key: u64,
    count: u8,
    is_main: bool,
}

/// S3-FIFO (Yang, Zhang, Qiu, Yue, Rashmi: "FIFO Queues Are All You Need for Cache Eviction", SOSP 2023,
/// algorithm 1). A tenth of the capacity is the small queue; objects requested more than once in it move to the
/// main queue, others leave a ghost. An object whose ghost remains enters the main queue. One call evicts one
/// object: if a move fills the main queue beyond nine tenths, that object comes from the main queue.
#[derive(Debug)]
pub(super) struct S3Fifo {
    links: SlotLinks,
    entries: Vec<Entry>,
    small: SlotQueue,
    main: SlotQueue,
    ghosts: Ghosts,
    small_weight_max: u64,
    main_weight_max: u64,
}

impl S3Fifo {
    pub(super) fn new(capacity: Capacity) -> Self {
        let mut policy = Self {
            links: SlotLinks::new(capacity.entries),
            entries: vec![Entry { key: 0, count: 0, is_main: false }; capacity.entries as usize],
            small: SlotQueue::new(),
            main: SlotQueue::new(),
            ghosts: Ghosts::new(capacity.entries),
            small_weight_max: 0,
            main_weight_max: 0,
        };
        policy.set_capacity(capacity.weight);
        policy
    }

    fn evict_small(&mut self) -> Option<Slot> {
        while let Some(slot) = self.small.pop(&mut self.links) {
            let entry = &mut self.entries[slot as usize];
            let weight = self.links.weight(slot);
            if entry.count <= 1 {
                self.ghosts.push(entry.key, weight);
                while self.ghosts.weight() > self.main_weight_max {
                    self.ghosts.pop();
                }
                return Some(slot);
            }
            entry.count = 0;
            entry.is_main = true;
            self.main.push(&mut self.links, slot, weight);
            if self.main.weight() > self.main_weight_max {
                return self.evict_main();
            }
        }
        None
    }

    fn evict_main(&mut self) -> Option<Slot> {
        while let Some(slot) = self.main.pop(&mut self.links) {
            let count = &mut self.entries[slot as usize].count;
            if *count == 0 {
                return Some(slot);
            }
            *count -= 1;
            let weight = self.links.weight(slot);
            self.main.push(&mut self.links, slot, weight);
        }
        None
    }
}

impl Policy for S3Fifo {
    fn hit(&mut self, slot: Slot) {
        let count = &mut self.entries[slot as usize].count;
        *count = (*count + 1).min(COUNT_MAX);
    }

    fn evict(&mut self, _incoming: Option<Object>) -> Option<Slot> {
        if self.small.weight() >= self.small_weight_max || self.main.is_empty() {
            self.evict_small().or_else(|| self.evict_main())
        } else {
            self.evict_main()
        }
    }

    fn insert(&mut self, slot: Slot, object: Object) {
        let is_main = self.ghosts.remove(object.key);
        self.entries[slot as usize] = Entry { key: object.key, count: 0, is_main };
        let queue = if is_main { &mut self.main } else { &mut self.small };
        queue.push(&mut self.links, slot, object.weight);
    }

    fn set_capacity(&mut self, weight: u64) {
        self.small_weight_max = (weight / 10).max(1);
        self.main_weight_max = weight.saturating_sub(self.small_weight_max);
    }

    fn remove(&mut self, slot: Slot) {
        let is_main = self.entries[slot as usize].is_main;
        let queue = if is_main { &mut self.main } else { &mut self.small };
        queue.remove(&mut self.links, slot);
    }
}
