//! Every policy against a model written from the paper's pseudocode with vectors that are searched: hits,
//! evictions in their order, and the cached set are equal after every request.

mod naive;

use ndn_caching::cache::{Cache, CacheOutcome};
use ndn_caching::{Capacity, Class, Object, PolicyKind};
use ndn_types::random::Random;

const SEQUENCES: u64 = 2000;
const REQUESTS: usize = 300;

/// Parameters of a random sequence of requests.
struct Scenario {
    random: Random,
    capacity: u64,
    keys: u64,
    /// Largest weight.
    weight_max: u64,
    has_erasures: bool,
    /// Whether the capacity changes.
    has_changes: bool,
}

impl Scenario {
    fn new(stream: u64) -> Self {
        let mut random = Random::new(24, stream);
        let capacity = 1 + random.below(24);
        let weight_max = if random.below(2) == 0 { 1 } else { 1 + random.below(4) };
        Self {
            capacity,
            keys: 1 + random.below(3 * capacity + 10),
            weight_max,
            has_erasures: random.below(3) == 0,
            has_changes: random.below(3) == 0,
            random,
        }
    }

    /// Keys are skewed and drift, the weight is a function of the key.
    fn object(&mut self, request: usize) -> Object {
        let draw = self.random.below(self.keys).min(self.random.below(self.keys));
        let key = draw + request as u64 / 100;
        let weight = u32::try_from(1 + key * 7 % self.weight_max).expect("small");
        let class = match self.random.below(4) {
            0 => Class::Unsolicited,
            1 => Class::Stale,
            _ => Class::Fresh,
        };
        Object { key, weight, class }
    }
}

fn compare(kind: PolicyKind) {
    let mut hits = 0;
    let mut evictions = 0;
    for stream in 0..SEQUENCES {
        let mut scenario = Scenario::new(stream);
        let entries = u32::try_from(scenario.capacity).expect("small");
        let capacity = Capacity { weight: scenario.capacity, entries };
        let mut cache = Cache::new(kind, capacity);
        let mut model = naive::model(kind, scenario.capacity);
        let mut room = scenario.capacity;
        for request in 0..REQUESTS {
            let object = scenario.object(request);
            if scenario.has_erasures && scenario.random.below(20) == 0 {
                let erased = cache.erase(object.key);
                assert_eq!(erased, model.erase(object.key), "{kind}, sequence {stream}, {request}");
            } else if scenario.has_changes && scenario.random.below(30) == 0 {
                room = 1 + scenario.random.below(scenario.capacity);
                let mut evicted = Vec::new();
                cache.set_capacity(room, |object| evicted.push(object.key));
                let expected = naive::set_capacity(&mut *model, room);
                assert_eq!(evicted, expected, "{kind}, sequence {stream}, {request}");
            } else if scenario.random.below(10) == 0 {
                cache.reclassify(object.key, object.class);
                model.reclassify(object.key, object.class);
            } else {
                let mut evicted = Vec::new();
                let outcome = cache.request(object, |object| evicted.push(object.key));
                let place = format!("{kind}, sequence {stream}, request {request}");
                let expected = naive::request(&mut *model, object, room);
                assert_eq!((outcome, evicted.clone()), expected, "{place}");
                hits += u32::from(outcome == CacheOutcome::Hit);
                evictions += evicted.len();
            }
            let mut cached: Vec<_> = model.cached().iter().map(|object| object.0).collect();
            cached.sort_unstable();
            let found: Vec<_> = (0..200).filter(|&key| cache.contains(key)).collect();
            assert_eq!(found, cached, "{kind}, sequence {stream}, after request {request}");
            assert!(cache.weight() <= room);
        }
    }
    assert!(hits > 10_000 && evictions > 10_000, "{kind}: {hits} hits, {evictions} evictions");
}

#[test]
fn lru_equals_its_model() {
    compare(PolicyKind::Lru);
}

#[test]
fn priority_fifo_equals_its_model() {
    compare(PolicyKind::PriorityFifo);
}

#[test]
fn lfu_equals_its_model() {
    compare(PolicyKind::Lfu);
}

#[test]
fn windowed_lfu_equals_its_model() {
    compare(PolicyKind::WindowedLfu);
}

#[test]
fn w_tiny_lfu_equals_its_model() {
    compare(PolicyKind::WTinyLfu);
}

#[test]
fn s3_fifo_equals_its_model() {
    compare(PolicyKind::S3Fifo);
}

#[test]
fn sieve_equals_its_model() {
    compare(PolicyKind::Sieve);
}

#[test]
fn arc_equals_its_model() {
    compare(PolicyKind::Arc);
}

#[test]
fn gdsf_equals_its_model() {
    compare(PolicyKind::Gdsf);
}
