//! The HTTP API of a forwarder in this process, over real connections.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and waits in real time"
)]

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures_util::{SinkExt, StreamExt};
use namewire_config::{Config, Http};
use namewire_control::capture::{CaptureRecord, PcapngReader};
use namewire_control::{LogFeed, LogMessage, LogSelection, LogSeverity, LogStream, REQUESTS};
use namewire_daemon::{Environment, Forwarder, Hooks, LogControl};
use namewire_http::{HttpListener, HttpServer, Role, Token, TokenFile};
use ndn_management::Verb;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_tungstenite::tungstenite::protocol::Message;
use tokio_tungstenite::{WebSocketStream, tungstenite};

/// Maximum time that a test waits for something.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A forwarder with the API. Fields are dropped in this order.
struct Served {
    server: Option<HttpServer>,
    forwarder: Option<Forwarder>,
    address: SocketAddr,
    /// Of the forwarder's UDP listener.
    udp_port: u16,
    tokens: TokenFile,
    log: LogFeed,
    _directory: tempfile::TempDir,
}

/// Each test has a file of tokens of its own.
fn settings() -> Http {
    Http { enabled: true, listen: vec!["127.0.0.1:0".parse().unwrap()], ..Http::default() }
}

fn serve(settings: &Http) -> Served {
    serve_with(settings, |listener| listener)
}

/// The same with a listener that is changed before.
fn serve_with(settings: &Http, change: impl FnOnce(HttpListener) -> HttpListener) -> Served {
    let mut config = Config::default();
    let listeners = &mut config.listeners;
    (listeners.unix.enabled, listeners.tcp.enabled) = (false, false);
    // Faces to UDP peers need the listener; its port is free at this moment.
    let port = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    (listeners.udp.addresses, listeners.udp.port) = (vec![Ipv4Addr::LOCALHOST.into()], port);
    config.control.enabled = false;
    let log = LogFeed::default();
    let hooks = Hooks { log: Arc::new(Followed(log.clone())), ..Hooks::none().unwrap() };
    let forwarder = Forwarder::start(&config, Environment::system(), hooks).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let tokens = TokenFile::new(directory.path().join("http-tokens"));
    let settings = Http { tokens: Some(tokens.path().to_owned()), ..settings.clone() };
    let listener = change(HttpListener::open(&settings).unwrap().unwrap());
    let address = listener.addresses()[0];
    let ready = listener.ready();
    listener.make_tokens().unwrap();
    let server = listener.serve(forwarder.operations()).unwrap();
    ready.store(true, Ordering::Release);
    let (server, forwarder) = (Some(server), Some(forwarder));
    Served { server, forwarder, address, udp_port: port, tokens, log, _directory: directory }
}

/// The log of a program, which tests write.
struct Followed(LogFeed);

impl LogControl for Followed {
    fn directives(&self) -> String {
        "info".to_owned()
    }

    fn set(&self, _: &str) -> Result<(), String> {
        Err("not in this test".to_owned())
    }

    fn apply(&self, _: &namewire_config::Log) -> Result<(), String> {
        Ok(())
    }

    fn reopen(&self) -> Result<(), String> {
        Ok(())
    }

    fn follow(&self, selection: LogSelection) -> Result<LogStream, String> {
        self.0.follow(selection)
    }
}

/// The response to bytes on a connection of their own.
fn exchange(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
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
    // Sums of counters with a label, and values that are not counters.
    let others = ["dropped", "drops", "ring_full", "burst_sizes", "node"];
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
                let rest = line.strip_prefix(&start).unwrap_or_default();
                let endings = ["_bytes", "_seconds", "_total"];
                let rest =
                    endings.iter().fold(rest, |rest, end| rest.strip_prefix(end).unwrap_or(rest));
                rest.starts_with("{worker=\"0\"} ")
            };
            assert!(response.lines().any(is_sample), "{name} is missing");
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
        ("GET /nothing", "", 404),
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
    assert!(response.contains("\nnamewire_http_refused_host_total 6\n"), "{response}");
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
fn pages_of_listed_origins_may_post() {
    let origins = vec!["https://dashboard.example".parse().unwrap()];
    let served = serve(&Http { origins, ..settings() });
    let asked = |origin: &str| {
        let fields = format!("Origin: {origin}\r\nAccess-Control-Request-Method: POST\r\n");
        served.request("OPTIONS /graphql", &fields)
    };
    let response = asked("https://dashboard.example");
    assert_eq!(status(&response), 204);
    for field in [
        "access-control-allow-origin: https://dashboard.example\r\n",
        "access-control-allow-methods: POST\r\n",
        "access-control-allow-headers: authorization, content-type\r\n",
    ] {
        assert!(response.contains(field), "{field}: {response}");
    }
    assert_eq!(status(&asked("https://other.example")), 403);
}

#[test]
fn incomplete_heads_are_disconnected() {
    let served = serve(&settings());
    // The server ends the connection: the read returns.
    let response = exchange(served.address, "GET /metrics HTTP/1.1\r\nHost: loc");
    assert!(response.is_empty() || status(&response) == 408, "{response}");
}

/// Connections that send nothing, of which 300 are open at a time, more than the server takes: the oldest ones make room.
/// Ten thousand have passed, too, and take a minute in a debug build.
#[test]
fn many_idle_connections_end_and_others_are_served() {
    let served = serve(&settings());
    let mut idle = VecDeque::new();
    for number in 1..=2_000 {
        idle.push_back(TcpStream::connect(served.address).unwrap());
        if idle.len() > 300 {
            idle.pop_front();
        }
        if number % 500 == 0 {
            assert_eq!(served.status("GET /health", ""), 200, "after {number}");
        }
    }
}

#[test]
fn client_that_does_not_read_its_responses_is_disconnected() {
    let stall_time = Duration::from_millis(300);
    let served = serve_with(&settings(), |listener| listener.with_stall_time(stall_time));
    let none = "\nnamewire_http_connections_broken_total 0\n";
    assert!(served.request("GET /metrics", "").contains(none));
    let start = Instant::now();
    let mut slow = TcpStream::connect(served.address).unwrap();
    slow.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    let request = format!("GET /app.js HTTP/1.1\r\nHost: {}\r\n\r\n", served.address);
    // More than the buffers of both ends hold; the server reads no further requests while it cannot write.
    let _ = slow.write_all(request.repeat(2000).as_bytes());
    while served.request("GET /metrics", "").contains(none) {
        assert!(start.elapsed() < TIMEOUT, "it is still connected");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(start.elapsed() >= stall_time, "its time was not over");
    assert_eq!(served.status("GET /health", ""), 200);
}

impl Served {
    /// The status and the body of a GraphQL request with this token.
    fn graphql_as(&self, token: Option<&str>, body: &Value) -> (u16, Value) {
        let address = self.address;
        let body = body.to_string();
        let token =
            token.map_or_else(String::new, |token| format!("Authorization: Bearer {token}\r\n"));
        let request = format!(
            "POST /graphql HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{token}Content-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let response = exchange(address, &request);
        let (_, body) = response.split_once("\r\n\r\n").unwrap();
        (status(&response), serde_json::from_str(body).unwrap_or(Value::Null))
    }

    fn admin(&self) -> String {
        self.tokens.read().unwrap()[0].secret.clone()
    }

    /// The data of a request with the token of role admin.
    fn data(&self, query: &str) -> Value {
        let (status, response) = self.graphql_as(Some(&self.admin()), &json!({ "query": query }));
        assert_eq!((status, &response["errors"]), (200, &Value::Null), "{query}: {response}");
        response["data"].clone()
    }

    /// The code of the error of a request, with the token of role admin.
    fn code(&self, query: &str) -> String {
        let (_, response) = self.graphql_as(Some(&self.admin()), &json!({ "query": query }));
        response["errors"][0]["extensions"]["code"].as_str().unwrap_or("none").to_owned()
    }
}

/// The fields of a type, by introspection without a token: name, description and names of arguments.
fn fields(served: &Served, name: &str) -> Vec<(String, String, Vec<String>)> {
    let query = format!(
        "{{ __type(name: \"{name}\") {{ fields {{ name description args {{ name description }} }} }} }}"
    );
    let (status, response) = served.graphql_as(None, &json!({ "query": query }));
    assert_eq!(status, 200, "{response}");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let field = |field: &Value| {
        let arguments = field["args"].as_array().unwrap();
        for argument in arguments {
            assert_ne!(text(&argument["description"]), "", "{name} {field}");
        }
        let arguments = arguments.iter().map(|argument| text(&argument["name"])).collect();
        (text(&field["name"]), text(&field["description"]), arguments)
    };
    response["data"]["__type"]["fields"].as_array().unwrap().iter().map(field).collect()
}

/// Letters and digits in lower case: the name of an operation without its style.
fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase()
}

#[test]
fn every_operation_of_the_control_socket_and_of_management_is_in_the_schema() {
    let served = serve(&settings());
    let mut names = Vec::new();
    for of in ["Query", "Mutation", "Subscription"] {
        names.extend(fields(&served, of).into_iter().map(|(name, ..)| plain(&name)));
    }
    // Streams are subscriptions under names of their own.
    let streams =
        [("trace.packets", "packets"), ("capture.start", "capture"), ("log.follow", "log")];
    for info in REQUESTS {
        let stream = streams.iter().find(|(method, _)| *method == info.method);
        let field = stream.map_or_else(|| plain(info.method), |(_, name)| (*name).to_owned());
        assert!(names.contains(&field), "{} is missing", info.method);
    }
    for &verb in Verb::ALL {
        assert!(names.contains(&plain(&verb.to_string())), "{verb} is missing");
    }
    for dataset in ["status", "faces", "channels", "fib", "rib", "cs", "strategies"] {
        assert!(names.contains(&dataset.to_owned()), "{dataset} is missing");
    }
}

#[test]
fn names_in_the_table_of_ndn_dpdk_are_in_the_schema() {
    let served = serve(&settings());
    let of = ["Query", "Mutation", "Subscription"].map(|of| fields(&served, of));
    let known: Vec<&str> = of.iter().flatten().map(|(name, ..)| name.as_str()).collect();
    let page = include_str!("../../../docs/reference/graphql.md");
    let (_, table) = page.split_once("## Operations of NDN-DPDK").unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| ")).skip(1);
    let mut count = 0;
    for row in rows {
        let own = row.split('|').nth(2).unwrap();
        // Words of other kinds, such as settings and URIs, have other characters.
        let names = own.split('`').skip(1).step_by(2);
        for name in names.filter(|name| name.chars().all(char::is_alphanumeric)) {
            assert!(known.contains(&name), "{name}: {row}");
            count += 1;
        }
    }
    assert!(count > 40, "{count} names");
}

#[test]
fn every_field_of_the_schema_has_a_description() {
    let served = serve(&settings());
    let query = json!({ "query": "{ __schema { types { name kind description } } }" });
    let (_, response) = served.graphql_as(None, &query);
    let types = response["data"]["__schema"]["types"].as_array().unwrap().clone();
    let mut count = 0;
    for of in types.iter().filter(|of| of["kind"] == "OBJECT") {
        let name = of["name"].as_str().unwrap();
        if name.starts_with("__") {
            continue;
        }
        assert!(of["description"].is_string(), "{name} has no description");
        for (field, description, _) in fields(&served, name) {
            assert_ne!(description, "", "{name}.{field} has no description");
            count += 1;
        }
    }
    assert!(count > 200, "{count} fields");
}

#[test]
fn all_requests_without_arguments_are_answered() {
    let served = serve(&settings());
    let data = served.data(
        "{ version { version processId } logLevels { directives } statistics { workers { inInterests burstSizes drops { key \
         value } queuedData { last } } } links { key value { inFrames drops { key } down { reason } } } facesWaiting { \
         remoteUri } facesLimit { faces facesMax } limits { tables { key value { capacity usedByClass { key value } } } \
         principals { principal } } webtransport { addresses } memif { isListening } interfaces { name isLoopback drivers pick \
         afXdp { kernel process { id } } } }",
    );
    assert_eq!(data["version"]["processId"], std::process::id(), "{data}");
    assert_eq!(data["statistics"]["workers"].as_array().unwrap().len(), 1, "{data}");
    assert!(data["limits"]["tables"].as_array().unwrap().len() > 1, "{data}");
    let interfaces = data["interfaces"].as_array().unwrap();
    let loopback = interfaces.iter().find(|one| one["isLoopback"] == true).unwrap();
    assert_eq!(
        (&loopback["pick"], &loopback["afXdp"]["kernel"]),
        (&json!("sockets"), &json!("no"))
    );
    let data = served.data(
        "{ status { version startTimestampMs } faces { faceId remoteUri link { inInterests } } channels { localUri } fib { \
         name nextHops { faceId } } rib { name } cs { capacity admit } strategies { name strategy } }",
    );
    assert_eq!(data["cs"]["capacity"], 65_536, "{data}");
    let first = &data["faces"][0];
    assert_eq!(
        (first["faceId"].as_u64(), first["link"]["inInterests"].is_u64()),
        (Some(1), true),
        "{data}"
    );
    let data = served.data("{ configCheck { hasFile error } }");
    let status = json!({ "hasFile": false, "error": "there is no configuration file" });
    assert_eq!(data["configCheck"], status);
    let report = served.data("mutation { traceLatency(milliseconds: 10) { __typename } }");
    assert!(report["traceLatency"].is_object(), "{report}");
}

#[test]
fn faces_routes_and_strategies_are_managed() {
    let served = serve(&settings());
    let data = served.data(
        "mutation { facesCreate(uri: \"udp4://127.0.0.1:6363\", persistency: \"permanent\", reliability: true) { faceId \
         persistency } }",
    );
    let face = data["facesCreate"]["faceId"].as_u64().unwrap();
    assert_eq!(data["facesCreate"]["persistency"], "permanent");
    let data = served.data(&format!(
        "mutation {{ ribRegister(name: \"/a/b\", faceId: {face}, cost: 7, origin: \"static\", capture: true) {{ name flags }} \
         strategyChoiceSet(name: \"/a\", strategy: \"/localhost/nfd/strategy/multicast\") {{ strategy }} }}"
    ));
    assert_eq!(data["ribRegister"], json!({ "name": "/a/b", "flags": 3 }));
    let after = face - 1;
    let data = served.data(&format!(
        "{{ faces(after: {after}, first: 1) {{ faceId reliability persistency remoteUri }} rib(prefix: \"/a\") {{ name routes {{ \
         faceId origin cost childInherit capture }} }} fib(prefix: \"/a/b\") {{ nextHops {{ faceId cost }} }} \
         strategies(prefix: \"/a\") {{ strategy }} }}"
    ));
    let shown = json!({
        "faceId": face, "reliability": true, "persistency": "permanent", "remoteUri": "udp4://127.0.0.1:6363"
    });
    assert_eq!(data["faces"], json!([shown]));
    let route = json!({ "faceId": face, "origin": "static", "cost": 7, "childInherit": true, "capture": true });
    assert_eq!(data["rib"], json!([{ "name": "/a/b", "routes": [route] }]));
    assert_eq!(data["fib"], json!([{ "nextHops": [{ "faceId": face, "cost": 7 }] }]));
    assert!(data["strategies"][0]["strategy"].as_str().unwrap().contains("multicast"), "{data}");
    // Lists of names continue after a name.
    let data = served.data(
        "{ rib(first: 1) { name } rest: rib(after: \"/a/b\") { name } none: rib(prefix: \"/a\", after: \"/a/b\") { name } \
         strategies(first: 2, after: \"/\") { name } }",
    );
    assert_eq!(data["rib"], json!([{ "name": "/a/b" }]));
    assert!(data["rest"].as_array().unwrap().iter().all(|entry| entry["name"] != "/a/b"), "{data}");
    assert_eq!(data["none"], json!([]));
    assert_eq!(data["strategies"][0]["name"], "/a");
    served.data(&format!("mutation {{ facesDestroy(faceId: {face}) {{ faceId }} }}"));
    // The command is answered when the worker has it; its routes end with the event that the face has closed.
    let deadline = Instant::now() + TIMEOUT;
    while served.data("{ rib(prefix: \"/a\") { name } }")["rib"] != json!([]) {
        assert!(Instant::now() < deadline, "the routes of a destroyed face remain");
    }
}

#[test]
fn tree_of_names_has_routes_and_strategies_level_by_level() {
    let served = serve(&settings());
    let data = served.data("mutation { facesCreate(uri: \"udp4://127.0.0.1:6363\") { faceId } }");
    let face = data["facesCreate"]["faceId"].as_u64().unwrap();
    served.data(&format!(
        "mutation {{ one: ribRegister(name: \"/tree/x/1\", faceId: {face}, cost: 7) {{ name }} \
         two: ribRegister(name: \"/tree/y\", faceId: {face}) {{ name }} \
         strategyChoiceSet(name: \"/tree\", strategy: \"/localhost/nfd/strategy/multicast\") {{ strategy }} }}"
    ));
    let nodes = "total nodes { name component fibEntriesBelow strategiesBelow strategy nextHops { faceId cost } \
                 routes { origin } }";
    let root = served.data(&format!("{{ names {{ {nodes} }} }}"))["names"].clone();
    assert_eq!((&root["total"], &root["nodes"][0]["name"]), (&json!(1), &json!("/")), "{root}");
    let below = served.data("{ strategies { name } }")["strategies"].as_array().unwrap().len() - 1;
    assert_eq!(root["nodes"][0]["strategiesBelow"], below, "{root}");
    let top = served.data(&format!("{{ names(under: \"/\") {{ {nodes} }} }}"))["names"].clone();
    let tree = top["nodes"].as_array().unwrap().iter().find(|node| node["component"] == "tree");
    let tree = tree.unwrap();
    assert_eq!((&tree["fibEntriesBelow"], &tree["routes"]), (&json!(2), &json!([])), "{tree}");
    assert!(tree["strategy"].as_str().unwrap().contains("multicast"), "{tree}");
    let below = served.data(&format!("{{ names(under: \"/tree/x\") {{ {nodes} }} }}"));
    let node = json!({
        "name": "/tree/x/1", "component": "1", "fibEntriesBelow": 0, "strategiesBelow": 0, "strategy": null,
        "nextHops": [{ "faceId": face, "cost": 7 }], "routes": [{ "origin": "app" }]
    });
    assert_eq!(below["names"], json!({ "total": 1, "nodes": [node] }));
    assert_eq!(served.code("{ names(under: \"/%\") { total } }"), "BAD_INPUT");
}

#[test]
fn faces_are_selected_by_scope() {
    let served = serve(&settings());
    served.data("mutation { facesCreate(uri: \"udp4://127.0.0.1:6363\") { faceId } }");
    let data = served.data("{ a: faces(scope: \"local\") { scope } b: faces(scope: \"non-local\") { remoteUri scope } }");
    assert!(data["a"].as_array().unwrap().iter().all(|face| face["scope"] == "local"), "{data}");
    let remote = json!({ "remoteUri": "udp4://127.0.0.1:6363", "scope": "non-local" });
    assert_eq!(data["b"], json!([remote]), "{data}");
    assert_eq!(served.code("{ faces(scope: \"here\") { faceId } }"), "BAD_INPUT");
}

#[test]
fn packets_are_dissected() {
    let served = serve(&settings());
    let packet = BASE64.encode([5, 11, 7, 3, 8, 1, b't', 10, 4, 1, 2, 3, 4]);
    let data = served.data(&format!("{{ dissect(packet: \"{packet}\") {{ text error }} }}"));
    let text = data["dissect"]["text"].as_str().unwrap();
    assert!(text.contains("Interest") && text.contains("/t") && text.contains("Nonce"), "{data}");
    assert_eq!(data["dissect"]["error"], Value::Null, "{data}");
    let data = served.data("{ dissect(packet: \"BQs=\") { error } }");
    assert!(data["dissect"]["error"].is_string(), "{data}");
    assert_eq!(served.code("{ dissect(packet: \"%\") { text } }"), "BAD_INPUT");
}

#[test]
fn errors_have_codes() {
    let served = serve(&settings());
    for (query, code) in [
        ("mutation { facesCreate(uri: \"nonsense\") { faceId } }", "REFUSED"),
        ("mutation { csErase(name: \"not a name %zz\") { count } }", "BAD_INPUT"),
        (
            "mutation { facesCreate(uri: \"udp4://127.0.0.1:1\", persistency: \"forever\") { faceId } }",
            "BAD_INPUT",
        ),
        ("{ faces(first: 1001) { faceId } }", "BAD_INPUT"),
        ("mutation { ndtSet(name: \"/a\", worker: 9) { depth } }", "REFUSED"),
        ("{ ndtList { depth loads entries { worker } } }", "REFUSED"),
        ("mutation { traceLatency(milliseconds: 60001) { __typename } }", "BAD_INPUT"),
        // The forwarder of the test has no configuration file.
        ("mutation { configReload { hasFile } }", "REFUSED"),
        // Errors of GraphQL itself.
        ("{ nonsense }", "QUERY_INVALID"),
        ("{ faces(first: \"x\") { faceId } }", "QUERY_INVALID"),
        ("{ faces(first: -1) { faceId } }", "QUERY_INVALID"),
        ("{ faces {", "QUERY_INVALID"),
    ] {
        assert_eq!(served.code(query), code, "{query}");
    }
    let (_, response) = served.graphql_as(
        Some(&served.admin()),
        &json!({ "query": "mutation { facesCreate(uri: \"nonsense\") { faceId } }" }),
    );
    assert_eq!(response["errors"][0]["extensions"]["status"], 400, "{response}");
}

#[test]
fn requests_above_the_rate_are_refused_except_those_of_other_tokens() {
    let served = serve(&settings());
    let query = json!({ "query": "{ __typename }" });
    let deadline = Instant::now() + TIMEOUT;
    let is_refused = || served.graphql_as(None, &query).0 == 429;
    let refused = std::thread::scope(|scope| {
        let senders = [(); 8].map(|()| {
            scope.spawn(|| {
                std::iter::repeat_with(is_refused).find(|it| *it || Instant::now() > deadline)
            })
        });
        senders.map(|sender| sender.join().unwrap())
    });
    assert!(refused.contains(&Some(true)), "{refused:?}");
    assert_eq!(served.graphql_as(Some(&served.admin()), &query).0, 200);
}

#[test]
fn roles_decide_what_a_token_may_do() {
    let served = serve(&settings());
    let mut tokens = served.tokens.read().unwrap();
    for role in [Role::Read, Role::Operate] {
        tokens.push(Token::new(role.name(), role, None).unwrap());
    }
    tokens.push(Token::new("old", Role::Admin, Some(1)).unwrap());
    served.tokens.write(&tokens).unwrap();
    let secret =
        |name: &str| tokens.iter().find(|token| token.name == name).unwrap().secret.clone();
    let read = "{ faces { faceId } }";
    let operate = "mutation { csErase(name: \"/x\") { count } }";
    let admin = "mutation { ndtBalance { moved } }";
    for (name, [reads, operates, administers]) in [
        ("read", [200, 403, 403]),
        ("operate", [200, 200, 403]),
        ("admin", [200, 200, 200]),
        ("old", [401, 401, 401]),
    ] {
        for (query, expected) in [(read, reads), (operate, operates), (admin, administers)] {
            let (status, response) =
                served.graphql_as(Some(&secret(name)), &json!({ "query": query }));
            assert_eq!(status, expected, "{name} {query}: {response}");
        }
    }
    // A traffic generator of this forwarder takes role operate; to other hosts only admin may send.
    let traffic = |more: &str| {
        let arguments = format!("prefixes: [\"/x\"]{more}");
        let query = format!("mutation {{ trafficConsumerStart({arguments}) {{ id }} }}");
        served.graphql_as(Some(&secret("operate")), &json!({ "query": query })).0
    };
    assert_eq!(traffic(""), 200);
    assert_eq!(traffic(", transport: null"), 200);
    assert_eq!(traffic(", transport: \"udp://192.0.2.1:6363\""), 403);
    for query in [read, operate, admin] {
        let (status, response) = served.graphql_as(None, &json!({ "query": query }));
        assert_eq!(
            (status, &response["errors"][0]["extensions"]["code"]),
            (401, &json!("UNAUTHENTICATED"))
        );
        let (status, response) = served.graphql_as(Some("wrong"), &json!({ "query": query }));
        let error = json!({
            "message": "the token is wrong or has expired",
            "extensions": { "code": "UNAUTHENTICATED" },
        });
        assert_eq!((status, &response["errors"]), (401, &json!([error])));
    }
    // A revoked token is refused at once.
    let revoked = tokens.remove(1);
    served.tokens.write(&tokens).unwrap();
    assert_eq!(served.graphql_as(Some(&revoked.secret), &json!({ "query": read })).0, 401);
    let metrics = served.request("GET /metrics", "");
    assert!(metrics.contains("\nnamewire_http_refused_token_total 7\n"), "{metrics}");
}

#[test]
fn huge_and_deep_queries_and_other_bodies_are_refused() {
    let served = serve(&settings());
    let deep = "{ __schema { types { fields { type { ofType { ofType { ofType { ofType { ofType { ofType { ofType { \
        ofType { name } } } } } } } } } } } } }";
    let wide = format!(
        "{{ {} }}",
        (0..300).map(|at| format!("a{at}: cs {{ hits }} ")).collect::<String>()
    );
    let nested = format!("{}{}", "{ a ".repeat(100), "}".repeat(100));
    for (query, code) in
        [(deep, "QUERY_TOO_DEEP"), (&nested, "QUERY_TOO_DEEP"), (&wide, "QUERY_TOO_LARGE")]
    {
        let (_, response) = served.graphql_as(None, &json!({ "query": query }));
        assert_eq!(response["errors"][0]["extensions"]["code"], code, "{response}");
        assert_eq!(response["data"], Value::Null, "{response}");
    }
    let long = json!({ "query": "x".repeat(70 << 10) });
    assert_eq!(served.graphql_as(None, &long).0, 413);
    assert_eq!(served.graphql_as(None, &json!([{ "query": "{ __typename }" }])).0, 400);
    assert_eq!(served.graphql_as(None, &json!({ "query": 1 })).0, 400);
    let address = served.address;
    let form = format!(
        "POST /graphql HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: \
         2\r\n\r\n{{}}"
    );
    assert_eq!(status(&exchange(address, &form)), 415);
    assert_eq!(served.status("GET /graphql?query={__typename}", ""), 405);
    let page =
        "Origin: https://evil.example\r\nContent-Type: application/json\r\nContent-Length: 0\r\n";
    assert_eq!(served.status("POST /graphql", page), 403);
    let metrics = served.request("GET /metrics", "");
    for (reason, count) in [("query", 3), ("length", 1), ("rate", 0)] {
        let counted = format!("\nnamewire_http_refused_{reason}_total {count}\n");
        assert!(metrics.contains(&counted), "{reason}: {metrics}");
    }
}

#[test]
fn arguments_of_tasks_that_exclude_each_other_are_named() {
    let served = serve(&settings());
    let fetch = "benchmarkFetchStart(names: [\"/x\"], transport: \"udp://192.0.2.1\", durationS: 1";
    for (start, expected) in [
        (format!("{fetch}, congestion: \"delay\", window: 9)"), "congestion and window"),
        (
            "trafficConsumerStart(prefixes: [\"/x\"], rate: 9, window: 9)".to_owned(),
            "window and rate",
        ),
        // This forwarder runs no tasks.
        (format!("{fetch}, window: 9)"), "this forwarder"),
    ] {
        let query = json!({ "query": format!("mutation {{ {start} {{ id }} }}") });
        let (_, response) = served.graphql_as(Some(&served.admin()), &query);
        let message = response["errors"][0]["message"].as_str().unwrap_or_default();
        assert!(message.starts_with(expected), "{start}: {response}");
    }
}

#[test]
fn schema_definition_is_complete() {
    let schema = namewire_http::schema_definition().unwrap();
    for part in [
        "type Query {",
        "type Mutation {",
        "scalar UInt64",
        "\tfacesCreate(",
        "type WorkerStatistics {",
    ] {
        assert!(schema.contains(part), "{part}: {schema}");
    }
}

type Socket = WebSocketStream<tokio::net::TcpStream>;

/// Performs the handshake with the sample key of RFC 6455; returns the head of the response.
async fn handshake(address: SocketAddr, fields: &str) -> (tokio::net::TcpStream, String) {
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!(
        "GET /graphql HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{fields}\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    (stream, String::from_utf8(head).unwrap())
}

const PROTOCOL: &str = "Sec-WebSocket-Protocol: graphql-transport-ws\r\n";

async fn open_socket(address: SocketAddr) -> Socket {
    let (stream, head) = handshake(address, PROTOCOL).await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert!(head.contains("sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");
    WebSocketStream::from_raw_socket(stream, tungstenite::protocol::Role::Client, None).await
}

async fn send(socket: &mut Socket, message: Value) {
    socket.send(Message::text(message.to_string())).await.unwrap();
}

/// The next message, or the code of the close frame.
async fn receive(socket: &mut Socket) -> Result<Value, u16> {
    loop {
        let received = tokio::time::timeout(TIMEOUT, socket.next()).await.unwrap();
        match received {
            Some(Ok(Message::Text(text))) => return Ok(serde_json::from_str(&text).unwrap()),
            Some(Ok(Message::Close(Some(frame)))) => return Err(frame.code.into()),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn counters_are_followed_over_a_websocket() {
    let served = serve(&settings());
    let mut socket = open_socket(served.address).await;
    send(&mut socket, json!({ "type": "connection_init", "payload": { "token": served.admin() } }))
        .await;
    assert_eq!(receive(&mut socket).await.unwrap()["type"], "connection_ack");
    let query = "subscription { counters(intervalMs: 100) { unixMs lost workers { inInterests } faces { key } } }";
    send(&mut socket, json!({ "type": "subscribe", "id": "a", "payload": { "query": query } }))
        .await;
    let mut last = 0;
    for _ in 0..3 {
        let message = receive(&mut socket).await.unwrap();
        assert_eq!((&message["type"], &message["id"]), (&json!("next"), &json!("a")), "{message}");
        let sample = &message["payload"]["data"]["counters"];
        assert!(sample["unixMs"].as_u64().unwrap() > last, "{message}");
        assert_eq!(sample["workers"][0]["inInterests"], 0, "{message}");
        assert_eq!(sample["faces"][0]["key"], "1", "{message}");
        last = sample["unixMs"].as_u64().unwrap();
    }
    // A subscription that GraphQL refuses has a code, too.
    let unknown = json!({ "query": "subscription { counters { nonsense } }" });
    send(&mut socket, json!({ "type": "subscribe", "id": "c", "payload": unknown })).await;
    while !receive(&mut socket).await.unwrap().to_string().contains("QUERY_INVALID") {}
    // A subscription with an interval that is too short is an error of its own; queries work, too.
    let query = "subscription { counters(intervalMs: 1) { lost } }";
    send(&mut socket, json!({ "type": "complete", "id": "a" })).await;
    send(&mut socket, json!({ "type": "subscribe", "id": "b", "payload": { "query": query } }))
        .await;
    loop {
        let message = receive(&mut socket).await.unwrap();
        if message["id"] == "b" {
            assert!(message.to_string().contains("BAD_INPUT"), "{message}");
            break;
        }
    }
}

#[tokio::test]
async fn limits_and_dispatch_are_pushed_with_counters() {
    let served = serve(&settings());
    let mut socket = open_session(&served).await;
    let subscribe = |id: &str, query: &str| json!({ "type": "subscribe", "id": id, "payload": { "query": query } });
    let often = "subscription { counters(intervalMs: 100) { unixMs } }";
    send(&mut socket, subscribe("often", often)).await;
    let limits = "subscription { counters { unixMs principals dispatch { depth }
        limits { tables { key value { capacity } } principals { principal } } } }";
    send(&mut socket, subscribe("limits", limits)).await;
    // Samples of the other subscription before each one with limits.
    let (mut others, mut counts) = (0, Vec::new());
    while counts.len() < 2 {
        let message = receive(&mut socket).await.unwrap();
        assert_eq!(message["type"], "next", "{message}");
        let sample = &message["payload"]["data"]["counters"];
        if message["id"] == "often" {
            others += 1;
        } else {
            counts.push(std::mem::take(&mut others));
            let tables = sample["limits"]["tables"].as_array().unwrap();
            let places = tables.iter().find(|table| table["key"] == "faces").unwrap();
            assert!(places["value"]["capacity"].as_u64() > Some(0), "{sample}");
            let shown = sample["limits"]["principals"].as_array().unwrap().len();
            assert_eq!(sample["principals"], shown, "{sample}");
            assert!(sample["dispatch"].is_null(), "one worker has all names: {sample}");
        }
    }
    assert!(counts[1] >= 3, "{counts:?}: limits are read in an interval of their own");
    let hasty = "subscription { counters(intervalMs: 900) { dispatch { depth } } }";
    send(&mut socket, subscribe("hasty", hasty)).await;
    while !receive(&mut socket).await.unwrap().to_string().contains("1000 at least") {}
}

#[tokio::test]
async fn decisions_about_packets_are_followed_by_one_client_at_a_time() {
    let served = serve(&settings());
    let mut socket = open_socket(served.address).await;
    send(&mut socket, json!({ "type": "connection_init", "payload": { "token": served.admin() } }))
        .await;
    assert_eq!(receive(&mut socket).await.unwrap()["type"], "connection_ack");
    let trace = "subscription { packets(name: \"/t\") {
        lost packets { unixMs worker faceId packet name decisions } } }";
    let subscribe =
        |id: &str| json!({ "type": "subscribe", "id": id, "payload": { "query": trace } });
    send(&mut socket, subscribe("first")).await;
    let peer = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    peer.connect(("127.0.0.1", served.udp_port)).unwrap();
    // Interests for /t without a route; those after the begin of the trace are reported.
    let result = loop {
        let nonce = u32::from(peer.local_addr().unwrap().port()).to_be_bytes();
        let interest = [&[5, 11, 7, 3, 8, 1, b't', 10, 4][..], &nonce].concat();
        peer.send(&interest).unwrap();
        let received = tokio::time::timeout(Duration::from_millis(300), receive(&mut socket)).await;
        let Ok(message) = received else { continue };
        let message = message.unwrap();
        assert_eq!((&message["type"], &message["id"]), (&json!("next"), &json!("first")));
        break message["payload"]["data"]["packets"].clone();
    };
    assert_eq!(result["lost"], 0, "{result}");
    let packet = &result["packets"][0];
    assert_eq!(
        (&packet["packet"], &packet["name"]),
        (&json!("Interest"), &json!("/t")),
        "{result}"
    );
    let decisions = packet["decisions"].as_array().unwrap();
    assert!(decisions.iter().any(|text| text.as_str().unwrap().contains("dropped")), "{result}");
    for (id, text) in [
        ("second", "another client traces packets"),
        ("third", "sample: it is from 1 to 4294967295"),
    ] {
        let mut message = subscribe(id);
        if id == "third" {
            message["payload"]["query"] = json!("subscription { packets(sample: 0) { lost } }");
        }
        send(&mut socket, message).await;
        loop {
            let message = receive(&mut socket).await.unwrap();
            if message["id"] == id {
                assert!(message.to_string().contains(text), "{message}");
                break;
            }
        }
    }
}

/// A connection with the token of role admin.
async fn open_session(served: &Served) -> Socket {
    let mut socket = open_socket(served.address).await;
    let payload = json!({ "token": served.admin() });
    send(&mut socket, json!({ "type": "connection_init", "payload": payload })).await;
    assert_eq!(receive(&mut socket).await.unwrap()["type"], "connection_ack");
    socket
}

#[tokio::test]
async fn captured_packets_and_their_file_are_followed() {
    let served = serve(&settings());
    let mut socket = open_session(&served).await;
    let capture = "subscription { capture(name: \"/t\", types: [\"interest\"]) {
        lost pcapng packets { unixMs faceId peer direction packet name details bytes wire } } }";
    let subscribe = |id: &str, query: &str| json!({ "type": "subscribe", "id": id, "payload": { "query": query } });
    send(&mut socket, subscribe("first", capture)).await;
    let peer = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    peer.connect(("127.0.0.1", served.udp_port)).unwrap();
    let interest = [5, 11, 7, 3, 8, 1, b't', 10, 4, 1, 2, 3, 4];
    let other = [5, 11, 7, 3, 8, 1, b'u', 10, 4, 1, 2, 3, 4];
    let result = loop {
        peer.send(&other).unwrap();
        peer.send(&interest).unwrap();
        let received = tokio::time::timeout(Duration::from_millis(300), receive(&mut socket)).await;
        let Ok(message) = received else { continue };
        let message = message.unwrap();
        assert_eq!(
            (&message["type"], &message["id"]),
            (&json!("next"), &json!("first")),
            "{message}"
        );
        break message["payload"]["data"]["capture"].clone();
    };
    assert_eq!(result["lost"], 0, "{result}");
    let packets = result["packets"].as_array().unwrap();
    assert!(packets.iter().all(|packet| packet["name"] == "/t"), "{result}");
    let packet = &packets[0];
    assert_eq!((&packet["packet"], &packet["direction"]), (&json!("Interest"), &json!("received")));
    assert_eq!(packet["wire"], BASE64.encode(interest), "{packet}");
    assert_eq!(packet["peer"], format!("udp4://{}", peer.local_addr().unwrap()), "{packet}");
    assert_eq!(packet["bytes"], interest.len(), "{packet}");
    let file = BASE64.decode(result["pcapng"].as_str().unwrap()).unwrap();
    let mut reader = PcapngReader::new(&file[..]);
    let mut frames = 0;
    while let Some(record) = reader.next_record().unwrap() {
        let CaptureRecord::Frame(frame) = record else { continue };
        assert_eq!(frame.packet, Some(&interest[..]));
        frames += 1;
    }
    assert_eq!(frames, packets.len());
    // Captures are limited, whichever of them comes first, and their arguments are checked.
    for id in ["second", "third", "fourth", "fifth"] {
        send(&mut socket, subscribe(id, "subscription { capture { lost } }")).await;
    }
    for (query, text) in [
        ("", "4 captures are under way"),
        ("subscription { capture(types: [\"x\"]) { lost } }", "types: `x` is not one of"),
        ("subscription { capture(name: \"/%\") { lost } }", "name: /% is not a name"),
    ] {
        if !query.is_empty() {
            send(&mut socket, subscribe(text, query)).await;
        }
        while !receive(&mut socket).await.unwrap().to_string().contains(text) {}
    }
}

#[tokio::test]
async fn log_is_followed_from_its_latest_messages_on() {
    let served = serve(&settings());
    let log = |level, module: &str, text: &str| {
        let (module, message) = (module.to_owned(), text.to_owned());
        served.log.add(LogMessage { unix_ms: 7, level, module, message });
    };
    log(LogSeverity::Warn, "ndn_dataplane::worker", "before");
    log(LogSeverity::Debug, "ndn_dataplane", "fine");
    log(LogSeverity::Error, "namewire", "of another module");
    let mut socket = open_session(&served).await;
    let query = "subscription { log(level: \"info\", module: \"ndn_dataplane\") { lost messages { unixMs level module message } } }";
    send(&mut socket, json!({ "type": "subscribe", "id": "a", "payload": { "query": query } }))
        .await;
    for (level, module, text) in
        [("warn", "ndn_dataplane::worker", "before"), ("info", "ndn_dataplane", "after")]
    {
        let message = receive(&mut socket).await.unwrap();
        let shown = json!({ "unixMs": 7, "level": level, "module": module, "message": text });
        assert_eq!(
            message["payload"]["data"]["log"],
            json!({ "lost": 0, "messages": [shown] }),
            "{message}"
        );
        log(LogSeverity::Info, "ndn_dataplane", "after");
    }
    let query = "subscription { log(level: \"loud\") { lost } }";
    send(&mut socket, json!({ "type": "subscribe", "id": "b", "payload": { "query": query } }))
        .await;
    loop {
        let message = receive(&mut socket).await.unwrap();
        if message["id"] == "b" {
            assert!(message.to_string().contains("BAD_INPUT"), "{message}");
            break;
        }
    }
}

#[tokio::test]
async fn face_events_are_pushed_in_order() {
    let served = serve(&settings());
    let mut socket = open_session(&served).await;
    let query = "subscription { faceEvents { lost events { kind faceId remoteUri persistency } } }";
    send(&mut socket, json!({ "type": "subscribe", "id": "a", "payload": { "query": query } }))
        .await;
    let change =
        |text: &str| json!({ "type": "subscribe", "id": "b", "payload": { "query": text } });
    // The subscription begins with the next event; faces are created until there is one.
    let mut events = Vec::new();
    let mut port = 0;
    let deadline = Instant::now() + TIMEOUT;
    let created = loop {
        port += 1;
        assert!(Instant::now() < deadline, "no event after the creation of {port} faces");
        let text =
            format!("mutation {{ facesCreate(uri: \"udp4://127.0.0.1:{port}\") {{ faceId }} }}");
        send(&mut socket, change(&text)).await;
        loop {
            let message = receive(&mut socket).await.unwrap();
            if message["id"] == "a" {
                let result = &message["payload"]["data"]["faceEvents"];
                assert_eq!(result["lost"], 0, "{message}");
                events.extend(result["events"].as_array().unwrap().clone());
            } else if message["type"] == "complete" {
                break;
            }
        }
        if let Some(event) = events.iter().find(|event| event["kind"] == "created") {
            break event["faceId"].as_u64().unwrap();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let text = format!("mutation {{ facesDestroy(faceId: {created}) {{ faceId }} }}");
    send(&mut socket, change(&text)).await;
    loop {
        let message = receive(&mut socket).await.unwrap();
        let Some(all) = message["payload"]["data"]["faceEvents"]["events"].as_array() else {
            continue;
        };
        events.extend(all.clone());
        let is_end = |event: &&Value| event["kind"] == "destroyed" && event["faceId"] == created;
        if events.iter().any(|event| is_end(&event)) {
            break;
        }
    }
    let of_face = events.iter().filter(|event| event["faceId"] == created);
    let kinds: Vec<_> = of_face.map(|event| event["kind"].as_str().unwrap()).collect();
    assert_eq!((kinds.first(), kinds.last()), (Some(&"created"), Some(&"destroyed")), "{kinds:?}");
}

#[tokio::test]
async fn routing_events_are_pushed_in_order() {
    let served = serve(&settings());
    let mut socket = open_session(&served).await;
    let query =
        "subscription { routingEvents { lost events { kind name faceId origin cost strategy } } }";
    let subscribe = |id: &str, text: &str| json!({ "type": "subscribe", "id": id, "payload": { "query": text } });
    send(&mut socket, subscribe("a", query)).await;
    let deadline = Instant::now() + TIMEOUT;
    // The subscription begins with the next change; routes are added until there is an event.
    let mut events: Vec<Value> = Vec::new();
    let mut number = 0;
    while events.is_empty() {
        number += 1;
        assert!(Instant::now() < deadline, "no event after {number} routes");
        let text = format!(
            "mutation {{ ribRegister(name: \"/event/{number}\", faceId: 1, cost: {number}, origin: \"static\") {{ name }} }}"
        );
        send(&mut socket, subscribe("b", &text)).await;
        loop {
            let message = receive(&mut socket).await.unwrap();
            let result = &message["payload"]["data"]["routingEvents"];
            events.extend(result["events"].as_array().cloned().unwrap_or_default());
            if message["type"] == "complete" {
                break;
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let added = events.iter().find(|event| event["kind"] == "route-added").unwrap().clone();
    let cost = added["cost"].as_u64().unwrap();
    assert_eq!(added["name"], format!("/event/{cost}"));
    assert_eq!((&added["faceId"], &added["origin"]), (&json!(1), &json!("static")));
    assert!(added["strategy"].is_null());
    let name = added["name"].as_str().unwrap();
    let strategy = "/localhost/nfd/strategy/multicast";
    for (id, text) in [
        ("c", format!("strategyChoiceSet(name: \"{name}\", strategy: \"{strategy}\") {{ name }}")),
        ("d", format!("ribUnregister(name: \"{name}\", faceId: 1, origin: \"static\") {{ name }}")),
    ] {
        send(&mut socket, subscribe(id, &format!("mutation {{ {text} }}"))).await;
    }
    let is = |event: &Value, kind: &str| event["kind"] == kind && event["name"] == name;
    while !events.iter().any(|event| is(event, "strategy-set")) {
        let message = receive(&mut socket).await.unwrap();
        let result = &message["payload"]["data"]["routingEvents"];
        events.extend(result["events"].as_array().cloned().unwrap_or_default());
    }
    let text = format!("mutation {{ strategyChoiceUnset(name: \"{name}\") {{ name }} }}");
    send(&mut socket, subscribe("e", &text)).await;
    let has = |events: &[Value], kind: &str| events.iter().any(|event| is(event, kind));
    while !(has(&events, "strategy-unset") && has(&events, "route-removed")) {
        let message = receive(&mut socket).await.unwrap();
        let result = &message["payload"]["data"]["routingEvents"];
        events.extend(result["events"].as_array().cloned().unwrap_or_default());
    }
    let place = |kind: &str| events.iter().position(|event| is(event, kind));
    let set = &events[place("strategy-set").unwrap()];
    assert!(set["strategy"].as_str().unwrap().starts_with(strategy), "{set}");
    assert!(set["faceId"].is_null() && place("route-added") < place("route-removed"), "{events:?}");
}

#[tokio::test]
async fn idle_websockets_leave_room_for_others() {
    let served = serve(&settings());
    let mut open = Vec::new();
    for _ in 0..100 {
        open.push(open_socket(served.address).await);
    }
    let mut session = open_session(&served).await;
    assert_eq!(receive(&mut open[0]).await, Err(4408), "the one that has waited longest");
    // One that has shown its token does not give way.
    for _ in 0..100 {
        open.push(open_socket(served.address).await);
    }
    let query = json!({ "query": "{ version { version } }" });
    send(&mut session, json!({ "type": "subscribe", "id": "a", "payload": query })).await;
    assert_eq!(receive(&mut session).await.unwrap()["type"], "next");
}

#[tokio::test]
async fn websockets_without_a_token_or_of_other_pages_are_refused() {
    let served = serve(&settings());
    for payload in [json!({}), json!({ "token": "wrong" }), Value::Null] {
        let mut socket = open_socket(served.address).await;
        send(&mut socket, json!({ "type": "connection_init", "payload": payload })).await;
        assert_eq!(receive(&mut socket).await, Err(1002), "{payload}");
    }
    let mut socket = open_socket(served.address).await;
    socket.send(Message::text("nonsense")).await.unwrap();
    assert_eq!(receive(&mut socket).await, Err(1002));
    let evil = format!("{PROTOCOL}Origin: https://evil.example\r\n");
    for (fields, expected) in
        [(evil.as_str(), 403), ("", 400), ("Sec-WebSocket-Protocol: other\r\n", 400)]
    {
        let (_stream, head) = handshake(served.address, fields).await;
        assert_eq!(status(&head), expected, "{head}");
    }
}

#[tokio::test]
async fn subscriptions_of_a_connection_are_limited() {
    let served = serve(&settings());
    let mut socket = open_socket(served.address).await;
    send(&mut socket, json!({ "type": "connection_init", "payload": { "token": served.admin() } }))
        .await;
    assert_eq!(receive(&mut socket).await.unwrap()["type"], "connection_ack");
    let query = "subscription { counters(intervalMs: 3600000) { lost } }";
    for at in 0..17 {
        let id = at.to_string();
        send(&mut socket, json!({ "type": "subscribe", "id": id, "payload": { "query": query } }))
            .await;
        // One at a time: only a few messages may wait.
        let query = json!({ "query": "{ __typename }" });
        send(&mut socket, json!({ "type": "subscribe", "id": "query", "payload": query })).await;
        loop {
            let message = receive(&mut socket).await.unwrap();
            if message["id"] == "16" {
                assert!(message.to_string().contains("at most 16 subscriptions"), "{message}");
                assert!(message.to_string().contains("UNAVAILABLE"), "{message}");
                return;
            }
            if message["id"] == "query" && message["type"] == "complete" {
                break;
            }
        }
    }
    panic!("17 subscriptions");
}
