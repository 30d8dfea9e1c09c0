//! Shared memory that is refused: secrets, interfaces in use, memory.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Output;

use namewire_tests::{Forwarder, Process, Settings, run_to_end, wait_until};
use rustix::process::Signal;

const VARIABLE: &str = "NDN_CLIENT_MEMIF_SECRET";

fn listening(path: &Path, more: &str) -> Settings {
    let toml = format!("[listeners.memif]\nenabled = true\npath = {path:?}\n{more}");
    Settings::new().toml(&toml)
}

fn secret(socket: &Path, id: Option<u32>, secret: &str) -> String {
    let id = id.map_or_else(String::new, |id| format!("id = {id}\n"));
    format!("[[memif_secrets]]\nsocket = {socket:?}\n{id}secret = {secret:?}\n")
}

/// A command of an application that attaches as `transport` says, with this secret.
fn attach(forwarder: &Forwarder, transport: &str, secret: &str, arguments: &[&str]) -> Output {
    let mut command = forwarder.command(&[arguments, &["--transport", transport]].concat());
    command.env(VARIABLE, secret);
    run_to_end(command)
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn refused(forwarder: &Forwarder, reason: &str) -> u64 {
    forwarder.json(&["status"])["memif"]["refused"][reason].as_u64().unwrap_or(0)
}

#[test]
fn applications_say_the_secret_of_their_interface() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memif.sock");
    let secrets = [secret(&path, None, "swordfish"), secret(&path, Some(7), "seven")].concat();
    let mut forwarder = listening(&path, &secrets).start();
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
            assert!(!output.status.success());
            let said = said(&output);
            assert!(said.contains("the peer refuses: \"Incorrect secret\""), "{said}");
            assert!(!said.contains(wrong) && !said.contains(right), "{said}");
        }
        assert_eq!(refused(&forwarder, "wrong_secret"), before + 2);
        let said = said(&attach(&forwarder, transport, "", &list));
        assert!(said.contains("A secret is required"), "{said}");
    }
    assert_eq!(refused(&forwarder, "no_secret"), 2);
    let log = forwarder.process.stderr();
    assert!(
        log.contains("a memif client was refused") && log.contains("Incorrect secret"),
        "{log}"
    );
    assert!(!log.contains("swordfish") && !log.contains("seven"), "{log}");
    forwarder.assert_healthy();
}

#[test]
fn a_forwarder_says_the_secret_of_a_server_and_hears_its_refusal() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memif.sock");
    let mut server = listening(&path, &secret(&path, None, "swordfish")).start();
    let remote = format!("memif://{}/3", path.display());
    let face = format!("[[static_faces]]\nuri = {remote:?}\n");
    let client =
        |words: &str| Settings::new().toml(&(secret(&path, Some(3), words) + &face)).start();
    let wrong = client("swordfisch");
    let down = wait_until("a refusal", || {
        let faces = &wrong.json(&["status"])["down_faces"];
        let reason = faces[0]["reason"].as_str()?.to_owned();
        reason.contains("refuses").then_some(reason)
    });
    assert_eq!(down, "the peer refuses: \"Incorrect secret\"");
    let shown = wrong.output(&["face", "show", &remote]);
    assert!(shown.contains(&down), "{shown}");
    assert!(wrong.process.stderr().contains(&down), "{}", wrong.process.stderr());
    assert!(refused(&server, "wrong_secret") >= 1);
    drop(wrong);
    let mut right = client("swordfish");
    let faces = || server.json(&["status"])["memif"]["clients"].as_u64();
    wait_until("the face", || (faces() == Some(1)).then_some(()));
    // One that is asked for, with the secret of the configuration; the interface is in use.
    let mut another = client("swordfish");
    wait_until("a refusal", || {
        let down = another.json(&["status"])["down_faces"][0]["reason"].to_string();
        down.contains("Already connected").then_some(())
    });
    another.assert_healthy();
    right.assert_healthy();
    server.assert_healthy();
}

#[test]
fn clients_share_so_much_memory_together() {
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
    assert!(said(&output).contains("Too much memory is shared"), "{}", said(&output));
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
fn a_reload_changes_secrets_for_those_who_connect_then() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memif.sock");
    let forwarder = listening(&path, &secret(&path, None, "before")).start();
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
    // Whoever is there stays.
    assert!(attached.is_running());
    wait_until("the others' end", || {
        (forwarder.json(&["status"])["memif"]["clients"] == 1).then_some(())
    });
}
