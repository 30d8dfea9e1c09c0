//! `namewire bench access`, with a file of 16 MiB and few reads.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use namewire_tests::{Settings, bench_program};
use serde_json::Value;

#[test]
fn bench_access_measures_and_reports_what_is_missing() {
    bench_program();
    // Its forwarder is another one.
    let forwarder = Settings::new().start();
    let bench = |more: &[&str]| {
        let fixed = ["bench", "access", "--size", "16MiB", "--reads", "8", "--rounds", "1"];
        forwarder.json(&[&fixed[..], more].concat())
    };
    let report = bench(&["--filter", "core"]);
    let cases = report["cases"].as_array().unwrap();
    let patterns: Vec<_> = cases.iter().map(|case| case["pattern"].as_str().unwrap()).collect();
    assert_eq!(patterns, ["sequential", "random 4 KiB", "random 1 MiB", "columnar"]);
    let reads: Vec<_> = cases.iter().map(|case| case["reads"].as_u64().unwrap()).collect();
    assert_eq!(reads, [16, 8, 1, 2]);
    assert!(cases.iter().all(|case| case["mb_per_s"].as_f64().unwrap() > 0.0), "{report}");
    assert_eq!(report["missing"], Value::Array(Vec::new()));
    let report = bench(&["--filter", "python", "--python", "/nonexistent/python"]);
    assert_eq!(report["cases"], Value::Array(Vec::new()));
    assert_eq!(report["missing"][0]["way"], "python");
    assert_eq!(report["missing"][0]["reason"], "no Python has the modules namewire");
}
