//! The control thread: a loop over services. It passes what is ready or due, events of the data plane, actions of
//! management's state machine, calls of other threads and messages between services to the service that handles them.
//!
//! | module | content |
//! |---|---|
//! | `service` | the interface of services, and what they share: clock, settings, data plane, faces, timers |
//! | `face_table` | existing faces, limits of new ones |
//! | `connector` | creation of faces: host names, TCP connections |
//! | `listening` | accepted connections |
//! | `websocket`, `memif`, `sessions` | handshakes and faces of WebSocket, memif and WebTransport |
//! | `interfaces`, `path_mtu` | network interfaces; path MTUs of UDP faces |
//! | `management`, `replies` | management Interests, their actions and replies |
//! | `setup` | initial state of management and its internal face |
//! | `operator` | the operations of the control socket, on the threads of their callers |
//! | `quotas`, `refusals` | faces that exceed their quotas; log of commands and rejected connections |

mod connector;
pub(crate) mod face_table;
mod interfaces;
mod listening;
pub(crate) mod management;
mod memif;
pub(crate) mod operator;
mod path_mtu;
mod quotas;
mod refusals;
mod replies;
pub(crate) mod service;
pub(crate) mod sessions;
pub(crate) mod setup;
mod websocket;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use anyhow::Context;
use namewire_control::ConfigStatus;
use ndn_dataplane::{Command, CsSettings, Dataplane, Event, MemoryFaceOptions, WorkerGone};
use ndn_face::InternalEnd;
use ndn_forwarding::ProducerRegions;
use ndn_management::{Action, ControlState, FACE_ID_INTERNAL, status};
use ndn_sys::clock::Clock;
use ndn_sys::poll::{Events, Interest, Poller, Waker};
use ndn_table::Timestamp;
use tracing::{error, info, warn};

use connector::{Connector, ConnectorEvent, TOKEN_ATTEMPTS};
use face_table::{FaceTable, MemoryFaceAnswer};
use interfaces::{Interfaces, InterfacesEvent};
use listening::{Listening, ListeningEvent, TOKEN_LISTENERS};
use management::{LocalAnswer, Management, ManagementEvent};
use memif::{Memif, MemifEvent, TOKEN_MEMIF};
use path_mtu::{FollowPath, PathMtus};
use quotas::{Quotas, QuotasEvent};
pub use service::Reason;
use service::{Cx, Message, Service, Timers};
use sessions::{SessionEvent, Sessions, SessionsEvent};
use setup::internal_face;
use websocket::{TOKEN_HANDSHAKES, WebSocketEvent, WebSocketHandshakes};

use super::balance::BalanceSchedule;
use super::calls::Calls;
use super::captures::{Captures, FaceAdded};
use super::ethernet::OwnPort;
use super::listeners::Listeners;
use super::reload::Reload;
use super::static_setup::{StaticEvent, StaticSetup};
use super::tables::ForwardingTables;
use super::{addresses, faces, settings};
use crate::config::Config;
use crate::environment::now;
use crate::hooks::{Hooks, Requests};

const TOKEN_DATAPLANE: u64 = 0;
const TOKEN_INTERNAL: u64 = 1;
const TOKEN_STOP: u64 = 2;
const TOKEN_CALLS: u64 = 3;
const TOKEN_LINKS: u64 = 4;
const TOKEN_KEY_CHAIN: u64 = 5;
const TOKEN_SESSIONS: u64 = 6;
const TOKEN_NAMES: u64 = 7;

/// Capacity of the internal face, in frames per direction.
const INTERNAL_QUEUE: usize = 4096;
/// Maximum descriptors handled per round.
pub(super) const EVENTS_PER_ROUND: usize = 64;
/// Maximum Interests answered per round, so that one busy client neither starves other clients nor delays a shutdown.
const INTERESTS_PER_ROUND: usize = 64;
/// Maximum calls of other threads executed per round.
const CALLS_PER_ROUND: usize = 64;

/// The forwarder has no source of a configuration: it runs on virtual time.
const NO_CONFIGURATION: &str = "this forwarder has no configuration to read";

const WORKER_GONE: &str = "the forwarding worker has ended by itself";

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
    pub(super) calls: Calls<Control>,
    /// Devices driven by a driver of this process.
    pub(super) own: Vec<OwnPort>,
}

/// The control thread.
#[derive(Debug)]
pub(super) struct Control {
    cx: Cx,
    management: Management,
    listening: Listening,
    websocket: WebSocketHandshakes,
    memif: Memif,
    sessions: Sessions,
    connector: Connector,
    statics: StaticSetup,
    interfaces: Interfaces,
    paths: PathMtus,
    quotas: Quotas,
    balance: BalanceSchedule,
    captures: Captures,
    calls: Calls<Control>,
    /// Set while the control thread runs.
    reload: Option<Reload>,
}

impl Control {
    /// Sets everything up; Interests are answered from [`run`](Self::run) on.
    pub(super) fn new(config: &Config, parts: Parts) -> anyhow::Result<Self> {
        let Parts { clock, has_link_monitor, management: state, key_chain, .. } = parts;
        let Parts { mut dataplane, tables, mut listeners, calls, own, .. } = parts;
        let (near, far) = InternalEnd::pair(INTERNAL_QUEUE)?;
        let regions = ProducerRegions::new(config.tables.network_regions.clone());
        dataplane.send(Command::SetRegions(Arc::new(regions)));
        dataplane.send(Command::ConfigureCs(CsSettings {
            capacity_packets: Some(config.tables.cs.capacity_packets),
            admit: Some(config.tables.cs.admit),
            serve: Some(config.tables.cs.serve),
        }));
        dataplane.send(Command::AddFace(Box::new(internal_face(far))));
        let mut cx = Cx {
            now: now(&clock),
            config: config.clone(),
            clock,
            poller: Poller::new()?,
            dataplane,
            state,
            faces: FaceTable::default(),
            local_peers: Arc::clone(&listeners.local_peers),
            timers: Timers::default(),
            ethernet_channels: Vec::new(),
            messages: VecDeque::new(),
        };
        choose_strategies(&mut cx)?;
        let opened = std::mem::take(&mut listeners.webtransport);
        let mut control = Self {
            management: Management::new(near, tables, key_chain, listeners.local_uris()),
            sessions: Sessions::new(opened, listeners.addresses.sessions.clone())?,
            connector: Connector::new(listeners.addresses.clone())?,
            listening: Listening::new(listeners),
            websocket: WebSocketHandshakes::new(settings::reserves(&config.limits)),
            memif: Memif::new(config),
            statics: StaticSetup::start(&mut cx),
            interfaces: Interfaces::new(&mut cx, has_link_monitor, own),
            paths: PathMtus::default(),
            quotas: Quotas::new(&mut cx),
            balance: BalanceSchedule::new(&mut cx),
            captures: Captures::default(),
            calls,
            reload: None,
            cx,
        };
        control.poll_descriptors()?;
        control.work();
        Ok(control)
    }

    /// Adds the descriptors that exist from the start to the poller.
    fn poll_descriptors(&self) -> std::io::Result<()> {
        let poller = &self.cx.poller;
        poller.add_waker(self.cx.dataplane.event_waker(), TOKEN_DATAPLANE)?;
        poller.add_waker(self.management.internal().waker(), TOKEN_INTERNAL)?;
        poller.add_waker(self.management.key_chain(), TOKEN_KEY_CHAIN)?;
        poller.add_waker(self.calls.waker(), TOKEN_CALLS)?;
        poller.add_waker(self.sessions.waker(), TOKEN_SESSIONS)?;
        poller.add_waker(self.connector.names().waker(), TOKEN_NAMES)?;
        match self.interfaces.monitor() {
            Some(monitor) => poller.add(monitor, TOKEN_LINKS, Interest::Readable),
            None => Ok(()),
        }
    }

    /// Runs until a stop is requested.
    pub(super) fn run(&mut self, hooks: Hooks, started: Config) -> anyhow::Result<()> {
        let Hooks { requests, source, log, mut on_listening } = hooks;
        self.reload = Some(Reload { source, log, started });
        self.cx.poller.add_waker(requests.waker(), TOKEN_STOP)?;
        let mut ready = Events::with_capacity(EVENTS_PER_ROUND);
        while !requests.is_stop_requested() {
            let wait = self.next_deadline().map(|(at, _)| {
                let now_ns = self.cx.clock.now_ns();
                Duration::from_nanos(at.as_nanos().saturating_sub(now_ns))
            });
            self.round(wait, &mut ready, Some(&requests))?;
            if requests.take_reload() {
                // The reason of a failure was logged.
                let _ = self.reload();
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
        self.cx.poller.wait(ready, wait)?;
        self.cx.now = now(&self.cx.clock);
        let now_ns = self.cx.now_ns();
        let is_due = self.next_deadline().is_some_and(|(at, _)| at.as_nanos() <= now_ns);
        for event in ready.iter() {
            self.handle_ready(event.token, requests);
            self.deliver();
        }
        // Face events precede the Interests of these faces.
        let has_events = self.handle_events().context(WORKER_GONE)? || !ready.is_empty();
        self.handle_interests().context(WORKER_GONE)?;
        self.handle_timeouts();
        let has_worked = self.work();
        Ok(is_due || has_events || has_worked)
    }

    fn handle_ready(&mut self, token: u64, requests: Option<&Requests>) {
        let cx = &mut self.cx;
        match token {
            TOKEN_STOP => requests.into_iter().for_each(|requests| requests.waker().reset()),
            TOKEN_DATAPLANE => cx.dataplane.event_waker().reset(),
            TOKEN_INTERNAL => self.management.internal().reset(),
            TOKEN_CALLS => self.execute_calls(),
            TOKEN_LINKS => {
                self.interfaces.handle_event(cx, InterfacesEvent::LinksChanged);
                self.paths.poll_soon(cx);
            }
            TOKEN_KEY_CHAIN => self.management.key_chain().reset(),
            TOKEN_SESSIONS => self.take_sessions(),
            TOKEN_NAMES => self.connector.handle_event(cx, ConnectorEvent::Resolved),
            token if token >= TOKEN_MEMIF => self.memif.handle_event(cx, MemifEvent::Ready(token)),
            token if token >= TOKEN_HANDSHAKES => {
                self.websocket.handle_event(cx, WebSocketEvent::Ready(token));
            }
            token if token >= TOKEN_ATTEMPTS => {
                self.connector.handle_event(cx, ConnectorEvent::Connected(token));
            }
            token if token >= TOKEN_LISTENERS => {
                self.listening.handle_event(cx, ListeningEvent::Ready(token));
            }
            _ => {}
        }
    }

    /// Announces the listening addresses once management is reachable: its face exists and all workers have its
    /// routes.
    fn announce(&mut self, on_listening: &mut (dyn FnMut(&str) + Send)) {
        let cx = &self.cx;
        let is_reachable =
            cx.faces.known.contains_key(&FACE_ID_INTERNAL) && cx.dataplane.is_settled();
        if is_reachable && !self.listening.is_announced() {
            memif::log_secrecy(&cx.config);
            let hashes = self.sessions.status(&cx.config).self_signed_hashes();
            self.listening.announce(cx, &hashes, on_listening);
        }
    }

    /// Reads the configuration again.
    ///
    /// # Errors
    /// The reason why the settings are not in force.
    fn reload(&mut self) -> Result<ConfigStatus, String> {
        let Self { cx, management, sessions, reload, .. } = self;
        let reload = reload.as_ref().ok_or(NO_CONFIGURATION)?;
        let had = cx.config.memif_secrecy();
        reload.run(cx, &mut management.tables, sessions)?;
        let status = reload.status(None);
        if cx.config.memif_secrecy() != had {
            memif::log_secrecy(&cx.config);
        }
        self.interfaces.handle_event(cx, InterfacesEvent::Reloaded);
        self.quotas.handle_event(cx, QuotasEvent::Reloaded);
        self.work();
        Ok(status)
    }

    /// Stops the data plane.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        let Self { cx, listening, .. } = self;
        // Socket files are removed first, so that no new client connects.
        drop(listening);
        cx.dataplane.stop().context(WORKER_GONE)
    }

    /// The authoritative tables.
    pub(super) const fn state(&self) -> &ControlState {
        &self.cx.state
    }

    /// The workers.
    pub(super) const fn dataplane(&self) -> &Dataplane {
        &self.cx.dataplane
    }

    /// The clock.
    pub(super) const fn clock(&self) -> &Clock {
        &self.cx.clock
    }

    /// Time and reason of the next [`step`](Self::step) if no descriptor becomes ready before.
    pub(super) fn next_deadline(&self) -> Option<(Timestamp, Reason)> {
        let timers = &self.cx.timers;
        // Other work makes more of what the queues have no room for.
        for reason in [Reason::Interests, Reason::FullQueue] {
            if let Some(at) = timers.get(reason) {
                return Some((at, reason));
            }
        }
        timers.next().into_iter().chain(self.management.next_deadline(&self.cx)).min()
    }

    fn handle_timeouts(&mut self) {
        self.management.handle_timeout(&mut self.cx, Reason::Management);
        self.deliver();
        // A route unregistered in this round must not return in it.
        self.perform_actions();
        for reason in self.cx.timers.take_due(self.cx.now_ns()) {
            let cx = &mut self.cx;
            match reason {
                Reason::Connect => self.connector.handle_timeout(cx, reason),
                Reason::WebSocketHandshake => self.websocket.handle_timeout(cx, reason),
                Reason::Memif => self.memif.handle_timeout(cx, reason),
                Reason::Accept => self.listening.handle_timeout(cx, reason),
                Reason::StaticFaces => self.statics.handle_timeout(cx, reason),
                Reason::Multicast | Reason::BoundFaces | Reason::Ethernet => {
                    self.interfaces.handle_timeout(cx, reason);
                }
                Reason::Quotas => self.quotas.handle_timeout(cx, reason),
                Reason::PathMtu => self.paths.handle_timeout(cx, reason),
                Reason::Balance => self.balance.handle_timeout(cx, reason),
                Reason::Captures => self.captures.handle_timeout(cx, reason),
                // The work of every round, or of a worker.
                Reason::Interests
                | Reason::FullQueue
                | Reason::Management
                | Reason::LocalRequest
                | Reason::Worker => {}
            }
            self.deliver();
        }
    }

    /// Takes Interests from the internal face; [`work`](Self::work) sends the replies. The commands of one round
    /// share one version of the FIB: copying the changed pages costs more than the changes.
    fn handle_interests(&mut self) -> Result<(), WorkerGone> {
        let mut packets_left = INTERNAL_QUEUE;
        for _ in 0..INTERESTS_PER_ROUND {
            self.receive_packets(&mut packets_left)?;
            if !self.management.handle_next(&mut self.cx) {
                break;
            }
            self.deliver();
        }
        Ok(())
    }

    /// Empties the queue of the internal face, which has no shares, into that of the principals. Takes at most `left`
    /// packets, and subtracts them.
    fn receive_packets(&mut self, left: &mut usize) -> Result<(), WorkerGone> {
        while *left > 0 {
            let Some(incoming) = self.management.receive(&self.cx) else { break };
            *left -= 1;
            if self.cx.state.face(incoming.face_id).is_none() {
                // The face was created during this round. Its event was sent before its Interest.
                self.handle_events()?;
            }
            self.management.handle_event(&mut self.cx, ManagementEvent::Incoming(incoming));
            self.deliver();
        }
        Ok(())
    }

    /// Changes the FIB of the workers and leaves that of management as it is: a fault that a simulation plants.
    #[cfg(feature = "planted-faults")]
    pub(super) fn update_fib(&mut self, updates: Vec<ndn_management::FibUpdate>) {
        let action = Action::UpdateFib { updates, is_awaited: true };
        self.management.handle_event(&mut self.cx, ManagementEvent::Action(action));
        self.work();
    }

    /// Performs the actions of the state machine and publishes their results. Returns whether there was work.
    fn work(&mut self) -> bool {
        let has_performed = self.perform_actions();
        self.management.finish_round(&mut self.cx) || has_performed
    }

    /// Performs the actions of the state machine without publishing tables. Returns whether there was an action.
    fn perform_actions(&mut self) -> bool {
        let mut has_performed = false;
        while let Some(action) = self.cx.state.poll_action() {
            let cx = &mut self.cx;
            match action {
                Action::UpdateFace { face_id, persistency, keeper, options } => {
                    let kept = persistency.map(|persistency| (persistency, keeper));
                    let event = InterfacesEvent::UpdateFace { face_id, kept, options };
                    self.interfaces.handle_event(cx, event);
                }
                Action::ForgetRoute { prefix, face_id, origin } => {
                    let event = StaticEvent::ForgetRoute { prefix, face_id, origin };
                    self.statics.handle_event(cx, event);
                }
                Action::DestroyFace { face_id } => {
                    self.statics.handle_event(cx, StaticEvent::Destroy(face_id));
                    self.management.handle_event(cx, ManagementEvent::Action(action));
                }
                Action::UpdateFib { .. }
                | Action::SendData { .. }
                | Action::SendInterest { .. }
                | Action::CreateFace { .. }
                | Action::CancelFace { .. }
                | Action::SetStrategy { .. }
                | Action::UnsetStrategy { .. }
                | Action::ConfigureCs(_)
                | Action::EraseCs { .. } => {
                    self.management.handle_event(cx, ManagementEvent::Action(action));
                }
            }
            self.deliver();
            has_performed = true;
        }
        has_performed
    }

    /// Handles the events of the data plane. Returns whether there was one.
    fn handle_events(&mut self) -> Result<bool, WorkerGone> {
        let mut has_handled = false;
        while let Some(event) = self.cx.dataplane.next_event()? {
            self.handle_event(event);
            self.deliver();
            has_handled = true;
        }
        Ok(has_handled)
    }

    fn handle_event(&mut self, event: Event) {
        let cx = &mut self.cx;
        match event {
            Event::FaceAdded { ticket, mut face } => {
                face.local = addresses::near_end(&face.remote, &face.local);
                let record = faces::record(&face);
                let (face_id, index) = (record.properties.face_id, face.index);
                cx.faces.face_added(cx.now.monotonic_ns, face_id, &face, ticket.is_some());
                cx.settle_faces();
                self.captures.handle_event(cx, FaceAdded { index, face_id });
                self.management.handle_event(cx, ManagementEvent::FaceAdded { ticket, record });
                self.connector.handle_event(cx, ConnectorEvent::FaceExists { ticket, face_id });
                self.statics.handle_event(cx, StaticEvent::FaceAdded { ticket, face_id });
                self.sessions.handle_event(cx, SessionsEvent::FaceAdded(face_id));
                if face_id == FACE_ID_INTERNAL {
                    self.start_listening();
                }
            }
            Event::FaceExists { ticket, face_id } => {
                cx.post(Message::FaceExists { ticket, face_id });
            }
            Event::FaceRefused { ticket, face_id, error } => {
                match ticket {
                    // Connections of one burst can exceed the limit before this thread has counted them.
                    None => cx.faces.full.face_refused(cx.now, face_id, &error),
                    Some(_) => warn!(face_id, %error, "a face was not made"),
                }
                cx.faces.face_refused(face_id, &error);
                self.memif.handle_event(cx, MemifEvent::FaceGone(face_id));
                self.sessions.handle_event(cx, SessionsEvent::FaceGone(face_id));
                let text = format!("Face creation failed: {}", addresses::words(&error));
                cx.post(Message::AttemptFailed { ticket, code: status::INTERNAL_ERROR, text });
            }
            Event::FaceClosed { face_id, reason } => {
                self.memif.handle_event(cx, MemifEvent::FaceGone(face_id));
                self.sessions.handle_event(cx, SessionsEvent::FaceGone(face_id));
                if let Some(face) = cx.faces.face_closed(cx.now.monotonic_ns, face_id, reason) {
                    self.quotas.handle_event(cx, QuotasEvent::FaceClosed(face_id));
                    if reason.is_some() {
                        let event = StaticEvent::FaceClosed { face_id, face: Box::new(face) };
                        self.statics.handle_event(cx, event);
                    }
                }
                cx.state.face_destroyed(cx.now, face_id);
            }
            Event::FaceDown { face_id, reason } => {
                if cx.faces.face_down(cx.now_ns(), face_id, reason) {
                    cx.state.face_changed_state(cx.now, face_id, false);
                }
                self.note_unreported();
            }
            Event::FaceUp { face_id, is_reached } => {
                if cx.faces.face_up(cx.now_ns(), face_id, is_reached) {
                    cx.state.face_changed_state(cx.now, face_id, true);
                }
                self.note_unreported();
            }
            Event::PeerRefused { remote } => {
                warn!(%remote, "peer rejected: the limit of faces, or of faces per peer, is reached");
            }
            // Closed on this thread so that packets do not wait for the close; the face may get another socket then.
            Event::SocketUnused(socket) => drop(socket),
            Event::Learning(request) => {
                self.management.handle_event(cx, ManagementEvent::Learning(request));
            }
            Event::CsErased { ticket, erased, more } => {
                let event = ManagementEvent::CsErased { ticket, erased: erased as u64, more };
                self.management.handle_event(cx, event);
            }
        }
    }

    fn note_unreported(&mut self) {
        if self.cx.faces.has_unreported() {
            self.quotas.handle_event(&mut self.cx, QuotasEvent::FaceUnreported);
        }
    }

    /// Starts to accept connections. Earlier ones wait in the backlog: the worker gets the route to management before
    /// the first application.
    fn start_listening(&mut self) {
        // The user is the final one: privileges have been given up.
        self.cx.state.set_operator_users(vec![0, rustix::process::geteuid().as_raw()]);
        if let Err(error) = self.cx.state.register_management() {
            error!(%error, "management cannot be reached");
        }
        self.listening.handle_event(&mut self.cx, ListeningEvent::Start);
        self.sessions.handle_event(&mut self.cx, SessionsEvent::Start);
    }

    /// Handles sessions that have opened, failed or changed.
    fn take_sessions(&mut self) {
        for mut event in self.sessions.take_events() {
            if let SessionEvent::Connected { spec, result, .. } = &mut event
                && self.statics.is_cancelled(spec.ticket)
                && !self.connector.is_shared(spec.ticket)
            {
                // Dropping the session closes it.
                *result = Err("the face was destroyed meanwhile".to_owned());
            }
            self.sessions.handle_event(&mut self.cx, SessionsEvent::Session(event));
        }
    }

    /// Delivers the messages between services, and those that they cause.
    fn deliver(&mut self) {
        while let Some(message) = self.cx.messages.pop_front() {
            let cx = &mut self.cx;
            match message {
                Message::Create(request) => {
                    self.connector.handle_event(cx, ConnectorEvent::Create(request));
                }
                Message::Cancel { ticket } => {
                    self.connector.handle_event(cx, ConnectorEvent::Cancel(ticket));
                }
                Message::CreateStation { mac, interface, spec } => {
                    let event = InterfacesEvent::CreateStation { mac, interface, spec };
                    self.interfaces.handle_event(cx, event);
                }
                Message::CreateMemif { address, spec } => {
                    self.memif.handle_event(cx, MemifEvent::Create { address, spec });
                }
                Message::CreateSession { remote, spec } => {
                    self.sessions.handle_event(cx, SessionsEvent::Create { remote, spec });
                }
                Message::FaceExists { ticket, face_id } => {
                    self.statics.handle_event(cx, StaticEvent::FaceExists { ticket, face_id });
                    let event = ManagementEvent::FaceExists { ticket, face_id };
                    self.management.handle_event(cx, event);
                    self.connector.handle_event(cx, ConnectorEvent::FaceExists { ticket, face_id });
                }
                Message::AttemptFailed { ticket, code, text } => {
                    let event = ConnectorEvent::AttemptFailed { ticket, code, text };
                    self.connector.handle_event(cx, event);
                }
                Message::FaceFailed { ticket, code, text } => {
                    let event = StaticEvent::FaceFailed { ticket, text: text.clone() };
                    self.statics.handle_event(cx, event);
                    let event = ManagementEvent::FaceFailed { ticket, code, text };
                    self.management.handle_event(cx, event);
                }
                Message::FollowPath { face_id, peer, length } => {
                    self.paths.handle_event(cx, FollowPath { face_id, peer, length });
                }
                Message::WebSocketClient { stream, peer, local } => {
                    let event = WebSocketEvent::Client { stream, peer, local };
                    self.websocket.handle_event(cx, event);
                }
                Message::MemifClient { stream, socket } => {
                    self.memif.handle_event(cx, MemifEvent::Client { stream, socket });
                }
                Message::Handled { face_id, handled } => {
                    self.quotas.handle_event(cx, QuotasEvent::Handled { face_id, handled });
                }
            }
        }
    }

    /// Executes calls of other threads.
    fn execute_calls(&mut self) {
        self.calls.waker().reset();
        for _ in 0..CALLS_PER_ROUND {
            let Some(call) = self.calls.poll() else { return };
            call(self);
            self.deliver();
        }
        // Others may wait.
        self.calls.waker().wake();
    }

    /// Creates an in-memory face; answers once management knows it.
    pub(super) fn add_memory_face(
        &mut self,
        options: &MemoryFaceOptions,
        answer: MemoryFaceAnswer,
    ) {
        let Cx { faces, dataplane, .. } = &mut self.cx;
        faces.add_memory_face(dataplane, options, answer);
    }

    /// Executes a management Interest that arrives over no face.
    pub(super) fn handle_local_interest(
        &mut self,
        interest: &[u8],
        answer: SyncSender<LocalAnswer>,
    ) {
        self.cx.now = now(&self.cx.clock);
        self.management.handle_local_interest(&mut self.cx, interest, answer);
        self.deliver();
    }
}

fn choose_strategies(cx: &mut Cx) -> anyhow::Result<()> {
    cx.state.set_default_strategies()?;
    for choice in &cx.config.strategy_choices {
        cx.state
            .set_strategy(&choice.prefix, choice.strategy.as_ref())
            .with_context(|| format!("strategy {} for {}", choice.strategy, choice.prefix))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
