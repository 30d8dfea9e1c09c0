//! The control thread's loop: management, faces and tables, between operators and the data plane.
//!
//! | module | what it holds |
//! |---|---|
//! | `connecting` | faces that are wanted again while they are being made |
//! | `connections` | faces to be made: accepted, asked for by management, configured |
//! | `events` | what the data plane tells |
//! | `management` | Interests to management, and what comes of them |
//! | `memif` | shared memory: clients that connect, servers to connect to |
//! | `setup` | management as it begins, and the face between it and the data plane |
//! | `websocket` | handshakes with browsers |
//! | `operator` | what the control socket asks for |
//! | `webtransport` | faces of sessions |
//! | `refusals` | the log of commands |
//! | `replies` | what was said and is not read yet |
//! | `quotas` | faces that exceed their quotas: held back, told of |

mod connecting;
mod connections;
mod ethernet;
mod events;
mod let_in;
mod management;
mod memif;
mod operator;
mod path_mtu;
mod quotas;
mod refusals;
mod replies;
mod setup;
mod websocket;
mod webtransport;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use ndn_dataplane::{Command, CsSettings, Dataplane, Strangers};
use ndn_face::InternalEnd;
use ndn_forwarding::ProducerRegions;
use ndn_forwarding::strategy::StrategyError;
use ndn_management::{ControlState, FACE_ID_INTERNAL, Now, Ticket};
use ndn_packet::NameRef;
use ndn_sys::clock;
use ndn_sys::netlink::LinkMonitor;
use ndn_sys::poll::{Events, Interest, Poller, Waker};
use ndn_table::Timestamp;
use tracing::info;

use connecting::ConnectingFaces;
pub(super) use quotas::Excess;
use quotas::QuotaWatch;
use refusals::{FullHouse, Refusals};
use replies::Replies;
use setup::internal_face;
pub(super) use setup::{management, propagate};
use websocket::PendingHandshake;

use super::balance::BalanceSchedule;
use super::bound::InterfaceFaces;
use super::captures::Captures;
use super::ethernet::{EthernetPorts, OwnPort};
use super::faces::{KnownFace, Wanted};
use super::listeners::Listeners;
use super::multicast::MulticastFaces;
use super::names::HostNames;
use super::operator::OperatorRequests;
use super::reload::Reload;
use super::static_setup::StaticSetup;
use super::tables::ForwardingTables;
use super::webtransport::WebTransport;
use crate::config::Config;
use crate::hooks::Hooks;

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
/// Attempts to connect have tokens from here on.
const TOKEN_ATTEMPTS: u64 = 1 << 32;
/// And connections that a WebSocket handshake is expected on.
const TOKEN_HANDSHAKES: u64 = 1 << 48;

/// Frames between management and the data plane that may wait, each way.
const INTERNAL_QUEUE: usize = 4096;
/// How often to look whether captures still go on, which only cost the worker time otherwise.
const CAPTURE_LOOK: Duration = Duration::from_secs(1);
/// How soon queues that were full are tried again.
const RETRY: Duration = Duration::from_millis(2);

const WORKER_GONE: &str = "the forwarding worker has ended by itself";
/// How long a listener is left alone after there were no descriptors or no memory for a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A TCP connection in the making.
#[derive(Debug)]
struct Attempt {
    stream: OwnedFd,
    remote: SocketAddr,
    wanted: Wanted,
    deadline_ns: u64,
}

/// What the control thread works with.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) management: ControlState,
    pub(super) key_chain: Arc<Waker>,
    pub(super) dataplane: Dataplane,
    pub(super) tables: ForwardingTables,
    pub(super) listeners: Listeners,
    pub(super) operator: OperatorRequests,
    /// Devices with drivers of their own.
    pub(super) own: Vec<OwnPort>,
}

/// The control thread.
#[derive(Debug)]
pub(super) struct Control {
    pub(super) config: Config,
    poller: Poller,
    pub(super) dataplane: Dataplane,
    tables: ForwardingTables,
    pub(super) state: ControlState,
    internal: InternalEnd,
    faces: HashMap<u64, KnownFace>,
    listeners: Listeners,
    channels: Vec<String>,
    attempts: HashMap<u64, Attempt>,
    connecting: ConnectingFaces,
    next_attempt: u64,
    handshakes: HashMap<u64, PendingHandshake>,
    webtransport: WebTransport,
    names: HostNames,
    next_handshake: u64,
    memif: memif::MemifClients,
    /// Listeners that nobody is accepted from until then.
    paused: Vec<(u64, usize)>,
    /// Requests to the data plane that management waits for.
    tickets: HashMap<u64, Ticket>,
    next_ticket: u64,
    statics: StaticSetup,
    pub(super) multicast: MulticastFaces,
    pub(super) bound: InterfaceFaces,
    pub(super) ethernet: EthernetPorts,
    /// Tells that interfaces have changed; without it they are looked at now and then.
    link_monitor: Option<LinkMonitor>,
    operator: OperatorRequests,
    key_chain: Arc<Waker>,
    replies: Replies,
    captures: Captures,
    /// The worker shows its frames to captures.
    is_tapped: bool,
    /// It has been said where the forwarder listens.
    is_announced: bool,
    /// Interests to management are left from the last round.
    is_behind: bool,
    /// Tables have changed in a way that somebody waits for.
    is_fib_awaited: bool,
    refusals: Refusals,
    /// Faces of TCP peers from elsewhere.
    strangers: Strangers<u64>,
    refused_peers: Refusals,
    /// Those that come while there are as many faces as there may be.
    full: FullHouse,
    let_in: let_in::LetIn,
    balance: BalanceSchedule,
    quotas: QuotaWatch,
    paths: path_mtu::PathMtus,
}

impl Control {
    /// Sets everything up; nothing is answered before [`run`](Self::run).
    pub(super) fn new(config: &Config, parts: Parts) -> anyhow::Result<Self> {
        let Parts { management, key_chain, mut dataplane, tables, listeners, operator, own } =
            parts;
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
        let link_monitor = LinkMonitor::new().ok();
        if let Some(monitor) = &link_monitor {
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
        let mut control = Self {
            state: management,
            channels: listeners.local_uris(),
            config: config.clone(),
            poller,
            dataplane,
            tables,
            internal: near,
            faces: HashMap::new(),
            listeners,
            attempts: HashMap::new(),
            connecting: ConnectingFaces::default(),
            next_attempt: TOKEN_ATTEMPTS,
            handshakes: HashMap::new(),
            webtransport,
            names,
            next_handshake: TOKEN_HANDSHAKES,
            memif: memif::MemifClients::new(config),
            paused: Vec::new(),
            tickets: HashMap::new(),
            next_ticket: 0,
            statics: StaticSetup::new(config),
            multicast: MulticastFaces::default(),
            bound: InterfaceFaces::default(),
            ethernet: EthernetPorts::default(),
            link_monitor,
            operator,
            key_chain,
            replies: Replies::default(),
            captures: Captures::default(),
            is_tapped: false,
            is_announced: false,
            is_behind: false,
            is_fib_awaited: true,
            refusals: Refusals::default(),
            strangers: Strangers::new(config.limits.faces_per_peer),
            refused_peers: Refusals::default(),
            full: FullHouse::default(),
            let_in: let_in::LetIn::default(),
            balance: BalanceSchedule::default(),
            quotas: QuotaWatch::default(),
            paths: path_mtu::PathMtus::default(),
        };
        control.choose_strategies()?;
        control.add_own_ports(own);
        control.work(now());
        Ok(control)
    }

    /// Runs until a stop is requested.
    pub(super) fn run(&mut self, hooks: Hooks, started: Config) -> anyhow::Result<()> {
        let Hooks { requests, source, log, mut on_listening } = hooks;
        let reload = Reload { source, log, started };
        self.poller.add(requests.waker(), TOKEN_STOP, Interest::Readable)?;
        let mut events = Events::with_capacity(64);
        while !requests.is_stop_requested() {
            let timeout = self.timeout(now());
            self.poller.wait(&mut events, timeout)?;
            let now = now();
            for event in events.iter() {
                match event.token {
                    TOKEN_STOP => {
                        if requests.take_reload() {
                            self.reload(&reload);
                        }
                    }
                    TOKEN_DATAPLANE => self.dataplane.event_waker().reset(),
                    TOKEN_INTERNAL => self.internal.reset(),
                    TOKEN_OPERATOR => self.serve_operator(),
                    TOKEN_LINKS => self.note_links(),
                    // Whoever waits for a key looks again with every time-out.
                    TOKEN_KEY_CHAIN => self.key_chain.reset(),
                    TOKEN_SESSIONS => self.take_sessions(now),
                    TOKEN_NAMES => self.take_addresses(now),
                    token if token >= memif::TOKEN_MEMIF => self.go_on_memif(now, token),
                    token if token >= TOKEN_HANDSHAKES => self.go_on_shaking(now, token),
                    attempt if attempt >= TOKEN_ATTEMPTS => self.end_attempt(now, attempt),
                    listener => self.accept(now, listener - TOKEN_LISTENERS),
                }
            }
            // Faces before what came in by them.
            self.handle_events(now).context(WORKER_GONE)?;
            self.handle_interests(now).context(WORKER_GONE)?;
            self.handle_timeouts(now);
            self.work(now);
            self.announce(&mut on_listening);
        }
        info!("stopping");
        Ok(())
    }

    /// Says where the forwarder listens, once whoever reads it finds management there: it has its face, and all
    /// workers have the routes to it.
    fn announce(&mut self, on_listening: &mut (dyn FnMut(&str) + Send)) {
        let is_there = self.faces.contains_key(&FACE_ID_INTERNAL) && self.dataplane.is_settled();
        if self.is_announced || !is_there {
            return;
        }
        self.is_announced = true;
        self.log_memif_secrecy();
        on_listening(&self.listeners.announcement(&self.config));
    }

    /// Ends the data plane.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        let Self { dataplane, listeners, .. } = self;
        // Socket files go first: who connects now is not served any more.
        drop(listeners);
        dataplane.stop().context(WORKER_GONE)
    }

    fn timeout(&self, now: Now) -> Option<Duration> {
        if self.is_behind && !self.replies.is_full() {
            return Some(Duration::ZERO);
        }
        if !self.replies.is_empty() || self.dataplane.is_backed_up() {
            return Some(RETRY);
        }
        let attempts = self.attempts.values().map(|attempt| attempt.deadline_ns);
        let handshakes = self.handshakes.values().map(|pending| pending.deadline_ns);
        let attempts = attempts.chain(handshakes).chain(self.memif.deadlines_ns());
        let balance = self.balance.next_deadline(&self.dataplane).map(Timestamp::as_nanos);
        let multicast = self.multicast.next_deadline_ns(&self.config);
        let statics = self.statics.next_deadline_ns();
        let bound = self.bound.next_deadline_ns(&self.config);
        let quotas = self.quotas.next_deadline_ns(&self.config.limits);
        let ethernet = self.ethernet.next_deadline_ns(&self.config);
        let state = self.state.next_deadline_ns();
        let paths = self.paths.next_deadline_ns();
        let others = [state, statics, balance, multicast, bound, quotas, ethernet, paths];
        let pauses = self.paused.iter().map(|(until_ns, _)| *until_ns);
        let next = attempts.chain(pauses).chain(others.into_iter().flatten()).min();
        let wait = next.map(|at| Duration::from_nanos(at.saturating_sub(now.monotonic_ns)));
        let look = self.is_tapped.then_some(CAPTURE_LOOK);
        [wait, look].into_iter().flatten().min()
    }

    fn handle_timeouts(&mut self, now: Now) {
        self.state.handle_timeout(now);
        if self.state.is_listing() {
            let figures = self.figures();
            self.state.go_on_listing(now, &figures.telemetry(&self.faces));
        }
        self.handshakes.retain(|_, pending| pending.deadline_ns > now.monotonic_ns);
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
        // What was taken back in this round does not come back in it.
        self.perform_all(now);
        self.statics.go_on_returning(&mut self.state, now.monotonic_ns);
        for (remote, local, wanted) in self.statics.due(now.monotonic_ns) {
            self.make_face(now, &remote, local.as_ref(), wanted);
        }
        self.multicast.look(now.monotonic_ns, &self.config, &mut self.dataplane);
        self.bound.look(now.monotonic_ns, &self.config, &mut self.dataplane);
        self.look_at_ethernet(now);
        self.look_at_paths(now.monotonic_ns);
        let at = Timestamp::from_nanos(now.monotonic_ns);
        self.balance.handle_timeout(at, &mut self.dataplane);
        self.look_at_quotas(now);
        self.tables.collect();
        if self.is_tapped && self.captures.tap().is_none() {
            self.is_tapped = false;
            self.dataplane.send(Command::SetTap(None));
        }
    }

    /// Something is different with network interfaces.
    fn note_links(&mut self) {
        if let Some(monitor) = &self.link_monitor {
            monitor.reset();
        }
        self.ethernet.look_soon();
    }

    /// Makes sure that strategies can be used once they are chosen.
    ///
    /// # Errors
    /// One of them cannot.
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

/// Has a face send frames of at most `length` bytes from now on, and datasets say so.
fn resize(
    state: &mut ControlState,
    dataplane: &mut Dataplane,
    face_id: u64,
    face: &mut KnownFace,
    length: usize,
) {
    face.options.link.mtu = Some(length);
    state.face_resized(face_id, length as u64);
    dataplane.send(Command::UpdateFace { face_id, options: Box::new(face.options) });
}

pub(super) fn now() -> Now {
    let unix_us = u64::try_from(clock::wall_clock().as_micros()).unwrap_or(u64::MAX);
    Now { monotonic_ns: clock::now(), unix_us }
}

#[cfg(test)]
mod tests;
