//! What a transfer cannot do without, measured in the same run: reading the file, two hops over Unix
//! sockets, the copy into the Content Store, the digest, writing the file.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde::Serialize;

use super::cases::{Case, Mode, What};
use crate::relay::clock::thread_cpu_ns;

/// Bytes in one piece.
const PIECE: usize = 64 * 1024;
/// Bytes of a packet.
const PACKET: usize = 8192;
/// Pieces in one measurement.
const PIECES: u64 = 2048;
/// Measurements; the best counts, as for anything that sets a bound.
const ATTEMPTS: usize = 5;

/// Nanoseconds of CPU time per byte.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Costs {
    /// SHA-256 of packets, one after the other.
    pub sha256: f64,
    /// SHA-256 of packets, two at a time.
    pub sha256_pairs: f64,
    /// Reading from page cache.
    pub file_read: f64,
    /// Writing and reading at both ends of a Unix socket, from one thread to another.
    pub socket: f64,
    /// Copying in memory, from and to what is not in the cache.
    pub copy: f64,
    /// Writing to tmpfs.
    pub file_write: f64,
}

impl Costs {
    /// Measures them in `folder`, reading `file`: on as many bytes as a transfer has, because pages
    /// and lines that were used a moment ago cost less than those of a long file.
    pub(super) fn measure(folder: &Path, file: &Path) -> anyhow::Result<Self> {
        let bytes = vec![0x5a_u8; PIECE];
        let mut buffer = vec![0_u8; PIECE];
        let source = fs::File::open(file)?;
        let pieces = (source.metadata()?.len() / PIECE as u64).max(1);
        let offset = |piece: u64| piece * u64::try_from(PIECE).unwrap_or(0);
        let path = folder.join("costs");
        let options = fs::File::options().create(true).write(true).truncate(true).to_owned();
        let file_write = best(2, || {
            // New pages each time, as for a file that is fetched.
            let file = options.open(&path)?;
            timed(pieces, |piece| file.write_all_at(&bytes, offset(piece)))
        })?;
        fs::remove_file(path)?;
        let file_read =
            best(2, || timed(pieces, |piece| source.read_exact_at(&mut buffer, offset(piece))))?;
        let socket = best(ATTEMPTS, || hop(&source, PIECES.min(pieces)))?;
        let sha256 = best(ATTEMPTS, || {
            timed(PIECES, |_| {
                for packet in bytes.chunks(PACKET) {
                    std::hint::black_box(ndn_security::sha256(std::hint::black_box(packet)));
                }
                Ok(())
            })
        })?;
        let sha256_pairs = best(ATTEMPTS, || {
            timed(PIECES, |_| {
                let (packets, _) = bytes.as_chunks::<PACKET>();
                for [one, other] in packets.as_chunks().0 {
                    let (one, other) = (std::hint::black_box(one), std::hint::black_box(other));
                    std::hint::black_box(ndn_security::sha256_pair(one, other));
                }
                Ok(())
            })
        })?;
        let large = vec![0x5a_u8; PIECE * 512];
        let mut store = vec![0_u8; PIECE * 4096];
        store.fill(1);
        let copy = best(ATTEMPTS, || {
            timed(PIECES, |piece| {
                let from = usize::try_from(piece % 512).unwrap_or(0) * PIECE;
                let to = usize::try_from(piece * 7 % 4096).unwrap_or(0) * PIECE;
                store[to..to + PIECE].copy_from_slice(&large[from..from + PIECE]);
                std::hint::black_box(&mut store);
                Ok(())
            })
        })?;
        Ok(Self { sha256, sha256_pairs, file_read, socket, copy, file_write })
    }
}

/// CPU nanoseconds per byte of both ends of a Unix socket: a thread writes what it has just read from
/// a file, another reads it, and each is woken by the other as processes are that share processors.
/// Reading the file is not counted.
fn hop(source: &fs::File, pieces: u64) -> std::io::Result<f64> {
    let (mut one, mut other) = UnixStream::pair()?;
    let size = u64::try_from(PIECE).unwrap_or(0);
    let reading = std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let mut buffer = vec![0_u8; PIECE];
            let before = thread_cpu_ns();
            while other.read(&mut buffer)? > 0 {}
            Ok::<_, std::io::Error>(thread_cpu_ns() - before)
        });
        let mut buffer = vec![0_u8; PIECE];
        let mut writing = 0;
        for piece in 0..pieces {
            source.read_exact_at(&mut buffer, piece * size)?;
            let before = thread_cpu_ns();
            one.write_all(&buffer)?;
            writing += thread_cpu_ns() - before;
        }
        drop(one);
        let ended = || std::io::Error::other("the reader has ended");
        Ok::<_, std::io::Error>(writing + reader.join().map_err(|_| ended())??)
    })?;
    #[expect(clippy::cast_precision_loss, reason = "a time of less than a minute, at most 128 MiB")]
    let per_byte = reading as f64 / (pieces * size) as f64;
    Ok(per_byte)
}

/// CPU nanoseconds per byte of `step`, called for each of `pieces`.
fn timed(pieces: u64, mut step: impl FnMut(u64) -> std::io::Result<()>) -> std::io::Result<f64> {
    let before = thread_cpu_ns();
    for piece in 0..pieces {
        step(piece)?;
    }
    #[expect(clippy::cast_precision_loss, reason = "a time of less than a minute")]
    let nanoseconds = (thread_cpu_ns() - before) as f64;
    #[expect(clippy::cast_precision_loss, reason = "the length of a file")]
    let bytes = (pieces * PIECE as u64) as f64;
    Ok(nanoseconds / bytes)
}

fn best(
    attempts: usize,
    mut measure: impl FnMut() -> std::io::Result<f64>,
) -> std::io::Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..attempts {
        best = best.min(measure()?);
    }
    Ok(best)
}

/// What the processors allow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bound {
    /// Where packets are hashed one after the other, as SHA-256 is measured everywhere.
    pub(super) mb_per_s: f64,
    /// Where they are hashed two at a time.
    pub(super) mb_per_s_in_pairs: f64,
}

impl Bound {
    /// `None` for what is bound by something else: signatures, many small files, UDP.
    pub(super) fn of(case: &Case, costs: &Costs, cpus: usize) -> Option<Self> {
        if case.udp {
            return None;
        }
        let path = match case.what {
            What::Tree => return None,
            // From the Content Store it is one hop.
            What::Cached => costs.socket + costs.file_write,
            What::File | What::Part => {
                costs.file_read + 2.0 * costs.socket + costs.copy + costs.file_write
            }
        };
        let work = match case.mode {
            // The server reads everything once more, and hashes it for the signature and the digest.
            Mode::ManifestCold => path + costs.file_read,
            Mode::Manifest | Mode::Digest | Mode::Hmac | Mode::Unverified => path,
            Mode::Ecdsa | Mode::Ed25519 => return None,
        };
        let hashes = match case.mode {
            Mode::ManifestCold => 3.0,
            // The server signs with what the fetcher checks.
            Mode::Digest | Mode::Hmac => 2.0,
            Mode::Manifest | Mode::Unverified | Mode::Ecdsa | Mode::Ed25519 => 1.0,
        };
        #[expect(clippy::cast_precision_loss, reason = "a few processors")]
        let cpus = cpus as f64;
        let rate = |sha256: f64| cpus * 1000.0 / (work + hashes * sha256);
        Some(Self {
            mb_per_s: rate(costs.sha256),
            mb_per_s_in_pairs: rate(costs.sha256_pairs.min(costs.sha256)),
        })
    }
}
