#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use ndn_dataplane::Event as DataplaneEvent;
use ndn_management::{ControlParameters, Route, Verb};
use ndn_packet::Name;

use super::service::{FaceRequest, Service};
use super::*;
use crate::Plan;
use crate::environment::{Environment, Seeds};
use crate::faces::FaceSpec;
use crate::forwarder::forwarding_tables;
use crate::settings;

/// A forwarder with one worker and no listeners, stepped by the test.
fn control(directory: &std::path::Path) -> Control {
    let socket = directory.join("nfd.sock");
    let text = format!(
        "forwarder = {{ workers = 1, spin = \"0 us\" }}\n\
         [listeners]\nunix.path = {socket:?}\nudp.enabled = false\ntcp.enabled = false\n\
         websocket.enabled = false\n"
    );
    let config = crate::config::parse("test", &text).unwrap();
    let environment = Environment { seeds: Seeds::from_number(1), ..Environment::system() };
    let planned = Plan::new(&config, &environment.clock);
    let Plan { management, key_chain, places, .. } = planned.unwrap();
    let mut listeners = Listeners::open(&config, 1, 0).unwrap();
    let mut tables = forwarding_tables(&config, &environment);
    let (fib, strategies) = tables.initial();
    let udp = listeners.take_udp();
    let options = settings::dataplane_options(&config, &places, udp, &environment);
    let dataplane = Dataplane::start(options, fib, strategies).unwrap();
    let (_, calls) = Calls::new().unwrap();
    let own = Vec::new();
    let parts = Parts {
        clock: environment.clock,
        poller: Poller::new().unwrap(),
        has_link_monitor: true,
        management,
        key_chain,
        dataplane,
        tables,
        listeners,
        calls,
        own,
        #[cfg(feature = "vip")]
        vip: None,
    };
    Control::new(&config, parts).unwrap()
}

fn created(face_id: u64, scope: ndn_types::Scope) -> ndn_dataplane::FaceCreated {
    let properties = ndn_forwarding::FaceProperties::point_to_point(face_id, scope);
    let slot = u32::try_from(face_id).unwrap();
    ndn_dataplane::FaceCreated {
        index: ndn_table::FaceIndex::new(slot, 0),
        options: ndn_face::FaceOptions::stream(properties, ndn_types::Persistency::Permanent),
        remote: ndn_types::FaceUri::parse("https://192.0.2.1:301/ndn").unwrap(),
        local: ndn_types::FaceUri::null(),
        counters: Arc::default(),
    }
}

#[test]
fn policy_vip_is_refused_where_vip_is_not_enabled() {
    let directory = tempfile::tempdir().unwrap();
    let mut control = control(directory.path());
    let reason = if cfg!(feature = "vip") { "caching.vip.enabled = true" } else { "US 12155738" };
    let refused = control.core.set_cs_policy(ndn_caching::PolicyKind::Vip).unwrap_err();
    assert!(refused.contains(reason), "{refused}");
    assert_eq!(control.core.cs_policy, ndn_caching::PolicyKind::Lru);
    let mut config = control.core.config.clone();
    config.tables.cs.policy = ndn_caching::PolicyKind::Vip;
    let faults = Plan::new(&config, &control.core.clock).unwrap_err();
    assert!(faults.iter().any(|fault| fault.reason.contains(reason)), "{faults:?}");
}

#[test]
fn unregistered_route_does_not_return_in_the_same_round() {
    const APP: u64 = 300;
    const GONE: u64 = 301;
    const BACK: u64 = 302;
    let directory = tempfile::tempdir().unwrap();
    let mut control = control(directory.path());
    let names = ["/a", "/b"].map(|uri| Name::from_uri(uri).unwrap());
    for (face_id, scope) in [(APP, ndn_types::Scope::Local), (GONE, ndn_types::Scope::NonLocal)] {
        let face = created(face_id, scope);
        control.handle_event(DataplaneEvent::FaceAdded { ticket: None, face: Box::new(face) });
    }
    for prefix in &names {
        let route = Route { face_id: GONE, origin: 65, cost: 7, flags: 1, expires_at: None };
        control.management.change().0.add_route(prefix.as_ref(), route).unwrap();
    }
    let reason = Some(ndn_face::CloseReason::PeerClosed);
    control.handle_event(DataplaneEvent::FaceClosed { face_id: GONE, reason });
    let (retried, _) = control.statics.next_deadline().unwrap();
    control.core.now.monotonic = retried;
    control.statics.handle_timeout(&mut control.core.cx(), Reason::StaticFaces);
    let event = control.core.events.pop_front().unwrap();
    let Event::Create(request) = event else { panic!("{event:?}") };
    control.work();

    // The face is created again, and one of its routes is unregistered in the same round.
    let face = created(BACK, ndn_types::Scope::NonLocal);
    let ticket = request.spec.ticket;
    control.handle_event(DataplaneEvent::FaceAdded { ticket, face: Box::new(face) });
    let parameters = ControlParameters {
        name: Some(names[0].clone()),
        face_id: Some(BACK),
        origin: Some(65),
        ..ControlParameters::default()
    };
    let now = control.core.now;
    let wire = ndn_management::client::CommandBuilder::default()
        .digest_signed_interest(Verb::RibUnregister, &parameters, 1, now.unix_ms())
        .unwrap();
    let (answer, _) = std::sync::mpsc::sync_channel(1);
    control.handle_local_interest(&wire, answer);
    control.handle_timeouts();
    control.work();
    let state = control.state();
    let found = names.each_ref().map(|name| state.rib().find(name.as_ref(), BACK, 65));
    assert_eq!(found.map(|route| route.is_some()), [false, true]);
    assert_eq!(control.statics.next_deadline(), None);
    control.finish().unwrap();
}

/// The listener accepts, but this thread has not noticed it.
#[test]
fn attempt_to_connect_ends_with_its_command_unless_others_wait_for_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut control = control(directory.path());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let remote = ndn_types::FaceUri::tcp(listener.local_addr().unwrap());
    let create = |control: &mut Control, ticket| {
        let spec = FaceSpec {
            ticket: Some(ticket),
            persistency: ndn_types::Persistency::Persistent,
            keeper: Some(ndn_types::PrincipalKey::LocalApplication { uid: 1000, pid: 0 }),
            pit_tokens: ndn_forwarding::PitTokenPolicy::WhenSeen,
            options: ndn_management::request::FaceOptions::default(),
        };
        let request = FaceRequest { remote: remote.clone(), local: None, spec };
        control.core.events.push_back(Event::Create(Box::new(request)));
        control.deliver();
    };
    let cancel = |control: &mut Control, ticket| {
        control.core.events.push_back(Event::Cancel { ticket });
        control.deliver();
        control.connector.next_deadline().is_some()
    };
    create(&mut control, 1);
    assert!(!cancel(&mut control, 1), "nobody waits for it");
    create(&mut control, 2);
    create(&mut control, 3);
    assert!(cancel(&mut control, 2), "another command waits for it");
    control.finish().unwrap();
}

/// The events of the worker that has found the face are received before those of the worker that has made it.
#[test]
fn request_for_a_face_that_another_worker_has_made_is_answered_when_that_is_reported() {
    const FACE: u64 = 301;
    for closes in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let mut control = control(directory.path());
        // The attempt to connect goes on: this thread does not notice that the listener accepts.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let remote = ndn_types::FaceUri::tcp(listener.local_addr().unwrap());
        let parameters =
            ControlParameters { uri: Some(remote.to_string()), ..ControlParameters::default() };
        let now = control.core.now;
        let wire = ndn_management::client::CommandBuilder::default()
            .digest_signed_interest(Verb::FaceCreate, &parameters, 1, now.unix_ms())
            .unwrap();
        let (answer, answered) = std::sync::mpsc::sync_channel(1);
        control.handle_local_interest(&wire, answer);
        control.work();
        let (ticket, unused) = (Some(1), 999);
        control.handle_event(DataplaneEvent::FaceExists { ticket, face_id: FACE, unused });
        control.work();
        assert!(answered.try_recv().is_err(), "the face is not known");
        if closes {
            let (deadline, _) = control.connector.next_deadline().unwrap();
            control.core.now.monotonic = deadline;
            control.handle_timeouts();
        } else {
            let face = created(FACE, ndn_types::Scope::NonLocal);
            control.handle_event(DataplaneEvent::FaceAdded { ticket: None, face: Box::new(face) });
        }
        let begin = control.core.clock.now();
        let reply = loop {
            // Replies wait for the workers.
            control.work();
            if let Ok(reply) = answered.try_recv() {
                break reply.unwrap();
            }
            let waited = control.core.clock.now() - begin;
            assert!(waited < Duration::from_secs(10), "no answer");
            std::thread::yield_now();
        };
        let reply = ndn_packet::Data::parse(&reply).unwrap();
        let response = ndn_management::ControlResponse::decode(reply.content().unwrap()).unwrap();
        let expected = if closes { status::INTERNAL_ERROR } else { status::CONFLICT };
        assert_eq!(response.code, expected, "{response:?}");
        control.finish().unwrap();
    }
}

#[test]
fn services_have_the_places_of_their_names() {
    let directory = tempfile::tempdir().unwrap();
    let mut control = control(directory.path());
    for (place, service) in control.parts().1.iter().enumerate() {
        assert_eq!(service.name() as usize, place, "{:?}", service.name());
    }
}
