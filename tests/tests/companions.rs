//! Our versions of the programs beside NFD: autoreg, hub discovery, status over HTTP, start and stop.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use namewire_tests::{
    Forwarder, Process, Settings, TIMEOUT, Topology, noise, program, run_to_end, skip_unless_found,
    wait_until, wire,
};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

/// Routes with this origin, as `prefix cost`.
fn routes(forwarder: &Forwarder, origin: &str) -> Vec<String> {
    let routes = forwarder.json(&["route", "list"]);
    let mut found: Vec<_> = routes
        .as_array()
        .unwrap()
        .iter()
        .filter(|route| route["origin"] == origin)
        .map(|route| format!("{} {}", route["prefix"].as_str().unwrap(), route["cost"]))
        .collect();
    found.sort();
    found
}

/// A peer that has spoken to the forwarder by UDP.
fn converse(forwarder: &Forwarder) -> UdpSocket {
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    peer.connect(("127.0.0.1", forwarder.port())).unwrap();
    peer.send(&wire::interest("/nobody/serves/this", 1)).unwrap();
    peer
}

#[test]
fn peers_that_connect_get_routes() {
    let forwarder = Settings::new().udp().start();
    let early = converse(&forwarder);
    wait_until("the face of the early peer", || {
        let port = early.local_addr().unwrap().port().to_string();
        forwarder.output(&["face", "list"]).contains(&port).then_some(())
    });
    let arguments = ["autoreg", "-i", "/auto", "-a", "/all", "-c", "7", "-b", "192.0.2.0/24"];
    let mut autoreg = forwarder.spawn("autoreg", &arguments);
    autoreg.wait_for_output("routing to peers");
    assert_eq!(routes(&forwarder, "autoreg"), ["/all 7", "/auto 7"]);
    let _late = [converse(&forwarder), converse(&forwarder)];
    wait_until("routes to the late peers", || {
        (routes(&forwarder, "autoreg").len() == 6).then_some(())
    });
    autoreg.signal(Signal::TERM);
    assert!(autoreg.wait().success());
    let arguments = ["autoreg", "-i", "/other", "-w", "192.0.2.0/24", "-a", "/more"];
    let mut other = forwarder.spawn("other", &arguments);
    other.wait_for_output("routing to peers");
    let routes = routes(&forwarder, "autoreg");
    assert!(routes.contains(&"/more 255".to_owned()), "{routes:?}");
    assert!(!routes.iter().any(|route| route.starts_with("/other")), "{routes:?}");
}

/// A DNS server that knows one service, of the host in the `hub` of the name.
fn dns_server(port: u16) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let serving = socket.try_clone().unwrap();
    std::thread::spawn(move || {
        let mut query = [0; 512];
        while let Ok((length, from)) = serving.recv_from(&mut query) {
            let mut answer = query[..length].to_vec();
            answer[2] |= 0x80;
            let question = b"\x04_ndn\x04_udp\x04site\x07example";
            if query[12..length].starts_with(question) {
                answer[7] = 1;
                answer.extend([0xc0, 12, 0, 33, 0, 1, 0, 0, 0, 60, 0, 17, 0, 0, 0, 0]);
                answer.extend(port.to_be_bytes());
                answer.extend(b"\x09localhost\x00");
            } else {
                answer[3] = 3;
            }
            let _ = serving.send_to(&answer, from);
        }
    });
    socket
}

/// A web server that names the closest hub, and is asked once.
fn fch_server() -> (String, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/?k=1", listener.local_addr().unwrap());
    let asked = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 1024];
        let length = stream.read(&mut request).unwrap();
        stream.write_all(b"HTTP/1.0 200 OK\r\n\r\n127.0.0.1\n").unwrap();
        String::from_utf8_lossy(&request[..length]).into_owned()
    });
    (url, asked)
}

#[test]
fn a_hub_is_found_by_the_dns_or_a_web_server() {
    let forwarder = Settings::new().udp().start();
    let hub = Settings::new().udp().start();
    let dns = dns_server(hub.port());
    let dns = format!("--dns={}", dns.local_addr().unwrap());
    let nobody = run_to_end(forwarder.command(&["autoconfig", &dns, "--search", "other.example"]));
    let printed = String::from_utf8_lossy(&nobody.stderr);
    assert_eq!(nobody.status.code(), Some(4), "{printed}");
    assert!(printed.contains("other.example has no service _ndn._udp"), "{printed}");
    // A hub that was not asked for is not queried.
    assert!(!printed.contains("NDN-FCH") && !printed.contains("home hub"), "{printed}");
    assert_eq!(routes(&forwarder, "autoconf"), [""; 0]);

    let arguments = ["autoconfig", &dns, "--search", "other.example", "--search", "site.example"];
    let reported = forwarder.output(&arguments);
    assert!(reported.contains(&format!("udp://localhost:{} by DNS", hub.port())), "{reported}");
    assert_eq!(routes(&forwarder, "autoconf"), ["/ 100", "/localhop/nfd 100"]);
    let server = hub.spawn("ping-server", &["ping-server", "/hub"]);
    wait_until("an answer from the hub", || {
        let ping = forwarder.run(&["ping", "/hub", "--count", "1", "--timeout", "1s"]);
        ping.status.success().then_some(())
    });
    drop(server);

    let (url, asked) = fch_server();
    let other = Settings::new().udp().start();
    let arguments = ["autoconfig", &dns, "--search", "other.example", "--ndn-fch-url", &url];
    let reported = other.output(&arguments);
    assert!(reported.contains("udp://127.0.0.1 by NDN-FCH"), "{reported}");
    assert!(asked.join().unwrap().starts_with("GET /?k=1 HTTP/1.0\r\n"));
}

#[test]
fn autoconfig_does_nothing_unless_enabled() {
    let forwarder = Settings::new().start();
    let file = forwarder.directory().join("autoconfig.conf");
    std::fs::write(&file, "# enabled = true\nenabled = false\n").unwrap();
    let output = forwarder.run(&["autoconfig", "--config", file.to_str().unwrap()]);
    assert!(output.status.success());
    assert_eq!(routes(&forwarder, "autoconf"), [""; 0]);
}

/// On a link, by multicast: our server and our client, and those of NFD where they are there.
#[test]
fn a_hub_is_found_on_the_link() {
    let Some(mut topology) = Topology::new(&["a", "hub"], &[("a", "hub")]) else { return };
    for node in ["a", "hub"] {
        topology.start_forwarder_with_multicast(node, "");
    }
    // The kernel takes a moment to join the groups of a link that has just come up.
    wait_until("multicast faces", || {
        let faces = |node| topology.output(node, &["face", "list"]).contains("udp4://224.0.23.170");
        (faces("a") && faces("hub")).then_some(())
    });
    let address = topology.address("hub", "a");
    let servers = [
        format!("{} autoconfig-server udp4://{address}:6363 -p /site/a", program().display()),
        format!("ndn-autoconfig-server -p /site/a udp4://{address}:6363"),
    ];
    let clients = ["namewire autoconfig", "ndn-autoconfig"];
    for (number, server) in servers.iter().enumerate() {
        if number == 1 && !skip_unless_found("ndn-autoconfig-server") {
            continue;
        }
        let transport = |node: &str, topology: &Topology| {
            let home = topology.directory().display().to_string();
            let socket = topology.socket(node).display().to_string();
            format!("env HOME={home} NDN_CLIENT_TRANSPORT=unix://{socket}")
        };
        let name = format!("server{number}");
        let command = format!("{} {server}", transport("hub", &topology));
        topology.start("hub", &name, &command);
        wait_until("the server to be registered", || {
            let routes = topology.output("hub", &["nfdc", "route", "list"]);
            routes.contains("/localhop/nfd/rib/routable-prefixes").then_some(())
        });
        for client in clients {
            if client == "ndn-autoconfig" && !skip_unless_found("ndn-autoconfig") {
                continue;
            }
            let client = client.replace("namewire", &program().display().to_string());
            let command = format!("in_node a {} {client}", transport("a", &topology));
            // On a busy machine the answer may come too late for the first.
            topology.shell(&format!("for attempt in 1 2 3 4 5; do ( {command} ) && break; done"));
            let routes = topology.output("a", &["nfdc", "route", "list"]);
            for prefix in ["/", "/localhop/nfd"] {
                let route = routes.lines().find(|line| {
                    line.contains(&format!("prefix={prefix} ")) && line.contains("origin=autoconf")
                });
                let route = route.unwrap_or_else(|| panic!("no route {prefix}:\n{routes}"));
                assert!(route.contains("cost=100"), "{route}");
                let face = route.split(' ').find_map(|word| word.strip_prefix("nexthop=")).unwrap();
                let remove = ["route", "remove", prefix, face, "--origin", "autoconf"];
                let _ = topology.output("a", &remove);
            }
        }
        // What may be registered at the hub, as far as anybody asks.
        let prefixes = "/localhop/nfd/rib/routable-prefixes";
        let arguments = ["peek", "--prefix", prefixes];
        let reported = topology.run("hub", &arguments).stdout;
        assert_eq!(reported, b"\x07\x09\x08\x04site\x08\x01a", "{reported:?}");
        topology.stop(&name);
    }
}

fn get(port: u16, request: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_status_is_served_over_http() {
    let forwarder = Settings::new().start();
    let mut server = forwarder.spawn("status", &["status-server", "--port", "0", "-v"]);
    server.wait_for_output("serving the status on http://127.0.0.1:");
    let printed = server.stdout();
    let port = printed.split("127.0.0.1:").nth(1).unwrap().split('/').next().unwrap();
    let port: u16 = port.parse().unwrap();
    let xml = get(port, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let foreign = get(port, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(foreign.starts_with("HTTP/1.1 421 "), "{foreign}");
    assert!(xml.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/xml"), "{xml}");
    assert!(xml.contains("<generalStatus>") && xml.trim_end().ends_with("</nfdStatus>"), "{xml}");
    let json = get(port, "GET /status.json HTTP/1.0\r\n\r\n");
    let body = json.split_once("\r\n\r\n").unwrap().1;
    let status: serde_json::Value = serde_json::from_str(body).unwrap();
    assert!(status["faces"].as_array().unwrap().len() > 2, "{status}");
    assert!(get(port, "GET /status.txt HTTP/1.0\r\n\r\n").contains("General NFD status:"));
    assert!(get(port, "GET /robots.txt HTTP/1.0\r\n\r\n").ends_with("Disallow: /\n"));
    assert!(get(port, "GET /../etc/passwd HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 404 "));
    assert!(get(port, "DELETE / HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 405 "));
    assert!(get(port, "nonsense\r\n\r\n").starts_with("HTTP/1.1 400 "));
    // Many that say nothing do not keep others out for ever, nor one that says too much.
    let _silent: Vec<_> =
        (0..8).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    let long = format!("GET /{} HTTP/1.0\r\n\r\n", "x".repeat(7000));
    assert!(get(port, &long).starts_with("HTTP/1.1 404 "));
    wait_until("requests to be printed", || server.stderr().contains("\" 404").then_some(()));
}

/// A command by this name, which is a symbolic link to our program.
fn by_name(directory: &Path, name: &str) -> Command {
    let link = directory.join(name);
    if !link.exists() {
        symlink(program(), &link).unwrap();
    }
    let mut command = Command::new(link);
    let socket = directory.join("forwarder.sock");
    command.env("NDN_CLIENT_TRANSPORT", format!("unix://{}", socket.display()));
    command
}

#[test]
fn program_names_of_nfd_run_their_counterparts() {
    let forwarder = Settings::new().udp().start();
    let directory = forwarder.directory();
    let output = |name: &str, arguments: &[&str]| {
        let mut command = by_name(directory, name);
        command.args(arguments);
        let output = run_to_end(command);
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{name} {arguments:?}: {complaint}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(output("nfd-status", &[]).starts_with("General NFD status:"));
    assert!(output("nfdc", &["cs", "info"]).starts_with("CS information:"));
    assert!(output("nfd-autoreg", &["-V"]).starts_with("namewire "));
    let mut command = by_name(directory, "nfd-autoreg");
    command.args(["--prefix", "/auto"]);
    let mut autoreg = Process::start("autoreg", command, directory);
    autoreg.wait_for_output("routing to peers");
    let _peer = converse(&forwarder);
    wait_until("a route to the peer", || {
        (routes(&forwarder, "autoreg") == ["/auto 255"]).then_some(())
    });
    let mut command = by_name(directory, "nfd-autoreg");
    command.arg("--cost=5");
    assert_eq!(run_to_end(command).status.code(), Some(2), "no prefix");
}

#[test]
fn program_names_of_ndn_tools_and_ndnsec_accept_their_options() {
    let forwarder = Settings::new().start();
    let directory = forwarder.directory();
    let command = |name: &str, arguments: &[&str]| {
        let mut command = by_name(directory, name);
        command.args(arguments).env("HOME", directory);
        command
    };
    let output = |name: &str, arguments: &[&str]| {
        let output = run_to_end(command(name, arguments));
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{name} {arguments:?}: {complaint}");
        output.stdout
    };
    let mut pings =
        Process::start("pings", command("ndnpingserver", &["-s", "100", "/pings"]), directory);
    pings.wait_for_output("/pings");
    let pinged = output("ndnping", &["-c2", "-i", "10", "-o", "1000", "/pings"]);
    assert!(
        String::from_utf8_lossy(&pinged)
            .contains("2 packets transmitted, 2 received, 0 nacked, 0% lost"),
        "{pinged:?}"
    );

    let content = noise(1, 50_000);
    let file = directory.join("content");
    std::fs::write(&file, &content).unwrap();
    // It reads standard input.
    by_name(directory, "ndnputchunks");
    let mut publish = Command::new("sh");
    publish.args(["-c", "exec ./ndnputchunks -s4000 -f 5000 /object < content"]);
    publish.current_dir(directory).env("NDN_CLIENT_TRANSPORT", forwarder.unix());
    let mut publish = Process::start("publish", publish, directory);
    publish.wait_for_output("/object");
    assert!(output("ndncatchunks", &["-q", "-p", "fixed", "-s", "20", "/object"]) == content);
    let printed = run_to_end(command("ndncatchunks", &["/object"])).stderr;
    let printed = String::from_utf8_lossy(&printed);
    assert!(
        printed.contains("Segments received: 13\nTransferred size: 50 kB\nGoodput: "),
        "{printed}"
    );
    let nacked = run_to_end(command("ndnpeek", &["-p", "/nowhere"]));
    assert_eq!(nacked.stdout, b"NoRoute\n");
    let segment = output("ndnpeek", &["-pPf", "-l", "1000", "-w", "2000", "/object"]);
    assert!(!segment.is_empty() && output("ndnpeek", &["-P", "/object"])[0] == 6, "{segment:?}");

    output("ndnsec", &["key-gen", "-t", "e", "/me"]);
    let listed = output("ndnsec-list", &["-c"]);
    assert!(String::from_utf8_lossy(&listed).contains("/me/KEY/"), "{listed:?}");
    // A name of another kind deletes nothing.
    let refused = run_to_end(command("ndnsec-delete", &["-k", "/me"]));
    let complaint = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && complaint.contains("identity"), "{complaint}");
    assert_eq!(output("ndnsec-list", &["-c"]), listed);
    output("ndnsec-delete", &["-n", "/me"]);
    assert!(!String::from_utf8_lossy(&output("ndnsec-list", &["-c"])).contains("/me/KEY/"));
    let refused = run_to_end(command("ndnpeek", &["-A", "x", "/object"]));
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
}

#[test]
fn a_forwarder_starts_in_the_background_and_stops() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("forwarder.sock");
    let log = directory.path().join("log");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(program());
        command.args(arguments);
        command.env("NDN_CLIENT_TRANSPORT", format!("unix://{}", socket.display()));
        run_to_end(command)
    };
    let nobody = run(&["stop"]);
    assert_eq!(nobody.status.code(), Some(3), "{nobody:?}");
    let start = ["start", "--log-file", log.to_str().unwrap(), "--no-udp", "--no-tcp"];
    // Its options may stand behind `--`, too.
    let start = [&start[..], &["--", "--socket", socket.to_str().unwrap()]].concat();
    let started = run(&start);
    let printed = String::from_utf8_lossy(&started.stdout);
    assert!(started.status.success(), "{started:?}");
    let pid = printed.trim().rsplit(' ').next().unwrap().parse().unwrap();
    let pid = Pid::from_raw(pid).unwrap();
    // The log is in its file, and only its warnings are shown.
    let shown = String::from_utf8_lossy(&started.stderr);
    let version = concat!("version=\"", env!("CARGO_PKG_VERSION"), "\"");
    let logged = std::fs::read_to_string(&log).unwrap();
    assert!(logged.lines().next().unwrap_or_default().contains(version), "{logged}");
    assert!(!shown.contains(" INFO "), "{shown}");
    assert!(printed.contains("NDN_CLIENT_TRANSPORT="), "{printed}");
    assert!(run(&["status"]).status.success());
    // Rotated, the log goes on in a new file.
    let rotated = directory.path().join("log.1");
    std::fs::rename(&log, &rotated).unwrap();
    kill_process(pid, Signal::HUP).unwrap();
    wait_until("a new log", || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        assert!(!text.contains("the configuration was read again"), "there is none");
        text.contains("there is no configuration file to read again").then_some(())
    });
    let again = run(&start);
    assert_eq!(again.status.code(), Some(1), "{again:?}");
    let shown = String::from_utf8_lossy(&again.stderr);
    assert!(shown.contains("log in ") && !shown.contains(" INFO "), "{shown}");
    let stopped = run(&["stop"]);
    assert!(stopped.status.success(), "{stopped:?}");
    // Its parent is gone: the process that reaps it may take a moment.
    wait_until("the process to be gone", || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
        let is_dead = stat.is_ok_and(|stat| stat.contains(") Z "));
        (is_dead || test_kill_process(pid).is_err()).then_some(())
    });
    assert!(!socket.exists());
    assert!(std::fs::read_to_string(&log).unwrap().contains("stopping"));
    assert!(!std::fs::read_to_string(&rotated).unwrap().contains("stopping"));
}

#[test]
fn started_forwarder_closes_the_outputs_of_its_caller() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (socket, config) = (path("forwarder.sock"), path("namewire.toml"));
    let run = |arguments: &[&str]| {
        let mut command = Command::new(program());
        command.args(arguments).env("NDN_CLIENT_TRANSPORT", format!("unix://{socket}"));
        run_to_end(command)
    };
    let start = ["start", "--config", &config, "--no-udp", "--no-tcp", "--socket", &socket];
    std::fs::write(&config, "tables.pit_capacity = 1\n").unwrap();
    let wrong = run(&start);
    let printed = String::from_utf8_lossy(&wrong.stderr);
    assert_eq!(wrong.status.code(), Some(2), "{printed}");
    assert!(printed.contains("namewire.toml:1:"), "{printed}");
    // Both outputs are pipes, which have to end although the forwarder runs.
    std::fs::write(&config, "# all defaults\n").unwrap();
    let started = run(&start);
    let printed = String::from_utf8_lossy(&started.stderr);
    assert!(started.status.success(), "{printed}");
    assert!(printed.contains("starting") && printed.contains("--log-file"), "{printed}");
    assert!(run(&["stop"]).status.success());
}

/// A start that goes on without its log, at a socket that other commands do not use, says so.
#[test]
fn start_reports_a_full_log_and_another_socket_of_commands() {
    let directory = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str], transport: &str| {
        let mut command = Command::new(program());
        command.args(arguments).env("NDN_CLIENT_TRANSPORT", transport);
        run_to_end(command)
    };
    let socket = directory.path().join("forwarder.sock").display().to_string();
    let config = directory.path().join("namewire.toml");
    std::fs::write(&config, format!("listeners.unix.path = {socket:?}\n")).unwrap();
    let config = config.display().to_string();
    let start = ["start", "--no-udp", "--no-tcp", "--config", &config, "--log-file", "/dev/full"];
    let started = run(&start, "unix:///nowhere/nfd.sock");
    let noted = String::from_utf8_lossy(&started.stderr);
    let stopped = run(&["stop"], &format!("unix://{socket}"));
    assert!(started.status.success() && stopped.status.success(), "{started:?} {stopped:?}");
    for note in [
        "namewire: the log cannot be written to /dev/full: No space left on device\n".to_owned(),
        "namewire: other commands use unix:///nowhere/nfd.sock (from the environment".to_owned(),
        format!("`export NDN_CLIENT_TRANSPORT='unix://{socket}'`"),
    ] {
        assert!(noted.contains(&note), "{note}: {noted}");
    }
    assert!(!noted.contains('\0'), "{noted}");
}

#[test]
fn addresses_are_printed_once_on_a_terminal() {
    for format in ["text", "json"] {
        addresses_are_printed_once(format);
    }
}

fn addresses_are_printed_once(format: &str) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("forwarder.sock");
    let start = format!(
        "{} start --no-udp --no-tcp --log-format {format} --socket {}",
        program().display(),
        socket.display()
    );
    // A pseudo-terminal for both outputs.
    let mut command = Command::new("script");
    command.args(["-qec", &start, "/dev/null"]).stdin(std::process::Stdio::null());
    let started = run_to_end(command);
    let printed = String::from_utf8_lossy(&started.stdout);
    let transport = format!("unix://{}", socket.display());
    let mut stop = Command::new(program());
    stop.args(["stop", "--transport", &transport]);
    let stopped = run_to_end(stop);
    assert!(started.status.success() && stopped.status.success(), "{printed}{stopped:?}");
    assert_eq!(printed.matches("NDN_CLIENT_TRANSPORT=").count(), 1, "{printed}");
    assert!(printed.contains("started, process "), "{printed}");
}

/// The exit statuses are those of the manual pages of ndn-tools.
#[test]
fn program_names_of_ndn_tools_keep_exit_statuses() {
    let forwarder = Settings::new().start();
    let directory = forwarder.directory();
    let status = |name: &str, arguments: &[&str]| {
        let mut command = by_name(directory, name);
        command.args(arguments).env("HOME", directory).stdin(std::process::Stdio::null());
        let output = run_to_end(command);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let mut pings = by_name(directory, "ndnpingserver");
    pings.args(["-p", "3", "/pings"]);
    let mut pings = Process::start("pings", pings, directory);
    pings.wait_for_output("/pings");
    let mut unanswered = by_name(directory, "ndnpoke");
    unanswered.arg("/silent").stdin(std::process::Stdio::null());
    let mut silent = Process::start("silent", unanswered, directory);
    wait_until("the route", || {
        forwarder.output(&["route", "list"]).contains("/silent").then_some(())
    });
    for (name, arguments, expected) in [
        ("ndnpeek", &["-l", "50", "/silent/below"][..], 3),
        ("ndnpeek", &["-l", "4000", "/nobody"], 4),
        ("ndnpeek", &["--nonsense", "/a"], 2),
        ("ndnpeek", &["--transport", "unix:///nonexistent", "/a"], 1),
        ("ndnpoke", &["-w", "50", "/unasked"], 3),
        ("ndnpoke", &["/localhop/nfd/mine"], 2),
        ("ndnpoke", &["--transport", "unix:///nonexistent", "/a"], 1),
        ("ndnping", &["-c", "1", "-o", "1000", "/pings"], 0),
        ("ndnping", &["-c", "1", "/nobody"], 1),
        ("ndnping", &["-c", "0", "/pings"], 2),
        ("ndnping", &["--transport", "unix:///nonexistent", "/a"], 2),
        ("ndncatchunks", &["-l", "50", "-r", "0", "/silent/below"], 1),
        ("ndncatchunks", &[], 2),
        ("ndnputchunks", &["--transport", "unix:///nonexistent", "/a"], 1),
        ("ndnsec", &["delete", "/nobody"], 1),
        ("ndnsec", &["delete"], 2),
        ("ndnsec", &["get-default", "-i", "/nobody"], 1),
    ] {
        let (found, reason) = status(name, arguments);
        assert_eq!(found, Some(expected), "{name} {arguments:?}: {reason}");
    }
    // Some pings are lost: the server ends after its third answer.
    let (lost, reason) = status("ndnping", &["-c", "5", "-i", "20", "-o", "200", "/pings"]);
    assert_eq!(lost, Some(1), "{reason}");
    assert!(pings.wait().success());
    assert!(silent.is_running());
}

#[test]
fn ndnputchunks_and_ndnsec_print_what_scripts_read() {
    let forwarder = Settings::new().start();
    let directory = forwarder.directory();
    let output = |name: &str, arguments: &[&str]| {
        let mut command = by_name(directory, name);
        command.args(arguments).env("HOME", directory);
        let output = run_to_end(command);
        assert!(output.status.success(), "{name} {arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    std::fs::write(directory.join("content"), "some text").unwrap();
    by_name(directory, "ndnputchunks");
    let mut publish = Command::new("sh");
    publish.args(["-c", "exec ./ndnputchunks -p /object < content"]);
    publish.current_dir(directory).env("NDN_CLIENT_TRANSPORT", forwarder.unix());
    let mut publish = Process::start("publish", publish, directory);
    let version = wait_until("the version", || {
        publish.stdout().split_once('\n').map(|(version, _)| version.to_owned())
    });
    assert!(version.starts_with("v="), "{version}");
    assert_eq!(publish.stdout(), format!("{version}\n"));
    assert_eq!(output("ndncatchunks", &["-q", &format!("/object/{version}")]), "some text");

    output("ndnsec", &["key-gen", "/me"]);
    output("ndnsec", &["key-gen", "-n", "/other"]);
    assert_eq!(output("ndnsec", &["list"]), "pib-sqlite3:\n├─* /me\n└── /other\n");
    assert_eq!(output("ndnsec", &["get-default", "-q"]), "/me");
    let key = output("ndnsec", &["get-default", "-k", "-i", "/other"]);
    assert!(key.starts_with("/other/KEY/") && key.ends_with('\n'), "{key}");
    let certificate = output("ndnsec", &["get-default", "-c", "-K", key.trim()]);
    assert!(certificate.starts_with(key.trim()) && certificate.len() > key.len() + 5);
    let listed = output("ndnsec", &["list", "-k"]);
    assert!(listed.contains(key.trim()) && !listed.contains(certificate.trim()), "{listed}");
    assert!(publish.is_running());
}
