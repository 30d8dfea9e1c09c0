//! The metrics of the HTTP API, scraped by Prometheus.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use namewire_tests::{
    Forwarder, Process, Settings, TIMEOUT, run_to_end, skip_unless_found, wait_until,
};
use serde_json::Value;

/// The response to a GET request without its head.
fn body_of(address: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    // The protocol version without chunks.
    let head = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(head.as_bytes()).ok()?;
    let mut response = String::new();
    stream.read_to_string(&mut response).ok()?;
    let (head, body) = response.split_once("\r\n\r\n")?;
    head.contains(" 200 ").then(|| body.to_owned())
}

/// A forwarder with the HTTP API, a permanent face and some traffic, and the address of the API.
fn forwarder_with_traffic() -> (Forwarder, Process, String) {
    let forwarder = Settings::new().udp().argument("--http=127.0.0.1:0").start();
    let printed = forwarder.process.stdout();
    let (_, address) = printed.split_once("HTTP API: http://").expect("an announcement");
    let address = address.split('/').next().unwrap().to_owned();
    let mut server = forwarder.spawn("server", &["ping-server", "/metrics-test"]);
    server.wait_for_output("/metrics-test");
    let _ = forwarder.output(&["ping", "/metrics-test", "-c", "3", "-i", "10ms"]);
    let _ =
        forwarder.output(&["face", "create", "udp4://127.0.0.1:7", "--persistency", "permanent"]);
    (forwarder, server, address)
}

fn dist() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("dist/prometheus")
}

fn promtool(arguments: &[&str], input: &str) {
    let mut command = Command::new("promtool");
    command.args(arguments).current_dir(dist());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed);
    assert!(output.status.success(), "promtool {arguments:?}: {printed}");
}

#[test]
fn metrics_and_rules_pass_the_checks_of_promtool() {
    if !skip_unless_found("promtool") {
        return;
    }
    let (_forwarder, _server, address) = forwarder_with_traffic();
    let metrics = body_of(&address, "/metrics").expect("metrics");
    promtool(&["check", "metrics"], &metrics);
    promtool(&["check", "config", "prometheus.yml"], "");
    promtool(&["test", "rules", "alerts_test.yml"], "");
    let face = metrics.lines().find(|line| line.starts_with("namewire_face_info{"));
    assert!(face.is_some_and(|face| face.contains("remote=\"udp4://127.0.0.1:7\"")), "{face:?}");
}

/// The result of a query of Prometheus' API.
fn api(address: &str, path: &str) -> Option<Value> {
    let response: Value = serde_json::from_str(&body_of(address, path)?).ok()?;
    (response["status"] == "success").then(|| response["data"].clone())
}

#[test]
fn prometheus_scrapes_the_forwarder_and_evaluates_the_alert_rules() {
    if !skip_unless_found("prometheus") {
        return;
    }
    let (forwarder, _server, address) = forwarder_with_traffic();
    let directory = forwarder.directory().join("prometheus");
    std::fs::create_dir(&directory).unwrap();
    let config = std::fs::read_to_string(dist().join("prometheus.yml")).unwrap();
    let config = config.replace("127.0.0.1:6380", &address).replace("15s", "1s");
    std::fs::write(directory.join("prometheus.yml"), config).unwrap();
    std::fs::copy(dist().join("alerts.yml"), directory.join("alerts.yml")).unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let own = format!("127.0.0.1:{port}");
    let mut command = Command::new("prometheus");
    command.arg(format!("--config.file={}", directory.join("prometheus.yml").display()));
    command.arg(format!("--storage.tsdb.path={}", directory.join("data").display()));
    command.arg(format!("--web.listen-address={own}"));
    let _prometheus = Process::start("prometheus", command, &directory);
    let query = "/api/v1/query?query=sum(namewire_worker_in_interests_total)";
    wait_until("a scrape", || {
        let data = api(&own, query)?;
        let count: f64 = data["result"][0]["value"][1].as_str()?.parse().ok()?;
        (count >= 3.0).then_some(())
    });
    wait_until("all rules to be evaluated", || {
        let groups = api(&own, "/api/v1/rules")?;
        let rules = groups["groups"][0]["rules"].as_array()?.clone();
        let bad = rules.iter().find(|rule| rule["health"] == "err");
        assert!(bad.is_none(), "{bad:?}");
        rules.iter().all(|rule| rule["health"] == "ok").then_some(())
    });
}

#[test]
fn addresses_of_other_hosts_are_refused_at_the_start() {
    let mut command = Command::new(namewire_tests::program());
    command.args(["run", "--no-udp", "--no-tcp", "--socket=/dev/null/x", "--http=192.0.2.1:6380"]);
    let output = run_to_end(command);
    let printed = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{printed}");
    assert!(
        printed.contains("--http: ") && printed.contains("192.0.2.1:6380 is not a loopback"),
        "{printed}"
    );
}
