//! Random networks of Namewire forwarders.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use ndn_sim::{
    Failure, Limits, PlantedFault, Pressure, Scenario, ScenarioOutcome, Simulation, shrink,
    start_faulty_forwarder, start_forwarder,
};

/// Scenarios that are run unless `NAMEWIRE_CASES` has another number; `make sim` runs 100,000.
const SCENARIOS: u64 = 1000;

fn run(seed: u64, limits: &Limits) -> Result<ScenarioOutcome, Failure> {
    Simulation::run(&Scenario::random(seed, limits), &mut start_forwarder)
}

#[test]
fn random_networks_keep_all_invariants() {
    let count = std::env::var("NAMEWIRE_CASES").ok().and_then(|count| count.parse().ok());
    let (count, limits) = (count.unwrap_or(SCENARIOS), Limits::default());
    let (next, satisfied) = (AtomicU64::new(0), AtomicU64::new(0));
    let pressure = Mutex::new(Pressure::default());
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= count {
                        return;
                    }
                    let outcome = run(seed, &limits).unwrap_or_else(|failure| {
                        panic!("{failure}\nreplay it: cargo run -p ndn-sim -- run --first {seed} --count 1")
                    });
                    satisfied.fetch_add(outcome.satisfied, Ordering::Relaxed);
                    pressure.lock().unwrap().add(outcome.pressure);
                }
            });
        }
    });
    // Most Interests get Data: the invariants were checked under traffic.
    assert!(satisfied.into_inner() > count * 20);
    // Bursts fill the PIT, and the rings between workers until less than a quarter of 4,096 places is free.
    let pressure = pressure.into_inner().unwrap();
    let is_full = pressure.pit_full > 0 && pressure.ring_depth_max >= 3072;
    assert!(count < SCENARIOS || is_full, "{pressure:?}");
}

#[test]
fn equal_seeds_repeat_exactly() {
    for seed in 1..6 {
        let (first, second) = (run(seed, &Limits::default()), run(seed, &Limits::default()));
        assert_eq!(first.unwrap(), second.unwrap(), "seed {seed}");
    }
}

#[test]
fn two_hundred_forwarders_run_in_one_process() {
    let limits = Limits {
        nodes_min: 200,
        nodes_max: 200,
        workers_max: 1,
        requests: 400,
        ..Limits::default()
    };
    let outcome = run(1, &limits).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(outcome.satisfied > 400, "{outcome:?}");
}

/// Each is replayed by `ndn-sim replay SEED --plant FAULT --only ELEMENTS`.
#[test]
fn faults_planted_in_a_forwarder_are_found_and_shrunk() {
    let limits = Limits { nodes_max: 8, bursts_max: 0, ..Limits::default() };
    let mut found = Vec::new();
    for (fault, reasons) in [
        (
            PlantedFault::LostRingMessage,
            &["have an outcome", "messages to others", "no Data comes"][..],
        ),
        (PlantedFault::PitEntryKept, &["PIT entries"]),
        (PlantedFault::WrongNextHopAfterRestart, &["has next hops"]),
        (PlantedFault::StaleDataKeptFresh, &["with stale Data"]),
        (PlantedFault::InterestForgotten, &["no Data comes"]),
        (PlantedFault::BlockLeaked, &["packet buffers"]),
        (PlantedFault::MtuIgnored, &["exceeds the MTU"]),
        (PlantedFault::FramesUnacknowledged, &["were not acknowledged"]),
        (PlantedFault::AnnouncementRefused, &["has learnt no route"]),
        (PlantedFault::NeighbourLocal, &["beyond its scope"]),
    ] {
        found.push(fault);
        let mut start = start_faulty_forwarder(Some(fault));
        let failing = (0..100).find_map(|seed| {
            let scenario = Scenario::random(seed, &limits);
            let failure = Simulation::run(&scenario, &mut start).err()?;
            let is_expected = reasons.iter().any(|reason| failure.reason.contains(reason));
            assert!(is_expected, "{fault} in seed {seed}: {failure}");
            Some(scenario)
        });
        let scenario = failing.unwrap_or_else(|| panic!("{fault} is not found"));
        assert_eq!(Simulation::run(&scenario, &mut start_forwarder).err(), None, "without {fault}");
        let shrunk = shrink(&scenario, &mut start, 200).unwrap();
        let (before, after) = (scenario.elements().len(), shrunk.scenario.elements().len());
        assert!(after * 4 < before, "{fault}: {after} of {before} elements are left");
        let again = Simulation::run(&scenario.without(&shrunk.removed), &mut start).unwrap_err();
        assert_eq!(again, shrunk.failure);
    }
    assert_eq!(found, PlantedFault::ALL);
}
