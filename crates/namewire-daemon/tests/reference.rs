//! The generated parts of the reference pages equal the declarations in the code.
//!
//! A generated part stands between `<!-- generated: NAME -->` and `<!-- end -->`. `make reference` writes the parts
//! anew, by running this test with `NAMEWIRE_WRITE_REFERENCE` set.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

use namewire_control::{
    FieldInfo, MemifRefusal, REQUESTS, RESULTS, ResultInfo, SERVICE_TIMES_RESULTS,
};
use namewire_http::HttpValues;
use ndn_dataplane::{ExchangeValues, QueueDepthValues, WorkerValues};
use ndn_disk::DiskValues;
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
        ("MemifRefusal", drop_reasons(MemifRefusal::ALL.into_iter().map(MemifRefusal::info))),
        ("InterestAccount", counters::<InterestAccount>()),
        ("ShardValues", counters::<ShardValues>()),
        ("WorkerValues", counters::<WorkerValues>()),
        ("CallValues", counters::<CallValues>()),
        ("PoolValues", counters::<PoolValues>()),
        ("ExchangeValues", counters::<ExchangeValues>()),
        ("QueueDepthValues", counters::<QueueDepthValues>()),
        ("DiskValues", counters::<DiskValues>()),
        ("FaceValues", counters::<FaceValues>()),
        ("WebTransportValues", counters::<WebTransportValues>()),
        ("HttpValues", counters::<HttpValues>()),
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
        let text = text.split("#[cfg(test)]").next().unwrap();
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
const UNDECLARED: [&str; 11] = [
    "last_received_ns",
    "latest_expiry_ns",
    "latest_renewed_expiry_ns",
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
    let others = ["burst_sizes", "node", "ring_full", "dropped", "drops", "interests", "disk"];
    names.extend(others.into_iter().chain(["queued_data", "queued_nacks", "queued_interests"]));
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
}

/// A type of the control protocol in JSON; structures are links to their sections.
fn json_type(of: &str) -> String {
    if let Some(item) = of.strip_prefix("Vec<").and_then(|rest| rest.strip_suffix('>')) {
        return format!("array of {}", json_type(item));
    }
    if let Some(item) = of.strip_prefix("Option<").and_then(|rest| rest.strip_suffix('>')) {
        return format!("{} or null", json_type(item));
    }
    if let Some(value) = of.strip_prefix("BTreeMap<").and_then(|rest| rest.strip_suffix('>')) {
        let (_, value) = value.split_once(", ").unwrap();
        return format!("object of {}", json_type(value));
    }
    match of {
        "u8" | "u16" | "u32" | "u64" | "usize" => "number".to_owned(),
        "bool" => "boolean".to_owned(),
        "String" | "Name" | "Vec<u8>" | "LogSeverity" => "string".to_owned(),
        "CapturedKinds" => "array of string".to_owned(),
        "[u64; BURST_SIZE_CLASSES]" => "array of number".to_owned(),
        _ if of.ends_with("Values") || of == "InterestAccount" => {
            format!("[{of}](counters.md)")
        }
        _ => format!("[{of}](#{}-object)", of.to_lowercase()),
    }
}

fn results() -> impl Iterator<Item = &'static ResultInfo> {
    RESULTS.iter().chain(SERVICE_TIMES_RESULTS)
}

fn fields(page: &mut String, heading: &str, fields: &[FieldInfo]) {
    writeln!(page, "\n| {heading} | type | meaning |\n|---|---|---|").unwrap();
    for field in fields {
        let name =
            if field.is_flat { "the fields of".to_owned() } else { format!("`{}`", field.name) };
        // Base64, which is a string in JSON.
        let of = if field.of == "Vec<u8>" { "string".to_owned() } else { json_type(field.of) };
        writeln!(page, "| {name} | {of} | {} |", field.help).unwrap();
    }
}

/// The page of the control protocol: the requests, and the structures of their results.
fn protocol_parts() -> Parts {
    let (mut requests, mut structures) = (String::new(), String::new());
    for (index, request) in REQUESTS.iter().enumerate() {
        let gap = if index == 0 { "" } else { "\n" };
        writeln!(requests, "{gap}### `{}`\n\n{}", request.method, request.help).unwrap();
        let result = request.result.map(|of| format!("Result: {}. ", json_type(of)));
        let result = result.unwrap_or_default();
        writeln!(requests, "{result}Used by {}.", request.used_by).unwrap();
        if !request.parameters.is_empty() {
            fields(&mut requests, "parameter", request.parameters);
        }
    }
    for (index, result) in results().enumerate() {
        let gap = if index == 0 { "" } else { "\n" };
        writeln!(structures, "{gap}### {} object\n\n{}", result.name, result.help).unwrap();
        fields(&mut structures, "field", result.fields);
    }
    BTreeMap::from([("requests", requests), ("results", structures)])
}

#[test]
fn page_of_the_control_protocol_equals_the_declarations() {
    check_page("docs/reference/control-protocol.md", protocol_parts());
}

#[test]
fn every_structure_of_the_control_protocol_is_on_the_page() {
    let listed: BTreeSet<String> =
        results().map(|result| format!("#{}-object", result.name.to_lowercase())).collect();
    let page = protocol_parts().into_values().collect::<String>();
    let links = page.split("](").skip(1).map(|rest| rest.split(')').next().unwrap());
    let links: BTreeSet<String> =
        links.filter(|link| link.starts_with('#')).map(str::to_owned).collect();
    assert_eq!(links, listed);
}
