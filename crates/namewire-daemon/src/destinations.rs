//! Routes and next hops of a removed face, kept until the face returns.

use std::collections::{BTreeMap, VecDeque};

use ndn_management::{ControlState, NextHop, Route, RouteError};
use ndn_packet::Name;
use ndn_types::{PrincipalKey, Timestamp};
use tracing::warn;

/// Maximum entries restored per step, so that other work is not delayed.
const SLICE: usize = 256;

/// The routes of a face, and its next hops that only the FIB has.
#[derive(Debug, Default)]
pub(super) struct Destinations {
    /// By prefix and origin.
    routes: BTreeMap<(Name, u64), Kept<Route>>,
    /// Costs by prefix.
    next_hops: BTreeMap<Name, Kept<u64>>,
    refused: Refused,
}

/// An entry that is kept, and the principal that it is charged to; `None`: it is an operator's.
#[derive(Debug, Clone, Copy)]
struct Kept<T> {
    entry: T,
    owner: Option<PrincipalKey>,
}

/// Entries that were not restored, and the reason why the first of them was not.
#[derive(Debug, Default)]
struct Refused {
    count: usize,
    first: Option<String>,
}

impl Refused {
    fn note(&mut self, prefix: &Name, error: RouteError) {
        self.count += 1;
        self.first.get_or_insert_with(|| format!("{prefix}: {error}"));
    }
}

impl Destinations {
    /// Returns the current routes and next hops of a face.
    pub(super) fn of(state: &ControlState, face_id: u64) -> Self {
        let routes = state.rib().routes_to(face_id).map(|(prefix, route)| {
            let owner = state.route_owner(prefix, face_id, route.origin);
            ((prefix.to_name(), route.origin), Kept { entry: *route, owner })
        });
        let next_hops = state.fib().own_next_hops(face_id).map(|(prefix, cost)| {
            let prefix = prefix.to_name();
            let owner = state.next_hop_owner(&prefix, face_id);
            (prefix, Kept { entry: cost, owner })
        });
        let (routes, next_hops) = (routes.collect(), next_hops.collect());
        Self { routes, next_hops, refused: Refused::default() }
    }

    /// Adds the entries of `others` that are not present yet.
    pub(super) fn add(&mut self, others: Self) {
        for (key, route) in others.routes {
            self.routes.entry(key).or_insert(route);
        }
        for (prefix, cost) in others.next_hops {
            self.next_hops.entry(prefix).or_insert(cost);
        }
    }

    /// Returns whether an Interest with this name matches one of the prefixes.
    pub(super) fn include(&self, name: &Name) -> bool {
        (0..=name.len()).any(|length| {
            let prefix = name.as_ref().prefix(length).to_name();
            let has_next_hop = self.next_hops.contains_key(&prefix);
            let of_prefix = (prefix.clone(), 0)..=(prefix, u64::MAX);
            has_next_hop || self.routes.range(of_prefix).next().is_some()
        })
    }

    /// Removes a route after its unregistration; without an origin, a next hop that only the FIB has.
    pub(super) fn forget(&mut self, prefix: &Name, origin: Option<u64>) {
        match origin {
            Some(origin) => {
                self.routes.remove(&(prefix.clone(), origin));
            }
            None => {
                self.next_hops.remove(prefix.value());
            }
        }
    }

    /// Restores a part of the entries to a face; returns true once all are restored. Newer entries of the face stay,
    /// and expired routes are not restored. Next hops follow all routes, whose own next hops they may replace.
    pub(super) fn give(&mut self, state: &mut ControlState, now: Timestamp, face_id: u64) -> bool {
        let mut given = 0;
        while given < SLICE
            && let Some(((prefix, origin), kept)) = self.routes.pop_first()
        {
            given += 1;
            let Kept { entry: route, owner } = kept;
            let is_over = route.expires_at.is_some_and(|at| at <= now);
            if is_over || state.rib().find(prefix.as_ref(), face_id, origin).is_some() {
                continue;
            }
            let route = Route { face_id, ..route };
            if let Err(error) = state.add_owned_route(prefix.as_ref(), route, owner) {
                self.refused.note(&prefix, error);
            }
        }
        while given < SLICE
            && let Some((prefix, Kept { entry: cost, owner })) = self.next_hops.pop_first()
        {
            given += 1;
            if state.fib().own_next_hop(prefix.as_ref(), face_id).is_some() {
                continue;
            }
            let next_hop = NextHop { face_id, cost };
            if let Err(error) = state.add_owned_next_hop(&prefix, next_hop, owner) {
                self.refused.note(&prefix, error);
            }
        }
        let is_done = self.routes.is_empty() && self.next_hops.is_empty();
        if is_done && let Refused { count, first: Some(first) } = &self.refused {
            warn!(face_id, count, first, "routes of a face that has come back were rejected");
        }
        is_done
    }
}

/// Returned faces, with the destinations still to restore.
#[derive(Debug, Default)]
pub(super) struct Restorations(VecDeque<(u64, Destinations)>);

impl Restorations {
    /// Begins to restore destinations to a face.
    pub(super) fn begin(&mut self, face_id: u64, destinations: Destinations) {
        self.0.push_back((face_id, destinations));
    }

    /// Returns whether everything is restored.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Restores a part of the destinations of one face, in turn. Commands taken before have been executed completely, so
    /// none is undone.
    pub(super) fn advance(&mut self, state: &mut ControlState, now: Timestamp) {
        let Some((face_id, mut destinations)) = self.0.pop_front() else { return };
        if state.face(face_id).is_some() && !destinations.give(state, now, face_id) {
            self.0.push_back((face_id, destinations));
        }
    }

    /// Returns the current routes and next hops of a face that has closed, with those not restored yet.
    pub(super) fn end(&mut self, state: &ControlState, face_id: u64) -> Destinations {
        let mut all = Destinations::of(state, face_id);
        self.0.retain_mut(|(returned, left)| {
            let is_it = *returned == face_id;
            if is_it {
                all.add(std::mem::take(left));
            }
            !is_it
        });
        all
    }

    /// As [`Destinations::forget`], for a returned face.
    pub(super) fn forget(&mut self, face_id: u64, prefix: &Name, origin: Option<u64>) {
        for (_, destinations) in self.0.iter_mut().filter(|(returned, _)| *returned == face_id) {
            destinations.forget(prefix, origin);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ndn_management::{Collaborators, ControlConfig, FaceProperties, FaceRecord};
    use ndn_types::{Now, Scope};

    use super::*;
    use crate::tables::Catalog;

    const NOW: Now = Now { monotonic: Timestamp::from_nanos(1), unix: Duration::ZERO };

    fn name(uri: &str) -> Name {
        Name::from_uri(uri).unwrap()
    }

    fn control(faces: &[u64]) -> ControlState {
        let collaborators = Collaborators::with_strategies(Catalog);
        let mut state = ControlState::new(ControlConfig::default(), collaborators);
        for &face_id in faces {
            state.face_created(NOW, record(face_id));
        }
        state
    }

    fn record(face_id: u64) -> FaceRecord {
        let remote_uri = format!("https://192.0.2.1:{face_id}/ndn");
        FaceRecord {
            properties: FaceProperties {
                face_id,
                local_uri: remote_uri.clone(),
                remote_uri,
                scope: Scope::NonLocal,
                persistency: ndn_types::Persistency::Permanent,
                link_type: ndn_types::LinkType::PointToPoint,
                flags: 0,
            },
            base_congestion_marking_interval_ns: None,
            default_congestion_threshold: None,
            mtu: None,
            keeper: None,
            principal: PrincipalKey::Neighbour { face_id },
            capabilities: ndn_management::FaceCapabilities::default(),
        }
    }

    fn register(state: &mut ControlState, prefix: &str, face_id: u64, origin: u64, cost: u64) {
        let route = Route { face_id, origin, cost, flags: 1, expires_at: None };
        state.add_route(name(prefix).as_ref(), route).unwrap();
    }

    /// Returns prefixes and costs of the next hops through a face.
    fn fib(state: &ControlState, face_id: u64) -> Vec<(String, u64)> {
        let entries = state.fib().iter().flat_map(|(prefix, hops)| {
            let hops = hops.iter().filter(move |hop| hop.face_id == face_id);
            hops.map(move |hop| (prefix.to_uri(), hop.cost))
        });
        entries.collect()
    }

    #[test]
    fn routes_and_fib_only_next_hops_are_restored() {
        let mut state = control(&[300, 301, 302]);
        register(&mut state, "/a", 300, 65, 7);
        register(&mut state, "/a", 300, 0, 9);
        register(&mut state, "/a/b", 301, 0, 1);
        for (prefix, cost) in [("/a", 5), ("/f", 3), ("/g", 4)] {
            state.add_next_hop(&name(prefix), NextHop { face_id: 300, cost }).unwrap();
        }
        let before = fib(&state, 300);
        let expected = [("/a", 5), ("/a/b", 7), ("/f", 3), ("/g", 4)];
        assert_eq!(before, expected.map(|(prefix, cost)| (prefix.to_owned(), cost)));
        let routes = state.rib().routes_to(300).count();

        let mut away = Destinations::of(&state, 300);
        state.face_destroyed(NOW, 300);
        assert!(away.give(&mut state, NOW.monotonic, 302));
        assert_eq!(fib(&state, 302), before);
        assert_eq!(state.rib().routes_to(302).count(), routes);
    }

    #[test]
    fn unregistered_routes_are_not_restored() {
        let mut state = control(&[300, 302]);
        register(&mut state, "/a", 300, 65, 7);
        register(&mut state, "/a", 300, 0, 9);
        state.add_next_hop(&name("/f"), NextHop { face_id: 300, cost: 3 }).unwrap();
        let mut away = Destinations::of(&state, 300);
        state.face_destroyed(NOW, 300);
        away.forget(&name("/a"), Some(65));
        away.forget(&name("/a"), None);
        away.forget(&name("/f"), None);
        assert!(away.give(&mut state, NOW.monotonic, 302));
        assert_eq!(fib(&state, 302), [("/a".to_owned(), 9)]);
    }

    #[test]
    fn newer_commands_on_the_returned_face_take_precedence() {
        let mut state = control(&[300, 302]);
        for prefix in ["/a", "/b"] {
            register(&mut state, prefix, 300, 65, 7);
        }
        register(&mut state, "/a", 300, 0, 9);
        for (prefix, cost) in [("/f", 3), ("/g", 4), ("/r", 5)] {
            state.add_next_hop(&name(prefix), NextHop { face_id: 300, cost }).unwrap();
        }
        let mut away = Destinations::of(&state, 300);
        state.face_destroyed(NOW, 300);
        let newer = Route {
            face_id: 302,
            origin: 65,
            cost: 2,
            flags: 0,
            expires_at: Some(Timestamp::from_nanos(5000)),
        };
        state.add_route(name("/a").as_ref(), newer).unwrap();
        state.add_next_hop(&name("/f"), NextHop { face_id: 302, cost: 1 }).unwrap();
        // The next hop of a route is not an entry of the FIB alone.
        register(&mut state, "/r", 302, 0, 8);
        assert!(away.give(&mut state, NOW.monotonic, 302));
        assert_eq!(state.rib().find(name("/a").as_ref(), 302, 65), Some(&newer));
        let cost = |prefix: &str, origin| {
            state.rib().find(name(prefix).as_ref(), 302, origin).map(|route| route.cost)
        };
        assert_eq!([cost("/a", 0), cost("/b", 65), cost("/r", 0)], [Some(9), Some(7), Some(8)]);
        let expected = [("/a", 2), ("/b", 7), ("/f", 1), ("/g", 4), ("/r", 5)];
        assert_eq!(fib(&state, 302), expected.map(|(prefix, cost)| (prefix.to_owned(), cost)));
    }

    #[test]
    fn expired_routes_are_not_restored() {
        let mut state = control(&[300, 302]);
        for (prefix, expires_at) in [("/a", 1000), ("/b", 1001)] {
            let expires_at = Some(Timestamp::from_nanos(expires_at));
            let route = Route { face_id: 300, origin: 0, cost: 7, flags: 1, expires_at };
            state.add_route(name(prefix).as_ref(), route).unwrap();
        }
        let mut away = Destinations::of(&state, 300);
        state.face_destroyed(NOW, 300);
        assert!(away.give(&mut state, Timestamp::from_nanos(1000), 302));
        assert_eq!(fib(&state, 302), [("/b".to_owned(), 7)]);
    }

    #[test]
    fn many_routes_are_restored_in_parts() {
        let mut state = control(&[300, 302]);
        for number in 0..2 * SLICE as u64 {
            register(&mut state, &format!("/many/{number}"), 300, 0, number);
        }
        state.add_next_hop(&name("/f"), NextHop { face_id: 300, cost: 3 }).unwrap();
        let before = fib(&state, 300);
        let mut away = Destinations::of(&state, 300);
        let mut left = Vec::new();
        while !away.give(&mut state, NOW.monotonic, 302) {
            left.push((away.routes.len(), away.next_hops.len()));
        }
        assert_eq!(left, [(SLICE, 1), (0, 1)]);
        assert_eq!(fib(&state, 302), before);
        // The face is removed before all entries are restored.
        let mut partly = Destinations::of(&state, 302);
        partly.add(Destinations::of(&state, 300));
        assert_eq!((partly.routes.len(), partly.next_hops.len()), (2 * SLICE, 1));
    }

    #[test]
    fn returned_faces_are_restored_in_turn() {
        let mut restorations = Restorations::default();
        let mut state = control(&[]);
        for face_id in [300, 301, 302] {
            state.face_created(NOW, record(face_id));
            for number in 0..1000 {
                let prefix = Name::from_uri(&format!("/{number}")).unwrap();
                let route = Route { face_id, origin: 65, cost: 7, flags: 1, expires_at: None };
                state.add_route(prefix.as_ref(), route).unwrap();
            }
            restorations.begin(face_id + 10, Destinations::of(&state, face_id));
            state.face_destroyed(NOW, face_id);
            state.face_created(NOW, record(face_id + 10));
        }
        // The second face is removed again.
        state.face_destroyed(NOW, 311);
        let count = |state: &ControlState, face_id| state.rib().routes_to(face_id).count();
        while !restorations.is_empty() {
            restorations.advance(&mut state, NOW.monotonic);
            assert!(count(&state, 310).abs_diff(count(&state, 312)) <= 256, "one at a time");
        }
        assert_eq!((count(&state, 310), count(&state, 312)), (1000, 1000));
    }
}
