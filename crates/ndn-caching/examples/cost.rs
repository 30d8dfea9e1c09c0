//! Time per request and hit ratio of every policy: Zipf(0.9) over 1,000,000 keys, capacity 65,536.
//!
//! `cargo run --release -p ndn-caching --example cost`
#![expect(clippy::disallowed_methods, reason = "a stopwatch")]

use ndn_caching::cache::CacheOutcome;
use ndn_caching::{Cache, Capacity, Object, PolicyKind};
use ndn_sys::clock;
use ndn_types::random::Random;

const KEYS: u32 = 1_000_000;
const REQUESTS: usize = 4_000_000;

#[allow(clippy::print_stdout, reason = "prints the table")]
fn main() {
    let mut sum = 0.0;
    let cumulated: Vec<f64> = (1..=KEYS)
        .map(|rank| {
            sum += f64::from(rank).powf(-0.9);
            sum
        })
        .collect();
    let mut random = Random::new(1, 0);
    let draw = |random: &mut Random| {
        let at = random.unit() * sum;
        cumulated.partition_point(|&to| to < at)
    };
    let keys: Vec<u64> = (0..2 * REQUESTS).map(|_| draw(&mut random) as u64).collect();
    for kind in PolicyKind::ALL {
        let mut cache = Cache::new(kind, Capacity::entries(65_536));
        for &key in &keys[..REQUESTS] {
            cache.request(Object::unit(key), |_| ());
        }
        let start = clock::now();
        let requests = keys[REQUESTS..].iter();
        let hits = requests
            .filter(|key| cache.request(Object::unit(**key), |_| ()) == CacheOutcome::Hit)
            .count();
        let duration_ns = (clock::now() - start) as f64;
        println!(
            "{:14} {:6.1} ns per request, {:5.2} % hits",
            kind.name(),
            duration_ns / REQUESTS as f64,
            100.0 * hits as f64 / REQUESTS as f64
        );
    }
}
