//! A worker with a disk tier: its threads, its file and restarts.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use ndn_dataplane::{DiskError, DiskFile, DiskPort, DiskPortOptions, Roles};
use ndn_disk::{Admission, DiskValues, ShareOptions};
use ndn_forwarding::UnsolicitedPolicy;
use ndn_packet::{DataBuilder, Name, SignatureInfo, SignatureType};
use ndn_sys::file_io;
use ndn_table::PcctConfig;
use rustix::fs::{MemfdFlags, SealFlags};
use support::{Bed, TIMEOUT, interest, options, real_clock};

const FILE_BYTES: u64 = 16 << 20;
/// Packets that memory holds.
const MEMORY_PACKETS: u32 = 16;
const PACKETS: u32 = 300;

/// Numbers of threads that read. Without, the disk is read and written by io_uring.
const READERS: [Option<usize>; 2] = [None, Some(4)];

/// As [`start_recovering`], and waits until the disk is in use.
fn start(path: &Path) -> Bed {
    start_with(path, None)
}

fn start_with(path: &Path, readers: Option<usize>) -> Bed {
    let bed = start_recovering(path, readers);
    wait_until(|| is_in_use(&bed));
    bed
}

fn is_in_use(bed: &Bed) -> bool {
    bed.dataplane.workers()[0].disk_counters().get().is_some()
}

/// Starts a worker with the file, formatted if it is new.
fn start_recovering(path: &Path, readers: Option<usize>) -> Bed {
    let mut file = DiskFile::open(path, Some(FILE_BYTES), 1).unwrap();
    let superblock = match file.superblock(1) {
        Some(superblock) => superblock,
        None => file.format(1, 77, [7; 16], 0).unwrap(),
    };
    let share = ShareOptions {
        superblock,
        share: 0,
        packets_max: 10_000,
        reads_max: 32,
        admission: Admission::All,
        unix_origin_ms: 1,
    };
    let (mut options, fib, strategies) = options(&[Roles::default()], 8, Duration::from_secs(60));
    let now = real_clock().now();
    options.shard.pcct = PcctConfig::with_capacity(1024, MEMORY_PACKETS, now);
    options.shard.unsolicited = UnsolicitedPolicy::AdmitAll;
    let port = DiskPort::start(Arc::new(file), DiskPortOptions { share, readers }).unwrap();
    let has_ring = readers.is_none() && file_io::is_available();
    if readers.is_none() && !has_ring {
        eprintln!("*** SKIPPED: the kernel refuses io_uring: 16 threads read ***");
    }
    assert_eq!(port.readers(), readers.or(Some(16)).filter(|_| !has_ring));
    options.workers[0].disk = Some(port);
    Bed::start((options, fib, strategies))
}

fn wait_until(condition: impl Fn() -> bool) {
    let begin = real_clock().now();
    while !condition() {
        let waited = real_clock().now() - begin;
        assert!(waited < TIMEOUT, "the condition is not met");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn counters(bed: &Bed) -> DiskValues {
    bed.dataplane.workers()[0].disk_counters().get().unwrap().values()
}

fn packet(number: u32) -> Vec<u8> {
    let name = Name::from_uri(&format!("/disk/{number}")).unwrap();
    let content: Vec<u8> = (0..1000_u32).map(|i| (i * number).to_le_bytes()[0]).collect();
    let info = SignatureInfo::new(SignatureType::DIGEST_SHA256);
    let builder = DataBuilder::new(&name).content(&content);
    let signed = builder.to_vec(&info, 32, |_, signature| {
        signature.fill(1);
        Some(32)
    });
    signed.unwrap()
}

/// Requests a packet. Returns whether its Data came, which is compared, and not a Nack.
fn is_found(consumer: &mut UnixStream, number: u32, nonce: u32) -> bool {
    consumer.write_all(&interest(&format!("/disk/{number}"), nonce)).unwrap();
    let expected = packet(number);
    let mut first = [0];
    consumer.read_exact(&mut first).unwrap();
    if first[0] == 6 {
        let mut rest = vec![0; expected.len() - 1];
        consumer.read_exact(&mut rest).unwrap();
        assert_eq!(rest, expected[1..], "packet {number}");
        return true;
    }
    assert_eq!(first[0], 100, "a Nack in an LpPacket");
    let mut length = [0];
    consumer.read_exact(&mut length).unwrap();
    consumer.read_exact(&mut vec![0; length[0].into()]).unwrap();
    false
}

/// Adds all packets to the store. Returns the application that sends them.
fn fill(bed: &mut Bed) -> UnixStream {
    let (_, mut producer) = bed.application();
    for number in 0..PACKETS {
        producer.write_all(&packet(number)).unwrap();
    }
    producer
}

#[test]
fn disk_answers_what_memory_evicted_and_keeps_it_over_restarts() {
    READERS.into_iter().for_each(fill_and_restart);
}

fn fill_and_restart(readers: Option<usize>) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("content");
    let mut bed = start_with(&path, readers);
    let _producer = fill(&mut bed);
    let evicted = u64::from(PACKETS - MEMORY_PACKETS);
    wait_until(|| counters(&bed).admitted == evicted);
    let (_, mut consumer) = bed.application();
    for number in 0..PACKETS {
        assert!(is_found(&mut consumer, number, number));
    }
    let values = counters(&bed);
    assert!(values.hits >= evicted, "{values:?}");
    drop(bed);
    for round in 1..4 {
        let mut bed = start_with(&path, readers);
        let recovered = counters(&bed).recovered;
        assert!(recovered >= evicted, "{recovered} in round {round}");
        let (_, mut consumer) = bed.application();
        let found = (0..PACKETS).filter(|&n| is_found(&mut consumer, n, round * 1000 + n)).count();
        let values = counters(&bed);
        assert!(found as u64 >= evicted, "{found}: {values:?}");
        assert!(values.reads >= evicted && values.checksum_errors == 0, "{values:?}");
        assert!(values.written_bytes < 1 << 20, "nothing is written twice: {values:?}");
        // Reads that are in progress when the worker ends.
        for number in 0..PACKETS {
            let nonce = 10_000 + round * 1000 + number;
            consumer.write_all(&interest(&format!("/disk/{number}"), nonce)).unwrap();
        }
    }
}

#[test]
fn erased_prefix_stays_erased() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("content");
    let mut bed = start(&path);
    let (_, mut producer) = bed.application();
    (0..50).for_each(|number| producer.write_all(&packet(number)).unwrap());
    wait_until(|| counters(&bed).admitted == 50 - u64::from(MEMORY_PACKETS));
    let (erased, more) = bed.erase("/disk", 1000);
    assert_eq!((erased, more), (MEMORY_PACKETS as usize, false));
    let (_, mut consumer) = bed.application();
    assert!((0..50).all(|number| !is_found(&mut consumer, number, number)));
    drop(bed);
    let mut bed = start(&path);
    let (_, mut consumer) = bed.application();
    assert!((0..50).all(|number| !is_found(&mut consumer, number, 100 + number)));
    assert_eq!(counters(&bed).hits, 0);
}

/// The index is not rebuilt yet: the answer comes when the erasure is on disk.
#[test]
fn erasures_wait_for_the_index() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("content");
    let mut bed = start(&path);
    let _producer = fill(&mut bed);
    wait_until(|| counters(&bed).admitted == u64::from(PACKETS - MEMORY_PACKETS));
    drop(bed);
    let mut bed = start_recovering(&path, None);
    assert_eq!(bed.erase("/disk", 1000), (0, false));
    assert!(is_in_use(&bed), "answered before the index was rebuilt");
    let (_, mut consumer) = bed.application();
    assert!((0..PACKETS).all(|number| !is_found(&mut consumer, number, number)));
    assert_eq!(counters(&bed).hits, 0);
}

/// A limit of 0 erases nothing, on disk neither.
#[test]
fn limit_of_zero_leaves_the_disk_alone() {
    let directory = tempfile::tempdir().unwrap();
    let mut bed = start(&directory.path().join("content"));
    let (_, mut producer) = bed.application();
    (0..50).for_each(|number| producer.write_all(&packet(number)).unwrap());
    wait_until(|| counters(&bed).admitted == 50 - u64::from(MEMORY_PACKETS));
    assert_eq!(bed.erase("/disk", 0), (0, true));
    let (_, mut consumer) = bed.application();
    assert!(is_found(&mut consumer, 0, 0));
}

/// Each read fails, and then none takes place: Interests are answered all the same.
#[test]
fn disk_that_cannot_be_read_is_left_out() {
    for readers in READERS {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("content");
        let mut bed = start_with(&path, readers);
        let _producer = fill(&mut bed);
        wait_until(|| counters(&bed).admitted == u64::from(PACKETS - MEMORY_PACKETS));
        drop(bed);
        let mut bed = start_with(&path, readers);
        File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
        let (_, mut consumer) = bed.application();
        assert!((0..PACKETS).all(|number| !is_found(&mut consumer, number, number)));
        let values = counters(&bed);
        assert_eq!((values.in_use, values.hits), (0, 0), "{values:?}");
        assert_eq!(values.read_errors, values.reads, "{values:?}");
        assert!((2..100).contains(&values.reads), "{values:?}");
    }
}

#[test]
fn disk_that_cannot_be_written_is_left_out() {
    for readers in READERS {
        let file = rustix::fs::memfd_create("content", MemfdFlags::ALLOW_SEALING).unwrap();
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let mut bed = start_with(Path::new(&path), readers);
        rustix::fs::fcntl_add_seals(&file, SealFlags::WRITE).unwrap();
        let _producer = fill(&mut bed);
        wait_until(|| counters(&bed).in_use == 0);
        let (_, mut consumer) = bed.application();
        let found = (0..PACKETS).filter(|&number| is_found(&mut consumer, number, number));
        assert_eq!(found.count(), MEMORY_PACKETS as usize);
        assert_eq!(counters(&bed).written_bytes, 0);
    }
}

/// A loop device.
struct LoopDevice(PathBuf);

impl LoopDevice {
    /// A device whose blocks are those of a file, if there are rights for it.
    fn attach(file: &Path) -> Option<Self> {
        let ended = Command::new("losetup").args(["--find", "--show"]).arg(file).output();
        match ended {
            Ok(ended) if ended.status.success() => {
                Some(Self(String::from_utf8(ended.stdout).unwrap().trim().into()))
            }
            other => {
                eprintln!("*** SKIPPED: losetup: {other:?} ***");
                None
            }
        }
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        // A device that is still in use, as after a failed assertion, is detached when it is closed (loop(4)).
        let ended = Command::new("losetup").arg("--detach").arg(&self.0).status();
        if !ended.is_ok_and(|status| status.success()) {
            eprintln!("losetup: {} stays attached", self.0.display());
        }
    }
}

/// A block device is used by one forwarder, and found again; when each read fails, it is left out.
#[test]
fn block_device_is_used_until_it_fails() {
    let directory = tempfile::tempdir().unwrap();
    let blocks = directory.path().join("blocks");
    File::create(&blocks).unwrap().set_len(FILE_BYTES).unwrap();
    let Some(device) = LoopDevice::attach(&blocks) else { return };
    let mut bed = start(&device.0);
    let _producer = fill(&mut bed);
    let evicted = u64::from(PACKETS - MEMORY_PACKETS);
    wait_until(|| counters(&bed).admitted == evicted);
    let other = DiskFile::open(&device.0, None, 1).unwrap_err();
    assert!(matches!(other, DiskError::InUse { .. }), "{other}");
    drop(bed);
    let mut bed = start(&device.0);
    assert!(counters(&bed).recovered >= evicted, "{:?}", counters(&bed));
    let (_, mut consumer) = bed.application();
    let half = PACKETS / 2;
    assert!((0..half).all(|number| is_found(&mut consumer, number, number)));
    // The device has no blocks any more.
    File::options().write(true).open(&blocks).unwrap().set_len(0).unwrap();
    assert!((half..PACKETS).all(|number| !is_found(&mut consumer, number, number)));
    let values = counters(&bed);
    assert_eq!((values.in_use, values.checksum_errors), (0, 0), "{values:?}");
    assert!((2..100).contains(&values.read_errors), "{values:?}");
}
