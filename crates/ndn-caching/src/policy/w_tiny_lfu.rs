use super::{Capacity, Object, Policy, Slot};
use crate::queue::{SlotLinks, SlotQueue};
use crate::sketch::Sketch;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Segment {
    Window,
    Probation,
    Protected,
}

/// W-TinyLFU (Einziger, Friedman, Manes: "TinyLFU: A Highly Efficient Cache Admission Policy", ACM
/// Transactions on Storage 13(4), 2017, section 4): an LRU window of 1 % of the capacity, and a segmented LRU
/// of which 80 % are protected. An object that leaves the window enters the segmented LRU if there is room, or if
/// its estimated number of requests is larger than that of the object that it would replace. An object that is heavier
/// than the window is compared when it arrives, unless there is room for it. Without the paper's optional doorkeeper.
#[derive(Debug)]
pub(super) struct WTinyLfu {
    links: SlotLinks,
    entries: Vec<(u64, Segment)>,
    window: SlotQueue,
    probation: SlotQueue,
    protected: SlotQueue,
    sketch: Sketch,
    window_weight_max: u64,
    main_weight_max: u64,
    protected_weight_max: u64,
}

impl WTinyLfu {
    pub(super) fn new(capacity: Capacity) -> Self {
        let mut policy = Self {
            links: SlotLinks::new(capacity.entries),
            entries: vec![(0, Segment::Window); capacity.entries as usize],
            window: SlotQueue::new(),
            probation: SlotQueue::new(),
            protected: SlotQueue::new(),
            sketch: Sketch::new(capacity.entries),
            window_weight_max: 0,
            main_weight_max: 0,
            protected_weight_max: 0,
        };
        policy.set_shares(capacity.weight);
        policy
    }

    fn set_shares(&mut self, weight: u64) {
        self.window_weight_max = (weight / 100).max(1);
        self.main_weight_max = weight.saturating_sub(self.window_weight_max);
        self.protected_weight_max = self.main_weight_max / 5 * 4 + self.main_weight_max % 5 * 4 / 5;
    }

    /// Moves the oldest objects of a window that is too heavy to the main part, while they fit.
    fn drain_window(&mut self, incoming_weight: u32) {
        while let Some(slot) = self.candidate(incoming_weight) {
            let weight = self.links.weight(slot);
            if self.main_weight() + u64::from(weight) > self.main_weight_max {
                break;
            }
            self.window.remove(&mut self.links, slot);
            self.probation.push(&mut self.links, slot, weight);
            self.entries[slot as usize].1 = Segment::Probation;
        }
    }

    /// The object that leaves the window if one of `incoming_weight` enters it.
    fn candidate(&self, incoming_weight: u32) -> Option<Slot> {
        let weight = self.window.weight() + u64::from(incoming_weight);
        self.window.oldest().filter(|_| weight > self.window_weight_max)
    }

    fn is_heavy(&self, object: Object) -> bool {
        u64::from(object.weight) > self.window_weight_max
    }

    fn main_weight(&self) -> u64 {
        self.probation.weight() + self.protected.weight()
    }

    /// Chooses an object that makes room for one that is heavier than the window.
    #[cold]
    fn evict_for_heavy(&mut self, incoming: Object) -> Option<Slot> {
        let Some(victim) = self.probation.oldest().or(self.protected.oldest()) else {
            return self.window.pop(&mut self.links);
        };
        if self.sketch.estimate(incoming.key) <= self.estimate(victim) {
            return None;
        }
        self.remove(victim);
        Some(victim)
    }

    fn estimate(&self, slot: Slot) -> u64 {
        self.sketch.estimate(self.entries[slot as usize].0)
    }
}

impl Policy for WTinyLfu {
    fn hit(&mut self, slot: Slot) {
        let (key, segment) = self.entries[slot as usize];
        self.sketch.count(key);
        match segment {
            Segment::Window => self.window.touch(&mut self.links, slot),
            Segment::Protected => self.protected.touch(&mut self.links, slot),
            Segment::Probation => {
                let weight = self.links.weight(slot);
                self.probation.remove(&mut self.links, slot);
                self.protected.push(&mut self.links, slot, weight);
                self.entries[slot as usize].1 = Segment::Protected;
                while self.protected.weight() > self.protected_weight_max {
                    let Some(oldest) = self.protected.pop(&mut self.links) else { break };
                    let weight = self.links.weight(oldest);
                    self.probation.push(&mut self.links, oldest, weight);
                    self.entries[oldest as usize].1 = Segment::Probation;
                }
            }
        }
    }

    fn miss(&mut self, object: Object) {
        self.sketch.count(object.key);
    }

    fn evict(&mut self, incoming: Option<Object>) -> Option<Slot> {
        if let Some(heavy) = incoming.filter(|object| self.is_heavy(*object)) {
            return self.evict_for_heavy(heavy);
        }
        let incoming_weight = incoming.map_or(0, |object| object.weight);
        self.drain_window(incoming_weight);
        let main = self.probation.oldest().or(self.protected.oldest());
        let evicted = match (self.candidate(incoming_weight), main) {
            (Some(candidate), Some(victim)) => {
                if self.estimate(candidate) > self.estimate(victim) {
                    victim
                } else {
                    candidate
                }
            }
            (Some(candidate), None) => candidate,
            (None, Some(victim)) => victim,
            (None, None) => return self.window.pop(&mut self.links),
        };
        self.remove(evicted);
        self.drain_window(incoming_weight);
        Some(evicted)
    }

    fn insert(&mut self, slot: Slot, object: Object) {
        let weight = u64::from(object.weight);
        if self.is_heavy(object) && self.main_weight() + weight <= self.main_weight_max {
            self.entries[slot as usize] = (object.key, Segment::Probation);
            self.probation.push(&mut self.links, slot, object.weight);
            return;
        }
        self.entries[slot as usize] = (object.key, Segment::Window);
        self.window.push(&mut self.links, slot, object.weight);
        self.drain_window(0);
    }

    fn set_capacity(&mut self, weight: u64) {
        self.set_shares(weight);
        self.sketch.set_sample(weight);
    }

    fn remove(&mut self, slot: Slot) {
        let queue = match self.entries[slot as usize].1 {
            Segment::Window => &mut self.window,
            Segment::Probation => &mut self.probation,
            Segment::Protected => &mut self.protected,
        };
        queue.remove(&mut self.links, slot);
    }
}
