//! Links that lose and reorder, or go down.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;

use namewire_tests::{Settings, Topology, bench_program, noise, wait_until};
use rustix::process::Signal;

#[test]
fn file_is_fetched_over_a_lossy_reordering_link() {
    let [near, far] = [(); 2].map(|()| Settings::new().udp().start());
    let served = far.directory().join("served");
    fs::create_dir(&served).unwrap();
    let content = noise(1, 1_000_001);
    fs::write(served.join("file"), &content).unwrap();
    let directory = served.display().to_string();
    let mut server = far.spawn("server", &["serve", &directory, "--prefix", "/files"]);
    server.wait_for_output("serving ");

    let to = format!("127.0.0.1:{}", far.port());
    bench_program();
    let mut link = near.spawn(
        "link",
        &[
            &["bench", "link", "--listen", "127.0.0.1:0", "--to", &to][..],
            &["--rate", "100Mbit", "--delay", "2ms", "--loss", "3%", "--seed", "7"],
            &["--reorder", "5%", "--reorder-delay", "3ms", "--duplicate", "3%", "--json"],
        ]
        .concat(),
    );
    // The last line of the first value.
    link.wait_for_output("}");
    let end = values(&link.stdout())[0]["from"].as_str().unwrap().to_owned();

    let _ = near.output(&["nfdc", "route", "add", "/files", &format!("udp4://{end}")]);
    // Once by way of a forwarder, and once by UDP alone.
    let udp = format!("udp://{end}");
    for (name, arguments) in [("forwarded", vec![]), ("direct", vec!["--transport", &udp])] {
        let out = near.directory().join(name);
        let path = out.display().to_string();
        let get = ["get", "/files/file", "-o", &path, "--quiet"];
        let fetched = near.run(&[&get[..], &arguments].concat());
        assert!(fetched.status.success(), "{}", String::from_utf8_lossy(&fetched.stderr));
        assert!(fs::read(out).unwrap() == content, "{name}");
    }

    link.signal(Signal::INT);
    assert!(link.wait().success());
    let report = values(&link.stdout()).pop().unwrap();
    for way in ["there", "back"] {
        let count = |key: &str| report[way][key].as_u64().unwrap();
        // The same seed does the same to the first hundred or so, however many there are.
        assert!(count("sent") > 100 && count("lost") > 0 && count("duplicated") > 0, "{report}");
    }
    assert!(report["back"]["arrived_bytes"].as_u64() >= Some(1_000_001), "{report}");
}

/// The JSON values in what was printed.
fn values(printed: &str) -> Vec<serde_json::Value> {
    serde_json::Deserializer::from_str(printed).into_iter().map(Result::unwrap).collect()
}

#[test]
fn udp_face_has_the_mtu_of_its_path_while_its_link_is_down_and_after_it_came_back() {
    let Some(mut topology) = Topology::new(&["a", "b"], &[("a", "b")]) else { return };
    topology.start_forwarder("a", "");
    let log = topology.directory().join("a.stderr");
    let logged = |text: &str, face_id: u64| {
        let log = fs::read_to_string(&log).unwrap();
        let is_of_face = |line: &&str| line.contains(&format!("face_id={face_id}"));
        log.lines().filter(is_of_face).any(|line| line.contains(text))
    };
    let mtu = |topology: &Topology, face_id: u64| {
        topology.face("a", face_id).and_then(|face| face["mtu_bytes"].as_u64())
    };
    let face_id = topology.create_face("a", "udp4", "b");
    // IP and UDP headers take 28 of 1,500 bytes.
    assert_eq!(mtu(&topology, face_id), Some(1472));
    topology.set_link("a", "b", "down");
    wait_until("the face to be down", || logged("face down", face_id).then_some(()));
    assert_eq!(mtu(&topology, face_id), Some(1472));
    topology.set_link("a", "b", "up");
    wait_until("the face to be up", || logged("face up", face_id).then_some(()));
    assert_eq!(mtu(&topology, face_id), Some(1472));
}
