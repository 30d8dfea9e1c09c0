//! `namewire model screen`: which factors of a campaign matter.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use ndn_lab::figure::{Lines, Point, Series};
use ndn_model::calibrate::Run;
use ndn_model::screen::{Factor, LevelMean, Observation, Screening, screen};
use serde_json::{Value, json};

use super::campaign::{HIT_DISCOUNT, load_campaign};
use super::question::{usage, write_figure};
use crate::cli::failure::Outcome;
use crate::cli::output::{self, Table};

#[derive(Args, Debug)]
pub(super) struct Options {
    /// Campaign file of `model measure`
    campaign: PathBuf,
    /// Response to explain
    #[arg(long, value_enum, default_value = "time")]
    response: Response,
    /// Draw main effects and interactions into this SVG file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Response {
    /// Processor time of the workers per Interest
    Time,
    /// Interests that were not satisfied for lack of room
    Unsatisfied,
    /// p99 of the latency
    Latency,
    /// PIT entries at the end of the window
    Pit,
    /// Interests in the queue of a face, as another one finds them
    Queue,
}

impl Response {
    const fn title(self) -> &'static str {
        match self {
            Self::Time => "processor time per Interest",
            Self::Unsatisfied => "unsatisfied Interests",
            Self::Latency => "p99 latency",
            Self::Pit => "PIT entries",
            Self::Queue => "Interests in the queue of a face",
        }
    }

    const fn unit(self) -> &'static str {
        match self {
            Self::Time | Self::Latency => "us",
            Self::Unsatisfied => "%",
            Self::Pit => "entries",
            Self::Queue => "Interests",
        }
    }

    fn value(self, run: &Run) -> f64 {
        match self {
            Self::Time => run.cpu_ns.iter().sum::<u64>() as f64 / run.interests.max(1) as f64 / 1e3,
            Self::Unsatisfied => 100.0 * run.unsatisfied(),
            Self::Latency => run.latency_ns[2] as f64 / 1e3,
            Self::Pit => run.pit_entries as f64,
            Self::Queue => run.queues.interests.mean(),
        }
    }
}

/// The rate of a run over the first guess of the capacity that its rate was chosen by, but for a constant factor.
fn relative_load(run: &Run, highest: f64) -> String {
    format!("{:.2}", run.setting.rate * (1.0 - HIT_DISCOUNT * run.setting.hit_ratio) / highest)
}

/// Factors that vary, and the runs by their levels.
fn design(runs: &[Run], response: Response) -> (Vec<Factor>, Vec<Observation>) {
    let highest = |workers: usize| {
        let of_workers = runs.iter().filter(|run| run.setting.workers == workers);
        let loads = of_workers.map(|r| r.setting.rate * (1.0 - HIT_DISCOUNT * r.setting.hit_ratio));
        loads.fold(f64::MIN_POSITIVE, f64::max)
    };
    let columns: Vec<(&str, Vec<String>)> = vec![
        ("workers", runs.iter().map(|run| run.setting.workers.to_string()).collect()),
        ("components", runs.iter().map(|run| run.setting.components.to_string()).collect()),
        ("payload", runs.iter().map(|run| run.setting.payload.to_string()).collect()),
        ("hits", runs.iter().map(|run| run.setting.hit_ratio.to_string()).collect()),
        ("routes", runs.iter().map(|run| run.setting.routes.to_string()).collect()),
        ("placement", runs.iter().map(|run| format!("{:?}", run.setting.placement)).collect()),
        ("load", runs.iter().map(|run| relative_load(run, highest(run.setting.workers))).collect()),
        (
            "trace",
            runs.iter()
                .map(|run| if run.services.is_some() { "on" } else { "off" }.to_owned())
                .collect(),
        ),
    ];
    let mut factors = Vec::new();
    let mut observations: Vec<Observation> = runs
        .iter()
        .map(|run| Observation { levels: Vec::new(), value: response.value(run) })
        .collect();
    for (name, column) in columns {
        let mut levels = column.clone();
        let number = |text: &String| text.parse::<f64>().unwrap_or(0.0);
        levels.sort_by(|a, b| number(a).total_cmp(&number(b)).then_with(|| a.cmp(b)));
        levels.dedup();
        if levels.len() < 2 {
            continue;
        }
        for (observation, level) in observations.iter_mut().zip(&column) {
            observation.levels.push(levels.iter().position(|one| one == level).unwrap_or(0));
        }
        factors.push(Factor { name: name.to_owned(), levels });
    }
    (factors, observations)
}

pub(super) fn run(options: &Options) -> Outcome {
    let (header, runs) = load_campaign(&options.campaign)?;
    let path = options.campaign.display();
    let planned = header.runs();
    if runs.len() < planned {
        output::warn(&format_args!("{path}: {} of {planned} runs are done", runs.len()));
    }
    let runs: Vec<Run> = runs.into_iter().filter(|run| run.interests > 0).collect();
    let response = options.response;
    let (factors, observations) = design(&runs, response);
    let screening =
        screen(&factors, &observations).map_err(|error| usage(format_args!("{path}: {error}")))?;
    if let Some(path) = &options.svg {
        let title = format!("{} by factors: mean and two standard errors", response.title());
        write_figure(path, &title, panels(&screening, response), 3)?;
    }
    let findings = screening.findings(response.unit());
    if options.json {
        return Ok(output::print_json(&as_json(&screening, response, &findings))?);
    }
    let mut table = Table::new(&["TERM", ">VARIANCE", ">FREEDOM", ">F", ">P", "MATTERS"]);
    for term in &screening.terms {
        table.row(vec![
            screening.name(term),
            format!("{:.1} %", 100.0 * term.share),
            term.freedom.to_string(),
            format!("{:.2}", term.f),
            format!("{:.2e}", term.p),
            if term.matters { "yes" } else { "no" }.to_owned(),
        ]);
    }
    table.print("no terms")?;
    output::print_line(&format!("{} of {} runs:", response.title(), screening.runs))?;
    for finding in findings {
        output::print_line(&format!("  {finding}"))?;
    }
    Ok(())
}

fn point(position: usize, mean: &LevelMean) -> Point {
    let interval = Some((mean.mean - 2.0 * mean.error, mean.mean + 2.0 * mean.error));
    Point { position, value: mean.mean, interval }
}

fn points(means: &[LevelMean]) -> Vec<Point> {
    means.iter().enumerate().map(|(position, mean)| point(position, mean)).collect()
}

/// A panel for each factor, then one for each interaction.
fn panels(screening: &Screening, response: Response) -> Vec<Lines> {
    let (factors, y) = (&screening.factors, response.unit().to_owned());
    let main = factors.iter().zip(&screening.means).map(|(factor, means)| Lines {
        title: factor.name.clone(),
        x: factor.name.clone(),
        y: y.clone(),
        positions: factor.levels.clone(),
        series: vec![Series { name: String::new(), points: points(means) }],
    });
    let pairs = screening.pair_means.iter().map(|pair| {
        let (first, second) = (&factors[pair.factors.0], &factors[pair.factors.1]);
        let series = second.levels.iter().enumerate().map(|(level, name)| Series {
            name: format!("{} {name}", second.name),
            points: pair.means.iter().enumerate().map(|(at, row)| point(at, &row[level])).collect(),
        });
        Lines {
            title: format!("{} × {}", first.name, second.name),
            x: first.name.clone(),
            y: y.clone(),
            positions: first.levels.clone(),
            series: series.collect(),
        }
    });
    main.chain(pairs).collect()
}

fn as_json(screening: &Screening, response: Response, findings: &[String]) -> Value {
    let terms: Vec<Value> = screening
        .terms
        .iter()
        .map(|term| {
            json!({
                "term": screening.name(term), "share": term.share, "squares": term.squares,
                "freedom": term.freedom, "f": term.f, "p": term.p, "matters": term.matters,
            })
        })
        .collect();
    let means: Vec<Value> = screening
        .factors
        .iter()
        .zip(&screening.means)
        .flat_map(|(factor, means)| {
            factor.levels.iter().zip(means).map(|(level, mean)| {
                json!({
                    "factor": factor.name, "level": level, "runs": mean.runs,
                    "mean": mean.mean, "error": mean.error,
                })
            })
        })
        .collect();
    json!({
        "response": response.title(), "unit": response.unit(), "runs": screening.runs,
        "terms": terms, "means": means,
        "residual": { "squares": screening.residual.0, "freedom": screening.residual.1 },
        "findings": findings,
    })
}
