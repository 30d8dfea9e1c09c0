//! Requests of the control socket: log levels, worker counters, service times, captures.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

use ndn_dataplane::{
    ExchangeCounters, ExchangeValues, Faces, MemoryFaceOptions, QueueDepth, QueueDepthValues,
    WorkerCounters, WorkerLedgers,
};
use ndn_face::{CallCounters, InternalEnd, MemoryKind};
use ndn_forwarding::{Counters, DropReason, InterestAccount, ServiceTimes, TraceFilter, TraceSink};
use ndn_packet::Name;
use ndn_ring::PoolCounters;
use ndn_sys::clock::Clock;
use ndn_sys::poll::Waker;
use ndn_table::{FaceIndex, Resource};
use ndn_types::{Counter, LedgerReport, Timestamp};

use crate::hooks::LogControl;
use namewire_control::capture::{CaptureFilter, CapturedPacket};
use namewire_control::{
    CaptureStream, ConfigStatus, Dispatch, FaceLimit, LedgerStatus, LinkCounters, LogLevels,
    ManagementData, MemifStatus, Operations, PacketTraceStream, ServiceTimesStream, Statistics,
    Version, WaitingFace, WebTransportStatus, WorkerStatistics,
};
use ndn_management::{CallError, RequestBytes, WaitingPlaces};

use super::ledger_sum::LedgerSum;
use super::packet_traces::PacketTraces;
use super::service_times::{TraceSwitch, TracedWorker};
use super::websocket::Handshakes;

/// Maximum packets that wait for the reader of a capture.
pub(super) const CAPTURE_QUEUE: usize = 8192;

/// How long to wait for the report of a worker.
const WORKER_TIMEOUT: Duration = Duration::from_secs(5);

/// A request for the control thread.
#[derive(Debug)]
pub(super) struct CaptureRequest {
    /// What to capture.
    pub(super) filter: CaptureFilter,
    /// Receives the answer.
    pub(super) answer: SyncSender<Result<CaptureStream, String>>,
}

/// An action on the dispatch of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DispatchAction {
    /// Report only.
    List,
    /// Move the entry of a name to a worker.
    Set {
        /// The name.
        name: Name,
        /// The worker.
        worker: u8,
    },
    /// Balance the load.
    Balance,
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

/// What principals hold of what the control thread divides.
#[derive(Debug)]
pub(super) struct ControlLedgers {
    pub(super) faces: LedgerReport<1>,
    pub(super) handshakes: LedgerReport<1>,
    pub(super) requests: LedgerReport<1>,
    pub(super) waiting: LedgerReport<1>,
}

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
    /// Report what principals hold.
    Ledgers {
        /// Each worker answers.
        workers: SyncSender<WorkerLedgers>,
        /// The answer of the control thread.
        control: SyncSender<ControlLedgers>,
    },
    /// Report the number of faces.
    FaceLimit(SyncSender<FaceLimit>),
    /// Report the state of the memif listener.
    Memif(SyncSender<MemifStatus>),
    /// Read the configuration, without applying it.
    CheckConfig(SyncSender<Result<ConfigStatus, String>>),
    /// Read the configuration again.
    ReloadConfig(SyncSender<Result<ConfigStatus, String>>),
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

impl fmt::Debug for Operator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Operator").field("workers", &self.workers).finish_non_exhaustive()
    }
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

    /// Sends a request to the control thread and waits for the answer.
    ///
    /// # Errors
    /// The forwarder is stopping.
    pub(super) fn ask<T>(
        &self,
        request: impl FnOnce(SyncSender<T>) -> OperatorRequest,
    ) -> Result<T, CallError> {
        let (answer, answered) = sync_channel(1);
        self.send(request(answer))?;
        answered.recv().map_err(|_| CallError::Stopping)
    }

    fn send(&self, request: OperatorRequest) -> Result<(), CallError> {
        self.requests.send(request).map_err(|_| CallError::Stopping)?;
        self.waker.wake();
        Ok(())
    }

    fn dispatch_action(&self, action: DispatchAction) -> Result<Dispatch, String> {
        self.ask(|answer| OperatorRequest::Dispatch(DispatchRequest { action, answer }))?
    }
}

impl Operations for Operator {
    fn version(&self) -> Result<Version, String> {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Ok(Version { version, process_id: std::process::id() })
    }

    fn log_levels(&self) -> Result<LogLevels, String> {
        Ok(LogLevels { directives: self.log.directives() })
    }

    fn set_log_levels(&self, directives: String) -> Result<LogLevels, String> {
        self.log.set(&directives)?;
        tracing::info!(%directives, "log levels changed");
        self.log_levels()
    }

    fn management(&self, interest: Vec<u8>) -> Result<ManagementData, String> {
        let request = |answer| OperatorRequest::Local(LocalRequest { interest, answer });
        Ok(ManagementData { data: self.ask(request)?? })
    }

    fn statistics(&self) -> Result<Statistics, String> {
        let now = Timestamp::from_nanos(self.clock.now_ns());
        Ok(Statistics { workers: self.workers.iter().map(|worker| worker.read(now)).collect() })
    }

    fn links(&self, after: Option<u64>) -> Result<BTreeMap<u64, LinkCounters>, String> {
        Ok(self.ask(|answer| OperatorRequest::Links(LinksRequest { after, answer }))?)
    }

    fn waiting_faces(&self) -> Result<Vec<WaitingFace>, String> {
        Ok(self.ask(|answer| OperatorRequest::WaitingFaces(None, answer))?)
    }

    fn waiting_faces_for(&self, name: Name) -> Result<Vec<WaitingFace>, String> {
        Ok(self.ask(|answer| OperatorRequest::WaitingFaces(Some(name), answer))?)
    }

    fn face_limit(&self) -> Result<FaceLimit, String> {
        Ok(self.ask(OperatorRequest::FaceLimit)?)
    }

    fn limits(&self) -> Result<LedgerStatus, String> {
        let (workers, reports) = sync_channel(self.workers.len());
        let ledgers = self.ask(|control| OperatorRequest::Ledgers { workers, control })?;
        let mut sum = LedgerSum::default();
        sum.add_of_control::<Faces>(&ledgers.faces);
        sum.add_of_control::<Handshakes>(&ledgers.handshakes);
        sum.add_of_control::<RequestBytes>(&ledgers.requests);
        sum.add_of_control::<WaitingPlaces>(&ledgers.waiting);
        loop {
            match reports.recv_timeout(WORKER_TIMEOUT) {
                Ok(WorkerLedgers { tables, memory }) => {
                    if let Some(tables) = tables {
                        sum.add::<Resource, _>(&tables);
                    }
                    sum.add::<MemoryKind, _>(&memory);
                }
                // All have answered.
                Err(RecvTimeoutError::Disconnected) => return Ok(sum.into_status()),
                Err(RecvTimeoutError::Timeout) => return Err("a worker does not answer".to_owned()),
            }
        }
    }

    fn webtransport(&self) -> Result<WebTransportStatus, String> {
        Ok(self.ask(OperatorRequest::WebTransport)?)
    }

    fn memif(&self) -> Result<MemifStatus, String> {
        Ok(self.ask(OperatorRequest::Memif)?)
    }

    fn dispatch(&self) -> Result<Dispatch, String> {
        self.dispatch_action(DispatchAction::List)
    }

    fn set_dispatch(&self, name: Name, worker: u8) -> Result<Dispatch, String> {
        self.dispatch_action(DispatchAction::Set { name, worker })
    }

    fn balance_dispatch(&self) -> Result<Dispatch, String> {
        self.dispatch_action(DispatchAction::Balance)
    }

    fn check_config(&self) -> Result<ConfigStatus, String> {
        self.ask(OperatorRequest::CheckConfig)?
    }

    fn reload_config(&self) -> Result<ConfigStatus, String> {
        self.ask(OperatorRequest::ReloadConfig)?
    }

    fn measure_service_times(&self, milliseconds: u64) -> Result<ServiceTimesStream, String> {
        let workers = self.workers.iter().map(|worker| TracedWorker {
            times: Arc::clone(&worker.service_times),
            rounds: Arc::clone(&worker.rounds),
        });
        Ok(ServiceTimesStream { milliseconds, trace: self.trace.begin(workers) })
    }

    fn trace_packets(&self, name: Name, sample: u32) -> Result<PacketTraceStream, String> {
        let filter = TraceFilter { prefix: name, sample };
        let start = |sink| {
            let request = |answer| PacketTraceRequest { filter, sink, answer };
            Ok(self.ask(|answer| OperatorRequest::TracePackets(Some(request(answer))))?)
        };
        let (requests, waker) = (self.requests.clone(), Arc::clone(&self.waker));
        let stop = move || {
            // If the control thread has ended, so have the workers.
            let _ = requests.send(OperatorRequest::TracePackets(None));
            waker.wake();
        };
        self.packet_traces.begin(&self.clock, start, stop)
    }

    fn start_capture(
        &self,
        face_id: Option<u64>,
        snap_len: usize,
    ) -> Result<CaptureStream, String> {
        let filter = CaptureFilter::new(face_id, snap_len);
        self.ask(|answer| OperatorRequest::Capture(CaptureRequest { filter, answer }))?
    }
}

/// A captured packet whose FaceId its reader sets.
pub(super) type QueuedPacket = (FaceIndex, CapturedPacket);

/// Creates the queue of captured packets for a reader.
pub(super) fn packet_queue() -> (SyncSender<QueuedPacket>, Receiver<QueuedPacket>) {
    sync_channel(CAPTURE_QUEUE)
}
