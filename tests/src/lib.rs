//! Code that the end-to-end tests share: a forwarder of their own, applications, waiting for conditions.
//!
//! Every test starts a forwarder on sockets below a directory of its own and ends it when it is over, whatever happened:
//! in the process of the tests ([`Settings::start`]), or the program where the process is what is tested
//! ([`Settings::start_program`]). Nothing waits for an amount of time; [`wait_until`] waits for a condition with a
//! deadline.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod api;
mod application;
mod bridge;
mod browser;
mod endpoint;
mod forwarder;
mod held;
mod hosts;
mod identity;
mod log;
mod peers;
mod process;
mod program;
mod topology;
pub mod transfers;
mod tshark;
mod well_known;
pub mod wire;
mod xrootd;

use std::fmt::Display;
use std::time::{Duration, Instant};

pub use api::{api_of, graphql};
pub use application::{Application, Received, unix_ms};
pub use bridge::{Bridge, Script, forwarder_of_host, looping, station};
pub use browser::{browser_found, fetch_by_page};
pub use endpoint::Endpoint;
pub use forwarder::{Forwarder, ForwarderProcess, Settings, free_port, worker_count};
pub use held::{Held, with_version};
pub use hosts::{host, with_hosts};
pub use identity::{Identity, signed_registration};
pub use peers::{
    Peer, Transport, found_on_path, require, skip, skip_unless_file, skip_unless_found,
};
pub use process::{Process, ended_by_hangup, run_to_end, run_to_end_within};
pub use program::{bench_program, program};
pub use topology::Topology;
pub use tshark::dissect_with_tshark;
pub use well_known::WellKnownPath;
pub use xrootd::{XRootD, try_xrdcp, xrdcp, xrootd_command, xrootd_vector_reads};

/// Maximum time that a test waits for a condition.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// Waits until `condition` gives a value.
///
/// # Panics
/// It gives none within [`TIMEOUT`]; the message says what was waited for.
pub fn wait_until<T>(what: &str, condition: impl FnMut() -> Option<T>) -> T {
    wait_until_within(TIMEOUT, what, condition)
}

/// As [`wait_until`], within another time.
///
/// # Panics
/// The condition gives no value within `timeout`.
pub fn wait_until_within<T>(
    timeout: Duration,
    what: &str,
    mut condition: impl FnMut() -> Option<T>,
) -> T {
    wait_for(timeout, || condition().ok_or(what))
}

/// Waits until `condition` succeeds.
///
/// # Panics
/// It fails throughout `timeout`; the message has its last error.
pub fn wait_for<T, E: Display>(
    timeout: Duration,
    mut condition: impl FnMut() -> Result<T, E>,
) -> T {
    let deadline = now() + timeout;
    loop {
        match condition() {
            Ok(value) => return value,
            Err(error) => assert!(now() < deadline, "{error}: not after {timeout:?}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The time, for deadlines of tests that deal with real processes.
#[expect(clippy::disallowed_methods, reason = "real processes run in real time")]
#[must_use]
pub fn now() -> Instant {
    Instant::now()
}

/// `len` bytes that look random and are the same every time for the same `seed`.
#[must_use]
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        // xorshift64*
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        bytes.extend_from_slice(&state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}
