//! The status pages of the HTTP API in a browser.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;

use namewire_tests::{Settings, browser_found, skip_unless_file};

fn interop() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/pages")
}

#[test]
fn pages_show_and_change_a_forwarder_under_traffic() {
    let library = interop().join("node_modules/playwright-core/package.json");
    if !browser_found() || !skip_unless_file(&library, "playwright-core") {
        return;
    }
    let forwarder = Settings::new().udp().workers(2).argument("--http=127.0.0.1:0").start_program();
    let announced = forwarder.process.stdout();
    let (_, url) = announced.split_once("HTTP API: ").expect("an announcement");
    let url = url.lines().next().unwrap();
    let tokens = forwarder.directory().join("http-tokens");
    let token = forwarder.output(&["control", "token", "--file", tokens.to_str().unwrap()]);
    let mut server = forwarder.spawn("server", &["ping-server", "/traffic"]);
    server.wait_for_output("/traffic");
    let _ping = forwarder.spawn("ping", &["ping", "/traffic", "-i", "20ms"]);
    // Kept after the test, for review.
    let screenshots = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages");
    std::fs::create_dir_all(&screenshots).unwrap();
    let mut check = Command::new("node");
    check.arg(interop().join("check.mjs")).args([url, token.trim()]).arg(&screenshots);
    // Longer than other programs: a browser on a busy machine.
    let checked = check.output().unwrap();
    let printed = String::from_utf8_lossy(&checked.stdout);
    assert!(printed.contains("PASSED"), "{printed}{}", String::from_utf8_lossy(&checked.stderr));
    // The file that the page has saved is a capture of what it shows.
    let saved = screenshots.join("capture.pcapng");
    let packets = forwarder.json(&["dissect", saved.to_str().unwrap()]);
    let packets = packets["packets"].as_array().unwrap();
    assert!(
        !packets.is_empty() && packets.iter().all(|packet| packet["type"] == "Data"),
        "{packets:?}"
    );
}
