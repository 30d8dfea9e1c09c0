//! The control plane as a state machine: Interests, events and completions in, actions out.
//!
//! [`ControlState`] executes commands on the objects below it, each with its own state:
//!
//! | object | state |
//! |---|---|
//! | `routes` | RIB, FIB, removals in progress, FIB updates for the data plane |
//! | `faces` | face records |
//! | `strategies` | strategy choices |
//! | `datasets` | published datasets, the stream of face events |
//! | `routing_events` | receivers of events of routes and strategies |
//! | `dataset_requests` | requests for datasets whose answers are being encoded |
//! | `pending` | commands that wait for the data plane |
//! | `requests` | Interests, commands and announcements that wait for their turn |
//! | `authorization` | the authorizer, commands that wait for certificates, and how these are fetched |
//! | `announcements` | prefix announcements of learnt routes |
//! | `readvertising` | commands to a routing daemon and to the gateway |
//! | `outbox` | actions for the owner |
//!
//! It uses neither sockets nor clocks: actions for the data plane come out of [`ControlState::poll_action`], and their
//! results are passed back.

mod action;
mod authorization;
mod certificates;
mod config;
mod dataset_requests;
mod datasets;
mod erasures;
mod faces;
mod learning;
mod outbox;
mod parts;
mod pending;
mod readvertise;
mod removal_turns;
mod report;
mod requests;
mod routes;
mod routing_events;
mod strategies;

use std::collections::VecDeque;
use std::time::Duration;

use ndn_packet::{Data, Interest, Name, NameRef};
use ndn_security::Certificate;
use ndn_security::trust::{AnchorChange, Search, Validation};
use ndn_types::{LedgerReport, Now, Persistency, PrincipalKey, Scope, Timestamp};

pub use action::{
    Action, CreatedFace, CsConfiguration, FaceActivity, FaceCapabilities, FaceCreationError,
    FaceRecord, FaceSpecification, TableSizes, Telemetry, Ticket,
};
pub use certificates::WaitingPlaces;
pub use config::{Collaborators, ControlConfig};
pub use dataset_requests::DatasetPlaces;
pub use learning::{KeptResource, Learning};
pub use parts::{TableItems, TablePart};
pub use pending::PendingPlaces;
pub use report::{ControlCounters, RequestOutcome};
pub use requests::RequestBytes;
pub use routes::{RouteError, RoutePlaces};
pub use routing_events::{RoutingChange, RoutingEvent, RoutingEventSink};
pub use strategies::{
    DEFAULT_STRATEGIES, STRATEGY_CHOICES_MAX, StrategyChanges, StrategyChoiceError,
    StrategyChoicePlaces, StrategyInstancePlaces,
};

use crate::announcement::{ANNOUNCEMENT_COST, PrefixAnnouncement};
use crate::authorize::{AnySigner, Authority, Authorizer, Requester};
use crate::command::{TopPrefix, Verb};
use crate::dispatch::{self, Dispatch};
use crate::fib::Fib;
use crate::parameters::ControlParameters;
use crate::publisher::PublishedResource;
use crate::range::NameRange;
use crate::readvertise::{CommandSigner, ReadvertiseOptions};
use crate::request::{AcceptedCommand, FaceOptions, Request};
use crate::response::{ControlResponse, status};
use crate::rib::{NextHop, Rib, Route};
use crate::strategy_name::StrategyError;
use crate::types::{
    CS_ERASE_LIMIT, FACE_ID_INTERNAL, FACE_ID_RESERVED_MAX, FaceEventKind, PREFIX_DEPTH_MAX,
    cs_flag, route_flag, route_origin,
};
use authorization::Authorization;
pub use authorization::Operators;
use certificates::{
    FETCH_TIME_MAX, FetchContext, Progress, ReceivedCertificate, WaitingAnnouncement,
    WaitingCommand, WaitingRequest, command_deadline,
};
pub use datasets::FaceEventSink;
use datasets::{DatasetService, Tables};
use erasures::Erasure;
use faces::FaceRecords;
use learning::Announcements;
use outbox::Outbox;
use pending::{Claim, Displaced, NewCommand, Pending, PendingTable, Placed, Retry, Work};
use readvertise::Readvertising;
use requests::{Request as Queued, Requests};
use routes::RoutingTables;
use routing_events::RoutingEvents;
use strategies::StrategyChoices;

/// The command that is being executed.
#[derive(Debug, Clone, Copy)]
struct Executing<'a> {
    now: Now,
    /// Name of the Interest: the name of the answer.
    name: NameRef<'a>,
    /// The principal that is charged for what the command takes.
    principal: PrincipalKey,
    authority: Authority,
}

impl Executing<'_> {
    /// The principal that keeps a face of this command; none for one of an operator.
    fn keeper(&self) -> Option<PrincipalKey> {
        match self.authority {
            Authority::Operator => None,
            Authority::Requester => Some(self.principal.without_process()),
        }
    }
}

/// In place of the FaceId of a requester that uses no face.
const NO_FACE: u64 = 0;

/// The status text of a command that finds no place, or gives it up.
const TOO_MANY: &str = "Too many commands are in progress";

/// The result of a command.
#[derive(Debug)]
enum Outcome {
    Reply(ControlResponse),
    /// The answer follows when the data plane has finished.
    Deferred,
}

impl Outcome {
    fn reply(code: u32, text: impl Into<String>) -> Self {
        Self::Reply(ControlResponse::new(code, text))
    }

    fn busy() -> Self {
        Self::reply(status::INTERNAL_ERROR, TOO_MANY)
    }
}

/// A command that is not accepted yet: its requester, and the certificates so far.
#[derive(Debug)]
struct Unverified {
    requester: Requester,
    progress: Progress,
}

/// The route of management's own prefixes. Without CAPTURE, an application with a route for `/localhost` would receive what is
/// sent to management.
const MANAGEMENT_ROUTE: Route = Route {
    face_id: FACE_ID_INTERNAL,
    origin: route_origin::APP,
    cost: 0,
    flags: route_flag::CHILD_INHERIT | route_flag::CAPTURE,
    expires_at: None,
};

/// The control plane. See the module documentation.
pub struct ControlState {
    config: ControlConfig,
    authorization: Authorization,
    /// Signs the commands that the forwarder itself issues.
    command_signer: Box<dyn CommandSigner + Send>,
    routes: RoutingTables,
    faces: FaceRecords,
    strategies: StrategyChoices,
    cs: CsConfiguration,
    datasets: DatasetService,
    routing_events: RoutingEvents,
    pending: PendingTable,
    requests: Requests,
    announcements: Announcements,
    readvertising: Readvertising,
    outbox: Outbox,
    outcomes: VecDeque<(u64, RequestOutcome)>,
    counters: ControlCounters,
}

impl std::fmt::Debug for ControlState {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("ControlState");
        shown.field("config", &self.config).field("counters", &self.counters);
        shown.finish_non_exhaustive()
    }
}

impl ControlState {
    /// An empty control plane: no faces but those inside the forwarder, no strategy choices.
    #[must_use]
    pub fn new(config: ControlConfig, collaborators: Collaborators) -> Self {
        let Collaborators { authorizer, strategies, signer, commands } = collaborators;
        let strategies_max = (config.strategy_choices_max, config.strategy_instances_max);
        let reserves = config.reserves;
        Self {
            authorization: Authorization::new(authorizer, reserves),
            command_signer: commands,
            routes: RoutingTables::new(&config),
            faces: FaceRecords::new(),
            strategies: StrategyChoices::new(strategies, strategies_max, reserves),
            cs: config.cs,
            datasets: DatasetService::new(config.publisher, reserves),
            routing_events: RoutingEvents::default(),
            pending: PendingTable::new(reserves),
            requests: Requests::new(reserves),
            announcements: Announcements::new(reserves),
            readvertising: Readvertising::new(reserves),
            outbox: Outbox::new(signer),
            outcomes: VecDeque::new(),
            counters: ControlCounters::default(),
            config,
        }
    }

    /// The routes.
    #[must_use]
    pub const fn rib(&self) -> &Rib {
        &self.routes.rib
    }

    /// The next hops.
    #[must_use]
    pub const fn fib(&self) -> &Fib {
        &self.routes.fib
    }

    /// The record of a face.
    #[must_use]
    pub fn face(&self, face_id: u64) -> Option<&FaceRecord> {
        self.faces.get(face_id)
    }

    /// Every face, by FaceId.
    pub fn faces(&self) -> impl Iterator<Item = &FaceRecord> {
        self.faces.iter()
    }

    /// Prefixes and strategy names, in canonical order.
    pub fn strategy_choices(&self) -> impl Iterator<Item = (&Name, &Name)> {
        self.strategies.iter()
    }

    /// The Content Store's settings.
    #[must_use]
    pub const fn cs(&self) -> CsConfiguration {
        self.cs
    }

    /// Counters of management.
    #[must_use]
    pub const fn counters(&self) -> ControlCounters {
        let (datasets, unsigned) = (self.datasets.published(), self.outbox.unsigned());
        ControlCounters { datasets, unsigned, ..self.counters }
    }

    /// Takes an Interest that the forwarder delivered to management, which [`ControlState::handle_next`] handles when it
    /// is the turn of its principal. `face_id` is the face on which it arrived; [`ControlState::face_created`] must have
    /// been called for it before.
    pub fn receive_interest(&mut self, wire: Vec<u8>, face_id: u64) {
        self.queue(face_id, Queued::Interest { wire, face_id });
    }

    fn queue(&mut self, face_id: u64, request: Queued) {
        let principal = self.principal(face_id);
        for dropped in self.requests.push(principal, request) {
            self.counters.dropped += 1;
            self.outcomes.push_back((dropped.face_id(), RequestOutcome::Dropped));
            if let Queued::Judge(waiting) = dropped {
                self.end_fetches(&waiting.progress().names(), waiting.face_id());
            }
        }
    }

    /// Whether [`handle_next`](Self::handle_next) has something to do.
    #[must_use]
    pub fn has_requests(&self) -> bool {
        !self.requests.is_empty()
    }

    /// Handles the Interest, or the command or announcement whose certificate has arrived, whose turn it is. Returns false
    /// if there is none. The result comes out of [`ControlState::poll_outcome`]. The owner measures how long it took, for
    /// [`charge`](Self::charge).
    pub fn handle_next(&mut self, now: Now, telemetry: &dyn Telemetry) -> bool {
        let Some(request) = self.requests.pop() else { return false };
        let face_id = request.face_id();
        let handled = match request {
            Queued::Interest { wire, .. } => self.handle_interest(now, &wire, face_id, telemetry),
            Queued::Judge(_) if self.faces.get(face_id).is_none() => RequestOutcome::UnknownFace,
            Queued::Judge(WaitingRequest::Command(command)) => self.verify_waiting(now, *command),
            Queued::Judge(WaitingRequest::Announcement(announcement)) => {
                RequestOutcome::Announcement(self.judge_announcement(now, *announcement))
            }
            Queued::Forget { name, .. } => match self.forget(face_id, name.as_ref()) {
                Some(prefix) => RequestOutcome::Announcement(Learning::Forgotten(prefix)),
                None => return true,
            },
        };
        self.outcomes.push_back((face_id, handled));
        true
    }

    /// Charges the time that [`handle_next`](Self::handle_next) took to the principal of the request.
    pub fn charge(&mut self, cost: Duration) {
        self.requests.charge(cost);
    }

    /// Returns the memory for requests that each principal holds.
    #[must_use]
    pub fn request_bytes(&self) -> LedgerReport<1> {
        self.requests.report()
    }

    /// Returns the places for commands waiting for the data plane that each principal holds.
    #[must_use]
    pub fn pending_places(&self) -> LedgerReport<1> {
        self.pending.report()
    }

    /// Returns the places for commands waiting for certificates that each principal holds.
    #[must_use]
    pub fn waiting_places(&self) -> LedgerReport<1> {
        self.authorization.report()
    }

    /// Returns the places for requests for datasets, and the versions and their bytes, that each principal holds.
    #[must_use]
    pub fn dataset_places(&self) -> (LedgerReport<1>, LedgerReport<{ PublishedResource::COUNT }>) {
        self.datasets.reports()
    }

    /// The principal that a route is charged to; `None`: it is an operator's.
    #[must_use]
    pub fn route_owner(
        &self,
        prefix: NameRef<'_>,
        face_id: u64,
        origin: u64,
    ) -> Option<PrincipalKey> {
        self.routes.route_owner(prefix, face_id, origin)
    }

    /// The principal that a next hop of `fib/*` commands is charged to; `None`: it is an operator's.
    #[must_use]
    pub fn next_hop_owner(&self, prefix: &Name, face_id: u64) -> Option<PrincipalKey> {
        self.routes.next_hop_owner(prefix, face_id)
    }

    /// Returns the routes that each principal holds; those of operators are charged to management.
    #[must_use]
    pub fn route_places(&self) -> LedgerReport<1> {
        self.routes.report()
    }

    /// Plants a fault: routes are first come, first served.
    #[cfg(feature = "planted-faults")]
    pub fn stop_sharing_routes(&mut self) {
        self.routes.stop_sharing();
    }

    /// Plants a fault: a route is charged, and never given back.
    #[cfg(feature = "planted-faults")]
    pub fn leak_route(&mut self) {
        self.routes.leak_charge();
    }

    /// Returns the kept announcements and their bytes that each principal holds.
    #[must_use]
    pub fn announcement_places(&self) -> LedgerReport<{ KeptResource::COUNT }> {
        self.announcements.report()
    }

    /// Returns the places for prefixes to be withdrawn from a routing daemon that each principal holds.
    #[must_use]
    pub fn withdrawal_places(&self) -> Option<LedgerReport<1>> {
        self.readvertising.report()
    }

    /// Returns the strategy choices and the strategy instances that each principal holds; those of operators are charged to
    /// management.
    #[must_use]
    pub fn strategy_places(&self) -> (LedgerReport<1>, LedgerReport<1>) {
        (self.strategies.choice_report(), self.strategies.instance_report())
    }

    fn handle_interest(
        &mut self,
        now: Now,
        wire: &[u8],
        face_id: u64,
        telemetry: &dyn Telemetry,
    ) -> RequestOutcome {
        self.counters.interests += 1;
        let Ok(interest) = Interest::parse(wire) else {
            self.counters.malformed += 1;
            return RequestOutcome::Malformed;
        };
        let Some(face) = self.faces.get(face_id) else {
            self.counters.unknown_face += 1;
            return RequestOutcome::UnknownFace;
        };
        let requester = Requester { face_id, scope: face.properties.scope };
        let dispatched = self.authorization.dispatch(now, &interest, requester, &[]);
        self.carry_out(now, &interest, requester, (dispatched, telemetry))
    }

    /// Handles an Interest of an operator of this host that arrived on no face, such as over a control socket, which
    /// authorizes it. A command that refers to the face it arrived on refers to none.
    pub fn handle_operator_interest(
        &mut self,
        now: Now,
        wire: &[u8],
        telemetry: &dyn Telemetry,
    ) -> RequestOutcome {
        self.counters.interests += 1;
        let Ok(interest) = Interest::parse(wire) else {
            self.counters.malformed += 1;
            return RequestOutcome::Malformed;
        };
        let requester = Requester { face_id: NO_FACE, scope: Scope::Local };
        let mut authorizer = AnySigner { is_operator: true, ..AnySigner::default() };
        let dispatched = dispatch::dispatch(now, &interest, requester, &mut authorizer, &[]);
        self.carry_out(now, &interest, requester, (dispatched, telemetry))
    }

    fn carry_out(
        &mut self,
        now: Now,
        interest: &Interest<'_>,
        requester: Requester,
        (dispatched, telemetry): (Dispatch, &dyn Telemetry),
    ) -> RequestOutcome {
        let name = interest.name();
        let handled = match dispatched {
            Dispatch::Execute(command) => self.execute((now, name, requester), *command),
            Dispatch::Refuse { verb, response, signer, reason } => {
                self.refuse(name, verb, &response, signer, reason)
            }
            Dispatch::NeedsCertificates { verb, signer, search } => {
                let deadline = command_deadline(now.monotonic, interest);
                let unverified = Unverified { requester, progress: Progress::new(deadline) };
                self.wait_for_certificates(now, interest, unverified, (verb, signer, search))
            }
            Dispatch::Publish { dataset, prefix } => {
                let requester = self.requester(requester.face_id);
                let (datasets, mut tables, outbox) = self.dataset_service(telemetry);
                let request = (requester, &dataset, prefix.as_ref());
                datasets.publish(now, request, &mut tables, outbox);
                RequestOutcome::Data { answered: true }
            }
            Dispatch::NackDataset(response) => {
                self.outbox.nack(name, &response);
                RequestOutcome::Data { answered: true }
            }
            Dispatch::Stored => {
                let answered = self.datasets.send_stored(now, name, &mut self.outbox);
                RequestOutcome::Data { answered }
            }
            Dispatch::Events => {
                let answered = self.datasets.send_event(now, interest, &mut self.outbox);
                RequestOutcome::Event { answered }
            }
            Dispatch::Ignore(reason) => RequestOutcome::Ignored(reason),
        };
        if matches!(
            handled,
            RequestOutcome::Ignored(_)
                | RequestOutcome::Data { answered: false }
                | RequestOutcome::Event { answered: false }
        ) {
            self.counters.ignored += 1;
        }
        handled
    }

    /// Handles a Data that arrived for management on `face_id`: the answer to a command of the forwarder, or a certificate.
    /// The commands that waited for it are handled by [`ControlState::handle_next`]. Other Data is ignored.
    pub fn handle_data(&mut self, now: Now, wire: &[u8], face_id: u64) {
        let Ok(data) = Data::parse(wire) else {
            self.counters.malformed += 1;
            return;
        };
        if self.readvertising.handle_data(now, &data) {
            return;
        }
        // Anybody can send other Data under the name of the key: the certificate may still arrive.
        let Ok(certificate) = Certificate::parse(wire.to_vec()) else { return };
        let arrival = ReceivedCertificate::new(certificate, self.principal(face_id));
        let (authorization, mut cx) = self.authorizing(now);
        for waiting in authorization.take_awaiting(&arrival, &mut cx) {
            self.queue(waiting.face_id(), Queued::Judge(waiting));
        }
    }

    /// The authorization, with what its fetches need.
    fn authorizing(&mut self, now: Now) -> (&mut Authorization, FetchContext<'_>) {
        let Self { authorization, routes, pending, outbox, .. } = self;
        (authorization, FetchContext { now, fib: &routes.fib, pending, outbox })
    }

    /// Lets something wait for the certificates that it requires. Returns it if there is no room.
    fn wait(&mut self, now: Now, waiting: WaitingRequest) -> Option<WaitingRequest> {
        let principal = self.principal(waiting.face_id());
        let (authorization, mut cx) = self.authorizing(now);
        match authorization.wait(principal, waiting, &mut cx) {
            Ok(displaced) => {
                displaced.into_iter().for_each(|displaced| self.end_waiting(displaced));
                None
            }
            Err(waiting) => Some(waiting),
        }
    }

    /// Notes whether a certificate, by which a command or an announcement of this face was judged, is of use, and ends the
    /// fetches of those that it required if nothing else requires them.
    fn note_judgement(
        &mut self,
        now: Now,
        face_id: u64,
        required: &[Name],
        (arrival, is_used): (Option<ReceivedCertificate>, bool),
    ) {
        self.end_fetches(required, face_id);
        if let Some(arrival) = arrival {
            let (authorization, mut cx) = self.authorizing(now);
            authorization.note_judgement(face_id, (&arrival, is_used), &mut cx);
        }
    }

    /// Ends those of these fetches for a face that nothing waits for any more.
    fn end_fetches(&mut self, required: &[Name], face_id: u64) {
        let principal = self.principal(face_id);
        let is_queued = |name: &Name| self.requests.has(name, face_id, principal);
        self.authorization.end_fetches(required, face_id, is_queued);
    }

    /// Adds a face. A face that is known stays as it is.
    pub fn face_created(&mut self, now: Now, record: FaceRecord) {
        if self.faces.get(record.properties.face_id).is_some() {
            return;
        }
        self.datasets.notify(now, FaceEventKind::Created, &record, &mut self.outbox);
        self.faces.insert(record);
    }

    /// Removes a destroyed face with its routes and next hops. Many of them are removed in slices, see
    /// [`ControlState::is_changing_routes`].
    pub fn face_destroyed(&mut self, now: Now, face_id: u64) {
        let Some(record) = self.faces.remove(face_id) else { return };
        self.routes.face_destroyed(face_id, record.keeper.unwrap_or(record.principal));
        self.authorization.face_destroyed(face_id);
        self.datasets.notify(now, FaceEventKind::Destroyed, &record, &mut self.outbox);
    }

    /// Reports that a face lost or regained its link.
    pub fn face_changed_state(&mut self, now: Now, face_id: u64, is_up: bool) {
        let Some(record) = self.faces.get(face_id) else { return };
        let kind = if is_up { FaceEventKind::Up } else { FaceEventKind::Down };
        self.datasets.notify(now, kind, record, &mut self.outbox);
    }

    /// Adds a receiver of events of faces, which is called in [`ControlState::face_created`] and the like.
    pub fn add_face_event_sink(&mut self, sink: FaceEventSink) {
        self.datasets.add_sink(sink);
    }

    /// Adds a receiver of events of routes and strategies, which is called in [`ControlState::poll_action`].
    pub fn add_routing_event_sink(&mut self, sink: RoutingEventSink) {
        self.routing_events.add(sink, (&mut self.routes.rib, &mut self.strategies));
    }

    /// The first items of a part of a table.
    #[must_use]
    pub fn table_part(
        &mut self,
        now: Now,
        part: &TablePart,
        items_max: usize,
        telemetry: &dyn Telemetry,
    ) -> TableItems {
        let (_, tables, _) = self.dataset_service(telemetry);
        parts::encode_part(now, part, items_max, &tables)
    }

    /// Sets the MTU of a face whose path has changed.
    pub fn face_resized(&mut self, face_id: u64, mtu: u64) {
        self.faces.resize(face_id, mtu);
    }

    /// The time of the next call of [`ControlState::handle_timeout`].
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let deadlines = [
            self.routes.next_deadline(),
            self.pending.next_deadline(),
            self.datasets.next_deadline(&self.routes, &self.faces),
            self.authorization.next_deadline(),
            self.readvertising.next_deadline(&self.routes.rib),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Handles deadlines: expired routes (many of them in slices, see [`ControlState::is_changing_routes`]), waiting commands,
    /// certificates to request again, commands to issue. [`ControlState::continue_listings`] completes large datasets.
    pub fn handle_timeout(&mut self, now: Now) {
        self.routes.expire_routes(now.monotonic);
        self.routes.continue_changing();
        self.pending.handle_timeout(now.monotonic);
        self.datasets.handle_timeout(now, &mut self.routes, &mut self.faces);
        let (authorization, mut cx) = self.authorizing(now);
        for expired in authorization.handle_timeout(&mut cx) {
            self.end_waiting(expired);
        }
        let (routes, signer) = (&mut self.routes, &mut *self.command_signer);
        self.readvertising.handle_timeout(now, routes, signer, &mut self.outbox);
    }

    /// The next action. FIB updates come first, in one batch per call.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.routing_events.publish((&mut self.routes.rib, &mut self.strategies));
        self.routes.poll_updates().or_else(|| self.outbox.pop())
    }

    /// The result of a request, and the face that it came from.
    pub fn poll_outcome(&mut self) -> Option<(u64, RequestOutcome)> {
        self.outcomes.pop_front()
    }

    /// Whether this process can read the trust anchors that are refreshed from files.
    ///
    /// # Errors
    /// The anchors that cannot be read, and the reason.
    pub fn check_anchors(&self) -> Result<(), String> {
        self.authorization.check_anchors()
    }

    /// The next change of refreshed trust anchors.
    pub fn poll_anchor_change(&mut self) -> Option<AnchorChange> {
        self.authorization.poll_anchor_change()
    }

    /// Whether routes or next hops of destroyed faces, or expired routes, remain to be removed, or changed routes to be
    /// inherited by longer prefixes: [`handle_timeout`](Self::handle_timeout) continues with every call.
    #[must_use]
    pub fn is_changing_routes(&self) -> bool {
        self.routes.is_changing()
    }

    /// Encodes one slice of each dataset of a large table that is being encoded; to be called while
    /// [`is_listing`](Self::is_listing), between other work.
    pub fn continue_listings(&mut self, now: Now, telemetry: &dyn Telemetry) {
        let (datasets, mut tables, outbox) = self.dataset_service(telemetry);
        datasets.continue_listings(now, &mut tables, outbox);
    }

    /// Whether a dataset of a large table is being encoded.
    #[must_use]
    pub fn is_listing(&self) -> bool {
        self.datasets.is_listing(&self.faces)
    }

    fn dataset_service<'a>(
        &'a mut self,
        telemetry: &'a dyn Telemetry,
    ) -> (&'a mut DatasetService, Tables<'a>, &'a mut Outbox) {
        let tables = Tables {
            config: &self.config,
            routes: &mut self.routes,
            faces: &mut self.faces,
            strategies: &self.strategies,
            cs: self.cs,
            telemetry,
        };
        (&mut self.datasets, tables, &mut self.outbox)
    }
}

/// Authorization: commands that wait for certificates, prefix announcements.
impl ControlState {
    /// Routes `/localhost/nfd`, and `/localhop/nfd` if it is enabled, to management's own face, as NFD does at start. Unlike
    /// in NFD, they inherit nothing of shorter prefixes, and `/localhop/nfd` has a strategy of its own.
    ///
    /// # Errors
    /// [`RouteError`] if the tables are full.
    pub fn register_management(&mut self) -> Result<(), RouteError> {
        self.register_top_prefixes(self.authorization.is_localhop_enabled())
    }

    fn register_top_prefixes(&mut self, is_localhop_enabled: bool) -> Result<(), RouteError> {
        self.add_route(TopPrefix::Localhost.to_name().as_ref(), MANAGEMENT_ROUTE)?;
        if is_localhop_enabled {
            self.add_route(TopPrefix::Localhop.to_name().as_ref(), MANAGEMENT_ROUTE)?;
        }
        self.strategies.serve_localhop(is_localhop_enabled, &mut self.outbox);
        Ok(())
    }

    /// Sets the user IDs whose programs act for operators: those that may do everything anyway.
    pub fn set_operator_users(&mut self, users: Vec<u32>) {
        self.authorization.set_operator_users(users);
    }

    /// Sets further operators, and whether all others can change only what is theirs. A user that is no operator any more
    /// loses its routes for the names of the routing daemon.
    pub fn set_operators(&mut self, operators: Operators) {
        let former = self.authorization.set_operators(operators);
        self.take_names_of_daemon(&former);
    }

    /// Removes the routes and next hops for the names of the routing daemon that are not of operators, while there may be
    /// commands for it, and those that lead to `former` operators.
    fn take_names_of_daemon(&mut self, former: &[u32]) {
        let range = NameRange { prefix: ReadvertiseOptions::nlsr().prefix, after: None };
        let is_reserved = self.readvertising.is_for_daemon(range.prefix.as_ref());
        let is_former = |face: &FaceRecord| {
            let keeper = face.keeper.unwrap_or(face.principal);
            matches!(keeper, PrincipalKey::LocalApplication { uid, .. } if former.contains(&uid))
        };
        let authority_of = |owner| self.authorization.authority_of(owner, Authority::Requester);
        let removed = self.routes.remove_range(&range, |owner, face_id| match owner {
            Some(owner) => is_reserved && authority_of(owner) == Authority::Requester,
            None => self.faces.get(face_id).is_some_and(is_former),
        });
        for (prefix, face_id, origin) in removed {
            self.outbox.push(Action::ForgetRoute { prefix, face_id, origin });
        }
    }

    /// Only operators add routes for the names of the routing daemon.
    fn check_for_daemon(
        &self,
        prefix: NameRef<'_>,
        owner: Option<PrincipalKey>,
    ) -> Result<(), RouteError> {
        let is_allowed = owner.is_none() || !self.readvertising.is_for_daemon(prefix);
        is_allowed.then_some(()).ok_or(RouteError::ForOperators)
    }

    /// Replaces the authorizer. The route of `/localhop/nfd` is added or removed accordingly.
    ///
    /// # Errors
    /// [`RouteError`] if there is no room for management's routes; the previous authorizer stays.
    pub fn set_authorizer(
        &mut self,
        authorizer: Box<dyn Authorizer + Send>,
    ) -> Result<(), RouteError> {
        let is_localhop_enabled = authorizer.is_localhop_enabled();
        self.register_top_prefixes(is_localhop_enabled)?;
        if !is_localhop_enabled {
            let localhop = TopPrefix::Localhop.to_name();
            self.remove_route(localhop.as_ref(), FACE_ID_INTERNAL, route_origin::APP);
        }
        self.authorization.replace_authorizer(authorizer);
        Ok(())
    }

    fn refuse(
        &mut self,
        name: NameRef<'_>,
        verb: Verb,
        response: &ControlResponse,
        signer: String,
        reason: String,
    ) -> RequestOutcome {
        self.counters.refused += 1;
        self.outbox.respond(name, response);
        RequestOutcome::Refused { verb, signer, code: response.code, reason }
    }

    fn refuse_untrusted(
        &mut self,
        name: NameRef<'_>,
        (verb, signer): (Verb, String),
        reason: String,
    ) -> RequestOutcome {
        let text = format!("authorization rejected: {reason}");
        let response = ControlResponse::new(status::FORBIDDEN, text);
        self.refuse(name, verb, &response, signer, reason)
    }

    /// Lets a command wait for certificates, which are fetched from the requester's face and from the network.
    fn wait_for_certificates(
        &mut self,
        now: Now,
        interest: &Interest<'_>,
        unverified: Unverified,
        (verb, signer, search): (Verb, String, Search),
    ) -> RequestOutcome {
        let Unverified { requester, mut progress } = unverified;
        if !self.authorization.note_search(now, requester.face_id, &mut progress, search) {
            let reason = progress.refusal();
            return self.refuse_untrusted(interest.name(), (verb, signer), reason);
        }
        let handled = RequestOutcome::Command { verb, signer: signer.clone(), code: None };
        let wire = interest.wire().to_vec();
        let command = WaitingCommand { wire, requester, verb, signer, progress };
        match self.wait(now, WaitingRequest::Command(Box::new(command))) {
            Some(WaitingRequest::Command(command)) => self.refuse_waiting(*command),
            Some(WaitingRequest::Announcement(_)) | None => handled,
        }
    }

    fn principal(&self, face_id: u64) -> PrincipalKey {
        self.faces.get(face_id).map_or(PrincipalKey::OTHER, |face| face.principal)
    }

    /// The principal of a request from this face, or from the control socket.
    fn requester(&self, face_id: u64) -> PrincipalKey {
        match face_id {
            NO_FACE => PrincipalKey::Management,
            face_id => self.principal(face_id),
        }
    }

    /// Verifies a command again, with one certificate more.
    fn verify_waiting(&mut self, now: Now, command: WaitingCommand) -> RequestOutcome {
        let WaitingCommand { wire, requester, mut progress, .. } = command;
        let Ok(interest) = &Interest::parse(&wire) else { return RequestOutcome::Malformed };
        let (required, fetched) = (progress.names(), progress.certificates());
        let (arrival, mut is_used) = (progress.take_last(), true);
        let handled = match self.authorization.dispatch(now, interest, requester, &fetched) {
            Dispatch::NeedsCertificates { verb, signer, search } => {
                is_used = arrival.as_ref().is_none_or(|one| progress.is_followed(&search, one));
                let unverified = Unverified { requester, progress };
                self.wait_for_certificates(now, interest, unverified, (verb, signer, search))
            }
            Dispatch::Refuse { verb, response, signer, reason } => {
                self.refuse(interest.name(), verb, &response, signer, reason)
            }
            Dispatch::Execute(command) => self.execute((now, interest.name(), requester), *command),
            Dispatch::Ignore(reason) => RequestOutcome::Ignored(reason),
            // A command is dispatched as a command every time.
            Dispatch::Publish { .. }
            | Dispatch::NackDataset(_)
            | Dispatch::Stored
            | Dispatch::Events => RequestOutcome::Malformed,
        };
        self.note_judgement(now, requester.face_id, &required, (arrival, is_used));
        handled
    }

    /// Ends the wait for certificates that did not arrive in time, or that nobody has a place for.
    fn end_waiting(&mut self, waiting: WaitingRequest) {
        match waiting {
            WaitingRequest::Command(command) => {
                let face_id = command.requester.face_id;
                let handled = self.refuse_waiting(*command);
                self.outcomes.push_back((face_id, handled));
            }
            WaitingRequest::Announcement(announcement) => {
                self.end_fetches(&announcement.progress.names(), announcement.face_id);
            }
        }
    }

    /// Refuses a command that no longer waits.
    fn refuse_waiting(&mut self, command: WaitingCommand) -> RequestOutcome {
        let WaitingCommand { wire, requester, verb, signer, progress } = command;
        self.end_fetches(&progress.names(), requester.face_id);
        let Ok(interest) = Interest::parse(&wire) else { return RequestOutcome::Malformed };
        self.refuse_untrusted(interest.name(), (verb, signer), progress.refusal())
    }

    /// Takes the announcement that arrived with the Data `name` on `face_id`; [`ControlState::handle_next`] adds its route
    /// if it is trusted. It has to announce a prefix of that name.
    pub fn receive_announcement(
        &mut self,
        now: Now,
        face_id: u64,
        name: NameRef<'_>,
        wire: Vec<u8>,
    ) {
        let announced = Data::parse(&wire).ok().and_then(|data| {
            let announcement = PrefixAnnouncement::from_data(&data).ok()?;
            Some(announcement.prefix)
        });
        // A malformed announcement is refused below.
        if let Some(prefix) = announced
            && !name.starts_with(prefix.as_ref())
        {
            let reason =
                format!("{prefix} is no prefix of the Data {} that it came with", name.to_uri());
            let refused = RequestOutcome::Announcement(Learning::Refused(reason));
            return self.outcomes.push_back((face_id, refused));
        }
        let progress = Progress::new(now.monotonic + FETCH_TIME_MAX);
        let announcement = WaitingAnnouncement { wire, face_id, progress };
        self.queue(face_id, Queued::Judge(WaitingRequest::Announcement(Box::new(announcement))));
    }

    /// Takes an Interest with this name that a face refused; [`ControlState::handle_next`] removes the longest learnt route
    /// for it to the face, after it has judged the announcements that came before.
    pub fn receive_refusal(&mut self, face_id: u64, name: Name) {
        self.queue(face_id, Queued::Forget { name, face_id });
    }

    /// Removes the longest learnt route for `name` to a face; returns its prefix if it existed. Announcements of such routes
    /// wait for certificates no longer.
    fn forget(&mut self, face_id: u64, name: NameRef<'_>) -> Option<Name> {
        let is_for = |waiting: &WaitingRequest| match waiting {
            WaitingRequest::Command(_) => false,
            WaitingRequest::Announcement(one) => one.face_id == face_id && one.covers(name),
        };
        for waiting in self.authorization.take_if(is_for) {
            self.end_waiting(waiting);
        }
        let origin = route_origin::PREFIX_ANNOUNCEMENT;
        let mut prefixes = (0..=name.len()).rev().map(|length| name.prefix(length));
        let rib = &self.routes.rib;
        let prefix = prefixes.find(|prefix| rib.find(*prefix, face_id, origin).is_some())?;
        self.remove_route(prefix, face_id, origin);
        let prefix = prefix.to_name();
        self.announcements.remove(&prefix, face_id);
        Some(prefix)
    }

    /// The announcement to forward with a Data of this name: that of the longest prefix with routes, as it was received
    /// with one of them, or else a new one.
    pub fn find_announcement(&mut self, now: Now, name: NameRef<'_>) -> Option<Vec<u8>> {
        self.announcements.find(now, &self.routes.rib, name, &mut *self.outbox.signer)
    }

    fn judge_announcement(&mut self, now: Now, mut waiting: WaitingAnnouncement) -> Learning {
        let refused = |reason: &dyn ToString| Learning::Refused(reason.to_string());
        let data = match Data::parse(&waiting.wire) {
            Ok(data) => data,
            Err(error) => return refused(&error),
        };
        let announcement = match PrefixAnnouncement::from_data(&data) {
            Ok(announcement) => announcement,
            Err(error) => return refused(&error),
        };
        let face_id = waiting.face_id;
        let (required, fetched) = (waiting.progress.names(), waiting.progress.certificates());
        let validation = self.authorization.authorize_announcement(now, &data, &fetched);
        let (arrival, mut is_used) = (waiting.progress.take_last(), true);
        let learning = match validation {
            Validation::Accepted => self.learn(now, announcement, &waiting),
            Validation::Refused(error) => refused(&error),
            Validation::NeedsCertificates(search) => {
                let progress = &waiting.progress;
                is_used = arrival.as_ref().is_none_or(|one| progress.is_followed(&search, one));
                self.announcement_waits(now, waiting, search)
            }
        };
        self.note_judgement(now, face_id, &required, (arrival, is_used));
        learning
    }

    /// Adds the route of a trusted announcement.
    fn learn(
        &mut self,
        now: Now,
        announcement: PrefixAnnouncement,
        WaitingAnnouncement { wire, face_id, .. }: &WaitingAnnouncement,
    ) -> Learning {
        let refused = |reason: &dyn ToString| Learning::Refused(reason.to_string());
        let face_id = *face_id;
        let Some(valid_until) = announcement.expires_at(now) else {
            return refused(&"it is not valid at this time");
        };
        let route = learning::learnt_route(now, face_id, valid_until);
        let prefix = announcement.prefix;
        if TopPrefix::of(prefix.as_ref()).is_some() {
            return refused(&"names of management are not learnt");
        }
        let owner = self.principal(face_id).without_process();
        match self.add_owned_route(prefix.as_ref(), route, Some(owner)) {
            Ok(()) => {
                let (rib, kept) = (&self.routes.rib, (&**wire, valid_until));
                self.announcements.keep((now, rib), (&prefix, face_id), owner, kept);
                Learning::Learnt(prefix)
            }
            Err(error) => refused(&error),
        }
    }

    /// Lets an announcement wait for certificates.
    fn announcement_waits(
        &mut self,
        now: Now,
        mut waiting: WaitingAnnouncement,
        search: Search,
    ) -> Learning {
        let face_id = waiting.face_id;
        if !self.authorization.note_search(now, face_id, &mut waiting.progress, search) {
            return Learning::Refused(waiting.progress.refusal());
        }
        match self.wait(now, WaitingRequest::Announcement(Box::new(waiting))) {
            Some(refused) => {
                self.end_fetches(&refused.progress().names(), face_id);
                Learning::Refused(refused.progress().refusal())
            }
            None => Learning::Waiting,
        }
    }
}

/// Commands, and the same operations for the forwarder's own configuration.
impl ControlState {
    fn execute(
        &mut self,
        (now, name, requester): (Now, NameRef<'_>, Requester),
        command: AcceptedCommand,
    ) -> RequestOutcome {
        let success = command.success();
        let AcceptedCommand { verb, request, parameters, signer, authority } = command;
        let principal = self.requester(requester.face_id);
        let authority = self.authorization.authority_of(principal, authority);
        let executing = Executing { now, name, principal, authority };
        // A slice of a removal, which no command waits for, may have made the requested change.
        if request.is_about_next_hops() {
            self.routes.await_updates();
        }
        let refusal = match executing.authority {
            Authority::Operator => None,
            Authority::Requester => self.refusal(&request, principal),
        };
        let outcome = match request {
            _ if let Some(reason) = refusal => Outcome::reply(status::FORBIDDEN, reason),
            // NFD removes its own next hop, and gives no answer from then on.
            request if request.is_about_management() => {
                Outcome::reply(status::CONFLICT, "Management's own route cannot be changed")
            }
            Request::FaceCreate { remote, local, persistency, options } => {
                let keeper = executing.keeper();
                let specification =
                    FaceSpecification { remote, local, persistency, keeper, options };
                self.create_face(executing, specification)
            }
            Request::FaceUpdate { face_id, persistency, options } => {
                self.update_face(executing, face_id, (persistency, options))
            }
            Request::FaceDestroy { face_id } => self.destroy_face(face_id, success),
            Request::FibAddNextHop { prefix, face_id, cost } => {
                let next_hop = NextHop { face_id, cost };
                self.fib_add_next_hop(&prefix, next_hop, executing.keeper(), success)
            }
            Request::FibRemoveNextHop { prefix, face_id } => {
                self.routes.remove_next_hop(&prefix, face_id);
                self.outbox.push(Action::ForgetRoute { prefix, face_id, origin: None });
                Outcome::Reply(success)
            }
            Request::CsConfig { capacity, admit, serve } => self.cs_config(capacity, admit, serve),
            Request::CsErase { prefix, count } => self.cs_erase(executing, prefix, count),
            Request::StrategySet { prefix, strategy } => {
                let choice = (&prefix, strategy.as_ref());
                self.strategy_set(choice, executing.keeper(), parameters)
            }
            Request::StrategyUnset { prefix } => {
                self.unset_strategy(&prefix);
                Outcome::Reply(success)
            }
            Request::RibRegister { prefix, face_id, origin, cost, flags, expiration_period_ms } => {
                let expires_at = expiration_period_ms
                    .map(|period_ms| executing.now.monotonic.plus_millis(period_ms))
                    .filter(|at| *at < Timestamp::MAX);
                let route = Route { face_id, origin, cost, flags, expires_at };
                self.rib_register(executing, prefix.as_ref(), route, success)
            }
            Request::RibUnregister { prefix, face_id, origin } => {
                self.take_route_back(prefix.as_ref(), face_id, origin);
                Outcome::Reply(success)
            }
            Request::RibAnnounce { face_id, announcement } => {
                self.rib_announce(executing, face_id, &announcement, success)
            }
        };
        self.counters.commands += 1;
        match outcome {
            Outcome::Deferred => RequestOutcome::Command { verb, signer, code: None },
            Outcome::Reply(response) => {
                self.outbox.respond(executing.name, &response);
                RequestOutcome::Command { verb, signer, code: Some(response.code) }
            }
        }
    }

    /// The reason why only an operator may send this request.
    fn refusal(&self, request: &Request, principal: PrincipalKey) -> Option<&'static str> {
        let is_for_daemon = |prefix: &Name| self.readvertising.is_for_daemon(prefix.as_ref());
        if request.is_under_management() {
            Some("Names of management are for operators")
        } else if request.changed_prefix().is_some_and(is_for_daemon) {
            Some("The names of the routing daemon are for operators (management.operators)")
        } else if self.authorization.protects_others() && !self.is_own(request, principal) {
            Some("Only operators change what belongs to others")
        } else {
            None
        }
    }

    /// Whether a request changes only what belongs to its principal, or adds something.
    fn is_own(&self, request: &Request, principal: PrincipalKey) -> bool {
        let own = principal.without_process();
        // The owner is not known: many users of the range share it.
        let is_shared = |owner| matches!(owner, PrincipalKey::UserRange { .. });
        let is_own = |owner: PrincipalKey| own.is_within(owner) && !is_shared(owner);
        let is_own_face = |face_id: u64| {
            let of = |face: &FaceRecord| face.keeper.unwrap_or(face.principal).without_process();
            self.faces.get(face_id).is_some_and(|face| is_own(of(face)))
        };
        // A route of a face that is away is added again when the face returns.
        let has_face = |face_id: u64| self.faces.get(face_id).is_some();
        match request {
            Request::FaceCreate { .. } => true,
            Request::FaceUpdate { face_id, .. } | Request::FaceDestroy { face_id } => {
                is_own_face(*face_id)
            }
            Request::FibAddNextHop { prefix, face_id, .. }
            | Request::FibRemoveNextHop { prefix, face_id } => {
                let hops = self.routes.fib.find(prefix.as_ref()).unwrap_or_default();
                match hops.iter().any(|hop| hop.face_id == *face_id) {
                    true => self.routes.next_hop_owner(prefix, *face_id).is_some_and(is_own),
                    false => has_face(*face_id),
                }
            }
            Request::RibRegister { prefix, face_id, origin, .. }
            | Request::RibUnregister { prefix, face_id, origin } => {
                let prefix = prefix.as_ref();
                match self.routes.rib.find(prefix, *face_id, *origin) {
                    Some(_) => {
                        self.routes.route_owner(prefix, *face_id, *origin).is_some_and(is_own)
                    }
                    None => has_face(*face_id),
                }
            }
            Request::RibAnnounce { .. } => true,
            Request::CsConfig { capacity, admit, serve } => {
                (capacity, admit, serve) == (&None, &None, &None)
            }
            Request::CsErase { .. }
            | Request::StrategySet { .. }
            | Request::StrategyUnset { .. } => false,
        }
    }

    /// Adds or changes a route, as an operator.
    ///
    /// # Errors
    /// [`RouteError`]; nothing is changed then.
    pub fn add_route(&mut self, prefix: NameRef<'_>, route: Route) -> Result<(), RouteError> {
        self.add_owned_route(prefix, route, None)
    }

    /// Adds or changes a route. A new one is charged to `owner`, unless an operator adds it (`None`).
    ///
    /// # Errors
    /// [`RouteError`]; nothing is changed then.
    pub fn add_owned_route(
        &mut self,
        prefix: NameRef<'_>,
        route: Route,
        owner: Option<PrincipalKey>,
    ) -> Result<(), RouteError> {
        if prefix.len() > PREFIX_DEPTH_MAX {
            return Err(RouteError::PrefixTooLong);
        }
        if self.faces.get(route.face_id).is_none() {
            return Err(RouteError::NoFace(route.face_id));
        }
        self.check_for_daemon(prefix, owner)?;
        self.routes.add_route(prefix, route, owner)
    }

    /// Removes a route; returns whether it existed.
    pub fn remove_route(&mut self, prefix: NameRef<'_>, face_id: u64, origin: u64) -> bool {
        self.routes.remove_route(prefix, face_id, origin)
    }

    /// Removes a route by command. It may be one of a face that is being re-established, whose routes are added later.
    fn take_route_back(&mut self, prefix: NameRef<'_>, face_id: u64, origin: u64) {
        self.remove_route(prefix, face_id, origin);
        let (prefix, origin) = (prefix.to_name(), Some(origin));
        self.outbox.push(Action::ForgetRoute { prefix, face_id, origin });
    }

    fn rib_register(
        &mut self,
        executing: Executing<'_>,
        prefix: NameRef<'_>,
        route: Route,
        success: ControlResponse,
    ) -> Outcome {
        // A period of zero ends an existing route and makes no new one.
        if route.expires_at.is_some_and(|at| at <= executing.now.monotonic)
            && prefix.len() <= PREFIX_DEPTH_MAX
        {
            self.take_route_back(prefix, route.face_id, route.origin);
            return Outcome::Reply(success);
        }
        match self.add_owned_route(prefix, route, executing.keeper()) {
            // As in NFD, the answer does not depend on the existence of the face.
            Ok(()) | Err(RouteError::NoFace(_)) => Outcome::Reply(success),
            Err(error) => Outcome::Reply(error.response("Route prefix")),
        }
    }

    fn rib_announce(
        &mut self,
        executing: Executing<'_>,
        face_id: u64,
        announcement: &PrefixAnnouncement,
        success: ControlResponse,
    ) -> Outcome {
        let Some(expires_at) = announcement.expires_at(executing.now) else {
            let text = "Prefix announcement is not valid at this time";
            return Outcome::reply(status::NOT_ACCEPTABLE, text);
        };
        let route = Route {
            face_id,
            origin: route_origin::PREFIX_ANNOUNCEMENT,
            cost: ANNOUNCEMENT_COST,
            flags: route_flag::CHILD_INHERIT,
            expires_at: Some(expires_at),
        };
        self.rib_register(executing, announcement.prefix.as_ref(), route, success)
    }

    fn fib_add_next_hop(
        &mut self,
        prefix: &Name,
        next_hop: NextHop,
        owner: Option<PrincipalKey>,
        success: ControlResponse,
    ) -> Outcome {
        match self.add_owned_next_hop(prefix, next_hop, owner) {
            Ok(()) => Outcome::Reply(success),
            Err(error) => Outcome::Reply(error.response("FIB entry prefix")),
        }
    }

    /// Adds a next hop to the FIB alone, or changes its cost, as an operator.
    ///
    /// # Errors
    /// [`RouteError`]; nothing is changed then.
    pub fn add_next_hop(&mut self, prefix: &Name, next_hop: NextHop) -> Result<(), RouteError> {
        self.add_owned_next_hop(prefix, next_hop, None)
    }

    /// As [`add_next_hop`](Self::add_next_hop). A new one is charged to `owner`, unless an operator adds it (`None`).
    ///
    /// # Errors
    /// [`RouteError`]; nothing is changed then.
    pub fn add_owned_next_hop(
        &mut self,
        prefix: &Name,
        next_hop: NextHop,
        owner: Option<PrincipalKey>,
    ) -> Result<(), RouteError> {
        if prefix.len() > PREFIX_DEPTH_MAX {
            return Err(RouteError::PrefixTooLong);
        }
        if self.faces.get(next_hop.face_id).is_none() {
            return Err(RouteError::NoFace(next_hop.face_id));
        }
        self.check_for_daemon(prefix.as_ref(), owner)?;
        self.routes.add_next_hop(prefix, next_hop, owner)
    }

    /// Changes settings of the Content Store; `None` leaves a setting as it is. Returns the resulting settings.
    pub fn configure_cs(
        &mut self,
        capacity: Option<u64>,
        admit: Option<bool>,
        serve: Option<bool>,
    ) -> CsConfiguration {
        let requested = CsConfiguration {
            capacity: capacity.unwrap_or(self.cs.capacity).min(self.config.cs_capacity_max),
            admit: admit.unwrap_or(self.cs.admit),
            serve: serve.unwrap_or(self.cs.serve),
        };
        if requested != self.cs {
            self.cs = requested;
            self.outbox.push(Action::ConfigureCs(requested));
        }
        requested
    }

    fn cs_config(
        &mut self,
        capacity: Option<u64>,
        admit: Option<bool>,
        serve: Option<bool>,
    ) -> Outcome {
        let requested = self.configure_cs(capacity, admit, serve);
        let mut body = ControlParameters {
            capacity: Some(requested.capacity),
            ..ControlParameters::default()
        };
        body.set_flag(cs_flag::ADMIT, requested.admit);
        body.set_flag(cs_flag::SERVE, requested.serve);
        body.mask = None;
        Outcome::Reply(ControlResponse::new(status::OK, "OK").with_body(&body))
    }

    fn cs_erase(&mut self, executing: Executing<'_>, prefix: Name, count: Option<u64>) -> Outcome {
        let limit = count.unwrap_or(u64::MAX).min(CS_ERASE_LIMIT);
        let work = Work::EraseCs { prefix: prefix.clone(), count };
        let Some(Placed { ticket, .. }) = self.add_pending(executing, work) else {
            return Outcome::busy();
        };
        let erasure = Erasure { ticket, prefix, limit };
        let erasure = self.pending.begin_erasure(executing.principal.without_process(), erasure);
        self.request_erasure(erasure);
        Outcome::Deferred
    }

    fn request_erasure(&mut self, erasure: Option<Erasure>) {
        if let Some(Erasure { ticket, prefix, limit }) = erasure {
            self.outbox.push(Action::EraseCs { ticket, prefix, limit, is_whole_name: false });
        }
    }

    /// Reports the end of [`Action::EraseCs`]: the number of erased packets, and whether more remain under the prefix.
    pub fn cs_erase_done(&mut self, ticket: Ticket, erased: u64, more_remain: bool) {
        let next = self.pending.end_erasure(ticket);
        self.request_erasure(next);
        let Some(Pending { claims, work: Work::EraseCs { prefix, count }, .. }) =
            self.pending.take(ticket)
        else {
            return;
        };
        let was_limited =
            erased >= CS_ERASE_LIMIT && count.is_none_or(|count| count > CS_ERASE_LIMIT);
        let body = ControlParameters {
            name: Some(prefix),
            count: Some(erased),
            capacity: (was_limited && more_remain).then_some(CS_ERASE_LIMIT),
            ..ControlParameters::default()
        };
        let response = ControlResponse::new(status::OK, "OK").with_body(&body);
        for name in claims.iter().filter_map(|claim| claim.name.as_ref()) {
            // Cached, the next command would erase and count it: a client repeats the command until nothing is left.
            self.outbox.respond_uncached(name.as_ref(), &response);
        }
    }

    /// Lets a command wait for the data plane; `None` if its principal has too many. A command that gives way is answered,
    /// and its face is not created any more unless others wait for it.
    fn add_pending(&mut self, executing: Executing<'_>, work: Work) -> Option<Placed> {
        let Executing { now, name, principal, .. } = executing;
        let command = NewCommand { now, name, principal, keeper: executing.keeper() };
        let mut placed = self.pending.add(command, work)?;
        if let Some(Displaced { name, abandoned }) = placed.displaced.take() {
            let busy = ControlResponse::new(status::INTERNAL_ERROR, TOO_MANY);
            name.iter().for_each(|name| self.outbox.respond(name.as_ref(), &busy));
            if let Some((ticket, Work::CreateFace { .. })) = abandoned {
                self.outbox.push(Action::CancelFace { ticket });
            }
        }
        Some(placed)
    }

    fn create_face(
        &mut self,
        executing: Executing<'_>,
        specification: FaceSpecification,
    ) -> Outcome {
        if let Err(reason) = faces::check_protocol(&specification, &self.config.face_schemes) {
            return Outcome::reply(status::NOT_ACCEPTABLE, reason);
        }
        let remote_uri = specification.remote.to_string();
        let local_uri = specification.local.as_ref().map(ToString::to_string);
        if let Some(existing) = self.faces.find(&remote_uri, local_uri.as_deref()) {
            let (face_id, response) = (existing.properties.face_id, existing.already_exists());
            if executing.keeper().is_none() {
                self.change_keeper(face_id, None);
            }
            return Outcome::Reply(response);
        }
        // A station may be reachable through several interfaces.
        let remote_uri = local_uri.map_or(remote_uri.clone(), |local| remote_uri + " " + &local);
        let work = Work::CreateFace { remote_uri };
        let Some(Placed { ticket, is_new, .. }) = self.add_pending(executing, work) else {
            return Outcome::busy();
        };
        if is_new {
            let specification = Box::new(specification);
            self.outbox.push(Action::CreateFace { ticket, specification });
        } else {
            self.pending.joined(ticket, executing.name, specification);
        }
        Outcome::Deferred
    }

    /// Reports the end of [`Action::CreateFace`]. [`ControlState::face_created`] may have been called for the face before,
    /// but need not be.
    pub fn face_creation_done(
        &mut self,
        now: Now,
        ticket: Ticket,
        result: Result<CreatedFace, FaceCreationError>,
    ) {
        let result = result.map_err(|error| ControlResponse::new(error.code, error.reason));
        if let Err(response) = &result
            && let Some(retry) = self.pending.retry(now, ticket)
        {
            let Retry { ticket, specification, failed } = retry;
            self.respond_to(&failed, response);
            return self.outbox.push(Action::CreateFace { ticket, specification });
        }
        let claims = self.pending.take(ticket).map(|pending| pending.claims).unwrap_or_default();
        let (record, is_new) = match result {
            Ok(CreatedFace::New(record)) => (record, true),
            Ok(CreatedFace::Existing(record)) => (record, false),
            Err(response) => return self.respond_to(&claims, &response),
        };
        let created = ControlResponse::new(status::OK, "OK").with_body(&record.create_response());
        let (exists, face_id) = (record.already_exists(), record.properties.face_id);
        self.face_created(now, record);
        self.leave_face_to(&claims, face_id, is_new);
        let (first, others) = claims.split_at(claims.len().min(usize::from(is_new)));
        self.respond_to(first, &created);
        self.respond_to(others, &exists);
    }

    fn respond_to(&mut self, claims: &[Claim], response: &ControlResponse) {
        for name in claims.iter().filter_map(|claim| claim.name.as_ref()) {
            self.outbox.respond(name.as_ref(), response);
        }
    }

    /// Decides who keeps a face that several commands requested: an operator, if one of them is an operator's. A user whose
    /// command gave way does not keep it.
    fn leave_face_to(&mut self, claims: &[Claim], face_id: u64, is_new: bool) {
        let Some(kept_by) = self.faces.get(face_id).map(|face| face.keeper) else { return };
        let has = |keeper| claims.iter().any(|claim| claim.keeper == keeper);
        if has(None) {
            self.change_keeper(face_id, None);
        } else if let Some(first) = claims.first()
            && is_new
            && !has(kept_by)
        {
            self.change_keeper(face_id, first.keeper);
        }
    }

    /// Another principal, or an operator, keeps a face that a user keeps; others stay as they are.
    fn change_keeper(&mut self, face_id: u64, keeper: Option<PrincipalKey>) {
        let face = self.faces.get(face_id).filter(|face| face.keeper.is_some());
        if let Some(persistency) = face.map(|face| face.properties.persistency) {
            self.keep_face(face_id, persistency, keeper);
        }
    }

    fn keep_face(&mut self, face_id: u64, persistency: Persistency, keeper: Option<PrincipalKey>) {
        let Some(face) = self.faces.change(face_id) else { return };
        face.keep(persistency, keeper);
        let keeper = face.keeper;
        let (persistency, options) = (Some(persistency), FaceOptions::default());
        self.outbox.push(Action::UpdateFace { face_id, persistency, keeper, options });
    }

    fn update_face(
        &mut self,
        executing: Executing<'_>,
        face_id: u64,
        (persistency, options): (Option<u64>, FaceOptions),
    ) -> Outcome {
        let Some(face) = self.faces.change(face_id) else {
            return Outcome::reply(status::NOT_FOUND, "Specified face does not exist");
        };
        if let Some(conflicts) = face.conflicts(persistency, &options) {
            let response = ControlResponse::new(status::CONFLICT, "Invalid properties specified");
            return Outcome::Reply(response.with_body(&conflicts));
        }
        let persistency = persistency.and_then(Persistency::from_number);
        if let Some(persistency) = persistency {
            face.keep(persistency, executing.keeper());
        }
        face.apply(&options);
        let keeper = face.keeper;
        let response = ControlResponse::new(status::OK, "OK").with_body(&face.update_response());
        // A change of management's own face is confirmed and has no effect: management needs the incoming face of each
        // Interest, and its end does not acknowledge frames.
        if face_id > FACE_ID_RESERVED_MAX {
            self.outbox.push(Action::UpdateFace { face_id, persistency, keeper, options });
        }
        Outcome::Reply(response)
    }

    /// Gives an on-demand face, or one of a user, another persistency, as a face of an operator. Another face stays as it is.
    pub fn adopt_face(&mut self, face_id: u64, persistency: Persistency) {
        let is_operators = |face: &FaceRecord| {
            face.properties.persistency != Persistency::OnDemand && face.keeper.is_none()
        };
        if !self.faces.get(face_id).is_none_or(is_operators) {
            self.keep_face(face_id, persistency, None);
        }
    }

    fn destroy_face(&mut self, face_id: u64, success: ControlResponse) -> Outcome {
        if face_id <= FACE_ID_RESERVED_MAX {
            // NFD closes its own internal face here, and gives no answer from then on.
            return Outcome::reply(status::CONFLICT, "Reserved faces cannot be destroyed");
        }
        // A destroyed face may be about to be re-established.
        self.outbox.push(Action::DestroyFace { face_id });
        Outcome::Reply(success)
    }

    /// Makes the [`DEFAULT_STRATEGIES`] choices.
    ///
    /// # Errors
    /// [`StrategyChoiceError`] if the catalog does not have one of them.
    pub fn set_default_strategies(&mut self) -> Result<(), StrategyChoiceError> {
        self.strategies.set_defaults(&mut self.outbox)
    }

    /// Chooses a strategy for a prefix, as an operator; returns the name of the instance.
    ///
    /// # Errors
    /// [`StrategyChoiceError`]; nothing is changed then.
    pub fn set_strategy(
        &mut self,
        prefix: &Name,
        strategy: NameRef<'_>,
    ) -> Result<Name, StrategyChoiceError> {
        self.strategies.set(prefix, strategy, None, &mut self.outbox)
    }

    /// Removes the choice for a prefix other than `/`; returns whether it existed.
    pub fn unset_strategy(&mut self, prefix: &Name) -> bool {
        self.strategies.unset(prefix, &mut self.outbox)
    }

    /// Checks whether all these choices are possible together, after those for the `withdrawn` prefixes are removed; a
    /// prefix of [`DEFAULT_STRATEGIES`] that is withdrawn gets its default again. Choices for other prefixes stay. Changes
    /// nothing: [`ControlState::change_strategies`] does.
    ///
    /// # Errors
    /// The prefix whose choice is not possible, and the reason.
    pub fn plan_strategies<'a>(
        &self,
        withdrawn: impl IntoIterator<Item = &'a Name>,
        chosen: impl IntoIterator<Item = (&'a Name, NameRef<'a>)>,
    ) -> Result<StrategyChanges, (Name, StrategyChoiceError)> {
        self.strategies.plan(withdrawn, chosen)
    }

    /// Makes planned changes; no choice but that of [`Self::set_authorizer`] may be made between the plan and this call.
    pub fn change_strategies(&mut self, changes: StrategyChanges) {
        self.strategies.change(changes, &mut self.outbox);
        // It may have been planned when management did not serve the prefix.
        self.strategies.restore_localhop(&mut self.outbox);
    }

    fn strategy_set(
        &mut self,
        (prefix, strategy): (&Name, NameRef<'_>),
        owner: Option<PrincipalKey>,
        mut parameters: ControlParameters,
    ) -> Outcome {
        match self.strategies.set(prefix, strategy, owner, &mut self.outbox) {
            Ok(instance) => {
                parameters.strategy = Some(instance);
                let response = ControlResponse::new(status::OK, "OK");
                Outcome::Reply(response.with_body(&parameters))
            }
            Err(error) => {
                let code = match error {
                    StrategyChoiceError::Strategy(StrategyError::NotRegistered) => {
                        status::NOT_FOUND
                    }
                    StrategyChoiceError::Strategy(StrategyError::BadParameters(_)) => {
                        status::CONFLICT
                    }
                    StrategyChoiceError::PrefixTooLong => status::NAME_TOO_LONG,
                    StrategyChoiceError::Full | StrategyChoiceError::ShareUsedUp(_) => {
                        status::INTERNAL_ERROR
                    }
                };
                Outcome::reply(code, error.to_string())
            }
        }
    }

    /// Starts or stops the readvertisement of prefixes with routes of origin `client` to a routing daemon under
    /// `/localhost/nlsr`, while that prefix has a route. Its routes that are not of operators are removed.
    pub fn set_readvertise_nlsr(&mut self, is_enabled: bool) {
        self.readvertising.set_nlsr(is_enabled, &mut self.routes.rib);
        self.take_names_of_daemon(&[]);
    }

    /// Starts, changes or stops the registration of this host's prefixes with the router that `/localhop/nfd` leads to,
    /// while that prefix has a route. Prefixes without an identity are checked again.
    pub fn set_propagate(&mut self, options: Option<ReadvertiseOptions>) {
        self.readvertising.set_propagate(options, &mut self.routes.rib);
    }
}

#[cfg(test)]
mod tests;
