use super::{Capacity, Object, Policy, Slot};
use crate::heap::Heap;

/// Greedy dual, size and frequency (Cherkasova: "Improving WWW Proxies Performance with Greedy-Dual-Size-
/// Frequency Caching Policy", HP Labs HPL-98-69, 1998), with cost 1: the priority of an object is
/// clock + requests / weight, the smallest is evicted, and the clock becomes its priority. Of equal
/// priorities, the least recently used is evicted. Unlike in the paper, the incoming object is always stored.
#[derive(Debug)]
pub(super) struct Gdsf {
    /// Bits of the priority, which is positive, and number of the last request.
    heap: Heap<(u64, u64)>,
    counts: Vec<u32>,
    weights: Vec<u32>,
    clock: f64,
    requests: u64,
}

impl Gdsf {
    pub(super) fn new(capacity: Capacity) -> Self {
        Self {
            heap: Heap::new(capacity.entries),
            counts: vec![0; capacity.entries as usize],
            weights: vec![0; capacity.entries as usize],
            clock: 0.0,
            requests: 0,
        }
    }

    fn order(&mut self, slot: Slot) -> (u64, u64) {
        let count = f64::from(self.counts[slot as usize]);
        let weight = f64::from(self.weights[slot as usize].max(1));
        self.requests += 1;
        // Positive floating-point numbers and their bits have the same order.
        ((self.clock + count / weight).to_bits(), self.requests)
    }
}

impl Policy for Gdsf {
    fn hit(&mut self, slot: Slot) {
        let count = &mut self.counts[slot as usize];
        *count = count.saturating_add(1);
        let order = self.order(slot);
        self.heap.set(slot, order);
    }

    fn evict(&mut self, _incoming: Option<Object>) -> Option<Slot> {
        let ((priority, _), slot) = self.heap.first()?;
        self.clock = f64::from_bits(priority);
        self.heap.remove(slot);
        Some(slot)
    }

    fn insert(&mut self, slot: Slot, object: Object) {
        self.counts[slot as usize] = 1;
        self.weights[slot as usize] = object.weight;
        let order = self.order(slot);
        self.heap.push(slot, order);
    }

    fn remove(&mut self, slot: Slot) {
        self.heap.remove(slot);
    }
}
