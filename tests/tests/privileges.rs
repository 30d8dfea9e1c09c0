//! Root's rights, given up: by a forwarder that root starts, where the tests run as root.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

use namewire_tests::{ForwarderProcess, Settings, program, skip, wait_until};
use rustix::process::Signal;

/// A user that every system has.
const USER: &str = "nobody";

/// The lines of this kind of all threads, without those that say the same.
fn of_threads(forwarder: &ForwarderProcess, key: &str) -> BTreeSet<String> {
    let tasks = format!("/proc/{}/task", forwarder.process.pid().as_raw_nonzero());
    let tasks = std::fs::read_dir(tasks).unwrap();
    let status = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("status"));
    // A thread may end while this looks.
    let texts = tasks.filter_map(|task| task.and_then(status).ok());
    let line = |text: String| {
        let line = text.lines().find_map(|line| line.strip_prefix(key).map(str::to_owned));
        line.unwrap().trim().replace('\t', " ")
    };
    texts.map(line).collect()
}

/// Whether this is root, with the capabilities to become somebody else, where there is such a user.
fn can_become_another() -> bool {
    // CAP_CHOWN, CAP_SETGID and CAP_SETUID.
    const NEEDED: u64 = 1 | 1 << 6 | 1 << 7;
    const NOBODY: u64 = 65_534;
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    let effective = u64::from_str_radix(effective.trim(), 16).unwrap();
    let maps_nobody = |file: &str| {
        let map = std::fs::read_to_string(file).unwrap();
        map.lines().any(|line| {
            let numbers: Vec<u64> = line.split_whitespace().map(|n| n.parse().unwrap()).collect();
            (numbers[0]..numbers[0] + numbers[2]).contains(&NOBODY)
        })
    };
    rustix::process::geteuid().is_root()
        && effective & NEEDED == NEEDED
        && maps_nobody("/proc/self/uid_map")
        && maps_nobody("/proc/self/gid_map")
}

#[test]
fn privileges_are_dropped_once_the_sockets_are_open() {
    if !can_become_another() {
        return skip("root", "only root with all its rights can become another user");
    }
    let neighbour = UdpSocket::bind("127.0.0.1:0").unwrap();
    let settings = Settings::new().udp().tcp().toml(&format!(
        "[privileges]\nuser = \"{USER}\"\n[log.modules]\nndn_dataplane = \"debug\"\n\
         [[bound_faces]]\nremotes = [\"udp4://{}\"]\ninterfaces = [\"lo\"]\n",
        neighbour.local_addr().unwrap()
    ));
    let mut forwarder = settings.start_program();
    let owner = std::fs::metadata(forwarder.socket()).unwrap();
    let control = forwarder.socket().with_extension("control.sock");
    assert_eq!(std::fs::metadata(control).unwrap().uid(), owner.uid());
    let (uid, gid) = (owner.uid(), owner.gid());
    assert!(uid != 0 && gid != 0);
    let all = |id: u32| BTreeSet::from([[id; 4].map(|id| id.to_string()).join(" ")]);
    assert_eq!(of_threads(&forwarder, "Uid:"), all(uid));
    assert_eq!(of_threads(&forwarder, "Gid:"), all(gid));
    assert_eq!(of_threads(&forwarder, "NoNewPrivs:"), BTreeSet::from(["1".to_owned()]));
    for key in ["CapPrm:", "CapEff:", "CapInh:", "CapAmb:"] {
        assert_eq!(of_threads(&forwarder, key), BTreeSet::from(["0".repeat(16)]), "{key}");
    }
    let groups = of_threads(&forwarder, "Groups:");
    assert!(groups.iter().all(|line| line.split(' ').all(|group| group != "0")), "{groups:?}");

    // Later commands work all the same.
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    let uri = format!("udp4://{}", peer.local_addr().unwrap());
    let _ = forwarder.output(&["face", "create", &uri]);
    let _ = forwarder.output(&["route", "add", "/elsewhere", &uri]);
    // Sockets that share the listener's port: a neighbour's own, and that of a bound face.
    let printed = forwarder.process.stderr();
    assert!(!printed.contains("shares a socket with others"), "{printed}");
    let bound = format!("udp4+dev://lo:{}", forwarder.port());
    wait_until("the bound face", || {
        forwarder.output(&["face", "list", "--long"]).contains(&bound).then_some(())
    });
    let other = Settings::new().tcp().start();
    let other = format!("tcp4://127.0.0.1:{}", other.port());
    let _ = forwarder.output(&["face", "create", &other]);
    let mut server = forwarder.spawn("server", &["ping-server", "/ping"]);
    server.wait_for_output("/ping");
    let text = forwarder.output(&["ping", "/ping", "--count", "3", "--interval", "10ms"]);
    assert!(text.contains('3'), "{text}");
    let _ = forwarder.output(&["log"]);

    // What it may not read it says, and goes on.
    let directory = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(forwarder.directory(), directory).unwrap();
    forwarder.process.signal(Signal::HUP);
    wait_until("the refusal", || {
        forwarder.process.stderr().contains("the configuration stays as it was").then_some(())
    });
    let directory = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(forwarder.directory(), directory).unwrap();
    forwarder.process.signal(Signal::HUP);
    wait_until("the configuration", || {
        forwarder.process.stderr().contains("the configuration was read again").then_some(())
    });
    forwarder.assert_healthy();
}

#[test]
fn log_that_cannot_be_rotated_is_reported() {
    if !can_become_another() {
        return skip("root", "only root with all its rights can become another user");
    }
    let directory = tempfile::tempdir().unwrap();
    for (mode, is_informed) in [(0o755, true), (0o777, false)] {
        std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(mode)).unwrap();
        let log = directory.path().join(format!("{mode:o}.log"));
        let socket = directory.path().join(format!("{mode:o}.sock"));
        let control = directory.path().join(format!("{mode:o}.control"));
        let mut command = Command::new(program());
        command.args(["run", "--no-tcp", "--no-udp", "--user", USER]);
        for (option, path) in [("--log-file", &log), ("--socket", &socket), ("--control", &control)]
        {
            command.arg(option).arg(path);
        }
        let mut process = command.spawn().unwrap();
        wait_until("the end of root's rights", || {
            let printed = std::fs::read_to_string(&log).ok()?;
            printed.contains("privileges dropped").then_some(())
        });
        let pid = rustix::process::Pid::from_child(&process);
        rustix::process::kill_process(pid, Signal::TERM).unwrap();
        assert!(process.wait().unwrap().success());
        let printed = std::fs::read_to_string(&log).unwrap();
        assert_eq!(
            printed.contains("log rotation must create the next file"),
            is_informed,
            "{mode:o}: {printed}"
        );
    }
}
