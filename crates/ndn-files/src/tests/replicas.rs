//! One file from several names, some of which are slow, end, or lie.

use std::sync::Arc;
use std::time::Duration;

use ndn_client::fetch::{Discovery, FetchOptions};
use ndn_client::{Registration, Request};
use ndn_packet::{DataBuilder, Name};
use ndn_security::{DigestSigner, Signer, sign_data};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::bed::{Bed, bytes, name};
use crate::{
    FileMetadata, Manifest, PartFile, ReceiveError, ReplicaReport, ReplicaStream, RootOptions,
    ServerOptions, Workers, fetch_manifest, receive,
};

const SEGMENT_LEN: usize = 1000;
const SEGMENTS: u64 = 3000;
/// Time for which a replica may be silent.
const SILENCE_MAX: Duration = Duration::from_millis(500);
/// The same where the file server, whose threads have the real clock, answers as a replica.
const REAL_SILENCE_MAX: Duration = Duration::from_secs(60);

/// Behaviour of a replica.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Good,
    /// Waits for this long before each answer.
    Slow(Duration),
    /// Answers this number of Interests.
    Ends(u64),
    /// Sends other content in one segment of each group of this length.
    Lies(u64),
    /// States another length.
    Longer,
}

/// A server of `/x/file`, and replicas beside it.
struct Replicated {
    bed: Bed,
    content: Arc<Vec<u8>>,
    _attached: Vec<Registration>,
}

impl Replicated {
    async fn new(replicas: &[(&str, Kind)]) -> Self {
        let root = RootOptions::default();
        let bed = Bed::with(root, ServerOptions::default(), Some(SEGMENT_LEN)).await;
        let content = Arc::new(bytes(8, SEGMENT_LEN * usize::try_from(SEGMENTS).unwrap() - 7));
        bed.write("file", &content);
        let attach = |(uri, kind): &(&str, Kind)| replica(&bed, &name(uri), *kind, &content);
        let attached = replicas.iter().map(attach).collect();
        Self { bed, content, _attached: attached }
    }

    fn options() -> FetchOptions {
        FetchOptions { discovery: Discovery::Metadata, ..FetchOptions::default() }
    }

    async fn manifest(&self) -> Arc<Manifest> {
        let found = self.bed.consumer.find(&name("/x/file"), &Self::options()).await.unwrap();
        let manifest = fetch_manifest(&self.bed.consumer, &found, &Self::options(), |_| {}).await;
        manifest.unwrap().unwrap()
    }

    /// Fetches the file in virtual time, with another server of `/x/file` in place of the file server. Also returns the
    /// replicas with their segments, and the duration.
    async fn fetch(
        &self,
        first: Kind,
        replicas: &[&str],
    ) -> (Result<Vec<u8>, ReceiveError>, Vec<ReplicaReport>, Duration) {
        let manifest = self.manifest().await;
        let _first = replica(&self.bed, manifest.object(), first, &self.content);
        let stream = self.start(&manifest, replicas, SILENCE_MAX).await;
        // From now on, all that takes time is done by tasks of this thread.
        tokio::time::pause();
        let (started, reports) = (Instant::now(), stream.watch_reports());
        let content = Self::receive(stream, &manifest).await;
        let elapsed = started.elapsed();
        tokio::time::resume();
        (content, reports(), elapsed)
    }

    async fn start(
        &self,
        manifest: &Arc<Manifest>,
        replicas: &[&str],
        silence_max: Duration,
    ) -> ReplicaStream {
        let replicas: Vec<Name> = replicas.iter().map(|uri| name(uri)).collect();
        let (endpoint, options) = (&self.bed.consumer, Self::options());
        let stream =
            ReplicaStream::start(endpoint, manifest, 0, &replicas, silence_max, &options).await;
        stream.unwrap()
    }

    async fn receive(
        stream: ReplicaStream,
        manifest: &Arc<Manifest>,
    ) -> Result<Vec<u8>, ReceiveError> {
        let out = tempfile::tempdir().unwrap();
        let path = out.path().join("file");
        let mut part = PartFile::open(path.clone()).unwrap();
        part.begin(None).unwrap();
        // The receiving task verifies and writes.
        let workers = Workers::with_threads(0).unwrap();
        let verification = manifest.verification();
        let length = Some(manifest.segment_size());
        let received = receive(stream, &mut part, &verification, length, &workers, || {}).await;
        received.map(|_| {
            part.complete().unwrap();
            std::fs::read(path).unwrap()
        })
    }
}

/// Serves the content as `name`, in a version of its own.
fn replica(bed: &Bed, name: &Name, kind: Kind, content: &Arc<Vec<u8>>) -> Registration {
    let (sender, mut requests) = mpsc::unbounded_channel::<Request>();
    let mut versioned = name.clone();
    versioned.push_version(77);
    let size = content.len() as u64 + u64::from(matches!(kind, Kind::Longer));
    let metadata = FileMetadata {
        name: versioned,
        final_segment: Some(SEGMENTS - 1),
        segment_size: Some(SEGMENT_LEN as u64),
        size: Some(size),
        mode: 0o100_644,
        ..FileMetadata::default()
    };
    let content = Arc::clone(content);
    tokio::spawn(async move {
        let mut answered = 0;
        while let Some(request) = requests.recv().await {
            let segment = request.name().last().and_then(|last| last.as_segment());
            let Some(segment) = segment else {
                let mut name = request.name().to_name();
                name.push_version(1).push_segment(0);
                let content = metadata.encode();
                let data = DataBuilder::new(&name).freshness_ms(10).content(&content);
                request.answer(&sign_data(&data, &DigestSigner as &dyn Signer).unwrap());
                continue;
            };
            if let Kind::Slow(delay) = kind {
                tokio::time::sleep(delay).await;
            }
            answered += 1;
            if matches!(kind, Kind::Ends(number) if answered > number) {
                continue;
            }
            let start = usize::try_from(segment).unwrap() * SEGMENT_LEN;
            let end = (start + SEGMENT_LEN).min(content.len());
            let mut part = content[start..end].to_vec();
            if matches!(kind, Kind::Lies(every) if segment % every == every - 1) {
                part[0] ^= 1;
            }
            let name = request.name().to_name();
            // As the file server does.
            let data = DataBuilder::new(&name).freshness_ms(10_000).final_segment(SEGMENTS - 1);
            let data = data.content(&part);
            request.answer(&sign_data(&data, &DigestSigner as &dyn Signer).unwrap());
        }
    });
    let answer = move |request: Request| {
        // The test may have ended.
        let _ = sender.send(request);
    };
    bed.producer().attach(name, answer).unwrap()
}

#[tokio::test]
async fn replicas_share_the_segments_and_a_slow_one_gets_few() {
    let after_ms = |delay_ms| Kind::Slow(Duration::from_millis(delay_ms));
    let replicated = Replicated::new(&[("/good", after_ms(1)), ("/slow", after_ms(20))]).await;
    let (content, reports, elapsed) = replicated.fetch(after_ms(1), &["/good", "/slow"]).await;
    assert!(content.unwrap() == *replicated.content);
    assert_eq!(reports.iter().map(|report| report.segments).sum::<u64>(), SEGMENTS);
    assert!(reports.iter().all(|report| report.left.is_none()), "{reports:?}");
    assert!(reports[..2].iter().all(|report| report.segments > 1000), "{reports:?}");
    // At its rate it would take a minute for all, and 1.3 s for its first run, in which it is helped.
    assert!((1..=200).contains(&reports[2].segments), "{reports:?}");
    assert!(elapsed < Duration::from_secs(3), "{elapsed:?}");
}

#[tokio::test]
async fn silent_replica_is_left_in_its_time_and_named() {
    let replicated = Replicated::new(&[("/ends", Kind::Ends(10))]).await;
    // So slow that it does not have everything before the silence counts.
    let slow = Kind::Slow(Duration::from_millis(1));
    let (content, reports, elapsed) = replicated.fetch(slow, &["/ends"]).await;
    assert!(content.unwrap() == *replicated.content);
    assert_eq!(reports[1].left.as_deref(), Some("no answer for 0.5 s"));
    assert_eq!((&reports[1].name, reports[1].segments), (&name("/ends"), 10));
    assert!(elapsed < Duration::from_secs(10), "{elapsed:?}");
}

#[tokio::test]
async fn lying_replica_is_found_out_by_the_manifest_and_named() {
    for every in [1, 5, 37] {
        let replicated =
            Replicated::new(&[("/liar", Kind::Lies(every)), ("/good", Kind::Good)]).await;
        let (content, reports, _) = replicated.fetch(Kind::Good, &["/liar", "/good"]).await;
        assert!(content.unwrap() == *replicated.content, "no byte of it");
        let reason = reports[1].left.as_deref().unwrap();
        assert!(reason.contains("is not the one that the manifest lists"), "{reason}");
        assert_eq!(reports[1].name, name("/liar"));
        assert!(reports[2].left.is_none(), "{reports:?}");
    }
}

#[tokio::test]
async fn other_objects_and_missing_ones_are_no_replicas() {
    let replicated = Replicated::new(&[("/longer", Kind::Longer)]).await;
    replicated.bed.write("small", b"small");
    let manifest = replicated.manifest().await;
    let others = ["/longer", "/x/small", "/x/none"];
    let stream = replicated.start(&manifest, &others, REAL_SILENCE_MAX).await;
    let reports = stream.watch_reports();
    let content = Replicated::receive(stream, &manifest).await;
    assert!(content.unwrap() == *replicated.content);
    let reports = reports();
    let reasons: Vec<_> = reports.iter().map(|report| report.left.as_deref()).collect();
    assert_eq!(
        reasons[..3],
        [None, Some("it has 2999994 bytes, not 2999993"), Some("it has 5 bytes, not 2999993")]
    );
    assert!(reasons[3].unwrap().contains("no such object"), "{reasons:?}");
    assert_eq!(reports[0].segments, SEGMENTS);
}
