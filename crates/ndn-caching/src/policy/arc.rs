use super::{Capacity, Object, Policy, Slot};
use crate::ghosts::Ghosts;
use crate::queue::{SlotLinks, SlotQueue};

/// Adaptive replacement cache (Megiddo, Modha: "ARC: A Self-Tuning, Low Overhead Replacement Cache", FAST
/// 2003, figure 4). The paper's lengths are weights here: with weights of 1 they are the same.
#[derive(Debug)]
pub(super) struct Arc {
    links: SlotLinks,
    /// Key, and whether it is in `frequent`.
    entries: Vec<(u64, bool)>,
    /// T1: requested once.
    recent: SlotQueue,
    /// T2: requested at least twice.
    frequent: SlotQueue,
    /// B1: evicted from `recent`.
    recent_ghosts: Ghosts,
    /// B2: evicted from `frequent`.
    frequent_ghosts: Ghosts,
    /// p: weight to which `recent` is to shrink or grow.
    recent_weight_target: f64,
    weight_max: u64,
}

impl Arc {
    pub(super) fn new(capacity: Capacity) -> Self {
        Self {
            links: SlotLinks::new(capacity.entries),
            entries: vec![(0, false); capacity.entries as usize],
            recent: SlotQueue::new(),
            frequent: SlotQueue::new(),
            recent_ghosts: Ghosts::new(capacity.entries),
            // After removals these can be the whole directory of twice the capacity.
            frequent_ghosts: Ghosts::new(capacity.entries.saturating_mul(2)),
            recent_weight_target: 0.0,
            weight_max: capacity.weight,
        }
    }

    /// |L1| of the paper.
    fn recent_sum(&self) -> u64 {
        self.recent.weight() + self.recent_ghosts.weight()
    }

    /// |L1| + |L2| of the paper.
    fn sum(&self) -> u64 {
        self.recent_sum() + self.frequent.weight() + self.frequent_ghosts.weight()
    }

    /// REPLACE of the paper.
    fn replace(&mut self, is_frequent_ghost: bool) -> Option<Slot> {
        let recent = self.recent.weight() as f64;
        let target = self.recent_weight_target;
        let is_recent = recent > target || is_frequent_ghost && recent >= target;
        if !self.recent.is_empty() && (is_recent || self.frequent.is_empty()) {
            let slot = self.recent.pop(&mut self.links)?;
            self.recent_ghosts.push(self.entries[slot as usize].0, self.links.weight(slot));
            return Some(slot);
        }
        let slot = self.frequent.pop(&mut self.links)?;
        self.frequent_ghosts.push(self.entries[slot as usize].0, self.links.weight(slot));
        Some(slot)
    }
}

impl Policy for Arc {
    fn hit(&mut self, slot: Slot) {
        let is_frequent = &mut self.entries[slot as usize].1;
        if *is_frequent {
            self.frequent.touch(&mut self.links, slot);
        } else {
            *is_frequent = true;
            let weight = self.links.weight(slot);
            self.recent.remove(&mut self.links, slot);
            self.frequent.push(&mut self.links, slot, weight);
        }
    }

    fn miss(&mut self, object: Object) {
        let recent = self.recent_ghosts.weight() as f64;
        let frequent = self.frequent_ghosts.weight() as f64;
        let weight = f64::from(object.weight);
        if self.recent_ghosts.contains(object.key) {
            let target = self.recent_weight_target + weight * (frequent / recent).max(1.0);
            self.recent_weight_target = target.min(self.weight_max as f64);
        } else if self.frequent_ghosts.contains(object.key) {
            let target = self.recent_weight_target - weight * (recent / frequent).max(1.0);
            self.recent_weight_target = target.max(0.0);
        }
    }

    fn evict(&mut self, incoming: Option<Object>) -> Option<Slot> {
        let Some(incoming) = incoming else { return self.replace(false) };
        if self.frequent_ghosts.contains(incoming.key) {
            return self.replace(true);
        }
        if self.recent_ghosts.contains(incoming.key) {
            return self.replace(false);
        }
        let weight = u64::from(incoming.weight);
        if self.recent_sum() + weight > self.weight_max {
            if self.recent_ghosts.weight() == 0 {
                return self.recent.pop(&mut self.links);
            }
            while self.recent_sum() + weight > self.weight_max && self.recent_ghosts.pop() {}
        } else {
            while self.sum() + weight > 2 * self.weight_max && self.frequent_ghosts.pop() {}
        }
        self.replace(false)
    }

    fn insert(&mut self, slot: Slot, object: Object) {
        let is_recent_ghost = self.recent_ghosts.remove(object.key);
        let is_frequent = self.frequent_ghosts.remove(object.key) || is_recent_ghost;
        self.entries[slot as usize] = (object.key, is_frequent);
        let queue = if is_frequent { &mut self.frequent } else { &mut self.recent };
        queue.push(&mut self.links, slot, object.weight);
        // Holds already if every object entered after `evict`; not after removals.
        while self.recent_sum() > self.weight_max && self.recent_ghosts.pop() {}
        while self.sum() > 2 * self.weight_max
            && (self.frequent_ghosts.pop() || self.recent_ghosts.pop())
        {}
    }

    fn set_capacity(&mut self, weight: u64) {
        self.weight_max = weight;
        self.recent_weight_target = self.recent_weight_target.min(weight as f64);
    }

    fn remove(&mut self, slot: Slot) {
        let is_frequent = self.entries[slot as usize].1;
        let queue = if is_frequent { &mut self.frequent } else { &mut self.recent };
        queue.remove(&mut self.links, slot);
    }
}
