//! Files and objects that a command line names as input: if one cannot be used, the exit status is 2.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

use namewire_tests::{Forwarder, Settings};

/// Command lines with the input `FILE`, and whether its content can be invalid.
const INPUTS: &[(&str, bool)] = &[
    ("run --config FILE", true),
    ("run --nfd-conf FILE", true),
    ("start --config FILE", true),
    ("start --nfd-conf FILE", true),
    ("route add --batch FILE", true),
    ("ping-server /a --sign FILE", true),
    ("peek /a --parameters FILE", false),
    ("peek /a --verify FILE", true),
    ("peek /a --verify hmac:FILE", true),
    ("peek /a --verify rules:FILE", true),
    ("poke /a FILE", false),
    ("put /a FILE", false),
    ("put /a USABLE --sign FILE", true),
    ("put /a USABLE --metrics-push http://127.0.0.1:9 --metrics-token FILE", false),
    ("get /a -o - --metrics-push http://127.0.0.1:9 --metrics-token FILE", false),
    ("sync /a OUTPUT --metrics-push http://127.0.0.1:9 --metrics-token FILE", false),
    ("get /a -o - --verify FILE", true),
    ("ls /a --verify FILE", true),
    ("serve FILE --prefix /a", true),
    ("serve --mounts FILE", true),
    ("serve DIRECTORY --prefix /a --certificate FILE", true),
    ("serve DIRECTORY --prefix /a --metrics-push http://127.0.0.1:9 --metrics-token FILE", false),
    ("gateway --prefix /a --tls-certificate FILE --tls-key USABLE", true),
    ("gateway --prefix /a --tls-certificate USABLE --tls-key FILE", true),
    ("gateway --prefix /a --token-file FILE", true),
    ("dissect FILE", true),
    ("workers --plan FILE", true),
    ("autoconfig --config FILE", false),
    ("traffic consumer --scenario FILE", true),
    ("traffic producer --scenario FILE", true),
    ("traffic consumer /a --metrics-push http://127.0.0.1:9 --metrics-token FILE", false),
    ("traffic producer /a --metrics-push http://127.0.0.1:9 --metrics-token FILE", false),
    ("model check --property mean(latency) FILE", true),
    ("model explore --property mean(latency) --vary forwarder.workers=1,2 FILE", true),
    ("model fit FILE", true),
    ("model screen FILE", true),
    ("model calibrate --output OUTPUT FILE", true),
    ("model plan --calibration FILE --rate 1k --name-components 3 --payload 1kB", true),
    ("model validate --calibration FILE", true),
    ("cache simulate --topology FILE", true),
    ("cache simulate --topology tree --trace FILE", true),
    ("lab check FILE", true),
    ("lab run FILE", true),
    ("lab resume FILE", true),
    ("lab report FILE", true),
    ("lab analyse FILE", true),
    ("lab list FILE", true),
    ("lab render --compose OUTPUT FILE", true),
    ("key import FILE", true),
    ("key import USABLE --passphrase-file FILE", false),
    ("key export /a --passphrase-file FILE", false),
    ("cert sign FILE", true),
    ("cert install FILE", true),
    ("cert dump --file FILE", true),
    ("config check FILE", true),
    ("config convert FILE", true),
    ("control token --config FILE", true),
    ("control token --file FILE", true),
];

/// Options for files that a command writes, and reads at most to continue them.
const OUTPUTS: &[&str] = &[
    "--log-file",
    "--log",
    "--output",
    "--write",
    "--state",
    "--csv",
    "--svg",
    "--summary",
    "--model",
    "--runs",
    "--results",
];
/// Inputs that need an object of other kinds first.
const TESTED_ELSEWHERE: &[&str] = &["model measure FILE", "lab resume --experiment"];

/// Runs a command line with this input.
fn status(forwarder: &Forwarder, command: &str, file: &Path) -> (Option<i32>, String) {
    let at = |name: &str| forwarder.directory().join(name).display().to_string();
    let words = command.split(' ').map(|word| match word {
        "USABLE" => at("usable"),
        "OUTPUT" => at("output"),
        "DIRECTORY" => at("directory"),
        word => word.replace("FILE", &file.display().to_string()),
    });
    let words: Vec<String> = words.collect();
    let mut command = forwarder.command(&words.iter().map(String::as_str).collect::<Vec<_>>());
    command.env("HOME", forwarder.directory()).env("NAMEWIRE_PASSPHRASE", "secret");
    let ended = namewire_tests::run_to_end(command);
    (ended.status.code(), String::from_utf8_lossy(&ended.stderr).into_owned())
}

#[test]
fn unusable_inputs_have_the_same_exit_status_in_all_commands() {
    let forwarder = Settings::new().start();
    let at = |name: &str| forwarder.directory().join(name);
    fs::write(at("usable"), "usable").unwrap();
    fs::create_dir(at("directory")).unwrap();
    let (made, printed) = status(&forwarder, "key gen /a", Path::new(""));
    assert_eq!(made, Some(0), "{printed}");
    fs::write(at("invalid.toml"), b"\x06\xfd\xff").unwrap();
    let invalid = at("invalid.toml");
    let missing = at("missing.toml");
    for (command, can_be_invalid) in INPUTS {
        let inputs = [Some(&missing), can_be_invalid.then_some(&invalid)];
        for input in inputs.into_iter().flatten() {
            let (found, printed) = status(&forwarder, command, input);
            assert_eq!(found, Some(2), "{command} with {}: {printed}", input.display());
            assert!(!printed.contains("Usage:"), "{command}: the test is wrong: {printed}");
        }
    }
}

/// The list above has all options and arguments that are input files.
#[test]
fn all_input_files_are_tested() {
    let forwarder = Settings::new().start();
    let reference = forwarder.output(&["man", "--markdown"]);
    let mut command = "";
    for line in reference.lines() {
        if let Some(heading) = line.trim_start_matches('#').strip_prefix(" `namewire ") {
            command = heading.trim_end_matches('`');
        }
        let Some((syntax, _)) = line.strip_prefix("- `").and_then(|item| item.split_once("`: "))
        else {
            continue;
        };
        let is_file = ["FILE>", "FILE]", "<EXPERIMENT>", "<MODEL>", "<CAMPAIGN>"];
        if !is_file.iter().any(|value| syntax.contains(value)) {
            continue;
        }
        let option = syntax.split(['`', ' ', ',']).find(|word| word.starts_with("--"));
        let argument = option.unwrap_or("FILE");
        let tested = INPUTS.iter().map(|(line, _)| line).chain(TESTED_ELSEWHERE);
        let is_tested = tested.clone().any(|line| {
            line.strip_prefix(command)
                .is_some_and(|rest| rest.split(' ').any(|word| word == argument))
        });
        assert!(is_tested || OUTPUTS.contains(&argument), "{command}: {syntax}");
    }
}

#[test]
fn objects_of_another_kind_are_unusable_inputs() {
    let forwarder = Settings::new().start();
    let at = |name: &str| forwarder.directory().join(name);
    let served = at("served");
    fs::create_dir_all(served.join("directory")).unwrap();
    fs::write(served.join("file"), "content").unwrap();
    let (served, output) = (served.display().to_string(), at("output").display().to_string());
    let mut server = forwarder.spawn("server", &["serve", &served, "--prefix", "/files"]);
    server.wait_for_output("serving ");
    let file = format!("{served}/file");
    for command in [
        &["get", "/files/directory", "-o", &output][..],
        &["get", "/files/file", "-o", &output, "--listing"],
        &["get", "/files/file", "-o", &output, "--recursive"],
        &["sync", "/files/file", &output],
        &["ls", "/files/file"],
        &["put", "/a", &served],
        &["serve", &file, "--prefix", "/a"],
    ] {
        let ended = forwarder.run(command);
        let printed = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{command:?}: {printed}");
    }
}
