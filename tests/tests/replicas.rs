//! `namewire get` of one file from several servers.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::PathBuf;

use namewire_tests::{Forwarder, Process, Settings, noise, wait_until};
use rustix::process::Signal;
use serde_json::Value;

const FILE_BYTES: usize = 96 * 1024 * 1024 + 77;

struct Bed {
    forwarder: Forwarder,
    content: Vec<u8>,
}

impl Bed {
    fn new() -> Self {
        Self { forwarder: Settings::new().start(), content: noise(1, FILE_BYTES) }
    }

    /// Serves this content as `/NAME/file`.
    fn serve(&self, name: &str, content: &[u8], arguments: &[&str]) -> Process {
        let directory = self.forwarder.directory().join(name);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("file"), content).unwrap();
        let (directory, prefix) = (directory.display().to_string(), format!("/{name}"));
        let fixed = ["serve", directory.as_str(), "--prefix", prefix.as_str()];
        let mut server = self.forwarder.spawn(name, &[&fixed, arguments].concat());
        server.wait_for_output("serving ");
        server
    }

    fn out(&self) -> PathBuf {
        self.forwarder.directory().join("out")
    }

    fn get(&self, arguments: &[&str]) -> Process {
        let out = self.out().display().to_string();
        let fixed = ["get", "/first/file", "-o", out.as_str(), "--json"];
        self.forwarder.spawn("get", &[&fixed, arguments].concat())
    }

    fn assert_whole(&self, get: &mut Process) -> Value {
        assert!(get.wait().success(), "{}", get.everything());
        assert!(fs::read(self.out()).unwrap() == self.content);
        serde_json::from_str(&get.stdout()).unwrap()
    }
}

fn replica<'a>(report: &'a Value, name: &str) -> &'a Value {
    let replicas = report["replicas"].as_array().unwrap().iter();
    let is_it = |replica: &&Value| replica["name"].as_str().unwrap().starts_with(name);
    replicas.clone().find(is_it).unwrap_or_else(|| panic!("{report}"))
}

#[test]
fn file_comes_from_all_replicas_of_the_catalogue() {
    let bed = Bed::new();
    let catalogue = ["--catalogue", "--replica", "/second", "--replica", "/none"];
    let _first = bed.serve("first", &bed.content, &catalogue);
    let _second = bed.serve("second", &bed.content, &[]);
    wait_until("the catalogue", || {
        bed.forwarder.run(&["find", "/first"]).status.success().then_some(())
    });
    let mut get = bed.get(&["--catalogue", "/first", "--lifetime", "500ms"]);
    let report = bed.assert_whole(&mut get);
    for name in ["/first", "/second/file"] {
        let replica = replica(&report, name);
        assert!(replica["segments"].as_u64().unwrap() > 0 && replica["left"].is_null(), "{report}");
    }
    assert_eq!(replica(&report, "/none/file")["segments"], 0, "{report}");
}

#[test]
fn lying_replica_is_named_and_stopped_one_is_left() {
    let bed = Bed::new();
    let mut wrong = bed.content.clone();
    wrong[50_000] ^= 1;
    wrong[FILE_BYTES - 50_000] ^= 1;
    (0..FILE_BYTES).step_by(1 << 20).for_each(|at| wrong[at] ^= 1);
    let _first = bed.serve("first", &bed.content, &[]);
    let _liar = bed.serve("liar", &wrong, &[]);
    let stopped = bed.serve("stopped", &bed.content, &[]);
    let mut get = bed.get(&[
        "--replica",
        "/liar/file",
        "--replica",
        "/stopped/file",
        "--replica-timeout",
        "1s",
        // The others need longer than the time for which one may be silent.
        "--window",
        "1",
    ]);
    wait_until("some of the file", || {
        let parts = fs::read_dir(bed.forwarder.directory()).unwrap().flatten();
        let part = parts.into_iter().find(|entry| entry.file_name() == ".out.part")?;
        (part.metadata().ok()?.len() > 0).then_some(())
    });
    stopped.signal(Signal::STOP);
    let report = bed.assert_whole(&mut get);
    let liar = replica(&report, "/liar/file");
    let reason = liar["left"].as_str().unwrap();
    assert!(reason.contains("is not the one that the manifest lists"), "{report}");
    assert!(get.stderr().contains("replica /liar/file was left"), "{}", get.stderr());
    assert_eq!(replica(&report, "/stopped/file")["left"], "no answer for 1 s", "{report}");
    stopped.signal(Signal::CONT);
}

#[test]
fn replicas_are_refused_where_they_cannot_be_used() {
    let bed = Bed::new();
    let _first = bed.serve("first", b"content", &["--sign-segments"]);
    for (arguments, expected) in [
        (&["get", "/first/file", "-o", "-", "--replica", "/x"][..], "the output is a file"),
        (&["get", "/first/file", "--replica", "/x"], "--output"),
        (&["get", "/first/file", "-o", "out", "--catalogue", "/other"], "is not below /other"),
        (&["get", "/first/file", "-o", "out", "--replica", "/x"], "has no manifest"),
    ] {
        let mut command = bed.forwarder.command(arguments);
        command.current_dir(bed.forwarder.directory());
        let output = namewire_tests::run_to_end(command);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {complaint}");
        assert!(complaint.contains(expected), "{arguments:?}: {complaint}");
    }
}
