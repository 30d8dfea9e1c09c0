//! `bench pipeline --shards`: several shards side by side, each on a processor of its own.
//!
//! First with packets that arrive at their owner, so that nothing crosses: this measures the cost of cooperation
//! (dispatching every packet, sharing the dispatch table and the list of short prefixes) against independent shards.
//! Then with packets that arrive at any worker ([`uniform`]).

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, ensure};
use ndn_caching::PolicyKind;
use ndn_forwarding::SharedTables;
use ndn_sys::clock;
use serde::Serialize;

use crate::PipelineOptions;
use crate::case::{BASE, of_policy, with_order};
use crate::rig::{Rig, RigConfig};
use crate::traffic::NameOrder;
use crate::uniform;

/// Number of pending Interests.
const OUTSTANDING: usize = 8_192;
/// Interests, and Data, per burst.
const EXCHANGES_PER_BURST: usize = 32;
/// Capacity of each Content Store: limited by the memory for several of them.
const CS_PACKETS: u32 = 100_000;
/// Capacity of all Content Stores together, and pending Interests, when instructions are counted: divided among the
/// shards, so that each number of shards has the same number of Data below each prefix. Small, so that eviction
/// starts early.
const CS_PACKETS_IN_TURN: u32 = 16_000;
const OUTSTANDING_IN_TURN: usize = 4_096;

/// Arrival of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrival {
    /// At the worker that owns their name: no packet crosses.
    Local,
    /// Uniformly at all workers: of two, half of the received and half of the sent packets cross a ring.
    Uniform,
}

/// One number of shards.
#[derive(Debug, Clone, Serialize)]
pub struct ShardsCase {
    /// Shards, one on each processor.
    pub shards: usize,
    /// Arrival of packets.
    pub arrival: Arrival,
    /// Median time of one exchange in one of them.
    pub ns_per_exchange: f64,
    /// Sum over all shards.
    pub exchanges_per_second: f64,
    /// The same number of independent shards, sum.
    pub independent_per_second: f64,
    /// Relative to a single shard, median over rounds.
    pub speedup: f64,
    /// Relative to the same number of independent shards, median over rounds.
    pub of_independent: f64,
}

/// Report of `--shards`.
#[derive(Debug, Clone, Serialize)]
pub struct ShardsReport {
    /// Always `pipeline`.
    pub bench: &'static str,
    /// The machine.
    pub machine: crate::Machine,
    /// The processors that shards ran on.
    pub cpus: Vec<usize>,
    /// The rows.
    pub shards: Vec<ShardsCase>,
    /// Speedup of the largest number of shards, with local arrivals.
    pub speedup: f64,
    /// The same with uniform arrivals; `None` for a single shard.
    pub speedup_uniform: Option<f64>,
}

/// Runs the bench for each of `counts`; calls `progress` with lines of text.
///
/// # Errors
/// Memory or processors are short, or a shard did not do its work.
pub fn run_shards(
    counts: &[usize],
    options: &PipelineOptions,
    mut progress: impl FnMut(&str),
) -> Result<ShardsReport> {
    let cpus = ndn_sys::cpu::allowed_cpus()?;
    let mut shards = Vec::new();
    for &count in counts {
        ensure!(count > 0 && count <= cpus.len(), "{count} shards on {} processors", cpus.len());
        progress(&format!("{count} shards"));
        shards.extend(run_count(count, options, &cpus)?);
    }
    let most = |arrival: Arrival| {
        let cases = shards.iter().filter(|case: &&ShardsCase| case.arrival == arrival);
        cases.max_by_key(|case| case.shards).map(|case| case.speedup)
    };
    let (speedup, speedup_uniform) = (most(Arrival::Local), most(Arrival::Uniform));
    Ok(ShardsReport {
        bench: "pipeline",
        machine: crate::Machine::read(),
        cpus,
        speedup: speedup.unwrap_or(f64::NAN),
        speedup_uniform,
        shards,
    })
}

fn run_count(count: usize, options: &PipelineOptions, cpus: &[usize]) -> Result<Vec<ShardsCase>> {
    let mut alone = runs(BASE, 1, None, CS_PACKETS, clock::now)?;
    let mut independent = runs(BASE, count, None, CS_PACKETS, clock::now)?;
    let shared = (count > 1).then(|| SharedTables::new(count, 2));
    let mut together = runs(BASE, count, shared, CS_PACKETS, clock::now)?;
    let mut workers =
        if count > 1 { uniform::workers(count, CS_PACKETS, clock::now)? } else { Vec::new() };
    let [mut one, mut apart, mut joined, mut crossing] = [const { Vec::new() }; 4];
    for round in 0..=options.pairs {
        // The three kinds alternate, so that activity of the host affects all of them.
        let rates = [&mut alone, &mut independent, &mut together]
            .map(|runs| stretch(runs, options.stretch, cpus));
        let [of_one, of_apart, of_joined] = rates;
        let of_crossing = uniform::stretch(&mut workers, options.stretch, cpus)?;
        // The first round fills the Content Stores.
        if round > 0 {
            one.push(of_one?);
            apart.push(of_apart?);
            joined.push(of_joined?);
            crossing.push(of_crossing);
        }
    }
    // Median of the ratios per round instead of ratio of the medians: the machine's speed varies.
    let of = |rates: &[f64], others: &[f64]| {
        crate::median(rates.iter().zip(others).map(|(rate, other)| rate / other))
    };
    let apart_rate = crate::median(apart.iter().copied());
    let rigs = together.iter().chain(&independent).map(|run| &run.rig);
    for rig in rigs.chain(workers.iter().map(|worker| &worker.rig)) {
        let counters = &rig.counters;
        ensure!(counters.cs_hits.value() == 0, "names repeat too soon");
        ensure!(counters.cs_evictions.value() > 0, "nothing was evicted");
        ensure!(counters.dropped_total() == 0, "packets were dropped");
    }
    #[expect(clippy::cast_precision_loss, reason = "a handful of shards")]
    let count_f64 = count as f64;
    let case = |arrival, rates: &[f64]| {
        let rate = crate::median(rates.iter().copied());
        ShardsCase {
            shards: count,
            arrival,
            ns_per_exchange: 1e9 * count_f64 / rate,
            exchanges_per_second: rate,
            independent_per_second: apart_rate,
            speedup: of(rates, &one),
            of_independent: of(rates, &apart),
        }
    };
    let uniform = (count > 1).then(|| case(Arrival::Uniform, &crossing));
    Ok(std::iter::once(case(Arrival::Local, &joined)).chain(uniform).collect())
}

/// Runs this number of exchanges, divided among the shards, on this thread: for tools that count instructions. The
/// work of the shards is inside `process` of `Rig` or of `uniform::Worker`.
///
/// # Errors
/// Memory is short, or a shard did not do its work.
pub fn run_in_turn(count: usize, names: NameOrder, arrival: Arrival, exchanges: u64) -> Result<()> {
    let cs_packets = CS_PACKETS_IN_TURN / u32::try_from(count)?;
    let exchanges = exchanges / count as u64;
    if arrival == Arrival::Uniform {
        ensure!(names == NameOrder::Random, "the Nonce of a packet that crosses is its number");
        let mut workers = uniform::workers(count, cs_packets, virtual_clock)?;
        return uniform::stretch_in_turn(&mut workers, exchanges);
    }
    let shared = (count > 1).then(|| SharedTables::new(count, 2));
    for run in &mut runs(with_order(names), count, shared, cs_packets, virtual_clock)? {
        run.outstanding = OUTSTANDING_IN_TURN / count;
        run.stretch(exchanges)?;
    }
    Ok(())
}

/// Runs this number of exchanges with a replacement policy, for tools that count instructions: Interests that are satisfied
/// from the Content Store, or Interests for new names whose Data evict others.
///
/// # Errors
/// Memory is short, or the shard did not do its work.
pub fn run_policy_in_turn(policy: PolicyKind, are_hits: bool, exchanges: u64) -> Result<()> {
    let mut run = of_policy(policy, are_hits).start_with(virtual_clock)?;
    if are_hits {
        run.fill()?;
    } else {
        run.warm()?;
    }
    run.stretch(exchanges)?;
    Ok(())
}

/// A clock that advances by 10 µs at each reading: each run executes the same instructions.
fn virtual_clock() -> u64 {
    static NOW: AtomicU64 = AtomicU64::new(1_000_000_000);
    NOW.fetch_add(10_000, Ordering::Relaxed)
}

/// A shard and the names requested from it.
struct Run {
    rig: Rig,
    /// Number of pending Interests.
    outstanding: usize,
    next_interest: u64,
    next_data: u64,
}

fn runs(
    base: RigConfig,
    count: usize,
    shared: Option<SharedTables>,
    cs_packets: u32,
    clock: fn() -> u64,
) -> Result<Vec<Run>> {
    (0..count)
        .map(|number| {
            let shard = if shared.is_some() { u8::try_from(number)? } else { 0 };
            let config = RigConfig { cs_packets, shard, ..base };
            let prefix_length = config.shape.name(0).len();
            let mut rig = Rig::new(config, prefix_length, clock())?;
            rig.clock = clock;
            if let Some(shared) = &shared {
                rig.join_others(shared);
            }
            Ok(Run { rig, outstanding: OUTSTANDING, next_interest: 0, next_data: 0 })
        })
        .collect()
}

/// Runs this number of exchanges in each shard concurrently; returns the sum of the exchanges per second.
fn stretch(runs: &mut [Run], exchanges: u64, cpus: &[usize]) -> Result<f64> {
    let rates: Vec<Result<f64>> = std::thread::scope(|scope| {
        let threads: Vec<_> = runs
            .iter_mut()
            .zip(cpus)
            .map(|(run, &cpu)| {
                scope.spawn(move || {
                    ndn_sys::cpu::pin_thread(cpu)?;
                    run.stretch(exchanges)
                })
            })
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Result<f64>>| {
            thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a shard has panicked")))
        };
        threads.into_iter().map(join).collect()
    });
    rates.into_iter().sum()
}

impl Run {
    /// Runs this number of exchanges; returns exchanges per second of forwarding.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    fn stretch(&mut self, exchanges: u64) -> Result<f64> {
        let (mut nanos, mut done) = (0, 0);
        while done < exchanges {
            for _ in 0..EXCHANGES_PER_BURST {
                self.next_interest = self.next_owned(self.next_interest);
                self.rig.receive_interest(self.next_interest)?;
                self.next_interest += 1;
            }
            if self.rig.outstanding() >= self.outstanding {
                self.answer()?;
            }
            nanos += self.rig.process()?;
            done += EXCHANGES_PER_BURST as u64;
        }
        // No Interest may expire during the turns of the others.
        while self.rig.outstanding() > 0 {
            self.answer()?;
            nanos += self.rig.process()?;
        }
        Ok(done as f64 * 1e9 / nanos as f64)
    }

    /// Receives the Data for the oldest pending Interests.
    fn answer(&mut self) -> Result<()> {
        for _ in 0..EXCHANGES_PER_BURST.min(self.rig.outstanding()) {
            self.next_data = self.next_owned(self.next_data);
            self.rig.receive_data(self.next_data)?;
            self.next_data += 1;
        }
        Ok(())
    }

    /// Returns the next name from `sequence` on that belongs to the shard.
    fn next_owned(&self, sequence: u64) -> u64 {
        (sequence..).find(|&sequence| self.rig.owns(sequence)).unwrap_or(sequence)
    }
}
