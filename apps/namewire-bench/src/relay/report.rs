//! Options of the bench, and its report.

use std::time::Duration;

use serde::Serialize;

use super::programs;
use super::statistics::Quartiles;
use super::transport::Transport;

/// Options of the bench.
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
    /// Instead of the default cases, this project's forwarder with these numbers of workers, and 10,000 routes in
    /// every program.
    pub workers: Vec<usize>,
    /// Instead of the default cases, one consumer over each of these, with `payloads` and `windows`.
    pub transports: Vec<Transport>,
    /// Bytes of content in a Data, if transports are selected.
    pub payloads: Vec<usize>,
    /// Exchanges in flight, if transports or workers are selected; empty for the defaults.
    pub windows: Vec<u32>,
    /// Adds variants with names of different lengths, if transports are selected.
    pub mixed: bool,
    /// Content Store capacity of each forwarder, in packets; at least 1.
    pub cs_packets: u32,
}

impl Default for RelayOptions {
    fn default() -> Self {
        Self {
            filter: None,
            stretch: Duration::from_secs(1),
            rounds: 7,
            cpus: (0, 1),
            first_port: 26_363,
            workers: Vec::new(),
            transports: Vec::new(),
            payloads: vec![100, 1200, 8000],
            windows: Vec::new(),
            mixed: false,
            cs_packets: programs::CS_CAPACITY,
        }
    }
}

/// One row: a program in a case.
#[derive(Debug, Clone, Serialize)]
pub struct RelayCase {
    /// `<program>-<transport>-<payload>`.
    pub case: String,
    /// `namewire`, `nfd`, `ndnd`, `dumb` or `testpmd`.
    pub program: &'static str,
    /// Transport of the exchanges.
    pub transport: &'static str,
    /// Bytes of content in a Data.
    pub payload: usize,
    /// Exchanges in flight, over all faces.
    pub window: u32,
    /// Consumer faces.
    pub faces: u32,
    /// Workers of the forwarder; those of other projects have one.
    pub workers: usize,
    /// Processors that the forwarder runs on.
    pub cpus: Vec<usize>,
    /// Routes, with the same number of prefixes in the names.
    pub fib_entries: u32,
    /// Content Store capacity, in packets.
    pub cs_packets: u32,
    /// Whether names (and so packets) differ in length.
    pub mixed: bool,
    /// Interest and Data exchanges per second.
    pub exchanges_per_s: f64,
    /// Interests and Data that the forwarder received per second.
    pub packets_per_s: f64,
    /// Data received by consumers, in Gbit/s, without lower-layer headers.
    pub data_gbit_per_s: f64,
    /// CPU time of the forwarder, user and kernel, per exchange. A program that polls is never idle.
    pub cpu_us_per_exchange: f64,
    /// The same in nanoseconds.
    pub cpu_ns_per_exchange: f64,
    /// Packets received per receiving system call, if the program reports it.
    pub packets_per_read: Option<f64>,
    /// Packets sent per sending system call, if the program reports it.
    pub packets_per_write: Option<f64>,
    /// Share of exchanges without Data.
    pub loss: f64,
    /// Median latency of this closed loop, from sending the Interest to reading the Data.
    pub p50_us: f64,
    /// Its 99th percentile.
    pub p99_us: f64,
    /// CPU time of the generator as a share of the wall time.
    pub generator_busy: f64,
    /// The generator may have been the limit: it was busy for 80 % or more, and not shown to be 1.5 times as fast
    /// with the dumb relay.
    pub generator_bound: bool,
    /// `exchanges_per_s` relative to the dumb relay (or testpmd) in the same case.
    pub share_of_dumb: Option<f64>,
    /// `cpu_us_per_exchange` relative to one worker in the neighbouring round.
    pub cpu_of_one_worker: Option<Quartiles>,
    /// Resident memory of the program after the case, in MiB.
    pub resident_mib: f64,
    /// Smallest and largest `exchanges_per_s` of the rounds.
    pub spread: (f64, f64),
    /// Rounds discarded because of more than 1 % steal time.
    pub rounds_discarded: usize,
}

/// Report of one run of the bench.
#[derive(Debug, Clone, Serialize)]
pub struct RelayReport {
    /// Always `relay`.
    pub bench: &'static str,
    /// The machine.
    pub machine: ndn_pipeline_bench::Machine,
    /// The rows.
    pub cases: Vec<RelayCase>,
    /// Programs that did not take part, with the reasons.
    pub skipped: Vec<String>,
    /// The processor of the generator.
    pub generator_cpu: usize,
    /// CPU time per exchange of the most workers relative to one, by window.
    pub cpu_of_workers: Vec<CpuOfWorkers>,
}

/// Cost of more workers.
#[derive(Debug, Clone, Serialize)]
pub struct CpuOfWorkers {
    /// Exchanges in flight.
    pub window: u32,
    /// Workers.
    pub workers: usize,
    /// CPU time per exchange relative to one worker, by pairs of rounds.
    pub ratio: Quartiles,
}

/// Routes in every program when workers are compared.
pub(crate) const FIB_ENTRIES: u32 = 10_000;
