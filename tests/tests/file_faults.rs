//! Transfers that something happens to: no wrong byte ever under the final name.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;

use namewire_tests::{
    Application, Endpoint, Forwarder, Held, Process, Settings, noise, program, wait_until,
    with_version,
};
use ndn_files::FileMetadata;
use ndn_management::{ControlParameters, Verb};
use rustix::process::Signal;
use serde_json::Value;

const NO_CACHE: &str = "[tables.cs]\nadmit = false\nserve = false";
const FILE_BYTES: usize = 48 << 20;
const SEGMENT_BYTES: usize = 8192;
const MEBIBYTE: u64 = 1 << 20;

/// A server of one large file that signs a manifest, and a fetcher.
struct Bed<F = Forwarder> {
    server: Option<Process>,
    forwarder: F,
    file: PathBuf,
    out: PathBuf,
    part: PathBuf,
    key: String,
    content: Vec<u8>,
}

impl Bed {
    /// Nothing is cached, so that every packet comes from the server.
    fn new() -> Self {
        Self::with(Settings::new().toml(NO_CACHE).start())
    }
}

impl<F: Deref<Target = Endpoint>> Bed<F> {
    fn with(forwarder: F) -> Self {
        let served = forwarder.directory().join("served");
        fs::create_dir(&served).unwrap();
        let (file, content) = (served.join("file"), noise(5, FILE_BYTES));
        fs::write(&file, &content).unwrap();
        let key = forwarder.directory().join("key");
        let private = ndn_security::PrivateKey::generate(ndn_security::KeyType::Ecdsa).unwrap();
        fs::write(&key, private.to_pem().unwrap()).unwrap();
        let key = key.display().to_string();
        let out = forwarder.directory().join("out");
        let part = forwarder.directory().join(".out.part");
        let mut bed = Self { server: None, forwarder, file, out, part, key, content };
        bed.start_server("server", &[]);
        bed
    }

    fn start_server(&mut self, name: &str, more: &[&str]) {
        let directory = self.file.parent().unwrap().display().to_string();
        let arguments = ["serve", &directory, "--prefix", "/files", "--sign", &self.key];
        let mut server = self.forwarder.spawn(name, &[&arguments, more].concat());
        server.wait_for_output("serving ");
        self.server = Some(server);
    }

    fn get(&self, name: &str, more: &[&str]) -> Process {
        let out = self.out.display().to_string();
        let arguments = ["get", "/files/file", "-o", &out, "--quiet", "--verify", &self.key];
        self.forwarder.spawn(name, &[&arguments, more].concat())
    }

    /// Data that the forwarder has received.
    fn packets(&self) -> u64 {
        self.forwarder.json(&["status"])["counters"]["in_data"].as_u64().unwrap()
    }

    /// Holds the last segment of the file: no fetch is complete.
    fn hold_end(&self) -> Held {
        let mut held = Held::nothing(&self.forwarder);
        held.add_segment("/files/file", &self.file, FILE_BYTES / SEGMENT_BYTES - 1);
        held
    }

    /// Waits until about this number of bytes have come since there were `before` packets, or all but the end.
    fn wait_for_data(&self, before: u64, bytes: u64, held: &mut Held) {
        let enough = before + bytes / SEGMENT_BYTES as u64;
        wait_until("a part of the file", || {
            (self.packets() >= enough || held.is_requested()).then_some(())
        });
    }

    fn assert_completes(&self) {
        assert!(!self.out.exists());
        assert!(self.get("last", &[]).wait().success());
        assert!(fs::read(&self.out).unwrap() == self.content);
        assert!(!self.part.exists());
    }
}

/// Waits until a fetcher has written down that it has a part of the file, verified: packets come before
/// it knows by which manifest.
fn wait_for_part(out: &Path) {
    let name = out.file_name().unwrap().to_str().unwrap();
    let sidecar = out.with_file_name(format!(".{name}.part.json"));
    wait_until("a part of the file", || sidecar.exists().then_some(()));
}

#[test]
fn killed_fetch_leaves_no_wrong_content() {
    let bed = Bed::new();
    let mut held = bed.hold_end();
    for (round, signal) in
        [Signal::KILL, Signal::INT, Signal::KILL, Signal::TERM].into_iter().enumerate()
    {
        let before = bed.packets();
        let mut fetcher = bed.get(&format!("killed-{round}"), &["--window", "1"]);
        bed.wait_for_data(before, MEBIBYTE * (1 + u64::try_from(round).unwrap()), &mut held);
        fetcher.signal(signal);
        assert!(!fetcher.wait().success());
        assert!(!bed.out.exists());
    }
    drop(held);
    bed.assert_completes();
}

#[test]
fn fetch_killed_at_any_time_leaves_no_wrong_content() {
    let bed = Bed::new();
    let mut seed = 1_u64;
    for round in 0..50 {
        let mut fetcher = bed.get(&format!("killed-{round}"), &["--window", "8"]);
        // Any moment will do: before the first packet, in the middle, at the end.
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(std::time::Duration::from_millis(seed >> 57));
        fetcher.signal(Signal::KILL);
        fetcher.wait();
        if bed.out.exists() {
            assert!(fs::read(&bed.out).unwrap() == bed.content, "round {round}");
            fs::remove_file(&bed.out).unwrap();
        }
    }
    bed.assert_completes();
}

#[test]
fn interrupted_fetch_of_a_tree_is_resumed() {
    let bed = Bed::new();
    let tree = bed.forwarder.directory().join("tree");
    let tree = tree.to_str().unwrap();
    let get = ["get", "/files", "--recursive", "-o", tree, "--verify", &bed.key];
    let held = bed.hold_end();
    let mut fetcher = bed.forwarder.spawn("interrupted", &[&get[..], &["--window", "1"]].concat());
    wait_for_part(&Path::new(tree).join("file"));
    fetcher.signal(Signal::INT);
    assert_eq!(fetcher.wait().code(), Some(130), "{}", fetcher.everything());
    let messages = fetcher.stderr();
    let (_, consequence) = messages.split_once("namewire: interrupted\n").expect(&messages);
    assert!(consequence.contains("are kept"), "{messages}");
    drop(held);
    let report = bed.forwarder.json(&get);
    let fetched = report["bytes"].as_u64().unwrap();
    assert!(fetched > 0 && fetched < u64::try_from(FILE_BYTES).unwrap(), "{report}");
    assert!(fs::read(format!("{tree}/file")).unwrap() == bed.content);
}

#[test]
fn versions_of_a_file_rewritten_during_a_fetch_are_not_mixed() {
    let mut bed = Bed::new();
    let held = bed.hold_end();
    let mut fetcher = bed.get("rewritten", &["--window", "1"]);
    wait_for_part(&bed.out);
    bed.content = noise(6, FILE_BYTES);
    fs::write(&bed.file, &bed.content).unwrap();
    drop(held);
    assert_eq!(fetcher.wait().code(), Some(1), "{}", fetcher.everything());
    let messages = fetcher.stderr();
    assert!(messages.contains(" is not served any more: the present version is v="), "{messages}");
    assert!(!messages.contains("to resume"), "{messages}");
    assert!(messages.contains(" of this version are kept in "), "{messages}");
    bed.assert_completes();
}

#[test]
fn fetch_of_a_deleted_file_ends() {
    let bed = Bed::new();
    let held = bed.hold_end();
    let mut fetcher = bed.get("deleted", &["--window", "1"]);
    wait_for_part(&bed.out);
    let moved = bed.file.with_file_name("moved");
    fs::rename(&bed.file, &moved).unwrap();
    drop(held);
    // All attempts of a segment take 64 s, longer than this waits.
    assert_eq!(fetcher.wait().code(), Some(1), "{}", fetcher.everything());
    let reported = fetcher.stderr();
    assert!(reported.contains("/files/file is not there any more: its server"), "{reported}");
    assert!(!reported.contains("resume"), "{reported}");
    assert!(reported.contains(" of this version are kept in "), "{reported}");
    // The same version, whose part is resumed.
    fs::rename(&moved, &bed.file).unwrap();
    bed.assert_completes();
}

#[test]
fn fetch_from_replicas_ends_when_all_are_deleted() {
    let bed = Bed::new();
    let twin = bed.file.with_file_name("twin");
    fs::copy(&bed.file, &twin).unwrap();
    let mut held = bed.hold_end();
    held.add_segment("/files/twin", &twin, FILE_BYTES / SEGMENT_BYTES - 1);
    let mut fetcher = bed.get("replicas", &["--window", "1", "--replica", "/files/twin"]);
    wait_for_part(&bed.out);
    for file in [&bed.file, &twin] {
        fs::rename(file, file.with_extension("moved")).unwrap();
    }
    drop(held);
    assert_eq!(fetcher.wait().code(), Some(1), "{}", fetcher.everything());
    let reported = fetcher.stderr();
    assert!(reported.contains("/files/file is not there any more: its server"), "{reported}");
}

#[test]
fn fetch_waits_for_a_restarted_server() {
    let mut bed = Bed::new();
    let (before, mut held) = (bed.packets(), bed.hold_end());
    let mut fetcher = bed.get("patient", &["--window", "4"]);
    bed.wait_for_data(before, MEBIBYTE, &mut held);
    let mut server = bed.server.take().unwrap();
    server.signal(Signal::KILL);
    server.wait();
    drop(held);
    bed.start_server("server-again", &[]);
    assert!(fetcher.wait().success(), "{}", fetcher.everything());
    assert!(fs::read(&bed.out).unwrap() == bed.content);
}

#[test]
fn fetch_waits_for_a_restarted_forwarder() {
    let mut bed = Bed::with(Settings::new().toml(NO_CACHE).start_program());
    let (before, mut held) = (bed.packets(), bed.hold_end());
    let mut fetcher = bed.get("waiting", &["--window", "4"]);
    bed.wait_for_data(before, MEBIBYTE, &mut held);
    bed.forwarder.process.signal(Signal::KILL);
    bed.forwarder.process.wait();
    let directory = bed.forwarder.directory().to_owned();
    let mut command = Command::new(program());
    command.arg("run").arg("--config").arg(directory.join("namewire.toml"));
    bed.forwarder.process = Process::start("forwarder-again", command, &directory);
    bed.forwarder.process.wait_for_output("NDN_CLIENT_TRANSPORT=");
    // That there is no route until the server is back ends nothing.
    assert!(fetcher.wait().success(), "{}", fetcher.everything());
    assert!(fs::read(&bed.out).unwrap() == bed.content);
    let server = bed.server.as_ref().unwrap().stderr();
    assert!(server.contains("is lost; reconnecting") && server.contains("is back"), "{server}");
}

/// Leaves what `answer` sends for a segment in the cache, fresh for long.
fn leave_in_cache(bed: &Bed, segment: u64, answer: impl FnOnce(&mut Application, &str)) {
    let uri = format!("{}/seg={segment}", with_version("/files/file", &bed.file));
    let mut liar = Application::attach(bed.forwarder.socket());
    // With CAPTURE the server, which has the shorter prefix, is not asked.
    liar.register(&uri, 2);
    let mut everyone = Application::attach(bed.forwarder.socket());
    everyone.express(&uri, 1);
    liar.expect_interest(&uri);
    answer(&mut liar, &uri);
    everyone.expect_data(&uri);
    // Then it is gone, and what it said stays.
    let name = Some(namewire_tests::wire::name(&uri));
    let parameters = ControlParameters { name, ..ControlParameters::default() };
    assert_eq!(liar.command("/localhost/nfd", Verb::RibUnregister, &parameters), 200);
}

/// Fetches the file past what `answer` leaves in the cache for a segment.
fn fetch_past(segment: u64, answer: impl FnOnce(&mut Application, &str)) -> Value {
    let bed = Bed::with(Settings::new().start());
    leave_in_cache(&bed, segment, answer);
    let out = bed.out.display().to_string();
    let report =
        bed.forwarder.json(&["get", "/files/file", "-o", &out, "--quiet", "--verify", &bed.key]);
    assert!(fs::read(&bed.out).unwrap() == bed.content);
    report
}

#[test]
fn wrong_packet_in_a_cache_is_bypassed() {
    let report =
        fetch_past(7, |liar, uri| liar.answer(uri, &[0x5a; SEGMENT_BYTES], Some(3_600_000)));
    assert_eq!(report["refused"], 1, "{report}");
}

/// Also by a consumer that asks for segments before the manifest, which has their digests, has come.
#[test]
fn false_nack_in_a_cache_is_bypassed() {
    fetch_past(0, |liar, uri| liar.answer_nack(uri, 3_600_000));
}

/// Without digests, a wrong packet in a cache cannot be bypassed.
#[test]
fn lack_of_a_manifest_is_named_as_the_cause() {
    let mut bed = Bed::with(Settings::new().start());
    bed.server = None;
    bed.start_server("without-manifests", &["--sign-segments"]);
    leave_in_cache(&bed, 7, |liar, uri| liar.answer(uri, &[0x5a; SEGMENT_BYTES], Some(3_600_000)));
    let mut fetcher = bed.get("refused", &[]);
    assert_eq!(fetcher.wait().code(), Some(5), "{}", fetcher.everything());
    let reported = fetcher.stderr();
    assert!(
        reported.contains("the server offers no manifest for this file, so that"),
        "{reported}"
    );
    assert!(!bed.out.exists());
}

#[test]
fn preparation_of_a_manifest_is_reported() {
    let forwarder = Settings::new().start();
    let mut server = Application::attach(forwarder.socket());
    server.register("/y", 1);
    let out = forwarder.directory().join("out").display().to_string();
    let get = ["get", "/y/file", "-o", &out, "--replica", "/z/file"];
    let fetcher = forwarder.spawn("get", &get);
    let (uri, _) = server.receive_interest();
    let metadata = FileMetadata {
        name: namewire_tests::wire::name("/y/file/v=7"),
        final_segment: Some(9),
        segment_size: Some(1000),
        size: Some(10_000),
        mode: 0o100_644,
        manifest: Some(namewire_tests::wire::name("/y/file/v=7/manifest")),
        preparation_ms: Some(9_000),
        ..FileMetadata::default()
    };
    server.answer(&format!("{uri}/v=1/seg=0"), &metadata.encode(), Some(1));
    wait_until("the message", || {
        let expected = "the server prepares the manifest of /y/file/v=7: ready in about 9 s";
        fetcher.stderr().contains(expected).then_some(())
    });
}
