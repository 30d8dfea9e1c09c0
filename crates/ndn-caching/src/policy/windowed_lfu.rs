use hashbrown::HashTable;
use ndn_types::random::mix;

use super::{Capacity, Object, Policy, Slot};
use crate::heap::Heap;

/// Requests in the window, per entry of the cache.
pub(super) const REQUESTS_PER_ENTRY: u32 = 8;

#[derive(Debug, Clone, Copy)]
struct Counter {
    key: u64,
    count: u32,
    /// Slot of the object, if it is cached.
    slot: Option<Slot>,
}

/// Least frequently used among the last requests (Karakostas, Serpanos: "Exploitation of Different Types of
/// Locality for Web Caches", ISCC 2002): numbers of requests are counted over the last
/// [`REQUESTS_PER_ENTRY`] × capacity requests, for objects that are not cached, too. An object with fewer
/// requests than all that are cached is not stored. Of equal numbers, the least recently used is evicted. Of several
/// objects with one key, the last that was stored has their requests; the others are evicted first.
#[derive(Debug)]
pub(super) struct WindowedLfu {
    /// Number of requests in the window, number of the last event.
    heap: Heap<(u32, u64)>,
    keys: Vec<u64>,
    /// The last requests, a ring.
    window: Vec<u64>,
    window_max: usize,
    oldest: usize,
    counters: HashTable<Counter>,
    events: u64,
}

impl WindowedLfu {
    pub(super) fn new(capacity: Capacity) -> Self {
        let window_max = (capacity.entries as usize * REQUESTS_PER_ENTRY as usize).max(1);
        let counters = window_max + capacity.entries as usize;
        Self {
            heap: Heap::new(capacity.entries),
            keys: vec![0; capacity.entries as usize],
            window: Vec::with_capacity(window_max),
            window_max,
            oldest: 0,
            counters: HashTable::with_capacity(2 * counters),
            events: 0,
        }
    }

    /// The counter of `key`, made if there is none.
    fn counter(&mut self, key: u64) -> &mut Counter {
        self.counters
            .entry(mix(key), |counter| counter.key == key, |counter| mix(counter.key))
            .or_insert(Counter { key, count: 0, slot: None })
            .into_mut()
    }

    /// Removes the counter of `key` if it holds nothing.
    fn drop_counter(&mut self, key: u64) {
        let found = self.counters.find_entry(mix(key), |counter| counter.key == key);
        if let Ok(entry) = found
            && entry.get().count == 0
            && entry.get().slot.is_none()
        {
            entry.remove();
        }
    }

    fn count(&mut self, key: u64) {
        self.events += 1;
        if self.window.len() == self.window_max {
            let expired = std::mem::replace(&mut self.window[self.oldest], key);
            self.oldest = (self.oldest + 1) % self.window_max;
            let counter = self.counter(expired);
            counter.count -= 1;
            let Counter { count, slot, .. } = *counter;
            match slot {
                Some(slot) => {
                    let (_, last) = self.heap.value(slot);
                    self.heap.set(slot, (count, last));
                }
                None => self.drop_counter(expired),
            }
        } else {
            self.window.push(key);
        }
        let events = self.events;
        let counter = self.counter(key);
        counter.count += 1;
        let Counter { count, slot, .. } = *counter;
        if let Some(slot) = slot {
            self.heap.set(slot, (count, events));
        }
    }
}

impl Policy for WindowedLfu {
    fn hit(&mut self, slot: Slot) {
        self.count(self.keys[slot as usize]);
    }

    fn miss(&mut self, object: Object) {
        self.count(object.key);
    }

    fn evict(&mut self, incoming: Option<Object>) -> Option<Slot> {
        let ((count, _), slot) = self.heap.first()?;
        if let Some(Object { key, .. }) = incoming {
            let found = self.counters.find(mix(key), |counter| counter.key == key);
            if found.map_or(0, |counter| counter.count) < count {
                return None;
            }
        }
        self.remove(slot);
        Some(slot)
    }

    fn insert(&mut self, slot: Slot, object: Object) {
        self.keys[slot as usize] = object.key;
        let counter = self.counter(object.key);
        let former = counter.slot.replace(slot);
        let count = counter.count;
        if let Some(former) = former {
            let (_, last) = self.heap.value(former);
            self.heap.set(former, (0, last));
        }
        // Objects that are stored without a request keep their order.
        self.events += 1;
        self.heap.push(slot, (count, self.events));
    }

    fn remove(&mut self, slot: Slot) {
        self.heap.remove(slot);
        let key = self.keys[slot as usize];
        let counter = self.counter(key);
        if counter.slot == Some(slot) {
            counter.slot = None;
        }
        self.drop_counter(key);
    }
}
