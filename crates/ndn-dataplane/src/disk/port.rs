//! The I/O threads of one worker's share.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ndn_disk::{Completion, Request, Share, ShareOptions, Storage, recover};
use ndn_forwarding::Shard;
use ndn_packet::Name;
use ndn_sys::poll::Waker;

use super::file::DiskFile;

/// Requests of other kinds than reads for Interests that are in progress at a time, with some to spare.
const OTHER_REQUESTS_MAX: usize = 64;
/// Maximum time for which the end of a worker waits for its writes.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// Prefixes whose erasure waits for the index, at most; further ones become one erasure of everything.
const EARLY_ERASURES_MAX: usize = 1024;
/// Stack of a thread.
const STACK_BYTES: usize = 256 << 10;

/// Settings of the I/O threads of one share.
#[derive(Debug, Clone, Copy)]
pub struct DiskPortOptions {
    /// The share.
    pub share: ShareOptions,
    /// Number of threads that read. Another one writes.
    pub readers: usize,
}

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
    /// Of each thread: its queue, and the requests in it. The first one writes.
    queues: Vec<(SyncSender<Request>, usize)>,
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
        let mut queues = Vec::new();
        for number in 0..=options.readers.max(1) {
            let (queue, requests) = sync_channel(capacity);
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
            builder.spawn(move || {
                if number == 0 {
                    thread.recover(options.share);
                }
                thread.run();
            })?;
        }
        let early_erasures = Some(Vec::new());
        let reports = Mutex::new(reports);
        Ok(Self { file, queues, reports, waker, early_erasures, is_failure_reported: false })
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> Arc<DiskFile> {
        Arc::clone(&self.file)
    }

    /// Readable when a thread has something to report.
    pub(crate) fn waker(&self) -> &Waker {
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

    /// The next completion of a request. A rebuilt index is given to the shard.
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
                    let disk = shard.disk_mut();
                    disk.into_iter().for_each(|disk| disk.fail("its threads have ended".into()));
                    return None;
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
        while let Some(request) = shard.poll_disk_request() {
            let thread = if request.is_write() { 0 } else { self.least_busy_reader() };
            let (queue, waiting) = &mut self.queues[thread];
            *waiting += 1;
            // The queue has room for all requests that a share makes at a time.
            if queue.try_send(request).is_err() {
                *waiting -= 1;
                let disk = shard.disk_mut();
                disk.into_iter()
                    .for_each(|disk| disk.fail("a thread does not take requests".into()));
            }
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

/// A thread: carries out one request after the other. It closes the file before its end of the queue, because fields are
/// dropped in order.
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
    }

    fn run(self) {
        while let Ok(request) = self.requests.recv() {
            let completion = request.perform(&*self.file);
            self.report(Report::Done(self.number, completion));
        }
    }

    fn report(&self, report: Report) {
        // Fails if the worker has ended.
        let _ = self.reports.send(report);
        self.waker.wake();
    }
}
