//! Skewed traffic in simulated time: how even the shards are, and how soon.
#![allow(clippy::unwrap_used, clippy::cast_precision_loss, reason = "tests")]

use ndn_forwarding::{LOAD_SAMPLE, NdtLoads, Sampled};
use ndn_packet::Name;
use ndn_table::{NameHasher, PREFIX_HASHES_MAX};

use super::*;

/// Interests per simulated second.
const RATE: u64 = 80_000;
const PERIOD_MS: u64 = 500;
const LIFETIME_MS: u64 = 4_000;

struct Simulation {
    balancer: Balancer,
    hasher: NameHasher,
    loads: NdtLoads,
    now: Timestamp,
    random: u64,
    until_sample: u32,
    /// Interests for each shard in the last second.
    shards: Vec<u64>,
}

impl Simulation {
    fn new(shards: usize) -> Self {
        Self {
            balancer: Balancer::new(Arc::new(Ndt::new(shards, 2))),
            hasher: NameHasher::new(*b"a key of a test!"),
            loads: NdtLoads::default(),
            now: Timestamp::from_millis(1),
            random: 7,
            until_sample: LOAD_SAMPLE,
            shards: vec![0; shards],
        }
    }

    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Half a second of traffic, and a look at it.
    fn period(&mut self, mut name: impl FnMut(u64) -> Name) -> Balanced {
        self.shards.fill(0);
        for _ in 0..RATE * PERIOD_MS / 1000 {
            let drawn = self.random();
            let name = name(drawn);
            let mut hashes = [0; PREFIX_HASHES_MAX];
            let count = self.hasher.hash_prefixes(name.as_ref(), &mut hashes).unwrap();
            let route = self.balancer.ndt().find(name.as_ref(), &hashes[..count]);
            self.shards[usize::from(route.shard)] += 1;
            self.until_sample -= 1;
            if self.until_sample == 0 {
                self.until_sample = LOAD_SAMPLE;
                let components = u16::try_from(count - 1).unwrap();
                self.loads.note(Sampled::new(route.entry, components));
            }
        }
        self.now = self.now.plus_millis(PERIOD_MS);
        let loads = &self.loads;
        let until = self.now.plus_millis(LIFETIME_MS);
        let load_of =
            |entry| EntryLoad { count: loads.count(entry), components: loads.components(entry) };
        self.balancer.balance(self.now, load_of, |_| until)
    }

    /// Largest load over the mean, in the last period.
    fn imbalance(&self) -> f64 {
        let most = *self.shards.iter().max().unwrap() as f64;
        most * self.shards.len() as f64 / self.shards.iter().sum::<u64>() as f64
    }
}

#[test]
fn zipf_over_a_thousand_prefixes_is_even_within_five_seconds() {
    let weights: Vec<f64> = (1..=1000).map(|rank| 1.0 / f64::from(rank)).collect();
    let total: f64 = weights.iter().sum();
    for shards in [2, 8, 16] {
        let mut simulation = Simulation::new(shards);
        let mut serial = 0_u64;
        let mut draw = |drawn: u64| {
            let mut left = drawn as f64 / u64::MAX as f64 * total;
            let rank = weights.iter().position(|weight| {
                left -= weight;
                left <= 0.0
            });
            serial += 1;
            Name::from_uri(&format!("/zipf/p{}/n{serial}", rank.unwrap_or(999))).unwrap()
        };
        for _ in 0..10 {
            simulation.period(&mut draw);
        }
        simulation.period(&mut draw);
        let imbalance = simulation.imbalance();
        assert!(imbalance <= 1.15, "{shards} shards: {imbalance}");
    }
}

#[test]
fn one_prefix_uses_all_shards_within_five_seconds() {
    for shards in [2, 8, 16] {
        let mut simulation = Simulation::new(shards);
        let mut serial = 0_u64;
        let mut draw = |_| {
            serial += 1;
            Name::from_uri(&format!("/one/prefix/n{serial}")).unwrap()
        };
        simulation.period(&mut draw);
        for _ in 0..10 {
            simulation.period(&mut draw);
        }
        let imbalance = simulation.imbalance();
        assert!(imbalance <= 1.15, "{shards} shards: {imbalance}");
    }
}

#[test]
fn even_traffic_is_left_alone() {
    let mut simulation = Simulation::new(4);
    let mut serial = 0_u64;
    for _ in 0..6 {
        let done = simulation.period(|_| {
            serial += 1;
            Name::from_uri(&format!("/p{serial}/x")).unwrap()
        });
        assert_eq!(done, Balanced::default());
    }
}

#[test]
fn little_traffic_is_left_alone_and_moves_settle_in_their_time() {
    let mut balancer = Balancer::new(Arc::new(Ndt::new(2, 2)));
    let later = Timestamp::from_millis(100);
    let load = |entry| EntryLoad { count: if entry < 20 { 9 } else { 0 }, components: 3 };
    assert_eq!(balancer.balance(Timestamp::ZERO, load, |_| later), Balanced::default());
    balancer.set(5, 0, |shard| if shard == 1 { later } else { Timestamp::MAX }).unwrap();
    assert_eq!(balancer.next_deadline(), Some(later));
    assert!(!balancer.ndt().get(5).unwrap().is_settled);
    assert_eq!(balancer.settle(Timestamp::from_millis(99)), 0);
    assert_eq!(balancer.settle(later), 1);
    assert!(balancer.ndt().get(5).unwrap().is_settled);
    assert!(balancer.set(5, 2, |_| later).is_err(), "there is no such shard");
}
