//! The benchmark page in a browser and without one: A–F–B with real processes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use namewire_tests::{
    ForwarderProcess, Process, Settings, api_of, bench_program, browser_found, graphql, run_to_end,
    skip_unless_file,
};
use serde_json::Value;

fn interop() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/pages")
}

/// A command of the bench, with its history in `directory`.
fn page(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(bench_program());
    command.arg("page").args(arguments).arg("--history").arg(directory.join("bench.sqlite"));
    command.env("HOME", directory);
    command
}

/// The benchmark that a run without a page prints.
fn headless(directory: &Path, arguments: &[&str]) -> Value {
    let base = ["--headless", "--json", "--duration", "1"];
    let output = run_to_end(page(directory, &[&base[..], arguments].concat()));
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_str(&printed).unwrap()
}

#[test]
fn benchmark_page_runs_compares_and_exports_benchmarks() {
    let library = interop().join("node_modules/playwright-core/package.json");
    if !browser_found() || !skip_unless_file(&library, "playwright-core") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let command = page(directory.path(), &["--listen", "127.0.0.1:0"]);
    let mut bench = Process::start("page", command, directory.path());
    bench.wait_for_output("/#token=");
    let printed = bench.stdout();
    let url = printed.trim().strip_prefix("benchmark page: ").unwrap();
    // Kept after the test, for review.
    let screenshots = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages");
    fs::create_dir_all(&screenshots).unwrap();
    let mut check = Command::new("node");
    check.arg(interop().join("bench.mjs")).arg(url).arg(&screenshots);
    // Longer than other programs: a browser on a busy machine.
    let checked = check.output().unwrap();
    let printed = String::from_utf8_lossy(&checked.stdout);
    let everything = bench.everything();
    let errors = String::from_utf8_lossy(&checked.stderr);
    assert!(printed.contains("PASSED"), "{printed}{errors}{everything}");
    let saved: Value =
        serde_json::from_str(&fs::read_to_string(screenshots.join("bench.json")).unwrap()).unwrap();
    assert_eq!(saved["trials"].as_array().unwrap().len(), 2);
    let csv = fs::read_to_string(screenshots.join("bench.csv")).unwrap();
    assert_eq!(csv.lines().count(), 5, "{csv}");
}

#[test]
fn benchmark_without_a_page_has_figures_of_each_trial() {
    let directory = tempfile::tempdir().unwrap();
    let html = directory.path().join("report.html");
    let arguments =
        ["--trials", "2", "--traffic", "both", "--workers", "2", "--flows", "2", "--export"];
    let run = headless(directory.path(), &[&arguments[..], &[html.to_str().unwrap()]].concat());
    assert_eq!(run["state"], "done", "{run}");
    let trials = run["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 2);
    for trial in trials {
        for direction in trial["directions"].as_array().unwrap() {
            let of = |name: &str| direction[name].as_f64().unwrap();
            // Every Data has 4000 bytes of content, and only content counts.
            assert_eq!(of("content_bytes"), of("data") * 4000.0);
            assert!(of("data") > 100.0 && of("interests") >= of("data"), "{direction}");
            let expected = of("content_bytes") * 8.0 / trial["seconds"].as_f64().unwrap();
            assert!((of("goodput_bit_per_s") / expected - 1.0).abs() < 0.1, "{trial}");
            let latency = &direction["latency"];
            assert!(latency["p50_us"].as_u64() > Some(0), "{direction}");
            assert!(latency["p50_us"].as_u64() <= latency["p99_us"].as_u64(), "{direction}");
        }
        for node in ["a_us", "f_us", "b_us"] {
            assert!(trial["cpu_per_data"][node].as_f64() > Some(0.0), "{trial}");
        }
    }
    assert!(run["summary"]["goodput_bit_per_s"]["interval"].is_number(), "{run}");
    assert!(fs::read_to_string(html).unwrap().contains("<svg"));
    let history = |arguments: &[&str]| {
        let mut command = Command::new(bench_program());
        command.arg("page-history").args(arguments);
        command.arg("--history").arg(directory.path().join("bench.sqlite"));
        run_to_end(command)
    };
    let json = |arguments: &[&str]| -> Value {
        serde_json::from_slice(&history(arguments).stdout).unwrap()
    };
    assert_eq!(json(&[])["runs"][0]["trials"], 2);
    assert!(json(&["--before", "1"])["runs"].as_array().unwrap().is_empty());
    let compared = json(&["--first", "1", "--second", "1"]);
    assert_eq!(compared["comparison"]["data_per_s"]["ratio"], 1.0, "{compared}");
    assert_eq!(history(&["--first", "1", "--second", "2"]).status.code(), Some(1));
}

#[test]
fn benchmark_over_a_link_has_its_delay_rate_and_losses() {
    let directory = tempfile::tempdir().unwrap();
    let link = ["--transport", "udp", "--delay-ms", "5", "--rate-mbit", "20", "--loss", "0.02"];
    let rest = ["--trials", "1", "--congestion", "delay", "--payload", "1000"];
    let run = headless(directory.path(), &[&link[..], &rest].concat());
    let trial = &run["trials"][0];
    let direction = &trial["directions"][0];
    // Both ways take 5 ms.
    assert!(direction["latency"]["p50_us"].as_u64() >= Some(10_000), "{trial}");
    assert!(direction["goodput_bit_per_s"].as_f64() < Some(20e6), "{trial}");
    assert!(trial["link"]["lost"].as_u64() > Some(0), "{trial}");
    assert!(direction["retransmissions"].as_u64() > Some(0), "{trial}");
}

#[test]
fn file_server_takes_the_place_of_the_generator() {
    let directory = tempfile::tempdir().unwrap();
    for transport in ["unix", "udp"] {
        let arguments =
            ["--producer", "files", "--file-mib", "16", "--trials", "1", "--transport", transport];
        let run = headless(directory.path(), &arguments);
        let direction = &run["trials"][0]["directions"][0];
        assert!(direction["data"].as_u64() > Some(100), "{run}");
    }
}

#[test]
fn get_fetches_the_files_of_a_set() {
    let directory = tempfile::tempdir().unwrap();
    for (transport, consumer, flows) in
        [("unix", "fetcher", "2"), ("unix", "get", "2"), ("udp", "get-file", "1")]
    {
        let files = ["--producer", "files", "--file-mib", "16", "--file-count", "2"];
        let rest = ["--consumer", consumer, "--flows", flows, "--workers", "2", "--trials", "1"];
        let run = headless(
            directory.path(),
            &[&files[..], &rest, &["--transport", transport, "--payload", "1000"]].concat(),
        );
        let trial = &run["trials"][0];
        let direction = &trial["directions"][0];
        let of = |name: &str| direction[name].as_f64().unwrap();
        assert!(of("data") > 100.0 && of("interests") >= of("data"), "{consumer}: {run}");
        // Each Data has 1,000 bytes of content, but the last one of a file; a line of figures may come between its counters.
        let ratio = of("content_bytes") / (of("data") * 1000.0);
        assert!((ratio - 1.0).abs() < 0.05, "{consumer}: {ratio} of {direction}");
        let is_measured = direction["latency"]["max_us"].as_u64() > Some(0);
        assert_eq!(is_measured, consumer == "fetcher", "{direction}");
        assert!(trial["cpu_per_data"]["b_us"].as_f64() > Some(1.0), "{trial}");
    }
}

#[test]
fn repeated_interests_are_answered_from_the_cache_and_digests_are_verified() {
    let directory = tempfile::tempdir().unwrap();
    let run = headless(
        directory.path(),
        &["--trials", "1", "--flows", "2", "--interests", "repeated", "--verify"],
    );
    let trial = &run["trials"][0];
    let data = trial["directions"][0]["data"].as_u64().unwrap();
    let hits = trial["cache_hits"].as_u64().unwrap();
    // The second fetch is at most 1,024 segments behind, so nearly half of the Data are hits.
    assert!(data > 100 && hits * 2 <= data + 1024 && hits * 2 + 2048 > data, "{trial}");
}

#[test]
fn nodes_have_network_namespaces_over_veth() {
    if !rustix::process::geteuid().is_root() {
        return namewire_tests::skip("root", "namespaces of the nodes take root");
    }
    let directory = tempfile::tempdir().unwrap();
    for (producer, consumer) in [("generator", "fetcher"), ("files", "fetcher"), ("files", "get")] {
        let arguments = ["--transport", "veth", "--trials", "1", "--traffic", "both"];
        let files = ["--producer", producer, "--file-mib", "16", "--consumer", consumer];
        let run = headless(directory.path(), &[&arguments[..], &files].concat());
        for direction in run["trials"][0]["directions"].as_array().unwrap() {
            assert!(direction["data"].as_u64() > Some(100), "{run}");
        }
    }
}

/// A forwarder with the HTTP API, whose token is in a file.
struct Elsewhere {
    forwarder: ForwarderProcess,
    api: (String, String),
    token_file: PathBuf,
}

impl Elsewhere {
    fn start(settings: Settings) -> Self {
        let forwarder = settings.argument("--http=127.0.0.1:0").start_program();
        let api = api_of(&forwarder);
        let token_file = forwarder.directory().join("token");
        fs::write(&token_file, &api.1).unwrap();
        Self { forwarder, api, token_file }
    }

    /// A forwarder that admits the producers of other hosts, its address, and the arguments that make it F.
    fn start_as_f() -> (Self, String, Vec<String>) {
        let settings = Settings::new().udp().toml("[management]\nlocalhop_rib = \"any\"");
        let own = Self::start(settings);
        let address = format!("udp://127.0.0.1:{}", own.forwarder.port());
        let forwarder = ["--transport", "udp", "--forwarder", &address].map(str::to_owned);
        let arguments = [&forwarder[..], &own.arguments("--api", "--token-file")].concat();
        (own, address, arguments)
    }

    fn arguments(&self, url: &str, token: &str) -> [String; 4] {
        let file = self.token_file.display().to_string();
        [url.to_owned(), self.api.0.clone(), token.to_owned(), file]
    }

    /// The states of its tasks.
    fn tasks(&self) -> Vec<String> {
        let response = graphql(&self.api, "{ tasks { kind state } }");
        let tasks = response["data"]["tasks"].as_array().unwrap().iter();
        let of = |task: &Value, field: &str| task[field].as_str().unwrap().to_owned();
        tasks.map(|task| format!("{} {}", of(task, "kind"), of(task, "state"))).collect()
    }
}

/// A benchmark without a page that fails, and its errors.
fn failed(directory: &Path, arguments: &[String]) -> String {
    let mut command = page(directory, &["--headless", "--duration", "1", "--trials", "1"]);
    command.args(arguments);
    let output = run_to_end(command);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{errors}");
    errors
}

#[test]
fn forwarder_elsewhere_is_measured_by_its_api() {
    let directory = tempfile::tempdir().unwrap();
    let (f, address, remote) = Elsewhere::start_as_f();
    let mut arguments: Vec<_> = remote.iter().map(String::as_str).collect();
    arguments.extend(["--trials", "2", "--traffic", "both"]);
    let run = headless(directory.path(), &arguments);
    assert_eq!(run["machine"]["forwarder"], address.as_str(), "{run}");
    for trial in run["trials"].as_array().unwrap() {
        assert!(trial["data_per_s"].as_f64() > Some(100.0), "{trial}");
        let cpu = trial["cpu_per_data"]["f_us"].as_f64();
        assert!(cpu > Some(0.1) && cpu < Some(10_000.0), "{trial}");
    }
    fs::write(&f.token_file, "0".repeat(64)).unwrap();
    let errors = failed(directory.path(), &remote);
    assert!(errors.contains("the token is wrong or has expired"), "{errors}");
}

#[test]
fn nodes_elsewhere_are_tasks_of_their_apis() {
    let directory = tempfile::tempdir().unwrap();
    let (_f, _, remote) = Elsewhere::start_as_f();
    let [a, b] = [(); 2].map(|()| Elsewhere::start(Settings::new()));
    let nodes = [
        &remote[..],
        &a.arguments("--node-a", "--token-file-a"),
        &b.arguments("--node-b", "--token-file-b"),
    ]
    .concat();
    let mut arguments: Vec<_> = nodes.iter().map(String::as_str).collect();
    arguments.extend(["--trials", "2", "--traffic", "both", "--verify", "--prefix-match"]);
    let run = headless(directory.path(), &arguments);
    assert_eq!(run["machine"]["node_a"], a.api.0, "{run}");
    assert_eq!(run["machine"]["node_b"], b.api.0, "{run}");
    let trials = run["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 2);
    for trial in trials {
        for direction in trial["directions"].as_array().unwrap() {
            let of = |name: &str| direction[name].as_f64().unwrap();
            assert!(of("data") > 100.0, "{trial}");
            assert_eq!(of("content_bytes"), of("data") * 4000.0);
            assert!(of("goodput_bit_per_s") > 0.0, "{trial}");
        }
        for node in ["a_us", "f_us", "b_us"] {
            let cpu = trial["cpu_per_data"][node].as_f64();
            assert!(cpu > Some(0.1) && cpu < Some(10_000.0), "{trial}");
        }
    }
    // Nothing is left running.
    for node in [&a, &b] {
        let tasks = node.tasks();
        assert_eq!(tasks.len(), 4, "{tasks:?}");
        let ended = |task: &String| task.ends_with("stopped") || task.ends_with("done");
        assert!(tasks.iter().all(ended), "{tasks:?}");
    }
    // One of them elsewhere, the other one here.
    let mut arguments: Vec<_> = nodes[..nodes.len() - 4].iter().map(String::as_str).collect();
    arguments.extend(["--trials", "1", "--traffic", "a-to-b"]);
    let run = headless(directory.path(), &arguments);
    assert!(run["trials"][0]["data_per_s"].as_f64() > Some(100.0), "{run}");
}

/// Serves a version that no program has to everybody who asks.
fn serve_version() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut request = [0; 4096];
            // The request is short.
            let _ = stream.read(&mut request);
            let body = "{\"data\": {\"version\": {\"version\": \"0.0.0-old\"}}}";
            let length = body.len();
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close";
            let _ = stream
                .write_all(format!("{head}\r\nContent-Length: {length}\r\n\r\n{body}").as_bytes());
        }
    });
    url
}

#[test]
fn nodes_elsewhere_that_cannot_be_used_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let (_f, _, remote) = Elsewhere::start_as_f();
    let node = Elsewhere::start(Settings::new());
    let tokens = node.forwarder.directory().join("http-tokens");
    let make = ["control", "token", "--name", "reader", "--role", "read", "--file"];
    let read = node.forwarder.output(&[&make[..], &[tokens.to_str().unwrap()]].concat());
    let wrong = directory.path().join("wrong");
    let file = wrong.display().to_string();
    let with = |token: &str, url: &str, letter: char| {
        fs::write(&wrong, token).unwrap();
        let own = [
            format!("--node-{letter}"),
            url.to_owned(),
            format!("--token-file-{letter}"),
            file.clone(),
        ];
        failed(directory.path(), &[&remote[..], &own].concat())
    };
    let (url, token) = &node.api;
    let old = serve_version();
    for (token, url, letter, reasons) in [
        ("0".repeat(64), url, 'a', ["node A", "the token is wrong or has expired"]),
        ("0".repeat(64), url, 'b', ["node B", "the token is wrong or has expired"]),
        (read.trim().to_owned(), url, 'a', ["node A", "admin is needed"]),
        (
            token.clone(),
            &"http://127.0.0.1:1".to_owned(),
            'b',
            ["node B", "the API at http://127.0.0.1:1"],
        ),
        (token.clone(), &old, 'a', ["node A", "that of Namewire 0.0.0-old"]),
    ] {
        let errors = with(&token, url, letter);
        assert!(reasons.iter().all(|reason| errors.contains(reason)), "{reasons:?}: {errors}");
        assert!(!errors.contains(&token), "{errors}");
    }
    assert!(node.tasks().is_empty(), "{:?}", node.tasks());
}

#[test]
fn transfers_take_turns_with_trials_over_the_same_nodes() {
    let directory = tempfile::tempdir().unwrap();
    let file = ["--producer", "files", "--file-mib", "16", "--payload", "8000", "--verify"];
    let rest = ["--transport", "udp", "--peers", "transfer", "--trials", "2"];
    let run = headless(directory.path(), &[&file[..], &rest].concat());
    let of = |trials: &Value| -> Vec<f64> {
        let trials = trials.as_array().unwrap().iter();
        trials.map(|trial| trial["goodput_bit_per_s"].as_f64().unwrap()).collect()
    };
    let own = of(&run["trials"]);
    for (place, client) in ["transfer-fetch", "transfer-get"].into_iter().enumerate() {
        let peers = run["peers"].as_array().unwrap();
        let transfers = peers.iter().find(|peer| peer["program"] == client).unwrap();
        let others = of(&transfers["trials"]);
        assert_eq!((own.len(), others.len()), (2, 2), "{run}");
        let mean = (own[0] / others[0] + own[1] / others[1]) / 2.0;
        let ratio = &run["ratios_to_transfers"][place];
        assert_eq!(ratio["over"], client, "{run}");
        let ratio = ratio["ratio"]["mean"].as_f64().unwrap();
        assert!((ratio / mean - 1.0).abs() < 1e-9 && ratio > 0.1 && ratio < 10.0, "{run}");
        for trial in transfers["trials"].as_array().unwrap() {
            let bytes = trial["directions"][0]["content_bytes"].as_u64().unwrap();
            assert!(bytes > 0 && bytes.is_multiple_of(16 << 20), "whole files: {trial}");
            assert!(trial["seconds"].as_f64() >= Some(1.0), "{trial}");
            assert!(trial["cpu_per_data"]["b_us"].as_f64() > Some(0.0), "{trial}");
        }
    }
}

#[test]
fn other_programs_take_the_place_of_the_forwarder() {
    let directory = tempfile::tempdir().unwrap();
    for (transport, verified) in [("tcp", None), ("udp", Some("--verify"))] {
        let arguments = ["--trials", "1", "--peers", "all", "--transport", transport];
        let run = headless(directory.path(), &[&arguments[..], verified.as_slice()].concat());
        assert_eq!(run["published_elsewhere"][0]["program"], "NDN-DPDK");
        for (place, program) in ["nfd", "ndnd"].into_iter().enumerate() {
            let peer = &run["peers"][place];
            assert_eq!(peer["program"], program);
            if namewire_tests::found_on_path(program) {
                let data = peer["trials"][0]["directions"][0]["data"].as_u64();
                assert!(data > Some(100), "{transport}: {peer}");
            } else {
                let reason = peer["reason"].as_str().unwrap();
                assert!(reason.contains("is not on PATH"), "{peer}");
            }
        }
    }
}

#[test]
fn unusable_benchmarks_are_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    for (arguments, reason) in [
        (&["--headless", "--trials", "0"][..], "trials: 0"),
        (&["--headless", "--delay-ms", "5"], "transport: udp"),
        (&["--headless", "--transport", "avian"], "unix"),
        (&["--headless", "--interests", "repeated"], "pairs"),
        (&["--headless", "--transport", "memif", "--peers", "all"], "no memif"),
        (&["--headless", "--peers", "transfer"], "file server"),
        (&["--headless", "--consumer", "get"], "producer: files"),
        (&["--node-a", "http://127.0.0.1:1"], "--token-file-a"),
        (&["--headless", "--export", "x.pdf"], "x.pdf"),
        (&["--trials", "2"], "--headless"),
        (&["--listen", "0.0.0.0:0"], "not a loopback address"),
    ] {
        let output = run_to_end(page(directory.path(), arguments));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && errors.contains(reason), "{arguments:?}: {errors}");
    }
}
