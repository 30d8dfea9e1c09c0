//! `namewire bench sync`.

use clap::Args;
use clap::builder::RangedU64ValueParser;

use super::common::{at_least_one, end_when_interrupted, print_json};
use crate::{SyncBenchOptions, SyncReport, run_sync};
use namewire::cli::output::{self, Table};
use namewire::cli::shared::{Outcome, size};

/// Copies of a directory tree by `namewire sync`, rsync and rclone, as ratios of their times
///
/// A first copy, a second one without a change, one after a file has changed, and one after a directory was renamed. Each
/// program reads from its own server over loopback: a forwarder with `namewire serve`, an rsync daemon, and `rclone serve
/// webdav`. The first copy of namewire is made by `namewire get --recursive`, and it shows its progress on a terminal. They
/// take turns; every copy is compared with the tree. A ratio above 1 says that `namewire sync` was faster.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// Files of the tree, in directories of 50
    #[arg(long, value_name = "NUMBER", default_value_t = 1000, value_parser = RangedU64ValueParser::<u64>::new().range(1..=1_000_000))]
    files: u64,
    /// Length of all files together
    #[arg(long, value_name = "SIZE", default_value = "100MiB", value_parser = size(1..=1_u64 << 40))]
    size: u64,
    /// Sign the files with an identity, and let `namewire sync` verify them by trust rules
    #[arg(long)]
    rules: bool,
    /// Rounds, after one that is not measured
    #[arg(long, default_value_t = 5, value_parser = at_least_one())]
    rounds: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(options: &Options) -> Outcome {
    let Options { files, size, rules, rounds, .. } = *options;
    let bench = SyncBenchOptions { files, bytes: size, rounds, rules };
    end_when_interrupted()?;
    let report = run_sync(&bench, |line| output::note(&line))?;
    if options.json { print_json(&report) } else { print(&report) }
}

fn print(report: &SyncReport) -> Outcome {
    let mut table = Table::new(&["STEP", "PROGRAM", ">TIME / NAMEWIRE", ">LEAST", ">GREATEST"]);
    for case in &report.cases {
        table.row(vec![
            case.step.clone(),
            case.program.clone(),
            format!("{:.2}", case.ratio),
            format!("{:.2}", case.ratio_range[0]),
            format!("{:.2}", case.ratio_range[1]),
        ]);
    }
    table.print("no program to compare with: install rsync or rclone")?;
    for one in &report.missing {
        output::print_line(&format!("{one} is not installed"))?;
    }
    Ok(())
}
