//! `namewire bench management`.

use std::time::Duration;

use crate::{Change, ManagementOptions, ManagementReport, run_management};
use clap::Args;

use super::common::{end_when_interrupted, print_json};
use namewire::cli::output::{self, Table, grouped};
use namewire::cli::shared::Outcome;
use namewire::cli::shared::positive_duration;
use namewire::cli::shared::{List, processors_of};

/// Effect of management on traffic: while everything is listed, and under hostile commands
///
/// Needs four processors: for the forwarder's worker, the generator, the forwarder's control thread, and the disturbing
/// client.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// Only cases whose name contains this: listing, hostile
    #[arg(long)]
    filter: Option<String>,
    /// Length of one measured stretch
    #[arg(long, value_parser = positive_duration, default_value = "200ms", value_name = "DURATION")]
    stretch: Duration,
    /// Measured pairs of stretches while everything is listed, in each loop
    #[arg(long, default_value_t = ManagementOptions::default().pairs)]
    pairs: usize,
    /// FIB entries that are listed
    #[arg(long, default_value_t = ManagementOptions::default().fib_entries)]
    fib_entries: u32,
    /// Faces that are listed
    #[arg(long, default_value_t = ManagementOptions::default().faces, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    faces: u16,
    /// Hostile commands in all
    #[arg(long, default_value_t = ManagementOptions::default().hostile)]
    hostile: u64,
    /// Hostile commands per second
    #[arg(long, default_value_t = ManagementOptions::default().hostile_rate, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    hostile_rate: u32,
    /// The processors, in that order
    #[arg(long, value_name = "NUMBERS", default_value_t = List(ManagementOptions::default().cpus.to_vec()))]
    cpus: List<usize>,
    /// Port to use on the loopback interface, UDP and TCP
    #[arg(long, default_value_t = ManagementOptions::default().first_port)]
    port: u16,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(options: &Options) -> Outcome {
    let management = ManagementOptions {
        filter: options.filter.clone(),
        stretch: options.stretch,
        pairs: options.pairs,
        cpus: processors_of(&options.cpus)?,
        fib_entries: options.fib_entries,
        faces: options.faces,
        hostile: options.hostile,
        hostile_rate: options.hostile_rate,
        first_port: options.port,
    };
    end_when_interrupted()?;
    let report = run_management(&management, |line| output::note(&line))?;
    if options.json { print_json(&report) } else { print_management(&report) }
}

fn print_management(report: &ManagementReport) -> Outcome {
    let headings = [
        "CASE",
        "LOOP",
        ">ALONE/S",
        ">DISTURBED/S",
        ">CHANGE",
        "95 %",
        ">OF IT OWN",
        "95 %",
        ">µs",
        ">DISTURBED",
        ">CHANGE",
        "95 %",
        ">p99 µs",
        ">DISTURBED",
        ">LOST",
        ">LISTS, COMMANDS",
        ">MiB",
        ">THEN",
        ">AT THE END",
    ];
    let mut table = Table::new(&headings);
    let percent = |share: f64| format!("{:+.1}%", share * 100.0);
    for case in &report.cases {
        let between = |change: &Change| {
            format!("{} {}", percent(change.interval.0), percent(change.interval.1))
        };
        let own = case.rate_change_from_elsewhere.as_ref();
        table.row(vec![
            case.case.to_owned(),
            case.loop_kind.to_owned(),
            format!("{:.0}", case.exchanges_per_s.0),
            format!("{:.0}", case.exchanges_per_s.1),
            percent(case.rate_change.median),
            between(&case.rate_change),
            own.map_or_else(String::new, |change| percent(change.median)),
            own.map_or_else(String::new, between),
            format!("{:.3}", case.worker_us.0),
            format!("{:.3}", case.worker_us.1),
            percent(case.worker_change.median),
            between(&case.worker_change),
            format!("{:.0}", case.p99_us.0),
            format!("{:.0}", case.p99_us.1),
            grouped(case.lost.0 + case.lost.1),
            grouped(case.disturbances),
            format!("{:.1}", case.resident_mib.0),
            format!("{:.1}", case.resident_settled_mib),
            format!("{:.1}", case.resident_mib.1),
        ]);
    }
    Ok(table.print("no case matches the filter")?)
}
