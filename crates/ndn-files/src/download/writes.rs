//! Writes verified segments to a file, by one thread at a time.
//!
//! The kernel locks a file for each write, and threads that wait for that lock spin: on two
//! processors that took a thirtieth of the time of a transfer. So a thread that has verified
//! something while another thread is writing queues it for that thread, and verifies the next job.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use rustix::io::{Errno, pwritev};
use tokio::sync::mpsc::UnboundedSender;

use super::part::{Irregular, Stored};

/// Runs of zeros of at least this length are not written: no file system has smaller holes.
const HOLE_LEN_MIN: usize = 4096;

/// Verified content.
pub(super) struct Content {
    pub(super) bytes: Bytes,
    /// To verify it on disk later, where the digest of its packet is not known.
    pub(super) checksum: Option<u64>,
}

/// Contents of consecutive segments.
pub(super) struct Run {
    pub(super) first: u64,
    pub(super) contents: Vec<Content>,
}

impl Run {
    /// The segment after the run.
    pub(super) fn next(&self) -> u64 {
        self.first.saturating_add(u64::try_from(self.contents.len()).unwrap_or(u64::MAX))
    }
}

/// Result of a job.
pub(super) struct JobResult {
    /// Segments of the stream to be released.
    pub(super) released: usize,
    /// Segments that are in the file.
    pub(super) stored: Vec<Stored>,
    /// Segments that failed verification, with the reason.
    pub(super) refused: Vec<(u64, String)>,
    /// Why others are not in the file.
    pub(super) error: Option<JobError>,
}

impl JobResult {
    /// The result of a job whose thread panicked.
    pub(super) fn panicked(released: usize) -> Self {
        let error = Some(JobError::Panicked);
        Self { released, stored: Vec::new(), refused: Vec::new(), error }
    }
}

pub(super) enum JobError {
    Irregular(Irregular),
    Write(io::Error),
    /// Verifying or writing panicked.
    Panicked,
}

/// A verified job.
pub(super) struct Verified {
    pub(super) runs: Vec<Run>,
    pub(super) segment_len: u64,
    /// Its result so far.
    pub(super) outcome: JobResult,
    pub(super) sender: UnboundedSender<JobResult>,
}

#[derive(Default)]
struct WriteQueue {
    waiting: VecDeque<Verified>,
    /// A thread is writing, and takes queued jobs when it is done.
    is_busy: bool,
}

/// Queue of writes to a file.
pub(super) struct Writes {
    file: Arc<File>,
    queue: Mutex<WriteQueue>,
}

impl Writes {
    pub(super) fn new(file: Arc<File>) -> Self {
        Self { file, queue: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, WriteQueue> {
        // No invariant spans a panic.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a verified job and those queued meanwhile; or queues it for the thread that is
    /// writing.
    pub(super) fn push(&self, verified: Verified) {
        let mut queue = self.lock();
        queue.waiting.push_back(verified);
        if std::mem::replace(&mut queue.is_busy, true) {
            return;
        }
        drop(queue);
        while let Some(verified) = self.next() {
            self.write(verified);
        }
    }

    /// Writes this job only.
    pub(super) fn write(&self, verified: Verified) {
        let (sender, released) = (verified.sender.clone(), verified.outcome.released);
        let written = std::panic::catch_unwind(AssertUnwindSafe(|| verified.write(&self.file)));
        let _ = sender.send(written.unwrap_or_else(|_| JobResult::panicked(released)));
    }

    fn next(&self) -> Option<Verified> {
        let mut queue = self.lock();
        let next = queue.waiting.pop_front();
        queue.is_busy = next.is_some();
        next
    }
}

impl Verified {
    fn write(self, file: &File) -> JobResult {
        let Self { runs, segment_len, mut outcome, .. } = self;
        for run in &runs {
            if let Err(error) = store(file, segment_len, run, &mut outcome) {
                outcome.error = Some(error);
                break;
            }
        }
        outcome
    }
}

fn store(
    file: &File,
    segment_len: u64,
    run: &Run,
    outcome: &mut JobResult,
) -> Result<(), JobError> {
    let offset = run.first.checked_mul(segment_len).ok_or(JobError::Irregular(Irregular))?;
    let contents = &run.contents;
    let written = if contents.iter().all(|content| content.bytes.iter().all(|byte| *byte == 0)) {
        leave_out(file, offset, contents)
    } else {
        write(file, offset, contents)
    };
    written.map_err(JobError::Write)?;
    for (segment, content) in (run.first..).zip(contents) {
        let length = u64::try_from(content.bytes.len()).unwrap_or(0);
        outcome.stored.push(Stored { segment, length, checksum: content.checksum });
    }
    Ok(())
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

/// Makes a hole where there are only zeros.
fn leave_out(file: &File, offset: u64, run: &[Content]) -> io::Result<()> {
    let length: usize = run.iter().map(|content| content.bytes.len()).sum();
    if length < HOLE_LEN_MIN {
        return write(file, offset, run);
    }
    // Space may have been reserved there.
    let length = u64::try_from(length).unwrap_or(0);
    if !punch_hole(file, offset, length) {
        return write(file, offset, run);
    }
    if file.metadata()?.len() < offset + length {
        file.write_all_at(&[0], offset + length - 1)?;
    }
    Ok(())
}

/// Frees the room of a part of a file; false where that is not possible.
#[cfg(target_os = "linux")]
fn punch_hole(file: &File, offset: u64, length: u64) -> bool {
    use rustix::fs::FallocateFlags;
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(file, flags, offset, length).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn punch_hole(_: &File, _: u64, _: u64) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    const SEGMENT_LEN: usize = 100;
    const JOBS: u64 = 64;
    const THREADS: u64 = 4;

    fn segment(number: u64) -> Bytes {
        vec![u8::try_from(number % 251).unwrap(); SEGMENT_LEN].into()
    }

    /// Two segments, and the one after the next.
    fn verified(job: u64, sender: &UnboundedSender<JobResult>) -> Verified {
        let content = |number| Content { bytes: segment(number), checksum: Some(number) };
        let first = job * 3;
        let runs = vec![
            Run { first, contents: vec![content(first)] },
            Run { first: first + 1, contents: vec![content(first + 1), content(first + 2)] },
        ];
        let outcome =
            JobResult { released: 3, stored: Vec::new(), refused: Vec::new(), error: None };
        Verified { runs, segment_len: SEGMENT_LEN as u64, outcome, sender: sender.clone() }
    }

    #[test]
    fn all_queued_jobs_are_written() {
        let file = Arc::new(tempfile::tempfile().unwrap());
        let writes = Writes::new(Arc::clone(&file));
        let (sender, mut outcomes) = mpsc::unbounded_channel();
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (writes, sender) = (&writes, &sender);
                scope.spawn(move || {
                    for job in (thread..JOBS).step_by(usize::try_from(THREADS).unwrap()) {
                        writes.push(verified(job, sender));
                    }
                });
            }
        });
        assert!(writes.lock().waiting.is_empty() && !writes.lock().is_busy);
        let mut stored = Vec::new();
        while let Ok(outcome) = outcomes.try_recv() {
            assert!(outcome.error.is_none() && outcome.released == 3);
            stored
                .extend(outcome.stored.into_iter().map(|stored| (stored.segment, stored.checksum)));
        }
        stored.sort_unstable();
        let expected: Vec<_> = (0..JOBS * 3).map(|number| (number, Some(number))).collect();
        assert_eq!(stored, expected);
        let mut content = vec![0; SEGMENT_LEN * expected.len()];
        file.read_exact_at(&mut content, 0).unwrap();
        for (number, written) in (0..).zip(content.chunks(SEGMENT_LEN)) {
            assert!(written == segment(number), "{number}");
        }
    }

    #[test]
    fn failed_write_is_reported_and_the_next_one_succeeds() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "").unwrap();
        // Nobody may write to it.
        let writes = Writes::new(Arc::new(File::open(&path).unwrap()));
        let (sender, mut outcomes) = mpsc::unbounded_channel();
        for job in 0..2 {
            writes.push(verified(job, &sender));
            let outcome = outcomes.try_recv().unwrap();
            assert!(matches!(outcome.error, Some(JobError::Write(_))));
            assert!(outcome.stored.is_empty() && outcome.released == 3);
        }
    }
}
