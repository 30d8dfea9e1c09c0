//! Several workers between real sockets: what applications see is what one worker would do.
#![allow(clippy::unwrap_used, reason = "test code")]

mod support;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use ndn_dataplane::{Command, Dataplane, Event, ExchangeCounters, NewFace, Roles, WorkerView};
use ndn_face::{FaceOptions, NewDatagram};
use ndn_forwarding::{FaceProperties, Histogram, ServiceTimes};
use ndn_packet::{InterestBuilder, Name};
use ndn_types::FaceUri;
use ndn_types::{Counter, Persistency, Scope};

use support::{Bed, TIMEOUT, data, expect, interest, peer};

fn bed(workers: usize) -> Bed {
    Bed::with_workers(workers, 64, Duration::from_secs(3600))
}

fn prefix_interest(uri: &str, nonce: u32) -> Vec<u8> {
    let name = Name::from_uri(uri).unwrap();
    InterestBuilder::new(&name).can_be_prefix(true).nonce(nonce).to_vec().unwrap()
}

fn exchanged(dataplane: &Dataplane, figure: fn(&ExchangeCounters) -> &Counter) -> u64 {
    let all = dataplane.workers().iter().filter_map(|worker| worker.exchange_counters());
    all.map(|counters| figure(counters).value()).sum()
}

/// A name goes to the producer and its Data comes back.
fn fetch(uri: &str, nonce: u32, consumer: &mut UnixStream, producer: &mut UnixStream) {
    consumer.write_all(&interest(uri, nonce)).unwrap();
    expect(producer, &interest(uri, nonce));
    producer.write_all(&data(uri)).unwrap();
    expect(consumer, &data(uri));
}

#[test]
fn names_of_all_shards_cross_between_faces_of_all_workers() {
    for workers in [2, 3] {
        let mut bed = bed(workers);
        let mut applications: Vec<_> = (0..4).map(|_| bed.application()).collect();
        let (producer_face, mut producer) = applications.pop().unwrap();
        let owners = applications.iter().map(|(face, _)| face.index.slot() % 2).max();
        assert_eq!(owners, Some(1), "faces are spread over the workers");
        bed.route("/p", producer_face.index);
        let mut nonce = 0;
        for round in 0..20 {
            for (number, (_, consumer)) in applications.iter_mut().enumerate() {
                nonce += 1;
                let uri = format!("/p/{round}/{number}");
                fetch(&uri, nonce, consumer, &mut producer);
                // From the Content Store, for every consumer.
                consumer.write_all(&interest(&uri, 10_000 + nonce)).unwrap();
                expect(consumer, &data(&uri));
            }
        }
        let counters = bed.dataplane.counters();
        assert_eq!((counters.in_interests.value(), counters.cs_hits.value()), (120, 60));
        assert_eq!((counters.in_data.value(), counters.out_data.value()), (60, 120));
        assert!(exchanged(&bed.dataplane, |counters| &counters.crossings_sent) > 0);
        let dropped = exchanged(&bed.dataplane, |counters| &counters.ring_full_data)
            + exchanged(&bed.dataplane, |counters| &counters.ring_full_interests)
            + exchanged(&bed.dataplane, |counters| &counters.crossing_no_buffer);
        assert_eq!(dropped, 0);
        assert_eq!(bed.erase("/p/3", 2), (2, true));
        assert_eq!(bed.erase("/", 1000), (58, false));
        bed.dataplane.stop().unwrap();
    }
}

#[test]
fn short_prefix_interest_is_satisfied_by_data_of_any_shard() {
    let mut bed = bed(3);
    let (producer_face, mut producer) = bed.application();
    let (_, mut consumer) = bed.application();
    bed.route("/", producer_face.index);
    for number in 0..12 {
        let (short, long) = (format!("/n{number}"), format!("/n{number}/x/y"));
        consumer.write_all(&prefix_interest(&short, 1)).unwrap();
        expect(&mut producer, &prefix_interest(&short, 1));
        producer.write_all(&data(&long)).unwrap();
        expect(&mut consumer, &data(&long));
        // Cached in the shard of its own name, and found from that of the short one.
        consumer.write_all(&prefix_interest(&short, 2)).unwrap();
        expect(&mut consumer, &data(&long));
    }
    // Nothing else has reached the producer.
    fetch("/last/one", 3, &mut consumer, &mut producer);
    assert_eq!(producer_face.counters.out_interests.value(), 13);
    bed.dataplane.stop().unwrap();
}

#[test]
fn peer_has_one_face_across_sockets() {
    let mut bed = bed(3);
    let (producer_face, mut producer) = bed.application();
    bed.route("/p", producer_face.index);
    let address = bed.udp_address();
    // To the end, so that none gets the port of another, and with it a face that is there.
    let peers: Vec<_> = (0..12).map(|_| peer()).collect();
    for (number, peer) in peers.iter().enumerate() {
        // Made on the worker whose turn it is, not on the one whose socket the kernel chooses.
        let face_id = bed.dataplane.allocate_face_id();
        let properties = FaceProperties::point_to_point(face_id, Scope::NonLocal);
        let face = || NewFace {
            ticket: Some(face_id),
            transport: NewDatagram::To(peer.local_addr().unwrap()).into(),
            options: FaceOptions::datagram(properties, Persistency::Persistent, 8800),
            remote: FaceUri::udp(peer.local_addr().unwrap()),
            local: FaceUri::null(),
        };
        bed.command(Command::AddFace(Box::new(face())));
        let created = bed.added();
        let uri = format!("/p/{number}");
        for nonce in 0..3 {
            let uri = format!("{uri}/{nonce}");
            peer.send_to(&interest(&uri, nonce), address).unwrap();
            expect(&mut producer, &interest(&uri, nonce));
            producer.write_all(&data(&uri)).unwrap();
            let mut bytes = vec![0; 8800];
            let (length, from) = peer.recv_from(&mut bytes).unwrap();
            assert_eq!((&bytes[..length], from), (&data(&uri)[..], address));
        }
        assert_eq!(created.counters.in_interests.value(), 3);
        assert_eq!(created.counters.out_data.value(), 3);
        bed.command(Command::AddFace(Box::new(face())));
        let Event::FaceExists { face_id: existing, .. } = bed.event() else { panic!() };
        assert_eq!(existing, face_id);
        // Gone: the peer gets a new face when it speaks again.
        bed.command(Command::RemoveFace { face_id });
        let Event::FaceClosed { .. } = bed.event() else { panic!() };
        let uri = format!("{uri}/new");
        let mut resent = 0;
        let face = loop {
            // Lost if the worker that it reaches has not been notified yet that the old face is gone.
            peer.send_to(&interest(&uri, resent), address).unwrap();
            resent += 1;
            producer.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
            let mut bytes = vec![0; interest(&uri, 0).len()];
            if producer.read_exact(&mut bytes).is_ok() {
                break bed.added();
            }
            assert!(resent < 100, "the peer never gets a new face");
        };
        producer.set_read_timeout(Some(TIMEOUT)).unwrap();
        assert_ne!(face.options.properties.face_id, face_id);
    }
    bed.dataplane.stop().unwrap();
}

#[test]
fn idle_workers_sleep() {
    let mut bed = bed(3);
    let (producer_face, mut producer) = bed.application();
    let (_, mut consumer) = bed.application();
    bed.route("/p", producer_face.index);
    for number in 0..10 {
        fetch(&format!("/p/{number}"), number, &mut consumer, &mut producer);
    }
    let rounds = |bed: &Bed| -> u64 {
        bed.dataplane.workers().iter().map(|worker| worker.worker_counters().rounds.value()).sum()
    };
    let waits = |worker: &WorkerView| worker.worker_counters().waiting_since_ns.value() != 0;
    wait_until("all workers to wait", || bed.dataplane.workers().iter().all(waits));
    let before = rounds(&bed);
    // Time itself is measured: the rounds in it.
    std::thread::sleep(Duration::from_millis(400));
    let woken = rounds(&bed) - before;
    assert!(woken < 60, "{woken} rounds of three workers with nothing to do");
    bed.dataplane.stop().unwrap();
}

#[test]
fn service_times_are_measured_while_traced() {
    let count = |bed: &Bed, histogram: fn(&ServiceTimes) -> &Histogram| -> u64 {
        let workers = bed.dataplane.workers().iter();
        workers.map(|worker| histogram(worker.service_times()).snapshot().count()).sum()
    };
    let histograms: [fn(&ServiceTimes) -> &Histogram; 4] = [
        |times| &times.dispatch.interests,
        |times| &times.dispatch.data,
        |times| &times.forwarding.interests,
        |times| &times.forwarding.data,
    ];
    for workers in [1, 2] {
        let mut bed = bed(workers);
        let (producer_face, mut producer) = bed.application();
        let (_, mut consumer) = bed.application();
        bed.route("/p", producer_face.index);
        fetch("/p/before", 1, &mut consumer, &mut producer);
        assert_eq!(histograms.map(|histogram| count(&bed, histogram)), [0; 4]);
        bed.command(Command::Trace(true));
        bed.settle();
        let mut nonce = 2;
        while histograms.iter().any(|&histogram| count(&bed, histogram) == 0) {
            // About one burst in 16 is measured at first, at random, and then nearly all.
            assert!(nonce < 100_000, "{:?}", histograms.map(|histogram| count(&bed, histogram)));
            fetch(&format!("/p/{nonce}"), nonce, &mut consumer, &mut producer);
            nonce += 1;
        }
        bed.command(Command::Trace(false));
        bed.settle();
        let measured = histograms.map(|histogram| count(&bed, histogram));
        for _ in 0..100 {
            nonce += 1;
            fetch(&format!("/p/{nonce}"), nonce, &mut consumer, &mut producer);
        }
        assert_eq!(histograms.map(|histogram| count(&bed, histogram)), measured);
        bed.dataplane.stop().unwrap();
    }
}

#[test]
fn dedicated_workers_have_faces_or_a_shard() {
    let client_io = Roles { servers: false, ..Roles::IO };
    let server_io = Roles { clients: false, ..Roles::IO };
    let roles = [client_io, server_io, Roles::FORWARDING, Roles::FORWARDING];
    let mut bed = Bed::with_roles(&roles, 64, Duration::from_secs(3600));
    let (producer_face, mut producer) = bed.application();
    let (consumer_face, mut consumer) = bed.application();
    bed.route("/p", producer_face.index);
    for number in 0..40 {
        fetch(&format!("/p/{number}"), number, &mut consumer, &mut producer);
    }
    // The lowest bits of the index of a face say whose it is.
    assert_eq!([producer_face, consumer_face].map(|face| face.index.slot() % 4), [0, 0]);
    let entered: Vec<u64> = bed
        .dataplane
        .workers()
        .iter()
        .map(|worker| worker.counters().in_interests.value())
        .collect();
    assert_eq!((entered[0], entered[1]), (0, 0), "{entered:?}");
    assert!(entered[2] > 0 && entered[3] > 0, "{entered:?}");
    assert_eq!(bed.dataplane.balancer().unwrap().ndt().members(), [2, 3]);
    bed.dataplane.stop().unwrap();
}

/// Many windows of Interests with names of all shards, from faces of all workers.
#[test]
fn concurrent_windows_through_three_workers_lose_nothing() {
    const EXCHANGES: u32 = 3000;
    let mut bed = Bed::without_queue_management(3);
    let (face, mut producer) = bed.application();
    let consumers: Vec<_> = (0..3).map(|_| bed.application().1).collect();
    bed.route("/p", face.index);
    let producing = std::thread::spawn(move || {
        let one = interest(&name(0, 0), 0).len();
        let mut wire = vec![0; one];
        for _ in 0..EXCHANGES * 3 {
            producer.read_exact(&mut wire).unwrap();
            producer.write_all(&answer(&wire)).unwrap();
        }
        producer
    });
    let consuming: Vec<_> = (0_u32..)
        .zip(consumers)
        .map(|(number, mut consumer)| {
            std::thread::spawn(move || {
                let mut sent = 0;
                for next in 0..EXCHANGES {
                    // Sixteen at a time; their Data come in any order.
                    while sent < EXCHANGES && sent < next + 16 {
                        consumer.write_all(&interest(&name(number, sent), sent)).unwrap();
                        sent += 1;
                    }
                    let mut wire = vec![0; data(&name(number, next)).len()];
                    consumer.read_exact(&mut wire).unwrap();
                }
                consumer
            })
        })
        .collect();
    drop(consuming.into_iter().map(|one| one.join().unwrap()).collect::<Vec<_>>());
    drop(producing.join().unwrap());
    let counters = bed.dataplane.counters();
    assert_eq!(counters.out_data.value(), u64::from(3 * EXCHANGES));
    bed.dataplane.stop().unwrap();
}

/// All names are as long as each other.
fn name(consumer: u32, number: u32) -> String {
    format!("/p/{consumer}{number:04}/{number:04}")
}

/// The Data for an Interest as it arrives.
fn answer(wire: &[u8]) -> Vec<u8> {
    let at = wire.windows(2).position(|pair| pair == [8, 5]).unwrap() + 2;
    let prefix = std::str::from_utf8(&wire[at..at + 5]).unwrap();
    data(&format!("/p/{prefix}/{}", &prefix[1..]))
}

/// Messages between workers that were dropped because the ring was full.
fn ring_full(dataplane: &Dataplane) -> u64 {
    let all = dataplane.workers().iter().filter_map(|one| one.exchange_counters());
    all.map(|counters| counters.ring_full_total()).sum()
}

/// Short names with CanBePrefix, all of the shard of one worker, which probes the other Content Stores for each.
#[test]
fn workers_that_probe_each_other_drop_nothing() {
    const WORKERS: usize = 8;
    const INTERESTS: usize = 4000;
    // An eighth of a ring, so that each has room, however long another worker has no processor.
    const PORTION: usize = 16_384 / WORKERS / 8;
    let mut bed = Bed::without_queue_management(WORKERS);
    let (face, mut consumer) = bed.application();
    let shard = (face.index.slot() as usize + 3) % WORKERS;
    let names = (0_u32..).filter_map(|number| {
        let name = Name::from_uri(&format!("/{number}")).unwrap();
        let entry = bed.dataplane.dispatch_entry(name.as_ref()).unwrap();
        (entry % WORKERS == shard).then_some((number, name))
    });
    let wires = names.take(INTERESTS).map(|(nonce, name)| {
        InterestBuilder::new(&name).can_be_prefix(true).nonce(nonce).to_vec().unwrap()
    });
    let wires: Vec<Vec<u8>> = wires.collect();
    let mut written = 0;
    for portion in wires.chunks(PORTION) {
        consumer.write_all(&portion.concat()).unwrap();
        written += portion.len();
        wait_until("all Interests to arrive", || {
            bed.dataplane.counters().in_interests.value() >= written as u64
        });
        wait_until("all probes to end", || {
            let sent = exchanged(&bed.dataplane, |counters| &counters.crossings_sent);
            let taken = exchanged(&bed.dataplane, |counters| &counters.crossings_taken);
            // An Interest that is refused crosses nowhere.
            let crossed = sent + ring_full(&bed.dataplane) * WORKERS as u64;
            crossed >= (written * WORKERS) as u64 && taken >= sent
        });
    }
    assert_eq!(ring_full(&bed.dataplane), 0);
    bed.dataplane.stop().unwrap();
}

/// Waits for a condition that nothing announces.
fn wait_until(what: &str, is_met: impl Fn() -> bool) {
    let begin = support::real_clock().now();
    while !is_met() {
        assert!(support::real_clock().now() - begin < TIMEOUT, "{what}: not after {TIMEOUT:?}");
        std::thread::yield_now();
    }
}
