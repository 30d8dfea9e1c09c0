//! `namewire lab`: experiments that start programs, are killed, continue, and are reported.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use namewire_tests::{
    Process, ended_by_hangup, program, run_to_end, skip, skip_unless_found, wait_until,
};
use rustix::process::Signal;
use serde_json::Value;

use crate::engines::{Slurm, python_with};

/// A directory with an experiment whose runs start `run.sh`.
struct Bench {
    directory: tempfile::TempDir,
}

const SCRIPT: &str = r#"#!/bin/sh
input=$(cat)
echo "$input" >> inputs
echo "TMPDIR of a run: $TMPDIR" >&2
. ./body
"#;

impl Bench {
    /// `body` is the part of the script that measures; `extra` belongs to the experiment file.
    fn new(body: &str, extra: &str) -> Self {
        let bench = Self { directory: tempfile::tempdir().unwrap() };
        fs::create_dir(bench.path("tmp")).unwrap();
        fs::write(bench.path("run.sh"), SCRIPT).unwrap();
        bench.set_body(body);
        let text = format!(
            "name = \"speed\"\nseed = 3\n[factors]\nsize = [1, 10]\nmode = [\"slow\", \"fast\"]\n[responses]\n\
             rate = \"1/s\"\n[executor]\nkind = \"command\"\ncommand = [\"sh\", \"run.sh\", \"{{size}}\", \"{{mode}}\"]\n\
             environment = {{ MODE = \"{{mode}}\" }}\n{extra}"
        );
        fs::write(bench.path("speed.toml"), text).unwrap();
        bench
    }

    fn set_body(&self, body: &str) {
        fs::write(self.path("body"), body).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.arg("lab").args(arguments).current_dir(self.directory.path());
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.path("bin").display()));
        command.env("TMPDIR", self.path("tmp"));
        command
    }

    fn run(&self, arguments: &[&str]) -> std::process::Output {
        run_to_end(self.command(arguments))
    }

    /// Standard output of a command that must succeed.
    fn printed(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.printed(arguments)).unwrap()
    }

    /// Asserts that a command fails with this status and this text.
    fn refused(&self, arguments: &[&str], status: i32, text: &str) {
        let output = self.run(arguments);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{message}");
        assert!(message.contains(text), "{message}");
    }

    /// Lines of `runs.csv` without the times, in order.
    fn rows(&self) -> Vec<String> {
        self.printed(&["report", "speed.sqlite"]);
        let text = fs::read_to_string(self.path("speed-report/runs.csv")).unwrap();
        let head: Vec<&str> = text.lines().next().unwrap().split(',').collect();
        let is_time = |column: usize| head[column].ends_with("_ms");
        let row = |line: &str| {
            let fields = line.split(',').enumerate().filter(|(column, _)| !is_time(*column));
            fields.map(|(_, field)| field).collect::<Vec<_>>().join(",")
        };
        text.lines().map(row).collect()
    }

    /// Number of processes whose environment names the directory of temporary files, and of files in it.
    fn leftovers(&self) -> usize {
        self.left_processes().len() + fs::read_dir(self.path("tmp")).unwrap().count()
    }

    /// Directories in `/proc` of the processes that belong to runs.
    fn left_processes(&self) -> Vec<PathBuf> {
        let mark = self.path("tmp").display().to_string();
        let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        let is_own = |process: &PathBuf| {
            let environment = fs::read(process.join("environ")).unwrap_or_default();
            String::from_utf8_lossy(&environment).contains(&mark)
        };
        processes.filter(is_own).collect()
    }

    /// Waits until there are no leftovers. Agents on other hosts end when their connection has ended, after what they are at.
    fn await_no_leftovers(&self) {
        let deadline = namewire_tests::now() + Duration::from_secs(90);
        while self.leftovers() > 0 {
            assert!(namewire_tests::now() < deadline, "these stay: {}", self.left());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Describes the leftovers.
    fn left(&self) -> String {
        let mut text = String::new();
        for process in self.left_processes() {
            text.push_str(&format!("\n{}", process.display()));
            for name in ["cmdline", "stat", "wchan", "stack", "environ"] {
                let content = fs::read(process.join(name)).unwrap_or_default();
                let content = String::from_utf8_lossy(&content).replace('\0', " ");
                text.push_str(&format!("\n  {name}: {}", content.trim_end()));
            }
        }
        let mut directories = vec![self.path("tmp")];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
                text.push_str(&format!("\n{}", entry.path().display()));
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    directories.push(entry.path());
                }
            }
        }
        text
    }
}

/// Responses are exact, so a run that is repeated gives the same.
const MEASURE: &str = r#"
case $2 in fast) rate=30 ;; *) rate=10 ;; esac
test "$MODE" = "$2" || exit 7
seed=$(echo "$input" | sed 's/.*"seed":\([0-9]*\).*/\1/')
echo "a line that is no response"
echo "{\"rate\": $((rate * $1 + seed % 7)), \"host\": \"text\"}"
"#;

#[test]
fn experiment_is_performed_analysed_and_reported() {
    let bench = Bench::new(MEASURE, "[design]\nreplications = 3\n");
    let plan = bench.json(&["check", "speed.toml", "--json"]);
    assert_eq!(plan["runs"].as_array().unwrap().len(), 12, "{plan}");
    bench.printed(&["run", "speed.toml"]);
    // Each run read its cell and seed.
    let inputs = fs::read_to_string(bench.path("inputs")).unwrap();
    let inputs: Vec<Value> =
        inputs.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (input, run) in inputs.iter().zip(plan["runs"].as_array().unwrap()) {
        assert_eq!(input["factors"], run["levels"], "{input}");
        assert_eq!(input["seed"], run["seed"], "{input}");
    }
    let shown = bench.printed(&["analyse", "speed.sqlite"]);
    let [title, heading] = shown.lines().take(2).collect::<Vec<_>>()[..] else { panic!("{shown}") };
    assert!(title.starts_with("rate") && title.ends_with(':'), "{shown}");
    assert!(heading.starts_with("EFFECT"), "{shown}");
    let found = bench.json(&["analyse", "speed.sqlite", "--json"]);
    let effects = found[0]["effects"]["effects"].as_array().unwrap();
    let shown: Vec<&str> = effects
        .iter()
        .filter(|effect| effect["matters"] == true)
        .map(|effect| effect["effect"].as_str().unwrap())
        .collect();
    assert_eq!(shown, ["size", "mode", "size × mode"], "{found}");
    assert_eq!(bench.rows().len(), 13);
    let page = fs::read_to_string(bench.path("speed-report/report.html")).unwrap();
    for part in ["10 instead of 1 raises the mean of rate", "<svg", "namewire lab run speed.toml"] {
        assert!(page.contains(part), "{part}");
    }
    let listed = bench.printed(&["list"]);
    assert!(listed.contains("speed.sqlite"), "{listed}");
    assert_eq!(bench.leftovers(), 0, "{}", bench.left());
    bench.refused(&["run", "speed.toml"], 2, "speed.sqlite exists: `namewire lab resume`");
}

/// Parquet is read by the library that others use: it has the rows and types of the comma-separated values.
#[test]
fn raw_data_is_read_by_pandas() {
    let Some(python) = python_with("pyarrow") else { return };
    let bench = Bench::new(&format!("test $2 = slow || exit 3\n{MEASURE}"), "");
    bench.refused(&["run", "speed.toml"], 1, "2 of 4 runs failed");
    bench.printed(&["report", "speed.sqlite"]);
    let script = "import pandas, sys\n\
        text = {'size': str, 'mode': str}\n\
        expected = pandas.read_csv('speed-report/runs.csv', dtype=text)\n\
        found = pandas.read_parquet('speed-report/runs.parquet')\n\
        pandas.testing.assert_frame_equal(found, expected, check_dtype=False)\n\
        print(*(str(kind) for kind in found.dtypes))\n";
    let mut command = Command::new(python);
    command.args(["-c", script]).current_dir(bench.directory.path());
    let output = run_to_end(command);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(printed.contains("int64 int64 int64 int64 int64 float64"), "{printed}");
}

/// SIGKILL at 20 points; the last ones meet a run that waits.
#[test]
fn killed_experiment_continues_without_lost_or_doubled_runs() {
    let whole = Bench::new(MEASURE, "[design]\nreplications = 8\n");
    whole.printed(&["run", "speed.toml", "--jobs", "2"]);
    let killed = Bench::new(MEASURE, "[design]\nreplications = 8\n");
    for number in 0..20_usize {
        let arguments = match number {
            0 => &["run", "speed.toml", "--jobs", "2"][..],
            _ => &["resume", "speed.sqlite", "--jobs", "2"],
        };
        // The run at which it is killed does not end, and has programs of its own.
        let marker = killed.path("reached");
        let _ = fs::remove_file(&marker);
        killed.set_body(&format!(
            "{MEASURE}\nif test $(wc -l < inputs) -ge {}; then setsid sleep 1000 & touch reached; sleep 1000; fi\n",
            number + 1 + number % 3
        ));
        let mut process = Process::start("lab", killed.command(arguments), killed.directory.path());
        wait_until("a run that waits", || {
            assert!(process.is_running(), "{}", process.everything());
            marker.exists().then_some(())
        });
        process.signal(Signal::KILL);
        process.wait();
        assert!(killed.leftovers() > 0, "the next start has nothing to end");
    }
    killed.set_body(MEASURE);
    killed.printed(&["resume", "speed.sqlite"]);
    let sorted = |bench: &Bench| {
        let mut rows = bench.rows();
        rows.sort();
        rows
    };
    assert_eq!(sorted(&killed), sorted(&whole));
    assert_eq!(killed.leftovers(), 0, "{}", killed.left());
}

/// Runs an experiment on another engine, and compares the results with those of this process.
fn assert_engine_agrees(arguments: &[&str], configuration: Option<&Path>) {
    let sorted = |bench: &Bench| {
        let mut rows = bench.rows();
        rows.sort();
        rows
    };
    let here = Bench::new(MEASURE, "[design]\nreplications = 3\n");
    here.printed(&["run", "speed.toml"]);
    let there = Bench::new(MEASURE, "[design]\nreplications = 3\n");
    let run = |what: &[&str]| {
        let mut command = there.command(&[what, arguments].concat());
        if let Some(path) = configuration {
            command.env("SLURM_CONF", path);
        }
        run_to_end(command)
    };
    // Runs fail at first where one of the factors has this level.
    there.set_body(&format!("test $1 = 1 || exit 3\n{MEASURE}"));
    let output = run(&["run", "speed.toml"]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("6 of 12 runs failed"), "{message}");
    assert!(message.contains("12/12, 0 ms left"), "{message}");
    there.set_body(MEASURE);
    let output = run(&["resume", "speed.sqlite", "--failed"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(sorted(&there), sorted(&here));
    // Nothing is left to do.
    assert!(run(&["resume", "speed.sqlite"]).status.success());
    assert_eq!(there.leftovers(), 0);
}

#[test]
fn slurm_performs_the_runs_of_an_experiment() {
    let Some(slurm) = Slurm::start() else { return };
    assert_engine_agrees(&["--engine", "slurm"], Some(&slurm.configuration()));
}

#[test]
fn dask_performs_the_runs_of_an_experiment() {
    let Some(python) = python_with("distributed") else { return };
    assert_engine_agrees(&["--engine", "dask", "--python", python.to_str().unwrap()], None);
}

#[test]
fn runs_on_another_engine_that_cannot_start_are_left_for_later() {
    let bench = Bench::new(MEASURE, "");
    let failing = ["--engine", "dask", "--python", "/absent/python"];
    bench.refused(
        &[&["run", "speed.toml"][..], &failing].concat(),
        1,
        "/absent/python: No such file",
    );
    bench.printed(&["resume", "speed.sqlite"]);
    assert_eq!(bench.rows().len(), 5);
}

#[test]
fn interrupted_experiment_leaves_nothing_behind() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let bench = Bench::new("setsid sleep 1000 & touch reached; sleep 1000", "");
        let command = ended_by_hangup(&bench.command(&["run", "speed.toml"]));
        let mut process = Process::start("lab", command, bench.directory.path());
        wait_until("a run", || bench.path("reached").exists().then_some(()));
        process.signal(signal);
        assert_eq!(process.wait().code(), Some(130), "{}", process.everything());
        assert!(process.stderr().contains("lab resume speed.sqlite` continues"));
        bench.await_no_leftovers();
        // The run that was interrupted is not stored as one that failed.
        bench.set_body(MEASURE);
        bench.printed(&["resume", "speed.sqlite"]);
        bench.printed(&["analyse", "speed.sqlite"]);
    }
}

/// A limit on the size of files stands for a disk that is full: what was stored before stays, and the rest is done once there is
/// room.
#[test]
fn full_disk_ends_the_experiment_without_a_loss() {
    let bench = Bench::new(MEASURE, "[design]\nreplications = 1\n");
    bench.printed(&["run", "speed.toml"]);
    let text = fs::read_to_string(bench.path("speed.toml")).unwrap();
    let set = |name: &str, replications: u64| {
        let text = text.replace("replications = 1", &format!("replications = {replications}"));
        fs::write(bench.path(name), text).unwrap();
    };
    set("more.toml", 400);
    let command = bench.command(&["resume", "speed.sqlite", "--experiment", "more.toml"]);
    let blocks = (fs::metadata(bench.path("speed.sqlite")).unwrap().len() + 4096) / 512;
    let mut limited = Command::new("sh");
    // SIGXFSZ would end the program.
    limited.args(["-c", &format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$@\""), "sh"]);
    limited.arg(command.get_program()).args(command.get_args());
    limited.current_dir(bench.directory.path());
    limited.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = run_to_end(limited);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    let expected =
        "runs that ended before are stored, and `namewire lab resume speed.sqlite` continues";
    assert!(message.contains(expected), "{message}");
    assert_eq!(bench.leftovers(), 0, "{}", bench.left());
    let stored = bench.json(&["list", "--json"])[0]["runs"].as_u64().unwrap();
    assert!((5..1600).contains(&stored), "{stored}");
    let replications = stored / 4 + 2;
    set("less.toml", replications);
    bench.printed(&["resume", "speed.sqlite", "--experiment", "less.toml"]);
    assert_eq!(bench.rows().len() as u64, 1 + 4 * replications);
}

#[test]
fn failed_runs_are_kept_with_their_output_and_repeated() {
    let body = format!("test $2 = slow || {{ echo 'no such mode' >&2; exit 3; }}\n{MEASURE}");
    let bench = Bench::new(&body, "");
    bench.refused(&["run", "speed.toml"], 1, "2 of 4 runs failed");
    let listed = bench.printed(&["list", "--failed", "speed.sqlite"]);
    for part in
        ["size=10 mode=fast, replication 1: exit status: 3: no such mode", "TMPDIR of a run"]
    {
        assert!(listed.contains(part), "{part}: {listed}");
    }
    bench.refused(&["analyse", "speed.sqlite"], 2, "the cell size=1 mode=fast has no response");
    bench.printed(&["resume", "speed.sqlite"]);
    bench.set_body(MEASURE);
    bench.printed(&["resume", "--failed", "speed.sqlite"]);
    assert_eq!(bench.rows().len(), 5);
    bench.printed(&["analyse", "speed.sqlite"]);
}

#[test]
fn runs_without_a_number_or_an_end_fail() {
    let budget = "[budget]\nrun-time = \"200ms\"\n";
    for (body, reason) in [
        ("sleep 1000", "did not end within 200ms"),
        ("echo text", "expected a JSON object of numbers"),
        ("true", "it printed nothing"),
        ("echo '{\"speed\": 1}'", "no response 'rate'"),
        ("echo '{\"rate\": \"fast\"}'", "no response 'rate'"),
        ("kill -9 $$", "signal: 9"),
    ] {
        let bench = Bench::new(body, budget);
        bench.refused(&["run", "speed.toml"], 1, "4 of 4 runs failed");
        let listed = bench.printed(&["list", "--failed", "speed.sqlite"]);
        assert!(listed.contains(reason), "{body}: {listed}");
        assert_eq!(bench.leftovers(), 0, "{body}");
    }
}

#[test]
fn results_of_other_experiments_and_other_processes_are_refused() {
    let bench = Bench::new(MEASURE, "");
    bench.printed(&["run", "speed.toml"]);
    let text = fs::read_to_string(bench.path("speed.toml")).unwrap();
    let write = |name: &str, from: &str, to: &str| {
        assert!(text.contains(from));
        fs::write(bench.path(name), text.replace(from, to)).unwrap();
    };
    write("other.toml", "[1, 10]", "[1, 20]");
    let other = ["resume", "speed.sqlite", "--experiment", "other.toml"];
    bench.refused(&other, 2, "factors differs from the experiment in speed.sqlite");
    // More replications are the same experiment.
    write("more.toml", "[executor]", "[design]\nreplications = 2\n[executor]");
    bench.printed(&["resume", "speed.sqlite", "--experiment", "more.toml"]);
    assert_eq!(bench.rows().len(), 9);
    fs::write(bench.path("text.sqlite"), "text").unwrap();
    bench.refused(&["report", "text.sqlite"], 2, "is not a database of results");
    for command in ["analyse", "list", "report"] {
        bench.refused(
            &[command, "speed.toml"],
            2,
            "it is an experiment: `namewire lab run` writes",
        );
    }
    bench.refused(&["resume", "absent.sqlite"], 2, "absent.sqlite: No such file");
    write("wrong.toml", "kind = \"command\"", "kind = \"comand\"");
    bench.refused(&["check", "wrong.toml"], 2, "wrong.toml: line 9: executor.kind: unknown kind");
    write("absent.toml", "\"sh\"", "\"no-such-program\"");
    bench.refused(
        &["check", "absent.toml"],
        2,
        "cell size=1 mode=slow: the program 'no-such-program'",
    );

    bench.set_body("touch reached; sleep 1000");
    write("second.toml", "name = \"speed\"", "name = \"second\"");
    let command = bench.command(&["run", "second.toml"]);
    let process = Process::start("lab", command, bench.directory.path());
    wait_until("a run", || bench.path("reached").exists().then_some(()));
    bench.refused(&["resume", "second.sqlite"], 2, "another process is adding runs");
    assert!(bench.printed(&["list"]).contains("second.sqlite"), "it can be read meanwhile");
    process.signal(Signal::TERM);
}

#[test]
fn experiments_of_the_project_are_valid() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../experiments");
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let experiments: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    assert!(experiments.len() >= 2, "{experiments:?}");
    for experiment in experiments {
        let mut command = Command::new(program());
        command.args(["lab", "check"]).arg(&experiment);
        let output = run_to_end(command);
        let message = String::from_utf8_lossy(&output.stderr);
        // Experiments that compare forwarders of other projects, or that need rights, are valid up to there.
        let absent = ["ndnd", "nfd"]
            .into_iter()
            .find(|name| message.contains(&format!("the program '{name}' is not on PATH")));
        match absent {
            Some(program) => skip(program, &experiment.display().to_string()),
            None if message.contains("namespaces need root") => {}
            None if message.contains("build with the cargo feature 'vip'") => {}
            None => assert!(output.status.success(), "{output:?}"),
        }
    }
}

/// Faults of simulated networks are found before anything runs.
#[test]
fn settings_of_simulations_are_checked() {
    let bench = Bench::new("", "");
    let text = "name = \"net\"\nseed = 4\n[factors]\nstrategy = [\"best-route\", \"multicast\"]\n[responses]\ndelay_ms = \"ms\"\n\
                [executor]\nkind = \"simulation\"\ntopology = \"line\"\nstrategy = \"{strategy}\"\npattern = \"one-each\"\n\
                load = { object_bytes = 100_000, cache_bytes = 1_000_000 }\n";
    for (from, to, expected) in [
        (
            "multicast",
            "broadcast",
            "cell strategy=broadcast: unknown strategy 'broadcast'; known: access",
        ),
        ("\"line\"", "\"lines\"", "unknown topology 'lines'"),
        ("\"line\"", "\"./line.toml\"", "./line.toml: No such file"),
        (
            "one-each",
            "one",
            "unknown pattern 'one'; known: zipf, drift, one-hit, datasets, one-each",
        ),
        ("cache_bytes = 1_000_000", "cache_bytes = 1_000_000_000_000", "half of the"),
        ("delay_ms", "delay", "unknown response 'delay'; known: hit_share"),
        ("\"ms\"", "\"s\"", "response 'delay_ms': it is measured in 'ms', not in 's'"),
        ("load = { ", "load = { bytes = 1, ", "line 12: executor.load.bytes: unknown key; known: "),
        ("pattern =", "window = 0\npattern =", "window: '0' is none of"),
        ("pattern =", "loss = 2\npattern =", "loss: '2' is not a share"),
        ("pattern =", "segment_bytes = 9000\npattern =", "segment_bytes: '9000' is not a number"),
    ] {
        assert!(text.contains(from), "{from}");
        fs::write(bench.path("net.toml"), text.replace(from, to)).unwrap();
        bench.refused(&["check", "net.toml"], 2, expected);
    }
    fs::write(bench.path("net.toml"), text).unwrap();
    bench.printed(&["run", "net.toml"]);
    assert_eq!(bench.json(&["list", "--json"])[0]["runs"], 2);
}

const CALIBRATION: &str = include_str!("../calibration.toml");

/// One segment over the five nodes of the line, with and without times; predictions beyond the calibration are noted.
#[test]
fn simulations_take_the_times_of_a_calibration() {
    let bench = Bench::new("", "");
    let text = "name = \"net\"\nseed = 4\n[factors]\ncalibration = [\"\", \"times.toml\"]\n[responses]\ndelay_ms = \"ms\"\n\
                [executor]\nkind = \"simulation\"\ntopology = \"line\"\ncalibration = \"{calibration}\"\n\
                pattern = \"one-each\"\nname_components = 10\nload = { object_bytes = 1000, cache_bytes = 0 }\n";
    fs::write(bench.path("net.toml"), text).unwrap();
    bench.refused(&["check", "net.toml"], 2, "times.toml: No such file");
    let fault = CALIBRATION.replace("shares", "parts");
    fs::write(bench.path("times.toml"), fault).unwrap();
    bench.refused(&["check", "net.toml"], 2, "calibration: times.toml: missing field `shares`");
    let fault = CALIBRATION.replace("[0.1, 0.2", "[0.5, 0.2");
    fs::write(bench.path("times.toml"), fault).unwrap();
    bench.refused(
        &["check", "net.toml"],
        2,
        "calibration: times.toml: shares: one is negative, or",
    );
    let fault = CALIBRATION.replace("100000.0", "-1.0");
    fs::write(bench.path("times.toml"), fault).unwrap();
    bench.refused(&["check", "net.toml"], 2, "too far from what was measured");
    fs::write(bench.path("times.toml"), CALIBRATION).unwrap();
    let output = bench.run(&["run", "net.toml"]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !message.contains("were measured"), "{message}");
    bench.printed(&["report", "net.sqlite"]);
    let found = fs::read_to_string(bench.path("net-report/runs.csv")).unwrap();
    let delay_ms = |start: &str| {
        let line = found.lines().find(|line| line.starts_with(start)).unwrap();
        line.rsplit(',').nth(1).unwrap().parse::<f64>().unwrap()
    };
    let difference_ms = delay_ms("times.toml,") - delay_ms(",");
    assert!((difference_ms - 0.5).abs() < 1e-3, "{found}");

    // Processor time is measured with times only, and long names were not measured.
    let text = text.replace("delay_ms", "cpu_ms");
    fs::write(bench.path("cpu.toml"), &text).unwrap();
    bench.refused(&["check", "cpu.toml"], 2, "unknown response 'cpu_ms'");
    fs::write(bench.path("more.toml"), CALIBRATION).unwrap();
    let text = text.replace("[\"\", ", "[\"more.toml\", ").replace("s = 10\n", "s = 40\n");
    fs::write(bench.path("cpu.toml"), &text).unwrap();
    let output = bench.run(&["check", "cpu.toml"]);
    let message = String::from_utf8_lossy(&output.stderr);
    let expected = "note: calibration: 40 name components: 3 to 13 were measured";
    assert!(output.status.success() && message.contains(expected), "{message}");
    let text = text.replace("\"simulation\"", "\"processes\"");
    fs::write(bench.path("cpu.toml"), &text).unwrap();
    bench.refused(&["check", "cpu.toml"], 2, "executor.calibration: unknown key");
}

/// An experiment whose runs are networks of processes; `executor` are further keys of the executor.
fn set_network(bench: &Bench, executor: &str, design: &str) {
    let text = format!(
        "name = \"net\"\nseed = 4\n[factors]\ndiversity = [1, 2]\n[responses]\nhit_share = \"share\"\norigin_share = \"share\"\n\
         interests = \"\"\n\"cpu_ms.f\" = \"ms\"\n\"memory_mib.f\" = \"MiB\"\n\"cs_hits.f\" = \"\"\n\
         \"delay_ms.a\" = \"ms\"\ndistribution_ms = \"ms\"\n\"packets_per_s.f\" = \"1/s\"\n\
         [design]\n{design}\n[executor]\nkind = \"processes\"\npattern = \"one-each\"\nsegment_bytes = 1000\n\
         load = {{ objects = \"{{diversity}}\", object_bytes = 100_000, cache_bytes = 1_000_000 }}\n{executor}"
    );
    fs::write(bench.path("net.toml"), text).unwrap();
    fs::write(
        bench.path("ff.toml"),
        "name = \"ff\"\nsource = \"of the test\"\nnodes = [\"a\", \"c\", \"f\", \"b\"]\n\
         links = [[\"a\", \"f\", 1.0], [\"c\", \"f\", 1.0], [\"f\", \"b\", 5.0]]\n\
         consumers = [\"a\", \"c\"]\nproducers = [\"b\"]\ncaches = [\"f\"]\n[load]\nrequests_per_s = 1.0\nzipf = 0.75\n\
         objects = 1\nobject_bytes = 1\ncache_bytes = 1\nlink_mbit_per_s = 100\ncache_read_mbit_per_s = 1000\n\
         duration_s = 1\n",
    )
    .unwrap();
}

/// The row of a run, by the name of the column.
fn row(bench: &Bench, diversity: &str) -> std::collections::BTreeMap<String, f64> {
    bench.printed(&["report", "net.sqlite"]);
    let text = fs::read_to_string(bench.path("net-report/runs.csv")).unwrap();
    let fields = |line: &str| line.split(',').map(str::to_owned).collect::<Vec<_>>();
    let head = fields(text.lines().next().unwrap());
    let line = text.lines().skip(1).find(|line| line.starts_with(diversity)).unwrap();
    let numbers = head.into_iter().zip(fields(line));
    numbers.filter_map(|(name, field)| Some((name, field.parse().ok()?))).collect()
}

#[test]
fn network_of_processes_is_measured() {
    let bench = Bench::new("", "");
    set_network(&bench, "topology = \"./ff.toml\"\n", "");
    measure_network(&bench);
}

/// The same with the forwarders of other projects.
#[test]
fn networks_of_other_forwarders_are_measured() {
    for forwarder in ["ndnd", "nfd"].into_iter().filter(|program| skip_unless_found(program)) {
        let bench = Bench::new("", "");
        let executor = format!("topology = \"./ff.toml\"\nforwarder = \"{forwarder}\"\n");
        set_network(&bench, &executor, "");
        measure_network(&bench);
    }
}

/// MW-NFD is not there: the configuration and the options are checked with NFD in its place, which gets all but what it does not
/// know.
#[test]
fn configuration_of_mw_nfd_is_that_of_nfd_and_more() {
    if !skip_unless_found("nfd") {
        return;
    }
    let bench = Bench::new("", "");
    fs::create_dir(bench.path("bin")).unwrap();
    let script = "#!/bin/sh\ncase $1 in --version) echo 0.7.1; exit ;; --config) ;; *) exit 9 ;; esac\n\
        grep -q '^  forwarding-worker-core-assign [01]$' $2 || exit 8\n\
        sed -e '/^mw-nfd$/,$d' -e /em_cs_max_packets/d -e s/pm_cs_/cs_/ $2 > $2.nfd\nexec nfd --config $2.nfd\n";
    fs::write(bench.path("bin/mw-nfd"), script).unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(bench.path("bin/mw-nfd"), executable).unwrap();
    set_network(&bench, "topology = \"./ff.toml\"\nforwarder = \"mw-nfd\"\n", "");
    measure_network(&bench);
}

/// A route for each of many objects, at a router of our own and of NFD.
#[test]
fn routes_of_objects_are_registered() {
    let all = ["namewire", "nfd"].into_iter();
    for forwarder in all.filter(|name| *name == "namewire" || skip_unless_found(name)) {
        let bench = Bench::new("", "");
        let executor = "topology = \"./ff.toml\"\nroutes = \"objects\"\nforwarder = ";
        set_network(&bench, &format!("{executor}\"{forwarder}\"\n"), "");
        let text = fs::read_to_string(bench.path("net.toml")).unwrap();
        fs::write(bench.path("net.toml"), text.replace("[1, 2]", "[1, 300]")).unwrap();
        bench.printed(&["run", "net.toml"]);
        let found = row(&bench, "300");
        assert!((200.0..240.0).contains(&found["interests"]), "{found:?}");
        assert!((0.99..1.2).contains(&found["origin_share"]), "{found:?}");
    }
}

/// A router without the Content Store of its topology, on one processor; and one that is another forwarder.
#[test]
fn nodes_have_settings_of_their_own() {
    let bench = Bench::new("", "");
    let set = |nodes: &str| set_network(&bench, &format!("topology = \"./ff.toml\"\n{nodes}"), "");
    let first = ndn_sys::cpu::allowed_cpus().unwrap()[0];
    set(&format!(
        "[executor.nodes.f]\ncs_policy = \"none\"\nworkers = 2\nprocessors = [{first}]\n"
    ));
    bench.printed(&["run", "net.toml"]);
    assert_eq!(row(&bench, "1")["cs_hits.f"], 0.0);
    if skip_unless_found("nfd") {
        fs::remove_file(bench.path("net.sqlite")).unwrap();
        set(
            "cs_policy = \"none\"\n[executor.nodes.f]\ncs_policy = \"lru\"\ncs_packets = 1000\nforwarder = \"nfd\"\n",
        );
        measure_network(&bench);
    }
    for (nodes, expected) in [
        ("nodes = { x = { workers = 2 } }", "nodes.x: there is no node 'x'"),
        (
            "nodes = { f = { worker = 2 } }",
            "executor.nodes.f.worker: unknown key; known: forwarder",
        ),
        ("nodes = { f = { workers = 0 } }", "nodes.f.workers: '0' is not a number"),
        // Beyond the processors that a set has.
        ("nodes = { f = { processors = [999999] } }", "processors: there is no processor 999999"),
        ("nodes = { f = { cs_policy = \"best\" } }", "nodes.f.cs_policy: "),
        ("nodes = { f = { forwarder = \"yanfd\" } }", "nodes.f.forwarder: unknown forwarder"),
        (
            "nodes = { f = { workers = \"{threads}\" } }",
            "executor.nodes.f.workers: unknown value '{threads}'",
        ),
    ] {
        set(&format!("{nodes}\n"));
        bench.refused(&["check", "net.toml"], 2, expected);
    }
    set("nodes = { f = { workers = 2 } }\n");
    let text = fs::read_to_string(bench.path("net.toml")).unwrap();
    fs::write(bench.path("net.toml"), text.replace("\"processes\"", "\"simulation\"")).unwrap();
    bench.refused(&["check", "net.toml"], 2, "a simulation runs namewire with one worker");
}

/// Routing daemons find the same routes as the lab.
#[test]
fn routes_of_daemons_are_used() {
    if !skip_unless_found("ndnd") {
        return;
    }
    let bench = Bench::new("", "");
    set_network(&bench, "topology = \"./ff.toml\"\nrouting = \"ndnd-dv\"\n", "");
    measure_network(&bench);
}

#[test]
fn network_of_namespaces_is_measured() {
    let bench = Bench::new("", "");
    set_network(&bench, "topology = \"./ff.toml\"\n", "");
    let text = fs::read_to_string(bench.path("net.toml")).unwrap();
    fs::write(bench.path("net.toml"), text.replace("\"processes\"", "\"namespaces\"")).unwrap();
    let checked = bench.run(&["check", "net.toml"]);
    if String::from_utf8_lossy(&checked.stderr).contains("namespaces need root") {
        return skip("network-namespaces", "they need root");
    }
    let before = namespaces();
    measure_network(&bench);
    // A run that is killed leaves namespaces, and the next one removes them.
    let _ = fs::remove_file(bench.path("net.sqlite"));
    let command = bench.command(&["run", "net.toml"]);
    let mut process = Process::start("lab", command, bench.directory.path());
    wait_until("forwarders", || (bench.leftovers() > 3).then_some(()));
    process.signal(Signal::KILL);
    process.wait();
    assert!(namespaces().difference(&before).count() > 0);
    bench.printed(&["resume", "net.sqlite"]);
    assert_eq!(namespaces().difference(&before).count(), 0);
}

/// Names of the network namespaces of labs.
fn namespaces() -> std::collections::BTreeSet<String> {
    let entries = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("namewire-lab-")).collect()
}

/// Runs a network of two consumers behind a router with a cache: they fetch one object of 100 segments one after the other, or
/// one each.
fn measure_network(bench: &Bench) {
    bench.printed(&["run", "net.toml"]);
    let (same, different) = (row(bench, "1"), row(bench, "2"));
    for found in [&same, &different] {
        // Lost datagrams are fetched again.
        assert!((200.0..240.0).contains(&found["interests"]), "{found:?}");
        // Two links to the source and back.
        assert!(found["delay_ms.a"] > 6.0, "{found:?}");
        assert!(found["distribution_ms"] >= 6.0, "{found:?}");
        assert!(found["cpu_ms.f"] > 0.1 && found["memory_mib.f"] > 1.0, "{found:?}");
        assert!(found["packets_per_s.f"] > 100.0, "{found:?}");
    }
    // The second consumer begins more than half a second later: all that it requests is in the cache.
    assert!((0.49..0.55).contains(&same["origin_share"]), "{same:?}");
    assert!((0.49..0.55).contains(&same["hit_share"]), "{same:?}");
    assert!(same["distribution_ms"] > 500.0 && same["delay_ms.a"] < same["distribution_ms"]);
    assert!((same["cs_hits.f"] / 200.0 - same["hit_share"]).abs() < 0.02, "{same:?}");
    assert!((0.99..1.2).contains(&different["origin_share"]), "{different:?}");
    assert!(different["cs_hits.f"] < 20.0, "{different:?}");
    assert_eq!(bench.leftovers(), 0, "{}", bench.left());
}

#[test]
fn bulk_transfers_are_measured() {
    let bench = Bench::new("", "");
    set_network(&bench, "topology = \"./ff.toml\"\nworkload = \"transfer\"\n", "");
    bench.printed(&["run", "net.toml"]);
    let (same, different) = (row(&bench, "1"), row(&bench, "2"));
    for found in [&same, &different] {
        // Beside the 200 segments, those of metadata and manifests.
        assert!((200.0..300.0).contains(&found["interests"]), "{found:?}");
        assert!(found["delay_ms.a"] > 6.0 && found["cpu_ms.f"] > 0.1, "{found:?}");
        assert!(found["packets_per_s.f"] > 100.0, "{found:?}");
    }
    // The second consumer begins more than half a second later.
    assert!((0.49..0.6).contains(&same["hit_share"]), "{same:?}");
    assert!((0.49..0.6).contains(&same["origin_share"]), "{same:?}");
    assert!(same["distribution_ms"] > 500.0, "{same:?}");
    assert!((0.99..1.2).contains(&different["origin_share"]), "{different:?}");
    assert!(different["hit_share"] < 0.1, "{different:?}");
    assert_eq!(bench.leftovers(), 0, "{}", bench.left());
}

#[test]
fn traffic_is_measured() {
    let bench = Bench::new("", "");
    let executor = "topology = \"./ff.toml\"\nworkload = \"traffic\"\ntime_lines = true\n";
    let set = |pattern: &str| {
        set_network(&bench, executor, "");
        let text = fs::read_to_string(bench.path("net.toml")).unwrap();
        let text = text
            .replace("\"one-each\"", &format!("\"{pattern}\""))
            .replace(
                "distribution_ms = \"ms\"",
                "satisfied_per_s = \"1/s\"\nloss_share = \"share\"",
            )
            .replace("load = { ", "load = { requests_per_s = 200, duration_s = 4, ");
        fs::write(bench.path("net.toml"), text).unwrap();
    };
    set("one-each");
    bench.refused(&["check", "net.toml"], 2, "the workload 'traffic' has zipf and unique");
    for (pattern, hit_share) in [("zipf", 0.3..1.0), ("unique", 0.0..0.01)] {
        set(pattern);
        let _ = fs::remove_file(bench.path("net.sqlite"));
        bench.printed(&["run", "net.toml"]);
        for diversity in ["1", "2"] {
            let found = row(&bench, diversity);
            // Two Poisson processes of 200 Interests a second for four seconds.
            assert!((1350.0..1850.0).contains(&found["interests"]), "{found:?}");
            assert!(found["satisfied_per_s"] > 250.0 && found["loss_share"] < 0.1, "{found:?}");
            assert!(hit_share.contains(&found["hit_share"]), "{pattern}: {found:?}");
            assert!(found["delay_ms.a"] > 2.0, "{found:?}");
        }
        let report = fs::read_to_string(bench.path("net-report/report.md")).unwrap();
        assert!(
            report.contains("## Nodes over time") && report.contains("time-lines-2.svg"),
            "{report}"
        );
    }
    assert_eq!(bench.leftovers(), 0, "{}", bench.left());
}

/// Files for containers have the form that their specifications demand, and configurations that the forwarder accepts.
#[test]
fn cells_are_rendered_for_containers() {
    let bench = Bench::new("", "");
    set_network(&bench, "topology = \"./ff.toml\"\nstrategy = \"multicast\"\n", "");
    bench.printed(&["render", "net.toml", "--cell", "2", "--compose", "compose"]);
    bench.printed(&["render", "net.toml", "--cell", "2", "--kubernetes", "manifests"]);
    for file in [
        "compose/node-0.toml",
        "compose/node-2.toml",
        "manifests/forwarder.toml",
        "manifests/origin.toml",
    ] {
        let mut command = Command::new(program());
        command.args(["config", "check"]).arg(bench.path(file));
        let output = run_to_end(command);
        assert!(output.status.success(), "{file}: {output:?}");
    }
    let router = fs::read_to_string(bench.path("compose/node-2.toml")).unwrap();
    // The third link of the router leads to the source, the fourth node.
    assert!(
        router.contains("prefix = \"/source-3\"\nface = \"udp4://10.64.0.13:6363\""),
        "{router}"
    );
    let compose = fs::read_to_string(bench.path("compose/compose.yaml")).unwrap();
    assert!(
        compose.starts_with("# net: diversity=2\n# Made by `namewire lab render`; not run by it.")
    );
    for part in
        ["truncate -s 100000 /content/object-1", "\"/source-3/object-1\",\"-o\",\"/tmp/object\""]
    {
        assert!(compose.contains(part), "{part}: {compose}");
    }
    bench.refused(&["render", "net.toml", "--cell", "3", "--compose", "x"], 2, "there are 2 cells");
    bench.refused(&["render", "speed.toml", "--compose", "x"], 2, "only networks of forwarders");
    let first = ndn_sys::cpu::allowed_cpus().unwrap()[0];
    let nodes =
        format!("topology = \"./ff.toml\"\nnodes = {{ f = {{ processors = [{first}] }} }}\n");
    set_network(&bench, &nodes, "");
    bench.printed(&["render", "net.toml", "--compose", "own"]);
    let own = fs::read_to_string(bench.path("own/compose.yaml")).unwrap();
    assert_eq!(own.matches(&format!("cpuset: \"{first}\"")).count(), 1, "{own}");
    let expected = "nodes: the forwarders of a cluster have the same settings";
    bench.refused(&["render", "net.toml", "--kubernetes", "x"], 2, expected);
    let python = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.venv/bin/python"));
    if !namewire_tests::skip_unless_file(&python, "schemas-of-containers") {
        return;
    }
    let mut command = Command::new(python);
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/interop/python/manifests.py"));
    command.arg(bench.path("compose/compose.yaml")).arg(bench.path("manifests"));
    let output = run_to_end(command);
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8(output.stdout).unwrap();
    // Four nodes, a producer with its files, and two consumers, of which each has another object.
    assert_eq!(printed.trim(), "8 DaemonSet Deployment Job Job Namespace Service", "{printed}");
}

#[test]
fn settings_of_networks_of_processes_are_checked() {
    let bench = Bench::new("", "");
    for (executor, expected) in [
        ("topology = \"ring\"", "unknown topology 'ring'; known: abilene"),
        ("topology = \"star\"", "unknown response 'cpu_ms.f'; known: hit_share, origin_share"),
        (
            "topology = \"a-f-b\"\nforwarder = \"yanfd\"",
            "unknown forwarder 'yanfd'; known: namewire",
        ),
        ("topology = \"a-f-b\"\nforwarder = \"nfd\"\nworkers = 2", "forwarder: the program 'nfd'"),
        ("topology = \"a-f-b\"\nworkers = 0", "workers: '0' is not a number"),
        ("topology = \"a-f-b\"\nlinks = \"fast\"", "links: 'fast' is none of"),
        (
            "topology = \"a-f-b\"\nworkload = \"files\"",
            "workload: 'files' is unknown; known: distribution",
        ),
        (
            "topology = \"a-f-b\"\nworkload = \"transfer\"\nname_components = 5",
            "name_components: names of the workload 'transfer'",
        ),
        ("topology = \"a-f-b\"\nlinks = \"direct\"\nloss = 0.1", "loss: direct links"),
        ("topology = \"a-f-b\"\nname_components = 65", "name_components: '65' is not"),
        ("topology = \"a-f-b\"\nroutes = \"all\"", "routes: 'all' is none of"),
        (
            "topology = \"a-f-b\"\nroutes = \"objects\"\nworkload = \"transfer\"",
            "routes: names of objects are those of the workload 'distribution'",
        ),
        ("topology = \"a-f-b\"\ncs_packets = 1_000_000_000", "cache_bytes is too large"),
    ] {
        set_network(&bench, &format!("{executor}\n"), "");
        let mut command = bench.command(&["check", "net.toml"]);
        // No forwarder of another project is there.
        command.env("PATH", "/nonexistent");
        let output = run_to_end(command);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{executor}: {message}");
        assert!(message.contains(expected), "{executor}: {message}");
    }
}

/// SIGKILL at 20 moments of runs with four forwarders each: the results are those of an experiment that was not killed, and
/// nothing stays.
#[test]
fn killed_network_of_processes_leaves_nothing_behind() {
    let bench = Bench::new("", "");
    set_network(&bench, "topology = \"./ff.toml\"\n", "replications = 4");
    kill_at_twenty_moments(&bench, 6);
}

/// The moments are those at which there are 1 to `most` processes and files of a run.
fn kill_at_twenty_moments(bench: &Bench, most: u32) {
    for number in 0..20_u32 {
        let resumes = bench.path("net.sqlite").exists();
        let arguments = match resumes {
            false => &["run", "net.toml"][..],
            true => &["resume", "net.sqlite"],
        };
        let mut process = Process::start("lab", bench.command(arguments), bench.directory.path());
        wait_until("a run", || {
            let is_ended = !process.is_running();
            let has_begun = resumes || process.stderr().contains("to do");
            (is_ended || has_begun && bench.leftovers() > (number % most) as usize).then_some(())
        });
        process.signal(Signal::KILL);
        process.wait();
    }
    bench.printed(&["resume", "net.sqlite"]);
    assert_eq!(bench.json(&["list", "--json"])[0]["runs"], 8);
    bench.printed(&["report", "net.sqlite"]);
    let text = fs::read_to_string(bench.path("net-report/runs.csv")).unwrap();
    let mut cells: Vec<String> = text
        .lines()
        .skip(1)
        .map(|line| line.split(',').take(2).collect::<Vec<_>>().join(","))
        .collect();
    cells.sort();
    let all: Vec<String> = ["1", "2"]
        .iter()
        .flat_map(|diversity| (0..4).map(move |replication| format!("{diversity},{replication}")))
        .collect();
    assert_eq!(cells, all, "{text}");
    bench.await_no_leftovers();
}

/// An OpenSSH server on the loopback interface with keys of its own, for the user of the test.
struct SshServer {
    _process: Process,
}

impl SshServer {
    /// Starts one whose sessions have this `PATH`. The client finds it by `ssh.config` under the names `near` and `far`.
    fn start(bench: &Bench, path: &str) -> Option<Self> {
        let sshd = PathBuf::from("/usr/sbin/sshd");
        if !namewire_tests::skip_unless_file(&sshd, "sshd") || !skip_unless_found("ssh") {
            return None;
        }
        let show = |name: &str| bench.path(name).display().to_string();
        for key in ["host-key", "user-key"] {
            let mut command = Command::new("ssh-keygen");
            command.args(["-q", "-t", "ed25519", "-N", "", "-f", &show(key)]);
            assert!(run_to_end(command).status.success());
        }
        fs::copy(bench.path("user-key.pub"), bench.path("authorized-keys")).unwrap();
        let port = namewire_tests::free_port();
        let host_key = fs::read_to_string(bench.path("host-key.pub")).unwrap();
        fs::write(bench.path("known-hosts"), format!("[127.0.0.1]:{port} {host_key}")).unwrap();
        let sshd_config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\n\
             PasswordAuthentication no\nPermitRootLogin yes\nMaxStartups 100\nSetEnv PATH={path} TMPDIR={}\n",
            show("host-key"),
            show("authorized-keys"),
            show("tmp"),
        );
        fs::write(bench.path("sshd.config"), sshd_config).unwrap();
        let ssh_config = format!(
            "Host near far\nHostName 127.0.0.1\nPort {port}\nIdentityFile {}\nIdentitiesOnly yes\nIdentityAgent none\n\
             UserKnownHostsFile {}\nGlobalKnownHostsFile none\n",
            show("user-key"),
            show("known-hosts"),
        );
        fs::write(bench.path("ssh.config"), ssh_config).unwrap();
        if rustix::process::getuid().is_root() {
            // sshd(8): the directory of its processes without rights.
            fs::create_dir_all("/run/sshd").unwrap();
        }
        let mut command = Command::new(sshd);
        command.args(["-D", "-e", "-f", &show("sshd.config")]);
        let process = Process::start("sshd", command, bench.directory.path());
        wait_until("the SSH server", || {
            std::net::TcpStream::connect(("127.0.0.1", port)).ok().map(drop)
        });
        Some(Self { _process: process })
    }
}

/// `PATH` of sessions, with this program or without it.
fn session_path(has_program: bool) -> String {
    let own = program().parent().unwrap().display().to_string();
    if has_program { format!("{own}:/usr/bin:/bin") } else { "/usr/bin:/bin".to_owned() }
}

fn set_hosts(bench: &Bench, hosts: &str, design: &str) {
    let executor = format!("topology = \"./ff.toml\"\nssh = [\"-F\", \"ssh.config\"]\n{hosts}\n");
    set_network(bench, &executor, design);
    let text = fs::read_to_string(bench.path("net.toml")).unwrap();
    fs::write(bench.path("net.toml"), text.replace("\"processes\"", "\"ssh\"")).unwrap();
}

#[test]
fn network_of_hosts_is_measured() {
    let bench = Bench::new("", "");
    let Some(_server) = SshServer::start(&bench, &session_path(true)) else { return };
    set_hosts(&bench, "hosts = [\"near\", \"far=127.0.0.1\"]\nplacement = { f = \"far\" }", "");
    measure_network(&bench);
    let report = fs::read_to_string(bench.path("net-report/report.md")).unwrap();
    assert!(report.contains("The clocks of the hosts were compared"), "{report}");
    for (hosts, expected) in [
        ("", "executor.hosts: the kind 'ssh' needs names of hosts"),
        ("hosts = [\"near\", \"near\"]", "executor.hosts: 'near' occurs twice"),
        ("hosts = [\"near=x\"]", "executor.hosts: \"x\" is not an IPv4 address"),
        (
            "hosts = [\"near\"]\nplacement = { f = \"far\" }",
            "placement.f: 'far' is not one of hosts",
        ),
        ("hosts = [\"absent.invalid\"]", "host absent.invalid: "),
        ("hosts = [\"near\"]\nforwarder = \"ndnd\"", "the program 'ndnd' is not on PATH"),
    ] {
        set_hosts(&bench, hosts, "");
        bench.refused(&["check", "net.toml"], 2, expected);
    }
    bench.await_no_leftovers();
}

#[test]
fn program_is_copied_to_hosts() {
    let bench = Bench::new("", "");
    let Some(_server) = SshServer::start(&bench, &session_path(false)) else { return };
    set_hosts(&bench, "hosts = [\"near\"]", "");
    bench.refused(&["check", "net.toml"], 2, "host near: the connection has ended");
    set_hosts(&bench, "hosts = [\"near\"]\ncopy = true\nlinks = \"direct\"", "");
    bench.printed(&["run", "net.toml"]);
    bench.await_no_leftovers();
}

#[test]
fn killed_network_of_hosts_leaves_nothing_behind() {
    let bench = Bench::new("", "");
    let Some(_server) = SshServer::start(&bench, &session_path(true)) else { return };
    set_hosts(&bench, "hosts = [\"near\", \"far\"]", "replications = 4");
    kill_at_twenty_moments(&bench, 14);
}

#[test]
fn interrupted_network_of_hosts_leaves_nothing_behind() {
    let bench = Bench::new("", "");
    let Some(_server) = SshServer::start(&bench, &session_path(true)) else { return };
    set_hosts(&bench, "hosts = [\"near\", \"far\"]", "");
    let mut process =
        Process::start("lab", bench.command(&["run", "net.toml"]), bench.directory.path());
    // Lab, two connections and agents with their directories, and four forwarders.
    wait_until("a run", || process.stderr().contains("to do").then_some(()));
    wait_until("forwarders", || (bench.leftovers() > 9).then_some(()));
    process.signal(Signal::INT);
    assert_eq!(process.wait().code(), Some(130), "{}", process.everything());
    bench.await_no_leftovers();
    bench.printed(&["resume", "net.sqlite"]);
}

/// A lab that is killed right after it has made a directory leaves it empty, and an agent that is killed with its shell leaves a
/// copy of the program. Directories of a lab that runs stay.
#[test]
fn directories_of_ended_owners_are_removed() {
    let bench = Bench::new(MEASURE, "");
    let owner = |name: &str| {
        let name = name.strip_prefix("namewire-lab-").unwrap();
        name.split_once('-').unwrap().0.to_owned()
    };
    bench.set_body("touch reached; sleep 1000");
    let mut process =
        Process::start("lab", bench.command(&["run", "speed.toml"]), bench.directory.path());
    wait_until("a run", || bench.path("reached").exists().then_some(()));
    let entry = fs::read_dir(bench.path("tmp")).unwrap().next().unwrap().unwrap();
    let owner = owner(&entry.file_name().to_string_lossy());
    let empty = bench.path("tmp").join(format!("namewire-lab-{owner}-empty1"));
    fs::create_dir(&empty).unwrap();
    bench.set_body(MEASURE);
    bench.printed(&["run", "speed.toml", "--results", "second.sqlite"]);
    assert!(empty.exists() && entry.path().exists(), "{}", bench.left());
    process.signal(Signal::KILL);
    process.wait();
    bench.printed(&["run", "speed.toml", "--results", "third.sqlite"]);
    assert_eq!(bench.leftovers(), 0, "{}", bench.left());
}

/// The run of another experiment ends what a killed one left.
#[test]
fn leftovers_of_other_experiments_are_ended() {
    let bench = Bench::new("", "");
    set_network(&bench, "topology = \"./ff.toml\"\n", "");
    let command = bench.command(&["run", "net.toml"]);
    let mut process = Process::start("lab", command, bench.directory.path());
    wait_until("forwarders", || (bench.leftovers() > 3).then_some(()));
    process.signal(Signal::KILL);
    process.wait();
    assert!(bench.leftovers() > 0);
    bench.set_body(MEASURE);
    bench.printed(&["run", "speed.toml"]);
    assert_eq!(bench.leftovers(), 0, "{}", bench.left());
}
