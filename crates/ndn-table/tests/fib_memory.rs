//! What a FIB takes that is filled a few entries at a time: alone in its process, whose memory is looked at.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use ndn_packet::Name;
use ndn_table::{FaceIndex, FibConfig, FibWriter, NameHasher, StrategyId};

const ENTRIES: usize = 150_000;
/// Changes of one version.
const CHANGES: usize = 8;
const LIMIT_KIB: usize = 256 * 1024;

fn resident_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_version_for_every_few_changes_leaves_no_heap_in_pieces() {
    let config = FibConfig {
        entries_max: ENTRIES + 1,
        hasher: NameHasher::new([7; 16]),
        default_strategy: StrategyId(0),
    };
    let (mut fib, before) = (FibWriter::new(&config), resident_kib());
    // Shards are a version behind, and routes are kept elsewhere, too.
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
