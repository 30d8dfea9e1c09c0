//! Faces and routes that are there for good: those of the configuration, and permanent faces of
//! WebTransport sessions, which the worker cannot open again.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use ndn_face::Persistency;
use ndn_forwarding::PitTokenPolicy;
use ndn_management::{ControlState, FaceUri, Route, route_flag, route_origin};
use ndn_packet::Name;
use tracing::warn;

use super::destinations::Destinations;
use super::faces::{self, Wanted};
use crate::config::{Config, StaticRoute};
use crate::control_socket::WaitingFace;

/// Tickets of static faces start here, out of the way of those of management.
const FIRST_TICKET: u64 = 1 << 63;
/// Faces made by command whose sessions have ended and are to be opened again, at a time.
const LOST_MAX: usize = 64;
/// How long they are tried.
const LOST_TRIED: Duration = Duration::from_hours(1);

/// A face to be made.
#[derive(Debug)]
struct StaticFace {
    remote: FaceUri,
    /// The network interface of an Ethernet face.
    local: Option<FaceUri>,
    wanted: Wanted,
    state: State,
    retry_ns: u64,
    /// What it was called when its session ended, and where it led to.
    away: Option<(u64, Destinations)>,
    /// Why the last attempt has failed.
    failure: Option<String>,
    /// It was made by a command and has lost its session. What the configuration names has none.
    lost: Option<Lost>,
}

/// A face that is there until its session is open again, or until it is given up.
#[derive(Debug, Clone, Copy)]
struct Lost {
    /// What it was called.
    face_id: u64,
    ends_at_ns: u64,
}

/// A permanent face whose session has ended by itself.
#[derive(Debug)]
pub(super) struct LostSession {
    /// What it was called.
    pub(super) face_id: u64,
    /// Its far end.
    pub(super) remote: FaceUri,
    /// How it was.
    pub(super) wanted: Wanted,
    /// Where it led to.
    pub(super) destinations: Destinations,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// To be begun then.
    DueAt(u64),
    Begun,
    /// As this face.
    Made(u64),
}

/// What the configuration asks for and how far it is.
#[derive(Debug)]
pub(super) struct StaticSetup {
    /// By the tickets of those who wait for them.
    faces: BTreeMap<u64, StaticFace>,
    next_ticket: u64,
    /// Faces that have come back, and what they have not been given yet of where they led to.
    returning: VecDeque<(u64, Destinations)>,
    routes: Vec<StaticRoute>,
    /// How long to wait before another attempt to connect; doubled each time.
    retry_ns_min: u64,
    /// The longest wait.
    retry_ns_max: u64,
}

impl StaticSetup {
    /// Everything still to do. The next hop of a route that is not among the static faces becomes a
    /// permanent face.
    pub(super) fn new(config: &Config) -> Self {
        let mut setup = Self {
            faces: BTreeMap::new(),
            next_ticket: FIRST_TICKET,
            returning: VecDeque::new(),
            routes: config.static_routes.clone(),
            retry_ns_min: nanos(config.faces.reconnect_min),
            retry_ns_max: nanos(config.faces.reconnect_max),
        };
        for face in &config.static_faces {
            let persistency = match face.persistency {
                crate::config::Persistency::Persistent => Persistency::Persistent,
                crate::config::Persistency::Permanent => Persistency::Permanent,
            };
            let pit_tokens = faces::pit_token_policy(face.pit_tokens);
            let local = face
                .interface
                .as_ref()
                .and_then(|name| FaceUri::parse(&format!("dev://{name}")).ok());
            setup.add((face.uri.clone(), local), persistency, pit_tokens, face.mtu);
        }
        for route in &config.static_routes {
            if !setup.faces.values().any(|face| face.remote == route.face) {
                let remote = route.face.clone();
                setup.add((remote, None), Persistency::Permanent, PitTokenPolicy::WhenSeen, None);
            }
        }
        setup
    }

    fn add(
        &mut self,
        (remote, local): (FaceUri, Option<FaceUri>),
        persistency: Persistency,
        pit_tokens: PitTokenPolicy,
        mtu: Option<u64>,
    ) {
        let options = ndn_management::request::FaceOptions { mtu, ..Default::default() };
        let wanted = Wanted { ticket: None, persistency, pit_tokens, options };
        let state = State::DueAt(0);
        let retry_ns = self.retry_ns_min;
        let (away, failure, lost) = (None, None, None);
        self.insert(StaticFace { remote, local, wanted, state, retry_ns, away, failure, lost });
    }

    fn insert(&mut self, mut face: StaticFace) {
        face.wanted.ticket = Some(self.next_ticket);
        self.faces.insert(self.next_ticket, face);
        self.next_ticket += 1;
    }

    /// When [`due`](Self::due) has something to begin, or [`go_on_returning`](Self::go_on_returning) to do.
    pub(super) fn next_deadline_ns(&self) -> Option<u64> {
        let due = self.faces.values().filter_map(|face| match face.state {
            State::DueAt(at) => Some(at),
            State::Begun | State::Made(_) => None,
        });
        let returning = (!self.returning.is_empty()).then_some(0);
        due.chain(returning).min()
    }

    /// Gives a face that has come back more of where it led to, each of them in turn. Commands that were
    /// taken before have been carried out with all that they ask for, so that none is undone.
    pub(super) fn go_on_returning(&mut self, state: &mut ControlState, now_ns: u64) {
        let Some((face_id, mut destinations)) = self.returning.pop_front() else { return };
        if state.face(face_id).is_some() && !destinations.give(state, now_ns, face_id) {
            self.returning.push_back((face_id, destinations));
        }
    }

    /// The faces to be begun now.
    pub(super) fn due(&mut self, now_ns: u64) -> Vec<(FaceUri, Option<FaceUri>, Wanted)> {
        let mut due = Vec::new();
        for face in self.faces.values_mut() {
            if matches!(face.state, State::DueAt(at) if at <= now_ns) {
                face.state = State::Begun;
                due.push((face.remote.clone(), face.local.clone(), face.wanted));
            }
        }
        due
    }

    /// A face was made; adds its routes of the configuration if it is one of these. Where it led to before
    /// is given to it by [`go_on_returning`](Self::go_on_returning).
    pub(super) fn face_added(
        &mut self,
        state: &mut ControlState,
        ticket: Option<u64>,
        face_id: u64,
    ) {
        let retry_ns = self.retry_ns_min;
        let Some(face) = self.face_of(ticket) else { return };
        face.state = State::Made(face_id);
        face.failure = None;
        face.retry_ns = retry_ns;
        let remote = face.remote.clone();
        if let Some((_, destinations)) = face.away.take() {
            self.returning.push_back((face_id, destinations));
        }
        let is_lost = |face: &mut StaticFace| face.lost.is_some();
        if let Some(ticket) = ticket.filter(|_| self.face_of(ticket).is_some_and(is_lost)) {
            // It is a face like others again.
            self.faces.remove(&ticket);
            return;
        }
        for route in self.routes.iter().filter(|route| route.face == remote) {
            let flags = [
                (route.child_inherit, route_flag::CHILD_INHERIT),
                (route.capture, route_flag::CAPTURE),
            ];
            let flags = flags.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).sum();
            let added = state.add_route(
                route.prefix.as_ref(),
                Route {
                    face_id,
                    origin: route_origin::STATIC,
                    cost: route.cost,
                    flags,
                    expires_at_ns: None,
                },
            );
            if let Err(error) = added {
                warn!(prefix = %route.prefix, %error, "a route of the configuration was refused");
            }
        }
    }

    /// The peer had a face already: that one serves, and does not close any more when it is idle.
    pub(super) fn face_exists(
        &mut self,
        state: &mut ControlState,
        ticket: Option<u64>,
        face_id: u64,
    ) {
        if let Some(face) = self.face_of(ticket) {
            state.adopt_face(face_id, faces::persistency(face.wanted.persistency));
        }
        self.face_added(state, ticket, face_id);
    }

    /// A face could not be made now, for this reason.
    pub(super) fn connect_failed(&mut self, now_ns: u64, ticket: Option<u64>, reason: &str) {
        let longest_ns = self.retry_ns_max;
        let Some(face) = self.face_of(ticket) else { return };
        if let (Some(Lost { face_id, ends_at_ns }), Some(ticket)) = (face.lost, ticket)
            && ends_at_ns <= now_ns
        {
            warn!(face_id, remote = %face.remote, "a session could not be opened again: its face is given up");
            self.faces.remove(&ticket);
            return;
        }
        face.state = State::DueAt(now_ns.saturating_add(face.retry_ns));
        face.failure = Some(reason.to_owned());
        face.retry_ns = face.retry_ns.saturating_mul(2).min(longest_ns);
    }

    /// The session of a permanent face has ended, which the worker cannot open again: another one is
    /// opened, and its face gets the routes of this one.
    pub(super) fn session_lost(&mut self, now_ns: u64, lost: LostSession) {
        let LostSession { face_id, remote, wanted, mut destinations } = lost;
        self.returning.retain_mut(|(returning, left)| {
            let is_it = *returning == face_id;
            if is_it {
                destinations.add(std::mem::take(left));
            }
            !is_it
        });
        if let Some(face) = self.faces.values_mut().find(|face| face.remote == remote) {
            face.wanted = Wanted { ticket: face.wanted.ticket, ..wanted };
            face.away = Some((face_id, destinations));
            face.state = State::DueAt(now_ns.saturating_add(face.retry_ns));
            return;
        }
        if self.faces.values().filter(|face| face.lost.is_some()).count() >= LOST_MAX {
            warn!(face_id, %remote, "a session is not opened again: so many others are waited for");
            return;
        }
        let retry_ns = self.retry_ns_min;
        let state = State::DueAt(now_ns.saturating_add(retry_ns));
        let lost = Some(Lost { face_id, ends_at_ns: now_ns.saturating_add(nanos(LOST_TRIED)) });
        let (local, away, failure) = (None, Some((face_id, destinations)), None);
        self.insert(StaticFace { remote, local, wanted, state, retry_ns, away, failure, lost });
    }

    /// The faces that are not there now.
    pub(super) fn waiting(&self, now_ns: u64) -> Vec<WaitingFace> {
        let waiting = self.faces.values().filter(|face| !matches!(face.state, State::Made(_)));
        let told = waiting.map(|face| WaitingFace {
            face_id: face.lost.map(|lost| lost.face_id),
            remote_uri: face.remote.to_string(),
            last_failure: face.failure.clone(),
            next_attempt_ms: match face.state {
                State::DueAt(at) => Some(at.saturating_sub(now_ns) / 1_000_000),
                State::Begun | State::Made(_) => None,
            },
        });
        told.collect()
    }

    /// The face that was called so and has lost its session is not opened again; false if there is none.
    pub(super) fn cancel(&mut self, face_id: u64) -> bool {
        let is_it = |face: &StaticFace| face.lost.is_some_and(|lost| lost.face_id == face_id);
        let found = self.faces.iter().find(|(_, face)| is_it(face)).map(|(ticket, _)| *ticket);
        found.is_some_and(|ticket| self.faces.remove(&ticket).is_some())
    }

    /// A route to a face that is away was taken back, or without an origin a next hop of the FIB alone.
    pub(super) fn forget_route(&mut self, face_id: u64, prefix: &Name, origin: Option<u64>) {
        let away = self.faces.values_mut().filter_map(|face| face.away.as_mut());
        for (_, destinations) in
            away.chain(&mut self.returning).filter(|(called, _)| *called == face_id)
        {
            destinations.forget(prefix, origin);
        }
    }

    /// Whether the face of this ticket is not wanted any more.
    pub(super) fn is_cancelled(&self, ticket: Option<u64>) -> bool {
        ticket.is_some_and(|ticket| ticket >= FIRST_TICKET && !self.faces.contains_key(&ticket))
    }

    fn face_of(&mut self, ticket: Option<u64>) -> Option<&mut StaticFace> {
        self.faces.get_mut(&ticket?)
    }
}

fn nanos(wait: Duration) -> u64 {
    u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ndn_dataplane::FaceCreated;
    use ndn_face::FaceOptions;
    use ndn_forwarding::{FaceProperties, FaceScope};
    use ndn_management::{
        Action, Collaborators, ControlConfig, FacePersistency, FibUpdate, NextHop, Now,
    };
    use ndn_table::FaceIndex;

    use super::*;
    use crate::run::tables::Catalog;

    fn lost(face_id: u64, remote: &FaceUri) -> LostSession {
        let wanted = Wanted {
            ticket: Some(5),
            persistency: Persistency::Permanent,
            pit_tokens: PitTokenPolicy::WhenSeen,
            options: ndn_management::request::FaceOptions::default(),
        };
        let destinations = Destinations::default();
        LostSession { face_id, remote: remote.clone(), wanted, destinations }
    }

    fn created(face_id: u64) -> FaceCreated {
        let properties = FaceProperties::point_to_point(face_id, FaceScope::NonLocal);
        FaceCreated {
            index: FaceIndex::new(1, 0),
            options: FaceOptions::datagram(properties, Persistency::Permanent, 8800),
            remote: ndn_face::FaceUri::WebTransport("https://192.0.2.1:443/ndn".into()),
            local: ndn_face::FaceUri::Null,
            counters: Arc::default(),
        }
    }

    #[test]
    fn a_permanent_session_comes_back_with_its_routes() {
        let mut setup = StaticSetup::new(&Config::default());
        let remote = FaceUri::parse("https://192.0.2.1:443/ndn").unwrap();
        let collaborators = Collaborators::with_strategies(Catalog::default());
        let mut state = ControlState::new(ControlConfig::default(), collaborators);
        let prefix = Name::from_uri("/a").unwrap();
        let now = Now { monotonic_ns: 1, unix_us: 1 };
        for round in 0..2 {
            let face_id = 300 + round;
            let route = Route { face_id, origin: 65, cost: 7, flags: 1, expires_at_ns: None };
            let created = created(face_id);
            state.face_created(now, faces::record(&created));
            state.add_route(prefix.as_ref(), route).unwrap();
            let destinations = Destinations::of(&state, face_id);
            state.face_destroyed(now, face_id);
            setup.session_lost(1000, LostSession { destinations, ..lost(face_id, &remote) });
            assert!(setup.due(1000).is_empty(), "there is a pause");
            let later = setup.next_deadline_ns().unwrap();
            let due = setup.due(later);
            assert_eq!((due.len(), &due[0].0), (1, &remote), "of both rounds it is one");
            let ticket = due[0].2.ticket;
            assert!(ticket >= Some(FIRST_TICKET), "nobody waits for an answer");
            setup.connect_failed(later, ticket, "nobody there");
            let [waiting] = &setup.waiting(later)[..] else { panic!("it is not waited for") };
            assert_eq!(waiting.face_id, Some(face_id));
            assert_eq!(waiting.last_failure.as_deref(), Some("nobody there"));
            assert!(setup.next_deadline_ns().unwrap() > later, "it is tried until it succeeds");
            assert_eq!(setup.due(u64::MAX).len(), 1);

            state.face_created(now, faces::record(&self::created(face_id + 1)));
            setup.face_added(&mut state, ticket, face_id + 1);
            setup.go_on_returning(&mut state, later);
            let found = state.rib().find(prefix.as_ref(), face_id + 1, 65);
            assert_eq!(found, Some(&Route { face_id: face_id + 1, ..route }));
            assert!(setup.faces.is_empty(), "it is a face like others again");
        }
    }

    #[test]
    fn faces_that_have_come_back_take_turns() {
        let mut setup = StaticSetup::new(&Config::default());
        let collaborators = Collaborators::with_strategies(Catalog::default());
        let mut state = ControlState::new(ControlConfig::default(), collaborators);
        let now = Now { monotonic_ns: 1, unix_us: 1 };
        for face_id in [300, 301, 302] {
            state.face_created(now, faces::record(&created(face_id)));
            for number in 0..1000 {
                let prefix = Name::from_uri(&format!("/{number}")).unwrap();
                let route = Route { face_id, origin: 65, cost: 7, flags: 1, expires_at_ns: None };
                state.add_route(prefix.as_ref(), route).unwrap();
            }
            setup.returning.push_back((face_id + 10, Destinations::of(&state, face_id)));
            state.face_destroyed(now, face_id);
            state.face_created(now, faces::record(&created(face_id + 10)));
        }
        // The second goes again.
        state.face_destroyed(now, 311);
        let count = |state: &ControlState, face_id| state.rib().routes_to(face_id).count();
        while setup.next_deadline_ns().is_some() {
            setup.go_on_returning(&mut state, 1);
            assert!(count(&state, 310).abs_diff(count(&state, 312)) <= 256, "one at a time");
        }
        assert_eq!((count(&state, 310), count(&state, 312)), (1000, 1000));
    }

    #[test]
    fn lost_sessions_are_given_up_after_a_time() {
        let mut setup = StaticSetup::new(&Config::default());
        let remote = FaceUri::parse("https://192.0.2.1:443/ndn").unwrap();
        setup.session_lost(1000, lost(300, &remote));
        let mut last_ns = 0;
        while let Some(at) = setup.next_deadline_ns() {
            let due = setup.due(at);
            setup.connect_failed(at, due[0].2.ticket, "nobody there");
            last_ns = at;
        }
        let tried = nanos(LOST_TRIED);
        assert!((tried..tried + 2 * setup.retry_ns_max + 1000).contains(&last_ns), "{last_ns}");
        assert!(setup.faces.is_empty());
    }

    #[test]
    fn so_many_sessions_are_waited_for_and_each_can_be_called_off() {
        let mut setup = StaticSetup::new(&Config::default());
        let max = u64::try_from(LOST_MAX).unwrap();
        for number in 0..max + 9 {
            let uri = format!("https://192.0.2.1:{}/ndn", 1000 + number);
            setup.session_lost(1, lost(300 + number, &FaceUri::parse(&uri).unwrap()));
        }
        assert_eq!(setup.faces.len(), LOST_MAX);
        let begun = setup.due(u64::MAX).remove(0).2.ticket;
        assert!(!setup.is_cancelled(begun) && !setup.is_cancelled(Some(5)));
        assert!(!setup.cancel(300 + max), "it was one too many");
        assert!(setup.cancel(300) && !setup.cancel(300));
        assert!(setup.is_cancelled(begun), "while it was opened");
        assert!((301..300 + max).all(|face_id| setup.cancel(face_id)));
        assert_eq!(setup.next_deadline_ns(), None);
    }

    #[test]
    fn a_neighbour_that_spoke_first_keeps_its_face_for_a_configured_route() {
        let address = "192.0.2.1:6363".parse().unwrap();
        let route = StaticRoute {
            prefix: Name::from_uri("/a").unwrap(),
            face: FaceUri::parse("udp4://192.0.2.1:6363").unwrap(),
            cost: 7,
            child_inherit: true,
            capture: false,
        };
        let config = Config { static_routes: vec![route], ..Config::default() };
        let mut setup = StaticSetup::new(&config);
        let (_, _, wanted) = setup.due(0).pop().unwrap();

        let collaborators = Collaborators::with_strategies(Catalog::default());
        let mut state = ControlState::new(ControlConfig::default(), collaborators);
        let properties = FaceProperties::point_to_point(300, FaceScope::NonLocal);
        let spoke_first = FaceCreated {
            index: FaceIndex::new(1, 0),
            options: FaceOptions::datagram(properties, Persistency::OnDemand, 8800),
            remote: ndn_face::FaceUri::Udp(address),
            local: ndn_face::FaceUri::Null,
            counters: Arc::default(),
        };
        let now = Now { monotonic_ns: 1, unix_us: 1 };
        state.face_created(now, faces::record(&spoke_first));
        setup.face_exists(&mut state, wanted.ticket, 300);

        let persistency = state.face(300).unwrap().properties.persistency;
        assert_eq!(persistency, FacePersistency::Permanent);
        let actions: Vec<_> = std::iter::from_fn(|| state.poll_action()).collect();
        assert!(actions.iter().any(|action| matches!(
            action,
            Action::UpdateFace { face_id: 300, persistency: Some(FacePersistency::Permanent), .. }
        )));
        let next_hops = vec![NextHop { face_id: 300, cost: 7 }];
        let prefix = Name::from_uri("/a").unwrap();
        let updates = vec![FibUpdate::Set { prefix, next_hops }];
        assert!(actions.iter().any(|action| matches!(
            action,
            Action::UpdateFib { updates: found, .. } if *found == updates
        )));
    }
}
