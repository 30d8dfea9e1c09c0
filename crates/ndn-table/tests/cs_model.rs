//! Model test of the Content Store against lists that are searched linearly.
#![allow(clippy::cast_possible_truncation, reason = "small test numbers")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::VecDeque;

use common::{Hashed, data, digest, erase, hasher, name_of, with_digest};
use ndn_caching::PolicyKind;
use ndn_table::{
    CS_VARIANTS_PER_NAME_MAX, CsError, EVICTIONS_PER_INSERT_MAX, EraseRest, EraseSearch, Pcct,
    PcctConfig,
};
use ndn_types::{NANOS_PER_MILLI, Timestamp};
use proptest::prelude::*;

const CAPACITY: usize = 12;
/// A timer is at most this late.
const SLACK_NANOS: u64 = 64_003 * NANOS_PER_MILLI;

#[derive(Clone, Debug, PartialEq)]
struct Cached {
    name: Vec<u8>,
    wire: Vec<u8>,
    fresh_until: Timestamp,
}

impl Cached {
    fn is_fresh(&self, now: Timestamp) -> bool {
        now < self.fresh_until
    }
}

#[derive(Clone, Debug)]
enum Operation {
    Insert { name: Vec<u16>, content: u8, freshness_ms: u64, solicited: bool },
    Find { name: Vec<u16>, digest_of: Option<u8>, can_be_prefix: bool, must_be_fresh: bool },
    Erase { name: Vec<u16>, limit: usize },
    SetCapacity(usize),
    Switch { admit: bool, serve: bool },
    Advance { nanos: u64 },
}

fn name() -> impl Strategy<Value = Vec<u16>> {
    prop_oneof![
        8 => proptest::collection::vec(0..3_u16, 0..5),
        1 => (40..63_usize, 0..3_u16).prop_map(|(depth, last)| {
            let mut name = vec![0; depth];
            name.push(last);
            name
        }),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    let freshness = prop_oneof![Just(0_u64), 1..100_u64, 1..200_000_u64];
    prop_oneof![
        10 => (name(), 0..3_u8, freshness, any::<bool>()).prop_map(
            |(name, content, freshness_ms, solicited)| Operation::Insert { name, content, freshness_ms, solicited }),
        10 => (name(), proptest::option::weighted(0.2, 0..3_u8), any::<bool>(), any::<bool>()).prop_map(
            |(name, digest_of, can_be_prefix, must_be_fresh)| {
                Operation::Find { name, digest_of, can_be_prefix, must_be_fresh }
            }),
        1 => (name(), 0..6_usize).prop_map(|(name, limit)| Operation::Erase { name, limit }),
        1 => (0..2 * CAPACITY).prop_map(Operation::SetCapacity),
        1 => (prop::bool::weighted(0.8), prop::bool::weighted(0.8))
            .prop_map(|(admit, serve)| Operation::Switch { admit, serve }),
        4 => (0..50 * NANOS_PER_MILLI).prop_map(|nanos| Operation::Advance { nanos }),
        1 => (0..100_000 * NANOS_PER_MILLI).prop_map(|nanos| Operation::Advance { nanos }),
    ]
}

struct World {
    pcct: Pcct,
    policy: PolicyKind,
    now: Timestamp,
    /// Unsolicited, stale, others; the next to be evicted first.
    queues: [VecDeque<Cached>; 3],
    capacity: usize,
    admit: bool,
    serve: bool,
}

impl World {
    fn new(policy: PolicyKind) -> Self {
        let now = Timestamp::from_millis(77);
        let mut config = PcctConfig::with_capacity(16, CAPACITY as u32, now);
        config.cs_policy = policy;
        Self {
            pcct: Pcct::new(&config, hasher()),
            policy,
            now,
            queues: Default::default(),
            capacity: CAPACITY,
            admit: true,
            serve: true,
        }
    }

    fn all(&self) -> impl Iterator<Item = &Cached> {
        self.queues.iter().flatten()
    }

    fn len(&self) -> usize {
        self.all().count()
    }

    fn evict(&mut self) {
        let queue = self.queues.iter_mut().find(|queue| !queue.is_empty()).unwrap();
        queue.pop_front();
    }

    fn take(&mut self, wire: &[u8]) -> Option<Cached> {
        self.queues.iter_mut().find_map(|queue| {
            let position = queue.iter().position(|cached| cached.wire == wire)?;
            queue.remove(position)
        })
    }

    fn insert(&mut self, name: &[u8], content: u8, freshness_ms: u64, solicited: bool) {
        let wire = data(name, &vec![content; 1 + usize::from(content) * 150]);
        let hashed = Hashed::new(name);
        let result =
            self.pcct.insert_data(&hashed.data(), &wire, freshness_ms, solicited, self.now);
        if !self.admit || self.capacity == 0 {
            assert_eq!(result, Err(CsError::NotAdmitted));
            return;
        }
        let index = result.unwrap();
        assert_eq!(self.pcct.data(index), wire);
        let fresh_until = match freshness_ms {
            0 => Timestamp::ZERO,
            _ => self.now.plus_millis(freshness_ms),
        };
        let solicited =
            solicited || self.queues[1..].iter().flatten().any(|cached| cached.wire == wire);
        if self.take(&wire).is_none() {
            while self.len() >= self.capacity {
                self.evict();
            }
        }
        let cached = Cached { name: name.to_vec(), wire, fresh_until };
        let queue = match self.policy == PolicyKind::PriorityFifo {
            true if !solicited => 0,
            true if !cached.is_fresh(self.now) => 1,
            _ => 2,
        };
        self.queues[queue].push_back(cached);
    }

    fn find(
        &mut self,
        name: &[u8],
        digest_of: Option<u8>,
        can_be_prefix: bool,
        must_be_fresh: bool,
    ) {
        let mut requested = name.to_vec();
        let mut packet_digest = None;
        if let Some(content) = digest_of
            && name.len() < 4 * 62
        {
            let of = digest(&data(name, &vec![content; 1 + usize::from(content) * 150]));
            packet_digest = Some(of);
            requested = with_digest(name, &of);
        }
        let now = self.now;
        let accepted = |cached: &&Cached| !must_be_fresh || cached.is_fresh(now);
        let exact: Vec<&Cached> =
            self.all().filter(|cached| cached.name == name).filter(accepted).collect();
        let allowed: Vec<Cached> = if !self.serve {
            vec![]
        } else if let Some(of) = packet_digest {
            exact.into_iter().filter(|cached| digest(&cached.wire) == of).cloned().collect()
        } else if !exact.is_empty() {
            let longest = exact.iter().map(|cached| cached.fresh_until).max().unwrap();
            exact.into_iter().filter(|cached| cached.fresh_until == longest).cloned().collect()
        } else if can_be_prefix {
            self.all()
                .filter(|cached| cached.name.starts_with(name))
                .filter(accepted)
                .cloned()
                .collect()
        } else {
            vec![]
        };
        let hashed = Hashed::new(&requested);
        let key = hashed.interest(can_be_prefix, must_be_fresh);
        self.pcct.prefetch_interest_buckets(&key);
        self.pcct.prefetch_interest_entries(&key);
        self.pcct.prefetch_interest_payload(&key);
        let found = self.pcct.find_data(&key, now, digest);
        assert_eq!(found.is_some(), !allowed.is_empty(), "{allowed:?}");
        if let Some(index) = found {
            let wire = self.pcct.data(index).to_vec();
            assert!(allowed.iter().any(|cached| cached.wire == wire));
            if self.policy == PolicyKind::Lru {
                let cached = self.take(&wire).unwrap();
                self.queues[2].push_back(cached);
            }
        }
    }

    fn erase(&mut self, name: &[u8], limit: usize) {
        let before = self.all().filter(|cached| cached.name.starts_with(name)).count();
        let hashed = Hashed::new(name);
        let result = erase(&mut self.pcct, &hashed, limit);
        assert_eq!(result, (before.min(limit), before > limit));
        // The implementation may choose which of them.
        let left: Vec<Vec<u8>> = self.pcct.cached_packets().map(<[u8]>::to_vec).collect();
        for queue in &mut self.queues {
            queue.retain(|cached| left.contains(&cached.wire) || !cached.name.starts_with(name));
        }
    }

    /// Entries may become stale between their time and the timer's slack, in any order.
    fn adopt_stale(&mut self) {
        let [unsolicited, stale, _] = self.pcct.cs_queue_lengths().map(|len| len as usize);
        assert_eq!(unsolicited, self.queues[0].len());
        let moved: Vec<Vec<u8>> = self
            .pcct
            .cached_packets()
            .skip(unsolicited + self.queues[1].len())
            .take(stale.checked_sub(self.queues[1].len()).unwrap())
            .map(<[u8]>::to_vec)
            .collect();
        for wire in moved {
            let cached = self.take(&wire).unwrap();
            assert!(!cached.is_fresh(self.now));
            self.queues[1].push_back(cached);
        }
        if self.policy == PolicyKind::PriorityFifo {
            for cached in &self.queues[2] {
                assert!(cached.fresh_until.plus_nanos(SLACK_NANOS) > self.now);
            }
        }
    }

    fn poll(&mut self) {
        while self.len() > self.capacity {
            self.evict();
        }
        let mut rounds = 0;
        while self.pcct.poll_cs(self.now, 3) {
            rounds += 1;
            assert!(rounds < 1000);
        }
        self.adopt_stale();
    }

    fn apply(&mut self, operation: Operation) {
        match operation {
            Operation::Insert { name, content, freshness_ms, solicited } => {
                self.insert(&name_of(&name), content, freshness_ms, solicited);
            }
            Operation::Find { name, digest_of, can_be_prefix, must_be_fresh } => {
                self.find(&name_of(&name), digest_of, can_be_prefix, must_be_fresh);
            }
            Operation::Erase { name, limit } => self.erase(&name_of(&name), limit),
            Operation::SetCapacity(capacity) => {
                self.capacity = capacity.min(CAPACITY);
                assert_eq!(self.pcct.set_cs_capacity(capacity), self.capacity);
                self.poll();
            }
            Operation::Switch { admit, serve } => {
                (self.admit, self.serve) = (admit, serve);
                self.pcct.set_cs_admit(admit);
                self.pcct.set_cs_serve(serve);
            }
            Operation::Advance { nanos } => {
                self.now = self.now.plus_nanos(nanos);
                self.poll();
            }
        }
    }

    fn check(&self) {
        let expected: Vec<&[u8]> = self.all().map(|cached| cached.wire.as_slice()).collect();
        let actual: Vec<&[u8]> = self.pcct.cached_packets().collect();
        assert_eq!(actual, expected);
        assert_eq!(self.pcct.cs_len(), expected.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn agrees_with_the_model(
        is_lru in any::<bool>(),
        operations in proptest::collection::vec(operation(), 1..150)
    ) {
        let mut world = World::new(if is_lru { PolicyKind::Lru } else { PolicyKind::PriorityFifo });
        for operation in operations {
            world.apply(operation);
            world.check();
        }
        world.erase(&[], usize::MAX);
        world.check();
        assert_eq!(world.len(), 0);
        assert_eq!(world.pcct.cs_prefix_node_count(), 0);
    }
}

/// A packet of each size, then packets of the maximum length up to the limit.
#[test]
fn default_byte_capacity_has_room_for_all_packets_of_any_length() {
    const PACKETS: u32 = 1000;
    let now = Timestamp::from_millis(1);
    let mut pcct = Pcct::new(&PcctConfig::with_capacity(16, PACKETS, now), hasher());
    let lengths = (0..8500).step_by(64).chain(std::iter::repeat(8500));
    for (number, length) in (0..PACKETS as u16).zip(lengths) {
        let name = Hashed::new(&name_of(&[number]));
        let packet = data(&name.value, &vec![7; length]);
        pcct.insert_data(&name.data(), &packet, 0, true, now).unwrap();
    }
    assert_eq!(pcct.cs_len(), PACKETS as usize);
}

/// The limit is in bytes here, and sizes change: a packet of a new size soon finds room again.
#[test]
fn byte_capacity_holds_when_packet_sizes_change() {
    let now = Timestamp::from_millis(1);
    let mut config = PcctConfig::with_capacity(16, 100_000, now);
    config.cs_bytes_max = 4 << 20;
    let mut pcct = Pcct::new(&config, hasher());
    let mut number = 0_u32;
    for length in [100, 8000, 40, 3000, 100, 8600] {
        let mut refused = 0;
        for _ in 0..20_000 {
            number += 1;
            let name = Hashed::new(&name_of(&[(number >> 16) as u16, number as u16]));
            let packet = data(&name.value, &vec![7; length]);
            refused += u32::from(pcct.insert_data(&name.data(), &packet, 0, true, now).is_err());
            assert!(pcct.cs_bytes_in_use() <= 4 << 20);
        }
        let blocks = (4 << 20) / 128 / EVICTIONS_PER_INSERT_MAX;
        assert!((refused as usize) < blocks, "{refused} of length {length} refused");
        let least = (4 << 20) / (length + 300) / 2;
        assert!(pcct.cs_len() > least, "{} of length {length} cached", pcct.cs_len());
    }
    pcct.set_cs_bytes_max(1 << 20);
    while pcct.poll_cs(now, 10) {}
    assert!(pcct.cs_bytes_in_use() <= 1 << 20);
}

#[test]
fn freshest_variants_of_a_name_are_kept() {
    let now = Timestamp::from_millis(1);
    let mut pcct = Pcct::new(&PcctConfig::with_capacity(16, 100, now), hasher());
    let name = Hashed::new(&name_of(&[1, 2]));
    for content in 1..=9_u8 {
        let packet = data(&name.value, &[content]);
        let freshness_ms = u64::from(content) * 10;
        pcct.insert_data(&name.data(), &packet, freshness_ms, true, now).unwrap();
    }
    assert_eq!(pcct.cs_len(), CS_VARIANTS_PER_NAME_MAX);
    for content in 6..=9_u8 {
        let packet = data(&name.value, &[content]);
        let full = Hashed::new(&with_digest(&name.value, &digest(&packet)));
        let mut computed = 0;
        for _ in 0..2 {
            let found = pcct
                .find_data(&full.interest(false, false), now, |packet| {
                    computed += 1;
                    digest(packet)
                })
                .unwrap();
            assert_eq!(pcct.data(found), packet);
        }
        assert!(computed <= CS_VARIANTS_PER_NAME_MAX, "a digest is computed once");
    }
    let found = pcct.find_data(&name.interest(false, true), now, digest).unwrap();
    assert_eq!(pcct.data(found), data(&name.value, &[9]));
}

const HOUR_MS: u64 = 3_600_000;

/// A Content Store of solicited Data with one octet of content.
struct Store {
    pcct: Pcct,
    now: Timestamp,
}

impl Store {
    fn new(capacity: u32, prefix_nodes_max: u32) -> Self {
        let now = Timestamp::from_millis(1);
        let mut config = PcctConfig::with_capacity(16, capacity, now);
        config.cs_prefix_nodes_max = prefix_nodes_max;
        Self { pcct: Pcct::new(&config, hasher()), now }
    }

    fn insert(&mut self, components: &[u16], freshness_ms: u64) {
        let name = Hashed::new(&name_of(components));
        let packet = data(&name.value, &[1]);
        self.pcct.insert_data(&name.data(), &packet, freshness_ms, true, self.now).unwrap();
    }

    /// Fills the log of arrivals with other Data, while the Data of these names are in use.
    fn age(&mut self, kept: &[Vec<u16>]) {
        let capacity = u16::try_from(self.pcct.cs_capacity()).unwrap();
        for number in 0..2 * capacity {
            self.insert(&[60_000, number, 1], 0);
            if number.is_multiple_of(50) {
                for components in kept {
                    let name = Hashed::new(&name_of(components));
                    self.pcct.find_data(&name.interest(false, false), self.now, digest);
                }
            }
        }
    }

    /// The packet found for an Interest with CanBePrefix.
    fn find(&mut self, components: &[u16], must_be_fresh: bool) -> Option<Vec<u8>> {
        let name = Hashed::new(&name_of(components));
        let found = self.pcct.find_data(&name.interest(true, must_be_fresh), self.now, digest)?;
        Some(self.pcct.data(found).to_vec())
    }

    fn erase(&mut self, components: &[u16], limit: usize) -> (usize, bool) {
        erase(&mut self.pcct, &Hashed::new(&name_of(components)), limit)
    }
}

#[test]
fn newest_data_is_found_by_prefix_before_older_data() {
    let mut store = Store::new(5000, 5000);
    (0..1000).for_each(|number| store.insert(&[1, number], 0));
    store.insert(&[1, 5000], HOUR_MS);
    let newest = Some(data(&name_of(&[1, 5000]), &[1]));
    assert_eq!(store.find(&[2], false), None);
    while store.pcct.poll_cs(store.now, 64) {}
    assert_eq!(store.find(&[1], true), newest);
    assert_eq!(store.find(&[1], false), newest);
}

#[test]
fn data_that_arrives_again_is_found_by_prefix_before_older_data() {
    let mut store = Store::new(5000, 5000);
    (0..1000).for_each(|number| store.insert(&[1, number], 0));
    store.insert(&[1, 0], HOUR_MS);
    let renewed = Some(data(&name_of(&[1, 0]), &[1]));
    assert_eq!(store.find(&[1], true), renewed);
    assert_eq!(store.find(&[1], false), renewed);
    assert_eq!(store.erase(&[1], usize::MAX), (1000, false));
}

#[test]
fn every_cached_data_is_found_by_prefix_while_others_arrive() {
    let mut store = Store::new(6000, 6000);
    for round in 0..20 {
        for number in 0..256 {
            store.insert(&[round, number, 2], 0);
        }
        assert_eq!(store.find(&[round, 256], false), None);
        assert!(!store.pcct.poll_cs(store.now, 64));
    }
    for round in 0..20 {
        for number in 0..256 {
            assert!(store.find(&[round, number], false).is_some(), "{round}, {number}");
        }
    }
}

#[test]
fn search_by_prefix_leaves_no_work_for_later() {
    let mut store = Store::new(5000, 5000);
    (0..5000).for_each(|number| store.insert(&[number, 1, 2], 0));
    assert!(store.find(&[4999], false).is_some());
    assert_eq!(store.find(&[5000], false), None);
    assert_eq!(store.pcct.next_deadline(), None);
    assert!(!store.pcct.poll_cs(store.now, 64));
}

/// Of Data that has been cached for long, as much stays as there are prefix nodes for.
#[test]
fn prefix_node_count_is_bounded() {
    let mut store = Store::new(1000, 100);
    // Pairs that branch at a prefix of their own.
    let names: Vec<Vec<u16>> =
        (0..800).map(|number| vec![number / 2, 1, 2, 3, 4, number % 2]).collect();
    names.iter().for_each(|name| store.insert(name, 0));
    assert_eq!(store.pcct.cs_prefix_node_count(), 0);
    store.age(&names);
    assert_eq!(store.pcct.cs_prefix_node_count(), 100);
    let (evicted, now) = (store.pcct.cs_counters().evictions, store.now);
    assert_eq!(store.find(&[50_000], false), None);
    assert_eq!(store.pcct.cs_counters().evictions, evicted, "a search evicts nothing");
    let is_cached = |name: &Vec<u16>| {
        let name = Hashed::new(&name_of(name));
        store.pcct.find_data(&name.interest(false, false), now, digest).is_some()
    };
    assert_eq!(names.iter().map(is_cached).filter(|&is_cached| is_cached).count(), 500);
    for pair in 0..400 {
        assert!(store.find(&[pair, 1, 2, 3], false).is_some(), "{pair}");
        assert_eq!(store.find(&[pair, 1, 2, 2], false), None, "{pair}");
    }
}

#[test]
fn data_cached_for_long_is_found_by_prefix_after_what_arrived_lately() {
    let mut store = Store::new(1000, 1000);
    let names: Vec<Vec<u16>> = (0..300).map(|number| vec![number / 10, 7, number]).collect();
    names.iter().for_each(|name| store.insert(name, if name[2] == 5 { HOUR_MS } else { 0 }));
    store.age(&names);
    assert!(store.pcct.cs_prefix_node_count() > 0);
    for name in &names {
        assert_eq!(store.find(&[name[0], 8], false), None);
        let found = store.find(&name[..2], false).unwrap();
        assert!((0..10).any(|i| found == data(&name_of(&[name[0], 7, name[0] * 10 + i]), &[1])));
    }
    let fresh = Some(data(&name_of(&[0, 7, 5]), &[1]));
    assert_eq!(store.find(&[0], true), fresh);
    assert_eq!(store.find(&[1], true), None);
    store.insert(&[0, 9, 9], 0);
    assert_eq!(store.find(&[0], false), Some(data(&name_of(&[0, 9, 9]), &[1])));
    // What arrives again arrives last.
    store.insert(&names[3], 0);
    assert_eq!(store.find(&[0], false), Some(data(&name_of(&names[3]), &[1])));
    assert_eq!(store.find(&[0], true), fresh);
    assert_eq!(store.erase(&[0], 100), (11, false));
    assert_eq!(store.find(&[0], false), None);
    assert!(store.find(&[1], false).is_some());
}

#[test]
fn long_names_are_found_by_every_prefix() {
    let mut store = Store::new(1000, 1000);
    let name = |number: u16| -> Vec<u16> { (0..40).chain([number, number]).collect() };
    (0..200).for_each(|number| store.insert(&name(number), 0));
    for length in 0..=40 {
        assert_eq!(store.find(&name(1)[..length], false), Some(data(&name_of(&name(199)), &[1])));
    }
    for number in 0..200 {
        assert_eq!(
            store.find(&name(number)[..41], false),
            Some(data(&name_of(&name(number)), &[1]))
        );
    }
}

#[test]
fn erasure_by_prefix_ends_with_the_last_data_of_the_prefix() {
    let mut store = Store::new(5000, 5000);
    (0..256).for_each(|number| store.insert(&[1, number], 0));
    store.insert(&[2, 1], 0);
    (0..4000).for_each(|number| store.insert(&[3, number], 0));
    assert_eq!(store.erase(&[2], 256), (1, false));
    assert_eq!(store.erase(&[1], 255), (255, true));
    assert_eq!(store.erase(&[1], 1), (1, false));
    assert_eq!(store.pcct.cs_len(), 4000);
}

/// Names that tags and filters do not distinguish: they have 16 components in common, and many further prefixes each.
#[test]
fn erasure_of_nothing_among_deep_names_is_searched_in_steps() {
    let name = |number: u16| (0..16).chain([number; 40]).collect::<Vec<u16>>();
    let mut store = Store::new(4000, 4000);
    (0..4000).for_each(|number| store.insert(&name(number), 0));
    let absent = Hashed::new(&name_of(&name(5000)));
    let (mut search, mut calls) = (EraseSearch::default(), 1);
    while store.pcct.erase_data(&absent.data(), &mut search, 256).rest == EraseRest::NotSearched {
        calls += 1;
    }
    // 64 names each, of the segments that may have the prefix.
    assert!((10..=64).contains(&calls), "{calls} calls");
    assert_eq!(store.pcct.cs_len(), 4000);
}

/// Also that in the prefix tree.
#[test]
fn erasure_finds_all_data_while_others_arrive() {
    let name = |number: u16| (0..17).chain([number % 2, number]).collect::<Vec<u16>>();
    let mut store = Store::new(2000, 2000);
    let early: Vec<Vec<u16>> = (0..300).map(name).collect();
    early.iter().for_each(|name| store.insert(name, 0));
    store.age(&early);
    (300..600).for_each(|number| store.insert(&name(number), 0));
    let erased = Hashed::new(&name_of(&name(1)[..18]));
    let (mut search, mut count, mut calls) = (EraseSearch::default(), 0, 0);
    loop {
        let result = store.pcct.erase_data(&erased.data(), &mut search, 20);
        (count, calls) = (count + result.erased, calls + 1);
        if result.rest == EraseRest::Nothing {
            break;
        }
        (0..10).for_each(|number| store.insert(&[7, calls, number], 0));
    }
    assert_eq!((count, calls >= 15), (300, true), "{calls}");
    assert_eq!(store.find(&name(1)[..18], false), None);
    assert!(store.find(&name(0)[..18], false).is_some());
}

/// A Data that arrives again and again leaves a place with its tags each time.
#[test]
fn data_that_arrives_again_does_not_hide_older_data_from_prefixes_for_long() {
    let mut store = Store::new(40_000, 40_000);
    store.insert(&[1, 1, 1], 0);
    (0..30_000).for_each(|_| store.insert(&[1, 2, 2], 0));
    (0..10).for_each(|_| {
        store.find(&[1], false);
    });
    assert_eq!(store.erase(&[1, 2], 10), (1, false));
    let searches = (1..20).find(|_| store.find(&[1], false).is_some());
    // 4,096 places each.
    assert_eq!(searches, Some(8));
    assert!((0..3).all(|_| store.find(&[1], false).is_some()));
}
