//! A cache: objects by key, under a capacity and a replacement policy.

use hashbrown::HashTable;
use ndn_types::random::mix;

use crate::policy::{Capacity, Class, Object, Policy, PolicyKind, Slot};

/// Objects that fit into a capacity. It does not allocate after its creation.
#[derive(Debug)]
pub struct Cache {
    policy: Box<dyn Policy>,
    capacity: Capacity,
    /// Maximum of `capacity.weight`.
    weight_max: u64,
    weight: u64,
    objects: Vec<Object>,
    free: Vec<Slot>,
    index: HashTable<Slot>,
}

/// Outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheOutcome {
    /// The object was cached.
    Hit,
    /// The object was not cached and is now.
    Stored,
    /// The object was not cached, and the policy did not accept it or it exceeds the capacity.
    Refused,
}

impl Cache {
    /// An empty cache with the policy `kind`.
    #[must_use]
    pub fn new(kind: PolicyKind, capacity: Capacity) -> Self {
        Self::with_policy(kind.build(capacity), capacity)
    }

    /// An empty cache with a policy that was built for `capacity`.
    #[must_use]
    pub fn with_policy(policy: Box<dyn Policy>, capacity: Capacity) -> Self {
        let vacant = Object { key: 0, weight: 0, class: Class::Fresh };
        Self {
            policy,
            capacity,
            weight_max: capacity.weight,
            weight: 0,
            objects: vec![vacant; capacity.entries as usize],
            free: (0..capacity.entries).rev().collect(),
            index: HashTable::with_capacity(2 * capacity.entries as usize),
        }
    }

    /// Whether the object is cached. The policy does not see it.
    #[must_use]
    pub fn contains(&self, key: u64) -> bool {
        self.slot(key).is_some()
    }

    /// Number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether there are no objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Sum of the weights of the objects.
    #[must_use]
    pub fn weight(&self) -> u64 {
        self.weight
    }

    /// A request for an object: whether it is cached.
    #[inline]
    pub fn lookup(&mut self, object: Object) -> bool {
        if let Some(slot) = self.slot(object.key) {
            self.policy.hit(slot);
            return true;
        }
        self.policy.miss(object);
        false
    }

    /// Stores an object that is not cached. Returns whether it was stored, and calls `evicted` for each
    /// object that made room.
    pub fn store(&mut self, object: Object, mut evicted: impl FnMut(Object)) -> bool {
        let weight = u64::from(object.weight);
        if weight > self.capacity.weight || self.contains(object.key) {
            return false;
        }
        while self.weight + weight > self.capacity.weight || self.free.is_empty() {
            let Some(slot) = self.policy.evict(Some(object)) else { return false };
            evicted(self.release(slot));
        }
        let Some(slot) = self.free.pop() else { return false };
        self.objects[slot as usize] = object;
        self.weight += weight;
        let objects = &self.objects;
        self.index.insert_unique(mix(object.key), slot, |&slot| mix(objects[slot as usize].key));
        self.policy.insert(slot, object);
        true
    }

    /// A request for an object that is stored if it is not cached.
    pub fn request(&mut self, object: Object, evicted: impl FnMut(Object)) -> CacheOutcome {
        if self.lookup(object) {
            CacheOutcome::Hit
        } else if self.store(object, evicted) {
            CacheOutcome::Stored
        } else {
            CacheOutcome::Refused
        }
    }

    /// Removes an object. Returns whether it was cached.
    pub fn erase(&mut self, key: u64) -> bool {
        let Some(slot) = self.slot(key) else { return false };
        self.policy.remove(slot);
        self.release(slot);
        true
    }

    /// Changes the class of a cached object, for example when its freshness ends.
    pub fn reclassify(&mut self, key: u64, class: Class) {
        if let Some(slot) = self.slot(key) {
            self.objects[slot as usize].class = class;
            self.policy.reclassify(slot, class);
        }
    }

    /// Changes the maximum sum of the weights, to at most the one at the creation. Calls `evicted` for each object that
    /// exceeds it.
    pub fn set_capacity(&mut self, weight: u64, mut evicted: impl FnMut(Object)) {
        self.capacity.weight = weight.min(self.weight_max);
        self.policy.set_capacity(self.capacity.weight);
        while self.weight > self.capacity.weight {
            let Some(slot) = self.policy.evict(None) else { return };
            evicted(self.release(slot));
        }
    }

    /// Scores that the policy reads from outside changed.
    pub fn rescore(&mut self) {
        self.policy.rescore();
    }

    #[inline]
    fn slot(&self, key: u64) -> Option<Slot> {
        self.index.find(mix(key), |&slot| self.objects[slot as usize].key == key).copied()
    }

    /// Releases a slot that the policy no longer holds.
    fn release(&mut self, slot: Slot) -> Object {
        let object = self.objects[slot as usize];
        if let Ok(entry) = self.index.find_entry(mix(object.key), |&found| found == slot) {
            entry.remove();
            self.weight -= u64::from(object.weight);
            self.free.push(slot);
        }
        object
    }
}
