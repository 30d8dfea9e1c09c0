//! Fetching an object into a file: segments are verified and written by threads while further ones
//! come, each at its place, in any order.

mod checksum;
mod part;
mod workers;

use std::sync::Arc;

use ndn_client::fetch::{FetchError, PacketStream, ReceivedSegment, Verification};
use tokio::sync::mpsc;

use self::part::{Irregular, NoteError};
use self::workers::{Job, JobError, Outcome};

pub use self::part::{Origin, PartError, PartFile, Progress, is_reserved_name};
pub use self::workers::Workers;

/// Segments that a thread verifies and writes together: what fits a processor's own cache.
const BATCH: usize = 24;

/// Why an object is not in its file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiveError {
    /// The fetch failed, or a segment does not verify.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The file cannot be written.
    #[error(transparent)]
    Part(#[from] PartError),
    /// The segments of this object have different lengths: they can only be written in order.
    #[error("{0} has segments of different lengths")]
    Irregular(String),
}

/// Writes the segments of `stream` to `part`, which goes on with the segment that it wants next,
/// verified by `verification`. `segment_len` is what segments but the last have, if that is known;
/// otherwise the first one tells. `observe` is called now and then.
///
/// After an error, `part` has what was verified until then, and nothing writes to it any more.
///
/// # Errors
/// All of [`ReceiveError`].
pub async fn receive(
    mut stream: PacketStream,
    part: &mut PartFile,
    verification: &Verification,
    segment_len: Option<u64>,
    workers: &Workers,
    mut observe: impl FnMut(),
) -> Result<(), ReceiveError> {
    if let (0, Some(length)) = (part.segment_len(), segment_len) {
        part.set_segment_len(length);
    }
    let (sender, mut outcomes) = mpsc::unbounded_channel();
    let mut receiving =
        Receiving { part, verification, workers, sender, waiting: Vec::new(), jobs: 0 };
    let release = stream.release();
    let mut all_here = false;
    let mut failure = None;
    while receiving.jobs > 0 || !(all_here || failure.is_some()) {
        tokio::select! {
            biased;
            Some(outcome) = outcomes.recv() => {
                receiving.jobs -= 1;
                release.release(outcome.segments);
                if let Err(error) = receiving.finish(outcome, &stream) {
                    failure.get_or_insert(error);
                }
                observe();
            }
            segments = stream.next(), if !all_here && failure.is_none() => match segments {
                Ok(Some(segments)) => receiving.start(segments),
                Ok(None) => all_here = true,
                Err(error) => failure = Some(error.into()),
            },
        }
    }
    failure.map_or(Ok(()), Err)
}

struct Receiving<'a> {
    part: &'a mut PartFile,
    verification: &'a Verification,
    workers: &'a Workers,
    sender: mpsc::UnboundedSender<Outcome>,
    /// Segments that wait until it is known where they belong.
    waiting: Vec<ReceivedSegment>,
    /// Jobs that are not finished.
    jobs: usize,
}

impl Receiving<'_> {
    fn start(&mut self, segments: Vec<ReceivedSegment>) {
        self.waiting.extend(segments);
        if self.part.segment_len() == 0 {
            let first = self.waiting.iter().find(|(segment, _)| *segment == 0);
            let Some((_, first)) = first else {
                return;
            };
            let length = u64::try_from(first.content_len()).unwrap_or(0);
            // An empty object has one empty segment.
            self.part.set_segment_len(length.max(1));
        }
        self.waiting.sort_unstable_by_key(|(segment, _)| *segment);
        let mut waiting = std::mem::take(&mut self.waiting).into_iter();
        while waiting.len() > 0 {
            let segments: Vec<_> = waiting.by_ref().take(BATCH).collect();
            self.jobs += 1;
            self.workers.push(Job {
                segments,
                file: Arc::clone(self.part.file()),
                segment_len: self.part.segment_len(),
                verification: self.verification.clone(),
                sender: self.sender.clone(),
            });
        }
    }

    fn finish(&mut self, outcome: Outcome, stream: &PacketStream) -> Result<(), ReceiveError> {
        let name = || stream.name().to_uri();
        for stored in outcome.stored {
            self.part.note(stored).map_err(|error| match error {
                NoteError::Irregular(Irregular) => ReceiveError::Irregular(name()),
                NoteError::Part(error) => error.into(),
            })?;
        }
        match outcome.error {
            None => Ok(()),
            Some(JobError::Irregular(Irregular)) => Err(ReceiveError::Irregular(name())),
            Some(JobError::Write(error)) => Err(self.part.write_error(error).into()),
            Some(JobError::Fetch(failure)) => {
                Err(FetchError::Failed { name: name(), failure }.into())
            }
        }
    }
}
