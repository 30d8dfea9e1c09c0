//! Threads that verify segments and write them to their places.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use bytes::Bytes;
use ndn_client::fetch::{FetchFailure, ReceivedSegment, Verification};
use rustix::fs::FallocateFlags;
use rustix::io::{Errno, pwritev};
use tokio::sync::mpsc::UnboundedSender;

use super::checksum::xxh64;
use super::part::{Irregular, Stored};

/// Most threads.
const THREADS_MAX: usize = 8;
/// Zeros are left out where at least so many follow one another: no file system has holes that are
/// smaller.
const HOLE_LEN_MIN: usize = 4096;

/// Segments to be verified and written.
pub(super) struct Job {
    /// In ascending order.
    pub(super) segments: Vec<ReceivedSegment>,
    pub(super) file: Arc<File>,
    pub(super) segment_len: u64,
    pub(super) verification: Verification,
    pub(super) sender: UnboundedSender<Outcome>,
}

/// What came of a job.
pub(super) struct Outcome {
    /// Segments of the job.
    pub(super) segments: usize,
    /// Those that are in the file.
    pub(super) stored: Vec<Stored>,
    /// Why the others are not.
    pub(super) error: Option<JobError>,
}

pub(super) enum JobError {
    Irregular(Irregular),
    Fetch(FetchFailure),
    Write(io::Error),
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
        let sender = job.sender.clone();
        let _ = sender.send(carry_out(job));
    }
}

fn carry_out(job: Job) -> Outcome {
    let mut outcome = Outcome {
        segments: job.segments.len(),
        stored: Vec::with_capacity(job.segments.len()),
        error: None,
    };
    let mut run: Vec<Bytes> = Vec::with_capacity(job.segments.len());
    let mut first = 0;
    for (segment, received) in &job.segments {
        let content = match verified(&job, *segment, received) {
            Ok(content) => content,
            Err(error) => {
                outcome.error = Some(error);
                break;
            }
        };
        let next = first + u64::try_from(run.len()).unwrap_or(0);
        if *segment != next && !run.is_empty() {
            store(&job, first, &run, &mut outcome);
            run.clear();
        }
        if run.is_empty() {
            first = *segment;
        }
        run.push(content);
    }
    store(&job, first, &run, &mut outcome);
    outcome
}

fn verified(
    job: &Job,
    segment: u64,
    received: &ndn_client::ReceivedData,
) -> Result<Bytes, JobError> {
    let data = received.data();
    job.verification.check(&data).map_err(|reason| {
        JobError::Fetch(FetchFailure::Verification { segment, reason: reason.to_string() })
    })?;
    let content = data.content_range().map(|range| received.wire().slice(range));
    let content = content.unwrap_or_default();
    let last = data.final_block_id().and_then(|last| last.as_segment());
    let length = u64::try_from(content.len()).unwrap_or(u64::MAX);
    if length > job.segment_len
        || (length < job.segment_len && last.is_some_and(|last| last != segment))
    {
        return Err(JobError::Irregular(Irregular));
    }
    Ok(content)
}

/// Writes the contents of the segments from `first` on, which follow one another.
fn store(job: &Job, first: u64, run: &[Bytes], outcome: &mut Outcome) {
    if run.is_empty() || matches!(outcome.error, Some(JobError::Write(_))) {
        return;
    }
    let Some(offset) = first.checked_mul(job.segment_len) else {
        outcome.error = Some(JobError::Irregular(Irregular));
        return;
    };
    let written = if run.iter().all(|content| content.iter().all(|byte| *byte == 0)) {
        leave_out(&job.file, offset, run)
    } else {
        write(&job.file, offset, run)
    };
    if let Err(error) = written {
        outcome.error = Some(JobError::Write(error));
        return;
    }
    for (segment, content) in (first..).zip(run) {
        let length = u64::try_from(content.len()).unwrap_or(0);
        outcome.stored.push(Stored { segment, length, checksum: xxh64(content, 0) });
    }
}

fn write(file: &File, mut offset: u64, run: &[Bytes]) -> io::Result<()> {
    let mut slices: Vec<_> = run.iter().map(|content| IoSlice::new(content)).collect();
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
fn leave_out(file: &File, offset: u64, run: &[Bytes]) -> io::Result<()> {
    let length: usize = run.iter().map(Bytes::len).sum();
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
