//! Ways of reading runs of segments from a file: from the page cache, and from the disk, in the file's order
//! and in another one.
//!
//! `file_reads DIRECTORY [MIB [ROUNDS]]` writes a file of random bytes (1024 MiB) into DIRECTORY, which is to
//! lie on a real disk, and reads it by each way in turn, ROUNDS times (5), first cached, then with its pages
//! dropped from the cache before each reading. A run is 64 segments of 8 KiB in buffers of their own, as a
//! file server has them; `short` runs are 8 KiB long, at places all over the file. Printed are medians: MB/s,
//! seconds of CPU time, and the rate over that of `preadv`, round by round.

#![allow(clippy::print_stdout, reason = "it prints what it measured")]

use std::fs::File;
use std::io::{self, IoSliceMut, Read, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use io_uring::{IoUring, opcode, types};
use ndn_sys::cpu::CpuTimes;
use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, ReadWriteFlags, preadv, preadv2};

const SEGMENT: usize = 8192;
const RUN: usize = 64 * SEGMENT;
/// Threads of a file server on a machine with four processors.
const THREADS: usize = 4;
/// Bytes that are read of short runs.
const SHORT_BYTES: usize = 64 << 20;

#[derive(Clone, Copy, Debug)]
enum Way {
    /// One call for a run, by so many threads.
    Preadv { threads: usize },
    /// The same, after a call that takes only what is cached.
    NowaitFirst { threads: usize },
    /// The same, after telling the kernel of the run.
    WillNeed { threads: usize },
    /// Runs by io_uring, so many at a time, by one thread; short ones likewise.
    Uring { depth: usize },
    /// The same, into registered buffers, a piece for each segment.
    UringFixed { depth: usize },
}

const WAYS: [Way; 8] = [
    Way::Preadv { threads: THREADS },
    Way::Preadv { threads: 1 },
    Way::NowaitFirst { threads: THREADS },
    Way::WillNeed { threads: THREADS },
    Way::Uring { depth: 4 },
    Way::Uring { depth: 16 },
    Way::Uring { depth: 64 },
    Way::UringFixed { depth: 4 },
];

/// What is read: the places of runs, in their order, and the length of one.
struct Work<'a> {
    file: &'a File,
    runs: Vec<u64>,
    length: usize,
}

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let Some(directory) = arguments.next() else {
        return Err(io::Error::other("usage: file_reads DIRECTORY [MIB [ROUNDS]]"));
    };
    let mut number = |default: usize| {
        arguments.next().map_or(Ok(default), |text| text.parse().map_err(io::Error::other))
    };
    let (bytes, rounds) = (number(1024)? << 20, number(5)?);
    let path = Path::new(&directory).join(format!(".file_reads-{}", std::process::id()));
    let result = measure(&path, bytes, rounds);
    std::fs::remove_file(&path)?;
    result
}

fn measure(path: &Path, bytes: usize, rounds: usize) -> io::Result<()> {
    write_noise(path, bytes)?;
    let file = File::open(path)?;
    let places = |length: usize| (0..bytes / length).map(|n| (n * length) as u64).collect();
    let in_order: Vec<u64> = places(RUN);
    let shuffled = shuffle(in_order.clone());
    let mut short = shuffle(places(SEGMENT));
    short.truncate(SHORT_BYTES / SEGMENT);
    for (name, runs, length, cached) in [
        ("cached, in order", &in_order, RUN, true),
        ("cached, short", &short, SEGMENT, true),
        ("from disk, in order", &in_order, RUN, false),
        ("from disk, shuffled", &shuffled, RUN, false),
        ("from disk, short", &short, SEGMENT, false),
    ] {
        println!("{name}:");
        let work = Work { file: &file, runs: runs.clone(), length };
        let mut all = vec![Vec::new(); WAYS.len()];
        for _ in 0..rounds {
            for (way, taken) in WAYS.iter().zip(&mut all) {
                if cached {
                    fill_cache(&file)?;
                } else {
                    fadvise(&file, 0, None, Advice::DontNeed)?;
                }
                taken.push(read_by(*way, &work)?);
            }
        }
        report(&work, &all);
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "bytes of a file, as a rate")]
fn report(work: &Work<'_>, all: &[Vec<(f64, f64)>]) {
    let megabytes = (work.runs.len() * work.length) as f64 / 1e6;
    for (way, taken) in WAYS.iter().zip(all) {
        let seconds = median(taken.iter().map(|round| round.0).collect());
        let cpu = median(taken.iter().map(|round| round.1).collect());
        let ratio = median(taken.iter().zip(&all[0]).map(|(own, first)| first.0 / own.0).collect());
        let way = format!("{way:?}");
        println!("  {way:32} {:7.0} MB/s  {cpu:6.3} s CPU  {ratio:5.2}", megabytes / seconds);
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Reads everything; returns seconds, and seconds of CPU time.
fn read_by(way: Way, work: &Work<'_>) -> io::Result<(f64, f64)> {
    let (before, start) = (CpuTimes::of_process()?.total(), ndn_sys::clock::now());
    match way {
        Way::Preadv { threads } => by_threads(threads, work, read_run)?,
        Way::NowaitFirst { threads } => by_threads(threads, work, nowait_first)?,
        Way::WillNeed { threads } => by_threads(threads, work, |file, at, buffers| {
            let length = buffers.iter().map(|buffer| buffer.len() as u64).sum();
            fadvise(file, at, std::num::NonZeroU64::new(length), Advice::WillNeed)?;
            read_run(file, at, buffers)
        })?,
        Way::Uring { depth } => uring(depth, work, false)?,
        Way::UringFixed { depth } => uring(depth, work, true)?,
    }
    let elapsed = std::time::Duration::from_nanos(ndn_sys::clock::now() - start);
    let cpu = CpuTimes::of_process()?.total().saturating_sub(before);
    Ok((elapsed.as_secs_f64(), cpu.as_secs_f64()))
}

fn by_threads(
    threads: usize,
    work: &Work<'_>,
    read: impl Fn(&File, u64, &mut [IoSliceMut<'_>]) -> io::Result<()> + Sync,
) -> io::Result<()> {
    let next = AtomicUsize::new(0);
    let one = || {
        let mut memory = vec![0; work.length];
        while let Some(&at) = work.runs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut buffers: Vec<_> = memory.chunks_mut(SEGMENT).map(IoSliceMut::new).collect();
            read(work.file, at, &mut buffers)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        readers.into_iter().try_for_each(|reader| reader.join().expect("no panic"))
    })
}

fn read_run(file: &File, mut at: u64, mut buffers: &mut [IoSliceMut<'_>]) -> io::Result<()> {
    while !buffers.is_empty() {
        let read = preadv(file, buffers, at)?;
        at += read as u64;
        IoSliceMut::advance_slices(&mut buffers, read);
    }
    Ok(())
}

fn nowait_first(file: &File, at: u64, mut buffers: &mut [IoSliceMut<'_>]) -> io::Result<()> {
    let read = match preadv2(file, buffers, at, ReadWriteFlags::NOWAIT) {
        Err(Errno::AGAIN) => 0,
        read => read?,
    };
    IoSliceMut::advance_slices(&mut buffers, read);
    read_run(file, at + read as u64, buffers)
}

/// One thread that keeps `depth` runs on their way.
fn uring(depth: usize, work: &Work<'_>, fixed: bool) -> io::Result<()> {
    let per_run = if fixed { work.length / SEGMENT } else { 1 };
    let entries = u32::try_from((depth * per_run).next_power_of_two()).expect("few");
    let mut ring: IoUring =
        IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(entries)?;
    let mut memory = vec![vec![0_u8; work.length]; depth];
    // Where the kernel looks for them, until the reads have ended.
    let vectors: Vec<Vec<libc::iovec>> = memory
        .iter_mut()
        .map(|memory| {
            let vector = |piece: &mut [u8]| libc::iovec {
                iov_base: piece.as_mut_ptr().cast(),
                iov_len: piece.len(),
            };
            memory.chunks_mut(SEGMENT).map(vector).collect()
        })
        .collect();
    if fixed {
        let whole: Vec<_> = vectors
            .iter()
            .map(|pieces| libc::iovec { iov_base: pieces[0].iov_base, iov_len: work.length })
            .collect();
        // SAFETY: `memory` outlives the ring, which is dropped first.
        unsafe { ring.submitter().register_buffers(&whole)? };
    }
    let file = types::Fd(work.file.as_raw_fd());
    let mut runs = work.runs.iter();
    let mut left = vec![0; depth];
    let (mut idle, mut in_flight): (Vec<usize>, usize) = ((0..depth).collect(), 0);
    loop {
        while let Some(slot) = idle.last().copied()
            && let Some(&at) = runs.next()
        {
            idle.pop();
            left[slot] = work.length;
            in_flight += per_run;
            for piece in 0..per_run {
                let (pieces, offset) = (&vectors[slot], at + (piece * SEGMENT) as u64);
                let entry = if fixed {
                    let to = pieces[piece].iov_base.cast();
                    let length = u32::try_from(SEGMENT).expect("short");
                    opcode::ReadFixed::new(file, to, length, u16::try_from(slot).expect("few"))
                        .offset(offset)
                        .build()
                } else {
                    let count = u32::try_from(pieces.len()).expect("few");
                    opcode::Readv::new(file, pieces.as_ptr(), count).offset(offset).build()
                };
                // SAFETY: buffers and vectors live until all reads have ended.
                unsafe { ring.submission().push(&entry.user_data(slot as u64)) }
                    .map_err(io::Error::other)?;
            }
        }
        if in_flight == 0 {
            return Ok(());
        }
        ring.submit_and_wait(1)?;
        for ended in ring.completion() {
            let read = usize::try_from(ended.result())
                .map_err(|_| io::Error::from_raw_os_error(-ended.result()))?;
            let slot = usize::try_from(ended.user_data()).expect("a slot");
            in_flight -= 1;
            left[slot] -= read;
            if left[slot] == 0 {
                idle.push(slot);
            } else if per_run == 1 {
                return Err(io::Error::other("a short read"));
            }
        }
    }
}

/// Reads it all once.
fn fill_cache(file: &File) -> io::Result<()> {
    let (mut buffer, mut at) = (vec![0; 1 << 20], 0);
    loop {
        match preadv(file, &mut [IoSliceMut::new(&mut buffer)], at)? {
            0 => return Ok(()),
            read => at += read as u64,
        }
    }
}

fn write_noise(path: &Path, bytes: usize) -> io::Result<()> {
    let mut noise = File::open("/dev/urandom")?.take(bytes as u64);
    let mut file = File::create(path)?;
    io::copy(&mut noise, &mut file)?;
    file.flush()?;
    // Pages that are not on the disk yet cannot be dropped.
    file.sync_all()
}

fn shuffle(mut places: Vec<u64>) -> Vec<u64> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for last in (1..places.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let chosen = state % (last as u64 + 1);
        places.swap(last, usize::try_from(chosen).expect("an index"));
    }
    places
}
