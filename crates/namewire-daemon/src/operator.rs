//! Requests of the control socket: log levels, worker counters, service times, captures.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

use ndn_dataplane::{
    ExchangeCounters, ExchangeValues, MemoryFaceOptions, QueueDepth, QueueDepthValues,
    WorkerCounters,
};
use ndn_face::{CallCounters, InternalEnd};
use ndn_forwarding::{Counters, DropReason, InterestAccount, ServiceTimes, TraceFilter, TraceSink};
use ndn_packet::Name;
use ndn_ring::PoolCounters;
use ndn_sys::clock::Clock;
use ndn_sys::poll::Waker;
use ndn_table::LedgerReport;
use ndn_types::{Counter, Timestamp};

use crate::hooks::LogControl;
use namewire_control::capture::{CaptureFilter, CapturedPacket};
use namewire_control::{
    CaptureStream, Dispatch, DispatchAction, FaceLimit, Handler, LedgerStatus, LinkCounters,
    MemifStatus, PacketTraceStream, ServiceTimesTrace, Statistics, WaitingFace, WebTransportStatus,
    WorkerStatistics,
};

use super::ledger_sum::LedgerSum;
use super::packet_traces::PacketTraces;
use super::service_times::{TraceSwitch, TracedWorker};

/// Maximum packets that wait for the reader of a capture.
pub(super) const CAPTURE_QUEUE: usize = 8192;

/// How long to wait for the report of a worker.
const WORKER_PATIENCE: Duration = Duration::from_secs(5);

/// A request for the control thread.
#[derive(Debug)]
pub(super) struct CaptureRequest {
    /// What to capture.
    pub(super) filter: CaptureFilter,
    /// Receives the answer.
    pub(super) answer: SyncSender<Result<CaptureStream, String>>,
}

/// A request about name dispatch, for the control thread.
#[derive(Debug)]
pub(super) struct DispatchRequest {
    /// The action.
    pub(super) action: DispatchAction,
    /// Receives the answer.
    pub(super) answer: SyncSender<Result<Dispatch, String>>,
}

/// A request for link counters of faces, for the control thread.
#[derive(Debug)]
pub(super) struct LinksRequest {
    /// Only faces with higher FaceIds.
    pub(super) after: Option<u64>,
    /// Receives the answer.
    pub(super) answer: SyncSender<BTreeMap<u64, LinkCounters>>,
}

/// The Data that answers a management Interest, or the reason for the failure.
pub(super) type LocalAnswer = Result<Vec<u8>, String>;

/// A management Interest that arrives over no face.
#[derive(Debug)]
pub(super) struct LocalRequest {
    /// The packet.
    pub(super) interest: Vec<u8>,
    /// Receives one answer.
    pub(super) answer: SyncSender<LocalAnswer>,
}

/// Receives the FaceId and the other end of an in-memory face.
pub(super) type MemoryFaceAnswer = SyncSender<io::Result<(u64, InternalEnd)>>;

/// A request of an operator to the control thread.
#[derive(Debug)]
pub(super) enum OperatorRequest {
    /// Start a capture.
    Capture(CaptureRequest),
    /// Show or change name dispatch.
    Dispatch(DispatchRequest),
    /// Report link counters.
    Links(LinksRequest),
    /// A management Interest.
    Local(LocalRequest),
    /// Create an in-memory face.
    AddMemoryFace(MemoryFaceOptions, MemoryFaceAnswer),
    /// Start or stop the measurement of service times.
    Trace(bool),
    /// Start the trace of decisions about packets, and answer; or stop it.
    TracePackets(Option<PacketTraceRequest>),
    /// Report the state of the WebTransport listener.
    WebTransport(SyncSender<WebTransportStatus>),
    /// Report what principals hold; each forwarding worker answers.
    Ledger(SyncSender<LedgerReport>),
    /// Report the number of faces.
    FaceLimit(SyncSender<FaceLimit>),
    /// Report the state of the memif listener.
    Memif(SyncSender<MemifStatus>),
    /// Report faces being created, all or those for one name.
    WaitingFaces(Option<Name>, SyncSender<Vec<WaitingFace>>),
}

/// A request to trace packets, for the control thread.
#[derive(Debug)]
pub(super) struct PacketTraceRequest {
    /// The packets.
    pub(super) filter: TraceFilter,
    /// Takes the traces.
    pub(super) sink: Arc<dyn TraceSink>,
    /// Receives the answer, once the workers have the command.
    pub(super) answer: SyncSender<()>,
}

/// Counters of one worker.
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
    /// Service times.
    pub(super) service_times: Arc<ServiceTimes>,
    /// Counters of its exchange with other workers, if any.
    pub(super) exchange: Option<Arc<ExchangeCounters>>,
    /// The NUMA node that it is pinned to, if any.
    pub(super) node: Option<usize>,
}

impl WorkerFigures {
    fn read(&self, now: Timestamp) -> WorkerStatistics {
        let Self { rounds, calls, pool, shard, exchange, service_times: _, node } = self;
        let exchange = exchange.as_deref();
        let queue = |queue: fn(&ExchangeCounters) -> &QueueDepth| {
            exchange.map_or_else(QueueDepthValues::default, |exchange| queue(exchange).values())
        };
        let drops = DropReason::ALL.into_iter().map(|reason| (reason, shard.dropped(reason)));
        let drops = drops.filter(|(_, count)| *count > 0);
        WorkerStatistics {
            work: rounds.values_at(now),
            calls: calls.values(),
            pool: pool.values(),
            shard: shard.values(),
            exchange: exchange.map_or_else(ExchangeValues::default, ExchangeCounters::values),
            burst_sizes: rounds.burst_sizes.each_ref().map(Counter::value),
            node: *node,
            crossings_dropped: exchange.map_or(0, ExchangeCounters::dropped_total),
            queued_data: queue(|exchange| &exchange.queued_data),
            queued_nacks: queue(|exchange| &exchange.queued_nacks),
            queued_interests: queue(|exchange| &exchange.queued_interests),
            dropped: shard.dropped_total(),
            drops: drops.map(|(reason, count)| (reason.name().to_owned(), count)).collect(),
            interests: InterestAccount::of(shard),
        }
    }
}

/// The control socket's side: runs on its threads.
pub(super) struct Operator {
    log: Arc<dyn LogControl>,
    workers: Vec<WorkerFigures>,
    requests: Sender<OperatorRequest>,
    waker: Arc<Waker>,
    trace: TraceSwitch,
    packet_traces: PacketTraces,
    clock: Clock,
}

/// The control thread's side.
#[derive(Debug)]
pub(super) struct OperatorRequests {
    pub(super) requests: Receiver<OperatorRequest>,
    pub(super) waker: Arc<Waker>,
}

impl Operator {
    /// Creates both sides.
    pub(super) fn new(
        log: Arc<dyn LogControl>,
        workers: Vec<WorkerFigures>,
        clock: Clock,
    ) -> io::Result<(Self, OperatorRequests)> {
        let (sender, receiver) = channel();
        let waker = Arc::new(Waker::new()?);
        let requests = OperatorRequests { requests: receiver, waker: Arc::clone(&waker) };
        let (to_control, wakes) = (sender.clone(), Arc::clone(&waker));
        let switch = move |is_on| {
            let _ = to_control.send(OperatorRequest::Trace(is_on));
            wakes.wake();
        };
        let trace = TraceSwitch::new(switch, clock.clone());
        let packet_traces = PacketTraces::default();
        let operator = Self { log, workers, requests: sender, waker, trace, packet_traces, clock };
        Ok((operator, requests))
    }

    /// The queue of requests to the control thread.
    pub(super) fn requests(&self) -> Sender<OperatorRequest> {
        self.requests.clone()
    }

    /// Sends a request to the control thread and waits for the answer.
    fn ask<T>(&self, request: impl FnOnce(SyncSender<T>) -> OperatorRequest) -> Result<T, String> {
        let stopping = || "the forwarder is stopping".to_owned();
        let (answer, answered) = sync_channel(1);
        self.requests.send(request(answer)).map_err(|_| stopping())?;
        self.waker.wake();
        answered.recv().map_err(|_| stopping())
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
        let now = Timestamp::from_nanos(self.clock.now_ns());
        Statistics { workers: self.workers.iter().map(|worker| worker.read(now)).collect() }
    }

    fn links(&self, after: Option<u64>) -> Result<BTreeMap<u64, LinkCounters>, String> {
        self.ask(|answer| OperatorRequest::Links(LinksRequest { after, answer }))
    }

    fn webtransport(&self) -> Result<WebTransportStatus, String> {
        self.ask(OperatorRequest::WebTransport)
    }

    fn face_limit(&self) -> Result<FaceLimit, String> {
        self.ask(OperatorRequest::FaceLimit)
    }

    fn limits(&self) -> Result<LedgerStatus, String> {
        let stopping = || "the forwarder is stopping".to_owned();
        let (answer, reports) = sync_channel(self.workers.len());
        self.requests.send(OperatorRequest::Ledger(answer)).map_err(|_| stopping())?;
        self.waker.wake();
        let mut sum = LedgerSum::default();
        loop {
            match reports.recv_timeout(WORKER_PATIENCE) {
                Ok(report) => sum.add(&report),
                // All have answered.
                Err(RecvTimeoutError::Disconnected) => return Ok(sum.into_status()),
                Err(RecvTimeoutError::Timeout) => return Err("a worker does not answer".to_owned()),
            }
        }
    }

    fn management(&self, interest: Vec<u8>) -> Result<Vec<u8>, String> {
        self.ask(|answer| OperatorRequest::Local(LocalRequest { interest, answer }))?
    }

    fn memif(&self) -> Result<MemifStatus, String> {
        self.ask(OperatorRequest::Memif)
    }

    fn waiting_faces(&self, name: Option<&Name>) -> Result<Vec<WaitingFace>, String> {
        self.ask(|answer| OperatorRequest::WaitingFaces(name.cloned(), answer))
    }

    fn dispatch(&self, action: DispatchAction) -> Result<Dispatch, String> {
        self.ask(|answer| OperatorRequest::Dispatch(DispatchRequest { action, answer }))?
    }

    fn trace_service_times(&self) -> Box<dyn ServiceTimesTrace> {
        self.trace.begin(self.workers.iter().map(|worker| TracedWorker {
            times: Arc::clone(&worker.service_times),
            rounds: Arc::clone(&worker.rounds),
        }))
    }

    fn trace_packets(&self, filter: TraceFilter) -> Result<PacketTraceStream, String> {
        let start = |sink| {
            let request = |answer| PacketTraceRequest { filter, sink, answer };
            self.ask(|answer| OperatorRequest::TracePackets(Some(request(answer))))
        };
        let (requests, waker) = (self.requests.clone(), Arc::clone(&self.waker));
        let stop = move || {
            // If the control thread has ended, so have the workers.
            let _ = requests.send(OperatorRequest::TracePackets(None));
            waker.wake();
        };
        self.packet_traces.begin(&self.clock, start, stop)
    }

    fn start_capture(&self, filter: CaptureFilter) -> Result<CaptureStream, String> {
        self.ask(|answer| OperatorRequest::Capture(CaptureRequest { filter, answer }))?
    }
}

/// Creates the queue of captured packets for a reader.
pub(super) fn packet_queue() -> (SyncSender<CapturedPacket>, Receiver<CapturedPacket>) {
    sync_channel(CAPTURE_QUEUE)
}
