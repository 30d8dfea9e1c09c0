//! `namewire bench`: measures this program, beside others.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use namewire_bench::{RelayOptions, RelayReport, relay_udp, relay_unix, run_relay};

use super::connect::duration;
use super::failure::{Failure, Outcome};
use super::output::{self, Table, grouped};

/// Measure the forwarder, beside others
#[derive(Args, Debug)]
pub(super) struct Options {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand, Debug)]
enum Bench {
    /// Whole forwarders between real sockets: this one, a dumb relay, and those found on PATH
    ///
    /// The forwarder runs on one processor, the load generator on another. Forwarders called `nfd` and
    /// `ndnd` are measured too if they are found.
    Relay {
        /// Only cases whose name contains this, such as unix-100
        #[arg(long)]
        filter: Option<String>,
        /// Length of one measured stretch
        #[arg(long, value_parser = duration, default_value = "1s", value_name = "DURATION")]
        stretch: Duration,
        /// Measured stretches per case and program
        #[arg(long, default_value_t = RelayOptions::default().rounds)]
        rounds: usize,
        /// The forwarder's processor and the generator's
        #[arg(long, num_args = 2, value_names = ["FORWARDER", "GENERATOR"], default_values_t = [0, 1])]
        cpus: Vec<usize>,
        /// First of the UDP ports to use on the loopback interface
        #[arg(long, default_value_t = RelayOptions::default().first_port)]
        first_port: u16,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// The yardstick of `bench relay`, which starts it by itself
    #[command(hide = true)]
    DumbRelay {
        /// Listen on this Unix socket
        #[arg(long)]
        unix: Option<PathBuf>,
        /// Consumers that will connect to it
        #[arg(long, default_value_t = 1)]
        consumers: usize,
        /// Listen on this UDP port
        #[arg(long)]
        listen_port: Option<u16>,
        /// UDP port of the producer
        #[arg(long, default_value_t = 0)]
        producer_port: u16,
        /// UDP ports of the consumers
        #[arg(long, value_delimiter = ',')]
        consumer_ports: Vec<u16>,
    },
}

pub(super) fn run(options: &Options) -> Outcome {
    match &options.bench {
        Bench::Relay { filter, stretch, rounds, cpus, first_port, json } => {
            let relay = RelayOptions {
                filter: filter.clone(),
                stretch: *stretch,
                rounds: *rounds,
                cpus: (cpus[0], cpus[1]),
                first_port: *first_port,
            };
            let report = run_relay(&relay, |line| eprintln!("{line}"))?;
            if *json { print_json(&report) } else { print_relay(&report) }
        }
        Bench::DumbRelay { unix, consumers, listen_port, producer_port, consumer_ports } => {
            let ended = match (unix, listen_port) {
                (Some(path), None) => relay_unix(path, *consumers),
                (None, Some(port)) => relay_udp(*port, consumer_ports, *producer_port),
                _ => return Err(Failure::Usage("give either --unix or --listen-port".to_owned())),
            };
            ended.map_err(|error| Failure::Failed(format!("the dumb relay ended: {error}")))
        }
    }
}

fn print_json(report: &impl serde::Serialize) -> Outcome {
    let value = serde_json::to_value(report).map_err(|error| Failure::Failed(error.to_string()))?;
    Ok(output::print_json(&value)?)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate, shown as a whole number"
)]
fn print_relay(report: &RelayReport) -> Outcome {
    let headings = [
        "CASE", ">WINDOW", ">FACES", "NAMES", ">EXCH/S", ">CPU µs", ">OF DUMB", ">LOSS", ">p50 µs",
        ">p99 µs", ">MiB", "NOTE",
    ];
    let mut table = Table::new(&headings);
    for case in &report.cases {
        table.row(vec![
            case.case.clone(),
            case.window.to_string(),
            case.faces.to_string(),
            if case.mixed { "mixed" } else { "equal" }.to_owned(),
            grouped(case.exchanges_per_s as u64),
            format!("{:.2}", case.cpu_us_per_exchange),
            case.share_of_dumb.map_or_else(String::new, |share| format!("{:.0}%", share * 100.0)),
            format!("{:.3}%", case.loss * 100.0),
            format!("{:.1}", case.p50_us),
            format!("{:.1}", case.p99_us),
            format!("{:.0}", case.resident_mib),
            if case.generator_bound { "generator bound" } else { "" }.to_owned(),
        ]);
    }
    Ok(table.print("no case matches the filter")?)
}
