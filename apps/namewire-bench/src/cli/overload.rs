//! `namewire bench overload`.

use std::path::PathBuf;
use std::time::Duration;

use crate::{OverloadOptions, OverloadReport, plot, run_overload};
use clap::Args;
use clap::builder::RangedU64ValueParser;

use super::common::{at_least_one, end_when_interrupted, print_json};
use namewire::cli::output::{self, Table, grouped};
use namewire::cli::shared::{Failure, Outcome};
use namewire::cli::shared::{List, numbers, processors};
use namewire::cli::shared::{positive_duration, size};

/// More Interests than can be forwarded, over UDP, with and without priority of answers
///
/// Open loop: consumers send bursts at the times of a Poisson process, regardless of answers. The largest rate of which
/// 99 % are satisfied is searched first; all other rates are multiples of it. The workers of the forwarder, the
/// producer and each consumer run on processors of their own.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// Offered rates, in multiples of the sustainable one
    #[arg(long, value_name = "NUMBERS", default_value_t = List(OverloadOptions::default().ratios))]
    ratios: List<f64>,
    /// Duration of each rate
    #[arg(long, value_parser = positive_duration, default_value = "1s", value_name = "DURATION")]
    stretch: Duration,
    /// Repetitions of each rate
    #[arg(long, default_value_t = OverloadOptions::default().rounds, value_parser = at_least_one())]
    rounds: usize,
    /// Sizes of the content of a Data, for one run of all rates each
    #[arg(long, value_name = "SIZE,..", value_delimiter = ',', default_value = "100B,1000B", value_parser = size(0..=8000_usize))]
    payload: Vec<usize>,
    /// Workers of the forwarder, for one run of all rates each
    #[arg(long, value_name = "NUMBERS", default_value_t = List(OverloadOptions::default().workers), value_parser = numbers(1..=64_usize))]
    workers: List<usize>,
    /// Interests that a consumer sends at once
    #[arg(long, value_name = "NUMBER", default_value_t = OverloadOptions::default().burst, value_parser = RangedU64ValueParser::<usize>::new().range(1..=64))]
    burst: usize,
    /// The processors of the workers, the producer, and of one or more consumers
    #[arg(long, value_name = "NUMBERS", default_value_t = List(OverloadOptions::default().cpus))]
    cpus: List<usize>,
    /// First of the UDP ports to use on the loopback interface
    #[arg(long, default_value_t = OverloadOptions::default().first_port)]
    first_port: u16,
    /// Draw the rates into this SVG file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(options: &Options) -> Outcome {
    let Options { ratios: List(ratios), rounds, svg, .. } = options;
    if ratios.iter().any(|ratio| !(0.01..=100.0).contains(ratio)) || *rounds == 0 {
        let reason = "--ratios are from 0.01 to 100, and there is a round at least";
        return Err(Failure::Usage(reason.to_owned()));
    }
    let overload = OverloadOptions {
        ratios: ratios.clone(),
        stretch: options.stretch,
        rounds: *rounds,
        payloads: options.payload.clone(),
        burst: options.burst,
        workers: options.workers.0.clone(),
        cpus: processors(&options.cpus)?,
        first_port: options.first_port,
    };
    end_when_interrupted()?;
    let report = run_overload(&overload, |line| output::note(&line))?;
    if let Some(path) = svg {
        std::fs::write(path, plot(&report)).map_err(|error| {
            Failure::Failed(format!("cannot write {}: {error}", path.display()))
        })?;
    }
    if options.json { print_json(&report) } else { print_overload(&report) }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate, shown as a whole number"
)]
fn print_overload(report: &OverloadReport) -> Outcome {
    let headings = [
        "MODE",
        ">OFFERED",
        ">INTERESTS/S",
        ">SATISFIED/S",
        ">OF PEAK",
        ">NACKS/S",
        ">ANSWERS LOST",
        ">p50 ms",
        ">p99 ms",
        ">BUSY",
        "NOTE",
    ];
    for run in &report.runs {
        output::print_line(&format!(
            "workers: {}, payload: {} B, sustainable: {}/s (closed loop: {}/s, generator: {}/s){}",
            run.workers,
            run.payload,
            grouped(run.sustainable_per_s as u64),
            grouped(run.closed_loop_per_s as u64),
            grouped(run.generator_per_s as u64),
            if run.valid { "" } else { ", INVALID: less than 90 % are satisfied at that rate" },
        ))?;
        let mut table = Table::new(&headings);
        for case in &run.cases {
            table.row(vec![
                if case.answers_first { "answers first" } else { "as it comes" }.to_owned(),
                format!("{:.2} x", case.ratio),
                grouped(case.offered_per_s as u64),
                grouped(case.satisfied_per_s as u64),
                case.of_peak.map_or("-".to_owned(), |share| format!("{:.0}%", share * 100.0)),
                grouped(case.nacked_per_s as u64),
                format!("{:.1}%", case.answers_lost * 100.0),
                format!("{:.1}", case.p50_ms),
                format!("{:.1}", case.p99_ms),
                format!("{:.0}%", case.forwarder_busy * 100.0),
                if case.generator_bound { "generator bound" } else { "" }.to_owned(),
            ]);
        }
        table.print("no rates")?;
    }
    Ok(())
}
