//! `namewire bench access`.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, builder::RangedU64ValueParser};

use super::common::{at_least_one, end_when_interrupted, print_json};
use crate::{AccessBenchOptions, AccessReport, ReaderSource, run_access, run_reader};
use namewire::cli::output::{self, Table};
use namewire::cli::shared::{Failure, Outcome, size};

/// Reads of a file by every interface to applications, beside the same over HTTP and from XRootD's own storage
///
/// In order by 1 MiB, 4 KiB and 1 MiB at random, and a column (64 KiB of each MiB, eight together): through the core, C,
/// Python, fsspec, a mount and XRootD, verified by a key, with warm caches of forwarder and servers, and a new process
/// for each. Readers hold all that they read in memory until the end. What the machine lacks is listed.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// Length of the file
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = size(16 << 20..=1_u64 << 36))]
    size: u64,
    /// Random reads of 4 KiB
    #[arg(long, value_name = "NUMBER", default_value_t = AccessBenchOptions::default().reads, value_parser = RangedU64ValueParser::<u64>::new().range(8..))]
    reads: u64,
    /// Rounds, in which every interface has its turn
    #[arg(long, default_value_t = AccessBenchOptions::default().rounds, value_parser = at_least_one())]
    rounds: usize,
    /// Interpreters of Python; the first that has the modules is used
    #[arg(long, value_name = "PROGRAM,..", value_delimiter = ',')]
    python: Vec<String>,
    /// Only interfaces whose name contains this, such as core
    #[arg(long)]
    filter: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Options of the process that reads.
#[derive(Args, Debug)]
pub(super) struct ReaderOptions {
    /// A file of the operating system
    #[arg(long, conflicts_with = "name")]
    path: Option<PathBuf>,
    /// A name
    #[arg(long, required_unless_present = "path")]
    name: Option<String>,
    /// Verification, as of `--verify` of `namewire get`
    #[arg(long, default_value = "digest")]
    verify: String,
    /// Exchange single packets
    #[arg(long)]
    exchange: bool,
    /// The plan
    #[arg(long)]
    plan: PathBuf,
}

pub(super) fn run(options: &Options) -> Outcome {
    let mut bench = AccessBenchOptions {
        bytes: options.size,
        reads: options.reads,
        rounds: options.rounds,
        filter: options.filter.clone(),
        ..AccessBenchOptions::default()
    };
    if !options.python.is_empty() {
        bench.python.clone_from(&options.python);
    }
    end_when_interrupted()?;
    let report = run_access(&bench, |line| output::note(&line))?;
    if options.json { print_json(&report) } else { print(&report) }
}

pub(super) fn read(options: &ReaderOptions) -> Outcome {
    let source = match (&options.path, &options.name) {
        (Some(path), _) => ReaderSource::Path(path.clone()),
        (None, Some(name)) if options.exchange => ReaderSource::Exchange { name: name.clone() },
        (None, Some(name)) => {
            ReaderSource::Name { name: name.clone(), verify: options.verify.clone() }
        }
        (None, None) => return Err(Failure::Usage("give --path or --name".to_owned())),
    };
    let mut out = Vec::new();
    run_reader(&source, &options.plan, &mut out)?;
    std::io::stdout().write_all(&out).map_err(|_| Failure::OutputClosed)
}

fn print(report: &AccessReport) -> Outcome {
    let mut table = Table::new(&["INTERFACE", "PATTERN", ">READS", ">MB/s", ">p50 µs", ">p99 µs"]);
    for case in &report.cases {
        table.row(vec![
            case.way.clone(),
            case.pattern.clone(),
            case.reads.to_string(),
            format!("{:.1}", case.mb_per_s),
            format!("{:.0}", case.p50_us),
            format!("{:.0}", case.p99_us),
        ]);
    }
    table.print("no cases")?;
    for one in &report.ratios {
        let goal = if one.at_most { "at most" } else { "at least" };
        output::print_line(&format!("{}: {:.2}, goal {goal} {}", one.ratio, one.value, one.goal))?;
    }
    for one in &report.missing {
        output::print_line(&format!("{} was not measured: {}", one.way, one.reason))?;
    }
    Ok(())
}
