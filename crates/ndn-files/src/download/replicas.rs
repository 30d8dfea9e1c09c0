//! Fetches one object from several names at once.
//!
//! The manifest of one name, the *first*, verifies the segments of all: the packet that the first would send is built around
//! the content that another sends, and its digest is compared with the manifest. Each replica takes a run of segments, and
//! the next one when that has arrived, in proportion to its rate. When all are taken, an idle replica takes over a part of the
//! run that is the furthest behind. A replica that is silent for too long, fails, or sends a segment that is not in the manifest
//! is left, and its run is taken by others.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use ndn_client::fetch::{
    CacheBypass, Discovery, FetchConfig, FetchError, FetchOptions, FetchProgress, FoundObject,
    ReceivedSegment, Verification,
};
use ndn_client::{Endpoint, ReceivedData};
use ndn_packet::tlv::{Reader, append_tlv};
use ndn_packet::{Data, Name, types};
use ndn_security::{sha256, sha256_parts};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::manifest::Manifest;
use crate::metadata::FileMetadata;

/// Maximum number of names of one object.
pub const REPLICAS_MAX: usize = 16;
/// Segments of a run of a replica whose rate is not known, and of any run at least.
const RUN_MIN: u64 = 64;
/// Segments of a run at most.
const RUN_MAX: u64 = 8192;
/// A run is what a replica sends in this time.
const RUN_TIME: Duration = Duration::from_secs(2);
/// Segments that are not worth to be taken over.
const TAKEN_OVER_MIN: u64 = 2;
/// Batches of segments that wait for the receiver.
const BATCHES_WAITING_MAX: usize = 64;

/// The state of a replica, for people and programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaReport {
    /// Name of the object at the replica.
    pub name: Name,
    /// Segments that came from it first, and verified.
    pub segments: u64,
    /// Why it was left; `None` if it was not.
    pub left: Option<String>,
}

/// Why an object cannot be fetched from several names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplicaError {
    /// The segments are signed each by itself.
    #[error(
        "{0} has signed segments: only objects whose segments have digests can be fetched from replicas"
    )]
    Signed(String),
    /// A packet or the manifest cannot be fetched.
    #[error(transparent)]
    Fetch(#[from] FetchError),
}

/// The segments of an object from several names, in the order of arrival, each once, those of other names than the first
/// verified.
#[derive(Debug)]
pub struct ReplicaStream {
    shared: Arc<Shared>,
    name: Name,
    batches: mpsc::Receiver<Vec<ReceivedSegment>>,
    /// Segments that were not delivered yet.
    left: u64,
    /// They end with the stream.
    _tasks: JoinSet<()>,
    progress: watch::Receiver<FetchProgress>,
    cache_bypass: CacheBypass,
}

impl ReplicaStream {
    /// Fetches the segments from `first_segment` on of the object of `manifest`, from its name and from the objects
    /// `replicas`, without version. `timeout` is the time for which a replica may be silent.
    ///
    /// # Errors
    /// The manifest cannot be fetched whole, or does not belong to segments with digests. What is wrong with single replicas
    /// is in their reports.
    pub async fn start(
        endpoint: &Endpoint,
        manifest: &Arc<Manifest>,
        first_segment: u64,
        replicas: &[Name],
        timeout: Duration,
        options: &FetchOptions,
    ) -> Result<Self, ReplicaError> {
        let found = manifest.to_found();
        let verification = manifest.verification();
        // The rest of the manifest might be out of reach later.
        verification.load(0..=manifest.segments().saturating_sub(1)).await?;
        let of_first = FetchOptions { verification: verification.clone(), ..options.clone() };
        let sample = endpoint.fetch_segment(&found, 0, &of_first).await?;
        let template = Template::of(&sample.data());
        let template = template.ok_or_else(|| ReplicaError::Signed(found.name().to_uri()))?;
        let others = replicas.iter().take(REPLICAS_MAX - 1);
        let names: Vec<&Name> = std::iter::once(found.name()).chain(others).collect();
        let report =
            |name: &&Name| ReplicaReport { name: (*name).clone(), segments: 0, left: None };
        let reports = names.iter().map(report).collect();
        let (batch_sender, batches) = mpsc::channel(BATCHES_WAITING_MAX);
        let last = manifest.segments().saturating_sub(1);
        let known = FetchProgress { final_segment: Some(last), ..FetchProgress::default() };
        let (progress_sender, progress) = watch::channel(known);
        let shared = Arc::new(Shared {
            state: Mutex::new(State::new(first_segment, last, reports)),
            progress: progress_sender,
        });
        let cache_bypass = endpoint.cache_bypass(&found, &of_first);
        let mut tasks = JoinSet::new();
        for (number, name) in names.into_iter().enumerate() {
            // The manifest says who may sign that the object is gone.
            let is_first = number == 0;
            let options = if is_first { of_first.clone() } else { options.clone() };
            let task = Task {
                endpoint: endpoint.clone(),
                options,
                shared: Arc::clone(&shared),
                manifest: Arc::clone(manifest),
                template: template.clone(),
                name: name.clone(),
                number,
                timeout,
                sender: batch_sender.clone(),
            };
            tasks.spawn(task.run());
        }
        let name = found.name().clone();
        let left = (last + 1).saturating_sub(first_segment);
        Ok(Self { shared, name, batches, left, _tasks: tasks, progress, cache_bypass })
    }

    /// A function for the state of all replicas, the first one first, also when the stream is used up.
    pub fn watch_reports(&self) -> impl Fn() -> Vec<ReplicaReport> + Send + Sync + use<> {
        let shared = Arc::clone(&self.shared);
        move || shared.state().reports.clone()
    }

    /// Counters, updated during the fetch.
    #[must_use]
    pub fn progress(&self) -> watch::Receiver<FetchProgress> {
        self.progress.clone()
    }

    pub(super) fn name(&self) -> &Name {
        &self.name
    }

    pub(super) fn last_segment(&self) -> u64 {
        self.shared.state().last
    }

    pub(super) fn cache_bypass(&self) -> CacheBypass {
        self.cache_bypass.clone()
    }

    /// As [`PacketStream::next`](ndn_client::fetch::PacketStream::next).
    pub(super) async fn next(&mut self) -> Result<Option<Vec<ReceivedSegment>>, FetchError> {
        if self.left == 0 {
            return Ok(None);
        }
        if let Some(segments) = self.batches.recv().await {
            self.left = self.left.saturating_sub(u64::try_from(segments.len()).unwrap_or(u64::MAX));
            return Ok(Some(segments));
        }
        // All tasks have ended.
        Err(self.shared.state().failure.clone().unwrap_or(FetchError::Closed))
    }
}

/// Finds the object at a replica; the reason if it is not the same.
async fn find(
    endpoint: &Endpoint,
    name: &Name,
    manifest: &Manifest,
    options: &FetchOptions,
) -> Result<FoundObject, String> {
    let options = FetchOptions {
        discovery: Discovery::Metadata,
        // Its content is verified.
        verification: Verification::Digest,
        discovery_retransmissions: options.discovery_retransmissions.min(1),
        ..options.clone()
    };
    let found = endpoint.find(name, &options).await.map_err(|error| error.to_string())?;
    let metadata = found.metadata().map(|content| FileMetadata::decode(content));
    let Some(Ok(metadata)) = metadata else {
        return Err("it has no metadata of a file".to_owned());
    };
    if metadata.size != Some(manifest.size()) {
        return Err(match metadata.size {
            Some(size) => format!("it has {size} bytes, not {}", manifest.size()),
            None => "it is no file".to_owned(),
        });
    }
    if metadata.segment_size != Some(manifest.segment_size()) {
        return Err("it has segments of another length".to_owned());
    }
    let last = manifest.segments().saturating_sub(1);
    Ok(FoundObject::known(metadata.name, last))
}

/// The parts of a packet of the first name that are the same in all segments.
#[derive(Debug, Clone)]
struct Template {
    meta_info: Bytes,
    signature_info: Bytes,
}

impl Template {
    /// `None` if the packet has another signature than a digest, or elements between these.
    fn of(data: &Data<'_>) -> Option<Self> {
        let info = data.signature_info().ok()?;
        if info.signature_type != ndn_packet::SignatureType::DIGEST_SHA256 {
            return None;
        }
        let mut reader = Reader::new(data.wire()).read_expected(types::DATA).ok()?.reader();
        let mut part = |ty| reader.read_expected(ty).ok().map(|part| part.wire());
        let (_, meta_info, _, signature_info) = (
            part(types::NAME)?,
            part(types::META_INFO)?,
            part(types::CONTENT)?,
            part(types::SIGNATURE_INFO)?,
        );
        Some(Self {
            meta_info: Bytes::copy_from_slice(meta_info),
            signature_info: Bytes::copy_from_slice(signature_info),
        })
    }

    /// The packet with this name and content.
    fn packet(&self, name: &Name, content: &[u8]) -> Vec<u8> {
        let mut signed = Vec::with_capacity(content.len() + name.value().len() + 128);
        append_tlv(&mut signed, types::NAME, name.value());
        signed.extend_from_slice(&self.meta_info);
        append_tlv(&mut signed, types::CONTENT, content);
        signed.extend_from_slice(&self.signature_info);
        let signature = sha256_parts(&[&signed]);
        append_tlv(&mut signed, types::SIGNATURE_VALUE, &signature);
        let mut packet = Vec::with_capacity(signed.len() + 4);
        append_tlv(&mut packet, types::DATA, &signed);
        packet
    }
}

/// The state of a fetch, shared by the tasks of its replicas.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    progress: watch::Sender<FetchProgress>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which segments have arrived, and which replica fetches which.
#[derive(Debug)]
struct State {
    first: u64,
    last: u64,
    /// Whether a segment from `first` on has arrived.
    here: Vec<bool>,
    missing: u64,
    /// Runs that nobody fetches.
    free: VecDeque<RangeInclusive<u64>>,
    /// The run of each replica.
    taken: Vec<Option<RangeInclusive<u64>>>,
    reports: Vec<ReplicaReport>,
    failure: Option<FetchError>,
}

impl State {
    fn new(first: u64, last: u64, reports: Vec<ReplicaReport>) -> Self {
        let missing = (last + 1).saturating_sub(first);
        let here = vec![false; usize::try_from(missing).unwrap_or(0)];
        let free = if missing > 0 { VecDeque::from([first..=last]) } else { VecDeque::new() };
        let taken = vec![None; reports.len()];
        Self { first, last, here, missing, free, taken, reports, failure: None }
    }

    fn place_of(&self, segment: u64) -> Option<usize> {
        usize::try_from(segment.checked_sub(self.first)?).ok().filter(|at| *at < self.here.len())
    }

    fn is_here(&self, segment: u64) -> bool {
        self.place_of(segment).is_none_or(|at| self.here[at])
    }

    /// Notes a segment; false if it is here already.
    fn note(&mut self, replica: usize, segment: u64) -> bool {
        let Some(at) = self.place_of(segment).filter(|at| !self.here[*at]) else { return false };
        self.here[at] = true;
        self.missing -= 1;
        self.reports[replica].segments += 1;
        true
    }

    /// The missing part of a run, without what has arrived at its ends.
    fn missing_of(&self, run: &RangeInclusive<u64>) -> Option<RangeInclusive<u64>> {
        let first = run.clone().find(|segment| !self.is_here(*segment))?;
        let last = run.clone().rev().find(|segment| !self.is_here(*segment))?;
        Some(first..=last)
    }

    /// The next run for a replica that fetches this many segments in [`RUN_TIME`]; `None` if there is nothing to do.
    fn take(&mut self, replica: usize, segments: u64) -> Option<RangeInclusive<u64>> {
        let before = self.taken[replica].take();
        self.free.extend(before.and_then(|run| self.missing_of(&run)));
        let run = self.take_free(segments).or_else(|| self.take_over(replica))?;
        self.taken[replica] = Some(run.clone());
        Some(run)
    }

    fn take_free(&mut self, segments: u64) -> Option<RangeInclusive<u64>> {
        while let Some(run) = self.free.pop_front() {
            let Some(run) = self.missing_of(&run) else { continue };
            let (first, last) = (*run.start(), *run.end());
            let end = last.min(first.saturating_add(segments.clamp(RUN_MIN, RUN_MAX) - 1));
            if end < last {
                self.free.push_front(end + 1..=last);
            }
            return Some(first..=end);
        }
        None
    }

    /// The second half of the run that is the furthest behind. Its replica goes on as well: whichever is first counts.
    fn take_over(&self, replica: usize) -> Option<RangeInclusive<u64>> {
        let others = self.taken.iter().enumerate().filter(|(other, _)| *other != replica);
        let missing = others.filter_map(|(_, run)| self.missing_of(run.as_ref()?));
        let longest = missing.max_by_key(|run| run.end() - run.start())?;
        let (first, last) = (*longest.start(), *longest.end());
        let half = if last - first < TAKEN_OVER_MIN { first } else { first + (last - first) / 2 };
        Some(half..=last)
    }

    /// Leaves a replica; others take its run.
    fn leave(&mut self, replica: usize, reason: String) {
        self.reports[replica].left.get_or_insert(reason);
        if let Some(run) = self.taken[replica].take() {
            self.free.push_front(run);
        }
    }
}

/// The end of a run.
enum Ended {
    /// All of it is here.
    Whole,
    /// The receiver is gone.
    Unwanted,
}

/// Fetches runs from one replica.
struct Task {
    endpoint: Endpoint,
    options: FetchOptions,
    shared: Arc<Shared>,
    manifest: Arc<Manifest>,
    template: Template,
    /// Name of the object, for the first with version.
    name: Name,
    number: usize,
    timeout: Duration,
    sender: mpsc::Sender<Vec<ReceivedSegment>>,
}

impl Task {
    async fn run(self) {
        let found = match self.find().await {
            Ok(found) => found,
            Err(reason) => return self.shared.state().leave(self.number, reason),
        };
        let mut segments_per_run = RUN_MIN;
        loop {
            let taken = self.shared.state().take(self.number, segments_per_run);
            let Some(run) = taken else { return };
            let started = tokio::time::Instant::now();
            let count = run.end() - run.start() + 1;
            match self.fetch(&found, &run).await {
                Ok(Ended::Whole) => {
                    let elapsed = started.elapsed().max(Duration::from_millis(1));
                    let rate = u128::from(count) * RUN_TIME.as_nanos() / elapsed.as_nanos();
                    // It grows with its window, and not at once.
                    let rate = u64::try_from(rate).unwrap_or(RUN_MAX);
                    segments_per_run = rate.min(2 * count).clamp(RUN_MIN, RUN_MAX);
                }
                Ok(Ended::Unwanted) => return,
                Err((reason, failure)) => {
                    let mut state = self.shared.state();
                    state.leave(self.number, reason);
                    state.failure = failure.or(state.failure.take());
                    return;
                }
            }
        }
    }

    /// Whether the manifest is of this replica.
    fn is_first(&self) -> bool {
        self.number == 0
    }

    async fn find(&self) -> Result<FoundObject, String> {
        if self.is_first() {
            return Ok(self.manifest.to_found());
        }
        let finding = find(&self.endpoint, &self.name, &self.manifest, &self.options);
        tokio::time::timeout(self.timeout, finding).await.map_err(|_| self.silence())?
    }

    fn silence(&self) -> String {
        format!("no answer for {} s", self.timeout.as_secs_f64())
    }

    async fn fetch(
        &self,
        found: &FoundObject,
        run: &RangeInclusive<u64>,
    ) -> Result<Ended, (String, Option<FetchError>)> {
        let config = FetchConfig { last_segment_needed: Some(*run.end()), ..self.options.config };
        let mut options = FetchOptions { config, ..self.options.clone() };
        if !self.is_first() {
            // It may sign what it wants: the content is compared with the manifest.
            options.verification = Verification::Skip;
        }
        let mut stream = self.endpoint.fetch_packets(found.clone(), *run.start(), &options);
        let release = stream.release();
        loop {
            if self.shared.state().missing_of(run).is_none() {
                return Ok(Ended::Whole);
            }
            let next = tokio::time::timeout(self.timeout, stream.next()).await;
            let segments = match next.map_err(|_| (self.silence(), None))? {
                Ok(Some(segments)) => segments,
                // What is missing was received before it was left to this replica, or is requested by another.
                Ok(None) => return Ok(Ended::Whole),
                Err(error) => return Err((error.to_string(), Some(error))),
            };
            release.release(segments.len());
            let mut new = Vec::with_capacity(segments.len());
            let mut wrong = None;
            for (segment, packet) in segments {
                if self.shared.state().is_here(segment) {
                    continue;
                }
                let packet = match self.verified(segment, packet) {
                    Ok(packet) => packet,
                    Err(reason) => {
                        wrong = Some(reason);
                        break;
                    }
                };
                if self.shared.state().note(self.number, segment) {
                    self.report(&packet);
                    new.push((segment, packet));
                }
            }
            if !new.is_empty() && self.sender.send(new).await.is_err() {
                return Ok(Ended::Unwanted);
            }
            // Segments before the wrong one are noted, and delivered.
            if let Some(reason) = wrong {
                return Err((reason, None));
            }
        }
    }

    /// The packet of the first name with the content of this one, if the manifest lists it. Packets of the first name itself
    /// are verified by the receiver, which knows how to get past a cache that holds a wrong one.
    fn verified(&self, segment: u64, packet: ReceivedData) -> Result<ReceivedData, String> {
        if self.is_first() {
            return Ok(packet);
        }
        let name = self.manifest.to_found().segment_name(segment);
        let built = self.template.packet(&name, &packet.content());
        if self.manifest.verification().expected(segment) != Some(sha256(&built)) {
            return Err(format!("segment {segment} is not the one that the manifest lists"));
        }
        ReceivedData::from_wire(built.into()).map_err(|error| error.to_string())
    }

    fn report(&self, packet: &ReceivedData) {
        let bytes = u64::try_from(packet.content_len()).unwrap_or(0);
        self.shared.progress.send_modify(|progress| {
            progress.bytes += bytes;
            progress.segments += 1;
        });
    }
}

#[cfg(test)]
mod tests {
    use ndn_packet::DataBuilder;
    use ndn_security::{DigestSigner, sign_data};

    use super::*;

    fn state(replicas: usize, last: u64) -> State {
        let name = Name::from_uri("/x").unwrap();
        let report = ReplicaReport { name, segments: 0, left: None };
        State::new(0, last, vec![report; replicas])
    }

    #[test]
    fn packet_of_the_first_name_is_built_around_the_content_of_another() {
        let name = |uri: &str| Name::from_uri(uri).unwrap();
        for content in [&b""[..], b"content", &[7; 300], &[9; 8192]] {
            let packet = |uri: &str, freshness_ms| {
                let name = name(uri);
                let data = DataBuilder::new(&name).freshness_ms(freshness_ms).final_segment(9);
                sign_data(&data.content(content), &DigestSigner).unwrap()
            };
            let first = packet("/first/v=1/seg=0", 10_000);
            let template = Template::of(&Data::parse(&first).unwrap()).unwrap();
            let other = packet("/other/v=2/seg=7", 5);
            let other = Data::parse(&other).unwrap();
            let built =
                template.packet(&name("/first/v=1/seg=7"), other.content().unwrap_or_default());
            assert_eq!(built, packet("/first/v=1/seg=7", 10_000));
        }
    }

    #[test]
    fn runs_are_in_proportion_to_rates_and_the_rest_is_taken_over() {
        let mut state = state(2, 999);
        assert_eq!(state.take(0, 500), Some(0..=499));
        assert_eq!(state.take(1, 1), Some(500..=563), "the least run");
        (0..500).for_each(|segment| assert!(state.note(0, segment)));
        assert!(!state.note(1, 3), "it is here already");
        assert_eq!(state.take(0, 10_000), Some(564..=999));
        (564..1000).for_each(|segment| assert!(state.note(0, segment)));
        state.note(1, 500);
        // The fast one helps the slow one, until nothing is missing.
        assert_eq!(state.take(0, 10_000), Some(532..=563));
        (501..532).for_each(|segment| assert!(state.note(1, segment)));
        (532..564).for_each(|segment| assert!(state.note(0, segment)));
        assert_eq!((state.take(0, 1), state.take(1, 1), state.missing), (None, None, 0));
        assert_eq!((state.reports[0].segments, state.reports[1].segments), (968, 32));
    }

    #[test]
    fn run_of_a_replica_that_is_left_is_taken_by_others() {
        let mut state = state(2, 99);
        assert_eq!(state.take(1, 1), Some(0..=63));
        assert_eq!(state.take(0, 1), Some(64..=99));
        state.note(1, 0);
        state.note(1, 5);
        state.leave(1, "no answer".to_owned());
        assert_eq!(state.take(0, 1), Some(1..=63));
        (1..64).filter(|segment| *segment != 5).for_each(|segment| assert!(state.note(0, segment)));
        assert_eq!(state.take(0, 1), Some(64..=99), "what it had before");
    }
}
