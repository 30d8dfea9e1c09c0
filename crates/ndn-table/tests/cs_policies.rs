//! The Content Store with each policy of `ndn-caching` against the naive models of that crate, and changes of the policy at
//! run time.
#![allow(clippy::cast_possible_truncation, reason = "small test numbers")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
#[allow(dead_code, reason = "this test uses a part")]
#[path = "../../ndn-caching/tests/naive/mod.rs"]
mod naive;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use common::{Hashed, Random, data, digest, erase, hasher, name_of};
use naive::Naive;
use ndn_caching::{Class, Object, ObjectScores, Policy, PolicyKind, Slot, Worth};
use ndn_disk::{Admission, ShareOptions, Storage, Superblock, recover};
use ndn_table::{CS_VARIANTS_PER_NAME_MAX, CsError, CsObjects, CsReplacement, Pcct, PcctConfig};
use ndn_types::Timestamp;

const START: Timestamp = Timestamp::from_millis(77);

/// The policies that have a naive model.
fn modelled() -> impl Iterator<Item = PolicyKind> {
    PolicyKind::ALL.into_iter().filter(|kind| *kind != PolicyKind::Random)
}

fn packet(name: &Hashed, version: u8) -> Vec<u8> {
    data(&name.value, &vec![version; 1 + usize::from(name.value[3]) % 7 * 40])
}

/// The weight of a packet with a policy.
fn weight_with(kind: PolicyKind, packet: &[u8]) -> u32 {
    if kind == PolicyKind::Gdsf { packet.len() as u32 } else { 1 }
}

/// A Content Store and the model of its policy.
struct Pair {
    pcct: Pcct,
    kind: PolicyKind,
    model: Box<dyn Naive>,
    /// Names by their hash, which is the key.
    names: BTreeMap<u64, Hashed>,
    packets_max: u32,
    capacity: usize,
    /// Capacity that the model was given.
    divided: usize,
    hits: usize,
    evictions: usize,
    refusals: usize,
}

impl Pair {
    fn new(kind: PolicyKind, packets_max: u32) -> Self {
        let mut config = PcctConfig::with_capacity(16, packets_max, START);
        config.cs_policy = kind;
        Self {
            pcct: Pcct::new(&config, hasher()),
            kind,
            model: naive::model(kind, u64::from(packets_max)),
            names: BTreeMap::new(),
            packets_max,
            capacity: packets_max as usize,
            divided: packets_max as usize,
            hits: 0,
            evictions: 0,
            refusals: 0,
        }
    }

    fn object(&mut self, number: u16) -> (Hashed, Object) {
        let name = Hashed::new(&name_of(&[number]));
        let key = name.hashes()[1];
        let weight = weight_with(self.kind, &packet(&name, 1));
        self.names.insert(key, name.clone());
        (name, Object { key, weight, class: Class::Fresh })
    }

    fn is_cached(&mut self, name: &Hashed, must_be_fresh: bool) -> bool {
        self.pcct.find_data(&name.interest(false, must_be_fresh), START, digest).is_some()
    }

    fn evict(&mut self, incoming: Option<Object>) -> bool {
        let len = self.model.cached().len();
        if self.divided != len {
            self.divided = len;
            self.model.set_capacity(len as u64);
        }
        let is_evicted = self.model.evict(incoming).is_some();
        self.evictions += usize::from(is_evicted);
        is_evicted
    }

    /// An Interest, and the Data if the Interest is not satisfied from the store.
    fn request(&mut self, number: u16) {
        let (name, object) = self.object(number);
        let is_hit = self.is_cached(&name, false);
        assert_eq!(is_hit, self.model.lookup(object), "{}: {number}", self.kind);
        if is_hit {
            self.hits += 1;
            return;
        }
        let is_stored = self.arrive(&name);
        while self.model.cached().len() >= self.capacity {
            if !self.evict(Some(object)) {
                self.refusals += 1;
                assert_eq!(is_stored, Err(CsError::Refused), "{}", self.kind);
                return;
            }
        }
        assert_eq!(is_stored, Ok(()), "{}", self.kind);
        self.model.insert(object);
    }

    fn arrive(&mut self, name: &Hashed) -> Result<(), CsError> {
        let wire = packet(name, 1);
        self.pcct.insert_data(&name.data(), &wire, 0, true, START).map(|_| ())
    }

    /// Data is not fresh, so that an Interest with MustBeFresh fetches the same Data again.
    fn renew(&mut self, number: u16) {
        let (name, object) = self.object(number);
        if self.model.cached().iter().any(|cached| cached.0 == object.key) {
            assert!(!self.is_cached(&name, true));
            assert!(self.model.lookup(object));
            assert_eq!(self.arrive(&name), Ok(()));
        }
    }

    fn erase(&mut self, number: u16) {
        let (name, object) = self.object(number);
        let (erased, _) = erase(&mut self.pcct, &name, 1);
        assert_eq!(erased == 1, self.model.erase(object.key), "{}", self.kind);
    }

    fn set_capacity(&mut self, capacity: usize) {
        self.capacity = self.pcct.set_cs_capacity(capacity);
        self.poll();
        while self.model.cached().len() > self.capacity {
            assert!(self.evict(None));
        }
    }

    fn poll(&mut self) {
        while self.pcct.poll_cs(START, 7) {}
    }

    /// Puts another policy in force. The Data are handed over in the order in which the former one would evict them.
    fn change(&mut self, kind: PolicyKind) {
        let new = CsReplacement::new(kind, self.packets_max, START);
        self.pcct.set_cs_policy(new, START);
        self.poll();
        let mut order = Vec::new();
        while !self.model.cached().is_empty() {
            order.push(self.model.evict(None).unwrap());
        }
        self.kind = kind;
        self.divided = self.packets_max as usize;
        self.model = naive::model(kind, u64::from(self.packets_max));
        for key in order {
            let weight = weight_with(kind, &packet(&self.names[&key], 1));
            self.model.insert(Object { key, weight, class: Class::Fresh });
        }
    }

    fn check(&self) {
        let expected: BTreeSet<Vec<u8>> =
            self.model.cached().iter().map(|cached| packet(&self.names[&cached.0], 1)).collect();
        let actual: BTreeSet<Vec<u8>> = self.pcct.cached_packets().map(<[u8]>::to_vec).collect();
        assert_eq!(actual, expected, "{}", self.kind);
        assert_eq!(self.pcct.cs_len(), expected.len());
        assert_eq!(self.pcct.cs_policy(), self.kind);
        assert!(self.pcct.cs_len() <= self.capacity);
    }

    /// A random event.
    fn step(&mut self, random: &mut Random, numbers: u64) {
        let number = random.below(numbers).min(random.below(numbers)) as u16;
        match random.below(60) {
            0 | 1 => self.erase(number),
            2 | 3 => self.renew(number),
            4 => self.set_capacity(1 + random.below(u64::from(self.packets_max)) as usize),
            5 => self.set_capacity(self.packets_max as usize),
            _ => self.request(number),
        }
    }
}

/// Priority FIFO is compared in `cs_model`.
#[test]
fn content_store_equals_the_models_of_the_policies() {
    for kind in modelled().filter(|kind| *kind != PolicyKind::PriorityFifo) {
        let (mut hits, mut evictions, mut refusals) = (0, 0, 0);
        for seed in 0..300 {
            let mut random = Random::new(seed);
            let packets_max = 1 + random.below(40) as u32;
            let numbers = 1 + random.below(3 * u64::from(packets_max) + 10);
            let mut pair = Pair::new(kind, packets_max);
            for _ in 0..400 {
                pair.step(&mut random, numbers);
                pair.check();
            }
            hits += pair.hits;
            evictions += pair.evictions;
            refusals += pair.refusals;
        }
        assert!(hits > 10_000 && evictions > 10_000, "{kind}: {hits} hits, {evictions} evictions");
        assert_eq!(refusals > 1000, kind == PolicyKind::WindowedLfu, "{kind}: {refusals}");
    }
}

/// After a change, the Content Store equals a model that got the Data in the order of eviction of the former policy.
#[test]
fn change_of_policy_keeps_the_eviction_order_of_cached_data() {
    // The queues of priority FIFO are compared in `cs_model`.
    let kinds: Vec<_> = modelled().filter(|kind| *kind != PolicyKind::PriorityFifo).collect();
    for (number, &from) in (0_u64..).zip(&kinds) {
        for (other, &to) in (0_u64..).zip(&kinds) {
            // More than one step of the change, and fewer.
            for packets_max in [20, 300] {
                let mut random = Random::new(number * 100 + other);
                let mut pair = Pair::new(from, packets_max);
                let numbers = u64::from(packets_max) * 2;
                for kind in [to, from] {
                    for _ in 0..3 * packets_max {
                        pair.request(random.below(numbers).min(random.below(numbers)) as u16);
                    }
                    pair.check();
                    if from != to {
                        pair.change(kind);
                        pair.check();
                    }
                }
                for _ in 0..2 * packets_max {
                    pair.step(&mut random, numbers);
                }
                pair.check();
            }
        }
    }
}

/// A Content Store whose packets are known.
struct Known {
    pcct: Pcct,
    random: Random,
    packets_max: u32,
    inserted: u64,
    erased: u64,
    now: Timestamp,
}

impl Known {
    fn new(kind: PolicyKind, packets_max: u32, bytes_max: usize, seed: u64) -> Self {
        let mut config = PcctConfig::with_capacity(16, packets_max, START);
        config.cs_policy = kind;
        config.cs_bytes_max = bytes_max;
        let pcct = Pcct::new(&config, hasher());
        Self { pcct, random: Random::new(seed), packets_max, inserted: 0, erased: 0, now: START }
    }

    fn packets(&self) -> BTreeSet<Vec<u8>> {
        let packets: BTreeSet<_> = self.pcct.cached_packets().map(<[u8]>::to_vec).collect();
        assert_eq!(packets.len(), self.pcct.cs_len());
        packets
    }

    /// Puts another policy in force, after which the same packets are cached.
    fn change(&mut self) {
        let kind = PolicyKind::ALL[self.random.below(10) as usize];
        let before = self.packets();
        self.pcct.set_cs_policy(CsReplacement::new(kind, self.packets_max, self.now), self.now);
        assert_eq!(self.packets(), before);
        assert_eq!(self.pcct.cs_policy(), kind);
    }

    /// An event other than a change of the policy; up to nine different Data of a name.
    fn step(&mut self) {
        let number = self.random.below(2 * u64::from(self.packets_max)) as u16;
        let name = Hashed::new(&name_of(&[number]));
        let is_fresh = self.random.below(2) == 0;
        match self.random.below(40) {
            0 => {
                self.erased += erase(&mut self.pcct, &name, 10).0 as u64;
            }
            1 => {
                let capacity = 1 + self.random.below(2 * u64::from(self.packets_max)) as usize;
                self.pcct.set_cs_capacity(capacity);
                while self.pcct.cs_len() > self.pcct.cs_capacity() {
                    self.pcct.poll_cs(self.now, 5);
                }
            }
            2 => self.now = self.now.plus_millis(1 + self.random.below(50)),
            3..6 => {
                self.pcct.poll_cs(self.now, 5);
            }
            6..20 => {
                let found = self.pcct.find_data(&name.interest(false, is_fresh), self.now, digest);
                assert!(found.is_none_or(|found| !self.pcct.data(found).is_empty()));
            }
            _ => {
                let content = vec![self.random.below(9) as u8; self.random.below(3000) as usize];
                let wire = data(&name.value, &content);
                let is_new = !self.packets().contains(&wire);
                let freshness_ms = if is_fresh { self.random.below(100) } else { 0 };
                let is_solicited = self.random.below(8) > 0;
                let inserted = self.pcct.insert_data(
                    &name.data(),
                    &wire,
                    freshness_ms,
                    is_solicited,
                    self.now,
                );
                self.inserted += u64::from(inserted.is_ok() && is_new);
                if let Ok(index) = inserted {
                    assert_eq!(self.pcct.data(index), wire);
                }
            }
        }
        let counters = self.pcct.cs_counters();
        assert_eq!(
            self.pcct.cs_len() as u64 + counters.evictions + self.erased,
            self.inserted,
            "packets are evicted, erased or cached"
        );
        assert!(self.pcct.cs_len() <= self.pcct.cs_capacity());
    }

    /// Data of every cached name are found.
    fn check(&mut self) {
        let mut variants: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
        for wire in self.packets() {
            // A Name of four bytes, behind a length of one or three.
            let start = if wire[1] == 0xfd { 6 } else { 4 };
            *variants.entry(wire[start..start + 4].to_vec()).or_default() += 1;
        }
        for (value, count) in variants {
            assert!(count <= CS_VARIANTS_PER_NAME_MAX);
            let name = Hashed::new(&value);
            let found = self.pcct.find_data(&name.interest(false, false), self.now, digest);
            assert!(found.is_some());
        }
    }
}

#[test]
fn change_of_policy_keeps_all_cached_data() {
    for (seed, kind) in (0_u64..400).zip(PolicyKind::ALL.into_iter().cycle()) {
        let packets_max = if seed % 10 == 0 { 600 } else { 30 };
        let mut known = Known::new(kind, packets_max, 100_000_000, seed);
        for step in 0..300 {
            known.step();
            if step % 40 == 39 || known.random.below(60) == 0 {
                known.change();
            }
        }
        known.check();
        while known.pcct.poll_cs(known.now, 5) {}
        known.check();
        let (erased, _) = erase(&mut known.pcct, &Hashed::new(&[]), usize::MAX);
        assert!(erased > 0);
        assert_eq!(known.pcct.cs_len(), 0);
    }
}

/// The limit of bytes applies before that of packets; then the policies divide the packets for which there is room.
#[test]
fn limits_of_bytes_and_packets_hold_with_every_policy() {
    const BYTES: usize = 1 << 20;
    for kind in PolicyKind::ALL {
        let mut known = Known::new(kind, 2000, BYTES, 5);
        let mut most = 0;
        for _ in 0..6000 {
            known.step();
            assert!(known.pcct.cs_bytes_in_use() <= BYTES);
            most = most.max(known.pcct.cs_len());
        }
        assert!(known.pcct.cs_counters().evictions > 500, "{kind}");
        assert!((100..1500).contains(&most), "{kind}: {most}");
        known.check();
    }
}

/// Data that are requested once do not evict Data that are requested again.
#[test]
fn a_policy_that_resists_scans_keeps_the_popular_data() {
    let kept = |kind| {
        let mut config = PcctConfig::with_capacity(16, 100, START);
        config.cs_policy = kind;
        let mut pcct = Pcct::new(&config, hasher());
        let mut request = |number: u16| {
            let name = Hashed::new(&name_of(&[number]));
            let is_hit = pcct.find_data(&name.interest(false, false), START, digest).is_some();
            if !is_hit {
                let _ = pcct.insert_data(&name.data(), &packet(&name, 1), 0, true, START);
            }
            is_hit
        };
        for number in (0..5).flat_map(|_| 0..50).chain(1000..1500) {
            request(number);
        }
        (0..50).filter(|&number| request(number)).count()
    };
    assert_eq!(kept(PolicyKind::Lru), 0);
    for kind in [PolicyKind::WTinyLfu, PolicyKind::S3Fifo, PolicyKind::WindowedLfu, PolicyKind::Arc]
    {
        assert!(kept(kind) >= 45, "{kind}: {}", kept(kind));
    }
}

/// A policy that records the keys of the objects that it gets.
#[derive(Debug)]
struct Recorder {
    keys: Arc<Mutex<Vec<u64>>>,
    slots: Vec<Slot>,
    scores: Arc<ObjectScores>,
}

impl Policy for Recorder {
    fn hit(&mut self, _slot: Slot) {}

    fn evict(&mut self, incoming: Option<Object>) -> Option<Slot> {
        if incoming.is_some_and(|incoming| !self.is_scored(incoming)) {
            return None;
        }
        self.slots.pop()
    }

    fn set_scores(&mut self, scores: Arc<ObjectScores>) {
        self.scores = scores;
    }

    fn is_scored(&self, object: Object) -> bool {
        self.scores.contains_key(&object.key)
    }

    fn insert(&mut self, slot: Slot, object: Object) {
        self.keys.lock().unwrap().push(object.key);
        self.slots.push(slot);
    }

    fn remove(&mut self, slot: Slot) {
        self.slots.retain(|&other| other != slot);
    }
}

#[test]
fn segments_of_an_object_have_its_key() {
    let mut pcct = Pcct::new(&PcctConfig::with_capacity(16, 10, START), hasher());
    let object = name_of(&[1]);
    let segment = |number| [&object[..], &[0x32, 1, number]].concat();
    let names = [segment(0), name_of(&[2]), segment(1)].map(|value| Hashed::new(&value));
    let insert = |pcct: &mut Pcct, name: &Hashed| {
        pcct.insert_data(&name.data(), &data(&name.value, &[1]), 0, true, START).unwrap();
    };
    let keys = Arc::new(Mutex::new(Vec::new()));
    let policy = Recorder { keys: Arc::clone(&keys), slots: Vec::new(), scores: Arc::default() };
    // The first is handed over, the others are new.
    insert(&mut pcct, &names[0]);
    let new = CsReplacement::with_policy(
        PolicyKind::Lfu,
        CsObjects::Segments(Arc::default()),
        Box::new(policy),
    );
    pcct.set_cs_policy(new, START);
    names[1..].iter().for_each(|name| insert(&mut pcct, name));
    let object_hash = Hashed::new(&object).hashes()[1];
    assert_eq!(*keys.lock().unwrap(), [object_hash, names[1].hashes()[1], object_hash]);
    // The policy refuses segments of objects without a score.
    pcct.set_cs_capacity(3);
    let segment = Hashed::new(&segment(2));
    let store = |pcct: &mut Pcct| {
        pcct.insert_data(&segment.data(), &data(&segment.value, &[1]), 0, true, START)
    };
    assert_eq!(store(&mut pcct).err(), Some(CsError::Refused));
    pcct.set_cs_scores(Arc::new([(object_hash, Worth::default())].into()));
    assert!(store(&mut pcct).is_ok());
    assert_eq!(keys.lock().unwrap().last(), Some(&object_hash));
}

/// A policy that keeps what it has; one object has a score.
#[derive(Debug)]
struct Refuser {
    scored: u64,
}

impl Policy for Refuser {
    fn hit(&mut self, _slot: Slot) {}

    fn evict(&mut self, _incoming: Option<Object>) -> Option<Slot> {
        None
    }

    fn insert(&mut self, _slot: Slot, _object: Object) {}

    fn remove(&mut self, _slot: Slot) {}

    fn is_scored(&self, object: Object) -> bool {
        object.key == self.scored
    }
}

/// A file without records.
#[derive(Debug)]
struct Empty;

impl Storage for Empty {
    fn read_at(&self, buffer: &mut [u8], _offset: u64) -> std::io::Result<()> {
        buffer.fill(0);
        Ok(())
    }

    fn write_at(&self, _bytes: &[u8], _offset: u64) -> std::io::Result<()> {
        Ok(())
    }
}

/// Data that the policy refuses goes to the disk at the first offer if its object has a score, at the second otherwise.
#[test]
fn refused_data_is_offered_to_the_disk() {
    let mut pcct = Pcct::new(&PcctConfig::with_capacity(16, 1, START), hasher());
    let (segments, segment_bytes) = Superblock::plan(4 << 20, 1).unwrap();
    let superblock = Superblock {
        format_id: 1,
        hash_key: [0; 16],
        hash_check: 0,
        shares: 1,
        segments,
        segment_bytes,
    };
    let options = ShareOptions {
        superblock,
        share: 0,
        packets_max: 100,
        reads_max: 1,
        admission: Admission::SecondTouch,
        unix_origin_ms: 1_000_000,
    };
    pcct.attach_disk(Box::new(recover(&Empty, options).unwrap()));
    let policy = Refuser { scored: Hashed::new(&name_of(&[3])).hashes()[1] };
    let new = CsReplacement::with_policy(PolicyKind::Lfu, CsObjects::Packets, Box::new(policy));
    pcct.set_cs_policy(new, START);
    let store = |pcct: &mut Pcct, number: u16| {
        let name = Hashed::new(&name_of(&[number]));
        let stored = pcct.insert_data(&name.data(), &data(&name.value, &[1]), 0, true, START).err();
        let counters = pcct.disk().unwrap().counters().values();
        (stored, counters.offered, counters.admitted)
    };
    assert_eq!(store(&mut pcct, 1), (None, 0, 0));
    assert_eq!(store(&mut pcct, 2), (Some(CsError::Refused), 1, 0));
    assert_eq!(store(&mut pcct, 2), (Some(CsError::Refused), 2, 1));
    assert_eq!(store(&mut pcct, 2), (Some(CsError::Refused), 3, 1), "it is there");
    assert_eq!(store(&mut pcct, 3), (Some(CsError::Refused), 4, 2), "its object has a score");
}
