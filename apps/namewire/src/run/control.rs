//! The control thread's loop: management, faces and tables, between operators and the data plane.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use anyhow::Context;
use ndn_dataplane::{Command, CsSettings, Dataplane, Event, FaceCreated, NewFace, NewTransport};
use ndn_face::{FaceOptions, FaceUri, InternalEnd, Persistency};
use ndn_forwarding::{FaceProperties, FaceScope, ProducerRegions};
use ndn_management::state::CreatedFace;
use ndn_management::{
    Action, Collaborators, ControlConfig, ControlState, FACE_ID_INTERNAL, FaceCreationError,
    FaceSpecification, Handled, Now, Ticket, status,
};
use ndn_packet::{LpHeader, LpPacket};
use ndn_sys::clock;
use ndn_sys::poll::{Events, Interest, Poller};
use ndn_sys::stream::{self, AcceptError};
use tracing::{debug, error, info, warn};

use super::faces::{self, KnownFace, Wanted};
use super::listeners::Listeners;
use super::operator::OperatorRequests;
use super::settings;
use super::static_setup::StaticSetup;
use super::stop::StopRequest;
use super::tables::{Catalog, ForwardingTables};
use super::telemetry::DataplaneTelemetry;
use crate::config::Config;

const TOKEN_DATAPLANE: u64 = 0;
const TOKEN_INTERNAL: u64 = 1;
const TOKEN_STOP: u64 = 2;
const TOKEN_OPERATOR: u64 = 3;
/// Listener `i` has token `TOKEN_LISTENERS + i`.
const TOKEN_LISTENERS: u64 = 1 << 16;
/// Attempts to connect have tokens from here on.
const TOKEN_ATTEMPTS: u64 = 1 << 32;

/// Frames between management and the data plane that may wait, each way.
const INTERNAL_QUEUE: usize = 4096;
/// Connections accepted per listener and round.
const ACCEPTS_PER_ROUND: usize = 128;
/// How long `faces/create` tries to connect (NFD answers 504 after 4 s).
const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);
/// How soon queues that were full are tried again.
const RETRY: Duration = Duration::from_millis(2);
/// CachePolicyType NoCache.
const NO_CACHE: u64 = 1;

/// A TCP connection in the making.
#[derive(Debug)]
struct Attempt {
    stream: OwnedFd,
    remote: SocketAddr,
    wanted: Wanted,
    deadline_ns: u64,
}

/// The control thread.
#[derive(Debug)]
pub(super) struct Control {
    config: Config,
    poller: Poller,
    dataplane: Dataplane,
    tables: ForwardingTables,
    state: ControlState,
    internal: InternalEnd,
    faces: HashMap<u64, KnownFace>,
    listeners: Listeners,
    channels: Vec<String>,
    attempts: HashMap<u64, Attempt>,
    next_attempt: u64,
    /// Requests to the data plane that management waits for.
    tickets: HashMap<u64, Ticket>,
    next_ticket: u64,
    statics: StaticSetup,
    operator: OperatorRequests,
    /// Replies that the internal face had no room for.
    unsent: std::collections::VecDeque<Vec<u8>>,
    captures: super::captures::Captures,
}

impl Control {
    /// Sets everything up; nothing is answered before [`run`](Self::run).
    pub(super) fn new(
        config: &Config,
        mut dataplane: Dataplane,
        tables: ForwardingTables,
        listeners: Listeners,
        operator: OperatorRequests,
    ) -> anyhow::Result<Self> {
        let poller = Poller::new()?;
        let (near, far) = InternalEnd::pair(INTERNAL_QUEUE)?;
        poller.add(dataplane.event_waker(), TOKEN_DATAPLANE, Interest::Readable)?;
        poller.add(&near, TOKEN_INTERNAL, Interest::Readable)?;
        poller.add(&*operator.waker, TOKEN_OPERATOR, Interest::Readable)?;
        let regions = ProducerRegions::new(config.tables.network_regions.clone());
        dataplane.send(Command::SetRegions(std::sync::Arc::new(regions)));
        dataplane.send(Command::ConfigureCs(CsSettings {
            capacity_packets: Some(config.tables.cs.capacity_packets),
            admit: Some(config.tables.cs.admit),
            serve: Some(config.tables.cs.serve),
        }));
        dataplane.send(Command::AddFace(Box::new(internal_face(far))));
        let mut control = Self {
            state: management(config)?,
            channels: listeners.local_uris(),
            config: config.clone(),
            poller,
            dataplane,
            tables,
            internal: near,
            faces: HashMap::new(),
            listeners,
            attempts: HashMap::new(),
            next_attempt: TOKEN_ATTEMPTS,
            tickets: HashMap::new(),
            next_ticket: 0,
            statics: StaticSetup::new(config),
            operator,
            unsent: std::collections::VecDeque::new(),
            captures: super::captures::Captures::default(),
        };
        control.choose_strategies()?;
        control.work(now());
        Ok(control)
    }

    /// Runs until a signal comes.
    pub(super) fn run(&mut self, stop: &StopRequest) -> anyhow::Result<()> {
        self.poller.add(stop.waker(), TOKEN_STOP, Interest::Readable)?;
        let mut events = Events::with_capacity(64);
        while !stop.is_requested() {
            let timeout = self.timeout(now());
            self.poller.wait(&mut events, timeout)?;
            let now = now();
            for event in events.iter() {
                match event.token {
                    TOKEN_STOP => {}
                    TOKEN_DATAPLANE => self.dataplane.event_waker().reset(),
                    TOKEN_INTERNAL => self.internal.reset(),
                    TOKEN_OPERATOR => self.serve_operator(),
                    attempt if attempt >= TOKEN_ATTEMPTS => self.end_attempt(now, attempt),
                    listener => self.accept(listener - TOKEN_LISTENERS),
                }
            }
            // Faces before what came in by them.
            self.handle_events(now).context("the forwarding worker has ended by itself")?;
            self.handle_interests(now);
            self.handle_timeouts(now);
            self.work(now);
        }
        info!("stopping");
        Ok(())
    }

    /// Ends the data plane.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        let Self { dataplane, listeners, .. } = self;
        // Socket files go first: who connects now is not served any more.
        drop(listeners);
        dataplane.stop().context("the forwarding worker has ended by itself")
    }

    fn timeout(&self, now: Now) -> Option<Duration> {
        if !self.unsent.is_empty() || self.dataplane.is_backed_up() {
            return Some(RETRY);
        }
        let attempts = self.attempts.values().map(|attempt| attempt.deadline_ns);
        let others = [self.state.next_deadline_ns(), self.statics.next_deadline_ns()];
        let next = attempts.chain(others.into_iter().flatten()).min()?;
        Some(Duration::from_nanos(next.saturating_sub(now.monotonic_ns)))
    }

    /// Takes connections.
    fn accept(&mut self, listener: u64) {
        let Some(listener) =
            usize::try_from(listener).ok().and_then(|at| self.listeners.streams.get_mut(at))
        else {
            return;
        };
        for _ in 0..ACCEPTS_PER_ROUND {
            match listener.socket.accept() {
                Ok(accepted) => {
                    if self.faces.len() >= self.config.limits.faces {
                        warn!(
                            limit = self.config.limits.faces,
                            "a connection was closed: there are as many faces as there may be"
                        );
                        continue;
                    }
                    let face_id = self.dataplane.allocate_face_id();
                    let face = faces::accepted(
                        face_id,
                        accepted.stream,
                        accepted.peer,
                        &listener.local,
                        &self.config,
                    );
                    self.dataplane.send(Command::AddFace(Box::new(face)));
                }
                Err(AcceptError::WouldBlock) => return,
                Err(AcceptError::DescriptorsExhausted) => {
                    warn!("a connection was closed: no file descriptors are left");
                }
                Err(AcceptError::ConnectionLost(error)) => {
                    debug!(%error, "a connection was lost before it was accepted");
                }
                Err(AcceptError::Listener(error)) => {
                    error!(%error, local = ?listener.local, "cannot accept connections");
                    return;
                }
            }
        }
    }

    fn handle_events(&mut self, now: Now) -> Result<(), ndn_dataplane::WorkerGone> {
        while let Some(event) = self.dataplane.next_event()? {
            self.handle_event(now, event);
        }
        Ok(())
    }

    fn handle_event(&mut self, now: Now, event: Event) {
        match event {
            Event::FaceAdded { ticket, face } => self.face_added(now, ticket, &face),
            Event::FaceExists { ticket, face_id } => {
                let record = self.state.face(face_id).cloned();
                self.statics.face_exists(&mut self.state, ticket, face_id);
                if let (Some(ticket), Some(record)) = (self.take_ticket(ticket), record) {
                    self.state.face_creation_done(now, ticket, Ok(CreatedFace::Existing(record)));
                }
            }
            Event::FaceRefused { ticket, face_id, error } => {
                warn!(face_id, %error, "a face was not made");
                if let Some(ticket) = self.take_ticket(ticket) {
                    let failure = FaceCreationError {
                        code: status::INTERNAL_ERROR,
                        reason: format!("Face creation failed: {error}"),
                    };
                    self.state.face_creation_done(now, ticket, Err(failure));
                }
            }
            Event::FaceClosed { face_id, reason } => {
                match reason {
                    Some(reason) => info!(face_id, %reason, "face closed"),
                    None => info!(face_id, "face destroyed"),
                }
                self.faces.remove(&face_id);
                self.state.face_destroyed(now, face_id);
            }
            Event::FaceDown { face_id, reason } => {
                info!(face_id, %reason, "face down");
                self.state.face_changed_state(now, face_id, false);
            }
            Event::FaceUp { face_id } => {
                info!(face_id, "face up");
                self.state.face_changed_state(now, face_id, true);
            }
            Event::PeerRefused { peer } => {
                warn!(%peer, "a UDP peer got no face: there are as many faces as there may be");
            }
            Event::CsErased { ticket, erased, more } => {
                if let Some(ticket) = self.take_ticket(Some(ticket)) {
                    self.state.cs_erase_done(ticket, erased as u64, more);
                }
            }
        }
    }

    fn face_added(&mut self, now: Now, ticket: Option<u64>, face: &FaceCreated) {
        let record = faces::record(face);
        let face_id = record.properties.face_id;
        info!(face_id, remote = %face.remote, local = %face.local, "face created");
        self.faces.insert(
            face_id,
            KnownFace {
                index: face.index,
                options: face.options,
                counters: std::sync::Arc::clone(&face.counters),
                remote: face.remote.clone(),
            },
        );
        self.captures.face_added(face.index, face_id);
        match self.take_ticket(ticket) {
            Some(ticket) => {
                self.state.face_creation_done(now, ticket, Ok(CreatedFace::New(record)));
            }
            None => self.state.face_created(now, record),
        }
        self.statics.face_added(&mut self.state, ticket, face_id);
        if face_id == FACE_ID_INTERNAL {
            if let Err(error) = self.state.register_management() {
                error!(%error, "management cannot be reached");
            }
            // Who connects earlier waits in the listeners' queues: the worker gets the route to
            // management before it gets the first application.
            if let Err(error) = self.start_accepting() {
                error!(%error, "connections cannot be accepted");
            }
        }
    }

    fn start_accepting(&self) -> std::io::Result<()> {
        for (token, listener) in (TOKEN_LISTENERS..).zip(&self.listeners.streams) {
            self.poller.add(&listener.socket, token, Interest::Readable)?;
        }
        Ok(())
    }

    fn take_ticket(&mut self, ticket: Option<u64>) -> Option<Ticket> {
        self.tickets.remove(&ticket?)
    }

    fn new_ticket(&mut self, ticket: Ticket) -> u64 {
        self.next_ticket += 1;
        self.tickets.insert(self.next_ticket, ticket);
        self.next_ticket
    }

    /// Answers what came in by the internal face.
    fn handle_interests(&mut self, now: Now) {
        while let Some(frame) = self.internal.receive() {
            let Ok(packet) = LpPacket::parse(&frame) else { continue };
            let (Some(wire), Some(face_id)) = (packet.fragment(), packet.incoming_face_id()) else {
                continue;
            };
            if packet.nack().is_some() || !self.config.management.enabled {
                continue;
            }
            let telemetry = DataplaneTelemetry {
                faces: &self.faces,
                counters: self.dataplane.counters(),
                channels: &self.channels,
            };
            match self.state.handle_interest(now, wire, face_id, &telemetry) {
                Handled::Command { verb, signer, code } => {
                    debug!(face_id, ?verb, signer, ?code, "management command");
                }
                Handled::Refused { signer, code } => {
                    warn!(face_id, signer, code, "management command refused");
                }
                Handled::Data { .. } => {}
                Handled::Ignored(reason) => debug!(face_id, ?reason, "management Interest ignored"),
                Handled::Malformed => debug!(face_id, "not an Interest"),
                Handled::UnknownFace => {
                    debug!(face_id, "management Interest from a face that is gone")
                }
            }
            self.work(now);
        }
    }

    fn handle_timeouts(&mut self, now: Now) {
        self.state.handle_timeout(now);
        let late: Vec<u64> = self
            .attempts
            .iter()
            .filter(|(_, attempt)| attempt.deadline_ns <= now.monotonic_ns)
            .map(|(token, _)| *token)
            .collect();
        for token in late {
            if let Some(attempt) = self.attempts.remove(&token) {
                self.connect_failed(now, &attempt.wanted, attempt.remote, "timed out");
            }
        }
        for (remote, wanted) in self.statics.due(now.monotonic_ns) {
            self.create_face(now, &remote, wanted);
        }
        self.tables.collect();
    }

    /// Carries out what the state machine wants done, and sends it off.
    fn work(&mut self, now: Now) {
        while let Some(action) = self.state.poll_action() {
            self.perform(now, action);
        }
        self.publish_tables();
        self.send_replies();
        self.dataplane.wake();
    }

    fn publish_tables(&mut self) {
        if let Some(published) = self.tables.publish() {
            let super::tables::Published { fib, strategies } = published;
            self.dataplane.send(Command::SetTables { fib, strategies });
        }
    }

    /// Sends replies as far as the internal face has room. Tables have been sent before: the
    /// worker uses them from the moment at which it sees the reply.
    fn send_replies(&mut self) {
        if self.unsent.is_empty() {
            return;
        }
        // The worker carries out commands before it looks at the internal face again.
        self.dataplane.wake();
        while let Some(frame) = self.unsent.pop_front() {
            if let Err(frame) = self.internal.send(frame) {
                self.unsent.push_front(frame);
                return;
            }
        }
    }

    fn perform(&mut self, now: Now, action: Action) {
        match action {
            Action::UpdateFib(updates) => {
                let indexes = |face_id: u64| self.faces.get(&face_id).map(|face| face.index);
                if let Err((prefix, error)) = self.tables.apply(updates, indexes) {
                    error!(%prefix, %error, "a route could not be put into the FIB");
                }
            }
            Action::SendData { wire, may_cache } => {
                self.publish_tables();
                self.unsent.push_back(reply_frame(&wire, may_cache));
            }
            Action::CreateFace { ticket, specification } => {
                let ticket = self.new_ticket(ticket);
                self.create_specified(now, ticket, &specification);
            }
            Action::UpdateFace { face_id, persistency, options } => {
                if let Some(face) = self.faces.get_mut(&face_id) {
                    faces::apply(&options, &mut face.options);
                    if let Some(persistency) = persistency {
                        face.options.persistency = faces::face_persistency(persistency);
                    }
                    let options = Box::new(face.options);
                    self.dataplane.send(Command::UpdateFace { face_id, options });
                }
            }
            Action::DestroyFace { face_id } => {
                self.dataplane.send(Command::RemoveFace { face_id });
            }
            Action::SetStrategy { prefix, strategy } => {
                if let Err(error) = self.tables.set_strategy(prefix.as_ref(), strategy.as_ref()) {
                    error!(%prefix, %strategy, %error, "a strategy could not be set");
                }
            }
            Action::UnsetStrategy { prefix } => self.tables.unset_strategy(prefix.as_ref()),
            Action::ConfigureCs(settings) => {
                self.dataplane.send(Command::ConfigureCs(CsSettings {
                    capacity_packets: Some(
                        usize::try_from(settings.capacity).unwrap_or(usize::MAX),
                    ),
                    admit: Some(settings.admit),
                    serve: Some(settings.serve),
                }));
            }
            Action::EraseCs { ticket, prefix, limit } => {
                let ticket = self.new_ticket(ticket);
                let limit = usize::try_from(limit).unwrap_or(usize::MAX);
                self.dataplane.send(Command::EraseCs { ticket, prefix, limit });
            }
        }
    }

    fn create_specified(&mut self, now: Now, ticket: u64, specification: &FaceSpecification) {
        let wanted = Wanted {
            ticket: Some(ticket),
            persistency: faces::face_persistency(specification.persistency),
            pit_tokens: ndn_forwarding::PitTokenPolicy::WhenSeen,
            options: specification.options,
        };
        self.create_face(now, &specification.remote, wanted);
    }

    /// Makes a UDP or TCP face, or begins to.
    fn create_face(&mut self, now: Now, remote: &ndn_management::FaceUri, wanted: Wanted) {
        let Some(address) = remote.socket_address() else {
            self.creation_failed(now, &wanted, status::NOT_ACCEPTABLE, "Unsupported protocol");
            return;
        };
        if remote.scheme().starts_with("udp") {
            let face_id = self.dataplane.allocate_face_id();
            let face = faces::datagram(face_id, address, &wanted, &self.config);
            self.dataplane.send(Command::AddFace(Box::new(face)));
            return;
        }
        let same_end = FaceUri::Tcp(address);
        let existing = self.faces.iter().find(|(_, face)| face.remote == same_end);
        if let Some((&face_id, _)) = existing {
            self.handle_event(now, Event::FaceExists { ticket: wanted.ticket, face_id });
            return;
        }
        let token = self.next_attempt;
        let started = stream::connect_tcp(address).and_then(|stream| {
            self.poller.add(&stream, token, Interest::Writable)?;
            Ok(stream)
        });
        match started {
            Ok(stream) => {
                self.next_attempt += 1;
                let timeout = u64::try_from(CONNECT_TIMEOUT.as_nanos()).unwrap_or(u64::MAX);
                let deadline_ns = now.monotonic_ns + timeout;
                let attempt = Attempt { stream, remote: address, wanted, deadline_ns };
                self.attempts.insert(token, attempt);
            }
            Err(error) => self.connect_failed(now, &wanted, address, &error.to_string()),
        }
    }

    /// An attempt to connect has come to an end.
    fn end_attempt(&mut self, now: Now, token: u64) {
        let Some(attempt) = self.attempts.remove(&token) else { return };
        let Attempt { stream, remote, wanted, .. } = attempt;
        let ended = stream::take_error(stream.as_fd()).and_then(|()| self.poller.remove(&stream));
        if let Err(error) = ended {
            return self.connect_failed(now, &wanted, remote, &error.to_string());
        }
        let face_id = self.dataplane.allocate_face_id();
        let face = faces::connected_tcp(face_id, stream, remote, &wanted, &self.config);
        self.dataplane.send(Command::AddFace(Box::new(face)));
    }

    fn connect_failed(&mut self, now: Now, wanted: &Wanted, remote: SocketAddr, reason: &str) {
        info!(%remote, reason, "cannot connect");
        self.statics.connect_failed(now.monotonic_ns, wanted.ticket);
        let text = format!("Cannot connect to {remote}: {reason}");
        self.creation_failed(now, wanted, status::CONNECT_FAILED, &text);
    }

    fn creation_failed(&mut self, now: Now, wanted: &Wanted, code: u32, reason: &str) {
        if let Some(ticket) = self.take_ticket(wanted.ticket) {
            let failure = FaceCreationError { code, reason: reason.to_owned() };
            self.state.face_creation_done(now, ticket, Err(failure));
        }
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

    fn serve_operator(&mut self) {
        self.operator.waker.reset();
        while let Ok(request) = self.operator.requests.try_recv() {
            let result = self.captures.start(request.filter, &self.faces);
            if let Ok(Some(tap)) = result.as_ref().map(|_| self.captures.tap()) {
                self.dataplane.send(Command::SetTap(Some(tap)));
            }
            // Whoever asked may be gone by now.
            let _ = request.answer.send(result);
        }
    }
}

fn now() -> Now {
    let unix_us = u64::try_from(clock::wall_clock().as_micros()).unwrap_or(u64::MAX);
    Now { monotonic_ns: clock::now(), unix_us }
}

fn management(config: &Config) -> anyhow::Result<ControlState> {
    let control = ControlConfig {
        version: format!("namewire {}", env!("CARGO_PKG_VERSION")),
        started_unix_ms: now().unix_ms(),
        fib_entries_max: config.tables.fib_capacity,
        cs_capacity_max: settings::cs_capacity_max(config) as u64,
        cs: ndn_management::CsConfiguration {
            capacity: config.tables.cs.capacity_packets as u64,
            admit: config.tables.cs.admit,
            serve: config.tables.cs.serve,
        },
        ..ControlConfig::default()
    };
    Ok(ControlState::new(control, Collaborators::with_strategies(Catalog::default())))
}

/// The data plane's end of the face between forwarding and management.
fn internal_face(end: InternalEnd) -> NewFace {
    let properties = FaceProperties {
        local_fields: true,
        ..FaceProperties::point_to_point(FACE_ID_INTERNAL, FaceScope::Local)
    };
    let mut options = FaceOptions::stream(properties, Persistency::Permanent);
    options.link.congestion_marking = false;
    NewFace {
        ticket: None,
        transport: NewTransport::Internal(end),
        options,
        remote: FaceUri::Internal,
        local: FaceUri::Internal,
    }
}

/// A Data as a frame of the internal face.
fn reply_frame(wire: &[u8], may_cache: bool) -> Vec<u8> {
    if may_cache {
        return wire.to_vec();
    }
    let header = LpHeader { cache_policy: Some(NO_CACHE), ..LpHeader::default() };
    let mut frame = vec![0; header.encoded_len(wire.len()) + wire.len()];
    match header.write(wire, &mut frame) {
        Ok(_) => frame,
        Err(_) => wire.to_vec(),
    }
}
