//! The control thread's loop: management, faces and tables, between operators and the data plane.
//!
//! | module | content |
//! |---|---|
//! | `connecting` | requests that share one attempt to create a face |
//! | `connections` | creation of faces: accepted, requested by management, configured |
//! | `events` | events of the data plane |
//! | `management` | management Interests and their replies |
//! | `memif` | memif handshakes with clients and servers |
//! | `setup` | initial state of management and its internal face |
//! | `websocket` | WebSocket handshakes |
//! | `operator` | requests of the control socket |
//! | `webtransport` | faces of WebTransport sessions |
//! | `refusals` | log of commands and rejected connections |
//! | `replies` | queue of replies to the data plane |
//! | `quotas` | faces that exceed their quotas: rate limit and log |

mod connecting;
mod connections;
mod events;
mod interfaces;
mod local_requests;
mod management;
mod memif;
mod operator;
mod path_mtu;
mod quotas;
mod refusals;
mod replies;
mod service;
mod setup;
mod tickets;
mod websocket;
mod webtransport;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use anyhow::Context;
use ndn_dataplane::{Command, CsSettings, Dataplane, MemoryFaceOptions, OnDemandPeers};
use ndn_face::InternalEnd;
use ndn_forwarding::ProducerRegions;
use ndn_forwarding::strategy::StrategyError;
use ndn_management::{ControlState, FACE_ID_INTERNAL, Now};
use ndn_packet::NameRef;
use ndn_sys::clock::Clock;
use ndn_sys::poll::{Events, Interest, Poller, Waker};
use ndn_table::Timestamp;
use ndn_types::duration_ns;
use tracing::info;

use connecting::ConnectingFaces;
use interfaces::Interfaces;
pub(crate) use interfaces::InterfacesEvent;
use local_requests::LocalRequests;
pub(crate) use local_requests::{LocalAnswer, LocalRequest};
pub(super) use quotas::Excess;
use quotas::QuotaWatch;
use refusals::{FaceLimitLog, Refusals};
use replies::Replies;
pub use service::Reason;
pub(crate) use service::{Cx, Service};
use setup::internal_face;
pub(super) use setup::{management, propagate};
use tickets::Tickets;
use websocket::Handshakes;

use super::balance::BalanceSchedule;
use super::captures::Captures;
use super::ethernet::OwnPort;
use super::faces::{KnownFace, Wanted};
use super::listeners::Listeners;
use super::names::HostNames;
use super::operator::OperatorRequests;
use super::reload::Reload;
use super::static_setup::StaticSetup;
use super::tables::ForwardingTables;
use super::webtransport::WebTransport;
use crate::config::Config;
use crate::environment::now;
use crate::hooks::{Hooks, Requests};

const TOKEN_DATAPLANE: u64 = 0;
const TOKEN_INTERNAL: u64 = 1;
const TOKEN_STOP: u64 = 2;
const TOKEN_OPERATOR: u64 = 3;
const TOKEN_LINKS: u64 = 4;
const TOKEN_KEY_CHAIN: u64 = 5;
const TOKEN_SESSIONS: u64 = 6;
const TOKEN_NAMES: u64 = 7;
/// Listener `i` has token `TOKEN_LISTENERS + i`.
const TOKEN_LISTENERS: u64 = 1 << 16;
/// First token of connection attempts.
const TOKEN_ATTEMPTS: u64 = 1 << 32;
/// First token of WebSocket handshakes.
const TOKEN_HANDSHAKES: u64 = 1 << 48;

/// Capacity of the internal face, in frames per direction.
const INTERNAL_QUEUE: usize = 4096;
/// Retry interval for full queues.
const RETRY: Duration = Duration::from_millis(2);

const WORKER_GONE: &str = "the forwarding worker has ended by itself";
/// Pause of a listener after the process ran out of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Maximum descriptors handled per round.
pub(super) const EVENTS_PER_ROUND: usize = 64;

/// Receives the FaceId and the other end of an in-memory face.
pub(crate) type MemoryFaceAnswer = SyncSender<std::io::Result<(u64, InternalEnd)>>;

/// A TCP connection attempt.
#[derive(Debug)]
struct Attempt {
    stream: OwnedFd,
    remote: SocketAddr,
    wanted: Wanted,
    deadline_ns: u64,
}

/// Parts that the control thread is built from.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) clock: Clock,
    /// Network interfaces are monitored.
    pub(super) has_link_monitor: bool,
    pub(super) management: ControlState,
    pub(super) key_chain: Arc<Waker>,
    pub(super) dataplane: Dataplane,
    pub(super) tables: ForwardingTables,
    pub(super) listeners: Listeners,
    pub(super) operator: OperatorRequests,
    /// Devices driven by a driver of this process.
    pub(super) own: Vec<OwnPort>,
}

/// The control thread.
#[derive(Debug)]
pub(super) struct Control {
    pub(super) config: Config,
    clock: Clock,
    poller: Poller,
    pub(super) dataplane: Dataplane,
    tables: ForwardingTables,
    pub(super) state: ControlState,
    internal: InternalEnd,
    faces: BTreeMap<u64, KnownFace>,
    listeners: Listeners,
    channels: Vec<String>,
    attempts: BTreeMap<u64, Attempt>,
    connecting: ConnectingFaces,
    next_attempt: u64,
    handshakes: Handshakes,
    webtransport: WebTransport,
    names: HostNames,
    memif: memif::MemifClients,
    /// Paused listeners, with the end of their pause.
    paused: Vec<(u64, usize)>,
    tickets: Tickets,
    statics: StaticSetup,
    pub(super) interfaces: Interfaces,
    operator: OperatorRequests,
    key_chain: Arc<Waker>,
    replies: Replies,
    captures: Captures,
    /// The listening addresses have been announced.
    is_announced: bool,
    /// Management Interests are left from the last round.
    is_behind: bool,
    /// A command waits for the workers to use changed tables.
    is_fib_awaited: bool,
    refusals: Refusals,
    /// On-demand faces of remote TCP peers.
    strangers: OnDemandPeers<u64>,
    refused_peers: Refusals,
    full: FaceLimitLog,
    balance: BalanceSchedule,
    quotas: QuotaWatch,
    paths: path_mtu::PathMtus,
    local: LocalRequests,
    /// In-memory faces being created.
    memory_faces: BTreeMap<u64, (MemoryFaceAnswer, InternalEnd)>,
}

impl Control {
    /// Sets everything up; Interests are answered from [`run`](Self::run) on.
    pub(super) fn new(config: &Config, parts: Parts) -> anyhow::Result<Self> {
        let Parts {
            clock,
            has_link_monitor,
            management,
            key_chain,
            mut dataplane,
            tables,
            listeners,
            operator,
            own,
        } = parts;
        let poller = Poller::new()?;
        let (near, far) = InternalEnd::pair(INTERNAL_QUEUE)?;
        poller.add(dataplane.event_waker(), TOKEN_DATAPLANE, Interest::Readable)?;
        poller.add(&near, TOKEN_INTERNAL, Interest::Readable)?;
        poller.add(&*operator.waker, TOKEN_OPERATOR, Interest::Readable)?;
        poller.add(&*key_chain, TOKEN_KEY_CHAIN, Interest::Readable)?;
        let webtransport = WebTransport::new()?;
        poller.add(webtransport.waker(), TOKEN_SESSIONS, Interest::Readable)?;
        let names = HostNames::new()?;
        poller.add(names.waker(), TOKEN_NAMES, Interest::Readable)?;
        let interfaces = Interfaces::new(has_link_monitor);
        if let Some(monitor) = interfaces.monitor() {
            poller.add(monitor, TOKEN_LINKS, Interest::Readable)?;
        }
        let regions = ProducerRegions::new(config.tables.network_regions.clone());
        dataplane.send(Command::SetRegions(Arc::new(regions)));
        dataplane.send(Command::ConfigureCs(CsSettings {
            capacity_packets: Some(config.tables.cs.capacity_packets),
            admit: Some(config.tables.cs.admit),
            serve: Some(config.tables.cs.serve),
        }));
        dataplane.send(Command::AddFace(Box::new(internal_face(far))));
        let balance = BalanceSchedule::new(&dataplane);
        let mut control = Self {
            state: management,
            channels: listeners.local_uris(),
            config: config.clone(),
            clock,
            poller,
            dataplane,
            tables,
            internal: near,
            faces: BTreeMap::new(),
            listeners,
            attempts: BTreeMap::new(),
            connecting: ConnectingFaces::default(),
            next_attempt: TOKEN_ATTEMPTS,
            handshakes: Handshakes::new(TOKEN_HANDSHAKES),
            webtransport,
            names,
            memif: memif::MemifClients::new(config),
            paused: Vec::new(),
            tickets: Tickets::default(),
            statics: StaticSetup::new(config),
            interfaces,
            operator,
            key_chain,
            replies: Replies::default(),
            captures: Captures::default(),
            is_announced: false,
            is_behind: false,
            is_fib_awaited: true,
            refusals: Refusals::default(),
            strangers: OnDemandPeers::new(config.limits.faces_per_peer),
            refused_peers: Refusals::default(),
            full: FaceLimitLog::default(),
            balance,
            quotas: QuotaWatch::default(),
            paths: path_mtu::PathMtus::default(),
            local: LocalRequests::default(),
            memory_faces: BTreeMap::new(),
        };
        control.choose_strategies()?;
        {
            let (interfaces, mut cx) = control.interfaces_and_cx(control.now());
            interfaces.handle_event(&mut cx, InterfacesEvent::OwnPorts(own));
        }
        control.work(control.now());
        Ok(control)
    }

    /// Runs until a stop is requested.
    pub(super) fn run(&mut self, hooks: Hooks, started: Config) -> anyhow::Result<()> {
        let Hooks { requests, source, log, mut on_listening } = hooks;
        let reload = Reload { source, log, started };
        self.poller.add(requests.waker(), TOKEN_STOP, Interest::Readable)?;
        let mut ready = Events::with_capacity(EVENTS_PER_ROUND);
        while !requests.is_stop_requested() {
            let wait = self.next_deadline().map(|(at, _)| self.until(at));
            self.round(wait, &mut ready, Some(&requests))?;
            if requests.take_reload() {
                self.reload(&reload);
            }
            self.announce(&mut on_listening);
        }
        info!("stopping");
        Ok(())
    }

    /// Handles what is ready or due, without waiting. Returns whether there was work.
    ///
    /// # Errors
    /// A worker has ended by a fault of its own.
    pub(super) fn step(&mut self, ready: &mut Events) -> anyhow::Result<bool> {
        self.round(Some(Duration::ZERO), ready, None)
    }

    /// Waits at most this long (`None`: without limit), then handles what is ready or due.
    fn round(
        &mut self,
        wait: Option<Duration>,
        ready: &mut Events,
        requests: Option<&Requests>,
    ) -> anyhow::Result<bool> {
        self.poller.wait(ready, wait)?;
        let now = self.now();
        let is_due = self.next_deadline().is_some_and(|(at, _)| at.as_nanos() <= now.monotonic_ns);
        for event in ready.iter() {
            self.handle_ready(now, event.token, requests);
        }
        // Face events precede the Interests of these faces.
        let has_events = self.handle_events(now).context(WORKER_GONE)? || !ready.is_empty();
        self.handle_interests(now).context(WORKER_GONE)?;
        self.handle_timeouts(now);
        let has_worked = self.work(now);
        Ok(is_due || has_events || has_worked)
    }

    fn handle_ready(&mut self, now: Now, token: u64, requests: Option<&Requests>) {
        match token {
            TOKEN_STOP => requests.into_iter().for_each(|requests| requests.waker().reset()),
            TOKEN_DATAPLANE => self.dataplane.event_waker().reset(),
            TOKEN_INTERNAL => self.internal.reset(),
            TOKEN_OPERATOR => self.serve_operator(now),
            TOKEN_LINKS => {
                let (interfaces, mut cx) = self.interfaces_and_cx(now);
                interfaces.handle_event(&mut cx, InterfacesEvent::LinksChanged);
            }
            // Commands that wait for a key are retried at every timeout.
            TOKEN_KEY_CHAIN => self.key_chain.reset(),
            TOKEN_SESSIONS => self.take_sessions(now),
            TOKEN_NAMES => self.take_addresses(now),
            token if token >= memif::TOKEN_MEMIF => self.continue_memif(now, token),
            token if token >= TOKEN_HANDSHAKES => self.continue_handshake(now, token),
            attempt if attempt >= TOKEN_ATTEMPTS => self.end_attempt(now, attempt),
            listener => self.accept(now, listener - TOKEN_LISTENERS),
        }
    }

    /// Announces the listening addresses once management is reachable: its face exists and all workers have its
    /// routes.
    fn announce(&mut self, on_listening: &mut (dyn FnMut(&str) + Send)) {
        let is_there = self.faces.contains_key(&FACE_ID_INTERNAL) && self.dataplane.is_settled();
        if self.is_announced || !is_there {
            return;
        }
        self.is_announced = true;
        self.log_memif_secrecy();
        on_listening(&self.listeners.announcement(&self.config));
    }

    /// Stops the data plane.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        let Self { dataplane, listeners, .. } = self;
        // Socket files are removed first, so that no new client connects.
        drop(listeners);
        dataplane.stop().context(WORKER_GONE)
    }

    /// Time and reason of the next [`step`](Self::step) if no descriptor becomes ready before.
    pub(super) fn next_deadline(&self) -> Option<(Timestamp, Reason)> {
        let now_ns = self.clock.now_ns();
        let in_a_while = |wait: Duration| now_ns.saturating_add(duration_ns(wait));
        if self.is_behind && !self.replies.is_full() {
            return Some((Timestamp::from_nanos(now_ns), Reason::Interests));
        }
        let is_unsent = !self.replies.is_empty() || self.local.has_answers();
        if is_unsent || self.dataplane.is_backed_up() {
            return Some((Timestamp::from_nanos(in_a_while(RETRY)), Reason::FullQueue));
        }
        let attempts = self.attempts.values().map(|attempt| attempt.deadline_ns).min();
        let deadlines = [
            (self.state.next_deadline_ns(), Reason::Management),
            (self.local.next_deadline_ns(), Reason::LocalRequest),
            (attempts, Reason::Connect),
            (self.handshakes.next_deadline_ns(), Reason::WebSocketHandshake),
            (self.memif.deadlines_ns().min(), Reason::Memif),
            (self.paused.iter().map(|(until_ns, _)| *until_ns).min(), Reason::Accept),
            (self.statics.next_deadline_ns(), Reason::StaticFaces),
            (self.quotas.next_deadline_ns(&self.config.limits), Reason::Quotas),
        ];
        let deadlines = deadlines.into_iter().filter_map(|(at_ns, reason)| Some((at_ns?, reason)));
        let deadlines = deadlines.map(|(at_ns, reason)| (Timestamp::from_nanos(at_ns), reason));
        let services = [
            self.interfaces.next_deadline(&self.config),
            self.paths.next_deadline(&self.config),
            self.balance.next_deadline(&self.config),
            self.captures.next_deadline(&self.config),
        ];
        deadlines.chain(services.into_iter().flatten()).min_by_key(|(at, _)| *at)
    }

    fn until(&self, deadline: Timestamp) -> Duration {
        Duration::from_nanos(deadline.as_nanos().saturating_sub(self.clock.now_ns()))
    }

    /// Reads both clocks.
    pub(super) fn now(&self) -> Now {
        now(&self.clock)
    }

    fn handle_timeouts(&mut self, now: Now) {
        self.state.handle_timeout(now);
        self.local.handle_timeout(now.monotonic_ns);
        if self.state.is_listing() {
            let figures = self.figures();
            self.state.continue_listings(now, &figures.telemetry(&self.faces, now.monotonic_ns));
        }
        self.handshakes.handle_timeout(now.monotonic_ns);
        self.handle_memif_timeouts(now);
        self.report_outcomes();
        self.report_anchors();
        let late: Vec<u64> = self
            .attempts
            .iter()
            .filter(|(_, attempt)| attempt.deadline_ns <= now.monotonic_ns)
            .map(|(token, _)| *token)
            .collect();
        for token in late {
            if let Some(attempt) = self.attempts.remove(&token) {
                self.connect_failed(now, &attempt.wanted, attempt.remote, "Connection timed out");
            }
        }
        self.resume_accepting(now);
        // A route unregistered in this round must not return in it.
        self.perform_all(now);
        self.statics.continue_returning(&mut self.state, now.monotonic_ns);
        for (remote, local, wanted) in self.statics.due(now.monotonic_ns) {
            self.make_face(now, &remote, local.as_ref(), wanted);
        }
        let Self { interfaces, paths, balance, captures, .. } = self;
        let mut cx = Cx {
            now,
            config: &self.config,
            clock: &self.clock,
            dataplane: &mut self.dataplane,
            state: &mut self.state,
            faces: &mut self.faces,
        };
        interfaces.handle_timeout(&mut cx);
        paths.handle_timeout(&mut cx);
        balance.handle_timeout(&mut cx);
        captures.handle_timeout(&mut cx);
        self.poll_quotas(now);
        self.tables.collect();
    }

    /// Returns the interface service and its context.
    pub(crate) fn interfaces_and_cx(&mut self, now: Now) -> (&mut Interfaces, Cx<'_>) {
        let cx = Cx {
            now,
            config: &self.config,
            clock: &self.clock,
            dataplane: &mut self.dataplane,
            state: &mut self.state,
            faces: &mut self.faces,
        };
        (&mut self.interfaces, cx)
    }

    /// Creates an in-memory face; answers once management knows it.
    pub(crate) fn add_memory_face(
        &mut self,
        options: &MemoryFaceOptions,
        answer: MemoryFaceAnswer,
    ) {
        let (near, far) = match InternalEnd::pair(options.queue_frames_max) {
            Ok(ends) => ends,
            // The requester may have gone, here and below.
            Err(error) => return drop(answer.send(Err(error))),
        };
        let face_id = self.dataplane.allocate_face_id();
        let face = options.new_face(None, face_id, near);
        self.memory_faces.insert(face_id, (answer, far));
        self.dataplane.send(Command::AddFace(Box::new(face)));
        self.dataplane.wake();
    }

    /// Handles the result of creating an in-memory face.
    fn end_memory_face(&mut self, face_id: u64, result: std::io::Result<()>) {
        if let Some((answer, end)) = self.memory_faces.remove(&face_id) {
            drop(answer.send(result.map(|()| (face_id, end))));
        }
    }

    /// Checks that the strategies can be used once they are chosen.
    ///
    /// # Errors
    /// A strategy cannot be used.
    pub(super) fn prepare_strategies<'a>(
        &mut self,
        strategies: impl IntoIterator<Item = NameRef<'a>>,
    ) -> Result<(), StrategyError> {
        self.tables.prepare_strategies(strategies)
    }

    fn choose_strategies(&mut self) -> anyhow::Result<()> {
        self.state.set_default_strategies()?;
        for choice in &self.config.strategy_choices {
            self.state
                .set_strategy(&choice.prefix, choice.strategy.as_ref())
                .with_context(|| format!("strategy {} for {}", choice.strategy, choice.prefix))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
