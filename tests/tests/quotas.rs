//! Peers that nobody has asked for hold no more of the forwarder than their quotas.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::UdpSocket;

use namewire_tests::wire::{data, interest};
use namewire_tests::{Application, Forwarder, PATIENCE, Settings, wait_until};

fn peer(forwarder: &Forwarder) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(("127.0.0.1", forwarder.port())).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn strangers(forwarder: &Forwarder) -> usize {
    let faces = forwarder.json(&["face", "list"]);
    let udp = |face: &&serde_json::Value| face["remote_uri"].as_str().unwrap().starts_with("udp4:");
    faces.as_array().unwrap().iter().filter(udp).count()
}

#[test]
fn a_peer_has_so_many_faces_and_pending_interests() {
    let limits = "[limits]\nfaces_per_peer = 2\npending_interests_per_face = 3";
    let forwarder = Settings::new().udp().workers(1).toml(limits).start();
    let mut producer = Application::attach(forwarder.socket());
    producer.register("/quota", 0);
    let [one, two, three] = [(); 3].map(|()| peer(&forwarder));
    let pending = ["/quota/1", "/quota/2", "/quota/3"];
    for (nonce, uri) in (1..).zip(pending) {
        one.send(&interest(uri, nonce)).unwrap();
        producer.expect_interest(uri);
    }
    // Beyond the quota nothing passes, but for another face.
    one.send(&interest("/quota/4", 4)).unwrap();
    two.send(&interest("/quota/5", 5)).unwrap();
    producer.expect_interest("/quota/5");
    // There is no third face for this host, which the other two do not notice.
    three.send(&interest("/quota/6", 6)).unwrap();
    two.send(&interest("/quota/7", 7)).unwrap();
    producer.expect_interest("/quota/7");
    assert_eq!(strangers(&forwarder), 2);
    // An answer makes room.
    producer.send(&data("/quota/1", b""));
    one.recv(&mut [0; 9000]).unwrap();
    one.send(&interest("/quota/8", 8)).unwrap();
    producer.expect_interest("/quota/8");
    // A face that an operator keeps is no stranger's.
    let faces = forwarder.json(&["face", "list"]);
    let remote = format!("udp4://{}", one.local_addr().unwrap());
    let is_it = |face: &&serde_json::Value| face["remote_uri"] == remote.as_str();
    let id = faces.as_array().unwrap().iter().find(is_it).unwrap()["face_id"].to_string();
    let _ = forwarder.output(&["face", "update", &id, "--persistency", "persistent"]);
    for (nonce, uri) in (9..).zip(["/quota/09", "/quota/10"]) {
        one.send(&interest(uri, nonce)).unwrap();
        producer.expect_interest(uri);
    }
}

#[test]
fn a_face_whose_commands_are_refused_is_held_back_and_no_other() {
    let limits = "[limits]\nrefused_commands_per_second = 5";
    let forwarder = Settings::new().workers(1).toml(limits).start();
    let [mut hostile, mut other] = [(); 2].map(|()| Application::attach(forwarder.socket()));
    other.register("/held", 0);
    // Ten seconds' worth may come at once, and more of what is carried out.
    for number in 0..100 {
        other.register(&format!("/held/{number}"), 0);
    }
    let held = || {
        let faces = forwarder.json(&["face", "list"]);
        let held = |face: &&serde_json::Value| face["link"]["drops"]["management_rate"].is_u64();
        faces.as_array().unwrap().iter().filter(held).count()
    };
    assert_eq!(held(), 0);
    let mut nonce = 0;
    wait_until("management Interests to be dropped on arrival", || {
        for _ in 0..50 {
            nonce += 1;
            hostile.send(&interest(&format!("/localhost/nfd/rib/rob/{nonce}"), nonce));
        }
        (held() > 0).then_some(())
    });
    assert_eq!(held(), 1);
    // What is not for management passes, and others are heard.
    hostile.send(&interest("/held/by/nobody", 1));
    other.expect_interest("/held/by/nobody");
    other.register("/held/still", 0);
}
