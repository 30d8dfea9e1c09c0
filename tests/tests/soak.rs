//! A forwarder of two workers under mixed traffic while everything changes, for as long as
//! `SOAK_SECONDS` says: 10 by default, `make soak` takes ten minutes.
//!
//! Traffic comes in rounds. After each, when nothing is pending, there is an outcome of every
//! Interest. In a long soak the memory is compared as well.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::time::{Duration, Instant};

use namewire_tests::{ForwarderProcess, Process, Settings, now, wait_until};
use rustix::process::Signal;
use serde_json::Value;

/// Duration for which the consumers of a round send.
const ROUND: Duration = Duration::from_secs(4);

/// A soak that is shorter says nothing of memory: tables and buffers are still being filled.
const LONG: Duration = Duration::from_secs(300);

/// Limit of the rise of resident memory from the second third of a long soak to the last, in the median: pages of
/// tables are touched for the first time when a queue or the Content Store is longer than ever by chance, and on a
/// machine that is busy otherwise, consumers that it keeps from reading have output queues of megabytes, whose memory
/// is kept (in ten minutes it was 544 KiB of 64,728, and 4,500 of 66,072 beside compilers). Two bytes for every
/// Interest would be more: a third of ten minutes is five millions. What is left of faces and routes is compared by
/// number.
const RISE_MAX_KIB: u64 = 8192;

const PRODUCER: &str = r#"
[[pattern]]
prefix = "/soak/mixed"
payload = ["100B", "1kB", "4kB"]
nack_ratio = 0.05
silence_ratio = 0.03
[[pattern]]
prefix = "/soak/often"
freshness = "100ms"
[[pattern]]
prefix = "/"
suffix = "/far/below"
"#;

const CONSUMER: &str = r#"
[[pattern]]
prefix = "/soak/mixed"
weight = 4.0
lifetime = "500ms"
[[pattern]]
prefix = "/soak/often"
must_be_fresh = true
components = 5
lifetime = "700ms"
names = { zipf = { count = 1000, exponent = 1.0 } }
[[pattern]]
prefix = "/"
components = 1
can_be_prefix = true
must_be_fresh = true
names = { repeated = { count = 8 } }
weight = 0.2
lifetime = "300ms"
[[pattern]]
prefix = "/soak/fleeting"
lifetime = "400ms"
"#;

struct Soak {
    /// Dropped before the directory that they write to.
    producers: Vec<Process>,
    forwarder: ForwarderProcess,
    round: u64,
    changes: u64,
}

impl Soak {
    fn start() -> Self {
        let forwarder = Settings::new()
            .tcp()
            .udp()
            .workers(2)
            .toml("[tables]\npit_capacity = 65536\ncs = { capacity_packets = 16384 }")
            .toml("[pool]\ncapacity = \"64MiB\"\n[log]\nlevel = \"warn\"")
            .start_program();
        std::fs::write(forwarder.directory().join("producer.toml"), PRODUCER).unwrap();
        std::fs::write(forwarder.directory().join("consumer.toml"), CONSUMER).unwrap();
        let mut soak = Self { forwarder, producers: Vec::new(), round: 0, changes: 0 };
        let scenario = soak.path("producer.toml");
        let producer = ["traffic", "producer", "--scenario", &scenario, "--faces", "2"];
        soak.producers.push(soak.forwarder.spawn("producer", &producer));
        wait_until("the routes", || {
            (soak.forwarder.json(&["route", "list"]).as_array().unwrap().len() >= 3).then_some(())
        });
        soak
    }

    fn path(&self, file: &str) -> String {
        self.forwarder.directory().join(file).display().to_string()
    }

    fn round(&mut self) {
        self.round += 1;
        let scenario = self.path("consumer.toml");
        let seconds = format!("{}s", ROUND.as_secs());
        let udp = format!("udp4://127.0.0.1:{}", self.forwarder.port());
        let transports = [self.forwarder.unix(), self.forwarder.tcp(), udp];
        let consumer = ["traffic", "consumer", "--json", "--duration", &seconds];
        let mut consumers: Vec<Process> = transports
            .iter()
            .zip([&["--window", "48"][..], &["--rate", "2000", "--poisson"], &["--window", "16"]])
            .enumerate()
            .map(|(number, (transport, load))| {
                let where_and_what =
                    ["--transport", transport, "--faces", "3", "--scenario", &scenario];
                let arguments = [&consumer[..], &where_and_what, load].concat();
                self.forwarder.spawn(&format!("consumer{number}"), &arguments)
            })
            .collect();
        let end = now() + ROUND;
        while now() < end {
            self.fleet(&scenario);
        }
        for consumer in &mut consumers {
            assert!(consumer.wait().success(), "{}", consumer.everything());
            let found: Value = serde_json::from_str(&consumer.stdout()).unwrap();
            let sum = |key: &str| -> u64 {
                let patterns = found["patterns"].as_array().unwrap();
                patterns.iter().map(|pattern| pattern[key].as_u64().unwrap()).sum()
            };
            assert!(sum("satisfied") > 0, "{found}");
            assert_eq!(sum("sent"), sum("satisfied") + sum("nacked") + sum("timed_out"), "{found}");
        }
        self.destroy_udp_faces();
        self.come_to_rest();
    }

    /// Changes tables while a producer and a consumer come, and go without a word.
    fn fleet(&mut self, scenario: &str) {
        let forwarder = &self.forwarder;
        let mut producer = forwarder
            .spawn("fleeting", &["traffic", "producer", "/soak/fleeting", "/soak/mixed/1"]);
        let tcp = forwarder.tcp();
        let consumer = ["traffic", "consumer", "--scenario", scenario, "--transport", &tcp];
        let mut consumer =
            forwarder.spawn("killed", &[&consumer[..], &["--window", "64"]].concat());
        for _ in 0..4 {
            self.change();
        }
        for process in [&mut producer, &mut consumer] {
            process.signal(Signal::KILL);
            process.wait();
        }
    }

    /// One change after the other, those that undo another after it.
    fn change(&mut self) {
        let port = 20_000 + self.changes % 500;
        let peer = format!("udp4://127.0.0.1:{port}");
        let worker = if self.changes.is_multiple_of(2) { "0" } else { "1" };
        let forwarder = &self.forwarder;
        // What is changed may have gone meanwhile, or not be settled yet: any answer will do.
        let run = |arguments: &[&str]| {
            let output = forwarder.run(arguments);
            assert!(
                output.status.code().is_some_and(|code| code < 100),
                "{arguments:?}: {output:?}"
            );
        };
        match self.changes % 12 {
            0 => run(&["strategy", "set", "/soak", "/localhost/nfd/strategy/multicast"]),
            1 => run(&["face", "create", &peer]),
            2 => run(&["route", "add", "/soak/mixed", &peer, "--cost", "5000"]),
            3 => run(&["cs", "erase", "/soak/mixed"]),
            4 => run(&["strategy", "set", "/soak", "/localhost/nfd/strategy/asf"]),
            5 => run(&["route", "add", "/soak/other", &peer]),
            6 => run(&["ndt", "set", "/soak/often", worker]),
            7 => run(&["route", "remove", "/soak/mixed", &peer]),
            8 => run(&["strategy", "unset", "/soak"]),
            9 => run(&["ndt", "balance"]),
            10 => run(&["cs", "erase", "/"]),
            _ => self.destroy_udp_faces(),
        }
        self.changes += 1;
    }

    /// Consumers over UDP leave their faces behind, to end when they were idle for long enough.
    fn destroy_udp_faces(&self) {
        let faces = self.forwarder.json(&["face", "list"]);
        for face in faces.as_array().unwrap() {
            let remote = face["remote_uri"].as_str().unwrap();
            if remote.starts_with("udp4://127.0.0.1") {
                let id = face["face_id"].to_string();
                let _ = self.forwarder.run(&["face", "destroy", &id]);
            }
        }
    }

    /// Waits until nothing is pending; the outcomes of the Interests add up then.
    fn come_to_rest(&self) {
        let workers = wait_until("the end of all Interests", || {
            let workers = self.forwarder.json(&["workers", "--duration", "10ms"]);
            let workers = workers.as_array().unwrap().clone();
            let is_at_rest = |worker: &Value| worker["total"]["interests"]["pending"] == 0;
            workers.iter().all(is_at_rest).then_some(workers)
        });
        for worker in &workers {
            let account = worker["total"]["interests"].as_object().unwrap();
            let entered = account["entered"].as_u64().unwrap();
            let all: u64 = account.values().map(|count| count.as_u64().unwrap()).sum();
            assert_eq!(entered, all - entered, "round {}: {account:?}", self.round);
            assert_eq!(worker["total"]["pit_entries"], 0, "round {}", self.round);
            assert!(entered > 0 && account["satisfied"] != 0, "{account:?}");
        }
    }

    /// Faces, and next hops of all routes: what is left when all have gone.
    fn left(&self) -> (usize, usize) {
        wait_until("the faces of those that were killed to go", || {
            let faces = self.forwarder.json(&["face", "list"]).as_array().unwrap().len();
            let routes = self.forwarder.json(&["route", "list"]).as_array().unwrap().len();
            let again = self.forwarder.json(&["face", "list"]).as_array().unwrap().len();
            (faces == again).then_some((faces, routes))
        })
    }
}

fn duration() -> Duration {
    let seconds = std::env::var("SOAK_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(seconds.unwrap_or(10))
}

fn median(mut samples: Vec<u64>) -> u64 {
    samples.sort_unstable();
    samples[samples.len() / 2]
}

#[test]
fn no_packet_or_memory_is_lost_while_everything_changes() {
    let (duration, begin) = (duration(), now());
    let mut soak = Soak::start();
    let mut memory = Vec::new();
    let mut left = Vec::new();
    while Instant::elapsed(&begin) < duration {
        soak.round();
        memory.push(soak.forwarder.resident_kib());
        left.push(soak.left());
    }
    assert!(left.iter().all(|one| *one == left[0]), "faces and routes after each round: {left:?}");
    let third = memory.len() / 3;
    println!("{} rounds, {} changes, KiB after each: {memory:?}", soak.round, soak.changes);
    let workers = soak.forwarder.json(&["workers", "--duration", "10ms"]);
    for worker in workers.as_array().unwrap() {
        println!("{}", worker["total"]);
    }
    if duration >= LONG {
        let earlier = median(memory[third..2 * third].to_vec());
        let later = median(memory[2 * third..].to_vec());
        println!("memory: {earlier} KiB, then {later} KiB");
        assert!(later <= earlier + RISE_MAX_KIB, "from {earlier} KiB to {later} KiB");
    }
    soak.producers.iter().for_each(|producer| producer.signal(Signal::TERM));
    soak.producers.iter_mut().for_each(|producer| assert!(producer.wait().success()));
    soak.forwarder.process.signal(Signal::TERM);
    assert!(soak.forwarder.process.wait().success(), "{}", soak.forwarder.process.everything());
}
