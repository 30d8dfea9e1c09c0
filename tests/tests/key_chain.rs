//! The key chain beside ndnsec of ndn-cxx: each uses what the other has made.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use namewire_tests::{Peer, Settings, program, require, skip_unless_found};
use ndn_packet::Data;
use ndn_security::Certificate;
use ndn_security::Verifier;

/// Runs a program with a key chain of its own; its exit status, standard output and error.
fn run(
    program: &Path,
    home: &Path,
    arguments: &[&str],
    input: &str,
) -> (Option<i32>, String, String) {
    use std::io::Write;
    let mut child = Command::new(program)
        .args(arguments)
        .env("HOME", home)
        .env("NAMEWIRE_PASSPHRASE", "hunter2")
        .env_remove("NDN_CLIENT_PIB")
        .env_remove("NDN_CLIENT_TPM")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It may end without reading.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn succeed(program: &Path, home: &Path, arguments: &[&str], input: &str) -> String {
    let (status, output, error) = run(program, home, arguments, input);
    assert_eq!(status, Some(0), "{} {arguments:?}: {output}{error}", program.display());
    output
}

fn ours(home: &Path, arguments: &[&str], input: &str) -> String {
    succeed(program(), home, arguments, input)
}

fn ndnsec(home: &Path, arguments: &[&str], input: &str) -> String {
    succeed(Path::new("ndnsec"), home, arguments, input)
}

fn certificate(text: &str) -> Certificate {
    Certificate::from_text(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn keys_are_made_requested_certified_and_installed() {
    let root = tempfile::tempdir().unwrap();
    let site = tempfile::tempdir().unwrap();
    let (root, site) = (root.path(), site.path());
    let anchor = certificate(&ours(root, &["key", "gen", "/root"], ""));
    ours(site, &["key", "gen", "/root/site", "--type", "rsa", "--key-id", "mine"], "");
    let request = ours(site, &["cert", "request"], "");
    let arguments = ["cert", "sign", "-i", "root", "-I", "who me and you"];
    let issued = ours(root, &arguments, &request);
    certificate(&issued).verify(anchor.public_key()).unwrap();
    assert_eq!(certificate(&issued).description(), [("who".to_owned(), "me and you".to_owned())]);
    ours(site, &["cert", "install", "-"], &issued);
    assert_eq!(ours(site, &["cert", "dump", "/root/site"], ""), issued);
    let listed = ours(site, &["key", "list"], "");
    assert!(listed.contains("* /root/site/KEY/mine  RSA"), "{listed}");
    assert!(listed.contains("* /root/site/KEY/mine/root/"), "{listed}");
    // What is issued is no request: its key has not signed it.
    let (status, _, error) = run(program(), root, &["cert", "sign"], &issued);
    assert_eq!(status, Some(5), "{error}");
    let (status, _, error) = run(program(), root, &["cert", "sign"], "bm9uc2Vuc2U=");
    assert_eq!(status, Some(2), "{error}");
    assert!(error.contains("the request is not a valid Data packet"), "{error}");
    ours(site, &["key", "delete", "/root/site", "--yes"], "");
    assert_eq!(ours(site, &["key", "list"], ""), "");
}

#[test]
fn error_names_the_wrong_item() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let (status, _, error) = run(program(), home, &["key", "list"], "");
    assert_eq!(status, Some(1));
    assert!(error.contains("pib.db"), "{error}");
    ours(home, &["key", "gen", "/a"], "");
    let bag = ours(home, &["key", "export", "/a"], "");
    let other = home.join("other");
    std::fs::write(home.join("wrong"), "wrong\n").unwrap();
    let wrong = home.join("wrong");
    let arguments = ["key", "import", "--passphrase-file", wrong.to_str().unwrap()];
    let (status, _, error) = run(program(), &other, &arguments, &bag);
    assert_eq!(status, Some(2));
    assert!(error.contains("wrong passphrase"), "{error}");
    let (_, _, error) = run(program(), home, &["key", "import"], &bag);
    assert!(error.contains("exists already"), "{error}");
    let file = home.join("bag");
    let export = ["key", "export", "default", "-o", file.to_str().unwrap()];
    ours(home, &export, "");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let (_, _, error) = run(program(), home, &export, "");
    assert!(error.contains("exists"), "nothing is overwritten: {error}");
    for command in [&["poke", "/x"][..], &["put", "/x"]] {
        let arguments = [command, &["--identity", "/nobody"]].concat();
        let (status, _, error) = run(program(), home, &arguments, "");
        assert_eq!(status, Some(2), "{error}");
        assert!(error.contains("/nobody is no identity"), "{error}");
    }
}

#[test]
fn ndnsec_uses_keys_made_by_namewire() {
    if !skip_unless_found("ndnsec") {
        return;
    }
    for key_type in ["ecdsa", "rsa"] {
        let home = tempfile::tempdir().unwrap();
        let home = home.path();
        ours(home, &["key", "gen", "/ours", "--type", key_type], "");
        let listed = ndnsec(home, &["list", "-c"], "");
        assert!(listed.contains("* /ours/KEY/"), "{listed}");
        // It signs.
        let request = certificate(&ndnsec(home, &["sign-req", "/ours"], ""));
        assert!(request.is_self_signed());
        let issued = ndnsec(home, &["cert-gen", "-s", "/ours", "-"], &request.to_text());
        certificate(&issued).verify(request.public_key()).unwrap();
        ndnsec(home, &["cert-install", "-"], &issued);
        assert_eq!(certificate(&ours(home, &["cert", "dump", "/ours"], "")).to_text(), issued);
        // It exports, and we import; and the other way round.
        let (moved, back) = (home.join("moved"), home.join("back"));
        std::fs::create_dir_all(&back).unwrap();
        let bag = ndnsec(home, &["export", "-i", "/ours", "-P", "hunter2"], "");
        ours(&moved, &["key", "import"], &bag);
        assert!(certificate(&ours(&moved, &["cert", "request"], "")).is_self_signed());
        let bag = ours(&moved, &["key", "export", "default"], "");
        ndnsec(&back, &["import", "-P", "hunter2", "-"], &bag);
        assert!(certificate(&ndnsec(&back, &["sign-req", "/ours"], "")).is_self_signed());
        ndnsec(home, &["delete", "/ours"], "");
        assert_eq!(ours(home, &["key", "list"], ""), "");
    }
}

#[test]
fn keys_made_by_ndnsec_are_used() {
    if !skip_unless_found("ndnsec") {
        return;
    }
    for key_type in ["e", "r"] {
        let home = tempfile::tempdir().unwrap();
        let home = home.path();
        let made = ndnsec(home, &["key-gen", "-t", key_type, "/theirs"], "");
        assert_eq!(ours(home, &["cert", "dump", "default"], ""), made);
        let issued = ours(home, &["cert", "sign"], &ours(home, &["cert", "request"], ""));
        certificate(&issued).verify(certificate(&made).public_key()).unwrap();
        ours(home, &["cert", "install", "-"], &issued);
        let listed = ndnsec(home, &["list", "-c"], "");
        let name = certificate(&issued).name().to_uri();
        assert!(listed.contains("/NA/") && name.contains("/NA/"), "{listed}");
        ours(home, &["key", "gen", "/second"], "");
        assert_eq!(ndnsec(home, &["get-default"], "").trim(), "/second");
        ours(home, &["key", "default", "/theirs"], "");
        assert_eq!(ndnsec(home, &["get-default"], "").trim(), "/theirs");
        ours(home, &["key", "delete", "/theirs", "--yes"], "");
        let listed = ndnsec(home, &["list"], "");
        assert!(!listed.contains("/theirs") && listed.contains("/second"), "{listed}");
    }
}

/// Runs a script of `tests/interop/python`.
fn python(home: &Path, script: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = tests.join("interop/python").join(script).display().to_string();
    let interpreter = tests.join("../.venv/bin/python");
    run(&interpreter, home, &[&[path.as_str()], arguments].concat(), "")
}

fn python_key_chain(home: &Path, arguments: &[&str]) -> String {
    let (status, output, error) = python(home, "key_chain.py", arguments);
    assert_eq!(status, Some(0), "{arguments:?}: {output}{error}");
    output
}

#[test]
fn keys_made_by_python_ndn_are_used() {
    if !require(&[Peer::Python]) {
        return;
    }
    for key_type in ["ec", "rsa"] {
        let home = tempfile::tempdir().unwrap();
        let home = home.path();
        python_key_chain(home, &["make", "/python", key_type]);
        let listed = ours(home, &["key", "list"], "");
        let kind = if key_type == "ec" { "ECDSA" } else { "RSA" };
        assert!(listed.contains("/python/KEY/") && listed.contains(kind), "{listed}");
        let made = certificate(&ours(home, &["cert", "dump", "/python"], ""));
        assert!(made.is_self_signed());
        // It signs.
        let request = certificate(&ours(home, &["cert", "request", "/python"], ""));
        request.verify(made.public_key()).unwrap();
        // And what is added here is found there.
        ours(home, &["key", "gen", "/ours"], "");
        let listed = python_key_chain(home, &["list"]);
        assert!(listed.contains("/ours/KEY/") && listed.contains("/python/KEY/"), "{listed}");
        ours(home, &["key", "delete", "/python", "--yes"], "");
        let listed = python_key_chain(home, &["list"]);
        assert!(!listed.contains("/python"), "{listed}");
    }
}

#[test]
fn python_ndn_uses_keys_made_by_namewire() {
    if !require(&[Peer::Python]) {
        return;
    }
    for key_type in ["ecdsa", "rsa"] {
        let home = tempfile::tempdir().unwrap();
        let home = home.path();
        let made = certificate(&ours(home, &["key", "gen", "/ours", "--type", key_type], ""));
        let listed = python_key_chain(home, &["list"]);
        assert!(listed.contains(&made.name().to_uri()), "{listed}");
        let signed = python_key_chain(home, &["sign", "/ours"]);
        let wire = from_base64(signed.trim());
        let data = Data::parse(&wire).unwrap();
        let info = data.signature_info().unwrap();
        let key = made.public_key();
        key.verify(&info, &[data.signed_portion()], data.signature_value()).unwrap();
        // And what is added there is found and signs here.
        python_key_chain(home, &["make", "/python", "ec"]);
        let request = certificate(&ours(home, &["cert", "request", "/python"], ""));
        assert!(request.is_self_signed());
    }
}

/// The bytes of a text in Base64.
fn from_base64(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        other => panic!("{other} is no digit"),
    };
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'=').map(digit).collect();
    let mut bytes = Vec::new();
    for four in digits.chunks(4) {
        let joined = four.iter().fold(0_u32, |sum, digit| sum << 6 | u32::from(*digit));
        let joined = joined << (6 * (4 - four.len()));
        bytes.extend_from_slice(&joined.to_be_bytes()[1..four.len()]);
    }
    bytes
}

#[test]
fn passphrase_is_read_from_the_terminal() {
    if !require(&[Peer::Python]) {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    ours(home, &["key", "gen", "/a"], "");
    let bag = home.join("bag").display().to_string();
    // `env -u` takes away what the tests of this file give otherwise.
    let at_terminal = |home: &Path, answers: &[&str], arguments: &[&str]| {
        let own = program().display().to_string();
        let command = ["--", "env", "-u", "NAMEWIRE_PASSPHRASE", own.as_str(), "key"];
        python(home, "terminal.py", &[answers, &command, arguments].concat())
    };
    let export = ["export", "default", "-o", bag.as_str()];
    let (status, shown, _) = at_terminal(home, &["hidden1", "hidden2"], &export);
    assert_eq!(status, Some(2), "{shown}");
    assert!(shown.contains("differ") && !shown.contains("hidden"), "{shown}");
    let (status, shown, _) = at_terminal(home, &["hidden", "hidden"], &export);
    assert_eq!(status, Some(0), "{shown}");
    assert!(shown.contains("Passphrase: ") && !shown.contains("hidden"), "{shown}");
    let other = home.join("other");
    std::fs::create_dir(&other).unwrap();
    let (status, shown, _) = at_terminal(&other, &["wrong"], &["import", &bag]);
    assert_eq!(status, Some(2), "{shown}");
    let (status, shown, _) = at_terminal(&other, &["hidden"], &["import", &bag]);
    assert_eq!(status, Some(0), "{shown}");
    assert!(ours(&other, &["key", "list"], "").contains("/a/KEY/"));

    // Without a terminal, the error says so.
    let mut command = Command::new(program());
    command.args(["key", "export", "/a"]).env("HOME", home).env_remove("NAMEWIRE_PASSPHRASE");
    command.env_remove("NDN_CLIENT_PIB").env_remove("NDN_CLIENT_TPM").stdin(Stdio::null());
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && error.contains("not a terminal"), "{error}");
    // A file that is not there is found out before the passphrase is asked for.
    let (status, shown, _) = at_terminal(home, &["never asked"], &["import", "/no/bag"]);
    assert_eq!(status, Some(2), "{shown}");
    assert!(shown.contains("/no/bag: No such file") && !shown.contains("Passphrase"), "{shown}");
}

#[test]
fn the_forwarder_and_its_operator_sign_with_identities() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let own = ours(home, &["key", "gen", "/router"], "");
    std::fs::write(home.join("router.cert"), own).unwrap();
    ours(home, &["key", "gen", "/operator"], "");
    let operator = ours(home, &["cert", "dump", "/operator"], "");
    std::fs::write(home.join("operator.cert"), operator).unwrap();
    let toml = format!(
        "[management]\nidentity = \"/router\"\n[[management.authorizations]]\n\
         certificate = \"{}\"\nprivileges = [\"faces\", \"strategy-choice\", \"cs\", \"fib\"]\n",
        home.join("operator.cert").display()
    );
    let forwarder = Settings::new().toml(&toml).variable("HOME", home).start_program();
    let asked =
        |arguments: &[&str]| forwarder.command(arguments).env("HOME", home).output().unwrap();
    let certificate = home.join("router.cert");
    let peek = ["peek", "/localhost/nfd/status/general", "--prefix", "--verify"];
    let signed = asked(&[&peek[..], &[certificate.to_str().unwrap()]].concat());
    assert!(signed.status.success(), "{signed:?}");
    let other = home.join("operator.cert");
    let refused = asked(&[&peek[..], &[other.to_str().unwrap()]].concat());
    assert_eq!(refused.status.code(), Some(5), "{refused:?}");

    let set = ["strategy", "set", "/x", "multicast"];
    let unsigned = asked(&set);
    assert!(!unsigned.status.success(), "{unsigned:?}");
    let signed = asked(&[&set[..], &["--identity", "default"]].concat());
    assert!(signed.status.success(), "{signed:?}");
}

#[test]
fn new_default_key_and_identity_are_reported() {
    let home = tempfile::tempdir().unwrap();
    let generate = |arguments: &[&str]| {
        let (status, _, messages) =
            run(program(), home.path(), &[&["key", "gen"], arguments].concat(), "");
        assert_eq!(status, Some(0), "{messages}");
        messages
    };
    let first = generate(&["/alice", "--key-id", "1"]);
    assert!(!first.contains("in place of"), "{first}");
    let second = generate(&["/alice", "--key-id", "2"]);
    let reported = "it is the default key of /alice now, in place of /alice/KEY/1 ";
    assert!(second.contains(reported) && !second.contains("identity"), "{second}");
    let third = generate(&["/alice", "--key-id", "3", "--not-default"]);
    assert!(!third.contains("in place of"), "{third}");
    let bob = generate(&["/bob"]);
    assert!(bob.contains("/bob is the default identity now, in place of /alice "), "{bob}");
}
