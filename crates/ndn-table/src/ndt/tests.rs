#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "tests")]

use std::collections::BTreeMap;

use ndn_packet::{Name, NameRef};
use proptest::prelude::*;

use super::*;
use crate::{NameHasher, PREFIX_HASHES_MAX};

fn hashes_of(name: NameRef<'_>) -> Vec<u64> {
    let mut hashes = [0; PREFIX_HASHES_MAX];
    let hasher = NameHasher::new(*b"key of the tests");
    let count = hasher.hash_prefixes(name, &mut hashes).unwrap();
    hashes[..count].to_vec()
}

/// The table as a map of the entries that were changed.
#[derive(Debug, Default)]
struct Oracle {
    shards: BTreeMap<usize, u8>,
    previous: BTreeMap<usize, u8>,
    depths: BTreeMap<usize, usize>,
    splitting: Vec<usize>,
}

const SHARDS: usize = 5;
const DEPTH: usize = 2;

impl Oracle {
    fn shard(&self, index: usize) -> u8 {
        self.shards.get(&index).copied().unwrap_or((index % SHARDS) as u8)
    }

    fn route(&self, hashes: &[u64]) -> NdtRoute {
        let components = hashes.len() - 1;
        let first = (hashes[components.min(DEPTH)] >> 32) as usize % 65_536;
        let mut depth = DEPTH;
        let mut last = first;
        if components >= DEPTH
            && let Some(&split) = self.depths.get(&first)
        {
            depth = split;
            last = (hashes[components.min(split)] >> 32) as usize % 65_536;
        }
        let mut previous = self.previous.get(&last).copied().unwrap_or(self.shard(last));
        if depth > DEPTH && self.splitting.contains(&first) {
            previous = self.shard(first);
        }
        let (shard, entry) = (self.shard(last), last as u16);
        NdtRoute { shard, previous, is_short: components < depth, entry }
    }
}

#[derive(Debug, Clone)]
enum Change {
    Move(usize, u8),
    Split(usize, usize),
    Settle(usize),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (0..12_usize, 0..7_u8).prop_map(|(name, shard)| Change::Move(name, shard)),
        (0..12_usize, 0..6_usize).prop_map(|(name, depth)| Change::Split(name, depth)),
        (0..12_usize).prop_map(Change::Settle),
    ]
}

fn name(number: usize) -> Name {
    let uris =
        ["/a", "/b", "/a/a", "/a/b", "/a/a/a", "/a/a/b", "/a/a/a/a", "/a/b/a", "/a/b/a/a/a/a"];
    Name::from_uri(uris[number % uris.len()]).unwrap()
}

/// The entry that a name is found by if nothing was split.
fn index(number: usize) -> usize {
    let name = name(number);
    let hashes = hashes_of(name.as_ref());
    (hashes[name.as_ref().len().min(DEPTH)] >> 32) as usize % 65_536
}

fn apply(table: &Ndt, oracle: &mut Oracle, change: &Change) {
    match *change {
        Change::Move(number, shard) => {
            let index = index(number);
            let settled = !oracle.previous.contains_key(&index) && oracle.splitting.is_empty();
            let result = table.move_entry(index, shard);
            if usize::from(shard) >= SHARDS {
                assert_eq!(result, Err(NdtError::NoSuchShard));
            } else if !settled {
                assert_eq!(result, Err(NdtError::Unsettled));
            } else {
                assert_eq!(result, Ok(()));
                if oracle.shard(index) != shard {
                    oracle.previous.insert(index, oracle.shard(index));
                }
                oracle.shards.insert(index, shard);
            }
        }
        Change::Split(number, depth) => {
            let index = index(number);
            let is_settled = oracle.previous.is_empty() && !oracle.splitting.contains(&index);
            let result = table.split_entry(index, depth);
            assert_eq!(
                result.is_ok(),
                depth > DEPTH && is_settled && !oracle.depths.contains_key(&index)
            );
            if result.is_ok() {
                oracle.depths.insert(index, depth);
                oracle.splitting.push(index);
            }
        }
        Change::Settle(number) => {
            let index = index(number);
            let before = oracle.splitting.len();
            oracle.splitting.retain(|&other| other != index);
            let was_splitting = oracle.splitting.len() != before;
            let was_moving = oracle.previous.remove(&index).is_some();
            assert_eq!(table.settle(index), was_splitting || was_moving);
        }
    }
}

proptest! {
    #[test]
    fn routes_are_those_of_a_map(changes in proptest::collection::vec(change(), 0..40)) {
        let table = Ndt::new(SHARDS, DEPTH);
        let mut oracle = Oracle::default();
        for change in &changes {
            apply(&table, &mut oracle, change);
            for number in 0..9 {
                let name = name(number);
                let hashes = hashes_of(name.as_ref());
                prop_assert_eq!(
                    table.find(name.as_ref(), &hashes),
                    oracle.route(&hashes),
                    "{} after {:?}", name, changes
                );
                if hashes.len() > DEPTH {
                    let route = oracle.route(&hashes);
                    let first = (hashes[DEPTH] >> 32) as usize % NDT_ENTRIES;
                    let is_settled =
                        !oracle.depths.contains_key(&first) && route.previous == route.shard;
                    prop_assert_eq!(
                        table.find_settled(hashes[DEPTH]),
                        is_settled.then_some((route.shard, route.entry)),
                        "{} after {:?}", name, changes
                    );
                }
            }
        }
    }
}

#[test]
fn every_shard_has_its_part() {
    let table = Ndt::new(7, 2);
    let mut counts = [0; 7];
    for index in 0..NDT_ENTRIES {
        let entry = table.get(index).unwrap();
        assert_eq!((entry.previous, entry.depth, entry.is_settled), (entry.shard, 0, true));
        counts[usize::from(entry.shard)] += 1;
    }
    assert!(counts.iter().all(|&count: &usize| count.abs_diff(NDT_ENTRIES / 7) <= 1), "{counts:?}");
    assert_eq!(table.get(NDT_ENTRIES), None);
    assert_eq!(table.move_entry(NDT_ENTRIES, 0), Err(NdtError::NoSuchEntry));
    assert!(!table.settle(NDT_ENTRIES));
}

#[test]
fn digests_at_the_end_do_not_count() {
    let digest = [&[1, 32][..], &[9; 32]].concat();
    let component = |bytes: &[u8]| [&[8, u8::try_from(bytes.len()).unwrap()], bytes].concat();
    // A component whose value has the two bytes of a digest in the right place.
    let decoy = component(&[&[7; 10][..], &digest].concat());
    let cases: [(&[&[u8]], usize); 7] = [
        (&[], 0),
        (&[&component(b"a")], 1),
        (&[&component(b"a"), &digest], 1),
        (&[&component(b"a"), &digest, &digest], 1),
        (&[&component(b"a"), &digest, &component(b"b")], 3),
        (&[&digest], 0),
        (&[&component(b"a"), &decoy], 2),
    ];
    for (parts, expected) in cases {
        let value = parts.concat();
        let name = NameRef::from_value(&value).unwrap();
        assert_eq!(dispatch_components(name), expected, "{name:?}");
    }
}

#[test]
fn segments_of_a_split_entry_stay_together_in_runs() {
    let table = Ndt::new(8, 2);
    let file = Name::from_uri("/data/file/v=1").unwrap();
    let segment = |number: u64| {
        let mut name = file.clone();
        name.push_segment(number);
        name
    };
    let route = |name: &Name| table.find(name.as_ref(), &hashes_of(name.as_ref()));
    let first = table.first_entry(file.as_ref(), &hashes_of(file.as_ref()));
    assert_eq!(usize::from(route(&segment(0)).entry), first);
    table.split_entry(first, 4).unwrap();
    table.settle(first);
    for number in 0..64 {
        assert_eq!(route(&segment(number)), route(&segment(0)));
    }
    let shards: std::collections::BTreeSet<u8> =
        (0..64).map(|run| route(&segment(run * 64)).shard).collect();
    assert_eq!(shards.len(), 8, "one file uses all shards");
    assert!(route(&file).is_short);
}
