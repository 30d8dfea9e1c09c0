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

/// Checks the answer to `taskStop`; the process may have ended before the answer was made.
fn assert_stopping(answer: &serde_json::Value) {
    let state = answer["data"]["taskStop"]["state"].as_str();
    assert!(matches!(state, Some("stopping" | "stopped")), "{answer}");
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
    assert_stopping(&stopped);
    wait_until("the end of the file server", || (task(server)["state"] == "stopped").then_some(()));
    let history = graphql(&api, "{ benchmarkHistory }");
    let text = history["data"]["benchmarkHistory"].as_str().unwrap_or_else(|| panic!("{history}"));
    let listed: serde_json::Value = serde_json::from_str(text).unwrap();
    assert_eq!(listed["runs"], serde_json::json!([]), "{text}");
    let compared = graphql(&api, "{ benchmarkHistory(first: 1, second: 2) }");
    assert_eq!(compared["errors"][0]["extensions"]["code"], "REFUSED", "{compared}");
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
                     fileCount: 2, consumer: \"get\", delayMs: 2.5, rateMbit: 100, loss: 0.001, durationS: 2, trials: 1";
    let started =
        graphql(&api, &format!("mutation {{ benchmarkStart({arguments}) {{ id arguments }} }}"));
    let task = &started["data"]["benchmarkStart"];
    let passed = task["arguments"].as_array().unwrap_or_else(|| panic!("{started}"));
    for option in [
        "components=7",
        "file-count=2",
        "consumer=get",
        "file-mib=16",
        "window=9",
        "delay-ms=2.5",
        "rate-mbit=100",
        "loss=0.001",
    ] {
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
    assert_stopping(&stopped);
}

/// Whether there is a browser that tests can use.
fn has_browser() -> bool {
    let library = interop().join("node_modules/playwright-core/package.json");
    browser_found() && skip_unless_file(&library, "playwright-core")
}

/// Lets a browser use the pages of this API by a script with further arguments.
///
/// # Panics
/// The script has failed.
fn use_pages(script: &str, (url, token): &(String, String), arguments: &[&str]) {
    let mut check = Command::new("node");
    check.arg(interop().join(script)).args([url, token]).args(arguments);
    // Longer than other programs: a browser on a busy machine.
    let checked = check.output().unwrap();
    let printed = String::from_utf8_lossy(&checked.stdout);
    assert!(printed.contains("PASSED"), "{printed}{}", String::from_utf8_lossy(&checked.stderr));
    eprintln!("{printed}");
}

/// The directory of pictures, which are kept after a test, for review.
fn pictures() -> PathBuf {
    let pictures = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages");
    std::fs::create_dir_all(&pictures).unwrap();
    pictures
}

#[test]
fn pages_left_open_for_a_day_do_not_grow() {
    if !has_browser() {
        return;
    }
    let forwarder = Settings::new().argument("--http=127.0.0.1:0").start_program();
    use_pages("day.mjs", &api_of(&forwarder), &[]);
}

#[test]
fn pages_show_many_faces_and_routes_in_parts() {
    if !has_browser() {
        return;
    }
    // More than pages and parts of tables; NAMEWIRE_MANY is "FACES ROUTES" of another run.
    let many = std::env::var("NAMEWIRE_MANY").unwrap_or_else(|_| "300 5000".to_owned());
    let forwarder = Settings::new().udp().argument("--http=127.0.0.1:0").start_program();
    let pictures = pictures();
    let counts: Vec<&str> = many.split(' ').collect();
    let arguments = [&[pictures.to_str().unwrap()], &counts[..]].concat();
    use_pages("many.mjs", &api_of(&forwarder), &arguments);
}

#[test]
fn pages_show_and_change_a_forwarder_under_traffic() {
    if !has_browser() {
        return;
    }
    let forwarder = Settings::new().udp().workers(2).argument("--http=127.0.0.1:0").start_program();
    let mut server = forwarder.spawn("server", &["ping-server", "/traffic"]);
    server.wait_for_output("/traffic");
    let _ping = forwarder.spawn("ping", &["ping", "/traffic", "-i", "20ms"]);
    let pictures = pictures();
    use_pages("check.mjs", &api_of(&forwarder), &[pictures.to_str().unwrap()]);
    // The file that the page has saved is a capture of what it shows.
    let saved = pictures.join("capture.pcapng");
    let packets = forwarder.json(&["dissect", saved.to_str().unwrap()]);
    let packets = packets["packets"].as_array().unwrap();
    assert!(
        !packets.is_empty() && packets.iter().all(|packet| packet["type"] == "Data"),
        "{packets:?}"
    );
}
