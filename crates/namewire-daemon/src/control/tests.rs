#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::mpsc::channel;

use ndn_management::{ControlParameters, Route, Verb};
use ndn_packet::Name;

use super::*;
use crate::Plan;
use crate::destinations::Destinations;
use crate::environment::{Environment, Seeds};
use crate::forwarder::forwarding_tables;
use crate::settings;
use crate::static_setup::LostSession;

/// A forwarder with one worker and no listeners, stepped by the test.
fn control(directory: &std::path::Path) -> Control {
    let socket = directory.join("nfd.sock");
    let text = format!(
        "forwarder = {{ workers = 1, spin = \"0 us\" }}\n\
         [listeners]\nunix.path = {socket:?}\nudp.enabled = false\ntcp.enabled = false\n\
         websocket.enabled = false\n"
    );
    let config = crate::config::parse("test", &text).unwrap();
    let Plan { management, key_chain, places, .. } = Plan::new(&config).unwrap();
    let mut listeners = Listeners::open(&config, 1, 0).unwrap();
    let environment = Environment { clock: Clock::System, seeds: Seeds::from_number(1) };
    let mut tables = forwarding_tables(&config, &environment);
    let (fib, strategies) = tables.initial();
    let udp = listeners.take_udp();
    let options = settings::dataplane_options(&config, &places, udp, &environment);
    let dataplane = Dataplane::start(options, fib, strategies).unwrap();
    let operator =
        OperatorRequests { requests: channel().1, waker: Arc::new(Waker::new().unwrap()) };
    let own = Vec::new();
    let parts = Parts {
        clock: environment.clock,
        has_link_monitor: true,
        management,
        key_chain,
        dataplane,
        tables,
        listeners,
        operator,
        own,
    };
    Control::new(&config, parts).unwrap()
}

fn record(face_id: u64, scope: ndn_management::Scope) -> ndn_management::FaceRecord {
    let remote_uri = format!("https://192.0.2.1:{face_id}/ndn");
    ndn_management::FaceRecord {
        properties: ndn_management::FaceProperties {
            face_id,
            local_uri: remote_uri.clone(),
            remote_uri,
            scope,
            persistency: ndn_management::Persistency::Permanent,
            link_type: ndn_management::LinkType::PointToPoint,
            flags: 0,
        },
        base_congestion_marking_interval_ns: None,
        default_congestion_threshold: None,
        mtu: None,
        capabilities: ndn_management::FaceCapabilities::default(),
    }
}

#[test]
fn unregistered_route_does_not_return_in_the_same_round() {
    const APP: u64 = 300;
    const GONE: u64 = 301;
    const BACK: u64 = 302;
    let directory = tempfile::tempdir().unwrap();
    let mut control = control(directory.path());
    let now = control.now();
    let names = ["/a", "/b"].map(|uri| Name::from_uri(uri).unwrap());
    control.state.face_created(now, record(APP, ndn_management::Scope::Local));
    control.state.face_created(now, record(GONE, ndn_management::Scope::NonLocal));
    for prefix in &names {
        let route = Route { face_id: GONE, origin: 65, cost: 7, flags: 1, expires_at_ns: None };
        control.state.add_route(prefix.as_ref(), route).unwrap();
    }
    let remote = ndn_types::FaceUri::parse("https://192.0.2.1:301/ndn").unwrap();
    let wanted = Wanted {
        ticket: None,
        persistency: ndn_face::Persistency::Permanent,
        pit_tokens: ndn_forwarding::PitTokenPolicy::WhenSeen,
        options: ndn_management::request::FaceOptions::default(),
    };
    let destinations = Destinations::of(&control.state, GONE);
    control.state.face_destroyed(now, GONE);
    let lost = LostSession { face_id: GONE, remote, wanted, destinations };
    control.statics.session_lost(now.monotonic_ns, lost);
    let ticket = control.statics.due(u64::MAX).remove(0).2.ticket;
    control.work(now);

    // The face is created again, and one of its routes is unregistered in the same round.
    control.state.face_created(now, record(BACK, ndn_management::Scope::NonLocal));
    control.statics.face_added(&mut control.state, ticket, BACK);
    let parameters = ControlParameters {
        name: Some(names[0].clone()),
        face_id: Some(BACK),
        origin: Some(65),
        ..ControlParameters::default()
    };
    let wire = ndn_management::client::CommandBuilder::default()
        .digest_signed_interest(Verb::RibUnregister, &parameters, 1, now.unix_ms())
        .unwrap();
    let figures = control.figures();
    let handled = control.state.handle_interest(
        now,
        &wire,
        APP,
        &figures.telemetry(&control.faces, now.monotonic_ns),
    );
    assert!(matches!(handled, ndn_management::Handled::Command { code: Some(200), .. }));
    control.handle_timeouts(now);
    control.work(now);
    let found = names.each_ref().map(|name| control.state.rib().find(name.as_ref(), BACK, 65));
    assert_eq!(found.map(|route| route.is_some()), [false, true]);
    assert_eq!(control.statics.next_deadline_ns(), None);
    control.finish().unwrap();
}
