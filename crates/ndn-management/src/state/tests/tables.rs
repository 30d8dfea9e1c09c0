//! `rib/*`, `fib/*`, `strategy-choice/*`, `cs/*`.

use std::net::Ipv6Addr;

use super::*;
use crate::command::{Command, CommandSignature, TopPrefix};
use crate::dataset::{FaceStatus, FibEntry, NextHopRecord, RibEntry, decode_dataset};
use crate::range::NameRange;
use crate::request::AcceptedCommand;
use crate::strategy_name::StrategyError;
use crate::types::{FACE_ID_INTERNAL, PREFIX_DEPTH_MAX, cs_flag, route_flag, route_origin};

#[test]
fn application_registers_and_unregisters_its_own_face() {
    let mut harness = Harness::new();
    let response = harness.command(APP, Verb::RibRegister, &named("/a"));
    assert_eq!((response.code, response.text.as_str()), (200, "OK"));
    let expected = ControlParameters {
        face_id: Some(APP),
        origin: Some(route_origin::APP),
        cost: Some(0),
        flags: Some(route_flag::CHILD_INHERIT),
        ..named("/a")
    };
    assert_eq!(response.parameters().unwrap(), expected);
    assert_eq!(harness.fib("/a"), [(APP, 0)]);

    let response = harness.command(APP, Verb::RibUnregister, &named("/a"));
    let expected = ControlParameters { face_id: Some(APP), origin: Some(0), ..named("/a") };
    assert_eq!(response.parameters().unwrap(), expected);
    assert_eq!(harness.fib("/a"), []);
    // Once more is no error.
    assert!(harness.command(APP, Verb::RibUnregister, &named("/a")).is_ok());
}

#[test]
fn operator_registers_another_face_and_longer_prefixes_inherit() {
    let mut harness = Harness::new();
    let parameters = ControlParameters {
        face_id: Some(TUNNEL),
        origin: Some(route_origin::STATIC),
        cost: Some(10),
        ..named("/")
    };
    assert!(harness.command(APP, Verb::RibRegister, &parameters).is_ok());
    assert!(harness.command(APP, Verb::RibRegister, &named("/a")).is_ok());
    assert_eq!(harness.fib("/"), [(TUNNEL, 10)]);
    assert_eq!(harness.fib("/a"), [(APP, 0), (TUNNEL, 10)]);
    harness.state.face_destroyed(harness.now, TUNNEL);
    harness.run();
    assert_eq!(harness.fib("/"), []);
    assert_eq!(harness.fib("/a"), [(APP, 0)]);
}

#[test]
fn route_to_a_face_that_does_not_exist_is_answered_200_and_not_added() {
    let mut harness = Harness::new();
    let parameters = ControlParameters { face_id: Some(9999), ..named("/a") };
    assert!(harness.command(APP, Verb::RibRegister, &parameters).is_ok());
    assert_eq!(harness.fib("/a"), []);
    assert_eq!(harness.state.rib().route_count(), 0);
}

#[test]
fn prefixes_of_more_than_32_components_are_refused() {
    let mut harness = Harness::new();
    for (len, code) in [(32, 200), (33, 414)] {
        let parameters =
            ControlParameters { name: Some(deep_name(len)), ..ControlParameters::default() };
        assert_eq!(harness.command(APP, Verb::RibRegister, &parameters).code, code);
        assert_eq!(harness.command(APP, Verb::FibAddNextHop, &parameters).code, code);
        let strategy = Some(name("/localhost/nfd/strategy/multicast"));
        let parameters = ControlParameters { strategy, ..parameters };
        assert_eq!(harness.command(APP, Verb::StrategySet, &parameters).code, code);
    }
}

#[test]
fn route_expires_unless_it_is_renewed() {
    let mut harness = Harness::new();
    let expiring = |ms| ControlParameters { expiration_period_ms: Some(ms), ..named("/a") };
    let response = harness.command(APP, Verb::RibRegister, &expiring(5000));
    assert_eq!(response.parameters().unwrap().expiration_period_ms, Some(5000));
    harness.advance(4 * SECOND);
    assert!(harness.command(APP, Verb::RibRegister, &expiring(5000)).is_ok());
    harness.advance(5 * SECOND - Duration::from_nanos(1));
    assert_eq!(harness.fib("/a"), [(APP, 0)]);
    harness.advance(Duration::from_nanos(1));
    assert_eq!(harness.fib("/a"), []);

    // A period of zero takes back what is there.
    harness.command(APP, Verb::RibRegister, &named("/a"));
    assert!(harness.command(APP, Verb::RibRegister, &expiring(0)).is_ok());
    assert_eq!(harness.fib("/a"), []);
    // A period beyond all clocks is none.
    assert!(harness.command(APP, Verb::RibRegister, &expiring(u64::MAX)).is_ok());
    assert_eq!(harness.state.rib().next_deadline(), None);
}

#[test]
fn full_table_refuses_new_prefixes() {
    let config =
        ControlConfig { fib_entries_max: 2, rib_routes_max: 3, ..ControlConfig::default() };
    let mut harness = Harness::with_config(config);
    harness.state.set_operator_users(vec![1000]);
    assert!(harness.command(APP, Verb::RibRegister, &named("/a")).is_ok());
    assert!(harness.command(APP, Verb::FibAddNextHop, &named("/b")).is_ok());
    assert_eq!(harness.command(APP, Verb::RibRegister, &named("/c")).code, 500);
    assert_eq!(harness.command(APP, Verb::FibAddNextHop, &named("/c")).code, 500);
    for origin in [1, 2] {
        let parameters = ControlParameters { origin: Some(origin), ..named("/a") };
        assert!(harness.command(APP, Verb::RibRegister, &parameters).is_ok());
    }
    let parameters = ControlParameters { origin: Some(3), ..named("/a") };
    assert_eq!(harness.command(APP, Verb::RibRegister, &parameters).code, 500);
    assert_eq!(harness.state.rib().route_count(), 3);
    assert_eq!(harness.fib.len(), 2);
}

#[test]
fn fib_commands_add_and_remove_next_hops() {
    let mut harness = Harness::new();
    let parameters = ControlParameters { face_id: Some(TUNNEL), cost: Some(7), ..named("/a") };
    let response = harness.command(APP, Verb::FibAddNextHop, &parameters);
    assert_eq!((response.code, response.text.as_str()), (200, "OK"));
    assert_eq!(response.parameters().unwrap(), parameters);
    assert!(harness.command(APP, Verb::FibAddNextHop, &named("/a")).is_ok());
    assert_eq!(harness.fib("/a"), [(APP, 0), (TUNNEL, 7)]);

    let unknown = ControlParameters { face_id: Some(9999), ..named("/a") };
    let response = harness.command(APP, Verb::FibAddNextHop, &unknown);
    assert_eq!((response.code, response.text.as_str()), (410, "Face not found"));
    assert!(harness.command(APP, Verb::FibRemoveNextHop, &unknown).is_ok());
    assert!(harness.command(APP, Verb::FibRemoveNextHop, &named("/none")).is_ok());

    let parameters = ControlParameters { face_id: Some(TUNNEL), ..named("/a") };
    assert!(harness.command(APP, Verb::FibRemoveNextHop, &parameters).is_ok());
    assert_eq!(harness.fib("/a"), [(APP, 0)]);
    harness.state.face_destroyed(harness.now, APP);
    harness.run();
    assert!(harness.fib.is_empty());
}

#[test]
fn removed_route_is_reported_to_the_owner() {
    let mut harness = Harness::new();
    let forgotten = |face_id, origin| {
        let prefix = name("/a");
        [Action::ForgetRoute { prefix, face_id, origin }]
    };
    for (verb, origin) in [(Verb::RibUnregister, Some(65)), (Verb::FibRemoveNextHop, None)] {
        let of = |face_id| ControlParameters { face_id: Some(face_id), origin, ..named("/a") };
        assert!(harness.command(APP, verb, &of(9999)).is_ok());
        assert_eq!(harness.take_actions(), forgotten(9999, origin));
        // As it may be of a face that has come back, and has not got all of its routes yet.
        assert!(harness.command(APP, verb, &of(TUNNEL)).is_ok());
        assert_eq!(harness.take_actions(), forgotten(TUNNEL, origin));
        let add = [Verb::RibRegister, Verb::FibAddNextHop][usize::from(origin.is_none())];
        assert!(harness.command(APP, add, &of(TUNNEL)).is_ok());
        assert!(harness.command(APP, verb, &of(TUNNEL)).is_ok());
        // Another one of it may be to come.
        assert_eq!(harness.take_actions(), forgotten(TUNNEL, origin), "it was there");
    }
    let ends =
        ControlParameters { expiration_period_ms: Some(0), face_id: Some(9999), ..named("/a") };
    assert!(harness.command(APP, Verb::RibRegister, &ends).is_ok());
    assert_eq!(harness.take_actions(), forgotten(9999, Some(0)));
}

fn choice(prefix: &str, strategy: &str) -> ControlParameters {
    let strategy = Some(name(&format!("/localhost/nfd/strategy{strategy}")));
    ControlParameters { strategy, ..named(prefix) }
}

#[test]
fn strategy_choice_commands_set_and_unset_a_strategy() {
    let mut harness = Harness::new();
    let response = harness.command(APP, Verb::StrategySet, &choice("/a", "/multicast"));
    assert_eq!((response.code, response.text.as_str()), (200, "OK"));
    assert_eq!(response.parameters().unwrap(), choice("/a", "/multicast/v=5"));
    let instance = name("/localhost/nfd/strategy/multicast/v=5");
    assert_eq!(
        harness.take_actions(),
        [Action::SetStrategy { prefix: name("/a"), strategy: instance.clone() }]
    );
    // The same again changes nothing.
    assert!(harness.command(APP, Verb::StrategySet, &choice("/a", "/multicast/v=5")).is_ok());
    assert_eq!(harness.take_actions(), []);

    let response = harness.command(APP, Verb::StrategySet, &choice("/a", "/nothing"));
    assert_eq!((response.code, response.text.as_str()), (404, "Strategy not registered"));
    let response = harness.command(APP, Verb::StrategySet, &choice("/a", "/multicast/v=5/x~1"));
    assert_eq!(
        (response.code, response.text.as_str()),
        (409, "Error instantiating strategy: unknown parameter x")
    );
    assert_eq!(harness.take_actions(), []);
    assert_eq!(harness.state.strategy_choices().collect::<Vec<_>>(), [(&name("/a"), &instance)]);

    assert_eq!(harness.command(APP, Verb::StrategyUnset, &named("/")).code, 400);
    assert!(harness.command(APP, Verb::StrategyUnset, &named("/a")).is_ok());
    assert_eq!(harness.take_actions(), [Action::UnsetStrategy { prefix: name("/a") }]);
    assert!(harness.command(APP, Verb::StrategyUnset, &named("/a")).is_ok());
    assert_eq!(harness.take_actions(), []);
}

#[test]
fn strategy_choices_are_limited() {
    let config = ControlConfig { strategy_choices_max: 1, ..ControlConfig::default() };
    let mut harness = Harness::with_config(config);
    harness.state.set_operator_users(vec![1000]);
    assert!(harness.command(APP, Verb::StrategySet, &choice("/a", "/multicast")).is_ok());
    assert_eq!(harness.command(APP, Verb::StrategySet, &choice("/b", "/multicast")).code, 500);
    assert!(harness.command(APP, Verb::StrategySet, &choice("/a", "/best-route")).is_ok());
}

#[test]
fn strategy_choices_of_a_configuration_are_atomic() {
    let config = ControlConfig { strategy_choices_max: 5, ..ControlConfig::default() };
    let mut harness = Harness::with_config(config);
    let state = &mut harness.state;
    state.set_default_strategies().unwrap();
    let multicast = name("/localhost/nfd/strategy/multicast");
    let best_route = name("/localhost/nfd/strategy/best-route");
    let mut deep = Name::new();
    (0..=PREFIX_DEPTH_MAX).for_each(|_| _ = deep.push_generic("x"));
    let (a, b, root) = (name("/a"), name("/b"), Name::new());
    state.set_strategy(&a, multicast.as_ref()).unwrap();
    let before: Vec<_> = state.strategy_choices().map(|(p, s)| (p.clone(), s.clone())).collect();
    while state.poll_action().is_some() {}

    // Whatever is wrong with the last one, none is made.
    let good = (&root, multicast.as_ref());
    let none = name("/localhost/nfd/strategy/none");
    for (prefix, strategy, wrong) in [
        (&deep, &multicast, StrategyChoiceError::PrefixTooLong),
        (&a, &none, StrategyError::NotRegistered.into()),
        (&b, &multicast, StrategyChoiceError::Full),
    ] {
        let error = state.plan_strategies([], [good, (prefix, strategy.as_ref())]).unwrap_err();
        assert_eq!(error, (prefix.clone(), wrong));
        assert!(state.strategy_choices().eq(before.iter().map(|(p, s)| (p, s))));
        assert_eq!(state.poll_action(), None);
    }

    // A choice that is removed makes room, and the choices for other prefixes stay.
    state.set_strategy(&root, multicast.as_ref()).unwrap();
    let changes = state.plan_strategies([&a], [(&b, best_route.as_ref())]).unwrap();
    state.change_strategies(changes);
    let of = |state: &ControlState, prefix: &str| {
        let prefix = name(prefix);
        let mut choices = state.strategy_choices();
        choices.find(|(p, _)| **p == prefix).map(|(_, s)| s.to_uri())
    };
    let uri = |strategy: &str| Some(format!("/localhost/nfd/strategy/{strategy}/v=5"));
    assert_eq!((of(state, "/a"), of(state, "/b")), (None, uri("best-route")));
    assert_eq!(of(state, "/"), uri("multicast"));
    // A prefix that has a choice from the start gets it again.
    let changes = state.plan_strategies([&root, &b], []).unwrap();
    state.change_strategies(changes);
    assert_eq!((of(state, "/"), of(state, "/b")), (uri("best-route"), None));
}

#[test]
fn authorizer_without_room_for_its_route_is_refused() {
    use crate::AccessControl;
    use crate::access::PRIVILEGED_MODULES;
    use ndn_security::trust::TrustPolicy;

    let mut harness =
        Harness::with_config(ControlConfig { fib_entries_max: 1, ..ControlConfig::default() });
    harness.state.register_management().unwrap();
    let mut nobody = AccessControl::default();
    nobody.set_localhop_rib(TrustPolicy::accept_all());
    assert!(matches!(harness.state.set_authorizer(Box::new(nobody)), Err(RouteError::FibFull(_))));
    // Anybody may do everything, as before.
    assert!(harness.command(APP, Verb::CsConfig, &ControlParameters::default()).is_ok());
    let mut others = AccessControl::default();
    PRIVILEGED_MODULES.into_iter().for_each(|module| others.grant_everyone(module));
    harness.state.set_authorizer(Box::new(others)).unwrap();
    harness.state.set_authorizer(Box::new(AccessControl::default())).unwrap();
    assert_eq!(harness.command(APP, Verb::CsConfig, &ControlParameters::default()).code, 403);
}

#[test]
fn cs_config_changes_capacity_and_flags() {
    let mut harness = Harness::new();
    let response = harness.command(APP, Verb::CsConfig, &ControlParameters::default());
    let unchanged = ControlParameters {
        capacity: Some(65_536),
        flags: Some(cs_flag::ADMIT | cs_flag::SERVE),
        ..ControlParameters::default()
    };
    assert_eq!(response.parameters().unwrap(), unchanged);
    assert_eq!(harness.take_actions(), []);

    let mut requested = ControlParameters { capacity: Some(100), ..ControlParameters::default() };
    requested.set_flag(cs_flag::SERVE, false);
    let response = harness.command(APP, Verb::CsConfig, &requested);
    let changed =
        ControlParameters { capacity: Some(100), flags: Some(cs_flag::ADMIT), ..unchanged };
    assert_eq!(response.parameters().unwrap(), changed);
    let settings = CsConfiguration { capacity: 100, admit: true, serve: false };
    assert_eq!(harness.take_actions(), [Action::ConfigureCs(settings)]);
    assert_eq!(harness.state.cs(), settings);
}

fn erase(
    harness: &mut Harness,
    count: Option<u64>,
    erased: u64,
    more_remain: bool,
) -> (u64, ControlParameters) {
    let handled = harness.begin(APP, Verb::CsErase, &ControlParameters { count, ..named("/a") });
    assert!(matches!(handled, RequestOutcome::Command { code: None, .. }));
    let [Action::EraseCs { ticket, prefix, limit, is_whole_name: false }] =
        &harness.take_actions()[..]
    else {
        panic!()
    };
    assert_eq!(*prefix, name("/a"));
    assert!(harness.sent.is_empty());
    harness.state.cs_erase_done(*ticket, erased, more_remain);
    harness.state.cs_erase_done(*ticket, erased, more_remain);
    harness.run();
    assert!(
        harness.sent.iter().all(|(_, may_cache)| !may_cache),
        "the next erasure would count it"
    );
    let response = harness.response();
    assert!(response.is_ok());
    (*limit, response.parameters().unwrap())
}

#[test]
fn erasures_of_one_principal_are_done_one_after_the_other() {
    let mut harness = Harness::new();
    neighbour(&mut harness, 402, 2);
    let begun = |harness: &mut Harness| -> Vec<(Ticket, Name)> {
        let actions = harness.take_actions().into_iter();
        let erasures = actions.filter_map(|action| match action {
            Action::EraseCs { ticket, prefix, .. } => Some((ticket, prefix)),
            _ => None,
        });
        erasures.collect()
    };
    let begin = |harness: &mut Harness, face_id: u64, prefix: &str| {
        harness.begin(face_id, Verb::CsErase, &named(prefix));
        begun(harness)
    };
    let first = begin(&mut harness, APP, "/a");
    assert_eq!(first[0].1, name("/a"));
    assert_eq!(begin(&mut harness, APP, "/b"), []);
    assert_eq!(begin(&mut harness, APP, "/c"), []);
    // That of another principal takes turns with the first one.
    assert_eq!(begin(&mut harness, 402, "/d")[0].1, name("/d"));
    harness.state.cs_erase_done(first[0].0, 1, false);
    harness.run();
    let second = begun(&mut harness);
    assert_eq!((second.len(), &second[0].1), (1, &name("/b")));
    // Commands that wait for too long are dropped, and their erasures with them.
    harness.advance(61 * SECOND);
    harness.state.cs_erase_done(second[0].0, 1, false);
    harness.run();
    assert_eq!(begun(&mut harness), []);
    assert_eq!(begin(&mut harness, APP, "/e")[0].1, name("/e"));
}

#[test]
fn erase_is_limited_and_reports_the_limit_when_more_remain() {
    let mut harness = Harness::new();
    for (count, erased, more_remain, limit, capacity) in [
        (None, 3, false, 256, None),
        (None, 256, true, 256, Some(256)),
        (None, 256, false, 256, None),
        (Some(10), 10, true, 10, None),
        (Some(256), 256, true, 256, None),
        (Some(1000), 256, true, 256, Some(256)),
    ] {
        let (asked, parameters) = erase(&mut harness, count, erased, more_remain);
        assert_eq!(asked, limit);
        let expected = ControlParameters { count: Some(erased), capacity, ..named("/a") };
        assert_eq!(parameters, expected, "{count:?}");
    }
}

#[test]
fn waiting_commands_are_limited_and_expire() {
    let mut harness = Harness::new();
    // 69 % that are open to all, and the reserve of applications.
    for _ in 0..810 {
        harness.begin(APP, Verb::CsErase, &named("/a"));
    }
    assert_eq!(harness.command(APP, Verb::CsErase, &named("/a")).code, 500);
    // Erasures of one principal wait for each other.
    let actions = harness.take_actions();
    let [Action::EraseCs { ticket, .. }] = actions[..] else { panic!("{actions:?}") };
    harness.advance(61 * SECOND);
    harness.state.cs_erase_done(ticket, 1, false);
    harness.run();
    harness.begin(APP, Verb::CsErase, &named("/a"));
    assert_eq!(harness.take_actions().len(), 1);
}

/// The commands go on waiting, as those that connect to a host that does not answer.
#[test]
fn waiting_commands_of_a_user_leave_places_to_others() {
    const OTHER_APP: u64 = 302;
    let mut harness = Harness::new();
    let mut other = record(OTHER_APP, "fd://21", Scope::Local);
    other.principal = PrincipalKey::LocalApplication { uid: 1001, pid: 8 };
    harness.state.face_created(harness.now, other);
    harness.run();
    harness.sent.clear();
    let create = |number: usize| {
        let uri = Some(format!("tcp4://192.0.2.1:{}", 1000 + number));
        ControlParameters { uri, ..ControlParameters::default() }
    };
    let tickets = |harness: &mut Harness| {
        let (mut created, mut cancelled) = (Vec::new(), Vec::new());
        for action in harness.take_actions() {
            match action {
                Action::CreateFace { ticket, .. } => created.push(ticket),
                Action::CancelFace { ticket } => cancelled.push(ticket),
                other => panic!("{other:?}"),
            }
        }
        (created, cancelled)
    };
    for number in 0..1024 {
        harness.begin(APP, Verb::FaceCreate, &create(number));
    }
    let (created, cancelled) = tickets(&mut harness);
    assert_eq!((created.len(), cancelled.len()), (810, 0));
    assert!(harness.responses().iter().all(|response| response.code == 500));
    // An operator has a reserve.
    harness.operator_command(Verb::FaceCreate, &create(2000));
    let (of_operator, cancelled) = tickets(&mut harness);
    assert_eq!((of_operator.len(), cancelled.len()), (1, 0));
    // Half of the places are the share of another user: the oldest commands of the first one give way.
    for number in 3000..3100 {
        harness.begin(OTHER_APP, Verb::FaceCreate, &create(number));
    }
    let (of_other, cancelled) = tickets(&mut harness);
    assert_eq!((of_other.len(), &cancelled[..]), (100, &created[..100]));
    let responses = harness.responses();
    assert_eq!(responses.len(), 100);
    assert!(responses.iter().all(|response| response.code == 500));
    harness.advance(61 * SECOND);
    assert!(harness.state.pending_places().is_zero());
}

#[test]
fn default_strategies_and_routes_are_set_at_start() {
    let mut harness = Harness::new();
    harness.state.register_management().unwrap();
    harness.state.set_default_strategies().unwrap();
    harness.run();
    assert_eq!(harness.fib("/localhost/nfd"), [(1, 0)]);
    let choices: Vec<(String, String)> =
        harness.state.strategy_choices().map(|(p, s)| (p.to_uri(), s.to_uri())).collect();
    let of = |prefix: &str, strategy: &str| {
        (prefix.to_owned(), format!("/localhost/nfd/strategy/{strategy}/v=5"))
    };
    // Canonical order: a shorter component comes before a longer one.
    let expected = [
        of("/", "best-route"),
        of("/ndn/broadcast", "multicast"),
        of("/localhost", "multicast"),
        of("/localhost/nfd", "best-route"),
    ];
    assert_eq!(choices, expected);
}

#[test]
fn management_route_cannot_be_changed() {
    let mut harness = Harness::new();
    let own = ControlParameters {
        name: Some(name("/localhost/nfd")),
        face_id: Some(FACE_ID_INTERNAL),
        ..ControlParameters::default()
    };
    let expiring = ControlParameters { expiration_period_ms: Some(1), ..own.clone() };
    for (verb, parameters) in [
        (Verb::RibUnregister, &own),
        (Verb::RibRegister, &expiring),
        (Verb::FibRemoveNextHop, &own),
        (Verb::FibAddNextHop, &own),
    ] {
        let handled = harness.operator_command(verb, parameters);
        assert!(matches!(handled, RequestOutcome::Command { code: Some(409), .. }), "{handled:?}");
        harness.sent.clear();
        assert_eq!(harness.take_actions(), []);
    }
}

/// A route for a name below the management prefix would take the commands of all other programs.
#[test]
fn names_of_management_are_for_operators() {
    let mut harness = Harness::new();
    for prefix in ["/localhost/nfd", "/localhost/nfd/rib", "/localhop/nfd/rib/register"] {
        let named = named(prefix);
        let strategy = name("/localhost/nfd/strategy/multicast");
        let choice = ControlParameters { strategy: Some(strategy), ..named.clone() };
        for (verb, parameters) in [
            (Verb::RibRegister, &named),
            (Verb::RibUnregister, &named),
            (Verb::FibAddNextHop, &named),
            (Verb::FibRemoveNextHop, &named),
            (Verb::StrategySet, &choice),
            (Verb::StrategyUnset, &named),
        ] {
            assert_eq!(harness.command(APP, verb, parameters).code, 403, "{prefix} {verb:?}");
            assert_eq!(harness.take_actions(), []);
        }
        let route = ControlParameters { face_id: Some(APP), ..named.clone() };
        let handled = harness.operator_command(Verb::RibRegister, &route);
        assert!(matches!(handled, RequestOutcome::Command { code: Some(200), .. }), "{handled:?}");
        harness.sent.clear();
        harness.take_actions();
    }
}

/// By default, as in NFD, every user who may send a command can change everything by it.
#[test]
fn objects_of_others_are_for_operators_if_they_are_protected() {
    const OTHER: u64 = 310;
    const NEIGHBOUR: u64 = 311;
    let multicast = || ControlParameters {
        strategy: Some(name("/localhost/nfd/strategy/multicast")),
        ..named("/op")
    };
    let on = |face_id, uri: &str| ControlParameters { face_id: Some(face_id), ..named(uri) };
    let face = |face_id| ControlParameters { face_id: Some(face_id), ..Default::default() };
    let updated = |face_id| ControlParameters { mtu: Some(1000), ..face(face_id) };
    let capacity = ControlParameters { capacity: Some(0), ..Default::default() };
    for protect_others in [false, true] {
        let mut harness = Harness::new();
        let of_other = PrincipalKey::LocalApplication { uid: 2000, pid: 9 };
        let mut other = record(OTHER, "fd://30", Scope::Local);
        other.principal = of_other;
        harness.state.face_created(harness.now, other);
        let mut neighbour = record(NEIGHBOUR, "udp4://192.0.2.9:6363", Scope::NonLocal);
        neighbour.principal = PrincipalKey::Neighbour { face_id: NEIGHBOUR };
        harness.state.face_created(harness.now, neighbour);
        let operators = Operators { users: vec![2000], protect_others };
        harness.state.set_operators(operators);
        harness.run();
        harness.sent.clear();
        for (verb, parameters) in [
            (Verb::RibRegister, on(NEIGHBOUR, "/op")),
            (Verb::FibAddNextHop, on(NEIGHBOUR, "/op/fib")),
            (Verb::StrategySet, multicast()),
        ] {
            assert!(harness.command(OTHER, verb, &parameters).is_ok());
        }
        harness.take_actions();
        let expected = if protect_others { 403 } else { 200 };
        let costly = ControlParameters { cost: Some(9), ..on(NEIGHBOUR, "/op") };
        let costly_hop = ControlParameters { cost: Some(9), ..on(NEIGHBOUR, "/op/fib") };
        // Whether anything else is asked to act.
        for (verb, parameters, acts) in [
            (Verb::RibRegister, &costly, false),
            (Verb::FibAddNextHop, &costly_hop, false),
            (Verb::CsConfig, &capacity, true),
            (Verb::StrategySet, &multicast(), false),
            (Verb::StrategyUnset, &named("/op"), true),
            (Verb::FaceUpdate, &updated(NEIGHBOUR), true),
            (Verb::RibUnregister, &on(NEIGHBOUR, "/op"), true),
            (Verb::FibRemoveNextHop, &on(NEIGHBOUR, "/op/fib"), true),
            (Verb::FaceDestroy, &face(NEIGHBOUR), true),
            // One that is being established again may have routes of others.
            (Verb::RibUnregister, &on(999, "/op"), true),
        ] {
            assert_eq!(harness.command(APP, verb, parameters).code, expected, "{verb:?}");
            assert_eq!(!harness.take_actions().is_empty(), acts && !protect_others, "{verb:?}");
        }
        assert_eq!(harness.fib("/op"), if protect_others { vec![(NEIGHBOUR, 0)] } else { vec![] });
        // What is one's own, and what is nobody's.
        for (verb, parameters) in [
            (Verb::RibRegister, &named("/op")),
            (Verb::RibRegister, &costly),
            (Verb::RibUnregister, &named("/op")),
            (Verb::FibAddNextHop, &named("/op/fib")),
            (Verb::FibRemoveNextHop, &named("/op/fib")),
            (Verb::CsConfig, &ControlParameters::default()),
            (Verb::FaceDestroy, &face(APP)),
        ] {
            let is_own = parameters.face_id.is_none() || parameters.face_id == Some(APP);
            let expected = if is_own { 200 } else { expected };
            assert_eq!(harness.command(APP, verb, parameters).code, expected, "{verb:?}");
        }
    }
}

/// A face with the principal of an address, which may send commands.
fn neighbour(harness: &mut Harness, face_id: u64, last: u8) {
    let uri = format!("udp4://192.0.2.{last}:6363");
    harness.state.face_created(harness.now, record(face_id, &uri, Scope::Local));
}

/// The number of routes, strategy choices and strategy instances that a principal holds.
fn held(harness: &Harness, key: PrincipalKey) -> [u32; 3] {
    let (choices, instances) = harness.state.strategy_places();
    [harness.state.route_places(), choices, instances].map(|report| {
        report.principals.iter().find(|one| one.key == key).map_or(0, |one| one.held[0])
    })
}

fn peer(last: u8) -> PrincipalKey {
    PrincipalKey::remote(([192, 0, 2, last], 6363).into())
}

const USER: PrincipalKey = PrincipalKey::LocalApplication { uid: 1000, pid: 0 };

#[test]
fn routes_of_one_principal_leave_room_for_those_of_others() {
    let config =
        ControlConfig { fib_entries_max: 100, rib_routes_max: 200, ..ControlConfig::default() };
    let mut harness = Harness::with_config(config);
    (2..=4).for_each(|last| neighbour(&mut harness, 400 + u64::from(last), last));
    let operator = |harness: &mut Harness, uri: &str| {
        let parameters = ControlParameters { face_id: Some(TUNNEL), ..named(uri) };
        harness.operator_command(Verb::RibRegister, &parameters);
        harness.sent.clear();
    };
    (0..10).for_each(|number| operator(&mut harness, &format!("/operator/{number}")));
    // Names and next hops of each peer, until it is refused.
    let fill = |harness: &mut Harness, face_id: u64| {
        let accepted = |verb: Verb, number: u64, harness: &mut Harness| {
            let parameters = named(&format!("/peer/{face_id}/{number}"));
            let response = harness.command(face_id, verb, &parameters);
            assert!(
                response.is_ok() || response.text.contains("has its share of the routes"),
                "{response:?}"
            );
            response.is_ok()
        };
        let verbs = [Verb::RibRegister, Verb::FibAddNextHop];
        (0..200)
            .take_while(|number| accepted(verbs[(number % 2) as usize], *number, harness))
            .count()
    };
    // 31 places are reserves, of which operators use one: half of 60, a quarter, an eighth.
    let counts = [402, 403, 404].map(|face_id| fill(&mut harness, face_id));
    assert_eq!(counts, [30, 15, 8]);
    assert_eq!([2, 3, 4].map(|last| held(&harness, peer(last))[0]), [30, 15, 8]);
    assert_eq!(held(&harness, PrincipalKey::Management)[0], 10);
    // The reserve of applications, and what is left, serve the user of this host.
    assert_eq!(fill(&mut harness, APP), 9);
    // The operator uses what is left.
    (10..200).for_each(|number| operator(&mut harness, &format!("/operator/{number}")));
    assert_eq!(harness.state.fib().len(), 100);
    // A change of a route that exists takes nothing, and an operator's change makes it an operator's.
    let cost = ControlParameters { cost: Some(7), ..named("/peer/402/0") };
    assert!(harness.command(402, Verb::RibRegister, &cost).is_ok());
    assert_eq!(held(&harness, peer(2))[0], 30);
    let adopted = ControlParameters { face_id: Some(402), ..cost };
    harness.operator_command(Verb::RibRegister, &adopted);
    harness.sent.clear();
    assert_eq!(held(&harness, peer(2))[0], 29);

    // Each way in which routes and next hops end gives back.
    assert!(harness.command(403, Verb::RibUnregister, &named("/peer/403/0")).is_ok());
    assert!(harness.command(403, Verb::FibRemoveNextHop, &named("/peer/403/1")).is_ok());
    assert_eq!(held(&harness, peer(3))[0], 13);
    // The second holds more than what remains, and another peer nothing.
    let expiring = ControlParameters { expiration_period_ms: Some(1000), ..named("/peer/new") };
    assert_eq!(harness.command(403, Verb::RibRegister, &expiring).code, 500);
    neighbour(&mut harness, 405, 5);
    assert_eq!(
        harness.command(405, Verb::RibRegister, &expiring).code,
        500,
        "operators have the reserves"
    );
    for number in 0..20 {
        let parameters =
            ControlParameters { face_id: Some(TUNNEL), ..named(&format!("/operator/{number}")) };
        harness.operator_command(Verb::RibUnregister, &parameters);
        harness.sent.clear();
    }
    assert!(harness.command(405, Verb::RibRegister, &expiring).is_ok());
    assert_eq!(held(&harness, peer(5))[0], 1);
    harness.advance(2 * SECOND);
    assert_eq!(held(&harness, peer(5))[0], 0);
    for face_id in [402, 403, 404, APP, TUNNEL] {
        harness.state.face_destroyed(harness.now, face_id);
        harness.advance(SECOND);
    }
    assert!(harness.state.route_places().is_zero(), "{:?}", harness.state.route_places());
}

#[test]
fn next_hop_that_the_rib_replaces_is_given_back() {
    let mut harness = Harness::new();
    assert!(harness.command(APP, Verb::FibAddNextHop, &named("/a")).is_ok());
    assert!(harness.command(APP, Verb::RibRegister, &named("/a")).is_ok());
    assert_eq!(held(&harness, USER)[0], 2);
    assert!(harness.command(APP, Verb::RibUnregister, &named("/a")).is_ok());
    assert_eq!(harness.fib("/a"), []);
    assert!(harness.state.route_places().is_zero());
}

#[test]
fn strategies_of_one_principal_leave_room_for_those_of_others() {
    let config = ControlConfig {
        strategy_choices_max: 100,
        strategy_instances_max: 10,
        reserves: ndn_types::Reserves::NONE,
        ..ControlConfig::default()
    };
    let mut harness = Harness::with_config(config);
    harness.state.set_default_strategies().unwrap();
    while harness.state.poll_action().is_some() {}
    let set = |harness: &mut Harness, face_id: u64, prefix: &str, strategy: &str| {
        harness.command(face_id, Verb::StrategySet, &choice(prefix, strategy))
    };
    let count = (0..200)
        .take_while(|number| set(&mut harness, APP, &format!("/a/{number}"), "/multicast").is_ok())
        .count();
    assert_eq!((count, held(&harness, USER)), (48, [0, 48, 1]));
    let refused = set(&mut harness, APP, "/a/new", "/multicast");
    assert_eq!(refused.text, "user 1000 has its share of the strategy_choices: it holds 48 of 100");
    neighbour(&mut harness, 402, 2);
    assert!(set(&mut harness, 402, "/b", "/best-route").is_ok());
    // The repetition of a choice does not change its owner.
    assert!(set(&mut harness, 402, "/a/1", "/multicast").is_ok());
    assert_eq!(held(&harness, peer(2)), [0, 1, 1]);
    // Another choice for the prefix is.
    assert!(set(&mut harness, 402, "/a/1", "/best-route").is_ok());
    assert_eq!((held(&harness, peer(2)), held(&harness, USER)), ([0, 2, 1], [0, 47, 1]));
    // An operator's choice is charged to management.
    harness
        .state
        .set_strategy(&name("/b"), name("/localhost/nfd/strategy/multicast").as_ref())
        .unwrap();
    assert_eq!(
        (held(&harness, peer(2)), held(&harness, PrincipalKey::Management)),
        ([0, 1, 1], [0, 5, 2])
    );
    for number in 0..48 {
        harness.state.unset_strategy(&name(&format!("/a/{number}")));
    }
    assert_eq!((held(&harness, peer(2)), held(&harness, USER)), ([0; 3], [0; 3]));
    assert_eq!(held(&harness, PrincipalKey::Management), [0, 5, 2]);
}

/// Otherwise two of them would fill the table: one with new choices, the other one with those of the first.
#[test]
fn principal_changes_strategies_of_others_up_to_its_share() {
    let config = ControlConfig {
        strategy_choices_max: 100,
        strategy_instances_max: 4,
        reserves: ndn_types::Reserves::NONE,
        ..ControlConfig::default()
    };
    let mut harness = Harness::with_config(config);
    neighbour(&mut harness, 402, 2);
    neighbour(&mut harness, 403, 3);
    let mut set = |face_id: u64, prefix: &str, strategy: &str| {
        harness.command(face_id, Verb::StrategySet, &choice(prefix, strategy)).is_ok()
    };
    for round in 0..10 {
        for number in 0..100 {
            let prefix = format!("/{round}/{number}");
            if set(APP, &prefix, "/multicast") {
                set(402, &prefix, "/best-route");
            }
        }
    }
    assert!(set(403, "/c", "/multicast"));
    // It needs no further instance.
    assert!(set(403, "/d", "/multicast"));
    assert!(!set(APP, "/e", "/asf") || !set(APP, "/f", "/random"), "of four instances");
    assert!(set(403, "/g", "/multicast"));
}

/// The place of an instance that nothing but the previous choice uses is free for the new one.
#[test]
fn choice_is_changed_where_no_further_instance_fits() {
    let with_instances = |strategy_instances_max| {
        Harness::with_config(ControlConfig {
            strategy_instances_max,
            reserves: ndn_types::Reserves::NONE,
            ..ControlConfig::default()
        })
    };
    let mut harness = with_instances(2);
    let mut set = |prefix: &str, strategy: &str| {
        harness.command(APP, Verb::StrategySet, &choice(prefix, strategy)).text
    };
    let refused = "user 1000 has its share of the strategy_instances: it holds 1 of 2";
    assert_eq!(set("/a", "/multicast"), "OK");
    assert_eq!(set("/b", "/best-route"), refused);
    assert_eq!(set("/a", "/best-route"), "OK");
    assert_eq!(set("/b", "/best-route"), "OK");
    // The other choice still uses the instance.
    assert_eq!(set("/a", "/multicast"), refused);
    assert_eq!(held(&harness, USER), [0, 2, 1]);

    let mut harness = with_instances(1);
    let mut set = |prefix: &str, strategy: &str| {
        let strategy = name(&format!("/localhost/nfd/strategy{strategy}"));
        harness.state.set_strategy(&name(prefix), strategy.as_ref()).is_ok()
    };
    assert!(set("/a", "/multicast") && !set("/b", "/best-route") && set("/a", "/best-route"));
    assert!(set("/b", "/best-route") && !set("/a", "/multicast"));
}

#[test]
fn network_that_shares_an_account_may_change_its_choices() {
    let config = ControlConfig {
        strategy_choices_max: 100,
        strategy_instances_max: 40,
        reserves: ndn_types::Reserves::NONE,
        ..ControlConfig::default()
    };
    let mut harness = Harness::with_config(config);
    let last = 400 + 16;
    for face_id in 400..=last {
        let address = Ipv6Addr::new(0x2001, 0xdb8, 7, u16::try_from(face_id).unwrap(), 0, 0, 0, 1);
        let principal = PrincipalKey::remote((address, 6363).into());
        let face = FaceRecord { principal, ..record(face_id, "fd://20", Scope::Local) };
        harness.state.face_created(harness.now, face);
    }
    let mut set = |face_id: u64, prefix: &str, strategy: &str| {
        harness.command(face_id, Verb::StrategySet, &choice(prefix, strategy)).is_ok()
    };
    for face_id in 400..last {
        assert!(set(face_id, &format!("/{face_id}"), "/multicast"));
    }
    let count = (0..100).take_while(|number| set(last, &format!("/a/{number}"), "/multicast"));
    let count = count.count();
    assert!((1..100).contains(&count), "{count}");
    assert!(set(last, "/a/0", "/best-route"));
    let address = Ipv6Addr::new(0x2001, 0xdb8, 7, 400, 0, 0, 0, 1);
    let site = PrincipalKey::remote((address, 6363).into()).group().unwrap();
    assert_eq!(held(&harness, site)[1], u32::try_from(count).unwrap());
}

#[test]
fn one_principal_leaves_routes_of_a_prefix_to_others() {
    let mut harness = Harness::new();
    for last in 2..=40 {
        neighbour(&mut harness, 400 + u64::from(last), last);
    }
    let mut register = |face_id: u64, origin: u64| {
        let parameters = ControlParameters { origin: Some(origin), ..named("/chat") };
        let response = harness.command(face_id, Verb::RibRegister, &parameters);
        assert!(response.is_ok() || response.text.contains("only operators add"), "{response:?}");
        response.is_ok()
    };
    assert_eq!((0..100).filter(|origin| register(402, *origin)).count(), 16);
    // Seven others take the rest of the first half; then each has one.
    let taken: Vec<usize> = (403..=440)
        .map(|face_id| (0..20).filter(|origin| register(face_id, *origin)).count())
        .collect();
    assert_eq!((&taken[..8], &taken[8..]), (&[16, 16, 16, 16, 16, 16, 16, 1][..], &[1; 30][..]));
    assert!(!register(402, 200));
}

#[test]
fn neighbour_changes_routes_of_its_own_face_only() {
    let accepted = |top_prefix, face_id| {
        let parameters = ControlParameters { face_id, ..named("/a") };
        let name = name("/a");
        let (verb, signature) = (Verb::RibUnregister, CommandSignature::Absent);
        let command = Command { name: name.as_ref(), top_prefix, verb, parameters, signature };
        let requester = Requester { face_id: TUNNEL, scope: Scope::NonLocal };
        let signer = (String::new(), Authority::Requester);
        AcceptedCommand::new(command, requester, signer).map_err(|response| response.code)
    };
    for face_id in [None, Some(0), Some(TUNNEL)] {
        let command = accepted(TopPrefix::Localhop, face_id).unwrap();
        assert_eq!(command.parameters.face_id, Some(TUNNEL));
    }
    assert_eq!(accepted(TopPrefix::Localhop, Some(APP)).unwrap_err(), 403);
    assert!(accepted(TopPrefix::Localhost, Some(APP)).is_ok());
}

#[test]
fn sinks_receive_changes_of_routes_and_strategies() {
    let mut harness = Harness::new();
    let (sender, received) = std::sync::mpsc::channel();
    assert!(harness.command(APP, Verb::RibRegister, &named("/before")).is_ok());
    harness.state.add_routing_event_sink(Box::new(move |event| {
        let what = match &event.change {
            RoutingChange::Route(change, route) => {
                format!("{change:?} {} {}", route.face_id, route.cost)
            }
            RoutingChange::Strategy(strategy) => format!("{:?}", strategy.is_some()),
            RoutingChange::More => "more".to_owned(),
        };
        sender.send(format!("{} {what}", event.name)).unwrap();
        event.name != name("/last")
    }));
    for (uri, cost) in [("/a", 1), ("/a", 1), ("/a", 2), ("/b", 3)] {
        let parameters = ControlParameters {
            face_id: Some(TUNNEL),
            cost: Some(cost),
            origin: Some(route_origin::STATIC),
            ..named(uri)
        };
        assert!(harness.command(APP, Verb::RibRegister, &parameters).is_ok());
    }
    let choice = ControlParameters {
        strategy: Some(name("/localhost/nfd/strategy/multicast")),
        ..named("/a")
    };
    assert!(harness.command(APP, Verb::StrategySet, &choice).is_ok());
    assert!(harness.command(APP, Verb::StrategyUnset, &named("/a")).is_ok());
    let expiring = ControlParameters { expiration_period_ms: Some(1000), ..named("/c") };
    assert!(harness.command(APP, Verb::RibRegister, &expiring).is_ok());
    harness.advance(2 * SECOND);
    harness.state.face_destroyed(harness.now, TUNNEL);
    harness.advance(SECOND);
    assert!(harness.command(APP, Verb::RibRegister, &named("/last")).is_ok());
    assert!(harness.command(APP, Verb::RibRegister, &named("/unseen")).is_ok());
    let received: Vec<_> = received.iter().collect();
    let of =
        |uri: &str, what: &str, face_id: u64, cost: u64| format!("{uri} {what} {face_id} {cost}");
    let expected = [
        of("/a", "Added", TUNNEL, 1),
        of("/a", "Changed", TUNNEL, 2),
        of("/b", "Added", TUNNEL, 3),
        "/a true".to_owned(),
        "/a false".to_owned(),
        of("/c", "Added", APP, 0),
        of("/c", "Removed", APP, 0),
        of("/a", "Removed", TUNNEL, 2),
        of("/b", "Removed", TUNNEL, 3),
        of("/last", "Added", APP, 0),
    ];
    assert_eq!(received, expected);
}

#[test]
fn parts_of_tables_are_those_of_their_datasets() {
    let mut harness = Harness::new();
    for uri in ["/a", "/a/b", "/a/c", "/d"] {
        assert!(harness.command(APP, Verb::RibRegister, &named(uri)).is_ok());
    }
    let mut part = |part: TablePart, items_max: usize| {
        harness.state.table_part(harness.now, &part, items_max, &harness.telemetry).encoded
    };
    let range = |prefix: &str, after: Option<&str>| NameRange {
        prefix: name(prefix),
        after: after.map(name),
    };
    let names = |encoded: Vec<u8>| -> Vec<String> {
        let entries: Vec<RibEntry> = decode_dataset(&encoded).unwrap();
        entries.iter().map(|entry| entry.name.to_string()).collect()
    };
    assert_eq!(names(part(TablePart::Rib(range("/", None)), 3)), ["/a", "/a/b", "/a/c"]);
    assert_eq!(names(part(TablePart::Rib(range("/a", Some("/a"))), 9)), ["/a/b", "/a/c"]);
    let fib: Vec<FibEntry> = decode_dataset(&part(TablePart::Fib(range("/d", None)), 9)).unwrap();
    assert_eq!(fib[0].next_hops, [NextHopRecord { face_id: APP, cost: 0 }]);
    assert_eq!(part(TablePart::Strategies(range("/", None)), 9), Vec::<u8>::new());
    let faces = |encoded: Vec<u8>| -> Vec<u64> {
        let faces: Vec<FaceStatus> = decode_dataset(&encoded).unwrap();
        faces.iter().map(|face| face.properties.face_id).collect()
    };
    let (after, scope) = (Some(APP - 1), None);
    assert_eq!(faces(part(TablePart::Faces { after, scope }, 9)), [APP, TUNNEL]);
    let scope = Some(Scope::NonLocal);
    assert_eq!(faces(part(TablePart::Faces { after: None, scope }, 9)), [TUNNEL]);
    assert_eq!(faces(part(TablePart::Faces { after: Some(APP), scope: None }, 1)), [TUNNEL]);
}

#[test]
fn parts_of_tables_leave_out_what_is_being_removed() {
    const OTHER: u64 = 400;
    const COUNT: usize = 30;
    let mut harness = Harness::new();
    harness.state.face_created(harness.now, record(OTHER, "fd://400", Scope::Local));
    harness.run();
    harness.sent.clear();
    let uri = |number: usize| format!("/{number:02}");
    for number in 0..COUNT {
        let (face_id, period) = [(APP, None), (OTHER, Some(1000)), (OTHER, None)][number % 3];
        let parameters = ControlParameters { expiration_period_ms: period, ..named(&uri(number)) };
        assert!(harness.command(face_id, Verb::RibRegister, &parameters).is_ok());
    }
    harness.pass(SECOND);
    harness.state.face_destroyed(harness.now, APP);
    harness.handle_timeout();
    harness.run();
    let remain = |rest: usize| {
        let is_there =
            |number: &usize| harness.state.rib().routes(name(&uri(*number)).as_ref()).len() == 1;
        (0..COUNT).filter(|number| number % 3 == rest).any(|number| is_there(&number))
    };
    assert!(remain(0) && remain(1), "only a slice is gone");
    let next_hops = harness.state.fib().iter();
    let living = next_hops.filter(|(_, hops)| hops.iter().all(|hop| hop.face_id == OTHER));
    let living: Vec<Name> = living.map(|(name, _)| name.to_name()).collect();
    let rib: Vec<RibEntry> = all_parts(&mut harness, TablePart::Rib, 5);
    let shown: Vec<String> = rib.iter().map(|entry| entry.name.to_string()).collect();
    let unexpired: Vec<String> = (0..COUNT).filter(|number| number % 3 == 2).map(uri).collect();
    assert_eq!(shown, unexpired);
    let fib: Vec<FibEntry> = all_parts(&mut harness, TablePart::Fib, 5);
    let shown: Vec<Name> = fib.into_iter().map(|entry| entry.name).collect();
    assert_eq!(shown, living);
}

/// The items of a table, read in parts of at most this number of items.
fn all_parts<T: DatasetItem>(
    harness: &mut Harness,
    part: fn(NameRange) -> TablePart,
    items_max: usize,
) -> Vec<T> {
    let (mut all, mut range) = (Vec::new(), NameRange::default());
    loop {
        let (now, part) = (harness.now, part(range.clone()));
        let read = harness.state.table_part(now, &part, items_max, &harness.telemetry);
        let items: Vec<T> = decode_dataset(&read.encoded).unwrap();
        assert!(items.len() <= items_max);
        all.extend(items);
        if read.rest_after.is_none() {
            return all;
        }
        range.after = read.rest_after;
    }
}

#[test]
fn hidden_entries_end_a_part() {
    let mut harness = Harness::new();
    harness.state.face_created(harness.now, record(400, "fd://400", Scope::Local));
    harness.run();
    for number in 0..100 {
        assert!(harness.command(APP, Verb::RibRegister, &named(&format!("/{number:02}"))).is_ok());
    }
    assert!(harness.command(400, Verb::RibRegister, &named("/last")).is_ok());
    harness.state.face_destroyed(harness.now, APP);
    for part in [TablePart::Rib, TablePart::Fib] {
        let all = part(NameRange::default());
        let read = harness.state.table_part(harness.now, &all, 1, &harness.telemetry);
        assert!(read.encoded.is_empty(), "one reply does not visit all");
        assert!(read.rest_after.is_some_and(|name| name < "/10".parse().unwrap()));
    }
    assert_eq!(all_parts::<RibEntry>(&mut harness, TablePart::Rib, 1).len(), 1);
    assert_eq!(all_parts::<FibEntry>(&mut harness, TablePart::Fib, 1).len(), 1);
    let none = TablePart::Rib(NameRange::default());
    let read = harness.state.table_part(harness.now, &none, 0, &harness.telemetry);
    assert!(read.encoded.is_empty());
}
