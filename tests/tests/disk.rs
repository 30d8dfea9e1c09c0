//! The disk tier of the Content Store, in a process that is stopped and killed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use namewire_tests::{
    Application, ForwarderProcess, Process, Received, Settings, program, run_to_end, skip,
    wait_until,
};
use rustix::process::Signal;
use serde_json::Value;

/// Packets that memory holds.
const MEMORY_PACKETS: usize = 16;
/// Kills of the test that kills.
const KILLS: u64 = 6;

fn settings(path: &Path, more: &str) -> Settings {
    Settings::new().workers(1).toml(&format!(
        "[tables.cs]\ncapacity_packets = {MEMORY_PACKETS}\n[tables.cs.disk]\npath = {path:?}\nsize = \"16MiB\"\n{more}"
    ))
}

/// A forwarder with a disk that takes everything.
struct Bed {
    forwarder: ForwarderProcess,
    consumer: Application,
    nonce: u32,
    _directory: tempfile::TempDir,
    path: PathBuf,
}

impl Bed {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("content");
        let forwarder = settings(&path, "admission = \"all\"").start_program();
        let consumer = Application::attach(forwarder.socket());
        let bed = Self { forwarder, consumer, nonce: 1, _directory: directory, path };
        bed.wait_for_disk();
        bed
    }

    fn disk(&self) -> Value {
        self.forwarder.json(&["workers"])[0]["total"]["disk"].clone()
    }

    fn counter(&self, name: &str) -> u64 {
        self.disk()[name].as_u64().unwrap_or_else(|| panic!("no {name}: {}", self.disk()))
    }

    fn wait_for_disk(&self) {
        wait_until("the disk", || (self.counter("in_use") == 1).then_some(()));
    }

    /// Fetches the packets with these numbers from a producer.
    fn fetch(&mut self, numbers: std::ops::Range<u64>) {
        let mut producer = Application::attach(self.forwarder.socket());
        producer.register("/disk", 1);
        for number in numbers {
            let uri = format!("/disk/{number}");
            self.nonce += 1;
            self.consumer.express(&uri, self.nonce);
            producer.expect_interest(&uri);
            producer.answer(&uri, &content(number), None);
            assert_eq!(self.consumer.expect_data(&uri), content(number));
        }
        drop(producer);
        // Its route ends with its face.
        wait_until("the end of the route", || {
            let routes = self.forwarder.output(&["route", "list"]);
            (!routes.contains("/disk")).then_some(())
        });
    }

    /// Requests a packet that has no producer. Returns whether it was cached; its content is verified.
    fn is_cached(&mut self, number: u64) -> bool {
        let uri = format!("/disk/{number}");
        self.nonce += 1;
        self.consumer.express(&uri, self.nonce);
        match self.consumer.receive() {
            Received::Data(name, received) => {
                assert_eq!(name, uri);
                assert!(received == content(number), "{uri} has another content");
                true
            }
            Received::Nack(..) => false,
            other => panic!("{other:?}"),
        }
    }

    fn count_cached(&mut self, numbers: std::ops::Range<u64>) -> usize {
        numbers.filter(|&number| self.is_cached(number)).count()
    }

    fn end(&mut self, signal: Signal) {
        self.forwarder.process.signal(signal);
        self.forwarder.process.wait();
    }

    fn start_again(&mut self) {
        self.start_again_by(Command::new(program()));
    }

    /// Starts the forwarder by the begin of a command.
    fn start_again_by(&mut self, mut command: Command) {
        let directory = self.forwarder.directory().to_owned();
        command.arg("run").arg("--config").arg(directory.join("namewire.toml"));
        self.forwarder.process = Process::start("forwarder-again", command, &directory);
        wait_until("the forwarder", || {
            let ended = run_to_end(self.forwarder.command(&["status"]));
            ended.status.success().then_some(())
        });
        self.wait_for_disk();
        self.consumer = Application::attach(self.forwarder.socket());
    }
}

/// The content of a packet: 1,000 bytes that depend on its number.
fn content(number: u64) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let bytes = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    });
    bytes.take(1000).collect()
}

#[test]
fn content_is_served_from_disk_and_found_after_a_stop() {
    let mut bed = Bed::new();
    bed.fetch(0..200);
    let evicted = 200 - MEMORY_PACKETS as u64;
    assert_eq!(bed.counter("admitted"), evicted);
    assert_eq!(bed.count_cached(0..200), 200);
    assert!(bed.counter("hits") >= evicted - MEMORY_PACKETS as u64, "{}", bed.disk());
    bed.end(Signal::TERM);
    bed.start_again();
    assert!(bed.counter("recovered") >= evicted);
    assert!(bed.count_cached(0..200) >= usize::try_from(evicted).unwrap());
    let disk = bed.disk();
    assert!(bed.counter("reads") >= evicted - 100, "{disk}");
    assert_eq!(bed.counter("checksum_errors"), 0, "{disk}");
    // What is evicted again is not written again.
    assert!(bed.counter("unchanged") >= 100, "{disk}");
    let metadata = fs::metadata(&bed.path).unwrap();
    assert_eq!(metadata.len(), 16 << 20);
}

/// A filter of system calls refuses io_uring, as the default one of container runtimes does.
#[test]
fn content_is_served_from_disk_without_io_uring() {
    const REFUSING: &str = r#"
        my ($prctl, $program, @arguments) = @ARGV;
        my ($number, $io_uring_setup, $eperm) = (0, 425, 1);
        my $filter = pack "(SCCL)4", 0x20, 0, 0, $number, 0x15, 0, 1, $io_uring_setup,
            6, 0, 0, 0x00050000 | $eperm, 6, 0, 0, 0x7fff0000;
        my $filters = pack "Sx![P]P", 4, $filter;
        syscall($prctl + 0, 38, 1, 0, 0, 0) == 0 or die $!;
        syscall($prctl + 0, 22, 2, $filters) == 0 or die $!;
        exec $program, @arguments or die $!;
    "#;
    let mut bed = Bed::new();
    bed.fetch(0..200);
    bed.end(Signal::TERM);
    let prctl = if cfg!(target_arch = "x86_64") { "157" } else { "167" };
    let mut command = Command::new("perl");
    command.args(["-e", REFUSING, prctl]).arg(program());
    bed.start_again_by(command);
    let evicted = 200 - MEMORY_PACKETS;
    assert!(bed.count_cached(0..200) >= evicted);
    assert!(bed.counter("reads") >= evicted as u64 - 100, "{}", bed.disk());
    let log = bed.forwarder.process.stderr();
    assert!(log.contains("threads instead of io_uring"), "{log}");
}

#[test]
fn content_is_found_after_kills_and_no_byte_is_wrong() {
    let mut bed = Bed::new();
    let kills = std::env::var("NAMEWIRE_DISK_KILLS").ok().and_then(|count| count.parse().ok());
    let (mut next, mut random, mut fetched) = (0, 99_u64, Vec::new());
    for _ in 0..kills.unwrap_or(KILLS) {
        bed.fetch(next..next + 150);
        fetched.push(next..next + 150);
        next += 150;
        wait_until("the writes", || {
            (bed.counter("written_bytes") >= bed.counter("admitted_bytes")).then_some(())
        });
        // More packets are on their way when it is killed.
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let more = (random >> 33) % 300;
        let mut producer = Application::attach(bed.forwarder.socket());
        producer.register("/disk", 1);
        for number in next..next + more {
            bed.consumer.express(&format!("/disk/{number}"), 1_000_000);
            producer.answer(&format!("/disk/{number}"), &content(number), None);
        }
        bed.end(Signal::KILL);
        next += more;
        bed.start_again();
        let from = next.saturating_sub(2000);
        // The content of each is verified, also of those that were on their way.
        bed.count_cached(from..next);
        let written = fetched.len() * (150 - MEMORY_PACKETS);
        let cached: usize = fetched.iter().map(|range| bed.count_cached(range.clone())).sum();
        assert!(cached * 10 >= written * 9, "{cached} of {written}: {}", bed.disk());
        assert_eq!(bed.counter("checksum_errors"), 0);
    }
}

#[test]
fn erased_prefix_stays_erased() {
    let mut bed = Bed::new();
    bed.fetch(0..100);
    assert!(bed.forwarder.run(&["cs", "erase", "/disk"]).status.success());
    assert_eq!(bed.count_cached(0..100), 0);
    bed.end(Signal::KILL);
    bed.start_again();
    assert_eq!(bed.count_cached(0..100), 0);
    assert_eq!(bed.counter("checksum_errors"), 0);
}

#[test]
fn one_file_serves_one_forwarder() {
    let bed = Bed::new();
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("second.toml");
    let toml = format!(
        "[listeners.unix]\npath = {:?}\n[listeners.tcp]\nenabled = false\n[listeners.udp]\nenabled = false\n\
         [listeners.websocket]\nenabled = false\n[tables.cs.disk]\npath = {:?}\nsize = \"16MiB\"\n",
        directory.path().join("second.sock"),
        bed.path
    );
    fs::write(&config, toml).unwrap();
    let mut command = Command::new(program());
    command.arg("run").arg("--config").arg(&config);
    let ended = run_to_end(command);
    let printed = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{printed}");
    let reason = format!("{} is in use by another forwarder", bed.path.display());
    assert!(printed.contains(&reason), "{printed}");
    // A start that fails leaves no socket.
    let left = ["second.sock", "second.control.sock"].map(|name| directory.path().join(name));
    assert!(left.iter().all(|path| !path.exists()), "{left:?}");
    assert_eq!(bed.counter("in_use"), 1);
}

#[test]
fn forwarder_continues_without_a_full_disk() {
    let directory = tempfile::tempdir().unwrap();
    let (mounted, socket) = (directory.path().join("mounted"), directory.path().join("full.sock"));
    fs::create_dir(&mounted).unwrap();
    let config = directory.path().join("full.toml");
    let toml = format!(
        "[listeners.unix]\npath = {socket:?}\n[listeners.tcp]\nenabled = false\n[listeners.udp]\nenabled = false\n\
         [listeners.websocket]\nenabled = false\n[tables.cs.disk]\npath = {:?}\nsize = \"64MiB\"\n",
        mounted.join("content")
    );
    fs::write(&config, toml).unwrap();
    let script = "mount -t tmpfs -o size=4m none \"$1\" && exec \"$2\" run --config \"$3\"";
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.arg("--map-root-user");
    }
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(&mounted).arg(program()).arg(&config);
    let mut process = Process::start("full", command, directory.path());
    wait_until("the forwarder or its refusal", || {
        let is_refused = !process.is_running();
        (is_refused || process.stderr().contains("disk cache is left out")).then_some(())
    });
    if !process.is_running() {
        let reason = process.stderr();
        assert!(reason.contains("unshare") || reason.contains("mount"), "{reason}");
        return skip("tmpfs", &reason);
    }
    assert!(process.stderr().contains("No space left on device"), "{}", process.stderr());
    wait_until("the socket", || socket.exists().then_some(()));
    let mut consumer = Application::attach(&socket);
    consumer.express("/nowhere", 7);
    assert!(consumer.try_receive(Duration::from_secs(10)).is_some());
    process.signal(Signal::TERM);
    assert!(process.wait().success(), "{}", process.everything());
}
