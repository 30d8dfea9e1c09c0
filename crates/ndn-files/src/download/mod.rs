//! Fetches an object into a file: threads verify segments and write them to their positions, in any
//! order, while further ones arrive.

mod checksum;
mod part;
mod recheck;
mod replicas;
mod retry;
mod workers;
mod writes;

use std::sync::Arc;

use ndn_client::fetch::{
    CacheBypass, FetchError, FetchFailure, FetchProgress, PacketStream, ReceivedSegment, Release,
    UncheckedSignature, Verification,
};
use ndn_packet::{ContentType, Name};
use tokio::sync::{mpsc, watch};

use self::part::{Irregular, NoteError};
use self::retry::{Refusal, Retries};
use self::workers::{BATCH, JOBS_WAITING_MAX, Job};
use self::writes::{JobError, JobResult, Writes};

pub use self::part::{
    Attributes, EarlierFetch, Extent, Origin, PartError, PartFile, Progress, Unusable, has_changed,
    is_reserved_name, is_unchanged, newer_version, record,
};
pub use self::recheck::has_content;
pub use self::replicas::{REPLICAS_MAX, ReplicaError, ReplicaReport, ReplicaStream};
pub use self::workers::Workers;

/// Objects of at most this many segments are verified and written in the receiving task.
const SMALL_SEGMENTS_MAX: u64 = 8;

/// Why an object could not be received into its file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiveError {
    /// The fetch failed, or a segment failed verification.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The file cannot be written.
    #[error(transparent)]
    Part(#[from] PartError),
    /// The segments of this object have different lengths: they can only be written in order.
    #[error("{0} has segments of different lengths")]
    Irregular(String),
    /// A thread that verifies and writes has panicked.
    #[error("verifying or writing a segment of {0} has panicked: this is a defect of the program")]
    Panicked(String),
    /// All segments have arrived, and some are missing in the file.
    #[error("segments of {0} are missing in the file: this is a defect of the program")]
    Incomplete(String),
}

/// The segments of an object in the order of arrival, from one name or from several.
#[derive(Debug)]
pub enum SegmentStream {
    /// From one name.
    Packets(PacketStream),
    /// From several.
    Replicas(ReplicaStream),
}

impl SegmentStream {
    /// Name of the object with its version.
    #[must_use]
    pub fn name(&self) -> &Name {
        match self {
            Self::Packets(stream) => stream.name(),
            Self::Replicas(stream) => stream.name(),
        }
    }

    /// Counters and estimates, updated during the fetch.
    #[must_use]
    pub fn progress(&self) -> watch::Receiver<FetchProgress> {
        match self {
            Self::Packets(stream) => stream.progress(),
            Self::Replicas(stream) => stream.progress(),
        }
    }

    fn last_segment(&self) -> Option<u64> {
        match self {
            Self::Packets(stream) => stream.last_segment(),
            Self::Replicas(stream) => Some(stream.last_segment()),
        }
    }

    async fn next(&mut self) -> Result<Option<Vec<ReceivedSegment>>, FetchError> {
        match self {
            Self::Packets(stream) => stream.next().await,
            Self::Replicas(stream) => stream.next().await,
        }
    }

    /// Releases segments that were written; those of replicas are released when they arrive.
    fn release(&self) -> Option<Release> {
        match self {
            Self::Packets(stream) => Some(stream.release()),
            Self::Replicas(_) => None,
        }
    }

    fn cache_bypass(&self) -> CacheBypass {
        match self {
            Self::Packets(stream) => stream.cache_bypass(),
            Self::Replicas(stream) => stream.cache_bypass(),
        }
    }
}

impl From<PacketStream> for SegmentStream {
    fn from(stream: PacketStream) -> Self {
        Self::Packets(stream)
    }
}

impl From<ReplicaStream> for SegmentStream {
    fn from(stream: ReplicaStream) -> Self {
        Self::Replicas(stream)
    }
}

/// Result of receiving an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Received {
    /// Number of packets that failed verification, and were replaced by valid ones.
    pub refused: u64,
    /// The signature of a segment that was accepted unchecked.
    pub unchecked: Option<UncheckedSignature>,
}

/// Writes the segments of `stream` to `part`, from the first one it is missing, verified by
/// `verification`. `segment_len` is the length of segments but the last, if known; otherwise the
/// first one determines it. `observe` is called regularly.
///
/// A segment that fails verification is requested again, bypassing the cache that may hold the
/// wrong one, a few times before the fetch fails.
///
/// After an error, `part` contains what was verified until then, and nothing writes to it any more.
///
/// # Errors
/// All of [`ReceiveError`].
pub async fn receive(
    stream: impl Into<SegmentStream>,
    part: &mut PartFile,
    verification: &Verification,
    segment_len: Option<u64>,
    workers: &Workers,
    mut observe: impl FnMut(),
) -> Result<Received, ReceiveError> {
    let mut stream = stream.into();
    if let (0, Some(length)) = (part.segment_len(), segment_len) {
        part.set_segment_len(length);
    }
    let (sender, mut outcomes) = mpsc::unbounded_channel();
    let name = stream.name().to_uri();
    let mut receiving = Receiving {
        writes: Arc::new(Writes::new(Arc::clone(part.file()))),
        part,
        verification,
        workers,
        name,
        sender,
        waiting: Vec::new(),
        unchecked: None,
        is_small: is_small(&stream),
        jobs: 0,
        retries: Retries::new(stream.cache_bypass()),
        release: stream.release(),
    };
    let mut all_here = false;
    let mut failure = None;
    while receiving.jobs > 0 || (failure.is_none() && !(all_here && receiving.retries.is_empty())) {
        // Nothing else is left to do then.
        while all_here && workers.help(0) {}
        tokio::select! {
            biased;
            Some(outcome) = outcomes.recv() => {
                receiving.jobs -= 1;
                receiving.release(outcome.released);
                if let Err(error) = receiving.finish(outcome) {
                    failure.get_or_insert(error);
                }
                observe();
            }
            Some(came) = receiving.retries.next(), if failure.is_none() => {
                let taken = came
                    .map_err(|refusal| receiving.refusal(refusal))
                    .and_then(|segment| receiving.start_again(segment));
                failure = taken.err();
            }
            segments = stream.next(), if !all_here && failure.is_none() => match segments {
                Ok(Some(segments)) => {
                    receiving.is_small = is_small(&stream);
                    failure = match receiving.load(&segments).await {
                        Ok(()) => receiving.start_all(segments).err(),
                        Err(error) => Some(error.into()),
                    };
                }
                Ok(None) => all_here = true,
                Err(error) => failure = Some(error.into()),
            },
        }
    }
    if let Some(failure) = failure {
        return Err(failure);
    }
    let last = stream.last_segment();
    if last.is_none_or(|last| receiving.part.segments() <= last) {
        return Err(ReceiveError::Incomplete(receiving.name));
    }
    Ok(Received { refused: receiving.retries.refused(), unchecked: receiving.unchecked })
}

fn is_small(stream: &SegmentStream) -> bool {
    stream.last_segment().is_some_and(|last| last < SMALL_SEGMENTS_MAX)
}

struct Receiving<'a> {
    part: &'a mut PartFile,
    writes: Arc<Writes>,
    verification: &'a Verification,
    workers: &'a Workers,
    name: String,
    sender: mpsc::UnboundedSender<JobResult>,
    /// Segments waiting until the segment length is known.
    waiting: Vec<ReceivedSegment>,
    /// The first signature that is accepted unchecked.
    unchecked: Option<UncheckedSignature>,
    /// Hashing and writing everything takes less time than waking a thread.
    is_small: bool,
    /// Number of unfinished jobs.
    jobs: usize,
    /// Segments that failed verification.
    retries: Retries,
    release: Option<Release>,
}

impl Receiving<'_> {
    fn release(&self, count: usize) {
        if let Some(release) = &self.release {
            release.release(count);
        }
    }

    /// Fetches the digests of segments.
    async fn load(&self, segments: &[ReceivedSegment]) -> Result<(), FetchError> {
        let numbers = segments.iter().map(|(segment, _)| *segment);
        match (numbers.clone().min(), numbers.max()) {
            (Some(first), Some(last)) => self.verification.load(first..=last).await,
            _ => Ok(()),
        }
    }

    /// Starts verification and writing of segments, once their positions are known.
    fn start_all(&mut self, segments: Vec<ReceivedSegment>) -> Result<(), ReceiveError> {
        self.waiting.extend(segments);
        if self.part.segment_len() == 0 {
            let Some(at) = self.waiting.iter().position(|(segment, _)| *segment == 0) else {
                return Ok(());
            };
            let first = self.waiting.swap_remove(at);
            if !self.learn_segment_len(&first)? {
                self.release(1);
                return Ok(());
            }
            self.waiting.push(first);
        }
        self.waiting.sort_unstable_by_key(|(segment, _)| *segment);
        let mut waiting = std::mem::take(&mut self.waiting).into_iter();
        while waiting.len() > 0 {
            let segments: Vec<_> = waiting.by_ref().take(BATCH).collect();
            let released = segments.len();
            self.start(segments, released);
        }
        Ok(())
    }

    /// Takes the segment length from the first segment. One that fails verification is requested
    /// again.
    fn learn_segment_len(
        &mut self,
        (segment, first): &ReceivedSegment,
    ) -> Result<bool, ReceiveError> {
        if let Err(reason) = self.verification.check(&first.data()) {
            self.refuse(*segment, reason.to_string())?;
            return Ok(false);
        }
        let length = u64::try_from(first.content_len()).unwrap_or(0);
        // An empty object has one empty segment.
        self.part.set_segment_len(length.max(1));
        Ok(true)
    }

    /// Continues with a segment that was requested again.
    fn start_again(&mut self, received: ReceivedSegment) -> Result<(), ReceiveError> {
        let (segment, data) = &received;
        if data.data().content_type() == ContentType::NACK {
            return match self.verification.check_nack(&data.data()) {
                Ok(()) => Err(self.failure(FetchFailure::ApplicationNack { segment: *segment })),
                Err(reason) => self.refuse(*segment, format!("an application Nack: {reason}")),
            };
        }
        // Only the first segment can be rejected before the length is known.
        if self.part.segment_len() == 0 && !self.learn_segment_len(&received)? {
            return Ok(());
        }
        self.start(vec![received], 0);
        self.start_all(Vec::new())
    }

    fn start(&mut self, segments: Vec<ReceivedSegment>, released: usize) {
        self.jobs += 1;
        if self.unchecked.is_none() {
            let unchecked =
                |(_, received): &ReceivedSegment| self.verification.unchecked(&received.data());
            self.unchecked = segments.iter().find_map(unchecked);
        }
        let job = Job {
            segments,
            released,
            writes: Arc::clone(&self.writes),
            segment_len: self.part.segment_len(),
            verification: self.verification.clone(),
            sender: self.sender.clone(),
        };
        if self.is_small {
            job.run();
        } else if !self.workers.push(job) {
            // Released and reported with the previous one.
            self.jobs -= 1;
        }
        self.workers.help(JOBS_WAITING_MAX);
    }

    fn finish(&mut self, outcome: JobResult) -> Result<(), ReceiveError> {
        for stored in outcome.stored {
            self.part.note(stored).map_err(|error| match error {
                NoteError::Irregular(Irregular) => ReceiveError::Irregular(self.name.clone()),
                NoteError::Part(error) => error.into(),
            })?;
        }
        for (segment, reason) in outcome.refused {
            self.refuse(segment, reason)?;
        }
        match outcome.error {
            None => Ok(()),
            Some(JobError::Irregular(Irregular)) => Err(ReceiveError::Irregular(self.name.clone())),
            Some(JobError::Write(error)) => Err(self.part.write_error(error).into()),
            Some(JobError::Panicked) => Err(ReceiveError::Panicked(self.name.clone())),
        }
    }

    /// Requests a segment again, unless that was done often enough.
    fn refuse(&mut self, segment: u64, reason: String) -> Result<(), ReceiveError> {
        let expected = self.verification.expected(segment);
        let asked = self.retries.ask(Refusal { segment, reason }, expected);
        asked.map_err(|refusal| self.refusal(refusal))
    }

    fn refusal(&self, refusal: Refusal) -> ReceiveError {
        let Refusal { segment, reason } = refusal;
        self.failure(FetchFailure::Verification { segment, reason })
    }

    fn failure(&self, failure: FetchFailure) -> ReceiveError {
        FetchError::Failed { name: self.name.clone(), failure }.into()
    }
}
