//! The interface of the services of the control thread: their events, their deadlines, and the view of the forwarder
//! that a service has during one call.

use std::collections::VecDeque;
use std::fmt::Display;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ndn_caching::PolicyKind;
use ndn_dataplane::{Dataplane, NewFace};
use ndn_face::{CloseReason, FacePrincipals};
use ndn_forwarding::{LearningRequest, LinkEvent};
use ndn_management::request::FaceOptions;
use ndn_management::{FaceRecord, RequestOutcome, Route};
use ndn_memif::Address;
use ndn_packet::Name;
use ndn_sys::clock::Clock;
use ndn_sys::poll::{Interest, Poller};
use ndn_table::{CsReplacement, FaceIndex};
use ndn_types::{FaceUri, Now, Persistency, PrincipalKey, Timestamp};
use tracing::info;

use super::commands::{FaceCommands, Part};
use super::face_table::{FaceTable, KnownFace};
use super::refusals::ConnectionLog;
#[cfg(feature = "vip")]
use super::tokens::TOKEN_VIP;
use super::tokens::{
    TOKEN_ATTEMPTS, TOKEN_HANDSHAKES, TOKEN_INTERNAL, TOKEN_KEY_CHAIN, TOKEN_LINKS,
    TOKEN_LISTENERS, TOKEN_MEMIF, TOKEN_NAMES, TOKEN_SESSIONS,
};
use crate::config::Config;
use crate::destinations::Destinations;
use crate::environment::now;
use crate::faces::{self, FaceSpec};
use crate::listeners::OwnAddresses;
use crate::local_peers::{LocalPeers, PeerIdentity};
use crate::settings;
use crate::streams::LocalEnd;

/// In place of the FaceId of Interests that arrive on the control socket; no face has it.
pub(crate) const CONTROL_SOCKET: u64 = 0;

/// Work of the control thread at a deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// Interests to management wait from the last round.
    Interests,
    /// The queue of management's replies to the workers was full.
    FullQueue,
    /// Routes or datasets expire, or commands time out.
    Management,
    /// A request over no face times out.
    LocalRequest,
    /// An attempt to connect times out.
    Connect,
    /// A WebSocket handshake times out.
    WebSocketHandshake,
    /// A memif handshake times out or is tried again.
    Memif,
    /// A listener accepts again.
    Accept,
    /// A configured face or a lost session is tried again.
    StaticFaces,
    /// Network interfaces are polled for multicast faces.
    Multicast,
    /// Network interfaces are polled for faces that are bound to them.
    BoundFaces,
    /// Network interfaces are polled for Ethernet faces.
    Ethernet,
    /// Quotas of faces are checked.
    Quotas,
    /// Path MTUs of UDP faces are polled.
    PathMtu,
    /// The load of the workers is balanced.
    Balance,
    /// Captures are polled.
    Captures,
    /// A slot of VIP ends, reports are sent again, or packets wait.
    #[cfg(feature = "vip")]
    Vip,
    /// A worker has work.
    Worker,
}

/// Time and reason of the next timeout of a service. Time zero means at once.
pub(crate) type Deadline = (Timestamp, Reason);

/// A face to be created.
#[derive(Debug)]
pub(crate) struct FaceRequest {
    /// Remote URI, possibly with a host name.
    pub(crate) remote: FaceUri,
    /// The network interface of an Ethernet face.
    pub(crate) local: Option<FaceUri>,
    /// Specification.
    pub(crate) spec: FaceSpec,
}

/// An event for the services, from the data plane or from a service. Events are delivered in order, each to its
/// [receivers](Self::receivers).
#[derive(Debug)]
pub(crate) enum Event {
    /// The descriptor with this token is ready.
    Ready(u64),
    /// Management can be reached: its face exists.
    ManagementReachable,
    /// The settings have changed.
    Reloaded,
    /// A reload has changed the listeners: where the forwarder listens, the peers that are local over TCP, and the local
    /// URIs.
    ListenersChanged {
        addresses: OwnAddresses,
        local_peers: Arc<LocalPeers>,
        local_uris: Vec<String>,
    },
    /// Network interfaces have changed.
    LinksChanged,
    /// The Ethernet interfaces that accept stations have changed; their local URIs.
    EthernetChannels(Vec<String>),

    /// Create a face.
    Create(Box<FaceRequest>),
    /// The requester of the face of this ticket has given up.
    Cancel { ticket: u64 },
    /// Stop to open the connection for this ticket: no request waits for it any more.
    Abandon { ticket: u64 },
    /// Create a face for an Ethernet station.
    CreateStation { mac: [u8; 6], interface: String, spec: FaceSpec },
    /// Create a face of the interface of a memif server.
    CreateMemif { address: Address, spec: FaceSpec },
    /// Create a face of a WebTransport session with a listener at one of these addresses.
    CreateSession { remote: FaceUri, addresses: Vec<SocketAddr>, spec: FaceSpec },
    /// An attempt to create a face has failed: status code and reason.
    AttemptFailed { ticket: Option<u64>, code: u32, text: String },
    /// The requested face was not created: status code and reason.
    FaceFailed { ticket: Option<u64>, code: u32, text: String },
    /// The requested face exists already.
    FaceExists { ticket: Option<u64>, face_id: u64 },
    /// The same, but the worker that has made the face has not reported it yet.
    FaceAwaited { ticket: Option<u64>, face_id: u64 },
    /// A face was created.
    FaceAdded { ticket: Option<u64>, index: FaceIndex, record: Box<FaceRecord> },
    /// A worker did not create the face with this FaceId.
    FaceRefused(u64),
    /// A face has closed. `lost` is its former state if it existed and was not destroyed by an operator.
    FaceClosed { face_id: u64, lost: Option<Box<KnownFace>> },
    /// A face is down, or up again.
    FaceStateChanged { face_id: u64, is_up: bool },
    /// A face has gone down or up, which is reported later because of the limit of reports.
    FaceUnreported,
    /// A face has another frame length.
    FaceResized { face_id: u64, length: usize },
    /// Change the settings of a face, and how long it stays and who keeps it.
    UpdateFace {
        face_id: u64,
        kept: Option<(Persistency, Option<PrincipalKey>)>,
        options: FaceOptions,
    },
    /// An operator destroys a face, which may be a former one.
    DestroyFace(u64),
    /// The frame length of a UDP face follows its path.
    FollowPath { face_id: u64, peer: SocketAddr, length: usize },

    /// Add a configured route.
    AddRoute { prefix: Name, route: Route },
    /// Remove a route that is no longer configured.
    RemoveRoute { prefix: Name, face_id: u64, origin: u64 },
    /// Destroy a face that is no longer configured.
    EndFace(u64),
    /// Let a face stay when idle: it serves a configured route.
    AdoptFace { face_id: u64, persistency: Persistency },
    /// Give a face the routes and next hops of the face that it replaces.
    RestoreRoutes { face_id: u64, destinations: Destinations },
    /// The session of a permanent face has ended on its own; the routes and next hops of the face.
    SessionLost { face_id: u64, face: Box<KnownFace>, destinations: Destinations },
    /// A route of a face, which may be a former one, was unregistered.
    ForgetRoute { prefix: Name, face_id: u64, origin: Option<u64> },

    /// A client connects to a WebSocket listener.
    WebSocketClient { stream: OwnedFd, peer: Option<SocketAddr>, local: Arc<LocalEnd> },
    /// A client connects to the memif listener at `socket`.
    MemifClient { stream: OwnedFd, socket: PathBuf },
    /// A management Interest of a face, or of the [control socket](CONTROL_SOCKET), was handled.
    Handled { face_id: u64, handled: RequestOutcome },
    /// A strategy asks about learnt routes.
    Learning(LearningRequest),
    /// The workers have erased packets; `more` is set if there are others.
    CsErased { ticket: u64, erased: u64, more: bool },
    /// Requests of local applications that a worker has counted.
    #[cfg(feature = "vip")]
    VipRequests(Box<ndn_forwarding::VipRequests>),
    /// The workers get this FIB.
    #[cfg(feature = "vip")]
    TablesPublished(Arc<ndn_table::FibSnapshot>),
}

impl Event {
    /// The services that handle the event, in this order.
    pub(crate) const fn receivers(&self) -> &'static [ServiceName] {
        use ServiceName::{
            Captures, Connector, Interfaces, Listening, Management, Memif, PathMtus, Quotas,
            Sessions, StaticSetup, WebSocket,
        };
        match self {
            Self::Ready(token) => ServiceName::of_token(*token),
            Self::ManagementReachable => &[Sessions, Listening],
            #[cfg(not(feature = "vip"))]
            Self::Reloaded => &[Memif, StaticSetup, Interfaces, Quotas],
            #[cfg(feature = "vip")]
            Self::Reloaded => &[Memif, StaticSetup, Interfaces, Quotas, ServiceName::Vip],
            Self::ListenersChanged { .. } => &[Management, Connector],
            Self::FaceFailed { .. } => &[Management, StaticSetup],
            Self::FaceExists { .. } => &[Management, Connector, StaticSetup],
            #[cfg(not(feature = "vip"))]
            Self::FaceAdded { .. } => &[Management, Connector, Sessions, StaticSetup, Captures],
            #[cfg(feature = "vip")]
            Self::FaceAdded { .. } => {
                &[Management, Connector, Sessions, StaticSetup, Captures, ServiceName::Vip]
            }
            Self::FaceRefused(_) => &[Connector, Memif, Sessions],
            #[cfg(not(feature = "vip"))]
            Self::FaceClosed { .. } => {
                &[Management, Connector, Memif, Sessions, StaticSetup, Quotas]
            }
            #[cfg(feature = "vip")]
            Self::FaceClosed { .. } => {
                &[Management, Connector, Memif, Sessions, StaticSetup, Quotas, ServiceName::Vip]
            }
            Self::Abandon { .. } => &[Memif, Sessions],
            Self::EthernetChannels(_)
            | Self::FaceStateChanged { .. }
            | Self::FaceResized { .. }
            | Self::AddRoute { .. }
            | Self::RemoveRoute { .. }
            | Self::EndFace(_)
            | Self::AdoptFace { .. }
            | Self::RestoreRoutes { .. }
            | Self::Learning(_)
            | Self::CsErased { .. } => &[Management],
            Self::Create(_)
            | Self::Cancel { .. }
            | Self::AttemptFailed { .. }
            | Self::FaceAwaited { .. } => &[Connector],
            Self::WebSocketClient { .. } => &[WebSocket],
            Self::MemifClient { .. } | Self::CreateMemif { .. } => &[Memif],
            Self::CreateSession { .. } => &[Sessions],
            Self::SessionLost { .. } | Self::DestroyFace(_) | Self::ForgetRoute { .. } => {
                &[StaticSetup]
            }
            Self::CreateStation { .. } | Self::UpdateFace { .. } => &[Interfaces],
            Self::FaceUnreported | Self::Handled { .. } => &[Quotas],
            Self::LinksChanged | Self::FollowPath { .. } => &[PathMtus],
            #[cfg(feature = "vip")]
            Self::VipRequests(_) | Self::TablesPublished(_) => &[ServiceName::Vip],
        }
    }

    /// Returns an event that a service does not handle, although [`receivers`](Self::receivers) names it.
    pub(crate) fn unhandled(self) -> Option<Self> {
        debug_assert!(false, "an event for another service: {self:?}");
        Some(self)
    }
}

/// The services of the control thread, in the order in which they receive events and time out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServiceName {
    Management,
    Connector,
    WebSocket,
    Memif,
    Sessions,
    Listening,
    StaticSetup,
    Interfaces,
    Quotas,
    PathMtus,
    Balance,
    Captures,
    #[cfg(feature = "vip")]
    Vip,
}

impl ServiceName {
    /// The service whose descriptor has this token.
    const fn of_token(token: u64) -> &'static [Self] {
        match token {
            TOKEN_INTERNAL | TOKEN_KEY_CHAIN => &[Self::Management],
            TOKEN_LINKS => &[Self::Interfaces],
            TOKEN_SESSIONS => &[Self::Sessions],
            TOKEN_NAMES => &[Self::Connector],
            #[cfg(feature = "vip")]
            TOKEN_VIP => &[Self::Vip],
            TOKEN_LISTENERS..TOKEN_ATTEMPTS => &[Self::Listening],
            TOKEN_ATTEMPTS..TOKEN_HANDSHAKES => &[Self::Connector],
            TOKEN_HANDSHAKES..TOKEN_MEMIF => &[Self::WebSocket],
            TOKEN_MEMIF.. => &[Self::Memif],
            // The control thread handles its own tokens; others do not exist.
            _ => &[],
        }
    }
}

/// A part of the control thread with state and deadlines of its own.
pub(crate) trait Service {
    const NAME: ServiceName;

    /// The part of the data plane that it uses.
    type Dataplane: Part + ?Sized;

    /// Handles one of the events of which it is a [receiver](Event::receivers). Returns an event that concerns other
    /// services, too.
    fn handle_event(&mut self, _: &mut Cx<'_, Self::Dataplane>, event: Event) -> Option<Event> {
        event.unhandled()
    }

    /// Performs the work of its [deadline](Self::next_deadline).
    fn handle_timeout(&mut self, _: &mut Cx<'_, Self::Dataplane>, _: Reason) {}

    /// Time and reason of the next [`handle_timeout`](Self::handle_timeout), if the service has timeouts.
    fn next_deadline(&self) -> Option<Deadline> {
        None
    }
}

/// The view of the forwarder that a service has during one call. `D` is the part of the data plane that it uses.
#[derive(Debug)]
pub(crate) struct Cx<'a, D: ?Sized = dyn FaceCommands> {
    now: Now,
    config: &'a Config,
    poller: &'a Poller,
    faces: &'a mut FaceTable,
    log: &'a mut ConnectionLog,
    events: &'a mut VecDeque<Event>,
    dataplane: &'a mut D,
}

impl<'a, D: ?Sized> Cx<'a, D> {
    /// Time of this round.
    pub(crate) const fn now(&self) -> Now {
        self.now
    }

    /// Returns the time `duration` after this round.
    pub(crate) fn after(&self, duration: Duration) -> Timestamp {
        self.now.monotonic + duration
    }

    /// Settings in force.
    pub(crate) const fn config(&self) -> &'a Config {
        self.config
    }

    /// Existing faces.
    pub(crate) const fn faces(&self) -> &FaceTable {
        self.faces
    }

    /// The part of the data plane.
    pub(crate) const fn dataplane(&mut self) -> &mut D {
        self.dataplane
    }

    /// Existing faces and the part of the data plane.
    pub(crate) const fn faces_and_dataplane(&mut self) -> (&FaceTable, &mut D) {
        (self.faces, self.dataplane)
    }

    /// Log of connections that become no face.
    pub(crate) const fn log(&mut self) -> &mut ConnectionLog {
        self.log
    }

    /// Posts an event to other services.
    pub(crate) fn post(&mut self, event: Event) {
        self.events.push_back(event);
    }

    /// Reports and logs a failed attempt to create a face.
    pub(crate) fn attempt_failed(
        &mut self,
        remote: &dyn Display,
        spec: &FaceSpec,
        code: u32,
        text: String,
    ) {
        if let Some(unlogged) = self.admits_line(spec) {
            info!(%remote, reason = text, unlogged, "no face was created");
        }
        self.post(Event::AttemptFailed { ticket: spec.ticket, code, text });
    }

    /// Whether to log a line about a requested face, and the number of lines suppressed before: those about faces that users
    /// request are limited.
    pub(crate) fn admits_line(&mut self, spec: &FaceSpec) -> Option<Option<u64>> {
        let now = self.now.monotonic;
        spec.keeper.map_or(Some(None), |user| self.log.refused.admit(now, user))
    }

    /// Posts [`Event::Ready`] with `token` when the descriptor is ready.
    ///
    /// # Errors
    /// The limit of watched descriptors is reached, or no memory is left.
    pub(crate) fn watch(
        &self,
        descriptor: impl AsFd,
        token: u64,
        interest: Interest,
    ) -> std::io::Result<()> {
        self.poller.add(descriptor, token, interest)
    }

    /// Ends [`watch`](Self::watch).
    ///
    /// # Errors
    /// The descriptor is not watched.
    pub(crate) fn unwatch(&self, descriptor: impl AsFd) -> std::io::Result<()> {
        self.poller.remove(descriptor)
    }

    /// Returns whether there is room for another face; logs and counts a refused connection.
    pub(crate) fn has_room(&mut self) -> bool {
        let limit = self.config.limits.faces;
        let has_room = self.faces.len() < limit;
        if !has_room {
            self.log.full.connection_refused(self.now, limit);
        }
        has_room
    }

    /// Posts the changes of faces beyond the limit of reports that may be reported now.
    pub(crate) fn report_changes(&mut self) {
        for (face_id, is_up) in self.faces.take_unreported(self.now.monotonic) {
            self.events.push_back(Event::FaceStateChanged { face_id, is_up });
        }
    }
}

impl<D: FaceCommands + ?Sized> Cx<'_, D> {
    /// Returns whether a principal may have another on-demand face; logs a refusal.
    pub(crate) fn admits(&mut self, principal: PrincipalKey) -> bool {
        let refusal = self.dataplane.face_refusal(principal);
        if let Some(limit) = refusal {
            self.log.principal_refused(self.now, principal, limit);
        }
        refusal.is_none()
    }

    /// Adds the face of an accepted connection whose principal is [admitted](Self::admits).
    pub(crate) fn add_accepted(
        &mut self,
        stream: OwnedFd,
        peer: Option<SocketAddr>,
        local: &LocalEnd,
        identity: &PeerIdentity,
    ) {
        let face_id = self.dataplane.allocate_face_id();
        if let Some(reason) = &identity.not_local {
            self.log.refused.not_local(self.now, identity.principal, peer, reason);
        }
        let face = faces::accepted(face_id, stream, peer, local, identity, self.config);
        self.add_face(face);
    }

    /// Changes the options of a face.
    pub(crate) fn change_face(
        &mut self,
        face_id: u64,
        change: impl FnOnce(&mut ndn_face::FaceOptions),
    ) {
        if let Some(options) = self.faces.change(face_id, change) {
            self.faces.note_principal(&options);
            self.dataplane.update_face(face_id, options);
        }
    }

    /// Limits the frames of a face to `length` bytes.
    pub(crate) fn resize(&mut self, face_id: u64, length: usize) {
        if self.faces.get(face_id).is_some() {
            self.post(Event::FaceResized { face_id, length });
            self.change_face(face_id, |options| options.link.mtu = Some(length));
        }
    }

    /// Reports that the link of a face is lost, or restored.
    pub(crate) fn set_link(&mut self, face_id: u64, is_down: bool) {
        let is_change = match is_down {
            true => self.faces.face_down(self.now.monotonic, face_id, CloseReason::NoLink),
            false => self.faces.face_up(self.now.monotonic, face_id, false),
        };
        if is_change {
            self.post(Event::FaceStateChanged { face_id, is_up: !is_down });
        }
        let event = if is_down { LinkEvent::Lost } else { LinkEvent::Restored };
        self.dataplane.set_link(face_id, event);
    }

    /// Gives an on-demand UDP peer a socket of its own, unless it has one.
    pub(crate) fn separate_input(&mut self, face_id: u64) {
        if self.faces.begin_separation(face_id) {
            self.dataplane.separate_input(face_id);
        }
    }

    /// Adds a face to a worker. Its principal is known before its first packet.
    pub(crate) fn add_face(&mut self, face: NewFace) {
        self.faces.note_principal(&face.options);
        self.dataplane.add_face(face);
    }
}

/// State of the control thread that does not belong to one service. A service has a [view](Cx) of it.
#[derive(Debug)]
pub(crate) struct Core {
    /// Time of this round.
    pub(crate) now: Now,
    /// Settings in force.
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    /// Descriptors of the control thread.
    pub(crate) poller: Poller,
    pub(crate) dataplane: Dataplane,
    /// Replacement policy of the Content Store in force.
    pub(crate) cs_policy: PolicyKind,
    pub(crate) faces: FaceTable,
    pub(crate) log: ConnectionLog,
    /// Events not delivered yet.
    pub(crate) events: VecDeque<Event>,
}

impl Core {
    pub(super) fn new(
        config: &Config,
        clock: Clock,
        poller: Poller,
        dataplane: Dataplane,
        principals: Arc<FacePrincipals>,
    ) -> Self {
        Self {
            now: now(&clock),
            config: config.clone(),
            clock,
            poller,
            dataplane,
            cs_policy: crate::vip::policy_at_start(config),
            faces: FaceTable::new(principals),
            log: ConnectionLog::default(),
            events: VecDeque::new(),
        }
    }

    /// Puts another replacement policy of the Content Store in force.
    ///
    /// # Errors
    /// This system has no memory for it, or VIP is not enabled.
    pub(crate) fn set_cs_policy(&mut self, policy: PolicyKind) -> Result<(), String> {
        if policy == self.cs_policy {
            return Ok(());
        }
        settings::policy_excess(&self.config, policy).map_or(Ok(()), Err)?;
        if policy == PolicyKind::Vip {
            crate::vip::policy_refusal(&self.config).map_or(Ok(()), Err)?;
        }
        let now = self.now.monotonic;
        let rules = Arc::new(crate::vip::object_rules(&self.config, self.dataplane.hasher()));
        let is_vip = policy == PolicyKind::Vip;
        self.dataplane.set_cs_policy(|packets| match is_vip {
            true => CsReplacement::vip(packets, Arc::clone(&rules)),
            false => CsReplacement::new(policy, packets, now),
        });
        self.cs_policy = policy;
        info!(%policy, "the Content Store has another replacement policy");
        Ok(())
    }

    /// The view of a service that uses the part `D` of the data plane.
    pub(crate) fn cx<D: Part + ?Sized>(&mut self) -> Cx<'_, D> {
        let Self { now, config, poller, dataplane, faces, log, events, .. } = self;
        let dataplane = D::of(dataplane);
        Cx { now: *now, config, poller, faces, log, events, dataplane }
    }
}

/// A [`Service`] without its type.
pub(super) trait AnyService {
    /// See [`Service::NAME`].
    fn name(&self) -> ServiceName;

    /// See [`Service::handle_event`].
    fn offer(&mut self, core: &mut Core, event: Event) -> Option<Event>;

    /// See [`Service::handle_timeout`].
    fn time_out(&mut self, core: &mut Core, reason: Reason);

    /// See [`Service::next_deadline`].
    fn deadline(&self) -> Option<Deadline>;
}

impl<S: Service> AnyService for S {
    fn name(&self) -> ServiceName {
        S::NAME
    }

    fn offer(&mut self, core: &mut Core, event: Event) -> Option<Event> {
        self.handle_event(&mut core.cx(), event)
    }

    fn time_out(&mut self, core: &mut Core, reason: Reason) {
        self.handle_timeout(&mut core.cx(), reason);
    }

    fn deadline(&self) -> Option<Deadline> {
        self.next_deadline()
    }
}

/// The earliest deadline of all services.
#[derive(Debug, Default)]
pub(super) struct Timers(Option<Deadline>);

impl Timers {
    /// Sets the deadlines of all services.
    pub(super) fn set_all(&mut self, deadlines: impl IntoIterator<Item = Option<Deadline>>) {
        self.0 = deadlines.into_iter().flatten().min();
    }

    /// Returns the earliest deadline.
    pub(super) const fn next(&self) -> Option<Deadline> {
        self.0
    }

    /// Returns whether a deadline is due.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        self.next().is_some_and(|(at, _)| at <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earliest_deadline_of_all_services_is_next() {
        let mut timers = Timers::default();
        assert_eq!((timers.next(), timers.is_due(Timestamp::MAX)), (None, false));
        let at = Timestamp::from_nanos;
        let [captures, accept] = [Reason::Captures, Reason::Accept].map(|one| (at(20), one));
        timers.set_all([Some(captures), None, Some((at(30), Reason::Connect)), Some(accept)]);
        assert_eq!(timers.next(), Some(accept));
        assert!(!timers.is_due(at(19)) && timers.is_due(at(20)));
        timers.set_all([None, Some((at(30), Reason::Connect))]);
        assert_eq!(timers.next(), Some((at(30), Reason::Connect)));
    }
}
