//! Objects with names of the older convention: markers in generic components.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ndn_packet::{Convention, DataBuilder, Interest, InterestBuilder, NackReason, Name};
use ndn_security::{DigestSigner, HmacKey, Locator};
use tokio::sync::mpsc;

use crate::fetch::{Discovery, FetchError, FetchOptions, Verification};
use crate::pending::{FlowEvent, PendingTable};
use crate::testing::{Behaviour, FakeForwarder};
use crate::{Endpoint, Request};

/// Enough segments that some numbers take two bytes.
const LAST: u64 = 300;
const VERSION: u64 = 1_700_000_000_000;

fn name(uri: &str) -> Name {
    Name::from_uri(uri).unwrap()
}

fn versioned(version: Convention) -> Name {
    let mut name = name("/old");
    version.push_version(&mut name, VERSION);
    name
}

fn content_of(segment: u64) -> [u8; 10] {
    [u8::try_from(segment % 251).unwrap(); 10]
}

fn whole() -> Vec<u8> {
    (0..=LAST).flat_map(content_of).collect()
}

/// Behaviour of the producer besides answering for segments.
#[derive(Clone, Copy)]
struct Habits {
    /// Convention of the version.
    version: Convention,
    /// Convention of segment numbers.
    segments: Convention,
    metadata: bool,
    /// Metadata contains the last segment.
    final_block_id: bool,
    /// Last segment stated by segments, if different.
    reported_last: Option<(Convention, u64)>,
    freshness_ms: u64,
}

const OLD: Habits = Habits {
    version: Convention::Marked,
    segments: Convention::Marked,
    metadata: false,
    final_block_id: false,
    reported_last: None,
    freshness_ms: 1000,
};

/// Answers for the object, with the convention of its segments.
fn serve(habits: Habits) -> impl Fn(Request) + Send + Sync + 'static {
    move |request: Request| {
        let interest = request.interest();
        let asked = interest.name();
        let segment_name = |segment| {
            let mut name = versioned(habits.version);
            habits.segments.push_segment(&mut name, segment);
            name
        };
        if asked == name("/old/32=metadata").as_ref() {
            let mut content = Vec::new();
            ndn_packet::tlv::append_name(&mut content, versioned(habits.version).as_ref());
            if habits.final_block_id {
                let last = segment_name(LAST);
                let mut component = Vec::new();
                let value = last.as_ref().last().unwrap();
                ndn_packet::tlv::append_tlv(&mut component, value.ty().tlv_type(), value.value());
                ndn_packet::tlv::append_tlv(
                    &mut content,
                    ndn_packet::types::FINAL_BLOCK_ID,
                    &component,
                );
            }
            let mut answer = name("/old/32=metadata");
            habits.version.push_version(&mut answer, 1);
            habits.segments.push_segment(&mut answer, 0);
            let data = DataBuilder::new(answer.as_ref()).freshness_ms(1000).content(&content);
            if habits.metadata {
                request.answer_with(&data, &DigestSigner).unwrap();
            }
            return;
        }
        let segment = if interest.can_be_prefix() {
            Some(0)
        } else {
            (0..=LAST).find(|&segment| segment_name(segment).as_ref() == asked)
        };
        let Some(segment) = segment else { return };
        let (name, mut last) = (segment_name(segment), segment_name(LAST));
        if let Some((convention, number)) = habits.reported_last {
            convention.push_segment(&mut last, number);
        }
        let content = content_of(segment);
        let data = DataBuilder::new(name.as_ref())
            .freshness_ms(habits.freshness_ms)
            .final_block_id(last.as_ref().last().unwrap())
            .content(&content);
        request.answer_with(&data, &DigestSigner).unwrap();
    }
}

async fn pair(habits: Habits) -> (FakeForwarder, Endpoint, impl Drop) {
    let forwarder = FakeForwarder::new(Behaviour::default());
    let producer = forwarder.attach();
    let consumer = forwarder.attach();
    let registered = producer.produce(&name("/old"), serve(habits)).await.unwrap();
    (forwarder, consumer, Both(registered, producer))
}

struct Both<A, B>(A, B);

impl<A, B> Drop for Both<A, B> {
    fn drop(&mut self) {
        let _ = (&self.0, &self.1);
    }
}

#[tokio::test(start_paused = true)]
async fn objects_of_the_older_convention_are_found_by_their_prefix() {
    let version = versioned(Convention::Marked);
    for (habits, start, discovery) in [
        (OLD, name("/old"), Discovery::Auto),
        (OLD, name("/old"), Discovery::Prefix),
        (OLD, version.clone(), Discovery::Auto),
        (OLD, version.clone(), Discovery::Prefix),
        (OLD, version.clone(), Discovery::None),
        (Habits { metadata: true, ..OLD }, name("/old"), Discovery::Auto),
        (Habits { metadata: true, ..OLD }, name("/old"), Discovery::Metadata),
        (Habits { metadata: true, final_block_id: true, ..OLD }, name("/old"), Discovery::Metadata),
        // A version written with another convention than that of the segments.
        (Habits { version: Convention::Typed, ..OLD }, name("/old"), Discovery::Auto),
        (
            Habits { version: Convention::Typed, metadata: true, final_block_id: true, ..OLD },
            name("/old"),
            Discovery::Metadata,
        ),
    ] {
        let (_forwarder, consumer, _producer) = pair(habits).await;
        let options = FetchOptions { discovery, ..FetchOptions::default() };
        let found = consumer.find(&start, &options).await.unwrap();
        assert_eq!(found.convention(), Convention::Marked, "{start} {discovery:?}");
        assert_eq!(*found.name(), versioned(habits.version), "{start} {discovery:?}");
        let stream = consumer.fetch_found(found.clone(), 0, &options);
        assert!(stream.collect(usize::MAX).await.unwrap() == whole(), "{start} {discovery:?}");
        let one = consumer.fetch_segment(&found, 299, &options).await.unwrap();
        assert_eq!(*one.content(), content_of(299));
    }
}

#[tokio::test(start_paused = true)]
async fn convention_of_segments_is_independent_of_the_version() {
    let habits = Habits { segments: Convention::Typed, ..OLD };
    let (_forwarder, consumer, _producer) = pair(habits).await;
    let options = FetchOptions::default();
    for start in [name("/old"), versioned(Convention::Marked)] {
        let found = consumer.find(&start, &options).await.unwrap();
        assert_eq!(found.convention(), Convention::Typed, "{start}");
        let stream = consumer.fetch_found(found, 0, &options);
        assert!(stream.collect(usize::MAX).await.unwrap() == whole(), "{start}");
    }
}

/// A FinalBlockId of another convention than the segments' is not a segment number.
#[tokio::test(start_paused = true)]
async fn final_block_id_is_read_in_the_convention_of_the_segments() {
    for (segments, other) in
        [(Convention::Typed, Convention::Marked), (Convention::Marked, Convention::Typed)]
    {
        let habits = Habits { segments, metadata: true, final_block_id: true, ..OLD };
        let habits = Habits { reported_last: Some((other, 5)), ..habits };
        let (_forwarder, consumer, _producer) = pair(habits).await;
        for discovery in [Discovery::Metadata, Discovery::Prefix] {
            let options = FetchOptions { discovery, ..FetchOptions::default() };
            let mut found = consumer.find(&name("/old"), &options).await.unwrap();
            assert_eq!(found.convention(), segments);
            let first = consumer.fetch_segment(&found, 0, &options).await.unwrap();
            found.note_final_segment(&first);
            if discovery == Discovery::Prefix {
                assert_eq!(found.final_segment(), None, "{segments:?}");
                continue;
            }
            assert_eq!(found.final_segment(), Some(LAST), "{segments:?}");
            let stream = consumer.fetch_found(found, 0, &options);
            assert!(stream.collect(usize::MAX).await.unwrap() == whole(), "{segments:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn stale_version_is_found() {
    let (forwarder, consumer, _producer) = pair(Habits { freshness_ms: 0, ..OLD }).await;
    let start = tokio::time::Instant::now();
    let version = versioned(Convention::Marked);
    consumer.find(&version, &FetchOptions::default()).await.unwrap();
    assert!(start.elapsed() < std::time::Duration::from_millis(100), "{:?}", start.elapsed());
    let asked = forwarder.interests();
    assert!(asked.contains(&version.to_uri()), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn component_that_resembles_a_version_is_handled() {
    let forwarder = FakeForwarder::new(Behaviour::default());
    let (producer, consumer) = (forwarder.attach(), forwarder.attach());
    let object = name("/old/%FD%01");
    let versions_are_stale = Arc::new(AtomicBool::new(false));
    let asked_for_fresh = Arc::clone(&versions_are_stale);
    let serve = move |request: Request| {
        let fresh = request.interest().must_be_fresh();
        let is_segment = !request.interest().can_be_prefix();
        asked_for_fresh.fetch_or(fresh && !is_segment, Ordering::Relaxed);
        let mut answer = object.clone();
        answer.push_version(if fresh || is_segment { 2 } else { 1 }).push_segment(0);
        let data = DataBuilder::new(answer.as_ref()).final_segment(0).content(b"latest");
        if !request.interest().name().components().any(|part| part == crate::fetch::METADATA) {
            request.answer_with(&data, &DigestSigner).unwrap();
        }
    };
    let _served = producer.produce(&name("/old"), serve).await.unwrap();
    let stream = consumer.fetch(&name("/old/%FD%01"), &FetchOptions::default()).await.unwrap();
    assert_eq!(*stream.name(), name("/old/%FD%01/v=2"));
    assert!(versions_are_stale.load(Ordering::Relaxed));
}

#[tokio::test(start_paused = true)]
async fn segments_of_the_older_convention_are_verified() {
    let (_forwarder, consumer, _producer) = pair(OLD).await;
    let wrong = Verification::Verifier(Arc::new(HmacKey::new(b"x", Locator::None)));
    let options = FetchOptions { verification: wrong, ..FetchOptions::default() };
    let error = consumer.find(&name("/old"), &options).await.unwrap_err();
    assert!(matches!(error, FetchError::Verification { .. }), "{error}");
    let none = FetchOptions { discovery: Discovery::None, ..options };
    let stream = consumer.fetch(&versioned(Convention::Marked), &none).await.unwrap();
    let error = stream.collect(usize::MAX).await.unwrap_err();
    assert!(matches!(error, FetchError::Failed { .. }), "{error}");
}

#[test]
fn nack_event_contains_the_segment() {
    let mut table = PendingTable::default();
    let (sender, mut events) = mpsc::channel(10);
    let prefix = versioned(Convention::Marked);
    let _key = table.insert_flow(prefix.as_ref(), sender);
    for segment in [0, 7, 300, 70_000] {
        let mut name = prefix.clone();
        Convention::Marked.push_segment(&mut name, segment);
        let interest = InterestBuilder::new(name.as_ref()).to_vec().unwrap();
        let interest = Interest::parse(&interest).unwrap();
        assert!(table.handle_nack(&interest, NackReason::NO_ROUTE));
        let event = events.try_recv().unwrap();
        let reported =
            matches!(event, FlowEvent::Nack { segment: reported, .. } if reported == segment);
        assert!(reported, "{event:?}");
    }
}
