//! `namewire bench relay`.

use std::time::Duration;

use crate::{
    CpuOfWorkers, Quartiles, RelayOptions, RelayReport, Transport, enter_namespace, run_relay,
};
use clap::Args;

use super::common::{at_least_one, end_when_interrupted, print_json};
use namewire::cli::output::{self, Table, counted, grouped};
use namewire::cli::shared::{Failure, Outcome};
use namewire::cli::shared::{List, numbers, processors_of, repeated};
use namewire::cli::shared::{positive_duration, size};

/// Maximum content of a Data; with headers a packet has at most 8800 bytes.
const PAYLOAD_MAX: usize = 8600;

/// Whole forwarders between real sockets: this one, a dumb relay, and those found on PATH
///
/// The forwarder runs on one processor, the load generator on another. Forwarders called `nfd` and
/// `ndnd` are measured too if they are found.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// Only cases whose name contains this, such as unix-100
    #[arg(long)]
    filter: Option<String>,
    /// Length of one measured stretch
    #[arg(long, value_parser = positive_duration, default_value = "1s", value_name = "DURATION")]
    stretch: Duration,
    /// Measured stretches per case and program
    #[arg(long, default_value_t = RelayOptions::default().rounds, value_parser = at_least_one())]
    rounds: usize,
    /// The forwarder's processor and the generator's
    #[arg(long, value_name = "FORWARDER,GENERATOR", default_value_t = List(vec![0, 1]))]
    cpus: List<usize>,
    /// First of the UDP ports to use on the loopback interface
    #[arg(long, default_value_t = RelayOptions::default().first_port)]
    first_port: u16,
    /// Measure this forwarder with these numbers of workers instead of the cases, such as 1,2; every program has 10,000
    /// routes
    #[arg(long, value_parser = numbers(1..=64_usize), value_name = "NUMBERS", conflicts_with = "filter")]
    workers: Option<List<usize>>,
    /// Measure one consumer over each of these transports instead of the cases: unix, tcp, udp, udp-veth (virtual
    /// Ethernet devices), ether (AF_PACKET on them), xdp (AF_XDP), memif (shared memory)
    ///
    /// Those with devices need root or user namespaces: the bench runs in namespaces of its own.
    #[arg(long, value_delimiter = ',', value_name = "TRANSPORTS", conflicts_with_all = ["filter", "workers"])]
    transport: Vec<Transport>,
    /// Sizes of the content of a Data, with --transport (100B,1200B,8000B if not given)
    #[arg(long, value_name = "SIZE,..", value_delimiter = ',', value_parser = size(0..=PAYLOAD_MAX))]
    payload: Vec<usize>,
    /// Exchanges in flight, with --transport (256 if not given) or --workers (256,4096)
    #[arg(long, value_name = "NUMBERS", value_parser = numbers(1..=65_536_u32))]
    window: Option<List<u32>>,
    /// With --transport, add cases with names, and so packets, of different lengths
    #[arg(long)]
    mixed: bool,
    /// Capacity of the Content Store of each forwarder, in packets
    #[arg(long, default_value_t = RelayOptions::default().cs_packets, value_name = "PACKETS", value_parser = clap::value_parser!(u32).range(1..=16_777_216))]
    cs_packets: u32,
    /// Says that this process has a network namespace to itself
    #[arg(long, hide = true)]
    in_namespace: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(options: &Options) -> Outcome {
    let Options { workers, transport, window, .. } = options;
    check_effect(options)?;
    check_repeats(options)?;
    if !options.in_namespace && transport.iter().any(|transport| transport.needs_devices()) {
        return Err(Failure::from(enter_namespace()));
    }
    let relay = RelayOptions {
        filter: options.filter.clone(),
        stretch: options.stretch,
        rounds: options.rounds,
        cpus: processors_of::<2>(&options.cpus)?.into(),
        first_port: options.first_port,
        workers: values(workers.as_ref()),
        transports: transport.clone(),
        payloads: payloads(&options.payload),
        windows: values(window.as_ref()),
        mixed: options.mixed,
        cs_packets: options.cs_packets,
    };
    end_when_interrupted()?;
    let report = run_relay(&relay, |line| output::note(&line))?;
    if options.json { print_json(&report) } else { print_relay(&report) }
}

/// Rejects options of another kind of `bench relay` than the selected one. clap's `requires` accepts an option if
/// what it requires conflicts with a given option.
fn check_effect(options: &Options) -> Outcome {
    let (workers, transport) = (options.workers.is_some(), !options.transport.is_empty());
    let given = [
        ("--window", options.window.is_some(), workers || transport, "--transport or --workers"),
        ("--payload", !options.payload.is_empty(), transport, "--transport"),
        ("--mixed", options.mixed, transport, "--transport"),
    ];
    match given.iter().find(|(_, is_given, has_effect, _)| *is_given && !has_effect) {
        Some((option, _, _, needed)) => {
            Err(Failure::Usage(format!("{option} has no effect without {needed}")))
        }
        None => Ok(()),
    }
}

/// Rejects options that would run one forwarder twice at the same time with the same files.
fn check_repeats(options: &Options) -> Outcome {
    match options.workers.as_ref().and_then(|list| repeated(&list.0)) {
        Some(count) => Err(Failure::Usage(format!("--workers: {count} is listed twice"))),
        None => Ok(()),
    }
}

fn payloads(given: &[usize]) -> Vec<usize> {
    match given {
        [] => RelayOptions::default().payloads,
        given => given.to_vec(),
    }
}

fn values<T: Clone>(list: Option<&List<T>>) -> Vec<T> {
    list.map(|list| list.0.clone()).unwrap_or_default()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate, shown as a whole number"
)]
fn print_relay(report: &RelayReport) -> Outcome {
    let headings = [
        "CASE",
        ">WORKERS",
        ">WINDOW",
        ">FACES",
        "NAMES",
        ">EXCH/S",
        ">Gbit/s",
        ">CPU µs",
        ">OF DUMB",
        ">PKT/READ",
        ">PKT/WRITE",
        ">LOSS",
        ">p50 µs",
        ">p99 µs",
        ">MiB",
        "NOTE",
    ];
    let mut table = Table::new(&headings);
    for case in &report.cases {
        table.row(vec![
            case.case.clone(),
            case.workers.to_string(),
            case.window.to_string(),
            case.faces.to_string(),
            if case.mixed { "mixed" } else { "equal" }.to_owned(),
            grouped(case.exchanges_per_s as u64),
            format!("{:.2}", case.data_gbit_per_s),
            format!("{:.2}", case.cpu_us_per_exchange),
            case.share_of_dumb.map_or_else(String::new, |share| format!("{:.0}%", share * 100.0)),
            case.packets_per_read.map_or_else(String::new, |packets| format!("{packets:.1}")),
            case.packets_per_write.map_or_else(String::new, |packets| format!("{packets:.1}")),
            format!("{:.3}%", case.loss * 100.0),
            format!("{:.1}", case.p50_us),
            format!("{:.1}", case.p99_us),
            format!("{:.0}", case.resident_mib),
            if case.generator_bound { "generator bound" } else { "" }.to_owned(),
        ]);
    }
    table.print("no case matches the filter")?;
    for CpuOfWorkers { window, workers, ratio } in &report.cpu_of_workers {
        output::print_line(&format!(
            "window {window}: {workers} workers take {:.2} of the CPU time per exchange of one ({})",
            ratio.median,
            spread(ratio)
        ))?;
    }
    Ok(())
}

/// Formats the spread of pairs, if there are enough of them.
fn spread(ratio: &Quartiles) -> String {
    let Quartiles { lower, upper, count, .. } = *ratio;
    match count {
        0..3 => counted(count as u64, "pair"),
        3.. => format!("half of {count} pairs between {lower:.2} and {upper:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_of_few_pairs_is_omitted() {
        let of = |count| spread(&Quartiles { lower: 1.0, median: 1.5, upper: 2.0, count });
        assert_eq!([of(1), of(2)], ["1 pair", "2 pairs"]);
        assert_eq!(of(3), "half of 3 pairs between 1.00 and 2.00");
    }
}
