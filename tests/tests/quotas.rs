//! Peers that nobody has asked for hold no more of the forwarder than their quotas.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::UdpSocket;

use namewire_tests::wire::{data, interest};
use namewire_tests::{Application, Forwarder, Settings, TIMEOUT, wait_until};

fn peer(forwarder: &Forwarder) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(("127.0.0.1", forwarder.port())).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    socket
}

fn unknown_peers(forwarder: &Forwarder) -> usize {
    let faces = forwarder.json(&["face", "list"]);
    let udp = |face: &&serde_json::Value| face["remote_uri"].as_str().unwrap().starts_with("udp4:");
    faces.as_array().unwrap().iter().filter(udp).count()
}

#[test]
fn a_peer_has_so_many_faces_and_places_in_the_pit() {
    // One worker, with 64 places and no reserves (one in a hundred is less than a place).
    let limits = "[limits]\nfaces_per_peer = 2\nlocal_reserve = 0\nneighbour_reserve = 0\n\
                  [tables]\npit_capacity = 64";
    let forwarder = Settings::new().udp().workers(1).toml(limits).start();
    let mut producer = Application::attach(forwarder.socket());
    producer.register("/quota", 0);
    let [one, two, three] = [(); 3].map(|()| peer(&forwarder));
    let pending: Vec<String> = (1..=64).map(|number| format!("/quota/{number}")).collect();
    for (nonce, uri) in (1..).zip(&pending) {
        one.send(&interest(uri, nonce)).unwrap();
        producer.expect_interest(uri);
    }
    // Nothing more passes of this address, by whatever face.
    one.send(&interest("/quota/65", 65)).unwrap();
    two.send(&interest("/quota/66", 66)).unwrap();
    // There is no third face for this host, which the other two do not notice.
    three.send(&interest("/quota/67", 67)).unwrap();
    wait_until("three Interests to be refused", || {
        let status = forwarder.json(&["status"]).to_string();
        (status.contains("pit_share") && unknown_peers(&forwarder) == 2).then_some(())
    });
    // An application has a share of its own: an Interest of the peer gives way.
    let mut application = Application::attach(forwarder.socket());
    application.send(&interest("/quota/68", 68));
    producer.expect_interest("/quota/68");
    // An answer makes room.
    producer.send(&data("/quota/68", b""));
    one.send(&interest("/quota/69", 69)).unwrap();
    producer.expect_interest("/quota/69");
}

#[test]
fn face_with_rejected_commands_is_limited_and_no_other() {
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
