use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Capacity, Object, Penalties, Policy, Slot, Worth};
use crate::heap::Heap;

/// Millionths of a request.
type Amount = u64;

/// Scores of the objects by key, which the virtual plane publishes and caches read.
#[derive(Debug)]
pub struct Scores {
    scores: Vec<AtomicU64>,
}

impl Scores {
    /// Scores of 0 for the keys below `objects`.
    #[must_use]
    pub fn new(objects: usize) -> Arc<Self> {
        Arc::new(Self { scores: (0..objects).map(|_| AtomicU64::new(0)).collect() })
    }

    /// Publishes the score of an object.
    pub fn set(&self, object: usize, score: Amount) {
        self.scores[object].store(score, Ordering::Relaxed);
    }

    fn score(&self, key: u64) -> Amount {
        let entry = usize::try_from(key).ok().and_then(|key| self.scores.get(key));
        entry.map_or(0, |score| score.load(Ordering::Relaxed))
    }
}

/// Replacement of VIP: the object of the lowest [worth](Worth) leaves, if that of writing the incoming object exceeds
/// it. Scores are as of the object's insertion or the last call of [`ScorePolicy::rescore`].
#[derive(Debug)]
pub struct ScorePolicy {
    scores: Arc<Scores>,
    heap: Heap<(u64, Slot)>,
    objects: Vec<Object>,
    penalties: Penalties,
}

impl ScorePolicy {
    /// The policy of a cache.
    #[must_use]
    pub fn new(scores: Arc<Scores>, capacity: Capacity, penalties: Penalties) -> Self {
        let entries = capacity.entries as usize;
        Self {
            scores,
            heap: Heap::new(capacity.entries),
            objects: vec![Object::unit(0); entries],
            penalties,
        }
    }

    fn worth(&self, object: Object) -> Worth {
        Worth::new(self.scores.score(object.key), object.weight.into(), self.penalties)
    }
}

impl Policy for ScorePolicy {
    fn hit(&mut self, _slot: Slot) {}

    fn evict(&mut self, incoming: Option<Object>) -> Option<Slot> {
        let ((worth, _), slot) = self.heap.first()?;
        if incoming.is_some_and(|incoming| self.worth(incoming).admitted <= worth) {
            return None;
        }
        self.heap.remove(slot);
        Some(slot)
    }

    fn insert(&mut self, slot: Slot, object: Object) {
        self.objects[slot as usize] = object;
        self.heap.push(slot, (self.worth(object).kept, slot));
    }

    fn remove(&mut self, slot: Slot) {
        self.heap.remove(slot);
    }

    fn rescore(&mut self) {
        let Self { scores, objects, penalties, heap } = self;
        heap.map(|(_, slot)| {
            let Object { key, weight, .. } = objects[slot as usize];
            (Worth::new(scores.score(key), weight.into(), *penalties).kept, slot)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cache;

    #[test]
    fn replacement_needs_a_gain_above_the_penalty() {
        let scores = Scores::new(4);
        (0..4).for_each(|object| scores.set(object, [5, 3, 6, 9][object]));
        let capacity = Capacity::entries(2);
        let penalties = Penalties { read: 1, write: 3 };
        let policy = ScorePolicy::new(scores.clone(), capacity, penalties);
        let mut cache = Cache::with_policy(Box::new(policy), capacity);
        let store = |cache: &mut Cache, key| {
            let mut evicted = None;
            let is_stored = cache.store(Object::unit(key), |object| evicted = Some(object.key));
            (is_stored, evicted)
        };
        assert_eq!(store(&mut cache, 0), (true, None));
        assert_eq!(store(&mut cache, 1), (true, None));
        assert_eq!(store(&mut cache, 2), (false, None), "gain 3");
        assert_eq!(store(&mut cache, 3), (true, Some(1)), "gain 6");
        scores.set(0, 100);
        scores.set(2, 50);
        cache.rescore();
        assert_eq!(store(&mut cache, 2), (true, Some(3)));
    }
}
