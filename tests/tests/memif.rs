//! Shared memory: our own applications, and DPDK's driver between two forwarders.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

use namewire_tests::{Forwarder, Process, Settings, noise, skip, skip_unless_found, wait_until};

const OBJECT_BYTES: usize = 10 << 20;
/// Traffic through DPDK, whose two threads poll all the time and take the processors from all others.
const SMALL_BYTES: usize = 256 << 10;
/// As long as DPDK takes them: its field ends with a zero.
const SECRET: &str = "swordfish-swordfish-swo";

fn listening(path: &Path) -> Settings {
    let toml = format!("[listeners.memif]\nenabled = true\npath = {:?}\n", path.to_str().unwrap());
    Settings::new().toml(&toml)
}

/// Publishes a file as `/memif/file` by way of `transport`.
fn serve(forwarder: &Forwarder, transport: &str, bytes: &[u8]) -> Process {
    let directory = forwarder.directory().join("served");
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("file"), bytes).unwrap();
    let served = directory.to_str().unwrap();
    let arguments = ["serve", served, "--prefix", "/memif", "--transport", transport];
    let mut server = forwarder.spawn("server", &arguments);
    server.wait_for_output("serving ");
    server
}

fn fetch(forwarder: &Forwarder, transport: &str) -> Vec<u8> {
    let target = forwarder.directory().join("fetched");
    let to = target.to_str().unwrap();
    let _ = forwarder.output(&["get", "/memif/file", "-o", to, "--transport", transport]);
    std::fs::read(target).unwrap()
}

fn remotes(forwarder: &Forwarder) -> Vec<(String, String)> {
    let faces = forwarder.json(&["face", "list"]);
    let text = |face: &serde_json::Value, key: &str| face[key].as_str().unwrap().to_owned();
    let faces = faces.as_array().unwrap().iter();
    faces.map(|face| (text(face, "remote_uri"), text(face, "scope"))).collect()
}

#[test]
fn files_are_fetched_over_shared_memory() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memif.sock");
    let forwarder = listening(&path).start();
    let bytes = noise(4, OBJECT_BYTES);
    let transport = format!("memif://{}", path.display());
    let serving = serve(&forwarder, &format!("{transport}/7"), &bytes);
    let face = (format!("{transport}/7"), "local".to_owned());
    assert!(remotes(&forwarder).contains(&face), "{:?}", remotes(&forwarder));
    assert!(fetch(&forwarder, &transport) == bytes, "the file is another one");
    // The interface is in use.
    let seventh = ["get", "/memif/file", "-o", "/dev/null", "--transport", &face.0];
    assert!(!forwarder.run(&seventh).status.success());
    drop(serving);
    wait_until("the end of the face", || (!remotes(&forwarder).contains(&face)).then_some(()));
    forwarder.assert_healthy();
}

#[test]
fn operator_creates_a_memif_face() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memif.sock");
    let listener = listening(&path).start();
    let other = Settings::new().start();
    let face = (format!("memif://{}/3", path.display()), "non-local".to_owned());
    let _ = other.output(&["face", "create", &face.0]);
    wait_until("both ends", || {
        let is_there = remotes(&listener).iter().any(|(uri, _)| *uri == face.0);
        (is_there && remotes(&other).contains(&face)).then_some(())
    });
    other.assert_healthy();
    listener.assert_healthy();
}

#[test]
fn traffic_is_made_over_shared_memory() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memif.sock");
    let forwarder = listening(&path).start();
    let transport = format!("memif://{}", path.display());
    let producer = ["traffic", "producer", "/t", "--transport", &transport];
    let mut producer = forwarder.spawn("producer", &producer);
    wait_until("a route", || forwarder.output(&["route", "list"]).contains("/t").then_some(()));
    let consumer = ["traffic", "consumer", "/t", "--count", "2000", "--transport", &transport];
    let figures = forwarder.json(&consumer);
    assert!(producer.is_running(), "{figures}");
    forwarder.assert_healthy();
}

/// A processor that this thread may run on.
fn first_cpu() -> String {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let first = list.unwrap().trim().split([',', '-']).next();
    first.unwrap().to_owned()
}

/// Two ports that pass packets to each other: one is a client of `server`, the other one is the
/// server `own`. Both have the secret.
fn testpmd(server: &Path, own: &Path, secret: &str, directory: &Path) -> Process {
    let port = |number: u8, role: &str, path: &Path| {
        let path = path.display();
        format!(
            "--vdev=net_memif{number},role={role},id=0,socket={path},socket-abstract=no,secret={secret}"
        )
    };
    let mut command = Command::new("dpdk-testpmd");
    command.args(["--no-huge", "-m", "256", "--no-pci", "--no-shconf", "--no-telemetry"]);
    command.arg(format!("--file-prefix=namewire{}", std::process::id()));
    // One thread beside the main one, on a processor that this one may use.
    command
        .arg(format!("--lcores=(0,1)@{}", first_cpu()))
        .arg(port(0, "client", server))
        .arg(port(1, "server", own));
    command.args(["--", "--forward-mode=io", "--disable-link-check", "--stats-period=5"]);
    command.args(["--total-num-mbufs=8192", "--rxd=512", "--txd=512"]);
    Process::start("testpmd", command, directory)
}

/// Why the face to `remote` is down.
fn refusal(forwarder: &Forwarder, remote: &str) -> String {
    let down = &forwarder.json(&["status"])["down_faces"];
    let faces = down.as_array().unwrap().iter();
    let found = faces.filter(|face| face["remote_uri"] == remote);
    found.map(|face| face["reason"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn file_is_fetched_through_dpdk() {
    if !skip_unless_found("dpdk-testpmd") {
        return;
    }
    // Each segment takes four buffers: as many fragments, or one frame in them. There are frames of the fetcher, too.
    let least = SMALL_BYTES.div_ceil(8000) as u64;
    let Some(fragments) = frames_through_dpdk("") else { return };
    assert!(fragments > 4 * least, "{fragments}");
    let Some(frames) = frames_through_dpdk("chains = true\n") else { return };
    assert!((least..4 * least).contains(&frames), "{frames}, and {fragments} fragments");
}

/// Frames that the workers have received, on all faces.
fn received_frames(forwarder: &Forwarder) -> u64 {
    let status = forwarder.json(&["status"]);
    let workers = status["workers"].as_array().unwrap().iter();
    workers.map(|worker| worker["received_frames"].as_u64().unwrap()).sum()
}

/// Number of frames in which a file arrives through DPDK, with these settings of memif at both ends.
fn frames_through_dpdk(settings: &str) -> Option<u64> {
    let directory = tempfile::tempdir().unwrap();
    let [first, second] = ["first", "second"].map(|name| directory.path().join(name));
    let secret = |socket: &Path, secret: &str| {
        format!("[[memif_secrets]]\nsocket = {:?}\nsecret = {secret:?}\n", socket.to_str().unwrap())
    };
    let producing = listening(&first).toml(settings).toml(&secret(&first, SECRET)).start();
    let bytes = noise(5, SMALL_BYTES);
    let _serving = serve(&producing, &producing.unix(), &bytes);
    let mut testpmd = testpmd(&first, &second, SECRET, directory.path());
    let mut is_refused = false;
    wait_until("a client of ours and a server", || {
        if !testpmd.is_running() {
            // Where DPDK cannot even begin, there is nothing to be learnt of us.
            is_refused = testpmd.stderr().contains("Cannot init EAL");
            assert!(is_refused, "{}{}", testpmd.stdout(), testpmd.stderr());
            return Some(());
        }
        let remote = format!("memif://{}/0", first.display());
        let is_connected = remotes(&producing).iter().any(|(uri, _)| *uri == remote);
        (is_connected && second.exists()).then_some(())
    });
    if is_refused {
        skip("dpdk-testpmd", &format!("it cannot start here: {}", testpmd.stderr()));
        return None;
    }
    let remote = format!("memif://{}/0", second.display());
    let toml = format!(
        "[listeners.memif]\n{settings}[[static_routes]]\nprefix = \"/memif\"\nface = {remote:?}\n"
    );
    // DPDK says why it does not want us.
    for (printed, answer) in [("", "Secret required"), ("swordfisch", "Incorrect secret")] {
        let wrong = if printed.is_empty() { String::new() } else { secret(&second, printed) };
        let forwarder = Settings::new().toml(&toml).toml(&wrong).start();
        wait_until("a refusal by DPDK", || {
            refusal(&forwarder, &remote).contains(answer).then_some(())
        });
    }
    let consuming = Settings::new().toml(&toml).toml(&secret(&second, SECRET)).start();
    let face = (remote, "non-local".to_owned());
    wait_until("our face as a client", || remotes(&consuming).contains(&face).then_some(()));
    let before = received_frames(&consuming);
    assert!(fetch(&consuming, &consuming.unix()) == bytes, "the file is another one");
    let frames = received_frames(&consuming) - before;
    producing.assert_healthy();
    consuming.assert_healthy();
    Some(frames)
}
