//! `namewire bench disk`: the disk cache.

use std::path::PathBuf;
use std::time::Duration;

use crate::{DiskOptions, DiskReport, run_disk};
use clap::Args;
use clap::builder::RangedU64ValueParser;

use super::common::{end_when_interrupted, print_json};
use namewire::cli::output::{self, Table, grouped};
use namewire::cli::shared::{Outcome, positive_duration, size};

/// The disk cache: hits per second, write amplification, memory per packet and time to restart, beside fio
///
/// Fills a file, opens it again, and reads packets at random. fio is run with the same pattern if it is installed.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// File, removed at the end, or a blank block device
    #[arg(long, value_name = "PATH")]
    file: PathBuf,
    /// Bytes of it
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = size(1 << 23..=1_u64 << 44))]
    size: u64,
    /// Length of a packet
    #[arg(long, value_name = "BYTES", default_value_t = 1100, value_parser = RangedU64ValueParser::<usize>::new().range(64..=8800))]
    packet: usize,
    /// Packets written, in multiples of those that the disk holds
    #[arg(long, value_name = "NUMBER", default_value_t = 1.5)]
    rounds: f64,
    /// Reads in progress
    #[arg(long, default_value_t = 64, value_parser = RangedU64ValueParser::<usize>::new().range(1..=4096))]
    depth: usize,
    /// Threads that read, in place of io_uring
    #[arg(long, value_parser = RangedU64ValueParser::<usize>::new().range(1..=64))]
    threads: Option<usize>,
    /// Time of the reads
    #[arg(long, default_value = "5s", value_parser = positive_duration)]
    duration: Duration,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(options: &Options) -> Outcome {
    let disk = DiskOptions {
        path: options.file.clone(),
        bytes: options.size,
        packet_bytes: options.packet,
        rounds: options.rounds,
        depth: options.depth,
        threads: options.threads,
        duration: options.duration,
    };
    end_when_interrupted()?;
    let report = run_disk(&disk, |line| output::note(&line))?;
    if options.json { print_json(&report) } else { print(&report) }
}

fn print(report: &DiskReport) -> Outcome {
    let mut table = Table::new(&["FIGURE", ">VALUE"]);
    let mut row = |name: &str, value: String| table.row(vec![name.to_owned(), value]);
    let way =
        report.threads.map_or_else(|| "io_uring".to_owned(), |count| format!("{count} threads"));
    row("reads by", way);
    row("packets read per second", format!("{:.0}", report.hits_per_second));
    row("mean time of a read, us", format!("{:.0}", report.read_mean_us));
    row("packets written per second", format!("{:.0}", report.admitted_per_second));
    row("write amplification", format!("{:.3}", report.write_amplification));
    row("packets after the restart", grouped(report.recovered));
    row("time of the restart, s", format!("{:.2}", report.restart_seconds));
    row("memory per packet, bytes", format!("{:.1}", report.index_bytes_per_packet));
    if let Some(fio) = &report.fio {
        row("reads per second of fio", format!("{:.0}", fio.iops));
    }
    Ok(table.print("no figures")?)
}
