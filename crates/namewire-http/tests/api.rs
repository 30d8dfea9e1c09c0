//! The HTTP API of a forwarder in this process, over real connections.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::Ordering;
use std::time::Duration;

use namewire_config::{Config, Http};
use namewire_daemon::{Forwarder, Hooks};
use namewire_http::{HttpListener, HttpServer};

/// A forwarder with the API. Fields are dropped in this order.
struct Served {
    server: Option<HttpServer>,
    forwarder: Option<Forwarder>,
    address: SocketAddr,
}

fn settings() -> Http {
    Http { enabled: true, listen: vec!["127.0.0.1:0".parse().unwrap()], ..Http::default() }
}

fn serve(settings: &Http) -> Served {
    let mut config = Config::default();
    let listeners = &mut config.listeners;
    (listeners.unix.enabled, listeners.tcp.enabled, listeners.udp.enabled) = (false, false, false);
    config.control.enabled = false;
    let forwarder = Forwarder::start(&config, Hooks::none().unwrap()).unwrap();
    let listener = HttpListener::open(settings).unwrap().unwrap();
    let address = listener.addresses()[0];
    let ready = listener.ready();
    let server = listener.serve(forwarder.operations()).unwrap();
    ready.store(true, Ordering::Release);
    Served { server: Some(server), forwarder: Some(forwarder), address }
}

/// The response to bytes on a connection of their own.
fn exchange(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

impl Served {
    fn request(&self, line: &str, fields: &str) -> String {
        let address = self.address;
        let head =
            format!("{line} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{fields}\r\n");
        exchange(address, &head)
    }

    fn status(&self, line: &str, fields: &str) -> u16 {
        status(&self.request(line, fields))
    }
}

fn status(response: &str) -> u16 {
    response.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0)
}

#[test]
fn metrics_have_every_counter_of_a_worker() {
    let served = serve(&settings());
    let response = served.request("GET /metrics", "");
    assert_eq!(status(&response), 200, "{response}");
    assert!(response.contains("content-type: text/plain; version=0.0.4"), "{response}");
    let declared = serde_json::to_value(namewire_control::WorkerStatistics::default()).unwrap();
    // Sums of counters with a label, and what is no counter.
    let others = ["dropped", "drops", "crossings_dropped", "burst_sizes", "node"];
    for (name, value) in declared.as_object().unwrap() {
        let names: Vec<String> = match value.as_object() {
            _ if others.contains(&name.as_str()) => continue,
            Some(set) => set.keys().map(|key| format!("{name}_{key}")).collect(),
            None => vec![name.clone()],
        };
        for name in names {
            let words: Vec<_> =
                name.split('_').filter(|word| *word != "bytes" && *word != "ns").collect();
            let start = format!("namewire_worker_{}", words.join("_"));
            let is_sample = |line: &str| {
                let rest = line.strip_prefix(&start)?;
                let rest =
                    rest.strip_prefix("_bytes").or(rest.strip_prefix("_seconds")).unwrap_or(rest);
                rest.strip_prefix("_total").unwrap_or(rest).strip_prefix("{worker=\"0\"} ")
            };
            assert!(response.lines().any(|line| is_sample(line).is_some()), "{name} is missing");
        }
    }
    assert!(response.contains(
        "\nnamewire_worker_dropped_packets_total{worker=\"0\",reason=\"duplicate_nonce\"} 0\n"
    ));
}

#[test]
fn openmetrics_is_negotiated() {
    let served = serve(&settings());
    let response =
        served.request("GET /metrics", "Accept: application/openmetrics-text;version=1.0.0\r\n");
    assert!(
        response.contains("content-type: application/openmetrics-text; version=1.0.0"),
        "{response}"
    );
    assert!(response.ends_with("\n# EOF\n"), "{response}");
}

#[test]
fn health_and_readiness_follow_the_forwarder() {
    let mut served = serve(&settings());
    for path in ["/health", "/ready"] {
        let response = served.request(&format!("GET {path}"), "");
        assert_eq!(status(&response), 200, "{path}: {response}");
        assert!(response.ends_with("ok\n"), "{response}");
    }
    served.forwarder.take().unwrap().shut_down().unwrap();
    for path in ["/health", "/ready", "/metrics"] {
        let response = served.request(&format!("GET {path}"), "");
        assert_eq!(status(&response), 503, "{path}: {response}");
        assert!(response.contains("the forwarder is stopping"), "{response}");
    }
    let address = served.address;
    drop(served.server.take());
    assert!(TcpStream::connect(address).is_err(), "nothing listens any more");
}

#[test]
fn requests_that_are_not_allowed_are_refused_and_counted() {
    let served = serve(&settings());
    let address = served.address;
    for (line, fields, expected) in [
        ("GET /", "", 404),
        ("POST /metrics", "", 405),
        ("DELETE /health", "", 405),
        ("GET /metrics", "Origin: https://evil.example\r\n", 403),
        ("GET /metrics", "Origin: null\r\n", 403),
        ("GET /metrics", "Host: evil.example\r\n", 400),
        ("GET http://evil.example/metrics", "", 421),
    ] {
        assert_eq!(served.status(line, fields), expected, "{line} {fields}");
    }
    for host in ["rebound.example", "192.0.2.1:6380", "0.0.0.0:6380"] {
        let head = format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        assert_eq!(status(&exchange(address, &head)), 421, "{host}");
    }
    assert_eq!(status(&exchange(address, "GET /metrics HTTP/1.0\r\n\r\n")), 400);
    let long = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(20 << 10));
    assert!([400, 414, 431].contains(&status(&exchange(address, &long))));
    let fields = "X: y\r\n".repeat(100);
    assert_eq!(served.status("GET /metrics", &fields), 431);
    let response = served.request("GET /metrics", "");
    assert!(response.contains("\nnamewire_http_refused_host_total 5\n"), "{response}");
    assert!(response.contains("\nnamewire_http_refused_origin_total 2\n"), "{response}");
    assert!(response.contains("\nnamewire_http_refused_other_total 3\n"), "{response}");
}

#[test]
fn responses_are_protected_against_pages() {
    let dashboard = "https://dashboard.example";
    let served = serve(&Http { origins: vec![dashboard.parse().unwrap()], ..settings() });
    let response = served.request("GET /health", "");
    for field in [
        "x-content-type-options: nosniff",
        "cross-origin-resource-policy: same-origin",
        "content-security-policy: default-src 'none'; frame-ancestors 'none'",
        "cache-control: no-store",
    ] {
        assert!(response.contains(field), "{field}: {response}");
    }
    assert!(!response.contains("access-control-allow-origin"), "{response}");
    let response = served.request("GET /health", &format!("Origin: {dashboard}\r\n"));
    assert!(
        response.contains(&format!("access-control-allow-origin: {dashboard}\r\n")),
        "{response}"
    );
}

#[test]
fn incomplete_heads_are_disconnected() {
    let served = serve(&settings());
    // The server ends the connection: the read returns.
    let response = exchange(served.address, "GET /metrics HTTP/1.1\r\nHost: loc");
    assert!(response.is_empty() || status(&response) == 408, "{response}");
}

/// More connections than the server takes, which send nothing: the others wait until these are closed.
#[test]
fn many_idle_connections_end_and_others_are_served() {
    let served = serve(&settings());
    let idle: Vec<_> = (0..300).filter_map(|_| TcpStream::connect(served.address).ok()).collect();
    assert!(idle.len() >= 256);
    assert_eq!(served.status("GET /health", ""), 200);
}
