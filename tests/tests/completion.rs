//! Completion in the shell, with bash.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;
use std::process::Command;

use namewire_tests::{Forwarder, Settings, program, run_to_end, skip_unless_found};

/// Candidates of bash for the last of these words.
fn completed(transport: &str, home: &Path, words: &[&str]) -> Vec<String> {
    let script = format!(
        "source <(namewire completions bash)\n\
         COMP_WORDS=(namewire {words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n\
         _clap_complete_namewire namewire \"${{COMP_WORDS[COMP_CWORD]}}\" \"\"\n\
         printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        words = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ")
    );
    let mut bash = Command::new("bash");
    let directory = program().parent().unwrap().to_owned();
    let path =
        std::env::join_paths([directory.as_path(), Path::new("/usr/bin"), Path::new("/bin")]);
    bash.args(["-c", &script]).env("PATH", path.unwrap());
    bash.env("HOME", home).env("NDN_CLIENT_TRANSPORT", transport);
    let output = run_to_end(bash);
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

fn of(forwarder: &Forwarder, words: &[&str]) -> Vec<String> {
    let transport = format!("unix://{}", forwarder.socket().display());
    completed(&transport, forwarder.directory(), words)
}

#[test]
fn bash_completes_commands_names_faces_and_strategies() {
    if !skip_unless_found("bash") {
        return;
    }
    let forwarder = Settings::new().udp().start();
    let served = forwarder.directory().join("served");
    fs::create_dir_all(served.join("2026")).unwrap();
    fs::write(served.join("2026/run 1"), "1").unwrap();
    fs::write(served.join("readme"), "1").unwrap();
    let directory = served.display().to_string();
    let mut server = forwarder.spawn("server", &["serve", &directory, "--prefix", "/site/data"]);
    server.wait_for_output("serving ");
    let face = forwarder.json(&["face", "create", "udp4://127.0.0.1:9"]);
    let face = face["face_id"].as_u64().unwrap().to_string();

    assert!(of(&forwarder, &["strat"]).contains(&"strategy".to_owned()));
    assert_eq!(of(&forwarder, &["strategy", "set", "/x", "best"]), ["best-route"]);
    assert_eq!(of(&forwarder, &["get", "/si"]), ["/site/data"]);
    assert_eq!(of(&forwarder, &["get", "/site/data/"]), ["/site/data/2026/", "/site/data/readme"]);
    assert_eq!(of(&forwarder, &["ls", "/site/data/2026/"]), ["/site/data/2026/run%201"]);
    assert!(of(&forwarder, &["face", "destroy", ""]).contains(&face));
    // The forwarder that the line names has precedence over that of the environment.
    let transport = forwarder.socket().display().to_string();
    let nowhere = format!("unix://{transport}.none");
    let words = ["get", "--transport", &transport, "/si"];
    assert_eq!(completed(&nowhere, forwarder.directory(), &words), ["/site/data"]);
    assert_eq!(of(&forwarder, &["nfdc", "route", "a"]), ["add"]);
    assert!(of(&forwarder, &["nfdc", "face", "create", "udp4", "m"]).contains(&"mtu".to_owned()));
}

#[test]
fn nothing_is_completed_without_a_forwarder() {
    if !skip_unless_found("bash") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let nowhere = format!("unix://{}/none.sock", home.path().display());
    assert!(completed(&nowhere, home.path(), &["get", "/"]).is_empty());
    assert!(
        completed(&nowhere, home.path(), &["face", "destroy", ""])
            .iter()
            .all(|one| one.starts_with('-'))
    );
    assert_eq!(completed(&nowhere, home.path(), &["strategy", "set", "/x", "asf"]), ["asf"]);
    // Something that accepts and does not answer.
    let silent = home.path().join("silent.sock");
    let _listener = std::os::unix::net::UnixListener::bind(&silent).unwrap();
    let silent = format!("unix://{}", silent.display());
    assert!(completed(&silent, home.path(), &["get", "/"]).is_empty());
}
