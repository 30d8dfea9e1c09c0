//! Writing an object into a file while something is wrong with its packets.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ndn_client::Request;
use ndn_client::fetch::{
    FetchError, FetchFailure, FetchOptions, FoundObject, PacketVerifier, Verification,
};
use ndn_packet::{Data, DataBuilder, Name};
use ndn_security::{DigestSigner, Sha256Digest, VerifyError, sha256, sign_data};

use super::bed::{Bed, bytes, name};
use crate::{Origin, PartFile, ReceiveError, Received, Workers, receive};

const SEGMENTS: u64 = 100;
const SEGMENT_LEN: usize = 500;

/// Knows the packets of an object.
struct Known(BTreeMap<u64, Sha256Digest>);

impl PacketVerifier for Known {
    fn check_digest(&self, data: &Data<'_>, digest: &Sha256Digest) -> Result<(), VerifyError> {
        let segment = data.name().last().and_then(|last| last.as_segment()).unwrap();
        let same = self.0.get(&segment) == Some(digest);
        if same { Ok(()) } else { Err(VerifyError::NotListed) }
    }

    fn expected(&self, segment: u64) -> Option<Sha256Digest> {
        self.0.get(&segment).copied()
    }
}

struct Panics;

impl PacketVerifier for Panics {
    fn check_digest(&self, _: &Data<'_>, _: &Sha256Digest) -> Result<(), VerifyError> {
        panic!("on purpose: a verifier with a defect")
    }
}

struct Object {
    bed: Bed,
    name: Name,
    content: Vec<u8>,
    known: Arc<Known>,
    /// Requests by a full name.
    asked_past_cache: Arc<AtomicUsize>,
    _attached: ndn_client::Registration,
}

impl Object {
    /// An object under `/cached`. Interests for the segments `wrong` by their names get a packet with
    /// one changed bit; by their full names, the right one if `right_ones`.
    async fn with(wrong: &'static [u64], right_ones: bool) -> Self {
        let bed = Bed::new().await;
        let object = name("/cached/v=1");
        let content = bytes(3, SEGMENT_LEN * 100);
        let packets: BTreeMap<u64, Vec<u8>> = (0..SEGMENTS)
            .zip(content.chunks(SEGMENT_LEN))
            .map(|(segment, content)| {
                let mut name = object.clone();
                name.push_segment(segment);
                let data = DataBuilder::new(&name).final_segment(SEGMENTS - 1).content(content);
                (segment, sign_data(&data, &DigestSigner).unwrap())
            })
            .collect();
        let known = packets.iter().map(|(segment, packet)| (*segment, sha256(packet)));
        let known = Arc::new(Known(known.collect()));
        let asked_past_cache = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked_past_cache);
        let answer = move |request: Request| {
            let interest = request.name();
            let full = interest.implicit_digest().is_some();
            let plain = if full { interest.parent() } else { interest };
            let segment = plain.last().unwrap().as_segment().unwrap();
            let Some(packet) = packets.get(&segment) else { return };
            let mut packet = packet.clone();
            if full {
                count.fetch_add(1, Ordering::Relaxed);
                if !right_ones {
                    return;
                }
            } else if wrong.contains(&segment) {
                *packet.last_mut().unwrap() ^= 1;
            }
            request.answer(&packet);
        };
        let attached = bed.producer().attach(&name("/cached"), answer).unwrap();
        Self { bed, name: object, content, known, asked_past_cache, _attached: attached }
    }

    fn options(&self, verification: Verification) -> FetchOptions {
        let mut options = FetchOptions { verification, ..FetchOptions::default() };
        options.lifetime = Duration::from_millis(300);
        options.config.rto.min = Duration::from_millis(20);
        options
    }

    fn verification(&self) -> Verification {
        Verification::Packets(Arc::<Known>::clone(&self.known))
    }

    /// Fetches it into a file, as far as that goes.
    async fn receive(
        &self,
        verification: Verification,
    ) -> (Result<Received, ReceiveError>, PartFile) {
        let found = FoundObject::known(self.name.clone(), SEGMENTS - 1);
        let stream = self.bed.consumer.fetch_packets(found, 0, &self.options(verification.clone()));
        let mut part = PartFile::open(self.bed.path("object")).unwrap();
        let origin = Origin { name: self.name.to_uri(), verification: "packets".to_owned() };
        part.begin(Some(origin)).unwrap();
        let workers = Workers::start().unwrap();
        let length = Some(u64::try_from(SEGMENT_LEN).unwrap());
        let received = receive(stream, &mut part, &verification, length, &workers, || {}).await;
        (received, part)
    }

    /// Fetches it in order.
    async fn stream(&self, verification: Verification) -> Result<Vec<u8>, FetchError> {
        let found = FoundObject::known(self.name.clone(), SEGMENTS - 1);
        let stream = self.bed.consumer.fetch_found(found, 0, &self.options(verification));
        stream.collect(usize::MAX).await
    }
}

#[tokio::test]
async fn wrong_packets_in_a_cache_are_bypassed() {
    let object = Object::with(&[0, 7, 8, 99], true).await;
    let (received, part) = object.receive(object.verification()).await;
    assert_eq!(received.unwrap().refused, 4);
    part.complete().unwrap();
    assert!(std::fs::read(object.bed.path("object")).unwrap() == object.content);
    assert_eq!(object.asked_past_cache.load(Ordering::Relaxed), 4);
    assert!(object.stream(object.verification()).await.unwrap() == object.content);
    assert_eq!(object.asked_past_cache.load(Ordering::Relaxed), 8);
}

#[tokio::test]
async fn resumed_content_is_verified_by_packet_digests() {
    let object = Object::with(&[70], false).await;
    let (received, part) = object.receive(object.verification()).await;
    received.unwrap_err();
    let kept = part.keep().unwrap();
    let sidecar = std::fs::read_to_string(object.bed.path(".object.part.json")).unwrap();
    assert!(!sidecar.contains("xxh64"), "{sidecar}");
    let origin = Origin { name: object.name.to_uri(), verification: "packets".to_owned() };
    let found = FoundObject::known(object.name.clone(), SEGMENTS - 1);
    let options = object.options(object.verification());
    let first = object.bed.consumer.fetch_segment(&found, 0, &options).await.unwrap();
    let resumed = || {
        let mut part = PartFile::open(object.bed.path("object")).unwrap();
        let left = part.resume(&origin, Some(&first), &object.verification()).unwrap();
        part.keep();
        left.progress().map(|progress| progress.bytes)
    };
    assert_eq!(resumed(), Some(kept));
    // What a crash has damaged is fetched again from there on, and nothing before it.
    let damaged = kept / 2;
    let path = object.bed.path(".object.part");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[usize::try_from(damaged).unwrap()] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let left = resumed().unwrap();
    assert_eq!(left, damaged / 500 * 500);
    std::fs::write(&path, &bytes[..1200]).unwrap();
    assert_eq!(resumed(), Some(1000));
}

#[tokio::test]
async fn fetch_reports_the_segment_without_a_valid_packet() {
    let object = Object::with(&[50], false).await;
    let is_refusal = |error: &FetchError| {
        let FetchError::Failed { failure, .. } = error else { return false };
        matches!(failure, FetchFailure::Verification { segment: 50, .. })
    };
    let (received, part) = object.receive(object.verification()).await;
    let error = received.unwrap_err();
    assert!(matches!(&error, ReceiveError::Fetch(error) if is_refusal(error)), "{error}");
    // The content before it can be resumed.
    assert!(part.keep().is_some_and(|kept| kept > 0 && kept <= 50 * 500));
    let error = object.stream(object.verification()).await.unwrap_err();
    assert!(is_refusal(&error), "{error}");
    assert!(!object.bed.path("object").exists());
}

#[tokio::test]
async fn panicking_verifier_ends_only_its_fetch() {
    let object = Object::with(&[], true).await;
    let (received, part) = object.receive(Verification::Packets(Arc::new(Panics))).await;
    assert!(matches!(received, Err(ReceiveError::Panicked(_))), "{received:?}");
    assert_eq!(part.keep(), None);
    let (received, part) = object.receive(object.verification()).await;
    received.unwrap();
    part.complete().unwrap();
}

/// Threads that verify are less urgent than others, which may leave nothing for them: then who receives verifies.
#[tokio::test]
async fn fetch_continues_without_worker_threads() {
    const MANY: u64 = 2_000;
    let bed = Bed::new().await;
    let object = name("/many/v=1");
    let content = bytes(5, SEGMENT_LEN * usize::try_from(MANY).unwrap());
    let served = content.clone();
    let answer = move |request: Request| {
        let asked = request.name().to_name();
        let segment =
            usize::try_from(asked.as_ref().last().unwrap().as_segment().unwrap()).unwrap();
        let part = &served[segment * SEGMENT_LEN..][..SEGMENT_LEN];
        let data = DataBuilder::new(&asked).final_segment(MANY - 1).content(part);
        request.answer(&sign_data(&data, &DigestSigner).unwrap());
    };
    let _attached = bed.producer().attach(&name("/many"), answer).unwrap();
    let found = FoundObject::known(object, MANY - 1);
    let mut options =
        FetchOptions { verification: Verification::Digest, ..FetchOptions::default() };
    options.config.buffer_segments = 400;
    let stream = bed.consumer.fetch_packets(found, 0, &options);
    let mut part = PartFile::open(bed.path("many")).unwrap();
    part.begin(None).unwrap();
    let workers = Workers::with_threads(0).unwrap();
    receive(stream, &mut part, &options.verification, None, &workers, || {}).await.unwrap();
    part.complete().unwrap();
    assert!(std::fs::read(bed.path("many")).unwrap() == content);
}

/// The first segment determines the segment length, but not if it fails verification.
#[tokio::test]
async fn invalid_first_segment_does_not_set_the_segment_length() {
    let object = Object::with(&[0], true).await;
    let verification = object.verification();
    let found = FoundObject::known(object.name.clone(), SEGMENTS - 1);
    let options = object.options(verification.clone());
    let stream = object.bed.consumer.fetch_packets(found, 0, &options);
    let mut part = PartFile::open(object.bed.path("object")).unwrap();
    part.begin(None).unwrap();
    let workers = Workers::start().unwrap();
    let received = receive(stream, &mut part, &verification, None, &workers, || {}).await.unwrap();
    assert_eq!(received.refused, 1);
    part.complete().unwrap();
    assert!(std::fs::read(object.bed.path("object")).unwrap() == object.content);
}
