#![doc = include_str!("../README.md")]
//!
//! `bench pipeline`: one shard in memory, compared with the minimum that the machine allows.
//!
//! A case builds a shard with its FIB, fills the Content Store until it has evicted twice its capacity, and then
//! alternates with the floor: a stretch of exchanges through the shard, the same exchanges through the floor, several
//! times. It measures the time from received bytes to sent bytes: parsing, hashing, forwarding, caching, and copying
//! into the output buffer. Building the packets, which is the network's work, is not measured.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "a bench measures real time")]

mod case;
mod floor;
mod machine;
mod measure;
mod rig;
mod shards;
mod trace_cost;
mod traffic;
mod uniform;

use serde::Serialize;

pub use machine::Machine;
pub use measure::steal_ns;
pub use shards::{Arrival, ShardsCase, ShardsReport, run_in_turn, run_policy_in_turn, run_shards};
pub use trace_cost::{TraceCase, TraceReport, run_trace_cost};
pub use traffic::NameOrder;

/// Options of the bench.
#[derive(Debug, Clone)]
pub struct PipelineOptions {
    /// Only cases whose name contains this.
    pub filter: Option<String>,
    /// Stretches per case; a figure for publication needs at least 7.
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
    /// Name of the case.
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
    /// Measured stretches, including those discarded because of more than 1 % steal time.
    pub pairs: usize,
    /// Discarded stretches.
    pub pairs_discarded: usize,
    /// Components of a name.
    pub name_components: usize,
    /// Bytes of a name.
    pub name_bytes: usize,
    /// Bytes of content in a Data.
    pub payload_bytes: usize,
    /// Routes.
    pub fib_entries: u32,
    /// Capacity of the Content Store.
    pub cs_packets: u32,
    /// Number of pending Interests.
    pub outstanding: usize,
    /// Share of Interests satisfied by the Content Store.
    pub hit_ratio: f64,
    /// PIT entries inserted in the stretches.
    pub pit_inserts: u64,
    /// Data evicted from the Content Store in the stretches.
    pub cs_evictions: u64,
    /// Resident memory of the process.
    pub resident_mib: f64,
    /// Part of the resident memory in huge pages.
    pub huge_pages_mib: f64,
}

/// Report of one run of the bench.
#[derive(Debug, Clone, Serialize)]
pub struct PipelineReport {
    /// Always `pipeline`.
    pub bench: &'static str,
    /// The machine.
    pub machine: Machine,
    /// The rows.
    pub cases: Vec<PipelineCase>,
}

/// Runs the bench; calls `progress` with lines of text.
///
/// # Errors
/// Memory is short, or the shard did not do the work of the case.
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
    Ok(PipelineReport { bench: "pipeline", machine: Machine::read(), cases })
}

/// The median; NaN for an empty iterator.
#[must_use]
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}
