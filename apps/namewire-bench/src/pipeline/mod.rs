//! `bench pipeline`: one shard in memory, beside the least that the machine allows.
//!
//! A case builds a shard with its FIB, fills the Content Store until it has evicted twice its
//! capacity, and then takes turns with the floor: a stretch of exchanges through the shard, the
//! same exchanges through the floor, several times. What counts is the time from received bytes
//! to sent bytes: parsing, hashing, forwarding, caching, and copying into the output buffer.
//! Making the packets, which the network does, is not counted.

mod case;
mod crew;
mod floor;
mod measure;
mod rig;
mod shards;
mod trace_cost;
mod traffic;

use serde::Serialize;

pub use shards::{Arrival, ShardsCase, ShardsReport, run_in_turn, run_shards};
pub use trace_cost::{TraceCase, TraceReport, run_trace_cost};

/// What to run.
#[derive(Debug, Clone)]
pub struct PipelineOptions {
    /// Only cases whose name contains this.
    pub filter: Option<String>,
    /// Stretches per case, at least 7 for a figure that is to be quoted.
    pub pairs: usize,
    /// Exchanges in one stretch.
    pub stretch: u64,
    /// The processor to run on.
    pub cpu: Option<usize>,
}

impl Default for PipelineOptions {
    fn default() -> Self {
        Self { filter: None, pairs: 9, stretch: 200_000, cpu: None }
    }
}

/// One row.
#[derive(Debug, Clone, Serialize)]
pub struct PipelineCase {
    /// What was measured.
    pub case: String,
    /// Median time of one exchange.
    pub ns_per_exchange: f64,
    /// Shortest and longest of the stretches.
    pub ns_per_exchange_spread: (f64, f64),
    /// Median time of the floor for one exchange.
    pub floor_ns: f64,
    /// Shortest and longest of the floor's stretches.
    pub floor_ns_spread: (f64, f64),
    /// `ns_per_exchange` over `floor_ns`.
    pub ratio: f64,
    /// Stretches measured, and those left out because the host took the processor away for more
    /// than 1 % of the time.
    pub pairs: usize,
    /// Stretches left out.
    pub pairs_discarded: usize,
    /// Components of a name, and the length of its value.
    pub name_components: usize,
    /// Bytes of a name.
    pub name_bytes: usize,
    /// Bytes of content in a Data.
    pub payload_bytes: usize,
    /// Routes.
    pub fib_entries: u32,
    /// Capacity of the Content Store.
    pub cs_packets: u32,
    /// Interests that waited for Data at any time.
    pub outstanding: usize,
    /// Share of Interests that the Content Store answered.
    pub hit_ratio: f64,
    /// PIT entries made in the stretches.
    pub pit_inserts: u64,
    /// Data that left the Content Store in the stretches.
    pub cs_evictions: u64,
    /// Resident memory of the process.
    pub resident_mib: f64,
    /// How much of it is in huge pages.
    pub huge_pages_mib: f64,
}

/// Everything that one run of the bench found.
#[derive(Debug, Clone, Serialize)]
pub struct PipelineReport {
    /// Always `pipeline`.
    pub bench: &'static str,
    /// The machine.
    pub machine: crate::Machine,
    /// The rows.
    pub cases: Vec<PipelineCase>,
}

/// Runs the bench; `progress` gets a line now and then.
///
/// # Errors
/// When there is not enough memory, or the shard did not do what the case is about.
pub fn run_pipeline(
    options: &PipelineOptions,
    mut progress: impl FnMut(&str),
) -> anyhow::Result<PipelineReport> {
    if let Some(cpu) = options.cpu {
        ndn_sys::cpu::pin_thread(cpu)?;
    }
    let mut cases = Vec::new();
    for case in case::cases() {
        if options.filter.as_ref().is_none_or(|filter| case.name.contains(filter)) {
            progress(&case.name);
            cases.push(case.run(options)?);
        }
    }
    Ok(PipelineReport { bench: "pipeline", machine: crate::Machine::read(), cases })
}
