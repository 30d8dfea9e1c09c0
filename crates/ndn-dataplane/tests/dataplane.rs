//! A running worker between real sockets, seen as the control thread sees it.
#![allow(clippy::unwrap_used, reason = "test code")]

mod support;

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use ndn_dataplane::{Command, Event};
use ndn_face::CloseReason;
use ndn_packet::{InterestBuilder, Name};
use ndn_sys::poll::Events;
use ndn_types::{FaceUri, Persistency, Scope};

use support::{Bed, TIMEOUT, data, expect, interest, peer};

#[test]
fn packets_cross_between_applications_and_the_cache_answers() {
    let mut bed = Bed::new();
    let (_, mut consumer) = bed.application();
    let (producer_face, mut producer) = bed.application();
    bed.route("/a", producer_face.index);

    consumer.write_all(&interest("/a/1", 1)).unwrap();
    expect(&mut producer, &interest("/a/1", 1));
    producer.write_all(&data("/a/1")).unwrap();
    expect(&mut consumer, &data("/a/1"));

    // From the Content Store: what reaches the producer next is the next name.
    consumer.write_all(&interest("/a/1", 2)).unwrap();
    expect(&mut consumer, &data("/a/1"));
    consumer.write_all(&interest("/a/2", 3)).unwrap();
    expect(&mut producer, &interest("/a/2", 3));
    producer.write_all(&data("/a/2")).unwrap();
    expect(&mut consumer, &data("/a/2"));

    assert_eq!(bed.erase("/b", 10), (0, false));
    assert_eq!(bed.erase("/a", 1), (1, true));
    assert_eq!(bed.erase("/a", 10), (1, false));
    consumer.write_all(&interest("/a/1", 4)).unwrap();
    expect(&mut producer, &interest("/a/1", 4));

    let counters = &producer_face.counters;
    assert_eq!((counters.out_interests.value(), counters.in_data.value()), (3, 2));
    bed.dataplane.stop().unwrap();
    assert_eq!(consumer.read(&mut [0]).unwrap(), 0, "faces close with the worker");
}

#[test]
fn erasure_larger_than_a_slice_completes() {
    const PACKETS: u32 = 600;
    let mut bed = Bed::new();
    let (_, mut consumer) = bed.application();
    let (producer_face, mut producer) = bed.application();
    bed.route("/a", producer_face.index);
    for number in 0..PACKETS {
        let uri = format!("/a/{number}");
        consumer.write_all(&interest(&uri, number)).unwrap();
        expect(&mut producer, &interest(&uri, number));
        producer.write_all(&data(&uri)).unwrap();
        expect(&mut consumer, &data(&uri));
    }
    assert_eq!(bed.erase("/", usize::MAX), (PACKETS as usize, false));
    bed.dataplane.stop().unwrap();
}

#[test]
fn removed_or_closed_face_gets_no_packets() {
    let mut bed = Bed::new();
    let (_, mut consumer) = bed.application();
    let (first_face, mut first) = bed.application();
    let (second_face, second) = bed.application();
    bed.route("/first", first_face.index);
    bed.route("/second", second_face.index);

    let face_id = first_face.options.properties.face_id;
    bed.command(Command::RemoveFace { face_id });
    let Event::FaceClosed { face_id: closed, reason: None } = bed.event() else { panic!() };
    assert_eq!(closed, face_id);
    assert_eq!(first.read(&mut [0]).unwrap(), 0);

    drop(second);
    let Event::FaceClosed { face_id: closed, reason } = bed.event() else { panic!() };
    assert_eq!(closed, second_face.options.properties.face_id);
    assert_eq!(reason, Some(CloseReason::PeerClosed));

    // The FIB still has both: nothing leaves, and nothing else suffers.
    consumer.write_all(&interest("/first/x", 1)).unwrap();
    consumer.write_all(&interest("/second/x", 2)).unwrap();
    let (third_face, mut third) = bed.application();
    bed.route("/third", third_face.index);
    consumer.write_all(&interest("/third/x", 3)).unwrap();
    expect(&mut third, &interest("/third/x", 3));
    let sent = [&first_face, &second_face].map(|face| face.counters.out_interests.value());
    assert_eq!(sent, [0, 0]);
    // Removing it again is no event: the next one is that of another face.
    bed.command(Command::RemoveFace { face_id });
    let _ = bed.application();
    bed.dataplane.stop().unwrap();
}

#[test]
fn unknown_udp_peer_gets_an_on_demand_face() {
    let mut bed = Bed::new();
    let (producer_face, mut producer) = bed.application();
    bed.route("/a", producer_face.index);
    let peer = peer();
    peer.connect(bed.udp_address()).unwrap();
    peer.send(&interest("/a/1", 1)).unwrap();
    let face = bed.added();
    assert_eq!(face.remote, FaceUri::udp(peer.local_addr().unwrap()));
    assert_eq!(face.options.persistency, Persistency::OnDemand);
    assert_eq!(face.options.properties.scope, Scope::NonLocal);
    expect(&mut producer, &interest("/a/1", 1));
    producer.write_all(&data("/a/1")).unwrap();
    let mut datagram = [0; 9000];
    let length = peer.recv(&mut datagram).unwrap();
    assert_eq!(&datagram[..length], data("/a/1"));

    // And the other way: an application asks, the peer answers.
    bed.route("/peer", face.index);
    producer.write_all(&interest("/peer/1", 2)).unwrap();
    let length = peer.recv(&mut datagram).unwrap();
    assert_eq!(&datagram[..length], interest("/peer/1", 2));
    peer.send(&data("/peer/1")).unwrap();
    expect(&mut producer, &data("/peer/1"));
    bed.dataplane.stop().unwrap();
}

#[test]
fn rejected_peers_are_counted_and_reported_once() {
    const PEERS: u64 = 50;
    let mut bed = Bed::with_faces_max(2);
    let (face, mut application) = bed.application();
    bed.route("/a", face.index);
    let known = peer();
    known.send_to(&interest("/a/known", 1), bed.udp_address()).unwrap();
    bed.added();
    expect(&mut application, &interest("/a/known", 1));
    for number in 0..PEERS {
        let nonce = u32::try_from(number).unwrap();
        peer().send_to(&interest("/a/unknown", nonce), bed.udp_address()).unwrap();
    }
    // Read behind all of them from the same socket.
    known.send_to(&interest("/a/after", 1), bed.udp_address()).unwrap();
    expect(&mut application, &interest("/a/after", 1));
    let counters = Arc::clone(bed.dataplane.workers()[0].worker_counters());
    assert_eq!(counters.refused_peers.value(), PEERS);
    let mut reported = 0;
    while let Some(event) = bed.dataplane.next_event().unwrap() {
        assert!(matches!(event, Event::PeerRefused { .. }), "{event:?}");
        reported += 1;
    }
    assert!((1..PEERS / 2).contains(&reported), "{reported} events for {PEERS} peers");
    bed.dataplane.stop().unwrap();
}

#[test]
fn on_demand_faces_leave_room_for_applications() {
    let mut bed = Bed::with_faces_max(64);
    for nonce in 0..100 {
        peer().send_to(&interest("/a/1", nonce), bed.udp_address()).unwrap();
    }
    let mut faces = 0;
    while let Event::FaceAdded { .. } = bed.event() {
        faces += 1;
    }
    // Of 64, a sixteenth is kept; of the other 60, applications have a reserve of 6 and neighbours one of 12.
    assert_eq!(faces, 42, "and then a peer was refused");
    let _applications = [(); 6].map(|()| bed.application());
    bed.dataplane.stop().unwrap();
}

#[test]
fn faces_per_address_are_limited() {
    let mut bed = Bed::with_faces_max(1000);
    for nonce in 0..120 {
        peer().send_to(&interest("/a/1", nonce), bed.udp_address()).unwrap();
    }
    let mut faces = 0;
    while let Event::FaceAdded { .. } = bed.event() {
        faces += 1;
    }
    assert_eq!(faces, 100, "and then a peer was refused");
    bed.dataplane.stop().unwrap();
}

#[test]
fn interest_lifetime_is_limited() {
    let mut bed = Bed::with_limits(8, Duration::from_millis(50));
    let (_, mut consumer) = bed.application();
    let (producer_face, mut producer) = bed.application();
    bed.route("/a", producer_face.index);
    let name = Name::from_uri("/a/1").unwrap();
    let wire = InterestBuilder::new(&name).nonce(1).lifetime_ms(3_600_000).to_vec().unwrap();
    consumer.write_all(&wire).unwrap();
    expect(&mut producer, &wire);
    let counters = Arc::clone(bed.dataplane.workers()[0].counters());
    let give_up = support::real_clock().now() + TIMEOUT;
    while counters.pit_entries.value() > 0 || counters.unsatisfied_interests.value() == 0 {
        assert!(support::real_clock().now() < give_up, "the Interest is still pending");
        bed.poller.wait(&mut Events::with_capacity(1), Some(Duration::from_millis(5))).unwrap();
        bed.dataplane.event_waker().reset();
    }
    bed.dataplane.stop().unwrap();
}

#[test]
fn many_ready_faces_are_read_over_several_rounds() {
    const SENDERS: usize = 60;
    const PACKETS: usize = 1200;
    // With room for all of them beside the reserves of others.
    let mut bed = Bed::with_faces_max(2 * SENDERS);
    let counters = Arc::clone(bed.dataplane.workers()[0].worker_counters());
    // Everything waits in the sockets before the worker learns of the first face.
    let mut senders = Vec::new();
    for sender in 0..SENDERS {
        let (near, mut far) = UnixStream::pair().unwrap();
        let flood = (0..PACKETS).flat_map(|n| interest(&format!("/none/{sender}/{n}"), 1));
        far.write_all(&flood.collect::<Vec<_>>()).unwrap();
        bed.dataplane.send(bed.new_application(near));
        senders.push(far);
    }
    bed.dataplane.wake();
    let expected = u64::try_from(SENDERS * PACKETS).unwrap();
    let give_up = support::real_clock().now() + TIMEOUT;
    while counters.packets.value() < expected {
        assert!(support::real_clock().now() < give_up, "{} packets", counters.packets.value());
        std::thread::yield_now();
    }
    // All faces were ready at once, and each was read once: one round would have done.
    let rounds = counters.rounds.value();
    assert!(rounds >= expected / 6000, "{expected} packets in {rounds} rounds");
    bed.dataplane.stop().unwrap();
}

#[test]
fn idle_worker_sleeps() {
    let mut bed = Bed::new();
    let (face, mut application) = bed.application();
    bed.route("/a", face.index);
    let peer = peer();
    peer.send_to(&interest("/a/1", 1), bed.udp_address()).unwrap();
    bed.added();
    expect(&mut application, &interest("/a/1", 1));
    application.write_all(&data("/a/1")).unwrap();
    let mut datagram = [0; 9000];
    peer.recv(&mut datagram).unwrap();
    // What is left are the timers of one PIT entry: some rounds, and not thousands a second.
    let counters = Arc::clone(bed.dataplane.workers()[0].worker_counters());
    let before = counters.rounds.value();
    let mut events = Events::with_capacity(1);
    bed.dataplane.event_waker().reset();
    bed.poller.wait(&mut events, Some(Duration::from_millis(300))).unwrap();
    assert!(events.is_empty());
    let rounds = counters.rounds.value() - before;
    assert!(rounds <= 20, "{rounds} rounds for nothing");
    bed.dataplane.stop().unwrap();
}

#[test]
fn drop_of_the_handle_waits_for_the_workers() {
    let mut bed = Bed::new();
    let (_, mut application) = bed.application();
    let counters = Arc::downgrade(bed.dataplane.workers()[0].counters());
    drop(bed);
    assert!(counters.upgrade().is_none(), "the worker has ended");
    match application.read(&mut [0]) {
        Ok(length) => assert_eq!(length, 0),
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
}
