//! `bench pipeline --shards`: several shards side by side, each on a processor of its own.
//!
//! First with packets that arrive where they belong, so that nothing crosses: are shards that know of
//! each other, dispatch every packet and share the dispatch table and the list of wide Interests slower
//! than shards that are alone? Then with packets that arrive anywhere ([`crew`]).

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, ensure};
use ndn_forwarding::SharedTables;
use ndn_sys::clock;
use serde::Serialize;

use super::PipelineOptions;
use super::case::BASE;
use super::crew;
use super::rig::{Rig, RigConfig};

/// Interests that wait for Data at any time.
const OUTSTANDING: usize = 8_192;
/// Interests, and as many Data, in one burst.
const EXCHANGES_PER_BURST: usize = 32;
/// Packets in each Content Store: memory for several of them.
const CS_PACKETS: u32 = 100_000;
/// Packets in all Content Stores together where every instruction is counted, and Interests that wait:
/// shared out, so that each number of shards has as many Data below each prefix. Few, so that they
/// evict soon.
const CS_PACKETS_IN_TURN: u32 = 16_000;
const OUTSTANDING_IN_TURN: usize = 4_096;

/// Where packets arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrival {
    /// At the worker whose shard they belong to: nothing crosses.
    Local,
    /// At all workers alike: of two, half of what arrives and half of what leaves crosses a ring.
    Uniform,
}

/// One number of shards.
#[derive(Debug, Clone, Serialize)]
pub struct ShardsCase {
    /// Shards, one on each processor.
    pub shards: usize,
    /// Where their packets arrive.
    pub arrival: Arrival,
    /// Median time of one exchange in one of them.
    pub ns_per_exchange: f64,
    /// All together.
    pub exchanges_per_second: f64,
    /// As many shards that know nothing of each other, all together.
    pub independent_per_second: f64,
    /// Over one shard that is alone, median over rounds.
    pub speedup: f64,
    /// Over as many shards that know nothing of each other, median over rounds.
    pub of_independent: f64,
}

/// What `--shards` found.
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
    /// That of the largest number of shards, with local arrivals.
    pub speedup: f64,
    /// The same with uniform arrivals; none of a single shard.
    pub speedup_uniform: Option<f64>,
}

/// Runs the bench for each of `counts`; `progress` gets a line now and then.
///
/// # Errors
/// When there is not enough memory or there are not enough processors, or a shard did not do what
/// it should.
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
    let mut alone = runs(1, None, CS_PACKETS, clock::now)?;
    let mut independent = runs(count, None, CS_PACKETS, clock::now)?;
    let shared = (count > 1).then(|| SharedTables::new(count, 2));
    let mut together = runs(count, shared, CS_PACKETS, clock::now)?;
    let mut crew = if count > 1 { crew::crew(count, CS_PACKETS, clock::now)? } else { Vec::new() };
    let [mut one, mut apart, mut joined, mut crossing] = [const { Vec::new() }; 4];
    for round in 0..=options.pairs {
        // In turn, so that what the host does meets all three alike.
        let rates = [&mut alone, &mut independent, &mut together]
            .map(|runs| stretch(runs, options.stretch, cpus));
        let [of_one, of_apart, of_joined] = rates;
        let of_crossing = crew::stretch(&mut crew, options.stretch, cpus)?;
        // The first round fills the Content Stores.
        if round > 0 {
            one.push(of_one?);
            apart.push(of_apart?);
            joined.push(of_joined?);
            crossing.push(of_crossing);
        }
    }
    // Of the ratios in each round, not the ratio of the medians: the machine's speed changes.
    let of = |rates: &[f64], others: &[f64]| {
        crate::median(rates.iter().zip(others).map(|(rate, other)| rate / other))
    };
    let apart_rate = crate::median(apart.iter().copied());
    let rigs = together.iter().chain(&independent).map(|run| &run.rig);
    for rig in rigs.chain(crew.iter().map(|member| &member.rig)) {
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

/// So many exchanges, shared out to so many shards, all driven from this thread: for tools that count
/// instructions. Of those, what is inside of `process` of `Rig` or of `crew::Member` is the work of
/// the shards.
///
/// # Errors
/// When there is not enough memory, or a shard did not do what it should.
pub fn run_in_turn(count: usize, arrival: Arrival, exchanges: u64) -> Result<()> {
    let cs_packets = CS_PACKETS_IN_TURN / u32::try_from(count)?;
    let exchanges = exchanges / count as u64;
    if arrival == Arrival::Uniform {
        let mut crew = crew::crew(count, cs_packets, virtual_clock)?;
        return crew::stretch_in_turn(&mut crew, exchanges);
    }
    let shared = (count > 1).then(|| SharedTables::new(count, 2));
    for run in &mut runs(count, shared, cs_packets, virtual_clock)? {
        run.outstanding = OUTSTANDING_IN_TURN / count;
        run.stretch(exchanges)?;
    }
    Ok(())
}

/// A clock that goes on by 10 µs whenever somebody looks: the same instructions in each run.
fn virtual_clock() -> u64 {
    static NOW: AtomicU64 = AtomicU64::new(1_000_000_000);
    NOW.fetch_add(10_000, Ordering::Relaxed)
}

/// A shard and the names that it is asked for.
struct Run {
    rig: Rig,
    /// Interests that wait for Data at any time.
    outstanding: usize,
    next_interest: u64,
    next_data: u64,
}

fn runs(
    count: usize,
    shared: Option<SharedTables>,
    cs_packets: u32,
    clock: fn() -> u64,
) -> Result<Vec<Run>> {
    (0..count)
        .map(|number| {
            let shard = if shared.is_some() { u8::try_from(number)? } else { 0 };
            let config = RigConfig { cs_packets, shard, ..BASE };
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

/// So many exchanges in each shard, all at once; exchanges per second of all together.
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
    /// So many exchanges; how many in a second of forwarding.
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
        // No Interest is to expire while the others take their turn.
        while self.rig.outstanding() > 0 {
            self.answer()?;
            nanos += self.rig.process()?;
        }
        Ok(done as f64 * 1e9 / nanos as f64)
    }

    /// Receives the Data for the Interests that have waited longest.
    fn answer(&mut self) -> Result<()> {
        for _ in 0..EXCHANGES_PER_BURST.min(self.rig.outstanding()) {
            self.next_data = self.next_owned(self.next_data);
            self.rig.receive_data(self.next_data)?;
            self.next_data += 1;
        }
        Ok(())
    }

    /// The next name from `sequence` on that belongs to the shard.
    fn next_owned(&self, sequence: u64) -> u64 {
        (sequence..).find(|&sequence| self.rig.owns(sequence)).unwrap_or(sequence)
    }
}
