//! Keys of objects that were evicted, in order of eviction.

use hashbrown::HashTable;
use ndn_types::random::mix;

use crate::queue::{SlotLinks, SlotQueue};

/// A queue of keys with a limit of entries. It does not allocate after its creation.
#[derive(Debug)]
pub(crate) struct Ghosts {
    links: SlotLinks,
    queue: SlotQueue,
    keys: Vec<u64>,
    free: Vec<u32>,
    index: HashTable<u32>,
}

impl Ghosts {
    /// An empty queue for up to `entries` keys.
    pub(crate) fn new(entries: u32) -> Self {
        Self {
            links: SlotLinks::new(entries),
            queue: SlotQueue::new(),
            keys: vec![0; entries as usize],
            free: (0..entries).rev().collect(),
            // Twice the size: the table then drops its tombstones in place.
            index: HashTable::with_capacity(2 * entries as usize),
        }
    }

    #[inline]
    pub(crate) fn weight(&self) -> u64 {
        self.queue.weight()
    }

    #[inline]
    pub(crate) fn contains(&self, key: u64) -> bool {
        self.index.find(mix(key), |&node| self.keys[node as usize] == key).is_some()
    }

    /// Adds `key` as the newest, or makes it the newest; drops the oldest key at the limit.
    pub(crate) fn push(&mut self, key: u64, weight: u32) {
        if !self.remove(key) && self.free.is_empty() {
            self.pop();
        }
        let Some(node) = self.free.pop() else { return };
        self.keys[node as usize] = key;
        self.queue.push(&mut self.links, node, weight);
        let keys = &self.keys;
        self.index.insert_unique(mix(key), node, |&node| mix(keys[node as usize]));
    }

    /// Drops the oldest key. Returns whether there was one.
    pub(crate) fn pop(&mut self) -> bool {
        let oldest = self.queue.oldest().map(|node| self.keys[node as usize]);
        oldest.is_some_and(|key| self.remove(key))
    }

    /// Removes `key`. Returns whether it was in the queue.
    pub(crate) fn remove(&mut self, key: u64) -> bool {
        let keys = &self.keys;
        let Ok(entry) = self.index.find_entry(mix(key), |&node| keys[node as usize] == key) else {
            return false;
        };
        let (node, _) = entry.remove();
        self.queue.remove(&mut self.links, node);
        self.free.push(node);
        true
    }
}
