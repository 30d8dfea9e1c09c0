//! Threads that verify segments and write them to their places.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use bytes::Bytes;
use ndn_client::ReceivedData;
use ndn_client::fetch::{ReceivedSegment, Verification};
use ndn_security::VerifyError;
use rustix::fs::FallocateFlags;
use rustix::io::{Errno, pwritev};
use tokio::sync::mpsc::UnboundedSender;

use super::checksum::xxh64;
use super::part::{Irregular, Stored};
use super::recheck::can_be_made_again;

/// Most threads.
const THREADS_MAX: usize = 8;
/// Zeros are left out where at least so many follow one another: no file system has holes that are
/// smaller.
const HOLE_LEN_MIN: usize = 4096;

/// Segments to be verified and written.
pub(super) struct Job {
    /// In ascending order.
    pub(super) segments: Vec<ReceivedSegment>,
    /// As many of the stream are done with when this is done.
    pub(super) released: usize,
    pub(super) file: Arc<File>,
    pub(super) segment_len: u64,
    pub(super) verification: Verification,
    pub(super) sender: UnboundedSender<Outcome>,
}

/// What came of a job.
pub(super) struct Outcome {
    /// Segments of the stream that are done with.
    pub(super) released: usize,
    /// Those that are in the file.
    pub(super) stored: Vec<Stored>,
    /// Those that did not verify, and why not.
    pub(super) refused: Vec<(u64, String)>,
    /// Why others are not in the file.
    pub(super) error: Option<JobError>,
}

pub(super) enum JobError {
    Irregular(Irregular),
    Write(io::Error),
    /// Verifying or writing has panicked.
    Panicked,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    closed: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    ready: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // No invariant spans a panic.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Threads that verify and write for any number of fetches. Dropped, they end, with what waits
/// undone.
pub struct Workers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts a thread for each processor, up to 8.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start() -> io::Result<Self> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let shared = Arc::new(Shared::default());
        let mut workers = Self { shared, threads: Vec::new() };
        for number in 0..processors.min(THREADS_MAX) {
            let shared = Arc::clone(&workers.shared);
            let thread = std::thread::Builder::new().name(format!("verify-{number}"));
            workers.threads.push(thread.spawn(move || work(&shared))?);
        }
        Ok(workers)
    }

    pub(super) fn push(&self, job: Job) {
        self.shared.lock().jobs.push_back(job);
        self.shared.ready.notify_one();
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let dropped = {
            let mut queue = self.shared.lock();
            queue.closed = true;
            std::mem::take(&mut queue.jobs)
        };
        drop(dropped);
        self.shared.ready.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workers").field("threads", &self.threads.len()).finish_non_exhaustive()
    }
}

fn work(shared: &Shared) {
    loop {
        let job = {
            let queue = shared.lock();
            let waiting = |queue: &mut Queue| queue.jobs.is_empty() && !queue.closed;
            let queue = shared.ready.wait_while(queue, waiting);
            let mut queue = queue.unwrap_or_else(PoisonError::into_inner);
            match queue.jobs.pop_front() {
                Some(job) => job,
                None => return,
            }
        };
        let (sender, released) = (job.sender.clone(), job.released);
        // Who fetches waits for every job, and other fetches for this thread.
        let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| carry_out(job)));
        let _ = sender.send(outcome.unwrap_or_else(|_| Outcome {
            released,
            stored: Vec::new(),
            refused: Vec::new(),
            error: Some(JobError::Panicked),
        }));
    }
}

fn carry_out(job: Job) -> Outcome {
    let mut outcome = Outcome {
        released: job.released,
        stored: Vec::with_capacity(job.segments.len()),
        refused: Vec::new(),
        error: None,
    };
    let mut run: Vec<Content> = Vec::with_capacity(job.segments.len());
    let mut first = 0;
    for (segment, checked) in checked(&job) {
        let content = match checked.and_then(|received| content_of(&job, segment, received)) {
            Ok(content) => content,
            Err(Unusable::Refused(reason)) => {
                outcome.refused.push((segment, reason));
                continue;
            }
            Err(Unusable::Irregular) => {
                outcome.error = Some(JobError::Irregular(Irregular));
                break;
            }
        };
        let next = first + u64::try_from(run.len()).unwrap_or(0);
        if segment != next && !run.is_empty() {
            store(&job, first, &run, &mut outcome);
            run.clear();
        }
        if run.is_empty() {
            first = segment;
        }
        run.push(content);
    }
    store(&job, first, &run, &mut outcome);
    outcome
}

/// Why the content of a packet is not written.
enum Unusable {
    Refused(String),
    Irregular,
}

/// A content that was verified.
struct Content {
    bytes: Bytes,
    /// Whether the digest of its packet, which is known, tells whether it is on the disk as it was.
    is_listed: bool,
}

/// Segments, verified two at a time.
fn checked(job: &Job) -> impl Iterator<Item = (u64, Result<&ReceivedData, Unusable>)> {
    let verification = &job.verification;
    job.segments.chunks(2).flat_map(move |segments| {
        let checked = match segments {
            [(_, one), (_, other)] => {
                verification.check_pair([&one.data(), &other.data()]).map(Some)
            }
            [(_, one)] => [Some(verification.check(&one.data())), None],
            _ => [None, None],
        };
        segments.iter().zip(checked.into_iter().flatten()).map(|((segment, received), checked)| {
            let refused = |reason: VerifyError| Unusable::Refused(reason.to_string());
            (*segment, checked.map(|()| received).map_err(refused))
        })
    })
}

fn content_of(job: &Job, segment: u64, received: &ReceivedData) -> Result<Content, Unusable> {
    let data = received.data();
    let content = data.content_range().map(|range| received.wire().slice(range));
    let content = content.unwrap_or_default();
    let last = data.final_block_id().and_then(|last| last.as_segment());
    let length = u64::try_from(content.len()).unwrap_or(u64::MAX);
    if length > job.segment_len
        || (length < job.segment_len && last.is_some_and(|last| last != segment))
    {
        return Err(Unusable::Irregular);
    }
    let is_listed = job.verification.expected(segment).is_some() && can_be_made_again(&data);
    Ok(Content { bytes: content, is_listed })
}

/// Writes the contents of the segments from `first` on, which follow one another.
fn store(job: &Job, first: u64, run: &[Content], outcome: &mut Outcome) {
    if run.is_empty() || matches!(outcome.error, Some(JobError::Write(_))) {
        return;
    }
    let Some(offset) = first.checked_mul(job.segment_len) else {
        outcome.error = Some(JobError::Irregular(Irregular));
        return;
    };
    let written = if run.iter().all(|content| content.bytes.iter().all(|byte| *byte == 0)) {
        leave_out(&job.file, offset, run)
    } else {
        write(&job.file, offset, run)
    };
    if let Err(error) = written {
        outcome.error = Some(JobError::Write(error));
        return;
    }
    for (segment, content) in (first..).zip(run) {
        let length = u64::try_from(content.bytes.len()).unwrap_or(0);
        let checksum = (!content.is_listed).then(|| xxh64(&content.bytes, 0));
        outcome.stored.push(Stored { segment, length, checksum });
    }
}

fn write(file: &File, mut offset: u64, run: &[Content]) -> io::Result<()> {
    let mut slices: Vec<_> = run.iter().map(|content| IoSlice::new(&content.bytes)).collect();
    let mut rest = slices.as_mut_slice();
    IoSlice::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        match pwritev(file, rest, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                offset += u64::try_from(written).unwrap_or(0);
                IoSlice::advance_slices(&mut rest, written);
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Makes a hole where nothing but zeros is to be.
fn leave_out(file: &File, offset: u64, run: &[Content]) -> io::Result<()> {
    let length: usize = run.iter().map(|content| content.bytes.len()).sum();
    if length < HOLE_LEN_MIN {
        return write(file, offset, run);
    }
    // Room may have been reserved there.
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let length = u64::try_from(length).unwrap_or(0);
    if rustix::fs::fallocate(file, flags, offset, length).is_err() {
        return write(file, offset, run);
    }
    if file.metadata()?.len() < offset + length {
        file.write_all_at(&[0], offset + length - 1)?;
    }
    Ok(())
}
