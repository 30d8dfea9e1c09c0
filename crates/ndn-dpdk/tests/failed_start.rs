//! DPDK starts once in a process: nothing starts after it failed.
#![cfg(feature = "dpdk")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use ndn_dpdk::{EnvironmentError, start};

#[test]
fn start_after_a_failed_start_is_refused() {
    let arguments = |list: &[&str]| list.iter().copied().map(str::to_owned).collect::<Vec<_>>();
    let refused = start(&arguments(&["a\0b"])).unwrap_err();
    assert!(matches!(refused, EnvironmentError::Arguments), "DPDK did not see them: {refused}");
    let refused = start(&arguments(&["--no-such-option"])).unwrap_err();
    assert!(matches!(refused, EnvironmentError::Start(_)), "{refused}");
    for again in [&[][..], &["--no-such-option"], &["--no-huge", "-m", "64"]] {
        let refused = start(&arguments(again)).unwrap_err();
        assert!(matches!(refused, EnvironmentError::Before), "{again:?}: {refused}");
    }
}
