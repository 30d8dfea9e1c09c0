//! Ports of few addresses do not take the faces of others.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use namewire_tests::wire::{data, interest};
use namewire_tests::{Application, Forwarder, Settings, wait_until};

fn udp_faces(forwarder: &Forwarder) -> usize {
    let faces = forwarder.json(&["face", "list"]);
    let udp = |face: &&serde_json::Value| face["remote_uri"].as_str().unwrap().starts_with("udp4:");
    faces.as_array().unwrap().iter().filter(udp).count()
}

/// A UDP socket of this loopback address, with a port of its own.
fn peer_at(forwarder: &Forwarder, last: u8) -> UdpSocket {
    let socket = UdpSocket::bind(SocketAddr::from(([127, 0, 0, last], 0))).unwrap();
    socket.connect(("127.0.0.1", forwarder.port())).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

/// Sends Interests until one is answered: a face of another address may have to close first.
fn expect_service(forwarder: &Forwarder, producer: &mut Application, number: u32) {
    let socket = peer_at(forwarder, 9);
    let name = format!("/bystander/{number}");
    let mut nonce = number * 1000;
    let mut answered = [0; 9000];
    wait_until("a new port of a bystander to be served", || {
        nonce += 1;
        socket.send(&interest(&name, nonce)).unwrap();
        // Its face may not exist yet.
        let received = producer.try_receive(Duration::from_millis(200));
        if received.is_some() {
            producer.send(&data(&name, b"content"));
        }
        socket.recv(&mut answered).ok().map(drop)
    });
}

#[test]
fn ports_of_few_addresses_leave_faces_to_others() {
    for workers in [1, 3] {
        let limits = "[limits]\nfaces = 64\nfaces_per_peer = 64";
        let forwarder = Settings::new().udp().workers(workers).toml(limits).start();
        let mut producer = Application::attach(forwarder.socket());
        producer.register("/bystander", 0);
        expect_service(&forwarder, &mut producer, 1);
        let mut hostile = Vec::new();
        for round in 0..2 {
            for last in [2, 3] {
                for _ in 0..40 {
                    let socket = peer_at(&forwarder, last);
                    socket.send(&interest("/nobody", u32::from(last) * 1000 + round)).unwrap();
                    hostile.push(socket);
                }
            }
            wait_until("faces of few addresses", || (udp_faces(&forwarder) >= 35).then_some(()));
            // Six faces in all: within the share of the address, a fifth of 42.
            for number in 0..2 {
                expect_service(&forwarder, &mut producer, 2 + round * 2 + number);
            }
            // Applications have a reserve: the command is answered, so the connection was not closed.
            Application::attach(forwarder.socket()).register("/application", 0);
        }
        drop(hostile);
        expect_service(&forwarder, &mut producer, 90);
    }
}
