//! `namewire model measure` and `calibrate`: campaigns of runs, and what follows from them.

#![allow(
    clippy::cast_possible_truncation,
    reason = "small counts, and times below 2^53 nanoseconds"
)]

use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Args, FromArgMatches as _};
use ndn_model::assembly::Placement;
use ndn_model::calibrate::{
    Calibration, EFFECTS, Rig, Run, Setting, calibrate as calibrate_runs, half_width, probe_effect,
};
use ndn_model::random::{StreamId, TraceRandom};
use ndn_model::special::normal_quantile;
use ndn_sys::clock;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::super::machine::machine;
use super::forwarder::{QUEUE, TURN_NS, Window, load, measure, note_progress, places, processors};
use super::host::Yardstick;
use super::left_out::{self, Tries};
use super::question::{PlacementName, read, share, usage};
use crate::cli::arguments::{at_least_one, duration, size};
use crate::cli::failure::{Failure, Outcome};
use crate::cli::interrupt::on_interrupt;
use crate::cli::output::{self, Table};

#[derive(Args, Debug, Clone)]
pub(super) struct MeasureOptions {
    /// Campaign file; an interrupted campaign is continued, with the options that it was begun with
    file: PathBuf,
    /// Numbers of workers
    #[arg(long, value_delimiter = ',', default_value = "1,2", value_parser = at_least_one::<NonZeroUsize>)]
    workers: Vec<NonZeroUsize>,
    /// Numbers of name components
    #[arg(long, value_delimiter = ',', default_value = "3,13")]
    components: Vec<usize>,
    /// Sizes of content
    #[arg(long, value_name = "SIZE,..", value_delimiter = ',', default_value = "0B,1200B", value_parser = size(0..=PAYLOAD_MAX))]
    payload: Vec<usize>,
    /// Shares of the Interests that the Content Store answers
    #[arg(long, value_delimiter = ',', default_value = "0,0.5", value_parser = share)]
    hits: Vec<f64>,
    /// Numbers of FIB entries
    #[arg(long, value_delimiter = ',', default_value = "64,2048")]
    routes: Vec<usize>,
    /// NUMA nodes of faces and workers: P1 is all on one, P4 has faces on another
    #[arg(long, value_enum, ignore_case = true, value_delimiter = ',', default_value = "P1")]
    placements: Vec<PlacementName>,
    /// Rates, in multiples of a first guess of the capacity
    #[arg(long, value_delimiter = ',', default_value = "0.3,0.6,0.85,1.1,1.4,2")]
    loads: Vec<f64>,
    /// Repetitions of the design
    #[arg(long, default_value = "1", value_parser = at_least_one::<NonZeroUsize>)]
    rounds: NonZeroUsize,
    /// Settings with more than the guessed capacity that are measured three times, for each number of workers: they show how much
    /// runs of a setting differ
    #[arg(long, default_value_t = 3)]
    repeated: usize,
    /// Time before each window
    #[arg(long, value_name = "DURATION", default_value = "250ms", value_parser = duration)]
    warm_up: Duration,
    /// Length of each window
    #[arg(long, value_name = "DURATION", default_value = "400ms", value_parser = duration)]
    duration: Duration,
    /// Seed of the order and of the traffic
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl MeasureOptions {
    /// The options of `model measure FILE --workers WORKERS`.
    fn with_defaults(file: &Path, workers: &[usize]) -> Outcome<Self> {
        let workers: Vec<String> = workers.iter().map(ToString::to_string).collect();
        let line: [OsString; 4] = [
            "measure".into(),
            file.as_os_str().to_owned(),
            "--workers".into(),
            workers.join(",").into(),
        ];
        let matches = Self::augment_args(clap::Command::new("measure")).try_get_matches_from(line);
        Self::from_arg_matches(&matches.map_err(usage)?).map_err(usage)
    }
}

#[derive(Args, Debug)]
pub(super) struct CalibrateOptions {
    /// Campaign file of `model measure`
    campaign: PathBuf,
    /// Write the calibration to this file
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The first line of a campaign file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    campaign: u32,
    namewire: String,
    machine: String,
    processors: usize,
    /// Seconds since 1970.
    begun: u64,
    faces: String,
    queue: usize,
    /// Time between two turns of the generator.
    #[serde(default)]
    turn_ns: u64,
    warm_up: f64,
    seconds: f64,
    seed: u64,
    /// The runs in their order, and whether service times are traced.
    design: Vec<(Setting, bool)>,
}

impl Header {
    /// Runs that were planned.
    pub(super) const fn runs(&self) -> usize {
        self.design.len()
    }
}

/// A calibration with where it comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct CalibrationFile {
    /// Name of the campaign file.
    pub(super) campaign: String,
    pub(super) machine: String,
    pub(super) namewire: String,
    /// Begin of the campaign, UTC.
    pub(super) date: String,
    pub(super) warm_up: f64,
    pub(super) seconds: f64,
    pub(super) calibration: Calibration,
}

const CAMPAIGN_VERSION: u32 = 1;

/// Part of the time of an Interest that a Content Store hit saves: a first guess.
pub(super) const HIT_DISCOUNT: f64 = 0.4;

/// Further runs of a setting that is repeated.
const REPETITIONS: usize = 2;

/// The largest content, in bytes.
pub(super) const PAYLOAD_MAX: usize = 8000;

/// Marks an interruption: the run that is under way is finished.
pub(super) fn interruption() -> Outcome<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&flag);
    on_interrupt(move || set.store(true, Ordering::Relaxed))?;
    Ok(flag)
}

pub(super) fn check_window(warm_up: f64, seconds: f64) -> Outcome<Window> {
    let is_usable = (0.05..=60.0).contains(&warm_up) && (0.1..=60.0).contains(&seconds);
    if !is_usable {
        return Err(usage("--warm-up is from 50ms to 60s, --duration from 100ms to 60s"));
    }
    Ok(Window { warm_up, seconds })
}

pub(super) fn check_setting(setting: &Setting) -> Outcome {
    let wrong = |text: &str| Err(usage(text));
    match () {
        () if !(3..=60).contains(&setting.components) => wrong("name components are from 3 to 60"),
        () if setting.payload > PAYLOAD_MAX => wrong("a payload is at most 8000B"),
        () if !(0.0..1.0).contains(&setting.hit_ratio) => {
            wrong("a share of hits is from 0 to below 1")
        }
        () if !(1..=1_000_000).contains(&setting.routes) => wrong("routes are from 1 to 1,000,000"),
        () if !(setting.rate > 0.0 && setting.rate <= 1e8) => {
            wrong("a rate is above 0, at most 100 M/s")
        }
        () => Ok(()),
    }
}

/// A first guess of the capacity with this many workers: the rate is doubled until not all Interests are satisfied.
fn pilot(workers: usize, window: Window, seed: u64, yardstick: &mut Yardstick) -> Outcome<f64> {
    let mut setting = Setting {
        workers,
        components: 7,
        payload: 600,
        hit_ratio: 0.0,
        routes: 64,
        rate: 25_000.0 * workers as f64,
        placement: Placement::P1,
    };
    loop {
        let run = measure(0, &setting, window, seed, false, yardstick)?;
        let satisfied = run.satisfied as f64 / run.seconds;
        if run.satisfied == 0 {
            return Err(Failure::Failed("the forwarder has satisfied no Interest".to_owned()));
        }
        if satisfied < 0.9 * setting.rate || setting.rate > 5e6 {
            return Ok(satisfied);
        }
        setting.rate *= 2.0;
    }
}

/// All combinations in random order, and some of them again. FIB sizes, placements and tracing alternate over the combinations.
fn design(options: &MeasureOptions, capacities: &[f64]) -> Vec<(Setting, bool)> {
    let mut all = Vec::new();
    for (workers, capacity) in options.workers.iter().zip(capacities) {
        for round in 0..options.rounds.get() {
            for &components in &options.components {
                for &payload in &options.payload {
                    for &hit_ratio in &options.hits {
                        for &load in &options.loads {
                            let number = all.len() as u64;
                            let lot = |stream| {
                                let random = TraceRandom::new(options.seed, round as u32);
                                random.draw(StreamId(stream), number)
                            };
                            let routes = lot(1).below(options.routes.len() as u64) as usize;
                            let placements = options.placements.len() as u64;
                            let placement = lot(4).below(placements) as usize;
                            let setting = Setting {
                                workers: workers.get(),
                                components,
                                payload,
                                hit_ratio,
                                routes: options.routes[routes],
                                rate: (load * capacity / (1.0 - HIT_DISCOUNT * hit_ratio)).round(),
                                placement: options.placements[placement].placement(),
                            };
                            all.push((setting, lot(2).below(2) == 0));
                        }
                    }
                }
            }
        }
    }
    shuffle(&mut all, options.seed, StreamId(3));
    let mut again = Vec::new();
    for (workers, capacity) in options.workers.iter().zip(capacities) {
        let is_overloaded = |setting: &Setting| {
            let load = setting.rate * (1.0 - HIT_DISCOUNT * setting.hit_ratio) / capacity;
            setting.workers == workers.get() && load > 1.001
        };
        let some = all.iter().filter(|(setting, _)| is_overloaded(setting)).take(options.repeated);
        again.extend(some.flat_map(|one| [*one; REPETITIONS]));
    }
    all.extend(again);
    shuffle(&mut all, options.seed, StreamId(5));
    all
}

fn shuffle<T>(all: &mut [T], seed: u64, stream: StreamId) {
    for last in (1..all.len()).rev() {
        let mut draw = TraceRandom::new(seed, u32::MAX).draw(stream, last as u64);
        all.swap(last, draw.below(last as u64 + 1) as usize);
    }
}

fn begin(options: &MeasureOptions) -> Outcome<Header> {
    let window = check_window(options.warm_up.as_secs_f64(), options.duration.as_secs_f64())?;
    let count = processors()?.len();
    for (what, is_empty) in [
        ("--components", options.components.is_empty()),
        ("--payload", options.payload.is_empty()),
        ("--hits", options.hits.is_empty()),
        ("--routes", options.routes.is_empty()),
        ("--placements", options.placements.is_empty()),
        ("--loads", options.loads.is_empty()),
    ] {
        if is_empty {
            return Err(usage(format_args!("{what} has at least one value")));
        }
    }
    for placement in &options.placements {
        let workers = options.workers.iter().map(|workers| workers.get()).max().unwrap_or(1);
        places(workers, placement.placement())?;
    }
    if let Some(workers) = options.workers.iter().find(|workers| workers.get() > count) {
        return Err(usage(format_args!(
            "--workers {workers}: this process may use {count} processors, and each worker needs one"
        )));
    }
    // Faults of settings are found before anything is measured.
    let any_capacity = vec![1e6; options.workers.len()];
    design(options, &any_capacity).iter().try_for_each(|(setting, _)| check_setting(setting))?;
    let mut capacities = Vec::new();
    let mut yardstick = Yardstick::default();
    for workers in &options.workers {
        output::note(&format_args!("first guess of the capacity of {workers} workers"));
        capacities.push(pilot(workers.get(), window, options.seed << 32, &mut yardstick)?);
    }
    let design = design(options, &capacities);
    design.iter().try_for_each(|(setting, _)| check_setting(setting))?;
    Ok(Header {
        campaign: CAMPAIGN_VERSION,
        namewire: env!("CARGO_PKG_VERSION").to_owned(),
        machine: machine(),
        processors: count,
        begun: clock::wall_clock().as_secs(),
        faces: "memory".to_owned(),
        queue: QUEUE,
        turn_ns: TURN_NS,
        warm_up: window.warm_up,
        seconds: window.seconds,
        seed: options.seed,
        design,
    })
}

/// Reads a campaign.
pub(super) fn load_campaign(path: &Path) -> Outcome<(Header, Vec<Run>)> {
    let (header, runs): (Header, _) = load_runs(path, "a campaign")?;
    if header.campaign != CAMPAIGN_VERSION {
        let place = format!("{}: line 1", path.display());
        let version = header.campaign;
        return Err(usage(format_args!("{place}: version {version} of a campaign is unknown")));
    }
    Ok((header, runs))
}

/// Reads a file of runs after a head. A last line without an end was interrupted, and is left out.
pub(super) fn load_runs<H: DeserializeOwned>(path: &Path, what: &str) -> Outcome<(H, Vec<Run>)> {
    let text = read(path)?;
    let wrong = |line: usize, reason: &dyn std::fmt::Display| {
        usage(format_args!("{}: line {line}: {reason}", path.display()))
    };
    let mut lines = text.split_inclusive('\n').enumerate();
    let Some((_, first)) = lines.next() else {
        return Err(usage(format_args!("{}: not {what}: it is empty", path.display())));
    };
    let header: H = serde_json::from_str(first).map_err(|error| match kind(first) {
        Some(other) if other != what => wrong(1, &format_args!("{other}, not {what}")),
        _ => wrong(1, &format_args!("not the head of {what}: {error}")),
    })?;
    let mut runs = Vec::new();
    for (index, line) in lines.filter(|(_, line)| line.ends_with('\n')) {
        let run: Run = serde_json::from_str(line).map_err(|error| wrong(index + 1, &error))?;
        runs.push(run);
    }
    Ok((header, runs))
}

/// The kind of a file of runs, by its first line.
fn kind(first: &str) -> Option<&'static str> {
    let head: serde_json::Value = serde_json::from_str(first).ok()?;
    let kinds = [("validation", "a validation"), ("design", "a campaign")];
    kinds.into_iter().find(|(key, _)| head.get(key).is_some()).map(|(_, kind)| kind)
}

/// A file that runs are written to, as they are done.
#[derive(Debug)]
pub(super) struct RunsFile {
    file: fs::File,
    path: PathBuf,
}

impl RunsFile {
    /// Begins a file with its head.
    pub(super) fn create(path: &Path, head: &impl Serialize) -> Outcome<Self> {
        let file = fs::File::create(path).map_err(|error| Failure::file(path.display(), &error))?;
        let mut own = Self { file, path: path.to_owned() };
        own.write(head)?;
        Ok(own)
    }

    /// Continues a file. A line that was interrupted is written again.
    pub(super) fn append(path: &Path) -> Outcome<Self> {
        let on_disk = |error: std::io::Error| Failure::file(path.display(), &error);
        let kept = fs::read_to_string(path).map_err(on_disk)?;
        let length = kept.rfind('\n').map_or(0, |end| end + 1);
        let file = fs::OpenOptions::new().append(true).open(path).map_err(on_disk)?;
        file.set_len(length as u64).map_err(on_disk)?;
        Ok(Self { file, path: path.to_owned() })
    }

    /// Writes a line.
    pub(super) fn write(&mut self, value: &impl Serialize) -> Outcome {
        let mut line = serde_json::to_string(value).map_err(usage)?;
        line.push('\n');
        let written = self.file.write_all(line.as_bytes());
        written.map_err(|error| Failure::file(self.path.display(), &error))
    }
}

/// Runs are only comparable if they were measured with the same queues and turns of the generator.
fn check_equipment(path: &Path, header: &Header) -> Outcome {
    if (header.queue, header.turn_ns) == (QUEUE, TURN_NS) {
        return Ok(());
    }
    Err(usage(format_args!(
        "{}: a campaign with queues of {} packets and turns of {} us; this version measures with {QUEUE} packets and {} us: \
         use another file, or remove this one",
        path.display(),
        header.queue,
        header.turn_ns / 1000,
        TURN_NS / 1000
    )))
}

pub(super) fn run_measure(options: &MeasureOptions) -> Outcome {
    let path = &options.file;
    let (header, runs, mut file) = if path.exists() {
        let (header, runs) = load_campaign(path)?;
        if header.machine != machine() {
            return Err(usage(format_args!(
                "{}: a campaign of another machine ({}); this is {}",
                path.display(),
                header.machine,
                machine()
            )));
        }
        if runs.len() < header.design.len() {
            check_equipment(path, &header)?;
        }
        output::note(&format_args!(
            "{}: {} of {} runs are done; the options are those that the campaign was begun with",
            path.display(),
            runs.len(),
            header.design.len()
        ));
        (header, runs, RunsFile::append(path)?)
    } else {
        let header = begin(options)?;
        let file = RunsFile::create(path, &header)?;
        (header, Vec::new(), file)
    };
    let window = check_window(header.warm_up, header.seconds)?;
    let interrupted = interruption()?;
    let begin_ns = clock::now();
    let total = header.design.len() - runs.len();
    let mut yardstick = Yardstick::of(runs.iter().map(|run| &run.host));
    let mut measured: Vec<Run> = Vec::new();
    for (number, (setting, is_traced)) in header.design.iter().enumerate().skip(runs.len()) {
        if interrupted.load(Ordering::Relaxed) {
            output::note(&format_args!("the same command continues with run {number}"));
            return Err(Failure::Interrupted);
        }
        let seed = (header.seed << 32) + ((number as u64 + 2) << 16);
        let run = measure(number, setting, window, seed, *is_traced, &mut yardstick)?;
        file.write(&run)?;
        let done = number + 1 - runs.len();
        note_progress(done, total, begin_ns, &summary(&run));
        measured.push(run);
    }
    note_stalls(runs.iter().chain(&measured));
    Tries::of(runs.iter().chain(&measured)).lines().iter().for_each(|line| output::note(line));
    output::note(&format_args!(
        "{} runs in {}; the load of the machine is {:.1}",
        header.design.len(),
        path.display(),
        load()
    ));
    Ok(())
}

/// A run in a line.
fn summary(run: &Run) -> String {
    let setting = &run.setting;
    format!(
        "{} workers, {} components, {} bytes, {} hits, {:.0}/s: {:.2} % unsatisfied, {} tries discarded",
        setting.workers,
        setting.components,
        setting.payload,
        setting.hit_ratio,
        setting.rate,
        100.0 * run.unsatisfied(),
        run.discarded
    )
}

fn note_stalls<'r>(runs: impl Iterator<Item = &'r Run>) {
    let (mut seconds, mut late_s) = (0.0, 0.0);
    for run in runs {
        seconds += run.seconds;
        late_s += Duration::from_nanos(run.generator_stalls.total_ns).as_secs_f64();
    }
    output::note(&format_args!(
        "the generator was late by 0.5 ms or more for {:.2} % of the time",
        100.0 * late_s / seconds
    ));
}

pub(super) fn run_calibrate(options: &CalibrateOptions) -> Outcome {
    let (file, tries) = calibrate(&options.campaign, &options.output)?;
    report(&file, &tries, options.json)
}

/// Measures this machine with the default settings of `model measure`, and calibrates: the campaign and the calibration
/// are beside `other`, the calibration of another machine. An interrupted campaign is continued.
pub(super) fn recalibrate(other: &Path, workers: &[usize]) -> Outcome<CalibrationFile> {
    let campaign = other.with_extension("here.jsonl");
    if campaign.exists() {
        check_equipment(&campaign, &load_campaign(&campaign)?.0)?;
    }
    run_measure(&MeasureOptions::with_defaults(&campaign, workers)?)?;
    Ok(calibrate(&campaign, &other.with_extension("here.toml"))?.0)
}

/// Warns that what a file says is of another machine.
pub(super) fn note_other_machine(path: &dyn std::fmt::Display, measured: &str) {
    if measured != machine() {
        let here = machine();
        output::warn(&format_args!("{path}: of another machine ({measured}); this is {here}"));
    }
}

/// Calibrates by a campaign and writes the calibration.
fn calibrate(campaign: &Path, output: &Path) -> Outcome<(CalibrationFile, Tries)> {
    let (header, runs) = load_campaign(campaign)?;
    let path = campaign.display();
    if runs.len() < header.design.len() {
        let done = format!("{} of {} runs are done", runs.len(), header.design.len());
        output::warn(&format_args!("{path}: {done}; `model measure` continues it"));
    }
    note_other_machine(&path, &header.machine);
    let rig = Rig {
        queue: header.queue,
        processors: header.processors,
        turn_ns: header.turn_ns,
        warm_up: header.warm_up,
    };
    let calibration =
        calibrate_runs(&runs, &rig).map_err(|error| usage(format_args!("{path}: {error}")))?;
    let file = CalibrationFile {
        campaign: campaign
            .file_name()
            .map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
        machine: header.machine,
        namewire: header.namewire,
        date: utc(header.begun),
        warm_up: header.warm_up,
        seconds: header.seconds,
        calibration,
    };
    let text = toml::to_string(&file).map_err(usage)?;
    fs::write(output, text).map_err(|error| Failure::file(output.display(), &error))?;
    Ok((file, Tries::of(&runs)))
}

fn report(file: &CalibrationFile, tries: &Tries, is_json: bool) -> Outcome {
    let calibration = &file.calibration;
    let setting = Setting {
        workers: calibration.ranges.workers.0,
        components: 7,
        payload: 600,
        hit_ratio: 0.0,
        routes: 64,
        rate: 1.0,
        placement: Placement::P1,
    };
    let probe = probe_effect(calibration, &setting);
    let deviation =
        |index: usize| half_width(calibration.replicates.iter().map(|one| one[index]).collect());
    if is_json {
        let effects: Vec<_> = EFFECTS
            .iter()
            .enumerate()
            .map(|(index, name)| {
                json!({ "effect": name, "ns": calibration.effects[index], "deviation_ns": deviation(index) })
            })
            .collect();
        return Ok(output::print_json(&json!({
            "machine": file.machine,
            "date": file.date,
            "runs": calibration.runs,
            "tries": tries.json(),
            "left_out": calibration.left_out,
            "effects": effects,
            "residual": calibration.residual,
            "slowdown_exponent": calibration.slowdown_exponent,
            "transfers": calibration.transfers,
            "latency_residual": calibration.latency_residual,
            "throughput": calibration.throughput,
            "wake_up_ns": calibration.wake_up_ns,
            "probe_effect": probe,
            "pauses": calibration.pauses.as_ref().map(|pauses| {
                json!({
                    "count": pauses.count,
                    "watched_seconds": pauses.seconds,
                    "share": pauses.share,
                    "charged_share": pauses.charged,
                    "share_in_service_times": calibration.pauses_in_services,
                    "mean_interval_ns": pauses.law.interval.mean(),
                    "mean_length_ns": pauses.law.length.mean(),
                    "coinciding": pauses.coinciding,
                    "together": pauses.are_together(),
                    "correlation": pauses.correlation,
                })
            }),
        }))?);
    }
    let mut table = Table::new(&["EFFECT", ">NANOSECONDS", ">DEVIATION"]);
    for (index, name) in EFFECTS.iter().enumerate() {
        let ns = calibration.effects[index];
        table.row(vec![
            name.replace('-', " "),
            format!("{ns:.1}"),
            format!("{:.1}", deviation(index)),
        ]);
    }
    table.print("no effects")?;
    output::print_line(&format!(
        "{} runs; one deviates by {:.1} % from these effects; measuring service times costs {:.1} %",
        calibration.runs,
        100.0 * calibration.residual,
        100.0 * probe
    ))?;
    output::print_line(&format!(
        "p99 latency of a run deviates by {:.1} %; times follow the reference load to the power of {:.2}",
        100.0 * calibration.latency_residual,
        calibration.slowdown_exponent
    ))?;
    for (of, workers) in calibration.transfers.iter().zip(["one worker", "several workers"]) {
        if of.usual_ns > 0.0 {
            output::print_line(&format!(
                "with {workers}, a transfer between processors takes {:.0} ns, and differs by {:.0} ns between runs; each of these \
                 costs {:.2} ns for an Interest and its Data",
                of.usual_ns, of.deviation_ns, of.effect
            ))?;
        }
    }
    print_throughput(calibration)?;
    print_pauses(calibration)?;
    let left_out = left_out::lines(&calibration.left_out);
    tries.lines().iter().chain(&left_out).try_for_each(|line| output::print_line(line))?;
    Ok(())
}

fn print_throughput(calibration: &Calibration) -> Outcome {
    for (of, owner) in calibration.throughput.iter().zip(["of its own", "of a worker"]) {
        if of.runs == 0 {
            continue;
        }
        let normal = normal_quantile(0.975);
        let [low, high] = of.deviations_at(0.95);
        output::print_line(&format!(
            "{} runs with losses whose generator has a processor {owner}, and {} without: their capacity is {:.3} times that of \
             the model, and 95 % are within {:.2} and {:.2} times that",
            of.runs,
            of.capacities.len() - of.runs,
            of.factor,
            (-normal * low).exp(),
            (normal * high).exp()
        ))?;
        if let Some(deviation) = of.repeated_deviation {
            let deviation = 100.0 * deviation;
            output::print_line(&format!("runs of the same setting differ by {deviation:.1} %"))?;
        }
    }
    Ok(())
}

fn print_pauses(calibration: &Calibration) -> Outcome {
    let Some(pauses) = &calibration.pauses else {
        return Ok(output::print_line("no pauses of processors were seen")?);
    };
    let coinciding = pauses.coinciding.map_or_else(String::new, |share| {
        let together = if pauses.are_together() { "common to all" } else { "of each by itself" };
        format!("; {:.0} % coincide: modelled as {together}", 100.0 * share)
    });
    output::print_line(&format!(
        "pauses take {:.2} % of a processor ({:.2} % counted as processor time), {:.2} ms each, every {:.1} ms{coinciding}",
        100.0 * pauses.share,
        100.0 * pauses.charged,
        pauses.law.length.mean() / 1e6,
        (pauses.law.length.mean() + pauses.law.interval.mean()) / 1e6,
    ))?;
    output::print_line(&format!(
        "{} pauses in {:.0} s of watching; an interval correlates with the next one by {:.2}; of service times, {:.2} % are \
         as long as pauses",
        pauses.count,
        pauses.seconds,
        pauses.correlation,
        100.0 * calibration.pauses_in_services,
    ))?;
    Ok(())
}

/// Reads a calibration.
pub(super) fn load_calibration(path: &Path) -> Outcome<CalibrationFile> {
    let text = read(path)?;
    let file: CalibrationFile = toml::from_str(&text).map_err(|error| {
        usage(format_args!("{}: not a calibration: {}", path.display(), error.message()))
    })?;
    match file.calibration.fault() {
        Some(fault) => Err(usage(format_args!("{}: not a calibration: {fault}", path.display()))),
        None => Ok(file),
    }
}

/// A time in UTC, to the minute.
fn utc(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Years that begin in March: the leap day is their last (Richards: "Mapping time", 1998).
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", rest / 3600, rest % 3600 / 60)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: MeasureOptions,
    }

    fn options(arguments: &[&str]) -> MeasureOptions {
        let line = ["measure", "campaign.jsonl"].iter().chain(arguments).copied();
        Line::try_parse_from(line).unwrap().options
    }

    #[test]
    fn design_has_every_combination_in_random_order() {
        let options = options(&[]);
        let all = design(&options, &[100e3, 150e3]);
        assert_eq!(all.len(), 2 * 2 * 2 * 2 * 6 + 2 * 3 * 2);
        assert_eq!(all, design(&options, &[100e3, 150e3]));
        for (workers, capacity) in [(1, 100e3), (2, 150e3)] {
            let same = |one: &(Setting, bool)| all.iter().filter(|other| *other == one).count();
            let often = all.iter().filter(|one| one.0.workers == workers && same(one) == 3);
            let is_overloaded = |(one, _): &(Setting, bool)| {
                one.rate * (1.0 - HIT_DISCOUNT * one.hit_ratio) > capacity
            };
            assert!(often.clone().all(is_overloaded));
            assert_eq!(often.count(), 9);
        }
        let sorted = all.windows(2).filter(|pair| pair[0].0.workers <= pair[1].0.workers).count();
        assert!(sorted < all.len() - 5, "runs of two workers are not all at the end");
        let traced = all.iter().filter(|(_, is_traced)| *is_traced).count();
        assert!((35..=75).contains(&traced), "{traced}");
    }

    #[test]
    fn options_of_a_calibration_by_itself_are_the_defaults() {
        let own = MeasureOptions::with_defaults(Path::new("campaign.jsonl"), &[1]).unwrap();
        let expected = options(&["--workers", "1"]);
        assert_eq!(format!("{own:?}"), format!("{expected:?}"));
        assert!(MeasureOptions::with_defaults(Path::new("campaign.jsonl"), &[0]).is_err());
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01 00:00 UTC");
        assert_eq!(utc(951_827_696), "2000-02-29 12:34 UTC");
        assert_eq!(utc(1_798_761_599), "2026-12-31 23:59 UTC");
    }

    fn header() -> Header {
        Header {
            campaign: CAMPAIGN_VERSION,
            namewire: String::new(),
            machine: String::new(),
            processors: 2,
            begun: 0,
            faces: "memory".to_owned(),
            queue: QUEUE,
            turn_ns: TURN_NS,
            warm_up: 0.3,
            seconds: 0.5,
            seed: 1,
            design: Vec::new(),
        }
    }

    #[test]
    fn campaign_with_other_equipment_is_not_continued() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("other.here.jsonl");
        let setting = Setting {
            workers: 1,
            components: 7,
            payload: 0,
            hit_ratio: 0.0,
            routes: 64,
            rate: 1000.0,
            placement: Placement::P1,
        };
        let design = vec![(setting, false)];
        let old = Header { machine: machine(), queue: 1024, turn_ns: 0, design, ..header() };
        let text = serde_json::to_string(&old).unwrap() + "\n";
        fs::write(&path, &text).unwrap();
        let own = MeasureOptions::with_defaults(&path, &[1]).unwrap();
        for refused in [
            run_measure(&own).unwrap_err(),
            recalibrate(&directory.path().join("other.toml"), &[1]).unwrap_err(),
        ] {
            assert!(
                refused.to_string().contains("queues of 1024 packets and turns of 0 us"),
                "{refused}"
            );
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }

    #[test]
    fn bad_campaigns_are_refused_with_their_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("campaign");
        let error = |text: &str| {
            fs::write(&path, text).unwrap();
            load_campaign(&path).unwrap_err().to_string()
        };
        assert!(error("").contains("it is empty"));
        assert!(error("{}\n").contains("line 1: not the head of a campaign: missing field"));
        assert!(error("{\"validation\": 2}\n").ends_with("line 1: a validation, not a campaign"));
        let header = header();
        let first = serde_json::to_string(&header).unwrap();
        assert!(error(&format!("{first}\n{{}}\n")).contains("line 2"));
        fs::write(&path, format!("{first}\n{{\"number\": 0, \"se")).unwrap();
        assert_eq!(load_campaign(&path).unwrap(), (header.clone(), Vec::new()));
        let later = Header { campaign: 9, ..header };
        let text = format!("{}\n", serde_json::to_string(&later).unwrap());
        assert!(error(&text).contains("version 9"));
    }
}
