//! `namewire trace`: service times and decisions in a running forwarder.

use std::time::Duration;

use clap::{Args, Subcommand};
use ndn_packet::Name;
use ndn_types::duration_ms;
use serde_json::{Value, json};

use super::arguments::{at_least_one, name};
use super::control::{ControlOptions, span};
use super::failure::{Failure, Outcome};
use super::interrupt;
use super::output::{self, Table, grouped};
use namewire_control::{
    ControlError, ServiceTimesReport, TimeHistogram, TraceLine, TracedPacket, WorkerServiceTimes,
};

/// Measure service times in a running forwarder, or show its decisions about packets
#[derive(Args, Debug)]
pub(super) struct Options {
    #[command(subcommand)]
    what: TraceCommand,
}

#[derive(Subcommand, Debug)]
enum TraceCommand {
    /// Show the distributions of service times
    ///
    /// Times to dispatch packets (decoding, hashing, dispatch table) and to forward them (tables, pipelines, strategy),
    /// without the system calls that receive and send. Workers measure randomly chosen bursts while the command runs.
    Latency {
        /// Length of the measurement
        #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = span)]
        duration: Duration,
        #[command(flatten)]
        control: ControlOptions,
        /// Print JSON, with the histograms
        #[arg(long)]
        json: bool,
    },
    /// Show the decisions about single packets
    ///
    /// One line per decision: time in seconds since 1970, worker, face that received the packet, kind of packet, name,
    /// and the decision: CS hit or insertion, PIT entry (new, aggregated, renewed, satisfied), FIB prefix with next hops
    /// and strategy, packets sent, drop reason. Packets that a face drops before they reach the tables are not shown:
    /// see `namewire face show`. Ctrl-C ends the trace. A worker traces 10000 packets per second at most; the number of
    /// lost packets is shown. Names longer than 512 bytes are cut. One client traces at a time.
    Packets {
        /// Only packets whose names have this prefix
        #[arg(long, value_name = "NAME", default_value = "/", value_parser = name)]
        name: Name,
        /// Only one of N packets
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = at_least_one::<u32>)]
        sample: u32,
        /// End after N packets
        #[arg(long, value_name = "N", value_parser = at_least_one::<u64>)]
        count: Option<u64>,
        #[command(flatten)]
        control: ControlOptions,
        /// Print JSON, one line per packet
        #[arg(long)]
        json: bool,
    },
}

/// Columns of the table: heading, part of all packets.
const QUANTILES: [(&str, f64); 5] =
    [(">p10", 0.1), (">p50", 0.5), (">p90", 0.9), (">p99", 0.99), (">p99.9", 0.999)];

pub(super) fn run(options: &Options) -> Outcome {
    match &options.what {
        TraceCommand::Latency { duration, control, json } => latency(*duration, control, *json),
        TraceCommand::Packets { name, sample, count, control, json } => {
            let (lines, end) = control.connect()?.trace_packets(name, *sample)?;
            output::note(&"tracing; Ctrl-C ends it");
            interrupt::on_interrupt(move || {
                // If the connection is closed, the loop ends.
                let _ = end.finish();
            })?;
            print_packets(lines, count.unwrap_or(u64::MAX), *json)
        }
    }
}

fn latency(span: Duration, control: &ControlOptions, json: bool) -> Outcome {
    let milliseconds = duration_ms(span);
    let mut client = control.connect()?;
    let report = client.measure_service_times(milliseconds)?;
    let mut total = WorkerServiceTimes::default();
    report.workers.iter().for_each(|worker| total.add(worker));
    if json { print_json(&report, &total) } else { print(&report, &total) }
}

/// Prints the lines of a trace until it ends or `count` packets were shown.
fn print_packets(
    lines: impl Iterator<Item = Result<TraceLine, ControlError>>,
    count: u64,
    json: bool,
) -> Outcome {
    let mut left = count;
    for line in lines {
        let line = line?;
        if json {
            let value = serde_json::to_value(&line);
            output::print_json_line(value.map_err(|error| Failure::Failed(error.to_string()))?)?;
        } else {
            text_lines(&line).iter().try_for_each(|text| output::print_line(text))?;
        }
        left -= u64::from(matches!(line, TraceLine::Packet(_)));
        if left == 0 {
            break;
        }
    }
    Ok(())
}

/// A line for each decision about a packet.
fn text_lines(line: &TraceLine) -> Vec<String> {
    let packet = match line {
        TraceLine::Packet(packet) => packet,
        TraceLine::Lost(count) => return vec![format!("{} packets lost so far", grouped(*count))],
    };
    let TracedPacket { worker, unix_ns, face_id, packet, name, decisions } = packet;
    let (seconds, micros) = (unix_ns / 1_000_000_000, unix_ns / 1000 % 1_000_000);
    let head = format!("{seconds}.{micros:06} worker {worker} face {face_id} {packet} {name}");
    if decisions.is_empty() {
        return vec![format!("{head}: no decision")];
    }
    decisions.iter().map(|decision| format!("{head}: {decision}")).collect()
}

fn stages(worker: &WorkerServiceTimes) -> [(&'static str, &TimeHistogram); 4] {
    [
        ("Interest dispatch", &worker.interest_dispatch),
        ("Data dispatch", &worker.data_dispatch),
        ("Interest forwarding", &worker.interest_forwarding),
        ("Data forwarding", &worker.data_forwarding),
    ]
}

fn print(report: &ServiceTimesReport, total: &WorkerServiceTimes) -> Outcome {
    let mut headings = vec!["WORKER", "NANOSECONDS FOR", ">MEASURED", ">MEAN"];
    headings.extend(QUANTILES.map(|(heading, _)| heading));
    let mut table = Table::new(&headings);
    let mut rows = |name: &str, worker: &WorkerServiceTimes| {
        for (stage, times) in stages(worker) {
            let mean = times.mean_ns().map_or_else(|| "-".to_owned(), |mean| format!("{mean:.0}"));
            let mut row = vec![name.to_owned(), stage.to_owned(), grouped(times.count), mean];
            row.extend(QUANTILES.map(|(_, quantile)| {
                times.quantile_ns(quantile).map_or_else(|| "-".to_owned(), grouped)
            }));
            table.row(row);
        }
    };
    for (number, worker) in report.workers.iter().enumerate() {
        rows(&number.to_string(), worker);
    }
    if report.workers.len() > 1 {
        rows("all", total);
    }
    Ok(table.print("no workers")?)
}

fn print_json(report: &ServiceTimesReport, total: &WorkerServiceTimes) -> Outcome {
    let workers = report.workers.iter().enumerate().map(|(number, worker)| {
        let mut value = worker_json(worker)?;
        value["worker"] = json!(number);
        Ok(value)
    });
    let workers = workers.collect::<Outcome<Vec<Value>>>()?;
    #[expect(clippy::cast_precision_loss, reason = "a time")]
    let seconds = report.nanoseconds as f64 / 1e9;
    let report =
        json!({ "elapsed_ms": seconds * 1000.0, "workers": workers, "total": worker_json(total)? });
    Ok(output::print_json(&report)?)
}

/// The histograms, with summary values in addition to their buckets.
fn worker_json(worker: &WorkerServiceTimes) -> Outcome<Value> {
    let value = serde_json::to_value(worker);
    let mut value = value.map_err(|error| Failure::Failed(error.to_string()))?;
    for (stage, times) in stages(worker) {
        let histogram = &mut value[stage.to_lowercase().replace(' ', "_")];
        histogram["mean_ns"] = json!(times.mean_ns());
        for (heading, quantile) in QUANTILES {
            let key = format!("{}_ns", heading.trim_start_matches('>').replace('.', "_"));
            histogram[key] = json!(times.quantile_ns(quantile));
        }
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use namewire_control::TracedDecision;

    use super::*;

    #[test]
    fn every_decision_about_a_packet_is_a_line() {
        let packet = TracedPacket {
            worker: 1,
            unix_ns: 1_700_000_000_000_042_000,
            face_id: 300,
            packet: "Interest".to_owned(),
            name: "/a/b".to_owned(),
            decisions: vec![TracedDecision::PitInserted, TracedDecision::CsHit],
        };
        let head = "1700000000.000042 worker 1 face 300 Interest /a/b: ";
        let expected = [format!("{head}PIT new"), format!("{head}CS hit")];
        assert_eq!(text_lines(&TraceLine::Packet(packet)), expected);
        assert_eq!(text_lines(&TraceLine::Lost(3)), ["3 packets lost so far"]);
    }

    #[test]
    fn every_histogram_is_printed_under_its_own_name() {
        let value = worker_json(&WorkerServiceTimes::default()).unwrap();
        let histograms = value.as_object().unwrap().values().filter(|one| one.is_object());
        assert_eq!(histograms.clone().count(), 4);
        for histogram in histograms {
            assert!(histogram["p99_9_ns"].is_null() && histogram["buckets"].is_array());
        }
    }
}
