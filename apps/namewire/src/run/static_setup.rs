//! Faces and routes that are there for good: those of the configuration, and permanent faces of
//! WebTransport sessions, which the worker cannot open again.

use std::time::Duration;

use ndn_face::Persistency;
use ndn_forwarding::PitTokenPolicy;
use ndn_management::{ControlState, FaceUri, Route, route_flag, route_origin};
use ndn_packet::Name;
use tracing::warn;

use super::faces::{self, Wanted};
use crate::config::{Config, StaticRoute};

/// Tickets of static faces start here, out of the way of those of management.
const FIRST_TICKET: u64 = 1 << 63;

/// A face to be made.
#[derive(Debug)]
struct StaticFace {
    remote: FaceUri,
    /// The network interface of an Ethernet face.
    local: Option<FaceUri>,
    wanted: Wanted,
    state: State,
    retry_ns: u64,
    /// Routes that it had when its session ended.
    routes: Vec<(Name, Route)>,
}

/// A permanent face whose session has ended by itself.
#[derive(Debug)]
pub(super) struct LostSession {
    /// Its far end.
    pub(super) remote: FaceUri,
    /// How it was.
    pub(super) wanted: Wanted,
    /// Where it led to.
    pub(super) routes: Vec<(Name, Route)>,
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
    faces: Vec<StaticFace>,
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
        let nanos = |wait: Duration| u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        let mut setup = Self {
            faces: Vec::new(),
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
            if !setup.faces.iter().any(|face| face.remote == route.face) {
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
        let ticket = Some(FIRST_TICKET + self.faces.len() as u64);
        let options = ndn_management::request::FaceOptions { mtu, ..Default::default() };
        let wanted = Wanted { ticket, persistency, pit_tokens, options };
        let state = State::DueAt(0);
        let retry_ns = self.retry_ns_min;
        let routes = Vec::new();
        self.faces.push(StaticFace { remote, local, wanted, state, retry_ns, routes });
    }

    /// When [`due`](Self::due) has something to begin.
    pub(super) fn next_deadline_ns(&self) -> Option<u64> {
        let due = self.faces.iter().filter_map(|face| match face.state {
            State::DueAt(at) => Some(at),
            State::Begun | State::Made(_) => None,
        });
        due.min()
    }

    /// The faces to be begun now.
    pub(super) fn due(&mut self, now_ns: u64) -> Vec<(FaceUri, Option<FaceUri>, Wanted)> {
        let mut due = Vec::new();
        for face in &mut self.faces {
            if matches!(face.state, State::DueAt(at) if at <= now_ns) {
                face.state = State::Begun;
                due.push((face.remote.clone(), face.local.clone(), face.wanted));
            }
        }
        due
    }

    /// A face was made; adds its routes if it is one of these.
    pub(super) fn face_added(
        &mut self,
        state: &mut ControlState,
        ticket: Option<u64>,
        face_id: u64,
    ) {
        let retry_ns = self.retry_ns_min;
        let Some(face) = self.face_of(ticket) else { return };
        face.state = State::Made(face_id);
        face.retry_ns = retry_ns;
        let remote = face.remote.clone();
        for (prefix, route) in std::mem::take(&mut face.routes) {
            let added = state.add_route(prefix.as_ref(), Route { face_id, ..route });
            if let Err(error) = added {
                warn!(%prefix, %error, "a route of a face that has come back was refused");
            }
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

    /// A face could not be made now.
    pub(super) fn connect_failed(&mut self, now_ns: u64, ticket: Option<u64>) {
        let longest_ns = self.retry_ns_max;
        let Some(face) = self.face_of(ticket) else { return };
        face.state = State::DueAt(now_ns.saturating_add(face.retry_ns));
        face.retry_ns = face.retry_ns.saturating_mul(2).min(longest_ns);
    }

    /// The session of a permanent face has ended, which the worker cannot open again: another one is
    /// opened, and its face gets the routes of this one.
    pub(super) fn session_lost(&mut self, now_ns: u64, lost: LostSession) {
        let LostSession { remote, wanted, routes } = lost;
        let known = self.faces.iter().position(|face| face.remote == remote);
        let index = known.unwrap_or(self.faces.len());
        if known.is_none() {
            let Wanted { persistency, pit_tokens, .. } = wanted;
            self.add((remote, None), persistency, pit_tokens, None);
        }
        let Some(face) = self.faces.get_mut(index) else { return };
        face.wanted = Wanted { ticket: face.wanted.ticket, ..wanted };
        face.routes = routes;
        face.state = State::DueAt(now_ns.saturating_add(face.retry_ns));
    }

    fn face_of(&mut self, ticket: Option<u64>) -> Option<&mut StaticFace> {
        let index = usize::try_from(ticket?.checked_sub(FIRST_TICKET)?).ok()?;
        self.faces.get_mut(index)
    }
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
            let wanted = Wanted {
                ticket: Some(5),
                persistency: Persistency::Permanent,
                pit_tokens: PitTokenPolicy::WhenSeen,
                options: ndn_management::request::FaceOptions::default(),
            };
            let routes = vec![(prefix.clone(), route)];
            setup.session_lost(1000, LostSession { remote: remote.clone(), wanted, routes });
            assert!(setup.due(1000).is_empty(), "there is a pause");
            let later = setup.next_deadline_ns().unwrap();
            let due = setup.due(later);
            assert_eq!((due.len(), &due[0].0), (1, &remote), "of both rounds it is one");
            let ticket = due[0].2.ticket;
            assert!(ticket >= Some(FIRST_TICKET), "nobody waits for an answer");
            setup.connect_failed(later, ticket);
            assert!(setup.next_deadline_ns().unwrap() > later, "it is tried until it succeeds");
            assert_eq!(setup.due(u64::MAX).len(), 1);

            let properties = FaceProperties::point_to_point(face_id + 1, FaceScope::NonLocal);
            let created = FaceCreated {
                index: FaceIndex::new(1, 0),
                options: FaceOptions::datagram(properties, Persistency::Permanent, 8800),
                remote: ndn_face::FaceUri::WebTransport("https://192.0.2.1:443/ndn".into()),
                local: ndn_face::FaceUri::Null,
                counters: Arc::default(),
            };
            state.face_created(now, faces::record(&created));
            setup.face_added(&mut state, ticket, face_id + 1);
            let found = state.rib().find(prefix.as_ref(), face_id + 1, 65);
            assert_eq!(found, Some(&Route { face_id: face_id + 1, ..route }));
        }
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
            Action::UpdateFib(found) if *found == updates
        )));
    }
}
