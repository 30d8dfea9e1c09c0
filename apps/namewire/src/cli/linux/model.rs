//! `namewire model`: predict what a forwarder can carry, and how sure the prediction is.

mod campaign;
mod engine;
mod explore;
mod forwarder;
mod host;
mod left_out;
mod predict;
mod question;
mod reproduce;
mod screen;

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use ndn_model::check::{CheckResult, Checker, Runner};
use ndn_model::file::{Model, law};
use ndn_model::fit::{Fit, FitReport, PpccReport, fit, fit_by_ppcc};
use ndn_model::property::Property;
use ndn_model::rare::Splitting;
use ndn_model::smc::Verdict;
use serde_json::{Value, json};

use crate::cli::arguments::at_least_one;
use crate::cli::failure::{Failure, Outcome};
use crate::cli::output::{self, Table, grouped};
use question::{
    MethodName, Question, answer_json, assignment, per_cent, quantity, read, usage, verdict_text,
};

/// Predict throughput and loss of a forwarder from a model
///
/// A model file describes a forwarder, its service times and the traffic. A property asks for an estimate, or for a decision if P has a threshold:
///   P(all(satisfied))                probability that every Interest is satisfied
///   P(G[0, 5 ms] satisfied)          the same for the first 5 ms after the warm-up
///   E(share(satisfied))              mean satisfaction rate
///   Q(0.5, quantile(latency, 0.99))  median over traces of the p99 latency
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(in crate::cli) struct Options {
    #[command(subcommand)]
    what: ModelCommand,
}

#[derive(Subcommand, Debug)]
enum ModelCommand {
    /// Measure the forwarder on this machine: a campaign of runs in random order
    ///
    /// Each run starts a forwarder with faces in memory and sends Interests to it at a rate. Workers and generator are
    /// pinned to processors: nothing else should run. A try is discarded and repeated if a worker waited for its
    /// processor, if the host took the processor, or if a reference load before and after it was slower than usual.
    Measure(campaign::MeasureOptions),
    /// Show which settings of a campaign matter, and how much
    ///
    /// Analysis of variance (type II) of main effects and interactions of two settings; p is compared with 5 % over the
    /// number of terms.
    Screen(screen::Options),
    /// Calibrate the model with a campaign
    Calibrate(campaign::CalibrateOptions),
    /// Find the smallest number of workers for a rate
    Plan(predict::PlanOptions),
    /// Compare predictions with the forwarder, in settings that the campaign did not have
    ///
    /// With a calibration of another machine, this one is measured and calibrated first, into files beside it.
    Validate(predict::ValidateOptions),
    /// Decide or estimate a property of a model
    ///
    /// Exit status 1 if the property does not hold, or is undecided.
    Check(CheckOptions),
    /// Check a property for all combinations of values of some keys
    ///
    /// Points that are decided get no more traces. All points use the same random numbers. The traces run on threads, or
    /// on several machines by Slurm, Dask or Ray.
    Explore(explore::Options),
    /// Fit distributions to measured durations
    Fit(FitOptions),
    /// Repeat the experiments of the paper on NDN-DPDK, and show which of its findings follow
    ///
    /// "Performance Evaluation of the NDN Data Plane Using Statistical Model Checking" does not publish its service times:
    /// the options are what is assumed instead.
    Reproduce(reproduce::Options),
    /// Run a part of the tasks of a sweep: what `explore --engine` starts on several machines
    RunTasks(engine::RunTasksOptions),
}

#[derive(Args, Debug)]
struct CheckOptions {
    #[command(flatten)]
    question: Question,
    /// Another value for a key of the model, such as forwarder.workers=4
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = assignment)]
    changes: Vec<(String, String)>,
    /// Queue whose length leads to the rare event, such as "nic 0"
    #[arg(long, value_name = "NAME", help_heading = "Method splitting")]
    queue: Option<String>,
    /// Traces from each level of the queue to the next one
    #[arg(long, default_value = "200", value_parser = at_least_one::<NonZeroU32>, help_heading = "Method splitting")]
    effort: NonZeroU32,
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

pub(in crate::cli) fn run(options: &Options) -> Outcome {
    match &options.what {
        ModelCommand::Check(options) => check(options),
        ModelCommand::Explore(options) => explore::run(options),
        ModelCommand::RunTasks(options) => engine::run_tasks(options),
        ModelCommand::Fit(options) => fit_file(options),
        ModelCommand::Measure(options) => campaign::run_measure(options),
        ModelCommand::Calibrate(options) => campaign::run_calibrate(options),
        ModelCommand::Screen(options) => screen::run(options),
        ModelCommand::Reproduce(options) => reproduce::run(options),
        ModelCommand::Plan(options) => predict::plan(options),
        ModelCommand::Validate(options) => predict::validate(options),
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
    let splitting = splitting(options, &model, &property)?;
    let runner = || match &splitting {
        Some(splitting) => Runner::splitting(&model, &property, question.seed, splitting.clone()),
        None => Runner::new(&model, &property, question.seed),
    };
    let answer = run_traces(question, &runner, checker)?;
    for warning in &model.warnings {
        output::warn(warning);
    }
    if options.json {
        let mut value = answer_json(&answer, &model.warnings);
        if let Some(splitting) = &splitting {
            value["levels"] = json!(splitting.levels());
        }
        output::print_json(&value)?;
    } else {
        print_answer(question, &property, &answer)?;
        if let Some(splitting) = &splitting {
            let levels: Vec<String> = splitting.levels().iter().map(usize::to_string).collect();
            output::print_line(&format!("levels      {}", levels.join(", ")))?;
        }
    }
    match answer.verdict {
        Some(Verdict::Fails) => Err(Failure::Failed("the property does not hold".to_owned())),
        Some(Verdict::Undecided) => Err(Failure::Failed("the property is undecided".to_owned())),
        Some(Verdict::Holds) | None => Ok(()),
    }
}

/// Levels of the queue, for the method splitting.
fn splitting(
    options: &CheckOptions,
    model: &Model,
    property: &Property,
) -> Outcome<Option<Splitting>> {
    let question = &options.question;
    match (question.method, &options.queue) {
        (MethodName::Splitting, Some(queue)) => {
            let effort = options.effort.get() as usize;
            let chosen = Splitting::new(model, property, queue, effort, question.seed);
            chosen.map(Some).map_err(usage)
        }
        (MethodName::Splitting, None) => {
            let names: Vec<&str> =
                model.network.queues.iter().map(|queue| queue.name.as_str()).collect();
            Err(usage(format_args!(
                "method splitting needs --queue, the queue whose length leads to the event: {}",
                names.join(", ")
            )))
        }
        (_, Some(_)) => Err(usage("--queue belongs to --method splitting")),
        (_, None) => Ok(None),
    }
}

/// Runs traces in rounds on all threads, and takes their observations in order of the trace number.
fn run_traces<'m>(
    question: &Question,
    runner: &dyn Fn() -> Runner<'m>,
    mut checker: Checker,
) -> Outcome<CheckResult> {
    let threads = question.threads();
    let mut runners: Vec<Runner> = (0..threads).map(|_| runner()).collect();
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

fn print_answer(question: &Question, property: &Property, answer: &CheckResult) -> Outcome {
    output::print_line(&format!("{}: {}", question.property, verdict_text(answer)))?;
    output::print_line(&format!("estimate    {}", quantity(property, answer.estimate)))?;
    if let Some(interval) = answer.interval {
        let confidence = per_cent(question.confidence);
        output::print_line(&format!(
            "interval    {} to {} ({confidence} %)",
            quantity(property, interval.low),
            quantity(property, interval.high)
        ))?;
    }
    let what = if question.method == MethodName::Splitting { "replicated " } else { "traces     " };
    output::print_line(&format!("{what} {}", grouped(u64::from(answer.traces))))?;
    if !answer.is_complete {
        output::print_line("incomplete  the limit of traces ended it (--traces-max)")?;
    }
    output::print_line(&format!("method      {}", answer.caveat))?;
    Ok(())
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
        if !(value.is_finite() && value > 0.0) {
            let place = format!("{}: line {}", options.file.display(), index + 1);
            return Err(usage(format_args!("{place}: {line} is no duration above zero")));
        }
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
