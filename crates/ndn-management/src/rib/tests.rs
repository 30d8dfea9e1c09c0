//! The RIB against a naive oracle that recomputes the whole FIB, and single rules by hand.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use ndn_types::{PrincipalKey, Reserves};
use proptest::prelude::*;

use super::entry::INHERITED_MAX;
use super::*;
use crate::RoutePlaces;
use crate::share::Share;
use crate::types::{route_flag, route_origin};

type NaiveFib = BTreeMap<Name, Vec<NextHop>>;

/// Routes only; every query is answered by a scan of all of them.
#[derive(Debug, Default)]
struct NaiveRib(BTreeMap<Name, Vec<Route>>);

impl NaiveRib {
    fn register(&mut self, prefix: &Name, route: Route) {
        let routes = self.0.entry(prefix.clone()).or_default();
        match routes.iter_mut().find(|r| (r.face_id, r.origin) == (route.face_id, route.origin)) {
            Some(existing) => *existing = route,
            None => routes.push(route),
        }
    }

    fn retain(&mut self, keep: impl Fn(&Name, &Route) -> bool) {
        for (prefix, routes) in &mut self.0 {
            routes.retain(|route| keep(prefix, route));
        }
        self.0.retain(|_, routes| !routes.is_empty());
    }

    fn lowest(routes: &[Route], accept: impl Fn(&Route) -> bool) -> BTreeMap<u64, u64> {
        let mut costs = BTreeMap::new();
        for route in routes.iter().filter(|route| accept(route)) {
            let cost: &mut u64 = costs.entry(route.face_id).or_insert(route.cost);
            *cost = route.cost.min(*cost);
        }
        costs
    }

    fn fib(&self) -> NaiveFib {
        let mut fib = NaiveFib::new();
        for (prefix, routes) in &self.0 {
            let mut costs = Self::lowest(routes, |_| true);
            let mut captured = routes.iter().any(Route::is_capture);
            let mut ancestors: Vec<_> = self
                .0
                .iter()
                .filter(|(other, _)| *other != prefix && prefix.starts_with(other.as_ref()))
                .collect();
            ancestors.sort_by_key(|(other, _)| std::cmp::Reverse(other.len()));
            for (_, inherited) in ancestors {
                if captured {
                    break;
                }
                for (face_id, cost) in Self::lowest(inherited, Route::is_child_inherit) {
                    costs.entry(face_id).or_insert(cost);
                }
                captured = inherited.iter().any(Route::is_capture);
            }
            let mut hops: Vec<NextHop> =
                costs.into_iter().map(|(face_id, cost)| NextHop { face_id, cost }).collect();
            let is_own = |face_id| routes.iter().any(|route| route.face_id == face_id);
            hops.sort_by_key(|hop| (hop.cost, !is_own(hop.face_id), hop.face_id));
            let mut inherited = 0;
            hops.retain(|hop| {
                inherited += usize::from(!is_own(hop.face_id));
                is_own(hop.face_id) || inherited <= INHERITED_MAX
            });
            fib.insert(prefix.clone(), hops);
        }
        fib
    }
}

#[derive(Debug, Clone)]
enum Operation {
    Register {
        prefix: Name,
        route: Route,
    },
    Unregister {
        prefix: Name,
        face_id: u64,
        origin: u64,
    },
    /// The routes of this number of prefixes to a face.
    RemoveFace(u64, usize),
    Advance(u64),
    TakeUpdates,
}

fn any_name() -> impl Strategy<Value = Name> {
    prop::collection::vec(prop::sample::select(vec!["a", "b", "aa"]), 0..5).prop_map(|components| {
        let mut name = Name::new();
        for component in components {
            name.push_generic(component);
        }
        name
    })
}

fn any_operation() -> impl Strategy<Value = Operation> {
    let route = (
        256_u64..264,
        0_u64..2,
        0_u64..4,
        0_u64..4,
        prop::option::of((0_u64..40).prop_map(Timestamp::from_nanos)),
    )
        .prop_map(|(face_id, origin, cost, flags, expires_at)| Route {
            face_id,
            origin,
            cost,
            flags,
            expires_at,
        });
    prop_oneof![
        6 => (any_name(), route).prop_map(|(prefix, route)| Operation::Register { prefix, route }),
        3 => (any_name(), 256_u64..264, 0_u64..2)
            .prop_map(|(prefix, face_id, origin)| Operation::Unregister { prefix, face_id, origin }),
        1 => (256_u64..264, 0..4_usize).prop_map(|(face_id, most)| Operation::RemoveFace(face_id, most)),
        1 => (0_u64..6).prop_map(Operation::Advance),
        2 => Just(Operation::TakeUpdates),
    ]
}

fn apply(fib: &mut NaiveFib, updates: Vec<FibUpdate>) {
    for update in updates {
        match update {
            FibUpdate::Set { prefix, next_hops } => {
                assert!(!next_hops.is_empty());
                assert_ne!(
                    fib.get(&prefix),
                    Some(&next_hops),
                    "update of {prefix} changes nothing"
                );
                fib.insert(prefix, next_hops);
            }
            FibUpdate::Remove { prefix } => {
                assert!(fib.remove(&prefix).is_some(), "{prefix} was not there")
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn agrees_with_recomputation(
        operations in prop::collection::vec(any_operation(), 1..60),
        inherited_at_once in prop_oneof![1..4_usize, Just(1000)],
    ) {
        let mut rib = Rib { inherited_at_once, ..Rib::new(1000) };
        let mut naive = NaiveRib::default();
        let mut fib = NaiveFib::new();
        let mut now = Timestamp::ZERO;
        for operation in operations {
            match operation {
                Operation::Register { prefix, mut route } => {
                    route.expires_at = route.expires_at.map(|delay| now.plus_nanos(1 + delay.as_nanos()));
                    let existed = rib.find(prefix.as_ref(), route.face_id, route.origin).is_some();
                    let result = rib.register(prefix.as_ref(), route).unwrap();
                    prop_assert_eq!(result == Registration::Updated, existed);
                    naive.register(&prefix, route);
                }
                Operation::Unregister { prefix, face_id, origin } => {
                    let before = rib.route_count();
                    let removed = rib.unregister(prefix.as_ref(), face_id, origin);
                    prop_assert_eq!(rib.route_count(), before - usize::from(removed.is_some()));
                    naive.retain(|p, r| !(*p == prefix && r.face_id == face_id && r.origin == origin));
                }
                Operation::RemoveFace(face_id, most) => {
                    rib.remove_face(face_id, most);
                    let is_gone = |(_, routes): &(&Name, &Vec<Route>)| {
                        routes.iter().any(|route| route.face_id == face_id)
                    };
                    let first: Vec<Name> = naive.0.iter().filter(is_gone).take(most)
                        .map(|(prefix, _)| prefix.clone()).collect();
                    naive.retain(|prefix, route| route.face_id != face_id || !first.contains(prefix));
                    let is_left = naive.0.values().flatten().any(|route| route.face_id == face_id);
                    prop_assert_eq!(rib.has_face(face_id), is_left);
                }
                Operation::Advance(by_ns) => {
                    now = now.plus_nanos(by_ns);
                    // A few at a time, the earliest first.
                    while rib.handle_timeout(now, 2) > 0 {}
                    naive.retain(|_, route| route.expires_at.is_none_or(|at| at > now));
                }
                Operation::TakeUpdates => {
                    // In between, too.
                    apply(&mut fib, rib.take_updates());
                    while rib.is_propagating() {
                        rib.continue_propagating(1);
                    }
                    apply(&mut fib, rib.take_updates());
                    prop_assert_eq!(&fib, &naive.fib());
                }
            }
            rib.continue_propagating(1);
            let listed: Vec<(Name, Vec<Route>)> =
                rib.iter().map(|(name, routes)| (name.to_name(), routes.to_vec())).collect();
            let expected: Vec<(Name, Vec<Route>)> =
                naive.0.iter().map(|(name, routes)| (name.clone(), routes.clone())).collect();
            prop_assert_eq!(listed, expected);
            let deadline = naive.0.values().flatten().filter_map(|route| route.expires_at).min();
            prop_assert_eq!(rib.next_deadline(), deadline);
        }
        while rib.is_propagating() {
            rib.continue_propagating(2);
        }
        apply(&mut fib, rib.take_updates());
        prop_assert_eq!(&fib, &naive.fib());
        prop_assert!(rib.take_updates().is_empty());
        for face_id in 256..264 {
            rib.remove_face(face_id, usize::MAX);
        }
        prop_assert_eq!((rib.route_count(), rib.prefix_count()), (0, 0));
        prop_assert!(rib.faces.is_empty() && rib.deadlines.is_empty());
        while rib.is_propagating() {
            rib.continue_propagating(2);
        }
        prop_assert!(rib.turns.is_empty());
        apply(&mut fib, rib.take_updates());
        prop_assert!(fib.is_empty());
    }
}

fn prefix(uri: &str) -> Name {
    uri.parse().unwrap()
}

const fn route(face_id: u64, cost: u64, flags: u64) -> Route {
    Route { face_id, origin: route_origin::APP, cost, flags, expires_at: None }
}

fn register(rib: &mut Rib, uri: &str, route: Route) -> Vec<FibUpdate> {
    rib.register(prefix(uri).as_ref(), route).unwrap();
    rib.take_updates()
}

fn set(uri: &str, hops: &[(u64, u64)]) -> FibUpdate {
    let next_hops = hops.iter().map(|&(face_id, cost)| NextHop { face_id, cost }).collect();
    FibUpdate::Set { prefix: prefix(uri), next_hops }
}

#[test]
fn routes_are_inherited_until_a_prefix_captures() {
    let mut rib = Rib::default();
    assert_eq!(
        register(&mut rib, "/", route(300, 5, route_flag::CHILD_INHERIT)),
        [set("/", &[(300, 5)])]
    );
    assert_eq!(register(&mut rib, "/a/b", route(301, 1, 0)), [set("/a/b", &[(301, 1), (300, 5)])]);
    // A captured prefix inherits nothing, and hides what is above it from those below.
    assert_eq!(
        register(&mut rib, "/a", route(302, 2, route_flag::CAPTURE)),
        [set("/a", &[(302, 2)]), set("/a/b", &[(301, 1)])]
    );
    // Its own CHILD_INHERIT routes still pass.
    assert_eq!(
        register(&mut rib, "/a", route(302, 2, route_flag::CAPTURE | route_flag::CHILD_INHERIT)),
        [set("/a/b", &[(301, 1), (302, 2)])]
    );
    rib.unregister(prefix("/a").as_ref(), 302, route_origin::APP).unwrap();
    assert_eq!(
        rib.take_updates(),
        [FibUpdate::Remove { prefix: prefix("/a") }, set("/a/b", &[(301, 1), (300, 5)])]
    );
}

#[test]
fn cheapest_inherited_next_hops_are_in_the_fib_beside_own_ones() {
    let mut rib = Rib::default();
    let inherited = |number: u64| route(1000 + number, number, route_flag::CHILD_INHERIT);
    register(&mut rib, "/a", route(5, 10_000, 0));
    for number in 0..100 {
        register(&mut rib, "/", inherited(number));
    }
    let next_hops = |first: u64| {
        let cheapest = (first..).take(INHERITED_MAX).map(|number| (1000 + number, number));
        cheapest.chain([(5, 10_000)]).collect::<Vec<_>>()
    };
    rib.unregister(prefix("/").as_ref(), 1000, route_origin::APP).unwrap();
    assert_eq!(rib.take_updates()[1], set("/a", &next_hops(1)));
    // A change of another one changes nothing there.
    rib.unregister(prefix("/").as_ref(), 1099, route_origin::APP).unwrap();
    assert_eq!(rib.take_updates().len(), 1);
    // Own next hops are never left out.
    for number in 1..99 {
        register(&mut rib, "/a", route(1000 + number, 20_000 + number, 0));
    }
    let own = (1..99).map(|number| (1000 + number, 20_000 + number));
    let own: Vec<_> = [(5, 10_000)].into_iter().chain(own).collect();
    register(&mut rib, "/a", route(5, 9_999, 0));
    assert_eq!(register(&mut rib, "/a", route(5, 10_000, 0)), [set("/a", &own)]);
}

/// With one turn for all, the change of the second would be passed on after each slice of those of the first.
#[test]
fn changes_of_one_principal_do_not_delay_what_is_inherited_from_another() {
    const ROOTS: u64 = 50;
    const BELOW: u64 = 20;
    let mut rib = Rib { inherited_at_once: 1, ..Rib::default() };
    let mut share = Share::new(RoutePlaces, (1000, 1000), Reserves::NONE);
    let user = |uid| PrincipalKey::LocalApplication { uid, pid: 0 };
    let [first, second] = [1, 2].map(|uid| share.charge(user(uid), 1).owner);
    for root in 0..=ROOTS {
        for number in 0..BELOW {
            register(&mut rib, &format!("/{root}/{number}"), route(5, 0, 0));
        }
    }
    let change = |rib: &mut Rib, author, root: u64, cost| {
        let inherited = route(300 + root, cost, route_flag::CHILD_INHERIT);
        rib.register_by(Some(author), prefix(&format!("/{root}")).as_ref(), inherited).unwrap();
    };
    (0..ROOTS).for_each(|root| change(&mut rib, first, root, 1));
    change(&mut rib, second, ROOTS, 1);
    for _ in 0..2 * BELOW {
        rib.continue_propagating(1);
    }
    let inherits = |rib: &Rib, root: u64| {
        let last = prefix(&format!("/{root}/{}", BELOW - 1));
        rib.entries[last.as_ref().value()].fib_next_hops().len() == 2
    };
    assert!(inherits(&rib, ROOTS) && (0..ROOTS).all(|root| !inherits(&rib, root)));
    // A change beside those of another at the same prefix does not wait for the turns of that one.
    change(&mut rib, second, ROOTS - 1, 2);
    for _ in 0..4 * BELOW {
        rib.continue_propagating(1);
    }
    assert!(inherits(&rib, ROOTS - 1));
    while rib.is_propagating() {
        rib.continue_propagating(7);
    }
    assert!(rib.turns.is_empty() && (0..ROOTS).all(|root| inherits(&rib, root)));
}

#[test]
fn principals_without_further_changes_are_named_once() {
    let mut share = Share::new(RoutePlaces, (1000, 1000), Reserves::NONE);
    let user = |uid| PrincipalKey::LocalApplication { uid, pid: 0 };
    let [first, second] = [1, 2].map(|uid| share.charge(user(uid), 1).owner);
    let mut turns = Turns::default();
    let root = Key::default();
    for author in [Some(first), Some(second), None, Some(first)] {
        turns.add(author, Key::clone(&root));
    }
    let take = |turns: &mut Turns| turns.take().unwrap().0;
    assert_eq!([take(&mut turns), take(&mut turns)], [Some(first), Some(second)]);
    assert_eq!(turns.take_ended(), BTreeSet::from([second]));
    assert_eq!([take(&mut turns), take(&mut turns)], [None, Some(first)]);
    let again = turns.add(Some(first), root);
    assert_eq!(turns.take_ended(), BTreeSet::new());
    turns.remove(Some(first), again);
    assert_eq!(turns.take_ended(), BTreeSet::from([first]));
}

/// The faces of a user register prefixes above those of others.
#[test]
fn inherited_next_hops_take_no_memory_beyond_the_fib() {
    let mut rib = Rib::default();
    let below: Vec<String> = (0..50).map(|number| format!("/a/b/{number}")).collect();
    for prefix in &below {
        register(&mut rib, prefix, route(5, 0, 0));
    }
    let remembered = |rib: &Rib| rib.entries.values().map(Entry::inherited_count).max();
    for face_id in 1000..1200 {
        register(&mut rib, "/", route(face_id, face_id, route_flag::CHILD_INHERIT));
        register(&mut rib, "/a", route(face_id + 200, face_id, route_flag::CHILD_INHERIT));
        assert!(remembered(&rib) <= Some(2 * INHERITED_MAX), "{:?}", remembered(&rib));
    }
    // Those that were not remembered follow when the cheaper ones end.
    for face_id in 1000..1100 {
        rib.remove_face(face_id, usize::MAX);
        rib.remove_face(face_id + 200, usize::MAX);
    }
    let finish = |rib: &mut Rib| {
        while rib.is_propagating() {
            rib.continue_propagating(100);
        }
        rib.take_updates()
    };
    finish(&mut rib);
    rib.remove_face(1100, usize::MAX);
    let updates = finish(&mut rib);
    assert_eq!(updates.len(), 2 + below.len());
    assert_eq!(updates[2..], below_with(&below, &[(5, 0), (1300, 1100), (1101, 1101)]));
}

fn below_with(prefixes: &[String], hops: &[(u64, u64)]) -> Vec<FibUpdate> {
    let mut sorted: Vec<FibUpdate> = prefixes.iter().map(|prefix| set(prefix, hops)).collect();
    sorted.sort_by_key(|update| match update {
        FibUpdate::Set { prefix, .. } | FibUpdate::Remove { prefix } => prefix.clone(),
    });
    sorted
}

#[test]
fn own_route_overrides_the_inherited_one_of_its_face() {
    let mut rib = Rib::default();
    register(&mut rib, "/a", route(300, 1, route_flag::CHILD_INHERIT));
    assert_eq!(register(&mut rib, "/a/b", route(300, 9, 0)), [set("/a/b", &[(300, 9)])]);
    // Without CHILD_INHERIT, the own route does not hide it from prefixes below.
    assert_eq!(
        register(&mut rib, "/a/b/c", route(301, 3, 0)),
        [set("/a/b/c", &[(300, 1), (301, 3)])]
    );
}

#[test]
fn lowest_cost_route_of_a_face_is_its_next_hop() {
    let mut rib = Rib::default();
    register(&mut rib, "/a", route(300, 7, 0));
    let cheaper = Route { origin: route_origin::STATIC, ..route(300, 4, 0) };
    assert_eq!(register(&mut rib, "/a", cheaper), [set("/a", &[(300, 4)])]);
    rib.unregister(prefix("/a").as_ref(), 300, route_origin::STATIC).unwrap();
    assert_eq!(rib.take_updates(), [set("/a", &[(300, 7)])]);
}

#[test]
fn reverted_change_makes_no_update() {
    let mut rib = Rib::default();
    register(&mut rib, "/a", route(300, 7, 0));
    rib.register(prefix("/a").as_ref(), route(301, 1, 0)).unwrap();
    rib.register(prefix("/b").as_ref(), route(301, 1, 0)).unwrap();
    assert_eq!(rib.remove_face(301, 9), 2);
    assert_eq!(rib.take_updates(), []);
}

#[test]
fn route_expires_at_its_deadline_unless_renewed() {
    let mut rib = Rib::default();
    let at = Timestamp::from_nanos;
    let expiring = |nanos| Route { expires_at: Some(at(nanos)), ..route(300, 1, 0) };
    register(&mut rib, "/a", expiring(100));
    register(&mut rib, "/a", expiring(200));
    assert_eq!(rib.next_deadline(), Some(at(200)));
    assert_eq!(rib.handle_timeout(at(199), 9), 0);
    assert_eq!(rib.handle_timeout(at(200), 0), 0);
    assert_eq!(rib.handle_timeout(at(200), 9), 1);
    assert_eq!(rib.take_updates(), [FibUpdate::Remove { prefix: prefix("/a") }]);
    assert_eq!(rib.next_deadline(), None);
}

#[test]
fn limit_refuses_new_routes_and_accepts_changes() {
    let mut rib = Rib::new(1);
    register(&mut rib, "/a", route(300, 1, 0));
    assert_eq!(
        rib.register(prefix("/b").as_ref(), route(300, 1, 0)),
        Err(RibFull { routes_max: 1 })
    );
    assert_eq!(rib.register(prefix("/a").as_ref(), route(300, 2, 0)), Ok(Registration::Updated));
    assert_eq!(rib.take_updates(), [set("/a", &[(300, 2)])]);
}

#[test]
fn name_with_a_common_byte_prefix_inherits_nothing() {
    let mut rib = Rib::default();
    register(&mut rib, "/a", route(300, 1, route_flag::CHILD_INHERIT));
    assert_eq!(register(&mut rib, "/aa", route(301, 1, 0)), [set("/aa", &[(301, 1)])]);
}

#[test]
fn repeated_watch_keeps_changes() {
    let mut rib = Rib::new(10);
    let (gone, stays) = (Name::from_uri("/gone").unwrap(), Name::from_uri("/stays").unwrap());
    for prefix in [&gone, &stays] {
        let route = Route { face_id: 300, origin: 0, cost: 0, flags: 1, expires_at: None };
        rib.register(prefix.as_ref(), route).unwrap();
    }
    rib.watch();
    assert_eq!(rib.take_changed(), [gone.clone(), stays.clone()]);
    rib.unregister(gone.as_ref(), 300, 0).unwrap();
    rib.watch();
    assert_eq!(rib.take_changed(), [gone, stays.clone()], "the removal is not reported yet");
    rib.watch();
    assert_eq!(rib.take_changed(), [stays]);
}

/// As in NFD: an application that registers `/X/Y` gets the Interests below it, whichever of the two connected first.
#[test]
fn own_route_comes_before_an_inherited_one_of_equal_cost() {
    let inner_name = Name::from_uri("/X/Y").unwrap();
    let add = |rib: &mut Rib, prefix: &str, face_id: u64| {
        let prefix = Name::from_uri(prefix).unwrap();
        rib.register(prefix.as_ref(), route(face_id, 0, route_flag::CHILD_INHERIT)).unwrap();
    };
    let (outer, inner) = (("/X", 0), ("/X/Y", 1));
    for (faces, order) in [
        ([300, 301], [outer, inner]),
        ([300, 301], [inner, outer]),
        ([301, 300], [outer, inner]),
        ([301, 300], [inner, outer]),
    ] {
        let mut rib = Rib::default();
        let mut fib = crate::fib::Fib::new(10);
        let mut update = |rib: &mut Rib| {
            rib.take_updates().into_iter().for_each(|update| _ = fib.apply(update, rib));
            let found = fib.find(inner_name.as_ref()).unwrap_or_default();
            found.iter().map(|hop| hop.face_id).collect::<Vec<_>>()
        };
        let mut next_hops = Vec::new();
        for (prefix, app) in order {
            add(&mut rib, prefix, faces[app]);
            next_hops = update(&mut rib);
        }
        assert_eq!(next_hops, [faces[1], faces[0]]);
        // Registered again, in the other role for a while, and after the other one has gone.
        rib.unregister(inner_name.as_ref(), faces[1], route_origin::APP);
        add(&mut rib, "/X/Y", faces[0]);
        add(&mut rib, "/X", faces[1]);
        assert_eq!(update(&mut rib), faces);
        rib.unregister(inner_name.as_ref(), faces[0], route_origin::APP);
        add(&mut rib, "/X/Y", faces[1]);
        assert_eq!(update(&mut rib), [faces[1], faces[0]]);
    }
}
