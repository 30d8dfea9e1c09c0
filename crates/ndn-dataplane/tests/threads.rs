//! Workers that share a thread, and that are given others while packets flow.
#![allow(clippy::unwrap_used, reason = "test code")]

mod support;

use std::io::{Read, Write};
use std::time::Duration;

use ndn_dataplane::{Dataplane, ThreadUse};
use ndn_packet::{InterestBuilder, Name};

use support::{Bed, PATIENCE, data, expect, interest};

/// For how long a condition is waited for.
struct Deadline(Duration);

impl Deadline {
    fn new() -> Self {
        Self(PATIENCE)
    }

    fn wait(&mut self, what: &str) {
        const STEP: Duration = Duration::from_millis(1);
        std::thread::sleep(STEP);
        self.0 = self.0.checked_sub(STEP).unwrap_or_else(|| panic!("waited in vain for {what}"));
    }
}

/// Waits until the workers run by these threads.
fn wait_for(dataplane: &Dataplane, threads: &[u64]) {
    let mut deadline = Deadline::new();
    let present = || dataplane.workers().iter().map(|one| one.worker_counters().thread.value());
    while !present().eq(threads.iter().copied()) {
        deadline.wait(&format!("the workers to run by {threads:?}"));
    }
}

#[test]
fn one_thread_runs_all_workers_until_they_are_told_otherwise() {
    let mut bed = Bed::with_threads(3, 64, ThreadUse::AsNeeded);
    wait_for(&bed.dataplane, &[0, 0, 0]);
    bed.dataplane.gather(false);
    wait_for(&bed.dataplane, &[0, 1, 2]);
    bed.dataplane.gather(true);
    wait_for(&bed.dataplane, &[0, 0, 0]);
    bed.dataplane.stop().unwrap();
    let mut bed = Bed::with_threads(3, 64, ThreadUse::Each);
    bed.dataplane.gather(true);
    let (face, mut producer) = bed.application();
    let (_, mut consumer) = bed.application();
    bed.route("/p", face.index);
    consumer.write_all(&interest("/p/1", 1)).unwrap();
    expect(&mut producer, &interest("/p/1", 1));
    wait_for(&bed.dataplane, &[0, 1, 2]);
    bed.dataplane.stop().unwrap();
}

/// Many windows of Interests with names of all shards, from faces of all workers, while these change threads.
#[test]
fn nothing_is_lost_while_workers_change_threads() {
    const EXCHANGES: u32 = 3000;
    let mut bed = Bed::with_threads(3, 64, ThreadUse::AsNeeded);
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
    let mut changes = 0;
    while !consuming.iter().all(std::thread::JoinHandle::is_finished) {
        changes += 1;
        bed.dataplane.gather(changes % 2 == 0);
        std::thread::sleep(Duration::from_micros(300));
    }
    drop(consuming.into_iter().map(|one| one.join().unwrap()).collect::<Vec<_>>());
    drop(producing.join().unwrap());
    assert!(changes > 20, "{changes} changes");
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

#[test]
fn workers_end_wherever_they_are() {
    for step in 0..60_u64 {
        let mut bed = Bed::with_threads(3, 64, ThreadUse::AsNeeded);
        let (_, mut application) = bed.application();
        bed.dataplane.gather(step % 2 == 1);
        bed.dataplane.gather(step % 3 == 1);
        std::thread::sleep(Duration::from_micros(20 * (step % 8)));
        bed.dataplane.gather(step % 2 == 0);
        bed.dataplane.stop().unwrap();
        let mut rest = Vec::new();
        application.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, []);
    }
}

/// Messages between workers that were dropped for want of room.
fn dropped(dataplane: &Dataplane) -> u64 {
    let all = dataplane.workers().iter().filter_map(|one| one.exchange_counters());
    all.map(|counters| counters.dropped_total()).sum()
}

/// Short names with CanBePrefix, all of the shard of one worker, which asks the other stores for each: messages
/// between workers of one thread, none of which is the one that reads.
#[test]
fn workers_of_one_thread_make_room_for_each_other() {
    const WORKERS: usize = 8;
    const INTERESTS: usize = 4000;
    let mut bed = Bed::with_threads(WORKERS, 64, ThreadUse::AsNeeded);
    wait_for(&bed.dataplane, &[0; WORKERS]);
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
    let wire: Vec<u8> = wires.flatten().collect();
    consumer.write_all(&wire).unwrap();
    let mut deadline = Deadline::new();
    while bed.dataplane.counters().in_interests.value() < INTERESTS as u64 {
        deadline.wait("all Interests to arrive");
    }
    let sent = || -> u64 {
        let all = bed.dataplane.workers().iter().filter_map(|one| one.exchange_counters());
        all.map(|counters| counters.sent.value()).sum()
    };
    while sent() + dropped(&bed.dataplane) < (INTERESTS * WORKERS) as u64 {
        deadline.wait("all tours to end");
    }
    assert_eq!(dropped(&bed.dataplane), 0);
    bed.dataplane.stop().unwrap();
}

/// One that waits for room for what it has read may wait for one that is on its way to its thread.
#[test]
fn a_worker_on_its_way_is_let_in_by_the_one_that_waits_for_it() {
    let mut bed = Bed::with_threads(2, 64, ThreadUse::AsNeeded);
    let (face, application) = bed.application();
    let own = face.index.slot() as usize % 2;
    // There is no route, and all names are of the other worker.
    let foreign = (0..).find(|number| {
        let name = Name::from_uri(&format!("/{number}/b")).unwrap();
        bed.dataplane.dispatch_entry(name.as_ref()).unwrap() % 2 != own
    });
    let one = interest(&format!("/{}/b", foreign.unwrap()), 7);
    let many: Vec<u8> = one.iter().copied().cycle().take(one.len() * 100_000).collect();
    let mut reading = application.try_clone().unwrap();
    let mut writing = application;
    let nacks = std::thread::spawn(move || {
        let mut bytes = [0; 1 << 16];
        while reading.read(&mut bytes).is_ok_and(|length| length > 0) {}
    });
    let flood = std::thread::spawn(move || {
        writing.write_all(&many).unwrap();
        writing
    });
    let (mut deadline, mut changes) = (Deadline::new(), 0);
    while bed.dataplane.counters().in_interests.value() < 100_000 {
        changes += 1;
        bed.dataplane.gather(changes % 2 == 0);
        (0..5).for_each(|_| deadline.wait("all Interests to arrive"));
    }
    assert_eq!(dropped(&bed.dataplane), 0, "after {changes} changes");
    drop(flood.join().unwrap());
    bed.dataplane.stop().unwrap();
    nacks.join().unwrap();
}
