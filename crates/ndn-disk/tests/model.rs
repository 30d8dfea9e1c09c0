//! Shares on a storage that loses, tears and changes writes, against a model that knows every packet ever offered: a
//! wrong byte or an erased packet is never returned, and what was on the disk is found again.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "tests")]

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Mutex;

use ndn_disk::{
    Admission, Completion, Lookup, Packet, ReadResult, Request, Share, ShareOptions, Storage,
    Superblock, recover,
};
use ndn_types::Timestamp;

const SECTOR: usize = 512;
const FILE_BYTES: u64 = 6 << 20;
const SEEDS: u64 = 24;

/// Reproducible random numbers.
struct Random(ndn_types::random::Random);

impl Random {
    fn new(seed: u64) -> Self {
        Self(ndn_types::random::Random::with_state(seed))
    }

    fn next(&mut self) -> u64 {
        self.0.bits()
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

/// A disk in memory.
struct Disk {
    bytes: Mutex<Vec<u8>>,
    fails: Mutex<Option<io::ErrorKind>>,
}

impl Disk {
    fn new() -> Self {
        let bytes = Mutex::new(vec![0; usize::try_from(FILE_BYTES).unwrap()]);
        Self { bytes, fails: Mutex::new(None) }
    }

    fn fault(&self) -> io::Result<()> {
        match *self.fails.lock().unwrap() {
            Some(kind) => Err(kind.into()),
            None => Ok(()),
        }
    }
}

impl Storage for Disk {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.fault()?;
        let start = usize::try_from(offset).unwrap();
        assert!(start.is_multiple_of(4096) && buffer.len().is_multiple_of(4096));
        assert_eq!(buffer.as_ptr().align_offset(4096), 0, "direct I/O needs aligned memory");
        buffer.copy_from_slice(&self.bytes.lock().unwrap()[start..start + buffer.len()]);
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.fault()?;
        let start = usize::try_from(offset).unwrap();
        assert!(start.is_multiple_of(4096) && bytes.len().is_multiple_of(4096));
        assert_eq!(bytes.as_ptr().align_offset(4096), 0);
        self.bytes.lock().unwrap()[start..start + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
}

fn name_of(key: u64) -> Vec<u8> {
    vec![8, 1, (key % 7) as u8, 8, 2, (key >> 8) as u8, key as u8]
}

fn hash_of(name: &[u8]) -> u64 {
    name.iter().fold(0, |hash, &byte| Random::new(hash ^ u64::from(byte)).next())
}

/// A Data TLV with a content that depends on the key and the version.
fn data(key: u64, version: u64) -> Vec<u8> {
    let name = name_of(key);
    let mut random = Random::new(key << 32 | version);
    let length = 100 + random.below(1500);
    let mut value = vec![7, name.len() as u8];
    value.extend_from_slice(&name);
    value.extend((0..length).map(|_| random.next() as u8));
    let mut wire = vec![6, 253];
    wire.extend_from_slice(&(value.len() as u16).to_be_bytes());
    wire.extend_from_slice(&value);
    wire
}

/// A version of a packet that may be returned.
struct Version {
    wire: Vec<u8>,
    fresh_until: Timestamp,
}

struct World {
    random: Random,
    disk: Disk,
    options: ShareOptions,
    share: Share,
    now: Timestamp,
    requests: VecDeque<Request>,
    /// By key: the versions that are not erased, oldest first.
    model: BTreeMap<u64, Vec<Version>>,
    /// Prefixes whose erasure is not on the disk yet, with the versions that come back if it never gets there.
    erased: Vec<(u64, Version)>,
    next_version: u64,
    returned: u64,
    checks_freshness: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        let disk = Disk::new();
        let (segments, segment_bytes) = Superblock::plan(FILE_BYTES, 2).unwrap();
        let hash_key = [1; 16];
        let superblock = Superblock {
            format_id: seed,
            hash_key,
            hash_check: 0,
            shares: 2,
            segments,
            segment_bytes,
        };
        let options = ShareOptions {
            superblock,
            share: 1,
            packets_max: 4000,
            reads_max: 16,
            admission: if seed.is_multiple_of(2) { Admission::All } else { Admission::SecondTouch },
            unix_origin_ms: 1_000_000,
        };
        Self {
            random: Random::new(seed),
            share: recover(&disk, options).unwrap(),
            disk,
            options,
            now: Timestamp::from_millis(1),
            requests: VecDeque::new(),
            model: BTreeMap::new(),
            erased: Vec::new(),
            next_version: 0,
            returned: 0,
            checks_freshness: true,
        }
    }

    fn key(&mut self) -> u64 {
        // A few keys are popular.
        if self.random.one_in(3) { self.random.below(20) } else { self.random.below(3000) }
    }

    fn offer(&mut self) {
        let key = self.key();
        let versions = self.model.entry(key).or_default();
        let repeats = !versions.is_empty() && !self.random.one_in(5);
        let version = if repeats {
            key
        } else {
            self.next_version += 1;
            1_000_000 + self.next_version
        };
        let wire = data(key, version);
        let fresh_until = match self.random.below(3) {
            0 => Timestamp::ZERO,
            _ => self.now.plus_millis(self.random.below(5000)),
        };
        let was_requested = self.random.one_in(2);
        let packet = Packet { wire: &wire, fresh_until };
        self.share.offer(hash_of(&name_of(key)), packet, was_requested);
        self.model.get_mut(&key).unwrap().push(Version { wire, fresh_until });
    }

    fn check(&mut self, key: u64, packet: Packet<'_>) {
        let versions = self.model.get(&key).map(Vec::as_slice).unwrap_or_default();
        let is_known = versions.iter().any(|version| {
            version.wire == packet.wire
                && (!self.checks_freshness || version.fresh_until == packet.fresh_until)
        });
        assert!(is_known, "a packet that was never offered, or erased: key {key}");
        self.returned += 1;
    }

    /// Requests a packet, as an Interest does. The key is the waiter.
    fn request(&mut self) {
        let key = self.key();
        let hash = hash_of(&name_of(key));
        let must_be_fresh = self.random.one_in(4);
        match self.share.find(hash, must_be_fresh) {
            Lookup::Miss => {}
            Lookup::Buffered(packet) => {
                assert!(!must_be_fresh || packet.fresh_until > self.now);
                let wire = packet.wire.to_vec();
                let fresh_until = packet.fresh_until;
                self.check(key, Packet { wire: &wire, fresh_until });
            }
            Lookup::OnDisk => {
                self.share.begin_read(hash, key);
            }
        }
    }

    fn take(&mut self, answer: ReadResult) {
        if let Some(packet) = answer.packet() {
            for &key in answer.waiters() {
                // Hashes of these names are distinct.
                self.check(key, packet);
            }
        }
        self.share.recycle(answer);
    }

    fn collect(&mut self) {
        while let Some(request) = self.share.poll_request() {
            self.requests.push_back(request);
        }
    }

    /// Carries out one request: the first write, or any read.
    fn perform(&mut self) {
        let position = self.random.below(self.requests.len().max(1) as u64) as usize;
        let Some(request) = self.requests.get(position) else { return };
        let position = match request.is_write() {
            true => self.requests.iter().position(Request::is_write).unwrap(),
            false => position,
        };
        let request = self.requests.remove(position).unwrap();
        let completion = request.perform(&self.disk);
        self.complete(completion);
    }

    fn complete(&mut self, completion: Completion) {
        if let Some(answer) = self.share.complete(self.now, completion) {
            self.take(answer);
        }
        if self.share.erasures_are_durable() {
            self.erased.clear();
        }
    }

    fn erase(&mut self) {
        let first = self.random.below(7);
        let is_long = self.random.one_in(2);
        let key = self.random.below(3000) / 7 * 7 + first;
        let name = name_of(key);
        let prefix = if is_long { &name[..] } else { &name[..3] };
        self.share.erase(prefix);
        for (key, versions) in &mut self.model {
            if name_of(*key).starts_with(prefix) {
                self.erased.extend(versions.drain(..).map(|version| (*key, version)));
            }
        }
        if self.share.erasures_are_durable() {
            self.erased.clear();
        }
    }

    fn settle(&mut self) {
        loop {
            self.collect();
            if self.requests.is_empty() {
                return;
            }
            self.perform();
        }
    }

    /// Keys that the share returns now. Reads all packets.
    fn readable(&mut self) -> Vec<u64> {
        let mut found = Vec::new();
        for key in 0..3000 {
            let hash = hash_of(&name_of(key));
            let before = self.returned;
            match self.share.find(hash, false) {
                Lookup::Miss => {}
                Lookup::Buffered(_) => found.push(key),
                Lookup::OnDisk => {
                    assert!(self.share.begin_read(hash, key));
                    self.settle();
                    if self.returned > before {
                        found.push(key);
                    }
                }
            }
        }
        found
    }

    /// Ends as by SIGKILL: of each write in progress, any sectors are on the disk. Then starts again.
    fn kill(&mut self) {
        self.collect();
        for request in std::mem::take(&mut self.requests) {
            let Request::Write { offset, length, buffer, .. } = request else { continue };
            let start = usize::try_from(offset).unwrap();
            let mut bytes = self.disk.bytes.lock().unwrap();
            for sector in (0..length).step_by(SECTOR) {
                if self.random.one_in(2) {
                    let written = &buffer.bytes()[sector..sector + SECTOR];
                    bytes[start + sector..][..SECTOR].copy_from_slice(written);
                }
            }
        }
        for (key, version) in std::mem::take(&mut self.erased) {
            self.model.entry(key).or_default().push(version);
        }
        self.share = recover(&self.disk, self.options).unwrap();
        self.share.poll(self.now);
    }

    fn step(&mut self) {
        self.now = self.now.plus_millis(self.random.below(20));
        self.share.poll(self.now);
        match self.random.below(100) {
            0..=44 => self.offer(),
            45..=69 => self.request(),
            70 if self.random.one_in(4) => self.erase(),
            _ => {
                self.collect();
                self.perform();
            }
        }
    }
}

#[test]
fn no_wrong_byte_is_returned_and_survivors_are_found_after_kills() {
    let (mut returned, mut evicted, mut survivors, mut found) = (0, 0, 0, 0);
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        for _ in 0..4 {
            for _ in 0..world.random.below(12_000) {
                world.step();
            }
            let counters = world.share.counters().values();
            evicted += counters.evicted;
            survivors += counters.survivors;
            assert_eq!(counters.checksum_errors, 0, "{counters:?}");
            // What is on the disk now is there after the kill, although writes that follow are torn.
            // Packets that are written again follow.
            for _ in 0..100 {
                world.share.flush();
                world.settle();
            }
            assert!(world.share.is_flushed());
            let before = world.readable();
            for _ in 0..world.random.below(20) {
                world.offer();
            }
            world.kill();
            let after = world.readable();
            let lost: Vec<_> = before.iter().filter(|key| !after.contains(key)).collect();
            // A later packet of the same name may have been lost with the tail, and a full segment opens one more.
            assert!(lost.len() <= 20, "lost {} of {}", lost.len(), before.len());
            found += after.len();
        }
        returned += world.returned;
        assert_eq!(world.share.counters().values().checksum_errors, 0);
    }
    assert!(
        returned > 40_000 && evicted > 4000 && survivors > 40 && found > 20_000,
        "{returned} returned, {evicted} evicted, {survivors} survivors, {found} found"
    );
}

#[test]
fn changed_bits_are_misses_and_counted() {
    let mut errors = 0;
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        // Bits of the superblock's neighbours, headers, directories and records alike.
        for _ in 0..3 {
            for _ in 0..6000 {
                world.step();
                if world.random.one_in(4) {
                    let mut bytes = world.disk.bytes.lock().unwrap();
                    let bit = world.random.below(bytes.len() as u64 * 8) as usize;
                    bytes[bit / 8] ^= 1 << (bit % 8);
                }
            }
            errors += world.share.counters().values().checksum_errors;
            // An erasure may be lost with its record.
            world.erased.clear();
            let erased_before = world.share.counters().values().erasures;
            world.settle();
            if erased_before == 0 {
                world.kill();
            }
            world.readable();
        }
    }
    assert!(errors > 40, "{errors} errors");
}

#[test]
fn failing_disk_is_not_used() {
    for kind in [io::ErrorKind::StorageFull, io::ErrorKind::Other] {
        let mut world = World::new(2);
        for _ in 0..3000 {
            world.step();
        }
        *world.disk.fails.lock().unwrap() = Some(kind);
        for _ in 0..20_000 {
            world.step();
        }
        world.settle();
        while let Some(answer) = world.share.abandon_read() {
            assert!(answer.packet().is_none());
            world.share.recycle(answer);
        }
        let reason = world.share.failure().unwrap().to_owned();
        assert!(reason.starts_with("cannot"), "{reason}");
        assert_eq!(world.share.packet_count(), 0);
        assert_eq!(world.share.counters().values().in_use, 0);
        assert_eq!(world.share.find(hash_of(&name_of(1)), false), Lookup::Miss);
    }
}

#[test]
fn scan_is_not_written_and_second_offer_is() {
    let mut world = World::new(1);
    let offer = |world: &mut World, key: u64| {
        let wire = data(key, 0);
        let packet = Packet { wire: &wire, fresh_until: Timestamp::ZERO };
        world.share.offer(hash_of(&name_of(key)), packet, false);
        world.settle();
    };
    (0..1000).for_each(|key| offer(&mut world, key));
    assert_eq!(world.share.counters().values().admitted, 0);
    (0..1000).for_each(|key| offer(&mut world, key));
    let counters = world.share.counters().values();
    assert!(counters.admitted >= 950, "{counters:?}");
    (0..1000).for_each(|key| offer(&mut world, key));
    let counters = world.share.counters().values();
    assert!(counters.unchanged >= 950, "{counters:?}");
}

#[test]
fn freshness_survives_a_restart_and_ends_in_time() {
    let mut world = World::new(2);
    let wire = data(5, 0);
    let fresh_until = world.now.plus_millis(10_000);
    let hash = hash_of(&name_of(5));
    world.share.offer(hash, Packet { wire: &wire, fresh_until }, true);
    world.model.entry(5).or_default().push(Version { wire, fresh_until });
    world.share.flush();
    world.settle();
    world.kill();
    assert_eq!(world.share.find(hash, true), Lookup::OnDisk);
    world.now = fresh_until;
    world.share.poll(world.now);
    assert!(world.share.begin_read(hash, 5));
    world.settle();
    assert_eq!(world.returned, 1, "the caller compares the time");
    assert_eq!(world.share.find(hash, true), Lookup::Miss, "known to be stale");
    assert_eq!(world.share.find(hash, false), Lookup::OnDisk);
}

#[test]
fn one_read_serves_all_and_reads_are_limited() {
    let mut world = World::new(2);
    for key in 0..100 {
        let wire = data(key, 0);
        let packet = Packet { wire: &wire, fresh_until: Timestamp::ZERO };
        world.share.offer(hash_of(&name_of(key)), packet, true);
    }
    world.share.flush();
    world.settle();
    world.share = recover(&world.disk, world.options).unwrap();
    let hash = hash_of(&name_of(1));
    assert!(world.share.begin_read(hash, 10) && world.share.begin_read(hash, 11));
    assert!(
        world.share.read_began(hash, 11).is_some() && world.share.read_began(hash, 12).is_none()
    );
    for key in 2..17 {
        assert!(world.share.begin_read(hash_of(&name_of(key)), key));
    }
    assert!(!world.share.begin_read(hash_of(&name_of(50)), 50));
    assert_eq!(world.share.counters().values().reads_refused, 1);
    world.collect();
    assert_eq!(world.requests.len(), 16);
    let completion = world.requests.pop_front().unwrap().perform(&world.disk);
    let answer = world.share.complete(world.now, completion).unwrap();
    assert_eq!((answer.waiters(), answer.packet().unwrap().wire), (&[10, 11][..], &data(1, 0)[..]));
    world.share.recycle(answer);
    assert!(world.share.begin_read(hash_of(&name_of(50)), 50));
}

#[test]
fn erased_name_is_a_miss_and_others_stay_after_many_erasures() {
    let mut world = World::new(2);
    for key in 0..100 {
        let wire = data(key, 0);
        let packet = Packet { wire: &wire, fresh_until: Timestamp::ZERO };
        world.share.offer(hash_of(&name_of(key)), packet, true);
    }
    world.share.flush();
    world.settle();
    world.share = recover(&world.disk, world.options).unwrap();
    // More than there is room for erasures of prefixes.
    (0..500).for_each(|key| world.share.forget(hash_of(&name_of(key % 50))));
    for key in 0..100 {
        let is_found = world.share.find(hash_of(&name_of(key)), false) == Lookup::OnDisk;
        assert_eq!(is_found, key >= 50, "{key}");
    }
}

#[test]
fn reads_of_ended_threads_end_without_data() {
    let mut world = World::new(2);
    for _ in 0..3000 {
        world.step();
    }
    for _ in 0..100 {
        world.request();
    }
    world.collect();
    let reads = world.requests.iter().filter(|request| !request.is_write()).count();
    assert!(reads > 0);
    world.requests.clear();
    world.share.fail("the threads have ended".to_owned());
    let mut lost = 0;
    while let Some(completion) = world.share.lost_read() {
        let answer = world.share.complete(world.now, completion);
        assert!(answer.is_none_or(|answer| answer.packet().is_none()));
        lost += 1;
    }
    assert_eq!(lost, reads);
}
