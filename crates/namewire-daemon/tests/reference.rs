//! The generated parts of the reference pages equal the declarations in the code.
//!
//! A generated part stands between `<!-- generated: NAME -->` and `<!-- end -->`. `make reference` writes the parts
//! anew, by running this test with `NAMEWIRE_WRITE_REFERENCE` set.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

use ndn_dataplane::{ExchangeValues, QueueDepthValues, WorkerValues};
use ndn_face::{CallValues, FaceValues, LinkDropReason};
use ndn_forwarding::{DropReason, InterestAccount, ShardValues};
use ndn_ring::PoolValues;
use ndn_types::{CounterKind, CounterValues, DropReasonInfo};
use ndn_webtransport::WebTransportValues;

/// The generated parts of a page, by name.
type Parts = BTreeMap<&'static str, String>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn counters<T: CounterValues>() -> String {
    let mut table = "| name | unit | kind | meaning |\n|---|---|---|---|\n".to_owned();
    for info in T::declarations() {
        let kind = match info.kind {
            CounterKind::Monotone => "sum",
            CounterKind::Gauge => "now",
        };
        writeln!(table, "| `{}` | {} | {kind} | {} |", info.name, info.unit.name(), info.help)
            .unwrap();
    }
    table
}

fn drop_reasons(reasons: impl IntoIterator<Item = &'static DropReasonInfo>) -> String {
    let (mut page, mut stage) = (String::new(), "");
    for info in reasons {
        if info.stage != stage {
            let gap = if stage.is_empty() { "" } else { "\n" };
            stage = info.stage;
            writeln!(page, "{gap}### {stage}\n\n| reason | meaning |\n|---|---|").unwrap();
        }
        writeln!(page, "| `{}` | {} |", info.name, info.help).unwrap();
    }
    page
}

/// The page of counters: each type of values or reasons with its part.
fn counter_parts() -> Parts {
    let link_reasons = LinkDropReason::ALL.into_iter().map(LinkDropReason::info);
    BTreeMap::from([
        ("DropReason", drop_reasons(DropReason::ALL.into_iter().map(DropReason::info))),
        ("LinkDropReason", drop_reasons(link_reasons)),
        ("InterestAccount", counters::<InterestAccount>()),
        ("ShardValues", counters::<ShardValues>()),
        ("WorkerValues", counters::<WorkerValues>()),
        ("CallValues", counters::<CallValues>()),
        ("PoolValues", counters::<PoolValues>()),
        ("ExchangeValues", counters::<ExchangeValues>()),
        ("QueueDepthValues", counters::<QueueDepthValues>()),
        ("FaceValues", counters::<FaceValues>()),
        ("WebTransportValues", counters::<WebTransportValues>()),
    ])
}

/// Compares the generated parts of a page with `parts`, or writes them.
fn check_page(path: &str, mut parts: Parts) {
    let path = root().join(path);
    let page = std::fs::read_to_string(&path).unwrap();
    let mut written = String::new();
    let mut rest = page.as_str();
    while let Some((before, after)) = rest.split_once("<!-- generated: ") {
        let (name, after) = after.split_once(" -->").unwrap();
        let (_, after) = after.split_once("<!-- end -->").unwrap();
        let part = parts.remove(name).unwrap_or_else(|| panic!("the code has no {name}"));
        write!(written, "{before}<!-- generated: {name} -->\n\n{part}\n<!-- end -->").unwrap();
        rest = after;
    }
    written += rest;
    assert!(parts.is_empty(), "{} has no part {:?}", path.display(), parts.keys());
    if std::env::var_os("NAMEWIRE_WRITE_REFERENCE").is_some() {
        std::fs::write(&path, written).unwrap();
    } else {
        assert!(page == written, "{} is out of date: run `make reference`", path.display());
    }
}

#[test]
fn page_of_counters_equals_the_declarations() {
    check_page("docs/reference/counters.md", counter_parts());
}

/// The Rust sources of the crates, without the macros themselves and their tests.
fn sources() -> Vec<(PathBuf, String)> {
    let mut folders: Vec<PathBuf> = std::fs::read_dir(root().join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().path().join("src"))
        .filter(|folder| folder.is_dir())
        .collect();
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs")
                && !path.ends_with("ndn-types/src/counter.rs")
            {
                let text = std::fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
    }
    found
}

#[test]
fn every_declaration_of_counters_is_on_the_page() {
    let listed: BTreeSet<&str> = counter_parts().into_keys().collect();
    let mut declared = BTreeSet::new();
    for (_, text) in sources() {
        let macros = ["ndn_types::counters! {", "counter_values! {", "drop_reasons! {"];
        for part in macros.iter().flat_map(|name| text.split(name).skip(1)) {
            let line = part.lines().find(|line| line.trim().starts_with("pub ")).unwrap();
            let name = line.trim_end_matches(" {").split(' ').next_back().unwrap().to_owned();
            declared.insert(name);
        }
    }
    let declared: BTreeSet<&str> = declared.iter().map(String::as_str).collect();
    assert_eq!(declared, listed);
}

/// Fields that are counters by type only: times, and what is shown in another form.
const UNDECLARED: [&str; 10] = [
    "last_received_ns",
    "latest_expiry_ns",
    "waiting_since_ns",
    // `ServiceTimes`: `namewire trace latency`.
    "bursts",
    "interests",
    "nanos",
    "sum_ns",
    // `ChannelCounters`: each socket for itself. The workers count the same in total.
    "kernel_drops",
    "no_face",
    "receive_errors",
];

#[test]
fn every_counter_is_declared() {
    for (path, text) in sources() {
        for line in text.lines().map(str::trim) {
            let Some(field) = line.strip_suffix(": Counter,") else { continue };
            let field = field.trim_start_matches("pub ").trim_start_matches("pub(crate) ");
            let is_channel = path.ends_with("ndn-face/src/counters.rs")
                && ["receive_calls", "send_calls"].contains(&field);
            let is_known = UNDECLARED.contains(&field) || is_channel;
            assert!(is_known, "{}: declare {field} with `counters!`", path.display());
        }
    }
}

#[test]
fn names_of_a_worker_are_distinct() {
    let all = [
        ShardValues::declarations(),
        WorkerValues::declarations(),
        CallValues::declarations(),
        PoolValues::declarations(),
        ExchangeValues::declarations(),
    ];
    let mut names: Vec<&str> = all.iter().flatten().map(|info| info.name).collect();
    let others = ["burst_sizes", "node", "crossings_dropped", "dropped", "drops", "interests"];
    names.extend(others.into_iter().chain(["queued_data", "queued_nacks", "queued_interests"]));
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
}

#[test]
fn page_of_the_control_protocol_lists_every_request() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    let source = read("crates/namewire-control/src/protocol.rs");
    let (_, requests) = source.split_once("pub enum Request {").unwrap();
    let (requests, _) = requests.split_once("\n}\n").unwrap();
    let names = requests.split("rename = \"").skip(1).map(|rest| rest.split('"').next().unwrap());
    let declared: BTreeSet<&str> = names.collect();
    let page = read("docs/reference/control-protocol.md");
    let (_, methods) = page.split_once("## Methods").unwrap();
    let rows = methods.lines().filter_map(|line| line.strip_prefix("| `"));
    let listed: BTreeSet<&str> = rows.map(|row| row.split('`').next().unwrap()).collect();
    assert_eq!(declared, listed);
}
