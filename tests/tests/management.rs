//! The management commands, against the forwarder: what operators and scripts see.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

use namewire_tests::wire::PacketReader;
use namewire_tests::{
    Application, Forwarder, Process, Settings, dissect_with_tshark, free_port, run_to_end,
    skip_unless_found, wait_until, wire,
};
use ndn_management::route_flag;
use serde_json::Value;

fn array(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("{value} is no array"))
}

#[test]
fn status_shows_the_state_of_the_forwarder() {
    let forwarder =
        Settings::new().tcp().udp().toml("[tables.cs]\ncapacity_packets = 1234").start();
    let status = forwarder.json(&["status"]);
    assert!(status["version"].as_str().unwrap().contains(env!("CARGO_PKG_VERSION")), "{status}");
    assert_eq!(status["cs"]["capacity_packets"], 1234);
    let channels: Vec<&str> = array(&status["channels"]).iter().filter_map(Value::as_str).collect();
    let port = forwarder.port();
    for requested in
        [forwarder.unix(), format!("tcp4://127.0.0.1:{port}"), format!("udp4://127.0.0.1:{port}")]
    {
        assert!(channels.contains(&requested.as_str()), "{requested} in {channels:?}");
    }
    let text = forwarder.output(&["status"]);
    assert!(text.contains("1 234"), "{text}");
}

#[test]
fn faces_are_created_shown_changed_and_destroyed() {
    let forwarder = Settings::new().udp().start();
    let peer = "udp4://127.0.0.1:9";
    let created =
        forwarder.json(&["face", "create", peer, "--persistency", "permanent", "--mtu", "1400B"]);
    assert_eq!(created["what"], "created");
    let id = created["face_id"].as_u64().unwrap();
    assert!(id > 255, "FaceIds to 255 are reserved");
    let again = forwarder.json(&["face", "create", peer]);
    assert_eq!(
        (again["what"].as_str(), again["face_id"].as_u64()),
        (Some("exists already"), Some(id))
    );

    let shown = forwarder.json(&["face", "show", peer]);
    assert_eq!(shown["face_id"], id);
    assert_eq!(shown["persistency"], "permanent");
    assert_eq!(shown["scope"], "non-local");
    assert_eq!(shown["mtu_bytes"], 1400);

    let listed = forwarder.json(&["face", "list", "--scheme", "udp4"]);
    assert_eq!(array(&listed).len(), 1);

    let destroyed = forwarder.json(&["face", "destroy", &id.to_string()]);
    assert_eq!(destroyed["what"], "destroyed");
    wait_until("the face to be gone", || {
        let output = forwarder.run(&["face", "show", peer]);
        (!output.status.success()).then_some(())
    });
    let missing = forwarder.run(&["face", "destroy", "99999"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("there is no face 99999"));
}

#[test]
fn destroyed_face_reports_its_routes() {
    let forwarder = Settings::new().udp().start();
    let peer = "udp4://127.0.0.1:9";
    let destroyed = |routes: &[&str], json: &[&str]| {
        let _ = forwarder.output(&["face", "create", peer]);
        for route in routes {
            let _ = forwarder.output(&["route", "add", route, peer]);
        }
        forwarder.output(&[&["face", "destroy", peer][..], json].concat())
    };
    let text = destroyed(&["/b", "/a", "/c", "/d"], &[]);
    assert!(text.ends_with("destroyed, and with it 4 routes: /a, /b, /c and 1 more\n"), "{text}");
    let text = destroyed(&[], &[]);
    assert!(text.ends_with("to udp4://127.0.0.1:9 destroyed\n"), "{text}");
    let json: Value = serde_json::from_str(&destroyed(&["/a"], &["--json"])).unwrap();
    let routes = array(&json["routes"]);
    assert_eq!((routes.len(), &routes[0]["prefix"]), (1, &"/a".into()), "{json}");
}

#[test]
fn faces_of_applications_have_their_processes() {
    let forwarder = Settings::new().start();
    let file = forwarder.directory().join("object");
    std::fs::write(&file, "content").unwrap();
    let put = ["put", "/object", file.to_str().unwrap()];
    let mut server = forwarder.spawn("server", &put);
    server.wait_for_output("published");
    let pid = server.pid().as_raw_nonzero().get();
    let faces = forwarder.json(&["face", "list"]);
    let mut processes = array(&faces).iter().map(|face| &face["link"]["process"]);
    let process = processes.find(|process| process["process_id"] == pid).unwrap();
    assert!(process["command"].as_str().unwrap().starts_with("namewire"), "{process}");
    assert_eq!(process["user_id"], rustix::process::geteuid().as_raw());
    let shown = format!("process {pid} (namewire");
    for command in [&["face", "list"][..], &["face", "list", "--long"], &["route", "list"]] {
        let printed = forwarder.output(command);
        assert!(printed.contains(&shown), "{printed}");
    }
    let second = forwarder.spawn("second", &put);
    wait_until("the note", || {
        let noted = second.stderr();
        let is_noted = noted.contains("/object has 2 producers on this host, via face ");
        (is_noted && noted.contains(&shown)).then_some(())
    });
    let pings = ["first pings", "second pings"].map(|name| {
        let mut server = forwarder.spawn(name, &["ping-server", "/pinged"]);
        server.wait_for_output("responding");
        server
    });
    wait_until("the note on pings", || {
        let noted = pings[1].stderr();
        noted.contains("/pinged/ping has 2 producers on this host, via face ").then_some(())
    });
}

#[test]
fn configured_face_without_a_peer_is_shown_as_waiting() {
    let port = free_port();
    let face = format!("[[static_faces]]\nuri = \"tcp4://127.0.0.1:{port}\"\n");
    let forwarder = Settings::new().toml(&face).start_program();
    let peer = format!("tcp://127.0.0.1:{port}");
    let refused = wait_until("a failed attempt", || {
        let shown = forwarder.json(&["face", "show", &peer]);
        assert_eq!(
            (&shown["face_id"], &shown["state"]),
            (&Value::Null, &"waiting".into()),
            "{shown}"
        );
        shown["last_failure"].as_str().map(str::to_owned)
    });
    let shown = forwarder.output(&["face", "show", &peer]);
    assert!(shown.contains("waiting: it is being created"), "{shown}");
    assert!(shown.contains(&refused), "{shown}");
    let line = format!("no face was created: remote=tcp4://127.0.0.1:{port}, reason=");
    let log = forwarder.process.stderr();
    assert!(log.contains(&line), "{log}");
    let output = forwarder.run(&["face", "create", &peer, "--persistency", "permanent"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains(": 504 ") && errors.contains("`[[static_faces]]`"), "{errors}");
    let none = forwarder.run(&["face", "show", "tcp4://127.0.0.2:9"]);
    assert_eq!(none.status.code(), Some(1), "{none:?}");
}

#[test]
fn next_hop_of_an_unknown_scheme_is_refused_with_the_known_ones() {
    let forwarder = Settings::new().start();
    let refused = forwarder.run(&["route", "add", "/a", "nosuch://192.0.2.1"]);
    let text = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{text}");
    assert!(text.contains("unknown scheme `nosuch`; known: udp, udp4,"), "{text}");
}

#[test]
fn impossible_faces_are_rejected() {
    let forwarder = Settings::new().udp().start();
    for (uri, code) in [
        ("udp4://router.invalid:6363", 1),
        ("udp4://[::1]:6363", 2),
        ("unix:///tmp/x", 2),
        ("tcp4://127.0.0.1:1", 1),
    ] {
        let output = forwarder.run(&["face", "create", uri]);
        let stated = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{uri}: {stated}");
        let is_connection = uri.starts_with("tcp4");
        assert_eq!(is_connection, stated.contains(": 504 Connection failed: "), "{stated}");
        assert!(!stated.contains("os error"), "{stated}");
    }
}

#[test]
fn next_hops_may_have_host_names() {
    let forwarder = Settings::new().udp().start();
    let created = forwarder.json(&["face", "create", "udp4://localhost:9"]);
    assert_eq!(created["remote_uri"], "udp4://127.0.0.1:9");
    let added = forwarder.json(&["route", "add", "/a", "udp4://localhost:9"]);
    assert_eq!(added["face_id"], created["face_id"]);
    let shown = forwarder.json(&["face", "show", "udp4://localhost:9"]);
    assert_eq!(shown["face_id"], created["face_id"]);
    let removed = forwarder.json(&["route", "remove", "/a", "udp4://localhost:9"]);
    assert_eq!(removed["what"], "removed");
}

#[test]
fn unanswered_datasets_are_reported_with_the_reason() {
    let forwarder = Settings::new().udp().start();
    let transport = format!("udp4://127.0.0.1:{}", forwarder.port());
    let output = forwarder.run(&["status", "--transport", &transport]);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{complaint}");
    assert!(complaint.contains("local"), "it says why: {complaint}");
}

#[test]
fn routes_are_added_listed_and_removed() {
    let forwarder = Settings::new().udp().start();
    let peer = "udp4://127.0.0.1:9";
    let added = forwarder.json(&["route", "add", "/a/b", peer, "--cost", "7"]);
    let id = added["face_id"].as_u64().unwrap();
    let find = |list: &Value, prefix: &str| -> Option<Value> {
        array(list).iter().find(|entry| entry["prefix"] == prefix).cloned()
    };
    let route = find(&forwarder.json(&["route"]), "/a/b").unwrap();
    assert_eq!(route["origin"], "static");
    assert_eq!(route["cost"], 7);
    assert_eq!(route["face_id"], id);
    let entry = find(&forwarder.json(&["route", "fib"]), "/a/b").unwrap();
    assert_eq!(entry["next_hops"][0]["face_id"], id);
    assert_eq!(entry["next_hops"][0]["cost"], 7);
    let used = forwarder.json(&["route", "fib", "/a/b/c/d"]);
    assert!(array(&used).len() == 1 && find(&used, "/a/b").is_some(), "{used}");
    assert!(array(&forwarder.json(&["route", "fib", "/b"])).is_empty());

    let _ = forwarder.output(&["route", "remove", "/a/b", peer]);
    wait_until("the entry to be gone", || {
        find(&forwarder.json(&["route", "fib"]), "/a/b").is_none().then_some(())
    });
    assert_eq!(forwarder.run(&["route", "remove", "/a/b", peer]).status.code(), Some(1));
    assert_eq!(forwarder.run(&["route", "add", "/a", "99999"]).status.code(), Some(1));
}

#[test]
fn batch_with_an_unusable_next_hop_adds_no_route() {
    let forwarder = Settings::new().udp().start();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("routes");
    let add = |lines: &str| {
        std::fs::write(&file, lines).unwrap();
        forwarder.run(&["route", "add", "--batch", file.to_str().unwrap()])
    };
    for nexthop in ["udp4://127.0.0.1:99999", "77777"] {
        let output = add(&format!("/batch/a udp4://127.0.0.1:9\n/batch/b {nexthop}\n"));
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && errors.contains("routes, line 2: "), "{errors}");
        let routes = forwarder.json(&["route", "list", "--prefix", "/batch"]);
        assert!(array(&routes).is_empty(), "{routes}");
    }
    assert!(add("/batch/a udp4://127.0.0.1:9\n/batch/b udp4://127.0.0.1:9\n").status.success());
    let routes = forwarder.json(&["route", "list", "--prefix", "/batch"]);
    assert_eq!(array(&routes).len(), 2, "{routes}");
}

#[test]
fn batch_ends_at_the_route_that_is_rejected() {
    let forwarder = Settings::new().udp().start();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("routes");
    let line = |prefix: &str| format!("{prefix} udp4://127.0.0.1:9\n");
    let numbered = |range: std::ops::Range<usize>| -> String {
        range.map(|number| line(&format!("/batch/{number}"))).collect()
    };
    let too_long = line(&format!("/{}", "x".repeat(8750)));
    std::fs::write(&file, numbered(1..101) + &too_long + &numbered(102..1000)).unwrap();
    let output = forwarder.run(&["route", "add", "--batch", file.to_str().unwrap()]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("routes, line 101: rib/register cannot be sent: "), "{errors}");
    assert!(errors.contains("; a packet has at most 8800") && !output.status.success(), "{errors}");
    let routes = forwarder.json(&["route", "list", "--prefix", "/batch"]);
    let count = array(&routes).len();
    assert!((100..200).contains(&count), "{count}");
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.starts_with(&format!("{count} routes added")), "{printed}");
}

#[test]
fn a_route_expires() {
    let forwarder = Settings::new().udp().start();
    let route = ["route", "add", "/soon/gone", "udp4://127.0.0.1:9", "--expires", "5s"];
    let _ = forwarder.output(&route);
    let has = |command: &[&str]| forwarder.output(command).contains("/soon/gone");
    wait_until("the route and its next hop", || {
        (has(&["route"]) && has(&["route", "fib"])).then_some(())
    });
    wait_until("the route to expire", || {
        (!has(&["route"]) && !has(&["route", "fib"])).then_some(())
    });
}

#[test]
fn management_answers_all_requests_about_its_own_face() {
    let forwarder = Settings::new().udp().start();
    for setting in [["--local-fields", "off"], ["--reliability", "on"]] {
        let _ = forwarder.output(&[["face", "update", "1"].as_slice(), &setting].concat());
        let _ = forwarder.output(&["route", "add", "/still/there", "udp4://127.0.0.1:9"]);
        assert!(forwarder.output(&["route"]).contains("/still/there"), "{setting:?}");
        let _ = forwarder.output(&["route", "remove", "/still/there", "udp4://127.0.0.1:9"]);
    }
}

#[test]
fn strategies_are_chosen_and_inherited() {
    let forwarder = Settings::new().start();
    let strategy_of = |name: &str| {
        forwarder.json(&["strategy", "show", name])["strategy"].as_str().unwrap().to_owned()
    };
    assert!(strategy_of("/a/b").contains("best-route"));
    assert!(strategy_of("/localhost").contains("multicast"));
    let _ = forwarder.output(&["strategy", "set", "/a", "multicast"]);
    wait_until("the choice", || strategy_of("/a/b").contains("multicast").then_some(()));
    let _ = forwarder.output(&["strategy", "unset", "/a"]);
    wait_until("the inheritance", || strategy_of("/a/b").contains("best-route").then_some(()));
    let without = forwarder.run(&["strategy", "unset", "/a"]);
    let text = String::from_utf8_lossy(&without.stderr);
    assert_eq!(without.status.code(), Some(1), "{text}");
    assert!(text.contains("/a has no strategy of its own: it inherits "), "{text}");
    let unknown = forwarder.run(&["strategy", "set", "/a", "telepathy"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("has no strategy"));
}

#[test]
fn configured_routes_and_strategies_are_in_force() {
    let toml = "[[strategy_choices]]\nprefix = \"/sync\"\nstrategy = \"/localhost/nfd/strategy/multicast\"\n\
        [[static_faces]]\nuri = \"udp4://127.0.0.1:9\"\npersistency = \"permanent\"\n\
        [[static_routes]]\nprefix = \"/far\"\nface = \"udp4://127.0.0.1:9\"\ncost = 3\n\
        [[static_routes]]\nprefix = \"/farther\"\nface = \"udp4://127.0.0.1:10\"\n";
    let forwarder = Settings::new().udp().toml(toml).start();
    wait_until("the routes", || {
        let fib = forwarder.output(&["route", "fib"]);
        (fib.contains("/far ") && fib.contains("/farther ")).then_some(())
    });
    assert_eq!(
        forwarder.json(&["face", "show", "udp4://127.0.0.1:10"])["persistency"],
        "permanent"
    );
    assert!(forwarder.output(&["strategy", "show", "/sync/x"]).contains("multicast"));
}

/// As in NFD and ndnd: which face connected or registered first, and a route that is registered again, change nothing.
#[test]
fn own_route_has_precedence_over_an_inherited_one_of_equal_cost() {
    let forwarder = Settings::new().start();
    let mut consumer = Application::attach(forwarder.socket());
    let mut nonce = 0;
    for order in 0..4 {
        let prefixes = [format!("/order/{order}"), format!("/order/{order}/below")];
        let (connects_first, registers_first) = (order / 2, order % 2);
        let connected = [(); 2].map(|()| Application::attach(forwarder.socket()));
        let [one, other] = connected;
        let mut applications = if connects_first == 0 { [one, other] } else { [other, one] };
        let register = |applications: &mut [Application; 2], which: usize| {
            applications[which].register(&prefixes[which], route_flag::CHILD_INHERIT);
        };
        register(&mut applications, registers_first);
        register(&mut applications, 1 - registers_first);
        for again in [None, Some(0), Some(1)] {
            if let Some(which) = again {
                register(&mut applications, which);
            }
            // Names of several workers.
            for number in 0..8 {
                nonce += 1;
                let uri = format!("{}/{number}/{nonce}", prefixes[1]);
                consumer.express(&uri, nonce);
                applications[1].expect_interest(&uri);
                applications[1].answer(&uri, b"", None);
                consumer.expect_data(&uri);
            }
        }
        assert_eq!(applications[0].try_receive(std::time::Duration::from_millis(1)), None);
    }
}

#[test]
fn the_content_store_is_configured_and_erased() {
    let forwarder = Settings::new().start();
    let info = forwarder.json(&["cs", "config", "--capacity", "5000", "--serve", "off"]);
    assert_eq!(info["capacity_packets"], 5000);
    assert_eq!(info["serve"], false);
    let info = forwarder.json(&["cs", "config", "--serve", "on"]);
    assert_eq!(info["serve"], true);

    let file = forwarder.directory().join("object");
    std::fs::write(&file, vec![1; 300 * 100]).unwrap();
    let path = file.display().to_string();
    let mut put = forwarder.spawn("put", &["put", "/erase/me", &path, "--segment-size", "100B"]);
    put.wait_for_output("published");
    let _ = forwarder.output(&["get", "/erase/me", "-o", "-", "--quiet"]);
    wait_until("the memory of 300 packets of 100 bytes", || {
        let bytes =
            [&forwarder.json(&["cs"])["bytes"], &forwarder.json(&["status"])["cs"]["bytes"]]
                .map(|bytes| bytes.as_u64().unwrap());
        bytes.iter().all(|bytes| *bytes >= 30_000).then_some(())
    });
    assert!(forwarder.output(&["cs"]).contains("memory"));
    assert!(forwarder.output(&["status"]).contains("CS memory"));
    let erased = forwarder.json(&["cs", "erase", "/erase/me"])["erased_packets"].as_u64().unwrap();
    assert!(erased >= 300, "{erased}: more than one step of 256");
    let erased = forwarder.json(&["cs", "erase", "/erase/me"])["erased_packets"].as_u64().unwrap();
    assert_eq!(erased, 0);
}

#[test]
fn log_levels_change_while_it_runs() {
    let forwarder = Settings::new().start_program();
    let levels = forwarder.json(&["log"]);
    assert_eq!(levels["level"], "info");
    let levels = forwarder.json(&["log", "warn", "ndn_dataplane=debug"]);
    assert_eq!(levels["level"], "warn");
    assert_eq!(levels["modules"]["ndn_dataplane"], "debug");
    assert_eq!(forwarder.json(&["log"]), levels);
    let refused = forwarder.run(&["log", "loud"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("`loud`"));
}

#[test]
fn a_capture_has_what_faces_receive_and_send() {
    let forwarder = Settings::new().start();
    let file = forwarder.directory().join("capture.pcapng");
    let path = file.display().to_string();
    let mut capture = forwarder.spawn("capture", &["capture", "-w", &path]);
    // Interests go out until the capture has one of them: it starts when it starts.
    let mut number = 0;
    wait_until("a captured Interest", || {
        number += 1;
        let name = format!("/capture/this/{number}");
        let _ = forwarder.run(&["peek", &name, "-l", "10ms"]);
        let value = wire::name(&name).value().to_vec();
        let bytes = std::fs::read(&file).unwrap_or_default();
        bytes.windows(value.len()).any(|window| window == value).then_some(())
    });
    capture.signal(rustix::process::Signal::INT);
    assert!(capture.wait().success(), "{}", capture.everything());
    assert!(capture.stderr().contains(" packets captured, "), "{}", capture.everything());
    let dissected = forwarder.json(&["dissect", &path, "--name", "/capture/this"]);
    let packets = dissected["packets"].as_array().unwrap();
    assert!(packets.len() >= 2, "the Interest and the Nack: {dissected}");
    for packet in packets {
        assert_eq!(packet["remote_uri"], forwarder.unix(), "{packet}");
        assert!(packet["face_id"].as_u64() > Some(255), "{packet}");
    }
    let of_type = |ty: &str| packets.iter().filter(|packet| packet["type"] == ty).count();
    assert!(of_type("Interest") >= 1 && of_type("Nack") >= 1, "{dissected}");
    let nothing = forwarder.run(&["dissect", &path, "--name", "/no/packet"]);
    assert!(nothing.status.success() && nothing.stdout.is_empty(), "{nothing:?}");
    assert!(String::from_utf8_lossy(&nothing.stderr).contains("no packet has the name"));
    let lines = forwarder.output(&["dissect", &path, "--type", "nack"]);
    assert!(lines.contains("Nack /capture/this/") && lines.contains("NoRoute"), "{lines}");
    let bytes = std::fs::read(&file).unwrap();
    assert_eq!(bytes[..4], [0x0a, 0x0d, 0x0d, 0x0a], "a section header block");
    let frames = bytes.windows(2).filter(|window| *window == [0x86, 0x24]).count();
    assert!(frames >= 2, "the Interest and the Nack: {frames}");
    if skip_unless_found("tshark") {
        let mut tshark = Command::new("tshark");
        tshark.args(["-r", &path, "-T", "fields", "-e", "eth.type", "-e", "_ws.malformed"]);
        let output = run_to_end(tshark);
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let types: Vec<&str> = shown.lines().map(str::trim).collect();
        assert!(types.len() >= 2 && types.iter().all(|ty| *ty == "0x8624"), "{shown}");
        check_dissector(&forwarder, &file);
    }
}

/// Lets tshark show a capture that has an Interest, and a Nack for it.
fn check_dissector(forwarder: &Forwarder, capture: &Path) {
    let home = forwarder.directory().join("home");
    let filter = "ndn.name contains \"/capture/this/\"";
    let fields = ["ndn.type", "ndn.lp.nack", "_ws.col.Info"];
    let shown = dissect_with_tshark(&home, capture, filter, &fields);
    let has = |kind: &str, nack: &str, info: &str| {
        shown.iter().any(|fields| {
            fields[0].ends_with(kind) && fields[1] == nack && fields[2].starts_with(info)
        })
    };
    assert!(has("Interest", "", "Interest /capture/this/"), "{shown:?}");
    assert!(has("Interest", "150", "Nack NoRoute /capture/this/"), "{shown:?}");
}

#[test]
fn captured_packets_are_shown_as_they_arrive() {
    let forwarder = Settings::new().start();
    let arguments = ["capture", "--name", "/live", "--type", "interest", "--count", "1"];
    let mut capture = forwarder.spawn("capture", &arguments);
    let line = wait_until("a line for an Interest", || {
        let _ = forwarder.run(&["peek", "/live/packet", "-P", "-l", "10ms"]);
        let shown = capture.stdout();
        shown.lines().next().map(str::to_owned)
    });
    let (before, packet) = line.split_once(": Interest ").unwrap();
    assert!(packet.starts_with("/live/packet (CanBePrefix"), "{line}");
    let (_, face) = before.split_once(" from face ").unwrap();
    let (face_id, peer) = face.split_once(' ').unwrap();
    assert!(face_id.parse::<u64>().is_ok(), "{line}");
    let process = peer.strip_prefix("(process ").and_then(|rest| rest.strip_suffix(" (namewire))"));
    assert!(process.is_some_and(|pid| pid.parse::<u32>().is_ok()), "{line}");
    assert!(capture.wait().success(), "{}", capture.everything());
    assert!(capture.stderr().contains("1 packet captured"), "{}", capture.everything());
}

#[test]
fn capture_of_one_face_excludes_others() {
    let forwarder = Settings::new().start();
    let missing = forwarder.run(&["capture", "--face", "99999", "-w", "-"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("99999"));
}

#[test]
fn applications_find_the_socket_by_client_conf() {
    let forwarder = Settings::new().start();
    let home = forwarder.directory().join("home");
    std::fs::create_dir_all(home.join(".ndn")).unwrap();
    std::fs::write(home.join(".ndn/client.conf"), format!("transport={}\n", forwarder.unix()))
        .unwrap();
    let mut command = forwarder.command(&["status"]);
    command.env_remove("NDN_CLIENT_TRANSPORT").env("HOME", &home);
    assert!(run_to_end(command).status.success());
}

#[test]
fn ping_peek_and_poke_interoperate() {
    let forwarder = Settings::new().start();
    let mut server = forwarder.spawn("ping-server", &["ping-server", "/pong"]);
    server.wait_for_output("responding");
    let pings = forwarder.json(&["ping", "/pong", "-c", "5", "-i", "10ms"]);
    assert_eq!(pings["answered"], 5, "{pings}");
    let nobody = forwarder.run(&["ping", "/nobody", "-c", "1", "-t", "100ms"]);
    assert_eq!(nobody.status.code(), Some(4));

    let file = forwarder.directory().join("content");
    std::fs::write(&file, "a packet").unwrap();
    let path = file.display().to_string();
    let mut poke = forwarder.spawn("poke", &["poke", "/one/packet", &path]);
    let content = wait_until("the packet", || {
        let output = forwarder.run(&["peek", "/one/packet", "-l", "200ms"]);
        output.status.success().then_some(output.stdout)
    });
    assert_eq!(content, b"a packet");
    assert!(poke.wait().success());
}

#[test]
fn ndnping_and_ndnpingserver_interoperate_with_ping() {
    if !(skip_unless_found("ndnping") && skip_unless_found("ndnpingserver")) {
        return;
    }
    let forwarder = Settings::new().start();
    let theirs = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env("NDN_CLIENT_TRANSPORT", forwarder.unix())
            .env("HOME", forwarder.directory());
        command
    };
    let mut ours = forwarder.spawn("ping-server", &["ping-server", "/ours"]);
    ours.wait_for_output("responding");
    let output = run_to_end(theirs("ndnping", &["-c", "5", "-i", "10", "/ours"]));
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(printed.contains("5 packets transmitted, 5 received"), "{printed}");

    let server = theirs("ndnpingserver", &["/theirs"]);
    let _server = Process::start("ndnpingserver", server, forwarder.directory());
    wait_until("ndnpingserver to answer", || {
        let output = forwarder.run(&["ping", "/theirs", "-c", "3", "-i", "10ms", "--json"]);
        let statistics: Value = serde_json::from_slice(&output.stdout).ok()?;
        (statistics["answered"] == 3).then_some(())
    });
}

#[test]
fn fetch_is_verified_by_the_given_key() {
    let forwarder = Settings::new().start();
    let directory = forwarder.directory();
    let key = |name: &str| {
        let pem = ndn_security::PrivateKey::generate(ndn_security::KeyType::Ecdsa)
            .unwrap()
            .to_pem()
            .unwrap();
        let path = directory.join(name);
        std::fs::write(&path, pem.as_bytes()).unwrap();
        path.display().to_string()
    };
    let (own, other) = (key("own.pem"), key("other.pem"));
    let file = directory.join("object");
    std::fs::write(&file, vec![7; 100_000]).unwrap();
    let path = file.display().to_string();
    let mut put = forwarder.spawn("put", &["put", "/signed", &path, "--sign", &own]);
    put.wait_for_output("published");
    let out = directory.join("out");
    let out_path = out.display().to_string();
    let refused = forwarder.run(&["get", "/signed", "-o", &out_path, "--verify", &other]);
    assert_eq!(refused.status.code(), Some(5), "{}", String::from_utf8_lossy(&refused.stderr));
    assert!(!out.exists(), "what does not verify is not kept");
    let _ = forwarder.output(&["get", "/signed", "-o", &out_path, "--verify", &own, "--quiet"]);
    assert_eq!(std::fs::read(&out).unwrap(), vec![7; 100_000]);
}

#[test]
fn interest_without_a_producer_is_answered_with_a_nack() {
    let forwarder = Settings::new().start();
    let mut stream = forwarder.connect();
    std::io::Write::write_all(&mut stream, &wire::interest("/nobody/home", 1)).unwrap();
    let nack = PacketReader::new(&stream).next_packet().unwrap();
    assert_eq!(nack, wire::interest("/nobody/home", 1), "a Nack returns the Interest");
}
