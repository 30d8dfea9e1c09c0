//! Cases that loopback cannot show: runs, refusals by the kernel, and a socket without room.
#![allow(clippy::cast_possible_truncation, reason = "small numbers in tests")]

use std::os::fd::OwnedFd;

use ndn_types::{PrincipalKey, Reserves, Timestamp};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};

use super::*;
use crate::memory::FaceMemory;

/// The time of all flushes that do not depend on it.
const AT: Timestamp = Timestamp::from_millis(1);

fn face(slot: u32) -> FaceIndex {
    FaceIndex::new(slot, 0)
}

/// Queues a frame that is a whole packet.
fn push(
    queue: &mut DatagramQueue,
    slot: u32,
    (header, payload): (&[u8], &[u8]),
    handle: Option<&PacketHandle>,
    pool: &PacketPool,
) {
    sink(queue, slot, pool, usize::MAX).push_frame(header, payload, handle).unwrap();
}

/// The sink of the frames of one packet.
fn sink<'a>(
    queue: &'a mut DatagramQueue,
    slot: u32,
    pool: &'a PacketPool,
    bytes_max: usize,
) -> DatagramSink<'a> {
    let principal = PrincipalIndex::OTHER;
    let to = Destination { face: face(slot), principal, target: Target::Connected };
    let tap = TapPoint { tap: None, now: Timestamp::ZERO, face: face(slot) };
    DatagramSink::new(queue, to, pool, bytes_max, tap)
}

fn queue_of(lengths: &[usize], pool: &PacketPool) -> DatagramQueue {
    let mut queue = DatagramQueue::new(true);
    for length in lengths {
        push(&mut queue, 1, (&[], &vec![0; *length]), None, pool);
    }
    queue
}

#[test]
fn only_the_last_datagram_of_a_run_may_be_shorter() {
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
    push(&mut queue, 2, (&[], &[0; 100]), None, &pool);
    assert_eq!(queue.run_at(0), 1);
}

#[test]
fn rejected_runs_are_sent_one_by_one() {
    let pool = PacketPool::new(1).unwrap();
    let mut queue = queue_of(&[2000, 2000, 1000, 1000], &pool);
    let refusal = |error: Errno| io::Error::from(error);
    let too_long = refusal(Errno::INVAL);
    assert!(!queue.shorten_runs(AT, 1, 0, &too_long), "a single one is refused for good");
    assert!(!queue.shorten_runs(AT, 2, 0, &refusal(Errno::NETUNREACH)));
    assert!(queue.shorten_runs(AT, 2, 0, &too_long));
    assert_eq!((queue.run_at(0), queue.run_at(2)), (1, 2));
    assert!(queue.shorten_runs(AT, 2, 2, &refusal(Errno::IO)));
    assert_eq!(queue.run_at(2), 1);
    // Another peer may be behind another card.
    for length in [1000, 1000] {
        push(&mut queue, 2, (&[], &vec![0; length]), None, &pool);
    }
    assert_eq!(queue.run_at(4), 2);
}

/// The path MTU is one of the peer, and is learned again when the kernel may have forgotten it.
#[test]
fn rejected_run_shortens_only_those_to_the_same_peer_for_a_while() {
    let pool = PacketPool::new(1).unwrap();
    let mut queue = DatagramQueue::new(true);
    let fill = |queue: &mut DatagramQueue| {
        for slot in [1, 1, 2, 2] {
            push(queue, slot, (&[], &[0; 1400]), None, &pool);
        }
    };
    fill(&mut queue);
    assert!(queue.shorten_runs(AT, 2, 0, &io::Error::from(Errno::MSGSIZE)));
    let runs = |queue: &DatagramQueue| [0, 2].map(|first| queue.run_at(first));
    assert_eq!(runs(&queue), [1, 2]);
    let before = AT.plus(PATH_MTU_LIFETIME - Duration::from_nanos(1));
    for (now, expected) in [(before, [1, 2]), (before.plus_nanos(1), [2, 2])] {
        queue.discard(&pool);
        queue.narrow_paths.expire(now);
        fill(&mut queue);
        assert_eq!(runs(&queue), expected, "{now:?}");
    }
    assert!(queue.shorten_runs(AT, 2, 2, &io::Error::from(Errno::INVAL)));
    queue.forget_path(face(2));
    assert_eq!(runs(&queue), [2, 2]);
    for slot in 10..10 + u32::try_from(2 * NARROW_PATHS_MAX).unwrap() {
        queue.narrow_paths.note(AT, face(slot), 1279);
        assert!(queue.narrow_paths.faces.len() <= NARROW_PATHS_MAX);
    }
}

/// There may be more peers than are remembered.
#[test]
fn network_card_that_rejects_the_runs_of_several_peers_gets_none_for_a_while() {
    let pool = PacketPool::new(1).unwrap();
    let mut queue = DatagramQueue::new(true);
    let slots = 1..=u32::try_from(NARROW_PATHS_MAX).unwrap() + 1;
    let fill = |queue: &mut DatagramQueue| {
        for slot in slots.clone().flat_map(|slot| [slot, slot]) {
            push(queue, slot, (&[], &[0; 200]), None, &pool);
        }
    };
    let reject = |queue: &mut DatagramQueue, peers: std::ops::Range<usize>| {
        for peer in peers {
            assert_eq!(queue.run_at(2 * peer), 2);
            assert!(queue.shorten_runs(AT, 2, 2 * peer, &io::Error::from(Errno::IO)));
        }
    };
    fill(&mut queue);
    reject(&mut queue, 0..NARROW_PATHS_MAX - 1);
    assert_eq!(queue.run_at(2 * NARROW_PATHS_MAX), 2);
    reject(&mut queue, NARROW_PATHS_MAX - 1..NARROW_PATHS_MAX);
    assert_eq!(queue.run_at(2 * NARROW_PATHS_MAX), 1, "to none");
    assert!(queue.narrow_paths.faces.is_empty());
    queue.narrow_paths.expire(AT.plus(PATH_MTU_LIFETIME - Duration::from_nanos(1)));
    assert_eq!(queue.run_at(2 * NARROW_PATHS_MAX), 1);
    queue.narrow_paths.expire(AT.plus(PATH_MTU_LIFETIME));
    assert_eq!(queue.run_at(0), 2);
    // A run that is sent shows that the card of some peers can.
    reject(&mut queue, 0..NARROW_PATHS_MAX - 1);
    assert_eq!(queue.narrow_paths.unable, NARROW_PATHS_MAX - 1);
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(socket.local_addr().unwrap()).unwrap();
    let (channel, calls) = (ChannelCounters::default(), CallCounters::default());
    let counters = SendCounters { channel: &channel, calls: &calls };
    let mut writer = DatagramWriter::default();
    queue.flush(AT, &socket, &pool, &mut writer, counters, |_, _| panic!("refused"));
    assert_eq!(queue.narrow_paths.unable, 0);
    fill(&mut queue);
    reject(&mut queue, NARROW_PATHS_MAX - 1..NARROW_PATHS_MAX);
    assert_eq!(queue.run_at(2 * NARROW_PATHS_MAX), 2);
    queue.discard(&pool);
}

/// A datagram socket whose peer reads nothing; unlike UDP it has an end of patience.
fn pair() -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::DGRAM, flags, None).unwrap()
}

#[test]
fn blocked_frames_hold_no_blocks() {
    let pool = PacketPool::new(1).unwrap();
    let (near, far) = pair();
    let mut queue = DatagramQueue::new(false);
    let mut writer = DatagramWriter::default();
    let (channel, calls) = (ChannelCounters::default(), CallCounters::default());
    let counters = SendCounters { channel: &channel, calls: &calls };
    let mut fill = pool.allocate_block().unwrap();
    fill.spare_mut()[..4000].fill(9);
    fill.commit(4000);
    let handle = fill.carve(4000);
    drop(fill);
    let large = pool.bytes(&handle).to_vec();
    for seed in 0..300_usize {
        push(&mut queue, 1, (&[seed as u8], &large), Some(&handle), &pool);
        let small = vec![seed as u8; 50];
        push(&mut queue, 2, (&[], &small), None, &pool);
    }
    pool.release(handle);
    let mut flush = |queue: &mut DatagramQueue| {
        queue.flush(AT, &near, &pool, &mut writer, counters, |_, _| panic!("nothing is refused"))
    };
    assert_eq!(flush(&mut queue), Flushed::Blocked);
    pool.reclaim();
    assert_eq!(pool.counters().blocks_in_use(), 0);
    let waiting = queue.pending_bytes();
    assert!(waiting > 0);
    let limit = sink(&mut queue, 1, &pool, waiting + 9).push_frame(&[], &[0; 10], None);
    assert_eq!(limit, Err(LinkDropReason::QueueFull));

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
    assert_eq!(calls.sent_frames.value(), 600);
}

#[test]
fn principal_takes_at_most_what_is_left_of_a_blocked_queue() {
    let pool = PacketPool::new(1).unwrap();
    let (near, _far) = pair();
    let mut queue = DatagramQueue::new(false);
    let (channel, calls) = (ChannelCounters::default(), CallCounters::default());
    let counters = SendCounters { channel: &channel, calls: &calls };
    for _ in 0..300 {
        push(&mut queue, 1, (&[], &[0; 4000]), None, &pool);
    }
    let mut writer = DatagramWriter::default();
    let flushed = queue.flush(AT, &near, &pool, &mut writer, counters, |_, _| panic!("refused"));
    assert_eq!(flushed, Flushed::Blocked);
    let mut memory = FaceMemory::new(1 << 20, 1 << 20, Reserves::NONE);
    let [one, two] = [1, 2].map(|number| {
        let holder =
            memory.attach(face(number), PrincipalKey::Neighbour { face_id: number.into() });
        memory.principal(holder)
    });
    let bytes_max = queue.pending_bytes() + 80_000;
    let target = Target::Internet((std::net::Ipv4Addr::LOCALHOST, 6363).into());
    let mut fill = |slot, principal| {
        let to = Destination { face: face(slot), principal, target };
        let tap = TapPoint { tap: None, now: Timestamp::ZERO, face: face(slot) };
        let mut sink = DatagramSink::new(&mut queue, to, &pool, bytes_max, tap);
        (0..100).take_while(|_| sink.push_frame(&[], &[0; 1000], None).is_ok()).count()
    };
    assert_eq!(fill(1, one), 40);
    assert_eq!(fill(2, one), 0, "another face of the same principal");
    assert_eq!(fill(3, two), 20);
    queue.discard(&pool);
    assert!(queue.held.is_empty());
}

/// Sends what is in `queue` and reads it from the other end.
fn sent(queue: &mut DatagramQueue, pool: &PacketPool) -> Vec<Vec<u8>> {
    let (near, far) = pair();
    let (channel, calls) = (ChannelCounters::default(), CallCounters::default());
    let counters = SendCounters { channel: &channel, calls: &calls };
    let (mut received, mut buffer) = (Vec::new(), vec![0; 10_000]);
    while queue.pending_bytes() > 0 {
        queue.flush(AT, &near, pool, &mut DatagramWriter::default(), counters, |_, _| {
            panic!("refused")
        });
        while let Ok((length, _)) = rustix::net::recv(&far, &mut buffer[..], RecvFlags::empty()) {
            received.push(buffer[..length].to_vec());
        }
    }
    received
}

#[test]
fn frames_are_sorted_by_length_and_keep_their_order() {
    let pool = PacketPool::new(1).unwrap();
    let mut queue = DatagramQueue::new(false);
    let lengths = [50, 70, 60];
    for seed in 0..90_u8 {
        let slot = u32::from(seed % 2);
        push(&mut queue, slot, (&[seed], &vec![0; lengths[usize::from(seed) % 3]]), None, &pool);
    }
    let received = sent(&mut queue, &pool);
    let mut expected: Vec<_> = (0..90_u8).collect();
    expected.sort_by_key(|seed| (seed % 2, Reverse(lengths[usize::from(*seed) % 3])));
    assert_eq!(received.iter().map(|one| one[0]).collect::<Vec<_>>(), expected);
}

#[test]
fn large_packets_of_one_length_stay_in_order() {
    let pool = PacketPool::new(8).unwrap();
    let mut queue = DatagramQueue::new(false);
    let mut fill = pool.allocate_block().unwrap();
    for seed in 0..60_u8 {
        let length = 3000 - usize::from(seed % 2) * 100;
        if fill.remaining() < length {
            fill = pool.allocate_block().unwrap();
        }
        fill.spare_mut()[..length].fill(seed);
        fill.commit(length);
        let handle = fill.carve(length);
        push(&mut queue, 1, (&[], pool.bytes(&handle)), Some(&handle), &pool);
        pool.release(handle);
    }
    let received = sent(&mut queue, &pool);
    let mut expected: Vec<_> = (0..60_u8).collect();
    expected.sort_by_key(|seed| seed % 2);
    assert_eq!(received.iter().map(|one| one[0]).collect::<Vec<_>>(), expected);
}

#[test]
fn fragments_of_a_packet_stay_together() {
    let pool = PacketPool::new(1).unwrap();
    let mut queue = DatagramQueue::new(false);
    for packet in 0..10_u8 {
        // A short packet, then one in four fragments of which the last is short.
        push(&mut queue, 1, (&[0xFF], &[0; 40]), None, &pool);
        let mut fragments = sink(&mut queue, 1, &pool, usize::MAX);
        for (index, length) in (0_u8..).zip([99, 99, 99, 40]) {
            fragments.push_frame(&[packet], &vec![index; length], None).unwrap();
        }
    }
    let received = sent(&mut queue, &pool);
    let order: Vec<_> = received.iter().map(|one| (one[0], one[1])).collect();
    let fragments = (0..10_u8).flat_map(|packet| (0..4).map(move |index| (packet, index)));
    assert_eq!(order, fragments.chain([(0xFF, 0); 10]).collect::<Vec<_>>());
}

#[test]
fn blocked_frames_are_not_overtaken() {
    let pool = PacketPool::new(1).unwrap();
    let (near, far) = pair();
    let mut queue = DatagramQueue::new(false);
    let mut writer = DatagramWriter::default();
    let (channel, calls) = (ChannelCounters::default(), CallCounters::default());
    let counters = SendCounters { channel: &channel, calls: &calls };
    for _ in 0..600 {
        push(&mut queue, 1, (&[1], &[0; 50]), None, &pool);
    }
    let mut flush = |queue: &mut DatagramQueue| {
        queue.flush(AT, &near, &pool, &mut writer, counters, |_, _| panic!("nothing is refused"))
    };
    assert_eq!(flush(&mut queue), Flushed::Blocked);
    // Longer ones go first, but not before what has waited already.
    for header in [[3], [2]] {
        let payload = vec![0; if header == [2] { 80 } else { 70 }];
        push(&mut queue, 1, (&header, &payload), None, &pool);
    }
    let (mut received, mut buffer) = (Vec::new(), [0; 100]);
    while received.len() < 602 {
        while rustix::net::recv(&far, &mut buffer[..], RecvFlags::empty()).is_ok() {
            received.push(buffer[0]);
        }
        flush(&mut queue);
    }
    assert!(received[..600].iter().all(|&kind| kind == 1));
    assert_eq!(received[600..], [2, 3]);
}

#[test]
fn closed_socket_rejects_all_frames_and_keeps_none() {
    let pool = PacketPool::new(1).unwrap();
    let (near, far) = pair();
    drop(far);
    let mut queue = queue_of(&[100; 10], &pool);
    let mut refused = 0;
    let (channel, calls) = (ChannelCounters::default(), CallCounters::default());
    let counters = SendCounters { channel: &channel, calls: &calls };
    let flushed =
        queue
            .flush(AT, &near, &pool, &mut DatagramWriter::default(), counters, |_, _| refused += 1);
    assert_eq!((flushed, refused, queue.pending_bytes()), (Flushed::All, 10, 0));
}
