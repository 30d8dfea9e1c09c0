//! Model test of the FIB against an ordered map that is searched prefix by prefix.
#![allow(clippy::cast_possible_truncation, reason = "small test numbers")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use common::{Hashed, Random, hasher, name_of};
use ndn_packet::NameRef;
use ndn_table::{
    FaceIndex, FibConfig, FibError, FibSlot, FibSnapshot, FibWriter, NextHop, StrategyId,
};
use proptest::prelude::*;

const DEFAULT: StrategyId = StrategyId(100);

#[derive(Clone, Debug, Default)]
struct Model {
    /// By face and cost, those of equal cost in the order in which they were set.
    next_hops: BTreeMap<Vec<u16>, Vec<(u32, u64)>>,
    strategies: BTreeMap<Vec<u16>, StrategyId>,
}

impl Model {
    fn len(&self) -> usize {
        let names: BTreeSet<_> = self.next_hops.keys().chain(self.strategies.keys()).collect();
        names.len()
    }

    fn is_real(&self, name: &[u16]) -> bool {
        name.is_empty() || self.next_hops.contains_key(name) || self.strategies.contains_key(name)
    }

    /// Depth of the longest real prefix, next hops, their depth, strategy.
    fn lookup(&self, name: &[u16]) -> (usize, Vec<NextHop>, usize, StrategyId) {
        let mut best = (0, vec![], 0, DEFAULT);
        for depth in 0..=name.len() {
            let prefix = &name[..depth];
            if self.is_real(prefix) {
                best.0 = depth;
            }
            if let Some(next_hops) = self.next_hops.get(prefix) {
                best.1 = sorted(next_hops);
                best.2 = depth;
            }
            if let Some(&strategy) = self.strategies.get(prefix) {
                best.3 = strategy;
            }
        }
        best
    }
}

fn sorted(next_hops: &[(u32, u64)]) -> Vec<NextHop> {
    let mut sorted: Vec<_> = next_hops
        .iter()
        .map(|&(face, cost)| NextHop { face: FaceIndex::from_bits(face), cost })
        .collect();
    sorted.sort_by_key(|hop| hop.cost);
    sorted
}

/// Removes the next hop of a face; returns whether there was one.
fn remove(next_hops: &mut Vec<(u32, u64)>, face: u32) -> bool {
    let before = next_hops.len();
    next_hops.retain(|hop| hop.0 != face);
    next_hops.len() < before
}

fn new_writer(entries_max: usize) -> FibWriter {
    FibWriter::new(&FibConfig { entries_max, hasher: hasher(), default_strategy: DEFAULT })
}

fn check(fib: &FibSnapshot, model: &Model, names: &[Vec<u16>]) {
    let hashed: Vec<_> = names.iter().map(|name| Hashed::new(&name_of(name))).collect();
    // In bursts, with the steps of all names in turn.
    for (names, hashed) in names.chunks(64).zip(hashed.chunks(64)) {
        let mut searches: Vec<_> =
            hashed.iter().map(|hashed| fib.begin_search(hashed.hashes().len() - 1)).collect();
        let mut active: Vec<usize> = (0..searches.len()).collect();
        while !active.is_empty() {
            active.retain(|&i| {
                let hashes = hashed[i].hashes();
                fib.continue_search(&mut searches[i], hashes.len() - 1, |depth| hashes[depth])
            });
        }
        for ((name, hashed), search) in names.iter().zip(hashed).zip(searches) {
            let found = fib.finish_search(search, hashed.name(), hashed.hashes());
            assert_eq!(fib.find_longest_prefix(hashed.name(), hashed.hashes()), found);
            let entry = fib.entry(found);
            let (depth, next_hops, next_hops_depth, strategy) = model.lookup(name);
            assert_eq!(entry.prefix().value(), name_of(&name[..depth]), "prefix of {name:?}");
            assert_eq!(entry.next_hops(), next_hops, "next hops of {name:?}");
            assert_eq!(entry.next_hops_depth(), next_hops_depth);
            assert_eq!(entry.strategy(), strategy, "strategy of {name:?}");
            assert_eq!(entry.slot(), found);
        }
    }
}

/// While updates are not complete, a search finds a prefix of the name that exists, or did before.
fn check_partial(fib: &FibSnapshot, names: &[Vec<u16>]) {
    for name in names {
        let hashed = Hashed::new(&name_of(name));
        let found = fib.find_longest_prefix(hashed.name(), hashed.hashes());
        let entry = fib.entry(found);
        assert_eq!(entry.slot(), found);
        assert!(hashed.name().starts_with(entry.prefix()), "{} for {name:?}", entry.prefix());
    }
}

#[derive(Clone, Debug)]
enum Operation {
    SetNextHop(Vec<u16>, u32, u64),
    RemoveNextHop(Vec<u16>, u32),
    Clear(Vec<u16>),
    RemoveFace(u32),
    SetStrategy(Vec<u16>, u32),
    UnsetStrategy(Vec<u16>),
}

/// Names with few values per component, so that they nest, and of every length.
fn name(depth_max: usize) -> impl Strategy<Value = Vec<u16>> {
    proptest::collection::vec(prop_oneof![9 => Just(0_u16), 1 => 0..3_u16], 0..=depth_max)
}

fn operation() -> impl Strategy<Value = Operation> {
    let name = || prop_oneof![3 => name(5), 1 => name(33)];
    prop_oneof![
        6 => (name(), 0..6_u32, 0..3_u64).prop_map(|(n, f, c)| Operation::SetNextHop(n, f, c)),
        3 => (name(), 0..6_u32).prop_map(|(n, f)| Operation::RemoveNextHop(n, f)),
        1 => name().prop_map(Operation::Clear),
        1 => (0..6_u32).prop_map(Operation::RemoveFace),
        3 => (name(), 0..4_u32).prop_map(|(n, s)| Operation::SetStrategy(n, s)),
        2 => name().prop_map(Operation::UnsetStrategy),
    ]
}

fn apply(writer: &mut FibWriter, model: &mut Model, operation: &Operation) {
    let value = |name: &[u16]| name_of(name);
    match operation {
        Operation::SetNextHop(name, face, cost) => {
            let value = value(name);
            let prefix = NameRef::from_value(&value).unwrap();
            let result = writer.set_next_hop(prefix, FaceIndex::from_bits(*face), *cost);
            if name.len() > 32 {
                assert_eq!(result, Err(FibError::TooDeep));
            } else {
                assert_eq!(result, Ok(()));
                let next_hops = model.next_hops.entry(name.clone()).or_default();
                remove(next_hops, *face);
                next_hops.push((*face, *cost));
            }
        }
        Operation::RemoveNextHop(name, face) => {
            let value = value(name);
            let prefix = NameRef::from_value(&value).unwrap();
            let mut expected = false;
            if let Some(next_hops) = model.next_hops.get_mut(name) {
                expected = remove(next_hops, *face);
                if next_hops.is_empty() {
                    model.next_hops.remove(name);
                }
            }
            assert_eq!(writer.remove_next_hop(prefix, FaceIndex::from_bits(*face)), expected);
        }
        Operation::Clear(name) => {
            let value = value(name);
            model.next_hops.remove(name);
            let result = writer.set_next_hops(NameRef::from_value(&value).unwrap(), &[]);
            assert_eq!(result.is_err(), name.len() > 32);
        }
        Operation::RemoveFace(face) => {
            let mut expected = 0;
            model.next_hops.retain(|_, next_hops| {
                expected += usize::from(remove(next_hops, *face));
                !next_hops.is_empty()
            });
            assert_eq!(writer.remove_face(FaceIndex::from_bits(*face)), expected);
        }
        Operation::SetStrategy(name, strategy) => {
            let value = value(name);
            let prefix = NameRef::from_value(&value).unwrap();
            if writer.set_strategy(prefix, StrategyId(*strategy)).is_ok() {
                model.strategies.insert(name.clone(), StrategyId(*strategy));
            } else {
                assert!(name.len() > 32);
            }
        }
        Operation::UnsetStrategy(name) => {
            let value = value(name);
            let prefix = NameRef::from_value(&value).unwrap();
            let expected = !name.is_empty() && model.strategies.remove(name).is_some();
            assert_eq!(writer.unset_strategy(prefix), expected);
        }
    }
}

fn check_lists(writer: &FibWriter, model: &Model) {
    let routes: Vec<_> =
        writer.routes().map(|(name, hops)| (name.value().to_vec(), hops.to_vec())).collect();
    let mut expected: Vec<_> =
        model.next_hops.iter().map(|(name, hops)| (name_of(name), sorted(hops))).collect();
    expected.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(routes, expected);
    assert_eq!(writer.strategies().count(), model.strategies.len());
    assert_eq!(writer.len(), model.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Every version gives the model's answers at the time of publication, also after later
    /// changes.
    #[test]
    fn every_version_agrees_with_the_model(
        operations in proptest::collection::vec(operation(), 1..120),
        names in proptest::collection::vec(name(40), 1..70),
        publish_every in 1..8_usize,
        entries_at_once in prop_oneof![1..4_usize, Just(usize::MAX)],
    ) {
        let mut writer = new_writer(1000);
        writer.set_entries_at_once(entries_at_once);
        let mut model = Model::default();
        model.strategies.insert(vec![], DEFAULT);
        let mut versions: Vec<(Arc<FibSnapshot>, Model)> = Vec::new();
        for (count, operation) in operations.iter().enumerate() {
            apply(&mut writer, &mut model, operation);
            if count % publish_every == 0 {
                while writer.is_updating() {
                    check_partial(&writer.publish(), &names);
                    writer.continue_updating(2);
                }
                versions.push((writer.publish(), model.clone()));
            }
            writer.continue_updating(1);
        }
        writer.finish_updating();
        versions.push((writer.publish(), model.clone()));
        check_lists(&writer, &model);
        let mut prefixes: Vec<Vec<u16>> = names;
        prefixes.extend(model.next_hops.keys().cloned());
        prefixes.extend(model.strategies.keys().cloned());
        for (version, model) in &versions {
            check(version, model, &prefixes);
        }
        if entries_at_once == usize::MAX {
            prop_assert_eq!(writer.collect(), versions.len() - 1);
        }
        versions.clear();
        prop_assert_eq!(writer.collect(), 0);
    }
}

/// A choice for `/` that is repeated before its update is complete does not begin from the start each time.
#[test]
fn repeated_changes_of_a_short_prefix_reach_all_longer_ones() {
    let mut writer = new_writer(2000);
    let names: Vec<_> = (0..1000).map(|number| Hashed::new(&name_of(&[1, number]))).collect();
    for name in &names {
        writer.set_next_hop(name.name(), FaceIndex::new(1, 1), 1).unwrap();
    }
    writer.set_entries_at_once(10);
    let strategies = |writer: &mut FibWriter| {
        let fib = writer.publish();
        let found = |name: &Hashed| fib.find_longest_prefix(name.name(), name.hashes());
        let strategy = |name| fib.entry(found(name)).strategy();
        names.iter().map(strategy).collect::<Vec<StrategyId>>()
    };
    for number in 0..100 {
        writer.set_strategy(NameRef::ROOT, StrategyId(1 + number % 2)).unwrap();
        writer.continue_updating(20);
    }
    assert!(strategies(&mut writer).iter().all(|strategy| *strategy != DEFAULT));
    assert!(writer.is_updating());
    let slices = std::iter::from_fn(|| writer.is_updating().then(|| writer.continue_updating(100)));
    assert!(slices.count() <= 2 * 11);
    assert_eq!(strategies(&mut writer), [StrategyId(2); 1000]);
}

/// Thousands of prefixes, so that buckets overflow and the index is rebuilt.
#[test]
fn many_prefixes_of_all_lengths_agree_with_the_model() {
    let mut random = Random::new(1);
    let mut writer = new_writer(100_000);
    let mut model = Model::default();
    model.strategies.insert(vec![], DEFAULT);
    let mut names = Vec::new();
    for round in 0..8_000_u32 {
        let depth = 1 + random.below(if round % 10 == 0 { 32 } else { 4 }) as usize;
        let name: Vec<u16> = (0..depth).map(|_| random.below(12) as u16).collect();
        let operation = match random.below(8) {
            0 => Operation::SetStrategy(name.clone(), round % 7),
            1 => Operation::Clear(name.clone()),
            2 => Operation::UnsetStrategy(name.clone()),
            _ => Operation::SetNextHop(name.clone(), round % 5, u64::from(round % 3)),
        };
        apply(&mut writer, &mut model, &operation);
        if round % 4 == 0 {
            names.push(name);
        }
    }
    for _ in 0..5000 {
        let depth = random.below(40) as usize;
        names.push((0..depth).map(|_| random.below(12) as u16).collect());
    }
    let fib = writer.publish();
    check(&fib, &model, &names);
    check_lists(&writer, &model);
    for name in model.next_hops.keys().cloned().collect::<Vec<_>>() {
        apply(&mut writer, &mut model, &Operation::Clear(name));
    }
    let empty = writer.publish();
    check(&empty, &model, &names);
}

#[test]
fn slots_are_stable_and_generations_distinguish_reuse() {
    let mut writer = new_writer(10);
    let face = FaceIndex::new(1, 1);
    let a = Hashed::new(&name_of(&[1]));
    let b = Hashed::new(&name_of(&[2]));
    writer.set_next_hop(a.name(), face, 1).unwrap();
    let first = writer.publish();
    let slot = first.find_longest_prefix(a.name(), a.hashes());
    let generation = first.entry(slot).generation();
    writer.set_next_hop(a.name(), face, 2).unwrap();
    let second = writer.publish();
    assert_eq!(second.find_longest_prefix(a.name(), a.hashes()), slot);
    assert_eq!(second.entry(slot).generation(), generation);
    writer.remove_next_hop(a.name(), face);
    writer.set_next_hop(b.name(), face, 1).unwrap();
    let third = writer.publish();
    assert_eq!(third.find_longest_prefix(b.name(), b.hashes()), slot);
    assert_ne!(third.entry(slot).generation(), generation);
    assert_eq!(third.find_longest_prefix(a.name(), a.hashes()), FibSlot::ROOT);
    assert_eq!(first.entry(slot).prefix().value(), a.value);
}

#[test]
fn full_fib_rejects_only_new_prefixes() {
    let mut writer = new_writer(3);
    let face = FaceIndex::new(1, 1);
    let names: Vec<_> = (0..4).map(|n| Hashed::new(&name_of(&[n]))).collect();
    assert_eq!(writer.set_next_hop(names[0].name(), face, 1), Ok(()));
    assert_eq!(writer.set_strategy(names[1].name(), StrategyId(1)), Ok(()));
    assert_eq!(writer.set_next_hop(names[2].name(), face, 1), Err(FibError::Full));
    assert_eq!(writer.set_next_hop(names[1].name(), face, 1), Ok(()));
    assert!(writer.remove_next_hop(names[0].name(), face));
    assert_eq!(writer.set_next_hop(names[2].name(), face, 1), Ok(()));
    assert_eq!(writer.len(), 3);
}

#[test]
fn many_next_hops_and_long_prefixes_are_stored() {
    let mut writer = new_writer(10);
    let long = Hashed::new(&[&[8, 200][..], &[7; 200]].concat());
    let hops: Vec<_> = (0..50_u32)
        .map(|n| NextHop { face: FaceIndex::from_bits(n), cost: u64::from(50 - n) << 40 })
        .collect();
    writer.set_next_hops(long.name(), &hops).unwrap();
    let fib = writer.publish();
    let entry = fib.entry(fib.find_longest_prefix(long.name(), long.hashes()));
    assert_eq!(entry.prefix().value(), long.value);
    assert_eq!(entry.next_hops().len(), 50);
    assert!(entry.next_hops().windows(2).all(|pair| pair[0].cost <= pair[1].cost));
}
