//! `faces/*`, and what happens to faces by themselves.

use super::*;
use crate::dataset::FaceEventNotification;
use crate::types::{FACE_ID_INTERNAL, FaceEventKind, face_flag};

fn create(remote: &str) -> ControlParameters {
    ControlParameters { uri: Some(remote.to_owned()), ..ControlParameters::default() }
}

/// Begins the creation of a face and returns the ticket.
fn begin_creation(
    harness: &mut Harness,
    parameters: &ControlParameters,
) -> (Ticket, FaceSpecification) {
    let handled = harness.begin(APP, Verb::FaceCreate, parameters);
    assert!(matches!(handled, RequestOutcome::Command { code: None, .. }), "{handled:?}");
    assert!(harness.sent.is_empty());
    match harness.take_actions().remove(0) {
        Action::CreateFace { ticket, specification } => (ticket, *specification),
        other => panic!("{other:?}"),
    }
}

const fn failed() -> FaceCreationError {
    FaceCreationError { code: 504, reason: String::new() }
}

#[test]
fn face_is_created_once() {
    let mut harness = Harness::new();
    let uri = "udp4://192.0.2.7:6363";
    let mut parameters = create(uri);
    parameters.persistency = Some(2);
    parameters.mtu = Some(1400);
    parameters.set_flag(face_flag::LP_RELIABILITY, true);
    let (ticket, specification) = begin_creation(&mut harness, &parameters);
    assert_eq!(specification.remote.to_string(), uri);
    assert_eq!(specification.persistency, Persistency::Permanent);
    let options =
        FaceOptions { lp_reliability: Some(true), mtu: Some(1400), ..FaceOptions::default() };
    assert_eq!(specification.options, options);

    // A second command for the same face waits with the first.
    harness.begin(APP, Verb::FaceCreate, &create(uri));
    assert_eq!(harness.take_actions(), []);

    assert_eq!(request_event(&mut harness, 0), RequestOutcome::Event { answered: false });
    let face = record(400, uri, Scope::NonLocal);
    harness.state.face_creation_done(harness.now, ticket, Ok(CreatedFace::New(face)));
    harness.run();
    let (event, _) = harness.sent.remove(0);
    assert_eq!(event_of(&event), (0, FaceEventKind::Created, 400));
    let responses = harness.responses();
    let expected = ControlParameters {
        face_id: Some(400),
        uri: Some(uri.to_owned()),
        local_uri: Some("unix:///run/nfd/nfd.sock".to_owned()),
        flags: Some(0),
        persistency: Some(Persistency::OnDemand.number()),
        base_congestion_marking_interval_ns: Some(100_000_000),
        default_congestion_threshold: Some(65_536),
        mtu: Some(8800),
        ..ControlParameters::default()
    };
    assert_eq!((responses[0].code, responses[0].parameters().unwrap()), (200, expected.clone()));
    assert_eq!((responses[1].code, responses[1].parameters().unwrap()), (409, expected.clone()));

    let response = harness.command(APP, Verb::FaceCreate, &create(uri));
    assert_eq!((response.code, response.parameters().unwrap()), (409, expected));
    assert_eq!(response.text, "Face with remote URI already exists");
    harness.state.face_destroyed(harness.now, 400);
    begin_creation_after_destruction(&mut harness, uri);
}

fn begin_creation_after_destruction(harness: &mut Harness, uri: &str) {
    harness.run();
    harness.sent.clear();
    begin_creation(harness, &create(uri));
}

/// Sends the Interest for an event, by its number as of [`event_of`].
fn request_event(harness: &mut Harness, number: u64) -> RequestOutcome {
    let mut stream = name("/localhost/nfd/faces/events");
    stream.push_sequence_num(number + 2);
    harness.interest(&InterestBuilder::new(&stream).to_vec().unwrap(), APP)
}

/// Sequence number, kind and face of a `faces/events` Data. The harness's own two faces had the
/// numbers 0 and 1, so numbers count from 2 here.
fn event_of(wire: &[u8]) -> (u64, FaceEventKind, u64) {
    let data = Data::parse(wire).unwrap();
    assert!(data.name().starts_with(name("/localhost/nfd/faces/events").as_ref()));
    let event = FaceEventNotification::decode(data.content().unwrap()).unwrap();
    let number = data.name().last().unwrap().as_sequence_num().unwrap();
    (number - 2, event.kind, event.properties.face_id)
}

#[test]
fn face_of_an_unproved_command_is_charged_to_the_user() {
    let mut harness = Harness::new();
    let user = PrincipalKey::LocalApplication { uid: 1000, pid: 0 };
    let parameters = create("udp4://192.0.2.7:6363");
    assert_eq!(begin_creation(&mut harness, &parameters).1.keeper, Some(user));
    let by_operator = |harness: &mut Harness, verb, parameters: &ControlParameters| {
        harness.operator_command(verb, parameters);
        harness.sent.clear();
        harness.take_actions().remove(0)
    };
    let parameters = create("udp4://192.0.2.8:6363");
    match by_operator(&mut harness, Verb::FaceCreate, &parameters) {
        Action::CreateFace { specification, .. } => assert_eq!(specification.keeper, None),
        other => panic!("{other:?}"),
    }
    let keep = ControlParameters {
        face_id: Some(TUNNEL),
        persistency: Some(Persistency::Permanent.number()),
        ..ControlParameters::default()
    };
    let charges = |harness: &Harness| {
        let face = harness.state.face(TUNNEL).unwrap();
        (face.principal, face.keeper)
    };
    let address = PrincipalKey::remote(([192, 0, 2, 1], 6363).into());
    assert_eq!(harness.command(APP, Verb::FaceUpdate, &keep).code, 200);
    assert_eq!(charges(&harness), (address, Some(user)));
    let [Action::UpdateFace { keeper, .. }] = harness.take_actions()[..] else { panic!() };
    assert_eq!(keeper, Some(user));
    // An operator takes it over, and it is that of an operator from then on.
    by_operator(&mut harness, Verb::FaceUpdate, &keep);
    let neighbour = PrincipalKey::Neighbour { face_id: TUNNEL };
    assert_eq!(charges(&harness), (neighbour, None));
    harness.command(APP, Verb::FaceUpdate, &keep);
    assert_eq!(charges(&harness), (neighbour, None));
}

#[test]
fn face_of_an_unproved_command_of_an_operators_user_is_the_operators() {
    for (operator_users, keeper) in [
        (vec![0, 1000], None),
        (vec![0, 1001], Some(PrincipalKey::LocalApplication { uid: 1000, pid: 0 })),
    ] {
        let mut harness = Harness::new();
        harness.state.set_operator_users(operator_users);
        let parameters = create("udp4://192.0.2.7:6363");
        assert_eq!(begin_creation(&mut harness, &parameters).1.keeper, keeper);
    }
}

/// The principal and the keeper of a face, and what the data plane was asked to change.
fn kept(harness: &mut Harness, face_id: u64) -> (PrincipalKey, Option<PrincipalKey>, Vec<Action>) {
    let face = harness.state.face(face_id).unwrap();
    let (principal, keeper) = (face.principal, face.keeper);
    (principal, keeper, harness.take_actions())
}

/// The record of a persistent face that a user keeps.
fn kept_record(face_id: u64, remote_uri: &str, uid: u32) -> FaceRecord {
    let mut face = record(face_id, remote_uri, Scope::NonLocal);
    face.properties.persistency = Persistency::Persistent;
    face.keeper = Some(PrincipalKey::LocalApplication { uid, pid: 0 });
    face
}

/// The change by which a face becomes an operator's.
fn adoption(face_id: u64) -> Action {
    let (persistency, options) = (Some(Persistency::Persistent), FaceOptions::default());
    Action::UpdateFace { face_id, persistency, keeper: None, options }
}

#[test]
fn face_that_an_operator_requests_beside_a_user_is_the_operators() {
    let uri = "tcp4://192.0.2.7:6363";
    for is_new in [true, false] {
        let mut harness = Harness::new();
        let (ticket, specification) = begin_creation(&mut harness, &create(uri));
        assert!(specification.keeper.is_some());
        harness.operator_command(Verb::FaceCreate, &create(uri));
        assert_eq!(harness.take_actions(), [], "it waits for the same face");
        let face = kept_record(400, uri, 1000);
        let created = if is_new { CreatedFace::New(face) } else { CreatedFace::Existing(face) };
        harness.state.face_creation_done(harness.now, ticket, Ok(created));
        harness.run();
        let codes: Vec<u32> = harness.responses().iter().map(|response| response.code).collect();
        assert_eq!(codes, if is_new { [200, 409] } else { [409, 409] });
        let neighbour = PrincipalKey::Neighbour { face_id: 400 };
        assert_eq!(kept(&mut harness, 400), (neighbour, None, vec![adoption(400)]));
    }
}

#[test]
fn face_of_a_user_that_an_operator_requests_is_the_operators_and_an_on_demand_face_stays() {
    let mut harness = Harness::new();
    let uri = "udp4://192.0.2.7:6363";
    harness.state.face_created(harness.now, kept_record(400, uri, 1001));
    assert_eq!(harness.command(APP, Verb::FaceCreate, &create(uri)).code, 409);
    assert_eq!(kept(&mut harness, 400).2, [], "another user takes over nothing");
    harness.operator_command(Verb::FaceCreate, &create(uri));
    assert_eq!(harness.response().code, 409);
    let neighbour = PrincipalKey::Neighbour { face_id: 400 };
    assert_eq!(kept(&mut harness, 400), (neighbour, None, vec![adoption(400)]));
    harness.operator_command(Verb::FaceCreate, &create("udp4://192.0.2.1:6363"));
    let on_demand = kept(&mut harness, TUNNEL);
    assert_eq!(on_demand, (principal_of("udp4://192.0.2.1:6363"), None, vec![]), "as in NFD");
}

/// The oldest command of the principal with the most gives way. A face that others wait for is created nevertheless, and
/// charged to one of them.
#[test]
fn face_is_created_for_others_although_the_first_command_gave_way() {
    const OTHER_APP: u64 = 302;
    let user = |uid| Some(PrincipalKey::LocalApplication { uid, pid: 0 });
    for by_operator in [false, true] {
        let mut harness = Harness::new();
        let mut other = record(OTHER_APP, "fd://21", Scope::Local);
        other.principal = PrincipalKey::LocalApplication { uid: 1001, pid: 8 };
        harness.state.face_created(harness.now, other);
        let uri = |number: u32| format!("tcp4://192.0.2.1:{number}");
        let (ticket, _) = begin_creation(&mut harness, &create(&uri(1)));
        harness.begin(OTHER_APP, Verb::FaceCreate, &create(&uri(1)));
        for number in 2..=809 {
            harness.begin(APP, Verb::FaceCreate, &create(&uri(number)));
        }
        harness.begin(OTHER_APP, Verb::FaceCreate, &create(&uri(2)));
        if by_operator {
            harness.operator_command(Verb::FaceCreate, &create(&uri(2)));
        }
        harness.take_actions();
        let codes: Vec<u32> = harness.responses().iter().map(|response| response.code).collect();
        assert_eq!(codes, [500], "the first command");
        harness.begin(OTHER_APP, Verb::FaceCreate, &create(&uri(3)));
        assert_eq!(harness.response().code, 500, "the second one");
        assert_eq!(harness.take_actions(), [], "the others wait for these faces");
        let face = kept_record(400, &uri(1), 1000);
        harness.state.face_creation_done(harness.now, ticket, Ok(CreatedFace::New(face)));
        harness.run();
        assert_eq!(harness.response().code, 200);
        assert_eq!(kept(&mut harness, 400).1, user(1001));
        let second = Ticket(2);
        let face = kept_record(401, &uri(2), 1000);
        harness.state.face_creation_done(harness.now, second, Ok(CreatedFace::New(face)));
        harness.run();
        assert_eq!(harness.responses().len(), if by_operator { 2 } else { 1 });
        assert_eq!(kept(&mut harness, 401).1, user(1001).filter(|_| !by_operator));
        harness.advance(61 * SECOND);
        assert!(harness.state.pending_places().is_zero());
    }
}

/// It may have failed because of the shares of the user, or for lack of time.
#[test]
fn face_that_fails_for_a_user_is_tried_again_for_an_operator() {
    let mut harness = Harness::new();
    let parameters = create("tcp4://192.0.2.7:6363");
    let (ticket, _) = begin_creation(&mut harness, &parameters);
    harness.operator_command(Verb::FaceCreate, &parameters);
    assert_eq!(harness.take_actions(), []);
    harness.state.face_creation_done(harness.now, ticket, Err(failed()));
    harness.run();
    assert_eq!(harness.response().code, 504, "that of the user");
    let actions = harness.take_actions();
    let [Action::CreateFace { ticket, specification }] = &actions[..] else {
        panic!("{actions:?}")
    };
    assert_eq!(specification.keeper, None);
    harness.state.face_creation_done(harness.now, *ticket, Err(failed()));
    harness.run();
    assert_eq!(harness.response().code, 504, "once");
    assert_eq!(harness.take_actions(), []);
    assert!(harness.state.pending_places().is_zero());
}

/// Nobody fails because of what another user holds.
#[test]
fn face_that_fails_for_a_user_is_tried_again_for_others() {
    let mut harness = Harness::new();
    for (face_id, uid) in [(302, 1001), (303, 1002)] {
        let mut app = record(face_id, &format!("fd://{face_id}"), Scope::Local);
        app.principal = PrincipalKey::LocalApplication { uid, pid: 8 };
        harness.state.face_created(harness.now, app);
    }
    let parameters = create("tcp4://192.0.2.7:6363");
    let (mut ticket, _) = begin_creation(&mut harness, &parameters);
    for face_id in [302, 303, APP, 302] {
        harness.begin(face_id, Verb::FaceCreate, &parameters);
    }
    assert_eq!(harness.take_actions(), []);
    for (failed_commands, next) in [(2, Some(1001)), (2, Some(1002)), (1, None)] {
        harness.state.face_creation_done(harness.now, ticket, Err(failed()));
        harness.run();
        let codes: Vec<u32> = harness.responses().iter().map(|response| response.code).collect();
        assert_eq!(codes, vec![504; failed_commands]);
        let mut actions = harness.take_actions();
        let Some(uid) = next else {
            assert_eq!(actions, []);
            break;
        };
        let Action::CreateFace { ticket: again, specification } = actions.remove(0) else {
            panic!("{actions:?}")
        };
        assert_eq!(specification.keeper, Some(PrincipalKey::LocalApplication { uid, pid: 0 }));
        ticket = again;
    }
    assert!(harness.state.pending_places().is_zero());
}

#[test]
fn commands_that_wait_for_one_face_are_charged() {
    let mut harness = Harness::new();
    let parameters = create("tcp4://192.0.2.7:6363");
    let (ticket, _) = begin_creation(&mut harness, &parameters);
    (1..810).for_each(|_| drop(harness.begin(APP, Verb::FaceCreate, &parameters)));
    assert_eq!(harness.sent, []);
    assert_eq!(harness.command(APP, Verb::FaceCreate, &parameters).code, 500);
    harness.state.face_creation_done(harness.now, ticket, Err(failed()));
    harness.run();
    assert_eq!(harness.responses().len(), 810);
    assert!(harness.state.pending_places().is_zero());
}

#[test]
fn existing_face_of_the_data_plane_is_a_conflict() {
    let mut harness = Harness::new();
    let (ticket, _) = begin_creation(&mut harness, &create("udp4://192.0.2.7:6363"));
    request_event(&mut harness, 0);
    // Its first packet came in while the command was under way.
    let face = record(400, "udp4://192.0.2.7:6363", Scope::NonLocal);
    harness.state.face_created(harness.now, face.clone());
    harness.state.face_creation_done(harness.now, ticket, Ok(CreatedFace::Existing(face)));
    harness.run();
    assert_eq!(event_of(&harness.sent.remove(0).0).1, FaceEventKind::Created);
    assert_eq!(harness.response().code, 409);

    let (ticket, _) = begin_creation(&mut harness, &create("tcp4://192.0.2.8:6363"));
    let face = record(401, "tcp4://192.0.2.8:6363", Scope::NonLocal);
    harness.state.face_created(harness.now, face.clone());
    harness.state.face_creation_done(harness.now, ticket, Ok(CreatedFace::New(face)));
    harness.run();
    assert_eq!(harness.response().code, 200);
}

#[test]
fn failure_of_the_data_plane_is_reported() {
    let mut harness = Harness::new();
    let (ticket, _) = begin_creation(&mut harness, &create("tcp4://192.0.2.7:6363"));
    harness.state.face_creation_done(harness.now, ticket, Err(failed()));
    harness.state.face_creation_done(harness.now, ticket, Err(failed()));
    harness.run();
    assert_eq!(harness.response().code, 504);
    // It may be tried again.
    begin_creation(&mut harness, &create("tcp4://192.0.2.7:6363"));
}

#[test]
fn face_created_after_its_command_expired_is_known() {
    let mut harness = Harness::new();
    let (ticket, _) = begin_creation(&mut harness, &create("tcp4://192.0.2.7:6363"));
    harness.advance(100 * SECOND);
    request_event(&mut harness, 0);
    let face = record(400, "tcp4://192.0.2.7:6363", Scope::NonLocal);
    harness.state.face_creation_done(harness.now, ticket, Ok(CreatedFace::New(face)));
    harness.run();
    assert_eq!(harness.sent.len(), 1, "only the event");
    assert!(harness.state.face(400).is_some());
}

#[test]
fn invalid_face_specification_is_refused() {
    let mut harness = Harness::new();
    let local = |remote: &str, local: &str| ControlParameters {
        local_uri: Some(local.to_owned()),
        ..create(remote)
    };
    let with = |remote: &str, change: fn(&mut ControlParameters)| {
        let mut parameters = create(remote);
        change(&mut parameters);
        parameters
    };
    let local_fields: fn(&mut ControlParameters) = |p| p.set_flag(face_flag::LOCAL_FIELDS, true);
    for (parameters, code, text) in [
        (create("udp4:"), 400, "Malformed command"),
        (create("udp4://192.0.2.1"), 400, "Non-canonical remote URI"),
        (create("udp4://example.net:6363"), 400, "Non-canonical remote URI"),
        (create("unix:///tmp/socket"), 400, "Non-canonical remote URI"),
        (
            create("udp6://[fe80::1]:6363"),
            400,
            "Non-canonical remote URI: the address is on a link: write its interface, as in [fe80::1%eth0]",
        ),
        (local("udp4://192.0.2.9:6363", "x"), 400, "Malformed command"),
        (local("udp4://192.0.2.9:6363", "udp://192.0.2.2:6363"), 400, "Non-canonical local URI"),
        (
            local("udp4://192.0.2.9:6363", "udp4://192.0.2.2:6363"),
            406,
            "Unicast UDP faces cannot be created with a LocalUri",
        ),
        (create("ether://[08:00:27:01:dd:01]"), 406, "Unsupported protocol"),
        (create("udp4://224.0.23.170:56363"), 406, "Cannot create multicast UDP faces"),
        (
            create("udp4://192.0.2.1:0"),
            406,
            "Cannot create UDP faces to udp4://192.0.2.1:0: there is no port 0",
        ),
        (
            create("tcp6://[::]:6363"),
            406,
            "Cannot create TCP faces to tcp6://[::]:6363: the address is that of no host",
        ),
        (
            with("udp4://192.0.2.9:6363", |p| p.persistency = Some(1)),
            406,
            "Outgoing UDP faces do not support on-demand persistency",
        ),
        (with("udp4://192.0.2.9:6363", |p| p.persistency = Some(9)), 406, "Unknown persistency 9"),
        (
            with("udp4://127.0.0.1:6363", local_fields),
            406,
            "Local fields can only be enabled on faces with local scope",
        ),
        (
            with("tcp4://192.0.2.9:6363", local_fields),
            406,
            "Local fields can only be enabled on faces with local scope",
        ),
        (
            with("udp4://192.0.2.9:6363", |p| p.mtu = Some(63)),
            406,
            "Override MTU cannot be less than 64",
        ),
        (
            with("tcp4://192.0.2.9:6363", |p| p.mtu = Some(1400)),
            406,
            "TCP faces do not support MTU overrides",
        ),
        (ControlParameters::default(), 400, "failed in validating parameters"),
        (
            with("udp4://192.0.2.9:6363", |p| p.flags = Some(1)),
            400,
            "failed in validating parameters",
        ),
    ] {
        let response = harness.command(APP, Verb::FaceCreate, &parameters);
        assert_eq!((response.code, response.text.as_str()), (code, text), "{parameters:?}");
    }
    assert_eq!(harness.take_actions(), []);
    begin_creation(&mut harness, &with("tcp4://127.0.0.1:6363", local_fields));
}

#[test]
fn application_enables_local_fields_on_its_face() {
    let mut harness = Harness::new();
    let mut parameters = ControlParameters::default();
    parameters.set_flag(face_flag::LOCAL_FIELDS, true);
    let response = harness.command(APP, Verb::FaceUpdate, &parameters);
    let expected = ControlParameters {
        face_id: Some(APP),
        flags: Some(face_flag::LOCAL_FIELDS),
        persistency: Some(Persistency::OnDemand.number()),
        base_congestion_marking_interval_ns: Some(100_000_000),
        default_congestion_threshold: Some(65_536),
        mtu: Some(8800),
        ..ControlParameters::default()
    };
    assert_eq!((response.code, response.parameters().unwrap()), (200, expected));
    let [Action::UpdateFace { face_id: APP, persistency: None, options, .. }] =
        &harness.take_actions()[..]
    else {
        panic!()
    };
    assert_eq!(options.local_fields, Some(true));
    assert_eq!(harness.state.face(APP).unwrap().properties.flags, face_flag::LOCAL_FIELDS);
}

#[test]
fn all_properties_of_a_tunnel_can_be_updated() {
    let mut harness = Harness::new();
    let mut parameters = ControlParameters {
        face_id: Some(TUNNEL),
        persistency: Some(Persistency::Permanent.number()),
        base_congestion_marking_interval_ns: Some(1),
        default_congestion_threshold: Some(2),
        mtu: Some(1300),
        ..ControlParameters::default()
    };
    parameters.set_flag(face_flag::CONGESTION_MARKING, true);
    let response = harness.command(APP, Verb::FaceUpdate, &parameters);
    let expected = ControlParameters { mask: None, ..parameters };
    assert_eq!((response.code, response.parameters().unwrap()), (200, expected));
    assert_eq!(harness.take_actions().len(), 1);
}

#[test]
fn management_face_ignores_updates() {
    let mut harness = Harness::new();
    for bit in [face_flag::LOCAL_FIELDS, face_flag::LP_RELIABILITY] {
        let mut parameters =
            ControlParameters { face_id: Some(FACE_ID_INTERNAL), ..ControlParameters::default() };
        parameters.set_flag(bit, bit == face_flag::LP_RELIABILITY);
        assert_eq!(harness.command(APP, Verb::FaceUpdate, &parameters).code, 200, "as NFD");
        assert_eq!(harness.take_actions(), [], "no other face is notified");
    }
}

#[test]
fn conflicting_update_lists_conflicts_and_changes_nothing() {
    let mut harness = Harness::new();
    let mut parameters = ControlParameters {
        face_id: Some(TUNNEL),
        persistency: Some(7),
        default_congestion_threshold: Some(1),
        mtu: Some(63),
        ..ControlParameters::default()
    };
    parameters.set_flag(face_flag::LOCAL_FIELDS, true);
    let before = harness.state.face(TUNNEL).cloned();
    let response = harness.command(APP, Verb::FaceUpdate, &parameters);
    assert_eq!((response.code, response.text.as_str()), (409, "Invalid properties specified"));
    let expected =
        ControlParameters { face_id: None, default_congestion_threshold: None, ..parameters };
    assert_eq!(response.parameters().unwrap(), expected);
    assert_eq!(harness.state.face(TUNNEL).cloned(), before);
    assert_eq!(harness.take_actions(), []);

    let own = |p| ControlParameters { persistency: Some(p), ..ControlParameters::default() };
    assert_eq!(harness.command(APP, Verb::FaceUpdate, &own(2)).code, 409);
    // What it is already is no change.
    assert_eq!(harness.command(APP, Verb::FaceUpdate, &own(1)).code, 200);
    let unknown = ControlParameters { face_id: Some(9999), ..ControlParameters::default() };
    let response = harness.command(APP, Verb::FaceUpdate, &unknown);
    assert_eq!((response.code, response.text.as_str()), (404, "Specified face does not exist"));
}

#[test]
fn destroy_command_is_idempotent() {
    let mut harness = Harness::new();
    let face =
        |face_id| ControlParameters { face_id: Some(face_id), ..ControlParameters::default() };
    let response = harness.command(APP, Verb::FaceDestroy, &face(TUNNEL));
    assert_eq!((response.code, response.parameters().unwrap()), (200, face(TUNNEL)));
    assert_eq!(harness.take_actions(), [Action::DestroyFace { face_id: TUNNEL }]);
    // A face that is not there is as good as destroyed.
    assert!(harness.command(APP, Verb::FaceDestroy, &face(9999)).is_ok());
    assert_eq!(harness.take_actions(), [Action::DestroyFace { face_id: 9999 }]);
    assert_eq!(harness.command(APP, Verb::FaceDestroy, &face(0)).code, 400);
    assert_eq!(harness.command(APP, Verb::FaceDestroy, &face(FACE_ID_INTERNAL)).code, 409);
    assert_eq!(harness.take_actions(), []);
}

#[test]
fn face_events_are_sent_to_readers_that_ask_before_and_after() {
    let mut harness = Harness::new();
    assert_eq!(request_event(&mut harness, 2), RequestOutcome::Event { answered: false });
    harness.state.face_changed_state(harness.now, TUNNEL, false);
    harness.state.face_changed_state(harness.now, TUNNEL, true);
    harness.state.face_changed_state(harness.now, 9999, true);
    harness.state.face_destroyed(harness.now, TUNNEL);
    harness.state.face_destroyed(harness.now, TUNNEL);
    harness.run();
    let events: Vec<_> = harness.sent.iter().map(|(wire, _)| event_of(wire)).collect();
    let expected = [FaceEventKind::Down, FaceEventKind::Up, FaceEventKind::Destroyed];
    assert_eq!(
        events,
        [0, 1, 2].map(|number| (number, expected[usize::try_from(number).unwrap()], TUNNEL))
    );
    assert!(harness.sent.iter().all(|(_, may_cache)| !may_cache));
    harness.sent.clear();

    let stream = name("/localhost/nfd/faces/events");
    let wire =
        InterestBuilder::new(&stream).can_be_prefix(true).must_be_fresh(true).to_vec().unwrap();
    assert_eq!(harness.interest(&wire, APP), RequestOutcome::Event { answered: true });
    assert_eq!(event_of(&harness.sent.remove(0).0).0, 2);
    harness.advance(2 * SECOND);
    assert_eq!(harness.interest(&wire, APP), RequestOutcome::Event { answered: false });
    assert_eq!(request_event(&mut harness, 1), RequestOutcome::Event { answered: true });
    assert_eq!(event_of(&harness.sent.remove(0).0).0, 1);
}

#[test]
fn sinks_receive_face_events_until_they_need_no_more() {
    let mut harness = Harness::new();
    let (sender, received) = std::sync::mpsc::channel();
    harness.state.add_face_event_sink(Box::new(move |event| {
        sender.send((event.kind, event.properties.face_id)).unwrap();
        event.kind != FaceEventKind::Destroyed
    }));
    harness.state.face_changed_state(harness.now, TUNNEL, false);
    harness.state.face_destroyed(harness.now, TUNNEL);
    harness.state.face_changed_state(harness.now, APP, false);
    let received: Vec<_> = received.iter().collect();
    assert_eq!(received, [(FaceEventKind::Down, TUNNEL), (FaceEventKind::Destroyed, TUNNEL)]);
}

/// Its Data would be unsolicited.
#[test]
fn face_event_without_an_interest_is_not_sent() {
    let mut harness = Harness::new();
    harness.state.face_destroyed(harness.now, TUNNEL);
    harness.run();
    assert_eq!(harness.sent, []);
    assert_eq!(request_event(&mut harness, 0), RequestOutcome::Event { answered: true });
    assert_eq!(event_of(&harness.sent.remove(0).0), (0, FaceEventKind::Destroyed, TUNNEL));
}

/// Management that can make Ethernet faces too.
fn with_ethernet() -> Harness {
    let mut config = ControlConfig::default();
    config.face_schemes.push("ether".to_owned());
    Harness::with_config(config)
}

#[test]
fn station_has_a_face_per_interface() {
    let mut harness = with_ethernet();
    let remote = "ether://[08:00:27:01:dd:01]";
    let on =
        |device: &str| ControlParameters { local_uri: Some(device.to_owned()), ..create(remote) };
    for (parameters, text) in [
        (
            create(remote),
            "Creation of unicast Ethernet faces requires a LocalUri with dev:// scheme",
        ),
        (
            on("udp4://192.0.2.2:6363"),
            "Creation of unicast Ethernet faces requires a LocalUri with dev:// scheme",
        ),
        (
            ControlParameters {
                uri: Some("ether://[01:00:5e:00:17:aa]".to_owned()),
                ..on("dev://eth1")
            },
            "Cannot create multicast Ethernet faces",
        ),
        (
            ControlParameters { persistency: Some(1), ..on("dev://eth1") },
            "Outgoing Ethernet faces do not support on-demand persistency",
        ),
        (
            ControlParameters { mtu: Some(63), ..on("dev://eth1") },
            "Override MTU cannot be less than 64",
        ),
    ] {
        let response = harness.command(APP, Verb::FaceCreate, &parameters);
        assert_eq!((response.code, response.text.as_str()), (406, text));
    }
    let mut make = |device: &str, face_id: u64| {
        let (ticket, specification) = begin_creation(&mut harness, &on(device));
        assert_eq!(specification.local.unwrap().to_string(), device);
        let mut face = record(face_id, remote, Scope::NonLocal);
        face.properties.local_uri = device.to_owned();
        harness.state.face_creation_done(harness.now, ticket, Ok(CreatedFace::New(face)));
        harness.run();
        harness.sent.clear();
    };
    make("dev://eth1", 400);
    make("dev://eth2", 401);
    let response = harness.command(APP, Verb::FaceCreate, &on("dev://eth1"));
    assert_eq!((response.code, response.parameters().unwrap().face_id), (409, Some(400)));
}
