//! Ports of few addresses do not take the faces of others.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::UdpSocket;
use std::time::Duration;

use namewire_tests::wire::{data, interest};
use namewire_tests::{Application, Forwarder, Settings, host, run_to_end, wait_until, with_hosts};

fn udp_faces(forwarder: &Forwarder) -> usize {
    let faces = forwarder.json(&["face", "list"]);
    let udp = |face: &&serde_json::Value| face["remote_uri"].as_str().unwrap().starts_with("udp4:");
    faces.as_array().unwrap().iter().filter(udp).count()
}

/// A UDP socket of this host, with a port of its own.
fn peer_at(forwarder: &Forwarder, last: u8) -> UdpSocket {
    let socket = UdpSocket::bind((host(last), 0)).unwrap();
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
    with_hosts(|| {
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
                wait_until("faces of few addresses", || {
                    (udp_faces(&forwarder) >= 35).then_some(())
                });
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
    });
}

/// A user without rights.
const NOBODY: u32 = 65_534;

/// The faces that are charged to this principal, and the number of neighbours.
fn faces_of(forwarder: &Forwarder, principal: &str) -> (u64, usize) {
    let limits = forwarder.json(&["limits"]);
    let principals = limits["principals"].as_array().unwrap();
    let found = principals.iter().find(|one| one["principal"] == principal);
    let faces = found.and_then(|one| one["held"]["faces"].as_u64()).unwrap_or(0);
    let neighbours = principals.iter().filter(|one| one["class"] == "neighbour");
    (faces, neighbours.count())
}

/// Programs of a user who is neither root nor the forwarder's create faces, as anybody may by default.
#[test]
fn faces_that_another_user_creates_leave_faces_to_others() {
    with_hosts(|| {
        let limits = "[limits]\nfaces = 32\nfaces_per_peer = 32";
        let forwarder = Settings::new().udp().toml(limits).start();
        let mut producer = Application::attach(forwarder.socket());
        producer.register("/bystander", 0);
        let peers: Vec<_> = (0..30).map(|_| peer_at(&forwarder, 2)).collect();
        let mut made = 0;
        for peer in &peers {
            let uri = format!("udp4://{}", peer.local_addr().unwrap());
            let command = forwarder.command_as(NOBODY, &["face", "create", &uri]);
            let Some(command) = command else { return };
            made += u64::from(run_to_end(command).status.success());
        }
        // What is open to all, and the reserve of applications: 24 with the faces of the applications.
        assert!((12..=24).contains(&made), "{made}");
        assert_eq!(faces_of(&forwarder, "user 65534"), (made, 0));
        for number in 0..4 {
            expect_service(&forwarder, &mut producer, number);
        }
        assert!(faces_of(&forwarder, "user 65534").0 < made, "some gave way");
        // A face that root requests is an operator's, also one of the user.
        let other = format!("udp4://{}", peer_at(&forwarder, 3).local_addr().unwrap());
        let _ = forwarder.output(&["face", "create", &other]);
        assert_eq!(faces_of(&forwarder, "user 65534").1, 1);
        let faces = forwarder.json(&["face", "list"]);
        let kept = faces.as_array().unwrap().iter().find(|face| {
            let uri = face["remote_uri"].as_str().unwrap();
            uri.starts_with("udp4://198.51.100.2:")
        });
        let uri = kept.unwrap()["remote_uri"].as_str().unwrap();
        let _ = forwarder.run(&["face", "create", uri]);
        assert_eq!(faces_of(&forwarder, "user 65534").1, 2);
    });
}
