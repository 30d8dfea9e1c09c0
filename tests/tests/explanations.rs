//! Messages of commands about limits, rights and files that stand in the way.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use namewire_tests::{Forwarder, Settings, bench_program, program, run_to_end, wait_until};

/// A user that is nobody's.
const NOBODY: u32 = 65_534;

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The program with a home of its own, and nothing else that names a forwarder or a key chain.
fn at_home(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(arguments).env("HOME", home);
    for variable in ["NDN_CLIENT_TRANSPORT", "NDN_CLIENT_PIB", "NDN_CLIENT_TPM"] {
        command.env_remove(variable);
    }
    command
}

/// A forwarder at its limit of faces, and the connections that hold them.
fn full(toml: &str) -> (Forwarder, Vec<UnixStream>) {
    let limits = "[limits]\nfaces = 3\nfaces_per_peer = 1\n";
    // Several workers do not take connections in turn.
    let forwarder = Settings::new().workers(1).toml(&format!("{limits}{toml}")).start();
    // The face of management is one.
    let held: Vec<_> = (0..2).map(|_| forwarder.connect()).collect();
    // Once a connection is closed the others have their faces, as they are taken in turn.
    wait_until("a refusal", || {
        let mut one_more = forwarder.connect();
        one_more.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        matches!(one_more.read(&mut [0]), Ok(0)).then_some(())
    });
    (forwarder, held)
}

#[test]
fn forwarder_at_its_limit_of_faces_is_reported_at_once() {
    let (forwarder, held) = full("");
    let connections = || forwarder.json(&["status"])["face_limit"]["refused"].as_u64().unwrap();
    wait_until("a refusal at the limit", || {
        let _closed = forwarder.connect();
        let limit = forwarder.json(&["status"])["face_limit"].clone();
        (limit["faces"] == 3 && limit["refused"].as_u64() > Some(0)).then_some(())
    });
    // A forwarder that does not get to answering within a second is connected to.
    let refused = wait_until("a refusal without a connection", || {
        let before = connections();
        let refused = forwarder.run(&["peek", "/any/name"]);
        (connections() == before).then_some(refused)
    });
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(
        text(&refused).contains("has reached its limit of faces: it has 3 faces, the limit is 3")
    );
    // A user of the control socket is served at the limit, and can make room.
    let reported = forwarder.output(&["status"]);
    assert!(reported.contains("limit reached"), "{reported}");
    assert!(forwarder.run(&["nfdc", "status", "show"]).status.success());
    let faces = forwarder.json(&["face", "list", "--scheme", "fd"]);
    let faces: Vec<_> = faces.as_array().unwrap().iter().collect();
    let first = faces.iter().filter_map(|face| face["face_id"].as_u64()).min().unwrap();
    let gone = forwarder.output(&["face", "destroy", &first.to_string()]);
    assert!(gone.contains("destroyed"), "{gone}");
    let peeked = forwarder.run(&["peek", "/any/name"]);
    assert!(text(&peeked).contains("no route to"), "{}", text(&peeked));
    let after = forwarder.json(&["status"])["face_limit"].clone();
    assert_eq!(after["faces_max"], 3, "{after}");
    assert!(after["refused"].as_u64() > Some(0), "{after}");
    drop(held);
}

/// Without the control socket the reason is unknown; that the connection is refused is reported soon all the same.
#[test]
fn commands_do_not_wait_for_a_forwarder_that_closes_connections() {
    let (forwarder, _held) = full("[control]\nenabled = false\n");
    for command in [
        &["status"][..],
        &["put", "/a", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")],
        &["ping-server", "/a"],
    ] {
        let refused = forwarder.run(command);
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        let reason = text(&refused);
        assert!(reason.contains("closes our connections at once"), "{reason}");
        assert!(reason.contains("`namewire limits`"), "{reason}");
        assert!(!reason.contains("hangs"), "{reason}");
    }
}

#[test]
fn missing_interface_of_an_ethernet_face_is_reported_with_an_example() {
    let forwarder = Settings::new().start();
    let output = forwarder.run(&["face", "create", "ether://[08:00:27:01:02:03]"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let example = "namewire face create ether://[08:00:27:01:02:03] dev://eth1";
    assert!(text(&output).contains(example), "{}", text(&output));
}

/// However short the content is: the next one may be longer.
#[test]
fn segment_size_above_the_packet_limit_is_rejected_for_short_contents() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("short");
    std::fs::write(&file, "short").unwrap();
    let file = file.to_str().unwrap();
    for (size, reason) in [
        ("0", "it is from 1B to 8800B"),
        ("9000B", "it is from 1B to 8800B"),
        ("800", "write 800B or 800KiB"),
    ] {
        let output = run_to_end(at_home(home.path(), &["put", "/a", file, "--segment-size", size]));
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(text(&output).contains(reason), "{}", text(&output));
    }
}

/// Values that only the control socket reports are left out, not invented, where there is none, as from another host.
#[test]
fn status_by_tcp_does_not_report_full_tables() {
    let forwarder = Settings::new().tcp().start();
    let address = forwarder.tcp();
    let status = forwarder.json(&["status", "--transport", &address]);
    assert!(status["face_limit"].is_null(), "{status}");
    let reported = forwarder.output(&["status", "--transport", &address]);
    assert!(!reported.contains("rejected"), "{reported}");
    assert!(forwarder.json(&["status"])["face_limit"]["faces_max"].as_u64() > Some(0));
}

#[test]
fn unreadable_key_chain_is_distinguished_from_a_missing_one() {
    let home = tempfile::tempdir().unwrap();
    std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let absent = run_to_end(at_home(home.path(), &["key", "list"]));
    assert!(text(&absent).contains("there is no key chain yet"), "{}", text(&absent));
    let made = run_to_end(at_home(home.path(), &["key", "gen", "/of/another"]));
    assert!(made.status.success(), "{}", text(&made));
    let directory = home.path().join(".ndn");
    for closed in [directory.clone(), directory.join("pib.db")] {
        let before = std::fs::metadata(&closed).unwrap().permissions();
        std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o000)).unwrap();
        for arguments in [&["key", "list"][..], &["key", "gen", "/of/mine"]] {
            let refused = run_to_end(as_nobody(at_home(home.path(), arguments)));
            assert!(!refused.status.success(), "{refused:?}");
            let text = text(&refused);
            assert!(text.contains("no rights") && text.contains("pib.db"), "{closed:?}: {text}");
            assert!(!text.contains("unable to open"), "{text}");
        }
        std::fs::set_permissions(&closed, before).unwrap();
    }
    // Nor can one be made where only others may write.
    let open = home.path().join("open");
    std::fs::create_dir_all(open.join(".ndn")).unwrap();
    std::fs::set_permissions(open.join(".ndn"), std::fs::Permissions::from_mode(0o555)).unwrap();
    let refused = run_to_end(as_nobody(at_home(&open, &["key", "gen", "/of/mine"])));
    assert!(!refused.status.success() && text(&refused).contains("no rights"), "{refused:?}");
}

#[test]
fn mistaken_uses_name_the_command_for_it() {
    let home = tempfile::tempdir().unwrap();
    std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let directory = home.path().join("files");
    std::fs::create_dir(&directory).unwrap();
    let (file, rules) = (directory.join("file"), home.path().join("trust.rules"));
    std::fs::write(&file, "content").unwrap();
    std::fs::write(&rules, "anchor any\n").unwrap();
    let forwarder = Settings::new().start();
    let serve = ["serve", directory.to_str().unwrap(), "--prefix", "/site"];
    let mut server = forwarder.spawn("server", &serve);
    server.wait_for_output("serving ");
    let [directory, file, rules] = [directory, file, rules].map(|path| path.display().to_string());
    let output = home.path().join("output").display().to_string();
    for (arguments, expected) in [
        (
            vec!["put", "/x", &directory],
            format!("`namewire serve {directory} --prefix NAME` serves"),
        ),
        (
            vec!["serve", &file, "--prefix", "/x"],
            format!("`namewire put NAME {file}` publishes it"),
        ),
        (vec!["get", "/site", "-o", &output], "is a directory: use --recursive".to_owned()),
        (vec!["get", "/site/file", "--listing"], "fetch it without --listing".to_owned()),
        (vec!["get", "/site/file", "--verify", &rules], format!("use --verify rules:{rules}")),
    ] {
        let refused = forwarder.run(&arguments);
        assert!(!refused.status.success(), "{arguments:?}: {refused:?}");
        assert!(text(&refused).contains(&expected), "{arguments:?}: {}", text(&refused));
    }
    let socket = home.path().join("socket").display().to_string();
    let low = ["run", "--socket", &socket, "--port", "80"];
    let refused = run_to_end(as_nobody(at_home(home.path(), &low)));
    assert!(text(&refused).contains("ports below 1024 need root"), "{}", text(&refused));
}

/// As a user without rights for what is closed, which root would have.
fn as_nobody(mut command: Command) -> Command {
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

#[test]
fn reader_needs_no_key_chain() {
    let home = tempfile::tempdir().unwrap();
    std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let directory = home.path().join(".ndn");
    std::fs::create_dir(&directory).unwrap();
    std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o000)).unwrap();
    let forwarder = Settings::new().tcp().start();
    let batch = home.path().join("batch");
    std::fs::write(&batch, "face list\ncs erase /x\n").unwrap();
    let nfdc = |line: &str| {
        let arguments: Vec<&str> = std::iter::once("nfdc").chain(line.split(' ')).collect();
        let mut command = at_home(home.path(), &arguments);
        command.env("NDN_CLIENT_TRANSPORT", forwarder.tcp());
        run_to_end(as_nobody(command))
    };
    for line in ["status", "status report", "face list", "route list", "cs info", "strategy show /"]
    {
        let output = nfdc(line);
        assert!(output.status.success() && !output.stdout.is_empty(), "{line}: {output:?}");
    }
    for line in ["cs erase /x", &format!("-f {}", batch.display())] {
        let output = nfdc(line);
        assert_eq!(output.status.code(), Some(1), "{line}: {output:?}");
        assert!(text(&output).contains("no rights"), "{line}: {}", text(&output));
    }
    std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn rejected_digest_command_names_the_required_key() {
    let home = tempfile::tempdir().unwrap();
    let certificate = run_to_end(at_home(home.path(), &["key", "gen", "/operator"]));
    assert!(certificate.status.success(), "{}", text(&certificate));
    let file = home.path().join("operator.cert");
    std::fs::write(&file, certificate.stdout).unwrap();
    let forwarder = Settings::new()
        .udp()
        .toml(&format!(
            "[[management.authorizations]]\ncertificate = \"{}\"\nprivileges = [\"faces\"]\n",
            file.display()
        ))
        .start();
    let create = |more: &[&str]| {
        let create = [&["face", "create", "udp4://127.0.0.1:9"], more].concat();
        let mut command = at_home(home.path(), &create);
        command.env("NDN_CLIENT_TRANSPORT", forwarder.unix());
        run_to_end(command)
    };
    let refused = create(&[]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let complaint = text(&refused);
    assert!(complaint.contains("403") && complaint.contains("digest only"), "{complaint}");
    assert!(complaint.contains("--identity NAME"), "{complaint}");
    let made = create(&["--identity", "/operator"]);
    assert!(made.status.success(), "{}", text(&made));
}

#[test]
fn forwarder_of_client_conf_is_reported_with_its_line() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join(".ndn");
    std::fs::create_dir(&directory).unwrap();
    let file = directory.join("client.conf");
    std::fs::write(&file, "; where it is\ntransport=nfd.sock\n").unwrap();
    let refused = run_to_end(at_home(home.path(), &["status"]));
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let place = format!("{}:2: ", file.display());
    assert!(text(&refused).contains(&place), "{}", text(&refused));
}

#[test]
fn missing_faces_are_listed_and_reported_where_they_are_needed() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("tcp4://{}", nobody.local_addr().unwrap());
    drop(nobody);
    let route = format!("[[static_routes]]\nprefix = \"/led\"\nface = \"{uri}\"\n");
    let forwarder = Settings::new().toml(&route).start();
    let faces = wait_until("an attempt to fail", || {
        let faces = forwarder.json(&["face", "list"]);
        let last = faces.as_array().unwrap().last().unwrap();
        last["last_failure"].is_string().then(|| faces.clone())
    });
    let waiting: Vec<_> =
        faces.as_array().unwrap().iter().filter(|face| face["state"] == "waiting").collect();
    assert_eq!(waiting.len(), 1, "{faces}");
    assert_eq!(
        (&waiting[0]["remote_uri"], &waiting[0]["face_id"]),
        (&uri.clone().into(), &().into())
    );
    let of_others = forwarder.json(&["face", "list", "--scheme", "internal"]);
    assert!(!of_others.to_string().contains("waiting"), "{of_others}");
    for (name, is_needed) in [("/led/to", true), ("/elsewhere", false)] {
        let ping = forwarder.run(&["ping", name, "--count", "1", "--timeout", "100ms"]);
        assert!(
            text(&ping).contains("no producer on this forwarder and no neighbour"),
            "{}",
            text(&ping)
        );
        assert_eq!(text(&ping).contains(&uri), is_needed, "{name}: {}", text(&ping));
    }
}

#[test]
fn options_of_benches_without_effect_or_use_are_refused() {
    bench_program();
    for (arguments, complaint) in [
        (&["relay", "--payload", "100B"][..], "--transport"),
        (&["relay", "--window", "16"], "--window has no effect without --transport or --workers"),
        (&["relay", "--workers", "2,0"], "0 is not from 1 to 64"),
        (&["relay", "--workers", "2,1,2"], "--workers: 2 is listed twice"),
        (&["relay", "--workers", "1", "--mixed"], "--mixed has no effect without --transport"),
        (
            &["relay", "--filter", "unix", "--payload", "100B"],
            "--payload has no effect without --transport",
        ),
        (&["relay", "--cpus", "0,4000"], "--cpus: processor 4000 cannot be used here"),
        (&["relay", "--cpus", "0"], "--cpus: 2 processors are needed, not 1"),
        (&["transfer", "--cpus", "4000"], "--cpus: processor 4000 cannot be used here"),
        (&["overload", "--cpus", "4000"], "--cpus: processor 4000 cannot be used here"),
        (&["management", "--cpus", "0,0,0,4000"], "--cpus: processor 4000 cannot be used here"),
        (&["idle", "--workers", "0"], "--workers"),
        (&["idle", "--workers", "65"], "--workers"),
        (&["skew", "--workers", "1"], "--workers"),
        (&["skew", "--workers", "65"], "--workers"),
        (&["skew", "--duration", "5s"], "six seconds at least"),
        (&["pipeline", "--shards", "0"], "0 is not from 1 to 64"),
    ] {
        let mut bench = Command::new(program());
        bench.arg("bench").args(arguments);
        let output = run_to_end(bench);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output));
        assert!(text(&output).contains(complaint), "{arguments:?}: {}", text(&output));
    }
    let mut help = Command::new(program());
    help.args(["bench", "relay", "--help"]);
    let help = String::from_utf8(run_to_end(help).stdout).unwrap();
    assert!(help.contains("[default: 0,1]"), "{help}");
}

#[test]
fn names_that_the_forwarder_drops_are_reported() {
    let forwarder = Settings::new().start();
    let traffic = |components: &str| {
        let names = ["--components", components, "--count", "1", "--lifetime", "50ms"];
        forwarder.run(&[&["traffic", "consumer", "/a"], &names[..]].concat())
    };
    let long = traffic("64");
    assert!(text(&long).contains("drop their Interests"), "{}", text(&long));
    assert!(!text(&traffic("63")).contains("drop their Interests"));
}

#[test]
fn put_waits_as_long_as_stated_for_a_forwarder() {
    let home = tempfile::tempdir().unwrap();
    let nowhere = format!("unix://{}/none.sock", home.path().display());
    let put = ["put", "/x", program().to_str().unwrap(), "--transport", &nowhere];
    let at_once = run_to_end(at_home(home.path(), &put));
    assert_eq!(at_once.status.code(), Some(3), "{}", text(&at_once));
    let waited = run_to_end(at_home(home.path(), &[&put[..], &["--wait", "300ms"]].concat()));
    assert_eq!(waited.status.code(), Some(3));
    assert!(text(&waited).contains("; waiting for it\n"), "{}", text(&waited));

    // After the connection is lost.
    let forwarder = Settings::new().start_program();
    let file = program().to_str().unwrap();
    let mut put = forwarder.spawn("put", &["put", "/x", file, "--wait", "300ms"]);
    put.wait_for_output("published");
    forwarder.process.signal(rustix::process::Signal::KILL);
    assert_eq!(put.wait().code(), Some(3), "{}", put.everything());
    assert!(put.stderr().contains("is lost"), "{}", put.stderr());
}

#[test]
fn peek_sends_an_interest_again_as_often_as_stated() {
    let home = tempfile::tempdir().unwrap();
    let silent = home.path().join("silent.sock");
    let _listener = std::os::unix::net::UnixListener::bind(&silent).unwrap();
    let silent = format!("unix://{}", silent.display());
    let peek = ["peek", "/x", "--lifetime", "100ms", "--retries", "2", "--transport", &silent];
    let output = run_to_end(at_home(home.path(), &peek));
    assert_eq!(output.status.code(), Some(4));
    assert!(text(&output).contains("within 300 ms (3 attempts)"), "{}", text(&output));
}

#[test]
fn get_names_the_signer_that_it_did_not_check_and_what_has_verified() {
    let forwarder = Settings::new().start();
    let home = forwarder.directory().to_owned();
    let run = |arguments: &[&str]| {
        let mut command = forwarder.command(arguments);
        command.env("HOME", &home);
        run_to_end(command)
    };
    assert!(run(&["key", "gen", "/evil"]).status.success());
    let file = home.join("file");
    std::fs::write(&file, "content").unwrap();
    let mut command =
        forwarder.command(&["put", "/x/file", file.to_str().unwrap(), "--identity", "/evil"]);
    command.env("HOME", &home);
    let mut put = namewire_tests::Process::start("put", command, &home);
    put.wait_for_output("published");
    let copy = home.join("copy").display().to_string();
    let got = run(&["get", "/x/file", "-o", &copy]);
    assert!(got.status.success());
    let line = text(&got);
    assert!(line.contains("signed by /evil/KEY/") && line.contains("was not checked"), "{line}");
    // Nobody has signed it.
    let mut put = forwarder.spawn("unsigned", &["put", "/x/unsigned", file.to_str().unwrap()]);
    put.wait_for_output("published");
    let line = text(&run(&["get", "/x/unsigned", "-o", &copy]));
    assert!(line.contains(", checked by digest, not by a key"), "{line}");
    // Without a digest, nothing is checked.
    let shared = home.join("shared").display().to_string();
    std::fs::write(&shared, "c2VjcmV0").unwrap();
    for (name, sign, signature) in [
        ("/x/null", "null", "NullSignature"),
        ("/x/hmac", &*format!("hmac:{shared}"), "SignatureHmacWithSha256"),
    ] {
        let put = ["put", name, file.to_str().unwrap(), "--sign", sign];
        let mut put = forwarder.spawn(signature, &put);
        put.wait_for_output("published");
        for output in [&*copy, "-"] {
            let line = text(&run(&["get", name, "-o", output]));
            assert!(line.contains(&format!(", not checked ({signature})")), "{line}");
        }
        let json = run(&["get", name, "-o", &copy, "--json"]);
        let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
        assert_eq!(json["unchecked_signature"], signature, "{json}");
        assert!(json["unchecked_key"].is_null(), "{json}");
        // A name with version is not looked up.
        let line = text(&run(&["get", json["name"].as_str().unwrap(), "-o", &copy]));
        assert!(line.contains(&format!(", not checked ({signature})")), "{line}");
    }
    let line = text(&run(&["get", "/x/unsigned", "-o", &copy, "--verify", "none"]));
    assert!(line.contains(", signatures not checked"), "{line}");
    let certificate = home.join("evil.cert").display().to_string();
    std::fs::write(&certificate, run(&["cert", "dump", "/evil"]).stdout).unwrap();
    let line = text(&run(&["get", "/x/file", "-o", &copy, "--verify", &certificate]));
    let verified = format!(", verified by the key in {certificate}");
    assert!(line.contains(&verified) && !line.contains("not checked"), "{line}");
    let json = run(&["get", "/x/file", "-o", &copy, "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert!(json["unchecked_key"].as_str().unwrap().starts_with("/evil/KEY/"), "{json}");
    // Of a directory, too.
    let served = home.join("served");
    std::fs::create_dir(&served).unwrap();
    std::fs::write(served.join("file"), "content").unwrap();
    let serve = ["serve", served.to_str().unwrap(), "--prefix", "/d", "--identity", "/evil"];
    let mut command = forwarder.command(&serve);
    command.env("HOME", &home);
    let mut server = namewire_tests::Process::start("serve", command, &home);
    server.wait_for_output("serving ");
    for replicas in [&[][..], &["--replica", "/mirror/none"]] {
        let line = text(&run(&[&["get", "/d/file", "-o", &copy], replicas].concat()));
        assert!(
            line.contains("signed by /evil/KEY/") && line.contains("was not checked"),
            "{line}"
        );
    }
    let copy = home.join("directory").display().to_string();
    let line = text(&run(&["sync", "/d", &copy]));
    assert!(line.contains("signed by /evil/KEY/") && line.contains("was not checked"), "{line}");
    let again = home.join("again").display().to_string();
    let json = run(&["get", "/d", "--recursive", "-o", &again, "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert!(json["unchecked_keys"][0].as_str().unwrap().starts_with("/evil/KEY/"), "{json}");
}

#[test]
fn fetches_from_a_file_server_are_logged() {
    let forwarder = Settings::new().start();
    let home = forwarder.directory().to_owned();
    let served = home.join("served");
    std::fs::create_dir(&served).unwrap();
    std::fs::write(served.join("file"), "content").unwrap();
    let (served, log) = (served.display().to_string(), home.join("log"));
    let arguments = ["serve", &served, "--prefix", "/x", "--log", log.to_str().unwrap()];
    let mut server = forwarder.spawn("server", &arguments);
    server.wait_for_output("serving ");
    let copy = home.join("copy").display().to_string();
    assert!(forwarder.run(&["get", "/x/file", "-o", &copy]).status.success());
    assert!(!forwarder.run(&["get", "/x/none", "-o", &copy]).status.success());
    let lines = wait_until("lines of the log", || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        (text.contains("/x/file/") && text.contains("/x/none/") && text.ends_with('\n'))
            .then_some(text)
    });
    for line in lines.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let (name, outcome) = (line["name"].as_str().unwrap(), line["outcome"].as_str().unwrap());
        let expected = if name.starts_with("/x/file/") { "metadata" } else { "not_found" };
        assert!(outcome == expected && line["time"].as_str().unwrap().starts_with("20"), "{line}");
    }
}
