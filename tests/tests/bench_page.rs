//! The benchmark page in a browser and without one: A–F–B with real processes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use namewire_tests::{
    Process, Settings, bench_program, browser_found, run_to_end, skip_unless_file,
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
    for producer in ["generator", "files"] {
        let arguments = ["--transport", "veth", "--trials", "1", "--traffic", "both"];
        let files = ["--producer", producer, "--file-mib", "16"];
        let run = headless(directory.path(), &[&arguments[..], &files].concat());
        for direction in run["trials"][0]["directions"].as_array().unwrap() {
            assert!(direction["data"].as_u64() > Some(100), "{run}");
        }
    }
}

#[test]
fn forwarder_elsewhere_is_measured_by_its_api() {
    let settings = Settings::new().udp().toml("[management]\nlocalhop_rib = \"any\"");
    let forwarder = settings.argument("--http=127.0.0.1:0").start_program();
    let announced = forwarder.process.stdout();
    let (_, api) = announced.split_once("HTTP API: ").unwrap();
    let tokens = forwarder.directory().join("http-tokens");
    let token = forwarder.output(&["control", "token", "--file", tokens.to_str().unwrap()]);
    let file = forwarder.directory().join("token");
    fs::write(&file, token).unwrap();
    let address = format!("udp://127.0.0.1:{}", forwarder.port());
    let remote = ["--forwarder", &address, "--api", api.lines().next().unwrap(), "--token-file"];
    let rest = [file.to_str().unwrap(), "--transport", "udp", "--trials", "2", "--traffic", "both"];
    let run = headless(forwarder.directory(), &[&remote[..], &rest].concat());
    assert_eq!(run["machine"]["forwarder"], address.as_str(), "{run}");
    for trial in run["trials"].as_array().unwrap() {
        assert!(trial["data_per_s"].as_f64() > Some(100.0), "{trial}");
        let cpu = trial["cpu_per_data"]["f_us"].as_f64();
        assert!(cpu > Some(0.1) && cpu < Some(10_000.0), "{trial}");
    }
    fs::write(&file, "0".repeat(64)).unwrap();
    let refused =
        run_to_end(page(forwarder.directory(), &[&["--headless"][..], &remote, &rest].concat()));
    let errors = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && errors.contains("401"), "{errors}");
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
        (&["--headless", "--export", "x.pdf"], "x.pdf"),
        (&["--trials", "2"], "--headless"),
        (&["--listen", "0.0.0.0:0"], "not a loopback address"),
    ] {
        let output = run_to_end(page(directory.path(), arguments));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && errors.contains(reason), "{arguments:?}: {errors}");
    }
}
