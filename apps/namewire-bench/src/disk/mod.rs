//! The disk tier of the Content Store: hits per second, write amplification, memory per packet and time to restart, beside
//! `fio` with the same pattern. No packets are forwarded: the share, the file and its threads are those of the forwarder.

mod fio;
mod options;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use ndn_dataplane::{DiskFile, DiskPort, DiskPortOptions};
use ndn_disk::{Admission, DiskValues, Packet, ShareOptions, Superblock};
use ndn_forwarding::{Counters, Shard, ShardConfig, StrategyTable, UnsolicitedPolicy};
use ndn_sys::clock;
use ndn_sys::poll::{Events, Poller};
use ndn_table::{FibConfig, FibWriter, NameHasher, PcctConfig};
use ndn_types::Timestamp;
use ndn_types::random::mix;
use serde::Serialize;

pub use fio::FioReport;
use fio::ReadLengths;
pub use options::DiskOptions;

const KEY: [u8; 16] = *b"key of the bench";
/// Maximum time of a wait for a thread.
const WAIT_MAX: Duration = Duration::from_millis(10);
/// Maximum time for which nothing ends.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Results of the bench.
#[derive(Debug, Clone, Serialize)]
pub struct DiskReport {
    /// Whether the page cache was bypassed.
    pub is_direct: bool,
    /// Number of threads that read; `None` with io_uring.
    pub threads: Option<usize>,
    /// Packets written for the first time.
    pub admitted: u64,
    /// Packets written again.
    pub survivors: u64,
    /// Bytes of these packets and of what was written for them.
    pub admitted_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// `written_bytes / admitted_bytes`.
    pub write_amplification: f64,
    /// Packets admitted per second.
    pub admitted_per_second: f64,
    /// Packets that the index has after the restart.
    pub recovered: u64,
    /// Time of the restart, from the open file to the complete index.
    pub restart_seconds: f64,
    /// Memory of the index, of the segment lists and of the second-touch filter, by packets that the index has room for.
    pub index_bytes_per_packet: f64,
    /// The same memory.
    pub index_bytes: u64,
    /// Packets read and verified per second.
    pub hits_per_second: f64,
    /// Mean time of a read, microseconds.
    pub read_mean_us: f64,
    /// Reads without a packet.
    pub failed_reads: u64,
    /// `fio` with io_uring or the same threads, and the block sizes that packets need; `None` if it is not installed.
    pub fio: Option<FioReport>,
    /// `hits_per_second` by that of `fio`.
    pub of_fio: Option<f64>,
}

/// Fills a disk, restarts, and reads.
///
/// # Errors
/// The file cannot be used.
pub fn run_disk(options: &DiskOptions, mut note: impl FnMut(String)) -> anyhow::Result<DiskReport> {
    let is_new = !options.path.exists();
    let report = Bench::open(options)?.run(&mut note);
    if is_new {
        std::fs::remove_file(&options.path)
            .with_context(|| format!("cannot remove {}", options.path.display()))?;
    }
    report
}

/// A Data TLV of `length` bytes with the name `/bench/NUMBER`.
fn packet(number: u64, length: usize, out: &mut Vec<u8>) {
    out.clear();
    let value = u16::try_from(length.max(64) - 4).unwrap_or(8796);
    out.extend_from_slice(&[6, 253]);
    out.extend_from_slice(&value.to_be_bytes());
    out.extend_from_slice(&[7, 17, 8, 5]);
    out.extend_from_slice(b"bench");
    out.extend_from_slice(&[8, 8]);
    out.extend_from_slice(&number.to_be_bytes());
    out.resize(length.max(64), number.to_le_bytes()[0]);
}

/// Requests that have ended.
#[derive(Debug, Default)]
struct Ended {
    requests: u64,
    hits: u64,
    failed_reads: u64,
}

struct Bench<'a> {
    options: &'a DiskOptions,
    superblock: Superblock,
    shard: Shard,
    port: DiskPort,
    poller: Poller,
    events: Events,
    is_direct: bool,
    packets_max: usize,
}

impl<'a> Bench<'a> {
    fn open(options: &'a DiskOptions) -> anyhow::Result<Self> {
        let mut file = DiskFile::open(&options.path, Some(options.bytes), 1)?;
        let superblock = file.format(1, clock::now(), KEY, 0)?;
        let is_direct = file.is_direct();
        let packets_max = usize::try_from(options.bytes)? / options.packet_bytes.max(256);
        let port = start(Arc::new(file), options, superblock, packets_max)?;
        let poller = Poller::new()?;
        poller.add_waker(port.waker(), 0)?;
        let mut bench = Self {
            options,
            superblock,
            shard: shard(),
            port,
            poller,
            events: Events::with_capacity(1),
            is_direct,
            packets_max,
        };
        bench.wait_for_disk()?;
        Ok(bench)
    }

    fn run(mut self, note: &mut impl FnMut(String)) -> anyhow::Result<DiskReport> {
        let (begin, written) = (clock::now(), self.fill(note)?);
        let fill_seconds = seconds_since(begin);
        let (restart_seconds, recovered) = self.restart()?;
        note(format!("{recovered} packets after a restart in {restart_seconds:.2} s"));
        let newest = written.admitted;
        let threads = self.port.readers();
        let lengths = ReadLengths::of(self.options.packet_bytes);
        let (mut hits, mut failed_reads, mut seconds) = (0, 0, 0.0);
        let (mut fio, mut iops): (Option<FioReport>, f64) = (None, 0.0);
        for turn in 0..DiskOptions::TURNS {
            let read = self.read(newest, recovered, u64::from(turn))?;
            hits += read.0;
            failed_reads += read.1;
            seconds += read.2;
            if turn == 0 || fio.is_some() {
                fio = fio::run(self.options, threads, lengths, note);
                iops += fio.as_ref().map_or(0.0, |fio| fio.iops);
            }
        }
        let fio = fio.map(|fio| FioReport { iops: iops / f64::from(DiskOptions::TURNS), ..fio });
        let values = self.values()?;
        let hits_per_second = hits as f64 / seconds;
        Ok(DiskReport {
            is_direct: self.is_direct,
            threads,
            admitted: written.admitted,
            survivors: written.survivors,
            admitted_bytes: written.admitted_bytes,
            written_bytes: written.written_bytes,
            write_amplification: written.written_bytes as f64
                / written.admitted_bytes.max(1) as f64,
            admitted_per_second: written.admitted as f64 / fill_seconds,
            recovered,
            restart_seconds,
            index_bytes_per_packet: values.index_bytes as f64 / self.packets_max as f64,
            index_bytes: values.index_bytes,
            hits_per_second,
            read_mean_us: values.read_ns as f64 / 1000.0 / values.reads.max(1) as f64,
            failed_reads,
            of_fio: fio.as_ref().map(|fio| hits_per_second / fio.iops.max(1.0)),
            fio,
        })
    }

    fn values(&self) -> anyhow::Result<DiskValues> {
        let disk = self.shard.disk().context("the disk is not in use")?;
        if let Some(reason) = disk.failure() {
            bail!("the disk failed: {reason}");
        }
        Ok(disk.counters().values())
    }

    /// Accepts what the threads have done, and passes requests to them.
    fn drive(&mut self) -> Ended {
        let mut ended = Ended::default();
        while let Some(completion) = self.port.next_completion(&mut self.shard) {
            ended.requests += 1;
            let Some(disk) = self.shard.disk_mut() else { continue };
            if let Some(answer) = disk.complete(now(), completion) {
                if answer.packet().is_some() {
                    ended.hits += 1;
                } else {
                    ended.failed_reads += 1;
                }
                disk.recycle(answer);
            }
        }
        if let Some(disk) = self.shard.disk_mut() {
            disk.poll(now());
        }
        self.port.send_requests(&mut self.shard);
        ended
    }

    /// Waits until a thread has something to report, as a worker without packets does.
    fn wait(&mut self) -> anyhow::Result<()> {
        self.poller.wait(&mut self.events, Some(WAIT_MAX))?;
        self.port.waker().reset();
        Ok(())
    }

    fn wait_for_disk(&mut self) -> anyhow::Result<()> {
        let begin = clock::now();
        while self.shard.disk().is_none() {
            self.drive();
            ensure!(seconds_since(begin) < TIMEOUT.as_secs_f64(), "the index is not rebuilt");
            self.wait()?;
        }
        Ok(())
    }

    /// Offers packets; every fourth is offered a second time by a read before its segment is overwritten, if it is found.
    fn fill(&mut self, note: &mut impl FnMut(String)) -> anyhow::Result<DiskValues> {
        let held = self.options.bytes as f64 / (self.options.packet_bytes + 48) as f64;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a positive number of packets"
        )]
        let count = (held * self.options.rounds) as u64;
        let mut wire = Vec::new();
        note(format!("{count} packets of {} bytes", self.options.packet_bytes));
        for number in 0..count {
            packet(number, self.options.packet_bytes, &mut wire);
            loop {
                let Some(disk) = self.shard.disk_mut() else { bail!("the disk is not in use") };
                let refused = disk.counters().writes_refused.value();
                disk.offer(mix(number), Packet { wire: &wire, fresh_until: Timestamp::ZERO }, true);
                let is_taken = disk.counters().writes_refused.value() == refused;
                if is_taken {
                    break;
                }
                if self.drive().requests == 0 {
                    self.wait()?;
                }
                self.values()?;
            }
            if number % 64 == 0 {
                self.drive();
            }
        }
        self.flush()?;
        self.values()
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        let begin = clock::now();
        loop {
            let Some(disk) = self.shard.disk_mut() else { bail!("the disk is not in use") };
            if disk.is_flushed() {
                return Ok(());
            }
            disk.flush();
            self.drive();
            self.wait()?;
            ensure!(seconds_since(begin) < TIMEOUT.as_secs_f64(), "writes do not end");
        }
    }

    /// Closes and opens the file again. Returns the time that it took, and the number of packets.
    fn restart(&mut self) -> anyhow::Result<(f64, u64)> {
        self.shard = shard();
        let file = self.port.file();
        let begin = clock::now();
        self.port = start(file, self.options, self.superblock, self.packets_max)?;
        self.poller.add_waker(self.port.waker(), 0)?;
        self.wait_for_disk()?;
        Ok((seconds_since(begin), self.values()?.recovered))
    }

    /// Reads packets at random for a turn. Returns hits, failures and the time.
    fn read(&mut self, newest: u64, recovered: u64, turn: u64) -> anyhow::Result<(u64, u64, f64)> {
        ensure!(recovered > 0, "nothing was written");
        let (begin, mut hits, mut failed, mut in_flight) = (clock::now(), 0, 0, 0);
        let mut random = mix(turn);
        let turn_seconds = (self.options.duration / DiskOptions::TURNS).as_secs_f64();
        // The share takes the time of this for the begin of the first reads.
        self.drive();
        let span = recovered.saturating_sub(recovered / 50).max(1);
        loop {
            let is_over = seconds_since(begin) >= turn_seconds;
            let Some(disk) = self.shard.disk_mut() else { bail!("the disk is not in use") };
            while in_flight < self.options.depth && !is_over {
                random = mix(random.wrapping_add(0x1234_5677));
                let number = newest - 1 - random % span;
                let reads = disk.counters().reads.value();
                disk.begin_read(mix(number), random);
                if disk.counters().reads.value() == reads {
                    // It is being read already, or was overwritten.
                    break;
                }
                in_flight += 1;
            }
            let ended = self.drive();
            hits += ended.hits;
            failed += ended.failed_reads;
            in_flight = in_flight.saturating_sub(usize::try_from(ended.hits + ended.failed_reads)?);
            if is_over && in_flight == 0 {
                return Ok((hits, failed, seconds_since(begin)));
            }
            self.values()?;
            if ended.requests == 0 && in_flight > 0 {
                self.wait()?;
            }
        }
    }
}

fn start(
    file: Arc<DiskFile>,
    options: &DiskOptions,
    superblock: Superblock,
    packets_max: usize,
) -> anyhow::Result<DiskPort> {
    let share = ShareOptions {
        superblock,
        share: 0,
        packets_max,
        reads_max: options.depth,
        admission: Admission::All,
        unix_origin_ms: 0,
    };
    Ok(DiskPort::start(file, DiskPortOptions { share, readers: options.threads })?)
}

/// A shard with the smallest tables: it carries the share only.
fn shard() -> Shard {
    let (strategies, default_strategy) = StrategyTable::with_best_route();
    let hasher = NameHasher::new(KEY);
    let mut fib = FibWriter::new(&FibConfig { entries_max: 16, hasher, default_strategy });
    let config = ShardConfig {
        shard: 0,
        hasher,
        pcct: PcctConfig::with_capacity(64, 64, now()),
        dead_nonce_lifetime_ms: 6000,
        dead_nonce_capacity: 64,
        strategy_timer_capacity: 64,
        unsolicited: UnsolicitedPolicy::DropAll,
    };
    let counters = Arc::<Counters>::default();
    Shard::new(&config, fib.publish(), Arc::new(strategies), counters, now())
}

fn now() -> Timestamp {
    Timestamp::from_nanos(clock::now())
}

fn seconds_since(begin: u64) -> f64 {
    (clock::now() - begin) as f64 / 1e9
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn small_disk_is_measured() {
        measure_small_disk("io_uring", None);
        measure_small_disk("threads", Some(2));
    }

    fn measure_small_disk(title: &str, threads: Option<usize>) {
        let directory =
            std::env::temp_dir().join(format!("bench-disk-{title}-{}", std::process::id()));
        let options = DiskOptions {
            path: directory.clone(),
            bytes: 8 << 20,
            packet_bytes: 1100,
            rounds: 1.5,
            depth: 8,
            threads,
            duration: Duration::from_millis(200),
        };
        let report = run_disk(&options, |_| {}).unwrap();
        assert!(!directory.exists());
        assert!(threads.is_none() || report.threads == threads, "{report:?}");
        assert!(report.hits_per_second > 0.0 && report.failed_reads == 0, "{report:?}");
        assert!((1.0..1.2).contains(&report.write_amplification), "{report:?}");
        assert!(report.index_bytes_per_packet <= 32.0 + 8.0, "{report:?}");
        assert!(report.recovered > 4000, "{report:?}");
    }
}
