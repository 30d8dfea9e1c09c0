//! Naive models of the policies. Vectors have the oldest, or next to evict, first unless said otherwise.

use std::collections::HashMap;

use ndn_caching::cache::CacheOutcome;
use ndn_caching::{Class, Object, PolicyKind, sketch};

/// A cached object: key and weight.
pub(crate) type Item = (u64, u32);

pub(crate) trait Naive {
    fn lookup(&mut self, object: Object) -> bool;
    /// The key of the object that leaves, if `incoming` may be stored. There is one at least.
    fn evict(&mut self, incoming: Option<Object>) -> Option<u64>;
    fn set_capacity(&mut self, _capacity: u64) {}
    fn insert(&mut self, object: Object);
    fn erase(&mut self, key: u64) -> bool;
    fn cached(&self) -> Vec<Item>;
    fn reclassify(&mut self, _key: u64, _class: Class) {}
}

/// A request as `Cache::request` defines it.
pub(crate) fn request(
    model: &mut dyn Naive,
    object: Object,
    capacity: u64,
) -> (CacheOutcome, Vec<u64>) {
    if model.lookup(object) {
        return (CacheOutcome::Hit, Vec::new());
    }
    if u64::from(object.weight) > capacity {
        return (CacheOutcome::Refused, Vec::new());
    }
    let mut evicted = Vec::new();
    while weight(&model.cached()) + u64::from(object.weight) > capacity {
        let Some(key) = model.evict(Some(object)) else { return (CacheOutcome::Refused, evicted) };
        evicted.push(key);
    }
    model.insert(object);
    (CacheOutcome::Stored, evicted)
}

/// Changes the capacity, and evicts what exceeds it.
pub(crate) fn set_capacity(model: &mut dyn Naive, capacity: u64) -> Vec<u64> {
    model.set_capacity(capacity);
    let mut evicted = Vec::new();
    while weight(&model.cached()) > capacity {
        evicted.extend(model.evict(None));
    }
    evicted
}

pub(crate) fn model(kind: PolicyKind, capacity: u64) -> Box<dyn Naive> {
    match kind {
        PolicyKind::Lru => Box::new(Lru::default()),
        PolicyKind::PriorityFifo => Box::new(PriorityFifo::default()),
        PolicyKind::Lfu => Box::new(Lfu::default()),
        PolicyKind::WindowedLfu => {
            Box::new(WindowedLfu { window: 8 * capacity, ..Default::default() })
        }
        PolicyKind::WTinyLfu => Box::new(WTinyLfu::new(capacity)),
        PolicyKind::S3Fifo => Box::new(S3Fifo { capacity, ..Default::default() }),
        PolicyKind::Sieve => Box::new(Sieve::default()),
        PolicyKind::Arc => Box::new(Arc { c: capacity, ..Default::default() }),
        PolicyKind::Gdsf => Box::new(Gdsf::default()),
        PolicyKind::Random | PolicyKind::Vip => unreachable!("has no order to compare"),
    }
}

fn weight(items: &[Item]) -> u64 {
    items.iter().map(|item| u64::from(item.1)).sum()
}

/// Removes `key` and returns its item.
fn take(items: &mut Vec<Item>, key: u64) -> Option<Item> {
    let position = items.iter().position(|item| item.0 == key)?;
    Some(items.remove(position))
}

fn has(items: &[Item], key: u64) -> bool {
    items.iter().any(|item| item.0 == key)
}

fn item(object: Object) -> Item {
    (object.key, object.weight)
}

#[derive(Default)]
struct Lru(Vec<Item>);

impl Naive for Lru {
    fn lookup(&mut self, object: Object) -> bool {
        let found = take(&mut self.0, object.key);
        self.0.extend(found);
        found.is_some()
    }

    fn evict(&mut self, _incoming: Option<Object>) -> Option<u64> {
        Some(self.0.remove(0).0)
    }

    fn insert(&mut self, object: Object) {
        self.0.push(item(object));
    }

    fn erase(&mut self, key: u64) -> bool {
        take(&mut self.0, key).is_some()
    }

    fn cached(&self) -> Vec<Item> {
        self.0.clone()
    }
}

#[derive(Default)]
struct PriorityFifo {
    unsolicited: Vec<Item>,
    stale: Vec<Item>,
    fresh: Vec<Item>,
}

impl PriorityFifo {
    fn put(&mut self, item: Item, class: Class) {
        match class {
            Class::Unsolicited => self.unsolicited.push(item),
            Class::Stale => self.stale.push(item),
            Class::Fresh => self.fresh.push(item),
        }
    }

    fn take(&mut self, key: u64) -> Option<Item> {
        take(&mut self.unsolicited, key)
            .or_else(|| take(&mut self.stale, key))
            .or_else(|| take(&mut self.fresh, key))
    }
}

impl Naive for PriorityFifo {
    fn lookup(&mut self, object: Object) -> bool {
        has(&self.cached(), object.key)
    }

    fn evict(&mut self, _incoming: Option<Object>) -> Option<u64> {
        self.cached().first().and_then(|first| self.take(first.0)).map(|item| item.0)
    }

    fn insert(&mut self, object: Object) {
        self.put(item(object), object.class);
    }

    fn erase(&mut self, key: u64) -> bool {
        self.take(key).is_some()
    }

    fn cached(&self) -> Vec<Item> {
        [&self.unsolicited[..], &self.stale[..], &self.fresh[..]].concat()
    }

    fn reclassify(&mut self, key: u64, class: Class) {
        let stays = match class {
            Class::Unsolicited => has(&self.unsolicited, key),
            Class::Stale => has(&self.stale, key) || has(&self.unsolicited, key),
            Class::Fresh => has(&self.fresh, key),
        };
        if !stays && let Some(item) = self.take(key) {
            self.put(item, class);
        }
    }
}

#[derive(Clone, Copy)]
struct Counted {
    item: Item,
    count: u64,
    last: u64,
}

/// With aging: the mean count does not exceed 10.
#[derive(Default)]
struct Lfu {
    objects: Vec<Counted>,
    now: u64,
}

impl Lfu {
    fn age(&mut self) {
        let sum: u64 = self.objects.iter().map(|object| object.count).sum();
        if sum > 10 * self.objects.len() as u64 {
            for object in &mut self.objects {
                object.count -= object.count / 2;
            }
        }
    }
}

impl Naive for Lfu {
    fn lookup(&mut self, object: Object) -> bool {
        self.now += 1;
        let found = self.objects.iter_mut().find(|cached| cached.item.0 == object.key);
        let Some(found) = found else { return false };
        found.count += 1;
        found.last = self.now;
        self.age();
        true
    }

    fn evict(&mut self, _incoming: Option<Object>) -> Option<u64> {
        let least = self.objects.iter().min_by_key(|object| (object.count, object.last))?.item.0;
        self.erase(least);
        Some(least)
    }

    fn insert(&mut self, object: Object) {
        self.objects.push(Counted { item: item(object), count: 1, last: self.now });
        self.age();
    }

    fn erase(&mut self, key: u64) -> bool {
        let before = self.objects.len();
        self.objects.retain(|object| object.item.0 != key);
        self.objects.len() < before
    }

    fn cached(&self) -> Vec<Item> {
        self.objects.iter().map(|object| object.item).collect()
    }
}

#[derive(Default)]
struct WindowedLfu {
    window: u64,
    history: Vec<u64>,
    objects: Vec<Item>,
}

impl WindowedLfu {
    fn count(&self, key: u64) -> usize {
        let start = self.history.len().saturating_sub(usize::try_from(self.window).expect("small"));
        self.history[start..].iter().filter(|requested| **requested == key).count()
    }

    fn last(&self, key: u64) -> Option<usize> {
        self.history.iter().rposition(|requested| *requested == key)
    }
}

impl Naive for WindowedLfu {
    fn lookup(&mut self, object: Object) -> bool {
        self.history.push(object.key);
        has(&self.objects, object.key)
    }

    fn evict(&mut self, incoming: Option<Object>) -> Option<u64> {
        let keys = self.objects.iter().map(|object| object.0);
        let least = keys.min_by_key(|&key| (self.count(key), self.last(key)))?;
        if incoming.is_some_and(|object| self.count(object.key) < self.count(least)) {
            return None;
        }
        take(&mut self.objects, least).map(|object| object.0)
    }

    fn insert(&mut self, object: Object) {
        self.objects.push(item(object));
    }

    fn erase(&mut self, key: u64) -> bool {
        take(&mut self.objects, key).is_some()
    }

    fn cached(&self) -> Vec<Item> {
        self.objects.clone()
    }
}

/// Lists in the order of the paper: the head, which is the newest, comes last.
#[derive(Default)]
struct WTinyLfu {
    capacity: u64,
    window: Vec<Item>,
    probation: Vec<Item>,
    protected: Vec<Item>,
    counters: Vec<Vec<u8>>,
    sample: u64,
    sample_max: u64,
}

impl WTinyLfu {
    fn new(capacity: u64) -> Self {
        let columns = usize::try_from(capacity.next_power_of_two().max(16)).expect("small");
        let counters = vec![vec![0; columns]; 4];
        Self { capacity, counters, sample_max: 10 * columns as u64, ..Default::default() }
    }

    fn window_max(&self) -> u64 {
        (self.capacity / 100).max(1)
    }

    fn main_max(&self) -> u64 {
        self.capacity - self.window_max()
    }

    fn count(&mut self, key: u64) {
        let columns = self.counters[0].len();
        for (row, counters) in self.counters.iter_mut().enumerate() {
            let column = usize::try_from(sketch::column(key, row, columns as u64)).expect("small");
            counters[column] = (counters[column] + 1).min(15);
        }
        self.sample += 1;
        if self.sample >= self.sample_max {
            self.sample /= 2;
            self.counters.iter_mut().flatten().for_each(|counter| *counter /= 2);
        }
    }

    fn estimate(&self, key: u64) -> u8 {
        let rows = self.counters.iter().enumerate();
        let counters = rows.map(|(row, counters)| {
            let column = sketch::column(key, row, counters.len() as u64);
            counters[usize::try_from(column).expect("small")]
        });
        counters.min().expect("four rows")
    }

    /// Whether the window is too heavy when `weight` enters it.
    fn is_over(&self, incoming: u32) -> bool {
        !self.window.is_empty() && weight(&self.window) + u64::from(incoming) > self.window_max()
    }

    fn drain(&mut self, incoming: u32) {
        while self.is_over(incoming)
            && weight(&self.probation) + weight(&self.protected) + u64::from(self.window[0].1)
                <= self.main_max()
        {
            let item = self.window.remove(0);
            self.probation.push(item);
        }
    }
}

impl Naive for WTinyLfu {
    fn lookup(&mut self, object: Object) -> bool {
        let key = object.key;
        self.count(key);
        if let Some(item) = take(&mut self.window, key) {
            self.window.push(item);
        } else if let Some(item) = take(&mut self.protected, key) {
            self.protected.push(item);
        } else if let Some(item) = take(&mut self.probation, key) {
            self.protected.push(item);
            while weight(&self.protected) > self.main_max() * 4 / 5 {
                self.probation.push(self.protected.remove(0));
            }
        } else {
            return false;
        }
        true
    }

    fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.sample_max = 10 * capacity.next_power_of_two().max(16);
    }

    fn evict(&mut self, incoming: Option<Object>) -> Option<u64> {
        let incoming_weight = incoming.map_or(0, |object| object.weight);
        if let Some(heavy) = incoming.filter(|object| u64::from(object.weight) > self.window_max())
        {
            // It does not enter the window.
            let main = [&self.probation[..], &self.protected[..]].concat();
            let evicted = match main.first() {
                Some(victim) if self.estimate(heavy.key) <= self.estimate(victim.0) => return None,
                Some(victim) => victim.0,
                None => self.window[0].0,
            };
            self.erase(evicted);
            return Some(evicted);
        }
        self.drain(incoming_weight);
        let victim = self.probation.first().or(self.protected.first()).map(|item| item.0);
        let evicted = if self.is_over(incoming_weight) {
            let candidate = self.window[0].0;
            match victim {
                Some(victim) if self.estimate(candidate) > self.estimate(victim) => victim,
                _ => candidate,
            }
        } else {
            victim.unwrap_or_else(|| self.window[0].0)
        };
        self.erase(evicted);
        self.drain(incoming_weight);
        Some(evicted)
    }

    fn insert(&mut self, object: Object) {
        let main = weight(&self.probation) + weight(&self.protected);
        let own = u64::from(object.weight);
        if own > self.window_max() && main + own <= self.main_max() {
            self.probation.push(item(object));
            return;
        }
        self.window.push(item(object));
        self.drain(0);
    }

    fn erase(&mut self, key: u64) -> bool {
        take(&mut self.window, key)
            .or_else(|| take(&mut self.probation, key))
            .or_else(|| take(&mut self.protected, key))
            .is_some()
    }

    fn cached(&self) -> Vec<Item> {
        [&self.window[..], &self.probation[..], &self.protected[..]].concat()
    }
}

/// The tail of each queue comes first.
#[derive(Default)]
struct S3Fifo {
    capacity: u64,
    small: Vec<Item>,
    main: Vec<Item>,
    ghost: Vec<Item>,
    freq: HashMap<u64, u8>,
}

impl S3Fifo {
    fn small_max(&self) -> u64 {
        (self.capacity / 10).max(1)
    }

    fn main_max(&self) -> u64 {
        self.capacity - self.small_max()
    }

    fn evict_main(&mut self) -> Option<u64> {
        while !self.main.is_empty() {
            let t = self.main.remove(0);
            let freq = self.freq.get_mut(&t.0).expect("cached");
            if *freq == 0 {
                return Some(t.0);
            }
            *freq -= 1;
            self.main.push(t);
        }
        None
    }

    fn evict_small(&mut self) -> Option<u64> {
        while !self.small.is_empty() {
            let t = self.small.remove(0);
            if self.freq[&t.0] > 1 {
                self.freq.insert(t.0, 0);
                self.main.push(t);
                if weight(&self.main) > self.main_max() {
                    return self.evict_main();
                }
            } else {
                self.ghost.push(t);
                while weight(&self.ghost) > self.main_max() {
                    self.ghost.remove(0);
                }
                return Some(t.0);
            }
        }
        None
    }
}

impl Naive for S3Fifo {
    fn lookup(&mut self, object: Object) -> bool {
        let is_cached = has(&self.cached(), object.key);
        if is_cached {
            let freq = self.freq.get_mut(&object.key).expect("cached");
            *freq = 3.min(*freq + 1);
        }
        is_cached
    }

    fn evict(&mut self, _incoming: Option<Object>) -> Option<u64> {
        loop {
            let evicted = if weight(&self.small) >= self.small_max() || self.main.is_empty() {
                self.evict_small()
            } else {
                self.evict_main()
            };
            if evicted.is_some() {
                return evicted;
            }
        }
    }

    fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity;
    }

    fn insert(&mut self, object: Object) {
        self.freq.insert(object.key, 0);
        match take(&mut self.ghost, object.key) {
            Some(_) => self.main.push(item(object)),
            None => self.small.push(item(object)),
        }
    }

    fn erase(&mut self, key: u64) -> bool {
        take(&mut self.small, key).or_else(|| take(&mut self.main, key)).is_some()
    }

    fn cached(&self) -> Vec<Item> {
        [&self.small[..], &self.main[..]].concat()
    }
}

/// The tail comes first; the hand is the key of the object that it points to.
#[derive(Default)]
struct Sieve {
    queue: Vec<Item>,
    visited: HashMap<u64, bool>,
    hand: Option<u64>,
}

impl Sieve {
    fn position(&self, key: u64) -> Option<usize> {
        self.queue.iter().position(|item| item.0 == key)
    }
}

impl Naive for Sieve {
    fn lookup(&mut self, object: Object) -> bool {
        let is_cached = has(&self.queue, object.key);
        if is_cached {
            self.visited.insert(object.key, true);
        }
        is_cached
    }

    fn evict(&mut self, _incoming: Option<Object>) -> Option<u64> {
        let mut position = self.hand.and_then(|key| self.position(key)).unwrap_or(0);
        while self.visited[&self.queue[position].0] {
            self.visited.insert(self.queue[position].0, false);
            position = (position + 1) % self.queue.len();
        }
        let key = self.queue.remove(position).0;
        self.hand = self.queue.get(position).map(|item| item.0);
        Some(key)
    }

    fn insert(&mut self, object: Object) {
        self.visited.insert(object.key, false);
        self.queue.push(item(object));
    }

    fn erase(&mut self, key: u64) -> bool {
        let Some(position) = self.position(key) else { return false };
        self.queue.remove(position);
        if self.hand == Some(key) {
            self.hand = self.queue.get(position).map(|item| item.0);
        }
        true
    }

    fn cached(&self) -> Vec<Item> {
        self.queue.clone()
    }
}

/// The LRU ends come first.
#[derive(Default)]
struct Arc {
    c: u64,
    p: f64,
    t1: Vec<Item>,
    t2: Vec<Item>,
    b1: Vec<Item>,
    b2: Vec<Item>,
}

impl Arc {
    fn l1(&self) -> u64 {
        weight(&self.t1) + weight(&self.b1)
    }

    fn l2(&self) -> u64 {
        weight(&self.t2) + weight(&self.b2)
    }

    fn replace(&mut self, key: Option<u64>) -> u64 {
        let t1 = weight(&self.t1) as f64;
        let is_ghost = key.is_some_and(|key| has(&self.b2, key));
        let from_t1 = t1 > self.p || is_ghost && t1 >= self.p;
        if !self.t1.is_empty() && from_t1 || self.t2.is_empty() {
            let item = self.t1.remove(0);
            self.b1.push(item);
            item.0
        } else {
            let item = self.t2.remove(0);
            self.b2.push(item);
            item.0
        }
    }
}

impl Naive for Arc {
    fn lookup(&mut self, object: Object) -> bool {
        if let Some(item) =
            take(&mut self.t1, object.key).or_else(|| take(&mut self.t2, object.key))
        {
            self.t2.push(item);
            return true;
        }
        let (b1, b2) = (weight(&self.b1) as f64, weight(&self.b2) as f64);
        let scale = f64::from(object.weight);
        if has(&self.b1, object.key) {
            let delta = if b1 >= b2 { 1.0 } else { b2 / b1 };
            self.p = (self.p + scale * delta).min(self.c as f64);
        } else if has(&self.b2, object.key) {
            let delta = if b2 >= b1 { 1.0 } else { b1 / b2 };
            self.p = (self.p - scale * delta).max(0.0);
        }
        false
    }

    fn evict(&mut self, incoming: Option<Object>) -> Option<u64> {
        let Some(incoming) = incoming else { return Some(self.replace(None)) };
        let is_ghost = has(&self.b1, incoming.key) || has(&self.b2, incoming.key);
        let weight = u64::from(incoming.weight);
        if !is_ghost && self.l1() + weight > self.c {
            if self.b1.is_empty() {
                return Some(self.t1.remove(0).0);
            }
            while self.l1() + weight > self.c && !self.b1.is_empty() {
                self.b1.remove(0);
            }
        } else if !is_ghost {
            while self.l1() + self.l2() + weight > 2 * self.c && !self.b2.is_empty() {
                self.b2.remove(0);
            }
        }
        Some(self.replace(Some(incoming.key)))
    }

    fn set_capacity(&mut self, capacity: u64) {
        self.c = capacity;
        self.p = self.p.min(capacity as f64);
    }

    fn insert(&mut self, object: Object) {
        let ghost = take(&mut self.b1, object.key).or_else(|| take(&mut self.b2, object.key));
        match ghost {
            Some(_) => self.t2.push(item(object)),
            None => self.t1.push(item(object)),
        }
        while self.l1() > self.c && !self.b1.is_empty() {
            self.b1.remove(0);
        }
        while self.l1() + self.l2() > 2 * self.c && !(self.b1.is_empty() && self.b2.is_empty()) {
            let ghosts = if self.b2.is_empty() { &mut self.b1 } else { &mut self.b2 };
            ghosts.remove(0);
        }
    }

    fn erase(&mut self, key: u64) -> bool {
        take(&mut self.t1, key).or_else(|| take(&mut self.t2, key)).is_some()
    }

    fn cached(&self) -> Vec<Item> {
        [&self.t1[..], &self.t2[..]].concat()
    }
}

struct Valued {
    item: Item,
    frequency: u32,
    priority: f64,
    last: u64,
}

#[derive(Default)]
struct Gdsf {
    objects: Vec<Valued>,
    clock: f64,
    now: u64,
}

impl Naive for Gdsf {
    fn lookup(&mut self, object: Object) -> bool {
        self.now += 1;
        let found = self.objects.iter_mut().find(|cached| cached.item.0 == object.key);
        let Some(found) = found else { return false };
        found.frequency += 1;
        found.priority = self.clock + f64::from(found.frequency) / f64::from(found.item.1);
        found.last = self.now;
        true
    }

    fn evict(&mut self, _incoming: Option<Object>) -> Option<u64> {
        let order =
            |a: &&Valued, b: &&Valued| a.priority.total_cmp(&b.priority).then(a.last.cmp(&b.last));
        let least = self.objects.iter().min_by(order)?;
        self.clock = least.priority;
        let key = least.item.0;
        self.erase(key);
        Some(key)
    }

    fn insert(&mut self, object: Object) {
        let priority = self.clock + 1.0 / f64::from(object.weight);
        self.objects.push(Valued { item: item(object), frequency: 1, priority, last: self.now });
    }

    fn erase(&mut self, key: u64) -> bool {
        let before = self.objects.len();
        self.objects.retain(|object| object.item.0 != key);
        self.objects.len() < before
    }

    fn cached(&self) -> Vec<Item> {
        self.objects.iter().map(|object| object.item).collect()
    }
}
