//! What the control socket asks for: log levels, figures of the workers, captures.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};

use ndn_dataplane::{ExchangeCounters, WorkerCounters};
use ndn_face::CallCounters;
use ndn_forwarding::Counters;
use ndn_ring::PoolCounters;
use ndn_sys::clock;
use ndn_sys::poll::Waker;
use ndn_table::Timestamp;

use crate::capture::{CaptureFilter, CapturedPacket};
use crate::control_socket::{
    CaptureStream, Dispatch, DispatchAction, Handler, LinkCounters, Statistics, WorkerStatistics,
};
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

/// A question about the dispatch of names, for the control thread.
#[derive(Debug)]
pub(super) struct DispatchRequest {
    /// What is asked.
    pub(super) action: DispatchAction,
    /// Where the answer goes.
    pub(super) answer: std::sync::mpsc::SyncSender<Result<Dispatch, String>>,
}

/// A question about the links of faces, for the control thread.
#[derive(Debug)]
pub(super) struct LinksRequest {
    /// Only faces with higher numbers.
    pub(super) after: Option<u64>,
    /// Where the answer goes.
    pub(super) answer: std::sync::mpsc::SyncSender<BTreeMap<u64, LinkCounters>>,
}

/// What an operator asks of the control thread.
#[derive(Debug)]
pub(super) enum OperatorRequest {
    /// To capture.
    Capture(CaptureRequest),
    /// How names are dispatched.
    Dispatch(DispatchRequest),
    /// What links count.
    Links(LinksRequest),
}

/// What one worker counts.
#[derive(Debug)]
pub(super) struct WorkerFigures {
    /// Its loop.
    pub(super) rounds: Arc<WorkerCounters>,
    /// Its system calls.
    pub(super) calls: Arc<CallCounters>,
    /// Its packet memory.
    pub(super) pool: Arc<PoolCounters>,
    /// Its shard.
    pub(super) shard: Arc<Counters>,
    /// Its dealings with other workers, if there are any.
    pub(super) exchange: Option<Arc<ExchangeCounters>>,
}

impl WorkerFigures {
    fn read(&self) -> WorkerStatistics {
        let Self { rounds, calls, pool, shard, exchange } = self;
        let crossings =
            |figure: fn(&ExchangeCounters) -> u64| exchange.as_deref().map_or(0, figure);
        WorkerStatistics {
            rounds: rounds.rounds.value(),
            sleeps: rounds.sleeps.value(),
            bursts: rounds.bursts.value(),
            packets: rounds.packets.value(),
            receive_calls: calls.receive_calls.value(),
            received_frames: calls.received_frames.value(),
            send_calls: calls.send_calls.value(),
            sent_frames: calls.sent_frames.value(),
            packet_blocks: u64::from(pool.blocks_in_use()),
            packet_blocks_max: u64::from(pool.blocks_in_use_max()),
            packet_block_failures: pool.allocation_failures(),
            waited_ns: rounds.waited_until(Timestamp::from_nanos(clock::now())),
            crossings_sent: crossings(|exchange| exchange.sent.value()),
            crossings_taken: crossings(|exchange| exchange.taken.value()),
            crossings_dropped: crossings(ExchangeCounters::dropped_total),
            wakes: crossings(|exchange| exchange.wakes.value()),
            pit_entries: shard.pit_entries.value(),
            cs_entries: shard.cs_entries.value(),
            dropped: shard.dropped_total(),
        }
    }
}

/// The control socket's end: runs on its threads.
#[derive(Debug)]
pub(super) struct Operator {
    log: LogHandle,
    workers: Vec<WorkerFigures>,
    requests: Sender<OperatorRequest>,
    waker: Arc<Waker>,
}

/// The control thread's end.
#[derive(Debug)]
pub(super) struct OperatorRequests {
    pub(super) requests: Receiver<OperatorRequest>,
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

    fn links(&self, after: Option<u64>) -> Result<BTreeMap<u64, LinkCounters>, String> {
        let stopping = || "the forwarder is stopping".to_owned();
        let (answer, answered) = sync_channel(1);
        let request = OperatorRequest::Links(LinksRequest { after, answer });
        self.requests.send(request).map_err(|_| stopping())?;
        self.waker.wake();
        answered.recv().map_err(|_| stopping())
    }

    fn dispatch(&self, action: DispatchAction) -> Result<Dispatch, String> {
        let stopping = || "the forwarder is stopping".to_owned();
        let (answer, answered) = sync_channel(1);
        let request = OperatorRequest::Dispatch(DispatchRequest { action, answer });
        self.requests.send(request).map_err(|_| stopping())?;
        self.waker.wake();
        answered.recv().map_err(|_| stopping())?
    }

    fn start_capture(&self, filter: CaptureFilter) -> Result<CaptureStream, String> {
        let stopping = || "the forwarder is stopping".to_owned();
        let (answer, answered) = sync_channel(1);
        let request = OperatorRequest::Capture(CaptureRequest { filter, answer });
        self.requests.send(request).map_err(|_| stopping())?;
        self.waker.wake();
        answered.recv().map_err(|_| stopping())?
    }
}

/// Where captured packets wait for a reader.
pub(super) fn packet_queue()
-> (std::sync::mpsc::SyncSender<CapturedPacket>, Receiver<CapturedPacket>) {
    sync_channel(CAPTURE_QUEUE)
}
