use std::sync::Arc;

use hashbrown::HashTable;
use ndn_types::random::mix;

use super::{Capacity, Object, ObjectScores, Policy, Slot, Worth};
use crate::heap::Heap;
use crate::queue::{SlotLinks, SlotQueue};

/// Fixed point of [`Worth`]: VIPs per byte are small numbers.
const WORTH_SCALE: u128 = 1 << 20;

/// Scores that objects in a cache cost, in millionths of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Penalties {
    /// Of each cached object.
    pub read: u64,
    /// Of writing an object, in addition.
    pub write: u64,
}

impl Worth {
    /// The worth of an object with a score, in millionths of a request.
    #[must_use]
    pub fn new(score: u64, size_bytes: u64, penalties: Penalties) -> Self {
        let per_byte = |score: u64| {
            let worth = u128::from(score) * WORTH_SCALE / u128::from(size_bytes.max(1));
            u64::try_from(worth).unwrap_or(u64::MAX)
        };
        let score = score.saturating_sub(penalties.read);
        Self { kept: per_byte(score), admitted: per_byte(score.saturating_sub(penalties.write)) }
    }
}

#[derive(Debug, Clone)]
struct Cached {
    key: u64,
    segments: SlotQueue,
}

/// Replacement of VIP in a Content Store: whole objects by their worth. Segments with the same key are one object, of which
/// the last ones are evicted first. Objects without a worth are evicted before all others, the least recently used one
/// first. A segment is refused if all cached objects are worth as much as admitting its own, or more; as much as keeping
/// it, if other segments of it are cached. Without [scores](Policy::set_scores) it is LRU of objects.
#[derive(Debug)]
pub struct ObjectPolicy {
    scores: Arc<ObjectScores>,
    /// The object of each slot.
    object_of: Vec<u32>,
    segments: SlotLinks,
    /// The cached objects, by number.
    cached: Vec<Cached>,
    free: Vec<u32>,
    /// Number of an object, by key.
    index: HashTable<u32>,
    objects: SlotLinks,
    /// Objects without a worth, in the order of use.
    without: SlotQueue,
    /// Objects with a worth: worth and number.
    with: Heap<(u64, u32)>,
}

impl ObjectPolicy {
    /// The policy of a Content Store without scores.
    #[must_use]
    pub fn new(capacity: Capacity) -> Self {
        let entries = capacity.entries;
        Self {
            scores: Arc::default(),
            object_of: vec![0; entries as usize],
            segments: SlotLinks::new(entries),
            cached: vec![Cached { key: 0, segments: SlotQueue::new() }; entries as usize],
            free: (0..entries).rev().collect(),
            // Twice the size: the table then drops its tombstones in place.
            index: HashTable::with_capacity(2 * entries as usize),
            objects: SlotLinks::new(entries),
            without: SlotQueue::new(),
            with: Heap::new(entries),
        }
    }

    fn worth(&self, key: u64) -> Worth {
        self.scores.get(&key).copied().unwrap_or_default()
    }

    fn find(&self, key: u64) -> Option<u32> {
        let cached = &self.cached;
        self.index.find(mix(key), |&number| cached[number as usize].key == key).copied()
    }

    /// Makes an object the last used one.
    fn touch(&mut self, number: u32) {
        if !self.with.contains(number) {
            self.without.touch(&mut self.objects, number);
        }
    }

    /// The number of an object that gets a segment.
    fn add(&mut self, key: u64) -> Option<u32> {
        let number = self.free.pop()?;
        self.cached[number as usize].key = key;
        let cached = &self.cached;
        self.index.insert_unique(mix(key), number, |&number| mix(cached[number as usize].key));
        match self.worth(key).kept {
            0 => self.without.push(&mut self.objects, number, 0),
            worth => self.with.push(number, (worth, number)),
        }
        Some(number)
    }

    fn take(&mut self, slot: Slot) {
        let number = self.object_of[slot as usize];
        let object = &mut self.cached[number as usize];
        object.segments.remove(&mut self.segments, slot);
        if !object.segments.is_empty() {
            return;
        }
        let key = object.key;
        if let Ok(entry) = self.index.find_entry(mix(key), |&other| other == number) {
            entry.remove();
        }
        if self.with.contains(number) {
            self.with.remove(number);
        } else {
            self.without.remove(&mut self.objects, number);
        }
        self.free.push(number);
    }
}

impl Policy for ObjectPolicy {
    fn hit(&mut self, slot: Slot) {
        self.touch(self.object_of[slot as usize]);
    }

    fn evict(&mut self, incoming: Option<Object>) -> Option<Slot> {
        // The object of the segment is in use, so it is not the least recently used one.
        let own = incoming.and_then(|incoming| self.find(incoming.key));
        own.into_iter().for_each(|number| self.touch(number));
        let number = match self.without.oldest() {
            Some(number) => number,
            None => {
                let ((worth, _), number) = self.with.first()?;
                let gain = incoming.map(|incoming| {
                    let Worth { kept, admitted } = self.worth(incoming.key);
                    // As in the virtual plane, an object of which segments are cached is no new one.
                    if own.is_some() { kept } else { admitted }
                });
                if gain.is_some_and(|gain| gain <= worth) {
                    return None;
                }
                number
            }
        };
        let slot = self.cached[number as usize].segments.newest()?;
        self.take(slot);
        Some(slot)
    }

    fn insert(&mut self, slot: Slot, object: Object) {
        let found = self.find(object.key);
        found.into_iter().for_each(|number| self.touch(number));
        // There are as many numbers as slots.
        let Some(number) = found.or_else(|| self.add(object.key)) else { return };
        self.object_of[slot as usize] = number;
        self.cached[number as usize].segments.push(&mut self.segments, slot, 1);
    }

    fn remove(&mut self, slot: Slot) {
        self.take(slot);
    }

    fn is_scored(&self, object: Object) -> bool {
        self.worth(object.key).admitted > 0
    }

    fn set_scores(&mut self, scores: Arc<ObjectScores>) {
        self.scores = scores;
        let (scores, cached) = (&self.scores, &self.cached);
        self.with.map(|(_, number)| {
            let worth = scores.get(&cached[number as usize].key);
            (worth.map_or(0, |worth| worth.kept), number)
        });
        while let Some(((0, _), number)) = self.with.first() {
            self.with.remove(number);
            self.without.push(&mut self.objects, number, 0);
        }
        let scores = Arc::clone(&self.scores);
        for (&key, worth) in scores.iter().filter(|(_, worth)| worth.kept > 0) {
            if let Some(number) = self.find(key).filter(|&number| !self.with.contains(number)) {
                self.without.remove(&mut self.objects, number);
                self.with.push(number, (worth.kept, number));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, VecDeque};

    use ndn_types::random::Random;

    use super::*;

    /// Scores without penalties.
    fn scores(of: &[(u64, u64)]) -> Arc<ObjectScores> {
        Arc::new(of.iter().map(|&(key, worth)| (key, both(worth))).collect())
    }

    fn both(worth: u64) -> Worth {
        Worth { kept: worth, admitted: worth }
    }

    /// Stores a segment; returns the evicted slot, or the segment if it was refused.
    fn store(policy: &mut ObjectPolicy, free: &mut Vec<Slot>, key: u64) -> Result<Slot, u64> {
        let slot = match free.pop() {
            Some(slot) => slot,
            None => policy.evict(Some(Object::unit(key))).ok_or(key)?,
        };
        policy.insert(slot, Object::unit(key));
        Ok(slot)
    }

    #[test]
    fn last_segments_of_the_object_of_lowest_worth_leave() {
        let mut policy = ObjectPolicy::new(Capacity::entries(6));
        let mut free = vec![5, 4, 3, 2, 1, 0];
        policy.set_scores(scores(&[(7, 10), (8, 20), (9, 30)]));
        for key in [7, 7, 8, 7, 8, 8] {
            store(&mut policy, &mut free, key).unwrap();
        }
        assert_eq!(store(&mut policy, &mut free, 7), Err(7), "its own object is the lowest");
        assert_eq!(store(&mut policy, &mut free, 6), Err(6), "an object without a score");
        assert_eq!(store(&mut policy, &mut free, 9), Ok(3), "the third segment of 7");
        assert_eq!(store(&mut policy, &mut free, 8), Ok(1));
        policy.set_scores(scores(&[(7, 40), (9, 30)]));
        // Object 8 has lost its score, so it leaves first.
        let evicted: Vec<Slot> = std::iter::from_fn(|| policy.evict(None)).collect();
        assert_eq!(evicted, [1, 5, 4, 2, 3, 0]);
    }

    #[test]
    fn replacement_needs_a_gain_above_the_penalties() {
        let penalties = Penalties { read: 10, write: 5 };
        let of = [(1, 20), (2, 24), (3, 26), (4, 9), (5, 40), (7, 24), (8, 26)];
        let of = of.map(|(key, score)| (key, Worth::new(score, 1, penalties)));
        let mut policy = ObjectPolicy::new(Capacity::entries(2));
        let mut free = vec![1, 0];
        policy.set_scores(Arc::new(of.into_iter().collect()));
        for key in [1, 2] {
            store(&mut policy, &mut free, key).unwrap();
        }
        assert_eq!(store(&mut policy, &mut free, 7), Err(7), "a gain of 4");
        assert_eq!(store(&mut policy, &mut free, 4), Err(4), "worth less than its reads");
        assert_eq!(store(&mut policy, &mut free, 3), Ok(0), "a gain of 6");
        assert_eq!(store(&mut policy, &mut free, 8), Err(8), "a gain of 2 over object 2");
        assert_eq!(store(&mut policy, &mut free, 5), Ok(1));
        let is_scored = |key| policy.is_scored(Object::unit(key));
        assert_eq!([1, 4, 6].map(is_scored), [true, false, false]);
        // Sizes count: the penalties are those of whole objects.
        let worth = Worth::new(30, 4, penalties);
        assert_eq!((worth.kept, worth.admitted), (20 << 18, 15 << 18));
    }

    #[test]
    fn object_that_is_partly_cached_is_completed_without_the_write_penalty() {
        let penalties = Penalties { read: 0, write: 5 };
        let of = [(1, 20), (2, 22)].map(|(key, score)| (key, Worth::new(score, 1, penalties)));
        let mut policy = ObjectPolicy::new(Capacity::entries(2));
        let mut free = vec![1, 0];
        policy.set_scores(Arc::new(of.into_iter().collect()));
        for key in [2, 1] {
            store(&mut policy, &mut free, key).unwrap();
        }
        assert_eq!(store(&mut policy, &mut free, 2), Ok(1), "its second segment: a gain of 2");
        assert_eq!(store(&mut policy, &mut free, 1), Err(1), "of less worth");
        assert_eq!(store(&mut policy, &mut free, 2), Err(2), "its own object is the lowest");
        // An object that is not cached needs a gain above the penalty.
        policy.remove(0);
        policy.remove(1);
        policy.insert(0, Object::unit(1));
        policy.insert(1, Object::unit(1));
        assert_eq!(store(&mut policy, &mut free, 2), Err(2), "a gain of 2");
    }

    #[test]
    fn objects_without_scores_leave_in_the_order_of_use() {
        let mut policy = ObjectPolicy::new(Capacity::entries(3));
        let mut free = vec![2, 1, 0];
        for key in 1..=3 {
            store(&mut policy, &mut free, key).unwrap();
        }
        policy.hit(0);
        assert_eq!(store(&mut policy, &mut free, 4), Ok(1));
        policy.set_scores(scores(&[(3, 1)]));
        assert_eq!(store(&mut policy, &mut free, 5), Ok(0), "object 1, since 3 has a score now");
        policy.set_scores(scores(&[]));
        assert_eq!(store(&mut policy, &mut free, 6), Ok(1));
    }

    /// Objects in the order of use with their segments, in plain containers.
    #[derive(Default)]
    struct Naive {
        objects: VecDeque<(u64, Vec<Slot>)>,
        scores: BTreeMap<u64, u64>,
    }

    impl Naive {
        fn score(&self, key: u64) -> u64 {
            self.scores.get(&key).copied().unwrap_or(0)
        }

        fn touch(&mut self, key: u64) {
            let is_plain = self.score(key) == 0;
            if let Some(at) = self.objects.iter().position(|one| one.0 == key).filter(|_| is_plain)
            {
                let object = self.objects.remove(at).unwrap();
                self.objects.push_back(object);
            }
        }

        /// The keys of the objects that may be evicted next.
        fn candidates(&self, incoming: u64) -> Vec<u64> {
            let plain = self.objects.iter().find(|(key, _)| self.score(*key) == 0);
            if let Some((key, _)) = plain {
                return vec![*key];
            }
            let least = self.objects.iter().map(|(key, _)| self.score(*key)).min().unwrap_or(0);
            let keys = self.objects.iter().map(|(key, _)| *key);
            keys.filter(|key| self.score(*key) == least && self.score(incoming) > least).collect()
        }
    }

    #[test]
    fn evictions_are_those_of_a_plain_model() {
        const SLOTS: u32 = 12;
        let mut random = Random::new(5, 0);
        let (mut policy, mut naive) =
            (ObjectPolicy::new(Capacity::entries(SLOTS)), Naive::default());
        let mut free: Vec<Slot> = (0..SLOTS).collect();
        let (mut refusals, mut evictions) = (0, 0);
        for _ in 0..100_000 {
            match random.below(40) {
                0 => {
                    let count = random.below(5);
                    let of: BTreeMap<u64, u64> =
                        (0..count).map(|_| (random.below(9), 1 + random.below(3))).collect();
                    policy.set_scores(scores(&of.clone().into_iter().collect::<Vec<_>>()));
                    // Objects that have lost their scores become the last used ones.
                    let lost = |key: u64| naive.score(key) > 0 && !of.contains_key(&key);
                    let order: Vec<u64> =
                        naive.objects.iter().map(|one| one.0).filter(|key| lost(*key)).collect();
                    naive.scores = of;
                    if order.len() > 1 {
                        // Their order among each other is not specified: start again.
                        while policy.evict(None).is_some() {}
                        naive.objects.clear();
                        free = (0..SLOTS).collect();
                    } else {
                        order.into_iter().for_each(|key| naive.touch(key));
                    }
                }
                1 => {
                    let Some(&(key, ref slots)) = naive.objects.front() else { continue };
                    let slot = slots[0];
                    policy.remove(slot);
                    free.push(slot);
                    naive.objects[0].1.remove(0);
                    naive.objects.retain(|(other, slots)| *other != key || !slots.is_empty());
                }
                2..12 => {
                    let at = random.below(1 + naive.objects.len() as u64) as usize;
                    let Some((key, slots)) = naive.objects.get(at) else { continue };
                    let key = *key;
                    policy.hit(slots[0]);
                    naive.touch(key);
                }
                _ => {
                    let key = random.below(9);
                    let was_full = free.is_empty();
                    naive.touch(key);
                    let candidates = naive.candidates(key);
                    match store(&mut policy, &mut free, key) {
                        Err(_) => {
                            assert!(was_full && candidates.is_empty());
                            refusals += 1;
                            continue;
                        }
                        Ok(slot) if was_full => {
                            evictions += 1;
                            let last = |one: &(u64, Vec<Slot>)| one.1.last() == Some(&slot);
                            let at = naive.objects.iter().position(last).expect("the last segment");
                            assert!(candidates.contains(&naive.objects[at].0));
                            naive.objects[at].1.pop();
                            naive.objects.retain(|one| !one.1.is_empty());
                            insert(&mut naive, key, slot);
                        }
                        Ok(slot) => insert(&mut naive, key, slot),
                    }
                }
            }
        }
        assert!(refusals > 100 && evictions > 10_000, "{refusals} {evictions}");
    }

    fn insert(naive: &mut Naive, key: u64, slot: Slot) {
        match naive.objects.iter_mut().find(|one| one.0 == key) {
            Some((_, slots)) => slots.push(slot),
            None => naive.objects.push_back((key, vec![slot])),
        }
    }
}
