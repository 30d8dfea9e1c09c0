//! A shard can use all of its tables: the names dispatched to it spread over them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use ndn_packet::NameRef;
use ndn_table::{DataKey, InterestKey, NameHasher, Ndt, PREFIX_HASHES_MAX, Pcct, PcctConfig};
use ndn_types::{PrincipalIndex, Timestamp};

/// The value of a name whose second component is `number`.
fn name_value(components: usize, number: u32) -> Vec<u8> {
    let component = |index: usize| if index == 1 { number } else { 7 };
    (0..components)
        .flat_map(|index| [&[8, 4][..], &component(index).to_be_bytes()].concat())
        .collect()
}

/// Fills shard 0 to its capacity with names that are dispatched to it.
fn fill(shard_count: usize, components: usize) {
    const CAPACITY: u32 = 16_384;
    let hasher = NameHasher::new(*b"0123456789abcdef");
    let ndt = Ndt::new(shard_count, 2);
    let config = PcctConfig::with_capacity(CAPACITY, CAPACITY, Timestamp::ZERO);
    let mut pcct = Pcct::new(&config, hasher);
    let mut hashes = [0; PREFIX_HASHES_MAX];
    let (mut filled, mut number) = (0, 0);
    while filled < CAPACITY {
        number += 1;
        let value = name_value(components, number);
        let count = hasher.hash_value_prefixes(&value, &mut hashes).unwrap();
        let (name, hashes) = (NameRef::from_value(&value).unwrap(), &hashes[..count]);
        if ndt.find(name, hashes).shard != 0 {
            continue;
        }
        let length = u8::try_from(value.len()).unwrap();
        let packet = |kind| [&[kind, length + 2, 7, length][..], &value].concat();
        let data = DataKey::new(name, hashes);
        pcct.insert_data(&data, &packet(6), 0, true, Timestamp::from_millis(1)).unwrap();
        let interest = InterestKey::new(name, hashes, false, false);
        pcct.insert_new_interest(&interest, &packet(5), PrincipalIndex::OTHER).unwrap();
        filled += 1;
    }
    let filled = filled as usize;
    let shape = format!("{shard_count} shards, {components} components");
    assert_eq!((pcct.cs_len(), pcct.pit_len()), (filled, filled), "{shape}");
    assert_eq!(pcct.cs_counters().evictions, 0, "{shape}");
}

#[test]
fn tables_of_one_shard_can_be_filled_to_capacity() {
    for shard_count in 1..=8 {
        for components in [2, 4] {
            fill(shard_count, components);
        }
    }
}
