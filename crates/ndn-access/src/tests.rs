//! Files of a real file server, over a stream.

use std::sync::Arc;
use std::time::Duration;

use ndn_client::fetch::{FetchOptions, Verification};
use ndn_client::{Endpoint, EndpointOptions, Request};
use ndn_files::{Event, FileServer, Mount, RootOptions, ServerOptions};
use ndn_management::{ControlParameters, ControlResponse};
use ndn_packet::tlv::append_name;
use ndn_packet::{ContentType, DataBuilder, Name};
use ndn_security::{DigestSigner, KeySigner, KeyType, Locator, PrivateKey};
use proptest::prelude::*;
use tempfile::TempDir;

use crate::{Access, AccessOptions, DiskCacheOptions, ErrorKind, File};

/// Segment length of served files.
const SEGMENT_LEN: usize = 1000;

fn name(uri: &str) -> Name {
    Name::from_uri(uri).unwrap()
}

/// `length` bytes without a short period.
fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|i| u8::try_from((i * 7 + i / 251) % 256).unwrap()).collect()
}

/// Two endpoints at the ends of one stream; the second accepts all registrations of the first.
fn pair() -> (Endpoint, Endpoint) {
    let (one, other) = tokio::io::duplex(1 << 20);
    let endpoint = |stream| {
        let (reader, writer) = tokio::io::split(stream);
        Endpoint::from_stream(reader, writer, &EndpointOptions::default())
    };
    let (producer, consumer) = (endpoint(one), endpoint(other));
    let grant = |request: Request| {
        let name = request.name();
        let parameters = name.component(4).unwrap();
        let parameters = ControlParameters::decode(parameters.value()).unwrap();
        let content = ControlResponse::new(200, "OK").with_body(&parameters).to_vec();
        let data = DataBuilder::new(name).content(&content);
        request.answer_with(&data, &DigestSigner).unwrap();
    };
    // It lives as long as the connection.
    std::mem::forget(consumer.attach(&name("/localhost/nfd"), grant).unwrap());
    (producer, consumer)
}

struct Bed {
    directory: TempDir,
    server: FileServer,
    access: Access,
    _producer: Endpoint,
}

fn options() -> AccessOptions {
    let fetching = FetchOptions { lifetime: Duration::from_secs(20), ..FetchOptions::default() };
    AccessOptions { fetching, metadata_lifetime: Duration::ZERO, ..AccessOptions::default() }
}

impl Bed {
    async fn new() -> Self {
        Self::with(options(), ServerOptions::default()).await
    }

    async fn with(options: AccessOptions, serving: ServerOptions) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (producer, consumer) = pair();
        let mut mount = Mount::open(name("/x"), directory.path(), RootOptions::default()).unwrap();
        mount.segment_len = Some(SEGMENT_LEN);
        let server = FileServer::start(&producer, vec![mount], &serving).await.unwrap();
        Self { directory, server, access: Access::new(consumer, options), _producer: producer }
    }

    fn write(&self, path: &str, content: &[u8]) {
        let path = self.directory.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        // By renaming, so that a version is never seen in part.
        let new = self.directory.path().join(".new");
        std::fs::write(&new, content).unwrap();
        std::fs::rename(new, path).unwrap();
    }

    /// Segments that the server has sent.
    fn sent(&self) -> u64 {
        self.server.counters().count(Event::Segment)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_return_the_bytes_of_the_file() {
    let bed = Bed::new().await;
    let content = bytes(123_456);
    bed.write("a/file", &content);
    let file = bed.access.open(&name("/x/a/file")).await.unwrap();
    assert_eq!(file.size(), 123_456);
    let end = content.len();
    for (offset, length) in
        [(0, 10), (990, 20), (5000, 1000), (5000, 1001), (4999, 3002), (0, end), (end - 3, 100)]
    {
        let read = file.read_at(offset as u64, length as u64).await.unwrap();
        assert_eq!(read, content[offset..(offset + length).min(end)], "{offset} {length}");
        let mut buffer = vec![0; length];
        let count = file.read_into(offset as u64, &mut buffer).await.unwrap();
        assert_eq!(buffer[..count], content[offset..(offset + length).min(end)]);
    }
    for (offset, length) in [(123_456, 1), (u64::MAX, 5), (u64::MAX, u64::MAX >> 40), (7, 0)] {
        assert_eq!(file.read_at(offset, length).await.unwrap().len(), 0, "{offset} {length}");
    }
    assert_eq!(file.read_at(0, u64::MAX).await.unwrap(), content, "all that there is");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_reads_are_read_in_pieces() {
    let bed = Bed::new().await;
    let content = bytes((16 << 20) + 12_345);
    bed.write("file", &content);
    let file = bed.access.open(&name("/x/file")).await.unwrap();
    let mut buffer = vec![0; content.len() + 10];
    assert_eq!(file.read_into(0, &mut buffer).await.unwrap(), content.len());
    assert!(buffer[..content.len()] == content);
    let parts: Vec<_> = (0..20_000_u64).map(|index| index * 838..index * 838 + 1).collect();
    let read = file.read_vectored(&parts).await.unwrap();
    for (part, bytes) in parts.iter().zip(&read) {
        assert_eq!(bytes[0], content[usize::try_from(part.start).unwrap()]);
    }
    let many = vec![0..content.len() as u64; 100];
    let too_long = file.read_vectored(&many).await.unwrap_err();
    assert_eq!(too_long.kind(), ErrorKind::Invalid, "{too_long}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vectored_reads_return_their_parts() {
    let bed = Bed::new().await;
    let content = bytes(50_500);
    bed.write("file", &content);
    let file = bed.access.open(&name("/x/file")).await.unwrap();
    let ranges = [40_000..41_234, 0..1, 999..1001, 50_400..60_000, 70_000..70_001, 40_500..40_500];
    let parts = file.read_vectored(&ranges).await.unwrap();
    for (range, part) in ranges.iter().zip(&parts) {
        let clamp = |at: u64| usize::try_from(at).unwrap().min(content.len());
        assert_eq!(part, &content[clamp(range.start)..clamp(range.end)], "{range:?}");
    }
    // 40 and 41, 0 and 1, 50: each once.
    assert_eq!(bed.sent(), 5);
    let reversed = std::ops::Range { start: 5, end: 4 };
    let wrong = file.read_vectored(&[reversed]).await.unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::Invalid, "{wrong}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_reads_in_order_fetch_each_segment_once() {
    let bed = Bed::new().await;
    let content = bytes(300_000);
    bed.write("file", &content);
    let file = bed.access.open(&name("/x/file")).await.unwrap();
    let mut offset = 0;
    while offset < content.len() {
        let read = file.read_at(offset as u64, 130).await.unwrap();
        assert_eq!(read, content[offset..(offset + 130).min(content.len())]);
        offset += read.len();
    }
    assert_eq!(bed.sent(), 300);
    // All are cached now, for another file on the same version, too.
    drop(file);
    let again = bed.access.open(&name("/x/file")).await.unwrap();
    assert_eq!(again.read_at(0, 300_000).await.unwrap(), content);
    assert_eq!(bed.sent(), 300);
    assert_eq!(bed.access.cached_bytes(), 300_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn single_reads_fetch_their_segments_only() {
    let bed = Bed::new().await;
    let content = bytes(300_000);
    bed.write("file", &content);
    let file = bed.access.open(&name("/x/file")).await.unwrap();
    for (reads, offset) in [200_500, 10_100, 150_000, 77_000, 20_000].into_iter().enumerate() {
        let read = file.read_at(offset, 100).await.unwrap();
        let offset = usize::try_from(offset).unwrap();
        assert_eq!(read, content[offset..offset + 100]);
        assert_eq!(bed.sent(), reads as u64 + 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn single_read_of_a_segment_in_flight_does_not_fetch_it_again() {
    let bed = Bed::new().await;
    let content = bytes(300_000);
    bed.write("file", &content);
    let file = bed.access.open(&name("/x/file")).await.unwrap();
    for offset in [0, 2000, 4000] {
        file.read_at(offset, 2000).await.unwrap();
    }
    // The fetch runs ahead of its readers.
    await_sent(&bed, 300).await;
    assert_eq!(file.read_at(200_100, 50).await.unwrap(), content[200_100..200_150]);
    assert_eq!(file.read_at(100_100, 50).await.unwrap(), content[100_100..100_150]);
    assert_eq!(file.read_at(6000, 294_000).await.unwrap(), content[6000..]);
    assert_eq!(bed.sent(), 300);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_at_a_constant_distance_are_fetched_ahead() {
    let bed = Bed::new().await;
    let content = bytes(300_000);
    bed.write("file", &content);
    let options = AccessOptions { read_ahead_bytes_max: 5000, ..options() };
    let access = Access::new(bed.access.endpoint().clone(), options);
    let file = access.open(&name("/x/file")).await.unwrap();
    for index in 0..4 {
        file.read_at(10_000 + index * 20_000, 100).await.unwrap();
    }
    // The fourth read shows the distance, and the next two are fetched.
    await_sent(&bed, 6).await;
    assert_eq!(file.read_at(90_000, 100).await.unwrap(), content[90_000..90_100]);
}

#[tokio::test(start_paused = true)]
async fn segments_under_way_are_not_requested_ahead_again() {
    let (producer, consumer) = pair();
    let content = bytes(300_000);
    let _published = publish(&producer, "/p/object", &content).await;
    // Segments of the eighth read and of later ones are not answered.
    let held = Arc::new(std::sync::Mutex::new(Vec::new()));
    let segment_of = |read: usize| 5 + 10 * read;
    let _holding: Vec<_> = (8..30)
        .map(|read| {
            let held = Arc::clone(&held);
            let hold = move |request: Request| held.lock().unwrap().push((read, request));
            let segment = format!("/p/object/v=5/seg={}", segment_of(read));
            producer.attach(&name(&segment), hold).unwrap()
        })
        .collect();
    let access = Access::new(consumer, options());
    let file = access.open(&name("/p/object")).await.unwrap();
    for read in 0..8 {
        let offset = segment_of(read) * SEGMENT_LEN;
        let bytes = file.read_at(offset as u64, 100).await.unwrap();
        assert_eq!(bytes, content[offset..offset + 100]);
        // The clock moves on when all fetches wait.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let mut requested: Vec<_> = held.lock().unwrap().iter().map(|(read, _)| *read).collect();
    requested.sort_unstable();
    assert_eq!(requested, (8..24).collect::<Vec<_>>());
}

/// Waits until the server has sent `count` segments.
async fn await_sent(bed: &Bed, count: u64) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    while bed.sent() < count {
        assert!(tokio::time::Instant::now() < deadline, "{} segments sent", bed.sent());
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_of_columns_are_fetched_ahead() {
    let bed = Bed::new().await;
    let content = bytes(300_000);
    bed.write("parts", &content);
    bed.write("rows", &content);
    let part = |start: u64| start..start + 100;
    let expected = |start: u64| {
        let start = usize::try_from(start).unwrap();
        &content[start..start + 100]
    };
    // A column, four parts of it together.
    let file = bed.access.open(&name("/x/parts")).await.unwrap();
    let starts: Vec<u64> = (0..15).map(|index| 10_000 + index * 20_000).collect();
    for (starts, sent) in starts.chunks(4).zip([6, 15, 15, 15]) {
        let ranges: Vec<_> = starts.iter().map(|start| part(*start)).collect();
        let read = file.read_vectored(&ranges).await.unwrap();
        assert!(starts.iter().zip(&read).all(|(start, read)| read == expected(*start)));
        await_sent(&bed, sent).await;
    }
    // Two columns of each row group, one read after the other.
    let file = bed.access.open(&name("/x/rows")).await.unwrap();
    for index in 0..7 {
        let start = index / 2 * 50_000 + [40_000, 10_000][usize::from(index % 2 == 1)];
        assert_eq!(file.read_at(start, 100).await.unwrap(), expected(start));
    }
    await_sent(&bed, 15 + 7 + 2).await;
    for start in [160_000, 240_000] {
        assert_eq!(file.read_at(start, 100).await.unwrap(), expected(start));
    }
}

/// Reads of a few bytes: of most, the segment is in memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tiny_reads_request_each_segment_once() {
    let bed = Bed::new().await;
    let content = bytes(100_000);
    bed.write("file", &content);
    let file = bed.access.open(&name("/x/file")).await.unwrap();
    let mut state = 1_u64;
    for _ in 0..100_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let (offset, length) = ((state >> 33) % 100_000, state >> 62);
        let read = file.read_at(offset, length).await.unwrap();
        let start = usize::try_from(offset).unwrap();
        let end = (start + usize::try_from(length).unwrap()).min(content.len());
        assert!(read == content[start..end], "{offset} {length}");
    }
    assert_eq!(bed.sent(), 100);
}

/// Publishes version 5 of an object in segments of 1,000 bytes.
async fn publish(producer: &Endpoint, uri: &str, content: &[u8]) -> ndn_client::PublishedObject {
    let options = ndn_client::PublishOptions {
        version: Some(5),
        segment_len: SEGMENT_LEN,
        ..Default::default()
    };
    let content = ndn_client::Content::Bytes(content.to_vec().into());
    producer.publish(&name(uri), content, &options).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn segments_of_another_length_are_not_returned() {
    let (producer, consumer) = pair();
    let content = bytes(100_000);
    let _published = publish(&producer, "/p/object", &content).await;
    let others = [(30, 999), (60, 1001), (99, 1)].map(|(segment, length)| {
        let answer = move |request: Request| {
            let content = bytes(length);
            let data = DataBuilder::new(request.name()).content(&content);
            request.answer_with(&data, &DigestSigner).unwrap();
        };
        producer.attach(&name(&format!("/p/object/v=5/seg={segment}")), answer).unwrap()
    });
    let access = Access::new(consumer, options());
    let file = access.open(&name("/p/object")).await.unwrap();
    // The last segment is what its length says.
    assert_eq!(file.size(), 99_001);
    for (offset, length) in [(30_000, 10), (60_990, 20), (25_000, 70_000)] {
        let error = file.read_at(offset, length).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unusable, "{offset}: {error}");
        assert!(error.to_string().contains("/p/object/v=5"), "{error}");
    }
    assert_eq!(file.read_at(28_500, 1500).await.unwrap(), content[28_500..30_000]);
    drop(others);
    assert_eq!(file.read_at(25_000, 70_000).await.unwrap(), content[25_000..95_000]);
}

#[tokio::test(start_paused = true)]
async fn reads_fail_in_time_while_nothing_answers_for_a_minute() {
    let (producer, consumer) = pair();
    let content = bytes(100_000);
    let published = publish(&producer, "/p/object", &content).await;
    let deadline = Duration::from_secs(7);
    let mut options = AccessOptions { deadline, ..options() };
    options.fetching.lifetime = Duration::from_secs(4);
    let access = Access::new(consumer, options);
    let file = access.open(&name("/p/object")).await.unwrap();
    assert_eq!(file.read_at(0, 100).await.unwrap(), content[..100]);
    drop(published);
    let start = tokio::time::Instant::now();
    let mut failures = 0;
    while start.elapsed() < Duration::from_secs(60) {
        let begun = tokio::time::Instant::now();
        let error = file.read_at(50_000 + failures * 5000, 3000).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unanswered, "{error}");
        let latest = deadline + Duration::from_millis(10);
        assert!((deadline..latest).contains(&begun.elapsed()), "{:?}", begun.elapsed());
        assert_eq!(file.read_at(500, 10).await.unwrap(), content[500..510], "from memory");
        failures += 1;
    }
    let _published = publish(&producer, "/p/object", &content).await;
    assert_eq!(file.read_at(50_000, 40_000).await.unwrap(), content[50_000..90_000]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_reads_share_their_segments() {
    let bed = Bed::new().await;
    let content = bytes(30_000);
    bed.write("file", &content);
    let mut reads = Vec::new();
    for index in 0..40_u64 {
        let file = bed.access.open(&name("/x/file")).await.unwrap();
        reads.push(tokio::spawn(async move { file.read_at(index % 7 * 1000, 9500).await }));
    }
    for (index, read) in reads.into_iter().enumerate() {
        let start = index % 7 * 1000;
        assert_eq!(read.await.unwrap().unwrap(), content[start..start + 9500]);
    }
    // The first 16.
    assert_eq!(bed.sent(), 16);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_that_are_dropped_leave_others_to_finish() {
    let bed = Bed::new().await;
    let content = bytes(100_000);
    bed.write("file", &content);
    let file = Arc::new(bed.access.open(&name("/x/file")).await.unwrap());
    for round in 0..50_u64 {
        let reads: Vec<_> = (0..4_u64)
            .map(|_| {
                let file = Arc::clone(&file);
                tokio::spawn(async move { file.read_at(round * 2000, 1999).await })
            })
            .collect();
        for (index, read) in reads.into_iter().enumerate() {
            if index % 2 == 0 {
                read.abort();
            } else {
                let start = usize::try_from(round).unwrap() * 2000;
                assert_eq!(read.await.unwrap().unwrap(), content[start..start + 1999]);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_file_keeps_its_version() {
    let bed = Bed::new().await;
    let (old, new) = (bytes(20_000), vec![9; 15_000]);
    bed.write("file", &old);
    let file = bed.access.open(&name("/x/file")).await.unwrap();
    assert_eq!(file.read_at(0, 5000).await.unwrap(), old[..5000]);
    bed.write("file", &new);
    assert_eq!(file.read_at(1000, 3000).await.unwrap(), old[1000..4000], "from the cache");
    let gone = file.read_at(12_000, 100).await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::Changed, "{gone}");
    let again = bed.access.open(&name("/x/file")).await.unwrap();
    assert_eq!(
        (again.size(), again.read_at(12_000, 100).await.unwrap().to_vec()),
        (15_000, vec![9; 100])
    );
    assert_ne!(again.stat().version(), file.stat().version());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_of_versions_open_the_current_one_only() {
    let bed = Bed::new().await;
    bed.write("file", &bytes(20_000));
    let file = bed.access.open(&name("/x/file")).await.unwrap();
    let versioned = file.name().clone();
    drop(file);
    let file = bed.access.open(&versioned).await.unwrap();
    assert_eq!((file.name(), file.size()), (&versioned, 20_000));
    assert_eq!(bed.access.stat(&versioned).await.unwrap().name, versioned);
    drop(file);
    bed.write("file", &bytes(15_000));
    let gone = bed.access.open(&versioned).await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::Changed, "{gone}");
    assert!(gone.to_string().contains("is not the current version, which is /x/file/v="), "{gone}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_with_metadata_of_their_own_only_are_found() {
    let (producer, consumer) = pair();
    let answer = |request: Request| {
        let asked = request.name();
        let own = ["/p/denied/v=5/32=metadata", "/p/silent/v=5/32=metadata"].map(name);
        let mut content = Vec::new();
        if own.iter().any(|own| asked == *own) {
            append_name(&mut content, asked.parent());
            let data = DataBuilder::new(asked).content(&content);
            request.answer_with(&data, &DigestSigner).unwrap();
        } else if asked.starts_with(name("/p/denied").as_ref()) {
            let data = DataBuilder::new(asked).content_type(ContentType::NACK);
            request.answer_with(&data, &DigestSigner).unwrap();
        }
    };
    let _answering = producer.attach(&name("/p"), answer).unwrap();
    let mut options = options();
    options.fetching.lifetime = Duration::from_millis(200);
    let access = Access::new(consumer, options);
    for (object, kind) in [("/p/denied", ErrorKind::NotFound), ("/p/silent", ErrorKind::Unanswered)]
    {
        let version = name(&format!("{object}/v=5"));
        assert_eq!(access.stat(&version).await.unwrap().name, version);
        let error = access.stat(&name(&format!("{object}/v=6"))).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn object_that_is_published_after_a_timeout_is_found_at_once() {
    let (producer, consumer) = pair();
    let mut options = options();
    options.fetching.lifetime = Duration::from_millis(200);
    options.metadata_lifetime = Duration::from_secs(60);
    let access = Access::new(consumer, options);
    let object = name("/p/late");
    assert_eq!(access.stat(&object).await.unwrap_err().kind(), ErrorKind::Unanswered);
    let answer = |request: Request| {
        let mut content = Vec::new();
        append_name(&mut content, name("/p/late/v=1").as_ref());
        let data = DataBuilder::new(request.name()).content(&content);
        request.answer_with(&data, &DigestSigner).unwrap();
    };
    let _answering = producer.attach(&name("/p"), answer).unwrap();
    assert_eq!(access.stat(&object).await.unwrap().name, name("/p/late/v=1"));
}

/// A key, options that demand it, and a server that signs with it; content is cached below `directory`.
fn signed(directory: &TempDir) -> (AccessOptions, ServerOptions) {
    let key = Arc::new(PrivateKey::generate(KeyType::Ed25519).unwrap());
    let mut options = options();
    options.fetching.verification = Verification::Verifier(Arc::new(key.public_key().unwrap()));
    options.disk_cache = Some(DiskCacheOptions::new(directory.path().join("cache")));
    let locator = Locator::Digest(key.key_digest());
    let signer = Arc::new(KeySigner::new(key, locator));
    (options, ServerOptions { signer, ..ServerOptions::default() })
}

/// Reads in order, at random and in parts.
async fn read_all(file: &File, content: &[u8]) {
    let length = content.len() as u64;
    for offset in (0..length).step_by(7000) {
        let start = usize::try_from(offset).unwrap();
        let end = (start + 7000).min(content.len());
        assert_eq!(file.read_at(offset, 7000).await.unwrap(), content[start..end]);
    }
    for offset in [length - 1, 0, length / 2, 12_345] {
        let start = usize::try_from(offset).unwrap();
        let end = (start + 100).min(content.len());
        assert_eq!(file.read_at(offset, 100).await.unwrap(), content[start..end]);
    }
    let parts = file.read_vectored(&[5..1500, 100_000..103_000]).await.unwrap();
    assert_eq!(parts, [&content[5..1500], &content[100_000..103_000]]);
}

/// Runs `work` with other threads.
fn in_real_time<T>(work: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap().block_on(work)
}

/// Runs `work` with a clock that moves on only while all wait for the network: the disk takes no time.
fn in_virtual_time<T>(work: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().unwrap().block_on(work)
}

/// A connection to a forwarder that does not answer, as long as the other end exists.
fn silent() -> (Endpoint, tokio::io::DuplexStream) {
    let (one, other) = tokio::io::duplex(1 << 20);
    let (reader, writer) = tokio::io::split(one);
    (Endpoint::from_stream(reader, writer, &EndpointOptions::default()), other)
}

#[test]
fn later_process_reads_a_version_without_a_network() {
    let directory = tempfile::tempdir().unwrap();
    let (options, serving) = signed(&directory);
    let content = bytes(300_000);
    let [file, part] = in_real_time(async {
        let bed = Bed::with(options.clone(), serving).await;
        bed.write("file", &content);
        bed.write("part", &content);
        let file = bed.access.open(&name("/x/file")).await.unwrap();
        read_all(&file, &content).await;
        let part = bed.access.open(&name("/x/part")).await.unwrap();
        assert_eq!(part.read_at(5000, 1000).await.unwrap(), content[5000..6000]);
        bed.access.flush_disk_cache().await;
        assert_eq!(bed.access.disk_cache().unwrap().stored, 301);
        [&file, &part].map(|file| (file.name().clone(), file.stat()))
    });
    in_virtual_time(async {
        let (endpoint, _forwarder) = silent();
        // Without memory, with a little, and with enough of it.
        for cache_bytes_max in [0, 5000, 1 << 30] {
            let deadline = Duration::from_secs(1);
            let options = AccessOptions { deadline, cache_bytes_max, ..options.clone() };
            let access = Access::new(endpoint.clone(), options);
            let again = access.open(&file.0).await.unwrap();
            assert_eq!(again.stat(), file.1);
            read_all(&again, &content).await;
            assert_eq!(access.disk_cache().unwrap().misses, 0);
            let again = access.open(&part.0).await.unwrap();
            assert_eq!(again.read_at(5000, 1000).await.unwrap(), content[5000..6000]);
            if cache_bytes_max > 0 {
                continue;
            }
            let missing = again.read_at(6000, 1000).await.unwrap_err();
            assert_eq!(missing.kind(), ErrorKind::Unanswered, "{missing}");
            // Only the version has a name that needs no answer, and other keys have their own content.
            let unanswered = access.open(&name("/x/file")).await.unwrap_err();
            assert_eq!(unanswered.kind(), ErrorKind::Unanswered);
            let other = access.verified_by(Verification::Digest);
            assert_eq!(other.open(&file.0).await.unwrap_err().kind(), ErrorKind::Unanswered);
        }
    });
}

#[test]
fn content_on_disk_does_not_wait_for_what_is_fetched_ahead() {
    let directory = tempfile::tempdir().unwrap();
    let (options, serving) = signed(&directory);
    let content = bytes(300_000);
    // Two columns of three of six row groups.
    let starts: Vec<u64> = (0..6).map(|index| index / 2 * 50_000 + index % 2 * 30_000).collect();
    let more = [150_000, 250_000, 280_000];
    let version = in_real_time(async {
        let options = AccessOptions { read_ahead_bytes_max: 0, ..options.clone() };
        let bed = Bed::with(options, serving).await;
        bed.write("file", &content);
        let file = bed.access.open(&name("/x/file")).await.unwrap();
        for start in starts.iter().chain(&more) {
            file.read_at(*start, 100).await.unwrap();
        }
        bed.access.flush_disk_cache().await;
        file.name().clone()
    });
    in_virtual_time(async {
        let (endpoint, _forwarder) = silent();
        let options = AccessOptions { deadline: Duration::from_secs(1), ..options };
        let access = Access::new(endpoint, options);
        let file = access.open(&version).await.unwrap();
        let begun = tokio::time::Instant::now();
        // The distances show the pattern, and 180,000 and 200,000, which are not there, are requested.
        for start in starts.iter().chain(&more) {
            let read = file.read_at(*start, 100).await.unwrap();
            let start = usize::try_from(*start).unwrap();
            assert_eq!(read, content[start..start + 100]);
        }
        assert_eq!(begun.elapsed(), Duration::ZERO);
        assert_eq!(access.disk_cache().unwrap().misses, 0);
        let missing = file.read_at(180_000, 100).await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::Unanswered, "{missing}");
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn content_on_disk_is_read_without_its_manifest() {
    let directory = tempfile::tempdir().unwrap();
    let (options, serving) = signed(&directory);
    let bed = Bed::with(options.clone(), serving).await;
    // More segments than the root of a manifest lists.
    let content = bytes(2_000_000);
    bed.write("file", &content);
    let file = bed.access.open(&name("/x/file")).await.unwrap();
    read_all(&file, &content).await;
    bed.access.flush_disk_cache().await;
    let again = Access::new(bed.access.endpoint().clone(), options);
    let file = again.open(&name("/x/file")).await.unwrap();
    bed.server.stop().await.unwrap();
    read_all(&file, &content).await;
    assert_eq!(again.disk_cache().unwrap().misses, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_content_of_the_same_version_is_not_read_from_disk() {
    let directory = tempfile::tempdir().unwrap();
    let (options, serving) = signed(&directory);
    let bed = Bed::with(options.clone(), serving.clone()).await;
    // The root of the manifest, which is fetched when the file is opened, lists all segments.
    let (old, new) = (bytes(20_000), vec![9; 20_000]);
    bed.write("file", &old);
    let path = bed.directory.path().join("file");
    let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
    let file = bed.access.open(&name("/x/file")).await.unwrap();
    assert_eq!(file.read_at(0, 20_000).await.unwrap(), old);
    let version = file.name().clone();
    drop(file);
    let Bed { directory: served, server, access, _producer: producer } = bed;
    server.stop().await.unwrap();
    let endpoint = access.endpoint().clone();
    drop(access);
    std::fs::write(&path, &new).unwrap();
    std::fs::File::open(&path).unwrap().set_modified(modified).unwrap();
    let mut mount = Mount::open(name("/x"), served.path(), RootOptions::default()).unwrap();
    mount.segment_len = Some(SEGMENT_LEN);
    let _server = FileServer::start(&producer, vec![mount], &serving).await.unwrap();
    let access = Access::new(endpoint, options);
    let file = access.open(&name("/x/file")).await.unwrap();
    assert_eq!(*file.name(), version);
    assert_eq!(file.read_at(0, 20_000).await.unwrap(), new);
    assert!(access.disk_cache().unwrap().damaged > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn directories_are_listed_and_described() {
    let bed = Bed::new().await;
    bed.write("a/one", b"1");
    bed.write("a/b/two", b"22");
    let listed = bed.access.list(&name("/x/a")).await.unwrap();
    let entries: Vec<_> =
        listed.iter().map(|entry| (entry.file_name.as_slice(), entry.is_directory)).collect();
    assert_eq!(entries, [(b"b".as_slice(), true), (b"one", false)]);
    assert_eq!(bed.server.counters().count(Event::BeyondEnd), 0);
    let directory = bed.access.stat(&name("/x/a")).await.unwrap();
    assert!(directory.is_directory && directory.size.is_none());
    let file = bed.access.stat(&name("/x/a/b/two")).await.unwrap();
    assert_eq!((file.is_directory, file.size), (false, Some(2)));
    assert_eq!(bed.access.stat_metadata(&name("/x/a/b/two")).await.unwrap(), Some(file));
    assert_eq!(bed.access.stat_metadata(&name("/x/none")).await.unwrap(), None);
    let described = bed.access.list_described(&name("/x/a"), true).await.unwrap();
    let described: Vec<_> = described
        .iter()
        .map(|(entry, stat)| (entry.file_name.as_slice(), stat.as_ref().unwrap().size))
        .collect();
    assert_eq!(described, [(b"b".as_slice(), None), (b"one", Some(1))]);
    let files = bed.access.list_described(&name("/x/a"), false).await.unwrap();
    assert_eq!(files.iter().map(|(_, stat)| stat.is_some()).collect::<Vec<_>>(), [false, true]);
    for (found, kind) in [
        (bed.access.open(&name("/x/a")).await.map(drop), ErrorKind::IsDirectory),
        (bed.access.list(&name("/x/a/one")).await.map(drop), ErrorKind::NotDirectory),
        (bed.access.open(&name("/x/none")).await.map(drop), ErrorKind::NotFound),
        (bed.access.stat(&name("/x/a/one/more")).await.map(drop), ErrorKind::NotFound),
    ] {
        let error = found.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains("/x/"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_without_file_metadata_are_measured() {
    let (producer, consumer) = pair();
    let access = Access::new(consumer, options());
    for (uri, length) in
        [("/p/long", 30_123), ("/p/even", 30_000), ("/p/short", 12), ("/p/empty", 0)]
    {
        let content = bytes(length);
        let publishing =
            ndn_client::PublishOptions { segment_len: SEGMENT_LEN, ..Default::default() };
        let content_of = ndn_client::Content::Bytes(content.clone().into());
        let published = producer.publish(&name(uri), content_of, &publishing).await.unwrap();
        let file = access.open(&name(uri)).await.unwrap();
        assert_eq!(file.size(), length as u64, "{uri}");
        assert_eq!(file.read_at(0, 40_000).await.unwrap(), content, "{uri}");
        drop(published);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_of_other_keys_is_not_returned() {
    let keys = [0, 1].map(|_| Arc::new(PrivateKey::generate(KeyType::Ed25519).unwrap()));
    let with_key = |key: &PrivateKey| {
        let mut options = options();
        options.fetching.verification = Verification::Verifier(Arc::new(key.public_key().unwrap()));
        options
    };
    let locator = Locator::Digest(keys[0].key_digest());
    let signer = Arc::new(KeySigner::new(Arc::clone(&keys[0]), locator));
    let serving = ServerOptions { signer, ..ServerOptions::default() };
    let bed = Bed::with(with_key(&keys[0]), serving).await;
    let content = bytes(20_000);
    bed.write("file", &content);
    let file = bed.access.open(&name("/x/file")).await.unwrap();
    assert_eq!(file.read_at(0, 20_000).await.unwrap(), content);
    let other = Access::new(bed.access.endpoint().clone(), with_key(&keys[1]));
    let refused = other.open(&name("/x/file")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unverified, "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn content_that_is_not_in_the_manifest_is_not_returned() {
    let key = Arc::new(PrivateKey::generate(KeyType::Ed25519).unwrap());
    let mut options = options();
    options.fetching.verification = Verification::Verifier(Arc::new(key.public_key().unwrap()));
    let locator = Locator::Digest(key.key_digest());
    let signer = Arc::new(KeySigner::new(key, locator));
    options.fetching.lifetime = Duration::from_millis(300);
    let bed = Bed::with(options, ServerOptions { signer, ..ServerOptions::default() }).await;
    bed.write("file", &bytes(20_000));
    let path = bed.directory.path().join("file");
    let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
    let file = bed.access.open(&name("/x/file")).await.unwrap();
    let Bed { directory, server, access, _producer: producer } = bed;
    server.stop().await.unwrap();
    // Another server has other content under the same name and version.
    let content = vec![1; 20_000];
    std::fs::write(&path, content).unwrap();
    std::fs::File::open(&path).unwrap().set_modified(modified).unwrap();
    let mut mount = Mount::open(name("/x"), directory.path(), RootOptions::default()).unwrap();
    mount.segment_len = Some(SEGMENT_LEN);
    let serving = ServerOptions::default();
    let _server = FileServer::start(&producer, vec![mount], &serving).await.unwrap();
    for (offset, length) in [(7000, 10), (0, 20_000)] {
        let forged = file.read_at(offset, length).await.unwrap_err();
        assert_eq!(forged.kind(), ErrorKind::Unverified, "{forged}");
    }
    drop(access);
}

#[tokio::test(start_paused = true)]
async fn operations_end_at_the_deadline() {
    let (one, _forwarder) = tokio::io::duplex(1000);
    let (reader, writer) = tokio::io::split(one);
    let endpoint = Endpoint::from_stream(reader, writer, &EndpointOptions::default());
    let deadline = Duration::from_secs(5);
    let mut options = AccessOptions { deadline, ..options() };
    options.fetching.lifetime = Duration::from_secs(60);
    let access = Access::new(endpoint, options);
    let started = tokio::time::Instant::now();
    let error = access.open(&name("/x/file")).await.unwrap_err();
    assert_eq!((error.kind(), started.elapsed()), (ErrorKind::Unanswered, deadline));
    assert_eq!(error.to_string(), "/x/file was not answered within 5s");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_connection_is_an_error() {
    let bed = Bed::new().await;
    bed.write("file", &bytes(20_000));
    let file = bed.access.open(&name("/x/file")).await.unwrap();
    let Bed { server, access, _producer: producer, .. } = bed;
    server.stop().await.unwrap();
    drop((producer, access));
    let error = file.read_at(10_000, 10).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Disconnected, "{error}");
}

#[test]
fn waits_of_threads_can_be_interrupted() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("forwarder.sock");
    // It accepts, and never answers.
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let connection = EndpointOptions {
        address: Some(format!("unix://{}", socket.display()).parse().unwrap()),
        ..EndpointOptions::default()
    };
    let blocking = crate::Blocking::connect(connection, options()).unwrap();
    let mut asked = 0;
    let mut interrupted = || {
        asked += 1;
        asked == 3
    };
    let error = blocking.open(&name("/x/file"), &mut interrupted).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
    // As a function of the program that handles a signal may.
    let mut waits = || blocking.stat(&name("/x/other"), &mut || true).is_err();
    let error = blocking.open(&name("/x/file"), &mut waits).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
}

#[test]
fn users_of_a_process_share_a_connection() {
    let directory = tempfile::tempdir().unwrap();
    let listen = |name: &str| {
        let socket = directory.path().join(name);
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = format!("unix://{}", socket.display()).parse().unwrap();
        (listener, EndpointOptions { address: Some(address), ..EndpointOptions::default() })
    };
    let (listener, address) = listen("one");
    let (other_listener, other_address) = listen("other");
    let connect =
        |address: &EndpointOptions| crate::Blocking::connect(address.clone(), options()).unwrap();
    let users = [connect(&address), connect(&address)];
    let first = listener.accept().unwrap().0;
    assert!(listener.accept().is_err(), "there is one connection");
    let other = connect(&other_address);
    let _other = other_listener.accept().unwrap();
    // What is served has a connection of its own.
    let own = |own: Arc<crate::OwnConnection>| async move { own.endpoint().await.map(drop) };
    let served = [&users[0], &users[0], &users[1]].map(|user| user.start(&mut || false, own));
    let served = served.map(Result::<_, crate::AccessError>::unwrap);
    let _own = [(); 2].map(|()| listener.accept().unwrap());
    assert!(listener.accept().is_err(), "each user has one");
    // It ends with the last user.
    let [one, another] = users;
    drop((one, served, other));
    let third = connect(&address);
    assert!(listener.accept().is_err(), "it is still there");
    drop((another, third));
    first.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    assert_eq!(std::io::Read::read(&mut &first, &mut [0]).unwrap(), 0);
    let _again = connect(&address);
    assert!(listener.accept().is_ok());
}

#[test]
fn connection_with_a_cache_awaits_the_forwarder() {
    let directory = tempfile::tempdir().unwrap();
    let address = format!("unix://{}", directory.path().join("socket").display());
    let connection =
        EndpointOptions { address: Some(address.parse().unwrap()), ..EndpointOptions::default() };
    let disk_cache = Some(DiskCacheOptions::new(directory.path().join("cache")));
    let deadline = Duration::from_millis(100);
    let options = AccessOptions { disk_cache, deadline, ..options() };
    let blocking = crate::Blocking::connect(connection, options).unwrap();
    let warning = blocking.access().disk_cache().unwrap().warning.unwrap();
    assert!(warning.contains("only what is cached on disk can be read"), "{warning}");
    let error = blocking.open(&name("/x/file"), &mut || false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unanswered, "{error}");
}

#[test]
fn connection_to_no_forwarder_fails() {
    let connection = EndpointOptions {
        address: Some("unix:///nonexistent/socket".parse().unwrap()),
        ..EndpointOptions::default()
    };
    let error = crate::Blocking::connect(connection, options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Disconnected);
    assert!(error.to_string().contains("/nonexistent/socket"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Any reads, in any order, through a cache that is too small for the file.
    #[test]
    fn any_reads_return_the_bytes_of_the_file(
        size in 1_usize..40_000,
        reads in prop::collection::vec((0_u64..41_000, 0_u64..9000, any::<bool>()), 1..40),
        cache_bytes_max in prop::sample::select(vec![0, 2500, 20_000, 1 << 20]),
        read_ahead_bytes_max in prop::sample::select(vec![0, 1500, 10_000]),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let options = AccessOptions { cache_bytes_max, read_ahead_bytes_max, ..options() };
            let bed = Bed::with(options, ServerOptions::default()).await;
            let content = bytes(size);
            bed.write("file", &content);
            let file = Arc::new(bed.access.open(&name("/x/file")).await.unwrap());
            let mut running = Vec::new();
            for (offset, length, waits) in reads {
                let reader = Arc::clone(&file);
                let read = tokio::spawn(async move { reader.read_at(offset, length).await.unwrap() });
                running.push((offset, length, read));
                if waits {
                    for (offset, length, read) in running.drain(..) {
                        let start = usize::try_from(offset).unwrap().min(size);
                        let end = usize::try_from(offset + length).unwrap().min(size);
                        assert_eq!(read.await.unwrap(), content[start..end]);
                    }
                }
            }
            for (offset, length, read) in running {
                let start = usize::try_from(offset).unwrap().min(size);
                let end = usize::try_from(offset + length).unwrap().min(size);
                assert_eq!(read.await.unwrap(), content[start..end]);
            }
        });
    }
}
