//! `namewire model`: predict what a forwarder can carry, and how sure the prediction is.

mod campaign;
mod figure;
mod forwarder;
mod predict;
mod reproduce;
mod screen;

use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use ndn_model::check::{Answer, Checker, Method, Runner};
use ndn_model::explore::{Factor, Sweep, Task};
use ndn_model::file::{Model, law};
use ndn_model::fit::{Fit, FitReport, PpccReport, fit, fit_by_ppcc};
use ndn_model::property::Property;
use ndn_model::smc::Verdict;
use serde_json::{Value, json};

use super::failure::{Failure, Outcome};
use super::output::{self, Table, grouped};
use figure::{Panel, Point, Series};

/// Predict throughput and loss of a forwarder from a model
///
/// A model file describes a forwarder, its service times and the traffic. A property asks for an estimate, or for a decision if P has a threshold:
///   P(all(satisfied))                probability that every Interest is satisfied
///   P(G[0, 5 ms] satisfied)          the same for the first 5 ms after the warm-up
///   E(share(satisfied))              mean satisfaction rate
///   Q(0.5, quantile(latency, 0.99))  median over traces of the p99 latency
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(super) struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Decide or estimate a property of a model
    ///
    /// Exit status 1 if the property does not hold, or is undecided.
    Check(CheckOptions),
    /// Check a property for all combinations of values of some keys
    ///
    /// Points that are decided get no more traces. All points use the same random numbers.
    Explore(ExploreOptions),
    /// Fit distributions to measured durations
    Fit(FitOptions),
    /// Measure the forwarder on this machine: a campaign of runs in random order
    ///
    /// Each run starts a forwarder with faces in memory and sends Interests to it at a rate. Workers and generator are
    /// pinned to processors: nothing else should run. Runs in which a worker waited for its processor are
    /// discarded and repeated.
    Measure(campaign::MeasureOptions),
    /// Show which settings of a campaign matter, and how much
    ///
    /// Analysis of variance (type II) of main effects and interactions of two settings; p is compared with 5 % over the
    /// number of terms.
    Screen(screen::Options),
    /// Repeat the experiments of the paper on NDN-DPDK, and show which of its findings follow
    ///
    /// "Performance Evaluation of the NDN Data Plane Using Statistical Model Checking" does not publish its service times:
    /// the options are what is assumed instead.
    Reproduce(reproduce::Options),
    /// Calibrate the model with a campaign
    Calibrate(campaign::CalibrateOptions),
    /// Find the smallest number of workers for a rate
    Plan(predict::PlanOptions),
    /// Compare predictions with the forwarder, in settings that the campaign did not have
    Validate(predict::ValidateOptions),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum MethodName {
    /// Confidence sequence for P, betting for E, DKW for Q
    Default,
    /// Beta-binomial confidence sequence: valid at all numbers of traces at once
    Sequence,
    /// Number of traces by the Okamoto (Chernoff) bound
    Okamoto,
    /// Exact interval after --traces traces
    ClopperPearson,
    /// Wald's sequential test, indifferent within --margin
    Sprt,
    /// Single sampling plan, indifferent within --margin
    SamplingPlan,
    /// Betting confidence sequence for a mean within --bounds
    Betting,
    /// Empirical Bernstein interval after --traces traces, for a mean within --bounds
    EmpiricalBernstein,
    /// Dvoretzky-Kiefer-Wolfowitz interval of a quantile
    Dkw,
}

#[derive(Args, Debug)]
struct Question {
    /// Model file
    model: PathBuf,
    /// Property to check
    #[arg(long)]
    property: String,
    /// Method
    #[arg(long, value_enum, default_value = "default")]
    method: MethodName,
    /// Confidence in per cent, such as 99%
    #[arg(long, default_value = "99%", value_parser = percent)]
    confidence: f64,
    /// Largest distance from the estimate to an end of its interval
    #[arg(long, default_value_t = 0.01)]
    precision: f64,
    /// Half of the indifference region of a test
    #[arg(long, default_value_t = 0.005)]
    margin: f64,
    /// Traces of a method with a fixed number
    #[arg(long)]
    traces: Option<NonZeroU32>,
    /// Bounds of an observed number, such as 0,1
    #[arg(long, value_parser = bounds)]
    bounds: Option<(f64, f64)>,
    /// Give up after this many traces
    #[arg(long, default_value = "100000")]
    traces_max: NonZeroU32,
    /// Seed of the random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Threads; the result does not depend on them [default: all processors]
    #[arg(long)]
    threads: Option<NonZeroU32>,
}

#[derive(Args, Debug)]
struct CheckOptions {
    #[command(flatten)]
    question: Question,
    /// Another value for a key of the model, such as forwarder.workers=4
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = assignment)]
    changes: Vec<(String, String)>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct ExploreOptions {
    #[command(flatten)]
    question: Question,
    /// Values of a key, such as forwarder.workers=1,2,4 or consumers.0.rate=1M/s,2M/s
    #[arg(long = "vary", value_name = "KEY=VALUE,..", value_parser = assignment, required = true)]
    factors: Vec<(String, String)>,
    /// Keep observations in this file, and continue from it
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Write results as CSV to this file
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Draw results into this SVG file: the first factor across, a line for each value of the second
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct FitOptions {
    /// File with one duration per line, in the order of measurement
    file: PathBuf,
    /// Unit of the durations
    #[arg(long, value_enum, default_value = "ns")]
    unit: Unit,
    /// Also fit by probability plots, as the paper on NDN-DPDK does: normal, families, Box-Cox, bihistogram
    #[arg(long)]
    ppcc: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Unit {
    Ps,
    Ns,
    Us,
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').trim();
    match number.parse::<f64>() {
        Ok(value) if value > 0.0 && value < 100.0 => Ok(value / 100.0),
        Ok(_) | Err(_) => Err("a percentage between 0 and 100, such as 99%".to_owned()),
    }
}

fn bounds(text: &str) -> Result<(f64, f64), String> {
    let parse = |part: &str| part.trim().parse::<f64>().ok();
    match text.split_once(',').map(|(low, high)| (parse(low), parse(high))) {
        Some((Some(low), Some(high))) => Ok((low, high)),
        _ => Err("two numbers with a comma, such as 0,1".to_owned()),
    }
}

fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() && !value.is_empty() => {
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("KEY=VALUE, such as forwarder.workers=4".to_owned()),
    }
}

pub(super) fn run(options: &Options) -> Outcome {
    match &options.what {
        What::Check(options) => check(options),
        What::Explore(options) => explore(options),
        What::Fit(options) => fit_file(options),
        What::Measure(options) => campaign::run_measure(options),
        What::Calibrate(options) => campaign::run_calibrate(options),
        What::Screen(options) => screen::run(options),
        What::Reproduce(options) => reproduce::run(options),
        What::Plan(options) => predict::plan(options),
        What::Validate(options) => predict::validate(options),
    }
}

fn read(path: &Path) -> Outcome<String> {
    fs::read_to_string(path).map_err(|error| Failure::file(path.display(), &error))
}

fn usage(error: impl std::fmt::Display) -> Failure {
    Failure::Usage(error.to_string())
}

impl Question {
    fn method(&self, property: &Property) -> Outcome<Method> {
        let fixed = || -> Outcome<u32> {
            let traces = self.traces.ok_or_else(|| usage("this method needs --traces"))?;
            Ok(traces.get())
        };
        let bounds = || {
            self.bounds.or_else(|| property.natural_bounds()).ok_or_else(|| {
                usage("--bounds are needed: an interval of a mean covers only if values cannot lie outside")
            })
        };
        let (precision, margin) = (self.precision, self.margin);
        let name = match (self.method, property) {
            (MethodName::Default, Property::ProbabilityAtLeast(..) | Property::Probability(_)) => {
                MethodName::Sequence
            }
            (MethodName::Default, Property::Expectation(_)) => MethodName::Betting,
            (MethodName::Default, Property::Quantile(..)) => MethodName::Dkw,
            (name, _) => name,
        };
        Ok(match name {
            MethodName::Default | MethodName::Sequence => Method::ConfidenceSequence { precision },
            MethodName::Okamoto => Method::Okamoto { precision },
            MethodName::ClopperPearson => Method::ClopperPearson { traces: fixed()? },
            MethodName::Sprt => Method::Sprt { margin },
            MethodName::SamplingPlan => Method::SamplingPlan { margin },
            MethodName::Betting => Method::Betting { precision, bounds: bounds()? },
            MethodName::EmpiricalBernstein => {
                Method::EmpiricalBernstein { traces: fixed()?, bounds: bounds()? }
            }
            MethodName::Dkw => Method::Dkw { traces: self.traces.map(NonZeroU32::get) },
        })
    }

    fn threads(&self) -> usize {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        self.threads.map_or(processors, |threads| threads.get() as usize)
    }
}

fn check(options: &CheckOptions) -> Outcome {
    let question = &options.question;
    let text = read(&question.model)?;
    let in_file = |error| usage(format_args!("{}: {error}", question.model.display()));
    let model = Model::parse_with(&text, &options.changes).map_err(in_file)?;
    let property = Property::parse(&question.property, &model).map_err(usage)?;
    let method = question.method(&property)?;
    let checker = Checker::new(&property, method, 1.0 - question.confidence).map_err(usage)?;
    if let Some(needed) = checker.traces_needed()
        && needed > u64::from(question.traces_max.get())
    {
        let text = format!(
            "the method needs {needed} traces, more than --traces-max {}",
            question.traces_max
        );
        return Err(usage(text));
    }
    let answer = run_traces(question, &model, &property, checker)?;
    for warning in &model.warnings {
        output::note(&format_args!("warning: {warning}"));
    }
    if options.json {
        output::print_json(&answer_json(&answer, &model.warnings))?;
    } else {
        print_answer(question, &answer)?;
    }
    match answer.verdict {
        Some(Verdict::Fails) => Err(Failure::Failed("the property does not hold".to_owned())),
        Some(Verdict::Undecided) => Err(Failure::Failed("the property is undecided".to_owned())),
        Some(Verdict::Holds) | None => Ok(()),
    }
}

/// Runs traces in rounds on all threads, and takes their observations in order of the trace number.
fn run_traces(
    question: &Question,
    model: &Model,
    property: &Property,
    mut checker: Checker,
) -> Outcome<Answer> {
    let threads = question.threads();
    let mut runners: Vec<Runner> =
        (0..threads).map(|_| Runner::new(model, property, question.seed)).collect();
    let failed = |error| Failure::Failed(format!("{error}"));
    let mut per_thread = 1u32;
    while !checker.is_complete() && checker.traces() < question.traces_max.get() {
        let first = checker.traces();
        let values: Vec<Vec<f64>> = std::thread::scope(|scope| {
            let mut begin = first;
            let handles: Vec<_> = runners
                .iter_mut()
                .map(|runner| {
                    let range =
                        begin..begin.saturating_add(per_thread).min(question.traces_max.get());
                    begin = range.end;
                    scope
                        .spawn(move || range.map(|trace| runner.observe(trace)).collect::<Vec<_>>())
                })
                .collect();
            handles.into_iter().map(|handle| handle.join().unwrap_or_default()).collect()
        });
        for value in values.into_iter().flatten() {
            if checker.observe(value).map_err(failed)? {
                break;
            }
        }
        per_thread = (2 * per_thread).min(64);
    }
    checker.answer().map_err(failed)
}

fn verdict_text(answer: &Answer) -> &'static str {
    match answer.verdict {
        Some(Verdict::Holds) => "holds",
        Some(Verdict::Fails) => "fails",
        Some(Verdict::Undecided) => "undecided",
        None => "estimate",
    }
}

fn print_answer(question: &Question, answer: &Answer) -> Outcome {
    output::print_line(&format!("{}: {}", question.property, verdict_text(answer)))?;
    output::print_line(&format!("estimate    {:.6}", answer.estimate))?;
    if let Some(interval) = answer.interval {
        let confidence = 100.0 * question.confidence;
        output::print_line(&format!(
            "interval    {:.6} to {:.6} ({confidence} %)",
            interval.low, interval.high
        ))?;
    }
    output::print_line(&format!("traces      {}", grouped(u64::from(answer.traces))))?;
    if !answer.is_complete {
        output::print_line("incomplete  the limit of traces ended it (--traces-max)")?;
    }
    output::print_line(&format!("method      {}", answer.caveat))?;
    Ok(())
}

fn answer_json(answer: &Answer, warnings: &[String]) -> Value {
    json!({
        "verdict": verdict_text(answer),
        "estimate": answer.estimate,
        "interval": answer.interval.map(|interval| [interval.low, interval.high]),
        "traces": answer.traces,
        "complete": answer.is_complete,
        "method": answer.caveat,
        "warnings": warnings,
    })
}

/// Traces of a point in one round.
const BATCH: u32 = 32;

fn explore(options: &ExploreOptions) -> Outcome {
    let question = &options.question;
    let text = read(&question.model)?;
    let in_file = |error: &dyn std::fmt::Display| {
        usage(format_args!("{}: {error}", question.model.display()))
    };
    let factors: Vec<Factor> =
        options.factors.iter().map(|(key, values)| factor(key, values)).collect();
    let first: Vec<(String, String)> =
        factors.iter().map(|factor| (factor.key.clone(), factor.values[0].clone())).collect();
    let model = Model::parse_with(&text, &first).map_err(|error| in_file(&error))?;
    let property = Property::parse(&question.property, &model).map_err(usage)?;
    let method = (question.method(&property)?, 1.0 - question.confidence);
    let mut sweep =
        Sweep::new(&text, &factors, &question.property, method, question.traces_max.get())
            .map_err(|error| in_file(&error))?;
    let key = json!({
        "model": text,
        "property": question.property,
        "factors": options.factors,
        "method": format!("{method:?}"),
        "seed": question.seed,
    });
    if let Some(path) = &options.state {
        resume(&mut sweep, path, &key)?;
    }
    loop {
        let tasks = sweep.next_tasks(BATCH);
        if tasks.is_empty() {
            break;
        }
        for (task, values) in run_tasks(&sweep, &tasks, question) {
            let taken = sweep.take(task.point, &values);
            taken.map_err(|error| Failure::Failed(error.to_string()))?;
        }
        if let Some(path) = &options.state {
            save(&sweep, path, &key)?;
        }
    }
    report(&sweep, options)
}

/// A factor of comma-separated values. Commas inside brackets, braces and quotes belong to a value.
fn factor(key: &str, text: &str) -> Factor {
    let mut values = vec![String::new()];
    let (mut depth, mut is_quoted) = (0u32, false);
    for character in text.chars() {
        match character {
            '"' => is_quoted = !is_quoted,
            '[' | '{' if !is_quoted => depth += 1,
            ']' | '}' if !is_quoted => depth = depth.saturating_sub(1),
            ',' if !is_quoted && depth == 0 => {
                values.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(value) = values.last_mut() {
            value.push(character);
        }
    }
    let values = values.iter().map(|value| value.trim().to_owned()).collect();
    Factor { key: key.to_owned(), values }
}

/// Runs tasks on all threads; results are in the order of the tasks.
fn run_tasks(sweep: &Sweep, tasks: &[Task], question: &Question) -> Vec<(Task, Vec<f64>)> {
    let threads = question.threads().min(tasks.len()).max(1);
    let mut done: Vec<(usize, Vec<f64>)> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|thread| {
                let own = tasks.iter().copied().enumerate().skip(thread).step_by(threads);
                let run = |(index, task)| (index, sweep.run(task, question.seed));
                scope.spawn(move || own.map(run).collect::<Vec<_>>())
            })
            .collect();
        handles.into_iter().flat_map(|handle| handle.join().unwrap_or_default()).collect()
    });
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(index, values)| (tasks[index], values)).collect()
}

fn resume(sweep: &mut Sweep, path: &Path, key: &Value) -> Outcome {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Failure::file(path.display(), &error)),
    };
    let invalid = || usage(format_args!("{}: not a state of `model explore`", path.display()));
    let state: Value = serde_json::from_str(&text).map_err(|_| invalid())?;
    if state["key"] != *key {
        let other = "its model, property, factors, method or seed differ";
        return Err(usage(format_args!("{}: the state of another sweep: {other}", path.display())));
    }
    let points = state["points"].as_array().ok_or_else(invalid)?;
    for (index, values) in points.iter().enumerate() {
        let values: Option<Vec<f64>> =
            values.as_array().and_then(|values| values.iter().map(stored_value).collect());
        let taken = sweep.take(index, &values.ok_or_else(invalid)?);
        taken.map_err(|error| Failure::Failed(error.to_string()))?;
    }
    Ok(())
}

/// JSON has no infinity: it is kept as null.
fn stored_value(value: &Value) -> Option<f64> {
    if value.is_null() { Some(f64::INFINITY) } else { value.as_f64() }
}

fn save(sweep: &Sweep, path: &Path, key: &Value) -> Outcome {
    let points: Vec<&[f64]> = sweep.points().iter().map(|point| point.values()).collect();
    let text = json!({ "key": key, "points": points }).to_string();
    // A reader, and a sweep that goes on, find the old state or the new one.
    let temporary = path.with_extension("part");
    let written = fs::write(&temporary, text).and_then(|()| fs::rename(&temporary, path));
    written.map_err(|error| Failure::file(path.display(), &error))
}

fn report(sweep: &Sweep, options: &ExploreOptions) -> Outcome {
    let answers: Result<Vec<Answer>, _> =
        sweep.points().iter().map(|point| point.answer()).collect();
    let answers = answers.map_err(|error| Failure::Failed(error.to_string()))?;
    if let Some(path) = &options.csv {
        let text = csv(sweep, &answers);
        fs::write(path, text).map_err(|error| Failure::file(path.display(), &error))?;
    }
    if let Some(path) = &options.svg {
        let confidence = 100.0 * options.question.confidence;
        let title = format!("{} with {confidence} % intervals", options.question.property);
        figure::write(path, &title, &panels(sweep, &answers), 3)?;
    }
    if options.json {
        let points: Vec<Value> = sweep
            .points()
            .iter()
            .zip(&answers)
            .map(|(point, answer)| {
                let mut value = answer_json(answer, &point.model.warnings);
                value["factors"] =
                    point.changes.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
                value
            })
            .collect();
        output::print_json(&json!({ "property": options.question.property, "points": points }))?;
        return Ok(());
    }
    let mut table =
        Table::new(&["FACTORS", "ANSWER", ">ESTIMATE", ">FROM", ">TO", ">TRACES", "NOTE"]);
    for (point, answer) in sweep.points().iter().zip(&answers) {
        let factors: Vec<String> =
            point.changes.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let end = |value: Option<f64>| {
            value.map_or_else(|| "-".to_owned(), |value| format!("{value:.6}"))
        };
        let mut notes = point.model.warnings.clone();
        if !answer.is_complete {
            notes.push("incomplete".to_owned());
        }
        table.row(vec![
            factors.join(" "),
            verdict_text(answer).to_owned(),
            format!("{:.6}", answer.estimate),
            end(answer.interval.map(|interval| interval.low)),
            end(answer.interval.map(|interval| interval.high)),
            grouped(u64::from(answer.traces)),
            notes.join("; "),
        ]);
    }
    table.print("no points")?;
    Ok(())
}

/// The first factor across, a line for each value of the second, a panel for each combination of the others.
fn panels(sweep: &Sweep, answers: &[Answer]) -> Vec<Panel> {
    let mut panels: Vec<Panel> = Vec::new();
    for (point, answer) in sweep.points().iter().zip(answers) {
        let described = |(key, value): &(String, String)| format!("{key}={value}");
        let Some((first, rest)) = point.changes.split_first() else { continue };
        let (second, others) = rest.split_at(rest.len().min(1));
        let title = others.iter().map(described).collect::<Vec<_>>().join(", ");
        // The last part of a key says enough beside the lines.
        let short = |(key, value): &(String, String)| {
            format!("{} {value}", key.rsplit('.').next().unwrap_or(key))
        };
        let name = second.first().map_or_else(String::new, short);
        let index = panels.iter().position(|panel| panel.title == title).unwrap_or_else(|| {
            panels.push(Panel {
                title,
                x: first.0.clone(),
                y: "estimate".to_owned(),
                positions: Vec::new(),
                series: Vec::new(),
            });
            panels.len() - 1
        });
        let panel = &mut panels[index];
        let at = panel.positions.iter().position(|value| *value == first.1);
        let position = at.unwrap_or_else(|| {
            panel.positions.push(first.1.clone());
            panel.positions.len() - 1
        });
        let series = panel.series.iter().position(|series| series.name == name);
        let series = series.unwrap_or_else(|| {
            panel.series.push(Series { name, points: Vec::new() });
            panel.series.len() - 1
        });
        panel.series[series].points.push(Point {
            position,
            value: answer.estimate,
            interval: answer.interval.map(|interval| (interval.low, interval.high)),
        });
    }
    panels
}

fn csv(sweep: &Sweep, answers: &[Answer]) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let mut lines = Vec::new();
    let keys = sweep.points().first().map_or(&[][..], |point| &point.changes);
    let mut heading: Vec<String> = keys.iter().map(|(key, _)| quoted(key)).collect();
    heading.push("answer,estimate,low,high,traces,complete,warnings".to_owned());
    lines.push(heading.join(","));
    for (point, answer) in sweep.points().iter().zip(answers) {
        let mut line: Vec<String> = point.changes.iter().map(|(_, value)| quoted(value)).collect();
        let (low, high) = answer.interval.map_or((f64::NAN, f64::NAN), |i| (i.low, i.high));
        line.push(format!(
            "{},{},{low},{high},{}",
            verdict_text(answer),
            answer.estimate,
            answer.traces
        ));
        line.push(answer.is_complete.to_string());
        line.push(quoted(&point.model.warnings.join("; ")));
        lines.push(line.join(","));
    }
    lines.push(String::new());
    lines.join("\n")
}

fn fit_file(options: &FitOptions) -> Outcome {
    let text = read(&options.file)?;
    let factor = match options.unit {
        Unit::Ps => 1.0,
        Unit::Ns => 1e3,
        Unit::Us => 1e6,
    };
    let mut sample = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Ok(value) = line.parse::<f64>() else {
            let place = format!("{}: line {}", options.file.display(), index + 1);
            return Err(usage(format_args!("{place}: \"{line}\" is not a number")));
        };
        sample.push(value * factor);
    }
    let report =
        fit(&sample).map_err(|error| usage(format_args!("{}: {error}", options.file.display())))?;
    let by_ppcc = options.ppcc.then(|| fit_by_ppcc(&sample)).transpose();
    let by_ppcc =
        by_ppcc.map_err(|error| usage(format_args!("{}: {error}", options.file.display())))?;
    if options.json {
        let mut value = fit_json(&report);
        if let Some(report) = &by_ppcc {
            value["ppcc"] = ppcc_json(report);
        }
        output::print_json(&value)?;
        return Ok(());
    }
    output::print_line(&format!(
        "{} samples, autocorrelation {:.3} at lag 1: worth {:.0} independent ones",
        report.samples, report.lag_one, report.effective
    ))?;
    let mut table = Table::new(&[
        "FAMILY",
        ">LN-LIKELIHOOD",
        ">P99 ERROR",
        ">LAST ERROR",
        ">LOSS",
        ">LOSS OF FIT",
        ">P99 IN QUEUE ERROR",
    ]);
    for fit in &report.fits {
        table.row(fit_row(fit));
    }
    table.print("no family fits")?;
    output::print_line(
        "LN-LIKELIHOOD is per held-out sample; LOSS is of a queue at 90 % load with 64 places",
    )?;
    for fit in &report.fits {
        output::print_line(&format!("{}: {}", fit.family, law(&fit.distribution)))?;
    }
    by_ppcc.map_or(Ok(()), |report| print_ppcc(&report))
}

/// Columns of a bar of the bihistogram.
const BAR: f64 = 30.0;

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the length of a bar: at most its columns"
)]
fn print_ppcc(report: &PpccReport) -> Outcome {
    let mut table = Table::new(&[
        "BY PROBABILITY PLOT",
        ">PPCC",
        "SHAPE",
        ">LN-LIKELIHOOD",
        ">P99 ERROR",
        ">LAST ERROR",
        ">LOSS",
        ">LOSS OF FIT",
        ">P99 IN QUEUE ERROR",
    ]);
    for (ppcc, fit) in &report.fits {
        let shape = ppcc.shape.map(|(name, value)| format!("{name} {value:.4}"));
        let mut row = vec![
            ppcc.family.to_owned(),
            format!("{:.6}", ppcc.ppcc),
            shape.unwrap_or_else(|| "-".to_owned()),
        ];
        row.extend(fit_row(fit).into_iter().skip(1));
        table.row(row);
    }
    table.print("no family fits")?;
    let first = report.fits.first().map_or("fit", |(ppcc, _)| ppcc.family);
    output::print_line(&format!("bihistogram: held-out samples, and {first}"))?;
    let shares = report.bihistogram.iter().flat_map(|(_, a, b)| [*a, *b]);
    let largest = shares.fold(f64::MIN_POSITIVE, f64::max);
    let mut table = Table::new(&[">FROM", ">SAMPLES", "FIT"]);
    for (from_ps, measured, fitted) in &report.bihistogram {
        let bar = |share: f64| "#".repeat((BAR * share / largest).round() as usize);
        table.row(vec![format!("{:.1} ns", from_ps / 1e3), bar(*measured), bar(*fitted)]);
    }
    Ok(table.print("no cells")?)
}

fn ppcc_json(report: &PpccReport) -> Value {
    let fits: Vec<Value> = report
        .fits
        .iter()
        .map(|(ppcc, fit)| {
            let mut value = one_fit_json(fit);
            value["ppcc"] = json!(ppcc.ppcc);
            value["shape"] = ppcc.shape.map_or(Value::Null, |(name, at)| json!({ name: at }));
            value
        })
        .collect();
    json!({ "fits": fits, "bihistogram_ps": report.bihistogram })
}

fn fit_row(fit: &Fit) -> Vec<String> {
    let percent = |error: Option<f64>| {
        error.map_or_else(|| "-".to_owned(), |e| format!("{:+.1} %", 100.0 * e))
    };
    let p99 = fit
        .tail_errors
        .iter()
        .find(|(level, _)| (level - 0.99).abs() < 1e-9)
        .map(|(_, error)| *error);
    let queue = fit.queue;
    vec![
        fit.family.to_owned(),
        format!("{:.4}", fit.held_out_ln_likelihood),
        percent(p99),
        percent(fit.tail_errors.last().map(|(_, error)| *error)),
        format!("{:.5}", queue.measured_loss),
        format!("{:.5}", queue.fitted_loss),
        percent(Some(queue.fitted_p99 / queue.measured_p99 - 1.0)),
    ]
}

fn one_fit_json(fit: &Fit) -> Value {
    json!({
        "family": fit.family,
        "ln_likelihood": fit.held_out_ln_likelihood,
        "tail_errors": fit.tail_errors,
        "queue": {
            "measured_loss": fit.queue.measured_loss,
            "fitted_loss": fit.queue.fitted_loss,
            "measured_p99_ps": fit.queue.measured_p99,
            "fitted_p99_ps": fit.queue.fitted_p99,
        },
        "law": law(&fit.distribution),
    })
}

fn fit_json(report: &FitReport) -> Value {
    let fits: Vec<Value> = report.fits.iter().map(one_fit_json).collect();
    json!({
        "samples": report.samples,
        "lag_one": report.lag_one,
        "effective_samples": report.effective,
        "fits": fits,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn values_of_a_factor_are_separated_by_commas_outside_brackets() {
        let values = |text| factor("key", text).values;
        assert_eq!(values("1, 2,4"), ["1", "2", "4"]);
        assert_eq!(values("[1, 2],[3]"), ["[1, 2]", "[3]"]);
        assert_eq!(values("{ a = 1, b = 2 },\"x,y\""), ["{ a = 1, b = 2 }", "\"x,y\""]);
    }

    #[test]
    fn percentages_and_assignments_are_checked() {
        assert!((percent("99.9%").unwrap() - 0.999).abs() < 1e-12);
        assert!(percent("100%").is_err() && percent("x").is_err() && percent("nan").is_err());
        assert_eq!(assignment("a.b = c").unwrap(), ("a.b".to_owned(), "c".to_owned()));
        assert!(assignment("a.b").is_err() && assignment("=c").is_err());
        assert_eq!(bounds("0, 1").unwrap(), (0.0, 1.0));
    }
}
