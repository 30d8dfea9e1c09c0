//! `namewire sync` with `namewire serve`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use namewire_tests::{Forwarder, Held, Process, Settings, noise, wait_until};
use rustix::process::Signal;
use serde_json::Value;

struct Bed {
    server: Process,
    forwarder: Forwarder,
    served: PathBuf,
    copy: PathBuf,
}

impl Bed {
    /// Serves files as `/files`; the segments hold 1,000 bytes.
    fn new(files: &[(&str, &[u8])]) -> Self {
        Self::with(&Settings::new(), files)
    }

    fn with(settings: &Settings, files: &[(&str, &[u8])]) -> Self {
        let forwarder = settings.start();
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
        Self { server, forwarder, served, copy }
    }

    /// Runs a copy that fails; returns its messages.
    fn failed(&self, options: &[&str]) -> String {
        let ended = self.run(options);
        let printed = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(!ended.status.success(), "{printed}");
        printed
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
fn second_copy_requests_the_metadata_of_files_and_no_content() {
    let bed = Bed::new(&[("sub/a", b"a"), ("sub/b", b"b")]);
    for number in 0..3000 {
        bed.write(&format!("sub/{number}"), format!("{number}").as_bytes());
    }
    let interests =
        || bed.forwarder.json(&["status"])["counters"]["in_interests"].as_u64().unwrap();
    let before = interests();
    assert_eq!(counts(&bed.sync(&["--no-sync"]), ["files", "failed"]), [3002, 0]);
    let first = interests() - before;
    let before = interests();
    let again = bed.sync(&[]);
    assert_eq!(counts(&again, ["unchanged", "bytes"]), [3002, 0], "{again}");
    let second = interests() - before;
    // The metadata of each file, and its content. Some Interests are for the listing, or sent again.
    assert!(first > 2 * 3002 && second < 4000, "{first} and {second} Interests");
}

/// Otherwise neither the old nor the new file of one that was renamed would be left.
#[test]
fn nothing_is_deleted_after_a_failure() {
    let bed = Bed::new(&[("a", b"content"), ("kept", b"kept")]);
    bed.sync(&[]);
    fs::rename(bed.served.join("a"), bed.served.join("b")).unwrap();
    bed.write("b", b"content, and more");
    // The name of the part is taken by another program's directory.
    fs::create_dir(bed.copy.join(".b.part")).unwrap();
    let printed = bed.failed(&["--delete"]);
    assert!(printed.contains("nothing is deleted"), "{printed}");
    assert_eq!(fs::read(bed.copy.join("a")).unwrap(), b"content");
    fs::remove_dir(bed.copy.join(".b.part")).unwrap();
    let report = bed.sync(&["--delete"]);
    assert_eq!(counts(&report, ["files", "deleted", "failed"]), [2, 1, 0], "{report}");
    assert!(contents(&bed.copy) == contents(&bed.served));
}

#[test]
fn nothing_is_deleted_if_the_server_ends_midway() {
    let mut bed = Bed::new(&[("large", &noise(1, 8_000_000)), ("kept", b"kept")]);
    fs::create_dir(&bed.copy).unwrap();
    fs::write(bed.copy.join("mine"), "mine").unwrap();
    let copy = bed.copy.display().to_string();
    let mut held = Held::nothing(&bed.forwarder);
    held.add_segment("/files/large", &bed.served.join("large"), 4000);
    let options = ["sync", "/files", copy.as_str(), "--delete", "--lifetime", "1s"];
    let mut running = bed.forwarder.spawn("sync", &options);
    wait_until("the middle of the fetch", || held.is_requested().then_some(()));
    bed.server.signal(Signal::KILL);
    bed.server.wait();
    drop(held);
    assert!(!running.wait().success());
    assert_eq!(fs::read(bed.copy.join("mine")).unwrap(), b"mine");
}

/// The target of a link may be a file that SOURCE does not have, or outside of the copy.
#[test]
fn links_and_special_files_are_not_followed_and_replaced_only_with_delete() {
    let bed = Bed::new(&[
        ("d", b"served"),
        ("latest/.bashrc.d", b"evil"),
        ("device", b"served"),
        ("same", b"same"),
    ]);
    let home = bed.forwarder.directory().join("home");
    fs::create_dir(&home).unwrap();
    fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(home.join("same"), "same").unwrap();
    fs::create_dir(&bed.copy).unwrap();
    let link = |to: &Path, path: &str| {
        std::os::unix::fs::symlink(to, bed.copy.join(path)).unwrap();
    };
    fs::write(bed.copy.join("e"), "served").unwrap();
    link(Path::new("e"), "d");
    link(&home, "latest");
    link(Path::new("/dev/full"), "device");
    link(&home.join("same"), "same");
    link(Path::new("e"), "own-link");
    let printed = bed.failed(&[]);
    assert!(
        printed.contains("latest: a symbolic link is in the way: `namewire sync --delete`"),
        "{printed}"
    );
    assert!(bed.copy.join("latest").is_symlink() && bed.copy.join("d").is_symlink());
    assert_eq!(fs::read_dir(&home).unwrap().count(), 1);

    bed.sync(&["--delete"]);
    for (path, expected) in [("d", "served"), ("device", "served"), ("same", "same")] {
        let path = bed.copy.join(path);
        assert!(fs::symlink_metadata(&path).unwrap().is_file(), "{path:?}");
        assert_eq!(fs::read_to_string(path).unwrap(), expected);
    }
    assert!(fs::symlink_metadata(bed.copy.join("latest")).unwrap().is_dir());
    assert!(!bed.copy.join("e").exists() && bed.copy.join("own-link").is_symlink());
    assert_eq!(fs::read_dir(&home).unwrap().count(), 1);
    assert_eq!(mode(&home), 0o700);
    let again = bed.sync(&["--delete"]);
    assert_eq!(counts(&again, ["unchanged", "bytes", "deleted"]), [3, 0, 0], "{again}");
}

#[test]
fn hidden_entries_are_kept_if_the_server_lists_none() {
    let bed = Bed::new(&[("file", b"x"), (".git/HEAD", b"served")]);
    fs::create_dir_all(bed.copy.join(".git")).unwrap();
    fs::write(bed.copy.join(".git/HEAD"), "mine").unwrap();
    fs::write(bed.copy.join("old"), "old").unwrap();
    let report = bed.sync(&["--delete"]);
    assert_eq!(counts(&report, ["files", "deleted", "failed"]), [1, 1, 0], "{report}");
    assert_eq!(fs::read(bed.copy.join(".git/HEAD")).unwrap(), b"mine");
}

#[test]
fn empty_or_small_tree_does_not_delete_a_copy() {
    let bed = Bed::new(&[("file", b"x")]);
    for number in 0..12 {
        bed.write(&number.to_string(), b"x");
    }
    bed.sync(&[]);
    for number in 0..12 {
        fs::remove_file(bed.served.join(number.to_string())).unwrap();
    }
    for options in [&["--delete"][..], &["--delete", "--max-delete", "11"]] {
        let printed = bed.failed(options);
        assert!(printed.contains("12 of 13 files would be deleted"), "{printed}");
        assert!(printed.contains("--max-delete 12"), "{printed}");
        let preview = bed.run(&[options, &["--dry-run"]].concat());
        assert!(!preview.status.success() && preview.stdout.is_empty(), "{preview:?}");
    }
    assert_eq!(contents(&bed.copy).len(), 13);
    let report = bed.sync(&["--delete", "--max-delete", "12"]);
    assert_eq!(counts(&report, ["deleted"]), [12], "{report}");
    fs::remove_file(bed.served.join("file")).unwrap();
    assert!(bed.failed(&["--delete"]).contains("the served directory is empty"));
    assert_eq!(contents(&bed.copy).len(), 1);
    let report = bed.sync(&["--delete", "--max-delete", "1"]);
    assert_eq!(counts(&report, ["deleted"]), [1], "{report}");
}

/// A directory that a file replaces, and a file that a directory replaces, are there until the end.
#[test]
fn entries_of_another_kind_are_replaced_when_their_replacement_is_complete() {
    let bed = Bed::new(&[("photos/1", b"one"), ("photos/sub/2", b"two"), ("file", b"file")]);
    bed.sync(&[]);
    fs::remove_dir_all(bed.served.join("photos")).unwrap();
    fs::remove_file(bed.served.join("file")).unwrap();
    fs::create_dir(bed.served.join("file")).unwrap();
    bed.write("file/deep", b"deep");
    let photos = fs::File::create(bed.served.join("photos")).unwrap();
    photos.set_len(1 << 43).unwrap();
    let before = contents(&bed.copy);
    assert!(bed.failed(&["--delete"]).contains("8.0 TiB are needed"));
    assert!(bed.failed(&["--delete", "--dry-run"]).contains("8.0 TiB are needed"));
    photos.set_len(5).unwrap();
    assert!(bed.failed(&[]).contains("photos: a directory is in the way"));
    assert!(bed.failed(&["--delete", "--exclude", "2"]).contains("something in it is kept"));
    assert!(contents(&bed.copy) == before);
    // The fetch fails: the directory gets its name again.
    fs::create_dir(bed.copy.join(".photos.part")).unwrap();
    bed.failed(&["--delete"]);
    assert_eq!(fs::read(bed.copy.join("photos/sub/2")).unwrap(), b"two");
    fs::remove_dir(bed.copy.join(".photos.part")).unwrap();
    bed.sync(&["--delete"]);
    assert!(contents(&bed.copy) == contents(&bed.served), "{:?}", contents(&bed.copy).keys());
}

#[test]
fn directory_that_cannot_be_made_does_not_end_the_copy() {
    let bed = Bed::new(&[("d/x", b"x"), ("other", b"other")]);
    fs::create_dir(&bed.copy).unwrap();
    fs::write(bed.copy.join("d"), "mine").unwrap();
    let preview = bed.run(&["--dry-run"]);
    let lines = String::from_utf8_lossy(&preview.stdout).into_owned();
    assert_eq!(lines, "blocked  d\nadd      other  (5 B)\n");
    assert!(!preview.status.success());
    let printed = bed.failed(&[]);
    assert_eq!(printed.matches("is in the way").count(), 1, "{printed}");
    assert!(printed.contains("1 file, 1 failed, 5 B in "), "{printed}");
    assert_eq!(fs::read(bed.copy.join("other")).unwrap(), b"other");
    assert_eq!(fs::read(bed.copy.join("d")).unwrap(), b"mine");
    let verified = bed.run(&["--verify-only"]);
    let lines = String::from_utf8_lossy(&verified.stdout).into_owned();
    assert_eq!(lines, "differs  d\nmissing  d/x  (1 B)\n");
}

#[test]
fn missing_empty_directory_is_a_difference() {
    let bed = Bed::new(&[("file", b"x")]);
    bed.sync(&[]);
    fs::create_dir(bed.served.join("empty")).unwrap();
    let verified = bed.run(&["--verify-only"]);
    assert_eq!(String::from_utf8_lossy(&verified.stdout), "missing  empty\n");
    assert_eq!(verified.status.code(), Some(1));
}

/// An empty variable in a script makes `"$DIRECTORY/"` the root directory.
#[test]
fn copy_into_the_root_directory_is_refused() {
    let bed = Bed::new(&[("namewire-test-of-the-root-directory", b"x")]);
    for command in [&["sync", "/files", "/"][..], &["sync", "/files", "/tmp/..", "--delete"]] {
        let refused = bed.forwarder.run(command);
        let printed = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{printed}");
        assert!(printed.contains("is the root directory of this machine"), "{printed}");
    }
    let get = bed.forwarder.run(&["get", "--recursive", "/files", "-o", "/"]);
    assert_eq!(get.status.code(), Some(2), "{}", String::from_utf8_lossy(&get.stderr));
    assert!(!Path::new("/namewire-test-of-the-root-directory").exists());
    // Nothing is written.
    let shown = bed.forwarder.run(&["sync", "/files", "/", "--dry-run"]);
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    assert!(!Path::new("/namewire-test-of-the-root-directory").exists());
}

#[test]
fn copy_ends_once_its_server_has_ended() {
    let mut bed = Bed::new(&[]);
    for number in 0..400 {
        bed.write(&format!("{number:03}"), &noise(number, 100_000));
    }
    let copy = bed.copy.display().to_string();
    // More than the messages name one by one.
    let mut held = Held::nothing(&bed.forwarder);
    for number in 370..400 {
        held.add_file(&format!("/files/{number}"), &bed.served.join(number.to_string()));
    }
    let options = ["sync", "/files", &copy, "--no-sync", "--jobs", "2", "--lifetime", "1s"];
    let mut copying = bed.forwarder.spawn("copying", &[&options[..], &["--retries", "3"]].concat());
    wait_until("the first file", || bed.copy.join("000").exists().then_some(()));
    bed.server.signal(Signal::KILL);
    bed.server.wait();
    drop(held);
    let status = copying.wait();
    let printed = copying.everything();
    assert_eq!(status.code(), Some(4), "{printed}");
    assert!(printed.contains("namewire: no route to /files for "), "{printed}");
    assert!(printed.contains(" (no producer on this forwarder and no neighbour"), "{printed}");
    assert!(printed.contains(" of 400 files are complete; run the same command to resume"));
    let is_named = |line: &&str| line.starts_with("namewire: no route to /files/");
    let named = printed.lines().filter(is_named).count();
    assert!((1..=10).contains(&named) && printed.contains(" not begun, "), "{printed}");
}

/// While it waits for one file, nothing but the directory shows that the server answers.
#[test]
fn file_without_an_answer_does_not_end_a_copy_of_one_file_at_a_time() {
    let bed = Bed::with(&Settings::new().udp(), &[("a", b"1"), ("b", b"2"), ("c", b"3")]);
    let listed = bed.forwarder.json(&["ls", "/files"]);
    let version = listed[1]["version"].as_u64().unwrap();
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let silent = format!("udp4://{}", silent.local_addr().unwrap());
    let segments = format!("/files/b/v={version}");
    // With the next hop of /files, a retransmission that finds the Interest pending would be sent there.
    let _ = bed.forwarder.output(&["route", "add", &segments, &silent, "--capture"]);
    let options = ["--jobs", "1", "--lifetime", "300ms", "--retries", "1"];
    let ended = bed.run(&options);
    let printed = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(4), "{printed}");
    let copied: Vec<_> = contents(&bed.copy).into_keys().collect();
    assert_eq!(copied, ["a", "c"], "{printed}");
    assert!(printed.contains(&segments) && !printed.contains("to resume"), "{printed}");
}

#[test]
fn missing_route_is_named_by_copies_as_by_other_commands() {
    let bed = Bed::new(&[]);
    let copy = bed.copy.display().to_string();
    for command in [
        &["get", "/nowhere/x", "-o", "-"][..],
        &["get", "/nowhere/x", "-o", &copy, "--recursive"],
        &["sync", "/nowhere/x", &copy],
        &["ls", "/nowhere/x"],
        &["peek", "/nowhere/x"],
    ] {
        let ended = bed.forwarder.run(command);
        let printed = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(4), "{command:?}: {printed}");
        let expected = "no route to /nowhere/x: no producer on this forwarder and no neighbour";
        assert!(printed.contains(expected), "{command:?}: {printed}");
    }
}
