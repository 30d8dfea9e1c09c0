//! `namewire sync` with `namewire serve`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use namewire_tests::{Forwarder, Process, Settings, noise, now};
use serde_json::Value;

struct Bed {
    _server: Process,
    forwarder: Forwarder,
    served: PathBuf,
    copy: PathBuf,
}

impl Bed {
    /// Serves files as `/files`; the segments hold 1,000 bytes.
    fn new(files: &[(&str, &[u8])]) -> Self {
        let forwarder = Settings::new().start();
        let served = forwarder.directory().join("served");
        fs::create_dir(&served).unwrap();
        let copy = forwarder.directory().join("copy");
        for (path, content) in files {
            let path = served.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let directory = served.display().to_string();
        let mut server = forwarder.spawn(
            "server",
            &["serve", &directory, "--prefix", "/files", "--segment-size", "1000B"],
        );
        server.wait_for_output("serving ");
        Self { _server: server, forwarder, served, copy }
    }

    fn run(&self, options: &[&str]) -> Output {
        let copy = self.copy.display().to_string();
        self.forwarder.run(&[&["sync", "/files", &copy], options].concat())
    }

    fn sync(&self, options: &[&str]) -> Value {
        let copy = self.copy.display().to_string();
        self.forwarder.json(&[&["sync", "/files", &copy], options].concat())
    }

    fn write(&self, path: &str, content: &[u8]) {
        fs::write(self.served.join(path), content).unwrap();
    }
}

/// Paths below a directory with the contents of files; those of directories end with a slash.
fn contents(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut rest = vec![directory.to_owned()];
    while let Some(next) = rest.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(directory).unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                found.insert(name + "/", Vec::new());
                rest.push(path);
            } else {
                found.insert(name, fs::read(path).unwrap());
            }
        }
    }
    found
}

fn counts<const N: usize>(report: &Value, fields: [&str; N]) -> [u64; N] {
    fields.map(|field| report[field].as_u64().unwrap())
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn copy_follows_changes_deletions_and_renamed_directories() {
    let large = noise(1, 50_000);
    let bed = Bed::new(&[
        ("large", &large),
        ("old/a", &noise(2, 5000)),
        ("old/deep/b", &noise(3, 700)),
        ("other", b"first"),
        ("was-directory/file", b"x"),
    ]);
    let first = bed.sync(&["--delete"]);
    assert_eq!(
        counts(&first, ["files", "unchanged", "directories", "failed"]),
        [5, 0, 4, 0],
        "{first}"
    );
    assert!(contents(&bed.copy) == contents(&bed.served));

    fs::rename(bed.served.join("old"), bed.served.join("new")).unwrap();
    fs::remove_dir_all(bed.served.join("was-directory")).unwrap();
    bed.write("was-directory", b"file now");
    bed.write("other", b"second");
    fs::create_dir(bed.copy.join("mine")).unwrap();
    fs::write(bed.copy.join("mine/file"), "mine").unwrap();
    let before = contents(&bed.copy);
    let preview = bed.run(&["--delete", "--dry-run"]);
    let lines = String::from_utf8(preview.stdout).unwrap();
    for line in [
        "rename   old/a -> new/a",
        "rename   old/deep/b -> new/deep/b",
        "replace  other  (6 B)",
        "delete   mine/file",
        "delete   mine\n",
    ] {
        assert!(lines.contains(line), "{lines}");
    }
    assert!(contents(&bed.copy) == before, "a dry run changes nothing");
    let second = bed.sync(&["--delete"]);
    let fields = ["files", "unchanged", "renamed", "bytes", "failed"];
    assert_eq!(counts(&second, fields), [5, 1, 2, 6 + 8, 0], "{second}");
    assert!(contents(&bed.copy) == contents(&bed.served));
    // Renamed files are known again, and nothing is deleted without the option.
    fs::write(bed.copy.join("mine"), "mine").unwrap();
    let third = bed.sync(&[]);
    assert_eq!(counts(&third, ["unchanged", "bytes", "deleted"]), [4 + 1, 0, 0], "{third}");
    assert!(bed.copy.join("mine").exists());
}

#[test]
fn patterns_select_and_protect_files() {
    let bed = Bed::new(&[
        ("src/a.c", b"a"),
        ("src/a.o", b"o"),
        ("src/deep/b.c", b"b"),
        ("doc/c.txt", b"c"),
        ("cache/d.c", b"d"),
    ]);
    fs::create_dir(&bed.copy).unwrap();
    fs::write(bed.copy.join("own.o"), "own").unwrap();
    fs::write(bed.copy.join("gone.c"), "gone").unwrap();
    let only_c =
        ["--delete", "--exclude", "/cache/", "--include", "*/", "--include=*.c", "--exclude", "*"];
    let report = bed.sync(&only_c);
    assert_eq!(counts(&report, ["files", "deleted"]), [2, 1], "{report}");
    let found: Vec<_> = contents(&bed.copy).into_keys().collect();
    assert_eq!(found, ["doc/", "own.o", "src/", "src/a.c", "src/deep/", "src/deep/b.c"]);
    let wrong = bed.run(&["--exclude", "a["]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("`a[`"), "{wrong:?}");
}

#[test]
fn contents_are_compared_by_digests() {
    let large = noise(1, 50_000);
    let bed = Bed::new(&[("large", &large), ("small", b"small"), ("empty", b"")]);
    // A copy that another program made has no state, and other times.
    fs::create_dir(&bed.copy).unwrap();
    fs::write(bed.copy.join("large"), &large).unwrap();
    fs::write(bed.copy.join("small"), "smell").unwrap();
    fs::write(bed.copy.join("empty"), "").unwrap();
    let report = bed.sync(&[]);
    assert_eq!(counts(&report, ["files", "unchanged", "bytes"]), [3, 2, 5], "{report}");
    assert_eq!(bed.run(&["--verify-only"]).status.code(), Some(0));

    // Damage that keeps size and time.
    let path = bed.copy.join("large");
    let time = fs::metadata(&path).unwrap().modified().unwrap();
    let mut damaged = large.clone();
    damaged[49_999] ^= 1;
    fs::write(&path, damaged).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    fs::remove_file(bed.copy.join("empty")).unwrap();
    fs::write(bed.copy.join("extra"), "").unwrap();
    let found = bed.run(&["--verify-only"]);
    let lines = String::from_utf8_lossy(&found.stdout).into_owned();
    assert_eq!(lines, "missing  empty  (0 B)\ndiffers  large  (48.8 KiB)\n");
    let printed = String::from_utf8_lossy(&found.stderr).into_owned();
    assert!(found.status.code() == Some(1) && printed.contains("2 differences"), "{printed}");
    let strict = bed.run(&["--verify-only", "--delete"]);
    assert!(String::from_utf8_lossy(&strict.stdout).contains("extra    extra"), "{strict:?}");
    let mended = bed.sync(&["--checksum"]);
    assert_eq!(counts(&mended, ["unchanged", "bytes"]), [1, 50_000], "{mended}");
    assert!(fs::read(&path).unwrap() == large);
}

#[test]
fn existing_files_get_the_permissions_of_the_server_but_not_the_copy_itself() {
    let bed = Bed::new(&[("directory/run", b"#!"), ("secret", b"s")]);
    bed.sync(&[]);
    let set =
        |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    set(&bed.copy, 0o700);
    set(&bed.served.join("directory/run"), 0o755);
    set(&bed.served.join("directory"), 0o750);
    set(&bed.served.join("secret"), 0o600);
    let report = bed.sync(&[]);
    assert_eq!(counts(&report, ["unchanged", "bytes"]), [2, 0], "{report}");
    for (path, expected) in [("directory/run", 0o755), ("directory", 0o750), ("secret", 0o600)] {
        assert_eq!(mode(&bed.copy.join(path)), expected, "{path}");
    }
    assert_eq!(mode(&bed.copy), 0o700);
}

#[test]
fn tree_that_does_not_fit_is_refused_before_anything_is_written() {
    let bed = Bed::new(&[("small", b"small")]);
    // Sparse: larger than any disk that a test runs on.
    let file = fs::File::create(bed.served.join("huge")).unwrap();
    file.set_len(1 << 43).unwrap();
    let refused = bed.run(&[]);
    let printed = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{printed}");
    assert!(printed.contains("8.0 TiB are needed, and "), "{printed}");
    assert!(!bed.copy.exists());
    let partly = bed.sync(&["--exclude", "huge"]);
    assert_eq!(counts(&partly, ["files", "bytes"]), [1, 5], "{partly}");
}

#[test]
fn second_copy_of_3002_files_takes_less_than_a_second() {
    let bed = Bed::new(&[("sub/a", b"a"), ("sub/b", b"b")]);
    for number in 0..3000 {
        bed.write(&format!("sub/{number}"), format!("{number}").as_bytes());
    }
    assert_eq!(counts(&bed.sync(&["--no-sync"]), ["files", "failed"]), [3002, 0]);
    // The fastest of a few: other tests run at the same time.
    let fastest = (0..5).map(|_| {
        let started = now();
        let again = bed.sync(&[]);
        assert_eq!(counts(&again, ["unchanged", "bytes"]), [3002, 0], "{again}");
        started.elapsed()
    });
    let fastest = fastest.min().unwrap();
    assert!(fastest < Duration::from_secs(1), "{fastest:?}");
}
