//! The traffic generator against the forwarder, with real sockets.
#![allow(clippy::unwrap_used, reason = "test code")]

use namewire_tests::{Forwarder, Process, Settings};
use rustix::process::Signal;
use serde_json::Value;

/// Runs a consumer with these arguments against a producer; what the consumer found, and the producer.
fn measure(forwarder: &Forwarder, producer: &[&str], consumer: &[&str]) -> (Value, Value) {
    let arguments = [&["traffic", "producer"], producer].concat();
    let mut producer: Process =
        forwarder.spawn("producer", &[&arguments[..], &["--json"]].concat());
    namewire_tests::wait_until("the routes", || {
        let routes = forwarder.output(&["route", "list"]);
        routes.contains("/load").then_some(())
    });
    let found = forwarder.json(&[&["traffic", "consumer"], consumer].concat());
    producer.signal(Signal::TERM);
    assert!(producer.wait().success());
    (found, serde_json::from_str(&producer.stdout()).unwrap())
}

fn sum(report: &Value, key: &str) -> u64 {
    report["patterns"].as_array().unwrap().iter().map(|one| one[key].as_u64().unwrap()).sum()
}

#[test]
fn every_interest_of_a_window_is_answered_over_every_transport() {
    let forwarder = Settings::new().tcp().udp().start();
    let udp = format!("udp4://127.0.0.1:{}", forwarder.port());
    let addresses = [forwarder.unix(), forwarder.tcp(), udp];
    for address in &addresses {
        let transport = ["/load", "--transport", address];
        let consumer = [
            &transport[..],
            &["--count", "5000", "--window", "32", "--faces", "3"],
            &["--threads", "2"],
        ]
        .concat();
        let (found, answered) = measure(&forwarder, &transport, &consumer);
        assert_eq!(sum(&found, "sent"), 5000, "{address}: {found}");
        assert_eq!(sum(&found, "satisfied"), 5000, "{address}: {found}");
        assert_eq!(sum(&answered, "data"), 5000, "{address}: {answered}");
        assert_eq!(found["unexpected"], 0);
        let latency = &found["patterns"][0]["latency"];
        assert!(latency["p50_us"].as_f64().unwrap() <= latency["max_us"].as_f64().unwrap());
        let _ = forwarder.json(&["cs", "erase", "/load"]);
        namewire_tests::wait_until("the route to go", || {
            let routes = forwarder.output(&["route", "list"]);
            (!routes.contains("/load")).then_some(())
        });
    }
}

/// No connection ends with a producer over UDP: it takes its face and route back, and lets the next one be.
/// Its route has a period of a minute at most, after which it expires where the producer was killed.
#[test]
fn producer_over_udp_unregisters_its_prefix_at_the_end() {
    let forwarder = Settings::new().udp().start();
    let udp = format!("udp4://127.0.0.1:{}", forwarder.port());
    let transport = ["/load", "--transport", &udp];
    let faces = || forwarder.json(&["face", "list"]);
    let made = |faces: &Value| {
        let faces = faces.as_array().unwrap().iter();
        faces.filter(|face| face["persistency"] == "persistent").count()
    };
    for count in [300, 400] {
        let count_text = format!("{count}");
        let consumer = [&transport[..], &["--count", &count_text]].concat();
        let (found, answered) = measure(&forwarder, &transport, &consumer);
        assert_eq!(sum(&found, "satisfied"), count, "{found}");
        assert_eq!(sum(&answered, "data"), count, "{answered}");
        assert!(!forwarder.output(&["route", "list"]).contains("/load"));
        assert_eq!(made(&faces()), 0, "{}", faces());
    }
    let _producer = forwarder.spawn("last", &["traffic", "producer", "/load", "--transport", &udp]);
    let route = namewire_tests::wait_until("the route", || {
        let routes = forwarder.json(&["route", "list"]);
        routes.as_array().unwrap().iter().find(|route| route["prefix"] == "/load").cloned()
    });
    assert!(route["expiration_period_ms"].as_u64().is_some_and(|left| left <= 60_000), "{route}");
}

/// Long Data are cut by the producer, put together by the forwarder, cut by it, and put together by the
/// consumer.
#[test]
fn packets_longer_than_a_datagram_travel_in_fragments() {
    let forwarder = Settings::new().udp().toml("[faces]\nmtu = \"1400B\"\n").start();
    let udp = format!("udp4://127.0.0.1:{}", forwarder.port());
    let transport = ["/load", "--transport", &udp, "--mtu", "1000B"];
    let producer = [&transport[..], &["--payload", "4000B"]].concat();
    let consumer = [&transport[..], &["--count", "200", "--window", "4"]].concat();
    let (found, answered) = measure(&forwarder, &producer, &consumer);
    assert_eq!(sum(&found, "satisfied"), 200, "{found}");
    assert_eq!(sum(&answered, "data"), 200, "{answered}");
}

#[test]
fn a_scenario_mixes_patterns_and_each_interest_ends_once() {
    let forwarder = Settings::new().start();
    let directory = forwarder.directory();
    let producer = directory.join("producer.toml");
    std::fs::write(
        &producer,
        "[[pattern]]\nprefix = \"/load/refused\"\npayload = [\"100B\", \"4kB\"]\nfreshness = \"50ms\"\n\
         nack_ratio = 0.2\n\
         [[pattern]]\nprefix = \"/load/silent\"\nsilence_ratio = 0.5\n\
         [[pattern]]\nprefix = \"/load\"\nsuffix = \"/v\"\n",
    )
    .unwrap();
    let consumer = directory.join("consumer.toml");
    std::fs::write(
        &consumer,
        "rate = 5000.0\narrivals = \"poisson\"\n\
         [[pattern]]\nprefix = \"/load/refused\"\nlifetime = \"30s\"\nhop_limit = 5\n\
         [[pattern]]\nprefix = \"/load/silent\"\nlifetime = \"200ms\"\n\
         [[pattern]]\nprefix = \"/load/often\"\nlifetime = \"30s\"\nmust_be_fresh = true\ncomponents = 6\n\
         names = { zipf = { count = 100, exponent = 1.0 } }\n\
         [[pattern]]\nprefix = \"/load/below\"\nlifetime = \"30s\"\ncan_be_prefix = true\nweight = 2.0\n",
    )
    .unwrap();
    let (found, answered) = measure(
        &forwarder,
        &["--scenario", producer.to_str().unwrap()],
        &["--scenario", consumer.to_str().unwrap(), "--count", "4000", "--faces", "2"],
    );
    assert_eq!(sum(&found, "sent"), 4000);
    let ends = ["satisfied", "nacked", "timed_out"].map(|key| sum(&found, key));
    assert_eq!(ends.iter().sum::<u64>(), 4000, "{found}");
    let share = |pattern: &Value, key: &str, of: &str| {
        pattern[key].as_f64().unwrap() / pattern[of].as_f64().unwrap()
    };
    // On a busy machine, some Interests are dropped.
    let [refused, silent, others @ ..] = &found["patterns"].as_array().unwrap()[..] else {
        panic!("{found}")
    };
    assert!((0.14..0.3).contains(&share(refused, "nacked", "sent")), "{refused}");
    assert!(share(silent, "timed_out", "sent") > 0.4, "{silent}");
    for pattern in others {
        assert!(share(pattern, "satisfied", "sent") > 0.9, "{pattern}");
    }
    assert!(found["elapsed_ms"].as_f64().unwrap() > 600.0, "an open loop keeps its rate: {found}");
    let refusing = &answered["patterns"][0];
    assert!((0.14..0.26).contains(&share(refusing, "nacks", "interests")), "{answered}");
    let silent = &answered["patterns"][1];
    assert!((0.4..0.6).contains(&share(silent, "silent", "interests")), "{answered}");
}

#[test]
fn number_without_unit_in_a_scenario_is_rejected_with_the_correct_form() {
    let forwarder = Settings::new().start();
    let scenario = forwarder.directory().join("scenario.toml");
    for (role, line, mend) in [
        ("consumer", "lifetime = 200", "`200` has no unit: write \"200ms\" or \"200s\""),
        ("consumer", "lifetime = \"200\"", "`200` has no unit: write 200ms"),
        ("producer", "payload = [\"1kB\", 800]", "`800` has no unit: write \"800B\""),
        ("producer", "payload = [\"1kb\"]", "kb is not a unit; the units are B, KiB"),
        ("producer", "freshness = 1.5", "`1.5` has no unit: write \"1.5ms\" or \"1.5s\""),
        ("producer", "freshness = \"10us\"", "a whole number of milliseconds"),
    ] {
        std::fs::write(&scenario, format!("[[pattern]]\nprefix = \"/load\"\n{line}\n")).unwrap();
        let path = scenario.to_str().unwrap();
        let refused = forwarder.run(&["traffic", role, "--scenario", path]);
        assert_eq!(refused.status.code(), Some(2), "{line}: {refused:?}");
        let reason = String::from_utf8(refused.stderr).unwrap();
        assert!(reason.contains(mend) && reason.contains(path), "{line}: {reason}");
        assert!(reason.contains(line), "the message shows the line: {reason}");
    }
}

#[test]
fn measurements_are_shown_when_the_forwarder_ends_first() {
    for threads in ["1", "2"] {
        let forwarder = Settings::new().start_program();
        let threads = ["--threads", threads, "--faces", threads];
        let spawn = |name: &str, arguments: &[&str]| {
            forwarder.spawn(
                name,
                &[&["traffic", name, "/load", "--json"], &threads[..], arguments].concat(),
            )
        };
        let mut producer = spawn("producer", &[]);
        namewire_tests::wait_until("the routes", || {
            forwarder.output(&["route", "list"]).contains("/load").then_some(())
        });
        let mut consumer = spawn("consumer", &["--window", "8", "--duration", "10min"]);
        namewire_tests::wait_until("Interests", || {
            let workers = forwarder.json(&["workers", "--duration", "10ms"]);
            let entered = workers[0]["total"]["interests"]["entered"].as_u64().unwrap();
            (entered > 50).then_some(())
        });
        forwarder.process.signal(Signal::KILL);
        for (process, key) in [(&mut consumer, "satisfied"), (&mut producer, "data")] {
            assert_eq!(process.wait().code(), Some(1), "{}", process.everything());
            let reported = process.stderr();
            assert!(reported.contains("the connection to the forwarder: "), "{reported}");
            let found: Value = serde_json::from_str(&process.stdout()).unwrap();
            assert!(sum(&found, key) > 0, "{found}");
            assert!(found["elapsed_ms"].as_f64().unwrap() > 0.0, "{found}");
        }
    }
}

#[test]
fn missing_answer_has_its_own_exit_status() {
    let forwarder = Settings::new().start();
    let refused = forwarder.run(&["traffic", "consumer", "/nobody", "--count", "10", "--json"]);
    assert_eq!(refused.status.code(), Some(4));
    let found: Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert_eq!(sum(&found, "nacked"), 10);
    let wrong = forwarder.run(&["traffic", "consumer", "/a", "--rate", "0"]);
    assert_eq!(wrong.status.code(), Some(2));
}
