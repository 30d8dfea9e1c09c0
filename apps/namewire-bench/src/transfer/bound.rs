//! Minimum costs of a transfer, measured in the same run: reading the file, two hops over Unix sockets, the copy into
//! the Content Store, the digest, writing the file.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::thread::CpuSet;
use serde::Serialize;

use super::cases::{Case, FetchedContent, Mode};
use crate::relay::clock::thread_cpu_ns;

/// Bytes in one piece.
const PIECE: usize = 64 * 1024;
/// Bytes of a packet.
const PACKET: usize = 8192;
/// Pieces in one measurement: much more than caches hold, because recently used pages and lines cost less than those
/// of a long file.
const PIECES: u64 = 4096;
/// Pieces through a socket: fewer, because the two threads may wait for each other if other programs run.
const PIECES_PASSED: u64 = 1024;
/// Pieces in measurements of work within a cache.
const PIECES_HASHED: u64 = 1024;
/// Pieces of the destination memory of copies.
const PIECES_STORED: usize = 4096;

/// Nanoseconds of CPU time per byte.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Costs {
    /// SHA-256 of packets, one after the other.
    pub sha256: f64,
    /// SHA-256 of packets, two at a time.
    pub sha256_pairs: f64,
    /// SHA-256 of packets, one per lane of the processor.
    pub sha256_lanes: f64,
    /// Reading from page cache.
    pub file_read: f64,
    /// Writing and reading at both ends of a Unix socket, on two processors, without waits or wake-ups.
    pub socket: f64,
    /// Copying in memory, from recently received bytes to uncached memory.
    pub copy: f64,
    /// Writing to tmpfs.
    pub file_write: f64,
}

impl Costs {
    /// The minimum of each cost, of two measurements around a fetch: other activity only increases costs.
    pub(super) fn better(self, other: Self) -> Self {
        Self {
            sha256: self.sha256.min(other.sha256),
            sha256_pairs: self.sha256_pairs.min(other.sha256_pairs),
            sha256_lanes: self.sha256_lanes.min(other.sha256_lanes),
            file_read: self.file_read.min(other.file_read),
            socket: self.socket.min(other.socket),
            copy: self.copy.min(other.copy),
            file_write: self.file_write.min(other.file_write),
        }
    }

    /// The median of each.
    pub(super) fn fold(all: &[Self]) -> Self {
        let of = |cost: fn(&Self) -> f64| ndn_pipeline_bench::median(all.iter().map(cost));
        Self {
            sha256: of(|costs| costs.sha256),
            sha256_pairs: of(|costs| costs.sha256_pairs),
            sha256_lanes: of(|costs| costs.sha256_lanes),
            file_read: of(|costs| costs.file_read),
            socket: of(|costs| costs.socket),
            copy: of(|costs| costs.copy),
            file_write: of(|costs| costs.file_write),
        }
    }
}

/// Measures the costs repeatedly: the speed of a virtual machine varies, and a fetch is compared with the costs at
/// its time.
pub(super) struct Meter {
    source: fs::File,
    /// Destination of writes.
    path: PathBuf,
    pieces: u64,
    /// Next piece of the file to read.
    next: u64,
    cpus: Vec<usize>,
    bytes: Vec<u8>,
    buffer: Vec<u8>,
    store: Vec<u8>,
}

impl Meter {
    /// Creates a meter that reads `file` and writes in `folder`.
    pub(super) fn new(folder: &Path, file: &Path, cpus: &[usize]) -> anyhow::Result<Self> {
        let source = fs::File::open(file)?;
        let pieces = (source.metadata()?.len() / PIECE as u64).max(1);
        Ok(Self {
            source,
            path: folder.join("costs"),
            pieces,
            next: 0,
            cpus: cpus.to_owned(),
            bytes: vec![0x5a; PIECE],
            buffer: vec![0; PIECE],
            store: vec![1; PIECE * PIECES_STORED],
        })
    }

    /// Measures the current costs.
    pub(super) fn measure(&mut self) -> anyhow::Result<Costs> {
        let (first, count) = (self.next, PIECES.min(self.pieces));
        self.next = (self.next + count) % self.pieces;
        let all = self.pieces;
        let at = move |piece: u64| (first + piece) % all * PIECE as u64;
        let file_read =
            timed(count, |piece| self.source.read_exact_at(&mut self.buffer, at(piece)))?;
        // New pages each time, as for a fetched file.
        let file = fs::File::options().create(true).write(true).truncate(true).open(&self.path)?;
        let file_write =
            timed(count, |piece| file.write_all_at(&self.bytes, piece * PIECE as u64))?;
        drop(file);
        fs::remove_file(&self.path)?;
        let socket = hop(&self.source, at, PIECES_PASSED.min(count), &self.cpus)?;
        let [sha256, sha256_pairs, sha256_lanes] = self.hash()?;
        let copy = timed(PIECES_HASHED, |piece| {
            let piece = usize::try_from(piece).unwrap_or(0);
            let to = piece * 7 % PIECES_STORED * PIECE;
            self.store[to..to + PIECE].copy_from_slice(std::hint::black_box(&self.bytes));
            std::hint::black_box(&mut self.store);
            Ok(())
        })?;
        Ok(Costs { sha256, sha256_pairs, sha256_lanes, file_read, socket, copy, file_write })
    }

    /// SHA-256 of packets, one at a time, two at a time, and in lanes.
    fn hash(&self) -> std::io::Result<[f64; 3]> {
        let (packets, _) = self.bytes.as_chunks::<PACKET>();
        // A piece has half as many packets as there are lanes.
        let twice: Vec<&[u8]> = packets.iter().chain(packets).map(|packet| &packet[..]).collect();
        let one = timed(PIECES_HASHED, |_| {
            for packet in packets {
                std::hint::black_box(ndn_security::sha256(std::hint::black_box(packet)));
            }
            Ok(())
        })?;
        let pairs = timed(PIECES_HASHED, |_| {
            for [one, other] in packets.as_chunks().0 {
                let (one, other) = (std::hint::black_box(one), std::hint::black_box(other));
                std::hint::black_box(ndn_security::sha256_pair(one, other));
            }
            Ok(())
        })?;
        let lanes = timed(PIECES_HASHED / 2, |_| {
            std::hint::black_box(ndn_security::sha256_each(std::hint::black_box(&twice)));
            Ok(())
        })?;
        Ok([one, pairs, lanes / 2.0])
    }
}

/// CPU nanoseconds per byte of both ends of a Unix socket: a thread on one processor writes bytes just read from a
/// file, one on another processor reads them. They alternate, so that no call waits or wakes a thread: that cost is
/// not part of the minimum. Reading the file is not counted.
fn hop(
    source: &fs::File,
    at: impl Fn(u64) -> u64 + Send,
    pieces: u64,
    cpus: &[usize],
) -> std::io::Result<f64> {
    let (mut one, mut other) = UnixStream::pair()?;
    one.set_nonblocking(true)?;
    let (sent, received) = (AtomicU64::new(0), AtomicU64::new(0));
    let total = pieces * PIECE as u64;
    let is_ended = AtomicBool::new(false);
    let (sent, received, is_ended) = (&sent, &received, &is_ended);
    let reading = std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            run_on(cpus.last())?;
            let mut buffer = vec![0_u8; PIECE];
            let (mut spent, mut taken) = (0, 0);
            while taken < total && !is_ended.load(Ordering::Acquire) {
                if sent.load(Ordering::Acquire) == taken {
                    std::thread::yield_now();
                    continue;
                }
                let before = thread_cpu_ns();
                let count = other.read(&mut buffer)?;
                spent += thread_cpu_ns() - before;
                taken += u64::try_from(count).unwrap_or(0);
                received.store(taken, Ordering::Release);
            }
            Ok::<_, std::io::Error>(spent)
        });
        let writer = scope.spawn(move || {
            let mut write = || {
                run_on(cpus.first())?;
                let mut buffer = vec![0_u8; PIECE];
                let (mut spent, mut given) = (0, 0);
                for piece in 0..pieces {
                    source.read_exact_at(&mut buffer, at(piece))?;
                    let mut rest = buffer.as_slice();
                    while !rest.is_empty() {
                        while received.load(Ordering::Acquire) < given && !reader.is_finished() {
                            std::thread::yield_now();
                        }
                        let before = thread_cpu_ns();
                        let count = one.write(rest)?;
                        spent += thread_cpu_ns() - before;
                        rest = &rest[count..];
                        given += u64::try_from(count).unwrap_or(0);
                        sent.store(given, Ordering::Release);
                    }
                }
                Ok::<_, std::io::Error>(spent)
            };
            let written = write();
            is_ended.store(written.is_err(), Ordering::Release);
            let panicked = |_| std::io::Error::other("the reader has panicked");
            let read = reader.join().map_err(panicked)?;
            Ok::<_, std::io::Error>(written? + read?)
        });
        writer.join().map_err(|_| std::io::Error::other("the writer has panicked"))?
    })?;
    Ok(per_byte(reading, pieces))
}

/// Pins this thread to `cpu`.
fn run_on(cpu: Option<&usize>) -> std::io::Result<()> {
    let mut set = CpuSet::new();
    cpu.into_iter().for_each(|cpu| set.set(*cpu));
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// CPU nanoseconds per byte of `step`, called for each of `pieces`.
fn timed(pieces: u64, mut step: impl FnMut(u64) -> std::io::Result<()>) -> std::io::Result<f64> {
    let before = thread_cpu_ns();
    for piece in 0..pieces {
        step(piece)?;
    }
    Ok(per_byte(thread_cpu_ns() - before, pieces))
}

#[expect(clippy::cast_precision_loss, reason = "a time of less than a minute, less than a GiB")]
fn per_byte(nanoseconds: u64, pieces: u64) -> f64 {
    nanoseconds as f64 / (pieces * PIECE as u64) as f64
}

/// Upper bound of the goodput.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bound {
    /// With packets hashed one at a time.
    pub(super) mb_per_s: f64,
    /// With packets hashed in parallel, in the fastest way.
    pub(super) mb_per_s_side_by_side: f64,
}

impl Bound {
    /// `None` for cases with another bound: signatures, many small files, UDP.
    pub(super) fn of(case: &Case, costs: &Costs, cpus: usize) -> Option<Self> {
        if case.udp {
            return None;
        }
        let path = match case.what {
            FetchedContent::Tree => return None,
            // From the Content Store there is one hop.
            FetchedContent::Cached => costs.socket + costs.file_write,
            FetchedContent::File | FetchedContent::Part => {
                costs.file_read + 2.0 * costs.socket + costs.copy + costs.file_write
            }
        };
        let work = match case.mode {
            // The server reads the file once more, and hashes it for the signature and the digest.
            Mode::ManifestCold => path + costs.file_read,
            Mode::Manifest | Mode::Digest | Mode::Hmac | Mode::Unverified => path,
            Mode::Ecdsa | Mode::Ed25519 => return None,
        };
        let hashes = match case.mode {
            Mode::ManifestCold => 3.0,
            // The server signs with the algorithm that the fetcher verifies.
            Mode::Digest | Mode::Hmac => 2.0,
            Mode::Manifest | Mode::Unverified | Mode::Ecdsa | Mode::Ed25519 => 1.0,
        };
        #[expect(clippy::cast_precision_loss, reason = "a few processors")]
        let cpus = cpus as f64;
        let rate = |sha256: f64| cpus * 1000.0 / (work + hashes * sha256);
        Some(Self {
            mb_per_s: rate(costs.sha256),
            mb_per_s_side_by_side: rate(
                costs.sha256.min(costs.sha256_pairs).min(costs.sha256_lanes),
            ),
        })
    }
}
