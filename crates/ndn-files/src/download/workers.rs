//! Threads that verify segments and write them to their positions.

use std::collections::VecDeque;
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use ndn_client::ReceivedData;
use ndn_client::fetch::{ReceivedSegment, Verification};
use ndn_packet::Convention;
use ndn_security::VerifyError;
use rustix::process::{getpriority_process, setpriority_process};
use tokio::sync::mpsc::UnboundedSender;

use super::checksum::xxh64;
use super::part::Irregular;
use super::recheck::can_be_rebuilt;
use super::writes::{Content, JobError, JobResult, Run, Verified, Writes};

/// Segments that a thread verifies and writes together: fits a processor's private cache, and is a
/// multiple of the number hashed side by side.
pub(super) const BATCH: usize = 32;
/// Maximum number of threads.
const THREADS_MAX: usize = 8;
/// Niceness of verifying and writing relative to receiving (nice(2)): while a receiving thread
/// waits for a verifying one, the server and the forwarder are idle.
const NICE: i32 = 10;
/// With this many jobs queued, the receiving thread does some of them: other processes may leave no
/// time for threads of lower priority.
pub(super) const JOBS_WAITING_MAX: usize = 8;

/// Segments to be verified and written.
pub(super) struct Job {
    pub(super) segments: Vec<ReceivedSegment>,
    /// Number of segments of the stream released by this job.
    pub(super) released: usize,
    pub(super) writes: Arc<Writes>,
    pub(super) segment_len: u64,
    pub(super) verification: Verification,
    pub(super) sender: UnboundedSender<JobResult>,
}

#[derive(Default)]
struct JobQueue {
    jobs: VecDeque<Job>,
    /// Number of idle threads.
    idle: usize,
    closed: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<JobQueue>,
    ready: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, JobQueue> {
        // No invariant spans a panic.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Threads that verify and write for any number of fetches. When dropped, they end, and queued jobs
/// are not done.
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
        Self::with_threads(processors.min(THREADS_MAX))
    }

    pub(crate) fn with_threads(count: usize) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let mut workers = Self { shared, threads: Vec::new() };
        for number in 0..count {
            let shared = Arc::clone(&workers.shared);
            let thread = std::thread::Builder::new().name(format!("verify-{number}"));
            workers.threads.push(thread.spawn(move || {
                yield_to_others();
                work(&shared);
            })?);
        }
        Ok(workers)
    }

    /// Queues a job; returns false if all of it was added to the previous job, which had not been
    /// started.
    pub(super) fn push(&self, mut job: Job) -> bool {
        let mut queue = self.shared.lock();
        if let Some(last) = queue.jobs.back_mut() {
            last.fill_from(&mut job);
        }
        let is_new = !job.segments.is_empty();
        queue.jobs.extend(is_new.then_some(job));
        let is_waited_for = queue.idle > 0;
        drop(queue);
        // A system call for each job, mostly without a thread to wake, would be noticeable.
        if is_new && is_waited_for {
            self.shared.ready.notify_one();
        }
        is_new
    }

    /// Does the oldest job if more than `waiting_max` are queued, because the threads seem to get
    /// no time; returns false if there was none to do. Does not wait for or write what others have
    /// verified.
    pub(super) fn help(&self, waiting_max: usize) -> bool {
        let mut queue = self.shared.lock();
        let is_behind = queue.jobs.len() > waiting_max;
        let next = if is_behind { queue.jobs.pop_front() } else { None };
        drop(queue);
        next.map(Job::run_apart).is_some()
    }
}

/// Lowers the priority of this thread. If that fails, the transfer is only slower.
fn yield_to_others() {
    let _ =
        getpriority_process(None).and_then(|now| setpriority_process(None, (now + NICE).min(19)));
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
    let mut queue = shared.lock();
    loop {
        if let Some(job) = queue.jobs.pop_front() {
            drop(queue);
            job.run();
            queue = shared.lock();
        } else if queue.closed {
            return;
        } else {
            queue.idle += 1;
            queue = shared.ready.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
        }
    }
}

impl Job {
    /// Takes over segments of `other`, as many as fit, if it belongs to the same fetch.
    fn fill_from(&mut self, other: &mut Self) {
        if !Arc::ptr_eq(&self.writes, &other.writes) {
            return;
        }
        let count = BATCH.saturating_sub(self.segments.len()).min(other.segments.len());
        self.segments.extend(other.segments.drain(..count));
        // Segments of a stream are released by the job that finishes them.
        let released = count.min(other.released);
        self.released += released;
        other.released -= released;
    }

    /// Verifies and writes.
    pub(super) fn run(self) {
        self.run_with(Writes::push);
    }

    /// Verifies and writes, independently of other writers.
    fn run_apart(self) {
        self.run_with(Writes::write);
    }

    fn run_with(self, write: impl FnOnce(&Writes, Verified)) {
        let (sender, released, writes) =
            (self.sender.clone(), self.released, Arc::clone(&self.writes));
        // The fetch waits for every job, and other fetches for this thread.
        match std::panic::catch_unwind(AssertUnwindSafe(|| verify(self))) {
            Ok(verified) => write(&writes, verified),
            Err(_) => {
                let _ = sender.send(JobResult::panicked(released));
            }
        }
    }
}

/// Verifies the segments of a job, and groups consecutive ones.
fn verify(mut job: Job) -> Verified {
    job.segments.sort_unstable_by_key(|(segment, _)| *segment);
    let mut refused = Vec::new();
    let mut irregular = false;
    let mut runs: Vec<Run> = Vec::new();
    for (segment, checked) in checked(&job) {
        let content = match checked.and_then(|received| content_of(&job, segment, received)) {
            Ok(content) => content,
            Err(Unusable::Refused(reason)) => {
                refused.push((segment, reason));
                continue;
            }
            Err(Unusable::Irregular) => {
                irregular = true;
                break;
            }
        };
        match runs.last_mut().filter(|run| run.next() == segment) {
            Some(run) => run.contents.push(content),
            None => runs.push(Run { first: segment, contents: vec![content] }),
        }
    }
    let outcome = JobResult {
        released: job.released,
        stored: Vec::with_capacity(job.segments.len()),
        refused,
        error: irregular.then_some(JobError::Irregular(Irregular)),
    };
    Verified { runs, segment_len: job.segment_len, outcome, sender: job.sender }
}

/// Why the content of a packet is not written.
enum Unusable {
    Refused(String),
    Irregular,
}

/// Segments, verified side by side.
fn checked(job: &Job) -> impl Iterator<Item = (u64, Result<&ReceivedData, Unusable>)> {
    let all: Vec<_> = job.segments.iter().map(|(_, received)| received.data()).collect();
    let checked = job.verification.check_each(&all);
    job.segments.iter().zip(checked).map(|((segment, received), checked)| {
        let refused = |reason: VerifyError| Unusable::Refused(reason.to_string());
        (*segment, checked.map(|()| received).map_err(refused))
    })
}

fn content_of(job: &Job, segment: u64, received: &ReceivedData) -> Result<Content, Unusable> {
    let data = received.data();
    let content = data.content_range().map(|range| received.wire().slice(range));
    let content = content.unwrap_or_default();
    let convention = data.name().last().and_then(|own| Convention::of_segment(&own));
    let last = data.final_block_id().zip(convention);
    let last = last.and_then(|(last, convention)| convention.segment_of(&last));
    let length = u64::try_from(content.len()).unwrap_or(u64::MAX);
    if length > job.segment_len
        || (length < job.segment_len && last.is_some_and(|last| last != segment))
    {
        return Err(Unusable::Irregular);
    }
    // A listed packet that can be rebuilt is identified by its digest.
    let is_listed = job.verification.expected(segment).is_some() && can_be_rebuilt(&data);
    let checksum = (!is_listed).then(|| xxh64(&content, 0));
    Ok(Content { bytes: content, checksum })
}
