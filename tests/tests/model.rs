//! `namewire model`: sweeps have the same answers on threads, Slurm, Dask and Ray; bad input is refused with its place.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use namewire_tests::{program, run_to_end};
use serde_json::Value;

use crate::engines::{Slurm, python_with};

/// A forwarder of one worker near its capacity.
const MODEL: &str = r#"
[forwarder]
kind = "namewire"
workers = 1
[services]
input = { interest = "100 ns", data = "80 ns" }
forward = { interest = { exponential = "500 ns" }, data = { exponential = "400 ns" } }
output = { interest = "50 ns", data = "50 ns" }
produce = "1 us"
[[consumers]]
rate = "0.7 M/s"
prefixes = 20
[run]
horizon = "1 ms"
"#;

fn namewire(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.arg("model").args(arguments).current_dir(directory);
    command
}

/// A sweep over points some of which hold, fail and take many traces.
fn sweep(directory: &Path, more: &[&str]) -> Command {
    let mut command = namewire(directory, &["explore", "model.toml", "--json"]);
    command.args(["--property", "P(quantile(latency, 0.9) < 7 us) >= 0.9"]);
    command.args(["--vary", "forwarder.workers=1,2"]);
    command.args(["--vary", "consumers.0.rate=0.5 M/s,0.7 M/s,0.8 M/s"]).args(more);
    command
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn directory_with_model() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("model.toml"), MODEL).unwrap();
    directory
}

/// The answers of one thread.
fn expected(directory: &Path) -> Value {
    let answers = json(&run_to_end(sweep(directory, &["--threads", "1"])));
    let points = answers["points"].as_array().unwrap();
    let has = |verdict: &str| points.iter().any(|point| point["verdict"] == verdict);
    assert!(points.len() == 6 && has("holds") && has("fails"), "{answers}");
    let traces = |point: &Value| point["traces"].as_u64().unwrap();
    // Some points take several rounds of any engine.
    assert!(points.iter().any(|point| traces(point) > 300), "{answers}");
    answers
}

#[test]
fn verdicts_are_the_same_with_any_number_of_threads() {
    let directory = directory_with_model();
    let expected = expected(directory.path());
    for threads in ["2", "7"] {
        let answers = json(&run_to_end(sweep(directory.path(), &["--threads", threads])));
        assert_eq!(answers, expected, "{threads} threads");
    }
}

#[test]
fn slurm_gives_the_same_answers_as_threads() {
    let Some(slurm) = Slurm::start() else { return };
    let directory = directory_with_model();
    let tasks = directory.path().join("tasks with 'quotes'");
    fs::create_dir(&tasks).unwrap();
    let on_slurm = |more: &[&str]| {
        let mut command = sweep(directory.path(), &["--engine", "slurm", "--tasks"]);
        command.arg(&tasks).args(more).env("SLURM_CONF", slurm.configuration());
        run_to_end(command)
    };
    let output = on_slurm(&[]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(json(&output), expected(directory.path()));
    assert_eq!(fs::read_dir(&tasks).unwrap().count(), 0, "nothing is left of the tasks");
    // What sbatch refuses is reported in its words.
    let refused = on_slurm(&["--engine-argument=--partition=absent"]);
    let printed = String::from_utf8_lossy(&refused.stderr);
    assert!(printed.contains("invalid partition"), "{printed}");
    assert_eq!(refused.status.code(), Some(1));
}

fn assert_python_engine_agrees(engine: &str, package: &str) {
    let Some(python) = python_with(package) else { return };
    let directory = directory_with_model();
    let mut command = sweep(directory.path(), &["--engine", engine, "--python"]);
    command.arg(python);
    let output = run_to_end(command);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(json(&output), expected(directory.path()));
}

#[test]
fn dask_gives_the_same_answers_as_threads() {
    assert_python_engine_agrees("dask", "distributed");
}

#[test]
fn ray_gives_the_same_answers_as_threads() {
    assert_python_engine_agrees("ray", "ray");
}

#[test]
fn failing_engines_are_reported_with_their_reason() {
    let directory = directory_with_model();
    let failure = |more: &[&str]| {
        let output = run_to_end(sweep(directory.path(), more));
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let error = failure(&["--engine", "dask", "--python", "/absent/python"]);
    assert!(error.contains("/absent/python: No such file"), "{error}");
    let error = failure(&["--engine", "slurm", "--tasks", "/absent/directory"]);
    assert!(error.contains("/absent/directory: No such file"), "{error}");
    let error = failure(&["--engine-argument", "tcp://127.0.0.1:1"]);
    assert!(error.contains("--engine-argument is for"), "{error}");
}

#[test]
fn task_lists_of_other_versions_and_damaged_ones_are_refused() {
    let directory = directory_with_model();
    let list = directory.path().join("tasks.json");
    let failure = |text: &str| {
        fs::write(&list, text).unwrap();
        let output =
            run_to_end(namewire(directory.path(), &["run-tasks", "tasks.json", "--part", "0/1"]));
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let list = |version: &str, property: &str, count: u64| {
        serde_json::json!({
            "namewire": version, "model": MODEL, "property": property, "seed": 1,
            "tasks": [{ "changes": [], "first": 4, "count": count }],
        })
        .to_string()
    };
    let version = env!("CARGO_PKG_VERSION");
    for (text, reason) in [
        ("[]".to_owned(), "tasks.json: invalid"),
        (list("0.0.1", "P(all(satisfied))", 1), "the tasks are of namewire 0.0.1"),
        (list(version, "P(sometimes(satisfied))", 1), "tasks.json: "),
        (list(version, "P(all(satisfied))", u64::from(u32::MAX)), "too many traces"),
    ] {
        let error = failure(&text);
        assert!(error.contains(reason), "{error} is not {reason}");
    }
}

/// The share of arrivals that M/M/1/K loses, by a model checker: they see the time average, so that this is the share of
/// the time with K packets.
const STORMPY: &str = r#"
import stormpy, sys, tempfile
rate, places = float(sys.argv[1]), int(sys.argv[2])
text = f"""ctmc
module queue
 n : [0..{places}] init 0;
 <> n<{places} -> {rate!r} : (n'=n+1);
 <> n>0 -> 1.0 : (n'=n-1);
endmodule
label "full" = n={places};
"""
with tempfile.NamedTemporaryFile("w", suffix=".prism") as file:
    file.write(text)
    file.flush()
    program = stormpy.parse_prism_program(file.name)
formulas = stormpy.parse_properties('LRA=? ["full"]', program)
model = stormpy.build_model(program, formulas)
exact = stormpy.environments.exact()
result = stormpy.model_checking(model, formulas[0], environment=exact)
print(result.get_value(model.initial_states[0]))
"#;

/// M/M/1/10 at 90 % load: nine packets wait for a forwarding thread beside the one in service.
const QUEUE: &str = r#"
[forwarder]
kind = "ndn-dpdk"
queue-capacity = 9
bursts = [1, 1, 1]
[services]
input = { interest = "0 ns", data = "0 ns" }
forward = { interest = { exponential = "900 ns" }, data = "1 ps" }
output = { interest = "0 ns", data = "0 ns" }
[[consumers]]
interval = { exponential = "1 us" }
[run]
horizon = "21 ms"
warm-up = "1 ms"
"#;

#[test]
fn losses_of_a_queue_are_those_of_an_independent_model_checker() {
    let Some(python) = python_with("stormpy") else { return };
    let exact = |rate: &str, places: &str| -> f64 {
        let mut command = Command::new(&python);
        command.args(["-c", STORMPY, rate, places]);
        let output = run_to_end(command);
        let printed = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        printed.parse().unwrap_or_else(|_| panic!("{output:?}"))
    };
    let loss = exact("0.9", "10");
    assert!((loss - 0.050_813_731_3).abs() < 1e-9, "{loss}");
    let rare = exact("0.99", "1024");
    assert!((rare - 3.391_984e-7).abs() < 1e-12, "{rare}");
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("queue.toml"), QUEUE).unwrap();
    let property = ["check", "queue.toml", "--property", "E(share(dropped))", "--json"];
    let method = ["--method", "empirical-bernstein", "--traces", "500", "--bounds", "0,0.1"];
    let mut command = namewire(directory.path(), &property);
    command.args(method);
    let answer = json(&run_to_end(command));
    let end = |index: usize| answer["interval"][index].as_f64().unwrap();
    assert!((end(0)..=end(1)).contains(&loss), "{answer} does not contain {loss}");
    assert!(end(1) - end(0) < 0.01, "{answer}");
}

#[test]
fn rare_losses_are_estimated_by_splitting_over_a_queue() {
    let directory = tempfile::tempdir().unwrap();
    let text =
        QUEUE.replace("900 ns", "200 ns").replace("21 ms", "100 us").replace("1 ms", "20 us");
    // Too few replications for a narrow interval: tests of ndn-model compare such ones.
    fs::write(directory.path().join("queue.toml"), text).unwrap();
    let check = |more: &[&str]| {
        let mut command =
            namewire(directory.path(), &["check", "queue.toml", "--method", "splitting"]);
        command.args(["--property", "E(share(dropped))"]).args(more);
        run_to_end(command)
    };
    let run = ["--queue", "forwarding 0 interests", "--effort", "100", "--traces", "20", "--json"];
    let answer = json(&check(&run));
    // M/M/1/10 at 20 % load.
    let exact = 0.8 * 0.2f64.powi(10);
    let end = |index: usize| answer["interval"][index].as_f64().unwrap();
    assert!((end(0)..=end(1)).contains(&exact), "{answer} does not contain {exact:e}");
    assert!(answer["levels"].as_array().unwrap().len() > 3, "{answer}");
    assert_eq!(json(&check(&[&run[..], &["--threads", "7"]].concat())), answer);
    let failure = |more: &[&str]| {
        let output = check(more);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(failure(&[]).contains("needs --queue"));
    assert!(failure(&["--queue", "producer 0"]).contains("forwarding 0 interests"));
}

#[test]
fn consumers_with_a_window_are_checked_by_the_reference_engine() {
    let directory = tempfile::tempdir().unwrap();
    let text = MODEL.replace("rate = \"0.7 M/s\"", "arrivals = \"window\"\nwindow-max = 16");
    let text = text + "[links]\nproducer = { delay = \"10 us\" }\n";
    fs::write(directory.path().join("window.toml"), text).unwrap();
    let question = ["check", "window.toml", "--property", "P(all(satisfied)) >= 0.5"];
    let output = run_to_end(namewire(directory.path(), &question));
    assert!(output.status.success(), "{output:?}");
    let warned = String::from_utf8_lossy(&output.stderr);
    assert!(warned.contains("simulated by the reference engine"), "{warned}");
}
