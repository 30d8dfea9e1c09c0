//! Errors in a configuration, and the messages of the start.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use namewire_tests::{Settings, free_port, program, run_to_end, wait_until};
use rustix::process::Signal;

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(program());
    command.args(arguments);
    run_to_end(command)
}

/// `run` and `config check` refuse the same files, with the same messages.
#[test]
fn run_and_config_check_reject_the_same_files() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("namewire.toml");
    let path = file.to_str().unwrap();
    let unix = format!("listeners.unix.path = \"{}/n.sock\"\n", directory.path().display());
    for (text, stated) in [
        (
            "forwarder = { workers = 64, io_workers = 60, placement = \"P4\" }",
            "forwarder.placement",
        ),
        ("forwarder.cpus = [4000]", "processor 4000"),
        ("overload = { mark_after = \"20ms\", shed_after = \"10ms\" }", "overload.shed_after"),
        ("listeners.websocket = { enabled = true, port = 6363 }", "listeners.websocket"),
        ("privileges.group = \"daemon\"", "privileges.group"),
        ("control.path = \"/nonexistent/deep/control.sock\"", "/nonexistent/deep"),
        ("management.localhop_rib = \"/nonexistent/rules\"", "/nonexistent/rules"),
        ("management.identity = \"/nobody/has/this\"", "identity"),
    ] {
        std::fs::write(&file, format!("{unix}{text}\n")).unwrap();
        let (checked, ran) = (run(&["config", "check", path]), run(&["run", "--config", path]));
        let reason = String::from_utf8(checked.stderr).unwrap();
        assert!(reason.contains(stated), "{text}: {reason}");
        assert_eq!(String::from_utf8(ran.stderr).unwrap(), reason, "{text}");
        assert!(!checked.status.success() && !ran.status.success(), "{text}");
    }
    assert!(!directory.path().join("n.sock").exists(), "nothing was opened");
    std::fs::write(&file, format!("{unix}overload.mark_after = \"1ms\"\n")).unwrap();
    assert!(run(&["config", "check", path]).status.success());
}

#[test]
fn all_faults_are_reported_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("namewire.toml");
    let text = "forwarder.cpus = [4000]\n\
                overload = { mark_after = \"20ms\", shed_after = \"10ms\" }\n\
                listeners.websocket = { enabled = true, port = 6363 }\n\
                control.path = \"/nonexistent/deep/control.sock\"\n\
                management.localhop_rib = \"/nonexistent/rules\"\n\
                [[static_routes]]\nprefix = \"/a\"\n";
    std::fs::write(&file, text).unwrap();
    let checked = run(&["config", "check", file.to_str().unwrap()]);
    assert_eq!(checked.status.code(), Some(2), "{checked:?}");
    let reported = String::from_utf8(checked.stderr).unwrap();
    let lines: Vec<_> = reported.lines().collect();
    let expected = [
        (1, "processor 4000"),
        (2, "below mark_after"),
        (3, "the same TCP port"),
        (4, "/nonexistent/deep"),
        (5, "/nonexistent/rules"),
        (6, "`static_routes.face` is missing"),
    ];
    assert_eq!(lines.len(), expected.len(), "{reported}");
    for (line, (number, reason)) in lines.iter().zip(expected) {
        assert!(
            line.contains(&format!("namewire.toml:{number}:")) && line.contains(reason),
            "{line}"
        );
    }
}

#[test]
fn missing_devices_are_reported_with_their_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (toml, conf) = (path("namewire.toml"), path("nfd.conf"));
    std::fs::write(&toml, "\n[forwarder]\ncpus = [4000]\n").unwrap();
    let refused = run(&["config", "check", &toml]);
    let stated = String::from_utf8_lossy(&refused.stderr);
    assert!(stated.contains("namewire.toml:3:8: forwarder.cpus: processor 4000"), "{stated}");
    std::fs::write(&toml, "\nmanagement.localhop_rib = \"/nonexistent/rules\"\n").unwrap();
    let refused = run(&["config", "check", &toml]);
    let stated = String::from_utf8_lossy(&refused.stderr);
    assert!(
        stated.contains("namewire.toml:2:27: ") && stated.contains("/nonexistent/rules"),
        "{stated}"
    );
    let text = format!(
        "face_system {{ unix {{ path {} }} }}\nmw-nfd {{\nforwarding-worker-core-assign 4000\n}}\n",
        path("nfd.sock")
    );
    std::fs::write(&conf, text).unwrap();
    let converted = run(&["config", "convert", &conf]);
    let stated = String::from_utf8_lossy(&converted.stderr);
    assert!(
        stated.contains("nfd.conf:3: `forwarding-worker-core-assign`: processor 4000"),
        "{stated}"
    );
}

#[test]
fn settings_that_exceed_the_machine_cause_warnings() {
    let directory = tempfile::tempdir().unwrap();
    let toml = directory.path().join("namewire.toml").to_str().unwrap().to_owned();
    let text = "forwarder.workers = 64\npool.capacity = \"1GiB\"\n\
                tables.cs.capacity_bytes = \"900TiB\"\nlisteners.unix.path = \"here.sock\"\n\
                listeners.ethernet = { enabled = true, interfaces = [\"eth97\"] }\n";
    let messages_of = |text: &str| {
        std::fs::write(&toml, text).unwrap();
        let checked = run(&["config", "check", &toml]);
        let printed = String::from_utf8_lossy(&checked.stdout).into_owned();
        (checked.status.success(), printed, String::from_utf8_lossy(&checked.stderr).into_owned())
    };
    let (_, printed, warnings) = messages_of(text);
    for expected in [
        ":1:",
        "64 workers share ",
        ":3:",
        "the Content Store needs 943718400 MiB and gets ",
        ":4:",
        "here.sock is relative",
        ":5:",
        "there is no interface eth97",
    ] {
        assert!(warnings.contains(expected), "{expected}: {warnings}{printed}");
    }
    // Beside an error, too.
    let (is_valid, _, messages) = messages_of(&format!("{text}unknown = 1\n"));
    assert!(!is_valid && messages.contains("unknown"), "{messages}");
    assert!(messages.contains("64 workers share "), "{messages}");
}

#[test]
fn failed_conversion_writes_no_configuration() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (conf, toml) = (path("nfd.conf"), path("namewire.toml"));
    let good = format!("face_system {{ unix {{ path {} }} }}\n", path("nfd.sock"));
    std::fs::write(&conf, format!("{good}nonsense {{ }}\n")).unwrap();
    let output = run(&["config", "convert", &conf]);
    assert!(!output.status.success() && output.stdout.is_empty());
    // As a shell leaves it.
    std::fs::write(&toml, "").unwrap();
    assert!(!run(&["config", "check", &toml]).status.success());
    assert!(!run(&["config", "convert", &conf, "-o", &toml]).status.success());
    assert_eq!(std::fs::read(&toml).unwrap(), b"", "it is as it was");

    std::fs::write(&conf, &good).unwrap();
    assert!(run(&["config", "convert", &conf, "-o", &toml]).status.success());
    let printed = run(&["config", "convert", &conf]).stdout;
    assert_eq!(std::fs::read(&toml).unwrap(), printed);
    assert!(run(&["config", "check", &toml]).status.success());
    let left = std::fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(left, 2, "nothing is left beside the two files");
}

#[test]
fn start_reports_an_unusual_control_socket() {
    let usual = Settings::new().start_program();
    assert!(!usual.process.stdout().contains("--control"), "{}", usual.process.stdout());
    let directory = tempfile::tempdir().unwrap();
    let control = directory.path().join("elsewhere.sock");
    let unusual =
        Settings::new().argument("--control").argument(control.to_str().unwrap()).start_program();
    let stated = unusual.process.stdout();
    assert!(stated.contains(&format!("--control {}", control.display())), "{stated}");
    let _ = unusual.output(&["log", "--control", control.to_str().unwrap()]);
    let by_socket = run(&["webtransport", "--transport", usual.socket().to_str().unwrap()]);
    assert!(by_socket.status.success(), "{by_socket:?}");
    let elsewhere = run(&["webtransport", "--transport", "tcp://192.0.2.1"]);
    assert_eq!(elsewhere.status.code(), Some(2), "{elsewhere:?}");
    assert!(String::from_utf8_lossy(&elsewhere.stderr).contains("name its Unix socket"));
    // And a path alone says where the forwarder is.
    let socket = unusual.socket().to_str().unwrap().to_owned();
    let status = run(&["status", "--transport", &socket]);
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
}

#[test]
fn existing_route_is_updated_or_kept() {
    let forwarder = Settings::new().udp().start();
    let add = |cost: &str| {
        let command = ["route", "add", "/a", "udp4://127.0.0.1:1", "--cost", cost];
        forwarder.output(&command).trim().to_owned()
    };
    assert!(add("5").ends_with(" added"), "{}", add("5"));
    assert!(add("6").ends_with(" changed"));
    assert!(add("6").ends_with(" exists already"));
}

#[test]
fn connecting_applications_are_not_logged() {
    let forwarder = Settings::new().tcp().start_program();
    let _ = forwarder.output(&["status"]);
    assert!(!forwarder.process.stderr().contains("face created"), "{}", forwarder.process.stderr());
}

/// A lack of room for the requested tables is detected by the running forwarder only.
#[test]
fn reload_that_exceeds_the_fib_changes_nothing() {
    let forwarder = Settings::new().toml("[tables]\nfib_capacity = 16").start_program();
    // One entry is management's own.
    for number in 1..16 {
        let added = forwarder.run(&["route", "add", &format!("/{number}"), "1"]);
        assert!(added.status.success());
    }
    let path = forwarder.directory().join("namewire.toml");
    let before = std::fs::read_to_string(&path).unwrap();
    let more = "[management]\nlocalhop_rib = \"any\"\nauthorizations = []\n\
                [[strategy_choices]]\nprefix = \"/\"\nstrategy = \"asf\"\n";
    std::fs::write(&path, format!("{before}{more}")).unwrap();
    forwarder.process.signal(Signal::HUP);
    wait_until("the refusal", || {
        forwarder.process.stderr().contains("the configuration stays as it was").then_some(())
    });
    // Who may do what, and the strategies, are what they were.
    let strategies = forwarder.output(&["strategy", "list"]);
    assert!(!strategies.contains("asf"), "{strategies}");
    for command in [&["strategy", "set", "/a", "multicast"], &["route", "remove", "/1", "1"]] {
        assert!(forwarder.run(command).status.success());
    }
    // With room, it is taken.
    forwarder.process.signal(Signal::HUP);
    wait_until("the strategy", || {
        forwarder.output(&["strategy", "list"]).contains("asf").then_some(())
    });
    assert!(!forwarder.run(&["strategy", "set", "/a", "multicast"]).status.success());
}

/// Faces and routes follow the configuration, and what has to wait is named with the reason.
#[test]
fn reload_applies_static_faces_and_routes() {
    let route = |prefix: &str, port: u16| {
        format!("[[static_routes]]\nprefix = \"{prefix}\"\nface = \"udp4://127.0.0.1:{port}\"\n")
    };
    let before = route("/stays", 9) + &route("/goes", 9) + &route("/also-goes", 10);
    let forwarder = Settings::new().udp().toml(&before).start_program();
    let fib = |present: &[&str], absent: &[&str]| {
        let shown = forwarder.output(&["route", "fib"]);
        let has = |prefix: &&str| shown.contains(&format!("{prefix} "));
        (present.iter().all(&has) && !absent.iter().any(has)).then_some(())
    };
    wait_until("the routes", || fib(&["/stays", "/goes", "/also-goes"], &[]));
    let face = forwarder.json(&["face", "show", "udp4://127.0.0.1:9"])["face_id"].clone();
    let path = forwarder.directory().join("namewire.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(&before), "{text}");
    let after = route("/stays", 9) + &route("/comes", 11) + "[pool]\ncapacity = \"512MiB\"\n";
    std::fs::write(&path, text.replace(&before, &after)).unwrap();
    forwarder.process.signal(Signal::HUP);
    wait_until("the change", || fib(&["/stays", "/comes"], &["/goes", "/also-goes"]));
    let same = forwarder.json(&["face", "show", "udp4://127.0.0.1:9"])["face_id"].clone();
    assert_eq!(same, face, "a face that stays is the same one");
    wait_until("the end of the face", || {
        (!forwarder.output(&["face", "list"]).contains("udp4://127.0.0.1:10")).then_some(())
    });
    let log = forwarder.process.stderr();
    assert!(
        log.contains("take effect at the next start: pool.capacity (memory is reserved"),
        "{log}"
    );
}

/// The cache policy changes by command and by reload, and what is cached stays.
#[test]
fn cache_policy_changes_without_loss() {
    let before = "[tables.cs]\npolicy = \"priority_fifo\"\n";
    let forwarder = Settings::new().toml(before).start_program();
    let policy = || forwarder.json(&["cs"])["policy"].clone();
    assert_eq!(policy(), "priority-fifo");
    let file = forwarder.directory().join("object");
    std::fs::write(&file, vec![1; 300 * 100]).unwrap();
    let path = file.display().to_string();
    let mut put = forwarder.spawn("put", &["put", "/kept", &path, "--segment-size", "100B"]);
    put.wait_for_output("published");
    let _ = forwarder.output(&["get", "/kept", "-o", "-", "--quiet"]);
    let policies =
        ["lru", "w-tinylfu", "s3-fifo", "sieve", "arc", "lfu", "windowed-lfu", "gdsf", "random"];
    for name in policies.into_iter().chain(["priority-fifo"]) {
        assert_eq!(forwarder.json(&["cs", "config", "--policy", name])["policy"], name);
    }
    let refused = forwarder.run(&["cs", "config", "--policy", "mru"]);
    assert_eq!(refused.status.code(), Some(2));
    let refused = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.contains("unknown cache policy 'mru'; known: lru, "), "{refused}");

    let path = forwarder.directory().join("namewire.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(before), "{text}");
    std::fs::write(&path, text.replace(before, "[tables.cs]\npolicy = \"arc\"\n")).unwrap();
    forwarder.process.signal(Signal::HUP);
    wait_until("the change", || (policy() == "arc").then_some(()));
    // A reload that leaves the policy as it was keeps what a command has chosen.
    assert_eq!(forwarder.json(&["cs", "config", "--policy", "sieve"])["policy"], "sieve");
    let reloads = || forwarder.process.stderr().matches("the configuration was read again").count();
    let earlier = reloads();
    forwarder.process.signal(Signal::HUP);
    wait_until("the reload", || (reloads() > earlier).then_some(()));
    assert_eq!(policy(), "sieve");

    let erased = forwarder.json(&["cs", "erase", "/kept"])["erased_packets"].as_u64().unwrap();
    assert!(erased >= 300, "{erased} of more than 300 packets were cached");
}

/// A reload opens, moves and closes listeners, while faces and cached Data stay.
#[test]
fn reload_changes_listeners_and_keeps_faces_and_cache() {
    let forwarder = Settings::new().start_program();
    let path = forwarder.directory().join("namewire.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let off = "[listeners.tcp]\nenabled = false\n";
    assert!(text.contains(off), "{text}");
    let reload = |listener: &str| {
        std::fs::write(&path, text.replace(off, listener)).unwrap();
        forwarder.process.signal(Signal::HUP);
    };
    let tcp = |addresses: &str, port: u16| {
        format!("[listeners.tcp]\nenabled = true\naddresses = [{addresses}]\nport = {port}\n")
    };
    let channels = || forwarder.json(&["status"])["channels"].to_string();
    let wait_for_channel = |channel: &str, is_there: bool| {
        wait_until(channel, || (channels().contains(channel) == is_there).then_some(()));
    };
    let [port, other] = [free_port(), free_port()];
    let ping =
        |port: u16| forwarder.run(&["status", "--transport", &format!("tcp4://127.0.0.1:{port}")]);

    // Data is cached, and an application has a face.
    let mut producer = forwarder.spawn("put", &["put", "/kept", "/etc/hostname"]);
    wait_until("the object", || {
        forwarder.run(&["get", "/kept", "-o", "/dev/null"]).status.success().then_some(())
    });
    let cached = || forwarder.json(&["cs", "info"])["entries"].as_u64().unwrap();
    let (faces, packets) = (forwarder.output(&["face", "list"]).lines().count(), cached());
    assert!(packets > 0);

    reload(&tcp("\"0.0.0.0\"", port));
    wait_for_channel(&format!("tcp4://0.0.0.0:{port}"), true);
    assert!(ping(port).status.success());

    // The address overlaps with the one before.
    reload(&tcp("\"127.0.0.1\"", port));
    wait_for_channel(&format!("tcp4://127.0.0.1:{port}"), true);
    wait_for_channel(&format!("tcp4://0.0.0.0:{port}"), false);
    assert!(ping(port).status.success());

    // A port in use refuses the reload, and the listener stays.
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let in_use = taken.local_addr().unwrap().port();
    reload(&tcp("\"127.0.0.1\"", in_use));
    let refusal = format!("the configuration stays as it was: TCP port {in_use} is in use");
    wait_until("the refusal", || forwarder.process.stderr().contains(&refusal).then_some(()));
    assert!(ping(port).status.success());

    reload(&tcp("\"127.0.0.1\", \"127.0.0.2\"", other));
    wait_for_channel(&format!("tcp4://127.0.0.2:{other}"), true);
    assert!(ping(other).status.success() && !ping(port).status.success());

    reload(off);
    wait_for_channel("tcp4://", false);
    assert!(!ping(other).status.success());
    assert_eq!(forwarder.output(&["face", "list"]).lines().count(), faces);
    assert!(cached() >= packets, "the cache stays");
    assert!(producer.is_running());
    assert!(forwarder.run(&["get", "/kept", "-o", "/dev/null"]).status.success());

    // The command prints what a signal only logs.
    std::fs::write(&path, text.replace(off, "[listeners.tcp]\nport = 0\n")).unwrap();
    let [check, reload] = [&["config", "reload", "--check"][..], &["config", "reload"]];
    let refused = |arguments: &[&str], stated: &str| {
        let refused = forwarder.run(arguments);
        let reason = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{reason}");
        assert!(reason.contains(stated), "{reason}");
    };
    for arguments in [check, reload] {
        refused(arguments, "listeners.tcp.port");
    }

    // A check opens what a reload would open, and reports what a reload would change.
    std::fs::write(&path, text.replace(off, &tcp("\"127.0.0.1\"", in_use))).unwrap();
    for arguments in [check, reload] {
        refused(arguments, &format!("port {in_use} is in use"));
    }
    drop(taken);
    let [planned, done] = [check, reload].map(|arguments| forwarder.output(arguments));
    assert!(planned.contains("changes at a reload: listeners.tcp.enabled\n"), "{planned}");
    assert!(done.contains("\nchanged: listeners.tcp.enabled\n"), "{done}");
    // The listener is its own, on the address and on all addresses.
    std::fs::write(&path, text.replace(off, &tcp("\"0.0.0.0\"", in_use))).unwrap();
    let planned = forwarder.output(check);
    assert!(planned.ends_with("changes at a reload: listeners.tcp.addresses\n"), "{planned}");
    assert!(ping(in_use).status.success(), "a check closes nothing");
    std::fs::write(&path, &text).unwrap();
    assert!(forwarder.output(reload).contains("changed: listeners.tcp."));
    std::fs::write(&path, format!("{text}[tables]\npit_capacity = 5000\n")).unwrap();
    let reloaded = forwarder.output(&["config", "reload"]);
    let waits = "takes effect at the next start: tables.pit_capacity: memory is reserved";
    assert!(reloaded.starts_with("the configuration was read again\n"), "{reloaded}");
    assert!(reloaded.contains(waits), "{reloaded}");

    // Another mode of the Unix socket takes effect; another path waits, with the reason.
    let unix = format!("path = \"{}\"\n", forwarder.socket().display());
    let moved = text.replace(&unix, "path = \"/tmp/other.sock\"\nmode = \"0600\"\n");
    assert_ne!(moved, text);
    std::fs::write(&path, moved).unwrap();
    forwarder.process.signal(Signal::HUP);
    let mode = || std::fs::metadata(forwarder.socket()).unwrap().permissions().mode() & 0o777;
    wait_until("the mode", || (mode() == 0o600).then_some(()));
    wait_until("the reason", || {
        let reason = "listeners.unix.path (commands find the control socket";
        forwarder.process.stderr().contains(reason).then_some(())
    });
}
