//! Each table alone: nanoseconds per operation in bursts of 64, with other memory accesses between
//! bursts.
//!
//! `cargo bench -p ndn-table --bench tables [-- FILTER]`. The end-to-end figure is
//! `namewire bench pipeline`; this bench shows which table a change there comes from.
#![allow(clippy::unwrap_used, reason = "a bench fails by panicking")]
#![allow(clippy::print_stdout, reason = "the result of a bench")]
#![allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "small numbers")]
#![allow(clippy::disallowed_methods, reason = "a bench measures time")]

use std::hint::black_box;
use std::time::Instant;

use ndn_packet::NameRef;
use ndn_ring::{advise_huge_pages, prefetch_slice};
use ndn_table::{
    DataKey, FaceIndex, FibConfig, FibSearch, FibWriter, InRecord, InterestKey, NameHasher,
    PREFIX_HASHES_MAX, Pcct, PcctConfig, PitMatches, StrategyId,
};
use ndn_types::random::Random;
use ndn_types::{PrincipalIndex, Timestamp};

const BURST: usize = 64;

fn main() {
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let wants = |name: &str| filter.as_ref().is_none_or(|filter| name.contains(filter.as_str()));
    if wants("hash") {
        hash();
    }
    for entries in [10_000, 100_000, 1_000_000] {
        if wants("fib") {
            fib(entries);
        }
    }
    let cases = [("cs-random-parents", 1_000_000, 1), ("cs-runs-of-64", 1_000_000, 64)];
    for (name, cs_packets, fanout) in cases {
        if wants(name) {
            exchange(name, cs_packets, fanout);
        }
    }
    // Small enough to count instructions with a simulator.
    if filter.as_deref() == Some("cs-small") {
        exchange("cs-small", 30_000, 1);
    }
    if filter.as_deref() == Some("cs-tiny") {
        exchange("cs-tiny", 40_000, 1);
    }
    if wants("cbp") {
        can_be_prefix(1_000_000);
    }
    for cs_packets in [65_536, 1_000_000] {
        if wants(&format!("prefix-misses-{cs_packets}")) {
            prefix_misses(cs_packets);
        }
    }
}

/// Median of nanoseconds per operation; robust against other load on the machine.
#[derive(Default)]
struct Samples(Vec<f64>);

impl Samples {
    fn add(&mut self, start: Instant, operations: usize) {
        self.0.push(start.elapsed().as_nanos() as f64 / operations as f64);
    }

    fn median(&mut self) -> f64 {
        self.0.sort_by(f64::total_cmp);
        self.0[self.0.len() / 2]
    }
}

fn hasher() -> NameHasher {
    NameHasher::new(*b"key of the bench")
}

/// Four components, 40 bytes: one of `prefixes`, one of 16, a parent, a number.
fn write_name(out: &mut Vec<u8>, prefixes: u64, parent: u64, number: u64) {
    out.clear();
    let first = format!("{:08}", parent % prefixes);
    let second = format!("{:04}", parent / prefixes % 16);
    let third = format!("{:08x}", parent as u32);
    for (kind, component) in [(8, first), (8, second), (8, third)] {
        out.extend([kind, component.len() as u8]);
        out.extend(component.as_bytes());
    }
    out.extend([50, 8]);
    out.extend(number.to_be_bytes());
}

struct Name {
    wire: Vec<u8>,
    name_start: usize,
    hashes: [u64; PREFIX_HASHES_MAX],
    count: usize,
}

impl Name {
    fn new() -> Self {
        Self { wire: Vec::new(), name_start: 0, hashes: [0; PREFIX_HASHES_MAX], count: 0 }
    }

    fn set(&mut self, kind: u8, name: &[u8], rest: &[u8], hasher: &NameHasher) {
        self.wire.clear();
        let length = 2 + name.len() + rest.len();
        if length < 0xFD {
            self.wire.extend([kind, length as u8]);
        } else {
            self.wire.extend([kind, 0xFD, (length >> 8) as u8, length as u8]);
        }
        self.wire.extend([7, name.len() as u8]);
        self.name_start = self.wire.len();
        self.wire.extend(name);
        self.wire.extend(rest);
        self.count = hasher.hash_value_prefixes(name, &mut self.hashes).unwrap();
    }

    fn name(&self) -> NameRef<'_> {
        let length = usize::from(self.wire[self.name_start - 1]);
        let value = &self.wire[self.name_start..self.name_start + length];
        NameRef::from_validated(value, self.count as u16 - 1)
    }

    fn interest(&self, can_be_prefix: bool) -> InterestKey<'_> {
        InterestKey::new(self.name(), &self.hashes[..self.count], can_be_prefix, false)
    }

    fn data(&self) -> DataKey<'_> {
        DataKey::new(self.name(), &self.hashes[..self.count])
    }
}

fn hash() {
    let hasher = hasher();
    for components in [4, 8, 13] {
        let name = [8, 8, 1, 2, 3, 4, 5, 6, 7, 8].repeat(components);
        let mut hashes = [0; PREFIX_HASHES_MAX];
        let mut samples = Samples::default();
        for _ in 0..20_000 {
            let start = Instant::now();
            for _ in 0..BURST {
                black_box(hasher.hash_value_prefixes(black_box(&name), &mut hashes));
            }
            samples.add(start, BURST);
        }
        println!("hash: {components} components of 8 bytes: {:.1} ns per name", samples.median());
    }
}

fn fib(entries: u64) {
    let hasher = hasher();
    let start = Instant::now();
    let mut writer = FibWriter::new(&FibConfig {
        entries_max: 2 * entries as usize,
        hasher,
        default_strategy: StrategyId(0),
    });
    let mut prefix = Vec::new();
    for number in 0..entries {
        write_name(&mut prefix, entries, number, 0);
        let name = NameRef::from_value(&prefix).unwrap();
        // A third each of one, two and three components.
        let face = FaceIndex::from_bits((number % 100) as u32);
        writer.set_next_hop(name.prefix(1 + (number % 3) as usize), face, 1).unwrap();
    }
    let fib = writer.publish();
    let load = start.elapsed();
    let start = Instant::now();
    let updates = 2000;
    for number in 0..updates {
        write_name(&mut prefix, entries, number * 7919 % entries, 0);
        let name = NameRef::from_value(&prefix).unwrap().prefix(1);
        writer.set_next_hop(name, FaceIndex::from_bits(500), number).unwrap();
        black_box(writer.publish());
    }
    let update = start.elapsed().as_nanos() as f64 / updates as f64;

    let mut random = Random::with_state(1);
    let mut names: Vec<Name> = (0..64 * BURST).map(|_| Name::new()).collect();
    for name in &mut names {
        write_name(&mut prefix, entries, random.bits() % entries, random.bits());
        name.set(5, &prefix, &[10, 4, 1, 2, 3, 4], &hasher);
    }
    // Other work between bursts, so that the table does not own the cache.
    let mut other = vec![1_u64; 1 << 18];
    let mut bursts = Samples::default();
    let mut alone = Samples::default();
    let rounds = 20_000;
    let mut checksum = 0;
    for round in 0..rounds {
        for i in 0..256 {
            let place = (random.bits() as usize + i) % other.len();
            other[place] += 1;
        }
        // Fresh names, so that other entries are touched each time.
        let names = &mut names[round % 64 * BURST..][..BURST];
        for name in names.iter_mut() {
            write_name(&mut prefix, entries, random.bits() % entries, random.bits());
            name.set(5, &prefix, &[10, 4, 1, 2, 3, 4], &hasher);
        }
        let start = Instant::now();
        if round % 2 == 0 {
            let mut searches: [FibSearch; BURST] = std::array::from_fn(|i| {
                let hashes = &names[i].hashes[..names[i].count];
                fib.prefetch_search(hashes.len() - 1, |depth| hashes[depth]);
                fib.begin_search(hashes.len() - 1)
            });
            let mut is_searching = true;
            while is_searching {
                is_searching = false;
                for (search, name) in searches.iter_mut().zip(&*names) {
                    let hash_at = |depth| name.hashes[depth];
                    is_searching |= fib.continue_search(search, name.count - 1, hash_at);
                }
            }
            for (search, name) in searches.into_iter().zip(&*names) {
                let slot = fib.finish_search(search, name.name(), &name.hashes[..name.count]);
                checksum += fib.entry(slot).next_hops().len();
            }
            bursts.add(start, BURST);
        } else {
            for name in &*names {
                let slot = fib.find_longest_prefix(name.name(), &name.hashes[..name.count]);
                checksum += fib.entry(slot).next_hops().len();
            }
            alone.add(start, BURST);
        }
    }
    assert_eq!(checksum, rounds * BURST, "every name has a route");
    println!(
        "fib: {entries} entries: load {:.2} s, update {:.1} us, lookup {:.1} ns in bursts, {:.1} ns alone",
        load.as_secs_f64(),
        update / 1000.0,
        bursts.median(),
        alone.median(),
    );
}

/// The minimum cost of an exchange on this machine: six random prefetched lines, and a copy of the
/// Data to a rotating store.
struct Floor {
    lines: Vec<[u64; 8]>,
    store: Vec<u8>,
    next: usize,
    random: Random,
}

impl Floor {
    fn new(packets: usize) -> Self {
        let mut lines = Vec::with_capacity(packets * 4);
        advise_huge_pages(lines.spare_capacity_mut());
        lines.resize(packets * 4, [1; 8]);
        let mut store = Vec::with_capacity(packets * 1152);
        advise_huge_pages(store.spare_capacity_mut());
        store.resize(packets * 1152, 1);
        Self { lines, store, next: 0, random: Random::with_state(5) }
    }

    fn run(&mut self, data: &[Name]) -> u64 {
        let mut sum = 0;
        for half in data.chunks(BURST / 2) {
            let mut places = [[0; 6]; BURST / 2];
            for place in places.iter_mut().take(half.len()).flatten() {
                *place = self.random.bits() as usize % self.lines.len();
                prefetch_slice(&self.lines, *place);
            }
            for (name, places) in half.iter().zip(places) {
                for place in places {
                    sum += self.lines[place][0];
                    self.lines[place][7] = sum;
                }
                let end = self.next + 1152;
                self.store[self.next..end][..name.wire.len()].copy_from_slice(&name.wire);
                self.next = if end == self.store.len() { 0 } else { end };
            }
        }
        sum
    }
}

struct Exchanges {
    pcct: Pcct,
    hasher: NameHasher,
    now: Timestamp,
    interests: Vec<Name>,
    data: Vec<Name>,
    matches: PitMatches,
    payload: Vec<u8>,
}

impl Exchanges {
    fn new(cs_packets: u32) -> Self {
        let mut config = PcctConfig::with_capacity(131_072, cs_packets, Timestamp::from_nanos(1));
        config.cs_bytes_max = cs_packets as usize * 1300;
        let mut payload = vec![21, 0xFD, 3, 232];
        payload.extend([7; 1000]);
        payload.extend([22, 3, 27, 1, 0, 23, 32]);
        payload.extend([9; 32]);
        Self {
            pcct: Pcct::new(&config, hasher()),
            hasher: hasher(),
            now: Timestamp::from_nanos(1),
            interests: (0..BURST).map(|_| Name::new()).collect(),
            data: (0..BURST).map(|_| Name::new()).collect(),
            matches: PitMatches::default(),
            payload,
        }
    }

    #[inline(never)]
    fn interest_burst(&mut self) {
        let Self { pcct, interests, now, .. } = self;
        let face = FaceIndex::from_bits(1);
        for name in &*interests {
            pcct.prefetch_interest_buckets(&name.interest(false));
        }
        for name in &*interests {
            pcct.prefetch_interest_entries(&name.interest(false));
        }
        for name in &*interests {
            let key = name.interest(false);
            assert!(pcct.find_interest(&key).is_none());
            assert!(pcct.find_data(&key, *now, |_| [0; 32]).is_none());
            let index = pcct.insert_new_interest(&key, &name.wire, PrincipalIndex::OTHER).unwrap();
            pcct.add_in_record(index, InRecord::new(face, 7, 4000, *now), &[1, 2, 3, 4, 5, 6])
                .unwrap();
            pcct.insert_out_record(index, FaceIndex::from_bits(2), 7, 4000, *now).unwrap();
            pcct.set_expiry(index, now.plus_millis(4000), *now);
        }
        let mut budget = 256;
        assert!(pcct.pop_expired(*now, &mut budget).is_none());
    }

    #[inline(never)]
    fn data_burst(&mut self) {
        let Self { pcct, data, now, matches, .. } = self;
        for name in &*data {
            pcct.prefetch_data_bucket(name.data().name_hash());
        }
        for name in &*data {
            pcct.prefetch_data_entries(name.data().name_hash());
        }
        for name in &*data {
            let key = name.data();
            pcct.find_pit_matches(&key, || [0; 32], matches);
            assert_eq!(matches.as_slice().len(), 1);
            for &index in matches.as_slice() {
                black_box(pcct.in_records(index).count());
                pcct.erase(index);
            }
            pcct.insert_data(&key, &name.wire, 1000, true, *now).unwrap();
        }
    }
}

/// One Interest and one Data per exchange, `fanout` names under each parent.
fn exchange(case: &str, cs_packets: u32, fanout: u64) {
    let mut world = Exchanges::new(cs_packets);
    let outstanding: u64 = (cs_packets.min(100_000) as u64 / 5) / BURST as u64 * BURST as u64;
    let total = u64::from(cs_packets) * 3;
    let parents = 10_000_000 / fanout;
    // A permutation of the names, so that the order is random and no name repeats.
    let name_at = |i: u64| {
        let run = i / fanout;
        let parent = run.wrapping_mul(7_919_999_983) % parents;
        (parent, i % fanout + (run / parents) * fanout)
    };
    let mut value = Vec::new();
    let mut interests = Samples::default();
    let mut answers = Samples::default();
    let mut floors = Samples::default();
    let mut floor = Floor::new(cs_packets as usize);
    for base in (0..total).step_by(BURST) {
        world.now = world.now.plus_nanos(20_000);
        let is_measured = base >= total - u64::from(cs_packets) / 2;
        for i in 0..BURST as u64 {
            let (parent, number) = name_at(base + i);
            write_name(&mut value, 10_000, parent, number);
            world.interests[i as usize].set(5, &value, &[10, 4, 1, 2, 3, 4], &world.hasher);
        }
        let start = Instant::now();
        world.interest_burst();
        if is_measured {
            interests.add(start, BURST);
        }
        let Some(answered) = base.checked_sub(outstanding) else { continue };
        for i in 0..BURST as u64 {
            let (parent, number) = name_at(answered + i);
            write_name(&mut value, 10_000, parent, number);
            let Exchanges { data, payload, hasher, .. } = &mut world;
            data[i as usize].set(6, &value, payload, hasher);
        }
        let start = Instant::now();
        world.data_burst();
        if is_measured {
            answers.add(start, BURST);
            let start = Instant::now();
            black_box(floor.run(&world.data));
            floors.add(start, BURST);
        }
    }
    assert!(world.pcct.cs_counters().evictions > u64::from(cs_packets));
    println!(
        "{case}: CS {cs_packets}: Interest {:.1} ns, Data {:.1} ns ({} bytes), floor {:.1} ns, {} prefix nodes",
        interests.median(),
        answers.median(),
        world.data[0].wire.len(),
        floors.median(),
        world.pcct.cs_prefix_node_count(),
    );
}

/// A million Data under one prefix, and Interests with CanBePrefix for it.
fn can_be_prefix(cs_packets: u32) {
    let mut world = Exchanges::new(cs_packets);
    let mut value = Vec::new();
    let mut name = Name::new();
    for number in 0..u64::from(cs_packets) {
        write_name(&mut value, 1, 0, number);
        name.set(6, &value, &world.payload, &world.hasher);
        world.pcct.insert_data(&name.data(), &name.wire, 1000, true, world.now).unwrap();
    }
    let parent = NameRef::from_value(&value).unwrap().prefix(2).value().to_vec();
    name.set(5, &parent, &[33, 0, 10, 4, 1, 2, 3, 4], &world.hasher);
    for must_be_fresh in [false, true] {
        let key = InterestKey::new(name.name(), &name.hashes[..name.count], true, must_be_fresh);
        let rounds = 100_000_u32;
        let start = Instant::now();
        for _ in 0..rounds {
            assert!(world.pcct.find_data(&key, world.now, |_| [0; 32]).is_some());
        }
        let nanos = start.elapsed().as_nanos() as f64 / f64::from(rounds);
        println!("cbp: {cs_packets} under one prefix, fresh {must_be_fresh}: {nanos:.1} ns");
    }
    let later = world.now.plus_millis(5000);
    let key = InterestKey::new(name.name(), &name.hashes[..name.count], true, true);
    let start = Instant::now();
    let rounds = 1000_u32;
    for _ in 0..rounds {
        assert!(world.pcct.find_data(&key, later, |_| [0; 32]).is_none());
    }
    let nanos = start.elapsed().as_nanos() as f64 / f64::from(rounds);
    println!("cbp: {cs_packets} under one prefix, all stale: {nanos:.1} ns");
}

/// Interests with CanBePrefix for prefixes of which nothing is cached, in a full store of unrelated names. For the number of
/// instructions: `valgrind --tool=callgrind --toggle-collect='*::search_missing'`.
fn prefix_misses(cs_packets: u32) {
    const SEARCHES: u64 = 1000;
    let payload = [22, 3, 27, 1, 0, 23, 0];
    let mut config = PcctConfig::with_capacity(1024, cs_packets, Timestamp::from_nanos(1));
    config.cs_bytes_max = cs_packets as usize * 200;
    let mut pcct = Pcct::new(&config, hasher());
    let (mut value, mut name, now) = (Vec::new(), Name::new(), Timestamp::from_nanos(1));
    for parent in 0..u64::from(cs_packets) * 3 / 2 {
        write_name(&mut value, 10_000, parent, 0);
        name.set(6, &value, &payload, &hasher());
        pcct.insert_data(&name.data(), &name.wire, 1000, true, now).unwrap();
    }
    let mut samples = Samples::default();
    for parent in 0..SEARCHES {
        write_name(&mut value, 10_000, 100_000_000 + parent, 0);
        let prefix = NameRef::from_value(&value).unwrap().prefix(3).value().to_vec();
        name.set(5, &prefix, &[33, 0, 10, 4, 1, 2, 3, 4], &hasher());
        let start = Instant::now();
        assert!(!search_missing(&mut pcct, &name.interest(true), now));
        samples.add(start, 1);
    }
    println!("prefix-misses-{cs_packets}: {:.1} ns", samples.median());
}

#[inline(never)]
fn search_missing(pcct: &mut Pcct, key: &InterestKey<'_>, now: Timestamp) -> bool {
    pcct.find_data(key, now, |_| [0; 32]).is_some()
}
