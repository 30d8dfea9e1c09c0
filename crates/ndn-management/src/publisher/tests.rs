#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use crate::testing::name;

const READER: PrincipalKey = PrincipalKey::LocalApplication { uid: 1, pid: 1 };

fn publisher() -> DatasetPublisher {
    DatasetPublisher::new(PublisherLimits::default(), Reserves::default())
}

const fn at(seconds: u64) -> Now {
    Now {
        monotonic: Timestamp::from_millis(seconds * 1000),
        unix: Duration::from_secs(1_700_000_000 + seconds),
    }
}

/// Fetches every segment of the version whose first segment is given.
fn fetch(publisher: &mut DatasetPublisher, now: Now, first: &Name) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    for segment in 0.. {
        let mut name = first.as_ref().parent().to_name();
        name.push_segment(segment);
        let found = publisher.find(now, name.as_ref())?;
        assert_eq!(found.name, name);
        content.extend_from_slice(&found.content);
        if segment == found.last_segment {
            break;
        }
    }
    Some(content)
}

#[test]
fn segments_of_a_version_are_kept_while_newer_versions_are_published() {
    let mut publisher = publisher();
    let prefix = name("/localhost/nfd/fib/list");
    let contents: Vec<Vec<u8>> = (0..3_u8).map(|byte| vec![byte; SEGMENT_SIZE * 2 + 1]).collect();
    let mut firsts = Vec::new();
    for content in &contents {
        let first = publisher.publish(at(1), (READER, prefix.as_ref()), content.clone(), None);
        assert_eq!((first.content.len(), first.last_segment), (SEGMENT_SIZE, 2));
        firsts.push(first.name);
    }
    // Even within one tick of the clock, versions ascend.
    assert!(firsts.is_sorted() && firsts[0] != firsts[1]);
    for (first, content) in firsts.iter().zip(&contents) {
        assert_eq!(fetch(&mut publisher, at(2), first).as_ref(), Some(content));
    }
    let mut beyond = firsts[0].as_ref().parent().to_name();
    beyond.push_segment(3);
    assert_eq!(publisher.find(at(2), beyond.as_ref()), None);
}

#[test]
fn stream_of_short_versions_leaves_long_ones_to_their_readers() {
    let mut publisher = publisher();
    let content = vec![1; SEGMENT_SIZE * 3];
    let prefix = name("/localhost/nfd/fib/list");
    let first = publisher.publish(at(1), (READER, prefix.as_ref()), content.clone(), None).name;
    for query in 0..1000 {
        let prefix = name(&format!("/localhost/nfd/faces/query/{query}"));
        publisher.publish(at(2), (READER, prefix.as_ref()), vec![2; 10], None);
    }
    assert_eq!(fetch(&mut publisher, at(3), &first), Some(content));
}

/// With different parameters, and so under prefixes of their own, and under the prefix of the reader.
#[test]
fn stream_of_long_versions_leaves_those_of_others_to_their_readers() {
    let limits = PublisherLimits { bytes_max: 4 << 20, ..PublisherLimits::default() };
    let mut publisher = DatasetPublisher::new(limits, Reserves::default());
    let content = vec![1; SEGMENT_SIZE * 3];
    let prefix = name("/localhost/nfd/faces/list");
    let first = publisher.publish(at(1), (READER, prefix.as_ref()), content.clone(), None).name;
    let second = publisher.publish(at(1), (READER, prefix.as_ref()), content.clone(), None).name;
    let flooder = |pid| PrincipalKey::LocalApplication { uid: 2, pid };
    for number in 0..1000_u32 {
        let long = vec![2; SEGMENT_SIZE * 20];
        let other = name(&format!("/localhost/nfd/faces/list/{number}"));
        let requester = flooder(number % 3);
        publisher.publish(at(2), (requester, other.as_ref()), long, None);
        publisher.publish(at(2), (requester, prefix.as_ref()), content.clone(), None);
        assert!(publisher.version_count() <= 256 && publisher.byte_count() <= 4 << 20);
    }
    for first in [first, second] {
        assert_eq!(fetch(&mut publisher, at(3), &first).as_ref(), Some(&content));
    }
    publisher.drop_idle(at(100));
    assert!(publisher.report().is_zero());
}

#[test]
fn content_around_the_segment_size_is_segmented() {
    let mut publisher = publisher();
    let prefix = name("/p");
    for (length, last_segment) in
        [(0, 0), (1, 0), (SEGMENT_SIZE, 0), (SEGMENT_SIZE + 1, 1), (2 * SEGMENT_SIZE, 1)]
    {
        let content = vec![1; length];
        let first = publisher.publish(at(1), (READER, prefix.as_ref()), content.clone(), None);
        assert_eq!(first.last_segment, last_segment, "{length}");
        let first = first.name;
        assert_eq!(fetch(&mut publisher, at(1), &first), Some(content));
    }
}

#[test]
fn segment_fits_the_largest_packet() {
    use crate::sign::{DataSigner, DigestSigner};
    let mut publisher = publisher();
    let prefix = name("/localhost/nfd/faces/list");
    let segment =
        publisher.publish(at(1), (READER, prefix.as_ref()), vec![7; SEGMENT_SIZE * 300], None);
    let wire = DigestSigner.sign(&segment.data()).unwrap();
    assert!(wire.len() <= ndn_packet::MAX_PACKET_SIZE, "{}", wire.len());
    let data = ndn_packet::Data::parse(&wire).unwrap();
    assert_eq!(data.name(), segment.name);
    assert_eq!(data.freshness_ms(), Some(1000));
    assert_eq!(data.final_block_id().unwrap().as_segment(), Some(299));
    assert_eq!(data.content(), Some(&*segment.content));
}

#[test]
fn version_without_segment_is_answered_with_the_first_segment() {
    let mut publisher = publisher();
    let first = publisher.publish(at(1), (READER, name("/p").as_ref()), vec![1], None).name;
    let version = first.as_ref().parent();
    assert_eq!(publisher.find(at(1), version).unwrap().name, first);
    for other in ["/p", "/p/seg=0", "/p/v=5", "/p/v=5/seg=0", "/q/v=1/seg=0", "/p/v=5/off=0"] {
        assert_eq!(publisher.find(at(1), name(other).as_ref()), None, "{other}");
    }
}

#[test]
fn unchanged_table_is_published_once_within_its_freshness() {
    let mut publisher = publisher();
    let prefix = name("/p");
    assert_eq!(publisher.reuse(at(1), (READER, prefix.as_ref()), 7), None);
    let first = publisher.publish(at(1), (READER, prefix.as_ref()), vec![1], Some(7)).name;
    assert_eq!(publisher.reuse(at(1), (READER, prefix.as_ref()), 7).unwrap().name, first);
    assert_eq!(publisher.reuse(at(1), (READER, prefix.as_ref()), 8), None);
    assert_eq!(publisher.reuse(at(2), (READER, prefix.as_ref()), 7), None);
    publisher.publish(at(2), (READER, prefix.as_ref()), vec![1], None);
    assert_eq!(publisher.reuse(at(2), (READER, prefix.as_ref()), 7), None);
}

/// Another principal requests a list just before the reader does, and then many others.
#[test]
fn version_of_an_unchanged_table_does_not_give_way_with_the_principal_that_requested_it_first() {
    let mut publisher = publisher();
    let prefix = name("/localhost/nfd/rib/list");
    let other = PrincipalKey::LocalApplication { uid: 2, pid: 2 };
    let content: Content = vec![1; SEGMENT_SIZE * 3].into();
    let request = |key| (key, prefix.as_ref());
    let first = publisher.publish(at(1), request(other), content.clone(), Some(7)).name;
    let own = publisher.reuse(at(1), request(READER), 7).unwrap().name;
    assert_ne!(own, first);
    let again = |publisher: &mut DatasetPublisher, key| {
        publisher.reuse(at(1), request(key), 7).map(|segment| segment.name)
    };
    assert_eq!(again(&mut publisher, READER).as_ref(), Some(&own));
    assert_eq!(again(&mut publisher, other).as_ref(), Some(&first));
    assert_eq!(publisher.reuse(at(2), request(READER), 7), None, "as old as the first");
    for generation in 8..20 {
        publisher.publish(at(1), request(other), content.clone(), Some(generation));
    }
    assert_eq!(fetch(&mut publisher, at(1), &first), None);
    assert_eq!(fetch(&mut publisher, at(1), &own), Some(vec![1; SEGMENT_SIZE * 3]));
    publisher.drop_idle(at(100));
    assert!(publisher.report().is_zero());
}

#[test]
fn newest_version_survives_the_limits() {
    let limits = PublisherLimits {
        versions_per_prefix_max: 2,
        versions_max: 5,
        bytes_max: 1000,
        idle: Duration::from_secs(10),
        ..PublisherLimits::default()
    };
    let mut publisher = DatasetPublisher::new(limits, Reserves::NONE);
    let mut firsts = Vec::new();
    for round in 0..40 {
        let prefix = name(&format!("/p{}", round % 7));
        let length = if round % 5 == 0 { 5000 } else { 100 };
        firsts
            .push(publisher.publish(at(1), (READER, prefix.as_ref()), vec![1; length], None).name);
        assert!(publisher.version_count() <= 5);
        assert!(publisher.byte_count() <= 1000.max(length));
        assert!(publisher.find(at(1), firsts[round].as_ref()).is_some(), "the newest is gone");
    }
    let same = name("/same");
    let firsts: Vec<Name> = (0..3)
        .map(|_| publisher.publish(at(1), (READER, same.as_ref()), vec![1], None).name)
        .collect();
    assert!(publisher.find(at(1), firsts[0].as_ref()).is_none());
    assert!(publisher.find(at(1), firsts[1].as_ref()).is_some());
}

#[test]
fn idle_version_is_dropped_unless_requested() {
    let mut publisher = publisher();
    let used = publisher.publish(at(0), (READER, name("/p").as_ref()), vec![1], None).name;
    let idle = publisher.publish(at(0), (READER, name("/q").as_ref()), vec![1], None).name;
    assert_eq!(publisher.next_deadline(), Some(at(30).monotonic));
    assert!(publisher.find(at(20), used.as_ref()).is_some());
    publisher.drop_idle(at(30));
    assert!(publisher.find(at(30), idle.as_ref()).is_none());
    assert!(publisher.find(at(30), used.as_ref()).is_some());
    publisher.drop_idle(at(60));
    assert_eq!((publisher.version_count(), publisher.byte_count()), (0, 0));
    assert_eq!(publisher.next_deadline(), None);
}

#[test]
fn segments_are_assembled_from_runs() {
    let runs: Vec<Vec<u8>> =
        (0..100_usize).map(|n| vec![u8::try_from(n).unwrap(); n * 37 % 5000]).collect();
    let whole: Vec<u8> = runs.concat();
    let content: Content = runs.into_iter().map(Arc::from).collect();
    assert_eq!(content.len(), whole.len());
    let mut publisher = publisher();
    let first = publisher.publish(at(1), (READER, name("/p").as_ref()), content, None).name;
    assert_eq!(fetch(&mut publisher, at(1), &first), Some(whole));
}
