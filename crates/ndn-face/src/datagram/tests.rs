//! What loopback cannot show: runs, refusals by the kernel, and a socket without room.
#![allow(clippy::cast_possible_truncation, reason = "small numbers in tests")]

use std::io;
use std::os::fd::OwnedFd;

use ndn_ring::PacketPool;
use ndn_sys::udp::{MESSAGE_LENGTH_MAX, SEGMENTS_MAX};
use ndn_table::FaceIndex;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};

use super::{ChannelCounters, DatagramQueue, DatagramWriter};
use crate::output::Flushed;

fn face(slot: u32) -> FaceIndex {
    FaceIndex::new(slot, 0)
}

fn queue_of(lengths: &[usize], pool: &PacketPool) -> DatagramQueue {
    let mut queue = DatagramQueue::new(true);
    for length in lengths {
        let bytes = vec![0; *length];
        queue.push(face(1), None, &[], &bytes, None, pool, usize::MAX).unwrap();
    }
    queue
}

#[test]
fn runs_are_of_equal_datagrams_but_for_the_last() {
    let pool = PacketPool::new(1).unwrap();
    let run = |lengths: &[usize]| queue_of(lengths, &pool).run_at(0);
    assert_eq!(run(&[100]), 1);
    assert_eq!(run(&[100, 100, 100]), 3);
    assert_eq!(run(&[100, 100, 99, 99]), 3);
    assert_eq!(run(&[100, 101]), 1);
    assert_eq!(run(&[100, 99, 100]), 2);
    assert_eq!(run(&[100; 200]), SEGMENTS_MAX);
    assert_eq!(run(&[8800; 20]), MESSAGE_LENGTH_MAX / 8800);
    let mut queue = queue_of(&[100], &pool);
    queue.push(face(2), None, &[], &[0; 100], None, &pool, usize::MAX).unwrap();
    assert_eq!(queue.run_at(0), 1);
}

#[test]
fn what_the_route_or_the_card_refuses_goes_one_by_one() {
    let pool = PacketPool::new(1).unwrap();
    let mut queue = queue_of(&[2000, 2000, 1000, 1000], &pool);
    let refusal = |error: rustix::io::Errno| io::Error::from(error);
    let too_long = refusal(rustix::io::Errno::INVAL);
    assert!(!queue.shorten_runs(1, 0, &too_long), "a single one is refused for good");
    assert!(!queue.shorten_runs(2, 0, &refusal(rustix::io::Errno::NETUNREACH)));
    assert!(queue.shorten_runs(2, 0, &too_long));
    assert_eq!((queue.run_at(0), queue.run_at(2)), (1, 2));
    assert!(queue.shorten_runs(2, 2, &refusal(rustix::io::Errno::IO)));
    assert_eq!(queue.run_at(2), 1);
}

/// A datagram socket whose peer reads nothing; unlike UDP it has an end of patience.
fn pair() -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::DGRAM, flags, None).unwrap()
}

#[test]
fn what_the_kernel_has_no_room_for_waits_without_its_blocks() {
    let pool = PacketPool::new(1).unwrap();
    let (near, far) = pair();
    let mut queue = DatagramQueue::new(false);
    let mut writer = DatagramWriter::new();
    let counters = ChannelCounters::default();
    let mut fill = pool.allocate_block().unwrap();
    fill.spare_mut()[..4000].fill(9);
    fill.commit(4000);
    let handle = fill.carve(4000);
    drop(fill);
    let large = pool.bytes(&handle).to_vec();
    for seed in 0..300_usize {
        queue.push(face(1), None, &[seed as u8], &large, Some(&handle), &pool, usize::MAX).unwrap();
        let small = vec![seed as u8; 50];
        queue.push(face(2), None, &[], &small, None, &pool, usize::MAX).unwrap();
    }
    pool.release(handle);
    let mut flush = |queue: &mut DatagramQueue| {
        queue.flush(&near, &pool, &mut writer, &counters, |_| panic!("nothing is refused"))
    };
    assert_eq!(flush(&mut queue), Flushed::Blocked);
    pool.reclaim();
    assert_eq!(pool.counters().blocks_in_use(), 0);
    let waiting = queue.pending_bytes();
    assert!(waiting > 0);
    let limit = queue.push(face(1), None, &[], &[0; 10], None, &pool, waiting + 9);
    assert!(limit.is_err());

    let mut buffer = vec![0; 10_000];
    let mut received: [Vec<Vec<u8>>; 2] = Default::default();
    loop {
        while let Ok((length, _)) = rustix::net::recv(&far, &mut buffer[..], RecvFlags::empty()) {
            let small = usize::from(length == 50);
            received[small].push(buffer[..length].to_vec());
        }
        if queue.pending_bytes() == 0 {
            break;
        }
        flush(&mut queue);
    }
    for (seed, (long, short)) in received[0].iter().zip(&received[1]).enumerate() {
        assert_eq!((long[0], &long[1..]), (seed as u8, &large[..]));
        assert_eq!(*short, vec![seed as u8; 50]);
    }
    assert_eq!((received[0].len(), received[1].len()), (300, 300));
}

#[test]
fn a_socket_that_is_gone_refuses_everything_and_keeps_nothing() {
    let pool = PacketPool::new(1).unwrap();
    let (near, far) = pair();
    drop(far);
    let mut queue = queue_of(&[100; 10], &pool);
    let mut refused = 0;
    let counters = ChannelCounters::default();
    let flushed =
        queue.flush(&near, &pool, &mut DatagramWriter::new(), &counters, |_| refused += 1);
    assert_eq!((flushed, refused, queue.pending_bytes()), (Flushed::All, 10, 0));
}
