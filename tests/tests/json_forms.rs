//! The JSON of commands has the fields of docs/reference/json.md, which this test generates.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Output;

use namewire_tests::{Endpoint, Settings, run_to_end, wait_until};
use serde_json::Value;

const HEAD: &str = "# JSON

Commands with `--json` print JSON on standard output. This page lists their fields; a test runs the commands and compares
(`make reference` generates the page).

- An object, and each object of a list, states the version of this form in `schema`, now 1. Fields may be added; if one is
  renamed, removed, or changes its meaning, the version increases. A list without elements is an empty array.
- A field has one name and one meaning in all commands. Its unit is the last word: `_ms`, `_us` (latencies and
  processor time of `traffic`), `_ns` (of times of day: since 1970), `_bytes`, `_packets`, `_percent`, `_per_s`; `bytes`
  alone is a size. A field without a unit is a count, a number such as `face_id`, or text.
- Names are NDN URIs. Fields that do not apply are `null`; `routes` of `face destroy` if they are not known: the forwarder does
  not report them, or has more than 10,000 routes.
- `face list` and `face show` also have faces that wait for their peer: `state` is `waiting`; `was_face_id`, `last_failure` and
  `next_attempt_ms` describe the wait; the other fields but `remote_uri` are `null`.
- If a command with `--json` fails, its last line on standard error is the object in [Failures](#failures), with the kind and
  the exit status. Unusable command lines are reported as text.
- `namewire run --log-format json` logs a line of JSON for each event: `time`, `level`, `module`, `message` and the fields of
  the event. It has no `schema`: events are added and changed.

`namewire control` prints the results of the [control protocol](control-protocol.md). In the tables, `[]` stands for the
elements of an array.
";

const ELSEWHERE_HEAD: &str = "## Other commands

| command | its JSON |
|---|---|
";

/// Commands whose JSON is described elsewhere.
const ELSEWHERE: &[(&[&str], &str)] = &[
    (
        &["workers", "limits", "ndt", "webtransport", "trace latency", "vip", "interfaces"],
        "results of the [control protocol](control-protocol.md), with [counters](counters.md)",
    ),
    (&["mount"], "an object with the fields `name` and `directory`"),
    (&["find"], "[Catalogues](../data/catalogue.md#publishing-and-searching)"),
    (&["gateway"], "an object with the fields `prefix` and `url`"),
    (&["traffic producer"], "at the end, counts by pattern as of `traffic consumer`"),
    (
        &["bench"],
        "the fields of each bench, on its page of [Benchmarks](../internals/benchmarks.md)",
    ),
    (&["model"], "[Capacity model](../model/reference.md)"),
    (&["lab", "cache"], "[Experiments](../lab/experiments.md)"),
];

/// The types of all fields, by their paths.
type Fields = BTreeMap<String, BTreeSet<&'static str>>;

fn collect(path: &str, value: &Value, fields: &mut Fields) {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "text",
        Value::Array(elements) => {
            if elements.is_empty() {
                fields.entry(format!("{path}[]")).or_default();
            }
            return elements.iter().for_each(|one| collect(&format!("{path}[]"), one, fields));
        }
        Value::Object(members) => {
            for (name, value) in members {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                collect(&path, value, fields);
            }
            return;
        }
    };
    fields.entry(path.to_owned()).or_default().insert(kind);
}

fn section(page: &mut String, title: &str, value: &Value) {
    let mut fields = Fields::new();
    collect("", value, &mut fields);
    let _ = write!(page, "\n## {title}\n\n| field | value |\n|---|---|\n");
    for (path, kinds) in fields {
        let kinds: Vec<_> = kinds.into_iter().collect();
        let kinds = if kinds.is_empty() { "nothing".to_owned() } else { kinds.join(" or ") };
        let _ = writeln!(page, "| `{path}` | {kinds} |");
    }
}

/// The commands that have the option `--json`, from their help.
fn commands_with_json(run: &dyn Fn(&[&str]) -> Output) -> Vec<String> {
    let reference = run(&["man", "--markdown"]).stdout;
    let reference = String::from_utf8(reference).unwrap();
    let headings = reference.lines().filter_map(|line| {
        let command = line.trim_start_matches('#').trim().strip_prefix("`namewire ")?;
        command.strip_suffix('`').map(str::to_owned)
    });
    let has_json = |command: &String| {
        let words: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        let help = run(&words).stdout;
        let help = String::from_utf8_lossy(&help);
        // Groups of commands have no output of their own.
        help.contains("--json") && !help.contains("\nCommands:\n")
    };
    headings.filter(has_json).collect()
}

/// Adds what servers print at the start, and the first line of commands that print one for each packet.
fn add_servers_and_streams(
    forwarder: &Endpoint,
    served: &Path,
    sections: &mut BTreeMap<String, Value>,
) {
    let content = served.join("file").display().to_string();
    for (title, arguments) in [
        ("put", &["put", "/object", &content][..]),
        ("serve", &["serve", served.to_str().unwrap(), "--prefix", "/more"]),
    ] {
        let mut server = forwarder.spawn(title, &[arguments, &["--json"]].concat());
        let printed = wait_until(title, || serde_json::from_str(&server.stdout()).ok());
        assert!(server.is_running());
        sections.insert(title.to_owned(), printed);
    }
    for (title, arguments) in [
        ("capture", &["capture", "--count", "1"][..]),
        ("trace packets", &["trace", "packets", "--count", "1"]),
    ] {
        let lines = forwarder.spawn("lines", &[arguments, &["--json"]].concat());
        let printed = wait_until(title, || {
            let _ = forwarder.run(&["ping", "/pings", "--count", "1"]);
            lines.stdout().lines().next().and_then(|line| serde_json::from_str(line).ok())
        });
        sections.insert(title.to_owned(), printed);
    }
}

/// The page of the reference.
fn page_of(sections: &BTreeMap<String, Value>, failure: &Value) -> String {
    let mut page = HEAD.to_owned();
    for (title, value) in sections {
        section(&mut page, &format!("`{title}`"), value);
    }
    let _ = write!(page, "\n{ELSEWHERE_HEAD}");
    for (commands, place) in ELSEWHERE {
        let commands: Vec<String> = commands.iter().map(|one| format!("`{one}`")).collect();
        let _ = writeln!(page, "| {} | {place} |", commands.join(", "));
    }
    section(&mut page, "Failures", failure);
    page
}

/// Whether the JSON of a command is described on another page.
fn is_elsewhere(command: &str) -> bool {
    let is_of = |one: &&str| command == *one || command.starts_with(&format!("{one} "));
    ELSEWHERE.iter().any(|(commands, _)| commands.iter().any(is_of))
}

#[test]
fn fields_of_json_are_those_of_the_reference() {
    let home = tempfile::tempdir().unwrap();
    let forwarder =
        Settings::new().workers(1).udp().argument("--log").argument("info").start_program();
    let run = |arguments: &[&str]| {
        let mut command = forwarder.command(arguments);
        command.env("HOME", home.path());
        run_to_end(command)
    };
    let served = forwarder.directory().join("served");
    fs::create_dir(&served).unwrap();
    fs::write(served.join("file"), "content").unwrap();
    fs::create_dir(served.join("directory")).unwrap();
    let mut server =
        forwarder.spawn("server", &["serve", served.to_str().unwrap(), "--prefix", "/files"]);
    server.wait_for_output("serving ");
    let mut pings = forwarder.spawn("pings", &["ping-server", "/pings"]);
    pings.wait_for_output("/pings");
    let path = |name: &str| forwarder.directory().join(name).display().to_string();
    let _ =
        forwarder.output(&["face", "create", "udp4://127.0.0.1:9", "--persistency", "permanent"]);
    let route = ["route", "add", "/route", "udp4://127.0.0.1:9", "--expires", "1h"];
    let certificate = path("certificate");
    fs::write(&certificate, run(&["key", "gen", "/me"]).stdout).unwrap();
    let (file, copy) = (path("file"), path("copy"));
    let (packet, config) = (path("packet"), path("namewire.toml"));
    fs::write(&config, "# The defaults.\n").unwrap();
    fs::write(&packet, run(&["peek", "/pings/ping/1", "--format", "packet"]).stdout).unwrap();
    let mut sections: BTreeMap<String, Value> = BTreeMap::new();
    let face = forwarder.json(&["face", "create", "udp4://127.0.0.1:11"]);
    let face = face["face_id"].to_string();
    let _ = forwarder.output(&["route", "add", "/destroyed", &face]);
    for arguments in [
        &["status"][..],
        &["face", "create", "udp4://127.0.0.1:10"],
        &["face", "update", &face, "--mtu", "1400B"],
        &["face", "destroy", &face],
        &route,
        &["route", "list"],
        &["route", "fib"],
        &["route", "remove", "/route", "udp4://127.0.0.1:9"],
        &["strategy", "list"],
        &["strategy", "known"],
        &["strategy", "set", "/files", "multicast"],
        &["strategy", "show", "/files"],
        &["strategy", "unset", "/files"],
        &["cs", "info"],
        &["cs", "config", "--capacity", "1000"],
        &["cs", "erase", "/pings"],
        &["ping", "/pings", "--count", "1"],
        &["peek", "/pings/ping/1"],
        &["ls", "/files"],
        &["get", "/files/file", "--output", &file],
        &["sync", "/files", &copy],
        &["dissect", &packet],
        &["log"],
        &["config", "reload"],
        &["config", "check", &config],
        &["key", "list"],
        &["cert", "dump", "--file", &certificate],
        &["traffic", "consumer", "/pings/ping", "--count", "1"],
    ] {
        let is_value =
            |word: &&&str| !word.starts_with(['/', '-']) && !word.contains("://") && **word != face;
        let title: Vec<&str> = arguments.iter().take(2).filter(is_value).copied().collect();
        let printed = run(&[arguments, &["--json"]].concat());
        let value = serde_json::from_slice(&printed.stdout);
        let value = value.unwrap_or_else(|error| panic!("{arguments:?}: {error}: {printed:?}"));
        sections.insert(title.join(" "), value);
    }
    let mut faces = forwarder.json(&["face", "list"]);
    // Counters by the reason of a drop are those of the reference of counters.
    faces.as_array_mut().unwrap().retain(|face| face["remote_uri"] == "udp4://127.0.0.1:9");
    faces[0]["link"] = Value::Null;
    let shown = faces[0]["face_id"].to_string();
    let mut shown = forwarder.json(&["face", "show", &shown]);
    shown["link"] = Value::Null;
    sections.insert("face show".to_owned(), shown);
    sections.insert("face list".to_owned(), faces);
    add_servers_and_streams(&forwarder, &served, &mut sections);
    let failed = forwarder.run(&["get", "/files/missing", "--output", &path("missing"), "--json"]);
    let printed = String::from_utf8(failed.stderr).unwrap();
    let failure: Value = serde_json::from_str(printed.lines().last().unwrap()).unwrap();
    assert_eq!(failure["failure"]["exit_status"], failed.status.code().unwrap(), "{printed}");
    let page = page_of(&sections, &failure);
    for command in commands_with_json(&run) {
        let is_covered = sections.contains_key(&command) || is_elsewhere(&command);
        assert!(is_covered, "`{command} --json` is not on the page");
    }

    let reference = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/json.md");
    if std::env::var_os("NAMEWIRE_WRITE_REFERENCE").is_some() {
        fs::write(&reference, &page).unwrap();
    }
    let written = fs::read_to_string(&reference).unwrap_or_default();
    let differing = page.lines().zip(written.lines()).find(|(now, before)| now != before);
    assert!(page == written, "{differing:?}: run `make reference` if that is intended");
}

#[test]
fn log_lines_are_json_if_that_is_configured() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("log");
    let to_file = format!("--log-file={}", file.display());
    let settings =
        Settings::new().workers(1).udp().argument("--log-format=json").argument(&to_file);
    let forwarder = settings.start_program();
    let _ = forwarder.output(&["face", "create", "udp4://127.0.0.1:9"]);
    let log = fs::read_to_string(&file).unwrap();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.len() > 1, "{log}");
    for line in &lines {
        for field in ["time", "level", "module", "message"] {
            assert!(line[field].is_string(), "{field}: {line}");
        }
    }
}
