//! What the control socket asks for: log levels, figures of the workers, captures.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};

use ndn_dataplane::WorkerCounters;
use ndn_face::CallCounters;
use ndn_sys::poll::Waker;

use crate::capture::{CaptureFilter, CapturedPacket};
use crate::control_socket::{CaptureStream, Handler, Statistics, WorkerStatistics};
use crate::logging::LogHandle;

/// Packets that wait for a capture's reader at most.
pub(super) const CAPTURE_QUEUE: usize = 8192;

/// A request for the control thread.
#[derive(Debug)]
pub(super) struct CaptureRequest {
    /// What to capture.
    pub(super) filter: CaptureFilter,
    /// Where the answer goes.
    pub(super) answer: std::sync::mpsc::SyncSender<Result<CaptureStream, String>>,
}

/// What one worker counts.
#[derive(Debug)]
pub(super) struct WorkerFigures {
    /// Its loop.
    pub(super) rounds: Arc<WorkerCounters>,
    /// Its system calls.
    pub(super) calls: Arc<CallCounters>,
}

impl WorkerFigures {
    fn read(&self) -> WorkerStatistics {
        let Self { rounds, calls } = self;
        WorkerStatistics {
            rounds: rounds.rounds.value(),
            sleeps: rounds.sleeps.value(),
            bursts: rounds.bursts.value(),
            packets: rounds.packets.value(),
            receive_calls: calls.receive_calls.value(),
            received_frames: calls.received_frames.value(),
            send_calls: calls.send_calls.value(),
            sent_frames: calls.sent_frames.value(),
        }
    }
}

/// The control socket's end: runs on its threads.
#[derive(Debug)]
pub(super) struct Operator {
    log: LogHandle,
    workers: Vec<WorkerFigures>,
    requests: Sender<CaptureRequest>,
    waker: Arc<Waker>,
}

/// The control thread's end.
#[derive(Debug)]
pub(super) struct OperatorRequests {
    pub(super) requests: Receiver<CaptureRequest>,
    pub(super) waker: Arc<Waker>,
}

impl Operator {
    /// Both ends.
    pub(super) fn new(
        log: LogHandle,
        workers: Vec<WorkerFigures>,
    ) -> io::Result<(Self, OperatorRequests)> {
        let (sender, receiver) = channel();
        let waker = Arc::new(Waker::new()?);
        let requests = OperatorRequests { requests: receiver, waker: Arc::clone(&waker) };
        Ok((Self { log, workers, requests: sender, waker }, requests))
    }
}

impl Handler for Operator {
    fn log_directives(&self) -> String {
        self.log.directives()
    }

    fn set_log_directives(&self, directives: &str) -> Result<(), String> {
        self.log.set(directives)
    }

    fn statistics(&self) -> Statistics {
        Statistics { workers: self.workers.iter().map(WorkerFigures::read).collect() }
    }

    fn start_capture(&self, filter: CaptureFilter) -> Result<CaptureStream, String> {
        let stopping = || "the forwarder is stopping".to_owned();
        let (answer, answered) = sync_channel(1);
        self.requests.send(CaptureRequest { filter, answer }).map_err(|_| stopping())?;
        self.waker.wake();
        answered.recv().map_err(|_| stopping())?
    }
}

/// Where captured packets wait for a reader.
pub(super) fn packet_queue()
-> (std::sync::mpsc::SyncSender<CapturedPacket>, Receiver<CapturedPacket>) {
    sync_channel(CAPTURE_QUEUE)
}
