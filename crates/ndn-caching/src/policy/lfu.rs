use super::{Capacity, Object, Policy, Slot};
use crate::heap::Heap;

/// Mean number of requests per cached object above which all numbers are halved.
pub(super) const MEAN_COUNT_MAX: u64 = 10;

/// Least frequently used with aging (Robinson, Devarakonda: "Data Cache Management Using Frequency-Based
/// Replacement", SIGMETRICS 1990): when the mean number of requests per cached object exceeds
/// [`MEAN_COUNT_MAX`], every number C becomes ⌈C/2⌉. Of equal numbers, the least recently used is evicted.
#[derive(Debug)]
pub(super) struct Lfu {
    /// Number of requests, number of the last request.
    heap: Heap<(u64, u64)>,
    count_sum: u64,
    requests: u64,
}

impl Lfu {
    pub(super) fn new(capacity: Capacity) -> Self {
        Self { heap: Heap::new(capacity.entries), count_sum: 0, requests: 0 }
    }

    fn age(&mut self) {
        self.count_sum += 1;
        self.requests += 1;
        let entries = self.heap.len() as u64;
        if self.count_sum > MEAN_COUNT_MAX * entries {
            self.heap.map(|(count, last)| (count.div_ceil(2), last));
            self.count_sum = self.heap.values().map(|(count, _)| count).sum();
        }
    }
}

impl Policy for Lfu {
    fn hit(&mut self, slot: Slot) {
        let (count, _) = self.heap.value(slot);
        self.heap.set(slot, (count + 1, self.requests));
        self.age();
    }

    fn evict(&mut self, _incoming: Option<Object>) -> Option<Slot> {
        let (_, slot) = self.heap.first()?;
        self.remove(slot);
        Some(slot)
    }

    fn insert(&mut self, slot: Slot, _object: Object) {
        self.heap.push(slot, (1, self.requests));
        self.age();
    }

    fn remove(&mut self, slot: Slot) {
        self.count_sum -= self.heap.value(slot).0;
        self.heap.remove(slot);
    }
}
