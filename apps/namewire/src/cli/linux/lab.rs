//! `namewire lab`: designed experiments.

mod analyse;
mod results_file;

use std::cell::Cell;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use ndn_lab::campaign::{self, Progress, Summary};
use ndn_lab::design::Design;
use ndn_lab::execute::{self, Prepared};
use ndn_lab::experiment::{Experiment, SeededRun};
use ndn_lab::progress::RunProgress;
use ndn_lab::render::Form;
use ndn_lab::report::{Report, Study};
use ndn_lab::results::{Origin, Results, ResultsError, Session, StoredRun, missing};
use ndn_sys::clock::Clock;
use ndn_types::{Timestamp, duration_ms};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::engine::{self, EngineOptions, PartOptions, Parts};
use super::machine::machine;
use crate::cli::arguments::at_least_one;
use crate::cli::failure::{Failure, INTERRUPTED, Outcome};
use crate::cli::interrupt::on_interrupt;
use crate::cli::output::{self, Table, counted, span_for_people};

/// Time between two lines about a run that is being performed.
const LINE_INTERVAL: Duration = Duration::from_secs(10);
/// Bytes of allocations that are tables of simulated forwarders.
const LARGE_ALLOCATION: u32 = 256 * 1024;

/// Run designed experiments, and analyse them
///
/// An experiment is a TOML file with factors and their levels, responses, a design, and an executor that performs a run.
/// The runs are in random order with replications; results go to an SQLite file as they come.
#[derive(Args, Debug)]
pub(in crate::cli) struct Options {
    #[command(subcommand)]
    what: LabCommand,
}

#[derive(Subcommand, Debug)]
enum LabCommand {
    /// Check an experiment file and show its plan
    Check(CheckOptions),
    /// Perform an experiment
    ///
    /// An interrupted experiment continues with `lab resume`. Programs that a run starts end with the run; those of runs
    /// that were killed are ended first, whatever their experiment. With --engine, runs are performed on several machines,
    /// which have the directory of the experiment in common; where runs measure time, let each have its machine
    /// (--engine-argument=--exclusive).
    Run(RunOptions),
    /// Continue an experiment that was interrupted
    Resume(ResumeOptions),
    /// Show effects, intervals and findings
    Analyse(analyse::Options),
    /// Write a report: HTML, Markdown, figures and raw data
    Report(ReportOptions),
    /// List results of experiments, or the failed runs of one
    List(ListOptions),
    /// Write files that run a cell in containers
    ///
    /// A Compose file has the nodes of the topology; manifests for Kubernetes (kustomize) have a forwarder on each machine, a
    /// file server, and consumers. The files are written, and not run.
    Render(RenderOptions),
    /// Perform a part of the runs of an experiment: what `lab run --engine` starts on several machines
    RunTasks(PartOptions),
    /// Perform the part of a host in runs of the kind `ssh`
    ///
    /// `lab run` starts it on the hosts, and sends orders on its standard input. It ends with that.
    #[command(hide = true)]
    Agent,
}

#[derive(Args, Debug)]
struct CheckOptions {
    /// Experiment file
    experiment: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct RunOptions {
    /// Experiment file
    experiment: PathBuf,
    /// File for the results [default: the name of the experiment with .sqlite, in this directory]
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
    #[command(flatten)]
    work: WorkOptions,
}

/// Where runs are performed.
#[derive(Args, Debug)]
struct WorkOptions {
    /// Runs of this process at a time; more than 1 only if runs do not measure time
    #[arg(long, value_name = "N", default_value = "1", value_parser = at_least_one::<NonZeroUsize>)]
    jobs: NonZeroUsize,
    #[command(flatten)]
    engine: EngineOptions,
}

#[derive(Args, Debug)]
struct ResumeOptions {
    /// Results of `lab run`
    results: PathBuf,
    /// Experiment file with other replications, budget, question or units
    #[arg(long, value_name = "FILE")]
    experiment: Option<PathBuf>,
    /// Repeat runs that failed
    #[arg(long)]
    failed: bool,
    #[command(flatten)]
    work: WorkOptions,
}

#[derive(Args, Debug)]
struct ReportOptions {
    /// Results of `lab run`
    results: PathBuf,
    /// Directory for the report [default: the name of the results with -report]
    #[arg(long, value_name = "DIRECTORY")]
    output: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("form").required(true))]
struct RenderOptions {
    /// Experiment file
    experiment: PathBuf,
    /// Write compose.yaml and its files to this directory
    #[arg(long, value_name = "DIRECTORY", group = "form")]
    compose: Option<PathBuf>,
    /// Write kustomization.yaml and its manifests to this directory
    #[arg(long, value_name = "DIRECTORY", group = "form")]
    kubernetes: Option<PathBuf>,
    /// Number of the cell in the order of the design, from 1
    #[arg(long, value_name = "N", default_value = "1", value_parser = at_least_one::<NonZeroUsize>)]
    cell: NonZeroUsize,
    /// Image of namewire (Dockerfile)
    #[arg(long, value_name = "IMAGE", default_value = "namewire")]
    image: String,
}

#[derive(Args, Debug)]
struct ListOptions {
    /// Results, or directories with results
    #[arg(default_value = ".")]
    paths: Vec<PathBuf>,
    /// Show failed runs, with what they printed
    #[arg(long)]
    failed: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(in crate::cli) fn run(options: &Options) -> Outcome {
    match &options.what {
        LabCommand::Check(options) => check(options),
        LabCommand::Run(options) => start(options),
        LabCommand::Resume(options) => resume(options),
        LabCommand::Analyse(options) => analyse::run(options),
        LabCommand::Report(options) => report(options),
        LabCommand::List(options) => list(options),
        LabCommand::Render(options) => render(options),
        LabCommand::RunTasks(options) => run_tasks(options),
        LabCommand::Agent => agent(),
    }
}

fn render(options: &RenderOptions) -> Outcome {
    let (experiment, origin) = read(&options.experiment)?;
    let prepared = prepare(&experiment, &origin)?;
    let (form, directory, first) = match (&options.compose, &options.kubernetes) {
        (Some(directory), _) => (Form::Compose, directory, "compose.yaml"),
        (None, Some(directory)) => (Form::Kubernetes, directory, "kustomization.yaml"),
        (None, None) => return Err(Failure::Usage("--compose or --kubernetes".to_owned())),
    };
    let files = prepared
        .render(options.cell.get() - 1, form, &options.image)
        .map_err(|reason| Failure::Usage(format!("{}: {reason}", experiment.name)))?;
    fs::create_dir_all(directory).map_err(|error| Failure::file(directory.display(), &error))?;
    for (name, content) in files {
        let file = directory.join(name);
        fs::write(&file, content).map_err(|error| Failure::file(file.display(), &error))?;
    }
    Ok(output::print_line(&directory.join(first).display().to_string())?)
}

#[expect(clippy::disallowed_methods, reason = "runs take real time")]
fn agent() -> Outcome {
    on_interrupt(|| {
        execute::abandon();
        std::process::exit(INTERRUPTED.into());
    })?;
    ndn_sys::allocation::take_from_kernel(LARGE_ALLOCATION);
    let served = execute::serve_agent(std::io::stdin(), std::io::stdout(), &Clock::system());
    execute::abandon();
    served.map_err(Failure::Failed)
}

/// Reads an experiment file; paths in it are relative to its directory.
fn read(path: &Path) -> Outcome<(Experiment, Origin)> {
    let text = crate::cli::input::read_text(path)?;
    let experiment = Experiment::parse(&text);
    let experiment = experiment.map_err(|fault| Failure::input(path.display(), fault))?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = fs::canonicalize(parent.unwrap_or(Path::new(".")))
        .map_err(|error| Failure::input(path.display(), error))?;
    Ok((experiment, Origin { text, directory }))
}

fn prepare<'e>(experiment: &'e Experiment, origin: &Origin) -> Outcome<Prepared<'e>> {
    let prepared = Prepared::new(experiment, &origin.directory)
        .map_err(|reason| Failure::Usage(format!("{}: {reason}", experiment.name)))?;
    prepared.notes().for_each(|note| output::note(&format_args!("note: {note}")));
    Ok(prepared)
}

fn check(options: &CheckOptions) -> Outcome {
    let (experiment, origin) = read(&options.experiment)?;
    prepare(&experiment, &origin)?;
    let plan = experiment.plan().map_err(|error| Failure::Usage(error.to_string()))?;
    let design = &experiment.design;
    if options.json {
        let order: Vec<Value> = plan
            .iter()
            .map(|one| {
                json!({
                    "levels": experiment.levels(one.run.cell),
                    "replication": one.run.replication,
                    "block": one.run.block,
                    "seed": one.seed,
                })
            })
            .collect();
        return Ok(output::print_json(&json!({
            "name": experiment.name,
            "executor": experiment.executor.kind(),
            "cells": design.cells().len(),
            "replications": experiment.replications,
            "confounding": design.confounding(),
            "runs": order,
        }))?);
    }
    let mut table = Table::new(&["FACTOR", "LEVELS"]);
    for factor in design.factors() {
        table.row(vec![factor.name.clone(), factor.levels.join(", ")]);
    }
    table.print("no factors")?;
    let cells = counted(design.cells().len() as u64, "cell");
    output::print_line(&format!(
        "{}: {cells}, {}, {} of the executor '{}'",
        experiment.name,
        counted(experiment.replications as u64, "replication"),
        counted(plan.len() as u64, "run"),
        experiment.executor.kind(),
    ))?;
    for line in design.confounding() {
        output::print_line(&line)?;
    }
    Ok(())
}

/// The program and the machine of the runs that follow. A debug build is slower, so the report states it.
fn session(clock: &Clock) -> Session {
    let build = if cfg!(debug_assertions) { " (debug build)" } else { "" };
    Session {
        start_ms: u64::try_from(clock.unix_time().as_millis()).unwrap_or(u64::MAX),
        program: format!("namewire {}{build}", env!("CARGO_PKG_VERSION")),
        machine: machine(),
    }
}

#[expect(clippy::disallowed_methods, reason = "runs take real time")]
fn start(options: &RunOptions) -> Outcome {
    let (experiment, origin) = read(&options.experiment)?;
    let prepared = prepare(&experiment, &origin)?;
    let clock = Clock::system();
    let path = options.results.clone();
    let path = path.unwrap_or_else(|| PathBuf::from(format!("{}.sqlite", experiment.name)));
    let mut random = [0; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| Failure::Failed(format!("random numbers: {error}")))?;
    let id = format!("{:016x}", u64::from_ne_bytes(random));
    let results = Results::create(&path, &id, &origin, &prepared.inputs(), &session(&clock));
    perform(&prepared, &mut results?, &path, (false, &options.work), &clock)
}

#[expect(clippy::disallowed_methods, reason = "runs take real time")]
fn resume(options: &ResumeOptions) -> Outcome {
    let clock = Clock::system();
    let path = &options.results;
    let mut results = results_file::as_input(path, Results::resume(path, &session(&clock)))?;
    let mut experiment = results.experiment()?;
    let origin = results.origin()?;
    if let Some(file) = &options.experiment {
        let (changed, changed_origin) = read(file)?;
        if let Some(key) = experiment.difference(&changed) {
            return Err(Failure::Usage(format!(
                "{}: {key} differs from the experiment in {}: results would not be comparable",
                file.display(),
                path.display()
            )));
        }
        results.replace_text(&changed_origin.text)?;
        experiment = changed;
    }
    let prepared = prepare(&experiment, &origin)?;
    results.check_inputs(&prepared.inputs())?;
    note_ended(execute::end_leftovers(results.id()));
    perform(&prepared, &mut results, path, (options.failed, &options.work), &clock)
}

/// Reports processes of runs that were killed.
fn note_ended(count: usize) {
    if count > 0 {
        let programs = counted(count as u64, "program");
        output::note(&format_args!("ended what an earlier run had left: {programs}"));
    }
}

fn perform(
    prepared: &Prepared<'_>,
    results: &mut Results,
    path: &Path,
    (again, work): (bool, &WorkOptions),
    clock: &Clock,
) -> Outcome {
    let directory = work.engine.directory()?;
    if directory.is_some() && prepared.experiment().executor.kind() == "ssh" {
        let text = "the executor 'ssh' has its own hosts: it runs without --engine";
        return Err(Failure::Usage(text.to_owned()));
    }
    note_ended(execute::end_orphans());
    // Simulated forwarders have some twenty descriptors each; a simulation that needs more fails and names the reason.
    let _ = ndn_sys::cpu::raise_descriptor_limit();
    ndn_sys::allocation::take_from_kernel(LARGE_ALLOCATION);
    let experiment = prepared.experiment();
    let plan = experiment.plan().map_err(|error| Failure::Usage(error.to_string()))?;
    let stored = results.runs()?;
    let runs = missing(&plan, &stored, again);
    let shown = path.display().to_string();
    on_interrupt(move || {
        execute::abandon();
        engine::stop();
        output::note(&format_args!(
            "namewire: interrupted; `namewire lab resume {shown}` continues"
        ));
        std::process::exit(INTERRUPTED.into());
    })?;
    output::note(&format_args!(
        "{} in {}, {} to do",
        counted(plan.len() as u64, "run"),
        path.display(),
        runs.len()
    ));
    let display = Display::new(&experiment.design, clock);
    let show = |progress: Progress<'_>| display.show(&progress);
    let shown = path.display();
    let summary = match directory {
        Some(directory) => {
            let others = Others { directory, options: &work.engine, runs: &runs };
            others.perform(results, experiment, clock, show).map_err(|error| error.to_string())
        }
        None => {
            let planned = (&runs[..], experiment.budget);
            campaign::perform(prepared, results, planned, work.jobs, clock, show)
                .map_err(|error| error.to_string())
        }
    };
    display.end();
    let Summary { succeeded, failed: lost, left } = summary.map_err(|error| {
        Failure::Failed(format!(
            "{error}; runs that ended before are stored, and `namewire lab resume {shown}` continues"
        ))
    })?;
    if left > 0 {
        let reason = "the time of the budget is over";
        let more = "a longer one continues with `namewire lab resume --experiment`";
        output::note(&format_args!("{}: {reason}; {more}", counted(left as u64, "run")));
    }
    if lost > 0 {
        return Err(Failure::Failed(format!(
            "{lost} of {} runs failed: `namewire lab list --failed {shown}` shows why, `namewire lab resume --failed \
             {shown}` repeats them",
            succeeded + lost
        )));
    }
    output::note(&format_args!("done: `namewire lab report {shown}` writes a report"));
    Ok(())
}

/// Shows each run that ends as a line, and the first one that is being performed: on a terminal as the last line, otherwise as a
/// line at intervals.
struct Display<'a> {
    design: &'a Design,
    clock: &'a Clock,
    bar: ProgressBar,
    /// The time of the last line.
    noted: Cell<Timestamp>,
}

impl<'a> Display<'a> {
    fn new(design: &'a Design, clock: &'a Clock) -> Self {
        // It draws nothing unless standard error is a terminal.
        let bar = ProgressBar::new_spinner();
        let style = ProgressStyle::with_template("{wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        Self { design, clock, bar, noted: Cell::new(clock.now()) }
    }

    fn show(&self, progress: &Progress<'_>) {
        let now = self.clock.now();
        if let Some(run) = progress.ended {
            let outcome = match &run.error {
                Some(error) => format!("failed: {error}"),
                None => span_for_people(run.duration_ms),
            };
            let line = self.line(progress, run.cell, &outcome);
            self.bar.suspend(|| output::note(&line));
            self.noted.set(now);
        }
        let Some(first) = progress.running.first() else { return };
        let elapsed = span_for_people(duration_ms(first.elapsed));
        let state = match first.share {
            Some(share) => format!("{:.0} % after {elapsed}", share * 100.0),
            None => format!("running for {elapsed}"),
        };
        let line = self.line(progress, first.cell, &state);
        if !self.bar.is_hidden() {
            self.bar.set_message(line);
        } else if now - self.noted.get() >= LINE_INTERVAL {
            output::note(&line);
            self.noted.set(now);
        }
    }

    fn line(&self, progress: &Progress<'_>, cell: usize, state: &str) -> String {
        let Progress { done, total, rest, .. } = progress;
        let rest = rest.map(|rest| format!(", {} left", span_for_people(duration_ms(rest))));
        let cell = self.design.describe(cell);
        format!("{done}/{total}{}: {cell}: {state}", rest.unwrap_or_default())
    }

    fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// Runs of an experiment with all that they need.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RunList {
    /// The version of the program: another one may simulate differently.
    namewire: String,
    /// Identifier of the experiment.
    id: String,
    /// The experiment file, and its directory.
    experiment: String,
    directory: PathBuf,
    /// No run starts after this time, in milliseconds since 1970.
    until_ms: Option<u64>,
    runs: Vec<SeededRun>,
}

/// Output of a part after a run, as a line of JSON.
#[derive(Debug, Serialize, Deserialize)]
struct PerformedRun {
    machine: String,
    run: StoredRun,
}

/// Performs a part of the runs of a list.
#[expect(clippy::disallowed_methods, reason = "runs take real time")]
fn run_tasks(part: &PartOptions) -> Outcome {
    let list: RunList = part.read()?;
    let experiment = Experiment::parse(&list.experiment).map_err(|fault| part.failure(fault))?;
    let prepared = Prepared::new(&experiment, &list.directory);
    let prepared = prepared.map_err(|reason| part.failure(reason))?;
    let clock = Clock::system();
    on_interrupt(|| {
        execute::abandon();
        std::process::exit(INTERRUPTED.into());
    })?;
    execute::end_orphans();
    let _ = ndn_sys::cpu::raise_descriptor_limit();
    ndn_sys::allocation::take_from_kernel(LARGE_ALLOCATION);
    let machine = machine();
    for run in part.of(&list.runs) {
        let now_ms = u64::try_from(clock.unix_time().as_millis()).unwrap_or(u64::MAX);
        if list.until_ms.is_some_and(|until| now_ms >= until) {
            break;
        }
        let progress = RunProgress::default();
        let run = campaign::perform_one(&prepared, (*run, &list.id), &progress, &clock);
        let performed = PerformedRun { machine: machine.clone(), run };
        let text = serde_json::to_string(&performed)
            .map_err(|error| Failure::Failed(error.to_string()))?;
        output::print_line(&text)?;
    }
    part.end()
}

/// Runs that another engine performs.
struct Others<'a> {
    directory: tempfile::TempDir,
    options: &'a EngineOptions,
    runs: &'a [SeededRun],
}

impl Others<'_> {
    /// Performs the runs, and stores each as its result arrives.
    fn perform(
        self,
        results: &mut Results,
        experiment: &Experiment,
        clock: &Clock,
        show: impl Fn(Progress<'_>),
    ) -> Outcome<Summary> {
        let mut summary = Summary { left: self.runs.len(), ..Summary::default() };
        if self.runs.is_empty() {
            return Ok(summary);
        }
        let origin = results.origin()?;
        let spent_ms: u64 = results.runs()?.iter().map(|run| run.duration_ms).sum();
        let now_ms = u64::try_from(clock.unix_time().as_millis()).unwrap_or(u64::MAX);
        let parts =
            Parts::new(self.directory.path().join("runs"), self.runs.len(), ["lab", "run-tasks"]);
        parts.write(&RunList {
            namewire: env!("CARGO_PKG_VERSION").to_owned(),
            id: results.id().to_owned(),
            experiment: origin.text,
            directory: origin.directory,
            until_ms: experiment
                .budget
                .time_ms
                .map(|limit| now_ms + limit.saturating_sub(spent_ms)),
            runs: self.runs.to_vec(),
        })?;
        let begin = clock.now();
        let mut taken = vec![0; parts.count()];
        let mut take = || -> Outcome<bool> {
            let mut are_complete = true;
            for (part, taken) in taken.iter_mut().enumerate() {
                let (lines, is_complete) = parts.printed(part);
                are_complete &= is_complete;
                for line in &lines[*taken..] {
                    let performed: PerformedRun =
                        serde_json::from_str(line).map_err(|_| parts.incomplete(part))?;
                    *taken += 1;
                    results.continue_on(&performed.machine)?;
                    results.add(&performed.run)?;
                    summary.left -= 1;
                    match performed.run.error {
                        Some(_) => summary.failed += 1,
                        None => summary.succeeded += 1,
                    }
                    let done = summary.succeeded + summary.failed;
                    let total = self.runs.len();
                    let rest = campaign::estimate_rest(clock.now() - begin, done as f64, total);
                    let ended = Some(&performed.run);
                    show(Progress { ended, running: &[], done, total, rest });
                }
            }
            Ok(are_complete)
        };
        let ran = parts.run(self.options, || take().map(drop));
        let are_complete = take()?;
        if let Err(failure) = ran.and_then(|()| match are_complete {
            true => Ok(()),
            false => Err(parts.incomplete(0)),
        }) {
            // The output of the engine is left for the user.
            let _ = self.directory.keep();
            return Err(failure);
        }
        Ok(summary)
    }
}

fn report(options: &ReportOptions) -> Outcome {
    let path = &options.results;
    let study = Study::read(&results_file::open(path)?)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let Report { html, markdown, figures, csv, parquet } = study
        .report(&name)
        .map_err(|reason| Failure::Failed(format!("{}: {reason}", path.display())))?;
    let directory = options.output.clone().unwrap_or_else(|| {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        path.with_file_name(format!("{stem}-report"))
    });
    let write = |name: &str, content: &[u8]| {
        let file = directory.join(name);
        fs::write(&file, content).map_err(|error| Failure::file(file.display(), &error))
    };
    fs::create_dir_all(directory.join("figures"))
        .map_err(|error| Failure::file(directory.display(), &error))?;
    for (name, svg) in figures {
        write(&format!("figures/{name}"), svg.as_bytes())?;
    }
    write("runs.csv", csv.as_bytes())?;
    write("runs.parquet", &parquet)?;
    write("report.md", markdown.as_bytes())?;
    write("report.html", html.as_bytes())?;
    Ok(output::print_line(&directory.join("report.html").display().to_string())?)
}

/// Files of results: those that are named, and those in directories that are named.
fn result_files(paths: &[PathBuf]) -> Outcome<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let entries = fs::read_dir(path).map_err(|error| Failure::input(path.display(), error))?;
        let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        found.retain(|file| file.extension().is_some_and(|extension| extension == "sqlite"));
        found.sort();
        // Other databases in the directory are none of ours.
        files.extend(found.into_iter().filter(|file| Results::open(file).is_ok()));
    }
    Ok(files)
}

fn list(options: &ListOptions) -> Outcome {
    let mut table = Table::new(&["RESULTS", "EXPERIMENT", ">RUNS", ">OF", ">FAILED", ">SECONDS"]);
    let mut values = Vec::new();
    for file in result_files(&options.paths)? {
        let study = Study::read(&results_file::open(&file)?)?;
        let name = file.display().to_string();
        let planned = study.experiment.design.cells().len() * study.experiment.replications;
        let lost: Vec<_> = study.runs.iter().filter(|run| run.error.is_some()).collect();
        let spent_ms: u64 = study.runs.iter().map(|run| run.duration_ms).sum();
        if options.json {
            let lost: Vec<Value> = lost
                .iter()
                .map(|run| {
                    json!({
                        "levels": study.experiment.levels(run.cell),
                        "replication": run.replication,
                        "error": run.error,
                        "log": run.log,
                    })
                })
                .collect();
            values.push(json!({
                "results": name,
                "experiment": study.experiment.name,
                "runs": study.runs.len(),
                "planned": planned,
                "duration_ms": spent_ms,
                "failed": lost,
            }));
            continue;
        }
        if options.failed {
            for run in lost {
                let cell = study.experiment.design.describe(run.cell);
                let reason = run.error.as_deref().unwrap_or_default();
                let number = run.replication + 1;
                output::print_line(&format!("{name}: {cell}, replication {number}: {reason}"))?;
                for line in run.log.iter().flat_map(|log| log.lines()) {
                    output::print_line(&format!("    {}", output::without_control(line)))?;
                }
            }
            continue;
        }
        table.row(vec![
            name,
            study.experiment.name.clone(),
            study.runs.len().to_string(),
            planned.to_string(),
            lost.len().to_string(),
            format!("{:.1}", spent_ms as f64 / 1000.0),
        ]);
    }
    if options.json {
        return Ok(output::print_json(&Value::Array(values))?);
    }
    if !options.failed {
        table.print("no results")?;
    }
    Ok(())
}

impl From<ResultsError> for Failure {
    fn from(error: ResultsError) -> Self {
        if matches!(error, ResultsError::Database { .. } | ResultsError::Io { .. }) {
            Self::Failed(error.to_string())
        } else {
            Self::Usage(error.to_string())
        }
    }
}
