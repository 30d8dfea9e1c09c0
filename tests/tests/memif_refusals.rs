//! Shared memory that is refused: secrets, interfaces in use, memory.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Output;

use namewire_tests::{
    Application, Endpoint, Process, Received, Settings, run_to_end, wait_until, wire,
};
use ndn_management::{CommandBuilder, ControlParameters, ControlResponse, Verb};
use rustix::process::Signal;

const VARIABLE: &str = "NDN_CLIENT_MEMIF_SECRET";
/// A user without rights.
const NOBODY: u32 = 65_534;

fn listening(path: &Path, more: &str) -> Settings {
    let toml = format!("[listeners.memif]\nenabled = true\npath = {path:?}\n{more}");
    Settings::new().toml(&toml)
}

fn secret(socket: &Path, id: Option<u32>, secret: &str) -> String {
    let id = id.map_or_else(String::new, |id| format!("id = {id}\n"));
    format!("[[memif_secrets]]\nsocket = {socket:?}\n{id}secret = {secret:?}\n")
}

/// A command of an application that attaches as `transport` says, with this secret.
fn attach(forwarder: &Endpoint, transport: &str, secret: &str, arguments: &[&str]) -> Output {
    let mut command = forwarder.command(&[arguments, &["--transport", transport]].concat());
    command.env(VARIABLE, secret);
    run_to_end(command)
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn refused(forwarder: &Endpoint, reason: &str) -> u64 {
    forwarder.json(&["status"])["memif"]["refused"][reason].as_u64().unwrap_or(0)
}

#[test]
fn applications_send_the_secret_of_their_interface() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memif.sock");
    let secrets = [secret(&path, None, "swordfish"), secret(&path, Some(7), "seven")].concat();
    let mut forwarder = listening(&path, &secrets).start_program();
    let (all, seventh) =
        (format!("memif://{}", path.display()), format!("memif://{}/7", path.display()));
    let list = ["face", "list"];
    let traffic = ["traffic", "consumer", "/localhost/nfd/faces/list", "--count", "1"];
    for (transport, right, wrong) in
        [(&all, "swordfish", "seven"), (&seventh, "seven", "swordfish")]
    {
        assert!(attach(&forwarder, transport, right, &list).status.success());
        let before = refused(&forwarder, "wrong_secret");
        for arguments in [&list[..], &traffic] {
            let output = attach(&forwarder, transport, wrong, arguments);
            assert_eq!(output.status.code(), Some(1));
            let printed = printed(&output);
            assert!(
                printed.contains("it rejects the connection: \"Incorrect secret\""),
                "{printed}"
            );
            assert!(printed.contains("What NDN_CLIENT_MEMIF_SECRET holds"), "{printed}");
            assert!(!printed.contains("forwarder can be reached"), "{printed}");
            assert!(!printed.contains(wrong) && !printed.contains(right), "{printed}");
        }
        assert_eq!(refused(&forwarder, "wrong_secret"), before + 2);
        let printed = printed(&attach(&forwarder, transport, "", &list));
        assert!(printed.contains("A secret is required"), "{printed}");
        assert!(printed.contains("Set NDN_CLIENT_MEMIF_SECRET to the secret"), "{printed}");
    }
    assert!(forwarder.process.stderr().contains("memif clients need a secret"));
    assert_eq!(refused(&forwarder, "no_secret"), 2);
    let log = forwarder.process.stderr();
    assert!(log.contains("memif client rejected") && log.contains("Incorrect secret"), "{log}");
    assert!(!log.contains("swordfish") && !log.contains("seven"), "{log}");
    forwarder.assert_healthy();
}

#[test]
fn secret_of_a_server_is_sent_and_its_rejection_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memif.sock");
    let server = listening(&path, &secret(&path, None, "swordfish")).start();
    let remote = format!("memif://{}/3", path.display());
    let face = format!("[[static_faces]]\nuri = {remote:?}\n");
    let client = |words: &str| Settings::new().toml(&(secret(&path, Some(3), words) + &face));
    let wrong = client("swordfisch").start_program();
    let down = wait_until("a refusal", || {
        let faces = &wrong.json(&["status"])["down_faces"];
        let reason = faces[0]["reason"].as_str()?.to_owned();
        reason.contains("rejects").then_some(reason)
    });
    assert_eq!(down, "the peer rejects the connection: \"Incorrect secret\"");
    let shown = wrong.output(&["face", "show", &remote]);
    assert!(shown.contains(&down), "{shown}");
    assert!(wrong.process.stderr().contains(&down), "{}", wrong.process.stderr());
    assert!(refused(&server, "wrong_secret") >= 1);
    drop(wrong);
    let right = client("swordfish").start();
    let faces = || server.json(&["status"])["memif"]["clients"].as_u64();
    wait_until("the face", || (faces() == Some(1)).then_some(()));
    // One that is asked for, with the secret of the configuration; the interface is in use.
    let another = client("swordfish").start();
    wait_until("a refusal", || {
        let down = another.json(&["status"])["down_faces"][0]["reason"].to_string();
        down.contains("Already connected").then_some(())
    });
    another.assert_healthy();
    right.assert_healthy();
    server.assert_healthy();
}

#[test]
fn client_at_the_limit_of_faces_is_informed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memif.sock");
    let forwarder = listening(&path, "[limits]\nfaces = 3\nfaces_per_peer = 1\n").start();
    // The face of management is one.
    let held = [forwarder.connect(), forwarder.connect()];
    wait_until("them to have faces", || {
        let limit = &forwarder.json(&["status"])["face_limit"];
        (limit["faces"].as_u64() >= limit["faces_max"].as_u64()).then_some(())
    });
    let transport = format!("memif://{}", path.display());
    let output = attach(&forwarder, &transport, "", &["peek", "/any/name"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let printed = printed(&output);
    assert!(printed.contains("it rejects the connection: \"limits.faces reached\""), "{printed}");
    forwarder.assert_healthy();
    drop(held);
}

#[test]
fn memory_of_all_memif_clients_is_limited() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memif.sock");
    // One application shares less than 5 MiB, and all of one user half of the memory.
    let forwarder = listening(&path, "memory = \"16MiB\"\n").start();
    let transport = format!("memif://{}", path.display());
    let mut first = forwarder.spawn("first", &["ping-server", "/first", "--transport", &transport]);
    wait_until("a route", || forwarder.output(&["route", "list"]).contains("/first").then_some(()));
    let status = forwarder.json(&["status"]);
    assert_eq!(status["memif"]["memory_bytes_max"], 16 << 20);
    assert!(status["memif"]["memory_bytes"].as_u64().unwrap() > 4 << 20, "{status}");
    let output = attach(&forwarder, &transport, "", &["face", "list"]);
    assert!(printed(&output).contains("Too much memory is shared"), "{}", printed(&output));
    assert_eq!(refused(&forwarder, "no_memory"), 1);
    assert!(first.is_running());
    drop(first);
    wait_until("room", || {
        let bytes = &forwarder.json(&["status"])["memif"]["memory_bytes"];
        (*bytes == 0).then_some(())
    });
    assert!(attach(&forwarder, &transport, "", &["face", "list"]).status.success());
}

#[test]
fn reload_changes_secrets_for_later_connections() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memif.sock");
    let forwarder = listening(&path, &secret(&path, None, "before")).start_program();
    let transport = format!("memif://{}", path.display());
    let attached = ["ping-server", "/attached", "--transport", &transport];
    let mut command = forwarder.command(&attached);
    command.env(VARIABLE, "before");
    let mut attached = Process::start("attached", command, forwarder.directory());
    wait_until("a route", || {
        forwarder.output(&["route", "list"]).contains("/attached").then_some(())
    });
    let file = forwarder.directory().join("namewire.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("\"before\"", "\"behind\"")).unwrap();
    forwarder.process.signal(Signal::HUP);
    let list = ["face", "list"];
    wait_until("the new secret", || {
        attach(&forwarder, &transport, "behind", &list).status.success().then_some(())
    });
    assert!(!attach(&forwarder, &transport, "before", &list).status.success());
    // The existing client stays.
    assert!(attached.is_running());
    wait_until("the others' end", || {
        (forwarder.json(&["status"])["memif"]["clients"] == 1).then_some(())
    });
}

#[test]
fn invalid_memif_address_is_reported_as_a_usage_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memif.sock");
    let mut forwarder = listening(&path, &secret(&path, Some(7), "seven")).start_program();
    let transport = format!("memif://{}", path.display());
    let too_high = format!("{transport}/4294967296");
    let no_number = format!("{transport}/abc");
    let stream = format!("memif://{}", forwarder.socket().display());
    let nobody = format!("memif://{}", directory.path().join("nobody.sock").display());
    let too_long = "x".repeat(25);
    for arguments in [&["face", "list"][..], &["traffic", "consumer", "/x", "--count", "1"]] {
        for (transport, secret, code, reported) in [
            (&transport, too_long.as_str(), 2, "NDN_CLIENT_MEMIF_SECRET: a secret has at most 24"),
            (&too_high, "", 2, "4294967296 is no number of an interface"),
            (&no_number, "", 2, "abc is no number of an interface"),
            (&stream, "", 2, "a socket of another kind"),
            (&nobody, "", 3, "no forwarder can be reached"),
        ] {
            let output = attach(&forwarder, transport, secret, arguments);
            let printed = printed(&output);
            assert_eq!(output.status.code(), Some(code), "{printed}");
            assert!(printed.contains(reported) && !printed.contains(&too_long), "{printed}");
            assert!(!printed.contains("unset the variable"), "{printed}");
        }
    }
    // All others need none, and who has a number hears what takes another one.
    let seventh = format!("{transport}/8");
    let attached = ["ping-server", "/attached", "--transport", &seventh];
    let _attached = forwarder.spawn("attached", &attached);
    wait_until("a route", || {
        forwarder.output(&["route", "list"]).contains("/attached").then_some(())
    });
    let output = attach(&forwarder, &seventh, "", &["face", "list"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(printed(&output).contains("Interface 8 has a client: without a number"));
    // Nor has a forwarder use for a face to itself.
    let face = |uri: &str| forwarder.run(&["face", "create", uri]);
    assert!(printed(&face(&no_number)).contains("there has to be the number of an interface"));
    let refused = face(&format!("{transport}/9"));
    assert!(printed(&refused).contains("this forwarder listens there itself"), "{refused:?}");
    let log = forwarder.process.stderr();
    assert!(log.contains("memif clients of these interfaces need a secret"), "{log}");
    forwarder.assert_healthy();
}

/// The requester of a face learns whether the server accepts it, as over TCP.
#[test]
fn memif_face_is_created_after_the_server_has_answered() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memif.sock");
    let server = listening(&path, &secret(&path, Some(3), "swordfish")).start_program();
    assert!(!server.process.stderr().contains("memif clients need a secret"));
    let uri = |id: u32| format!("memif://{}/{id}", path.display());
    let mut client = Settings::new().toml(&secret(&path, Some(4), "another")).start_program();
    let create = |uri: &str| {
        let output = run_to_end(client.command(&["face", "create", uri]));
        (output.status.code(), printed(&output))
    };
    let (code, reported) = create(&uri(3));
    assert_eq!(code, Some(1), "{reported}");
    assert!(reported.contains("504 Cannot connect to memif:"), "{reported}");
    assert!(
        reported.contains("A secret is required") && reported.contains("[[memif_secrets]]"),
        "{reported}"
    );
    let (code, reported) = create(&uri(5));
    assert_eq!(code, Some(0), "{reported}");
    // It is up by then, and goes on being that of the server.
    let status = client.json(&["status"]);
    assert_eq!(status["down_faces"].as_array().map(Vec::len), Some(0), "{status}");
    assert!(client.output(&["face", "list"]).contains(&uri(5)));
    assert_eq!(server.json(&["status"])["memif"]["clients"], 1);
    assert!(!client.process.stderr().contains("it waits for its peer"));
    // Somebody else takes connections there, and says nothing.
    let silent = directory.path().join("silent.sock");
    let _listener = ndn_sys::stream::Listener::unix_messages(&silent, 0o600).unwrap();
    let (code, reported) = create(&format!("memif://{}/0", silent.display()));
    assert_eq!(code, Some(1), "{reported}");
    assert!(
        reported.contains("504") && reported.contains("the server does not answer"),
        "{reported}"
    );
    let (_, reported) = create(&format!("memif://{}/0", directory.path().join("none").display()));
    assert!(reported.contains("504") && reported.contains("No such file"), "{reported}");
    client.assert_healthy();
}

/// Each holds a socket until its server answers.
#[test]
#[expect(clippy::disallowed_methods, reason = "commands are judged by the real clock")]
fn faces_that_wait_for_memif_servers_are_limited() {
    let directory = tempfile::tempdir().unwrap();
    let silent = directory.path().join("silent.sock");
    let _listener = ndn_sys::stream::Listener::unix_messages(&silent, 0o600).unwrap();
    let forwarder = Settings::new().start();
    let mut application = Application::attach(forwarder.socket());
    let now_ms = u64::try_from(ndn_sys::clock::wall_clock().as_millis()).unwrap();
    for id in 0..65 {
        let parameters = ControlParameters {
            uri: Some(format!("memif://{}/{id}", silent.display())),
            ..ControlParameters::default()
        };
        let command = CommandBuilder::new(wire::name("/localhost/nfd"))
            .digest_signed_interest(Verb::FaceCreate, &parameters, 1 + id, now_ms + id)
            .unwrap();
        application.send(&command);
    }
    // The last is the first to hear anything.
    let Received::Data(_, content) = application.receive() else { panic!("no answer") };
    let refused = ControlResponse::decode(&content).unwrap();
    assert_eq!(refused.code, 504, "{refused:?}");
    assert!(refused.text.contains("/64: too many connections are being made"), "{refused:?}");
}

/// A face that was asked for with a permanent one in mind comes back with its server.
#[test]
fn permanent_face_created_by_command_reconnects() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memif.sock");
    let server = listening(&path, "").start();
    let uri = format!("memif://{}/5", path.display());
    let client = Settings::new()
        .toml("[faces]\nreconnect_min = \"50ms\"\nreconnect_max = \"200ms\"\n")
        .start();
    let _ = client.output(&["face", "create", &uri, "--persistency", "permanent"]);
    drop(server);
    let down = || client.json(&["status"])["down_faces"].as_array().map(Vec::len);
    wait_until("the end of the server", || (down() == Some(1)).then_some(()));
    let server = listening(&path, "").start();
    wait_until("the face", || (down() == Some(0)).then_some(()));
    assert_eq!(server.json(&["status"])["memif"]["clients"], 1);
}

/// They say nothing for as long as they may.
#[test]
fn handshakes_of_one_user_leave_some_to_another() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memif.sock");
    let forwarder = listening(&path, "").start();
    let _silent: Vec<_> = (0..64).map(|_| ndn_sys::seqpacket::connect(&path).unwrap()).collect();
    let output = attach(&forwarder, &format!("memif://{}", path.display()), "", &["face", "list"]);
    assert!(printed(&output).contains("Too many clients connect"), "{}", printed(&output));
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(refused(&forwarder, "too_many_handshakes"), 1);
    if !rustix::process::geteuid().is_root() {
        return namewire_tests::skip("root", "only root can connect as another user");
    }
    for (file, mode) in [(directory.path(), 0o755), (&path, 0o666)] {
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let connect = || {
        rustix::thread::set_thread_uid(rustix::fs::Uid::from_raw(NOBODY)).unwrap();
        ndn_sys::seqpacket::connect(&path).unwrap()
    };
    // Each takes the place of the oldest of the first user, until both have half of them.
    let _others: Vec<_> =
        std::thread::scope(|scope| (0..33).map(|_| scope.spawn(connect).join().unwrap()).collect());
    wait_until("the other user", || {
        (refused(&forwarder, "too_many_handshakes") == 1 + 33).then_some(())
    });
    let limits = forwarder.json(&["limits"]);
    assert_eq!(limits["tables"]["memif_handshakes"]["used"], 64);
    let principals = limits["principals"].as_array().unwrap();
    let held = principals.iter().filter_map(|one| one["held"]["memif_handshakes"].as_u64());
    assert_eq!(held.filter(|held| *held > 0).collect::<Vec<_>>(), [32, 32]);
}

#[test]
fn unused_secrets_are_reported() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("namewire.toml");
    let check = |text: &str| {
        std::fs::write(&file, text).unwrap();
        let mut command = std::process::Command::new(namewire_tests::program());
        command.args(["config", "check"]).arg(&file);
        let output = run_to_end(command);
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned(),
            printed(&output),
        )
    };
    let own = "[listeners.memif]\nenabled = true\npath = \"/tmp/own.sock\"\n";
    let face = "[[static_faces]]\nuri = \"memif:///tmp/face.sock/3\"\n";
    let [of_own, of_face] = ["/tmp/own.sock", "/tmp/face.sock"].map(Path::new);
    let used = [secret(of_own, None, "a"), secret(of_face, Some(3), "b")].concat();
    let (code, reported, warned) = check(&format!("{own}{face}{used}"));
    assert_eq!((code, warned.as_str()), (Some(0), ""));
    assert!(reported.contains("no problems"), "{reported}");
    let unused = secret(of_face, Some(4), "c");
    for (text, line, reason) in [
        (
            format!("{own}{face}{used}{unused}"),
            14,
            "no static face has interface 4 of /tmp/face.sock",
        ),
        (
            format!("{own}{used}"),
            8,
            "neither [listeners.memif], whose socket is /tmp/own.sock, nor",
        ),
        (format!("{face}{used}").replace("own", "face/../own"), 4, "no static face has the socket"),
        (
            format!("[listeners.memif]\npath = \"/tmp/own.sock\"\n{}", secret(of_own, None, "a")),
            4,
            "would be the socket of [listeners.memif], which is not enabled",
        ),
    ] {
        let (code, reported, warned) = check(&text);
        assert_eq!(code, Some(0), "{warned}");
        assert!(reported.contains("usable, with 1 warning"), "{reported}");
        let place = format!("namewire: warning: {}:{line}:", file.display());
        assert!(warned.starts_with(&place) && warned.contains(reason), "{text}\n{warned}");
    }
    let (code, _, reported) = check("[listeners.memif]\nenabled = true\nsecret = \"swordfish\"\n");
    assert_eq!(code, Some(2), "{reported}");
    assert!(reported.contains(":3:1: ") && reported.contains("[[memif_secrets]]"), "{reported}");
    assert!(!reported.contains("swordfish"), "{reported}");
    // The default path of the socket is shown with the lines of memif.
    let long = "x".repeat(95);
    let text = format!(
        "listeners.unix.path = \"/tmp/{long}/n\"\ncontrol.path = \"/tmp/c.sock\"\n[listeners.memif]\nenabled = true\n"
    );
    let (code, _, reported) = check(&text);
    assert_eq!(code, Some(2), "{reported}");
    assert!(reported.contains(":4:11: listeners.memif.path: "), "{reported}");
}
