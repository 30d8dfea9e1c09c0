//! `namewire get` and the resulting file.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use namewire_tests::{Forwarder, Process, Settings, ended_by_hangup, run_to_end, wait_until};
use ndn_files::{PartFile, Progress};
use rustix::process::Signal;

/// Bytes per segment, and segments.
const SEGMENT_LEN: usize = 1000;
const SEGMENTS: usize = 100;
/// The segment that the cache does not have.
const GAP: usize = 50;
const NAME: &str = "/object/v=1";

/// A forwarder whose cache holds an object but for one segment, and the object's producer.
struct Bed {
    forwarder: Forwarder,
    producer: Process,
    content: Vec<u8>,
    file: PathBuf,
    part: PathBuf,
}

fn publish(forwarder: &Forwarder, name: &str, content: &[u8]) -> Process {
    let source = forwarder.directory().join(format!("{name}.content"));
    fs::write(&source, content).unwrap();
    let (source, length) = (source.display().to_string(), format!("{SEGMENT_LEN}B"));
    let mut producer = forwarder
        .spawn(name, &["put", "/object", &source, "--version", "1", "--segment-size", &length]);
    producer.wait_for_output(NAME);
    producer
}

fn content(salt: usize, length: usize) -> Vec<u8> {
    (0..length)
        .map(|index| u8::try_from((index * 7 + index / 1000 + salt) % 251).unwrap())
        .collect()
}

impl Bed {
    fn new() -> Self {
        let forwarder = Settings::new().start();
        let content = content(0, SEGMENTS * SEGMENT_LEN - 1);
        let producer = publish(&forwarder, "producer", &content);
        let bed = Self {
            file: forwarder.directory().join("fetched"),
            part: forwarder.directory().join(".fetched.part"),
            forwarder,
            producer,
            content,
        };
        bed.fill_cache();
        bed
    }

    fn fill_cache(&self) {
        assert!(self.forwarder.run(&["get", NAME, "-o", "/dev/null"]).status.success());
        let erased = self.forwarder.run(&["cs", "erase", &format!("{NAME}/seg={GAP}")]);
        assert!(erased.status.success(), "{erased:?}");
    }

    fn get<'a>(&self, more: &[&'a str]) -> Vec<&'a str> {
        let file = Box::leak(self.file.display().to_string().into_boxed_str());
        [&["get", NAME, "-o", file][..], more].concat()
    }

    /// Fetches until the gap and is interrupted there by `signal`.
    fn interrupt(&self, signal: Signal) {
        self.producer.signal(Signal::STOP);
        let before = self.cache_hits();
        let command = ended_by_hangup(&self.forwarder.command(&self.get(&[])));
        let mut fetch = Process::start("fetch", command, self.forwarder.directory());
        wait_until("the rest of the object to come", || {
            (self.cache_hits() - before >= u64::try_from(SEGMENTS - 1).unwrap()).then_some(())
        });
        wait_until("all of it but the gap to be stored", || self.is_stored().then_some(()));
        // Threads that have written tell so, the one that notes it last.
        wait_until("the fetch to wait for the gap", || is_at_rest(&fetch).then_some(()));
        fetch.signal(signal);
        assert_eq!(fetch.wait().code(), Some(130), "{}", fetch.everything());
        assert!(
            fetch.stderr().contains("resume"),
            "the message says how to resume: {}",
            fetch.stderr()
        );
        assert!(!self.file.exists(), "there is nothing under the final name");
        self.producer.signal(Signal::CONT);
    }

    /// Whether all segments but the missing one are in the file that is not whole.
    fn is_stored(&self) -> bool {
        let stored = fs::read(&self.part).unwrap_or_default();
        let (gap, behind) = (GAP * SEGMENT_LEN, (GAP + 1) * SEGMENT_LEN);
        stored.len() == self.content.len()
            && stored[..gap] == self.content[..gap]
            && stored[behind..] == self.content[behind..]
    }

    fn cache_hits(&self) -> u64 {
        self.forwarder.json(&["cs"])["hits"].as_u64().unwrap()
    }

    /// Files named after the fetched one.
    fn files(&self) -> Vec<String> {
        let names = fs::read_dir(self.forwarder.directory()).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| name.contains("fetched")).collect();
        names.sort();
        names
    }

    fn assert_complete(&self) {
        assert!(fs::read(&self.file).unwrap() == self.content, "the contents differ");
        assert_eq!(self.files(), ["fetched"]);
        fs::remove_file(&self.file).unwrap();
    }
}

/// Whether all threads of a program sleep, the first one checked last.
fn is_at_rest(program: &Process) -> bool {
    let pid = program.pid().as_raw_nonzero().get();
    let sleeps = |thread: &str| {
        let stat = fs::read_to_string(format!("/proc/{pid}/task/{thread}/stat"));
        stat.is_ok_and(|stat| stat.rsplit(')').next().unwrap().starts_with(" S"))
    };
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let threads = threads.map(|thread| thread.unwrap().file_name().into_string().unwrap());
    let (first, others): (Vec<_>, Vec<_>) = threads.partition(|thread| *thread == pid.to_string());
    others.iter().chain(&first).all(|thread| sleeps(thread))
}

#[test]
fn interrupted_fetch_is_resumed() {
    let bed = Bed::new();
    for signal in [Signal::HUP, Signal::TERM, Signal::INT] {
        bed.interrupt(signal);
        assert_eq!(fs::metadata(&bed.part).unwrap().len(), (GAP * SEGMENT_LEN) as u64);
        let report = bed.forwarder.json(&bed.get(&[]));
        assert_eq!(report["resumed_segments"], GAP, "{report}");
        assert_eq!(report["segments"], SEGMENTS - GAP, "{report}");
        bed.assert_complete();
        bed.fill_cache();
    }
}

#[test]
fn fetch_resumes_when_its_producer_is_back() {
    let mut bed = Bed::new();
    bed.producer.signal(Signal::TERM);
    bed.producer.wait();
    let failed = run_to_end(bed.forwarder.command(&bed.get(&["--retries", "1"])));
    assert_eq!(failed.status.code(), Some(4), "{failed:?}");
    assert_eq!(bed.files(), [".fetched.part", ".fetched.part.json"]);
    let _producer = publish(&bed.forwarder, "again", &bed.content);
    let report = bed.forwarder.json(&bed.get(&[]));
    assert_eq!(report["resumed_segments"], GAP, "{report}");
    bed.assert_complete();
}

#[test]
fn complete_part_becomes_the_file() {
    let bed = Bed::new();
    bed.interrupt(Signal::TERM);
    // As if the interruption had come after the last segment.
    let sidecar = bed.part.with_extension("part.json");
    let progress: Progress = serde_json::from_slice(&fs::read(&sidecar).unwrap()).unwrap();
    let mut part = PartFile::open(bed.file.clone()).unwrap();
    part.begin(Some(progress.origin)).unwrap();
    for (segment, content) in (0..).zip(bed.content.chunks(SEGMENT_LEN)) {
        part.write_segment(segment, content).unwrap();
    }
    assert_eq!(part.keep(), Some(bed.content.len() as u64));
    let report = bed.forwarder.json(&bed.get(&[]));
    assert_eq!(report["resumed_segments"], SEGMENTS, "{report}");
    bed.assert_complete();
}

#[test]
fn part_of_another_version_is_not_resumed() {
    let mut bed = Bed::new();
    // Damaged on the disk.
    bed.interrupt(Signal::TERM);
    fs::write(&bed.part, vec![0; GAP * SEGMENT_LEN]).unwrap();
    assert_eq!(bed.forwarder.json(&bed.get(&[]))["resumed_segments"], 0);
    bed.assert_complete();
    bed.fill_cache();
    // Not wanted, or not verified in the same way.
    for more in [["--restart", "--quiet"], ["--verify", "none"]] {
        bed.interrupt(Signal::TERM);
        assert_eq!(bed.forwarder.json(&bed.get(&more))["resumed_segments"], 0, "{more:?}");
        bed.assert_complete();
        bed.fill_cache();
    }
    // Another content under the same version, against the rules.
    bed.interrupt(Signal::TERM);
    bed.producer.signal(Signal::TERM);
    bed.producer.wait();
    assert!(bed.forwarder.run(&["cs", "erase", "/object"]).status.success());
    bed.content = content(1, 40 * SEGMENT_LEN);
    let _producer = publish(&bed.forwarder, "other", &bed.content);
    assert_eq!(bed.forwarder.json(&bed.get(&[]))["resumed_segments"], 0);
    bed.assert_complete();
}

#[test]
fn replaced_file_keeps_its_mode_and_links() {
    let bed = Bed::new();
    fs::write(&bed.file, "old").unwrap();
    fs::set_permissions(&bed.file, fs::Permissions::from_mode(0o640)).unwrap();
    let link = bed.forwarder.directory().join("link");
    std::os::unix::fs::symlink(&bed.file, &link).unwrap();
    let link_name = link.display().to_string();
    let fetched = bed.forwarder.run(&["get", NAME, "-o", &link_name]);
    let summary = String::from_utf8_lossy(&fetched.stderr);
    assert!(fetched.status.success(), "{summary}");
    assert!(summary.contains("in place of the earlier file"), "{summary}");
    assert!(link.is_symlink());
    assert_eq!(fs::metadata(&bed.file).unwrap().permissions().mode() & 0o7777, 0o640);
    bed.assert_complete();
}

#[test]
fn failed_fetch_leaves_no_files() {
    let bed = Bed::new();
    let nobody = |file: &Path| {
        let file = file.display().to_string();
        bed.forwarder.run(&["get", "/nobody/v=1", "-o", &file, "--retries", "0"])
    };
    assert_eq!(nobody(&bed.file).status.code(), Some(4));
    assert_eq!(bed.files(), [""; 0]);
    assert_eq!(nobody(bed.forwarder.directory()).status.code(), Some(2));
}

#[test]
fn names_that_attract_interests_of_others_need_force() {
    let forwarder = Settings::new().start();
    let served = forwarder.directory().join("served");
    fs::create_dir(&served).unwrap();
    fs::write(served.join("file"), "content").unwrap();
    let (file, served) = (served.join("file").display().to_string(), served.display().to_string());
    for name in ["/", "/localhost/nfd/x"] {
        let replica = ["serve", &served, "--prefix", "/x", "--catalogue", "--replica", name];
        let commands = [&["put", name, &file][..], &["serve", &served, "--prefix", name], &replica];
        for command in commands {
            let refused = forwarder.run(command);
            let printed = String::from_utf8_lossy(&refused.stderr);
            assert_eq!(refused.status.code(), Some(2), "{command:?}: {printed}");
            assert!(printed.contains("--force publishes under it"), "{printed}");
        }
    }
    let mut put = forwarder.spawn("put", &["put", "/", &file, "--version", "1", "--force"]);
    put.wait_for_output("published");
    assert_eq!(forwarder.output(&["get", "/v=1", "-o", "-", "--quiet"]), "content");
    drop(put);
    let mut server = forwarder.spawn("serve", &["serve", &served, "--prefix", "/", "--force"]);
    server.wait_for_output("serving ");
    assert_eq!(forwarder.output(&["get", "/file", "-o", "-", "--quiet"]), "content");
}

#[test]
fn object_is_published_with_the_version_in_its_name() {
    let forwarder = Settings::new().start();
    let file = forwarder.directory().join("content");
    fs::write(&file, content(1, 9000)).unwrap();
    let path = file.display().to_string();
    let refused = |arguments: &[&str]| {
        let output = forwarder.run(&[&["put"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let reason = refused(&["/versioned/seg=1", &path]);
    assert!(reason.contains("seg=1 is the number of a segment"), "{reason}");
    let reason = refused(&["/versioned/v=7/v=8", &path]);
    assert!(reason.contains("it ends in two versions"), "{reason}");
    let reason = refused(&["/versioned/v=7", &path, "--version", "8"]);
    assert!(reason.contains("its version is 7, that of --version 8"), "{reason}");
    let reason = refused(&["/versioned", &path, "-s", "8800B"]);
    assert!(
        reason.contains("--segment-size: segments of 8800 bytes make packets above"),
        "{reason}"
    );
    let reason = refused(&[&"/x".repeat(33), &path]);
    assert!(reason.contains("it has 33 components: at most 32 are possible"), "{reason}");
    let mut producer = forwarder.spawn("put", &["put", "/versioned/v=7", &path]);
    producer.wait_for_output("published /versioned/v=7:");
    for name in ["/versioned", "/versioned/v=7"] {
        let fetched = forwarder.run(&["get", name, "-o", "-"]);
        assert_eq!(fetched.stdout, content(1, 9000), "{fetched:?}");
    }
}
