//! LRU cache of bounded weight.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Key of everything that belongs to a path: the value of its name.
pub(crate) type Key = Arc<[u8]>;

#[derive(Debug)]
struct Slot<V> {
    value: V,
    weight: usize,
    used: u64,
}

/// Values with weights; the sum of the weights is at most `weight_max`.
#[derive(Debug)]
pub(crate) struct Lru<V> {
    slots: HashMap<Key, Slot<V>>,
    /// Keys by time of last use.
    order: BTreeMap<u64, Key>,
    clock: u64,
    weight: usize,
    weight_max: usize,
}

impl<V> Lru<V> {
    pub(crate) fn new(weight_max: usize) -> Self {
        let (slots, order) = (HashMap::new(), BTreeMap::new());
        Self { slots, order, clock: 0, weight: 0, weight_max }
    }

    /// Finds a value and marks it as most recently used.
    pub(crate) fn find(&mut self, key: &[u8]) -> Option<&V> {
        let slot = self.slots.get_mut(key)?;
        self.clock += 1;
        let name = self.order.remove(&slot.used)?;
        self.order.insert(self.clock, name);
        slot.used = self.clock;
        Some(&slot.value)
    }

    /// Inserts or replaces a value. A value heavier than `weight_max` is not kept.
    pub(crate) fn insert(&mut self, key: &Key, value: V, weight: usize) {
        self.insert_sparing(key, value, weight, |_| false);
    }

    /// The same; values that `is_spared` are removed only if there are no others.
    pub(crate) fn insert_sparing(
        &mut self,
        key: &Key,
        value: V,
        weight: usize,
        is_spared: impl Fn(&V) -> bool,
    ) {
        self.remove(key);
        if weight > self.weight_max {
            return;
        }
        while self.weight + weight > self.weight_max {
            let is_free =
                |key: &&Key| self.slots.get(*key).is_none_or(|slot| !is_spared(&slot.value));
            let free = self.order.values().find(is_free);
            let Some(oldest) = free.or_else(|| self.order.values().next()) else {
                break;
            };
            let oldest = Arc::clone(oldest);
            self.remove(&oldest);
        }
        self.clock += 1;
        self.weight += weight;
        self.order.insert(self.clock, Arc::clone(key));
        self.slots.insert(Arc::clone(key), Slot { value, weight, used: self.clock });
    }

    pub(crate) fn remove(&mut self, key: &[u8]) {
        if let Some(slot) = self.slots.remove(key) {
            self.order.remove(&slot.used);
            self.weight -= slot.weight;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn agrees_with_a_list(operations in prop::collection::vec((0_u8..3, 0_u8..8, 0_usize..6), 0..200)) {
            const WEIGHT_MAX: usize = 10;
            let mut lru = Lru::new(WEIGHT_MAX);
            // The most recently used at the end.
            let mut list: Vec<(u8, usize, usize)> = Vec::new();
            for (step, (operation, key, weight)) in operations.into_iter().enumerate() {
                let name: Key = Arc::from([key]);
                let place = list.iter().position(|entry| entry.0 == key);
                match operation {
                    0 => {
                        let entry = place.map(|place| list.remove(place));
                        prop_assert_eq!(lru.find(&name).copied(), entry.map(|entry| entry.1));
                        list.extend(entry);
                    }
                    1 => {
                        lru.insert(&name, step, weight * 2);
                        place.map(|place| list.remove(place));
                        while list.iter().map(|entry| entry.2).sum::<usize>() + weight * 2 > WEIGHT_MAX {
                            list.remove(0);
                        }
                        list.push((key, step, weight * 2));
                    }
                    _ => {
                        lru.remove(&name);
                        place.map(|place| list.remove(place));
                    }
                }
                prop_assert_eq!(lru.slots.len(), list.len());
                prop_assert_eq!(lru.order.len(), list.len());
                prop_assert_eq!(lru.weight, list.iter().map(|entry| entry.2).sum::<usize>());
            }
        }
    }

    #[test]
    fn value_above_the_capacity_is_not_cached() {
        let mut lru = Lru::new(10);
        let key: Key = Arc::from([1]);
        lru.insert(&key, 1, 11);
        assert!(lru.find(&key).is_none());
    }

    #[test]
    fn spared_values_are_removed_last() {
        let mut lru = Lru::new(2);
        let keys: [Key; 4] = [1_u8, 2, 3, 4].map(|key| Arc::from([key]));
        for (key, value) in keys.iter().zip(1..=3) {
            lru.insert_sparing(key, value, 1, |value| *value == 1);
        }
        assert_eq!([0, 1, 2].map(|n| lru.find(&keys[n]).copied()), [Some(1), None, Some(3)]);
        lru.insert_sparing(&keys[3], 4, 2, |_| true);
        assert_eq!([0, 2, 3].map(|n| lru.find(&keys[n]).copied()), [None, None, Some(4)]);
    }
}
