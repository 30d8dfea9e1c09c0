//! Segmented objects from producer to consumer.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ndn_packet::{DataBuilder, Name};
use ndn_security::{DigestSigner, HmacKey, KeySigner, KeyType, Locator, PrivateKey, sign_data};

use crate::fetch::{
    Discovery, FetchConfig, FetchError, FetchFailure, FetchOptions, Verification, WindowMode,
};
use crate::testing::{Behaviour, FakeForwarder};
use crate::{Content, Endpoint, ExpressError, PublishError, PublishOptions, Request};

fn name(uri: &str) -> Name {
    Name::from_uri(uri).unwrap()
}

fn bytes(length: usize) -> Bytes {
    (0..length).map(|i| u8::try_from(i * 7 % 253).unwrap()).collect()
}

fn pair(behaviour: Behaviour) -> (FakeForwarder, Endpoint, Endpoint) {
    let forwarder = FakeForwarder::new(behaviour);
    let (producer, consumer) = (forwarder.attach(), forwarder.attach());
    (forwarder, producer, consumer)
}

#[tokio::test(start_paused = true)]
async fn objects_of_many_sizes_are_fetched_completely() {
    let (forwarder, producer, consumer) = pair(Behaviour { tokens: true, ..Behaviour::default() });
    for length in [0, 1, 7999, 8000, 8001, 16_000, 1_000_003] {
        let content = bytes(length);
        let object = producer
            .publish(&name("/object"), Content::Bytes(content.clone()), &PublishOptions::default())
            .await
            .unwrap();
        let stream = consumer.fetch(&name("/object"), &FetchOptions::default()).await.unwrap();
        assert_eq!(stream.name(), object.versioned_name());
        let progress = stream.progress();
        let fetched = stream.collect(usize::MAX).await.unwrap();
        assert!(fetched == content, "{length} bytes differ");
        let progress = *progress.borrow();
        assert_eq!(progress.bytes, u64::try_from(length).unwrap());
        assert_eq!(progress.segments, object.final_segment() + 1);
        assert_eq!(progress.retransmissions, 0);
        assert_eq!(object.segments_served(), progress.segments);
        object.unpublish().await.unwrap();
    }
    assert_eq!(forwarder.token_mismatches(), 0);
}

#[tokio::test(start_paused = true)]
async fn fetch_completes_on_a_lossy_delayed_network() {
    let (_forwarder, producer, consumer) =
        pair(Behaviour { delay: Duration::from_millis(10), loss: 0.05, ..Behaviour::default() });
    let content = bytes(3_000_000);
    // Registration can be lost like anything else.
    let object = loop {
        let content = Content::Bytes(content.clone());
        match producer.publish(&name("/lossy"), content, &PublishOptions::default()).await {
            Ok(object) => break object,
            Err(PublishError::Register(_)) => {}
            Err(error) => panic!("{error}"),
        }
    };
    let stream = consumer.fetch(&name("/lossy"), &FetchOptions::default()).await.unwrap();
    let progress = stream.progress();
    let fetched = stream.collect(usize::MAX).await.unwrap();
    assert!(fetched == content);
    let progress = *progress.borrow();
    assert!(progress.retransmissions > 0);
    assert!(progress.window_decreases > 0);
    drop(object);
}

#[tokio::test(start_paused = true)]
async fn unanswered_name_fails_within_the_attempts() {
    let (_forwarder, producer, consumer) = pair(Behaviour::default());
    let silent = |_: Request| {};
    let _silence = producer.produce(&name("/nobody"), silent).await.unwrap();
    for (lifetime_ms, discovery_retransmissions) in [(50, 0), (1000, 0), (1000, 3), (4000, 1)] {
        for discovery in [Discovery::Auto, Discovery::Metadata, Discovery::Prefix] {
            let lifetime = Duration::from_millis(lifetime_ms);
            let options = FetchOptions {
                discovery,
                lifetime,
                discovery_retransmissions,
                ..FetchOptions::default()
            };
            let start = tokio::time::Instant::now();
            let error = consumer.fetch(&name("/nobody"), &options).await.unwrap_err();
            let timeout = matches!(&error, FetchError::Discovery(ExpressError::Timeout { .. }));
            assert!(timeout, "{error}");
            let limit = lifetime * (discovery_retransmissions + 1) + Duration::from_millis(10);
            assert!(start.elapsed() <= limit, "{options:?}: {:?}", start.elapsed());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn congestion_marks_reach_the_window() {
    let (_forwarder, producer, consumer) =
        pair(Behaviour { mark_every: Some(50), ..Behaviour::default() });
    let content = bytes(2_000_000);
    let _object = producer
        .publish(&name("/marked"), Content::Bytes(content), &PublishOptions::default())
        .await
        .unwrap();
    let stream = consumer.fetch(&name("/marked"), &FetchOptions::default()).await.unwrap();
    let progress = stream.progress();
    stream.collect(usize::MAX).await.unwrap();
    let progress = *progress.borrow();
    assert!(progress.congestion_marks >= 4, "{progress:?}");
    assert!(progress.window_decreases > 0);
    assert_eq!(progress.retransmissions, 0);
}

#[tokio::test]
async fn files_and_slow_signatures_use_a_blocking_thread() {
    let (_forwarder, producer, consumer) = pair(Behaviour { tokens: true, ..Behaviour::default() });
    let content = bytes(500_001);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&content).unwrap();
    let key = Arc::new(PrivateKey::generate(KeyType::Ed25519).unwrap());
    let public = key.public_key().unwrap();
    let signer = KeySigner::new(key, Locator::Name(name("/file/KEY/1")));
    let options = PublishOptions { signer: Arc::new(signer), ..PublishOptions::default() };
    let source = Content::open(file.path()).unwrap();
    let _object = producer.publish(&name("/file"), source, &options).await.unwrap();
    let verification = Verification::Verifier(Arc::new(public));
    let options = FetchOptions { verification, ..FetchOptions::default() };
    let stream = consumer.fetch(&name("/file"), &options).await.unwrap();
    assert!(stream.collect(usize::MAX).await.unwrap() == content);

    let wrong = Verification::Verifier(Arc::new(HmacKey::new(b"x", Locator::None)));
    let options = FetchOptions { verification: wrong, discovery: Discovery::None, ..options };
    let versioned = _object.versioned_name().clone();
    let stream = consumer.fetch(&versioned, &options).await.unwrap();
    let error = stream.collect(usize::MAX).await.unwrap_err();
    let failed = matches!(
        &error,
        FetchError::Failed { failure: FetchFailure::Verification { segment: 0, .. }, .. }
    );
    assert!(failed, "{error}");
}

#[tokio::test]
async fn truncated_file_is_answered_with_application_nacks() {
    let (_forwarder, producer, consumer) = pair(Behaviour::default());
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&bytes(50_000)).unwrap();
    let source = Content::open(file.path()).unwrap();
    let object =
        producer.publish(&name("/short"), source, &PublishOptions::default()).await.unwrap();
    file.as_file().set_len(20_000).unwrap();
    let stream = consumer.fetch(&name("/short"), &FetchOptions::default()).await.unwrap();
    let error = stream.collect(usize::MAX).await.unwrap_err();
    let failed = matches!(
        &error,
        FetchError::Failed { failure: FetchFailure::ApplicationNack { segment: 2.. }, .. }
    );
    assert!(failed, "{error}");
    assert!(object.segments_served() <= 3);
}

#[tokio::test(start_paused = true)]
async fn every_way_of_discovery_finds_the_version() {
    let (forwarder, producer, consumer) = pair(Behaviour::default());
    let content = bytes(20_000);
    let options = PublishOptions { version: Some(42), ..PublishOptions::default() };
    let object =
        producer.publish(&name("/d"), Content::Bytes(content.clone()), &options).await.unwrap();
    for (start, discovery) in [
        ("/d", Discovery::Auto),
        ("/d", Discovery::Metadata),
        ("/d", Discovery::Prefix),
        ("/d/v=42", Discovery::Auto),
        ("/d/v=42", Discovery::None),
        ("/d/v=42", Discovery::Prefix),
    ] {
        let options = FetchOptions { discovery, ..FetchOptions::default() };
        let stream = consumer.fetch(&name(start), &options).await.unwrap();
        assert_eq!(stream.name(), object.versioned_name());
        assert!(stream.collect(usize::MAX).await.unwrap() == content, "{start} {discovery:?}");
    }
    let metadata = forwarder.interests().iter().filter(|name| name.contains("32=metadata")).count();
    assert_eq!(metadata, 2);
}

#[tokio::test(start_paused = true)]
async fn no_segment_beyond_the_last_is_requested_of_a_published_object() {
    let (forwarder, producer, consumer) = pair(Behaviour::default());
    for (length, segments) in [(1, 1), (8000, 1), (24_000, 3)] {
        let options = PublishOptions { version: Some(length as u64), ..PublishOptions::default() };
        let content = Content::Bytes(bytes(length));
        let object = producer.publish(&name("/d"), content, &options).await.unwrap();
        let options = FetchOptions { discovery: Discovery::Metadata, ..FetchOptions::default() };
        let stream = consumer.fetch(&name("/d"), &options).await.unwrap();
        assert!(stream.collect(usize::MAX).await.unwrap() == bytes(length));
        let version = object.versioned_name().to_uri();
        let interests = forwarder.interests();
        let of_segments = interests.iter().filter(|name| name.starts_with(&version));
        assert_eq!(of_segments.count(), segments, "{interests:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn metadata_is_not_mistaken_for_the_object() {
    let (_forwarder, producer, consumer) = pair(Behaviour::default());
    let asked_for_metadata = std::sync::atomic::AtomicUsize::new(0);
    // An Interest for the prefix is answered by a cache with what it holds below it; metadata
    // itself is slow.
    let serve = move |request: Request| {
        let interest = request.interest();
        let asked = interest.name();
        let mut metadata = name("/slow/32=metadata");
        let is_metadata = asked == metadata.as_ref();
        metadata.push_version(5);
        metadata.push_segment(0);
        let object = name("/slow/v=1");
        let mut content = Vec::new();
        ndn_packet::tlv::append_name(&mut content, object.as_ref());
        let mut answer = metadata;
        if is_metadata && asked_for_metadata.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < 1
        {
            return;
        }
        if asked == name("/slow/v=1/seg=0").as_ref() {
            (answer, content) = (asked.to_name(), b"object".to_vec());
        }
        let data = DataBuilder::new(answer.as_ref()).final_segment(0).freshness_ms(1000);
        request.answer_with(&data.content(&content), &DigestSigner).unwrap();
    };
    let _served = producer.produce(&name("/slow"), serve).await.unwrap();
    let stream = consumer.fetch(&name("/slow"), &FetchOptions::default()).await.unwrap();
    assert_eq!(*stream.name(), name("/slow/v=1"));
    assert_eq!(stream.collect(usize::MAX).await.unwrap(), b"object");
}

#[tokio::test(start_paused = true)]
async fn prefix_is_requested_without_metadata() {
    let (_forwarder, producer, consumer) = pair(Behaviour::default());
    // Answers discovery by prefix and segments, but has no metadata.
    let serve = |request: Request| {
        let interest = request.interest();
        let asked = interest.name();
        let number = match asked.last().and_then(|last| last.as_segment()) {
            Some(number) => number,
            None if asked == name("/old").as_ref() => 0,
            None => return,
        };
        let mut answer = name("/old/v=1");
        answer.push_segment(number);
        let content = [u8::try_from(number).unwrap(); 100];
        let mut data = DataBuilder::new(answer.as_ref()).content(&content);
        if number == 2 {
            data = data.final_segment(2);
        }
        request.answer_with(&data, &DigestSigner).unwrap();
    };
    let _served = producer.produce(&name("/old"), serve).await.unwrap();
    let start = tokio::time::Instant::now();
    let stream = consumer.fetch(&name("/old"), &FetchOptions::default()).await.unwrap();
    let content = stream.collect(usize::MAX).await.unwrap();
    assert_eq!(content, [[0; 100], [1; 100], [2; 100]].concat());
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn single_data_is_an_object() {
    let (_forwarder, producer, consumer) = pair(Behaviour::default());
    let serve = |request: Request| {
        let wire =
            sign_data(&DataBuilder::new(name("/one").as_ref()).content(b"all"), &DigestSigner);
        request.answer(&wire.unwrap());
    };
    let _served = producer.produce(&name("/one"), serve).await.unwrap();
    let options = FetchOptions { discovery: Discovery::Prefix, ..FetchOptions::default() };
    let stream = consumer.fetch(&name("/one"), &options).await.unwrap();
    assert_eq!(stream.collect(usize::MAX).await.unwrap(), b"all");
}

#[tokio::test(start_paused = true)]
async fn missing_object_is_an_error() {
    let (_forwarder, producer, consumer) = pair(Behaviour::default());
    let error = consumer.fetch(&name("/nothing"), &FetchOptions::default()).await.unwrap_err();
    assert!(matches!(error, FetchError::Discovery(_)), "{error}");
    // The version is found by metadata, which the text does not name, or is given.
    for (object, discovery) in [
        ("/nothing", Discovery::Metadata),
        ("/nothing", Discovery::None),
        ("/nothing/v=1", Discovery::Auto),
    ] {
        let mut options = FetchOptions { discovery, ..FetchOptions::default() };
        options.give_up_after(0);
        let text = match consumer.fetch(&name(object), &options).await {
            Ok(stream) => stream.collect(usize::MAX).await.unwrap_err().to_string(),
            Err(error) => error.to_string(),
        };
        assert_eq!(text, format!("no route to {object}"));
    }
    let refuse = |request: Request| {
        let mut answer = request.name().to_name();
        answer.push_version(1);
        let data = DataBuilder::new(answer.as_ref()).content_type(ndn_packet::ContentType::NACK);
        request.answer_with(&data, &DigestSigner).unwrap();
    };
    let _served = producer.produce(&name("/refused"), refuse).await.unwrap();
    let error = consumer.fetch(&name("/refused"), &FetchOptions::default()).await.unwrap_err();
    assert!(matches!(error, FetchError::NotFound { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn fetch_fails_after_retries_when_its_producer_ends() {
    let (forwarder, producer, consumer) = pair(Behaviour::default());
    let content = Content::Bytes(bytes(10_000_000));
    let _object =
        producer.publish(&name("/half"), content, &PublishOptions::default()).await.unwrap();
    let config = FetchConfig {
        retransmissions_max: 3,
        window: WindowMode::Fixed(8),
        ..FetchConfig::default()
    };
    let options = FetchOptions { config, ..FetchOptions::default() };
    let mut stream = consumer.fetch(&name("/half"), &options).await.unwrap();
    stream.next().await.unwrap().unwrap();
    forwarder.set(|behaviour| behaviour.loss = 1.0);
    let error = loop {
        match stream.next().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the fetch ended as if all was there"),
            Err(error) => break error,
        }
    };
    let FetchError::Failed { failure: FetchFailure::Timeout { waited, .. }, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(waited, options.config.rto.max * 4);
}

#[tokio::test(start_paused = true)]
async fn slow_reader_throttles_the_fetch() {
    let (_forwarder, producer, consumer) = pair(Behaviour::default());
    let content = bytes(20_000_000);
    let object = producer
        .publish(&name("/big"), Content::Bytes(content.clone()), &PublishOptions::default())
        .await
        .unwrap();
    let config = FetchConfig { buffer_segments: 100, ..FetchConfig::default() };
    let options = FetchOptions { config, ..FetchOptions::default() };
    let mut stream = consumer.fetch(&name("/big"), &options).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    // 256 wait in the channel, 100 behind it.
    assert_eq!(object.segments_served(), 356);
    let mut fetched = Vec::new();
    while let Some(chunk) = stream.next().await.unwrap() {
        fetched.extend_from_slice(&chunk);
    }
    assert!(fetched == content);
    assert_eq!(object.segments_served(), object.final_segment() + 1);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_stream_stops_its_interests() {
    let (_forwarder, producer, consumer) =
        pair(Behaviour { delay: Duration::from_millis(10), ..Behaviour::default() });
    let content = Content::Bytes(bytes(20_000_000));
    let object =
        producer.publish(&name("/big"), content, &PublishOptions::default()).await.unwrap();
    let mut stream = consumer.fetch(&name("/big"), &FetchOptions::default()).await.unwrap();
    stream.next().await.unwrap();
    drop(stream);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let served = object.segments_served();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(object.segments_served(), served);
    assert!(served < 200, "{served}");
}

#[tokio::test(start_paused = true)]
async fn oversized_segments_are_rejected_with_advice() {
    let (_forwarder, producer, _consumer) = pair(Behaviour::default());
    let options = PublishOptions { segment_len: 8800, ..PublishOptions::default() };
    let error =
        producer.publish(&name("/fat"), Content::Bytes(bytes(10_000)), &options).await.unwrap_err();
    let PublishError::SegmentTooLong { segment_len_max, .. } = error else { panic!("{error}") };
    let options = PublishOptions { segment_len: segment_len_max, ..options };
    producer.publish(&name("/fat"), Content::Bytes(bytes(10_000)), &options).await.unwrap();
}
