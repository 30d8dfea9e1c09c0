//! Faults around the program: sockets of other users, outputs that are not read.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::OpenOptions;
use std::path::Path;
use std::process::{Command, Stdio};

use namewire_tests::{Process, Settings, noise, program, run_to_end, wait_until};
use ndn_sys::peer::StoppedProcess;
use rustix::process::Signal;

/// A command whose only information about the forwarder is `directory`.
fn command_without_hints(arguments: &[&str], directory: &Path) -> Command {
    let mut command = Command::new(program());
    command.args(arguments).env_remove("NDN_CLIENT_TRANSPORT");
    command.env("HOME", directory).env("XDG_RUNTIME_DIR", directory);
    command
}

#[test]
fn all_commands_find_the_same_forwarder() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nfd/nfd.sock");
    let transport = format!("transport=unix://{}\n", socket.display());
    std::fs::create_dir(directory.path().join(".ndn")).unwrap();
    std::fs::write(directory.path().join(".ndn/client.conf"), transport).unwrap();
    let path = socket.display().to_string();
    let run = ["run", "--socket", &path, "--no-tcp", "--no-udp"];
    let command = command_without_hints(&run, directory.path());
    let mut forwarder = Process::start("forwarder", command, directory.path());
    forwarder.wait_for_output("listening");
    for arguments in [&["status"][..], &["workers", "--duration", "50ms"], &["log"]] {
        let output = run_to_end(command_without_hints(arguments, directory.path()));
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }
}

#[test]
fn closed_outputs_do_not_cause_a_panic() {
    let full = || Stdio::from(OpenOptions::new().write(true).open("/dev/full").unwrap());
    for (arguments, status) in [
        (&["status", "--transport", "unix:///nope"][..], 3),
        (&["dissect", "/nope"], 2),
        (&["config", "check", "/nope"], 2),
        (&["peek", "x"], 2),
    ] {
        let mut command = Command::new(program());
        command.args(arguments).stdout(full()).stderr(full()).stdin(Stdio::null());
        assert_eq!(command.status().unwrap().code(), Some(status), "{arguments:?}");
    }
}

#[test]
fn forwarder_continues_when_its_output_is_closed() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("s.sock");
    let full = || Stdio::from(OpenOptions::new().write(true).open("/dev/full").unwrap());
    let mut command = Command::new(program());
    command.args(["run", "--no-tcp", "--no-udp", "--log", "trace", "--socket"]).arg(&socket);
    let mut child = command.stdout(full()).stderr(full()).stdin(Stdio::null()).spawn().unwrap();
    let transport = format!("unix://{}", socket.display());
    wait_until("an answer", || {
        assert!(child.try_wait().unwrap().is_none(), "it ended");
        let mut status = Command::new(program());
        status.args(["status", "--transport", &transport]);
        run_to_end(status).status.success().then_some(())
    });
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Without a Content Store, which would keep the answers to the commands.
#[test]
fn route_takes_850_bytes_at_most() {
    const ROUTES: [u64; 3] = [0, 5_000, 25_000];
    let forwarder =
        Settings::new().udp().toml("[tables.cs]\nadmit = false\nserve = false").start_program();
    let face = forwarder.json(&["face", "create", "udp4://127.0.0.1:9"]);
    let file = forwarder.directory().join("routes");
    let resident = [0, 1].map(|part| {
        let routes = ROUTES[part]..ROUTES[part + 1];
        let line = |number| format!("/routes/{}/{number} {}\n", number % 100, face["face_id"]);
        std::fs::write(&file, routes.map(line).collect::<String>()).unwrap();
        let _ = forwarder.output(&["route", "add", "--batch", &file.display().to_string()]);
        forwarder.resident_kib() * 1024
    });
    let per_route = (resident[1] - resident[0]) / (ROUTES[2] - ROUTES[1]);
    assert!(per_route <= 850, "{per_route} bytes");
}

/// The program with these arguments on a pseudo-terminal of 100 columns, which takes both outputs.
fn on_a_terminal(arguments: &str) -> Command {
    let mut command = Command::new("script");
    let line = format!("stty cols 100 rows 30; exec {} {arguments}", program().display());
    command.args(["-qec", &line, "/dev/null"]).stdin(Stdio::null()).env_remove("NO_COLOR");
    command
}

#[test]
fn log_has_colours_on_a_terminal_unless_they_are_unwanted() {
    let directory = tempfile::tempdir().unwrap();
    for (no_color, has_colours) in [("", true), ("1", false)] {
        let socket = directory.path().join("s.sock").display().to_string();
        let mut command = on_a_terminal(&format!("run --no-tcp --no-udp --socket {socket}"));
        command.env("NO_COLOR", no_color);
        let mut forwarder = Process::start("forwarder", command, directory.path());
        forwarder.wait_for_output("NDN_CLIENT_TRANSPORT=");
        let mut stop = Command::new(program());
        stop.args(["stop", "--transport", &socket]);
        assert!(run_to_end(stop).status.success());
        forwarder.wait();
        assert_eq!(forwarder.stdout().contains("\x1b["), has_colours, "{}", forwarder.stdout());
    }
}

#[test]
fn progress_of_a_fetch_is_shown_on_a_terminal() {
    let forwarder = Settings::new().start();
    let file = forwarder.directory().join("object");
    std::fs::write(&file, noise(1, 9_000_000)).unwrap();
    let path = file.display().to_string();
    let mut put = forwarder.spawn("put", &["put", "/shown", &path, "--segment-size", "1000B"]);
    put.wait_for_output("published");
    let fetched = forwarder.directory().join("fetched");
    let mut get = on_a_terminal(&format!("get /shown --window 1 -o {}", fetched.display()));
    get.env("NDN_CLIENT_TRANSPORT", forwarder.unix());
    let output = run_to_end(get);
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{shown}");
    for part in ["% ", "/s ", " s left", "window 1", "/shown/v="] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

#[test]
fn content_on_a_terminal_is_not_mixed_with_progress_and_the_summary() {
    let forwarder = Settings::new().start();
    let file = forwarder.directory().join("object");
    let text: String = (0..20_000).map(|number| format!("{number}\r\n")).collect();
    std::fs::write(&file, text.replace('\r', "") + "end").unwrap();
    let path = file.display().to_string();
    let mut put = forwarder.spawn("put", &["put", "/shown", &path, "--segment-size", "1000B"]);
    put.wait_for_output("published");
    let mut get = on_a_terminal("get /shown --window 1 -o -");
    get.env("NDN_CLIENT_TRANSPORT", forwarder.unix());
    let output = run_to_end(get);
    let shown = String::from_utf8_lossy(&output.stdout);
    let summary = shown.strip_prefix(&(text + "end\r\n"));
    assert!(summary.is_some_and(|summary| summary.starts_with("/shown/v=")), "{shown}");
}

#[test]
fn progress_of_a_directory_names_the_files_and_the_totals() {
    let forwarder = Settings::new().start();
    let directory = forwarder.directory().join("data");
    std::fs::create_dir_all(directory.join("run")).unwrap();
    std::fs::write(directory.join("run/events"), noise(1, 9_000_000)).unwrap();
    std::fs::write(directory.join("notes"), noise(2, 500_000)).unwrap();
    let path = directory.display().to_string();
    let serve = ["serve", &path, "--prefix", "/tree", "--segment-size", "1000B"];
    let mut server = forwarder.spawn("server", &serve);
    server.wait_for_output("serving ");
    let copy = forwarder.directory().join("copy");
    let line = format!("get /tree --recursive --window 1 -o {}", copy.display());
    let mut get = on_a_terminal(&line);
    get.env("NDN_CLIENT_TRANSPORT", forwarder.unix());
    let output = run_to_end(get);
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{shown}");
    for part in [" of 9.1 MiB", "/s ", " s left", " of 2 files", "run/events"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

#[test]
fn control_socket_in_use_is_reported_with_the_option() {
    let first = Settings::new().start();
    let control = first.socket().with_extension("control.sock").display().to_string();
    let mut command = Command::new(program());
    command.args(["run", "--no-unix", "--no-tcp", "--port", "7777", "--address", "127.0.0.1"]);
    command.args(["--control", &control]);
    let output = run_to_end(command);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("--control") && text.contains(&control), "{text}");
}

#[test]
fn unusable_root_is_reported() {
    let forwarder = Settings::new().start();
    for arguments in [&["get", "/"][..], &["strategy", "unset", "/"]] {
        let output = forwarder.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains("/: "), "{arguments:?}: {text}");
    }
}

#[test]
fn stopped_forwarder_is_named_by_all_commands() {
    let forwarder = Settings::new().start_program();
    forwarder.process.signal(Signal::STOP);
    let commands = [
        &["peek", "/a", "--lifetime", "100ms"][..],
        &["get", "/a", "-o", "-"],
        &["face", "list"],
        &["status"],
        &["workers"],
        &["traffic", "consumer", "/a", "--count", "1", "--lifetime", "100ms"],
    ];
    let started = commands.map(|command| forwarder.spawn(command[0], command));
    for mut command in started {
        let status = command.wait();
        let text = command.stderr();
        assert_eq!(status.code(), Some(4), "{text}");
        let pid = forwarder.process.pid().as_raw_nonzero();
        let reason = format!(": process {pid} is stopped; `kill -CONT {pid}`");
        assert!(text.lines().last().unwrap().contains(&reason), "{text}");
    }
    let nfdc = forwarder.run(&["nfdc", "status", "show"]);
    let text = String::from_utf8_lossy(&nfdc.stderr);
    assert!(text.contains("Error 10060 when fetching general status: the forwarder at "), "{text}");
    assert!(text.contains(" does not answer: process "), "{text}");
    // It has an exit status of its own for a prefix that was not registered.
    let ndnpoke = forwarder.directory().join("ndnpoke");
    std::os::unix::fs::symlink(program(), &ndnpoke).unwrap();
    let mut unregistered = Command::new(ndnpoke);
    unregistered.arg("/a").env("NDN_CLIENT_TRANSPORT", forwarder.unix());
    let unregistered = run_to_end(unregistered);
    let text = String::from_utf8_lossy(&unregistered.stderr);
    assert_eq!(unregistered.status.code(), Some(5), "{text}");
    assert!(text.contains("is stopped; `kill -CONT"), "{text}");
    forwarder.process.signal(Signal::CONT);
}

#[test]
fn stopped_forwarder_is_named_at_once_and_waited_for() {
    let forwarder = Settings::new().start_program();
    let pid = forwarder.process.pid().as_raw_nonzero().get();
    let reason = format!(": process {pid} is stopped; `kill -CONT {pid}` continues it");
    for command in [
        &["workers", "--duration", "50ms"][..],
        &["limits"],
        &["log"],
        &["cs"],
        &["route", "list"],
        &["nfdc", "status", "show"],
        &["capture"],
    ] {
        forwarder.process.signal(Signal::STOP);
        wait_until("the stop", || StoppedProcess::with_id(pid));
        let mut started = forwarder.spawn(command[0], command);
        wait_until("the note", || {
            let noted = started.stderr();
            (noted.contains("waiting for the forwarder at ") && noted.contains(&reason))
                .then_some(())
        });
        forwarder.process.signal(Signal::CONT);
        if command != ["capture"] {
            assert!(started.wait().success(), "{}", started.everything());
        }
        assert_eq!(started.stderr().matches(&reason).count(), 1, "{}", started.stderr());
    }
}

#[test]
fn wrong_usage_has_status_2_and_names_the_option() {
    let forwarder = Settings::new().start();
    for (arguments, stated) in [
        ("route add /a 1 --cost -1", "'--cost <COST>': the number is not negative"),
        ("ping /a --interval -1s", "'--interval <DURATION>': a duration is not negative"),
        ("put /a --segment-size -1kB", "'--segment-size <SIZE>': a size is not negative"),
        ("put /a --segment-size 99999999TiB", "a size has at most 64 bits"),
        ("run --http 6391", "'--http <ADDRESS:PORT>': it is an IP address and a port"),
        ("get /a -o - --metrics 192.0.2.1:9", "--metrics 192.0.2.1:9: it is not a loopback"),
        ("get /a -o - --metrics-push here", "--metrics-push: it is an http or https address"),
    ] {
        let refused = forwarder.run(&arguments.split(' ').collect::<Vec<_>>());
        let text = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{arguments}: {text}");
        assert!(text.contains(stated), "{arguments}: {text}");
    }
}

#[test]
fn log_level_of_a_module_can_be_reset() {
    let forwarder = Settings::new().start_program();
    let before = forwarder.output(&["log"]);
    assert!(forwarder.output(&["log", "ndn_dataplane=trace"]).contains("ndn_dataplane=trace"));
    assert_eq!(forwarder.output(&["log", "ndn_dataplane=default"]), before);
    assert_eq!(forwarder.run(&["log", "loud"]).status.code(), Some(2));
    // No such module, and one that never logs.
    for module in ["ndn_fase=debug", "ndn_table=debug"] {
        let refused = forwarder.run(&["log", module]);
        assert_eq!(refused.status.code(), Some(2));
        let text = String::from_utf8_lossy(&refused.stderr);
        assert!(text.contains("ndn_dataplane"), "it lists the modules: {text}");
    }
}

#[test]
fn changes_by_the_control_socket_are_logged_with_the_user() {
    let forwarder = Settings::new().start_program();
    let _ = forwarder.output(&["log", "ndn_dataplane=debug"]);
    let refused = forwarder.run(&["ndt", "set", "/a", "9"]);
    assert!(!refused.status.success(), "{refused:?}");
    let uid = rustix::process::geteuid().as_raw().to_string();
    let user = ndn_sys::privileges::find_user(&uid).unwrap().map_or(uid, |user| user.name);
    // The change of the level does not hide its own line.
    let _ = forwarder.output(&["log", "error"]);
    wait_until("the lines of the log", || {
        let printed = forwarder.process.everything();
        let line = |parts: [&str; 2]| {
            let has = |line: &&str| parts.iter().all(|part| line.contains(part));
            let line = printed.lines().find(has)?;
            assert!(line.contains(&format!("user=\"{user}\"")), "{line}");
            Some(line)
        };
        let requested = "request by the control socket";
        let set = line([requested, "ndn_dataplane=debug"])?;
        let rejected = line(["request by the control socket was rejected", "ndt.set"])?;
        assert!(set.contains("log.set") && rejected.contains("reason"), "{set}\n{rejected}");
        line(["directives", "error"])?;
        // Requests that only read are not logged.
        let _ = forwarder.output(&["log"]);
        assert!(!printed.contains("log.levels"), "{printed}");
        Some(())
    });
}

#[test]
fn end_of_the_forwarder_is_reported() {
    let mut forwarder = Settings::new().start_program();
    let file = forwarder.directory().join("object");
    std::fs::write(&file, "content").unwrap();
    let path = file.display().to_string();
    let mut put = forwarder.spawn("put", &["put", "/lost/file", &path]);
    put.wait_for_output("published");
    let mut server = forwarder.spawn("server", &["ping-server", "/lost/ping"]);
    server.wait_for_output("responding");
    // Nobody answers there, so that it is waiting when the forwarder goes.
    let mut slow = vec!["get", "/lost/file/v=1", "-o", "-", "--discover", "none"];
    slow.extend(["--lifetime", "15s", "--retries", "0"]);
    let mut get = forwarder.spawn("get", &slow);
    wait_until("the Interest of get", || {
        let workers = forwarder.json(&["workers", "--duration", "50ms"]);
        let workers = workers.as_array().unwrap().iter();
        let pending = workers.map(|worker| worker["total"]["pit_entries"].as_u64().unwrap());
        (pending.sum::<u64>() > 0).then_some(())
    });
    forwarder.process.signal(Signal::KILL);
    forwarder.process.wait();
    for process in [&put, &server] {
        wait_until("the loss to be reported", || {
            process.stderr().contains("is lost; reconnecting").then_some(())
        });
    }
    let status = get.wait();
    assert_eq!(status.code(), Some(3), "{}", get.everything());
    assert!(get.stderr().contains("is lost"), "{}", get.everything());
    let socket = forwarder.socket().display().to_string();
    let mut again = Command::new(program());
    again.args(["run", "--no-tcp", "--no-udp", "--socket", &socket]);
    let _again = Process::start("again", again, forwarder.directory());
    for process in [&put, &server] {
        wait_until("the connection to be back", || {
            process.stderr().contains("is back").then_some(())
        });
    }
}

#[test]
fn unused_port_is_named() {
    // Not where other tests look for free ports.
    let nobody = std::net::UdpSocket::bind("127.77.0.1:0").unwrap();
    let address = format!("udp://{}", nobody.local_addr().unwrap());
    drop(nobody);
    for (command, status) in [("ping", 4), ("peek", 3)] {
        let mut asking = Command::new(program());
        asking.args([command, "/a", "--transport", &address]);
        if command == "ping" {
            asking.args(["--count", "2", "--interval", "10ms", "--timeout", "100ms"]);
        }
        let output = run_to_end(asking);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{text}");
        assert!(text.contains(&address), "{text}");
    }
}

#[test]
fn link_that_is_down_is_reported_by_all_commands() {
    let near = Settings::new().start();
    let mut far = Settings::new().tcp().start_program();
    let uri = format!("tcp4://127.0.0.1:{}", far.port());
    let _ = near.output(&["face", "create", &uri, "--persistency", "permanent"]);
    let _ = near.output(&["route", "add", "/far", &uri]);
    assert_eq!(near.json(&["face", "list", "--scheme", "tcp4"])[0]["state"], "up");
    far.process.signal(Signal::KILL);
    far.process.wait();
    let face = wait_until("the face to be down", || {
        let face = near.json(&["face", "list", "--scheme", "tcp4"])[0].clone();
        (face["state"] == "down").then_some(face)
    });
    assert!(face["link"]["down"]["reason"].is_string(), "{face}");
    let reported = format!("{uri} is down for ");
    assert!(near.output(&["face", "list"]).contains(&reported));
    assert!(near.output(&["face", "show", &uri]).contains("down for "));
    assert_eq!(near.json(&["status"])["down_faces"][0]["remote_uri"], uri);
    for (prefix, why) in [("/far", &*reported), ("/nowhere", "no producer on this forwarder")] {
        let ping = near.run(&["ping", prefix, "--count", "1", "--timeout", "100ms"]);
        let text = String::from_utf8_lossy(&ping.stderr);
        assert_eq!(ping.status.code(), Some(4), "{text}");
        assert!(text.contains(why), "{text}");
    }
    // Before the end of the wait, too.
    let copy = near.directory().join("copy").display().to_string();
    let early = "namewire: no answer to /far/x yet: all next hops of the route /far are down: ";
    let in_part = ["get", "/far/x", "-o", "-", "--range", "0-9"];
    let commands = [
        &["get", "/far/x", "-o", &copy][..],
        &in_part,
        &["get", "/far/x", "-o", &copy, "--recursive"],
        &["ls", "/far/x"],
        &["peek", "/far/x"],
    ];
    let started = commands.map(|command| near.spawn("waiting", command));
    let mut quiet = near.spawn("quiet", &[&in_part[..], &["--quiet"]].concat());
    for mut waiting in started {
        assert_eq!(waiting.wait().code(), Some(4));
        let text = waiting.stderr();
        // The failure is the last line.
        let noted: Vec<bool> = text.lines().map(|line| line.starts_with(early)).collect();
        assert!(noted.contains(&true) && noted.last() == Some(&false), "{text}");
    }
    assert_eq!(quiet.wait().code(), Some(4));
    assert!(!quiet.stderr().contains(early), "{}", quiet.stderr());
}
