//! `bench relay`: whole forwarders, side by side, between real sockets.
//!
//! One core runs the forwarder, another this generator (both ends of every exchange, on one
//! thread). Every program is started once per layout (transport and number of faces), warmed
//! until its cache has evicted twice its capacity, and then measured in turn with the others,
//! several rounds per case; a case reports the median over its rounds.

pub(crate) mod attach;
pub(crate) mod clock;
mod dumb;
mod generator;
mod layout;
pub(crate) mod programs;
mod rounds;
mod statistics;
mod window;
pub(crate) mod wire;

use std::time::Duration;

use serde::Serialize;

pub use dumb::{relay_udp, relay_unix};

/// What to run.
#[derive(Debug, Clone)]
pub struct RelayOptions {
    /// Only cases whose name contains this.
    pub filter: Option<String>,
    /// Length of one measured stretch.
    pub stretch: Duration,
    /// Measured stretches per case and program.
    pub rounds: usize,
    /// The forwarder's core and the generator's.
    pub cpus: (usize, usize),
    /// The first of the UDP ports to use on the loopback interface.
    pub first_port: u16,
}

impl Default for RelayOptions {
    fn default() -> Self {
        Self {
            filter: None,
            stretch: Duration::from_secs(1),
            rounds: 7,
            cpus: (0, 1),
            first_port: 26_363,
        }
    }
}

/// One row: a program in a case.
#[derive(Debug, Clone, Serialize)]
pub struct RelayCase {
    /// `<program>-<transport>-<payload>`.
    pub case: String,
    /// Exchanges in flight, over all faces.
    pub window: u32,
    /// Consumer faces.
    pub faces: u32,
    /// Whether names (and so packets) differ in length.
    pub mixed: bool,
    /// Interest and Data exchanges per second.
    pub exchanges_per_s: f64,
    /// CPU time of the forwarder, user and kernel, per exchange.
    pub cpu_us_per_exchange: f64,
    /// Packets received per system call that receives, where the program says so.
    pub packets_per_read: Option<f64>,
    /// Packets sent per system call that sends, where the program says so.
    pub packets_per_write: Option<f64>,
    /// Share of exchanges that got no Data.
    pub loss: f64,
    /// Median latency of this closed loop, from sending the Interest to reading the Data.
    pub p50_us: f64,
    /// Its 99th percentile.
    pub p99_us: f64,
    /// CPU time of the generator as a share of the wall time.
    pub generator_busy: f64,
    /// The generator may have been the limit: it was busy for 80 % or more, and not shown to be
    /// 1.5 times as fast against the dumb relay.
    pub generator_bound: bool,
    /// `exchanges_per_s` over that of the dumb relay in the same case.
    pub share_of_dumb: Option<f64>,
    /// Resident memory of the program after the case, in MiB.
    pub resident_mib: f64,
    /// Smallest and largest `exchanges_per_s` of the rounds.
    pub spread: (f64, f64),
    /// Rounds left out because the host took the processor away for more than 1 % of the time.
    pub rounds_discarded: usize,
}

/// Everything that one run of the bench found.
#[derive(Debug, Clone, Serialize)]
pub struct RelayReport {
    /// Always `relay`.
    pub bench: &'static str,
    /// The machine.
    pub machine: crate::Machine,
    /// The rows.
    pub cases: Vec<RelayCase>,
    /// Forwarders that were not found on PATH.
    pub skipped: Vec<String>,
}

/// Runs the bench; `progress` gets a line now and then.
///
/// # Errors
/// When a program cannot be started or attached to, or a socket fails.
pub fn run_relay(
    options: &RelayOptions,
    mut progress: impl FnMut(&str),
) -> anyhow::Result<RelayReport> {
    let (programs, skipped) = layout::programs();
    for name in &skipped {
        progress(&format!("skipping {name}: not found on PATH"));
    }
    let mut cases = Vec::new();
    for layout in layout::layouts(options) {
        cases.extend(rounds::run_layout(options, &layout, &programs, &mut progress)?);
    }
    Ok(RelayReport { bench: "relay", machine: crate::Machine::read(), cases, skipped })
}
