//! The status pages of the HTTP API in a browser.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;

use namewire_tests::{
    Settings, api_of, browser_found, graphql, noise, skip_unless_file, wait_until,
};

fn interop() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/pages")
}

#[test]
fn tasks_are_started_and_stopped_by_the_api() {
    let files = tempfile::tempdir().unwrap();
    let content = noise(3, 300_000);
    std::fs::write(files.path().join("file"), &content).unwrap();
    let toml = format!("[control.http]\ndirectories = [{:?}]\n", files.path());
    let forwarder = Settings::new().toml(&toml).argument("--http=127.0.0.1:0").start_program();
    let api = api_of(&forwarder);
    let start = |text: &str| {
        let response = graphql(&api, &format!("mutation {{ {text} {{ id }} }}"));
        let (field, _) = text.split_once('(').unwrap();
        response["data"][field]["id"].as_u64().unwrap_or_else(|| panic!("{response}"))
    };
    let task = |id: u64| {
        let fields = "state status messages result metrics { key value }";
        graphql(&api, &format!("{{ tasks(id: {id}) {{ {fields} }} }}"))["data"]["tasks"][0].clone()
    };
    let directory = files.path().display();
    let server = start(&format!("fileServerStart(prefix: \"/files\", directory: \"{directory}\")"));
    wait_until("the file server", || {
        let known = forwarder.run(&["ls", "/files"]);
        known.status.success().then_some(())
    });
    let fetch = start(&format!("fetchStart(name: \"/files/file\", file: \"{directory}/copy\")"));
    wait_until("the fetch", || {
        let task = task(fetch);
        assert_ne!(task["state"], "failed", "{task}");
        (task["state"] == "done").then_some(())
    });
    assert!(
        std::fs::read(files.path().join("copy")).unwrap() == content,
        "the file is another one"
    );
    let served = task(server);
    let mut metrics = served["metrics"].as_array().unwrap().iter();
    let sent = metrics.find(|one| one["key"] == "namewire_serve_content_bytes_total");
    assert!(sent.unwrap()["value"].as_u64() >= Some(300_000), "{served}");
    let stopped = graphql(&api, &format!("mutation {{ taskStop(id: {server}) {{ state }} }}"));
    assert_eq!(stopped["data"]["taskStop"]["state"], "stopping", "{stopped}");
    wait_until("the end of the file server", || (task(server)["state"] == "stopped").then_some(()));
    for (text, code) in [
        (format!("taskStop(id: {server}) {{ id }}"), "REFUSED"),
        ("taskStop(id: 99) { id }".to_owned(), "BAD_INPUT"),
        ("fileServerStart(prefix: \"/x\", directory: \"/etc\") { id }".to_owned(), "BAD_INPUT"),
        ("fetchStart(name: \"/x\", file: \"/etc/passwd\") { id }".to_owned(), "BAD_INPUT"),
        ("trafficProducerStart(prefixes: []) { id }".to_owned(), "BAD_INPUT"),
        ("benchmarkStart(transport: \"avian\") { id }".to_owned(), "BAD_INPUT"),
        ("benchmarkStart(loss: \"much\") { id }".to_owned(), "QUERY_INVALID"),
    ] {
        let refused = graphql(&api, &format!("mutation {{ {text} }}"));
        assert_eq!(refused["errors"][0]["extensions"]["code"], code, "{text}: {refused}");
    }
}

#[test]
fn benchmark_has_the_arguments_of_the_api() {
    let forwarder = Settings::new().argument("--http=127.0.0.1:0").start_program();
    let api = api_of(&forwarder);
    let arguments = "transport: \"udp\", congestion: \"fixed\", window: 9, components: 7, producer: \"files\", fileMib: 16, \
                     delayMs: 2.5, rateMbit: 100, loss: 0.001, durationS: 2, trials: 1";
    let started =
        graphql(&api, &format!("mutation {{ benchmarkStart({arguments}) {{ id arguments }} }}"));
    let task = &started["data"]["benchmarkStart"];
    let passed = task["arguments"].as_array().unwrap_or_else(|| panic!("{started}"));
    for option in
        ["components=7", "file-mib=16", "window=9", "delay-ms=2.5", "rate-mbit=100", "loss=0.001"]
    {
        assert!(passed.contains(&format!("--{option}").into()), "{option}: {passed:?}");
    }
    // The program takes them.
    let query = format!("{{ tasks(id: {}) {{ state messages }} }}", task["id"]);
    wait_until("figures of the benchmark", || {
        let task = &graphql(&api, &query)["data"]["tasks"][0];
        assert_ne!(task["state"], "failed", "{task}");
        task["messages"].as_str()?.contains("\"live\"").then_some(())
    });
    let stopped =
        graphql(&api, &format!("mutation {{ taskStop(id: {}) {{ state }} }}", task["id"]));
    assert_eq!(stopped["data"]["taskStop"]["state"], "stopping", "{stopped}");
}

#[test]
fn pages_show_and_change_a_forwarder_under_traffic() {
    let library = interop().join("node_modules/playwright-core/package.json");
    if !browser_found() || !skip_unless_file(&library, "playwright-core") {
        return;
    }
    let forwarder = Settings::new().udp().workers(2).argument("--http=127.0.0.1:0").start_program();
    let (url, token) = api_of(&forwarder);
    let mut server = forwarder.spawn("server", &["ping-server", "/traffic"]);
    server.wait_for_output("/traffic");
    let _ping = forwarder.spawn("ping", &["ping", "/traffic", "-i", "20ms"]);
    // Kept after the test, for review.
    let screenshots = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages");
    std::fs::create_dir_all(&screenshots).unwrap();
    let mut check = Command::new("node");
    check.arg(interop().join("check.mjs")).args([url, token]).arg(&screenshots);
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
