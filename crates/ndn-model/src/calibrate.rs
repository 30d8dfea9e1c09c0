//! From measured runs of the real forwarder to a model of it.
//!
//! Each run of a campaign has a [`Setting`] and shows how much processor time the workers used for how many
//! Interests. Processor time, unlike elapsed time, does not count what other programs of the machine take.
//! A linear model of the time per Interest in the number of sleeps, name components, payload, hits, FIB size and
//! crossings between workers gives the means; histograms of service times give the shape of their distribution and
//! how the means divide between the stages. Pauses of the host are a process of their own ([`pauses`](crate::pauses)): times as
//! long are not in the distribution, and what pauses take of processor time is not in the means. The uncertainty is that
//! of a bootstrap over whole runs: packets of one run share caches and disturbances, runs in random order do not.

use core::fmt::Write as _;

use libm::{log, log2, pow, sqrt};
use serde::{Deserialize, Serialize};

use crate::assembly::Placement;
use crate::distribution::{Distribution, QuantileTable, to_ps};
use crate::fast::FastEngine;
use crate::file::{FileError, Model, law};
use crate::network::{Network, Outcome, Record};
use crate::pauses::{LATENCY_DELAYED_MAX, PAUSE_MIN_NS, PauseProcess, Watch};
use crate::random::{Draw, StreamId, TraceRandom};
use crate::special::{normal_quantile, student_t_quantile};

/// The equipment and procedure that the runs of a campaign have in common.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rig {
    /// Packets of the queue of a face.
    pub queue: usize,
    /// Processors of the machine.
    pub processors: usize,
    /// Time between two turns of the thread that sends, answers and receives, in nanoseconds; 0 if it has none.
    pub turn_ns: u64,
    /// Seconds before each window.
    pub warm_up: f64,
}

/// The factors that vary between runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// Workers of the forwarder.
    pub workers: usize,
    /// Components of each name.
    pub components: usize,
    /// Bytes of content of each Data.
    pub payload: usize,
    /// Share of the Interests that the Content Store answers.
    pub hit_ratio: f64,
    /// Entries of the FIB.
    pub routes: usize,
    /// Interests per second.
    pub rate: f64,
    /// On which NUMA nodes faces and workers are.
    #[serde(default)]
    pub placement: Placement,
}

impl Setting {
    /// The share of the faces whose packets are in remote memory for the workers.
    fn remote_share(&self) -> f64 {
        self.placement.is_remote().iter().filter(|is_remote| **is_remote).count() as f64 / 2.0
    }
}

/// Durations in buckets, in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    /// Number of durations.
    pub count: u64,
    /// Their sum.
    pub sum_ns: u64,
    /// Lower bound, upper bound and count of buckets that are not empty, in order.
    pub buckets: Vec<(u64, u64, u64)>,
}

/// Service times of a run, from `trace latency`: dispatch and forwarding of Interests, then of Data.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceTimes {
    /// Parsing, hashing and dispatching an Interest.
    pub interest_dispatch: Histogram,
    /// Forwarding an Interest.
    pub interest_forwarding: Histogram,
    /// Parsing, hashing and dispatching a Data.
    pub data_dispatch: Histogram,
    /// Forwarding a Data.
    pub data_forwarding: Histogram,
    /// Packets, bursts and time of measured bursts by their size.
    pub forwarding_by_burst_size: Vec<(u64, u64, u64)>,
}

/// The host during a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Processor time of a step of a reference load on the processors of the workers, before and after the run, in
    /// nanoseconds; 0 if not measured.
    pub reference_ns: [f64; 2],
    /// Share of the time that the host of a virtual machine took from these processors.
    pub stolen: f64,
    /// Involuntary context switches of the workers.
    pub preemptions: u64,
    /// Mean time in which the generator reads how far workers on other processors have come: that of a cache line from one
    /// processor to the other one, which depends on where the host runs them. 0 if not measured.
    #[serde(default)]
    pub transfer_ns: f64,
    /// The same in the slowest part of the run over that in the fastest one, less 1.
    #[serde(default)]
    pub transfer_change: f64,
}

impl Host {
    /// The mean time of a step of the reference load; 0 if not measured.
    #[must_use]
    pub fn reference_ns(&self) -> f64 {
        sqrt(self.reference_ns[0] * self.reference_ns[1])
    }
}

/// Packets in a queue, by samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueLength {
    /// Number of samples.
    pub samples: u64,
    /// Their sum.
    pub sum: u64,
    /// The longest; of the whole run, where the forwarder keeps it.
    pub most: u64,
}

impl QueueLength {
    /// Adds a sample.
    pub fn note(&mut self, length: u64) {
        self.samples += 1;
        self.sum += length;
        self.most = self.most.max(length);
    }

    /// The mean; 0 without samples.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.samples.max(1) as f64
    }
}

/// Lengths of the queues of a forwarder in a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueLengths {
    /// Queues of faces of consumers, as a turn of the generator finds them.
    pub interests: QueueLength,
    /// Queues of faces of producers, likewise.
    pub data: QueueLength,
    /// Rings from other workers, of all kinds of packets, at each round of a worker.
    pub rings: QueueLength,
}

/// The shortest stall: a worker may forward a burst for 0.2 ms before it takes another one.
pub const STALL_MIN_NS: u64 = 500_000;

/// Times of at least [`STALL_MIN_NS`] in which a thread did nothing although there was something to do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stalls {
    /// Their number.
    pub count: u64,
    /// Their sum.
    pub total_ns: u64,
    /// The longest.
    pub longest_ns: u64,
}

impl Stalls {
    /// Adds a time, if it is long enough.
    pub fn note(&mut self, ns: u64) {
        if ns >= STALL_MIN_NS {
            self.count += 1;
            self.total_ns += ns;
            self.longest_ns = self.longest_ns.max(ns);
        }
    }
}

/// Measurements of one run of the real forwarder between warm-up and cool-down.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Number in the design.
    pub number: usize,
    /// The factors of this run.
    pub setting: Setting,
    /// Tries that were discarded because the host disturbed the forwarder.
    pub discarded: usize,
    /// Those of them that were slower than the reference load allows, or changed; not those in which a worker waited.
    #[serde(default)]
    pub discarded_slow: usize,
    /// The host during the run.
    #[serde(default)]
    pub host: Host,
    /// Pauses of the processors of workers and generator, before and after the run.
    #[serde(default)]
    pub pauses: Vec<Watch>,
    /// Length of the window.
    pub seconds: f64,
    /// Interests sent.
    pub sent: u64,
    /// Interests satisfied.
    pub satisfied: u64,
    /// Interests and Data that found the forwarder's queue full.
    pub refused: u64,
    /// Interests that entered shards.
    pub interests: u64,
    /// Those that the Content Store answered.
    pub hits: u64,
    /// Bursts given to shards.
    pub bursts: u64,
    /// Times that a worker slept because there were no packets.
    pub sleeps: u64,
    /// Processor time of each worker.
    pub cpu_ns: Vec<u64>,
    /// Time that each worker could not run because others did. It is counted from a little before the window on, so as a share of
    /// the window it is some percent too large.
    pub delayed_ns: Vec<u64>,
    /// Processor time of the thread that sends, answers and receives.
    pub generator_cpu_ns: u64,
    /// Time that this thread could not run because others did.
    #[serde(default)]
    pub generator_delayed_ns: u64,
    /// Times in which no worker took a packet from a face although some waited there.
    #[serde(default)]
    pub worker_stalls: Stalls,
    /// Times between two turns of the generator.
    #[serde(default)]
    pub generator_stalls: Stalls,
    /// PIT entries at the end.
    pub pit_entries: u64,
    /// Lengths of queues in the window.
    #[serde(default)]
    pub queues: QueueLengths,
    /// Latency of satisfied Interests at p50, p90 and p99, from the scheduled sending time.
    pub latency_ns: [u64; 3],
    /// Service times, where they were traced.
    pub services: Option<ServiceTimes>,
}

impl Run {
    /// Share of the Interests that was not satisfied for lack of room.
    #[must_use]
    pub fn unsatisfied(&self) -> f64 {
        self.refused as f64 / self.sent.max(1) as f64
    }

    /// Processor time of the workers per Interest that they took, in nanoseconds.
    fn cost_ns(&self) -> f64 {
        self.cpu_ns.iter().sum::<u64>() as f64 / self.interests.max(1) as f64
    }

    fn measured_hit_ratio(&self) -> f64 {
        self.hits as f64 / self.interests.max(1) as f64
    }

    fn sleeps_per_interest(&self) -> f64 {
        self.sleeps as f64 / self.interests.max(1) as f64
    }

    /// Interests sent per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.sent as f64 / self.seconds
    }

    /// Longest time that a worker or the generator could not run because others did, as a share of the window. Of a worker that
    /// shares its processor with the generator it is not counted.
    #[must_use]
    pub fn delayed(&self, processors: usize) -> f64 {
        let is_alone = self.setting.workers < processors;
        let workers = self.delayed_ns.len().saturating_sub(usize::from(!is_alone));
        let generator_ns = if is_alone { self.generator_delayed_ns } else { 0 };
        let longest_ns = self.delayed_ns[..workers].iter().copied().fold(generator_ns, u64::max);
        longest_ns as f64 / (self.seconds * 1e9)
    }
}

/// Why a campaign gives no calibration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CalibrateError {
    /// Too few runs for the number of effects.
    TooFewRuns {
        /// Usable runs.
        runs: usize,
        /// Runs needed at least.
        needed: usize,
    },
    /// No run has service times.
    NotTraced,
    /// The runs do not tell the effects apart, or a cost is not positive.
    Undetermined(String),
}

impl core::fmt::Display for CalibrateError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::TooFewRuns { runs, needed } => {
                write!(f, "the campaign has {runs} usable runs, a calibration needs {needed}")
            }
            Self::NotTraced => f.write_str("no run of the campaign has service times"),
            Self::Undetermined(reason) => f.write_str(reason),
        }
    }
}

impl core::error::Error for CalibrateError {}

/// Effects on the processor time per Interest, in nanoseconds.
pub const EFFECTS: [&str; EFFECT_COUNT] = [
    "sleep",
    "miss",
    "miss-per-component",
    "miss-per-1000-bytes",
    "hit",
    "hit-per-component",
    "hit-per-1000-bytes",
    "crossing",
    "per-doubling-of-routes",
    "probe",
    "remote",
];
const EFFECT_COUNT: usize = 11;
const SLEEP: usize = 0;
const PROBE: usize = 9;
const REMOTE: usize = 10;
/// First column of the influence of transfers, which is estimated with the effects.
const TRANSFER: usize = EFFECT_COUNT;
const COLUMNS: usize = EFFECT_COUNT + 2;
/// Transfers that vary less tell nothing of their effect.
const TRANSFER_VARIES: f64 = 0.05;
/// Runs that others delayed for more than this show no times of service; those delayed for more than [`LATENCY_DELAYED_MAX`] show
/// no latency.
const COST_DELAYED_MAX: f64 = 0.05;
/// Name components and routes at which an effect of them is zero.
const COMPONENTS_AT_ZERO: f64 = 7.0;
const ROUTES_AT_ZERO: f64 = 64.0;
const BOOTSTRAP_REPLICATES: u32 = 200;
/// Runs that are simulated with each law of pauses to predict a capacity, and traces of a prediction for longer.
const RUNS_OF_LAW: u32 = 3;
const TRACES_OF_CAPACITY: u32 = 8;
const CELLS: usize = 64;
const TAIL: f64 = 0.01;
const NS: f64 = 1e3;
/// The shortest time of a stage, in nanoseconds.
const NS_MIN: f64 = 0.001;
/// Longest effect on the time of an Interest, in nanoseconds.
const EFFECT_MAX_NS: f64 = 1e9;
/// Largest deviation from 1 of the sum of the shares, which are rounded in files, and of the mean of a shape.
const DEVIATION_MAX: f64 = 0.01;
/// The largest part of a worker's processor that the generator takes, which has priority.
const GENERATOR_MOST: f64 = 0.95;
/// Runs with more load than they can satisfy that make a correction, and the share that they lose at least, by the model.
const OVERLOADED_MIN: usize = 4;
const OVERLOADED_LOSS: f64 = 0.1;
/// Runs that the time to wake up is estimated from, at most, and the longest one.
const CALM_RUNS: usize = 8;
const WAKE_UP_MAX_NS: f64 = 100e3;

type Effects = [f64; COLUMNS];

/// `transfer_ns`: by how much a transfer is longer than usual.
fn regressors(
    setting: &Setting,
    hit_ratio: f64,
    sleeps: f64,
    is_traced: bool,
    transfer_ns: f64,
) -> Effects {
    let crossings = f64::from(u8::from(setting.workers > 1));
    // Frames relative to a miss, which has four; a hit has two.
    let frames = 0.5 * (2.0 - hit_ratio);
    let components = setting.components as f64 - COMPONENTS_AT_ZERO;
    let bytes = setting.payload as f64 / 1000.0;
    let miss = 1.0 - hit_ratio;
    [
        sleeps,
        miss,
        miss * components,
        miss * bytes,
        hit_ratio,
        hit_ratio * components,
        hit_ratio * bytes,
        crossings,
        log2(setting.routes.max(1) as f64 / ROUTES_AT_ZERO),
        f64::from(u8::from(is_traced)),
        setting.remote_share(),
        frames * transfer_ns * (1.0 - crossings),
        frames * transfer_ns * crossings,
    ]
}

/// Ranges of what was measured: outside, a prediction extrapolates.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ranges {
    /// Workers.
    pub workers: (usize, usize),
    /// Name components.
    pub components: (usize, usize),
    /// Bytes of content.
    pub payload: (usize, usize),
    /// Content Store hits.
    pub hit_ratio: (f64, f64),
    /// FIB entries.
    pub routes: (usize, usize),
}

/// The parameters of the forwarder on one machine, estimated from measured runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Calibration {
    /// Runs that were used.
    pub runs: usize,
    /// Tries that were discarded because the host disturbed the forwarder.
    pub discarded: usize,
    /// Time of a step of the reference load on the machine as it is calibrated; 0 if not measured.
    pub reference_ns: f64,
    /// If the reference load takes x times as long, the forwarder takes x to the power of this.
    pub slowdown_exponent: f64,
    /// Transfers between processors, with one worker and with several.
    #[serde(default)]
    pub transfers: [Transfer; 2],
    /// Nanoseconds of each of [`EFFECTS`]; zero where the campaign does not vary it.
    pub effects: Vec<f64>,
    /// Relative standard deviation of a run around the linear model.
    pub residual: f64,
    /// Effects of bootstrap replicates over runs.
    pub replicates: Vec<Vec<f64>>,
    /// Shares of the time of a miss: dispatch and forwarding of Interests, of Data, and the rest (system calls).
    pub shares: [f64; 5],
    /// Quantiles of the forwarding time of an Interest and of a Data over its mean, and the mean excess of the tail.
    pub shapes: [Shape; 2],
    /// Processor time of the generator: per second, per Interest sent, per Interest satisfied, in nanoseconds.
    pub generator: [f64; 3],
    /// Nanoseconds of the generator per Interest for each by which a transfer is longer than usual.
    #[serde(default)]
    pub generator_transfer: f64,
    /// Latency outside of the forwarder at p50 and p99, in nanoseconds.
    pub latency_ns: [f64; 2],
    /// Pauses of processors; none if there were none, or they were not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pauses: Option<PauseProcess>,
    /// Share of the measured time in service times that are as long as pauses, of runs in which no worker shares its processor
    /// with the generator; compared with the share of pauses.
    #[serde(default)]
    pub pauses_in_services: f64,
    /// Corrections of throughput, where the generator has a processor alone and where it shares that of a worker.
    #[serde(default)]
    pub throughput: [Throughput; 2],
    /// Time between two turns of the generator; 0 if it has none.
    #[serde(default)]
    pub turn_ns: u64,
    /// Time from the arrival of packets until a worker that sleeps takes them.
    #[serde(default)]
    pub wake_up_ns: f64,
    /// Corrections of latencies, by load.
    pub discrepancies: Vec<Discrepancy>,
    /// Standard deviation of the logarithm of p99 around its prediction, each run predicted by the others.
    pub latency_residual: f64,
    /// Packets of the queue of a face.
    pub queue: usize,
    /// Processors of the machine; [`usize::MAX`] if consumers and producers are on others.
    pub processors: usize,
    /// The ranges of the factors that were measured.
    pub ranges: Ranges,
}

/// Transfers between processors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Transfer {
    /// The usual time; 0 if it was not measured, or hardly varies.
    pub usual_ns: f64,
    /// Standard deviation between runs.
    pub deviation_ns: f64,
    /// Nanoseconds of an Interest and its Data for each by which a transfer is longer than usual.
    pub effect: f64,
}

impl Transfer {
    /// Of those of these runs that have the time, without the effect.
    fn of<'r>(runs: impl Iterator<Item = &'r Run>) -> Self {
        let all: Vec<f64> = runs.map(|run| run.host.transfer_ns).filter(|ns| *ns > 0.0).collect();
        if all.is_empty() {
            return Self::default();
        }
        let usual_ns = median(all.clone());
        let squares: f64 = all.iter().map(|ns| (ns - usual_ns) * (ns - usual_ns)).sum();
        let deviation_ns = sqrt(squares / all.len().max(1) as f64);
        let varies = deviation_ns >= TRANSFER_VARIES * usual_ns;
        if varies { Self { usual_ns, deviation_ns, effect: 0.0 } } else { Self::default() }
    }

    /// Those of the runs with one worker, and with several.
    fn of_all(runs: &[&Run]) -> [Self; 2] {
        [false, true].map(|several| {
            Self::of(runs.iter().copied().filter(|run| (run.setting.workers > 1) == several))
        })
    }
}

/// Nanoseconds by which a transfer is longer than usual; 0 if either is not known.
fn excess_ns(run: &Run, transfers: &[Transfer; 2]) -> f64 {
    let usual_ns = transfers[usize::from(run.setting.workers > 1)].usual_ns;
    let own_ns = run.host.transfer_ns;
    if own_ns > 0.0 && usual_ns > 0.0 { own_ns - usual_ns } else { 0.0 }
}

/// A file of `namewire model calibrate`; its other keys state the origin of the calibration.
#[derive(Deserialize)]
struct CalibrationFile {
    calibration: Calibration,
}

/// Answers of runs with more load than they can satisfy over those of the model.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// Runs that were compared.
    pub runs: usize,
    /// Their median ratio; 1 of too few runs.
    pub factor: f64,
    /// Standard deviation of the logarithm of a run around it; 0 of too few runs.
    pub deviation: f64,
}

impl Default for Throughput {
    fn default() -> Self {
        Self { runs: 0, factor: 1.0, deviation: 0.0 }
    }
}

impl Throughput {
    /// Of the logarithms of the ratios.
    fn of(logs: &[f64]) -> Self {
        if logs.len() < OVERLOADED_MIN {
            return Self { runs: logs.len(), ..Self::default() };
        }
        let middle = median(logs.to_vec());
        let squares: f64 = logs.iter().map(|log| (log - middle) * (log - middle)).sum();
        let deviation = sqrt(squares / (logs.len() - 1) as f64);
        Self { runs: logs.len(), factor: libm::exp(middle), deviation }
    }

    /// Standard deviation of a normal variable whose interval with probability `confidence` is as wide as that of a further
    /// run: Student's, as the deviation and the middle come from few runs.
    fn deviation_at(&self, confidence: f64) -> f64 {
        if self.runs < OVERLOADED_MIN {
            return self.deviation;
        }
        // Both quantiles are 0 in the middle, and infinite at the end.
        let level = (0.5 + 0.5 * confidence).clamp(0.6, 1.0 - 1e-9);
        let runs = self.runs as f64;
        let quantiles = student_t_quantile(level, runs - 1.0) / normal_quantile(level);
        quantiles * sqrt(1.0 + 1.0 / runs) * self.deviation
    }
}

/// Measured latencies of a run over those of the model at the same rate: threads that are woken, turns of the generator.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Discrepancy {
    /// Whether the generator ran on the processor of a worker.
    pub is_shared: bool,
    /// Rate over the rate at which the workers are always busy.
    pub load: f64,
    /// Ratio at p50 and p99.
    pub ratio: [f64; 2],
}

/// Factors on the times of a calibration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speed {
    /// On those of the forwarder.
    pub forwarder: f64,
    /// On those of the generator.
    pub generator: f64,
}

impl Speed {
    /// The machine as it is calibrated.
    pub const USUAL: Self = Self { forwarder: 1.0, generator: 1.0 };
}

/// A machine is not regarded as faster than this: transfers take a part of the time only.
const FASTEST: f64 = 0.2;

/// Mean times of the stages of a worker, in nanoseconds. `miss` is that of all stages for an Interest and its Data.
struct Stages {
    miss: f64,
    input_interest: f64,
    forward_interest: f64,
    input_data: f64,
    forward_data: f64,
    forward_hit: f64,
    output: f64,
}

/// The time of a worker for a packet, from the input to the output.
#[derive(Debug, Clone, PartialEq)]
pub struct PacketTime {
    /// Picoseconds of input and output.
    handling: f64,
    forwarding: Distribution,
}

impl PacketTime {
    /// One variate, in picoseconds.
    #[must_use]
    pub fn sample_ps(&self, draw: &mut Draw) -> u64 {
        to_ps(self.handling + self.forwarding.sample(draw))
    }

    /// The mean, in nanoseconds.
    #[cfg(test)]
    fn mean_ns(&self) -> f64 {
        (self.handling + self.forwarding.mean()) / NS
    }
}

/// The times of a worker for packets by their kind.
#[derive(Debug, Clone, PartialEq)]
pub struct PacketTimes {
    /// An Interest that the Content Store does not answer.
    pub interest: PacketTime,
    /// A Data.
    pub data: PacketTime,
    /// An Interest that the Content Store answers.
    pub hit: PacketTime,
    /// Nanoseconds that a worker takes in addition when it waited in the kernel before.
    pub sleep_ns: f64,
}

/// A distribution with mean 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Shape {
    /// Quantiles at equal steps up to the tail.
    pub quantiles: Vec<f64>,
    /// Mean excess in the tail.
    pub tail_mean: f64,
}

impl Calibration {
    /// Calibrates from the runs of a campaign.
    ///
    /// # Errors
    /// Too few runs, none with service times, or runs that do not tell the effects apart.
    pub fn of(runs: &[Run], rig: &Rig) -> Result<Self, CalibrateError> {
        // Counters that were read late can show no work.
        let is_usable =
            |run: &&Run| run.cost_ns() > 0.0 && run.delayed(rig.processors) <= COST_DELAYED_MAX;
        let usable: Vec<&Run> = runs.iter().filter(is_usable).collect();
        let mut transfers = Transfer::of_all(&usable);
        let reference_ns = median(usable.iter().map(|run| run.host.reference_ns()).collect());
        let Fit { runs: timed, effects, residual, replicates, slowdown_exponent } =
            Fit::of(&show_times(&usable), &transfers, reference_ns)?;
        let (generator, generator_transfer) =
            generator(&with_shared(&usable, rig.processors), &transfers);
        for (transfer, effect) in transfers.iter_mut().zip(&effects[TRANSFER..]) {
            transfer.effect = *effect;
        }
        let mut calibration = Self {
            runs: timed,
            discarded: runs.iter().map(|run| run.discarded).sum(),
            reference_ns,
            slowdown_exponent,
            transfers,
            effects: effects[..EFFECT_COUNT].to_vec(),
            residual,
            replicates,
            shares: shares(&usable)?,
            shapes: shapes(&usable)?,
            generator,
            generator_transfer,
            latency_ns: outside_latency(&usable),
            pauses: PauseProcess::of(&usable.iter().map(|run| &run.pauses[..]).collect::<Vec<_>>()),
            pauses_in_services: pauses_in_services(&usable, rig.processors),
            throughput: [Throughput::default(); 2],
            turn_ns: rig.turn_ns,
            wake_up_ns: 0.0,
            discrepancies: Vec::new(),
            latency_residual: 0.0,
            queue: rig.queue,
            processors: rig.processors,
            ranges: Ranges::of(&usable),
        };
        calibration.take_pauses_off();
        let mut calm = usable.clone();
        calm.retain(|run| run.delayed(rig.processors) <= LATENCY_DELAYED_MAX);
        calibration.learn_wake_up(&calm);
        calibration.learn_throughput(&usable, rig.warm_up);
        calibration.learn_latencies(&calm, rig.warm_up);
        Ok(calibration)
    }

    /// Reads a file of `namewire model calibrate`.
    ///
    /// # Errors
    /// Malformed TOML, a key that is absent, or a [fault](Self::fault).
    pub fn parse(text: &str) -> Result<Self, String> {
        let file = toml::from_str::<CalibrationFile>(text);
        let calibration = file.map_err(|error| error.message().to_owned())?.calibration;
        match calibration.fault() {
            Some(fault) => Err(fault),
            None => Ok(calibration),
        }
    }

    /// The first reason why these are not parameters of a forwarder; `None` if they are.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        let is_one = |value: f64| (value - 1.0).abs() <= DEVIATION_MAX;
        let of_shape = |shape: &Shape| {
            let table = shape.table();
            let mean = "the mean is not 1";
            table.fault().or_else(|| (!is_one(table.mean())).then_some(mean))
        };
        let mut counts = core::iter::once(&self.effects).chain(&self.replicates).map(Vec::len);
        if let Some(count) = counts.find(|count| *count != EFFECT_COUNT) {
            return Some(format!("effects: {count} in place of {EFFECT_COUNT}"));
        }
        // Not those of replicates: single ones may be far off, or not a number.
        if !self.effects.iter().all(|ns| ns.abs() <= EFFECT_MAX_NS) {
            return Some("effects: one is not a time of at most a second".to_owned());
        }
        if self.shares.iter().any(|share| *share < 0.0) || !is_one(self.shares.iter().sum()) {
            return Some("shares: one is negative, or their sum is not 1".to_owned());
        }
        if let Some(fault) = self.shapes.iter().find_map(of_shape) {
            return Some(format!("shapes: {fault}"));
        }
        let is_factor = |one: &Throughput| one.factor > 0.0 && one.factor.is_finite();
        if !self.throughput.iter().all(is_factor) {
            return Some("throughput: one is not a factor".to_owned());
        }
        let is_deviation = |one: &Throughput| one.deviation >= 0.0 && one.deviation.is_finite();
        if !self.throughput.iter().all(is_deviation) {
            return Some("throughput: one has no deviation of at least 0".to_owned());
        }
        if !(0.0..=EFFECT_MAX_NS).contains(&self.wake_up_ns) {
            return Some("wake-up-ns: not a time of at most a second".to_owned());
        }
        (self.queue == 0).then(|| "queue: 0 packets".to_owned())
    }

    /// Processor time has pauses in it of which the kernel does not know.
    fn take_pauses_off(&mut self) {
        let running = 1.0 - self.pauses.as_ref().map_or(0.0, |pauses| pauses.charged);
        let effects = self.effects.iter_mut().chain(self.replicates.iter_mut().flatten());
        let transfers = self.transfers.iter_mut().map(|transfer| &mut transfer.effect);
        let transfers = transfers.chain(Some(&mut self.generator_transfer));
        effects.chain(&mut self.generator).chain(transfers).for_each(|ns| *ns *= running);
    }

    /// The same for a machine without pauses.
    #[must_use]
    pub fn without_pauses(self) -> Self {
        Self { pauses: None, ..self }
    }

    /// The same where consumers and producers are on other machines, and every worker has a processor.
    #[must_use]
    pub fn without_generator(self) -> Self {
        Self { processors: usize::MAX, generator: [0.0; 3], turn_ns: 0, ..self }
    }

    /// The same with the pauses of a bootstrap replicate.
    fn with_law(&self, replicate: u32) -> Self {
        let mut own = self.clone();
        if let Some(pauses) = &mut own.pauses
            && let Some(law) = pauses.replicates.get(replicate as usize)
        {
            pauses.law = law.clone();
        }
        own
    }

    /// The setting of a run with its rate and hits as measured, and its prediction without a part that comes from itself.
    fn predict_run(&self, run: &Run, times: (f64, f64)) -> Option<(Setting, f64, Prediction)> {
        let setting =
            Setting { rate: run.rate(), hit_ratio: run.measured_hit_ratio(), ..run.setting };
        let speed = self.speed(run);
        let traces = if self.pauses.is_some() { RUNS_OF_LAW } else { 1 };
        let prediction = self.predict(&setting, speed, times, traces).ok()?;
        Some((setting, self.load(&setting, speed), prediction))
    }

    /// Estimates the time that a worker takes to wake up: with it, the latencies of the runs with the least load are nearest to
    /// those of the model. Because of the turns, a range of times can have the same latencies: then it is the shortest.
    fn learn_wake_up(&mut self, runs: &[&Run]) {
        const STEPS: u32 = 20;
        const TIMES: (f64, f64) = (0.02, 0.1);
        if self.turn_ns == 0 {
            return;
        }
        let mut calm = calm(runs);
        calm.truncate(CALM_RUNS);
        let mut best = (f64::INFINITY, 0.0);
        for step in 0..=STEPS {
            self.wake_up_ns = f64::from(step) * WAKE_UP_MAX_NS / f64::from(STEPS);
            let errors = calm.iter().filter_map(|run| {
                let (_, _, predicted) = self.predict_run(run, TIMES)?;
                let error =
                    |level: usize, ns: u64| log(ns as f64 / predicted.latency_ns[level]).abs();
                Some(error(0, run.latency_ns[0]) + error(1, run.latency_ns[2]))
            });
            let error = median(errors.collect());
            if error < best.0 {
                best = (error, self.wake_up_ns);
            }
        }
        self.wake_up_ns = best.1;
    }

    /// Compares the answers of runs with more load than they can satisfy with those of the model. What keeps a worker from its
    /// work, and is neither in its processor time nor seen by the meter of pauses, is in their ratio.
    fn learn_throughput(&mut self, runs: &[&Run], warm_up: f64) {
        let mut logs = [Vec::new(), Vec::new()];
        for run in runs {
            // Half a load is not more than a run can satisfy, with a generator on the processor of a worker neither.
            if self.load(&Setting { rate: run.rate(), ..run.setting }, Speed::USUAL) < 0.5 {
                continue;
            }
            let Some((setting, _, predicted)) = self.predict_run(run, (warm_up, run.seconds))
            else {
                continue;
            };
            let ratio = run.satisfied as f64 / run.sent.max(1) as f64 / predicted.satisfied;
            if predicted.unsatisfied > OVERLOADED_LOSS && ratio.is_normal() {
                logs[usize::from(self.is_shared(&setting))].push(log(ratio));
            }
        }
        self.throughput = logs.map(|logs| Throughput::of(&logs));
    }

    /// Compares the latencies of the runs with those of the model.
    fn learn_latencies(&mut self, runs: &[&Run], warm_up: f64) {
        let mut all = Vec::new();
        for run in runs.iter().filter(|run| run.latency_ns[0] > 0) {
            let Some((setting, load, predicted)) = self.predict_run(run, (warm_up, run.seconds))
            else {
                continue;
            };
            if predicted.latency_ns[0] <= 0.0 {
                continue;
            }
            let measured = [run.latency_ns[0], run.latency_ns[2]];
            let ratio = [0, 1].map(|level| measured[level] as f64 / predicted.latency_ns[level]);
            all.push(Discrepancy { is_shared: self.is_shared(&setting), load, ratio });
        }
        self.discrepancies = all;
        self.latency_residual = half_width(self.latency_errors());
    }

    /// Logarithms of measured p99 latencies over predicted ones, each run predicted by the others.
    fn latency_errors(&self) -> Vec<f64> {
        let errors = (0..self.discrepancies.len()).filter_map(|index| {
            let mut others = self.discrepancies.clone();
            let own = others.swap_remove(index);
            let known = others.iter().any(|other| other.is_shared == own.is_shared);
            let error = log(own.ratio[1] / discrepancy(&others, own.is_shared, own.load)[1]);
            (known && error.is_finite()).then_some(error)
        });
        errors.collect()
    }

    /// Factor on all times while the reference load takes `reference_ns`; 1 if that is not known.
    fn slowdown(&self, reference_ns: f64) -> f64 {
        if reference_ns > 0.0 && self.reference_ns > 0.0 {
            pow(reference_ns / self.reference_ns, self.slowdown_exponent)
        } else {
            1.0
        }
    }

    /// The machine during a run.
    #[must_use]
    pub fn speed(&self, run: &Run) -> Speed {
        let setting = &run.setting;
        let slowdown = self.slowdown(run.host.reference_ns());
        let transfer_ns = excess_ns(run, &self.transfers);
        let usual_ns = self.saturated_ns(setting, None);
        let forwarder = 1.0 + self.transfer_effect(setting) * transfer_ns / usual_ns;
        let [idle, per_sent, per_satisfied] = self.generator;
        let usual_ns = (idle / setting.rate + per_sent + per_satisfied).max(1.0);
        let generator = 1.0 + self.generator_transfer * transfer_ns / usual_ns;
        Speed {
            forwarder: slowdown * forwarder.max(FASTEST),
            generator: slowdown * generator.max(FASTEST),
        }
    }

    /// Nanoseconds of an Interest and its Data for each by which a transfer is longer than usual.
    fn transfer_effect(&self, setting: &Setting) -> f64 {
        let x = regressors(setting, setting.hit_ratio, 0.0, false, 1.0);
        self.transfers.iter().zip(&x[TRANSFER..]).map(|(own, x)| own.effect * x).sum()
    }

    /// Standard deviation of the logarithm of the capacity between runs by the time of transfers.
    #[must_use]
    pub fn transfer_deviation(&self, setting: &Setting) -> f64 {
        let deviation_ns = self.transfers[usize::from(setting.workers > 1)].deviation_ns;
        self.transfer_effect(setting) * deviation_ns / self.saturated_ns(setting, None)
    }

    /// Rate over the rate at which the workers are always busy.
    fn load(&self, setting: &Setting, speed: Speed) -> f64 {
        let busy = setting.rate * speed.forwarder * self.saturated_ns(setting, None) / 1e9;
        busy / setting.workers as f64
    }

    /// Factors on the p99 latency within which that of a run lies with a probability of approximately `confidence`: the
    /// quantile by rank of the errors of the measured runs, each predicted by the others (the jackknife of Barber, Candès,
    /// Ramdas, Tibshirani 2021, whose jackknife+ has a guarantee). `None` with fewer runs than that rank.
    #[must_use]
    pub fn latency_factors(&self, confidence: f64) -> Option<(f64, f64)> {
        let mut widths: Vec<f64> = self.latency_errors().into_iter().map(f64::abs).collect();
        widths.sort_by(f64::total_cmp);
        let rank = (confidence * (widths.len() + 1) as f64).ceil() as usize;
        let width = *widths.get(rank.max(1) - 1)?;
        Some((libm::exp(-width), libm::exp(width)))
    }

    /// Runs that [`latency_factors`](Self::latency_factors) come from.
    #[must_use]
    pub fn latency_runs(&self) -> usize {
        self.latency_errors().len()
    }

    /// Factors on a satisfied share below 1 within which that of a run lies with probability `confidence`.
    #[must_use]
    pub fn throughput_factors(&self, setting: &Setting, confidence: f64) -> (f64, f64) {
        let deviation = self.deviation_at(setting, confidence);
        let width = normal_quantile(0.5 + 0.5 * confidence) * deviation;
        (libm::exp(-width), libm::exp(width))
    }

    /// Standard deviation of the logarithm of the throughput of a run around that of others with its setting.
    #[must_use]
    pub fn run_deviation(&self, setting: &Setting) -> f64 {
        self.throughput[usize::from(self.is_shared(setting))].deviation.max(self.residual)
    }

    /// Processor time per Interest when the workers do not sleep, in nanoseconds; by the effects of a bootstrap replicate,
    /// or the calibrated ones.
    #[must_use]
    pub fn saturated_ns(&self, setting: &Setting, replicate: Option<usize>) -> f64 {
        let x = regressors(setting, setting.hit_ratio, 0.0, false, 0.0);
        let effects =
            replicate.and_then(|index| self.replicates.get(index)).unwrap_or(&self.effects);
        x.iter().zip(effects).map(|(x, effect)| x * effect).sum()
    }

    /// Standard deviation of the logarithm of the capacity of a run: the bootstrap, and the deviation of a run from the
    /// others.
    #[must_use]
    pub fn deviation(&self, setting: &Setting) -> f64 {
        let (calibration, run) = (self.bootstrap_deviation(setting), self.run_deviation(setting));
        sqrt(calibration * calibration + run * run)
    }

    /// The [deviation](Self::deviation) of a normal variable whose interval with probability `confidence` is as wide as that of
    /// a run, if the deviation of throughput is known from a few runs only.
    #[must_use]
    pub fn deviation_at(&self, setting: &Setting, confidence: f64) -> f64 {
        let throughput = &self.throughput[usize::from(self.is_shared(setting))];
        let run = throughput.deviation_at(confidence).max(self.residual);
        let calibration = self.bootstrap_deviation(setting);
        sqrt(calibration * calibration + run * run)
    }

    /// Standard deviation of the logarithm of the capacity over the bootstrap replicates.
    fn bootstrap_deviation(&self, setting: &Setting) -> f64 {
        let estimate = self.saturated_ns(setting, None);
        let logs: Vec<f64> = (0..self.replicates.len())
            .map(|replicate| log(estimate / self.saturated_ns(setting, Some(replicate))))
            .filter(|ratio| ratio.is_finite())
            .collect();
        half_width(logs)
    }

    /// Whether a setting with this placement can be answered: runs with packets in remote memory were measured, or it has
    /// none.
    #[must_use]
    pub fn answers(&self, placement: Placement) -> bool {
        let remote_ns = self.effects.get(REMOTE).copied().unwrap_or(0.0);
        placement == Placement::P1 || remote_ns != 0.0
    }

    /// Where `setting` lies outside of what was measured, in words.
    #[must_use]
    pub fn extrapolations(&self, setting: &Setting) -> Vec<String> {
        let mut all = Vec::new();
        let mut note = |value: f64, what: &str, (low, high): (f64, f64)| {
            if value < low || value > high {
                all.push(format!("{value} {what}: {low} to {high} were measured"));
            }
        };
        let both = |(low, high): (usize, usize)| (low as f64, high as f64);
        note(setting.workers as f64, "workers", both(self.ranges.workers));
        note(setting.components as f64, "name components", both(self.ranges.components));
        note(setting.payload as f64, "bytes of content", both(self.ranges.payload));
        note(setting.hit_ratio, "hits per Interest", self.ranges.hit_ratio);
        note(setting.routes as f64, "routes", both(self.ranges.routes));
        if matches!(setting.placement, Placement::P2 | Placement::P3) {
            let placement = setting.placement;
            all.push(format!(
                "{placement:?} is assumed to cost half of what P4 does, which was measured"
            ));
        }
        all
    }

    /// Time per Interest at this share of hits when the workers do not sleep, in nanoseconds, as it is modelled.
    fn at(&self, setting: &Setting, hit_ratio: f64, placement: Placement) -> f64 {
        let x = regressors(&Setting { placement, ..*setting }, hit_ratio, 0.0, false, 0.0);
        let cpu_ns: f64 = x.iter().zip(&self.effects).map(|(x, effect)| x * effect).sum();
        cpu_ns / self.throughput[usize::from(self.is_shared(setting))].factor
    }

    /// Divides the time of an Interest and its Data between the stages.
    fn stages(&self, setting: &Setting) -> Result<Stages, CalibrateError> {
        let miss = self.at(setting, 0.0, Placement::P1);
        if !(miss > 0.0 && miss.is_finite()) {
            let reason = format!(
                "the time of an Interest would be {miss:.0} ns: too far from what was measured"
            );
            return Err(CalibrateError::Undetermined(reason));
        }
        if let Some(fault) = self.shapes.iter().find_map(|shape| shape.table().fault()) {
            return Err(CalibrateError::Undetermined(format!("shapes: {fault}")));
        }
        let [dispatch_i, forward_interest, dispatch_d, forward_data, rest] =
            self.shares.map(|share| share * miss);
        let (input_interest, output) = (dispatch_i + 0.25 * rest, 0.25 * rest);
        let hit = self.at(setting, 1.0, Placement::P1);
        Ok(Stages {
            miss,
            input_interest,
            forward_interest,
            input_data: dispatch_d + 0.25 * rest,
            forward_data,
            forward_hit: (hit - input_interest - output).max(0.01 * miss),
            output,
        })
    }

    /// The time that a worker takes for packets in a setting, without pauses. The share of hits and the rate of the
    /// setting have no influence.
    ///
    /// # Errors
    /// A cost that is not positive: the setting is too far from what was measured.
    pub fn packet_times(&self, setting: &Setting) -> Result<PacketTimes, CalibrateError> {
        let stages = self.stages(setting)?;
        let time = |input: f64, forwarding: Distribution| PacketTime {
            handling: (input + stages.output) * NS,
            forwarding,
        };
        let [of_interest, of_data] = &self.shapes;
        Ok(PacketTimes {
            interest: time(
                stages.input_interest,
                of_interest.scaled(stages.forward_interest.max(NS_MIN) * NS),
            ),
            data: time(stages.input_data, of_data.scaled(stages.forward_data.max(NS_MIN) * NS)),
            hit: time(stages.input_interest, Distribution::Constant(stages.forward_hit * NS)),
            sleep_ns: self.effects[SLEEP].max(0.0),
        })
    }

    /// The model file of a setting: a run of `seconds` after `warm_up` seconds.
    ///
    /// # Errors
    /// A cost that is not positive: the setting is too far from what was measured.
    pub fn model_text(
        &self,
        setting: &Setting,
        warm_up: f64,
        seconds: f64,
    ) -> Result<String, CalibrateError> {
        let stages = self.stages(setting)?;
        // With all packets in remote memory.
        let remote_factor = (self.at(setting, 0.0, Placement::P4) / stages.miss).max(0.01);
        let constant = |ns: f64| law(&Distribution::Constant(ns.max(NS_MIN) * NS));
        let shaped = |shape: &Shape, ns: f64| law(&shape.scaled(ns.max(NS_MIN) * NS));
        let delay = self.latency_ns[1].max(0.004) / 4.0;
        // Every worker has faces, and prefixes enough for an even load.
        let faces = FACES.max(setting.workers);
        let prefixes = 64 * setting.workers;
        let mut text = String::new();
        let _ = write!(
            text,
            "[forwarder]\nkind = \"namewire\"\nworkers = {workers}\nnic-capacity = {queue}\nring-capacity = 4096\n\
             overload = {{ interval = \"100 ms\" }}\ndispatch = {{ balanced = true }}\nhit-ratio = {hits:?}\n\
             placement = \"{placement:?}\"\nremote-factor = {remote_factor:?}\n\n\
             [services]\n\
             input = {{ interest = {input_i}, data = {input_d} }}\n\
             forward = {{ interest = {forward_i}, data = {forward_d}, hit = {forward_hit} }}\n\
             output = {{ interest = {output}, data = {output} }}\n\n\
             [producers]\ncount = {faces}\n\n\
             [links]\nconsumer = {{ delay = {delay} }}\nproducer = {{ delay = {delay} }}\n\n\
             [run]\nhorizon = \"{horizon:.6} ms\"\nwarm-up = \"{warm_up:.6} ms\"\n",
            workers = setting.workers,
            placement = setting.placement,
            queue = self.queue,
            hits = setting.hit_ratio,
            input_i = constant(stages.input_interest),
            input_d = constant(stages.input_data),
            forward_i = shaped(&self.shapes[0], stages.forward_interest),
            forward_d = shaped(&self.shapes[1], stages.forward_data),
            forward_hit = constant(stages.forward_hit),
            output = constant(stages.output),
            delay = constant(delay),
            faces = faces,
            horizon = (warm_up + seconds) * 1e3,
            warm_up = warm_up * 1e3,
        );
        if let Some(pauses) = &self.pauses {
            let traffic = match () {
                () if self.processors == usize::MAX => "elsewhere",
                () if self.is_shared(setting) => "last",
                () => "own",
            };
            let _ = write!(
                text,
                "\n[pauses]\ninterval = {}\nlength = {}\ntogether = {}\ntraffic = \"{traffic}\"\n",
                law(&pauses.law.interval.distribution()),
                law(&pauses.law.length.distribution()),
                pauses.are_together(),
            );
        }
        for _ in 0..faces {
            let _ = write!(
                text,
                "\n[[consumers]]\nrate = \"{:.3} /s\"\narrivals = \"poisson\"\nfirst-prefix = 0\nprefixes = {prefixes}\n",
                setting.rate / faces as f64
            );
        }
        Ok(text)
    }

    /// Predicts a run with a warm-up and a window of these seconds, on a machine of this speed: the median of some traces.
    ///
    /// # Errors
    /// A setting too far from what was measured, or a fault of the model.
    pub fn predict(
        &self,
        setting: &Setting,
        speed: Speed,
        times: (f64, f64),
        traces: u32,
    ) -> Result<Prediction, CalibrateError> {
        self.predict_traces(setting, speed, times, 0..traces)
    }

    fn predict_traces(
        &self,
        setting: &Setting,
        speed: Speed,
        (warm_up, seconds): (f64, f64),
        traces: core::ops::Range<u32>,
    ) -> Result<Prediction, CalibrateError> {
        /// A share of satisfied Interests is known so well.
        const KNOWN: f64 = 0.02;
        let text = self.model_text(setting, warm_up, seconds)?;
        let model = Model::parse(&text)
            .map_err(|error: FileError| CalibrateError::Undetermined(error.to_string()))?;
        // The generator takes time from the last worker, the more the more it sends and receives.
        let mut satisfied = f64::min(1.0, 1.0 / self.load(setting, speed));
        let mut prediction = self.simulate(&model, setting, (speed, satisfied), traces.clone());
        for _ in 0..2 {
            if !self.is_shared(setting) || (prediction.satisfied - satisfied).abs() <= KNOWN {
                break;
            }
            satisfied = prediction.satisfied;
            prediction = self.simulate(&model, setting, (speed, satisfied), traces.clone());
        }
        let load = self.load(setting, speed);
        let ratio = discrepancy(&self.discrepancies, self.is_shared(setting), load);
        for (latency_ns, ratio) in prediction.latency_ns.iter_mut().zip(ratio) {
            *latency_ns *= ratio;
        }
        Ok(prediction)
    }

    /// The part of the last worker's time that the generator takes, on the same processor.
    fn generator_share(&self, setting: &Setting, speed: Speed, satisfied: f64) -> f64 {
        if !self.is_shared(setting) {
            return 0.0;
        }
        let [idle, per_sent, per_satisfied] = self.generator;
        let busy = idle + setting.rate * (per_sent + per_satisfied * satisfied);
        let running = 1.0 - self.pauses.as_ref().map_or(0.0, |pauses| pauses.share);
        (speed.generator * busy / 1e9 / running).min(GENERATOR_MOST)
    }

    /// Whether the generator runs on the processor of a worker.
    #[must_use]
    pub const fn is_shared(&self, setting: &Setting) -> bool {
        setting.workers >= self.processors
    }

    /// `satisfied`: the share of the Interests that the generator receives an answer to.
    fn simulate(
        &self,
        model: &Model,
        setting: &Setting,
        (speed, satisfied): (Speed, f64),
        traces: core::ops::Range<u32>,
    ) -> Prediction {
        let mut network = model.network.clone();
        let share = self.generator_share(setting, speed, satisfied);
        for worker in 0..setting.workers {
            let is_last = worker + 1 == setting.workers;
            let running = if is_last { 1.0 - share } else { 1.0 };
            slow_down(&mut network, worker, speed.forwarder / running);
        }
        self.pace(&mut network, setting, speed);
        let mut engine = FastEngine::without_digests(&network);
        let window_ps = (model.warm_up_ps, model.horizon_ps);
        let mut counts = Vec::new();
        for trace in traces {
            let result = engine.run(TraceRandom::new(1, trace), model.horizon_ps);
            counts.push(Counts::of(&result.records, window_ps));
        }
        let count = counts.len().max(1) as f64;
        let of = |part: fn(&Counts) -> f64| counts.iter().map(part).collect::<Vec<f64>>();
        let satisfied = of(|one| one.satisfied);
        let mean = satisfied.iter().sum::<f64>() / count;
        let variance = satisfied.iter().map(|s| (s - mean) * (s - mean)).sum::<f64>();
        let unsatisfied = of(|one| one.unsatisfied);
        Prediction {
            satisfied: median(satisfied),
            mean_unsatisfied: unsatisfied.iter().sum::<f64>() / count,
            unsatisfied: median(unsatisfied),
            deviation: sqrt(variance / (count * (count - 1.0)).max(1.0)),
            latency_ns: [median(of(|one| one.latency_ns[0])), median(of(|one| one.latency_ns[1]))],
        }
    }

    /// The generator sends, and receives, in turns; Interests that were due during a pause leave one by one, as fast as it
    /// sends. A worker takes some time to wake up.
    fn pace(&self, network: &mut Network, setting: &Setting, speed: Speed) {
        const BUSY_MOST: f64 = 0.9;
        let faces = network.consumers.len();
        let per_sent_ns = (speed.generator * self.generator[1]).min(BUSY_MOST * 1e9 / setting.rate);
        for face in network.faces.iter_mut().take(faces) {
            face.incoming.transmit_ps[0] = (faces as f64 * per_sent_ns * NS) as u64;
        }
        if self.turn_ns == 0 {
            return;
        }
        let turn_ps = self.turn_ns * NS as u64;
        for (number, face) in network.faces.iter_mut().enumerate() {
            // An answer leaves in the turn in which its Interest was received.
            face.incoming.turns_ps = [if number < faces { turn_ps } else { 1 }, 1];
            face.incoming.delay_ps = (self.wake_up_ns * NS) as u64 + 1;
            face.outgoing.turns_ps = [1, turn_ps];
            face.outgoing.delay_ps = 1;
        }
    }

    /// The highest rate of which at most `unsatisfied` is not satisfied for long, with the deviation that follows from the
    /// uncertainty of pauses.
    ///
    /// # Errors
    /// As [`predict`](Self::predict).
    pub fn capacity(
        &self,
        setting: &Setting,
        unsatisfied: f64,
        times: (f64, f64),
    ) -> Result<Capacity, CalibrateError> {
        let with = |own: &Self, traces: u32, precision: f64| {
            own.highest_rate(setting, precision, |setting| {
                let prediction = own.predict_traces(setting, Speed::USUAL, times, 0..traces)?;
                Ok(prediction.mean_unsatisfied <= unsatisfied)
            })
        };
        let Some(pauses) = &self.pauses else {
            return Ok(Capacity { rate: with(self, 1, PRECISE)?, deviation: 0.0 });
        };
        let rate = with(self, TRACES_OF_CAPACITY, PRECISE)?;
        // The same traces with each law: their differences are those of the laws.
        let traces = TRACES_OF_CAPACITY / 4;
        let rates: Result<Vec<f64>, CalibrateError> = (0..pauses.replicates.len() as u32)
            .map(|replicate| with(&self.with_law(replicate), traces, COARSE).map(log))
            .collect();
        Ok(Capacity { rate, deviation: half_width(rates?) })
    }

    /// The capacity that a few runs of this length show, each with other pauses: the rate at which half of them have at most
    /// `unsatisfied`.
    ///
    /// # Errors
    /// As [`predict`](Self::predict).
    pub fn capacity_of_runs(
        &self,
        setting: &Setting,
        unsatisfied: f64,
        times: (f64, f64),
        confidence: f64,
    ) -> Result<CapacityOfRuns, CalibrateError> {
        /// Runs near a capacity that is measured, and measurements that are made up.
        const RUNS: usize = 3;
        const MADE_UP: u64 = 4000;
        let count = |pauses: &PauseProcess| pauses.replicates.len() as u32;
        let laws = self.pauses.as_ref().map_or(1, count).max(1);
        let (traces, precision) =
            if self.pauses.is_some() { (RUNS_OF_LAW, COARSE) } else { (1, PRECISE) };
        let mut logs: Vec<Vec<f64>> = Vec::new();
        for law in 0..laws {
            let own = self.with_law(law);
            let of_trace = |trace: u32| {
                let rate = own.highest_rate(setting, precision, |setting| {
                    let prediction =
                        own.predict_traces(setting, Speed::USUAL, times, trace..trace + 1)?;
                    Ok(prediction.unsatisfied <= unsatisfied)
                });
                rate.map(log)
            };
            let numbers = law * traces..(law + 1) * traces;
            logs.push(numbers.map(of_trace).collect::<Result<_, CalibrateError>>()?);
        }
        let spread = self.deviation_at(setting, confidence);
        let made_up = (0..MADE_UP).map(|index| {
            let mut draw = TraceRandom::new(0x6361_7061, 0).draw(StreamId(0), index);
            let of_law = &logs[draw.below(logs.len() as u64) as usize];
            let runs = [(); RUNS].map(|()| of_law[draw.below(of_law.len() as u64) as usize]);
            (median(runs.to_vec()), draw.normal() * spread)
        });
        let (by_pauses, all): (Vec<f64>, Vec<f64>) =
            made_up.map(|(log_rate, other)| (log_rate, log_rate + other)).unzip();
        let mut sorted = all;
        sorted.sort_by(f64::total_cmp);
        let at = |level: f64| {
            libm::exp(sorted[((level * MADE_UP as f64) as usize).min(sorted.len() - 1)])
        };
        Ok(CapacityOfRuns {
            rate: libm::exp(median(logs.concat())),
            low: at(0.5 - 0.5 * confidence),
            high: at(0.5 + 0.5 * confidence),
            deviation: half_width(by_pauses),
        })
    }

    /// The highest rate that is enough, by bisection with the same random numbers at all rates.
    fn highest_rate(
        &self,
        setting: &Setting,
        precision: f64,
        is_enough: impl Fn(&Setting) -> Result<bool, CalibrateError>,
    ) -> Result<f64, CalibrateError> {
        let limit = setting.workers as f64 * 1e9 / self.saturated_ns(setting, None);
        if !(limit > 0.0 && limit.is_finite()) {
            let reason = "the setting is too far from what was measured";
            return Err(CalibrateError::Undetermined(reason.to_owned()));
        }
        let (mut low, mut high) = (0.05 * limit, 1.5 * limit);
        while high / low > precision {
            let rate = sqrt(low * high);
            if is_enough(&Setting { rate, ..*setting })? {
                low = rate;
            } else {
                high = rate;
            }
        }
        Ok(sqrt(low * high))
    }
}

/// Ratios of neighbouring rates at which the search for a capacity ends.
const PRECISE: f64 = 1.005;
const COARSE: f64 = 1.02;

/// A predicted capacity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Capacity {
    /// Interests per second.
    pub rate: f64,
    /// Standard deviation of its logarithm by the uncertainty of pauses.
    pub deviation: f64,
}

/// The predicted capacity as a few runs show it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CapacityOfRuns {
    /// Interests per second.
    pub rate: f64,
    /// It lies between these with the stated probability.
    pub low: f64,
    /// The same.
    pub high: f64,
    /// Standard deviation of its logarithm by pauses: those of the runs, and the uncertainty of their law.
    pub deviation: f64,
}

/// Half of the range that contains the middle 68.27 % of the values: the standard deviation of normal ones, which a
/// replicate that hardly determines an effect does not change.
#[must_use]
pub fn half_width(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1) as f64;
    let at = |level: f64| values.get((level * last).round() as usize).copied().unwrap_or(0.0);
    0.5 * (at(0.841_345) - at(0.158_655))
}

/// The median; 0 without values.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// The reference load of a run over the usual one; 1 if not measured.
fn slowdown(run: &Run, reference_ns: f64) -> f64 {
    let own = run.host.reference_ns();
    if own > 0.0 && reference_ns > 0.0 { own / reference_ns } else { 1.0 }
}

/// Rounds in which the exponent of slowdowns is refined.
const EXPONENT_ROUNDS: u32 = 8;

/// The slope of the errors of a fit over the slowdown of the runs, both as logarithms, from 0 to 1.5: 0 if the
/// reference load hardly varies, or says nothing about the forwarder.
fn exponent(rows: &[(Effects, f64)], effects: &Effects, slowdowns: &[f64]) -> f64 {
    const VARIES: f64 = 0.01;
    let x: Vec<f64> = slowdowns.iter().map(|slowdown| log(*slowdown)).collect();
    let y: Vec<f64> = rows.iter().map(|(row, cost)| log(cost / dot(row, effects))).collect();
    let count = x.len() as f64;
    let (mean_x, mean_y) = (x.iter().sum::<f64>() / count, y.iter().sum::<f64>() / count);
    let pairs = || x.iter().zip(&y).map(|(x, y)| (x - mean_x, y - mean_y));
    let (squares, products) = pairs().fold((0.0, 0.0), |(s, p), (x, y)| (s + x * x, p + x * y));
    let slope = products / squares;
    if squares < count * VARIES * VARIES || !slope.is_finite() {
        return 0.0;
    }
    // Two standard errors: below, a slope may be chance.
    let rest: f64 = pairs().map(|(x, y)| (y - slope * x) * (y - slope * x)).sum();
    let error = sqrt(rest / (count - 2.0).max(1.0) / squares);
    if slope > 2.0 * error { slope.min(1.5) } else { 0.0 }
}

/// The usual ratio at p50 and p99 near a load: the median of the runs, weighted by their distance.
fn discrepancy(all: &[Discrepancy], is_shared: bool, load: f64) -> [f64; 2] {
    const BANDWIDTH: f64 = 0.15;
    let distance = |one: &Discrepancy| log(one.load / load).abs() / BANDWIDTH;
    let same: Vec<&Discrepancy> = all.iter().filter(|one| one.is_shared == is_shared).collect();
    // Beyond the measured loads, the nearest run and those around it.
    let nearest = same.iter().map(|one| distance(one)).fold(f64::INFINITY, f64::min);
    let weight = |one: &Discrepancy| {
        let beyond = distance(one) - nearest;
        libm::exp(-0.5 * beyond * beyond)
    };
    [0, 1].map(|level| {
        let mut ratios: Vec<(f64, f64)> =
            same.iter().map(|one| (one.ratio[level], weight(one))).collect();
        ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
        let half = 0.5 * ratios.iter().map(|(_, weight)| weight).sum::<f64>();
        let mut sum = 0.0;
        let middle = ratios.iter().find(|(_, weight)| {
            sum += weight;
            sum >= half
        });
        middle.map_or(1.0, |(ratio, _)| *ratio)
    })
}

/// Faces of consumers, and of producers, in a campaign.
pub const FACES: usize = 2;
/// Prefixes in a campaign.
pub const PREFIXES: usize = 8;

/// The predicted result of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// Answers in the window over the Interests sent in it: the median of the traces.
    pub satisfied: f64,
    /// Interests that were lost in the window over those sent in it: the median of the traces.
    pub unsatisfied: f64,
    /// Their mean.
    pub mean_unsatisfied: f64,
    /// Standard deviation of the mean satisfied share.
    pub deviation: f64,
    /// Latency at p50 and p99: medians of the traces.
    pub latency_ns: [f64; 2],
}

/// The counts of a run in place of a trace.
struct Counts {
    satisfied: f64,
    unsatisfied: f64,
    latency_ns: [f64; 2],
}

impl Counts {
    /// Counts as a run does: an Interest where it was sent, its answer or loss where that came, both within the window. While a
    /// queue grows, those that are sent in the window are not those that end in it.
    fn of(records: &[Record], (from_ps, to_ps): (u64, u64)) -> Self {
        let window = from_ps..to_ps;
        let sent = records.iter().filter(|record| window.contains(&record.created_ps)).count();
        let (mut latencies, mut lost) = (Vec::new(), 0_usize);
        for record in records.iter().filter(|record| window.contains(&record.ended_ps)) {
            match record.outcome {
                Outcome::Satisfied => latencies.push(record.ended_ps - record.created_ps),
                Outcome::Pending => {}
                Outcome::Late
                | Outcome::Nacked
                | Outcome::QueueFull(_)
                | Outcome::Shed(_)
                | Outcome::PitFull(_)
                | Outcome::LinkLoss(_)
                | Outcome::LinkFull(_) => lost += 1,
            }
        }
        let share = |count: usize| count as f64 / sent.max(1) as f64;
        let (satisfied, unsatisfied) = (share(latencies.len()), share(lost));
        let latency_ns = [0.5, 0.99].map(|level| {
            let last = latencies.len().saturating_sub(1);
            let index = ((level * latencies.len() as f64) as usize).min(last);
            let found = (!latencies.is_empty()).then(|| *latencies.select_nth_unstable(index).1);
            found.map_or(0.0, |ps| ps as f64 / NS)
        });
        Self { satisfied, unsatisfied, latency_ns }
    }
}

/// Multiplies all service times of a worker.
fn slow_down(network: &mut Network, worker: usize, factor: f64) {
    for shard in &mut network.shards {
        if network.queues[shard.queues[0]].station == worker {
            shard.forward_factor = shard.forward_factor.map(|own| own * factor);
        }
    }
    for face in &mut network.faces {
        if network.queues[face.input_queue].station == worker {
            face.input_factor *= factor;
            face.output_factor *= factor;
        }
    }
}

impl Shape {
    fn table(&self) -> Distribution {
        Distribution::Empirical(QuantileTable {
            quantiles: self.quantiles.clone(),
            tail_probability: TAIL,
            tail_mean: self.tail_mean,
        })
    }

    fn scaled(&self, mean: f64) -> Distribution {
        let table = self.table();
        let factor = mean / table.mean();
        Distribution::Empirical(QuantileTable {
            quantiles: self.quantiles.iter().map(|q| q * factor).collect(),
            tail_probability: TAIL,
            tail_mean: (self.tail_mean * factor).max(1.0),
        })
    }

    /// The shape of a histogram, without times that are pauses.
    fn of(histogram: &Histogram) -> Option<Self> {
        let is_own = |bucket: &(u64, u64, u64)| bucket.0 < PAUSE_MIN_NS;
        let own: Vec<(u64, u64, u64)> = histogram.buckets.iter().copied().filter(is_own).collect();
        let count: u64 = own.iter().map(|bucket| bucket.2).sum();
        let own = Histogram { count, sum_ns: 0, buckets: own };
        let quantiles: Option<Vec<f64>> = (0..=CELLS)
            .map(|cell| own.quantile((1.0 - TAIL) * cell as f64 / CELLS as f64, count))
            .collect();
        let quantiles = quantiles?;
        let last = *quantiles.last()?;
        let (mut excess, mut beyond) = (0.0, 0.0);
        for (from, below, count) in &own.buckets {
            let middle = f64::midpoint(*from as f64, (*below).min(2 * from + 1) as f64);
            if middle > last {
                excess += (middle - last) * *count as f64;
                beyond += *count as f64;
            }
        }
        let tail_mean = if beyond > 0.0 { excess / beyond } else { 0.01 * last };
        let table = QuantileTable { quantiles, tail_probability: TAIL, tail_mean };
        let mean = Distribution::Empirical(table.clone()).mean();
        (mean > 0.0).then(|| Self {
            quantiles: table.quantiles.iter().map(|q| q / mean).collect(),
            tail_mean: tail_mean / mean,
        })
    }
}

impl Histogram {
    /// The quantile of `count` values, interpolated within a bucket.
    fn quantile(&self, level: f64, count: u64) -> Option<f64> {
        let rank = level * count as f64;
        let mut before = 0.0;
        for (from, below, count) in &self.buckets {
            let after = before + *count as f64;
            if after >= rank && *count > 0 {
                let part = ((rank - before) / *count as f64).clamp(0.0, 1.0);
                let below = (*below).min(2 * from + 1);
                return Some(*from as f64 + part * (below - from) as f64);
            }
            before = after;
        }
        None
    }

    /// Adds the counts of another one, whose buckets have the same bounds.
    pub fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        for bucket in &other.buckets {
            match self.buckets.binary_search_by_key(&bucket.0, |own| own.0) {
                Ok(index) => self.buckets[index].2 += bucket.2,
                Err(index) => self.buckets.insert(index, *bucket),
            }
        }
    }

    fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64)
    }
}

impl Ranges {
    fn of(runs: &[&Run]) -> Self {
        let range = |of: &dyn Fn(&Setting) -> usize| {
            let values = runs.iter().map(|run| of(&run.setting));
            (values.clone().min().unwrap_or(0), values.max().unwrap_or(0))
        };
        let hits = runs.iter().map(|run| run.setting.hit_ratio);
        Self {
            workers: range(&|s| s.workers),
            components: range(&|s| s.components),
            payload: range(&|s| s.payload),
            hit_ratio: (hits.clone().fold(1.0, f64::min), hits.fold(0.0, f64::max)),
            routes: range(&|s| s.routes),
        }
    }
}

/// The effects that the runs vary.
fn varied(rows: &[(Effects, f64)]) -> Vec<usize> {
    (0..COLUMNS).filter(|index| rows.iter().any(|(x, _)| x[*index].abs() > 1e-12)).collect()
}

fn dot(x: &Effects, effects: &Effects) -> f64 {
    x.iter().zip(effects).map(|(x, effect)| x * effect).sum()
}

/// Effects with the least sum of squared relative errors; none if the runs do not determine them. Errors are relative
/// to the prediction: relative to the measurement, runs that were fast by chance would count more.
fn least_squares(rows: &[(Effects, f64)], drawn: &[usize], varied: &[usize]) -> Option<Effects> {
    const PASSES: usize = 4;
    let mut scales: Vec<f64> = rows.iter().map(|(_, y)| *y).collect();
    let mut effects = [0.0; COLUMNS];
    for _ in 0..PASSES {
        effects = weighted_least_squares(rows, &scales, drawn, varied)?;
        for (scale, (x, y)) in scales.iter_mut().zip(rows) {
            // A prediction near zero would make a run outweigh all others.
            *scale = dot(x, &effects).max(0.3 * y);
        }
    }
    Some(effects)
}

/// As [`least_squares`]; effects from the column `first` on that would be negative are removed from `used`, one after the other.
fn least_squares_without_negative(
    rows: &[(Effects, f64)],
    drawn: &[usize],
    used: &mut Vec<usize>,
    first: usize,
) -> Option<Effects> {
    loop {
        let effects = least_squares(rows, drawn, used)?;
        let is_negative = |index: &usize| *index >= first && effects[*index] < 0.0;
        let Some(negative) = used.iter().position(is_negative) else { return Some(effects) };
        used.remove(negative);
    }
}

/// Effects with the least sum of squared errors over `scales`.
fn weighted_least_squares(
    rows: &[(Effects, f64)],
    scales: &[f64],
    drawn: &[usize],
    varied: &[usize],
) -> Option<Effects> {
    let count = varied.len();
    let mut matrix = vec![vec![0.0; count + 1]; count];
    for index in drawn {
        let (x, y) = &rows[*index];
        let weight = 1.0 / (scales[*index] * scales[*index]);
        for (i, first) in varied.iter().enumerate() {
            for (j, second) in varied.iter().enumerate() {
                matrix[i][j] += x[*first] * x[*second] * weight;
            }
            matrix[i][count] += x[*first] * y * weight;
        }
    }
    let scale: Vec<f64> = (0..count).map(|i| matrix[i][i]).collect();
    for pivot in 0..count {
        let best = (pivot..count)
            .max_by(|a, b| matrix[*a][pivot].abs().total_cmp(&matrix[*b][pivot].abs()))?;
        matrix.swap(pivot, best);
        if matrix[pivot][pivot].abs() <= 1e-9 * scale[pivot].abs() || scale[pivot] == 0.0 {
            return None;
        }
        for row in 0..count {
            if row == pivot {
                continue;
            }
            let factor = matrix[row][pivot] / matrix[pivot][pivot];
            let subtracted = matrix[pivot].clone();
            for (cell, own) in matrix[row].iter_mut().zip(&subtracted).skip(pivot) {
                *cell -= factor * own;
            }
        }
    }
    let mut effects = [0.0; COLUMNS];
    for (row, index) in varied.iter().enumerate() {
        effects[*index] = matrix[row][count] / matrix[row][row];
    }
    Some(effects)
}

/// Shares of the stages in the time of a miss, over the traced runs.
fn shares(runs: &[&Run]) -> Result<[f64; 5], CalibrateError> {
    let mut sums = [0.0; 5];
    for run in runs {
        let Some(services) = &run.services else { continue };
        let stages = [
            &services.interest_dispatch,
            &services.interest_forwarding,
            &services.data_dispatch,
            &services.data_forwarding,
        ];
        let means: Option<Vec<f64>> = stages.iter().map(|stage| stage.mean()).collect();
        let Some(means) = means else { continue };
        let answered = 1.0 - run.measured_hit_ratio();
        let weights = [1.0, 1.0, answered, answered];
        let own: f64 = means.iter().zip(weights).map(|(mean, weight)| mean * weight).sum();
        for (sum, (mean, weight)) in sums.iter_mut().zip(means.iter().zip(weights)) {
            *sum += mean * weight;
        }
        sums[4] += (run.cost_ns() - own).max(0.0);
    }
    let total: f64 = sums.iter().sum();
    if total > 0.0 { Ok(sums.map(|sum| sum / total)) } else { Err(CalibrateError::NotTraced) }
}

fn shapes(runs: &[&Run]) -> Result<[Shape; 2], CalibrateError> {
    let shape = |of: fn(&ServiceTimes) -> &Histogram| {
        let mut all = Histogram::default();
        for services in runs.iter().filter_map(|run| run.services.as_ref()) {
            all.add(of(services));
        }
        Shape::of(&all).ok_or(CalibrateError::NotTraced)
    };
    Ok([shape(|s| &s.interest_forwarding)?, shape(|s| &s.data_forwarding)?])
}

/// The share of the measured service times that those as long as pauses have.
fn pauses_in_services(runs: &[&Run], processors: usize) -> f64 {
    let (mut paused, mut all) = (0.0, 0.0);
    let alone = runs.iter().filter(|run| run.setting.workers < processors);
    for services in alone.filter_map(|run| run.services.as_ref()) {
        for histogram in [
            &services.interest_dispatch,
            &services.interest_forwarding,
            &services.data_dispatch,
            &services.data_forwarding,
        ] {
            let time = |(from, below, count): &(u64, u64, u64)| {
                f64::midpoint(*from as f64, (*below).min(2 * from + 1) as f64) * *count as f64
            };
            let long = histogram.buckets.iter().filter(|bucket| bucket.0 >= PAUSE_MIN_NS);
            paused += long.map(time).sum::<f64>();
            all += histogram.sum_ns as f64;
        }
    }
    paused / f64::max(all, 1.0)
}

/// The runs whose processor time is that of service: where one of several workers has too little time, others are busy with
/// waiting.
fn show_times<'r>(runs: &[&'r Run]) -> Vec<&'r Run> {
    const LOST_MOST: f64 = 0.02;
    let is_alone = |run: &Run| run.setting.workers == 1;
    let shows = |run: &Run| is_alone(run) || run.unsatisfied() <= LOST_MOST;
    let has_several = runs.iter().any(|run| !is_alone(run) && shows(run));
    runs.iter().copied().filter(|run| shows(run) || !has_several).collect()
}

/// Effects on the processor time of runs.
struct Fit {
    runs: usize,
    effects: Effects,
    residual: f64,
    replicates: Vec<Vec<f64>>,
    slowdown_exponent: f64,
}

impl Fit {
    fn of(
        runs: &[&Run],
        transfers: &[Transfer; 2],
        reference_ns: f64,
    ) -> Result<Self, CalibrateError> {
        let mut rows: Vec<(Effects, f64)> = runs
            .iter()
            .map(|run| {
                let (hits, sleeps) = (run.measured_hit_ratio(), run.sleeps_per_interest());
                let transfer_ns = excess_ns(run, transfers);
                let is_traced = run.services.is_some();
                (regressors(&run.setting, hits, sleeps, is_traced, transfer_ns), run.cost_ns())
            })
            .collect();
        let mut varied = varied(&rows);
        let needed = 2 * varied.len() + 2;
        if rows.len() < needed {
            return Err(CalibrateError::TooFewRuns { runs: rows.len(), needed });
        }
        let undetermined =
            || CalibrateError::Undetermined("the runs do not tell the effects apart".to_owned());
        let all: Vec<usize> = (0..rows.len()).collect();
        // Longer transfers make nothing faster.
        let fit = |rows: &[(Effects, f64)], varied: &mut Vec<usize>| {
            least_squares_without_negative(rows, &all, varied, TRANSFER).ok_or_else(undetermined)
        };
        let mut effects = fit(&rows, &mut varied)?;
        let slowdowns: Vec<f64> = runs.iter().map(|run| slowdown(run, reference_ns)).collect();
        let mut slowdown_exponent = 0.0;
        // The effects take a part of the slope where slow runs have their settings in common; the rounds converge to the fit
        // of both.
        for _ in 0..EXPONENT_ROUNDS {
            let change = exponent(&rows, &effects, &slowdowns);
            if change == 0.0 {
                break;
            }
            slowdown_exponent += change;
            for ((_, y), slowdown) in rows.iter_mut().zip(&slowdowns) {
                *y /= pow(*slowdown, change);
            }
            effects = fit(&rows, &mut varied)?;
        }
        let squares: f64 = rows
            .iter()
            .map(|(x, y)| {
                let error = y / dot(x, &effects) - 1.0;
                error * error
            })
            .sum();
        let residual = sqrt(squares / (rows.len() - varied.len()) as f64);
        let replicates = (0..BOOTSTRAP_REPLICATES)
            .filter_map(|replicate| {
                let random = TraceRandom::new(0x6361_6c69, replicate);
                let drawn: Vec<usize> = (0..rows.len() as u64)
                    .map(|index| random.draw(StreamId(0), index).below(rows.len() as u64) as usize)
                    .collect();
                let effects = least_squares(&rows, &drawn, &varied);
                effects.map(|effects| effects[..EFFECT_COUNT].to_vec())
            })
            .collect();
        Ok(Self { runs: rows.len(), effects, residual, replicates, slowdown_exponent })
    }
}

/// Those in which the generator shares its processor with a worker, if these are enough: it takes more time there.
fn with_shared<'r>(runs: &[&'r Run], processors: usize) -> Vec<&'r Run> {
    const RUNS_MIN: usize = 10;
    let shared: Vec<&Run> =
        runs.iter().copied().filter(|run| run.setting.workers >= processors).collect();
    if shared.len() < RUNS_MIN { runs.to_vec() } else { shared }
}

/// Processor time of the generator per second, per Interest and per answer, and per Interest for each nanosecond that a transfer
/// takes more than usually, by least squares without negative ones.
fn generator(runs: &[&Run], transfers: &[Transfer; 2]) -> ([f64; 3], f64) {
    let mut rows: Vec<(Effects, f64)> = Vec::new();
    for run in runs {
        let mut x = [0.0; COLUMNS];
        x[0] = run.seconds;
        x[1] = run.sent as f64;
        x[2] = run.satisfied as f64;
        x[3] = run.sent as f64 * excess_ns(run, transfers);
        rows.push((x, (run.generator_cpu_ns as f64).max(1.0)));
    }
    let all: Vec<usize> = (0..rows.len()).collect();
    let mut used = varied(&rows);
    let effects =
        least_squares_without_negative(&rows, &all, &mut used, 0).unwrap_or([0.0; COLUMNS]);
    ([effects[0], effects[1], effects[2]], effects[3])
}

/// The half of the runs with one worker and without losses that has the least load.
fn calm<'r>(runs: &[&'r Run]) -> Vec<&'r Run> {
    let busy = |run: &Run| {
        let cpu = run.cpu_ns.iter().copied().max().unwrap_or(0) as f64;
        cpu / (run.seconds * 1e9)
    };
    let mut calm: Vec<&Run> =
        runs.iter().copied().filter(|run| run.setting.workers == 1 && run.refused == 0).collect();
    calm.sort_by(|a, b| busy(a).total_cmp(&busy(b)));
    calm.truncate(calm.len().div_ceil(2).max(1));
    calm
}

/// Median of p50 and p99 over the calm runs.
fn outside_latency(runs: &[&Run]) -> [f64; 2] {
    let calm = calm(runs);
    [0, 2].map(|level| {
        let mut values: Vec<u64> = calm.iter().map(|run| run.latency_ns[level]).collect();
        values.sort_unstable();
        values.get(values.len() / 2).map_or(0.0, |ns| *ns as f64)
    })
}

/// The share of the processor time that measuring service times takes: the probe effect.
#[must_use]
pub fn probe_effect(calibration: &Calibration, setting: &Setting) -> f64 {
    calibration.effects[PROBE] / calibration.saturated_ns(setting, None)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn rig(queue: usize, processors: usize) -> Rig {
        Rig { queue, processors, turn_ns: 0, warm_up: 0.1 }
    }

    const TRUE: Effects =
        [5000.0, 2000.0, 30.0, 100.0, 900.0, 20.0, 80.0, 300.0, 10.0, 40.0, 0.0, 0.0, 0.0];

    fn histogram(mean: u64) -> Histogram {
        let buckets =
            vec![(mean / 2, mean / 2 + 8, 50), (mean, mean + 8, 40), (2 * mean, 2 * mean + 8, 10)];
        let sum_ns = buckets.iter().map(|(from, below, count)| (from + below) / 2 * count).sum();
        Histogram { count: 100, sum_ns, buckets }
    }

    /// Runs of a forwarder whose times are `TRUE`, with an error of one percent.
    fn campaign() -> Vec<Run> {
        let mut runs = Vec::new();
        for number in 0..64usize {
            let bit = |place: usize| number >> place & 1;
            let setting = Setting {
                workers: 1 + bit(0),
                components: 3 + 10 * bit(1),
                payload: 1200 * bit(2),
                hit_ratio: 0.5 * bit(3) as f64,
                routes: 64 << (6 * bit(4)),
                rate: 100e3,
                placement: Placement::P1,
            };
            let sleeps = if bit(5) == 0 { 0.0 } else { 0.1 + 0.1 * (number % 5) as f64 };
            let services = (number % 3 == 0).then(|| ServiceTimes {
                interest_dispatch: histogram(100),
                interest_forwarding: histogram(600),
                data_dispatch: histogram(100),
                data_forwarding: histogram(500),
                forwarding_by_burst_size: vec![(64, 10, 600_000)],
            });
            let x = regressors(&setting, setting.hit_ratio, sleeps, services.is_some(), 0.0);
            let noise = TraceRandom::new(3, 0).draw(StreamId(1), number as u64).normal();
            let cost = dot(&x, &TRUE) * (1.0 + 0.01 * noise);
            let interests = 50_000u64;
            runs.push(Run {
                number,
                setting,
                discarded: 0,
                discarded_slow: 0,
                host: Host::default(),
                pauses: Vec::new(),
                seconds: 0.5,
                sent: interests,
                satisfied: interests,
                refused: 0,
                interests,
                hits: (interests as f64 * setting.hit_ratio) as u64,
                bursts: interests / 20,
                sleeps: (interests as f64 * sleeps) as u64,
                cpu_ns: vec![(cost * interests as f64) as u64],
                delayed_ns: vec![0],
                generator_delayed_ns: 0,
                generator_cpu_ns: 100_000_000,
                worker_stalls: Stalls::default(),
                generator_stalls: Stalls::default(),
                pit_entries: 0,
                queues: QueueLengths::default(),
                latency_ns: [40_000, 60_000, 90_000],
                services,
            });
        }
        runs
    }

    #[test]
    fn effects_of_known_runs_are_recovered() {
        let calibration = Calibration::of(&campaign(), &rig(1024, 2)).unwrap();
        for (name, (found, expected)) in EFFECTS.iter().zip(calibration.effects.iter().zip(TRUE)) {
            assert!(
                (found - expected).abs() < 0.03 * expected + 15.0,
                "{name}: {found} {expected}"
            );
        }
        assert!((0.005..0.02).contains(&calibration.residual), "{}", calibration.residual);
        let setting = campaign()[5].setting;
        let deviation = calibration.deviation(&setting);
        assert!((0.005..0.025).contains(&deviation), "{deviation}");
    }

    #[test]
    fn times_of_packets_add_up_to_those_of_interests() {
        let calibration = Calibration::of(&campaign(), &rig(1024, 2)).unwrap();
        let setting = Setting { workers: 1, hit_ratio: 0.0, ..campaign()[6].setting };
        let times = calibration.packet_times(&setting).unwrap();
        let near = |found: f64, expected: f64| {
            assert!((found / expected - 1.0).abs() < 1e-3, "{found} {expected}");
        };
        near(
            times.interest.mean_ns() + times.data.mean_ns(),
            calibration.saturated_ns(&setting, None),
        );
        assert!((times.sleep_ns - TRUE[SLEEP]).abs() < 0.05 * TRUE[SLEEP], "{}", times.sleep_ns);
        let hits = Setting { hit_ratio: 1.0, ..setting };
        near(times.hit.mean_ns(), calibration.saturated_ns(&hits, None));
        let random = TraceRandom::new(1, 0);
        let sample = |index| times.interest.sample_ps(&mut random.draw(StreamId(1), index)) as f64;
        let mean = (0..100_000).map(sample).sum::<f64>() / 1e5;
        assert!((mean / times.interest.mean_ns() / NS - 1.0).abs() < 0.02, "{mean}");
        // Other names and contents take other times.
        let longer = Setting { components: 40, payload: 8000, ..setting };
        let longer = calibration.packet_times(&longer).unwrap();
        assert!(longer.interest.mean_ns() > 1.2 * times.interest.mean_ns());
        let negative = Calibration { effects: vec![0.0, -1.0], ..calibration.clone() };
        let error = negative.packet_times(&setting).unwrap_err();
        assert!(error.to_string().contains("too far from what was measured"), "{error}");
        let [interest, data] = calibration.shapes.clone();
        let shapes = [Shape { quantiles: Vec::new(), ..interest }, data];
        let error = Calibration { shapes, ..calibration }.packet_times(&setting).unwrap_err();
        assert!(error.to_string().contains("two or more"), "{error}");
    }

    #[test]
    fn calibrations_with_faults_are_refused() {
        let calibration = Calibration::of(&campaign(), &rig(1024, 2)).unwrap();
        assert_eq!(calibration.fault(), None);
        let refused = |change: fn(&mut Calibration), expected: &str| {
            let mut changed = calibration.clone();
            change(&mut changed);
            let fault = changed.fault().unwrap();
            assert!(fault.starts_with(expected), "{fault}");
        };
        refused(|one| one.effects.truncate(3), "effects: 3 in place of 11");
        refused(|one| one.replicates[0].clear(), "effects: 0 in place of 11");
        refused(|one| one.effects[SLEEP] = f64::INFINITY, "effects: one is not a time");
        refused(|one| one.effects[SLEEP] = f64::NAN, "effects: one is not a time");
        refused(|one| one.shares[0] = f64::NAN, "shares: ");
        refused(|one| one.shares = [1.0, 1.0, -1.0, 0.0, 0.0], "shares: one is negative");
        refused(|one| one.shares = [0.6; 5], "shares: one is negative, or their sum is not 1");
        refused(|one| one.shapes[1].tail_mean = 0.0, "shapes: the tail has");
        refused(|one| one.shapes[0].quantiles = vec![2.0, 2.0], "shapes: the mean is not 1");
        refused(|one| one.throughput[1].factor = 0.0, "throughput: ");
        refused(|one| one.wake_up_ns = f64::NAN, "wake-up-ns: ");
        refused(|one| one.queue = 0, "queue: ");
    }

    #[test]
    fn placements_are_answered_if_remote_memory_was_measured() {
        let local = Calibration::of(&campaign(), &rig(1024, 2)).unwrap();
        assert!(local.answers(Placement::P1) && !local.answers(Placement::P4));
        // 250 ns more for each Interest and its Data in remote memory.
        let moved = |(number, run): (usize, Run)| {
            if number % 3 != 1 {
                return run;
            }
            let setting = Setting { placement: Placement::P4, ..run.setting };
            let cpu_ns = run.cpu_ns.iter().map(|ns| ns + 250 * run.interests).collect();
            Run { setting, cpu_ns, ..run }
        };
        let runs: Vec<Run> = campaign().into_iter().enumerate().map(moved).collect();
        let calibration = Calibration::of(&runs, &rig(1024, 2)).unwrap();
        assert!((calibration.effects[REMOTE] - 250.0).abs() < 25.0, "{:?}", calibration.effects);
        assert!(calibration.answers(Placement::P2) && calibration.answers(Placement::P4));
        let near = Setting { placement: Placement::P1, hit_ratio: 0.0, ..campaign()[0].setting };
        let rate = |placement: Placement| {
            let setting = Setting { placement, ..near };
            calibration.capacity(&setting, 0.001, (0.1, 0.2)).unwrap().rate
        };
        let [p1, p2, p4] = [Placement::P1, Placement::P2, Placement::P4].map(rate);
        let slower = calibration.saturated_ns(&Setting { placement: Placement::P4, ..near }, None)
            / calibration.saturated_ns(&near, None);
        assert!((p1 / p4 / slower - 1.0).abs() < 0.02, "{p1} {p4} {slower}");
        assert!(p2 < 0.99 * p1 && p4 < 0.99 * p2, "{p1} {p2} {p4}");
        let notes = calibration.extrapolations(&Setting { placement: Placement::P2, ..near });
        assert!(notes.iter().any(|note| note.contains("half of what P4 does")), "{notes:?}");
    }

    #[test]
    fn capacity_is_that_of_the_calibrated_times() {
        let calibration = Calibration::of(&campaign(), &rig(1024, 4)).unwrap();
        let setting = Setting {
            workers: 1,
            components: 7,
            payload: 600,
            hit_ratio: 0.0,
            routes: 64,
            rate: 0.0,
            placement: Placement::P1,
        };
        let capacity = calibration.capacity(&setting, 0.001, (0.1, 0.2)).unwrap().rate;
        let limit = 1e9 / calibration.saturated_ns(&setting, None);
        assert!((0.93..1.06).contains(&(capacity / limit)), "{capacity} {limit}");
        let shared = Calibration { processors: 1, generator: [0.0, 500.0, 500.0], ..calibration };
        let less = shared.capacity(&setting, 0.001, (0.1, 0.2)).unwrap().rate;
        assert!(less < 0.85 * capacity, "the generator takes time: {less} {capacity}");
    }

    #[test]
    fn slower_machine_is_seen_by_the_reference_load() {
        // Three of seven runs were on a machine that was slower by a tenth for the reference load.
        let slowed = |(number, run): (usize, Run)| {
            let reference = if number % 7 < 3 { 11.0 } else { 10.0 };
            let factor = pow(reference / 10.0, 0.7);
            let cpu_ns = run.cpu_ns.iter().map(|ns| (*ns as f64 * factor) as u64).collect();
            let host = Host { reference_ns: [reference; 2], ..Host::default() };
            Run { cpu_ns, host, ..run }
        };
        let runs: Vec<Run> = campaign().into_iter().enumerate().map(slowed).collect();
        let calibration = Calibration::of(&runs, &rig(1024, 2)).unwrap();
        assert!((calibration.slowdown_exponent - 0.7).abs() < 0.15, "{calibration:?}");
        assert!(calibration.residual < 0.02, "{}", calibration.residual);
        assert!((calibration.slowdown(11.0) / pow(1.1, 0.7) - 1.0).abs() < 0.02);
        assert!((calibration.slowdown(0.0) - 1.0).abs() < f64::EPSILON, "not measured");
        // A reference load that says nothing about the forwarder changes nothing.
        let unrelated = |(number, run): (usize, Run)| {
            let host = Host { reference_ns: [10.0 + (number % 5) as f64; 2], ..Host::default() };
            Run { host, ..run }
        };
        let runs: Vec<Run> = campaign().into_iter().enumerate().map(unrelated).collect();
        let calibration = Calibration::of(&runs, &rig(1024, 2)).unwrap();
        assert!(calibration.slowdown_exponent < 0.05, "{}", calibration.slowdown_exponent);
    }

    #[test]
    fn negative_effects_are_left_out_from_a_column_on() {
        let row = |number: usize| {
            let mut x = [0.0; COLUMNS];
            (x[0], x[1], x[2]) = (1.0, (number % 3) as f64, (number % 5) as f64);
            (x, 100.0 - 10.0 * x[1] - 5.0 * x[2])
        };
        let rows: Vec<(Effects, f64)> = (0..30).map(row).collect();
        let all: Vec<usize> = (0..rows.len()).collect();
        let mut used = varied(&rows);
        let effects = least_squares_without_negative(&rows, &all, &mut used, 2).unwrap();
        assert_eq!((&used[..], effects[2]), (&[0, 1][..], 0.0));
        assert!(effects[1] < -5.0, "{effects:?}");
        let effects = least_squares_without_negative(&rows, &all, &mut used, 0).unwrap();
        assert_eq!((&used[..], effects[1]), (&[0][..], 0.0));
    }

    #[test]
    fn influence_of_transfers_between_processors_is_recovered() {
        // Two of seven runs have processors that are further from each other.
        let moved = |(number, run): (usize, Run)| {
            let transfer_ns = if number % 7 < 2 { 300.0 } else { 100.0 };
            let frames = 0.5 * (2.0 - run.setting.hit_ratio);
            let crossing = f64::from(u8::from(run.setting.workers > 1));
            let more = (transfer_ns - 100.0) * frames * (1.8 + 2.0 * crossing);
            let cpu_ns = run.cpu_ns.iter().map(|ns| ns + (more * run.interests as f64) as u64);
            let sent = 40_000 + 500 * number as u64;
            let satisfied = sent - 100 * (number as u64 % 5);
            let per_sent = 300.0 + 2.0 * (transfer_ns - 100.0);
            let generator_cpu_ns = 50_000_000 + (per_sent * sent as f64) as u64 + 200 * satisfied;
            let host = Host { transfer_ns, ..Host::default() };
            Run { cpu_ns: cpu_ns.collect(), sent, satisfied, generator_cpu_ns, host, ..run }
        };
        let runs = campaign();
        let near = Calibration::of(&runs, &rig(1024, 4)).unwrap();
        let runs: Vec<Run> = runs.into_iter().enumerate().map(moved).collect();
        let calibration = Calibration::of(&runs, &rig(1024, 4)).unwrap();
        let [one, several] = calibration.transfers;
        assert!((one.effect - 1.8).abs() < 0.2, "{one:?}");
        assert!((several.effect - 3.8).abs() < 0.3, "{several:?}");
        assert!((calibration.generator_transfer - 2.0).abs() < 0.1, "{calibration:?}");
        assert!((one.usual_ns - 100.0).abs() < 1e-9, "{one:?}");
        // A run without the time does not hide it.
        let mut partly = runs.clone();
        partly[6].host.transfer_ns = 0.0;
        let [without, _] = Calibration::of(&partly, &rig(1024, 4)).unwrap().transfers;
        assert!((without.effect - one.effect).abs() < 0.2, "{without:?}");
        assert!(calibration.residual < 1.2 * near.residual, "{}", calibration.residual);
        let setting = Setting { workers: 1, ..runs[0].setting };
        let usual_ns = near.saturated_ns(&setting, None);
        assert!((calibration.saturated_ns(&setting, None) / usual_ns - 1.0).abs() < 0.02);
        let far = calibration.speed(&Run { setting, ..runs[0].clone() });
        let expected = 1.0 + 200.0 * 1.8 / usual_ns;
        assert!((far.forwarder / expected - 1.0).abs() < 0.05, "{far:?} {expected}");
        let deviation = calibration.transfer_deviation(&setting);
        assert!((0.02..0.3).contains(&deviation), "{deviation}");
        // Runs without it, and transfers that hardly vary, tell nothing.
        assert_eq!(near.transfers, [Transfer::default(); 2]);
        assert_eq!(near.speed(&runs[0]), Speed::USUAL);
    }

    #[test]
    fn latencies_are_those_of_runs_with_a_similar_load() {
        // Twice as long at low loads as at high ones, as where threads sleep.
        let with_latency = |run: Run| {
            let latency_ns = if run.setting.rate < 150e3 {
                [80_000, 120_000, 180_000]
            } else {
                [40_000, 60_000, 90_000]
            };
            Run { latency_ns, ..run }
        };
        let at = |rate: f64| {
            campaign().into_iter().map(move |run| {
                let sent = (rate * run.seconds) as u64;
                Run { sent, setting: Setting { rate, ..run.setting }, ..run }
            })
        };
        let runs: Vec<Run> = at(100e3).chain(at(220e3)).map(with_latency).collect();
        let calibration = Calibration::of(&runs, &rig(1024, 8)).unwrap();
        assert!(calibration.latency_residual < 0.2, "{}", calibration.latency_residual);
        for (rate, expected) in [(100e3, 180_000.0), (220e3, 90_000.0)] {
            let setting = Setting { rate, hit_ratio: 0.0, ..campaign()[0].setting };
            let found =
                calibration.predict(&setting, Speed::USUAL, (0.05, 0.1), 1).unwrap().latency_ns[1];
            assert!((found / expected - 1.0).abs() < 0.25, "{rate}: {found}");
        }
        let few = |runs: usize| {
            let discrepancies = calibration.discrepancies[..runs].to_vec();
            Calibration { discrepancies, ..calibration.clone() }.latency_factors(0.95)
        };
        assert!(few(0).is_none() && few(18).is_none(), "19 runs have 19 in 20 below the largest");
        let (low, high) = calibration.latency_factors(0.95).unwrap();
        // More than one in twenty has a load between the two.
        assert!(low < 1.0 && high > 1.0 && high < 2.1, "{low} {high}");
    }

    /// While a queue grows, all that is sent in the window is satisfied later, but a run counts the answers within the window.
    #[test]
    fn predicted_runs_are_counted_as_measured_ones() {
        let record =
            |created_ps, ended_ps, outcome| Record { ended_ps, outcome, ..Record::new(created_ps) };
        let records = [
            record(50, 120, Outcome::Satisfied),
            record(60, 90, Outcome::Satisfied),
            record(100, 110, Outcome::Satisfied),
            record(110, 115, Outcome::QueueFull(0)),
            record(150, 200, Outcome::Satisfied),
            record(199, 250, Outcome::Satisfied),
        ];
        let counts = Counts::of(&records, (100, 200));
        assert!((counts.satisfied - 0.5).abs() < 1e-9 && (counts.unsatisfied - 0.25).abs() < 1e-9);
        assert!((counts.latency_ns[1] - 0.07).abs() < 1e-9, "{:?}", counts.latency_ns);
        // At 1.25 times the capacity a queue of 4096 is not full within 60 ms, and a fifth of the answers is not there yet.
        let calibration = Calibration::of(&campaign(), &rig(4096, 8)).unwrap();
        let near = Setting { workers: 1, hit_ratio: 0.0, ..campaign()[0].setting };
        let rate = 1.25e9 / calibration.saturated_ns(&near, None);
        let run =
            calibration.predict(&Setting { rate, ..near }, Speed::USUAL, (0.01, 0.05), 1).unwrap();
        assert!(run.unsatisfied < 1e-9, "{run:?}");
        assert!((run.satisfied - 0.8).abs() < 0.02, "{run:?}");
    }

    #[test]
    fn throughput_of_overloaded_runs_corrects_the_capacity() {
        let known = Calibration::of(&campaign(), &rig(64, 8)).unwrap();
        assert_eq!(known.throughput, [Throughput::default(); 2]);
        // A worker has a tenth less of its processor than its processor time shows, and runs differ by three percent.
        let slower = |run: Run| {
            let rate = 1.5e9 * run.setting.workers as f64 / known.saturated_ns(&run.setting, None);
            let (seconds, sent) = (0.1, (0.1 * rate) as u64);
            let noise = TraceRandom::new(4, 0).draw(StreamId(1), run.number as u64).normal();
            let satisfied = (sent as f64 * 0.9 * libm::exp(0.03 * noise) / 1.5) as u64;
            Run { seconds, sent, satisfied, refused: sent - satisfied, ..run }
        };
        let runs: Vec<Run> = campaign().into_iter().map(slower).collect();
        let calibration = Calibration::of(&runs, &rig(64, 8)).unwrap();
        let found = calibration.throughput[0];
        assert!(found.runs > 50 && (found.factor - 0.9).abs() < 0.03, "{found:?}");
        assert!((0.02..0.06).contains(&found.deviation), "{found:?}");
        let setting = Setting { workers: 1, hit_ratio: 0.0, ..campaign()[0].setting };
        let rate = |of: &Calibration| of.capacity(&setting, 0.001, (0.1, 0.2)).unwrap().rate;
        assert!((rate(&calibration) / rate(&known) - 0.9).abs() < 0.03);
        let (low, high) = calibration.throughput_factors(&setting, 0.95);
        assert!(low < 0.97 && high > 1.03 && high < 1.15, "{low} {high}");
    }

    #[test]
    fn throughput_of_few_runs_has_a_wider_interval() {
        let known = Throughput { runs: 4, factor: 1.0, deviation: 0.1 };
        // Student's quantile with three degrees of freedom is 3.182.
        let expected = 0.1 * 3.182_446 / 1.959_964 * sqrt(1.25);
        assert!((known.deviation_at(0.95) - expected).abs() < 1e-5);
        let many = Throughput { runs: 100_000, ..known };
        assert!((many.deviation_at(0.95) - 0.1).abs() < 1e-4);
        assert!(known.deviation_at(0.0).is_finite() && known.deviation_at(1.0).is_finite());
        assert!(Throughput::default().deviation_at(0.95).abs() < f64::EPSILON);
        let calibration = Calibration::of(&campaign(), &rig(64, 8)).unwrap();
        for deviation in [-0.1, f64::NAN, f64::INFINITY] {
            let throughput = [known, Throughput { deviation, ..known }];
            let wrong = Calibration { throughput, ..calibration.clone() };
            assert!(wrong.fault().is_some_and(|fault| fault.starts_with("throughput")));
        }
    }

    #[test]
    fn time_to_wake_up_is_that_of_the_latencies_of_calm_runs() {
        let known = Calibration {
            turn_ns: 20_000,
            wake_up_ns: 30_000.0,
            ..Calibration::of(&campaign(), &rig(4096, 8)).unwrap()
        };
        let known = Calibration { discrepancies: Vec::new(), ..known };
        let woken = |run: Run| {
            let (_, _, predicted) = known.predict_run(&run, (0.02, 0.1)).unwrap();
            let latency_ns = predicted.latency_ns.map(|ns| ns as u64);
            Run { latency_ns: [latency_ns[0], latency_ns[1], latency_ns[1]], ..run }
        };
        let runs: Vec<Run> = campaign().into_iter().map(woken).collect();
        let rig = Rig { turn_ns: 20_000, ..rig(4096, 8) };
        let found = Calibration::of(&runs, &rig).unwrap();
        assert!((found.wake_up_ns - 30_000.0).abs() < 1.0, "{}", found.wake_up_ns);
        assert!(found.latency_residual < 0.05, "{}", found.latency_residual);
    }

    #[test]
    fn campaigns_that_do_not_suffice_are_refused() {
        let few: Vec<Run> = campaign().into_iter().take(10).collect();
        assert!(matches!(
            Calibration::of(&few, &rig(1024, 2)),
            Err(CalibrateError::TooFewRuns { runs: 10, .. })
        ));
        let untraced: Vec<Run> =
            campaign().into_iter().map(|run| Run { services: None, ..run }).collect();
        assert_eq!(Calibration::of(&untraced, &rig(1024, 2)), Err(CalibrateError::NotTraced));
        let idle = campaign().into_iter().map(|run| Run { cpu_ns: vec![0], ..run });
        let runs: Vec<Run> = campaign().into_iter().chain(idle).collect();
        let calibration = Calibration::of(&runs, &rig(1024, 2)).unwrap();
        assert_eq!((calibration.runs, calibration.fault()), (64, None));
    }

    #[test]
    fn settings_outside_of_the_measured_ones_are_named() {
        let calibration = Calibration::of(&campaign(), &rig(1024, 2)).unwrap();
        let inside = campaign()[1].setting;
        assert_eq!(calibration.extrapolations(&inside), Vec::<String>::new());
        let outside = Setting { workers: 8, payload: 4000, ..inside };
        let notes = calibration.extrapolations(&outside);
        assert_eq!(notes.len(), 2);
        assert_eq!(notes[0], "8 workers: 1 to 2 were measured");
    }

    #[test]
    fn half_width_is_the_deviation_of_normal_values_and_ignores_outliers() {
        let mut values: Vec<f64> =
            (1..1000).map(|i| normal_quantile(f64::from(i) / 1000.0)).collect();
        assert!((half_width(values.clone()) - 1.0).abs() < 0.01);
        values.extend([1e9, -1e9]);
        assert!((half_width(values) - 1.0).abs() < 0.02);
        assert!(half_width(Vec::new()).abs() < f64::EPSILON);
    }

    /// The campaign on a machine that pauses each processor by itself for a tenth of the time, charged to what runs.
    fn paused_campaign() -> (crate::network::Pauses, Vec<Run>) {
        let planted = crate::network::Pauses {
            interval: Distribution::Exponential { mean: 9e9 },
            length: Distribution::Gamma { shape: 4.0, scale: 0.25e9 },
            stations: vec![],
            consumers: vec![],
        };
        let paused = |run: Run| {
            let watch = |number: u64| {
                let (processor, begin_ns) = (number as usize % 2, number / 2 * 700_000_000);
                let random = TraceRandom::new(9, run.number as u32);
                let times = (begin_ns + 50_000_000, 100_000_000);
                Watch { begin_ns, ..crate::pauses::watch(&planted, processor, random, times) }
            };
            let pauses = (0..4).map(watch).collect();
            let cpu_ns = run.cpu_ns.iter().map(|ns| (*ns as f64 / 0.9) as u64).collect();
            Run { pauses, cpu_ns, ..run }
        };
        let runs = campaign().into_iter().map(paused).collect();
        (planted, runs)
    }

    #[test]
    fn planted_pauses_are_recovered_and_taken_off() {
        let (planted, runs) = paused_campaign();
        let calibration = Calibration::of(&runs, &rig(1024, 2)).unwrap();
        let pauses = calibration.pauses.as_ref().unwrap();
        assert!((pauses.share - 0.1).abs() < 0.01 && !pauses.are_together(), "{pauses:?}");
        for (own, known) in
            [(&pauses.law.interval, &planted.interval), (&pauses.law.length, &planted.length)]
        {
            let ratio = own.distribution().mean() / known.mean();
            assert!((ratio - 1.0).abs() < 0.1, "{ratio}");
        }
        for (name, (found, expected)) in EFFECTS.iter().zip(calibration.effects.iter().zip(TRUE)) {
            assert!(
                (found - expected).abs() < 0.05 * expected + 15.0,
                "{name}: {found} {expected}"
            );
        }
        // The model of a setting has them, on the processors that the campaign has.
        let setting = Setting { workers: 1, hit_ratio: 0.0, ..runs[0].setting };
        let network = |calibration: &Calibration, workers| {
            let setting = Setting { workers, ..setting };
            let text = calibration.model_text(&setting, 0.1, 0.2).unwrap();
            Model::parse(&text).unwrap().network
        };
        let processors = |network: Network| network.pauses.map(|p| (p.stations, p.consumers));
        let own = (vec![Some(0), Some(1), Some(1)], vec![Some(1); 2]);
        assert_eq!(processors(network(&calibration, 1)), Some(own));
        let shared = (vec![Some(0), Some(1), Some(1), Some(1)], vec![Some(1); 2]);
        assert_eq!(processors(network(&calibration, 2)), Some(shared));
        let elsewhere = (vec![Some(0), None, None], vec![None; 2]);
        let far = calibration.clone().without_generator();
        assert_eq!(processors(network(&far, 1)), Some(elsewhere));
        let calm = calibration.clone().without_pauses();
        assert_eq!(processors(network(&calm, 1)), None);
        // And it is written and read with the calibration.
        let text = toml::to_string(&calibration).unwrap();
        assert_eq!(toml::from_str::<Calibration>(&text).unwrap(), calibration);
    }

    /// Where each run has pauses of its own, the stated interval of a capacity has to contain what a few runs show.
    #[test]
    fn capacities_of_runs_lie_in_their_intervals() {
        // Forty times as slow, so that few Interests suffice; a pause fills a queue of 48 at three quarters of the load.
        let slow = |run: Run| {
            let cpu_ns = run.cpu_ns.iter().map(|ns| 40 * ns).collect();
            let slower = |mut histogram: Histogram| {
                for bucket in &mut histogram.buckets {
                    *bucket = (40 * bucket.0, 40 * bucket.1, bucket.2);
                }
                histogram.sum_ns *= 40;
                histogram
            };
            let services = run.services.map(|services| ServiceTimes {
                interest_dispatch: slower(services.interest_dispatch),
                interest_forwarding: slower(services.interest_forwarding),
                data_dispatch: slower(services.data_dispatch),
                data_forwarding: slower(services.data_forwarding),
                ..services
            });
            let (sent, satisfied) = (run.sent / 40, run.satisfied / 40);
            Run { sent, satisfied, cpu_ns, services, ..run }
        };
        let longer = |mut run: Run| {
            run.pauses
                .iter_mut()
                .flat_map(|watch| &mut watch.pauses)
                .for_each(|p| p.1 += 2_000_000);
            run
        };
        let (_, runs) = paused_campaign();
        let runs: Vec<Run> = runs.into_iter().map(slow).map(longer).collect();
        let calibration = Calibration::of(&runs, &rig(48, 8)).unwrap();
        let calm = calibration.clone().without_pauses();
        let setting = Setting { workers: 1, hit_ratio: 0.0, ..runs[0].setting };
        let times = (0.1, 0.4);
        let stated = calibration.capacity_of_runs(&setting, 0.001, times, 0.95).unwrap();
        assert!(stated.low < stated.rate && stated.rate < stated.high, "{stated:?}");
        assert!(stated.deviation > calibration.deviation(&setting), "{stated:?}");
        let without = calm.capacity_of_runs(&setting, 0.001, times, 0.95).unwrap();
        assert!(without.rate > 1.1 * stated.rate && without.deviation < 0.01, "{without:?}");
        // Measurements with other random numbers.
        let measured = |number: u32| {
            let rates = (0..3).map(|run| {
                let trace = 1000 + 3 * number + run;
                let is_enough = |setting: &Setting| {
                    let one = calibration.predict_traces(
                        setting,
                        Speed::USUAL,
                        times,
                        trace..trace + 1,
                    )?;
                    Ok(one.unsatisfied <= 0.001)
                };
                calibration.highest_rate(&setting, 1.02, is_enough).unwrap()
            });
            median(rates.collect())
        };
        let inside = (0..30).map(measured).filter(|rate| (stated.low..=stated.high).contains(rate));
        let count = inside.count();
        assert!(count >= 26, "{count} of 30");
        // For long, what is lost in few bad runs counts, too.
        let long = calibration.capacity(&setting, 0.001, times).unwrap();
        assert!(long.rate < without.rate && long.deviation > 0.0, "{long:?} {stated:?}");
    }

    #[test]
    fn times_as_long_as_pauses_are_cut_from_a_shape() {
        let mut measured = histogram(600);
        let clean = Shape::of(&measured).unwrap();
        measured.add(&Histogram {
            count: 1,
            sum_ns: 5_000_000,
            buckets: vec![(4_900_000, 5_100_000, 1)],
        });
        let disturbed = Shape::of(&measured).unwrap();
        assert!((clean.quantiles[32] - disturbed.quantiles[32]).abs() < 0.02);
        assert!((disturbed.scaled(700e3).mean() - 700e3).abs() < 1.0);
    }
}
