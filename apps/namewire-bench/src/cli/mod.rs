//! The command line of `namewire-bench`.

mod access;
mod common;
mod disk;
mod files;
mod link;
mod management;
mod overload;
mod page;
mod relay;
mod sync;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::page::{Order, run_fetch_node, run_get_node};
use crate::{
    ControlCostOptions, ControlCostReport, DistanceOptions, IdleOptions, IdleReport, ModelOptions,
    ModelReport, Quartiles, SkewOptions, SkewReport, TransferOptions, relay_tcp, relay_udp,
    relay_unix, run_control_cost, run_distance, run_idle, run_model, run_skew, run_transfer,
};
use clap::builder::RangedU64ValueParser;
use clap::{Parser, Subcommand};

use common::{at_least_one, end_when_interrupted, print_json};
use namewire::cli::output::{self, Table, grouped};
use namewire::cli::shared::{Failure, Outcome, on_interrupt};
use namewire::cli::shared::{List, numbers, processors};
use namewire::cli::shared::{positive_duration, size};
use ndn_pipeline_bench::{
    Arrival, PipelineOptions, PipelineReport, ShardsReport, TraceReport, run_pipeline, run_shards,
    run_trace_cost,
};

/// Measures Namewire beside other forwarders
///
/// The `namewire` program that is measured is the one beside this program, otherwise the one on PATH.
#[derive(Parser, Debug)]
#[command(name = "namewire-bench", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand, Debug)]
enum Bench {
    /// One forwarding shard in memory, compared with the minimum that the machine allows
    ///
    /// Without sockets: decoding, hashing, tables, pipelines and the Content Store. The floor does the copies, hashes
    /// and cache misses that no forwarder can avoid, in turn with the shard.
    Pipeline {
        /// Only cases whose name contains this, such as base
        #[arg(long)]
        filter: Option<String>,
        /// Measured pairs per case, of the shard and of the floor
        #[arg(long, default_value_t = PipelineOptions::default().pairs)]
        pairs: usize,
        /// Exchanges in one stretch
        #[arg(long, default_value_t = PipelineOptions::default().stretch)]
        stretch: u64,
        /// The processor to run on
        #[arg(long, value_name = "NUMBER")]
        cpu: Option<usize>,
        /// Measure these numbers of shards instead of the cases, each shard on its own processor, such as 1,2
        #[arg(long, value_parser = numbers(1..=64_usize), value_name = "NUMBERS", conflicts_with_all = ["filter", "cpu"])]
        shards: Option<List<usize>>,
        /// Compare with and without measurement of service times, instead of with the floor
        #[arg(long, conflicts_with = "shards")]
        trace: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    Relay(relay::Options),
    /// Fetches over a link of 1 Gbit/s in virtual time, by congestion controller
    ///
    /// Round trips of 0.2, 10 and 50 ms, with short and long queues, without loss and with 0.01 and 1 %,
    /// alone and two at a time. The figures are the same on every machine.
    Distance {
        /// Virtual time that is measured, in whole seconds
        #[arg(long, value_name = "DURATION", default_value = "20s", value_parser = whole_seconds)]
        duration: Duration,
        /// Random seed
        #[arg(long, default_value_t = DistanceOptions::default().seed)]
        seed: u64,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// A file through server, forwarder and fetcher, verified, compared with what the processors allow
    ///
    /// The file is read from and written to memory. All programs share the processors. ndnd, NFD with the chunks
    /// programs, and curl from nginx are measured too if they are found.
    Transfer {
        /// Only cases whose name contains this, such as manifest
        #[arg(long)]
        filter: Option<String>,
        /// Length of the file
        #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = size(1 << 20..=1_u64 << 40))]
        size: u64,
        /// Fetches per case
        #[arg(long, default_value_t = TransferOptions::default().rounds, value_parser = at_least_one())]
        rounds: usize,
        /// The processors to share; the forwarder runs on the first
        #[arg(long, value_name = "NUMBERS", default_value_t = List(TransferOptions::default().cpus))]
        cpus: List<usize>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Distribution of skewed traffic over workers: evenness, and time to balance
    ///
    /// Sends names below prefixes drawn by Zipf's law, then unique names below one prefix, to a newly started
    /// forwarder. The imbalance is the largest load of a worker over the mean, in Interests. No Interest may be lost
    /// while names move.
    Skew {
        /// Workers of the forwarder
        #[arg(long, default_value_t = SkewOptions::default().workers, value_parser = RangedU64ValueParser::<usize>::new().range(2..=64))]
        workers: usize,
        /// Interests in flight
        #[arg(long, default_value_t = SkewOptions::default().window)]
        window: usize,
        /// Time for each case, six seconds at least
        #[arg(long, default_value = "8s", value_parser = six_seconds_at_least)]
        duration: Duration,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// CPU time of an idle forwarder with silent applications
    Idle {
        /// Workers of the forwarder
        #[arg(long, default_value_t = IdleOptions::default().workers, value_parser = RangedU64ValueParser::<usize>::new().range(1..=64))]
        workers: usize,
        /// Silent faces
        #[arg(long, default_value_t = IdleOptions::default().faces)]
        faces: usize,
        /// Length of the measurement
        #[arg(long, default_value = "20s", value_parser = positive_duration)]
        duration: Duration,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Speed of the capacity model: Interests simulated per second, and the time of a verdict beside SimPy, Ciw and
    /// stormpy
    Model {
        /// The Python interpreter with SimPy, Ciw and stormpy: .venv/bin/python after `make setup`
        #[arg(long, value_name = "PROGRAM", default_value = "python3")]
        python: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    Disk(disk::Options),
    /// Cost of the HTTP API: exchanges per second without subscribers, with a page, and with 100 subscribers and a scrape
    Control {
        /// Rounds; each measures every case
        #[arg(long, default_value_t = 5, value_parser = at_least_one())]
        rounds: usize,
        /// Measured time of a case in a round, a second at least
        #[arg(long, default_value = "3s", value_parser = whole_seconds, value_name = "DURATION")]
        duration: Duration,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    Link(link::Options),
    Page(page::Options),
    /// Consumer of a node; started by `bench page`, and as a task of the HTTP API
    #[command(hide = true)]
    PageFetch {
        #[command(flatten)]
        order: Order,
        /// Print a line when it is ready, and wait for one on standard input
        #[arg(long)]
        wait: bool,
        /// Fetch files once, and not again and again
        #[arg(long, requires = "files", conflicts_with = "get")]
        once: bool,
    },
    /// A part of the history of `bench page`, as JSON; run by the HTTP API
    #[command(hide = true)]
    PageHistory(page::HistoryOptions),
    Overload(overload::Options),
    Management(management::Options),
    Access(access::Options),
    Sync(sync::Options),
    /// Reads by a plan; started by `bench access`
    #[command(hide = true)]
    AccessReader(access::ReaderOptions),
    /// Dumb relay for comparison; started by `bench relay`
    #[command(hide = true)]
    DumbRelay {
        /// Listen on this Unix socket
        #[arg(long)]
        unix: Option<PathBuf>,
        /// Listen on this TCP address, and on the port above for the producer
        #[arg(long, value_name = "ADDRESS:PORT")]
        tcp: Option<SocketAddr>,
        /// Connected UDP sockets, the producer's first: OWN-PEER,OWN-PEER,...
        #[arg(long, value_delimiter = ',', value_parser = pair_of_addresses)]
        udp: Vec<(SocketAddr, SocketAddr)>,
        /// Consumers that will connect
        #[arg(long, default_value_t = 1)]
        consumers: usize,
        /// Serve statistics on this Unix socket
        #[arg(long)]
        statistics: PathBuf,
    },
}

/// Runs the bench that the command line selects.
pub fn main() -> ExitCode {
    match run(&Arguments::parse().bench) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !matches!(failure, Failure::OutputClosed) {
                output::note(&format_args!("namewire-bench: {failure}"));
            }
            failure.exit_code()
        }
    }
}

fn run(bench: &Bench) -> Outcome {
    match bench {
        Bench::Pipeline { filter, pairs, stretch, cpu, shards, trace, json } => {
            let pipeline = PipelineOptions {
                filter: filter.clone(),
                pairs: *pairs,
                stretch: *stretch,
                cpu: *cpu,
            };
            if let Some(List(shards)) = shards {
                let report = run_shards(shards, &pipeline, |line| output::note(&line))?;
                return if *json { print_json(&report) } else { print_shards(&report) };
            }
            if *trace {
                let report = run_trace_cost(&pipeline, |line| output::note(&line))?;
                return if *json { print_json(&report) } else { print_trace(&report) };
            }
            let report = run_pipeline(&pipeline, |line| output::note(&line))?;
            if *json { print_json(&report) } else { print_pipeline(&report) }
        }
        Bench::Relay(options) => relay::run(options),
        Bench::Distance { duration, seed, json } => {
            let distance = DistanceOptions { seconds: duration.as_secs(), seed: *seed };
            let report = run_distance(&distance, |line| output::note(&line));
            if *json { print_json(&report) } else { files::print_distance(&report) }
        }
        Bench::Transfer { filter, size, rounds, cpus, json } => {
            let transfer = TransferOptions {
                filter: filter.clone(),
                bytes: *size,
                rounds: *rounds,
                cpus: processors(cpus)?,
                ..TransferOptions::default()
            };
            // Files in memory are removed with the run.
            let interrupted = Arc::clone(&transfer.interrupted);
            on_interrupt(move || interrupted.store(true, Ordering::Relaxed))?;
            let report = run_transfer(&transfer, |line| output::note(&line))?;
            if *json { print_json(&report) } else { files::print_transfer(&report) }
        }
        Bench::Skew { workers, window, duration, json } => {
            let skew = SkewOptions {
                workers: *workers,
                window: *window,
                duration: *duration,
                ..SkewOptions::default()
            };
            end_when_interrupted()?;
            let report = run_skew(&skew, |line| output::note(&line))?;
            if *json { print_json(&report) } else { print_skew(&report) }
        }
        Bench::Idle { workers, faces, duration, json } => {
            let idle = IdleOptions { workers: *workers, faces: *faces, duration: *duration };
            end_when_interrupted()?;
            let report = run_idle(&idle)?;
            if *json { print_json(&report) } else { print_idle(&report) }
        }
        Bench::Model { python, json } => {
            let model = ModelOptions { python: python.clone() };
            let report = run_model(&model, |line| output::note(&line))?;
            if *json { print_json(&report) } else { print_model(&report) }
        }
        Bench::Disk(options) => disk::run(options),
        Bench::Control { rounds, duration, json } => {
            let interrupted = Arc::new(AtomicBool::new(false));
            let control = ControlCostOptions {
                rounds: *rounds,
                duration: *duration,
                interrupted: Arc::clone(&interrupted),
            };
            on_interrupt(move || interrupted.store(true, Ordering::Relaxed))?;
            let report = run_control_cost(&control, |line| output::note(&line))?;
            if *json { print_json(&report) } else { print_control_cost(&report) }
        }
        Bench::Link(options) => link::run(options),
        Bench::Page(options) => page::run(options),
        Bench::PageFetch { order, wait, .. } if order.get.is_some() => {
            Ok(run_get_node(order, *wait)?)
        }
        Bench::PageFetch { order, wait, once } => Ok(run_fetch_node(order, *wait, *once)?),
        Bench::PageHistory(options) => page::run_history(options),
        Bench::Overload(options) => overload::run(options),
        Bench::Management(options) => management::run(options),
        Bench::Access(options) => access::run(options),
        Bench::Sync(options) => sync::run(options),
        Bench::AccessReader(options) => access::read(options),
        Bench::DumbRelay { unix, tcp, udp, consumers, statistics } => {
            let ended = match (unix, tcp, &udp[..]) {
                (Some(path), None, []) => relay_unix(path, *consumers, statistics),
                (None, Some(address), []) => relay_tcp(*address, *consumers, statistics),
                (None, None, [_, ..]) => relay_udp(udp, statistics),
                _ => return Err(Failure::Usage("give one of --unix, --tcp, --udp".to_owned())),
            };
            ended.map_err(|error| Failure::Failed(format!("the dumb relay ended: {error}")))
        }
    }
}

/// Parses two addresses with a hyphen between them.
fn pair_of_addresses(text: &str) -> Result<(SocketAddr, SocketAddr), String> {
    let (own, peer) = text.split_once('-').ok_or("no hyphen between two addresses")?;
    let address = |text: &str| text.parse().map_err(|_| format!("{text}: no address and port"));
    Ok((address(own)?, address(peer)?))
}

/// Leaves several intervals after the first five seconds, which have a figure of their own.
fn whole_seconds(text: &str) -> Result<Duration, String> {
    let duration = positive_duration(text)?;
    match duration.subsec_nanos() {
        0 => Ok(duration),
        _ => Err("it is a number of whole seconds".to_owned()),
    }
}

fn six_seconds_at_least(text: &str) -> Result<Duration, String> {
    let duration = positive_duration(text)?;
    match duration >= Duration::from_secs(6) {
        true => Ok(duration),
        false => {
            Err("it takes six seconds at least: workers are compared after the first five"
                .to_owned())
        }
    }
}

fn print_skew(report: &SkewReport) -> Outcome {
    let mut table =
        Table::new(&["CASE", ">AFTER 5 s", ">SENT", ">SATISFIED", ">LOST", "IMBALANCE"]);
    for case in &report.cases {
        let imbalance: Vec<_> = case.imbalance.iter().map(|one| format!("{one:.2}")).collect();
        table.row(vec![
            case.case.clone(),
            format!("{:.3}", case.after_5_s),
            grouped(case.sent),
            grouped(case.satisfied),
            grouped(case.timed_out),
            imbalance.join(" "),
        ]);
    }
    Ok(table.print("no cases")?)
}

fn print_idle(report: &IdleReport) -> Outcome {
    let IdleReport { workers, faces, seconds, cpu_ms, cpu_share, .. } = report;
    Ok(output::print_line(&format!(
        "{workers} workers, {faces} silent faces: {cpu_ms:.2} ms of processor time in {seconds:.1} s, {:.4} %",
        cpu_share * 100.0
    ))?)
}

fn print_control_cost(report: &ControlCostReport) -> Outcome {
    let mut table =
        Table::new(&["CASE", ">EXCH/S", ">FROM", ">TO", ">RATIO", ">FROM", ">TO", ">RECEIVED B"]);
    for case in &report.cases {
        let rate = case.exchanges_per_s;
        let ratio = |of: fn(&Quartiles) -> f64| {
            case.ratio.as_ref().map_or_else(|| "-".to_owned(), |ratio| format!("{:.3}", of(ratio)))
        };
        table.row(vec![
            case.case.to_owned(),
            format!("{:.0}", rate.median),
            format!("{:.0}", rate.lower),
            format!("{:.0}", rate.upper),
            ratio(|ratio| ratio.median),
            ratio(|ratio| ratio.lower),
            ratio(|ratio| ratio.upper),
            grouped(case.received_bytes),
        ]);
    }
    Ok(table.print("no cases")?)
}

fn print_model(report: &ModelReport) -> Outcome {
    let mut table = Table::new(&["FORWARDER", ">WORKERS", ">INTERESTS/CPU s", ">TWO THREADS"]);
    for case in &report.cases {
        table.row(vec![
            case.forwarder.clone(),
            case.workers.to_string(),
            format!("{:.0}", case.interests_per_cpu_s),
            format!("{:.2} x", case.scaling),
        ]);
    }
    table.print("no cases")?;
    let verdict = &report.verdict;
    output::print_line(&format!(
        "{}: {} traces, {:.4} s; load of the machine {:.1}",
        verdict.property, verdict.traces, verdict.seconds, report.load
    ))?;
    for one in &verdict.simulators {
        output::print_line(&format!(
            "{}: {:.2} s, {:.0} times as long; {:.0} times with the {} traces of a fixed number",
            one.name, one.seconds, one.ratio, one.fixed_ratio, verdict.fixed_traces
        ))?;
    }
    let exact = verdict.stormpy.map_or_else(
        || "stormpy is not installed".to_owned(),
        |(seconds, loss)| format!("stormpy {loss:.7} in {seconds:.2} s"),
    );
    Ok(output::print_line(&format!("lost packets: {:.4}; {exact}", verdict.loss))?)
}

fn print_shards(report: &ShardsReport) -> Outcome {
    let mut table =
        Table::new(&[">SHARDS", "ARRIVAL", ">ns/EXCH", ">EXCH/S", ">SPEED-UP", ">OF INDEPENDENT"]);
    for case in &report.shards {
        table.row(vec![
            case.shards.to_string(),
            match case.arrival {
                Arrival::Local => "local".to_owned(),
                Arrival::Uniform => "uniform".to_owned(),
            },
            format!("{:.0}", case.ns_per_exchange),
            format!("{:.0}", case.exchanges_per_second),
            format!("{:.2}", case.speedup),
            format!("{:.2}", case.of_independent),
        ]);
    }
    table.print("no shards")?;
    Ok(())
}

fn print_trace(report: &TraceReport) -> Outcome {
    let mut table = Table::new(&["CASE", ">ns OFF", ">ns ON", ">COST", ">FROM", ">TO", ">SAMPLES"]);
    let percent = |part: f64| format!("{:+.2} %", part * 100.0);
    for case in &report.trace {
        let (from, to) = case.cost_spread;
        table.row(vec![
            case.case.clone(),
            format!("{:.0}", case.ns_per_exchange_off),
            format!("{:.0}", case.ns_per_exchange_on),
            percent(case.cost),
            percent(from),
            percent(to),
            grouped(case.samples),
        ]);
    }
    Ok(table.print("no case matches the filter")?)
}

fn print_pipeline(report: &PipelineReport) -> Outcome {
    let headings =
        ["CASE", ">ns/EXCH", ">FROM", ">TO", ">FLOOR ns", ">RATIO", ">HITS", ">EVICTED", ">MiB"];
    let mut table = Table::new(&headings);
    for case in &report.cases {
        let (from, to) = case.ns_per_exchange_spread;
        table.row(vec![
            case.case.clone(),
            format!("{:.0}", case.ns_per_exchange),
            format!("{from:.0}"),
            format!("{to:.0}"),
            format!("{:.0}", case.floor_ns),
            format!("{:.2}", case.ratio),
            format!("{:.0}%", case.hit_ratio * 100.0),
            grouped(case.cs_evictions),
            format!("{:.0}", case.resident_mib),
        ]);
    }
    Ok(table.print("no case matches the filter")?)
}

#[cfg(test)]
mod command_line_tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Arguments::command().debug_assert();
    }

    #[test]
    fn fractions_of_seconds_are_refused_where_seconds_are_measured() {
        assert!(super::whole_seconds("500ms").is_err() && super::whole_seconds("1500ms").is_err());
        assert_eq!(super::whole_seconds("2s"), Ok(std::time::Duration::from_secs(2)));
    }

    #[test]
    fn every_command_and_option_has_help() {
        fn check(command: &clap::Command) {
            assert!(command.get_about().is_some(), "{} has no help", command.get_name());
            for argument in command.get_arguments() {
                let place = format!("{} of {}", argument.get_id(), command.get_name());
                assert!(argument.get_help().is_some(), "{place} has no help");
            }
            command.get_subcommands().for_each(check);
        }
        let mut program = super::Arguments::command();
        program.build();
        check(&program);
    }
}
