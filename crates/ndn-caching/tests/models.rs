//! Every policy against a model written from the paper's pseudocode with vectors that are searched: hits,
//! evictions in their order, and the cached set are equal after every request of random sequences; hits are equal in
//! sequences of the kinds that public traces have.

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

/// Objects that the cache of the traces holds, keys of their popular objects, and requests.
const TRACE_CAPACITY: u32 = 100;
const TRACE_KEYS: usize = 1000;
const TRACE_REQUESTS: usize = 10_000;

/// Draws ranks from 0 by Zipf(0.9).
struct Zipf(Vec<f64>);

impl Zipf {
    fn new(count: usize) -> Self {
        let mut sum = 0.0;
        let weights = (1..=count).map(|rank| {
            sum += (rank as f64).powf(-0.9);
            sum
        });
        Self(weights.collect())
    }

    fn draw(&self, random: &mut Random) -> u64 {
        let at = random.unit() * self.0.last().expect("not empty");
        self.0.partition_point(|&to| to < at) as u64
    }
}

/// Sequences of keys, by name.
fn traces() -> [(&'static str, Vec<u64>); 5] {
    let (zipf, datasets) = (Zipf::new(TRACE_KEYS), Zipf::new(TRACE_KEYS / 20));
    let requests = || 0..TRACE_REQUESTS as u64;
    let mut random = Random::new(7, 0);
    let popular = requests().map(|_| zipf.draw(&mut random)).collect();
    // All ranks move on by one key every ten requests.
    let drift = requests().map(|n| (zipf.draw(&mut random) + n / 10) % TRACE_KEYS as u64).collect();
    let once = requests().map(|n| match random.below(2) {
        0 => zipf.draw(&mut random),
        _ => 1_000_000 + n,
    });
    let once = once.collect();
    // Jobs read the 20 files of a dataset in order, three jobs at a time.
    let mut jobs = [(0, 20); 3];
    let in_order = requests().map(|n| {
        let (dataset, file) = &mut jobs[usize::try_from(n % 3).expect("small")];
        if *file == 20 {
            (*dataset, *file) = (datasets.draw(&mut random), 0);
        }
        *file += 1;
        *dataset * 20 + *file - 1
    });
    let in_order = in_order.collect();
    // A quarter of the time, scans of twice the capacity.
    let mut next = 0;
    let scans = requests().map(|n| match n / 500 % 4 {
        3 => {
            next += 1;
            2_000_000 + next % u64::from(2 * TRACE_CAPACITY)
        }
        _ => zipf.draw(&mut random),
    });
    let scans = scans.collect();
    [
        ("zipf", popular),
        ("drift", drift),
        ("one-hit", once),
        ("datasets", in_order),
        ("scans", scans),
    ]
}

/// Prints the share of hits of each policy.
#[test]
#[allow(clippy::print_stderr, reason = "the table of docs/data/caching.md")]
fn hits_of_traces_equal_those_of_the_models() {
    let traces = traces();
    for kind in PolicyKind::ALL.into_iter().filter(|kind| *kind != PolicyKind::Random) {
        let shares = traces.iter().map(|(name, keys)| {
            let mut cache = Cache::new(kind, Capacity::entries(TRACE_CAPACITY));
            let mut model = naive::model(kind, TRACE_CAPACITY.into());
            let (mut hits, mut hits_of_model) = (0, 0);
            for object in keys.iter().map(|&key| Object::unit(key)) {
                hits += u32::from(cache.request(object, |_| ()) == CacheOutcome::Hit);
                let outcome = naive::request(&mut *model, object, TRACE_CAPACITY.into()).0;
                hits_of_model += u32::from(outcome == CacheOutcome::Hit);
            }
            assert_eq!(hits, hits_of_model, "{kind}, {name}");
            assert!(hits > 0, "{kind}, {name}");
            format!("{name} {:.1} %", 100.0 * f64::from(hits) / TRACE_REQUESTS as f64)
        });
        eprintln!("{kind}: {}", shares.collect::<Vec<_>>().join(", "));
    }
}
