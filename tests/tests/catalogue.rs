//! `namewire serve --catalogue` and `namewire find`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use namewire_tests::{Forwarder, Process, Settings, noise, wait_until};
use serde_json::Value;

struct Bed {
    server: Option<Process>,
    forwarder: Forwarder,
    served: PathBuf,
}

impl Bed {
    fn new() -> Self {
        let forwarder = Settings::new().start();
        let served = forwarder.directory().join("served");
        fs::create_dir_all(served.join("in-2026")).unwrap();
        let bed = Self { server: None, forwarder, served };
        bed.write("in-2026/run-1.root", &noise(1, 100_000));
        bed.write(
            "in-2026/run-1.root.meta.json",
            br#"{"run": 1, "detector": "CMS", "good": true}"#,
        );
        bed.write("in-2026/run-2.root", &noise(2, 2_000_000));
        bed.write("in-2026/run-2.root.meta.json", br#"{"run": 20, "detector": "CMS"}"#);
        bed.write("readme", b"read me");
        bed.write("readme.meta.json", b"{\"no\": [\"metadata\"]}");
        bed
    }

    /// Writes a file that was finished an hour ago: files that were changed just now are hashed later.
    #[expect(clippy::disallowed_methods, reason = "times of files are those of the real clock")]
    fn write(&self, path: &str, content: &[u8]) {
        let path = self.served.join(path);
        fs::write(&path, content).unwrap();
        let hour = Duration::from_secs(3600);
        fs::File::open(&path).unwrap().set_modified(SystemTime::now() - hour).unwrap();
    }

    fn serve(&mut self, arguments: &[&str]) {
        self.server = None;
        let directory = self.served.display().to_string();
        let fixed = ["serve", directory.as_str(), "--prefix", "/files", "--catalogue"];
        let mut server = self.forwarder.spawn("server", &[&fixed, arguments].concat());
        server.wait_for_output("serving ");
        self.server = Some(server);
    }

    fn find(&self, arguments: &[&str]) -> Value {
        self.forwarder.json(&[&["find", "/files"], arguments].concat())
    }

    /// The catalogue when all files have digests.
    fn complete(&self) -> Value {
        wait_until("all digests", || {
            let output = self.forwarder.run(&["find", "/files", "--json"]);
            let found: Value = serde_json::from_slice(&output.stdout).ok()?;
            let files = found["files"].as_array()?;
            (files.len() >= 3 && files.iter().all(|file| file["sha256"].is_string()))
                .then_some(found)
        })
    }
}

fn names(found: &Value) -> Vec<String> {
    let files = found["files"].as_array().unwrap().iter();
    files.map(|file| file["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn catalogue_is_published_and_searched() {
    let mut bed = Bed::new();
    bed.serve(&["--replica", "/mirror/files"]);
    let found = bed.complete();
    // Sorted as people expect it, not in the canonical order of names.
    assert_eq!(
        names(&found),
        ["/files/in-2026/run-1.root", "/files/in-2026/run-2.root", "/files/readme"]
    );
    assert_eq!(found["replicas"], serde_json::json!(["/mirror/files"]));
    assert_eq!(found["searched"], 3);
    let readme = found["files"].as_array().unwrap().iter().find(|file| file["bytes"] == 7).unwrap();
    let digest = ndn_security::sha256(b"read me");
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(readme["sha256"], digest);
    // A version of the catalogue is one that can be fetched.
    let version = readme["version"].as_u64().unwrap();
    let fetched = bed.forwarder.run(&["get", &format!("/files/readme/v={version}"), "-o", "-"]);
    assert_eq!(fetched.stdout, b"read me");

    for (arguments, expected) in [
        (&["*.root"][..], &["/files/in-2026/run-1.root", "/files/in-2026/run-2.root"][..]),
        (&["/readme"], &["/files/readme"]),
        (&["/*"], &["/files/readme"]),
        (&["--where", "run>3"], &["/files/in-2026/run-2.root"]),
        (&["--where", "detector=CMS", "--where", "good=true"], &["/files/in-2026/run-1.root"]),
        (&["--where", "size<1kB"], &["/files/readme"]),
        (&["none"], &[]),
    ] {
        assert_eq!(names(&bed.find(arguments)), expected, "{arguments:?}");
    }
    assert!(found["published_ns"].as_u64() > readme["version"].as_u64(), "{found}");
    let all = bed.forwarder.output(&["find", "/files"]);
    assert_eq!(all, "in-2026/run-1.root\nin-2026/run-2.root\nreadme\n");
    assert_eq!(bed.forwarder.output(&["find", "/files", "read*"]), "readme\n");
    let long = bed.forwarder.output(&["find", "/files", "read*", "-l"]);
    assert!(long.contains(&digest) && long.ends_with("  readme\n"), "{long}");
    let server = bed.server.as_ref().unwrap().stderr();
    assert!(server.contains("metadata that cannot be read is left out"), "{server}");
}

#[test]
fn digests_of_the_catalogue_outlive_the_server() {
    let mut bed = Bed::new();
    bed.serve(&[]);
    let before = bed.complete();
    bed.serve(&[]);
    // The first catalogue of the second server has them; it publishes before it hashes.
    let found = wait_until("the catalogue", || {
        let output = bed.forwarder.run(&["find", "/files", "--json", "--no-cache"]);
        serde_json::from_slice::<Value>(&output.stdout).ok()
    });
    assert_eq!(found["files"], before["files"]);
}

#[test]
fn catalogue_of_a_wrong_key_and_missing_ones_are_reported() {
    let mut bed = Bed::new();
    let key = bed.forwarder.directory().join("key.pem");
    let other = bed.forwarder.directory().join("other.pem");
    for path in [&key, &other] {
        let key = ndn_security::PrivateKey::generate(ndn_security::KeyType::Ecdsa).unwrap();
        fs::write(path, key.to_pem().unwrap().as_bytes()).unwrap();
    }
    let text = |path: &PathBuf| path.display().to_string();
    bed.serve(&["--sign", &text(&key)]);
    bed.complete();
    let found = bed.find(&["--verify", &text(&key)]);
    assert_eq!(names(&found).len(), 3);
    let wrong = bed.forwarder.run(&["find", "/files", "--verify", &text(&other)]);
    assert_eq!(wrong.status.code(), Some(5), "{}", String::from_utf8_lossy(&wrong.stderr));
    // The server says so.
    let none = bed.forwarder.run(&["find", "/files/in-2026"]);
    assert_eq!(none.status.code(), Some(1));
    let complaint = String::from_utf8_lossy(&none.stderr);
    assert!(complaint.contains("`namewire serve --catalogue` publishes catalogues"), "{complaint}");
    for (condition, status, complaint) in [
        ("run", 2, "a condition is KEY=VALUE"),
        ("run==4", 2, "use ="),
        ("run>90", 0, "0 of 3 entries match\n"),
        ("rum>1", 0, "0 of 3 entries match; none has the field `rum`\n"),
    ] {
        let found = bed.forwarder.run(&["find", "/files", "--where", condition]);
        assert_eq!(found.status.code(), Some(status), "{condition}");
        let text = String::from_utf8_lossy(&found.stderr);
        assert!(text.contains(complaint), "{condition}: {text}");
    }
}
