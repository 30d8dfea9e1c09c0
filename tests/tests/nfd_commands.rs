//! Hundreds of commands, right and wrong, to NFD and to Namewire: the answers are the same.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

use namewire_tests::{Peer, Process, Settings, require, run_to_end, skip_unless_found, wait_until};
use serde_json::{Value, json};

/// NFD without a network: only its Unix socket.
const NFD_CONF: &str = "
log { default_level NONE }
tables { cs_max_packets 65536 }
face_system { unix { path SOCKET } }
authorizations { authorize { certfile any privileges { faces
 fib
 cs
 strategy-choice
} } }
rib { localhost_security { trust-anchor { type any } } }
";

fn answers(transport: &str) -> Vec<Value> {
    let mut command = Peer::Python.interop("commands");
    command.env("NDN_CLIENT_TRANSPORT", transport);
    let output = run_to_end(command);
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Where the answers differ on purpose: the command, the code of both, the words of NFD and ours.
const KNOWN_DIFFERENCES: [(&str, u64, &str, &str); 3] = [
    // The reasons that parameters of strategies are refused for are our own words.
    (
        r#"strategy-choice/set {"Name": "/q", "Strategy": "/localhost/nfd/strategy/best-route/v=5/retx-suppression-initial~x"}"#,
        409,
        "Error instantiating strategy: retx-suppression-initial value is malformed",
        "Error instantiating strategy: strategy parameter retx-suppression-initial cannot be `x`: a whole number is expected",
    ),
    // The reason is added.
    (
        r#"faces/create {"Uri": "udp6://[fe80::1]:4"}"#,
        400,
        "Non-canonical remote URI",
        "Non-canonical remote URI: the address is on a link: write its interface, as in [fe80::1%eth0]",
    ),
    // Ethernet faces can be made without a section of the configuration.
    (
        r#"faces/create {"Uri": "ether://[01:00:5e:00:17:aa]"}"#,
        406,
        "Unsupported protocol",
        "Creation of unicast Ethernet faces requires a LocalUri with dev:// scheme",
    ),
];

fn is_known_difference(command: &str, nfd: &Value, ours: &Value) -> bool {
    let is_one = |answer: &Value, code: u64, text: &str| *answer == json!([code, text, null]);
    KNOWN_DIFFERENCES.iter().any(|(known, code, theirs, own)| {
        command == *known && is_one(nfd, *code, theirs) && is_one(ours, *code, own)
    })
}

#[test]
fn nfd_and_namewire_give_the_same_answers() {
    if !(require(&[Peer::Python]) && skip_unless_found("nfd")) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nfd.sock");
    let conf = directory.path().join("nfd.conf");
    std::fs::write(&conf, NFD_CONF.replace("SOCKET", socket.to_str().unwrap())).unwrap();
    let mut command = Command::new("nfd");
    command.arg("--config").arg(&conf).env("HOME", directory.path());
    let _nfd = Process::start("nfd", command, directory.path());
    wait_until("NFD's socket", || socket.exists().then_some(()));
    let theirs = wait_until("NFD's RIB", || {
        let answers = answers(&format!("unix://{}", socket.display()));
        let is_up = |answer: &Value| {
            let command = answer["command"].as_str()?;
            // A larger origin than there is gets no answer ever.
            (command.starts_with("rib/register") && !command.contains("65536"))
                .then(|| answer["answer"].is_array())
        };
        answers.iter().filter_map(is_up).all(|is_up| is_up).then_some(answers)
    });
    let forwarder = Settings::new().start();
    let ours = answers(&forwarder.unix());
    assert!(ours.len() > 200);
    let mut differences = Vec::new();
    for (theirs, ours) in theirs.iter().zip(&ours) {
        let command = ours["command"].as_str().unwrap();
        assert_eq!(theirs["command"], command);
        let (mut nfd, own) = (theirs["answer"].clone(), &ours["answer"]);
        // What the FIB and RIB modules of NFD up to 24.07 call success.
        if nfd[1] == "Success" {
            nfd[1] = "OK".into();
        }
        if nfd != *own && !is_known_difference(command, &nfd, own) {
            differences.push(format!("{command}\n  NFD:      {nfd}\n  Namewire: {own}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
