//! Memory of a FIB that is filled a few entries at a time. Alone in its process, whose memory it
//! measures.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use ndn_packet::Name;
use ndn_table::{FaceIndex, FibConfig, FibWriter, NameHasher, StrategyId};

const ENTRIES: usize = 150_000;
/// Changes per version.
const CHANGES: usize = 8;
const LIMIT_KIB: usize = 256 * 1024;

fn resident_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn frequent_publishing_does_not_fragment_the_heap() {
    let config = FibConfig {
        entries_max: ENTRIES + 1,
        hasher: NameHasher::new([7; 16]),
        default_strategy: StrategyId(0),
    };
    let (mut fib, before) = (FibWriter::new(&config), resident_kib());
    // Shards are a version behind, and routes are also kept elsewhere.
    let (mut held, mut routes) = (fib.publish(), Vec::new());
    for number in 0..ENTRIES {
        let uri = format!("/fib/site-{}/router-{number}", number % 1000);
        let name: Name = uri.parse().unwrap();
        fib.set_next_hop(name.as_ref(), FaceIndex::new(1, 1), 1).unwrap();
        routes.push(name);
        if number % CHANGES == 0 {
            held = fib.publish();
        }
    }
    let grown = resident_kib() - before;
    assert!(
        grown < LIMIT_KIB,
        "{grown} KiB for {} routes of version {}",
        routes.len(),
        held.version()
    );
}
