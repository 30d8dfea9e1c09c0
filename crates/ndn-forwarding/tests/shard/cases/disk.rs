//! The disk tier of the Content Store: Interests wait for reads as for an upstream.

use std::io;
use std::sync::Mutex;

use ndn_disk::{Admission, Request, ShareOptions, Storage, Superblock, recover};
use ndn_forwarding::InterestAccount;
use ndn_types::Timestamp;

use super::{Case, data, from, interest, to};
use crate::bed::Bed;
use crate::differential::{seen_departure, seen_sent};
use crate::model::{Arrival, Departure, Time};

const FILE_BYTES: usize = 4 << 20;

#[derive(Debug)]
struct Disk(Mutex<Vec<u8>>);

impl Storage for Disk {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap();
        buffer.copy_from_slice(&self.0.lock().unwrap()[start..start + buffer.len()]);
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap();
        self.0.lock().unwrap()[start..start + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
}

/// A shard with a Content Store of two packets and a disk, and routes from everywhere to face 2.
struct Rig {
    bed: Bed,
    disk: Disk,
    options: ShareOptions,
    /// Requests that are not carried out yet.
    requests: Vec<Request>,
}

impl Rig {
    fn new(reads_max: usize) -> Self {
        let case = Case::new("disk").route("/", 2).with(|world| world.cs_capacity = 2);
        let mut bed = case.world.bed(1);
        let disk = Disk(Mutex::new(vec![0; FILE_BYTES]));
        let (segments, segment_bytes) = Superblock::plan(FILE_BYTES as u64, 1).unwrap();
        let options = ShareOptions {
            superblock: Superblock {
                format_id: 1,
                hash_key: [0; 16],
                hash_check: 0,
                shares: 1,
                segments,
                segment_bytes,
            },
            share: 0,
            packets_max: 1000,
            reads_max,
            admission: Admission::All,
            unix_origin_ms: 1_000_000,
        };
        bed.shards[0].attach_disk(Box::new(recover(&disk, options).unwrap()));
        Self { bed, disk, options, requests: Vec::new() }
    }

    /// At `now`, `arrival` causes `departures`.
    fn at(
        &mut self,
        now: Time,
        arrival: Arrival,
        departures: impl IntoIterator<Item = Departure>,
    ) -> &mut Self {
        self.bed.sent.0.clear();
        self.bed.process(now, std::slice::from_ref(&arrival));
        self.expect(&format!("{arrival:?}"), departures);
        self
    }

    fn expect(&mut self, context: &str, departures: impl IntoIterator<Item = Departure>) {
        let departures: Vec<Departure> = departures.into_iter().collect();
        let mut expected: Vec<_> = departures.iter().map(seen_departure).collect();
        expected.sort();
        let mut sent: Vec<_> = self.bed.sent.0.iter().map(seen_sent).collect();
        sent.sort();
        assert_eq!(sent, expected, "{context}");
        let account = InterestAccount::of(&self.bed.counters[0]);
        assert!(account.is_balanced(), "{account:?}");
    }

    /// Ends all requests at `now`, which causes `departures`.
    fn complete(
        &mut self,
        now: Time,
        departures: impl IntoIterator<Item = Departure>,
    ) -> &mut Self {
        self.bed.sent.0.clear();
        self.collect();
        for request in std::mem::take(&mut self.requests) {
            let completion = request.perform(&self.disk);
            let Bed { shards, sent, .. } = &mut self.bed;
            shards[0].complete_disk_request(Timestamp::from_millis(now), completion, sent);
        }
        self.bed.shards[0].end_burst();
        self.expect("completion", departures);
        self
    }

    fn collect(&mut self) {
        self.requests.extend(std::iter::from_fn(|| self.bed.shards[0].poll_disk_request()));
    }

    /// Fetches `/d/0` to `/d/9` to the disk.
    fn fill(&mut self, freshness_ms: u64) -> &mut Self {
        for number in 0..10 {
            let uri = format!("/d/{number}");
            let packet = || match freshness_ms {
                0 => data(&uri),
                some => data(&uri).freshness_ms(some),
            };
            self.at(1, from(1, interest(&uri, number)), [to(2, interest(&uri, number))]);
            self.at(2, from(2, packet()), [to(1, packet())]);
        }
        self.restart()
    }

    /// Writes everything, and replaces the disk tier by a recovered one.
    fn restart(&mut self) -> &mut Self {
        self.bed.shards[0].disk_mut().unwrap().flush();
        self.complete(3, []);
        let recovered = recover(&self.disk, self.options).unwrap();
        assert_eq!(recovered.packet_count(), 8);
        self.bed.shards[0].attach_disk(Box::new(recovered));
        self
    }

    fn counters(&self) -> ndn_disk::DiskValues {
        self.bed.shards[0].disk().unwrap().counters().values()
    }
}

#[test]
fn one_disk_read_satisfies_all_waiting_interests_and_fills_memory() {
    let mut rig = Rig::new(8);
    rig.fill(0);
    rig.at(10, from(1, interest("/d/3", 100)), []).at(11, from(3, interest("/d/3", 101)), []).at(
        12,
        from(1, interest("/d/3", 102)),
        [],
    );
    rig.collect();
    assert_eq!(rig.requests.len(), 1, "one read");
    // Others are not held up.
    rig.at(13, from(1, interest("/e", 103)), [to(2, interest("/e", 103))]);
    rig.complete(14, [to(1, data("/d/3")), to(3, data("/d/3"))]);
    rig.at(15, from(4, interest("/d/3", 104)), [to(4, data("/d/3"))]);
    let counters = rig.counters();
    assert_eq!((counters.hits, counters.reads, counters.misses), (1, 1, 1));
    assert_eq!(rig.bed.counters[0].pit_entries.value(), 1);
}

#[test]
fn interest_goes_upstream_if_the_read_fails() {
    let mut rig = Rig::new(8);
    rig.fill(0);
    rig.disk.0.lock().unwrap()[(1 << 20) + 64..].fill(7);
    rig.at(10, from(1, interest("/d/3", 100)), [])
        .at(11, from(3, interest("/d/3", 101)), [])
        .complete(12, [to(2, interest("/d/3", 100))])
        .at(13, from(2, data("/d/3")), [to(1, data("/d/3")), to(3, data("/d/3"))]);
    let counters = rig.counters();
    assert_eq!((counters.checksum_errors, counters.hits), (1, 0));
}

#[test]
fn interest_goes_upstream_if_the_disk_queue_is_full() {
    let mut rig = Rig::new(2);
    rig.fill(0);
    rig.at(10, from(1, interest("/d/0", 100)), [])
        .at(10, from(1, interest("/d/1", 101)), [])
        .at(10, from(1, interest("/d/2", 102)), [to(2, interest("/d/2", 102))])
        .complete(11, [to(1, data("/d/0")), to(1, data("/d/1"))]);
    assert_eq!(rig.counters().reads_refused, 1);
}

#[test]
fn freshness_of_data_on_disk_counts_from_its_arrival() {
    let mut rig = Rig::new(8);
    let fresh = |uri, nonce| interest(uri, nonce).must_be_fresh();
    let packet = |uri| data(uri).freshness_ms(1000);
    rig.fill(1000);
    rig.at(500, from(1, fresh("/d/0", 100)), [])
        .complete(501, [to(1, packet("/d/0"))])
        .at(502, from(1, fresh("/d/0", 101)), [to(1, packet("/d/0"))])
        // Freshness counts from the arrival, not from the read.
        .at(1100, from(1, fresh("/d/1", 102)), [])
        .complete(1101, [to(2, fresh("/d/1", 102))])
        // Known to be stale by now.
        .at(9000, from(1, fresh("/d/1", 103)), [to(2, fresh("/d/1", 103))])
        .at(9400, from(1, interest("/d/2", 104)), [])
        .complete(9401, [to(1, packet("/d/2"))]);
}

#[test]
fn data_on_disk_matches_digest_and_exact_name() {
    let mut rig = Rig::new(8);
    rig.fill(0);
    let exact = |nonce| super::super::wire::Interest {
        name: data("/d/4").full_name(),
        ..interest("/", nonce)
    };
    let other = |nonce| super::super::wire::Interest {
        name: data("/d/5").content(b"another").full_name(),
        ..interest("/", nonce)
    };
    rig.at(10, from(1, exact(100)), [])
        .complete(11, [to(1, data("/d/4"))])
        .at(12, from(1, other(101)), [])
        .complete(13, [to(2, other(101))])
        // Longer names than that of the Interest are not found.
        .at(
            14,
            from(1, interest("/q", 102).can_be_prefix()),
            [to(2, interest("/q", 102).can_be_prefix())],
        )
        .at(15, from(1, interest("/d/6", 103).can_be_prefix()), [])
        .complete(16, [to(1, data("/d/6"))]);
}

#[test]
fn interest_is_sent_again_if_the_disk_hangs_and_expires_if_not() {
    let mut rig = Rig::new(8);
    rig.fill(0);
    rig.at(10, from(1, interest("/d/3", 100)), [])
        .at(100, from(1, interest("/d/3", 101)), [])
        .at(300, from(1, interest("/d/3", 102)), [to(2, interest("/d/3", 102))])
        .complete(301, [to(1, data("/d/3"))]);
    let mut rig = Rig::new(8);
    rig.fill(0);
    rig.at(10, from(1, interest("/d/3", 100)), []);
    rig.at(60_000, from(4, interest("/f", 101)), [to(2, interest("/f", 101))]);
    rig.complete(60_001, []);
    assert_eq!(rig.bed.counters[0].pit_entries.value(), 1);
}

#[test]
fn erased_data_is_not_found() {
    let mut rig = Rig::new(8);
    rig.fill(0);
    rig.at(10, from(1, interest("/d/3", 100)), []);
    rig.collect();
    // The value of the name /d.
    rig.bed.shards[0].disk_mut().unwrap().erase(&[8, 1, b'd']);
    rig.complete(11, [to(2, interest("/d/3", 100))]);
    rig.at(12, from(1, interest("/d/4", 101)), []).complete(13, [to(2, interest("/d/4", 101))]);
    assert_eq!(rig.counters().mismatches, 2);
}
