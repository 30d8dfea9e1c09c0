//! Random attacks of few principals on a forwarder.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use ndn_sim::{Attack, AttackFault, AttackOutcome};

/// Attacks that are run unless `NAMEWIRE_CASES` has another number; `make sim-attack` runs more.
const ATTACKS: u64 = 30;
/// Seeds that are tried until a planted fault is found.
const SEEDS_MAX: u64 = 200;

#[test]
fn other_principals_are_served_during_random_attacks() {
    let count = std::env::var("NAMEWIRE_CASES").ok().and_then(|count| count.parse().ok());
    let count = count.unwrap_or(ATTACKS);
    let (next, total) = (AtomicU64::new(0), Mutex::new(AttackOutcome::default()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= count {
                        return;
                    }
                    let outcome = Attack::random(seed).run(None).unwrap_or_else(|failure| {
                        panic!("{failure}\nreplay it: cargo run -p ndn-sim -- attack --first {seed} --count 1")
                    });
                    total.lock().unwrap().add(outcome);
                }
            });
        }
    });
    let outcome = total.into_inner().unwrap();
    assert!(outcome.refused > count * 100, "the attacks fill no table: {outcome:?}");
    assert!(outcome.exchanges > count * 100, "{outcome:?}");
    assert!(outcome.certificates > count, "commands wait for no certificates: {outcome:?}");
    assert!(outcome.requests > count * 100, "users request nothing: {outcome:?}");
}

#[test]
fn equal_seeds_give_equal_attacks() {
    for seed in 0..3 {
        assert_eq!(Attack::random(seed).run(None), Attack::random(seed).run(None));
    }
}

/// Each is replayed by `ndn-sim attack --first SEED --count 1 --plant FAULT --only MOVES`.
#[test]
fn faults_planted_in_the_ledger_are_found_and_shrunk() {
    let is_leak = |fault: &AttackFault| matches!(fault, AttackFault::Leaked(_));
    let (leaks, others): (Vec<_>, Vec<_>) = AttackFault::all().into_iter().partition(is_leak);
    // All leaks of tables are found alike.
    for fault in others.into_iter().chain(leaks.into_iter().take(1)) {
        let failing = (0..SEEDS_MAX).map(Attack::random).find_map(|attack| {
            let (smallest, failure) = attack.shrink(Some(fault))?;
            // Some attacks need all of their moves.
            (smallest.elements().len() < attack.elements().len()).then_some((smallest, failure))
        });
        let (smallest, failure) =
            failing.unwrap_or_else(|| panic!("{fault} is not found, or nothing is left out"));
        let expected = match fault {
            AttackFault::Unshared(_) | AttackFault::UnsharedRoutes => "exchanges of bystanders",
            AttackFault::Leaked(_) | AttackFault::LeakedRoute => "the ledger is not at zero",
            AttackFault::HeldUntilClosed => "while its faces are open",
        };
        assert!(failure.reason.contains(expected), "{fault}: {failure}");
        assert_eq!(smallest.run(Some(fault)), Err(failure));
        assert!(smallest.run(None).is_ok(), "without {fault}");
    }
}
