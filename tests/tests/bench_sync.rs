//! `namewire bench sync`, with a small tree.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use namewire_tests::{Settings, bench_program, skip_unless_found};

#[test]
fn bench_sync_compares_copies_with_those_of_rsync() {
    if !skip_unless_found("rsync") {
        return;
    }
    bench_program();
    // Its forwarder is another one.
    let forwarder = Settings::new().start();
    let fixed = ["bench", "sync", "--files", "60", "--size", "300KiB", "--rounds", "1", "--rules"];
    let report = forwarder.json(&fixed);
    assert_eq!(report["rules"], true, "{report}");
    let cases = report["cases"].as_array().unwrap();
    let of_rsync = cases.iter().filter(|case| case["program"] == "rsync");
    let steps: Vec<_> = of_rsync.clone().map(|case| case["step"].as_str().unwrap()).collect();
    let expected = ["first copy", "second copy", "one changed file", "one renamed directory"];
    assert_eq!(steps, expected);
    for case in of_rsync {
        let [ratio, own, other] = [&case["ratio"], &case["namewire_s"][0], &case["program_s"][0]]
            .map(|value| value.as_f64().unwrap_or_else(|| panic!("{case}")));
        assert!((ratio - other / own).abs() < 1e-9, "{case}");
    }
}
