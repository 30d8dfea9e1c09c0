//! `namewire model plan` and `validate`: predictions from a calibration, and their comparison with the forwarder.

#![allow(
    clippy::cast_possible_truncation,
    reason = "small counts, and times below 2^53 nanoseconds"
)]

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::fs;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use ndn_model::assembly::Placement;
use ndn_model::calibrate::{
    CalibrateError, Calibration, CapacityOfRuns, CapacitySearch, LatencyFactors, LeftOut,
    LongTimeCapacity, ModelOfRun, Prediction, Ranks, Run, Setting, Slowdown, Uncertainty,
    half_width, model_text, why_unusable, why_without_latency,
};
use ndn_model::pauses::{PauseProcess, Watch};
use ndn_model::random::{StreamId, TraceRandom};
use ndn_model::special::normal_quantile;
use ndn_sys::clock;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::machine::machine;
use super::campaign::{
    CalibrationFile, PAYLOAD_MAX, RunsFile, check_setting, check_window, interruption,
    load_calibration, load_runs, note_other_machine, recalibrate,
};
use super::forwarder::{QUEUE, TURN_NS, Window, load, measure, note_progress, processors};
use super::host::Yardstick;
use super::left_out::{self, Tries};
use super::question::{PlacementName, percent, share, usage};
use crate::cli::arguments::{at_least_one, size};
use crate::cli::failure::{Failure, Outcome};
use crate::cli::output::{self, Table};

const WORKERS_MAX: usize = 64;
/// Traces of a prediction, of which the median counts.
const TRACES: u32 = 5;
/// Runs of each setting in search of its capacity.
const SEARCHES: usize = 6;

#[derive(Args, Debug)]
pub(super) struct PlanOptions {
    /// Calibration of `model calibrate`
    #[arg(long, value_name = "FILE")]
    calibration: PathBuf,
    /// Interests per second, such as 250k or 2M
    #[arg(long, value_parser = rate)]
    rate: f64,
    /// Components of a name
    #[arg(long)]
    name_components: usize,
    /// Size of content
    #[arg(long, value_name = "SIZE", value_parser = size(0..=PAYLOAD_MAX))]
    payload: usize,
    /// Share of the Interests that the Content Store answers
    #[arg(long, default_value = "0", value_parser = share)]
    hits: f64,
    /// FIB entries
    #[arg(long, default_value_t = 64)]
    routes: usize,
    /// NUMA nodes of faces and workers; others than P1 need a campaign with --placements P1,P4
    #[arg(long, value_enum, ignore_case = true, default_value = "P1")]
    placement: PlacementName,
    /// Share of the Interests that may be unsatisfied
    #[arg(long, default_value = "0.1%", value_parser = percent)]
    unsatisfied: f64,
    /// Probability with which the plan holds; one of 99% needs 99 runs to be by rank
    #[arg(long, default_value = "99%", value_parser = percent)]
    confidence: f64,
    /// Plan for a machine whose processors do not pause
    #[arg(long)]
    without_pauses: bool,
    /// Write the model of the plan to this file, for `model check` and `model explore`
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(super) struct ValidateOptions {
    /// Calibration of `model calibrate`
    #[arg(long, value_name = "FILE")]
    calibration: PathBuf,
    /// Numbers of workers
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    workers: Vec<usize>,
    /// Numbers of name components
    #[arg(long, value_delimiter = ',', default_value = "5,7,11")]
    components: Vec<usize>,
    /// Sizes of content
    #[arg(long, value_name = "SIZE,..", value_delimiter = ',', default_value = "300B,900B", value_parser = size(0..=PAYLOAD_MAX))]
    payload: Vec<usize>,
    /// Shares of the Interests that the Content Store answers, in turn
    #[arg(long, value_delimiter = ',', default_value = "0,0.5", value_parser = share)]
    hits: Vec<f64>,
    /// Rates, in multiples of the predicted capacity
    #[arg(long, value_delimiter = ',', default_value = "0.6,0.8,0.9,1.1,1.25,1.5")]
    loads: Vec<f64>,
    /// Runs at each of these rates, in rounds; the median of a rate is compared
    #[arg(long, default_value = "3", value_parser = at_least_one::<NonZeroUsize>)]
    rounds: NonZeroUsize,
    /// Share of the Interests that is unsatisfied at the capacity
    #[arg(long, default_value = "0.1%", value_parser = percent)]
    unsatisfied: f64,
    /// Probability with which a stated interval contains the measurement
    #[arg(long, default_value = "95%", value_parser = percent)]
    confidence: f64,
    /// Seed of the order and of the traffic
    #[arg(long, default_value_t = 7)]
    seed: u64,
    /// Write the runs to this file; an interrupted validation is continued
    #[arg(long, value_name = "FILE")]
    runs: Option<PathBuf>,
    /// Write the report as JSON to this file
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn rate(text: &str) -> Result<f64, String> {
    let (digits, factor) = match text.as_bytes().last() {
        Some(b'k') => (&text[..text.len() - 1], 1e3),
        Some(b'M') => (&text[..text.len() - 1], 1e6),
        Some(_) | None => (text, 1.0),
    };
    match digits.trim().parse::<f64>() {
        Ok(value) if value > 0.0 && value * factor <= 1e8 => Ok(value * factor),
        Ok(_) | Err(_) => Err("Interests per second up to 100M, such as 250k".to_owned()),
    }
}

fn too_far(error: CalibrateError) -> Failure {
    Failure::Failed(error.to_string())
}

/// A number of workers with its prediction.
struct Candidate {
    setting: Setting,
    capacity: f64,
    /// Bounds of the interval of the capacity.
    low: f64,
    high: f64,
    /// The probability that the capacity is above the rate.
    probability: f64,
}

impl Candidate {
    fn of(
        calibration: &Calibration,
        setting: Setting,
        window: Window,
        unsatisfied: f64,
        confidence: f64,
    ) -> Outcome<Self> {
        let times = (window.warm_up, window.seconds);
        let search = CapacitySearch { calibration, setting, unsatisfied, times };
        let LongTimeCapacity { rate: capacity, of_laws } =
            search.of_long_time().map_err(too_far)?;
        let uncertainty = Uncertainty::of(calibration, &setting);
        let of_laws = of_laws.into_iter().map(f64::ln).collect();
        let others = half_width(of_laws).hypot(uncertainty.transfer_deviation());
        let [below, above] =
            uncertainty.deviations_at(confidence).map(|of_run| of_run.hypot(others));
        let normal = normal_quantile(0.5 + 0.5 * confidence);
        let margin = (capacity / setting.rate).ln();
        let probability = uncertainty.probability(margin, others, confidence);
        let (low, high) = (capacity * (-normal * below).exp(), capacity * (normal * above).exp());
        Ok(Self { setting, capacity, low, high, probability })
    }

    /// Whether it is enough. With just the runs that the confidence needs, the probability is at most that.
    fn is_enough(&self, confidence: f64) -> bool {
        const ROUNDING: f64 = 1e-9;
        self.probability >= confidence - ROUNDING
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { setting, capacity, probability, .. } = self;
        let counted = output::counted(setting.workers as u64, "worker");
        write!(
            formatter,
            "{counted}: {capacity:.0} Interests/s; probability that it is enough: {probability:.4}"
        )
    }
}

fn check_placement(calibration: &Calibration, placement: Placement) -> Outcome {
    if calibration.answers(placement) {
        return Ok(());
    }
    let text =
        "is not answered: the campaign has measured P1 only, without packets in remote memory";
    Err(usage(format_args!(
        "--placement {placement:?} {text} (`model measure --placements P1,P4` on a machine with two NUMA nodes)"
    )))
}

pub(super) fn plan(options: &PlanOptions) -> Outcome {
    let file = load_calibration(&options.calibration)?;
    note_other_machine(&options.calibration.display(), &file.machine);
    // The plan is for a machine on which every worker has a processor of its own.
    let mut calibration = file.calibration.clone().without_generator();
    if options.without_pauses {
        calibration = calibration.without_pauses();
    }
    let placement = options.placement.placement();
    check_placement(&calibration, placement)?;
    let window = Window { warm_up: 0.1, seconds: 0.2 };
    let mut considered: Vec<Candidate> = Vec::new();
    output::note(&"simulating numbers of workers, some of which take some seconds each");
    for workers in 1..=WORKERS_MAX {
        let setting = Setting {
            workers,
            components: options.name_components,
            payload: options.payload,
            hit_ratio: options.hits,
            routes: options.routes,
            rate: options.rate,
            placement,
        };
        check_setting(&setting)?;
        let limit = workers as f64 * 1e9 / calibration.saturated_ns(&setting, None);
        if limit < 0.9 * options.rate {
            continue;
        }
        let candidate =
            Candidate::of(&calibration, setting, window, options.unsatisfied, options.confidence)?;
        output::note(&candidate);
        let is_enough = candidate.is_enough(options.confidence);
        considered.push(candidate);
        if is_enough {
            break;
        }
    }
    let Some(chosen) = considered.last().filter(|one| one.is_enough(options.confidence)) else {
        let text = format!("{WORKERS_MAX} workers are not enough for {} Interests/s", options.rate);
        return Err(Failure::Failed(text));
    };
    let notes = calibration.extrapolations(&chosen.setting);
    let ranks = Uncertainty::of(&calibration, &chosen.setting).ranks(options.confidence);
    if let Some(path) = &options.model {
        let text = model_text(&calibration, &chosen.setting, window.warm_up, window.seconds)
            .map_err(too_far)?;
        fs::write(path, heading(&file) + &text)
            .map_err(|error| Failure::file(path.display(), &error))?;
    }
    if options.json {
        let candidates: Vec<Value> = considered
            .iter()
            .map(|one| {
                json!({
                    "workers": one.setting.workers,
                    "capacity": one.capacity,
                    "from": one.low,
                    "to": one.high,
                    "probability": one.probability,
                })
            })
            .collect();
        return Ok(output::print_json(&json!({
            "workers": chosen.setting.workers,
            "placement": placement,
            "probability": chosen.probability,
            "is_by_rank": ranks.suffice(),
            "runs_at_risk": ranks.runs,
            "runs_needed": ranks.needed,
            "margin": chosen.capacity / options.rate - 1.0,
            "extrapolations": notes,
            "pauses": calibration.pauses.as_ref().map(|pauses| pauses.share),
            "machine": file.machine,
            "campaign": file.campaign,
            "date": file.date,
            "considered": candidates,
        }))?);
    }
    print_plan(&considered, chosen, options, &file)?;
    output::print_line(&basis(ranks, options.confidence))?;
    if let Some(pauses) = &calibration.pauses {
        output::print_line(&format!(
            "processors pause for {:.2} % of the time, as measured; --without-pauses plans for others",
            100.0 * pauses.share
        ))?;
    }
    for note in notes {
        output::print_line(&format!("extrapolated: {note}"))?;
    }
    Ok(())
}

fn print_plan(
    considered: &[Candidate],
    chosen: &Candidate,
    options: &PlanOptions,
    file: &CalibrationFile,
) -> Outcome {
    let mut table = Table::new(&[">WORKERS", ">CAPACITY/s", ">FROM", ">TO", ">PROBABILITY"]);
    for one in considered {
        let rates = [one.capacity, one.low, one.high].map(|rate| format!("{rate:.0}"));
        let mut row = vec![one.setting.workers.to_string()];
        row.extend(rates);
        row.push(format!("{:.4}", one.probability));
        table.row(row);
    }
    table.print("no candidates")?;
    output::print_line(&format!(
        "workers: {}, placement {:?} ({}): {:+.0} % above the rate, with probability {:.4}",
        chosen.setting.workers,
        chosen.setting.placement,
        options.placement.meaning(),
        100.0 * (chosen.capacity / options.rate - 1.0),
        chosen.probability
    ))?;
    output::print_line(&format!(
        "calibrated by {} of {}, {}",
        file.campaign, file.date, file.machine
    ))?;
    output::print_line(
        "measured with faces in memory: the kernel's part of sockets is not included",
    )?;
    Ok(())
}

/// A line that states whether the probability of a plan is by rank.
fn basis(ranks: Ranks, confidence: f64) -> String {
    let percent = (1e6 * confidence).round() / 1e4;
    let Ranks { runs, needed } = ranks;
    if ranks.suffice() {
        return format!(
            "the probability is by rank: {percent} % needs {needed} runs, and {runs} of the campaign count"
        );
    }
    if runs == 0 {
        return "the probability is not by rank: no run of the campaign loses Interests, so that a distribution is assumed"
            .to_owned();
    }
    format!(
        "the probability is not by rank: {percent} % needs {needed} runs, and {runs} of the campaign count; below the slowest \
         of them, a distribution is assumed"
    )
}

/// The origin of a model, as a comment.
fn heading(file: &CalibrationFile) -> String {
    format!(
        "# Calibrated by {}, begun {}, on {}, with namewire {}.\n",
        file.campaign, file.date, file.machine, file.namewire
    )
}

/// A held-out setting.
struct Case {
    setting: Setting,
    predicted: CapacityOfRuns,
    /// Those at the planned rates, then those in search of the capacity.
    runs: Vec<Run>,
    /// The machine during each of them.
    slowdowns: Vec<Slowdown>,
    /// Whether each of them is used: other programs did not take a processor.
    is_used: Vec<bool>,
    /// Number of those at the planned rates.
    planned: usize,
}

/// The first line of the file of a validation.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ValidationHead {
    validation: u32,
    machine: String,
    campaign: String,
    date: String,
    settings: Vec<Setting>,
    loads: Vec<f64>,
    rounds: usize,
    unsatisfied: f64,
    confidence: f64,
    seed: u64,
    /// Capacities of the settings.
    predicted: Vec<CapacityOfRuns>,
}

const VALIDATION_VERSION: u32 = 3;

/// Distance of a measured number from its prediction.
struct Compared {
    predicted: f64,
    measured: f64,
}

impl Compared {
    fn error(&self) -> f64 {
        self.measured / self.predicted - 1.0
    }
}

impl Case {
    /// The numbers of the runs at each rate: as many as rounds at a planned one, single ones in search of the capacity.
    fn rates(&self) -> Vec<Vec<usize>> {
        let mut all: Vec<Vec<usize>> = Vec::new();
        for (number, run) in self.runs.iter().enumerate() {
            let is_same = |same: &&mut Vec<usize>| {
                let first: &Run = &self.runs[same[0]];
                number < self.planned && first.setting.rate.to_bits() == run.setting.rate.to_bits()
            };
            match all.iter_mut().find(is_same) {
                Some(same) => same.push(number),
                None => all.push(vec![number]),
            }
        }
        all
    }

    /// The rates that would be as high for the machine as it is calibrated as those of the runs were for the machine at that time.
    fn usual_rates(&self) -> impl Iterator<Item = f64> {
        self.runs
            .iter()
            .zip(&self.slowdowns)
            .map(|(run, slowdown)| run.setting.rate * slowdown.forwarder)
    }

    /// Such rates of the runs that are used, each with whether enough Interests are satisfied.
    fn used(&self, unsatisfied: f64) -> Vec<(f64, bool)> {
        let is_enough = self.runs.iter().map(|run| run.unsatisfied() <= unsatisfied);
        let all = self.usual_rates().zip(is_enough).zip(&self.is_used);
        all.filter(|(_, is_used)| **is_used).map(|(run, _)| run).collect()
    }

    /// The rate that separates runs with enough satisfied Interests from the others with the fewest exceptions: no
    /// single disturbed run decides. None if all runs are on one side.
    fn capacity(&self, unsatisfied: f64) -> Option<f64> {
        let mut runs = self.used(unsatisfied);
        runs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let exceptions = |below: usize| {
            let wrong =
                |(index, (_, is_enough)): (usize, &(f64, bool))| (index < below) != *is_enough;
            runs.iter().enumerate().filter(|one| wrong(*one)).count()
        };
        let least = (0..=runs.len()).map(exceptions).min()?;
        let best: Vec<usize> =
            (0..=runs.len()).filter(|below| exceptions(*below) == least).collect();
        let (first, last) = (*best.first()?, *best.last()?);
        let low = runs.get(first.checked_sub(1)?)?.0;
        let high = runs.get(last)?.0;
        Some((low * high).sqrt())
    }

    /// The rate to measure next: around the capacity as far as it is known.
    fn next_rate(&self, unsatisfied: f64, search: usize) -> f64 {
        const AROUND: [f64; 4] = [0.97, 1.03, 0.94, 1.06];
        let around = AROUND[search % AROUND.len()];
        if let Some(rate) = self.capacity(unsatisfied) {
            return rate * around;
        }
        let used = self.used(unsatisfied);
        let rates = used.iter().map(|(rate, _)| *rate);
        if used.is_empty() {
            self.predicted.rate * around
        } else if used.iter().all(|(_, is_enough)| *is_enough) {
            1.2 * rates.fold(self.predicted.rate, f64::max)
        } else {
            0.8 * rates.fold(self.predicted.rate, f64::min)
        }
    }
}

/// Applies a function to all, on a thread for each processor, until it is interrupted.
fn on_threads<T: Sync, R: Send>(
    all: &[T],
    interrupted: &AtomicBool,
    apply: impl Fn(&T) -> Outcome<R> + Sync,
) -> Outcome<Vec<R>> {
    let threads = processors()?.len().clamp(1, all.len().max(1));
    let mut done: Vec<(usize, Outcome<R>)> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|thread| {
                let own = all.iter().enumerate().skip(thread).step_by(threads);
                let apply = &apply;
                let apply = move |(index, one)| {
                    let is_interrupted = interrupted.load(Ordering::Relaxed);
                    (index, if is_interrupted { Err(Failure::Interrupted) } else { apply(one) })
                };
                scope.spawn(move || own.map(apply).collect::<Vec<_>>())
            })
            .collect();
        let panicked = || Err(Failure::Failed("a thread has panicked".to_owned()));
        let parts = handles.into_iter().map(std::thread::ScopedJoinHandle::join);
        parts.flat_map(|part| part.unwrap_or_else(|_| vec![(0, panicked())])).collect()
    });
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

fn settings(options: &ValidateOptions) -> Outcome<Vec<Setting>> {
    if options.loads.is_empty() || options.loads.iter().any(|load| !(0.01..=10.0).contains(load)) {
        return Err(usage("--loads has at least one value, each from 0.01 to 10"));
    }
    let mut settings = Vec::new();
    for &workers in &options.workers {
        for &components in &options.components {
            for &payload in &options.payload {
                let hit_ratio = options.hits.get(settings.len() % options.hits.len().max(1));
                let hit_ratio = *hit_ratio.ok_or_else(|| usage("--hits has at least one value"))?;
                let setting = Setting {
                    workers,
                    components,
                    payload,
                    hit_ratio,
                    routes: 64,
                    rate: 1.0,
                    placement: Placement::P1,
                };
                check_setting(&setting)?;
                settings.push(setting);
            }
        }
    }
    Ok(settings)
}

/// Predicts the capacities of the held-out settings.
fn begin(
    options: &ValidateOptions,
    settings: Vec<Setting>,
    file: &CalibrationFile,
    window: Window,
    interrupted: &AtomicBool,
) -> Outcome<ValidationHead> {
    let times = (window.warm_up, window.seconds);
    let ValidateOptions { unsatisfied, confidence, .. } = *options;
    output::note(&format_args!("predicting the capacities of {} settings", settings.len()));
    let predicted = on_threads(&settings, interrupted, |setting| {
        let (calibration, setting) = (&file.calibration, *setting);
        let search = CapacitySearch { calibration, setting, unsatisfied, times };
        search.of_runs(confidence).map_err(too_far)
    })?;
    Ok(ValidationHead {
        validation: VALIDATION_VERSION,
        machine: machine(),
        campaign: file.campaign.clone(),
        date: file.date.clone(),
        settings,
        loads: options.loads.clone(),
        rounds: options.rounds.get(),
        unsatisfied,
        confidence,
        seed: options.seed,
        predicted,
    })
}

/// The head of a validation, the runs that are done, and the file of further ones.
fn begin_or_continue(
    options: &ValidateOptions,
    file: &CalibrationFile,
    window: Window,
    interrupted: &AtomicBool,
) -> Outcome<(ValidationHead, VecDeque<Run>, Option<RunsFile>)> {
    let settings = settings(options)?;
    let Some(path) = &options.runs else {
        return Ok((begin(options, settings, file, window, interrupted)?, VecDeque::new(), None));
    };
    if !path.exists() {
        let head = begin(options, settings, file, window, interrupted)?;
        let runs = RunsFile::create(path, &head)?;
        return Ok((head, VecDeque::new(), Some(runs)));
    }
    let (head, done): (ValidationHead, Vec<Run>) = load_runs(path, "a validation")?;
    if head.validation != VALIDATION_VERSION {
        return Err(usage(format_args!(
            "{}: version {} of a validation, but this namewire continues version {VALIDATION_VERSION}: use another file",
            path.display(),
            head.validation
        )));
    }
    let is_same = head.machine == machine()
        && (&head.campaign, &head.date) == (&file.campaign, &file.date)
        && (&head.settings, &head.loads) == (&settings, &options.loads)
        && head.rounds == options.rounds.get()
        && head.predicted.len() == settings.len()
        && head.unsatisfied.to_bits() == options.unsatisfied.to_bits()
        && head.confidence.to_bits() == options.confidence.to_bits()
        && head.seed == options.seed;
    if !is_same {
        let text = "runs of another validation: of another machine, calibration, or other options";
        return Err(usage(format_args!("{}: {text}", path.display())));
    }
    output::note(&format_args!("{}: {} runs are done", path.display(), done.len()));
    Ok((head, done.into(), Some(RunsFile::append(path)?)))
}

/// Runs are comparable with a calibration if its campaign measured as this version does.
fn check_rig(calibration: &Calibration) -> Outcome {
    if (calibration.queue, calibration.turn_ns) == (QUEUE, TURN_NS) {
        return Ok(());
    }
    Err(usage(format_args!(
        "the calibration is of queues of {} packets and a generator with turns of {} us, but this version measures with {QUEUE} \
         packets and {} us: `model measure` a new campaign",
        calibration.queue,
        calibration.turn_ns / 1000,
        TURN_NS / 1000
    )))
}

/// Every rate of every case, as often as there are rounds: in random order within each of them.
fn planned_runs(cases: usize, loads: &[f64], rounds: usize, seed: u64) -> Vec<(usize, f64)> {
    let mut all = Vec::new();
    for round in 0..rounds {
        let rates = (0..cases).flat_map(|case| loads.iter().map(move |load| (case, *load)));
        let mut order: Vec<(usize, f64)> = rates.collect();
        for last in (1..order.len()).rev() {
            let random = TraceRandom::new(seed, round as u32);
            let mut draw = random.draw(StreamId(0), last as u64);
            order.swap(last, draw.below(last as u64 + 1) as usize);
        }
        all.extend(order);
    }
    all
}

pub(super) fn validate(options: &ValidateOptions) -> Outcome {
    let mut file = load_calibration(&options.calibration)?;
    if file.machine != machine() {
        output::note(&format_args!(
            "{}: calibrated on {}, but this is {}: measuring and calibrating here first",
            options.calibration.display(),
            file.machine,
            machine()
        ));
        file = recalibrate(&options.calibration, &options.workers)?;
    }
    check_rig(&file.calibration)?;
    let window = check_window(file.warm_up, file.seconds)?;
    let interrupted = interruption()?;
    let (head, mut done, mut runs_file) = begin_or_continue(options, &file, window, &interrupted)?;
    let each = head.settings.iter().zip(&head.predicted);
    let case = |(setting, predicted): (&Setting, &CapacityOfRuns)| Case {
        setting: *setting,
        predicted: *predicted,
        runs: Vec::new(),
        slowdowns: Vec::new(),
        is_used: Vec::new(),
        planned: options.loads.len() * options.rounds.get(),
    };
    let mut cases: Vec<Case> = each.map(case).collect();
    let mut yardstick = Yardstick::of(done.iter().map(|run| &run.host));
    let order = planned_runs(cases.len(), &options.loads, options.rounds.get(), options.seed);
    let begin_ns = clock::now();
    let mut number = 0;
    let mut run = |case: &mut Case, rate: f64| -> Outcome<Slowdown> {
        if interrupted.load(Ordering::Relaxed) {
            if options.runs.is_some() {
                output::note(&format_args!("the same command continues after run {number}"));
            }
            return Err(Failure::Interrupted);
        }
        number += 1;
        // The rates depend on the runs before, which are the same.
        let run = if let Some(run) = done.pop_front() {
            run
        } else {
            let seed = (options.seed << 32) + ((number as u64) << 16);
            let setting = Setting { rate, ..case.setting };
            let run = measure(number, &setting, window, seed, false, &mut yardstick)?;
            runs_file.iter_mut().try_for_each(|file| file.write(&run))?;
            run
        };
        let slowdown = Slowdown::of(&file.calibration, &run);
        case.is_used.push(why_unusable(&run).is_none());
        case.runs.push(run);
        case.slowdowns.push(slowdown);
        Ok(slowdown)
    };
    for (done, (case, load)) in order.iter().enumerate() {
        let case = &mut cases[*case];
        let rate = load * case.predicted.rate;
        run(case, rate)?;
        note_progress(
            done + 1,
            order.len(),
            begin_ns,
            "measuring at multiples of the predicted capacity",
        );
    }
    // With as many workers the machine is likely to be as fast as a moment before.
    let mut slowdowns: BTreeMap<usize, Slowdown> = BTreeMap::new();
    for search in 0..SEARCHES {
        for case in &mut cases {
            let slowdown = slowdowns.entry(case.setting.workers).or_insert(Slowdown::NONE);
            let rate = case.next_rate(options.unsatisfied, search) / slowdown.forwarder;
            *slowdown = run(case, rate)?;
        }
        note_progress(search + 1, SEARCHES, begin_ns, "searching the measured capacities");
    }
    let report = Report::of(&cases, &file, window, options, &interrupted)?;
    let value = report.json(&file);
    if let Some(path) = &options.output {
        let text = serde_json::to_string_pretty(&value).map_err(usage)?;
        fs::write(path, text).map_err(|error| Failure::file(path.display(), &error))?;
    }
    if options.json { Ok(output::print_json(&value)?) } else { report.print() }
}

/// The number of single runs that lie in the intervals stated for them.
#[derive(Debug, Clone, Copy, Default)]
struct Covered {
    runs: usize,
    inside: usize,
}

impl Covered {
    fn note(&mut self, is_inside: bool) {
        self.runs += 1;
        self.inside += usize::from(is_inside);
    }

    /// The share of them; 0 of none.
    fn share(self) -> f64 {
        self.inside as f64 / self.runs.max(1) as f64
    }
}

/// Errors of all predictions.
struct Report {
    capacities: Vec<(Setting, CapacityOfRuns, Option<f64>)>,
    /// At planned rates above the capacity, with the stated interval.
    satisfied: Vec<(Setting, Compared, (f64, f64))>,
    satisfied_covered: Covered,
    /// At planned rates.
    latencies: Vec<(Setting, Compared)>,
    latencies_covered: Covered,
    /// Of single runs in search of the capacity: there, queues decide by chance.
    latencies_near: Vec<(Setting, Compared)>,
    tries: Tries,
    /// Runs that are not compared, or whose latencies are not.
    left_out: Vec<LeftOut>,
    /// Within which a p99 is measured with the stated probability.
    latency_factors: LatencyFactors,
    /// The machine over that of the calibration, by the reference load: the factor on all times.
    slowdown: f64,
    /// Relative standard deviations: of the simulation, of the calibration, of a run, by pauses.
    statistical: f64,
    calibration: f64,
    run: f64,
    pauses: f64,
    /// Share of the time that processors paused, here and in the campaign.
    paused: [f64; 2],
}

/// The medians of what is predicted and measured; none of no runs.
fn compared(
    pairs: &[(&Prediction, &Run)],
    predicted: impl Fn(&Prediction) -> f64,
    measured: impl Fn(&Run) -> f64,
) -> Option<Compared> {
    let predicted: Vec<f64> = pairs.iter().map(|(one, _)| predicted(one)).collect();
    let measured: Vec<f64> = pairs.iter().map(|(_, run)| measured(run)).collect();
    let is_some = !pairs.is_empty();
    is_some.then(|| Compared { predicted: middle(&predicted), measured: middle(&measured) })
}

impl Report {
    fn of(
        cases: &[Case],
        file: &CalibrationFile,
        window: Window,
        options: &ValidateOptions,
        interrupted: &AtomicBool,
    ) -> Outcome<Self> {
        let calibration = &file.calibration;
        let runs: Vec<&Run> = cases.iter().flat_map(|case| &case.runs).collect();
        let watches: Vec<&[Watch]> = runs.iter().map(|run| &run.pauses[..]).collect();
        let share = |process: Option<&PauseProcess>| process.map_or(0.0, |process| process.share);
        let mut report = Self {
            capacities: Vec::new(),
            satisfied: Vec::new(),
            satisfied_covered: Covered::default(),
            latencies: Vec::new(),
            latencies_covered: Covered::default(),
            latencies_near: Vec::new(),
            tries: Tries::of(runs.iter().copied()),
            left_out: Vec::new(),
            latency_factors: LatencyFactors::of(&calibration.discrepancies, options.confidence),
            slowdown: 1.0,
            statistical: 0.0,
            calibration: 0.0,
            run: 0.0,
            pauses: 0.0,
            paused: [
                share(PauseProcess::of(&watches).as_ref()),
                share(calibration.pauses.as_ref()),
            ],
        };
        output::note(&format_args!("predicting the {} runs", runs.len()));
        let predictions = on_threads(&runs, interrupted, |run| {
            let model = ModelOfRun {
                calibration,
                setting: Setting { rate: run.rate(), ..run.setting },
                slowdown: Slowdown::of(calibration, run),
                times: (window.warm_up, window.seconds),
            };
            model.predict(TRACES).map_err(too_far)
        })?;
        let mut predictions = predictions.into_iter();
        let (mut deviations, mut count) = (0.0, 0.0);
        for case in cases {
            let slowdowns: Vec<f64> =
                case.slowdowns.iter().map(|slowdown| slowdown.forwarder).collect();
            report.slowdown *= middle(&slowdowns).powf(1.0 / cases.len() as f64);
            let measured = case.capacity(options.unsatisfied);
            report.capacities.push((case.setting, case.predicted, measured));
            let uncertainty = Uncertainty::of(calibration, &case.setting);
            let run = uncertainty.run_deviation();
            report.calibration += uncertainty.bootstrap_deviation().powi(2) / cases.len() as f64;
            report.run += run * run / cases.len() as f64;
            report.pauses += case.predicted.deviation.powi(2) / cases.len() as f64;
            let own: Vec<Prediction> = predictions.by_ref().take(case.runs.len()).collect();
            deviations += own.iter().map(|one| one.deviation * one.deviation).sum::<f64>();
            count += own.len() as f64;
            report.compare(case, &own, calibration, options.confidence);
        }
        report.calibration = report.calibration.sqrt();
        report.run = report.run.sqrt();
        report.pauses = report.pauses.sqrt();
        report.statistical = (deviations / f64::max(count, 1.0)).sqrt();
        Ok(report)
    }

    /// Compares the runs of a case with their predictions: errors are those of the medians of a rate, and single runs lie in
    /// the stated intervals or do not. Satisfaction is compared above the capacity, with factors on its prediction; latencies
    /// are not those of runs in which other programs ran.
    fn compare(
        &mut self,
        case: &Case,
        own: &[Prediction],
        calibration: &Calibration,
        confidence: f64,
    ) {
        let usual_rates: Vec<f64> = case.usual_rates().collect();
        for (run, _) in case.runs.iter().zip(&case.is_used).filter(|(_, is_used)| !**is_used) {
            let reason = why_unusable(run);
            self.left_out.extend(reason.map(|reason| LeftOut { run: run.number, reason }));
        }
        for mut same in case.rates() {
            same.retain(|run| case.is_used[*run]);
            let Some(first) = same.first() else { continue };
            let setting = case.runs[*first].setting;
            let pairs: Vec<(&Prediction, &Run)> =
                same.iter().map(|run| (&own[*run], &case.runs[*run])).collect();
            let mut calm: Vec<(&Prediction, &Run)> = Vec::new();
            for &(predicted, run) in &pairs {
                match why_without_latency(run) {
                    Some(reason) => self.left_out.push(LeftOut { run: run.number, reason }),
                    None => calm.push((predicted, run)),
                }
            }
            let latency = compared(&calm, |one| one.latency_ns[1], |run| run.latency_ns[2] as f64);
            if same[0] >= case.planned {
                self.latencies_near.extend(latency.map(|latency| (setting, latency)));
                continue;
            }
            self.latencies.extend(latency.map(|latency| (setting, latency)));
            if let Some((low, high)) = self.latency_factors.range {
                for (predicted, run) in calm {
                    let ratio = run.latency_ns[2] as f64 / predicted.latency_ns[1];
                    self.latencies_covered.note((low..=high).contains(&ratio));
                }
            }
            let own_rates: Vec<f64> = same.iter().map(|run| usual_rates[*run]).collect();
            if middle(&own_rates) > case.predicted.rate {
                let share = |run: &Run| run.satisfied as f64 / run.sent.max(1) as f64;
                let (low, high) =
                    Uncertainty::of(calibration, &setting).throughput_factors(confidence);
                let interval = |predicted: f64| {
                    // All may be satisfied; some of them were sent before the window.
                    let most = if high * predicted < 1.0 { high } else { f64::INFINITY };
                    (low * predicted, most * predicted)
                };
                for &(predicted, run) in &pairs {
                    let (from, to) = interval(predicted.satisfied);
                    self.satisfied_covered.note((from..=to).contains(&share(run)));
                }
                if let Some(satisfied) = compared(&pairs, |one| one.satisfied, share) {
                    let stated = interval(satisfied.predicted);
                    self.satisfied.push((setting, satisfied, stated));
                }
            }
        }
    }

    /// Settings whose capacity was not found.
    fn not_found(&self) -> usize {
        self.capacities.iter().filter(|(_, _, measured)| measured.is_none()).count()
    }

    fn capacity_errors(&self) -> Vec<f64> {
        let errors = self.capacities.iter().filter_map(|(_, predicted, measured)| {
            measured.map(|measured| (measured / predicted.rate - 1.0).abs())
        });
        errors.collect()
    }

    /// Share of the measured capacities that lie in the stated interval.
    fn covered(&self) -> f64 {
        let known: Vec<bool> = self
            .capacities
            .iter()
            .filter_map(|(_, predicted, measured)| {
                measured.map(|measured| (predicted.low..=predicted.high).contains(&measured))
            })
            .collect();
        known.iter().filter(|is_covered| **is_covered).count() as f64 / known.len().max(1) as f64
    }

    /// The error of capacities that remains after the known parts.
    fn model_part(&self) -> f64 {
        let errors = self.capacity_errors();
        let mean = errors.iter().map(|e| e * e).sum::<f64>() / errors.len().max(1) as f64;
        let parts = [self.statistical, self.calibration, self.run, self.pauses];
        let known: f64 = parts.iter().map(|part| part * part).sum();
        (mean - known).max(0.0).sqrt()
    }

    fn json(&self, file: &CalibrationFile) -> Value {
        let setting = |s: &Setting| {
            json!({
                "workers": s.workers, "components": s.components, "payload": s.payload,
                "hits": s.hit_ratio, "rate": s.rate,
            })
        };
        let summary = |errors: Vec<f64>| json!({ "median": middle(&errors), "worst": errors.iter().copied().fold(0.0, f64::max), "count": errors.len() });
        let errors =
            |all: &[(Setting, Compared)]| all.iter().map(|(_, c)| c.error().abs()).collect();
        let capacities: Vec<Value> = self
            .capacities
            .iter()
            .map(|(s, predicted, measured)| {
                json!({
                    "setting": setting(s), "predicted": predicted.rate, "from": predicted.low,
                    "to": predicted.high, "measured": measured,
                })
            })
            .collect();
        let satisfied: Vec<Value> = self
            .satisfied
            .iter()
            .map(|(s, c, (low, high))| {
                json!({ "setting": setting(s), "predicted": c.predicted, "from": low, "to": high, "measured": c.measured })
            })
            .collect();
        let latencies = |all: &[(Setting, Compared)]| -> Vec<Value> {
            let one = |(s, c): &(Setting, Compared)| json!({ "setting": setting(s), "predicted_p99_ns": c.predicted, "measured_p99_ns": c.measured });
            all.iter().map(one).collect()
        };
        json!({
            "machine": machine(),
            "load": load(),
            "calibration": { "campaign": file.campaign, "date": file.date },
            "tries": self.tries.json(),
            "left_out": self.left_out,
            "slowdown": self.slowdown,
            "paused": { "here": self.paused[0], "calibration": self.paused[1] },
            "capacity_error": summary(self.capacity_errors()),
            "capacities_not_found": self.not_found(),
            "capacity_covered": self.covered(),
            "satisfaction_error": summary(self.satisfied.iter().map(|(_, c, _)| c.error().abs()).collect()),
            "satisfaction_covered": self.satisfied_covered.share(),
            "p99_error": summary(errors(&self.latencies)),
            "p99_error_near_capacity": summary(errors(&self.latencies_near)),
            "p99_covered": self.latency_factors.range.map(|_| self.latencies_covered.share()),
            "error_parts": {
                "statistical": self.statistical, "calibration": self.calibration,
                "run": self.run, "pauses": self.pauses, "model": self.model_part(),
            },
            "capacities": capacities,
            "satisfied": satisfied,
            "latencies": latencies(&self.latencies),
            "latencies_near_capacity": latencies(&self.latencies_near),
        })
    }

    fn print(&self) -> Outcome {
        let headings = [
            ">WORKERS",
            ">COMPONENTS",
            ">BYTES",
            ">HITS",
            ">PREDICTED/s",
            ">FROM",
            ">TO",
            ">MEASURED/s",
            ">ERROR",
        ];
        let mut table = Table::new(&headings);
        for (setting, predicted, measured) in &self.capacities {
            let found = |text: &dyn Fn(f64) -> String| {
                measured.map_or_else(|| "not found".to_owned(), text)
            };
            table.row(vec![
                setting.workers.to_string(),
                setting.components.to_string(),
                setting.payload.to_string(),
                format!("{:.2}", setting.hit_ratio),
                format!("{:.0}", predicted.rate),
                format!("{:.0}", predicted.low),
                format!("{:.0}", predicted.high),
                found(&|measured| format!("{measured:.0}")),
                found(&|measured| format!("{:+.1} %", 100.0 * (measured / predicted.rate - 1.0))),
            ]);
        }
        table.print("no settings")?;
        let line = |what: &str, errors: &[f64]| {
            let worst = errors.iter().copied().fold(0.0, f64::max);
            let (middle, worst) = (100.0 * middle(errors), 100.0 * worst);
            format!(
                "{what}: error {middle:.1} % (median), {worst:.1} % (worst) of {}",
                errors.len()
            )
        };
        output::print_line(&line("capacity", &self.capacity_errors()))?;
        let satisfied: Vec<f64> = self.satisfied.iter().map(|(_, c, _)| c.error().abs()).collect();
        output::print_line(&line("satisfaction above capacity", &satisfied))?;
        let near = "p99 latency of single runs near the capacity";
        for (what, all) in [("p99 latency", &self.latencies), (near, &self.latencies_near)] {
            let errors: Vec<f64> = all.iter().map(|(_, c)| c.error().abs()).collect();
            output::print_line(&line(what, &errors))?;
        }
        output::print_line(&format!(
            "{:.0} % of the measured capacities, and of single runs {:.0} % of the satisfactions lie in the stated intervals",
            100.0 * self.covered(),
            100.0 * self.satisfied_covered.share()
        ))?;
        output::print_line(&match self.latency_factors.range {
            Some(_) => format!(
                "{:.0} % of the p99 latencies of single runs lie in theirs, without those near the capacity",
                100.0 * self.latencies_covered.share()
            ),
            None => format!("p99 latencies have no interval: {} runs", self.latency_factors.runs),
        })?;
        output::print_line(&format!(
            "parts of the error: simulation {:.2} %, calibration {:.1} %, one run {:.1} %, pauses {:.1} %, model {:.1} %",
            100.0 * self.statistical,
            100.0 * self.calibration,
            100.0 * self.run,
            100.0 * self.pauses,
            100.0 * self.model_part()
        ))?;
        output::print_line(&format!(
            "times are {:.2} times those of the calibration; the load of the machine is {:.1}",
            self.slowdown,
            load()
        ))?;
        output::print_line(&format!(
            "processors paused for {:.2} % of the time, and for {:.2} % in the campaign",
            100.0 * self.paused[0],
            100.0 * self.paused[1]
        ))?;
        if self.not_found() > 0 {
            output::print_line(&format!(
                "{} capacities not found and not compared: all runs lose more, or all lose less",
                self.not_found()
            ))?;
        }
        let left_out = left_out::lines(&self.left_out);
        self.tries.lines().iter().chain(&left_out).try_for_each(|line| output::print_line(line))?;
        Ok(())
    }
}

/// The median; 0 without values.
fn middle(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn rates_have_units() {
        assert!((rate("2M").unwrap() - 2e6).abs() < 1e-6);
        assert!((rate("250k").unwrap() - 250e3).abs() < 1e-6);
        assert!(rate("0").is_err() && rate("M").is_err() && rate("1e12").is_err());
    }

    #[test]
    fn plan_states_whether_its_probability_is_by_rank() {
        let few = basis(Ranks { runs: 54, needed: 99 }, 0.99);
        assert!(few.starts_with("the probability is not by rank: 99 % needs 99 runs"), "{few}");
        let enough = basis(Ranks { runs: 54, needed: 19 }, 0.95);
        assert!(enough.starts_with("the probability is by rank: 95 % needs 19 runs"), "{enough}");
    }

    fn case(measured: &[(f64, u64)]) -> Case {
        let setting = Setting {
            workers: 1,
            components: 7,
            payload: 0,
            hit_ratio: 0.0,
            routes: 64,
            rate: 1.0,
            placement: Placement::P1,
        };
        let predicted = CapacityOfRuns { rate: 100e3, low: 90e3, high: 110e3, deviation: 0.05 };
        let run = |(rate, refused): &(f64, u64)| Run {
            number: 0,
            setting: Setting { rate: *rate, ..setting },
            discarded: 0,
            discarded_for: Vec::new(),
            disturbed_by: None,
            host: ndn_model::calibrate::Host::default(),
            pauses: Vec::new(),
            seconds: 1.0,
            counted_seconds: 0.0,
            sent: 10_000,
            satisfied: 10_000 - refused,
            refused: *refused,
            interests: 10_000,
            hits: 0,
            bursts: 0,
            sleeps: 0,
            cpu_ns: vec![0],
            delayed_ns: vec![0],
            generator_delayed_ns: 0,
            generator_cpu_ns: 0,
            generator_stalls: ndn_model::calibrate::Stalls::default(),
            pit_entries: 0,
            queues: ndn_model::calibrate::QueueLengths::default(),
            latency_ns: [0; 3],
            services: None,
        };
        let runs: Vec<Run> = measured.iter().map(run).collect();
        let slowdowns = vec![Slowdown::NONE; runs.len()];
        let is_used = vec![true; runs.len()];
        Case { setting, predicted, runs, slowdowns, is_used, planned: 0 }
    }

    #[test]
    fn measured_capacity_separates_rates_with_fewest_exceptions() {
        let capacity = |measured: &[(f64, u64)]| case(measured).capacity(0.001);
        let near = |found: Option<f64>, expected: f64| {
            assert!(found.is_some_and(|found| (found / expected - 1.0).abs() < 1e-3), "{found:?}");
        };
        near(capacity(&[(80e3, 0), (120e3, 500)]), 97_980.0);
        // The run at 90,000/s was disturbed.
        let mut other = case(&[(80e3, 0), (90e3, 900), (120e3, 500)]);
        other.is_used[1] = false;
        near(other.capacity(0.001), 97_980.0);
        near(
            capacity(&[(60e3, 0), (70e3, 90), (80e3, 3), (90e3, 0), (110e3, 70), (120e3, 90)]),
            99_499.0,
        );
        assert_eq!(capacity(&[(80e3, 0), (90e3, 0)]), None);
        assert_eq!(capacity(&[(80e3, 900)]), None);
        assert_eq!(capacity(&[]), None);
    }

    #[test]
    fn rounds_have_every_rate_once_and_are_compared_by_rate() {
        let order = planned_runs(2, &[0.6, 1.1], 3, 7);
        for round in order.chunks(4) {
            let mut sorted = round.to_vec();
            sorted.sort_by(|a, b| a.partial_cmp(b).unwrap());
            assert_eq!(sorted, [(0, 0.6), (0, 1.1), (1, 0.6), (1, 1.1)]);
        }
        // The last two are in search of the capacity.
        let runs = [(60e3, 0), (110e3, 9), (110e3, 9), (60e3, 0), (60e3, 0), (90e3, 0)];
        let measured = Case { planned: 4, ..case(&runs) };
        assert_eq!(measured.rates(), [vec![0, 3], vec![1, 2], vec![4], vec![5]]);
    }

    #[test]
    fn covered_are_single_runs() {
        let mut covered = Covered::default();
        assert!(covered.share().abs() < f64::EPSILON);
        [true, false, true, true].into_iter().for_each(|is_inside| covered.note(is_inside));
        assert!((covered.share() - 0.75).abs() < f64::EPSILON);
    }

    #[test]
    fn calibration_of_other_queues_is_refused() {
        let known = Calibration::parse(include_str!("../../../../../../tests/calibration.toml"));
        let known = known.unwrap();
        let text = check_rig(&known).unwrap_err().to_string();
        assert!(text.contains("queues of 1024 packets"), "{text}");
        assert!(check_rig(&Calibration { queue: QUEUE, turn_ns: TURN_NS, ..known }).is_ok());
    }

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        options: ValidateOptions,
    }

    #[test]
    fn interrupted_validation_is_continued_with_the_same_options_only() {
        use clap::Parser;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("runs.jsonl");
        let options = |more: &[&str]| {
            let fixed = ["validate", "--calibration", "c", "--workers", "1", "--components", "7"];
            let place = ["--payload", "0B", "--hits", "0", "--runs", path.to_str().unwrap()];
            let line = fixed.iter().chain(&place).chain(more).copied();
            Line::try_parse_from(line).unwrap().options
        };
        let calibration = Calibration {
            runs: 1,
            discarded: 0,
            left_out: Vec::new(),
            reference_ns: 0.0,
            slowdown_exponent: 0.0,
            transfers: Default::default(),
            effects: vec![1.0; ndn_model::calibrate::EFFECTS.len()],
            residual: 0.1,
            replicates: Vec::new(),
            shares: [0.2; 5],
            shapes: [(); 2].map(|()| ndn_model::calibrate::Shape {
                quantiles: vec![0.5, 1.5],
                tail_mean: 1.0,
            }),
            generator: [0.0; 3],
            generator_transfer: 0.0,
            latency_ns: [1.0; 2],
            pauses: None,
            pauses_in_services: 0.0,
            throughput: Default::default(),
            turn_ns: TURN_NS,
            wake_up_ns: 0.0,
            discrepancies: Vec::new(),
            latency_residual: 0.1,
            queue: 10,
            processors: 2,
            ranges: ndn_model::calibrate::Ranges {
                workers: (1, 1),
                components: (7, 7),
                payload: (0, 0),
                hit_ratio: (0.0, 0.0),
                routes: (64, 64),
            },
        };
        let file = CalibrationFile {
            campaign: "campaign".to_owned(),
            machine: machine(),
            namewire: String::new(),
            date: "2026-01-01 00:00 UTC".to_owned(),
            warm_up: 0.1,
            seconds: 0.2,
            calibration,
        };
        let one = case(&[(80e3, 0), (120e3, 500)]);
        let head = ValidationHead {
            validation: VALIDATION_VERSION,
            machine: machine(),
            campaign: file.campaign.clone(),
            date: file.date.clone(),
            settings: vec![one.setting],
            loads: options(&[]).loads,
            rounds: 3,
            unsatisfied: 0.001,
            confidence: 0.95,
            seed: 7,
            predicted: vec![one.predicted],
        };
        let mut runs = RunsFile::create(&path, &head).unwrap();
        one.runs.iter().try_for_each(|run| runs.write(run)).unwrap();
        fs::write(&path, fs::read_to_string(&path).unwrap() + "{\"number\": 3, ").unwrap();
        let window = Window { warm_up: 0.1, seconds: 0.2 };
        let calm = AtomicBool::new(false);
        let begin_or_continue = |options: &ValidateOptions, file: &CalibrationFile, window| {
            begin_or_continue(options, file, window, &calm)
        };
        let (found, done, file_of_runs) = begin_or_continue(&options(&[]), &file, window).unwrap();
        assert_eq!((found, done), (head, one.runs.clone().into()));
        file_of_runs.unwrap().write(&one.runs[0]).unwrap();
        let (head, done, _) = begin_or_continue(&options(&[]), &file, window).unwrap();
        assert_eq!(done.len(), 3, "the line that was interrupted is gone");
        let refused = |options: &ValidateOptions, file: &CalibrationFile| {
            let error = begin_or_continue(options, file, window).err().unwrap();
            assert!(error.to_string().contains("another validation"), "{error}");
        };
        refused(&options(&["--seed", "8"]), &file);
        refused(&options(&["--loads", "0.9"]), &file);
        refused(&options(&["--rounds", "2"]), &file);
        refused(&options(&["--unsatisfied", "1%"]), &file);
        let other_date = CalibrationFile { date: String::new(), ..file };
        refused(&options(&[]), &other_date);
        RunsFile::create(&path, &ValidationHead { validation: 2, ..head }).unwrap();
        let error = begin_or_continue(&options(&[]), &other_date, window).err().unwrap();
        assert!(error.to_string().contains("version 2 of a validation"), "{error}");
    }

    #[test]
    fn rates_and_interrupts_are_noticed_before_predictions() {
        use clap::Parser;
        let refused = |loads: &str| {
            let line = ["validate", "--calibration", "c", "--loads", loads];
            settings(&Line::try_parse_from(line).unwrap().options).is_err()
        };
        assert!(refused("0") && refused("1,-1") && refused("NaN") && !refused("0.6,1.5"));
        let interrupted = AtomicBool::new(true);
        let result = on_threads(&[1, 2, 3], &interrupted, |one| Ok(*one));
        assert!(matches!(result, Err(Failure::Interrupted)));
    }

    #[test]
    fn search_continues_around_the_capacity_or_beyond_all_rates() {
        let next = |measured: &[(f64, u64)], search| case(measured).next_rate(0.001, search);
        assert!((next(&[(80e3, 0), (120e3, 500)], 1) - 1.03 * 97_980.0).abs() < 10.0);
        assert!((next(&[(110e3, 0)], 0) - 132e3).abs() < 1.0);
        assert!((next(&[(90e3, 900)], 0) - 72e3).abs() < 1.0);
        // Rates of runs that are not used do not count.
        let mut disturbed = case(&[(90e3, 900), (40e3, 900)]);
        disturbed.is_used[1] = false;
        assert!((disturbed.next_rate(0.001, 0) - 72e3).abs() < 1.0);
        disturbed.is_used[0] = false;
        assert!((disturbed.next_rate(0.001, 1) - 103e3).abs() < 1.0);
    }
}
