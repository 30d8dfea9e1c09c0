//! UDP faces over loopback.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "test code")]

mod support;

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket as StdSocket};
use std::sync::Arc;
use std::time::Duration;

use ndn_face::{
    ChannelCounters, CloseReason, Datagrams, FaceChange, FaceCounters, FaceEvent, FaceOptions,
    LinkDropReason, NewDatagram, PeerKey, Progress, ReadCounts, UdpPeer,
};
use ndn_forwarding::{TxPacket, TxSink};
use ndn_ring::PacketPool;
use ndn_sys::poll::Events;
use ndn_sys::udp::{UdpOptions, UdpSocket};
use ndn_table::FaceIndex;
use ndn_types::{Persistency, PrincipalKey, RemoteAddress, Scope};
use support::{Sink, TIMEOUT, Worker, plain, properties, tlv, write_all};

fn localhost() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn options(mtu: usize) -> FaceOptions {
    FaceOptions::datagram(properties(Scope::NonLocal), Persistency::OnDemand, mtu)
}

/// A socket of the worker: its address and its counters.
fn channel(worker: &mut Worker, accepts: bool) -> (SocketAddr, Arc<ChannelCounters>) {
    let socket = UdpSocket::new(&UdpOptions::bound_to(localhost())).unwrap();
    let address = socket.local_address().unwrap();
    let (_, counters) =
        worker.faces.transport_mut::<Datagrams>().add_channel(socket, accepts).unwrap();
    (address, counters)
}

fn add_peer(
    worker: &mut Worker,
    local: SocketAddr,
    remote: SocketAddr,
    options: &FaceOptions,
) -> (FaceIndex, Arc<FaceCounters>) {
    worker.open(NewDatagram::Peer(UdpPeer { local, remote }), options)
}

fn peer_key(local: SocketAddr, remote: SocketAddr) -> PeerKey {
    PeerKey::Datagram(UdpPeer { local, remote })
}

fn peer() -> (StdSocket, SocketAddr) {
    let socket = StdSocket::bind(localhost()).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

fn receive(socket: &StdSocket) -> Vec<u8> {
    let mut buffer = vec![0; 65_536];
    let length = socket.recv(&mut buffer).unwrap();
    buffer.truncate(length);
    buffer
}

/// Two workers that know each other, so that both directions use runs.
struct Linked {
    near: Worker,
    far: Worker,
    /// The face of `near`.
    face: FaceIndex,
    sent: Arc<FaceCounters>,
    received: Arc<FaceCounters>,
    near_socket: Arc<ChannelCounters>,
    far_socket: Arc<ChannelCounters>,
}

fn linked(mtu: usize) -> Linked {
    linked_by(&options(mtu))
}

fn linked_by(options: &FaceOptions) -> Linked {
    let mut workers = [Worker::new(), Worker::new()];
    let ends = workers.each_mut().map(|worker| channel(worker, false));
    let [mut near, mut far] = workers;
    let [(near_at, near_socket), (far_at, far_socket)] = ends;
    let (face, sent) = add_peer(&mut near, near_at, far_at, options);
    let (_, received) = add_peer(&mut far, far_at, near_at, options);
    Linked { near, far, face, sent, received, near_socket, far_socket }
}

/// Frames of different lengths leave in one call, which groups them by length where their order does not matter.
#[test]
fn reliable_link_without_loss_retransmits_nothing() {
    let mut options = options(1400);
    options.link.reliability = true;
    let Linked { mut near, mut far, face, sent, received, .. } = linked_by(&options);
    let lengths = [60, 1200, 70, 1300, 1300, 1250, 80, 1100];
    for round in 1..=20_u64 {
        for (seed, length) in (0..).zip(lengths) {
            near.send(face, &tlv(if length < 100 { 5 } else { 6 }, length, seed));
        }
        near.flush();
        let count = round * lengths.len() as u64;
        far.run_until(|far| far.received.len() as u64 == count);
        far.advance(Duration::from_millis(5));
        far.flush();
        near.run_until(|_| sent.out_acknowledged.value() == count);
        near.advance(Duration::from_millis(1));
        near.flush();
    }
    assert_eq!(sent.out_retransmissions.value(), 0);
    assert_eq!(received.dropped_total(), 0);
    let order = far.received.iter().map(|packet| far.pool.bytes(&packet.handle).len());
    assert_eq!(order.collect::<Vec<_>>(), lengths.repeat(20));
    near.finish();
    far.finish();
}

/// The worker waits for a buffer then, and the poller reports the socket again.
#[test]
fn socket_that_is_not_read_for_lack_of_buffers_has_no_more_to_be_read() {
    let mut worker = Worker::new();
    worker.pool = PacketPool::new(2).unwrap();
    let (address, _) = channel(&mut worker, false);
    let (socket, at) = peer();
    add_peer(&mut worker, address, at, &options(8800));
    // Two blocks, each for seven datagrams.
    (0..15).for_each(|seed| _ = socket.send_to(&tlv(5, 8700, seed), address).unwrap());
    let mut events = Events::with_capacity(1);
    worker.faces.poller().wait(&mut events, Some(TIMEOUT)).unwrap();
    let mut sink = Sink::default();
    let Worker { faces, pool, now, received, .. } = &mut worker;
    let mut progress = faces.handle_event(*now, &events.event(0), pool, &mut sink);
    while progress == Progress::SinkFull {
        assert!(faces.report().has_more);
        received.extend(sink.burst.drain(..));
        progress = faces.resume(*now, pool, &mut sink);
    }
    assert_eq!(progress, Progress::NoBlock);
    assert!(!faces.report().has_more);
}

/// Otherwise the frames of one peer that acknowledges nothing, thousands of them, would be retransmitted in one call.
#[test]
fn faces_take_turns_to_retransmit() {
    let mut worker = Worker::new();
    let (address, _) = channel(&mut worker, false);
    let mut options = options(1400);
    options.link.reliability = true;
    let silent = [peer(), peer()];
    let faces = silent.each_ref().map(|(_, at)| add_peer(&mut worker, address, *at, &options));
    let [(many, of_many), (few, of_few)] = &faces;
    (0..1000).for_each(|_| worker.send(*many, &tlv(6, 100, 1)));
    worker.send(*few, &tlv(6, 100, 1));
    worker.flush();
    worker.advance(Duration::from_secs(1));
    let retransmitted = || [of_many, of_few].map(|counters| counters.out_retransmissions.value());
    assert_eq!(retransmitted(), [256, 1]);
    for _ in 0..3 {
        let next = worker.faces.next_deadline().unwrap();
        assert!(next.since(worker.now) < Duration::from_millis(1), "the rest is due");
        worker.advance(next.since(worker.now));
    }
    assert_eq!(retransmitted(), [1000, 1]);
    worker.flush();
    worker.finish();
}

/// Otherwise a principal with thousands of faces would have all their frames retransmitted in one call.
#[test]
fn call_handles_the_timeouts_of_some_faces() {
    let mut worker = Worker::new();
    let (address, _) = channel(&mut worker, false);
    let mut options = options(1400);
    options.link.reliability = true;
    let silent: [_; 40] = std::array::from_fn(|_| peer());
    let faces = silent.each_ref().map(|(_, at)| add_peer(&mut worker, address, *at, &options));
    faces.iter().for_each(|(face, _)| worker.send(*face, &tlv(6, 100, 1)));
    worker.flush();
    worker.advance(Duration::from_secs(1));
    let retransmitted = || {
        faces.iter().map(|(_, counters)| counters.out_retransmissions.value()).collect::<Vec<_>>()
    };
    assert_eq!(retransmitted().iter().sum::<u64>(), 16);
    assert!(worker.faces.next_deadline().unwrap() <= worker.now, "the rest is due");
    (0..2).for_each(|_| worker.advance(Duration::ZERO));
    assert_eq!(retransmitted(), [1; 40]);
    worker.flush();
    worker.finish();
}

#[test]
fn read_reports_a_drained_socket() {
    let mut worker = Worker::new();
    let socket = UdpSocket::new(&UdpOptions::bound_to(localhost())).unwrap();
    let address = socket.local_address().unwrap();
    let (id, _) = worker.faces.transport_mut::<Datagrams>().add_channel(socket, false).unwrap();
    let (peer, peer_address) = peer();
    add_peer(&mut worker, address, peer_address, &options(8800));
    worker.faces.set_frames_per_event(1);
    for _ in 0..3 {
        let before = worker.received.len();
        // More than one read takes.
        (0..40).for_each(|_| assert!(peer.send_to(&tlv(5, 20, 1), address).is_ok()));
        let mut partial_reads = 0;
        while worker.received.len() < before + 40 {
            let known = worker.received.len();
            assert!(worker.poll(TIMEOUT), "40 datagrams");
            let new = worker.received.len() - known;
            assert_eq!(worker.faces.report().counts, ReadCounts { datagrams: new, drops: 0 });
            assert_eq!(worker.faces.report().drained.is_some(), !worker.faces.report().has_more);
            partial_reads += u32::from(worker.faces.report().has_more);
        }
        assert!(partial_reads > 0);
        // Whether a full read was the last is known when the next one is not.
        peer.send_to(&tlv(5, 20, 1), address).unwrap();
        worker.run_until(|worker| worker.received.len() > before + 40);
        assert_eq!(worker.faces.report().drained, Some(id));
    }
}

#[test]
fn kernel_drops_are_counted_once() {
    let mut worker = Worker::new();
    let options_of_socket = UdpOptions { receive_buffer: 1, ..UdpOptions::bound_to(localhost()) };
    let socket = UdpSocket::new(&options_of_socket).unwrap();
    let address = socket.local_address().unwrap();
    let (_, counters) =
        worker.faces.transport_mut::<Datagrams>().add_channel(socket, false).unwrap();
    let (peer, peer_address) = peer();
    add_peer(&mut worker, address, peer_address, &options(8800));
    let (mut reported, mut rounds) = (0, 0);
    while counters.kernel_drops.value() < 100 {
        rounds += 1;
        assert!(rounds < 10_000, "a small buffer overflows");
        (0..40).for_each(|_| assert!(peer.send_to(&tlv(5, 20, 1), address).is_ok()));
        let mut timeout = TIMEOUT;
        while worker.poll(timeout) {
            reported += worker.faces.report().counts.drops;
            timeout = Duration::ZERO;
        }
    }
    assert_eq!(reported, counters.kernel_drops.value());
    assert_eq!(reported, worker.faces.call_counters().shared_socket_drops.value());
}

#[test]
fn unknown_peers_get_a_face_or_are_dropped() {
    let mut worker = Worker::new();
    let (address, counters) = channel(&mut worker, true);
    let (known, known_address) = peer();
    let (unknown_peer, unknown_address) = peer();
    known.send_to(&tlv(5, 20, 1), address).unwrap();
    worker.run_until(|worker| !worker.unknown_peers.is_empty());
    assert_eq!(worker.unknown_peers.pop(), Some(peer_key(address, known_address)));
    worker.settle();
    assert!(worker.received.is_empty());
    assert_eq!(counters.no_face.value(), 1, "nobody made a face");

    let (face, _) = add_peer(&mut worker, address, known_address, &options(8800));
    let taken = worker.next_index();
    let again = worker.faces.open(
        worker.now,
        taken,
        NewDatagram::Peer(UdpPeer { local: address, remote: known_address }),
        &options(8800),
    );
    assert!(again.is_err());
    assert_eq!(worker.faces.face_of(peer_key(address, known_address)), Some(face));
    known.send_to(&tlv(5, 20, 2), address).unwrap();
    assert_eq!(worker.receive().1, tlv(5, 20, 2));

    // The next one gets a face at once, and its first packet arrives.
    unknown_peer.send_to(&tlv(5, 20, 3), address).unwrap();
    worker.accept_unknown_peers = Some(options(8800));
    let (from, wire, _) = worker.receive();
    assert_eq!(wire, tlv(5, 20, 3));
    assert_ne!(from, face);
    assert_eq!(worker.unknown_peers, [peer_key(address, unknown_address)]);
    worker.send(from, &tlv(6, 30, 4));
    worker.flush();
    assert_eq!(receive(&unknown_peer), tlv(6, 30, 4));
    worker.finish();
}

/// Anybody can send them as fast as the worker reads.
#[test]
fn messages_without_a_face_or_frame_end_the_event_as_others_do() {
    let packet = tlv(5, 20, 1);
    for (accepts, has_face, message) in
        [(false, false, &packet[..]), (true, false, &packet), (false, true, &[])]
    {
        let mut worker = Worker::new();
        let (address, counters) = channel(&mut worker, accepts);
        worker.faces.set_frames_per_event(20);
        let (peer, peer_address) = peer();
        let face = has_face.then(|| add_peer(&mut worker, address, peer_address, &options(8800)).1);
        let dropped = || match &face {
            Some(face) => face.dropped(LinkDropReason::Malformed).value(),
            None => counters.no_face.value(),
        };
        (0..100).for_each(|_| assert!(peer.send_to(message, address).is_ok()));
        assert!(worker.poll(TIMEOUT));
        // A call that has begun is finished.
        let first = dropped();
        assert!((20..40).contains(&first), "{first}");
        assert_eq!(worker.faces.report().frames as u64, first);
        assert_eq!(worker.faces.report().counts, ReadCounts::default(), "no datagrams for faces");
        worker.settle();
        assert_eq!(dropped(), 100);
        worker.finish();
    }
}

#[test]
fn burst_is_sent_and_received_in_few_system_calls() {
    let Linked { mut near, mut far, face, sent, received, near_socket, far_socket } = linked(8800);
    let packets: Vec<_> = (0..100_u8).map(|seed| tlv(6, 150, seed)).collect();
    for packet in &packets {
        near.send(face, packet);
    }
    near.flush();
    for packet in &packets {
        assert_eq!(far.receive().1, *packet);
    }
    assert_eq!(sent.out_data.value(), 100);
    assert_eq!(received.in_data.value(), 100);
    assert_eq!(near_socket.send_calls.value(), 1);
    assert!(far_socket.receive_calls.value() <= 2);
    near.finish();
    far.finish();
}

#[test]
fn packets_of_many_sizes_arrive_complete_and_those_of_one_size_in_order() {
    let Linked { mut near, mut far, face, received, near_socket, .. } = linked(8800);
    let mut expected = Vec::new();
    for round in 0..5 {
        for index in 0..60_usize {
            let length = [100, 100, 100, 99, 2000, 2048, 2048, 8800, 8000, 300][index % 10];
            let packet = tlv(6, length, (round * 60 + index) as u8);
            near.send(face, &packet);
            expected.push(packet);
        }
        near.flush();
        // Keep the receive buffer from overflowing.
        far.run_until(|_| received.in_data.value() == expected.len() as u64);
    }
    let mut received: Vec<_> = expected.iter().map(|_| far.receive().1).collect();
    // Both sorts are stable: what arrived out of order within a length would differ.
    received.sort_by_key(Vec::len);
    expected.sort_by_key(Vec::len);
    assert!(received == expected);
    assert!(near_socket.send_calls.value() <= 10, "five flushes of 600 frames");
    near.finish();
    far.finish();
}

#[test]
fn large_packets_are_not_copied() {
    let Linked { mut near, mut far, face, .. } = linked(8800);
    let (_, _, stream) = near.add_stream();
    let large = tlv(6, 8000, 5);
    write_all(&mut near, &stream, &large);
    near.run_until(|near| !near.received.is_empty());
    let packet = near.received.pop_front().unwrap();
    for _ in 0..20 {
        let wire = near.pool.bytes(&packet.handle);
        let sent = TxPacket { handle: Some(&packet.handle), ..plain(wire) };
        let mut sink = near.faces.sink(near.now, &near.pool);
        sink.send(face, &sent);
        sink.send(face, &TxPacket { pit_token: &[1, 2], ..sent });
        sink.send(face, &plain(&[6, 0]));
    }
    near.pool.release(packet.handle);
    near.flush();
    // Longest first: behind a header, as it is, the small ones.
    for _ in 0..20 {
        let (_, wire, fields) = far.receive();
        assert!(wire == large);
        assert_eq!(fields.pit_token.as_bytes(), [1, 2]);
    }
    (0..20).for_each(|_| assert!(far.receive().1 == large));
    (0..20).for_each(|_| assert_eq!(far.receive().1, [6, 0]));
    near.finish();
    far.finish();
}

#[test]
fn packets_longer_than_the_mtu_are_fragmented() {
    let Linked { mut near, mut far, face, sent, received, .. } = linked(1400);
    for seed in 0..20 {
        near.send(face, &tlv(6, 8000, seed));
    }
    near.flush();
    for seed in 0..20 {
        assert!(far.receive().1 == tlv(6, 8000, seed));
    }
    assert_eq!(sent.out_frames.value(), 20 * 6);
    assert_eq!(received.in_frames.value(), 20 * 6);
    assert_eq!(received.in_data.value(), 20);
    near.finish();
    far.finish();
}

#[test]
fn changed_mtu_applies_to_the_next_packet() {
    let Linked { mut near, mut far, face, sent, received, .. } = linked(1400);
    let mut before = 0;
    for (mtu, frames) in [(1400, 6), (4000, 3), (1280, 7), (8800, 1), (1400, 6)] {
        assert!(near.faces.update(face, &options(mtu), &near.pool));
        near.send(face, &tlv(6, 8000, 9));
        near.flush();
        assert!(far.receive().1 == tlv(6, 8000, 9));
        let so_far = sent.out_frames.value();
        assert_eq!(so_far - std::mem::replace(&mut before, so_far), frames, "{mtu}");
        assert_eq!(received.in_frames.value(), so_far);
    }
    near.finish();
    far.finish();
}

#[test]
fn packets_of_faces_on_one_socket_are_not_mixed_up() {
    let mut worker = Worker::new();
    let (address, counters) = channel(&mut worker, false);
    let peers: Vec<_> = (0..10).map(|_| peer()).collect();
    let faces: Vec<_> =
        peers.iter().map(|(_, at)| add_peer(&mut worker, address, *at, &options(8800)).0).collect();
    for round in 0..6 {
        for (seed, face) in (0_u8..).zip(&faces) {
            worker.send(*face, &tlv(6, 100 + usize::from(seed), round));
        }
    }
    worker.flush();
    assert_eq!(counters.send_calls.value(), 1, "ten runs of six in one call");
    for (seed, (socket, _)) in (0_u8..).zip(&peers) {
        for round in 0..6 {
            assert_eq!(receive(socket), tlv(6, 100 + usize::from(seed), round));
        }
        socket.send_to(&tlv(5, 30, seed), address).unwrap();
    }
    for _ in &peers {
        let (from, wire, _) = worker.receive();
        let position = faces.iter().position(|face| *face == from).unwrap();
        assert_eq!(wire, tlv(5, 30, position as u8));
    }
    worker.finish();
}

#[test]
fn malformed_datagram_is_counted_and_skipped() {
    let mut worker = Worker::new();
    let (address, _) = channel(&mut worker, false);
    let (socket, at) = peer();
    let (_, counters) = add_peer(&mut worker, address, at, &options(8800));
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[], &[100, 9], &[0; 1400], &[6; 60_000]] {
        socket.send_to(bytes, address).unwrap();
    }
    socket.send_to(&tlv(5, 40, 1), address).unwrap();
    assert_eq!(worker.receive().1, tlv(5, 40, 1));
    assert_eq!(counters.dropped(LinkDropReason::UnknownType).value(), 2);
    assert_eq!(counters.dropped(LinkDropReason::Malformed).value(), 2);
    assert_eq!(counters.dropped(LinkDropReason::TooLong).value(), 1);
    worker.finish();
}

#[test]
fn datagram_without_a_free_buffer_is_counted_at_its_face() {
    let mut worker = Worker::new();
    let (address, channel) = channel(&mut worker, false);
    let (socket, at) = peer();
    let (_, counters) = add_peer(&mut worker, address, at, &options(8800));
    // The rest of the block of the socket is enough for such datagrams, and too little for a long one.
    for seed in 0..45 {
        socket.send_to(&tlv(5, 1200, seed), address).unwrap();
        worker.receive();
    }
    let held: Vec<_> = std::iter::from_fn(|| worker.pool.allocate_block()).collect();
    socket.send_to(&tlv(6, 30_000, 1), address).unwrap();
    worker.run_until(|_| counters.dropped(LinkDropReason::NoBuffer).value() == 1);
    assert_eq!((counters.in_frames.value(), channel.no_face.value()), (46, 0));
    held.into_iter().for_each(|block| worker.pool.finish(block));
    socket.send_to(&tlv(5, 40, 1), address).unwrap();
    assert_eq!(worker.receive().1, tlv(5, 40, 1));
    worker.finish();
}

#[test]
fn only_idle_faces_close() {
    let mut worker = Worker::new();
    let (address, _) = channel(&mut worker, false);
    let (busy_socket, busy_at) = peer();
    let (_idle_socket, idle_at) = peer();
    let timeout = Duration::from_secs(600);
    let (idle, _) = add_peer(&mut worker, address, idle_at, &options(8800));
    let (busy, _) = add_peer(&mut worker, address, busy_at, &options(8800));
    let persistent = FaceOptions { persistency: Persistency::Persistent, ..options(8800) };
    let (_, waiting_at) = peer();
    let (waiting, _) = add_peer(&mut worker, address, waiting_at, &persistent);
    assert_eq!(worker.faces.next_deadline(), Some(worker.now.plus(timeout)));
    worker.advance(timeout - Duration::from_secs(1));
    busy_socket.send_to(&tlv(5, 20, 0), address).unwrap();
    worker.receive();
    assert_eq!(worker.faces.poll_event(), None);
    worker.advance(Duration::from_secs(1));
    let change = FaceChange::Closed(CloseReason::Idle);
    assert_eq!(worker.faces.poll_event(), Some(FaceEvent { face: idle, change }));
    assert_eq!(worker.faces.poll_event(), None);
    assert_eq!(worker.faces.face_of(peer_key(address, idle_at)), None);
    assert!(worker.faces.contains(busy) && worker.faces.contains(waiting));
    worker.advance(timeout);
    assert!(!worker.faces.contains(busy) && worker.faces.contains(waiting));
    assert_eq!(worker.faces.next_deadline(), None);
    worker.finish();
}

#[test]
fn connected_face_survives_an_unreachable_peer() {
    let mut worker = Worker::new();
    let (socket, remote) = peer();
    drop(socket);
    let udp = UdpOptions { remote: Some(remote), ..UdpOptions::bound_to(localhost()) };
    let connected = UdpSocket::new(&udp).unwrap();
    let local = connected.local_address().unwrap();
    let persistent = FaceOptions { persistency: Persistency::Persistent, ..options(8800) };
    let (index, counters) = worker.open(NewDatagram::Connected(connected), &persistent);
    for _ in 0..20 {
        worker.send(index, &tlv(5, 100, 0));
        worker.flush();
        worker.poll(Duration::from_millis(1));
    }
    assert!(worker.faces.contains(index));
    let event = worker.faces.poll_event().unwrap();
    let refused = CloseReason::Unreachable(ErrorKind::ConnectionRefused);
    assert_eq!((event.face, event.change), (index, FaceChange::Unreachable(refused)));
    assert_eq!(worker.faces.poll_event(), None, "reported once");
    // The peer starts at last.
    let socket = StdSocket::bind(remote).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    worker.send(index, &tlv(5, 100, 1));
    worker.flush();
    assert_eq!(receive(&socket), tlv(5, 100, 1));
    socket.send_to(&tlv(6, 100, 2), local).unwrap();
    assert_eq!(worker.receive().1, tlv(6, 100, 2));
    assert_eq!(worker.faces.poll_event(), None, "it may have been sent before the report");
    worker.now = worker.now.plus_millis(200);
    socket.send_to(&tlv(6, 100, 3), local).unwrap();
    assert_eq!(worker.receive().1, tlv(6, 100, 3));
    assert_eq!(worker.faces.poll_event().map(|event| event.change), Some(FaceChange::Reached));
    assert_eq!(counters.in_data.value(), 2);
    worker.finish();
}

/// Packets to peers that do not answer to ARP take memory of the shared socket, not of a neighbour's.
#[test]
fn neighbour_with_a_socket_of_its_own_is_sent_to_by_it() {
    let mut worker = Worker::new();
    let (address, shared) = channel(&mut worker, false);
    let mut neighbour = FaceOptions { persistency: Persistency::Permanent, ..options(8800) };
    neighbour.properties.principal = PrincipalKey::Neighbour { face_id: 300 };
    let mut on_demand = options(8800);
    let address_of_peer = RemoteAddress::V4(std::net::Ipv4Addr::LOCALHOST);
    on_demand.properties.principal = PrincipalKey::Remote(address_of_peer);
    for (options, sent_by_shared) in [(neighbour, 0), (on_demand, 1)] {
        let (socket, remote) = peer();
        let (face, counters) = add_peer(&mut worker, address, remote, &options);
        worker.faces.separate_input(face).unwrap();
        let before = shared.send_calls.value();
        for seed in 0..3 {
            worker.send(face, &tlv(6, 100, seed));
        }
        worker.flush();
        let mut buffer = [0; 1000];
        for seed in 0..3 {
            let (length, from) = socket.recv_from(&mut buffer).unwrap();
            assert_eq!((&buffer[..length], from), (&tlv(6, 100, seed)[..], address));
        }
        assert_eq!(shared.send_calls.value() - before, sent_by_shared);
        assert_eq!(counters.out_data.value(), 3);
        // A peer that is gone is reported, whichever call of the kernel fails.
        drop(socket);
        let is_reported = (0..100).any(|_| {
            worker.send(face, &tlv(5, 100, 0));
            worker.flush();
            worker.poll(Duration::from_millis(1));
            worker.faces.poll_event().is_some_and(|event| event.face == face)
        });
        assert!(is_reported);
    }
    worker.finish();
}

#[test]
fn separate_input_bypasses_the_shared_queue() {
    let mut worker = Worker::new();
    let (address, shared) = channel(&mut worker, false);
    let (neighbour, neighbour_at) = peer();
    let (other, other_at) = peer();
    let (face, _) = add_peer(&mut worker, address, neighbour_at, &options(8800));
    let (other_face, _) = add_peer(&mut worker, address, other_at, &options(8800));
    worker.faces.separate_input(face).unwrap();
    for seed in 0..10 {
        neighbour.send_to(&tlv(6, 100, seed), address).unwrap();
        let (from, wire, _) = worker.receive();
        assert_eq!((from, wire), (face, tlv(6, 100, seed)));
    }
    assert_eq!(shared.receive_calls.value(), 0, "it has a queue of its own");
    other.send_to(&tlv(5, 100, 1), address).unwrap();
    assert_eq!(worker.receive().0, other_face);
    worker.send(face, &tlv(5, 100, 2));
    worker.flush();
    let mut buffer = [0; 1000];
    let (length, from) = neighbour.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..length], from), (&tlv(5, 100, 2)[..], address));

    let intruder = UdpSocket::new(&UdpOptions::bound_to(address));
    assert!(intruder.is_err(), "nobody gets the address by mistake");
    assert!(worker.faces.remove(face, &worker.pool));
    neighbour.send_to(&tlv(6, 100, 3), address).unwrap();
    worker.run_until(|_| shared.no_face.value() == 1);
    worker.finish();
}
