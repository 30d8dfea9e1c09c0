//! Several workers, as an operator sees them.
#![allow(clippy::unwrap_used, reason = "test code")]

use namewire_tests::{Forwarder, Settings, wait_until};
use rustix::process::Signal;

/// A forwarder of several workers, whatever other tests have.
fn start(workers: usize) -> Forwarder {
    Settings::new().workers(workers).start()
}

#[test]
fn file_is_fetched_while_its_names_move_between_workers() {
    let forwarder = start(3);
    let file = forwarder.directory().join("object");
    std::fs::write(&file, namewire_tests::noise(1, 4_000_000)).unwrap();
    let path = file.display().to_string();
    let mut put = forwarder.spawn("put", &["put", "/hot/file", &path, "--segment-size", "1000B"]);
    put.wait_for_output("published");
    let copy = forwarder.directory().join("copy");
    let copy_path = copy.display().to_string();
    let mut rounds = 0;
    // While earlier moves have not settled, nothing is split.
    wait_until("the split", || {
        let _ = forwarder.output(&["get", "/hot/file", "-o", &copy_path, "--quiet"]);
        assert!(std::fs::read(&file).unwrap() == std::fs::read(&copy).unwrap(), "round {rounds}");
        std::fs::remove_file(&copy).unwrap();
        let _ = forwarder.json(&["ndt", "balance"]);
        let _ = forwarder.json(&["cs", "erase", "/hot"]);
        let list = forwarder.json(&["ndt", "list"]);
        assert_eq!(list["loads"].as_array().unwrap().len(), 3);
        let entries = list["entries"].as_array().unwrap();
        rounds += 1;
        let is_split = entries.iter().any(|entry| !entry["depth"].is_null());
        // Some rounds are fetched while it is.
        (is_split && rounds >= 3).then_some(())
    });
}

#[test]
fn ndt_entry_moves_to_the_given_worker() {
    let forwarder = start(2);
    for worker in ["1", "0"] {
        // Until the last move has settled, there is no other.
        wait_until("the move", || {
            let moved = forwarder.run(&["ndt", "set", "/a/b", worker]);
            moved.status.success().then_some(())
        });
        let list = forwarder.output(&["ndt", "list"]);
        assert!(list.contains("dispatched by 2 components"), "{list}");
    }
    let refused = forwarder.run(&["ndt", "set", "/a/b", "2"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("no such worker"));
    let workers = forwarder.json(&["workers", "--duration", "200ms"]);
    assert_eq!(workers.as_array().unwrap().len(), 2);
    for worker in workers.as_array().unwrap() {
        assert!(worker["total"]["rounds"].as_u64().unwrap() > 0, "it never ran: {worker}");
    }
}

#[test]
fn no_packet_of_a_large_window_is_lost_between_workers() {
    // On a slow machine, Interests may well wait for longer than is good.
    let settings = Settings::new().workers(2);
    let forwarder = settings.toml("[overload]\nshed = \"never\"").start();
    let transport = ["--transport", &forwarder.unix()];
    let producer = [&["traffic", "producer", "/load"], &transport[..]].concat();
    let mut producer = forwarder.spawn("producer", &producer);
    wait_until("the route", || {
        forwarder.output(&["route", "list"]).contains("/load").then_some(())
    });
    let load = ["--count", "20000", "--window", "2048", "--faces", "1", "--lifetime", "60s"];
    let consumer = [&["traffic", "consumer", "/load"], &transport[..], &load].concat();
    let found = forwarder.json(&consumer);
    let pattern = &found["patterns"][0];
    assert_eq!(pattern["sent"], 20_000, "{found}");
    assert_eq!(pattern["satisfied"], 20_000, "{found}");
    producer.signal(Signal::TERM);
    assert!(producer.wait().success());
    let workers = forwarder.json(&["workers", "--duration", "10ms"]);
    for worker in workers.as_array().unwrap() {
        assert!(worker["total"]["crossings_sent"].as_u64().unwrap() > 1000, "{worker}");
        assert_eq!(worker["total"]["ring_full"], 0, "{worker}");
    }
}

#[test]
fn service_times_are_measured_while_packets_flow() {
    let forwarder = start(2);
    let arguments = ["trace", "latency", "--duration", "1s", "--json"];
    let mut trace = forwarder.spawn("trace", &arguments);
    while trace.is_running() {
        let _ = forwarder.output(&["status"]);
    }
    assert!(trace.wait().success(), "{}", trace.everything());
    let report: serde_json::Value = serde_json::from_str(&trace.stdout()).unwrap();
    assert_eq!(report["workers"].as_array().unwrap().len(), 2);
    for stage in ["interest_dispatch", "data_dispatch", "interest_forwarding", "data_forwarding"] {
        let histogram = &report["total"][stage];
        let buckets = histogram["buckets"].as_array().unwrap();
        let sum: u64 = buckets.iter().map(|bucket| bucket["count"].as_u64().unwrap()).sum();
        assert!(sum > 0 && histogram["count"] == sum, "{stage}: {histogram}");
        assert!(histogram["p50_ns"].as_u64() <= histogram["p99_ns"].as_u64(), "{histogram}");
    }
    let table = forwarder.output(&["trace", "latency", "--duration", "10ms"]);
    assert!(table.contains("Data forwarding"), "{table}");
}

#[test]
fn single_worker_owns_all_names() {
    let forwarder = start(1);
    let refused = forwarder.run(&["ndt", "list"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("one worker"));
    let workers = forwarder.output(&["workers", "--duration", "200ms"]);
    assert!(workers.contains("busy"), "{workers}");
}
