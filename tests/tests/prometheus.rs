//! The metrics of the HTTP API, scraped by Prometheus.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use namewire_tests::{
    ForwarderProcess, Process, Settings, TIMEOUT, run_to_end, skip_unless_file, skip_unless_found,
    wait_until,
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
fn forwarder_with_traffic() -> (ForwarderProcess, Process, String) {
    let forwarder = Settings::new().udp().argument("--http=127.0.0.1:0").start_program();
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

/// Prometheus with the configuration of `dist/prometheus`, which has scraped the API at `address`, and its own address.
fn start_prometheus(forwarder: &ForwarderProcess, address: &str) -> (Process, String) {
    let directory = forwarder.directory().join("prometheus");
    std::fs::create_dir(&directory).unwrap();
    let config = std::fs::read_to_string(dist().join("prometheus.yml")).unwrap();
    let config = config.replace("127.0.0.1:6380", address).replace("15s", "1s");
    std::fs::write(directory.join("prometheus.yml"), config).unwrap();
    std::fs::copy(dist().join("alerts.yml"), directory.join("alerts.yml")).unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let own = format!("127.0.0.1:{port}");
    let mut command = Command::new("prometheus");
    command.arg(format!("--config.file={}", directory.join("prometheus.yml").display()));
    command.arg(format!("--storage.tsdb.path={}", directory.join("data").display()));
    command.arg(format!("--web.listen-address={own}"));
    command.arg("--web.enable-remote-write-receiver");
    let process = Process::start("prometheus", command, &directory);
    let query = "/api/v1/query?query=sum(namewire_worker_in_interests_total)";
    wait_until("a scrape", || {
        let data = api(&own, query)?;
        let count: f64 = data["result"][0]["value"][1].as_str()?.parse().ok()?;
        (count >= 3.0).then_some(())
    });
    (process, own)
}

#[test]
fn prometheus_scrapes_the_forwarder_and_evaluates_the_alert_rules() {
    if !skip_unless_found("prometheus") {
        return;
    }
    let (forwarder, _server, address) = forwarder_with_traffic();
    let (_prometheus, own) = start_prometheus(&forwarder, &address);
    wait_until("all rules to be evaluated", || {
        let groups = api(&own, "/api/v1/rules")?;
        let rules = groups["groups"][0]["rules"].as_array()?.clone();
        let bad = rules.iter().find(|rule| rule["health"] == "err");
        assert!(bad.is_none(), "{bad:?}");
        rules.iter().all(|rule| rule["health"] == "ok").then_some(())
    });
}

/// The dashboards of `dist/grafana`, by their paths.
fn dashboards() -> Vec<(PathBuf, Value)> {
    let directory = dist().parent().unwrap().join("grafana/dashboards");
    let files = std::fs::read_dir(directory).unwrap().map(|file| file.unwrap().path());
    let parse = |path: PathBuf| {
        let json = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        (path, json)
    };
    files.map(parse).collect()
}

#[test]
fn dashboards_have_the_types_of_grafana() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/dashboards");
    let library = directory.join("node_modules/@grafana/schema/package.json");
    if !skip_unless_file(&library, "grafana-schema") {
        return;
    }
    let mut check = Command::new("node");
    check.arg(directory.join("check.mjs")).args(dashboards().into_iter().map(|(path, _)| path));
    let checked = check.output().unwrap();
    let printed = String::from_utf8_lossy(&checked.stdout);
    assert!(printed.contains("PASSED"), "{printed}{}", String::from_utf8_lossy(&checked.stderr));
}

/// A face whose peer has sent something that is not a packet, so that the face has dropped it.
fn face_that_drops(forwarder: &ForwarderProcess) -> UdpSocket {
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    let uri = format!("udp4://{}", peer.local_addr().unwrap());
    let _ = forwarder.output(&["face", "create", &uri, "--persistency", "permanent"]);
    peer.connect(("127.0.0.1", forwarder.port())).unwrap();
    peer.send(&[0x64; 20]).unwrap();
    peer
}

/// Transfers and traffic of commands that push their metrics: those that go on.
fn transfers_that_push(forwarder: &ForwarderProcess, prometheus: &str) -> Vec<Process> {
    let directory = forwarder.directory().join("dashboard");
    std::fs::create_dir(&directory).unwrap();
    let path = |name: &str| directory.join(name).display().to_string();
    std::fs::write(path("object"), vec![7; 100_000]).unwrap();
    std::fs::create_dir(path("served")).unwrap();
    // Longer than an interval, so that there are rates.
    std::fs::write(path("served/file"), vec![7; 60_000_000]).unwrap();
    let url = format!("http://{prometheus}/api/v1/write");
    let push = ["--metrics-push", &url, "--metrics-run", "r", "--metrics-interval", "100ms"];
    let start = |name: &str, arguments: &[&str], text: &str| {
        let mut process = forwarder.spawn(name, &[arguments, &push].concat());
        process.wait_for_output(text);
        process
    };
    let serve = start("serve", &["serve", &path("served"), "--prefix", "/files"], "serving ");
    let put = start("put", &["put", "/object", &path("object")], "published ");
    let producer = start("producer", &["traffic", "producer", "/load"], "responding");
    let consumer = ["traffic", "consumer", "/load", "--rate", "100"];
    let consumer = forwarder.spawn("consumer", &[&consumer[..], &push].concat());
    for command in [
        ["get", "/object", "-o", &path("got")],
        ["get", "/files/file", "-o", &path("fetched")],
        ["sync", "/files", &path("copy"), "--quiet"],
    ] {
        let _ = forwarder.output(&[&command[..], &push].concat());
    }
    vec![serve, put, producer, consumer]
}

#[test]
fn each_query_of_the_dashboards_returns_data_under_traffic() {
    if !skip_unless_found("prometheus") {
        return;
    }
    let (forwarder, _server, address) = forwarder_with_traffic();
    let _peer = face_that_drops(&forwarder);
    let _ping = forwarder.spawn("ping", &["ping", "/metrics-test", "-i", "20ms"]);
    let (_prometheus, own) = start_prometheus(&forwarder, &address);
    let _transfers = transfers_that_push(&forwarder, &own);
    let mut queries = 0;
    for (path, dashboard) in dashboards() {
        let panels = dashboard["panels"].as_array().unwrap();
        for target in panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten() {
            let expression = target["expr"].as_str().unwrap().replace("$__rate_interval", "1m");
            let expression = expression.replace("$instance", ".+").replace("$worker", ".+");
            let expression = expression.replace("$face", ".+");
            let expression = expression.replace("$host", ".+").replace("$run", ".*");
            let query = format!("/api/v1/query?query={}", percent_encoded(&expression));
            wait_until(&format!("data of {expression} in {}", path.display()), || {
                let data = api(&own, &query)?;
                (!data["result"].as_array()?.is_empty()).then_some(())
            });
            queries += 1;
        }
    }
    assert!(queries > 70, "{queries} queries");
}

/// `text` as a value in the query of a URL.
fn percent_encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// The metrics of a command that was started with `--metrics 127.0.0.1:0`.
fn metrics_of(command: &Process) -> String {
    let address = wait_until("the address of the metrics", || {
        let printed = command.stderr();
        let (_, rest) = printed.split_once("metrics at http://")?;
        Some(rest.split_once("/metrics")?.0.to_owned())
    });
    body_of(&address, "/metrics").expect("metrics")
}

#[test]
fn commands_serve_metrics_while_they_run() {
    let forwarder = Settings::new().start();
    let served = forwarder.directory().join("served");
    std::fs::create_dir(&served).unwrap();
    std::fs::write(served.join("file"), vec![7; 100_000]).unwrap();
    let metrics = ["--metrics", "127.0.0.1:0", "--metrics-run", "test"];
    let directory = served.display().to_string();
    let serve = [&["serve", &directory, "--prefix", "/files"][..], &metrics].concat();
    let mut server = forwarder.spawn("server", &serve);
    server.wait_for_output("serving ");
    let output = forwarder.directory().join("fetched").display().to_string();
    let _ = forwarder.output(&["get", "/files/file", "-o", &output, "--quiet"]);
    let producer = [&["traffic", "producer", "/load"][..], &metrics].concat();
    let mut producer = forwarder.spawn("producer", &producer);
    producer.wait_for_output("responding");
    let consumer = [&["traffic", "consumer", "/load", "--rate", "100"][..], &metrics].concat();
    let consumer = forwarder.spawn("consumer", &consumer);

    let of_server = metrics_of(&server);
    let content =
        of_server.lines().find(|line| line.starts_with("namewire_serve_content_bytes_total{"));
    let content = content.unwrap_or_else(|| panic!("{of_server}"));
    assert!(content.contains("run=\"test\"") && content.contains("host=\""), "{content}");
    assert!(content.ends_with(" 100000"), "{content}");
    // The figures of the generators follow once a second.
    for (command, sample) in [
        (&producer, "namewire_traffic_received_interests_total{"),
        (&consumer, "namewire_traffic_ended_interests_total{"),
    ] {
        wait_until("figures of the traffic", || {
            let printed = metrics_of(command);
            let line = printed.lines().find(|line| line.starts_with(sample))?;
            (!line.ends_with(" 0")).then_some(())
        });
    }
    if skip_unless_found("promtool") {
        for command in [&server, &producer, &consumer] {
            promtool(&["check", "metrics"], &metrics_of(command));
        }
    }
}

#[test]
fn commands_push_metrics_while_they_run_and_at_their_end() {
    if !skip_unless_found("prometheus") {
        return;
    }
    let (forwarder, _server, address) = forwarder_with_traffic();
    let (_prometheus, own) = start_prometheus(&forwarder, &address);
    let url = format!("http://{own}/api/v1/write");
    let push = ["--metrics-push", &url, "--metrics-run", "push"];
    let served = forwarder.directory().join("pushed");
    std::fs::create_dir(&served).unwrap();
    std::fs::write(served.join("file"), vec![7; 100_000]).unwrap();
    let directory = served.display().to_string();
    let often = ["--metrics-interval", "200ms"];
    let serve = [&["serve", &directory, "--prefix", "/pushed"][..], &push, &often].concat();
    let mut server = forwarder.spawn("file-server", &serve);
    server.wait_for_output("serving ");
    // The interval of these is longer than they run.
    let fetched = forwarder.directory().join("fetched").display().to_string();
    let get = ["get", "/pushed/file", "-o", &fetched, "--quiet", "--range", "0-9999"];
    let _ = forwarder.output(&[&get[..], &push].concat());
    let put = ["put", "/object", &fetched, "--until-idle", "100ms", "--quiet"];
    let mut put = forwarder.spawn("put", &[&put[..], &push].concat());
    wait_until("the object", || {
        forwarder.run(&["get", "/object", "-o", "-"]).status.success().then_some(())
    });
    assert!(put.wait().success(), "{}", put.everything());
    let count = |metric: &str| {
        let query = format!("/api/v1/query?query={metric}%7Brun%3D%22push%22%7D");
        let data = api(&own, &query)?;
        let labels = &data["result"][0]["metric"];
        assert!(labels.is_null() || labels["job"] == "namewire", "{labels}");
        data["result"][0]["value"][1].as_str()?.parse::<f64>().ok()
    };
    for metric in [
        "namewire_serve_content_bytes_total",
        "namewire_get_content_bytes_total",
        "namewire_put_content_bytes_total",
    ] {
        wait_until(metric, || (count(metric)? >= 10_000.0).then_some(()));
    }
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
