//! WebTransport: forwarder to forwarder, Chromium, and clients that do as they like.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::Duration;

use namewire_tests::{
    Endpoint, Peer, Settings, TIMEOUT, Transport, browser_found, fetch_by_page, noise, require,
    run_to_end, skip_unless_found, wait_until,
};
use ndn_packet::MAX_PACKET_SIZE;
use ndn_webtransport::{Accepted, Service, Target};
use serde_json::Value;

const OBJECT_BYTES: usize = 256 * 1024;

/// The object in a file, and its checksum as the page computes it.
fn object(forwarder: &Endpoint) -> (PathBuf, Vec<u8>, u64) {
    let bytes = noise(11, OBJECT_BYTES);
    let path = forwarder.directory().join("object");
    std::fs::write(&path, &bytes).unwrap();
    let add = |sum: u64, byte: &u8| sum.wrapping_mul(31).wrapping_add(u64::from(*byte));
    let checksum = bytes.iter().fold(0, add);
    (path, bytes, checksum)
}

/// The face whose far end begins so.
fn face(forwarder: &Endpoint, remote: &str) -> Option<Value> {
    let mut faces = forwarder.json(&["face", "list"]).as_array().unwrap().clone();
    // One that is being made has no number yet.
    faces.retain(|face| face["face_id"].is_u64());
    faces.into_iter().find(|face| face["remote_uri"].as_str().unwrap().starts_with(remote))
}

fn counter(forwarder: &Endpoint, name: &str) -> u64 {
    forwarder.json(&["webtransport"])["counters"][name].as_u64().unwrap()
}

#[test]
fn a_forwarder_fetches_from_another_by_a_face_that_an_operator_makes() {
    let gateway = Settings::new().webtransport().start();
    let (path, bytes, _) = object(&gateway);
    let prefix = "/webtransport/gateway";
    let transport = Transport(gateway.unix());
    let _serving = Peer::Namewire.produce(&transport, prefix, &path, gateway.directory());
    let url = gateway.webtransport();
    assert!(gateway.announcement().contains(url.rsplit('=').next().unwrap()), "told at start");

    let branch = Settings::new().start();
    let created = branch.output(&["face", "create", &url]);
    assert!(created.contains(&url), "{created}");
    let _ = branch.output(&["route", "add", prefix, &url]);
    let transport = Transport(branch.unix());
    let fetched = Peer::Namewire.fetch(&transport, prefix, branch.directory());
    assert!(fetched == bytes, "{} bytes", fetched.len());

    let near = face(&branch, "https://").unwrap();
    assert_eq!(near["remote_uri"], *url);
    let far = face(&gateway, "quic://127.0.0.1:").unwrap();
    assert_eq!(far["remote_uri"], near["local_uri"]);
    assert_eq!(far["local_uri"], format!("quic://127.0.0.1:{}", gateway.port()));
    assert_eq!((&far["scope"], &far["persistency"]), (&"non-local".into(), &"on-demand".into()));
    // Both read streams, so that any packet is sent whole.
    for (forwarder, remote) in [(&branch, "https://"), (&gateway, "quic://")] {
        wait_until("long frames", || {
            (face(forwarder, remote)?["mtu_bytes"] == MAX_PACKET_SIZE).then_some(())
        });
    }
    let _ = Peer::Namewire.fetch(&transport, prefix, branch.directory());
    assert!(counter(&gateway, "sent_streams") > 0);
    wait_until("all streams to arrive", || {
        (counter(&gateway, "sent_streams") == counter(&branch, "received_streams")).then_some(())
    });
    let channels = gateway.output(&["nfdc", "channel", "list"]);
    assert!(channels.contains(&format!("quic://127.0.0.1:{}", gateway.port())), "{channels}");

    // To the same place there is one face; and with it, the session ends.
    let again = branch.output(&["face", "create", &url]);
    assert!(again.contains(&near["face_id"].to_string()), "{again}");
    let _ = branch.output(&["face", "destroy", &near["face_id"].to_string()]);
    wait_until("the face of the other end to go", || {
        face(&gateway, "quic://").is_none().then_some(())
    });
    wait_until("its end to be counted", || (counter(&gateway, "ended") == 1).then_some(()));
    assert_eq!(counter(&gateway, "accepted"), 1);
    let elsewhere = branch.run(&["face", "create", &url.replace("/ndn#", "/other#")]);
    assert!(!elsewhere.status.success());
    assert_eq!(counter(&gateway, "refused_path"), 1);
}

/// A certificate for 127.0.0.1 and its key, in files: ECDSA on P-256, valid for a week.
fn certificate(directory: &Path) -> (PathBuf, PathBuf) {
    let (certificate, key) = (directory.join("certificate.pem"), directory.join("key.pem"));
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]);
    openssl.args(["-nodes", "-days", "7", "-subj", "/CN=test"]);
    openssl.args(["-addext", "subjectAltName=IP:127.0.0.1"]);
    openssl.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
    openssl.arg("-keyout").arg(&key).arg("-out").arg(&certificate);
    let made = run_to_end(openssl);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    (certificate, key)
}

#[test]
fn configured_face_trusts_an_authority_and_reconnects() {
    if !skip_unless_found("openssl") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (certificate, key) = certificate(directory.path());
    let files = format!("certificate = \"{}\"\nkey = \"{}\"", certificate.display(), key.display());
    let settings = Settings::new().webtransport_with(&files);
    let first = settings.start();
    let port = first.port();
    let url = format!("https://127.0.0.1:{port}/ndn");
    let branch = Settings::new()
        .variable("SSL_CERT_FILE", &certificate)
        .toml(&format!(
            "[faces]\nreconnect_min = \"50ms\"\nreconnect_max = \"200ms\"\n\
             [[static_routes]]\nprefix = \"/ndn\"\nface = \"{url}\""
        ))
        .start_program();
    let route_of = |face: &Value| {
        let routes = branch.json(&["route", "list"]);
        let mut routes = routes.as_array().unwrap().iter();
        routes.any(|route| route["face_id"] == face["face_id"])
    };
    let earlier = wait_until("the face", || face(&branch, &url));
    wait_until("the route", || route_of(&earlier).then_some(()));
    assert_eq!(first.json(&["webtransport"])["self_signed"], false);
    // It closes its sessions when it stops.
    drop(first);
    wait_until("the face to go", || face(&branch, &url).is_none().then_some(()));
    let _second = settings.port(port).start();
    let later = wait_until("the face to come back", || face(&branch, &url));
    assert_ne!(earlier["face_id"], later["face_id"]);
    wait_until("the route to come back", || route_of(&later).then_some(()));
}

/// A certificate that a listener has made is the same after its next start, so that who knows its hash comes
/// back; for another one it reports that it does not fit.
#[test]
fn permanent_face_by_hash_reconnects_to_the_same_listener_only() {
    let [kept, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let settings = |state: &Path| {
        let state = format!("state_directory = \"{}\"", state.display());
        Settings::new().webtransport_with(&state)
    };
    let first = settings(kept.path()).start();
    let port = first.port();
    let hash =
        |forwarder: &Endpoint| forwarder.json(&["webtransport"])["certificate_hashes"][0].clone();
    let first_hash = hash(&first);
    let url = format!("https://127.0.0.1:{port}/ndn#sha256={}", first_hash.as_str().unwrap());
    let retries = "[faces]\nreconnect_min = \"50ms\"\nreconnect_max = \"200ms\"";
    let branch = Settings::new().toml(retries).start();
    let _ = branch.output(&["face", "create", &url, "--persistency", "permanent"]);
    let _ = branch.output(&["route", "add", "/far", &url]);
    let earlier = face(&branch, &url).unwrap();
    drop(first);
    wait_until("the face to go", || face(&branch, &url).is_none().then_some(()));
    let unknown_peer = settings(other.path()).port(port).start();
    let shown = hash(&unknown_peer);
    wait_until("the other certificate to be reported", || {
        let reported = branch.output(&["face", "list"]);
        (reported.contains(&url) && reported.contains(shown.as_str().unwrap())).then_some(())
    });
    drop(unknown_peer);
    let second = settings(kept.path()).port(port).start();
    assert_eq!(hash(&second), first_hash);
    let later = wait_until("the face to come back", || face(&branch, &url));
    assert_ne!(earlier["face_id"], later["face_id"]);
    wait_until("its route to come back", || {
        let routes = branch.json(&["route", "list"]);
        let mut routes = routes.as_array().unwrap().iter();
        routes
            .any(|route| route["prefix"] == "/far" && route["face_id"] == later["face_id"])
            .then_some(())
    });
}

#[test]
fn a_page_in_a_browser_fetches_an_object() {
    if !(require(&[Peer::Ndnts]) && browser_found()) {
        return;
    }
    let forwarder = Settings::new().webtransport().start();
    let (path, bytes, checksum) = object(&forwarder);
    let prefix = "/webtransport/page";
    let unix = Transport(forwarder.unix());
    let _serving = Peer::Ndnts.produce(&unix, prefix, &path, forwarder.directory());
    let url = forwarder.webtransport().replace("#sha256=", "&certificate=");
    let printed = fetch_by_page(&url, prefix, forwarder.directory());
    assert_eq!(printed, format!("{} bytes, checksum {checksum}", bytes.len()));
    assert!(counter(&forwarder, "accepted") > 0);
}

/// A page that reads streams gets Data so, and NDNts, which does not, by datagrams.
#[test]
fn a_page_in_a_browser_reads_streams() {
    if !(require(&[Peer::Ndnts]) && browser_found()) {
        return;
    }
    let forwarder = Settings::new().webtransport().start();
    let (path, bytes, checksum) = object(&forwarder);
    let prefix = "/webtransport/streams";
    let unix = Transport(forwarder.unix());
    let _serving = Peer::Ndnts.produce(&unix, prefix, &path, forwarder.directory());
    let url = forwarder.webtransport();
    let datagrams = url.replace("#sha256=", "&certificate=");
    let _ = fetch_by_page(&datagrams, prefix, forwarder.directory());
    assert_eq!(counter(&forwarder, "sent_streams"), 0);
    let streams = url.replace("#sha256=", "&streams=1&certificate=");
    let printed = fetch_by_page(&streams, prefix, forwarder.directory());
    let object = format!("{} bytes, checksum {checksum}, ", bytes.len());
    let received = printed.strip_prefix(&object).and_then(|rest| rest.strip_suffix(" by streams"));
    let received: u64 = received.unwrap_or_else(|| panic!("{printed}")).parse().unwrap();
    assert!(received > 0);
    // A packet that was asked for again may come when the page has all.
    assert!(received <= counter(&forwarder, "sent_streams"));
}

/// Opens a session.
fn open(service: &Service, url: &str) -> Result<Accepted, String> {
    let target: Target = url.parse().unwrap();
    let (sender, opened) = channel();
    let done = Box::new(move |session| drop(sender.send(session)));
    let _connecting = service.connect(target, Vec::new(), Duration::from_secs(30), done);
    opened.recv_timeout(TIMEOUT).unwrap()
}

#[test]
fn clients_are_admitted_by_origin_and_path() {
    let text = "[limits]\nfaces_per_peer = 3";
    let forwarder = Settings::new().webtransport().toml(text).start();
    let url = forwarder.webtransport();
    // Datagrams that are not QUIC, or only begin so.
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for (first, bytes) in (0..=255).zip(noise(3, 256 * 1200).chunks(1200)) {
        let datagram = [&[first, 0, 0, 0, 1][..], bytes].concat();
        socket.send_to(&datagram, ("127.0.0.1", forwarder.port())).unwrap();
    }
    let service = Service::start(None).unwrap();
    // Three are closed again, perhaps before their clients know that they were accepted.
    let opened: Vec<_> = (0..6).map(|_| open(&service, &url)).collect();
    wait_until("three of the sessions to be closed", || {
        (counter(&forwarder, "accepted") == 6 && counter(&forwarder, "ended") == 3).then_some(())
    });
    let faces = forwarder.json(&["face", "list"]);
    let is_session = |face: &&Value| face["remote_uri"].as_str().unwrap().starts_with("quic://");
    assert_eq!(faces.as_array().unwrap().iter().filter(is_session).count(), 3);
    drop(opened);
    wait_until("the faces to go", || face(&forwarder, "quic://").is_none().then_some(()));
    // There is room again, and an invalid packet closes no face.
    let session = open(&service, &url).unwrap();
    let stream = std::os::unix::net::UnixStream::from(session.stream);
    std::io::Write::write_all(&mut &stream, &[0x17, 1, 7, 0x64, 3, 1, 2, 3, 6, 2, 7, 0]).unwrap();
    let found = wait_until("the invalid packet to be counted", || {
        let found = face(&forwarder, "quic://")?;
        (found["counters"]["in_bytes"].as_u64()? > 0).then_some(found)
    });
    assert_eq!(found["scope"], "non-local");
    forwarder.assert_healthy();
}
