//! Model test of the pool against a map from handles to the bytes they must show.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "test code")]

use std::collections::{HashMap, HashSet};

use ndn_ring::{BLOCK_SIZE, FillBlock, PacketHandle, PacketPool, PoolError};
use proptest::prelude::*;

const BLOCKS: u32 = 3;

#[derive(Debug, Clone)]
enum Operation {
    Allocate,
    Receive {
        fill: usize,
        length: usize,
        byte: u8,
    },
    Patch {
        fill: usize,
    },
    Carve {
        fill: usize,
        length: usize,
    },
    Skip {
        fill: usize,
        length: usize,
    },
    Finish {
        fill: usize,
    },
    DropFill {
        fill: usize,
    },
    Retain {
        handle: usize,
    },
    Release {
        handle: usize,
    },
    /// As on another thread.
    ReleaseHome {
        handle: usize,
    },
    Reclaim,
}

fn operation() -> impl Strategy<Value = Operation> {
    let index = 0..64_usize;
    let length = prop_oneof![1..40_usize, 1..BLOCK_SIZE];
    prop_oneof![
        2 => Just(Operation::Allocate),
        4 => (index.clone(), length.clone(), any::<u8>())
            .prop_map(|(fill, length, byte)| Operation::Receive { fill, length, byte }),
        1 => index.clone().prop_map(|fill| Operation::Patch { fill }),
        6 => (index.clone(), length.clone())
            .prop_map(|(fill, length)| Operation::Carve { fill, length }),
        1 => (index.clone(), length).prop_map(|(fill, length)| Operation::Skip { fill, length }),
        1 => index.clone().prop_map(|fill| Operation::Finish { fill }),
        1 => index.clone().prop_map(|fill| Operation::DropFill { fill }),
        2 => index.clone().prop_map(|handle| Operation::Retain { handle }),
        3 => index.clone().prop_map(|handle| Operation::Release { handle }),
        2 => index.prop_map(|handle| Operation::ReleaseHome { handle }),
        1 => Just(Operation::Reclaim),
    ]
}

/// The expected references and the open part of a block.
#[derive(Default)]
struct Model {
    /// Each live handle with the bytes that it was carved from.
    handles: Vec<(PacketHandle, Vec<u8>)>,
    fills: Vec<(FillBlock, Vec<u8>)>,
}

impl Model {
    /// Blocks with at least one reference.
    fn blocks_in_use(&self) -> usize {
        let mut blocks = HashMap::new();
        for (handle, _) in &self.handles {
            blocks.insert(handle.block_index(), ());
        }
        // Each fill block is a separate block; it may also have handles.
        let carved_blocks = blocks.len();
        let fills_without_handles = self
            .fills
            .iter()
            .filter(|(fill, _)| !self.handles.iter().any(|(handle, _)| same_block(fill, handle)))
            .count();
        carved_blocks + fills_without_handles
    }

    fn check(&self, pool: &PacketPool) {
        for (handle, bytes) in &self.handles {
            assert_eq!(pool.bytes(handle), bytes);
            assert_eq!(handle.bytes(), bytes);
            assert_eq!(handle.len(), bytes.len());
        }
        for (fill, bytes) in &self.fills {
            assert_eq!(fill.filled(), bytes);
            assert!(fill.readable().starts_with(bytes));
            assert_eq!(fill.readable().len(), BLOCK_SIZE - fill.carved_offset());
        }
    }
}

fn same_block(fill: &FillBlock, handle: &PacketHandle) -> bool {
    let open = fill.filled().as_ptr() as usize - fill.carved_offset();
    let start = handle.bytes().as_ptr() as usize - usize::from(handle.offset());
    open == start
}

fn pick(length: usize, index: usize) -> Option<usize> {
    (length > 0).then(|| index % length)
}

fn apply(pool: &PacketPool, model: &mut Model, operation: Operation) {
    match operation {
        Operation::Allocate => {
            pool.reclaim();
            let in_use = model.blocks_in_use();
            let fill = pool.allocate_block();
            assert_eq!(fill.is_some(), in_use < BLOCKS as usize);
            if let Some(fill) = fill {
                assert_eq!(fill.remaining(), BLOCK_SIZE);
                model.fills.push((fill, Vec::new()));
            }
        }
        Operation::Receive { fill, length, byte } => {
            let Some(index) = pick(model.fills.len(), fill) else { return };
            let (fill, bytes) = &mut model.fills[index];
            let length = length.min(fill.remaining());
            fill.spare_mut()[..length].fill(byte);
            fill.commit(length);
            bytes.extend(std::iter::repeat_n(byte, length));
        }
        Operation::Patch { fill } => {
            let Some(index) = pick(model.fills.len(), fill) else { return };
            let (fill, bytes) = &mut model.fills[index];
            fill.filled_mut().iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
            bytes.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
        }
        Operation::Carve { fill, length } => {
            let Some(index) = pick(model.fills.len(), fill) else { return };
            let (fill, bytes) = &mut model.fills[index];
            let length = length.min(bytes.len()).min(usize::from(u16::MAX));
            if length > 0 {
                let handle = fill.carve(length);
                assert_eq!(handle.pool_id(), pool.id());
                model.handles.push((handle, bytes.drain(..length).collect()));
            }
        }
        Operation::Skip { fill, length } => {
            let Some(index) = pick(model.fills.len(), fill) else { return };
            let (fill, bytes) = &mut model.fills[index];
            let length = length.min(bytes.len());
            fill.skip(length);
            bytes.drain(..length);
        }
        Operation::Finish { fill } => {
            let Some(index) = pick(model.fills.len(), fill) else { return };
            pool.finish(model.fills.swap_remove(index).0);
        }
        Operation::DropFill { fill } => {
            let Some(index) = pick(model.fills.len(), fill) else { return };
            drop(model.fills.swap_remove(index));
        }
        Operation::Retain { handle } => {
            let Some(index) = pick(model.handles.len(), handle) else { return };
            let copy = pool.retain(&model.handles[index].0);
            let bytes = model.handles[index].1.clone();
            model.handles.push((copy, bytes));
        }
        Operation::Release { handle } => {
            let Some(index) = pick(model.handles.len(), handle) else { return };
            pool.release(model.handles.swap_remove(index).0);
        }
        Operation::ReleaseHome { handle } => {
            let Some(index) = pick(model.handles.len(), handle) else { return };
            model.handles.swap_remove(index).0.release_remote();
        }
        Operation::Reclaim => {
            pool.reclaim();
            assert_eq!(pool.counters().blocks_in_use() as usize, model.blocks_in_use());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 256 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn pool_behaves_like_the_model(
        operations in prop::collection::vec(operation(), 1..if cfg!(miri) { 40 } else { 200 }),
    ) {
        let pool = PacketPool::new(BLOCKS).unwrap();
        let mut model = Model::default();
        for operation in operations {
            apply(&pool, &mut model, operation);
            model.check(&pool);
        }
        pool.release_all(model.handles.into_iter().map(|(handle, _)| handle));
        model.fills.clear();
        pool.reclaim();
        prop_assert_eq!(pool.counters().blocks_in_use(), 0);
    }
}

fn carve_one(fill: &mut FillBlock, bytes: &[u8]) -> PacketHandle {
    fill.spare_mut()[..bytes.len()].copy_from_slice(bytes);
    fill.commit(bytes.len());
    fill.carve(bytes.len())
}

#[test]
fn handles_of_another_pool_can_be_read_retained_and_released() {
    let (owner, remote) = (PacketPool::new(1).unwrap(), PacketPool::new(1).unwrap());
    assert_ne!(owner.id(), remote.id());
    let mut fill = owner.allocate_block().unwrap();
    let handle = carve_one(&mut fill, b"packet");
    owner.finish(fill);

    let copy = remote.retain(&handle);
    assert_eq!(remote.bytes(&copy), b"packet");
    // The owner releases the copy before it has counted the retain.
    owner.release(copy);
    assert_eq!(owner.counters().blocks_in_use(), 1);
    assert_eq!(owner.bytes(&handle), b"packet");
    remote.release(handle);
    owner.reclaim();
    assert_eq!(owner.counters().blocks_in_use(), 1, "still cached");
    remote.settle();
    assert_eq!(owner.counters().blocks_in_use(), 1, "not reclaimed yet");
    owner.reclaim();
    assert_eq!(owner.counters().blocks_in_use(), 0);
}

#[test]
fn packets_of_several_blocks_and_pools_are_released_together() {
    let (one, other) = (PacketPool::new(2).unwrap(), PacketPool::new(1).unwrap());
    let carve = |pool: &PacketPool| {
        let mut fill = pool.allocate_block().unwrap();
        let handles = [b"a", b"b", b"c"].map(|bytes| carve_one(&mut fill, bytes));
        pool.finish(fill);
        handles
    };
    let [[a, b, c], [d, e, f], [g, h, i]] = [carve(&one), carve(&one), carve(&other)];
    // A run of the other's block, and one more handle of it, alone.
    one.release_all([a, b, g, h, c, d, e, i, f].into_iter());
    assert_eq!(one.counters().blocks_in_use(), 0);
    one.settle();
    other.reclaim();
    assert_eq!(other.counters().blocks_in_use(), 0);
    // A run of a block that references are held to already.
    let [j, k, l] = carve(&other);
    one.release_all([j].into_iter());
    one.release_all([k, l].into_iter());
    other.reclaim();
    assert_eq!(other.counters().blocks_in_use(), 1, "the references are held");
    one.settle();
    other.reclaim();
    assert_eq!(other.counters().blocks_in_use(), 0);
    one.release_all(std::iter::empty());
}

#[test]
fn references_to_another_pool_are_cached_for_one_block() {
    let (owner, remote) = (PacketPool::new(2).unwrap(), PacketPool::new(1).unwrap());
    let handles = [b"first", b"other"].map(|bytes| {
        let mut fill = owner.allocate_block().unwrap();
        let handle = carve_one(&mut fill, bytes);
        owner.finish(fill);
        handle
    });
    // More than are acquired at a time.
    let copies: Vec<_> = (0..200).map(|_| remote.retain(&handles[0])).collect();
    copies.into_iter().for_each(|copy| remote.release(copy));
    let [first, other] = handles;
    remote.release(first);
    let copy = remote.retain(&other);
    owner.reclaim();
    assert_eq!(
        owner.counters().blocks_in_use(),
        1,
        "the references to the first block were returned"
    );
    remote.release(other);
    assert_eq!(remote.bytes(&copy), b"other");
    owner.release(copy);
    drop(remote);
    owner.reclaim();
    assert_eq!(owner.counters().blocks_in_use(), 0);
}

#[test]
fn references_to_many_pools_return_to_each() {
    let remote = PacketPool::new(1).unwrap();
    let owners: Vec<_> = (0..20).map(|_| PacketPool::new(2).unwrap()).collect();
    // Pools whose ids differ by a multiple of eight share a place.
    let places: HashSet<_> = owners.iter().map(|owner| owner.id() % 8).collect();
    for round in 1..=2 {
        let handles: Vec<_> = owners
            .iter()
            .map(|owner| {
                let mut fill = owner.allocate_block().unwrap();
                let handle = carve_one(&mut fill, b"packet");
                owner.finish(fill);
                handle
            })
            .collect();
        for _ in 0..100 {
            let copies: Vec<_> = handles.iter().map(|handle| remote.retain(handle)).collect();
            for (owner, copy) in owners.iter().zip(copies) {
                assert_eq!(owner.bytes(&copy), b"packet");
                remote.release(copy);
            }
        }
        handles.into_iter().for_each(|handle| remote.release(handle));
        owners.iter().for_each(PacketPool::reclaim);
        let held = owners.iter().filter(|owner| owner.counters().blocks_in_use() > 0).count();
        assert_eq!(held, places.len(), "one block for each place, in round {round}");
        remote.settle();
        owners.iter().for_each(PacketPool::reclaim);
        assert!(owners.iter().all(|owner| owner.counters().blocks_in_use() == 0), "{round}");
    }
}

#[test]
fn full_pool_reclaims_before_allocation_fails() {
    let pool = PacketPool::new(1).unwrap();
    drop(pool.allocate_block().unwrap());
    let fill = pool.allocate_block().expect("the block was returned");
    assert!(pool.allocate_block().is_none());
    assert_eq!(pool.counters().allocation_failures(), 1);
    pool.finish(fill);
    assert_eq!(pool.counters().blocks_in_use_max(), 1);
}

#[test]
fn the_last_freed_block_is_used_first() {
    let pool = PacketPool::new(1000).unwrap();
    for _ in 0..100 {
        pool.finish(pool.allocate_block().unwrap());
    }
    assert_eq!(pool.counters().blocks_in_use_max(), 1);
}

#[test]
fn every_byte_of_a_block_can_be_a_packet() {
    let pool = PacketPool::new(1).unwrap();
    let mut fill = pool.allocate_block().unwrap();
    let count = if cfg!(miri) { 100 } else { BLOCK_SIZE };
    fill.commit(BLOCK_SIZE);
    let handles: Vec<_> = (0..count).map(|_| fill.carve(1)).collect();
    assert_eq!(usize::from(handles.last().unwrap().offset()), count - 1);
    drop(fill);
    handles.into_iter().for_each(|handle| pool.release(handle));
    pool.reclaim();
    assert_eq!(pool.counters().blocks_in_use(), 0);
}

#[test]
fn handle_remains_valid_after_its_pool_is_dropped() {
    let pool = PacketPool::new(1).unwrap();
    let handle = carve_one(&mut pool.allocate_block().unwrap(), b"late");
    drop(pool);
    assert_eq!(handle.bytes(), b"late");
    handle.release_remote();
}

#[test]
fn threads_release_while_the_owner_receives() {
    let rounds: u32 = if cfg!(miri) { 20 } else { 20_000 };
    let pool = PacketPool::new(8).unwrap();
    let (sender, receiver) = std::sync::mpsc::sync_channel::<PacketHandle>(64);
    let reader = std::thread::spawn(move || {
        let mut sum = 0_u64;
        for handle in receiver {
            let bytes = handle.bytes();
            assert!(bytes.iter().all(|byte| *byte == bytes[0]));
            sum += u64::from(bytes[0]);
            handle.release_remote();
        }
        sum
    });
    let mut sent = 0_u64;
    let mut fill = pool.allocate_block().unwrap();
    for round in 0..rounds {
        if fill.remaining() < 2000 {
            pool.finish(fill);
            fill = loop {
                pool.reclaim();
                match pool.allocate_block() {
                    Some(fill) => break fill,
                    None => std::thread::yield_now(),
                }
            };
        }
        let byte = round as u8;
        sent += u64::from(byte);
        sender.send(carve_one(&mut fill, &[byte; 2000])).unwrap();
    }
    drop(sender);
    assert_eq!(reader.join().unwrap(), sent);
    drop(fill);
    pool.reclaim();
    assert_eq!(pool.counters().blocks_in_use(), 0);
}

#[test]
fn invalid_pool_sizes_are_rejected() {
    assert!(matches!(PacketPool::new(0), Err(PoolError::BlockCount(0))));
    assert!(matches!(PacketPool::new(1 << 25), Err(PoolError::BlockCount(_))));
}
