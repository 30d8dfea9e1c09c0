//! Permanent faces and routes: those of the configuration, and permanent faces of WebTransport sessions, which a
//! worker cannot reopen.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use ndn_forwarding::PitTokenPolicy;
use ndn_management::request::FaceOptions;
use ndn_management::{Route, route_flag, route_origin};
use ndn_packet::Name;
use ndn_types::{FaceUri, Persistency, Timestamp, duration_ms};
use tracing::{info, warn};

use super::destinations::Destinations;
use super::faces::{self, FIRST_STATIC_TICKET, FaceSpec};
use crate::config::{self, Config, StaticRoute};
use crate::control::commands::FaceCommands;
use crate::control::service::{Cx, Deadline, Event, FaceRequest, Reason, Service, ServiceName};
use namewire_control::WaitingFace;

/// Maximum faces created by command that wait for a new session.
const LOST_MAX: usize = 64;
/// Time for which their sessions are retried.
const LOST_TRIED: Duration = Duration::from_hours(1);

/// A face to be created.
#[derive(Debug)]
struct StaticFace {
    remote: FaceUri,
    /// The network interface of an Ethernet face.
    local: Option<FaceUri>,
    spec: FaceSpec,
    state: State,
    /// Pause after the next failure.
    retry: Duration,
    /// FaceId and destinations from before its session ended.
    away: Option<(u64, Destinations)>,
    /// Reason of the last failed attempt.
    failure: Option<String>,
    /// Set for a face created by command that lost its session; `None` for configured faces.
    lost: Option<LostFace>,
}

impl StaticFace {
    fn peer(&self) -> Peer {
        (self.remote.clone(), self.local.clone())
    }
}

/// Remote URI of a face, and the network interface of an Ethernet face.
type Peer = (FaceUri, Option<FaceUri>);

/// The routes of each face, by remote URI and prefix.
type Routes = BTreeMap<FaceUri, BTreeMap<Name, StaticRoute>>;

/// The routes of each face. Of several for one prefix, the last is in force.
fn by_face(routes: &[StaticRoute]) -> Routes {
    let mut by_face = Routes::new();
    for route in routes {
        let of_face = by_face.entry(route.face.clone()).or_default();
        of_face.insert(route.prefix.clone(), route.clone());
    }
    by_face
}

/// A face that waits until its session is open again or abandoned.
#[derive(Debug, Clone, Copy)]
struct LostFace {
    /// Former FaceId.
    face_id: u64,
    ends_at: Timestamp,
}

/// A permanent face whose session has ended on its own.
#[derive(Debug)]
struct LostSession {
    /// Former FaceId.
    face_id: u64,
    /// Remote URI.
    remote: FaceUri,
    /// Specification of the face.
    spec: FaceSpec,
    /// Routes and next hops of the face.
    destinations: Destinations,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Starts at this time.
    DueAt(Timestamp),
    Begun,
    /// Created with this FaceId.
    Made(u64),
    /// Its settings have changed: starts when its former face with this FaceId has closed.
    Replaces(u64),
}

impl State {
    /// The face that was created, if it was not destroyed since, by its FaceId.
    const fn face_id(self) -> Option<u64> {
        match self {
            Self::Made(face_id) => Some(face_id),
            Self::DueAt(_) | Self::Begun | Self::Replaces(_) => None,
        }
    }
}

/// Progress of the configured faces.
#[derive(Debug)]
pub(super) struct StaticSetup {
    /// By ticket.
    faces: BTreeMap<u64, StaticFace>,
    next_ticket: u64,
    /// The configured routes of each peer.
    routes: Routes,
    /// First retry interval; doubled each time.
    retry_min: Duration,
    /// Maximum retry interval.
    retry_max: Duration,
}

impl Service for StaticSetup {
    type Dataplane = dyn FaceCommands;
    const NAME: ServiceName = ServiceName::StaticSetup;

    #[expect(clippy::wildcard_enum_match_arm, reason = "`Event::receivers` is exhaustive")]
    fn handle_event(&mut self, cx: &mut Cx<'_>, event: Event) -> Option<Event> {
        match event {
            Event::FaceAdded { ticket, ref record, .. } => {
                let events = self.face_added(ticket, record.properties.face_id);
                events.into_iter().for_each(|event| cx.post(event));
            }
            Event::FaceExists { ticket, face_id } => {
                let events = self.face_exists(ticket, face_id);
                events.into_iter().for_each(|event| cx.post(event));
            }
            Event::FaceFailed { ticket, ref text, .. } => {
                self.connect_failed(cx.now().monotonic, ticket, text);
            }
            Event::SessionLost { face_id, face, destinations } => {
                let spec = FaceSpec::again(&face.options);
                let lost = LostSession { face_id, remote: face.remote, spec, destinations };
                self.session_lost(cx.now().monotonic, lost);
                return None;
            }
            Event::DestroyFace(face_id) => {
                if let Some(ticket) = self.cancel(face_id) {
                    info!(face_id, "the face of a session that has ended is not opened again");
                    cx.post(Event::Cancel { ticket });
                }
            }
            Event::ForgetRoute { ref prefix, face_id, origin } => {
                self.forget_route(face_id, prefix, origin);
            }
            Event::FaceClosed { face_id, .. } => self.face_closed(cx.now().monotonic, face_id),
            Event::Reloaded => {
                let exists = |face_id| cx.faces().get(face_id).is_some();
                let events = self.reconfigure(cx.now().monotonic, cx.config(), exists);
                events.into_iter().for_each(|event| cx.post(event));
            }
            other => return other.unhandled(),
        }
        Some(event)
    }

    fn next_deadline(&self) -> Option<Deadline> {
        self.next_attempt().map(|at| (at, Reason::StaticFaces))
    }

    fn handle_timeout(&mut self, cx: &mut Cx<'_>, _: Reason) {
        self.due(cx.now().monotonic)
            .into_iter()
            .for_each(|due| cx.post(Event::Create(Box::new(due))));
    }
}

impl StaticSetup {
    /// Collects the faces and routes of the configuration, to be created at once. A next hop that is not among the static
    /// faces becomes a permanent face.
    pub(super) fn new(config: &Config) -> Self {
        let mut setup = Self {
            faces: BTreeMap::new(),
            next_ticket: FIRST_STATIC_TICKET,
            routes: by_face(&config.static_routes),
            retry_min: config.faces.reconnect_min,
            retry_max: config.faces.reconnect_max,
        };
        for configured in Configured::all(config) {
            setup.add(configured, Timestamp::ZERO);
        }
        setup
    }

    /// Takes over the faces and routes of a configuration that was read again. Returns the events that make the difference: a
    /// face that is no longer configured is destroyed, one whose settings have changed or that does not exist any more is created
    /// again, and routes are removed and added.
    fn reconfigure(
        &mut self,
        now: Timestamp,
        config: &Config,
        exists: impl Fn(u64) -> bool,
    ) -> Vec<Event> {
        let mut events = Vec::new();
        let mut configured: BTreeMap<Peer, Configured> =
            Configured::all(config).into_iter().map(|face| (face.peer(), face)).collect();
        let mut gone = Vec::new();
        for (&ticket, face) in self.faces.iter_mut().filter(|(_, face)| face.lost.is_none()) {
            let peer = face.peer();
            let same = configured.get(&peer);
            let has_changed = same.is_none_or(|same| !same.is_like(face));
            match (same, face.state) {
                (None, _) | (Some(_), State::Begun) if has_changed => {
                    // One that has begun begins anew, under another ticket.
                    gone.push(ticket);
                    continue;
                }
                // An operator has destroyed it.
                (_, State::Made(face_id)) if !exists(face_id) => face.state = State::DueAt(now),
                (_, State::Made(face_id)) if has_changed => {
                    face.state = State::Replaces(face_id);
                    events.push(Event::EndFace(face_id));
                }
                _ => {}
            }
            if let Some(same) = configured.remove(&peer) {
                same.apply_to(face);
            }
        }
        for ticket in gone {
            let Some(face) = self.faces.remove(&ticket) else { continue };
            if !configured.contains_key(&face.peer()) {
                info!(remote = %face.remote, "a face is no longer configured: it is destroyed");
            }
            events.push(match face.state.face_id() {
                Some(face_id) => Event::EndFace(face_id),
                None => Event::Cancel { ticket },
            });
        }
        for configured in configured.into_values() {
            self.add(configured, now);
        }
        events.extend(self.change_routes(&config.static_routes));
        events
    }

    /// Replaces the configured routes. Returns the events for those of existing faces; those of others follow with the faces.
    /// Routes that were configured before are added, too: commands may have removed or changed them.
    fn change_routes(&mut self, configured: &[StaticRoute]) -> Vec<Event> {
        let before = std::mem::replace(&mut self.routes, by_face(configured));
        let mut made: BTreeMap<&FaceUri, u64> = BTreeMap::new();
        for (remote, face_id) in self.made() {
            made.entry(remote).or_insert(face_id);
        }
        let mut events = Vec::new();
        let none = BTreeMap::new();
        for (remote, face_id) in made {
            let former = before.get(remote).unwrap_or(&none);
            let routes = self.routes.get(remote).unwrap_or(&none);
            let gone = former.keys().filter(|prefix| !routes.contains_key(*prefix));
            events.extend(gone.map(|prefix| Event::RemoveRoute {
                prefix: prefix.clone(),
                face_id,
                origin: route_origin::STATIC,
            }));
            events.extend(routes.values().map(|route| add_route(route, face_id)));
        }
        events
    }

    /// The configured faces that exist, with their FaceIds.
    fn made(&self) -> impl Iterator<Item = (&FaceUri, u64)> {
        let configured = self.faces.values().filter(|face| face.lost.is_none());
        configured.filter_map(|face| Some((&face.remote, face.state.face_id()?)))
    }

    /// Starts the creation of a face whose former face has closed.
    fn face_closed(&mut self, now: Timestamp, face_id: u64) {
        for face in self.faces.values_mut() {
            if face.state == State::Replaces(face_id) {
                face.state = State::DueAt(now);
            }
        }
    }

    fn add(&mut self, configured: Configured, now: Timestamp) {
        let Configured { remote, local, persistency, pit_tokens, options } = configured;
        let spec = FaceSpec { ticket: None, persistency, keeper: None, pit_tokens, options };
        let state = State::DueAt(now);
        let retry = self.retry_min;
        let (away, failure, lost) = (None, None, None);
        self.insert(StaticFace { remote, local, spec, state, retry, away, failure, lost });
    }

    fn insert(&mut self, mut face: StaticFace) {
        face.spec.ticket = Some(self.next_ticket);
        self.faces.insert(self.next_ticket, face);
        self.next_ticket += 1;
    }

    /// Time of the next [`due`](Self::due).
    fn next_attempt(&self) -> Option<Timestamp> {
        let due = self.faces.values().filter_map(|face| match face.state {
            State::DueAt(at) => Some(at),
            State::Begun | State::Made(_) | State::Replaces(_) => None,
        });
        due.min()
    }

    /// Returns the faces to be created now.
    fn due(&mut self, now: Timestamp) -> Vec<FaceRequest> {
        let mut due = Vec::new();
        for face in self.faces.values_mut() {
            if matches!(face.state, State::DueAt(at) if at <= now) {
                face.state = State::Begun;
                let (remote, local) = (face.remote.clone(), face.local.clone());
                due.push(FaceRequest { remote, local, spec: face.spec });
            }
        }
        due
    }

    /// Handles the creation of a face. Returns events that restore its former destinations, and that add its configured
    /// routes if it is a static face.
    fn face_added(&mut self, ticket: Option<u64>, face_id: u64) -> Vec<Event> {
        let retry = self.retry_min;
        let mut events = Vec::new();
        let Some(face) = self.face_of(ticket) else { return events };
        face.state = State::Made(face_id);
        face.failure = None;
        face.retry = retry;
        let remote = face.remote.clone();
        if let Some((_, destinations)) = face.away.take() {
            events.push(Event::RestoreRoutes { face_id, destinations });
        }
        let is_lost = |face: &mut StaticFace| face.lost.is_some();
        if let Some(ticket) = ticket.filter(|_| self.face_of(ticket).is_some_and(is_lost)) {
            // From now on it is an ordinary face.
            self.faces.remove(&ticket);
            return events;
        }
        let routes = self.routes.get(&remote).into_iter().flat_map(BTreeMap::values);
        events.extend(routes.map(|route| add_route(route, face_id)));
        events
    }

    /// Returns events that use the existing face of the peer, and make it stay when idle.
    fn face_exists(&mut self, ticket: Option<u64>, face_id: u64) -> Vec<Event> {
        let face = self.face_of(ticket);
        let adopted =
            face.map(|face| Event::AdoptFace { face_id, persistency: face.spec.persistency });
        adopted.into_iter().chain(self.face_added(ticket, face_id)).collect()
    }

    /// Schedules another attempt after a failure.
    fn connect_failed(&mut self, now: Timestamp, ticket: Option<u64>, reason: &str) {
        let longest = self.retry_max;
        let Some(face) = self.face_of(ticket) else { return };
        if let (Some(LostFace { face_id, ends_at }), Some(ticket)) = (face.lost, ticket)
            && ends_at <= now
        {
            warn!(face_id, remote = %face.remote, "a session could not be opened again: its face is given up");
            self.faces.remove(&ticket);
            return;
        }
        face.state = State::DueAt(now + face.retry);
        face.failure = Some(reason.to_owned());
        face.retry = face.retry.saturating_mul(2).min(longest);
    }

    /// Handles the end of a permanent face's session, which the worker cannot reopen: opens another session, whose
    /// face gets the routes of the former one.
    fn session_lost(&mut self, now: Timestamp, lost: LostSession) {
        let LostSession { face_id, remote, spec, destinations } = lost;
        if let Some(face) = self.faces.values_mut().find(|face| face.remote == remote) {
            // A configured face stays one, even if a user made the face that was lost.
            let FaceSpec { ticket, pit_tokens, .. } = face.spec;
            let keeper = face.spec.keeper.and(spec.keeper);
            face.spec = FaceSpec { ticket, pit_tokens, keeper, ..spec };
            face.away = Some((face_id, destinations));
            face.state = State::DueAt(now + face.retry);
            return;
        }
        if self.faces.values().filter(|face| face.lost.is_some()).count() >= LOST_MAX {
            warn!(face_id, %remote, "a session is not opened again: the limit of sessions that are awaited is reached");
            return;
        }
        let retry = self.retry_min;
        let state = State::DueAt(now + retry);
        let lost = Some(LostFace { face_id, ends_at: now + LOST_TRIED });
        let (local, away, failure) = (None, Some((face_id, destinations)), None);
        self.insert(StaticFace { remote, local, spec, state, retry, away, failure, lost });
    }

    /// Returns the faces that are missing now: all, or those that Interests with `name` would go to.
    pub(super) fn waiting(&self, now: Timestamp, name: Option<&Name>) -> Vec<WaitingFace> {
        let waiting = self.faces.values().filter(|face| !matches!(face.state, State::Made(_)));
        let waiting = waiting.filter(|face| name.is_none_or(|name| self.leads(face, name)));
        let reported = waiting.map(|face| WaitingFace {
            face_id: face.lost.map(|lost| lost.face_id),
            remote_uri: face.remote.to_string(),
            last_failure: face.failure.clone(),
            next_attempt_ms: match face.state {
                State::DueAt(at) => Some(duration_ms(at - now)),
                State::Begun | State::Made(_) | State::Replaces(_) => None,
            },
        });
        reported.collect()
    }

    /// Returns whether a missing face will get a route for this name.
    fn leads(&self, face: &StaticFace, name: &Name) -> bool {
        let is_for = |prefix: &Name| name.starts_with(prefix.as_ref());
        let away = face.away.as_ref();
        let mut prefixes = self.routes.get(&face.remote).into_iter().flat_map(BTreeMap::keys);
        prefixes.any(is_for) || away.is_some_and(|(_, led_to)| led_to.include(name))
    }

    /// Stops reopening the session of the face with this former FaceId; returns the ticket of the request, if there is one.
    fn cancel(&mut self, face_id: u64) -> Option<u64> {
        let is_it = |face: &StaticFace| face.lost.is_some_and(|lost| lost.face_id == face_id);
        let (&ticket, _) = self.faces.iter().find(|(_, face)| is_it(face))?;
        self.faces.remove(&ticket);
        Some(ticket)
    }

    /// Removes a route of a missing face after its unregistration; without an origin, a next hop that only the FIB
    /// has.
    fn forget_route(&mut self, face_id: u64, prefix: &Name, origin: Option<u64>) {
        let away = self.faces.values_mut().filter_map(|face| face.away.as_mut());
        for (_, destinations) in away.filter(|(called, _)| *called == face_id) {
            destinations.forget(prefix, origin);
        }
    }

    fn face_of(&mut self, ticket: Option<u64>) -> Option<&mut StaticFace> {
        self.faces.get_mut(&ticket?)
    }
}

/// A face as the configuration describes it.
#[derive(Debug)]
struct Configured {
    remote: FaceUri,
    local: Option<FaceUri>,
    persistency: Persistency,
    pit_tokens: PitTokenPolicy,
    options: FaceOptions,
}

impl Configured {
    /// The static faces, and a permanent face for each other next hop of static routes.
    fn all(config: &Config) -> Vec<Self> {
        let mut all: Vec<Self> = config.static_faces.iter().map(Self::of).collect();
        let mut peers: HashSet<&FaceUri> =
            config.static_faces.iter().map(|face| &face.uri).collect();
        for route in &config.static_routes {
            if peers.insert(&route.face) {
                all.push(Self {
                    remote: route.face.clone(),
                    local: None,
                    persistency: Persistency::Permanent,
                    pit_tokens: PitTokenPolicy::WhenSeen,
                    options: FaceOptions::default(),
                });
            }
        }
        all
    }

    fn of(face: &config::StaticFace) -> Self {
        let dev = |name: &String| FaceUri::parse(&format!("dev://{name}")).ok();
        Self {
            remote: face.uri.clone(),
            local: face.interface.as_ref().and_then(dev),
            persistency: face.persistency,
            pit_tokens: faces::pit_token_policy(face.pit_tokens),
            options: FaceOptions { mtu: face.mtu.map(|mtu| mtu.0), ..FaceOptions::default() },
        }
    }

    fn peer(&self) -> Peer {
        (self.remote.clone(), self.local.clone())
    }

    /// Whether a face has these settings.
    fn is_like(&self, face: &StaticFace) -> bool {
        let FaceSpec { persistency, pit_tokens, options, .. } = &face.spec;
        (*persistency, *pit_tokens, options.mtu)
            == (self.persistency, self.pit_tokens, self.options.mtu)
    }

    fn apply_to(&self, face: &mut StaticFace) {
        let Self { persistency, pit_tokens, options, .. } = *self;
        face.spec = FaceSpec { persistency, pit_tokens, options, ..face.spec };
    }
}

/// The event that adds a configured route of an existing face.
fn add_route(route: &StaticRoute, face_id: u64) -> Event {
    let flags =
        [(route.child_inherit, route_flag::CHILD_INHERIT), (route.capture, route_flag::CAPTURE)];
    let flags = flags.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).sum();
    let (origin, cost) = (route_origin::STATIC, route.cost);
    let added = Route { face_id, origin, cost, flags, expires_at: None };
    Event::AddRoute { prefix: route.prefix.clone(), route: added }
}

#[cfg(test)]
mod tests;
