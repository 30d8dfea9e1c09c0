//! Self-learning between two forwarders: a route is learnt from the answer to the first Interest.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

use namewire_tests::{Process, Settings, program, wait_until};

#[test]
fn a_route_is_learnt_from_the_first_answer() {
    let [near, far] = [(); 2].map(|()| Settings::new().udp().start());
    for forwarder in [&near, &far] {
        let _ = forwarder.output(&["strategy", "set", "/learnt", "self-learning"]);
    }
    let face = near.json(&["face", "create", &format!("udp4://127.0.0.1:{}", far.port())]);
    let face_id = face["face_id"].as_u64().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new(program());
    command.args(["ping-server", "/learnt/app"]);
    command.env("NDN_CLIENT_TRANSPORT", format!("unix://{}", far.socket().display()));
    let _server = Process::start("server", command, directory.path());
    wait_until("the route of the server", || {
        far.output(&["route", "list"]).contains("/learnt/app").then_some(())
    });
    assert!(!near.output(&["route", "list"]).contains("/learnt/app"));

    // Nobody has told this forwarder where to: it asks its neighbour, and learns.
    let _ = near.output(&["ping", "/learnt/app", "--count", "1"]);
    wait_until("the route", || {
        let routes = near.json(&["route", "list"]);
        let mut routes = routes.as_array().unwrap().iter();
        routes
            .any(|route| {
                route["origin"] == "prefixann"
                    && route["prefix"] == "/learnt/app/ping"
                    && route["face_id"].as_u64() == Some(face_id)
            })
            .then_some(())
    });
    let ping = near.output(&["ping", "/learnt/app", "--count", "5", "--interval", "10ms"]);
    assert!(ping.contains('5'), "{ping}");
}
