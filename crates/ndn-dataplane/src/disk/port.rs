//! The I/O threads of one worker's share: one that uses io_uring, or one that writes and several that read.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ndn_disk::{Completion, Request, Share, ShareOptions, Storage, recover};
use ndn_forwarding::Shard;
use ndn_packet::Name;
use ndn_sys::file_io::{FileRing, Operation};
use ndn_sys::poll::Waker;

use super::file::DiskFile;

/// Requests of other kinds than reads for Interests that are in progress at a time, with some to spare.
const OTHER_REQUESTS_MAX: usize = 64;
/// Maximum time for which the end of a worker waits for its writes.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// Prefixes whose erasure waits for the index, at most; further ones become one erasure of everything.
const EARLY_ERASURES_MAX: usize = 1024;
/// Threads that read where the kernel refuses io_uring.
const READERS: usize = 16;
/// Stack of a thread.
const STACK_BYTES: usize = 256 << 10;

/// Settings of the I/O threads of one share.
#[derive(Debug, Clone, Copy)]
pub struct DiskPortOptions {
    /// The share.
    pub share: ShareOptions,
    /// Number of threads that read; another one writes. `None`: one thread reads and writes by io_uring, or 16 threads read
    /// where the kernel refuses it.
    pub readers: Option<usize>,
}

/// The requests in progress of the one thread that uses io_uring.
type Ring = FileRing<Arc<DiskFile>, Request>;

/// Result of a thread.
#[derive(Debug)]
enum Report {
    /// The index is rebuilt, or cannot be.
    Recovered(io::Result<Box<Share>>),
    /// A request of the thread has ended.
    Done(usize, Completion),
}

/// The I/O threads of one share. The writing thread first rebuilds the index; until then the worker has no disk.
#[derive(Debug)]
pub struct DiskPort {
    file: Arc<DiskFile>,
    /// Of each thread: its queue, and the requests in it. The first one writes, and reads if there are no others.
    queues: Vec<(SyncSender<Request>, usize)>,
    /// Wakes the thread that uses io_uring, if there is one.
    ring_waker: Option<Arc<Waker>>,
    /// The mutex is never locked: it makes the options of a data plane `Sync`.
    reports: Mutex<Receiver<Report>>,
    waker: Arc<Waker>,
    /// Prefixes erased before the index was rebuilt; `None` once it is, or cannot be.
    early_erasures: Option<Vec<Name>>,
    is_failure_reported: bool,
}

impl DiskPort {
    /// Starts the threads.
    ///
    /// # Errors
    /// Those of starting a thread, and of a waker.
    pub fn start(file: Arc<DiskFile>, options: DiskPortOptions) -> io::Result<Self> {
        let capacity = options.share.reads_max + OTHER_REQUESTS_MAX;
        // Threads never wait for the worker.
        let (sender, reports) = sync_channel(capacity + 1);
        let waker = Arc::new(Waker::new()?);
        let ring_waker = Arc::new(Waker::new()?);
        let mut queues = Vec::new();
        let mut add_thread = |run: Box<dyn FnOnce(Thread) + Send>| {
            let (queue, requests) = sync_channel(capacity);
            let number = queues.len();
            queues.push((queue, 0));
            let thread = Thread {
                number,
                file: Arc::clone(&file),
                requests,
                reports: sender.clone(),
                waker: Arc::clone(&waker),
            };
            let name = format!("disk-{}-{number}", options.share.share);
            let builder = std::thread::Builder::new().name(name).stack_size(STACK_BYTES);
            builder.spawn(move || run(thread)).map(drop)
        };
        // A ring belongs to the thread that makes it.
        let (ring_sender, has_ring) = sync_channel(1);
        let first = {
            let ring_waker = Arc::clone(&ring_waker);
            move |thread: Thread| {
                let ring = match options.readers {
                    Some(_) => None,
                    None => thread.open_ring(ring_waker, capacity),
                };
                // Fails if the start has failed.
                let _ = ring_sender.send(ring.is_some());
                thread.recover(options.share);
                match ring {
                    Some(ring) => thread.run_ring(ring),
                    None => thread.run(),
                }
            }
        };
        add_thread(Box::new(first))?;
        let ring_waker = has_ring.recv().unwrap_or(false).then_some(ring_waker);
        if ring_waker.is_none() {
            for _ in 0..options.readers.unwrap_or(READERS).max(1) {
                add_thread(Box::new(Thread::run))?;
            }
        }
        let early_erasures = Some(Vec::new());
        let reports = Mutex::new(reports);
        let is_failure_reported = false;
        Ok(Self { file, queues, ring_waker, reports, waker, early_erasures, is_failure_reported })
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> Arc<DiskFile> {
        Arc::clone(&self.file)
    }

    /// Number of threads that read and do not write; `None` with io_uring.
    #[must_use]
    pub fn readers(&self) -> Option<usize> {
        self.ring_waker.is_none().then(|| self.queues.len() - 1)
    }

    /// Readable when a thread has something to report.
    #[must_use]
    pub fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Whether the index is being rebuilt.
    pub(crate) fn is_recovering(&self) -> bool {
        self.early_erasures.is_some()
    }

    /// Erases a prefix as soon as the index is rebuilt.
    pub(crate) fn erase_later(&mut self, prefix: Name) {
        let Some(early) = &mut self.early_erasures else { return };
        if early.len() < EARLY_ERASURES_MAX {
            early.push(prefix);
        } else {
            *early = vec![Name::new()];
        }
    }

    /// The next completion of a request. A rebuilt index is given to the shard. Once the threads have ended, reads in progress
    /// end with an error.
    pub fn next_completion(&mut self, shard: &mut Shard) -> Option<Completion> {
        loop {
            match self.reports_mut().try_recv() {
                Ok(Report::Done(thread, completion)) => {
                    self.queues[thread].1 -= 1;
                    return Some(completion);
                }
                Ok(Report::Recovered(result)) => self.attach(result, shard),
                Err(TryRecvError::Empty) => return None,
                Err(TryRecvError::Disconnected) => {
                    let disk = shard.disk_mut()?;
                    disk.fail("its threads have ended".into());
                    return disk.lost_read();
                }
            }
        }
    }

    fn attach(&mut self, result: io::Result<Box<Share>>, shard: &mut Shard) {
        let path = self.file.path().display();
        let early_erasures = self.early_erasures.take().unwrap_or_default();
        match result {
            Ok(mut share) => {
                tracing::info!(%path, packets = share.packet_count(), "disk cache is in use");
                for prefix in early_erasures {
                    share.erase(prefix.as_ref().value());
                }
                shard.attach_disk(share);
            }
            Err(error) => tracing::error!(%path, %error, "disk cache is left out: cannot read it"),
        }
    }

    /// Passes the requests of the shard to the threads, and reports a failure once.
    pub fn send_requests(&mut self, shard: &mut Shard) {
        let mut has_requests = false;
        while let Some(request) = shard.poll_disk_request() {
            let thread = if request.is_write() { 0 } else { self.least_busy_reader() };
            let (queue, waiting) = &mut self.queues[thread];
            *waiting += 1;
            has_requests = true;
            // The queue has room for all requests that a share makes at a time.
            if queue.try_send(request).is_err() {
                *waiting -= 1;
                let disk = shard.disk_mut();
                disk.into_iter()
                    .for_each(|disk| disk.fail("a thread does not take requests".into()));
            }
        }
        if has_requests && let Some(waker) = &self.ring_waker {
            waker.wake();
        }
        if !self.is_failure_reported
            && let Some(reason) = shard.disk().and_then(Share::failure)
        {
            let path = self.file.path().display();
            tracing::error!(%path, reason, "disk cache is left out");
            self.is_failure_reported = true;
        }
    }

    fn reports_mut(&mut self) -> &mut Receiver<Report> {
        self.reports.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    fn least_busy_reader(&self) -> usize {
        let readers = self.queues.iter().enumerate().skip(1);
        readers.min_by_key(|(_, (_, waiting))| *waiting).map_or(0, |(number, _)| number)
    }

    /// Writes what is in memory, at the end of the worker.
    pub(crate) fn finish(&mut self, shard: &mut Shard) {
        let Some(disk) = shard.disk_mut() else { return };
        disk.flush();
        self.send_requests(shard);
        while shard.disk().is_some_and(|disk| !disk.is_flushed()) {
            let Ok(report) = self.reports_mut().recv_timeout(END_TIMEOUT) else { return };
            if let (Report::Done(thread, completion), Some(disk)) = (report, shard.disk_mut()) {
                self.queues[thread].1 -= 1;
                // Interests are no longer answered.
                if let Some(answer) = disk.complete(ndn_types::Timestamp::ZERO, completion) {
                    disk.recycle(answer);
                }
                disk.flush();
            }
            self.send_requests(shard);
        }
    }
}

impl Drop for DiskPort {
    /// Waits for the threads, so that the file is closed and unlocked; not for long, as a device may hang.
    fn drop(&mut self) {
        self.queues.clear();
        while self.reports_mut().recv_timeout(END_TIMEOUT).is_ok() {}
    }
}

/// A thread: carries out one request after the other, or, with a ring, many at a time. It closes the file before its end of the
/// queue, because fields are dropped in order.
struct Thread {
    number: usize,
    file: Arc<DiskFile>,
    requests: Receiver<Request>,
    reports: SyncSender<Report>,
    waker: Arc<Waker>,
}

impl Thread {
    fn recover(&self, options: ShareOptions) {
        let storage: &dyn Storage = &*self.file;
        self.report(Report::Recovered(recover(storage, options).map(Box::new)));
        self.waker.wake();
    }

    /// The ring of this thread; `None` if the kernel refuses it, which is logged.
    fn open_ring(&self, waker: Arc<Waker>, capacity: usize) -> Option<Ring> {
        let capacity = u32::try_from(capacity).unwrap_or(u32::MAX);
        let refused = |error: &io::Error| {
            let path = self.file.path().display();
            tracing::info!(
                %path, %error,
                "disk cache uses {READERS} threads instead of io_uring, which the kernel refuses"
            );
        };
        FileRing::new(Arc::clone(&self.file), waker, capacity).inspect_err(refused).ok()
    }

    fn run(self) {
        while let Ok(request) = self.requests.recv() {
            self.report(Report::Done(self.number, request.perform(&*self.file)));
            self.waker.wake();
        }
    }

    /// Carries out all reads at a time, and one write after the other. Ends when the queue is closed and all are done.
    fn run_ring(self, mut ring: Ring) {
        let (mut writes, mut is_writing) = (VecDeque::new(), false);
        loop {
            let mut next = None;
            if ring.is_idle() && writes.is_empty() {
                // Not a wait of the ring, which the kernel would count as one for the disk.
                let Ok(request) = self.requests.recv() else { return };
                next = Some(request);
            }
            while ring.has_room()
                && let Some(request) = next.take().or_else(|| self.requests.try_recv().ok())
            {
                match request.is_write() {
                    true => writes.push_back(request),
                    false => ring.push(into_operation(request)),
                }
            }
            if !is_writing
                && ring.has_room()
                && let Some(request) = writes.pop_front()
            {
                ring.push(into_operation(request));
                is_writing = true;
            }
            let mut has_ended = false;
            let waited = ring.wait(|operation, result| {
                has_ended = true;
                is_writing &= !operation.is_write;
                let completion = into_completion(operation, result, &self.file);
                self.report(Report::Done(self.number, completion));
            });
            if has_ended {
                self.waker.wake();
            }
            if let Err(error) = waited {
                tracing::error!(path = %self.file.path().display(), %error, "io_uring failed");
                // The worker is woken when there is no thread left that reports.
                let Self { file, requests, reports, waker, .. } = self;
                drop((ring, file, requests, reports));
                waker.wake();
                return;
            }
        }
    }

    fn report(&self, report: Report) {
        // Fails if the worker has ended.
        let _ = self.reports.send(report);
    }
}

fn into_operation(mut request: Request) -> Operation<Request> {
    let (is_write, (offset, length)) = (request.is_write(), request.extent());
    let (memory, start) = request.buffer_mut().take_memory();
    Operation { is_write, offset, memory, range: start..start + length, value: request }
}

/// Whether an operation that is carried out again may succeed.
fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock)
}

/// The end of an operation. One that was interrupted, or ended early, is carried out again as by a thread without a ring.
fn into_completion(
    operation: Operation<Request>,
    result: io::Result<usize>,
    file: &DiskFile,
) -> Completion {
    let Operation { memory, range, value: mut request, .. } = operation;
    request.buffer_mut().return_memory(memory);
    match result {
        Ok(count) if count == range.len() => request.complete(Ok(())),
        Err(error) if !is_transient(&error) => request.complete(Err(error)),
        Ok(_) | Err(_) => request.perform(file),
    }
}
