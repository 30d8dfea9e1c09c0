//! Where files cannot be written, or not to their ends: the error says so, and nothing wrong appears.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::process::{Command, Output};

use namewire_tests::{Forwarder, Process, Settings, noise, program, run_to_end, skip};

/// Larger than the file system that it is to go to.
const FILE_BYTES: usize = 6 << 20;

/// Mounts a small file system in memory, fetches into it with the arguments behind the first two, and
/// says what is there then.
const SCRIPT: &str = r#"
mount -t tmpfs -o "$1" tmpfs "$2" || exit 77
directory=$2
shift 2
"$@"
status=$?
ls -A "$directory"
exit $status
"#;

struct Bed {
    forwarder: Forwarder,
    _server: Process,
    key: String,
}

impl Bed {
    fn new() -> Self {
        let forwarder = Settings::new().start();
        let served = forwarder.directory().join("served");
        fs::create_dir(&served).unwrap();
        fs::create_dir(forwarder.directory().join("small")).unwrap();
        fs::write(served.join("file"), noise(9, FILE_BYTES)).unwrap();
        let key = forwarder.directory().join("key");
        let private = ndn_security::PrivateKey::generate(ndn_security::KeyType::Ecdsa).unwrap();
        fs::write(&key, private.to_pem().unwrap()).unwrap();
        let key = key.display().to_string();
        let served = served.display().to_string();
        let arguments = ["serve", &served, "--prefix", "/files", "--sign", &key];
        let mut server = forwarder.spawn("server", &arguments);
        server.wait_for_output("serving ");
        Self { forwarder, _server: server, key }
    }

    /// Fetches the file into a file system that was mounted with these options; `None` where nobody
    /// may mount one.
    fn get_into(&self, options: &str, object: &str, verify: &str) -> Option<Output> {
        self.get_as(options, object, verify, "out", &["--quiet"])
    }

    /// As [`Self::get_into`], with this path of the output there, and these arguments.
    fn get_as(
        &self,
        options: &str,
        object: &str,
        verify: &str,
        out: &str,
        more: &[&str],
    ) -> Option<Output> {
        let small = self.forwarder.directory().join("small");
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", SCRIPT, "sh", options]);
        command.arg(&small).arg(program()).args(["get", object]).args(more);
        command.args(["--verify", verify, "-o"]).arg(small.join(out));
        command.env("NDN_CLIENT_TRANSPORT", self.forwarder.unix());
        let output = run_to_end(command);
        let printed = String::from_utf8_lossy(&output.stderr);
        if output.status.code() == Some(77) || printed.contains("unshare") {
            skip("mounts", &printed);
            return None;
        }
        Some(output)
    }
}

fn printed(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn file_larger_than_the_disk_is_rejected_before_the_fetch() {
    let bed = Bed::new();
    let Some(output) = bed.get_into("size=2m", "/files/file", &bed.key) else { return };
    let (there, complaint) = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{complaint}");
    assert!(complaint.contains("6.0 MiB are needed"), "{complaint}");
    assert_eq!(there, "");
}

#[test]
fn full_disk_is_reported_and_received_segments_are_kept() {
    let bed = Bed::new();
    // The length of what `put` publishes is not known in advance.
    let file = bed.forwarder.directory().join("served/file").display().to_string();
    let mut put = bed.forwarder.spawn("put", &["put", "/object", &file]);
    put.wait_for_output("published");
    let Some(output) = bed.get_into("size=2m", "/object", "digest") else { return };
    let (there, complaint) = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{complaint}");
    assert!(complaint.contains("No space left"), "{complaint}");
    // The file system has no room for the description of a part either.
    let is_part = |name: &str| name.starts_with(".out.part");
    assert!(there.lines().all(is_part), "{there}");
}

#[test]
fn target_that_cannot_be_written_is_reported() {
    let bed = Bed::new();
    let get =
        |path: &str| bed.forwarder.run(&["get", "/files/file", "--verify", &bed.key, "-o", path]);
    let output = get("/proc/self/out");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let (_, complaint) = printed(&output);
    assert!(complaint.contains("no files can be made in /proc/self"), "{complaint}");
    let Some(output) = bed.get_into("size=20m,ro", "/files/file", &bed.key) else { return };
    let (there, complaint) = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{complaint}");
    assert!(complaint.contains("Read-only file system"), "{complaint}");
    assert_eq!(there, "");
}

#[test]
fn directory_that_cannot_be_written_to_is_reported_once() {
    let bed = Bed::new();
    let served = bed.forwarder.directory().join("served");
    fs::create_dir(served.join("sub")).unwrap();
    (0..3).for_each(|number| fs::write(served.join(format!("sub/{number}")), "content").unwrap());
    let recursive = ["--recursive"];
    let Some(output) = bed.get_as("size=20m,ro", "/files", &bed.key, "", &recursive) else {
        return;
    };
    let (there, complaint) = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{complaint}");
    let reason = "small/: Read-only file system; 2 entries in it are left as they are\n";
    assert!(complaint.contains(reason), "{complaint}");
    assert_eq!(complaint.matches("namewire: ").count(), 1, "{complaint}");
    assert!(complaint.contains("0 files, 1 failed, 0 B in "), "{complaint}");
    assert_eq!(there, "");
}
