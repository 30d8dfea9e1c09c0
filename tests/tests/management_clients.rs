//! The management of NDNts, python-ndn and ndn-js drives a forwarder: what they see, and what the
//! forwarder then holds.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write;
use std::process::Stdio;

use namewire_tests::{Forwarder, Peer, Settings, Transport, require, wait_until};
use serde_json::Value;

const REMOTE: &str = "udp4://127.0.0.1:9";

/// The output of a client, one JSON object a line.
struct Log(Vec<Value>);

impl Log {
    fn parse(text: &str) -> Self {
        Self(text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
    }

    /// The values of all lines of this kind, in order.
    fn all(&self, what: &str) -> Vec<&Value> {
        self.0.iter().filter(|line| line["what"] == what).map(|line| &line["value"]).collect()
    }

    fn one(&self, what: &str) -> &Value {
        let found = self.all(what);
        assert_eq!(found.len(), 1, "{what} in {:?}", self.0);
        found[0]
    }

    fn statuses(&self, what: &str, field: &str) -> Vec<u64> {
        self.all(what).iter().map(|value| value[field].as_u64().unwrap()).collect()
    }
}

fn forwarder() -> Forwarder {
    Settings::new().udp().start()
}

fn face_id_of(forwarder: &Forwarder, uri: &str) -> u64 {
    forwarder.json(&["face", "show", uri])["face_id"].as_u64().unwrap()
}

#[test]
fn ndnts_manages_faces_and_routes() {
    if !require(&[Peer::Ndnts]) {
        return;
    }
    let forwarder = forwarder();
    let mut command = Peer::Ndnts.interop("manage");
    command.arg(REMOTE).env("NDN_CLIENT_TRANSPORT", forwarder.unix());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = Vec::new();
    let mut reader = std::io::BufReader::new(child.stdout.take().unwrap());
    loop {
        let mut line = String::new();
        let length = std::io::BufRead::read_line(&mut reader, &mut line).unwrap();
        assert_ne!(length, 0, "it ended early: {lines:?}");
        let is_ready = line.contains("READY");
        lines.push(line);
        if is_ready {
            break;
        }
    }
    // While its face is there: what the forwarder holds.
    let face_id = face_id_of(&forwarder, REMOTE);
    let face = forwarder.json(&["face", "show", REMOTE]);
    assert_eq!((&face["persistency"], &face["mtu_bytes"]), (&"permanent".into(), &1400.into()));
    let routes = forwarder.output(&["nfdc", "route", "list"]);
    let route = format!("prefix=/ndnts/route nexthop={face_id} origin=static cost=7 flags=capture");
    assert!(routes.contains(&route), "{routes}");
    let announced =
        routes.lines().find(|line| line.starts_with("prefix=/ndnts/announced ")).unwrap();
    assert!(announced.contains("origin=prefixann"), "{announced}");
    assert!(announced.contains("flags=child-inherit"), "as in NFD: {announced}");
    assert!(!routes.contains("/ndnts/self"), "{routes}");
    let store = forwarder.output(&["nfdc", "cs"]);
    assert!(store.contains("capacity=1000") && store.contains("serve=off"), "{store}");

    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    std::io::Read::read_to_string(&mut reader, lines.last_mut().unwrap()).unwrap();
    assert!(child.wait().unwrap().success());
    let log = Log::parse(&lines.concat());
    assert_eq!(log.statuses("faces/create", "status"), [200, 409]);
    assert_eq!(log.statuses("faces/create", "faceId"), [face_id, face_id]);
    assert_eq!(log.one("faces/update")["facePersistency"], 2);
    assert_eq!(log.one("faces/update")["flags"], 0, "congestion marking is off");
    assert_eq!(log.statuses("rib/register", "status"), [200, 200]);
    assert_eq!(log.one("rib/announce")["status"], 200);
    assert_eq!(log.statuses("strategy-choice/set", "status"), [200, 404]);
    let set = &log.all("strategy-choice/set")[0]["strategy"];
    assert_eq!(*set, "/localhost/nfd/strategy/multicast/v=5");
    assert_eq!(log.one("cs/config")["capacity"], 1000);
    assert_eq!(log.one("cs/config")["flags"], 1);
    assert_eq!(*log.one("invokeCsErase"), 0);
    let version = log.one("status/general")["nfdVersion"].as_str().unwrap();
    assert!(version.contains(env!("CARGO_PKG_VERSION")), "{version}");
    let queried = log.one("faces/query").as_array().unwrap();
    assert_eq!((queried.len(), &queried[0]["mtu"]), (1, &1400.into()));
    let has = |what: &str, field: &str, value: &str| {
        log.one(what).as_array().unwrap().iter().any(|item| item[field] == value)
    };
    assert!(has("faces/list", "uri", REMOTE) && has("faces/list", "uri", "internal://"));
    assert!(has("faces/channels", "localUri", &forwarder.unix()));
    assert!(has("strategy-choice/list", "name", "/ndnts"));
    for name in ["/ndnts/self", "/ndnts/route", "/ndnts/announced"] {
        assert!(has("rib/list", "name", name), "{name}");
    }
    assert_eq!(log.one("cs/info")["capacity"], 1000);
    assert_eq!(log.one("faces/destroy")["status"], 200);
    assert_eq!(*log.one("faces/query gone"), Value::Array(Vec::new()));
    // The routes have gone with the face.
    let routes = forwarder.output(&["nfdc", "route", "list"]);
    assert!(!routes.contains("/ndnts/route"), "{routes}");
}

#[test]
fn python_ndn_manages_faces_and_routes() {
    if !require(&[Peer::Python]) {
        return;
    }
    let forwarder = forwarder();
    let mut command = Peer::Python.interop("manage");
    command.arg(REMOTE).env("NDN_CLIENT_TRANSPORT", forwarder.unix());
    let output = namewire_tests::run_to_end(command);
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}");
    let log = Log::parse(&String::from_utf8(output.stdout).unwrap());
    for what in [
        "faces/create",
        "faces/update",
        "fib/add-nexthop",
        "fib/remove-nexthop",
        "strategy-choice/set",
        "strategy-choice/unset",
        "cs/config",
        "cs/erase",
        "faces/destroy",
    ] {
        assert_eq!(log.one(what)["status_code"], 200, "{what}");
    }
    assert_eq!(log.statuses("rib/register", "status_code"), [200, 200]);
    let face_id = log.one("faces/create")["face_id"].as_u64().unwrap();
    assert_eq!(log.one("faces/query")[0]["id"], face_id);
    assert_eq!(log.one("faces/query")[0]["uri"], REMOTE);
    let faces = log.one("faces/list").as_array().unwrap();
    assert!(faces.iter().any(|id| *id == face_id) && faces.iter().any(|id| *id == 1), "{faces:?}");
    assert_eq!(log.one("fib/list")["/python/route"][0], face_id);
    assert!(log.one("fib/list").get("/python/fib").is_none(), "it was removed");
    assert_eq!(log.one("rib/list")["/python/route"][0], serde_json::json!([face_id, 0, 3]));
    assert_eq!(log.one("rib/list")["/python/self"][0][1], 65);
    let strategies = log.one("strategy-choice/list");
    assert_eq!(strategies["/"], "/localhost/nfd/strategy/best-route/v=5");
    assert!(strategies.get("/python").is_none(), "it was unset");
    assert_eq!(log.one("cs/info")["capacity"], 2000);
    let events = log.all("faces/events");
    assert_eq!(events[0]["kind"], "CREATED");
    assert_eq!((&events[1]["kind"], &events[1]["face_id"]), (&"DESTROYED".into(), &face_id.into()));
    let routes = forwarder.output(&["nfdc", "route", "list"]);
    assert!(!routes.contains("/python"), "its faces are gone, and so are their routes: {routes}");
}

/// ndn-js has no more of management than this: a command of the old form, signed with RSA.
#[test]
fn ndn_js_registers_its_prefix() {
    if !require(&[Peer::NdnJs]) {
        return;
    }
    let forwarder = forwarder();
    let file = forwarder.directory().join("file");
    std::fs::write(&file, b"registered").unwrap();
    // It says that it is ready when the forwarder has said that it is registered.
    let transport = Transport(forwarder.unix());
    let producer = Peer::NdnJs.produce(&transport, "/ndnjs/prefix", &file, forwarder.directory());
    let routes = forwarder.output(&["nfdc", "route", "show", "/ndnjs/prefix"]);
    assert!(routes.contains("origin=app cost=0 flags=child-inherit"), "{routes}");
    drop(producer);
    wait_until("the route to go with its face", || {
        let routes = forwarder.output(&["nfdc", "route", "list"]);
        (!routes.contains("/ndnjs")).then_some(())
    });
}
