//! The record of a run of the real forwarder, a line of a campaign.

use libm::sqrt;
use serde::{Deserialize, Serialize};

use crate::assembly::Placement;
use crate::pauses::Watch;

/// Equipment and procedure of a campaign: the same in all of its runs.
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

/// Faces of consumers, and of producers, in a campaign.
pub const FACES: usize = 2;

/// Prefixes in a campaign.
pub const PREFIXES: usize = 8;

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
    pub(super) fn remote_share(&self) -> f64 {
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

impl Histogram {
    /// The quantile of `count` values, interpolated within a bucket.
    pub(super) fn quantile(&self, level: f64, count: u64) -> Option<f64> {
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

    pub(super) fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64)
    }
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
    /// Mean time of the transfer of a cache line from the processor of a worker to that of the generator, in nanoseconds: that of
    /// a reading of the lengths of all queues, which workers have changed before. It depends on where the host runs the
    /// processors. 0 if not measured.
    #[serde(default)]
    pub transfer_ns: f64,
    /// Mean transfer time in the slowest part of the run over that in the fastest one, less 1.
    #[serde(default)]
    pub transfer_change: f64,
}

impl Host {
    /// Geometric mean of the times before and after the run, in nanoseconds; 0 if not measured.
    #[must_use]
    pub fn reference_ns(&self) -> f64 {
        sqrt(self.reference_ns[0] * self.reference_ns[1])
    }
}

/// A disturbance of a try.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Disturbance {
    /// Other programs of this machine ran on the processor of a worker, or of the generator.
    OtherPrograms,
    /// The host took the processors.
    Stolen,
    /// The reference load took longer than usual, or changed during the try.
    Slowed,
    /// The host moved a processor.
    Moved,
    /// The generator sent less than intended.
    RateNotReached,
}

impl core::fmt::Display for Disturbance {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::OtherPrograms => "other programs ran",
            Self::Stolen => "the host took processors",
            Self::Slowed => "the reference load was slow, or changed",
            Self::Moved => "the host moved a processor",
            Self::RateNotReached => "the generator did not reach the rate",
        })
    }
}

/// Packets in a queue, by samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueLength {
    /// Number of samples.
    pub samples: u64,
    /// Sum of their lengths.
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

    /// Adds the samples of another queue.
    pub fn add(&mut self, other: &Self) {
        self.samples += other.samples;
        self.sum += other.sum;
        self.most = self.most.max(other.most);
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

impl QueueLengths {
    /// Adds the samples of other queues.
    pub fn add(&mut self, other: &Self) {
        self.interests.add(&other.interests);
        self.data.add(&other.data);
        self.rings.add(&other.rings);
    }
}

/// The shortest stall.
pub const STALL_MIN_NS: u64 = 500_000;

/// Times of at least [`STALL_MIN_NS`] by which a thread was late.
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
    /// Adds a time of at least [`STALL_MIN_NS`]; shorter ones are ignored.
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
    /// The reason of each; files of former versions do not have them.
    #[serde(default)]
    pub discarded_for: Vec<Disturbance>,
    /// The disturbance of this try, if all tries were disturbed more than is allowed: this one the least.
    #[serde(default)]
    pub disturbed_by: Option<Disturbance>,
    /// The host during the run.
    #[serde(default)]
    pub host: Host,
    /// Pauses of the processors of workers and generator, before and after the run.
    #[serde(default)]
    pub pauses: Vec<Watch>,
    /// Length of the window.
    pub seconds: f64,
    /// Seconds over which the counters of the workers (Interests, hits, bursts, sleeps, processor time, delay) were counted: they
    /// begin a little before the window. 0 in campaigns that do not have it: taken as the window.
    #[serde(default)]
    pub counted_seconds: f64,
    /// Interests that were due: sent, or refused by the queue of a face.
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
    /// Time that each worker could not run because others than generators did.
    pub delayed_ns: Vec<u64>,
    /// Processor time of the threads that send, answer and receive.
    pub generator_cpu_ns: u64,
    /// Time that this thread could not run because others did, if it has a processor alone.
    #[serde(default)]
    pub generator_delayed_ns: u64,
    /// Times by which turns of the generator began late; of several, that of the one that was late for longest.
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
    /// Interests and Data that found a queue full, over the Interests sent.
    #[must_use]
    pub fn unsatisfied(&self) -> f64 {
        self.refused as f64 / self.sent.max(1) as f64
    }

    /// Processor time of the workers per Interest that they took, in nanoseconds.
    pub(super) fn cost_ns(&self) -> f64 {
        self.cpu_ns.iter().sum::<u64>() as f64 / self.interests.max(1) as f64
    }

    pub(super) fn measured_hit_ratio(&self) -> f64 {
        self.hits as f64 / self.interests.max(1) as f64
    }

    pub(super) fn sleeps_per_interest(&self) -> f64 {
        self.sleeps as f64 / self.interests.max(1) as f64
    }

    /// Interests sent per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.sent as f64 / self.seconds
    }

    /// Seconds over which the workers were counted.
    fn worker_seconds(&self) -> f64 {
        if self.counted_seconds > 0.0 { self.counted_seconds } else { self.seconds }
    }

    /// Processor time of the busiest worker, as a share of the time.
    pub(super) fn busiest(&self) -> f64 {
        let cpu_ns = self.cpu_ns.iter().copied().max().unwrap_or(0);
        cpu_ns as f64 / (self.worker_seconds() * 1e9)
    }

    /// Largest share of the time in which a worker or the generator could not run because others did.
    #[must_use]
    pub fn delayed(&self) -> f64 {
        let longest_ns = self.delayed_ns.iter().copied().max().unwrap_or(0);
        let share = |ns: u64, seconds: f64| ns as f64 / (seconds * 1e9);
        let of_generator = share(self.generator_delayed_ns, self.seconds);
        share(longest_ns, self.worker_seconds()).max(of_generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate::test_campaign::campaign;

    #[test]
    fn delays_are_shares_of_the_time_in_which_they_were_counted() {
        let near = |found: f64, expected: f64| {
            assert!((found - expected).abs() < 1e-9, "{found} {expected}");
        };
        let delayed_ns = vec![26_000_000, 52_000_000];
        let run =
            Run { seconds: 0.5, delayed_ns, generator_delayed_ns: 0, ..campaign()[0].clone() };
        near(run.delayed(), 0.104);
        let run = Run { counted_seconds: 0.52, ..run };
        near(run.delayed(), 0.1);
        let run = Run { generator_delayed_ns: 60_000_000, ..run };
        near(run.delayed(), 0.12);
    }
}
