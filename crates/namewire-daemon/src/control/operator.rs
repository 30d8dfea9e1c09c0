//! The operations of a running forwarder. The threads of their callers execute them, with calls to the control thread.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ndn_caching::policy::UnknownPolicy;
use ndn_dataplane::{
    Command, Dataplane, ExchangeCounters, ExchangeValues, Faces, MemoryFaceOptions, QueueDepth,
    QueueDepthValues, WorkerCounters,
};
use ndn_disk::DiskCounters;
use ndn_face::{CallCounters, InternalEnd};
use ndn_forwarding::{Counters, DropReason, InterestAccount, ServiceTimes, TraceFilter};
use ndn_management::{
    CallError, ControlState, DatasetPlaces, FaceEventNotification, KeptResource, PendingPlaces,
    PublishedResource, RequestBytes, RouteChange, RoutePlaces, RoutingChange, StrategyChoicePlaces,
    StrategyInstancePlaces, TableItems, TablePart, WaitingPlaces, WithdrawalPlaces,
    route_origin_text,
};
use ndn_packet::Name;
use ndn_ring::PoolCounters;
use ndn_sys::clock::Clock;
use ndn_sys::peer::command_of;
use ndn_types::{Counter, Timestamp};
use ndn_webtransport::{HandshakePlaces, SessionPlaces};

use super::management::{LocalAnswer, MANAGEMENT_OFF};
use super::memif::{MemifAttempts, MemifHandshakes};
use super::service::Core;
use super::{Control, NO_CONFIGURATION};
use crate::calls::Caller;
use crate::hooks::LogControl;
use crate::ledger_sum::LedgerSum;
use crate::names::Lookups;
use crate::network_interfaces::network_interfaces;
use crate::packet_traces::PacketTraces;
use crate::service_times::{TraceSwitch, TracedWorker};
use crate::websocket::Handshakes;
use crate::{balance, telemetry};
use namewire_control::capture::{CaptureFilter, CapturedKinds};
use namewire_control::{
    CaptureStream, ConfigStatus, CsPolicy, Dispatch, EventSink, FaceEvent, FaceLimit, LedgerStatus,
    LinkCounters, LogLevels, LogSelection, LogSeverity, LogStream, ManagementData, MemifStatus,
    NetworkInterface, Operations, PacketTraceStream, RoutingEvent, ServiceTimesStream, Statistics,
    Version, VipStatus, WaitingFace, WebTransportStatus, WorkerStatistics,
};

/// Timeout of the report of a worker.
const WORKER_TIMEOUT: Duration = Duration::from_secs(5);

/// Counters of one worker.
#[derive(Debug)]
pub(crate) struct WorkerFigures {
    /// Its loop.
    pub(crate) rounds: Arc<WorkerCounters>,
    /// Its system calls.
    pub(crate) calls: Arc<CallCounters>,
    /// Its packet memory.
    pub(crate) pool: Arc<PoolCounters>,
    /// Its shard.
    pub(crate) shard: Arc<Counters>,
    /// Service times.
    pub(crate) service_times: Arc<ServiceTimes>,
    /// Counters of its exchange with other workers, if any.
    pub(crate) exchange: Option<Arc<ExchangeCounters>>,
    /// Counters of the disk tier of its Content Store, once it is in use.
    pub(crate) disk: Arc<OnceLock<Arc<DiskCounters>>>,
    /// The NUMA node that it is pinned to, if any.
    pub(crate) node: Option<usize>,
}

impl WorkerFigures {
    fn read(&self, now: Timestamp) -> WorkerStatistics {
        let Self { rounds, calls, pool, shard, exchange, service_times: _, disk, node } = self;
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
            ring_full: exchange.map_or(0, ExchangeCounters::ring_full_total),
            queued_data: queue(|exchange| &exchange.queued_data),
            queued_nacks: queue(|exchange| &exchange.queued_nacks),
            queued_interests: queue(|exchange| &exchange.queued_interests),
            disk: disk.get().map(|disk| disk.values()).unwrap_or_default(),
            dropped: shard.dropped_total(),
            drops: drops.map(|(reason, count)| (reason.name().to_owned(), count)).collect(),
            interests: InterestAccount::of(shard),
        }
    }
}

fn policy_status(core: &Core) -> CsPolicy {
    CsPolicy { policy: core.cs_policy.to_string() }
}

/// Executes operations on the threads of their callers.
pub(crate) struct Operator {
    log: Arc<dyn LogControl>,
    workers: Vec<WorkerFigures>,
    control: Arc<Caller<Control>>,
    trace: TraceSwitch,
    packet_traces: PacketTraces,
    clock: Clock,
}

impl fmt::Debug for Operator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Operator").field("workers", &self.workers).finish_non_exhaustive()
    }
}

impl Operator {
    /// Answers for these workers, and with calls to the control thread.
    pub(crate) fn new(
        log: Arc<dyn LogControl>,
        workers: Vec<WorkerFigures>,
        control: Caller<Control>,
        clock: Clock,
    ) -> Self {
        let control = Arc::new(control);
        let to_control = Arc::clone(&control);
        let switch = move |is_on| {
            // If the control thread has ended, so have the workers; below, too.
            let _ =
                to_control.post(move |control| control.core.dataplane.send(Command::Trace(is_on)));
        };
        let trace = TraceSwitch::new(switch, clock.clone());
        Self { log, workers, control, trace, packet_traces: PacketTraces::default(), clock }
    }

    /// Creates the in-memory face of one end of a pair. Returns its FaceId.
    ///
    /// # Errors
    /// The forwarder is stopping, or the limit of faces is reached.
    pub(crate) fn add_memory_face(
        &self,
        options: MemoryFaceOptions,
        end: InternalEnd,
    ) -> Result<u64, CallError> {
        let added = self.control.call_later(move |control, answer| {
            control.add_memory_face(&options, end, answer);
        })?;
        added.map_err(|error| CallError::NoAnswer(error.to_string()))
    }

    /// Executes a management Interest.
    ///
    /// # Errors
    /// The forwarder is stopping.
    pub(crate) fn execute_interest(&self, interest: Vec<u8>) -> Result<LocalAnswer, CallError> {
        self.control
            .call_later(move |control, answer| control.handle_local_interest(&interest, answer))
    }

    /// Executes `action` on the dispatch of names.
    fn with_dispatch(
        &self,
        action: impl FnOnce(&mut Dataplane, Timestamp) -> Result<Dispatch, String> + Send + 'static,
    ) -> Result<Dispatch, String> {
        self.control.call(|control| {
            let now = control.core.now.monotonic;
            action(&mut control.core.dataplane, now)
        })?
    }

    /// Executes `action` on the state of management.
    fn with_management(
        &self,
        action: impl FnOnce(&mut ControlState) + Send + 'static,
    ) -> Result<(), String> {
        self.control.call(move |control| match control.core.config.management.enabled {
            true => {
                action(control.management.change().0);
                Ok(())
            }
            false => Err(MANAGEMENT_OFF.to_owned()),
        })?
    }

    fn waiting_faces_of(&self, name: Option<Name>) -> Result<Vec<WaitingFace>, String> {
        Ok(self.control.call(move |control| {
            control.statics.waiting(control.core.now.monotonic, name.as_ref())
        })?)
    }
}

/// An event in words.
fn routing_event(event: &ndn_management::RoutingEvent) -> RoutingEvent {
    let (kind, route, strategy) = match &event.change {
        RoutingChange::Route(RouteChange::Added, route) => ("route-added", Some(route), None),
        RoutingChange::Route(RouteChange::Changed, route) => ("route-changed", Some(route), None),
        RoutingChange::Route(RouteChange::Removed, route) => ("route-removed", Some(route), None),
        RoutingChange::Strategy(Some(strategy)) => ("strategy-set", None, Some(strategy)),
        RoutingChange::Strategy(None) => ("strategy-unset", None, None),
        RoutingChange::More => ("more", None, None),
    };
    RoutingEvent {
        kind: kind.to_owned(),
        name: event.name.to_uri(),
        face_id: route.map(|route| route.face_id),
        origin: route.map(|route| route_origin_text(route.origin)),
        cost: route.map(|route| route.cost),
        strategy: strategy.map(Name::to_uri),
    }
}

impl Control {
    /// Resources of the control thread that principals hold.
    pub(crate) fn held(&self) -> LedgerSum {
        let Control { core, management, websocket, connector, memif, sessions, .. } = self;
        let mut sum = LedgerSum::default();
        sum.add_of_control::<Faces, 1>(&core.dataplane.face_report());
        sum.add_of_control::<Handshakes, 1>(&websocket.report());
        sum.add_of_control::<Lookups, 1>(&connector.names().report());
        let (handshakes, attempts) = memif.reports();
        sum.add_of_control::<MemifHandshakes, 1>(&handshakes);
        sum.add_of_control::<MemifAttempts, 1>(&attempts);
        if let Some((handshakes, accepted)) = sessions.place_reports() {
            sum.add_of_control::<HandshakePlaces, 1>(&handshakes);
            sum.add_of_control::<SessionPlaces, 1>(&accepted);
        }
        sum.add_of_control::<RequestBytes, 1>(&management.state().request_bytes());
        sum.add_of_control::<WaitingPlaces, 1>(&management.state().waiting_places());
        sum.add_of_control::<PendingPlaces, 1>(&management.state().pending_places());
        sum.add_of_control::<RoutePlaces, 1>(&management.state().route_places());
        let (requests, published) = management.state().dataset_places();
        sum.add_of_control::<DatasetPlaces, 1>(&requests);
        sum.add_of_control::<PublishedResource, _>(&published);
        let (choices, instances) = management.state().strategy_places();
        sum.add_of_control::<StrategyChoicePlaces, 1>(&choices);
        sum.add_of_control::<StrategyInstancePlaces, 1>(&instances);
        let announcements = management.state().announcement_places();
        sum.add_of_control::<KeptResource, _>(&announcements);
        if let Some(withdrawals) = management.state().withdrawal_places() {
            sum.add_of_control::<WithdrawalPlaces, 1>(&withdrawals);
        }
        sum
    }
}

impl Operations for Operator {
    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn watch_faces(&self, sink: EventSink<FaceEvent>) -> Result<(), String> {
        let EventSink(mut sink) = sink;
        let notify = move |event: &FaceEventNotification| {
            let properties = &event.properties;
            sink(FaceEvent {
                kind: event.kind.to_string(),
                face_id: properties.face_id,
                remote_uri: properties.remote_uri.clone(),
                local_uri: properties.local_uri.clone(),
                persistency: properties.persistency.to_string(),
            })
        };
        self.with_management(move |state| state.add_face_event_sink(Box::new(notify)))
    }

    fn watch_routing(&self, sink: EventSink<RoutingEvent>) -> Result<(), String> {
        let EventSink(mut sink) = sink;
        let notify = move |event: &ndn_management::RoutingEvent| sink(routing_event(event));
        self.with_management(move |state| state.add_routing_event_sink(Box::new(notify)))
    }

    fn table_part(&self, part: TablePart, items_max: usize) -> Result<TableItems, String> {
        self.control.call(move |control| control.table_part(&part, items_max))?
    }

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
        Ok(ManagementData { data: self.execute_interest(interest)?? })
    }

    fn statistics(&self) -> Result<Statistics, String> {
        let now = self.clock.now();
        Ok(Statistics { workers: self.workers.iter().map(|worker| worker.read(now)).collect() })
    }

    fn links(&self, after: Option<u64>) -> Result<BTreeMap<u64, LinkCounters>, String> {
        let mut links = self.control.call(move |control| {
            let driver = |interface: &str| control.interfaces.driver(interface);
            let Core { faces, now, .. } = &control.core;
            telemetry::links(faces.all(), after, now.monotonic, driver)
        })?;
        let mut commands = BTreeMap::new();
        for process in links.values_mut().filter_map(|link| link.process.as_mut()) {
            let Some(id) = process.process_id else { continue };
            process.command = commands.entry(id).or_insert_with(|| command_of(id)).clone();
        }
        Ok(links)
    }

    fn waiting_faces(&self) -> Result<Vec<WaitingFace>, String> {
        self.waiting_faces_of(None)
    }

    fn waiting_faces_for(&self, name: Name) -> Result<Vec<WaitingFace>, String> {
        self.waiting_faces_of(Some(name))
    }

    fn face_limit(&self) -> Result<FaceLimit, String> {
        Ok(self.control.call(|control| {
            let Core { faces, log, config, .. } = &control.core;
            FaceLimit {
                faces: faces.len() as u64,
                faces_max: config.limits.faces as u64,
                refused: log.full.refused(),
            }
        })?)
    }

    fn limits(&self) -> Result<LedgerStatus, String> {
        let (workers, reports) = sync_channel(self.workers.len());
        let mut sum = self.control.call(|control| {
            let sum = control.held();
            control.core.dataplane.send(Command::ReportLedgers { forwards: true, answer: workers });
            sum
        })?;
        loop {
            match reports.recv_timeout(WORKER_TIMEOUT) {
                Ok(ledgers) => sum.add_of_worker(&ledgers),
                // All have answered.
                Err(RecvTimeoutError::Disconnected) => return Ok(sum.into_status()),
                Err(RecvTimeoutError::Timeout) => return Err("a worker does not answer".to_owned()),
            }
        }
    }

    fn webtransport(&self) -> Result<WebTransportStatus, String> {
        Ok(self.control.call(|control| control.sessions.status(&control.core.config))?)
    }

    fn memif(&self) -> Result<MemifStatus, String> {
        Ok(self.control.call(|control| control.memif.status(&control.core.config))?)
    }

    fn interfaces(&self) -> Result<Vec<NetworkInterface>, String> {
        network_interfaces()
    }

    fn vip(&self) -> Result<VipStatus, String> {
        #[cfg(not(feature = "vip"))]
        return Err("this program was built without VIP".to_owned());
        #[cfg(feature = "vip")]
        self.control
            .call(|control| control.vip.status())?
            .ok_or_else(|| "VIP is not enabled (caching.vip.enabled)".to_owned())
    }

    fn dispatch(&self) -> Result<Dispatch, String> {
        self.with_dispatch(|dataplane, _| balance::report(dataplane))
    }

    fn set_dispatch(&self, name: Name, worker: u8) -> Result<Dispatch, String> {
        self.with_dispatch(move |dataplane, now| balance::set(dataplane, &name, worker, now))
    }

    fn balance_dispatch(&self) -> Result<Dispatch, String> {
        self.with_dispatch(balance::balance)
    }

    fn cs_policy(&self) -> Result<CsPolicy, String> {
        Ok(self.control.call(|control| policy_status(&control.core))?)
    }

    fn set_cs_policy(&self, policy: String) -> Result<CsPolicy, String> {
        let policy = policy.parse().map_err(|error: UnknownPolicy| error.to_string())?;
        self.control.call(move |control| {
            control.core.set_cs_policy(policy)?;
            Ok(policy_status(&control.core))
        })?
    }

    fn check_config(&self) -> Result<ConfigStatus, String> {
        self.control.call(|control| {
            let Control { core, management, sessions, listening, reload, .. } = control;
            let reload = reload.as_ref().ok_or(NO_CONFIGURATION)?;
            Ok(reload.check(core, management, sessions, listening))
        })?
    }

    fn reload_config(&self) -> Result<ConfigStatus, String> {
        self.control.call(Control::reload)?
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
        let set = |control: &mut Control, trace| {
            control.core.dataplane.send(Command::TracePackets(trace))
        };
        let start =
            |sink| Ok(self.control.call(move |control| set(control, Some((filter, sink))))?);
        let to_control = Arc::clone(&self.control);
        let stop = move || drop(to_control.post(move |control| set(control, None)));
        self.packet_traces.begin(&self.clock, start, stop)
    }

    fn follow_log(&self, level: LogSeverity, module: Option<String>) -> Result<LogStream, String> {
        self.log.follow(LogSelection { level, module })
    }

    fn start_capture(
        &self,
        face_id: Option<u64>,
        name: Option<Name>,
        types: CapturedKinds,
        snap_len: usize,
        sample: Option<u32>,
    ) -> Result<CaptureStream, String> {
        let all = CaptureFilter::new(face_id, snap_len, sample);
        let filter = CaptureFilter { name, types, ..all };
        self.control.call(move |control| control.captures.start(&mut control.core.cx(), filter))?
    }
}
