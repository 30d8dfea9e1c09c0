//! Workers that share a thread, and that are given others while packets flow.
#![allow(clippy::unwrap_used, reason = "test code")]

mod support;

use std::io::{Read, Write};
use std::time::Duration;

use ndn_dataplane::{Dataplane, ThreadUse};

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

/// A read brings more for another worker than a ring has room for, and that worker runs by the same thread.
#[test]
fn a_worker_makes_room_for_the_one_that_shares_its_thread() {
    let mut bed = Bed::with_threads(2, 64, ThreadUse::AsNeeded);
    let (_, mut first) = bed.application();
    let (_, mut second) = bed.application();
    wait_for(&bed.dataplane, &[0, 0]);
    // No route: each comes back as nothing, but is counted where its name belongs. The same name each time, so
    // that all belong to one worker, which is not that of one of the applications.
    let one = interest("/a/b", 7);
    let many: Vec<u8> = one.iter().copied().cycle().take(one.len() * 20_000).collect();
    for application in [&mut first, &mut second] {
        application.write_all(&many).unwrap();
    }
    let mut deadline = Deadline::new();
    while bed.dataplane.counters().in_interests.value() < 40_000 {
        deadline.wait("all Interests to arrive");
    }
    let dropped = bed.dataplane.workers().iter().filter_map(|one| one.exchange_counters());
    assert_eq!(dropped.map(|counters| counters.dropped_total()).sum::<u64>(), 0);
    bed.dataplane.stop().unwrap();
}
