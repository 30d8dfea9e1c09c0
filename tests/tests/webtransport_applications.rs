//! Applications that reach a forwarder far away by WebTransport, and their end.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use namewire_tests::{Forwarder, Process, Settings, noise, now, wait_until};
use rustix::process::Signal;
use serde_json::Value;

/// Within which a face goes whose application says so, on a machine with other work.
const SOON: Duration = Duration::from_secs(15);
/// More than the longest datagram, many times.
const OBJECT_BYTES: usize = 1 << 20;

/// A forwarder with which applications register, and that does not find out by itself that they are gone.
fn gateway() -> Forwarder {
    let listener = "idle_timeout = \"1h\"\n";
    let management = "[management]\nlocalhop_rib = \"any\"\n";
    Settings::new().webtransport_with(listener).toml(management).start()
}

fn sessions(forwarder: &Forwarder) -> usize {
    let faces = forwarder.json(&["face", "list"]);
    let remotes = faces.as_array().unwrap().iter().map(|face| face["remote_uri"].as_str().unwrap());
    remotes.filter(|remote| remote.starts_with("quic://")).count()
}

/// Waits for sessions to begin or end, for less than the 30 s after which the applications' silence ends them.
fn wait_for_sessions(forwarder: &Forwarder, count: usize) {
    let begun = now();
    wait_until("sessions to begin or end", || (sessions(forwarder) == count).then_some(()));
    assert!(now().duration_since(begun) < SOON, "nobody has told that it goes");
}

/// Interrupts an application, whose face is gone when it has ended.
fn end(forwarder: &Forwarder, mut application: Process) {
    let before = sessions(forwarder);
    application.signal(Signal::INT);
    let _ = application.wait();
    wait_for_sessions(forwarder, before - 1);
}

fn wait_for_route(forwarder: &Forwarder, prefix: &str) {
    wait_until("a route", || forwarder.output(&["route", "list"]).contains(prefix).then_some(()));
}

#[test]
fn files_are_put_served_and_fetched() {
    let forwarder = gateway();
    let url = forwarder.webtransport();
    let bytes = noise(6, OBJECT_BYTES);
    let served = forwarder.directory().join("served");
    std::fs::create_dir(&served).unwrap();
    let (file, fetched) = (served.join("file"), forwarder.directory().join("fetched"));
    std::fs::write(&file, &bytes).unwrap();
    let (file, to) = (file.to_str().unwrap(), fetched.to_str().unwrap());
    let put = ["put", "/put/object", file, "--transport", &url];
    let serve = ["serve", served.to_str().unwrap(), "--prefix", "/serve", "--transport", &url];
    for (arguments, prefix, object) in
        [(&put[..], "/put/object", "/put/object"), (&serve[..], "/serve", "/serve/file")]
    {
        let publishing = forwarder.spawn("publishing", arguments);
        wait_for_route(&forwarder, prefix);
        let _ = forwarder.output(&["get", object, "-o", to, "--transport", &url]);
        assert!(std::fs::read(&fetched).unwrap() == bytes, "{object} is another one");
        std::fs::remove_file(&fetched).unwrap();
        // The fetcher has said that it goes; the publisher is there.
        wait_for_sessions(&forwarder, 1);
        end(&forwarder, publishing);
    }
    forwarder.assert_healthy();
}

#[test]
fn pings_are_answered() {
    let forwarder = gateway();
    let url = forwarder.webtransport();
    let server = forwarder.spawn("server", &["ping-server", "/p", "--transport", &url]);
    wait_for_route(&forwarder, "/p");
    let ping = ["ping", "/p", "--count", "3", "--interval", "10ms", "--transport", &url];
    let answered = forwarder.output(&ping);
    assert!(answered.contains("3 sent"), "{answered}");
    wait_for_sessions(&forwarder, 1);
    // One that is interrupted while it waits.
    let mut waiting = forwarder.spawn("waiting", &["ping", "/p", "--transport", &url]);
    waiting.wait_for_output("content from");
    end(&forwarder, waiting);
    end(&forwarder, server);
    forwarder.assert_healthy();
}

#[test]
fn traffic_runs_over_webtransport_sessions() {
    let forwarder = gateway();
    let url = forwarder.webtransport();
    // Long Data take eight datagrams each. Datagrams get lost where nobody has time to read them.
    for (size, count, window) in [("100B", "2000", "32"), ("8000B", "100", "2")] {
        let producer = ["traffic", "producer", "/t", "/u", "--payload", size, "--faces", "2"];
        let producer = [&producer[..], &["--transport", &url]].concat();
        let mut producer = forwarder.spawn("producer", &producer);
        wait_for_route(&forwarder, "/t");
        wait_for_route(&forwarder, "/u");
        wait_for_sessions(&forwarder, 2);
        let consumer = ["traffic", "consumer", "/t", "/u", "--count", count, "--window", window];
        let more = ["--lifetime", "1s", "--transport", &url];
        let figures = forwarder.json(&[&consumer[..], &more].concat());
        let satisfied = figures["patterns"].as_array().unwrap().iter();
        let satisfied: u64 = satisfied.map(|one| one["satisfied"].as_u64().unwrap()).sum();
        assert!(satisfied * 10 >= count.parse::<u64>().unwrap() * 9, "{figures}");
        wait_for_sessions(&forwarder, 2);
        producer.signal(Signal::INT);
        let _ = producer.wait();
        wait_for_sessions(&forwarder, 0);
    }
    forwarder.assert_healthy();
}

/// Where nobody may register over the network, the producer says which setting is in its way, as others do.
#[test]
fn rejected_registration_names_the_setting() {
    let forwarder = Settings::new().webtransport().start();
    let url = forwarder.webtransport();
    let file = forwarder.directory().join("file");
    std::fs::write(&file, "content").unwrap();
    let put = ["put", "/t/object", file.to_str().unwrap(), "--transport", &url];
    for arguments in [&["traffic", "producer", "/t", "--transport", &url][..], &put] {
        let refused = forwarder.run(arguments);
        let text = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(4), "{text}");
        assert!(text.contains("`management.localhop_rib`"), "{text}");
    }
}

/// A face is made with the length that every path takes; lists tell the one that it has since its peer has said that it
/// reads streams. One with an MTU of its own keeps it.
#[test]
fn lists_show_the_current_frame_length() {
    let gateway = Settings::new().webtransport().start();
    let url = gateway.webtransport();
    let other = Settings::new().start();
    let _ = other.output(&["face", "create", &url]);
    let mtu = |forwarder: &Forwarder, scheme: &str| {
        let faces = forwarder.json(&["face", "list"]);
        let is_session = |face: &&Value| face["remote_uri"].as_str().unwrap().starts_with(scheme);
        faces.as_array().unwrap().iter().find(is_session).unwrap()["mtu_bytes"].as_u64().unwrap()
    };
    for (forwarder, scheme) in [(&gateway, "quic://"), (&other, "https://")] {
        wait_until("whole packets", || (mtu(forwarder, scheme) == 8800).then_some(()));
    }
    let listed = other.output(&["nfdc", "face", "list"]);
    let of_session = listed.lines().find(|line| line.contains("https://")).unwrap();
    assert!(of_session.contains("mtu=8800"), "{listed}");
    let short = Settings::new().start();
    let _ = short.output(&["face", "create", &url, "--mtu", "1000B"]);
    assert_eq!(mtu(&short, "https://"), 1000);
    other.assert_healthy();
}
