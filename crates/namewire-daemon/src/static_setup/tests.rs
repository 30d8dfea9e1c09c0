use std::sync::Arc;

use ndn_dataplane::FaceCreated;
use ndn_face::FaceOptions;
use ndn_forwarding::FaceProperties;
use ndn_management::{Action, Collaborators, ControlConfig, ControlState, FibUpdate, NextHop};
use ndn_table::FaceIndex;
use ndn_types::{Now, Persistency, Scope};

use super::*;
use crate::destinations::Restorations;
use crate::tables::Catalog;

const LATER: Timestamp = Timestamp::from_nanos(1000);

fn lost(face_id: u64, remote: &FaceUri) -> LostSession {
    let spec = FaceSpec {
        ticket: Some(5),
        persistency: Persistency::Permanent,
        keeper: None,
        pit_tokens: PitTokenPolicy::WhenSeen,
        options: ndn_management::request::FaceOptions::default(),
    };
    let destinations = Destinations::default();
    LostSession { face_id, remote: remote.clone(), spec, destinations }
}

/// Executes events as management does.
#[expect(clippy::wildcard_enum_match_arm, reason = "another event is a fault")]
fn execute(events: Vec<Event>, state: &mut ControlState, restorations: &mut Restorations) {
    for event in events {
        match event {
            Event::AddRoute { prefix, route } => state.add_route(prefix.as_ref(), route).unwrap(),
            Event::AdoptFace { face_id, persistency } => state.adopt_face(face_id, persistency),
            Event::RestoreRoutes { face_id, destinations } => {
                restorations.begin(face_id, destinations);
            }
            other => panic!("{other:?}"),
        }
    }
}

fn created(face_id: u64) -> FaceCreated {
    let properties = FaceProperties::point_to_point(face_id, Scope::NonLocal);
    FaceCreated {
        index: FaceIndex::new(1, 0),
        options: FaceOptions::datagram(properties, Persistency::Permanent, 8800),
        remote: FaceUri::parse("https://192.0.2.1:443/ndn").unwrap(),
        local: FaceUri::null(),
        counters: Arc::default(),
    }
}

#[test]
fn reopened_permanent_session_gets_its_routes() {
    let mut setup = StaticSetup::new(&Config::default());
    let remote = FaceUri::parse("https://192.0.2.1:443/ndn").unwrap();
    let collaborators = Collaborators::with_strategies(Catalog);
    let mut state = ControlState::new(ControlConfig::default(), collaborators);
    let prefix = Name::from_uri("/a").unwrap();
    let now = Now::default();
    for round in 0..2 {
        let face_id = 300 + round;
        let route = Route { face_id, origin: 65, cost: 7, flags: 1, expires_at: None };
        let created = created(face_id);
        state.face_created(now, faces::record(&created));
        state.add_route(prefix.as_ref(), route).unwrap();
        let destinations = Destinations::of(&state, face_id);
        state.face_destroyed(now, face_id);
        setup.session_lost(LATER, LostSession { destinations, ..lost(face_id, &remote) });
        assert!(setup.due(LATER).is_empty(), "there is a pause");
        let later = setup.next_attempt().unwrap();
        let due = setup.due(later);
        assert_eq!((due.len(), &due[0].remote), (1, &remote), "of both rounds it is one");
        let ticket = due[0].spec.ticket;
        assert!(ticket >= Some(FIRST_STATIC_TICKET), "nobody waits for an answer");
        setup.connect_failed(later, ticket, "nobody there");
        let [waiting] = &setup.waiting(later, None)[..] else { panic!("it is not waited for") };
        assert_eq!(waiting.face_id, Some(face_id));
        assert_eq!(waiting.last_failure.as_deref(), Some("nobody there"));
        assert!(setup.next_attempt().unwrap() > later, "it is tried until it succeeds");
        assert_eq!(setup.due(Timestamp::MAX).len(), 1);

        state.face_created(now, faces::record(&self::created(face_id + 1)));
        let mut restorations = Restorations::default();
        execute(setup.face_added(ticket, face_id + 1), &mut state, &mut restorations);
        restorations.advance(&mut state, later);
        let found = state.rib().find(prefix.as_ref(), face_id + 1, 65);
        assert_eq!(found, Some(&Route { face_id: face_id + 1, ..route }));
        assert!(setup.faces.is_empty(), "it is a face like others again");
    }
}

/// A user has made the face before the next attempt of the forwarder.
#[test]
fn configured_face_with_a_session_created_by_a_user_stays_configured() {
    let text = "[[static_faces]]\nuri = \"https://192.0.2.1:443/ndn\"\npit_tokens = \"always\"";
    let mut setup = StaticSetup::new(&config::parse("test", text).unwrap());
    let due = setup.due(Timestamp::ZERO);
    let [FaceRequest { remote, spec, .. }] = &due[..] else { panic!("{due:?}") };
    assert_eq!((spec.keeper, spec.pit_tokens), (None, PitTokenPolicy::Always));
    setup.connect_failed(Timestamp::ZERO, spec.ticket, "nobody there");
    let mut of_user = lost(300, remote);
    of_user.spec.keeper = Some(ndn_types::PrincipalKey::LocalApplication { uid: 1000, pid: 0 });
    setup.session_lost(LATER, of_user);
    let later = setup.next_attempt().unwrap();
    let again = setup.due(later);
    let [FaceRequest { spec: again, .. }] = &again[..] else { panic!("{again:?}") };
    assert_eq!((again.keeper, again.pit_tokens), (None, PitTokenPolicy::Always));
    assert_eq!(again.ticket, spec.ticket);
}

#[test]
fn lost_sessions_are_abandoned_after_a_time() {
    let mut setup = StaticSetup::new(&Config::default());
    let remote = FaceUri::parse("https://192.0.2.1:443/ndn").unwrap();
    setup.session_lost(LATER, lost(300, &remote));
    let mut last = Timestamp::ZERO;
    while let Some(at) = setup.next_attempt() {
        let due = setup.due(at);
        setup.connect_failed(at, due[0].spec.ticket, "nobody there");
        last = at;
    }
    let tried = last - LATER;
    assert!((LOST_TRIED..LOST_TRIED + 2 * setup.retry_max).contains(&tried), "{tried:?}");
    assert!(setup.faces.is_empty());
}

#[test]
fn lost_sessions_are_limited_and_can_be_cancelled() {
    let mut setup = StaticSetup::new(&Config::default());
    let max = u64::try_from(LOST_MAX).unwrap();
    for number in 0..max + 9 {
        let uri = format!("https://192.0.2.1:{}/ndn", 1000 + number);
        setup.session_lost(LATER, lost(300 + number, &FaceUri::parse(&uri).unwrap()));
    }
    assert_eq!(setup.faces.len(), LOST_MAX);
    let begun = setup.due(Timestamp::MAX).remove(0).spec.ticket;
    assert_eq!(setup.cancel(300 + max), None, "it was one too many");
    assert_eq!(setup.cancel(300), begun);
    assert_eq!(setup.cancel(300), None);
    assert!((301..300 + max).all(|face_id| setup.cancel(face_id).is_some()));
    assert_eq!(setup.next_attempt(), None);
}

#[test]
fn on_demand_face_of_a_peer_serves_its_configured_route() {
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
    let waiting =
        |name: &str| setup.waiting(Timestamp::ZERO, Some(&Name::from_uri(name).unwrap())).len();
    assert_eq!((waiting("/a"), waiting("/a/b"), waiting("/"), waiting("/b")), (1, 1, 0, 0));
    let FaceRequest { spec, .. } = setup.due(Timestamp::ZERO).pop().unwrap();

    let collaborators = Collaborators::with_strategies(Catalog);
    let mut state = ControlState::new(ControlConfig::default(), collaborators);
    let properties = FaceProperties::point_to_point(300, Scope::NonLocal);
    let on_demand = FaceCreated {
        index: FaceIndex::new(1, 0),
        options: FaceOptions::datagram(properties, Persistency::OnDemand, 8800),
        remote: FaceUri::udp(address),
        local: FaceUri::null(),
        counters: Arc::default(),
    };
    let now = Now::default();
    state.face_created(now, faces::record(&on_demand));
    let events = setup.face_exists(spec.ticket, 300);
    execute(events, &mut state, &mut Restorations::default());

    let persistency = state.face(300).unwrap().properties.persistency;
    assert_eq!(persistency, Persistency::Permanent);
    let actions: Vec<_> = std::iter::from_fn(|| state.poll_action()).collect();
    assert!(actions.iter().any(|action| matches!(
        action,
        Action::UpdateFace { face_id: 300, persistency: Some(Persistency::Permanent), .. }
    )));
    let next_hops = vec![NextHop { face_id: 300, cost: 7 }];
    let prefix = Name::from_uri("/a").unwrap();
    let updates = vec![FibUpdate::Set { prefix, next_hops }];
    assert!(actions.iter().any(|action| matches!(
        action,
        Action::UpdateFib { updates: found, .. } if *found == updates
    )));
}

/// The configuration of these faces and routes.
fn configured(text: &str) -> Config {
    config::parse("test", text).unwrap()
}

/// Creates all faces that are due, with FaceIds from `first` on.
fn create_all(setup: &mut StaticSetup, now: Timestamp, first: u64) -> Vec<(String, u64)> {
    let mut created = Vec::new();
    for (request, face_id) in setup.due(now).into_iter().zip(first..) {
        setup.face_added(request.spec.ticket, face_id);
        created.push((request.remote.to_string(), face_id));
    }
    created
}

#[test]
#[expect(clippy::wildcard_enum_match_arm, reason = "another event is a fault")]
fn reload_applies_the_difference_between_two_configurations() {
    let before = r#"
        static_faces = [{ uri = "udp4://192.0.2.1:6363" }, { uri = "udp4://192.0.2.2:6363", mtu = "1400B" }]
        static_routes = [
            { prefix = "/a", face = "udp4://192.0.2.1:6363" },
            { prefix = "/b", face = "udp4://192.0.2.1:6363", cost = 5 },
            { prefix = "/c", face = "udp4://192.0.2.3:6363" },
        ]"#;
    let after = r#"
        static_faces = [{ uri = "udp4://192.0.2.1:6363" }, { uri = "udp4://192.0.2.2:6363", mtu = "1300B" }]
        static_routes = [
            { prefix = "/b", face = "udp4://192.0.2.1:6363", cost = 6 },
            { prefix = "/d", face = "udp4://192.0.2.1:6363" },
            { prefix = "/e", face = "udp4://192.0.2.4:6363" },
        ]"#;
    let mut setup = StaticSetup::new(&configured(before));
    let made = create_all(&mut setup, Timestamp::ZERO, 300);
    assert_eq!(made.len(), 3, "two faces, and that of a route");
    let described = |event: &Event| match event {
        Event::EndFace(face_id) => format!("end {face_id}"),
        Event::AddRoute { prefix, route } => {
            format!("add {prefix} {} {}", route.face_id, route.cost)
        }
        Event::RemoveRoute { prefix, face_id, .. } => format!("remove {prefix} {face_id}"),
        other => panic!("{other:?}"),
    };
    // Commands may have removed or changed routes since.
    let events = setup.reconfigure(LATER, &configured(before), |_| true);
    let events: Vec<String> = events.iter().map(described).collect();
    assert_eq!(events, ["add /a 300 0", "add /b 300 5", "add /c 302 0"]);
    let events = setup.reconfigure(LATER, &configured(after), |_| true);
    let events: Vec<String> = events.iter().map(described).collect();
    let expected = ["end 301", "end 302", "remove /a 300", "add /b 300 6", "add /d 300 0"];
    assert_eq!(events, expected);
    // The new face of another peer is made at once, the one with other settings when the former one has closed.
    assert_eq!(create_all(&mut setup, LATER, 310), [("udp4://192.0.2.4:6363".to_owned(), 310)]);
    setup.face_closed(LATER.plus_nanos(1000), 301);
    let due = setup.due(LATER.plus_nanos(1000));
    let [FaceRequest { remote, spec, .. }] = &due[..] else { panic!("{due:?}") };
    assert_eq!(
        (remote.to_string().as_str(), spec.options.mtu),
        ("udp4://192.0.2.2:6363", Some(1300))
    );
    setup.face_added(spec.ticket, 311);
    // A face that an operator has destroyed is made again.
    let events =
        setup.reconfigure(LATER.plus_nanos(2000), &configured(after), |face_id| face_id != 310);
    let events: Vec<String> = events.iter().map(described).collect();
    assert_eq!(events, ["add /b 300 6", "add /d 300 0"]);
    assert_eq!(
        create_all(&mut setup, LATER.plus_nanos(2000), 320),
        [("udp4://192.0.2.4:6363".to_owned(), 320)]
    );
    let events = setup.reconfigure(LATER.plus_nanos(3000), &configured(""), |_| true);
    assert_eq!(events.iter().map(described).collect::<Vec<_>>().len(), 3, "{events:?}");
    assert!(setup.faces.is_empty() && setup.due(Timestamp::MAX).is_empty());
}
