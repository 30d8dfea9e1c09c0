//! Handles that are passed between threads, and retained and released on any of them.
#![cfg(not(any(loom, miri)))]
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "test code")]

use std::sync::mpsc::{Receiver, Sender, channel};

use ndn_ring::{PacketHandle, PacketPool};

const THREADS: usize = 3;
const ROUNDS: u32 = 300_000;

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Receives packets into blocks, and passes on or releases all packets that it gets, some of them
/// retained first.
fn work(
    own: usize,
    incoming: &Receiver<PacketHandle>,
    outgoing: &[Sender<PacketHandle>],
) -> PacketPool {
    let pool = PacketPool::new(64).unwrap();
    let mut state = 0x9E37_79B9 + own as u64;
    let mut block = None;
    for round in 0..ROUNDS {
        if round % 8 == 0 {
            pool.settle();
        }
        pool.reclaim();
        let mut handles: Vec<PacketHandle> = incoming.try_iter().take(4).collect();
        if round % 2 == 0 && round < ROUNDS / 2 {
            // Without a block, this round only passes packets on.
            if let Some(mut fill) = block.take().or_else(|| pool.allocate_block()) {
                fill.spare_mut()[..100].fill(own as u8);
                fill.commit(100);
                handles.push(fill.carve(100));
                if fill.remaining() < 60_000 {
                    pool.finish(fill);
                } else {
                    block = Some(fill);
                }
            }
        }
        for handle in handles {
            let bytes = pool.bytes(&handle);
            assert!(bytes.iter().all(|&byte| byte == bytes[0]), "overwritten while in use");
            if random(&mut state).is_multiple_of(4) {
                let other = if random(&mut state).is_multiple_of(2) {
                    pool.retain(&handle)
                } else {
                    handle.retain_remote()
                };
                let _ = outgoing[random(&mut state) as usize % THREADS].send(other);
            }
            if random(&mut state).is_multiple_of(3) {
                let _ = outgoing[random(&mut state) as usize % THREADS].send(handle);
            } else {
                pool.release(handle);
            }
        }
    }
    block.into_iter().for_each(|fill| pool.finish(fill));
    pool
}

#[test]
fn every_reference_is_returned() {
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| channel()).unzip();
    let threads: Vec<_> = receivers
        .into_iter()
        .enumerate()
        .map(|(own, receiver)| {
            let senders = senders.clone();
            std::thread::spawn(move || (work(own, &receiver, &senders), receiver))
        })
        .collect();
    drop(senders);
    let ends: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    for (pool, receiver) in &ends {
        receiver.try_iter().for_each(|handle| pool.release(handle));
        pool.settle();
    }
    for (pool, _) in &ends {
        pool.reclaim();
        assert_eq!(pool.counters().blocks_in_use(), 0);
    }
}

/// More handles are released on the owner's thread than it carved, before it has counted the
/// retains.
#[test]
fn handles_retained_elsewhere_return_before_their_block_is_full() {
    let pool = PacketPool::new(1).unwrap();
    let mut fill = pool.allocate_block().unwrap();
    fill.spare_mut()[..9].fill(7);
    fill.commit(9);
    let handle = fill.carve(9);
    let others: Vec<_> = (0..5).map(|_| handle.retain_remote()).collect();
    pool.release(handle);
    others.into_iter().for_each(|other| pool.release(other));
    pool.finish(fill);
    assert_eq!(pool.counters().blocks_in_use(), 0);
}
